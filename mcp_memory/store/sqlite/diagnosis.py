"""Looking at the data directory and its database for trouble, without needing either to be in order."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mcp_memory.domain.failures import Pause
from mcp_memory.domain.projects import Claim
from mcp_memory.domain.terms import Standing
from mcp_memory.domain.tombstones import Tombstones
from mcp_memory.errors import UPDATE, Damage, Problem
from mcp_memory.store.sql.facts import (
    HOOKED,
    LAST,
    LATE_MS,
    MINUTE,
    PINS_ASKED,
    PROCESS,
    SOURCES,
    Facts,
    differing,
    joined,
)
from mcp_memory.store.sql.failures import failed_work
from mcp_memory.store.sql.projects import claim_of
from mcp_memory.store.sql.tombstones import summary
from mcp_memory.store.sql.work import REVISIONS
from mcp_memory.store.sqlite.database import DUE, SqliteTransaction
from mcp_memory.store.sqlite.inbox import PAUSED, SET_ASIDE
from mcp_memory.store.sqlite.migrations import (
    EMPTY,
    INBOX,
    INBOX_FILE,
    KEYED,
    MEMORY,
    create,
    holder,
    latest,
    rescue_of,
    uri,
    version_of,
)

#: Less than this is too little for a database that is being written to.
_LEAST_FREE = 100 * 1024 * 1024
#: SQLite's names for not being able to write, whose words are those it has for a damaged file.
_NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHM")
#: From this version on nodes tell which revision of the summarizer wrote them.
_REVISED = 7
#: From this version on it keeps what failed and was set aside.
_WITH_FAILURES = 13
_REPAIR = "mcp-memory doctor --repair"
T = TypeVar("T")


def disk(home: Path) -> list[Problem]:
    """Whether the data directory can be written."""
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    fix = f"Free some space, correct the permissions of {home}, or set MCP_MEMORY_HOME and install again."
    try:
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(b"x" * 4096)
            probe.flush()
    except OSError as error:
        return [Problem(f"{place} cannot be written", f"{error.strerror}: nothing can be captured.", fix)]
    free = shutil.disk_usage(place).free
    if free < _LEAST_FREE:
        return [Problem(f"the disk of {place} is nearly full", f"Only {free // 1024**2} MB are free.", fix)]
    return []


def database(path: Path) -> tuple[Facts, list[Problem]]:
    """What the database knows, and whether it is whole. A missing one is new, not broken."""
    inbox = path.with_name(INBOX_FILE)
    for file in (path, inbox):
        if rescue_of(file).exists():
            why = "Until that is done, memory cannot be used; what is captured is kept."
            return Facts(), [Damage(f"{file} is being made anew, or that was interrupted", why, _REPAIR)]
    if not path.exists():
        return Facts(), []
    facts, problems = examine(path)
    return facts, problems or _guarded(path) or _inbox(inbox)


def _inbox(path: Path) -> list[Problem]:
    """Whether the file is whole to which hooks write."""
    return _examined(path, lambda connection: _whole(connection, path, INBOX))[1] if path.exists() else []


def _whole(connection: sqlite3.Connection, path: Path, kind: str) -> tuple[Facts, list[Problem]]:
    check = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    check = _tables(connection, version_of(connection), kind) if check == "ok" else check
    check = _contents(connection) if check == "ok" and kind == MEMORY else check
    if check != "ok":
        return Facts(), [_damaged(path, check)]
    return _facts(connection, path) if kind == MEMORY else Facts(), []


def _examined(
    path: Path, look: Callable[[sqlite3.Connection], tuple[Facts, list[Problem]]]
) -> tuple[Facts, list[Problem]]:
    """What a look finds, and otherwise what it means that it cannot be done."""
    try:
        with _reading(path) as connection:
            return look(connection)
    except sqlite3.OperationalError as error:
        # What Python finds wrong, such as text that cannot be decoded, has no name of SQLite's.
        return Facts(), [_failed(path, str(error), getattr(error, "sqlite_errorname", ""))]
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # what SQLite says of it may quote it
        return Facts(), [_damaged(path, str(error))]


def _guarded(path: Path) -> list[Problem]:
    """Files of the database that can be read and not written, as after a run by another user."""
    files = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
    found = [file for file in files if file.exists() and not os.access(file, os.W_OK)]
    if not found or not os.access(path.parent, os.W_OK):  # which is told of the directory
        return []
    why = "It belongs to another user or is write-protected. What is captured waits in the spool."
    return [Problem(f"{found[0]} cannot be written", why, _permissions(found[0]))]


def _permissions(path: Path) -> str:
    name = shlex.quote(str(path))
    return f'Make {path} yours again (sudo chown "$USER" {name}; chmod u+rwX {name}), then: {PROCESS}'


def examine(path: Path) -> tuple[Facts, list[Problem]]:
    """The same of a file that is there."""
    if not path.stat().st_size:
        return Facts(), [_damaged(path, EMPTY)]

    def look(connection: sqlite3.Connection) -> tuple[Facts, list[Problem]]:
        version = version_of(connection)
        if version > latest():
            why = f"It has schema {version}, this program knows up to {latest()}: a later version wrote it."
            return Facts(), [Problem(f"{path} is of a newer version", why, UPDATE)]
        if not version and not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
            return Facts(), []  # the first command that opens it makes its tables
        return _whole(connection, path, MEMORY)

    return _examined(path, look)


def facts(path: Path) -> Facts:
    """What the database knows, without looking whether it is whole, which takes as long as it is large."""
    return _looked(path, lambda connection: _facts(connection, path), Facts())


def claim(path: Path, root: str, label: str, remote: str = "") -> Claim:
    """Whether the name that a directory claims counts; it does where the database cannot tell."""
    return _looked(path, lambda connection: claim_of(SqliteTransaction(connection), root, label, remote), Claim())


def _looked(path: Path, look: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
    """What a look into the database tells; what holds otherwise where it cannot be read."""
    try:
        with _reading(path) as connection:
            return look(connection)
    except sqlite3.Error:
        return otherwise


_COLUMNS = """
    SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'
