"""The command line, through its console script, as a user meets it."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support import REPO, conversation

SCRIPT = Path(sys.executable).with_name("mcp-memory")


class Shell:
    """Runs the console script in a directory with a memory of its own."""

    def __init__(self, root: Path) -> None:
        self.home, self.cwd = root / "home", root / "work"
        self.cwd.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "MCP_MEMORY_HOME": str(self.home),
            "MCP_MEMORY_CALENDAR_TIMEZONE": "UTC",
            "MCP_MEMORY_NOW": "2026-03-10T12:00:00Z",
        }

    def run(self, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPT), *args],
            cwd=self.cwd,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )

    def json(self, *args: str) -> dict[str, Any]:
        done = self.run(*args, "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A memory with two small projects; the tests that share it only read."""
    shell = Shell(tmp_path_factory.mktemp("cli"))
    path = shell.cwd / "history.jsonl"
    lines = [*conversation("2026-03-02"), *conversation("2026-03-04", session="s2", project="beta")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = shell.json("import", str(path), "--client", "jsonl")
    assert (done["files"], done["events_new"], done["skipped"]) == (1, 16, [])
    assert shell.json("process", "--until-idle")["idle"] is True
    return shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_from_toc_to_the_exact_words(loaded: Shell) -> None:
    toc = loaded.json("toc", "--project", "alpha")
    assert [node["level"] for node in toc["nodes"]] == ["year", "month", "week", "day"]
    day = loaded.json("node", toc["nodes"][-1]["node_id"])
    assert day["children"][0]["node_id"].startswith("toc:segment:2026-03-02:")
    assert day["children"][0]["bullets"] >= 1
    grip = loaded.json("grip", day["bullets"][0]["grip_ids"][0])
    assert grip["state"] == "exact"
    assert any(grip["excerpt"] in event["text"] for event in grip["events"])
    assert {event["session_id"] for event in [*grip["before"], *grip["events"], *grip["after"]]} == {"s1"}


def test_a_node_shape_has_every_promised_field(loaded: Shell) -> None:
    node = loaded.json("node", "toc:day:2026-03-02@alpha")
    promised = (
        "node_id level title start_time end_time bullets keywords child_node_ids version open written_by project tokens"
    )
    assert set(promised.split()) <= set(node)
    assert node["written_by"] == "extractive"
    assert (node["start_time"], node["end_time"]) == ("2026-03-02T00:00:00.000Z", "2026-03-03T00:00:00.000Z")


def test_search_finds_identifiers_however_they_are_written(loaded: Shell) -> None:
    for query in ("refreshToken", "refresh_token", "refresh token", "SESSION_TTL", "sessionTtl", "session.ttl"):
        hits = loaded.json("search", query, "--project", "alpha")["hits"]
        assert hits, query
        assert hits[0]["source_ids"]
        assert hits[0]["band"] in ("jump", "verify", "compare", "browse")


def test_search_echoes_the_time_and_keeps_to_it(loaded: Shell) -> None:
    found = loaded.json("search", "login timeout", "--project", "*", "--when", "2026-03-04")
    assert found["when"]["start"] == "2026-03-04T00:00:00.000Z"
    assert {hit["project"] for hit in found["hits"]} == {"beta"}


def test_search_spreads_its_hits_on_request(loaded: Shell) -> None:
    plain, spread = (
        loaded.json("search", "session timeout", "--project", "*", *more)["hits"] for more in ((), ("--diverse",))
    )
    sessions = {hit["session_id"] for hit in plain}
    assert {hit["session_id"] for hit in spread[: len(sessions)]} == sessions
    assert {hit["id"] for hit in plain} == {hit["id"] for hit in spread}


def test_an_empty_search_names_other_projects(loaded: Shell) -> None:
    assert loaded.json("search", "nosuchwordatall", "--project", "alpha")["elsewhere"] == []
    note = loaded.run("remember", "The quagga stands in beta only.", "--project", "beta")
    assert note.returncode == 0
    found = loaded.json("search", "quagga", "--project", "alpha")
    assert found["hits"] == []
    assert found["elsewhere"] == [{"project": "beta", "hits": 1}]


def test_a_budget_is_kept(loaded: Shell) -> None:
    from mcp_memory.adapters.tokens import count

    for budget in (80, 150, 400):
        found = loaded.json("search", "login timeout", "--project", "*", "--budget", str(budget), "--limit", "50")
        assert found["tokens"] <= budget
        text = loaded.run("search", "login timeout", "--project", "*", "--budget", str(budget), "--limit", "50").stdout
        assert count(text.rstrip("\n")) <= budget


def test_timeline_answers_a_time_phrase(loaded: Shell) -> None:
    found = loaded.json("timeline", "last week", "--project", "*")
    assert found["when"] == {
        "phrase": "last week",
        "start": "2026-03-02T00:00:00.000Z",
        "end": "2026-03-09T00:00:00.000Z",
    }
    assert [node["node_id"] for node in found["nodes"]] == ["toc:day:2026-03-02@alpha", "toc:day:2026-03-04@beta"]


def test_a_topic_keeps_the_branches_that_speak_of_it(loaded: Shell) -> None:
    assert loaded.json("toc", "--project", "alpha", "--topic", "login")["nodes"]
    assert loaded.json("toc", "--project", "alpha", "--topic", "zebra")["nodes"] == []


def test_import_twice_adds_nothing(loaded: Shell) -> None:
    done = loaded.json("import", str(loaded.cwd / "history.jsonl"))
    assert (done["events_new"], done["events_known"]) == (0, 16)


def test_status_tells_what_is_stored(loaded: Shell) -> None:
    status = loaded.json("status")
    promised = "home events sessions segments nodes inbox spool last_event last_rollup db_bytes llm lease schema"
    assert set(promised.split()) <= set(status)
    assert status["events"] >= 16
    assert status["llm"]["calls"] == 0


def test_history_shows_every_version(loaded: Shell) -> None:
    node = loaded.json("node", "toc:day:2026-03-02@alpha", "--history")
    assert [version["version"] for version in node["history"]] == [1]
    assert "v1 extractive" in loaded.run("node", "toc:day:2026-03-02@alpha", "--history").stdout


def test_an_export_can_be_imported_again(loaded: Shell, tmp_path: Path) -> None:
    target = tmp_path / "all.jsonl"
    assert loaded.run("export", "--project", "*", "-o", str(target)).returncode == 0
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert len(lines) >= 16
    other = Shell(tmp_path)
    done = other.json("import", str(target), "--client", "jsonl")
    assert (done["events_new"], done["skipped"]) == (len(lines), [])


def test_the_tree_can_be_exported_as_markdown(loaded: Shell, tmp_path: Path) -> None:
    assert (
        loaded.run("export", "--format", "markdown", "--project", "alpha", "-o", str(tmp_path / "md")).returncode == 0
    )
    page = (tmp_path / "md" / "alpha" / "day-2026-03-02.md").read_text()
    assert page.startswith('---\nid: "toc:day:2026-03-02"\nlevel: "day"\n')
    assert "[[week-2026-W10|" in page
    assert "`grip:" in page


def test_a_backup_is_a_complete_memory(loaded: Shell, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    assert loaded.run("backup", str(tmp_path / "home" / "memory.db")).returncode == 0
    assert Shell(tmp_path).json("status")["nodes"] == loaded.json("status")["nodes"]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["node", "toc:day:2026-13-45"], 2, "not"),
        (["node", "nonsense"], 2, "toc:year:2024"),
        (["node", "toc:day:1999-01-01", "--project", "alpha"], 1, "toc_root"),
        (["grip", "grip:x"], 2, "grip:1705330800000"),
        (["grip", "grip:1705330800000:01HN4QXKN6YWXVKZ3JMHP4BCDE"], 1, "get_node"),
        (["timeline", "the day the music died"], 2, "last week"),
        (["search", "  ", "--project", "*"], 2, "no word"),
        (["search", "x", "--kind", "poem"], 2, "segment"),
        (["toc", "--project", "nowhere"], 1, "alpha"),
        (["import", "does-not-exist.jsonl"], 1, "does not exist"),
        (["remember", "   "], 2, "empty"),
        (["search", "login", "--budget", "-5"], 2, "budget"),
        (["frobnicate"], 2, "invalid choice"),
        (["export", "--format", "markdown"], 2, "-o"),
    ],
)
def test_wrong_input_says_what_to_do_and_never_a_traceback(
    loaded: Shell, args: list[str], code: int, says: str
) -> None:
    done = loaded.run(*args)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_are_json_where_json_was_asked_for(loaded: Shell) -> None:
    done = loaded.run("node", "nonsense", "--json")
    assert done.returncode == 2
    assert "node id" in json.loads(done.stdout)["error"]


