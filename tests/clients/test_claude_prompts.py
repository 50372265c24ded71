"""Who speaks in a user message of Claude Code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.clients import CLIENTS
from mcp_memory.clients.claude_prompts import Letter, Report, SplitMessage, is_task_record, message_of
from mcp_memory.domain.events import Captured, EventType, Role

if TYPE_CHECKING:
    from tests.clients.conftest import Transcript

REPORT = (
    "<task-notification>\n<task-id>a1b2c3</task-id>\n<tool-use-id>t1</tool-use-id>\n"
    "<output-file>/tmp/tasks/a1b2c3.output</output-file>\n<status>completed</status>\n"
    '<summary>Agent "Audit" finished</summary>\n<result>Two leaks in `cart.py`:\n1. &lt;Cart&gt;\n2. total</result>\n'
    "</task-notification>"
)
FOUND = "Two leaks in `cart.py`:\n1. <Cart>\n2. total"
DONE = (
    "<task-notification>\n<task-id>b7</task-id>\n<status>completed</status>\n"
    '<summary>Background command "make 2&gt;&amp;1" completed (exit code 0)</summary>\n</task-notification>'
)
RECORD = json.dumps({"task_id": "b7", "description": "make", "task_type": "local_bash"})


@pytest.mark.parametrize(
    ("text", "origin", "expected"),
    [
        ("Mend the fence.", "", SplitMessage("Mend the fence.")),
        (REPORT, "", SplitMessage(reports=(Report("a1b2c3", 'Agent "Audit" finished', FOUND),))),
        (DONE, "", SplitMessage(reports=(Report("b7", 'Background command "make 2>&1" completed (exit code 0)', ""),))),
        (
            f"{DONE}\nRead the output file to retrieve the result: /tmp/b7.output",
            "",
            SplitMessage(reports=(Report("b7", 'Background command "make 2>&1" completed (exit code 0)', ""),)),
        ),
        (
            f"{REPORT}\nFull transcript available at: /tmp/a1b2c3.output\nNow paint it.",
            "",
            SplitMessage("Now paint it.", reports=(Report("a1b2c3", 'Agent "Audit" finished', FOUND),)),
        ),
        (f"{DONE}\n{DONE}", "", SplitMessage(reports=(message_of(DONE).reports * 2))),
        ("<ci-monitor-event>The check failed.</ci-monitor-event>", "", SplitMessage(notices=("The check failed.",))),
        ("<some-event kind='x'>It rains.</some-event>", "", SplitMessage(notices=("It rains.",))),
        ("<x-gate>What is this?</x-gate>", "human", SplitMessage("<x-gate>What is this?</x-gate>")),
        ("<x-gate>open</x-gate> fails, why?", "", SplitMessage("<x-gate>open</x-gate> fails, why?")),
        ("<x-gate> is never closed by </x-gate>", "", SplitMessage("<x-gate> is never closed by </x-gate>")),
        ("<bug-report>\nIt falls.\n</bug-report>", "", SplitMessage("<bug-report>\nIt falls.\n</bug-report>")),
        (
            "<x-event>a</x-event> or <x-event>b</x-event>",
            "",
            SplitMessage("<x-event>a</x-event> or <x-event>b</x-event>"),
        ),
        ("<b>Mend</b>", "", SplitMessage("<b>Mend</b>")),
        ("<user_task>Mend it.</user_task>", "", SplitMessage("<user_task>Mend it.</user_task>")),
        ("<task-notification>never closed", "", SplitMessage("<task-notification>never closed")),
        ("<system-reminder>Be brief.</system-reminder>\nMend it.", "human", SplitMessage("Mend it.")),
        ("<bash-input>git status</bash-input>", "", SplitMessage(command="git status")),
        ("<bash-stdout>clean</bash-stdout><bash-stderr></bash-stderr>", "", SplitMessage()),
        ("<local-command-stdout>Bye!</local-command-stdout>", "", SplitMessage()),
        ("Stop hook feedback:\nRun the tests.", "", SplitMessage()),
        (
            "[SYSTEM NOTIFICATION - NOT USER INPUT]\nIt rains.",
            "",
            SplitMessage(notices=("[SYSTEM NOTIFICATION - NOT USER INPUT]\nIt rains.",)),
        ),
        ("It rains.", "task-notification", SplitMessage(notices=("It rains.",))),
        (RECORD, "", SplitMessage(notices=(RECORD,))),
        (
            '<teammate-message teammate_id="team-lead" summary="Fence">\nMend the fence.\n</teammate-message>',
            "",
            SplitMessage(letters=(Letter("team-lead", "Mend the fence."),)),
        ),
        (
            '<teammate-message teammate_id="team-lead">\n{"type":"task_assignment","subject":"Mend","description":"All '
            'gates"}\n</teammate-message>',
            "",
            SplitMessage(letters=(Letter("team-lead", "Mend\nAll gates"),)),
        ),
        ('<teammate-message teammate_id="b">{"type":"idle_notification"}</teammate-message>', "", SplitMessage()),
        (
            '<scheduled-task name="daily">Water it.</scheduled-task>',
            "",
            SplitMessage(letters=(Letter("daily", "Water it."),)),
        ),
    ],
)
def test_a_user_message_is_split_by_who_speaks_in_it(text: str, origin: str, expected: SplitMessage) -> None:
    assert message_of(text, origin) == expected


def test_only_json_that_names_a_task_and_its_kind_is_a_record_of_one() -> None:
    assert is_task_record(RECORD)
    assert not any(map(is_task_record, ('{"task_id": "7"}', '{"task_type": "x"}', '["task_id"]', "{broken", "task_id")))


def test_very_many_elements_are_split_in_little_time() -> None:
    assert message_of("<system-reminder>x</system-reminder>\n" * 50_000 + "Mend it.").words == "Mend it."


def test_very_many_unclosed_fields_of_a_notification_are_read_in_little_time() -> None:
    fields = "<task-id>b7</task-id>\n" + "<result>\n<a>\n" * 100_000 + "<summary>Done.</summary>"
    assert message_of(f"<task-notification>\n{fields}\n</task-notification>") == SplitMessage(
        reports=(Report("b7", "Done.", ""),)
    )


def said(events: list[Captured]) -> list[tuple[str, str, str]]:
    return [(event.event_type.value, event.role.value, event.text) for event in events]


def queue(operation: str, at: str, content: str = "") -> dict[str, Any]:
    told = {"content": content} if content else {}
    return {"type": "queue-operation", "operation": operation, "sessionId": "s1", "timestamp": at, **told}


def attached(transcript: Transcript, prompt: object, mode: str = "prompt", **fields: object) -> dict[str, Any]:
    line = transcript.say(
        "attachment", "", attachment={"type": "queued_command", "prompt": prompt, "commandMode": mode}
    )
    del line["message"]
    line["attachment"].update(fields)
    return line


def test_a_report_is_kept_once_whichever_lines_hold_it(transcript: Transcript) -> None:
    transcript.write(queue("enqueue", "2026-03-01T10:00:00Z", REPORT), queue("dequeue", "2026-03-01T10:00:01Z"))
    transcript.write(transcript.say("user", REPORT, origin={"kind": "task-notification"}))
    transcript.write(attached(transcript, REPORT, "task-notification"))
    transcript.write(queue("remove", "2026-03-01T10:00:09Z", REPORT))
    found = transcript.events()
    assert set(said(found)) == {("subagent_stop", "system", FOUND)}
    assert {event.source_key for event in found} == {"agent-stop:a1b2c3"}
    assert {event.metadata["agent_id"] for event in found} == {"a1b2c3"}


def test_a_report_has_the_key_of_the_answer_in_the_subagents_own_file(
    transcript: Transcript, agent_transcript: Transcript
) -> None:
    report = REPORT.replace("a1b2c3", "a7")
    (notified,) = transcript.write(transcript.say("user", report)).events()
    text = [{"type": "text", "text": FOUND}]
    own = agent_transcript.say("assistant", text, isSidechain=True, agentId="a7")
    (told,) = agent_transcript.write(own).events()
    hooked = CLIENTS["claude-code"].hook(
        {"hook_event_name": "SubagentStop", "session_id": "s1", "agent_id": "a7", "agent_type": "x"}, 1
    )
    assert notified.source_key == told.source_key == hooked.events[0].source_key
    assert notified.text == told.text


def test_an_agent_that_goes_on_reports_again(transcript: Transcript) -> None:
    transcript.write(transcript.say("user", REPORT), transcript.say("user", REPORT))
    transcript.write(transcript.say("user", REPORT.replace("Two leaks", "Three leaks")))
    first, again, other = transcript.events()
    assert first.source_key == again.source_key == "agent-stop:a1b2c3"
    assert other.source_key.startswith("agent-stop:a1b2c3:")
    assert other.text.startswith("Three leaks")


def test_a_notification_that_comes_as_a_prompt_of_the_hook_is_no_prompt() -> None:
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt_id": "p1", "prompt": REPORT}
    reading = CLIENTS["claude-code"].hook(payload, 1)
    assert (reading.events, said(list(reading.fallback))) == ((), [("subagent_stop", "system", FOUND)])


def test_what_the_client_says_is_an_event_of_the_system(transcript: Transcript) -> None:
    transcript.write(transcript.say("user", "<ci-monitor-event>The check failed.</ci-monitor-event>"))
    transcript.write(transcript.say("user", DONE))
    assert said(transcript.events()) == [
        ("tool_result", "system", "The check failed."),
        ("tool_result", "system", 'Background command "make 2>&1" completed (exit code 0)'),
    ]


def test_a_record_of_a_background_task_in_the_queue_is_nobodys_words(transcript: Transcript) -> None:
    transcript.write(queue("enqueue", "2026-03-01T10:00:00Z", RECORD), queue("remove", "2026-03-01T10:00:01Z"))
    assert transcript.events() == []


def test_what_was_typed_leaves_the_queue_though_the_clients_stands_before_it(transcript: Transcript) -> None:
    transcript.write(queue("enqueue", "2026-03-01T10:00:00Z", RECORD), queue("enqueue", "2026-03-01T10:00:01Z", DONE))
    transcript.write(queue("enqueue", "2026-03-01T10:00:02Z", "Paint it too."), queue("remove", "2026-03-01T10:00:03Z"))
    assert [text for kind, _, text in said(transcript.events()) if kind == "user_message"] == ["Paint it too."]


def test_a_prompt_that_began_a_turn_does_not_wait_in_the_queue_any_longer(transcript: Transcript) -> None:
    transcript.write(queue("enqueue", "2026-03-01T09:00:00Z", "One."), transcript.say("user", "One.", promptId="p1"))
    transcript.write(queue("enqueue", "2026-03-01T10:00:03Z", "Two."), queue("remove", "2026-03-01T10:00:04Z"))
    assert [event.text for event in transcript.events()] == ["One.", "Two."]


def test_a_queue_line_that_names_its_prompt_takes_that_one(transcript: Transcript) -> None:
    transcript.write(queue("enqueue", "2026-03-01T10:00:00Z", "One."), queue("enqueue", "2026-03-01T10:00:01Z", "Two."))
    transcript.write(queue("remove", "2026-03-01T10:00:02Z", "Two."), queue("remove", "2026-03-01T10:00:03Z"))
    assert [event.text for event in transcript.events()] == ["Two.", "One."]


@pytest.mark.parametrize("first", ["removed", "attached"])
def test_a_prompt_from_the_queue_is_one_event_whichever_line_comes_first(transcript: Transcript, first: str) -> None:
    transcript.write(transcript.say("user", "Mend it."), queue("enqueue", "2026-03-01T10:00:02Z", "Paint it."))
    lines = [queue("remove", "2026-03-01T10:00:20Z", "Paint it."), attached(transcript, "Paint it.", source_uuid="q1")]
    transcript.write(*(lines if first == "removed" else reversed(lines)))
    transcript.write(transcript.say("user", "Paint it.", promptId="p2"))
    assert said(transcript.events())[1:] == [("user_message", "user", "Paint it.")]


def test_a_prompt_that_only_an_attachment_holds_is_the_users(transcript: Transcript) -> None:
    blocks = [{"type": "text", "text": "And the gate."}, {"type": "image", "source": {"data": "AAAA"}}]
    transcript.write(attached(transcript, "Paint it.", origin={"kind": "human"}), attached(transcript, blocks))
    found = transcript.events()
    assert [event.text for event in found] == ["Paint it.", "And the gate.\n[image]"]
    assert {event.event_type for event in found} == {EventType.USER_MESSAGE}


def test_the_same_prompt_queued_twice_is_said_twice(transcript: Transcript) -> None:
    for second in (0, 10):
        transcript.write(queue("enqueue", f"2026-03-01T10:00:{second:02}Z", "Go on."))
        transcript.write(queue("remove", f"2026-03-01T10:00:{second + 1:02}Z"))
    assert [event.text for event in transcript.events()] == ["Go on.", "Go on."]


def test_a_command_that_the_user_ran_is_a_call_and_no_request(transcript: Transcript) -> None:
    transcript.write(transcript.say("user", "<bash-input>git status</bash-input>"))
    transcript.write(transcript.say("user", "<bash-stdout>clean</bash-stdout><bash-stderr></bash-stderr>"))
    (ran,) = transcript.events()
    assert (ran.event_type, ran.role, ran.text) == (EventType.TOOL_RESULT, Role.TOOL, "Bash: git status")
    assert (ran.source_key, ran.metadata["by_user"]) == ("line:u1", True)


def letter(sender: str, text: str) -> str:
    return f'<teammate-message teammate_id="{sender}" summary="x">\n{text}\n</teammate-message>'


def test_the_task_that_a_leader_gives_is_the_request_of_a_mates_session(transcript: Transcript) -> None:
    transcript.write(transcript.say("user", letter("team-lead", "Mend the fence."), teamName="t", agentName="b"))
    transcript.write(transcript.say("user", letter("c", "The gate is mine."), teamName="t", agentName="b"))
    transcript.write(transcript.say("user", letter("team-lead", "Now paint it."), teamName="t", agentName="b"))
    assert said(transcript.events()) == [
        ("user_message", "user", "Mend the fence."),
        ("tool_result", "system", "c: The gate is mine."),
        ("user_message", "user", "Now paint it."),
    ]


def test_several_messages_of_a_leader_in_one_line_are_one_request(transcript: Transcript) -> None:
    both = letter("team-lead", "Mend the fence.") + "\n\n" + letter("team-lead", "Then paint it.")
    (asked,) = transcript.write(transcript.say("user", both)).events()
    assert (asked.text, asked.metadata["sender"]) == ("Mend the fence.\n\nThen paint it.", "team-lead")


def test_what_mates_report_is_no_request_of_the_leaders_session(transcript: Transcript) -> None:
    transcript.write(transcript.say("user", "Mend the fence with a team."))
    assert len(transcript.events()) == 1
    transcript.write(transcript.say("user", letter("b", "It is mended.")))
    assert said(transcript.events()) == [("tool_result", "system", "b: It is mended.")]


def test_the_task_of_a_mate_that_runs_as_a_subagent_is_its_start(agent_transcript: Transcript) -> None:
    line = agent_transcript.say("user", letter("team-lead", "Mend it."), isSidechain=True, agentId="a7")
    assert said(agent_transcript.write(line).events()) == [("subagent_start", "system", "Mend it.")]


def call(transcript: Transcript, name: str, given: dict[str, Any], response: object, **fields: object) -> None:
    """A call with its result."""
    number = f"t{len(transcript.path.read_bytes()) if transcript.path.exists() else 0}"
    transcript.write(transcript.say("assistant", [{"type": "tool_use", "id": number, "name": name, "input": given}]))
    result = [{"type": "tool_result", "tool_use_id": number, "content": response if isinstance(response, str) else ""}]
    transcript.write(transcript.say("user", result, toolUseResult=response, **fields))


TEAM = {"teamName": "t", "agentName": "b"}
LISTED = {
    "tasks": [{"id": "1", "subject": "Dig", "status": "pending"}, {"id": "2", "subject": "Oil", "status": "pending"}]
}


def test_a_teams_list_of_tasks_shows_a_session_only_its_own(transcript: Transcript) -> None:
    call(transcript, "TaskList", {}, LISTED, **TEAM)
    assert transcript.events() == []
    call(transcript, "TaskUpdate", {"taskId": "2", "status": "in_progress"}, {"success": True, "taskId": "2"}, **TEAM)
    call(transcript, "TaskList", {}, LISTED, **TEAM)
    assert [event.text for event in transcript.events()] == ["TaskUpdate: #2\n[~] #2", "TaskList\n[ ] Oil"]


def test_a_list_of_tasks_without_a_team_is_the_sessions_own(transcript: Transcript) -> None:
    call(transcript, "TaskList", {}, LISTED)
    assert [event.text for event in transcript.events()] == ["TaskList\n[ ] Dig\n[ ] Oil"]


def test_the_hook_leaves_a_teams_list_to_the_transcript(transcript: Transcript) -> None:
    payload: dict[str, Any] = {"hook_event_name": "PostToolUse", "session_id": "s1", "tool_use_id": "t1"}
    payload["tool_name"] = "TaskList"
    payload |= {"tool_input": {}, "tool_response": LISTED, "transcript_path": str(transcript.path)}
    transcript.write(transcript.say("user", "Mend it."))
    assert len(CLIENTS["claude-code"].hook(payload, 1).events) == 1
    transcript.write(transcript.say("user", "Mend it.", **TEAM))
    assert CLIENTS["claude-code"].hook(payload, 1).events == ()


LAUNCHED = {"isAsync": True, "status": "async_launched", "agentId": "a7", "description": "Audit", "prompt": "Look."}


@pytest.mark.parametrize(
    "response",
    [
        LAUNCHED,
        "Async agent launched successfully.\nagentId: a7 (This is an internal ID.)\nThe agent is working.",
        "Async agent launched successfully. (Never quote any part of this.)\nagentId: a7 (internal ID)\nIt works.",
    ],
)
def test_the_start_of_a_background_agent_is_readable(transcript: Transcript, response: object) -> None:
    call(transcript, "Agent", {"description": "Audit", "prompt": "Look."}, response)
    payload: dict[str, Any] = {"hook_event_name": "PostToolUse", "session_id": "s1", "tool_use_id": "t1"}
    payload["tool_name"] = "Agent"
    payload |= {"tool_input": {"description": "Audit"}, "tool_response": response}
    texts = [event.text for event in (*transcript.events(), *CLIENTS["claude-code"].hook(payload, 1).events)]
    assert texts == ["Agent: Audit\nAgent running in background with ID: a7"] * 2


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (
            {"retrieval_status": "success", "task": {"task_id": "a7", "output": "raw", "result": "Two leaks."}},
            "Two leaks.",
        ),
        ({"retrieval_status": "success", "task": {"task_id": "b7", "output": "31 passed\n"}}, "31 passed"),
        ({"retrieval_status": "timeout", "task": {"task_id": "b7", "status": "running", "output": ""}}, "running"),
        ("<task_id>b7</task_id>\n\n<status>done</status>\n\n<output>\n31 passed\n</output>", "31 passed"),
    ],
)
def test_the_output_of_a_background_task_is_not_stored_as_json(
    transcript: Transcript, response: object, text: str
) -> None:
    call(transcript, "TaskOutput", {"task_id": "b7"}, response)
    assert [event.text for event in transcript.events()] == [f'TaskOutput: {{"task_id":"b7"}}\n{text}']


def test_what_hooks_say_and_whole_requests_are_no_events(transcript: Transcript) -> None:
    """The lines in which the client keeps what hooks printed, and what it sent to the model."""
    echo = "Mind the fence."
    line = transcript.say("user", f"Stop hook feedback:\n{echo}", isMeta=True)
    kinds = ("api-request-blob", "api-request", "api-request-shape")
    blobs = [{**line, "type": kind, "isMeta": False, "message": {"role": "user", "content": echo}} for kind in kinds]
    names = ("hook_additional_context", "hook_success", "hook_blocking_error", "hook_system_message")
    notes = [{**line, "type": "attachment", "attachment": {"type": name, "content": [echo]}} for name in names]
    system = [
        {**line, "type": "system", "subtype": name, "content": echo} for name in ("local_command", "informational")
    ]
    printed = transcript.say("user", f"<local-command-stdout>PreCompact: {echo}</local-command-stdout>")
    side = {**line, "isSidechain": True, "agentId": "a7"}
    unmarked = transcript.say("user", f"Stop hook feedback:\n{echo}")
    transcript.write(line, side, *blobs, *notes, *system, printed, unmarked)
    assert (transcript.events(), transcript.bad) == ([], [])
