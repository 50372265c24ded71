"""A memory is copied from one engine to another, table by table, and both are compared until nothing differs.

Nothing is remembered on the way. Each round reads one state of the source and makes the target equal to it, so that a
copy that was interrupted goes on where it stood, and what was written meanwhile comes with the next round. Numbers are
kept, since they are places in the log. The index is the target's own and is filled anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp_memory.domain.tombstones import TombstoneKey
from mcp_memory.errors import StoreBusy, StoreError, UsageError
from mcp_memory.store.sql.database import Row

#: So many rows are compared at once.
PAGE = 1_000
#: How often what was written meanwhile is fetched before the user is asked to end what writes.
_ROUNDS = 5
#: What no copy takes along, and why.
LEFT_OUT = {
    "lease": "who is at work is no matter of another place",
    "search": "the index is the engine's own, and filled anew",
    "frequency": "part of the index",
    "log_place": "the last numbers that were given are set by themselves",
    "quarter": "partitions are made as they are needed",
    "migration": "the schema is the engine's own",
    "secret": "the key of the tombstones is kept apart from them",
    "to_rewrite": "the files are those of one server",
}
#: What only a server has. In a file there is no one who could ask.
OF_A_SERVER = (
    "team_user",
    "team_token",
    "team_session",
    "team_member",
    "audit",
    "owner",
    "begun_project",
    "team_erasure",
)
#: Columns that an engine keeps for itself, and works out from the others.
WORKED_OUT = {"session": {"shared"}}
#: Facts that are true of one place alone.
_OWN_FACTS = frozenset({"moving", "moved", "counted", "scrubbed", "rewritten"})

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Table:
    """A table, its columns, and those by which its rows are told apart and put in order; none: a whole row is."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def key_of(self, row: Row) -> Row:
        return tuple(row[self.columns.index(name)] for name in self.key) if self.key else row


@dataclass(frozen=True, slots=True)
class Difference:
    """What makes a part of the target equal to the source: rows to take out, and rows to put in."""

    gone: Sequence[Row]
    new: Sequence[Row]

    def erases(self, table: Table) -> bool:
        """Whether something that was said is to be nowhere any more."""
        if table.name.startswith("dirty_") or table.name == "failure":
            return False
        left = {table.key_of(row) for row in self.new} if table.name != "event" else ()
        return any(table.key_of(row) not in left for row in self.gone)


class Conflict(Exception):
    """A row cannot be put in while another, which a later page takes out, has the same name."""


class MoveSource(Protocol):
    """A memory that is read, at one moment."""

    #: What to call it, without a password.
    name: str

    def tables(self) -> dict[str, Table]: ...

    def moment(self) -> AbstractContextManager[None]:
        """What is read within sees one state."""

    def rows(self, table: Table, after: Row | None, last: Row | None, limit: int | None) -> list[Row]:
        """Rows in the order of their keys, those behind one key and up to another; times and texts as plain values."""

    def count(self, table: str) -> int: ...

    def facts(self) -> dict[str, str]: ...

    def places(self) -> dict[str, int]:
        """The last number that was given in each log."""

    def tombstone_key(self) -> TombstoneKey | None:
        """Return the key of its tombstones; None if nothing was ever forgotten."""


class MoveTarget(MoveSource, Protocol):
    """A memory that is being filled. What is written is kept at once."""

    def begin(self, mark: str) -> None:
        """Note that it is not whole, and let go of what would only be in the way until it is."""

    def change(self, table: Table, difference: Difference) -> None:
        """Raises Conflict, with nothing changed, if names are in each other's way."""

    def keep_tombstone_key(self, key: TombstoneKey) -> None:
        """Store the key where a memory of this kind keeps it."""

    def fill_index(self, progress: Callable[[int], None]) -> None:
        """Index what is not indexed yet."""

    def finish(self, places: Mapping[str, int], mark: str) -> None:
        """Put back what was let go of, count on from these numbers, and note that it is whole, in one go."""


