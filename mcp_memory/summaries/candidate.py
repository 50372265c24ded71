"""A possible bullet: words of a segment with their kind and exact place, and how they are shown."""

from __future__ import annotations

from typing import NamedTuple

from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.summaries import cues, wordings
from mcp_memory.summaries.cues import Kind
from mcp_memory.summaries.sentences import clipped

MAX_BULLET = 220
MAX_EXCERPT = 300
_NOUNS_FOLLOW = frozenset(
    "the a an my our your their this that these those it them us people users some every all".split()
)


class Said(NamedTuple):
    """Words of a message that are worth keeping: where they stand in it, how they are shown, and what they matter.

    `more` are further places in the same message.
    """

    start: int
    end: int
    text: str
    kind: Kind
    bonus: float = 0.0
    listed: bool = False
    more: tuple[tuple[int, int], ...] = ()


class Candidate(NamedTuple):
    """A possible bullet. `order` is its place in the segment, `turn` the user message it follows."""

    event: Event
    start: int
    end: int
    text: str
    kind: Kind
    order: int
    turn: int
    bonus: float = 0.0
    listed: bool = False
    more: tuple[tuple[Event, int, int], ...] = ()

    @property
    def by_user(self) -> bool:
        """Whether a user said it, or a summary tells that one did."""
        return self.event.role is Role.USER or self.event.event_type is EventType.COMPACTION


def said(
    message: str, start: int, end: int, text: str, kind: Kind, bonus: float = 0.0, *, listed: bool = False
) -> Said:
    if end - start > MAX_EXCERPT:
        cut = message.rfind(" ", start, start + MAX_EXCERPT)
        end = cut if cut > start + MAX_EXCERPT // 2 else start + MAX_EXCERPT
    text = text if cues.is_question(text) or text.endswith("!") else text.rstrip(" .:;,：。")
    return Said(start, end, clipped(text, MAX_BULLET), kind, bonus, listed)


def user_text(body: str, kind: Kind, speaker: str) -> str:
    """What a user said, marked by who said it or by what it is."""
    if speaker:
        return f"{speaker}: {body}"
    if kind is Kind.REQUEST:
        said = cues.without_interjection(body)
        asked = cues.without_politeness(said)
        # `I want the map to …` needs its verb.
        return f"Asked: {said if asked != said and wordings.first_word(asked.lower()) in _NOUNS_FOLLOW else asked}"
    return f"{'Reported' if kind is Kind.REPORT else 'User'}: {cues.without_interjection(body)}"
