"""What `doctor` sees in a database that can still be opened."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.app import open_app
from mcp_memory.config import Calendar, Settings
from mcp_memory.domain.events import MESSAGES, EventQuery
from mcp_memory.errors import Damage, StoreCorrupt
from mcp_memory.store.sqlite.database import explain
from mcp_memory.store.sqlite.diagnosis import database, spool
from tests.support import StoppedClock, conversation, learn, tell

pytestmark = pytest.mark.anyio


async def stored(home: Path) -> Path:
    async with open_app(Settings(home=home, calendar=Calendar("UTC")), cwd=home, clock=StoppedClock()) as app:
        await learn(app, conversation())
        await tell(app, conversation("2026-03-05", session="s2"))
    return home / "memory.db"


async def test_a_whole_database_has_no_problem(tmp_path: Path) -> None:
    assert database(await stored(tmp_path))[1] == []


async def test_an_index_that_lacks_rows_is_found(tmp_path: Path) -> None:
    path = await stored(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = sql || ' WHERE id < 0' WHERE name = 'event_time'")
        connection.execute("PRAGMA writable_schema = RESET")
        connection.execute("REINDEX event_time")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = replace(sql, ' WHERE id < 0', '') WHERE name = 'event_time'")
        connection.commit()
    [problem] = database(path)[1]
    assert "event_time" in problem.why


async def test_a_damaged_search_index_is_found(tmp_path: Path) -> None:
    path = await stored(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE search_data SET block = substr(block, 1, 20) || zeroblob(length(block) - 20)")
        connection.commit()
    [problem] = database(path)[1]
    assert problem.what == f"{path} is damaged"
    assert "doctor --repair" in problem.fix


async def test_text_that_cannot_be_read_is_damage_and_is_not_quoted(tmp_path: Path) -> None:
    path = await stored(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE event SET text = CAST(x'68656c6c6fa5' AS TEXT) WHERE id = 1")
        connection.commit()
    [problem] = database(path)[1]
    assert "not UTF-8" in problem.why
    async with open_app(Settings(home=tmp_path, calendar=Calendar("UTC")), cwd=tmp_path) as app:
        with pytest.raises(StoreCorrupt, match="not UTF-8") as raised:
            await app.store.events(EventQuery(session_id="s1", types=MESSAGES, last=40))
    assert "hello" not in str(raised.value)
    assert isinstance(explain(sqlite3.OperationalError("Could not decode to UTF-8 column 'x'"), path), StoreCorrupt)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("DROP TABLE mention", "mention."),
        ("ALTER TABLE segment RENAME COLUMN closed TO shut", "segment.closed is missing"),
        ("PRAGMA user_version = 0", "bears no version"),
        ("PRAGMA user_version = -5", "bears no version"),
    ],
)
async def test_tables_that_are_not_those_of_the_version_are_damage(tmp_path: Path, change: str, why: str) -> None:
    path = await stored(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
        connection.commit()
    [problem] = database(path)[1]
    assert why in problem.why
    assert "doctor --repair" in problem.fix


@pytest.mark.parametrize("told", ["no such table: segment", "no such column: closed", "table meta already exists"])
def test_tables_of_no_version_are_told_as_damage(told: str) -> None:
    error = explain(sqlite3.OperationalError(told), Path("memory.db"))
    assert isinstance(error, StoreCorrupt)
    assert "doctor --repair" in str(error)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are a matter of POSIX")
async def test_a_database_without_room_beside_it_is_not_called_damaged(tmp_path: Path) -> None:
    import resource

    path = await stored(tmp_path)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, usual[1]))
    try:
        [problem] = database(path)[1]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert "Free some space" in problem.fix
    assert not isinstance(problem, Damage)
    assert database(path)[1] == []


def test_files_set_aside_in_the_spool_are_told_from_captures_that_wait(tmp_path: Path) -> None:
    (tmp_path / "1.unreadable").write_text("{oops")
    [problem] = spool(tmp_path, 10**15)
    assert "cannot be read" in problem.what
    assert problem.fix == f"rm {tmp_path}/*.unreadable"
    (tmp_path / "2.json").write_text("{}")
    assert [found.what for found in spool(tmp_path, 10**15)][1:] == ["the spool is growing"]


async def test_files_that_belong_to_someone_else_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write anywhere, so the system's word for it is changed."""
    path = await stored(tmp_path)
    (tmp_path / "spool").mkdir()
    foreign = {path, tmp_path / "spool"}
    usual = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) not in foreign and usual(place, mode))
    [problem] = database(path)[1]
    assert problem.what == f"{path} cannot be written"
    assert f'chown "$USER" {path}' in problem.fix
    [problem] = spool(tmp_path / "spool", 0)
    assert problem.what == f"{tmp_path / 'spool'} cannot be used"
