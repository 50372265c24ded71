"""Memories to measure: the bundled sample, and invented histories of any size that take the real way in."""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path

from mcp_memory.app import App, open_app
from mcp_memory.config import Calendar, Settings
from mcp_memory.domain.events import Captured, EventType, Intake, Role
from mcp_memory.domain.toc import Level
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.sqlite.store import SqliteStore
from mcp_memory.surfaces.import_command import load_sample

#: The day after the sample's last session, so that nothing of it is open.
SAMPLE_NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
PROJECTS = ("harbour", "orchard", "quarry")
SESSION_EVENTS = 30
SESSIONS_PER_BATCH = 60
_BEGIN = datetime(2020, 1, 6, 9, tzinfo=UTC)
_END = datetime(2120, 1, 1, tzinfo=UTC)
_PARTS = "ba co de fi gu la me no pa ri su ta ve wo xi zo chi dra fle gro pla ste tru ".split()
_PLACES = "SELECT n.key, p.slug FROM node n JOIN project p ON p.id = n.project WHERE n.level = ? AND n.removed = 0"
_ENDINGS = ("", "", "", "s", "ing", "ed", "er", "tion")

#: Puts so many events into a memory.
Add = Callable[[App, int], Awaitable[None]]


@asynccontextmanager
async def opened(home: Path, now: datetime = _END, project: str = "") -> AsyncIterator[App]:
    settings = Settings(home=home, calendar=Calendar("UTC"), project=project, now_ms=round(now.timestamp() * 1000))
    async with open_app(settings, cwd=home) as app:
        yield app


async def fill_with_sample(app: App) -> None:
    await load_sample(app)
    await build(app)


def database_of(app: App) -> Database:
    """The file behind a memory, for what no user sees."""
    assert isinstance(app.store, SqliteStore)
    return app.store.database


async def node_ids(app: App, level: Level) -> list[str]:
    """All nodes of a level, named so that they are found from any project."""
    rows = await database_of(app).fetch(_PLACES, (int(level),))
    return [f"toc:{level.label}:{key}@{slug}" for key, slug in rows]


async def build(app: App) -> None:
    await app.pipeline.until_idle()
    await app.pipeline.lease.release()


async def invented(scratch: Path, events: int, add: Add | None = None, name: str = "invented") -> Path:
    """The home of a memory with so many events, made once per run."""
    home = scratch / f"{name}-{events}"
    if not home.exists():
        # Under another name until it is complete, since one that is kept is used again.
        unfinished = scratch / f"{home.name}-unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        async with opened(unfinished) as app:
            await (add or add_invented)(app, events)
            await build(app)
        unfinished.rename(home)
    return home


async def add_invented(app: App, events: int, a_day: int = 2) -> None:
    """So many events beside what a memory holds, of so many sessions a day: more history is a longer time."""
    batch: list[Intake] = []
    for session in range(events // SESSION_EVENTS):
        told = list(_session(session, a_day))
        batch.append(Intake(tuple(app.intaker.prepare(told)), "", PROJECTS[session % len(PROJECTS)]))
        if len(batch) == SESSIONS_PER_BATCH:
            await app.store.add(batch)
            batch = []
    await app.store.add(batch)


@dataclass(frozen=True)
class Language:
    """Words by Zipf's law, and the names that code is full of. The same seed speaks the same language."""

    words: tuple[str, ...] = field(default_factory=lambda: tuple(_words(20_000)))
    weights: tuple[float, ...] = field(default_factory=lambda: tuple(accumulate(1 / (n + 8) for n in range(20_000))))

    def phrase(self, rng: random.Random, length: int) -> list[str]:
        return rng.choices(self.words, cum_weights=self.weights, k=length)

    def name(self, rng: random.Random) -> str:
        """An identifier, a path or an error code, from words that are not too common."""
        one, two, three = (self.words[rng.randrange(200, 6_000)] for _ in range(3))
        forms = (
            f"{one}{two.title()}{three.title()}",
            f"{one}_{two}_{three}",
            f"src/{one}/{two}_{three}.py",
            f"{two}()",
        )
        return rng.choice((*forms, f"E{rng.randrange(100, 9_999)}"))

    def text(self, rng: random.Random, sentences: int) -> str:
        told = []
        for _ in range(sentences):
            words = self.phrase(rng, rng.randrange(6, 18))
            words[rng.randrange(len(words))] = self.name(rng)
            told.append(" ".join(words).capitalize() + ".")
        return " ".join(told)


def _words(many: int) -> Iterator[str]:
    rng, seen = random.Random(7), set[str]()
    while len(seen) < many:
        word = "".join(rng.choices(_PARTS, k=rng.choice((2, 2, 3, 3, 4)))) + rng.choice(_ENDINGS)
        if word not in seen:
            seen.add(word)
            yield word


LANGUAGE = Language()


def _session(number: int, a_day: int) -> Iterator[Captured]:
    """One session of requests, tool calls and reports."""
    rng = random.Random(number)
    minutes = 480 // a_day * (number % a_day) + rng.randrange(60)
    start = _BEGIN + timedelta(days=number // a_day, minutes=minutes)
    for index in range(SESSION_EVENTS):
        kind, role, text = turn(rng, index)
        yield Captured(
            client="bench",
            session_id=f"s{number}",
            source_key=str(index),
            timestamp_ms=round((start + timedelta(seconds=40 * index)).timestamp() * 1000),
            event_type=kind,
            role=role,
            text=text,
            source_ids=(f"s{number}/{index}",),
        )


def turn(rng: random.Random, index: int) -> tuple[EventType, Role, str]:
    """What is said at a place in a session."""
    if index % 6 == 0:
        return EventType.USER_MESSAGE, Role.USER, f"Please fix {LANGUAGE.text(rng, rng.randrange(1, 4))}"
    if index % 2:
        output = "\n".join(LANGUAGE.text(rng, 1) for _ in range(rng.randrange(2, 10)))
        return EventType.TOOL_RESULT, Role.TOOL, f"Bash: pytest {LANGUAGE.name(rng)}\n{output}"
    return EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, LANGUAGE.text(rng, rng.randrange(1, 6))
