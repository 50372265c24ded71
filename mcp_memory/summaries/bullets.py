"""Which statements become bullets: by kind, source and place, each adding something, spread over the turns.

A request and what came of it stand in one bullet where both fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mcp_memory.domain.nodes import DraftBullet, Kind
from mcp_memory.domain.sentences import clipped
from mcp_memory.domain.text import folded, similar
from mcp_memory.summaries.calls import Source
from mcp_memory.summaries.statements import MAX_TEXT, SAYS, Mood, Statement

MOST, FEWEST = 5, 2
#: How much a statement of a kind matters.
WEIGHTS = {
    Kind.NOTE: 3.0,
    Kind.DECISION: 2.4,
    Kind.CORRECTION: 2.4,
    Kind.RULE: 2.0,
    Kind.COMMIT: 1.8,
    Kind.FIXED: 2.0,
    Kind.OUTCOME: 1.9,
    Kind.CAUSE: 2.0,
    Kind.REQUEST: 1.5,
    Kind.REPORT: 1.5,
    Kind.OPEN: 1.3,
    Kind.SAID: 1.2,
    Kind.REMARK: 1.2,
    Kind.FINDING: 0.9,
    Kind.STATED: 0.9,
    Kind.ERROR: 0.8,
    Kind.RESULT: 0.6,
    Kind.STEP: 0.5,
    Kind.DID: 0.4,
}
_BY_SOURCE = {Source.PASSING: 0.75, Source.NOTE: 1.5, Source.ANSWER: 1.3}
#: What a sentence loses that leans on the one before it, and what each further item of a list does.
_LEANS, _LISTED = 0.75, 0.93
_QUESTION = 0.7
_DUPLICATE = 0.6
_SAME_TURN, _SAME_KIND = 0.85, 0.9
_ARROW = " → "
_REQUEST_ROOM = 110


def bullets_of(standing: Sequence[Statement], weights: Mapping[str, float]) -> list[Statement]:
    """Up to five statements that together tell most, in the order in which they were said."""
    pairs = _paired(standing)
    options = [one for one in [*pairs, *standing] if WEIGHTS.get(one.kind)]
    gains = [_worth(one, weights) for one in options]
    chosen: list[int] = []
    covered: set[str] = set()
    while len(chosen) < MOST:
        best, gain = -1, 0.0
        for index, one in enumerate(options):
            if index in chosen or any(_repeats(one, options[other]) for other in chosen):
                continue
            own = one.terms
            fresh = math.fsum(weights.get(term, 0.1) for term in own - covered)
            whole = math.fsum(weights.get(term, 0.1) for term in own) or 1.0
            value = gains[index] * (0.35 + 0.65 * fresh / whole)
            value *= _SAME_TURN ** sum(options[other].turn == one.turn for other in chosen)
            value *= _SAME_KIND ** sum(options[other].kind is one.kind for other in chosen)
            if value > gain:
                best, gain = index, value
        if best < 0 or (len(chosen) >= FEWEST and gain < 0.15):
            break
        chosen.append(best)
        covered |= options[best].terms
    picked = [options[index] for index in chosen]
    return sorted(picked, key=lambda one: (one.turn, one.event.timestamp_ms, one.start))


def _worth(one: Statement, weights: Mapping[str, float]) -> float:
    own = one.terms
    told = min(math.fsum(weights.get(term, 0.1) for term in own) / (3.0 + 0.6 * len(own)), 1.0)
    value = WEIGHTS[one.kind] * _BY_SOURCE.get(one.source, 1.0) * (0.25 + 0.75 * told)
    if one.source <= Source.CLOSING:
        value *= _LISTED**one.place if one.form == "item" else 0.95**one.place
        value *= _LEANS if SAYS["points_back"].match(folded(one.text)) else 1.0
    elif one.mood is Mood.QUESTION:
        value *= _QUESTION
    return value


def _repeats(one: Statement, other: Statement) -> bool:
    if one.event.key == other.event.key and one.start < other.end and other.start < one.end:
        return True
    spans = {(each.event_key, each.start) for each in other.evidence}
    if any((each.event_key, each.start) in spans for each in one.evidence):
        return True
    return similar(one.terms, other.terms) >= _DUPLICATE


def _paired(standing: Sequence[Statement]) -> list[Statement]:
    """Each turn's request with the first result of its closing message, where both fit into one bullet."""
    turns: dict[int, list[Statement]] = {}
    for one in standing:
        turns.setdefault(one.turn, []).append(one)
    pairs = []
    for own in turns.values():
        asked = next((one for one in own if one.by_user and one.kind in _ASKED), None)
        results = [one for one in own if one.source is Source.CLOSING and one.mood is Mood.FACT]
        if asked is None or not results:
            continue
        result = max(results[:4], key=lambda one: WEIGHTS.get(one.kind, 0.0) * 0.9**one.place)
        head = clipped(asked.text, _REQUEST_ROOM)
        text = f"{head}{_ARROW}{result.text}"
        if len(text) <= MAX_TEXT and "…" not in head:
            kind = asked.kind if asked.kind not in (Kind.REQUEST, Kind.REPORT) else result.kind
            pairs.append(replace(asked, kind=kind, text=text, mood=Mood.FACT, more=(*asked.more, *result.evidence)))
    return pairs


_ASKED = frozenset({Kind.REQUEST, Kind.REPORT, Kind.CORRECTION, Kind.DECISION, Kind.RULE})


def drafted(one: Statement) -> DraftBullet:
    return DraftBullet(clipped(one.text, MAX_TEXT), one.evidence, one.kind)
