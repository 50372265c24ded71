"""The file of a memory that has moved to a server: its copies on disk, and whether they hold what is forgotten."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from mcp_memory.domain.events import Intake
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.errors import MemoryFault
from mcp_memory.store.port import Store
from mcp_memory.store.sql.forget import find
from mcp_memory.store.sqlite.backup import copies_of
from mcp_memory.store.sqlite.database import DUE, SqliteTransaction, connect, told
from mcp_memory.store.sqlite.migrations import latest, remove_partial, version_of
from mcp_memory.store.sqlite.store import SqliteStore

#: Events that are compared at once.
_PAGE = 1_000


def files_of(path: Path) -> list[Path]:
    """Return the files of a memory that exist: the database, its companions and the copies made of it."""
    own = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
    return [file for file in (*own, *copies_of(path)) if file.exists()]


def may_hold(path: Path, request: ForgetRequest) -> bool:
    """Whether any of these files holds what a request takes."""
    databases = [file for file in files_of(path) if not file.name.endswith(("-wal", "-shm"))]
    return any(holds(file, request) for file in databases)


async def count_missing(path: Path, store: Store, now_ms: int) -> int:
    """Count the events of the file that the memory lacks, such as those of a server that ran on after a move."""
    missing = after = 0
    async with SqliteStore.open(path, now_ms) as old:
        while page := await old.log(after, None, _PAGE):
            after = page[-1][0]
            intakes = [Intake((event,), "", event.project, author=event.author) for _, event in page]
            missing += sum(len(intake.events) for intake in await store.trial()(intakes))
    return missing


def erase(path: Path) -> list[Path]:
    """Delete the files, and return those that were there."""
    files = files_of(path)
    for file in files:
        file.unlink(missing_ok=True)
    remove_partial(path)
    return files


def holds(path: Path, request: ForgetRequest) -> bool:
    """Whether a database holds what a request takes. One that cannot be searched counts as holding it."""
    try:
        with told(path), closing(connect(path, is_copy=True)) as connection:
            # A later version of the program cannot be expected to know the tables of an earlier one.
            if version_of(connection) != latest() or connection.execute(DUE).fetchone():
                return True
            found = find(SqliteTransaction(connection), request)
            return bool(found.events or found.bearing or found.names or found.summaries)
    except MemoryFault:
        return True
