"""The whole store: its parts in one object, what concerns all of it, and how it is opened."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing, suppress
from datetime import tzinfo
from pathlib import Path
from typing import Any, TypeVar

from anyio import to_thread

from mcp_memory.capture.project import places
from mcp_memory.capture.redaction import redact
from mcp_memory.domain.events import TIMES, EventQuery
from mcp_memory.domain.nodes import BriefSource, NodeQuery
from mcp_memory.domain.projects import NAMELESS, Claim, Coverage, Forgotten, Wish, slugify
from mcp_memory.domain.toc import Level
from mcp_memory.errors import NotFound, StoreFull, UsageError
from mcp_memory.models.port import Prices
from mcp_memory.store.port import Clock, FiledIndex, ReadStore
from mcp_memory.store.sqlite.backup import Backups, copies_of
from mcp_memory.store.sqlite.database import Database, Snapshot, Transaction, note_erasure
from mcp_memory.store.sqlite.forget import find, forget
from mcp_memory.store.sqlite.fts5 import Counted, Fts5Index
from mcp_memory.store.sqlite.log import CUT_ANEW, LogPart, claim_of, index_events
from mcp_memory.store.sqlite.migrations import backup, uri
from mcp_memory.store.sqlite.nodes import NodePart, index_nodes, remove_node, remove_segment_node
from mcp_memory.store.sqlite.reads import SqliteReader
from mcp_memory.store.sqlite.records import RecordPart
from mcp_memory.store.sqlite.segments import SegmentPart
from mcp_memory.store.sqlite.work import SqliteLedger, WorkPart, check_lease

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: How many of its latest days and pinned notes a project's brief is made of.
DAYS, NOTES = 5, 10
_OUTDATED = "SELECT p.id, p.slug FROM dirty_brief d JOIN project p ON p.id = d.project LIMIT ?"
#: A project is met by its root, by the roots of those merged into it, and by its name.
_ROOTS = """
    SELECT root FROM project WHERE id = ?1 UNION SELECT 'label:' || slug FROM project WHERE id = ?1
    UNION SELECT root FROM project_alias WHERE project = ?1 ORDER BY 1
"""
_ZONE = "SELECT value FROM meta WHERE key = 'timezone'"
_QUEUES = ("dirty_session", "dirty_node", "dirty_brief")
_DERIVED = (*"bullet grip node_version mention node segment llm_attempt".split(), *_QUEUES)
_BOUNDS = (TIMES.start, TIMES.stop)
_ANY_IMPOSSIBLE = """
    SELECT EXISTS (SELECT 1 FROM event WHERE timestamp_ms < ?) OR EXISTS (SELECT 1 FROM event WHERE timestamp_ms >= ?)
"""
_IMPOSSIBLE = "SELECT id, session, timestamp_ms FROM event WHERE timestamp_ms < ?1 OR timestamp_ms >= ?2 ORDER BY id"
_NEIGHBOUR = """
    SELECT timestamp_ms FROM event WHERE session = ?3 AND timestamp_ms >= ?1 AND timestamp_ms < ?2
    ORDER BY abs(id - ?4) LIMIT 1
