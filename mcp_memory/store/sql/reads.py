"""The read side of the store: each read by key, of the database as it stands or of one snapshot of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from mcp_memory.domain.events import BY, BY_AGENT, KEY_BYTES, NOTES_CLIENT, Event, EventQuery, EventType
from mcp_memory.domain.inventory import Counts
from mcp_memory.domain.nodes import GripRecord, Node, NodeQuery, Words, event_grip_id, parse_grip_id
from mcp_memory.domain.projects import ProjectInfo
from mcp_memory.domain.records import Compactions, Record
from mcp_memory.domain.terms import IndexEntry, Within
from mcp_memory.domain.toc import Level, NodeRef, Position
from mcp_memory.store.port import ReadStore
from mcp_memory.store.sql.database import KEPT, SUMMARIZED, Reads, marks
from mcp_memory.store.sql.log import EVENTS, PLACED, event_of
from mcp_memory.store.sql.nodes import NODE_COLUMNS, NODE_TABLES, nodes_of
from mcp_memory.store.sql.overview import OverviewPart
from mcp_memory.store.sql.pool import SqlIndex, is_silent
from mcp_memory.store.sql.pool import events as candidates
from mcp_memory.store.sql.projects import FIND, KNOWN_AS, PROJECTS, REMOTES, infos, remote_of_alias, sought
from mcp_memory.store.sql.records import LATEST, SESSION_NAMED, chain_of, compactions
from mcp_memory.store.sql.turns import TurnPart
from mcp_memory.store.sql.work import REVISIONS

T = TypeVar("T")
_DAY_MS = 86_400_000
#: No node of a level is longer, so that older ones need not be looked at.
_LONGEST_DAYS = {Level.YEAR: 380, Level.MONTH: 40, Level.WEEK: 8, Level.DAY: 2, Level.SEGMENT: 62}
_PROJECT = "(SELECT id FROM project WHERE slug = ?)"
#: The latest version that belongs to an earlier view, in place of the current one.
_THEN = "v.id = (SELECT id FROM node_version WHERE node = n.id AND id <= ? ORDER BY version DESC LIMIT 1)"
#: Whether something was said or done; a title that the client gave is neither.
_SAYS = (
    "e.type NOT IN ('session_start', 'assistant_stop', 'subagent_start', 'session_title', 'session_end') "
    "AND e.text <> ''"
)
_SESSIONS = f"""
    SELECT session_id FROM session WHERE session_id BETWEEN ?1 AND ?2 AND client <> '{NOTES_CLIENT}'
      AND (?3 IS NULL OR project = (SELECT id FROM project WHERE slug = ?3))
    GROUP BY session_id ORDER BY max(id) DESC LIMIT ?4
"""
_HAS_SESSIONS = f"""
    SELECT CASE WHEN EXISTS (
        SELECT 1 FROM session s WHERE s.project = {_PROJECT} AND s.client <> ?
          AND EXISTS (SELECT 1 FROM event e WHERE e.session = s.id)
    ) THEN 1 ELSE 0 END
"""
_CLIENTS_OF = "SELECT client FROM session WHERE session_id = ? ORDER BY client"
_BY_AGENT = f"CASE WHEN coalesce(CAST(json_extract(e.metadata, '$.{BY}') AS TEXT), '') = '{BY_AGENT}' THEN 1 ELSE 0 END"
_CONTINUES = """
    SELECT o.session_id FROM continued c JOIN session o ON o.id = c.origin WHERE c.session_id = ?
    ORDER BY (SELECT max(timestamp_ms) FROM event WHERE session = o.id), o.id
"""
_KEYS = (
    "SELECT key FROM grip WHERE key BETWEEN ?1 AND ?2 UNION ALL SELECT key FROM event WHERE key BETWEEN ?1 AND ?2 "
    "LIMIT 2"
)
_CITED = f"""
    SELECT g.timestamp_ms, g.key FROM node n JOIN grip g ON g.node = n.id
    WHERE n.project = {_PROJECT} AND n.level = ? AND n.removed = 0
      AND n.start_ms BETWEEN ? AND ? AND +g.live = 1 AND g.timestamp_ms BETWEEN ? AND ?
    ORDER BY n.start_ms DESC LIMIT ?
