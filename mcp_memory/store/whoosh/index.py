"""The Whoosh index: answers from its files whenever they are in step with the database.

Whatever is asked while they are not is answered by the FTS5 index, which always is. So nothing that was said is ever
missing from an answer, and nothing is lost with these files: they can be thrown away at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
from anyio import to_thread

from mcp_memory.domain.matches import IndexEntry, Pool, Within
from mcp_memory.domain.terms import Term
from mcp_memory.store.port import SearchIndex
from mcp_memory.store.sqlite.candidates import (
    DEEPEST,
    KEPT,
    SCANNED,
    by_number,
    conditions,
    few_of_each,
    is_flooded,
    pool_of,
)
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.sqlite.fts5 import load
from mcp_memory.store.sqlite.log import EVENT
from mcp_memory.store.sqlite.nodes import NODE
from mcp_memory.store.whoosh.finding import Asked, Found
from mcp_memory.store.whoosh.opening import Opened
from mcp_memory.store.whoosh.position import Position, Verdict, belongs, generation, judge, mark_damaged, reached

logger = logging.getLogger(__name__)

_CHUNK = 500
#: With a filter, so many times more of the best are taken before filtering.
_DEPTH = 5
_FITTING = {
    EVENT: (
        "SELECT e.id FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project "
        "WHERE e.id IN ({marks}) AND {where}",
        ("p.slug = ?", "e.timestamp_ms >= ?", "e.timestamp_ms < ?"),
    ),
    NODE: (
        "SELECT n.id FROM node n JOIN project p ON p.id = n.project WHERE n.id IN ({marks}) AND {where}",
        ("p.slug = ?", "n.end_ms >= ?", "n.start_ms < ?"),
    ),
}


class WhooshIndex:
    """Implements the SearchIndex port."""

    def __init__(self, database: Database, folder: Path, otherwise: SearchIndex) -> None:
        self._database = database
        self._folder = folder
        self._otherwise = otherwise
        self._opened = Opened(folder)
        self._verified: Position | None = None
        self._lock = anyio.Lock()

    def close(self) -> None:
        self._opened.close()

    async def search(
        self, terms: Sequence[Term], within: Within, *, kinds: frozenset[str] | None, limit: int
    ) -> list[IndexEntry]:
        wanted = {NODE if kind != "event" else EVENT for kind in kinds} if kinds else {EVENT, NODE}
        found = await self._find(Asked(terms, wanted, SCANNED))
        if found is None:
            return await self._otherwise.search(terms, within, kinds=kinds, limit=limit)
        kept: list[IndexEntry] = []
        for start in range(0, len(found.ranked), _CHUNK):
            part = await self._fitting(found.ranked[start : start + _CHUNK], within)
            kept += await load(self._database, part, limit, within, kinds)
            if len(kept) >= limit:
                break
        return kept[:limit]

    async def pool(self, terms: Sequence[Term], within: Within, *, cited: bool, limit: int, speaker: str = "") -> Pool:
        where, values = await conditions(self._database, Within(within.project), cited)
        asked = Asked(terms, [EVENT], limit * _DEPTH if where else limit, within.start_ms, within.end_ms, True, speaker)
        found = await self._find(asked)
        numbers = await self._kept(found, where, values, limit) if found else []
        if found and len(numbers) < limit and len(found.ranked) == asked.limit:
            # What fits lies deeper; that is seldom, and takes sorting all that was found.
            found = await self._find(replace(asked, limit=SCANNED))
            numbers = await self._kept(found, where, values, limit) if found else []
        if found is None:
            return await self._otherwise.pool(terms, within, cited=cited, limit=limit, speaker=speaker)
        pool = await pool_of(self._database, terms, numbers, cited, found.documents, found.counts)
        if len(numbers) == limit and is_flooded(pool.messages[: pool.matched]):
            deeper = await self._find(replace(asked, limit=DEEPEST)) or found
            numbers = await self._kept(deeper, where, values, DEEPEST)
            numbers = await few_of_each(self._database, numbers, limit)
            pool = await pool_of(self._database, terms, numbers, cited, found.documents, found.counts)
        return pool

    async def _kept(self, found: Found, where: str, values: Sequence[object], limit: int) -> list[int]:
        """The best events that a filter of the database lets pass."""
        ranked = [number // 4 for number, _ in found.ranked]
        if not where:
            return ranked[:limit]
        kept: list[int] = []
        for start in range(0, len(ranked), _CHUNK):
            part = ranked[start : start + _CHUNK]
            fitting = {row[0] for row in await by_number(self._database, KEPT, part, where, values)}
            kept += [number for number in part if number in fitting]
            if len(kept) >= limit:
                break
        return kept[:limit]

    async def _find(self, asked: Asked) -> Found | None:
        """What the files say; nothing if they are not in step with the database, or cannot be read."""
        async with self._lock:
            number = generation(self._folder)
            try:
                await to_thread.run_sync(self._opened.refresh)
                if not await self._is_current():
                    return None
                return await to_thread.run_sync(self._opened.finder.find, asked)
            except Exception as error:  # Whoosh meets broken files with errors of every kind.
                self._opened.close()
                if generation(self._folder) == number:
                    logger.warning("The Whoosh index cannot be read: %s: %s.", type(error).__name__, error)
                    with suppress(OSError):
                        mark_damaged(self._folder)
                return None

    async def _is_current(self) -> bool:
        held, now = self._opened.position, await reached(self._database)
        if held is None or judge(held, now) is not Verdict.CURRENT:
            return False
        if held != self._verified:
            if not await belongs(self._database, held, now):
                return False
            self._verified = held
        return True

    async def _fitting(self, ranked: Sequence[tuple[int, float]], within: Within) -> list[tuple[int, float]]:
        """Those of the project and time. The database knows them, even where sessions have changed projects."""
        if within.everywhere:
            return list(ranked)
        filters = (within.project, within.start_ms, within.end_ms)
        fitting: set[int] = set()
        for kind, (sql, clauses) in _FITTING.items():
            numbers = [number // 4 for number, _ in ranked if number % 4 == kind]
            given = [(clause, value) for clause, value in zip(clauses, filters, strict=True) if value is not None]
            where, values = " AND ".join(clause for clause, _ in given), [value for _, value in given]
            rows = await by_number(self._database, sql, numbers, where, values)
            fitting.update(row[0] * 4 + kind for row in rows)
        return [(number, rank) for number, rank in ranked if number in fitting]
