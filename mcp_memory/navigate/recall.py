"""Teleport: from words to the passages that hold them, best first, with a score that means the same everywhere."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mcp_memory.domain.events import Event
from mcp_memory.domain.offers import Candidate, Pool, Within
from mcp_memory.domain.summaries import Node
from mcp_memory.domain.toc import Level
from mcp_memory.errors import UsageError
from mcp_memory.navigate.confidence import scores
from mcp_memory.navigate.passage import Passage, passages_of
from mcp_memory.navigate.question import Places, Question, question_of
from mcp_memory.navigate.ranking import Weighed, merged, rarities, weigh
from mcp_memory.navigate.scope import Scope
from mcp_memory.navigate.when import TimeRange
from mcp_memory.ports.library import Library

BANDS = ((0.8, "jump"), (0.5, "verify"), (0.3, "compare"), (0.0, "browse"))
_LEVELS = tuple(level.label for level in reversed(Level))
KINDS = ("event", "grip", *_LEVELS)
#: How many candidates are weighed: so many, and so many more for each hit that is wanted.
_POOL, _PER_HIT = 30, 3
#: How many more for words that mean the same as those that memory hardly knows.
_ALIKE = 20
_NODES = 60
_ELSEWHERE = 60
_SHORT_MS = 3 * 24 * 3_600_000
_SHOWN_SOURCES = 3
_LONGEST = 40_000
#: How often what the tree says of a time was right: a segment of a short one, a day of a long one.
_OF_TIME, _OF_LONG_TIME = 0.55, 0.2
_CANDIDATES = 40


@dataclass(frozen=True, slots=True)
class Beside:
    """Another event that belongs beside a hit, and the part of it that matters."""

    event: Event
    passage: Passage
    event_id: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "event_id", self.event.event_id)


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage, with what it matched and where to go on; the reply to it, and what was later said otherwise."""

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
    reply: Beside | None = None
    later: Beside | None = None

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
    """The hits of a question; `candidates` are the events they were chosen from, as far as they came near.

    `weights` says how much each unit of the question tells; `note` is why there can be no hit.
    """

    query: str
    when: TimeRange | None
    hits: list[Hit]
    more: int | None
    elsewhere: dict[str, int]
    note: str = ""
    candidates: tuple[Weighed, ...] = ()
    weights: tuple[float, ...] = ()
    advice: Advice | None = None


async def teleport(
    library: Library,
    scope: Scope,
    query: str,
    *,
    when: TimeRange | None = None,
    favoured: TimeRange | None = None,
    kind: str | None = None,
    limit: int = 10,
    offset: int = 0,
    diverse: bool = False,
) -> Found:
    """The best passages for a query. Any text is a valid query; without a word in it, only a time can answer.

    What was said outside of `when` is left out; what was said within `favoured` comes before equals. With `diverse`,
    hits are spread over sessions.
    """
    if kind is not None and kind not in KINDS:
        raise UsageError(f"{kind!r} is not a kind; known are {', '.join(KINDS)}.")
    question = question_of(query)
    if not question.terms:
        return await _by_time(library, scope, query, when or favoured, limit, offset, kind)
    candidates: list[Weighed] = []
    if kind in _LEVELS:
        ranked = await _nodes(library, question, scope.project, frozenset([kind]), when, limit + offset + 1)
    else:
        wanted = offset + limit + 1
        cited = kind == "grip"
        ranked, candidates = await _events(
            library, question, scope.project, cited, when, favoured, wanted, diverse=diverse
        )
        if favoured and kind is None:
            ranked = _interleaved(ranked, await _periods(library, question, scope.project, favoured, 2))
        elif kind is None and len(ranked) < wanted:
            ranked += await _beyond(library, question, scope.project, when, ranked, wanted - len(ranked))
    hits = await _hits(library, scope, ranked[offset : offset + limit], question)
    if kind == "grip":
        hits = [replace(hit, id=hit.grip_id, kind="grip") for hit in hits]
    more = offset + limit if len(ranked) > offset + limit else None
    elsewhere: dict[str, int] = {}
    if not hits and scope.project:
        found = await library.search(question.sought, _within(None, when), kinds=None, limit=_ELSEWHERE)
        for candidate in found:
            elsewhere[candidate.project] = elsewhere.get(candidate.project, 0) + 1
    near, weights = tuple(candidates[:_CANDIDATES]), ranked[0].rare if ranked else ()
    return Found(query, when or favoured, hits, more, elsewhere, candidates=near, weights=weights)


def _within(project: str | None, when: TimeRange | None) -> Within:
    return Within(project, when.start_ms, when.end_ms) if when else Within(project)


