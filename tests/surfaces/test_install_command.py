"""`install` and `uninstall` as commands, with a home directory of their own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.surfaces.machine import Machine

CLIENTS = ["claude-code", "codex", "gemini", "cursor"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_whole_round_leaves_nothing_behind(machine: Machine, client: str) -> None:
    dry = machine.run("install", client, "--dry-run")
    assert (dry.returncode, dry.stderr) == (0, "")
    assert "\n+++ " in dry.stdout
    assert machine.files() == {}
    assert not machine.memory.exists()
    installed = machine.json("install", client)
    assert (installed["client"], installed["scope"], installed["dry_run"]) == (client, "user", False)
    assert {file["change"] for file in installed["files"]} == {"created"}
    assert {file["path"] for file in installed["files"]} == set(machine.files())
    assert {file["change"] for file in machine.json("install", client)["files"]} == {"unchanged"}
    undone = machine.json("uninstall", client)
    assert {file["change"] for file in undone["files"]} == {"removed"}
    assert machine.files() == {}


@pytest.mark.parametrize(
    ("client", "variable", "files"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", {"settings.json", ".claude.json"}),
        ("codex", "CODEX_HOME", {"hooks.json", "config.toml"}),
        ("gemini", "GEMINI_CLI_HOME", {".gemini/settings.json"}),
    ],
)
def test_a_client_whose_folder_was_moved_is_registered_where_it_looks(
    machine: Machine, client: str, variable: str, files: set[str]
) -> None:
    folder = machine.home / "elsewhere"
    folder.mkdir()
    machine.env[variable] = str(folder)
    machine.json("install", client)
    assert set(machine.files()) == {str(folder / name) for name in files}
    machine.json("uninstall", client)
    assert machine.files() == {}


def test_project_scope_is_written_at_the_top_of_the_project_and_undone_from_below(machine: Machine) -> None:
    done = machine.run("install", "claude-code", "--scope", "project", cwd=machine.project / "src")
    assert done.returncode == 0, done.stderr
    assert set(machine.files()) == {str(machine.project / ".claude/settings.json"), str(machine.project / ".mcp.json")}
    assert machine.json("uninstall", "claude-code")["scope"] == "project"
    assert machine.files() == {}


def test_the_text_says_what_was_changed_and_what_to_do_next(machine: Machine) -> None:
    done = machine.script("install", "codex")
    assert done.returncode == 0
    told, then = done.stdout.splitlines()
    things = "9 hooks, the MCP server `memory` and the setting `mcp_optional_startup_grace_ms`"
    assert told == f"Added {things} to ~/.codex/hooks.json and ~/.codex/config.toml; nothing else was changed."
    assert then.startswith("Next: ")
    assert "trust" in then
    assert machine.run("install", "codex").stdout == "codex: nothing to change.\n"


def test_a_trial_begins_with_one_sentence_and_shows_hooks_that_are_alike_once(machine: Machine) -> None:
    told, *diff = machine.run("install", "claude-code", "--dry-run").stdout.splitlines()
    where = "~/.claude/settings.json and ~/.claude.json"
    assert told == f"Would add 11 hooks and the MCP server `memory` to {where}; nothing else changes."
    assert sum("capture.py" in line for line in diff) == 1
    [others] = [line for line in diff if "… and the same for " in line]
    assert others.startswith("+    … and the same for UserPromptSubmit, PostToolUse, ")
    assert others.endswith(", SessionEnd (timeout: 1)")
    machine.run("install", "claude-code")
    told, *diff = machine.run("uninstall", "claude-code", "--dry-run").stdout.splitlines()
    assert told == f"Would take 11 hooks and the MCP server `memory` out of {where}; nothing else changes."
    assert sum("capture.py" in line for line in diff) == 1
    undone = machine.run("uninstall", "claude-code").stdout.splitlines()
    assert undone[0].startswith("Took 11 hooks and the MCP server `memory` out of ")
    assert undone[1] == "What was there before install is back, byte for byte."


def test_in_a_trial_what_others_wrote_stays_as_it_is(machine: Machine) -> None:
    (machine.home / ".cursor").mkdir()
    theirs = {"version": 1, "hooks": {"stop": [{"command": "chime"}], "ring": [{"command": "bell"}]}}
    (machine.home / ".cursor/hooks.json").write_text(json.dumps(theirs, indent=4))
    diff = machine.run("install", "cursor", "--dry-run").stdout
    # Ours beside theirs in one event, in an event of its own, and that again for all the others.
    assert diff.count("capture.py") == 2
    assert '"stop"' in diff.partition("the same for")[0]
    assert "stop," not in diff.partition("the same for")[2]
    assert [line for line in diff.splitlines() if line.startswith("-") and not line.startswith("---")] == []


def test_entries_of_an_earlier_installation_are_brought_up_to_date(machine: Machine) -> None:
    machine.run("install", "gemini")
    moved = machine.run("install", "gemini", "--dry-run", env={"MCP_MEMORY_HOME": str(machine.memory / "elsewhere")})
    assert moved.stdout.startswith("Would bring 5 hooks and the MCP server `memory` up to date in ~/.gemini/settings.j")


def test_without_a_name_the_clients_found_are_told_and_nothing_is_done(machine: Machine) -> None:
    (machine.home / ".gemini").mkdir()
    program = machine.home.parent / "bin/codex"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    asked = machine.script("install")
    assert asked.returncode == 2
    assert "Found: codex, gemini. Name one, or pass --yes" in asked.stderr
    assert machine.files() == {}
    done = machine.json("install", "--yes")
    assert [entry["client"] for entry in done["clients"]] == ["codex", "gemini"]
    assert machine.run("uninstall").returncode == 2
    assert len(machine.json("uninstall", "--yes")["clients"]) == 2
    assert machine.files() == {}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["install"], "There is no client to install"),
        (["install", "codex", "--scope", "project"], "mcp-memory install codex --scope user"),
        (["install", "emacs"], "invalid choice"),
        (["uninstall"], "There is no client to uninstall"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_right(machine: Machine, args: list[str], says: str) -> None:
    done = machine.run(*args)
    assert done.returncode == 2
    assert says in done.stderr


def test_the_home_directory_is_no_project(machine: Machine) -> None:
    done = machine.run("install", "cursor", "--scope", "project", cwd=machine.home)
    assert done.returncode == 2
    assert "--scope user" in done.stderr


def test_a_broken_settings_file_is_named_and_nothing_is_written(machine: Machine) -> None:
    (machine.home / ".gemini").mkdir()
    (machine.home / ".gemini/settings.json").write_text('{\n  "a": 1\n  "b": 2\n}\n')
    before = machine.files()
    done = machine.run("install", "gemini", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert "settings.json cannot be edited: line 3, column 3: Expecting ',' delimiter" in error
    assert machine.files() == before


def test_uninstalling_what_is_not_installed_is_no_error(machine: Machine) -> None:
    assert machine.json("uninstall", "cursor") == {"client": "cursor", "scope": None, "files": [], "dry_run": False}


def test_a_deleted_working_directory_is_no_obstacle(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: type[Path]) -> Path:
        raise FileNotFoundError

    machine.run("install", "claude-code")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "cwd", classmethod(gone))
        done = machine.run("uninstall", "claude-code")
    assert done.returncode == 0, done.stderr
    assert machine.files() == {}


def test_a_directory_that_cannot_be_written_is_told_without_a_traceback(machine: Machine) -> None:
    if os.name != "posix" or os.geteuid() == 0:
        (machine.home / ".cursor").write_text("a file where a directory should be")
    else:
        machine.home.chmod(0o500)
    done = machine.run("install", "cursor")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(machine.home / ".cursor") in done.stderr
