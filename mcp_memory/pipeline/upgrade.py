"""Beside the stages: what a model can say better than the extractive summary is written anew, newest first.

The tree and the records of sessions are complete without it. A model's answer is waited for outside of any transaction
and of the pipeline's lease; it is stored only if the node or record is still what the model was shown.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import tzinfo

import anyio

from mcp_memory.domain.events import EventQuery
from mcp_memory.domain.failures import failure_reason, is_failure_of_one
from mcp_memory.domain.nodes import EXTRACTIVE, NodeQuery, Upgrade
from mcp_memory.domain.records import Rewrite, follow, record_key, renew
from mcp_memory.domain.toc import Level
from mcp_memory.errors import CapReached, MemoryFault, ModelPaused, ModelUnusable, Passing
from mcp_memory.models.port import Author
from mcp_memory.pipeline.compact import Compactor
from mcp_memory.pipeline.ingest import CountAll
from mcp_memory.pipeline.rollup import input_hash, named, rollup_node
from mcp_memory.pipeline.segment import counted, node_text, segment_write
from mcp_memory.store.port import Lease, Store

logger = logging.getLogger(__name__)

#: A session that was silent for longer will hardly go on; its record is not worth a model's price.
FRESH_MS = 7 * 86_400_000
#: How often a server looks for nodes that have closed, a cap that is new with the day, a model that is back.
TIMER_SECONDS = 30.0
#: How often a batch looks whether its lease is still its own.
_WATCH_SECONDS = 0.5
#: After a failure that is the node's own, it is left alone for an hour, then for four times as long each time.
_RETRY_MS = 3_600_000
_LONGEST_RETRIES = 5
_ASKED_BY_ANOTHER = "Another process asks the model."
#: Failures that are not the node's: the model cannot be asked now, whatever the node.
_ELSEWHERE = (Passing, CapReached, ModelPaused, ModelUnusable)


@dataclass(slots=True)
class Upgrades:
    """Everything that upgrading needs. Its lease is its own: two servers shall not pay for the same."""

    store: Store
    author: Author
    lease: Lease
    zone: tzinfo
    count_all: CountAll
    compactor: Compactor
    base: str = EXTRACTIVE
    reason: str = field(default="", init=False)

    async def until_idle(self, watch: Callable[[], Awaitable[None]] | None = None) -> int:
        """Upgrade all that waits, as far as the model and its cap allow; `reason` says why it ended early.

        `watch` is called after each batch.
        """
        total = 0
        while written := await self.batch():
            total += written
            if watch:
                await watch()
        return total

    async def run(self) -> None:
        """For ever: upgrade what waits, then wait for more."""
        try:
            while True:
                written = 0
                try:
                    written = await self.batch()
                except MemoryFault as error:
                    logger.warning("Summaries by the model pause: %s", error)
                except Exception:
                    logger.exception("Summaries by the model met an unexpected error and will be tried again")
                if not written:
                    await anyio.sleep(TIMER_SECONDS)
        finally:
            with anyio.move_on_after(2, shield=True):
                await self.lease.release()

    async def batch(self) -> int:
        """Upgrade as many side by side as the model may be asked for; returns how many were written."""
        self.reason = ""
        ready = await self.author.readiness()
        limit = max(ready.width, 1)
        # Records first: their sessions may go on any moment.
        jobs: list[Rewrite | Upgrade] = [*await self.records(limit)]
        if len(jobs) < limit:
            jobs += await self.store.upgrades(limit - len(jobs), self.compactor.clock.now_ms())
        if not jobs:
            return 0
        if not ready.width:
            self.reason = ready.reason
            return 0
        if not await self.lease.acquire():
            self.reason = _ASKED_BY_ANOTHER
            return 0
        try:
            return await self._side_by_side(jobs)
        finally:
            with anyio.CancelScope(shield=True):
                await self.lease.release()

    async def records(self, limit: int) -> list[Rewrite]:
        """Records of sessions that may still go on which a model should write anew, the newest first."""
        now_ms = self.compactor.clock.now_ms()
        return await self.store.rewrites(now_ms - FRESH_MS, now_ms, limit)

    async def _side_by_side(self, jobs: list[Rewrite | Upgrade]) -> int:
        done: list[bool] = []

        async def watch(working: anyio.CancelScope) -> None:
            """Whoever has lost the lease must not go on paying for what another process asks as well."""
            while True:
                await anyio.sleep(_WATCH_SECONDS)
                if not self.lease.holds():
                    self.reason = _ASKED_BY_ANOTHER
                    working.cancel()

        async with self.lease.kept(), anyio.create_task_group() as watching:
            async with anyio.create_task_group() as working:
                watching.start_soon(watch, working.cancel_scope, name="upgrade lease")
                for job in jobs:
                    name = job.name if isinstance(job, Rewrite) else job.ref.node_id()
                    working.start_soon(self._one, job, name, done, name=f"upgrade {name}")
            watching.cancel_scope.cancel()
        return sum(done)

    async def _one(self, job: Rewrite | Upgrade, name: str, done: list[bool]) -> None:
        try:
            if isinstance(job, Rewrite):
                done.append(await self.rewrite(job))
            else:
                done.append(await (self._segment(job) if job.ref.level is Level.SEGMENT else self._period(job)))
        except _ELSEWHERE as error:
            self.reason = str(error)
        except Exception as error:
            if not is_failure_of_one(error):
                raise
            self.reason = failure_reason(error)
            logger.warning("%s stays extractive: %s", name, self.reason)
            pause_ms = _RETRY_MS * 4 ** min(job.failures, _LONGEST_RETRIES)
            until_ms = self.compactor.clock.now_ms() + pause_ms
            if isinstance(job, Rewrite):
                await self.store.postpone_rewrite(job, until_ms)
            else:
                await self.store.postpone_upgrade(job, until_ms)

    async def rewrite(self, rewrite: Rewrite) -> bool:
        """Append what the model says as the record that takes the old one's place."""
        account, old, compactor = rewrite.account, rewrite.record, self.compactor
        events = await self.store.events(EventQuery(record=old.key))
        own, wrote = await compactor.share(account, rewrite.replaced or rewrite.parent, events, compactor.author)
        if wrote == old.written_by:  # too short for a model
            await self.store.postpone_rewrite(rewrite, compactor.clock.now_ms() + FRESH_MS)
            return False
        parent = rewrite.parent.body if rewrite.parent else None
        body = renew(parent, rewrite.replaced.body, own) if rewrite.replaced else follow(parent, own)
        kept = old.tokens_after - old.tokens
        body = compactor.fitting(body, kept, old.window)
        size = compactor.size(body)
        record = replace(
            old,
            key=record_key(account.session_key, old.depth, old.through, old.id),
            timestamp_ms=compactor.clock.now_ms(),
            body=body,
            tokens=size,
            tokens_after=size + kept,
            written_by=wrote,
            refreshes=old.id,
        )
        # Its sources are those of the record it refreshes.
        if not await self.store.save_record(account, record, ()):
            return False
        await compactor.keep_text(account, record)
        return True

    async def _segment(self, upgrade: Upgrade) -> bool:
        job = await self.store.upgrade_job(upgrade)
        if job is None:
            return False
        prior, node_id = await self._prior(upgrade), upgrade.ref.node_id()
        summary = await self.author.segment(job.events, job.context, prior=prior, node_id=node_id)
        write = segment_write(job, summary, self.author, self.zone, self.compactor.clock.now_ms())
        [node] = counted([write.node], [job.segment.tokens], self.count_all)
        return await self.store.save_upgrade(upgrade, node, job.session, write.grips)

    async def _period(self, upgrade: Upgrade) -> bool:
        ref, children = upgrade.ref, await self.store.nodes(NodeQuery(upgrade.slug, parent=upgrade.ref))
        # The hash that the rollup stage would want, so that it finds nothing to do unless a child changes.
        wanted = input_hash(children, False, self.base)
        prior = await self._prior(upgrade)
        summary = await self.author.rollup(ref.level, named(children), prior=prior, node_id=ref.node_id())
        now_ms = self.compactor.clock.now_ms()
        node = rollup_node(upgrade, children, summary, False, wanted, self.author, self.zone, now_ms)
        [node] = counted([node], [sum(child.tokens for child in children)], self.count_all)
        return await self.store.save_upgrade(upgrade, node, None, ())

    async def _prior(self, upgrade: Upgrade) -> str:
        """What a model wrote of this node before something in it changed."""
        versions = await self.store.nodes(NodeQuery(upgrade.slug, (upgrade.ref,), versions=True))
        told = [node for node in versions if not node.removed and node.written_by != self.base]
        return node_text(told[-1]) if told else ""
