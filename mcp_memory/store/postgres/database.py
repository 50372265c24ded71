"""The connections to PostgreSQL: reads of one state, writes that are tried again, errors that say what to do.

Each read and write runs in a worker thread, on a connection of a pool. A connection that is lost is replaced, and what
was under way is tried again. A write that was lost while it was being committed may have been kept: the server is asked
by the transaction's number, and only what it did not keep is done again. Nothing rests on a single writer. Whoever
writes holds a lock that they share; who must be alone, as to forget or to migrate, holds it for itself.
"""

from __future__ import annotations

import logging
import random
import re
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import psycopg
from anyio import to_thread
from psycopg import errors
from psycopg.adapt import Loader
from psycopg.types.numeric import Int8Dumper
from psycopg_pool import ConnectionPool, PoolTimeout

from mcp_memory.domain.terms import Columns
from mcp_memory.domain.tombstones import TombstoneKey
from mcp_memory.errors import StoreBusy, StoreError, StoreFull, StoreRejected, StoreUnreachable, UsageError
from mcp_memory.store.postgres import frequencies, migrations, rewriting
from mcp_memory.store.postgres.matching import index_rows
from mcp_memory.store.postgres.translation import bound, by_keys, in_arrays, translated
from mcp_memory.store.sql.database import (
    EVENT,
    LOGS,
    NODE,
    Reads,
    Row,
    Snapshot,
    SqlDatabase,
    Transaction,
    Values,
    finished,
    marks,
)

logger = logging.getLogger(__name__)
P = ParamSpec("P")
Result = TypeVar("Result")
#: The name under which this program keeps its tables, so that a database may hold others beside them.
SCHEMA = "mcp_memory"
#: Where others are told that something was written.
CHANNEL = "mcp_memory"
#: The payload of a notification about a changed role, token or session, instead of a name.
ACCESS = "access"
#: How long one statement may take, and how long it may wait for a lock, in milliseconds.
STATEMENT_MS, LOCK_MS = 120_000, 15_000
_CONNECT_SECONDS, _POOL = 10, 16
#: How long a free connection is waited for: a moment only, while the server is known to be away; and how long a lost
#: connection is tried to be had again unasked.
_POOL_SECONDS, _MOMENT_SECONDS, _RECONNECT_SECONDS = 15, 1.0, 5.0
#: How long a server may take to start anew before it is away, and how often is looked whether it is back.
_RESTART_SECONDS, _LOOK_SECONDS = 4.0, 0.5
#: How often what failed is tried again, and how long is waited before it is, growing each time.
_TRIES, _PAUSE_SECONDS, _LONGEST_SECONDS = 6, 0.1, 5.0
#: The number of the transaction, if it has written anything, and what became of one.
_NUMBER = "SELECT pg_current_xact_id_if_assigned()::text"
_STATUS = "SELECT pg_xact_status(CAST(? AS xid8))"
_PASSING = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    # Keys are looked up before they are written, so another has written the same just now.
    errors.UniqueViolation,
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    psycopg.InterfaceError,
)
#: SQLSTATE classes of values that can never be stored: data exceptions, and limits of the server exceeded.
_REJECTED_CLASSES = ("22", "54")
#: What the server says of tables that are not those of this version.
_UNLIKE = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction)
_TOGETHER = 100
#: What the index takes of an event beside its words.
_PLACED = ("session", "timestamp_ms", "visibility")
_INDEX = """
    INSERT INTO search (doc, project, start_ms, end_ms, level, author, visibility, weight, spoken, tool, terms)
    SELECT {columns}, v.weight, v.spoken, v.tool, v.terms::tsvector FROM (VALUES {rows}) v {joined}
    ON CONFLICT (doc) DO UPDATE SET
        project = excluded.project, start_ms = excluded.start_ms, end_ms = excluded.end_ms, level = excluded.level,
        author = excluded.author, visibility = excluded.visibility, weight = excluded.weight,
        spoken = excluded.spoken, tool = excluded.tool, terms = excluded.terms
"""
_READ_BY_TEAM = (
    "SELECT DISTINCT s.project FROM event e JOIN session s ON s.id = e.session "
    "WHERE e.visibility = 'team' AND e.id IN ({})"
)
_INDEX_NODES = partial(
    _INDEX.format,
    columns="v.doc, n.project, n.start_ms, n.end_ms, n.level, coalesce(s.author, ''), 'team'",
    joined="(doc, weight, spoken, tool, terms) JOIN node n ON n.id = v.doc / 4 LEFT JOIN session s ON s.id = n.session",
)
_INDEX_EVENTS = partial(
    _INDEX.format,
    columns="v.doc, s.project, v.at_ms, v.at_ms + 1, -1, s.author, v.visibility",
    joined="(doc, weight, spoken, tool, terms, session, at_ms, visibility) JOIN session s ON s.id = v.session",
)
_CROWDED = re.compile("too many (clients|connections)|connection slots", re.IGNORECASE)
_REFUSED = re.compile("FATAL:.*(does not exist|authentication|pg_hba)|no password|SSL|certificate", re.IGNORECASE)
_PASSWORD = re.compile(r"//([^:/@]+):.*@")


