"""The sample history answers every command alike, whether it lies in a file or on a server."""

from __future__ import annotations

import io
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stdout
from pathlib import Path

import pytest

from mcp_memory import sample
from mcp_memory.app import App
from mcp_memory.surfaces.cli import COMMANDS, load, parser
from mcp_memory.surfaces.output import Answer
from tests.support import StoppedClock, learn, memory, on_engine

NOW = "2026-11-19T12:00:00Z"
QUESTIONS = (
    *(
        "token bucket",
        "rate limit",
        "why kiosks 429",
        '"token bucket"',
        "X-RateLimit-Remaining",
        "bookings 88120",
        "満潮",
    ),
    *("what did we do last week", "what is still open?", "history of rate_limit.py", "expirations tokenizing buckets"),
)
COMMAND_LINES = (
    *(
        "toc --depth segment",
        "toc --topic 'rate limit' --budget 400",
        "timeline october",
        "timeline 'last week' --budget 500",
    ),
    *(
        "sessions",
        "session tidepool-api-06",
        "today",
        "open",
        "last",
        "file rate_limit.py",
        "projects",
        "export",
        "snapshot",
    ),
    *(
        "node 2026-11-13",
        "node toc:week:2026-W45@tidepool-api --topic kiosk --budget 500",
        "grip CR0AS5RX --budget 900",
    ),
    *("context --query 'rate limit decision'", "context --focus toc:day:2026-11-03@tidepool-api --detailed"),
    *(
        "search token --kind segment",
        "search token --kind day",
        "search token --when october",
        "search token --cursor at:5",
    ),
    *(f"search {shlex.quote(question)} --limit 50" for question in QUESTIONS),
    *(f"search {shlex.quote(question)} --diverse --budget 600" for question in QUESTIONS[:4]),
)


@asynccontextmanager
async def sampled(home: Path, engine: str) -> AsyncIterator[App]:
    with on_engine(engine):
        async with memory(home, StoppedClock(NOW)) as app:
            await learn(app, sample.lines(app.answers.now))
            yield app


async def answer(app: App, line: str) -> tuple[Answer, str]:
    """What a command answers, and what it writes by itself."""
    words = shlex.split(line)
    command = next(command for command in COMMANDS if command.name == words[0])
    known = parser().parse_args(words)
    for name, value in {"project": "*", "json": "--budget" not in words}.items():
        if hasattr(known, name):
            setattr(known, name, value)
    with redirect_stdout(io.StringIO()) as written:
        return await load(command.run)(app, known), written.getvalue()


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_sample_history_is_answered_alike_on_both_engines(tmp_path: Path) -> None:
    async with AsyncExitStack() as open_now:
        in_file, on_server = [
            await open_now.enter_async_context(sampled(tmp_path / engine, engine)) for engine in ("sqlite", "postgres")
        ]
        differ = [line for line in COMMAND_LINES if await answer(in_file, line) != await answer(on_server, line)]
    assert differ == []