"""


def _tables(connection: sqlite3.Connection, version: int, kind: str) -> str:
    """Whether the tables and columns are there that a file of this version has."""
    if version < 1:
        return "it has tables, but bears no version"
    if version < latest(kind):
        return "ok"
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        create(new, kind)
        wanted, found = (set(one.execute(_COLUMNS)) for one in (new, connection))
    return f"{min(wanted - found)[0]} is missing" if wanted - found else "ok"


_TEXTS = """
    SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c
    WHERE m.type = 'table' AND m.rootpage > 0 AND c.type = 'TEXT'
"""


def _contents(connection: sqlite3.Connection) -> str:
    """What SQLite's own check does not look into: the words of the index, and whether texts can be read at all."""
    connection.execute("CREATE VIRTUAL TABLE temp.word USING fts5vocab('main', 'search', 'row')")
    connection.execute("SELECT sum(cnt) FROM temp.word").fetchone()
    try:
        for table, column in connection.execute(_TEXTS).fetchall():
            for (text,) in connection.execute(f"SELECT CAST({column} AS BLOB) FROM {table}"):
                bytes(text or b"").decode()
    except UnicodeDecodeError:
        return "it holds text that is not UTF-8"
    return "ok"


def _failed(path: Path, error: str, name: str) -> Problem:
    """What it means that the database cannot be looked at."""
    if "locked" in error or "busy" in error:
        fix = "End the other program that has it open, then run: mcp-memory doctor"
        return Problem(f"{path} is locked", f"It is held exclusively by {holder(path)}.", fix)
    if "unable to open" in error or "readonly" in error or "authorized" in error:
        fix = f"Correct the permissions of {path}, or set MCP_MEMORY_HOME to another directory."
        return Problem(f"{path} cannot be opened", f"{error}.", fix)
    if name.startswith(_NO_ROOM):
        why = f"{error}: even reading takes some room beside it, and there is none."
        fix = "Free some space on its disk or in your quota, then run: mcp-memory doctor"
        return Problem(f"{path} cannot be looked at", why, fix)
    return _damaged(path, error)


def _damaged(path: Path, why: str) -> Problem:
    fix = f"End your agents, then run: {_REPAIR}"
    return Damage(f"{path} is damaged", f"{why}.", fix)


def _reading(path: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(uri(path), uri=True, timeout=2))


_HEARD = "SELECT client, max(received_ms) FROM inbox GROUP BY 1"
_UNKNOWN = "SELECT client, count(*), max(received_ms) FROM inbox WHERE state = 1 GROUP BY 1 ORDER BY 2 DESC, 1"
#: The inbox counts on, whatever was taken out of it.
_INBOX_USED = "SELECT 1 FROM sqlite_sequence WHERE name = 'inbox' AND seq > 0"


@contextlib.contextmanager
def _local(path: Path, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Where the inbox of a memory is: beside it, or in itself if it is of an earlier version. One that cannot be
    read is told of elsewhere."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'inbox'").fetchone():
        yield connection
    elif (beside := path.with_name(INBOX_FILE)).exists() and not _inbox(beside):
        with _reading(beside) as inbox:
            yield inbox
    else:
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
            create(empty, INBOX)
            yield empty


