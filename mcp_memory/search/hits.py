"""What a search gives: hits with the passage that matters, what it matched, where to go on, and the reply to it.

A passage is the part of a text where the telling words of a question stand closest together. How much of it is shown
is decided later, when the room is known; the best part of 100 characters may lie elsewhere than the best part of 600.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Bullet, Node, event_grip_id
from mcp_memory.domain.quoting import quoted, quoted_name
from mcp_memory.domain.segments import sets_right
from mcp_memory.domain.terms import IndexEntry
from mcp_memory.domain.toc import Level
from mcp_memory.search.question import Places, Query, Question, lowered
from mcp_memory.search.scoring import LINES, Match
from mcp_memory.store.port import ReadStore
from mcp_memory.times.resolve import TimeRange

#: How much of a text is looked at.
_LOOKED_AT = 12_000
_MARKS = 200
_USUAL = 400
#: Sizes of windows for which the best place is looked for; others make do with that of the next.
_SIZES = (80, 100, 125, 155, 195, 240, 300, 375, 470, 590, 740, 920)
#: A sentence or line ends here; what follows can be shown by itself.
_END = re.compile(r"[.!?](?=\s)|\n|[。！？]")
#: A window that also looks like an answer is worth this much more.
_CUE = 1.3
#: The same word again tells a little more, as where a list comes to the point.
_AGAIN = 0.05
#: How far back the start of a sentence is looked for, as a share of the window.
_BACK = 2


class TermMark(NamedTuple):
    """A place in a text where a word of the question stands, and how much that word tells."""

    place: int
    unit: int
    weight: float


@dataclass(frozen=True)
class Passage:
    """A text and what makes a part of it worth showing; `units` are all that were found in it, marked or not."""

    text: str
    marks: tuple[TermMark, ...] = ()
    cues: tuple[re.Pattern[str], ...] = ()
    units: frozenset[int] = frozenset()
    #: Where the text begins in the message it is a part of.
    begins: int = 0
    _known: dict[int, tuple[float, int]] = field(default_factory=dict, compare=False, repr=False)

    def window(self, size: int) -> str:
        """About `size` characters on one line, cut at words, where they hold most of what was asked."""
        text = self.text
        if len(text) <= size:
            return "…" * (self.begins > 0) + " ".join(text.split())
        start = self._best(size)[1]
        end = min(len(text), start + size)
        start = max(0, min(start, len(text) - size))
        if start and not text[start - 1].isspace():
            space = text.find(" ", start, start + 30)
            start = space + 1 if space >= 0 else start
        if end < len(text):
            space = text.rfind(" ", end - 30, end)
            end = space if space > start else end
        inner = " ".join(text[start:end].split())
        return ("…" if start or self.begins else "") + inner + ("…" if end < len(text) else "")

    @property
    def worth(self) -> float:
        """How much of what was asked stands together in the text."""
        return self._best(_USUAL)[0]

    @property
    def place(self) -> int:
        """Where the part that matters begins."""
        return self.begins + (self._best(_USUAL)[1] if len(self.text) > _USUAL else 0)

    def part(self, size: int) -> tuple[str, int]:
        """As it stands, the part of about `size` characters that holds most of what was asked, and where it begins."""
        start = max(0, min(self._best(size)[1], len(self.text) - size)) if len(self.text) > size else 0
        end = start + size
        return self.text[start:end] + "…" * (end < len(self.text)), start

    def _best(self, size: int) -> tuple[float, int]:
        """What the best window of about this size is worth, and where it begins: with a sentence, if one is near.

        Answers try many sizes, so it is looked for in few of them and remembered.
        """
        size = next((each for each in _SIZES if each >= size), size)
        if size in self._known:
            return self._known[size]
        best, chosen, before = 0.0, 0, -1
        for first, place in enumerate(self._places):
            start = self._sentence(place, size // _BACK)
            if start == before:
                continue
            before, end = start, start + size
            told: dict[int, float] = {}
            for mark in self.marks[first : bisect_left(self._places, end)]:
                told[mark.unit] = told[mark.unit] + mark.weight * _AGAIN if mark.unit in told else mark.weight
            worth = sum(told.values())
            for cue in self.cues:
                worth *= _CUE if cue.search(self._low, start, end) else 1.0
            if worth > best:
                best, chosen = worth, start
        self._known[size] = best, chosen
        return best, chosen

    def _sentence(self, place: int, back: int) -> int:
        """The start of the sentence around a place, or a little before it if that is too far away."""
        found = bisect_right(self._ends, place)
        begin = self._ends[found - 1] if found else 0
        if place - begin > back:
            begin = place - back // 2
        while begin < place and self.text[begin].isspace():
            begin += 1
        return begin

    @cached_property
    def _places(self) -> list[int]:
        return [mark.place for mark in self.marks]

    @cached_property
    def _ends(self) -> list[int]:
        """Where sentences end, up to the last mark."""
        return [end.end() for end in _END.finditer(self.text, 0, self._places[-1] if self.marks else 0)]

    @cached_property
    def _low(self) -> str:
        return lowered(self.text)


def passage_of(question: Question, text: str, weights: Sequence[float] = ()) -> Passage:
    """A text with the places of a question's words; `weights` says how much each unit tells, else their own do."""
    return passages_of(question, [(text, weights)])[0]


