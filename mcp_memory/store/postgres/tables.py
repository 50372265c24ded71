"""The tables of a memory in PostgreSQL, read and written in bulk: one end of a move.

While it is being filled, keys between tables and the index of words are left off, and no one else opens it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import psycopg
from psycopg import errors, sql

from mcp_memory.domain.tombstones import TombstoneKey
from mcp_memory.errors import StoreBusy
from mcp_memory.store.postgres import frequencies, migrations
from mcp_memory.store.postgres.database import SCHEMA, Link, PostgresTransaction, shown, told
from mcp_memory.store.postgres.rewriting import note_lost_rows, rewrite
from mcp_memory.store.sql.database import LOGS, SET_FACT, Row
from mcp_memory.store.sql.log import index_events
from mcp_memory.store.sql.moving import Conflict, Difference, Table, plain
from mcp_memory.store.sql.nodes import index_nodes

logger = logging.getLogger(__name__)

#: Only one copy at a time is made into a memory.
MOVING = 7_265_021_003
_COLUMNS = f"""
    SELECT c.relname, a.attname, coalesce(array_position(i.indkey::int[], a.attnum::int), -1)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
    WHERE c.relnamespace = '{SCHEMA}'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    ORDER BY c.relname, a.attnum
"""
#: What is left off until the copy is whole: the statements that take it off and those that put it back.
_LEFT_OFF = f"""
    SELECT format('ALTER TABLE %I DROP CONSTRAINT %I', c.relname, k.conname),
           format('ALTER TABLE %I ADD CONSTRAINT %I %s', c.relname, k.conname, pg_get_constraintdef(k.oid))
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
    WHERE k.contype = 'f' AND c.relnamespace = '{SCHEMA}'::regnamespace AND NOT c.relispartition
"""
_INDEX = f"""
    SELECT format('DROP INDEX %I', indexname), indexdef FROM pg_indexes
    WHERE schemaname = '{SCHEMA}' AND indexname = 'search_terms'
"""
_COUNTED_ON = f"""
    SELECT c.relname, coalesce(pg_get_serial_sequence(format('{SCHEMA}.%I', c.relname), 'id'),
                               to_regclass(format('{SCHEMA}.%I', c.relname || '_number'))::text)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'id'
    WHERE c.relnamespace = '{SCHEMA}'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
