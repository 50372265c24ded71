"""Handing a payload to the server: one row in inbox.db, or a spool file when that will not take it now.

What the agent was handed is noted there too, for people who want to see it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import namedtuple

from mcp_memory.capture.settings import lazy, private_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    from mcp_memory.capture.redaction import Clean

    class Row(NamedTuple):
        """What the hook hands over. `payload` is the client's JSON, redacted and clipped; `remote` the repository's."""

        received_ms: int
        client: str
        root: str
        label: str
        payload: Clean
        remote: str = ""
else:
    Row = namedtuple("Row", "received_ms client root label payload remote", defaults=("",))

#: The latest version of inbox.db that this code knows, and the first that takes a remote.
SCHEMA, _REMOTES = 5, 3
#: The agent waits for the hook, so a database in use is not waited for: the spool is always free.
BUSY_SECONDS = 0.1
DATABASE = "inbox.db"
SPOOL = "spool"

_INSERT = "INSERT INTO inbox (received_ms, client, root, label, payload, remote) VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_BEFORE = "INSERT INTO inbox (received_ms, client, root, label, payload) VALUES (?, ?, ?, ?, ?)"
_BRIEF = "SELECT text FROM brief WHERE root = ?"
#: With which remotes a root is known.
_KNOWN_IN = "SELECT root FROM brief WHERE root >= 'in:' AND root < 'in;' AND substr(root, -length(?1)) = ?1"
_HANDED = (
    "INSERT INTO handed (at_ms, kind, client, session, root, label, remote, asked, ids, tokens) "
    "VALUES (?, 'brief', ?, ?, ?, ?, ?, ?, ?, ?)"
)
#: The server is not told in which session it is asked. The client's hook comes right after the answer.
_SESSION = (
    "UPDATE handed SET session = ? WHERE id = (SELECT id FROM handed WHERE kind = ? AND session = '' AND at_ms >= ? "
    "ORDER BY root = ? AND label = ? DESC, id DESC LIMIT 1)"
)
_AFTER_MS = 60_000
#: Grips and nodes, written out or short, and sessions as answers show them.
_IDS = lazy(
    r"\bgrip:(?:\d{1,15}:[0-9A-Za-z]{26}|[0-9A-HJKMNP-TV-Z]{8}\b)"
    r"|\btoc:(?:year|month|week|day|segment):[0-9A-Za-z:-]{4,40}(?:@(?:team/)?[\w.-]+)?"
    r"|(?:(?<= s:)|(?<=· session ))[^\s·…]{1,80}"
)
MOST_IDS = 20

#: ValueError: a path or text that is not valid Unicode.
_TROUBLE = (sqlite3.Error, sqlite3.Warning, OSError, ValueError)

#: Connections are kept to the end of the process and never closed: the last one to close would have to checkpoint
#: the write-ahead log, which can take longer than everything else here.
_open: dict[str, sqlite3.Connection] = {}
_versions: dict[str, int] = {}


def append(home: str, row: Row) -> bool:
    """Store the row; raises OSError only if neither the database nor the spool can be written.

    Whether the database took it: where it did not, it is not worth another try to tell it more.
    """
    try:
        inbox = _connect(home)
        told = (_INSERT, row) if _versions[home] >= _REMOTES else (_INSERT_BEFORE, row[:-1])
        inbox.execute(*told)
    except _TROUBLE:
        spool(home, row)
        return False
    return True


def read_brief(home: str, root: str) -> str:
    """What the server prepared for the start of a session in this project; empty if there is nothing."""
    try:
        found = _connect(home).execute(_BRIEF, (root,)).fetchone()
    except _TROUBLE:
        return ""
    return str(found[0]) if found else ""


def holds_another(home: str, root: str, remote: str) -> bool:
    """Whether a root is known with another remote alone: what is known of it is not of the repository there now."""
    try:
        known = {name for (name,) in _connect(home).execute(_KNOWN_IN, (":" + root,))}
    except _TROUBLE:
        return False
    return bool(known) and "in:%s:%s" % (remote, root) not in known


def note_brief(home: str, row: Row, session: str, source: str, brief: str) -> None:
    """Note that the brief is handed over for this row, if that can be done; an inbox of before has no place for it."""
    # Its length in tokens is reckoned: a tokenizer takes longer to load than all else here.
    told = (source, json.dumps(named_ids(brief)), len(brief.encode("utf-8", "replace")) // 4)
    _note(home, _HANDED, (row.received_ms, row.client, session, row.root, row.label, row.remote, *told))


def note_session(home: str, now_ms: int, tool: str, session: str, root: str, label: str) -> None:
    """Note in which session our tool was just called, by preference in this place."""
    if session:
        _note(home, _SESSION, (session, tool, now_ms - _AFTER_MS, root, label))


def _note(home: str, sql: str, values: tuple[object, ...]) -> None:
    try:
        _connect(home).execute(sql, values)
    except _TROUBLE:
        return  # whoever works goes on without


def named_ids(text: str) -> list[str]:
    """The first ids that a text names, each once; a session as `session:NAME`."""
    found: dict[str, None] = {}
    for match in _IDS().finditer(text):
        name = match[0].rstrip(":-.")
        found[name if name.startswith(("grip:", "toc:")) else "session:" + name] = None
        if len(found) == MOST_IDS:
            break
    return list(found)


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
    _versions[home] = version
    return _open[home]
