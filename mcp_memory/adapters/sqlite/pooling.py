"""Teleport's candidates: which events are worth ranking for a question, read in a bounded number of steps.

The index counts how often each term occurs, offers the best events for the rarer ones, and their neighbours are read
by key. Common words find nothing that rarer ones do not, but cost a scan of half the history, so they only rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcp_memory.adapters.sqlite.database import Database, Row
from mcp_memory.adapters.sqlite.events import EVENT
from mcp_memory.domain.indexing import Term, match_expression
from mcp_memory.ports import Pool, Spot

#: A term is counted up to here; what is more frequent is estimated from where the counting stopped.
COUNTED = 2_000
#: How many occurrences of terms one question may scan, beyond its rarest term.
SCANNED = 40_000
#: With a filter, so many times more of the best are taken before filtering, which is cheaper than filtering first.
DEPTH = 5
NEIGHBOURS_OF = 40
#: What lies further on in an endless text is found by the index but not weighed.
LONGEST = 6_000
_CHUNK = 500

_COUNT = "SELECT count(*), max(rowid) FROM (SELECT rowid FROM search WHERE search MATCH ? LIMIT ?)"
_RANKED = "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rank LIMIT ?"
# The plus keeps SQLite from asking the index once for every row that it may hold.
_RANKED_WITHIN = "SELECT rowid FROM search WHERE search MATCH ? AND +rowid IN ({inner}) ORDER BY rank LIMIT ?"
_WITHIN = "SELECT e.id * 4 FROM event e JOIN session s ON s.id = e.session WHERE {where}"
_SPOTS = (
    f"SELECT e.id, e.session, e.timestamp_ms, e.type, e.role, substr(e.text, 1, {LONGEST}) "
    "FROM event e JOIN session s ON s.id = e.session WHERE e.id IN ({marks}) AND {where}"
)
KEPT = "SELECT e.id FROM event e JOIN session s ON s.id = e.session WHERE e.id IN ({marks}) AND {where}"
_CITED = "EXISTS (SELECT 1 FROM grip g WHERE g.event = e.id AND g.live = 1)"
#: Tool results between two messages do not part them, unless there are many.
_STEP = (
    "(SELECT group_concat(id) FROM (SELECT id FROM (SELECT n.id, n.role FROM event n WHERE n.session = e.session "
    "AND (n.timestamp_ms, n.id) {than} (e.timestamp_ms, e.id) ORDER BY n.timestamp_ms {way}, n.id {way} LIMIT 8) "
    "WHERE role IN ('user', 'assistant') LIMIT 2))"
)
_BESIDE = (
    f"SELECT e.id, {_STEP.format(than='<', way='DESC')}, {_STEP.format(than='>', way='ASC')} "
    "FROM event e WHERE e.id IN ({marks})"
)


async def pool(
    database: Database,
    terms: Sequence[Term],
    project: str | None,
    cited: bool,
    start_ms: int | None,
    end_ms: int | None,
    limit: int,
) -> Pool:
    documents, counts = await _frequencies(database, terms)
    match = match_expression(scannable(terms, counts))
    where, values = await conditions(database, project, cited, start_ms, end_ms)
    timed = start_ms is not None or end_ms is not None
    numbers = await _ranked(database, match, where, values, timed, limit) if match else []
    return await pool_of(database, numbers, cited, documents, counts)


async def pool_of(
    database: Database, numbers: Sequence[int], cited: bool, documents: int, counts: dict[str, int]
) -> Pool:
    """The events that an index found, best first, with what stands beside them."""
    spots = await _spots(database, numbers)
    messages = [spot.number for spot in spots if spot.role in ("user", "assistant")]
    beside = await _beside(database, messages[:NEIGHBOURS_OF])
    known = {spot.number for spot in spots}
    others = dict.fromkeys(number for numbers in beside.values() for number in numbers if number not in known)
    around = [] if cited else await _spots(database, list(others))
    return Pool((*spots, *around), len(spots), beside, counts, documents)


async def _frequencies(database: Database, terms: Sequence[Term]) -> tuple[int, dict[str, int]]:
    """In how many documents each term occurs, counting no more than a bounded number of them."""
    last = int(await database.value("SELECT coalesce(max(id), 0) FROM event"))
    if not terms:
        return last, {}
    sql = " UNION ALL ".join([_COUNT.replace("SELECT", "SELECT ?,", 1)] * len(terms))
    values = [value for number, term in enumerate(terms) for value in (number, term.match, COUNTED)]
    counts = {}
    for number, count, reached in await database.fetch(sql, values):
        share = (last * 4) / max(reached, 1) if count == COUNTED else 1.0
        counts[terms[number].match] = round(count * max(share, 1.0))
    return last, counts


def scannable(terms: Sequence[Term], counts: dict[str, int]) -> list[Term]:
    """The rarer terms, as many as may be scanned; always at least the rarest that occurs."""
    chosen: list[Term] = []
    scanned = 0
    for term in sorted(terms, key=lambda term: counts[term.match]):
        count = counts[term.match]
        if count and (not chosen or scanned + count <= SCANNED):
            chosen.append(term)
            scanned += count
    return chosen


async def conditions(
    database: Database, project: str | None, cited: bool, start_ms: int | None, end_ms: int | None
) -> tuple[str, list[object]]:
    clauses, values = [], list[object]()
    if project is not None:
        rows = await database.fetch("SELECT id, slug FROM project LIMIT 2")
        # A memory of one project needs no filter; that is how most are used.
        if len(rows) != 1 or rows[0][1] != project:
            clauses.append("s.project = (SELECT id FROM project WHERE slug = ?)")
            values.append(project)
    for clause, value in (("e.timestamp_ms >= ?", start_ms), ("e.timestamp_ms < ?", end_ms)):
        if value is not None:
            clauses.append(clause)
            values.append(value)
    if cited:
        clauses.append(_CITED)
    return " AND ".join(clauses), values


async def _ranked(
    database: Database, match: str, where: str, values: list[object], timed: bool, limit: int
) -> list[int]:
    """The best events, best first. A time is narrow and filters first; a project is wide and filters the best."""
    within = _RANKED_WITHIN.format(inner=_WITHIN.format(where=where))
    if timed:
        return [row[0] // 4 for row in await database.fetch(within, (match, *values, limit))]
    depth = limit * (DEPTH if where else 1)
    rows = await database.fetch(_RANKED, (match, depth + limit // 4))
    ranked = [row[0] // 4 for row in rows if row[0] % 4 == EVENT]
    if not where:
        return ranked[:limit]
    kept = {row[0] for row in await by_number(database, KEPT, ranked, where, values)}
    found = [number for number in ranked if number in kept][:limit]
    if len(found) < limit and len(rows) >= depth:
        found = [row[0] // 4 for row in await database.fetch(within, (match, *values, limit))]
    return found


async def _spots(database: Database, numbers: Sequence[int]) -> list[Spot]:
    rows = await by_number(database, _SPOTS, numbers, "1", [])
    found = {row[0]: Spot(*row) for row in rows}
    return [found[number] for number in numbers if number in found]


async def _beside(database: Database, numbers: Sequence[int]) -> dict[int, tuple[int, ...]]:
    beside = {}
    for number, before, after in await by_number(database, _BESIDE, numbers, "1", []):
        beside[number] = tuple(int(each) for side in (before, after) if side for each in side.split(","))
    return beside


async def by_number(
    database: Database, sql: str, numbers: Sequence[int], where: str, values: Sequence[object]
) -> list[Row]:
    rows: list[Row] = []
    for start in range(0, len(numbers), _CHUNK):
        part = numbers[start : start + _CHUNK]
        text = sql.format(marks=",".join("?" * len(part)), where=where)
        rows += await database.fetch(text, (*part, *values))
    return rows
