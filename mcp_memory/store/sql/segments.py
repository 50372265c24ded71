"""What waits for a summary: sessions to be cut, segments to be told, and nodes that a model should write."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from mcp_memory.domain.events import LIFECYCLE, EventType, event_key
from mcp_memory.domain.failures import Stage
from mcp_memory.domain.nodes import THRESHOLDS, Depth, Grip, Node, Revising, Stale, Upgrade
from mcp_memory.domain.segments import FOLLOWING, Cutting, Mark, SavedCut, SegmentJob, StoredSegment, mark_of
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.store.sql.database import KEPT, SUMMARIZED, Reads, Row, SqlDatabase, Transaction, marks
from mcp_memory.store.sql.failures import settle_failures
from mcp_memory.store.sql.log import EVENT_COLUMNS, event_of
from mcp_memory.store.sql.nodes import Placed, periods_of, remove_segment_node, write_grips, write_nodes
from mcp_memory.store.sql.work import EXPIRED, OUTDATED, check_lease

_SILENT = ", ".join(f"'{kind}'" for kind in sorted(LIFECYCLE - {EventType.SESSION_END}))
#: A changed session, and the stored segment from which on it is cut anew: what is new may set right what was told
#: just before.
_DIRTY = f"""
    SELECT d.session, d.seq, s.client, s.session_id, s.project, coalesce(g.start_ms, (
               SELECT max(end_ms) + 1 FROM segment WHERE session = d.session AND start_ms < {KEPT}
           )), g.first_event
    FROM dirty_session d JOIN session s ON s.id = d.session
    LEFT JOIN segment g ON g.id = (
        SELECT id FROM (
            SELECT id, start_ms, first_event FROM segment
            WHERE session = d.session AND start_ms <= d.from_ms AND start_ms >= {KEPT}
            ORDER BY start_ms DESC, first_event DESC LIMIT 3
        ) latest ORDER BY start_ms, first_event LIMIT 1
    )
    ORDER BY d.from_ms LIMIT ?
"""
#: The events of many sessions at once, from a while before the place where each is cut.
_MARKS = f"""
    WITH place (session, since_ms, start_ms, first) AS (VALUES {{places}})
    SELECT e.session, e.id, e.key, e.timestamp_ms, e.tokens, e.type,
           CASE WHEN e.type IN ('user_message', 'assistant_message') THEN substr(e.text, 1, 300) ELSE '' END,
           (e.timestamp_ms, e.id) >= (place.start_ms, place.first)
    FROM place CROSS JOIN event e ON e.session = place.session AND e.timestamp_ms >= place.since_ms
    WHERE e.type NOT IN ({_SILENT}) AND (e.text <> '' OR e.type = 'session_end') AND {SUMMARIZED}
    ORDER BY e.session, e.timestamp_ms, e.id
"""
#: The columns are the fields of a stored segment.
_FIELDS = tuple(field.name for field in fields(StoredSegment))
_row = attrgetter(*_FIELDS)
_STORED = f"""
    WITH place (session, since_ms, start_ms, first) AS (VALUES {{places}})
    SELECT g.session, {", ".join(f"g.{name}" for name in _FIELDS)}
    FROM place CROSS JOIN segment g ON g.session = place.session AND g.start_ms >= place.start_ms
    ORDER BY g.session, g.start_ms, g.first_event
"""
_START = -(1 << 62)
_SAVE = f"""
    INSERT INTO segment (session, {", ".join(_FIELDS)}) VALUES (?, {marks(_FIELDS)})
    ON CONFLICT (key) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _FIELDS[1:])}
"""
_JOB = f"""
    SELECT {", ".join(f"g.{name}" for name in _FIELDS)}, s.id, s.client, s.session_id, p.id, p.slug, s.author
    FROM segment g JOIN session s ON s.id = g.session JOIN project p ON p.id = s.project
"""
_JOB_OF = f"{_JOB} WHERE g.node = ? AND g.closed = 1 AND g.input_hash = g.done_hash"
_JOBS = f"""
    {_JOB}
    WHERE g.input_hash <> g.done_hash AND (g.closed = 1 OR g.end_ms NOT BETWEEN ? AND ?)
    ORDER BY g.start_ms LIMIT ?
