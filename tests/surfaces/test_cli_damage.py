"""The command line with a database that is damaged or not its own: it says so, and nothing is lost."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.support import conversation
from tests.surfaces.shell import Shell


def test_a_corrupt_database_is_reported_and_set_aside_only_on_request(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "memory.db").write_bytes(b"no database " * 500)
    done = shell.run("status")
    assert done.returncode == 1
    assert "damaged" in done.stderr
    assert (shell.home / "memory.db").read_bytes().startswith(b"no database")
    done = shell.run("process", "--set-aside-corrupt")
    assert done.returncode == 0
    assert "Nothing could be read" in done.stdout
    assert "mcp-memory import" in done.stdout
    assert shell.json("status")["events"] == 0
    assert len(list(shell.home.glob("memory.db.corrupt-*"))) == 1


def spoiled(shell: Shell, table: str) -> bytes:
    """Fill a memory, overwrite where a table begins, and give what the file holds then."""
    path = shell.cwd / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in conversation()))
    shell.json("import", str(path), "--client", "jsonl")
    database = shell.home / "memory.db"
    with closing(sqlite3.connect(database)) as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchall()
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray(database.read_bytes())
    data[(page - 1) * size : page * size] = b"\xa5" * size
    database.write_bytes(data)
    return bytes(data)


@pytest.mark.parametrize("table", ["event", "session", "search_data"])
def test_an_import_into_a_damaged_database_says_so(shell: Shell, table: str) -> None:
    data = spoiled(shell, table)
    other = shell.cwd / "other.jsonl"
    other.write_text("".join(json.dumps(line) + "\n" for line in conversation(session="s9")))
    done = shell.run("import", str(other), "--client", "jsonl")
    assert done.returncode == 1
    assert done.stderr.startswith(f"mcp-memory: {shell.home / 'memory.db'} is damaged")
    assert "Traceback" not in done.stderr
    assert "Nothing was changed" in done.stderr
    assert (shell.home / "memory.db").read_bytes() == data


@pytest.mark.parametrize("table", ["dirty_session", "event"])
def test_a_damaged_database_is_as_it_was_if_it_is_said_to_be(shell: Shell, table: str) -> None:
    data = spoiled(shell, table)
    done = shell.run("process")
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    assert ("Nothing was changed" in done.stderr) == ((shell.home / "memory.db").read_bytes() == data)


@pytest.mark.parametrize("table", ["session", "search_data"])
def test_a_damaged_memory_answers_as_before_once_it_was_set_aside(shell: Shell, table: str) -> None:
    fill(shell)
    shell.json("process")
    wanted = answers(shell)
    spoiled(shell, table)
    done = shell.json("process", "--set-aside-corrupt")
    kept = done["salvaged"]
    assert (kept["events"], kept["lost"], kept["complete"]) == (9, 0, True)
    assert answers(shell) == wanted
    (told,) = json.loads(shell.run("doctor", "--json").stdout)["problems"]
    assert told["what"] == "nothing is connected"
    again = shell.json("import", str(shell.cwd / "history.jsonl"), "--client", "jsonl")
    assert (again["events_new"], again["events_known"]) == (0, 8)


def fill(shell: Shell) -> None:
    """A conversation, something that no transcript holds, and something that was forgotten."""
    path = shell.cwd / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in conversation()))
    shell.json("import", str(path), "--client", "jsonl")
    for text in ("The staging host is called heron.", "The old host was called egret."):
        assert shell.run("remember", text).returncode == 0
    assert shell.run("forget", "--match", "egret", "--yes").returncode == 0


def answers(shell: Shell) -> list[Any]:
    """What the memory says, but for how often it was said anew."""
    toc = shell.json("toc", "--project", "*")["nodes"]
    hits = [
        (hit["id"], hit["kind"], hit["title"], hit["event_ids"], hit["source_ids"], hit["project"])
        for question in ("login timeout cause", "staging host")
        for hit in shell.json("search", question, "--project", "*")["hits"]
    ]
    nodes = [{name: node[name] for name in node if name not in ("version", "written_by")} for node in toc]
    grips = [grip for node in nodes for bullet in node["bullets"] for grip in bullet["grip_ids"]]
    return [nodes, hits, [shell.json("grip", grip, "--project", "*") for grip in grips[:1]]]


def test_what_was_brought_over_is_told_in_words(shell: Shell) -> None:
    spoiled(shell, "event_session")
    done = shell.run("process", "--set-aside-corrupt")
    assert done.returncode == 0
    assert "Brought over 8 events of 1 sessions in 1 projects: all there were." in done.stdout
    [old] = shell.home.glob("memory.db.corrupt-*")
    assert f"The damaged one is {old}" in done.stdout


def test_what_is_lost_is_told_and_comes_back_by_an_import(shell: Shell) -> None:
    spoiled(shell, "event")  # so few that all are on the page that is gone
    done = shell.run("process", "--set-aside-corrupt")
    assert done.returncode == 0
    assert "8 events could not be read. `mcp-memory import`" in done.stdout
    again = shell.json("import", str(shell.cwd / "history.jsonl"), "--client", "jsonl")
    assert (again["events_new"], again["events_known"]) == (8, 0)


def test_a_whole_database_is_not_set_aside(shell: Shell) -> None:
    fill(shell)
    done = shell.run("process", "--set-aside-corrupt")
    assert done.returncode == 1
    assert "is whole and was left alone" in done.stderr
    assert not list(shell.home.glob("memory.db.corrupt-*"))
    assert shell.run("process", "--set-aside-corrupt", "--dry-run").returncode == 2


def test_a_newer_database_is_refused(shell: Shell) -> None:
    shell.home.mkdir()
    connection = sqlite3.connect(shell.home / "memory.db")
    connection.execute("PRAGMA user_version = 999")
    connection.commit()
    connection.close()
    done = shell.run("toc")
    assert done.returncode == 1
    assert "schema 999" in done.stderr
