"""The schema in PostgreSQL: numbered migrations under a lock of their own, and the quarters that events lie in.

A quarter is made when something of it comes, and dropped when it is no longer kept. What was made of its events stays:
segments, their nodes and the excerpts that grips cite. From then on nothing older is taken in, and what is left is not
made anew, since there is nothing to make it of. Each step may be the last before a kill: it is taken again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, cast

import psycopg

from mcp_memory.errors import UPDATE, StoreBusy, StoreNewer, UsageError
from mcp_memory.store.postgres import frequencies
from mcp_memory.store.sql.database import EVENT, KEPT, SET_FACT, SqlDatabase, Transaction, marks

_SCHEMA = "mcp_memory"
#: The first version of PostgreSQL that has all that is used here.
OLDEST = 15
#: A lock that all writers share, unless one has to be alone.
WRITING = 7_265_021_001
#: Only one process at a time makes or upgrades the tables.
_MIGRATING = 7_265_021_002
#: The schema's version, for a connection whose search path is that of the memory.
VERSION = "SELECT coalesce(max(number), 0) FROM migration"
_TABLE = """
    CREATE TABLE IF NOT EXISTS migration (number integer PRIMARY KEY, name text NOT NULL, at timestamptz DEFAULT now())
"""
#: Whether a copy of another memory is being made here.
_FILLING = f"SELECT 1 FROM {_SCHEMA}.meta WHERE key = 'moving'"
#: So many events are taken out of the index by one write.
BATCH = 5_000
_NEVER = 1 << 62
#: This step gives tombstones keyed hashes.
_KEYED = 9
_DUE = "SELECT name FROM quarter WHERE end_ms <= least(?, (extract(epoch FROM now()) * 1000)::bigint) ORDER BY start_ms"
#: How far the quarter is taken out of the index that is being dropped: its name and an event's number.
_AT = "SELECT value FROM meta WHERE key = 'retiring'"
_FROZEN = "(SELECT node FROM segment WHERE start_ms < ? AND node IS NOT NULL)"
_UNASKED = f"""
    INSERT INTO llm_attempt (node, version, failures, retry_ms)
    SELECT id, current, 0, {_NEVER} FROM node WHERE id IN {_FROZEN}
    ON CONFLICT (node) DO UPDATE SET version = excluded.version, retry_ms = excluded.retry_ms