"""
#: Events by the keys of grips that cite them, which come last; so many are looked up together.
_BY_GRIP = EVENTS.replace(" FROM", ", g.key FROM").replace("event e", "grip g JOIN event e ON e.id = g.event")
_AT_ONCE = 500
_GRIP = f"""
    SELECT g.excerpt, g.start, g.end, g.timestamp_ms, e.key, n.level, n.key,
           f.timestamp_ms, f.id, l.timestamp_ms, l.id, l.session
    FROM grip g JOIN node n ON n.id = g.node LEFT JOIN event e ON e.id = g.event
    LEFT JOIN event f ON f.id = g.first_event LEFT JOIN event l ON l.id = g.last_event
    WHERE g.key = ? AND (g.timestamp_ms < {KEPT} OR (f.id IS NOT NULL AND l.id IS NOT NULL))
"""
_LAST_SEGMENT = f"""
    SELECT p.slug, n.key FROM segment g JOIN node n ON n.id = g.node JOIN project p ON p.id = n.project
    WHERE g.session = {SESSION_NAMED} ORDER BY g.start_ms DESC, g.first_event DESC LIMIT 1
"""
#: The segments just before and just after one in its session.
_BESIDE = """
    SELECT n.key FROM segment g JOIN node n ON n.id = g.node
    WHERE g.session = (SELECT session FROM node WHERE project = (SELECT id FROM project WHERE slug = ?1)
                       AND level = 4 AND key = ?2)
      AND g.start_ms {sign} ?3 AND n.key <> ?2 ORDER BY g.start_ms {way} LIMIT 1
"""
_MENTIONS = f"""
    SELECT * FROM (
        SELECT m.term, n.key FROM mention m JOIN node n ON n.id = m.node
        WHERE m.project = {_PROJECT} AND m.term = ? AND m.since <= ? ORDER BY m.start_ms DESC LIMIT ?
    ) latest
"""
#: A term that so many segments share says little about any two of them.
_COMMON = 8
_GONE = """
    SELECT DISTINCT r.level, r.key FROM removed_node r JOIN project p ON p.id = r.project
    WHERE p.slug = ?1 AND ?2 BETWEEN r.since AND r.until
      AND ((r.level = ?3 AND r.parent = ?4) OR (r.level, r.key) IN (VALUES {places})) ORDER BY r.level, r.key
"""
_ERASED = """
    SELECT p.slug, s.session_id, r.notes FROM erased r LEFT JOIN session s ON s.id = r.session
    JOIN project p ON p.id = r.project WHERE r.at_event > ?
"""
_UNSUMMARIZED = f"""
    SELECT count(DISTINCT CASE WHEN s.client <> '{NOTES_CLIENT}' THEN g.session END), coalesce(sum(g.events), 0)
    FROM segment g
    JOIN session s ON s.id = g.session JOIN project p ON p.id = s.project
    WHERE g.input_hash <> g.done_hash AND (?1 IS NULL OR p.slug = ?1)
"""
_COUNTS = f"""
    SELECT (SELECT value FROM meta WHERE key = 'timezone'), (SELECT count(*) FROM project),
           (SELECT count(*) FROM session WHERE client <> '{NOTES_CLIENT}'),
           (SELECT count(*) FROM event), (SELECT count(*) FROM segment),
           (SELECT count(*) FROM node WHERE removed = 0), (SELECT count(*) FROM grip WHERE live = 1),
           (SELECT count(*) FROM dirty_session), (SELECT count(*) FROM segment
            WHERE input_hash <> done_hash AND (closed = 1 OR end_ms NOT BETWEEN :busy_from AND :busy_to)),
           (SELECT count(*) FROM segment WHERE closed = 0),
           (SELECT count(*) FROM dirty_node), (SELECT max(timestamp_ms) FROM event),
           (SELECT created_ms FROM node_version ORDER BY id DESC LIMIT 1)
