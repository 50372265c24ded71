"""Forgetting: events, what was made of them, and what waits to become one.

A summary may quote what is to be forgotten, so every node above it is taken away with all its versions and made anew
from what is left. Only hashes stay, so that neither a later import nor another source brings back what was forgotten.
A dry run finds by the same means as the run itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_memory.domain.events import LIFECYCLE, Event, EventType, Intake, event_key
from mcp_memory.domain.failures import Stage
from mcp_memory.domain.forget import (
    KEY_BEGINNING,
    PREVIEWED,
    ForgetCounts,
    ForgetRequest,
    ForgetScope,
    without_names,
)
from mcp_memory.domain.matching import TextMatch, match_of
from mcp_memory.domain.terms import event_columns
from mcp_memory.domain.toc import Level, NodeRef, ancestors
from mcp_memory.domain.tombstones import TombstoneKey, TombstoneRows
from mcp_memory.store.sql.database import EVENT, KEPT, Row, Transaction, Values, marks, note_erasure
from mcp_memory.store.sql.failures import settle_failures
from mcp_memory.store.sql.log import CUT_ANEW_KNOWN, EVENTS, event_of
from mcp_memory.store.sql.nodes import remove_nodes
from mcp_memory.store.sql.records import drop_records, forget_records
from mcp_memory.store.sql.sharing import drop_project_rule, drop_session_rules, note_cleared, note_forgotten
from mcp_memory.store.sql.tombstones import (
    ALL_TEXTS,
    AffectedEvent,
    ForgottenTexts,
    add_keys,
    add_tombstones,
    insert_rows,
    key_for_writing,
    names_until,
    note_forgetting,
    refused_keys,
)

_CHUNK = 500
#: How many of the words are shown that hold a text as a part, and how much of them.
_WORDS_SHOWN, _MAX_WORD_CHARS = 5, 40
_EVENTS = """
    SELECT e.id, e.session, s.project, e.key, e.role, e.type, e.text, e.timestamp_ms, s.client, s.session_id,
           e.metadata, e.source_ids, s.author
    FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project WHERE {where} ORDER BY e.id
"""
_EVENT_IDS = "SELECT coalesce(min(id), 0), coalesce(max(id), -1) FROM event"
_TEXTS = "SELECT id, text, metadata || source_ids FROM event WHERE id >= ? AND id < ? ORDER BY id"
#: How many ids of events are looked through at a time.
_SCAN_IDS = 1_000
#: The segments of a session from the one on that holds a time, with their nodes.
_SEGMENTS_FROM = """
    WITH gone (session, from_ms) AS (VALUES {froms})
    SELECT g.key, n.id, n.key, n.project FROM gone JOIN segment g ON g.session = gone.session
    LEFT JOIN node n ON n.id = g.node
    WHERE g.start_ms >= (
        SELECT coalesce(max(start_ms), 0) FROM segment WHERE session = gone.session AND start_ms <= gone.from_ms
    )
"""
#: What versions of nodes, and nodes, say, which may be in a model's words: a table, its key and an expression.
_VERSION_TEXTS = (("node_version", "id", "title || ' ' || keywords"), ("bullet", "node_version", "text"))
_NODE_TEXTS = (("grip", "node", "excerpt"), ("mention", "node", "term"))
_KEYS = "SELECT coalesce(min({key}), 0), coalesce(max({key}), -1) FROM {table}"
_SAID = "SELECT {key} AS place, {text} AS said FROM {table} WHERE {key} >= ? AND {key} < ?"
_SAID_TOGETHER = f"SELECT group_concat(said) FROM ({_SAID}) texts"
#: How many nodes or versions are looked through at a time.
_SCAN_KEYS = 200
_NODES_OF_VERSIONS = "SELECT node FROM node_version WHERE id IN ({marks})"
_NODES = "SELECT id, project, level, key, session, start_ms FROM node WHERE id IN ({marks}) ORDER BY id"
_RECORD_TEXTS = "SELECT id, summary || ' ' || key_points || ' ' || context FROM compaction"
_RECORD_LINKS = """
    SELECT id, parent FROM compaction WHERE parent IS NOT NULL
    UNION ALL SELECT id, refreshes FROM compaction WHERE refreshes IS NOT NULL
"""
_PROJECT_TEXTS = """
    SELECT id, slug || ' ' || root FROM project UNION ALL SELECT project, root FROM project_alias
