"""Segments: which part of a session must be cut anew, and which segments lack a summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mcp_memory.domain.events import LIFECYCLE, EventType, event_key
from mcp_memory.domain.segments import Cutting, Mark, SavedCut, SegmentJob, StoredSegment
from mcp_memory.store.sqlite.database import Database, Reads, Row, Transaction
from mcp_memory.store.sqlite.log import EVENT_COLUMNS, event_of
from mcp_memory.store.sqlite.nodes import remove_segment_node
from mcp_memory.store.sqlite.work import check_lease

_SILENT = ", ".join(f"'{kind}'" for kind in sorted(LIFECYCLE - {EventType.SESSION_END}))
#: A changed session, and the stored segment from which on it is cut anew.
_DIRTY = """
    SELECT d.session, d.seq, s.client, s.session_id, g.start_ms, g.first_event
    FROM dirty_session d JOIN session s ON s.id = d.session
    LEFT JOIN segment g ON g.id = (
        SELECT id FROM segment WHERE session = d.session AND start_ms <= d.from_ms
        ORDER BY start_ms DESC, first_event DESC LIMIT 1
    )
    ORDER BY d.from_ms LIMIT ?
"""
#: The events of many sessions at once, from a while before the place where each is cut.
_MARKS = f"""
    WITH place (session, since_ms, start_ms, first) AS (VALUES {{places}})
    SELECT e.session, e.id, e.key, e.timestamp_ms, e.tokens, e.type,
           (e.timestamp_ms, e.id) >= (place.start_ms, place.first)
    FROM place CROSS JOIN event e ON e.session = place.session AND e.timestamp_ms >= place.since_ms
    WHERE e.type NOT IN ({_SILENT}) AND (e.text <> '' OR e.type = 'session_end')
    ORDER BY e.session, e.timestamp_ms, e.id
"""
_COLUMNS = (
    "key, start_ms, end_ms, first_event, last_event, context_ms, context_event, events, tokens, closed, input_hash"
)
_STORED = f"""
    WITH place (session, since_ms, start_ms, first) AS (VALUES {{places}})
    SELECT g.session, {", ".join("g." + name.strip() for name in _COLUMNS.split(","))}
    FROM place CROSS JOIN segment g ON g.session = place.session AND g.start_ms >= place.start_ms
    ORDER BY g.session, g.start_ms, g.first_event
"""
_START = -(1 << 62)
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
    WHERE g.input_hash <> g.done_hash AND (g.closed = 1 OR g.end_ms NOT BETWEEN ? AND ?)
    ORDER BY g.start_ms LIMIT ?
"""
_EVENTS = f"""
    SELECT g.key, {EVENT_COLUMNS},
           (e.timestamp_ms, e.id) >= (g.start_ms, g.first_event)
    FROM segment g CROSS JOIN event e ON e.session = g.session
        AND e.timestamp_ms BETWEEN g.context_ms AND g.end_ms
    WHERE g.key IN ({{marks}}) AND (e.timestamp_ms, e.id) >= (g.context_ms, g.context_event)
      AND (e.timestamp_ms, e.id) <= (g.end_ms, g.last_event)
      AND e.type NOT IN ({_SILENT}, 'session_end') AND e.text <> ''
    ORDER BY g.key, e.timestamp_ms, e.id
"""
#: What a user asked for last before a segment and its context: much of the work on a task stands in later segments.
#: Only so many events are looked through, and only the beginning of a long message is read.
_ASKED = """
    SELECT g.key, e.key, e.timestamp_ms, e.type, e.role, substr(e.text, 1, 2000), e.tokens, e.truncated, e.source_ids,
           e.metadata, 0
    FROM segment g CROSS JOIN event e ON e.id IN (
        SELECT id FROM (
            SELECT id, type FROM event
            WHERE session = g.session AND (timestamp_ms, id) < (g.context_ms, g.context_event)
            ORDER BY timestamp_ms DESC, id DESC LIMIT 300
        ) WHERE type = 'user_message' LIMIT 4
    )
    WHERE g.key IN ({marks}) AND e.text <> ''
    ORDER BY g.key, e.timestamp_ms, e.id
"""


