"""What the rest asks of a store. The docstrings are contracts that every engine keeps; one suite states them all.

    ReadStore ── what is read; `at_once` hands one out that stays at one moment
    Store ────── that, and all that is written; of sharing in sharing_port
Numbers of rows (`session`, `project`, `number`) are the store's own: they come from it and go back to it, no more.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mcp_memory.domain.events import Event, EventQuery, Intake, TurnOutline
from mcp_memory.domain.failures import FailedWork, Failure
from mcp_memory.domain.forget import ForgetCounts, ForgetRequest, ForgetScope
from mcp_memory.domain.inventory import (
    Counts,
    DayActivity,
    FileActivity,
    IndexState,
    ProjectActivity,
    SessionInfo,
    SessionQuery,
    Stretch,
)
from mcp_memory.domain.nodes import BriefSource, Grip, GripRecord, Node, NodeQuery, Revising, Stale, Upgrade, Words
from mcp_memory.domain.projects import Claim, ProjectInfo
from mcp_memory.domain.records import Account, Compactions, Record, Rewrite
from mcp_memory.domain.segments import Cutting, SavedCut, SegmentJob, SegmentWrite
from mcp_memory.domain.terms import IndexChanges, IndexEntry, Pool, Ranked, Standing, Term, Within
from mcp_memory.domain.toc import Level, NodeRef, Position
from mcp_memory.domain.tombstones import TombstoneKey, TombstoneRows, Tombstones
from mcp_memory.errors import LeaseLost
from mcp_memory.models.port import Ledger, Prices
from mcp_memory.store.sharing_port import SharedLog

T = TypeVar("T")
#: Tells what of events would be new, had all that it was given before been stored. Nothing is.
Trial = Callable[[Sequence[Intake]], Awaitable[list[Intake]]]


class Clock(Protocol):
    """Tells the time. Tests stand it still."""

    def now_ms(self) -> int: ...


class SearchIndex(Protocol):
    """Finds events and nodes by their words. A grip is found by the event it cites.

    An identifier is found however it is written, a word in any regular form and with or without accents, unspaced
    scripts by pairs of characters. What was forgotten, replaced or removed is not found.
    """

    async def search(
        self, terms: Sequence[Term], within: Within, *, kinds: frozenset[str] | None, limit: int
    ) -> list[IndexEntry]:
        """The best documents for any of these terms, best first, of these kinds, of this project and time."""

    async def pool(self, terms: Sequence[Term], within: Within, *, cited: bool, limit: int) -> Pool:
        """What of a bounded search is worth ranking for these terms; with `cited`, only events that a grip cites."""


class ReadStore(SearchIndex, Protocol):
    """What can be read. No method reads more than its answer needs."""

    async def at_once(self, work: Callable[[ReadStore], Coroutine[Any, Any, T]]) -> T:
        """What `work` reads for one answer, as of one moment, in one go: it must not wait for anything else."""

    async def position(self) -> Position:
        """The present place in the log, for views of it later on. What is committed later lies after it."""

    # projects and sessions

    async def project_of_root(self, root: str, label: str, remote: str = "") -> str | None: ...

    async def has_sessions(self, project: str) -> bool:
        """Whether a project holds sessions that were captured or imported, and not only notes."""

    async def remotes(self) -> dict[str, str]:
        """By which remote projects are known on every machine, by their slugs; the others have none."""

    async def root_of(self, project: str) -> str | None:
        """The root by which the store knows a project; None if it does not."""

    async def slugs(self) -> list[str]: ...

    async def projects(self) -> list[ProjectInfo]:
        """All projects with their counts, which takes a look at every event."""

    async def sessions(self, beginning: str, limit: int, project: str | None = None) -> list[str]:
        """The names of sessions that begin so, those that were stored last first."""

    async def continues(self, session_id: str) -> list[str]:
        """The sessions that keep what this one only repeats, since it resumed or forked them; the latest last."""

    async def clients_of(self, session_id: str) -> list[str]:
        """Return the clients that call a session so; two of them may have chosen the same name."""
        ...

    async def last_segment(self, session_id: str) -> tuple[str, NodeRef] | None:
        """Project and place of a session's latest segment."""

    async def records(self, session_id: str, at: Position | None) -> list[Record]:
        """A session's chain of records, oldest first, without what was refreshed."""

    # nodes

    async def nodes(self, query: NodeQuery) -> list[Node]: ...

    async def neighbours(self, project: str, ref: NodeRef) -> tuple[str | None, str | None]:
        """The ids of the previous and the next node of the same level."""

    async def segments_beside(self, project: str, node: Node, at: Position | None) -> list[Node]:
        """The previous and the next segment of the same session."""

    async def related(self, project: str, node: Node, at: Position | None, limit: int) -> list[Node]:
        """Segments that speak of the same files or entities, those that share most first."""

    async def gone(self, project: str, refs: Sequence[NodeRef], parent: NodeRef, since: Position) -> list[NodeRef]:
        """Which of these nodes and of the parent's children were there at the position and were forgotten since."""

    async def erased(self, since: Position) -> tuple[set[str], set[str]]:
        """The projects that lost a note, and the sessions that lost anything, since the position."""

    async def unsummarized(self, project: str | None) -> tuple[int, int]:
        """How many sessions, and how many events, are cut into segments that no node speaks of yet.

        Notes count as events alone.
        """

    # events and grips

    async def events(self, query: EventQuery) -> list[Event]: ...

    async def log(self, after: int, project: str | None, limit: int) -> list[tuple[int, Event]]:
        """All events in the order they were stored, each with its number, from the one after a number on."""

    async def words(self, key: bytes, at: Position | None) -> Words | None:
        """An event by its key, or the one that a grip cites by the grip's."""

    async def grip(self, key: bytes, before: int, after: int) -> GripRecord | None:
        """A grip, or an event as one, with what was said around it in its session."""

    async def keys(self, beginning: bytes) -> list[bytes]:
        """The keys of grips and events that begin so; two are enough to tell that it is not unique."""

    async def cited_by(self, grip_ids: Sequence[str]) -> dict[str, Event]:
        """The event that each grip cites; grips whose event is gone are left out."""

    async def grips_between(self, project: str, start_ms: int, end_ms: int, limit: int) -> list[str]:
        """The ids of the grips that bullets cite, of what was said in the time, those of the latest segments first."""

    async def edits(self, name: str, tools: Collection[str], within: Within, limit: int) -> list[list[Event]]:
        """The latest calls of these tools, and commits, whose first line holds a file's name; not those that failed.

        They come by turn, the latest first, in a turn in order; of a common name only those that were stored last.
        """

    async def turn_of(self, key: bytes) -> TurnOutline: ...

    # search, besides what the index finds

    async def candidates(self, numbers: Sequence[int]) -> dict[int, IndexEntry]:
        """Events by their numbers, with their segments and the grips that cite them."""

    async def closings(self, turns: Sequence[int]) -> dict[int, Event]:
        """With what the agent ended each turn, by the number of the user's message that opened it."""

    async def following(self, turns: Sequence[int]) -> dict[int, tuple[int, Event]]:
        """What the user said next after each turn, with its number, by the number of the message that opened it."""

    async def known(self, words: Sequence[str]) -> dict[str, int]:
        """In how many documents these words occur, counted up to a few; those that occur nowhere are left out."""

    async def is_silent(self, within: Within) -> bool:
        """Whether nothing at all was said there. Where much was said, it may be taken that some of it was."""

    # what people look through

    async def active_days(self, project: str | None) -> list[DayActivity]: ...

    async def active_projects(self) -> list[ProjectActivity]: ...

    async def clients(self) -> list[str]: ...

    async def people(self) -> list[str]: ...

    async def session_list(self, query: SessionQuery) -> list[SessionInfo]: ...

    async def changed_files(self, project: str | None, tools: Collection[str], limit: int) -> list[FileActivity]:
        """The files that these tools changed last, among the latest few thousand events."""

    async def written_after(self, version: int, limit: int) -> list[Node]: ...

    async def stretch(self, session_id: str, around: bytes | None, before: int, after: int) -> Stretch:
        """A session's events before an event and from it on, by its key; without one from the beginning or the end."""

    async def events_to_forget(self, request: ForgetRequest, limit: int, offset: int = 0) -> list[Event]:
        """The events that `Store.forget` would erase, page by page, in the order in which they were stored."""

    async def counts(self, busy: range = range(0)) -> Counts:
        """`dirty_segments` leaves out open ones whose last event lies in the `busy` milliseconds."""

    async def compactions(self) -> Compactions: ...