def test_any_string_is_a_valid_query(loaded: Shell) -> None:
    for query in (
        '"',
        "*",
        "AND OR NOT",
        "a* NEAR(b)",
        "col:x",
        "🦜",
        "x" * 10_000,
        "'; DROP TABLE event; --",
        "日本語",
        "-",
    ):
        done = loaded.run("search", query, "--project", "*", "--json")
        assert done.returncode == 0, query
        assert isinstance(json.loads(done.stdout)["hits"], list)


def test_a_query_without_a_word_says_so_and_what_to_do(loaded: Shell) -> None:
    done = loaded.run("search", "🦜", "--project", "*")
    assert done.returncode == 0, done.stderr
    assert "no word to look for" in done.stdout
    assert "The latest days" in done.stdout


def test_a_bad_setting_names_file_key_and_what_is_allowed(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "config.toml").write_text("[segmentation]\nmax_tokens = 5\n")
    done = shell.run("status")
    assert done.returncode == 2
    assert "config.toml" in done.stderr
    assert "segmentation.max_tokens" in done.stderr
    assert "200" in done.stderr


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


def test_an_import_that_finds_nothing_says_what_it_looked_for(shell: Shell) -> None:
    empty, folder = shell.cwd / "empty.jsonl", shell.cwd / "folder"
    empty.touch()
    folder.mkdir()
    for args in ([str(empty)], [str(empty), "--client", "jsonl"], [str(folder)]):
        done = shell.run("import", *args)
        assert done.returncode == 0
        assert f"No history was found in {args[0]}" in done.stdout
        assert "*.jsonl" in done.stdout
    done = shell.run("import")
    assert ".claude/projects" in done.stdout
    assert "No history" in shell.json("import", str(folder))["hint"]


