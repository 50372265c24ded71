"""Summaries of segments: title, bullets and keywords in the words of the conversation.

Everything that was said becomes statements; what holds of them is settled; few of them become the title and bullets.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcp_memory.domain.events import Event, EventType
from mcp_memory.domain.nodes import DraftBullet, Evidence, Kind, SegmentSummary
from mcp_memory.domain.segments import parted
from mcp_memory.domain.text import ELLIPSIS, one_line, printable
from mcp_memory.summaries.bullets import bullets_of, drafted, whole
from mcp_memory.summaries.calls import Source, edited_files
from mcp_memory.summaries.keywords import Vocabulary, passages
from mcp_memory.summaries.messages import MAX_TEXT, command_name, plain, speakers
from mcp_memory.summaries.statements import collect, next_turns
from mcp_memory.summaries.titles import title_of
from mcp_memory.summaries.truth import settle

KEYWORDS = 10


def summarize_segment(events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
    """Title, bullets and keywords of a run of one session's events. The context came before them and after."""
    context, after = parted(events, context)
    people = speakers([*context, *events])
    edited = list(edited_files(events))
    vocabulary = Vocabulary(passages(events, context), people, frozenset(edited))
    standing = settle(collect(events, context), next_turns(after)).standing
    bullets = [drafted(one) for one in bullets_of(standing, vocabulary.names)] or _fallback(events)
    telling = [one for one in standing if one.source > Source.ACTION]
    title = title_of(telling, vocabulary, edited, events, context)
    title = title if any(map(str.isalnum, title)) else _plain_title(bullets, events)
    return SegmentSummary(title, tuple(bullets), vocabulary.keywords(KEYWORDS))


def _fallback(events: Sequence[Event]) -> list[DraftBullet]:
    """One bullet of whatever there is: short answers, commands, or a client's own words."""
    for event in sorted(events, key=lambda event: event.event_type is EventType.COMPACTION):
        if not event.says_something or event.is_commentary:
            continue
        text = event.text
        start = len(text) - len(text.lstrip())
        end = min(len(text.rstrip()), start + 400)
        name = command_name(event)
        body = f"Ran the command {name}" if name else plain(text[start:end]) or printable(text[start:end]).strip()
        if event.event_type is EventType.COMPACTION:
            body = f"Carried on from a summary: {body}"
        told = whole(one_line(body or event.role, MAX_TEXT))
        return [DraftBullet(told, (Evidence(event.key, start, end),), Kind.STATED)]
    return []


def _plain_title(bullets: Sequence[DraftBullet], events: Sequence[Event]) -> str:
    """The title of a segment in which nothing makes a headline: its first words, or what kind of event it was."""
    text = bullets[0].text if bullets else next((event.text for event in events if event.text.strip()), "")
    text = whole(one_line(printable(text).replace("<", "").replace(">", ""), 60).rstrip(ELLIPSIS))
    return text or next((str(event.event_type) for event in events), "").replace("_", " ").capitalize()
