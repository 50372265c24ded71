"""The FTS5 index, which lies in the database and is written in the transactions that write the data.

For ranking it counts how often each term occurs and offers the best events for the rarer ones; their neighbours are
read by key. In a long history the commonest words only rank: they find little that rarer ones do not, but cost a scan
of half the history.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from anyio import to_thread

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import grip_id
from mcp_memory.domain.terms import (
    DEEPEST,
    SCANNED,
    SHARE,
    SPOKEN,
    WEIGHTS,
    IndexEntry,
    IndexState,
    Message,
    Pool,
    Ranked,
    Term,
    Within,
    match_expression,
    scannable,
)
from mcp_memory.domain.text import beginning
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.store.sqlite.database import Reads, Row, marks, told
from mcp_memory.store.sqlite.log import EVENT, OPENED, PLACED, event_of
from mcp_memory.store.sqlite.nodes import NODE, NODE_COLUMNS, NODE_TABLES, nodes_of

#: A term is counted up to here; what is more frequent is estimated from where the counting stopped.
COUNTED = 2_000
#: What stands beside the best third is read as well, and beside so many at least.
BESIDE = 20
#: Of an endless text so much is weighed, and of what a tool said even less: its beginning, and as much around each of
#: the rarest words that stand further on.
LONGEST, BEGINNING, AROUND = 6_000, 3_000, 600
LONGEST_TOOL, BEGINNING_TOOL = 4_000, 1_000
#: What lies beyond is found by the index but not weighed.
ENDLESS = 100_000
_CHUNK, _STEPS = 500, 20
#: Where so large a share of what was offered is said over and over, only so many of each are taken.
_REPEATED, _OF_EACH = 0.5, 2
#: What is said again with other figures, such as how long something took, is the same; this much of it is compared.
_NO_FIGURES, _END, _COMPARED, _BEGIN = str.maketrans("", "", "0123456789"), 80, 64, 24
_ENDS = f"SELECT e.id, substr(e.text, 1, {_END}), substr(e.text, -{_END}) FROM event e WHERE e.id IN ({{marks}})"

_COUNT = "SELECT ?, count(*), max(rowid) FROM (SELECT rowid FROM search WHERE search MATCH ? LIMIT ?)"
_BEST = "SELECT rowid / 4 FROM search WHERE search MATCH ? AND rowid % 4 = 0 {kept} ORDER BY {order} LIMIT ?"
#: The same order told in two ways: SQLite keeps no more than the best rows and sorts them, which is faster than sorting
#: all; or the index hands over its rows best first, so that a filter sees no more of them than are needed.
_SORTED, _HANDED = f"bm25(search, {', '.join(map(str, WEIGHTS.values()))})", "rank"
_KEPT = "EXISTS (SELECT 1 FROM event e JOIN session s ON s.id = e.session WHERE e.id = search.rowid / 4 AND {where})"
#: Where little was said in a project or time, its events are looked up first, and no others are ranked.
_AMONG = "AND +rowid IN (SELECT e.id * 4 FROM event e JOIN session s ON s.id = e.session WHERE {where})"
_LITTLE = 20_000
_SAID = "SELECT count(*) FROM (SELECT 1 FROM event e JOIN session s ON s.id = e.session WHERE {where} LIMIT ?)"
_MESSAGES = (
    "SELECT e.id, e.session, e.timestamp_ms, e.role, "
    f"substr(e.text, 1, {ENDLESS}), {OPENED} "
    "FROM event e WHERE e.id IN ({marks})"
)
_FITTING = "SELECT e.id FROM event e JOIN session s ON s.id = e.session WHERE e.id IN ({marks}) AND {where}"
#: The plus keeps SQLite from looking among all live grips for the few of an event.
_CITED = "EXISTS (SELECT 1 FROM grip g WHERE g.event = e.id AND +g.live = 1)"
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
_RANKED = "SELECT rowid, rank FROM search WHERE search MATCH ? {kept} ORDER BY rank LIMIT ?"
_NODE_KEPT = "EXISTS (SELECT 1 FROM node n WHERE n.id = search.rowid / 4 AND {where})"
_EVENTS = PLACED + " WHERE e.id IN ({marks})"
_GRIPS_OF = "SELECT event, key, timestamp_ms FROM grip WHERE event IN ({marks}) AND +live = 1 ORDER BY id"
_NODES = f"SELECT {NODE_COLUMNS}, n.id FROM {NODE_TABLES} WHERE n.id IN ({{marks}})"
_DEPTH = 5
_PERIODS = frozenset(level.label for level in Level if level is not Level.SEGMENT)


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
            where, values = _conditions(connection, within, cited)
            said = _said(connection, within)
            kept = f"AND {_KEPT.format(where=where)}" if where else ""
            latest = "" if within.dated else _latest([counts[each.match] for each in chosen], documents)
            handed = _BEST.format(kept=f"{kept} {latest}", order=_HANDED)
            best = handed if where else _BEST.format(kept=latest, order=_SORTED)
            if where and said <= _LITTLE:
                best, latest = _BEST.format(kept=_AMONG.format(where=where), order=_SORTED), ""
            rows = connection.execute(best, (match, *values, limit)).fetchall() if match and said else []
            if where and latest and len(rows) < limit:
                # Too little of the latest is of this project.
                rows = connection.execute(_BEST.format(kept=kept, order=_HANDED), (match, *values, limit)).fetchall()
            numbers, starts = [number for (number,) in rows], _starts(terms, counts)
            messages = _messages(connection, numbers, starts)
            if len(numbers) == limit and is_flooded(messages):
                deep = connection.execute(handed, (match, *values, DEEPEST))
                parts = iter(lambda: [number for (number,) in deep.fetchmany(_CHUNK)], [])
                messages = _messages(connection, _few_of_each(connection, parts, limit), starts)
            return _with_neighbours(connection, messages, cited, documents, counted.spoken(terms))

        return await self.database.read(read)

    async def behind(self) -> bool:
        return self.leftovers is not None and self.leftovers.exists()

    async def catch_up(self) -> int:
        if self.leftovers is not None and self.leftovers.exists():
            with told(self.leftovers / "index"):
                await to_thread.run_sync(shutil.rmtree, self.leftovers)
        return 0

    async def state(self) -> IndexState:
        return IndexState("fts5", "current")


async def load(
    database: Reads, ranked: Sequence[Row], limit: int, within: Within, kinds: frozenset[str] | None
) -> list[IndexEntry]:
    """Read the documents in portions, best first, until there are enough that pass."""
    kept: list[IndexEntry] = []
    for start in range(0, len(ranked), limit):
        part = [rowid for rowid, _ in ranked[start : start + limit]]
        ids = {kind: [rowid // 4 for rowid in part if rowid % 4 == kind] for kind in (EVENT, NODE)}
        found: dict[int, IndexEntry] = {}
        for row in await _fetch(database, _EVENTS, ids[EVENT]):
            number, entry = _event(row)
            found[number * 4 + EVENT] = entry
        rows = await _fetch(database, _NODES, ids[NODE])
        for (*_, number), node in zip(rows, await nodes_of(database, rows), strict=True):
            found[number * 4 + NODE] = IndexEntry(node)
        kept += [found[rowid] for rowid in part if rowid in found and _fits(found[rowid], within, kinds)]
        if len(kept) >= limit:
            break
    return kept[:limit]


def _fits(entry: IndexEntry, within: Within, kinds: frozenset[str] | None) -> bool:
    """A passage or segment must touch the time, a period must lie within it: a week says little of one day."""
    if (within.project and entry.project != within.project) or (kinds and entry.kind not in kinds):
        return False
    found, start_ms, end_ms = entry.document, within.start_ms, within.end_ms
    if isinstance(found, Event):
        first, last = found.timestamp_ms, found.timestamp_ms + 1
    else:
        first, last = found.start_ms, found.end_ms
    if entry.kind in _PERIODS:
        return (start_ms is None or first >= start_ms) and (end_ms is None or last <= end_ms)
    return (end_ms is None or first < end_ms) and (start_ms is None or last > start_ms)


async def _fetch(database: Reads, sql: str, ids: Sequence[int]) -> list[Row]:
    return await database.fetch(sql.format(marks=marks(ids)), ids) if ids else []


def _event(row: Row) -> tuple[int, IndexEntry]:
    """The number and the entry of a row of `_EVENTS`."""
    *_, number, segment, _ = row
    segment_id = NodeRef(Level.SEGMENT, segment).node_id() if segment else ""
    return number, IndexEntry(event_of(row), segment_id=segment_id)


def events(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, IndexEntry]:
    """Events by number, each with its segment and the first grip that cites it."""
    cited: dict[int, str] = {}
    for number, key, timestamp_ms in connection.execute(_GRIPS_OF.format(marks=marks(numbers)), numbers):
        cited.setdefault(number, grip_id(timestamp_ms, key))
    found = dict(map(_event, connection.execute(_EVENTS.format(marks=marks(numbers)), numbers)))
    return {number: replace(entry, grip_id=cited.get(number, "")) for number, entry in found.items()}


def is_silent(connection: sqlite3.Connection, within: Within) -> bool:
    """Whether nothing was said there."""
    return not _said(connection, within)


def pool_of(
    connection: sqlite3.Connection, terms: Sequence[Term], found: Ranked, within: Within, cited: bool, limit: int
) -> Pool:
    """What `Fts5Index.pool` offers, of events that another index found in the time that is asked for."""
    where, values = _conditions(connection, Within(within.project), cited)

    def fitting() -> Iterator[list[int]]:
        for start in range(0, len(found.numbers), _CHUNK):
            part = found.numbers[start : start + _CHUNK]
            fit = {row[0] for row in _by_number(connection, _FITTING, part, where, values)} if where else {*part}
            yield [number for number in part if number in fit]

    kept, parts, starts = list[int](), fitting(), _starts(terms, found.counts)
    while len(kept) < limit and (part := next(parts, None)) is not None:
        kept += part
    messages = _messages(connection, kept[:limit], starts)
    if len(kept) >= limit and is_flooded(messages):
        messages = _messages(connection, _few_of_each(connection, chain([kept], parts), limit), starts)
    return _with_neighbours(connection, messages, cited, found.documents, found.counts)


def _with_neighbours(
    connection: sqlite3.Connection, messages: list[Message], cited: bool, documents: int, counts: dict[str, int]
) -> Pool:
    spoken = [message.number for message in messages if message.role in SPOKEN]
    beside = {
        number: tuple(int(each) for side in (before, after) if side for each in side.split(","))
        for number, before, after in _by_number(connection, _BESIDE, spoken[: max(BESIDE, len(messages) // 3)])
    }
    known = {message.number for message in messages}
    others = dict.fromkeys(number for numbers in beside.values() for number in numbers if number not in known)
    around = [] if cited else _messages(connection, list(others))
    return Pool((*messages, *around), len(messages), beside, counts, documents)


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
    for start in range(0, len(new), _CHUNK // 2):
        part = new[start : start + _CHUNK // 2]
        values = [value for match in part for value in (match, match, COUNTED)]
        for match, count, reached in connection.execute(" UNION ALL ".join([_COUNT] * len(part)), values):
            share = (known.documents * 4) / max(reached, 1) if count == COUNTED else 1.0
            known.of[match] = round(count * max(share, 1.0))
    return known.documents, {term.match: known.of[term.match] for term in terms}


def _conditions(connection: sqlite3.Connection, within: Within, cited: bool) -> tuple[str, list[object]]:
    clauses, values = [], list[object]()
    if within.project is not None:
        rows = connection.execute("SELECT id, slug FROM project LIMIT 2").fetchall()
        # A memory of one project needs no filter; that is how most are used.
        if len(rows) != 1 or rows[0][1] != within.project:
            clauses.append("s.project = (SELECT id FROM project WHERE slug = ?)")
            values.append(within.project)
    for clause, value in (("e.timestamp_ms >= ?", within.start_ms), ("e.timestamp_ms < ?", within.end_ms)):
        if value is not None:
            clauses.append(clause)
            values.append(value)
    if cited:
        clauses.append(_CITED)
    return " AND ".join(clauses), values


def _latest(counts: Sequence[int], documents: int) -> str:
    """A condition by which of a word that stands nearly everywhere only the latest events are ranked: with no rarer
    word beside it, none of them tells more than another."""
    if len(counts) != 1 or counts[0] <= max(SCANNED, documents // SHARE):
        return ""
    return f"AND rowid >= {round(documents * 4 * (1 - SCANNED / counts[0]))}"


def _said(connection: sqlite3.Connection, within: Within) -> int:
    """How many events there are in a project and time, counted no further than to tell whether they are few."""
    where, values = _conditions(connection, within, cited=False)
    if not where:
        return _LITTLE + 1
    return int(connection.execute(_SAID.format(where=where), (*values, _LITTLE + 1)).fetchone()[0])


def _wanted(connection: sqlite3.Connection, within: Within, kinds: frozenset[str] | None) -> tuple[str, list[object]]:
    """A condition for what is of these kinds, of this project and touches this time."""
    levels = [int(level) for level in Level if kinds is None or level.label in kinds]
    where, values = _conditions(connection, within, cited=False)
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


def is_flooded(messages: Sequence[Message]) -> bool:
    """Whether much of what was offered is said over and over, so that other words may not have been offered at all."""
    least = (1 - _REPEATED) * len(messages)
    # Most texts are told apart by how they begin.
    if len({message.text[:_BEGIN].translate(_NO_FIGURES) for message in messages}) >= least:
        return False
    return len({_gist(message.text[:_END], message.text[-_END:]) for message in messages}) < least


def _gist(head: str, tail: str) -> str:
    """What two texts have in common that say the same; short ones must be equal."""
    if len(head) < _END:
        return head
    return head.translate(_NO_FIGURES)[:_COMPARED] + tail.translate(_NO_FIGURES)[-_COMPARED:]


def _few_of_each(connection: sqlite3.Connection, parts: Iterable[Sequence[int]], limit: int) -> list[int]:
    seen: dict[str, int] = {}
    chosen, others = list[int](), list[int]()
    for part in parts:
        gists = {number: _gist(head, tail) for number, head, tail in _by_number(connection, _ENDS, part)}
        for number in part:
            often = seen[gists[number]] = seen.get(gists[number], 0) + 1
            (chosen if often <= _OF_EACH else others).append(number)
        if len(chosen) >= limit:
            break
    return [*chosen, *others][:limit]


def _messages(connection: sqlite3.Connection, numbers: Sequence[int], starts: Sequence[str] = ()) -> list[Message]:
    found: dict[int, Message] = {}
    for row in _by_number(connection, _MESSAGES, numbers):
        *said, turn = row
        message = Message(*said)._replace(turn=turn or 0)
        most, begin = (LONGEST_TOOL, BEGINNING_TOOL) if message.role == "tool" else (LONGEST, BEGINNING)
        if len(message.text) > most:
            message = message._replace(text=_told_of(message.text, starts, most, begin))
        found[message.number] = message
    return [found[number] for number in numbers if number in found]


def _starts(terms: Sequence[Term], counts: dict[str, int]) -> list[str]:
    """What the words sought begin with, the rarest first."""
    rarest = sorted((term for term in terms if counts[term.match]), key=lambda term: counts[term.match])
    return [beginning(term.words[0]) for term in rarest]


def _told_of(text: str, starts: Sequence[str], most: int, beginning: int) -> str:
    """The beginning of an endless text, and what stands around the words sought further on."""
    low, parts = text.lower(), [(0, beginning)]
    if not any(low.find(start, most) >= 0 for start in starts):
        return text[:most]
    for start in starts:
        place = low.find(start, beginning)
        inside = any(begin <= place < end for begin, end in parts)
        if place >= 0 and not inside and beginning + len(parts) * AROUND <= most:
            parts.append((max(place - AROUND // 2, beginning), place + AROUND // 2))
    return "\n…\n".join(text[begin:end] for begin, end in sorted(parts))


def _by_number(
    connection: sqlite3.Connection, sql: str, numbers: Sequence[int], where: str = "", values: Sequence[object] = ()
) -> list[Row]:
    rows: list[Row] = []
    for start in range(0, len(numbers), _CHUNK):
        part = numbers[start : start + _CHUNK]
        # Some are named twice, so that a few statements do for any number of them and need not be prepared anew.
        part = [*part, *[part[-1]] * (-len(part) % _STEPS)]
        rows += connection.execute(sql.format(marks=marks(part), where=where), (*part, *values))
    return rows
