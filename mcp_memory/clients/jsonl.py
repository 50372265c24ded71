"""Generic import: one event per JSON line, from any source that can write them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mcp_memory.clients.lines import Unreadable, files_below, growing, milliseconds, parse, peek
from mcp_memory.clients.port import BadLine, Folders, Hooked, Told, TranscriptState
from mcp_memory.domain.events import Captured, EventType, Role, parse_ulid
from mcp_memory.errors import BadId

_TYPES = {
    Role.USER: EventType.USER_MESSAGE,
    Role.ASSISTANT: EventType.ASSISTANT_MESSAGE,
    Role.TOOL: EventType.TOOL_RESULT,
    Role.SYSTEM: EventType.ASSISTANT_MESSAGE,
}
#: What `remember` writes to show a note at the start of every session.
_PIN = "pin"
_SHOWN = 60
#: How a client may be called, as the hook takes it too.
_CLIENT = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-]{0,39}")
#: Deeper than any metadata is meant to be, and far from what a walk through it can bear.
_DEEPEST = 100
_Word = TypeVar("_Word", Role, EventType)


class GenericJsonl:
    """Understands the generic import format. It has no hooks."""

    name = "jsonl"

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        return Hooked(unknown=True)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        for raw in growing(path, state):
            values, problem = parse(raw)
            for value in values:
                try:
                    yield told_of(value)
                except Unreadable as error:
                    yield BadLine(str(path), state.line + 1, str(error))
            if problem:
                yield BadLine(str(path), state.line + 1, problem)

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        return files_below(places)

    def recognizes(self, path: Path) -> bool:
        return any({"session_id", "role", "text"} <= value.keys() for value in peek(path))

    def default_places(self, home: Folders) -> list[Path]:
        return []


def told_of(value: object) -> Told:
    """One line of the generic format as an event.

    A note is what the user wants kept, and a pinned one is read at the start of every session: no file may write one.
    """
    if not isinstance(value, Mapping):
        raise Unreadable("not a JSON object")
    client, key = _exported(value)
    session_id = _required(value, "session_id")
    # Of an export also what only marks the start or the end of something comes back.
    text = _optional(value, "text") if key else _required(value, "text")
    role = _choice(value, "role", Role)
    event_type = _choice(value, "event_type", EventType) if value.get("event_type") is not None else _TYPES[role]
    metadata = _metadata(value)
    was_note = event_type is EventType.NOTE or _PIN in metadata
    timestamp = _required(value, "timestamp")
    timestamp_ms = milliseconds(timestamp)
    if timestamp_ms is None:
        raise Unreadable(f"timestamp is not RFC 3339: {_shown(timestamp)}")
    source_id = _optional(value, "source_id")
    line = hashlib.blake2b(f"{role}|{timestamp}|{text}".encode("utf-8", "replace"), digest_size=8).hexdigest()
    event = Captured(
        client=client,
        session_id=session_id,
        source_key=f"id:{source_id}" if source_id else f"line:{line}",
        timestamp_ms=timestamp_ms,
        event_type=_TYPES[role] if event_type is EventType.NOTE else event_type,
        role=role,
        text=text,
        source_ids=_source_ids(value) if key else (source_id,) if source_id else (),
        metadata={name: item for name, item in metadata.items() if name != _PIN},
        key=key,
    )
    return Told(event, project=_optional(value, "project"), was_note=was_note)


def _exported(value: Mapping[str, Any]) -> tuple[str, bytes]:
    """Client and key of an event that comes from an export, so that it is the same event again; else ours and none."""
    client, event_id = value.get("client"), value.get("event_id")
    if isinstance(client, str) and isinstance(event_id, str) and _CLIENT.fullmatch(client):
        try:
            moment, key = parse_ulid(event_id)
        except BadId:
            return GenericJsonl.name, b""
        told = milliseconds(str(value.get("timestamp")))
        if told is not None and moment == max(told, 0):  # an id holds no time before 1970
            return client, key
    return GenericJsonl.name, b""


def _source_ids(value: Mapping[str, Any]) -> tuple[str, ...]:
    names = value.get("source_ids")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Unreadable(f"source_ids is not a list of names: {_shown(names)}")
    return tuple(names)


def _required(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    if text is None:
        raise Unreadable(f"{key} is missing")
    if not isinstance(text, str):
        raise Unreadable(f"{key} is not a string: {_shown(text)}")
    if not text.strip():
        raise Unreadable(f"{key} is empty")
    return text


def _optional(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    if text is not None and not isinstance(text, str):
        raise Unreadable(f"{key} is not a string: {_shown(text)}")
    return text or ""


def _choice(value: Mapping[str, Any], key: str, words: type[_Word]) -> _Word:
    word = _required(value, key)
    try:
        return words(word)
    except ValueError:
        raise Unreadable(f"{key} must be one of {', '.join(words)}, not {_shown(word)}") from None


def _metadata(value: Mapping[str, Any]) -> dict[str, Any]:
    metadata = value.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise Unreadable(f"metadata is not an object: {_shown(metadata)}")
    if _is_deep(metadata):
        raise Unreadable("nested too deeply")
    return metadata


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _parts(outer)]
        if not level:
            return False
    return True


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN]
