"""A memory in PostgreSQL: how it is opened, and what only that engine does."""

from __future__ import annotations

import shlex
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from anyio import to_thread

from mcp_memory.domain.inventory import Counts
from mcp_memory.domain.people import Viewer
from mcp_memory.errors import UsageError
from mcp_memory.store.port import Clock
from mcp_memory.store.postgres.database import SCHEMA, PostgresDatabase, configure, shown, told
from mcp_memory.store.postgres.index import PostgresIndex
from mcp_memory.store.postgres.migrations import retire
from mcp_memory.store.postgres.rewriting import prepare_connection, rewrite
from mcp_memory.store.postgres.team import TeamPart
from mcp_memory.store.postgres.viewing import SeenDatabase
from mcp_memory.store.sql.database import Snapshot, Transaction
from mcp_memory.store.sql.lease import HeldLease
from mcp_memory.store.sql.reads import SqlReader
from mcp_memory.store.sql.store import SqlStore, index_all
from mcp_memory.store.sql.work import NAME

#: By the clock of the database, which is the same for all who ask.
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_TAKE = f"""
    INSERT INTO lease AS l (name, holder, token, expires_ms) VALUES (:name, :holder, 1, {_NOW} + :duration)
    ON CONFLICT (name) DO UPDATE SET
        token = l.token + CASE WHEN l.token = :mine THEN 0 ELSE 1 END,
        holder = excluded.holder, expires_ms = excluded.expires_ms
    WHERE l.token = :mine OR (:takes = 1 AND (l.expires_ms <= {_NOW} OR l.holder = :dead)) RETURNING l.token
"""
_HELD = f"SELECT holder FROM lease WHERE name = ? AND token <> ? AND expires_ms > {_NOW}"
#: Told anew each time that a machine starts, so that the numbers of processes are not taken for those of another.
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_BYTES = f"""
    SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c
    WHERE c.relnamespace = '{SCHEMA}'::regnamespace AND c.relkind = 'r'
"""
#: How long the loop waits before it tries again to rewrite tables that could not be.
_AGAIN_SECONDS = 60.0
#: Whether something was erased that may still lie in the files.
_DUE = "SELECT 1 FROM to_rewrite LIMIT 1"


class PostgresLease(HeldLease):
    """Implements the Lease port: whoever has the row until a time has the lease, by the database's clock."""

    def place(self) -> str:
        """Many machines share a server, and some bear the same name."""
        with suppress(OSError):  # only Linux tells
            return f"{super().place()}/{_BOOT.read_text().strip()}"
        return super().place()

    async def acquire(self) -> bool:
        started = self._clock()
        # A look comes before the write.
        held = [holder for (holder,) in await self._database.fetch(_HELD, (self._name, self.token or 0))]
        if held and not self.is_dead(held[0]):
            return False
        return self.taken(await self._database.write(self._take, True, *held), started)

    def renew(self, tx: Transaction) -> int:
        return self._take(tx, False)

    def _take(self, tx: Transaction, takes: bool, dead: str = "") -> int:
        values = {"name": self._name, "holder": self.holder, "mine": self.token or 0, "takes": takes, "dead": dead}
        rows = tx.fetch(_TAKE, {**values, "duration": round(self.duration * 1000)})
        return int(rows[0][0]) if rows else 0


class PostgresStore(SqlStore, TeamPart):
    """Implements the Store port, and the TeamStore."""

    def __init__(self, database: PostgresDatabase, keep_quarters: int = 0) -> None:
        super().__init__(database, PostgresIndex(database))
        self._database = self.database = database
        self._keep_quarters = keep_quarters
        self.index_keeper = PostgresIndex(database)
        self._next_rewrite = 0.0

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, keep_quarters: int = 0) -> AsyncIterator[PostgresStore]:
        async with PostgresDatabase.open(url) as database:
            yield cls(database, keep_quarters)

    async def counts(self, busy: range = range(0)) -> Counts:
        return replace(await super().counts(busy), server_bytes=int(await self._database.value(_BYTES)))

    def seen_by(self, viewer: Viewer, by: str = "") -> PostgresStore:
        """The memory as a member sees it, or what of that someone said. Nothing can be written through it."""
        return PostgresStore(SeenDatabase(self.database, viewer, by))

    def reader(self, snapshot: Snapshot) -> SqlReader:
        return SqlReader(snapshot, PostgresIndex(snapshot))

    def lease(self, name: str = NAME) -> PostgresLease:
        return PostgresLease(self.database, name=name)

    async def mend(self, timezone: str) -> bool:
        return await self.database.write_alone(_mend, timezone)

    async def retire(self, now_ms: int) -> int:
        """Drop a portion of the quarters that are no longer kept; 0 if nothing of them is left."""
        return await retire(self.database, self._keep_quarters, now_ms) if self._keep_quarters else 0

    async def scrub(self, wait_ms: int = 0) -> str:
        """Rewrite the tables that lost rows; what is in the way, or when the rest of them is rewritten.

        With a time to wait somebody waits for it, so large tables are left to a running server.
        """
        background = not wait_ms
        if (background and time.monotonic() < self._next_rewrite) or await self.database.value(_DUE) is None:
            return ""
        left = await to_thread.run_sync(self._rewrite, background)
        if left:
            # Whoever reads a table waits while we wait for it, so it is not tried with each write.
            self._next_rewrite = time.monotonic() + _AGAIN_SECONDS
        return left

    def unreached(self) -> str:
        return (
            "The server's write-ahead log, archives of it, standbys, its log of errors and dumps were not looked at. "
            "docs/TEAM.md says when what they hold goes."
        )

    def _rewrite(self, background: bool) -> str:
        url = self.database.url
        with (
            told(url),
            psycopg.connect(
                url, autocommit=True, connect_timeout=10, application_name="mcp-memory rewrite"
            ) as connection,
        ):
            configure(connection)
            prepare_connection(connection)
            return rewrite(connection, time.time_ns() // 1_000_000, background=background)

    async def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        raise UsageError(
            "A memory on a server is copied by the server's own means: pg_dump --format=custom --schema=mcp_memory "
            f"--file={shlex.quote(str(target))} {shlex.quote(shown(self.database.url))}"
        )

    async def refresh_backups(self, keep: int, clock: Clock) -> None:
        """The server's own backups are those of the memory."""

    def copies(self) -> list[Path]:
        return []

    def is_replaced(self) -> bool:
        return False


def _mend(tx: Any, timezone: str) -> bool:
    tx.empty_index()
    index_all(tx)
    return True
