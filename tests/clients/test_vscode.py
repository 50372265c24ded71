"""VS Code's agents: Claude Code's events in either spelling, a transcript of their own, each thing stored once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.clients import CLIENTS, default_places, detect
from mcp_memory.clients.port import Folders, TranscriptState
from mcp_memory.domain.events import Event, EventType
from mcp_memory.store.sql.database import Transaction
from tests.clients.conftest import Transcript
from tests.support import REPO, memory

NOON = "2026-03-02T12:00:00.000Z"
NOON_MS = 1_772_452_800_000
#: VS Code wrote its envelope in camelCase, then in snake_case; what stands inside of a tool's input is its own.
SPELLINGS = {
    "camel": {"session_id": "sessionId", "hook_event_name": "hookEventName", "transcript_path": "transcriptPath"},
    "mixed": {"session_id": "sessionId", "hook_event_name": "hookEventName"},
    "snake": {},
}
SPELLINGS["camel"] |= {
    "tool_name": "toolName",
    "tool_input": "toolInput",
    "tool_response": "toolResponse",
    "tool_use_id": "toolUseId",
    "stop_hook_active": "stopHookActive",
    "agent_id": "agentId",
    "agent_type": "agentType",
}
EDIT = {"filePath": "/home/ada/orchard/pears.py", "oldString": "count = 30", "newString": "count = 31"}
TURN: list[dict[str, Any]] = [
    {"hook_event_name": "SessionStart", "source": "new", "timestamp": "2026-03-02T12:00:00.000Z"},
    {"hook_event_name": "UserPromptSubmit", "prompt": "Count the pears", "timestamp": "2026-03-02T12:00:01.000Z"},
    {
        "hook_event_name": "PostToolUse",
        "tool_name": "replace_string_in_file",
        "tool_input": EDIT,
        "tool_response": "The file was edited.",
        "tool_use_id": "call_1__vscode-1772452800000",
        "timestamp": "2026-03-02T12:00:02.000Z",
    },
    {
        "hook_event_name": "PostToolUse",
        "tool_name": "run_in_terminal",
        "tool_input": {"command": "ls pears | wc -l", "explanation": "Counts them"},
        "tool_response": "31",
        "tool_use_id": "call_2__vscode-1772452800001",
        "timestamp": "2026-03-02T12:00:03.000Z",
    },
    {"hook_event_name": "SubagentStart", "agent_id": "a1", "agent_type": "Plan", "timestamp": "2026-03-02T12:00:04Z"},
    {"hook_event_name": "SubagentStop", "agent_id": "a1", "agent_type": "Plan", "timestamp": "2026-03-02T12:00:05Z"},
    {"hook_event_name": "PreCompact", "trigger": "auto", "timestamp": "2026-03-02T12:00:06Z"},
    {"hook_event_name": "Stop", "stop_hook_active": False, "timestamp": "2026-03-02T12:00:07.000Z"},
]
EXPECTED = [
    ("session_start", "new"),
    ("user_message", "Count the pears"),
    ("tool_result", "Edit: pears.py\n- count = 30\n+ count = 31"),
    ("tool_result", "Bash: ls pears | wc -l\n31"),
    ("subagent_start", "Plan"),
    ("subagent_stop", ""),
    ("assistant_stop", ""),
]


def spelled(payload: dict[str, Any], spelling: str, **more: Any) -> dict[str, Any]:
    common = {"session_id": "v1", "transcript_path": "/nowhere/v1.jsonl", "cwd": "/home/ada/orchard"}
    names = SPELLINGS[spelling]
    return {names.get(key, key): value for key, value in {**common, **payload, **more}.items()}


def fire(home: Path, payload: dict[str, Any], *args: str) -> str:
    environment = {"PATH": os.environ["PATH"], "MCP_MEMORY_HOME": str(home), "HOME": str(home.parent)}
    command = [sys.executable, "-I", "-S", str(REPO / "hooks" / "capture.py"), *args]
    done = subprocess.run(
        command, input=json.dumps(payload), env=environment, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout


async def stored(app: App) -> list[Event]:
    await app.pipeline.until_idle()
    return [event for _, event in await app.store.log(0, None, 999)]


@pytest.mark.anyio
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_turn_is_captured_in_either_spelling_and_once_though_two_registrations_fire(
    tmp_path: Path, spelling: str
) -> None:
    async with memory(tmp_path / "home") as app:
        for payload in TURN:
            fire(tmp_path / "home", spelled(payload, spelling), "--client", "claude-code")
            await app.pipeline.until_idle()
            fire(tmp_path / "home", spelled(payload, spelling, cwd="/work"))  # each registration may name its own
        events = await stored(app)
        assert (await app.inbox.counts()).unknown == 0
    assert [(str(event.event_type), event.text) for event in events] == EXPECTED
    assert {event.client for event in events} == {"vscode"}
    assert {event.session_id for event in events} == {"v1"}
    assert events[0].timestamp_ms == NOON_MS
    assert events[2].metadata["files"] == ["pears.py"]


@pytest.mark.anyio
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_the_brief_is_printed_as_vs_code_takes_it(tmp_path: Path, spelling: str) -> None:
    project = tmp_path / "orchard"
    project.mkdir()
    async with memory(tmp_path / "home") as app:
        await app.inbox.keep({str(project): "Before."}, 0)
        out = fire(tmp_path / "home", spelled(TURN[0], spelling, cwd=str(project)))
        assert fire(tmp_path / "home", spelled(TURN[1], spelling, cwd=str(project))) == ""
    assert json.loads(out) == {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "Before."}}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    ("event", "tool"),
    [
        ("PreToolUse", "run_in_terminal"),
        ("PostToolUse", "mcp_memory_teleport"),
        ("PostToolUse", "mcp_mcp-memory_toc_root"),
        ("PostToolUse", "memory-expand_grip"),
    ],
)
def test_silent_events_and_our_own_tools_are_not_captured(tmp_path: Path, spelling: str, event: str, tool: str) -> None:
    payload = {"hook_event_name": event, "tool_name": tool, "tool_input": {}, "tool_response": "x", "timestamp": NOON}
    fire(tmp_path / "home", spelled(payload, spelling, tool_use_id="t"))
    assert not (tmp_path / "home").exists()


def test_other_servers_tools_are_captured(tmp_path: Path) -> None:
    for tool in ("mcp_memory_bank_read", "mcp_github_get_node", "memory_of_the_world"):
        payload = {"hook_event_name": "PostToolUse", "tool_name": tool, "tool_response": "x", "timestamp": NOON}
        fire(tmp_path / "home", spelled(payload, "camel", tool_use_id=tool, tool_input={}))
    assert len(list((tmp_path / "home" / "spool").iterdir())) == 3


def test_keys_inside_of_a_tools_input_and_answer_stay_as_they_are(tmp_path: Path) -> None:
    inner = {"sessionId": "theirs", "toolName": "theirs"}
    payload = {"hook_event_name": "PostToolUse", "tool_name": "ask", "tool_input": inner, "tool_response": inner}
    fire(tmp_path / "home", spelled(payload, "camel", tool_use_id="t", timestamp=NOON))
    (file,) = (tmp_path / "home" / "spool").iterdir()
    row = json.loads(file.read_text())
    kept = json.loads(row["payload"])
    assert row["client"] == "vscode"
    assert (kept["session_id"], kept["tool_input"], kept["tool_response"]) == ("v1", inner, inner)


def test_copilots_form_of_a_tools_result_is_read() -> None:
    """Copilot CLI runs a project's `.claude/settings.json` with VS Code's envelope and a result of its own form."""
    payload = {
        "hook_event_name": "PostToolUse",
        "session_id": "c1",
        "timestamp": NOON,
        "cwd": "/work",
        "tool_name": "bash",
        "tool_input": {"command": "ls"},
        "tool_result": {"result_type": "success", "text_result_for_llm": "pears"},
    }
    (event,) = CLIENTS["vscode"].hook(payload, 5).events
    assert (event.text, event.timestamp_ms) == ("Bash: ls\npears", NOON_MS)
    again = CLIENTS["vscode"].hook(payload, 9_999).events
    assert [event.source_key for event in again] == [event.source_key]


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        (
            {"hookEventName": "PostToolUse", "toolName": "bash", "toolArgs": '{"command": "ls"}'},
            "tool_result",
            "Bash: ls",
        ),
        ({"hookEventName": "PostToolUse", "toolName": "ask", "toolArgs": "why"}, "tool_result", 'ask: {"input":"why"}'),
        ({"hookEventName": "postToolUse", "toolName": "ping"}, "tool_result", "ping"),
        ({"hookEventName": "userPromptSubmitted", "prompt": "Go on"}, "user_message", "Go on"),
        ({"hookEventName": "agentStop", "stopReason": "end_turn"}, "assistant_stop", ""),
        ({"hookEventName": "SubagentStop", "agentName": "Plan"}, "subagent_stop", ""),
        ({"hookEventName": "SessionEnd", "reason": "complete"}, "session_end", "complete"),
    ],
)
def test_what_comes_without_ids_or_under_copilots_names_is_read(fields: dict[str, Any], kind: str, text: str) -> None:
    for when in (NOON, NOON_MS):
        (event,) = CLIENTS["vscode"].hook({"sessionId": "c1", "timestamp": when, **fields}, 5).events
        assert (str(event.event_type), event.text, event.timestamp_ms) == (kind, text, NOON_MS)


def test_claude_code_is_not_taken_for_vs_code(tmp_path: Path) -> None:
    payload = {"hook_event_name": "Stop", "session_id": "s", "cwd": "/work", "permission_mode": "default"}
    fire(tmp_path / "home", payload)
    fire(tmp_path / "home", {**payload, "timestamp": NOON})
    fire(tmp_path / "home", {**payload, "cursor_version": "2", "conversation_id": "c"})
    rows = [json.loads(path.read_text()) for path in (tmp_path / "home" / "spool").iterdir()]
    assert sorted(row["client"] for row in rows) == ["claude-code", "claude-code", "cursor"]


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["", "9.9"])
async def test_payloads_that_an_earlier_version_could_not_read_are_read_once_more(tmp_path: Path, version: str) -> None:
    async with memory(tmp_path / "home") as app:
        rows = [(1, "claude-code", "/work", "", json.dumps(spelled(payload, "mixed"))) for payload in TURN]
        await app.inbox.post([*rows, (1, "claude-code", "/work", "", '{"odd": 1}')])
        await (await app.inbox.database()).write(Transaction.run, "UPDATE inbox SET state = 1")
        await app.inbox.reopen(version)
        events = await stored(app)
        assert (await app.inbox.counts()).unknown == 1
        await app.inbox.reopen(version)
        assert (await app.inbox.counts()).unknown == (1 if version else 0)
    assert [(str(event.event_type), event.text) for event in events] == EXPECTED


def line(kind: str, number: int, /, **data: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "data": data,
        "id": f"l{number}",
        "timestamp": f"2026-03-02T12:00:{number:02}.500Z",
        "parentId": f"l{number - 1}" if number else None,
    }


def session() -> list[dict[str, Any]]:
    start = {"sessionId": "v1", "version": 1, "producer": "copilot-agent", "vscodeVersion": "1.130.0"}
    request = {"toolCallId": "call_2", "name": "run_in_terminal", "arguments": "{}", "type": "function"}
    return [
        line("session.start", 0, **start, startTime=NOON, context={"cwd": "/home/ada/orchard"}),
        line("user.message", 1, content="Count the pears", attachments=[]),
        line("assistant.turn_start", 2, turnId="0.0"),
        line("assistant.message", 3, messageId="m1", content="", toolRequests=[request], reasoningText="Hm."),
        line("tool.execution_start", 4, toolCallId="call_2", toolName="run_in_terminal", arguments={"command": "ls"}),
        line("tool.execution_complete", 5, toolCallId="call_2", success=True, result={"content": "31"}),
        line("assistant.message", 6, messageId="m2", content="There are 31 pears.", toolRequests=[]),
        line("assistant.usage", 7, model="gpt-x", inputTokens=10),
        line("assistant.turn_end", 8, turnId="0.0"),
    ]


def test_a_transcript_is_read_as_it_grows(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "v1.jsonl", "vscode")
    found = []
    for entry in session():
        found += transcript.write(entry).events()
    assert [(told.event_type, told.text, told.cwd) for told in found] == [
        (EventType.USER_MESSAGE, "Count the pears", "/home/ada/orchard"),
        (EventType.TOOL_RESULT, "Bash: ls\n31", "/home/ada/orchard"),
        (EventType.ASSISTANT_MESSAGE, "There are 31 pears.", "/home/ada/orchard"),
    ]
    assert {(told.client, told.session_id) for told in found} == {("vscode", "v1")}
    assert transcript.bad == []


def test_a_failed_call_an_odd_line_and_a_lost_beginning_are_told(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "v9.jsonl", "vscode")
    failed = line("tool.execution_complete", 5, toolCallId="call_9", success=False, result={"content": "no such file"})
    odd = line("user.message", 1, content=7)
    (event,) = transcript.write("[1]", {"type": "user.message"}, odd, failed).events()
    assert (event.session_id, event.text, event.metadata["failed"]) == ("v9", "no such file", True)
    assert len(transcript.bad) == 3


def test_what_is_remembered_between_two_reads_holds_no_secret(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Q7x" * 31 + "AA"
    entry = line("tool.execution_start", 4, toolCallId="c", toolName="x", arguments={"command": f"KEY={key} run"})
    transcript = Transcript(tmp_path / "v1.jsonl", "vscode").write(entry)
    assert transcript.events() == []
    assert key not in json.dumps(transcript.state.memory)


@pytest.mark.anyio
@pytest.mark.parametrize("first", ["hook", "transcript"])
async def test_hook_and_transcript_together_tell_a_turn_once(tmp_path: Path, first: str) -> None:
    path = tmp_path / "v1.jsonl"
    hooks = [TURN[1], TURN[3], TURN[-1]]
    async with memory(tmp_path / "home") as app:
        for payload in hooks if first == "hook" else []:
            fire(tmp_path / "home", spelled(payload, "mixed"))
        await app.pipeline.until_idle()
        path.write_text("".join(json.dumps(entry) + "\n" for entry in session()))
        for payload in hooks:
            fire(tmp_path / "home", spelled(payload, "mixed", transcript_path=str(path)))
        events = await stored(app)
    told = sorted((str(event.role), event.text) for event in events if event.text)
    assert [role for role, _ in told] == ["assistant", "tool", "user"]
    assert told[0][1] == "There are 31 pears."


def test_transcripts_are_recognized_and_found_where_vs_code_keeps_them(tmp_path: Path) -> None:
    storage = tmp_path / ".config/Code/User/workspaceStorage"
    path = storage / "0a1b/GitHub.copilot-chat/transcripts/v1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in session()))
    (storage / "0a1b/other.jsonl").write_text("{}\n")
    reader = detect(path)
    assert reader is not None
    assert reader.name == "vscode"
    assert list(reader.transcripts(default_places(Folders(tmp_path))["vscode"])) == [path]


def test_nothing_is_too_odd_to_be_taken() -> None:
    odd: list[Any] = [None, 7, [], {}, "x", {"a": "b"}]
    for value in odd:
        payload = {key: value for entry in TURN for key in entry} | {"hookEventName": "PostToolUse", "sessionId": "s"}
        CLIENTS["vscode"].hook(payload, 1)
    assert CLIENTS["vscode"].hook({}, 1).unknown
    assert list(CLIENTS["vscode"].read(Path("/no/such/file"), TranscriptState())) == []
