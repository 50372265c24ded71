"""Who speaks in a user message of Claude Code: the user, a background task, a team mate, or the client itself.

The client writes all of them as messages of the user, mostly inside one element that encloses the whole text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mcp_memory.clients.claude_tools import INJECTED, typed, without_injected
from mcp_memory.clients.lines import Origin, digest, json_of, text_of
from mcp_memory.domain.events import Captured, EventType, Role

#: Values of a message's `origin.kind` that no person stands behind.
_MACHINE_ORIGINS = frozenset({"task-notification", "peer", "coordinator"})
_ELEMENT = re.compile(r"<([a-z][a-z0-9]*(?:[-_][a-z0-9]+)+)((?:\s[^<>]*)?)>")
#: `origin.kind` of what a person typed.
HUMAN = "human"
_ATTRIBUTE = re.compile(r"""\s([\w-]+)=(?:"([^"]*)"|'([^']*)')""")
_NOT_BLANK = re.compile(r"\S")
_FIELD = re.compile(r"^[ \t]*<(task-id|agent-id|summary|result)>", re.MULTILINE)
_TASKS = frozenset({"task-notification", "agent-notification"})
#: Elements that hand a task over, each with the attribute that says who does.
_LETTERS = {"teammate-message": "teammate_id", "scheduled-task": "name"}
#: Elements of the client that hold an event; text may follow them.
_NOTICES = frozenset({"ci-monitor-event", "agent-message", "cross-session-message"})
#: How the client names elements that hold an event. People write elements of other names around what they ask.
_EVENT_NAME = re.compile(r"(?<!^command)-(?:alert|event|feedback|message|notice|notification|reminder|update)$")
_BASH = "bash-input"
#: Early versions added such lines behind a notification.
_TAIL = re.compile(r"(?:Read the output file to retrieve|Full transcript available at)\b")
#: Openings of texts that the client or another session's agent wrote, without an element around them.
_HEADINGS = ("[SYSTEM NOTIFICATION", "Another Claude session sent a message:")
#: Elements that are known for what they are.
_KNOWN = frozenset({*INJECTED, *_TASKS, *_NOTICES, *_LETTERS})
#: The name of the team mate that leads.
LEAD = "team-lead"


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a background task. `result` is the answer of an agent; a command has none."""

    task_id: str
    summary: str
    result: str


@dataclass(frozen=True, slots=True)
class Letter:
    """What a team mate or a schedule hands over."""

    sender: str
    text: str


@dataclass(frozen=True, slots=True)
class SplitMessage:
    """A user message by its speakers. `command` is what the user ran in the client's own shell."""

    words: str = ""
    command: str = ""
    reports: tuple[Report, ...] = ()
    letters: tuple[Letter, ...] = ()
    notices: tuple[str, ...] = ()


def message_of(text: str, origin: str = "") -> SplitMessage:
    """Split the text of a user message by who speaks in it; `origin` is what the client says of that."""
    reports: list[Report] = []
    letters: list[Letter] = []
    notices: list[str] = []
    text, at = text.strip(), 0
    while found := _ELEMENT.match(text, at):
        tag, closing = found[1], f"</{found[1]}>"
        if tag in _KNOWN:
            end = text.find(closing, found.end())
        elif origin == HUMAN or not _EVENT_NAME.search(tag) or text.find(closing) != len(text) - len(closing):
            break
        else:  # another element that is named as an event, encloses everything, and is not said to have been typed
            end = len(text) - len(closing)
        if end < 0:
            break
        body, at = text[found.end() : end].strip(), _next_word(text, end + len(closing))
        if tag in _TASKS:
            reports.append(_report(body))
            at = _after_tail(text, at, reports[-1].task_id)
        elif tag in _LETTERS:
            sender = next((one[2] or one[3] for one in _ATTRIBUTE.finditer(found[2]) if one[1] == _LETTERS[tag]), "")
            letters.append(Letter(sender, _letter_text(body)))
        elif tag not in INJECTED:
            notices.append(body)
    rest = text[at:]
    if rest.startswith(_HEADINGS):
        notices.append(without_injected(rest).strip())
        rest = ""
    command = _bash_command(rest)
    words = "" if command else typed(rest)
    if words and (origin in _MACHINE_ORIGINS or is_task_record(words)):
        notices.append(words)
        words = ""
    return SplitMessage(
        words,
        command,
        tuple(reports),
        tuple(letter for letter in letters if letter.text),
        tuple(notice for notice in notices if notice),
    )


def is_task_record(text: str) -> bool:
    """Whether the text is a background task as the client puts it into the queue: JSON with the task's name."""
    value = json_of(text) if text.startswith("{") else None
    return isinstance(value, dict) and bool(text_of(value, "task_id")) and "task_type" in value


def client_events(origin: Origin, message: SplitMessage, source_ids: tuple[str, ...] = ()) -> Iterator[Captured]:
    """What background tasks and the client say in a user message.

    One notification stands in several lines, and a subagent's own file has its answer too: so the keys have no line.
    """
    notices = list(message.notices)
    for report in message.reports:
        if report.task_id and report.result:
            facts = {**origin.facts, "agent_id": report.task_id, "sidechain": True}
            yield replace(origin, facts=facts).event(
                f"agent-stop:{report.task_id}", EventType.SUBAGENT_STOP, report.result, source_ids
            )
        elif report.summary:
            notices.append(report.summary)
    for notice in notices:
        event = origin.event(f"notice:{digest(notice)}", EventType.TOOL_RESULT, notice, source_ids)
        yield replace(event, role=Role.SYSTEM)


def _bash_command(text: str) -> str:
    inner, closed, _ = text.removeprefix(f"<{_BASH}>").partition(f"</{_BASH}>")
    return inner.strip() if closed and text.startswith(f"<{_BASH}>") else ""


def _report(body: str) -> Report:
    fields: dict[str, str] = {}
    position, unclosed = 0, set[str]()
    for opening in _FIELD.finditer(body):
        name = opening[1]
        if opening.start() < position or name in unclosed:
            continue
        end = body.find(f"</{name}>", opening.end())
        if end < 0:
            unclosed.add(name)  # so that a thousand unclosed tags do not cost a thousand searches
            continue
        fields[name] = body[opening.end() : end].strip()
        position = end
    task_id = fields.get("task-id") or fields.get("agent-id") or ""
    return Report(task_id, _unescaped(fields.get("summary", "")), _unescaped(fields.get("result", "")))


def _unescaped(text: str) -> str:
    """The text without XML's escapes, which early versions did not write."""
    return text if "<" in text else html.unescape(text)


def _after_tail(text: str, at: int, task_id: str) -> int:
    """Where the lines end that the client added behind a notification: they name the task or its output."""
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        if not _TAIL.match(line) and not (task_id and task_id in line):
            break
        at = _next_word(text, end)
    return at


def _next_word(text: str, at: int) -> int:
    found = _NOT_BLANK.search(text, at)
    return found.start() if found else len(text)


def _letter_text(body: str) -> str:
    """What a team mate wrote. Its programs also write JSON: of that only a task that is handed over says something."""
    value = json_of(body) if body.startswith("{") else None
    if not isinstance(value, dict):
        return body
    return "\n".join(filter(None, (text_of(value, "subject"), text_of(value, "description"))))
