"""Whether capture goes on: `doctor` and the table of contents say when it does not."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.config import Settings
from mcp_memory.domain.events import Captured, EventType, Intake, Role
from mcp_memory.store.sql.database import Transaction
from mcp_memory.surfaces.doctor import GAP_MS, capture_gap
from tests.support import conversation, database_of, learn, memory
from tests.surfaces import client as mcp
from tests.surfaces.machine import HOUR, Machine, connected, fire, mend, now_ms, post, problems, sql, whats

LAST_MS = 1_772_000_000_000


def silent(tmp_path: Path, after_ms: int) -> None:
    """A transcript of Claude Code that was written to so long after its last captured event."""
    transcript = tmp_path / "user" / ".claude" / "projects" / "-work" / "s.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text('{"type": "user"}\n')
    seconds = (LAST_MS + after_ms) / 1000
    os.utime(transcript, (seconds, seconds))


@pytest.mark.anyio
@pytest.mark.parametrize(("after_ms", "told"), [(GAP_MS + 1_000, True), (GAP_MS - 1_000, False), (-GAP_MS, False)])
async def test_sessions_a_day_after_the_last_capture_are_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_ms: int, told: bool
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    silent(tmp_path, after_ms)
    async with memory(tmp_path / "home") as app:
        event = Captured("claude-code", "s", "k", LAST_MS, EventType.USER_MESSAGE, Role.USER, "Say it.")
        await app.store.add([Intake(tuple(app.intaker.prepare([event])), "/work")])
    notice = capture_gap(Settings(home=tmp_path / "home"))
    assert ("claude-code since 2026-02-25" in notice) is told


@pytest.mark.anyio
@pytest.mark.parametrize("captured", [True, False])
async def test_only_a_capture_that_worked_is_said_to_be_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, captured: bool
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    silent(tmp_path, 2 * GAP_MS)
    via = {"via": "hook"} if captured else {}
    async with memory(tmp_path / "home") as app:
        event = Captured("claude-code", "s", "k", LAST_MS, EventType.USER_MESSAGE, Role.USER, "Say it.", metadata=via)
        await app.store.add([Intake(tuple(app.intaker.prepare([event])), "/work")])
    notice = capture_gap(Settings(home=tmp_path / "home"))
    assert ("Capture was silent" in notice, "Later sessions are not in memory" in notice) == (captured, not captured)


@pytest.mark.anyio
async def test_a_client_that_was_never_captured_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    (tmp_path / "user" / ".claude" / "projects" / "x").mkdir(parents=True)
    (tmp_path / "user" / ".claude" / "projects" / "x" / "s.jsonl").write_text('{"type": "user"}\n')
    async with memory(tmp_path / "home"):
        pass
    assert capture_gap(Settings(home=tmp_path / "home")) == ""


@pytest.mark.anyio
async def test_a_damaged_record_of_installs_keeps_no_answer_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    async with memory(tmp_path / "home"):
        pass
    (tmp_path / "home" / "registrations.json").write_text("{half of")
    assert capture_gap(Settings(home=tmp_path / "home")) == ""


@pytest.mark.anyio
async def test_it_is_told_without_looking_through_the_whole_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    silent(tmp_path, 2 * GAP_MS)
    async with memory(tmp_path / "home") as app:
        event = Captured("claude-code", "s", "k", LAST_MS, EventType.USER_MESSAGE, Role.USER, "Say it.")
        await app.store.add([Intake(tuple(app.intaker.prepare([event])), "/work")])
        # Only who reads every text finds this.
        await database_of(app).write(Transaction.run, "UPDATE event SET text = CAST(x'ff' AS TEXT)")
    assert "claude-code since" in capture_gap(Settings(home=tmp_path / "home"))


@pytest.mark.anyio
async def test_payloads_of_unknown_form_are_mentioned_with_the_table_of_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    async with memory(tmp_path / "home") as app:
        await learn(app, conversation())
        await app.inbox.post([(LAST_MS, "gemini", "/", "", '{"odd": 1}')])
        await app.pipeline.until_idle()
    settings = Settings(home=tmp_path / "home")
    notice = capture_gap(settings)
    assert notice == " 1 payload of gemini is of no known form: `mcp-memory doctor` says what to do."
    async with mcp.connected(settings) as client:
        assert notice.strip() in await mcp.ask(client, "toc_root", project="*", budget_tokens=1_000)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def installed(machine: Machine) -> Machine:
    return connected(machine)


def test_a_machine_on_which_nothing_is_connected_is_told_how_to_connect(machine: Machine) -> None:
    (found,) = problems(machine)
    assert found["what"] == "nothing is connected"
    assert "mcp-memory install" in found["fix"]
    assert "claude-code, codex, gemini, cursor" in found["fix"]


def test_a_memory_that_holds_something_is_not_said_to_remember_nothing(machine: Machine) -> None:
    assert machine.run("remember", "The kettle is out of order").returncode == 0
    (found,) = problems(machine)
    assert found["why"] == "No client is known to be on this machine. Sessions are not captured, and no agent can ask."


@pytest.mark.parametrize("client", ["claude-code", "gemini", "cursor"])
def test_clients_without_our_hook_are_found_and_mended(machine: Machine, client: str) -> None:
    (machine.home / {"claude-code": ".claude", "gemini": ".gemini", "cursor": ".cursor"}[client]).mkdir()
    (found,) = problems(machine)
    assert found["what"] == "nothing is connected"
    assert client in found["why"]
    mend(machine)
    assert problems(machine) == []
    assert machine.json("doctor")["capture"] == "waiting"


def test_a_second_client_without_our_hook_is_found_and_mended(installed: Machine) -> None:
    (installed.home / ".cursor").mkdir()
    assert whats(installed) == ["cursor: the hook is not registered"]
    mend(installed)
    assert problems(installed) == []


def test_a_client_that_is_connected_for_another_project_is_connected(machine: Machine, tmp_path: Path) -> None:
    assert machine.run("install", "claude-code", "--scope", "project").returncode == 0
    assert problems(machine) == []
    outside = json.loads(machine.run("doctor", "--json", cwd=tmp_path).stdout)
    assert (outside["ok"], outside["capture"]) == (True, "waiting")
    assert machine.run("uninstall", "claude-code").returncode == 0
    assert whats(machine) == ["nothing is connected"]


def test_a_hook_that_was_taken_out_by_hand_is_missed(installed: Machine) -> None:
    (installed.home / ".claude/settings.json").write_text("{}")
    (installed.home / ".claude.json").write_text("{}")
    assert whats(installed) == ["nothing is connected"]
    assert installed.run("install", "cursor").returncode == 0
    assert whats(installed) == ["claude-code: the hook is not registered"]


def test_a_client_that_waits_for_its_first_session_hides_no_trouble_of_another_client(machine: Machine) -> None:
    assert machine.run("install", "claude-code").returncode == 0
    (machine.home / ".cursor").mkdir()
    assert whats(machine) == ["cursor: the hook is not registered"]
    assert "Claude Code is connected; waiting for the first session." in machine.run("doctor").stdout


def test_a_server_alone_is_a_connection_but_captures_nothing(machine: Machine) -> None:
    (machine.home / ".cursor").mkdir()
    assert machine.run("install", "cursor").returncode == 0
    (machine.home / ".cursor/hooks.json").unlink()
    assert whats(machine) == ["cursor: the hook is not registered"]


def load_history(machine: Machine) -> None:
    lines = {"sessionId": "s", "uuid": "u", "timestamp": "2026-03-02T09:00:00Z", "cwd": "/work", "type": "user"}
    history = machine.project / "s.jsonl"
    history.write_text(json.dumps({**lines, "message": {"role": "user", "content": "Count the pears."}}) + "\n")
    assert machine.json("import", str(history))["events_new"] == 1


def test_imported_history_is_a_healthy_state_that_says_how_to_capture_more(machine: Machine) -> None:
    load_history(machine)
    assert problems(machine) == []
    done = machine.run("doctor")
    assert done.stdout.startswith("All is well.")
    assert "History was imported." in done.stdout
    assert "mcp-memory install CLIENT" in done.stdout
    assert machine.json("doctor")["capture"] == "imported"


def test_a_connected_client_without_a_session_is_a_healthy_state_with_history_and_without(machine: Machine) -> None:
    assert machine.run("install", "claude-code").returncode == 0
    waiting = "Claude Code is connected; waiting for the first session."
    assert waiting in machine.run("doctor").stdout
    load_history(machine)
    found = machine.json("doctor")
    assert (found["ok"], found["capture"], found["note"]) == (True, "waiting", waiting)
    fire(machine)
    assert machine.json("doctor")["capture"] == "capturing"
    assert machine.run("process").returncode == 0
    found = machine.json("doctor")
    assert (found["ok"], found["capture"], "note" in found) == (True, "capturing", False)


def test_sessions_of_a_connected_client_that_were_never_captured_are_reported(machine: Machine) -> None:
    assert machine.run("install", "claude-code").returncode == 0
    load_history(machine)
    transcript = machine.home / ".claude/projects/-x/s.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text("{}\n")
    later = time.time() + 3600
    os.utime(transcript, (later, later))
    assert whats(machine) == ["claude-code: the hook is silent"]


def test_a_plugin_waits_for_its_first_session_after_it_was_switched_on(machine: Machine) -> None:
    transcript = machine.home / ".claude/projects/-x/s.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text("{}\n")
    settings = machine.home / ".claude/settings.json"
    settings.write_text('{"enabledPlugins": {"mcp-memory@mcp-memory": true}}')
    switched_on = time.time() - 86_400
    os.utime(settings, (switched_on, switched_on))
    os.utime(transcript, (switched_on - 3600, switched_on - 3600))
    assert machine.json("doctor")["capture"] == "waiting"
    os.utime(transcript, (switched_on + 3600, switched_on + 3600))
    assert whats(machine) == ["claude-code: the hook is silent"]


def test_a_memory_with_nothing_but_notes_is_not_connected(machine: Machine) -> None:
    assert machine.run("remember", "the harbour gate is green").returncode == 0
    assert whats(machine) == ["nothing is connected"]


def test_a_hook_that_captured_and_was_taken_out_is_missed_beside_imported_history(installed: Machine) -> None:
    load_history(installed)
    (installed.home / ".claude/settings.json").write_text("{}")
    (installed.home / ".claude.json").write_text("{}")
    assert whats(installed) == ["nothing is connected"]


def test_what_waits_in_the_spool_was_captured(machine: Machine) -> None:
    assert machine.run("install", "claude-code").returncode == 0
    fire(machine)
    assert list((machine.memory / "spool").iterdir())
    assert problems(machine) == []


def test_payloads_of_unknown_form_are_told_with_their_client(installed: Machine) -> None:
    first_day = time.strftime("%Y-%m-%d", time.gmtime())
    fire(installed, hook_event_name="Somersault")
    fire(installed, hook_event_name="Somersault", session_id="s2")
    fire(installed, hook_event_name="Handstand", cursor_version="9", conversation_id="c")
    assert installed.run("process").returncode == 0
    found = problems(installed)
    assert [problem["what"] for problem in found] == [
        "2 payloads of claude-code are of no known form",
        "1 payload of cursor is of no known form",
    ]
    assert {first_day, time.strftime("%Y-%m-%d", time.gmtime())} & {*found[0]["why"].split()}
    assert "mcp-memory process" in found[0]["fix"]
    status = installed.json("status")
    assert status["unknown"] == 3
    assert "3 payloads" in status["note"]
    assert "mcp-memory doctor" in installed.run("status").stdout
    sql(installed, "DELETE FROM inbox")
    assert problems(installed) == []
    assert "note" not in installed.json("status")


def test_silence_is_found_by_looking_into_a_bounded_number_of_directories(
    installed: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_memory.surfaces.doctor.MOST_FOLDERS", 50)
    looked: list[str] = []
    real = os.scandir

    def counting(path: Any) -> Any:
        looked.append(str(path))
        return real(path)

    for number in range(200):
        folder = installed.home / f".claude/projects/-work-{number:03}"
        folder.mkdir(parents=True)
        (folder / "s.jsonl").write_text("{}\n")
        os.utime(folder / "s.jsonl", (1_000 + number, 1_000 + number))
        os.utime(folder, (1_000 + number, 1_000 + number))
    later = time.time() + 3600
    latest_folder = installed.home / ".claude/projects/-work-120"
    os.utime(latest_folder / "s.jsonl", (later, later))
    os.utime(latest_folder, (later, later))
    monkeypatch.setattr(os, "scandir", counting)
    assert whats(installed) == ["claude-code: the hook is silent"]
    assert len([path for path in looked if "-work-" in path]) <= 50


def test_a_hook_that_is_silent_while_sessions_happen_is_found(installed: Machine) -> None:
    transcript = installed.home / ".claude/projects/-x/s.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text("{}\n")
    assert problems(installed) == []
    later = time.time() + 3600
    os.utime(transcript, (later, later))
    assert whats(installed) == ["claude-code: the hook is silent"]
    post(installed, now_ms() + HOUR, "gemini")
    assert "claude-code: the hook is silent" in whats(installed)
    post(installed, now_ms() + HOUR)
    assert "claude-code: the hook is silent" not in whats(installed)
