"""Finding and forgetting a text in a large memory, beside SQLite's own scan and its own copy of the file."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import anyio

from bench.histories import SESSION_EVENTS, add_invented, invented, opened
from bench.measure import Figure, in_turn, median, timed
from mcp_memory.app import App
from mcp_memory.domain.events import Captured, EventType, Intake, Role
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.surfaces.forget_command import carry_out

SIZE, LARGE = 100_000, 1_000_000
TRIES = 3
#: How many of the events hold the text, and the most seconds that finding them may take among a million.
FORGOTTEN, AIM_SECONDS = 1_000, 3.0
TEXT, UNKNOWN = "PIER-31", "PIER-77"
_BEGIN = datetime(2021, 2, 1, 9, tzinfo=UTC)
_SCAN = "SELECT count(*) FROM event WHERE instr(lower(text), ?)"


def run(scratch: Path, *, large: bool) -> list[Figure]:
    return anyio.run(_run, scratch, LARGE if large else SIZE)


async def _run(scratch: Path, size: int) -> list[Figure]:
    print(f"   building {size:,} events", flush=True)
    home = await invented(scratch, size, _add, "forgetting")
    async with opened(home) as app:
        database = home / "memory.db"
        scan = partial(_scan, database)
        asked = [ForgetRequest(match=TEXT), ForgetRequest(match=UNKNOWN), ForgetRequest(match="IER-3", part=True)]
        pairs = [(partial(app.store.forget, request, dry_run=True), scan) for request in asked]
        found, bare = await in_turn(pairs, TRIES)
    figures = [
        Figure(f"{name} among {size:,}", seconds / median(bare), None, "×", f"{seconds:.2f} s to {median(bare):.2f} s")
        for name, seconds in zip(
            ("a text that 1,000 hold", "a text that none holds", "a part of words"), found, strict=True
        )
    ]
    seconds, copied = await _forgotten(home, scratch / "forgotten")
    note = f"{seconds:.1f} s to {copied:.1f} s for a copy of the file by VACUUM"
    return [
        *figures,
        Figure(f"the slowest of these, among {size:,}", max(found), AIM_SECONDS * size / LARGE, " s"),
        Figure(f"forgetting {FORGOTTEN:,} of {size:,}", seconds / copied, None, "×", note),
    ]


async def _add(app: App, events: int) -> None:
    """Invented sessions, and among them some that speak of one ticket, in two spellings."""
    await add_invented(app, events - FORGOTTEN)
    told = list[Captured]()
    for number in range(FORGOTTEN):
        session, index = divmod(number, SESSION_EVENTS)
        at = _BEGIN + timedelta(days=session, minutes=index)
        text = f"Part {number} of {TEXT if number % 2 else TEXT.lower().replace('-', ' ')} is done."
        told.append(
            Captured(
                client="bench",
                session_id=f"ticket-{session}",
                source_key=str(index),
                event_type=EventType.USER_MESSAGE,
                role=Role.USER,
                text=text,
                timestamp_ms=round(at.timestamp() * 1000),
            )
        )
    await app.store.add([Intake(tuple(app.intaker.prepare(told)), "", "harbour")])


async def _scan(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(_SCAN, (TEXT.lower(),)).fetchone()


async def _forgotten(home: Path, copy: Path) -> tuple[float, float]:
    """The seconds of a whole erasure in a copy of the memory, and those of SQLite's copy of the file."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(home, copy)
    try:
        with closing(sqlite3.connect(copy / "memory.db")) as connection:
            copied = timed(lambda: connection.execute("VACUUM INTO ?", (str(copy / "copied.db"),)))
        (copy / "copied.db").unlink()
        async with opened(copy) as app:
            started = time.perf_counter()
            done = await carry_out(app, ForgetRequest(match=TEXT), dry_run=False)
            seconds = time.perf_counter() - started
        if done.found.events != FORGOTTEN:
            raise RuntimeError(f"{done.found.events} events were forgotten instead of {FORGOTTEN}.")
        return seconds, copied
    finally:
        shutil.rmtree(copy, ignore_errors=True)
