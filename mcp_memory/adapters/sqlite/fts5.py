"""The FTS5 index, which lies in the database and is written in the transactions that write the data."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_memory.adapters.sqlite import pooling, searching
from mcp_memory.adapters.sqlite.database import Database
from mcp_memory.domain.indexing import Term
from mcp_memory.ports import Candidate, Pool


class Fts5Index:
    """Implements the SearchIndex port."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        return await searching.search(self._database, terms, project, kinds, start_ms, end_ms, limit)

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
        return await pooling.pool(self._database, terms, project, cited, start_ms, end_ms, limit, speaker)
