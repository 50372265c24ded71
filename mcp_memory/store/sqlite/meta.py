"""Facts about the whole memory that are fixed at first use."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from mcp_memory.store.sqlite.database import Database, Transaction
from mcp_memory.store.sqlite.erasures import note_erasure
from mcp_memory.store.sqlite.events import index_events
from mcp_memory.store.sqlite.nodes import index_nodes

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
