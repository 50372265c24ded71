"""The right to work, as its holder sees it: taken, renewed from a thread of its own, and given back.

The token grows with every change of hands. Each write of the pipeline checks it in its own transaction, so a process
that was asleep while another took over cannot write any more. How one is taken, each engine tells.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from mcp_memory.errors import MemoryFault, StoreReplaced
from mcp_memory.store.sql.database import SqlDatabase, Transaction
from mcp_memory.store.sql.work import NAME

DURATION_SECONDS = 20.0
#: How many times it is renewed while it lasts, so that one renewal that has to wait does not lose it.
_RENEWALS = 4


class HeldLease(ABC):
    """What of the Lease port is the same for every engine."""

    def __init__(
        self,
        database: SqlDatabase,
        holder: str | None = None,
        name: str = NAME,
        duration: float = DURATION_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._name = name
        self._clock = clock
        self._until = 0.0
        self.duration = duration
        self.holder = holder or f"{self.place()}:{os.getpid()}"
        self.token: int | None = None

    def place(self) -> str:
        """Where the numbers of processes mean the same."""
        return machine()

    def is_dead(self, holder: str) -> bool:
        """Whether the holder is a process of this machine that no longer lives."""
        place, _, pid = holder.rpartition(":")
        if os.name != "posix" or place != self.place() or not pid.isdigit():
            return False
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            return False
        return False

    def holds(self) -> bool:
        return self.token is not None and self._clock() < self._until

    @abstractmethod
    async def acquire(self) -> bool:
        """Take or renew the lease. False while another living process holds it."""

    @abstractmethod
    def renew(self, tx: Any) -> int:
        """Write the row anew if it is still ours; its token, or 0."""

    def taken(self, token: int, started: float) -> bool:
        """It is ours from when we began to ask for it, if there is a token."""
        if token:
            self.token, self._until = token, started + self.duration
        return bool(token)

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
                token = self._database.write_here(self.renew)
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
