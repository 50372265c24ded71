"""The candidates that SQLite offers for ranking, beyond what holds for every index (test_index_contract.py)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mcp_memory.domain import terms
from mcp_memory.domain.terms import Pool, Within
from mcp_memory.store.sql.pool import _CITED, _GRIPS_OF
from mcp_memory.store.sqlite import fts5
from mcp_memory.store.sqlite.store import SqliteStore
from tests.support import conversation, memory, pool, said, tell

pytestmark = pytest.mark.anyio


def texts(found: Pool) -> list[str]:
    return [message.text for message in found.messages[: found.matched]]


async def test_a_frequent_term_is_estimated_and_left_out_of_the_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fts5, "COUNTED", 10)
    monkeypatch.setattr(terms, "SCANNED", 50)
    lines = [said(f"common thing {n}", f"2026-03-02T10:{n % 60:02}:{n // 60:02}Z", session=f"s{n}") for n in range(300)]
    lines.append(said("a rare bird", "2026-03-03T10:00:00Z", session="rare"))
    async with memory(tmp_path) as app:
        await tell(app, lines)
        found = await pool(app, "common rare")
        assert texts(found) == ["a rare bird"]
        common, rare = found.frequencies.values()
        assert (250 <= common <= 350, rare) == (True, 1)


async def test_of_a_word_that_stands_everywhere_the_latest_events_are_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fts5, "SCANNED", 20)
    lines = [said(f"common thing {n}", f"2026-03-02T10:{n % 60:02}:{n // 60:02}Z", session=f"s{n}") for n in range(200)]
    async with memory(tmp_path) as app:
        await tell(app, [*lines, said("common, uncommonly rare", "2026-03-01T10:00:00Z")])
        latest = {int(text.split()[-1]) for text in texts(await pool(app, "common")) if text.startswith("common thing")}
        assert len(latest) >= 20
        assert min(latest) >= 170
        assert "common, uncommonly rare" in texts(await pool(app, "common rare"))
        monkeypatch.setattr(fts5, "LITTLE", 0)
        # Of a project that has none of the latest, all is ranked; so is all in a time.
        older = [said(f"common bird {n}", f"2026-02-01T10:00:{n:02}Z", session="o", project="old") for n in range(30)]
        await tell(app, [*older, *(said(f"common fish {n}", f"2026-03-04T10:00:{n:02}Z") for n in range(60))])
        assert len(texts(await pool(app, "common", project="old"))) == 30
        assert len(texts(await pool(app, "common", end_ms=1_772_452_800_000))) > 40


async def test_a_short_key_opens_what_it_begins(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, conversation())
        ((_, event), *_) = await app.store.log(0, None, 1)
        assert await app.store.keys(event.key[:5]) == [event.key]
        assert await app.store.keys(bytes(5)) == []


async def test_a_filter_that_keeps_everything_changes_no_order(tmp_path: Path) -> None:
    lines = [
        said(
            f"the parrot {'and some more of it ' * (n % 7)}{'parrot ' * (n % 3)}",
            f"2026-03-02T10:{n:02}:00Z",
            role="user" if n % 2 else "assistant",
        )
        for n in range(40)
    ]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        everything = texts(await pool(app, "parrot some"))
        assert len(everything) == 40
        assert texts(await pool(app, "parrot some", start_ms=0)) == everything


def in_march(day: int) -> int:
    return int(datetime(2026, 3, day, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize("little", [0, 1_000])
async def test_a_time_holds_the_same_whether_little_or_much_was_said_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, little: int
) -> None:
    monkeypatch.setattr(fts5, "LITTLE", little)
    async with memory(tmp_path) as app:
        for day in range(1, 6):
            project = "alpha" if day % 2 else "beta"
            line = said(f"the walrus of day {day}", f"2026-03-0{day}T10:00:00Z", session=f"s{day}", project=project)
            await tell(app, [line, said("no bird", f"2026-03-0{day}T11:00:00Z", session=f"s{day}", project=project)])
        within = await pool(app, "walrus", start_ms=in_march(2), end_ms=in_march(5))
        assert sorted(texts(within)) == [f"the walrus of day {day}" for day in (2, 3, 4)]
        of_one = await pool(app, "walrus", project="beta", start_ms=in_march(2), end_ms=in_march(5))
        assert sorted(texts(of_one)) == [f"the walrus of day {day}" for day in (2, 4)]
        assert texts(await pool(app, "walrus", start_ms=in_march(5))) == ["the walrus of day 5"]
        assert texts(await pool(app, "walrus", end_ms=in_march(2))) == ["the walrus of day 1"]
        assert texts(await pool(app, "walrus", start_ms=in_march(20))) == []


async def test_a_time_is_silent_in_which_nothing_was_said_in_the_project(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, [said("the walrus", "2026-03-02T10:00:00Z", project="alpha")])
        await tell(app, [said("the bird", "2026-03-04T10:00:00Z", session="s2", project="beta")])
        second, third = in_march(2), in_march(3)
        assert not await app.store.is_silent(Within(None, second, third))
        assert not await app.store.is_silent(Within("alpha", second, third))
        assert await app.store.is_silent(Within("beta", second, third))
        assert await app.store.is_silent(Within(None, third, in_march(4)))


async def test_grips_of_an_event_are_found_by_the_event(tmp_path: Path) -> None:
    """Nearly all grips are live: whoever goes by that reads all of them for each answer."""
    async with memory(tmp_path) as app:
        assert isinstance(app.store, SqliteStore)
        for sql in (_GRIPS_OF.format(marks="?, ?"), f"SELECT {_CITED} FROM event e".replace("e.id", "?")):
            plan = [
                row[3] for row in await app.store.database.fetch(f"EXPLAIN QUERY PLAN {sql}", (1, 2)[: sql.count("?")])
            ]
            assert [step for step in plan if "grip_event (event=?)" in step], plan
            assert not [step for step in plan if "grip_live" in step], plan
