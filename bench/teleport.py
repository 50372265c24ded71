"""Finding a passage by its words, in process, against one bare FTS5 query for the same words over the same texts."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

from bench.histories import LANGUAGE, PROJECTS, invented, opened
from bench.measure import Figure, median, ms, p95
from mcp_memory.app import App
from mcp_memory.domain.terms import terms_of
from mcp_memory.search.question import question_of

QUERIES = 60
#: Each query counts by its fastest try: a few milliseconds are easily disturbed, and never made shorter.
TRIES = 5
_BARE = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT 10"
_OPENINGS = ("", "", "how did we fix ", "why was it that ", "what did we decide about ")


def run(scratch: Path, *, large: bool) -> list[Figure]:
    sizes = (100_000, 1_000_000) if large else (100_000,)
    return [figure for size in sizes for figure in anyio.run(_at, scratch, size)]


async def _at(scratch: Path, size: int) -> list[Figure]:
    print(f"   building {size:,} events", flush=True)
    home = await invented(scratch, size)
    table = bare_table(home)
    figures = []
    async with opened(home) as app:
        queries = questions_of(home / "memory.db")
        for scope, project in (("one project of three", PROJECTS[0]), ("all projects", "*")):
            ours, bare = await _timings(app, table, queries, project)
            figures += _compare(f"{size:,} events, {scope}", ours, bare)
    table.close()
    return figures


def _compare(name: str, ours: Sequence[float], bare: Sequence[float]) -> list[Figure]:
    note = "{} to {}, " + f"{len(ours)} queries"
    return [
        Figure(f"{name}, {label}", of(ours) / of(bare), 2.0, note=note.format(ms(of(ours)), ms(of(bare))))
        for label, of in (("p50", median), ("p95", p95))
    ]


async def _timings(
    app: App, table: sqlite3.Connection, queries: Sequence[str], project: str
) -> tuple[list[float], list[float]]:
    """The seconds of each query both ways, taken in turn."""
    ours: list[list[float]] = [[] for _ in queries]
    bare: list[list[float]] = [[] for _ in queries]
    for _ in range(TRIES):
        for number, query in enumerate(queries):
            one, other = await both_ways(app, table, query, project)
            ours[number].append(one)
            bare[number].append(other)
    return [min(taken) for taken in ours], [min(taken) for taken in bare]


async def both_ways(app: App, table: sqlite3.Connection, query: str, project: str) -> tuple[float, float]:
    """The seconds of a search, and those of one bare query for the same words, stop words left out as well."""
    words = dict.fromkeys(word for term in terms_of(query) for word in term.words)
    match = " OR ".join(f'"{word}"' for word in words)
    # A question that comes again is not read anew; here it is each time.
    question_of.cache_clear()
    started = time.perf_counter()
    await app.answers.search(query, project)
    middle = time.perf_counter()
    table.execute(_BARE, (match,)).fetchall()
    return middle - started, time.perf_counter() - middle


def bare_table(home: Path) -> sqlite3.Connection:
    """The same texts in an index of FTS5 that is a file as well, opened as SQLite opens one."""
    connection = sqlite3.connect(home / "bare.db", isolation_level=None)
    if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        connection.execute("ATTACH ? AS memory", (str(home / "memory.db"),))
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize = 'porter unicode61')")
        connection.execute("INSERT INTO t (rowid, text) SELECT id, text FROM memory.event")
        connection.execute("DETACH memory")
    return connection


def questions_of(database: Path) -> list[str]:
    """Questions in the words of events: a name, a few words, or both."""
    rng = random.Random(11)
    connection = sqlite3.connect(database)
    (many,) = connection.execute("SELECT max(id) FROM event").fetchone()
    queries = []
    for number in range(QUERIES):
        (text,) = connection.execute("SELECT text FROM event WHERE id = ?", (rng.randint(1, many),)).fetchone()
        words = text.replace(".", " ").split()
        names = [word for word in words if any(char in "_/()" or char.isupper() for char in word[1:])]
        asked = rng.sample(words, min(len(words), rng.randint(2, 5)))
        if number % 3 == 0:
            asked = [rng.choice(names) if names else LANGUAGE.name(rng)]
        queries.append(rng.choice(_OPENINGS) + " ".join(asked))
    connection.close()
    return queries
