"""Rewriting the files of tables from which something was erased.

PostgreSQL leaves the bytes of a deleted row in the table's file until another row is written over them, and an index
of words (GIN) keeps every word that it ever had. VACUUM FULL rewrites a table and its indexes. Nobody can read the
table meanwhile, so small tables are rewritten at once, and large ones at most once an hour by a running server.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
from psycopg import errors, sql

from mcp_memory.store.sql.database import SET_FACT, Transaction

logger = logging.getLogger(__name__)

#: Tables of this size together take about a second; they are rewritten at once.
SMALL_BYTES = 64 * 1024 * 1024
#: The pause between two rewrites of large tables.
PAUSE_MS = 3_600_000
#: How long a table's lock is waited for. Whoever wants to read the table then waits behind us.
_LOCK_MS = 2_000
#: A table that holds words and has at most this size is rewritten though it lost no row this time: earlier versions of
#: its rows may lie in its file.
_TINY_BYTES = 4 * 1024 * 1024
#: Only one process at a time rewrites tables.
_REWRITING = 7_265_021_004
#: What the program remembers: when a server last rewrote large tables.
_LAST = "SELECT value FROM meta WHERE key = 'rewritten'"
#: The counters are those of this transaction. Where the server counts nothing, any table may have lost rows.
_NOTE = f"""
    INSERT INTO to_rewrite AS r (relation, filenode, xid, since_ms)
    SELECT c.oid::regclass::text, pg_relation_filenode(c.oid), pg_current_xact_id(),
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM pg_class c
    WHERE c.relnamespace = 'mcp_memory'::regnamespace AND c.relkind = 'r' AND EXISTS (SELECT 1 FROM word_columns(c.oid))
      AND (pg_stat_get_xact_tuples_deleted(c.oid) + pg_stat_get_xact_tuples_updated(c.oid) > 0
           OR NOT current_setting('track_counts')::bool
           OR (NOT c.relispartition AND pg_total_relation_size(c.oid) <= {_TINY_BYTES}))
    ON CONFLICT (relation) DO UPDATE SET filenode = excluded.filenode, xid = excluded.xid
"""
#: A table that is gone, or has another file than it had then, needs nothing any more.
_SETTLED = """
    DELETE FROM to_rewrite
    WHERE to_regclass(relation) IS NULL OR pg_relation_filenode(to_regclass(relation)) <> filenode
"""
_DUE = """
    SELECT relation, pg_total_relation_size(to_regclass(relation)), xid::text, age(xid::xid),
           EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = to_regclass(relation)
                   AND (pg_has_role(c.relowner, 'USAGE')
                        OR EXISTS (SELECT 1 FROM pg_database WHERE datname = current_database()
                                   AND pg_has_role(datdba, 'USAGE'))))
    FROM to_rewrite
    WHERE to_regclass(relation) IS NOT NULL AND pg_relation_filenode(to_regclass(relation)) = filenode
    ORDER BY 2, 1
"""
#: The transaction with the oldest state that is still read, and how many transactions have begun since that state. What
#: was deleted later than that is copied into the new file.
_OLDEST = """
    SELECT who, ages FROM (
        SELECT format('process %s of the server%s', pid, ' (' || nullif(application_name, '') || ')') AS who,
               greatest(age(backend_xid), age(backend_xmin)) AS ages
        FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)
        UNION ALL SELECT format('the replication slot %s', slot_name), age(xmin)
        FROM pg_replication_slots
        UNION ALL SELECT format('the prepared transaction %s', gid), age(transaction)
        FROM pg_prepared_xacts WHERE database = current_database()
    ) found WHERE ages IS NOT NULL ORDER BY ages DESC LIMIT 1