def _facts(connection: sqlite3.Connection, path: Path) -> Facts:
    lease = "SELECT holder, expires_ms FROM lease WHERE name = 'pipeline'"
    held_by, until_ms = connection.execute(lease).fetchone() or ("", 0)
    last = {client: last_ms for client, last_ms in connection.execute(LAST) if last_ms is not None}
    with _local(path, connection) as inbox:
        local = _waiting(inbox)
    known = Facts(
        last_ms=last,
        holder=held_by,
        lease_until_ms=until_ms,
        unscrubbed=bool(connection.execute(DUE).fetchone()),
        models={name: json.loads(value) for name, value in connection.execute("SELECT name, value FROM llm_state")},
        revisions=dict(connection.execute(REVISIONS).fetchall()) if version_of(connection) >= _REVISED else {},
        pins_asked=tuple(connection.execute(PINS_ASKED).fetchall()),
        failed=tuple(failed_work(connection)) if version_of(connection) >= _WITH_FAILURES else (),
        tombstones=summary(SqliteTransaction(connection)) if version_of(connection) >= KEYED else Tombstones(),
    )
    return joined(known, local)


def _waiting(inbox: sqlite3.Connection) -> Facts:
    """What of it stands in the inbox."""
    waiting, oldest = inbox.execute("SELECT count(*), min(received_ms) FROM inbox WHERE state = 0").fetchone()
    return Facts(
        last_ms=dict(inbox.execute(_HEARD).fetchall()),
        oldest_waiting_ms=oldest,
        waiting=waiting,
        set_aside=tuple(inbox.execute(SET_ASIDE).fetchall()),
        unknown={client: (count, last_ms) for client, count, last_ms in inbox.execute(_UNKNOWN)},
        unscrubbed=bool(inbox.execute(DUE).fetchone()),
        pause=next((Pause(**json.loads(value)) for (value,) in inbox.execute(PAUSED)), None),
    )


@dataclass(frozen=True)
class InboxDiagnosis:
    """What the inbox of this machine tells of a memory that lies elsewhere."""

    path: Path

    def facts(self) -> Facts:
        return _looked(self.path, _waiting, Facts()) if self.path.exists() else Facts()

    def problems(self) -> list[Problem]:
        return _guarded(self.path) or _inbox(self.path)

    def has_captured(self) -> bool:
        """Whether a hook ever told it anything."""
        return self.path.exists() and _looked(self.path, lambda one: bool(one.execute(_INBOX_USED).fetchone()), False)


def has_captured(path: Path) -> bool:
    """Whether a hook ever told anything. Only of an inbox that is new beside its memory, every event may be asked."""

    def look(connection: sqlite3.Connection) -> bool:
        with _local(path, connection) as inbox:
            used = inbox.execute(_INBOX_USED).fetchone()
            return bool(used or connection.execute(HOOKED).fetchone()[0])

    return _looked(path, look, False)


def spool(folder: Path, now_ms: int) -> list[Problem]:
    """Files that the hook left because the database would not take them, and that no one has taken up."""
    if not folder.is_dir():
        return []
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        why = "What the hook cannot write to the database at once is lost."
        return [Problem(f"{folder} cannot be used", why, _permissions(folder))]
    entries = [(entry.name, entry.stat().st_mtime_ns // 1_000_000) for entry in os.scandir(folder) if entry.is_file()]
    problems = []
    if aside := [name for name, _ in entries if name.endswith(".unreadable")]:
        why = f"{len(aside)} files in {folder} are no captures, or cut off, and were set aside."
        problems.append(
            Problem("the spool holds files that cannot be read", why, f"rm {shlex.quote(str(folder))}/*.unreadable")
        )
    ages = [now_ms - changed_ms for name, changed_ms in entries if not name.endswith(".unreadable")]
    late = [age for age in ages if age > LATE_MS]
    if not late:
        return problems
    why = f"{len(ages)} events are in {folder}, the oldest for {max(late) // MINUTE} minutes."
    why += " The database was locked or missing when they came."
    return [*problems, Problem("the spool is growing", why, PROCESS)]


def records(path: Path) -> list[Problem]:
    """Compare every source of every record with its hash. A database that cannot be read is told of elsewhere."""

    def look(connection: sqlite3.Connection) -> list[Problem]:
        return differing(connection.execute(SOURCES)) if version_of(connection) == latest() else []

    return _looked(path, look, [])


def index_standing(path: Path, held: str | None) -> Standing | None:
    """How an index stands to the database; None if that holds nothing, is of another version or cannot be read."""
    from mcp_memory.store.sqlite.documents import REACHED, standing  # which only such an index needs

    def look(connection: sqlite3.Connection) -> Standing | None:
        if version_of(connection) != latest() or not connection.execute(REACHED).fetchone()[0]:
            return None
        return standing(connection, held)

    return _looked(path, look, None)