"""


class SqlReader(TurnPart, OverviewPart):
    """Implements the ReadStore port."""

    def __init__(self, reads: Reads, index: SqlIndex) -> None:
        self._reads, self.index = reads, index
        # Which index answers is chosen when the memory is opened; nothing is added to its answers here.
        self.search, self.pool = index.search, index.pool

    async def at_once(self, work: Callable[[ReadStore], Coroutine[Any, Any, T]]) -> T:
        return await work(self)

    async def position(self) -> Position:
        last = await self._reads.reached()
        return Position(last["node_version"], last["event"], last["compaction"])

    async def project_of_root(self, root: str, label: str, remote: str = "") -> str | None:
        return next((slug for _, slug, _ in await self._reads.fetch(FIND, sought(root, label, remote))), None)

    async def has_sessions(self, project: str) -> bool:
        return bool(await self._reads.value(_HAS_SESSIONS, (project, NOTES_CLIENT)))

    async def remotes(self) -> dict[str, str]:
        return {slug: remote_of_alias(name) for slug, name in await self._reads.fetch(REMOTES)}

    async def root_of(self, project: str) -> str | None:
        root: str | None = await self._reads.value("SELECT root FROM project WHERE slug = ?", (project,))
        return root

    async def slugs(self) -> list[str]:
        return [slug for (slug,) in await self._reads.fetch("SELECT slug FROM project ORDER BY slug")]

    async def projects(self) -> list[ProjectInfo]:
        return infos(await self._reads.fetch(PROJECTS), await self._reads.fetch(KNOWN_AS))

    async def continues(self, session_id: str) -> list[str]:
        return [name for (name,) in await self._reads.fetch(_CONTINUES, (session_id,))]

    async def sessions(self, beginning: str, limit: int, project: str | None = None) -> list[str]:
        rows = await self._reads.fetch(_SESSIONS, (beginning, beginning + "\U0010ffff", project, limit))
        return [name for (name,) in rows]

    async def clients_of(self, session_id: str) -> list[str]:
        return [client for (client,) in await self._reads.fetch(_CLIENTS_OF, (session_id,))]

    async def last_segment(self, session_id: str) -> tuple[str, NodeRef] | None:
        rows = await self._reads.fetch(_LAST_SEGMENT, (session_id,))
        return next(((slug, NodeRef(Level.SEGMENT, key)) for slug, key in rows), None)

    async def records(self, session_id: str, at: Position | None) -> list[Record]:
        session = await self._reads.value(f"SELECT {SESSION_NAMED}", (session_id,))
        if session is None:
            return []
        return await chain_of(self._reads, session, at.records if at else LATEST, sources=True)

    async def compactions(self) -> Compactions:
        return await compactions(self._reads)

    async def nodes(self, query: NodeQuery) -> list[Node]:
        clauses, values = ["TRUE"], list[Any]()

        def where(clause: str, *bound: Any) -> None:
            clauses.append(clause)
            values.extend(bound)

        version = "v.id = n.current"
        if query.versions:
            version = "v.node = n.id"
        elif query.at:
            version, values = _THEN, [query.at.versions]
            where("v.removed = 0")
        else:
            where("n.removed = 0")
        simple = (
            (query.project, f"n.project = {_PROJECT}"),
            (query.session_id, f"n.id IN (SELECT node FROM segment WHERE session = {SESSION_NAMED})"),
            (query.level, "n.level = ?"),
        )
        for value, clause in simple:
            if value is not None:
                where(clause, value)
        if query.refs is not None:
            # Each place is looked up by its key: a list of pairs would make SQLite walk all nodes of the project.
            places = [value for ref in query.refs for value in (int(ref.level), ref.key)]
            where(f"({' OR '.join(['(n.level = ? AND n.key = ?)'] * len(query.refs)) or 'FALSE'})", *places)
        if query.parent is not None:
            where("n.level = ? AND n.parent = ?", int(query.parent.level) + 1, query.parent.key)
        if query.beginning is not None:
            where("n.key BETWEEN ? AND ?", query.beginning, query.beginning + "~")
        if query.between is not None:
            start_ms, end_ms = query.between
            # A period ends with the first instant after it, a segment with its last word.
            where(
                f"n.start_ms < ? AND n.end_ms >= ? + CASE WHEN n.level < {int(Level.SEGMENT)} THEN 1 ELSE 0 END",
                end_ms,
                start_ms,
            )
            if query.level is not None:
                where("n.start_ms > ?", start_ms - _LONGEST_DAYS[query.level] * _DAY_MS)
        order = "n.start_ms DESC" if query.newest_first else "n.start_ms, n.key"
        order = "n.key DESC" if query.beginning is not None else "v.version" if query.versions else order
        sql = f"SELECT {NODE_COLUMNS} FROM {NODE_TABLES.replace('v.id = n.current', version)} "
        sql += f"WHERE {' AND '.join(clauses)} ORDER BY {order} LIMIT ?"
        rows = await self._reads.fetch(sql, (*values, LATEST if query.limit is None else query.limit))
        nodes = await nodes_of(self._reads, rows, bullets=query.bullets)
        if query.refs is None or query.versions:
            return nodes
        found = {node.ref: node for node in nodes}
        return [found[ref] for ref in query.refs if ref in found]

    async def neighbours(self, project: str, ref: NodeRef) -> tuple[str | None, str | None]:
        # Nothing in the inner queries depends on n, so that the index on the time is entered at the right place.
        siblings = "project = (SELECT id FROM project WHERE slug = ?1) AND level = ?2"
        base = f"SELECT n.key FROM node n WHERE n.{siblings} AND n.removed = 0 AND"
        start = f"(SELECT start_ms FROM node WHERE {siblings} AND key = ?3)"
        place = (project, int(ref.level), ref.key)
        previous = await self._reads.value(f"{base} n.start_ms < {start} ORDER BY n.start_ms DESC LIMIT 1", place)
        following = await self._reads.value(f"{base} n.start_ms > {start} ORDER BY n.start_ms LIMIT 1", place)
        both = [NodeRef(ref.level, key).node_id() if key else None for key in (previous, following)]
        return both[0], both[1]

    async def segments_beside(self, project: str, node: Node, at: Position | None) -> list[Node]:
        keys = []
        for sign, way in (("<=", "DESC"), (">=", "ASC")):
            place = (project, node.ref.key, node.start_ms)
            keys.append(await self._reads.value(_BESIDE.format(sign=sign, way=way), place))
        refs = tuple(NodeRef(Level.SEGMENT, key) for key in dict.fromkeys(keys) if key)
        return await self.nodes(NodeQuery(project, refs, at=at)) if refs else []

    async def related(self, project: str, node: Node, at: Position | None, limit: int) -> list[Node]:
        terms = list(dict.fromkeys(term.casefold() for term in node.keywords))
        if not terms:
            return []
        latest = at.versions if at else LATEST
        values = [value for term in terms for value in (project, term, latest, _COMMON)]
        rows = await self._reads.fetch(" UNION ALL ".join([_MENTIONS] * len(terms)), values)
        often = Counter(term for term, _ in rows)
        shared: dict[str, float] = {}
        for term, key in rows:
            shared[key] = shared.get(key, 0.0) + 1 / often[term]
        shared.pop(node.ref.key, None)
        best = sorted(shared, key=lambda key: (-shared[key], key))[: limit * 2]
        refs = tuple(NodeRef(Level.SEGMENT, key) for key in best)
        return (await self.nodes(NodeQuery(project, refs, at=at)))[:limit] if refs else []

    async def gone(self, project: str, refs: Sequence[NodeRef], parent: NodeRef, since: Position) -> list[NodeRef]:
        named = [value for ref in refs for value in (int(ref.level), ref.key)]
        sql = _GONE.format(places=", ".join("(?, ?)" for _ in refs))
        values = (project, since.versions, int(parent.level) + 1, parent.key, *named)
        return [NodeRef(Level(level), key) for level, key in await self._reads.fetch(sql, values)]

    async def erased(self, since: Position) -> tuple[set[str], set[str]]:
        rows = await self._reads.fetch(_ERASED, (since.events,))
        return {slug for slug, _, notes in rows if notes}, {session for _, session, _ in rows if session}

    async def unsummarized(self, project: str | None) -> tuple[int, int]:
        [(sessions, events)] = await self._reads.fetch(_UNSUMMARIZED, (project,))
        return sessions, events

    async def events(self, query: EventQuery) -> list[Event]:
        clauses, values = [SUMMARIZED if query.summarized else "TRUE"], list[Any]()

        def where(clause: str, *bound: Any) -> None:
            clauses.append(clause)
            values.extend(bound)

        sql = EVENTS
        if query.pinned:
            # There are few pinned notes, however many sessions.
            sql = sql.replace("FROM event e", "FROM event e INDEXED BY event_pinned")
            where("e.type = 'note' AND json_extract(e.metadata, '$.pin')")
        elif query.types == (EventType.NOTE,) and query.session_id is None:
            sql = sql.replace("FROM event e", "FROM event e INDEXED BY event_note")
            where("e.type = 'note'")
        if query.record is not None:
            sql += " JOIN compaction_source o ON o.event = e.id"
            where("o.compaction = (SELECT id FROM compaction WHERE key = ?)", query.record)
        if query.project is not None:
            where("p.slug = ?", query.project)
        if query.session_id is not None and query.client is not None:
            named = "(SELECT id FROM session WHERE session_id = ? AND client = ?)"
            where(f"e.session = {named}", query.session_id, query.client)
        elif query.session_id is not None:
            where(f"e.session = {SESSION_NAMED}", query.session_id)
        if query.types:
            kinds = ", ".join(f"'{kind}'" for kind in query.types)
            where(f"e.type IN ({kinds}) AND e.text <> ''")
        if query.after is not None:
            where("(e.timestamp_ms, e.id) > (?, ?)", *query.after)
        if query.through is not None:
            where("(e.timestamp_ms, e.id) <= (?, ?)", *query.through)
        if query.at is not None:
            where("e.id <= ?", query.at.events)
        way = "" if query.last is None else "DESC"
        # Of more pinned notes than are asked for, those of agents are left out first.
        first = f"{_BY_AGENT}, " if query.pinned and query.last is not None else ""
        sql += f" WHERE {' AND '.join(clauses)} ORDER BY {first}e.timestamp_ms {way}, e.id {way} LIMIT ?"
        rows = await self._reads.fetch(sql, (*values, LATEST if query.last is None else query.last))
        events = [event_of(row) for row in rows]
        return events if query.last is None else events[::-1]

    async def log(self, after: int, project: str | None, limit: int) -> list[tuple[int, Event]]:
        sql = f"{EVENTS} WHERE e.id > ?1 AND (?2 IS NULL OR p.slug = ?2) ORDER BY e.id LIMIT ?3"
        return [(row[-1], event_of(row)) for row in await self._reads.fetch(sql, (after, project, limit))]

    async def words(self, key: bytes, at: Position | None) -> Words | None:
        grip = await self._reads.fetch(
            "SELECT e.key, g.excerpt FROM grip g JOIN event e ON e.id = g.event WHERE g.key = ?", (key,)
        )
        event_key, excerpt = grip[0] if grip else (key, "")
        found = await self._event(event_key, at.events if at else LATEST)
        if found is None:
            return None
        event, segment, *_ = found
        return Words(event, excerpt, NodeRef(Level.SEGMENT, segment) if segment else None)

    async def _event(self, key: bytes, latest: int = LATEST) -> tuple[Event, str | None, int, int] | None:
        """An event with its segment, and the numbers of its session and its own."""
        for row in await self._reads.fetch(f"{PLACED} WHERE e.key = ? AND e.id <= ?", (key, latest)):
            *_, number, segment, session = row
            return event_of(row), segment, session, number
        return None

    async def grip(self, key: bytes, before: int, after: int) -> GripRecord | None:
        for row in await self._reads.fetch(_GRIP, (key,)):
            excerpt, start, end, timestamp_ms, cited, level, node_key, first_ms, first, last_ms, last, session = row
            around: tuple[tuple[Event, ...], tuple[Event, ...], tuple[Event, ...]] = ((), (), ())
            if first is not None and last is not None:  # else its words are no longer kept
                around = await self._around(session, (first_ms, first), (last_ms, last), before, after)
            found = await self._event(cited) if cited else None
            node_id = NodeRef(Level(level), node_key).node_id()
            event = found[0] if found else None
            return GripRecord(event_grip_id(timestamp_ms, key), excerpt, start, end, node_id, *around, cited=event)
        found = await self._event(key)
        if found is None:
            return None
        event, segment, session, number = found
        place = (event.timestamp_ms, number)
        around = await self._around(session, place, place, before, after)
        node_id = NodeRef(Level.SEGMENT, segment).node_id() if segment else ""
        grip_id = event_grip_id(event.timestamp_ms, key)
        return GripRecord(grip_id, event.text, 0, len(event.text), node_id, *around, cited=event)

    async def _around(
        self, session: int, first: tuple[int, int], last: tuple[int, int], before: int, after: int
    ) -> tuple[tuple[Event, ...], tuple[Event, ...], tuple[Event, ...]]:
        """What was said before, within and after a stretch of one session."""

        async def said(place: str, way: str, *values: int) -> list[Event]:
            where = f"e.session = ? AND {_SAYS} AND {place} ORDER BY e.timestamp_ms {way}, e.id {way} LIMIT ?"
            rows = await self._reads.fetch(f"{EVENTS} WHERE {where}", (session, *values))
            return [event_of(row) for row in rows]

        here = "(e.timestamp_ms, e.id)"
        earlier = await said(f"{here} < (?, ?)", "DESC", *first, before)
        within = await said(f"{here} >= (?, ?) AND {here} <= (?, ?)", "", *first, *last, 20)
        later = await said(f"{here} > (?, ?)", "", *last, after)
        return tuple(reversed(earlier)), tuple(within), tuple(later)

    async def keys(self, beginning: bytes) -> list[bytes]:
        rows = await self._reads.fetch(_KEYS, (beginning, beginning + b"\xff" * (KEY_BYTES - len(beginning))))
        return [bytes(key) for (key,) in rows]

    async def cited_by(self, grip_ids: Sequence[str]) -> dict[str, Event]:
        keys, cited = {name: parse_grip_id(name)[1] for name in grip_ids}, dict[bytes, Event]()
        wanted = list(keys.values())
        for start in range(0, len(wanted), _AT_ONCE):
            part = wanted[start : start + _AT_ONCE]
            for row in await self._reads.fetch(f"{_BY_GRIP} WHERE g.key IN ({marks(part)})", part):
                cited[bytes(row[-1])] = event_of(row)
        return {name: cited[key] for name, key in keys.items() if key in cited}

    async def grips_between(self, project: str, start_ms: int, end_ms: int, limit: int) -> list[str]:
        earliest = start_ms - _LONGEST_DAYS[Level.SEGMENT] * _DAY_MS
        span = (earliest, end_ms, start_ms, end_ms)
        rows = await self._reads.fetch(_CITED, (project, int(Level.SEGMENT), *span, limit))
        return [event_grip_id(timestamp_ms, key) for timestamp_ms, key in rows]

    async def candidates(self, numbers: Sequence[int]) -> dict[int, IndexEntry]:
        return await self._reads.read(lambda connection: candidates(connection, numbers))

    async def known(self, words: Sequence[str]) -> dict[str, int]:
        return await self.index.known([word for word in words if word.isalnum()])

    async def is_silent(self, within: Within) -> bool:
        return await self._reads.read(lambda connection: is_silent(connection, within))

    async def counts(self, busy: range = range(0)) -> Counts:
        [row] = await self._reads.fetch(_COUNTS, {"busy_from": busy.start, "busy_to": busy.stop - 1})
        lease = await self._reads.fetch(
            "SELECT holder, token, expires_ms FROM lease WHERE name = 'pipeline' AND expires_ms > 0"
        )
        held = dict(zip(("holder", "token", "expires_ms"), lease[0], strict=True)) if lease else None
        revisions: dict[int, int] = dict(await self._reads.fetch(REVISIONS))
        values: tuple[Any, ...] = (await self._reads.version(), *row, revisions, held)
        return Counts(*values)
