"""The nodes of the tree: written as versions with bullets, grips, index rows and marked parents; read as rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mcp_memory.domain.failures import Stage
from mcp_memory.domain.nodes import Bullet, Grip, Kind, Node, Revising, Stale
from mcp_memory.domain.segments import SegmentWrite
from mcp_memory.domain.terms import Columns, node_columns
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.store.sql.database import NODE, Reads, Row, SqlDatabase, Transaction, marks
from mcp_memory.store.sql.failures import settle_failures
from mcp_memory.store.sql.work import CLOSED, check_lease

_NOTE_REMOVED = """
    INSERT INTO removed_node (project, level, key, parent, since, until)
    SELECT n.project, n.level, n.key, n.parent, (SELECT min(id) FROM node_version WHERE node = n.id), ?
    FROM node n WHERE n.id IN ({marks}) AND n.removed = 0
"""
#: What goes with nodes, in this order.
_REMOVE = (
    "DELETE FROM grip WHERE node IN ({marks})",
    "DELETE FROM bullet WHERE node_version IN (SELECT id FROM node_version WHERE node IN ({marks}))",
    "DELETE FROM node_version WHERE node IN ({marks})",
    "DELETE FROM mention WHERE node IN ({marks})",
    "DELETE FROM node WHERE id IN ({marks})",
)
_CHUNK = 500
_FIND = """
    SELECT project, level, key, id, current, removed, (SELECT max(version) FROM node_version v WHERE v.node = n.id)
    FROM node n WHERE (project, level, key) IN (VALUES {places})
"""
_NODE = "node (id, project, level, key, parent, session, current, start_ms, end_ms, open, removed, revision)"
_VERSION = (
    "node_version (id, node, version, title, start_ms, end_ms, keywords, children, open, removed, written_by, "
    "input_hash, tokens, created_ms, depth, input_tokens, output_tokens, compression, weight)"
)
_BULLET = "bullet (node_version, position, text, grips, children, kind)"
_DIRTY = "dirty_node (project, level, key)"
#: Which segments speak of which file or name, so that those that share one are found by key, not by a search.
_MENTION = "mention (project, term, start_ms, node, since)"
_SET_CURRENT = "UPDATE node SET current = ?, start_ms = ?, end_ms = ?, open = ?, removed = ?, revision = ? WHERE id = ?"
_GRIP = 'grip (id, key, node, timestamp_ms, event, start, "end", excerpt, first_event, last_event)'
_UNLESS_THERE = "ON CONFLICT DO NOTHING"
#: What `nodes_of` reads, from node n, node_version v, project p and (left joined) session s.
NODE_COLUMNS = (
    "v.id, n.level, n.key, p.slug, v.version, v.title, v.start_ms, v.end_ms, v.keywords, v.children, v.open, "
    "v.removed, v.written_by, v.input_hash, v.tokens, v.created_ms, s.session_id, v.weight, s.author, s.client"
)
NODE_TABLES = (
    "node n JOIN node_version v ON v.id = n.current JOIN project p ON p.id = n.project "
    "LEFT JOIN session s ON s.id = n.session"
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


class NodePart:
    """The stages' side of the nodes: which periods are stale, and writing segments and periods."""

    _database: SqlDatabase

    async def save_segments(
        self, writes: Sequence[SegmentWrite], lease_token: int, revising: Revising | None = None
    ) -> None:
        await self._database.write(_save_segments, writes, lease_token, revising)

    async def mark_closed_periods(self, now_ms: int) -> None:
        if await self._database.fetch(f"SELECT 1 {CLOSED} LIMIT 1", {"now": now_ms}):
            sql = f"INSERT INTO dirty_node (project, level, key) SELECT project, level, key {CLOSED} {_UNLESS_THERE}"
            await self._database.write(Transaction.run, sql, {"now": now_ms})

    async def stale(self, level: Level, limit: int) -> list[Stale]:
        return await self._database.at_once(lambda snapshot: _stale(snapshot, level, limit))

    async def save_rollups(
        self, rollups: Sequence[tuple[Stale, Node | None]], lease_token: int, revising: Revising | None = None
    ) -> None:
        if rollups:
            await self._database.write(_save_rollups, rollups, lease_token, revising)


async def _stale(reads: Reads, level: Level, limit: int) -> list[Stale]:
    return await periods_of(reads, level, await reads.fetch(_STALE, (int(level), limit)))


