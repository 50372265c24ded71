"""From a damaged database into a new one: all that can still be read and that is not derived from something else.

Numbers and keys are kept, so that importing the same transcripts again adds nothing twice. What is derived comes over
if all of it can be read; else the pipeline makes it anew from the events, as after `process --rebuild`.
"""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from mcp_memory.domain.events import EventType, Role
from mcp_memory.domain.records import digest
from mcp_memory.store.sqlite.btree import Record, Value
from mcp_memory.store.sqlite.damaged import Check, Damaged
from mcp_memory.store.sqlite.database import Transaction
from mcp_memory.store.sqlite.layout import layout_of
from mcp_memory.store.sqlite.pages import Image
from mcp_memory.store.sqlite.projects import project_of
from mcp_memory.store.sqlite.rebuild import index_all, start_anew
from mcp_memory.store.sqlite.records import forget_records
from mcp_memory.store.sqlite.salvage_tree import bring_tree

_KEY_BYTES = 10
_TYPES, _ROLES = frozenset(EventType), frozenset(Role)
#: What events belong to when nothing tells any more which session or project they were of.
_UNKNOWN_CLIENT = "unknown"
#: The name of a kept answer.
_HASH = re.compile(r"[0-9a-f]{40}")
#: How checkpoints are named; those of older versions hold words.
_CHECKPOINT = re.compile(r"transcript:[0-9a-f]{32}|inbox")
_COUNTS = """
    SELECT (SELECT count(*) FROM event), (SELECT count(*) FROM session), (SELECT count(*) FROM project),
           (SELECT count(*) FROM inbox), (SELECT count(*) FROM forgotten)
"""
_GAPS = """
    SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0) - (SELECT count(*) FROM event)
           - (SELECT count(*) FROM forgotten) - (SELECT count(DISTINCT at_event) FROM erased)
"""
#: Whether a session is due for a record is decided from what it holds.
_LOOK_AT_ALL = "INSERT OR IGNORE INTO dirty_compaction (session) SELECT DISTINCT session FROM event"


@dataclass(frozen=True, slots=True)
class Salvaged:
    """How much was brought over. `lost` are events that were there and could not be read; `sure`: there are no more."""

    events: int
    lost: int
    sure: bool
    sessions: int
    projects: int
    inbox: int
    forgotten: int
    #: Tables of which something may be missing.
    damaged: tuple[str, ...] = ()
    #: Whether the zone of the memory's days could be read.
    zone: bool = True
    #: Whether the write-ahead log holds something that cannot be trusted.
    log_cut: bool = False
    #: Whether the tree was brought over, too; else it is made anew.
    tree: bool = False

    @property
    def nothing(self) -> bool:
        return not (self.events or self.inbox or self.sessions or self.forgotten)


def salvage(image: Image, connection: sqlite3.Connection, timezone: str) -> Salvaged:
    """Fill a new database, which no one else knows yet. `timezone`: of its days, if the old one cannot be read."""
    source = Damaged(image, layout_of(connection))
    tx = Transaction(connection)
    for name, (check, loose) in _KEPT.items():
        source.copy_to(connection, name, check, loose=loose)
    damaged = tuple(name for name, reading in source.readings.items() if not reading.whole)
    events = source.readings["event"]
    sure = events.sure and not image.log.cut
    relapsed = _relapsed(tx)
    complete = sure and not relapsed and not {"event", "session", "project"} & {*damaged}
    _give_homes(tx)
    if not complete or "inbox" in damaged:
        # A transcript that still has what was lost must be read from its start.
        tx.run("DELETE FROM checkpoint")
    zone = _zone(tx)
    tree = complete and zone is not None and bring_tree(source, connection)
    _keep_records(tx, whole=not {"compaction", "compaction_source"} & {*damaged})
    _go_on_counting(tx, source)
    if tree:
        index_all(tx)
    else:
        start_anew(tx, zone or timezone)
        tx.run(_LOOK_AT_ALL)
    count, sessions, projects, inbox, forgotten = tx.fetch(_COUNTS)[0]
    lost = events.lost if sure else max(events.lost, _gaps(tx, source))
    facts = (damaged, zone is not None, image.log.cut, tree)
    return Salvaged(count, lost, sure, sessions, projects, inbox, forgotten, *facts)


def _zone(tx: Transaction) -> str | None:
    """The zone of the memory's days, if it could be read."""
    rows = tx.fetch("SELECT value FROM meta WHERE key = 'timezone'")
    return str(rows[0][0]) if rows else None


