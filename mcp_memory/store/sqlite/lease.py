"""Who works: the lease of the pipeline.

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
from typing import NamedTuple

from mcp_memory.errors import MemoryFault, StoreReplaced
from mcp_memory.store.sql.database import Transaction
from mcp_memory.store.sql.work import NAME
from mcp_memory.store.sqlite.database import Database

DURATION_SECONDS = 20.0
#: How many times it is renewed while it lasts, so that one renewal that has to wait does not lose it.
_RENEWALS = 4
_ROW = "SELECT holder, token, expires_ms FROM lease WHERE name = ?"


class _Held(NamedTuple):
    """The lease as its row tells it."""

    holder: str
    token: int
    expires_ms: int


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
        self._seen: _Held | None = None
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
        if not self._may_take([_Held(*row) for row in await self._database.fetch(_ROW, (self._name,))]):
            return False
        token = await self._database.write(self._take, self._may_take)
        if token:
            self.token, self._until = token, started + self.duration
        return bool(token)

    def _take(self, tx: Transaction, may_take: Callable[[list[_Held]], bool]) -> int:
        """Write the row; its token, or 0 if someone else has it."""
        held = [_Held(*row) for row in tx.fetch(_ROW, (self._name,))]
        if not may_take(held):
            return 0
        token = held[0].token + (not self._is_mine(held)) if held else 1
        expires = time.time_ns() // 1_000_000 + round(self.duration * 1000)
        expires += bool(held and held[0].expires_ms == expires)  # a renewal must show
        tx.run("INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)", (self._name, self.holder, token, expires))
        return token

    def _is_mine(self, held: list[_Held]) -> bool:
        return bool(held) and held[0].token == self.token

    def _may_take(self, held: list[_Held]) -> bool:
        """Whether it is ours, given back, held by a process of this machine that is gone, or no longer renewed."""
        if not held or self._is_mine(held) or not held[0].expires_ms or _is_dead(held[0].holder):
            return True
        if held[0] != self._seen:
            self._seen, self._seen_at = held[0], self._clock()
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
