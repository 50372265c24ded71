"""Whole quarters of what was said are dropped on a server; what was made of them stays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.config import Calendar, Settings, StoreSettings
from mcp_memory.domain.events import EventQuery
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.nodes import Node, NodeQuery
from mcp_memory.domain.terms import Within, terms_of
from mcp_memory.domain.toc import Level
from mcp_memory.errors import SettingsError
from mcp_memory.navigate.browse import expand_grip
from mcp_memory.store.postgres import migrations
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.sql.database import SqlDatabase
from tests import postgres
from tests.pipeline.test_revise import Later
from tests.support import StoppedClock, all_nodes, conversation, learn, said, tell

pytestmark = pytest.mark.anyio
#: Two quarters before the clock's, one before, and its own.
DAYS = ("2025-11-04", "2026-02-03", "2026-05-05")
NOW = "2026-06-01T00:00:00Z"


@pytest.fixture
def url() -> Iterator[str]:
    url = postgres.new_database()
    yield url
    postgres.drop_database(url)


@asynccontextmanager
async def memory(home: Path, url: str, quarters: int = 0) -> AsyncIterator[App]:
    settings = Settings(home=home, calendar=Calendar("UTC"), store=StoreSettings(url, quarters))
    async with open_app(settings, cwd=home, clock=StoppedClock(NOW)) as app:
        yield app


def database(app: App) -> SqlDatabase:
    assert isinstance(app.store, PostgresStore)
    return app.store.database


async def retire(app: App) -> int:
    assert isinstance(app.store, PostgresStore)
    return await app.store.retire(app.clock.now_ms())


async def fill(app: App) -> None:
    """Three sessions of a quarter each, and one that goes on from the first quarter into the last."""
    lines = [line for day in DAYS for line in conversation(day, session=day)]
    long = [said(f"The kite of {day} needs a new tail.", f"{day}T15:00:00Z", session="long") for day in DAYS]
    await learn(app, [*lines, *long])


def told(nodes: list[Node]) -> list[tuple[object, ...]]:
    return [(node.node_id, node.title, [bullet.text for bullet in node.bullets]) for node in nodes]


def of_2025(nodes: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [node for node in nodes if "2025" in str(node[0])]


async def test_old_quarters_go_and_what_was_made_of_them_stays(tmp_path: Path, url: str) -> None:
    async with memory(tmp_path, url) as app:
        await fill(app)
        before = told(await all_nodes(app))
        old = next(node for node in await all_nodes(app) if node.session_id == DAYS[0])
    async with memory(tmp_path, url, 1) as app:
        await learn(app, [said("And now something else.", "2026-05-06T09:00:00Z", session="new")])
        names = [name for (name,) in await database(app).fetch("SELECT name FROM quarter ORDER BY name")]
        assert names == ["event_2026q1", "event_2026q2"]
        assert not await app.store.events(EventQuery(session_id=DAYS[0]))
        nodes = await all_nodes(app)
        assert [node for node in before if "2025" in str(node[0])] == [
            node for node in told(nodes) if "2025" in str(node[0])
        ]
        opened = await expand_grip(app.store, old.bullets[0].grip_ids[0], 2, 2)
        assert (opened.state, bool(opened.record.excerpt)) == ("gone", True)
        assert not await app.store.search(
            terms_of("mobile refreshes"), Within(None, None, 1_767_225_600_000), kinds=frozenset({"event"}), limit=9
        )
        assert await app.store.search(terms_of("login timeout"), Within(), kinds=frozenset({"segment"}), limit=9)
        # It goes no further, and nothing of it comes back.
        assert await retire(app) == 0
        assert await tell(app, conversation(DAYS[0], session=DAYS[0])) == 0
        assert await tell(app, conversation(DAYS[0], session="other")) == 0


async def test_what_goes_on_after_a_dropped_quarter_is_told_without_touching_what_is_left(
    tmp_path: Path, url: str
) -> None:
    async with memory(tmp_path, url, 1) as app:
        await fill(app)
        before = {node.node_id: node.version for node in await all_nodes(app) if node.ref.level is Level.SEGMENT}
        await learn(app, [said("The kite flies again.", "2026-05-05T15:01:00Z", session="long")])
        after = {node.node_id: node.version for node in await all_nodes(app) if node.ref.level is Level.SEGMENT}
        assert set(before) == set(after)
        assert [name for name in before if before[name] != after[name]] == [
            name for name in after if "2026-05-05" in name and after[name] == 2
        ]
        # A later summarizer leaves it alone, too.
        app.pipeline.summarizer = Later()
        await app.pipeline.until_idle()
        await app.pipeline.lease.release()
        kept = [node for node in await all_nodes(app) if node.ref.level is Level.SEGMENT and "2025" in node.node_id]
        assert len(kept) == 2
        assert {node.version for node in kept} == {1}


async def test_a_rebuild_and_a_forgetting_know_what_is_all_that_is_left(tmp_path: Path, url: str) -> None:
    async with memory(tmp_path, url, 1) as app:
        await fill(app)
        before = told(await all_nodes(app))
        await app.store.rebuild("UTC")
        await learn(app, [])
        assert told(await all_nodes(app)) == before
        tried, _ = await app.store.forget(ForgetRequest(session_id=DAYS[0]), dry_run=True)
        assert (tried.events, tried.summaries) == (0, 1)
        await app.store.forget(ForgetRequest(session_id=DAYS[0]), dry_run=False)
        await learn(app, [])
        nodes = await all_nodes(app)
        assert DAYS[0] not in {node.session_id for node in nodes}
        assert not [node for node in nodes if "2025" in node.node_id and "timeout" in str(told([node]))]
        assert {"long", DAYS[1]} <= {node.session_id for node in nodes}
        await app.store.forget(ForgetRequest(session_id="long"), dry_run=False)
        await learn(app, [])
        nodes = await all_nodes(app)
        assert not [node for node in nodes if "2025" in node.node_id]
        assert await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 9))


async def test_a_kill_at_any_step_is_taken_up(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "BATCH", 3)
    async with memory(tmp_path, url) as app:
        await fill(app)
    steps = 0
    while True:
        # Each step is a transaction; whoever comes next has only what was committed.
        async with memory(tmp_path, url, 1) as app:
            if not await retire(app):
                break
            steps += 1
            assert len(await app.store.nodes(NodeQuery.latest("alpha", Level.SEGMENT, 99))) == 6
    assert steps == 4
    async with memory(tmp_path, url, 1) as app:
        assert await database(app).value("SELECT count(*) FROM search WHERE level = -1") == (
            await database(app).value("SELECT count(*) FROM event")
        )


async def test_a_file_keeps_all(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="keep_quarters needs"):
        async with open_app(Settings(home=tmp_path, store=StoreSettings("", 4))):
            pass