class SqliteSegments:
    """Implements the SegmentStore port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def expire(self, before_ms: int) -> None:
        due = "SELECT session, end_ms FROM segment WHERE closed = 0 AND end_ms < ?"
        if await self._database.fetch(due + " LIMIT 1", (before_ms,)):
            sql = (
                f"INSERT INTO dirty_session (session, from_ms) {due} "
                "ON CONFLICT (session) DO UPDATE SET from_ms = min(from_ms, excluded.from_ms)"
            )
            await self._database.write(Transaction.run, sql, (before_ms,))

    async def dirty(self, limit: int, overlap_ms: int) -> list[Cutting]:
        return await self._database.at_once(lambda snapshot: _dirty(snapshot, limit, overlap_ms))

    async def save_cuts(self, cuts: Sequence[SavedCut], lease_token: int) -> None:
        await self._database.write(_save_cuts, cuts, lease_token)

    async def jobs(self, limit: int, busy: range) -> list[SegmentJob]:
        values = (busy.start, busy.stop - 1, limit)
        return await self._database.at_once(lambda snapshot: _jobs(snapshot, _JOBS, values))

    async def job_of(self, node: int) -> SegmentJob | None:
        """The job whose result was this node, to be done anew."""
        jobs = await self._database.at_once(lambda snapshot: _jobs(snapshot, _JOB_OF, (node,)))
        return jobs[0] if jobs else None


async def _dirty(database: Reads, limit: int, overlap_ms: int) -> list[Cutting]:
    rows = await database.fetch(_DIRTY, (limit,))
    if not rows:
        return []
    places = [
        (
            row[0],
            _START if row[4] is None else row[4] - overlap_ms,
            _START if row[4] is None else row[4],
            row[5] or 0,
        )
        for row in rows
    ]
    values = [value for place in places for value in place]
    marks = ", ".join(["(?, ?, ?, ?)"] * len(places))
    found = _grouped(await database.fetch(_MARKS.format(places=marks), values))
    stored = _grouped(await database.fetch(_STORED.format(places=marks), values))
    return [_cutting(row, found.get(row[0], []), stored.get(row[0], [])) for row in rows]


async def _jobs(database: Reads, sql: str, values: Sequence[int]) -> list[SegmentJob]:
    rows = await database.fetch(sql, values)
    if not rows:
        return []
    keys = [row[0] for row in rows]
    marks = ",".join("?" * len(keys))
    asked = _grouped(await database.fetch(_ASKED.format(marks=marks), keys))
    events = _grouped(await database.fetch(_EVENTS.format(marks=marks), keys))
    return [_job(row, [*asked.get(row[0], []), *events.get(row[0], [])]) for row in rows]


def _grouped(rows: Iterable[Row]) -> dict[Any, list[Row]]:
    """Rows without their first column, by that column."""
    groups: dict[Any, list[Row]] = {}
    for name, *rest in rows:
        groups.setdefault(name, []).append(tuple(rest))
    return groups


def _cutting(row: Row, events: Sequence[Row], stored: Sequence[Row]) -> Cutting:
    session, seq, client, session_id = row[:4]
    earlier = _marks([event[:5] for event in events if not event[5]])
    marks = earlier + _marks([event[:5] for event in events if event[5]])
    return Cutting(
        session=session,
        session_key=event_key(client, session_id, ""),
        seq=seq,
        marks=tuple(mark for _, mark in marks),
        numbers=tuple(number for number, _ in marks),
        start=len(earlier),
        stored=tuple(_stored(found) for found in stored),
    )


def _save_cuts(tx: Transaction, cuts: Sequence[SavedCut], lease_token: int) -> None:
    check_lease(tx, lease_token)
    for cutting, segments, removed in cuts:
        for segment in removed:
            remove_segment_node(tx, segment.key)
            tx.run("DELETE FROM segment WHERE key = ?", (segment.key,))
        tx.run_many(_SAVE, [(cutting.session, *_row(segment)) for segment in segments])
        tx.run("DELETE FROM dirty_session WHERE session = ? AND seq = ?", (cutting.session, cutting.seq))


def _job(row: Row, rows: Sequence[Row]) -> SegmentJob:
    segment = _stored(row[:11])
    session, client, session_id, project, slug = row[11:]
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
