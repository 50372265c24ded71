"""The body of a push: received, unpacked and parsed within bounds, however little of it is sent.

A few bytes of gzip unpack to thousands of times as many, and a byte of JSON parses to fifty of memory. So each step has
a limit of its own, and what breaks one is refused before more is made of it.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.requests import Request

from mcp_memory.clients.jsonl import event_of_line
from mcp_memory.clients.lines import UnreadableLine
from mcp_memory.domain.events import Captured
from mcp_memory.domain.text import one_line
from mcp_memory.errors import UPDATE, TooLarge, TooMany, UsageError

#: What a push is written in.
FORMAT = 1
#: Bytes of a body as it is sent, as it is unpacked, and of one of its lines. A laptop sends far less at once.
MAX_SENT_BYTES, MAX_UNPACKED_BYTES, MAX_LINE_BYTES = 16_000_000, 16_000_000, 2_000_000
#: How many times as long an unpacked body may be; a short one may be of any ratio.
MAX_RATIO, RATIO_FREE_BYTES = 100, 1_000_000
MAX_LINES = 5_000
#: Metadata of one event, as JSON, and the values in it; and the values in a whole push.
MAX_METADATA_BYTES, MAX_METADATA_VALUES, MAX_PUSH_VALUES = 65_536, 2_000, 200_000
#: Names become keys of an index, whose rows have at most 2,700 bytes.
MAX_NAME_CHARS, MAX_SOURCE_IDS = 500, 2_000
#: A member's requests that wait for the one under way.
MAX_WAITING = 4
#: No event is from before this time, and none from so long after now: each quarter of the calendar is a table.
_EARLIEST_MS, _AHEAD_MS = 0, 2 * 24 * 3_600_000
_NOTES = "notes:"
_ID_CHARS, _REASON_CHARS = 40, 200
#: Metadata that is compared with what other sources say of the same event.
_TEXTS = ("via",)
_EVENT_ID = re.compile(rb'"event_id":\s*"([0-9A-Z]{26})"')


@dataclass(slots=True)
class Turns:
    """Lets each member's requests be served one after the other."""

    _locks: dict[str, anyio.Lock] = field(default_factory=dict)
    _members: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Wait until no other request of the member is served; raises if too many wait already."""
        if self._members[name] > MAX_WAITING:
            raise TooMany("Several pushes of yours are under way. Send one after the other.")
        self._members[name] += 1
        try:
            async with self._locks.setdefault(name, anyio.Lock()):
                yield
        finally:
            self._members[name] -= 1
            if not self._members[name]:
                del self._members[name]
                del self._locks[name]


@dataclass(slots=True)
class Portion:
    """The events of a push, and the lines that are refused, by the ids that they bear."""

    captured: list[Captured] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)

    def refuse(self, event_id: str, reason: str) -> None:
        self.refused.append({"event_id": one_line(event_id, _ID_CHARS), "reason": one_line(reason, _REASON_CHARS)})


async def received(request: Request, most: int = MAX_SENT_BYTES) -> bytes:
    """The body as it was sent."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise TooLarge("This is too much at once: send it in smaller portions.")
    return bytes(body)


def is_packed(request: Request) -> bool:
    return request.headers.get("content-encoding") == "gzip"


def unpacked(body: bytes) -> bytes:
    """What gzip packed; raises if it is too much, before more than that is unpacked."""
    most = min(MAX_UNPACKED_BYTES, max(RATIO_FREE_BYTES, MAX_RATIO * len(body)))
    gzip = zlib.decompressobj(31)
    try:
        text = gzip.decompress(body, most + 1)
    except zlib.error:
        raise UsageError("The body is not one whole gzip stream; send it again.") from None
    if len(text) > most:
        raise TooLarge(
            f"Unpacked, a push has at most {MAX_UNPACKED_BYTES:,} bytes and {MAX_RATIO} times what is sent: send it in "
            "smaller portions."
        )
    if not gzip.eof or gzip.unused_data:
        raise UsageError("The body is not one whole gzip stream; send it again.")
    return text


