"""Finding documents by their words in the latest generation of the index, ranked by BM25 over weighted fields."""

from __future__ import annotations

import heapq
import json
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcp_memory.domain.terms import SPOKEN, WEIGHTS, Ranked, Term, Within, scannable
from mcp_memory.domain.unicode61 import index_words

#: What Whoosh puts before the names of its files.
NAME = "MAIN"
#: Raised whenever fields or analysis change: an index of another number is built anew.
FORMAT = 5
#: What is known of every document besides its words.
COLUMNS = {"number": "Q", "event": "B", "size": "I", "at": "q"}
_K1, _B, _EVER = 1.2, 0.75, 1 << 62
#: A term that may be in no more documents is counted exactly, and a beginning stands for no more words.
_EXACT, _EXPANDED = 4_000, 64


def generation(folder: Path) -> int | None:
    """The number of the last commit."""
    return max((int(path.stem.split("_")[-1]) for path in folder.glob(f"_{NAME}_*.toc")), default=None)


def read_position(folder: Path, number: int | None) -> str | None:
    """The store's position that a generation has reached; None if it cannot be used."""
    try:
        held = json.loads((folder / f"position_{number}.json").read_text("utf-8"))
        usable = held["format"] == FORMAT and not (folder / "damaged").exists()
        return str(held["position"]) if usable else None
    except (OSError, ValueError, TypeError, LookupError):
        return None


