"""The team's memory as agents on this machine ask it: only about what is the team's, for so long and no longer.

`AskedTeam` is what the answers know as their `Colleagues`. Beside that it keeps in a file which projects the team has,
and what others did there since one's own last session, for the brief that the next one begins with.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from typing import Any

import anyio

from mcp_memory.capture.redaction import redact
from mcp_memory.config import Settings
from mcp_memory.domain.events import EventQuery
from mcp_memory.domain.nodes import parse_grip_id
from mcp_memory.domain.people import ProjectName, TeamReply, valid_name
from mcp_memory.domain.quoting import quoted_behind_label
from mcp_memory.domain.text import REDACTED, safe
from mcp_memory.errors import MemoryFault, TeamFault, TeamRefused
from mcp_memory.store.port import Clock, Store
from mcp_memory.team.account import TeamAccount
from mcp_memory.team.client import PATIENCE_SECONDS, TeamClient
from mcp_memory.team.known import TeamKnown, drop_outdated_news

logger = logging.getLogger(__name__)

#: For how long it is taken for known which projects the team has; a project that is not among them is asked for sooner.
KNOWN_MS, ASKED_AGAIN_MS = 600_000, 60_000
#: How often news are fetched, of how many projects, from how far back; and how many lines of them are kept.
NEWS_SECONDS, _PROJECTS, _NEWS_MS, _NEWS = 600.0, 10, 14 * 86_400_000, 2
_SILENT = "The team's memory did not answer, so this is from your own alone."
_NOTHING_LEFT = "The team was not asked: all of the question is private, so this is from your own memory alone."
_REFUSED = "The team's server does not accept your token any more, so this is from your own memory alone."


def redacted(value: Any) -> Any:
    """What may leave this machine of an argument: no secret, and nothing that stands between <private> tags."""
    if isinstance(value, str):
        clear = redact(value)
        if clear == value:
            return value
        left = REDACTED.sub(" ", clear)
        return left.strip() if any(map(str.isalnum, left)) else ""
    return [redacted(item) for item in value] if isinstance(value, list | tuple) else value


def asked_team(settings: Settings, made: dict[int, AskedTeam | None], exits: AsyncExitStack) -> AskedTeam | None:
    """Whom the account in the data directory asks, if it is one; looked at anew when the file is another one."""
    try:
        stamp = settings.account.stat().st_mtime_ns
        if stamp not in made:
            made[stamp] = None
            if account := TeamAccount.load(settings):
                made[stamp] = asked = AskedTeam(account, settings)
                exits.push_async_callback(asked.close)
        return made[stamp]
    except OSError:
        return None
    except MemoryFault as error:
        logger.warning("The team is not asked: %s", error)
        return None


class AskedTeam:
    """Asks the team's server of one account."""

    def __init__(self, account: TeamAccount, settings: Settings, client: TeamClient | None = None) -> None:
        self._account, self._settings = account, settings
        self._client = client or TeamClient(account)
        self._client.heed_erasure = self._heed
        self._known: TeamKnown | None = None
        #: An earlier version kept news in the briefs themselves, which are then written anew.
        self._has_old_briefs = False
        self._seconds = settings.team.timeout_ms / 1000

    @property
    def name(self) -> str:
        return self._account.name

    async def ask(self, tool: str, arguments: Mapping[str, Any], project: ProjectName | str | None) -> TeamReply | None:
        ends = time.monotonic() + self._seconds
        try:
            named: object = project
            if isinstance(project, ProjectName):
                slug = await self._slug(project, ends)
                if slug is None:
                    return None
                named = {"remote": project.remote, "name": slug}
            given = {name: redacted(value) for name, value in arguments.items() if value is not None}
            if any(value == "" and arguments[name] for name, value in given.items()):
                return TeamReply(trouble=_NOTHING_LEFT)
            question = {"tool": tool, "arguments": given, "project": named}
            return TeamReply(await self._client.post("/team/ask", question, max(ends - time.monotonic(), 0.001)))
        except TeamRefused:
            return TeamReply(trouble=_REFUSED)
        except TeamFault as error:
            logger.info("The team's memory was asked in vain: %s", error)
            return TeamReply(trouble=_SILENT)
        except Exception:  # no answer of one's own may fail with it
            logger.exception("The team's memory could not be asked")
            return TeamReply(trouble=_SILENT)

    async def close(self) -> None:
        with anyio.move_on_after(1, shield=True):
            await self._client.close()

    def _heed(self, mark: str) -> None:
        """Drop news at once that the server may have erased."""
        drop_outdated_news(self._settings, self._account.url, mark)
        if self._known and self._known.mark != mark:
            self._known.drop_news()
            self._known.mark = mark

    # which projects the team has

    async def _slug(self, project: ProjectName, ends: float) -> str | None:
        known = await self._fresh(KNOWN_MS, ends)
        slug = known.slug_of(project)
        if slug is None:
            slug = (await self._fresh(ASKED_AGAIN_MS, ends)).slug_of(project)
        return slug

    async def _fresh(self, age_ms: int, ends: float) -> TeamKnown:
        """What is known of the team, asked for anew if that is older; where it cannot be, what was known before."""
        if self._known is None:
            known = await anyio.to_thread.run_sync(TeamKnown.load, self._settings)
            self._has_old_briefs = bool(known.server) and not known.mark
            self._known = known if known.server == self._account.url else TeamKnown(self._account.url)
        known = self._known
        if not 0 <= _now_ms() - known.asked_ms < age_ms:
            try:
                await self._fetch(known, max(ends - time.monotonic(), 0.001))
            except TeamRefused:
                raise
            except TeamFault:
                if not known.asked_ms:
                    raise
        return known

    async def _fetch(self, known: TeamKnown, seconds: float) -> None:
        told = (await self._client.get("/team/me", seconds)).get("projects")
        known.projects = [
            {"slug": str(one.get("slug", ""))[:80], "remote": str(one.get("remote", ""))[:500]}
            for one in (told if isinstance(told, list) else [])[:5_000]
            if isinstance(one, dict)
        ]
        known.asked_ms = _now_ms()
        # Another server of this machine may have fetched news meanwhile, or someone have erased them.
        kept = await anyio.to_thread.run_sync(TeamKnown.load, self._settings)
        known.drop_news()
        if kept.server == known.server and kept.mark == self._client.erasure:
            known.news_ms, known.news = kept.news_ms, kept.news
        known.mark = self._client.erasure
        await self._keep(known)

    async def _keep(self, known: TeamKnown) -> None:
        with suppress(MemoryFault):  # it is only remembered for the next start
            await anyio.to_thread.run_sync(known.save, self._settings)

    # what others did, for the brief

    async def run(self, store: Store, clock: Clock) -> None:
        """While a server runs: have all ready that a question needs, and now and then fetch what is new.

        The library that speaks to the server is loaded here, in a thread, before anyone asks.
        """
        while True:
            try:
                await self.refresh(store, clock)
            except TeamFault as error:
                logger.info("News of the team wait: %s", error)
            except MemoryFault as error:
                logger.warning("News of the team wait: %s", error)
            await anyio.sleep(NEWS_SECONDS)

    async def refresh(self, store: Store, clock: Clock) -> None:
        """Learn which projects the team has, and what others did in those that are here, too.

        Several servers run on one machine: one of them asks, the others read what it kept.
        """
        known = await self._fresh(KNOWN_MS, time.monotonic() + PATIENCE_SECONDS)
        kept = await anyio.to_thread.run_sync(TeamKnown.load, self._settings)
        if kept.server == known.server and 0 <= _now_ms() - kept.news_ms < NEWS_SECONDS * 900:
            known.news_ms, known.news, known.mark = kept.news_ms, kept.news, kept.mark
            return
        before, marks = known.news, set[str]()
        remotes, news = await store.remotes(), dict[str, list[tuple[int, str]]]()
        theirs = [slug for slug in await store.slugs() if known.slug_of(ProjectName(remotes.get(slug, ""), slug))]
        last = {slug: await store.events(EventQuery(slug, last=1)) for slug in theirs}
        times = {slug: events[-1].timestamp_ms for slug, events in last.items() if events}
        for slug in sorted(times, key=lambda one: -times[one])[:_PROJECTS]:
            since = max(times[slug], clock.now_ms() - _NEWS_MS)
            name = {"remote": remotes.get(slug, ""), "name": known.slug_of(ProjectName(remotes.get(slug, ""), slug))}
            question = {"tool": "news", "arguments": {"since_ms": since}, "project": name}
            told = (await self._client.post("/team/ask", question)).get("lines")
            marks.add(self._client.erasure)
            if lines := _lines(told if isinstance(told, list) else []):
                news[slug] = lines
        changed = [slug for slug in {*news, *before} if news.get(slug) != before.get(slug)]
        if self._has_old_briefs:
            changed, self._has_old_briefs = await store.slugs(), False
        if marks <= {known.mark}:
            known.news, known.news_ms = news, _now_ms()
        else:  # something was erased meanwhile, perhaps some of these; they are asked for again
            known.drop_news()
        await self._keep(known)
        for slug in changed:
            await store.renew_brief(slug)


def _lines(told: Sequence[object]) -> list[tuple[int, str]]:
    """Lines for a brief, of what the server told: who, when, what, and the grip that leads to the words."""
    found = []
    for one in told[:_NEWS]:
        try:
            assert isinstance(one, dict)
            when, grip = datetime.fromisoformat(str(one["time"])), str(one["grip_id"])
            parse_grip_id(grip)
            words = quoted_behind_label(safe(str(one["text"])[:2_000]), 160)
            line = f"{valid_name(str(one['author']))}, {when.date()}: {words} {grip}"
            found.append((round(when.timestamp() * 1000), line))
        except (AssertionError, KeyError, ValueError, OverflowError, MemoryFault):
            continue
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