"""
_SESSION_NAMES = "SELECT session_id FROM session s WHERE EXISTS (SELECT 1 FROM event e WHERE e.session = s.id)"
_PROJECTS_IN_USE = "SELECT p.id, p.slug FROM project p WHERE EXISTS (SELECT 1 FROM session s WHERE s.project = p.id)"
_EMPTY = f"""
    SELECT id, session_id FROM session s WHERE NOT EXISTS (SELECT 1 FROM event WHERE session = s.id)
      AND NOT EXISTS (SELECT 1 FROM segment WHERE session = s.id AND start_ms < {KEPT} AND node IS NOT NULL)
"""
#: Segments whose events are no longer kept, which a request takes by their session, project or time.
_RETIRED = f"""
    SELECT g.key, n.id, n.key, n.project FROM segment g JOIN session s ON s.id = g.session
    JOIN project p ON p.id = s.project JOIN node n ON n.id = g.node WHERE g.start_ms < {KEPT} AND {{where}}
"""
#: What summaries and records say.
_DERIVED_TEXTS = """
    SELECT title || ' ' || keywords FROM node_version UNION ALL SELECT text FROM bullet
    UNION ALL SELECT summary || key_points || context FROM compaction
"""
_OF_PROJECT = """
    SELECT e.key FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project
    WHERE p.slug = ? AND e.timestamp_ms < ?
"""
_HAS_SESSIONS = "SELECT 1 FROM session s JOIN project p ON p.id = s.project WHERE p.slug = ? LIMIT 1"
_NAMES_OF = "SELECT root FROM project_alias WHERE project = ? UNION SELECT root FROM project WHERE id = ?"
_PLACES = """
    SELECT root, slug FROM project
    UNION ALL SELECT a.root, p.slug FROM project_alias a JOIN project p ON p.id = a.project
"""


#: Runs a statement and returns its rows.
Fetch = Callable[[str, Values], list[Row]]


@dataclass(frozen=True, slots=True)
class _Found:
    """All that a request takes: events, events to clear; and names that stay."""

    scope: ForgetScope
    events: list[AffectedEvent]
    bearing: list[AffectedEvent]
    names: tuple[str, ...] = ()
    summaries: int = 0
    in_words: int = 0
    words: tuple[str, ...] = ()

    @property
    def counts_and_scope(self) -> tuple[ForgetCounts, ForgetScope]:
        counts = ForgetCounts(
            events=len(self.events),
            sessions=len({event.session for event in self.events}),
            cleared=len(self.bearing),
            names=self.names,
            summaries=self.summaries,
            first=tuple(event.key for event in self.events[:PREVIEWED]),
            in_words=self.in_words,
            words=self.words,
        )
        return counts, self.scope


@dataclass(slots=True)
class _Scan:
    """Numbers of the events that hold a text, that bear it in a path or name, and how many hold it inside of words."""

    events: list[int] = field(default_factory=list)
    bearing: list[int] = field(default_factory=list)
    in_words: int = 0
    words: dict[str, None] = field(default_factory=dict)


def condition(request: ForgetRequest) -> tuple[str, Any]:
    """Return the clause of SQL, and its value, for the events of a request that is not for a text."""
    choices = {
        "s.session_id = ?": request.session_id,
        "e.key = ?": request.event_key,
        "p.slug = ?": request.project,
        "e.timestamp_ms < ?": request.before_ms,
    }
    chosen, *more = [(clause, value) for clause, value in choices.items() if value is not None]
    if more or request.match is not None:
        raise ValueError("forget takes one request at a time")
    return chosen


def matching_events(fetch: Fetch, match: TextMatch) -> Iterator[int]:
    """Yield the numbers of the events that hold a text, in order."""
    for rows in _texts_of_events(fetch):
        yield from (rows[place][0] for place in match.select([text for _, text, _ in rows]))


def _texts_of_events(fetch: Fetch) -> Iterator[list[Row]]:
    [(first, last)] = fetch(_EVENT_IDS, ())
    for start in range(first, last + 1, _SCAN_IDS):
        if rows := fetch(_TEXTS, (start, start + _SCAN_IDS)):
            yield rows


def _scan(tx: Transaction, request: ForgetRequest, match: TextMatch) -> _Scan:
    """Look through all events once. What holds the text as whole words also holds it as a part of words."""
    part = match_of(request.match or "", part=True)
    found = _Scan()
    for rows in _texts_of_events(tx.fetch):
        texts = [text for _, text, _ in rows]
        holding = set[int]()
        for place in part.select(texts):
            if match is part or match.is_in(texts[place]):
                holding.add(place)
                found.events.append(rows[place][0])
                continue
            found.in_words += 1
            if len(found.words) < _WORDS_SHOWN:
                found.words |= dict.fromkeys(word[:_MAX_WORD_CHARS] for word in part.words_around(texts[place]))
        bearing = match.select([facts for *_, facts in rows])
        found.bearing += [rows[place][0] for place in bearing if place not in holding]
    return found


def _events_of(tx: Transaction, numbers: Sequence[int]) -> list[AffectedEvent]:
    events = list[AffectedEvent]()
    for start in range(0, len(numbers), _CHUNK):
        part = numbers[start : start + _CHUNK]
        events += [AffectedEvent(*row) for row in tx.fetch(_EVENTS.format(where=f"e.id IN ({marks(part)})"), part)]
    return events


def _matching(tx: Transaction, sql: str, match: TextMatch) -> list[Any]:
    """Return the first column of the rows whose second holds a text."""
    rows = tx.fetch(sql)
    return [rows[place][0] for place in match.select([text for _, text in rows])]


def _saying(tx: Transaction, table: str, key: str, text: str, match: TextMatch) -> Iterator[int]:
    """Yield the keys of a table's rows that hold a text. The database joins short texts faster than it returns them."""
    [(first, last)] = tx.fetch(_KEYS.format(table=table, key=key))
    for start in range(first, last + 1, _SCAN_KEYS):
        keys = (start, start + _SCAN_KEYS)
        [(together,)] = tx.fetch(_SAID_TOGETHER.format(table=table, key=key, text=text), keys)
        if together and match.may_be_in_any(together):
            rows = tx.fetch(_SAID.format(table=table, key=key, text=text), keys)
            yield from (rows[place][0] for place in match.select([said for _, said in rows]))