class Lease(Protocol):
    """The right to do one kind of work, which one process at a time has."""

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


class IndexSource(Protocol):
    """What an index with files of its own takes from a store. Positions and numbers are the store's own."""

    async def index_standing(self, held: str | None) -> Standing:
        """How an index that has reached this position, or none, stands to the store."""

    async def index_changes(self, held: str | None, limit: int) -> IndexChanges:
        """What is to be done to it next: at most so many events and so many nodes are new, or what was erased goes."""

    async def matches(self, best: Ranked, within: Within, kinds: frozenset[str] | None, limit: int) -> list[IndexEntry]:
        """The first of these documents that are of these kinds, of this project and time."""

    async def pool_of(self, terms: Sequence[Term], found: Ranked, within: Within, *, cited: bool, limit: int) -> Pool:
        """What `SearchIndex.pool` offers, of events that an index found in the time."""


class IndexKeeper(Protocol):
    """Brings an index into step. Doing it twice changes nothing, and a crash loses nothing."""

    async def behind(self) -> bool: ...

    async def catch_up(self) -> int:
        """Take a bounded step; returns how much was done, 0 if nothing is left or another process is at it."""

    async def state(self) -> IndexState: ...


class FiledIndex(IndexKeeper, Protocol):
    """An index with files of its own."""

    def over(self, source: IndexSource, otherwise: SearchIndex) -> SearchIndex:
        """The index for whoever reads one moment of a store, in the thread that does; it waits for nothing else.

        While its files are not in step with that moment, the other index answers.
        """


