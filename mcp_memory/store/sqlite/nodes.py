"""The nodes of the tree: written as versions with bullets, grips, index rows and marked parents; read as rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mcp_memory.domain.nodes import Bullet, Grip, Node, Stale
from mcp_memory.domain.segments import SegmentWrite
from mcp_memory.domain.terms import node_columns
from mcp_memory.domain.toc import GRACE, Level, NodeRef
from mcp_memory.store.sqlite.database import Database, Reads, Row, Transaction
from mcp_memory.store.sqlite.work import check_lease

NODE = 2

DROP_INDEX = (
    "INSERT INTO search (search, rowid, head, user, assistant, tool, parts) VALUES ('delete', ?, ?, ?, ?, ?, ?)"
)
_NOTE_REMOVED = """
    INSERT INTO removed_node (project, level, key, parent, since, until)
    SELECT n.project, n.level, n.key, n.parent, min(v.id), (SELECT seq FROM sqlite_sequence WHERE name = 'node_version')
    FROM node n JOIN node_version v ON v.node = n.id WHERE n.id = ? AND n.removed = 0 GROUP BY n.id
"""
_FIND = """
    SELECT project, level, key, id, current, removed, (SELECT max(version) FROM node_version v WHERE v.node = n.id)
    FROM node n WHERE (project, level, key) IN (VALUES {places})
"""
_NODE = "node (id, project, level, key, parent, session, current, start_ms, end_ms, open, removed)"
_VERSION = (
    "node_version (id, node, version, title, start_ms, end_ms, keywords, children, open, removed, written_by, "
    "input_hash, tokens, created_ms, depth, input_tokens, output_tokens, compression, weight)"
)
_BULLET = "bullet (node_version, position, text, grips, children)"
_INDEX = "search (rowid, head, user, assistant, tool, parts)"
_DIRTY = "dirty_node (project, level, key)"
_SET_CURRENT = "UPDATE node SET current = ?, start_ms = ?, end_ms = ?, open = ?, removed = ? WHERE id = ?"
_GRIP = "grip (id, key, node, timestamp_ms, event, start, end, excerpt, first_event, last_event)"
_UNLESS_THERE = "ON CONFLICT DO NOTHING"


class Placed(NamedTuple):
    """A new version of a node, in a project and, if it is a segment's, of a session."""

    project: int
    session: int | None
    node: Node

    @property
    def place(self) -> tuple[int, int, str]:
        return self.project, int(self.node.level), self.node.ref.key


class _Numbered(NamedTuple):
    """The same with the number of the node, and the row and the count of its new version."""

    project: int
    session: int | None
    node: Node
    number: int
    row: int
    version: int

    @property
    def state(self) -> tuple[int, int, int, int, int]:
        return self.row, self.node.start_ms, self.node.end_ms, int(self.node.open), int(self.node.removed)


def write_nodes(tx: Transaction, placed: Sequence[Placed], *, tell_parents: bool = True) -> list[int]:
    """Append a version of each node and make it the current one; returns the nodes' numbers."""
    if not placed:
        return []
    numbered = _numbered(tx, placed)
    tx.insert(_NODE, [_node_row(one) for one in numbered if one.version == 1])
    tx.run_many(_SET_CURRENT, [(*one.state, one.number) for one in numbered if one.version > 1])
    tx.insert(_VERSION, [_version_row(one) for one in numbered])
    tx.insert(_BULLET, [_bullet_row(one.row, *told) for one in numbered for told in enumerate(one.node.bullets)])
    tx.insert(_INDEX, [_document(one) for one in numbered if not one.node.removed])
    note_mentions(tx, [(one.project, one.number, one.row, one.node) for one in numbered])
    if tell_parents:
        _mark_parents(tx, numbered)
    days = {one.project for one in numbered if one.node.level is Level.DAY}
    tx.insert("dirty_brief (project)", [(project,) for project in sorted(days)], known=_UNLESS_THERE)
    return [one.number for one in numbered]


def _numbered(tx: Transaction, placed: Sequence[Placed]) -> list[_Numbered]:
    """The nodes under their own numbers, new ones under the next."""
    known = _known(tx, placed)
    numbered = []
    for one in placed:
        number, version = known.get(one.place) or (tx.next_id("node"), 0)
        numbered.append(_Numbered(*one, number, tx.next_id("node_version"), version + 1))
    return numbered


def _mark_parents(tx: Transaction, numbered: Sequence[_Numbered]) -> None:
    parents = [(one.project, parent) for one in numbered if (parent := one.node.ref.parent)]
    tx.insert(_DIRTY, [(project, int(ref.level), ref.key) for project, ref in parents], known=_UNLESS_THERE)


