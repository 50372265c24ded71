"""Transcripts of Claude Code, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_memory.clients import CLIENTS
from mcp_memory.clients.port import BadLine, Folders, TranscriptState
from mcp_memory.domain.events import Captured, EventType, Role

if TYPE_CHECKING:
    from tests.clients.conftest import Transcript


def only(events: list[Captured]) -> Captured:
    (event,) = events
    return event


def test_a_prompt_is_told_with_where_it_was_said(transcript: Transcript) -> None:
    (told,) = transcript.write(transcript.say("user", "Mend the fence.", promptId="p1")).events()
    event = told
    assert (told.cwd, told.project) == ("/home/dev/project", "")
    assert (event.client, event.session_id, event.source_ids) == ("claude-code", "s1", ("u1",))
    assert (event.event_type, event.role, event.text) == (EventType.USER_MESSAGE, Role.USER, "Mend the fence.")
    assert event.timestamp_ms == 1772359201250
    assert dict(event.metadata) == {
        "via": "transcript",
        "prompt_id": "p1",
        "cwd": "/home/dev/project",
        "branch": "main",
    }


def test_a_prompt_of_an_early_version_is_keyed_by_its_line(transcript: Transcript) -> None:
    assert only(transcript.write(transcript.say("user", "Mend it.")).events()).source_key == "line:u1"


def test_text_blocks_of_a_prompt_are_one_event(transcript: Transcript) -> None:
    blocks = [
        {"type": "text", "text": "<ide_selection>x</ide_selection>"},
        {"type": "text", "text": "Like this [Image #1]"},
        {"type": "image", "source": {"data": "AAAA"}},
        {"type": "text", "text": "and that."},
    ]
    assert only(transcript.write(transcript.say("user", blocks)).events()).text == "Like this [Image #1]\n\nand that."


def test_an_image_alone_is_told_as_such(transcript: Transcript) -> None:
    line = transcript.say("user", [{"type": "image", "source": {"data": "AAAA"}}])
    assert only(transcript.write(line).events()).text == "[image]"


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 200,
                "cache_read_input_tokens": 3_000,
                "output_tokens": 5,
                "cache_creation": {"ephemeral_5m_input_tokens": 200},
            },
            3_215,
        ),
        ({"input_tokens": "many", "output_tokens": None}, None),
        ({}, None),
        ("unknown", None),
        (None, None),
    ],
)
def test_what_the_model_held_after_an_answer_is_told(
    transcript: Transcript, usage: object, expected: int | None
) -> None:
    line = transcript.say("assistant", [{"type": "text", "text": "Done."}])
    line["message"]["usage"] = usage
    assert only(transcript.write(line).events()).metadata.get("usage") == expected


def test_each_text_of_the_model_is_an_event_and_its_thinking_is_not(transcript: Transcript) -> None:
    one = transcript.say("assistant", [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "First.\n"}])
    two = transcript.say("assistant", [{"type": "text", "text": "Second."}, {"type": "text", "text": "Third."}])
    events = transcript.write(one, two).events()
    assert [(event.source_key, event.text) for event in events] == [
        ("line:u1", "First."),
        ("line:u2:0", "Second."),
        ("line:u2:1", "Third."),
    ]
    assert {(event.event_type, event.role) for event in events} == {(EventType.ASSISTANT_MESSAGE, Role.ASSISTANT)}
    assert events[0].metadata["model"] == "claude-x"


def test_a_tool_result_names_both_of_its_lines(transcript: Transcript) -> None:
    given = {"command": "ls"}
    event = only(
        transcript.write(transcript.use("Bash", given), transcript.result("a.py", {"stdout": "a.py"})).events()
    )
    assert (event.event_type, event.role, event.text) == (EventType.TOOL_RESULT, Role.TOOL, "Bash: ls\na.py")
    assert (event.source_key, event.source_ids) == ("tool:t1", ("u2", "u1"))
    assert event.metadata["tool"] == "Bash"


def test_a_tool_call_is_remembered_between_two_reads_and_then_forgotten(transcript: Transcript) -> None:
    assert transcript.write(transcript.use("Bash", {"command": "ls"})).events() == []
    assert "t1" in transcript.state.memory["tools"]
    assert only(transcript.write(transcript.result("a.py")).events()).text == "Bash: ls\na.py"
    assert transcript.state.memory["tools"] == {}


def test_what_is_remembered_is_bounded(transcript: Transcript) -> None:
    for number in range(200):
        transcript.write(transcript.use("Write", {"content": "x" * 50_000}, f"t{number}"))
    transcript.events()
    assert len(json.dumps(transcript.state.memory)) < 64 * 30
    told = only(transcript.write(transcript.result("done", tool_id="t150")).events())
    assert told.text.startswith("Write")
    assert told.text.endswith("x" * 50_000)


def test_a_line_that_is_read_again_reads_the_same(transcript: Transcript) -> None:
    transcript.write(
        transcript.use("Bash", {"command": "ls"}), transcript.result("a.py"), transcript.say("user", "Go.")
    )
    items = CLIENTS["claude-code"].read(transcript.path, transcript.state)
    first = next(items)
    saved = TranscriptState(transcript.state.offset, transcript.state.line, dict(transcript.state.memory))
    assert next(CLIENTS["claude-code"].read(transcript.path, saved)) == first


def test_results_of_parallel_calls_in_one_line_do_not_share_an_object(transcript: Transcript) -> None:
    blocks = [{"type": "tool_result", "tool_use_id": tool, "content": f"out {tool}"} for tool in ("t1", "t2")]
    transcript.write(transcript.use("Bash", {"command": "a"}), transcript.use("Bash", {"command": "b"}, "t2"))
    transcript.write(transcript.say("user", blocks, toolUseResult={"stdout": "which?"}))
    assert [event.text for event in transcript.events()] == ["Bash: a\nout t1", "Bash: b\nout t2"]


def test_a_result_whose_call_was_never_seen_is_kept(transcript: Transcript) -> None:
    event = only(transcript.write(transcript.result("a.py", sourceToolAssistantUUID="u0")).events())
    assert (event.text, event.source_ids) == ("a.py", ("u1", "u0"))


def test_our_own_output_is_not_remembered(transcript: Transcript) -> None:
    transcript.write(transcript.use("mcp__memory__toc_root", {}), transcript.result("toc:year:2026"))
    assert transcript.events() == []
    assert transcript.state.memory["tools"] == {}


@pytest.mark.parametrize(
    "line",
    [
        {"type": "summary", "summary": "A fence", "leafUuid": "u1"},
        {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
        {"type": "progress", "data": {"message": {"type": "user", "message": {"content": "no"}}}, "sessionId": "s1"},
        {"type": "attachment", "attachment": {"content": "injected"}, "sessionId": "s1"},
        {"type": "system", "subtype": "turn_duration", "sessionId": "s1"},
        {"type": "pr-link", "prUrl": "u", "sessionId": "s1"},
        {"type": "of-a-later-version", "sessionId": "s1"},
    ],
)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_bookkeeping_lines_tell_nothing(
    transcript: Transcript, line: dict[str, Any], separators: tuple[str, str]
) -> None:
    assert transcript.write(json.dumps(line, separators=separators)).events() == []
    assert transcript.bad == []


@pytest.mark.parametrize(
    ("kind", "content", "fields"),
    [
        ("user", "Base directory for this skill: /x", {"isMeta": True}),
        ("user", "<local-command-stdout>Bye!</local-command-stdout>", {}),
        ("user", "<command-name>/exit</command-name><command-args></command-args>", {}),
        ("user", "<system-reminder>x</system-reminder>", {}),
        ("assistant", [{"type": "text", "text": "API Error: 400"}], {"isApiErrorMessage": True}),
        ("assistant", [{"type": "text", "text": "(no content)"}], {}),
    ],
)
def test_what_nobody_said_is_no_message(
    transcript: Transcript, kind: str, content: object, fields: dict[str, Any]
) -> None:
    assert transcript.write(transcript.say(kind, content, **fields)).events() == []
    assert transcript.bad == []


def test_a_dull_line_glued_to_a_telling_one_hides_nothing(transcript: Transcript) -> None:
    dull = json.dumps({"type": "progress", "data": {}}, separators=(",", ":"))
    said = json.dumps(transcript.say("user", "Mend it."), separators=(",", ":"))
    assert only(transcript.write(dull + said).events()).text == "Mend it."


def test_a_synthetic_answer_is_no_message(transcript: Transcript) -> None:
    line = transcript.say("assistant", [{"type": "text", "text": "Anything."}])
    line["message"]["model"] = "<synthetic>"
    assert transcript.write(line).events() == []


def test_an_interruption_ends_the_turn(transcript: Transcript) -> None:
    line = transcript.say("user", [{"type": "text", "text": "[Request interrupted by user]"}])
    event = only(transcript.write(line).events())
    assert (event.event_type, event.role) == (EventType.ASSISTANT_STOP, Role.SYSTEM)
    assert (event.text, event.source_key) == ("Interrupted by the user", "line:u1")


def test_a_compaction_is_no_message_and_knows_why(transcript: Transcript) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto", "preTokens": 9}}
    told = "This session is being continued from a previous conversation.\nSummary:\nThe fence is mended."
    transcript.write(boundary, transcript.say("user", told, isCompactSummary=True))
    event = only(transcript.events())
    assert (event.event_type, event.role, event.text) == (EventType.COMPACTION, Role.SYSTEM, "The fence is mended.")
    assert (event.metadata["trigger"], event.metadata["pre_tokens"]) == ("auto", 9)


def queue(operation: str, at: str, content: str = "") -> dict[str, Any]:
    told = {"content": content} if content else {}
    return {"type": "queue-operation", "operation": operation, "sessionId": "s1", "timestamp": at, **told}


def test_a_prompt_that_went_into_the_running_turn_is_told_by_the_queue(transcript: Transcript) -> None:
    transcript.write(transcript.say("user", "Mend it."))
    transcript.write(queue("enqueue", "2026-03-01T10:01:00Z", "And paint it."))
    assert [event.text for event in transcript.events()] == ["Mend it."]
    (told,) = transcript.write(queue("remove", "2026-03-01T10:01:05Z")).events()
    assert (told.event_type, told.role, told.text) == ("user_message", "user", "And paint it.")
    assert (told.cwd, told.timestamp_ms) == ("/home/dev/project", 1772359265000)


def test_a_prompt_from_the_queue_that_is_told_by_its_own_line_is_told_once(transcript: Transcript) -> None:
    transcript.write(queue("enqueue", "2026-03-01T10:00:00Z", "One."), queue("dequeue", "2026-03-01T10:00:00Z"))
    transcript.write(transcript.say("user", "One.", promptId="p1"))
    transcript.write(queue("enqueue", "2026-03-01T10:00:02Z", "Two."), queue("remove", "2026-03-01T10:00:02Z"))
    transcript.write(transcript.say("user", "Two.", promptId="p2"))
    transcript.write(queue("enqueue", "2026-03-01T10:00:03Z", "Taken back."), queue("popAll", "2026-03-01T10:00:03Z"))
    transcript.write(queue("remove", "2026-03-01T10:00:04Z"))
    assert [event.text for event in transcript.events()] == ["One.", "Two."]


def test_the_same_words_said_later_are_said_again(transcript: Transcript) -> None:
    transcript.write(queue("enqueue", "2026-03-01T09:00:00Z", "Go on."), queue("remove", "2026-03-01T09:00:00Z"))
    transcript.write(transcript.say("user", "Go on.", promptId="p1"))
    assert [event.text for event in transcript.events()] == ["Go on.", "Go on."]


def side(transcript: Transcript, kind: str, content: object, **fields: object) -> dict[str, Any]:
    return transcript.say(kind, content, **{"isSidechain": True, "agentId": "a7", **fields})


def test_a_subagent_is_its_task_its_tools_and_its_answer(agent_transcript: Transcript) -> None:
    script = agent_transcript
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls barn"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "31"}
    script.write(side(script, "user", "Count the crates.", parentUuid=None))
    script.write(side(script, "assistant", [{"type": "text", "text": "Let me look."}]))
    script.write(side(script, "assistant", [use]), side(script, "user", [result]))
    script.write(side(script, "assistant", [{"type": "text", "text": "There are 31."}]))
    events = script.events()
    assert [(event.event_type, event.role, event.source_key, event.text) for event in events] == [
        ("subagent_start", "system", "agent-start:a7", "Count the crates."),
        ("tool_result", "tool", "tool:t1", "Bash: ls barn\n31"),
        ("subagent_stop", "system", "agent-stop:a7", "There are 31."),
    ]
    assert {event.session_id for event in events} == {"s1"}
    assert {(event.metadata["agent_id"], event.metadata["sidechain"]) for event in events} == {("a7", True)}
    assert script.events() == []


def test_a_subagent_at_work_has_no_answer_yet(agent_transcript: Transcript) -> None:
    script = agent_transcript
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls barn"}}
    script.write(
        side(script, "assistant", [{"type": "text", "text": "Let me look."}]), side(script, "assistant", [use])
    )
    assert script.events() == []


def test_a_subagent_without_an_id_is_named_by_its_file(agent_transcript: Transcript) -> None:
    line = side(agent_transcript, "user", "Count the crates.", agentId=None)
    assert only(agent_transcript.write(line).events()).source_key == "agent-start:a7"


def test_a_subagent_in_the_sessions_own_file_is_named_by_its_first_line(transcript: Transcript) -> None:
    task = side(transcript, "user", "Count the crates.", agentId=None, parentUuid=None)
    answer = side(transcript, "assistant", [{"type": "text", "text": "31."}], agentId=None)
    events = transcript.write(task, answer).events()
    assert [(event.source_key, event.text) for event in events] == [
        ("agent-start:u1", "Count the crates."),
        ("agent-stop:u1", "31."),
    ]


def test_what_a_fork_copied_belongs_to_where_it_was_said(transcript: Transcript) -> None:
    line = transcript.say("user", "Mend it.", forkedFrom={"sessionId": "s0", "messageUuid": "u0"})
    event = only(transcript.write(line).events())
    assert (event.session_id, event.source_key, event.source_ids) == ("s0", "line:u0", ("u0",))
    own = only(transcript.write(transcript.say("user", "Go on.")).events())
    assert ("forked_from" in event.metadata, own.session_id, own.metadata["forked_from"]) == (False, "s1", "s0")


def test_a_line_without_a_time_has_the_time_of_the_one_before(transcript: Transcript) -> None:
    transcript.write(transcript.say("user", "One."), transcript.say("user", "Two.", timestamp="soon"))
    one, two = transcript.events()
    assert one.timestamp_ms == two.timestamp_ms == 1772359201250


def test_a_first_line_without_a_time_has_the_time_of_the_file(transcript: Transcript) -> None:
    event = only(transcript.write(transcript.say("user", "One.", timestamp=None)).events())
    assert event.timestamp_ms == int(transcript.path.stat().st_mtime * 1000)


def test_bad_lines_are_reported_with_their_number_and_the_rest_is_read(transcript: Transcript) -> None:
    no_session = transcript.say("user", "x", sessionId=None)
    no_id = transcript.say("user", [{"type": "tool_result", "content": "x"}])
    transcript.write("garbage", "[1]", {"no": "type"}, no_session, transcript.say("user", 7), no_id)
    transcript.write({**transcript.say("user", ""), "message": "x"}, b'{"cut": ', transcript.say("user", "Go on \xff."))
    assert only(transcript.events()).text == "Go on ÿ."
    assert [(bad.line, bad.reason) for bad in transcript.bad] == [
        (1, "not JSON: Expecting value at character 1"),
        (2, "not a JSON object"),
        (3, "type is missing"),
        (4, "sessionId is missing"),
        (5, "message.content is neither text nor a list of blocks"),
        (6, "tool_use_id is missing"),
        (7, "message is not an object"),
        (8, "not JSON: Expecting value at character 8"),
    ]
    assert {bad.path for bad in transcript.bad} == {str(transcript.path)}


def test_a_line_nested_too_deeply_is_bad_and_no_more(transcript: Transcript) -> None:
    deep = json.dumps(transcript.result("DEEP")).replace('"DEEP"', "[" * 5_000 + "]" * 5_000)
    assert only(transcript.write(deep, transcript.say("user", "Go on.")).events()).text == "Go on."
    assert [bad.line for bad in transcript.bad] == [1]


def test_reading_in_pieces_tells_what_reading_at_once_tells(transcript: Transcript) -> None:
    lines = [
        transcript.say("user", "Mend the fence.", promptId="p1"),
        transcript.use("Bash", {"command": "ls"}),
        transcript.result("é", {"stdout": "é"}),
        transcript.say("assistant", [{"type": "text", "text": "Done 🙂."}]),
    ]
    data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    pieces: list[Captured] = []
    for start in range(0, len(data), 97):
        transcript.write(data[start : start + 97], end=b"")
        pieces += transcript.events()
    assert transcript.state.offset == len(data)
    assert transcript.state.line == len(lines)
    transcript.state = TranscriptState()
    assert pieces == transcript.events()
    assert len(pieces) == 3


def test_sessions_come_before_their_subagents(tmp_path: Path) -> None:
    for name in ("p/s2.jsonl", "p/s1/subagents/agent-a7.jsonl", "p/s1.jsonl", "p/notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = CLIENTS["claude-code"].transcripts([tmp_path])
    assert [path.name for path in found] == ["s1.jsonl", "agent-a7.jsonl", "s2.jsonl"]
    assert CLIENTS["claude-code"].default_places(Folders(tmp_path)) == [tmp_path / ".claude" / "projects"]


KEYS = st.sampled_from("type text content message id name input tool_use_id model".split())
SOMETHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["user", "text", "tool_use", "tool_result", "s1", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=6,
)
ODD_LINES = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["user", "assistant", "system", "queue-operation", "summary", "ai-title"]),
        "sessionId": st.just("s1"),
    },
    optional=dict.fromkeys(
        (
            "message uuid timestamp cwd isSidechain agentId parentUuid toolUseResult promptId isCompactSummary subtype "
            "compactMetadata operation content forkedFrom gitBranch summary aiTitle leafUuid"
        ).split(),
        SOMETHING,
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(ODD_LINES | SOMETHING, max_size=4))
def test_no_line_raises_and_every_event_says_something(lines: list[object], tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    state = TranscriptState()
    for item in CLIENTS["claude-code"].read(path, state):
        assert item.reason if isinstance(item, BadLine) else item.text
    json.dumps(state.memory)
    assert (state.offset, state.line) == (path.stat().st_size, len(lines))
