"""Opening a generation of the index for reading, and keeping it open until there is a newer one."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from whoosh.index import FileIndex

from mcp_memory.store.whoosh.finding import Finder, Leaf
from mcp_memory.store.whoosh.position import NAME, Position, generation, read_position
from mcp_memory.store.whoosh.schema import SCHEMA
from mcp_memory.store.whoosh.storage import files

_Columns = tuple[Sequence[int], Sequence[int], Sequence[int]]


class Opened:
    """The latest generation, as one thread at a time may read it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader: Any = None
        self._number: int | None = None
        self._columns: dict[str, _Columns] = {}
        self.position: Position | None = None
        self.finder = Finder([])

    def refresh(self) -> bool:
        """Open the latest generation; whether it is another one than before."""
        number = generation(self._folder)
        position = read_position(self._folder, number)
        if (number, position) == (self._number, self.position):
            return False
        self.close()
        if number is not None and position is not None:
            self._open(position)
        return True

    def _open(self, position: Position) -> None:
        with files(self._folder) as storage:
            self._reader = reader = FileIndex(storage, schema=SCHEMA, indexname=NAME).reader()
            leaves = [leaf for leaf, _ in reader.leaf_readers() if leaf.doc_count_all()]
            named = [(leaf.segment().segment_id(), leaf) for leaf in leaves]
            # A segment never changes, so what was read of it stays true as long as there is one of its name.
            self._columns = {name: self._columns.get(name) or _columns(leaf) for name, leaf in named}
        self.finder = Finder([Leaf(leaf, *self._columns[name]) for name, leaf in named])
        # A commit may have come between; the position must be that of what was opened.
        self._number = reader.generation() if leaves else generation(self._folder)
        self.position = read_position(self._folder, self._number) if leaves else position

    def close(self) -> None:
        reader, self._reader = self._reader, None
        self.finder, self.position, self._number = Finder([]), None, None
        if reader is not None:
            # Closing fails on what a broken file never opened, and there is nothing more to do about it.
            with suppress(Exception):
                reader.close()


def _columns(leaf: Any) -> _Columns:
    many = range(leaf.doc_count_all())
    number, size, at = (leaf.column_reader(name) for name in ("number", "size", "at"))
    # Numbers in a row: a history of a hundred thousand documents takes two megabytes.
    return (
        array("Q", map(number.__getitem__, many)),
        array("I", map(size.__getitem__, many)),
        array("q", map(at.__getitem__, many)),
    )
