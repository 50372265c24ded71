"""Teleport: from words to the passages that hold them, best first, with a score that means the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from mcp_memory.domain.events import Event
from mcp_memory.domain.indexing import Term, match_expression, terms_of
from mcp_memory.domain.summaries import Node
from mcp_memory.domain.text import stem
from mcp_memory.domain.toc import Level
from mcp_memory.errors import UsageError
from mcp_memory.navigate.passage import Passage, find_words, passage_of
from mcp_memory.navigate.scope import Scope
from mcp_memory.navigate.when import TimeRange
from mcp_memory.ports import Candidate, Library

BANDS = ((0.8, "jump"), (0.5, "verify"), (0.3, "compare"), (0.0, "browse"))
KINDS = ("event", "grip", *(level.label for level in reversed(Level)))
_POOL = 60
_SHOWN_SOURCES = 3


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage, with what it matched and where to go on."""

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

    @property
    def band(self) -> str:
        return next(name for floor, name in BANDS if self.score >= floor)


@dataclass(frozen=True, slots=True)
class Found:
    query: str
    when: TimeRange | None
    hits: list[Hit]
    more: int | None
    elsewhere: dict[str, int]
    note: str = ""


async def teleport(
    library: Library,
    scope: Scope,
    query: str,
    *,
    when: TimeRange | None = None,
    kind: str | None = None,
    limit: int = 10,
    offset: int = 0,
) -> Found:
    """The best passages for a query. Any text is a valid query; without a word in it, only a time can answer."""
    if kind is not None and kind not in KINDS:
        raise UsageError(f"{kind!r} is not a kind; known are {', '.join(KINDS)}.")
    terms = terms_of(query)
    kinds = frozenset([kind]) if kind else None
    if not terms:
        return await _by_time(library, scope, query, when, limit)
    pool = max(_POOL, 3 * (limit + offset))
    candidates = await _search(library, terms, scope.project, kinds, when, pool)
    ranked = rank(candidates, terms)
    page = ranked[offset : offset + limit]
    hits = [await _hit(library, scope, item, terms) for item in page]
    more = offset + limit if len(ranked) > offset + limit else None
    elsewhere: dict[str, int] = {}
    if not hits and scope.project:
        for candidate in await _search(library, terms, None, kinds, when, pool):
            elsewhere[candidate.project] = elsewhere.get(candidate.project, 0) + 1
    return Found(query, when, hits, more, elsewhere)


async def _search(
    library: Library,
    terms: list[Term],
    project: str | None,
    kinds: frozenset[str] | None,
    when: TimeRange | None,
    limit: int,
) -> list[Candidate]:
    return await library.search(
        match_expression(terms),
        project=project,
        kinds=kinds,
        start_ms=when.start_ms if when else None,
        end_ms=when.end_ms if when else None,
        limit=limit,
    )


async def _by_time(library: Library, scope: Scope, query: str, when: TimeRange | None, limit: int) -> Found:
    """Nothing to look for but a time: what the tree says of it."""
    if when is None:
        raise UsageError("The query holds no word to look for. Name a term, or give a time with `when`.")
    nodes: list[Node] = []
    for level in (Level.SEGMENT, Level.DAY):
        nodes = nodes or await library.between(scope.project, level, when.start_ms, when.end_ms, limit + 1)
    candidates = [Candidate(node.level.label, 0.0, node.project, node.start_ms, node=node) for node in nodes]
    hits = [await _hit(library, scope, Ranked(item, 0.5, (), ()), []) for item in candidates[:limit]]
    return Found(query, when, hits, None, {})


@dataclass(frozen=True, slots=True)
class Ranked:
    candidate: Candidate
    score: float
    matched: tuple[str, ...]
    missing: tuple[str, ...]


