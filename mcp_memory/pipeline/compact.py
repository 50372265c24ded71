"""Beside the stages that build the tree: a session that outgrows its model's window is condensed to a record.

Whether to act is decided in `domain/compaction`; here the words are read, condensed in parts of bounded size, and
appended. A summarizer that fails leaves everything as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from mcp_memory.domain.assembly import Tokenizer
from mcp_memory.domain.compaction import (
    CompactionRules,
    Decision,
    Last,
    Usage,
    decide,
    measure,
    shorter_tail,
    tail_start,
)
from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.records import Body, Record, body_text, clipped, fold, follow, record_key, renew, shortened
from mcp_memory.errors import MemoryFault, NotFound, SummarizerError
from mcp_memory.pipeline.continuation import continuation
from mcp_memory.ports import Clock, Summarizer
from mcp_memory.ports_context import Account, CompactionStore, FacetFinder

logger = logging.getLogger(__name__)

BATCH = 200
#: What a summarizer is given at once; more is condensed part by part.
PART_TOKENS = 8_000
#: A tool's output says little to a reader who cannot see the screen; an error is worth a little more.
TOOL_CHARS, FAILED_CHARS = 400, 800
RETRY_MS = 10 * 60_000
#: How much of the window a record may take, so that a chain on a small model still makes room.
_RECORD_SHARE = 4
_MOST_TOKENS = 4_000


@dataclass(frozen=True, slots=True)
class Compacted:
    """What came of one look at a session."""

    decision: Decision
    usage: Usage
    record: Record | None = None


@dataclass(slots=True)
class Compactor:
    """Makes the records, and keeps ready what the hook prints when such a session goes on.

    `quick` writes those for which a client waits, since a model takes longer than the client does to forget.
    `brief_tokens` is how long that text may be; 0: none is wanted.
    """

    store: CompactionStore
    summarizer: Summarizer
    quick: Summarizer
    facets: FacetFinder
    rules: CompactionRules
    tokens: Tokenizer
    clock: Clock
    brief_tokens: int
    windows: Mapping[str, int] = field(default_factory=dict)

    async def run(self, lease_token: int) -> int:
        """Look at a batch of sessions that have grown, each once; returns how many are settled."""
        settled = []
        for account in await self.store.due(self.clock.now_ms(), BATCH):
            try:
                result = await self.look(account)
            except SummarizerError as error:
                logger.warning("Session %s was not compacted: %s", account.session_id, error)
                await self.store.postpone(account, str(error), self.clock.now_ms() + RETRY_MS, lease_token)
                continue
            settled.append(account)
            await self._keep_text(account, result.record)
        await self.store.settle(settled, lease_token)
        return len(settled)

    async def compact(self, session_id: str, *, force: bool = False) -> Compacted:
        """Make a record of one session now, if there is reason to, or because the user wants it."""
        session_id = session_id.strip().removeprefix("session:")
        account = await self.store.account(session_id)
        if account and force and await self.store.drop_broken(account):
            # What no longer agrees with its events is made anew from those that are there.
            account = await self.store.account(session_id)
        if account is None:
            raise NotFound(f"There is no session {session_id[:80]!r} in memory; `mcp-memory search` names sessions.")
        result = await self.look(replace(account, asked="user") if force else account)
        await self._keep_text(account, result.record)
        return result

    async def look(self, account: Account) -> Compacted:
        history, usage = measure(
            self.rules, account.turns, _last(account.last), len(account.chain), account.asked, self.windows
        )
        decision = decide(self.rules, history, usage)
        if not decision.act:
            return Compacted(decision, usage)
        record, sources = await self._record(account, decision, usage)
        if not await self.store.save(account, record, sources):
            return Compacted(Decision(False, "nothing new"), usage)
        logger.info(
            "Compacted session %s: %s, depth %d, %d of %d tokens (%.2f) to %d",
            *(account.session_id, decision.reason, record.depth, usage.tokens, usage.window, usage.ratio),
            record.tokens_after,
        )
        return Compacted(decision, usage, record)

    async def _record(self, account: Account, decision: Decision, usage: Usage) -> tuple[Record, list[Event]]:
        """The record and its sources. If it and the tail are still too much, it is shortened; then the tail is."""
        room = round(self.rules.trigger_ratio * usage.window)
        size = self.rules.preserve_recent
        most = min(_MOST_TOKENS, usage.window // _RECORD_SHARE)
        for last_try in (False, True):
            start = tail_start(account.turns, size)
            sources = await self.store.events(account, account.turns[start - 1])
            whole, author = await self._body(account, decision, sources)
            body = shortened(whole, most, self.tokens.count)
            kept = sum(turn.tokens for turn in account.turns[start:])
            if self._size(body) + kept >= room:
                body = shortened(body, most // 2, self.tokens.count)
            smaller = shorter_tail(account.turns, size, self._size(body), room)
            if last_try or self._size(body) + kept < room or smaller >= size:
                break
            size = smaller
        return replace(self._made(account, decision, usage, body, start, kept), written_by=author), sources

    def _size(self, body: Body) -> int:
        return self.tokens.count(body_text(body))

    def _made(self, account: Account, decision: Decision, usage: Usage, body: Body, start: int, kept: int) -> Record:
        last = account.last
        through = account.turns[start - 1].place
        depth = len(account.chain) - decision.refresh
        refreshes = last.id if last and decision.refresh else None
        parent = account.chain[depth - 1].id if depth else None
        size = self._size(body)
        return Record(
            key=record_key(account.session_key, depth, through, refreshes),
            timestamp_ms=self.clock.now_ms(),
            depth=depth,
            parent_id=parent,
            body=body,
            event_ids=(),
            tokens=size,
            written_by="",
            reason=decision.reason,
            refreshes=refreshes,
            through=through,
            seen=account.turns[-1].place,
            messages=(last.messages if last else 0) + sum(turn.is_message for turn in account.turns[:start]),
            tokens_before=usage.tokens,
            tokens_after=size + kept,
            window=usage.window,
        )

    async def _body(self, account: Account, decision: Decision, events: Sequence[Event]) -> tuple[Body, str]:
        """What the record says: what it takes over from those before it, and what is new; and who wrote it."""
        last = account.last
        context: list[Event] = [_told_before(account, last)] if last else []
        summarizer = self.quick if decision.reason == "client" else self.summarizer
        parts, author = [], summarizer.name
        for part in self._parts(events):
            body, wrote = await self._part(summarizer, part, context)
            parts.append(body)
            author = wrote or author
            context = []
        own = fold(parts or [Body("Nothing was said in words.")])
        if not decision.refresh or last is None:
            return clipped(follow(last.body if last else None, own)), author
        parent = account.chain[-2].body if len(account.chain) > 1 else None
        return clipped(renew(parent, last.body, own)), author

    async def _part(
        self, summarizer: Summarizer, events: Sequence[Event], context: Sequence[Event]
    ) -> tuple[Body, str]:
        try:
            summary = await summarizer.segment(events, context)
            points = _by_turns([bullet.text for bullet in summary.bullets], self.facets.points(events))
            return Body(f"{summary.title.rstrip('.')}.", points, self.facets.find(events)), summary.written_by
        except MemoryFault:
            raise
        except Exception as error:
            # One odd session must not keep the pipeline from all others; it is tried again later.
            logger.exception("A session could not be condensed")
            raise SummarizerError(f"The summarizer met an unexpected error ({type(error).__name__}).") from error

    def _parts(self, events: Sequence[Event]) -> list[list[Event]]:
        """The events in order, without noise, in parts that a summarizer can take."""
        parts: list[list[Event]] = []
        size = PART_TOKENS + 1
        for event in filter(None, map(self._quiet, events)):
            cost = self.tokens.count(event.text)
            if size + cost > PART_TOKENS:
                parts.append([])
                size = 0
            parts[-1].append(event)
            size += cost
        return parts

    def _quiet(self, event: Event) -> Event | None:
        """The event as a summarizer should see it: no empty ones, tools cut short, nothing larger than a part."""
        if not event.says_something:
            return None
        text = event.text
        if event.role is Role.TOOL:
            text = text[: FAILED_CHARS if event.metadata.get("failed") else TOOL_CHARS]
        elif event.event_type is EventType.COMPACTION:
            text = text[:TOOL_CHARS]
        if len(text) > PART_TOKENS and self.tokens.count(text) > PART_TOKENS:
            head = self.tokens.cut_to(text, PART_TOKENS * 3 // 4)
            # The end of a long message is often what it comes to.
            text = self.tokens.cut_to(f"{head}\n…\n{text[-PART_TOKENS // 2 :]}", PART_TOKENS)
        return event if text == event.text else replace(event, text=text)

    async def _keep_text(self, account: Account, record: Record | None) -> None:
        latest = record or account.last
        if latest:
            tail = await self.store.tail(account, self.rules.preserve_recent)
            text = (
                continuation(account, latest, tail, self.brief_tokens, self.tokens.count) if self.brief_tokens else ""
            )
            await self.store.keep_text(account, text, self.clock.now_ms())


def _by_turns(bullets: Sequence[str], points: Sequence[str]) -> tuple[str, ...]:
    """What a summary says and what it would lose, in turn: only the first of a long session's points have room."""
    pairs = zip_longest(bullets, points)
    return tuple(text for pair in pairs for text in pair if text)


def _last(record: Record | None) -> Last | None:
    if record is None:
        return None
    return Last(record.seen, record.tokens, record.tokens_after, record.window, record.messages)


def _told_before(account: Account, last: Record) -> Event:
    """The record before, in the form in which a summarizer takes what came before."""
    return Event(
        key=last.key,
        client=account.client,
        session_id=account.session_id,
        project=account.project,
        timestamp_ms=last.timestamp_ms,
        event_type=EventType.COMPACTION,
        role=Role.SYSTEM,
        text=body_text(last.body),
        tokens=last.tokens,
    )
