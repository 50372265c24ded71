"""Beside the stages: what a model can say better than the extractive summary is written anew, newest first.

The tree is complete without it. A model's answer is waited for outside of any transaction and of the pipeline's lease;
it is stored only if the node is still what the model was shown.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import tzinfo

import anyio

from mcp_memory.domain.toc import Level
from mcp_memory.errors import (
    CapReached,
    MemoryFault,
    ModelPaused,
    ModelUnusable,
    Passing,
    SummarizerError,
)
from mcp_memory.pipeline.rollup import input_hash, named, rollup_node
from mcp_memory.pipeline.summarize import node_text, segment_write
from mcp_memory.ports import Clock, Lease
from mcp_memory.ports_models import Author, Upgrade, UpgradeStore

logger = logging.getLogger(__name__)

#: How often a server looks for nodes that have closed, a cap that is new with the day, a model that is back.
TIMER_SECONDS = 30.0
_RENEW_SECONDS = 5.0
#: After a failure that is the node's own, it is left alone for an hour, then for four times as long each time.
_RETRY_MS = 3_600_000
_LONGEST_RETRIES = 5
#: Failures that are not the node's: the model cannot be asked now, whatever the node.
_ELSEWHERE = (Passing, CapReached, ModelPaused, ModelUnusable)


@dataclass(slots=True)
class Upgrades:
    """Everything that upgrading needs. Its lease is its own: two servers shall not pay for the same."""

    store: UpgradeStore
    author: Author
    lease: Lease
    zone: tzinfo
    count: Callable[[str], int]
    clock: Clock
    base: str = "extractive"
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
        """Upgrade as many nodes side by side as the model may be asked for; returns how many were written."""
        self.reason = ""
        ready = await self.author.readiness()
        waiting = await self.store.waiting(max(ready.width, 1), self.clock.now_ms())
        if not waiting:
            return 0
        if not ready.width:
            self.reason = ready.reason
            return 0
        if not await self.lease.acquire(_wall_ms()):
            self.reason = "Another process asks the model."
            return 0
        try:
            return await self._side_by_side(waiting)
        finally:
            with anyio.CancelScope(shield=True):
                await self.lease.release()

    async def _side_by_side(self, waiting: list[Upgrade]) -> int:
        done: list[bool] = []

        async def one(upgrade: Upgrade) -> None:
            done.append(await self._one(upgrade))

        async with anyio.create_task_group() as keeping:
            keeping.start_soon(self._keep_lease, name="upgrade lease")
            async with anyio.create_task_group() as working:
                for upgrade in waiting:
                    working.start_soon(one, upgrade, name=f"upgrade {upgrade.ref.node_id()}")
            keeping.cancel_scope.cancel()
        return sum(done)

    async def _keep_lease(self) -> None:
        """A model may take longer than the lease lasts."""
        while True:
            await anyio.sleep(_RENEW_SECONDS)
            await self.lease.acquire(_wall_ms())

    async def _one(self, upgrade: Upgrade) -> bool:
        try:
            if upgrade.ref.level is Level.SEGMENT:
                return await self._segment(upgrade)
            return await self._period(upgrade)
        except _ELSEWHERE as error:
            self.reason = str(error)
        except SummarizerError as error:
            self.reason = str(error)
            logger.warning("%s stays extractive: %s", upgrade.ref.node_id(), error)
            await self._leave(upgrade)
        return False

    async def _segment(self, upgrade: Upgrade) -> bool:
        job = await self.store.job(upgrade)
        if job is None:
            return False
        summary = await self.author.segment(
            job.events, job.context, prior=await self._prior(upgrade), node_id=upgrade.ref.node_id()
        )
        write = segment_write(job, summary, self.author.name, self.zone, self.count, self.clock.now_ms())
        return await self.store.save(upgrade, write.node, job.session, write.grips)

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
            count=self.count,
            now_ms=self.clock.now_ms(),
        )
        return await self.store.save(upgrade, node, None, ())

    async def _prior(self, upgrade: Upgrade) -> str:
        """What a model wrote of this node before something in it changed."""
        node = await self.store.prior(upgrade)
        return node_text(node.title, node.bullets, node.keywords) if node else ""

    async def _leave(self, upgrade: Upgrade) -> None:
        pause = _RETRY_MS * 4 ** min(await self.store.failures(upgrade), _LONGEST_RETRIES)
        await self.store.failed(upgrade, self.clock.now_ms() + pause)


def _wall_ms() -> int:
    """The lease is kept by the wall clock even where the memory's clock is stood still."""
    return time.time_ns() // 1_000_000
