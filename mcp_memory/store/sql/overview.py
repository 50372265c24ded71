"""What people look through: active days, projects, sessions, files, and a session's events from a place on."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import date
from itertools import islice

from mcp_memory.domain.events import NOTES_CLIENT, USER_TITLE, Event
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.inventory import DayActivity, FileActivity, ProjectActivity, SessionInfo, SessionQuery, Stretch
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.store.sql.database import Reads, Row, SqlConnection, marks
from mcp_memory.store.sql.forget import condition, matching_events
from mcp_memory.store.sql.log import DONE_WELL, EVENTS, event_of
from mcp_memory.store.sql.nodes import NODE_COLUMNS, NODE_TABLES, nodes_of
from mcp_memory.store.sql.records import LATEST, SESSION_NAMED

#: How many events are read by one statement.
_PAGE = 500
_DAYS = """
    SELECT n.key, sum(json_array_length(v.children)), sum(v.weight) FROM node n JOIN node_version v ON v.id = n.current
    WHERE n.level = 3 AND n.removed = 0 AND (?1 IS NULL OR n.project = (SELECT id FROM project WHERE slug = ?1))
    GROUP BY n.key ORDER BY n.key
"""
_PROJECTS = f"""
    SELECT p.slug, p.root, (SELECT count(*) FROM session s WHERE s.project = p.id AND s.client <> '{NOTES_CLIENT}'),
           (SELECT min(start_ms) FROM node WHERE project = p.id AND level = 4),
           (SELECT max(start_ms) FROM node WHERE project = p.id AND level = 4) AS last,
           (SELECT coalesce(sum(v.weight), 0) FROM node n JOIN node_version v ON v.id = n.current
            WHERE n.project = p.id AND n.level = 0 AND n.removed = 0)
    FROM project p ORDER BY last DESC NULLS LAST
"""
#: A session stands where its latest segment does. Those to be shown are chosen first, so that little is read of others.
_SESSIONS = """
    WITH shown AS MATERIALIZED ({chosen} ORDER BY g.start_ms DESC, g.id DESC LIMIT :limit)
    SELECT s.session_id, s.client, p.slug,
           (SELECT text FROM event e WHERE e.session = s.id AND e.type = 'session_title' AND e.text <> '' ORDER BY
            CASE json_extract(e.metadata, '$.source') WHEN '{user_title}' THEN 0 ELSE 1 END, e.timestamp_ms DESC,
            e.id DESC LIMIT 1),
           (SELECT min(start_ms) FROM segment WHERE session = s.id),
           (SELECT max(end_ms) FROM segment WHERE session = s.id),
           (SELECT sum(events) FROM segment WHERE session = s.id),
           (SELECT count(*) FROM segment WHERE session = s.id),
           1 - g.closed,
           (SELECT n.key FROM segment h JOIN node n ON n.id = h.node WHERE h.session = s.id
            ORDER BY h.start_ms LIMIT 1),
           (SELECT n.key FROM segment h JOIN node n ON n.id = h.node WHERE h.session = s.id
            ORDER BY h.start_ms DESC LIMIT 1),
           g.start_ms, g.id, s.author
    FROM shown CROSS JOIN segment g ON g.id = shown.id JOIN session s ON s.id = g.session
    JOIN project p ON p.id = s.project
    ORDER BY g.start_ms DESC, g.id DESC
"""
#: Segments from the latest back, until there are enough of sessions that are wanted.
_FROM_THE_LATEST = """
    SELECT g.id FROM segment g CROSS JOIN session s ON s.id = g.session
    WHERE {which} AND g.start_ms <= :ms AND (g.start_ms, g.id) < (:ms, :id)
      AND NOT EXISTS (SELECT 1 FROM segment h WHERE h.session = g.session AND (h.start_ms, h.id) > (g.start_ms, g.id))
"""
#: Of few sessions the last segment of each: the way back to those of long ago passes all others.
_OF_THE_FEW = """
    SELECT g.id FROM session s CROSS JOIN segment g ON g.id = (
        SELECT id FROM segment WHERE session = s.id ORDER BY start_ms DESC, id DESC LIMIT 1
    )
    WHERE {which} AND (g.start_ms, g.id) < (:ms, :id)
"""
_NO_NOTES = f"s.client <> '{NOTES_CLIENT}'"
#: Others keep what was said in such a session, of which nothing is left but its title.
_NOT_ONLY_COPIED = """NOT (
    EXISTS (SELECT 1 FROM continued c WHERE c.session_id = s.session_id AND c.client = s.client)
    AND NOT EXISTS (SELECT 1 FROM event e WHERE e.session = s.id AND e.type <> 'session_title')
)"""
_FEW = 3_000
_MANY = "SELECT count(*) FROM (SELECT 1 FROM session s WHERE {which} LIMIT :few + 1) found"
_CLIENTS = """
    WITH RECURSIVE found (client) AS (
        SELECT min(client) FROM session
        UNION ALL
        SELECT (SELECT min(client) FROM session WHERE client > found.client) FROM found WHERE client IS NOT NULL
    ) SELECT client FROM found WHERE client IS NOT NULL
"""
_PEOPLE = _CLIENTS.replace("client", "author")
#: Changes are looked for among so many of the latest events.
_LOOKED_AT = 4_000
_CHANGES = f"""
    SELECT substr(e.text, 1, instr(e.text || '\n', '\n') - 1), json_extract(e.metadata, '$.files'), p.slug,
           e.timestamp_ms
    FROM (SELECT * FROM event ORDER BY timestamp_ms DESC LIMIT {_LOOKED_AT}) e
    JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project
    WHERE e.type = 'tool_result' AND (? IS NULL OR p.slug = ?) AND instr(e.text, ':') > 0
      AND lower(substr(e.text, 1, instr(e.text, ':') - 1)) IN ({{tools}}) AND {DONE_WELL}
