"""One message, whichever way it is told: hook and transcript must give the same key and the same text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.clients import CLIENTS
from mcp_memory.domain.events import Captured

if TYPE_CHECKING:
    from tests.clients.conftest import Transcript

Payload = Callable[..., dict[str, Any]]


def same(hooked: Captured, told: Captured) -> bool:
    fields = ("client", "session_id", "source_key", "event_type", "role", "text")
    assert [getattr(hooked, field) for field in fields] == [getattr(told, field) for field in fields]
    assert (hooked.metadata["via"], told.metadata["via"]) == ("hook", "transcript")
    shared = ("prompt_id", "cwd", "tool", "files", "failed", "refused", "refuses", "task")
    assert [hooked.metadata.get(name) for name in shared] == [told.metadata.get(name) for name in shared]
    return True


@pytest.mark.parametrize(
    ("prompt", "content"),
    [
        ("Mend the fence.", "Mend the fence."),
        ("Mend the fence.\n", [{"type": "text", "text": "Mend the fence."}]),
        ("/go 1", "<command-message>a</command-message><command-name>/go</command-name><command-args>1</command-args>"),
        ("/review", "<command-message>review</command-message>\n<command-name>/review</command-name>"),
        ("Look [Image #1]", [{"type": "text", "text": "Look [Image #1]"}, {"type": "image", "source": {}}]),
    ],
)  # fmt: skip
def test_a_prompt(payload: Payload, transcript: Transcript, prompt: str, content: object) -> None:
    (hooked,) = CLIENTS["claude-code"].hook(payload("UserPromptSubmit", prompt=prompt), 1).events
    (told,) = transcript.write(transcript.say("user", content, promptId="p1")).events()
    assert same(hooked, told)


SHELL = {"stdout": "hello\n", "stderr": "careful\n", "interrupted": False, "isImage": False}
SILENT = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": True}
NOTE = "/home/dev/project/note.txt"
READ = {"type": "text", "file": {"filePath": NOTE, "content": "alpha\n  beta\n", "numLines": 3, "startLine": 1}}
SEEN = "     1→alpha\n     2→  beta\n     3→\n\n<system-reminder>\nMind malware.\n</system-reminder>\n"
EDIT = {"file_path": NOTE, "old_string": "alpha\nbeta", "new_string": "alpha\ngamma"}
PATCH = [{"oldStart": 1, "newStart": 1, "lines": [" alpha", "-beta", "+gamma"]}]
EDITED = {"filePath": NOTE, "oldString": "alpha\nbeta", "newString": "alpha\ngamma", "structuredPatch": PATCH}
WRITTEN: dict[str, Any] = {
    "type": "create",
    "filePath": NOTE,
    "content": "alpha\n",
    "structuredPatch": [],
    "originalFile": None,
}
AGENT = {"status": "completed", "agentId": "a7", "content": [{"type": "text", "text": "31 crates."}], "totalTokens": 9}
FOUND = {"mode": "files_with_matches", "filenames": ["a.py", "b.py"], "numFiles": 2}
TODOS = [{"content": "Mend", "status": "in_progress", "activeForm": "Mending"}]
QUESTION = {"question": "Which?", "options": [{"label": "A", "description": "The first."}, {"label": "B"}]}
ANSWERED = {"questions": [QUESTION], "answers": {"Which?": "A"}}
ASKED = 'User has answered your questions: "Which?"="A". You can now continue with the user\'s answers in mind.'
PLAN = "# Mend the fence\n\nBoth gates."
APPROVED = f"User has approved your plan. You can now start coding.\n\n## Approved Plan:\n{PLAN}"
TASK = {"subject": "Mend"}
TASK_MADE = "TaskCreate: Mend\n[ ] Mend"
UPDATED = {"success": True, "taskId": "3", "updatedFields": ["status"]}
LISTED = [{"id": "3", "subject": "Mend", "status": "completed"}, {"id": "4", "subject": "Oil", "status": "pending"}]
COMMIT = {"command": "git commit -m Mend -m Now"}
COMMITTED = "Bash: git commit -m Mend -m Now\nCommit message: Mend\nNow"
PLANNED = f"ExitPlanMode: Mend the fence\n{PLAN}"
DONE = "The file note.txt has been updated successfully."
TOOLS = [
    ("Bash", {"command": "greet"}, SHELL, "hello\ncareful", "Bash: greet\nhello\ncareful"),
    ("Bash", {"command": "true"}, SILENT, "(Bash completed with no output)", "Bash: true"),
    ("Read", {"file_path": NOTE}, READ, SEEN, "Read: note.txt\nalpha\n  beta"),
    ("Edit", EDIT, EDITED, DONE, "Edit: note.txt\n- beta\n+ gamma"),
    ("Write", {"file_path": NOTE, "content": "alpha\n"}, WRITTEN, DONE, "Write: note.txt\nalpha"),
    ("Grep", {"pattern": "x"}, FOUND, "Found 2 files\na.py\nb.py", "Grep: x\na.py\nb.py"),
    ("Glob", {"pattern": "*.c"}, {"filenames": [], "numFiles": 0}, "No files found", "Glob: *.c\nNo files found"),
    ("TodoWrite", {"todos": TODOS}, {"oldTodos": [], "newTodos": TODOS}, "Todos are modified", "TodoWrite\n[~] Mend"),
    (
        "Agent",
        {"description": "Count", "prompt": "Count the crates."},
        AGENT,
        [{"type": "text", "text": "31 crates."}, {"type": "text", "text": "agentId: a7 (to go on)\n<usage>9</usage>"}],
        "Agent: Count\n31 crates.",
    ),
    ("TaskCreate", TASK, {"task": {"id": "3", **TASK}}, "Task #3 created successfully: Mend", TASK_MADE),
    ("TaskUpdate", {"taskId": "3", "status": "completed"}, UPDATED, "Updated task #3 status", "TaskUpdate: #3\n[x] #3"),
    ("TaskUpdate", {"taskId": "3", "subject": "Oil"}, UPDATED, "Updated task #3 subject", "TaskUpdate: #3\n#3 Oil"),
    ("TaskList", {}, {"tasks": LISTED}, "#3 [completed] Mend\n#4 [pending] Oil", "TaskList\n[x] Mend\n[ ] Oil"),
    ("Bash", COMMIT, SHELL, "hello\ncareful", f"{COMMITTED}\n\nhello\ncareful"),
    ("Bash", COMMIT, SILENT, "", COMMITTED),
    (
        "AskUserQuestion",
        {"questions": [QUESTION]},
        ANSWERED,
        ASKED,
        "AskUserQuestion: Which?\nQuestion: Which?\nChosen: A — The first.\nNot chosen: B",
    ),
    ("ExitPlanMode", {"plan": PLAN}, {"plan": PLAN, "isAgent": False}, APPROVED, PLANNED),
    ("WebFetch", {"url": "http://a.org"}, {"result": "A page."}, "A page.", "WebFetch: http://a.org\nA page."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "response", "seen", "text"), TOOLS)
@pytest.mark.parametrize("has_object", [True, False])
def test_a_tool_call_with_and_without_the_tools_own_object(
    payload: Payload,
    transcript: Transcript,
    name: str,
    given: dict[str, Any],
    response: object,
    seen: object,
    text: str,
    has_object: bool,
) -> None:
    told = {"tool_name": name, "tool_input": given, "tool_use_id": "t1", "tool_response": response}
    (hooked,) = CLIENTS["claude-code"].hook(payload("PostToolUse", **told), 1).events
    result = transcript.result(seen, response if has_object else None, promptId="p1")
    (event,) = transcript.write(transcript.use(name, given), result).events()
    assert hooked.text == text
    assert same(hooked, event)
    assert hooked.metadata.get("task") == ("3" if name in ("TaskCreate", "TaskUpdate") else None)


@pytest.mark.parametrize(
    ("response", "content"),
    [
        ('{"result":"31"}', '{"result":"31"}'),
        ([{"type": "text", "text": "31"}, {"type": "text", "text": "32"}], [{"type": "text", "text": "31\n32"}]),
        ([{"type": "image", "data": "AAAA"}], [{"type": "image", "source": {"data": "AAAA"}}]),
    ],
)
def test_a_tool_of_another_server(payload: Payload, transcript: Transcript, response: object, content: object) -> None:
    name, given = "mcp__farm__count", {"what": "crates"}
    told = {"tool_name": name, "tool_input": given, "tool_use_id": "t1", "tool_response": response}
    (hooked,) = CLIENTS["claude-code"].hook(payload("PostToolUse", mcp_server={"name": "farm"}, **told), 1).events
    result = transcript.result(content, response, promptId="p1")
    (event,) = transcript.write(transcript.use(name, given), result).events()
    assert same(hooked, event)


@pytest.mark.parametrize(
    ("name", "error", "content", "response"),
    [
        ("Bash", "Exit code 3\noops", "Exit code 3\noops", "Error: Exit code 3\noops"),
        ("Read", "No such file.", "<tool_use_error>No such file.</tool_use_error>", "Error: No such file."),
        ("mcp__farm__boom", "It broke", [{"type": "text", "text": "It broke"}], "Error: It broke"),
    ],
)
def test_a_failure(
    payload: Payload, transcript: Transcript, name: str, error: str, content: object, response: str
) -> None:
    told = {"tool_name": name, "tool_input": {}, "tool_use_id": "t1", "error": error, "is_interrupt": False}
    (hooked,) = CLIENTS["claude-code"].hook(payload("PostToolUseFailure", **told), 1).events
    result = transcript.result(content, response, failed=True, promptId="p1")
    (event,) = transcript.write(transcript.use(name, {}), result).events()
    assert hooked.text.endswith(error)
    assert same(hooked, event)


def test_a_refusal(payload: Payload, transcript: Transcript) -> None:
    error = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nNo."
    told = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1", "error": error}
    hooked = CLIENTS["claude-code"].hook(payload("PostToolUseFailure", **told), 1).events
    result = transcript.result(error, f"Error: {error}", failed=True, promptId="p1")
    events = transcript.write(transcript.use("Bash", {"command": "ls"}), result).events()
    assert [event.text for event in hooked] == ["Bash: ls\nRefused by the user.", "No."]
    assert all(map(same, hooked, events))


def test_the_last_words_of_a_turn_have_the_transcripts_text(payload: Payload, transcript: Transcript) -> None:
    (hooked,) = CLIENTS["claude-code"].hook(payload("Stop", last_assistant_message="Done.\n"), 1).fallback
    (told,) = transcript.write(transcript.say("assistant", [{"type": "text", "text": "\nDone."}])).events()
    assert (hooked.event_type, hooked.role, hooked.text) == (told.event_type, told.role, told.text)


def test_a_subagents_start_and_end(payload: Payload, agent_transcript: Transcript) -> None:
    script = agent_transcript
    side = {"isSidechain": True, "agentId": "a7"}
    script.write(script.say("user", "Count the crates.", **side))
    script.write(script.say("assistant", [{"type": "text", "text": "There are 31."}], **side))
    start, stop = script.events()
    told = {"agent_id": "a7", "agent_type": "Explore"}
    (started,) = CLIENTS["claude-code"].hook(payload("SubagentStart", **told), 1).events
    (stopped,) = (
        CLIENTS["claude-code"].hook(payload("SubagentStop", last_assistant_message="There are 31.", **told), 1).events
    )
    assert started.source_key == start.source_key
    assert (stopped.source_key, stopped.text) == (stop.source_key, stop.text)
