"""The FTS5 index, which lies in the database and is written in the transactions that write the data."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from mcp_memory.domain.matches import Candidate, Pool, Within
from mcp_memory.domain.terms import Term
from mcp_memory.store.port import IndexState
from mcp_memory.store.sqlite import pooling, searching
from mcp_memory.store.sqlite.database import Reads, Snapshot, told
from mcp_memory.store.sqlite.pooling import Counted


class Fts5Index:
    """Implements the SearchIndex and IndexKeeper ports. It is always in step.

    What is left of another index that was chosen before is no longer kept, and so must not stay: it would still tell
    what is forgotten from now on.
    """

    def __init__(self, database: Reads, leftovers: Path | None = None) -> None:
        self._database = database
        self._counted = Counted() if isinstance(database, Snapshot) else None
        self._leftovers = leftovers

    async def search(
        self, terms: Sequence[Term], within: Within, *, kinds: frozenset[str] | None, limit: int
    ) -> list[Candidate]:
        return await searching.search(self._database, terms, within, kinds, limit)

    async def pool(self, terms: Sequence[Term], within: Within, *, cited: bool, limit: int, speaker: str = "") -> Pool:
        return await pooling.pool(self._database, terms, within, cited, limit, speaker, self._counted)

    async def behind(self) -> bool:
        return self._leftovers is not None and self._leftovers.exists()

    async def catch_up(self) -> int:
        if self._leftovers is not None and self._leftovers.exists():
            with told(self._leftovers / "index"):
                await to_thread.run_sync(shutil.rmtree, self._leftovers)
        return 0

    async def state(self) -> IndexState:
        return IndexState("fts5", "current")
