"""Writing nodes: a version, its bullets and grips, its place in the index, and the mark on its parent, together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mcp_memory.adapters.sqlite.database import Transaction
from mcp_memory.domain.grips import Grip
from mcp_memory.domain.indexing import event_columns, node_columns
from mcp_memory.domain.summaries import Bullet, Node
from mcp_memory.domain.toc import Level

GRIP, NODE = 1, 2

_ADD_INDEX = "INSERT INTO search (rowid, head, user, assistant, tool, parts) VALUES (?, ?, ?, ?, ?, ?)"
_DROP_INDEX = (
    "INSERT INTO search (search, rowid, head, user, assistant, tool, parts) VALUES ('delete', ?, ?, ?, ?, ?, ?)"
)
_FIND = "SELECT id, current, removed FROM node WHERE project = ? AND level = ? AND key = ?"
_ADD_NODE = (
    "INSERT INTO node (id, project, level, key, parent, session, start_ms, end_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_ADD_VERSION = (
    "INSERT INTO node_version (id, node, version, title, start_ms, end_ms, keywords, children, open, removed, "
    "written_by, input_hash, tokens, created_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_ADD_BULLET = "INSERT INTO bullet (node_version, position, text, grips, children) VALUES (?, ?, ?, ?, ?)"
_SET_CURRENT = "UPDATE node SET current = ?, start_ms = ?, end_ms = ?, open = ?, removed = ? WHERE id = ?"
_ADD_DIRTY = "INSERT OR IGNORE INTO dirty_node (project, level, key) VALUES (?, ?, ?)"
_ADD_GRIP = (
    "INSERT INTO grip (id, key, node, timestamp_ms, event, start, end, excerpt, first_event, last_event, live) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)"
)


async def write_node(tx: Transaction, project: int, session: int | None, node: Node) -> int:
    """Append a version and make it the current one; returns the node's number."""
    rows = await tx.fetch(_FIND, (project, int(node.level), node.ref.key))
    parent = node.ref.parent
    if rows:
        number, current, removed = rows[0]
        if not removed:
            await _unindex(tx, number, current)
        version = (await tx.fetch("SELECT max(version) FROM node_version WHERE node = ?", (number,)))[0][0] + 1
    else:
        number, version = await tx.next_id("node"), 1
        place = (number, project, int(node.level), node.ref.key, parent.key if parent else "", session)
        await tx.run(_ADD_NODE, (*place, node.start_ms, node.end_ms))
    await _write_version(tx, number, version, node)
    if parent:
        await tx.run(_ADD_DIRTY, (project, int(parent.level), parent.key))
    if node.level is Level.DAY:
        await tx.run("INSERT OR IGNORE INTO dirty_brief (project) VALUES (?)", (project,))
    return int(number)


async def _write_version(tx: Transaction, number: int, version: int, node: Node) -> None:
    row = await tx.next_id("node_version")
    values: tuple[Any, ...] = (
        *(row, number, version, node.title, node.start_ms, node.end_ms),
        *(json.dumps(node.keywords, ensure_ascii=False), json.dumps(node.child_ids)),
        *(int(node.open), int(node.removed), node.written_by, node.input_hash, node.tokens, node.created_ms),
    )
    await tx.run(_ADD_VERSION, values)
    await tx.run_many(_ADD_BULLET, [_bullet_row(row, index, bullet) for index, bullet in enumerate(node.bullets)])
    current = (row, node.start_ms, node.end_ms, int(node.open), int(node.removed), number)
    await tx.run(_SET_CURRENT, current)
    if not node.removed:
        columns = node_columns(node.title, [bullet.text for bullet in node.bullets], list(node.keywords))
        await tx.run(_ADD_INDEX, (number * 4 + NODE, *columns.values))


def _bullet_row(row: int, index: int, bullet: Bullet) -> tuple[Any, ...]:
    return row, index, bullet.text, json.dumps(bullet.grip_ids), json.dumps(bullet.child_ids)


async def _unindex(tx: Transaction, number: int, current: int) -> None:
    """A contentless index forgets a document only if told exactly what it held."""
    rows = await tx.fetch("SELECT title, keywords FROM node_version WHERE id = ?", (current,))
    bullets = await tx.fetch("SELECT text FROM bullet WHERE node_version = ? ORDER BY position", (current,))
    if rows:
        title, keywords = rows[0]
        columns = node_columns(title, [text for (text,) in bullets], json.loads(keywords))
        await tx.run(_DROP_INDEX, (number * 4 + NODE, *columns.values))


