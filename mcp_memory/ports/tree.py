"""The nodes above the segments, and the briefs made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.ports.segments import SegmentWrite


@dataclass(frozen=True, slots=True)
class Stale:
    """A period whose children changed, or which has closed.

    `versions` are the children as they were read; `current_hash` is the input hash of the period's current version,
    if it has one that is not removed.
    """

    project: int
    slug: str
    ref: NodeRef
    children: tuple[Node, ...]
    versions: tuple[int, ...]
    current_hash: str | None


class TreeStore(Protocol):
    """The versioned nodes. A write stores node, bullets, grips and index rows, and marks the parent, in one go."""

    async def save_segments(self, writes: Sequence[SegmentWrite], lease_token: int) -> None: ...

    async def mark_closed_periods(self, now_ms: int) -> None:
        """Mark open periods that have closed meanwhile."""
        ...

    async def stale(self, level: Level, limit: int) -> list[Stale]: ...

    async def save_rollups(self, rollups: Sequence[tuple[Stale, Node | None]], lease_token: int) -> None:
        """Store the new versions (None: nothing has changed; a node marked removed: nothing is left beneath it).

        A period whose children are not those it was made from any more is left as it is, to be done anew.
        """
        ...


@dataclass(frozen=True, slots=True)
class BriefSource:
    """What a project's brief is made of: its latest days, newest first, and its pinned notes."""

    project: int
    slug: str
    root: str
    days: tuple[Node, ...]
    notes: tuple[Event, ...]


class BriefStore(Protocol):
    """The texts that the hook prints at the start of a session."""

    async def outdated(self, limit: int) -> list[BriefSource]: ...

    async def save(self, source: BriefSource, text: str, now_ms: int, lease_token: int) -> None: ...
