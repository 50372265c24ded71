"""Titles of segments: one clause that names what a conversation was about, from what was written as a conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.text import terms
from mcp_memory.summaries.calls import Source
from mcp_memory.summaries.phrases import MAX_CHARS, MAX_WORDS, rated, readability, word_count, worth
from mcp_memory.summaries.statements import Mood, Statement

#: How well a statement names the matter, by where it comes from and by its kind.
_BY_SOURCE = {
    Source.PLAN: 3.0,
    Source.PULL_REQUEST: 2.8,
    Source.TITLE: 2.6,
    Source.COMMIT: 2.2,
    Source.NOTE: 2.0,
    Source.TODO: 1.4,
}
_BY_KIND = {
    Kind.REQUEST: 1.8,
    Kind.REPORT: 1.7,
    Kind.DECISION: 1.6,
    Kind.OUTCOME: 1.4,
    Kind.CAUSE: 1.2,
    Kind.SAID: 1.2,
    Kind.CORRECTION: 0.9,
    Kind.STATED: 0.8,
    Kind.FINDING: 0.7,
    Kind.RULE: 0.6,
}
_FIRST, _PASSING, _ITEM, _QUESTION, _PLACE = 1.15, 0.7, 0.8, 0.6, 0.92
#: A problem that was solved is named by what solved it.
_SOLVED, _SOLUTION = 0.5, 1.4
_ENOUGH = 1.0


class Option(NamedTuple):
    """A clause that could be the title, and how fit it is."""

    score: float
    text: str
    statement: Statement


def title_of(standing: Sequence[Statement], weights: Mapping[str, float], names: Sequence[str]) -> str:
    options = options_of(standing, weights)
    return with_names(options[0].text, names) if options else ""


def options_of(standing: Sequence[Statement], weights: Mapping[str, float]) -> list[Option]:
    return sorted(_options(standing, weights), key=lambda one: (-one.score, one.text))


def _options(standing: Sequence[Statement], weights: Mapping[str, float]) -> Iterator[Option]:
    first = next((one.turn for one in standing if one.by_user), 0)
    solved = {one.turn for one in standing if one.kind in (Kind.OUTCOME, Kind.COMMIT)}
    reported = {one.turn for one in standing if one.kind is Kind.REPORT and not one.place}
    shares = _shares(standing)
    for one in standing:
        weight = _BY_SOURCE.get(one.source) or _BY_KIND.get(one.kind, 0.0)
        if not weight:
            continue
        if one.source in _BY_SOURCE:
            text = one.text if word_count(one.text) <= MAX_WORDS + 2 and len(one.text) <= MAX_CHARS else ""
        else:
            if one.by_user:
                weight *= _FIRST if one.turn == first else 1.0
                weight *= _SOLVED if one.kind is Kind.REPORT and one.turn in solved else 1.0
            else:
                weight *= _SOLUTION if one.turn in reported and one.kind is Kind.OUTCOME else 1.0
                weight *= _PASSING if one.source is Source.PASSING else 1.0
            weight *= _PLACE**one.place * (_QUESTION if one.mood is Mood.QUESTION else 1.0)
            weight *= _ITEM if one.form == "item" else 1.0
            phrases = rated(one.text, weights, asked=one.by_user)
            text = max(phrases, key=lambda pair: pair[0] * readability(pair[1]), default=(0.0, ""))[1]
        if text:
            told = worth(text, weights)
            weight *= told / (told + _ENOUGH) * min(readability(text), 1.2) * (0.8 + 0.4 * shares[one.turn])
            yield Option(weight, text, one)


def _shares(standing: Sequence[Statement]) -> dict[int, float]:
    """How much of what was said belongs to each turn."""
    sizes: dict[int, int] = {}
    for one in standing:
        sizes[one.turn] = sizes.get(one.turn, 0) + len(one.text)
    whole = sum(sizes.values()) or 1
    return {turn: size / whole for turn, size in sizes.items()}


def with_names(title: str, names: Sequence[str]) -> str:
    """A title with up to two names of what was worked on that it does not tell yet, as far as there is room."""
    known = terms(title)
    further: list[str] = []
    for name in names:
        longer = f"{title}: {', '.join([*further, name])}"
        if len(further) < 2 and len(longer) <= MAX_CHARS and not terms(name) <= known:
            further.append(name)
    return f"{title}: {', '.join(further)}" if further and ":" not in title else title
