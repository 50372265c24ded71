"""Scores that mean the same for every question: how often a hit like this one was right.

A hit is judged by how much of the question it holds, in how many of its words, and by how far it stands out from those
behind it. The weights were fitted on labelled questions; the steps then turn what came out into the share of hits that
were right.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from mcp_memory.search.order import Weighed

#: What the sum counts: the share of the question that a hit holds, its value to that of the best, the best one's lead,
#: how far it exceeds those behind it, how many words it holds; and where the sum begins.
_HOLDS, _RELATIVE, _LEAD, _OUT, _MANY, _BASE = 0.4, 1.92, 2.34, 0.97, 0.45, -4.96
#: The place of the one behind with which hits are compared.
_COMPARED = 9
#: What a word counts that is only told by one of nearly the same meaning.
_ALIKE = 0.4
#: The less of the question's weight than this share a hit holds, the likelier it is about something else, however far
#: it stands out.
_ENOUGH = 0.75
#: One word of several is most often about something else.
_ALONE = 0.6
#: What comes out, and the share of such hits that were right.
_STEPS = ((0.0, 0.0), (0.35, 0.3), (0.59, 0.5), (0.81, 0.8), (1.0, 0.97))


def scores(ranked: Sequence[Weighed], rare: Sequence[float], many: int) -> list[float]:
    """How likely each of the first `many` hits is right, from 0 to 1; `rare` says how much each unit tells."""
    if not ranked or ranked[0].value <= 0:
        return [0.0] * len(ranked[:many])
    best = ranked[0].value
    lead = (best - ranked[1].value) / best if len(ranked) > 1 else 0.5
    behind = ranked[_COMPARED].value if len(ranked) > _COMPARED else None
    return [_score(item, rare, best, behind, 0.0 if place else lead) for place, item in enumerate(ranked[:many])]


def _score(item: Weighed, rare: Sequence[float], best: float, behind: float | None, lead: float) -> float:
    """`lead` is by how much the best hit stands before the second; of all others it is 0."""
    holds = sum(rare[unit] * (_ALIKE if unit in item.alike else 1.0) for unit in item.near) / (sum(rare) or 1.0)
    out = _standing_out(item.value, behind, holds)
    own = len(item.near - item.alike)
    sum_of = _HOLDS * holds**2 + _RELATIVE * item.value / best + _OUT * out + _MANY * math.log1p(own)
    sum_of += _BASE + _LEAD * lead
    enough = min(1.0, holds / _ENOUGH) * (_ALONE if own <= 1 < len(rare) else 1.0)
    return round(_share_right(enough / (1 + math.exp(-sum_of))), 3)


def _standing_out(value: float, behind: float | None, holds: float) -> float:
    """By how much a hit exceeds those behind it; where there are none, nothing else speaks of what it holds."""
    if behind is None:
        return 2.0 * holds**2
    return min(value / behind - 1, 2.0) if behind > 0 else 2.0


def _share_right(raw: float) -> float:
    place = min(bisect_right(_STEPS, (raw, 2.0)), len(_STEPS) - 1)
    (left, low), (right, high) = _STEPS[place - 1], _STEPS[place]
    return low + (high - low) * (raw - left) / (right - left)