def _nodes_saying(tx: Transaction, match: TextMatch) -> list[Row]:
    """Return the nodes that hold the text, also those of which no event does."""
    found = {number for said in _NODE_TEXTS for number in _saying(tx, *said, match)}
    versions = sorted({number for said in _VERSION_TEXTS for number in _saying(tx, *said, match)})
    for start in range(0, len(versions), _CHUNK):
        part = versions[start : start + _CHUNK]
        found |= {node for (node,) in tx.fetch(_NODES_OF_VERSIONS.format(marks=marks(part)), part)}
    numbers = sorted(found)
    nodes = list[Row]()
    for start in range(0, len(numbers), _CHUNK):
        part = numbers[start : start + _CHUNK]
        nodes += tx.fetch(_NODES.format(marks=marks(part)), part)
    return nodes


def _records_saying(tx: Transaction, match: TextMatch) -> set[int]:
    """Return the numbers of the records that hold the text, and of those made from them."""
    found = set(_matching(tx, _RECORD_TEXTS, match))
    made_from: dict[int, list[int]] = {}
    for number, source in tx.fetch(_RECORD_LINKS) if found else ():
        made_from.setdefault(source, []).append(number)
    waiting = [*found]
    while waiting:
        fresh = {*made_from.get(waiting.pop(), ())} - found
        found |= fresh
        waiting += fresh
    return found


def _names_holding(tx: Transaction, match: TextMatch) -> Iterator[str]:
    """Yield the names of projects and sessions with events that hold the text, each with what it is a name of."""
    projects = {*_matching(tx, _PROJECT_TEXTS, match)}
    yield from (f"project {slug}" for number, slug in tx.fetch(_PROJECTS_IN_USE) if number in projects)
    names = [name for (name,) in tx.fetch(_SESSION_NAMES)]
    yield from (f"session {names[place]}" for place in match.select(names))


