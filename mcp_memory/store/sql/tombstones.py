"""What was forgotten stays forgotten: events are refused that were erased, or that fall under an earlier `forget`.

An event is recognized by its key, by what it said and when (as the client's other account of it, a copy in another
session, or an export without ids has it), by its session, project or date, or by a text that it holds. Only keyed
hashes are stored, so that nothing can be read or guessed from them.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mcp_memory.capture.project import places
from mcp_memory.domain.events import LIFECYCLE, Event, EventType, Intake, event_key
from mcp_memory.domain.forget import ForgetRequest, ForgetScope, without_names
from mcp_memory.domain.projects import slugify
from mcp_memory.domain.tombstones import (
    Forgetting,
    TombstoneKey,
    TombstoneRows,
    Tombstones,
    digests_in,
    forgotten_text,
)
from mcp_memory.errors import StoreError
from mcp_memory.store.sql.copies import (
    CALL,
    EXPORT,
    MIN_NAME_CHARS,
    SAME_WITHIN_MS,
    SOURCES,
    compared_text,
    essence,
    fingerprint,
    line_names,
)
from mcp_memory.store.sql.database import SET_FACT, Row, SqlConnection, Transaction, marks

_CHUNK = 500
#: The keys with which the tombstones of a memory were made, as fingerprints with spaces between them.
KEY_FACT = "tombstone_keys"
#: What a live hook reports comes after the `forget` that emptied the inbox, whatever the clock says.
_LIVE = frozenset({"hook", "hook-after"})
_ANY = (
    "SELECT EXISTS (SELECT 1 FROM forgotten) OR EXISTS (SELECT 1 FROM forgotten_words) "
    "OR EXISTS (SELECT 1 FROM forgetting)"
)
_SCOPES = "SELECT kind, max(before_ms) FROM forgetting WHERE before_ms > ? GROUP BY kind"
_NAMED = (
    "SELECT n.key, max(f.before_ms) FROM forgotten_name n JOIN forgetting f ON f.id = n.request "
    "WHERE n.key IN ({}) AND f.before_ms IS NOT NULL GROUP BY n.key"
)
_TEXTS = (
    "SELECT n.key, n.unit, n.size, max(f.before_ms) FROM forgotten_name n JOIN forgetting f ON f.id = n.request "
    "WHERE n.size > 0 AND f.before_ms > ? GROUP BY n.key, n.unit, n.size"
)
ALL_TEXTS = _TEXTS.replace("f.before_ms > ?", "f.before_ms IS NOT NULL")
#: Also those that were given with --only-stored: a question about them is not to be noted.
_EVERY_TEXT = "SELECT key, unit, size, 0 FROM forgotten_name WHERE size > 0"
_IS_STORED = "SELECT 1 FROM session WHERE client = ? AND session_id = ?"
_FORGETTINGS = "SELECT id, kind, at_ms, events, before_ms FROM forgetting ORDER BY at_ms, id"
_TABLES = {
    "forgetting": "id, kind, at_ms, events, before_ms",
    "forgotten": "key, sealed, request",
    "forgotten_words": "key, request",
    "forgotten_name": "key, request, unit, size",
}


class AffectedEvent(NamedTuple):
    """An event that is erased, or whose metadata is cleared of a name."""

    number: int
    session: int
    project: int
    key: bytes
    role: str
    kind: str
    text: str
    timestamp_ms: int
    client: str
    session_id: str
    metadata: str
    source_ids: str
    author: str


def add_tombstones(tx: Transaction, events: Iterable[AffectedEvent], request: str = "") -> None:
    """Refuse these events from now on, whichever source they come from."""
    key = key_for_writing(tx)
    said = list[bytes]()
    erased = list[bytes]()
    for event in events:
        erased.append(event.key)
        facts = json.loads(event.metadata)
        said += _account_keys(event, facts.get("via", "")) + _account_keys(event, CALL)
        said += _copy_keys(event, json.loads(event.source_ids), facts)
        said += _said_keys(event.author, event.role, event.kind, event.text, event.timestamp_ms, facts, around=0)
        if event.kind == EventType.SESSION_TITLE:
            said.append(_title_key(event.author, event.text))
    add_keys(tx, key, erased, request)
    rows = [(key.digest(value), request) for value in dict.fromkeys(said)]
    tx.insert("forgotten_words (key, request)", rows, known="ON CONFLICT DO NOTHING")


def add_keys(tx: Transaction, key: TombstoneKey, keys: Iterable[bytes], request: str = "") -> None:
    """Refuse the events of these keys."""
    rows = [(key.digest(value), key.seal(value), request) for value in dict.fromkeys(keys)]
    tx.insert("forgotten (key, sealed, request)", rows, known="ON CONFLICT DO NOTHING")


def note_forgetting(tx: Transaction, request: ForgetRequest, scope: ForgetScope, events: int, now_ms: int) -> str:
    """Note a run of `forget`, and refuse what falls under it and is dated before now; return its id."""
    key = key_for_writing(tx)
    name = secrets.token_hex(3)
    covers = request.event_key is None and not request.only_stored
    # A date to come must not keep out what is said until then.
    before_ms = min(request.before_ms or now_ms, now_ms) if covers else None
    tx.insert("forgetting (id, kind, at_ms, events, before_ms)", [(name, request.kind, now_ms, events, before_ms)])
    names = list[tuple[bytes, str, int]]()
    if request.session_id is not None:
        names.append((key.name("session", request.session_id), "", 0))
    if request.project is not None:
        names += [(key.name("place", place), "", 0) for place in sorted(scope.places)]
        names.append((key.name("slug", request.project), "", 0))
    if request.match is not None:
        text = forgotten_text(key, request.match, part=request.part)
        names.append((text.digest, text.unit, text.size))
    rows = [(digest, name, unit, size) for digest, unit, size in names]
    tx.insert("forgotten_name (key, request, unit, size)", rows, known="ON CONFLICT DO NOTHING")
    return name


def is_marked(tx: Transaction, keys: Sequence[bytes]) -> set[bytes]:
    """Return those of the keys whose events were forgotten."""
    key = tx.tombstone_key()
    return set() if key is None else _look_up(tx, "forgotten", {key.digest(value): value for value in keys})


def refused_keys(tx: Transaction, intakes: Sequence[Intake], known: Container[bytes] = ()) -> set[bytes]:
    """Return the keys of the events that are refused, apart from known ones."""
    if not tx.fetch(_ANY)[0][0] or (key := tx.tombstone_key()) is None:
        return set()
    fresh = [(intake, [event for event in intake.events if event.key not in known]) for intake in intakes]
    fresh = [(intake, events) for intake, events in fresh if events]
    events = [event for _, part in fresh for event in part]
    if not events:
        return set()
    refused = _look_up(tx, "forgotten", {key.digest(event.key): event.key for event in events})
    said = defaultdict[bytes, list[bytes]](list)
    for intake, part in fresh:
        for event in part:
            for value in _keys_to_compare(event, intake.author):
                said[key.digest(value)].append(event.key)
    for digest in _look_up(tx, "forgotten_words", {digest: digest for digest in said}):
        refused.update(said[digest])
    refused |= _in_scope(tx, key, fresh)
    for intake, part in fresh:
        refused |= _left_without_content(tx, intake, part, refused)
    return refused


def _in_scope(tx: Transaction, key: TombstoneKey, fresh: Sequence[tuple[Intake, Sequence[Event]]]) -> set[bytes]:
    """Return the keys of events that fall under an earlier `forget` of a session, project, time or text."""
    past = [(intake, [event for event in events if event.metadata.get("via") not in _LIVE]) for intake, events in fresh]
    earliest = min((event.timestamp_ms for _, events in past for event in events), default=None)
    if earliest is None:
        return set()
    horizons: dict[str, int] = dict(tx.fetch(_SCOPES, (earliest,)))
    if not horizons:
        return set()
    names = [(_names_of(key, intake, events), events) for intake, events in past]
    until = names_until(tx, {name for digests, _ in names for name in digests})
    texts = ForgottenTexts(key, tx.fetch(_TEXTS, (earliest,)))
    refused = set[bytes]()
    for digests, events in names:
        horizon = max([horizons.get("before", earliest), *(until.get(name, earliest) for name in digests)])
        refused |= {event.key for event in events if event.timestamp_ms < horizon or texts.are_in_event(event)}
    return refused


def names_until(tx: Transaction, digests: Iterable[bytes]) -> dict[bytes, int]:
    """Return the names among these that were forgotten, with the time before which their events are refused."""
    wanted, until = sorted(digests), dict[bytes, int]()
    for start in range(0, len(wanted), _CHUNK):
        part = wanted[start : start + _CHUNK]
        until.update((bytes(name), before_ms) for name, before_ms in tx.fetch(_NAMED.format(marks(part)), part))
    return until


def _names_of(key: TombstoneKey, intake: Intake, events: Sequence[Event]) -> list[bytes]:
    """Return the digests of the names by which a session and its project may have been forgotten."""
    found = [key.name("session", name) for name in {event.session_id for event in events}]
    found += [key.name("place", place) for place in places(intake.root, intake.label, intake.remote)]
    if intake.label and not intake.root:
        found.append(key.name("slug", slugify(intake.label)))
    return found


def without_forgotten_names(tx: Transaction, events: Sequence[Event]) -> list[Event]:
    """Return new events without the paths and names that hold a text which was forgotten after they were dated."""
    earliest = min((event.timestamp_ms for event in events), default=None)
    key = tx.tombstone_key() if earliest is not None else None
    texts = ForgottenTexts(key, tx.fetch(_TEXTS, (earliest,))) if key else None
    return [_cleared(event, texts) for event in events] if texts else [*events]


def _cleared(event: Event, texts: ForgottenTexts) -> Event:
    facts, names = dict(event.metadata), [*event.source_ids]
    document = json.dumps([facts, names], ensure_ascii=False, default=str)
    if facts.get("via") in _LIVE or not texts.are_in(document, event.timestamp_ms):
        return event
    facts, names = (
        without_names(value, lambda text: texts.are_in(text, event.timestamp_ms)) for value in (facts, names)
    )
    return replace(event, metadata=facts, source_ids=tuple(names))


def conceal(tx: Transaction, question: str) -> str:
    """Return a question as it may be noted: a hash if it holds a text that was forgotten."""
    if not question or (key := tx.tombstone_key()) is None:
        return question
    texts = ForgottenTexts(key, tx.fetch(_EVERY_TEXT))
    return f"forgotten:{key.name('question', question).hex()}" if texts.are_in(question) else question


class ForgottenTexts:
    """Recognizes texts that were given to `forget --match`."""

    def __init__(self, key: TombstoneKey, rows: Iterable[Row]) -> None:
        self._key = key
        self._before: dict[bytes, int] = {}
        sizes = set[tuple[str, int]]()
        for digest, unit, size, before_ms in rows:
            self._before[bytes(digest)] = before_ms
            sizes.add((unit, size))
        self._sizes = sorted(sizes)

    def __bool__(self) -> bool:
        return bool(self._before)

    def are_in(self, text: str, timestamp_ms: int | None = None) -> bool:
        """Return whether the text holds one of them that was forgotten after this time, or at any time."""
        if not self._before:
            return False
        moments = (self._before.get(digest) for digest in digests_in(self._key, text, self._sizes))
        return any(moment is not None and (timestamp_ms is None or timestamp_ms < moment) for moment in moments)

    def are_in_event(self, event: Event) -> bool:
        return self.are_in(event.text, event.timestamp_ms)


def _left_without_content(
    tx: Transaction, intake: Intake, events: Sequence[Event], refused: Container[bytes]
) -> set[bytes]:
    """Return the rest of a session of which all that says something is refused, such as a fork's own title."""
    rest = [event for event in events if event.key not in refused]
    says = [event for event in rest if event.says_something and event.event_type is not EventType.SESSION_TITLE]
    if says or not rest or len(rest) == len(events):
        return set()
    if tx.fetch(_IS_STORED, (rest[0].client, rest[0].session_id)):
        return set()
    return {event.key for event in rest}


