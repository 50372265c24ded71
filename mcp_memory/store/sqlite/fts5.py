"""The FTS5 index, which lies in the database and is written in the transactions that write the data.

For ranking it counts how often each term occurs and offers the best events for the rarer ones; their neighbours are
read by key. In a long history the commonest words only rank: they find little that rarer ones do not, but cost a scan
of half the history.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from anyio import to_thread

from mcp_memory.domain.inventory import IndexState
from mcp_memory.domain.terms import (
    DEEPEST,
    LARGE,
    SCANNED,
    SHARE,
    SPOKEN,
    WEIGHTS,
    IndexEntry,
    Pool,
    Ranked,
    Term,
    Within,
    match_expression,
    scannable,
)
from mcp_memory.domain.toc import Level
from mcp_memory.store.sql.database import EVENT, NODE, Reads, Row
from mcp_memory.store.sql.pool import (
    CHUNK,
    LITTLE,
    by_number,
    conditions,
    count_said,
    few_of_each,
    is_flooded,
    load,
    messages_of,
    starts_of,
    with_neighbours,
)
from mcp_memory.store.sqlite.database import told

#: A term is counted up to here; what is more frequent is estimated from where the counting stopped.
COUNTED = 2_000
_COUNT = "SELECT ?, count(*), max(rowid) FROM (SELECT rowid FROM search WHERE search MATCH ? LIMIT ?)"
_BEST = "SELECT rowid / 4 FROM search WHERE search MATCH ? AND rowid % 4 = 0 {kept} ORDER BY {order} LIMIT ?"
#: The same order told in two ways: SQLite keeps no more than the best rows and sorts them, which is faster than sorting
#: all; or the index hands over its rows best first, so that a filter sees no more of them than are needed.
_SORTED, _HANDED = f"bm25(search, {', '.join(map(str, WEIGHTS.values()))})", "rank"
_KEPT = "EXISTS (SELECT 1 FROM event e JOIN session s ON s.id = e.session WHERE e.id = search.rowid / 4 AND {where})"
#: Where little was said in a project or time, its events are looked up first, and no others are ranked.
_AMONG = "AND +rowid IN (SELECT e.id * 4 FROM event e JOIN session s ON s.id = e.session WHERE {where})"
_FITTING = "SELECT e.id FROM event e JOIN session s ON s.id = e.session WHERE e.id IN ({marks}) AND {where}"
_RANKED = "SELECT rowid, rank FROM search WHERE search MATCH ? {kept} ORDER BY rank LIMIT ?"
_NODE_KEPT = "EXISTS (SELECT 1 FROM node n WHERE n.id = search.rowid / 4 AND {where})"
_DEPTH = 5
_KNOWN = """
    SELECT value, (SELECT count(*) FROM (SELECT 1 FROM search WHERE search MATCH '"' || value || '"' LIMIT 30))
    FROM json_each(?)
