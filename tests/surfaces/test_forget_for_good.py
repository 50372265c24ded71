"""What was forgotten stays forgotten: it is listed, refused, and survives a restored backup; and it can be lifted."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support import conversation, said
from tests.surfaces.shell import Shell

WORD = "quaggaword"
SECRET = f"Remember that the {WORD} plan starts in May."


def write(path: Path, *lines: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def fill(shell: Shell) -> str:
    """Import a history of two sessions, one of which holds the word."""
    lines = [said(SECRET, "2026-03-02T09:06:00Z", session="s9"), *conversation("2026-03-10")]
    history = write(shell.cwd / "history.jsonl", *lines)
    shell.json("import", "--client", "jsonl", history)
    shell.json("process")
    return history


def events(shell: Shell) -> int:
    return int(shell.json("status")["events"])


def test_what_was_forgotten_is_listed_without_a_word_and_can_be_lifted(shell: Shell) -> None:
    history = fill(shell)
    before = events(shell)
    assert shell.run("forget", "--list").stdout == "Nothing has been forgotten.\n"
    assert "Forgotten" not in shell.run("status").stdout + shell.run("doctor").stdout
    shell.json("forget", "--session", "s9", "--yes")
    [forgetting] = shell.json("forget", "--list")["forgettings"]
    assert (forgetting["kind"], forgetting["events"], forgetting["refuses_before"]) == (
        "session",
        1,
        forgetting["at"],
    )
    for account in (shell.json("status")["forgotten"], shell.json("forget", "--list")):
        assert (account["times"], account["events"], account["key_lost"]) == (1, 1, False)
    shown = [shell.run(*words).stdout for words in (["status"], ["doctor"], ["forget", "--list"])]
    assert [forgetting["at"] in text for text in shown] == [True] * 3
    assert WORD not in "".join(shown)
    assert "s9" not in "".join(shown)
    unread = write(shell.cwd / "more.jsonl", said(f"The {WORD} again.", "2026-03-02T09:07:00Z", session="s9"))
    for path in (history, unread):
        assert shell.json("import", "--client", "jsonl", path)["events_new"] == 0
    wrong = shell.run("forget", "--lift", "nothing")
    assert (wrong.returncode, "forget --list" in wrong.stderr) == (1, True)
    assert shell.json("forget", "--lift", forgetting["id"]) == {"lifted": forgetting["id"]}
    assert [shell.json("import", "--client", "jsonl", path)["events_new"] for path in (history, unread)] == [1, 1]
    assert events(shell) == before + 1


def test_with_only_stored_later_finds_of_the_session_come_in(shell: Shell) -> None:
    history = fill(shell)
    shell.json("forget", "--session", "s9", "--only-stored", "--yes")
    unread = write(shell.cwd / "more.jsonl", said("Another line.", "2026-03-02T09:07:00Z", session="s9"))
    assert shell.json("import", "--client", "jsonl", history)["events_new"] == 0
    assert shell.json("import", "--client", "jsonl", unread)["events_new"] == 1
    assert "only what was stored" in shell.run("forget", "--list").stdout


@pytest.mark.parametrize(
    "way",
    [("--match", WORD), ("--session", "s9"), ("--before", "2026-03-02T09:07:00Z")],
    ids=["match", "session", "before"],
)
def test_a_restored_backup_does_not_bring_it_back(shell: Shell, way: tuple[str, str]) -> None:
    fill(shell)
    backup = shell.cwd / "backup.db"
    shell.json("backup", str(backup))
    shell.json("forget", *way, "--yes")
    left = events(shell)
    for name in ("memory.db-wal", "memory.db-shm"):
        (shell.home / name).unlink(missing_ok=True)
    shutil.copyfile(backup, shell.home / "memory.db")
    found = shell.run("search", WORD, "--project", "*")
    assert "earlier state" in found.stderr
    assert "starts in May" not in found.stdout
    shell.json("process")
    assert shell.run("status").stderr == ""
    with closing(sqlite3.connect(shell.home / "memory.db")) as memory:
        held = [text for (text,) in memory.execute("SELECT text FROM event UNION ALL SELECT text FROM bullet")]
        assert held
        assert not [text for text in held if WORD in text]
    assert WORD.encode() not in b"".join(path.read_bytes().lower() for path in shell.home.glob("memory.db*"))
    assert events(shell) == left


def test_a_question_about_a_forgotten_text_is_noted_as_a_hash(shell: Shell) -> None:
    fill(shell)
    shell.json("forget", "--match", WORD, "--yes")
    import anyio

    from mcp_memory.app import open_app
    from mcp_memory.config import Settings
    from mcp_memory.domain.handed import Handed, HandedQuery

    async def note() -> list[str]:
        async with open_app(Settings(home=shell.home)) as app:
            for asked in (f"where is the {WORD.upper()} plan?", "where is the garden plan?"):
                await app.inbox.note_handed(Handed(1_790_000_000_000, "teleport", asked=asked), (), ("", ""))
            return [row.asked for row in await app.inbox.handed(HandedQuery())]

    garden, hashed = anyio.run(note)
    assert garden == "where is the garden plan?"
    assert hashed.startswith("forgotten:")
    assert WORD.encode() not in (shell.home / "inbox.db").read_bytes().lower()
