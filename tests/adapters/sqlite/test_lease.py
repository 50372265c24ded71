"""The lease: one holder at a time, and no write by one who has lost it."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_memory.adapters.sqlite.database import Database
from mcp_memory.adapters.sqlite.events import SqliteEvents
from mcp_memory.adapters.sqlite.lease import DURATION_MS, SqliteLease
from mcp_memory.errors import LeaseLost

pytestmark = pytest.mark.anyio


async def test_only_one_holds_it_until_it_expires(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "memory.db") as database:
        one, two = SqliteLease(database, "elsewhere:1"), SqliteLease(database, "elsewhere:2")
        assert await one.acquire(1_000)
        assert not await two.acquire(1_000 + DURATION_MS - 1)
        assert await one.acquire(2_000)
        assert not await two.acquire(1_000 + DURATION_MS)
        assert await two.acquire(2_000 + DURATION_MS)


async def test_a_release_lets_the_next_one_in_at_once(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "memory.db") as database:
        one, two = SqliteLease(database, "elsewhere:1"), SqliteLease(database, "elsewhere:2")
        assert await one.acquire(1_000)
        await one.release()
        assert await two.acquire(1_001)


async def test_whoever_lost_it_cannot_write_any_more(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "memory.db") as database:
        one, two = SqliteLease(database, "elsewhere:1"), SqliteLease(database, "elsewhere:2")
        assert await one.acquire(1_000)
        old = one.token
        assert await two.acquire(1_000 + DURATION_MS)
        with pytest.raises(LeaseLost):
            await SqliteEvents(database).add([], lease_token=old)
        assert await SqliteEvents(database).add([], lease_token=two.token) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a process table that can be asked")
async def test_a_dead_process_of_this_machine_holds_nothing(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "memory.db") as database:
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        pid = ended.pid
        dead, living = SqliteLease(database, f"{socket.gethostname()}:{pid}"), SqliteLease(database)
        assert await dead.acquire(1_000)
        assert await living.acquire(1_001)


async def test_a_clock_that_jumped_back_does_not_lock_everyone_out(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "memory.db") as database:
        one, two = SqliteLease(database, "elsewhere:1"), SqliteLease(database, "elsewhere:2")
        assert await one.acquire(10_000_000)
        assert await two.acquire(1_000)
