"""What the table of the index holds of a document, and how a term is found in it.

A document stands there with its words at their places, and with how much each of them counts. A term is its words as
GIN knows them, within what is asked for and may be seen. Words in a row are found by GIN as words that stand together
anywhere. What it finds so is looked at, up to a bound.

In a small memory each place of a word is looked at: how often it occurs and in which order its documents come is told
as FTS5 tells it. In a larger one that would take longer than to find them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mcp_memory.domain.terms import SPOKEN, WEIGHTS, Columns, Term, Within
from mcp_memory.domain.unicode61 import index_words
from mcp_memory.store.sql.database import SqlConnection

#: How much the length of a text takes from its words, and the length of a common one.
_B, _COMMON = 0.75, 120.0
#: PostgreSQL keeps no places beyond this, and so many of one word; a vector holds a megabyte.
_LAST_PLACE, _PLACES, _ROOM = 16_383, 255, 900_000
#: Of what holds all words of a row, so much is looked at for whether they stand in it: of the latest.
LOOKED_AT = 4_000
#: The level of a row that is an event.
EVENT_LEVEL = -1
_FOUND = "search WHERE terms @@ {term}::tsquery {where}"
_IN_A_ROW = (
    "(SELECT {columns}, terms FROM search WHERE terms @@ {words}::tsquery {where} ORDER BY doc DESC LIMIT "
    f"{LOOKED_AT}) apart WHERE terms @@ {{term}}::tsquery"
)
_CITED = "EXISTS (SELECT 1 FROM grip g WHERE g.event = search.doc / 4 AND g.live = 1)"
#: A memory of so many events is small.
SMALL = 500
#: How much is gained by a word that is said again, and what any word counts at least.
_K1, _LEAST = 1.2, 1e-6
_FIELDS = tuple(WEIGHTS.values())
_SAID = tuple(tuple(WEIGHTS).index(name) for name in SPOKEN)
_TAKEN = "SELECT doc, ARRAY(SELECT unnest(held.positions) FROM unnest(terms) held ORDER BY 1) FROM search WHERE true"
_WORDS_AT = """
    SELECT doc, held.lexeme, held.positions FROM search CROSS JOIN LATERAL unnest(terms) held
    WHERE (held.lexeme = ANY (:words::text[])
        OR EXISTS (SELECT 1 FROM unnest(:starts::text[]) s (word) WHERE held.lexeme ^@ s.word))
"""


@dataclass(frozen=True, slots=True)
class Visible:
    """A condition on the rows of `search`, for a reader who may not see all; its values by name.

    The row holds what it may ask for: project, author, visibility, level and time.
    """

    where: str
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What of the index is looked at: conditions that follow another, and their values by name."""

    where: str
    values: Mapping[str, object]

    def found(self, name: str, in_a_row: bool, columns: str) -> str:
        """The rows that hold what `matched` binds by this name."""
        if in_a_row:
            return _IN_A_ROW.format(term=f":{name}", words=f":{name}_apart", where=self.where, columns=columns)
        return _FOUND.format(term=f":{name}", where=self.where)


def narrowed(within: Within, kept: Visible | None, *also: str, cited: bool = False) -> Narrowed:
    """What is of a project and touches a time, and may be seen."""
    asked = (
        ("project = (SELECT id FROM project p WHERE p.slug = :project)", "project", within.project),
        ("end_ms > :start_ms", "start_ms", within.start_ms),
        ("start_ms < :end_ms", "end_ms", within.end_ms),
    )
    held = [(clause, name, value) for clause, name, value in asked if value is not None]
    clauses = [*also, *(clause for clause, _, _ in held), *([_CITED] if cited else [])]
    clauses += [f"({kept.where})"] if kept else []
    values = {name: value for _, name, value in held} | dict(kept.values if kept else {})
    return Narrowed("".join(f" AND {clause}" for clause in clauses), values)


def phrases_of(term: Term) -> list[tuple[str, ...]]:
    """What a term is found by, in the index's words; no phrase twice."""
    phrases = [tuple(index_words(" ".join(phrase))) for phrase in term.phrases]
    return [phrase for phrase in dict.fromkeys(phrases) if phrase]


def stands_in_a_row(phrases: Sequence[tuple[str, ...]]) -> bool:
    return any(len(phrase) > 1 for phrase in phrases)


def matched(name: str, phrases: Sequence[tuple[str, ...]], prefix: bool = False) -> dict[str, str]:
    """The values of a term: any of its phrases, of each all words in a row, and the same anywhere."""

    def told(sign: str) -> str:
        marks = [":*" if prefix and number == 0 else "" for number in range(len(phrases))]
        return " | ".join(
            "(" + sign.join(f"'{word}'{mark}" for word in phrase) + ")"
            for phrase, mark in zip(phrases, marks, strict=True)
        )

    values = {name: told(" <-> ")}
    return {**values, f"{name}_apart": told(" & ")} if stands_in_a_row(phrases) else values


