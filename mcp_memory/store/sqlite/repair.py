"""Repair of a damaged database: it is kept aside, and a new one takes its place with all that is left to be found.

Sources are the damaged file itself as far as SQLite reads it, what SQLite's own `.recover` finds in it, and the newest
backup. Rows keep their numbers and keys, so the same row from several sources is one, and importing the same
transcripts again adds nothing twice.

The new file is made under a name of its own. While a file of that name is there, no one else opens the memory: servers
say why. It takes the memory's name in one step when it is complete, so a run that is killed has either changed nothing,
or leaves that file behind and is taken up by the next.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from mcp_memory.domain.events import EventType, Role
from mcp_memory.domain.records import digest
from mcp_memory.errors import Damage, NotFound, StoreBusy, StoreError, StoreFull
from mcp_memory.store.sql.database import Transaction
from mcp_memory.store.sql.projects import project_of
from mcp_memory.store.sql.records import forget_records
from mcp_memory.store.sql.store import index_all, start_anew
from mcp_memory.store.sql.tombstones import is_marked, rehash
from mcp_memory.store.sqlite.backup import backups_of
from mcp_memory.store.sqlite.database import SqliteTransaction, told
from mcp_memory.store.sqlite.diagnosis import examine
from mcp_memory.store.sqlite.migrations import (
    INBOX,
    INBOX_FILE,
    KEYED,
    MEMORY,
    PAYLOAD,
    create,
    filled,
    latest,
    remove_partial,
    rescue_of,
    version_of,
)

Result = TypeVar("Result")
_COMPANIONS = ("-wal", "-shm")
#: Where SQLite keeps its locks in a file, and how many bytes: whoever has the database open holds some of them.
_LOCKED_AT, _LOCKED_BYTES = 0x40000002, 510
#: Whoever looked for a repair just before this one began has opened the memory by then, and is seen.
_SETTLE_SECONDS = 0.25
#: What reading a damaged file raises; the words of an error may quote it.
_UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
_MARK = ".corrupt-"
_CHUNK = 500
#: No table was ever given so many rows.
_LAST_ROW = 1 << 53
#: What is said of pages that name each other in a circle.
_CIRCLE = "rows come again"
#: A lease is held by no one in a new file.
_LEFT_OUT = "lease"
#: Rows that the program never wrote: a flipped bit may leave a page readable.
_IMPOSSIBLE = {
    "event": f"""typeof(key) <> 'blob' OR length(key) <> 10 OR typeof(text) <> 'text' OR typeof(session) <> 'integer'
        OR typeof(source_ids) <> 'text' OR typeof(metadata) <> 'text'
        OR typeof(timestamp_ms) <> 'integer' OR typeof(tokens) <> 'integer' OR truncated NOT IN (0, 1)
        OR coalesce(json_type(CASE WHEN json_valid(source_ids) THEN source_ids END), '') <> 'array'
        OR coalesce(json_type(CASE WHEN json_valid(metadata) THEN metadata END), '') <> 'object'
        OR type NOT IN ({", ".join(f"'{kind}'" for kind in EventType)})
        OR role NOT IN ({", ".join(f"'{role}'" for role in Role)})""",
    "session": "client = '' OR session_id = '' OR typeof(project) <> 'integer'",
    "project": "slug = '' OR root = ''",
    "forgotten": "typeof(key) <> 'blob' OR length(key) <> 10",
    "compaction": "NOT (json_valid(key_points) AND json_valid(context))",
}
_IMPOSSIBLE_LOCALLY = {
    "inbox": "state NOT IN (0, 1) OR typeof(received_ms) <> 'integer'",
    "checkpoint": "NOT json_valid(position)",
    "handed": "typeof(at_ms) <> 'integer' OR NOT json_valid(ids)",
}
#: What no tree has that the program wrote, beside references to rows that are not there.
_ODD = (
    "SELECT 1 FROM node n LEFT JOIN node_version v ON v.id = n.current AND v.node = n.id WHERE v.id IS NULL",
    "SELECT 1 FROM node_version WHERE NOT (json_valid(keywords) AND json_valid(children))",
    "SELECT 1 FROM bullet WHERE NOT (json_valid(grips) AND json_valid(children))",
    "SELECT 1 FROM segment WHERE node IS NOT NULL AND node NOT IN (SELECT id FROM node)",
)
#: Tables that hold rows of ours: not those of the index, nor SQLite's own.
_TABLES = """
    SELECT name, sql FROM sqlite_schema
    WHERE type = 'table' AND name NOT LIKE 'search%' AND name NOT LIKE 'sqlite%' AND sql NOT LIKE 'CREATE VIRTUAL%'
