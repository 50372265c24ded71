"""What people look through: how much of everything there is, active days, sessions, files, stretches of a session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from mcp_memory.domain.events import Event
from mcp_memory.domain.toc import NodeRef


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
    dirty_sessions: int
    dirty_segments: int
    open_segments: int
    dirty_nodes: int
    last_event_ms: int | None
    last_rollup_ms: int | None
    #: How many nodes are of which revision of the extractive summarizer.
    revisions: dict[int, int]
    lease: dict[str, Any] | None
    #: The room it takes on a server; a file tells by itself.
    server_bytes: int = 0


@dataclass(frozen=True, slots=True)
class IndexState:
    """Which index answers, how it stands to the store, and the bytes of its own files, if it has some."""

    kind: str
    state: str
    own_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DayActivity:
    """A day on which something was said: in how many segments, and how many tokens of conversation."""

    day: date
    segments: int
    weight: int


@dataclass(frozen=True, slots=True)
class ProjectActivity:
    """A project by what its tree tells, which takes no look at its events."""

    slug: str
    root: str
    sessions: int
    first_ms: int | None
    last_ms: int | None
    weight: int


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions are wanted, those first that were active last; `before` is the place of the last one shown."""

    project: str | None = None
    client: str | None = None
    session_id: str | None = None
    before: tuple[int, int] | None = None
    limit: int = 30


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session; `first` and `last` are its outermost segments in the tree, `place` is where a list goes on after it.

    The store knows the title that the client gave, if any. For a list it has one in any case, and an `outcome`: in one
    line how it ended.
    """

    session_id: str
    client: str
    project: str
    title: str
    start_ms: int
    end_ms: int
    events: int
    segments: int
    open: bool
    first: NodeRef | None
    last: NodeRef | None
    place: tuple[int, int]
    #: Who of a team had it.
    author: str = ""
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class FileActivity:
    """A file that was changed: how often among the latest changes, and when last."""

    path: str
    project: str
    times: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some events of one session in order, and whether there are others before and after them."""

    events: tuple[Event, ...]
    earlier: bool
    later: bool
