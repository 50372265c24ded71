"""Which program has a file open, as far as the system tells."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

#: Where Linux lists what each process has open. Other systems have no such place, and nothing is found there.
_PROCESSES = Path("/proc")


def program_with(paths: Iterable[Path]) -> str:
    """Return the name and number of another process that has one of the files open; empty if none is known."""
    wanted = set()
    for path in paths:
        with suppress(OSError):
            found = path.stat()
            wanted.add((found.st_dev, found.st_ino))
    if not wanted or not _PROCESSES.is_dir():
        return ""
    for folder in _PROCESSES.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with suppress(OSError):  # another user's, or it has ended
            for link in (folder / "fd").iterdir():
                with suppress(OSError):
                    found = link.stat()
                    if (found.st_dev, found.st_ino) in wanted:
                        return f"{_name(folder)} (process {folder.name})"
    return ""


def _name(folder: Path) -> str:
    with suppress(OSError):
        return (folder / "comm").read_text("utf-8", "replace").strip() or "a program"
    return "a program"
