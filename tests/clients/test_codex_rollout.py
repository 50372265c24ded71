"""Rollouts of Codex: which lines are events, and what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.domain.events import EventType
from tests.clients.conftest import Transcript

CWD = "/home/dev/project"
OWN = "11111111-aaaa-bbbb-cccc-000000000001"
CHILD = "22222222-aaaa-bbbb-cccc-000000000002"
WRAPPED = "Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 0\nOriginal token count: 2\nOutput:\nhello\n"


class Rollout(Transcript):
    """A rollout in the making. Every line is a second later than the one before."""

    def __init__(self, folder: Path, session: str = OWN, **meta: Any) -> None:
        super().__init__(folder / f"rollout-2026-03-01T10-00-00-{meta.get('id', session)}.jsonl", "codex")
        self._second = 0
        self.turn = "t1"
        self.write(self.line("session_meta", {"session_id": session, "id": session, "cwd": CWD, **meta}))
        self.write(self.line("turn_context", {"turn_id": self.turn, "cwd": CWD, "model": "gpt-x"}))

    def line(self, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        self._second += 1
        stamp = f"2026-03-01T10:{self._second // 60:02d}:{self._second % 60:02d}.250Z"
        return {"timestamp": stamp, "type": kind, "payload": payload}

    def item(self, kind: str, **fields: Any) -> dict[str, Any]:
        passed = {"internal_chat_message_metadata_passthrough": {"turn_id": self.turn}}
        return self.line("response_item", {"type": kind, **passed, **fields})

    def done(self, kind: str, **fields: Any) -> dict[str, Any]:
        item = {"type": kind, **fields}
        return self.line("event_msg", {"type": "item_completed", "turn_id": self.turn, "item": item})

    def event(self, kind: str, **fields: Any) -> dict[str, Any]:
        return self.line("event_msg", {"type": kind, "turn_id": self.turn, **fields})

    def user(self, text: str, **fields: Any) -> dict[str, Any]:
        return self.item("message", role="user", content=[{"type": "input_text", "text": text}], **fields)

    def reply(self, text: str, name: str = "m1", twin: bool = True, **fields: Any) -> list[dict[str, Any]]:
        content = [{"type": "output_text", "text": text}]
        twins = [self.done("AgentMessage", id=name)] if twin else []
        return [*twins, self.item("message", id=name, role="assistant", content=content, **fields)]

    def call(self, command: str, call_id: str = "c1", **given: Any) -> dict[str, Any]:
        arguments = json.dumps({"cmd": command, **given})
        return self.item("function_call", name="exec_command", call_id=call_id, arguments=arguments)

    def output(self, output: object, call_id: str = "c1") -> dict[str, Any]:
        return self.item("function_call_output", call_id=call_id, output=output)

    def ran(self, printed: str, code: int = 0, call_id: str = "c1") -> dict[str, Any]:
        return self.done("CommandExecution", id=call_id, aggregated_output=printed, exit_code=code)


@pytest.fixture
def rollout(tmp_path: Path) -> Rollout:
    return Rollout(tmp_path)


def told(rollout: Transcript) -> list[tuple[str, str]]:
    return [(event.event_type.value, event.text) for event in rollout.events()]


def test_a_turn_gives_the_prompt_each_reply_and_each_tool_result(rollout: Rollout) -> None:
    rollout.write(rollout.user("Greet them."), *rollout.reply("First a look."))
    rollout.write(rollout.call("greet"), rollout.ran("hello\n"), rollout.output(WRAPPED))
    rollout.write(*rollout.reply("Done.", "m2"), rollout.event("task_complete", last_agent_message="Done."))
    events = rollout.events()
    assert [(event.event_type.value, event.text) for event in events] == [
        ("user_message", "Greet them."),
        ("assistant_message", "First a look."),
        ("tool_result", "Bash: greet\nhello"),
        ("assistant_message", "Done."),
    ]
    assert {event.session_id for event in events} == {OWN}
    assert events[2].metadata == {
        "via": "transcript",
        "cwd": CWD,
        "turn_id": "t1",
        "model": "gpt-x",
        "tool": "Bash",
    }
    assert len({event.source_key for event in events}) == 4
    assert rollout.events() == []


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n<cwd>/x</cwd>\n</environment_context>",
        "<user_instructions>\nBe brief.\n</user_instructions>",
        "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>Be brief.</INSTRUCTIONS>",
        '<subagent_notification>{"status":"done"}</subagent_notification>',
        "<turn_aborted>\nStopped.\n</turn_aborted>",
    ],
)
def test_what_the_client_says_in_the_users_name_is_no_prompt(rollout: Rollout, text: str) -> None:
    assert rollout.write(rollout.user(text)).events() == []


def test_a_kind_that_is_not_the_users_is_no_prompt_whatever_its_words(rollout: Rollout) -> None:
    passed = {"turn_id": "t1", "content_item_kinds": ["environments.something_new"]}
    line = rollout.user("Mind the sandbox.", internal_chat_message_metadata_passthrough=passed)
    assert rollout.write(line).events() == []


def test_developer_messages_and_reasoning_are_no_events(rollout: Rollout) -> None:
    injected = rollout.item("message", role="developer", content=[{"type": "input_text", "text": "Remember: 31."}])
    assert rollout.write(injected, rollout.item("reasoning", summary=[])).events() == []


def test_the_request_is_taken_out_of_what_the_editor_adds(rollout: Rollout) -> None:
    text = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nMend the fence.\n"
    assert told(rollout.write(rollout.user(text))) == [("user_message", "Mend the fence.")]


def test_the_summary_of_a_compaction_is_kept_and_is_no_reply(rollout: Rollout) -> None:
    rollout.write(*rollout.reply("All is well."))
    rollout.write(*rollout.reply("<summary>The fence is mended.</summary>", "m2", twin=False))
    rollout.write(rollout.event("token_count"))
    message = (
        "Another language model started to solve this problem and left a summary for your own analysis:\n"
        "<analysis>hm</analysis>\n<summary>The fence is mended.</summary>"
    )
    rollout.write(rollout.line("compacted", {"message": message}), rollout.done("ContextCompaction", id="x"))
    assert told(rollout) == [("assistant_message", "All is well."), ("compaction", "The fence is mended.")]


def test_how_full_the_window_was_is_told_with_the_next_reply(rollout: Rollout) -> None:
    usage = {"last_token_usage": {"total_tokens": 5_000}, "model_context_window": 272_000}
    rollout.write(
        *rollout.reply("One."), rollout.event("token_count", info=usage), rollout.event("token_count", info=None)
    )
    events = rollout.write(*rollout.reply("Two.", "m2")).events()
    assert [event.metadata.get("usage") for event in events] == [None, 5_000]


def test_a_summary_waits_for_the_line_that_marks_it_across_two_reads(rollout: Rollout) -> None:
    rollout.write(*rollout.reply("All is well."), *rollout.reply("The fence is mended.", "m2", twin=False))
    assert told(rollout) == [("assistant_message", "All is well.")]
    rollout.write(rollout.line("compacted", {"message": "The fence is mended."}))
    assert told(rollout) == [("compaction", "The fence is mended.")]


def test_a_version_that_reports_no_items_tells_its_replies_all_the_same(rollout: Rollout) -> None:
    rollout.write(rollout.user("Hello."), *rollout.reply("One.", "", twin=False))
    rollout.write(rollout.event("agent_message", message="One."), *rollout.reply("Two.", "", twin=False))
    assert told(rollout) == [
        ("user_message", "Hello."),
        ("assistant_message", "One."),
        ("assistant_message", "Two."),
    ]


@pytest.mark.parametrize(
    ("output", "text", "failed"),
    [
        (WRAPPED, "Bash: greet\nhello", None),
        (WRAPPED.replace("code 0", "code 3"), "Bash: greet\nExit code 3\nhello", True),
        (json.dumps({"output": "hello\n", "metadata": {"exit_code": 0}}), "Bash: greet\nhello", None),
        (json.dumps({"output": "oops", "metadata": {"exit_code": 2}}), "Bash: greet\nExit code 2\noops", True),
        ('{"found": 31}', 'Bash: greet\n{"found": 31}', None),
        ("", "Bash: greet", None),
    ],
)
def test_a_result_without_the_clients_own_record(rollout: Rollout, output: str, text: str, failed: bool | None) -> None:
    (event,) = rollout.write(rollout.call("greet"), rollout.output(output)).events()
    assert (event.text, event.metadata.get("failed")) == (text, failed)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("shell", {"command": ["bash", "-lc", "greet all"]}),
        ("shell_command", {"command": "greet all"}),
        ("exec_command", {"cmd": "greet all"}),
        ("shell", {"command": ["greet", "all"]}),
    ],
)
def test_every_shell_is_the_same_tool(rollout: Rollout, name: str, given: dict[str, Any]) -> None:
    call = rollout.item("function_call", name=name, call_id="c1", arguments=json.dumps(given))
    assert told(rollout.write(call, rollout.output("hello"))) == [("tool_result", "Bash: greet all\nhello")]


def test_a_long_command_is_told_once_with_all_that_it_printed(rollout: Rollout) -> None:
    running = "Wall time: 1 seconds\nProcess running with session ID 7\nOutput:\nearly\n"
    poll = rollout.item("function_call", name="write_stdin", call_id="c2", arguments='{"session_id": 7, "chars": ""}')
    rollout.write(rollout.call("build"), rollout.output(running))
    assert rollout.events() == []
    rollout.write(poll, rollout.ran("early\nlate\n", 2), rollout.output("Output:\nlate\n", "c2"))
    (event,) = rollout.events()
    assert (event.source_key, event.text) == ("tool:c1", "Bash: build\nExit code 2\nearly\nlate")


def test_a_command_that_outlives_its_turn_is_told_at_the_turns_end(rollout: Rollout) -> None:
    running = "Wall time: 1 seconds\nProcess running with session ID 7\nOutput:\nlistening\n"
    rollout.write(rollout.call("serve"), rollout.output(running), rollout.event("task_complete"))
    assert told(rollout) == [("tool_result", "Bash: serve\nlistening")]


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n x = 1\n-y = 2\n+y = 3\n*** Add File: b.py\n+z\n*** End Patch"


@pytest.mark.parametrize(
    ("output", "text", "failed"),
    [
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated.\n", "- y = 2\n+ y = 3\n+ z", None),
        ("apply_patch verification failed: no such line", "apply_patch verification failed: no such line", True),
    ],
)
def test_a_patch_tells_what_it_changed_or_why_not(
    rollout: Rollout, output: str, text: str, failed: bool | None
) -> None:
    call = rollout.item("custom_tool_call", name="apply_patch", call_id="c1", input=PATCH)
    answer = rollout.item("custom_tool_call_output", call_id="c1", output=output)
    (event,) = rollout.write(call, answer).events()
    assert event.text == f"apply_patch: a.py, b.py\n{text}"
    assert (event.metadata["files"], event.metadata.get("failed")) == (["a.py", "b.py"], failed)


def test_a_tool_of_another_server_is_told_and_our_own_is_not(rollout: Rollout) -> None:
    for server, call_id in (("farm", "c1"), ("memory", "c2")):
        fields = {"namespace": f"mcp__{server}", "name": "count", "call_id": call_id}
        result = {"content": [{"type": "text", "text": "31"}], "structuredContent": {"result": "31"}}
        rollout.write(rollout.item("function_call", arguments='{"what": "crates"}', **fields))
        rollout.write(rollout.done("McpToolCall", id=call_id, server=server, tool="count", result=result))
        rollout.write(rollout.output("Wall time: 0.1 seconds\nOutput:\n31", call_id))
    resource = json.dumps({"server": "memory", "uri": "memory://toc"})
    rollout.write(rollout.item("function_call", name="read_mcp_resource", call_id="c3", arguments=resource))
    rollout.write(rollout.output("toc:day:2026-03-01", "c3"), rollout.call("mcp-memory search fence", "c4"))
    rollout.write(rollout.output("a hit", "c4"))
    assert told(rollout) == [("tool_result", 'farm.count: {"what":"crates"}\n31')]


def test_a_failed_tool_of_a_server_is_marked(rollout: Rollout) -> None:
    rollout.write(rollout.item("function_call", namespace="mcp__farm", name="boom", call_id="c1", arguments="{}"))
    result = {"content": [{"type": "text", "text": "It broke"}], "isError": True}
    rollout.write(rollout.done("McpToolCall", id="c1", server="farm", tool="boom", result=result))
    (event,) = rollout.events()
    assert (event.text, event.metadata["failed"]) == ("farm.boom\nIt broke", True)


def test_a_reply_tells_whether_it_is_commentary_across_two_reads(rollout: Rollout) -> None:
    rollout.write(rollout.user("Greet them."), *rollout.reply("First a look.", twin=False, phase="commentary"))
    events = rollout.events()
    rollout.write(*rollout.reply("Done.", "m2", phase="final_answer"), *rollout.reply("Bye.", "m3"))
    replies = [event for event in (*events, *rollout.events()) if event.event_type is EventType.ASSISTANT_MESSAGE]
    assert {event.text: event.metadata.get("phase") for event in replies} == {
        "First a look.": "commentary",
        "Done.": "final_answer",
        "Bye.": None,
    }


@pytest.mark.parametrize(
    ("url", "remote"),
    [
        ("git@github.com:Acme/shop.git", "github.com/acme/shop"),
        ("https://dev:secret@git.example.com/acme/shop", "git.example.com/acme/shop"),
        ("/srv/git/shop.git", ""),
        (7, ""),
    ],
)
def test_the_repository_of_a_rollout_is_its_remote_without_credentials(
    tmp_path: Path, url: object, remote: str
) -> None:
    rollout = Rollout(tmp_path, git={"repository_url": url, "branch": "main"})
    rollout.write(rollout.user("Greet them."))
    assert [event.remote for event in rollout.events()] == [remote]


def test_a_subagent_belongs_to_its_parents_session(tmp_path: Path) -> None:
    child = Rollout(tmp_path, OWN, id=CHILD, parent_thread_id=OWN, source={"subagent": {"thread_spawn": {}}})
    child.write(child.user("Count the crates."), child.call("count"), child.ran("31\n"), child.output("31"))
    child.write(*child.reply("There are 31."), child.event("task_complete", last_agent_message="There are 31."))
    start, tool, stop = child.events()
    assert {start.session_id, tool.session_id, stop.session_id} == {OWN}
    assert [event.event_type for event in (start, tool, stop)] == [
        EventType.SUBAGENT_START,
        EventType.TOOL_RESULT,
        EventType.SUBAGENT_STOP,
    ]
    assert (start.text, stop.text) == ("Count the crates.", "There are 31.")
    assert {event.metadata["agent_id"] for event in (start, tool, stop)} == {CHILD}


def test_calls_that_only_run_subagents_are_no_events(rollout: Rollout) -> None:
    for name in ("spawn_agent", "wait_agent"):
        rollout.write(
            rollout.item("function_call", namespace="multi_agent_v1", name=name, call_id=name, arguments="{}")
        )
        rollout.write(rollout.output('{"agent_id": "x"}', name))
    assert rollout.events() == []


def test_a_thread_that_the_client_runs_for_itself_is_not_told(tmp_path: Path) -> None:
    inner = Rollout(tmp_path, CHILD, source={"subagent": "compact"})
    assert inner.write(inner.user("Summarize."), *inner.reply("Summary.")).events() == []


def test_a_fork_tells_only_what_is_its_own(tmp_path: Path) -> None:
    fork = Rollout(tmp_path, CHILD, forked_from_id=OWN)
    copied = [fork.line("session_meta", {"id": OWN}), fork.user("Old.", id="u0"), *fork.reply("Old reply.")]
    for line in copied:
        line["timestamp"] = copied[0]["timestamp"]
    fork.write(*copied, fork.user("New."))
    (event,) = fork.events()
    assert (event.session_id, event.text, event.metadata["forked_from"]) == (CHILD, "New.", OWN)


@pytest.mark.parametrize(
    ("kind", "fields", "text", "mark"),
    [
        ("turn_aborted", {"reason": "interrupted"}, "Interrupted by the user", "is_interrupt"),
        ("task_complete", {"error": {"message": "no quota"}}, "API error: no quota", "failed"),
        ("task_complete", {"error": {"message": '{"error":{"message":"no quota"}}'}}, "API error: no quota", "failed"),
    ],
)
def test_a_turn_that_ended_badly(rollout: Rollout, kind: str, fields: dict[str, Any], text: str, mark: str) -> None:
    (event,) = rollout.write(rollout.event(kind, **fields)).events()
    assert (event.event_type, event.text, event.metadata[mark]) == (EventType.ASSISTANT_STOP, text, True)


def test_bad_lines_are_told_and_the_good_ones_kept(rollout: Rollout) -> None:
    rollout.write('{"timestamp": broken', rollout.user("Still here."), "[1]", {"type": 7, "payload": {}})
    rollout.write(rollout.item("function_call_output", output="x"))
    assert told(rollout) == [("user_message", "Still here.")]
    assert [(bad.line, bad.reason.split(":")[0]) for bad in rollout.bad] == [
        (3, "not JSON"),
        (5, "not a JSON object"),
        (6, "neither a type nor a payload"),
        (7, "call_id is missing"),
    ]


def test_a_rollout_without_its_first_line_takes_the_session_from_its_name(tmp_path: Path) -> None:
    rollout = Rollout(tmp_path)
    lines = rollout.path.read_bytes().splitlines(keepends=True)
    rollout.path.write_bytes(lines[1])
    (event,) = rollout.write(rollout.user("Hello.")).events()
    assert event.session_id == OWN


def test_a_file_of_no_session_is_told_line_by_line(tmp_path: Path) -> None:
    other = Transcript(tmp_path / "copy.jsonl", "codex")
    line = {
        "timestamp": "2026-03-01T10:00:00Z",
        "type": "response_item",
        "payload": {"type": "message", "role": "user"},
    }
    assert other.write(line).events() == []
    assert "session_meta" in other.bad[0].reason


def test_the_form_of_the_first_versions_is_read(tmp_path: Path) -> None:
    old = Transcript(tmp_path / f"rollout-2025-06-01T10-00-00-{OWN}.jsonl", "codex")
    old.write({"id": OWN, "timestamp": "2025-06-01T10:00:00.000Z", "instructions": None})
    old.write({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]})
    old.write({"record_type": "state"}, {"type": "message", "role": "assistant", "content": [{"text": "Hi."}]})
    assert told(old) == [("user_message", "Hello."), ("assistant_message", "Hi.")]


def test_files_are_named_from_the_working_directory_on_windows_too(tmp_path: Path) -> None:
    rollout = Rollout(tmp_path)
    rollout.write(rollout.line("turn_context", {"cwd": "C:\\dev\\project"}))
    patch = "*** Begin Patch\n*** Delete File: C:\\dev\\project\\src\\a.py\n*** End Patch"
    rollout.write(rollout.item("custom_tool_call", name="apply_patch", call_id="c1", input=patch))
    rollout.write(rollout.item("custom_tool_call_output", call_id="c1", output="Success. Updated."))
    (event,) = rollout.events()
    assert (event.text, event.metadata["files"]) == ("apply_patch: src\\a.py", ["src\\a.py"])


@pytest.mark.parametrize("recorded", [True, False])
def test_a_call_that_the_user_declined_is_refused(rollout: Rollout, recorded: bool) -> None:
    declined = "exec command rejected by user"
    ended = rollout.ran(declined, -1) if recorded else rollout.output(declined)
    (event,) = rollout.write(rollout.call("rm -r farm"), ended).events()
    assert event.text == "Bash: rm -r farm\nRefused by the user."
    assert (event.metadata["refused"], event.metadata["failed"]) == (True, True)


def test_a_declined_patch_is_refused(rollout: Rollout) -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n-x\n+y\n*** End Patch"
    call = rollout.item("custom_tool_call", name="apply_patch", call_id="c1", input=patch)
    output = rollout.item("custom_tool_call_output", call_id="c1", output="patch rejected by user")
    (event,) = rollout.write(call, output).events()
    assert (event.text, event.metadata["refused"]) == ("apply_patch: a.py\nRefused by the user.", True)


def test_a_commit_has_its_message(rollout: Rollout) -> None:
    (event,) = rollout.write(rollout.call("git commit -m Mend"), rollout.output(WRAPPED)).events()
    assert event.text == "Bash: git commit -m Mend\nCommit message: Mend\n\nhello"


def test_what_a_hook_sends_the_agent_back_with_is_nobodys_prompt(rollout: Rollout) -> None:
    asked = '<hook_prompt hook_run_id="stop:0:/home/dev/.codex/hooks.json">Run the tests.</hook_prompt>'
    rollout.write(rollout.user(asked), rollout.done("HookPrompt", text="Run the tests."))
    retained = {"user_messages": [asked]}
    rollout.write(rollout.line("compacted", {"message": "The fence is mended.", "retained_context": retained}))
    assert told(rollout) == [("compaction", "The fence is mended.")]
