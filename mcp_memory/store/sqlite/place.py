"""The file behind a database: whether it is still the one opened, whether it can be written, who keeps others out."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_memory.errors import StoreCorrupt, StoreReplaced

Identity = tuple[int, int]
_LOCKS = Path("/proc/locks")
#: Which bytes of the file beside the log a reader of an earlier state has locked.
_READ_MARKS = range(123, 128)


@dataclass(frozen=True, slots=True)
class Opened:
    """The files of an open database: its own, and its write-ahead log, which stays the same while anyone has it open.

    Whoever restores a backup or clears the directory by hand takes the name away from the file that is open here.
    SQLite would go on with the old one, and all that it is told would be gone with it.
    """

    path: Path
    file: Identity | None
    log: Identity | None = None

    @classmethod
    def at(cls, path: Path) -> Opened:
        return cls(path, _identity(path))

    def with_log(self) -> Opened:
        return Opened(self.path, self.file, _identity(log_of(self.path)))

    def is_replaced(self) -> bool:
        return _identity(self.path) != self.file or (self.log is not None and _identity(log_of(self.path)) != self.log)

    def check(self) -> None:
        if self.is_replaced():
            raise StoreReplaced(
                f"{self.path} was removed or replaced while it was open; nothing more is written to the old one. "
                "Try again: what is there now is opened."
            )


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


def reader(path: Path) -> str:
    """A program that reads an earlier state of the database; else `another program`."""
    return holder(path, "READ", _READ_MARKS)


def holder(path: Path, kind: str = "WRITE", place: range | None = None) -> str:
    """The program that keeps others from the database, as far as the system tells; else `another program`."""
    numbers = {str(found[1]) for name in ("", "-shm") if (found := _identity(path.with_name(path.name + name)))}
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
                return f"{_name(pid)} (process {pid})"
    return "another program"


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip() or "a program"
    except OSError:
        return "a program"


def _identity(path: Path) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
