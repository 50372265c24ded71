"""Tombstones: keyed hashes by which forgotten text is recognized when it comes again.

A plain hash of a short text can be guessed, and is the same in every memory. The key makes it useless to whoever has
only the memory: it is kept apart from it, on the machine.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mcp_memory.domain.matching import comparable
from mcp_memory.domain.text import has_unspaced_script, words

SECRET_BYTES = 32
DIGEST_BYTES = 10
#: In what the length of a forgotten text is counted.
Unit = Literal["words", "characters"]


@dataclass(frozen=True, slots=True)
class TombstoneKey:
    """The secret of one memory's tombstones."""

    secret: bytes

    @classmethod
    def new(cls) -> TombstoneKey:
        return cls(secrets.token_bytes(SECRET_BYTES))

    def digest(self, value: bytes) -> bytes:
        return hmac.digest(self.secret, value, "sha256")[:DIGEST_BYTES]

    def name(self, kind: str, value: str) -> bytes:
        """Return the digest of a name of this kind, such as a session's."""
        return self.digest(f"{kind}\x1f{value}".encode("utf-8", "surrogatepass"))

    def seal(self, value: bytes) -> bytes:
        """Encrypt an event's key, so that only the holder of the secret can tell the team's server what to forget."""
        pad = hmac.digest(self.secret, b"seal\x1f" + self.digest(value), "sha256")
        return bytes(a ^ b for a, b in zip(value, pad, strict=False))

    def unseal(self, digest: bytes, sealed: bytes) -> bytes:
        pad = hmac.digest(self.secret, b"seal\x1f" + digest, "sha256")
        return bytes(a ^ b for a, b in zip(sealed, pad, strict=False))

    @property
    def fingerprint(self) -> str:
        """Return what tells this key from another one without revealing it."""
        return hmac.digest(self.secret, b"fingerprint", "sha256").hex()[:16]


class ForgottenText(NamedTuple):
    """A text given to `forget --match`, known by its digest and its length."""

    unit: Unit
    size: int
    digest: bytes


def forgotten_text(key: TombstoneKey, text: str, *, part: bool) -> ForgottenText:
    """Return the tombstone of a text; a part of words, or a script without blanks, is compared by characters."""
    letters = comparable(text)
    tokens = words(letters)
    if part or not tokens or has_unspaced_script(letters):
        return ForgottenText("characters", len(letters), key.name("characters", letters))
    return ForgottenText("words", len(tokens), key.name("words", " ".join(tokens)))


def digests_in(key: TombstoneKey, text: str, sizes: Iterable[tuple[str, int]]) -> Iterator[bytes]:
    """Yield the digests of all passages of a text that have one of these units and sizes."""
    letters = comparable(text)
    tokens: list[str] | None = None
    for unit, size in sizes:
        if unit == "characters":
            passages = {letters[at : at + size] for at in range(len(letters) - size + 1)}
        else:
            tokens = words(letters) if tokens is None else tokens
            passages = {" ".join(tokens[at : at + size]) for at in range(len(tokens) - size + 1)}
        for passage in passages:
            yield key.name(unit, passage)


@dataclass(frozen=True, slots=True)
class Forgetting:
    """One run of `forget`, as the memory remembers it: without a word of what was forgotten.

    Lines dated before `before_ms` that fall under it are refused, whether they were stored then or not; None where only
    what was stored is refused.
    """

    id: str
    kind: str
    at_ms: int
    events: int
    before_ms: int | None


@dataclass(frozen=True, slots=True)
class Tombstones:
    """How much is refused because it was forgotten. `key_lost`: some tombstones can no longer be compared."""

    events: int = 0
    words: int = 0
    forgettings: tuple[Forgetting, ...] = ()
    key_lost: bool = False


@dataclass(frozen=True, slots=True)
class TombstoneRows:
    """The tombstones themselves, as they are copied between the memory and the machine's own file.

    The rows have the columns of the tables `forgetting`, `forgotten`, `forgotten_words` and `forgotten_name`.
    """

    forgettings: tuple[tuple[str, str, int, int, int | None], ...] = ()
    events: tuple[tuple[bytes, bytes, str], ...] = ()
    words: tuple[tuple[bytes, str], ...] = ()
    names: tuple[tuple[bytes, str, str, int], ...] = ()