def _look_up(tx: Transaction, table: str, digests: Mapping[bytes, bytes]) -> set[bytes]:
    """Return what belongs to those digests that the table holds."""
    found, wanted = set[bytes](), [*digests]
    for start in range(0, len(wanted), _CHUNK):
        part = wanted[start : start + _CHUNK]
        rows = tx.fetch(f"SELECT key FROM {table} WHERE key IN ({marks(part)})", part)
        found.update(digests[bytes(digest)] for (digest,) in rows)
    return found


# by what an event is recognized


def _keys_to_compare(event: Event, author: str) -> Iterator[bytes]:
    """Yield what the tombstones of an equal event may have been made of."""
    facts, via = event.metadata, event.metadata.get("via", "")
    names = (event.client, event.session_id, "", "", author)
    words = (event.role, event.event_type, event.text, event.timestamp_ms)
    candidate = AffectedEvent(0, 0, 0, event.key, *words, *names)
    for other in [source for source in SOURCES if via and source != via] + [CALL] * (via == EXPORT):
        yield from _account_keys(candidate, other, around=1)
    yield from _copy_keys(candidate, line_names(event), facts)
    yield from _said_keys(author, event.role, event.event_type, event.text, event.timestamp_ms, facts, around=1)
    if event.event_type is EventType.SESSION_TITLE:
        yield _title_key(author, event.text)
        yield _title_key(author, event.text.rpartition(" (")[0])


