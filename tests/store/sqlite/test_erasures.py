"""Scrubbing: what was erased leaves the file."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.store.sql.database import Transaction, note_erasure
from mcp_memory.store.sqlite import database as database_module
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.sqlite.migrations import INBOX

pytestmark = pytest.mark.anyio
WORD = "quaggaword"


def shuffle(tx: Transaction) -> None:
    """Write and delete rows of all sizes in no order, so that SQLite moves them between pages again and again."""
    chance = random.Random(4)
    for _ in range(6_000):
        text = "".join(chance.choices("abcdef ", k=chance.choice([20, 60, 200, 900, 2500])))
        word = WORD if chance.random() < 0.3 else ""
        tx.run("INSERT OR REPLACE INTO brief VALUES (?, ?, 0)", (f"r{chance.randint(0, 3000)}", word + text))
        if chance.random() < 0.4:
            tx.run("DELETE FROM brief WHERE root = ?", (f"r{chance.randint(0, 3000)}",))


def erase(tx: Transaction) -> None:
    tx.run("DELETE FROM brief WHERE text LIKE ?", (f"%{WORD}%",))
    note_erasure(tx)


async def test_no_page_keeps_bytes_of_rows_that_were_moved_before_they_were_erased(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "memory.db", INBOX) as database:
        await database.write(shuffle)
        await database.write(erase)
        assert await database.scrub() == ""
        found = [path.name for path in tmp_path.iterdir() if WORD.encode() in path.read_bytes()]
        assert found == []
        assert await database.value("SELECT count(*) FROM brief") > 100


async def test_scrubbing_that_another_writer_keeps_from_its_work_is_done_later(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "memory.db", INBOX) as database:
        await database.write(erase)
        with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert "locked" in await database.scrub()
        assert await database.scrub() == ""
        before = await database.value("SELECT count(*) FROM meta")
        assert await database.scrub() == ""
        assert await database.value("SELECT count(*) FROM meta") == before


async def test_a_full_disk_is_not_filled_further_by_scrubbing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Database.open(tmp_path / "memory.db", INBOX) as database:
        await database.write(erase)
        monkeypatch.setattr(database_module, "_SPARE", 1 << 60)
        assert "no room" in await database.scrub()
        monkeypatch.undo()
        assert await database.scrub() == ""