"""
_DONE = "DELETE FROM to_rewrite WHERE relation = %s AND xid::text = %s"


@dataclass(frozen=True, slots=True)
class DueTable:
    """A table that may hold erased rows in its file. `age` counts the transactions since then."""

    name: str
    total_bytes: int
    xid: str
    age: int
    is_ours: bool


def note_lost_rows(tx: Transaction) -> None:
    """List the tables from which this transaction has deleted rows."""
    tx.run(_NOTE)


def due_tables(connection: psycopg.Connection[Any]) -> list[DueTable]:
    """Return the tables that are to be rewritten, smallest first."""
    return [DueTable(*row) for row in connection.execute(cast(Any, _DUE)).fetchall()]


def rewrite(connection: psycopg.Connection[Any], now_ms: int, *, background: bool) -> str:
    """Rewrite the tables that are due; return why some of them were not, or nothing.

    `background`: a running server does it, which also rewrites large tables once an hour.
    """
    if not due_tables(connection):
        return ""
    if not _one(connection, "SELECT pg_try_advisory_lock(%s)", _REWRITING):
        return "another process is rewriting the server's tables"
    try:
        connection.execute(cast(Any, _SETTLED))
        tables = due_tables(connection)
        takes_large = background and _next_ms(connection) <= now_ms
        chosen = tables if takes_large else _small(tables)
        if takes_large and len(_small(tables)) < len(tables):
            connection.execute(cast(Any, SET_FACT.replace("?", "%s")), ("rewritten", str(now_ms)))
        obstacle = ""
        for table in chosen:
            obstacle = _rewrite_table(connection, table) or obstacle
        if len(due_tables(connection)) < len(tables):
            _end_log_file(connection)
        return obstacle or pending(connection, now_ms)
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", (_REWRITING,))


def pending(connection: psycopg.Connection[Any], now_ms: int) -> str:
    """Return what is still to be rewritten, how much that is, and when it is done; nothing if nothing is due."""
    tables = due_tables(connection)
    foreign = [table.name for table in tables if not table.is_ours]
    own = [table for table in tables if table.is_ours]
    if not tables:
        return ""
    if not own:
        names = ", ".join(foreign)
        return f"the user of [store] url may not rewrite {names}: let an administrator run VACUUM FULL {names}"
    if obstacle := next(filter(None, (_obstacle(connection, table) for table in own)), ""):
        return obstacle
    size = sum(table.total_bytes for table in own) / 1024 / 1024
    when = datetime.fromtimestamp(max(_next_ms(connection), now_ms) / 1000, UTC).strftime("%H:%M UTC")
    count = f"{len(own)} tables" if len(own) > 1 else "1 table"
    return (
        f"{count} of {size:,.0f} MB on the server are rewritten by a running `mcp-memory serve` within the hour, from "
        f"{when} on (`mcp-memory doctor` tells)"
    )


def _small(tables: Sequence[DueTable]) -> list[DueTable]:
    """Return the smallest tables, as long as all of them together are small."""
    chosen = list[DueTable]()
    total_bytes = 0
    for table in tables:
        total_bytes += table.total_bytes
        if total_bytes > SMALL_BYTES:
            break
        chosen.append(table)
    return chosen


def _next_ms(connection: psycopg.Connection[Any]) -> int:
    """Return from when on large tables may be rewritten."""
    last = _one(connection, _LAST)
    return int(last) + PAUSE_MS if last and last.isdecimal() else 0


def _rewrite_table(connection: psycopg.Connection[Any], table: DueTable) -> str:
    """Rewrite a table unless its erased rows would be copied; return what is in the way."""
    if not table.is_ours:
        return ""
    if obstacle := _obstacle(connection, table):
        return obstacle
    name = sql.Identifier(table.name)
    try:
        connection.execute(sql.SQL("VACUUM (FULL) {}").format(name))
        connection.execute(_DONE, (table.name, table.xid))
        if not table.name.startswith("pg_"):
            # VACUUM FULL leaves the visibility map empty, without which the index alone answers nothing.
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(name))
    except errors.LockNotAvailable:
        return f"the table {table.name} is in use"
    except errors.DiskFull:
        return f"the server has no room for a second copy of the table {table.name}"
    except errors.UndefinedTable:  # the quarter is no longer kept
        return ""
    return ""


def _obstacle(connection: psycopg.Connection[Any], table: DueTable) -> str:
    """Return who still reads a state of before the erasure."""
    row = connection.execute(cast(Any, _OLDEST)).fetchone()
    return f"{row[0]} still reads an earlier state" if row and row[1] >= table.age else ""


def _end_log_file(connection: psycopg.Connection[Any]) -> None:
    """Let the server begin a new file of its write-ahead log, where the user may: the older ones go sooner."""
    for statement in ("SELECT pg_switch_wal()", "CHECKPOINT"):
        with suppress(errors.InsufficientPrivilege, errors.ObjectNotInPrerequisiteState):
            connection.execute(cast(Any, statement))


def _one(connection: psycopg.Connection[Any], statement: str, *values: Any) -> Any:
    row = connection.execute(cast(Any, statement), values or None).fetchone()
    return row[0] if row else None


def prepare_connection(connection: psycopg.Connection[Any]) -> None:
    """Set how long a rewrite may take, and how long it waits for a table."""
    for setting in ("statement_timeout = 0", f"lock_timeout = {_LOCK_MS}", "maintenance_work_mem = '256MB'"):
        connection.execute(cast(Any, f"SET {setting}"))
