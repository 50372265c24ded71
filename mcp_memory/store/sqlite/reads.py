"""The read side of the store: nodes, grips, sessions, each by its key."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from mcp_memory.clients.port import BadLine
from mcp_memory.domain.events import KEY_BYTES, Event
from mcp_memory.domain.matches import Candidate, Within
from mcp_memory.domain.nodes import GripRecord, Node, Words, event_grip_id, parse_grip_id
from mcp_memory.domain.records import Record
from mcp_memory.domain.toc import Level, NodeRef, Position
from mcp_memory.store.port import Counts, Library, ProjectInfo, SearchIndex
from mcp_memory.store.sqlite.candidates import is_silent
from mcp_memory.store.sqlite.database import Database, Reads, Row
from mcp_memory.store.sqlite.fts5 import Fts5Index, events
from mcp_memory.store.sqlite.log import EVENTS, SET_ASIDE, told_event
from mcp_memory.store.sqlite.nodes import NODE_COLUMNS, NODE_TABLES, folded, nodes_of, titles_of
from mcp_memory.store.sqlite.projects import FIND, sought
from mcp_memory.store.sqlite.records import LATEST, chain_of

T = TypeVar("T")
_SAYS = "e.type NOT IN ('session_start', 'assistant_stop', 'subagent_start', 'session_end') AND e.text <> ''"
_KEYS = (
    "SELECT key FROM grip WHERE key BETWEEN ? AND ? UNION ALL SELECT key FROM event WHERE key BETWEEN ? AND ? LIMIT 2"
)
_NAMED = (
    "SELECT key FROM node WHERE project = (SELECT id FROM project WHERE slug = ?) AND level = ? "
    "AND key BETWEEN ? AND ? AND removed = 0 ORDER BY key DESC LIMIT ?"
)
_CITED = """
    SELECT g.timestamp_ms, g.key FROM node n JOIN grip g ON g.node = n.id
    WHERE n.project = (SELECT id FROM project WHERE slug = ?) AND n.level = ? AND n.removed = 0
      AND n.start_ms BETWEEN ? AND ? AND g.live = 1 AND g.timestamp_ms BETWEEN ? AND ?
    ORDER BY n.start_ms DESC LIMIT ?
"""
_SESSIONS = (
    "SELECT session_id FROM session WHERE project = (SELECT id FROM project WHERE slug = ?) "
    "AND session_id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?"
)
_KNOWN = """
    SELECT value, (SELECT count(*) FROM (SELECT 1 FROM search WHERE search MATCH '"' || value || '"' LIMIT 30))
    FROM json_each(?)
"""
_LONGEST_DAYS = {Level.YEAR: 380, Level.MONTH: 40, Level.WEEK: 8, Level.DAY: 2, Level.SEGMENT: 62}
_NODES = f"SELECT {NODE_COLUMNS} FROM {NODE_TABLES}"
_GRIP = """
    SELECT g.excerpt, g.start, g.end, g.timestamp_ms, g.event, n.level, n.key,
           f.timestamp_ms, g.first_event, l.timestamp_ms, g.last_event, l.session
    FROM grip g JOIN node n ON n.id = g.node
    JOIN event f ON f.id = g.first_event JOIN event l ON l.id = g.last_event
    WHERE g.key = ?
"""
_SEGMENT_OF = """
    SELECT n.level, n.key FROM segment g JOIN node n ON n.id = g.node
    WHERE g.session = ? AND (g.start_ms, g.first_event) <= (?, ?) ORDER BY g.start_ms DESC, g.first_event DESC LIMIT 1
"""
_PROJECTS = """
    SELECT p.slug, p.root, count(DISTINCT s.id), count(e.id), min(e.timestamp_ms), max(e.timestamp_ms)
    FROM project p LEFT JOIN session s ON s.project = p.id LEFT JOIN event e ON e.session = s.id
    GROUP BY p.id ORDER BY max(e.timestamp_ms) DESC
