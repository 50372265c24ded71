"""A snapshot: a place in the append-only log, written so that nobody is tempted to read anything into it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from mcp_memory.domain.steps import TAKE_SNAPSHOT
from mcp_memory.errors import BadId

_FORM = re.compile(r"snap:([0-9a-f]{1,15})\.([0-9a-f]{1,15})\.([0-9a-f]{1,15})\.([0-9a-f]{4})", re.I)


@dataclass(frozen=True, slots=True)
class Position:
    """The latest node version, event and record that belong to a view."""

    versions: int
    events: int
    records: int


def encode(position: Position) -> str:
    return f"snap:{position.versions:x}.{position.events:x}.{position.records:x}.{_check(position)}"


def decode(text: str) -> Position:
    """The place that a snapshot names; one that was guessed or cut is told by its check."""
    match = _FORM.fullmatch(text.strip())
    if match:
        position = Position(*(int(match[number], 16) for number in (1, 2, 3)))
        if match[4].lower() == _check(position):
            return position
    raise BadId(f"{text[:60]!r} is not a snapshot.", TAKE_SNAPSHOT)


def _check(position: Position) -> str:
    name = f"{position.versions}.{position.events}.{position.records}"
    return hashlib.blake2b(name.encode(), digest_size=2, person=b"snapshot").hexdigest()