"""
_ADD_SEQUENCE = """
    INSERT INTO sqlite_sequence (name, seq)
    SELECT :name, 0 WHERE :name NOT IN (SELECT name FROM sqlite_sequence)
"""
_COUNTS = """
    SELECT (SELECT count(*) FROM event), (SELECT count(*) FROM session), (SELECT count(*) FROM project)
"""
#: Numbers that were given to events, less those that are there and those that forgetting took.
_GAPS = """
    SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0) - (SELECT count(*) FROM event)
           - (SELECT count(*) FROM forgotten) - (SELECT count(DISTINCT at_event) FROM erased)
"""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What came of it: where the damaged file is now, how much the new one holds, and what gave it anything."""

    path: Path
    events: int
    sessions: int
    projects: int
    #: Events that are known to be missing; some that were forgotten may be among them.
    lost: int
    sources: tuple[str, ...]
    #: Tables of the damaged file that could not be read to their end.
    damaged: tuple[str, ...]
    #: Whether the tree came along; else it is made anew from the events.
    tree: bool


def repair(path: Path, timezone: str) -> Repaired:
    """Put a new memory in the place of a damaged one. `timezone`: of its days, if no source tells."""
    with told(path):
        problems = examine(path)[1] if path.exists() else [Damage("", "", "")]
        if not problems:
            remove_partial(rescue_of(path))
            raise StoreError(f"{path} is whole and was left alone; `mcp-memory doctor` finds no damage in it.")
        if not isinstance(problems[0], Damage):
            raise StoreError(f"{problems[0].what}. {problems[0].why} Nothing was changed. {problems[0].fix}")
        return _put_in_place(path, lambda old: _make_anew(old, path, rescue_of(path), timezone))


def repair_inbox(path: Path) -> Path:
    """The same for the inbox, of which there are no backups; gives the name that the damaged one has now."""
    with told(path):
        return _put_in_place(path, lambda old: _fill_inbox(old, rescue_of(path)))


def _put_in_place(path: Path, make: Callable[[Path], Result]) -> Result:
    """Set the damaged file aside, and give its name to the one that is made in place of it."""
    rescue = rescue_of(path)
    if path.exists():
        needed = 3 * path.stat().st_size
        if shutil.disk_usage(path.parent).free < needed:
            needs = f"{needed // 2**20} MB"
            raise StoreFull(f"The repair of {path} needs {needs}. Free some space; nothing was changed.")
        old = _set_aside(path, rescue)
    else:  # by a run that was killed
        asides = path.parent.glob(f"{path.name}{_MARK}*")
        left = sorted(entry for entry in asides if not entry.name.endswith(_COMPANIONS))
        if not (rescue.exists() and left):
            raise NotFound(f"There is no database at {path}; there is nothing to repair.")
        old = left[-1]
    log = path.with_name(f"{path.name}-wal")
    unused = log.exists() and not log.stat().st_size  # as looking at the database leaves it
    for suffix in _COMPANIONS:  # SQLite would take the log for that of the new database
        rescue.with_name(rescue.name + suffix).unlink(missing_ok=True)
        beside = path.with_name(path.name + suffix)
        if unused:
            beside.unlink(missing_ok=True)
        elif beside.exists():
            os.replace(beside, old.with_name(old.name + suffix))
    os.truncate(rescue, 0)  # the empty file keeps others out
    made = make(old)
    with open(rescue, "r+b") as file:
        os.fsync(file.fileno())
    if path.exists():
        raise StoreBusy(f"Another program has made a new {path}. End it, remove that file, and try again.")
    os.replace(rescue, path)
    return made


