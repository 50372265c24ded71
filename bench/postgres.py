"""The two engines side by side: the same memory in a file and on a server, brought there by `move`.

How much is copied in a second, what the labelled questions find on either, and how long an answer takes while twenty
users ask at once. SQLite is the baseline of every ratio. Large: 1,000,000 events of a team in four years.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from bench.histories import add_invented, database_of, invented
from bench.measure import Figure, median, ms, p95
from bench.recall import SETS, QuestionClock, Set, evidence_of, filled, found_in, found_shares, named
from bench.teleport import questions_of
from mcp_memory.app import App, open_app
from mcp_memory.config import Calendar, Settings, StoreSettings
from mcp_memory.domain.people import Viewer
from mcp_memory.domain.terms import Within, terms_of
from mcp_memory.search.question import question_of
from mcp_memory.store.postgres.tables import ServerTables
from mcp_memory.store.sql import moving
from mcp_memory.store.sqlite.tables import FileTables
from tests.postgres import Server, new_server, programs

USERS, ROUNDS, EACH = 20, 3, 6
#: Sessions a day: those of a team of ten.
A_DAY = 24
#: How much recall may differ, and how much slower the slowest answers may be.
LOST, SLOWER = 0.01, 3.0
_END_MS = 4_733_510_400_000  # 2120, when all periods are closed
#: How often each question about a rare word is asked.
_RARE = 30


def run(scratch: Path, *, large: bool) -> list[Figure]:
    if programs() is None:
        return [Figure("skipped: needs PostgreSQL (Debian: apt install postgresql)", 0, unit="")]
    server = new_server("max_connections=100", "shared_buffers=256MB")
    try:
        figures = anyio.run(_speed, scratch, server, 1_000_000 if large else 20_000)
        for each in filter(Set.at_hand, SETS):
            figures += anyio.run(_recall, scratch, server, each)
        return figures
    finally:
        server.stop()


@asynccontextmanager
async def _opened(home: Path, url: str = "") -> AsyncIterator[App]:
    chosen = Settings(home=home, calendar=Calendar("UTC"), now_ms=_END_MS, store=StoreSettings(url))
    async with open_app(chosen, cwd=home) as app:
        yield app


def moved(home: Path, url: str) -> tuple[int, float]:
    """Copy a memory to a server; how many events there were, and the seconds it took."""
    started = time.perf_counter()
    with (
        FileTables.origin(home / "memory.db") as source,
        ServerTables.destination(url, lambda held: moving.check(source, held)) as target,
    ):
        found = moving.move(source, target, lambda: 0, lambda *_: None)
    return found.tables["event"].rows, time.perf_counter() - started


async def _shared_history(app: App, events: int) -> None:
    """What a team has shared, so that a member may read all of it."""
    await add_invented(app, events, A_DAY)
    await database_of(app).write(lambda tx: tx.run("UPDATE event SET visibility = 'team'"))


async def _speed(scratch: Path, server: Server, size: int) -> list[Figure]:
    print(f"   building {size:,} events", flush=True)
    home, url = await invented(scratch, size, _shared_history, "shared"), server.new_database()
    events, seconds = await anyio.to_thread.run_sync(moved, home, url)
    async with _opened(home) as file, _opened(home, url) as table:
        seen, queries = table.seen_by(Viewer("ada")), questions_of(home / "memory.db")
        ways = {"file": file, "server": table, "member": seen}
        taken = {way: list[float]() for way in ways}
        for number in range(-1, ROUNDS):
            for way, app in ways.items() if number % 2 else reversed(ways.items()):
                seconds_of = await _asked_at_once(app, queries, number)
                taken[way] += seconds_of if number >= 0 else []
        rare = {way: await _rare_words(app, queries) for way, app in ways.items()}
    return [
        Figure(f"{size:,} events, copied a second", events / seconds, unit="", note=f"{seconds:.0f} s with the index"),
        *(
            Figure(
                f"{size:,} events, {USERS} users at once, {who}{label}",
                of(taken[way]) / of(taken["file"]),
                SLOWER if of is p95 else None,
                note=f"{ms(of(taken[way]))} to {ms(of(taken['file']))}, {len(taken[way])} answers",
            )
            for way, who in (("server", ""), ("member", "as a member "))
            for label, of in (("p50", median), ("p95", p95))
        ),
        Figure(
            f"{size:,} events, the pool of a rare word, as a member to the server's own",
            median(rare["member"]) / median(rare["server"]),
            note=f"{ms(median(rare['member']))} to {ms(median(rare['server']))}, in a file {ms(median(rare['file']))}",
        ),
    ]


async def _asked_at_once(app: App, queries: Sequence[str], number: int) -> list[float]:
    """The seconds of each answer while all users ask, one question after the other."""
    taken = list[float]()

    async def ask(user: int) -> None:
        for query in random.Random(f"{number} {user}").sample(queries, EACH):
            question_of.cache_clear()
            started = time.perf_counter()
            await app.answers.search(query, "*")
            taken.append(time.perf_counter() - started)

    async with anyio.create_task_group() as users:
        for user in range(USERS):
            users.start_soon(ask, user)
    return taken


async def _rare_words(app: App, queries: Sequence[str]) -> list[float]:
    """How long one name takes that stands in few events."""
    names = [word for query in queries for word in query.split() if "_" in word][:_RARE]
    taken = list[float]()
    for _ in range(2):
        taken.clear()
        for name in names:
            started = time.perf_counter()
            await app.store.pool(terms_of(name), Within(), cited=False, limit=50)
            taken.append(time.perf_counter() - started)
    return taken


async def _recall(scratch: Path, server: Server, questions: Set) -> list[Figure]:
    """What the same questions find on both."""
    home, url, clock = scratch / f"engines-{questions.name}", server.new_database(), QuestionClock()
    async with filled(home, questions.corpora, clock) as app:
        file = await _shares(app, questions, clock)
    await anyio.to_thread.run_sync(moved, home, url)
    chosen = Settings(home=home, calendar=Calendar("UTC"), store=StoreSettings(url))
    async with open_app(chosen, cwd=home.parent, clock=clock) as app:
        table = await _shares(app, questions, clock)
    return [
        Figure(
            f"{questions.name} {name}, lost on a server",
            file[name] - share,
            LOST,
            "",
            f"{share:.3f}, {file[name]:.3f} in a file",
        )
        for name, share in table.items()
        if name in questions.aims
    ]


async def _shares(app: App, questions: Set, clock: QuestionClock) -> dict[str, float]:
    found = []
    for question in questions.asked():
        clock.set_to(question)
        results, _ = await app.answers.search(question["question"], question.get("project", "*"))
        found.append(found_in(evidence_of(question), [named(hit) for hit in results.hits]))
    return found_shares(found)
