"""The file behind a database: made and upgraded by numbered migrations, and watched for being replaced.

schema/NNNN_name.sql is applied once, in a transaction, after a backup of what was there.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from mcp_memory.capture import inbox as hook_side
from mcp_memory.capture.clipping import clean
from mcp_memory.capture.settings import private_dir
from mcp_memory.domain.events import opaque
from mcp_memory.domain.records import digest
from mcp_memory.domain.storable import storable_json
from mcp_memory.errors import UPDATE, StoreBusy, StoreCorrupt, StoreFull, StoreNewer

Identity = tuple[int, int]
_LOCKS = Path("/proc/locks")
#: Which bytes of the file beside the log a reader of an earlier state has locked.
READ_MARKS = range(123, 128)


def prepare_folder(folder: Path) -> None:
    """The data directory belongs to its user alone."""
    private_dir(str(folder))
    if os.name == "posix" and folder.stat().st_mode & 0o077 and folder.stat().st_uid == os.getuid():
        folder.chmod(0o700)


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def damaged(path: Path, why: str, kept: str = "Nothing was changed.") -> StoreCorrupt:
    """What to say of a file that is no database any more, or not a whole one."""
    return StoreCorrupt(
        f"{path} is damaged ({why}). {kept} End your agents, then run `mcp-memory doctor --repair`, which keeps the "
        "damaged file and makes a new one from what can still be read and from the newest backup."
    )


def is_fixed(path: Path) -> bool:
    """Whether the file lies where nothing can be written, and no one is writing to it: then it is read as it lies.

    Else SQLite wants to make files beside it, even to read.
    """
    return path.exists() and not os.access(path.parent, os.W_OK) and not log_of(path).exists()


def uri(path: Path) -> str:
    """The file for reading alone, as an SQLite URI."""
    return f"{path.absolute().as_uri()}?{'immutable=1' if is_fixed(path) else 'mode=ro'}"


def holder(path: Path, kind: str = "WRITE", place: range | None = None) -> str:
    """The program that keeps others from the database, as far as the system tells; else `another program`."""
    numbers = {str(found[1]) for name in ("", "-shm") if (found := identity(path.with_name(path.name + name)))}
    with suppress(OSError):
        for line in _LOCKS.read_text("ascii", "replace").splitlines():
            # 1: POSIX ADVISORY WRITE 4711 fd:00:1048602 1073741826 1073742335; one that waits has an arrow.
            words = line.split()
            if len(words) != 8 or words[3] != kind or words[5].rpartition(":")[2] not in numbers:
                continue
            if place and (not words[6].isdigit() or int(words[6]) not in place):
                continue
            pid = int(words[4])
            if pid > 0 and pid != os.getpid():
                name = ""
                with suppress(OSError):
                    name = Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
                return f"{name or 'a program'} (process {pid})"
    return "another program"


def identity(path: Path) -> Identity | None:
    """What tells a file from another that takes its name; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


#: How long a file is waited for that another program wants for itself, and for another that migrates it.
_SECONDS = 4
_MIGRATING_MS = 15_000
#: What is added to the name of a new database until it is whole, and when one that is not yet will not be.
_NEW = ".new-"
_ABANDONED_SECONDS = 60
#: A copy is made in steps of so many pages, and its check looks up after so many operations.
_PAGES, _OPERATIONS = 1_000, 100_000
EMPTY = "it is empty: zero bytes, where a memory was"
#: Before this version, readers of transcripts kept words; a copy of such a file is made without them.
_WORDLESS = 4
_DROP_WORDS = """
    UPDATE checkpoint SET position = json_remove(position, '$.memory.tools', '$.memory.queue', '$.memory.agents',
        '$.memory.calls', '$.memory.running', '$.memory.held', '$.memory.answer')
"""