def _set_aside(path: Path, rescue: Path) -> Path:
    """The new name of the damaged file, which it gets only if no one else has it open."""
    ours = not rescue.exists()
    os.close(os.open(rescue, os.O_CREAT | os.O_RDWR, 0o600))
    time.sleep(_SETTLE_SECONDS)
    old = path.with_name(f"{path.name}{_MARK}{datetime.now(UTC):%Y%m%d-%H%M%S}")
    try:
        # Opening it with SQLite could change it. On Windows a file that anyone has open cannot be renamed.
        with open(path, "r+b", buffering=0) as file:
            if sys.platform != "win32":
                import fcntl

                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKED_BYTES, _LOCKED_AT)
                os.rename(path, old)
        if sys.platform == "win32":
            os.rename(path, old)
    except FileNotFoundError:
        raise StoreBusy(f"{path} is being repaired by another run of this command.") from None
    except (BlockingIOError, PermissionError) as error:
        if ours:
            remove_partial(rescue)
        raise StoreBusy(
            f"{path} is open in another program, such as an agent's memory server. Nothing was changed. "
            "End your agents, then run this again; what they capture until then is kept."
        ) from error
    return old


def _make_anew(old: Path, path: Path, rescue: Path, timezone: str) -> Repaired:
    """Fill a new database from all sources; the damaged file is only copied."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="repair-") as folder, _new(rescue, MEMORY) as target:
        given: list[str] = []
        damaged, version = ["event"], 0
        for name, source in _sources(old, path, Path(folder)):
            had = sum(target.execute(_COUNTS).fetchone())
            with (
                suppress(*_UNREADABLE),  # it cannot even be opened
                closing(sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True)) as connection,
            ):
                failed = _pour(connection, target, trusted=name == "backup")
                if 0 < version_of(connection) < KEYED:
                    with suppress(*_UNREADABLE, StoreError):
                        rehash(SqliteTransaction(target), connection)
                if name == "file":
                    damaged, version = failed, version_of(connection)
                    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'inbox'").fetchone():
                        # As earlier versions had it; where transcripts were read to is found out anew.
                        with filled(path.with_name(INBOX_FILE), _rows(connection, "inbox", [*PAYLOAD], True, damaged)):
                            pass
            for table, sql in _IMPOSSIBLE.items():
                if target.execute(f"DELETE FROM {table} WHERE {sql}").rowcount:
                    damaged.append(table)
            if sum(target.execute(_COUNTS).fetchone()) > had:
                given.append(name)
            if not damaged:
                break
        tree = _finish(SqliteTransaction(target), timezone, tree=not damaged and version == latest())
        events, sessions, projects = target.execute(_COUNTS).fetchone()
        lost = 0 if not damaged else max(0, target.execute(_GAPS).fetchone()[0])
    return Repaired(old, events, sessions, projects, lost, tuple(given), tuple(dict.fromkeys(damaged)), tree)


@contextmanager
def _new(rescue: Path, kind: str) -> Iterator[sqlite3.Connection]:
    """A new database to be filled. No one sees it before it is complete; an unfinished one is thrown away."""
    with closing(sqlite3.connect(rescue, isolation_level=None)) as target:
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        create(target, kind)
        target.execute("BEGIN IMMEDIATE")
        yield target
        target.execute("COMMIT")
        target.execute("PRAGMA journal_mode = WAL")


def _fill_inbox(old: Path, rescue: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=old.parent, prefix="repair-") as folder, _new(rescue, INBOX) as target:
        for _, source in _sources(old, None, Path(folder)):
            with (
                suppress(*_UNREADABLE),
                closing(sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True)) as connection,
            ):
                _pour(connection, target, trusted=False)
            for table, sql in _IMPOSSIBLE_LOCALLY.items():
                target.execute(f"DELETE FROM {table} WHERE {sql}")
    return old


def _sources(old: Path, path: Path | None, folder: Path) -> Iterator[tuple[str, Path]]:
    """Databases to read from, each a copy that may be written to: opening a damaged file can change it."""
    damaged = folder / "damaged.db"
    shutil.copyfile(old, damaged)
    with suppress(FileNotFoundError):
        shutil.copyfile(old.with_name(f"{old.name}-wal"), folder / "damaged.db-wal")
    yield "file", damaged
    recovered = folder / "recovered.db"
    if _recover(damaged, recovered, "event" if path else "inbox"):
        yield "recover", recovered
    for number, found in enumerate(reversed(backups_of(path) if path else [])):
        copy = folder / f"backup-{number}.db"
        shutil.copyfile(found, copy)
        if _is_whole(copy):
            yield "backup", copy
            return


def _recover(damaged: Path, recovered: Path, table: str) -> bool:
    """Let the `sqlite3` program do it, if there is one; some are built without the means."""
    program = shutil.which("sqlite3")
    if program is None:
        return False
    with (
        subprocess.Popen(
            [program, "-batch", str(damaged), ".recover --ignore-freelist"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as reader,
        subprocess.Popen(
            [program, "-batch", str(recovered)],
            stdin=reader.stdout,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ),
    ):
        pass
    return recovered.exists() and _is_whole(recovered, table)


def _is_whole(path: Path, table: str = "event") -> bool:
    """Whether SQLite finds nothing wrong with it, and it holds such a table."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"SELECT id FROM {table} LIMIT 1")
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except _UNREADABLE:
        return False