class Searcher:
    """The latest generation of the index, open until there is a newer one, as one thread at a time may read it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader: Any = None
        self._number: int | None = None
        #: The columns of each segment, which never changes, and of all of them, in which what is found is looked up.
        self._known: dict[str, list[array[int]]] = {}
        self._columns: list[array[int]] = []
        self.position: str | None = None

    def refresh(self) -> None:
        """Open the latest generation, if it is another one than before."""
        from mcp_memory.store.whoosh.writer import opened

        number = generation(self._folder)
        position = read_position(self._folder, number)
        if (number, position) == (self._number, self.position):
            return
        self.close()
        if position is None:
            return
        with opened(self._folder) as index:
            self._reader = index.reader()
            known, self._known = self._known, {}
            for leaf, _ in self._reader.leaf_readers():
                if many := range(leaf.doc_count_all()):
                    name = leaf.segment().segment_id()
                    self._known[name] = known.get(name) or [
                        array(kind, map(leaf.column_reader(each).__getitem__, many)) for each, kind in COLUMNS.items()
                    ]
        # Numbers in a row: a history of a hundred thousand documents takes two megabytes.
        self._columns = [array(kind) for kind in COLUMNS.values()]
        for told in self._known.values():
            for column, part in zip(self._columns, told, strict=True):
                column.extend(part)
        # A commit may have come between; the position must be that of what was opened.
        self._number = self._reader.generation() if self._known else number
        self.position = read_position(self._folder, self._number)

    def close(self) -> None:
        reader, self._reader = self._reader, None
        self.position, self._number = None, None
        if reader is not None:
            with suppress(Exception):  # it fails on what a broken file never opened, and nothing more can be done
                reader.close()

    def find(self, terms: Sequence[Term], within: Within, limit: int, events: bool, nodes: bool) -> Ranked:
        """The best documents, events or nodes or both, which begin within the time."""
        numbers, is_event, sizes, begins = self._columns
        documents, usual = len(numbers), sum(sizes) / max(len(sizes), 1)
        phrases = {term.match: self._phrases(term) for term in terms}
        # In no more documents than the rarest word of each phrase.
        counts = {
            match: sum(min(self._frequency(word) for word in phrase) for phrase in found)
            for match, found in phrases.items()
        }
        # How rare the rare terms are decides what else is looked for, so these are counted exactly.
        rare = [match for match, count in counts.items() if 0 < count <= _EXACT]
        told = {match: self._occurrences(phrases[match]) for match in rare}
        counts |= {match: len(found) for match, found in told.items()}
        values: dict[int, float] = {}
        for match in [term.match for term in scannable(terms, counts, documents)]:
            found = told[match] if match in told else self._occurrences(phrases[match])
            counts[match] = len(found)
            count = min(counts[match], documents)
            rarity = math.log(1 + (documents - count + 0.5) / (count + 0.5))
            for place, often in found.items():
                room = often + _K1 * (1 - _B + _B * sizes[place] / usual)
                values[place] = values.get(place, 0.0) + rarity * often * (_K1 + 1) / room
        start = -_EVER if within.start_ms is None else within.start_ms
        end = _EVER if within.end_ms is None else within.end_ms
        wanted = (place for place in values if (events if is_event[place] else nodes) and start <= begins[place] < end)
        fitting = ((values[place], place) for place in wanted)
        said = {match: self._spoken(found) or counts[match] for match, found in phrases.items()}
        return Ranked([numbers[place] for _, place in heapq.nlargest(limit, fitting)], said, documents)

    def _phrases(self, term: Term) -> list[tuple[str, ...]]:
        """The term as the index knows its words; nothing of it may be left, as of one that is all marks."""
        begun, whole = (term.phrases[:1], term.phrases[1:]) if term.prefix else ((), term.phrases)
        found: dict[tuple[str, ...], None] = {}
        for start in filter(None, ("".join(index_words(phrase[0])) for phrase in begun)):
            for field in WEIGHTS:
                for word in self._reader.expand_prefix(field, start):
                    if len(found) < _EXPANDED:
                        found[(word.decode("utf-8"),)] = None
        found |= dict.fromkeys(tuple(word for given in phrase for word in index_words(given)) for phrase in whole)
        return [phrase for phrase in found if phrase]

    def _spoken(self, phrases: Sequence[Sequence[str]]) -> int:
        """In how many messages of users and agents any of the phrases stands, or its rarest word."""
        return sum(min(self._frequency(word, SPOKEN) for word in phrase) for phrase in phrases)

    def _frequency(self, word: str, fields: Iterable[str] = WEIGHTS) -> int:
        reader = self._reader
        return sum(reader.doc_frequency(field, word) for field in fields if (field, word) in reader)

    def _occurrences(self, phrases: Sequence[Sequence[str]]) -> dict[int, float]:
        """How often any of the phrases stands in each document, weighted by field."""
        told: dict[int, float] = {}
        for leaf, base in self._reader.leaf_readers():
            for phrase in phrases:
                for field, weight in WEIGHTS.items():
                    for document, often in _in_a_row(leaf, field, phrase):
                        told[base + document] = told.get(base + document, 0.0) + weight * often
        return told


def _in_a_row(reader: Any, field: str, phrase: Sequence[str]) -> Iterator[tuple[int, float]]:
    """The documents in whose field the words stand in a row, and how often they do."""
    if not all((field, word) in reader for word in phrase):
        return
    # The rarest word leads, since the others need only be looked at where it stands.
    steps = sorted(range(len(phrase)), key=lambda step: int(reader.doc_frequency(field, phrase[step])))
    lead, *others = matchers = [reader.postings(field, phrase[step]) for step in steps]
    while lead.is_active():
        document = lead.id()
        for other in others:
            if other.is_active() and other.id() < document:
                other.skip_to(document)
            if not other.is_active():
                return  # it has no more documents, so that none can hold them all
        if not others:
            yield document, lead.weight()
        elif all(other.id() == document for other in others):
            # Where the phrase would begin, if each word stands where it does.
            paired = zip(matchers, steps, strict=True)
            at = [{place - step for place in each.value_as("positions")} for each, step in paired]
            if places := set.intersection(*at):
                yield document, float(len(places))
        lead.next()


def documents_with(folder: Path, text: str) -> list[int]:
    """Return the documents of which the latest generation holds the words of a text, one after the other."""
    from mcp_memory.store.whoosh.writer import opened

    words = index_words(text)
    if not words or generation(folder) is None:
        return []
    found = set[int]()
    with opened(folder) as index, index.reader() as reader:
        for leaf, _ in reader.leaf_readers():
            numbers = leaf.column_reader("number")
            found |= {int(numbers[place]) for field in WEIGHTS for place, _ in _in_a_row(leaf, field, words)}
    return sorted(found)
