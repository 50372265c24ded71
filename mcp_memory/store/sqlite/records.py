"""Records as rows: how a session's chain is read, now or as it was at a place in the log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mcp_memory.domain.events import ulid
from mcp_memory.domain.records import ActionItem, Body, Facets, Record
from mcp_memory.store.sqlite.database import Database, Reads, Row

_COLUMNS = (
    "c.id, c.key, c.created_ms, c.depth, c.reason, c.summary, c.key_points, c.context, c.through_ms, c.through_event, "
    "c.seen_ms, c.seen_event, c.messages, c.tokens, c.tokens_before, c.tokens_after, c.window, c.written_by, "
    "p.key, p.created_ms, r.key, r.created_ms"
)
_TABLES = "compaction c LEFT JOIN compaction p ON p.id = c.parent LEFT JOIN compaction r ON r.id = c.refreshes"
#: From the latest record back along the parents: what was refreshed is not on that way.
_CHAIN = f"""
    WITH RECURSIVE link (id) AS (
        SELECT max(id) FROM compaction WHERE session = ?1 AND id <= ?2
        UNION ALL SELECT parent FROM compaction JOIN link USING (id) WHERE parent IS NOT NULL
    )
    SELECT {_COLUMNS} FROM {_TABLES} JOIN link ON link.id = c.id ORDER BY c.depth
"""
#: A record that took another's place also stands for what that one was made from.
_SOURCES = """
    WITH RECURSIVE link (id) AS (
        SELECT ?
        UNION ALL SELECT refreshes FROM compaction JOIN link USING (id) WHERE refreshes IS NOT NULL
    )
    SELECT e.timestamp_ms, e.key FROM link JOIN compaction_source o ON o.compaction = link.id
    JOIN event e ON e.id = o.event ORDER BY e.timestamp_ms, e.id
"""
LATEST = (1 << 63) - 1


async def chain_of(database: Reads, session: int, at: int = LATEST, *, sources: bool = False) -> list[Record]:
    """A session's records, oldest first; with `sources` also the ids of the events behind each."""
    rows = await database.fetch(_CHAIN, (session, at))
    return [record_of(row, await _event_ids(database, row[0]) if sources else ()) for row in rows]


async def _event_ids(database: Reads, record: int) -> tuple[str, ...]:
    return tuple(ulid(ms, key) for ms, key in await database.fetch(_SOURCES, (record,)))


async def record_by_number(database: Database, number: int) -> Record | None:
    rows = await database.fetch(f"SELECT {_COLUMNS} FROM {_TABLES} WHERE c.id = ?", (number,))
    return record_of(rows[0], ()) if rows else None


async def latest_records(database: Database, limit: int) -> list[tuple[Record, str]]:
    """The latest records of all sessions, newest first, each with the name of its session."""
    rows = await database.fetch(
        f"SELECT {_COLUMNS}, s.session_id FROM {_TABLES} JOIN session s ON s.id = c.session ORDER BY c.id DESC LIMIT ?",
        (limit,),
    )
    return [(record_of(row, ()), row[-1]) for row in rows]


def record_of(row: Row, event_ids: Sequence[str]) -> Record:
    parent, refreshed = row[18:20], row[20:22]
    return Record(
        key=row[1],
        timestamp_ms=row[2],
        depth=row[3],
        parent_id=ulid(parent[1], parent[0]) if parent[0] else None,
        body=Body(row[5], tuple(json.loads(row[6])), facets_of(json.loads(row[7]))),
        event_ids=tuple(event_ids),
        tokens=row[13],
        written_by=row[17],
        reason=row[4],
        refreshes=ulid(refreshed[1], refreshed[0]) if refreshed[0] else None,
        through=(row[8], row[9]),
        seen=(row[10], row[11]),
        messages=row[12],
        tokens_before=row[14],
        tokens_after=row[15],
        window=row[16],
    )


def facets_of(value: dict[str, Any]) -> Facets:
    items = tuple(ActionItem(item["task"], item["owner"], item["due"]) for item in value["action_items"])
    texts = {name: tuple(value[name]) for name in ("participants", "decisions", "unresolved", "domain_entities")}
    return Facets(action_items=items, **texts)


def facets_json(facets: Facets) -> str:
    items = [{"owner": item.owner, "task": item.task, "due": item.due} for item in facets.action_items]
    value = {
        "participants": facets.participants,
        "decisions": facets.decisions,
        "action_items": items,
        "unresolved": facets.unresolved,
        "domain_entities": facets.domain_entities,
    }
    return json.dumps(value, ensure_ascii=False)