"""
_NOT_INDEXED = (
    "SELECT id, role, type, text, session, timestamp_ms, visibility FROM event e WHERE id > %s "
    "AND NOT EXISTS (SELECT 1 FROM search s WHERE s.doc = e.id * 4) ORDER BY id LIMIT 2000"
)
_SHARED = (
    "UPDATE session s SET shared = 1 WHERE shared = 0 "
    "AND EXISTS (SELECT 1 FROM event e WHERE e.session = s.id AND e.visibility = 'team')"
)
_OF_SESSIONS = "DELETE FROM search WHERE doc IN (SELECT id * 4 FROM event WHERE session = ANY(%s))"


class ServerTables:
    """Implements the MoveSource and MoveTarget ports of a move on one connection."""

    def __init__(self, url: str, connection: psycopg.Connection[Any]) -> None:
        self.name = shown(url)
        self._connection = connection

    @classmethod
    @contextmanager
    def origin(cls, url: str) -> Iterator[ServerTables]:
        with told(url), _connected(url) as connection:
            yield cls(url, connection)

    @classmethod
    @contextmanager
    def destination(cls, url: str, check: Callable[[ServerTables], None]) -> Iterator[ServerTables]:
        """A memory to be filled; its tables are made if they are not there, and it has to pass the check."""
        with told(url):
            migrations.migrate(url, filling=True)
            with _connected(url) as connection:
                try:
                    with connection.transaction():  # the server may not have noticed yet that one has just ended
                        connection.execute("SET LOCAL lock_timeout = 1000")
                        connection.execute("SELECT pg_advisory_lock(%s)", (MOVING,))
                except psycopg.errors.LockNotAvailable:
                    raise StoreBusy(
                        f"Another `mcp-memory move` is filling {shown(url)}. Wait for that to end."
                    ) from None
                filled = cls(url, connection)
                check(filled)
                yield filled

    @staticmethod
    def is_there(url: str) -> bool:
        """Whether a memory has been made there."""
        with told(url), psycopg.connect(url, connect_timeout=10) as connection:
            return migrations.version_of(connection) > 0

    def tables(self) -> dict[str, Table]:
        found: dict[str, list[tuple[str, int]]] = {}
        for table, column, place in self._run(_COLUMNS):
            found.setdefault(table, []).append((column, place))
        return {
            table: Table(
                table,
                tuple(column for column, _ in columns),
                tuple(column for column, place in sorted(columns, key=lambda each: each[1]) if place >= 0),
            )
            for table, columns in found.items()
        }

    @contextmanager
    def moment(self) -> Iterator[None]:
        self._run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            if not self._connection.closed:
                self._connection.rollback()

    def rows(self, table: Table, after: Row | None, last: Row | None, limit: int | None) -> list[Row]:
        order = _names(table.key or table.columns)
        places = sql.SQL(", ").join(sql.Placeholder() * len(table.key))
        bounds = [
            sql.SQL("({}) {} ({})").format(order, sql.SQL(sign), places)
            for sign, key in ((">", after), ("<=", last))
            if key is not None
        ]
        where = sql.SQL(" WHERE ") + sql.SQL(" AND ").join(bounds) if bounds else sql.SQL("")
        query = sql.SQL("SELECT {} FROM {}{} ORDER BY {} LIMIT {}").format(
            _names(table.columns), sql.Identifier(table.name), where, order, sql.Literal(limit)
        )
        with self._connection.cursor(binary=True) as cursor:
            found = cursor.execute(query, (*(after or ()), *(last or ()))).fetchall()
        return [tuple(map(plain, row)) for row in found]

    def count(self, table: str) -> int:
        return int(self._run(f"SELECT count(*) FROM {table}").fetchall()[0][0])

    def facts(self) -> dict[str, str]:
        return dict(self._run("SELECT key, value FROM meta").fetchall())

    def places(self) -> dict[str, int]:
        return {name: int(seq) for name, seq in self._run("SELECT name, seq FROM log_place") if name in LOGS}

    def tombstone_key(self) -> TombstoneKey | None:
        return self._transaction().tombstone_key()

    def keep_tombstone_key(self, key: TombstoneKey) -> None:
        self._run(
            "INSERT INTO secret (name, value) VALUES ('tombstones', %s) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (key.secret,),
        )

    def begin(self, mark: str) -> None:
        with self._connection.transaction():
            if "moving" in self.facts():
                return
            off = self._run(_LEFT_OFF).fetchall()
            if not self._run("SELECT 1 FROM search LIMIT 1").fetchall():
                off += self._run(_INDEX).fetchall()
            for statement, _ in off:
                self._run(statement)
            state = json.loads(mark) | {"put_back": [statement for _, statement in off]}
            self._note("moving", json.dumps(state))
            self._run("DELETE FROM meta WHERE key = 'moved'")

    def change(self, table: Table, difference: Difference) -> None:
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                self._unindex(table, difference)
                key = table.key or table.columns
                where = sql.SQL(" AND ").join(
                    sql.SQL("{} IS NOT DISTINCT FROM {}" if not table.key else "{} = {}").format(
                        sql.Identifier(name), sql.Placeholder()
                    )
                    for name in key
                )
                delete = sql.SQL("DELETE FROM {} WHERE {}").format(sql.Identifier(table.name), where)
                cursor.executemany(delete, [table.key_of(row) for row in difference.gone])
                if difference.erases(table):
                    note_lost_rows(self._transaction())
                if table.name == "event":
                    of_time = table.columns.index("timestamp_ms")
                    migrations.ensure_quarters(self._transaction(), {row[of_time] for row in difference.new})
                into = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table.name), _names(table.columns))
                with cursor.copy(into) as copy:
                    for row in difference.new:
                        copy.write_row(row)
        except errors.UniqueViolation as error:
            raise Conflict from error

    def _unindex(self, table: Table, difference: Difference) -> None:
        """Words of events that go, or whose project or author is another one now."""
        if not difference.gone or table.name not in ("event", "session"):
            return
        numbers = [row[table.columns.index("id")] for row in difference.gone]
        if table.name == "event":
            self._run("DELETE FROM search WHERE doc = ANY(%s)", ([4 * number for number in numbers],))
        else:
            self._run(_OF_SESSIONS, (numbers,))
        self._run("DELETE FROM frequency")
        self._run("DELETE FROM meta WHERE key = 'counted'")

    def fill_index(self, progress: Callable[[int], None]) -> None:
        last = 0
        while rows := self._run(_NOT_INDEXED, (last,)).fetchall():
            with self._connection.transaction():
                tx = self._transaction()
                tx.place({row[0]: row[4:] for row in rows})
                index_events(tx, [row[:4] for row in rows])
            last = rows[-1][0]
            progress(last)
        with self._connection.transaction():
            self._run("DELETE FROM search WHERE level >= 0")
            index_nodes(self._transaction())

    def finish(self, places: Mapping[str, int], mark: str) -> None:
        with self._connection.transaction():
            for statement in json.loads(self.facts()["moving"])["put_back"]:
                self._run(statement)
            self._run(_SHARED)
            for place in places.items():
                self._run(
                    "INSERT INTO log_place (name, seq) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET seq = "
                    "excluded.seq",
                    place,
                )
            for table, sequence in self._run(_COUNTED_ON).fetchall():
                if sequence:
                    (last,) = self._run(f"SELECT coalesce(max(id), 0) FROM {table}").fetchall()[0]
                    self._run("SELECT setval(%s, %s, %s)", (sequence, max(last, 1), last > 0))
            self._run("DELETE FROM meta WHERE key = 'moving'")
            self._note("moved", mark)
        self._run("VACUUM (ANALYZE)")
        if left := rewrite(self._connection, time.time_ns() // 1_000_000, background=True):
            logger.info("What was forgotten during the move stays in the server's files for now: %s", left)
        while True:
            with self._connection.transaction():
                if not frequencies.bring_on(self._transaction()):
                    return

    def _transaction(self) -> PostgresTransaction:
        return PostgresTransaction(Link(self._connection))

    def _run(self, statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        return self._connection.execute(cast(Any, statement), values or None)

    def _note(self, fact: str, value: str) -> None:
        self._run(SET_FACT.replace("?", "%s"), (fact, value))


def _names(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection whose statements may take as long as they need."""
    with psycopg.connect(url, autocommit=True, connect_timeout=10, application_name="mcp-memory move") as connection:
        for setting in (
            f"search_path = {SCHEMA}",
            "jit = off",
            "lock_timeout = 15000",
            "maintenance_work_mem = '256MB'",
        ):
            connection.execute(cast(Any, f"SET {setting}"))
        yield connection
