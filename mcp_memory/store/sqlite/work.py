"""The lease under which one process at a time works on the pipeline.

The token grows with every change of hands. Each write of the pipeline checks it in its own transaction, so a process
that was asleep while another took over cannot write any more.

No wall clock decides. The holder counts from before it wrote its row. Whoever waits takes over a row that has stayed
the same for a whole duration, by its own clock, from when it first saw it: later than the holder gives up, always.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from mcp_memory.domain.toc import GRACE
from mcp_memory.errors import LeaseLost, MemoryFault, StoreReplaced
from mcp_memory.store.sqlite.database import Database, Row, Transaction

NAME = "pipeline"
DURATION_SECONDS = 20.0
#: How many times it is renewed while it lasts, so that one renewal that has to wait does not lose it.
_RENEWALS = 4
_ROW = "SELECT holder, token, expires_ms FROM lease WHERE name = ?"


class SqliteLease:
    """Implements the Lease port."""

    def __init__(
        self,
        database: Database,
        holder: str | None = None,
        name: str = NAME,
        duration: float = DURATION_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._name = name
        self._clock = clock
        self._until = 0.0
        self._seen: Row | None = None
        self._seen_at = 0.0
        self.duration = duration
        self.holder = holder or f"{machine()}:{os.getpid()}"
        self.token: int | None = None

    def holds(self) -> bool:
        return self.token is not None and self._clock() < self._until

    async def acquire(self) -> bool:
        """Take or renew the lease. False while another living process holds it."""
        started = self._clock()
        # A look comes before the write: servers that wait for their turn must not write to find out.
        if not self._may_take(await self._database.fetch(_ROW, (self._name,))):
            return False
        token = await self._database.write(self._take, self._may_take)
        if token:
            self.token, self._until = token, started + self.duration
        return bool(token)

    def _take(self, tx: Transaction, may_take: Callable[[list[Row]], bool]) -> int:
        """Write the row; its token, or 0 if someone else has it."""
        rows = tx.fetch(_ROW, (self._name,))
        if not may_take(rows):
            return 0
        token = int(rows[0][1]) + (not self._is_mine(rows)) if rows else 1
        expires = time.time_ns() // 1_000_000 + round(self.duration * 1000)
        if rows and rows[0][2] == expires:
            expires += 1  # a renewal must show
        tx.run("INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)", (self._name, self.holder, token, expires))
        return token

    def _is_mine(self, rows: list[Row]) -> bool:
        return bool(rows) and rows[0][1] == self.token

    def _may_take(self, rows: list[Row]) -> bool:
        """Whether it is ours, given back, held by a process of this machine that is gone, or no longer renewed."""
        if not rows or self._is_mine(rows) or rows[0][2] == 0 or _is_dead(str(rows[0][0])):
            return True
        if rows[0] != self._seen:
            self._seen, self._seen_at = rows[0], self._clock()
        return self._clock() - self._seen_at >= self.duration

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew it while the block runs, from a thread of its own: whatever the event loop is busy with."""
        stop = threading.Event()
        threading.Thread(target=self._renew_until, args=(stop,), name=f"lease {self._name}", daemon=True).start()
        try:
            yield
        finally:
            stop.set()

    def _renew_until(self, stop: threading.Event) -> None:
        while not stop.wait(self.duration / _RENEWALS):
            started = self._clock()
            # A database that is busy now may be free at the next try; if not, the time runs out by itself.
            with suppress(MemoryFault):
                token = self._database.write_here(self._take, self._is_mine)
                if not stop.is_set():
                    self._until = started + self.duration if token else 0.0

    async def release(self) -> None:
        """Let the next process start at once."""
        if self.token is not None:
            token, self.token = self.token, None
            sql = "UPDATE lease SET expires_ms = 0 WHERE name = ? AND token = ?"
            with suppress(StoreReplaced):  # the lease is gone with its file
                await self._database.write(Transaction.run, sql, (self._name, token))


def check_lease(tx: Transaction, token: int | None) -> None:
    """Refuse a write of a process whose lease has passed to another. No token: not a write of the pipeline."""
    if token is None:
        return
    rows = tx.fetch("SELECT token FROM lease WHERE name = ?", (NAME,))
    if not rows or rows[0][0] != token:
        raise LeaseLost("Another process took over the pipeline; this one stops writing.")


def machine() -> str:
    """Where process numbers mean the same. A container has numbers of its own, and perhaps the name of its host."""
    try:
        return f"{socket.gethostname()}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # only Linux has such a place
        return socket.gethostname()


def _is_dead(holder: str) -> bool:
    """Whether the holder is a process of this machine that no longer lives."""
    host, _, pid = holder.rpartition(":")
    if os.name != "posix" or host != machine() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


_CLOSED = " OR ".join(
    f"(level = {int(level)} AND end_ms <= :now - {round(grace.total_seconds() * 1000)})"
    for level, grace in GRACE.items()
)
_WAITING = f"""
    SELECT EXISTS (SELECT 1 FROM inbox WHERE state = 0)
        OR EXISTS (SELECT 1 FROM dirty_session)
        OR EXISTS (SELECT 1 FROM dirty_node)
        OR EXISTS (SELECT 1 FROM dirty_brief)
        OR EXISTS (SELECT 1 FROM dirty_compaction WHERE retry_ms <= :now)
        OR EXISTS (SELECT 1 FROM segment WHERE input_hash <> done_hash
                      AND (closed = 1 OR end_ms NOT BETWEEN :busy_from AND :busy_to))
        OR EXISTS (SELECT 1 FROM segment WHERE closed = 0 AND end_ms < :closed_before)
        OR EXISTS (SELECT 1 FROM node WHERE open = 1 AND ({_CLOSED}))
"""


class WorkPart:
    """Implements the WorkStore port."""

    _database: Database

    def lease(self, name: str = NAME) -> SqliteLease:
        return SqliteLease(self._database, name=name)

    async def changes(self) -> int:
        return await self._database.data_version()

    async def has_work(self, now_ms: int, busy: range, closed_before_ms: int) -> bool:
        values = {
            "now": now_ms,
            "busy_from": busy.start,
            "busy_to": busy.stop - 1,
            "closed_before": closed_before_ms,
        }
        return bool(await self._database.value(_WAITING, values))