async def periods_of(reads: Reads, level: Level, rows: Sequence[Row]) -> list[Stale]:
    """Periods of a level with their children, from rows of project, slug, key and the current version's hash."""
    if not rows:
        return []
    places = [value for project, _, key, _ in rows for value in (project, key)]
    found = await reads.fetch(_BENEATH.format(places=", ".join(["(?, ?)"] * len(rows))), (*places, int(level) + 1))
    beneath: dict[tuple[int, str], dict[int, Node]] = {}
    for (version, *_, project, parent), node in zip(found, await nodes_of(reads, found), strict=True):
        beneath.setdefault((project, parent), {})[version] = node
    return [
        Stale(
            project,
            slug,
            NodeRef(level, key),
            children=tuple(beneath.get((project, key), {}).values()),
            versions=tuple(beneath.get((project, key), {})),
            current_hash=current,
        )
        for project, slug, key, current in rows
    ]


def _save_segments(
    tx: Transaction, writes: Sequence[SegmentWrite], lease_token: int, revising: Revising | None
) -> None:
    check_lease(tx, lease_token)
    keys = [write.job.segment.key for write in writes]
    current: dict[bytes, str] = dict(
        tx.fetch(f"SELECT key, input_hash FROM segment WHERE key IN ({marks(keys)})", keys)
    )
    # A segment may have been cut anew while its summary was made: then this one is out of date.
    writes = [write for write in writes if current.get(write.job.segment.key) == write.job.segment.input_hash]
    if not writes:
        return
    placed = [Placed(write.job.project, write.job.session, write.node) for write in writes]
    numbers = write_nodes(tx, placed, revising)
    write_grips(tx, {number: write.grips for number, write in zip(numbers, writes, strict=True)})
    done = [value for number, write in zip(numbers, writes, strict=True) for value in (write.job.segment.key, number)]
    tx.run(_DONE.format(done=", ".join(["(?, ?)"] * len(writes))), done)
    settle_failures(tx, Stage.SUMMARY, [write.job.segment.key.hex() for write in writes])


def _save_rollups(
    tx: Transaction, rollups: Sequence[tuple[Stale, Node | None]], lease_token: int, revising: Revising | None
) -> None:
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
    write_nodes(tx, nodes, revising)
    tx.run_many("DELETE FROM dirty_node WHERE project = ? AND level = ? AND key = ?", done)
    settle_failures(tx, Stage.ROLLUP, [" ".join(map(str, place)) for place in done])


class Placed(NamedTuple):
    """A new version of a node, in a project and, if it is a segment's, of a session."""

    project: int
    session: int | None
    node: Node


def write_nodes(
    tx: Transaction, placed: Sequence[Placed], revising: Revising | None = None, *, tell_parents: bool = True
) -> list[int]:
    """Append a version of each node and make it the current one; returns the nodes' numbers."""
    if not placed:
        return []
    places = ", ".join(["(?, ?, ?)"] * len(placed))
    known = {}
    named = [value for project, _, node in placed for value in (project, int(node.level), node.ref.key)]
    indexed = dict[int, int]()
    for *place, number, current, removed, version in tx.fetch(_FIND.format(places=places), named):
        known[tuple(place)] = number, version
        if not removed:
            indexed[number] = current
    if indexed:
        tx.unindex(_stored_documents(tx, indexed))
    new, changed, versions, bullets, documents, mentions, numbers = [], [], [], [], [], [], []
    for project, session, node in placed:
        ref = node.ref
        number, version = known.get((project, int(ref.level), ref.key)) or (tx.new_ids("node")[0], 0)
        [row] = tx.new_ids("node_version")
        numbers.append(number)
        state = (row, node.start_ms, node.end_ms, int(node.open), int(node.removed), node.revision)
        if version:
            changed.append((*state, number))
        else:
            new.append(
                (number, project, int(ref.level), ref.key, ref.parent.key if ref.parent else "", session, *state)
            )
        versions.append(_version_row(row, number, version + 1, node))
        for index, bullet in enumerate(node.bullets):
            grips, child_ids = json.dumps(bullet.grip_ids), json.dumps(bullet.child_ids)
            bullets.append((row, index, bullet.text, grips, child_ids, bullet.kind.value))
        if not node.removed:
            columns = node_columns(node.title, [bullet.shown for bullet in node.bullets], list(node.keywords))
            documents.append((number * 4 + NODE, columns))
        if ref.level is Level.SEGMENT and not node.removed:
            # Those of earlier versions stay, for views of the past.
            mentions += [(project, term.casefold(), node.start_ms, number, row) for term in node.keywords]
    tx.insert(_NODE, new)
    tx.run_many(_SET_CURRENT, changed)
    tx.insert(_VERSION, versions)
    tx.insert(_BULLET, bullets)
    tx.index(documents)
    tx.insert(_MENTION, mentions, known=_UNLESS_THERE)
    if tell_parents:
        parents = [(one.project, parent) for one in placed if (parent := one.node.ref.parent)]
        marked = sorted({(project, int(ref.level), ref.key) for project, ref in parents})
        if revising:
            marked = [place for place in marked if _hears(tx, place, revising)]
        tx.insert(_DIRTY, marked, known=_UNLESS_THERE)
    days = {one.project for one in placed if one.node.level is Level.DAY}
    tx.insert("dirty_brief (project)", [(project,) for project in sorted(days)], known=_UNLESS_THERE)
    return numbers


