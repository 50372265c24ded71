"""The interfaces of session records and of context assembly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.compaction import Asked, Turn
from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.records import Facets, Record
from mcp_memory.domain.toc import NodeRef, Position


class FacetFinder(Protocol):
    """Finds decisions, action items, unresolved questions, participants and entities, without a model."""

    def find(self, events: Sequence[Event]) -> Facets: ...

    def points(self, events: Sequence[Event]) -> tuple[str, ...]:
        """Statements whose numbers and names a summary of a few lines would lose, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Account:
    """A session as compaction sees it: its chain of records, oldest first, and the events that none of them covers."""

    session: int
    session_key: bytes
    client: str
    session_id: str
    project: str
    chain: tuple[Record, ...]
    turns: tuple[Turn, ...]
    asked: Asked = ""
    seq: int = 0

    @property
    def last(self) -> Record | None:
        return self.chain[-1] if self.chain else None


class CompactionStore(Protocol):
    """The records of sessions, which are only ever added, and which sessions have grown since they were looked at."""

    async def due(self, now_ms: int, limit: int) -> list[Account]: ...

    async def account(self, session_id: str) -> Account | None:
        """The session of this name; of several clients' the one that was active last."""
        ...

    async def events(self, account: Account, through: Turn) -> list[Event]:
        """The events after those that records cover, up to and including one."""
        ...

    async def tail(self, account: Account, messages: int) -> list[Event]:
        """The latest messages, oldest first."""
        ...

    async def save(self, account: Account, record: Record, sources: Sequence[Event]) -> bool:
        """Append the record with its sources and their hashes. False: someone else has made one meanwhile.

        That is enough to keep the chain whole: a model may take longer than a lease lasts.
        """
        ...

    async def drop_broken(self, account: Account) -> int:
        """Take out the records whose events are gone or say something else now, with all made from them."""
        ...

    async def settle(self, accounts: Sequence[Account], lease_token: int) -> None:
        """Nothing more to do for these, unless they have grown since they were read."""
        ...

    async def postpone(self, account: Account, failure: str, until_ms: int, lease_token: int) -> None:
        """Try again later, and remember why it failed."""
        ...

    async def keep_text(self, account: Account, text: str, now_ms: int) -> None:
        """What the hook prints when this session goes on."""
        ...

    async def summary(self) -> Compactions: ...


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A record, the last of its account, that a model should write anew. `number` is the store's own of it.

    `replaced` is the record whose place it took, `tokens` what a model would have to read, `failures` how often one
    has failed at it.
    """

    number: int
    account: Account
    replaced: Record | None
    tokens: int
    failures: int = 0

    @property
    def record(self) -> Record:
        return self.account.chain[-1]

    @property
    def parent(self) -> Record | None:
        return self.account.chain[-2] if len(self.account.chain) > 1 else None


class RewriteStore(Protocol):
    """Which records wait for a model, and what it needs to write them."""

    async def waiting(self, since_ms: int, now_ms: int, limit: int) -> list[Rewrite]:
        """Sessions' latest records, the newest first, of sessions that were heard of since then."""
        ...

    async def events(self, rewrite: Rewrite) -> list[Event]:
        """The events that the record itself was made from."""
        ...

    async def failed(self, rewrite: Rewrite, retry_ms: int) -> None:
        """Leave the record alone until then."""
        ...


@dataclass(frozen=True, slots=True)
class Compactions:
    """How compaction goes: how many records there are, the latest with their sessions, and what failed last."""

    records: int
    sessions: int
    waiting: int
    latest: tuple[tuple[Record, str], ...]
    failed: str


@dataclass(frozen=True, slots=True)
class Words:
    """An event, what a grip cites of it (nothing: all of it), and its segment."""

    event: Event
    excerpt: str
    segment: NodeRef | None


class Chronicle(Protocol):
    """The tree and the events as they are, or as they were at a position. Every read is by key."""

    async def position(self) -> Position: ...

    async def nodes(self, project: str, refs: Sequence[NodeRef], at: Position | None) -> list[Node]:
        """The nodes that exist, in the order asked for."""
        ...

    async def children(self, project: str, ref: NodeRef, at: Position | None, limit: int) -> list[Node]: ...

    async def gone(self, project: str, refs: Sequence[NodeRef], parent: NodeRef, since: Position) -> list[NodeRef]:
        """Which of these nodes and of the parent's children were there at the position and were forgotten since."""
        ...

    async def erased(self, since: Position) -> tuple[set[str], set[str]]:
        """The projects that lost a note, and the sessions that lost anything, since the position."""
        ...

    async def segments_beside(self, project: str, node: Node, at: Position | None) -> list[Node]:
        """The previous and the next segment of the same session."""
        ...

    async def related(self, project: str, node: Node, at: Position | None, limit: int) -> list[Node]:
        """Segments that speak of the same files or entities, those that share most first."""
        ...

    async def pinned(self, project: str, at: Position | None) -> list[Event]: ...

    async def event(self, key: bytes, at: Position | None) -> Words | None:
        """An event by its key, or the one that a grip cites by the grip's."""
        ...

    async def last_segment(self, session_id: str, at: Position | None) -> tuple[str, NodeRef] | None:
        """Project and place of a session's latest segment."""
        ...

    async def records(self, session_id: str, at: Position | None) -> list[Record]:
        """A session's chain, oldest first, without what was refreshed."""
        ...

    async def tail(self, session_id: str, messages: int, at: Position | None) -> list[Event]:
        """A session's latest messages, oldest first."""
        ...

    async def sessions_named(self, beginning: str) -> list[str]:
        """The sessions whose name begins so; two are enough to tell that it is not unique."""
        ...

    async def own_summary(self, session_id: str, at: Position | None) -> Event | None:
        """What the client itself wrote when it last compacted this session."""
        ...
