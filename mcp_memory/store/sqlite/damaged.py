"""A damaged database, table by table: rows that its trees still lead to, rows on pages that nothing leads to any more,
and rows that its indexes repeat."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from mcp_memory.store.sqlite.btree import (
    INDEX_INNER,
    INDEX_LEAF,
    TABLE_INNER,
    TABLE_LEAF,
    Record,
    Tree,
    Value,
    page_of,
)
from mcp_memory.store.sqlite.layout import Layout, Table
from mcp_memory.store.sqlite.pages import Image

#: No table was ever given so many rows.
_IMPLAUSIBLE = 1 << 53
_CHUNK = 500
Check = Callable[[Record], bool]


@dataclass(slots=True)
class Reading:
    """How the reading of a table went. `lost` are rows that an index tells of; there may be more if not `sure`."""

    rows: int = 0
    lost: int = 0
    misfits: int = 0
    sure: bool = True

    @property
    def whole(self) -> bool:
        return self.sure and not self.lost


@dataclass(slots=True)
class Damaged:
    """Reads what there is; `readings` tells of each table that was read to its end."""

    image: Image
    layout: Layout
    readings: dict[str, Reading] = field(default_factory=dict)
    _roots: dict[str, int] = field(default_factory=dict)
    _loose: list[int] | None = None

    def __post_init__(self) -> None:
        schema = Tree(self.image, 1)
        for _, values in schema.rows():
            if len(values) == 5 and isinstance(values[1], str) and isinstance(values[3], int) and values[3] > 1:
                self._roots[values[1]] = values[3]
        if schema.broken:
            # The file was most likely made as new ones are. If not, the rows found there do not fit and are not taken.
            self._roots = {**self.layout.roots, **self._roots}

    def rows(self, name: str, check: Check, *, loose: bool = True) -> Iterator[Record]:
        """Rows of a table that pass the check. `loose`: they cannot be taken for those of another table."""
        self.readings[name] = reading = Reading()
        if name not in self._roots:
            return  # the schema is older than the table
        table = self.layout.tables[name]
        tree = Tree(self.image, self._roots[name], table.keyed)
        seen: set[object] = set()
        for row in _fitting(table, tree.rows(), check, reading):
            seen.add(row[table.number or 0])
            yield row
        intact = not (tree.broken or reading.misfits)
        if not intact:
            for row in self._elsewhere(table, check, loose):
                if table.number is None or row[table.number] not in seen:
                    seen.add(row[table.number or 0])
                    reading.rows += 1
                    yield row
        self._compare(table, reading, seen, intact=intact)

    def copy_to(self, connection: sqlite3.Connection, name: str, check: Check, *, loose: bool = True) -> None:
        rows = self.rows(name, check, loose=loose)
        insert = self.layout.tables[name].insert
        while chunk := list(islice(rows, _CHUNK)):
            connection.executemany(insert, chunk)

    def sequences(self) -> dict[str, int]:
        """The last number that was given in each table that gives none twice."""
        rows = Tree(self.image, self._roots.get("sqlite_sequence", 0)).rows()
        pairs = [values for _, values in rows if len(values) == 2]
        return {
            name: last
            for name, last in pairs
            if isinstance(name, str)
            and name in self.layout.tables
            and isinstance(last, int)
            and 0 < last < _IMPLAUSIBLE
        }

    def last_number(self, name: str) -> int:
        """The highest number of a table's rows, whatever these hold."""
        rows = Tree(self.image, self._roots.get(name, 0)).rows()
        return max((number for number, _ in rows if number < _IMPLAUSIBLE), default=0)

    def _elsewhere(self, table: Table, check: Check, loose: bool) -> Iterator[Record]:
        if loose:
            kinds = (INDEX_INNER, INDEX_LEAF) if table.keyed else (TABLE_LEAF,)
            tree = Tree(self.image, 0, table.keyed)
            for number in self._loose_pages():
                page = page_of(self.image, number)
                if page is not None and page.kind in kinds:
                    yield from _fitting(table, tree.rows_of(page), check)
        if table.number is not None:
            yield from _fitting(table, self._repeated(table), check)

    def _loose_pages(self) -> list[int]:
        """Pages with rows that no tree leads to and that are not free: what led to them is gone."""
        if self._loose is None:
            reached = self.image.free_pages()
            for root in {1, *self._roots.values()}:
                for keyed in (False, True):
                    tree = Tree(self.image, root, keyed)
                    for _ in tree.pages():
                        pass
                    reached |= tree.reached
            left = (number for number in range(2, self.image.count + 1) if number not in reached)
            self._loose = [number for number in left if self._holds_rows(number)]
        return self._loose

    def _holds_rows(self, number: int) -> bool:
        page = page_of(self.image, number)
        if page is None or page.kind == TABLE_INNER:
            return False
        tree = Tree(self.image, number, keyed=page.kind != TABLE_LEAF)
        return next(tree.rows_of(page), None) is not None

    def _repeated(self, table: Table) -> Iterator[tuple[int, Record]]:
        """Rows whose every column stands in some index."""
        found: dict[int, dict[str, Value]] = {}
        for name, (columns, _) in table.indexes.items():
            for number, values in _entries(self._index(name), len(columns)):
                found.setdefault(number, {}).update(zip(columns, values, strict=True))
        needed = {column.name for index, column in enumerate(table.columns) if index != table.number}
        for number, known in found.items():
            if needed <= known.keys():
                yield number, tuple(known.get(column.name) for column in table.columns)

    def _compare(self, table: Table, reading: Reading, seen: set[object], *, intact: bool) -> None:
        """Count what indexes tell of and was not found. One that is whole tells of every row.

        A page may also be one of before, which misses rows and shows no damage: so an intact table is compared, too.
        """
        told: set[int] = set()
        reading.sure = intact
        for name, (columns, full) in table.indexes.items():
            tree = self._index(name)
            numbers = {number for number, _ in _entries(tree, len(columns))}
            whole = full and not tree.broken
            told |= numbers if whole or not intact else set()
            reading.sure = reading.sure or whole
        reading.lost = len(told - seen)

    def _index(self, name: str) -> Tree:
        return Tree(self.image, self._roots.get(name, 0), keyed=True)


def _fitting(
    table: Table, found: Iterable[tuple[int, Record]], check: Check, reading: Reading | None = None
) -> Iterator[Record]:
    """Those that are rows of the table; the others are counted."""
    reading = reading or Reading()
    for number, values in found:
        row = table.fit(number, values)
        if row is None or not check(row):
            reading.misfits += 1
        else:
            reading.rows += 1
            yield row


def _entries(tree: Tree, columns: int) -> Iterator[tuple[int, Record]]:
    """Of each entry of an index, the number of its row and what it repeats of it."""
    for _, values in tree.rows():
        number = values[-1] if len(values) == columns + 1 else None
        if isinstance(number, int) and 0 < number < _IMPLAUSIBLE:
            yield number, values[:-1]
