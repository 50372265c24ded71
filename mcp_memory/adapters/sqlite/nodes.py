"""Writing nodes: a version, its bullets and grips, its place in the index, and the mark on its parent, together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mcp_memory.adapters.sqlite.database import Transaction
from mcp_memory.adapters.sqlite.mentions import note_mentions
from mcp_memory.domain.grips import Grip
from mcp_memory.domain.indexing import node_columns
from mcp_memory.domain.summaries import Bullet, Node
from mcp_memory.domain.toc import Level

NODE = 2

_ADD_INDEX = "INSERT INTO search (rowid, head, user, assistant, tool, parts) VALUES (?, ?, ?, ?, ?, ?)"
DROP_INDEX = (
    "INSERT INTO search (search, rowid, head, user, assistant, tool, parts) VALUES ('delete', ?, ?, ?, ?, ?, ?)"
)
_NOTE_REMOVED = """
    INSERT INTO removed_node (project, level, key, parent, since, until)
    SELECT n.project, n.level, n.key, n.parent, min(v.id), (SELECT seq FROM sqlite_sequence WHERE name = 'node_version')
    FROM node n JOIN node_version v ON v.node = n.id WHERE n.id = ? AND n.removed = 0 GROUP BY n.id
"""
_FIND = "SELECT id, current, removed FROM node WHERE project = ? AND level = ? AND key = ?"
_ADD_NODE = (
    "INSERT INTO node (id, project, level, key, parent, session, start_ms, end_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_ADD_VERSION = (
    "INSERT INTO node_version (id, node, version, title, start_ms, end_ms, keywords, children, open, removed, "
    "written_by, input_hash, tokens, created_ms, depth, input_tokens, output_tokens, compression, weight) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_ADD_BULLET = "INSERT INTO bullet (node_version, position, text, grips, children) VALUES (?, ?, ?, ?, ?)"
_SET_CURRENT = "UPDATE node SET current = ?, start_ms = ?, end_ms = ?, open = ?, removed = ? WHERE id = ?"
_ADD_DIRTY = "INSERT OR IGNORE INTO dirty_node (project, level, key) VALUES (?, ?, ?)"
_ADD_GRIP = (
    "INSERT INTO grip (id, key, node, timestamp_ms, event, start, end, excerpt, first_event, last_event, live) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)"
)


def write_node(tx: Transaction, project: int, session: int | None, node: Node, *, tell_parent: bool = True) -> int:
    """Append a version and make it the current one; returns the node's number."""
    rows = tx.fetch(_FIND, (project, int(node.level), node.ref.key))
    parent = node.ref.parent
    if rows:
        number, current, removed = rows[0]
        if not removed:
            _unindex(tx, number, current)
        version = (tx.fetch("SELECT max(version) FROM node_version WHERE node = ?", (number,)))[0][0] + 1
    else:
        number, version = tx.next_id("node"), 1
        place = (number, project, int(node.level), node.ref.key, parent.key if parent else "", session)
        tx.run(_ADD_NODE, (*place, node.start_ms, node.end_ms))
    _write_version(tx, number, version, node)
    note_mentions(tx, number, node)
    if parent and tell_parent:
        tx.run(_ADD_DIRTY, (project, int(parent.level), parent.key))
    if node.level is Level.DAY:
        tx.run("INSERT OR IGNORE INTO dirty_brief (project) VALUES (?)", (project,))
    return int(number)


def _write_version(tx: Transaction, number: int, version: int, node: Node) -> None:
    row = tx.next_id("node_version")
    values: tuple[Any, ...] = (
        *(row, number, version, node.title, node.start_ms, node.end_ms),
        *(json.dumps(node.keywords, ensure_ascii=False), json.dumps(node.child_ids)),
        *(int(node.open), int(node.removed), node.written_by, node.input_hash, node.tokens, node.created_ms),
        *_metrics(node),
        node.weight,
    )
    tx.run(_ADD_VERSION, values)
    tx.run_many(_ADD_BULLET, [_bullet_row(row, index, bullet) for index, bullet in enumerate(node.bullets)])
    current = (row, node.start_ms, node.end_ms, int(node.open), int(node.removed), number)
    tx.run(_SET_CURRENT, current)
    if not node.removed:
        columns = node_columns(node.title, [bullet.text for bullet in node.bullets], list(node.keywords))
        tx.run(_ADD_INDEX, (number * 4 + NODE, *columns.values))


def _metrics(node: Node) -> tuple[str, int, int, float]:
    found = node.metrics
    if found is None:
        return "", 0, 0, 1.0
    return found.depth.value, found.input_tokens, found.output_tokens, found.compression_ratio


