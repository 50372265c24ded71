"""What the rest asks of a store. The docstrings are contracts that every engine keeps; one suite states them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from mcp_memory.clients.port import BadLine
from mcp_memory.domain.compaction import Turn
from mcp_memory.domain.events import Event
from mcp_memory.domain.matches import Candidate, Pool, Within
from mcp_memory.domain.nodes import BriefSource, GripRecord, Node, Stale, Words
from mcp_memory.domain.records import Account, Compactions, Record, Rewrite
from mcp_memory.domain.segments import Cutting, SavedCut, SegmentJob, SegmentWrite
from mcp_memory.domain.terms import Term
from mcp_memory.domain.toc import Level, NodeRef, Position
from mcp_memory.errors import LeaseLost


class Clock(Protocol):
    """Tells the time. Tests stand it still."""

    def now_ms(self) -> int: ...


class Backlog(Protocol):
    """What is left to do."""

    async def waits(self, now_ms: int, busy: range, closed_before_ms: int) -> bool:
        """Whether any stage would find work: rows, changed sessions, quiet or closed segments, closed periods."""


class Lease(Protocol):
    """The right to run the pipeline, which one process at a time has."""

    token: int | None

    def holds(self) -> bool:
        """Whether it is still ours, as far as our own clock tells."""

    async def acquire(self) -> bool:
        """Take or renew it. False while another process has it."""

    def kept(self) -> AbstractAsyncContextManager[None]:
        """Renew it for as long as the block runs."""

    async def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Share:
    """What one round may take: the lease it writes under, and when it should come to an end."""

    lease: Lease
    ends: float

    @property
    def token(self) -> int:
        if self.lease.token is None:
            raise LeaseLost("The pipeline was run without its lease.")
        return self.lease.token

    def is_over(self) -> bool:
        """Whether the rest should wait for the next round. Raises if the lease is lost: nothing more can be stored."""
        if not self.lease.holds():
            raise LeaseLost("This process lost the lease of the pipeline; another one goes on.")
        return time.monotonic() >= self.ends


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


class Trial(Protocol):
    """Adds events for the sake of counting them. Nothing is stored."""

    async def add(self, intakes: Sequence[Intake]) -> list[Intake]:
        """What of these would be new, had all that was added to this trial before been stored."""


class EventLog(Protocol):
    """The canonical record. Adding is idempotent: an event known by its key changes nothing."""

    async def inbox(self, limit: int) -> list[InboxRow]: ...

    async def post(self, rows: Iterable[tuple[int, str, str, str, str]], lease_token: int | None = None) -> None:
        """Append to the inbox what the hook could only spool."""

    async def reopen(self, version: str = "") -> None:
        """Let those payloads be read once more of which no form was known; given a version, unless it has done so."""

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

    def trial(self) -> Trial: ...


class SegmentStore(Protocol):
    """Where one session's events are cut, and which segments lack a summary."""

    async def expire(self, before_ms: int) -> None:
        """Mark the sessions whose open segment ended before this time: nothing will join it any more."""

    async def dirty(self, limit: int, overlap_ms: int) -> list[Cutting]: ...

    async def save_cuts(self, cuts: Sequence[SavedCut], lease_token: int) -> None:
        """Store the new segments, take the removed ones and their nodes out of the tree."""

    async def jobs(self, limit: int, busy: range) -> list[SegmentJob]:
        """Segments to summarize, oldest first; without open ones whose last event lies in the `busy` milliseconds."""


class TreeStore(Protocol):
    """The versioned nodes. A write stores node, bullets, grips and index rows, and marks the parent, in one go."""

    async def save_segments(self, writes: Sequence[SegmentWrite], lease_token: int) -> None: ...

    async def mark_closed_periods(self, now_ms: int) -> None:
        """Mark open periods that have closed meanwhile."""

    async def stale(self, level: Level, limit: int) -> list[Stale]: ...

    async def save_rollups(self, rollups: Sequence[tuple[Stale, Node | None]], lease_token: int) -> None:
        """Store the new versions (None: nothing has changed; a node marked removed: nothing is left beneath it).

        A period whose children are not those it was made from any more is left as it is, to be done anew.
        """