def portion_of(body: bytes, now_ms: int) -> Portion:
    """The events of an unpacked body. A line that is no event of the team's is refused alone."""
    body = body.rstrip(b"\n")
    if body.count(b"\n") > MAX_LINES:
        raise TooLarge(f"A push has at most {MAX_LINES:,} events: send it in smaller portions.")
    head, *lines = body.split(b"\n")
    if object_of(head).get("format") != FORMAT:
        raise UsageError(f"This server reads pushes of format {FORMAT}. Update the older of both: {UPDATE}.")
    portion, values = Portion(), 0
    seen = set[bytes]()
    for line in lines:
        if not line.strip():
            continue
        value: dict[str, Any] = {}
        try:
            if len(line) > MAX_LINE_BYTES:
                raise UnreadableLine(f"it is longer than {MAX_LINE_BYTES:,} bytes")
            value = object_of(line)
            values += _check_size(value)
            if values > MAX_PUSH_VALUES:
                raise TooLarge(
                    f"The metadata of a push has at most {MAX_PUSH_VALUES:,} values: send it in smaller portions."
                )
            captured = _captured(value, now_ms)
        except UnreadableLine as error:
            found = _EVENT_ID.search(line, 0, 4_000)
            known = value.get("event_id") or (found[1].decode() if found else "")
            portion.refuse(str(known), str(error))
            continue
        if captured.key not in seen:
            seen.add(captured.key)
            portion.captured.append(captured)
    return portion


def object_of(text: bytes) -> dict[str, Any]:
    """The object that JSON is; an empty one if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _check_size(value: Mapping[str, Any]) -> int:
    """The number of values in the metadata; raises if a part of an event is larger than the team takes."""
    for name in ("session_id", "project", "remote", "client", "source_id"):
        text = value.get(name)
        if isinstance(text, str) and len(text) > MAX_NAME_CHARS:
            raise UnreadableLine(f"its {name} is longer than {MAX_NAME_CHARS} characters")
    sources = value.get("source_ids")
    if isinstance(sources, list):
        if len(sources) > MAX_SOURCE_IDS or sum(len(str(name)) for name in sources) > MAX_METADATA_BYTES:
            raise UnreadableLine("its source_ids are too many or too long")
        if any(len(str(name)) > MAX_NAME_CHARS for name in sources):
            raise UnreadableLine(f"one of its source_ids is longer than {MAX_NAME_CHARS} characters")
    return _check_metadata(value.get("metadata"))


def _check_metadata(metadata: object) -> int:
    if not isinstance(metadata, dict):
        return 0
    count, level = 0, list[object]([metadata])
    while level:
        inner = level.pop()
        if isinstance(inner, dict | list):
            count += len(inner)
            if count > MAX_METADATA_VALUES:
                raise UnreadableLine(f"its metadata has more than {MAX_METADATA_VALUES:,} values")
            level += inner.values() if isinstance(inner, dict) else inner
    if len(json.dumps(metadata, ensure_ascii=False).encode("utf-8", "replace")) > MAX_METADATA_BYTES:
        raise UnreadableLine(f"its metadata is longer than {MAX_METADATA_BYTES:,} bytes")
    for name in _TEXTS:
        if not isinstance(metadata.get(name, ""), str):
            raise UnreadableLine(f"{name} in its metadata is not a string")
    return count


def _captured(value: Mapping[str, Any], now_ms: int) -> Captured:
    """One line as an event; raises why the team does not take it."""
    found = event_of_line(value)
    if not found.key:
        raise UnreadableLine("its event_id, client and timestamp do not fit together")
    if found.was_note or found.session_id.startswith(_NOTES):
        raise UnreadableLine("notes are their author's own")
    if not _EARLIEST_MS <= found.timestamp_ms <= now_ms + _AHEAD_MS:
        raise UnreadableLine("its timestamp is from before 1970 or from the future: is the laptop's clock right?")
    if not (found.project or found.remote):
        raise UnreadableLine("it names no project")
    return found
