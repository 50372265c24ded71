"""The database's file in hard conditions: replaced while it is open, locked by others, where nothing can be written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mcp_memory.errors import StoreBusy, StoreFull, StoreReplaced
from mcp_memory.store.sql.database import Transaction
from mcp_memory.store.sqlite import migrations
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.sqlite.migrations import holder, is_fixed
from mcp_memory.store.sqlite.store import SqliteLease

posix = pytest.mark.skipif(sys.platform == "win32", reason="there, an open file can neither be removed nor replaced")
NOTE = "INSERT INTO meta VALUES (?, 'kept')"
HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path, *statements: str) -> Iterator[int]:
    """Another program that has the database open, after these statements; its process id."""
    command = [sys.executable, "-c", HOLD, str(path), *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.kill()


def remove(path: Path) -> None:
    for name in ("", "-wal", "-shm"):
        path.with_name(path.name + name).unlink()


def stored(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [key for (key,) in connection.execute("SELECT key FROM meta ORDER BY key")]


@posix
@pytest.mark.anyio
async def test_nothing_is_written_to_a_file_that_was_replaced(tmp_path: Path) -> None:
    path, backup = tmp_path / "memory.db", tmp_path / "backup.db"
    async with Database.open(backup) as database:
        await database.write(Transaction.run, NOTE, ("old",))
    async with Database.open(path) as database:
        await database.write(Transaction.run, NOTE, ("new",))
        remove(path)
        os.replace(backup, path)
        assert database.is_replaced()
        for attempt in (
            lambda: database.write(Transaction.run, NOTE, ("lost",)),
            lambda: database.value("SELECT count(*) FROM meta"),
            lambda: database.read(lambda connection: connection.execute("SELECT 1").fetchall()),
            database.scrub,
        ):
            with pytest.raises(StoreReplaced, match="replaced while it was open"):
                await attempt()
    assert stored(path) == ["old"]


@posix
@pytest.mark.anyio
async def test_a_write_is_given_up_if_the_file_goes_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    def work(tx: Transaction) -> None:
        tx.run(NOTE, ("lost",))
        remove(path)

    async with Database.open(path) as database:
        with pytest.raises(StoreReplaced):
            await database.write(work)
    assert not path.exists()


@posix
@pytest.mark.anyio
async def test_a_log_that_was_removed_by_hand_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Database.open(path) as database:
        await database.write(Transaction.run, NOTE, ("kept",))
        path.with_name("memory.db-wal").unlink()
        with pytest.raises(StoreReplaced):
            await database.write(Transaction.run, NOTE, ("lost",))
    assert stored(path) == ["kept"]


@posix
@pytest.mark.anyio
async def test_a_lease_whose_file_is_gone_is_released_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Database.open(path) as database:
        lease = SqliteLease(database)
        assert await lease.acquire()
        remove(path)
        await lease.release()
    assert not path.exists()


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system does not tell who holds a lock")
@pytest.mark.parametrize(
    "statements",
    [
        ("PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = DELETE", "BEGIN EXCLUSIVE"),
        ("BEGIN IMMEDIATE",),
    ],
    ids=["the whole file", "writing"],
)
@pytest.mark.anyio
async def test_who_keeps_others_from_the_file_is_named(tmp_path: Path, statements: tuple[str, ...]) -> None:
    path = tmp_path / "memory.db"
    async with Database.open(path) as database:
        await database.write(Transaction.run, NOTE, ("kept",))
    assert holder(path) == "another program"
    with held(path, *statements) as pid:
        assert f"(process {pid})" in holder(path)


@pytest.mark.anyio
async def test_a_file_that_another_program_keeps_to_itself_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.db"
    async with Database.open(path):
        pass
    monkeypatch.setattr(migrations, "_SECONDS", 0.1)
    alone = ("PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = DELETE", "BEGIN EXCLUSIVE")
    with held(path, *alone), pytest.raises(StoreBusy, match="locked by"):
        async with Database.open(path):
            pass


@pytest.fixture
def fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that cannot be written. Root may write anywhere, so the system's word for it is changed."""
    home = tmp_path / "fixed"
    usual = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != home and usual(place, mode))
    return home / "memory.db"


@pytest.mark.anyio
async def test_a_memory_that_cannot_be_written_can_be_read(fixed: Path, tmp_path: Path) -> None:
    async with Database.open(tmp_path / "memory.db") as database:
        await database.write(Transaction.run, NOTE, ("kept",))
    fixed.parent.mkdir()
    shutil.copy(tmp_path / "memory.db", fixed)
    assert is_fixed(fixed)
    async with Database.open(fixed) as database:
        assert await database.fetch("SELECT key FROM meta") == [("kept",)]
        assert await database.read(lambda connection: len(connection.execute("SELECT * FROM meta").fetchall())) == 1
        with pytest.raises(StoreFull, match="cannot be written"):
            await database.write(Transaction.run, NOTE, ("more",))
    assert [entry.name for entry in fixed.parent.iterdir()] == ["memory.db"]


def test_a_log_that_someone_writes_to_is_not_passed_over(fixed: Path) -> None:
    fixed.parent.mkdir()
    with closing(sqlite3.connect(fixed, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE meta (key TEXT)")
        assert not is_fixed(fixed)
    assert is_fixed(fixed)


@pytest.mark.anyio
async def test_an_older_memory_that_cannot_be_written_is_told(fixed: Path) -> None:
    fixed.parent.mkdir()
    with closing(sqlite3.connect(fixed, isolation_level=None)) as connection:
        migrations.create(connection)
        connection.execute("PRAGMA user_version = 1")
    with pytest.raises(StoreFull, match="older version"):
        async with Database.open(fixed):
            pass


def test_a_file_that_another_program_migrates_is_not_copied_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrations.create(connection)
        connection.execute("PRAGMA user_version = 1")
    monkeypatch.setattr(migrations, "_MIGRATING_MS", 50)
    with held(path, "PRAGMA journal_mode = WAL", "BEGIN IMMEDIATE"):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            migrations.migrate(path)
        assert not list(tmp_path.glob("*.bak*"))