def find(tx: Transaction, request: ForgetRequest) -> _Found:
    """What forgetting would take."""
    scan = _Scan()
    if match := request.text_match:
        scan = _scan(tx, request, match)
        events = _events_of(tx, scan.events)
    else:
        where, value = condition(request)
        events = [AffectedEvent(*row) for row in tx.fetch(_EVENTS.format(where=where), (value,))]
    known = tx.fetch(_PLACES) if request.project is not None else []
    own, others = (
        frozenset(root for root, slug in known if (slug == request.project) is ours) for ours in (True, False)
    )
    words = [(event.session_id, event.text.strip()) for event in events if request.event_key is not None]
    named = frozenset(filter(None, (request.session_id, *(event.session_id for event in events))))
    keys = _beginnings(tx, events)
    scope = ForgetScope(request, own, others, frozenset(pair for pair in words if pair[1]), named, keys)
    if match is None:
        return _Found(scope, events, [], summaries=len(_retired(tx, request)))
    bearing = _events_of(tx, scan.bearing)
    sessions, projects = Counter(event.session for event in events), Counter(event.project for event in events)
    gone = {f"session {name}" for name in _emptied(tx, sessions, "SELECT max(s.session_id) {} WHERE s.id = ?")}
    gone |= {f"project {name}" for name in _emptied(tx, projects, "SELECT max(p.slug) {} WHERE p.id = ?")}
    names = tuple(sorted({*_names_holding(tx, match)} - gone))
    summaries = len(_nodes_saying(tx, match)) + len(_records_saying(tx, match))
    return _Found(scope, events, bearing, names, summaries, scan.in_words, tuple(scan.words)[:_WORDS_SHOWN])


def _retired(tx: Transaction, request: ForgetRequest) -> list[Row]:
    """The segments of the request that are all that is left of what was said."""
    choices = {"s.session_id = ?": request.session_id, "p.slug = ?": request.project, "g.end_ms < ?": request.before_ms}
    given = [(where, value) for where, value in choices.items() if value is not None]
    return [row for where, value in given for row in tx.fetch(_RETIRED.format(where=where), (value,))]


def _beginnings(tx: Transaction, events: Sequence[AffectedEvent]) -> frozenset[bytes]:
    """How the keys begin of the events and of the grips that cite them, as short ids name them."""
    keys = [event.key for event in events]
    for start in range(0, len(events), _CHUNK):
        numbers = [event.number for event in events[start : start + _CHUNK]]
        keys += [key for (key,) in tx.fetch(f"SELECT key FROM grip WHERE event IN ({marks(numbers)})", numbers)]
    return frozenset(key[:KEY_BEGINNING] for key in keys)


def _emptied(tx: Transaction, counts: Counter[int], sql: str) -> list[str]:
    """The names of the sessions or projects that have no events but so many."""
    sql = sql.format(", count(*) FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project")
    rows = [(number, *tx.fetch(sql, (number,))[0]) for number in counts]
    return [name for number, name, count in rows if count == counts[number]]


def forget(tx: Transaction, request: ForgetRequest, now_ms: int) -> tuple[ForgetCounts, ForgetScope]:
    found = find(tx, request)
    forgetting = note_forgetting(tx, request, found.scope, len(found.events), now_ms)
    match = request.text_match
    return _erase(tx, found, request, forgetting, match.is_in if match else lambda text: False)


def own_key(author: str, key: bytes) -> bytes:
    """By which an event that an author has forgotten is known if that author tells it again, and no one else."""
    return event_key(author, "", f"forgotten {key.hex()}")


def forget_events(tx: Transaction, keys: Sequence[bytes], author: str | None, returning: bool = False) -> ForgetCounts:
    """Forget these events, of someone's sessions or of anyone's; if they may be `returning`, without a mark."""
    whose, values = ("", []) if author is None else ("AND s.author = ?", [author])
    if author is not None and not returning:
        # Also what is on its way here just now.
        add_keys(tx, key_for_writing(tx), (own_key(author, key) for key in keys))
    events = list[AffectedEvent]()
    for start in range(0, len(keys), _CHUNK):
        part = keys[start : start + _CHUNK]
        where = f"e.key IN ({marks(part)}) {whose}"
        events += [AffectedEvent(*row) for row in tx.fetch(_EVENTS.format(where=where), (*part, *values))]
    request = ForgetRequest(event_key=b"")
    if not events:
        return ForgetCounts(0, 0)
    return _erase(tx, _Found(ForgetScope(request), events, []), request, None if returning else "")[0]


