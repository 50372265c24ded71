"""The FTS5 index, which lies in the database and is written in the transactions that write the data."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from anyio import to_thread

from mcp_memory.domain.events import Event
from mcp_memory.domain.matches import IndexEntry, IndexState, Pool, Within
from mcp_memory.domain.nodes import grip_id
from mcp_memory.domain.terms import Term, match_expression
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.store.sqlite import candidates
from mcp_memory.store.sqlite.candidates import Counted
from mcp_memory.store.sqlite.database import Reads, Row, Snapshot, marks, told
from mcp_memory.store.sqlite.log import EVENT, EVENT_COLUMNS, event_of
from mcp_memory.store.sqlite.nodes import NODE, NODE_COLUMNS, NODE_TABLES, nodes_of

_RANKED = "SELECT rowid, rank FROM search WHERE search MATCH ? ORDER BY rank LIMIT ?"
_SEGMENT = (
    "(SELECT n.key FROM segment g JOIN node n ON n.id = g.node WHERE g.session = e.session "
    "AND (g.start_ms, g.first_event) <= (e.timestamp_ms, e.id) ORDER BY g.start_ms DESC, g.first_event DESC LIMIT 1)"
)
_EVENTS = (
    f"SELECT {EVENT_COLUMNS}, s.client, s.session_id, p.slug, e.id, {_SEGMENT} "
    "FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project WHERE e.id IN ({marks})"
)
_GRIPS_OF = "SELECT event, key, timestamp_ms FROM grip WHERE event IN ({marks}) AND live = 1 ORDER BY id"
_NODES = f"SELECT {NODE_COLUMNS}, n.id FROM {NODE_TABLES} WHERE n.id IN ({{marks}})"
#: How a project or time filter is put to the index itself, when too little of the best is left by filtering.
_FILTERED = {
    EVENT: (
        "SELECT e.id * 4 FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project "
        "WHERE {where}",
        "e.timestamp_ms",
    ),
    NODE: ("SELECT e.id * 4 + 2 FROM node e JOIN project p ON p.id = e.project WHERE {where}", "e.start_ms"),
}
DEPTH = 5
_PERIODS = frozenset(level.label for level in Level if level is not Level.SEGMENT)


async def search(
    database: Reads,
    terms: Sequence[Term],
    within: Within,
    kinds: frozenset[str] | None,
    limit: int,
) -> list[IndexEntry]:
    """The best candidates of the project and time. Filtering comes after ranking, and before it only if need be."""
    match = match_expression(terms)
    if not match:
        return []
    depth = limit * DEPTH if kinds or not within.everywhere else limit
    ranked = await database.fetch(_RANKED, (match, depth))
    found = await load(database, ranked, limit, within, kinds)
    if len(found) < limit and len(ranked) == depth:
        ranked = await _filtered(database, match, within, limit)
        found = await load(database, ranked, limit, within, kinds)
    return found


async def _filtered(database: Reads, match: str, within: Within, limit: int) -> list[Row]:
    rows: list[Row] = []
    for sql, when in _FILTERED.values():
        conditions, values = ["1"], []
        filters = (("p.slug = ?", within.project), (f"{when} >= ?", within.start_ms), (f"{when} < ?", within.end_ms))
        for clause, value in filters:
            if value is not None:
                conditions.append(clause)
                values.append(value)
        inner = sql.format(where=" AND ".join(conditions))
        found = await database.fetch(
            f"SELECT rowid, rank FROM search WHERE search MATCH ? AND +rowid IN ({inner}) ORDER BY rank LIMIT ?",
            (match, *values, limit),
        )
        rows += found
    return sorted(rows, key=lambda row: row[1])[:limit]


async def load(
    database: Reads,
    ranked: Sequence[Row],
    limit: int,
    within: Within,
    kinds: frozenset[str] | None,
) -> list[IndexEntry]:
    """Read the documents in portions, best first, until there are enough that pass."""
    kept: list[IndexEntry] = []
    for start in range(0, len(ranked), limit):
        for candidate in await _read(database, ranked[start : start + limit]):
            if within.project and candidate.project != within.project:
                continue
            if kinds and candidate.kind not in kinds:
                continue
            if not _touches(candidate, within):
                continue
            kept.append(candidate)
        if len(kept) >= limit:
            break
    return kept[:limit]


def _touches(candidate: IndexEntry, within: Within) -> bool:
    """A passage or segment must touch the time, a period must lie within it: a week says little of one day."""
    found, start_ms, end_ms = candidate.document, within.start_ms, within.end_ms
    if isinstance(found, Event):
        first, last = found.timestamp_ms, found.timestamp_ms + 1
    else:
        first, last = found.start_ms, found.end_ms
    if candidate.kind in _PERIODS:
        return (start_ms is None or first >= start_ms) and (end_ms is None or last <= end_ms)
    return (end_ms is None or first < end_ms) and (start_ms is None or last > start_ms)


async def _read(database: Reads, ranked: Sequence[Row]) -> list[IndexEntry]:
    ids: dict[int, list[int]] = {EVENT: [], NODE: []}
    for rowid, _ in ranked:
        ids[rowid % 4].append(rowid // 4)
    found: dict[int, IndexEntry] = {}
    for row in await _fetch(database, _EVENTS, ids[EVENT]):
        number, entry = _event(row)
        found[number * 4 + EVENT] = entry
    rows = await _fetch(database, _NODES, ids[NODE])
    for (*_, number), node in zip(rows, await nodes_of(database, rows), strict=True):
        found[number * 4 + NODE] = IndexEntry(node)
    return [found[rowid] for rowid, _ in ranked if rowid in found]


async def events(database: Reads, numbers: Sequence[int]) -> dict[int, IndexEntry]:
    """Events by number, each with its segment and the first grip that cites it."""
    return await database.read(_events, numbers) if numbers else {}


def _events(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, IndexEntry]:
    cited: dict[int, str] = {}
    for number, key, timestamp_ms in connection.execute(_GRIPS_OF.format(marks=marks(numbers)), numbers):
        cited.setdefault(number, grip_id(timestamp_ms, key))
    found = dict(map(_event, connection.execute(_EVENTS.format(marks=marks(numbers)), numbers)))
    return {number: replace(entry, grip_id=cited.get(number, "")) for number, entry in found.items()}


def _event(row: Row) -> tuple[int, IndexEntry]:
    """The number and the entry of a row of `_EVENTS`."""
    *event, number, segment = row
    segment_id = NodeRef(Level.SEGMENT, segment).node_id() if segment else ""
    return number, IndexEntry(event_of(tuple(event)), segment_id=segment_id)


async def _fetch(database: Reads, sql: str, ids: Sequence[int]) -> list[Row]:
    return await database.fetch(sql.format(marks=marks(ids)), ids) if ids else []


class Fts5Index:
    """Implements the SearchIndex and IndexKeeper ports. It is always in step.

    What is left of another index that was chosen before is no longer kept, and so must not stay: it would still tell
    what is forgotten from now on.
    """

    def __init__(self, database: Reads, leftovers: Path | None = None) -> None:
        self._database = database
        self._counted = Counted() if isinstance(database, Snapshot) else None
        self._leftovers = leftovers

    async def search(
        self, terms: Sequence[Term], within: Within, *, kinds: frozenset[str] | None, limit: int
    ) -> list[IndexEntry]:
        return await search(self._database, terms, within, kinds, limit)

    async def pool(self, terms: Sequence[Term], within: Within, *, cited: bool, limit: int, speaker: str = "") -> Pool:
        return await candidates.pool(self._database, terms, within, cited, limit, speaker, self._counted)

    async def behind(self) -> bool:
        return self._leftovers is not None and self._leftovers.exists()

    async def catch_up(self) -> int:
        if self._leftovers is not None and self._leftovers.exists():
            with told(self._leftovers / "index"):
                await to_thread.run_sync(shutil.rmtree, self._leftovers)
        return 0

    async def state(self) -> IndexState:
        return IndexState("fts5", "current")