def _bullet_row(row: int, index: int, bullet: Bullet) -> tuple[Any, ...]:
    return row, index, bullet.text, json.dumps(bullet.grip_ids), json.dumps(bullet.child_ids)


def _unindex(tx: Transaction, number: int, current: int) -> None:
    """A contentless index forgets a document only if told exactly what it held."""
    rows = tx.fetch("SELECT title, keywords FROM node_version WHERE id = ?", (current,))
    bullets = tx.fetch("SELECT text FROM bullet WHERE node_version = ? ORDER BY position", (current,))
    if rows:
        title, keywords = rows[0]
        columns = node_columns(title, [text for (text,) in bullets], json.loads(keywords))
        tx.run(DROP_INDEX, (number * 4 + NODE, *columns.values))


def write_grips(tx: Transaction, number: int, grips: Sequence[Grip]) -> None:
    """Make these the node's living grips; others stay readable by id. The index finds a grip by the event it cites."""
    wanted = {grip.key: grip for grip in grips}
    stored = tx.fetch("SELECT id, key, live FROM grip WHERE node = ?", (number,))
    for row, key, live in stored:
        if live and key not in wanted:
            tx.run("UPDATE grip SET live = 0 WHERE id = ?", (row,))
        elif not live and key in wanted:
            tx.run("UPDATE grip SET live = 1 WHERE id = ?", (row,))
    known = {key for _, key, *_ in stored}
    _add_grips(tx, number, [grip for key, grip in wanted.items() if key not in known])


def _add_grips(tx: Transaction, number: int, grips: Sequence[Grip]) -> None:
    if not grips:
        return
    keys = list({key for grip in grips for key in (grip.event_key, grip.first_event_key, grip.last_event_key)})
    cited = tx.fetch(f"SELECT key, id FROM event WHERE key IN ({_marks(keys)})", keys)
    events: dict[bytes, int] = {row[0]: row[1] for row in cited}
    names = [grip.key for grip in grips]
    found = tx.fetch(f"SELECT key, id FROM grip WHERE key IN ({_marks(names)})", names)
    taken = {row[0]: row[1] for row in found}
    rows = []
    for row, grip in enumerate(grips, tx.next_id("grip", len(grips))):
        if grip.key in taken:
            # The same words were cited by a segment that a late event has cut anew.
            tx.run("UPDATE grip SET node = ?, live = 1 WHERE id = ?", (number, taken[grip.key]))
            continue
        span = (grip.start, grip.end, grip.excerpt, events[grip.first_event_key], events[grip.last_event_key])
        rows.append((row, grip.key, number, grip.timestamp_ms, events[grip.event_key], *span))
    tx.run_many(_ADD_GRIP, rows)


def _marks(values: Sequence[Any]) -> str:
    return ",".join("?" * len(values))


def remove_segment_node(tx: Transaction, segment_key: bytes) -> None:
    """Take a segment's node out of the tree; its versions and grips stay readable by id."""
    rows = tx.fetch(
        "SELECT n.id, n.project, n.current, n.parent, v.version, v.input_hash, v.title, v.start_ms, v.end_ms "
        "FROM segment g JOIN node n ON n.id = g.node JOIN node_version v ON v.id = n.current "
        "WHERE g.key = ? AND n.removed = 0",
        (segment_key,),
    )
    for number, project, current, parent, version, input_hash, title, start_ms, end_ms in rows:
        _unindex(tx, number, current)
        write_grips(tx, number, [])
        row = tx.next_id("node_version")
        values = (row, number, version + 1, title, start_ms, end_ms, "[]", "[]", 0, 1, "removed", input_hash, 0, 0)
        tx.run(_ADD_VERSION, (*values, "", 0, 0, 1.0, 0))
        tx.run(_SET_CURRENT, (row, start_ms, end_ms, 0, 1, number))
        tx.run(_ADD_DIRTY, (project, int(Level.DAY), parent))


def remove_node(tx: Transaction, number: int) -> None:
    """Take a node out of memory altogether, with its versions and grips; only its name stays."""
    tx.run(_NOTE_REMOVED, (number,))
    rows = tx.fetch("SELECT current FROM node WHERE id = ? AND removed = 0", (number,))
    if rows:
        _unindex(tx, number, rows[0][0])
    write_grips(tx, number, [])
    tx.run("DELETE FROM grip WHERE node = ?", (number,))
    tx.run("DELETE FROM bullet WHERE node_version IN (SELECT id FROM node_version WHERE node = ?)", (number,))
    tx.run("DELETE FROM node_version WHERE node = ?", (number,))
    tx.run("DELETE FROM mention WHERE node = ?", (number,))
    tx.run("DELETE FROM node WHERE id = ?", (number,))
