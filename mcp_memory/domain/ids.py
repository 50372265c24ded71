"""ULIDs made from a time and 80 given bits, so that the same source always gets the same id."""

from __future__ import annotations

import hashlib

from mcp_memory.errors import BadId

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {char: value for value, char in enumerate(_ALPHABET)} | {"I": 1, "L": 1, "O": 0}
#: Two characters at a time: ids are made by the dozen for every answer.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = tuple(range(120, -1, -10))
_MAX_MS = (1 << 48) - 1
KEY_BYTES = 10


def ulid(timestamp_ms: int, key: bytes) -> str:
    """The 26 characters of the ULID with this time (clamped to what a ULID can hold) and this random part."""
    number = (min(max(timestamp_ms, 0), _MAX_MS) << 80) | int.from_bytes(key, "big")
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS])


def parse_ulid(text: str) -> tuple[int, bytes]:
    """The time and the random part of a ULID."""
    if len(text) != 26 or not text.isascii() or text[0] > "7":
        raise BadId(f"{text!r} is not a ULID: 26 characters such as 01HN4QXKN6YWXVKZ3JMHP4BCDE are expected.")
    try:
        number = 0
        for char in text.upper():
            number = number << 5 | _VALUES[char]
    except KeyError as error:
        raise BadId(f"{text!r} is not a ULID: it holds the character {error}.") from None
    return number >> 80, (number & ((1 << 80) - 1)).to_bytes(KEY_BYTES, "big")


def opaque(name: str) -> str:
    """A name that tells this one from all others, and says nothing of it."""
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
