"""Segments: which part of a session must be cut anew, and which segments lack a summary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mcp_memory.adapters.sqlite.database import Database, Row
from mcp_memory.adapters.sqlite.lease import check_lease
from mcp_memory.adapters.sqlite.nodes import remove_segment_node
from mcp_memory.domain.events import LIFECYCLE, Event, EventType, Role, event_key
from mcp_memory.domain.segments import Mark
from mcp_memory.ports import Cutting, SegmentJob, StoredSegment

_SILENT = ", ".join(f"'{kind}'" for kind in sorted(LIFECYCLE - {EventType.SESSION_END}))
_MARKS = f"""
    SELECT id, key, timestamp_ms, tokens, type FROM event
    WHERE session = ? AND (timestamp_ms, id) >= (?, ?) AND type NOT IN ({_SILENT})
      AND (text <> '' OR type = 'session_end')
    ORDER BY timestamp_ms, id
"""
_BEFORE = f"""
    SELECT id, key, timestamp_ms, tokens, type FROM event
    WHERE session = ? AND (timestamp_ms, id) < (?, ?) AND timestamp_ms >= ? AND type NOT IN ({_SILENT})
      AND (text <> '' OR type = 'session_end')
    ORDER BY timestamp_ms, id
"""
_COLUMNS = (
    "key, start_ms, end_ms, first_event, last_event, context_ms, context_event, events, tokens, closed, input_hash"
)
_ANCHOR = (
    "SELECT start_ms, first_event FROM segment WHERE session = ? AND start_ms <= ? "
    "ORDER BY start_ms DESC, first_event DESC LIMIT 1"
)
_STORED = f"SELECT {_COLUMNS} FROM segment WHERE session = ? AND start_ms >= ? ORDER BY start_ms, first_event"
_SAVE = f"""
    INSERT INTO segment (session, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET
        start_ms = excluded.start_ms, end_ms = excluded.end_ms, first_event = excluded.first_event,
        last_event = excluded.last_event, context_ms = excluded.context_ms, context_event = excluded.context_event,
        events = excluded.events, tokens = excluded.tokens, closed = excluded.closed,
        input_hash = excluded.input_hash
"""
_JOB = f"""
    SELECT {", ".join("g." + name.strip() for name in _COLUMNS.split(","))}, s.id, s.client, s.session_id, p.id, p.slug
    FROM segment g JOIN session s ON s.id = g.session JOIN project p ON p.id = s.project
"""
_JOB_OF = f"{_JOB} WHERE g.node = ? AND g.closed = 1 AND g.input_hash = g.done_hash"
_JOBS = f"""
    {_JOB}
    WHERE g.input_hash <> g.done_hash AND (g.closed = 1 OR g.end_ms < ?)
    ORDER BY g.start_ms LIMIT ?
"""
_EVENTS = f"""
    SELECT key, timestamp_ms, type, role, text, tokens, truncated, source_ids, metadata, (timestamp_ms, id) >= (?, ?)
    FROM event
    WHERE session = ? AND (timestamp_ms, id) >= (?, ?) AND (timestamp_ms, id) <= (?, ?)
      AND type NOT IN ({_SILENT}, 'session_end') AND text <> ''
    ORDER BY timestamp_ms, id
"""


class SqliteSegments:
    """Implements the SegmentStore port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def expire(self, before_ms: int) -> None:
        due = "SELECT session, end_ms FROM segment WHERE closed = 0 AND end_ms < ?"
        if await self._database.fetch(due + " LIMIT 1", (before_ms,)):
            async with self._database.transaction() as tx:
                await tx.run(
                    f"INSERT INTO dirty_session (session, from_ms) {due} "
                    "ON CONFLICT (session) DO UPDATE SET from_ms = min(from_ms, excluded.from_ms)",
                    (before_ms,),
                )

    async def dirty(self, limit: int, overlap_ms: int) -> list[Cutting]:
        rows = await self._database.fetch(
            "SELECT d.session, d.from_ms, d.seq, s.client, s.session_id FROM dirty_session d "
            "JOIN session s ON s.id = d.session ORDER BY d.from_ms LIMIT ?",
            (limit,),
        )
        return [await self._cutting(*row, overlap_ms=overlap_ms) for row in rows]

    async def _cutting(
        self, session: int, from_ms: int, seq: int, client: str, session_id: str, *, overlap_ms: int
    ) -> Cutting:
        anchor = await self._database.fetch(_ANCHOR, (session, from_ms))
        start_ms, first = anchor[0] if anchor else (-(1 << 62), 0)
        before: list[Row] = []
        if anchor:
            before = await self._database.fetch(_BEFORE, (session, start_ms, first, start_ms - overlap_ms))
        rows = await self._database.fetch(_MARKS, (session, start_ms, first))
        earlier = _marks(before)
        marks = earlier + _marks(rows)
        stored = [_stored(row) for row in await self._database.fetch(_STORED, (session, start_ms))]
        return Cutting(
            session=session,
            session_key=event_key(client, session_id, ""),
            seq=seq,
            marks=tuple(mark for _, mark in marks),
            numbers=tuple(number for number, _ in marks),
            start=len(earlier),
            stored=tuple(stored),
        )

    async def save_cut(
        self, cutting: Cutting, segments: Sequence[StoredSegment], removed: Sequence[StoredSegment], lease_token: int
    ) -> None:
        async with self._database.transaction() as tx:
            await check_lease(tx, lease_token)
            for segment in removed:
                await remove_segment_node(tx, segment.key)
                await tx.run("DELETE FROM segment WHERE key = ?", (segment.key,))
            await tx.run_many(_SAVE, [(cutting.session, *_row(segment)) for segment in segments])
            await tx.run("DELETE FROM dirty_session WHERE session = ? AND seq = ?", (cutting.session, cutting.seq))

    async def jobs(self, limit: int, quiet_before_ms: int) -> list[SegmentJob]:
        rows = await self._database.fetch(_JOBS, (quiet_before_ms, limit))
        return [await self._job(row) for row in rows]

    async def job_of(self, node: int) -> SegmentJob | None:
        """The job whose result was this node, to be done anew."""
        rows = await self._database.fetch(_JOB_OF, (node,))
        return await self._job(rows[0]) if rows else None

    async def _job(self, row: Row) -> SegmentJob:
        segment = _stored(row[:11])
        session, client, session_id, project, slug = row[11:]
        place = (
            *(segment.start_ms, segment.first_event, session),
            *(segment.context_ms, segment.context_event, segment.end_ms, segment.last_event),
        )
        rows = await self._database.fetch(_EVENTS, place)
        events = [(found[9], event_of(found[:9], client, session_id, slug)) for found in rows]
        return SegmentJob(
            segment=segment,
            session=session,
            session_id=session_id,
            project=project,
            slug=slug,
            events=tuple(event for own, event in events if own),
            context=tuple(event for own, event in events if not own),
        )


def event_of(row: Row, client: str, session_id: str, slug: str) -> Event:
    """An event from: key, timestamp_ms, type, role, text, tokens, truncated, source_ids, metadata."""
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
        source_ids=tuple(json.loads(row[7])),
        metadata=json.loads(row[8]),
    )


def _marks(rows: Sequence[Row]) -> list[tuple[int, Mark]]:
    """A session's end is a property of what was said last before it."""
    marks: list[tuple[int, Mark]] = []
    for number, key, timestamp_ms, tokens, kind in rows:
        if kind != EventType.SESSION_END:
            marks.append((number, Mark(key, timestamp_ms, tokens)))
        elif marks:
            last_number, last = marks[-1]
            marks[-1] = (last_number, Mark(last.key, last.timestamp_ms, last.tokens, ends_session=True))
    return marks


def _stored(row: Row) -> StoredSegment:
    values: list[Any] = list(row)
    values[9] = bool(values[9])
    return StoredSegment(*values)


def _row(segment: StoredSegment) -> tuple[Any, ...]:
    return (
        segment.key,
        segment.start_ms,
        segment.end_ms,
        segment.first_event,
        segment.last_event,
        segment.context_ms,
        segment.context_event,
        segment.events,
        segment.tokens,
        int(segment.closed),
        segment.input_hash,
    )
