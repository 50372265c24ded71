"""The task loop: runs the stages in order whenever there is work, under the lease, until it is cancelled."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path

import anyio

from mcp_memory import __version__
from mcp_memory.capture.redaction import redact
from mcp_memory.clients.port import Client
from mcp_memory.domain.failures import Pause, failure_reason
from mcp_memory.domain.segments import QUIET_MS, Rules, busy
from mcp_memory.errors import LeaseLost, MemoryFault, StoreReplaced
from mcp_memory.models.port import Summarizer
from mcp_memory.pipeline.compact import Compactor
from mcp_memory.pipeline.ingest import Done, Intaker, drain_spool, ingest
from mcp_memory.pipeline.keep_forgotten import keep_forgotten
from mcp_memory.pipeline.rollup import revise, rollup
from mcp_memory.pipeline.segment import segment, summarize
from mcp_memory.pipeline.upgrade import Upgrades
from mcp_memory.store.inbox_port import Inbox
from mcp_memory.store.port import Clock, IndexKeeper, Lease, Share, Store

logger = logging.getLogger(__name__)

#: How often the loop looks for new inbox rows, which costs one pragma.
POLL_SECONDS = 0.5
#: How often it looks for what only time brings: segments and periods that have closed, a lease that is free.
TIMER_SECONDS = 30.0
#: How soon it tries again what has failed; twice as long after each further failure.
RETRY_SECONDS, _DOUBLED = 0.5, 10
#: How often it looks whether a backup is due.
BACKUP_SECONDS = 30.0
#: When a round should come to an end, so that what has just come in is looked at again.
ROUND_SECONDS = 5.0


@dataclass(slots=True)
class Pipeline:
    """The stages with all they need. One round does a bounded amount of each."""

    store: Store
    inbox: Inbox
    compactor: Compactor
    lease: Lease
    index: IndexKeeper
    summarizer: Summarizer
    clients: dict[str, Client]
    intaker: Intaker
    rules: Rules
    zone_of_days: Callable[[], Awaitable[tzinfo]]
    spool: Path
    clock: Clock
    #: Makes a backup if one is due.
    backup: Callable[[], Awaitable[object]] | None = None
    #: Drops what has been kept on this machine for long enough.
    tidy: Callable[[], Awaitable[object]] | None = None
    #: Sends what is shared with a team, if anything is; after how many seconds to look again.
    push: Callable[[], Awaitable[float]] | None = None
    upgrades: Upgrades | None = None
    #: Whether what hooks captured on this machine belongs here; not on a team's server, which is pushed to.
    is_local: bool = True
    quiet_ms: int = QUIET_MS
    wake: anyio.Event = field(default_factory=anyio.Event)
    _warned: str = field(default="", init=False)
    _paused_ms: int = field(default=0, init=False)
    #: Sessions that were found to be cut as they should be.
    _cut: set[int] = field(default_factory=set, init=False)

    async def round(self, *, revising: bool = True) -> Done:
        """One round of all stages, under the lease that the caller holds.

        `revising`: also write anew what an earlier revision of the summarizer wrote, which can be read meanwhile.
        """
        share = Share(self.lease, time.monotonic() + ROUND_SECONDS)
        now = self.clock.now_ms()
        # Read anew, since a rebuild may have changed it, here or in another process.
        zone = await self.zone_of_days()
        if self.upgrades:
            self.upgrades.zone = zone
        done = await self._take_in(share) if self.is_local else Done()
        if done.more:
            # What follows would be done again with the rest.
            return done
        # Early, since a client that is about to forget waits for nobody; late enough that a burst is one record.
        done.sessions, failed = await self.compactor.run(share)
        cuts = await segment(self.store, self.rules, now, share.token)
        summaries = await summarize(
            self.store, self.summarizer, zone, self.intaker.count_all, now, share, self.quiet_ms
        )
        done.segments, done.nodes, done.failed = cuts.done, summaries.done, failed + cuts.failed + summaries.failed
        if not done.anything:
            # Periods wait until all that lies beneath them is there, so that each is rolled up once.
            done.nodes, done.failed = await rollup(
                self.store, self.summarizer, zone, self.intaker.count_all, now, share
            )
        if not done.anything:
            done.failed = await self.compactor.refresh_briefs(share.token)
            # Last, so that a large import is taken in by few large commits.
            done.indexed = await self.index.catch_up()
            if self.tidy and self.is_local:
                await self.tidy()
            done.indexed += await self.store.retire(now)
        if revising and not done.anything:
            done.nodes, done.failed = await revise(
                self.store, self.summarizer, zone, self.intaker.count_all, now, share, self.rules, self._cut
            )
        return done

    async def _take_in(self, share: Share) -> Done:
        """What was captured on this machine becomes events."""
        await self.inbox.begin()
        await drain_spool(self.inbox, self.spool)
        return await ingest(self.store, self.inbox, self.clients, self.intaker, share)

    async def waits(self, *, revising: bool = True) -> bool:
        """Whether a round would find anything to do."""
        now = self.clock.now_ms()
        if self.is_local and (self._spooled() or await self.inbox.rows(1)):
            return True
        revision = self.summarizer.revision if revising else 0
        if await self.store.has_work(now, busy(now, self.quiet_ms), now - self.rules.gap_ms, revision):
            return True
        return await self.index.behind()

    async def until_idle(self, *, revising: bool = True, watch: Callable[[], Awaitable[None]] | None = None) -> Done:
        """Run rounds until nothing is left to do; `watch` is called after each."""
        total = Done()
        if not await self.lease.acquire():
            raise LeaseLost("Another process runs the pipeline.")
        async with self.lease.kept():
            while (done := await self.round(revising=revising)).anything:
                total.add(done)
                if watch:
                    await watch()
        await self.inbox.note_pause(None)
        return total

    async def run(self) -> None:
        """For ever: work while there is work, then wait for new rows, a wake-up or the timer.

        A model, if there is one, works beside it: nothing that was said waits for its answers.
        """
        async with anyio.create_task_group() as tasks:
            if self.upgrades:
                tasks.start_soon(self.upgrades.run, name="upgrades")
            if self.backup:
                tasks.start_soon(self._keep_backups, self.backup, name="backups")
            if self.push:
                tasks.start_soon(self._keep_pushing, self.push, name="push")
            failures = 0
            try:
                while True:
                    # Read before the work, so that what comes in meanwhile is not missed.
                    seen = await self._version()
                    if await self._work(failures):
                        failures, self._warned = 0, ""
                    else:
                        # Something is in the way: our own writes must not wake us to try the same again at once.
                        failures, seen = failures + 1, await self._version()
                    await self._wait(seen, failures)
            finally:
                with anyio.move_on_after(2, shield=True):
                    await self.lease.release()

    async def _keep_backups(self, backup: Callable[[], Awaitable[object]]) -> None:
        """Beside the work, which does not wait for it. A short session is left alone."""
        told = ""
        while True:
            await anyio.sleep(BACKUP_SECONDS)
            try:
                await backup()
                told = ""
            except StoreReplaced:
                return
            except MemoryFault as error:
                if str(error) != told:
                    logger.warning("No backup could be made: %s", error)
                told = str(error)
            except Exception:
                logger.exception("A backup met an unexpected error and will be tried again")

    async def _keep_pushing(self, push: Callable[[], Awaitable[float]]) -> None:
        """Beside the work, which neither waits for a network nor fails with it."""
        while True:
            pause = TIMER_SECONDS
            try:
                pause = await push()
            except StoreReplaced:
                return
            except Exception:
                logger.exception("Pushing met an unexpected error and will be tried again")
            await anyio.sleep(pause)

    async def _work(self, failures: int = 0) -> bool:
        """Do what there is to do. False if there was something, but nothing could be done.

        `failures`: how often that was so in succession.
        """
        try:
            await keep_forgotten(self.store, self.inbox)
            # What was forgotten while someone was reading is still in the file.
            await self.store.scrub()
            if self.is_local:
                await self.inbox.scrub()
                # What an earlier version could not read, this one may.
                await self.inbox.reopen(__version__)
            await self.store.retry_failures()
            if not await self.waits():
                await self.inbox.note_pause(None)
                return True
            done = await self.until_idle()
            await self.lease.release()
        except LeaseLost:
            return True
        except StoreReplaced:
            # Whoever opened the memory opens what is there now; here every try would fail the same.
            raise
        except MemoryFault as error:
            if str(error) != self._warned:  # a full disk stays full for long
                logger.warning("The pipeline pauses: %s", error)
            self._warned = str(error)
            await self._note_pause(str(error), failures + 1)
            return False
        except Exception as error:
            logger.exception("The pipeline met an unexpected error and will try again")
            await self._note_pause(f"It met an unexpected error ({failure_reason(error)}).", failures + 1)
            return False
        return done.anything

    async def _note_pause(self, error: str, times: int) -> None:
        """Let `doctor` know, if that can be written at all."""
        now_ms = self.clock.now_ms()
        if times == 1 or not self._paused_ms:
            self._paused_ms = now_ms
        with suppress(MemoryFault):
            await self.inbox.note_pause(Pause(redact(error), times, self._paused_ms))

    async def _wait(self, seen: tuple[int, int], failures: int) -> None:
        """Until there is news. What the spool held all along is none, or a full disk would keep us at it."""
        self.wake = anyio.Event()
        with anyio.move_on_after(pause_after(failures)):
            while not self.wake.is_set() and await self._version() == seen:
                with anyio.move_on_after(POLL_SECONDS):
                    await self.wake.wait()
                if self.is_local and not failures and self._spooled():
                    return

    async def _version(self) -> tuple[int, int]:
        try:
            return await self.store.changes(), await self.inbox.changes() if self.is_local else 0
        except StoreReplaced:
            raise
        except MemoryFault:
            return -1, -1

    def _spooled(self) -> bool:
        try:
            return any(self.spool.glob("*.json"))
        except OSError:
            return False


def pause_after(failures: int) -> float:
    """How long to wait for news at most: briefly after a failure, longer after each further one."""
    # A disk may stay full for days, and a float holds no power of two as high as the failures then are.
    return min(RETRY_SECONDS * 2 ** min(failures, _DOUBLED), TIMER_SECONDS) if failures else TIMER_SECONDS