"""
_NOTE = "SELECT e.id, s.project FROM event e JOIN session s ON s.id = e.session WHERE e.key = ? AND e.type = 'note'"
_PIN = "UPDATE event SET metadata = json_set(metadata, '$.pin', json('true')) WHERE id = ?"
_UNPIN = "UPDATE event SET metadata = json_remove(metadata, '$.pin') WHERE id = ?"


class SqliteStore(SqliteReader, LogPart, SegmentPart, NodePart, RecordPart, WorkPart):
    """Implements the Store port on one SQLite file."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, Fts5Index(database))
        self._database = self.database = database
        self._filed: FiledIndex | None = None

    def use(self, index: FiledIndex) -> None:
        """Let an index answer that has files of its own."""

        async def search(*args: Any, **named: Any) -> Any:
            return await self.at_once(lambda reader: reader.search(*args, **named))

        async def pool(*args: Any, **named: Any) -> Any:
            return await self.at_once(lambda reader: reader.pool(*args, **named))

        self._filed, self.search, self.pool = index, search, pool

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, now_ms: int) -> AsyncIterator[SqliteStore]:
        """Open the file, creating or migrating it where needed, and mend what can be mended in passing."""
        async with Database.open(path) as database:
            if await database.value(_ANY_IMPOSSIBLE, _BOUNDS):
                with suppress(StoreFull):  # what cannot be written can at least be read as far as it goes
                    count = await database.write(_mend_times, now_ms)
                    told = "%d events bore times that cannot be; they have those of their neighbours now."
                    logger.warning(told, count)
            await database.scrub()
            yield cls(database)

    async def at_once(self, work: Callable[[ReadStore], Coroutine[Any, Any, T]]) -> T:
        def at(snapshot: Snapshot) -> Coroutine[Any, Any, T]:
            fts5 = Fts5Index(snapshot, counted=Counted())
            reader = SqliteReader(snapshot, fts5)
            if self._filed:
                filed = self._filed.over(reader, fts5)
                reader.search, reader.pool = filed.search, filed.pool
            return work(reader)

        return await self._database.at_once(at)

    async def outdated_briefs(self, limit: int) -> list[BriefSource]:
        async def read(snapshot: Snapshot) -> list[BriefSource]:
            reader, found = SqliteReader(snapshot, Fts5Index(snapshot)), []
            for project, slug in await snapshot.fetch(_OUTDATED, (limit,)):
                days = await reader.nodes(NodeQuery.latest(slug, Level.DAY, DAYS))
                pinned = await reader.events(EventQuery(slug, pinned=True, last=NOTES))
                roots = tuple(root for (root,) in await snapshot.fetch(_ROOTS, (project,)))
                found.append(BriefSource(project, slug, roots, tuple(days), tuple(reversed(pinned))))
            return found

        return await self._database.at_once(read)

    async def settle_brief(self, source: BriefSource, lease_token: int) -> None:
        def write(tx: Transaction) -> None:
            check_lease(tx, lease_token)
            if [root for (root,) in tx.fetch(_ROOTS, (source.project,))] in ([], [*source.roots]):
                tx.run("DELETE FROM dirty_brief WHERE project = ?", (source.project,))

        await self._database.write(write)

    async def timezone(self, preferred: str) -> str:
        if not await self._database.value(_ZONE):
            sql = "INSERT OR IGNORE INTO meta (key, value) VALUES ('timezone', ?)"
            await self._database.write(Transaction.run, sql, (preferred,))
        return str(await self._database.value(_ZONE))

    async def rebuild(self, timezone: str) -> None:
        await self._database.write(start_anew, timezone)

    async def mend(self, timezone: str) -> bool:
        from mcp_memory.store.sqlite.repair import mend_derived

        return await self._database.write(mend_derived, timezone)

    async def forget(self, wish: Wish, *, dry_run: bool) -> tuple[Forgotten, Coverage]:
        if dry_run:
            return await self._database.read(lambda connection: find(Transaction(connection), wish).told)
        return await self._database.write(forget, wish)

    async def pin(self, key: bytes, pinned: bool) -> bool:
        return await self._database.write(_pin, key, pinned)

    async def trust(self, root: str, label: str) -> Claim:
        return await self._database.write(_trust, root, label)

    async def rename(self, old: str, new: str) -> str:
        slug = slugify(new)
        if slug == NAMELESS and NAMELESS not in new.lower():
            raise UsageError(f"{new[:60]!r} holds no letter or digit by which a project could be named.")
        return await self._database.write(_rename, old, slug)

    async def merge(self, source: str, target: str) -> int:
        return await self._database.write(_merge, source, target)

    async def scrub(self, wait_ms: int = 0) -> str:
        return await self._database.scrub(wait_ms)

    async def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        def copy() -> None:
            with closing(sqlite3.connect(uri(self._database.path), uri=True)) as source:
                backup(source, target, progress=progress)

        try:
            await to_thread.run_sync(copy)
        except (OSError, sqlite3.Error) as error:
            raise StoreFull(f"{target} cannot be written: {error}. Name another place.") from error

    async def refresh_backups(self, keep: int, clock: Clock) -> None:
        await Backups(self._database, keep, self.lease("backup"), clock).refresh()

    def copies(self) -> list[Path]:
        return copies_of(self._database.path)

    def ledger(self, clock: Clock, zone: tzinfo, cap: int, prices: Prices) -> SqliteLedger:
        return SqliteLedger(self._database, clock, zone, cap, prices)

    def is_replaced(self) -> bool:
        return self._database.is_replaced()


def start_anew(tx: Transaction, timezone: str) -> None:
    """Leave of a memory what nothing else can tell, indexed and marked as to be made into a tree."""
    for table in _DERIVED:
        tx.run(f"DELETE FROM {table}")
    note_erasure(tx)
    tx.run("INSERT INTO search (search) VALUES ('delete-all')")
    index_all(tx)
    tx.run("INSERT INTO dirty_session (session, from_ms) SELECT session, min(timestamp_ms) FROM event GROUP BY session")
    # Records are kept, since they are only ever added; what the hook prints of them is written anew.
    tx.run("INSERT OR IGNORE INTO dirty_compaction (session) SELECT DISTINCT session FROM compaction")
    tx.run("INSERT OR REPLACE INTO meta (key, value) VALUES ('timezone', ?)", (timezone,))


