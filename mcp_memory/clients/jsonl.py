"""Generic import: one event per JSON line, from any source that can write them. It has no hooks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from mcp_memory.capture.remote import normalized
from mcp_memory.clients.lines import TranscriptReader, UnreadableLine, growing, milliseconds, peek
from mcp_memory.clients.port import BadLine, Reading, TranscriptState
from mcp_memory.domain.events import IMPORT_CLIENT, PIN_ASKED, Captured, EventType, Role, parse_ulid
from mcp_memory.errors import BadId

_NAME: Final = IMPORT_CLIENT
_TYPES = {
    Role.USER: EventType.USER_MESSAGE,
    Role.ASSISTANT: EventType.ASSISTANT_MESSAGE,
    Role.TOOL: EventType.TOOL_RESULT,
    Role.SYSTEM: EventType.ASSISTANT_MESSAGE,
}
#: What `remember` writes to show a note at the start of every session, or to ask the user for that.
_PIN, _PIN_MARKS = "pin", frozenset({"pin", PIN_ASKED})
_SHOWN = 60
#: How a client may be called, as the hook takes it too.
_CLIENT = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-]{0,39}")
#: Deeper than any metadata is meant to be, and far from what a walk through it can bear.
_DEEPEST = 100
_Word = TypeVar("_Word", Role, EventType)


def recognizes(path: Path) -> bool:
    return any({"session_id", "role", "text"} <= value.keys() for value in peek(path))


def read(path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
    return _JsonLines(path, state).read(growing(path, state))


def hook(payload: Mapping[str, Any], received_ms: int) -> Reading:
    return Reading(unknown=True)


class _JsonLines(TranscriptReader):
    def take(self, value: dict[str, Any]) -> list[Captured]:
        return [event_of_line(value)]


def event_of_line(value: Mapping[str, Any]) -> Captured:
    """One line of the generic format as an event.

    A note is what the user wants kept, and a pinned one is read at the start of every session: no file may write one.
    """
    client, key = _exported(value)
    session_id = _text(value, "session_id")
    # Of an export also what only marks the start or the end of something comes back.
    text = _text(value, "text", required=not key)
    role = _choice(value, "role", Role)
    event_type = _choice(value, "event_type", EventType) if value.get("event_type") is not None else _TYPES[role]
    metadata = _metadata(value)
    timestamp = _text(value, "timestamp")
    timestamp_ms = milliseconds(timestamp)
    if timestamp_ms is None:
        raise UnreadableLine(f"timestamp is not RFC 3339: {_shown(timestamp)}")
    source_id = _text(value, "source_id", required=False)
    source_ids: object = value.get("source_ids") if key else [source_id] * bool(source_id)
    if not isinstance(source_ids, list) or not all(isinstance(name, str) for name in source_ids):
        raise UnreadableLine(f"source_ids is not a list of names: {_shown(source_ids)}")
    remote = _text(value, "remote", required=False)
    line = hashlib.blake2b(f"{role}|{timestamp}|{text}".encode("utf-8", "replace"), digest_size=8).hexdigest()
    return Captured(
        client=client,
        session_id=session_id,
        source_key=f"id:{source_id}" if source_id else f"line:{line}",
        timestamp_ms=timestamp_ms,
        event_type=_TYPES[role] if event_type is EventType.NOTE else event_type,
        role=role,
        text=text,
        source_ids=tuple(source_ids),
        metadata={name: item for name, item in metadata.items() if name not in _PIN_MARKS},
        key=key,
        project=_text(value, "project", required=False),
        remote=normalized(remote if "://" in remote else f"https://{remote}") if remote else "",
        was_note=event_type is EventType.NOTE or _PIN in metadata,
    )


def _exported(value: Mapping[str, Any]) -> tuple[str, bytes]:
    """Client and key of an event that comes from an export, so that it is the same event again; else ours and none."""
    client, event_id = value.get("client"), value.get("event_id")
    if isinstance(client, str) and isinstance(event_id, str) and _CLIENT.fullmatch(client):
        try:
            moment, key = parse_ulid(event_id)
        except BadId:
            return _NAME, b""
        told = milliseconds(str(value.get("timestamp")))
        if told is not None and moment == max(told, 0):  # an id holds no time before 1970
            return client, key
    return _NAME, b""


def _text(value: Mapping[str, Any], key: str, *, required: bool = True) -> str:
    text = value.get(key)
    if text is None:
        if required:
            raise UnreadableLine(f"{key} is missing")
        return ""
    if not isinstance(text, str):
        raise UnreadableLine(f"{key} is not a string: {_shown(text)}")
    if required and not text.strip():
        raise UnreadableLine(f"{key} is empty")
    return text


def _choice(value: Mapping[str, Any], key: str, words: type[_Word]) -> _Word:
    word = _text(value, key)
    try:
        return words(word)
    except ValueError:
        raise UnreadableLine(f"{key} must be one of {', '.join(words)}, not {_shown(word)}") from None


def _metadata(value: Mapping[str, Any]) -> dict[str, Any]:
    metadata = value.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise UnreadableLine(f"metadata is not an object: {_shown(metadata)}")
    level: list[object] = [metadata]
    for _ in range(_DEEPEST):
        boxes = [box for box in level if isinstance(box, (dict, list))]
        level = [inner for box in boxes for inner in (box.values() if isinstance(box, dict) else box)]
        if not level:
            return metadata
    raise UnreadableLine("nested too deeply")


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN]
