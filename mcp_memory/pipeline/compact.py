"""Beside the stages that build the tree: a session that outgrows its model's window is condensed to a record.

Whether to act is decided in `domain/compaction`, what a record says in `condense`; here records are appended. The stage
asks no model, since a client that is about to forget waits for nobody: `rewrite` lets one write the record anew.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mcp_memory.domain.budget import Tokenizer
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
from mcp_memory.domain.events import Event
from mcp_memory.domain.records import Account, Body, Record, body_text, clipped, follow, record_key, renew, shortened
from mcp_memory.errors import SEE_SESSIONS, NotFound, SummarizerError
from mcp_memory.models.port import RecordAuthor
from mcp_memory.pipeline.condense import Condenser
from mcp_memory.pipeline.continuation import continuation
from mcp_memory.store.port import Clock, CompactionStore, Share

logger = logging.getLogger(__name__)

BATCH = 200
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

    `author` is the model, if there is one, for a user who waits for its words. `brief_tokens` is how long the hook's
    text may be; 0: none is wanted.
    """

    store: CompactionStore
    condenser: Condenser
    rules: CompactionRules
    tokens: Tokenizer
    clock: Clock
    brief_tokens: int
    windows: Mapping[str, int] = field(default_factory=dict)
    author: RecordAuthor | None = None

    async def run(self, share: Share) -> int:
        """Look at a batch of sessions that have grown, each once, as time allows; returns how many are settled."""
        settled = []
        for account in await self.store.due(self.clock.now_ms(), BATCH):
            try:
                result = await self.look(account)
            except SummarizerError as error:
                logger.warning("Session %s was not compacted: %s", account.session_id, error)
                await self.store.postpone(account, str(error), self.clock.now_ms() + RETRY_MS, share.token)
                continue
            settled.append(account)
            await self.keep_text(account, result.record)
            if share.is_over():
                break
        await self.store.settle(settled, share.token)
        return len(settled)

    async def compact(self, session_id: str, *, force: bool = False) -> Compacted:
        """Make a record of one session now, if there is reason to, or because the user wants it.

        The model writes it, if there is one; if that fails, the words are chosen.
        """
        session_id = session_id.strip().removeprefix("session:")
        account = await self.store.account(session_id)
        if account and force and await self.store.drop_broken(account):
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
            self.rules, account.turns, _last(account.last), len(account.chain), account.asked, self.windows
        )
        decision = decide(self.rules, history, usage)
        if not decision.act:
            return Compacted(decision, usage)
        record, sources = await self._record(account, decision, usage, author)
        if not await self.store.save(account, record, sources):
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
        room = self._room(usage.window)
        size = self.rules.preserve_recent
        for last_try in (False, True):
            start = tail_start(account.turns, size)
            sources = await self.store.events(account, account.turns[start - 1])
            own, wrote = await self.condenser.share(account, account.last, sources, author)
            kept = sum(turn.tokens for turn in account.turns[start:])
            body = self.fitting(_body(account, decision, own), kept, usage.window)
            smaller = shorter_tail(account.turns, size, self.size(body), room)
            if last_try or self.size(body) + kept < room or smaller >= size:
                break
            size = smaller
        return replace(self._made(account, decision, usage, body, start, kept), written_by=wrote), sources

    def fitting(self, body: Body, kept: int, window: int) -> Body:
        """The body in its share of the window, or in half of that if it is too much beside the tail that is kept."""
        most = min(_MOST_TOKENS, window // _RECORD_SHARE)
        body = shortened(clipped(body), most, self.tokens.count)
        return shortened(body, most // 2, self.tokens.count) if self.size(body) + kept >= self._room(window) else body

    def _room(self, window: int) -> int:
        return round(self.rules.trigger_ratio * window)

    def size(self, body: Body) -> int:
        return self.tokens.count(body_text(body))

    def _made(self, account: Account, decision: Decision, usage: Usage, body: Body, start: int, kept: int) -> Record:
        last = account.last
        through = account.turns[start - 1].place
        depth = len(account.chain) - decision.refresh
        refreshes = last.id if last and decision.refresh else None
        parent = account.chain[depth - 1].id if depth else None
        size = self.size(body)
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

    async def keep_text(self, account: Account, record: Record | None) -> None:
        latest = record or account.last
        if latest:
            tail = await self.store.tail(account, self.rules.preserve_recent)
            text = (
                continuation(account, latest, tail, self.brief_tokens, self.tokens.count) if self.brief_tokens else ""
            )
            await self.store.keep_text(account, text, self.clock.now_ms())


def _body(account: Account, decision: Decision, own: Body) -> Body:
    """What the record says: what it takes over from those before it, and what is new."""
    last = account.last
    if not decision.refresh or last is None:
        return follow(last.body if last else None, own)
    return renew(account.chain[-2].body if len(account.chain) > 1 else None, last.body, own)


def _last(record: Record | None) -> Last | None:
    if record is None:
        return None
    return Last(record.seen, record.tokens, record.tokens_after, record.window, record.messages)
