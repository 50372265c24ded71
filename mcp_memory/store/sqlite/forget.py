"""Forgetting: events, what was made of them, and what waits to become one.

A summary may quote what is to be forgotten, so every node above it is taken away with all its versions and made anew
from what is left. Only hashes stay, so that neither a later import nor another source brings back what was forgotten.
A dry run finds by the same means as the run itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_memory.capture.project import places
from mcp_memory.domain.events import LIFECYCLE, EventType
from mcp_memory.domain.terms import event_columns
from mcp_memory.domain.text import holds, same_letters
from mcp_memory.domain.toc import Level, NodeRef, ancestors
from mcp_memory.store.sqlite.database import Database, Row, Transaction, note_erasure
from mcp_memory.store.sqlite.log import CUT_ANEW, EVENT, words_keys
from mcp_memory.store.sqlite.nodes import DROP_INDEX, remove_node
from mcp_memory.store.sqlite.projects import slugify
from mcp_memory.store.sqlite.records import drop_records, tainted_by, text_key

_CHUNK = 500
Fetch = Callable[[str, Sequence[Any]], list[Row]]
_EVENTS = """
    SELECT e.id, e.session, e.key, e.role, e.type, e.text, e.timestamp_ms, s.project, s.client, s.session_id, e.metadata
    FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project WHERE {where} ORDER BY e.id
"""
#: Events that say something else, but bear the text in a path, a branch or another name.
_BEARING = """
    SELECT e.id, e.session, e.timestamp_ms, s.project, e.metadata, e.source_ids
    FROM event e JOIN session s ON s.id = e.session
    WHERE holds(e.metadata || e.source_ids, ?1) AND NOT holds(e.text, ?1) ORDER BY e.id
"""
#: The segments of a session from the one on that holds a time, with their nodes.
_SEGMENTS_FROM = """
    SELECT g.key, n.id, n.key, n.project FROM segment g LEFT JOIN node n ON n.id = g.node
    WHERE g.session = ?1
      AND g.start_ms >= (SELECT coalesce(max(start_ms), 0) FROM segment WHERE session = ?1 AND start_ms <= ?2)
"""
#: Nodes that say it though no event does, as a model's words may.
_SAYING = """
    SELECT id, project, level, key, session, start_ms FROM node WHERE id IN (
        SELECT v.node FROM node_version v WHERE holds(v.title || v.keywords, ?1)
        UNION SELECT v.node FROM bullet b JOIN node_version v ON v.id = b.node_version WHERE holds(b.text, ?1)
        UNION SELECT node FROM grip WHERE holds(excerpt, ?1)
        UNION SELECT node FROM mention WHERE holds(term, ?1)
    )
"""
_RECORDS_SAYING = """
    WITH RECURSIVE saying (id) AS (
        SELECT id FROM compaction WHERE holds(summary || key_points || context, ?)
        UNION SELECT c.id FROM compaction c JOIN saying t ON c.parent = t.id OR c.refreshes = t.id
    )
    SELECT id FROM saying
"""
#: Names that stay because other events stand under them.
_NAMES = """
    SELECT 'project ' || p.slug FROM project p JOIN session s ON s.project = p.id
    WHERE holds(p.slug || ' ' || p.root, ?1) OR p.id IN (SELECT project FROM project_alias WHERE holds(root, ?1))
    UNION SELECT 'session ' || s.session_id FROM session s JOIN event e ON e.session = s.id
    WHERE holds(s.session_id, ?1)