"""
_PERIODS = """
    SELECT n.project, p.slug, n.key, v.input_hash FROM node n JOIN project p ON p.id = n.project
    JOIN node_version v ON v.id = n.current WHERE n.id IN ({marks}) ORDER BY n.start_ms DESC
"""
#: Not in the queue of changed sessions, and cut from their start on; few at once, since one may be long.
_OUTDATED_SESSIONS = f"""
    SELECT s.id, 0, s.client, s.session_id, s.project, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT) FROM session s
    WHERE s.id IN (SELECT g.session FROM ({OUTDATED}) o CROSS JOIN segment g ON g.node = o.id)
      AND NOT EXISTS (
          SELECT 1 FROM segment g CROSS JOIN node n ON n.id = g.node
          WHERE g.session = s.id AND n.revision IS NULL AND n.removed = 0
      ) AND s.id NOT IN ({{seen}}) LIMIT 4
"""
_EVENTS = f"""
    SELECT g.key, {EVENT_COLUMNS},
           (e.timestamp_ms, e.id) >= (g.start_ms, g.first_event)
    FROM segment g CROSS JOIN event e ON e.session = g.session
        AND e.timestamp_ms BETWEEN g.context_ms AND g.end_ms
    WHERE g.key IN ({{marks}}) AND (e.timestamp_ms, e.id) >= (g.context_ms, g.context_event)
      AND (e.timestamp_ms, e.id) <= (g.end_ms, g.last_event)
      AND e.type NOT IN ({_SILENT}, 'session_end') AND e.text <> '' AND {SUMMARIZED}
    ORDER BY g.key, e.timestamp_ms, e.id
"""
#: What a user asked for last before a segment and its context: much of the work on a task stands in later segments.
#: Only so many events are looked through, and only the beginning of a long message is read.
_ASKED = f"""
    SELECT g.key, e.key, e.timestamp_ms, e.type, e.role, substr(e.text, 1, 2000), e.tokens, e.truncated, e.source_ids,
           e.metadata, e.visibility, 0
    FROM segment g CROSS JOIN event e ON e.id IN (
        SELECT id FROM (
            SELECT id, type FROM event
            WHERE session = g.session AND (timestamp_ms, id) < (g.context_ms, g.context_event) AND {SUMMARIZED}
            ORDER BY timestamp_ms DESC, id DESC LIMIT 300
        ) before WHERE type = 'user_message' LIMIT 4
    )
    WHERE g.key IN ({{marks}}) AND e.text <> ''
    ORDER BY g.key, e.timestamp_ms, e.id
"""
#: What was said next, as far as it may set right what the segment tells.
_AFTER = f"""
    SELECT g.key, e.key, e.timestamp_ms, e.type, e.role, substr(e.text, 1, 600), e.tokens, e.truncated, e.source_ids,
           e.metadata, e.visibility, 0
    FROM segment g CROSS JOIN event e ON e.id IN (
        SELECT id FROM event
        WHERE session = g.session AND (timestamp_ms, id) > (g.end_ms, g.last_event)
          AND type IN ('user_message', 'assistant_message') AND text <> '' AND {SUMMARIZED}
        ORDER BY timestamp_ms, id LIMIT {10 * FOLLOWING}
    )
    WHERE g.key IN ({{marks}})
    ORDER BY g.key, e.timestamp_ms, e.id