def shown(url: str) -> str:
    """The address without its password."""
    return re.sub(r"([?&]password=)[^&]*", r"\1…", _PASSWORD.sub(r"//\1:…@", url))


class _WholeNumber(Loader):
    """Sums of whole numbers are whole numbers, whatever PostgreSQL calls them."""

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text or "N" in text else int(text)


class Link:
    """A connection as the shared SQL uses one."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.raw = connection

    def execute(self, sql: str, values: Values = (), /) -> Any:
        if (keyed := by_keys(sql)) and all(type(value) is int for value in values):
            return self._look_up(keyed[0], in_arrays(cast(Any, values), keyed[1]))
        told = translated(sql)
        return self.raw.execute(cast(Any, told), bound(told, values))

    def _look_up(self, told: str, values: Sequence[Any]) -> Any:
        """Run a statement whose plan is kept by the server."""
        return psycopg.Cursor(self.raw).execute(cast(Any, told), values, prepare=True)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> None:
        for row in rows:
            self.execute(sql, row)


class PostgresTransaction(Transaction):
    """A transaction beside others: what must not come between is locked by name."""

    held = "FOR SHARE"

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        #: Where the events lie that were written here.
        self._placed: dict[int, tuple[Any, ...]] = {}

    def lock(self, names: Iterable[str]) -> None:
        # All take them in the same order, so that no two wait for each other.
        for name in sorted(set(names)):
            self.run("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (name,))

    def new_ids(self, table: str, many: int = 1) -> Sequence[int]:
        if table in LOGS:
            sql = "UPDATE log_place SET seq = seq + ? WHERE name = ? RETURNING seq"
            last = int(self.fetch(sql, (many, table))[0][0])
            return range(last - many + 1, last + 1)
        rows = self.fetch("SELECT nextval(?) FROM generate_series(1, ?)", (f"{table}_number", many))
        return [number for (number,) in rows]

    def last_id(self, table: str) -> int:
        return int(self.fetch("SELECT seq FROM log_place WHERE name = ?", (table,))[0][0])

    def skip_id(self, table: str) -> int:
        return self.new_ids(table)[0]

    def insert(self, into: str, rows: Sequence[Sequence[Any]], *, known: str = "") -> None:
        if into.startswith("event ") and rows:
            names = [name.strip() for name in into.partition("(")[2].rstrip(")").split(",")]
            of_time = names.index("timestamp_ms")
            migrations.ensure_quarters(self, (row[of_time] for row in rows))
            number, *places = (names.index(name) for name in ("id", *_PLACED))
            self.place({row[number]: tuple(row[place] for place in places) for row in rows})
        super().insert(into, rows, known=known)

    def place(self, places: Mapping[int, tuple[Any, ...]]) -> None:
        """Tell the session, time and visibility of events by their numbers, so that they need not be looked up."""
        self._placed |= places

    def index(self, documents: Sequence[tuple[int, Columns]]) -> None:
        rows = index_rows(documents)
        events = [row for row in rows if row[0] % 4 == EVENT]
        places = self._places_of([row[0] // 4 for row in events])
        # What is indexed has been stored before.
        self._index(_INDEX_EVENTS, [(*row, *places[row[0] // 4]) for row in events])
        self._index(_INDEX_NODES, [row for row in rows if row[0] % 4 == NODE])

    def _index(self, statement: Callable[..., str], rows: Sequence[Sequence[Any]]) -> None:
        for start in range(0, len(rows), _TOGETHER):
            part = rows[start : start + _TOGETHER]
            row = f"(?::bigint, ?::real{', ?' * (len(part[0]) - 2)})"
            self.run(statement(rows=", ".join([row] * len(part))), [value for each in part for value in each])

    def _places_of(self, numbers: Sequence[int]) -> dict[int, tuple[Any, ...]]:
        """Session, time and visibility of events; those of this transaction need not be looked up."""
        if left := [number for number in numbers if number not in self._placed]:
            sql = f"SELECT id, {', '.join(_PLACED)} FROM event WHERE id IN ({marks(left)})"
            return {number: tuple(place) for number, *place in self.fetch(sql, left)} | self._placed
        return self._placed

    def unindex(self, documents: Sequence[tuple[int, Columns]]) -> None:
        numbers = [number for number, _ in documents]
        if numbers:
            frequencies.take_out(self, numbers)

    def empty_index(self) -> None:
        frequencies.empty(self)

    def tombstone_key(self) -> TombstoneKey | None:
        rows = self.fetch("SELECT value FROM secret WHERE name = 'tombstones'")
        return TombstoneKey(bytes(rows[0][0])) if rows else None

    def make_tombstone_key(self) -> TombstoneKey:
        sql = "INSERT INTO secret (name, value) VALUES ('tombstones', ?) ON CONFLICT DO NOTHING"
        self.run(sql, (TombstoneKey.new().secret,))
        key = self.tombstone_key()
        assert key is not None
        return key

    def mark_team_erasure(self, events: Sequence[int], projects: Iterable[int] = ()) -> None:
        found = set(projects)
        for start in range(0, len(events), _TOGETHER):
            part = events[start : start + _TOGETHER]
            found |= {project for (project,) in self.fetch(_READ_BY_TEAM.format(marks(part)), part)}
        rows = [(project, secrets.token_hex(8)) for project in sorted(found)]
        known = "ON CONFLICT (project) DO UPDATE SET mark = excluded.mark"
        self.insert("team_erasure (project, mark)", rows, known=known)

    def clear_audit(self, is_meant: Callable[[str], bool]) -> None:
        names = [name for (name,) in self.fetch("SELECT DISTINCT project FROM audit") if is_meant(name)]
        if names:
            self.run(f"UPDATE audit SET project = '' WHERE project IN ({marks(names)})", names)

    def note_lost_rows(self) -> None:
        rewriting.note_lost_rows(self)


class PostgresReads(Reads):
    """What PostgreSQL alone tells."""

    async def reached(self) -> dict[str, int]:
        return {name: int(seq) for name, seq in await self.fetch("SELECT name, seq FROM log_place")}

    async def version(self) -> int:
        return int(await self.value("SELECT max(number) FROM migration"))


class PostgresSnapshot(Snapshot, PostgresReads):
    """A read transaction, which sees one state."""


class PostgresDatabase(PostgresReads, SqlDatabase):
    """The pool, and a thread that hears of what others write."""

    def __init__(self, url: str, pool: ConnectionPool[psycopg.Connection[Any]]) -> None:
        self.url, self._pool = url, pool
        #: By which members of a team read, once it is known.
        self.viewer_role = ""
        #: By this, others' news are told from our own.
        self._name = secrets.token_hex(8)
        self._heard = self._told = 0
        #: How often someone's role, tokens or sessions have changed.
        self.access_changes = 0
        self._listening, self._ending = threading.Event(), threading.Event()
        #: Set while the server cannot be connected to, for longer than it takes to start anew.
        self._away = threading.Event()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[PostgresDatabase]:
        """Connect, bring the schema up to date, and listen."""
        pool = ConnectionPool(
            url,
            kwargs={
                "autocommit": True,
                "cursor_factory": psycopg.ClientCursor,
                "connect_timeout": _CONNECT_SECONDS,
                "application_name": "mcp-memory",
            },
            configure=configure,
            check=ConnectionPool.check_connection,
            min_size=1,
            max_size=_POOL,
            open=False,
            reconnect_timeout=_RECONNECT_SECONDS,
        )
        database = cls(url, pool)
        try:
            with told(url):
                await to_thread.run_sync(migrations.migrate, url)
                await to_thread.run_sync(pool.open)
            threading.Thread(target=database._listen, name="memory changes", daemon=True).start()
            await to_thread.run_sync(database._listening.wait, _CONNECT_SECONDS)
            yield database
        finally:
            database._ending.set()
            await to_thread.run_sync(pool.close)

    async def write(self, work: Callable[Concatenate[Any, P], Result], *args: P.args, **named: P.kwargs) -> Result:
        return await to_thread.run_sync(self._write, lambda tx: work(tx, *args, **named), False)

    async def write_alone(
        self, work: Callable[Concatenate[Any, P], Result], *args: P.args, **named: P.kwargs
    ) -> Result:
        return await to_thread.run_sync(self._write, lambda tx: work(tx, *args, **named), True)

    def write_here(self, work: Callable[Concatenate[Any, P], Result], *args: P.args, **named: P.kwargs) -> Result:
        """The same in the caller's own thread, which must not be that of the event loop."""
        return self._write(lambda tx: work(tx, *args, **named), False)

    async def write_aside(self, work: Callable[[Any], None]) -> None:
        """Write what is no part of the memory: it is told to no one who waits for news."""
        await to_thread.run_sync(self._write, work, False, False)

    def _write(self, work: Callable[[PostgresTransaction], Result], alone: bool, tells: bool = True) -> Result:
        begin = f"SELECT pg_advisory_xact_lock{'' if alone else '_shared'}({migrations.WRITING}); {migrations.VERSION}"
        pending: list[tuple[str, Result]] = []

        def once(link: Link) -> Result:
            if pending:
                number, result = pending[0]
                if self._was_committed(link, number):
                    return result
                pending.clear()
            with link.raw.transaction():
                # Two statements, so that the version is read after the lock has been waited for.
                found = link.raw.execute(cast(Any, begin))
                found.nextset()
                migrations.refuse_newer(int(found.fetchall()[0][0]))
                result = work(PostgresTransaction(link))
                sql, values = (f"{_NUMBER}, pg_notify(?, ?)", (CHANNEL, self._name)) if tells else (_NUMBER, ())
                if (number := link.execute(sql, values).fetchone()[0]) is not None:
                    pending.append((number, result))
            return result

        return self._tried(once)

    def _was_committed(self, link: Link, number: str) -> bool:
        """Return whether the server kept a transaction whose COMMIT got no answer."""
        until = time.monotonic() + LOCK_MS / 1000
        try:
            while (status := link.execute(_STATUS, (number,)).fetchone()[0]) == "in progress":
                # The server has not noticed yet that the connection was lost, or is still committing.
                if time.monotonic() > until or self._ending.wait(_LOOK_SECONDS):
                    raise StoreBusy(f"{shown(self.url)} is still at an earlier write. Try again.")
        except errors.InvalidParameterValue:
            return False  # a standby took over that never received the transaction
        return bool(status == "committed")

    async def fetch(self, sql: str, values: Values = ()) -> list[Row]:
        return await to_thread.run_sync(self._tried, lambda link: link.execute(sql, values).fetchall())

    async def read(self, work: Callable[[Any], Result]) -> Result:
        return await to_thread.run_sync(self._read, work)

    async def read_as_transaction(self, work: Callable[[Any], Result]) -> Result:
        return await self.read(lambda link: work(PostgresTransaction(link)))

    async def at_once(self, work: Callable[[Any], Coroutine[Any, Any, Result]]) -> Result:
        return await self.read(lambda link: finished(work(PostgresSnapshot(link))))

    def _read(self, work: Callable[[Link], Result]) -> Result:
        def once(link: Link) -> Result:
            with ended(link):
                link.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return work(link)

        return self._tried(once)

    def _tried(self, once: Callable[[Link], Result]) -> Result:
        """What it gives; tried again, after longer and longer pauses, where only the moment was a bad one."""
        for left in reversed(range(_TRIES)):
            try:
                with told(self.url), self._connection() as connection:
                    return once(Link(connection))
            except StoreError as error:
                if isinstance(error.__cause__, _UNLIKE):
                    self._refuse_newer()
                if not left or self._away.is_set() or not _is_passing(error.__cause__):
                    raise
                logger.info("PostgreSQL: %s; trying again.", type(error.__cause__).__name__)
            pause = min(_PAUSE_SECONDS * 3 ** (_TRIES - 1 - left), _LONGEST_SECONDS)
            if self._ending.wait(pause * random.uniform(0.5, 1.0)):
                raise StoreError("The memory is closed. Try again.")
        raise AssertionError

    def _refuse_newer(self) -> None:
        """Raise if the tables are not those of this version because a later one has upgraded them."""
        with suppress(psycopg.Error), self._connection() as connection:
            migrations.refuse_newer(migrations.version_of(connection))

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the pool. One is waited for, but not long if there is no server to connect to."""
        until = time.monotonic() + _POOL_SECONDS
        while True:
            try:
                connection = self._pool.getconn(_MOMENT_SECONDS)
                break
            except PoolTimeout:
                if self._away.is_set() or time.monotonic() > until:
                    raise
        try:
            with connection:
                yield connection
        finally:
            self._pool.putconn(connection)

    async def run_alone(self, sql: str) -> None:
        """A statement that no transaction may hold, such as to make room."""
        await to_thread.run_sync(self._tried, lambda link: link.execute(sql))

    async def data_version(self, *, own: bool = False) -> int:
        return self._told if own else self._heard

    def _listen(self) -> None:
        """Count what is written, for as long as the memory is open; after a break something may have been missed."""
        lost = 0.0
        while not self._ending.is_set():
            try:
                with psycopg.connect(self.url, autocommit=True, connect_timeout=_CONNECT_SECONDS) as connection:
                    lost = 0.0
                    self._away.clear()
                    connection.execute(f"LISTEN {CHANNEL}")
                    self._heard, self._told = (n + self._listening.is_set() for n in (self._heard, self._told))
                    self.access_changes += 1
                    self._listening.set()
                    self._away.clear()
                    while not self._ending.is_set():
                        for one in connection.notifies(timeout=1.0, stop_after=1):
                            if one.payload == ACCESS:
                                self.access_changes += 1
                                continue
                            self._told += 1
                            self._heard += one.payload != self._name
            except psycopg.Error:
                lost = lost or time.monotonic()
                if time.monotonic() > lost + _RESTART_SECONDS:
                    self._away.set()
                self._ending.wait(_LOOK_SECONDS)


@contextmanager
def ended(link: Link) -> Iterator[None]:
    """End what is read at once. What went well is committed: with a rollback psycopg lets go of all plans it keeps."""
    try:
        yield
        link.raw.commit()
    except BaseException:
        with suppress(psycopg.Error):  # what failed before is what is reported
            link.raw.rollback()
        raise


def configure(connection: psycopg.Connection[Any]) -> None:
    """What every connection of ours is told first. Many ask at once, so each has one processor at most."""
    connection.adapters.register_loader("numeric", _WholeNumber)
    # All whole numbers are of one kind, so that a statement is prepared once.
    connection.adapters.register_dumper(int, Int8Dumper)
    for setting in (
        f"search_path = {SCHEMA}",
        f"statement_timeout = {STATEMENT_MS}",
        f"lock_timeout = {LOCK_MS}",
        f"idle_in_transaction_session_timeout = {STATEMENT_MS}",
        "jit = off",
        # What is asked for is in memory or on a disk that does not turn.
        "random_page_cost = 1.1",
        "max_parallel_workers_per_gather = 0",
        "plan_cache_mode = force_generic_plan",
    ):
        connection.execute(cast(Any, f"SET {setting}"))


def _is_passing(error: BaseException | None) -> bool:
    """Whether the same may succeed in a moment: the server starts anew, or two writers were in each other's way."""
    if isinstance(error, PoolTimeout):
        return False  # which has waited for long enough
    lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    return lost or isinstance(error, _PASSING)


