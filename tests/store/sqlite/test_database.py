"""The database: all or nothing, private, and errors that tell the next step."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from mcp_memory.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreNewer, StoreRejected
from mcp_memory.store.sql.database import Transaction
from mcp_memory.store.sqlite.database import Database, SqliteSnapshot, explain, told
from mcp_memory.store.sqlite.migrations import latest

pytestmark = pytest.mark.anyio


async def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def fail(tx: Transaction) -> None:
        tx.run("INSERT INTO meta VALUES ('a', 'b')")
        raise RuntimeError("stop")

    async with Database.open(tmp_path / "memory.db") as database:
        with pytest.raises(RuntimeError, match="stop"):
            await database.write(fail)
        assert await database.value("SELECT count(*) FROM meta") == 0


async def test_a_write_whose_caller_is_cancelled_is_finished_and_the_next_one_works(tmp_path: Path) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        tx.run("INSERT INTO meta VALUES ('a', 'b')")
        begun.set()
        assert cancelled.wait(10)
        tx.run("INSERT INTO meta VALUES ('c', 'd')")

    async def cancel(scope: anyio.CancelScope) -> None:
        await to_thread.run_sync(begun.wait)
        scope.cancel()
        cancelled.set()

    async with Database.open(tmp_path / "memory.db") as database:
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                group.start_soon(cancel, scope)
                await database.write(slow)
        await database.write(Transaction.run, "INSERT INTO meta VALUES ('e', 'f')")
        assert await database.fetch("SELECT key FROM meta ORDER BY key") == [("a",), ("c",), ("e",)]


async def test_reads_that_belong_together_see_one_state(tmp_path: Path) -> None:
    def look(connection: sqlite3.Connection) -> list[int]:
        seen = []
        for _ in range(2):
            seen.append(connection.execute("SELECT count(*) FROM meta").fetchone()[0])
            with sqlite3.connect(tmp_path / "memory.db") as writing:
                writing.execute("INSERT INTO meta VALUES (?, '')", (str(len(seen)),))
            writing.close()
        return seen

    async with Database.open(tmp_path / "memory.db") as database:
        assert await database.read(look) == [0, 0]
        assert await database.value("SELECT count(*) FROM meta") == 2


async def test_what_is_done_at_once_sees_one_state_in_one_other_thread(tmp_path: Path) -> None:
    threads: set[int] = set()

    async def count(snapshot: SqliteSnapshot) -> int:
        threads.add(threading.get_ident())
        return int(await snapshot.value("SELECT count(*) FROM meta"))

    async with Database.open(tmp_path / "memory.db") as database:

        async def look(snapshot: SqliteSnapshot) -> list[int]:
            before = await count(snapshot)
            with sqlite3.connect(database.path) as writing:
                writing.execute("INSERT INTO meta VALUES ('a', '')")
            writing.close()
            return [before, await count(snapshot), len(await snapshot.fetch("SELECT key FROM meta"))]

        assert await database.at_once(look) == [0, 0, 0]
        assert await database.at_once(count) == 1
    assert threading.get_ident() not in threads


async def test_what_is_done_at_once_may_not_wait_and_the_next_read_works(tmp_path: Path) -> None:
    async def wait(snapshot: SqliteSnapshot) -> int:
        await asyncio.sleep(0)
        return 1

    async def fail(snapshot: SqliteSnapshot) -> None:
        await snapshot.fetch("SELECT 1 FROM nowhere")

    async with Database.open(tmp_path / "memory.db") as database:
        with pytest.raises(RuntimeError, match="Only the snapshot may be awaited"):
            await database.at_once(wait)
        with pytest.raises(StoreError, match="no such table"):
            await database.at_once(fail)
        assert await database.value("SELECT 1") == 1


async def test_what_fails_while_reading_is_told_and_the_next_read_works(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "memory.db") as database:
        with pytest.raises(StoreError, match="no such table"):
            await database.read(lambda connection: connection.execute("SELECT 1 FROM nowhere").fetchall())
        with pytest.raises(StoreFull):
            await database.read(lambda connection: connection.execute("DELETE FROM meta").fetchall())
        assert await database.read(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)


async def test_what_made_sqlite_roll_back_is_what_is_reported(tmp_path: Path) -> None:
    def look(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")  # as SQLite does by itself when it cannot read on
        raise sqlite3.OperationalError("disk I/O error")

    async with Database.open(tmp_path / "memory.db") as database:
        with pytest.raises(StoreFull, match="disk I/O error"):
            await database.read(look)
        assert await database.read(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)


async def test_writes_of_one_process_wait_for_each_other(tmp_path: Path) -> None:
    def add(tx: Transaction, number: int) -> None:
        (count,) = tx.fetch("SELECT count(*) FROM meta")[0]
        time.sleep(0.001)
        tx.run("INSERT INTO meta VALUES (?, ?)", (str(number), str(count)))

    async with Database.open(tmp_path / "memory.db") as database:
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(database.write, add, number)
        counts = sorted(int(value) for (value,) in await database.fetch("SELECT value FROM meta"))
    assert counts == list(range(20))


async def test_data_version_tells_of_another_writer(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Database.open(path) as database:
        before = await database.data_version()
        other = sqlite3.connect(path)
        other.execute("INSERT INTO meta VALUES ('other', 'was here')")
        other.commit()
        other.close()
        assert await database.data_version() != before


async def test_a_damaged_file_is_reported_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(b"this is no database at all" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="doctor --repair"):
        async with Database.open(path):
            pass
    assert path.read_bytes() == before


async def test_damage_met_after_a_write_is_not_said_to_have_changed_nothing(tmp_path: Path) -> None:
    def meet_damage(tx: Transaction) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    async with Database.open(tmp_path / "memory.db") as database:
        with pytest.raises(StoreCorrupt, match="Nothing was changed"):
            await database.write(meet_damage)
        await database.write(Transaction.run, "INSERT INTO meta VALUES ('a', 'b')")
        with pytest.raises(StoreCorrupt, match="What could not be finished was undone"):
            await database.write(meet_damage)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
async def test_the_data_directory_and_its_files_are_the_users_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with Database.open(home / "memory.db") as database:
        await database.write(Transaction.run, "INSERT INTO meta VALUES ('a', 'b')")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in home.iterdir()}
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert set(modes.values()) == {0o600}
    assert "memory.db-wal" in modes


async def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreFull, match="MCP_MEMORY_HOME"):
        async with Database.open(tmp_path / "file" / "memory.db"):
            pass


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("database is locked", StoreBusy),
        ("database disk image is malformed", StoreCorrupt),
        ("file is not a database", StoreCorrupt),
        ("database or disk is full", StoreFull),
        ("disk I/O error", StoreFull),
        ("attempt to write a readonly database", StoreFull),
        ("string or blob too big", StoreRejected),
    ],
)
def test_sqlite_errors_become_ours(text: str, kind: type[Exception], tmp_path: Path) -> None:
    error = explain(sqlite3.OperationalError(text), tmp_path / "memory.db")
    assert type(error) is kind
    assert "memory.db" in str(error)


async def test_a_file_that_a_later_version_migrates_while_it_is_open_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Database.open(path) as database:
        with closing(sqlite3.connect(path)) as later:
            later.execute(f"PRAGMA user_version = {latest() + 1}")
            later.execute("ALTER TABLE meta RENAME COLUMN value TO worth")
            later.commit()
        with pytest.raises(StoreNewer, match="start your agent anew"):
            await database.write(Transaction.run, "INSERT INTO meta (key) VALUES ('a')")
        # It is not damaged, and must not be set aside.
        with pytest.raises(StoreNewer):
            await database.value("SELECT value FROM meta")


async def test_closing_waits_for_threads_that_their_callers_no_longer_wait_for(tmp_path: Path) -> None:
    """An interrupt cancels in asyncio's own way, from which no scope of ours shields."""
    begun, closing_soon, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        tx.run("INSERT INTO meta VALUES ('a', 'b')")
        begun.set()
        assert closing_soon.wait(10)
        time.sleep(0.1)
        tx.run("INSERT INTO meta VALUES ('c', 'd')")
        ended.set()

    async with Database.open(tmp_path / "memory.db") as database:
        task = asyncio.ensure_future(database.write(slow))
        await to_thread.run_sync(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        closing_soon.set()
    assert ended.is_set()
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        assert connection.execute("SELECT key FROM meta").fetchall() == [("a",), ("c",)]


def test_a_reader_that_has_gone_is_no_fault_of_the_memory(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), told(tmp_path / "memory.db"):
        raise BrokenPipeError
    with pytest.raises(StoreFull), told(tmp_path / "memory.db"):
        raise OSError("no space")