def test_a_file_of_no_known_form_is_told_without_a_line(shell: Shell) -> None:
    path = shell.cwd / "bin.jsonl"
    path.write_bytes(bytes(range(256)))
    assert f"  {path}: not a transcript" in shell.run("import", str(path)).stdout


def test_what_the_demo_prints_can_be_run_however_it_was_started(shell: Shell) -> None:
    environment = shell.environment | {"PATH": "/usr/bin:/bin"}
    for start in ([sys.executable, "-m", "mcp_memory"], [str(SCRIPT)]):
        done = subprocess.run([*start, "demo"], cwd=shell.cwd, env=environment, capture_output=True, text=True)
        assert f"{shlex.join(start)} search" in done.stdout
        entry = json.loads(done.stdout.splitlines()[-1])["mcpServers"]["memory"]
        assert [entry["command"], *entry["args"]] == [*start, "serve"]


def test_a_limit_that_allows_nothing_is_wrong_usage(loaded: Shell) -> None:
    done = loaded.run("search", "login", "--limit", "-3")
    assert done.returncode == 2
    assert "limit must be from 1 to 50" in done.stderr


def test_right_after_processing_nothing_waits_though_segments_are_open(shell: Shell) -> None:
    path = shell.cwd / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in conversation("2026-03-10")))
    shell.environment["MCP_MEMORY_NOW"] = "2026-03-10T09:05:40Z"
    shell.json("import", str(path), "--client", "jsonl")
    assert shell.json("process")["idle"] is True
    status = shell.json("status")
    assert status["backlog"] == {"sessions": 0, "segments": 0, "periods": 0}
    assert status["open_segments"] == 1
    assert re.search(r"^open segments +1$", shell.run("status").stdout, re.MULTILINE)
    shell.environment["MCP_MEMORY_NOW"] = "2026-03-10T09:20:00Z"
    assert shell.json("status")["backlog"]["segments"] == 1