"""


class SegmentPart:
    """What waits for a summary. A model writes nodes that are closed, with nothing beneath them that waits itself."""

    _database: SqlDatabase

    async def expire(self, before_ms: int) -> None:
        due = f"SELECT session, end_ms {EXPIRED.format('?')}"
        if await self._database.fetch(due + " LIMIT 1", (before_ms,)):
            sql = (
                f"INSERT INTO dirty_session (session, from_ms) {due} "
                "ON CONFLICT (session) DO UPDATE SET from_ms = CASE WHEN excluded.from_ms < dirty_session.from_ms "
                "THEN excluded.from_ms ELSE dirty_session.from_ms END"
            )
            await self._database.write(Transaction.run, sql, (before_ms,))

    async def dirty(self, limit: int, overlap_ms: int) -> list[Cutting]:
        return await self._database.at_once(lambda snapshot: _dirty(snapshot, limit, overlap_ms))

    async def save_cuts(self, cuts: Sequence[SavedCut], lease_token: int, revising: Revising | None = None) -> None:
        await self._database.write(_save_cuts, cuts, lease_token, revising)

    async def jobs(self, limit: int, busy: range) -> list[SegmentJob]:
        values = (busy.start, busy.stop - 1, limit)
        return await self._database.at_once(lambda snapshot: _jobs(snapshot, _JOBS, values))

    async def jobs_of(self, segments: Sequence[bytes]) -> list[SegmentJob]:
        sql = f"{_JOB} WHERE g.key IN ({marks(segments)}) ORDER BY g.start_ms DESC"
        return await self._database.at_once(lambda snapshot: _jobs(snapshot, sql, segments))

    async def outdated_sessions(
        self, revision: int, limit: int, overlap_ms: int, seen: Collection[int]
    ) -> list[Cutting]:
        values = {"revision": revision, "limit": limit}
        sql = _OUTDATED_SESSIONS.format(seen=", ".join(map(str, [*map(int, seen)] or [0])))

        async def read(snapshot: Reads) -> list[Cutting]:
            rows = await snapshot.fetch(sql, values)
            return await _cuttings(snapshot, rows, overlap_ms)

        return await self._database.at_once(read)

    async def outdated(self, revision: int, limit: int) -> tuple[list[SegmentJob], list[Stale]]:
        return await self._database.at_once(lambda snapshot: _outdated(snapshot, revision, limit))

    async def upgrade_job(self, upgrade: Upgrade) -> SegmentJob | None:
        jobs = await self._database.at_once(lambda snapshot: _jobs(snapshot, _JOB_OF, (upgrade.number,)))
        return jobs[0] if jobs else None

    async def upgrades(self, limit: int, now_ms: int) -> list[Upgrade]:
        rows = await self._database.fetch(_UPGRADES, {"now": now_ms, "limit": limit})
        return [
            Upgrade(number, version, project, slug, NodeRef(Level(level), key), input_hash, tokens, failures)
            for number, version, project, slug, level, key, input_hash, tokens, failures in rows
        ]

    async def upgrade_backlog(self, now_ms: int) -> list[tuple[Level, int]]:
        rows = await self._database.fetch(f"SELECT level, input_tokens FROM ({_CANDIDATES}) candidate", {"now": now_ms})
        return [(Level(level), tokens) for level, tokens in rows]

    async def unwritten_segments(self) -> list[tuple[int, int, int]]:
        return [(project, start_ms, tokens) for project, start_ms, tokens in await self._database.fetch(_UNWRITTEN)]

    async def save_upgrade(self, upgrade: Upgrade, node: Node, session: int | None, grips: Sequence[Grip]) -> bool:
        return await self._database.write(_save_upgrade, upgrade, node, session, grips)

    async def postpone_upgrade(self, upgrade: Upgrade, retry_ms: int) -> None:
        await self._database.write(Transaction.run, _FAILED, (upgrade.number, upgrade.version, retry_ms))


async def _dirty(reads: Reads, limit: int, overlap_ms: int) -> list[Cutting]:
    return await _cuttings(reads, await reads.fetch(_DIRTY, (limit,)), overlap_ms)


async def _cuttings(reads: Reads, rows: Sequence[Row], overlap_ms: int) -> list[Cutting]:
    """Sessions with what they are cut from, from rows such as those of changed ones."""
    if not rows:
        return []
    values = list[int]()
    for session, *_, start_ms, first in rows:
        known = start_ms is not None
        values += (session, start_ms - overlap_ms if known else _START, start_ms if known else _START, first or 0)
    places = ", ".join(["(?, ?, ?, ?)"] * len(rows))
    events = _grouped(await reads.fetch(_MARKS.format(places=places), values))
    stored = _grouped(await reads.fetch(_STORED.format(places=places), values))
    cuttings = []
    for session, seq, client, session_id, project, *_ in rows:
        earlier, later = (_marks(events.get(session, []), own) for own in (0, 1))
        kept = tuple(_stored(row) for row in stored.get(session, []))
        key = event_key(client, session_id, "")
        cuttings.append(Cutting(session, key, project, seq, (*earlier, *later), len(earlier), kept))
    return cuttings


def _marks(rows: Sequence[Row], own: int) -> list[Mark]:
    """What is to be cut, or what comes before that. A session's end is a property of what was said last before it."""
    found: list[Mark] = []
    for number, key, timestamp_ms, tokens, kind, words, belongs in rows:
        if belongs != own:
            continue
        if kind != EventType.SESSION_END:
            by_user = kind == EventType.USER_MESSAGE
            found.append(mark_of(key, timestamp_ms, tokens, number, words, by_user))
        elif found:
            found[-1] = replace(found[-1], ends_session=True)
    return found


