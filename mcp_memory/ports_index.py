"""The interface of the search index: what the read side asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mcp_memory.domain.indexing import Term
from mcp_memory.domain.offers import Candidate, Pool


class SearchIndex(Protocol):
    """Finds events and nodes by their words. A grip is found by the event it cites.

    An identifier is found however it is written, a word in any regular form and with or without accents, unspaced
    scripts by pairs of characters. What was forgotten, replaced or removed is not found.
    """

    async def search(
        self,
        terms: Sequence[Term],
        *,
        project: str | None,
        kinds: frozenset[str] | None,
        start_ms: int | None,
        end_ms: int | None,
        limit: int,
    ) -> list[Candidate]:
        """The best documents for any of these terms, best first; a filter leaves out what it does not fit."""
        ...

    async def pool(
        self,
        terms: Sequence[Term],
        *,
        project: str | None,
        cited: bool,
        start_ms: int | None,
        end_ms: int | None,
        limit: int,
        speaker: str = "",
    ) -> Pool:
        """The events that are worth ranking for these terms; with `cited`, only those that a grip cites.

        `speaker` is the role whose words are meant, if the question tells: there common terms are sought as well. The
        work is bounded by `limit` and by how often the rarer terms occur, never by the length of history.
        """
        ...