def test_a_newer_database_is_refused(shell: Shell) -> None:
    shell.home.mkdir()
    connection = sqlite3.connect(shell.home / "memory.db")
    connection.execute("PRAGMA user_version = 999")
    connection.commit()
    connection.close()
    done = shell.run("toc")
    assert done.returncode == 1
    assert "schema 999" in done.stderr


def test_the_demo_loads_the_sample_once(shell: Shell) -> None:
    first = shell.json("demo")
    second = shell.json("demo")
    assert first["loaded"]
    assert not second["loaded"]
    assert first["events"] == second["events"] >= 150
    assert first["sessions"] >= 6
    assert first["projects"] == 2
    assert "toc:day:" in shell.run("demo").stdout


@pytest.mark.parametrize("command", ["toc", "status", "search"])
def test_reading_imports_no_server_and_no_model_library(shell: Shell, command: str) -> None:
    args = [command, *(["x"] if command == "search" else [])]
    code = (
        "import sys; from mcp_memory.surfaces.cli import main; main(sys.argv[1:]); "
        "print([name for name in ('mcp', 'anthropic', 'openai', 'whoosh', 'rich', 'starlette') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], cwd=REPO, env=shell.environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_the_module_is_the_same_program(shell: Shell) -> None:
    done = subprocess.run([sys.executable, "-m", "mcp_memory", "--version"], capture_output=True, text=True, cwd=REPO)
    assert done.stdout == shell.run("--version").stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_a_reader_that_leaves_early_is_no_error(loaded: Shell) -> None:
    done = subprocess.run(
        f"'{SCRIPT}' export --project '*' | head -c 10",
        shell=True,
        cwd=loaded.cwd,
        env=loaded.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert len(done.stdout) == 10
    assert done.stderr == ""


def test_what_is_said_but_not_summarized_is_not_denied(shell: Shell) -> None:
    shell.run("remember", "The harbour bridge opens at nine.")
    shell.json("process")
    for command in (("toc",), ("toc", "--budget", "200"), ("timeline", "today")):
        told = shell.run(*command).stdout
        assert "1 event of 1 open session will be summarized once there is a pause" in told
        assert "Nothing is remembered" not in told
    assert "Nothing is remembered about 'zebra'" in shell.run("toc", "--topic", "zebra").stdout


def test_ids_of_another_project_can_be_followed(shell: Shell) -> None:
    """Standing in no project, or in another one, every id says whose it is."""
    lines = [line for project in ("alpha", "beta") for line in conversation(session=f"s-{project}", project=project)]
    path = shell.cwd / "two.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    shell.json("import", str(path), "--client", "jsonl")
    shell.json("process")
    day = shell.json("node", "toc:day:2026-03-02@beta")
    assert day["parent"] == "toc:week:2026-W10@beta"
    assert shell.json("node", day["parent"])["project"] == "beta"
    hit = shell.json("search", "login timeout", "--project", "beta")["hits"][0]
    assert hit["title"]
    assert not hit["title"].startswith("toc:")
    grip = shell.json("grip", day["bullets"][0]["grip_ids"][0])
    assert grip["node_id"].endswith("@beta")