def _save_cuts(tx: Transaction, cuts: Sequence[SavedCut], lease_token: int, revising: Revising | None) -> None:
    check_lease(tx, lease_token)
    for cutting, segments, removed in cuts:
        for segment in removed:
            remove_segment_node(tx, segment.key, revising)
            tx.run("DELETE FROM segment WHERE key = ?", (segment.key,))
        settle_failures(tx, Stage.SUMMARY, [segment.key.hex() for segment in removed])
        tx.run_many(_SAVE, [(cutting.session, *_row(segment)) for segment in segments])
        tx.run("DELETE FROM dirty_session WHERE session = ? AND seq = ?", (cutting.session, cutting.seq))
    settle_failures(tx, Stage.CUT, [str(cutting.session) for cutting, _, _ in cuts])


async def _jobs(reads: Reads, sql: str, values: Sequence[int] | Sequence[bytes]) -> list[SegmentJob]:
    rows = await reads.fetch(sql, values)
    if not rows:
        return []
    keys = [row[0] for row in rows]
    asked = _grouped(await reads.fetch(_ASKED.format(marks=marks(keys)), keys))
    events = _grouped(await reads.fetch(_EVENTS.format(marks=marks(keys)), keys))
    after = _grouped(await reads.fetch(_AFTER.format(marks=marks(keys)), keys))
    jobs = []
    for *stored, session, client, session_id, project, slug, author in rows:
        segment = _stored(stored)
        said = [*asked.get(segment.key, []), *events.get(segment.key, []), *after.get(segment.key, [])]
        told = [(own, event_of((*event, client, session_id, slug, author))) for *event, own in said]
        own_events = tuple(event for own, event in told if own)
        context = tuple(event for own, event in told if not own)
        jobs.append(SegmentJob(segment, session, session_id, project, slug, own_events, context))
    return jobs


async def _outdated(reads: Reads, revision: int, limit: int) -> tuple[list[SegmentJob], list[Stale]]:
    found = await reads.fetch(OUTDATED, {"revision": revision, "limit": limit})
    numbers: dict[int, list[int]] = {}
    for number, level in found:
        numbers.setdefault(level, []).append(number)
    segments = numbers.pop(int(Level.SEGMENT), [])
    jobs = await _jobs(reads, f"{_JOB} WHERE g.node IN ({marks(segments)}) ORDER BY g.start_ms DESC", segments)
    periods = list[Stale]()
    for level, held in numbers.items():
        periods += await periods_of(reads, Level(level), await reads.fetch(_PERIODS.format(marks=marks(held)), held))
    return jobs, periods


def _grouped(rows: Iterable[Row]) -> dict[Any, list[Row]]:
    """Rows without their first column, by that column."""
    groups: dict[Any, list[Row]] = {}
    for name, *rest in rows:
        groups.setdefault(name, []).append(tuple(rest))
    return groups


def _stored(row: Sequence[Any]) -> StoredSegment:
    key, start_ms, end_ms, first, last, context_ms, context, events, tokens, closed, input_hash = row
    span = (start_ms, end_ms, first, last, context_ms, context)
    return StoredSegment(key, *span, events, tokens, bool(closed), input_hash)


