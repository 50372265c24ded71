"""What a search is given to rank: messages with those beside them, loaded by the numbers that an index has found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import grip_id
from mcp_memory.domain.terms import SPOKEN, IndexEntry, Message, Pool, Term, Within
from mcp_memory.domain.text import beginning
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.store.port import SearchIndex
from mcp_memory.store.sql.database import EVENT, NODE, Reads, Row, SqlConnection, marks
from mcp_memory.store.sql.log import OPENED, PLACED, event_of
from mcp_memory.store.sql.nodes import NODE_COLUMNS, NODE_TABLES, nodes_of

#: What stands beside the best third is read as well, and beside so many at least.
BESIDE = 20
#: Of an endless text so much is weighed, and of what a tool said even less: its beginning, and as much around each of
#: the rarest words that stand further on.
LONGEST, BEGINNING, AROUND = 6_000, 3_000, 600
LONGEST_TOOL, BEGINNING_TOOL = 4_000, 1_000
#: What lies beyond is found by the index but not weighed.
ENDLESS = 100_000
CHUNK, _STEPS = 500, 20
#: So few events of a project or time are looked up before anything is ranked.
LITTLE = 20_000
#: Where so large a share of what was offered is said over and over, only so many of each are taken.
_REPEATED, _OF_EACH = 0.5, 2
#: What is said again with other figures, such as how long something took, is the same; this much of it is compared.
_NO_FIGURES, _END, _COMPARED, _BEGIN = str.maketrans("", "", "0123456789"), 80, 64, 24
_ENDS = (
    f"SELECT e.id, substr(e.text, 1, {_END}), substr(e.text, CASE WHEN length(e.text) > {_END} "
    f"THEN length(e.text) - {_END - 1} ELSE 1 END) "
    "FROM event e WHERE e.id IN ({marks})"
)
_SAID = "SELECT count(*) FROM (SELECT 1 FROM event e JOIN session s ON s.id = e.session WHERE {where} LIMIT ?) found"
_MESSAGES = (
    "SELECT e.id, e.session, e.timestamp_ms, e.role, "
    f"substr(e.text, 1, {ENDLESS}), {OPENED} "
    "FROM event e WHERE e.id IN ({marks})"
)
#: The plus keeps SQLite from looking among all live grips for the few of an event.
_CITED = "EXISTS (SELECT 1 FROM grip g WHERE g.event = e.id AND +g.live = 1)"
#: Tool results between two messages do not part them, unless there are many.
_STEP = (
    "(SELECT group_concat(id) FROM (SELECT id FROM (SELECT n.id, n.role FROM event n WHERE n.session = e.session "
    "AND (n.timestamp_ms, n.id) {than} (e.timestamp_ms, e.id) ORDER BY n.timestamp_ms {way}, n.id {way} LIMIT 8) "
    "near WHERE role IN ('user', 'assistant') LIMIT 2) two)"
)
_BESIDE = (
    f"SELECT e.id, {_STEP.format(than='<', way='DESC')}, {_STEP.format(than='>', way='ASC')} "
    "FROM event e WHERE e.id IN ({marks})"
)
_EVENTS = PLACED + " WHERE e.id IN ({marks})"
_GRIPS_OF = "SELECT event, key, timestamp_ms FROM grip WHERE event IN ({marks}) AND +live = 1 ORDER BY id"
_NODES = f"SELECT {NODE_COLUMNS}, n.id FROM {NODE_TABLES} WHERE n.id IN ({{marks}})"
_PERIODS = frozenset(level.label for level in Level if level is not Level.SEGMENT)


class SqlIndex(SearchIndex, Protocol):
    """An index that lies in the database, and so is always in step."""

    async def known(self, words: Sequence[str]) -> dict[str, int]:
        """In how many documents these words occur, counted up to a few; those that occur nowhere are left out."""

    def holding(self, name: str, limit: int) -> tuple[str, Mapping[str, object]]:
        """A query for the latest events in which a tool wrote a file's name, as `number`, and its values."""


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


def events(connection: SqlConnection, numbers: Sequence[int]) -> dict[int, IndexEntry]:
    """Events by number, each with its segment and the first grip that cites it."""
    cited: dict[int, str] = {}
    for number, key, timestamp_ms in connection.execute(_GRIPS_OF.format(marks=marks(numbers)), numbers):
        cited.setdefault(number, grip_id(timestamp_ms, key))
    found = dict(map(_event, connection.execute(_EVENTS.format(marks=marks(numbers)), numbers)))
    return {number: replace(entry, grip_id=cited.get(number, "")) for number, entry in found.items()}


def is_silent(connection: SqlConnection, within: Within) -> bool:
    """Whether nothing was said there."""
    return not count_said(connection, within)


def with_neighbours(
    connection: SqlConnection, messages: list[Message], cited: bool, documents: int, counts: dict[str, int]
) -> Pool:
    spoken = [message.number for message in messages if message.role in SPOKEN]
    beside = {
        number: tuple(int(each) for side in (before, after) if side for each in side.split(","))
        for number, before, after in by_number(connection, _BESIDE, spoken[: max(BESIDE, len(messages) // 3)])
    }
    known = {message.number for message in messages}
    others = dict.fromkeys(number for numbers in beside.values() for number in numbers if number not in known)
    around = [] if cited else messages_of(connection, list(others))
    return Pool((*messages, *around), len(messages), beside, counts, documents)


def conditions(connection: SqlConnection, within: Within, cited: bool) -> tuple[str, list[object]]:
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


def count_said(connection: SqlConnection, within: Within) -> int:
    """How many events there are in a project and time, counted no further than to tell whether they are few."""
    where, values = conditions(connection, within, cited=False)
    if not where:
        return LITTLE + 1
    return int(connection.execute(_SAID.format(where=where), (*values, LITTLE + 1)).fetchone()[0])


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


def few_of_each(connection: SqlConnection, parts: Iterable[Sequence[int]], limit: int) -> list[int]:
    seen: dict[str, int] = {}
    chosen, others = list[int](), list[int]()
    for part in parts:
        gists = {number: _gist(head, tail) for number, head, tail in by_number(connection, _ENDS, part)}
        for number in part:
            often = seen[gists[number]] = seen.get(gists[number], 0) + 1
            (chosen if often <= _OF_EACH else others).append(number)
        if len(chosen) >= limit:
            break
    return [*chosen, *others][:limit]


def messages_of(connection: SqlConnection, numbers: Sequence[int], starts: Sequence[str] = ()) -> list[Message]:
    found: dict[int, Message] = {}
    for row in by_number(connection, _MESSAGES, numbers):
        *said, turn = row
        message = Message(*said)._replace(turn=turn or 0)
        most, begin = (LONGEST_TOOL, BEGINNING_TOOL) if message.role == "tool" else (LONGEST, BEGINNING)
        if len(message.text) > most:
            message = message._replace(text=_told_of(message.text, starts, most, begin))
        found[message.number] = message
    return [found[number] for number in numbers if number in found]


def starts_of(terms: Sequence[Term], counts: dict[str, int]) -> list[str]:
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


def by_number(
    connection: SqlConnection, sql: str, numbers: Sequence[int], where: str = "", values: Sequence[object] = ()
) -> list[Row]:
    rows: list[Row] = []
    for start in range(0, len(numbers), CHUNK):
        part = numbers[start : start + CHUNK]
        # Some are named twice, so that a few statements do for any number of them and need not be prepared anew.
        part = [*part, *[part[-1]] * (-len(part) % _STEPS)]
        rows += connection.execute(sql.format(marks=marks(part), where=where), (*part, *values))
    return rows
