"""What the tree says of a time: for a query that names nothing else, and beside hits of one that names a time, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mcp_memory.domain.matches import Candidate
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.toc import Level
from mcp_memory.search.asked import LEVELS, Wanted
from mcp_memory.search.found import Found, Hit
from mcp_memory.search.nearest import SHORT_MS, TOLD, in_order
from mcp_memory.search.question import Question, question_of
from mcp_memory.search.ranked import LONGEST, Ranked, hits_of, node_text, shown, told
from mcp_memory.search.scope import Scope
from mcp_memory.store.port import Library
from mcp_memory.times.resolve import TimeRange

#: How often what the tree says of a time was right: a segment of a short one, a day of a long one.
_OF_TIME, _OF_LONG_TIME = 0.55, 0.2
_MOST = 60
#: The shortest day that a change of the clock makes.
_DAY_MS = 23 * 3_600_000


async def found_in(library: Library, wanted: Wanted, when: TimeRange) -> Found:
    """What the tree says of a time, of the wanted kind if one is named: what tells most of it, in order of time."""
    question = question_of("")
    ranked = await _of_kind(library, wanted, when, question)
    hits = await shown(library, wanted, ranked, question)
    hits.sort(key=lambda hit: hit.start_ms, reverse=wanted.order == "last")
    more = wanted.end if len(ranked) > wanted.end else None
    return Found(wanted.query, when, hits, more, order=TOLD[wanted.order])


async def _of_kind(library: Library, wanted: Wanted, when: TimeRange, question: Question) -> list[Ranked]:
    if wanted.kind in LEVELS:
        level = next(level for level in Level if level.label == wanted.kind)
        nodes = await library.between(wanted.scope.project, level, when.start_ms, when.end_ms, _MOST)
        return _by_time(nodes, question)
    if wanted.order and wanted.kind is None:
        scope, many = wanted.scope.project, wanted.end + 1
        return _by_time(await in_order(library, scope, when.start_ms, when.end_ms, wanted.order, many), question)
    ranked = await periods(library, question, wanted.scope.project, when, wanted.end + 1)
    return await _words_behind(library, ranked, when) if wanted.kind else ranked


async def periods(
    library: Library, question: Question, project: str | None, when: TimeRange, limit: int
) -> list[Ranked]:
    """The segments of a time, those that say most first; of a long time, its days.

    A day whose segments are not known tells of all its hours, so it is no answer where only some are asked about.
    """
    nodes: list[Node] = []
    for level in _levels(when.end_ms - when.start_ms):
        nodes = nodes or await library.between(project, level, when.start_ms, when.end_ms, _MOST)
    telling = sorted(nodes, key=lambda node: -len(node.bullets))
    return sorted(_by_time(telling, question), key=lambda item: -len(item.told[0]))[:limit]


def _levels(length_ms: int) -> tuple[Level, ...]:
    if length_ms > SHORT_MS:
        return (Level.DAY,)
    return (Level.SEGMENT, Level.DAY) if length_ms >= _DAY_MS else (Level.SEGMENT,)


async def _words_behind(library: Library, ranked: Sequence[Ranked], when: TimeRange) -> list[Ranked]:
    """The words that nodes cite, in their order, as far as they were said in the time."""
    bullets = [(item, bullet) for item in ranked if item.candidate.node for bullet in item.candidate.node.bullets]
    scores = {grip: item.score for item, bullet in bullets for grip in bullet.grip_ids[:1]}
    cited = await library.cited_by(list(scores)[:_MOST])
    return [
        Ranked(Candidate(event, grip), scores[grip])
        for grip, event in cited.items()
        if when.start_ms <= event.timestamp_ms < when.end_ms
    ]


async def segment_hits(
    library: Library, scope: Scope, nodes: Sequence[Node], question: Question, score: float
) -> list[Hit]:
    """Segments as hits that were found by their time, none of them surer than `score`."""
    ranked = [replace(item, score=min(score, item.score)) for item in _by_time(nodes, question)]
    return await hits_of(library, scope, ranked, question)


def _by_time(nodes: Sequence[Node], question: Question) -> list[Ranked]:
    """Nodes that are found by their time, whatever they speak of."""
    held = question.held([node_text(node)[:LONGEST] for node in nodes])
    return [
        Ranked(Candidate(node), _OF_TIME if node.level is Level.SEGMENT else _OF_LONG_TIME, told(question, here))
        for node, here in zip(nodes, held, strict=True)
    ]
