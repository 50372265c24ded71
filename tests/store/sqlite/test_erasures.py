"""Scrubbing: what was erased leaves the file, and whoever comes too late with something made of it is refused."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.domain.events import EventQuery
from mcp_memory.domain.projects import Wish
from mcp_memory.store.sqlite import database as database_module
from mcp_memory.store.sqlite.database import Database, Transaction, note_erasure
from mcp_memory.store.sqlite.migrations import INBOX
from mcp_memory.surfaces.forget_command import carry_out
from tests.support import conversation, database_of, learn, memory, said

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


async def test_an_answer_of_a_model_that_comes_after_an_erasure_is_not_kept(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        for late in (False, True):
            assert await app.ledger.answer("question") is None
            if late:
                await database_of(app).write(note_erasure)
            await app.ledger.keep("question", WORD)
            assert (await app.ledger.answer("question") is None) is late
            await database_of(app).write(Transaction.run, "DELETE FROM llm_answer")


async def test_a_record_of_words_that_were_forgotten_meanwhile_is_not_saved(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), said(f"The {WORD} is first.", "2026-03-02T08:59:00Z")])
        account = await app.store.account("s1")
        assert account is not None
        sources = await app.store.events(EventQuery(session_id=account.session_id, through=account.turns[-1].place))
        record = (await app.pipeline.compactor.compact("s1", force=True)).record
        assert record is not None
        await carry_out(app, Wish(match=WORD), dry_run=False)
        assert await app.store.save_record(account, record, sources) is False
        kept = [event for event in sources if WORD not in event.text]
        assert await app.store.save_record(account, record, kept) is True
