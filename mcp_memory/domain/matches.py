"""What an index offers for a question, before it is ranked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.terms import Columns, Term

#: How many occurrences of terms one question may scan, beyond its rarest term.
SCANNED = 40_000
#: How many of them in the words of anyone: so many, or this share of all documents.
ANYWHERE, SHARE = 600, 20
#: Among so many of the best other words are looked for, where what was offered is said over and over.
DEEPEST = 5_000


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


@dataclass(frozen=True, slots=True)
class Ranked:
    """What an index with files of its own found: the numbers of its documents, best first.

    Of all `documents` there are `counts` in which each term occurs, by its expression.
    """

    numbers: Sequence[int]
    counts: dict[str, int]
    documents: int


class Standing(Enum):
    """How an index with files of its own stands to the store."""

    CURRENT = "current"
    #: Something was added to the store since.
    BEHIND = "behind"
    #: Something was erased from the store since, and is still in the index.
    ERASED = "holds what was erased"
    #: There is none that could be used: none at all, a damaged one, or one of another store or version.
    UNUSABLE = "to be built"


@dataclass(frozen=True, slots=True)
class IndexState:
    """Which index answers, how it stands to the store, and the bytes of its own files, if it has some."""

    kind: str
    state: str
    own_bytes: int = 0


@dataclass(frozen=True, slots=True)
class IndexDocument:
    """An event or a node to be found by its words, which are taken apart only where they are needed."""

    number: int
    at: int
    is_event: bool
    columns: Callable[[], Columns]


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """What is to be done to an index that stands so to the store, and the position that it then has reached.

    Of one that holds what was erased only the `kept` may stay. Of others the replaced documents are taken out, and the
    new ones put in; one that cannot be used is emptied before.
    """

    standing: Standing
    position: str
    documents: Sequence[IndexDocument] = ()
    replaced: Sequence[int] = ()
    kept: frozenset[int] = frozenset()


def anywhere(documents: int) -> int:
    """How many occurrences may be scanned in the words of anyone, of so many documents."""
    return max(ANYWHERE, min(documents // SHARE, SCANNED))


def scannable(terms: Sequence[Term], counts: Mapping[str, int], most: int = SCANNED) -> list[Term]:
    """The rarer terms, as many as may be scanned; always the rarest that occurs, and another one if it can be."""
    chosen: list[Term] = []
    scanned = 0
    for term in sorted(terms, key=lambda term: counts[term.match]):
        count = counts[term.match]
        if count and (not chosen or scanned + count <= (most if len(chosen) > 1 else SCANNED)):
            chosen.append(term)
            scanned += count
    return chosen