def _pour(source: sqlite3.Connection, target: sqlite3.Connection, *, trusted: bool) -> list[str]:
    """Bring over all rows that are not there yet. Which tables could not be read to their end.

    `trusted`: what it says of an event counts, since the damaged file may have changed a letter.
    """
    source.execute(
        "PRAGMA writable_schema = ON"
    )  # else SQLite refuses a file that is too short, or whose schema is odd
    source.text_factory = lambda data: data.decode("utf-8", "replace")
    current = version_of(source) == version_of(target)
    failed: list[str] = []
    for table, sql in target.execute(_TABLES).fetchall():
        columns = f"SELECT name FROM pragma_table_info('{table}') ORDER BY pk = 0, pk"
        wanted = [name for (name,) in target.execute(columns)]
        there = {name for (name,) in source.execute(columns)}
        names = [name for name in wanted if name in there]
        # A source of an older version lacks some, but never what its events are in.
        if (current and names != wanted) or (not names and table in ("event", "session", "project")):
            failed.append(table)
        if names and table != _LEFT_OUT:
            rows = _rows(source, table, names, "WITHOUT ROWID" not in sql, failed)
            known = "REPLACE" if trusted and table == "event" else "IGNORE"
            insert = f"INSERT OR {known} INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            while chunk := list(islice(rows, _CHUNK)):
                target.executemany(insert, chunk)
    with suppress(*_UNREADABLE):
        # Numbers are places in the log and are not given twice, whatever became of what had them.
        for name, last in source.execute("SELECT name, seq FROM sqlite_sequence").fetchall():
            if isinstance(last, int) and 0 < last < _LAST_ROW:
                values = {"name": name, "last": last}
                target.execute(_ADD_SEQUENCE, values)
                target.execute("UPDATE sqlite_sequence SET seq = max(seq, :last) WHERE name = :name", values)
    return failed


