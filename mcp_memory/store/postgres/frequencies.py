"""How often words occur: counted by the index where they are rare, told by a table where they are common.

Ranking asks how rare a word is, so what is rare is exact. To count what is common would take longer than the search;
the table holds how often the commoner words stand in the events up to a place in the log, and is brought on in batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp_memory.domain.terms import Term
from mcp_memory.store.postgres.matching import (
    LOOKED_AT,
    SMALL,
    Narrowed,
    Places,
    matched,
    phrases_of,
    places_of,
    stands_in_a_row,
)
from mcp_memory.store.sql.database import SET_FACT, SqlConnection, Transaction

#: A term is counted up to here; what is more frequent is estimated.
COUNTED = 2_000
#: The table is brought on when there are so many new events, or this share of those it knows; by so many at once.
BEHIND, SHARE, BATCH = 5_000, 20, 50_000
#: A word is noted that stands in one of so many events of a batch.
NOTED = 500
_REACHED = """
    SELECT (SELECT seq FROM log_place WHERE name = 'event'),
           coalesce((SELECT CAST(value AS bigint) FROM meta WHERE key = 'counted'), 0)
"""
_TOLD = "SELECT word, documents, spoken FROM frequency WHERE word = ANY(:words)"
_COUNT = (
    "SELECT {number}, count(*), coalesce(sum(spoken), 0), max(doc) "
    "FROM (SELECT doc, spoken FROM {found} LIMIT {most}) few"
)
_NOTE = """
    INSERT INTO frequency AS f (word, documents, spoken)
    SELECT word, every.ndoc, coalesce(said.ndoc, 0)
    FROM ts_stat({every}) every LEFT JOIN ts_stat({spoken}) said USING (word) WHERE every.ndoc >= ?
    ON CONFLICT (word) DO UPDATE SET
        documents = f.documents + excluded.documents, spoken = f.spoken + excluded.spoken
"""
_EVENTS = "SELECT terms FROM search WHERE level = -1 AND doc > {after} AND doc <= {last}"
_TAKE_OUT = """
    WITH gone AS (DELETE FROM search WHERE doc IN ({marks}) RETURNING doc, level, spoken, terms), told AS (
        SELECT lexeme, count(*) AS documents, sum(spoken) AS spoken FROM gone CROSS JOIN LATERAL unnest(terms)
        WHERE level = -1 AND doc <= 4 * {counted} GROUP BY lexeme
    )
    UPDATE frequency f SET documents = f.documents - told.documents, spoken = f.spoken - told.spoken
    FROM told WHERE f.word = told.lexeme
"""


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Of so many documents, in how many each term stands, by its expression: at all, and where it was spoken."""

    documents: int
    counts: Mapping[str, int]
    said: Mapping[str, int]
    #: In a small memory, where the words stand.
    places: Places | None = None

    @property
    def spoken(self) -> dict[str, int]:
        """Where it was spoken; of what only tools write, where it stands at all."""
        return {match: self.said[match] or count for match, count in self.counts.items()}


def frequencies(connection: SqlConnection, terms: Sequence[Term], narrowed: Narrowed) -> Frequencies:
    """How often terms occur in what may be seen; what is common is not told apart by who may see it."""
    documents, counted = map(int, connection.execute(_REACHED).fetchone())
    if documents <= SMALL:
        places = places_of(connection, terms, narrowed)
        both = {term.match: places.counts(term) for term in terms}
        at_all, spoken = ({match: each[way] for match, each in both.items()} for way in (0, 1))
        return Frequencies(documents, at_all, spoken, places)
    phrases = {term.match: phrases_of(term) for term in terms}
    words = sorted({word for each in phrases.values() for phrase in each for word in phrase})
    told = {}
    if counted and words:
        growth = max(documents / counted, 1.0)
        for word, *found in connection.execute(_TOLD, {"words": words}):
            told[word] = [round(count * growth) for count in found]
    counts, said = dict.fromkeys(phrases, 0), dict.fromkeys(phrases, 0)
    parts, values, asked = list[str](), dict(narrowed.values), list[str]()
    for term in terms:
        held = phrases[term.match]
        in_a_row = stands_in_a_row(held)
        known = [told[phrase[0]] for phrase in held if phrase[0] in told and len(phrase) == 1]
        if not in_a_row and sum(count for count, _ in known) > COUNTED:
            counts[term.match], said[term.match] = (min(sum(each), documents) for each in zip(*known, strict=True))
        elif held and term.match not in asked:
            name = f"term{len(asked)}"
            values |= matched(name, held, term.prefix)
            found = narrowed.found(name, in_a_row, "doc, spoken")
            parts.append(_COUNT.format(number=len(asked), found=found, most=LOOKED_AT if in_a_row else COUNTED))
            asked.append(term.match)
    for number, count, spoken, reached in connection.execute(" UNION ALL ".join(parts), values) if parts else ():
        share = max(documents * 4 / max(reached, 1), 1.0) if count == COUNTED else 1.0
        counts[asked[number]], said[asked[number]] = round(count * share), round(spoken * share)
    return Frequencies(documents, counts, said)


def is_behind(connection: SqlConnection) -> bool:
    documents, counted = connection.execute(_REACHED).fetchone()
    return bool(documents - counted >= max(BEHIND, counted // SHARE))


def bring_on(tx: Transaction) -> int:
    """Count the words of a batch of events that the table does not know yet; returns how many events."""
    tx.lock(["frequency"])
    ((documents, counted),) = tx.fetch(_REACHED)
    if documents - counted < max(BEHIND, counted // SHARE):
        return 0
    last = min(documents, counted + BATCH)
    every = _EVENTS.format(after=4 * counted, last=4 * last)
    texts = {"every": f"'{every}'", "spoken": f"'{every} AND spoken = 1'"}
    tx.run(_NOTE.format(**texts), (max((last - counted) // NOTED, 2),))
    tx.run(SET_FACT, ("counted", str(last)))
    return int(last - counted)


def take_out(tx: Transaction, documents: Sequence[int]) -> None:
    """Delete rows of the index, and what the table tells by them alone."""
    ((_, counted),) = tx.fetch(_REACHED)
    tx.run(_TAKE_OUT.format(marks=",".join("?" * len(documents)), counted=counted), documents)
    tx.run("DELETE FROM frequency WHERE documents <= 0")


def empty(tx: Transaction) -> None:
    for table in ("search", "frequency"):
        tx.run(f"DELETE FROM {table}")
    tx.run("DELETE FROM meta WHERE key = 'counted'")
