"""Hook payloads of Claude Code, one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.clients import CLIENTS
from mcp_memory.clients.port import Reading
from mcp_memory.domain.events import Captured, EventType, Role

Payload = Callable[..., dict[str, Any]]
MAIN = Path("/home/dev/.claude/projects/-home-dev-project/s1.jsonl")


def hook(payload: dict[str, Any]) -> Reading:
    return CLIENTS["claude-code"].hook(payload, 1_000)


def only(hooked: Reading) -> Captured:
    (event,) = hooked.events
    assert (event.client, event.session_id, event.timestamp_ms) == ("claude-code", "s1", 1_000)
    assert event.metadata["via"] == "hook"
    return event


def test_a_session_starts(payload: Payload) -> None:
    event = only(hook(payload("SessionStart", source="resume", model="claude-x")))
    assert (event.event_type, event.role, event.text) == (EventType.SESSION_START, Role.SYSTEM, "resume")
    assert event.source_key == "start:resume:1000"
    assert (event.metadata["source"], event.metadata["model"]) == ("resume", "claude-x")


def test_a_session_ends_and_its_transcript_is_read(payload: Payload) -> None:
    hooked = hook(payload("SessionEnd", reason="clear"))
    event = only(hooked)
    assert (event.event_type, event.source_key, event.text) == (EventType.SESSION_END, "end:clear:1000", "clear")
    assert hooked.transcript == MAIN


def test_a_prompt_is_keyed_by_its_id_and_its_words(payload: Payload) -> None:
    event = only(hook(payload("UserPromptSubmit", prompt="Mend  the fence.")))
    same = only(hook(payload("UserPromptSubmit", prompt="Mend the fence.\n")))
    assert (event.event_type, event.role, event.text) == (EventType.USER_MESSAGE, Role.USER, "Mend  the fence.")
    assert event.source_key == same.source_key
    assert event.source_key.startswith("prompt:p1:")
    assert len(event.source_key) == len("prompt:p1:") + 8
    assert event.metadata["prompt_id"] == "p1"


def test_a_prompt_without_an_id_is_keyed_by_its_time(payload: Payload) -> None:
    event = only(hook(payload("UserPromptSubmit", prompt="Mend it.", prompt_id=None)))
    assert event.source_key.startswith("hook:1000:")


def test_a_prompt_that_says_nothing_is_no_event(payload: Payload) -> None:
    assert hook(payload("UserPromptSubmit", prompt="/clear")) == Reading("s1", transcript=MAIN)


def test_a_turn_ends_with_its_last_words_as_fallback(payload: Payload) -> None:
    hooked = hook(payload("Stop", last_assistant_message="Done.\n"))
    event = only(hooked)
    assert (event.event_type, event.source_key, event.text) == (EventType.ASSISTANT_STOP, "turn:1000", "")
    (last,) = hooked.fallback
    assert (last.event_type, last.role, last.text) == (EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, "Done.")
    assert last.source_key.startswith("stop:p1:")
    assert hooked.transcript == MAIN


def test_a_turn_may_end_without_words(payload: Payload) -> None:
    assert hook(payload("Stop")).fallback == ()


def test_a_turn_that_fails_tells_the_error_as_no_message(payload: Payload) -> None:
    hooked = hook(payload("StopFailure", error="unknown", last_assistant_message="API Error: 400 refused"))
    event = only(hooked)
    assert (event.event_type, event.role, event.text) == (
        EventType.ASSISTANT_STOP,
        Role.SYSTEM,
        "API error: 400 refused",
    )
    assert hooked.transcript == MAIN


def test_a_subagent_starts_and_stops(payload: Payload) -> None:
    start = only(hook(payload("SubagentStart", agent_id="a7", agent_type="Explore")))
    assert (start.event_type, start.source_key, start.role) == (EventType.SUBAGENT_START, "agent-start:a7", Role.SYSTEM)
    told = {"agent_transcript_path": "/t/agent-a7.jsonl", "last_assistant_message": "31 crates."}
    hooked = hook(payload("SubagentStop", agent_id="a7", agent_type="Explore", **told))
    stop = only(hooked)
    assert (stop.event_type, stop.source_key, stop.role) == (EventType.SUBAGENT_STOP, "agent-stop:a7", Role.SYSTEM)
    assert (stop.text, stop.metadata["agent_type"]) == ("31 crates.", "Explore")
    assert hooked.transcript == Path("/t/agent-a7.jsonl")


def test_the_subagent_of_a_compaction_is_none(payload: Payload) -> None:
    told = {"last_assistant_message": "<summary>All.</summary>", "agent_transcript_path": "/t/none.jsonl"}
    assert hook(payload("SubagentStop", agent_id="a8", agent_type="", **told)) == Reading("s1")


def test_a_compaction_is_a_fallback_without_its_analysis(payload: Payload) -> None:
    summary = "<analysis>Hm.</analysis>\n<summary>The fence is mended.</summary>"
    hooked = hook(payload("PostCompact", trigger="auto", compact_summary=summary))
    (event,) = hooked.fallback
    assert hooked.events == ()
    assert (event.event_type, event.role, event.text) == (EventType.COMPACTION, Role.SYSTEM, "The fence is mended.")
    assert (event.source_key, event.metadata["trigger"]) == ("compact:1000", "auto")
    assert hooked.transcript == MAIN


def test_a_tool_result_knows_its_tool_file_and_agent(payload: Payload) -> None:
    told = {"tool_response": {"file": {"content": "x = 1\n"}}, "agent_id": "a7", "agent_type": "Explore"}
    given = {"file_path": "/home/dev/project/src/x.py"}
    event = only(hook(payload("PostToolUse", tool_name="Read", tool_input=given, tool_use_id="t1", **told)))
    assert (event.event_type, event.role, event.source_key) == (EventType.TOOL_RESULT, Role.TOOL, "tool:t1")
    assert event.text == "Read: src/x.py\nx = 1"
    assert dict(event.metadata) == {
        "via": "hook",
        "prompt_id": "p1",
        "cwd": "/home/dev/project",
        "agent_id": "a7",
        "agent_type": "Explore",
        "tool": "Read",
        "files": ["src/x.py"],
    }


def test_an_interrupted_failure_says_so(payload: Payload) -> None:
    told = {"tool_use_id": "t1", "error": "Exit code 137", "is_interrupt": True}
    event = only(hook(payload("PostToolUseFailure", tool_name="Bash", tool_input={"command": "sleep 9"}, **told)))
    assert event.text == "Bash: sleep 9\nExit code 137"
    assert event.metadata["failed"] is event.metadata["is_interrupt"] is True


@pytest.mark.parametrize(
    ("name", "given_", "server"),
    [
        ("mcp__memory__toc_root", {}, None),
        ("mcp__mcp-memory__teleport", {}, None),
        ("mcp__plugin_mcp-memory_memory__get_node", {}, {"name": "plugin:mcp-memory:memory"}),
        ("mcp__mine__toc_root", {}, {"name": "mcp-memory"}),
        ("ReadMcpResourceTool", {"server": "memory", "uri": "memory://toc"}, None),
        ("ToolSearch", {"query": "select:mcp__memory__toc_root"}, None),
        ("Bash", {"command": "cd x && mcp-memory search 'gate'"}, None),
    ],
)
def test_our_own_output_is_not_remembered(payload: Payload, name: str, given_: dict[str, Any], server: object) -> None:
    told = {"tool_use_id": "t1", "tool_response": "toc:day:2026-03-01", "mcp_server": server}
    assert hook(payload("PostToolUse", tool_name=name, tool_input=given_, **told)) == Reading("s1", transcript=MAIN)


def test_other_tools_that_mention_memory_are_remembered(payload: Payload) -> None:
    told = {"tool_use_id": "t1", "tool_response": {"stdout": "docs/use.md"}}
    given_ = {"command": "grep -l 'mcp-memory search' docs"}
    assert only(hook(payload("PostToolUse", tool_name="Bash", tool_input=given_, **told))).text.endswith("docs/use.md")


@pytest.mark.parametrize(
    "event",
    "PreToolUse PostToolBatch MessageDisplay InstructionsLoaded PermissionRequest Notification".split(),
)
def test_events_that_tell_nothing_are_known(payload: Payload, event: str) -> None:
    assert hook(payload(event, tool_name="Bash", delta="text", message="text")) == Reading("s1")


def test_before_the_client_forgets_its_words_are_read_and_a_record_is_wanted(payload: Payload) -> None:
    told = hook(payload("PreCompact", trigger="auto", transcript_path="/somewhere/s1.jsonl"))
    assert told == Reading("s1", transcript=Path("/somewhere/s1.jsonl"), compacting=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"hook_event_name": "NeverHeardOf"},
        {"hook_event_name": None},
        {"session_id": None},
        {"session_id": ""},
        {"cursor_version": "2.0"},
        {"hook_event_name": "UserPromptSubmit", "prompt": 7},
        {"hook_event_name": "PostToolUse", "tool_name": "Bash"},
        {"hook_event_name": "SubagentStop"},
    ],
)
def test_what_cannot_be_read_is_unknown(payload: Payload, fields: dict[str, Any]) -> None:
    hooked = hook({**payload("Stop"), **fields})
    assert (hooked.unknown, hooked.events, hooked.fallback) == (True, (), ())


def test_a_payload_nested_too_deeply_is_unknown(payload: Payload) -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert hook(payload("PostToolUse", tool_name="Bash", tool_use_id="t1", tool_response=deep)).unknown


EVENTS = st.sampled_from(
    "SessionStart SessionEnd UserPromptSubmit PostToolUse PostToolUseFailure Stop StopFailure SubagentStart "
    "SubagentStop PostCompact".split()
)
TOOLS = st.sampled_from(
    "Bash Read Edit MultiEdit Write Grep TodoWrite WebSearch Agent ReadMcpResourceTool mcp__a__b AskUserQuestion "
    "ExitPlanMode TaskCreate TaskUpdate TaskList".split()
)
FIELDS = st.sampled_from(
    "stdout stderr file content filenames newTodos oldString edits answers results plan structuredPatch type text "
    "command file_path old_string todos name server source cells resource questions question options label taskId "
    "subject status task tasks id annotations multiSelect".split()
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=8,
)


@given(event=EVENTS, name=TOOLS | JSON, given_=JSON, response=JSON, rest=st.dictionaries(FIELDS, JSON, max_size=3))
def test_no_payload_raises_and_every_text_can_be_stored(
    event: str, name: object, given_: object, response: object, rest: dict[str, Any]
) -> None:
    told = {"tool_name": name, "tool_input": given_, "tool_use_id": "t1", "tool_response": response, "error": response}
    ids = {"agent_id": "a7", "prompt": given_, "mcp_server": response, "last_assistant_message": given_}
    hooked = hook({**rest, **told, **ids, "hook_event_name": event, "session_id": "s1"})
    for captured in (*hooked.events, *hooked.fallback):
        captured.text.encode()
