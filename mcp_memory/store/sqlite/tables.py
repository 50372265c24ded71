"""The tables of a memory in a file, read and written in bulk: one end of a move.

A file that is being filled has a name of its own, so that no one opens half a memory. It gets its name when it is
whole.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from mcp_memory.domain.tombstones import TombstoneKey
from mcp_memory.errors import StoreBusy
from mcp_memory.store.sql.database import LOGS, SET_FACT, Row
from mcp_memory.store.sql.log import index_events
from mcp_memory.store.sql.moving import Conflict, Difference, Table, plain
from mcp_memory.store.sql.nodes import index_nodes, unindex_nodes
from mcp_memory.store.sqlite import keys
from mcp_memory.store.sqlite.database import SqliteTransaction, told
from mcp_memory.store.sqlite.migrations import create, latest, newer, prepare_folder, remove_partial, uri, version_of

#: What is added to the name of a file until all of the memory is in it.
MOVING = ".moving"
_TABLES = """
    SELECT name FROM sqlite_schema
    WHERE type = 'table' AND name NOT LIKE 'search%' AND name NOT LIKE 'sqlite%' AND sql NOT LIKE 'CREATE VIRTUAL%'
"""
_EVENTS = "SELECT id, role, type, text FROM event WHERE id > ? ORDER BY id LIMIT 2000"


class FileTables:
    """Implements the MoveSource and MoveTarget ports of a move on one connection."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self.name = path, str(path)
        self._connection = connection

    @classmethod
    @contextmanager
    def origin(cls, path: Path) -> Iterator[FileTables]:
        with told(path), closing(sqlite3.connect(uri(path), uri=True, isolation_level=None)) as connection:
            connection.execute("PRAGMA busy_timeout = 4000")
            yield cls(path, connection)

    @classmethod
    @contextmanager
    def destination(cls, path: Path, check: Callable[[FileTables], None]) -> Iterator[FileTables]:
        """A file to be filled. One that was filled before is taken up again, if it passes the check."""
        partial = path.with_name(path.name + MOVING)
        with told(path):
            prepare_folder(path.parent)
            if path.exists():
                with cls.origin(path) as held:
                    check(held)
                    again = "moved" in held.facts()
                _make_way(path, partial if again else None)
            os.close(os.open(partial, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(_opened(partial)) as connection:
                if version_of(connection) == 0:
                    create(connection)
                filled = cls(path, connection)
                check(filled)
                yield filled

    def tables(self) -> dict[str, Table]:
        found = {}
        for (name,) in self._run(_TABLES).fetchall():
            rows = self._run(f"PRAGMA table_info({name})").fetchall()
            key = sorted((row[5], row[1]) for row in rows if row[5])
            found[name] = Table(name, tuple(row[1] for row in rows), tuple(column for _, column in key))
        return found

    @contextmanager
    def moment(self) -> Iterator[None]:
        self._run("BEGIN")
        try:
            yield
        finally:
            self._run("COMMIT")

    def rows(self, table: Table, after: Row | None, last: Row | None, limit: int | None) -> list[Row]:
        order = ", ".join(f'"{name}"' for name in table.key or table.columns)
        marks = f"({', '.join('?' * len(table.key))})"
        bounds = [f"({order}) {sign} {marks}" for sign, key in ((">", after), ("<=", last)) if key is not None]
        where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
        columns = ", ".join(f'"{name}"' for name in table.columns)
        sql = f"SELECT {columns} FROM {table.name}{where} ORDER BY {order} LIMIT {-1 if limit is None else limit}"
        found = self._run(sql, (*(after or ()), *(last or ())))
        return [tuple(map(plain, row)) for row in found]

    def count(self, table: str) -> int:
        return int(self._run(f"SELECT count(*) FROM {table}").fetchone()[0])

    def facts(self) -> dict[str, str]:
        return dict(self._run("SELECT key, value FROM meta"))

    def places(self) -> dict[str, int]:
        found = dict(self._run("SELECT name, seq FROM sqlite_sequence"))
        return {name: int(found.get(name, 0)) for name in LOGS}

    def tombstone_key(self) -> TombstoneKey | None:
        return keys.read_key(self.path.parent)

    def keep_tombstone_key(self, key: TombstoneKey) -> None:
        keys.make_key(self.path.parent, key)

    def begin(self, mark: str) -> None:
        facts = self.facts()
        state = json.loads(facts.get("moving") or facts.get("moved") or "{}")
        with self._transaction():
            if state.get("nodes"):  # they can be taken out only while they are as they were put in
                unindex_nodes(SqliteTransaction(self._connection))
            kept = {"events": state.get("events", 0), "erased": state.get("erased", False), "nodes": False}
            self._run(SET_FACT, ("moving", json.dumps(json.loads(mark) | kept)))
            self._run("DELETE FROM meta WHERE key = 'moved'")

    def change(self, table: Table, difference: Difference) -> None:
        columns = ", ".join(f'"{name}"' for name in table.columns)
        key = table.key or table.columns
        where = " AND ".join(f'"{name}" IS ?' for name in key)
        marks = ", ".join("?" * len(table.columns))
        try:
            with self._transaction():
                gone = [table.key_of(row) for row in difference.gone]
                self._connection.executemany(f"DELETE FROM {table.name} WHERE {where}", gone)
                self._connection.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({marks})", difference.new)
                self._spoil(table, difference)
        except sqlite3.IntegrityError as error:
            raise Conflict from error

    def _spoil(self, table: Table, difference: Difference) -> None:
        """The index holds what was said before: it is emptied where that is no longer so."""
        if difference.erases(table):
            self._remember(erased=True)
        indexed = self._state()["events"]
        if table.name != "event" or not indexed:
            return
        if difference.gone or any(table.key_of(row)[0] <= indexed for row in difference.new):
            self._run("INSERT INTO search (search) VALUES ('delete-all')")
            self._remember(events=0)

    def fill_index(self, progress: Callable[[int], None]) -> None:
        tx, last = SqliteTransaction(self._connection), int(self._state()["events"])
        progress(last)
        while rows := self._run(_EVENTS, (last,)).fetchall():
            with self._transaction():
                index_events(tx, rows)
                last = rows[-1][0]
                self._remember(events=last)
            progress(last)
        if not self._state()["nodes"]:
            with self._transaction():
                index_nodes(tx)
                self._remember(nodes=True)

    def finish(self, places: Mapping[str, int], mark: str) -> None:
        with self._transaction():
            for name, number in places.items():
                self._run("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
                self._run("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, number))
            if marks := self.facts().get("erasures", "").split():  # none of it is in this file
                self._connection.executemany(SET_FACT, [(fact, marks[-1]) for fact in ("scrubbed", "rewritten")])
        if self._state()["erased"]:
            self._run("VACUUM")
        with self._transaction():
            state = self._state() | json.loads(mark) | {"erased": False}
            self._run("DELETE FROM meta WHERE key = 'moving'")
            self._run(SET_FACT, ("moved", json.dumps(state)))
        self._run("PRAGMA wal_checkpoint(TRUNCATE)")
        self._run("PRAGMA journal_mode = DELETE")
        self._connection.close()
        self._put_in_place()

    def _put_in_place(self) -> None:
        partial = self.path.with_name(self.path.name + MOVING)
        with open(partial, "r+b") as file:
            os.fsync(file.fileno())
        if self.path.exists():
            raise StoreBusy(f"Another program has made a new {self.path}. End it, and run this again.")
        os.replace(partial, self.path)

    def _run(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._connection.execute(sql, values)

    def _state(self) -> dict[str, Any]:
        """How far the index is filled, and whether something was erased here."""
        found: dict[str, Any] = json.loads(self.facts()["moving"])
        return found

    def _remember(self, **facts: Any) -> None:
        self._run("UPDATE meta SET value = ? WHERE key = 'moving'", (json.dumps(self._state() | facts),))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._run("BEGIN IMMEDIATE")
        try:
            yield
            self._run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._run("ROLLBACK")
            raise


def _opened(partial: Path) -> sqlite3.Connection:
    """A file that is being filled; one of another schema is begun anew."""
    connection = sqlite3.connect(partial, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA busy_timeout = 4000")
    if (version := version_of(connection)) > latest():
        connection.close()
        raise newer(version, partial)
    if 0 < version < latest():
        connection.close()
        remove_partial(partial)
        return _opened(partial)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # a second copy to the same file is told so
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")  # it is on the disk before it has its name
    connection.execute("PRAGMA secure_delete = ON")
    return connection


def _make_way(path: Path, partial: Path | None) -> None:
    """Take the name from a file that no one has open: it is filled again, or there is nothing in it."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=4)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # nothing of it is beside it any more
    if partial:
        os.replace(path, partial)
    else:
        path.unlink()