def passages_of(
    question: Question, texts: Sequence[tuple[str, Sequence[float]]], known: Mapping[int, Places] = MappingProxyType({})
) -> list[Passage]:
    """The passages of several texts, each with its weights, which are looked through together.

    `known` holds, by their number here, the places in those texts that were looked through before.
    """
    others = [number for number in range(len(texts)) if number not in known]
    found = zip(others, question.places([texts[number][0][:_LOOKED_AT] for number in others]), strict=True)
    places = {**known, **dict(found)}
    units = len(question.units)
    partly = [number for number in others if len(texts[number][0]) > _LOOKED_AT and len(places[number]) < units]
    if partly:
        # What is missed in the beginning of an endless text may stand further on, as at the end of what a tool said.
        places |= zip(partly, question.places([texts[number][0] for number in partly]), strict=True)
    passages = []
    for number, (text, weights) in enumerate(texts):
        here, telling = places[number], weights or [unit.weight for unit in question.units]
        marks = sorted([TermMark(place, unit, telling[unit]) for unit, each in here.items() for place in each[:_MARKS]])
        passages.append(Passage(text, tuple(marks[:_MARKS]), question.cues, frozenset(here)))
    return passages


#: What to do with a hit, by the least score that calls for it.
BANDS = ((0.8, "jump"), (0.5, "verify"), (0.3, "compare"), (0.0, "browse"))
#: How much of a text is looked through for what it matched.
LONGEST = 40_000
_SHOWN_SOURCES = 3

