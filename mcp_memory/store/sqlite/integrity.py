"""Whether the events behind the records of sessions still say what they said when the records were made."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from mcp_memory.domain.events import ulid
from mcp_memory.domain.records import digest
from mcp_memory.store.sqlite.diagnosis import Problem
from mcp_memory.store.sqlite.migrations import latest
from mcp_memory.store.sqlite.place import uri

_SOURCES = """
    SELECT s.session_id, c.created_ms, c.key, e.id IS NULL, o.sha256, e.text
    FROM compaction_source o JOIN compaction c ON c.id = o.compaction JOIN session s ON s.id = c.session
    LEFT JOIN event e ON e.id = o.event ORDER BY c.id
"""


def records(path: Path) -> list[Problem]:
    """Compare every source of every record with its hash. A database that cannot be read is told of elsewhere."""
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(uri(path), uri=True, timeout=2)) as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] != latest():
                return []
            return list(_broken(connection))
    except sqlite3.Error:
        return []


def _broken(connection: sqlite3.Connection) -> Iterator[Problem]:
    found: dict[tuple[str, str], list[int]] = {}
    for session, created_ms, key, missing, sha256, text in connection.execute(_SOURCES):
        if missing or digest(text) != sha256:
            counts = found.setdefault((session, ulid(created_ms, key)), [0, 0])
            counts[0 if missing else 1] += 1
    for (session, record), (missing, changed) in found.items():
        why = f"{missing} of the events it was made from are gone, {changed} say something else than they did."
        yield Problem(f"record {record} does not match its events", why, f"mcp-memory compact {session} --force")
