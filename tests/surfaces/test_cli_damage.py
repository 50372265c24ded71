"""The command line with a database that is damaged or not its own: it says so, and nothing is lost."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

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
    assert shell.run("process", "--set-aside-corrupt").returncode == 0
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


def test_a_newer_database_is_refused(shell: Shell) -> None:
    shell.home.mkdir()
    connection = sqlite3.connect(shell.home / "memory.db")
    connection.execute("PRAGMA user_version = 999")
    connection.commit()
    connection.close()
    done = shell.run("toc")
    assert done.returncode == 1
    assert "schema 999" in done.stderr