INBOX_FILE = hook_side.DATABASE
#: The two kinds of files, by the folder that their migrations are in below `schema`.
MEMORY, INBOX = "", "inbox"
#: From this version on a memory leaves what is local to a machine to inbox.db.
_LOCAL = 6
#: After a step that empties the index, it is filled anew.
_EMPTIES_INDEX = "('delete-all')"
#: This step replaces NULs in what is stored: in plain texts, and in columns that hold JSON.
_STORABLE = 14
#: This step gives tombstones keyed hashes. Copies of before lose theirs, which could be guessed; inbox.db has them.
KEYED = 17
_BACKUPS = "backups/memory-*.db"
_DROP_TOMBSTONES = ("DELETE FROM forgotten", "DELETE FROM forgotten_words")
_TEXT_COLUMNS = """
    SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c
    WHERE m.type = 'table' AND m.rootpage > 0 AND c.type = 'TEXT' AND m.name NOT LIKE 'search%'
"""
_DOCUMENTS = frozenset("metadata source_ids keywords children grips key_points context".split())
#: What the index is made of. Its rows must be taken out as they were put in, so it is emptied and filled again.
_INDEXED = frozenset({("event", "text"), ("node_version", "title"), ("node_version", "keywords"), ("bullet", "text")})
#: What is added to the number of a payload that comes from the memory, so that it comes before all others, and once.
_BEFORE = -(1 << 40)
PAYLOAD = ("id", "received_ms", "client", "root", "label", "payload", "state")
#: What is added to the name of a memory while it is made anew from a damaged one, and no one may open it.
_RESCUE = ".rescue"


@cache
def steps(kind: str = MEMORY) -> Sequence[tuple[int, str]]:
    """All migrations, in order: number and SQL. Read once: an update under a running server is not for its code."""
    files = (Path(__file__).with_name("schema") / kind).glob("[0-9][0-9][0-9][0-9]_*.sql")
    return tuple(sorted((int(file.name[:4]), file.read_text("utf-8")) for file in files))


def latest(kind: str = MEMORY) -> int:
    return steps(kind)[-1][0]


def rescue_of(path: Path) -> Path:
    """The name under which a new database is made from a damaged one; while it is there, no one opens the memory."""
    return path.with_name(path.name + _RESCUE)


def create(connection: sqlite3.Connection, kind: str = MEMORY) -> None:
    """Give an empty file the latest schema."""
    _apply(connection, steps(kind), kind=kind)


def migrate(path: Path, kind: str = MEMORY) -> None:
    """Bring the file to the latest schema. A newer one is refused before anything is written."""
    if rescue_of(path).exists():
        raise StoreBusy(
            f"{path} is being made anew from a damaged one. Wait for that to end; if it was interrupted, run "
            "`mcp-memory doctor --repair` again. What is captured meanwhile is kept."
        )
    fixed = is_fixed(path)
    _clear_unfinished(path)
    if not path.exists():
        _make(path, kind)
    elif not path.stat().st_size:
        # Ours never has this name before it is whole: what was in it is gone.
        raise damaged(path, EMPTY)
    name = uri(path) if fixed else str(path)
    with closing(sqlite3.connect(name, isolation_level=None, timeout=_SECONDS, uri=True)) as connection:
        version = version_of(connection)
        todo = [step for step in steps(kind) if step[0] > version]
        if version > latest(kind):
            raise newer(version, path, kind)
        if todo and fixed:
            raise StoreFull(
                f"{path} is of an older version, and {path.parent} cannot be written, so that it cannot be brought up "
                "to date. Correct the permissions, or copy it elsewhere and set MCP_MEMORY_HOME to that directory."
            )
        if todo:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA busy_timeout = {_MIGRATING_MS}")
            # What passes through the inbox is not copied: no one would go back to it, and it holds words.
            _apply(connection, todo, path if kind == MEMORY else None, kind)


def _make(path: Path, kind: str) -> None:
    """A new database, which gets its name when it is whole, so that an empty file of that name is no new memory.

    Of several processes that make one at once, the first gives it the name, and all take that one.
    """
    partial = path.with_name(f"{path.name}{_NEW}{os.getpid()}-{os.urandom(4).hex()}")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
            create(connection, kind)
            connection.execute("PRAGMA journal_mode = WAL")
        try:
            os.link(partial, path)
        except FileExistsError:
            return
        except OSError:
            # A file system without links. There a second process that does the same in this moment may win.
            if not path.exists():
                os.rename(partial, path)
    finally:
        remove_partial(partial)


def _clear_unfinished(path: Path) -> None:
    """What a killed process left of a new database: half of it, or the name it had before it was whole."""
    for left in path.parent.glob(f"{path.name}{_NEW}*"):
        with suppress(OSError):  # another process may be at it
            found = left.stat()
            if found.st_nlink > 1 or found.st_mtime < _file_system_seconds(path.parent) - _ABANDONED_SECONDS:
                remove_partial(left)


