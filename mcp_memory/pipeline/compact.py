"""Beside the stages that build the tree: a session that outgrows its model's window is condensed to a record; and
what the hook prints is kept ready, a project's brief and that of a session which goes on.

Whether to act is decided in `domain/compaction`; here the words are condensed and records appended. The stage asks no
model, since a client that is about to forget waits for nobody: `upgrade` lets one write the record anew. A session goes
on after a compaction or a resume; its agent is given the record, and how the session ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from anyio import to_thread
from anyio.lowlevel import checkpoint

from mcp_memory import lexicon
from mcp_memory.capture.redaction import Clean
from mcp_memory.capture.team_news import HEAD, place_of_news
from mcp_memory.domain.budget import Tokenizer, first_lines, in_parts
from mcp_memory.domain.compaction import (
    CompactionRules,
    Decision,
    Usage,
    decide,
    measure,
    shorter_tail,
    tail_start,
)
from mcp_memory.domain.events import MESSAGES, Event, EventQuery, EventType, Role
from mcp_memory.domain.failures import brief_failure, is_failure_of_one, record_failure
from mcp_memory.domain.nodes import BriefSource, Depth, depth_of, note_author, note_shown, quoted_title, user_first
from mcp_memory.domain.quoting import quoted, quoted_name
from mcp_memory.domain.records import (
    Account,
    Body,
    Record,
    body_text,
    combined,
    fold,
    follow,
    quoted_record,
    record_key,
    renew,
    shortened,
    text_key,
)
from mcp_memory.domain.text import ELLIPSIS
from mcp_memory.errors import SEE_SESSIONS, MemoryFault, NotFound, SummarizerError
from mcp_memory.models.port import FacetFinder, RecordAuthor, Summarizer
from mcp_memory.pipeline.segment import log_failure
from mcp_memory.store.inbox_port import Inbox
from mcp_memory.store.port import Clock, Share, Store

logger = logging.getLogger(__name__)

BATCH = 200
#: How much of the window a record may take, so that a chain on a small model still makes room.
_RECORD_SHARE = 4
_MOST_TOKENS = 4_000
#: What a summarizer is given at once; more is condensed part by part.
PART_TOKENS = 8_000
#: A tool's output says little to a reader who cannot see the screen; an error is worth a little more.
TOOL_CHARS, FAILED_CHARS = 400, 800
_NOTHING = Body("Nothing was said in words.")
#: Of what the hook prints.
MAX_CHARS = 8_900
_FOOT = "</memory>"
_GIST, _TITLE = 220, 220
#: Of the room, what the end of the conversation may take; the record has the rest.
_TAIL_SHARE = 4


@dataclass(frozen=True, slots=True)
class Compacted:
    """What came of one look at a session."""

    decision: Decision
    usage: Usage
    record: Record | None = None


@dataclass(slots=True)
class Compactor:
    """Condenses sessions to records, and keeps ready what the hook prints when such a session goes on.

    `author` is the model, if there is one, for a user who waits for its words. `brief_tokens` is how long the hook's
    text may be; 0: none is wanted.
    """

    store: Store
    inbox: Inbox
    quick: Summarizer
    facets: FacetFinder
    rules: CompactionRules
    tokens: Tokenizer
    clock: Clock
    brief_tokens: int
    windows: Mapping[str, int] = field(default_factory=dict)
    author: RecordAuthor | None = None
    #: What others of a team did in a project after a time, in lines for its brief.
    news: Callable[[str, int], Sequence[str]] = lambda slug, since_ms: ()
    #: Whether hooks of this machine print what is kept ready.
    is_local: bool = True

    async def run(self, share: Share) -> tuple[int, int]:
        """Look at a batch of sessions that have grown, each once, as time allows; returns how many are settled.

        The second number is how many could not be compacted and are set aside.
        """
        settled, failures = [], []
        for account in await self.store.accounts_due(self.clock.now_ms(), BATCH):
            try:
                result = await self.look(account)
                await self.keep_text(account, result.record)
            except Exception as error:
                if not is_failure_of_one(error):
                    raise
                log_failure(f"Session {account.session_id} could not be compacted and is set aside", error)
                failures.append(record_failure(account, error))
                continue
            settled.append(account)
            if share.is_over():
                break
        await self.store.settle_accounts(settled, share.token)
        await self.store.set_aside(failures, self.clock.now_ms(), share.token)
        return len(settled), len(failures)

    async def compact(self, session_id: str, *, force: bool = False) -> Compacted:
        """Make a record of one session now, if there is reason to, or because the user wants it.

        The model writes it, if there is one; if that fails, the words are chosen.
        """
        session_id = session_id.strip().removeprefix("session:")
        account = await self.store.account(session_id)
        if account and force and await self.store.drop_broken_records(account):
            # What no longer agrees with its events is made anew from those that are there.
            account = await self.store.account(session_id)
        if account is None:
            raise NotFound(f"There is no session {session_id[:80]!r} in memory.", SEE_SESSIONS)
        wanted = replace(account, asked="user") if force else account
        try:
            result = await self.look(wanted, self.author)
        except SummarizerError as error:
            if self.author is None:
                raise
            logger.warning("%s The record is extractive.", error)
            result = await self.look(wanted)
        await self.keep_text(account, result.record)
        return result

    async def look(self, account: Account, author: RecordAuthor | None = None) -> Compacted:
        history, usage = measure(
            self.rules, account.turns, account.last, len(account.chain), account.asked, self.windows
        )
        decision = decide(self.rules, history, usage)
        if not decision.act:
            return Compacted(decision, usage)
        record, sources = await self._record(account, decision, usage, author)
        if not await self.store.save_record(account, record, sources):
            return Compacted(Decision(False, "nothing new"), usage)
        logger.info(
            "Compacted session %s: %s, depth %d, %d of %d tokens (%.2f) to %d",
            *(account.session_id, decision.reason, record.depth, usage.tokens, usage.window, usage.ratio),
            record.tokens_after,
        )
        return Compacted(decision, usage, record)

    async def _record(
        self, account: Account, decision: Decision, usage: Usage, author: RecordAuthor | None
    ) -> tuple[Record, list[Event]]:
        """The record and its sources. If it and the tail are still too much, it is shortened; then the tail is."""
        last, chain = account.last, account.chain
        room, size = round(self.rules.trigger_ratio * usage.window), self.rules.preserve_recent
        for last_try in (False, True):
            start = tail_start(account.turns, size)
            sources = await self.store.events(
                EventQuery(
                    session_id=account.session_id,
                    client=account.client,
                    after=last.through if last else None,
                    through=account.turns[start - 1].place,
                    summarized=True,
                )
            )
            own, wrote = await self.share(account, last, sources, author)
            # What the record takes over from those before it, and what is new.
            if last and decision.refresh:
                body = renew(chain[-2].body if len(chain) > 1 else None, last.body, own)
            else:
                body = follow(last.body if last else None, own)
            kept = sum(turn.tokens for turn in account.turns[start:])
            body = self.fitting(body, kept, usage.window)
            smaller = shorter_tail(account.turns, size, self.size(body), room)
            if last_try or self.size(body) + kept < room or smaller >= size:
                break
            size = smaller
        through = account.turns[start - 1].place
        depth = len(chain) - decision.refresh
        refreshes = last.id if last and decision.refresh else None
        record = Record(
            key=record_key(account.session_key, depth, through, refreshes),
            timestamp_ms=self.clock.now_ms(),
            depth=depth,
            parent_id=chain[depth - 1].id if depth else None,
            body=body,
            event_ids=(),
            tokens=self.size(body),
            written_by=wrote,
            reason=decision.reason,
            refreshes=refreshes,
            through=through,
            seen=account.turns[-1].place,
            messages=(last.messages if last else 0) + sum(turn.is_message for turn in account.turns[:start]),
            tokens_before=usage.tokens,
            tokens_after=self.size(body) + kept,
            window=usage.window,
        )
        return record, sources

    def fitting(self, body: Body, kept: int, window: int) -> Body:
        """The body in its share of the window, or in half of that if it is too much beside the tail that is kept."""
        most = min(_MOST_TOKENS, window // _RECORD_SHARE)
        body = shortened(body, most, self.tokens.count)
        full = self.size(body) + kept >= round(self.rules.trigger_ratio * window)
        return shortened(body, most // 2, self.tokens.count) if full else body

    def size(self, body: Body) -> int:
        return self.tokens.count(body_text(body))

    async def keep_text(self, account: Account, record: Record | None) -> None:
        if not self.is_local:
            return
        latest, place = record or account.last, text_key(account.client, account.session_id)
        if latest:
            tail = await self.store.events(
                EventQuery(
                    session_id=account.session_id,
                    client=account.client,
                    types=MESSAGES,
                    last=self.rules.preserve_recent,
                )
            )
            budget = self.brief_tokens
            text = session_brief(account, latest, tail, budget, self.tokens.count) if budget else ""
            await self.inbox.keep({place: text}, self.clock.now_ms())
        else:  # of a record that no longer agreed with its events
            await self.inbox.drop([place])

    async def refresh_briefs(self, lease_token: int) -> int:
        """Write the briefs of the projects whose days have changed; returns how many failed and are set aside."""
        failures = []
        for source in await self.store.outdated_briefs(50):
            try:
                if self.is_local:
                    await self._keep_brief(source)
            except Exception as error:
                if not is_failure_of_one(error):
                    raise
                log_failure(f"The brief of {source.slug} could not be written and is set aside", error)
                failures.append(brief_failure(source, error))
                continue
            await self.store.settle_brief(source, lease_token)
        await self.store.set_aside(failures, self.clock.now_ms(), lease_token)
        return len(failures)

    async def _keep_brief(self, source: BriefSource) -> None:
        own = await self.store.events(EventQuery(source.slug, last=1))
        news = self.news(source.slug, own[-1].timestamp_ms) if own and self.brief_tokens else ()
        since_ms = own[-1].timestamp_ms if own else 0
        text = ""
        if self.brief_tokens:
            text = project_brief(source, self.brief_tokens, self.tokens.count, news, since_ms)
        await self.inbox.keep(dict.fromkeys(source.roots, text), self.clock.now_ms())

    async def share(
        self, account: Account, before: Record | None, events: Sequence[Event], author: RecordAuthor | None
    ) -> tuple[Body, str]:
        """What these events add to the record `before` them, and who wrote it: the model, if one is given."""
        try:
            return await self._share(account, before, events, author)
        except MemoryFault:
            raise
        except Exception as error:
            # One odd session must not keep the pipeline from all others; it is set aside.
            raise SummarizerError(f"The summarizer met an unexpected error ({type(error).__name__}).") from error

    async def _share(
        self, account: Account, before: Record | None, events: Sequence[Event], author: RecordAuthor | None
    ) -> tuple[Body, str]:
        """Part by part: a model is told the record as it stands by then, so that it knows what it adds to."""
        node_id, wrote = f"session:{account.session_id}", ""
        context: list[Event] = []
        if before and author is None:
            # The record before, in the form in which a summarizer takes what came before.
            said = Event(
                key=before.key,
                client=account.client,
                session_id=account.session_id,
                project=account.project,
                timestamp_ms=before.timestamp_ms,
                event_type=EventType.COMPACTION,
                role=Role.SYSTEM,
                text=Clean(body_text(before.body)),  # made of events, which are clean
                tokens=before.tokens,
            )
            context = [said]
        # What was decided, and what the end left open, is seen only in the whole: an answer may stand in another part
        # than its question, and an answer or a list of things to do is not cut short.
        found = await to_thread.run_sync(self.facets.find, events)
        bodies: list[Body] = []
        for part in self.parts(events):
            # Choosing never waits by itself; a server must be able to answer in between.
            await checkpoint()
            if author is None or depth_of(sum(self.tokens.count(event.text) for event in part)) is Depth.NONE:
                summary, context = await self.quick.segment(part, context), []
                points = [point for point in summary.bullets if not _stands_in(point.text, found.decisions)]
                told = Body(
                    f"{summary.title.rstrip('.')}.", tuple(point.kind.shown(quoted(point.text)) for point in points)
                )
            else:
                held = before.body if before else None
                held = follow(held, fold(bodies)) if bodies else held
                told, wrote = await author.condense(part, prior=body_text(held) if held else "", node_id=node_id)
                told = replace(told, key_points=tuple(map(quoted, told.key_points)))
            # What a summary says and what it would lose, in turn: only the first of a long session's points have room.
            turns = zip_longest(told.key_points, self.facets.points(part))
            bodies.append(replace(told, key_points=tuple(text for pair in turns for text in pair if text)))
        told = fold(bodies or [_NOTHING])
        own = fold([replace(told, context=combined(told.context, found))]) if bodies else told
        if author and wrote and len(bodies) > 1:
            own = replace(own, summary=await author.narrate([body.summary for body in bodies], node_id=node_id))
        return own, wrote or self.quick.name

    def parts(self, events: Sequence[Event]) -> list[list[Event]]:
        """The events in order, in parts that a summarizer can take: no empty ones, tools cut short, none too large."""
        quiet: list[tuple[Event, int]] = []
        for event in filter(lambda event: event.says_something, events):
            text: str = event.text
            if event.role is Role.TOOL:
                text = text[: event.call_end + FAILED_CHARS if event.metadata.get("failed") else TOOL_CHARS]
            elif event.event_type is EventType.COMPACTION:
                text = text[:TOOL_CHARS]
            if len(text) > PART_TOKENS and self.tokens.count(text) > PART_TOKENS:
                head = self.tokens.cut_to(text, PART_TOKENS * 3 // 4)
                # The end of a long message is often what it comes to.
                text = self.tokens.cut_to(f"{head}\n…\n{text[-PART_TOKENS // 2 :]}", PART_TOKENS)
            # What was counted whole when it was stored need not be counted again.
            whole = text == event.text and event.role is not Role.TOOL
            shown = event if text == event.text else replace(event, text=Clean(text))
            quiet.append((shown, event.tokens if whole else self.tokens.count(text)))
        return in_parts(quiet, PART_TOKENS)


def _stands_in(text: str, told: Sequence[str]) -> bool:
    """Whether a text, perhaps cut short, is one of those that are told anyway."""
    return any(other.startswith(text.rstrip(ELLIPSIS)) for other in told)


def project_brief(
    source: BriefSource, budget: int, count: Callable[[str], int], news: Sequence[str] = (), since_ms: int = 0
) -> str:
    """The newest days first, and before them pinned notes and what others did meanwhile, as much as fits.

    What others did is not kept in it: a place is, where whoever prints the brief puts it in.
    """
    if not source.days and not source.notes:
        return ""
    introduction = "\n".join(lexicon.sections("briefs")["project"])
    head = f'<memory project="{source.slug}">\n{introduction}\n'
    lines = [f"Pinned{note_author(event)}: {note_shown(event, 300)}" for event in user_first(source.notes)]
    lines += [f"{HEAD}{line}" for line in news]
    for day in source.days:
        lines.append(f"{day.node_id} {quoted_title(day.title, _TITLE, is_period=True)}")
        lines += [f"- {bullet.quoted(240)}" for bullet in day.bullets]
    shown = first_lines(lines, head + _FOOT, budget, MAX_CHARS, count)
    fitting_news = [index for index, line in enumerate(shown) if line.startswith(HEAD)]
    if fitting_news:
        first, end = fitting_news[0], fitting_news[-1] + 1
        shown = [*shown[:first], place_of_news(source.slug, since_ms, end - first), *shown[end:]]
    return head + "".join(shown) + _FOOT


def session_brief(
    account: Account, record: Record, tail: Sequence[Event], budget: int, count: Callable[[str], int]
) -> str:
    """The latest record line by line as far as it fits, then the gist of the last messages, within the budget."""
    name = quoted_name(account.session_id, 80)
    introduction = "\n".join(lexicon.sections("briefs")["session"]).format(session=name)
    head = f'<memory project="{account.project}" session="{name}">\n{introduction}\n'
    ending = [f"{event.role}: {quoted(event.text, _GIST)}" for event in reversed(tail) if event.text.strip()]
    title, share = "Last messages:\n", _TAIL_SHARE
    shown = first_lines(ending, title + _FOOT, budget // share, MAX_CHARS // share, count)
    last = title + "".join(reversed(shown)) if shown else ""
    lines = quoted_record(record.body, 400)
    return head + "".join(first_lines(lines, head + last + _FOOT, budget, MAX_CHARS, count)) + last + _FOOT
