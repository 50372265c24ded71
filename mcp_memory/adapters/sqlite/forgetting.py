"""Forgetting: events and all that was made of them, down to the free pages of the file.

A summary may quote what is to be forgotten, so every node above it is taken away with all its versions and made anew
from what is left. Only the 80-bit keys stay, so that a later import does not bring back what was forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from mcp_memory.adapters.sqlite.compactions import forget_records
from mcp_memory.adapters.sqlite.database import Database, Row, Transaction
from mcp_memory.adapters.sqlite.erasures import note_erasure
from mcp_memory.adapters.sqlite.events import CUT_ANEW, EVENT
from mcp_memory.adapters.sqlite.nodes import DROP_INDEX, remove_node
from mcp_memory.domain.events import LIFECYCLE, EventType
from mcp_memory.domain.indexing import event_columns
from mcp_memory.domain.toc import Level, NodeRef, ancestors

_CHUNK = 500
_EVENTS = """
    SELECT e.id, e.session, e.key, e.role, e.type, e.text, e.timestamp_ms, s.project
    FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project WHERE {where}
"""
#: The segments of a session from the one on that holds a time, with their nodes.
_SEGMENTS_FROM = """
    SELECT g.key, n.id, n.key, n.project FROM segment g LEFT JOIN node n ON n.id = g.node
    WHERE g.session = ?1
      AND g.start_ms >= (SELECT coalesce(max(start_ms), 0) FROM segment WHERE session = ?1 AND start_ms <= ?2)
"""


@dataclass(frozen=True, slots=True)
class Wish:
    """What to forget: exactly one of these is given."""

    session_id: str | None = None
    event_key: bytes | None = None
    project: str | None = None
    before_ms: int | None = None
    match: str | None = None


@dataclass(frozen=True, slots=True)
class Forgotten:
    events: int
    sessions: int
    inbox: int


async def forget(database: Database, wish: Wish, *, dry_run: bool) -> Forgotten:
    """Forget in one transaction; a dry run counts and changes nothing."""
    if dry_run:
        where, values = _condition(wish)
        rows = await database.fetch(_EVENTS.format(where=where), values)
        waiting = [row for row in await database.fetch("SELECT id, payload FROM inbox") if speaks_of(row[1], wish)]
        return Forgotten(len(rows), len({row[1] for row in rows}), len(waiting))
    return await database.write(_forget, wish)


def _forget(tx: Transaction, wish: Wish) -> Forgotten:
    where, values = _condition(wish)
    rows = tx.fetch(_EVENTS.format(where=where), values)
    waiting = [row for row in tx.fetch("SELECT id, payload FROM inbox") if speaks_of(row[1], wish)]
    tx.run_many("DELETE FROM inbox WHERE id = ?", [(row[0],) for row in waiting])
    forget_records(tx, [row[0] for row in rows])
    _drop_nodes(tx, rows)
    _drop_events(tx, rows)
    _note_place(tx, rows)
    # Kept answers of a model may quote what was asked.
    tx.run("DELETE FROM llm_answer")
    note_erasure(tx)
    # The index keeps words in its old parts until these are merged.
    tx.run("INSERT INTO search (search) VALUES ('optimize')")
    return Forgotten(len(rows), len({row[1] for row in rows}), len(waiting))


def _condition(wish: Wish) -> tuple[str, tuple[object, ...]]:
    choices: list[tuple[str, object]] = [
        ("s.session_id = ?", wish.session_id),
        ("e.key = ?", wish.event_key),
        ("p.slug = ?", wish.project),
        ("e.timestamp_ms < ?", wish.before_ms),
        ("instr(lower(e.text), lower(?)) > 0", wish.match),
    ]
    (where, value), *more = [(clause, value) for clause, value in choices if value is not None]
    if more:
        raise ValueError("forget takes one wish at a time")
    return where, (value,)


def speaks_of(payload: str, wish: Wish) -> bool:
    """Whether a captured payload that is not yet an event falls under the wish."""
    if wish.match is not None:
        return wish.match.lower() in payload.lower() or json.dumps(wish.match)[1:-1].lower() in payload.lower()
    return wish.session_id is not None and json.dumps(wish.session_id) in payload


def _drop_nodes(tx: Transaction, rows: Sequence[Row]) -> None:
    """Take away the segments of the sessions from the first forgotten event on, and every period above them."""
    earliest: dict[int, int] = {}
    for _, session, _, _, _, _, timestamp_ms, _ in rows:
        earliest[session] = min(earliest.get(session, timestamp_ms), timestamp_ms)
    for session, from_ms in earliest.items():
        for segment, node, node_key, project in tx.fetch(_SEGMENTS_FROM, (session, from_ms)):
            if node is not None:
                remove_node(tx, node)
                _drop_periods(tx, project, NodeRef(Level.SEGMENT, node_key))
            tx.run("DELETE FROM segment WHERE key = ?", (segment,))
        tx.run(CUT_ANEW, (session, from_ms))
    for project in {row[7] for row in rows}:
        tx.run("DELETE FROM brief WHERE root IN (SELECT root FROM project WHERE id = ?)", (project,))
        tx.run("INSERT OR IGNORE INTO dirty_brief (project) VALUES (?)", (project,))


def _note_place(tx: Transaction, rows: Sequence[Row]) -> None:
    """Keep at which place in the log a session lost something, so that a view of an earlier place can tell."""
    if not rows:
        return
    tx.run("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'event'")
    sessions: dict[tuple[int, int], bool] = {}
    for _, session, _, _, kind, _, _, project in rows:
        sessions[session, project] = sessions.get((session, project), False) or kind == EventType.NOTE
    tx.run_many(
        "INSERT INTO erased (at_event, session, project, notes) "
        "SELECT seq, ?, ?, ? FROM sqlite_sequence WHERE name = 'event'",
        [(session, project, int(notes)) for (session, project), notes in sessions.items()],
    )


def _drop_periods(tx: Transaction, project: int, ref: NodeRef) -> None:
    for period in ancestors(ref):
        place = (project, int(period.level), period.key)
        rows = tx.fetch("SELECT id FROM node WHERE project = ? AND level = ? AND key = ?", place)
        for (node,) in rows:
            remove_node(tx, node)
        tx.run("INSERT OR IGNORE INTO dirty_node (project, level, key) VALUES (?, ?, ?)", place)


def _drop_events(tx: Transaction, rows: Sequence[Row]) -> None:
    for number, _, _, role, kind, text, _, _ in rows:
        if kind not in LIFECYCLE and text.strip():
            tx.run(DROP_INDEX, (number * 4 + EVENT, *event_columns(role, kind, text).values))
    tx.run_many("INSERT OR IGNORE INTO forgotten (key) VALUES (?)", [(row[2],) for row in rows])
    for start in range(0, len(rows), _CHUNK):
        numbers = [row[0] for row in rows[start : start + _CHUNK]]
        marks = ",".join("?" * len(numbers))
        for column in ("event", "first_event", "last_event"):
            tx.run(f"DELETE FROM grip WHERE {column} IN ({marks})", numbers)
        tx.run(f"DELETE FROM event WHERE id IN ({marks})", numbers)