#: The terms of a question that were found, and those that were not.
Terms = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage, with what it matched and where to go on.

    `lines` are further passages of the same exchange: what is to the point as well, and how it ended.
    `event_ids` and `source_ids` name them, too, after its own.
    """

    id: str
    kind: str
    passage: Passage
    project: str
    session_id: str | None
    start_ms: int
    grip_id: str
    node_id: str
    event_ids: tuple[str, ...]
    source_ids: tuple[str, ...]
    title: str = ""
    role: str = ""
    score: float = 0.0
    matched: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    lines: tuple[Hit, ...] = ()
    #: With what the user contradicted it next, if that was so.
    contradicted: Hit | None = None
    #: How a node is named in short.
    short_id: str = ""
    #: By which client an event was told.
    client: str = ""
    #: Whose session it is of, in the memory of a team.
    author: str = ""

    @property
    def who(self) -> str:
        """Who speaks, and of a team in whose session; of a node what it is."""
        return f"{self.role or self.kind} {quoted_name(self.author)}" if self.author else self.role or self.kind

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
class Results:
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


@dataclass(frozen=True, slots=True)
class RankedEntry:
    """An event or node at its place in the answer. What a node matched is known here; of an event `match` tells it.

    What ranking found is only read if it is shown, so that it has no `entry` before.
    """

    score: float
    entry: IndexEntry | None = None
    terms: Terms = ((), ())
    match: Match | None = None


def node_text(node: Node) -> str:
    return "\n".join([node.title, *(bullet.shown for bullet in node.bullets), ", ".join(node.keywords)])


def terms_told(question: Question, here: Sequence[bool]) -> Terms:
    """The terms that are here, and those that are not."""
    terms = list(zip(question.terms, here, strict=True))
    return tuple(term.shown for term, found in terms if found), tuple(term.shown for term, found in terms if not found)


async def hits_of(
    reader: ReadStore, query: Query, ranked: Sequence[RankedEntry], question: Question, rare: Sequence[float] = ()
) -> list[Hit]:
    """The wanted part of the list as hits; `rare` says how much each unit of the question tells in an event.

    Hits of kind `grip` are named by the grip instead of the event.
    """
    part, known = ranked[query.offset : query.end], dict[int, Places]()
    found = [match for item in part if item.match for match in (item.match, *item.match.lines)]
    read = await reader.candidates([match.message.number for match in found]) if found else {}
    turns = [item.match.message.turn for item in part if item.match]
    closings, following = await reader.closings(turns), await reader.following(turns)
    told = set[bytes]()
    shown = [
        (item, entry)
        for item in part
        if (entry := read.get(item.match.message.number) if item.match else item.entry) is not None
    ]
    nodes = [entry.node for _, entry in shown if entry.node]
    named = iter(await attributed(reader, nodes, team=query.scope.team))
    shown = [(item, replace(entry, document=next(named)) if entry.node else entry) for item, entry in shown]
    texts: list[tuple[str, Sequence[float]]] = []
    for number, (item, entry) in enumerate(shown):
        document, match = entry.document, item.match
        if isinstance(document, Event):
            texts.append((document.text, rare if match else ()))
            if match and len(match.message.text) == len(document.text):
                # All of it was looked through when it was weighed.
                known[number] = match.places
        else:
            # Its title is shown beside it.
            texts.append(
                ("\n".join(f"- {bullet.quoted()}" for bullet in document.bullets) or quoted(document.title), ())
            )
    hits = []
    for number, passage in enumerate(passages_of(question, texts, known)):
        item, entry = shown[number]
        document, match = entry.document, item.match
        if isinstance(document, Event):
            # What only a word of nearly the same meaning tells does not stand there itself.
            units = passage.units - (match.alike if match and number in known else frozenset())
            matched, missing = terms_told(question, question.told(document.text[:LONGEST], units))
            hit = _event_hit(document, passage)
            grip, kind = entry.grip_id or hit.grip_id, "grip" if query.kind == "grip" else "event"
            node_id = query.scope.id_of(entry.segment_id, document.project) if entry.segment_id else ""
            name = grip if kind == "grip" else hit.id
            hit = replace(hit, id=name, kind=kind, grip_id=grip, node_id=node_id, matched=matched, missing=missing)
            beside = _lines(match, read, closings) if match else []
            said = passages_of(question, [(event.text, rare) for event in beside])
            hit = with_lines(hit, map(_event_hit, beside, said))
            _, later = following.get(match.message.turn, (0, None)) if match else (0, None)
            if later and document.role != "user" and sets_right(later) and later.key not in told:
                told.add(later.key)
                hit = replace(hit, contradicted=_event_hit(later, Passage(later.text)))
        else:
            hit = await _node_hit(reader, query, document, passage, question)
            hit = replace(hit, matched=item.terms[0], missing=item.terms[1])
        hits.append(replace(hit, score=item.score))
    return hits


async def attributed(reader: ReadStore, nodes: list[Node], *, team: bool) -> list[Node]:
    """Nodes as they are; of a team's memory each bullet of a period with who said that: whose words its grips cite.

    A segment is one person's, and says so itself.
    """
    if not team:
        return nodes
    periods = [node for node in nodes if node.level is not Level.SEGMENT]
    grips = {grip for node in periods for bullet in node.bullets for grip in bullet.grip_ids[:_SHOWN_SOURCES]}
    cited = await reader.cited_by(list(grips)) if grips else {}

    def named(bullet: Bullet) -> Bullet:
        people = {cited[grip].author: None for grip in bullet.grip_ids[:_SHOWN_SOURCES] if grip in cited}
        return replace(bullet, author=", ".join(filter(None, people)))

    told = [replace(node, bullets=tuple(map(named, node.bullets))) for node in periods]
    return [told.pop(0) if node.level is not Level.SEGMENT else node for node in nodes]


def _lines(match: Match, read: Mapping[int, IndexEntry], closings: Mapping[int, Event]) -> list[Event]:
    """What else of its turn stands beside a match: what comes next in the list, and with what the turn ended."""
    found = [event for line in match.lines if (event := read[line.message.number].event)]
    closing, own = closings.get(match.message.turn), read[match.message.number].event
    if closing and own and closing.key not in (own.key, *(event.key for event in found[: LINES - 1])):
        found.insert(LINES - 1, closing)
    return found[:LINES]


def with_lines(hit: Hit, lines: Iterable[Hit]) -> Hit:
    """The hit with more passages of its exchange, whose ids follow its own."""
    more = tuple(lines)
    events = tuple(name for line in more for name in line.event_ids)
    sources = tuple(name for line in more for name in line.source_ids)
    return replace(
        hit,
        lines=(*hit.lines, *more),
        event_ids=(*hit.event_ids, *events),
        source_ids=(*hit.source_ids, *sources),
    )


def _event_hit(event: Event, passage: Passage) -> Hit:
    return Hit(
        id=event.event_id,
        kind="event",
        passage=passage,
        project=event.project,
        session_id=event.session_id,
        start_ms=event.timestamp_ms,
        grip_id=event_grip_id(event.timestamp_ms, event.key),
        node_id="",
        event_ids=(event.event_id,),
        source_ids=event.source_ids,
        role=str(event.role),
        client=event.client,
        author=event.author,
    )


async def _node_hit(reader: ReadStore, query: Query, node: Node, passage: Passage, question: Question) -> Hit:
    """A node, with the events behind those of its bullets that speak of what was asked."""
    held = question.held([bullet.shown for bullet in node.bullets])
    bullets = sorted(zip(node.bullets, held, strict=True), key=lambda each: -sum(each[1]))
    grips = [grip for bullet, _ in bullets for grip in bullet.grip_ids[:1]]
    cited = await reader.cited_by(grips[:_SHOWN_SOURCES])
    name = query.scope.id_of(node.node_id, node.project)
    return Hit(
        id=name,
        kind=node.level.label,
        passage=passage,
        project=node.project,
        session_id=node.session_id,
        start_ms=node.start_ms,
        grip_id=next(iter(cited), ""),
        node_id=name,
        short_id=query.scope.short_id_of(node.ref, node.project),
        event_ids=tuple(event.event_id for event in cited.values()),
        source_ids=tuple(event.source_id for event in cited.values() if event.source_id),
        title=node.title if node.level is Level.SEGMENT else node.title.split(": ", 1)[-1],
        author=node.author,
    )