@dataclass(slots=True)
class TableCopy:
    """A table as it is in both places."""

    rows: int = 0
    sha256: str = ""


@dataclass(slots=True)
class Copied:
    """What came of it: each table, how many rows had to be written, and what a file has no place for."""

    tables: dict[str, TableCopy] = field(default_factory=dict)
    written: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    #: The last number that was given in each log.
    places: dict[str, int] = field(default_factory=dict)
    rounds: int = 1
    #: Whether the source was written to all the while, so that what came last is missing.
    meanwhile: bool = False

    @property
    def sha256(self) -> str:
        told = [(name, copy.rows, copy.sha256) for name, copy in sorted(self.tables.items())]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def tables_to_move(source: MoveSource, target: MoveSource) -> tuple[list[Table], list[str]]:
    """The tables that both have, and those with rows that the target has no place for."""
    ours, theirs = source.tables(), target.tables()
    moved, missing = [], []
    for name, table in sorted(ours.items()):
        if name in LEFT_OUT:
            continue
        if name not in theirs:
            if name not in OF_A_SERVER:
                raise StoreError(f"The table {name} has no counterpart in {target.name}. Update mcp-memory there.")
            missing += [name] if source.count(name) else []
            continue
        if lost := {*table.columns} - {*theirs[name].columns} - WORKED_OUT.get(name, set()):
            raise StoreError(f"{target.name} has no {', '.join(sorted(lost))} in {name}. Update mcp-memory there.")
        columns = tuple(column for column in table.columns if column in theirs[name].columns)
        moved.append(Table(name, columns, table.key))
    return moved, missing


def identity_of(source: MoveSource) -> str:
    """By what a copy knows again what it is a copy of."""
    return source.facts().get("memory") or f"unnamed {source.name}"


def check(source: MoveSource, target: MoveSource) -> None:
    """Refuse a target that holds anything but a copy of this memory to which nothing was added."""
    facts, name = target.facts(), identity_of(source)
    held = {table: target.count(table) for table in target.tables() if table not in (*LEFT_OUT, "meta")}
    if "moving" in facts:
        if json.loads(facts["moving"])["from"] != name:
            raise UsageError(f"{target.name} is being filled from another memory. Name another place.")
    elif "moved" in facts:
        mark = json.loads(facts["moved"])
        if mark["from"] != name:
            raise UsageError(f"{target.name} holds a copy of another memory. Name another place.")
        if mark["sha256"] != _state_of(source, target).sha256:
            raise UsageError(
                f"{target.name} holds a copy of this memory to which something was added since. Nothing was changed "
                "there: to copy over it would lose that. Name another place."
            )
    elif any(held.values()):
        raise UsageError(
            f"{target.name} holds a memory already ({held.get('event', 0):,} events). Nothing was changed there. Name "
            "an empty place, or move that one out of the way."
        )


def move(source: MoveSource, target: MoveTarget, changes: Callable[[], int], progress: Progress) -> Copied:
    """Copy until nothing was written meanwhile. `changes`: a number that is another one whenever something was."""
    target.begin(json.dumps({"from": identity_of(source)}))
    if key := source.tombstone_key():
        target.keep_tombstone_key(key)
    written = 0
    for number in range(1, _ROUNDS + 1):
        before = changes()
        found = _copy_round(source, target, progress)
        written, last = written + found.written, found.places["event"]
        target.fill_index(lambda done, last=last: progress(done, last, "Indexing"))  # type: ignore[misc]  # its default
        found.written, found.rounds, found.meanwhile = written, number, changes() != before
        if not found.meanwhile:
            break
    progress(0, 0, "Putting in place")
    target.finish(found.places, json.dumps({"from": identity_of(source), "sha256": found.sha256}))
    return found


