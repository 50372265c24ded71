"""A memory whose index is Whoosh, and what the tests ask of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp_memory.app import App, open_app
from mcp_memory.config import Calendar, Index, Settings
from mcp_memory.domain.terms import Within, terms_of
from tests.support import StoppedClock, said


@asynccontextmanager
async def memory(home: Path, kind: str = "whoosh") -> AsyncIterator[App]:
    chosen = Settings(home=home, calendar=Calendar("UTC"), index=Index(kind))
    async with open_app(chosen, cwd=home, clock=StoppedClock()) as app:
        yield app


async def catch_up(app: App) -> None:
    while await app.index.catch_up():
        pass


async def state(app: App) -> str:
    return (await app.index.state()).state


async def found(app: App, query: str) -> list[str]:
    """What is found by whichever index answers."""
    pool = await app.store.pool(terms_of(query), Within(), cited=False, limit=50)
    return [message.text for message in pool.messages[: pool.matched]]


async def found_by_whoosh(app: App, query: str) -> list[str]:
    """What is found with nothing to fall back on."""
    without_fallback(app)
    return await found(app, query)


def without_fallback(app: App) -> None:
    """Whoosh may ask FTS5 while it is out of step; here that would hide what it cannot do itself."""
    index: Any = app.index
    over = type(index).over
    index.over = lambda source, _: over(index, source, None)


def walrus(number: int = 0, session: str = "w") -> dict[str, Any]:
    return said(
        f"the walrus number {number}", f"2026-03-04T{number // 60 % 24:02}:{number % 60:02}:00Z", session=session
    )


def holding(folder: Path, word: bytes) -> list[str]:
    """The files in which a word stands; the index keeps its words as they are."""
    return [path.name for path in folder.rglob("*") if path.is_file() and word in path.read_bytes()]