#: Nodes that a model should write: closed, long enough, and not left alone after a failure.
_CANDIDATES = f"""
    SELECT n.id, n.current, n.project, n.level, n.key, n.start_ms, n.end_ms, n.revision, v.input_hash, v.input_tokens
    FROM node n JOIN node_version v ON v.id = n.current
    WHERE n.removed = 0 AND n.open = 0 AND v.written_by = 'extractive'
      AND v.input_tokens >= {THRESHOLDS[Depth.NONE]}
      AND NOT EXISTS (
          SELECT 1 FROM llm_attempt a WHERE a.node = n.id AND a.version = n.current AND a.retry_ms > :now
      )
"""
#: How many of the newest are looked at. What lies beneath a period starts no earlier than it, so it is among them too.
_POOL = 400
#: Of those, the ones beneath which nothing waits for a model, is open, or has yet to be rolled up; not those that are
#: about to be written anew without one, or its answer would come too late.
_UPGRADES = f"""
    WITH candidate AS MATERIALIZED ({_CANDIDATES} ORDER BY n.start_ms DESC, n.level DESC LIMIT {_POOL}),
    unsettled AS MATERIALIZED (
        SELECT project, level, start_ms FROM candidate
        UNION ALL
        SELECT project, level, start_ms FROM node WHERE open = 1 AND removed = 0
        UNION ALL
        SELECT c.project, c.level, c.start_ms
        FROM dirty_node d JOIN node c ON c.project = d.project AND c.level = d.level AND c.key = d.key
    )
    SELECT n.id, n.current, n.project, p.slug, n.level, n.key, n.input_hash, n.input_tokens,
           coalesce((SELECT failures FROM llm_attempt a WHERE a.node = n.id AND a.version = n.current), 0)
    FROM candidate n JOIN project p ON p.id = n.project
    WHERE coalesce(n.revision = (SELECT max(revision) FROM node), TRUE)
      AND NOT EXISTS (SELECT 1 FROM dirty_node d WHERE d.project = n.project AND d.level = n.level AND d.key = n.key)
      AND NOT EXISTS (SELECT 1 FROM segment g WHERE g.node = n.id AND (g.input_hash <> g.done_hash OR g.closed = 0))
      AND NOT EXISTS (
          SELECT 1 FROM unsettled c
          WHERE n.level < {int(Level.SEGMENT)} AND c.project = n.project AND c.level > n.level
            AND c.start_ms >= n.start_ms AND c.start_ms < n.end_ms
      )
    ORDER BY n.start_ms DESC, n.level DESC LIMIT :limit
"""
_UNWRITTEN = """
    SELECT s.project, g.start_ms, g.tokens FROM segment g JOIN session s ON s.id = g.session
    WHERE g.closed = 1 AND g.input_hash <> g.done_hash
"""
#: A parent that no model will write, because it is open or short, follows its children at no cost.
_TELL = f"""
    INSERT INTO dirty_node (project, level, key)
    SELECT n.project, n.level, n.key FROM node n JOIN node_version v ON v.id = n.current
    WHERE n.project = ? AND n.level = ? AND n.key = ? AND n.removed = 0
      AND (n.open = 1 OR v.input_tokens < {THRESHOLDS[Depth.NONE]})
    ON CONFLICT DO NOTHING
"""
_FAILED = """
    INSERT INTO llm_attempt (node, version, failures, retry_ms) VALUES (?, ?, 1, ?)
    ON CONFLICT (node) DO UPDATE SET
        failures = CASE WHEN llm_attempt.version = excluded.version THEN llm_attempt.failures + 1 ELSE 1 END,
        version = excluded.version, retry_ms = excluded.retry_ms
"""


def _save_upgrade(tx: Transaction, upgrade: Upgrade, node: Node, session: int | None, grips: Sequence[Grip]) -> bool:
    place = (upgrade.project, int(upgrade.ref.level), upgrade.ref.key)
    current = tx.fetch("SELECT current FROM node WHERE id = ? AND removed = 0", (upgrade.number,))
    changing = tx.fetch(
        "SELECT 1 FROM dirty_node WHERE project = ? AND level = ? AND key = ? "
        "UNION ALL SELECT 1 FROM segment WHERE node = ? AND input_hash <> done_hash",
        (*place, upgrade.number),
    )
    if current != [(upgrade.version,)] or changing:
        return False  # it is no longer what the model was shown
    write_nodes(tx, [Placed(upgrade.project, session, node)], tell_parents=False)
    if upgrade.ref.level is Level.SEGMENT:
        write_grips(tx, {upgrade.number: grips})
    tx.run("DELETE FROM llm_attempt WHERE node = ?", (upgrade.number,))
    if parent := upgrade.ref.parent:
        tx.run(_TELL, (upgrade.project, int(parent.level), parent.key))
    return True
