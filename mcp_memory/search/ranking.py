"""Weighing what the index offers: by what each message says, what stands beside it, and its session.

A message often answers in words that the question does not use; the words are then in the message before. So a
message also counts what its neighbours say, as far as it does not say it itself, and a little of its whole session.
What was said before it counts more than what came after, and most if that was a question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mcp_memory.domain.matches import Pool, Spot
from mcp_memory.search.question import Question, folded
from mcp_memory.search.scoring import (
    PASSAGE,
    Own,
    Telling,
    Weighed,
    answers,
    closing,
    is_later,
    only_asks,
    own_of,
    strengths,
    telling_of,
)
from mcp_memory.times.resolve import TimeRange

#: How much counts what was said just before a message, just after it, and anywhere in its session.
_BEFORE, _AFTER, _SESSION = 0.33, 0.18, 0.25
#: What a message is worth that answers a question, the last of several by an agent, and a client's own summary.
_ANSWERS, _CLOSES, _COMPACTION = 1.2, 1.2, 0.6
#: What a message is worth that was said in the favoured time.
_FAVOUR = 2.0


def merged(first: Pool, second: Pool) -> Pool:
    """Both pools as one, each spot once."""
    matched = {spot.number: spot for spot in (*first.spots[: first.matched], *second.spots[: second.matched])}
    spots = matched | {spot.number: spot for spot in (*first.spots, *second.spots) if spot.number not in matched}
    beside = {**first.beside, **second.beside}
    return Pool(tuple(spots.values()), len(matched), beside, second.frequencies, second.documents)


def weigh(
    question: Question, pool: Pool, rare: tuple[float, ...], favoured: TimeRange | None, *, diverse: bool
) -> list[Weighed]:
    """All spots, best first; those said within the favoured time before their equals. `rare`: what each unit tells.

    With `diverse`, the best of each session come before more of the same.
    """
    telling = telling_of(question, pool, rare)
    places = question.places_by_form([spot.text for spot in pool.spots])
    own = {spot.number: own_of(telling, spot, *each) for spot, each in zip(pool.spots, places, strict=True)}
    return ordered(question, _weighed(telling, pool, own, favoured), rare, diverse=diverse)


def _weighed(telling: Telling, pool: Pool, own: Mapping[int, Own], favoured: TimeRange | None) -> list[Weighed]:
    """What each spot is worth with all that stands around it."""
    question, spots = telling.question, {spot.number: spot for spot in pool.spots}
    heard = _heard(telling, pool, spots, own)
    sessions = _sessions(telling, pool, own)
    replies = answers(pool, spots, {number: bool(said.near) for number, said in own.items()})
    last = closing(pool, spots)
    weighed = []
    for spot in pool.spots:
        said = own[spot.number]
        counts = question.roles.get(spot.role, 1.0) * (_COMPACTION if spot.kind == "compaction" else 1.0)
        value = counts * (said.value + _SESSION * sessions.get(spot.session, 0.0))
        if spot.number in heard:
            value += _beside(heard[spot.number], said.near, telling.rare)
        if spot.number in replies and question.speaker in ("", spot.role):
            value *= _ANSWERS
        if spot.number in last:
            value *= _CLOSES
        if favoured and favoured.start_ms <= spot.timestamp_ms < favoured.end_ms:
            value *= _FAVOUR
        weighed.append(Weighed(spot, value, said.focus, said.near, said.places, said.alike))
    return weighed


def _beside(heard: Mapping[int, float], near: frozenset[int], rare: Sequence[float]) -> float:
    """What its neighbours add to a message: what they say and it does not."""
    return sum([rare[unit] * much for unit, much in heard.items() if unit not in near])


def _heard(
    telling: Telling, pool: Pool, spots: Mapping[int, Spot], own: Mapping[int, Own]
) -> dict[int, dict[int, float]]:
    """What stands beside each spot, as much as it counts there."""
    heard: dict[int, dict[int, float]] = {}
    for number, neighbours in pool.beside.items():
        strong = strengths(own[number].places, len(spots[number].text)) if neighbours else {}
        for unit in own[number].alike if strong else ():
            strong[unit] *= telling.alike[unit]
        for neighbour in neighbours:
            if neighbour not in spots:
                continue
            here = heard.setdefault(neighbour, {})
            counts = _BEFORE if is_later(spots[neighbour], spots[number]) else _AFTER
            for unit, much in strong.items():
                here[unit] = here[unit] + counts * much if unit in here else counts * much
    return heard


def _sessions(telling: Telling, pool: Pool, own: Mapping[int, Own]) -> dict[int, float]:
    """How much of the question each session speaks of at all."""
    counts: dict[int, dict[int, float]] = {}
    for spot in pool.spots[: pool.matched]:
        said, alike = counts.setdefault(spot.session, {}), own[spot.number].alike
        for unit, places in own[spot.number].places.items():
            much = (2 if len(places) > 1 else 1) * (telling.alike[unit] if unit in alike else 1.0)
            said[unit] = said.get(unit, 0.0) + much
    return {
        session: sum(telling.rare[unit] * count / (count + 1) for unit, count in said.items())
        for session, said in counts.items()
    }


#: What a message is worth that only asks.
_ASKS = 0.6
#: How much more each sign is worth that a passage answers: a number, a time, a reason.
_CUE = 1.25
#: How much more a text is worth that writes what looks like code, or is quoted, just as the question does.
_WRITTEN = 0.5
#: Where the newest is asked for: what holds so much of what the best does is as good, and the newest of it worth more.
_AS_GOOD, _NEWER = 0.6, 0.5
#: Where several hits make up the answer: what is left of the worth of a word told before, and of a session seen before.
_AGAIN, _SAME_SESSION = 0.9, 0.4
#: In so many sessions the same may be said.
_REPEATS = 2
#: Characters of a passage that are compared to see whether the same was said before; how long one must be to count as
#: the same within another message or with other figures, how much is then compared, and how much is looked at first.
_COMPARED, _FEW_WORDS, _ALIKE, _BEGIN = 160, 80, 144, 12
_NO_FIGURES = str.maketrans("", "", "0123456789")
#: How many are read for what an answer looks like, and among how many what is repeated is looked for.
_READ, _SIFTED = 30, 60


def ordered(question: Question, weighed: Sequence[Weighed], rare: Sequence[float], *, diverse: bool) -> list[Weighed]:
    """All that were weighed, best first. With `diverse`, the best of each session come before more of the same."""
    ranked = sorted(weighed, key=_best_first)
    # What lies far behind does not come first by looking like an answer, and need not be read for it.
    best = sorted([_answering(question, item) for item in ranked[:_READ]], key=_best_first)
    if question.newest:
        best = _newest_first(best, rare)
    if diverse or question.gathers:
        best = _spread(best, rare, _SAME_SESSION if diverse else _AGAIN)
    ranked[:_READ] = best
    return [*_originals_first(ranked[:_SIFTED]), *ranked[_SIFTED:]]


def _best_first(item: Weighed) -> tuple[float, int]:
    return -item.value, -item.spot.timestamp_ms


def _answering(question: Question, item: Weighed) -> Weighed:
    """Worth more if it looks like an answer: it writes and names what is asked for, and does not ask itself."""
    value = item.value * (_ASKS if only_asks(item.spot) else 1.0)
    if item.near and question.exact:
        low = folded(item.spot.text)
        written = sum([each.search(low) is not None for each in question.exact])
        value *= 1 + _WRITTEN * written / len(question.exact)
    if item.near and question.cues:
        passage = item.spot.text[max(0, item.focus - PASSAGE // 3) : item.focus + PASSAGE * 2 // 3].lower()
        value *= math.prod([_CUE if cue.search(passage) else 1.0 for cue in question.cues])
    return item.worth(value)


def _newest_first(ranked: Sequence[Weighed], rare: Sequence[float]) -> list[Weighed]:
    """Of what speaks of the matter as much as the best does, or nearly so, the newer is worth more."""
    told = [sum([rare[unit] for unit in item.near]) for item in ranked]
    least, enough = _AS_GOOD * ranked[0].value if ranked else 0.0, _AS_GOOD * max(told, default=0.0)
    fitting = [item for item, much in zip(ranked, told, strict=True) if item.value >= least and much >= enough]
    times = sorted({item.spot.timestamp_ms for item in fitting})
    step = _NEWER / max(len(times) - 1, 1)
    worth = {item.spot.number: 1 + step * times.index(item.spot.timestamp_ms) for item in fitting}
    return sorted([item.worth(item.value * worth.get(item.spot.number, 1.0)) for item in ranked], key=_best_first)


def _spread(ranked: Sequence[Weighed], rare: Sequence[float], same_session: float) -> list[Weighed]:
    """Take the best one at a time; what comes from the same session, or tells the same, is worth less from then on."""
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
        if len(same) >= _REPEATS or any(other.spot.session == item.spot.session for other in same):
            repeated.append(item)
        else:
            originals.append(item)
            others.append(item)
    return originals + repeated


def _gist(item: Weighed) -> tuple[str, frozenset[int]]:
    """A longer passage that comes with other figures is the same, unless a figure is what was asked for."""
    said = _said(item)
    return said.translate(_NO_FIGURES)[:_ALIKE] if len(said) >= _FEW_WORDS else said, item.near


def _said(item: Weighed) -> str:
    """The passage; the whole message where little of it follows."""
    text, focus = item.spot.text, item.focus
    enough = min(_COMPARED, max(_FEW_WORDS, len(text) // 2))
    return text[focus : focus + _COMPARED] if len(text) - focus >= enough else text
