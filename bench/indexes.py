"""The two indexes side by side, over the same memory: what they cost, how fast and how well they find.

FTS5 is the baseline of every ratio. Building is measured in processor time, since Whoosh works in threads.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from bench.histories import PROJECTS, invented
from bench.measure import Figure, median, ms, p95
from bench.recall import SETS, Set, evidence_of, fill, named
from bench.teleport import questions_of
from mcp_memory.app import App, open_app
from mcp_memory.config import Calendar, Index, Settings
from mcp_memory.domain.terms import Columns, IndexChanges, IndexDocument, Standing
from mcp_memory.store.sqlite.store import SqliteStore
from mcp_memory.store.whoosh.index import BATCH
from mcp_memory.store.whoosh.writer import right_to_write, write

KINDS = ("fts5", "whoosh")
TRIES = 3
_END_MS = 4_733_510_400_000  # 2120, when all periods are closed
_TABLE = (
    "CREATE VIRTUAL TABLE search USING fts5 (head, user, assistant, tool, parts, content = '', "
    "tokenize = 'porter unicode61 remove_diacritics 2')"
)
_INSERT = "INSERT INTO search (rowid, head, user, assistant, tool, parts) VALUES (?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Built:
    """Processor seconds and bytes of an index, and the seconds it takes to take in one more message."""

    seconds: float
    size: int
    one_more: float


def run(scratch: Path, *, large: bool) -> list[Figure]:
    figures: list[Figure] = []
    for size in (20_000, 100_000) if large else (20_000,):
        figures += anyio.run(_at, scratch, size)
    for each in filter(Set.at_hand, SETS):
        figures += anyio.run(_recall, scratch, each)
    return figures


async def _at(scratch: Path, size: int) -> list[Figure]:
    print(f"   building {size:,} events", flush=True)
    home = await invented(scratch, size)
    fts5, whoosh = await _build_fts5(home, scratch / f"indexes-{size}.db"), await _build_whoosh(home)
    figures = [*_costs(size, fts5, whoosh), *await _speeds(home, size)]
    await anyio.to_thread.run_sync(shutil.rmtree, home / "whoosh")
    return figures


def _costs(size: int, fts5: Built, whoosh: Built) -> list[Figure]:
    return [
        Figure(
            f"{size:,} events, building the index",
            whoosh.seconds / fts5.seconds,
            note=f"Whoosh {whoosh.seconds:.1f} s to FTS5 {fts5.seconds:.1f} s of processor time",
        ),
        Figure(
            f"{size:,} events, size on disk",
            whoosh.size / fts5.size,
            note=f"{whoosh.size / 1e6:.1f} MB to {fts5.size / 1e6:.1f} MB",
        ),
        Figure(
            f"{size:,} events, taking in one more",
            whoosh.one_more / fts5.one_more,
            note=f"{ms(whoosh.one_more)} to {ms(fts5.one_more)} of processor time",
        ),
    ]


async def _speeds(home: Path, size: int) -> list[Figure]:
    figures = []
    queries = questions_of(home / "memory.db")
    for scope, project in (("one project of three", PROJECTS[0]), ("all projects", "*")):
        taken = await _timings(home, queries, project)
        figures += [
            Figure(
                f"{size:,} events, {scope}, {label}",
                of(taken["whoosh"]) / of(taken["fts5"]),
                note=f"{ms(of(taken['whoosh']))} to {ms(of(taken['fts5']))}, {len(queries)} queries",
            )
            for label, of in (("p50", median), ("p95", p95))
        ]
    return figures


@asynccontextmanager
async def _opened(home: Path, kind: str) -> AsyncIterator[App]:
    chosen = Settings(home=home, calendar=Calendar("UTC"), now_ms=_END_MS, index=Index(kind))
    async with open_app(chosen, cwd=home) as app:
        yield app


async def _changes(app: App) -> AsyncIterator[IndexChanges]:
    source, held = app.store, None
    assert isinstance(source, SqliteStore)
    while await source.index_standing(held) is not Standing.CURRENT:
        found = await source.index_changes(held, BATCH)
        held = found.position
        yield found


async def _build_fts5(home: Path, file: Path) -> Built:
    """The same columns in a file of their own, committed in portions of the size that Whoosh is given."""
    connection = _empty_table(file)

    def put_in(documents: Sequence[IndexDocument]) -> float:
        started = time.process_time()
        connection.execute("BEGIN")
        connection.executemany(_INSERT, [(each.number, *each.columns()) for each in documents])
        connection.execute("COMMIT")
        return time.process_time() - started

    seconds = 0.0
    async with _opened(home, "fts5") as app:
        async for found in _changes(app):
            seconds += put_in(found.documents)
    one_more = median([put_in([document]) for document in _more()])
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (size,) = connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()
    connection.close()
    return Built(seconds, size, one_more)


def _empty_table(file: Path) -> sqlite3.Connection:
    file.unlink(missing_ok=True)
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(_TABLE)
    return connection


async def _build_whoosh(home: Path) -> Built:
    folder = home / "whoosh"
    await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))
    seconds, position = 0.0, ""
    async with _opened(home, "whoosh") as app:
        with right_to_write(folder):
            async for found in _changes(app):
                position = found.position
                started = time.process_time()
                write(folder, None, found)
                seconds += time.process_time() - started
            size = (await app.index.state()).own_bytes
            one_more = []
            for document in _more():
                started = time.process_time()
                write(folder, position, IndexChanges(Standing.BEHIND, position, [document]))
                one_more.append(time.process_time() - started)
        assert not await app.index.behind()
    return Built(seconds, size, median(one_more))


def _more() -> list[IndexDocument]:
    texts = [f"one more message about the harbour, number {number}" for number in range(20)]
    columns = [partial(Columns, user=text) for text in texts]
    return [IndexDocument((1 << 40) + 4 * number + 3, 0, True, each) for number, each in enumerate(columns)]


async def _timings(home: Path, queries: Sequence[str], project: str) -> dict[str, list[float]]:
    """The seconds of each query by each index, the fastest of several tries, taken in turn."""
    taken: dict[str, list[list[float]]] = {kind: [[] for _ in queries] for kind in KINDS}
    async with _opened(home, "fts5") as fts5, _opened(home, "whoosh") as whoosh:
        for _ in range(TRIES):
            for number, query in enumerate(queries):
                for kind, app in (("fts5", fts5), ("whoosh", whoosh)):
                    started = time.perf_counter()
                    await app.answers.search(query, project)
                    taken[kind][number].append(time.perf_counter() - started)
    return {kind: [min(tries) for tries in each] for kind, each in taken.items()}


async def _recall(scratch: Path, questions: Set) -> list[Figure]:
    """The same questions to the same memory, answered with either index."""
    home = scratch / f"indexes-{questions.name}"
    async with _opened(home, "whoosh") as app:
        await fill(app, questions.corpora)
        assert not await app.index.behind()
    shares = {kind: await _shares(home, kind, questions) for kind in KINDS}
    return [
        Figure(f"{questions.name} {name}, {kind}", shares[kind][name], unit="")
        for name in shares["fts5"]
        for kind in KINDS
    ]


async def _shares(home: Path, kind: str, questions: Set) -> dict[str, float]:
    lines = questions.asked()
    sums = dict.fromkeys(("hit@1", "hit@10", "R@5", "R@10"), 0.0)
    async with _opened(home, kind) as app:
        for line in lines:
            found, _ = await app.answers.search(line["question"], line.get("project", "*"))
            evidence = evidence_of(line)
            for name in sums:
                first = found.hits[: int(name.partition("@")[2])]
                some = evidence & set().union(*map(named, first))
                sums[name] += bool(some) if name.startswith("hit") else len(some) / len(evidence)
    return {name: total / len(lines) for name, total in sums.items()}
