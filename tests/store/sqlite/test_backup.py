"""Backups: made while everyone works, checked before they count, and never holding what was forgotten."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from mcp_memory.app import App
from mcp_memory.errors import StoreCorrupt
from mcp_memory.pipeline import loop
from mcp_memory.store.sql.database import Transaction, note_erasure
from mcp_memory.store.sqlite import backup
from mcp_memory.store.sqlite.backup import Backups, backups_of, copies_of
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.sqlite.store import SqliteLease
from tests.support import StoppedClock, conversation, database_of, file_of, learn, memory, tell

pytestmark = pytest.mark.anyio


def keeper(database: Database, clock: StoppedClock, keep: int = 2, holder: str = "here:1") -> Backups:
    return Backups(database, keep, SqliteLease(database, holder, name="backup"), clock)


def count(path: Path) -> int:
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return int(connection.execute("SELECT count(*) FROM event").fetchone()[0])


async def test_a_backup_is_a_whole_private_copy(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        made = await keeper(file_of(app), StoppedClock()).refresh()
    assert made is not None
    assert made.parent == tmp_path / "backups"
    assert count(made) == 8
    assert made.stat().st_mode & 0o077 == 0
    assert list(made.parent.iterdir()) == [made]


async def test_an_empty_memory_needs_none(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        assert await keeper(file_of(app), StoppedClock()).refresh() is None
    assert not (tmp_path / "backups").exists()


async def test_one_a_day_is_made_if_anything_was_written_and_the_newest_are_kept(tmp_path: Path) -> None:
    clock = StoppedClock()
    async with memory(tmp_path, clock) as app:
        backups = keeper(file_of(app), clock)
        made = []
        for day in range(1, 5):
            await tell(app, conversation(f"2026-03-{day:02d}", session=f"s{day}"))
            made.append(await backups.refresh())
            assert await backups.refresh() is None
            clock.move(hours=23)
            await tell(app, conversation(f"2026-04-{day:02d}", session=f"t{day}"))
            assert await backups.refresh() is None
            clock.move(hours=1)
        clock.move(days=9)
        last = await backups.refresh()
        clock.move(days=9)
        assert await backups.refresh() is None
    assert None not in made
    assert backups_of(file_of(app).path) == [made[-1], last]
    assert count(backups_of(file_of(app).path)[-1]) == 64


async def test_much_that_is_new_is_not_left_until_the_next_day(tmp_path: Path) -> None:
    clock = StoppedClock()
    async with memory(tmp_path, clock) as app:
        await tell(app, conversation())
        backups = keeper(file_of(app), clock)
        assert await backups.refresh()
        clock.move(seconds=1)
        await database_of(app).write(
            Transaction.run, "UPDATE sqlite_sequence SET seq = seq + 1005 WHERE name = 'event'"
        )
        assert await backups.refresh()


async def test_with_keep_0_none_is_made(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, conversation())
        assert await keeper(file_of(app), StoppedClock(), keep=0).refresh() is None


async def test_of_two_servers_one_makes_it(tmp_path: Path) -> None:
    clock, made = StoppedClock(), []

    async def ask(app: App, holder: str) -> None:
        made.append(await keeper(file_of(app), clock, holder=holder).refresh())

    async with memory(tmp_path, clock) as one, memory(tmp_path, clock) as two:
        await tell(one, conversation())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, one, "elsewhere:1")
            tasks.start_soon(ask, two, "elsewhere:2")
        assert await keeper(file_of(two), clock, holder="elsewhere:3").refresh() is None
    assert sorted(path is None for path in made) == [False, True]
    assert len(backups_of(tmp_path / "memory.db")) == 1


async def test_writes_go_on_meanwhile_and_the_copy_is_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_memory.store.sqlite.migrations._PAGES", 1)
    async with memory(tmp_path) as app, memory(tmp_path) as other:
        await tell(app, conversation())
        steps = 0

        def write(*_: object) -> bool:
            nonlocal steps
            steps += 1
            anyio.from_thread.run(tell, other, conversation(f"2026-05-{steps:02d}", session=f"w{steps}"))
            return False

        backups = keeper(file_of(app), StoppedClock())
        target = tmp_path / "backups" / "memory-0000000000001-1.db"
        calls = iter([write] * 5)
        assert await anyio.to_thread.run_sync(backups._make, target, lambda: next(calls, lambda: False)())
        assert await database_of(app).value("SELECT count(*) FROM event") == 48
    assert (steps, count(target)) == (5, 8)


async def test_a_server_that_ends_does_not_wait_for_it(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, conversation())
        target = tmp_path / "backups" / "memory-0000000000001-1.db"
        assert keeper(file_of(app), StoppedClock())._make(target, lambda: True) is None
    assert list(target.parent.iterdir()) == []


async def test_what_is_damaged_takes_no_backups_place(tmp_path: Path) -> None:
    clock = StoppedClock()
    async with memory(tmp_path, clock) as app:
        await tell(app, conversation())
        backups = keeper(file_of(app), clock, keep=1)
        good = await backups.refresh()
        await tell(app, conversation(session="s2"))
        await database_of(app).value("PRAGMA wal_checkpoint(TRUNCATE)")
        page = await database_of(app).value("SELECT rootpage FROM sqlite_schema WHERE name = 'event_time'")
        with (tmp_path / "memory.db").open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(os.urandom(4096))
        clock.move(days=2)
        with pytest.raises(StoreCorrupt, match="doctor --repair"):
            await backups.refresh()
    assert list((tmp_path / "backups").iterdir()) == [good]


async def test_what_was_erased_and_is_still_in_the_file_is_not_copied(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, conversation())
        await database_of(app).write(note_erasure)
        backups = keeper(file_of(app), StoppedClock())
        assert await backups.refresh() is None
        await file_of(app).scrub()
        assert await backups.refresh()


async def test_a_copy_that_was_being_made_when_something_was_forgotten_is_not_kept(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, conversation())
        target = tmp_path / "backups" / "memory-0000000000001-1.db"

        def forget() -> bool:
            if not database_of(app).write_here(Transaction.fetch, "SELECT 1 FROM meta WHERE key = 'erasures'"):
                database_of(app).write_here(note_erasure)
            return False

        made = await anyio.to_thread.run_sync(keeper(file_of(app), StoppedClock())._make, target, forget)
    assert made is None
    assert list(target.parent.iterdir()) == []


async def test_all_copies_are_known_unfinished_ones_too(tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    ours = ["backups/memory-0000000000001-1.db", "backups/memory-0000000000002-1.db.tmp", "memory.db.schema-2.bak"]
    for name in (*ours, "backups/0f3a", "backups/settings.json"):
        (tmp_path / name).touch()
    assert sorted(copies_of(tmp_path / "memory.db")) == [tmp_path / name for name in ours]


async def test_the_loop_makes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "BACKUP_SECONDS", 0.0)
    done = anyio.Event()
    original = backup.Backups._make

    def make(self: Backups, *args: object) -> Path | None:
        made = original(self, *args)  # type: ignore[arg-type]
        anyio.from_thread.run_sync(done.set)
        return made

    monkeypatch.setattr(backup.Backups, "_make", make)
    async with memory(tmp_path) as app:
        await tell(app, conversation())
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(app.pipeline.run)
                await done.wait()
                tasks.cancel_scope.cancel()
    assert count(backups_of(tmp_path / "memory.db")[0]) == 8
