"""The tree's write side: segment nodes, and the periods above them that must be rolled up."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mcp_memory.domain.nodes import Bullet, Node
from mcp_memory.domain.toc import GRACE, Level, NodeRef
from mcp_memory.ports.segments import SegmentWrite
from mcp_memory.ports.tree import Stale
from mcp_memory.store.sqlite.database import Database, Reads, Row, Transaction
from mcp_memory.store.sqlite.lease import check_lease
from mcp_memory.store.sqlite.nodes import Placed, write_grips, write_nodes

#: What `node_of` reads, from node n, node_version v, project p and (left joined) session s.
NODE_COLUMNS = (
    "n.level, n.key, p.slug, v.version, v.title, v.start_ms, v.end_ms, v.keywords, v.children, v.open, v.removed, "
    "v.written_by, v.input_hash, v.tokens, v.created_ms, s.session_id, v.id, v.weight"
)
NODE_TABLES = (
    "node n JOIN node_version v ON v.id = n.current JOIN project p ON p.id = n.project "
    "LEFT JOIN session s ON s.id = n.session"
)
_CHILDREN = (
    f"SELECT {NODE_COLUMNS} FROM {NODE_TABLES} "
    "WHERE n.project = ? AND n.level = ? AND n.parent = ? AND n.removed = 0 ORDER BY n.start_ms, n.key"
)
_STALE = """
    SELECT d.project, p.slug, d.key, v.input_hash FROM dirty_node d JOIN project p ON p.id = d.project
    LEFT JOIN node n ON n.project = d.project AND n.level = d.level AND n.key = d.key AND n.removed = 0
    LEFT JOIN node_version v ON v.id = n.current
    WHERE d.level = ? ORDER BY d.key, d.project LIMIT ?
"""
_BENEATH = (
    "WITH place (project, key) AS (VALUES {places}) "
    f"SELECT {NODE_COLUMNS}, n.project, n.parent FROM place CROSS JOIN {NODE_TABLES} "
    "WHERE n.project = place.project AND n.level = ? AND n.parent = place.key AND n.removed = 0 "
    "ORDER BY n.start_ms, n.key"
)
_VERSIONS = "SELECT current FROM node WHERE project = ? AND level = ? AND parent = ? AND removed = 0"
_DONE = """
    WITH done (key, node) AS (VALUES {done})
    UPDATE segment SET done_hash = input_hash, node = (SELECT done.node FROM done WHERE done.key = segment.key)
    WHERE key IN (SELECT done.key FROM done)
"""
_CLOSED = (
    "INSERT OR IGNORE INTO dirty_node (project, level, key) "
    "SELECT project, level, key FROM node WHERE open = 1 AND level = ? AND end_ms <= ?"
)


class SqliteTree:
    """Implements the TreeStore port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_segments(self, writes: Sequence[SegmentWrite], lease_token: int) -> None:
        await self._database.write(_save_segments, writes, lease_token)

    async def mark_closed_periods(self, now_ms: int) -> None:
        due = "SELECT 1 FROM node WHERE open = 1 AND level = ? AND end_ms <= ? LIMIT 1"
        for level, grace in GRACE.items():
            place = (int(level), now_ms - round(grace.total_seconds() * 1000))
            if await self._database.fetch(due, place):
                await self._database.write(Transaction.run, _CLOSED, place)

    async def stale(self, level: Level, limit: int) -> list[Stale]:
        return await self._database.at_once(lambda snapshot: _stale(snapshot, level, limit))

    async def children(self, project: int, ref: NodeRef) -> list[Node]:
        place = (project, int(ref.level) + 1, ref.key)
        return await nodes_of(self._database, await self._database.fetch(_CHILDREN, place))

    async def save_rollups(self, rollups: Sequence[tuple[Stale, Node | None]], lease_token: int) -> None:
        await self._database.write(_save_rollups, rollups, lease_token)


