"""The commands that tell of the work itself, as one meets them in a directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_memory.capture.inbox import Row, spool
from mcp_memory.capture.redaction import Clean
from tests.support import REPO, conversation, let_have_captured
from tests.surfaces.shell import Shell

COMMANDS = (["last"], ["today"], ["open"], ["file", "a.py"], ["sessions"])


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The sample history, seen from the directory of one of its projects; the tests only read."""
    shell = Shell(tmp_path_factory.mktemp("work"))
    shell.environment |= {"MCP_MEMORY_NOW": "2026-11-16T12:00:00Z", "MCP_MEMORY_PROJECT": "tidepool-api"}
    shell.json("demo")
    return shell


def test_without_a_command_it_shows_where_one_is_and_three_ways_on(sample: Shell) -> None:
    done = sample.run()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("tidepool-api · 2026-10-12 █")
    assert lines[lines.index("Last session:") + 1].endswith("s:tidepool-api-08")
    assert lines[lines.index("Open:") + 1].startswith("- Left open: duplicate confirmation mails")
    assert [line.split()[:2] for line in lines[-3:]] == [["mcp-memory", word] for word in ("last", "search", "--help")]


def test_in_a_directory_without_a_memory_all_projects_are_named(sample: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sample.environment, "MCP_MEMORY_PROJECT")
    told = sample.run().stdout
    assert told.startswith(f"Nothing is remembered of {sample.cwd} yet. Memory holds: tidepool-api, tidepool-web.")
    assert "Last session:" in told


def test_an_empty_memory_is_told_how_to_begin(shell: Shell) -> None:
    told = shell.run().stdout
    assert told.startswith("This memory is empty.")
    assert [line.split()[1] for line in told.splitlines() if "mcp-memory" in line] == ["import", "install", "demo"]
    for command in COMMANDS:
        done = shell.run(*command)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
        assert shell.json(*command)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
def test_a_project_that_does_not_exist_is_answered_by_those_that_do(sample: Shell, command: list[str]) -> None:
    done = sample.run(*command, "--project", "tidepol-api")
    assert done.returncode != 0
    assert "tidepool-api" in done.stderr
    assert done.stdout == ""


def test_last_tells_what_was_asked_what_came_of_it_and_what_is_open(sample: Shell) -> None:
    told = sample.run("last").stdout
    assert "Asked last:\nuser: I'll ask the provider. Leave it open until they answer." in told
    assert "`mcp-memory session tidepool-api-08` shows its latest messages." in told
    shape = sample.json("last")
    assert shape["session"]["session_id"] == "tidepool-api-08"
    assert shape["asked"]["snippet"].startswith("I'll ask the provider")
    assert shape["open"]