"""
_COUNTS = """
    SELECT (SELECT value FROM meta WHERE key = 'timezone'), (SELECT count(*) FROM project),
           (SELECT count(*) FROM session), (SELECT count(*) FROM event), (SELECT count(*) FROM segment),
           (SELECT count(*) FROM node WHERE removed = 0), (SELECT count(*) FROM grip WHERE live = 1),
           (SELECT count(*) FROM inbox WHERE state = 0), (SELECT count(*) FROM inbox WHERE state = 1),
           (SELECT count(*) FROM dirty_session), (SELECT count(*) FROM segment
            WHERE input_hash <> done_hash AND (closed = 1 OR end_ms NOT BETWEEN :busy_from AND :busy_to)),
           (SELECT count(*) FROM segment WHERE closed = 0),
           (SELECT count(*) FROM dirty_node), (SELECT max(timestamp_ms) FROM event),
           (SELECT created_ms FROM node_version ORDER BY id DESC LIMIT 1)
"""


class SqliteLibrary:
    """Implements the Library port."""

    def __init__(self, database: Reads, index: SearchIndex) -> None:
        self._database = database
        self._index = index
        # Which index answers is chosen when the memory is opened; nothing is added to its answers here.
        self.search, self.pool = index.search, index.pool

    async def at_once(self, work: Callable[[Library], Coroutine[Any, Any, T]]) -> T:
        if not isinstance(self._database, Database) or not isinstance(self._index, Fts5Index):
            # It is of one moment already, or its index has files of its own, which are read in other threads.
            return await work(self)
        return await self._database.at_once(lambda snapshot: work(SqliteLibrary(snapshot, Fts5Index(snapshot))))

    async def project_of_root(self, root: str, label: str) -> str | None:
        rows = await self._database.fetch(FIND, sought(root, label))
        return str(rows[0][1]) if rows else None

    async def has_project(self, slug: str) -> bool:
        return bool(await self._database.value("SELECT 1 FROM project WHERE slug = ?", (slug,)))

    async def slugs(self) -> list[str]:
        return [slug for (slug,) in await self._database.fetch("SELECT slug FROM project ORDER BY slug")]

    async def projects(self) -> list[ProjectInfo]:
        return [ProjectInfo(*row) for row in await self._database.fetch(_PROJECTS)]

    async def node(self, project: str, ref: NodeRef) -> Node | None:
        where = " WHERE p.slug = ? AND n.level = ? AND n.key = ? AND n.removed = 0"
        found = await self._nodes(_NODES + where, project, int(ref.level), ref.key)
        return found[0] if found else None

    async def nodes_named(self, project: str, level: Level, beginning: str, limit: int) -> list[NodeRef]:
        rows = await self._database.fetch(_NAMED, (project, int(level), beginning, beginning + "~", limit))
        return [NodeRef(level, key) for (key,) in rows]

    async def grips_between(self, project: str, start_ms: int, end_ms: int, limit: int) -> list[str]:
        earliest = start_ms - _LONGEST_DAYS[Level.SEGMENT] * 86_400_000
        span = (earliest, end_ms, start_ms, end_ms)
        rows = await self._database.fetch(_CITED, (project, int(Level.SEGMENT), *span, limit))
        return [event_grip_id(timestamp_ms, key) for timestamp_ms, key in rows]

    async def sessions_of(self, project: str, beginning: str, limit: int) -> list[str]:
        values = (project, beginning, beginning + "\U0010ffff", limit)
        return list(dict.fromkeys(name for (name,) in await self._database.fetch(_SESSIONS, values)))

    async def history(self, project: str, ref: NodeRef) -> list[Node]:
        sql = _NODES.replace("v.id = n.current", "v.node = n.id")
        where = " WHERE p.slug = ? AND n.level = ? AND n.key = ? ORDER BY v.version"
        return await self._nodes(sql + where, project, int(ref.level), ref.key)

    async def children(self, project: str, ref: NodeRef, *, bullets: bool = True) -> list[Node]:
        where = " WHERE p.slug = ? AND n.level = ? AND n.parent = ? AND n.removed = 0 ORDER BY n.start_ms, n.key"
        return await self._nodes(_NODES + where, project, int(ref.level) + 1, ref.key, bullets=bullets)

    async def neighbours(self, project: str, ref: NodeRef) -> tuple[str | None, str | None]:
        # Nothing in the inner queries depends on n, so that the index on the time is entered at the right place.
        siblings = "project = (SELECT id FROM project WHERE slug = ?1) AND level = ?2"
        base = f"SELECT n.key FROM node n WHERE n.{siblings} AND n.removed = 0 AND"
        start = f"(SELECT start_ms FROM node WHERE {siblings} AND key = ?3)"
        place = (project, int(ref.level), ref.key)
        previous = await self._database.value(f"{base} n.start_ms < {start} ORDER BY n.start_ms DESC LIMIT 1", place)
        following = await self._database.value(f"{base} n.start_ms > {start} ORDER BY n.start_ms LIMIT 1", place)
        both = [NodeRef(ref.level, key).node_id() if key else None for key in (previous, following)]
        return both[0], both[1]

    async def top(self, project: str | None, level: Level, limit: int, *, bullets: bool = True) -> list[Node]:
        where, values = _scope(project)
        sql = f"{_NODES} WHERE {where} AND n.level = ? AND n.removed = 0 ORDER BY n.start_ms DESC LIMIT ?"
        return await self._nodes(sql, *values, int(level), limit, bullets=bullets)

    async def between(self, project: str | None, level: Level, start_ms: int, end_ms: int, limit: int) -> list[Node]:
        where, values = _scope(project)
        sql = (
            f"{_NODES} WHERE {where} AND n.level = ? AND n.removed = 0 AND n.start_ms < ? AND n.start_ms > ? "
            "AND n.end_ms >= ? ORDER BY n.start_ms LIMIT ?"
        )
        # No node of the level is longer, so that older ones need not be looked at.
        earliest = start_ms - _LONGEST_DAYS[level] * 86_400_000
        # A period ends with the first instant after it, a segment with its last word.
        end_after = start_ms if level is Level.SEGMENT else start_ms + 1
        return await self._nodes(sql, *values, int(level), end_ms, earliest, end_after, limit)

    async def _nodes(self, sql: str, *values: Any, bullets: bool = True) -> list[Node]:
        rows = await self._database.fetch(sql, values)
        return await nodes_of(self._database, rows) if bullets else titles_of(rows)

    async def grip(self, key: bytes, before: int, after: int) -> GripRecord | None:
        rows = await self._database.fetch(_GRIP, (key,))
        if rows:
            return await self._bullet_grip(key, rows[0], before, after)
        return await self._event_grip(key, before, after)

    async def keys(self, beginning: bytes) -> list[bytes]:
        last = beginning + b"\xff" * (KEY_BYTES - len(beginning))
        rows = await self._database.fetch(_KEYS, (beginning, last, beginning, last))
        return [bytes(key) for (key,) in rows]

    async def _bullet_grip(self, key: bytes, row: Row, before: int, after: int) -> GripRecord:
        excerpt, start, end, timestamp_ms, cited, level, node_key, *span, session = row
        around = await self._around(session, (span[0], span[1]), (span[2], span[3]), before, after)
        event = await self._event("e.id = ?", cited)
        node_id = NodeRef(Level(level), node_key).node_id()
        grip_id = event_grip_id(timestamp_ms, key)
        return GripRecord(grip_id, excerpt, start, end, node_id, *around, cited=event)

    async def _event_grip(self, key: bytes, before: int, after: int) -> GripRecord | None:
        event = await self._event("e.key = ?", key)
        if event is None:
            return None
        rows = await self._database.fetch("SELECT id, session FROM event WHERE key = ?", (key,))
        place = (event.timestamp_ms, rows[0][0])
        around = await self._around(rows[0][1], place, place, before, after)
        node = await self._database.fetch(_SEGMENT_OF, (rows[0][1], *place))
        node_id = NodeRef(Level(node[0][0]), node[0][1]).node_id() if node else ""
        grip_id = event_grip_id(event.timestamp_ms, key)
        return GripRecord(grip_id, event.text, 0, len(event.text), node_id, *around, cited=event)

    async def _around(
        self, session: int, first: tuple[int, int], last: tuple[int, int], before: int, after: int
    ) -> tuple[tuple[Event, ...], tuple[Event, ...], tuple[Event, ...]]:
        """What was said before, within and after a stretch of one session."""
        base = f"{EVENTS} WHERE e.session = ? AND {_SAYS} AND "
        place = "(e.timestamp_ms, e.id)"
        down, up = " ORDER BY e.timestamp_ms DESC, e.id DESC LIMIT ?", " ORDER BY e.timestamp_ms, e.id LIMIT ?"
        earlier = await self._events(f"{base}{place} < (?, ?){down}", session, *first, before)
        within = await self._events(f"{base}{place} >= (?, ?) AND {place} <= (?, ?){up}", session, *first, *last, 20)
        later = await self._events(f"{base}{place} > (?, ?){up}", session, *last, after)
        return tuple(reversed(earlier)), tuple(within), tuple(later)

    async def _events(self, sql: str, *values: Any) -> list[Event]:
        return [told_event(row) for row in await self._database.fetch(sql, values)]

    async def _event(self, where: str, value: Any) -> Event | None:
        found = await self._events(f"{EVENTS} WHERE {where}", value)
        return found[0] if found else None

    async def cited_by(self, grip_ids: Sequence[str]) -> dict[str, Event]:
        found: dict[str, Event] = {}
        for grip_id in grip_ids:
            key = parse_grip_id(grip_id)[1]
            event = await self._event("e.id = (SELECT event FROM grip WHERE key = ?)", key)
            if event:
                found[grip_id] = event
        return found

    async def known(self, words: Sequence[str]) -> dict[str, int]:
        rows = await self._database.fetch(_KNOWN, (json.dumps([word for word in words if word.isalnum()]),))
        return {word: count for word, count in rows if count}

    async def events(self, numbers: Sequence[int]) -> dict[int, Candidate]:
        return await events(self._database, numbers)

    async def events_after(self, number: int, project: str | None, limit: int) -> list[tuple[int, Event]]:
        where, values = _scope(project)
        rows = await self._database.fetch(
            f"{EVENTS} WHERE e.id > ? AND {where} ORDER BY e.id LIMIT ?", (number, *values, limit)
        )
        return [(row[12], told_event(row)) for row in rows]

    async def is_silent(self, within: Within) -> bool:
        return await is_silent(self._database, within)

    async def root_of(self, project: str) -> str | None:
        root = await self._database.value("SELECT root FROM project WHERE slug = ?", (project,))
        return str(root) if root is not None else None

    async def unsummarized(self, project: str | None) -> tuple[int, int]:
        where, values = _scope(project)
        rows = await self._database.fetch(
            "SELECT count(DISTINCT g.session), coalesce(sum(g.events), 0) FROM segment g "
            "JOIN session s ON s.id = g.session JOIN project p ON p.id = s.project "
            f"WHERE g.input_hash <> g.done_hash AND {where}",
            values,
        )
        return int(rows[0][0]), int(rows[0][1])

    async def counts(self, busy: range = range(0)) -> Counts:
        row = (await self._database.fetch(_COUNTS, {"busy_from": busy.start, "busy_to": busy.stop - 1}))[0]
        schema = int(await self._database.value("PRAGMA user_version"))
        lease = await self._database.fetch(
            "SELECT holder, token, expires_ms FROM lease WHERE name = 'pipeline' AND expires_ms > 0"
        )
        held = dict(zip(("holder", "token", "expires_ms"), lease[0], strict=True)) if lease else None
        aside = [BadLine(*found) for found in await self._database.fetch(SET_ASIDE)]
        values: tuple[Any, ...] = (schema, *row, held, tuple(aside))
        return Counts(*values)


def _scope(project: str | None) -> tuple[str, tuple[str, ...]]:
    return ("p.slug = ?", (project,)) if project else ("1", ())


_NOW = f"SELECT {NODE_COLUMNS} FROM {NODE_TABLES}"
#: The latest version that belongs to the view, in place of the current one.
_THEN = _NOW.replace(
    "v.id = n.current",
    "v.id = (SELECT id FROM node_version WHERE node = n.id AND id <= ?1 ORDER BY version DESC LIMIT 1)",
)
#: There are few pinned notes, however many sessions.
_PINNED = EVENTS.replace("FROM event e", "FROM event e INDEXED BY event_pinned") + (
    " WHERE e.type = 'note' AND json_extract(e.metadata, '$.pin') AND p.slug = ?2 AND e.id <= ?1 "
    "ORDER BY e.timestamp_ms DESC LIMIT 20"
)
_SESSION = (
    "(SELECT id FROM session WHERE session_id = ?2 "
    "ORDER BY (SELECT max(timestamp_ms) FROM event WHERE session = session.id) DESC LIMIT 1)"
)
_TAIL = EVENTS + (
    f" WHERE e.session = {_SESSION} AND e.id <= ?1 AND e.type IN ('user_message', 'assistant_message', 'note') "
    "AND e.text <> '' ORDER BY e.timestamp_ms DESC, e.id DESC LIMIT ?3"
)
_OWN = EVENTS + (
    f" WHERE e.session = {_SESSION} AND e.id <= ?1 AND e.type = 'compaction' AND e.text <> '' "
    "ORDER BY e.timestamp_ms DESC LIMIT 1"
)
_LAST_SEGMENT = f"""
    SELECT p.slug, n.key FROM segment g JOIN node n ON n.id = g.node JOIN project p ON p.id = n.project
    WHERE g.session = {_SESSION} AND EXISTS (SELECT 1 FROM node_version WHERE node = n.id AND id <= ?1)
    ORDER BY g.start_ms DESC, g.first_event DESC LIMIT 1