class BriefStore(Protocol):
    """The texts that the hook prints at the start of a session."""

    async def outdated(self, limit: int) -> list[BriefSource]: ...

    async def save(self, source: BriefSource, text: str, now_ms: int, lease_token: int) -> None: ...


class CompactionStore(Protocol):
    """The records of sessions, which are only ever added, and which sessions have grown since they were looked at."""

    async def due(self, now_ms: int, limit: int) -> list[Account]: ...

    async def account(self, session_id: str) -> Account | None:
        """The session of this name; of several clients' the one that was active last."""

    async def events(self, account: Account, through: Turn) -> list[Event]:
        """The events after those that records cover, up to and including one."""

    async def tail(self, account: Account, messages: int) -> list[Event]:
        """The latest messages, oldest first."""

    async def save(self, account: Account, record: Record, sources: Sequence[Event]) -> bool:
        """Append the record with its sources and their hashes. False: someone else has made one meanwhile.

        That is enough to keep the chain whole: a model may take longer than a lease lasts.
        """

    async def drop_broken(self, account: Account) -> int:
        """Take out the records whose events are gone or say something else now, with all made from them."""

    async def settle(self, accounts: Sequence[Account], lease_token: int) -> None:
        """Nothing more to do for these, unless they have grown since they were read."""

    async def postpone(self, account: Account, failure: str, until_ms: int, lease_token: int) -> None:
        """Try again later, and remember why it failed."""

    async def keep_text(self, account: Account, text: str, now_ms: int) -> None:
        """What the hook prints when this session goes on."""

    async def summary(self) -> Compactions: ...


class RewriteStore(Protocol):
    """Which records wait for a model, and what it needs to write them."""

    async def waiting(self, since_ms: int, now_ms: int, limit: int) -> list[Rewrite]:
        """Sessions' latest records, the newest first, of sessions that were heard of since then."""

    async def events(self, rewrite: Rewrite) -> list[Event]:
        """The events that the record itself was made from."""

    async def failed(self, rewrite: Rewrite, retry_ms: int) -> None:
        """Leave the record alone until then."""


class Chronicle(Protocol):
    """The tree and the events as they are, or as they were at a position. Every read is by key."""

    async def position(self) -> Position: ...

    async def nodes(self, project: str, refs: Sequence[NodeRef], at: Position | None) -> list[Node]:
        """The nodes that exist, in the order asked for."""

    async def children(self, project: str, ref: NodeRef, at: Position | None, limit: int) -> list[Node]: ...

    async def gone(self, project: str, refs: Sequence[NodeRef], parent: NodeRef, since: Position) -> list[NodeRef]:
        """Which of these nodes and of the parent's children were there at the position and were forgotten since."""

    async def erased(self, since: Position) -> tuple[set[str], set[str]]:
        """The projects that lost a note, and the sessions that lost anything, since the position."""

    async def segments_beside(self, project: str, node: Node, at: Position | None) -> list[Node]:
        """The previous and the next segment of the same session."""

    async def related(self, project: str, node: Node, at: Position | None, limit: int) -> list[Node]:
        """Segments that speak of the same files or entities, those that share most first."""

    async def pinned(self, project: str, at: Position | None) -> list[Event]: ...

    async def event(self, key: bytes, at: Position | None) -> Words | None:
        """An event by its key, or the one that a grip cites by the grip's."""

    async def last_segment(self, session_id: str, at: Position | None) -> tuple[str, NodeRef] | None:
        """Project and place of a session's latest segment."""

    async def records(self, session_id: str, at: Position | None) -> list[Record]:
        """A session's chain, oldest first, without what was refreshed."""

    async def tail(self, session_id: str, messages: int, at: Position | None) -> list[Event]:
        """A session's latest messages, oldest first."""

    async def sessions_named(self, beginning: str) -> list[str]:
        """The sessions whose name begins so; two are enough to tell that it is not unique."""

    async def own_summary(self, session_id: str, at: Position | None) -> Event | None:
        """What the client itself wrote when it last compacted this session."""


