"""Whether a score says how often such a hit is right: by band, by decile of the first hits, and where nothing is."""

from __future__ import annotations

from collections.abc import Sequence

from bench.measure import Figure
from mcp_memory.search.hits import BANDS

#: The score of a hit, and whether it was right.
Judged = tuple[float, bool]
#: Every so many of the questions about other things are asked.
SAMPLED = 5
_FLOORS = {name: floor for floor, name in BANDS}
_TOP = 1.01


def print_bands(judged: Sequence[Sequence[Judged]]) -> None:
    """Of the hits in each band, how many were right."""
    ceiling = _TOP
    for floor, name in BANDS:
        right = [is_right for each in judged for score, is_right in each if floor <= score < ceiling]
        share = f"{sum(right) / len(right):.2f} right" if right else "none"
        print(f"   {name} ({floor} to {min(ceiling, 1.0)}): {len(right)} hits, {share}")
        ceiling = floor


def firsts(name: str, judged: Sequence[Judged]) -> list[Figure]:
    """First hits by decile of their score, and how many of the right ones an agent may take at their word."""
    for decile in range(10):
        within = [each for each in judged if decile <= min(each[0] * 10, 9.9) < decile + 1]
        if within:
            mean, right = sum(score for score, _ in within) / len(within), sum(is_right for _, is_right in within)
            shown = f"mean score {mean:.2f}, right {right / len(within):.2f}"
            print(f"   first hits from .{decile}: {len(within):>4}, {shown}")
    right_ones = [score for score, is_right in judged if is_right]
    sure = sum(score >= _FLOORS["verify"] for score in right_ones)
    share = sure / len(right_ones) if right_ones else 0.0
    note = f"aim ≥ .5; {sure} of {len(right_ones)}"
    return [Figure(f"{name}, right first hits in verify or better", share, unit="", note=note)]


def absent(scores: Sequence[float]) -> list[Figure]:
    """How many first hits reach a band above browse although nothing of the matter is in memory."""
    floor = _FLOORS["compare"]
    reached = sum(score >= floor for score in scores)
    note = f"of {len(scores)} questions about other things; the highest {max(scores, default=0.0):.2f}"
    return [Figure(f"absent topics, first hits from {floor}", reached, 0, "", note)]
