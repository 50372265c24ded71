"""Forgetting reaches whatever holds the words, in whichever table or file, and says what it cannot reach."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_memory.app import App
from mcp_memory.clients.jsonl import event_of_line
from mcp_memory.domain.events import Intake
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.errors import LeaseLost
from mcp_memory.pipeline.importing import import_files
from mcp_memory.pipeline.ingest import checkpoint_name
from mcp_memory.store.sql.database import Transaction
from mcp_memory.surfaces import forget_command
from mcp_memory.surfaces.forget_command import carry_out, key_of
from tests.pipeline.test_ingest import Client
from tests.store.whoosh.indexed import memory as indexed
from tests.support import StoppedClock, all_nodes, conversation, database_of, learn, memory, needs_whoosh, said, tell
from tests.surfaces.shell import Shell

pytestmark = pytest.mark.anyio
SECRET = "quaggaword"
#: Copies that the program makes by itself; the last is one that it was killed at.
COPIES = ("memory.db.schema-2.bak", "backups/memory-0000000000001-1.db", "backups/memory-0000000000002-1.db.tmp")
SESSION, PROJECT = f"{SECRET}-session", f"{SECRET}-shop"
LONG_AGO = round(datetime.fromisoformat("2026-03-02T09:00:00Z").timestamp() * 1000)
SOME_TIME = round(datetime.fromisoformat("2026-04-01T00:00:00Z").timestamp() * 1000)


async def filled(app: App) -> None:
    await learn(
        app,
        [
            *conversation("2026-03-02"),
            said(f"Remember that the {SECRET} plan starts in May.", "2026-03-02T09:06:00Z"),
            *conversation("2026-03-10", session="s2", project="beta"),
        ],
    )


def traces(home: Path) -> list[str]:
    """The files that hold the word in any case, whole or as the index cuts it."""
    stem = SECRET[:6].encode()
    return sorted(path.name for path in home.rglob("*") if path.is_file() and stem in path.read_bytes().lower())


async def full(app: App, project: str = PROJECT) -> None:
    """The words in every table and every file, all in one session of one project, long ago; and another project."""
    place = {"session": SESSION, "project": project}
    texts = [f"{text} This is {SECRET.upper()} number {index}." for index, text in enumerate(TALK)]
    lines = [said(text, f"2026-03-02T09:{index:02}:00Z", **place) for index, text in enumerate(texts)]
    meta = {"metadata": {"cwd": f"/home/ada/{SECRET}", "files": [f"{SECRET}.py"], "branch": SECRET}}
    await learn(app, [{**line, **meta} for line in lines[:20]])
    await learn(app, [*lines[20:], *conversation("2026-05-10", session="s2", project="beta")])
    await app.pipeline.compactor.compact(SESSION, force=True)
    await app.store.rename(project, f"{project}-2")
    await app.pipeline.until_idle()
    await app.store.rename(f"{project}-2", project)
    memory_of_reader = {"session": SESSION, "cwd": f"label:{project}", "tools": {"t1": 3}}
    position = {"offset": 9, "line": 1, "events": 1, "memory": memory_of_reader}
    failed = {"path": f"/home/ada/.claude/projects/-home-ada/{SESSION}.jsonl", "line": 3, "reason": "", "file": "1"}
    positions = {"a": position, "b": {**position, "memory": {}, "failed": failed}}
    await app.inbox.settle(checkpoints={checkpoint_name(Path(f"/{name}")): value for name, value in positions.items()})
    await app.inbox.post([(LONG_AGO, "nobody", "", project, PAYLOAD)])
    await app.pipeline.until_idle()
    await app.pipeline.lease.release()
    await database_of(app).write(_fill_rows)
    await app.inbox.keep({"label:some-old-name": f"Last time it was {SECRET}."}, 1)
    _fill_files(app.settings.home, project)


TALK = [line["text"] for line in conversation()] * 5
PAYLOAD = json.dumps({"session_id": SESSION, "hook_event_name": "Odd", "prompt": f"the {SECRET} again"})


def _fill_rows(tx: Transaction) -> None:
    """What only a model, a failure or an earlier name leaves."""
    tx.run("INSERT INTO llm_answer VALUES ('k', ?, 1)", (f"An answer on {SECRET}",))
    tx.run(
        "INSERT INTO llm_call (started_ms, day, purpose, node, model, input_tokens, output_tokens, outcome) "
        "VALUES (1, '2026-03-02', 'record', ?, 'm', 1, 1, 'ok')",
        (f"session:{SESSION}",),
    )
    tx.run("INSERT OR REPLACE INTO dirty_compaction (session, failed, retry_ms) VALUES (1, ?, 99)", (SECRET,))


def _fill_files(home: Path, project: str) -> None:
    row = {"received_ms": LONG_AGO, "client": "x", "root": "", "label": project, "payload": PAYLOAD}
    spool = home / "spool"
    spool.mkdir(exist_ok=True)
    whole = json.dumps(row)
    for name, text in (("1-1-a.json", whole), ("2-1-b.json.tmp", whole[:-9]), ("3-1-c.unreadable", whole[1:])):
        (spool / name).write_text(text)
        os.utime(spool / name, (LONG_AGO / 1000, LONG_AGO / 1000))
    (home / "logs").mkdir(exist_ok=True)
    for name in ("mcp-memory.log", "mcp-memory.log.1"):
        (home / "logs" / name).write_text(f"cannot read /{SECRET}.jsonl\n")
    (home / "backups").mkdir(exist_ok=True)
    for name in COPIES:
        with closing(sqlite3.connect(home / name)) as copy:
            copy.execute("CREATE TABLE event (text)")
            copy.execute("INSERT INTO event VALUES (?)", (SECRET,))
            copy.commit()


async def tables_with_words(app: App) -> set[str]:
    """The tables of which some row holds the words, in the memory and in the inbox."""
    found = set()
    for database in (database_of(app), await app.inbox.database()):
        sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'search%'"
        for (name,) in await database.fetch(sql):
            if SECRET in repr(await database.fetch(f"SELECT * FROM {name}")).lower():
                found.add(name)
    return found


REQUESTS = {
    "session": ForgetRequest(session_id=SESSION),
    "project": ForgetRequest(project=PROJECT),
    "before": ForgetRequest(before_ms=SOME_TIME),
    "match": ForgetRequest(match=SECRET.title()),
}
INDEXES = ["fts5", pytest.param("whoosh", marks=needs_whoosh)]


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("option", REQUESTS)
async def test_every_option_leaves_no_trace_in_any_table_or_file(tmp_path: Path, option: str, index: str) -> None:
    async with indexed(tmp_path, index) as app:
        # A project's own name goes with the project, or with its last event that is matched.
        named = option in ("project", "match")
        await full(app, PROJECT if named else "shop")
        assert await tables_with_words(app) >= {
            *(("project",) if named else ()),
            *("event", "session", "inbox", "brief", "checkpoint", "node_version", "bullet", "grip"),
            *("mention", "compaction", "llm_answer", "llm_call", "dirty_compaction"),
        }
        files = {*(Path(name).name for name in COPIES), "mcp-memory.log", "mcp-memory.log.1"}
        assert {*files, "1-1-a.json", "2-1-b.json.tmp", "3-1-c.unreadable"} < set(traces(tmp_path))
        promised = await carry_out(app, REQUESTS[option], dry_run=True)
        done = await carry_out(app, REQUESTS[option], dry_run=False)
        assert promised == done
        assert (done.found.events, done.found.sessions, done.found.inbox, done.unscrubbed) == (len(TALK), 1, 4, "")
        assert await tables_with_words(app) == set()
        assert traces(tmp_path) == []
        assert {node.project for node in await all_nodes(app)} == {"beta"}
        assert (await app.answers.search("session tests pass", "beta"))[0].hits
        await database_of(app).write(Transaction.run, "INSERT INTO search (search) VALUES ('integrity-check')")
    assert traces(tmp_path) == []


@pytest.mark.parametrize("index", INDEXES)
async def test_one_event_is_forgotten_with_all_that_quotes_it(tmp_path: Path, index: str) -> None:
    async with indexed(tmp_path, index) as app:
        await filled(app)
        await app.pipeline.compactor.compact("s1", force=True)
        for session, prompt in (("s1", f"Remember that the {SECRET} plan starts in May."), ("s1", "Something else.")):
            await app.inbox.post([(1, "nobody", "/x", "", json.dumps({"session_id": session, "prompt": prompt}))])
        await app.pipeline.until_idle()
        hits, _ = await app.answers.search(SECRET, "*")
        wish = ForgetRequest(event_key=await key_of(app, hits.hits[0].event_ids[0]))
        promised = await carry_out(app, wish, dry_run=True)
        done = await carry_out(app, wish, dry_run=False)
        assert promised == done
        assert (done.found.events, done.found.inbox) == (1, 1)
        assert await (await app.inbox.database()).value("SELECT count(*) FROM inbox") == 1
        assert traces(tmp_path) == []
        assert (await app.answers.search("mobile app refreshes", "alpha"))[0].hits


async def test_a_reader_of_an_earlier_state_is_told_of_and_the_words_go_when_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget_command, "_PATIENCE_MS", 10)
    async with memory(tmp_path) as app:
        await filled(app)
        with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM event WHERE text LIKE ?", (f"%{SECRET}%",)).fetchone() == (1,)
            done = await carry_out(app, ForgetRequest(match=SECRET), dry_run=False)
            assert "is still reading" in "\n".join(done.remarks(done=True))
            assert traces(tmp_path)
        # Its own loop finishes the job.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(app.pipeline.run)
            with anyio.fail_after(30):
                while traces(tmp_path):
                    await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()


async def test_the_next_program_that_opens_the_memory_finishes_what_a_reader_delayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget_command, "_PATIENCE_MS", 10)
    async with memory(tmp_path) as app:
        await filled(app)
        reader = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM event").fetchone()
        assert (await carry_out(app, ForgetRequest(match=SECRET), dry_run=False)).unscrubbed
    async with memory(tmp_path):
        assert traces(tmp_path)
    reader.close()
    async with memory(tmp_path):
        assert traces(tmp_path) == []


@pytest.mark.slow
def test_the_command_says_what_is_left_and_what_to_do(shell: Shell) -> None:
    rows = [*conversation(), said(f"The {SECRET} plan starts in May.", "2026-03-02T09:06:00Z")]
    (shell.cwd / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shell.run("import", "--client", "jsonl", "history.jsonl")
    shell.run("process")
    home = shell.home
    (home / "memory.db.corrupt-20260101-000000").write_bytes(b"SQLite format 3\0")
    with closing(sqlite3.connect(home / "memory.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM event").fetchone()
        told = shell.script("forget", "--match", SECRET.upper(), "--yes")
        assert "what was forgotten is still in the file" in shell.run("doctor").stdout
    assert told.returncode == 0
    assert "Forgot 1 events of 1 sessions." in told.stdout
    assert "is still reading an earlier state" in told.stdout
    assert sys.platform != "linux" or f"(process {os.getpid()})" in told.stdout
    assert "memory.db.corrupt-20260101-000000" in told.stdout
    shell.run("status")
    assert traces(home) == []
    assert "what was forgotten" not in shell.run("doctor").stdout


@pytest.mark.parametrize("copied", [False, True], ids=["the transcript itself", "a copy of it"])
async def test_what_the_hook_told_is_not_brought_back_by_the_transcript(tmp_path: Path, copied: bool) -> None:
    client = Client(tmp_path / "home", tmp_path / "work" / "orchard")
    async with memory(client.home) as app:
        client.fire("UserPromptSubmit", prompt="Which word?")
        client.fire("Stop", last_assistant_message=f"The {SECRET} is blue.")
        await app.pipeline.until_idle()
        if copied:
            client.write("assistant", "u2", 0.04, [{"type": "text", "text": f"The {SECRET} is blue."}])
            client.fire("SessionEnd", reason="other")
            await app.pipeline.until_idle()
        done = await carry_out(app, ForgetRequest(match=SECRET), dry_run=False)
        assert done.found.events == 1
        client.write("assistant", "u2", 0.04, [{"type": "text", "text": f"The {SECRET} is blue."}])
        client.write("assistant", "u3", 0.05, [{"type": "text", "text": "The sky is, too."}])
        source = client.transcript
        if copied:
            source = source.rename(tmp_path / "copy.jsonl")
        await import_files(app.store, app.inbox, [(app.pipeline.clients["claude-code"], source)], app.intaker)
        events = [event.text for _, event in await app.store.log(0, None, 99)]
        assert "The sky is, too." in events
        assert not [text for text in events if SECRET in text]
    assert traces(client.home) == []


async def test_the_same_words_said_later_are_remembered(tmp_path: Path) -> None:
    client = Client(tmp_path / "home", tmp_path / "work" / "orchard")
    async with memory(client.home, StoppedClock(datetime.now(UTC).isoformat())) as app:  # the client's own time
        client.fire("Stop", last_assistant_message=f"The {SECRET} is blue.")
        await app.pipeline.until_idle()
        await carry_out(app, ForgetRequest(match=SECRET), dry_run=False)
        client.write("assistant", "u2", 900.0, [{"type": "text", "text": f"The {SECRET} is blue."}])
        client.fire("SessionEnd", reason="other")
        await app.pipeline.until_idle()
        events = [event.text for _, event in await app.store.log(0, None, 99)]
        assert f"The {SECRET} is blue." in events


async def test_who_is_at_work_on_forgotten_words_cannot_write_what_came_of_them(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await filled(app)
        assert await app.pipeline.lease.acquire()
        token = app.pipeline.lease.token
        await carry_out_elsewhere(tmp_path)
        rows = await database_of(app).fetch("SELECT token FROM lease WHERE name = 'pipeline'")
        assert rows != [(token,)]


async def carry_out_elsewhere(home: Path) -> None:
    async with memory(home) as other:
        other.pipeline.lease.holder = "elsewhere:1"  # type: ignore[attr-defined]
        await carry_out(other, ForgetRequest(match=SECRET), dry_run=False)


async def test_a_spool_file_that_was_read_before_it_was_forgotten_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory(tmp_path) as app:
        _fill_files(app.settings.home, PROJECT)
        post = app.inbox.post

        async def late(*args: Any) -> None:
            await carry_out_elsewhere(tmp_path)
            await post(*args)

        assert await app.pipeline.lease.acquire()
        monkeypatch.setattr(app.inbox, "post", late)
        with pytest.raises(LeaseLost):
            await app.pipeline.round()
        assert await (await app.inbox.database()).value("SELECT count(*) FROM inbox") == 0
    assert traces(tmp_path) == []


async def test_what_was_forgotten_is_told_though_the_disk_is_full_afterwards(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await filled(app)
        full = "BEFORE INSERT ON segment BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        await database_of(app).write(Transaction.run, f"CREATE TRIGGER full {full}")
        done = await carry_out(app, ForgetRequest(match=SECRET), dry_run=False)
        assert (done.found.events, done.unscrubbed) == (1, "nothing can be written just now")
        await database_of(app).write(Transaction.run, "DROP TRIGGER full")
    async with memory(tmp_path) as app:
        await app.pipeline.until_idle()
    assert traces(tmp_path) == []


async def test_a_reader_that_was_reset_reads_on_and_tells_nothing_twice(tmp_path: Path) -> None:
    client = Client(tmp_path / "home", tmp_path / "work" / "orchard")
    async with memory(client.home) as app:
        client.write("assistant", "u1", 0.01, [{"type": "text", "text": "The first."}])
        use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "count"}}
        client.write("assistant", "u2", 0.02, [use])
        client.fire("Stop")
        await app.pipeline.until_idle()
        assert (await carry_out(app, ForgetRequest(session_id="session-1"), dry_run=False)).found.events == 2
        client.write("user", "u3", 0.03, [{"type": "tool_result", "tool_use_id": "t1", "content": "31"}])
        client.fire("SessionEnd", reason="other")
        await app.pipeline.until_idle()
        events = [event.text for _, event in await app.store.log(0, None, 99) if event.text]
        assert "Bash: count\n31" in events
        assert "The first." not in events


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await full(app)
        before = {
            path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".db-shm"
        }
        for wish in REQUESTS.values():
            assert (await carry_out(app, wish, dry_run=True)).found.events == len(TALK)
        after = {path: path.read_bytes() for path in before if path.exists()}
        assert {path for path in before if after.get(path) != before[path] and not path.name.endswith("-shm")} == set()


async def test_the_rest_of_the_session_stays_and_is_summarized_anew(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await filled(app)
        await carry_out(app, ForgetRequest(match=SECRET), dry_run=False)
        hits, _ = await app.answers.search("mobile app refreshes", "alpha")
        assert hits.hits
        assert {node.project for node in await all_nodes(app)} == {"alpha", "beta"}
        await database_of(app).write(Transaction.run, "INSERT INTO search (search) VALUES ('integrity-check')")


async def test_a_transcript_set_aside_is_not_named_after_its_project_is_forgotten(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        event = app.intaker.prepare([event_of_line(said("Mend the fence.", "2026-03-02T09:00:00Z"))])
        await app.store.add([Intake(tuple(event), f"/home/ada/{SECRET}.app", "")])
        failed = {
            "path": f"/home/ada/.claude/projects/-home-ada-{SECRET}-app/0.jsonl",
            "line": 1,
            "reason": "",
            "file": "1",
        }
        await app.inbox.settle(checkpoints={"transcript:x": {"offset": 0, "line": 0, "memory": {}, "failed": failed}})
        await carry_out(app, ForgetRequest(project=f"{SECRET}.app"), dry_run=False)
        assert await tables_with_words(app) == set()


async def test_a_later_import_does_not_bring_it_back(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await filled(app)
        await carry_out(app, ForgetRequest(session_id="s1", only_stored=True), dry_run=False)
        assert (await app.store.counts()).sessions == 1
        assert await tell(app, [*conversation("2026-03-02"), said("Something new.", "2026-03-05T09:00:00Z")]) == 1


async def test_names_of_other_sessions_and_projects_are_not_taken_for_the_one_meant(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        lines = [said("Mend the fence.", "2026-03-02T09:00:00Z", session=name, project=name) for name in ("s1", "s11")]
        await learn(app, lines)
        for name in ("s1", "s11"):
            payload = json.dumps({"session_id": name, "prompt": "of s1"})
            await app.inbox.post([(1, "nobody", "", name, payload)])
        await app.pipeline.until_idle()
        await app.pipeline.lease.release()
        for wish in (ForgetRequest(session_id="s1"), ForgetRequest(project="s1")):
            found = await carry_out(app, wish, dry_run=True)
            assert (found.found.events, found.found.inbox) == (1, 1)


async def test_what_waits_is_forgotten_with_the_project_it_belongs_to_not_with_one_it_claims(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        event = app.intaker.prepare([event_of_line(said("Mend the fence.", "2026-03-02T09:00:00Z", session="s2"))])
        await learn(app, [said("Paint it.", "2026-03-02T09:00:00Z", session="s1", project="shop")])
        await app.store.add([Intake(tuple(event), "/home/ada/barn", "shop")])
        for root, label in (("/home/ada/barn", "shop"), ("", "shop"), ("/home/ada/barn", "")):
            await app.inbox.post([(1, "nobody", root, label, json.dumps({"prompt": "Hello."}))])
        await app.pipeline.until_idle()
        await app.pipeline.lease.release()
        assert [
            (await carry_out(app, ForgetRequest(project=name), dry_run=True)).found.inbox for name in ("shop", "barn")
        ] == [
            1,
            2,
        ]