def _file_system_seconds(folder: Path) -> float:
    """Return the time that a file system gives to new files; the clock of this machine may be far from it."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        return os.fstat(probe.fileno()).st_mtime


def newer(version: int, path: Path, kind: str = MEMORY) -> StoreNewer:
    """What to say of a file that a later version of this program has written, also while this one had it open."""
    return StoreNewer(
        f"{path} has schema {version}, this program knows up to {latest(kind)}. Nothing was changed. Update mcp-memory "
        f"({UPDATE}) and start your agent anew, or set MCP_MEMORY_HOME to another directory."
    )


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def backup(
    connection: sqlite3.Connection,
    target: Path,
    is_over: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """A complete copy that was checked, made under a temporary name and then renamed.

    It is made in small steps, of which `progress` hears: how many pages are done, and of how many. Once `is_over` says
    so, an InterruptedError ends it, and nothing is left.
    """

    def step(_: int = 0, left: int = 0, pages: int = 0) -> None:
        if is_over():
            raise InterruptedError
        if progress:
            progress(pages - left, pages)

    partial = target.with_name(target.name + ".tmp")
    remove_partial(partial)
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(partial, isolation_level=None)) as copy:
            copy.execute("PRAGMA synchronous = OFF")  # it is on the disk before it has its name
            connection.backup(copy, pages=_PAGES, progress=step, sleep=0)
            copy.set_progress_handler(is_over, _OPERATIONS)
            try:
                found = str(copy.execute("PRAGMA quick_check(1)").fetchone()[0])
            except UnicodeDecodeError:
                found = "it holds text that is not UTF-8"
            except sqlite3.OperationalError:
                step()
                raise
        if found != "ok":
            raise sqlite3.DatabaseError(f"malformed database: {found}")
        with open(partial, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        remove_partial(partial)


def upgrade_copies(path: Path) -> list[Path]:
    """The copies that were made before the file was brought to a later version."""
    return sorted(path.parent.glob(f"{path.name}.schema-*.bak"))


def _clean_copies(path: Path, version: int) -> None:
    """Take out of the copies that upgrades made what a memory of this version should not have kept."""
    if version < KEYED:
        for copy in (*upgrade_copies(path), *path.parent.glob(_BACKUPS)):
            _clean_copy(copy, _DROP_TOMBSTONES)
    if version < _WORDLESS:
        for copy in upgrade_copies(path):
            _clean_copy(copy, [_DROP_WORDS])


def _clean_copy(copy: Path, statements: Iterable[str]) -> None:
    """Change a copy so that nothing of what it held before is left in the file's free space."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(copy, isolation_level=None, timeout=_SECONDS)) as connection:
        before = connection.total_changes
        for statement in statements:
            with suppress(sqlite3.OperationalError):  # a copy from before such a table
                connection.execute(statement)
        if connection.total_changes > before:
            connection.execute("VACUUM")


def remove_partial(path: Path) -> None:
    """What was left of a file that could not be finished takes the room of the one that is tried next."""
    for name in (path.name, *(f"{path.name}{suffix}" for suffix in ("-journal", "-wal", "-shm"))):
        with suppress(OSError):
            path.with_name(name).unlink(missing_ok=True)


def _apply(
    connection: sqlite3.Connection, todo: Sequence[tuple[int, str]], path: Path | None = None, kind: str = MEMORY
) -> None:
    """Take the steps in one transaction; a file that holds something is copied first."""
    is_index_empty = False
    connection.create_function("opaque", 1, opaque, deterministic=True)
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated while this one waited for the lock.
        done = version_of(connection)
        if path and 0 < done < todo[-1][0]:
            # Under the lock, lest two programs that were started at once write to the same copy.
            with closing(sqlite3.connect(path, timeout=_SECONDS)) as before:
                backup(before, path.with_name(f"{path.name}.schema-{done}.bak"))
            _clean_copies(path, done)
        for number, sql in todo:
            if number > done:
                if path and number == _LOCAL:
                    _carry_over(connection, path.with_name(INBOX_FILE))
                for statement in statements(sql):
                    connection.execute(statement)
                if kind == MEMORY and done:
                    is_index_empty |= _convert(connection, number)
                connection.execute(f"PRAGMA user_version = {number}")
        if done and (is_index_empty or any(number > done and _EMPTIES_INDEX in sql for number, sql in todo)):
            _fill_index(connection)
        connection.execute("COMMIT")
    except BaseException:
        # A full disk makes SQLite roll back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _convert(connection: sqlite3.Connection, number: int) -> bool:
    """Do what a step needs beside its SQL; return whether the index was emptied for that."""
    if number == KEYED:
        _rehash_tombstones(connection)
    return number == _STORABLE and _remove_nuls(connection)


