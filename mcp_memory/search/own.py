"""What a text says of a question by itself: BM25 over its best passage, helped by words that stand side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mcp_memory.domain.matches import Pool, Spot
from mcp_memory.search.question import Places, Question
from mcp_memory.search.sought import Unit
from mcp_memory.search.turns import name_end, speakers

#: Characters of a passage; longer texts are weighed by their best passage, so that length neither helps nor hurts.
PASSAGE = 500
_USUAL = 480
_K1, _B = 1.2, 0.3
_FULL = _K1 + 1
#: How much counts that words stand side by side as in the question, up to how many words apart, and how long these are.
_PAIR, _NEAR, _WORD = 1.0, 6.0, 7.0
#: How much of a passage's value depends on how much of the question it covers.
_COVER = 0.1
#: How much the name of a speaker counts where it is not the speaker's: most often to address someone.
_ADDRESSED = 0.5
#: How much a word counts that is only told by its short or long form.
_OTHER = 0.7
#: And one that is only told by a word of nearly the same meaning, if that is as rare.
_SYNONYM = 0.4


@dataclass(frozen=True, slots=True)
class Telling:
    """How much the units of a question tell, among the documents that its pool was taken from.

    `rare` says so by unit; `alike`, which share of it a word of nearly the same meaning tells. `names` are the units
    that name those who speak.
    """

    question: Question
    rare: tuple[float, ...]
    alike: tuple[float, ...]
    names: frozenset[int]


class Own(NamedTuple):
    """What a text says by itself: its value, where its best passage begins, all it says, what that passage says.

    `alike` is what it only says in words of nearly the same meaning.
    """

    value: float
    focus: int
    places: Places
    near: frozenset[int]
    alike: frozenset[int] = frozenset()


_EMPTY: Places = {}
_NOTHING = Own(0.0, 0, {}, frozenset())


def telling_of(question: Question, pool: Pool, rare: tuple[float, ...]) -> Telling:
    known = speakers(pool)
    names = frozenset(number for number, unit in enumerate(question.units) if known and unit.root in known)
    alike = tuple(_share_alike(unit, pool, tells) for unit, tells in zip(question.units, rare, strict=True))
    return Telling(question, rare, alike, names)


def rarities(question: Question, pool: Pool) -> tuple[float, ...]:
    """How much each unit tells: the rarer, the more."""
    return tuple(_rarity(unit, _frequency(unit, pool), pool) for unit in question.units)


def _rarity(unit: Unit, count: int, pool: Pool) -> float:
    count = min(count, pool.documents)
    return unit.weight * math.log(1 + (pool.documents - count + 0.5) / (count + 0.5))


def _frequency(unit: Unit, pool: Pool) -> int:
    """In how many documents a unit stands; if it stands in none as it was asked for, its other forms are counted."""
    others = (pool.frequencies.get(other.match, 0) for other in unit.others)
    return pool.frequencies.get(unit.match, 0) or sum(others)


def _share_alike(unit: Unit, pool: Pool, tells: float) -> float:
    """What share of a unit words of nearly the same meaning tell: the commoner all of them are, the less."""
    if not unit.alike or not tells:
        return 0.0
    count = _frequency(unit, pool) + sum(pool.frequencies.get(other.match, 0) for other in unit.alike)
    return _SYNONYM * min(1.0, _rarity(unit, count, pool) / tells)


def own_of(telling: Telling, spot: Spot, said: Places, others: Places, alike: Places) -> Own:
    """What a text says: as it was asked for, in other forms, and in words of nearly the same meaning."""
    if not (said or others or alike):
        return _NOTHING
    whole, rare = _with_others(said, others, telling.rare) if others else (said, telling.rare)
    if not telling.names.isdisjoint(whole):
        rare = _with_names(telling.names, whole, rare, spot.text)
    total = sum(rare) or 1.0
    only_alike = frozenset(unit for unit in alike if unit not in whole)
    if only_alike:
        whole = {**whole, **{unit: alike[unit] for unit in only_alike}}
        rare = [each * telling.alike[unit] if unit in only_alike else each for unit, each in enumerate(rare)]
    value, passage = _best_passage(telling.question, whole, len(spot.text), rare, total)
    return Own(value, min([inside[0] for inside in passage.values()]), whole, frozenset(passage), only_alike)


def _with_others(whole: Places, others: Places, rare: Sequence[float]) -> tuple[Places, Sequence[float]]:
    """What stands for a word counts as the word, but less where the word itself is not said at all."""
    worth = [each * _OTHER if unit in others and unit not in whole else each for unit, each in enumerate(rare)]
    both = {unit: sorted({*whole.get(unit, ()), *each}) for unit, each in others.items()}
    return {**whole, **both}, worth


def _with_names(names: frozenset[int], whole: Places, rare: Sequence[float], text: str) -> Sequence[float]:
    """A speaker's name counts less in what someone else says, which begins with that one's own name."""
    begin = name_end(text)
    addressed = {unit for unit in names if unit in whole and whole[unit][0] >= begin} if begin else ()
    return [each * _ADDRESSED if unit in addressed else each for unit, each in enumerate(rare)]


def _best_passage(
    question: Question, whole: Places, length: int, rare: Sequence[float], total: float
) -> tuple[float, Places]:
    """The value of the best passage of a text, and what it says; `total` is what all of the question tells."""
    best, at = 0.0, whole
    for size, here, more in _passages(whole, length):
        value, covered = _bm25(here, more, rare, _K1 * (1 - _B + _B * size))
        # No pair adds more than its words are worth; a passage that cannot win needs no closer look.
        if value + _PAIR * covered <= best:
            continue
        both = _both(here, more) if more else here
        if len(both) > 1:
            value += _pairs(question, both, rare)
        value *= 1 - _COVER + _COVER * covered / total
        if value > best:
            best, at = value, both
    return best, at


def _bm25(here: Places, more: Places, rare: Sequence[float], flat: float) -> tuple[float, float]:
    """The value of a passage of two halves, and how much the units in it tell.

    It is computed for every passage, so the halves are not put together for it, which would take longer than the rest.
    """
    value, covered = 0.0, 0.0
    for unit, inside in here.items():
        often = len(inside) + len(more[unit]) if unit in more else len(inside)
        tells = rare[unit]
        covered += tells
        value += tells * often * _FULL / (often + flat)
    for unit, inside in more.items():
        if unit not in here:
            often, tells = len(inside), rare[unit]
            covered += tells
            value += tells * often * _FULL / (often + flat)
    return value, covered


def strengths(whole: Places, length: int) -> dict[int, float]:
    """How strongly a text says each unit, for its neighbours."""
    strong: dict[int, float] = {}
    for size, here, more in _passages(whole, length) if whole else ():
        full = _K1 * size
        for unit, inside in (_both(here, more) if more else here).items():
            often = len(inside)
            much = often * _FULL / (often + full)
            if unit not in strong or much > strong[unit]:
                strong[unit] = much
    return strong


def _passages(whole: Places, length: int) -> list[tuple[float, Places, Places]]:
    """The passages of a text, overlapping by half, each with its size and what its halves hold.

    A text that is hardly longer than one is one. Each begins with a half that holds something: one that begins before
    holds no more, and is no shorter.
    """
    if length <= PASSAGE * 3 // 2:
        return [(length / _USUAL, whole, {})]
    half = PASSAGE // 2
    halves: dict[int, Places] = {}
    for unit, each in whole.items():
        for place in each:
            start = place // half
            here = halves.get(start)
            if here is None:
                halves[start] = {unit: [place]}
            elif unit in here:
                here[unit].append(place)
            else:
                here[unit] = [place]
    return [
        (min(PASSAGE, length - start * half) / _USUAL, halves[start], halves.get(start + 1, _EMPTY))
        for start in sorted(halves)
    ]


def _both(here: Places, more: Places) -> Places:
    both = dict(here)
    for unit, each in more.items():
        both[unit] = both[unit] + each if unit in both else each
    return both


def _pairs(question: Question, here: Places, rare: Sequence[float]) -> float:
    """Words that stood side by side in the question count more where they do so again."""
    value = 0.0
    for first, second in question.pairs:
        if first in here and second in here:
            gap = max(1.0, _closest(here[first], here[second]) / _WORD)
            if gap <= _NEAR:
                value += _PAIR * (rare[first] + rare[second]) / 2 / math.sqrt(gap)
    return value


def _closest(first: Sequence[int], second: Sequence[int]) -> int:
    """The least distance between a place of one list and a place of the other, both in order."""
    if len(first) == len(second) == 1:
        return abs(first[0] - second[0])
    best, other = 1 << 30, 0
    for place in first:
        while other < len(second) - 1 and second[other + 1] <= place:
            other += 1
        best = min(best, abs(second[other] - place), abs(second[min(other + 1, len(second) - 1)] - place))
    return best