"""
_SEGMENT_AT = """
    SELECT n.key FROM segment g JOIN node n ON n.id = g.node
    WHERE g.session = ? AND (g.start_ms, g.first_event) <= (?, ?) ORDER BY g.start_ms DESC, g.first_event DESC LIMIT 1
"""
#: The segments just before and just after one in its session.
_BESIDE = """
    SELECT n.key FROM segment g JOIN node n ON n.id = g.node
    WHERE g.session = (SELECT session FROM node WHERE project = (SELECT id FROM project WHERE slug = ?1)
                       AND level = 4 AND key = ?2)
      AND g.start_ms {sign} ?3 AND n.key <> ?2 ORDER BY g.start_ms {way} LIMIT 1
"""
_MENTIONS = """
    SELECT * FROM (
        SELECT m.term, n.key FROM mention m JOIN node n ON n.id = m.node
        WHERE m.project = (SELECT id FROM project WHERE slug = ?) AND m.term = ? AND m.since <= ?
        ORDER BY m.start_ms DESC LIMIT ?
    )
"""
#: A term that so many segments share says little about any two of them.
_COMMON = 8


class SqliteChronicle:
    """Implements the Chronicle port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def position(self) -> Position:
        rows = await self._database.fetch(
            "SELECT name, seq FROM sqlite_sequence WHERE name IN ('node_version', 'event', 'compaction')"
        )
        last: dict[str, int] = dict(rows)
        return Position(last.get("node_version", 0), last.get("event", 0), last.get("compaction", 0))

    async def nodes(self, project: str, refs: Sequence[NodeRef], at: Position | None) -> list[Node]:
        if not refs:
            return []
        # Each place is looked up by its key: a list of pairs would make SQLite walk all nodes of the project.
        number = "n.project = (SELECT id FROM project WHERE slug = ?)"
        where = " OR ".join(f"({number} AND n.level = ? AND n.key = ?)" for _ in refs)
        places = [value for ref in refs for value in (project, int(ref.level), ref.key)]
        found = {node.ref: node for node in await self._read(f"({where})", places, at)}
        return [found[ref] for ref in refs if ref in found]

    async def children(self, project: str, ref: NodeRef, at: Position | None, limit: int) -> list[Node]:
        where = "p.slug = ? AND n.level = ? AND n.parent = ? ORDER BY n.start_ms DESC LIMIT ?"
        return await self._read(where, [project, int(ref.level) + 1, ref.key, limit], at)

    async def _read(self, where: str, values: Sequence[Any], at: Position | None) -> list[Node]:
        """Nodes by a condition that does not look at versions; removed ones are left out."""
        if at is None:
            head, _, tail = where.partition(" ORDER BY")
            tail = f" ORDER BY{tail}" if tail else ""
            rows = await self._database.fetch(f"{_NOW} WHERE {head} AND n.removed = 0{tail}", values)
        else:
            rows = await self._database.fetch(f"{_THEN} WHERE {where}", (at.versions, *values))
        return [node for node in await nodes_of(self._database, rows) if not node.removed]

    async def gone(self, project: str, refs: Sequence[NodeRef], parent: NodeRef, since: Position) -> list[NodeRef]:
        places = ", ".join("(?, ?)" for _ in refs)
        named = [value for ref in refs for value in (int(ref.level), ref.key)]
        rows = await self._database.fetch(
            "SELECT DISTINCT r.level, r.key FROM removed_node r JOIN project p ON p.id = r.project "
            "WHERE p.slug = ?1 AND ?2 BETWEEN r.since AND r.until "
            f"AND ((r.level = ?3 AND r.parent = ?4) OR (r.level, r.key) IN (VALUES {places})) ORDER BY r.level, r.key",
            (project, since.versions, int(parent.level) + 1, parent.key, *named),
        )
        return [NodeRef(Level(level), key) for level, key in rows]

    async def erased(self, since: Position) -> tuple[set[str], set[str]]:
        rows = await self._database.fetch(
            "SELECT p.slug, s.session_id, r.notes FROM erased r LEFT JOIN session s ON s.id = r.session "
            "JOIN project p ON p.id = r.project WHERE r.at_event > ?",
            (since.events,),
        )
        return {slug for slug, _, notes in rows if notes}, {session for _, session, _ in rows if session}

    async def segments_beside(self, project: str, node: Node, at: Position | None) -> list[Node]:
        refs = []
        for sign, way in (("<=", "DESC"), (">=", "ASC")):
            place = (project, node.ref.key, node.start_ms)
            key = await self._database.value(_BESIDE.format(sign=sign, way=way), place)
            refs += [NodeRef(Level.SEGMENT, key)] if key else []
        return await self.nodes(project, list(dict.fromkeys(refs)), at)

    async def related(self, project: str, node: Node, at: Position | None, limit: int) -> list[Node]:
        terms = list(dict.fromkeys(map(folded, node.keywords)))
        if not terms:
            return []
        latest = at.versions if at else LATEST
        values = [value for term in terms for value in (project, term, latest, _COMMON)]
        rows = await self._database.fetch(" UNION ALL ".join([_MENTIONS] * len(terms)), values)
        often = Counter(term for term, _ in rows)
        shared: dict[str, float] = {}
        for term, key in rows:
            shared[key] = shared.get(key, 0.0) + 1 / often[term]
        shared.pop(node.ref.key, None)
        best = sorted(shared, key=lambda key: (-shared[key], key))[: limit * 2]
        return (await self.nodes(project, [NodeRef(Level.SEGMENT, key) for key in best], at))[:limit]

    async def pinned(self, project: str, at: Position | None) -> list[Event]:
        return await self._events(_PINNED, at.events if at else LATEST, project)

    async def event(self, key: bytes, at: Position | None) -> Words | None:
        latest = at.events if at else LATEST
        grip = await self._database.fetch(
            "SELECT e.key, g.excerpt FROM grip g JOIN event e ON e.id = g.event WHERE g.key = ?", (key,)
        )
        event_key, excerpt = grip[0] if grip else (key, "")
        found = await self._events(EVENTS + " WHERE e.key = ?2 AND e.id <= ?1", latest, event_key)
        if not found:
            return None
        rows = await self._database.fetch("SELECT session, timestamp_ms, id FROM event WHERE key = ?", (event_key,))
        segment = await self._database.value(_SEGMENT_AT, rows[0])
        return Words(found[0], excerpt, NodeRef(Level.SEGMENT, segment) if segment else None)

    async def last_segment(self, session_id: str, at: Position | None) -> tuple[str, NodeRef] | None:
        rows = await self._database.fetch(_LAST_SEGMENT, (at.versions if at else LATEST, session_id))
        return (rows[0][0], NodeRef(Level.SEGMENT, rows[0][1])) if rows else None

    async def records(self, session_id: str, at: Position | None) -> list[Record]:
        session = await self._database.value(f"SELECT {_SESSION}", (0, session_id))
        if session is None:
            return []
        return await chain_of(self._database, session, at.records if at else LATEST, sources=True)

    async def tail(self, session_id: str, messages: int, at: Position | None) -> list[Event]:
        found = await self._events(_TAIL, at.events if at else LATEST, session_id, messages)
        return found[::-1]

    async def sessions_named(self, beginning: str) -> list[str]:
        sql = "SELECT DISTINCT session_id FROM session WHERE session_id BETWEEN ? AND ? LIMIT 2"
        return [name for (name,) in await self._database.fetch(sql, (beginning, beginning + "\U0010ffff"))]

    async def own_summary(self, session_id: str, at: Position | None) -> Event | None:
        found = await self._events(_OWN, at.events if at else LATEST, session_id)
        return found[0] if found else None

    async def _events(self, sql: str, *values: Any) -> list[Event]:
        return [told_event(row) for row in await self._database.fetch(sql, values)]
