"""Setting a damaged database aside, and putting one in its place that holds what could be read from it.

The new one is made under a name of its own. While a file of that name is there, no one else opens the memory: hooks
leave what they capture in the spool, servers say why. It takes the memory's name in one step when it is complete, so a
run that is killed has either changed nothing, or leaves that file behind and is taken up by the next.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from mcp_memory.errors import NotFound, StoreBusy, StoreError, StoreFull
from mcp_memory.store.sqlite.database import told
from mcp_memory.store.sqlite.diagnosis import Damage, examine
from mcp_memory.store.sqlite.migrations import create, rescue_of
from mcp_memory.store.sqlite.pages import Image
from mcp_memory.store.sqlite.salvage import Salvaged, salvage

_COMPANIONS = ("-wal", "-shm")
#: Where SQLite keeps its locks in a file, and how many bytes: whoever has the database open holds some of them.
_LOCKED_AT, _LOCKED_BYTES = 0x40000002, 510
#: Whoever looked for a rescue just before this one began has opened the memory by then, and is seen.
_SETTLE_SECONDS = 0.25
_MARK = ".corrupt-"


def set_aside(path: Path, timezone: str) -> tuple[Path, Salvaged]:
    """Rename the database and make a new one from it; gives the name it has now, and what was brought over."""
    rescue = rescue_of(path)
    with told(path), ExitStack() as stack:
        if path.exists():
            _refuse_what_is_whole(path, rescue)
            _require_room(path)
            old, file = _moved(path, rescue)
        else:
            old = _interrupted(path, rescue)
            file = _taken(old)
        stack.enter_context(file)
        _move_companions(path, old)
        found = _rescued(old, file, rescue, timezone)
        if path.exists():
            raise StoreBusy(f"Another program has made a new {path}. End it, remove that file, and try again.")
        os.replace(rescue, path)
    return old, found


def _refuse_what_is_whole(path: Path, rescue: Path) -> None:
    _, problems = examine(path)
    if not problems:
        _remove(rescue)
        raise StoreError(f"{path} is whole and was left alone; `mcp-memory doctor` finds no damage in it.")
    if not isinstance(problems[0], Damage):
        raise StoreError(f"{problems[0].what}. {problems[0].why} Nothing was changed. {problems[0].fix}")


def _require_room(path: Path) -> None:
    needed = path.stat().st_size
    if shutil.disk_usage(path.parent).free < needed:
        raise StoreFull(
            f"A new database beside {path} needs {needed // 2**20} MB. Free some space; nothing was changed."
        )


def _moved(path: Path, rescue: Path) -> tuple[Path, BinaryIO]:
    """The database under its new name, after everyone else was kept out."""
    ours = not rescue.exists()
    os.close(os.open(rescue, os.O_CREAT | os.O_RDWR, 0o600))
    time.sleep(_SETTLE_SECONDS)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    old = path.with_name(f"{path.name}{_MARK}{stamp}")
    try:
        if sys.platform == "win32":  # there, a file that anyone has open cannot be renamed
            os.rename(path, old)
            return old, _taken(old)
        file = _taken(path)
        os.rename(path, old)
        return old, file
    except BaseException:
        if ours and path.exists():
            _remove(rescue)
        raise


def _taken(path: Path) -> BinaryIO:
    """The file under SQLite's exclusive lock, taken by its own means: opening a damaged file could change it."""
    try:
        file = open(path, "r+b", buffering=0)  # noqa: SIM115
    except FileNotFoundError:
        raise StoreBusy(f"{path} is being set aside by another run of this command.") from None
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKED_BYTES, _LOCKED_AT)
        except OSError as error:
            file.close()
            raise StoreBusy(
                f"{path} is open in another program, such as an agent's memory server. Nothing was changed. "
                "End your agents, then run this again; what they capture until then is kept."
            ) from error
    return file


def _interrupted(path: Path, rescue: Path) -> Path:
    """What a run that was killed has set aside."""
    left = sorted(entry for entry in path.parent.glob(f"{path.name}{_MARK}*") if not entry.name.endswith(_COMPANIONS))
    if not (rescue.exists() and left):
        raise NotFound(f"There is no database at {path}; there is nothing to set aside.")
    return left[-1]


def _move_companions(path: Path, old: Path) -> None:
    """Set the log aside, too. It must not stay: SQLite would take it for that of the new database."""
    log, memory = (path.with_name(path.name + suffix) for suffix in _COMPANIONS)
    if log.exists() and not log.stat().st_size:  # as looking at the database leaves it
        log.unlink()
        memory.unlink(missing_ok=True)
    for companion, suffix in ((log, "-wal"), (memory, "-shm")):
        if companion.exists():
            os.replace(companion, old.with_name(old.name + suffix))


def _rescued(old: Path, file: BinaryIO, rescue: Path, timezone: str) -> Salvaged:
    """Make the new database from the old one, which is only read."""
    _remove(rescue, keep=True)
    log = old.with_name(f"{old.name}-wal")
    with ExitStack() as stack:
        written = stack.enter_context(open(log, "rb", buffering=0)) if log.exists() else None
        connection = stack.enter_context(closing(sqlite3.connect(rescue, isolation_level=None)))
        # No one sees it before it is complete and on the disk; an unfinished one is thrown away.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -64000")
        create(connection)
        connection.execute("BEGIN IMMEDIATE")
        found = salvage(Image(file, written), connection, timezone)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    _sync(rescue)
    return found


def _sync(path: Path) -> None:
    with open(path, "r+b") as file:
        os.fsync(file.fileno())


def _remove(rescue: Path, *, keep: bool = False) -> None:
    """Take an unfinished database away; `keep`: leave the empty file, which keeps others out."""
    for suffix in _COMPANIONS:
        rescue.with_name(rescue.name + suffix).unlink(missing_ok=True)
    if keep:
        os.truncate(rescue, 0)
    else:
        rescue.unlink(missing_ok=True)