"""
_HOLDING = "SELECT rowid / 4 AS number FROM search WHERE search MATCH :match ORDER BY rowid DESC LIMIT :holding"


@dataclass(slots=True)
class Counted:
    """In how many documents terms occur, by their expressions, and how many documents there are."""

    documents: int = -1
    of: dict[str, int] = field(default_factory=dict)

    def spoken(self, terms: Sequence[Term]) -> dict[str, int]:
        """In how many messages of users and agents they occur; of those that only tools write, in how many of these."""
        return {term.match: self.of[_spoken(term.match)] or self.of[term.match] for term in terms}


@dataclass(frozen=True)
class Fts5Index:
    """Implements the SearchIndex and IndexKeeper ports. It is always in step.

    What is left of another index that was chosen before is no longer kept, and so must not stay: it would still tell
    what is forgotten from now on.
    """

    database: Reads
    leftovers: Path | None = None
    #: How often terms occur, for further questions about the same state of the database.
    counted: Counted | None = None

    async def search(
        self, terms: Sequence[Term], within: Within, *, kinds: frozenset[str] | None, limit: int
    ) -> list[IndexEntry]:
        """The rows come best first, so that a filter sees no more of them than are needed."""

        def read(connection: sqlite3.Connection) -> list[Row]:
            documents, counts = _frequencies(connection, terms, self.counted or Counted())
            match = match_expression(scannable(terms, counts, documents))
            kept, values = _wanted(connection, within, kinds)
            # What only touches the time is left out when it is loaded, where it should lie within.
            depth = limit * _DEPTH if within.dated else limit
            return connection.execute(_RANKED.format(kept=kept), (match, *values, depth)).fetchall() if match else []

        return await load(self.database, await self.database.read(read), limit, within, kinds)

    async def pool(self, terms: Sequence[Term], within: Within, *, cited: bool, limit: int) -> Pool:
        def read(connection: sqlite3.Connection) -> Pool:
            counted = self.counted or Counted()
            documents, counts = _frequencies(connection, terms, counted)
            chosen = scannable(terms, counts, documents)
            match = match_expression(chosen)
            where, values = conditions(connection, within, cited)
            said = count_said(connection, within)
            kept = f"AND {_KEPT.format(where=where)}" if where else ""
            latest = "" if within.dated else _latest([counts[each.match] for each in chosen], documents)
            handed = _BEST.format(kept=f"{kept} {latest}", order=_HANDED)
            best = handed if where else _BEST.format(kept=latest, order=_SORTED)
            if where and said <= LITTLE:
                best, latest = _BEST.format(kept=_AMONG.format(where=where), order=_SORTED), ""
            rows = connection.execute(best, (match, *values, limit)).fetchall() if match and said else []
            if where and latest and len(rows) < limit:
                # Too little of the latest is of this project.
                rows = connection.execute(_BEST.format(kept=kept, order=_HANDED), (match, *values, limit)).fetchall()
            numbers, starts = [number for (number,) in rows], starts_of(terms, counts)
            messages = messages_of(connection, numbers, starts)
            if len(numbers) == limit and is_flooded(messages):
                deep = connection.execute(handed, (match, *values, DEEPEST))
                parts = iter(lambda: [number for (number,) in deep.fetchmany(CHUNK)], [])
                messages = messages_of(connection, few_of_each(connection, parts, limit), starts)
            return with_neighbours(connection, messages, cited, documents, counted.spoken(terms))

        return await self.database.read(read)

    async def known(self, words: Sequence[str]) -> dict[str, int]:
        rows = await self.database.fetch(_KNOWN, (json.dumps(words),))
        return {word: count for word, count in rows if count}

    def holding(self, name: str, limit: int) -> tuple[str, dict[str, object]]:
        # Half a character stands in no file's name that was captured, and the database takes none. The index falls
        # apart at the same signs as a quoted name. A NUL would end it before its quote.
        sought = name.encode("utf-8", "replace").decode().replace('"', " ").replace("\0", " ")
        return _HOLDING, {"match": f'tool : "{sought}"', "holding": limit}

    async def behind(self) -> bool:
        return self.leftovers is not None and self.leftovers.exists()

    async def catch_up(self) -> int:
        if self.leftovers is not None and self.leftovers.exists():
            with told(self.leftovers / "index"):
                await to_thread.run_sync(shutil.rmtree, self.leftovers)
        return 0

    async def state(self) -> IndexState:
        return IndexState("fts5", "current")


def pool_of(
    connection: sqlite3.Connection, terms: Sequence[Term], found: Ranked, within: Within, cited: bool, limit: int
) -> Pool:
    """What `Fts5Index.pool` offers, of events that another index found in the time that is asked for."""
    where, values = conditions(connection, Within(within.project), cited)

    def fitting() -> Iterator[list[int]]:
        for start in range(0, len(found.numbers), CHUNK):
            part = found.numbers[start : start + CHUNK]
            fit = {row[0] for row in by_number(connection, _FITTING, part, where, values)} if where else {*part}
            yield [number for number in part if number in fit]

    kept, parts, starts = list[int](), fitting(), starts_of(terms, found.counts)
    while len(kept) < limit and (part := next(parts, None)) is not None:
        kept += part
    messages = messages_of(connection, kept[:limit], starts)
    if len(kept) >= limit and is_flooded(messages):
        messages = messages_of(connection, few_of_each(connection, chain([kept], parts), limit), starts)
    return with_neighbours(connection, messages, cited, found.documents, found.counts)


def _spoken(match: str) -> str:
    """What a term is found by in the words of users and agents."""
    return f"{{{' '.join(SPOKEN)}}} : {match}"


def _frequencies(connection: sqlite3.Connection, terms: Sequence[Term], known: Counted) -> tuple[int, dict[str, int]]:
    """In how many documents each term occurs, counting no more than a bounded number of them.

    How rare a word is among what was said is counted as well: code and logs repeat words that are telling there.
    """
    if known.documents < 0:
        (known.documents,) = connection.execute("SELECT coalesce(max(id), 0) FROM event").fetchone()
    new = [each for term in terms for each in (term.match, _spoken(term.match)) if each not in known.of]
    for start in range(0, len(new), CHUNK // 2):
        part = new[start : start + CHUNK // 2]
        values = [value for match in part for value in (match, match, COUNTED)]
        for match, count, reached in connection.execute(" UNION ALL ".join([_COUNT] * len(part)), values):
            share = (known.documents * 4) / max(reached, 1) if count == COUNTED else 1.0
            known.of[match] = round(count * max(share, 1.0))
    return known.documents, {term.match: known.of[term.match] for term in terms}


def _latest(counts: Sequence[int], documents: int) -> str:
    """A condition by which of a word that stands nearly everywhere only the latest events are ranked: with no rarer
    word beside it, none of them tells more than another."""
    if len(counts) != 1 or counts[0] <= max(SCANNED, min(documents, LARGE) // SHARE):
        return ""
    return f"AND rowid >= {round(documents * 4 * (1 - SCANNED / counts[0]))}"


def _wanted(connection: sqlite3.Connection, within: Within, kinds: frozenset[str] | None) -> tuple[str, list[object]]:
    """A condition for what is of these kinds, of this project and touches this time."""
    levels = [int(level) for level in Level if kinds is None or level.label in kinds]
    where, values = conditions(connection, within, cited=False)
    if kinds is None and not where:
        return "", []
    event = f"rowid % 4 = {EVENT} AND {_KEPT.format(where=where)}" if where else f"rowid % 4 = {EVENT}"
    if not levels:
        return f"AND {event}", values
    asked = (
        ("n.project = (SELECT id FROM project WHERE slug = ?)", within.project),
        ("n.end_ms > ?", within.start_ms),
        ("n.start_ms < ?", within.end_ms),
    )
    filters = [(clause, value) for clause, value in asked if value is not None]
    clauses = " AND ".join([f"n.level IN ({', '.join(map(str, levels))})", *(clause for clause, _ in filters)])
    node = f"rowid % 4 = {NODE} AND {_NODE_KEPT.format(where=clauses)}"
    held: list[object] = [value for _, value in filters]
    if kinds is not None and "event" not in kinds:
        return f"AND {node}", held
    return f"AND ({event} OR {node})", [*values, *held]
