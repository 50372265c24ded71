"""The composition root: everything is wired here, and nowhere else."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

from mcp_memory.capture.project import OWN_QUESTIONS, detect
from mcp_memory.config import Settings, environment, system_timezone
from mcp_memory.domain.budget import Tokenizer
from mcp_memory.domain.compaction import CompactionRules, parse_table
from mcp_memory.domain.events import (
    AGENT,
    BY,
    BY_AGENT,
    NOTES_CLIENT,
    NOTES_SESSION,
    PIN_ASKED,
    Captured,
    Event,
    EventType,
    Intake,
    Role,
)
from mcp_memory.domain.nodes import NOTE_KINDS, Kind, revised
from mcp_memory.domain.people import Viewer
from mcp_memory.domain.segments import busy
from mcp_memory.errors import NotAllowed, NotFound, SettingsError, UsageError, how_to_add
from mcp_memory.models import tokens
from mcp_memory.models.port import Ledger
from mcp_memory.store.port import Clock, IndexKeeper, Store
from mcp_memory.store.sqlite.fts5 import Fts5Index
from mcp_memory.store.sqlite.keys import synced_mark
from mcp_memory.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from mcp_memory.models.caller import Caller, ModelSettings
    from mcp_memory.navigate.answers import Answers
    from mcp_memory.navigate.context import Contexts
    from mcp_memory.pipeline.compact import Compactor
    from mcp_memory.pipeline.ingest import Intaker
    from mcp_memory.pipeline.loop import Pipeline
    from mcp_memory.pipeline.upgrade import Upgrades
    from mcp_memory.store.sqlite.inbox import SqliteInbox
    from mcp_memory.store.team_port import TeamStore
    from mcp_memory.team.asking import AskedTeam
    from mcp_memory.team.push import Pusher

logger = logging.getLogger(__name__)

_DAY_MS = 24 * 60 * 60 * 1000
#: The place of a server that is in no project; no project has such a root.
NOWHERE = "(a team's server)"


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's time, or the one at which a setting has it stand still."""

    fixed_ms: int | None = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 if self.fixed_ms is None else self.fixed_ms


