"""Events that a client has copied into another of its sessions.

A session that is resumed or forked may begin with a copy of what was said before, line by line: under the name of the
new session, with the same names of the lines and the same times. Such an event stays where it was stored first, so that
the order in which files are read decides nothing but which session has it.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mcp_memory.domain.events import Event, EventType, Intake, call_end
from mcp_memory.store.sql.database import Transaction, marks

#: Within this time, the same words of the same role told by hook and transcript are one event.
SAME_WITHIN_MS = 120_000
#: Shorter names of lines are numbers and the like, which every session has.
MIN_NAME_CHARS = 16
#: How much of what a call gave back is compared.
_RESULT_CHARS = 300
_CHUNK = 500
#: The ways in which an event reaches us. An export rewords tool calls: only their first lines are those of the others.
EXPORT = "export"
SOURCES = ("hook", "hook-after", "transcript", EXPORT)
#: Instead of a source: a forgotten call is also known by its first line alone.
CALL = "call"
#: The name of an event's line, as the index on it spells it.
FIRST_SOURCE = "CASE WHEN json_valid(e.source_ids) THEN json_extract(e.source_ids, '$[0]') END"
_STORED = f"""
    SELECT {FIRST_SOURCE}, s.session_id, e.timestamp_ms, e.type, e.role, e.text, e.metadata
    FROM event e INDEXED BY event_source CROSS JOIN session s ON s.id = e.session
    WHERE {FIRST_SOURCE} IN ({{names}}) AND e.timestamp_ms BETWEEN ? AND ?
      AND s.client = ? AND s.author = ?
"""

_CONTINUED = (
    "INSERT INTO continued (client, session_id, origin) SELECT ?, ?, id FROM session "
    "WHERE client = ? AND session_id = ? ON CONFLICT DO NOTHING"
)


class _Original(NamedTuple):
    """What a stored event is compared by."""

    session_id: str
    timestamp_ms: int
    kind: str
    words: tuple[str, bytes]


class _Originals:
    """Finds the session that already has an event, among one client's sessions of one author."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[_Original]] = defaultdict(list)

    def load(self, tx: Transaction, client: str, author: str, events: Sequence[Event]) -> None:
        """Read the stored events that have the name of one of these."""
        names = sorted({name for event in events for name in line_names(event)})
        if not names:
            return
        times = [event.timestamp_ms for event in events]
        rest = (min(times) - SAME_WITHIN_MS, max(times) + SAME_WITHIN_MS, client, author)
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            for name, *row in tx.fetch(_STORED.format(names=marks(part)), (*part, *rest)):
                session_id, timestamp_ms, kind, role, text, metadata = row
                facts = json.loads(metadata) if kind == EventType.TOOL_RESULT else {}
                self._add(name, _Original(session_id, timestamp_ms, kind, essence(kind, role, text, facts)))

    def add(self, event: Event) -> None:
        """Know an event that is about to be stored."""
        words = essence(event.event_type, event.role, event.text, event.metadata)
        for name in line_names(event)[:1]:
            self._add(name, _Original(event.session_id, event.timestamp_ms, event.event_type, words))

    def owner(self, event: Event) -> str | None:
        """The name of the other session that has this event; None if there is none."""
        candidates = [original for name in line_names(event) for original in self._by_name.get(name, ())]
        if not candidates:
            return None
        said = (event.event_type, essence(event.event_type, event.role, event.text, event.metadata))
        owners = [
            original.session_id
            for original in candidates
            if (original.kind, original.words) == said
            and abs(original.timestamp_ms - event.timestamp_ms) <= SAME_WITHIN_MS
        ]
        return owners[0] if owners and event.session_id not in owners else None

    def _add(self, name: str, original: _Original) -> None:
        known = self._by_name[name]
        if original not in known:
            known.append(original)


def lock_names(intakes: Iterable[Intake]) -> Iterator[str]:
    """What is locked so that two sessions do not store copies of one event at once.

    These names sort behind those of sessions, which a caller may have locked already.
    """
    for intake in intakes:
        if any(map(line_names, intake.events)):
            yield f"session-copies {intake.events[0].client} {intake.author}"


class CopyFinder:
    """Parts what is new in a session from what another session has. Remembers what was new."""

    def __init__(self) -> None:
        self._found = defaultdict[tuple[str, str], _Originals](_Originals)
        self._continued = set[tuple[str, str, str]]()

    def load(self, tx: Transaction, intakes: Iterable[Intake], known: Container[bytes]) -> None:
        """Read what is stored of the events, apart from those whose keys are known."""
        events = defaultdict[tuple[str, str], list[Event]](list)
        for intake in intakes:
            for event in intake.events:
                if event.key not in known:
                    events[event.client, intake.author].append(event)
        for (client, author), unknown in events.items():
            self._found[client, author].load(tx, client, author, unknown)

    def without_copies(self, events: Sequence[Event], author: str) -> list[Event]:
        """The events that no other session has. Notes which sessions have the others."""
        own = []
        for event in events:
            owner = self._found[event.client, author].owner(event)
            if owner is None:
                own.append(event)
            else:
                self._continued.add((event.client, event.session_id, owner))
        return own

    def save(self, tx: Transaction) -> None:
        """Keep which sessions go on from which."""
        rows = [(client, name, client, owner) for client, name, owner in sorted(self._continued)]
        tx.run_many(_CONTINUED, rows)

    def add(self, events: Iterable[Event], author: str) -> None:
        """Know events that are about to be stored, and from which session the client says they go on."""
        for event in events:
            self._found[event.client, author].add(event)
            if (origin := event.metadata.get("forked_from", event.session_id)) != event.session_id:
                self._continued.add((event.client, event.session_id, str(origin)))


def fingerprint(kind: str, role: str, text: str) -> tuple[str, bytes]:
    """Two accounts of one compaction never use the same words, so there the time alone decides."""
    if kind == EventType.COMPACTION:
        return kind, b""
    return role, hashlib.blake2b(" ".join(text.split()).encode("utf-8", "replace"), digest_size=16).digest()


def essence(kind: str, role: str, text: str, metadata: Mapping[str, Any]) -> tuple[str, bytes]:
    """What copies of an event have in common.

    The first line of a call names its files as seen from the session's directory, which the copy's need not be. A long
    text is clipped with that line. Earlier versions kept only the first line of a shell script.
    """
    if kind == EventType.TOOL_RESULT:
        tool, result = text.partition("\n")[0].partition(":")[0], text[call_end(text, metadata) + 1 :]
        text = f"{tool}\n{result[:_RESULT_CHARS]}"
    return fingerprint(kind, role, text)


def compared_text(kind: str, text: str, via: str) -> str:
    """Return the part of a text by which an event of that source is recognized as the same."""
    return text.partition("\n")[0] if via in (EXPORT, CALL) and kind == EventType.TOOL_RESULT else text


def line_names(event: Event) -> list[str]:
    """The names under which an event may be stored: that of its line, or the one by which a hook knows its prompt."""
    names = (event.source_id, str(event.metadata.get("prompt_id", "")))
    return [name for name in names if len(name) >= MIN_NAME_CHARS]
