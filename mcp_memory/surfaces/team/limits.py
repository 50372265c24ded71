"""How much one may ask: requests and open streams of each member, and failed logins of each address."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

#: How many names are kept in mind; of more, those that are full again are let go.
_MOST = 10_000


@dataclass(slots=True)
class RateLimit:
    """So many at once, and so many a second after that."""

    burst: float
    per_second: float
    clock: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)

    def wait(self, name: str) -> float:
        """How many seconds are to be waited for the next one; 0 if it may come now."""
        return max(0.0, (1.0 - self._now(name)) / self.per_second)

    def take(self, name: str) -> float:
        """Take one, unless it has to wait: then how many seconds."""
        left = self._now(name)
        if left < 1.0:
            return (1.0 - left) / self.per_second
        if len(self._left) >= _MOST:
            self._left = {one: kept for one, kept in self._left.items() if self._now(one) < self.burst}
        self._left[name] = (left - 1.0, self.clock())
        return 0.0

    def _now(self, name: str) -> float:
        left, since = self._left.get(name, (self.burst, self.clock()))
        return min(self.burst, left + (self.clock() - since) * self.per_second)


@dataclass(slots=True)
class OpenLimit:
    """Limit how many run at the same time."""

    most: int
    _open: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def one(self, name: str) -> Iterator[bool]:
        """Count one more in for as long as the block lasts; False if there are as many as there may be."""
        if self._open[name] >= self.most:
            yield False
            return
        self._open[name] += 1
        try:
            yield True
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]
