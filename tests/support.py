"""What many tests need: a clock that stands still, an open memory in a temp directory, and something said in it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from mcp_memory.app import App, open_app
from mcp_memory.clients.jsonl import event_of_line
from mcp_memory.config import Calendar, Settings, StoreSettings
from mcp_memory.domain.events import Captured, Intake
from mcp_memory.domain.nodes import Node, NodeQuery
from mcp_memory.domain.terms import Pool, Within, terms_of
from mcp_memory.domain.toc import Level
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.sql.database import SqlDatabase
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.sqlite.store import SqliteStore
from tests import postgres

#: Tests of the Whoosh index are left out where its package is not; `make test` installs it.
needs_whoosh = pytest.mark.skipif(find_spec("whoosh") is None, reason="Whoosh-Reloaded is not installed")
REPO = Path(__file__).parent.parent
SHARED = REPO.parent / "shared"
LATER = "2026-06-01T00:00:00Z"


def fewer_examples(share: float, **options: Any) -> settings:
    """Try only a share of the profile's examples, where each takes long."""
    return settings(max_examples=max(round(settings().max_examples * share), 1), **options)


class StoppedClock:
    """Stands at one moment until it is moved."""

    def __init__(self, moment: str = LATER) -> None:
        self.moment = datetime.fromisoformat(moment)

    def now_ms(self) -> int:
        return round(self.moment.timestamp() * 1000)

    def move(self, **by: float) -> None:
        self.moment += timedelta(**by)


class OnServer:
    """The memories of a test that lie on a server, each data directory's in a database of its own."""

    def __init__(self) -> None:
        self._urls: dict[Path, str] = {}

    def url(self, home: Path) -> str:
        if home not in self._urls:
            self._urls[home] = postgres.new_database()
        return self._urls[home]

    def close(self) -> None:
        for url in self._urls.values():
            postgres.drop_database(url)


#: Where the memories of the running test lie, unless it is in files; the fixture `engine` tells.
_on_server: list[OnServer] = []


@contextmanager
def on_engine(name: str) -> Iterator[None]:
    """Let the memories that are opened meanwhile lie on this engine."""
    if name == "postgres":
        _on_server.append(OnServer())
    try:
        yield
    finally:
        while _on_server:
            _on_server.pop().close()


def store_of(home: Path) -> StoreSettings:
    """Where the memory of a data directory lies; a process that a test starts is told by the environment."""
    if _on_server:
        return StoreSettings(_on_server[0].url(home))
    return StoreSettings(os.environ.get("MCP_MEMORY_STORE_URL", ""))


def child_environment(home: Path) -> dict[str, str]:
    """What a process that opens the same memory must be told."""
    return {**os.environ, "PYTHONPATH": str(REPO), "MCP_MEMORY_STORE_URL": store_of(home).url}


@asynccontextmanager
async def memory(home: Path, clock: StoppedClock | None = None, zone: str = "UTC") -> AsyncIterator[App]:
    settings = Settings(home=home, calendar=Calendar(zone), store=store_of(home))
    async with open_app(settings, cwd=home, clock=clock or StoppedClock()) as app:
        yield app


def said(
    text: str, at: str, *, role: str = "user", session: str = "s1", project: str = "alpha", **more: Any
) -> dict[str, Any]:
    """A line of generic import; its source id follows from what it says."""
    line = {"session_id": session, "timestamp": at, "role": role, "text": text, "project": project}
    return line | {"source_id": f"{session}/{at}/{role}"} | more


def database_of(app: App) -> SqlDatabase:
    """The database behind a memory, for what no user sees."""
    assert isinstance(app.store, SqliteStore | PostgresStore)
    return app.store.database


def file_of(app: App) -> Database:
    """The same where it is a file."""
    assert isinstance(app.store, SqliteStore)
    return app.store.database


async def tell(app: App, lines: Iterable[dict[str, Any]]) -> int:
    """Store lines as an importer does, without a file."""
    groups: dict[tuple[str, str], list[Captured]] = {}
    for line in lines:
        told = event_of_line(line)
        groups.setdefault((told.session_id, told.project), []).append(told)
    intakes = [Intake(tuple(app.intaker.prepare(events)), "", project) for (_, project), events in groups.items()]
    return await app.store.add(intakes)


async def learn(app: App, lines: Iterable[dict[str, Any]]) -> None:
    """Store lines and build the tree."""
    await tell(app, lines)
    await app.pipeline.until_idle()
    await app.pipeline.lease.release()


async def all_nodes(app: App, project: str | None = None) -> list[Node]:
    return [node for level in Level for node in await app.store.nodes(NodeQuery.latest(project, level, 10_000))]


def conversation(day: str = "2026-03-02", session: str = "s1", project: str = "alpha") -> list[dict[str, Any]]:
    """A small talk with a request, a cause, a fix and an outcome."""
    rows = [
        ("09:00:00", "user", "Please fix the login timeout: users are thrown out after five minutes."),
        ("09:00:40", "assistant", "I will look at the session settings first."),
        ("09:01:10", "tool", "Read: app/session.py\nSESSION_TTL = 300\nREFRESH = False"),
        ("09:02:00", "assistant", "The cause is that SESSION_TTL is 300 seconds and refreshToken is never called."),
        ("09:03:30", "tool", "Edit: app/session.py\n- SESSION_TTL = 300\n+ SESSION_TTL = 3600"),
        ("09:04:00", "assistant", "I raised SESSION_TTL to 3600 because the mobile app refreshes only once an hour."),
        ("09:05:00", "tool", "Bash: pytest tests/test_session.py\n12 passed in 0.41s"),
        ("09:05:30", "assistant", "All 12 session tests pass now; the login timeout is fixed."),
    ]
    return [said(text, f"{day}T{at}Z", role=role, session=session, project=project) for at, role, text in rows]


async def pool(
    app: App,
    query: str,
    *,
    project: str | None = None,
    cited: bool = False,
    start_ms: int | None = None,
    end_ms: int | None = None,
    limit: int = 50,
) -> Pool:
    """What the index offers for a query."""
    return await app.store.pool(terms_of(query), Within(project, start_ms, end_ms), cited=cited, limit=limit)


def let_have_captured(home: Path) -> None:
    """As if a hook had told something that has long been sorted in."""
    with closing(sqlite3.connect(home / "inbox.db", isolation_level=None)) as inbox:
        inbox.execute("INSERT INTO inbox (received_ms, client, root, payload) VALUES (1, 'claude-code', '', '{}')")
        inbox.execute("DELETE FROM inbox")


def touch_now(path: Path) -> None:
    """Give a file the time of the test, since `--now` does not set the clock of the file system."""
    os.utime(path, (time.time(), time.time()))
