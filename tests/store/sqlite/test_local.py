"""What is local to a machine: nothing of it is lost or told twice, whatever is killed, put back or damaged."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.capture import inbox
from mcp_memory.capture.redaction import Clean
from mcp_memory.domain.forget import ForgetRequest, ForgetScope
from mcp_memory.domain.handed import Handed, HandedQuery
from mcp_memory.errors import LeaseLost, StoreCorrupt
from mcp_memory.pipeline.ingest import TWICE_WITHIN_MS
from mcp_memory.store.sqlite import repair
from mcp_memory.store.sqlite.diagnosis import database
from mcp_memory.store.sqlite.inbox import SqliteInbox
from mcp_memory.store.sqlite.migrations import INBOX, steps
from tests.store.sqlite.damage import overwrite, root_of
from tests.support import conversation, learn, memory, tell

pytestmark = pytest.mark.anyio
PROMPT = {"session_id": "s", "cwd": "/home/ada", "hook_event_name": "UserPromptSubmit", "prompt": "Go on"}


def row(received_ms: int) -> tuple[int, str, str, str, str]:
    return (received_ms, "claude-code", "/home/ada", "", json.dumps(PROMPT))


async def test_a_row_whose_events_were_stored_before_a_kill_is_one_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory has committed, the inbox has not; meanwhile another registration has told the same."""

    async def killed(self: SqliteInbox, **_: Any) -> None:
        raise KeyboardInterrupt

    async with memory(tmp_path) as app:
        await app.inbox.post([row(1_000)])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(SqliteInbox, "settle", killed)
            await app.pipeline.until_idle()
        assert (await app.store.counts()).events == 1
        await app.pipeline.lease.release()
    async with memory(tmp_path) as app:
        assert (await app.inbox.counts()).waiting == 1
        await app.inbox.post([row(1_000 + TWICE_WITHIN_MS)])
        await app.pipeline.until_idle()
        assert ((await app.store.counts()).events, (await app.inbox.counts()).waiting) == (1, 0)


async def test_an_earlier_state_of_the_memory_has_transcripts_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    position = {"transcript:x": {"offset": 9}}
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        await app.store.backup(tmp_path / "earlier.db")
        await tell(app, conversation(session="s2"))
        await app.inbox.settle(checkpoints=position)
    async with memory(tmp_path) as app:
        assert await app.inbox.checkpoint("transcript:x") == {"offset": 9}
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.copyfile(tmp_path / "earlier.db", path)
    async with memory(tmp_path) as app:
        await app.inbox.post([row(1)])
        assert await app.inbox.checkpoint("transcript:x") == {}
        assert (await app.inbox.counts()).waiting == 1


