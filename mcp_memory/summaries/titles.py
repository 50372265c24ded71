"""Titles of segments: one clause that names what a conversation was about, from what was written as a conclusion.

The clause is taken from the best source, weighed by how much of the segment it covers: what the user, the closing
messages and the work itself all speak of is what the segment is about.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mcp_memory.domain.nodes import Kind
from mcp_memory.summaries.calls import Source
from mcp_memory.summaries.keywords import Vocabulary
from mcp_memory.summaries.phrases import (
    MAX_CHARS,
    MAX_WORDS,
    Clause,
    clauses,
    fitness,
    stems,
    word_count,
)
from mcp_memory.summaries.statements import Mood, Statement

#: How well a statement names the matter, by where it comes from and by its kind.
_BY_SOURCE = {
    Source.PLAN: 2.2,
    Source.PULL_REQUEST: 2.2,
    Source.TITLE: 2.0,
    Source.COMMIT: 1.8,
    Source.NOTE: 1.6,
    Source.TODO: 1.0,
}
_BY_KIND = {
    Kind.REQUEST: 1.3,
    Kind.REPORT: 1.2,
    Kind.DECISION: 1.2,
    Kind.OUTCOME: 1.3,
    Kind.CAUSE: 1.0,
    Kind.SAID: 1.0,
    Kind.CORRECTION: 0.9,
    Kind.STATED: 0.8,
    Kind.FINDING: 0.7,
    Kind.RULE: 0.6,
}
_FIRST, _PASSING, _ITEM, _QUESTION, _PLACE = 1.15, 0.5, 0.75, 0.6, 0.88
_SHARE = 0.5
#: What is left of a user's sentence that asks for nothing.
_TOLD = 0.6
#: A problem that was solved is named by what solved it.
_SOLVED, _SOLUTION = 0.5, 1.2
#: How much a word counts by how many voices speak of it: the user, the closing messages, what was written or edited.
_VOICES = (0.4, 0.5, 1.0, 1.3, 1.4)


class Option(NamedTuple):
    """A clause that could be the title, and how fit it is."""

    score: float
    text: str
    statement: Statement


def title_of(standing: Sequence[Statement], vocabulary: Vocabulary, names: Sequence[str]) -> str:
    options = options_of(standing, vocabulary, names)
    return with_names(options[0].text, names_of(vocabulary)) if options else ""


def options_of(standing: Sequence[Statement], vocabulary: Vocabulary, names: Sequence[str] = ()) -> list[Option]:
    return sorted(
        _options(standing, _shared(standing, vocabulary.weights, names)), key=lambda one: (-one.score, one.text)
    )


def _options(standing: Sequence[Statement], weights: Mapping[str, float]) -> Iterator[Option]:
    first = next((one.turn for one in standing if one.by_user), 0)
    solved = {one.turn for one in standing if one.kind in (Kind.OUTCOME, Kind.COMMIT)}
    reported = {one.turn for one in standing if one.kind is Kind.REPORT and not one.place}
    shares = _shares(standing)
    for one in standing:
        weight = _BY_SOURCE.get(one.source) or _BY_KIND.get(one.kind, 0.0)
        if one.source is Source.PASSING:
            weight = min(weight, _PASSING)
        if not weight:
            continue
        if one.source not in _BY_SOURCE:
            if one.by_user:
                weight *= _FIRST if one.turn == first else 1.0
                weight *= _SOLVED if one.kind is Kind.REPORT and one.turn in solved else 1.0
            else:
                weight *= _SOLUTION if one.turn in reported and one.kind is Kind.OUTCOME else 1.0
            weight *= _PLACE**one.place * (_QUESTION if one.mood is Mood.QUESTION else 1.0)
            weight *= _ITEM if one.form == "item" else 1.0
        best = max(_clauses_of(one), key=lambda each: fitness(each, weights), default=None)
        if best:
            weight *= _TOLD if one.by_user and not best.asked else 1.0
            yield Option(weight * fitness(best, weights) * (1.0 + _SHARE * shares[one.turn]), best.text, one)


def _clauses_of(one: Statement) -> Sequence[Clause]:
    if one.source in _BY_SOURCE and word_count(one.text) <= MAX_WORDS + 2 and len(one.text) <= MAX_CHARS:
        return (Clause(one.text, True, True, 1.0),)
    return clauses(one.text)


def _shared(standing: Sequence[Statement], weights: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """How much each word counts: more if several voices speak of it."""
    voices: dict[str, set[str]] = {"edited": {stem for name in names for stem in stems(name)}}
    for one in standing:
        voice = "user" if one.by_user else "closing" if one.source is Source.CLOSING else "record"
        if one.source is not Source.PASSING:
            voices.setdefault(voice, set()).update(stems(one.text))
    heard = Counter(stem for spoken in voices.values() for stem in spoken)
    return {stem: weight * _VOICES[heard[stem]] for stem, weight in weights.items()}


def _shares(standing: Sequence[Statement]) -> dict[int, float]:
    """How much of what was said belongs to each turn."""
    sizes: dict[int, int] = {}
    for one in standing:
        sizes[one.turn] = sizes.get(one.turn, 0) + len(one.text)
    whole = sum(sizes.values()) or 1
    return {turn: size / whole for turn, size in sizes.items()}


def names_of(vocabulary: Vocabulary) -> list[str]:
    return [name for name in vocabulary.keywords(10) if _SHAPED.search(name) or " " in name]


_SHAPED = re.compile(r"[a-z][A-Z]|[A-Z]{2,}|[\w)][._/@:-][\w(]|_|^[-.@]|[A-Za-z]\d")


def with_names(title: str, names: Sequence[str]) -> str:
    """A title with up to two names of what was worked on that it does not tell yet, as far as there is room."""
    known = stems(title)
    further: list[str] = []
    for name in names:
        longer = f"{title}: {', '.join([*further, name])}"
        if len(further) < 2 and len(longer) <= MAX_CHARS and not stems(name) <= known:
            further.append(name)
            known |= stems(name)
    return f"{title}: {', '.join(further)}" if further and ":" not in title else title