def _hears(tx: Transaction, place: tuple[int, int, str], revising: Revising) -> bool:
    """Whether a parent is marked when something beneath it was written anew."""
    found = tx.fetch("SELECT revision FROM node WHERE project = ? AND level = ? AND key = ? AND removed = 0", place)
    revision = found[0][0] if found else None
    return revising.moved if revision is None else bool(revision >= revising.revision)


def _version_row(row: int, number: int, version: int, node: Node) -> tuple[Any, ...]:
    found = node.metrics
    metrics = (found.depth.value, found.input_tokens, found.output_tokens, found.compression_ratio) if found else ()
    return (
        *(row, number, version, node.title, node.start_ms, node.end_ms),
        *(json.dumps(node.keywords, ensure_ascii=False), json.dumps(node.child_ids)),
        *(int(node.open), int(node.removed), node.written_by, node.input_hash, node.tokens, node.created_ms),
        *(metrics or ("", 0, 0, 1.0)),
        node.weight,
    )


def index_nodes(tx: Transaction) -> None:
    """Index every node by its current version."""
    for documents in _all_stored(tx):
        tx.index(documents)


def reindex_nodes(tx: Transaction, numbers: Sequence[int]) -> None:
    """Index these nodes again by their current versions."""
    rows = tx.fetch(f"SELECT id, current FROM node WHERE removed = 0 AND id IN ({marks(numbers)})", numbers)
    tx.index(_stored_documents(tx, dict(rows)))


def unindex_nodes(tx: Transaction) -> None:
    """Take every node out of the index, as it stands there."""
    for documents in _all_stored(tx):
        tx.unindex(documents)


def _all_stored(tx: Transaction) -> Iterator[list[tuple[int, Columns]]]:
    rows = tx.fetch("SELECT id, current FROM node WHERE removed = 0 ORDER BY id")
    for start in range(0, len(rows), _CHUNK):
        yield _stored_documents(tx, dict(rows[start : start + _CHUNK]))


def _stored_documents(tx: Transaction, current: Mapping[int, int]) -> list[tuple[int, Columns]]:
    """Nodes as the index holds them, made from their current versions: a contentless index must be given them again."""
    if not current:
        return []
    versions = list(current.values())
    bullets: dict[int, list[str]] = {}
    sql = f"SELECT node_version, kind, text FROM bullet WHERE node_version IN ({marks(versions)}) ORDER BY 1, position"
    for version, kind, text in tx.fetch(sql, versions):
        bullets.setdefault(version, []).append(Kind(kind).shown(text))
    sql = f"SELECT id, title, keywords FROM node_version WHERE id IN ({marks(versions)})"
    columns = {
        version: node_columns(title, bullets.get(version, []), json.loads(keywords))
        for version, title, keywords in tx.fetch(sql, versions)
    }
    return [(number * 4 + NODE, columns[version]) for number, version in current.items() if version in columns]


