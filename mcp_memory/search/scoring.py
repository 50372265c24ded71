"""What a message is worth for a question: BM25 over its best passage, whose words they are, and how sure that is."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mcp_memory.domain.matches import Pool, Spot
from mcp_memory.domain.stems import root
from mcp_memory.search.question import Places, Question, Unit

SPOKEN = ("user", "assistant")
_NAME_WORDS, _NAME_LONGEST = 3, 40
_ASKS = ("?", "？", "؟")
#: A longer message says more than it asks; how near its end the question may stand.
_SHORT, _END = 300, 100
#: By these words people speak of themselves. Where they do, a question tells something as well.
_OF_ONESELF = re.compile(
    r"\b(?:i|me|my|mine|myself|we|us|our|ours|ich|mir|mich|mein\w*|wir|uns\w*|je|j|moi|mon|ma|mes|nous|notre|nos|yo|mi|mis"
    r"|nosotros|nuestr\w+|io|mio|mia|noi|eu|meu|minha|ik|mij|mijn|wij|jag|mig|min|vi|я|мне|меня|мой|моя|мы|нас)\b|[我私僕俺나저]",
    re.I,
)


def name_end(text: str) -> int:
    """Where the words begin that follow the speaker's name; 0 if the text does not begin with one."""
    colon = text.find(": ", 1, _NAME_LONGEST)
    if colon < 0:
        return 0
    words = text[:colon].split()
    if len(words) > _NAME_WORDS:
        return 0
    for word in words:
        if not word[0].isalpha() or word[0].islower():
            return 0
    return colon + 2


def speakers(pool: Pool) -> frozenset[str]:
    """The names of those who speak, by root, word by word; none unless most messages begin with one."""
    spoken = [spot for spot in pool.spots if spot.role in SPOKEN]
    ends = [(spot, end) for spot in spoken if (end := name_end(spot.text))]
    if len(ends) * 2 <= len(spoken):
        return frozenset()
    return frozenset(root(word) for spot, end in ends for word in spot.text[: end - 2].lower().split())


def only_asks(spot: Spot) -> bool:
    """Whether a message asks and tells nothing: it ends with a question, and nobody speaks of themselves.

    What a user asks an agent does not count as such: it is shown with the reply, and so leads to the answer.
    """
    text = spot.text
    if spot.role not in SPOKEN or len(text) > _SHORT or not text.rstrip().endswith(_ASKS):
        return False
    begin = name_end(text)
    return (begin > 0 or spot.role == "assistant") and not _OF_ONESELF.search(text, begin)


def answers(pool: Pool, spots: Mapping[int, Spot], asking: Mapping[int, bool]) -> set[int]:
    """The messages that come right after one that ends with a question, if `asking` says that it is to the point."""
    found = set()
    for number, beside in pool.beside.items():
        spot = spots[number]
        if asking[number] and any(mark in spot.text.rstrip()[-_END:] for mark in _ASKS):
            after = (spots[each] for each in beside if each in spots and is_later(spots[each], spot))
            following = min(after, key=lambda each: (each.timestamp_ms, each.number), default=None)
            if following:
                found.add(following.number)
    return found


def closing(pool: Pool, spots: Mapping[int, Spot]) -> set[int]:
    """The messages with which an agent ends, after others of its own: they sum up what was done."""
    found = set()
    for number, beside in pool.beside.items():
        spot = spots[number]
        if spot.role != "assistant" or not all(each in spots for each in beside):
            continue
        near = [spots[each] for each in beside]
        if any(is_later(each, spot) for each in near):
            continue
        before = max(near, key=lambda each: (each.timestamp_ms, each.number), default=None)
        if before and before.role == "assistant":
            found.add(number)
    return found


def is_later(spot: Spot, other: Spot) -> bool:
    return (spot.timestamp_ms, spot.number) > (other.timestamp_ms, other.number)


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


class Weighed(NamedTuple):
    """A spot with its value, where its best passage begins, the units found in that passage, and all its places.

    `alike` are those of the units that only words of nearly the same meaning tell.
    """

    spot: Spot
    value: float
    focus: int
    near: frozenset[int]
    places: Places
    alike: frozenset[int] = frozenset()

    def worth(self, value: float) -> Weighed:
        """The same, of another value."""
        return self._replace(value=value)


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
