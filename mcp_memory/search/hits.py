"""What a search is asked for and what it gives: a query, and hits with the passage that matters and where to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mcp_memory.domain.events import Event, parse_ulid
from mcp_memory.domain.matches import Candidate, Within
from mcp_memory.domain.nodes import Node, event_grip_id
from mcp_memory.domain.toc import Level, Scope
from mcp_memory.errors import UsageError
from mcp_memory.search.passages import Passage, passage_of, passages_of
from mcp_memory.search.question import Places, Question
from mcp_memory.search.scoring import Weighed
from mcp_memory.store.port import ReadStore
from mcp_memory.times.resolve import TimeRange

#: Which end of a time is asked for, if either.
Order = Literal["", "first", "last"]

#: How that is said; without it, what there was is told as it happened.
TOLD: dict[Order, str] = {"": "in order of time", "first": "in order of time", "last": "latest first"}

#: The kinds of nodes, from segments up.
LEVELS = tuple(level.label for level in reversed(Level))
KINDS = ("event", "grip", *LEVELS)


@dataclass(frozen=True, slots=True)
class Search:
    """A search as a user asks for it: the time in words, the place in the list as an earlier answer's cursor."""

    query: str
    project: str | None = None
    when: str | None = None
    kind: str | None = None
    limit: int = 10
    cursor: str | None = None
    diverse: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """A search as it is understood: what to look for, where, and which part of the list to give.

    What was said outside of `when` is left out; what was said within `favoured` comes before its equals. With
    `diverse`, hits are spread over sessions. `order` says which end of a time is asked for, if nothing else is.
    """

    scope: Scope
    query: str
    when: TimeRange | None = None
    favoured: TimeRange | None = None
    kind: str | None = None
    limit: int = 10
    offset: int = 0
    diverse: bool = False
    order: Order = ""

    @property
    def end(self) -> int:
        """Where the wanted part of the list ends."""
        return self.offset + self.limit

    @property
    def time(self) -> TimeRange | None:
        """The time that is asked about, whether it is a must or a preference."""
        return self.when or self.favoured

    def within(self, time: TimeRange | None) -> Within:
        """The project that is asked about, in this time."""
        project = self.scope.project
        return Within(project, time.start_ms, time.end_ms) if time else Within(project)


def offset_of(cursor: str | None) -> int:
    """The position in a list that a cursor stands for; callers need not know what it looks like."""
    if not cursor:
        return 0
    if cursor.startswith("at:") and cursor[3:].isdigit() and len(cursor) < 12:
        return int(cursor[3:])
    raise UsageError(f"{cursor[:40]!r} is not a cursor of this answer; leave it out to start at the beginning.")


def cursor_of(offset: int | None) -> str | None:
    return f"at:{offset}" if offset is not None else None


#: What to do with a hit, by the least score that calls for it.
BANDS = ((0.8, "jump"), (0.5, "verify"), (0.3, "compare"), (0.0, "browse"))


@dataclass(frozen=True, slots=True)
class Reply:
    """What was answered to a hit, and the part of it that matters."""

    event: Event
    passage: Passage
    event_id: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "event_id", self.event.event_id)


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage, with what it matched where to go on, and the reply to it."""

    id: str
    kind: str
    title: str
    passage: Passage
    score: float
    matched: tuple[str, ...]
    missing: tuple[str, ...]
    project: str
    session_id: str | None
    start_ms: int
    role: str
    grip_id: str
    node_id: str
    event_ids: tuple[str, ...]
    source_ids: tuple[str, ...]
    reply: Reply | None = None

    @property
    def band(self) -> str:
        return next(name for floor, name in BANDS if self.score >= floor)


@dataclass(frozen=True, slots=True)
class Advice:
    """What to try instead: known words for unknown ones, days to browse, when there is a hit outside of the time.

    The days are the latest or, if `nearest`, those nearest to the time that was asked for.
    """

    near: Mapping[str, tuple[str, ...]]
    days: tuple[str, ...] = ()
    anytime_ms: int | None = None
    nearest: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """The hits of a question.

    `more` is where the list goes on, if it does; `elsewhere` counts the hits in other projects. `weights` says how
    much each unit of the question tells; `note` is why there can be no hit.
    """

    query: str
    when: TimeRange | None
    hits: list[Hit]
    more: int | None = None
    elsewhere: dict[str, int] = field(default_factory=dict)
    note: str = ""
    weights: tuple[float, ...] = ()
    advice: Advice | None = None
    order: str = "best first"


_SHOWN_SOURCES = 3
#: Replies are looked for within so many events, which is a turn of usual length.
_TURN = 24
#: The best hit gets its reply, and so does a question among the next, whose answer stands nowhere else.
_REPLIES_OF, _QUESTION_END = 5, 200
#: How much of a text is looked through for what it matched.
LONGEST = 40_000

#: The terms of a question that were found, and those that were not.
Told = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate at its place in the answer. What a node matched is known here; of an event it is told when shown.

    `rare` says how much each unit of the question tells, and `weighed` where they stand; only events have them.
    """

    candidate: Candidate
    score: float
    told: Told = ((), ())
    rare: tuple[float, ...] = ()
    weighed: Weighed | None = None

    @property
    def text(self) -> str:
        found = self.candidate.document
        return node_text(found) if isinstance(found, Node) else found.text

    @property
    def lines(self) -> str:
        """The text to show where no word is looked for: of a node only what its id does not tell, line by line."""
        found = self.candidate.document
        return in_lines(found) if isinstance(found, Node) else found.text

    @property
    def places(self) -> Places | None:
        """Where the units stand in its text, if all of it was looked through when it was weighed."""
        whole = self.weighed is not None and len(self.weighed.spot.text) == len(self.text)
        return self.weighed.places if self.weighed and whole else None

    @property
    def alike(self) -> frozenset[int]:
        """Which of these units only words of nearly the same meaning tell."""
        return self.weighed.alike if self.weighed and self.places is not None else frozenset()