@dataclass(frozen=True)
class App:
    """An open memory. Its parts are made when first used: a question needs no pipeline, an import no answers."""

    settings: Settings
    store: Store
    index: IndexKeeper
    clock: Clock
    #: Money is spent in real time, even where the memory's clock is stood still.
    spending: Clock
    zone: ZoneInfo
    home_root: str
    home_label: str
    home_remote: str
    #: Whether its answers are for the command line.
    typed: bool
    #: Whether it answers agents, who may not read everything.
    served: bool
    #: Whether it is the memory of a team, which no hook of this machine adds to.
    for_team: bool
    _exits: AsyncExitStack
    #: On a team's server: whose view of the memory this is, and the memory as a whole, which only reads are kept from.
    viewer: Viewer | None = None
    _whole: App | None = None

    @property
    def whole(self) -> App:
        """The memory itself, whoever looks at it."""
        return self._whole or self

    def seen_by(self, viewer: Viewer, by: str = "") -> App:
        """The memory as a member of the team sees it, or what of that one said. No project is the current one there."""
        store = cast("TeamStore", self.whole.store).seen_by(viewer, by)
        here = replace(self.whole, store=store, viewer=viewer, _whole=self.whole)
        return replace(here, home_root=NOWHERE, home_label="", home_remote="")

    @property
    def home(self) -> tuple[str, str, str]:
        """Root, label and remote of the project here."""
        return self.home_root, self.home_label, self.home_remote

    @cached_property
    def inbox(self) -> SqliteInbox:
        if self._whole:
            return self._whole.inbox
        from mcp_memory.store.sqlite.inbox import SqliteInbox

        return SqliteInbox(self.settings.inbox, self.store.identity, self._exits)

    @cached_property
    def ledger(self) -> Ledger:
        chosen = self.settings.summarizer
        cap = chosen.daily_token_cap if chosen.kind != "extractive" else 0
        return self.store.ledger(self.spending, self.zone, cap, chosen.price_table)

    @cached_property
    def caller(self) -> Caller | None:
        """The model that is set; none for the extractive summarizer. It is closed with the app."""
        # An agent that was asked for a summary may start a server of its own: that one must not ask another.
        if self.settings.summarizer.kind == "extractive" or OWN_QUESTIONS in self.home_root:
            return None
        from mcp_memory.models.caller import Caller

        caller = Caller(model_settings(self.settings), self.ledger, self.spending)
        self._exits.push_async_callback(caller.close)
        return caller

    @cached_property
    def intaker(self) -> Intaker:
        from mcp_memory.pipeline.ingest import Intaker

        settings = self.settings
        return Intaker(
            settings.capture.max_event_bytes,
            settings.segmentation.tool_result_chars,
            tokens.count_all,
            self.clock.now_ms,
            self.spending.now_ms,
        )

    @cached_property
    def compactor(self) -> Compactor:
        if self._whole:
            return self._whole.compactor
        from mcp_memory.pipeline.compact import Compactor
        from mcp_memory.summaries import ExtractiveFacets, ExtractiveSummarizer

        brief, rules = self.settings.brief, asdict(self.settings.compaction)
        windows = parse_table(rules.pop("context_lengths"))
        return Compactor(
            store=self.store,
            inbox=self.inbox,
            quick=ExtractiveSummarizer(),
            facets=ExtractiveFacets(),
            rules=CompactionRules(**rules),
            tokens=Tokenizer(tokens.count, tokens.cut_to),
            clock=self.clock,
            brief_tokens=brief.budget_tokens if brief.enabled else 0,
            windows=windows,
            news=self._news,
            is_local=not self.for_team,
        )

    def _news(self, slug: str, since_ms: int) -> list[str]:
        """What others of the team did in a project after a time, as far as it was fetched."""
        if not self.settings.account.exists():
            return []
        from mcp_memory.team.known import news_of

        return news_of(self.settings, slug, since_ms, time.time_ns() // 1_000_000)

    @cached_property
    def upgrades(self) -> Upgrades | None:
        """What the model, if one is set, writes again."""
        if not self.caller:
            return None
        from mcp_memory.models.summarizer import ModelRecords, ModelSummarizer
        from mcp_memory.pipeline.upgrade import Upgrades
        from mcp_memory.summaries import ExtractiveSummarizer

        self.compactor.author = ModelRecords(self.caller)
        return Upgrades(
            self.store,
            ModelSummarizer(self.caller, ExtractiveSummarizer()),
            self.store.lease("upgrades"),
            self.zone,
            tokens.count_all,
            self.compactor,
        )

    @cached_property
    def pipeline(self) -> Pipeline:
        if self._whole:
            return self._whole.pipeline
        from mcp_memory.clients import CLIENTS
        from mcp_memory.pipeline.loop import Pipeline
        from mcp_memory.summaries import ExtractiveSummarizer

        settings, store = self.settings, self.store

        async def zone_of_days() -> ZoneInfo:
            return ZoneInfo(await store.timezone(self.zone.key))

        upgrades = self.upgrades  # gives the compactor its author, so it comes first
        return Pipeline(
            store=store,
            inbox=self.inbox,
            compactor=self.compactor,
            lease=store.lease(),
            index=self.index,
            summarizer=ExtractiveSummarizer(),
            clients=dict(CLIENTS),
            intaker=self.intaker,
            rules=settings.segmentation.rules,
            zone_of_days=zone_of_days,
            spool=settings.spool,
            clock=self.clock,
            backup=lambda: store.refresh_backups(settings.backup.keep, self.spending),
            tidy=self.tidy,
            push=self.pusher.round,
            upgrades=upgrades,
            is_local=not self.for_team,
        )

    @property
    def team(self) -> AskedTeam | None:
        """The team's memory, if the user has joined one; looked for each time, since that may be while we run."""
        if self.viewer or not self.settings.account.exists():
            return None
        from mcp_memory.team.asking import asked_team

        return asked_team(self.settings, self._asked, self._exits)

    @cached_property
    def _asked(self) -> dict[int, AskedTeam | None]:
        return {}

    @cached_property
    def pusher(self) -> Pusher:
        from mcp_memory.team.push import Pusher

        return Pusher(self.settings, self.store)

    @property
    def answers(self) -> Answers:
        """What can be asked of this memory, and of the team's beside it."""
        team = self.team
        return replace(self._answers, team=team) if team else self._answers

    @cached_property
    def _answers(self) -> Answers:
        from mcp_memory.navigate.answers import Answers
        from mcp_memory.navigate.browse import Reach
        from mcp_memory.navigate.rendering import Renderer

        # Fitting an answer into its budget counts the same lines several times.
        count = lru_cache(maxsize=128)(tokens.count)
        renderer = Renderer(count, tokens.cut_to, self.typed, self.zone)
        reach = Reach.EVERYTHING
        if self.viewer:
            reach = Reach.TEAM
        elif self.served:
            reach = Reach.HOME if self.settings.privacy.isolate else Reach.NAMED
        return Answers(self.store, renderer, self.clock, self.zone, *self.home, reach)

    @property
    def contexts(self) -> Contexts:
        from mcp_memory.navigate.context import Contexts

        return Contexts(self.answers)

    async def remember(
        self,
        text: str,
        pin: bool = False,
        project: str | None = None,
        kind: str = Kind.NOTE,
        *,
        agent: str | None = None,
        pin_asked: bool = False,
    ) -> Event:
        """Store a note; it can be found at once. The same words at the same moment are one note.

        `agent` is the name of the client whose agent wrote it, as far as it is known; None for the user's own note.
        `pin_asked`: the agent wants it pinned, and the user has not been asked.
        """
        if not text.strip():
            raise UsageError("There is nothing to remember: the text is empty.")
        if kind not in NOTE_KINDS:
            raise UsageError(f"{kind[:40]!r} is not a kind of note; known are {', '.join(NOTE_KINDS)}.")
        if self.viewer:
            self.viewer.must_write()
            if not project:
                raise UsageError("A team's server is in no project: name the one that the note is on, as `project`.")
        author = self.viewer.name if self.viewer else ""
        root, label, remote = self.home
        # A session stays in the project it began in, so its name is the project's own place, not one that leads there.
        known = project or await self.store.project_of_root(root, label, remote)
        place = await self.store.root_of(known) if known else None
        if project and place is None:
            raise NotFound(f"There is no project {project!r} in memory. Leave `project` out to use the current one.")
        if place is not None:
            root, label, remote = place, "", ""
        now = self.clock.now_ms()
        captured = Captured(
            client=NOTES_CLIENT,
            session_id=NOTES_SESSION + (f"{author}:{root or label}" if author else root or label),
            source_key=f"note:{now}:{text}" if agent is None else f"note:{now}:agent:{text}",
            timestamp_ms=now,
            event_type=EventType.NOTE,
            role=Role.USER if agent is None else Role.ASSISTANT,
            text=text.strip(),
            metadata={
                "kind": str(kind),
                **({"pin": True} if pin else {}),
                **({BY: BY_AGENT, AGENT: agent} if agent is not None else {}),
                **({PIN_ASKED: True} if pin_asked and not pin else {}),
            },
        )
        event = self.intaker.prepare([captured])[0]
        await self.whole.store.add([Intake((event,), root, label, remote, author)])
        return replace(event, project=await self.store.project_of_root(root, label, remote) or "")

    async def pin(self, note: Event, pinned: bool) -> None:
        """Let a note stand at the beginning of each session, or no longer."""
        if self.viewer:
            self.viewer.must_write()
            if note.author != self.viewer.name:
                raise NotAllowed("This is someone else's note: only who wrote it pins or changes it.")
        await self.whole.store.pin(note.key, pinned)

    async def tidy(self) -> None:
        """Drop what was noted of answers to agents longer ago than it is kept."""
        await self.inbox.expire_handed(self.spending.now_ms() - self.settings.recall.keep_days * _DAY_MS)

    async def status(self, *, brief: bool = False) -> dict[str, Any]:
        """What is stored and what waits; briefly without what takes a look at every node."""
        from mcp_memory.navigate.shapes import compactions_shape, counts_shape, picked, tombstones_shape, viewer_shape
        from mcp_memory.summaries import ExtractiveSummarizer

        if self.viewer:
            return viewer_shape(self.viewer, self.zone.key, await self.store.active_projects())
        counts, places = await self.store.counts(busy(self.clock.now_ms())), self.settings
        local, index, found = await self.inbox.counts(), await self.index.state(), await self.store.compactions()
        files = [file.with_name(file.name + log) for file in (places.database, places.inbox) for log in ("", "-wal")]
        facts = {
            "home": str(places.home),
            **counts_shape(counts),
            "inbox": local.waiting,
            "unknown": local.unknown,
            "spool": len(list(places.spool.glob("*.json"))) if places.spool.is_dir() else 0,
            "backlog": {
                "sessions": counts.dirty_sessions,
                "segments": counts.dirty_segments,
                "periods": counts.dirty_nodes,
            },
            "db_bytes": counts.server_bytes + sum(file.stat().st_size for file in files if file.exists()),
            "index": picked(index, "kind state") | ({"bytes": index.own_bytes} if index.own_bytes else {}),
            **({"llm": await self.ledger.spending()} if brief else await self.ledger.facts()),
            "compactions": compactions_shape(found),
            "lease": counts.lease,
            "set_aside": [picked(bad, "path line reason") for bad in local.set_aside],
            "failed": [picked(work, "stage what project reason") for work in await self.store.failures()],
        }
        if progress := revised(counts.revisions, ExtractiveSummarizer.revision):
            facts["rebuilding_summaries"] = dict(zip(("done", "of"), progress, strict=True))
        facts["forgotten"] = tombstones_shape(await self.store.tombstones())
        if team := await self.pusher.facts():
            facts["team"] = team
        if local.unknown:
            payloads = f"{local.unknown} payloads are" if local.unknown > 1 else "1 payload is"
            facts["note"] = f"{payloads} of no known form: `mcp-memory doctor` says of which client, and what to do"
        return facts


@asynccontextmanager
async def open_app(
    settings: Settings,
    cwd: Path | None = None,
    clock: Clock | None = None,
    *,
    typed: bool = False,
    served: bool = False,
    for_team: bool = False,
) -> AsyncIterator[App]:
    """Open the memory of these settings, as seen from a directory.

    `typed`: its answers are for the command line; `served`: agents ask, for whom an unknown place is no licence to read
    all there is; `for_team`: members of a team do, each as `App.seen_by` says.
    """
    spending = clock or SystemClock()
    clock = clock or SystemClock(settings.now_ms)
    async with AsyncExitStack() as stack:
        store, keeper = await _store(settings, clock, stack)
        zone = await _zone(settings, store)
        place = detect(str(cwd or _cwd()), {"MCP_MEMORY_PROJECT": settings.project} if settings.project else {})
        home = place.root, place.label, place.remote
        app = App(settings, store, keeper, clock, spending, zone, *home, typed, served, for_team, stack)
        await _forget_again(app)
        yield app


async def _forget_again(app: App) -> None:
    """Erase what was forgotten from a memory that was put back to an earlier state, as by restoring a backup."""
    mark = synced_mark(app.settings.home)
    if not mark or mark in await app.store.erasure_marks():
        return
    from mcp_memory.pipeline.keep_forgotten import keep_forgotten

    again = await keep_forgotten(app.store, app.inbox)
    await app.store.scrub()
    if again and again.events:
        logger.warning(
            "This memory is an earlier state, such as a restored backup: %d events that were forgotten since were "
            "erased from it again.",
            again.events,
        )


async def _zone(settings: Settings, store: Store) -> ZoneInfo:
    """The zone of the memory's days, which was fixed when it was first used."""
    wanted = settings.calendar.timezone
    zone = ZoneInfo(await store.timezone(wanted or system_timezone()))
    if wanted not in ("", zone.key):
        logger.warning(
            "The days of this memory are those of %s; `mcp-memory process --rebuild` changes them to %s.",
            zone.key,
            wanted,
        )
    return zone


async def _store(settings: Settings, clock: Clock, stack: AsyncExitStack) -> tuple[Store, IndexKeeper]:
    """The memory where it lies, and what keeps its index."""
    if not settings.store.url:
        if settings.store.keep_quarters:
            raise SettingsError("The setting [store] keep_quarters needs [store] url: a file keeps all.")
        store = await stack.enter_async_context(SqliteStore.open(settings.database, clock.now_ms()))
        return store, _index(settings, store, stack)
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise SettingsError(
            f"The setting [store] url needs packages that are not installed: {how_to_add('postgres')}, or leave it out."
        )
    if settings.index.kind != "fts5":
        raise SettingsError('With [store] url the index is that of the database: leave out [index] kind = "whoosh".')
    from mcp_memory.store.postgres.store import PostgresStore

    server = await stack.enter_async_context(PostgresStore.open(settings.store.url, settings.store.keep_quarters))
    return server, server.index_keeper


def _index(settings: Settings, store: SqliteStore, stack: AsyncExitStack) -> IndexKeeper:
    """Let the index answer that is set. FTS5 is always written, and stands in while Whoosh is out of step."""
    if settings.index.kind == "fts5":
        return Fts5Index(store.database, leftovers=settings.whoosh)
    if find_spec("whoosh") is None:
        raise SettingsError(
            'The setting [index] kind = "whoosh" needs a package that is not installed: '
            f'{how_to_add("whoosh")}, or set it to "fts5".'
        )
    from mcp_memory.store.whoosh.index import WhooshIndex

    whoosh = WhooshIndex(store, settings.whoosh, Fts5Index(store.database))
    stack.callback(whoosh.close)
    store.use(whoosh)
    return whoosh


def model_settings(settings: Settings) -> ModelSettings:
    """How the model that is set is asked."""
    from mcp_memory.models.caller import ModelSettings

    chosen = settings.summarizer
    whom = chosen.kind, chosen.preferred, settings.api_key, chosen.base_url
    limits = chosen.max_output_tokens, chosen.timeout_seconds, chosen.concurrency
    return ModelSettings(*whom, *limits, chosen.command, environment())


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"
