"""The command line with a database that is damaged or not its own: it says so, and nothing is lost."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.support import conversation
from tests.surfaces.shell import Shell


def test_a_corrupt_database_is_reported_and_repaired_only_on_request(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "memory.db").write_bytes(b"no database " * 500)
    done = shell.run("status")
    assert done.returncode == 1
    assert "damaged" in done.stderr
    assert "mcp-memory doctor --repair" in done.stderr
    assert (shell.home / "memory.db").read_bytes().startswith(b"no database")
    done = shell.run("doctor", "--repair")
    assert done.returncode == 0, done.stderr
    assert "Nothing could be read" in done.stdout
    assert shell.json("status")["events"] == 0
    [old] = shell.home.glob("memory.db.corrupt-*")
    assert old.read_bytes().startswith(b"no database")
    assert f"The damaged file is {old}" in done.stdout


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


@pytest.mark.parametrize("table", ["event_session", "search_data"])
def test_a_damaged_memory_answers_as_before_once_it_was_repaired(shell: Shell, table: str) -> None:
    fill(shell)
    shell.json("process")
    wanted = answers(shell)
    spoiled(shell, table)
    done = shell.json("doctor", "--repair")
    kept = done["repaired"]
    assert (kept["events"], kept["lost"], kept["sources"], kept["tree"]) == (9, 0, ["file"], True)
    assert answers(shell) == wanted
    assert (done["problems"], done["capture"]) == ([], "imported")
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


def transcript(shell: Shell) -> None:
    """A session in the place where a client keeps its own."""
    folder = shell.cwd.parent / ".claude/projects/-home-ada-shop"
    folder.mkdir(parents=True)
    line = {
        "type": "user",
        "uuid": "u1",
        "sessionId": "s7",
        "timestamp": "2026-03-01T08:00:00Z",
        "cwd": "/home/ada/shop",
    }
    line["message"] = {"role": "user", "content": "The heron nests on the north pier."}  # type: ignore[assignment]
    (folder / "s7.jsonl").write_text(json.dumps(line | {"cwd": "/home/ada/shop"}) + "\n")


def test_what_is_lost_is_told_and_the_transcripts_are_read_again(shell: Shell) -> None:
    transcript(shell)
    shell.json("import")
    spoiled(shell, "event")  # so few that all are on the page that is gone
    done = shell.run("doctor", "--repair", PATH="")
    assert done.returncode == 0, done.stderr
    assert "At least 9 events could not be found" in done.stdout
    assert "were read again and held 1 more events" in done.stdout
    hits = shell.json("search", "heron pier", "--project", "*")["hits"]
    assert "heron" in hits[0]["snippet"]


def test_what_was_said_is_found_again_in_a_backup(shell: Shell) -> None:
    fill(shell)
    shell.json("process")
    shell.json("backup", str(shell.home / "copy.db"))
    (shell.home / "backups").mkdir()
    (shell.home / "copy.db").rename(shell.home / "backups" / "memory-1772442000000-9.db")
    wanted = answers(shell)
    spoiled(shell, "event")
    done = shell.json("doctor", "--repair")
    assert done["repaired"]["sources"][-1] == "backup"
    assert done["repaired"]["events"] == 9
    assert answers(shell) == wanted


def test_a_whole_memory_is_indexed_anew_and_answers_as_before(shell: Shell) -> None:
    fill(shell)
    shell.json("process")
    wanted = answers(shell)
    with closing(sqlite3.connect(shell.home / "memory.db", isolation_level=None)) as connection:
        connection.execute("INSERT INTO search (search) VALUES ('delete-all')")
    done = shell.run("doctor", "--repair")
    assert done.returncode == 0
    assert "The index was rebuilt; the tree was whole." in done.stdout
    assert answers(shell) == wanted
    assert not list(shell.home.glob("memory.db.corrupt-*"))


def test_where_there_is_no_memory_none_is_made(shell: Shell) -> None:
    done = shell.run("doctor", "--repair")
    assert (done.returncode, "nothing to repair" in done.stdout) == (0, True)
    assert not (shell.home / "memory.db").exists()


def test_a_newer_database_is_refused(shell: Shell) -> None:
    shell.home.mkdir()
    connection = sqlite3.connect(shell.home / "memory.db")
    connection.execute("PRAGMA user_version = 999")
    connection.commit()
    connection.close()
    done = shell.run("toc")
    assert done.returncode == 1
    assert "schema 999" in done.stderr


@pytest.mark.parametrize("both", [False, True])
def test_a_damaged_inbox_is_repaired_too(shell: Shell, both: bool) -> None:
    fill(shell)
    shell.json("process")
    wanted = answers(shell)
    if both:
        spoiled(shell, "event_session")
    (shell.home / "inbox.db").write_bytes(b"no database " * 500)
    done = shell.run("process")
    assert (done.returncode, "doctor --repair" in done.stderr) == (1, True)
    done = shell.run("doctor", "--repair")
    assert done.returncode == 0, done.stderr
    [old] = shell.home.glob("inbox.db.corrupt-*")
    assert f"the damaged one is {old}" in done.stdout
    assert len(list(shell.home.glob("memory.db.corrupt-*"))) == both
    assert answers(shell) == wanted
    assert shell.json("process")["idle"]
