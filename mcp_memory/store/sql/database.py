"""What the shared parts of a store take from an engine: reads, snapshots, transactions, and what only it can do.

The SQL of this room is written in a subset that all engines understand. What they do not share has a method here:
numbers, places in the log, and the rows of the index.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from mcp_memory.domain.terms import Columns
from mcp_memory.domain.tombstones import TombstoneKey

Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]
P = ParamSpec("P")
Result = TypeVar("Result")
_TOGETHER = 100
#: Tables whose numbers are places in the log: they are given in the order in which they are committed, never twice.
LOGS = ("event", "node_version", "compaction")
#: A document of the index is numbered by what it is of: four times the row's number, and its kind.
EVENT, NODE = 0, 2
#: A mark for each erasure, with spaces between them, the latest last.
ERASURES = "SELECT value FROM meta WHERE key = 'erasures'"
#: How many marks are kept. What has missed more is made anew.
_KEPT = 64
#: Whether summaries may be made of an event: on a team's server only of what is the team's.
SUMMARIZED = "(visibility = 'team' OR NOT EXISTS (SELECT 1 FROM meta WHERE key = 'team'))"
#: From which time on events are kept. What is older was dropped by quarters; segments that begin before it stay as they
#: are, since nothing is left to make them of.
KEPT = f"coalesce((SELECT CAST(value AS BIGINT) FROM meta WHERE key = 'kept_from'), {-(1 << 62)})"
#: Sets a fact about the whole memory.
SET_FACT = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


def marks(values: Sequence[Any]) -> str:
    """As many question marks as there are values, for a list in SQL; of none, what equals nothing."""
    return ",".join("?" * len(values)) or "NULL"


class Cursor(Protocol):
    """Rows that a statement gives."""

    def fetchall(self) -> list[Any]: ...

    def fetchone(self) -> Any: ...

    def fetchmany(self, size: int = ..., /) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Protocol):
    """What statements are run on, in the thread that has it."""

    def execute(self, sql: str, values: Values = ..., /) -> Cursor: ...

    def executemany(self, sql: str, rows: Iterable[Any], /) -> object: ...


class Transaction(ABC):
    """One transaction in progress, of a function that runs in a worker thread; `SqlDatabase.write` hands it out."""

    #: What keeps a row that was read from being changed until the end, where nothing else does.
    held = ""

    def __init__(self, connection: Any) -> None:
        self._connection: SqlConnection = connection

    def run(self, sql: str, values: Values = ()) -> None:
        self._connection.execute(sql, values)

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(sql, rows)

    def insert(self, into: str, rows: Sequence[Sequence[Any]], *, known: str = "") -> None:
        """Insert many rows by few statements: a statement lets other threads run, and waits for them when it is done.

        `into` names the table and its columns; `known` says what is done about a row that is there already.
        """
        for start in range(0, len(rows), _TOGETHER):
            part = rows[start : start + _TOGETHER]
            row = f"({', '.join('?' * len(part[0]))})"
            values = [value for each in part for value in each]
            self._connection.execute(f"INSERT INTO {into} VALUES {', '.join([row] * len(part))} {known}", values)

    def fetch(self, sql: str, values: Values = ()) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()

    def lock(self, names: Iterable[str]) -> None:  # noqa: B027  # where there is one writer, there is nothing to do
        """Let no one else go beyond this point with any of these names until the end of the transaction."""

    @abstractmethod
    def new_ids(self, table: str, many: int = 1) -> Sequence[int]:
        """So many numbers that no row of a table had yet. Those of `LOGS` grow in the order of commits."""

    @abstractmethod
    def last_id(self, table: str) -> int:
        """The last number that was given of one of `LOGS`."""

    @abstractmethod
    def skip_id(self, table: str) -> int:
        """Give one away without a row, so that a place in the log is told from the one before; the place it is."""

    @abstractmethod
    def index(self, documents: Sequence[tuple[int, Columns]]) -> None:
        """Put documents into the index, by their numbers."""

    @abstractmethod
    def unindex(self, documents: Sequence[tuple[int, Columns]]) -> None:
        """Take documents out of the index, given as they were put in."""

    @abstractmethod
    def empty_index(self) -> None: ...

    @abstractmethod
    def tombstone_key(self) -> TombstoneKey | None:
        """Return the key of this memory's tombstones; None if nothing has been forgotten yet, or the key is lost."""

    @abstractmethod
    def make_tombstone_key(self) -> TombstoneKey:
        """Make and store a key where there is none."""

    def tidy_index(self) -> None:  # noqa: B027
        """Let nothing be left in the index of what was taken out of it."""

    def note_lost_rows(self) -> None:  # noqa: B027
        """Note from which tables this transaction has erased rows, where their files are rewritten later."""

    def mark_team_erasure(self, events: Sequence[int], projects: Iterable[int] = ()) -> None:  # noqa: B027
        """Let members know that something which they could read is erased: of these events, or in these projects."""

    def clear_audit(self, is_meant: Callable[[str], bool]) -> None:  # noqa: B027
        """Take the names of these projects out of the audit, where there is one."""

    def keep_counting(self, table: str) -> None:  # noqa: B027
        """Numbers of what is gone are not given again: marks of erasures name them."""


