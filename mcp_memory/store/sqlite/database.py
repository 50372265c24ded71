"""The one SQLite file: its connections, one lock for writing, errors that tell the next step."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import aiosqlite
import anyio
from anyio import to_thread

from mcp_memory.domain.terms import Columns
from mcp_memory.domain.tombstones import TombstoneKey
from mcp_memory.errors import StoreBusy, StoreError, StoreFull, StoreRejected, StoreReplaced, UsageError
from mcp_memory.store.sql.database import (
    LOGS,
    SET_FACT,
    Reads,
    Row,
    Snapshot,
    SqlDatabase,
    Transaction,
    Values,
    finished,
    marks,
)
from mcp_memory.store.sqlite import keys, migrations
from mcp_memory.store.sqlite.migrations import (
    MEMORY,
    READ_MARKS,
    Identity,
    damaged,
    holder,
    identity,
    is_fixed,
    log_of,
    uri,
)

P = ParamSpec("P")
Result = TypeVar("Result")
_NEXT = """
    SELECT max(coalesce((SELECT max(id) FROM {table}), 0),
               coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0)) + 1
"""
_INDEX = "search (rowid, head, user, assistant, tool, parts)"
_UNINDEX = "INSERT INTO search (search, rowid, head, user, assistant, tool, parts) VALUES ('delete', ?, ?, ?, ?, ?, ?)"
#: A write waits for those before it, the longest of which put a whole index in order. A read waits for no write: what
#: keeps it out is a program that wants the file for itself, and who waits should hear of it soon.
_WRITING_MS, _READING_MS = 15_000, 4_000
#: What SQLite says of tables that are not those of this version.
_UNLIKE = ("no such table", "no such column")
_PRAGMAS = (
    f"PRAGMA busy_timeout = {_READING_MS}",
    "PRAGMA cache_size = -32000",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA mmap_size = 268435456",
)
_WRITABLE = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    # What is deleted is overwritten: the file must not tell what was forgotten.
    "PRAGMA secure_delete = ON",
)


class SqliteTransaction(Transaction):
    """No one else writes during a transaction, so that numbers are counted on from the largest."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._next: dict[str, int] = {}

    def new_ids(self, table: str, many: int = 1) -> range:
        """Where ids are places in the log, one that was given away is not given again after its row is gone."""
        if table not in self._next:
            self._next[table] = int(self.fetch(_NEXT.format(table=table), (table,))[0][0])
        first = self._next[table]
        self._next[table] += many
        return range(first, first + many)

    def last_id(self, table: str) -> int:
        return int(self.fetch("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (table,))[0][0])

    def skip_id(self, table: str) -> int:
        self.run("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = ?", (table,))
        return self.last_id(table)

    def index(self, documents: Sequence[tuple[int, Columns]]) -> None:
        self.insert(_INDEX, [(number, *columns) for number, columns in documents])

    def unindex(self, documents: Sequence[tuple[int, Columns]]) -> None:
        for number, columns in documents:
            self.run(_UNINDEX, (number, *columns))

    def empty_index(self) -> None:
        self.run("INSERT INTO search (search) VALUES ('delete-all')")

    def tidy_index(self) -> None:
        # The index keeps words in its old parts until these are merged.
        self.run("INSERT INTO search (search) VALUES ('optimize')")

    def tombstone_key(self) -> TombstoneKey | None:
        return keys.read_key(self._folder())

    def make_tombstone_key(self) -> TombstoneKey:
        return keys.make_key(self._folder())

    def _folder(self) -> Path:
        """Return the directory of the file; what is local to the machine lies beside it."""
        [(_, _, name)] = [row for row in self.fetch("PRAGMA database_list") if row[1] == "main"]
        return Path(name).parent

    def keep_counting(self, table: str) -> None:
        self.run("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        self.run(f"INSERT INTO sqlite_sequence (name, seq) SELECT ?, coalesce(max(id), 0) FROM {table}", (table,))


class SqliteReads(Reads):
    """What SQLite alone tells."""

    async def reached(self) -> dict[str, int]:
        found: dict[str, int] = dict(
            await self.fetch(f"SELECT name, seq FROM sqlite_sequence WHERE name IN ({marks(LOGS)})", LOGS)
        )
        return {table: int(found.get(table, 0)) for table in LOGS}

    async def version(self) -> int:
        return int(await self.value("SELECT user_version FROM pragma_user_version"))


class SqliteSnapshot(Snapshot, SqliteReads):
    """A read transaction."""


class Database(SqliteReads, SqlDatabase):
    """Owns the connections. Reads see the last committed state; writes go through `write`.

    Many reads go on at once while one write does: reads have aiosqlite's thread, a write brings its own, and so do
    reads that belong together.
    """

    def __init__(self, path: Path, writer: sqlite3.Connection, reader: aiosqlite.Connection, kind: str) -> None:
        self.path = path
        self._kind = kind
        #: The file, and its write-ahead log, which stays the same while anyone has it open. Whoever restores a backup
        #: or clears the directory by hand takes their names away; SQLite would go on with the old ones, and all that
        #: it is told would be gone with them.
        self._files: dict[Path, Identity | None] = {}
        self._writer = writer
        self._reader = reader
        self._lock = anyio.Lock()
        self._together: sqlite3.Connection | None = None
        self._reading = anyio.Lock()
        # Held in the threads themselves: an interrupt gives up waiting for a thread, and the thread goes on.
        self._in_write, self._in_read = threading.Lock(), threading.Lock()
        self._changed = False

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, kind: str = MEMORY) -> AsyncIterator[Database]:
        """Open the file, creating or migrating it where needed. `kind`: of which file the schema is."""
        async with AsyncExitStack() as stack:
            with told(path):
                migrations.prepare_folder(path.parent)
                await to_thread.run_sync(migrations.migrate, path, kind)
                file = identity(path)
                # Worker threads use it in turn, each under the lock of `write`.
                writer = stack.enter_context(closing(connect(path)))
                writer.execute(f"PRAGMA busy_timeout = {_WRITING_MS}")
                reader = await stack.enter_async_context(_reader(path))
            database = cls(path, writer, reader, kind)
            database._files = {path: file}
            if found := identity(log_of(path)):
                database._files[log_of(path)] = found
            stack.callback(database._close)
            yield database

    def is_replaced(self) -> bool:
        """Whether another file has taken this one's name, or none has it any more."""
        return any(identity(path) != found for path, found in self._files.items())

    def _check(self) -> None:
        if self.is_replaced():
            raise StoreReplaced(
                f"{self.path} was removed or replaced while it was open; nothing more is written to the old one. "
                "Try again: what is there now is opened."
            )

    async def write(
        self, work: Callable[Concatenate[SqliteTransaction, P], Result], *args: P.args, **named: P.kwargs
    ) -> Result:
        """One write: all that `work` does or nothing, whatever happens meanwhile.

        It runs in one worker thread from begin to commit, and is not given up half way when its caller is cancelled.
        """
        async with self._lock:
            with self._told():
                return await to_thread.run_sync(self._write, lambda tx: work(tx, *args, **named))

    def write_here(
        self, work: Callable[Concatenate[SqliteTransaction, P], Result], *args: P.args, **named: P.kwargs
    ) -> Result:
        """The same in the caller's own thread, which must not be that of the event loop."""
        with self._told():
            return self._write(lambda tx: work(tx, *args, **named))

    def _write(self, work: Callable[[SqliteTransaction], Result]) -> Result:
        with self._in_write:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                if (version := migrations.version_of(self._writer)) > migrations.latest(self._kind):
                    raise migrations.newer(version, self.path, self._kind)
                result = work(SqliteTransaction(self._writer))
                # Whoever is told that something is kept may throw away where it came from.
                self._check()
                self._writer.execute("COMMIT")
                self._changed = True
            except BaseException:
                # A full disk makes SQLite roll back by itself.
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            return result

    async def scrub(self, wait_ms: int = 0) -> str:
        """Take what was erased out of the file and its log; what keeps it there for now, or nothing.

        It costs one read where nothing is due.
        """
        if not await self.fetch(DUE):
            return ""
        if is_fixed(self.path):
            return f"{self.path.parent} cannot be written"

        async with self._lock:
            with self._told():
                return await to_thread.run_sync(self._scrub, wait_ms)

    def _scrub(self, wait_ms: int) -> str:
        with self._in_write:
            return scrub(self._writer, self.path, wait_ms)

    async def fetch(self, sql: str, values: Values = ()) -> list[Row]:
        with self._told():
            return [tuple(row) for row in await self._reader.execute_fetchall(sql, values)]

    async def read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        async with self._reading:
            with self._told():
                return await to_thread.run_sync(self._read, work)

    async def read_as_transaction(self, work: Callable[[SqliteTransaction], Result]) -> Result:
        return await self.read(lambda connection: work(SqliteTransaction(connection)))

    async def at_once(self, work: Callable[[SqliteSnapshot], Coroutine[Any, Any, Result]]) -> Result:
        """Read and think in one go, in one worker thread: handing over to it and back takes longer than most reads.

        What `work` does with the snapshot sees one committed state; it must not wait for anything else.
        """
        return await self.read(lambda connection: finished(work(SqliteSnapshot(connection))))

    def _read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._in_read:
            if self._together is None:
                self._together = connect(self.path)
                self._together.execute("PRAGMA query_only = 1")
            self._together.execute("BEGIN")
            try:
                return work(self._together)
            finally:
                # After some errors SQLite has rolled back already; a COMMIT would fail and hide the error.
                if self._together.in_transaction:
                    self._together.execute("COMMIT")

    def _told(self) -> AbstractContextManager[None]:
        self._check()
        return told(self.path, changed=self._changed)

    def _close(self) -> None:
        """Wait for what other threads are at, after which nothing begins any more.

        A connection that is closed while a thread uses it takes the whole process down.
        """
        with self._in_write:
            self._files = {self.path: None}
            self._writer.close()
        with self._in_read:
            if self._together is not None:
                self._together.close()

    async def data_version(self, *, own: bool = False) -> int:
        """A number that changes whenever another connection has written; we write by one of its own, too."""
        return int(await self.value("PRAGMA data_version"))


def connect(path: Path, *, is_copy: bool = False) -> sqlite3.Connection:
    """A connection that worker threads may use in turn. Of a copy nothing is changed, and no file is made beside it."""
    name, pragmas = _way_to(path)
    if is_copy:
        is_changing = path.with_name(f"{path.name}-wal").exists()
        name = f"{path.absolute().as_uri()}?{'mode=ro' if is_changing else 'immutable=1'}"
        pragmas = _PRAGMAS
    connection = sqlite3.connect(name, isolation_level=None, cached_statements=256, check_same_thread=False, uri=True)
    try:
        for pragma in pragmas:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _way_to(path: Path) -> tuple[str, Sequence[str]]:
    """What to connect to, and what to say first."""
    return (uri(path), _PRAGMAS) if is_fixed(path) else (str(path), (*_PRAGMAS, *_WRITABLE))


@asynccontextmanager
async def _reader(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    # Cancelled half way, the connection's thread would be left without an owner.
    with anyio.CancelScope(shield=True):
        name, pragmas = _way_to(path)
        connection = await aiosqlite.connect(name, isolation_level=None, cached_statements=256, uri=True)
    try:
        for pragma in (*pragmas, "PRAGMA query_only = 1"):
            await connection.execute(pragma)
        yield connection
    finally:
        with anyio.CancelScope(shield=True):
            await connection.close()


@contextmanager
def told(path: Path, *, changed: bool = False) -> Iterator[None]:
    """Turn SQLite's and the system's errors into ours, which say what to do. `changed`: we have written before."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path, changed=changed) from error
    except UnicodeDecodeError as error:
        raise damaged(path, "it holds text that is not UTF-8") from error
    except UnicodeEncodeError as error:
        # Half of a pair, as bytes that are not UTF-8 become on the command line: no text can hold it.
        raise UsageError(f"{error.object[:60]!r} holds a character that is none. Give it in UTF-8.") from None
    except OverflowError as error:
        raise StoreRejected(f"{path} does not take a number that it was given.") from error
    except BrokenPipeError:
        raise  # whoever reads the answer has gone, which has nothing to do with the store
    except OSError as error:
        raise StoreFull(
            f"{path.parent} cannot be written: {error.strerror or error}. Free some space, correct the permissions, "
            "or set MCP_MEMORY_HOME to another directory."
        ) from error


def _version(path: Path) -> int:
    try:
        with closing(sqlite3.connect(uri(path), uri=True)) as connection:
            return migrations.version_of(connection)
    except sqlite3.Error:
        return 0


def explain(error: sqlite3.Error, path: Path, *, changed: bool = False) -> StoreError:
    text = str(error).lower()
    if isinstance(error, sqlite3.DataError) or "too big" in text or "malformed json" in text:
        return StoreRejected(f"{path} does not take a value that it was given ({type(error).__name__}).")
    if "locked" in text or "busy" in text:
        return StoreBusy(
            f"{path} is locked by {holder(path)}. Try again; if it stays so, end the one that has it open."
        )
    if text.startswith(_UNLIKE) and (version := _version(path)) > migrations.latest():
        return migrations.newer(version, path)
    signs = (
        *("image is malformed", "malformed database", "not a database", "corrupt", "vtable constructor failed"),
        *(*_UNLIKE, "has no column", "already exists"),  # not the tables its version has
    )
    undecodable = text.startswith("could not decode to utf-8")
    if undecodable or any(sign in text for sign in signs):
        # SQLite would quote what it cannot decode, which is of no use to anyone.
        error = sqlite3.DatabaseError("it holds text that is not UTF-8") if undecodable else error
        kept = "What could not be finished was undone." if changed else "Nothing was changed."
        return damaged(path, str(error), kept)
    if any(sign in text for sign in ("full", "readonly", "read-only", "unable to open", "disk i/o")):
        return StoreFull(
            f"{path} cannot be written ({error}). Free some space, correct the permissions, or set MCP_MEMORY_HOME "
            "to another directory."
        )
    return StoreError(f"{path}: {error}. `mcp-memory doctor` looks for what is wrong.")


_LENGTH = 12
#: The latest mark if the file has not been scrubbed since, and whether it was at least written anew.
DUE = f"""
    SELECT substr(e.value, -{_LENGTH}), substr(e.value, -{_LENGTH}) = w.value
    FROM meta e LEFT JOIN meta s ON s.key = 'scrubbed' LEFT JOIN meta w ON w.key = 'rewritten'
    WHERE e.key = 'erasures' AND substr(e.value, -{_LENGTH}) <> coalesce(s.value, '')
"""
#: A file up to this size is written anew in memory, a larger one by way of a temporary file without a name.
_IN_MEMORY = 256 * 1024 * 1024
#: What is left free on the disk while that is done: the hooks need some.
_SPARE = 16 * 1024 * 1024


def scrub(connection: sqlite3.Connection, path: Path, wait_ms: int) -> str:
    """Take what was erased out of the file and its log; what is in the way, or nothing.

    Overwriting what is deleted is not enough: SQLite moves rows between pages and leaves their old bytes behind.
    So the file is written anew, and then the log is emptied, which takes that no one reads an older state.
    """
    (before,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {wait_ms}")
    try:
        found = connection.execute(DUE).fetchone()
        if found is None:
            return ""
        mark, rewritten = found
        if not rewritten:
            if shutil.disk_usage(path.parent).free < path.stat().st_size + _SPARE:
                return "there is no room to write the file anew"
            store = "MEMORY" if path.stat().st_size <= _IN_MEMORY else "FILE"
            connection.execute(f"PRAGMA temp_store = {store}")
            connection.execute("VACUUM")
            connection.execute(SET_FACT, ("rewritten", mark))
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            return f"{holder(path, 'READ', READ_MARKS)} is still reading an earlier state"
        connection.execute(SET_FACT, ("scrubbed", mark))
    except sqlite3.Error as error:  # someone else writes, or there is no room for a second copy
        return str(error)
    finally:
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA busy_timeout = {before}")
    return ""
