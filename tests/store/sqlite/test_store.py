"""What concerns the whole: events with impossible times, as an earlier version could have stored them, and merging."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.events import TIMES
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.toc import Level
from mcp_memory.store.sql.database import Transaction
from tests.support import StoppedClock, all_nodes, conversation, database_of, learn, memory, said, tell

pytestmark = pytest.mark.anyio
YEAR_1, YEAR_20000 = -62_135_596_800_000, 568_971_820_800_000
FARTHEST = [YEAR_1, YEAR_20000, -(1 << 63), (1 << 63) - 1, TIMES.start - 1, TIMES.stop]


def move(path: Path, number: int, moment: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE event SET timestamp_ms = ? WHERE id = ?", (moment, number))
        connection.commit()


async def years(app: App) -> set[str]:
    return {node.ref.key for node in await app.store.nodes(NodeQuery.latest(None, Level.YEAR, 10))}


@pytest.mark.parametrize("moment", FARTHEST)
async def test_an_event_of_an_impossible_time_gets_that_of_its_neighbour(
    tmp_path: Path, moment: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory(tmp_path) as app:
        await tell(app, conversation())
        before = await database_of(app).fetch("SELECT timestamp_ms FROM event ORDER BY id")
    move(tmp_path / "memory.db", 2, moment)
    async with memory(tmp_path) as app:
        after = await database_of(app).fetch("SELECT timestamp_ms FROM event ORDER BY id")
        assert after[1] in (before[0], before[2])
        assert [*after[:1], *after[2:]] == [*before[:1], *before[2:]]
        await app.pipeline.until_idle()
        assert await years(app) == {"2026"}
    assert caplog.text.count("times that cannot be") == 1


async def test_what_was_made_of_an_impossible_time_goes(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, conversation())
        async with memory(tmp_path) as other:
            # It is open already, and so builds a tree of what it finds.
            move(tmp_path / "memory.db", 1, YEAR_1)
            await other.pipeline.until_idle()
            assert await years(other) == {"0001", "2026"}
            await other.pipeline.lease.release()
    async with memory(tmp_path) as app:
        await app.pipeline.until_idle()
        assert await years(app) == {"2026"}


async def test_a_session_of_nothing_else_took_place_now(tmp_path: Path) -> None:
    clock = StoppedClock()
    async with memory(tmp_path, clock) as app:
        await learn(app, [said("Mend the fence.", "2026-03-02T10:00:00Z")])
    move(tmp_path / "memory.db", 1, YEAR_20000)
    async with memory(tmp_path, clock) as app:
        assert await database_of(app).value("SELECT timestamp_ms FROM event") == clock.now_ms()


async def test_a_merge_gives_one_tree_and_keeps_every_word(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), *conversation("2026-03-03", session="s2", project="beta")])
        assert await app.store.merge("beta", "alpha") == 1
        await learn(app, [])
        nodes = await all_nodes(app)
        assert {node.project for node in nodes} == {"alpha"}
        assert {node.ref.key for node in nodes if node.level == 3} == {"2026-03-02", "2026-03-03"}
        found, _ = await app.answers.search("mobile app", "alpha")
        assert {hit.session_id for hit in found.hits if hit.kind in ("event", "grip")} == {"s1", "s2"}
        await database_of(app).write(Transaction.run, "INSERT INTO search (search) VALUES ('integrity-check')")
