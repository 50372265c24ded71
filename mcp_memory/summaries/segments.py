"""Summaries of segments: title, bullets and keywords in the words of the conversation."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_memory.domain.events import Event, EventType
from mcp_memory.domain.nodes import DraftBullet, Evidence, SegmentSummary
from mcp_memory.domain.text import ELLIPSIS, one_line, printable
from mcp_memory.summaries.actions import edited_files
from mcp_memory.summaries.candidate import MAX_BULLET, MAX_EXCERPT, Candidate
from mcp_memory.summaries.candidates import candidates
from mcp_memory.summaries.choosing import choose
from mcp_memory.summaries.cues import Kind
from mcp_memory.summaries.keywords import Vocabulary
from mcp_memory.summaries.messages import command_name, plain, speakers
from mcp_memory.summaries.passages import passages
from mcp_memory.summaries.titles import title_of

KEYWORDS = 10


def summarize_segment(events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
    """Title, bullets and keywords of a run of one session's events."""
    people = speakers([*context, *events])
    vocabulary = Vocabulary(passages(events, context), people, edited_files(events))
    found = candidates(events, named=bool(people))
    if context:
        # What a summary hands over is the task of the segment with which a session begins, and of no later one.
        found = [pick for pick in found if pick.event.event_type is not EventType.COMPACTION]
    chosen = choose(found, vocabulary.names, begins=not context) or _fallback(events)
    title = title_of(found or chosen, context, vocabulary) or _plain_title(chosen, events)
    bullets = tuple(DraftBullet(pick.text, _evidence(pick)) for pick in chosen)
    return SegmentSummary(title, bullets, vocabulary.keywords(KEYWORDS))


def _evidence(pick: Candidate) -> tuple[Evidence, ...]:
    return (
        Evidence(pick.event.key, pick.start, pick.end),
        *(Evidence(event.key, start, end) for event, start, end in pick.more),
    )


def _fallback(events: Sequence[Event]) -> list[Candidate]:
    """One candidate of whatever there is: short answers, commands, or a client's own words."""
    for event in sorted(events, key=lambda event: event.event_type is EventType.COMPACTION):
        if not event.says_something:
            continue
        text = event.text
        start = len(text) - len(text.lstrip())
        end = min(len(text.rstrip()), start + MAX_EXCERPT)
        name = command_name(event)
        body = f"Ran the command {name}" if name else plain(text[start:end]) or printable(text[start:end]).strip()
        if event.event_type is EventType.COMPACTION:
            body = f"Carried on from a summary: {body}"
        return [Candidate(event, start, end, one_line(body or event.role, MAX_BULLET), Kind.STATED, 0, 0)]
    return []


def _plain_title(chosen: Sequence[Candidate], events: Sequence[Event]) -> str:
    """The title of a segment in which nothing makes a headline: its first words, or what kind of event it was."""
    text = chosen[0].text if chosen else next((event.text for event in events if event.text.strip()), "")
    text = one_line(printable(text).replace("<", "").replace(">", ""), 60).rstrip(ELLIPSIS)
    return text or next((str(event.event_type) for event in events), "").replace("_", " ").capitalize()