class Store(ReadStore, SharedLog, Protocol):
    """A memory: what can be read, and all else that is asked of it."""

    # the canonical record: adding is idempotent, an event known by its key changes nothing

    async def add(
        self, intakes: Sequence[Intake], *, compacting: Sequence[tuple[str, str]] = (), lease_token: int | None = None
    ) -> int:
        """Store what is new, index it, mark its sessions for cutting: all in one transaction.

        `compacting` are sessions, by client and name, of which a record is wanted now. Returns how many were new.
        """

    async def pin(self, key: bytes, pinned: bool) -> bool:
        """Pin a note, or unpin it, and mark its project's brief to be written anew. False: there is no such note."""

    def trial(self) -> Trial: ...

    async def identity(self) -> tuple[str, int]:
        """The name of this memory, and how far its log reaches: less than before tells of an earlier state of it."""

    # where one session's events are cut, and which segments lack a summary

    async def expire(self, before_ms: int) -> None:
        """Mark the sessions whose open segment ended before this time: nothing will join it any more."""

    async def dirty(self, limit: int, overlap_ms: int) -> list[Cutting]:
        """The sessions that have changed since they were cut."""

    async def save_cuts(self, cuts: Sequence[SavedCut], lease_token: int, revising: Revising | None = None) -> None:
        """Store the new segments, take the removed ones and their nodes out of the tree."""

    async def jobs(self, limit: int, busy: range) -> list[SegmentJob]:
        """Segments to summarize, oldest first; without open ones whose last event lies in the `busy` milliseconds."""

    async def jobs_of(self, segments: Sequence[bytes]) -> list[SegmentJob]:
        """The same of these segments, by their keys, whatever they hold."""

    # the versioned nodes: a write stores node, bullets, grips and index rows, and marks the parent, in one go

    async def save_segments(
        self, writes: Sequence[SegmentWrite], lease_token: int, revising: Revising | None = None
    ) -> None:
        """Store the nodes of segments; one that was cut anew meanwhile is left to be summarized again."""

    async def mark_closed_periods(self, now_ms: int) -> None:
        """Mark open periods that have closed meanwhile."""

    async def stale(self, level: Level, limit: int) -> list[Stale]: ...

    async def save_rollups(
        self, rollups: Sequence[tuple[Stale, Node | None]], lease_token: int, revising: Revising | None = None
    ) -> None:
        """Store the new versions (None: nothing has changed; a node marked removed: nothing is left beneath it).

        A period whose children are not those it was made from any more is left as it is, to be done anew.
        """

    # what an earlier revision of the extractive summarizer wrote

    async def outdated(self, revision: int, limit: int) -> tuple[list[SegmentJob], list[Stale]]:
        """What to write anew next, newest first: segments, and periods beneath which nothing is outdated.

        A segment that has changed is left to `jobs`, and what a model wrote is left alone.
        """

    async def outdated_sessions(
        self, revision: int, limit: int, overlap_ms: int, seen: Collection[int]
    ) -> list[Cutting]:
        """Some sessions of these segments, to be cut as a whole; none that was seen, or of which a model wrote."""

    async def upgrades(self, limit: int, now_ms: int) -> list[Upgrade]:
        """The next nodes that a model should write, newest first; a period only when nothing beneath it waits."""

    async def upgrade_job(self, upgrade: Upgrade) -> SegmentJob | None:
        """What a segment's summary is made from."""

    async def save_upgrade(self, upgrade: Upgrade, node: Node, session: int | None, grips: Sequence[Grip]) -> bool:
        """Store the version, unless the node has changed meanwhile. A closed parent is left to its own upgrade."""

    async def postpone_upgrade(self, upgrade: Upgrade, retry_ms: int) -> None:
        """Leave the node alone until then, unless it changes."""

    async def upgrade_backlog(self, now_ms: int) -> list[tuple[Level, int]]:
        """Level and input tokens of every node that waits, or will once those beneath it are written."""

    async def unwritten_segments(self) -> list[tuple[int, int, int]]:
        """Project, start and tokens of the finished segments that are not in the tree as they are now."""

    # the records of sessions, which are only ever added, and which sessions have grown since they were looked at

    async def accounts_due(self, now_ms: int, limit: int) -> list[Account]: ...

    async def account(self, session_id: str) -> Account | None:
        """The session of this name; of several clients' the one that was active last."""

    async def save_record(self, account: Account, record: Record, sources: Sequence[Event]) -> bool:
        """Append the record with its sources and their hashes. False: someone else has made one meanwhile."""

    async def drop_broken_records(self, account: Account) -> int:
        """Take out the records whose events are gone or say something else now, with all made from them."""

    async def settle_accounts(self, accounts: Sequence[Account], lease_token: int) -> None:
        """Nothing more to do for these, unless they have grown since they were read."""

    async def rewrites(self, since_ms: int, now_ms: int, limit: int) -> list[Rewrite]:
        """Sessions' latest records that wait for a model, newest first, of sessions that were heard of since then."""

    async def postpone_rewrite(self, rewrite: Rewrite, retry_ms: int) -> None:
        """Leave the record alone until then."""

    # which projects need a new text for the start of a session; the texts themselves are local to a machine

    async def outdated_briefs(self, limit: int) -> list[BriefSource]: ...

    async def renew_brief(self, project: str) -> None: ...

    async def settle_brief(self, source: BriefSource, lease_token: int) -> None:
        """The text was written, unless the project is met by another place meanwhile."""

    # what failed for one session or period, and does not keep the rest waiting

    async def set_aside(
        self, failures: Sequence[Failure], now_ms: int, lease_token: int, revision: int | None = None
    ) -> None:
        """Take failed work out of its queue and keep the reason, unless its inputs have changed meanwhile.

        With a `revision`, nodes that are there stay as if they were of that revision. What succeeds later is dropped.
        """

    async def retry_failures(self, *, all_versions: bool = False) -> int:
        """Put back what failed in an earlier version of the program, or in any; returns how much."""

    async def failures(self) -> list[FailedWork]:
        """What is set aside, the oldest first."""

    # when there is work, and which process does it

    def lease(self, name: str = "pipeline") -> Lease: ...

    async def has_work(self, now_ms: int, busy: range, closed_before_ms: int, revision: int = 0) -> bool:
        """Whether any stage would find something to do; given a `revision`, also nodes of an earlier one."""

    def ledger(self, clock: Clock, zone: tzinfo, cap: int, prices: Prices) -> Ledger:
        """What calls to models cost. A day is one of the zone, and has room for `cap` tokens."""

    async def changes(self, *, own: bool = False) -> int:
        """A number that is another one whenever someone else has written; with `own` also when we have."""

    async def timezone(self, preferred: str) -> str:
        """The zone whose days the tree is made of: chosen once, kept until a rebuild."""

    async def rebuild(self, timezone: str) -> None:
        """Drop all that is derived, so that the pipeline makes it anew from the events."""

    async def mend(self, timezone: str) -> bool:
        """Index everything anew, and drop what is derived where it is not whole. Whether the tree was kept."""

    async def forget(
        self, request: ForgetRequest, *, dry_run: bool, now_ms: int | None = None
    ) -> tuple[ForgetCounts, ForgetScope]:
        """Forget in one transaction, for good, with all that was made of it. A dry run counts and changes nothing.

        What falls under the request and is dated before `now_ms` is refused from then on.
        """

    async def erasure_marks(self) -> list[str]:
        """Return a mark for each of the latest erasures, the last one last."""

    async def tombstones(self) -> Tombstones:
        """Count what is refused because it was forgotten."""

    async def tombstone_rows(self, known: Sequence[str] = ()) -> tuple[TombstoneRows, TombstoneKey | None, str]:
        """Return the tombstones but those of known runs of `forget`, their key, and the last erasure's mark."""

    async def apply_tombstones(self, rows: TombstoneRows) -> ForgetCounts:
        """Add tombstones, and forget what falls under them: an older memory may have it again."""

    async def lift(self, name: str) -> bool:
        """Let what a run of `forget` refuses come in again; return whether there is such a run."""

    async def scrub(self, wait_ms: int = 0) -> str:
        """Take what was erased out of the files; what keeps it there for now, or nothing."""

    def unreached(self) -> str:
        """Return where erased words may stay that `scrub` cannot reach, and how they go there; nothing if nowhere."""

    async def rename(self, old: str, new: str) -> str:
        """Give a project another slug, and return it."""

    async def merge(self, source: str, target: str) -> int:
        """Move all sessions of one project into another; returns how many."""

    async def split(self, slug: str, roots: Sequence[str]) -> dict[str, str]:
        """Take places out of a project, or all that a remote joined to it; each with the slug that it has now."""

    async def trust(self, root: str, label: str, remote: str = "") -> Claim:
        """Let the name that a directory claims count from now on. What was captured until then stays where it is."""

    async def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """A complete copy as of now, readable by this program. A worker thread tells how much is done, and of what."""

    async def retire(self, now_ms: int) -> int:
        """Let go of some of what is kept no longer; 0 if nothing of it is left, or all is kept."""

    async def refresh_backups(self, keep: int, clock: Clock) -> None:
        """Make a checked copy of its own if one is due, and keep the newest so many."""

    def copies(self) -> list[Path]:
        """All copies that the program made of the memory: what is forgotten must go from them too."""

    def is_replaced(self) -> bool:
        """Whether what was opened is no longer what is there under its name."""
