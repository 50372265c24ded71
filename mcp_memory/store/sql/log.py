"""The event log: each event once, however often and whichever way it is told."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from typing import Any

from mcp_memory.domain.events import LIFECYCLE, TEAM, Event, EventType, Intake, Role
from mcp_memory.domain.terms import Columns, event_columns
from mcp_memory.errors import NotAllowed
from mcp_memory.store.port import Trial
from mcp_memory.store.sql.copies import (
    EXPORT,
    SAME_WITHIN_MS,
    SOURCES,
    CopyFinder,
    compared_text,
    fingerprint,
    lock_names,
)
from mcp_memory.store.sql.database import EVENT, KEPT, Row, SqlDatabase, Transaction, marks
from mcp_memory.store.sql.projects import notice, place_of, project_of
from mcp_memory.store.sql.sharing import offer, offer_retold, sharing
from mcp_memory.store.sql.tombstones import refused_keys, without_forgotten_names
from mcp_memory.store.sql.work import check_lease

#: Twice as fast as `json.loads`, and enough for what was written by us.
_DECODE = json.JSONDecoder().raw_decode
_JSON = json.JSONEncoder(ensure_ascii=False, default=str)
#: The columns of an event: name, field of `Event`, how its value is read, and how written. One more is a row here, a
#: field there and a migration.
_COLUMNS: tuple[tuple[str, str, Callable[[Any], Any] | None, Callable[[Any], Any] | None], ...] = (
    ("key", "key", None, None),
    ("timestamp_ms", "timestamp_ms", None, None),
    ("type", "event_type", EventType, str),
    ("role", "role", Role, str),
    ("text", "text", None, None),
    ("tokens", "tokens", None, None),
    ("truncated", "truncated", bool, int),
    ("source_ids", "source_ids", lambda text: tuple(_DECODE(text)[0]), _JSON.encode),
    ("metadata", "metadata", lambda text: _DECODE(text)[0], _JSON.encode),
    ("visibility", "visibility", None, None),
)
EVENT_COLUMNS = ", ".join(f"e.{name}" for name, *_ in _COLUMNS)
#: The number of the user's message that opened the turn of an event `e`, or is the event itself; it is looked for so
#: many events back.
OPENED = (
    "(SELECT id FROM (SELECT n.id, n.role FROM event n WHERE n.session = e.session AND (n.timestamp_ms, n.id) <= "
    "(e.timestamp_ms, e.id) ORDER BY n.timestamp_ms DESC, n.id DESC LIMIT 400) before WHERE role = 'user' LIMIT 1)"
)
#: Whether a call went well, as its metadata tells.
DONE_WELL = " AND ".join(
    f"coalesce(CAST(json_extract(e.metadata, '$.{way}') AS TEXT), '0') = '0'" for way in ("failed", "refused")
)
#: Rows for `event_of`; the store's own number comes last.
EVENTS = (
    f"SELECT {EVENT_COLUMNS}, s.client, s.session_id, p.slug, s.author, e.id "
    "FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project"
)
#: The same with the key of the segment that it is in, and the number of its session.
PLACED = EVENTS.replace(
    " FROM",
    ", (SELECT n.key FROM segment g JOIN node n ON n.id = g.node WHERE g.session = e.session AND (g.start_ms, "
    "g.first_event) <= (e.timestamp_ms, e.id) ORDER BY g.start_ms DESC, g.first_event DESC LIMIT 1), e.session FROM",
)


def event_of(row: Row) -> Event:
    """An event from `EVENT_COLUMNS`, client, session, project and author; what comes after these is left alone."""
    fields = {field: read(value) if read else value for (_, field, read, _), value in zip(_COLUMNS, row, strict=False)}
    client, session_id, slug, author = row[len(_COLUMNS) : len(_COLUMNS) + 4]
    return Event(client=client, session_id=session_id, project=slug, author=author, **fields)


#: What was done, and not said.
_DONE = frozenset({EventType.TOOL_RESULT, EventType.ASSISTANT_STOP})
#: The client's name and the one it gave a session.
SessionName = tuple[str, str]
_CHUNK = 500

_EVENT = f"event (id, session, {', '.join(name for name, *_ in _COLUMNS)})"
#: A session is to be cut into segments anew, from a time on.
CUT_ANEW_KNOWN = (
    "ON CONFLICT (session) DO UPDATE SET seq = dirty_session.seq + 1, from_ms = CASE WHEN excluded.from_ms < "
    "dirty_session.from_ms THEN excluded.from_ms ELSE dirty_session.from_ms END"
)
CUT_ANEW = f"INSERT INTO dirty_session (session, from_ms) VALUES (?, ?) {CUT_ANEW_KNOWN}"
_ASKED_TOO = (
    "ON CONFLICT (session) DO UPDATE SET seq = dirty_compaction.seq + 1, "
    "asked = CASE WHEN excluded.asked = '' THEN dirty_compaction.asked ELSE excluded.asked END, "
    "retry_ms = CASE WHEN excluded.asked = '' THEN dirty_compaction.retry_ms ELSE 0 END"
)
_ADD_GROWN = f"INSERT INTO dirty_compaction (session, asked) VALUES (?, ?) {_ASKED_TOO}"
_ADD_ASKED = (
    "INSERT INTO dirty_compaction (session, asked) SELECT id, 'client' FROM session "
    f"WHERE client = ? AND session_id = ? {_ASKED_TOO}"
)
_SESSION = (
    "SELECT s.id, p.root, s.project, s.author FROM session s JOIN project p ON p.id = s.project "
    "WHERE s.client = ? AND s.session_id = ?"
)
_NEW_SESSION = "INSERT INTO session (id, project, client, session_id, author, place) VALUES (?, ?, ?, ?, ?, ?)"
_NEARBY = (
    "SELECT key, timestamp_ms, type, role, text, metadata FROM event WHERE session = ? AND timestamp_ms BETWEEN ? AND ?"
)
#: Whether a source that knows calls by their names has told of tools in a session.
_TOOLS_TOLD = (
    "SELECT 1 FROM session s JOIN event e ON e.session = s.id WHERE s.client = ? AND s.session_id = ? AND e.type = "
    "'tool_result' AND json_extract(e.metadata, '$.via') IN ('hook', 'hook-after', 'transcript') LIMIT 1"
)
_NAME_IT = "INSERT INTO meta (key, value) VALUES ('memory', ?) ON CONFLICT DO NOTHING"
_NAME = "SELECT value FROM meta WHERE key = 'memory'"


class LogPart:
    """Adding events, which is idempotent, and trying it out: that part of the Store port."""

    _database: SqlDatabase

    async def add(
        self,
        intakes: Sequence[Intake],
        *,
        compacting: Sequence[tuple[str, str]] = (),
        lease_token: int | None = None,
    ) -> int:
        def write(tx: Transaction) -> int:
            check_lease(tx, lease_token)
            added = add_events(tx, intakes)
            tx.run_many(_ADD_ASKED, compacting)
            return added

        return await self._database.write(write)

    async def identity(self) -> tuple[str, int]:
        if not (name := await self._database.value(_NAME)):
            await self._database.write(Transaction.run, _NAME_IT, (secrets.token_hex(8),))
            name = await self._database.value(_NAME)
        return str(name), (await self._database.reached())["event"]

    def trial(self) -> Trial:
        """Sorts events out as `add` does, and keeps what that would store in mind."""
        known: dict[bytes, tuple[str, ...]] = {}
        told: dict[SessionName, _Twins] = {}
        with_tools = set[SessionName]()
        copies = CopyFinder()

        def sort_out(tx: Transaction, intakes: Sequence[Intake]) -> list[Intake]:
            known.update(_told(tx, intakes))
            with_tools.update(_with_tools(intakes))
            copies.load(tx, intakes, known)
            fresh = []
            for intake in intakes:
                events = [event for event in intake.events if event.key not in known]
                events = _worth_telling(tx, copies.without_copies(events, intake.author), with_tools)
                if events:
                    name = (events[0].client, events[0].session_id)
                    # A session stays in the project it began in.
                    for session, root, *_ in tx.fetch(_SESSION, name):
                        stored = _Twins(_nearby(tx, session, events))
                        events = [event for event in events if stored.find(event) is None]
                        intake = replace(intake, root=root, label="", remote="")
                    twins = told.setdefault(name, _Twins([]))
                    new, _ = _parted(events, twins, known)
                    copies.add(new, intake.author)
                    fresh.append(replace(intake, events=tuple(new)))
                    twins.settle()
            return fresh

        return lambda intakes: self._database.read_as_transaction(lambda tx: sort_out(tx, intakes))


def add_events(tx: Transaction, intakes: Sequence[Intake]) -> int:
    """Store what of them is new, with all that follows from it; how many events."""
    sessions = (f"session {event.client} {event.session_id}" for intake in intakes for event in intake.events[:1])
    tx.lock([*sessions, *lock_names(intakes)])
    known, with_tools = _told(tx, intakes), _with_tools(intakes)
    copies = CopyFinder()
    copies.load(tx, intakes, known)
    fresh: list[tuple[int, Event]] = []
    retold: list[tuple[bytes, Event]] = []
    for intake in intakes:
        retold += [(event.key, event) for event in intake.events if event.key in known]
        events = [event for event in intake.events if event.key not in known]
        events = _worth_telling(tx, copies.without_copies(events, intake.author), with_tools)
        if not events:
            continue
        name = (events[0].client, events[0].session_id)
        nearby = list[Row]()
        if rows := tx.fetch(_SESSION, name):
            ((session, _, project, author),) = rows
            if author != intake.author:
                raise NotAllowed(f"The session {name[1]!r} is someone else's: only who had it adds to it.")
            nearby = _nearby(tx, session, events)
            notice(tx, project, intake.root, intake.label, intake.remote)
        else:
            place = intake.root, intake.label, intake.remote
            project, [session] = project_of(tx, *place), tx.new_ids("session")
            tx.run(_NEW_SESSION, (session, project, *name, intake.author, place_of(tx, project, intake.root)))
        new, told_before = _parted(events, _Twins(nearby), known)
        copies.add(new, intake.author)
        fresh += [(session, event) for event in new]
        retold += told_before
    cleared = without_forgotten_names(tx, [event for _, event in fresh])
    _insert(tx, [(session, event) for (session, _), event in zip(fresh, cleared, strict=True)])
    copies.save(tx)
    # A hook knows no line of the transcript; when the transcript tells the same event, its lines are added.
    lines_of = set[bytes]()
    for key, event in retold:
        if key not in known:
            known |= _known(tx, [key])
        names = known.get(key, ())
        added = [name for name in event.source_ids if name not in names]
        if added:
            # The transcript's own lines come first: they are what others know the event by.
            merged = (*added, *names) if event.metadata.get("via") == "transcript" else (*names, *added)
            known[key] = merged
            tx.run("UPDATE event SET source_ids = ? WHERE key = ?", (_JSON.encode(merged), key))
            lines_of.add(key)
    offer_retold(tx, [*lines_of])
    return len(fresh)


def _parted(
    events: Sequence[Event], twins: _Twins, known: dict[bytes, tuple[str, ...]]
) -> tuple[list[Event], list[tuple[bytes, Event]]]:
    """The events that are new, which are `known` from now on, and those that another source told, by their keys."""
    new, told_before = list[Event](), list[tuple[bytes, Event]]()
    for event in events:
        twin = twins.find(event)
        if twin is not None:
            told_before.append((twin, event))
        elif event.key not in known:
            known[event.key] = event.source_ids
            twins.add(event)
            new.append(event)
    return new, told_before


def _told(tx: Transaction, intakes: Sequence[Intake]) -> dict[bytes, tuple[str, ...]]:
    """Those of the events that are stored, forgotten or no longer kept, with the source lines they are known by."""
    events = [event for intake in intakes for event in intake.events]
    known = _known(tx, [event.key for event in events])
    # What is older than what is kept does not come back.
    ((kept_from,),) = tx.fetch(f"SELECT {KEPT}")
    known |= {event.key: () for event in events if event.timestamp_ms < kept_from and event.key not in known}
    known |= dict.fromkeys(refused_keys(tx, intakes, known), ())
    return known


def _known(tx: Transaction, keys: Sequence[bytes]) -> dict[bytes, tuple[str, ...]]:
    """The events that are stored already, with the source lines they are known by."""
    known: dict[bytes, tuple[str, ...]] = {}
    for start in range(0, len(keys), _CHUNK):
        part = keys[start : start + _CHUNK]
        rows = tx.fetch(f"SELECT key, source_ids FROM event WHERE key IN ({marks(part)})", part)
        known.update((key, tuple(json.loads(sources))) for key, sources in rows)
    return known


def _with_tools(intakes: Sequence[Intake]) -> set[SessionName]:
    """The sessions of whose tools a source tells that knows them by name."""
    events = (event for intake in intakes for event in intake.events)
    tools = (event for event in events if event.event_type is EventType.TOOL_RESULT)
    return {(event.client, event.session_id) for event in tools if event.metadata.get("via") in SOURCES[:-1]}


def _worth_telling(tx: Transaction, events: list[Event], with_tools: Set[SessionName]) -> list[Event]:
    """The events without what an export says was done, if another source tells or has told of the session's tools."""
    sure = [event for event in events if event.metadata.get("via") != EXPORT or event.event_type not in _DONE]
    if len(sure) == len(events):
        return events
    name = (events[0].client, events[0].session_id)
    return sure if name in with_tools or tx.fetch(_TOOLS_TOLD, name) else events


