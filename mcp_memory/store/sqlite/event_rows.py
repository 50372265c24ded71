"""Events as they are read from the database: the columns that make one up, in the one order that all queries use."""

from __future__ import annotations

import json

from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.store.sqlite.database import Row

EVENT_COLUMNS = "e.key, e.timestamp_ms, e.type, e.role, e.text, e.tokens, e.truncated, e.source_ids, e.metadata"
#: Rows for `told_event`; the store's own number comes last.
EVENTS = (
    f"SELECT {EVENT_COLUMNS}, s.client, s.session_id, p.slug, e.id "
    "FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project"
)
_JSON = json.JSONDecoder().raw_decode


def told_event(row: Row) -> Event:
    """An event from `EVENT_COLUMNS`, client, session and project."""
    return event_of(row[:9], *row[9:12])


def event_of(row: Row, client: str, session_id: str, slug: str) -> Event:
    """An event from `EVENT_COLUMNS`, of a session that is known."""
    return Event(
        key=row[0],
        client=client,
        session_id=session_id,
        project=slug,
        timestamp_ms=row[1],
        event_type=EventType(row[2]),
        role=Role(row[3]),
        text=row[4],
        tokens=row[5],
        truncated=bool(row[6]),
        source_ids=tuple(_JSON(row[7])[0]),
        metadata=_JSON(row[8])[0],
    )
