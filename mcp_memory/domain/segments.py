"""Cutting one session's events into segments: a pure, greedy pass, so a prefix of a session is always cut alike."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from mcp_memory import lexicon
from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Grip, Node
from mcp_memory.domain.text import folded

#: An open segment is summarized once nothing was said for so long: not after every word of a busy session.
QUIET_MS = 60_000
#: A segment that is so full ends where the user begins another task. On the truth set this states 7 % more facts.
_FULL = 0.25
#: Fewer characters are an answer rather than a task.
_SHORT = 30
#: How a message begins tells whether it contradicts.
_OPENING = 300
#: So many of the user's next messages may still set right what a segment tells.
FOLLOWING = 3


def busy(now_ms: int, quiet_ms: int = QUIET_MS) -> range:
    """The times of a last event, in milliseconds, after which an open segment is left alone for now.

    One that lies in the time to come tells nothing of how busy a session is, and would keep it waiting until then.
    """
    return range(now_ms - quiet_ms + 1, now_ms + 1)


@dataclass(frozen=True, slots=True)
class Rules:
    gap_ms: int = 30 * 60_000
    max_tokens: int = 4_000
    overlap_ms: int = 5 * 60_000
    overlap_tokens: int = 500


@dataclass(frozen=True, slots=True)
class Mark:
    """As much of an event as cutting needs."""

    key: bytes
    timestamp_ms: int
    tokens: int
    ends_session: bool = False
    #: Whether the user speaks here, may begin another task, and whether anyone sets right what was said before.
    asks: bool = False
    opens_task: bool = False
    corrects: bool = False
    #: The store's own.
    number: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """Events `first:last` make a segment; `context:first` come before it and are never cited by it.

    An open cut may still grow: nothing has ended it yet.
    """

    first: int
    last: int
    context: int
    closed: bool


def sets_right(event: Event) -> bool:
    """Whether with this the user contradicts or refuses what was said or done before."""
    low = folded(" ".join(event.text[:_OPENING].split()))
    contradicts = lexicon.expressions("claims")["contradicts"].match(low) is not None
    return event.role == "user" and ("refuses" in event.metadata or contradicts)


def mark_of(key: bytes, timestamp_ms: int, tokens: int, number: int, said: str, by_user: bool) -> Mark:
    """The mark of an event in which the user or the assistant says something; `said` is how it begins."""
    low = folded(" ".join(said.split()))
    says = lexicon.expressions("claims")
    corrects = bool(low and says["contradicts" if by_user else "concedes"].match(low))
    opens = by_user and len(low) >= _SHORT and not corrects and not says["agrees"].match(low)
    return Mark(key, timestamp_ms, tokens, asks=by_user, opens_task=opens, corrects=corrects, number=number)


def corrections_after(marks: Sequence[Mark], last: int) -> list[Mark]:
    """What sets something right soon after the events before `last`: that changes what holds of them."""
    found, asked = [], 0
    for mark in marks[last:]:
        asked += mark.asks
        if asked > FOLLOWING:
            break
        found += [mark] if mark.corrects else []
    return found


def parted(events: Sequence[Event], context: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """What stands before some events of a session and what follows them, of what is given as their context."""
    end = events[-1].timestamp_ms if events else 0
    own = {event.key for event in events}
    others = [event for event in context if event.key not in own]
    return [one for one in others if one.timestamp_ms <= end], [one for one in others if one.timestamp_ms > end]


def segment_key(session_key: bytes, first_event_key: bytes) -> bytes:
    return hashlib.blake2b(session_key + first_event_key, digest_size=10, person=b"segment").digest()


def cut(marks: Sequence[Mark], rules: Rules, now_ms: int, start: int = 0) -> list[Cut]:
    """Cut the events from index `start` on; earlier ones only lend context.

    A boundary is a gap of more than `gap_ms`, an event that would bring the sum over `max_tokens`, the session's end,
    or a task that the user begins when the segment is full enough. `marks` must be in time order.
    """
    cuts: list[Cut] = []
    first, tokens = start, 0
    for index in range(start, len(marks)):
        mark, before = marks[index], marks[index - 1]
        ended = before.ends_session or mark.timestamp_ms - before.timestamp_ms > rules.gap_ms
        enough = mark.opens_task and not before.opens_task and tokens >= rules.max_tokens * _FULL
        if index > first and (ended or enough or tokens + mark.tokens > rules.max_tokens):
            cuts.append(_cut(marks, first, index, rules, closed=True))
            first, tokens = index, 0
        tokens += mark.tokens
    if first < len(marks):
        last = marks[-1]
        closed = last.ends_session or now_ms - last.timestamp_ms > rules.gap_ms
        cuts.append(_cut(marks, first, len(marks), rules, closed=closed))
    return cuts


def _cut(marks: Sequence[Mark], first: int, last: int, rules: Rules, *, closed: bool) -> Cut:
    context, tokens = first, 0
    while context > 0:
        mark = marks[context - 1]
        tokens += mark.tokens
        if tokens > rules.overlap_tokens or marks[first].timestamp_ms - mark.timestamp_ms > rules.overlap_ms:
            break
        context -= 1
    return Cut(first, last, context, closed)


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment as the store knows it; `first_event` and `last_event` are the store's own numbers."""

    key: bytes
    start_ms: int
    end_ms: int
    first_event: int
    last_event: int
    context_ms: int
    context_event: int
    events: int
    tokens: int
    closed: bool
    input_hash: str


@dataclass(frozen=True, slots=True)
class Cutting:
    """What is needed to cut a session anew from the first place that changed.

    `marks[start:]` are to be cut; those before lend context.
    """

    session: int
    session_key: bytes
    project: int
    seq: int
    marks: tuple[Mark, ...]
    start: int
    stored: tuple[StoredSegment, ...]


@dataclass(frozen=True, slots=True)
class SegmentJob:
    """A segment that lacks a summary of what it holds now. Its context stands before it, and what was said after it."""

    segment: StoredSegment
    session: int
    session_id: str
    project: int
    slug: str
    events: tuple[Event, ...]
    context: tuple[Event, ...]


#: What was cut, the segments that are new or changed, and those that are no more.
SavedCut = tuple[Cutting, Sequence[StoredSegment], Sequence[StoredSegment]]


@dataclass(frozen=True, slots=True)
class SegmentWrite:
    """A segment's node with its grips, ready to be stored."""

    job: SegmentJob
    node: Node
    grips: tuple[Grip, ...]