async def write_grips(tx: Transaction, number: int, grips: Sequence[Grip]) -> None:
    """Make these the node's living grips. Others stay readable by id but leave the index."""
    wanted = {grip.key: grip for grip in grips}
    stored = await tx.fetch(
        "SELECT g.id, g.key, g.live, g.excerpt, e.role, e.type FROM grip g JOIN event e ON e.id = g.event "
        "WHERE g.node = ?",
        (number,),
    )
    for row, key, live, excerpt, role, kind in stored:
        if live and key not in wanted:
            await tx.run("UPDATE grip SET live = 0 WHERE id = ?", (row,))
            await _index_grip(tx, _DROP_INDEX, row, role, kind, excerpt)
        elif not live and key in wanted:
            await tx.run("UPDATE grip SET live = 1 WHERE id = ?", (row,))
            await _index_grip(tx, _ADD_INDEX, row, role, kind, excerpt)
    known = {key for _, key, *_ in stored}
    await _add_grips(tx, number, [grip for key, grip in wanted.items() if key not in known])


async def _add_grips(tx: Transaction, number: int, grips: Sequence[Grip]) -> None:
    if not grips:
        return
    keys = list({key for grip in grips for key in (grip.event_key, grip.first_event_key, grip.last_event_key)})
    cited = await tx.fetch(f"SELECT id, key, role, type FROM event WHERE key IN ({_marks(keys)})", keys)
    events = {key: (event, role, kind) for event, key, role, kind in cited}
    names = [grip.key for grip in grips]
    found = await tx.fetch(f"SELECT key, id, live FROM grip WHERE key IN ({_marks(names)})", names)
    taken = {key: (row, live) for key, row, live in found}
    rows, documents = [], []
    for row, grip in enumerate(grips, await tx.next_id("grip")):
        event, role, kind = events[grip.event_key]
        if grip.key in taken:
            # The same words were cited by a segment that a late event has cut anew.
            row, live = taken[grip.key]
            await tx.run("UPDATE grip SET node = ?, live = 1 WHERE id = ?", (number, row))
            if live:
                continue
        else:
            span = (grip.start, grip.end, grip.excerpt, events[grip.first_event_key][0], events[grip.last_event_key][0])
            rows.append((row, grip.key, number, grip.timestamp_ms, event, *span))
        documents.append(_grip_document(row, role, kind, grip.excerpt))
    await tx.run_many(_ADD_GRIP, rows)
    await tx.run_many(_ADD_INDEX, documents)


def _marks(values: Sequence[Any]) -> str:
    return ",".join("?" * len(values))


async def _index_grip(tx: Transaction, sql: str, row: int, role: str, kind: str, excerpt: str) -> None:
    await tx.run(sql, _grip_document(row, role, kind, excerpt))


def _grip_document(row: int, role: str, kind: str, excerpt: str) -> tuple[Any, ...]:
    return row * 4 + GRIP, *event_columns(role, kind, excerpt).values


async def remove_segment_node(tx: Transaction, segment_key: bytes) -> None:
    """Take a segment's node out of the tree; its versions and grips stay readable by id."""
    rows = await tx.fetch(
        "SELECT n.id, n.project, n.current, n.parent, v.version, v.input_hash, v.title, v.start_ms, v.end_ms "
        "FROM segment g JOIN node n ON n.id = g.node JOIN node_version v ON v.id = n.current "
        "WHERE g.key = ? AND n.removed = 0",
        (segment_key,),
    )
    for number, project, current, parent, version, input_hash, title, start_ms, end_ms in rows:
        await _unindex(tx, number, current)
        await write_grips(tx, number, [])
        row = await tx.next_id("node_version")
        values = (row, number, version + 1, title, start_ms, end_ms, "[]", "[]", 0, 1, "removed", input_hash, 0, 0)
        await tx.run(_ADD_VERSION, values)
        await tx.run(_SET_CURRENT, (row, start_ms, end_ms, 0, 1, number))
        await tx.run(_ADD_DIRTY, (project, int(Level.DAY), parent))


async def remove_node(tx: Transaction, number: int) -> None:
    """Take a node out of memory altogether, with its versions and grips."""
    rows = await tx.fetch("SELECT current FROM node WHERE id = ? AND removed = 0", (number,))
    if rows:
        await _unindex(tx, number, rows[0][0])
    await write_grips(tx, number, [])
    await tx.run("DELETE FROM grip WHERE node = ?", (number,))
    await tx.run("DELETE FROM bullet WHERE node_version IN (SELECT id FROM node_version WHERE node = ?)", (number,))
    await tx.run("DELETE FROM node_version WHERE node = ?", (number,))
    await tx.run("DELETE FROM node WHERE id = ?", (number,))
