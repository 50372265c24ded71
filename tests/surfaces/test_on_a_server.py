"""A memory on a PostgreSQL server, as a user of the command line meets it: when all is well, and when it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from mcp_memory.capture.inbox import Row, append
from mcp_memory.capture.redaction import Clean
from tests import postgres
from tests.support import conversation
from tests.surfaces.shell import Shell

SECRET = "geheim-4711"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell, url = Shell(tmp_path), postgres.new_database()
    shell.environment["MCP_MEMORY_STORE_URL"] = url
    yield shell
    postgres.drop_database(url)


def url_of(shell: Shell) -> str:
    return shell.environment["MCP_MEMORY_STORE_URL"]


def sql(shell: Shell, text: str) -> None:
    postgres.shared_server().sql(text, url_of(shell).rpartition("/")[2])


def tell(shell: Shell) -> None:
    path = shell.cwd / "history.jsonl"
    lines = [*conversation("2026-03-02"), *conversation("2026-03-04", session="s2", project="beta")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert shell.json("import", str(path), "--client", "jsonl")["events_new"] == 16
    shell.json("process")


def whats(shell: Shell, **env: str) -> list[str]:
    """What `doctor` finds, but that no client is connected here."""
    done = shell.run("doctor", "--json", **env)
    found = json.loads(done.stdout)["problems"]
    assert done.returncode == (1 if found else 0), done.stderr
    assert SECRET not in done.stdout + done.stderr
    return [problem["what"] for problem in found if "connected" not in problem["what"]]


def test_every_command_works_on_a_memory_on_a_server(shell: Shell) -> None:
    tell(shell)
    status = shell.json("status")
    assert (status["events"], status["projects"], status["index"]["kind"]) == (16, 2, "postgres")
    assert status["db_bytes"] > 1_000_000
    assert whats(shell) == []
    assert "the tree was whole" in shell.run("doctor", "--repair").stdout
    assert shell.json("search", "login timeout", "--project", "*")["hits"]
    assert shell.json("projects", "rename", "beta", "gamma")
    assert shell.json("projects", "merge", "gamma", "alpha")
    assert [project["slug"] for project in shell.json("projects")["projects"]] == ["alpha"]
    assert shell.json("compact", "s1", "--force")
    assert shell.json("process", "--rebuild")
    exported = shell.run("export", "--format", "jsonl", "--project", "*").stdout.splitlines()
    assert len(exported) == 16
    refused = shell.run("backup", "copy.db")
    assert (refused.returncode, "pg_dump" in refused.stderr) == (2, True)
    tried = shell.json("forget", "--session", "s2", "--dry-run")
    assert tried["events"] == shell.json("forget", "--session", "s2", "--yes")["events"] == 8
    assert shell.json("status")["events"] == 8
    again = shell.json("import", "history.jsonl", "--client", "jsonl")
    assert again["events_new"] == 0
    assert not (shell.home / "memory.db").exists()


def test_forget_is_not_called_complete_before_the_tables_are_rewritten(shell: Shell) -> None:
    tell(shell)
    done = shell.json("forget", "--session", "s2", "--yes")
    assert (done["scrubbed"], done["unscrubbed"]) == (True, "")
    assert "write-ahead log" in done["unreached"]
    with psycopg.connect(url_of(shell)) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM mcp_memory.event")
        done = shell.json("forget", "--session", "s1", "--yes")
        assert not done["scrubbed"]
        assert "still reads an earlier state" in done["unscrubbed"]
        assert whats(shell) == ["what was forgotten is still in the server's files"]
    assert "rewritten by a running `mcp-memory serve`" in shell.run("doctor").stdout
    assert "what was forgotten is still in the server's files" in shell.run("status").stdout


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        (("memory@", f"memory:{SECRET}@", ":1/"), 1, "cannot be reached"),
        (("memory@", f"memory:{SECRET}@", "/nowhere"), 1, "refuses us"),
        (("memory@", f"nobody:{SECRET}@", ""), 1, "refuses us"),
        (("memory@", f"memory:{SECRET}@", "?sslmode=require"), 1, "refuses us"),
        (("postgresql://memory@", f"mysql://memory:{SECRET}@", ""), 2, "must be an address"),
    ],
)
def test_a_server_that_cannot_be_used_is_told_without_its_password(
    shell: Shell, change: tuple[str, str, str], code: int, told: str
) -> None:
    old, new, end = change
    url = url_of(shell).replace(old, new)
    if end == ":1/":
        url = url.partition("127.0.0.1:")[0] + "127.0.0.1:1/x"
    elif end.startswith("/"):
        url = url.rpartition("/")[0] + end
    else:
        url += end
    done = shell.run("status", MCP_MEMORY_STORE_URL=url)
    assert (done.returncode, told in done.stderr) == (code, True), done.stderr
    found = whats(shell, MCP_MEMORY_STORE_URL=url)
    assert found == ["the settings cannot be used" if code == 2 else "the memory on the server cannot be used"]
    for path in [*shell.home.rglob("*")] if shell.home.exists() else []:
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()
    assert SECRET not in done.stdout + done.stderr


def test_a_schema_of_a_later_version_is_left_alone(shell: Shell) -> None:
    sql(shell, "INSERT INTO mcp_memory.migration (number, name) VALUES (99, 'later')")
    done = shell.run("status")
    assert (done.returncode, "a later version wrote it" in done.stderr) == (1, True)
    assert ["newer version" in what for what in whats(shell)] == [True]


def test_a_server_that_can_only_be_read_answers_and_says_why_it_stores_nothing(shell: Shell) -> None:
    tell(shell)
    name = url_of(shell).rpartition("/")[2]
    postgres.shared_server().sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert shell.json("search", "login timeout", "--project", "*")["hits"]
    done = shell.run("forget", "--session", "s1", "--yes")
    assert (done.returncode, "can only be read" in done.stderr) == (1, True)
    assert "can only be read" in whats(shell)[0]
    postgres.shared_server().sql(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    assert shell.json("status")["events"] == 16


def test_rights_that_are_missing_are_named(shell: Shell) -> None:
    postgres.shared_server().sql(
        "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'poor') THEN CREATE ROLE poor LOGIN; "
        "END IF; END $$"
    )
    url = url_of(shell).replace("memory@", "poor@")
    done = shell.run("status", MCP_MEMORY_STORE_URL=url)
    assert (done.returncode, "docs/TEAM.md" in done.stderr) == (1, True)
    assert whats(shell, MCP_MEMORY_STORE_URL=url) == ["the memory on the server cannot be used"]
    bare = url.rpartition("/")[0] + "/postgres"
    assert ["the tables cannot be made" in what for what in whats(shell, MCP_MEMORY_STORE_URL=bare)] == [True]


def test_a_database_that_cannot_hold_every_word_is_refused(shell: Shell) -> None:
    server = postgres.shared_server()
    server.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        done = shell.run("status", MCP_MEMORY_STORE_URL=server.url("latin"))
        assert (done.returncode, "ENCODING 'UTF8'" in done.stderr) == (2, True)
        assert ["cannot hold a memory" in what for what in whats(shell, MCP_MEMORY_STORE_URL=server.url("latin"))]
    finally:
        server.drop_database(server.url("latin"))


@pytest.mark.slow
def test_what_is_captured_while_the_server_is_down_waits_and_is_stored_when_it_is_back(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    server = postgres.new_server("max_connections=20")
    shell.environment["MCP_MEMORY_STORE_URL"] = server.new_database()
    tell(shell)
    server.stop()
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "down", "prompt": "Mend the kite."}
    assert append(
        str(shell.home), Row(1_773_000_000_000, "claude-code", "/projects/kite", "", Clean(json.dumps(prompt)))
    )
    done = shell.run("process")
    assert (done.returncode, "cannot be reached" in done.stderr) == (1, True)
    assert whats(shell)[0] == "the memory on the server cannot be used"
    server.start()
    shell.json("process")
    assert shell.json("status")["events"] == 17
    assert shell.json("search", "kite", "--project", "*")["hits"]
