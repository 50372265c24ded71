"""Forgetting by a text: what holds it, in whichever spelling, and what is told of the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.store.sql.database import Transaction
from mcp_memory.store.sql.store import index_all
from mcp_memory.surfaces.forget_command import carry_out
from mcp_memory.surfaces.process_command import until_idle
from tests.support import all_nodes, conversation, database_of, learn, memory, said
from tests.surfaces.shell import Shell
from tests.surfaces.test_forget_command import PROJECT, SECRET, filled, tables_with_words, traces

pytestmark = pytest.mark.anyio


async def test_a_summary_that_says_what_no_event_does_is_forgotten_too(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        await app.pipeline.compactor.compact("s1", force=True)
        for table, column in (("node_version", "title"), ("bullet", "text"), ("compaction", "summary")):
            await database_of(app).write(Transaction.run, f"UPDATE {table} SET {column} = {column} || ' {SECRET}'")
        promised = await carry_out(app, ForgetRequest(match=SECRET), dry_run=True)
        assert (promised.found.events, promised.anything) == (0, True)
        await database_of(app).write(Transaction.run, "INSERT INTO search (search) VALUES ('delete-all')")
        await database_of(app).write(index_all)
        assert await carry_out(app, ForgetRequest(match=SECRET), dry_run=False) == promised
        assert traces(tmp_path) == []
        assert len(await all_nodes(app)) == 5
        assert (await carry_out(app, ForgetRequest(match=SECRET), dry_run=True)).anything is False


async def test_an_event_of_nothing_but_marks_takes_nothing_else_that_waits(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [said("***", "2026-03-02T09:00:00Z", session="s1")])
        await app.inbox.post(
            [(1, "nobody", "/x", "", json.dumps({"session_id": "s1", "prompt": "Mend it.", "name": ""}))]
        )
        (key,) = [key for (key,) in await database_of(app).fetch("SELECT key FROM event")]
        found = await carry_out(app, ForgetRequest(event_key=key), dry_run=True)
        assert (found.found.events, found.found.inbox) == (1, 0)


def test_characters_that_are_not_shown_are_nothing_to_match(shell: Shell) -> None:
    (shell.cwd / "history.jsonl").write_text(json.dumps(said("Mend **the** fence.", "2026-03-02T09:06:00Z")))
    shell.run("import", "--client", "jsonl", "history.jsonl")
    for text in ("****", "\u200b\u00ad\u2060\ufeff", "`a *\n` *"):
        told = shell.run("forget", "--match", text, "--yes")
        assert (told.returncode, "at least 3 characters" in told.stderr) == (2, True)
    assert json.loads(shell.run("status", "--json").stdout)["events"] == 1


def test_a_session_is_forgotten_by_the_short_name_that_answers_show(shell: Shell) -> None:
    name = "5b1d7c3e-8f5a-4c61-9f6d-1a2b3c4d5e6f"
    (shell.cwd / "history.jsonl").write_text(json.dumps(said("Mend it.", "2026-03-02T09:06:00Z", session=name)))
    shell.run("import", "--client", "jsonl", "history.jsonl")
    assert "Forgot 1 events" in shell.run("forget", "--session", name[:8], "--yes").stdout


async def test_what_is_there_again_after_the_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with memory(tmp_path) as app:
        await filled(app)

        async def meanwhile(app: App) -> None:
            await learn(app, [said(f"Once more {SECRET}.", "2026-03-03T09:00:00Z")])
            await until_idle(app)

        monkeypatch.setattr("mcp_memory.surfaces.forget_command.until_idle", meanwhile)
        done = await carry_out(app, ForgetRequest(match=SECRET, only_stored=True), dry_run=False)
        assert "there are 1 events of 1 sessions again" in "\n".join(done.remarks(done=True))


async def test_a_matched_text_leaves_paths_and_names_of_other_events_and_the_name_of_a_project_is_told(
    tmp_path: Path,
) -> None:
    async with memory(tmp_path) as app:
        facts = {"cwd": f"/home/ada/{SECRET}/app", "branch": "main", "files": [f"{SECRET}/a.py", "b.py"]}
        await learn(
            app,
            [
                said(f"Call it {SECRET}.", "2026-03-02T09:00:00Z", project=PROJECT),
                said("Mend the fence.", "2026-03-02T09:01:00Z", project=PROJECT, metadata=facts),
            ],
        )
        promised = await carry_out(app, ForgetRequest(match=SECRET), dry_run=True)
        done = await carry_out(app, ForgetRequest(match=SECRET), dry_run=False)
        assert promised == done
        assert (done.found.events, done.found.cleared, done.found.names) == (1, 1, (f"project {PROJECT}",))
        rows = await database_of(app).fetch("SELECT text, metadata FROM event")
        assert [(text, json.loads(metadata)) for text, metadata in rows] == [
            ("Mend the fence.", {"branch": "main", "files": ["b.py"]})
        ]
        assert await tables_with_words(app) == {"project", "brief"}  # a brief stands under its project's name
        await carry_out(app, ForgetRequest(project=PROJECT), dry_run=False)
    assert traces(tmp_path) == []


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("Die Übergabe ist morgen.", "übergabe"),
        ("Die übergabe ist morgen.", "ÜBERGABE"),
        ("Die U\u0308bergabe ist morgen.", "übergabe"),
        ("In der Hauptstraße.", "HAUPTSTRASSE"),
        ("Встреча завтра.", "ВСТРЕЧА"),
        ('He said "Mine\\Yours" twice.', '"mine\\yours"'),
        ("İSTANBUL'da kaldı.", "istanbul'da kaldi"),
        ("ığdır üzerinden.", "IĞDIR"),
        ("ΟΔΥΣΣΕΥΣ and ὀδός.", "οδυσσευς"),
        ("Ｎｉｇｈｔｊａｒ it is.", "nightjar"),
        ("Start \U0001f680 Nightjar.", "\U0001f680 NIGHTJAR"),
        # As an answer shows them: without hidden characters and emphasis, on one line.
        ("Project Night\u00adja\u200br starts.", "project nightjar"),
        ("Project\n  Nightjar starts.", "Project Nightjar"),
        ("**Project** `Nightjar` starts.", "Project Nightjar"),
        ("Project Nightjar starts.", "**Project\nNightjar**"),
    ],
)
async def test_text_matches_in_any_case_and_spelling_and_as_it_is_shown(
    tmp_path: Path, written: str, asked: str
) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), said(written, "2026-03-02T09:06:00Z")])
        for escaped in (True, False):
            await app.inbox.post([(1, "nobody", "/x", "", json.dumps({"prompt": written}, ensure_ascii=escaped))])
        app.settings.spool.mkdir()
        (app.settings.spool / "1-1-a.unreadable").write_text(json.dumps({"payload": json.dumps({"x": written})})[1:])
        done = await carry_out(app, ForgetRequest(match=asked), dry_run=False)
        assert (done.found.events, done.found.inbox) == (1, 3)
