"""A memory in one SQLite file: how it is opened, mended in passing, and copied."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from anyio import to_thread

from mcp_memory.domain.events import TIMES
from mcp_memory.errors import StoreFull
from mcp_memory.store.port import Clock, FiledIndex, ReadStore
from mcp_memory.store.sql.database import Snapshot, Transaction
from mcp_memory.store.sql.lease import HeldLease
from mcp_memory.store.sql.log import CUT_ANEW
from mcp_memory.store.sql.nodes import remove_segment_node
from mcp_memory.store.sql.reads import SqlReader
from mcp_memory.store.sql.store import SqlStore
from mcp_memory.store.sql.work import NAME
from mcp_memory.store.sqlite.backup import Backups, copies_of
from mcp_memory.store.sqlite.database import Database, SqliteSnapshot
from mcp_memory.store.sqlite.documents import IndexPart
from mcp_memory.store.sqlite.fts5 import Counted, Fts5Index
from mcp_memory.store.sqlite.migrations import backup, uri

logger = logging.getLogger(__name__)
T = TypeVar("T")

_BOUNDS = (TIMES.start, TIMES.stop)
_ANY_IMPOSSIBLE = """
    SELECT EXISTS (SELECT 1 FROM event WHERE timestamp_ms < ?) OR EXISTS (SELECT 1 FROM event WHERE timestamp_ms >= ?)
"""
_IMPOSSIBLE = "SELECT id, session, timestamp_ms FROM event WHERE timestamp_ms < ?1 OR timestamp_ms >= ?2 ORDER BY id"
_NEIGHBOUR = """
    SELECT timestamp_ms FROM event WHERE session = ?3 AND timestamp_ms >= ?1 AND timestamp_ms < ?2
    ORDER BY abs(id - ?4) LIMIT 1
"""

_ROW = "SELECT holder, token, expires_ms FROM lease WHERE name = ?"
_WRITE = "INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)"


class _Held(NamedTuple):
    """The lease as its row tells it."""

    holder: str
    token: int
    expires_ms: int


class SqliteLease(HeldLease):
    """Implements the Lease port for a memory in a file.

    No wall clock decides. The holder counts from before it wrote its row. Whoever waits takes over a row that has
    stayed the same for a whole duration, by its own clock, from when it first saw it: later than the holder gives up.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._seen: _Held | None = None
        self._seen_at = 0.0

    async def acquire(self) -> bool:
        started = self._clock()
        # A look comes before the write: servers that wait for their turn must not write to find out.
        if not self._may_take([_Held(*row) for row in await self._database.fetch(_ROW, (self._name,))]):
            return False
        return self.taken(await self._database.write(self._take, self._may_take), started)

    def renew(self, tx: Transaction) -> int:
        return self._take(tx, self._is_mine)

    def _take(self, tx: Transaction, may_take: Callable[[list[_Held]], bool]) -> int:
        """Write the row; its token, or 0 if someone else has it."""
        held = [_Held(*row) for row in tx.fetch(_ROW, (self._name,))]
        if not may_take(held):
            return 0
        token = held[0].token + (not self._is_mine(held)) if held else 1
        expires = time.time_ns() // 1_000_000 + round(self.duration * 1000)
        expires += bool(held and held[0].expires_ms == expires)  # a renewal must show
        tx.run(_WRITE, (self._name, self.holder, token, expires))
        return token

    def _is_mine(self, held: list[_Held]) -> bool:
        return bool(held) and held[0].token == self.token

    def _may_take(self, held: list[_Held]) -> bool:
        """Whether it is ours, given back, held by a process of this machine that is gone, or no longer renewed."""
        if not held or self._is_mine(held) or not held[0].expires_ms or self.is_dead(held[0].holder):
            return True
        if held[0] != self._seen:
            self._seen, self._seen_at = held[0], self._clock()
        return self._clock() - self._seen_at >= self.duration


class SqliteReader(IndexPart, SqlReader):
    """Implements the ReadStore port."""


class SqliteStore(IndexPart, SqlStore):
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

    def reader(self, snapshot: Snapshot) -> SqliteReader:
        return SqliteReader(snapshot, Fts5Index(snapshot, counted=Counted()))

    async def at_once(self, work: Callable[[ReadStore], Coroutine[Any, Any, T]]) -> T:
        def at(snapshot: SqliteSnapshot) -> Coroutine[Any, Any, T]:
            reader = self.reader(snapshot)
            if self._filed:
                filed = self._filed.over(reader, reader.index)
                reader.search, reader.pool = filed.search, filed.pool
            return work(reader)

        return await self._database.at_once(at)

    def lease(self, name: str = NAME) -> SqliteLease:
        return SqliteLease(self.database, name=name)

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

    async def mend(self, timezone: str) -> bool:
        from mcp_memory.store.sqlite.repair import mend_derived

        return await self._database.write(mend_derived, timezone)

    async def scrub(self, wait_ms: int = 0) -> str:
        return await self.database.scrub(wait_ms)

    def unreached(self) -> str:
        return ""

    async def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        def copy() -> None:
            with closing(sqlite3.connect(uri(self.database.path), uri=True)) as source:
                backup(source, target, progress=progress)

        try:
            await to_thread.run_sync(copy)
        except (OSError, sqlite3.Error) as error:
            raise StoreFull(f"{target} cannot be written: {error}. Name another place.") from error

    async def refresh_backups(self, keep: int, clock: Clock) -> None:
        await Backups(self.database, keep, self.lease("backup"), clock).refresh()

    def copies(self) -> list[Path]:
        return copies_of(self.database.path)

    def is_replaced(self) -> bool:
        return self.database.is_replaced()


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
