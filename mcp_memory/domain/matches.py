"""What an index offers for a question, before it is ranked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Node


@dataclass(frozen=True, slots=True)
class Within:
    """Where to look: in one project or all, in a time or at any. The end is not part of the time."""

    project: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def everywhere(self) -> bool:
        return self.project is None and self.start_ms is None and self.end_ms is None


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A document of the index: a node, or an event with the first grip that cites it and its segment."""

    document: Event | Node
    grip_id: str = ""
    segment_id: str = ""

    @property
    def event(self) -> Event | None:
        return self.document if isinstance(self.document, Event) else None

    @property
    def node(self) -> Node | None:
        return self.document if isinstance(self.document, Node) else None

    @property
    def project(self) -> str:
        return self.document.project

    @property
    def kind(self) -> str:
        return self.document.level.label if isinstance(self.document, Node) else "event"


class Message(NamedTuple):
    """An event as ranking sees it: no more than what is needed to weigh it. `number` is the store's own."""

    number: int
    session: int
    timestamp_ms: int
    kind: str
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Pool:
    """What the index offers for a question.

    `messages` come best first; after the first `matched` of them come those that only stand beside one. `beside`
    names, for the best messages, those just before and after each. `frequencies` tells in how many of all `documents`
    each term occurs, by its expression; exact where it is rare.
    """

    messages: tuple[Message, ...]
    matched: int
    beside: Mapping[int, tuple[int, ...]]
    frequencies: Mapping[str, int]
    documents: int

    def merged(self, other: Pool) -> Pool:
        """Both pools as one, each message once, with the other's frequencies."""
        matched = {each.number: each for pool in (self, other) for each in pool.messages[: pool.matched]}
        rest = {each.number: each for pool in (self, other) for each in pool.messages if each.number not in matched}
        messages = (*matched.values(), *rest.values())
        return Pool(messages, len(matched), {**self.beside, **other.beside}, other.frequencies, other.documents)