def _known(tx: Transaction, placed: Sequence[Placed]) -> dict[tuple[int, int, str], tuple[int, int]]:
    """Number and latest version of the nodes that are there already, by their places; they leave the index."""
    places = ", ".join(["(?, ?, ?)"] * len(placed))
    found = tx.fetch(_FIND.format(places=places), [value for one in placed for value in one.place])
    for *_, number, current, removed, _ in found:
        if not removed:
            _unindex(tx, number, current)
    return {(project, level, key): (number, version) for project, level, key, number, _, _, version in found}


def _node_row(one: _Numbered) -> tuple[Any, ...]:
    ref = one.node.ref
    parent = ref.parent.key if ref.parent else ""
    return one.number, one.project, int(ref.level), ref.key, parent, one.session, *one.state


def _version_row(one: _Numbered) -> tuple[Any, ...]:
    node = one.node
    return (
        *(one.row, one.number, one.version, node.title, node.start_ms, node.end_ms),
        *(json.dumps(node.keywords, ensure_ascii=False), json.dumps(node.child_ids)),
        *(int(node.open), int(node.removed), node.written_by, node.input_hash, node.tokens, node.created_ms),
        *_metrics(node),
        node.weight,
    )


def _document(one: _Numbered) -> tuple[Any, ...]:
    node = one.node
    columns = node_columns(node.title, [bullet.text for bullet in node.bullets], list(node.keywords))
    return one.number * 4 + NODE, *columns.values


def _metrics(node: Node) -> tuple[str, int, int, float]:
    found = node.metrics
    if found is None:
        return "", 0, 0, 1.0
    return found.depth.value, found.input_tokens, found.output_tokens, found.compression_ratio


def _bullet_row(row: int, index: int, bullet: Bullet) -> tuple[Any, ...]:
    return row, index, bullet.text, json.dumps(bullet.grip_ids), json.dumps(bullet.child_ids)


def index_nodes(tx: Transaction) -> None:
    """Index every node by its current version."""
    for number, current in tx.fetch("SELECT id, current FROM node WHERE removed = 0"):
        if document := _stored_document(tx, number, current):
            tx.insert(_INDEX, [document])


def _unindex(tx: Transaction, number: int, current: int) -> None:
    """A contentless index forgets a document only if told exactly what it held."""
    if document := _stored_document(tx, number, current):
        tx.run(DROP_INDEX, document)


def _stored_document(tx: Transaction, number: int, current: int) -> tuple[Any, ...] | None:
    """A node as the index holds it, made from its current version; None if that is not there."""
    rows = tx.fetch("SELECT title, keywords FROM node_version WHERE id = ?", (current,))
    if not rows:
        return None
    title, keywords = rows[0]
    bullets = tx.fetch("SELECT text FROM bullet WHERE node_version = ? ORDER BY position", (current,))
    columns = node_columns(title, [text for (text,) in bullets], json.loads(keywords))
    return number * 4 + NODE, *columns.values


def write_grips(tx: Transaction, by_node: Mapping[int, Sequence[Grip]]) -> None:
    """Make these the nodes' living grips; others stay readable by id. The index finds a grip by the event it cites."""
    wanted = {(number, grip.key): grip for number, grips in by_node.items() for grip in grips}
    nodes = list(by_node)
    stored = tx.fetch(f"SELECT id, node, key, live FROM grip WHERE node IN ({_marks(nodes)})", nodes)
    for row, *place, live in stored:
        if bool(live) is not (tuple(place) in wanted):
            tx.run("UPDATE grip SET live = ? WHERE id = ?", (int(not live), row))
    known = {(number, key) for _, number, key, _ in stored}
    _add_grips(tx, [(place[0], grip) for place, grip in wanted.items() if place not in known])


def _add_grips(tx: Transaction, grips: Sequence[tuple[int, Grip]]) -> None:
    if not grips:
        return
    keys = list({key for _, grip in grips for key in (grip.event_key, grip.first_event_key, grip.last_event_key)})
    cited = tx.fetch(f"SELECT key, id FROM event WHERE key IN ({_marks(keys)})", keys)
    events: dict[bytes, int] = {row[0]: row[1] for row in cited}
    names = [grip.key for _, grip in grips]
    found = tx.fetch(f"SELECT key, id FROM grip WHERE key IN ({_marks(names)})", names)
    taken = {row[0]: row[1] for row in found}
    rows = []
    for row, (number, grip) in enumerate(grips, tx.next_id("grip", len(grips))):
        if grip.key in taken:
            # The same words were cited by a segment that a late event has cut anew.
            tx.run("UPDATE grip SET node = ?, live = 1 WHERE id = ?", (number, taken[grip.key]))
            continue
        span = (grip.start, grip.end, grip.excerpt, events[grip.first_event_key], events[grip.last_event_key])
        rows.append((row, grip.key, number, grip.timestamp_ms, events[grip.event_key], *span))
    tx.insert(_GRIP, rows)


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
        write_grips(tx, {number: ()})
        row = tx.next_id("node_version")
        values = (row, number, version + 1, title, start_ms, end_ms, "[]", "[]", 0, 1, "removed", input_hash, 0, 0)
        tx.insert(_VERSION, [(*values, "", 0, 0, 1.0, 0)])
        tx.run(_SET_CURRENT, (row, start_ms, end_ms, 0, 1, number))
        tx.insert(_DIRTY, [(project, int(Level.DAY), parent)], known=_UNLESS_THERE)


