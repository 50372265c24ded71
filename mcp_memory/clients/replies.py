"""What users reply to a tool call: that they refuse it, with their reasons, or which of its options they choose.

Clients tell both in what a call gives back, in words of their own around those of the user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_memory.clients.lines import Origin, json_of, objects_of, one_line, text_of
from mcp_memory.domain.events import Captured, EventType

#: The tool that puts a plan before the user.
PLAN = "ExitPlanMode"
#: How a plan is handed on that the user wants carried out with nothing else in the context.
CARRY_OUT = "Implement the following plan:"
ERROR_TAG = re.compile(r"</?(?:tool_use_error|error)>")
#: What comes back of a call that the user refused without a word, in the client's shortest form.
REJECTED = "User rejected tool use"
#: How the text of a call ends that the user refused.
REFUSED = "Refused by the user."
_REFUSAL = re.compile(
    r"(?:Error: )?(?:The user doesn't want to (?:proceed with this tool use|take this action right now)"
    r"|Permission for this tool use was denied\. The tool use was rejected"
    r"|The agent proposed a plan that was rejected by the user|User (?:rejected tool use|chose to stay in plan mode))"
)
_REFUSAL_WORDS = re.compile(
    r"[^\n]*?[Tt]he user (?:said|provided the following reason for the rejection):(.*)", re.DOTALL
)
_REFUSAL_NOTE = re.compile(r"\s*\n\nNote: The user's next message may contain a correction.*", re.DOTALL)
#: The client says these for the user who would rather talk about a question, with what was answered before.
_NOT_ANSWERED = ("The user wants to clarify these questions.", "The user has indicated they have provided enough")
_LONGEST = 20_000
_ANSWERED_BEFORE = re.compile(
    r'^- "(.*?)"\n +(?:Answer: (.*?)|\(No answer provided\))(?:\n +User notes: (.*?))?(?=\n- "|\Z)',
    re.DOTALL | re.MULTILINE,
)
_ANSWER_ENDS = r'"(?=, "|\. |\.?\Z| (?:selected preview|user notes|notes):)'
_VIEW_NOTES = re.compile(r'(?:[^"]*?)(?:user )?notes: (.*?)(?=, "|\. (?:You can now|Read the)|\Z)', re.DOTALL)


def refusing(origin: Origin, tool_id: str, name: str, words: str, source_ids: tuple[str, ...] = ()) -> list[Captured]:
    """What the user typed while refusing a call, if anything."""
    key = f"refusal:{tool_id}"
    return [origin.event(key, EventType.USER_MESSAGE, words, source_ids, refuses=name)] if words else []


def refusal(text: str) -> str | None:
    """What the user typed while refusing a call, by what came back instead of a result; None if it was not refused."""
    text = ERROR_TAG.sub("", text).strip()
    if not _REFUSAL.match(text):
        return None
    words = _REFUSAL_WORDS.match(text)
    return _REFUSAL_NOTE.sub("", words[1]).strip() if words else ""


def refused(name: str, given: Mapping[str, Any], words: str) -> tuple[str, str]:
    """What a refused call was about, where it was for the user to read; and the user's own words."""
    shown = text_of(given, "plan").strip() if name == PLAN else ""
    if asked := asked_in(given):
        before = _ANSWERED_BEFORE.findall(words[:_LONGEST]) if words.startswith(_NOT_ANSWERED) else []
        answers = {question: answer.strip() for question, answer, _ in before if answer.strip()}
        notes = {question: note.strip() for question, _, note in before if note.strip()}
        shown = questions_text(asked, answers, notes)
        if words.startswith(_NOT_ANSWERED):
            labels = {text_of(option, "label") for one in asked for option in objects_of(one, "options")}
            words = "\n".join([*(answer for answer in answers.values() if answer not in labels), *notes.values()])
    return "\n".join(filter(None, (shown, REFUSED))), words


def asked_in(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The questions that a call puts to the user; some clients hand them on as JSON in a string."""
    told = given.get("questions")
    told = json_of(told) if isinstance(told, str) else told
    found = [one for one in (told if isinstance(told, list) else [told]) if isinstance(one, dict)]
    return [one for one in found if text_of(one, "question")]


def questions_text(asked: Sequence[Mapping[str, Any]], answers: Mapping[str, object], notes: Mapping[str, str]) -> str:
    """Questions with what the user chose, by the options' own words, and what not. An answer may be the user's own.

    `answers` and `notes` are by the question; one that several options were chosen for is a list, or joined by commas.
    """
    lines: list[str] = []
    for one in asked or [{"question": question} for question in answers]:
        question, options = text_of(one, "question"), objects_of(one, "options")
        labels = [text_of(option, "label") for option in options]
        told = {text_of(option, "label"): one_line(text_of(option, "description")) for option in options}
        chosen = _chosen(answers.get(question), labels, several=one.get("multiSelect") is True)
        shown = [f"{one_line(label)} — {told[label]}" if told.get(label) else one_line(label) for label in chosen]
        others = [one_line(label) for label in labels if label not in chosen]
        rest = f"{'Not chosen' if chosen else 'Options'}: {'; '.join(others)}"
        note = one_line(notes.get(question, ""))
        lines.append(f"Question: {one_line(question)}")
        lines += [f"Chosen: {'; '.join(shown)}"] * bool(shown) + [rest] * bool(others) + [f"Note: {note}"] * bool(note)
    return "\n".join(lines)


def _chosen(answer: object, labels: Sequence[str], *, several: bool) -> list[str]:
    """The options of an answer; what is none of them is in the user's own words."""
    if isinstance(answer, list):
        return [text for text in answer if isinstance(text, str) and text.strip()]
    rest, chosen = answer.strip() if isinstance(answer, str) else "", list[str]()
    while several and rest and rest not in labels:
        label = next((one for one in sorted(labels, key=len, reverse=True) if one and rest.startswith(f"{one}, ")), "")
        if not label:
            break
        chosen.append(label)
        rest = rest[len(label) + 2 :].strip()
    return [*chosen, rest] if rest else chosen


def answers_seen(asked: Sequence[Mapping[str, Any]], view: str) -> tuple[dict[str, object], dict[str, str]]:
    """Answers and notes by their question, from the one sentence that the model saw of them."""
    answers: dict[str, object] = {}
    notes: dict[str, str] = {}
    for question in (text_of(one, "question") for one in asked):
        found = re.search(rf'"{re.escape(question)}"=(?:"(.*?){_ANSWER_ENDS}|\(no option selected\))', view, re.DOTALL)
        if not found:
            continue
        if found[1]:
            answers[question] = found[1]
        if note := _VIEW_NOTES.match(view, found.end()):
            notes[question] = note[1]
    return answers, notes
