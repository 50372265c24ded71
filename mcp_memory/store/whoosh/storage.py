"""Where the index lies: a directory of files that only their owner can read, and the right to write in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whoosh.filedb.filestore import FileStorage
from whoosh.filedb.structfile import StructFile
from whoosh.util.filelock import FileLock

from mcp_memory.store.whoosh.position import NAME

_LOCK = "writing.lock"
_READ_WRITE = os.O_CREAT | os.O_RDWR | os.O_TRUNC | getattr(os, "O_BINARY", 0)


class PrivateStorage(FileStorage):  # type: ignore[misc]  # Whoosh has no types
    """Whoosh's directory of files, with modes 0700 and 0600."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._open: list[StructFile] = []

    def open_file(self, name: str, **options: Any) -> StructFile:
        file = super().open_file(name, **options)
        self._open = [*(other for other in self._open if not other.is_closed), file]
        return file

    def abandon(self) -> None:
        """Close what Whoosh leaves open when it meets a file that it cannot read."""
        for file in self._open:
            if not file.is_closed:
                file.close()

    def create_file(self, name: str, excl: bool = False, mode: str = "wb", **options: Any) -> StructFile:
        flags = _READ_WRITE | (os.O_EXCL if excl else 0)
        return StructFile(os.fdopen(os.open(self._fpath(name), flags, 0o600), mode), name=name, **options)

    def temp_storage(self, name: str | None = None) -> PrivateStorage:
        folder = Path(self.folder) / (name or f"{NAME}.tmp")
        folder.mkdir(mode=0o700, exist_ok=True)
        return PrivateStorage(str(folder))

    def lock(self, name: str) -> FileLock:
        return _private_lock(Path(self.folder) / name)


@contextmanager
def files(folder: Path) -> Iterator[PrivateStorage]:
    storage = PrivateStorage(str(folder))
    try:
        yield storage
    except BaseException:
        storage.abandon()
        raise


@contextmanager
def right_to_write(folder: Path) -> Iterator[bool]:
    """Hold the right to write, if no other process does. The system takes it from a process that has died."""
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = _private_lock(folder / _LOCK)
    held = bool(lock.acquire())
    try:
        if held:
            _sweep(folder)
        yield held
    finally:
        if held:
            lock.release()


def clear(folder: Path) -> None:
    """Throw all files of the index away; the lock stays, since it is held."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()


def _private_lock(path: Path) -> FileLock:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    return FileLock(str(path))


def _sweep(folder: Path) -> None:
    """What a process left behind that died while it wrote: its words are in there too."""
    shutil.rmtree(folder / f"{NAME}.tmp", ignore_errors=True)
    for leftover in folder.glob(f"_{NAME}_*.toc.*"):
        leftover.unlink(missing_ok=True)
