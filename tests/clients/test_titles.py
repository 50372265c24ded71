"""The titles that clients give to their sessions, and plans that users turn down or carry out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.domain.events import MESSAGES, Captured, EventType, Role
from tests.clients.test_codex_rollout import Rollout
from tests.clients.test_gemini import Chat

if TYPE_CHECKING:
    from tests.clients.conftest import Transcript

STOP = "The user doesn't want to proceed with this tool use. STOP what you are doing and wait."
PLAN = {"plan": "# Mend the fence\n\nBoth gates."}


def titles(events: list[Captured]) -> list[tuple[str, str, int]]:
    found = [event for event in events if event.event_type is EventType.SESSION_TITLE]
    assert all(event.role is Role.SYSTEM and event.event_type not in MESSAGES for event in found)
    return [(event.text, event.metadata["source"], event.timestamp_ms % 60_000 // 1000) for event in found]


def summary(title: object, leaf: object) -> dict[str, Any]:
    return {"type": "summary", "summary": title, "leafUuid": leaf}


def test_a_title_before_its_session_has_the_time_of_the_line_it_names(transcript: Transcript) -> None:
    transcript.write(summary("Fences\nmended", "u2"), summary("Another session", "x9"))
    transcript.write(transcript.say("user", "Mend it."), transcript.say("assistant", "Done."))
    transcript.write(transcript.say("user", "Thanks."))
    events = transcript.events()
    assert titles(events) == [("Fences mended", "summary", 2)]
    assert [event.session_id for event in events] == ["s1"] * 4


def test_a_title_whose_line_comes_with_a_later_read_is_told_then(transcript: Transcript) -> None:
    transcript.write(summary("Fences mended", "u2"), transcript.say("user", "Mend it."))
    assert titles(transcript.events()) == []
    assert "mended" not in str(transcript.state.memory)
    transcript.write(transcript.say("assistant", "Done."))
    assert titles(transcript.events()) == [("Fences mended", "summary", 2)]
    transcript.write(transcript.say("user", "Thanks."))
    assert titles(transcript.events()) == []


def test_a_title_after_its_session_finds_the_line_it_names(transcript: Transcript) -> None:
    transcript.write(transcript.say("user", "Mend it."), transcript.say("assistant", "Done."))
    transcript.events()
    transcript.write(summary("Fences mended", "u1"), summary("A gate", "u2"), summary("Another session", "x9"))
    assert titles(transcript.events()) == [("Fences mended", "summary", 1), ("A gate", "summary", 2)]


def test_each_title_of_a_session_is_an_event_and_says_who_gave_it(transcript: Transcript) -> None:
    given = {"type": "ai-title", "aiTitle": "Mend a fence", "sessionId": "s1"}
    own = {"type": "custom-title", "customTitle": "The east gate", "sessionId": "s1"}
    transcript.write(transcript.say("user", "Mend it."), given, transcript.say("assistant", "Done."), own, given)
    events = transcript.events()
    assert titles(events) == [("Mend a fence", "ai-title", 1), ("The east gate", "custom-title", 2)] + [
        ("Mend a fence", "ai-title", 2)
    ]
    assert len({event.source_key for event in events if event.event_type is EventType.SESSION_TITLE}) == 2


def test_a_title_before_any_time_is_known_waits_for_one(transcript: Transcript) -> None:
    transcript.write({"type": "custom-title", "customTitle": "The east gate", "sessionId": "s1"})
    assert transcript.events() == []
    transcript.write(transcript.say("user", "Mend it."), transcript.say("assistant", "Done."))
    assert titles(transcript.events()) == [("The east gate", "custom-title", 1)]


@pytest.mark.parametrize(
    "line",
    [
        summary("", "u1"),
        summary(7, "u1"),
        summary("A title", 7),
        summary("A title", None),
        {"type": "summary"},
        {"type": "ai-title", "aiTitle": "A title"},
        {"type": "ai-title", "aiTitle": None, "sessionId": "s1"},
    ],
)
def test_what_is_no_title_of_a_session_is_passed_over(transcript: Transcript, line: dict[str, Any]) -> None:
    transcript.write(line, transcript.say("user", "Mend it."), line)
    assert [event.text for event in transcript.events()] == ["Mend it."]
    assert transcript.bad == []


def test_a_subagents_lines_give_no_title(agent_transcript: Transcript) -> None:
    script = agent_transcript.write(summary("Count crates", "u1"))
    script.write(script.say("user", "Count the crates.", isSidechain=True, agentId="a7"))
    assert titles(script.events()) == []


def test_a_thread_of_codex_has_its_name(tmp_path: Path) -> None:
    rollout = Rollout(tmp_path)
    rollout.write(rollout.user("Mend it."), rollout.event("thread_name_updated", thread_name="Mend a\nfence"))
    rollout.write(rollout.event("thread_name_updated", thread_name=None))
    assert titles(rollout.events()) == [("Mend a fence", "thread", 4)]


def test_a_chat_of_gemini_has_its_summary(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat.write(chat.user("Mend it."), {"$set": {"summary": "Mend a fence", "lastUpdated": "x"}}, {"$set": {"a": 1}})
    assert titles(chat.events()) == [("Mend a fence", "summary", 1)]


def test_a_plan_turned_down_without_a_word_is_refused(transcript: Transcript) -> None:
    transcript.write(
        transcript.use("ExitPlanMode", PLAN), transcript.result(STOP, "User rejected tool use", failed=True)
    )
    transcript.write(transcript.say("user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}]))
    transcript.write(transcript.say("user", "Only the east gate."))
    stop, plan, message = transcript.events()
    assert plan.text == "ExitPlanMode: Mend the fence\n# Mend the fence\n\nBoth gates.\nRefused by the user."
    assert (plan.metadata["refused"], plan.source_key) == (True, "tool:t1")
    assert stop.metadata["is_interrupt"]
    assert plan.timestamp_ms < stop.timestamp_ms < message.timestamp_ms


def test_a_plan_that_is_carried_out_in_a_fresh_context_was_accepted(transcript: Transcript) -> None:
    transcript.write(transcript.use("ExitPlanMode", PLAN), transcript.result(STOP, f"Error: {STOP}", failed=True))
    transcript.write(transcript.say("user", f"Implement the following plan:\n\n{PLAN['plan']}"))
    plan, message = transcript.events()
    assert plan.text == "ExitPlanMode: Mend the fence\n# Mend the fence\n\nBoth gates."
    assert not {"refused", "failed"} & plan.metadata.keys()
    assert message.event_type is EventType.USER_MESSAGE


def test_a_plan_turned_down_at_the_end_is_told_once_and_neither_refused_nor_accepted(transcript: Transcript) -> None:
    transcript.write(transcript.use("ExitPlanMode", PLAN), transcript.result(STOP, failed=True))
    (plan,) = transcript.events()
    assert plan.text == "ExitPlanMode: Mend the fence\n# Mend the fence\n\nBoth gates."
    assert (plan.metadata["failed"], "refused" in plan.metadata) == (True, False)
    transcript.write(transcript.say("assistant", "What else?"))
    assert [event.text for event in transcript.events()] == ["What else?"]


def test_a_plan_turned_down_with_a_word_is_refused_at_once(transcript: Transcript) -> None:
    said = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nOnly one."
    transcript.write(transcript.use("ExitPlanMode", PLAN), transcript.result(said, failed=True))
    plan, words = transcript.events()
    assert plan.text.endswith("Both gates.\nRefused by the user.")
    assert (words.text, words.metadata["refuses"]) == ("Only one.", "ExitPlanMode")
