"""Letting go of what was said long ago: whole quarters of events, by dropping their partitions.

What was made of them stays: segments, their nodes and the excerpts that grips cite. From then on nothing older is taken
in, and what is left is not made anew, since there is nothing to make it of. Each step may be the last before a kill:
it is taken again.
"""

from __future__ import annotations

from mcp_memory.store.postgres import frequencies
from mcp_memory.store.postgres.database import PostgresTransaction
from mcp_memory.store.postgres.migrations import quarter_of
from mcp_memory.store.sql.database import EVENT, KEPT, SET_FACT, SqlDatabase, marks

#: So many events are taken out of the index by one write.
BATCH = 5_000
_NEVER = 1 << 62
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


def _freeze(tx: PostgresTransaction, first: int) -> None:
    """Leave what was made of it as it is, and take in nothing older."""
    if tx.fetch(f"SELECT 1 WHERE {KEPT} >= ?", (first,)):
        return
    tx.run(SET_FACT, ("kept_from", str(first)))
    tx.run("UPDATE segment SET done_hash = input_hash, closed = 1 WHERE start_ms < ?", (first,))
    tx.run(f"UPDATE node SET revision = NULL WHERE id IN {_FROZEN}", (first,))
    tx.run(_UNASKED, (first,))
    tx.run("UPDATE dirty_session SET from_ms = ? WHERE from_ms < ?", (first, first))


def _take_out(tx: PostgresTransaction, name: str) -> int:
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


def _drop(tx: PostgresTransaction, name: str) -> int:
    tx.run(_PATIENCE)
    tx.run(f"DROP TABLE {name}")
    tx.run("DELETE FROM quarter WHERE name = ?", (name,))
    tx.run("DELETE FROM meta WHERE key = 'retiring'")
    return 1
