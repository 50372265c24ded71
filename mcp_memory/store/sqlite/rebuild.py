"""The memory as a whole: its time zone, making all that is derived anew, and mending times that cannot be."""

from __future__ import annotations

import logging
from contextlib import suppress
from zoneinfo import ZoneInfo

from mcp_memory.domain.events import TIMES
from mcp_memory.errors import StoreFull
from mcp_memory.store.sqlite.database import Database, Transaction, note_erasure
from mcp_memory.store.sqlite.log import CUT_ANEW, index_events
from mcp_memory.store.sqlite.nodes import index_nodes, remove_segment_node

_ZONE = "timezone"
_QUEUES = ("dirty_session", "dirty_node", "dirty_brief")
_DERIVED = (*"bullet grip node_version mention node segment brief llm_attempt".split(), *_QUEUES)


def system_timezone() -> str:
    """The machine's zone, UTC where it cannot be told."""
    from tzlocal import get_localzone_name

    try:
        name = get_localzone_name() or "UTC"
        ZoneInfo(name)
    except Exception:
        return "UTC"
    return name


async def timezone_of(database: Database, preferred: str) -> str:
    """The zone whose days the tree is made of: chosen once, kept until a rebuild."""
    stored = await database.value("SELECT value FROM meta WHERE key = ?", (_ZONE,))
    if stored:
        return str(stored)
    await database.write(Transaction.run, "INSERT OR IGNORE INTO meta (key, value) VALUES (?, ?)", (_ZONE, preferred))
    return str(await database.value("SELECT value FROM meta WHERE key = ?", (_ZONE,)))


async def rebuild(database: Database, timezone: str) -> None:
    """Drop all that is derived, so that the pipeline makes it anew from the events."""
    await database.write(start_anew, timezone)


def start_anew(tx: Transaction, timezone: str) -> None:
    """Leave of a memory what nothing else can tell, indexed and marked as to be made into a tree."""
    for table in _DERIVED:
        tx.run(f"DELETE FROM {table}")
    note_erasure(tx)
    tx.run("INSERT INTO search (search) VALUES ('delete-all')")
    index_all(tx)
    tx.run("INSERT INTO dirty_session (session, from_ms) SELECT session, min(timestamp_ms) FROM event GROUP BY session")
    # Records are kept, since they are only ever added; what the hook prints of them is written anew.
    tx.run("INSERT OR IGNORE INTO dirty_compaction (session) SELECT DISTINCT session FROM compaction")
    tx.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (_ZONE, timezone))


def index_all(tx: Transaction) -> None:
    """Fill an empty index with every event and node."""
    index_nodes(tx)
    last = 0
    while True:
        rows = tx.fetch("SELECT id, role, type, text FROM event WHERE id > ? ORDER BY id LIMIT 2000", (last,))
        if not rows:
            return
        index_events(tx, [(row[0], row[1], row[2], row[3]) for row in rows])
        last = rows[-1][0]


logger = logging.getLogger(__name__)

_BOUNDS = (TIMES.start, TIMES.stop)
_ANY = """
    SELECT EXISTS (SELECT 1 FROM event WHERE timestamp_ms < ?) OR EXISTS (SELECT 1 FROM event WHERE timestamp_ms >= ?)
"""
_FOUND = "SELECT id, session, timestamp_ms FROM event WHERE timestamp_ms < ?1 OR timestamp_ms >= ?2 ORDER BY id"
_NEIGHBOUR = """
    SELECT timestamp_ms FROM event WHERE session = ?3 AND timestamp_ms >= ?1 AND timestamp_ms < ?2
    ORDER BY abs(id - ?4) LIMIT 1
"""


async def mend_times(database: Database, now_ms: int) -> None:
    """Give such events a time, if there are any: that costs two looks into an index."""
    if await database.value(_ANY, _BOUNDS):
        with suppress(StoreFull):  # what cannot be written can at least be read as far as it goes
            count = await database.write(_mend, now_ms)
            logger.warning("%d events bore times that cannot be; they have those of their neighbours now.", count)


def _mend(tx: Transaction, now_ms: int) -> int:
    # A segment is known by its first event, and would not give up its place in the tree when that moves.
    for (key,) in tx.fetch("SELECT key FROM segment WHERE start_ms < ? OR start_ms >= ?", _BOUNDS):
        remove_segment_node(tx, key)
        tx.run("DELETE FROM segment WHERE key = ?", (key,))
    found = tx.fetch(_FOUND, _BOUNDS)
    for number, session, before in found:
        near = tx.fetch(_NEIGHBOUR, (*_BOUNDS, session, number))
        moment = near[0][0] if near else now_ms
        tx.run("UPDATE event SET timestamp_ms = ? WHERE id = ?", (moment, number))
        # From where it stood or stands, whichever is first; that must be a time too.
        tx.run(CUT_ANEW, (session, max(min(before, moment), TIMES.start)))
    tx.run("UPDATE dirty_session SET from_ms = ?1 WHERE from_ms < ?1", _BOUNDS[:1])
    return len(found)
