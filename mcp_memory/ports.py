"""The interfaces between the layers; their docstrings are contracts that every adapter must keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mcp_memory.domain.events import Captured, Event
from mcp_memory.domain.grips import Grip
from mcp_memory.domain.offers import Candidate as Candidate
from mcp_memory.domain.offers import Pool as Pool
from mcp_memory.domain.offers import Spot as Spot
from mcp_memory.domain.segments import Mark
from mcp_memory.domain.summaries import Node, RollupSummary, SegmentSummary
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.ports_index import SearchIndex


class Clock(Protocol):
    """Tells the time. Tests stand it still."""

    def now_ms(self) -> int: ...


class Summarizer(Protocol):
    """Makes summaries. It never writes to the store, and is never called inside a transaction."""

    @property
    def name(self) -> str:
        """Who signs the summary: `extractive`, `anthropic:<model>`, …"""
        ...

    async def segment(self, events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
        """Summarize `events`. `context` came just before them, may be understood with them, and is never cited.

        Evidence offsets are characters of the cited event's `text`.
        """
        ...

    async def rollup(self, level: Level, children: Sequence[Node]) -> RollupSummary:
        """Summarize the children of a period, oldest first. Every bullet keeps grips and ids of its children."""
        ...


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of a transcript that could not be read."""

    path: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Hooked:
    """What one hook payload means.

    `transcript` names a file to read on from where it was left. `unknown` marks a payload of no known form, which is
    kept. `fallback` events are stored only if the transcript does not tell the same text. `compacting`: the client is
    about to replace the session's words by a summary.
    """

    session_id: str = ""
    events: tuple[Captured, ...] = ()
    fallback: tuple[Captured, ...] = ()
    transcript: Path | None = None
    unknown: bool = False
    compacting: bool = False


@dataclass(slots=True)
class TranscriptState:
    """What must be remembered between two reads of one growing transcript; JSON-serializable in `memory`."""

    offset: int = 0
    line: int = 0
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """One event of a transcript with the directory it was said in."""

    event: Captured
    cwd: str = ""
    project: str = ""


class ClientAdapter(Protocol):
    """Understands one agent client: its hook payloads and its transcripts."""

    @property
    def name(self) -> str: ...

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        """Turn a hook payload into events. Never raises: what it cannot read is `unknown`."""
        ...

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        """Read a transcript from `state.offset`, advancing `state` after each line taken.

        A last line without a newline is left for the next time, unless it is complete JSON.
        """
        ...

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """The transcript files among these files and directories."""
        ...

    def recognizes(self, path: Path) -> bool:
        """Whether the file looks like a transcript of this client."""
        ...


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One hook payload as the hook left it."""

    id: int
    received_ms: int
    client: str
    root: str
    label: str
    payload: str


@dataclass(frozen=True, slots=True)
class Intake:
    """Events of one session, and the project it belongs to if the session is new."""

    events: tuple[Event, ...]
    root: str
    label: str = ""


class EventLog(Protocol):
    """The canonical record. Adding is idempotent: an event known by its key changes nothing."""

    async def inbox(self, limit: int) -> list[InboxRow]: ...

    async def post(self, rows: Iterable[tuple[int, str, str, str, str]]) -> None:
        """Append to the inbox what the hook could only spool."""
        ...

    async def checkpoint(self, name: str) -> dict[str, Any]: ...

    async def add(
        self,
        intakes: Sequence[Intake],
        *,
        consumed: Sequence[int] = (),
        unknown: Sequence[int] = (),
        checkpoints: Mapping[str, Mapping[str, Any]] | None = None,
        compacting: Sequence[tuple[str, str]] = (),
        lease_token: int | None = None,
    ) -> int:
        """Store what is new, index it, mark its sessions for cutting, take inbox rows away: all in one transaction.

        `compacting` are sessions, by client and name, of which a record is wanted now. Returns how many events were
        new.
        """
        ...


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

    async def jobs(self, limit: int, quiet_before_ms: int) -> list[SegmentJob]:
        """Segments to summarize, oldest first; open ones only if nothing was said since `quiet_before_ms`."""
        ...


@dataclass(frozen=True, slots=True)
class SegmentWrite:
    """A segment's node with its grips, ready to be stored."""

    job: SegmentJob
    node: Node
    grips: tuple[Grip, ...]


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


class Backlog(Protocol):
    """What is left to do."""

    async def waits(self, now_ms: int, quiet_before_ms: int, closed_before_ms: int) -> bool:
        """Whether any stage would find work: rows, changed sessions, quiet or closed segments, closed periods."""
        ...


class Lease(Protocol):
    """The right to run the pipeline, which one process at a time has."""

    token: int | None

    async def acquire(self, now_ms: int) -> bool: ...

    async def release(self) -> None: ...


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
    live: bool = True


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

    async def project_of_root(self, root: str, label: str) -> str | None: ...

    async def has_project(self, slug: str) -> bool: ...

    async def slugs(self) -> list[str]: ...

    async def projects(self) -> list[ProjectInfo]:
        """All projects with their counts, which takes a look at every event."""
        ...

    async def node(self, project: str, ref: NodeRef, version: int | None = None) -> Node | None: ...

    async def segments_named(self, project: str, beginning: str) -> list[NodeRef]: ...

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

    async def event_ids(self, grip_ids: Sequence[str]) -> dict[str, Event]:
        """The cited event of each grip."""
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

    async def root_of(self, project: str) -> str | None:
        """The root by which the store knows a project."""
        ...

    async def unsummarized(self, project: str | None) -> tuple[int, int]:
        """How many sessions, and how many of their events, are cut into segments that no node speaks of yet."""
        ...

    async def counts(self, quiet_before_ms: int | None = None) -> Counts:
        """`dirty_segments` leaves out open ones in which something was said since; without a time, none."""
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