def _account_keys(event: AffectedEvent, via: str, around: int = 0) -> list[bytes]:
    """Return by what another source of the same session tells the event: its words and about when."""
    is_call = via == CALL and event.kind != EventType.TOOL_RESULT
    if not via or is_call or event.kind in LIFECYCLE or not event.text.strip():
        return []
    who, words = fingerprint(event.kind, event.role, compared_text(event.kind, event.text, via))
    slot = event.timestamp_ms // SAME_WITHIN_MS
    values = [("words", via, str(at), who, words.hex()) for at in range(slot - around, slot + around + 1)]
    return [event_key(event.client, event.session_id, "\x1f".join(value)) for value in values]


def _copy_keys(event: AffectedEvent, source_ids: Iterable[str], facts: Mapping[str, Any]) -> list[bytes]:
    """Return by what a copy of the event's line in another session is recognized: the line's name and its words."""
    who, words = essence(event.kind, event.role, event.text, facts)
    values = [
        ("copy", event.author, name, event.kind, who, words.hex()) for name in source_ids if len(name) >= MIN_NAME_CHARS
    ]
    return [event_key(event.client, "", "\x1f".join(value)) for value in values]


def _said_keys(
    author: str, role: str, kind: str, text: str, timestamp_ms: int, facts: Mapping[str, Any], *, around: int
) -> list[bytes]:
    """Return by what the event is recognized in any session of any client: who said what in which second."""
    if not text.strip():
        return []
    contents = {fingerprint("", role, text)}
    if kind == EventType.TOOL_RESULT:
        contents.add(essence(kind, role, text, facts))
    second = timestamp_ms // 1000
    return [
        event_key("", "", "\x1f".join(("said", author, who, str(at), words.hex())))
        for who, words in sorted(contents)
        for at in range(second - around, second + around + 1)
    ]


