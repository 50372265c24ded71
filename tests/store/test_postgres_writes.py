"""Writers of one memory in PostgreSQL do not wait in line, and what two write at once is there once."""

from __future__ import annotations

import threading

import anyio
import pytest

from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.sql.database import Transaction
from tests.postgres import new_database

pytestmark = pytest.mark.anyio


async def test_of_two_that_write_the_same_the_second_finds_it_written() -> None:
    both, looks = threading.Barrier(2, timeout=10), list[int]()

    def write(tx: Transaction) -> None:
        found = tx.fetch("SELECT 1 FROM forgotten WHERE key = ?", (b"same",))
        looks.append(len(found))
        if len(looks) <= 2:
            both.wait()
        if not found:
            tx.run("INSERT INTO forgotten (key) VALUES (?)", (b"same",))

    async with PostgresStore.open(new_database()) as store, anyio.create_task_group() as tasks:
        tasks.start_soon(store.database.write, write)
        tasks.start_soon(store.database.write, write)
    assert looks == [0, 0, 1]
