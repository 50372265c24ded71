"""Which statements become bullets: by kind, source and place, each adding something, spread over the turns.

A request and what came of it stand in one bullet where both fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from mcp_memory.domain.nodes import DraftBullet, Kind
from mcp_memory.domain.sentences import clipped
from mcp_memory.domain.text import folded, similar
from mcp_memory.summaries.calls import Source
from mcp_memory.summaries.messages import MAX_TEXT, SAYS, is_label, says
from mcp_memory.summaries.statements import Mood, Statement, mood_of

MOST, FEWEST = 5, 2
_BY_SOURCE = {Source.PASSING: 0.75, Source.NOTE: 1.5, Source.ANSWER: 1.3}
#: What a plain sentence gains that lays something down, and any that gives a figure.
_FIRM, _EXACT = 1.5, 1.2
#: What a sentence loses that leans on the one before it, what is asked only, and each further sentence of a message.
_LEANS, _QUESTION, _LATER = 0.75, 0.6, 0.95
#: A long message of a user may end with what it asks for.
_LAST = 0.6
_DUPLICATE = 0.6
_SAME_TURN, _SAME_KIND = 0.85, 0.9
_ARROW = " → "
_REQUEST_ROOM = 110
_LEAD = 70


def bullets_of(standing: Sequence[Statement], weights: Mapping[str, float]) -> list[Statement]:
    """Up to five statements that together tell most, in the order in which they were said."""
    options = [one for one in [*_paired(standing), *standing] if one.kind.weight]
    if sum(one.source > Source.ACTION for one in options) >= FEWEST:
        # Which files were edited is told only where nothing else is.
        options = [one for one in options if not (one.source is Source.ACTION and one.kind is Kind.STEP)]
    terms = [one.terms for one in options]
    wholes = [_weight(own, weights) for own in terms]
    gains = [_worth(one, own, whole) for one, own, whole in zip(options, terms, wholes, strict=True)]
    chosen: list[int] = []
    covered: set[str] = set()
    left = list(range(len(options)))
    while len(chosen) < MOST:
        best, gain = -1, 0.0
        for index in left:
            if gains[index] <= gain:
                continue  # what follows only takes away from it
            one = options[index]
            value = gains[index] * (0.35 + 0.65 * _weight(terms[index] - covered, weights) / (wholes[index] or 1.0))
            value *= _SAME_TURN ** sum(options[other].turn == one.turn for other in chosen)
            value *= _SAME_KIND ** sum(options[other].kind is one.kind for other in chosen)
            if value > gain:
                best, gain = index, value
        if best < 0 or (len(chosen) >= FEWEST and gain < 0.12):
            break
        chosen.append(best)
        covered |= terms[best]
        left = [index for index in left if not _repeats(options[index], options[best])]
    picked = sorted((options[index] for index in chosen), key=lambda one: (one.turn, one.event.timestamp_ms, one.start))
    leads = [(one.event.key, one.lead) for one in picked]
    led = [
        one if leads.index(lead) < at else _led(one) for at, (one, lead) in enumerate(zip(picked, leads, strict=True))
    ]
    return _filled(led, standing)


def _led(one: Statement) -> Statement:
    """An item of a list with the line above it, where that tells something and both fit."""
    text = f"{one.lead}: {one.text}"
    tells = not is_label(one.lead) and mood_of(one.lead) is not Mood.STEP
    fits = len(one.lead) <= _LEAD and len(text) <= MAX_TEXT and tells
    return replace(one, text=text) if one.form == "item" and one.lead and fits and not one.by_user else one


def _filled(chosen: Sequence[Statement], standing: Sequence[Statement]) -> list[Statement]:
    """The chosen statements, each with those that follow it in its message as far as they fit beside it."""
    spoken = [one for one in standing if one.source in _SPOKEN]
    by_place = {(one.event.key, one.place): one for one in spoken}
    places = {(one.event.key, one.start): one.place for one in spoken}
    told = {(each.event_key, each.start) for one in chosen for each in one.evidence}
    filled = []
    for one in chosen:
        key, start = one.evidence[-1].event_key, one.evidence[-1].start
        place = places.get((key, start), -2) + 1
        while (following := by_place.get((key, place))) and (key, following.start) not in told:
            mark = "; " if following.form == "item" else ". "
            speaker = f"{one.text.partition(': ')[0]}: " if one.kind is Kind.SAID else ""
            text = f"{one.text.rstrip('.;:')}{mark}{following.text.removeprefix(speaker)}"
            if len(text) > MAX_TEXT or following.mood is not Mood.FACT or not following.kind.weight:
                break
            if "heading" in (one.form, following.form):
                break
            told.add((key, following.start))
            one, place = replace(one, text=text, more=(*one.more, *following.evidence)), place + 1
        filled.append(one)
    return filled


_SPOKEN = frozenset({Source.CLOSING, Source.PASSING, Source.MESSAGE})


_NAME = re.compile(r"`[^`]+`|\w[a-z][A-Z]\w|\w_\w|\w\.\w|[A-Z]{2,}|(?<=[a-z,] )[A-Z]\w+|\w/\w|--\w|\d")


@lru_cache(maxsize=1 << 12)
def exactness(text: str) -> float:
    """How much a reader would lose with the words: figures and names cannot be guessed from the rest."""
    names = sum(1 for _ in islice(_NAME.finditer(text), 3)) / 3
    return names * (_EXACT if says("figure", text) else 1.0)


def _weight(terms: Iterable[str], weights: Mapping[str, float]) -> float:
    return math.fsum([weights.get(term, 0.1) for term in terms])


def _worth(one: Statement, own: Collection[str], whole: float) -> float:
    """How much a statement matters by itself, with its terms and what these weigh together."""
    recurs = min(whole / (3.0 + 0.6 * len(own)), 1.0)
    value = one.kind.weight * _BY_SOURCE.get(one.source, 1.0) * (0.25 + 0.55 * recurs + 0.2 * exactness(one.text))
    value *= 0.5 if len(own) < 3 else 1.0
    if one.source <= Source.CLOSING and not one.by_user:
        value *= _LATER**one.place * (_LEANS if SAYS["points_back"].match(folded(one.text)) else 1.0)
        if one.kind in (Kind.STATED, Kind.FINDING):
            value *= _FIRM if any(says(name, one.text) for name in ("firm", "figure", "open")) else 1.0
    elif one.mood is Mood.QUESTION:
        value *= _QUESTION
    elif one.source is Source.MESSAGE:
        value *= max(_LATER**one.place, _LAST)
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
        result = max(results, key=lambda one: _answers(one, asked))
        if asked.kind not in (Kind.REQUEST, Kind.REPORT) and not asked.terms & result.terms:
            continue
        head = clipped(asked.text, _REQUEST_ROOM)
        text = f"{head}{_ARROW}{result.text}"
        if len(text) <= MAX_TEXT and "…" not in head:
            kind = asked.kind if asked.kind not in (Kind.REQUEST, Kind.REPORT) else result.kind
            kind = Kind.FIXED if asked.kind is Kind.REPORT and result.kind is Kind.OUTCOME else kind
            if similar(asked.terms, result.terms) >= _DUPLICATE and kind.weight < asked.kind.weight:
                kind = asked.kind  # or the answer would be left out as repeating the question
            pairs.append(replace(asked, kind=kind, mood=Mood.FACT, text=text, more=(*asked.more, *result.evidence)))
    return pairs


def _answers(one: Statement, asked: Statement) -> float:
    """How well a sentence tells what came of a request: what stands first does, unless another speaks of the same."""
    return one.kind.weight * 0.9**one.place * (0.4 + similar(one.terms, asked.terms))


_ASKED = frozenset({Kind.REQUEST, Kind.REPORT, Kind.CORRECTION, Kind.DECISION, Kind.RULE})


#: A label that a sentence brings along, beside the one of its kind.
_OWN_LABEL = re.compile(r"(\w+)(?: \w+)?: (?=\S)")
_JOINING, _TORN = re.compile(r"^[\s;,:)\]}–—]+|[\s;,:(\[{–—]+$"), '`"“”'


def drafted(one: Statement) -> DraftBullet:
    name = f" ({one.lead})" if one.kind is Kind.COMMIT and one.lead else ""
    label = _OWN_LABEL.match(one.text) if one.kind.label else None
    text = one.text[label.end() :] if label and label[1].lower()[:4] == one.kind.label.lower()[:4] else one.text
    return DraftBullet(whole(clipped(text, MAX_TEXT - len(name))) + name, one.evidence, one.kind)


def whole(text: str) -> str:
    """The text without half a quotation and without marks that join it to what is not there."""
    torn = text.count("`") % 2 or text.count('"') % 2 or text.count("“") != text.count("”")
    return _JOINING.sub("", text.translate(dict.fromkeys(map(ord, _TORN))) if torn else text) or text