def _title_key(author: str, title: str) -> bytes:
    return event_key("", "", "\x1f".join(("title", author, " ".join(title.split()))))


# the key


def key_for_writing(tx: Transaction) -> TombstoneKey:
    """Return the key of this memory's tombstones, made if there is none, and note in the memory which one it is."""
    key = tx.tombstone_key() or tx.make_tombstone_key()
    known = _fingerprints(tx)
    if key.fingerprint not in known:
        tx.run(SET_FACT, (KEY_FACT, " ".join([*known, key.fingerprint])))
    return key


def _fingerprints(tx: Transaction) -> list[str]:
    rows = tx.fetch("SELECT value FROM meta WHERE key = ?", (KEY_FACT,))
    return str(rows[0][0]).split() if rows else []


def rehash(tx: Transaction, source: SqlConnection) -> None:
    """Turn the plain hashes that were copied from a memory of an earlier version into keyed ones."""
    plain = [bytes(row[0]) for row in source.execute("SELECT key FROM forgotten").fetchall()]
    said = [bytes(row[0]) for row in source.execute("SELECT key FROM forgotten_words").fetchall()]
    if not plain and not said:
        return
    key = key_for_writing(tx)
    tx.run_many("DELETE FROM forgotten WHERE key = ?", [(value,) for value in plain])
    tx.run_many("DELETE FROM forgotten_words WHERE key = ?", [(value,) for value in said])
    add_keys(tx, key, plain)
    rows = [(key.digest(value), "") for value in said]
    tx.insert("forgotten_words (key, request)", rows, known="ON CONFLICT DO NOTHING")


