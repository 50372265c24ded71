"""What was installed where, kept in the data directory together with the files as they were before."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mcp_memory.capture.home import private_dir
from mcp_memory.errors import MemoryFault, StoreFull
from mcp_memory.install.files import digest

FILE = "registrations.json"
_BACKUPS = "backups"


@dataclass(frozen=True, slots=True)
class Entry:
    """One settings file that holds entries of ours.

    `before` is the digest of the file as it was, empty if there was none; `after` of what we wrote, empty if it has
    been edited by others since and so cannot simply be put back. It was `clean` if it held nothing of ours before.
    `folders` are those we made, innermost first.
    """

    client: str
    scope: str
    root: str
    path: str
    before: str
    after: str
    clean: bool = True
    folders: tuple[str, ...] = ()
    installed_ms: int = 0


class Record:
    """The list of entries with its backups. Every change is written at once."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._file = home / FILE
        self._entries = _load(self._file)

    def entries(self, client: str | None = None) -> list[Entry]:
        return [entry for entry in self._entries if client in (None, entry.client)]

    def of(self, path: Path) -> Entry | None:
        return next((entry for entry in self._entries if entry.path == str(path)), None)

    def put(self, new: Sequence[Entry]) -> None:
        """Remember these entries, in place of what was known of the same files."""
        paths = {entry.path for entry in new}
        self._save([*(entry for entry in self._entries if entry.path not in paths), *new])

    def drop(self, paths: Sequence[Path]) -> None:
        gone = {str(path) for path in paths}
        self._save([entry for entry in self._entries if entry.path not in gone])

    def keep(self, data: bytes) -> None:
        """Store a file's contents, which may hold keys: readable by its owner only."""
        _write(self._home / _BACKUPS / digest(data), data)

    def backup(self, before: str) -> bytes | None:
        """The contents of this digest; None if they were never kept or are no longer what they were."""
        try:
            data = (self._home / _BACKUPS / before).read_bytes() if before else None
        except OSError:
            return None
        return data if digest(data) == before else None

    def discard(self, before: str) -> None:
        """Forget contents that are back in their place and needed by no other entry."""
        if before and all(entry.before != before for entry in self._entries):
            (self._home / _BACKUPS / before).unlink(missing_ok=True)
        folder = self._home / _BACKUPS
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()

    def _save(self, entries: list[Entry]) -> None:
        self._entries = entries
        if not entries:
            self._file.unlink(missing_ok=True)
            return
        document = {"version": 1, "files": [asdict(entry) for entry in entries]}
        _write(self._file, json.dumps(document, indent=1).encode())


def _load(path: Path) -> list[Entry]:
    try:
        document: Any = json.loads(path.read_bytes())
        return [replace(Entry(**item), folders=tuple(item["folders"])) for item in document["files"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise MemoryFault(
            f"{path} cannot be read ({type(error).__name__}). Move it away and run the command again: our entries are "
            "then found by what they look like."
        ) from error


def _write(path: Path, data: bytes) -> None:
    """Store a file whole or not at all, in a directory and with a mode that keep others out."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        private_dir(str(path.parent))
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise StoreFull(
            f"{path} cannot be written: {error.strerror}. No settings file was changed. Free some space, correct the "
            "permissions, or set MCP_MEMORY_HOME to another directory."
        ) from error