async def test_another_memory_has_transcripts_read_anew(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await app.inbox.settle(checkpoints={"transcript:x": {"offset": 9}})
        await app.inbox.keep({"/home/ada": "Before."}, 1)
    for file in tmp_path.glob("memory.db*"):
        file.unlink()
    async with memory(tmp_path) as app:
        assert await app.inbox.checkpoint("transcript:x") == {}
        assert inbox.read_brief(str(tmp_path), "/home/ada") == ""


async def test_what_was_made_before_something_was_forgotten_is_not_written_after(tmp_path: Path) -> None:
    async with memory(tmp_path) as app, memory(tmp_path) as other:
        await app.inbox.begin()
        await other.inbox.forget(ForgetScope(ForgetRequest(match="kite")), dry_run=False)
        for late in (app.inbox.keep({"/home/ada": "The kite."}, 1), app.inbox.post([row(1)])):
            with pytest.raises(LeaseLost):
                await late
        await app.inbox.begin()
        await app.inbox.keep({"/home/ada": "Nothing."}, 1)
        assert inbox.read_brief(str(tmp_path), "/home/ada") == "Nothing."


async def test_who_only_looks_makes_no_inbox(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        assert (await app.inbox.counts()).waiting == 0
    assert not (tmp_path / "inbox.db").exists()


@pytest.mark.parametrize("damage", ["page", "garbage"])
async def test_a_damaged_inbox_is_told_and_repaired_and_hooks_spool_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(repair, "_SETTLE_SECONDS", 0.0)
    path = tmp_path / "inbox.db"
    async with memory(tmp_path) as app:
        await app.inbox.post([row(number * 9_000) for number in range(3)])
        await app.inbox.keep({"/home/ada": "Before."}, 1)
    data = bytearray(path.read_bytes())
    if damage == "page":
        overwrite(root_of(path, "inbox_state"))(data)
    path.write_bytes(data if damage == "page" else b"no database " * 500)
    before = path.read_bytes()
    [problem] = database(tmp_path / "memory.db")[1]
    assert (problem.what, "doctor --repair" in problem.fix) == (f"{path} is damaged", True)
    if damage == "garbage":
        inbox.append(str(tmp_path), inbox.Row(1, "codex", "/w", "", Clean("{}")))
        assert len(list((tmp_path / "spool").iterdir())) == 1
        async with memory(tmp_path) as app:
            with pytest.raises(StoreCorrupt, match="doctor --repair"):
                await app.pipeline.until_idle()
    aside = repair.repair_inbox(path)
    assert aside.read_bytes() == before
    assert database(tmp_path / "memory.db")[1] == []
    async with memory(tmp_path) as app:
        assert (await app.inbox.counts()).waiting == (3 if damage == "page" else 0)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT text FROM brief").fetchall() == ([("Before.",)] if damage == "page" else [])


async def test_an_inbox_of_before_is_brought_up_to_date_without_a_copy_that_would_keep_words(tmp_path: Path) -> None:
    path = tmp_path / "inbox.db"
    number, sql = steps(INBOX)[0]
    with closing(sqlite3.connect(path)) as old:
        old.executescript(f"{sql}; PRAGMA user_version = {number}; PRAGMA journal_mode = WAL")
        old.execute("INSERT INTO brief VALUES ('/home/ada', 'Before.', 1)")
        old.execute("INSERT INTO inbox (received_ms, client, root, payload) VALUES (1, 'c', '/home/ada', '{}')")
        old.commit()
    async with memory(tmp_path) as app:
        assert await app.inbox.handed(HandedQuery()) == []
        await app.inbox.note_handed(Handed(5, "teleport", ids=("toc:year:2026",)), (), ("", ""))
        (kept,) = await app.inbox.handed(HandedQuery())
        assert (kept.at_ms, kept.kind, kept.ids, kept.opened_ms) == (5, "teleport", ("toc:year:2026",), None)
        assert (await app.inbox.counts()).waiting == 1
    assert inbox.read_brief(str(tmp_path), "/home/ada") == "Before."
    assert list(tmp_path.glob("inbox.db.schema-*")) == []


async def test_old_answers_go_a_bounded_number_at_once(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        local = await app.inbox.database()
        rows = [(number, "teleport") for number in range(1_500)]
        await local.write(lambda tx: tx.run_many("INSERT INTO handed (at_ms, kind) VALUES (?, ?)", rows))
        for left in (500, 100, 100):
            await app.inbox.expire_handed(1_400)
            assert (await app.inbox.handed_totals(0))[0].times == left


async def test_what_was_handed_over_is_read_and_counted_by_an_index(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        local = await app.inbox.database()
        asked: list[str] = []
        await local.read(lambda connection: connection.set_trace_callback(asked.append))
        for query in (
            HandedQuery(),
            HandedQuery(kind="brief"),
            HandedQuery(session="s1", before=9),
            HandedQuery(places=(("/a", "", ""), ("", "b", ""))),
        ):
            await app.inbox.handed(query)
        await app.inbox.handed_totals(5)
        await local.read(lambda connection: connection.set_trace_callback(None))
        selects = [sql for sql in asked if "handed" in sql]
        plans = [" ".join(row[3] for row in await local.fetch(f"EXPLAIN QUERY PLAN {sql}")) for sql in selects]
        # The newest rows of all are in the order of the table; all others are found by an index.
        assert [plan for plan in plans if "USING" not in plan] == ["SCAN handed"]
        assert len(plans) == 6
        assert not any("FOR ORDER BY" in plan for plan in plans[:-1]), plans