class IndexRow(NamedTuple):
    """A row of the index: whether users or agents said it, or a tool wrote it, is told by numbers."""

    doc: int
    weight: float
    spoken: int
    tool: int
    terms: str


def index_rows(documents: Sequence[tuple[int, Columns]]) -> list[IndexRow]:
    rows = []
    for number, columns in documents:
        terms, length = _vector(columns)
        field = next((name for name, text in columns._asdict().items() if text), "tool")
        weight = WEIGHTS[field] / (1 - _B + _B * max(length, 1) / _COMMON)
        spoken = bool(columns.user or columns.assistant)
        rows.append(IndexRow(number, round(weight, 4), int(spoken), int(bool(columns.tool)), terms))
    return rows


def _vector(columns: Columns) -> tuple[str, int]:
    """The words of a document as PostgreSQL writes them down, and how many there are in all.

    Words are letters and digits, so nothing in them needs to be escaped. No row of words goes from one field to the
    next.
    """
    places: dict[str, list[str]] = {}
    place, length, room = 0, 0, _ROOM
    for text in columns:
        for word in filter(None, index_words(text)):
            place, length = place + 1, length + 1
            if (known := places.get(word)) is None:
                room -= len(word.encode()) + 8
                if room < 0:
                    continue
                known = places[word] = []
            elif (room := room - 2) < 0:
                continue
            if len(known) < _PLACES and place <= _LAST_PLACE:
                known.append(str(place))
        place += 1
    return " ".join(f"'{word}':{','.join(known)}" if known else f"'{word}'" for word, known in places.items()), length


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words in a row; with `begins`, of the last of them only how it begins."""

    words: tuple[str, ...]
    begins: bool

    def places(self, held: Mapping[str, Sequence[int]]) -> Iterator[int]:
        """Where it begins in a document that has these words at these places."""
        *first, last = self.words
        rows = [{place - at for place in held.get(word, ())} for at, word in enumerate(first)]
        for word, ends in held.items():
            if word == last or (self.begins and word.startswith(last)):
                yield from (end - len(first) for end in ends if all(end - len(first) in row for row in rows))


@dataclass(frozen=True, slots=True)
class Places:
    """All places that are taken in each document, in order, and those of the words that are asked for."""

    taken: Mapping[int, Sequence[int]]
    of_words: Mapping[int, Mapping[str, Sequence[int]]]

    def counts(self, term: Term) -> tuple[int, int]:
        """In how many documents a term stands, and in how many where it was said."""
        held: dict[int, set[int]] = defaultdict(set)
        for phrase in _phrases(term):
            for doc, places in self._found(phrase).items():
                held[doc] |= {self._field(doc, place) for place in places}
        return len(held), sum(not fields.isdisjoint(_SAID) for fields in held.values())

    def weighed(self, terms: Iterable[Term], docs: Iterable[int]) -> list[tuple[int, float]]:
        """Documents with their scores by BM25, best first; of equals first what was stored first.

        Forms of a word that the index takes for one count as often as they are asked for.
        """
        usual = sum(map(len, self.taken.values())) / max(len(self.taken), 1)
        scores = dict.fromkeys(docs, 0.0)
        for phrase in [phrase for term in terms for phrase in _phrases(term)]:
            found = self._found(phrase)
            rarity = max(math.log((len(self.taken) - len(found) + 0.5) / (len(found) + 0.5)), _LEAST)
            for doc in scores.keys() & found.keys():
                often = sum(_FIELDS[self._field(doc, place)] for place in found[doc])
                flat = _K1 * (1 - _B + _B * len(self.taken[doc]) / usual)
                scores[doc] += rarity * (often * (_K1 + 1) / (often + flat))
        return sorted(scores.items(), key=lambda each: (-each[1], each[0]))

    def _found(self, phrase: Phrase) -> dict[int, list[int]]:
        return {doc: places for doc, held in self.of_words.items() if (places := list(phrase.places(held)))}

    def _field(self, doc: int, place: int) -> int:
        """In which field of a document: behind each one place is left out."""
        return min(place - 1 - bisect_left(self.taken[doc], place), len(_FIELDS) - 1)


def places_of(connection: SqlConnection, terms: Sequence[Term], kept: Narrowed) -> Places:
    phrases = [phrase for term in terms for phrase in _phrases(term)]
    asked = {
        **kept.values,
        "words": sorted({word for phrase in phrases for word in phrase.words}),
        "starts": sorted({phrase.words[-1] for phrase in phrases if phrase.begins}),
    }
    of_words: dict[int, dict[str, Sequence[int]]] = defaultdict(dict)
    for doc, word, places in connection.execute(_WORDS_AT + kept.where, asked):
        of_words[doc][word] = places or ()
    return Places(dict(connection.execute(_TAKEN + kept.where, kept.values)), of_words)


def _phrases(term: Term) -> Iterator[Phrase]:
    for number, words in enumerate(term.phrases):
        if found := tuple(index_words(" ".join(words))):
            yield Phrase(found, term.prefix and not number)
