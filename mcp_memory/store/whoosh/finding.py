"""Finding documents by their words in an open generation of the index, ranked by BM25 over weighted fields."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_memory.domain.terms import Term
from mcp_memory.store.sqlite.candidates import ANYWHERE, SCANNED, SHARE, scannable
from mcp_memory.store.whoosh.analysis import words
from mcp_memory.store.whoosh.schema import WEIGHTS

_K1, _B = 1.2, 0.75
#: A term that may be in no more documents is counted exactly.
_EXACT = 4_000
#: How many words a beginning may stand for.
_EXPANDED = 64


@dataclass(frozen=True, slots=True)
class Leaf:
    """A segment of the index, with the columns that every document found is looked up in."""

    reader: Any
    numbers: Sequence[int]
    sizes: Sequence[int]
    times: Sequence[int]


#: A document as its segment knows it: the number of the segment, and its own within that.
_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to find: terms, in documents of these kinds, which begin within a time if one is given.

    `sparing` leaves common terms out, except in the words of the `speaker`.
    """

    terms: Sequence[Term]
    kinds: Collection[int]
    limit: int
    start_ms: int | None = None
    end_ms: int | None = None
    sparing: bool = False
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a question: documents, best first, with their ranks, and in how many of all each term is."""

    ranked: list[tuple[int, float]]
    counts: dict[str, int]
    documents: int


class Finder:
    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._leaves = leaves
        self._documents = sum(len(leaf.numbers) for leaf in leaves)
        self._few = max(ANYWHERE, min(self._documents // SHARE, SCANNED))
        self._usual = sum(sum(leaf.sizes) for leaf in leaves) / max(self._documents, 1)

    def find(self, asked: Asked) -> Found:
        """The best documents: rarer terms count wherever they stand, commoner ones in the words of the speaker."""
        phrases = {term.match: self._phrases(term) for term in asked.terms}
        counts = {match: sum(map(self._at_most, found)) for match, found in phrases.items()}
        # How rare the rare terms are decides what else is looked for, so these are counted exactly.
        rare = [match for match, count in counts.items() if 0 < count <= min(2 * self._few, _EXACT)]
        told = {match: self._occurrences(phrases[match], WEIGHTS) for match in rare}
        counts |= {match: len(found) for match, found in told.items()}
        affordable = scannable(asked.terms, counts)
        anywhere = scannable(asked.terms, counts, self._few) if asked.sparing else affordable
        values: dict[_Place, float] = {}
        for term in anywhere:
            found = told[term.match] if term.match in told else self._occurrences(phrases[term.match], WEIGHTS)
            counts[term.match] = len(found)
            self._add_values(values, found, len(found))
        theirs = {asked.speaker: WEIGHTS[asked.speaker]} if asked.speaker in WEIGHTS else {}
        for term in [term for term in affordable if theirs and term not in anywhere]:
            self._add_values(values, self._occurrences(phrases[term.match], theirs), counts[term.match])
        return Found(self._best(values, asked), counts, self._documents)

    def _best(self, values: Mapping[_Place, float], asked: Asked) -> list[tuple[int, float]]:
        fitting = ((value, place) for place, value in values.items() if self._fits(place, asked))
        best = heapq.nlargest(asked.limit, fitting)
        return [(self._leaves[leaf].numbers[document], -value) for value, (leaf, document) in best]

    def _fits(self, place: _Place, asked: Asked) -> bool:
        leaf, document = self._leaves[place[0]], place[1]
        if leaf.numbers[document] % 4 not in asked.kinds:
            return False
        at = leaf.times[document]
        return (asked.start_ms is None or at >= asked.start_ms) and (asked.end_ms is None or at < asked.end_ms)

    def _phrases(self, term: Term) -> list[tuple[str, ...]]:
        """The term as the index knows its words; nothing of it may be left, as of one that is all marks."""
        begun, whole = (term.phrases[:1], term.phrases[1:]) if term.prefix else ((), term.phrases)
        analyzed: list[tuple[str, ...]] = [
            (word,) for phrase in begun for word in self._beginning_with("".join(words(phrase[0])))
        ]
        analyzed += [tuple(word for given in phrase for word in words(given)) for phrase in whole]
        return list(dict.fromkeys(phrase for phrase in analyzed if phrase))

    def _beginning_with(self, start: str) -> list[str]:
        found: dict[str, None] = {}
        for leaf in self._leaves if start else ():
            for field in WEIGHTS:
                for word in leaf.reader.expand_prefix(field, start):
                    found[word.decode("utf-8")] = None
                    if len(found) == _EXPANDED:
                        return list(found)
        return list(found)

    def _at_most(self, phrase: Sequence[str]) -> int:
        """In how many documents a phrase may stand: no more than the rarest of its words."""
        return min(sum(self._frequency(word, leaf) for leaf in self._leaves) for word in phrase)

    @staticmethod
    def _frequency(word: str, leaf: Leaf) -> int:
        reader = leaf.reader
        return sum(reader.doc_frequency(field, word) for field in WEIGHTS if (field, word) in reader)

    def _occurrences(self, phrases: Sequence[Sequence[str]], fields: Mapping[str, float]) -> dict[_Place, float]:
        """How often any of the phrases stands in these fields of each document, weighted by field."""
        told: dict[_Place, float] = {}
        for number, leaf in enumerate(self._leaves):
            for phrase in phrases:
                for field, weight in fields.items():
                    for document, often in _standing(leaf.reader, field, phrase):
                        place = (number, document)
                        told[place] = told.get(place, 0.0) + weight * often
        return told

    def _add_values(self, values: dict[_Place, float], told: dict[_Place, float], count: int) -> None:
        """Add what a term that is in so many documents is worth to those it was found in."""
        count = min(count, self._documents)
        rarity = math.log(1 + (self._documents - count + 0.5) / (count + 0.5))
        for place, often in told.items():
            length = self._leaves[place[0]].sizes[place[1]] / self._usual
            value = rarity * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * length))
            values[place] = values.get(place, 0.0) + value


def _standing(reader: Any, field: str, phrase: Sequence[str]) -> Iterator[tuple[int, float]]:
    """The documents in whose field the words stand in a row, and how often they do."""
    if not all((field, word) in reader for word in phrase):
        return
    # The rarest word leads, since the others need only be looked at where it stands.
    steps = sorted(range(len(phrase)), key=lambda step: int(reader.doc_frequency(field, phrase[step])))
    lead, *others = [reader.postings(field, phrase[step]) for step in steps]
    while lead.is_active():
        document = lead.id()
        if not others:
            yield document, lead.weight()
        elif not all(_reach(other, document) for other in others):
            # One of them has no more documents, so that none can hold them all.
            return
        elif all(other.id() == document for other in others):
            places = _places(lead, steps[0])
            for other, step in zip(others, steps[1:], strict=True):
                places &= _places(other, step)
            if places:
                yield document, float(len(places))
        lead.next()


def _places(matcher: Any, step: int) -> set[int]:
    """Where the phrase would begin, if its word at this step stands where it does."""
    return {place - step for place in matcher.value_as("positions")}


def _reach(matcher: Any, document: int) -> bool:
    """Go on to this document or the next after it; false at the end."""
    if matcher.is_active() and matcher.id() < document:
        matcher.skip_to(document)
    return bool(matcher.is_active())
