"""The key of the tombstones: kept in inbox.db, so that no copy of the memory has it."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from mcp_memory.domain.tombstones import TombstoneKey
from mcp_memory.store.sqlite import migrations

#: The row of `meta` that holds it.
NAME = "tombstone_key"
_READ = f"SELECT value FROM meta WHERE key = '{NAME}'"
#: The row of `meta` that names the last erasure of the memory whose tombstones are in the inbox as well.
SYNCED = "tombstones_synced"
_READ_MARK = f"SELECT value FROM meta WHERE key = '{SYNCED}'"
_KEEP = f"INSERT INTO meta (key, value) VALUES ('{NAME}', ?) ON CONFLICT DO NOTHING"
_SET = f"INSERT OR REPLACE INTO meta (key, value) VALUES ('{NAME}', ?)"
_BUSY_SECONDS = 15
#: The keys that were read, by directory, with what tells the file from one that replaces it.
_read: dict[Path, tuple[migrations.Identity, TombstoneKey]] = {}


def read_key(folder: Path) -> TombstoneKey | None:
    """Return the key that this directory's inbox holds, None if there is none."""
    path = folder / migrations.INBOX_FILE
    found = migrations.identity(path)
    if found is None:
        return None
    if folder in _read and _read[folder][0] == found:
        return _read[folder][1]
    from mcp_memory.store.sqlite.database import told

    with (
        told(path),
        closing(sqlite3.connect(migrations.uri(path), uri=True, timeout=_BUSY_SECONDS)) as connection,
    ):
        row = connection.execute(_READ).fetchone()
    if row is None:
        return None
    key = TombstoneKey(bytes.fromhex(row[0]))
    _read[folder] = found, key
    return key


def synced_mark(folder: Path) -> str:
    """Return the last erasure whose tombstones this directory's inbox holds; empty if there is none."""
    path = folder / migrations.INBOX_FILE
    if migrations.identity(path) is None:
        return ""
    # An inbox that cannot be read is reported when it is opened.
    with suppress(sqlite3.Error), closing(sqlite3.connect(migrations.uri(path), uri=True)) as connection:
        row = connection.execute(_READ_MARK).fetchone()
        return str(row[0]) if row else ""
    return ""


def make_key(folder: Path, key: TombstoneKey | None = None) -> TombstoneKey:
    """Store a new key unless there is one, or this one in any case, and return what is stored."""
    path = folder / migrations.INBOX_FILE
    migrations.migrate(path, migrations.INBOX)
    with closing(sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        if key is None:
            connection.execute(_KEEP, (TombstoneKey.new().secret.hex(),))
        else:
            connection.execute(_SET, (key.secret.hex(),))
    _read.pop(folder, None)
    stored = read_key(folder)
    assert stored is not None
    return stored