def remove_node(tx: Transaction, number: int) -> None:
    """Take a node out of memory altogether, with its versions and grips; only its name stays."""
    tx.run(_NOTE_REMOVED, (number,))
    rows = tx.fetch("SELECT current FROM node WHERE id = ? AND removed = 0", (number,))
    if rows:
        _unindex(tx, number, rows[0][0])
    write_grips(tx, {number: ()})
    tx.run("DELETE FROM grip WHERE node = ?", (number,))
    tx.run("DELETE FROM bullet WHERE node_version IN (SELECT id FROM node_version WHERE node = ?)", (number,))
    tx.run("DELETE FROM node_version WHERE node = ?", (number,))
    tx.run("DELETE FROM mention WHERE node = ?", (number,))
    tx.run("DELETE FROM node WHERE id = ?", (number,))


_MENTION = "mention (project, term, start_ms, node, since)"


def folded(term: str) -> str:
    return term.casefold()


def note_mentions(tx: Transaction, written: Sequence[tuple[int, int, int, Node]]) -> None:
    """Note the names that new versions of segments speak of. Those of earlier versions stay, for views of the past.

    What was written is given as the project, the node's number, the version's row, and the node.
    """
    mentions = [
        (project, folded(term), node.start_ms, number, row)
        for project, number, row, node in written
        if node.level is Level.SEGMENT and not node.removed
        for term in node.keywords
    ]
    tx.insert(_MENTION, mentions, known="ON CONFLICT DO NOTHING")


#: What `node_of` reads, from node n, node_version v, project p and (left joined) session s.
NODE_COLUMNS = (
    "n.level, n.key, p.slug, v.version, v.title, v.start_ms, v.end_ms, v.keywords, v.children, v.open, v.removed, "
    "v.written_by, v.input_hash, v.tokens, v.created_ms, s.session_id, v.id, v.weight"
)
NODE_TABLES = (
    "node n JOIN node_version v ON v.id = n.current JOIN project p ON p.id = n.project "
    "LEFT JOIN session s ON s.id = n.session"
)
_CHILDREN = (
    f"SELECT {NODE_COLUMNS} FROM {NODE_TABLES} "
    "WHERE n.project = ? AND n.level = ? AND n.parent = ? AND n.removed = 0 ORDER BY n.start_ms, n.key"
)
_STALE = """
    SELECT d.project, p.slug, d.key, v.input_hash FROM dirty_node d JOIN project p ON p.id = d.project
    LEFT JOIN node n ON n.project = d.project AND n.level = d.level AND n.key = d.key AND n.removed = 0
    LEFT JOIN node_version v ON v.id = n.current
    WHERE d.level = ? ORDER BY d.key, d.project LIMIT ?
"""
_BENEATH = (
    "WITH place (project, key) AS (VALUES {places}) "
    f"SELECT {NODE_COLUMNS}, n.project, n.parent FROM place CROSS JOIN {NODE_TABLES} "
    "WHERE n.project = place.project AND n.level = ? AND n.parent = place.key AND n.removed = 0 "
    "ORDER BY n.start_ms, n.key"
)
_VERSIONS = "SELECT current FROM node WHERE project = ? AND level = ? AND parent = ? AND removed = 0"
_DONE = """
    WITH done (key, node) AS (VALUES {done})
    UPDATE segment SET done_hash = input_hash, node = (SELECT done.node FROM done WHERE done.key = segment.key)
    WHERE key IN (SELECT done.key FROM done)
"""
_CLOSED = (
    "INSERT OR IGNORE INTO dirty_node (project, level, key) "
    "SELECT project, level, key FROM node WHERE open = 1 AND level = ? AND end_ms <= ?"
)


