"""The texts that decide which words matter in a segment, by who said them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.summaries.cues import is_trivial
from mcp_memory.summaries.keywords import Passage
from mcp_memory.summaries.messages import speakers, spoken
from mcp_memory.summaries.pasted import own_words, pasted_error, pasted_in
from mcp_memory.summaries.sentences import windows
from mcp_memory.summaries.toolcalls import Call, call_of, commit_span

_FLAG = re.compile(r"(?<!\S)--?[A-Za-z][\w-]*=?")
#: So many of the last requests before a segment tell which of its words matter.
_ASKED_BEFORE = 1
#: How much a word tells by where it was said; a user's words tell more than others unless people talk to each other.
_NOTED, _BY_USER, _SAID, _COMMITTED = 3.0, 2.0, 1.0, 1.0
_BEFORE, _SUMMED_UP, _PASTED = 0.3, 0.2, 0.1
#: The same for the files that were edited, and for whatever else tools were used on.
_EDITED, _USED = 1.2, 0.25
#: So many characters are taken of a summary, of what was asked before and of the target of a call.
_SUMMARY_CHARS, _BEFORE_CHARS, _TARGET_CHARS = 3_000, 2_000, 200


def passages(events: Sequence[Event], context: Sequence[Event]) -> Iterator[Passage]:
    """The passages of a segment, and of the last request before it."""
    by_user = _SAID if speakers(events) else _BY_USER
    telling = [event for event in events if event.says_something]
    for event in telling:
        yield from _of_event(event, by_user)
    yield from _targets(telling)
    asked = [event for event in context if event.role is Role.USER and event.says_something]
    for event in asked[-_ASKED_BEFORE:]:
        yield Passage(spoken(event.text)[:_BEFORE_CHARS], _BEFORE)


def _of_event(event: Event, by_user: float) -> Iterator[Passage]:
    if event.event_type is EventType.COMPACTION:
        yield Passage(event.text[:_SUMMARY_CHARS], _SUMMED_UP)
    elif _is_result(event):
        yield from _committed(event)
    elif event.event_type is EventType.NOTE:
        yield from _of_user(event.text, _NOTED, by_user) if event.role is Role.USER else _whole(event.text, _NOTED)
    elif event.role is Role.USER:
        yield from _of_user(event.text, by_user, by_user)
    else:
        yield from _whole(event.text, _SAID)


def _is_result(event: Event) -> bool:
    return event.event_type is EventType.TOOL_RESULT or event.role is Role.TOOL


def _of_user(message: str, weight: float, by_user: float) -> Iterator[Passage]:
    """A user's own words and, for much less, what was pasted among them: few of its names are what the talk is about.

    An error that it names is.
    """
    text = spoken(message)
    if is_trivial(text):
        return
    for run in pasted_in(text):
        yield Passage(text[run.start : run.end], _PASTED, code=True)
        if run.log and (span := pasted_error(text, run)):
            yield Passage(text[slice(*span)], by_user)
    yield from _whole(own_words(text), weight)


def _whole(text: str, weight: float) -> Iterator[Passage]:
    for low, high in windows(len(text)):
        yield Passage(text[low:high], weight)


def _committed(event: Event) -> Iterator[Passage]:
    """The subject of a commit."""
    call = call_of(event)
    if call and call.verb == "Ran" and (subject := commit_span(event.text, call.head)):
        yield Passage(event.text[slice(*subject)].partition("] ")[2], _COMMITTED)


def _targets(events: Sequence[Event]) -> Iterator[Passage]:
    """What tools were used on."""
    names: dict[bool, list[str]] = {}
    for event in events:
        if _is_result(event) and (call := call_of(event)):
            names.setdefault(call.verb == "Edited", []).append(_target(call))
    for edited, targets in names.items():
        yield Passage("\n".join(targets), _EDITED if edited else _USED, code=True)


def _target(call: Call) -> str:
    target = call.target[:_TARGET_CHARS]
    # How a command was run is not what it was run for.
    return _FLAG.sub("", target) if call.verb == "Ran" and "-" in target else target
