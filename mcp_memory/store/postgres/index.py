"""The index in PostgreSQL: which events hold which words, by a GIN index over our own words.

Matching is its part. It offers a pool in the order of how rare the words are and how much they weigh in each text, in a
small memory by BM25, and our own ranking goes on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mcp_memory.domain.inventory import IndexState
from mcp_memory.domain.terms import (
    DEEPEST,
    SCANNED,
    IndexEntry,
    Pool,
    Standing,
    Term,
    Within,
    scannable,
)
from mcp_memory.domain.toc import Level
from mcp_memory.domain.unicode61 import index_words
from mcp_memory.store.postgres import reindexing
from mcp_memory.store.postgres.frequencies import Frequencies, bring_on, frequencies, is_behind
from mcp_memory.store.postgres.matching import (
    EVENT_LEVEL,
    Narrowed,
    Visible,
    matched,
    narrowed,
    phrases_of,
    stands_in_a_row,
)
from mcp_memory.store.sql.database import Reads, SqlConnection, SqlDatabase
from mcp_memory.store.sql.pool import (
    CHUNK,
    few_of_each,
    is_flooded,
    load,
    messages_of,
    starts_of,
    with_neighbours,
)

_DEPTH = 5
#: A word is known if it occurs, and counted up to here.
_KNOWN = 30
_FEW = "SELECT {number}, count(*) FROM (SELECT 1 FROM {found} LIMIT {most}) few"
_BEST = "SELECT doc, {idf:.4f} * weight AS score FROM {found}"
_SUMMED = "SELECT doc, sum(score) FROM ({parts}) found GROUP BY doc ORDER BY 2 DESC, 1 DESC LIMIT :most"


@dataclass(frozen=True)
class PostgresIndex:
    """Implements the SearchIndex and IndexKeeper ports. It is always in step; its table of frequencies follows, and so
    does what was indexed by an earlier way of making words."""

    database: Reads
    #: What a reader may see; everything if nothing is said.
    kept: Visible | None = None

    async def search(
        self, terms: Sequence[Term], within: Within, *, kinds: frozenset[str] | None, limit: int
    ) -> list[IndexEntry]:
        levels = [int(level) for level in Level if kinds is None or level.label in kinds]
        levels += [EVENT_LEVEL] if kinds is None or "event" in kinds else []
        kept = narrowed(within, self.kept, f"level IN ({', '.join(map(str, levels))})")

        def read(connection: SqlConnection) -> list[Any]:
            # What only touches the time is left out when it is loaded, where it should lie within.
            depth = limit * _DEPTH if within.dated else limit
            return _best(connection, terms, self._frequencies(connection, terms), kept, depth)

        return await load(self.database, await self.database.read(read) if levels else [], limit, within, kinds)

    async def pool(self, terms: Sequence[Term], within: Within, *, cited: bool, limit: int) -> Pool:
        kept = narrowed(within, self.kept, f"level = {EVENT_LEVEL}", cited=cited)

        def read(connection: SqlConnection) -> Pool:
            told = self._frequencies(connection, terms)
            starts = starts_of(terms, dict(told.counts))
            numbers = [doc // 4 for doc, _ in _best(connection, terms, told, kept, limit)]
            messages = messages_of(connection, numbers, starts)
            if len(numbers) == limit and is_flooded(messages):
                deep = [doc // 4 for doc, _ in _best(connection, terms, told, kept, DEEPEST)]
                parts = [deep[start : start + CHUNK] for start in range(0, len(deep), CHUNK)]
                messages = messages_of(connection, few_of_each(connection, parts, limit), starts)
            return with_neighbours(connection, messages, cited, told.documents, told.spoken)

        return await self.database.read(read)

    def _frequencies(self, connection: SqlConnection, terms: Sequence[Term]) -> Frequencies:
        return frequencies(connection, terms, narrowed(Within(), self.kept))

    async def known(self, words: Sequence[str]) -> dict[str, int]:
        kept = narrowed(Within(), self.kept)
        asked = {word: held for word in words if (held := tuple(index_words(word)))}
        parts, values = list[str](), dict(kept.values)
        for number, held in enumerate(asked.values()):
            values |= matched(f"term{number}", [held])
            found = kept.found(f"term{number}", len(held) > 1, "doc")
            parts.append(_FEW.format(number=number, found=found, most=_KNOWN))
        rows = await self.database.fetch(" UNION ALL ".join(parts), values) if parts else []
        counts: dict[int, int] = dict(rows)
        return {word: count for number, word in enumerate(asked) if (count := counts[number])}

    def holding(self, name: str, limit: int) -> tuple[str, Mapping[str, object]]:
        kept, held = narrowed(Within(), self.kept, "tool = 1"), tuple(index_words(name))
        found = kept.found("match", len(held) > 1, "doc")
        sql = f"SELECT doc / 4 AS number FROM {found} ORDER BY doc DESC LIMIT :holding"
        return sql, {**kept.values, **matched("match", [held] if held else []), "holding": limit}

    async def behind(self) -> bool:
        return await self.database.read(lambda connection: reindexing.is_due(connection) or is_behind(connection))

    async def catch_up(self) -> int:
        if not isinstance(self.database, SqlDatabase):
            return 0
        if await self.database.read(reindexing.is_due):
            return await self.database.write_alone(reindexing.reindex)
        return await self.database.write(bring_on) if await self.database.read(is_behind) else 0

    async def state(self) -> IndexState:
        due = await self.database.read(reindexing.is_due)
        return IndexState("postgres", Standing.BEHIND.value if due else Standing.CURRENT.value)


def _best(
    connection: SqlConnection, terms: Sequence[Term], told: Frequencies, kept: Narrowed, limit: int
) -> list[tuple[int, float]]:
    """Numbers and scores of the documents that hold the rarer terms, best first."""
    chosen = scannable(terms, told.counts, told.documents)
    if len(chosen) == 1 and (count := told.counts[chosen[0].match]) > SCANNED:
        # Of a word that stands nearly everywhere none tells more than another: the latest do.
        least = round(told.documents * 4 * (1 - SCANNED / count))
        kept = replace(kept, where=f"{kept.where} AND doc >= {least}")
    parts, values = list[str](), dict(kept.values)
    for number, term in enumerate(chosen):
        phrases = phrases_of(term)
        values |= matched(f"term{number}", phrases, term.prefix)
        idf = math.log(1 + max(told.documents, 1) / max(told.counts[term.match], 1))
        found = kept.found(f"term{number}", stands_in_a_row(phrases), "doc, weight")
        parts.append(_BEST.format(idf=idf, found=found))
    if not parts:
        return []
    most = limit if told.places is None else len(told.places.taken)
    rows = connection.execute(
        _SUMMED.format(parts=" UNION ALL ".join(f"({part})" for part in parts)), {**values, "most": most}
    )
    best = [(int(doc), float(score)) for doc, score in rows]
    return best if told.places is None else told.places.weighed(chosen, [doc for doc, _ in best])[:limit]