"""
_EMPTY = "SELECT id, client, session_id FROM session s WHERE NOT EXISTS (SELECT 1 FROM event WHERE session = s.id)"
_PLACES = """
    SELECT root, slug FROM project
    UNION ALL SELECT a.root, p.slug FROM project_alias a JOIN project p ON p.id = a.project
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
    """How much falls under a wish. `inbox` counts what waits to become an event, in the inbox and in the spool.

    `cleared` events say something else and lose a path or name that bears the text; `names` bear it and stay.
    `summaries` counts the nodes and records that hold the text, of which the pipeline may make more at any time.
    """

    events: int
    sessions: int
    inbox: int = 0
    cleared: int = 0
    names: tuple[str, ...] = ()
    summaries: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a wish means for that which is no event: a payload, a file, what a reader keeps."""

    wish: Wish
    #: Under which names the project is captured, and under which all others are.
    places: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    #: The session of the forgotten event, and what it said.
    said: frozenset[tuple[str, str]] = frozenset()

    def covers(self, received_ms: int, root: str, label: str, payload: str) -> bool:
        """Whether a captured payload falls under the wish."""
        wish = self.wish
        if wish.before_ms is not None:
            return received_ms < wish.before_ms
        if wish.project is not None:
            known = [place for place in places(root, label) if place in self.places or place in self.others]
            return known[0] in self.places if known else bool(label and not root) and slugify(label) == wish.project
        return self.is_in(f"{root}\n{label}\n{payload}")

    def covers_rest(self, modified_ms: int, text: str) -> bool:
        """The same for what is left of a payload that cannot be read."""
        if self.wish.before_ms is not None:
            return modified_ms < self.wish.before_ms
        names = [place.removeprefix("label:") for place in self.places]
        return any(holds(text, same_letters(f'"{name}"')) for name in names) or self.is_in(text)

    def is_in(self, text: str) -> bool:
        """Whether it holds the text, or as whole values the session's name, or an event's and what that said."""
        wish = self.wish
        if wish.match is not None:
            return holds(text, same_letters(wish.match))
        wanted = [*self.said, *([(wish.session_id,)] if wish.session_id else [])]
        told = [values for values in wanted if all(map(same_letters, values))]
        return any(all(holds(text, same_letters(f'"{value}"')) for value in values) for values in told)


@dataclass(frozen=True, slots=True)
class _Found:
    """All that a wish takes: rows of events, of events to clear, of the inbox; and names that stay."""

    events: list[Row]
    bearing: list[Row]
    inbox: list[Row]
    names: tuple[str, ...] = ()
    summaries: int = 0

    @property
    def summary(self) -> Forgotten:
        sessions = {row[1] for row in self.events}
        counts = len(self.events), len(sessions), len(self.inbox), len(self.bearing)
        return Forgotten(*counts, self.names, self.summaries)

    def places(self) -> list[tuple[int, int, int]]:
        """Session, time and project of every event that goes or changes."""
        gone = [(row[1], row[6], row[7]) for row in self.events]
        return gone + [(session, ms, project) for _, session, ms, project, _, _ in self.bearing]


async def forget(database: Database, wish: Wish, *, dry_run: bool) -> tuple[Forgotten, Reach]:
    """Forget in one transaction; a dry run counts and changes nothing."""
    if dry_run:
        return await database.read(lambda connection: _look(lambda *sql: connection.execute(*sql).fetchall(), wish))
    return await database.write(_forget, wish)


def _look(fetch: Fetch, wish: Wish) -> tuple[Forgotten, Reach]:
    reach, found = _find(fetch, wish)
    return found.summary, reach


def _find(fetch: Fetch, wish: Wish) -> tuple[Reach, _Found]:
    where, value = _condition(wish)
    events = fetch(_EVENTS.format(where=where), (value,))
    known = fetch(_PLACES, ()) if wish.project is not None else []
    own, others = (frozenset(root for root, slug in known if (slug == wish.project) is ours) for ours in (True, False))
    said = frozenset((row[9], row[5].strip()) for row in events if row[5].strip() and wish.event_key is not None)
    reach = Reach(wish, own, others, said)
    rows = fetch("SELECT id, received_ms, root, label, payload FROM inbox", ())
    inbox = [row for row in rows if reach.covers(*row[1:])]
    if wish.match is None:
        return reach, _Found(events, [], inbox)
    bearing = fetch(_BEARING, (value,))
    gone = {f"session {name}" for name in _emptied(fetch, events, "session", 1, "session_id")}
    gone |= {f"project {name}" for name in _emptied(fetch, events, "project", 7, "slug")}
    names = tuple(sorted(name for (name,) in fetch(_NAMES, (value,)) if name not in gone))
    summaries = len(fetch(_SAYING, (value,))) + len(fetch(_RECORDS_SAYING, (value,)))
    return reach, _Found(events, bearing, inbox, names, summaries)


def _condition(wish: Wish) -> tuple[str, object]:
    choices: list[tuple[str, object]] = [
        ("s.session_id = ?", wish.session_id),
        ("e.key = ?", wish.event_key),
        ("p.slug = ?", wish.project),
        ("e.timestamp_ms < ?", wish.before_ms),
        ("holds(e.text, ?)", None if wish.match is None else same_letters(wish.match)),
    ]
    found, *more = [(clause, value) for clause, value in choices if value is not None]
    if more:
        raise ValueError("forget takes one wish at a time")
    return found


def _emptied(fetch: Fetch, events: Sequence[Row], table: str, column: int, name: str) -> list[str]:
    """The sessions or projects that have no events but these."""
    counts: dict[int, int] = {}
    for row in events:
        counts[row[column]] = counts.get(row[column], 0) + 1
    sql = f"SELECT {name}, (SELECT count(*) FROM event e JOIN session s ON s.id = e.session WHERE s.{{}} = t.id) "
    sql = sql.format("id" if table == "session" else "project") + f"FROM {table} t WHERE t.id = ?"
    rows = [(number, *fetch(sql, (number,))[0]) for number in counts]
    return [text for number, text, count in rows if count == counts[number]]


def _forget(tx: Transaction, wish: Wish) -> tuple[Forgotten, Reach]:
    reach, found = _find(tx.fetch, wish)
    # Whoever is at work on words that go now must not write what was made of them.
    tx.run("UPDATE lease SET token = token + 1, expires_ms = 0")
    tx.run_many("DELETE FROM inbox WHERE id = ?", [row[:1] for row in found.inbox])
    drop_records(tx, tainted_by(tx, [row[0] for row in (*found.events, *found.bearing)]))
    _drop_segments(tx, found.places())
    _drop_events(tx, found.events)
    if wish.match is not None:
        _clear_names(tx, found.bearing, same_letters(wish.match))
        _drop_saying(tx, same_letters(wish.match))
    _note_place(tx, found)
    _reset_readers(
        tx, Reach(wish, reach.places), {*(row[9] for row in found.events), *filter(None, (wish.session_id,))}
    )
    _drop_handed_over(tx)
    _drop_empty(tx, wish)
    note_erasure(tx)
    # The index keeps words in its old parts until these are merged.
    tx.run("INSERT INTO search (search) VALUES ('optimize')")
    return found.summary, reach


def _drop_segments(tx: Transaction, places: Iterable[tuple[int, int, int]]) -> None:
    """Take away the segments of the sessions from the first forgotten event on, and every period above them."""
    earliest: dict[int, int] = {}
    for session, timestamp_ms, _ in places:
        earliest[session] = min(earliest.get(session, timestamp_ms), timestamp_ms)
    for session, from_ms in earliest.items():
        for segment, node, node_key, project in tx.fetch(_SEGMENTS_FROM, (session, from_ms)):
            if node is not None:
                remove_node(tx, node)
                _drop_periods(tx, project, NodeRef(Level.SEGMENT, node_key))
            tx.run("DELETE FROM segment WHERE key = ?", (segment,))
        tx.run(CUT_ANEW, (session, from_ms))


def _drop_periods(tx: Transaction, project: int, ref: NodeRef) -> None:
    for period in ancestors(ref):
        place = (project, int(period.level), period.key)
        rows = tx.fetch("SELECT id FROM node WHERE project = ? AND level = ? AND key = ?", place)
        for (node,) in rows:
            remove_node(tx, node)
        tx.run("INSERT OR IGNORE INTO dirty_node (project, level, key) VALUES (?, ?, ?)", place)


def _drop_saying(tx: Transaction, sought: str) -> None:
    """Take away what says it though its events do not."""
    for node, project, level, key, session, start_ms in tx.fetch(_SAYING, (sought,)):
        if level == Level.SEGMENT and session is not None:
            _drop_segments(tx, [(session, start_ms, project)])
        if level != Level.SEGMENT:
            tx.run("INSERT OR IGNORE INTO dirty_node (project, level, key) VALUES (?, ?, ?)", (project, level, key))
        _drop_periods(tx, project, NodeRef(Level(level), key))
        remove_node(tx, node)
    drop_records(tx, {number for (number,) in tx.fetch(_RECORDS_SAYING, (sought,))})
    tx.run("DELETE FROM llm_state WHERE holds(value, ?)", (sought,))


def _drop_events(tx: Transaction, rows: Sequence[Row]) -> None:
    for number, _, _, role, kind, text, *_ in rows:
        if kind not in LIFECYCLE and text.strip():
            tx.run(DROP_INDEX, (number * 4 + EVENT, *event_columns(role, kind, text).values))
    tx.run_many("INSERT OR IGNORE INTO forgotten (key) VALUES (?)", [(row[2],) for row in rows])
    told = [
        (client, session_id, kind, role, text, timestamp_ms, json.loads(metadata).get("via", ""))
        for _, _, _, role, kind, text, timestamp_ms, _, client, session_id, metadata in rows
    ]
    keys = [key for one in told for key in words_keys(*one, around=0)]
    tx.run_many("INSERT OR IGNORE INTO forgotten_words (key) VALUES (?)", [(key,) for key in keys])
    for start in range(0, len(rows), _CHUNK):
        numbers = [row[0] for row in rows[start : start + _CHUNK]]
        marks = ",".join("?" * len(numbers))
        for column in ("event", "first_event", "last_event"):
            tx.run(f"DELETE FROM grip WHERE {column} IN ({marks})", numbers)
        tx.run(f"DELETE FROM event WHERE id IN ({marks})", numbers)


def _clear_names(tx: Transaction, rows: Sequence[Row], sought: str) -> None:
    """Take paths, branches and the like that bear the text out of events that say something else."""
    for number, _, _, _, metadata, source_ids in rows:
        values = [_without(json.loads(text), sought) for text in (metadata, source_ids)]
        clear = [json.dumps(value, ensure_ascii=False) for value in values]
        tx.run("UPDATE event SET metadata = ?, source_ids = ? WHERE id = ?", (*clear, number))


def _without(value: Any, sought: str) -> Any:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if not _bears(key, sought) and not _bears(item, sought)}
        return {key: _without(item, sought) for key, item in kept.items()}
    if isinstance(value, list):
        return [_without(item, sought) for item in value if not _bears(item, sought)]
    return value


def _bears(value: object, sought: str) -> bool:
    return isinstance(value, str) and holds(value, sought)


def _note_place(tx: Transaction, found: _Found) -> None:
    """Keep at which place in the log a session lost something, so that a view of an earlier place can tell."""
    notes = {(row[1], row[7]) for row in found.events if row[4] == EventType.NOTE}
    touched = {(session, project) for session, _, project in found.places()}
    if not touched:
        return
    tx.run("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'event'")
    tx.run_many(
        "INSERT INTO erased (at_event, session, project, notes) "
        "SELECT seq, ?, ?, ? FROM sqlite_sequence WHERE name = 'event'",
        [(*place, int(place in notes)) for place in sorted(touched)],
    )


def _reset_readers(tx: Transaction, reach: Reach, sessions: Iterable[str]) -> None:
    """Let go of what readers of transcripts keep: ids, and directories. They find it again in their files, silently."""
    names = set(sessions)
    for place in reach.places:
        # Clients also write it with a hyphen for each other character, in the path of a transcript that was set aside.
        names |= {json.dumps(place, ensure_ascii=False)[1:-1], re.sub("[^A-Za-z0-9]", "-", place)}
    for name, position in tx.fetch("SELECT name, position FROM checkpoint WHERE name LIKE 'transcript:%'"):
        if any(one in position and _is_named(one, position) for one in names) or reach.is_in(position):
            saved = json.loads(position)
            told = max(saved.get("offset", 0), saved.get("memory", {}).get("told_to", 0))
            fresh = {"offset": 0, "line": 0, "memory": {"told_to": told}, "events": saved.get("events", 0)}
            tx.run("UPDATE checkpoint SET position = ? WHERE name = ?", (json.dumps(fresh), name))


def _is_named(name: str, position: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", position) is not None


def _drop_handed_over(tx: Transaction) -> None:
    """All that was made ready to be handed over, and answers of a model: they quote, and are made anew."""
    tx.run(
        "INSERT OR IGNORE INTO dirty_compaction (session) SELECT s.id FROM session s "
        "JOIN brief b ON b.root = 'session:' || s.client || ':' || s.session_id"
    )
    tx.run("DELETE FROM brief")
    tx.run("INSERT OR IGNORE INTO dirty_brief (project) SELECT id FROM project")
    tx.run("UPDATE dirty_compaction SET failed = ''")
    tx.run("DELETE FROM llm_answer")


def _drop_empty(tx: Transaction, wish: Wish) -> None:
    """Sessions of which nothing is left, and a project that was to be forgotten or bears the text in its name."""
    _keep_counting(tx, "session")
    for session, client, name in tx.fetch(_EMPTY, ()):
        drop_records(tx, {row[0] for row in tx.fetch("SELECT id FROM compaction WHERE session = ?", (session,))})
        for table in ("dirty_session", "dirty_compaction", "segment"):
            tx.run(f"DELETE FROM {table} WHERE session = ?", (session,))
        tx.run("DELETE FROM brief WHERE root = ?", (text_key(client, name),))
        tx.run("UPDATE llm_call SET node = '' WHERE node IN (?, ?)", (name, f"session:{name}"))
        tx.run("DELETE FROM session WHERE id = ?", (session,))
    where, value = (
        ("slug = ?1", wish.project)
        if wish.match is None
        else (
            "(holds(slug || ' ' || root, ?1) OR id IN (SELECT project FROM project_alias WHERE holds(root, ?1)))",
            same_letters(wish.match),
        )
    )
    unused = f"SELECT id FROM project p WHERE {where} AND NOT EXISTS (SELECT 1 FROM session WHERE project = p.id)"
    for (project,) in tx.fetch(unused, (value,)):
        _drop_project(tx, project)


def _drop_project(tx: Transaction, project: int) -> None:
    for (node,) in tx.fetch("SELECT id FROM node WHERE project = ?", (project,)):
        remove_node(tx, node)
    _keep_counting(tx, "project")
    for table in ("project_alias", "dirty_node", "dirty_brief", "mention"):
        tx.run(f"DELETE FROM {table} WHERE project = ?", (project,))
    tx.run("DELETE FROM project WHERE id = ?", (project,))


def _keep_counting(tx: Transaction, table: str) -> None:
    """Numbers of what is gone are not given again: marks of erasures name them."""
    tx.run("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
    tx.run(f"INSERT INTO sqlite_sequence (name, seq) SELECT ?, coalesce(max(id), 0) FROM {table}", (table,))
