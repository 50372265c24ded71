"""The tree and the events as they are, or as they were at a place in the log: each read by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.records import Record
from mcp_memory.domain.toc import Level, NodeRef, Position
from mcp_memory.ports.context import Words
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.sqlite.event_rows import EVENTS, told_event
from mcp_memory.store.sqlite.mentions import folded
from mcp_memory.store.sqlite.records import LATEST, chain_of
from mcp_memory.store.sqlite.tree import NODE_COLUMNS, NODE_TABLES, nodes_of

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
_SEGMENT_OF = """
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
        segment = await self._database.value(_SEGMENT_OF, rows[0])
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