class SearchIndex(Protocol):
    """Finds events and nodes by their words. A grip is found by the event it cites.

    An identifier is found however it is written, a word in any regular form and with or without accents, unspaced
    scripts by pairs of characters. What was forgotten, replaced or removed is not found.
    """

    async def search(
        self, terms: Sequence[Term], within: Within, *, kinds: frozenset[str] | None, limit: int
    ) -> list[Candidate]:
        """The best documents for any of these terms, best first, of these kinds, of this project and time."""

    async def pool(self, terms: Sequence[Term], within: Within, *, cited: bool, limit: int, speaker: str = "") -> Pool:
        """The events that are worth ranking for these terms; with `cited`, only those that a grip cites.

        `speaker` is the role whose words are meant, if the question tells: there common terms are sought as well. The
        work is bounded by `limit` and by how often the rarer terms occur, never by the length of history.
        """


@dataclass(frozen=True, slots=True)
class IndexState:
    """Which index answers, how it stands to the database, and the bytes of its own files, if it has some."""

    kind: str
    state: str
    own_bytes: int = 0


class IndexKeeper(Protocol):
    """Brings an index into step that is not written together with the data.

    It goes by what is in the database, so that doing it twice changes nothing and a crash loses nothing.
    """

    async def behind(self) -> bool:
        """Whether there is anything to bring into step."""

    async def catch_up(self) -> int:
        """Take a bounded step; returns how much was done, 0 if nothing is left or another process is at it."""

    async def state(self) -> IndexState: ...


T = TypeVar("T")


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

    async def project_of_root(self, root: str, label: str) -> str | None: ...

    async def has_project(self, slug: str) -> bool: ...

    async def slugs(self) -> list[str]: ...

    async def projects(self) -> list[ProjectInfo]:
        """All projects with their counts, which takes a look at every event."""

    async def node(self, project: str, ref: NodeRef) -> Node | None: ...

    async def nodes_named(self, project: str, level: Level, beginning: str, limit: int) -> list[NodeRef]:
        """The nodes of a level whose key begins so, the latest first."""

    async def grips_between(self, project: str, start_ms: int, end_ms: int, limit: int) -> list[str]:
        """The ids of the grips that bullets cite, of what was said in the time, those of the latest segments first."""

    async def sessions_of(self, project: str, beginning: str, limit: int) -> list[str]:
        """The project's sessions whose name begins so, those that were stored last first."""

    async def history(self, project: str, ref: NodeRef) -> list[Node]: ...

    async def children(self, project: str, ref: NodeRef, *, bullets: bool = True) -> list[Node]: ...

    async def neighbours(self, project: str, ref: NodeRef) -> tuple[str | None, str | None]:
        """The ids of the previous and the next node of the same level."""

    async def top(self, project: str | None, level: Level, limit: int, *, bullets: bool = True) -> list[Node]:
        """The latest nodes of a level, newest first; of all projects if none is given. Titles alone are read faster."""

    async def between(self, project: str | None, level: Level, start_ms: int, end_ms: int, limit: int) -> list[Node]:
        """The nodes of a level that touch the time, oldest first."""

    async def grip(self, key: bytes, before: int, after: int) -> GripRecord | None: ...

    async def keys(self, beginning: bytes) -> list[bytes]:
        """The keys of grips and events that begin so; two are enough to tell that it is not unique."""

    async def cited_by(self, grip_ids: Sequence[str]) -> dict[str, Event]:
        """The event that each grip cites; grips whose event is gone are left out."""

    async def known(self, words: Sequence[str]) -> dict[str, int]:
        """In how many documents these words occur, counted up to a few; those that occur nowhere are left out."""

    async def events(self, numbers: Sequence[int]) -> dict[int, Candidate]:
        """Events by the store's own numbers, with their segments and the grips that cite them."""

    async def events_after(self, number: int, project: str | None, limit: int) -> list[tuple[int, Event]]:
        """All events in the order they were stored, from the one after the store's own number on."""

    async def is_silent(self, within: Within) -> bool:
        """Whether nothing at all was said there. Where much was said, it may be taken that some of it was."""

    async def root_of(self, project: str) -> str | None:
        """The root by which the store knows a project."""

    async def unsummarized(self, project: str | None) -> tuple[int, int]:
        """How many sessions, and how many of their events, are cut into segments that no node speaks of yet."""

    async def counts(self, busy: range = range(0)) -> Counts:
        """`dirty_segments` leaves out open ones whose last event lies in the `busy` milliseconds."""


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