def unsealed_keys(tx: Transaction) -> list[bytes]:
    """Return the keys of all events that were forgotten, for a server that has lost its own tombstones."""
    key = tx.tombstone_key()
    rows = tx.fetch("SELECT key, sealed FROM forgotten") if key else []
    return [key.unseal(bytes(digest), bytes(sealed)) for digest, sealed in rows if key and sealed]


# what is known of them


def summary(tx: Transaction) -> Tombstones:
    """Count the tombstones and list what was forgotten when."""
    [(events,)] = tx.fetch("SELECT count(*) FROM forgotten")
    [(said,)] = tx.fetch("SELECT count(*) FROM forgotten_words")
    forgettings = tuple(Forgetting(*row) for row in tx.fetch(_FORGETTINGS))
    return Tombstones(events, said, forgettings, _is_key_lost(tx))


def _is_key_lost(tx: Transaction) -> bool:
    made_with = _fingerprints(tx)
    try:
        key = tx.tombstone_key() if made_with else None
    except StoreError:  # an inbox that is damaged is repaired, and reported by itself
        return False
    return any(key is None or name != key.fingerprint for name in made_with)


def rows_of(tx: Transaction, table: str, where: str = "", values: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return rows of one of the tables as they are copied."""
    rows = tx.fetch(f"SELECT {_TABLES[table]} FROM {table} {where}", values)
    return tuple(tuple(bytes(one) if isinstance(one, memoryview) else one for one in row) for row in rows)


def all_rows(tx: Transaction, known: Sequence[str] = ()) -> TombstoneRows:
    """Return all tombstones but those of runs whose ids are known."""
    [*ids] = {row[0] for row in tx.fetch("SELECT id FROM forgetting")} - {*known}
    if not known:
        return TombstoneRows(*(rows_of(tx, table) for table in _TABLES))
    chosen, groups = ["", *sorted(ids)], TombstoneRows()
    for start in range(0, len(chosen), _CHUNK):
        part = chosen[start : start + _CHUNK]
        wanted = f"WHERE {{}} IN ({marks(part)})"
        groups = TombstoneRows(
            groups.forgettings + rows_of(tx, "forgetting", wanted.format("id"), part),
            groups.events + rows_of(tx, "forgotten", wanted.format("request"), part),
            groups.words + rows_of(tx, "forgotten_words", wanted.format("request"), part),
            groups.names + rows_of(tx, "forgotten_name", wanted.format("request"), part),
        )
    return groups


def insert_rows(tx: Transaction, rows: TombstoneRows) -> None:
    """Add tombstones that are not there yet."""
    groups = (rows.forgettings, rows.events, rows.words, rows.names)
    for (table, columns), group in zip(_TABLES.items(), groups, strict=True):
        tx.insert(f"{table} ({columns})", group, known="ON CONFLICT DO NOTHING")


def lift(tx: Transaction, name: str) -> bool:
    """Let what one run of `forget` refuses come in again; return whether there is such a run."""
    is_there = bool(tx.fetch("SELECT 1 FROM forgetting WHERE id = ?", (name,)))
    tx.run("DELETE FROM forgetting WHERE id = ?", (name,))
    for table in ("forgotten", "forgotten_words", "forgotten_name"):
        tx.run(f"DELETE FROM {table} WHERE request = ?", (name,))
    return is_there
