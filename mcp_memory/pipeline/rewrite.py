"""Beside the stages: the record of a session that may still go on is written anew by a model, and so refreshed.

The record that stands is whole without it. While the model answers, nothing waits, and what it writes is stored only if
the record is still the session's latest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mcp_memory.domain.records import Record, Rewrite, follow, record_key, renew
from mcp_memory.models.port import RecordAuthor
from mcp_memory.pipeline.compact import Compactor
from mcp_memory.store.port import RewriteStore

#: A session that was silent for longer will hardly go on; its record is not worth a model's price.
FRESH_MS = 7 * 86_400_000


@dataclass(slots=True)
class Rewrites:
    """Writes records by a model, one at a time."""

    store: RewriteStore
    compactor: Compactor
    author: RecordAuthor

    async def waiting(self, limit: int) -> list[Rewrite]:
        """Records of the extractive summarizer that a model should write, the newest first."""
        now_ms = self.compactor.clock.now_ms()
        return await self.store.waiting(now_ms - FRESH_MS, now_ms, limit)

    async def write(self, rewrite: Rewrite) -> bool:
        """Ask the model, and append what it says as the record that takes the old one's place."""
        account, old = rewrite.account, rewrite.record
        before = rewrite.replaced or rewrite.parent
        events = await self.store.events(rewrite)
        own, wrote = await self.compactor.condenser.share(account, before, events, self.author)
        if wrote == old.written_by:
            await self.leave(rewrite, FRESH_MS)  # too short for a model
            return False
        parent = rewrite.parent.body if rewrite.parent else None
        body = renew(parent, rewrite.replaced.body, own) if rewrite.replaced else follow(parent, own)
        kept = old.tokens_after - old.tokens
        body = self.compactor.fitting(body, kept, old.window)
        size = self.compactor.size(body)
        record = replace(
            old,
            key=record_key(account.session_key, old.depth, old.through, old.id),
            timestamp_ms=self.compactor.clock.now_ms(),
            body=body,
            tokens=size,
            tokens_after=size + kept,
            written_by=wrote,
            refreshes=old.id,
        )
        return await self._saved(rewrite, record)

    async def _saved(self, rewrite: Rewrite, record: Record) -> bool:
        # Its sources are those of the record it refreshes.
        if not await self.compactor.store.save(rewrite.account, record, ()):
            return False
        await self.compactor.keep_text(rewrite.account, record)
        return True

    async def leave(self, rewrite: Rewrite, pause_ms: int) -> None:
        """Let the record be until then."""
        await self.store.failed(rewrite, self.compactor.clock.now_ms() + pause_ms)
