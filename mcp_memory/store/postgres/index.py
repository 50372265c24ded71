"""The index in PostgreSQL: which events hold which words, by a GIN index over our own words.

Matching is its part; it offers a pool in the order of idf times the weight of the text, and our own ranking goes on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_memory.domain.terms import DEEPEST, IndexEntry, IndexState, Pool, Term, Within, index_words, scannable
from mcp_memory.domain.toc import Level
from mcp_memory.store.sql.database import Reads, SqlConnection
from mcp_memory.store.sql.pool import (
    CHUNK,
    conditions,
    few_of_each,
    is_flooded,
    load,
    messages_of,
    starts_of,
    with_neighbours,
)

#: A term is counted up to here.
COUNTED = 2_000
_COUNT = "(SELECT count(*) FROM (SELECT 1 FROM search WHERE terms @@ ?::tsquery {spoken} LIMIT ?) counted)"
_DEPTH = 5


def query_of(term: Term) -> str:
    """A term as a tsquery: any of its phrases, of each all words."""
    return " | ".join(
        "(" + " & ".join(_lexeme(word, term.prefix and index == 0) for word in words) + ")"
        for index, phrase in enumerate(term.phrases)
        if (words := index_words(" ".join(phrase)))
    )


def _lexeme(word: str, prefix: bool = False) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'" + ":*" * prefix


@dataclass(frozen=True)
class PostgresIndex:
    """Implements the SearchIndex and IndexKeeper ports. It is always in step."""

    database: Reads

    async def search(
        self, terms: Sequence[Term], within: Within, *, kinds: frozenset[str] | None, limit: int
    ) -> list[IndexEntry]:
        def read(connection: SqlConnection) -> list[Any]:
            documents, counts, _ = _frequencies(connection, terms)
            chosen = scannable(terms, counts, documents)
            if not chosen:
                return []
            kept, values = _wanted(within, kinds)
            depth = limit * _DEPTH if within.dated else limit
            return _best(connection, chosen, counts, documents, kept, values, depth)

        return await load(self.database, await self.database.read(read), limit, within, kinds)

    async def pool(self, terms: Sequence[Term], within: Within, *, cited: bool, limit: int) -> Pool:
        def read(connection: SqlConnection) -> Pool:
            documents, counts, spoken = _frequencies(connection, terms)
            chosen = scannable(terms, counts, documents)
            where, values = conditions(connection, within, cited)
            kept = "AND doc % 4 = 0" + (f" AND {_EVENT_KEPT.format(where=where)}" if where else "")
            rows = _best(connection, chosen, counts, documents, kept, values, limit) if chosen else []
            numbers, starts = [doc // 4 for doc, _ in rows], starts_of(terms, counts)
            messages = messages_of(connection, numbers, starts)
            if len(numbers) == limit and is_flooded(messages):
                deep = _best(connection, chosen, counts, documents, kept, values, DEEPEST)
                parts = [[doc // 4 for doc, _ in deep[start : start + CHUNK]] for start in range(0, len(deep), CHUNK)]
                messages = messages_of(connection, few_of_each(connection, parts, limit), starts)
            return with_neighbours(connection, messages, cited, documents, spoken)

        return await self.database.read(read)

    async def known(self, words: Sequence[str]) -> dict[str, int]:
        def read(connection: SqlConnection) -> dict[str, int]:
            found = {}
            for word in words:
                query = " & ".join(map(_lexeme, index_words(word)))
                sql = f"SELECT {_COUNT.format(spoken='')}"
                if query and (count := connection.execute(sql, (query, 30)).fetchone()[0]):
                    found[word] = count
            return found

        return await self.database.read(read)

    def holding(self, name: str, limit: int) -> tuple[str, Mapping[str, object]]:
        words = " & ".join(map(_lexeme, index_words(name))) or "''"
        found = "FROM search WHERE terms @@ :match::tsquery AND tool = 1"
        sql = f"SELECT doc / 4 AS number {found} ORDER BY doc DESC LIMIT :holding"
        return sql, {"match": words, "holding": limit}

    async def behind(self) -> bool:
        return False

    async def catch_up(self) -> int:
        return 0

    async def state(self) -> IndexState:
        return IndexState("postgres", "current")


_EVENT_KEPT = (
    "EXISTS (SELECT 1 FROM event e JOIN session s ON s.id = e.session WHERE e.id = search.doc / 4 AND {where})"
)
_NODE_KEPT = "EXISTS (SELECT 1 FROM node n WHERE n.id = search.doc / 4 AND {where})"


def _frequencies(connection: SqlConnection, terms: Sequence[Term]) -> tuple[int, dict[str, int], dict[str, int]]:
    """How many events there are, and in how many of them each term occurs: at all, and where it was spoken."""
    documents = int(connection.execute("SELECT seq FROM log_place WHERE name = 'event'").fetchone()[0])
    counts, spoken = dict[str, int](), dict[str, int]()
    for term in terms:
        query = query_of(term)
        if not query:
            counts[term.match] = spoken[term.match] = 0
            continue
        sql = f"SELECT {_COUNT.format(spoken='')}, {_COUNT.format(spoken='AND spoken = 1')}"
        all_of, said = connection.execute(sql, (query, COUNTED, query, COUNTED)).fetchone()
        counts[term.match], spoken[term.match] = all_of, said or all_of
    return documents, counts, spoken


def _best(
    connection: SqlConnection,
    chosen: Sequence[Term],
    counts: Mapping[str, int],
    documents: int,
    kept: str,
    values: Sequence[object],
    limit: int,
) -> list[Any]:
    """Numbers and scores of the documents that hold these terms, best first."""
    parts, bound = [], list[object]()
    for term in chosen:
        idf = math.log(1 + max(documents, 1) / max(counts[term.match], 1))
        parts.append(f"SELECT doc, {idf:.4f} * weight AS score FROM search WHERE terms @@ ?::tsquery {kept}")
        bound += [query_of(term), *values]
    sql = f"SELECT doc, sum(score) FROM ({' UNION ALL '.join(parts)}) told GROUP BY doc ORDER BY 2 DESC, 1 DESC LIMIT ?"
    return [(doc, float(score)) for doc, score in connection.execute(sql, (*bound, limit))]


def _wanted(within: Within, kinds: frozenset[str] | None) -> tuple[str, list[object]]:
    """A condition for what is of these kinds, of this project and touches this time."""
    of_project = "{0}.project = (SELECT id FROM project WHERE slug = ?)"
    levels = [int(level) for level in Level if kinds is None or level.label in kinds]
    clauses, values = list[str](), list[object]()
    if kinds is None or "event" in kinds:
        asked = (
            (of_project.format("s"), within.project),
            ("e.timestamp_ms >= ?", within.start_ms),
            ("e.timestamp_ms < ?", within.end_ms),
        )
        held = [(clause, value) for clause, value in asked if value is not None]
        where = " AND ".join(clause for clause, _ in held)
        clauses.append("doc % 4 = 0" + (f" AND {_EVENT_KEPT.format(where=where)}" if where else ""))
        values += [value for _, value in held]
    if levels:
        asked = (
            (of_project.format("n"), within.project),
            ("n.end_ms > ?", within.start_ms),
            ("n.start_ms < ?", within.end_ms),
        )
        held = [(clause, value) for clause, value in asked if value is not None]
        where = " AND ".join([f"n.level IN ({', '.join(map(str, levels))})", *(clause for clause, _ in held)])
        clauses.append(f"(doc % 4 = 2 AND {_NODE_KEPT.format(where=where)})")
        values += [value for _, value in held]
    return f"AND ({' OR '.join(clauses)})", values
