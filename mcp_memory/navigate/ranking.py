"""Ordering what the index offers: BM25 over passages, helped by what stands beside them and in the same session.

A message often answers in words that the question does not use; the words are then in the message before. So a
message also counts what its neighbours say, as far as it does not say it itself, and a little of its whole session.
What was said before it counts more than what came after, and most if that was a question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mcp_memory.domain.offers import Pool, Spot
from mcp_memory.navigate.question import Places, Question
from mcp_memory.navigate.sought import Unit, folded
from mcp_memory.navigate.turns import answers, closing, is_later, name_end, only_asks, speakers
from mcp_memory.navigate.when import TimeRange

#: Characters of a passage; longer texts are weighed by their best passage, so that length neither helps nor hurts.
PASSAGE = 500
_USUAL = 480
_K1, _B = 1.2, 0.3
_FULL = _K1 + 1
#: How much counts what was said just before a message, and just after it.
_BEFORE, _AFTER = 0.33, 0.18
#: What a message is worth that only asks, one that answers a question, and the last of several by an agent.
_ASKS, _ANSWERS, _CLOSES = 0.6, 1.2, 1.2
#: How much the name of a speaker counts where it is not the speaker's: most often to address someone.
_ADDRESSED = 0.5
_SESSION = 0.25
_PAIR = 1.0
_NEAR = 6.0
_WORD = 7.0
_COVER = 0.1
_COMPACTION = 0.6
_FAVOUR = 2.0
_CUE = 1.25
#: How much more a text is worth that writes what looks like code, or is quoted, just as the question does.
_WRITTEN = 0.5
_AGAIN, _SAME_SESSION = 0.9, 0.4
#: In so many sessions the same may be said.
_REPEATS = 2
#: Characters of a passage by which it is told whether the same was said before; how long one must be to be the same
#: within another message or with other figures, how much is then compared, and how much is looked at first.
_COMPARED, _FEW_WORDS, _ALIKE, _BEGIN = 160, 80, 144, 12
_NO_FIGURES = str.maketrans("", "", "0123456789")
#: Where the newest is asked for: what holds so much of what the best does is as good, and the newest of it worth more.
_AS_GOOD, _NEWER = 0.6, 0.5
#: How many are read for what an answer looks like, and among how many what is repeated is looked for.
_READ, _SIFTED = 30, 60
#: How much a word counts that is only told by its short or long form.
_OTHER = 0.7
#: And one that is only told by a word of nearly the same meaning, if that is as rare.
_SYNONYM = 0.4


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


class _Own(NamedTuple):
    """What a text says by itself: its value, where its best passage begins, all it says, what that passage says.

    `alike` is what it only says in words of nearly the same meaning.
    """

    value: float
    focus: int
    places: Places
    near: frozenset[int]
    alike: frozenset[int] = frozenset()


_EMPTY: Places = {}
_NOTHING = _Own(0.0, 0, {}, frozenset())


def rarities(question: Question, pool: Pool) -> list[float]:
    """How much each unit tells: the rarer, the more."""
    return [_rarity(unit, _frequency(unit, pool), pool) for unit in question.units]


def _rarity(unit: Unit, count: int, pool: Pool) -> float:
    count = min(count, pool.documents)
    return unit.weight * math.log(1 + (pool.documents - count + 0.5) / (count + 0.5))


def _frequency(unit: Unit, pool: Pool) -> int:
    """In how many documents a unit stands; one that is nowhere as it was asked for counts by what stands for it."""
    others = (pool.frequencies.get(other.match, 0) for other in unit.others)
    return pool.frequencies.get(unit.match, 0) or sum(others)


def merged(first: Pool, second: Pool) -> Pool:
    """Both pools as one, each spot once."""
    matched = {spot.number: spot for spot in (*first.spots[: first.matched], *second.spots[: second.matched])}
    spots = matched | {spot.number: spot for spot in (*first.spots, *second.spots) if spot.number not in matched}
    beside = {**first.beside, **second.beside}
    return Pool(tuple(spots.values()), len(matched), beside, second.frequencies, second.documents)


def weigh(question: Question, pool: Pool, favoured: TimeRange | None = None, *, diverse: bool = False) -> list[Weighed]:
    """All spots, best first; those said within the favoured time before their equals.

    With `diverse`, the best of each session come before more of the same.
    """
    rare = rarities(question, pool)
    spots = {spot.number: spot for spot in pool.spots}
    names = _names(question, pool)
    places = question.places_by_form([spot.text for spot in pool.spots])
    worth = _worth_alike(question, pool, rare)
    own = {
        spot.number: _own(question, spot, *each, rare, worth, names)
        for spot, each in zip(pool.spots, places, strict=True)
    }
    context = _context(pool, spots, own, worth)
    sessions = _sessions(pool, own, rare, worth)
    replies = answers(pool, spots, {number: bool(said.near) for number, said in own.items()})
    last = closing(pool, spots)
    weighed = []
    for spot in pool.spots:
        number, session, timestamp_ms, kind, role, _ = spot
        value, focus, places_here, near, alike = own[number]
        beside = 0.0
        for unit, much in context[number].items() if number in context else ():
            if unit not in near:
                beside += rare[unit] * much
        counts = question.roles.get(role, 1.0) * (_COMPACTION if kind == "compaction" else 1.0)
        value = counts * (value + _SESSION * sessions.get(session, 0.0)) + beside
        if number in replies and question.speaker in ("", role):
            value *= _ANSWERS
        if number in last:
            value *= _CLOSES
        if favoured and favoured.start_ms <= timestamp_ms < favoured.end_ms:
            value *= _FAVOUR
        weighed.append(Weighed(spot, value, focus, near, places_here, alike))
    weighed.sort(key=_order)
    # What lies far behind does not come first by looking like an answer, and need not be read for it.
    best = sorted((_answering(question, item) for item in weighed[:_READ]), key=_order)
    if question.newest:
        best = _newest_first(best, rare)
    if diverse or question.gathers:
        best = _spread(best, rare, _SAME_SESSION if diverse else _AGAIN)
    ranked = [*best, *weighed[_READ:]]
    return [*_originals_first(ranked[:_SIFTED]), *ranked[_SIFTED:]]


def _order(item: Weighed) -> tuple[float, int]:
    return -item.value, -item.spot.timestamp_ms


def _answering(question: Question, item: Weighed) -> Weighed:
    """Worth more if it looks like an answer: it names a number or a time where one is asked for, and does not ask."""
    if only_asks(item.spot):
        item = item.worth(item.value * _ASKS)
    if item.near and question.exact:
        low = folded(item.spot.text)
        written = sum([each.search(low) is not None for each in question.exact])
        item = item.worth(item.value * (1 + _WRITTEN * written / len(question.exact)))
    if not item.near or not question.cues:
        return item
    passage = item.spot.text[max(0, item.focus - PASSAGE // 3) : item.focus + PASSAGE * 2 // 3].lower()
    looks = math.prod([_CUE if cue.search(passage) else 1.0 for cue in question.cues])
    return item.worth(item.value * looks)


def _newest_first(ranked: Sequence[Weighed], rare: Sequence[float]) -> list[Weighed]:
    """Of what speaks of the matter as much as the best does, or nearly so, the newer is worth more."""
    told = [sum([rare[unit] for unit in item.near]) for item in ranked]
    least, enough = _AS_GOOD * ranked[0].value if ranked else 0.0, _AS_GOOD * max(told, default=0.0)
    fitting = [item for item, much in zip(ranked, told, strict=True) if item.value >= least and much >= enough]
    times = sorted({item.spot.timestamp_ms for item in fitting})
    step = _NEWER / max(len(times) - 1, 1)
    worth = {item.spot.number: 1 + step * times.index(item.spot.timestamp_ms) for item in fitting}
    return sorted([item.worth(item.value * worth.get(item.spot.number, 1.0)) for item in ranked], key=_order)


def _spread(ranked: Sequence[Weighed], rare: Sequence[float], same_session: float) -> list[Weighed]:
    """Take the best in turn; what is of a session that was seen, or tells of what was told, is then worth less."""
    left = [(item, tuple(item.near), sum([rare[unit] for unit in item.near])) for item in ranked]
    chosen: list[Weighed] = []
    sessions = {item.spot.session: 1.0 for item in ranked}
    units = list(rare)
    while left:
        # What is left of an item's worth, by how much of the full weight of what it tells is not told yet.
        worth = [
            item.value * (sum([units[unit] for unit in near]) / full if full else 1.0) * sessions[item.spot.session]
            for item, near, full in left
        ]
        value = max(worth)
        item, near, _ = left.pop(worth.index(value))
        chosen.append(item.worth(value))
        sessions[item.spot.session] *= same_session
        for unit in near:
            units[unit] *= _AGAIN
    return chosen


def _names(question: Question, pool: Pool) -> frozenset[int]:
    """The units of a question that are names of those who speak."""
    known = speakers(pool)
    return frozenset(number for number, unit in enumerate(question.units) if known and unit.root in known)


def _own(
    question: Question,
    spot: Spot,
    whole: Places,
    others: Places,
    alike: Places,
    rare: Sequence[float],
    worth: Sequence[float],
    names: frozenset[int],
) -> _Own:
    if others:
        whole, rare = _with_others(whole, others, rare)
    if not (whole or alike):
        return _NOTHING
    if names and not names.isdisjoint(whole) and (begin := name_end(spot.text)):
        addressed = {unit for unit in names if unit in whole and whole[unit][0] >= begin}
        rare = [each * _ADDRESSED if unit in addressed else each for unit, each in enumerate(rare)]
    total = sum(rare) or 1.0
    only_alike = frozenset(unit for unit in alike if unit not in whole)
    if only_alike:
        whole = {**whole, **{unit: alike[unit] for unit in only_alike}}
        rare = [each * worth[unit] if unit in only_alike else each for unit, each in enumerate(rare)]
    best, at = 0.0, whole
    for size, here, more in _passages(whole, len(spot.text)):
        value, covered = 0.0, 0.0
        flat = _K1 * (1 - _B + _B * size)
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
        # No pair adds more than its words are worth; a passage that cannot win needs no closer look.
        if value + _PAIR * covered <= best:
            continue
        both = _both(here, more) if more else here
        if len(both) > 1:
            value += _pairs(question, both, rare)
        value *= 1 - _COVER + _COVER * covered / total
        if value > best:
            best, at = value, both
    return _Own(best, min([inside[0] for inside in at.values()]), whole, frozenset(at), only_alike)


def _worth_alike(question: Question, pool: Pool, rare: Sequence[float]) -> list[float]:
    """What share of each unit a word of nearly the same meaning tells: the commoner all of them are, the less."""
    worth = []
    for unit, tells in zip(question.units, rare, strict=True):
        count = _frequency(unit, pool) + sum(pool.frequencies.get(other.match, 0) for other in unit.alike)
        worth.append(_SYNONYM * min(1.0, _rarity(unit, count, pool) / tells) if unit.alike and tells else 0.0)
    return worth


def _with_others(whole: Places, others: Places, rare: Sequence[float]) -> tuple[Places, list[float]]:
    """What stands for a word counts as the word, but less where the word itself is not said at all."""
    worth = [each * _OTHER if unit in others and unit not in whole else each for unit, each in enumerate(rare)]
    both = {unit: sorted({*whole.get(unit, ()), *each}) for unit, each in others.items()}
    return {**whole, **both}, worth


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
    if len(first) == len(second) == 1:
        return abs(first[0] - second[0])
    best, other = 1 << 30, 0
    for place in first:
        while other < len(second) - 1 and second[other + 1] <= place:
            other += 1
        best = min(best, abs(second[other] - place), abs(second[min(other + 1, len(second) - 1)] - place))
    return best


def _context(
    pool: Pool, spots: Mapping[int, Spot], own: dict[int, _Own], worth: Sequence[float]
) -> dict[int, dict[int, float]]:
    """What stands beside each spot, as much as it counts there."""
    context: dict[int, dict[int, float]] = {}
    for number, neighbours in pool.beside.items():
        strong = _strong(own[number].places, len(spots[number].text)) if neighbours else {}
        for unit in own[number].alike if strong else ():
            strong[unit] *= worth[unit]
        for neighbour in neighbours:
            if neighbour not in spots:
                continue
            heard = context.setdefault(neighbour, {})
            counts = _BEFORE if is_later(spots[neighbour], spots[number]) else _AFTER
            for unit, much in strong.items():
                heard[unit] = heard[unit] + counts * much if unit in heard else counts * much
    return context


def _strong(whole: Places, length: int) -> dict[int, float]:
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


def _sessions(pool: Pool, own: dict[int, _Own], rare: Sequence[float], worth: Sequence[float]) -> dict[int, float]:
    """How much of the question each session speaks of at all."""
    counts: dict[int, dict[int, float]] = {}
    for spot in pool.spots[: pool.matched]:
        said = counts.setdefault(spot.session, {})
        alike = own[spot.number].alike
        for unit, places in own[spot.number].places.items():
            much = (2 if len(places) > 1 else 1) * (worth[unit] if unit in alike else 1.0)
            said[unit] = said.get(unit, 0.0) + much
    return {
        session: sum(rare[unit] * count / (count + 1) for unit, count in said.items())
        for session, said in counts.items()
    }


def _originals_first(ranked: Sequence[Weighed]) -> list[Weighed]:
    """What is said over and over is boilerplate, and does not crowd out what was said once.

    Passages are compared, not whole messages: a report may be repeated within another one. Once in a session is
    enough, and in two of them.
    """
    begun: dict[str, list[Weighed]] = {}
    originals, repeated = list[Weighed](), list[Weighed]()
    for item in ranked:
        # Few passages begin alike, and only those need a closer look.
        others = begun.setdefault(item.spot.text[item.focus : item.focus + _BEGIN], [])
        same = [other for other in others if _gist(other) == _gist(item)] if others else []
        told = len(same) >= _REPEATS or any(other.spot.session == item.spot.session for other in same)
        (repeated if told else originals).append(item)
        if not told:
            others.append(item)
    return originals + repeated


def _said(item: Weighed) -> str:
    text, focus = item.spot.text, item.focus
    enough = min(_COMPARED, max(_FEW_WORDS, len(text) // 2))
    return text[focus : focus + _COMPARED] if len(text) - focus >= enough else text


def _gist(item: Weighed) -> tuple[str, frozenset[int]]:
    """A longer passage that comes with other figures is the same, unless a figure is what was asked for."""
    said = _said(item)
    return said.translate(_NO_FIGURES)[:_ALIKE] if len(said) >= _FEW_WORDS else said, item.near
