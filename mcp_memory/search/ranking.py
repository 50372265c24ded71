"""Weighing what the index offers: by what each message says, what stands beside it, and its session.

A message often answers in words that the question does not use; the words are then in the message before. So a
message also counts what its neighbours say, as far as it does not say it itself, and a little of its whole session.
What was said before it counts more than what came after, and most if that was a question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcp_memory.domain.matches import Pool, Spot
from mcp_memory.search.order import Weighed, ordered
from mcp_memory.search.own import Own, Telling, own_of, strengths, telling_of
from mcp_memory.search.question import Question
from mcp_memory.search.turns import answers, closing, is_later
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
