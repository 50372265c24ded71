"""Briefs: which projects need a new one, and what it is made of."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import BriefSource
from mcp_memory.domain.toc import Level
from mcp_memory.store.sqlite.database import Database, Reads, Row, Transaction
from mcp_memory.store.sqlite.log import EVENT_COLUMNS, event_of
from mcp_memory.store.sqlite.nodes import NODE_COLUMNS, NODE_TABLES, nodes_of
from mcp_memory.store.sqlite.work import check_lease

DAYS = 5
NOTES = 10
_NOTES = (
    f"SELECT {EVENT_COLUMNS}, s.client, s.session_id, ? FROM event e JOIN session s ON s.id = e.session "
    "WHERE e.type = 'note' AND s.project = ? ORDER BY e.timestamp_ms DESC LIMIT 200"
)
_OUTDATED = "SELECT p.id, p.slug, p.root FROM dirty_brief d JOIN project p ON p.id = d.project LIMIT ?"
_MERGED = "SELECT root FROM project_alias WHERE project = ?"
_PLACE = "SELECT slug, root FROM project WHERE id = ?"
_DAYS = (
    f"SELECT {NODE_COLUMNS} FROM {NODE_TABLES} WHERE n.project = ? AND n.level = ? AND n.removed = 0 "
    "ORDER BY n.start_ms DESC LIMIT ?"
)


class BriefPart:
    """Implements the BriefStore port."""

    _database: Database

    async def outdated_briefs(self, limit: int) -> list[BriefSource]:
        async def read(snapshot: Reads) -> list[BriefSource]:
            return [await _source(snapshot, *row) for row in await snapshot.fetch(_OUTDATED, (limit,))]

        return await self._database.at_once(read)

    async def settle_brief(self, source: BriefSource, lease_token: int) -> None:
        def write(tx: Transaction) -> None:
            check_lease(tx, lease_token)
            now = tx.fetch(_PLACE, (source.project,))
            if not now or _roots(tx.fetch(_MERGED, (source.project,)), *now[0]) == source.roots:
                tx.run("DELETE FROM dirty_brief WHERE project = ?", (source.project,))

        await self._database.write(write)


def _roots(merged: Sequence[Row], slug: str, root: str) -> tuple[str, ...]:
    """A project is met by its root, by the roots of those merged into it, and by its name."""
    return tuple(sorted({root, f"label:{slug}", *(other for (other,) in merged)}))


async def _source(database: Reads, project: int, slug: str, root: str) -> BriefSource:
    days = await database.fetch(_DAYS, (project, int(Level.DAY), DAYS))
    notes = await _pinned(database, project, slug)
    roots = _roots(await database.fetch(_MERGED, (project,)), slug, root)
    return BriefSource(project, slug, roots, tuple(await nodes_of(database, days)), tuple(notes))


async def _pinned(database: Reads, project: int, slug: str) -> list[Event]:
    events = [event_of(row) for row in await database.fetch(_NOTES, (slug, project))]
    return [event for event in events if event.metadata.get("pin")][:NOTES]
