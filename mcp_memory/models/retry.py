"""When a failed call is tried again, and when a model that keeps failing is left alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from mcp_memory.errors import Passing

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double from `first` seconds to `longest`, each shortened by chance so that callers do not keep step.

    A provider that names its own wait is obeyed; one that names more than `patience` is not waited for at all.
    """

    tries: int = 4
    first: float = 1.0
    longest: float = 20.0
    patience: float = 60.0

    def wait(self, failures: int, chance: float, asked: float | None = None) -> float:
        """Seconds to wait after this many failures; `chance` is from 0 to 1."""
        own = min(self.first * 2.0 ** (failures - 1), self.longest) * (0.5 + 0.5 * chance)
        return max(own, asked) if asked is not None else own


async def retrying(
    call: Callable[[], Awaitable[T]],
    backoff: Backoff,
    sleep: Callable[[float], Awaitable[None]],
    chance: Callable[[], float],
) -> T:
    """Call until it works, fails for good, or has failed too often."""
    failures = 0
    while True:
        try:
            return await call()
        except Passing as error:
            failures += 1
            if failures >= backoff.tries or (error.retry_after or 0.0) > backoff.patience:
                raise
            await sleep(backoff.wait(failures, chance(), error.retry_after))


@dataclass(frozen=True, slots=True)
class Breaker:
    """How often in a row requests have failed, and until when none is made because of that."""

    failures: int = 0
    open_until_ms: int = 0
    reason: str = ""

    def is_open(self, now_ms: int) -> bool:
        return now_ms < self.open_until_ms


THRESHOLD = 3
_FIRST_PAUSE_MS = 60_000
_LONGEST_PAUSE_MS = 3_600_000


def after_failure(breaker: Breaker, reason: str, now_ms: int, asked_seconds: float | None = None) -> Breaker:
    """One more failure. From the third on a pause follows, twice as long each time; a longer one if it is asked for."""
    failures = breaker.failures + 1
    pause = 0
    if failures >= THRESHOLD:
        pause = min(_FIRST_PAUSE_MS << min(failures - THRESHOLD, 10), _LONGEST_PAUSE_MS)
    if asked_seconds:
        pause = max(pause, round(min(asked_seconds * 1000, _LONGEST_PAUSE_MS)))
    return Breaker(failures, now_ms + pause if pause else breaker.open_until_ms, reason)