def _rows(
    source: sqlite3.Connection, table: str, names: list[str], numbered: bool, failed: list[str]
) -> Iterator[tuple[object, ...]]:
    """All rows that SQLite can read: it stops at a bad page, and is asked to go on behind it."""
    columns = ", ".join(names)
    if not numbered:
        for order in ("", f" ORDER BY {columns} DESC"):
            try:
                yield from _once(source.execute(f"SELECT {columns} FROM {table}{order}"))
                return
            except _UNREADABLE:
                failed.append(table)
        return
    after, step = -_LAST_ROW, 1
    while after < _LAST_ROW:
        try:
            sql = f"SELECT rowid, {columns} FROM {table} NOT INDEXED WHERE rowid > ? ORDER BY rowid"
            for row in _once(source.execute(sql, (after,))):
                # A damaged page may hold numbers in no order; whoever goes on behind a lower one never ends.
                step = 1 if row[0] > after else step
                after = max(after, row[0])
                yield row[1:]
            return
        except _UNREADABLE:
            failed.append(table)
            after, step = max(after, 0) + step, step * 2


def _once(rows: Iterable[Any]) -> Iterator[Any]:
    """The rows, for as long as none comes again: damaged pages may name each other, and then they never end.

    Each row is compared with one that came before it, a later one each time that twice as many have come.
    """
    marked, next_mark = object(), 1
    for count, row in enumerate(rows, 1):
        if row == marked:
            raise sqlite3.DatabaseError(_CIRCLE)
        if count == next_mark:
            marked, next_mark = row, 2 * next_mark
        yield row


def _finish(tx: Transaction, timezone: str, *, tree: bool) -> bool:
    """Make one memory of what came together; whether its tree could be kept."""
    # It is another one: transcripts are read into it from their start.
    tx.run("DELETE FROM meta WHERE key = 'memory'")
    numbers = {bytes(key): number for number, key in tx.fetch("SELECT id, key FROM event")}
    forgotten = list[tuple[int]]()
    with suppress(StoreError):  # the inbox with the key may be damaged as well, and is repaired next
        forgotten = [(numbers[key],) for key in is_marked(tx, [*numbers])]
    tx.run_many("DELETE FROM event WHERE id = ?", forgotten)
    for (session,) in tx.fetch("SELECT DISTINCT session FROM event WHERE session NOT IN (SELECT id FROM session)"):
        values = (session, "unknown", f"recovered-{session}", project_of(tx, "", "recovered"))
        tx.run("INSERT INTO session (id, client, session_id, project) VALUES (?, ?, ?, ?)", values)
        tree = False
    tx.run("DELETE FROM session WHERE id NOT IN (SELECT session FROM event)")
    for (project,) in tx.fetch("SELECT DISTINCT project FROM session WHERE project NOT IN (SELECT id FROM project)"):
        name = f"recovered-{project}"
        tx.run("INSERT OR IGNORE INTO project (id, slug, root) VALUES (?, ?, ?)", (project, name, f"label:{name}"))
        tree = False
    tx.run("DELETE FROM project_alias WHERE project NOT IN (SELECT id FROM project)")
    # A session's records tell what their events said. Those that no longer can are made anew.
    cited = tx.fetch("SELECT o.event, o.sha256, e.text FROM compaction_source o LEFT JOIN event e ON e.id = o.event")
    forget_records(tx, [event for event, sha256, text in cited if text is None or digest(text) != sha256])
    rows = tx.fetch("SELECT value FROM meta WHERE key = 'timezone'")
    zone = rows[0][0] if rows else timezone
    try:
        ZoneInfo(zone)
    except (ValueError, KeyError, OSError):
        zone = timezone
    if tree and not forgotten and not tree_problems(tx):
        index_all(tx)
        return True
    start_anew(tx, zone)
    tx.run("INSERT OR IGNORE INTO dirty_compaction (session) SELECT DISTINCT session FROM event")
    return False


def tree_problems(tx: Transaction) -> bool:
    """Whether the tree holds what the program cannot have written."""
    return bool(tx.fetch("PRAGMA foreign_key_check")) or any(tx.fetch(f"{sql} LIMIT 1") for sql in _ODD)


def mend_derived(tx: Transaction, timezone: str) -> bool:
    """Index a memory anew that is whole, and drop its tree if that is not. Whether the tree was kept."""
    if tree_problems(tx):
        start_anew(tx, timezone)
        return False
    tx.run("INSERT INTO search (search) VALUES ('delete-all')")
    index_all(tx)
    return True
