"""Handing a payload to the server: one row in inbox.db, or a spool file when that will not take it now."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import namedtuple

from mcp_memory.capture.settings import private_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    from mcp_memory.capture.redaction import Clean

    class Row(NamedTuple):
        """What the hook hands over. `payload` is the client's JSON, redacted and clipped."""

        received_ms: int
        client: str
        root: str
        label: str
        payload: Clean
else:
    Row = namedtuple("Row", "received_ms client root label payload")

#: The latest version of inbox.db that this code knows.
SCHEMA = 1
#: The agent waits for the hook, so a database in use is not waited for: the spool is always free.
BUSY_SECONDS = 0.1
DATABASE = "inbox.db"
SPOOL = "spool"

_INSERT = "INSERT INTO inbox (received_ms, client, root, label, payload) VALUES (?, ?, ?, ?, ?)"
_BRIEF = "SELECT text FROM brief WHERE root = ?"

#: ValueError: a path or text that is not valid Unicode.
_TROUBLE = (sqlite3.Error, sqlite3.Warning, OSError, ValueError)

#: Connections are kept to the end of the process and never closed: the last one to close would have to checkpoint
#: the write-ahead log, which can take longer than everything else here.
_open: dict[str, sqlite3.Connection] = {}


def append(home: str, row: Row) -> None:
    """Store the row; raises OSError only if neither the database nor the spool can be written."""
    try:
        _connect(home).execute(_INSERT, row)
    except _TROUBLE:
        spool(home, row)


def read_brief(home: str, root: str) -> str:
    """What the server prepared for the start of a session in this project; empty if there is nothing."""
    try:
        found = _connect(home).execute(_BRIEF, (root,)).fetchone()
    except _TROUBLE:
        return ""
    return str(found[0]) if found else ""


def spool(home: str, row: Row) -> None:
    """Write the row as a file that appears whole or not at all, under a name that sorts by time."""
    directory = private_dir(os.path.join(private_dir(home), SPOOL))
    name = "%013d-%d-%s.json" % (row.received_ms, os.getpid(), os.urandom(6).hex())
    final = os.path.join(directory, name)
    data = json.dumps(row._asdict()).encode("ascii")
    handle = os.open(final + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(final + ".tmp", final)
    except OSError:
        os.unlink(final + ".tmp")
        raise


def _connect(home: str) -> sqlite3.Connection:
    if home not in _open:
        path = os.path.join(home, DATABASE)
        if not os.path.isfile(path):
            raise FileNotFoundError(path)
        for char, code in (("%", "%25"), ("?", "%3f"), ("#", "%23"), (os.sep, "/")):
            path = path.replace(char, code)
        # An SQLite URI that opens what exists and creates nothing.
        uri = "file://" + ("" if path.startswith("/") else "/") + path + "?mode=rw"
        _open[home] = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        # In a write-ahead log this keeps a commit safe against a killed process without waiting for the disk.
        _open[home].execute("PRAGMA synchronous = NORMAL")
    (version,) = _open[home].execute("PRAGMA user_version").fetchone()
    if not 1 <= version <= SCHEMA:
        raise sqlite3.NotSupportedError("the database has version %d" % version)
    return _open[home]
