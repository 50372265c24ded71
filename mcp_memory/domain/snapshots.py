"""A snapshot: a place in the append-only log, written so that nobody is tempted to read anything into it."""

from __future__ import annotations

import hashlib
from base64 import b32decode, b32encode
from binascii import Error
from dataclasses import dataclass

from mcp_memory.errors import BadId

PREFIX = "snap:"
_WIDTH = 6


@dataclass(frozen=True, slots=True)
class Position:
    """The latest node version, event and record that belong to a view."""

    versions: int
    events: int
    records: int


def encode(position: Position) -> str:
    numbers = (position.versions, position.events, position.records)
    body = b"".join(number.to_bytes(_WIDTH, "big") for number in numbers)
    return PREFIX + b32encode(body + _check(body)).decode().rstrip("=").lower()


def decode(text: str) -> Position:
    """The place that a snapshot names; what is none is told from a real one by its check."""
    name = text.strip().removeprefix(PREFIX).upper()
    try:
        raw = b32decode(name + "=" * (-len(name) % 8))
    except (Error, ValueError):
        raw = b""
    body, check = raw[: 3 * _WIDTH], raw[3 * _WIDTH :]
    if len(body) != 3 * _WIDTH or check != _check(body):
        raise BadId(f"{text[:60]!r} is not a snapshot. Take one with `mcp-memory snapshot` or from build_context.")
    return Position(*(int.from_bytes(body[at : at + _WIDTH], "big") for at in range(0, 3 * _WIDTH, _WIDTH)))


def _check(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=2, person=b"snapshot").digest()
