"""What rows of each table look like, as the schema itself says: by it, rows are told from bytes that are none."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp_memory.store.sqlite.btree import Record, Value

_KINDS: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "TEXT": (str,), "BLOB": (bytes,), "REAL": (int, float)}
#: The years 1 to 9999: no calendar has others.
_EARLIEST_MS, _LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
_OBJECTS = "SELECT type, name, tbl_name, rootpage, coalesce(sql, '') FROM sqlite_schema WHERE rootpage > 0"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kinds: tuple[type, ...]
    required: bool
    #: For rows that are older than the column; none if the column was there from the start.
    default: Value = None

    def takes(self, value: Value) -> bool:
        if value is None:
            return not self.required
        if not isinstance(value, self.kinds):
            return False
        return not self.name.endswith("_ms") or self._is_time(value)

    def _is_time(self, value: Value) -> bool:
        return isinstance(value, int) and (_EARLIEST_MS <= value <= _LATEST_MS or abs(value) == 1 << 62)


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    #: Whether rows lie under their key instead of a number.
    keyed: bool
    #: Which column is the row's number.
    number: int | None
    #: The columns of each index, and whether it covers all rows.
    indexes: Mapping[str, tuple[tuple[str, ...], bool]]

    @property
    def insert(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        return f"INSERT OR IGNORE INTO {self.name} ({names}) VALUES ({', '.join('?' * len(self.columns))})"

    def fit(self, number: int, values: Sequence[Value]) -> Record | None:
        """The row as it can be stored; none if it cannot be one of this table."""
        later = self.columns[len(values) :]
        if len(values) > len(self.columns) or any(column.default is None for column in later):
            return None
        row = [*values, *(column.default for column in later)]
        if self.number is not None:
            if row[self.number] is not None or number <= 0:
                return None
            row[self.number] = number
        fits = all(column.takes(value) for column, value in zip(self.columns, row, strict=True))
        return tuple(row) if fits else None


@dataclass(frozen=True, slots=True)
class Layout:
    tables: Mapping[str, Table]
    #: Where each table and index begins, in a file that was made with this schema from the start.
    roots: Mapping[str, int]


def layout_of(connection: sqlite3.Connection) -> Layout:
    """The layout of an open database that is whole."""
    objects = connection.execute(_OBJECTS).fetchall()
    tables = {
        name: _table(connection, name, sql)
        for kind, name, _, _, sql in objects
        if kind == "table" and not name.startswith(("search_", "sqlite_"))
    }
    return Layout(tables, {name: root for _, name, _, root, _ in objects})


def _table(connection: sqlite3.Connection, name: str, sql: str) -> Table:
    keyed = "WITHOUT ROWID" in sql
    columns, number = [], None
    for index, column, kind, notnull, default, key in connection.execute(f"PRAGMA table_info({name})").fetchall():
        if key and not keyed and kind == "INTEGER":
            number = index
        columns.append(Column(column, _KINDS[kind], bool(notnull or key), _constant(connection, default)))
    # Without a number in the row, an index tells of nothing that a row could be known by.
    return Table(name, tuple(columns), keyed, number, _indexes(connection, name) if number is not None else {})


def _indexes(connection: sqlite3.Connection, table: str) -> dict[str, tuple[tuple[str, ...], bool]]:
    """The columns of each index, and whether it has all rows; those on expressions are left out."""
    found = {}
    for _, index, _, _, partial in connection.execute(f"PRAGMA index_list({table})").fetchall():
        named = [column for _, _, column in connection.execute(f"PRAGMA index_info({index})")]
        if all(named):
            found[index] = (tuple(named), not partial)
    return found


def _constant(connection: sqlite3.Connection, default: str | None) -> Value:
    value: Value = connection.execute(f"SELECT {default}").fetchone()[0] if default is not None else None
    return value
