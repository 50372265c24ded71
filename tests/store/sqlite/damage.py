"""Real damage for tests: a memory that was filled by the program, and ways to spoil its file."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support import conversation, learn, memory, tell

PAGE = 4096
Spoil = Callable[[bytearray], None]
_EVENTS = """
    SELECT e.id, hex(e.key), e.timestamp_ms, e.type, e.role, e.text, e.tokens, e.truncated, e.source_ids, e.metadata,
           s.client, s.session_id, p.slug, p.root
    FROM event e JOIN session s ON s.id = e.session JOIN project p ON p.id = s.project ORDER BY e.id
"""


async def filled(home: Path, sessions: int = 40) -> Path:
    """A memory of several hundred events, a few of them not yet in the tree, and rows that wait in the inbox."""
    home.mkdir(parents=True, exist_ok=True)
    async with memory(home) as app:
        for number in range(3):
            await learn(app, conversation(f"2026-03-{number + 2:02d}", session=f"s{number}"))
        lines = [
            line | {"text": f"{line['text']} This was said in session {number}, and it is a little longer for that."}
            for number in range(3, sessions)
            for line in conversation(f"2026-04-{number % 28 + 1:02d}", session=f"s{number}", project=f"p{number % 3}")
        ]
        lines[5]["text"] *= 200  # longer than a page
        await tell(app, lines)
        await app.inbox.post([(number, "claude-code", "/w", "", '{"waits": true}') for number in range(1, 6)])
    return home / "memory.db"


def events(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(_EVENTS).fetchall()


def value(path: Path, sql: str) -> Any:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchone()[0]


def root_of(path: Path, name: str) -> int:
    return int(value(path, f"SELECT rootpage FROM sqlite_schema WHERE name = '{name}'"))


def overwrite(page: int, seed: int | None = None) -> Spoil:
    """Zeros over a page, or random bytes."""

    def spoil(data: bytearray) -> None:
        data[(page - 1) * PAGE : page * PAGE] = bytes(PAGE) if seed is None else random.Random(seed).randbytes(PAGE)

    return spoil


def scatter(seed: int, share: float) -> Spoil:
    """Random bytes over a share of all pages but the first."""

    def spoil(data: bytearray) -> None:
        dice = random.Random(seed)
        pages = len(data) // PAGE
        for page in dice.sample(range(2, pages + 1), max(1, round(pages * share))):
            overwrite(page, dice.randrange(1 << 30))(data)

    return spoil


def spoiled(path: Path, spoil: Spoil, home: Path) -> Path:
    """A copy of the file with damage done to it, as the only file of a directory."""
    data = bytearray(path.read_bytes())
    spoil(data)
    home.mkdir(parents=True, exist_ok=True)
    (home / "memory.db").write_bytes(data)
    return home / "memory.db"


def flip(seed: int, count: int) -> Spoil:
    """Single bits, anywhere behind the header."""

    def spoil(data: bytearray) -> None:
        dice = random.Random(seed)
        for _ in range(count):
            data[dice.randrange(100, len(data))] ^= 1 << dice.randrange(8)

    return spoil
