"""Grips: from a bullet to the very words. A grip's id follows from what it holds, so making it twice makes one."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from mcp_memory.domain.ids import parse_ulid, ulid
from mcp_memory.domain.steps import SEE_GRIPS
from mcp_memory.errors import BadId

State = Literal["exact", "moved", "gone"]
#: An id may end in a place within its event, such as +1200: words that stand deep in a long text are opened there.
_PLACE = re.compile(r"\+([0-9]{1,9})\s*\Z")
_SHORT = re.compile(r"grip:([0-9A-HJKMNP-TV-Z]{8})", re.I)
#: What was said before 1970, as a wrong clock or an imported diary tells, has a time below zero.
_FORM = re.compile(r"grip:(-?[0-9]{1,15}):([0-9A-Za-z]{26})(?:@([\w.-]+))?", re.I)


@dataclass(frozen=True, slots=True)
class Grip:
    """An excerpt of one event, with the range of events that belong to it."""

    key: bytes
    timestamp_ms: int
    event_key: bytes
    start: int
    end: int
    excerpt: str
    first_event_key: bytes
    last_event_key: bytes

    @property
    def grip_id(self) -> str:
        return grip_id(self.timestamp_ms, self.key)


def grip_id(timestamp_ms: int, key: bytes) -> str:
    return f"grip:{timestamp_ms}:{ulid(timestamp_ms, key)}"


def grip_key(event_key: bytes, start: int, end: int) -> bytes:
    name = event_key + f"{start}:{end}".encode()
    return hashlib.blake2b(name, digest_size=10, person=b"grip").digest()


def event_grip_id(timestamp_ms: int, event_key: bytes) -> str:
    """Every event can be gripped whole, without a bullet: its own key stands in the id."""
    return grip_id(timestamp_ms, event_key)


def short_grip_id(key: bytes) -> str:
    """The beginning of a key, enough to find it again: for long lists, where a whole id costs more than its line."""
    return f"grip:{ulid(0, key)[10:18]}"


def parse_short_grip_id(text: str) -> bytes | None:
    """The first bytes of the key that a short id names; None for anything else."""
    match = _SHORT.fullmatch(_PLACE.sub("", text).strip())
    return parse_ulid(f"0000000000{match[1]}00000000")[1][:5] if match else None


def place_in(text: str) -> int:
    """The place within the event that an id ends with; 0 if it names none."""
    match = _PLACE.search(text)
    return int(match[1]) if match else 0


def parse_grip_id(text: str) -> tuple[int, bytes, str | None]:
    """Time, key and project of a grip id."""
    match = _FORM.fullmatch(_PLACE.sub("", text).strip())
    if not match:
        raise BadId(
            f"{text[:80]!r} is not a grip id. Grip ids look like grip:1705330800000:01HN4QXKN6YWXVKZ3JMHP4BCDE.",
            SEE_GRIPS,
        )
    _, key = parse_ulid(match[2])
    return int(match[1]), key, match[3]


def locate(text: str, excerpt: str, start: int, end: int) -> tuple[State, int, int]:
    """Whether the excerpt still stands where it stood, elsewhere in the text, or nowhere."""
    if text[start:end] == excerpt:
        return "exact", start, end
    found = text.find(excerpt)
    return ("moved", found, found + len(excerpt)) if found >= 0 else ("gone", 0, 0)
