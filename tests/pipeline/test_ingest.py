"""From the hook to events: real hook processes, real transcripts, one memory."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_memory.app import App
from mcp_memory.domain.events import TIMES, Captured, EventType, Role
from mcp_memory.errors import StoreCorrupt
from mcp_memory.pipeline.ingest import TWICE_WITHIN_MS, Intaker
from mcp_memory.store.sqlite.database import explain
from tests.support import REPO, StoppedClock, database_of, learn, memory, said, touch_now

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("engine")]
KEY = "sk-ant-api03-" + "Q7x" * 31 + "AA"


class Client:
    """Plays Claude Code: fires the hook as it would, and writes a transcript as it would."""

    def __init__(self, home: Path, project: Path) -> None:
        self.home, self.project = home, project
        self.transcript = project.parent / "transcript.jsonl"
        project.mkdir(parents=True, exist_ok=True)

    def fire(self, event: str, **fields: Any) -> str:
        payload = {
            "session_id": "session-1",
            "transcript_path": str(self.transcript),
            "cwd": str(self.project),
            "prompt_id": "prompt-1",
            "hook_event_name": event,
            **fields,
        }
        environment = {"PATH": os.environ["PATH"], "MCP_MEMORY_HOME": str(self.home), "HOME": str(self.project.parent)}
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(REPO / "hooks" / "capture.py"), "--client", "claude-code"],
            input=json.dumps(payload),
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def write(self, kind: str, uuid: str, after: float, content: Any, **fields: Any) -> None:
        moment = datetime.now(UTC) + timedelta(seconds=after)
        line = {
            "type": kind,
            "uuid": uuid,
            "sessionId": "session-1",
            "timestamp": moment.isoformat(timespec="milliseconds"),
            "cwd": str(self.project),
            "isSidechain": False,
            "message": {"role": kind, "content": content},
            **fields,
        }
        self._append(line)

    def queue(self, operation: str, content: str = "") -> None:
        line = {"type": "queue-operation", "operation": operation, "sessionId": "session-1", "content": content}
        self._append({**line, "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds")})

    def _append(self, line: dict[str, Any]) -> None:
        with self.transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path / "home", tmp_path / "work" / "orchard")


async def texts(app: App) -> list[tuple[str, str]]:
    return [(str(event.role), event.text) for _, event in await app.store.log(0, None, 99) if event.text]


async def test_a_turn_is_stored_once_though_hooks_and_transcript_both_tell_it(client: Client) -> None:
    async with memory(client.home) as app:
        client.fire("SessionStart", source="startup")
        client.fire("UserPromptSubmit", prompt="Count the pears")
        client.fire(
            "PostToolUse",
            tool_name="Bash",
            tool_input={"command": "ls pears | wc -l"},
            tool_response={"stdout": "31", "stderr": "", "interrupted": False},
            tool_use_id="tool-1",
        )
        await app.pipeline.until_idle()
        client.write("user", "u1", 0.00, "Count the pears", promptId="prompt-1")
        client.write("assistant", "u2", 0.01, [{"type": "text", "text": "Counting them first."}])
        use = {"type": "tool_use", "id": "tool-1", "name": "Bash", "input": {"command": "ls pears | wc -l"}}
        client.write("assistant", "u3", 0.02, [use])
        result = {"type": "tool_result", "tool_use_id": "tool-1", "content": "31"}
        client.write(
            "user",
            "u4",
            0.03,
            [result],
            toolUseResult={"stdout": "31", "stderr": "", "interrupted": False},
        )
        client.write("assistant", "u5", 0.04, [{"type": "text", "text": "There are 31 pears."}])
        client.fire("Stop", last_assistant_message="There are 31 pears.")
        client.fire("SessionEnd", reason="other")
        await app.pipeline.until_idle()
        found = await texts(app)
    assert sorted(text for role, text in found if role in ("user", "assistant")) == [
        "Count the pears",
        "Counting them first.",
        "There are 31 pears.",
    ]
    assert [text for role, text in found if role == "tool"] == ["Bash: ls pears | wc -l\n31"]


async def test_what_two_registrations_tell_is_stored_once(client: Client) -> None:
    """The plugin and the settings, or those of the user and of the project: each runs the hook for every event."""
    twice: list[tuple[str, dict[str, Any]]] = [
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": "Count the pears", "prompt_id": None}),
        ("Stop", {"last_assistant_message": "There are 31 pears."}),
        ("PostCompact", {"compact_summary": "They count pears.", "trigger": "auto"}),
        ("SessionEnd", {"reason": "other"}),
    ]
    async with memory(client.home) as app:
        for event, fields in twice:
            client.fire(event, **fields)
            await app.pipeline.until_idle()
            client.fire(event, **fields)
        await app.pipeline.until_idle()
        kinds = [str(event.event_type) for _, event in await app.store.log(0, None, 99)]
    assert kinds == [
        "session_start",
        "user_message",
        "assistant_stop",
        "assistant_message",
        "compaction",
        "session_end",
    ]


async def test_the_same_words_a_while_later_are_new_and_an_unknown_payload_is_kept_however_often_it_is_read(
    client: Client,
) -> None:
    payload = {"session_id": "s", "cwd": "/", "hook_event_name": "UserPromptSubmit", "prompt": "Go on"}
    async with memory(client.home) as app:
        for received in (0, TWICE_WITHIN_MS, 2 * TWICE_WITHIN_MS + 1, 9 * TWICE_WITHIN_MS):
            await app.inbox.post([(received, "claude-code", "/", "", json.dumps(payload))])
        await app.inbox.post([(1, "claude-code", "/", "", '{"odd": 1}')])
        for _ in range(3):
            await app.pipeline.until_idle()
            await app.inbox.reopen()
        await app.pipeline.until_idle()
        assert await texts(app) == [("user", "Go on")] * 3
        assert (await app.inbox.counts()).unknown == 1


async def test_without_a_transcript_the_last_message_of_the_stop_hook_is_kept(client: Client) -> None:
    async with memory(client.home) as app:
        client.fire("UserPromptSubmit", prompt="Count the pears")
        client.fire("Stop", last_assistant_message="There are 31 pears.")
        await app.pipeline.until_idle()
        assert ("assistant", "There are 31 pears.") in await texts(app)


async def test_what_the_hook_had_to_spool_arrives(client: Client) -> None:
    client.fire("UserPromptSubmit", prompt="Said before there was a database")
    assert len(list((client.home / "spool").glob("*.json"))) == 1
    async with memory(client.home) as app:
        await app.pipeline.until_idle()
        assert await texts(app) == [("user", "Said before there was a database")]
    assert not list((client.home / "spool").glob("*.json"))


@pytest.mark.parametrize(
    "odd",
    [
        '{"received_ms": 99999999999999999999999, "client": "x", "root": "/", "label": "", "payload": "{}"}',
        '{"received_ms": -1, "client": "x", "root": "/", "label": "", "payload": "{}"}',
        '{"received_ms": 1, "client": ["x"], "root": "/", "label": "", "payload": "{}"}',
        "[" * 100_000,
        None,
    ],
)
async def test_one_odd_file_in_the_spool_does_not_keep_the_others_out(client: Client, odd: str | None) -> None:
    spool = client.home / "spool"
    spool.mkdir(parents=True)
    if odd is None:
        os.mkfifo(spool / "0.json")
    else:
        (spool / "0.json").write_text(odd)
    payload = {"session_id": "s", "cwd": "/", "hook_event_name": "UserPromptSubmit", "prompt": "Said \ud800 beside it"}
    row = {"received_ms": 1, "client": "claude-code", "root": "/\ud800", "label": "", "payload": json.dumps(payload)}
    (spool / "1.json").write_text(json.dumps(row))
    async with memory(client.home) as app:
        await app.pipeline.until_idle()
        assert await texts(app) == [("user", "Said \ufffd beside it")]
    assert [file.name for file in spool.iterdir()] == ["0.unreadable"]


@pytest.mark.parametrize("transcript", ["pipe", "\0", "/dev/zero", "x" * 5000])
async def test_a_transcript_that_is_no_file_stops_nothing(client: Client, tmp_path: Path, transcript: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    client.transcript = tmp_path / transcript
    client.fire("UserPromptSubmit", prompt="How many pears?")
    client.fire("Stop", stop_hook_active=False)
    async with memory(client.home) as app:
        with anyio.fail_after(20):
            await app.pipeline.until_idle()
        assert ("user", "How many pears?") in await texts(app)


async def test_a_spool_file_of_no_known_form_is_set_aside(client: Client) -> None:
    spool = client.home / "spool"
    spool.mkdir(parents=True)
    (spool / "1-1-x.json").write_text("{oops")
    async with memory(client.home) as app:
        await app.pipeline.until_idle()
    assert [file.name for file in spool.iterdir()] == ["1-1-x.unreadable"]


async def test_what_a_killed_hook_left_is_taken_up_if_it_is_whole(client: Client) -> None:
    spool = client.home / "spool"
    spool.mkdir(parents=True)
    payload = {"session_id": "s", "cwd": "/", "hook_event_name": "UserPromptSubmit", "prompt": "Count the pears."}
    row = {"received_ms": 1, "client": "claude-code", "root": "/", "label": "", "payload": json.dumps(payload)}
    for name in ("1.json.tmp", "2.json.tmp", "3.json.tmp"):
        (spool / name).write_text(json.dumps(row))
    (spool / "2.json.tmp").write_text(json.dumps(row)[:40])
    for name in ("1.json.tmp", "2.json.tmp"):
        os.utime(spool / name, (1_000, 1_000))
    touch_now(spool / "3.json.tmp")
    async with memory(client.home) as app:
        await app.pipeline.until_idle()
        assert await texts(app) == [("user", "Count the pears.")]
    # A hook may be writing this one now.
    assert [file.name for file in spool.iterdir()] == ["3.json.tmp"]


async def test_unknown_payloads_are_kept_and_counted(client: Client) -> None:
    async with memory(client.home) as app:
        client.fire("SomethingNew", wonder="yes")
        await app.pipeline.until_idle()
        local, events = await app.inbox.counts(), (await app.store.counts()).events
        kept = await (await app.inbox.database()).value("SELECT payload FROM inbox WHERE state = 1")
    assert (local.waiting, local.unknown, events) == (0, 1, 0)
    assert json.loads(kept)["wonder"] == "yes"


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_no_secret_reaches_any_file(client: Client) -> None:
    async with memory(client.home) as app:
        client.fire("UserPromptSubmit", prompt=f"use {KEY} and <private>my plan</private>")
        response = {"stdout": f"key: {KEY}", "stderr": "", "interrupted": False}
        client.fire(
            "PostToolUse", tool_name="Bash", tool_input={"command": "env"}, tool_response=response, tool_use_id="t1"
        )
        client.write("assistant", "u2", 0.01, [{"type": "text", "text": f"Your key is {KEY}."}])
        client.fire("Stop", last_assistant_message=f"Your key is {KEY}.")
        await app.pipeline.until_idle()
        assert await texts(app)
        held = [path for path in client.home.rglob("*") if path.is_file()]
        for path in held:
            content = path.read_bytes()
            assert KEY.encode() not in content, path.name
            assert b"my plan" not in content, path.name
    assert any(path.name == "memory.db-wal" for path in held)


async def test_results_of_our_own_tools_are_not_remembered(client: Client) -> None:
    async with memory(client.home) as app:
        client.fire(
            "PostToolUse",
            tool_name="mcp__memory__teleport",
            tool_input={"query": "pears"},
            tool_response=[{"type": "text", "text": "Recalled: pears"}],
            tool_use_id="t1",
        )
        use = {"type": "tool_use", "id": "t1", "name": "mcp__memory__teleport", "input": {"query": "pears"}}
        client.write("assistant", "u1", 0.02, [use])
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "Recalled: pears"}
        client.write("user", "u2", 0.03, [result])
        client.fire("Stop", last_assistant_message="")
        await app.pipeline.until_idle()
        assert not [text for _, text in await texts(app) if "Recalled" in text]


async def test_the_running_loop_takes_up_what_a_hook_leaves(client: Client) -> None:
    async with memory(client.home) as app:
        async with anyio.create_task_group() as group:
            group.start_soon(app.pipeline.run)
            await anyio.to_thread.run_sync(lambda: client.fire("UserPromptSubmit", prompt="Wake up"))
            with anyio.fail_after(30):
                while not await texts(app):
                    await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        assert await texts(app) == [("user", "Wake up")]
        assert (await app.store.counts()).lease is None


async def test_two_loops_share_the_work_without_doubling_it(client: Client) -> None:
    async with memory(client.home) as one, memory(client.home) as two:
        two.pipeline.lease.holder = "elsewhere:1"  # type: ignore[attr-defined]
        async with anyio.create_task_group() as group:
            group.start_soon(one.pipeline.run)
            group.start_soon(two.pipeline.run)
            for number in range(5):
                said = f"Pear number {number} of the basket"
                fire = partial(client.fire, "UserPromptSubmit", prompt=said, prompt_id=said)
                await anyio.to_thread.run_sync(fire)
            with anyio.fail_after(30):
                while len(await texts(one)) < 5:
                    await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        assert len(await texts(one)) == 5


async def test_the_brief_of_a_project_is_printed_at_the_next_start(client: Client) -> None:
    (client.project / ".git").mkdir()
    async with memory(client.home, StoppedClock("2099-01-01T00:00:00Z")) as app:
        assert client.fire("SessionStart", source="startup") == ""
        client.fire("UserPromptSubmit", prompt="Decide how the pears are graded: by weight, since size misleads.")
        await app.pipeline.until_idle()
        printed = json.loads(client.fire("SessionStart", source="startup"))
    context = printed["hookSpecificOutput"]["additionalContext"]
    assert "toc:day:" in context
    assert "graded" in context
    assert len(context) < 9_000


async def test_a_project_with_a_name_of_its_own_gets_its_brief_and_can_switch_it_off(client: Client) -> None:
    (client.project / ".mcp-memory.toml").write_text('project = "Orchard Two"\n')
    async with memory(client.home, StoppedClock("2099-01-01T00:00:00Z")) as app:
        client.fire("UserPromptSubmit", prompt="Decide how the pears are graded: by weight, since size misleads.")
        await app.pipeline.until_idle()
        assert await app.store.slugs() == ["orchard-two"]
        assert "graded" in client.fire("SessionStart", source="startup")
        (client.home / "config.toml").write_text("[brief]\nenabled = false\n")
        assert client.fire("SessionStart", source="startup") == ""


async def test_a_windows_client_with_an_old_console_is_captured_and_greeted(client: Client) -> None:
    """Backslashes, CRLF, a byte order mark and cp1252 streams, as a hook meets them there."""
    payload = {
        "session_id": "w",
        "cwd": "C:\\Users\\dev\\Pfirsich",
        "hook_event_name": "UserPromptSubmit",
        "prompt": "Grade the pears by weight: 重さで選ぶ, since size misleads → always.",
        "prompt_id": "p1",
    }

    def fire(**fields: str) -> subprocess.CompletedProcess[bytes]:
        text = json.dumps({**payload, **fields}, ensure_ascii=False, indent=1).replace("\n", "\r\n")
        return subprocess.run(
            [sys.executable, "-S", str(REPO / "hooks" / "capture.py"), "--client", "claude-code"],
            input=b"\xef\xbb\xbf" + text.encode(),
            env={"PATH": os.environ["PATH"], "MCP_MEMORY_HOME": str(client.home), "PYTHONIOENCODING": "cp1252"},
            capture_output=True,
            check=True,
        )

    async with memory(client.home, StoppedClock("2099-01-01T00:00:00Z")) as app:
        assert fire().stdout == b""
        await app.pipeline.until_idle()
        assert await texts(app) == [("user", payload["prompt"])]
        assert await app.store.slugs() == ["pfirsich"]
        printed = fire(hook_event_name="SessionStart", source="startup").stdout
    context = json.loads(printed.decode("ascii"))["hookSpecificOutput"]["additionalContext"]
    assert "重さで選ぶ" in context


async def test_numbers_that_json_cannot_hold_are_null_and_stop_nothing(tmp_path: Path) -> None:
    odd = {"model": "m", "n": math.inf, "list": [math.nan, 1.5], "deep": {"x": -math.inf}}
    async with memory(tmp_path) as app:
        await learn(app, [said("Some words.", "2026-03-01T10:11:00Z", role="assistant", metadata=odd)])
        stored = await database_of(app).value("SELECT metadata FROM event")
        assert json.loads(stored, parse_constant=pytest.fail)["list"] == [None, 1.5]
        assert (await app.store.counts()).nodes == 5


def test_only_a_damaged_file_is_called_damaged(tmp_path: Path) -> None:
    import sqlite3

    assert isinstance(explain(sqlite3.DatabaseError("database disk image is malformed"), tmp_path), StoreCorrupt)
    assert not isinstance(explain(sqlite3.OperationalError("malformed JSON"), tmp_path), StoreCorrupt)


def test_a_time_that_no_calendar_holds_is_brought_into_one() -> None:
    given = Captured("cursor", "s1", "k1", 10**17, EventType.USER_MESSAGE, Role.USER, "Mend it.")
    [event] = Intaker(1_000, 1_000, lambda texts: [1 for _ in texts]).prepare([given])
    assert event.timestamp_ms == TIMES.stop - 1
