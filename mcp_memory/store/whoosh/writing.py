"""Writing generations of the index: documents in, documents out, and segments that stay few."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whoosh.index import FileIndex
from whoosh.reading import SegmentReader

from mcp_memory.domain.terms import Columns
from mcp_memory.store.whoosh.analysis import words
from mcp_memory.store.whoosh.position import NAME, Position, drop_positions, write_position
from mcp_memory.store.whoosh.schema import SCHEMA, WEIGHTS, Codec
from mcp_memory.store.whoosh.storage import clear, files

#: Segments of one size are merged when there are so many, as long as they hold no more documents than that together:
#: a commit must not take minutes.
_MANY = 4
_LARGEST = 10_000
_SMALL = 16
#: What is sorted in one go. Nothing else runs meanwhile, so a server would not answer for as long as it takes.
_SORTED_MB = 32

Merge = Callable[[Any, list[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class Document:
    number: int
    at: int
    columns: Columns


def start_anew(folder: Path, position: Position) -> None:
    """An empty index in place of whatever was there."""
    clear(folder)
    write_position(folder, 0, position)
    with files(folder) as storage:
        FileIndex.create(storage, SCHEMA, NAME)


def put(folder: Path, documents: Sequence[Document], replaced: Collection[int], position: Position) -> None:
    """Take the replaced documents out and the given ones in, in one commit that reaches the position."""
    with _writer(folder) as writer:
        for number in replaced:
            writer.delete_by_term("key", str(number))
        for document in documents:
            _add(writer, document)
        _commit(folder, writer, position, _tiers)


def take_out(folder: Path, kept: Collection[int], held: Position, reached: Position) -> bool:
    """Take out all documents but these, and rewrite segments that held such, so that no file tells of them any more.

    A commit rewrites a bounded number; whether that was all. Only then the position is `reached`.
    """
    with _writer(folder) as writer:
        for number in _gone(writer, kept):
            writer.delete_document(number)
        holding = [segment for segment in writer.segments if segment.has_deletions()]
        rewritten = _bounded(holding)
        complete = len(rewritten) == len(holding)
        _commit(folder, writer, reached if complete else held, _only(rewritten))
        return complete


@contextmanager
def _writer(folder: Path) -> Iterator[Any]:
    """A writer that is committed within, or given up with all it has opened."""
    with files(folder) as storage:
        writer = FileIndex(storage, schema=SCHEMA, indexname=NAME).writer(codec=Codec(), limitmb=_SORTED_MB)
        try:
            yield writer
        except BaseException:
            if not writer.is_closed:
                writer.cancel()
            raise


def _add(writer: Any, document: Document) -> None:
    texts = zip(WEIGHTS, document.columns.values, strict=True)
    fields = {name: found for name, text in texts if (found := words(text))}
    size = sum(map(len, fields.values()))
    writer.add_document(key=str(document.number), number=document.number, size=size, at=document.at, **fields)


def _commit(folder: Path, writer: Any, position: Position, merge: Merge) -> None:
    number = writer.generation
    write_position(folder, number, position)
    writer.commit(mergetype=merge)
    drop_positions(folder, number)


def _gone(writer: Any, kept: Collection[int]) -> list[int]:
    """Documents that should not be there, by their place in the index."""
    found, reader = [], writer.reader()
    try:
        for leaf, base in reader.leaf_readers():
            deleted = set(leaf.segment().deleted_docs())
            numbers = leaf.column_reader("number")
            each = (place for place in range(leaf.doc_count_all()) if place not in deleted)
            found += [base + place for place in each if numbers[place] not in kept]
    finally:
        reader.close()
    return found


def _bounded(segments: Sequence[Any]) -> list[Any]:
    """The first of these, as many as one commit may rewrite, and at least one."""
    chosen: list[Any] = []
    total = 0
    for segment in segments:
        total += segment.doc_count_all()
        if chosen and total > _LARGEST:
            break
        chosen.append(segment)
    return chosen


def _only(chosen: Sequence[Any]) -> Merge:
    def merge(writer: Any, segments: list[Any]) -> list[Any]:
        _rewrite(writer, chosen)
        return [segment for segment in segments if segment not in chosen]

    return merge


def _tiers(writer: Any, segments: list[Any]) -> list[Any]:
    """Merge the smallest segments once there are many of about their size, so that there are never many in all."""
    tiers: dict[int, list[Any]] = {}
    for segment in segments:
        tiers.setdefault(round(math.log(max(segment.doc_count_all() / _SMALL, 1), _MANY)), []).append(segment)
    for _, tier in sorted(tiers.items()):
        if len(tier) >= _MANY and sum(segment.doc_count_all() for segment in tier) <= _LARGEST:
            return _only(tier)(writer, segments)
    return segments


def _rewrite(writer: Any, segments: Sequence[Any]) -> None:
    for segment in segments:
        reader = SegmentReader(writer.storage, writer.schema, segment)
        writer.add_reader(reader)
        reader.close()
