"""The lease: one holder at a time, and no write by one who has lost it."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from mcp_memory.errors import LeaseLost
from mcp_memory.store.sql.database import Transaction
from mcp_memory.store.sql.lease import DURATION_SECONDS
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.sqlite.store import SqliteLease, SqliteStore
from tests.support import REPO

pytestmark = pytest.mark.anyio
#: Runs a command among process numbers of its own, as a container does.
APART = [shutil.which("unshare") or "false", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]


class Watch:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


def two_of(database: Database, watch: Watch) -> tuple[SqliteLease, SqliteLease]:
    return SqliteLease(database, "elsewhere:1", clock=watch), SqliteLease(database, "elsewhere:2", clock=watch)


async def test_only_one_holds_it_until_it_is_no_longer_renewed(tmp_path: Path) -> None:
    watch = Watch()
    async with Database.open(tmp_path / "memory.db") as database:
        one, two = two_of(database, watch)
        assert await one.acquire()
        assert not await two.acquire()
        watch.seconds += DURATION_SECONDS - 1
        assert not await two.acquire()
        assert await one.acquire()
        watch.seconds += DURATION_SECONDS - 1
        assert not await two.acquire()
        assert one.holds()
        watch.seconds += DURATION_SECONDS
        assert not one.holds()
        assert await two.acquire()
        assert (two.holds(), await one.acquire()) == (True, False)


async def test_a_release_lets_the_next_one_in_at_once(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "memory.db") as database:
        one, two = two_of(database, Watch())
        assert await one.acquire()
        await one.release()
        assert not one.holds()
        assert await two.acquire()


async def test_whoever_lost_it_cannot_write_any_more(tmp_path: Path) -> None:
    watch = Watch()
    async with Database.open(tmp_path / "memory.db") as database:
        one, two = two_of(database, watch)
        assert await one.acquire()
        assert not await two.acquire()
        watch.seconds += DURATION_SECONDS
        assert await two.acquire()
        with pytest.raises(LeaseLost):
            await SqliteStore(database).add([], lease_token=one.token)
        assert await SqliteStore(database).add([], lease_token=two.token) == 0


async def test_no_jump_of_the_wall_clock_moves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, wall = Watch(), time.time_ns()
    async with Database.open(tmp_path / "memory.db") as database:
        one, two = two_of(database, watch)
        assert await one.acquire()
        for jump in (10**18, -(10**18)):
            monkeypatch.setattr(time, "time_ns", lambda jump=jump: wall + jump)
            assert not await two.acquire()
            assert one.holds()
            assert await one.acquire()
        assert not await two.acquire()
        watch.seconds += DURATION_SECONDS
        assert await two.acquire()


async def test_it_is_renewed_while_the_event_loop_is_busy(tmp_path: Path) -> None:
    """One long summary must not lose it: the next holder would lose it at the same place, and so on for ever."""
    async with Database.open(tmp_path / "memory.db") as database:
        one = SqliteLease(database, "elsewhere:1", duration=2.0)
        assert await one.acquire()
        renewed: list[int] = []
        with closing(sqlite3.connect(tmp_path / "memory.db")) as other:
            async with one.kept():
                begin = time.monotonic()
                while len(renewed) < 3 and time.monotonic() < begin + 60:
                    # Nothing here lets the event loop go on.
                    (expires,) = other.execute("SELECT expires_ms FROM lease").fetchone()
                    renewed += [expires] if expires not in renewed else []
                assert one.holds()
        assert len(renewed) == 3


async def test_a_renewal_that_finds_another_holder_ends_it(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "memory.db") as database:
        one = SqliteLease(database, "elsewhere:1", duration=0.2)
        assert await one.acquire()
        await database.write(Transaction.run, "UPDATE lease SET holder = 'elsewhere:2', token = token + 1")
        with anyio.fail_after(30):
            async with one.kept():
                while one.holds():
                    await anyio.sleep(0.01)
        assert not await one.acquire()


ACQUIRE = """
import asyncio, pathlib, sys
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.sqlite.store import SqliteLease

async def acquire():
    async with Database.open(pathlib.Path(sys.argv[1])) as database:
        print(await SqliteLease(database).acquire())

asyncio.run(acquire())
"""


@pytest.mark.skipif(subprocess.run([*APART, "true"], check=False).returncode != 0, reason="needs process namespaces")
async def test_a_process_that_cannot_be_seen_from_a_container_is_not_taken_for_dead(tmp_path: Path) -> None:
    """A container on its host's network has its host's name, and process numbers of its own."""
    path = tmp_path / "memory.db"
    async with Database.open(path) as database:
        lease = SqliteLease(database)
        assert await lease.acquire()
        command = [*APART, sys.executable, "-c", ACQUIRE, str(path)]
        assert subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPO).stdout == "False\n"
        await lease.release()
        assert subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPO).stdout == "True\n"
