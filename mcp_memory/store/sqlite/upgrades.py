"""Nodes that wait for a model: closed, extractive, with nothing beneath them that waits for anything itself."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_memory.domain.nodes import THRESHOLDS, Depth, Grip, Node
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.models.port import Upgrade
from mcp_memory.ports.segments import SegmentJob
from mcp_memory.store.sqlite.database import Database, Transaction
from mcp_memory.store.sqlite.nodes import Placed, write_grips, write_nodes
from mcp_memory.store.sqlite.segments import SqliteSegments
from mcp_memory.store.sqlite.tree import NODE_COLUMNS, NODE_TABLES, SqliteTree, nodes_of

EXTRACTIVE = "extractive"


#: Nodes that a model should write: closed, long enough, and not left alone after a failure.
_CANDIDATES = f"""
    SELECT n.id, n.current, n.project, n.level, n.key, n.start_ms, n.end_ms, v.input_hash, v.input_tokens
    FROM node n JOIN node_version v ON v.id = n.current
    WHERE n.removed = 0 AND n.open = 0 AND v.written_by = '{EXTRACTIVE}'
      AND v.input_tokens >= {THRESHOLDS[Depth.NONE]}
      AND NOT EXISTS (
          SELECT 1 FROM llm_attempt a WHERE a.node = n.id AND a.version = n.current AND a.retry_ms > :now
      )
"""
#: How many of the newest are looked at. What lies beneath a period starts no earlier than it, so it is among them too.
_POOL = 400
#: Of those, the ones beneath which nothing waits for a model, is open, or has yet to be rolled up.
_WAITING = f"""
    WITH candidate AS MATERIALIZED ({_CANDIDATES} ORDER BY n.start_ms DESC, n.level DESC LIMIT {_POOL}),
    unsettled AS MATERIALIZED (
        SELECT project, level, start_ms FROM candidate
        UNION ALL
        SELECT project, level, start_ms FROM node WHERE open = 1 AND removed = 0
        UNION ALL
        SELECT c.project, c.level, c.start_ms
        FROM dirty_node d JOIN node c ON c.project = d.project AND c.level = d.level AND c.key = d.key
    )
    SELECT n.id, n.current, n.project, p.slug, n.level, n.key, n.input_hash, n.input_tokens
    FROM candidate n JOIN project p ON p.id = n.project
    WHERE NOT EXISTS (SELECT 1 FROM dirty_node d WHERE d.project = n.project AND d.level = n.level AND d.key = n.key)
      AND NOT EXISTS (SELECT 1 FROM segment g WHERE g.node = n.id AND (g.input_hash <> g.done_hash OR g.closed = 0))
      AND NOT EXISTS (
          SELECT 1 FROM unsettled c
          WHERE n.level < {int(Level.SEGMENT)} AND c.project = n.project AND c.level > n.level
            AND c.start_ms >= n.start_ms AND c.start_ms < n.end_ms
      )
    ORDER BY n.start_ms DESC, n.level DESC LIMIT :limit
"""
_BACKLOG = f"SELECT level, input_tokens FROM ({_CANDIDATES})"
_PRIOR = (
    f"SELECT {NODE_COLUMNS} FROM {NODE_TABLES.replace('v.id = n.current', 'v.node = n.id')} "
    "WHERE n.id = ? AND v.removed = 0 AND v.written_by <> ? ORDER BY v.version DESC LIMIT 1"
)
#: A parent that no model will write, because it is open or short, follows its children at no cost.
_TELL = f"""
    INSERT OR IGNORE INTO dirty_node (project, level, key)
    SELECT n.project, n.level, n.key FROM node n JOIN node_version v ON v.id = n.current
    WHERE n.project = ? AND n.level = ? AND n.key = ? AND n.removed = 0
      AND (n.open = 1 OR v.input_tokens < {THRESHOLDS[Depth.NONE]})