def rank(candidates: Sequence[Candidate], terms: Sequence[Term]) -> list[Ranked]:
    """Order by how much of the question a passage covers and how well the index ranks it; one place per passage."""
    if not candidates:
        return []
    best = min(candidate.rank for candidate in candidates) or -1.0
    scored = sorted((_score(candidate, terms, best) for candidate in candidates), key=_order)
    return _one_each(scored)


def _score(candidate: Candidate, terms: Sequence[Term], best: float) -> Ranked:
    text = text_of(candidate)
    found = find_words(text)
    matched = tuple(term for term in terms if all(_stem(word) in found for word in term.words) or term.shown in text)
    total = sum(term.weight for term in terms)
    coverage = sum(term.weight for term in matched) / total
    relative = candidate.rank / best
    shown = tuple(term.shown for term in matched)
    missing = tuple(term.shown for term in terms if term not in matched)
    return Ranked(candidate, round(coverage * (0.55 + 0.45 * relative), 3), shown, missing)


def _order(item: Ranked) -> tuple[float, int]:
    return -item.score, -item.candidate.start_ms


def _one_each(ranked: Sequence[Ranked]) -> list[Ranked]:
    """An event and its grips are one passage; a node that only repeats a better hit beneath it steps back."""
    kept: list[Ranked] = []
    places: dict[bytes, int] = {}
    segments: set[str] = set()
    later: list[Ranked] = []
    for item in ranked:
        candidate = item.candidate
        if candidate.event:
            if candidate.event.key in places:
                place = places[candidate.event.key]
                kept[place] = _with_grip(kept[place], candidate)
                continue
            places[candidate.event.key] = len(kept)
            segments.add(candidate.segment_id)
            kept.append(item)
        elif candidate.node and (candidate.node.level is not Level.SEGMENT or candidate.node.node_id in segments):
            later.append(item)
        else:
            kept.append(item)
    return kept + later


def _with_grip(item: Ranked, candidate: Candidate) -> Ranked:
    """The event keeps its place and gains the grip that cites it."""
    if item.candidate.grip_id or not candidate.grip_id:
        return item
    merged = replace(item.candidate, grip_id=candidate.grip_id, excerpt=candidate.excerpt)
    return replace(item, candidate=merged)


def text_of(candidate: Candidate) -> str:
    if candidate.node:
        return node_text(candidate.node)
    if candidate.event:
        return candidate.event.text
    return candidate.excerpt


def node_text(node: Node) -> str:
    return "\n".join([node.title, *(bullet.text for bullet in node.bullets), ", ".join(node.keywords)])


async def _hit(library: Library, scope: Scope, item: Ranked, terms: Sequence[Term]) -> Hit:
    candidate = item.candidate
    stems = frozenset(_stem(word) for term in terms for word in term.words)
    passage = passage_of(text_of(candidate), stems)
    node, event = candidate.node, candidate.event
    if event:
        kind = "grip" if candidate.kind == "grip" else "event"
        return Hit(
            id=candidate.grip_id if kind == "grip" else event.event_id,
            kind=kind,
            title=candidate.segment_id,
            passage=passage,
            score=item.score,
            matched=item.matched,
            missing=item.missing,
            project=event.project,
            session_id=event.session_id,
            start_ms=event.timestamp_ms,
            role=str(event.role),
            grip_id=candidate.grip_id or f"grip:{event.timestamp_ms}:{event.event_id}",
            node_id=scope.id_of(candidate.segment_id, event.project) if candidate.segment_id else "",
            event_ids=(event.event_id,),
            source_ids=event.source_ids,
        )
    assert node is not None
    cited = await _cited(library, node, stems)
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


async def _cited(library: Library, node: Node, stems: frozenset[str]) -> dict[str, Event]:
    """The events behind the bullets that speak of what was asked."""
    bullets = sorted(node.bullets, key=lambda bullet: -len(stems & find_words(bullet.text)))
    grips = [grip for bullet in bullets for grip in bullet.grip_ids[:1]]
    return await library.event_ids(grips[:_SHOWN_SOURCES])


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    return stem(word)
