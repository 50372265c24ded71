"""Hook payloads of Codex, and that they and the rollout tell one event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.clients import CLIENTS
from mcp_memory.clients.port import Reading
from mcp_memory.domain.events import Captured, EventType
from tests.clients.test_codex_rollout import CHILD, CWD, OWN, PATCH, Rollout
from tests.support import SHARED

PATH = "/home/dev/.codex/sessions/2026/03/01/rollout.jsonl"
REPLAY = SHARED / "real-client" / "replay" / "codex"


def payload(event: str, **fields: object) -> dict[str, Any]:
    common = {"session_id": OWN, "turn_id": "t1", "transcript_path": PATH, "cwd": CWD, "model": "gpt-x"}
    return {**common, "hook_event_name": event, **fields}


def same(hooked: Captured, told: Captured) -> bool:
    fields = ("client", "session_id", "source_key", "event_type", "role", "text")
    assert [getattr(hooked, field) for field in fields] == [getattr(told, field) for field in fields]
    assert (hooked.metadata["via"], told.metadata["via"]) == ("hook", "transcript")
    shared = ("turn_id", "cwd", "model", "tool", "files", "agent_id")
    assert [hooked.metadata.get(name) for name in shared] == [told.metadata.get(name) for name in shared]
    return True


def test_a_prompt_is_one_event(tmp_path: Path) -> None:
    rollout = Rollout(tmp_path)
    (hooked,) = CLIENTS["codex"].hook(payload("UserPromptSubmit", prompt="Mend the fence.\n"), 1).events
    (told,) = rollout.write(rollout.user("Mend the fence.")).events()
    assert same(hooked, told)


def test_the_same_words_in_two_turns_are_two_events() -> None:
    first, second = (payload("UserPromptSubmit", prompt="Go on.", turn_id=turn) for turn in ("t1", "t2"))
    keys = {CLIENTS["codex"].hook(one, 1).events[0].source_key for one in (first, second)}
    assert len(keys) == 2


@pytest.mark.parametrize("has_record", [True, False])
def test_a_command_is_one_event(tmp_path: Path, has_record: bool) -> None:
    rollout = Rollout(tmp_path)
    fields = {"tool_name": "Bash", "tool_input": {"command": "greet"}, "tool_response": "hello\n", "tool_use_id": "c1"}
    (hooked,) = CLIENTS["codex"].hook(payload("PostToolUse", **fields), 1).fallback
    record = [rollout.ran("hello\n")] if has_record else []
    shown = "Chunk ID: 1\nWall time: 0 seconds\nProcess exited with code 0\nOriginal token count: 1\nOutput:\nhello\n"
    (told,) = rollout.write(rollout.call("greet"), *record, rollout.output(shown)).events()
    assert same(hooked, told)


def test_a_patch_is_one_event(tmp_path: Path) -> None:
    rollout = Rollout(tmp_path)
    shown = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nM a.py\n"
    fields = {"tool_name": "apply_patch", "tool_input": {"command": PATCH}, "tool_response": shown}
    (hooked,) = CLIENTS["codex"].hook(payload("PostToolUse", tool_use_id="c1", **fields), 1).fallback
    call = rollout.item("custom_tool_call", name="apply_patch", call_id="c1", input=PATCH)
    record = rollout.done("FileChange", id="c1", status="completed", stdout="Success. Updated the following files:\n")
    (told,) = rollout.write(call, record).events()
    assert same(hooked, told)


def test_a_tool_of_another_server_is_one_event(tmp_path: Path) -> None:
    rollout = Rollout(tmp_path)
    result = {"content": [{"type": "text", "text": "31"}, {"type": "text", "text": "more"}], "structuredContent": {}}
    fields = {"tool_name": "mcp__farm__count", "tool_input": {"what": "crates"}, "tool_response": result}
    (hooked,) = CLIENTS["codex"].hook(payload("PostToolUse", tool_use_id="c1", **fields), 1).fallback
    given = json.dumps({"what": "crates"})
    call = rollout.item("function_call", namespace="mcp__farm", name="count", call_id="c1", arguments=given)
    (told,) = rollout.write(call, rollout.done("McpToolCall", id="c1", server="farm", result=result)).events()
    assert same(hooked, told)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("mcp__memory__teleport", {"query": "fence"}),
        ("read_mcp_resource", {"server": "memory", "uri": "memory://toc"}),
        ("Bash", {"command": "mcp-memory toc"}),
        ("multi_agent_v1wait_agent", {"targets": []}),
        ("spawn_agent", {"message": "Count."}),
    ],
)
def test_what_our_own_tools_said_is_not_told_again(name: str, given: dict[str, Any]) -> None:
    fields = {"tool_name": name, "tool_input": given, "tool_response": "x", "tool_use_id": "c1"}
    hooked = CLIENTS["codex"].hook(payload("PostToolUse", **fields), 1)
    assert (hooked.unknown, hooked.events, hooked.fallback) == (False, (), ())


def test_a_subagents_task_is_no_prompt_and_its_end_is_one_event(tmp_path: Path) -> None:
    child = Rollout(tmp_path, OWN, id=CHILD, parent_thread_id=OWN)
    child.write(child.user("Count the crates."), *child.reply("There are 31."))
    started, stopped = child.write(child.event("task_complete", last_agent_message="There are 31.")).events()
    agent = {"agent_id": CHILD, "agent_type": "default"}
    (asked,) = CLIENTS["codex"].hook(payload("UserPromptSubmit", prompt="Count the crates.", **agent), 1).events
    hooked = CLIENTS["codex"].hook(
        payload("SubagentStop", last_assistant_message="There are 31.", agent_transcript_path="/x/c.jsonl", **agent), 1
    )
    assert same(asked, started)
    assert same(hooked.events[0], stopped)
    assert hooked.transcript == Path("/x/c.jsonl")
    (start,) = CLIENTS["codex"].hook(payload("SubagentStart", **agent), 1).events
    assert (start.source_key, start.event_type) == (asked.source_key, EventType.SUBAGENT_START)


def test_the_last_words_of_a_turn_are_kept_if_the_rollout_lacks_them() -> None:
    hooked = CLIENTS["codex"].hook(payload("Stop", last_assistant_message="Done.\n"), 5)
    assert [event.event_type for event in hooked.events] == [EventType.ASSISTANT_STOP]
    assert [(event.event_type, event.text) for event in hooked.fallback] == [(EventType.ASSISTANT_MESSAGE, "Done.")]
    assert hooked.transcript == Path(PATH)


def test_a_compaction_is_told_by_the_rollout_where_there_is_one() -> None:
    hooked = CLIENTS["codex"].hook(payload("PostCompact", trigger="auto"), 5)
    assert (hooked.events, hooked.fallback, hooked.transcript) == ((), (), Path(PATH))
    (alone,) = CLIENTS["codex"].hook(payload("PostCompact", trigger="auto", transcript_path=None), 5).events
    assert (alone.event_type, alone.metadata["trigger"]) == (EventType.COMPACTION, "auto")


def test_before_a_compaction_a_record_is_wanted() -> None:
    assert CLIENTS["codex"].hook(payload("PreCompact", trigger="auto"), 1) == Reading(OWN, compacting=True)


def test_a_session_may_start_and_end_many_times() -> None:
    starts = [CLIENTS["codex"].hook(payload("SessionStart", source="resume"), ms).events[0] for ms in (1, 2)]
    ends = [CLIENTS["codex"].hook(payload("SessionEnd", reason="other"), ms).events[0] for ms in (3, 4)]
    assert len({event.source_key for event in (*starts, *ends)}) == 4
    assert (starts[0].text, ends[0].text) == ("resume", "other")


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"hook_event_name": "Stop"},
        {"hook_event_name": 7, "session_id": None},
        {"hook_event_name": "Unheard", "session_id": OWN},
        {"hook_event_name": "PostToolUse", "session_id": OWN},
        {"hook_event_name": "UserPromptSubmit", "session_id": OWN, "prompt": 7},
        {"hook_event_name": "SubagentStop", "session_id": OWN},
        {"hook_event_name": "Stop", "session_id": OWN, "cursor_version": "1"},
    ],
)
def test_what_cannot_be_read_is_unknown(value: dict[str, Any]) -> None:
    assert CLIENTS["codex"].hook(value, 1).unknown


@pytest.mark.skipif(not REPLAY.is_dir(), reason="the recorded hook payloads are not at hand")
def test_every_recorded_payload_is_known() -> None:
    silent = ("Pre", "PostCompact", "PostToolUse-mcp__memory", "PostToolUse-spawn", "PostToolUse-multi")
    for path in sorted(REPLAY.glob("*.json")):
        hooked = CLIENTS["codex"].hook(json.loads(path.read_text("utf-8")), 1)
        assert not hooked.unknown, path.name
        assert bool(hooked.events or hooked.fallback) != path.name.startswith(silent), path.name
        assert not [event for event in hooked.events if event.role == "user" and "subagent" in path.name], path.name
