"""`doctor` as a command: each trouble is made, found, explained and mended."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.pipeline.ingest import checkpoint_name
from mcp_memory.store.sqlite import diagnosis
from mcp_memory.store.sqlite.migrations import INBOX, latest
from tests.support import REPO, needs_whoosh
from tests.surfaces.machine import HOUR, Machine, connected, fire, mend, now_ms, post, problems, sql, whats


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def installed(machine: Machine) -> Machine:
    return connected(machine)


def edit(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_all_is_well_once_something_was_captured(installed: Machine) -> None:
    done = installed.script("doctor")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("All is well.")
    assert "claude-code" in installed.json("doctor")["checked"]


def test_a_damaged_record_of_installs_is_one_finding_among_others(installed: Machine) -> None:
    (installed.memory / "registrations.json").write_text("{half of")
    assert whats(installed) == ["the record of what was installed is damaged"]
    subprocess.run(problems(installed)[0]["fix"], shell=True, check=True)
    assert whats(installed) == []


def test_untrusted_codex_hooks_are_found_until_they_are_trusted(machine: Machine) -> None:
    machine.run("install", "codex")
    machine.run("process")
    post(machine, now_ms(), "codex")
    assert whats(machine) == ["codex: the hooks are not trusted yet"]
    assert "/hooks" in problems(machine)[0]["fix"]
    path = machine.home / ".codex/hooks.json"
    keys = {event: f"{path}:{key}:0:0" for event, key in _codex_keys(path)}
    config = machine.home / ".codex/config.toml"
    for event, key in keys.items():
        if event != "Stop":
            config.write_text(config.read_text() + f'[hooks.state."{key}"]\ntrusted_hash = "sha256:0"\n')
    assert problems(machine)[0]["why"].endswith(": Stop.")
    config.write_text(config.read_text() + f'[hooks.state."{keys["Stop"]}"]\ntrusted_hash = "sha256:0"\n')
    assert problems(machine) == []
    config.write_text(config.read_text() + "[features]\nhooks = false\n")
    assert whats(machine) == ["codex: hooks are switched off"]


def _codex_keys(path: Path) -> list[tuple[str, str]]:
    events = json.loads(path.read_text())["hooks"]
    known = {"SessionStart": "session_start", "UserPromptSubmit": "user_prompt_submit", "PostToolUse": "post_tool_use"}
    known |= {"SubagentStart": "subagent_start", "SubagentStop": "subagent_stop", "Stop": "stop"}
    known |= {"PreCompact": "pre_compact", "PostCompact": "post_compact", "SessionEnd": "session_end"}
    return [(event, known[event]) for event in events]


def test_a_missing_interpreter_is_found_and_mended(installed: Machine) -> None:
    path = installed.home / ".claude/settings.json"
    command = json.loads(path.read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    edit(path, shlex.split(command)[0], "/no/such/python")
    found = problems(installed)
    assert [problem["what"] for problem in found] == ["claude-code: the hook's program is missing"]
    assert "/no/such/python" in found[0]["why"]
    mend(installed)
    assert problems(installed) == []


def test_a_second_installation_is_found_and_mended(installed: Machine, tmp_path: Path) -> None:
    shutil.copytree(REPO / "hooks", tmp_path / "old/hooks")
    edit(installed.home / ".claude/settings.json", str(REPO / "hooks"), str(tmp_path / "old/hooks"))
    assert whats(installed) == ["claude-code: the hook is of another installation"]
    mend(installed)
    assert problems(installed) == []


def test_a_registration_with_another_memory_is_found(installed: Machine, tmp_path: Path) -> None:
    other = {"MCP_MEMORY_HOME": str(tmp_path / "other")}
    assert set(whats(installed, **other)) == {
        "claude-code: the hook uses another memory",
        "claude-code: the server uses another memory",
    }


def test_missing_events_and_a_missing_server_are_found(installed: Machine) -> None:
    path = installed.home / ".claude/settings.json"
    edit(path, '"Stop"', '"Stopp"')
    (installed.home / ".claude.json").unlink()
    assert whats(installed) == [
        "claude-code: the hook is registered for some events only",
        "claude-code: the server is not registered",
    ]
    mend(installed)
    assert problems(installed) == []


def test_hooks_that_are_switched_off_are_found(installed: Machine) -> None:
    edit(installed.home / ".claude/settings.json", '{\n  "hooks"', '{\n  "disableAllHooks": true,\n  "hooks"')
    assert whats(installed) == ["claude-code: all hooks are switched off"]


def test_the_plugin_stands_in_for_a_registration_but_not_beside_one(machine: Machine) -> None:
    settings = machine.home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"enabledPlugins": {"mcp-memory@mcp-memory": true}}')
    assert machine.json("doctor")["capture"] == "waiting"
    machine.run("install", "claude-code")
    fire(machine)
    assert whats(machine) == ["claude-code: both the plugin and the settings have the hook"]
    mend(machine)
    assert problems(machine) == []


def test_a_settings_file_that_cannot_be_read_is_named(installed: Machine) -> None:
    (installed.home / ".claude.json").write_text("{")
    found = problems(installed)
    assert found[0]["what"] == f"claude-code: {installed.home / '.claude.json'} cannot be read"
    assert "line 1, column 2" in found[0]["why"]


def test_a_home_that_cannot_be_written_is_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = diagnosis.disk(tmp_path / "file/memory")
    assert [problem.what for problem in found] == [f"{tmp_path / 'file'} cannot be written"]


def test_settings_that_cannot_be_used_are_found(machine: Machine) -> None:
    machine.memory.mkdir()
    (machine.memory / "config.toml").write_text("[capture]\nenabled = 7\n")
    found = problems(machine)
    assert [problem["what"] for problem in found] == ["the settings cannot be used"]
    assert "capture.enabled = 7" in found[0]["why"]


def test_a_disk_that_is_nearly_full_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert diagnosis.disk(tmp_path) == []
    monkeypatch.setattr(diagnosis, "_LEAST_FREE", shutil.disk_usage(tmp_path).free * 2)
    assert [problem.what for problem in diagnosis.disk(tmp_path / "new")] == [f"the disk of {tmp_path} is nearly full"]


def test_a_stuck_lease_is_found(installed: Machine) -> None:
    post(installed, now_ms() - HOUR)
    sql(installed, "INSERT OR REPLACE INTO lease VALUES ('pipeline', 'box:4242', 7, ?)", now_ms() + HOUR)
    found = problems(installed)
    assert found[0]["what"] == "the lease of the pipeline is stuck"
    assert found[0]["fix"].startswith("kill 4242")


def test_a_transcript_that_was_set_aside_is_found_and_mended(installed: Machine) -> None:
    path = installed.project / "locked.jsonl"
    line = {"type": "user", "uuid": "u1", "sessionId": "s", "timestamp": "2026-03-02T09:00:00Z"}
    path.write_text(json.dumps(line | {"message": {"role": "user", "content": "Mend the kite."}}) + "\n")
    failed = {"path": str(path), "line": 0, "reason": "the file cannot be read: Permission denied", "file": "1:2:3"}
    installed.run("process")
    position = json.dumps({"offset": 0, "line": 0, "memory": {}, "events": 0, "failed": failed})
    sql(installed, "INSERT INTO checkpoint VALUES (?, ?)", checkpoint_name(path), position)
    assert json.loads(installed.run("status", "--json").stdout)["set_aside"] == [
        {"path": str(path), "line": 0, "reason": "the file cannot be read: Permission denied"}
    ]
    (found,) = problems(installed)
    assert found["what"] == f"{path} was set aside"
    assert found["why"] == "The file cannot be read: Permission denied."
    assert found["fix"].endswith(f"mcp-memory import {path}")
    assert installed.run("import", str(path)).returncode == 0
    assert problems(installed) == []
    assert json.loads(installed.run("status", "--json").stdout)["set_aside"] == []


def test_events_that_wait_for_a_server_are_found_and_mended(installed: Machine) -> None:
    post(installed, now_ms() - HOUR)
    assert whats(installed) == ["captured events are waiting"]
    mend(installed)
    assert problems(installed) == []


def test_a_growing_spool_is_found_and_mended(installed: Machine) -> None:
    for version in (99, latest(INBOX)):
        with closing(sqlite3.connect(installed.memory / "inbox.db")) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        if version == 99:
            fire(installed)
    (file,) = (installed.memory / "spool").iterdir()
    assert problems(installed) == []
    earlier = time.time() - 3600
    os.utime(file, (earlier, earlier))
    assert whats(installed) == ["the spool is growing"]
    mend(installed)
    assert problems(installed) == []


def test_a_newer_database_is_found(installed: Machine) -> None:
    sql(installed, "PRAGMA user_version = 99")
    assert whats(installed) == [f"{installed.memory / 'memory.db'} is of a newer version"]


@pytest.mark.parametrize("place", [0, 4096])
def test_a_damaged_database_is_found(installed: Machine, place: int) -> None:
    path = installed.memory / "memory.db"
    data = bytearray(path.read_bytes())
    data[place : place + 4096] = b"\x55" * 4096
    path.write_bytes(data)
    assert whats(installed) == [f"{path} is damaged"]


def test_events_in_the_future_are_found(installed: Machine) -> None:
    post(installed, now_ms() + HOUR)
    found = problems(installed)
    assert [problem["what"] for problem in found] == ["events lie in the future"]
    assert "59 minutes" in found[0]["why"] or "60 minutes" in found[0]["why"]


def test_capture_that_is_switched_off_is_found(installed: Machine) -> None:
    assert whats(installed, MCP_MEMORY_CAPTURE_ENABLED="false") == ["capture is switched off"]
    (installed.project / ".mcp-memory.toml").write_text("enabled = false\n")
    found = problems(installed)
    assert [problem["what"] for problem in found] == ["this project is switched off"]
    assert str(installed.project / ".mcp-memory.toml") in found[0]["fix"]
    assert "says enabled = false" in found[0]["why"]


def test_a_project_file_that_leaves_doubt_is_told_as_such(installed: Machine) -> None:
    (installed.project / ".mcp-memory.toml").write_text("enabled = maybe\n")
    [found] = problems(installed)
    assert found["what"] == "this project is switched off"
    assert "cannot be read for certain" in found["why"]


def test_the_text_gives_each_problem_with_its_reason_and_its_remedy(machine: Machine) -> None:
    (machine.home / ".cursor").mkdir()
    done = machine.run("doctor")
    assert done.returncode == 1
    assert [line[:2] for line in done.stdout.splitlines()] in (["✗ ", "  ", "  "], ["? ", "  ", "  "])
    assert "mcp-memory install cursor" in done.stdout


def test_a_missing_package_for_the_index_is_told(installed: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_memory.store.whoosh.index.find_spec", lambda name: None)
    (problem,) = problems(installed, MCP_MEMORY_INDEX_KIND="whoosh")
    assert problem["what"] == "the package for the Whoosh index is missing"
    assert "pip install '.[whoosh]'" in problem["fix"]


@needs_whoosh
def test_an_index_out_of_step_is_told_and_mended(installed: Machine) -> None:
    (installed.memory / "config.toml").write_text('[index]\nkind = "whoosh"\n')
    assert installed.run("remember", "the harbour gate is green").returncode == 0
    assert whats(installed) == ["the Whoosh index is to be built"]
    mend(installed)
    assert whats(installed) == []
    assert installed.json("status")["index"]["state"] == "current"
    (position,) = (installed.memory / "whoosh").glob("position_*.json")
    os.utime(position, (0, 0))
    assert installed.run("remember", "the harbour gate is blue").returncode == 0
    assert whats(installed) == ["the Whoosh index is behind"]
    mend(installed)
    (installed.memory / "whoosh" / "damaged").touch()
    assert whats(installed) == ["the Whoosh index is to be built"]
    mend(installed)
    found = installed.json("search", "harbour gate")
    assert len(found["hits"]) >= 2


@needs_whoosh
def test_status_names_the_index_and_its_state(installed: Machine) -> None:
    assert installed.json("status")["index"] == {"kind": "fts5", "state": "current"}
    (installed.memory / "config.toml").write_text('[index]\nkind = "whoosh"\n')
    assert installed.run("remember", "the harbour gate is green").returncode == 0
    assert installed.json("status")["index"]["state"] == "to be built"
    assert installed.run("process").returncode == 0
    told = installed.json("status")["index"]
    assert (told["kind"], told["state"], told["bytes"] > 0) == ("whoosh", "current", True)


@needs_whoosh
def test_forget_reaches_the_files_of_the_whoosh_index(installed: Machine) -> None:
    (installed.memory / "config.toml").write_text('[index]\nkind = "whoosh"\n')
    for note in ("the harbour gate is green", "the walrus sleeps"):
        assert installed.run("remember", note).returncode == 0
    assert installed.run("process").returncode == 0

    def holding() -> list[Path]:
        return [path for path in installed.memory.rglob("*") if path.is_file() and b"walru" in path.read_bytes()]

    assert holding()
    assert installed.run("forget", "--match", "walrus", "--yes").returncode == 0
    assert holding() == []
    assert installed.json("status")["index"]["state"] == "current"
