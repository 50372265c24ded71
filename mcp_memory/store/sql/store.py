"""What concerns all of a store: its parts in one object, projects, briefs, and what makes a memory anew."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import tzinfo
from typing import Any, TypeVar

from mcp_memory.domain.events import PIN_ASKED, EventQuery
from mcp_memory.domain.failures import Stage
from mcp_memory.domain.forget import ForgetCounts, ForgetRequest, ForgetScope
from mcp_memory.domain.nodes import BriefSource, NodeQuery
from mcp_memory.domain.projects import Claim
from mcp_memory.domain.toc import Level
from mcp_memory.domain.tombstones import TombstoneKey, TombstoneRows, Tombstones
from mcp_memory.models.port import Prices
from mcp_memory.store.port import Clock, ReadStore
from mcp_memory.store.sql import tombstones
from mcp_memory.store.sql.database import ERASURES, KEPT, SET_FACT, Snapshot, Transaction, note_erasure
from mcp_memory.store.sql.failures import FailurePart, settle_failures
from mcp_memory.store.sql.forget import apply_tombstones, find, forget, forget_events
from mcp_memory.store.sql.log import LogPart, index_events
from mcp_memory.store.sql.nodes import NodePart, index_nodes
from mcp_memory.store.sql.projects import merge_named, rename, split, trust
from mcp_memory.store.sql.reads import SqlReader
from mcp_memory.store.sql.records import RecordPart
from mcp_memory.store.sql.segments import SegmentPart
from mcp_memory.store.sql.sharing import SharingPart
from mcp_memory.store.sql.work import SqlLedger, WorkPart, check_lease

T = TypeVar("T")

#: How many of its latest days and pinned notes a project's brief is made of.
DAYS, NOTES = 5, 10
_OUTDATED = "SELECT p.id, p.slug FROM dirty_brief d JOIN project p ON p.id = d.project LIMIT ?"
#: A project is met by its root, by the other names of its places, and by its own. What begins with `in:` tells the hook
#: which remote a root is known with.
_ROOTS = """
    SELECT root FROM project WHERE id = ?1 UNION SELECT 'label:' || slug FROM project WHERE id = ?1
    UNION SELECT root FROM project_alias WHERE project = ?1
    UNION SELECT 'in:' || remote || ':' || root FROM place WHERE remote <> '' AND root IN (
        SELECT root FROM project WHERE id = ?1 UNION SELECT root FROM project_alias WHERE project = ?1) ORDER BY 1