def _erase(
    tx: Transaction,
    found: _Found,
    request: ForgetRequest,
    forgetting: str | None,
    holds_text: Callable[[str], bool] = lambda text: False,
) -> tuple[ForgetCounts, ForgetScope]:
    """Erase what was found.

    `forgetting` is the run that the tombstones belong to; None leaves no tombstones. `holds_text` decides which names
    go from the metadata of events that stay.
    """
    touched = [*found.events, *found.bearing]
    # Whoever is at work on words that go now must not write what was made of them.
    # Who sends to a team's server writes nothing, and must go on alone: it tells the server next of what goes.
    tx.run("UPDATE lease SET token = token + 1, expires_ms = 0 WHERE name <> 'push'")
    forget_records(tx, [event.number for event in touched])
    _drop_found_segments(tx, _retired(tx, request))
    drop_segments(tx, [(event.session, event.timestamp_ms) for event in touched])
    if forgetting is not None:
        add_tombstones(tx, found.events, forgetting)
        note_forgotten(tx, [event.number for event in found.events])
    tx.mark_team_erasure([event.number for event in touched])
    _drop_events(tx, found.events)
    note_cleared(tx, [event.number for event in found.bearing])
    for event in found.bearing:
        values = [without_names(json.loads(text), holds_text) for text in (event.metadata, event.source_ids)]
        clear = [json.dumps(value, ensure_ascii=False) for value in values]
        tx.run("UPDATE event SET metadata = ?, source_ids = ? WHERE id = ?", (*clear, event.number))
    if match := request.text_match:
        _drop_saying(tx, match)
        places = _matching(tx, "SELECT root, slug FROM place WHERE slug <> ''", match)
        tx.run_many("UPDATE place SET slug = '' WHERE root = ?", [(root,) for root in places])
        continued = _matching(tx, "SELECT DISTINCT session_id, session_id FROM continued", match)
        tx.run_many("DELETE FROM continued WHERE session_id = ?", [(name,) for name in continued])
    _note_place(tx, found.events, touched)
    # All that was made ready to be handed over, and answers of a model: they quote, and are made anew.
    tx.run(
        "INSERT INTO dirty_compaction (session) SELECT DISTINCT session FROM compaction WHERE TRUE "
        "ON CONFLICT DO NOTHING"
    )
    tx.run("INSERT INTO dirty_brief (project) SELECT id FROM project WHERE TRUE ON CONFLICT DO NOTHING")
    tx.run("UPDATE dirty_compaction SET failed = ''")
    tx.run("DELETE FROM llm_answer")
    _drop_empty(tx, request)
    note_erasure(tx)
    tx.tidy_index()
    return found.counts_and_scope


def apply_tombstones(tx: Transaction, rows: TombstoneRows) -> tuple[ForgetCounts, bool]:
    """Add tombstones and erase what they refuse, as a restored backup may hold it again.

    Return also whether summaries may hold a forgotten text although no event does.
    """
    insert_rows(tx, rows)
    key = tx.tombstone_key()
    if key is None:
        return ForgetCounts(0, 0), False
    texts = ForgottenTexts(key, tx.fetch(ALL_TEXTS))
    refused, bearing = find_refused(tx, key, texts)
    events_found = _by_keys(tx, [*refused])
    if events_found or bearing:
        request = ForgetRequest(event_key=b"")
        _erase(tx, _Found(ForgetScope(request), events_found, bearing), request, "", texts.are_in)
    note_erasure(tx)
    for slug in _emptied_projects(tx, key):
        _drop_empty(tx, ForgetRequest(project=slug))
    counts = ForgetCounts(len(events_found), len({event.session for event in events_found}), cleared=len(bearing))
    return counts, bool(texts) and any(texts.are_in(str(text)) for (text,) in tx.fetch(_DERIVED_TEXTS))


def find_refused(tx: Transaction, key: TombstoneKey, texts: ForgottenTexts) -> tuple[set[bytes], list[AffectedEvent]]:
    """Return the keys of stored events that tombstones refuse, and the events of which a name holds a text."""
    refused = set(_project_keys(tx, key))
    bearing = list[AffectedEvent]()
    for (session,) in tx.fetch("SELECT id FROM session ORDER BY id"):
        events = [event_of(row) for row in tx.fetch(f"{EVENTS} WHERE e.session = ? ORDER BY e.id", (session,))]
        keys = refused_keys(tx, [Intake(tuple(events), "", author=events[0].author)]) if events else set()
        refused |= keys
        if texts and (named := [event.key for event in events if event.key not in keys and _is_named(event, texts)]):
            bearing += _by_keys(tx, named)
    return refused, bearing


