"""The lease of a memory in a file.

No wall clock decides. The holder counts from before it wrote its row. Whoever waits takes over a row that has stayed
the same for a whole duration, by its own clock, from when it first saw it: later than the holder gives up, always.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from mcp_memory.store.sql.database import Transaction
from mcp_memory.store.sql.lease import HeldLease

_ROW = "SELECT holder, token, expires_ms FROM lease WHERE name = ?"
_WRITE = "INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)"


class _Held(NamedTuple):
    """The lease as its row tells it."""

    holder: str
    token: int
    expires_ms: int


class SqliteLease(HeldLease):
    """Implements the Lease port."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._seen: _Held | None = None
        self._seen_at = 0.0

    async def acquire(self) -> bool:
        started = self._clock()
        # A look comes before the write: servers that wait for their turn must not write to find out.
        if not self._may_take([_Held(*row) for row in await self._database.fetch(_ROW, (self._name,))]):
            return False
        return self.taken(await self._database.write(self._take, self._may_take), started)

    def renew(self, tx: Transaction) -> int:
        return self._take(tx, self._is_mine)

    def _take(self, tx: Transaction, may_take: Callable[[list[_Held]], bool]) -> int:
        """Write the row; its token, or 0 if someone else has it."""
        held = [_Held(*row) for row in tx.fetch(_ROW, (self._name,))]
        if not may_take(held):
            return 0
        token = held[0].token + (not self._is_mine(held)) if held else 1
        expires = time.time_ns() // 1_000_000 + round(self.duration * 1000)
        expires += bool(held and held[0].expires_ms == expires)  # a renewal must show
        tx.run(_WRITE, (self._name, self.holder, token, expires))
        return token

    def _is_mine(self, held: list[_Held]) -> bool:
        return bool(held) and held[0].token == self.token

    def _may_take(self, held: list[_Held]) -> bool:
        """Whether it is ours, given back, held by a process of this machine that is gone, or no longer renewed."""
        if not held or self._is_mine(held) or not held[0].expires_ms or self.is_dead(held[0].holder):
            return True
        if held[0] != self._seen:
            self._seen, self._seen_at = held[0], self._clock()
        return self._clock() - self._seen_at >= self.duration