def _copy_round(source: MoveSource, target: MoveTarget, progress: Progress) -> Copied:
    """Make the target equal to one state of the source, and see that it is."""
    with source.moment():
        tables, missing = tables_to_move(source, target)
        total, done = sum(source.count(table.name) for table in tables), 0
        found = Copied(left_out={name: source.count(name) for name in missing}, places=source.places())

        def told(label: str, many: int) -> None:
            nonlocal done
            done += many
            progress(min(done, total), total, label)

        for table in tables:
            try:
                found.written += _levelled(source, target, table, told)
            except Conflict:
                _levelled(source, target, table, told, only_gone=True)
                found.written += _levelled(source, target, table, told)
        done = 0
        for table in tables:
            found.tables[table.name] = _verified(source, target, table, told)
        return found


def _levelled(
    source: MoveSource,
    target: MoveTarget,
    table: Table,
    told: Callable[[str, int], None],
    *,
    only_gone: bool = False,
) -> int:
    """Make a table equal to that of the source; how many rows were taken out and put in."""
    written = 0
    for wanted, there in _pages(source, target, table):
        if wanted != there:
            difference = _difference(table, wanted, there)
            difference = Difference(difference.gone, ()) if only_gone else difference
            target.change(table, difference)
            written += len(difference.gone) + len(difference.new)
        told("Copying", len(wanted))
    return written


def _verified(source: MoveSource, target: MoveSource, table: Table, told: Callable[[str, int], None]) -> TableCopy:
    """Count and hash both, and compare."""
    counts, hashes = [0, 0], [hashlib.sha256(), hashlib.sha256()]
    for pages in _pages(source, target, table):
        for side, rows in enumerate(pages):
            counts[side] += len(rows)
            hashes[side].update(_canonical(rows))
        told("Comparing", len(pages[0]))
    ours, theirs = (TableCopy(count, sha.hexdigest()) for count, sha in zip(counts, hashes, strict=True))
    if ours != theirs:
        raise StoreBusy(
            f"{table.name} differs: {ours.rows:,} rows here, {theirs.rows:,} in {target.name}. Someone else writes "
            "there: end that, and run this again."
        )
    return ours


def _state_of(source: MoveSource, target: MoveSource) -> Copied:
    """What a copy holds of the tables of its source, by counts and hashes."""
    found = Copied()
    with target.moment():
        for table in tables_to_move(source, target)[0]:
            found.tables[table.name] = _verified(target, target, table, lambda *_: None)
    return found


def _pages(source: MoveSource, target: MoveSource, table: Table) -> Iterator[tuple[list[Row], list[Row]]]:
    """The rows of both, page by page, each page up to the same key."""
    limit = PAGE if table.key else None
    after: Row | None = None
    while True:
        wanted = source.rows(table, after, None, limit)
        last = table.key_of(wanted[-1]) if limit and len(wanted) == limit else None
        there = wanted if target is source else target.rows(table, after, last, None)
        yield _shared(table, wanted), _shared(table, there)
        if last is None:
            return
        after = last


def _shared(table: Table, rows: list[Row]) -> list[Row]:
    """Without what is true of one place alone."""
    return [row for row in rows if row[0] not in _OWN_FACTS] if table.name == "meta" else rows


def _difference(table: Table, wanted: Sequence[Row], there: Sequence[Row]) -> Difference:
    if not table.key:
        return Difference(there, wanted)
    ours, theirs = ({table.key_of(row): row for row in rows} for rows in (wanted, there))
    return Difference(
        [row for key, row in theirs.items() if ours.get(key) != row],
        [row for key, row in ours.items() if theirs.get(key) != row],
    )


def _canonical(rows: Sequence[Row]) -> bytes:
    """The same bytes for the same rows, whatever engine they come from."""
    return "\n".join(map(repr, rows)).encode("utf-8", "surrogatepass") + b"\n"


def plain(value: Any) -> Any:
    """A value as both engines can hold it: PostgreSQL keeps no NUL in a text."""
    if isinstance(value, str):
        return value.replace("\0", "") if "\0" in value else value
    return bytes(value) if isinstance(value, memoryview | bytearray) else value
