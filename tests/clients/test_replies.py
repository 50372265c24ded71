"""What users reply to a call: that they refuse it, or what they choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.clients.claude_tools import result_text
from mcp_memory.clients.replies import questions_text, refusal
from mcp_memory.domain.events import EventType, Role

if TYPE_CHECKING:
    from tests.clients.conftest import Transcript

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected "
    "(eg. if it was a file edit, the new_string was NOT written to the file)."
)
STOP = f"{REJECTED} STOP what you are doing and wait for the user to tell you how to proceed."
SAID = f"{REJECTED} To tell you how to proceed, the user said:\n"
NOTE = "\n\nNote: The user's next message may contain a correction or preference. Pay close attention."
OPTIONS = [{"label": "Oak", "description": "Lasts\nlong."}, {"label": "Pine", "description": ""}, {"label": "Oak, old"}]
WOOD = {"question": "Which wood?", "header": "Wood", "options": OPTIONS, "multiSelect": False}
GATES = {"question": "Which gates?", "header": "Gates", "options": OPTIONS, "multiSelect": True}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (STOP, ""),
        (STOP + NOTE, ""),
        ("The user doesn't want to take this action right now. STOP what you are doing and wait.", ""),
        (f"{SAID}Use the east gate.\n\nNot the west.", "Use the east gate.\n\nNot the west."),
        (f"{SAID}Use the east gate.{NOTE}", "Use the east gate."),
        (f"Error: <tool_use_error>{SAID}No.</tool_use_error>", "No."),
        (f"{REJECTED} The user provided the following reason for the rejection:  Too risky.", "Too risky."),
        ("Permission for this tool use was denied. The tool use was rejected (eg. x). The user said:\nNo.", "No."),
        ("Permission for this tool use was denied. The tool use was rejected (eg. x). Try another way.", ""),
        ("The agent proposed a plan that was rejected by the user. It stays.\n\nRejected plan:\nThe user said: x", ""),
        ("User rejected tool use", ""),
        ("Exit code 1\nThe user doesn't want to proceed with this tool use.", None),
        ("Permission to use Bash has been denied.", None),
        ("", None),
    ],
)
def test_a_refusal_is_known_with_the_users_words_alone(text: str, words: str | None) -> None:
    assert refusal(text) == words


def test_a_refused_call_says_so_and_the_users_words_are_a_message_of_their_own(transcript: Transcript) -> None:
    given = {"file_path": "/home/dev/project/a.py", "old_string": "x", "new_string": "y"}
    refused = transcript.result(f"{SAID}Leave it.", f"Error: {SAID}Leave it.", failed=True)
    call, words = transcript.write(transcript.use("Edit", given), refused).events()
    assert (call.source_key, call.text) == ("tool:t1", "Edit: a.py\nRefused by the user.")
    assert (call.metadata["refused"], call.metadata["failed"]) == (True, True)
    assert (words.source_key, words.text, words.role) == ("refusal:t1", "Leave it.", Role.USER)
    assert words.event_type is EventType.USER_MESSAGE
    assert words.metadata["refuses"] == "Edit"
    assert words.timestamp_ms == call.timestamp_ms


def test_a_refusal_without_a_word_is_the_call_alone(transcript: Transcript) -> None:
    script = transcript.write(transcript.use("Bash", {"command": "rm -r farm"}))
    (call,) = script.write(script.result(STOP, "User rejected tool use", failed=True)).events()
    assert (call.text, call.metadata["refused"]) == ("Bash: rm -r farm\nRefused by the user.", True)


def test_what_a_tool_prints_about_refusals_is_no_refusal(transcript: Transcript) -> None:
    script = transcript.write(transcript.use("Bash", {"command": "cat log"}))
    (call,) = script.write(script.result(f"{SAID}No.", {"stdout": f"{SAID}No.", "stderr": ""})).events()
    assert call.text.endswith("the user said:\nNo.")
    assert "refused" not in call.metadata


def test_a_question_that_the_user_would_rather_talk_about_keeps_what_was_answered(transcript: Transcript) -> None:
    told = (
        f"{SAID}The user wants to clarify these questions.\n    This means they may have more to say.\n\n"
        '    Questions asked:\n- "Which wood?"\n  Answer: Oak\n- "Which gates?"\n  Answer: The east one\n'
        f"  User notes: It squeaks.{NOTE}"
    )
    script = transcript.write(transcript.use("AskUserQuestion", {"questions": [WOOD, GATES]}))
    call, words = script.write(script.result(told, f"Error: {told}", failed=True)).events()
    assert call.text == (
        "AskUserQuestion: Which wood?\nQuestion: Which wood?\nChosen: Oak — Lasts long.\nNot chosen: Pine; Oak, old\n"
        "Question: Which gates?\nChosen: The east one\nNot chosen: Oak; Pine; Oak, old\nNote: It squeaks.\n"
        "Refused by the user."
    )
    assert words.text == "The east one\nIt squeaks."


def test_a_question_that_nobody_answered_has_its_options(transcript: Transcript) -> None:
    script = transcript.write(transcript.use("AskUserQuestion", {"questions": [WOOD]}))
    (call,) = script.write(script.result(STOP, failed=True)).events()
    assert call.text.endswith("Question: Which wood?\nOptions: Oak; Pine; Oak, old\nRefused by the user.")


@pytest.mark.parametrize(
    ("question", "answer", "lines"),
    [
        (WOOD, "Oak", "Chosen: Oak — Lasts long.\nNot chosen: Pine; Oak, old"),
        (WOOD, "Oak, but only the posts", "Chosen: Oak, but only the posts\nNot chosen: Oak; Pine; Oak, old"),
        (GATES, "Pine, Oak", "Chosen: Pine; Oak — Lasts long.\nNot chosen: Oak, old"),
        (GATES, "Oak, old, Pine", "Chosen: Oak, old; Pine\nNot chosen: Oak"),
        (GATES, "Pine, and\nbirch", "Chosen: Pine; and birch\nNot chosen: Oak; Oak, old"),
        (GATES, ["Pine", "Oak", 7], "Chosen: Pine; Oak — Lasts long.\nNot chosen: Oak, old"),
        (WOOD, None, "Options: Oak; Pine; Oak, old"),
        ({"question": "Why?"}, "It fell.", "Chosen: It fell."),
    ],
)
def test_what_was_chosen_is_told_with_the_options_own_words(
    question: dict[str, Any], answer: object, lines: str
) -> None:
    asked = question["question"]
    assert questions_text([question], {asked: answer}, {}) == f"Question: {asked}\n{lines}"


@pytest.mark.parametrize(
    "view",
    [
        'User has answered your questions: "Which wood?"="Oak", "Which gates?"="Pine" user notes: Oil them. '
        "You can now continue with the user's answers in mind.",
        'The user answered: "Which wood?"="Oak", "Which gates?"="Pine" notes: Oil them. Read the answers carefully.',
    ],
)
def test_answers_read_alike_from_the_tools_object_and_from_what_the_model_saw(view: str) -> None:
    given = {"questions": [WOOD, GATES]}
    answers = {"Which wood?": "Oak", "Which gates?": "Pine"}
    told = {"questions": [WOOD, GATES], "answers": answers, "annotations": {"Which gates?": {"notes": "Oil them"}}}
    by_object = result_text("AskUserQuestion", given, told)
    assert by_object.endswith("Chosen: Pine\nNot chosen: Oak; Oak, old\nNote: Oil them")
    assert result_text("AskUserQuestion", given, view) == by_object


def test_a_note_without_an_option_is_the_answer() -> None:
    view = 'The user answered: "Which wood?"=(no option selected) notes: Any that lasts. Read the answers carefully.'
    told = result_text("AskUserQuestion", {"questions": [WOOD]}, view)
    assert told == "Question: Which wood?\nOptions: Oak; Pine; Oak, old\nNote: Any that lasts"


@pytest.mark.parametrize("questions", ['[{"question": "Which wood?"}]', {"question": "Which wood?"}])
def test_questions_in_another_form_are_understood(questions: object) -> None:
    told = result_text("AskUserQuestion", {"questions": questions}, {"answers": {"Which wood?": "Oak"}})
    assert told == "Question: Which wood?\nChosen: Oak"


@pytest.mark.parametrize("questions", ["no JSON", 7, [], [7], [{"question": 7}], None])
def test_questions_in_no_known_form_leave_the_answers(questions: object) -> None:
    assert result_text("AskUserQuestion", {"questions": questions}, {"answers": {"So?": "Yes"}}) == (
        "Question: So?\nChosen: Yes"
    )
