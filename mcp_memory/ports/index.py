"""The interfaces of the search index: what the read side asks of it, and how it is kept in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.matches import Candidate, Pool, Within
from mcp_memory.domain.terms import Term


class SearchIndex(Protocol):
    """Finds events and nodes by their words. A grip is found by the event it cites.

    An identifier is found however it is written, a word in any regular form and with or without accents, unspaced
    scripts by pairs of characters. What was forgotten, replaced or removed is not found.
    """

    async def search(
        self, terms: Sequence[Term], within: Within, *, kinds: frozenset[str] | None, limit: int
    ) -> list[Candidate]:
        """The best documents for any of these terms, best first, of these kinds, of this project and time."""
        ...

    async def pool(self, terms: Sequence[Term], within: Within, *, cited: bool, limit: int, speaker: str = "") -> Pool:
        """The events that are worth ranking for these terms; with `cited`, only those that a grip cites.

        `speaker` is the role whose words are meant, if the question tells: there common terms are sought as well. The
        work is bounded by `limit` and by how often the rarer terms occur, never by the length of history.
        """
        ...


@dataclass(frozen=True, slots=True)
class IndexState:
    """Which index answers, how it stands to the database, and the bytes of its own files, if it has some."""

    kind: str
    state: str
    own_bytes: int = 0


class IndexKeeper(Protocol):
    """Brings an index into step that is not written together with the data.

    It goes by what is in the database, so that doing it twice changes nothing and a crash loses nothing.
    """

    async def behind(self) -> bool:
        """Whether there is anything to bring into step."""
        ...

    async def catch_up(self) -> int:
        """Take a bounded step; returns how much was done, 0 if nothing is left or another process is at it."""
        ...

    async def state(self) -> IndexState: ...