def _relapsed(tx: Transaction) -> bool:
    """Take out events that were forgotten: pages of before may have been found again."""
    found = tx.fetch("SELECT id FROM event WHERE key IN (SELECT key FROM forgotten)")
    tx.run_many("DELETE FROM event WHERE id = ?", found)
    return bool(found)


def _give_homes(tx: Transaction) -> None:
    """Events whose session is lost, and sessions whose project is, get one that says so."""
    for (project,) in tx.fetch("SELECT DISTINCT project FROM session WHERE project NOT IN (SELECT id FROM project)"):
        name = f"recovered-{project}"
        tx.run("INSERT OR IGNORE INTO project (id, slug, root) VALUES (?, ?, ?)", (project, name, f"label:{name}"))
    tx.run("DELETE FROM project_alias WHERE project NOT IN (SELECT id FROM project)")
    for (session,) in tx.fetch("SELECT DISTINCT session FROM event WHERE session NOT IN (SELECT id FROM session)"):
        home = project_of(tx, "", "recovered")
        values = (session, _UNKNOWN_CLIENT, f"recovered-{session}", home)
        tx.run("INSERT INTO session (id, client, session_id, project) VALUES (?, ?, ?, ?)", values)


def _keep_records(tx: Transaction, *, whole: bool) -> None:
    """A session's records tell what their events said. Those that no longer can are made anew."""
    if not whole:
        tx.run("DELETE FROM compaction_source")
        tx.run("DELETE FROM compaction")
        tx.run(_LOOK_AT_ALL)
    cited = tx.fetch("SELECT o.event, o.sha256, e.text FROM compaction_source o LEFT JOIN event e ON e.id = o.event")
    forget_records(tx, [event for event, sha256, text in cited if text is None or digest(text) != sha256])


def _go_on_counting(tx: Transaction, source: Damaged) -> None:
    """Numbers are places in the log and are not given twice, whatever became of what had them."""
    told = source.sequences()
    for name in ("event", "node_version", "compaction", "inbox"):
        last = told.get(name) or source.last_number(name)
        rows = tx.fetch("SELECT seq FROM sqlite_sequence WHERE name = ?", (name,))
        tx.run("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        tx.run("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, max(last, rows[0][0] if rows else 0)))


def _gaps(tx: Transaction, source: Damaged) -> int:
    """Numbers that were given to events, less those that are there and those that forgetting took."""
    if not (source.readings["forgotten"].whole and source.readings["erased"].whole):
        return 0
    return int(tx.fetch(_GAPS)[0][0])


def _any(row: Record) -> bool:
    return True


def _is_fact(row: Record) -> bool:
    if row[0] != "timezone":
        return True
    try:
        ZoneInfo(str(row[1]))
    except (ValueError, KeyError, OSError):
        return False
    return True


def _is_event(row: Record) -> bool:
    _, key, _, _, kind, role, _, tokens, truncated, source_ids, metadata = row
    known = kind in _TYPES and role in _ROLES and truncated in (0, 1) and _at_least(tokens, 0)
    return known and _is_key(key) and _is_json(source_ids, list) and _is_json(metadata, dict)


def _is_key(value: Value) -> bool:
    return isinstance(value, bytes) and len(value) == _KEY_BYTES


def _at_least(value: Value, least: int) -> bool:
    return isinstance(value, int) and value >= least


def _is_json(value: Value, kind: type) -> bool:
    try:
        return isinstance(json.loads(str(value)), kind)
    except (ValueError, RecursionError):
        return False


#: What is brought over, in this order: how a row is told, and whether it can be told from those of all other tables.
_KEPT: dict[str, tuple[Check, bool]] = {
    "meta": (_is_fact, False),
    "project": (lambda row: bool(row[1] and row[2]), True),
    "project_alias": (_any, False),
    "forgotten": (lambda row: _is_key(row[0]), True),
    "forgotten_words": (lambda row: _is_key(row[0]), False),
    "session": (lambda row: bool(row[1] and row[2]), True),
    "event": (_is_event, True),
    "inbox": (lambda row: row[6] in (0, 1), True),
    "checkpoint": (lambda row: bool(_CHECKPOINT.fullmatch(str(row[0]))) and _is_json(row[1], dict), False),
    "erased": (lambda row: row[3] in (0, 1), True),
    "removed_node": (_any, True),
    "llm_call": (_any, True),
    "llm_answer": (lambda row: bool(_HASH.fullmatch(str(row[0]))), True),
    "llm_state": (_any, False),
    "compaction": (lambda row: _is_json(row[9], list) and _is_json(row[10], dict), True),
    "compaction_source": (_any, True),
}