async def _stale(database: Reads, level: Level, limit: int) -> list[Stale]:
    rows = await database.fetch(_STALE, (int(level), limit))
    if not rows:
        return []
    places = [value for project, _, key, _ in rows for value in (project, key)]
    found = await database.fetch(_BENEATH.format(places=", ".join(["(?, ?)"] * len(rows))), (*places, int(level) + 1))
    beneath: dict[tuple[int, str], list[tuple[int, Node]]] = {}
    for row, node in zip(found, await nodes_of(database, found), strict=True):
        beneath.setdefault((row[18], row[19]), []).append((row[16], node))
    return [
        Stale(
            project,
            slug,
            NodeRef(level, key),
            children=tuple(node for _, node in beneath.get((project, key), [])),
            versions=tuple(version for version, _ in beneath.get((project, key), [])),
            current_hash=current,
        )
        for project, slug, key, current in rows
    ]


def _save_segments(tx: Transaction, writes: Sequence[SegmentWrite], lease_token: int) -> None:
    check_lease(tx, lease_token)
    keys = [write.job.segment.key for write in writes]
    current: dict[bytes, str] = dict(
        tx.fetch(f"SELECT key, input_hash FROM segment WHERE key IN ({', '.join('?' * len(keys))})", keys)
    )
    # A segment may have been cut anew while its summary was made: then this one is out of date.
    writes = [write for write in writes if current.get(write.job.segment.key) == write.job.segment.input_hash]
    if not writes:
        return
    numbers = write_nodes(tx, [Placed(write.job.project, write.job.session, write.node) for write in writes])
    write_grips(tx, {number: write.grips for number, write in zip(numbers, writes, strict=True)})
    done = [value for number, write in zip(numbers, writes, strict=True) for value in (write.job.segment.key, number)]
    tx.run(_DONE.format(done=", ".join(["(?, ?)"] * len(writes))), done)


def _save_rollups(tx: Transaction, rollups: Sequence[tuple[Stale, Node | None]], lease_token: int) -> None:
    check_lease(tx, lease_token)
    nodes, done = [], []
    for stale, node in rollups:
        ref = stale.ref
        # A child may have been forgotten or written anew meanwhile: then the period stays marked, for the next round.
        found = tx.fetch(_VERSIONS, (stale.project, int(ref.level) + 1, ref.key))
        if {version for (version,) in found} != set(stale.versions):
            continue
        nodes += [Placed(stale.project, None, node)] if node else []
        done.append((stale.project, int(ref.level), ref.key))
    write_nodes(tx, nodes)
    tx.run_many("DELETE FROM dirty_node WHERE project = ? AND level = ? AND key = ?", done)


async def nodes_of(database: Reads, rows: Sequence[Row]) -> list[Node]:
    """Nodes with their bullets, from rows of NODE_COLUMNS."""
    if not rows:
        return []
    versions = [row[16] for row in rows]
    bullets: dict[int, list[Bullet]] = {}
    for start in range(0, len(versions), 500):
        part = versions[start : start + 500]
        found = await database.fetch(
            "SELECT node_version, text, grips, children FROM bullet "
            f"WHERE node_version IN ({','.join('?' * len(part))}) ORDER BY node_version, position",
            part,
        )
        for version, text, grips, children in found:
            bullet = Bullet(text, tuple(json.loads(grips)), tuple(json.loads(children)))
            bullets.setdefault(version, []).append(bullet)
    return [_node_of(row, bullets.get(row[16], [])) for row in rows]


def titles_of(rows: Sequence[Row]) -> list[Node]:
    """Nodes without their bullets, from the same rows."""
    return [_node_of(row, []) for row in rows]


def _node_of(row: Row, bullets: list[Bullet]) -> Node:
    return Node(
        ref=NodeRef(Level(row[0]), row[1]),
        project=row[2],
        version=row[3],
        title=row[4],
        start_ms=row[5],
        end_ms=row[6],
        bullets=tuple(bullets),
        keywords=tuple(json.loads(row[7])),
        child_ids=tuple(json.loads(row[8])),
        open=bool(row[9]),
        removed=bool(row[10]),
        written_by=row[11],
        input_hash=row[12],
        tokens=row[13],
        created_ms=row[14],
        session_id=row[15],
        weight=row[17],
    )
