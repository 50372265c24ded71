"""The one SQLite file: two connections, one lock for writing, errors that tell the next step."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import anyio

from mcp_memory.adapters.sqlite.migrations import migrate
from mcp_memory.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull

Row = tuple[Any, ...]
_BUSY_MS = 15_000
_PRAGMAS = (
    f"PRAGMA busy_timeout = {_BUSY_MS}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA cache_size = -32000",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA mmap_size = 268435456",
)


class Transaction:
    """A write in progress; handed out by `Database.transaction` only."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    async def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run one statement and tell how many rows it changed."""
        # A finished write holds nothing that closing its cursor, a further trip to the thread, would free.
        return (await self._connection.execute(sql, values)).rowcount

    async def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        await self._connection.executemany(sql, rows)

    async def fetch(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return [tuple(row) for row in await self._connection.execute_fetchall(sql, values)]

    async def next_id(self, table: str) -> int:
        """The next id of a table; safe because no one else writes during this transaction.

        Where ids are places in the log, one that was given away is not given again after its row is gone.
        """
        rows = await self.fetch(
            f"SELECT max(coalesce((SELECT max(id) FROM {table}), 0), "
            "coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0)) + 1",
            (table,),
        )
        return int(rows[0][0])


class Database:
    """Owns the connections. Reads see the last committed state; writes go through `transaction`."""

    def __init__(self, path: Path, writer: aiosqlite.Connection, reader: aiosqlite.Connection) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader
        self._lock = anyio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path) -> AsyncIterator[Database]:
        """Open the file, creating or migrating it where needed."""
        async with AsyncExitStack() as stack:
            with told(path):
                prepare_folder(path.parent)
                await anyio.to_thread.run_sync(migrate, path)
                writer = await stack.enter_async_context(_connect(path))
                reader = await stack.enter_async_context(_connect(path))
                await reader.execute("PRAGMA query_only = 1")
            yield cls(path, writer, reader)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """One write: all of it or nothing, whatever happens meanwhile."""
        async with self._lock:
            with told(self.path):
                await self._writer.execute("BEGIN IMMEDIATE")
                try:
                    yield Transaction(self._writer)
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        await self._roll_back()
                    raise
                with anyio.CancelScope(shield=True):
                    await self._commit()

    async def _roll_back(self) -> None:
        # A full disk makes SQLite roll back by itself.
        if self._writer.in_transaction:
            await self._writer.execute("ROLLBACK")

    async def _commit(self) -> None:
        try:
            await self._writer.execute("COMMIT")
        except sqlite3.Error:
            await self._roll_back()
            raise

    async def fetch(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        with told(self.path):
            return [tuple(row) for row in await self._reader.execute_fetchall(sql, values)]

    async def value(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        rows = await self.fetch(sql, values)
        return rows[0][0] if rows else None

    async def data_version(self) -> int:
        """A number that changes whenever another connection has written."""
        return int(await self.value("PRAGMA data_version"))


@asynccontextmanager
async def _connect(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    # Cancelled half way, the connection's thread would be left without an owner.
    with anyio.CancelScope(shield=True):
        connection = await aiosqlite.connect(path, isolation_level=None, cached_statements=256)
    try:
        for pragma in _PRAGMAS:
            await connection.execute(pragma)
        yield connection
    finally:
        with anyio.CancelScope(shield=True):
            await connection.close()


def prepare_folder(folder: Path) -> None:
    """The data directory belongs to its user alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name == "posix" and folder.stat().st_mode & 0o077 and folder.stat().st_uid == os.getuid():
        folder.chmod(0o700)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors into ours, which say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path) from error
    except OSError as error:
        raise StoreFull(
            f"{path.parent} cannot be written: {error.strerror or error}. Free some space, correct the permissions, "
            "or set MCP_MEMORY_HOME to another directory."
        ) from error


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    text = str(error).lower()
    if "locked" in text or "busy" in text:
        return StoreBusy(f"{path} is locked by another process. Try again; `mcp-memory status` shows who holds it.")
    if "malformed" in text or "not a database" in text or "corrupt" in text:
        return StoreCorrupt(
            f"{path} is damaged ({error}). Nothing was changed. Restore a copy from the backups beside it, or run "
            "`mcp-memory process --set-aside-corrupt` to set it aside and start afresh; then import your history again."
        )
    if any(sign in text for sign in ("full", "readonly", "read-only", "unable to open", "disk i/o")):
        return StoreFull(
            f"{path} cannot be written ({error}). Free some space, correct the permissions, or set MCP_MEMORY_HOME "
            "to another directory."
        )
    return StoreError(f"{path}: {error}.")