def in_lines(node: Node) -> str:
    """A node's title, without the date that its id tells, and its bullets."""
    title = node.title if node.level is Level.SEGMENT else node.title.split(": ", 1)[-1]
    return "\n".join([title, *(f"- {bullet.text}" for bullet in node.bullets)])


def node_text(node: Node) -> str:
    return "\n".join([node.title, *(bullet.text for bullet in node.bullets), ", ".join(node.keywords)])


def told(question: Question, here: Sequence[bool]) -> Told:
    """The terms that are here, and those that are not."""
    terms = list(zip(question.terms, here, strict=True))
    return tuple(term.shown for term, found in terms if found), tuple(term.shown for term, found in terms if not found)


async def shown(reader: ReadStore, wanted: Wanted, ranked: Sequence[Ranked], question: Question) -> list[Hit]:
    """The wanted part of the list as hits; those of kind `grip` are named by the grip instead of the event."""
    hits = await hits_of(reader, wanted.scope, ranked[wanted.offset : wanted.end], question)
    return [replace(hit, id=hit.grip_id, kind="grip") for hit in hits] if wanted.kind == "grip" else hits


async def hits_of(reader: ReadStore, scope: Scope, ranked: Sequence[Ranked], question: Question) -> list[Hit]:
    known = {number: places for number, item in enumerate(ranked) if (places := item.places) is not None}
    passages = passages_of(
        question, [(item.text if question.terms else item.lines, item.rare) for item in ranked], known
    )
    hits = []
    for item, passage in zip(ranked, passages, strict=True):
        found = item.candidate.document
        if isinstance(found, Node):
            hits.append(_node_hit(scope, item, found, passage, await _cited(reader, found, question)))
        else:
            hits.append(_event_hit(scope, item, found, passage, question))
    return hits


def _event_hit(scope: Scope, item: Ranked, event: Event, passage: Passage, question: Question) -> Hit:
    # What only a word of nearly the same meaning tells does not stand there itself.
    matched, missing = told(question, question.told(event.text[:LONGEST], passage.units - item.alike))
    name, segment = event.event_id, item.candidate.segment_id
    return Hit(
        id=name,
        kind="event",
        title="",
        passage=passage,
        score=item.score,
        matched=matched,
        missing=missing,
        project=event.project,
        session_id=event.session_id,
        start_ms=event.timestamp_ms,
        role=str(event.role),
        grip_id=item.candidate.grip_id or event_grip_id(event.timestamp_ms, event.key),
        node_id=scope.id_of(segment, event.project) if segment else "",
        event_ids=(name,),
        source_ids=event.source_ids,
    )


def _node_hit(scope: Scope, item: Ranked, node: Node, passage: Passage, cited: dict[str, Event]) -> Hit:
    matched, missing = item.told
    name = scope.id_of(node.node_id, node.project)
    return Hit(
        id=name,
        kind=node.level.label,
        title=node.title,
        passage=passage,
        score=item.score,
        matched=matched,
        missing=missing,
        project=node.project,
        session_id=node.session_id,
        start_ms=node.start_ms,
        role="",
        grip_id=next(iter(cited), ""),
        node_id=name,
        event_ids=tuple(event.event_id for event in cited.values()),
        source_ids=tuple(event.source_id for event in cited.values() if event.source_id),
    )


async def _cited(reader: ReadStore, node: Node, question: Question) -> dict[str, Event]:
    """The events behind the bullets that speak of what was asked, by the grips that cite them."""
    held = question.held([bullet.text for bullet in node.bullets])
    bullets = sorted(zip(node.bullets, held, strict=True), key=lambda each: -sum(each[1]))
    grips = [grip for bullet, _ in bullets for grip in bullet.grip_ids[:1]]
    return await reader.cited_by(grips[:_SHOWN_SOURCES])


async def with_replies(reader: ReadStore, found: Found, question: Question) -> Found:
    """The hits, the best of them with what was answered, and so the questions among the next."""
    hits = list(found.hits)
    for at, hit in enumerate(hits[:_REPLIES_OF]):
        if hit.role == "user" and hit.event_ids and (at == 0 or "?" in hit.passage.text[-_QUESTION_END:]):
            hits[at] = replace(hit, reply=await _reply(reader, hit, question))
    return replace(found, hits=hits)


async def _reply(reader: ReadStore, hit: Hit, question: Question) -> Reply | None:
    """The message of the same turn that says most of what was asked; of equals the last, which sums up."""
    record = await reader.grip(parse_ulid(hit.event_ids[0])[1], 0, _TURN)
    said: list[Reply] = []
    for event in record.after if record else ():
        if event.role == "user":
            break
        if event.role == "assistant":
            said.append(Reply(event, passage_of(question, event.text)))
    return max(reversed(said), key=lambda reply: reply.passage.worth, default=None)
