"""Gemini CLI: its hooks, its transcripts, and that both tell the same words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.clients import CLIENTS
from mcp_memory.domain.events import Captured, EventType
from tests.clients.conftest import Transcript
from tests.support import SHARED

REPLAY = SHARED / "real-client" / "replay" / "gemini"
CWD = "/home/dev/project"


class Chat(Transcript):
    """A chat in the making, where the client would keep it."""

    def __init__(self, home: Path, name: str = "session-2026-03-01T10-00-5e551011.jsonl", **header: Any) -> None:
        folder = home / ".gemini" / "tmp" / "project"
        super().__init__(folder / "chats" / name, "gemini")
        self._number = 0
        self.path.parent.mkdir(parents=True)
        (folder / ".project_root").write_text(CWD)
        start = {"sessionId": "s1", "projectHash": "h", "startTime": "2026-03-01T10:00:00.000Z", "kind": "main"}
        if self.path.suffix == ".jsonl":
            self.write({**start, **header})

    def line(self, kind: str, content: object, **fields: Any) -> dict[str, Any]:
        self._number += 1
        stamp = f"2026-03-01T10:00:{self._number:02d}.250Z"
        return {"id": f"m{self._number}", "timestamp": stamp, "type": kind, "content": content, **fields}

    def user(self, text: str) -> dict[str, Any]:
        return self.line("user", [{"text": text}])

    def reply(self, text: str, *calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return self.line("gemini", text, model="gemini-x", **({"toolCalls": list(calls)} if calls else {}), **fields)


def called(name: str, given: dict[str, Any], output: str = "", call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    response = {"error": fields.pop("error")} if "error" in fields else {"output": output}
    return {
        "id": call_id,
        "name": name,
        "args": given,
        "result": [{"functionResponse": {"id": call_id, "name": name, "response": response}}],
        "status": "error" if "error" in response else "success",
        "timestamp": "2026-03-01T10:00:30.000Z",
        **fields,
    }


def payload(event: str, **fields: object) -> dict[str, Any]:
    stamp = "2026-03-01T10:00:00.000Z"
    common = {"session_id": "s1", "transcript_path": "/nowhere/c.jsonl", "cwd": CWD, "timestamp": stamp}
    return {**common, "hook_event_name": event, **fields}


def same(hooked: Captured, told: Captured) -> bool:
    """Without a name for either, the words must agree: then the store takes them for one."""
    fields = ("client", "session_id", "event_type", "role")
    assert [getattr(hooked, field) for field in fields] == [getattr(told, field) for field in fields]
    assert " ".join(hooked.text.split()) == " ".join(told.text.split())
    assert (hooked.metadata["via"], told.metadata["via"]) == ("hook", "transcript")
    shared = ("cwd", "tool", "files", "failed")
    assert [hooked.metadata.get(name) for name in shared] == [told.metadata.get(name) for name in shared]
    return True


@pytest.fixture
def chat(tmp_path: Path) -> Chat:
    return Chat(tmp_path)


def told(chat: Transcript) -> list[tuple[str, str]]:
    return [(event.event_type.value, event.text) for event in chat.events()]


def test_a_turn_gives_the_prompt_each_reply_and_each_tool_result_once(chat: Chat) -> None:
    first = chat.reply("First a look.")
    output = "<untrusted_context>\nOutput: hello\nProcess Group PGID: 96\n</untrusted_context>"
    call = called("run_shell_command", {"command": "greet"}, output)
    chat.write(chat.user("Greet them."), {"$set": {"lastUpdated": "x"}}, first, {**first, "toolCalls": [call]})
    chat.write(chat.line("user", [{"functionResponse": {"id": "c1", "response": {"output": output}}}]))
    events = chat.write(chat.reply("Done.")).events()
    assert [(event.event_type.value, event.text) for event in events] == [
        ("user_message", "Greet them."),
        ("assistant_message", "First a look."),
        ("tool_result", "run_shell_command: greet\nhello"),
        ("assistant_message", "Done."),
    ]
    assert (events[1].metadata["model"], events[1].metadata["cwd"]) == ("gemini-x", CWD)
    assert chat.events() == []


def test_a_resume_writes_the_history_anew_and_tells_nothing_twice(chat: Chat) -> None:
    prompt = chat.user("Greet them.")
    chat.write(prompt, chat.reply("Done."))
    assert len(chat.events()) == 2
    again = {**prompt, "timestamp": "2026-03-02T10:00:00.000Z"}
    chat.write({"sessionId": "s1", "projectHash": "h", "startTime": "2026-03-02T10:00:00Z", "kind": "main"})
    chat.write({"$set": {"messages": [again]}}, {"$set": {"sessionId": "s1"}}, chat.user("Go on."))
    assert told(chat) == [("user_message", "Go on.")]


def test_a_message_that_is_read_twice_after_a_crash_reads_the_same(chat: Chat) -> None:
    chat.write(
        chat.reply("Two.", called("glob", {"pattern": "*"}, "a", "c1"), called("glob", {"pattern": "+"}, "b", "c2"))
    )
    reader, state = CLIENTS["gemini"], chat.state
    lines = reader.read(chat.path, state)
    next(lines)
    saved = json.loads(json.dumps({"offset": state.offset, "line": state.line, "memory": state.memory}))
    chat.state = type(state)(**saved)
    assert [text for _, text in told(chat)] == ["Two.", "glob: *\na", "glob: +\nb"]


def test_the_clients_own_summary_is_a_compaction_and_no_message(chat: Chat) -> None:
    snapshot = {"id": "x1", "timestamp": "2026-03-01T10:00:09Z", "type": "user"}
    snapshot["content"] = [{"text": "<state_snapshot>\nThe fence is mended.\n</state_snapshot>"}]  # type: ignore[assignment]
    thanks = chat.line("gemini", [{"text": "Got it. Thanks for the additional context!"}])
    chat.write(chat.user("Mend it."), {"$set": {"messages": [snapshot, thanks]}}, {"$set": {"messages": [snapshot]}})
    assert told(chat) == [("user_message", "Mend it."), ("compaction", "The fence is mended.")]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("<session_context>\nThis is the Gemini CLI.\n</session_context>", None),
        ("<hook_context>Remember: 31.</hook_context>\n\nMend the fence.", "Mend the fence."),
        ("<hook_context>Remember: 31.</hook_context>", None),
        ("Mend @a.py\n--- Content from referenced files ---\nx = 1\n--- End of content ---", "Mend @a.py"),
        ("System: Potential loop detected. Details: x", None),
        ("/compress", None),
        ("?", None),
        ("/etc/hosts is wrong", "/etc/hosts is wrong"),
    ],
)
def test_only_what_was_typed_is_a_prompt(chat: Chat, text: str, typed: str | None) -> None:
    hooked = [event.text for event in CLIENTS["gemini"].hook(payload("BeforeAgent", prompt=text), 1).events]
    assert hooked == [text for _, text in told(chat.write(chat.user(text)))] == ([typed] if typed else [])


def test_a_prompt_is_told_alike_by_hook_and_transcript(chat: Chat) -> None:
    (hooked,) = CLIENTS["gemini"].hook(payload("BeforeAgent", prompt="Mend the fence.\n"), 1).events
    (event,) = chat.write(chat.user("Mend the fence.")).events()
    assert same(hooked, event)
    assert hooked.timestamp_ms == 1772359200000


OLD_SHELL = "Command: greet\nDirectory: (root)\nOutput: hello\nError: (none)\nExit Code: 0\nProcess Group PGID: 1"
TOOLS: list[tuple[str, dict[str, Any], object, str, str]] = [
    ("run_shell_command", {"command": "greet"}, "Output: hello\nProcess Group PGID: 9", "", "hello"),
    ("run_shell_command", {"command": "true"}, "Output: (empty)\nProcess Group PGID: 9", "", ""),
    ("run_shell_command", {"command": "greet"}, OLD_SHELL, "", "hello"),
    ("run_shell_command", {"command": "go"}, "Output: Error: x\nSignal: y\nz\nExit Code: 2\nProcess Group PGID: 9", "",
     "Exit code 2\nError: x\nSignal: y\nz"),
    ("read_file", {"file_path": f"{CWD}/a.py"}, "x = 1\n", "", "x = 1"),
    ("write_file", {"file_path": f"{CWD}/a.py", "content": "x = 1\n"}, "Successfully created.", "", "x = 1"),
    ("replace", {"file_path": f"{CWD}/a.py", "old_string": "x\ny", "new_string": "x\nz"}, "Done.", "", "- y\n+ z"),
    ("read_file", {"file_path": f"{CWD}/no.py"}, "Could not read.", "File not found: no.py", "File not found: no.py"),
    ("run_shell_command", {"command": "git commit -m Mend"}, "Output: ok\nProcess Group PGID: 9", "",
     "Commit message: Mend\n\nok"),
    ("run_shell_command", {"command": "git commit -m Mend"}, "Output: no\nExit Code: 1\nProcess Group PGID: 9", "",
     "Exit code 1\nno"),
    ("glob", {"pattern": "*.py"}, "Found 1 file(s)", "", "Found 1 file(s)"),
    ("mcp_farm_count", {"what": "crates"}, [{"text": "31"}, {"text": "more"}], "", "31\nmore"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "content", "error", "result"), TOOLS)
def test_a_tool_call_is_told_alike_by_hook_and_transcript(
    chat: Chat, name: str, given: dict[str, Any], content: object, error: str, result: str
) -> None:
    texts = [part["text"] for part in content] if isinstance(content, list) else [str(content)]
    fenced = [f"<untrusted_context>\n{text}\n</untrusted_context>" for text in texts]
    response: dict[str, Any] = {"llmContent": [{"text": text} for text in fenced], "returnDisplay": "shown"}
    if isinstance(content, str):
        response["llmContent"] = fenced[0]
    if error:
        response["error"] = {"message": error, "type": "x"}
    fields = {"tool_name": name, "tool_input": given, "tool_response": response}
    (hooked,) = CLIENTS["gemini"].hook(payload("AfterTool", **fields), 1).events
    recorded = called(name, given, error=error) if error else called(name, given, "\n".join(fenced))
    (event,) = chat.write(chat.reply("", recorded)).events()
    assert same(hooked, event)
    assert hooked.text.partition("\n")[2] == result
    assert hooked.text.startswith(f"{name}: ")


def test_a_huge_result_is_told_alike_although_the_hook_clips_it(chat: Chat) -> None:
    from mcp_memory.capture.clipping import clip

    output = "\n".join(f"line {number} of the long report" for number in range(4_000))
    fields = {"tool_name": "read_file", "tool_input": {"file_path": f"{CWD}/a.log"}}
    response = {"llmContent": clip(output, 65_536)[0]}
    (hooked,) = CLIENTS["gemini"].hook(payload("AfterTool", tool_response=response, **fields), 1).events
    (event,) = chat.write(chat.reply("", called("read_file", {"file_path": f"{CWD}/a.log"}, output))).events()
    assert same(hooked, event)
    assert "line 3999" in event.text
    assert len(event.text) < 20_000


def test_calls_made_at_once_keep_their_order(chat: Chat) -> None:
    calls = [called("glob", {"pattern": str(number)}, "x", f"c{number}") for number in range(3)]
    times = [event.timestamp_ms for event in chat.write(chat.reply("", *calls)).events()]
    assert times == sorted(set(times))


@pytest.mark.parametrize(
    ("name", "given", "server"),
    [
        ("mcp_memory_teleport", {"query": "x"}, "memory"),
        ("mcp_mcp-memory_toc_root", {}, "mcp-memory"),
        ("run_shell_command", {"command": "mcp-memory search x"}, ""),
        ("complete_task", {"result": "x"}, ""),
    ],
)
def test_what_our_own_tools_said_is_not_told_again(chat: Chat, name: str, given: dict[str, Any], server: str) -> None:
    fields = {"tool_name": name, "tool_input": given, "tool_response": {"llmContent": "toc:day:2026-03-01"}}
    hooked = CLIENTS["gemini"].hook(payload("AfterTool", mcp_context={"server_name": server}, **fields), 1)
    assert (hooked.unknown, hooked.events) == (False, ())
    assert chat.write(chat.reply("", called(name, given, "toc:day:2026-03-01"))).events() == []


def test_a_turns_end_tells_what_was_said_only_if_there_is_no_transcript(chat: Chat) -> None:
    fields = {"prompt": "x", "prompt_response": "First a look.\nDone."}
    with_file = CLIENTS["gemini"].hook(payload("AfterAgent", transcript_path=str(chat.path), **fields), 1)
    without = CLIENTS["gemini"].hook(payload("AfterAgent", **fields), 1)
    assert [event.event_type for event in with_file.events] == [EventType.ASSISTANT_STOP]
    assert (with_file.fallback, with_file.transcript) == ((), chat.path)
    assert [event.text for event in without.fallback] == ["First a look.\nDone."]


def test_a_subagent_is_linked_to_its_session_from_both_files(tmp_path: Path) -> None:
    chat = Chat(tmp_path / "one")
    answer = "Subagent 'scout' finished.\nTermination Reason: GOAL\nResult:\n31 crates."
    start, stop, tool = chat.write(
        chat.reply("", called("scout", {"objective": "Count."}, answer, agentId="a7"))
    ).events()
    own = Chat(tmp_path / "two", "s1/a7.jsonl", sessionId="a7", kind="subagent")
    own.write(own.user("Count."), own.reply("Hm.", called("glob", {"pattern": "*"}, "x")))
    own.write(own.reply("", called("complete_task", {"result": "31 crates."}, "ok", "c2")))
    own_start, own_tool, own_stop = own.events()
    assert (start.source_key, start.text) == (own_start.source_key, own_start.text)
    assert (stop.source_key, stop.text) == (own_stop.source_key, own_stop.text)
    assert {event.session_id for event in (start, own_start, own_tool, own_stop)} == {"s1"}
    assert own_tool.metadata["agent_id"] == start.metadata["agent_id"] == "a7"
    assert tool.text.startswith('scout: {"objective":"Count."}')


def test_the_document_of_earlier_versions_is_read_and_read_again_when_it_changed(tmp_path: Path) -> None:
    chat = Chat(tmp_path, "session-2025-10-01T10-00-5e551011.json")
    messages = [chat.user("Greet them."), chat.reply("Done.")]
    document = {"sessionId": "s1", "projectHash": "h", "startTime": "2025-10-01T10:00:00Z", "messages": messages}
    chat.path.write_text(json.dumps(document, indent=2))
    assert told(chat) == [("user_message", "Greet them."), ("assistant_message", "Done.")]
    assert chat.events() == []
    chat.path.write_text(json.dumps({**document, "messages": [*messages, chat.user("Go on.")]}, indent=2))
    assert ("user_message", "Go on.") in told(chat)


def test_the_project_is_told_by_the_context_where_no_file_names_it(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    (chat.path.parent.parent / ".project_root").unlink()
    context = "<session_context>\n- **Workspace Directories:**\n  - C:\\dev\\project\n</session_context>"
    chat.write({"$set": {"messages": [chat.user(context)]}})
    given = {"file_path": "C:\\dev\\project\\src\\a.py"}
    (told,) = chat.write(chat.reply("", called("read_file", given, "x = 1"))).events()
    assert (told.cwd, told.metadata["files"]) == ("C:\\dev\\project", ["src\\a.py"])


def test_what_went_wrong_is_told_apart(chat: Chat) -> None:
    chat.write(
        chat.line("error", "[API Error: no quota]"), chat.line("info", "Request cancelled."), chat.line("info", "x")
    )
    failed, stopped = chat.events()
    assert (failed.text, failed.metadata["failed"]) == ("API error: [API Error: no quota]", True)
    assert (stopped.text, stopped.metadata["is_interrupt"]) == ("Interrupted by the user", True)


def test_bad_lines_are_told_and_the_good_ones_kept(chat: Chat) -> None:
    chat.write('{"id": broken', chat.user("Still here."), "[1]", {"what": "is this"})
    assert told(chat) == [("user_message", "Still here.")]
    assert [bad.line for bad in chat.bad] == [2, 4, 5]


def test_a_message_before_any_session_is_told_as_bad(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat.path.write_bytes(b"")
    assert chat.write(chat.user("Hello.")).events() == []
    assert "session" in chat.bad[0].reason


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"hook_event_name": "AfterAgent"},
        {"hook_event_name": 7, "session_id": None},
        {"hook_event_name": "Unheard", "session_id": "s1"},
        {"hook_event_name": "AfterTool", "session_id": "s1"},
        {"hook_event_name": "BeforeAgent", "session_id": "s1", "prompt": 7},
        {"hook_event_name": "BeforeAgent", "session_id": "s1", "prompt": "x", "cursor_version": "1"},
    ],
)
def test_what_cannot_be_read_is_unknown(value: dict[str, Any]) -> None:
    assert CLIENTS["gemini"].hook(value, 1).unknown


def test_only_chats_are_taken_from_the_clients_folder(chat: Chat, tmp_path: Path) -> None:
    (tmp_path / ".gemini" / "settings.json").write_text('{"hooks": {}}')
    (tmp_path / ".gemini" / "tmp" / "project" / "logs.json").write_text("[]")
    assert list(CLIENTS["gemini"].transcripts([tmp_path / ".gemini"])) == [chat.path]


@pytest.mark.skipif(not REPLAY.is_dir(), reason="the recorded hook payloads are not at hand")
def test_every_recorded_payload_is_known() -> None:
    telling = ("SessionStart", "SessionEnd", "BeforeAgent", "AfterAgent", "AfterTool")
    for path in sorted(REPLAY.glob("*.json")):
        hooked = CLIENTS["gemini"].hook(json.loads(path.read_text("utf-8")), 1)
        assert not hooked.unknown, path.name
        own = path.name.startswith("AfterTool-mcp_memory")
        assert bool(hooked.events) == (path.name.startswith(telling) and not own), path.name
        told = " ".join(event.text for event in (*hooked.events, *hooked.fallback))
        assert "INJECTED" not in told, path.name
        assert "untrusted_context" not in told, path.name


def test_a_call_that_the_user_did_not_allow_is_refused(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    error = "[Operation Cancelled] Reason: User did not allow tool call"
    refused = called("run_shell_command", {"command": "rm -r farm"}, error=error, status="cancelled")
    stopped = called("read_file", {}, error="[Operation Cancelled] Reason: x", call_id="c2", status="cancelled")
    first, second = chat.write(chat.reply("", refused, stopped)).events()
    assert first.text == "run_shell_command: rm -r farm\nRefused by the user."
    assert first.metadata["refused"]
    assert first.metadata["failed"]
    assert "is_interrupt" not in first.metadata
    assert second.metadata["is_interrupt"]
    assert "refused" not in second.metadata


def test_things_to_do_are_told_with_how_far_they_are(chat: Chat) -> None:
    states = ("completed", "in_progress", "pending", "cancelled")
    todos = [{"description": f"Gate {index}", "status": state} for index, state in enumerate(states)]
    call = called("write_todos", {"todos": todos}, "Successfully updated the todo list. The current list is now:\n1. x")
    (event,) = chat.write(chat.reply("", call)).events()
    assert event.text == "write_todos\n[x] Gate 0\n[~] Gate 1\n[ ] Gate 2\n[-] Gate 3"
