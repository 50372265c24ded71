"""From what a model cites to where it stands: the exact characters of one event, or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.nodes import Evidence
from mcp_memory.domain.text import terms
from mcp_memory.models.chunks import middle_truncate

MAX_EXCERPT = 400
#: A quote of fewer characters may stand anywhere.
_LEAST_QUOTE = 6
#: A sentence shows a bullet if it shares at least so many of the bullet's terms, and this part of them.
_SHARED, _COVERED = 3, 0.5
_TOOL_CHARS = 2_000
_SOUGHT_CHARS = 20_000
_LEAD = re.compile(r"^\s*(?:\[\d+\]\s*)?(?:(?:user|assistant|tool|system)\s*:\s*)?", re.I)
_AROUND = " \t\n\"'`“”‘’«»…."
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?…。！？](?=\s|$)|(?=\n)|$)")


def transcript(events: Sequence[Event]) -> str:
    """What was said, numbered, as a model reads it. Long results of tools lose their middle."""
    lines = []
    for number, event in enumerate((event for event in events if event.says_something), 1):
        text: str = event.text
        if event.event_type is EventType.TOOL_RESULT or event.role is Role.TOOL:
            text, _ = middle_truncate(text, _TOOL_CHARS)
        lines.append(f"[{number}] {event.role}: {text}")
    return "\n\n".join(lines)


def cite(quote: str, statement: str, events: Sequence[Event]) -> tuple[Evidence, ...]:
    """Where the quote stands; if it stands nowhere, the sentence that shares most of the statement's terms."""
    found = _quoted(quote, events) or _matched(statement, events)
    return (found,) if found else ()


def _quoted(quote: str, events: Sequence[Event]) -> Evidence | None:
    words = _LEAD.sub("", quote).strip(_AROUND)
    if len(words) < _LEAST_QUOTE:
        return None
    for event in events:
        at = event.text.find(words)
        if at >= 0:
            return _evidence(event, at, at + len(words))
    # Models break lines elsewhere and change capitals; the words must be the same, in the same order.
    loose = re.compile(r"\s+".join(map(re.escape, words.split())), re.I)
    for event in events:
        match = loose.search(event.text)
        if match:
            return _evidence(event, match.start(), match.end())
    return None


def _matched(statement: str, events: Sequence[Event]) -> Evidence | None:
    wanted = terms(statement)
    best, place = 0.0, None
    for event, start, end in _sentences(events):
        shared = len(wanted & terms(event.text[start:end]))
        score = shared / len(wanted) if wanted else 0.0
        if shared >= _SHARED and score >= _COVERED and score > best:
            best, place = score, _evidence(event, start, end)
    return place


def _sentences(events: Sequence[Event]) -> Iterator[tuple[Event, int, int]]:
    for event in events:
        if event.says_something:
            for match in _SENTENCE.finditer(event.text, 0, _SOUGHT_CHARS):
                yield event, match.start(), match.end()


def _evidence(event: Event, start: int, end: int) -> Evidence:
    """The place, without the space around it, and not longer than an excerpt should be."""
    text = event.text
    while start < end and text[start].isspace():
        start += 1
    if end - start > MAX_EXCERPT:
        space = text.rfind(" ", start, start + MAX_EXCERPT)
        end = space if space > start + MAX_EXCERPT // 2 else start + MAX_EXCERPT
    return Evidence(event.key, start, start + len(text[start:end].rstrip()))