class Reads(ABC):
    """What can be read from: the database as it stands, or a snapshot of it."""

    @abstractmethod
    async def fetch(self, sql: str, values: Values = ()) -> list[Row]: ...

    async def value(self, sql: str, values: Values = ()) -> Any:
        """The first column of the first row, None if there is no row."""
        rows = await self.fetch(sql, values)
        return rows[0][0] if rows else None

    @abstractmethod
    async def read(self, work: Callable[[Any], Result]) -> Result:
        """Reads that belong together: all see one committed state, and a thread is entered once for all of them."""

    @abstractmethod
    async def reached(self) -> dict[str, int]:
        """The last numbers that were given of `LOGS`."""

    @abstractmethod
    async def version(self) -> int:
        """The number of the schema."""


class Snapshot(Reads):
    """One committed state, read in the thread that holds it; handed out by `SqlDatabase.at_once` only.

    Nothing here ever waits, so that what awaits nothing else runs to its end without an event loop.
    """

    def __init__(self, connection: Any) -> None:
        self._connection: SqlConnection = connection

    async def fetch(self, sql: str, values: Values = ()) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()

    async def read(self, work: Callable[[Any], Result]) -> Result:
        return work(self._connection)


class SqlDatabase(Reads):
    """Owns the connections. Reads see the last committed state; writes go through `write`."""

    @abstractmethod
    async def write(self, work: Callable[Concatenate[Any, P], Result], *args: P.args, **named: P.kwargs) -> Result:
        """One write: all that `work` does with its transaction or nothing, whatever happens meanwhile.

        It runs in one worker thread from begin to commit, and is not given up half way when its caller is cancelled.
        """

    async def write_alone(
        self, work: Callable[Concatenate[Any, P], Result], *args: P.args, **named: P.kwargs
    ) -> Result:
        """The same while no one else writes: what is found holds until it is dealt with."""
        return await self.write(work, *args, **named)

    @abstractmethod
    def write_here(self, work: Callable[Concatenate[Any, P], Result], *args: P.args, **named: P.kwargs) -> Result:
        """The same in the caller's own thread, which must not be that of the event loop."""

    @abstractmethod
    async def at_once(self, work: Callable[[Any], Coroutine[Any, Any, Result]]) -> Result:
        """Read and think in one go, in one worker thread: handing over to it and back takes longer than most reads.

        What `work` does with the snapshot sees one committed state; it must not wait for anything else.
        """

    @abstractmethod
    async def read_as_transaction(self, work: Callable[[Any], Result]) -> Result:
        """Read by the same means as a write would, of which nothing is kept."""

    @abstractmethod
    async def data_version(self, *, own: bool = False) -> int:
        """A number that changes whenever someone else has written; with `own` also when we have."""


def finished(work: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine gives that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # it carries what the coroutine returned
    work.close()
    raise RuntimeError("Only the snapshot may be awaited here; nothing else could answer in this thread.")


def note_erasure(tx: Transaction) -> None:
    """Leave a mark in the transaction that erases."""
    left = " ".join(value for (value,) in tx.fetch(ERASURES)).split()
    tx.run(SET_FACT, ("erasures", " ".join([*left, secrets.token_hex(6)][-_KEPT:])))
    tx.note_lost_rows()
