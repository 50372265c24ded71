"""What `doctor` says of the Whoosh index, without opening it and whether or not the package is there."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from mcp_memory.errors import Problem, how_to_add
from mcp_memory.store.sqlite.migrations import latest
from mcp_memory.store.whoosh.position import REACHED, Reached, Verdict, generation, judge, read_position

#: A running server brings the index into step within seconds.
_LATE_SECONDS = 600
_STANDS_IN = "Questions are answered by the FTS5 index meanwhile."


def index_problems(database: Path, folder: Path) -> list[Problem]:
    """Whether the index can be used and is in step; a database that cannot be read is told of elsewhere."""
    if find_spec("whoosh") is None:
        why = 'The setting [index] kind = "whoosh" needs it, and nothing can be opened without.'
        fix = f'{how_to_add("whoosh")}; or set [index] kind = "fts5"'
        return [Problem("the package for the Whoosh index is missing", why, fix)]
    now = _reached(database)
    if now is None:
        return []
    number = generation(folder)
    verdict = judge(read_position(folder, number), now)
    if verdict is Verdict.CURRENT or (verdict is Verdict.BEHIND and not _is_late(folder, number)):
        return []
    what = "the Whoosh index is to be built" if verdict is Verdict.UNUSABLE else f"the Whoosh index {_SAID[verdict]}"
    return [Problem(what, f"No process has brought it into step with the database. {_STANDS_IN}", "mcp-memory process")]


_SAID = {Verdict.BEHIND: "is behind", Verdict.ERASED: "holds what was erased"}


def _is_late(folder: Path, number: int | None) -> bool:
    return time.time() - (folder / f"position_{number}.json").stat().st_mtime > _LATE_SECONDS


def _reached(path: Path) -> Reached | None:
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] != latest():
                return None
            found = Reached.of(connection.execute(REACHED).fetchone())
    except sqlite3.Error:
        return None
    return found if found.event else None