def _rehash_tombstones(connection: sqlite3.Connection) -> None:
    from mcp_memory.store.sql.tombstones import rehash
    from mcp_memory.store.sqlite.database import SqliteTransaction

    rehash(SqliteTransaction(connection), connection)


def _remove_nuls(connection: sqlite3.Connection) -> bool:
    """Replace NULs in all texts, written out or as JSON escapes; return whether the index was emptied for that."""
    indexed = False
    for table, column in connection.execute(_TEXT_COLUMNS).fetchall():
        found = f"SELECT DISTINCT {column} FROM {table} WHERE instr({column}, ?)"
        nul = "\\u0000" if column in _DOCUMENTS else "\0"
        values = [value for (value,) in connection.execute(found, (nul,))]
        if values and not indexed and (table, column) in _INDEXED:
            connection.execute("INSERT INTO search (search) VALUES ('delete-all')")
            indexed = True
        for value in values:
            # A name that another row has already keeps its NUL: nothing tells them apart otherwise.
            sql = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} = ?"
            cleaned = _clean_document(value) if column in _DOCUMENTS else clean(value)
            connection.execute(sql, (cleaned, value))
            if (table, column) == ("event", "text"):
                # Records know what their events said by its hash.
                sources = "UPDATE compaction_source SET sha256 = ? WHERE sha256 = ?"
                connection.execute(sources, (digest(cleaned), digest(value)))
    return indexed


def _clean_document(document: str) -> str:
    try:
        return json.dumps(storable_json(json.loads(document)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return document


def _fill_index(connection: sqlite3.Connection) -> None:
    """Index all events and nodes by the present rules."""
    from mcp_memory.store.sql.store import index_all
    from mcp_memory.store.sqlite.database import SqliteTransaction

    index_all(SqliteTransaction(connection))


def _carry_over(memory: sqlite3.Connection, path: Path) -> None:
    """Take what is local to the machine to a file of its own, before this transaction takes it out of the memory.

    Whoever is killed in between does it again: what is there already stays one, and no one has read it yet, since the
    memory cannot be opened before.
    """
    with filled(path, memory.execute(f"SELECT {', '.join(PAYLOAD)} FROM inbox")) as inbox:
        inbox.executemany("INSERT OR REPLACE INTO brief VALUES (?, ?, ?)", memory.execute("SELECT * FROM brief"))
        inbox.executemany("INSERT OR REPLACE INTO checkpoint VALUES (?, ?)", memory.execute("SELECT * FROM checkpoint"))
        read_by = memory.execute("SELECT key, value FROM meta WHERE key = 'read_by'")
        inbox.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", read_by)
        # They are places in the files that were read into this memory, whichever was here before.
        inbox.execute("DELETE FROM meta WHERE key IN ('memory', 'reached')")


@contextmanager
def filled(path: Path, payloads: Iterable[tuple[Any, ...]]) -> Iterator[sqlite3.Connection]:
    """An inbox with payloads of a memory, each once; what else is written to it is on the disk with them afterwards."""
    migrate(path, INBOX)
    with closing(sqlite3.connect(path, isolation_level=None, timeout=_MIGRATING_MS / 1000)) as inbox:
        inbox.execute("PRAGMA synchronous = FULL")
        inbox.execute("BEGIN IMMEDIATE")
        sql = f"INSERT OR IGNORE INTO inbox ({', '.join(PAYLOAD)}) VALUES (? + {_BEFORE}, ?, ?, ?, ?, ?, ?)"
        inbox.executemany(sql, payloads)
        yield inbox
        inbox.execute("COMMIT")


def statements(sql: str) -> list[str]:
    """Split a script into statements, since executescript would commit the transaction around it."""
    found, current = [], ""
    for line in sql.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found + ([current] if current.strip() and not current.strip().startswith("--") else [])