@contextmanager
def told(url: str) -> Iterator[None]:
    """Turn PostgreSQL's errors into ours, which say what to do."""
    try:
        yield
    except psycopg.Error as error:
        raise explain(error, url) from error
    except UnicodeEncodeError as error:
        raise UsageError(f"{error.object[:60]!r} holds a character that is none. Give it in UTF-8.") from None


def explain(error: psycopg.Error, url: str) -> StoreError:
    where, why = shown(url), shown((str(error).strip() or type(error).__name__).splitlines()[0])
    if isinstance(error, errors.LockNotAvailable | errors.QueryCanceled):
        return StoreBusy(f"{where} took too long ({why}). Try again; the server's log tells what keeps it busy.")
    if isinstance(error, errors.DiskFull | errors.OutOfMemory):
        return StoreFull(f"{where} has no room left ({why}). Free some space on the server.")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreFull(
            f"{where} can only be read: it is a standby, or default_transaction_read_only is on. Name the primary "
            "server in [store] url."
        )
    if isinstance(error, psycopg.DataError) or (error.sqlstate or "")[:2] in _REJECTED_CLASSES:
        # The server's words may quote the value.
        return StoreRejected(f"{where} cannot hold a value of what was to be stored ({type(error).__name__}).")
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(f"{where}: {why}. Grant the user what docs/TEAM.md names.")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        # What fails before there is a connection bears no code.
        if _CROWDED.search(why):
            return StoreBusy(f"{where} has no connection left ({why}). Try again, or raise max_connections there.")
        if _REFUSED.search(why):
            return StoreUnreachable(f"{where} refuses us ({why}). Correct [store] url, or what docs/TEAM.md sets up.")
        return StoreUnreachable(
            f"{where} cannot be reached ({why}). Start the server, or correct [store] url. "
            "What is captured waits in the inbox."
        )
    return StoreError(f"{where}: {why}. `mcp-memory doctor` looks for what is wrong.")
