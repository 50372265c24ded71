"""Briefs: which projects need a new one, and where the hook finds it."""

from __future__ import annotations

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import BriefSource
from mcp_memory.domain.records import Account
from mcp_memory.domain.toc import Level
from mcp_memory.store.sqlite.database import Database, Reads, Transaction
from mcp_memory.store.sqlite.log import EVENT_COLUMNS, event_of
from mcp_memory.store.sqlite.nodes import NODE_COLUMNS, NODE_TABLES, nodes_of
from mcp_memory.store.sqlite.records import text_key
from mcp_memory.store.sqlite.work import check_lease

DAYS = 5
NOTES = 10
_NOTES = (
    f"SELECT {EVENT_COLUMNS}, s.client, s.session_id, ? FROM event e JOIN session s ON s.id = e.session "
    "WHERE e.type = 'note' AND s.project = ? ORDER BY e.timestamp_ms DESC LIMIT 200"
)
_OUTDATED = "SELECT p.id, p.slug, p.root FROM dirty_brief d JOIN project p ON p.id = d.project LIMIT ?"
_DAYS = (
    f"SELECT {NODE_COLUMNS} FROM {NODE_TABLES} WHERE n.project = ? AND n.level = ? AND n.removed = 0 "
    "ORDER BY n.start_ms DESC LIMIT ?"
)


_SAVE_TEXT = (
    "INSERT INTO brief (root, text, updated_ms) VALUES (?, ?, ?) ON CONFLICT (root) DO UPDATE "
    "SET text = excluded.text, updated_ms = excluded.updated_ms WHERE text <> excluded.text"
)


class BriefPart:
    """Implements the BriefStore port."""

    _database: Database

    async def outdated_briefs(self, limit: int) -> list[BriefSource]:
        async def read(snapshot: Reads) -> list[BriefSource]:
            return [await _source(snapshot, *row) for row in await snapshot.fetch(_OUTDATED, (limit,))]

        return await self._database.at_once(read)

    async def save_brief(self, source: BriefSource, text: str, now_ms: int, lease_token: int) -> None:
        def write(tx: Transaction) -> None:
            check_lease(tx, lease_token)
            # A project is met by its root, by the roots of those merged into it, and by its name.
            merged = tx.fetch("SELECT root FROM project_alias WHERE project = ?", (source.project,))
            roots = {source.root, f"label:{source.slug}", *(root for (root,) in merged)}
            tx.run_many(
                "INSERT OR REPLACE INTO brief (root, text, updated_ms) VALUES (?, ?, ?)",
                [(root, text, now_ms) for root in sorted(roots)],
            )
            tx.run("DELETE FROM dirty_brief WHERE project = ?", (source.project,))

        await self._database.write(write)

    async def keep_text(self, account: Account, text: str, now_ms: int) -> None:
        place = text_key(account.client, account.session_id)
        await self._database.write(Transaction.run, _SAVE_TEXT, (place, text, now_ms))


async def _source(database: Reads, project: int, slug: str, root: str) -> BriefSource:
    days = await database.fetch(_DAYS, (project, int(Level.DAY), DAYS))
    notes = await _pinned(database, project, slug)
    return BriefSource(project, slug, root, tuple(await nodes_of(database, days)), tuple(notes))


async def _pinned(database: Reads, project: int, slug: str) -> list[Event]:
    events = [event_of(row) for row in await database.fetch(_NOTES, (slug, project))]
    return [event for event in events if event.metadata.get("pin")][:NOTES]