"""
#: Who reads keeps the partition from being dropped; who waits for that keeps others from reading.
_PATIENCE = "SET LOCAL lock_timeout = '3s'"


@cache
def steps() -> list[tuple[int, str, str]]:
    """Number, name and text of each migration, in order."""
    folder = resources.files("mcp_memory.store.postgres") / "schema"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [(int(file.name[:4]), file.name, file.read_text("utf-8")) for file in files]


def latest() -> int:
    return steps()[-1][0]


def migrate(url: str, *, filling: bool = False) -> None:
    """Bring the schema up to date. Each step runs once, in a transaction; one of a newer program is refused."""
    with psycopg.connect(url, autocommit=True, connect_timeout=10, application_name="mcp-memory") as connection:
        if not filling:
            _refuse_unfinished(connection)
        if version_of(connection) == latest():
            return
        if reason := unfit(connection):
            raise UsageError(reason)
        connection.execute(cast(Any, f"SELECT pg_advisory_lock({_MIGRATING})"))
        connection.execute(cast(Any, f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}"))
        connection.execute(cast(Any, f"SET search_path = {_SCHEMA}"))
        connection.execute(_TABLE)
        version = version_of(connection)
        refuse_newer(version)
        for number, name, text in steps():
            if number > version:
                with connection.transaction():
                    # Writers of an earlier version end first, and the next ones find the new version.
                    connection.execute(cast(Any, f"SELECT pg_advisory_xact_lock({WRITING})"))
                    connection.execute(cast(Any, text))
                    if number == _KEYED:
                        _rehash_tombstones(connection)
                    connection.execute("INSERT INTO migration (number, name) VALUES (%s, %s)", (number, name))


def _rehash_tombstones(connection: psycopg.Connection[Any]) -> None:
    from mcp_memory.store.postgres.database import Link, PostgresTransaction
    from mcp_memory.store.sql.tombstones import rehash

    link = Link(connection)
    rehash(PostgresTransaction(link), link)


def refuse_newer(version: int) -> None:
    """Raise if a later version of this program has upgraded the tables."""
    if version > latest():
        raise StoreNewer(
            f"The memory has schema {version}, this program knows up to {latest()}: a later version wrote it. Nothing "
            f"was changed. Update mcp-memory ({UPDATE}) and start it again."
        )


def _refuse_unfinished(connection: psycopg.Connection[Any]) -> None:
    """A copy that is not whole is no memory yet."""
    if version_of(connection) and connection.execute(cast(Any, _FILLING)).fetchone():
        raise StoreBusy(
            "The memory there is not whole: `mcp-memory move` is filling it, or was interrupted. Wait for it, or run "
            f"it again, and it goes on. To give it up: DROP SCHEMA {_SCHEMA} CASCADE."
        )


def unfit(connection: psycopg.Connection[Any]) -> str:
    """Why a database cannot hold a memory; nothing if it can."""
    if connection.info.server_version < OLDEST * 10_000:
        release = connection.info.server_version / 10_000
        return f"The server of [store] url is PostgreSQL {release:.0f}; {OLDEST} or later is needed."
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        return (
            f"The database of [store] url is encoded in {encoding}, which cannot hold every word. Make one with: "
            "CREATE DATABASE memory ENCODING 'UTF8' TEMPLATE template0"
        )
    return ""


def version_of(connection: psycopg.Connection[Any]) -> int:
    """The number of the last migration; 0 where there is none."""
    there = connection.execute("SELECT to_regclass(%s)", (f"{_SCHEMA}.migration",)).fetchone()
    if not there or there[0] is None:
        return 0
    row = connection.execute(cast(Any, f"SELECT coalesce(max(number), 0) FROM {_SCHEMA}.migration")).fetchone()
    return int(row[0]) if row else 0


def quarter_of(timestamp_ms: int) -> tuple[str, int, int]:
    """Name, beginning and end of the quarter that holds a time."""
    day = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    first = (day.month - 1) // 3 * 3 + 1
    start = datetime(day.year, first, 1, tzinfo=UTC)
    end = datetime(day.year + (first == 10), (first + 2) % 12 + 1, 1, tzinfo=UTC)
    name = f"event_{day.year:04d}q{(first + 2) // 3}"
    return name, round(start.timestamp() * 1000), round(end.timestamp() * 1000)


def ensure_quarters(tx: Transaction, times: Iterable[int]) -> None:
    """Make the partitions that these times need. A new one is attached, which keeps no one from reading."""
    wanted = {quarter_of(moment) for moment in times}
    names = [name for name, _, _ in wanted]
    known = {name for (name,) in tx.fetch(f"SELECT name FROM quarter WHERE name IN ({marks(names)})", names)}
    for name, start, end in sorted(wanted):
        if name in known:
            continue
        tx.lock(["quarter"])
        if tx.fetch("SELECT 1 FROM quarter WHERE name = ?", (name,)):
            continue
        tx.run(f"CREATE TABLE {name} (LIKE event INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
        tx.run(f"ALTER TABLE event ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})")
        tx.run(f"SELECT take_no_samples('{name}')")
        tx.run("INSERT INTO quarter (name, start_ms, end_ms) VALUES (?, ?, ?)", (name, start, end))


def kept_from(now_ms: int, quarters: int) -> int:
    """The beginning of the first quarter that is kept: so many whole ones before the present one."""
    _, start, _ = quarter_of(now_ms)
    for _ in range(quarters):
        _, start, _ = quarter_of(start - 1)
    return start


async def retire(database: SqlDatabase, quarters: int, now_ms: int) -> int:
    """Take a bounded step; how much was done, 0 if nothing is left to be dropped."""
    first = kept_from(now_ms, quarters)
    for (name,) in (await database.fetch(_DUE, (first,)))[:1]:
        await database.write_alone(_freeze, first)
        return await database.write(_take_out, str(name)) or await database.write_alone(_drop, str(name))
    return 0


def _freeze(tx: Transaction, first: int) -> None:
    """Leave what was made of it as it is, and take in nothing older."""
    if tx.fetch(f"SELECT 1 WHERE {KEPT} >= ?", (first,)):
        return
    tx.run(SET_FACT, ("kept_from", str(first)))
    tx.run("UPDATE segment SET done_hash = input_hash, closed = 1 WHERE start_ms < ?", (first,))
    tx.run(f"UPDATE node SET revision = NULL WHERE id IN {_FROZEN}", (first,))
    tx.run(_UNASKED, (first,))
    tx.run("UPDATE dirty_session SET from_ms = ? WHERE from_ms < ?", (first, first))


def _take_out(tx: Transaction, name: str) -> int:
    """Take a portion of a quarter's events out of the index, and out of what records name as their sources."""
    held = " ".join(value for (value,) in tx.fetch(_AT)).split()
    after = int(held[1]) if held[:1] == [name] else 0
    sql = f"SELECT id FROM {name} WHERE id > ? ORDER BY id LIMIT {BATCH}"
    numbers = [number for (number,) in tx.fetch(sql, (after,))]
    if numbers:
        frequencies.take_out(tx, [number * 4 + EVENT for number in numbers])
        tx.run(f"DELETE FROM compaction_source WHERE event IN ({marks(numbers)})", numbers)
        tx.run(SET_FACT, ("retiring", f"{name} {numbers[-1]}"))
    return len(numbers)


def _drop(tx: Transaction, name: str) -> int:
    tx.run(_PATIENCE)
    tx.run(f"DROP TABLE {name}")
    tx.run("DELETE FROM quarter WHERE name = ?", (name,))
    tx.run("DELETE FROM meta WHERE key = 'retiring'")
    return 1
