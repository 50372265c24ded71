"""What the index in PostgreSQL holds of a document: its words at their places, and how much each of them counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mcp_memory.domain.terms import WEIGHTS, Columns, index_words

#: How much the length of a text takes from its words, and the length of a common one.
_B, _COMMON = 0.75, 120.0
#: PostgreSQL keeps no places beyond this, and so many of one word; a vector holds a megabyte.
_LAST_PLACE, _PLACES, _ROOM = 16_383, 255, 900_000


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