"""
_BRIEF_DUE = "INSERT INTO dirty_brief (project) VALUES (?) ON CONFLICT DO NOTHING"
_ZONE = "SELECT value FROM meta WHERE key = 'timezone'"
_QUEUES = ("dirty_session", "dirty_node", "dirty_brief")
_DERIVED = (*"bullet grip node_version mention llm_attempt node segment failure".split(), *_QUEUES)
#: What a rebuild leaves: segments whose events are no longer kept, which nothing can be made of again.
_RETIRED = f"(SELECT node FROM segment WHERE start_ms < {KEPT} AND node IS NOT NULL)"
_UNRETIRED = {
    "bullet": f"WHERE node_version NOT IN (SELECT id FROM node_version WHERE node IN {_RETIRED})",
    **dict.fromkeys(("grip", "node_version", "mention", "llm_attempt"), f"WHERE node NOT IN {_RETIRED}"),
    "node": f"WHERE id NOT IN {_RETIRED}",
    "segment": f"WHERE start_ms >= {KEPT}",
}
_DAYS_OF_RETIRED = (
    "INSERT INTO dirty_node (project, level, key) SELECT DISTINCT project, CAST(? AS BIGINT), parent FROM node "
    "WHERE removed = 0 ON CONFLICT DO NOTHING"
)
_NOTE = (
    "SELECT e.id, s.project, e.metadata FROM event e JOIN session s ON s.id = e.session "
    "WHERE e.key = ? AND e.type = 'note'"
)
_PIN = "UPDATE event SET metadata = ? WHERE id = ?"


class SqlStore(SqlReader, LogPart, SegmentPart, NodePart, RecordPart, SharingPart, WorkPart, FailurePart):
    """What of the Store port is the same for every engine that speaks SQL."""

    def reader(self, snapshot: Snapshot) -> SqlReader:
        """Who answers from one state of the memory."""
        raise NotImplementedError

    async def at_once(self, work: Callable[[ReadStore], Coroutine[Any, Any, T]]) -> T:
        return await self._database.at_once(lambda snapshot: work(self.reader(snapshot)))

    async def outdated_briefs(self, limit: int) -> list[BriefSource]:
        async def read(snapshot: Snapshot) -> list[BriefSource]:
            reader, found = self.reader(snapshot), []
            for project, slug in await snapshot.fetch(_OUTDATED, (limit,)):
                days = await reader.nodes(NodeQuery.latest(slug, Level.DAY, DAYS))
                pinned = await reader.events(EventQuery(slug, pinned=True, last=NOTES))
                roots = tuple(root for (root,) in await snapshot.fetch(_ROOTS, (project,)))
                found.append(BriefSource(project, slug, roots, tuple(days), tuple(reversed(pinned))))
            return found

        return await self._database.at_once(read)

    async def renew_brief(self, project: str) -> None:
        sql = _BRIEF_DUE.replace("VALUES (?)", "SELECT id FROM project WHERE slug = ?")
        await self._database.write(Transaction.run, sql, (project,))

    async def settle_brief(self, source: BriefSource, lease_token: int) -> None:
        def write(tx: Transaction) -> None:
            check_lease(tx, lease_token)
            if [root for (root,) in tx.fetch(_ROOTS, (source.project,))] in ([], [*source.roots]):
                tx.run("DELETE FROM dirty_brief WHERE project = ?", (source.project,))
                settle_failures(tx, Stage.BRIEF, [str(source.project)])

        await self._database.write(write)

    async def timezone(self, preferred: str) -> str:
        if not await self._database.value(_ZONE):
            sql = "INSERT INTO meta (key, value) VALUES ('timezone', ?) ON CONFLICT DO NOTHING"
            await self._database.write(Transaction.run, sql, (preferred,))
        return str(await self._database.value(_ZONE))

    async def rebuild(self, timezone: str) -> None:
        await self._database.write_alone(start_anew, timezone)

    async def forget(
        self, request: ForgetRequest, *, dry_run: bool, now_ms: int | None = None
    ) -> tuple[ForgetCounts, ForgetScope]:
        if dry_run:
            return await self._database.read_as_transaction(lambda tx: find(tx, request).counts_and_scope)
        moment = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return await self._database.write_alone(forget, request, moment)

    async def erasure_marks(self) -> list[str]:
        return str(await self._database.value(ERASURES) or "").split()

    async def tombstones(self) -> Tombstones:
        return await self._database.read_as_transaction(tombstones.summary)

    async def tombstone_rows(self, known: Sequence[str] = ()) -> tuple[TombstoneRows, TombstoneKey | None, str]:
        def read(tx: Transaction) -> tuple[TombstoneRows, TombstoneKey | None, str]:
            marks = "".join(value for (value,) in tx.fetch(ERASURES)).split()
            return tombstones.all_rows(tx, known), tx.tombstone_key(), marks[-1] if marks else ""

        return await self._database.read_as_transaction(read)

    async def apply_tombstones(self, rows: TombstoneRows) -> ForgetCounts:
        def apply(tx: Transaction) -> ForgetCounts:
            counts, is_summarized = apply_tombstones(tx, rows)
            if is_summarized:
                start_anew(tx, *(zone for (zone,) in tx.fetch(_ZONE)))
            return counts

        return await self._database.write_alone(apply)

    async def lift(self, name: str) -> bool:
        return await self._database.write_alone(tombstones.lift, name)

    async def forget_events(
        self, keys: Sequence[bytes], author: str | None, *, returning: bool = False
    ) -> ForgetCounts:
        return await self._database.write_alone(forget_events, keys, author, returning)

    async def pin(self, key: bytes, pinned: bool) -> bool:
        return await self._database.write(_pin, key, pinned)

    async def trust(self, root: str, label: str, remote: str = "") -> Claim:
        return await self._database.write(trust, root, label, remote)

    async def rename(self, old: str, new: str) -> str:
        return await self._database.write_alone(rename, old, new)

    async def merge(self, source: str, target: str) -> int:
        return await self._database.write_alone(merge_named, source, target)

    async def split(self, slug: str, roots: Sequence[str]) -> dict[str, str]:
        return await self._database.write_alone(split, slug, roots)

    async def retire(self, now_ms: int) -> int:
        return 0

    def ledger(self, clock: Clock, zone: tzinfo, cap: int, prices: Prices) -> SqlLedger:
        return SqlLedger(self._database, clock, zone, cap, prices)


def start_anew(tx: Transaction, timezone: str) -> None:
    """Leave of a memory what nothing else can tell, indexed and marked as to be made into a tree."""
    retired = tx.fetch(f"SELECT 1 FROM segment WHERE start_ms < {KEPT} LIMIT 1")
    failed = tx.fetch("SELECT session FROM failure WHERE stage = ?", (Stage.RECORD,))
    for table in _DERIVED:
        tx.run(f"DELETE FROM {table} {_UNRETIRED.get(table, '') if retired else ''}")
    if retired:
        tx.run(_DAYS_OF_RETIRED, (int(Level.DAY),))
    note_erasure(tx)
    tx.empty_index()
    index_all(tx)
    tx.run("INSERT INTO dirty_session (session, from_ms) SELECT session, min(timestamp_ms) FROM event GROUP BY session")
    # Records are kept, since they are only ever added; what the hook prints of them is written anew.
    # A session that could not be compacted is tried again.
    tx.run(
        "INSERT INTO dirty_compaction (session) SELECT DISTINCT session FROM compaction WHERE TRUE "
        "ON CONFLICT DO NOTHING"
    )
    if failed:
        tx.run_many("INSERT INTO dirty_compaction (session) VALUES (?) ON CONFLICT DO NOTHING", failed)
    tx.run(SET_FACT, ("timezone", timezone))


def index_all(tx: Transaction) -> None:
    """Fill an empty index with every event and node."""
    index_nodes(tx)
    last = 0
    while rows := tx.fetch("SELECT id, role, type, text FROM event WHERE id > ? ORDER BY id LIMIT 2000", (last,)):
        index_events(tx, [(number, role, kind, text) for number, role, kind, text in rows])
        last = rows[-1][0]


def _pin(tx: Transaction, key: bytes, pinned: bool) -> bool:
    rows = tx.fetch(_NOTE, (key,))
    for number, project, metadata in rows:
        facts = {name: value for name, value in json.loads(metadata).items() if name not in ("pin", PIN_ASKED)}
        facts |= {"pin": True} if pinned else {}
        tx.run(_PIN, (json.dumps(facts, ensure_ascii=False), number))
        tx.run(_BRIEF_DUE, (project,))
    return bool(rows)
