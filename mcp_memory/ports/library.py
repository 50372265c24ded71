"""The read side of the store."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from mcp_memory.clients.port import BadLine
from mcp_memory.domain.events import Event
from mcp_memory.domain.matches import Candidate, Within
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.ports.index import SearchIndex

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GripRecord:
    """A grip with the events around it, all of one session, in order."""

    grip_id: str
    excerpt: str
    start: int
    end: int
    node_id: str
    before: tuple[Event, ...]
    events: tuple[Event, ...]
    after: tuple[Event, ...]
    cited: Event | None


@dataclass(frozen=True, slots=True)
class ProjectInfo:
    slug: str
    root: str
    sessions: int
    events: int
    first_ms: int | None
    last_ms: int | None


class Library(SearchIndex, Protocol):
    """The read side. No method reads more than its answer needs."""

    async def at_once(self, work: Callable[[Library], Coroutine[Any, Any, T]]) -> T:
        """Do what reads several things for one answer, as of one moment, off the event loop and in one go.

        `work` is given the library to read from, and must not wait for anything else.
        """
        ...

    async def project_of_root(self, root: str, label: str) -> str | None: ...

    async def has_project(self, slug: str) -> bool: ...

    async def slugs(self) -> list[str]: ...

    async def projects(self) -> list[ProjectInfo]:
        """All projects with their counts, which takes a look at every event."""
        ...

    async def node(self, project: str, ref: NodeRef) -> Node | None: ...

    async def nodes_named(self, project: str, level: Level, beginning: str, limit: int) -> list[NodeRef]:
        """The nodes of a level whose key begins so, the latest first."""
        ...

    async def grips_between(self, project: str, start_ms: int, end_ms: int, limit: int) -> list[str]:
        """The ids of the grips that bullets cite, of what was said in the time, those of the latest segments first."""
        ...

    async def sessions_of(self, project: str, beginning: str, limit: int) -> list[str]:
        """The project's sessions whose name begins so, those that were stored last first."""
        ...

    async def history(self, project: str, ref: NodeRef) -> list[Node]: ...

    async def children(self, project: str, ref: NodeRef, *, bullets: bool = True) -> list[Node]: ...

    async def neighbours(self, project: str, ref: NodeRef) -> tuple[str | None, str | None]:
        """The ids of the previous and the next node of the same level."""
        ...

    async def top(self, project: str | None, level: Level, limit: int, *, bullets: bool = True) -> list[Node]:
        """The latest nodes of a level, newest first; of all projects if none is given. Titles alone are read faster."""
        ...

    async def between(self, project: str | None, level: Level, start_ms: int, end_ms: int, limit: int) -> list[Node]:
        """The nodes of a level that touch the time, oldest first."""
        ...

    async def grip(self, key: bytes, before: int, after: int) -> GripRecord | None: ...

    async def keys(self, beginning: bytes) -> list[bytes]:
        """The keys of grips and events that begin so; two are enough to tell that it is not unique."""
        ...

    async def cited_by(self, grip_ids: Sequence[str]) -> dict[str, Event]:
        """The event that each grip cites; grips whose event is gone are left out."""
        ...

    async def known(self, words: Sequence[str]) -> dict[str, int]:
        """In how many documents these words occur, counted up to a few; those that occur nowhere are left out."""
        ...

    async def events(self, numbers: Sequence[int]) -> dict[int, Candidate]:
        """Events by the store's own numbers, with their segments and the grips that cite them."""
        ...

    async def events_after(self, number: int, project: str | None, limit: int) -> list[tuple[int, Event]]:
        """All events in the order they were stored, from the one after the store's own number on."""
        ...

    async def is_silent(self, within: Within) -> bool:
        """Whether nothing at all was said there. Where much was said, it may be taken that some of it was."""
        ...

    async def root_of(self, project: str) -> str | None:
        """The root by which the store knows a project."""
        ...

    async def unsummarized(self, project: str | None) -> tuple[int, int]:
        """How many sessions, and how many of their events, are cut into segments that no node speaks of yet."""
        ...

    async def counts(self, busy: range = range(0)) -> Counts:
        """`dirty_segments` leaves out open ones whose last event lies in the `busy` milliseconds."""
        ...


@dataclass(frozen=True, slots=True)
class Counts:
    """How much of everything there is."""

    schema: int
    timezone: str
    projects: int
    sessions: int
    events: int
    segments: int
    nodes: int
    grips: int
    inbox: int
    unknown: int
    dirty_sessions: int
    dirty_segments: int
    open_segments: int
    dirty_nodes: int
    last_event_ms: int | None
    last_rollup_ms: int | None
    lease: dict[str, Any] | None
    set_aside: tuple[BadLine, ...]