def _nearby(tx: Transaction, session: int, events: Sequence[Event]) -> list[Row]:
    times = [event.timestamp_ms for event in events]
    return tx.fetch(_NEARBY, (session, min(times) - SAME_WITHIN_MS, max(times) + SAME_WITHIN_MS))


class _Twins:
    """Finds the event that another source told already. Texts are compared only where there are two sources."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._told: dict[str, list[tuple[int, bytes, str, str, str]]] = {}
        self._seen: dict[str, dict[tuple[str, bytes], list[tuple[int, bytes]]]] = {}
        for key, timestamp_ms, kind, role, text, metadata in rows:
            via = json.loads(metadata).get("via", "") if "via" in metadata else ""
            self._told.setdefault(via, []).append((timestamp_ms, key, kind, role, text))

    def add(self, event: Event) -> None:
        told = (event.timestamp_ms, event.key, event.event_type, event.role, event.text)
        self._told.setdefault(event.metadata.get("via", ""), []).append(told)

    def find(self, event: Event) -> bytes | None:
        via = event.metadata.get("via", "")
        others = [other for other in self._told if other and other != via]
        if not others or not via or event.event_type in LIFECYCLE:
            return None
        for other in others:
            wanted = fingerprint(event.event_type, event.role, compared_text(event.event_type, event.text, other))
            for when, key in self._by_words(other).get(wanted, ()):
                if abs(when - event.timestamp_ms) <= SAME_WITHIN_MS:
                    return key
        return None

    def settle(self) -> None:
        """Keep what tells the texts apart instead of the texts."""
        for via in self._told:
            self._by_words(via)

    def _by_words(self, via: str) -> dict[tuple[str, bytes], list[tuple[int, bytes]]]:
        seen = self._seen.setdefault(via, {})
        told = self._told[via]
        for timestamp_ms, key, kind, role, text in told:
            words = fingerprint(kind, role, compared_text(kind, text, via))
            seen.setdefault(words, []).append((timestamp_ms, key))
        told.clear()
        return seen


def _insert(tx: Transaction, fresh: Sequence[tuple[int, Event]]) -> None:
    if not fresh:
        return
    shared = sharing(tx, fresh)
    fresh = [
        (session, replace(event, visibility=TEAM) if at in shared else event)
        for at, (session, event) in enumerate(fresh)
    ]
    columns = [columns_of(event.role, event.event_type, event.text) for _, event in fresh]
    rows = []
    for session, event in fresh:
        values = ((getattr(event, field), write) for _, field, _, write in _COLUMNS)
        rows.append((session, *(write(value) if write else value for value, write in values)))
    # Where several write at once, who has numbers of the log keeps the others waiting: so they come last.
    numbers = tx.new_ids("event", len(fresh))
    numbered = [(number, session, event) for number, (session, event) in zip(numbers, fresh, strict=True)]
    tx.insert(_EVENT, [(number, *row) for number, row in zip(numbers, rows, strict=True)])
    offer(tx, [numbers[at] for at in sorted(shared)])
    tx.index([(number * 4 + EVENT, told) for number, told in zip(numbers, columns, strict=True) if told])
    earliest: dict[int, int] = {}
    for _, session, event in numbered:
        earliest[session] = min(earliest.get(session, event.timestamp_ms), event.timestamp_ms)
    tx.run_many(CUT_ANEW, earliest.items())
    forgetting = {session for _, session, event in numbered if event.event_type is EventType.COMPACTION}
    tx.run_many(_ADD_GROWN, [(session, "client" if session in forgetting else "") for session in earliest])


def index_events(tx: Transaction, events: Iterable[tuple[int, str, str, str]]) -> None:
    """Index events given as number, role, type and text."""
    told = [(number * 4 + EVENT, columns_of(role, kind, text)) for number, role, kind, text in events]
    tx.index([(number, columns) for number, columns in told if columns])


def columns_of(role: str, kind: str, text: str) -> Columns | None:
    """What the index takes of an event; None if it says nothing."""
    return event_columns(role, kind, text) if kind not in LIFECYCLE and text.strip() else None
