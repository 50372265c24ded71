"""What an index with files of its own takes from the database: its documents, and what came and went since it looked.

Events and node versions have numbers that only grow, so two of them say what an index holds; what was erased since is
told by marks that the database keeps. A document's number is its row in the database's own index.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from mcp_memory.domain.events import LIFECYCLE
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.terms import (
    IndexChanges,
    IndexDocument,
    IndexEntry,
    Pool,
    Ranked,
    Standing,
    Term,
    Within,
    event_columns,
    node_columns,
)
from mcp_memory.store.sql.database import ERASURES, EVENT, NODE, Reads
from mcp_memory.store.sql.pool import load
from mcp_memory.store.sql.tombstones import is_marked
from mcp_memory.store.sqlite.database import SqliteTransaction
from mcp_memory.store.sqlite.fts5 import pool_of

REACHED = f"""
    SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0),
           coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'node_version'), 0),
           coalesce(({ERASURES}), '')
"""
#: What tells the last event and version from others of the same number; nothing if they were erased already.
_NAMES = """
    SELECT coalesce((SELECT lower(hex(key)) FROM event WHERE id = ?), ''),
           coalesce((SELECT node || ' ' || version || ' ' || created_ms || ' ' || input_hash
                     FROM node_version WHERE id = ?), '')
"""
_EVENTS = "SELECT id, timestamp_ms, role, type, text FROM event WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
#: A node counts by its current version; those before it would only be replaced again.
_NODES = """
    SELECT v.id, n.id, n.removed, v.start_ms, v.title, v.keywords, (
        SELECT json_group_array(json_array(kind, text))
        FROM (SELECT kind, text FROM bullet WHERE node_version = v.id ORDER BY position))
    FROM node_version v JOIN node n ON n.id = v.node AND n.current = v.id
    WHERE v.id > ? AND v.id <= ? ORDER BY v.id LIMIT ?
"""
#: Numbers of nodes are given again: what an index has by the number of a node that is newer than what it has seen is of
#: an older one, which may say what was erased.
_KEPT = f"""
    SELECT id * 4 + {EVENT} FROM event
    UNION ALL SELECT id * 4 + {NODE} FROM node WHERE removed = 0 AND current <= ?
"""
#: Those of a project and time; the database knows them, even where sessions have changed projects.
_FITTING = f"""
    SELECT e.id * 4 + {EVENT} FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project
    WHERE e.id IN (SELECT value / 4 FROM json_each(:numbers) WHERE value % 4 = {EVENT})
    AND p.slug = coalesce(:project, p.slug) AND e.timestamp_ms >= coalesce(:start, e.timestamp_ms)
    AND e.timestamp_ms < coalesce(:end, e.timestamp_ms + 1)
    UNION ALL
    SELECT n.id * 4 + {NODE} FROM node n JOIN project p ON p.id = n.project
    WHERE n.id IN (SELECT value / 4 FROM json_each(:numbers) WHERE value % 4 = {NODE})
    AND p.slug = coalesce(:project, p.slug) AND n.end_ms >= coalesce(:start, n.end_ms)
    AND n.start_ms < coalesce(:end, n.start_ms + 1)