def test_today_tells_of_today_or_of_the_last_session(sample: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sample.run("today").stdout.startswith("Nothing of today is in the summaries yet.")
    assert sample.json("today")["last"]["session_id"] == "tidepool-api-08"
    monkeypatch.setitem(sample.environment, "MCP_MEMORY_NOW", "2026-11-13T18:00:00Z")
    told = sample.run("today").stdout
    assert told.startswith("'today' = 2026-11-13")
    assert "Bookings are sometimes confirmed twice" in told
    assert sample.json("today")["nodes"]


def test_open_lists_what_was_left_without_saying_so_twice(sample: Shell) -> None:
    told = sample.run("open").stdout
    assert "\n  - Left open: duplicate confirmation mails" in told
    assert "Open: Left open" not in told
    assert len(sample.json("open", "--limit", "1")["open"]) == 1


def test_a_file_is_known_by_its_name_alone_and_a_slip_is_mended(sample: Shell) -> None:
    whole = sample.json("file", "app/middleware/rate_limit.py")["changes"]
    assert [hit["id"] for hit in sample.json("file", "rate_limit.py")["changes"]] == [hit["id"] for hit in whole]
    assert "There is more: raise --limit." in sample.run("file", "rate_limit.py", "--limit", "1").stdout
    assert "Did you mean" in sample.run("file", "rate_limits.py").stdout
    assert "`mcp-memory file ja.json --project '*'` looks in all projects" in sample.run("file", "ja.json").stdout
    assert "No change of" in sample.run("file", "ja\udcff.json").stdout


def test_a_session_without_an_id_lists_the_sessions(sample: Shell) -> None:
    assert sample.run("session").stdout == sample.run("sessions").stdout
    assert sample.run("session", "--project", "*").stdout == sample.run("sessions", "--project", "*").stdout
    assert len(sample.json("sessions", "--limit", "3")["sessions"]) == 3
    assert {one["project"] for one in sample.json("sessions", "--project", "*")["sessions"]} == {
        "tidepool-api",
        "tidepool-web",
    }


def test_a_session_is_known_by_as_much_of_its_id_as_is_printed(shell: Shell) -> None:
    names = [
        "0d5b0c1e-7c9a-4f62-8b1c-6a2e6f7f8a01",
        "0d5b0c1e-7c9a-4f62-8b1c-6a2e6f7f8a02",
        "77aa0c1e-7c9a-4f62-8b1c-6a2e6f7f8a01",
    ]
    path = shell.cwd / "history.jsonl"
    lines = [line for name in names for line in conversation(session=name, project="work")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    shell.json("import", str(path), "--client", "jsonl")
    assert shell.run("sessions").stdout.startswith("No session is in the summaries here yet. ")
    shell.json("process")
    assert "  s:77aa0c1e\n" in shell.run("sessions").stdout
    assert shell.json("session", "s:77aa0c1e")["session_id"] == names[2]
    done = shell.run("session", "0d5b0c1e")
    assert done.returncode == 1
    assert "the beginning of several sessions" in done.stderr


def test_a_client_that_never_wrote_is_answered_by_those_that_did(sample: Shell) -> None:
    assert sample.json("sessions", "--client", "jsonl")["sessions"]
    done = sample.run("sessions", "--client", "jsnl")
    assert done.returncode == 2
    assert "Known are: jsonl. Did you mean 'jsonl'?" in done.stderr


@pytest.mark.parametrize("command", [["open"], ["sessions"], ["file", "a.py"]], ids=lambda command: str(command[0]))
@pytest.mark.parametrize("limit", ["0", "501"])
def test_a_limit_out_of_bounds_is_wrong_usage(sample: Shell, command: list[str], limit: str) -> None:
    done = sample.run(*command, "--limit", limit)
    assert done.returncode == 2
    assert "--limit takes a number from 1 to 500" in done.stderr


def test_status_says_in_words_whether_all_is_well(sample: Shell, shell: Shell) -> None:
    told = sample.run("status").stdout.splitlines()
    stands = "3 days ago, 239 events in 11 sessions, nothing waits."
    assert told[0] == f"All is well: last event {stands}"
    assert "History was imported." in " ".join(told)
    sample.json("install", "claude-code")
    told = sample.run("status").stdout.splitlines()
    assert told[:2] == [f"All is well: last event {stands}", "Claude Code is connected; waiting for the first session."]
    let_have_captured(sample.home)
    told = sample.run("status").stdout.splitlines()
    assert told[0] == f"All is well: last captured {stands}"
    assert "active days, the busiest" in told[1]
    assert "events" not in [line.split()[0] for line in told]
    assert "\nevents  " in sample.run("status", "-v").stdout
    assert shell.run("status").stdout.startswith("Empty: `mcp-memory import` loads old history")


def test_a_memory_that_was_told_something_is_not_empty_before_it_is_read(shell: Shell) -> None:
    spool(str(shell.home), Row(1_772_000_000_000, "claude-code", "/home/ada/kite", "", Clean("{}")))
    told = shell.run("status").stdout
    assert "0 events in 0 sessions, 1 captured to be read (`mcp-memory process` does it now)." in told
    assert "Empty" not in told


def test_status_names_what_waits_and_what_is_wrong(shell: Shell) -> None:
    shell.json("remember", "The bridge opens at nine.")
    assert "1 to be summarized (`mcp-memory process` does it now)." in shell.run("status").stdout
    command = [sys.executable, str(REPO / "hooks" / "capture.py")]
    subprocess.run(command, input=b'{"nothing": "known"}', env=shell.environment, check=True, timeout=60)
    shell.json("process")
    told = shell.run("status").stdout.splitlines()
    assert " things need you: " in told[0]
    assert "is of no known form: " in "".join(told[1:3])


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["serch", "x"], "'search'"),
        (["sesions"], "'sessions'"),
        (["tocc"], "'toc'"),
        (["search", "x", "--limt", "3"], "'--limit'"),
        (["toc", "--depth", "weeek"], "'week'"),
    ],
)
def test_a_typo_is_answered_by_what_was_probably_meant(sample: Shell, words: list[str], meant: str) -> None:
    done = sample.run(*words)
    assert done.returncode == 2
    assert f"Did you mean {meant}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_client_without_an_installation_of_its_own_is_told_by_which_it_is_captured(sample: Shell) -> None:
    told = sample.run("install", "vscode").stderr
    assert "`install claude-code`" in told
    assert "Did you mean" not in told


def test_help_shows_the_commands_by_what_one_wants(sample: Shell) -> None:
    told = sample.run("--help").stdout
    groups = ["look at what is remembered", "bring history in", "keep it well", "connect agents and people"]
    places = [told.index(f"\n{group}:\n") for group in groups]
    assert places == sorted(places)
    listed = [line.split()[0] for line in told.splitlines() if line.startswith("  ") and line[2] not in " -"]
    assert len(listed) == len(set(listed)) > 30
    assert told.index("\n  web ") > places[3] > told.index("\n  status ") > places[2]


def test_the_demo_shows_titles_before_ids_and_how_to_go_on(sample: Shell) -> None:
    told = sample.run("demo").stdout
    assert told.startswith("This memory is already in use: 239 events in 11 sessions of 2 projects.")
    assert "Friday, November 13, 2026: Bookings are sometimes confirmed twice" in told


def test_an_old_session_is_listed_with_one_date(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in conversation("2025-03-02")))
    shell.json("import", str(path), "--client", "jsonl")
    shell.json("process")
    listed = shell.run("sessions").stdout.splitlines()[0]
    assert listed.count("2025-03-0") == 1
