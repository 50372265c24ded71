"""When the pipeline works, and which process does."""

from __future__ import annotations

from typing import Protocol


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

    async def acquire(self, now_ms: int) -> bool: ...

    async def release(self) -> None: ...