"""
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class IndexPosition:
    """The last event and node version in an index, with what tells them from others, and the last erasure it knows."""

    event: int = 0
    event_name: str = ""
    version: int = 0
    version_name: str = ""
    erasure: str = ""

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))


def standing(connection: sqlite3.Connection, held: str | None) -> Standing:
    """How an index that has got so far stands to the database.

    It may be one of another database, which this one was restored over: what it saw last must still be there, or have
    been erased.
    """
    last_event, last_version, marks = connection.execute(REACHED).fetchone()
    try:
        position = IndexPosition(**json.loads(held or ""))
    except (ValueError, TypeError):
        return Standing.UNUSABLE
    erasures = ["", *marks.split()]
    if position.event > last_event or position.version > last_version or position.erasure not in erasures:
        return Standing.UNUSABLE
    erased = position.erasure != erasures[-1]
    event, version = connection.execute(_NAMES, (position.event, position.version)).fetchone()
    if position.event_name and event != position.event_name:
        ours = erased and bool(is_marked(SqliteTransaction(connection), [bytes.fromhex(position.event_name)]))
    else:
        ours = version == position.version_name or (erased and not version)
    if not ours:
        return Standing.UNUSABLE
    if erased:
        return Standing.ERASED
    same = (position.event, position.version) == (last_event, last_version)
    return Standing.CURRENT if same else Standing.BEHIND


def changes(connection: sqlite3.Connection, held: str | None, limit: int) -> IndexChanges:
    """As much of what is new as one commit takes; to an index that is built anew it is no matter what was erased."""
    found = standing(connection, held)
    last_event, last_version, marks = connection.execute(REACHED).fetchone()
    position = IndexPosition(erasure=["", *marks.split()][-1])
    if held and found is not Standing.UNUSABLE:
        position = replace(IndexPosition(**json.loads(held)), erasure=position.erasure)
    if found is Standing.ERASED:
        kept = frozenset(number for (number,) in connection.execute(_KEPT, (position.version,)))
        # What the index saw last may be among what was erased.
        event_name, version_name = connection.execute(_NAMES, (position.event, position.version)).fetchone()
        reached = replace(position, event_name=event_name, version_name=version_name)
        return IndexChanges(found, reached.text, kept=kept)
    events = connection.execute(_EVENTS, (position.event, last_event, limit)).fetchall()
    nodes = connection.execute(_NODES, (position.version, last_version, limit)).fetchall()
    documents = [
        IndexDocument(number * 4 + EVENT, at, True, partial(event_columns, role, kind, text))
        for number, at, role, kind, text in events
        if kind not in LIFECYCLE and text.strip()
    ]
    for _, number, removed, at, title, keywords, bullets in nodes:
        if not removed:
            shown = [Kind(bullet).shown(text) for bullet, text in json.loads(bullets)]
            columns = partial(node_columns, title, shown, json.loads(keywords))
            documents.append(IndexDocument(number * 4 + NODE, at, False, columns))
    event = events[-1][0] if len(events) == limit else last_event
    version = nodes[-1][0] if len(nodes) == limit else last_version
    event_name, version_name = connection.execute(_NAMES, (event, version)).fetchone()
    reached = IndexPosition(event, event_name, version, version_name, position.erasure)
    # A node that the index has not seen need not be looked for in it.
    replaced = [row[1] * 4 + NODE for row in nodes] if position.version else []
    return IndexChanges(found, reached.text, documents, replaced)


class IndexPart:
    """Implements the IndexSource port."""

    _reads: Reads

    async def index_standing(self, held: str | None) -> Standing:
        return await self._reads.read(lambda connection: standing(connection, held))

    async def index_changes(self, held: str | None, limit: int) -> IndexChanges:
        return await self._reads.read(lambda connection: changes(connection, held, limit))

    async def matches(self, best: Ranked, within: Within, kinds: frozenset[str] | None, limit: int) -> list[IndexEntry]:
        kept: list[IndexEntry] = []
        for start in range(0, len(best.numbers), _CHUNK):
            part = best.numbers[start : start + _CHUNK]
            if within.project is not None or within.dated:
                times = {"start": within.start_ms, "end": within.end_ms}
                values = {"numbers": json.dumps(part), "project": within.project, **times}
                fitting = {number for (number,) in await self._reads.fetch(_FITTING, values)}
                part = [number for number in part if number in fitting]
            kept += await load(self._reads, [(number, 0.0) for number in part], limit, within, kinds)
            if len(kept) >= limit:
                break
        return kept[:limit]

    async def pool_of(self, terms: Sequence[Term], found: Ranked, within: Within, *, cited: bool, limit: int) -> Pool:
        events = replace(found, numbers=[number // 4 for number in found.numbers])
        return await self._reads.read(lambda connection: pool_of(connection, terms, events, within, cited, limit))
