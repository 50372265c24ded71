"""Cursor: its hooks, the transcripts of its agent, and that both tell one event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.clients import CLIENTS
from mcp_memory.clients.cursor_transcript import directory_of
from mcp_memory.domain.events import EventType
from tests.clients.conftest import Transcript

CWD = "/home/dev/project"
PATH = "/home/dev/.cursor/projects/home-dev-project/agent-transcripts/s1/s1.jsonl"


def payload(event: str, **fields: object) -> dict[str, Any]:
    common = {
        "conversation_id": "s1",
        "generation_id": "g1",
        "model": "gpt-x",
        "cursor_version": "2.5.1",
        "workspace_roots": [CWD],
        "user_email": "dev@example.org",
        "transcript_path": PATH,
    }
    return {**common, "hook_event_name": event, **fields}


def say(role: str, *content: object) -> dict[str, Any]:
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    return {"role": role, "message": {"content": blocks}}


@pytest.fixture
def chat(tmp_path: Path) -> Transcript:
    folder = tmp_path / ".cursor" / "projects" / "home-dev-project" / "agent-transcripts"
    return Transcript(folder / "s1" / "s1.jsonl", "cursor")


def told(chat: Transcript) -> list[tuple[str, str]]:
    return [(event.event_type.value, event.text) for event in chat.events()]


def test_a_transcript_gives_prompts_and_each_reply_in_order(chat: Transcript) -> None:
    asked = "<timestamp>Monday, Mar 2, 2026, 10:04 AM (UTC+1)</timestamp>\n<user_query>\nMend the fence.\n</user_query>"
    use = {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}
    chat.write(say("user", asked), say("assistant", "First a look.", use), say("assistant", "Mended.\n\n[REDACTED]"))
    chat.write({"type": "turn_ended", "status": "success"})
    events = chat.events()
    assert [(event.event_type.value, event.text) for event in events] == [
        ("user_message", "Mend the fence."),
        ("assistant_message", "First a look."),
        ("assistant_message", "Mended."),
    ]
    times = [event.timestamp_ms for event in events]
    assert times == sorted(set(times))
    assert times[0] // 60_000 * 60_000 == 1772442240000
    assert {event.session_id for event in events} == {"s1"}


def test_what_is_added_to_a_transcript_is_said_when_it_is_added(chat: Transcript) -> None:
    asked = "<timestamp>Monday, Mar 2, 2026, 10:04 AM (UTC+1)</timestamp>\n<user_query>Go.</user_query>"
    (old,) = chat.write(say("user", asked)).events()
    (new,) = chat.write(say("assistant", "Gone.")).events()
    assert old.timestamp_ms // 60_000 * 60_000 == 1772442240000
    assert abs(new.timestamp_ms - chat.path.stat().st_mtime * 1000) < 1_000


def test_a_message_is_one_event_whether_hook_or_transcript_tells_it(chat: Transcript) -> None:
    (prompt,) = CLIENTS["cursor"].hook(payload("beforeSubmitPrompt", prompt="Mend the fence."), 5).events
    (reply,) = CLIENTS["cursor"].hook(payload("afterAgentResponse", text="Mended.\n"), 6).events
    chat.write(say("user", "<user_query>\nMend the fence.\n</user_query>"), say("assistant", "Mended."))
    first, second = chat.events()
    for hooked, event in ((prompt, first), (reply, second)):
        fields = ("client", "session_id", "source_key", "event_type", "role", "text")
        assert [getattr(hooked, field) for field in fields] == [getattr(event, field) for field in fields]
    assert prompt.metadata == {"via": "hook", "cwd": CWD, "turn_id": "g1", "model": "gpt-x"}


def test_what_is_said_twice_is_two_events(chat: Transcript) -> None:
    chat.write(say("user", "Go on."), say("assistant", "Done."))
    keys = [event.source_key for event in chat.events()]
    chat.write(say("user", "Go on."), say("assistant", "Done."))
    keys += [event.source_key for event in chat.events()]
    assert len(set(keys)) == 4


def test_without_a_transcript_the_turn_tells_equal_prompts_apart() -> None:
    fields = {"prompt": "Go on.", "transcript_path": None}
    first, second = (payload("beforeSubmitPrompt", generation_id=turn, **fields) for turn in ("g1", "g2"))
    keys = {CLIENTS["cursor"].hook(one, 5).events[0].source_key for one in (first, first, second)}
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("sessionStart", {}),
        ("sessionEnd", {"reason": "completed"}),
        ("beforeSubmitPrompt", {"prompt": "Mend the fence."}),
        ("afterAgentResponse", {"text": "Mended."}),
        (
            "postToolUse",
            {"tool_name": "Shell", "tool_input": {"command": "ls"}, "tool_output": "{}", "tool_use_id": "t1"},
        ),
        ("stop", {"status": "completed"}),
        ("preCompact", {"context_tokens": 90_000}),
    ],
)
def test_a_payload_that_comes_by_claudes_hooks_too_is_one_event(event: str, fields: dict[str, Any]) -> None:
    claudes = {"beforeSubmitPrompt": "UserPromptSubmit"}.get(event, event[0].upper() + event[1:])
    first, second = (CLIENTS["cursor"].hook(payload(name, **fields), ms) for name, ms in ((event, 5), (event, 6)))
    keys = {one.source_key for hooked in (first, second) for one in hooked.events}
    assert len(keys) == 1
    if event != "afterAgentResponse":
        assert {one.source_key for one in CLIENTS["cursor"].hook(payload(claudes, **fields), 7).events} == keys


@pytest.mark.parametrize(
    ("name", "given", "output", "text", "failed"),
    [
        ("Shell", {"command": "ls"}, '{"exitCode":0,"stdout":"a.py\\n"}', "Shell: ls\na.py", None),
        ("Shell", {"command": "ls"}, '{"exitCode":2,"stderr":"no"}', "Shell: ls\nExit code 2\nno", True),
        ("Shell", {"command": "true"}, '{"exitCode":0,"stdout":""}', "Shell: true", None),
        ("Shell", {"command": "ls"}, "plain text", "Shell: ls\nplain text", None),
        ("Read", {"path": f"{CWD}/a.py"}, '{"contents":"x = 1"}', "Read: a.py\nx = 1", None),
        ("Write", {"path": f"{CWD}/a.py", "contents": "x = 1\n"}, "{}", "Write: a.py\nx = 1", None),
        ("StrReplace", {"path": f"{CWD}/a.py", "old_string": "x", "new_string": "y"}, "{}",
         "StrReplace: a.py\n- x\n+ y", None),
        ("Grep", {"pattern": "fence", "path": CWD}, '{"output":"a.py:1"}', "Grep: fence\na.py:1", None),
        ("MCP:count", {"what": "crates"}, '{"content":[{"type":"text","text":"31"}]}',
         'MCP:count: {"what":"crates"}\n31', None),
    ],
)  # fmt: skip
def test_a_tool_call_is_told_with_what_it_gave_back(
    name: str, given: dict[str, Any], output: str, text: str, failed: bool | None
) -> None:
    fields = {"tool_name": name, "tool_input": given, "tool_output": output, "tool_use_id": "t1"}
    (event,) = CLIENTS["cursor"].hook(payload("postToolUse", **fields), 5).events
    assert (event.text, event.metadata.get("failed"), event.metadata["tool"]) == (text, failed, name)
    assert event.source_key == "tool:t1"


def test_a_failed_call_is_marked() -> None:
    fields = {"tool_name": "Shell", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    hooked = CLIENTS["cursor"].hook(
        payload("postToolUseFailure", error_message="timed out", is_interrupt=True, **fields), 5
    )
    (event,) = hooked.events
    assert (event.text, event.metadata["failed"], event.metadata["is_interrupt"]) == (
        "Shell: ls\ntimed out",
        True,
        True,
    )


@pytest.mark.parametrize(
    ("event", "fields", "text"),
    [
        ("afterShellExecution", {"command": "ls", "output": "a.py\n"}, "Shell: ls\na.py"),
        ("afterMCPExecution", {"tool_name": "count", "tool_input": '{"n":1}', "result_json": '{"content":"31"}'},
         'MCP:count: {"input":"{\\"n\\":1}"}\n31'),
        ("afterFileEdit", {"file_path": f"{CWD}/a.py", "edits": [{"old_string": "x", "new_string": "y"}]},
         "Edit: a.py\n- x\n+ y"),
    ],
)  # fmt: skip
def test_what_tells_of_one_kind_of_tool_is_told_apart_by_its_way(event: str, fields: dict[str, Any], text: str) -> None:
    (told,) = CLIENTS["cursor"].hook(payload(event, **fields), 5).events
    assert (told.text, told.event_type) == (text, EventType.TOOL_RESULT)
    assert told.metadata["via"] != "hook", "so that the store takes it and postToolUse for one"


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("postToolUse", {"tool_name": "MCP:teleport", "tool_input": {"query": "x"}, "tool_use_id": "t1"}),
        ("postToolUse", {"tool_name": "CallMcpTool", "tool_input": {"server": "memory"}, "tool_use_id": "t1"}),
        ("postToolUse", {"tool_name": "Shell", "tool_input": {"command": "mcp-memory toc"}, "tool_use_id": "t1"}),
        ("afterMCPExecution", {"tool_name": "expand_grip", "tool_input": "{}", "result_json": "{}"}),
        ("afterShellExecution", {"command": "mcp-memory search x", "output": "a hit"}),
    ],
)
def test_what_our_own_tools_said_is_not_told_again(event: str, fields: dict[str, Any]) -> None:
    hooked = CLIENTS["cursor"].hook(payload(event, **fields), 5)
    assert (hooked.unknown, hooked.events) == (False, ())


def test_what_we_injected_is_no_part_of_a_prompt(chat: Transcript) -> None:
    text = '<memory project="p">\nRemember: 31.\n</memory>\n<user_query>\nGo on.\n</user_query>'
    assert told(chat.write(say("user", text))) == [("user_message", "Go on.")]
    assert told(chat.write(say("user", '<memory project="p">\nRemember: 31.\n</memory>\n'))) == []


@pytest.mark.parametrize(("status", "mark"), [("completed", None), ("aborted", "is_interrupt"), ("error", "failed")])
def test_a_turns_end_says_how_it_ended(status: str, mark: str | None) -> None:
    (event,) = CLIENTS["cursor"].hook(payload("stop", status=status), 5).events
    assert event.event_type is EventType.ASSISTANT_STOP
    assert [name for name in ("is_interrupt", "failed") if event.metadata.get(name)] == ([mark] if mark else [])


def test_a_transcript_tells_a_turn_that_ended_badly(chat: Transcript) -> None:
    chat.write({"type": "turn_ended", "status": "error", "error": "User aborted request"})
    chat.write({"type": "turn_ended", "status": "error", "error": "no quota"})
    stopped, failed = chat.events()
    assert (stopped.metadata["is_interrupt"], failed.metadata["failed"]) == (True, True)
    assert failed.text == "API error: no quota"


def test_a_subagent_is_linked_to_its_conversation(tmp_path: Path) -> None:
    folder = tmp_path / "agent-transcripts" / "s1" / "subagents"
    agent = Transcript(folder / "a7.jsonl", "cursor")
    agent.write(say("user", "Count the crates."), say("assistant", "Hm."), say("assistant", "There are 31."))
    start, stop = agent.events()
    fields = {"subagent_id": "a7", "subagent_type": "explore", "task": "Count the crates."}
    (hooked,) = CLIENTS["cursor"].hook(payload("subagentStart", **fields), 5).events
    path = str(agent.path)
    ended = CLIENTS["cursor"].hook(payload("subagentStop", summary="There are 31.", agent_transcript_path=path), 6)
    assert (start.session_id, start.source_key, start.text) == ("s1", hooked.source_key, hooked.text)
    assert (stop.source_key, stop.text) == (ended.events[0].source_key, ended.events[0].text)
    assert ended.transcript == agent.path
    assert [event.event_type for event in (start, stop)] == [EventType.SUBAGENT_START, EventType.SUBAGENT_STOP]


def test_a_compaction_is_told_although_cursor_keeps_its_summary() -> None:
    hooked = CLIENTS["cursor"].hook(payload("preCompact", context_tokens=90_000, trigger="auto"), 5)
    (event,) = hooked.events
    assert hooked.compacting
    assert (event.event_type, event.metadata["pre_tokens"]) == (EventType.COMPACTION, 90_000)


def test_bad_lines_are_told_and_the_good_ones_kept(chat: Transcript) -> None:
    chat.write("{broken", say("user", "Still here."), "7", {"what": 1}, {"role": "user", "message": {"content": 7}})
    assert told(chat) == [("user_message", "Still here.")]
    assert [bad.line for bad in chat.bad] == [1, 3, 4, 5]


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"hook_event_name": "stop"},
        {"hook_event_name": 7, "conversation_id": None},
        payload("unheard"),
        payload("postToolUse"),
        payload("beforeSubmitPrompt", prompt=7),
        payload("afterAgentResponse"),
        payload("afterShellExecution"),
        payload("afterFileEdit"),
    ],
)
def test_what_cannot_be_read_is_unknown(value: dict[str, Any]) -> None:
    assert CLIENTS["cursor"].hook(value, 1).unknown


def test_thoughts_and_what_comes_before_a_tool_are_silent() -> None:
    for event in ("afterAgentThought", "preToolUse", "beforeShellExecution", "beforeReadFile", "afterTabFileEdit"):
        hooked = CLIENTS["cursor"].hook(payload(event, text="x"), 1)
        assert (hooked.unknown, hooked.events) == (False, ()), event


def test_nothing_of_the_user_but_what_was_said_is_kept() -> None:
    (event,) = CLIENTS["cursor"].hook(payload("beforeSubmitPrompt", prompt="Go on."), 5).events
    assert "example.org" not in json.dumps(dict(event.metadata))


def test_files_are_named_from_the_workspace_on_windows_too() -> None:
    given = {"path": "c:\\dev\\project\\src\\a.py"}
    fields = {"tool_name": "Read", "tool_input": given, "tool_output": "x", "tool_use_id": "t1"}
    hooked = CLIENTS["cursor"].hook(payload("postToolUse", workspace_roots=["c:\\dev\\project"], **fields), 5)
    assert hooked.events[0].metadata["files"] == ["src\\a.py"]


def test_the_project_is_found_again_by_the_name_the_client_gives_it(tmp_path: Path) -> None:
    project = tmp_path / "my-app" / "web.site"
    project.mkdir(parents=True)
    name = "-".join(part.replace("_", "-").replace(".", "-") for part in project.parts[1:])
    path = tmp_path / ".cursor" / "projects" / name / "agent-transcripts" / "s1" / "s1.jsonl"
    assert directory_of(path) == str(project)
    lost = tmp_path / "projects" / "nowhere-to-be-found" / "agent-transcripts" / "s1.jsonl"
    assert directory_of(lost) == "/nowhere/to/be/found"
    assert directory_of(tmp_path / "s1.jsonl") == ""


def test_only_transcripts_and_exports_are_taken_from_a_folder(chat: Transcript, tmp_path: Path) -> None:
    chat.write(say("user", "Hello."))
    (tmp_path / "README.md").write_text("# Nothing said here\n")
    (tmp_path / "other.jsonl").write_text('{"role": "user", "text": "x"}\n')
    export = tmp_path / "project" / ".specstory" / "history" / "one.md"
    export.parent.mkdir(parents=True)
    export.write_text("<!-- Generated by SpecStory -->\n\n_**User**_\n\nHello.\n")
    assert list(CLIENTS["cursor"].transcripts([tmp_path])) == [chat.path, export]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"output": "ok", "exitCode": 0}, "Shell: git commit -m Mend\nCommit message: Mend\n\nok"),
        ({"output": "no", "exitCode": 1}, "Shell: git commit -m Mend\nExit code 1\nno"),
    ],
)
def test_a_commit_has_its_message_unless_it_failed(output: dict[str, Any], text: str) -> None:
    fields = {"tool_name": "Shell", "tool_input": {"command": "git commit -m Mend"}, "tool_use_id": "t1"}
    (event,) = CLIENTS["cursor"].hook(payload("postToolUse", tool_output=json.dumps(output), **fields), 5).events
    assert event.text == text