class SqliteTree:
    """Implements the TreeStore port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_segments(self, writes: Sequence[SegmentWrite], lease_token: int) -> None:
        await self._database.write(_save_segments, writes, lease_token)

    async def mark_closed_periods(self, now_ms: int) -> None:
        due = "SELECT 1 FROM node WHERE open = 1 AND level = ? AND end_ms <= ? LIMIT 1"
        for level, grace in GRACE.items():
            place = (int(level), now_ms - round(grace.total_seconds() * 1000))
            if await self._database.fetch(due, place):
                await self._database.write(Transaction.run, _CLOSED, place)

    async def stale(self, level: Level, limit: int) -> list[Stale]:
        return await self._database.at_once(lambda snapshot: _stale(snapshot, level, limit))

    async def children(self, project: int, ref: NodeRef) -> list[Node]:
        place = (project, int(ref.level) + 1, ref.key)
        return await nodes_of(self._database, await self._database.fetch(_CHILDREN, place))

    async def save_rollups(self, rollups: Sequence[tuple[Stale, Node | None]], lease_token: int) -> None:
        await self._database.write(_save_rollups, rollups, lease_token)


async def _stale(database: Reads, level: Level, limit: int) -> list[Stale]:
    rows = await database.fetch(_STALE, (int(level), limit))
    if not rows:
        return []
    places = [value for project, _, key, _ in rows for value in (project, key)]
    found = await database.fetch(_BENEATH.format(places=", ".join(["(?, ?)"] * len(rows))), (*places, int(level) + 1))
    beneath: dict[tuple[int, str], list[tuple[int, Node]]] = {}
    for row, node in zip(found, await nodes_of(database, found), strict=True):
        beneath.setdefault((row[18], row[19]), []).append((row[16], node))
    return [
        Stale(
            project,
            slug,
            NodeRef(level, key),
            children=tuple(node for _, node in beneath.get((project, key), [])),
            versions=tuple(version for version, _ in beneath.get((project, key), [])),
            current_hash=current,
        )
        for project, slug, key, current in rows
    ]


def _save_segments(tx: Transaction, writes: Sequence[SegmentWrite], lease_token: int) -> None:
    check_lease(tx, lease_token)
    keys = [write.job.segment.key for write in writes]
    current: dict[bytes, str] = dict(
        tx.fetch(f"SELECT key, input_hash FROM segment WHERE key IN ({', '.join('?' * len(keys))})", keys)
    )
    # A segment may have been cut anew while its summary was made: then this one is out of date.
    writes = [write for write in writes if current.get(write.job.segment.key) == write.job.segment.input_hash]
    if not writes:
        return
    numbers = write_nodes(tx, [Placed(write.job.project, write.job.session, write.node) for write in writes])
    write_grips(tx, {number: write.grips for number, write in zip(numbers, writes, strict=True)})
    done = [value for number, write in zip(numbers, writes, strict=True) for value in (write.job.segment.key, number)]
    tx.run(_DONE.format(done=", ".join(["(?, ?)"] * len(writes))), done)


def _save_rollups(tx: Transaction, rollups: Sequence[tuple[Stale, Node | None]], lease_token: int) -> None:
    check_lease(tx, lease_token)
    nodes, done = [], []
    for stale, node in rollups:
        ref = stale.ref
        # A child may have been forgotten or written anew meanwhile: then the period stays marked, for the next round.
        found = tx.fetch(_VERSIONS, (stale.project, int(ref.level) + 1, ref.key))
        if {version for (version,) in found} != set(stale.versions):
            continue
        nodes += [Placed(stale.project, None, node)] if node else []
        done.append((stale.project, int(ref.level), ref.key))
    write_nodes(tx, nodes)
    tx.run_many("DELETE FROM dirty_node WHERE project = ? AND level = ? AND key = ?", done)


async def nodes_of(database: Reads, rows: Sequence[Row]) -> list[Node]:
    """Nodes with their bullets, from rows of NODE_COLUMNS."""
    if not rows:
        return []
    versions = [row[16] for row in rows]
    bullets: dict[int, list[Bullet]] = {}
    for start in range(0, len(versions), 500):
        part = versions[start : start + 500]
        found = await database.fetch(
            "SELECT node_version, text, grips, children FROM bullet "
            f"WHERE node_version IN ({','.join('?' * len(part))}) ORDER BY node_version, position",
            part,
        )
        for version, text, grips, children in found:
            bullet = Bullet(text, tuple(json.loads(grips)), tuple(json.loads(children)))
            bullets.setdefault(version, []).append(bullet)
    return [_node_of(row, bullets.get(row[16], [])) for row in rows]


def titles_of(rows: Sequence[Row]) -> list[Node]:
    """Nodes without their bullets, from the same rows."""
    return [_node_of(row, []) for row in rows]


def _node_of(row: Row, bullets: list[Bullet]) -> Node:
    return Node(
        ref=NodeRef(Level(row[0]), row[1]),
        project=row[2],
        version=row[3],
        title=row[4],
        start_ms=row[5],
        end_ms=row[6],
        bullets=tuple(bullets),
        keywords=tuple(json.loads(row[7])),
        child_ids=tuple(json.loads(row[8])),
        open=bool(row[9]),
        removed=bool(row[10]),
        written_by=row[11],
        input_hash=row[12],
        tokens=row[13],
        created_ms=row[14],
        session_id=row[15],
        weight=row[17],
    )