def _project_keys(tx: Transaction, key: TombstoneKey) -> Iterator[bytes]:
    """Yield the keys of the events that were forgotten with their project."""
    for slug, before_ms in _forgotten_projects(tx, key):
        yield from (bytes(value) for (value,) in tx.fetch(_OF_PROJECT, (slug, before_ms)))


def _forgotten_projects(tx: Transaction, key: TombstoneKey) -> list[tuple[str, int]]:
    places = [(slug, key.name("place", root)) for root, slug in tx.fetch(_PLACES)]
    until = names_until(tx, {digest for _, digest in places})
    return sorted({(slug, until[digest]) for slug, digest in places if digest in until})


def _emptied_projects(tx: Transaction, key: TombstoneKey) -> list[str]:
    return [slug for slug, _ in _forgotten_projects(tx, key) if not tx.fetch(_HAS_SESSIONS, (slug,))]


def _is_named(event: Event, texts: ForgottenTexts) -> bool:
    """Return whether a path, branch or other name of the event holds a forgotten text."""
    return texts.are_in(json.dumps([event.metadata, event.source_ids], ensure_ascii=False, default=str))


def _by_keys(tx: Transaction, keys: Sequence[bytes]) -> list[AffectedEvent]:
    found = list[AffectedEvent]()
    for start in range(0, len(keys), _CHUNK):
        part = keys[start : start + _CHUNK]
        found += [AffectedEvent(*row) for row in tx.fetch(_EVENTS.format(where=f"e.key IN ({marks(part)})"), part)]
    return found


def drop_segments(tx: Transaction, places: Iterable[tuple[int, int]]) -> None:
    """Take away the segments of the sessions from the first forgotten event on, and every period above them."""
    earliest: dict[int, int] = {}
    for session, timestamp_ms in places:
        earliest[session] = min(earliest.get(session, timestamp_ms), timestamp_ms)
    found = list[Row]()
    sessions = sorted(earliest.items())
    for start in range(0, len(sessions), _CHUNK):
        part = sessions[start : start + _CHUNK]
        froms = ", ".join(["(CAST(? AS BIGINT), CAST(? AS BIGINT))"] * len(part))
        found += tx.fetch(_SEGMENTS_FROM.format(froms=froms), [value for place in part for value in place])
        tx.insert("dirty_session (session, from_ms)", part, known=CUT_ANEW_KNOWN)
    _drop_found_segments(tx, found)


def _drop_found_segments(tx: Transaction, segments: Sequence[Row]) -> None:
    """Take away segments, given as rows of key, node, the node's key and its project, and the periods above them."""
    remove_nodes(tx, [node for _, node, _, _ in segments if node is not None])
    below = [(project, NodeRef(Level.SEGMENT, key)) for _, node, key, project in segments if node is not None]
    _drop_periods(tx, below)
    keys = [segment for segment, *_ in segments]
    for start in range(0, len(keys), _CHUNK):
        part = keys[start : start + _CHUNK]
        tx.run(f"DELETE FROM segment WHERE key IN ({marks(part)})", part)
        settle_failures(tx, Stage.SUMMARY, [segment.hex() for segment in part])


def _drop_periods(tx: Transaction, below: Iterable[tuple[int, NodeRef]]) -> None:
    """Take away the periods above nodes, given with their projects, and let them be made again."""
    places = sorted({(project, int(period.level), period.key) for project, ref in below for period in ancestors(ref)})
    nodes = list[int]()
    for start in range(0, len(places), _CHUNK):
        part = places[start : start + _CHUNK]
        rows = ", ".join(["(CAST(? AS BIGINT), CAST(? AS BIGINT), ?)"] * len(part))
        sql = f"SELECT id FROM node WHERE (project, level, key) IN (VALUES {rows})"
        nodes += [node for (node,) in tx.fetch(sql, [value for place in part for value in place])]
    remove_nodes(tx, nodes)
    tx.insert("dirty_node (project, level, key)", places, known="ON CONFLICT DO NOTHING")


