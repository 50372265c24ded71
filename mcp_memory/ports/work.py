"""When the pipeline works, and which process does."""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.errors import LeaseLost


class Clock(Protocol):
    """Tells the time. Tests stand it still."""

    def now_ms(self) -> int: ...


class Backlog(Protocol):
    """What is left to do."""

    async def waits(self, now_ms: int, busy: range, closed_before_ms: int) -> bool:
        """Whether any stage would find work: rows, changed sessions, quiet or closed segments, closed periods."""
        ...


class Lease(Protocol):
    """The right to run the pipeline, which one process at a time has."""

    token: int | None

    def holds(self) -> bool:
        """Whether it is still ours, as far as our own clock tells."""
        ...

    async def acquire(self) -> bool:
        """Take or renew it. False while another process has it."""
        ...

    def kept(self) -> AbstractAsyncContextManager[None]:
        """Renew it for as long as the block runs."""
        ...

    async def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Share:
    """What one round may take: the lease it writes under, and when it should come to an end."""

    lease: Lease
    ends: float

    @property
    def token(self) -> int:
        if self.lease.token is None:
            raise LeaseLost("The pipeline was run without its lease.")
        return self.lease.token

    def is_over(self) -> bool:
        """Whether the rest should wait for the next round. Raises if the lease is lost: nothing more can be stored."""
        if not self.lease.holds():
            raise LeaseLost("This process lost the lease of the pipeline; another one goes on.")
        return time.monotonic() >= self.ends
