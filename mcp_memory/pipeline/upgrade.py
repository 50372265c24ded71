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

from mcp_memory.domain.records import Record, Rewrite, follow, record_key, renew
from mcp_memory.domain.toc import Level
from mcp_memory.errors import (
    CapReached,
    MemoryFault,
    ModelPaused,
    ModelUnusable,
    Passing,
    SummarizerError,
)
from mcp_memory.models.port import Author, RecordAuthor, Upgrade, UpgradeStore
from mcp_memory.pipeline.compact import Compactor
from mcp_memory.pipeline.ingest import CountAll
from mcp_memory.pipeline.rollup import input_hash, named, rollup_node, size_of
from mcp_memory.pipeline.summarize import counted, node_text, segment_write
from mcp_memory.store.port import Clock, Lease, RewriteStore

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


logger = logging.getLogger(__name__)

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


@dataclass(frozen=True, slots=True)
class Job:
    """Something for the model to write. `leave` lets it be for some milliseconds, after so many failures at it."""

    name: str
    write: Callable[[], Awaitable[bool]]
    leave: Callable[[int], Awaitable[None]]
    failures: Callable[[], Awaitable[int]]


@dataclass(slots=True)
class Upgrades:
    """Everything that upgrading needs. Its lease is its own: two servers shall not pay for the same."""

    store: UpgradeStore
    author: Author
    lease: Lease
    zone: tzinfo
    count_all: CountAll
    clock: Clock
    base: str = "extractive"
    records: Rewrites | None = None
    reason: str = field(default="", init=False)

    async def until_idle(self) -> int:
        """Upgrade all that waits, as far as the model and its cap allow; `reason` says why it ended early."""
        total = 0
        while written := await self.batch():
            total += written
        return total

    async def run(self) -> None:
        """For ever: upgrade what waits, then wait for more."""
        try:
            while True:
                if not await self._safely():
                    await anyio.sleep(TIMER_SECONDS)
        finally:
            with anyio.move_on_after(2, shield=True):
                await self.lease.release()

    async def _safely(self) -> int:
        try:
            return await self.batch()
        except MemoryFault as error:
            logger.warning("Summaries by the model pause: %s", error)
        except Exception:
            logger.exception("Summaries by the model met an unexpected error and will be tried again")
        return 0

    async def batch(self) -> int:
        """Upgrade as many side by side as the model may be asked for; returns how many were written."""
        self.reason = ""
        ready = await self.author.readiness()
        jobs = await self._jobs(max(ready.width, 1))
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

    async def _jobs(self, limit: int) -> list[Job]:
        """The next, records first: their sessions may go on any moment."""
        records = await self.records.waiting(limit) if self.records else []
        jobs = [self._record_job(rewrite) for rewrite in records]
        if len(jobs) < limit:
            waiting = await self.store.waiting(limit - len(jobs), self.clock.now_ms())
            jobs += [self._node_job(upgrade) for upgrade in waiting]
        return jobs

    def _record_job(self, rewrite: Rewrite) -> Job:
        async def write() -> bool:
            return self.records is not None and await self.records.write(rewrite)

        async def leave(pause_ms: int) -> None:
            if self.records:
                await self.records.leave(rewrite, pause_ms)

        async def failures() -> int:
            return rewrite.failures

        return Job(f"the record of session {rewrite.account.session_id}", write, leave, failures)

    def _node_job(self, upgrade: Upgrade) -> Job:
        is_segment = upgrade.ref.level is Level.SEGMENT

        async def write() -> bool:
            return await (self._segment(upgrade) if is_segment else self._period(upgrade))

        async def leave(pause_ms: int) -> None:
            await self.store.failed(upgrade, self.clock.now_ms() + pause_ms)

        async def failures() -> int:
            return await self.store.failures(upgrade)

        return Job(upgrade.ref.node_id(), write, leave, failures)

    async def _side_by_side(self, jobs: list[Job]) -> int:
        done: list[bool] = []

        async def one(job: Job) -> None:
            done.append(await self._one(job))

        async with self.lease.kept(), anyio.create_task_group() as watching:
            async with anyio.create_task_group() as working:
                watching.start_soon(self._watch, working.cancel_scope, name="upgrade lease")
                for job in jobs:
                    working.start_soon(one, job, name=f"upgrade {job.name}")
            watching.cancel_scope.cancel()
        return sum(done)

    async def _watch(self, working: anyio.CancelScope) -> None:
        """Whoever has lost the lease must not go on paying for what another process asks as well."""
        while True:
            await anyio.sleep(_WATCH_SECONDS)
            if not self.lease.holds():
                self.reason = _ASKED_BY_ANOTHER
                working.cancel()

    async def _one(self, job: Job) -> bool:
        try:
            return await job.write()
        except _ELSEWHERE as error:
            self.reason = str(error)
        except SummarizerError as error:
            self.reason = str(error)
            logger.warning("%s stays extractive: %s", job.name, error)
            await job.leave(_RETRY_MS * 4 ** min(await job.failures(), _LONGEST_RETRIES))
        return False

    async def _segment(self, upgrade: Upgrade) -> bool:
        job = await self.store.job(upgrade)
        if job is None:
            return False
        summary = await self.author.segment(
            job.events, job.context, prior=await self._prior(upgrade), node_id=upgrade.ref.node_id()
        )
        write = segment_write(job, summary, self.author.name, self.zone, self.clock.now_ms())
        [node] = counted([write.node], [job.segment.tokens], self.count_all)
        return await self.store.save(upgrade, node, job.session, write.grips)

    async def _period(self, upgrade: Upgrade) -> bool:
        children = await self.store.children(upgrade)
        # The hash that the rollup stage would want, so that it finds nothing to do unless a child changes.
        wanted = input_hash(children, False, self.base)
        summary = await self.author.rollup(
            upgrade.ref.level, named(children), prior=await self._prior(upgrade), node_id=upgrade.ref.node_id()
        )
        node = rollup_node(
            upgrade.ref,
            upgrade.slug,
            children,
            summary,
            is_open=False,
            wanted=wanted,
            written_by=self.author.name,
            zone=self.zone,
            now_ms=self.clock.now_ms(),
        )
        [node] = counted([node], [size_of(children)], self.count_all)
        return await self.store.save(upgrade, node, None, ())

    async def _prior(self, upgrade: Upgrade) -> str:
        """What a model wrote of this node before something in it changed."""
        node = await self.store.prior(upgrade)
        return node_text(node.title, node.bullets, node.keywords) if node else ""
