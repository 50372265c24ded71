"""Teleport: from words to the passages that hold them, best first, with a score that means the same everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import replace

from mcp_memory.domain.matches import Candidate, Pool
from mcp_memory.domain.nodes import Node
from mcp_memory.errors import UsageError
from mcp_memory.search.asked import LEVELS, Wanted
from mcp_memory.search.confidence import scores
from mcp_memory.search.found import Found
from mcp_memory.search.of_time import found_in, periods
from mcp_memory.search.order import Weighed
from mcp_memory.search.own import rarities
from mcp_memory.search.question import Question, question_of
from mcp_memory.search.ranked import LONGEST, Ranked, node_text, shown, told
from mcp_memory.search.ranking import merged, weigh
from mcp_memory.store.port import Library
from mcp_memory.times.resolve import TimeRange

#: How many candidates are weighed: so many, and so many more for each hit that is wanted.
_POOL, _PER_HIT = 30, 3
#: How many more for words that mean the same as those that memory hardly knows.
_ALIKE = 20
_NODES = 60
_ELSEWHERE = 60
_CANDIDATES = 40
#: What a node that holds all of a question is worth: it only sums up what was said.
_NODE = 0.75
#: Where a time is named, what the tree says of it: so many nodes, after so many events.
_PERIODS, _FIRST = 2, 2


async def teleport(library: Library, wanted: Wanted) -> Found:
    """The best passages for a query. Any text is a valid query; without a word in it, only a time can answer."""
    question = question_of(wanted.query)
    if not question.terms:
        return await _without_words(library, wanted)
    ranked, weighed = await _ranked(library, question, wanted)
    hits = await shown(library, wanted, ranked, question)
    return Found(
        wanted.query,
        wanted.time,
        hits,
        more=wanted.end if len(ranked) > wanted.end else None,
        elsewhere={} if hits else await _elsewhere(library, question, wanted),
        candidates=tuple(weighed[:_CANDIDATES]),
        weights=ranked[0].rare if ranked else (),
    )


async def _without_words(library: Library, wanted: Wanted) -> Found:
    if wanted.time:
        return await found_in(library, wanted, wanted.time)
    if not wanted.query.strip():
        raise UsageError("The query is empty: there is no word to look for. Name a term, or give a time with `when`.")
    return Found(wanted.query, None, [], note=" It holds no word to look for: name one, or give a time as when.")


async def _elsewhere(library: Library, question: Question, wanted: Wanted) -> dict[str, int]:
    """How many documents of each other project hold something of the question."""
    if wanted.scope.project is None or wanted.scope.alone:
        return {}
    within = replace(wanted.within(wanted.when), project=None)
    found = await library.search(question.sought, within, kinds=None, limit=_ELSEWHERE)
    return dict(Counter(candidate.project for candidate in found))


async def _ranked(library: Library, question: Question, wanted: Wanted) -> tuple[list[Ranked], list[Weighed]]:
    """Up to the end of the wanted part and one more, if there is more; and the events that were weighed."""
    many = wanted.end + 1
    if wanted.kind in LEVELS:
        return await _nodes(library, question, wanted, frozenset([wanted.kind]), many), []
    ranked, weighed = await _events(library, question, wanted, many)
    if wanted.kind is None and wanted.favoured:
        # A question that names a time is half answered by what the tree says of it.
        of_time = await periods(library, question, wanted.scope.project, wanted.favoured, _PERIODS)
        ranked = [*ranked[:_FIRST], *of_time, *ranked[_FIRST:]]
    elif wanted.kind is None and len(ranked) < many:
        ranked += await _beyond(library, question, wanted, ranked, many - len(ranked))
    return ranked, weighed


async def _events(
    library: Library, question: Question, wanted: Wanted, many: int
) -> tuple[list[Ranked], list[Weighed]]:
    """The best events, and all that were weighed, best first."""
    wide, pool = await _pool(library, question, wanted, _POOL + _PER_HIT * many)
    rare = rarities(question, pool)
    weighed = weigh(wide, pool, rare, wanted.favoured, diverse=wanted.diverse)
    best = weighed[:many]
    read = await library.events([item.spot.number for item in best])
    ranked = [
        Ranked(read[item.spot.number], score, rare=rare, weighed=item)
        for item, score in zip(best, scores(weighed, rare, many), strict=True)
        if item.spot.number in read
    ]
    return ranked, weighed


async def _pool(library: Library, question: Question, wanted: Wanted, many: int) -> tuple[Question, Pool]:
    """The candidates, and the question with what was looked for beside its own words."""

    def offered(asked: Question, time: TimeRange | None, limit: int) -> Awaitable[Pool]:
        cited, within = wanted.kind == "grip", wanted.within(time)
        return library.pool(asked.sought, within, cited=cited, limit=limit, speaker=question.speaker)

    pool = await offered(question, wanted.when, many)
    if wanted.favoured:
        pool = merged(await offered(question, wanted.favoured, many // 2), pool)
    wide = question.widened(pool.frequencies)
    if wide.alike:
        more = await offered(wide, wanted.when, _ALIKE)
        pool = merged(pool, replace(more, spots=more.spots[: more.matched], beside={}))
    return wide, pool


async def _nodes(
    library: Library, question: Question, wanted: Wanted, kinds: frozenset[str], many: int
) -> list[Ranked]:
    """Nodes by how much of the question they speak of; of equals first the one nearer to the words."""
    within = wanted.within(wanted.when)
    found = await library.search(question.sought, within, kinds=kinds, limit=max(many, _NODES))
    nodes = sorted([node for each in found if (node := each.node)], key=lambda node: -node.level)
    return sorted([_node(question, node) for node in nodes], key=lambda item: -item.score)[:many]


def _node(question: Question, node: Node) -> Ranked:
    matched, missing = told(question, question.told(node_text(node)[:LONGEST]))
    share = len(matched) / len(question.terms)
    return Ranked(Candidate(node), round(_NODE * share, 3), (matched, missing))


async def _beyond(
    library: Library, question: Question, wanted: Wanted, events: Sequence[Ranked], many: int
) -> list[Ranked]:
    """Where few events speak of something, the nodes that do follow them: they show what it was part of."""
    last = events[-1].score if events else 1.0
    found = await _nodes(library, question, wanted, frozenset(LEVELS), many + len(events))
    return [replace(item, score=min(item.score, last)) for item in _not_told(found, events)[:many]]


def _not_told(nodes: Sequence[Ranked], events: Sequence[Ranked]) -> list[Ranked]:
    """Those of the nodes that are not the segment of one of the events: that tells the same once more."""
    segments = {(item.candidate.project, item.candidate.segment_id) for item in events}
    return [item for item in nodes if (node := item.candidate.node) and (node.project, node.node_id) not in segments]
