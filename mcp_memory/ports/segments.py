"""Sessions as segments: cut, waiting for a summary, written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Grip, Node
from mcp_memory.domain.segments import Mark


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

    `marks[start:]` are to be cut; those before lend context. `numbers` are the store's own numbers of the marks.
    """

    session: int
    session_key: bytes
    seq: int
    marks: tuple[Mark, ...]
    numbers: tuple[int, ...]
    start: int
    stored: tuple[StoredSegment, ...]


@dataclass(frozen=True, slots=True)
class SegmentJob:
    """A segment that lacks a summary of what it holds now."""

    segment: StoredSegment
    session: int
    session_id: str
    project: int
    slug: str
    events: tuple[Event, ...]
    context: tuple[Event, ...]


#: What was cut, the segments that are new or changed, and those that are no more.
SavedCut = tuple[Cutting, Sequence[StoredSegment], Sequence[StoredSegment]]


class SegmentStore(Protocol):
    """Where one session's events are cut, and which segments lack a summary."""

    async def expire(self, before_ms: int) -> None:
        """Mark the sessions whose open segment ended before this time: nothing will join it any more."""
        ...

    async def dirty(self, limit: int, overlap_ms: int) -> list[Cutting]: ...

    async def save_cuts(self, cuts: Sequence[SavedCut], lease_token: int) -> None:
        """Store the new segments, take the removed ones and their nodes out of the tree."""
        ...

    async def jobs(self, limit: int, busy: range) -> list[SegmentJob]:
        """Segments to summarize, oldest first; without open ones whose last event lies in the `busy` milliseconds."""
        ...


@dataclass(frozen=True, slots=True)
class SegmentWrite:
    """A segment's node with its grips, ready to be stored."""

    job: SegmentJob
    node: Node
    grips: tuple[Grip, ...]