def _drop_saying(tx: Transaction, match: TextMatch) -> None:
    """Take away what says it though its events do not."""
    saying = _nodes_saying(tx, match)
    tx.mark_team_erasure([], {project for _, project, *_ in saying})
    drop_segments(tx, [(row[4], row[5]) for row in saying if row[2] == Level.SEGMENT and row[4] is not None])
    again = [(project, level, key) for _, project, level, key, *_ in saying if level != Level.SEGMENT]
    tx.insert("dirty_node (project, level, key)", again, known="ON CONFLICT DO NOTHING")
    _drop_periods(tx, [(project, NodeRef(Level(level), key)) for _, project, level, key, *_ in saying])
    remove_nodes(tx, [node for node, *_ in saying])
    drop_records(tx, _records_saying(tx, match))
    states = _matching(tx, "SELECT name, value FROM llm_state", match)
    tx.run_many("DELETE FROM llm_state WHERE name = ?", [(name,) for name in states])


def _drop_events(tx: Transaction, events: Sequence[AffectedEvent]) -> None:
    for start in range(0, len(events), _CHUNK):
        part = events[start : start + _CHUNK]
        numbers = [event.number for event in part]
        tx.unindex(
            [
                (event.number * 4 + EVENT, event_columns(event.role, event.kind, event.text))
                for event in part
                if event.kind not in LIFECYCLE and event.text.strip()
            ]
        )
        for column in ("event", "first_event", "last_event"):
            tx.run(f"DELETE FROM grip WHERE {column} IN ({marks(numbers)})", numbers)
        tx.run(f"DELETE FROM event WHERE id IN ({marks(numbers)})", numbers)


def _note_place(tx: Transaction, gone: Sequence[AffectedEvent], touched: Sequence[AffectedEvent]) -> None:
    """Keep at which place in the log a session lost something, so that a view of an earlier place can tell."""
    notes = {event.session for event in gone if event.kind == EventType.NOTE}
    places = sorted({(event.session, event.project) for event in touched})
    if not places:
        return
    at = tx.skip_id("event")
    tx.insert(
        "erased (at_event, session, project, notes)",
        [(at, session, project, int(session in notes)) for session, project in places],
    )


def _drop_empty(tx: Transaction, request: ForgetRequest) -> None:
    """Sessions of which nothing is left, and a project that was to be forgotten or bears the text in its name."""
    tx.keep_counting("session")
    empty = tx.fetch(_EMPTY, ())
    for start in range(0, len(empty), _CHUNK):
        part = empty[start : start + _CHUNK]
        sessions, names = [session for session, _ in part], [name for _, name in part]
        records = tx.fetch(f"SELECT id FROM compaction WHERE session IN ({marks(sessions)})", sessions)
        drop_records(tx, {number for (number,) in records})
        for table in ("dirty_session", "dirty_compaction", "segment", "failure"):
            tx.run(f"DELETE FROM {table} WHERE session IN ({marks(sessions)})", sessions)
        called = [*names, *(f"session:{name}" for name in names)]
        tx.run(f"UPDATE llm_call SET node = '' WHERE node IN ({marks(called)})", called)
        drop_session_rules(tx, sessions)
        tx.run(f"DELETE FROM continued WHERE origin IN ({marks(sessions)})", sessions)
        tx.run(f"DELETE FROM continued WHERE session_id IN ({marks(names)})", names)
        tx.run(f"DELETE FROM session WHERE id IN ({marks(sessions)})", sessions)
    if match := request.text_match:
        meant = {*_matching(tx, _PROJECT_TEXTS, match)}
        tx.clear_audit(match.is_in)
    else:
        tx.clear_audit(lambda name: name == request.project)
        meant = {number for (number,) in tx.fetch("SELECT id FROM project WHERE slug = ?", (request.project,))}
    unused = "SELECT id FROM project p WHERE NOT EXISTS (SELECT 1 FROM session WHERE project = p.id) ORDER BY id"
    for project in [number for (number,) in tx.fetch(unused) if number in meant]:
        remove_nodes(tx, [node for (node,) in tx.fetch("SELECT id FROM node WHERE project = ?", (project,))])
        tx.keep_counting("project")
        tx.run(f"UPDATE session SET place = '' WHERE place IN ({_NAMES_OF})", (project, project))
        tx.run(f"DELETE FROM place WHERE root IN ({_NAMES_OF})", (project, project))
        for table in ("project_alias", "dirty_node", "dirty_brief", "mention", "failure"):
            tx.run(f"DELETE FROM {table} WHERE project = ?", (project,))
        drop_project_rule(tx, project)
        tx.run("DELETE FROM project WHERE id = ?", (project,))
