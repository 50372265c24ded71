"""Every answer is read from one moment: one trip to the database, and no writer is half seen."""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

import anyio
import pytest

from mcp_memory.app import open_app
from mcp_memory.config import Index, Settings
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.toc import Level
from mcp_memory.store.sql.reads import SqlReader
from mcp_memory.store.sqlite.database import Database
from mcp_memory.surfaces import look_commands, work_commands
from tests.support import needs_whoosh
from tests.surfaces.client import GRIP, ask, connected
from tests.surfaces.test_tools import QUESTIONS

pytestmark = pytest.mark.anyio
LOOP = {"pipeline", "upgrades", "backups", "recorder"}
DAY = "toc:day:2026-10-26"
OPTIONS = {"project": None, "topic": None, "json": True, "budget": None, "history": False}
COMMANDS: list[tuple[str, dict[str, Any]]] = [
    ("toc", {"depth": "day", "topic": "booking"}),
    ("toc", {"depth": "segment", "json": False}),
    ("node", {"id": DAY, "history": True}),
    ("search", {"query": "refresh tokens", "when": None, "kind": None, "limit": 9, "cursor": None, "diverse": False}),
    ("timeline", {"when": "October 2026"}),
    ("timeline", {"when": "October 2026", "json": False}),
    ("here", {}),
    ("last", {"json": False}),
    ("today", {"json": False}),
    ("open_work", {"limit": 5, "json": False}),
    ("file", {"path": "app/auth.py", "limit": 5, "json": False}),
    ("sessions", {"client": None, "limit": 5, "json": False}),
]


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What goes to the database's threads for an answer; not what the loop does meanwhile, or who waits for news."""
    made: list[str] = []

    def note(what: str) -> None:
        if anyio.get_current_task().name not in LOOP and "data_version" not in what:
            made.append(what)

    read, fetch = Database.read, Database.fetch

    async def reading(self: Database, *args: Any, **named: Any) -> Any:
        note("read")
        return await read(self, *args, **named)

    async def fetching(self: Database, sql: str, *values: Any) -> Any:
        note(sql)
        return await fetch(self, sql, *values)

    monkeypatch.setattr(Database, "read", reading)
    monkeypatch.setattr(Database, "fetch", fetching)
    return made


@pytest.mark.parametrize(("tool", "arguments"), QUESTIONS, ids=lambda value: str(value)[:40])
async def test_a_tool_makes_one_trip_to_the_database(
    settings: Settings, trips: list[str], tool: str, arguments: dict[str, Any]
) -> None:
    async with connected(settings) as client:
        await ask(client, "toc_root")
        trips.clear()
        await ask(client, tool, **arguments)
        assert trips == ["read"]


@needs_whoosh
async def test_an_index_with_files_of_its_own_answers_in_the_same_trip(settings: Settings, trips: list[str]) -> None:
    async with open_app(replace(settings, index=Index("whoosh"))) as app:
        while await app.index.catch_up():
            pass
        trips.clear()
        found, _ = await app.answers.teleport("refresh tokens", None, budget=600)
    assert found.hits
    assert trips == ["read"]


@pytest.mark.parametrize(("name", "given"), COMMANDS, ids=lambda value: str(value)[:40])
async def test_a_command_that_reads_makes_one_trip_to_the_database(
    settings: Settings, trips: list[str], name: str, given: dict[str, Any]
) -> None:
    async with open_app(settings, typed=True) as app:
        trips.clear()
        module = look_commands if hasattr(look_commands, name) else work_commands
        await getattr(module, name)(app, argparse.Namespace(**OPTIONS | given))
    assert trips == ["read"]


async def test_an_answer_holds_nothing_of_what_is_written_while_it_is_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the node itself and its children, someone takes all segments out of the tree and commits."""
    nodes, writes = SqlReader.nodes, 0

    async def then_written(self: SqlReader, query: NodeQuery) -> Any:
        nonlocal writes
        found = await nodes(self, query)
        if query.refs and not writes:
            writes += 1
            with closing(sqlite3.connect(settings.database, isolation_level=None)) as other:
                other.execute("UPDATE node SET removed = 1 WHERE level = ?", (int(Level.SEGMENT),))
        return found

    monkeypatch.setattr(SqlReader, "nodes", then_written)
    async with connected(settings) as client:
        answer = await ask(client, "get_node", node_id=DAY, budget_tokens=2_000)
        after = await ask(client, "get_node", node_id=DAY, budget_tokens=2_000)
    assert writes == 1
    assert "toc:segment:" in answer
    assert "toc:segment:" not in GRIP.sub("", after)
