"""What all benchmarks share: timing in turn, medians and percentiles, and figures that stand beside their aims."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).parent.parent
SHARED = REPO.parent / "shared" / "data"

#: A question to an open memory.
Ask = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. Without an aim it is for information; an aim is never a verdict on the run."""

    name: str
    value: float
    aim: float | None = None
    unit: str = "×"
    note: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.aim is None else self.value <= self.aim


def interleaved(rounds: int, actions: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """The seconds that each action reports, taken in turn: what disturbs the machine disturbs them alike.

    The order is reversed every other round, and a first round that warms the caches is not counted.
    """
    names = list(actions)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-1, rounds):
        for name in names if number % 2 else reversed(names):
            seconds = actions[name]()
            if number >= 0:
                taken[name].append(seconds)
    return taken


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


async def in_turn(pairs: Iterable[tuple[Ask, Ask]], tries: int) -> tuple[list[float], list[float]]:
    """The seconds of the first and of the second of each pair, each the fastest of several tries, taken in turn."""
    first, second = list[float](), list[float]()
    for pair in pairs:
        taken = [[await _seconds(ask) for ask in pair] for _ in range(tries)]
        for best, seconds in zip((first, second), zip(*taken, strict=True), strict=True):
            best.append(min(seconds))
    return first, second


async def _seconds(ask: Ask) -> float:
    started = time.perf_counter()
    await ask()
    return time.perf_counter() - started


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1]


def ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds >= 0.1 else f"{seconds * 1000:.3g} ms"


def against(name: str, taken: Sequence[float], baseline: Sequence[float], aim: float | None = None) -> Figure:
    """The ratio of two medians, with both beside it."""
    ours, base = median(taken), median(baseline)
    return Figure(name, ours / base, aim, note=f"median {ms(ours)} to {ms(base)}, {len(taken)} rounds")