def write_grips(tx: Transaction, by_node: Mapping[int, Sequence[Grip]]) -> None:
    """Make these the nodes' living grips; others stay readable by id. The index finds a grip by the event it cites."""
    wanted = {(number, grip.key): grip for number, grips in by_node.items() for grip in grips}
    nodes = list(by_node)
    stored = tx.fetch(f"SELECT id, node, key, live FROM grip WHERE node IN ({marks(nodes)})", nodes)
    for row, *place, live in stored:
        if bool(live) is not (tuple(place) in wanted):
            tx.run("UPDATE grip SET live = ? WHERE id = ?", (int(not live), row))
    known = {(number, key) for _, number, key, _ in stored}
    added = [(number, grip) for (number, key), grip in wanted.items() if (number, key) not in known]
    if not added:
        return
    keys = list({key for _, grip in added for key in (grip.event_key, grip.first_event_key, grip.last_event_key)})
    events: dict[bytes, int] = dict(tx.fetch(f"SELECT key, id FROM event WHERE key IN ({marks(keys)})", keys))
    names = [grip.key for _, grip in added]
    taken: dict[bytes, int] = dict(tx.fetch(f"SELECT key, id FROM grip WHERE key IN ({marks(names)})", names))
    rows = []
    for row, (number, grip) in zip(tx.new_ids("grip", len(added)), added, strict=True):
        if grip.key in taken:
            # The same words were cited by a segment that a late event has cut anew.
            tx.run("UPDATE grip SET node = ?, live = 1 WHERE id = ?", (number, taken[grip.key]))
            continue
        span = (grip.start, grip.end, grip.excerpt, events[grip.first_event_key], events[grip.last_event_key])
        rows.append((row, grip.key, number, grip.timestamp_ms, events[grip.event_key], *span))
    tx.insert(_GRIP, rows)


def remove_segment_node(tx: Transaction, segment_key: bytes, revising: Revising | None = None) -> None:
    """Take a segment's node out of the tree; its versions and grips stay readable by id."""
    rows = tx.fetch(
        "SELECT n.project, n.session, n.key, v.version, v.title, v.start_ms, v.end_ms, v.input_hash "
        "FROM segment g JOIN node n ON n.id = g.node JOIN node_version v ON v.id = n.current "
        "WHERE g.key = ? AND n.removed = 0",
        (segment_key,),
    )
    for project, session, key, version, title, start_ms, end_ms, input_hash in rows:
        told = ("", version, title, start_ms, end_ms, (), (), (), False, "removed", input_hash)
        node = Node(NodeRef(Level.SEGMENT, key), *told, removed=True)
        [number] = write_nodes(tx, [Placed(project, session, node)], revising)
        write_grips(tx, {number: ()})


def remove_nodes(tx: Transaction, numbers: Iterable[int]) -> None:
    """Take nodes out of memory altogether, with their versions and grips; only their names stay."""
    everything = sorted(set(numbers))
    for start in range(0, len(everything), _CHUNK):
        part = everything[start : start + _CHUNK]
        tx.run(_NOTE_REMOVED.format(marks=marks(part)), (tx.last_id("node_version"), *part))
        rows = tx.fetch(f"SELECT id, current FROM node WHERE id IN ({marks(part)}) AND removed = 0", part)
        tx.unindex(_stored_documents(tx, dict(rows)))
        for statement in _REMOVE:
            tx.run(statement.format(marks=marks(part)), part)


async def nodes_of(reads: Reads, rows: Sequence[Row], *, bullets: bool = True) -> list[Node]:
    """Nodes from rows that begin with NODE_COLUMNS, with their bullets if these are wanted."""
    told: dict[int, list[Bullet]] = {}
    numbers = [row[0] for row in rows] if bullets else []
    for start in range(0, len(numbers), 500):
        part = numbers[start : start + 500]
        found = await reads.fetch(
            "SELECT node_version, text, grips, children, kind FROM bullet "
            f"WHERE node_version IN ({marks(part)}) ORDER BY node_version, position",
            part,
        )
        for number, text, grips, children, kind in found:
            bullet = Bullet(text, tuple(json.loads(grips)), tuple(json.loads(children)), Kind(kind))
            told.setdefault(number, []).append(bullet)
    return [_node_of(row, told.get(row[0], [])) for row in rows]


def _node_of(row: Row, bullets: list[Bullet]) -> Node:
    _, level, key, project, version, title, start_ms, end_ms, keywords, children, is_open, removed, *more = row
    written_by, input_hash, tokens, created_ms, session_id, weight, author, client, *_ = more
    told = (project, version, title, start_ms, end_ms, tuple(bullets), tuple(json.loads(keywords)))
    made = (tuple(json.loads(children)), bool(is_open), written_by, input_hash, tokens, bool(removed), created_ms)
    return Node(
        NodeRef(Level(level), key), *told, *made, session_id, weight=weight, author=author or "", client=client or ""
    )
