"""Events whose times no calendar can hold, as an earlier version could store them: they get that of a neighbour.

Nothing that shows, sorts or summarizes events could go past one of them.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from mcp_memory.domain.events import TIMES
from mcp_memory.errors import StoreFull
from mcp_memory.store.sqlite.database import Database, Transaction
from mcp_memory.store.sqlite.events import CUT_ANEW
from mcp_memory.store.sqlite.nodes import remove_segment_node

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