"""
_PLACE = "SELECT session, timestamp_ms, id FROM event WHERE key = ?"


class OverviewPart:
    """What people look through: that part of the ReadStore port."""

    _reads: Reads

    async def active_days(self, project: str | None) -> list[DayActivity]:
        rows = await self._reads.fetch(_DAYS, (project,))
        return [DayActivity(date.fromisoformat(key), segments, weight) for key, segments, weight in rows]

    async def active_projects(self) -> list[ProjectActivity]:
        return [ProjectActivity(*row) for row in await self._reads.fetch(_PROJECTS)]

    async def clients(self) -> list[str]:
        return [client for (client,) in await self._reads.fetch(_CLIENTS) if client != NOTES_CLIENT]

    async def people(self) -> list[str]:
        return [author for (author,) in await self._reads.fetch(_PEOPLE) if author]

    async def session_list(self, query: SessionQuery) -> list[SessionInfo]:
        ms, number = query.before or (LATEST, LATEST)
        asked = {"project": query.project, "client": query.client, "name": query.session_id, "few": _FEW}
        choices = {
            "s.project = (SELECT id FROM project WHERE slug = :project)": query.project,
            "s.client = :client": query.client,
            f"s.id = {SESSION_NAMED.replace('?', ':name')}": query.session_id,
        }
        given = [clause for clause, value in choices.items() if value is not None]
        # Notes are no session, but can be looked at by the name of theirs.
        which = " AND ".join(given if query.session_id is not None else [*given, _NO_NOTES, _NOT_ONLY_COPIED])
        few = given and await self._reads.value(_MANY.format(which=which), asked) <= _FEW
        chosen = (_OF_THE_FEW if few else _FROM_THE_LATEST).format(which=which)
        place = {"ms": ms, "id": number, "limit": query.limit}
        rows = await self._reads.fetch(_SESSIONS.format(chosen=chosen, user_title=USER_TITLE), asked | place)
        found = []
        for name, client, slug, title, start_ms, end_ms, events, segments, is_open, *ends, at_ms, at, author in rows:
            first, last = (NodeRef(Level.SEGMENT, key) if key else None for key in ends)
            counts = (start_ms, end_ms, events, segments, bool(is_open))
            found.append(SessionInfo(name, client, slug, title or "", *counts, first, last, (at_ms, at), author))
        return found

    async def changed_files(self, project: str | None, tools: Collection[str], limit: int) -> list[FileActivity]:
        changes: dict[tuple[str, str], list[int]] = {}
        for line, files, slug, at_ms in await self._reads.fetch(
            _CHANGES.format(tools=marks([*tools])), (project, project, *tools)
        ):
            # Where the client does not say which, the call's first line names them after the tool.
            for path in json.loads(files) if files else line.partition(":")[2].split(", "):
                changes.setdefault((str(path).strip(), slug), []).append(at_ms)
        found = [FileActivity(path, slug, len(times), max(times)) for (path, slug), times in changes.items() if path]
        return sorted(found, key=lambda file: -file.last_ms)[:limit]

    async def written_after(self, version: int, limit: int) -> list[Node]:
        sql = f"SELECT {NODE_COLUMNS} FROM {NODE_TABLES} WHERE v.id > ? AND v.removed = 0 ORDER BY v.id DESC LIMIT ?"
        return await nodes_of(self._reads, await self._reads.fetch(sql, (version, limit)), bullets=False)

    async def stretch(self, session_id: str, around: bytes | None, before: int, after: int) -> Stretch:
        place = await self._reads.fetch(_PLACE, (around,)) if around is not None else []
        if place:
            session, ms, number = place[0]
        else:
            session = await self._reads.value(f"SELECT {SESSION_NAMED}", (session_id,))
            ms, number = (-LATEST, 0) if after else (LATEST, LATEST)

        async def read(sign: str, way: str, limit: int) -> list[Event]:
            here = f"e.session = ? AND (e.timestamp_ms, e.id) {sign} (?, ?) AND (e.text <> '' OR e.metadata <> '{{}}')"
            sql = f"{EVENTS} WHERE {here} ORDER BY e.timestamp_ms {way}, e.id {way} LIMIT ?"
            return [event_of(row) for row in await self._reads.fetch(sql, (session, ms, number, limit))]

        earlier = await read("<", "DESC", before + 1)
        later = await read(">=", "ASC", after + 1)
        events = (*reversed(earlier[:before]), *later[:after])
        return Stretch(events, len(earlier) > before, len(later) > after)

    async def events_to_forget(self, request: ForgetRequest, limit: int, offset: int = 0) -> list[Event]:
        # Which they are is told by the indexes; only those of the page are read.
        linked = EVENTS[EVENTS.index(" FROM event e") :]

        def read(connection: SqlConnection) -> list[Row]:
            if match := request.text_match:
                numbers = matching_events(lambda sql, values: connection.execute(sql, values).fetchall(), match)
                page = list(islice(numbers, offset, offset + limit))
            else:
                where, value = condition(request)
                sql = f"SELECT e.id{linked} WHERE {where} ORDER BY e.id LIMIT ? OFFSET ?"
                page = [number for (number,) in connection.execute(sql, (value, limit, offset)).fetchall()]
            rows = list[Row]()
            for start in range(0, len(page), _PAGE):
                part = page[start : start + _PAGE]
                sql = f"{EVENTS} WHERE e.id IN ({marks(part)}) ORDER BY e.id"
                rows += connection.execute(sql, part).fetchall()
            return rows

        rows = await self._reads.read(read)
        return [event_of(row) for row in rows]