"""
_FAILED = """
    INSERT INTO llm_attempt (node, version, failures, retry_ms) VALUES (?, ?, 1, ?)
    ON CONFLICT (node) DO UPDATE SET
        failures = CASE WHEN version = excluded.version THEN failures + 1 ELSE 1 END,
        version = excluded.version, retry_ms = excluded.retry_ms
"""


class SqliteUpgrades:
    """Implements the UpgradeStore port."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._segments = SqliteSegments(database)
        self._tree = SqliteTree(database)

    async def waiting(self, limit: int, now_ms: int) -> list[Upgrade]:
        rows = await self._database.fetch(_WAITING, {"now": now_ms, "limit": limit})
        return [
            Upgrade(number, version, project, slug, NodeRef(Level(level), key), input_hash, tokens)
            for number, version, project, slug, level, key, input_hash, tokens in rows
        ]

    async def backlog(self, now_ms: int) -> list[tuple[Level, int]]:
        return [(Level(level), tokens) for level, tokens in await self._database.fetch(_BACKLOG, {"now": now_ms})]

    async def unsummarized(self) -> list[tuple[int, int, int]]:
        """Project, start and tokens of the finished segments that are not in the tree as they are now."""
        rows = await self._database.fetch(
            "SELECT s.project, g.start_ms, g.tokens FROM segment g JOIN session s ON s.id = g.session "
            "WHERE g.closed = 1 AND g.input_hash <> g.done_hash"
        )
        return [(project, start_ms, tokens) for project, start_ms, tokens in rows]

    async def project_of_sessions(self) -> dict[int, int]:
        return dict(await self._database.fetch("SELECT id, project FROM session"))

    async def job(self, upgrade: Upgrade) -> SegmentJob | None:
        return await self._segments.job_of(upgrade.number)

    async def children(self, upgrade: Upgrade) -> list[Node]:
        return await self._tree.children(upgrade.project, upgrade.ref)

    async def prior(self, upgrade: Upgrade) -> Node | None:
        rows = await self._database.fetch(_PRIOR, (upgrade.number, EXTRACTIVE))
        found = await nodes_of(self._database, rows)
        return found[0] if found else None

    async def failures(self, upgrade: Upgrade) -> int:
        found = await self._database.value(
            "SELECT failures FROM llm_attempt WHERE node = ? AND version = ?", (upgrade.number, upgrade.version)
        )
        return int(found or 0)

    async def save(self, upgrade: Upgrade, node: Node, session: int | None, grips: Sequence[Grip]) -> bool:
        return await self._database.write(_save, upgrade, node, session, grips)

    async def failed(self, upgrade: Upgrade, retry_ms: int) -> None:
        await self._database.write(Transaction.run, _FAILED, (upgrade.number, upgrade.version, retry_ms))


def _save(tx: Transaction, upgrade: Upgrade, node: Node, session: int | None, grips: Sequence[Grip]) -> bool:
    if not _unchanged(tx, upgrade):
        return False
    write_nodes(tx, [Placed(upgrade.project, session, node)], tell_parents=False)
    if upgrade.ref.level is Level.SEGMENT:
        write_grips(tx, {upgrade.number: grips})
    tx.run("DELETE FROM llm_attempt WHERE node = ?", (upgrade.number,))
    parent = upgrade.ref.parent
    if parent:
        tx.run(_TELL, (upgrade.project, int(parent.level), parent.key))
    return True


def _unchanged(tx: Transaction, upgrade: Upgrade) -> bool:
    """Whether the node still is what the model was shown."""
    rows = tx.fetch("SELECT current FROM node WHERE id = ? AND removed = 0", (upgrade.number,))
    if not rows or rows[0][0] != upgrade.version:
        return False
    return not tx.fetch(
        "SELECT 1 FROM dirty_node WHERE project = ? AND level = ? AND key = ? "
        "UNION ALL SELECT 1 FROM segment WHERE node = ? AND input_hash <> done_hash",
        (upgrade.project, int(upgrade.ref.level), upgrade.ref.key, upgrade.number),
    )