async def _events(
    library: Library,
    question: Question,
    project: str | None,
    cited: bool,
    when: TimeRange | None,
    favoured: TimeRange | None,
    limit: int,
    *,
    diverse: bool,
) -> tuple[list[Ranked], list[Weighed]]:
    """The best events, and all that were weighed, best first."""

    def offered(asked: Question, time: TimeRange | None, many: int) -> Awaitable[Pool]:
        return library.pool(asked.sought, _within(project, time), cited=cited, limit=many, speaker=question.speaker)

    many = _POOL + _PER_HIT * limit
    pool = await offered(question, when, many)
    if favoured:
        within = await offered(question, favoured, many // 2)
        pool = merged(within, pool)
    wide = question.widened(pool.frequencies)
    if wide.alike:
        more = await offered(wide, when, _ALIKE)
        pool = merged(pool, replace(more, spots=more.spots[: more.matched], beside={}))
    weighed, rare = weigh(wide, pool, favoured, diverse=diverse), tuple(rarities(question, pool))
    chosen = weighed[:limit]
    read = await library.events([item.spot.number for item in chosen])
    ranked = [
        Ranked(read[item.spot.number], score, rare=rare, weighed=item)
        for item, score in zip(chosen, scores(weighed, rare, limit), strict=True)
        if item.spot.number in read
    ]
    return ranked, weighed


async def _nodes(
    library: Library,
    question: Question,
    project: str | None,
    kinds: frozenset[str],
    when: TimeRange | None,
    limit: int,
) -> list[Ranked]:
    """Nodes by how much of the question they speak of, then as the index ranks them."""
    found = await library.search(question.sought, _within(project, when), kinds=kinds, limit=max(limit, _NODES))
    ranked = []
    for candidate in found:
        matched, missing = _told(question, text_of(candidate))
        share = len(matched) / max(len(matched) + len(missing), 1)
        ranked.append(Ranked(candidate, round(0.75 * share, 3), matched, missing))
    return sorted(ranked, key=lambda item: (-item.score, -_depth(item.candidate)))[:limit]


def _depth(candidate: Candidate) -> int:
    """Of two nodes that say the same, the one nearer to the words comes first."""
    return int(candidate.node.level) if candidate.node else 0


async def _beyond(
    library: Library,
    question: Question,
    project: str | None,
    when: TimeRange | None,
    ranked: Sequence[Ranked],
    limit: int,
) -> list[Ranked]:
    """Where few events speak of something, the nodes that do follow them: they show what it was part of."""
    last = ranked[-1].score if ranked else 1.0
    found = await _nodes(library, question, project, frozenset(_LEVELS), when, limit + len(ranked))
    return [replace(item, score=min(item.score, last)) for item in _not_told(found, ranked)[:limit]]


def _not_told(nodes: Sequence[Ranked], events: Sequence[Ranked]) -> list[Ranked]:
    """Those of the nodes that are not the segment of one of the events: that tells the same once more."""
    told = {(item.candidate.project, item.candidate.segment_id) for item in events}
    return [
        item
        for item in nodes
        if item.candidate.node and (item.candidate.project, item.candidate.node.node_id) not in told
    ]


def _told(
    question: Question, text: str, passage: Passage | None = None, alike: frozenset[int] = frozenset()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The terms that stand in a text, and those that do not, as far as its passage does not tell already.

    Those `alike` do not stand there themselves.
    """
    return _split(question, question.told(text[:_LONGEST], passage.units - alike if passage else None))


def _split(question: Question, here: Sequence[bool]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The terms that are here, and those that are not."""
    matched = tuple(term.shown for term, found in zip(question.terms, here, strict=True) if found)
    return matched, tuple(term.shown for term, found in zip(question.terms, here, strict=True) if not found)


async def _by_time(
    library: Library, scope: Scope, query: str, when: TimeRange | None, limit: int, offset: int, kind: str | None
) -> Found:
    """Nothing to look for but a time: what the tree says of it."""
    if when is None:
        if not query.strip():
            raise UsageError(
                "The query is empty: there is no word to look for. Name a term, or give a time with `when`."
            )
        return Found(query, None, [], None, {}, note=" It holds no word to look for: name one, or give a time as when.")
    return await of_time(library, scope, query, when, limit, offset, kind)


async def of_time(
    library: Library,
    scope: Scope,
    query: str,
    when: TimeRange,
    limit: int,
    offset: int = 0,
    kind: str | None = None,
) -> Found:
    """What the tree says of a time, for a query that names nothing else to look for; of one kind, if one is given."""
    question, end = question_of(""), offset + limit
    if kind in _LEVELS:
        levels = [level for level in Level if level.label == kind]
        nodes = await library.between(scope.project, levels[0], when.start_ms, when.end_ms, _NODES)
        ranked = _of_time(nodes, question)
    else:
        ranked = await _periods(library, question, scope.project, when, end + 1)
        ranked = await _words_behind(library, ranked, when) if kind else ranked
    hits = await _hits(library, scope, ranked[offset:end], question)
    if kind == "grip":
        hits = [replace(hit, id=hit.grip_id, kind="grip") for hit in hits]
    return Found(query, when, hits, end if len(ranked) > end else None, {})


async def _words_behind(library: Library, ranked: Sequence[Ranked], when: TimeRange) -> list[Ranked]:
    """The words that nodes cite, in their order, as far as they were said in the time."""
    bullets = [(item, bullet) for item in ranked if item.candidate.node for bullet in item.candidate.node.bullets]
    grips = {grip: item.score for item, bullet in bullets for grip in bullet.grip_ids[:1]}
    cited = await library.event_ids(list(grips)[:_NODES])
    return [
        Ranked(Candidate("event", 0.0, event.project, event.timestamp_ms, event, grip, event.text), grips[grip])
        for grip, event in cited.items()
        if when.start_ms <= event.timestamp_ms < when.end_ms
    ]


async def _periods(
    library: Library, question: Question, project: str | None, when: TimeRange, limit: int
) -> list[Ranked]:
    """The segments of a time, those that say most first; of a long time, its days."""
    nodes: list[Node] = []
    for level in (Level.SEGMENT, Level.DAY) if when.end_ms - when.start_ms <= _SHORT_MS else (Level.DAY,):
        nodes = nodes or await library.between(project, level, when.start_ms, when.end_ms, _NODES)
    ranked = _of_time(nodes, question)
    return sorted(ranked, key=lambda item: (-len(item.matched), -_weight(item.candidate)))[:limit]


def _of_time(nodes: Sequence[Node], question: Question) -> list[Ranked]:
    """Nodes that are found by their time, whatever they speak of."""
    held = question.held([node_text(node)[:_LONGEST] for node in nodes])
    return [
        Ranked(
            Candidate(node.level.label, 0.0, node.project, node.start_ms, node=node),
            _OF_TIME if node.level is Level.SEGMENT else _OF_LONG_TIME,
            *_split(question, here),
        )
        for node, here in zip(nodes, held, strict=True)
    ]


def _weight(candidate: Candidate) -> int:
    return len(candidate.node.bullets) if candidate.node else 0


def _interleaved(events: list[Ranked], periods: list[Ranked]) -> list[Ranked]:
    """A question that names a time is half answered by what the tree says of it: that comes after the best hits."""
    return [*events[:2], *periods, *events[2:]]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Which terms an event holds is told when it is shown."""

    candidate: Candidate
    score: float
    matched: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    rare: tuple[float, ...] = ()
    weighed: Weighed | None = None

    @property
    def places(self) -> Places | None:
        """Where the units stand in its text, if all of it was looked through when it was weighed."""
        whole = self.weighed is not None and len(self.weighed.spot.text) == len(text_of(self.candidate))
        return self.weighed.places if self.weighed and whole else None

    @property
    def alike(self) -> frozenset[int]:
        """Which of these units only words of nearly the same meaning tell."""
        return self.weighed.alike if self.weighed and self.places is not None else frozenset()


def text_of(candidate: Candidate) -> str:
    if candidate.node:
        return node_text(candidate.node)
    if candidate.event:
        return candidate.event.text
    return candidate.excerpt


def node_text(node: Node) -> str:
    return "\n".join([node.title, *(bullet.text for bullet in node.bullets), ", ".join(node.keywords)])


async def segment_hits(
    library: Library, scope: Scope, nodes: Sequence[Node], question: Question, score: float
) -> list[Hit]:
    """Segments as hits that were found by their time, none of them surer than `score`."""
    ranked = _of_time(nodes, question)
    return await _hits(library, scope, [replace(item, score=min(score, item.score)) for item in ranked], question)


async def _hits(library: Library, scope: Scope, ranked: Sequence[Ranked], question: Question) -> list[Hit]:
    known = {number: places for number, item in enumerate(ranked) if (places := item.places) is not None}
    passages = passages_of(question, [(text_of(item.candidate), item.rare) for item in ranked], known)
    return [await _hit(library, scope, item, question, passage) for item, passage in zip(ranked, passages, strict=True)]


async def _hit(library: Library, scope: Scope, item: Ranked, question: Question, passage: Passage) -> Hit:
    candidate = item.candidate
    node, event = candidate.node, candidate.event
    if event:
        name = event.event_id
        matched, missing = _told(question, event.text, passage, item.alike)
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
            grip_id=candidate.grip_id or f"grip:{event.timestamp_ms}:{name}",
            node_id=scope.id_of(candidate.segment_id, event.project) if candidate.segment_id else "",
            event_ids=(name,),
            source_ids=event.source_ids,
        )
    assert node is not None
    cited = await _cited(library, node, question)
    return Hit(
        id=scope.id_of(node.node_id, node.project),
        kind=node.level.label,
        title=node.title,
        passage=passage,
        score=item.score,
        matched=item.matched,
        missing=item.missing,
        project=node.project,
        session_id=node.session_id,
        start_ms=node.start_ms,
        role="",
        grip_id=next(iter(cited), ""),
        node_id=scope.id_of(node.node_id, node.project),
        event_ids=tuple(event.event_id for event in cited.values()),
        source_ids=tuple(event.source_id for event in cited.values() if event.source_id),
    )


async def _cited(library: Library, node: Node, question: Question) -> dict[str, Event]:
    """The events behind the bullets that speak of what was asked."""
    held = question.held([bullet.text for bullet in node.bullets])
    bullets = sorted(zip(node.bullets, held, strict=True), key=lambda each: -sum(each[1]))
    grips = [grip for bullet, _ in bullets for grip in bullet.grip_ids[:1]]
    return await library.event_ids(grips[:_SHOWN_SOURCES])