def index_all(tx: Transaction) -> None:
    """Fill an empty index with every event and node."""
    index_nodes(tx)
    last = 0
    while rows := tx.fetch("SELECT id, role, type, text FROM event WHERE id > ? ORDER BY id LIMIT 2000", (last,)):
        index_events(tx, [(number, role, kind, text) for number, role, kind, text in rows])
        last = rows[-1][0]


def _mend_times(tx: Transaction, now_ms: int) -> int:
    """Give events whose times no calendar can hold, as an earlier version could store them, that of a neighbour.

    Nothing that shows, sorts or summarizes events could go past one of them.
    """
    # A segment is known by its first event, and would not give up its place in the tree when that moves.
    for (key,) in tx.fetch("SELECT key FROM segment WHERE start_ms < ? OR start_ms >= ?", _BOUNDS):
        remove_segment_node(tx, key)
        tx.run("DELETE FROM segment WHERE key = ?", (key,))
    found = tx.fetch(_IMPOSSIBLE, _BOUNDS)
    for number, session, before in found:
        near = tx.fetch(_NEIGHBOUR, (*_BOUNDS, session, number))
        moment = near[0][0] if near else now_ms
        tx.run("UPDATE event SET timestamp_ms = ? WHERE id = ?", (moment, number))
        # From where it stood or stands, whichever is first; that must be a time too.
        tx.run(CUT_ANEW, (session, max(min(before, moment), TIMES.start)))
    tx.run("UPDATE dirty_session SET from_ms = ?1 WHERE from_ms < ?1", _BOUNDS[:1])
    return len(found)


def _pin(tx: Transaction, key: bytes, pinned: bool) -> bool:
    rows = tx.fetch(_NOTE, (key,))
    for number, project in rows:
        tx.run(_PIN if pinned else _UNPIN, (number,))
        tx.run("INSERT OR IGNORE INTO dirty_brief (project) VALUES (?)", (project,))
    return bool(rows)


def _trust(tx: Transaction, root: str, label: str) -> Claim:
    root, label = redact(root), redact(label)
    claim = claim_of(tx, root, label)
    if claim.owner:
        project = _number(tx, claim.owner)
        tx.run("INSERT OR REPLACE INTO project_alias (root, project) VALUES (?, ?)", (places(root, label)[0], project))
        tx.run("INSERT OR IGNORE INTO dirty_brief (project) VALUES (?)", (project,))
    return claim


def _rename(tx: Transaction, old: str, slug: str) -> str:
    project = _number(tx, old)
    if slug != old and tx.fetch("SELECT 1 FROM project WHERE slug = ?", (slug,)):
        raise UsageError(f"There is a project {slug!r} already; `mcp-memory projects merge {old} {slug}` joins them.")
    tx.run("UPDATE project SET slug = ? WHERE id = ?", (slug, project))
    tx.run("INSERT OR IGNORE INTO dirty_brief (project) VALUES (?)", (project,))
    return slug


def _merge(tx: Transaction, source: str, target: str) -> int:
    old, new = _number(tx, source), _number(tx, target)
    if old == new:
        raise UsageError(f"{source!r} cannot be merged into itself.")
    for (node,) in tx.fetch("SELECT id FROM node WHERE project = ?", (old,)):
        remove_node(tx, node)
    sessions = tx.fetch("SELECT id FROM session WHERE project = ?", (old,))
    for (session,) in sessions:
        tx.run("DELETE FROM segment WHERE session = ?", (session,))
        tx.run(
            "INSERT OR REPLACE INTO dirty_session (session, from_ms) "
            "SELECT session, min(timestamp_ms) FROM event WHERE session = ? GROUP BY session",
            (session,),
        )
    tx.run("UPDATE session SET project = ? WHERE project = ?", (new, old))
    tx.run("UPDATE project_alias SET project = ? WHERE project = ?", (new, old))
    tx.run("INSERT INTO project_alias (root, project) SELECT root, ? FROM project WHERE id = ?", (new, old))
    for table in ("dirty_node", "dirty_brief"):
        tx.run(f"DELETE FROM {table} WHERE project = ?", (old,))
    tx.run("DELETE FROM project WHERE id = ?", (old,))
    tx.run("INSERT OR IGNORE INTO dirty_brief (project) VALUES (?)", (new,))
    return len(sessions)


def _number(tx: Transaction, slug: str) -> int:
    rows = tx.fetch("SELECT id FROM project WHERE slug = ?", (slug,))
    if not rows:
        raise NotFound(f"There is no project {slug!r} in memory; `mcp-memory projects` lists them.")
    return int(rows[0][0])
