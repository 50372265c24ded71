"""What PostgreSQL does by means of its own: two writers at once, what it keeps of words, how it looks for a text."""

from __future__ import annotations

import random
import threading

import anyio
import pytest

from mcp_memory.domain.text import holds, same_letters
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


async def test_a_text_is_found_as_it_is_in_a_file() -> None:
    """However it is written: plain letters go a shorter way."""
    chance = random.Random(7)
    pieces = [
        "Night",
        "jar",
        "J",
        "*",
        "`",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        '"',
        "\\",
        "\\u004a",
        "\\n",
        "é",
        "ß",
        "\u200b",
        "\x07",
    ]
    told = ["".join(chance.choices(pieces, k=chance.randint(2, 9))) for _ in range(3_000)]
    sought = [
        same_letters(each) for each in ("nightjar", "jar night", "JAR*", "night", "jar\nj", '"j', "ßjar", "jar\\n")
    ]
    rows = ", ".join(["(?::bigint, ?)"] * len(told))
    sql = f"SELECT number FROM (VALUES {rows}) v (number, text) WHERE holds(text, ?) ORDER BY 1"
    given = [value for each in enumerate(told) for value in each]
    async with PostgresStore.open(new_database()) as store:
        for each in sought:
            found = [number for (number,) in await store.database.fetch(sql, (*given, each))]
            assert found == [number for number, text in enumerate(told) if holds(text, each)]
            assert found
