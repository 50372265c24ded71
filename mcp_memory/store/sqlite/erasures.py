"""Marks of erasures, and scrubbing what was erased from the file.

Whoever keeps something derived outside of the database sees by the marks that it must let go of some of it. The same
marks tell whether the file itself has been scrubbed since: one that could not be, because someone was reading or the
disk was full, is scrubbed by the next process that can.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_memory.store.sqlite.place import reader

if TYPE_CHECKING:
    from mcp_memory.store.sqlite.database import Transaction

#: The marks, with spaces between them, the latest last.
ERASURES = "SELECT value FROM meta WHERE key = 'erasures'"
#: How many marks are kept. What has missed more is made anew.
_KEPT = 64
_LENGTH = 12
_ADD = (
    "INSERT INTO meta (key, value) VALUES ('erasures', lower(hex(randomblob(6)))) ON CONFLICT (key) DO UPDATE "
    f"SET value = substr(value || ' ' || excluded.value, -{_KEPT * (_LENGTH + 1) - 1})"
)
#: The latest mark if the file has not been scrubbed since, and whether it was at least written anew.
DUE = f"""
    SELECT substr(e.value, -{_LENGTH}), substr(e.value, -{_LENGTH}) = w.value
    FROM meta e LEFT JOIN meta s ON s.key = 'scrubbed' LEFT JOIN meta w ON w.key = 'rewritten'
    WHERE e.key = 'erasures' AND substr(e.value, -{_LENGTH}) <> coalesce(s.value, '')
"""
_NOTE = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"
#: A file up to this size is written anew in memory, a larger one by way of a temporary file without a name.
_IN_MEMORY = 256 * 1024 * 1024
#: What is left free on the disk while that is done: the hooks need some.
_SPARE = 16 * 1024 * 1024


def note_erasure(tx: Transaction) -> None:
    """Leave a mark in the transaction that erases."""
    tx.run(_ADD)


def scrub(connection: sqlite3.Connection, path: Path, wait_ms: int) -> str:
    """Take what was erased out of the file and its log; what is in the way, or nothing.

    Overwriting what is deleted is not enough: SQLite moves rows between pages and leaves their old bytes behind.
    So the file is written anew, and then the log is emptied, which takes that no one reads an older state.
    """
    (before,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {wait_ms}")
    try:
        found = connection.execute(DUE).fetchone()
        if found is None:
            return ""
        mark, rewritten = found
        if not rewritten:
            if shutil.disk_usage(path.parent).free < path.stat().st_size + _SPARE:
                return "there is no room to write the file anew"
            _rewrite(connection, path)
            connection.execute(_NOTE, ("rewritten", mark))
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            return f"{reader(path)} is still reading an earlier state"
        connection.execute(_NOTE, ("scrubbed", mark))
    except sqlite3.Error as error:  # someone else writes, or there is no room for a second copy
        return str(error)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {before}")
    return ""


def _rewrite(connection: sqlite3.Connection, path: Path) -> None:
    store = "MEMORY" if path.stat().st_size <= _IN_MEMORY else "FILE"
    connection.execute(f"PRAGMA temp_store = {store}")
    try:
        connection.execute("VACUUM")
    finally:
        connection.execute("PRAGMA temp_store = MEMORY")
