"""The whole of a search: from the words of a question, or only its time, to hits, best first, and advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import replace

from mcp_memory.domain.matches import Candidate, Pool, Within
from mcp_memory.domain.nodes import Node, NodeQuery
from mcp_memory.domain.stems import porter
from mcp_memory.domain.terms import slips
from mcp_memory.domain.text import STOP_WORDS
from mcp_memory.domain.toc import Level, Scope
from mcp_memory.errors import UsageError
from mcp_memory.search.hits import (
    LEVELS,
    LONGEST,
    TOLD,
    Advice,
    Found,
    Hit,
    Order,
    Ranked,
    Wanted,
    hits_of,
    node_text,
    shown,
    told,
)
from mcp_memory.search.question import Question, asks_for_anything, question_of
from mcp_memory.search.ranking import merged, weigh
from mcp_memory.search.scoring import rarities, scores
from mcp_memory.store.port import ReadStore
from mcp_memory.times.resolve import TimeRange

#: How many candidates are weighed: so many, and so many more for each hit that is wanted.
_POOL, _PER_HIT = 30, 3
#: How many more for words that mean the same as those that memory hardly knows.
_ALIKE = 20
_NODES = 60
_ELSEWHERE = 60
#: What a node that holds all of a question is worth: it only sums up what was said.
_NODE = 0.75
#: Where a time is named, what the tree says of it: so many nodes, after so many events.
_PERIODS, _FIRST = 2, 2


async def teleport(reader: ReadStore, wanted: Wanted) -> Found:
    """The best passages for a query. Any text is a valid query; without a word in it, only a time can answer."""
    question = question_of(wanted.query)
    if not question.terms:
        return await _without_words(reader, wanted)
    ranked = await _ranked(reader, question, wanted)
    hits = await shown(reader, wanted, ranked, question)
    return Found(
        wanted.query,
        wanted.time,
        hits,
        more=wanted.end if len(ranked) > wanted.end else None,
        elsewhere={} if hits else await _elsewhere(reader, question, wanted),
        weights=ranked[0].rare if ranked else (),
    )


async def _without_words(reader: ReadStore, wanted: Wanted) -> Found:
    if wanted.time:
        return await found_in(reader, wanted, wanted.time)
    if not wanted.query.strip():
        raise UsageError("The query is empty: there is no word to look for. Name a term, or give a time with `when`.")
    return Found(wanted.query, None, [], note=" It holds no word to look for: name one, or give a time as when.")


async def _elsewhere(reader: ReadStore, question: Question, wanted: Wanted) -> dict[str, int]:
    """How many documents of each other project hold something of the question."""
    if wanted.scope.project is None or wanted.scope.alone:
        return {}
    within = replace(wanted.within(wanted.when), project=None)
    found = await reader.search(question.sought, within, kinds=None, limit=_ELSEWHERE)
    return dict(Counter(candidate.project for candidate in found))


async def _ranked(reader: ReadStore, question: Question, wanted: Wanted) -> list[Ranked]:
    """Up to the end of the wanted part and one more, if there is more."""
    many = wanted.end + 1
    if wanted.kind in LEVELS:
        return await _nodes(reader, question, wanted, frozenset([wanted.kind]), many)
    ranked = await _events(reader, question, wanted, many)
    if wanted.kind is None and wanted.favoured:
        # A question that names a time is half answered by what the tree says of it.
        of_time = await periods(reader, question, wanted.scope.project, wanted.favoured, _PERIODS)
        ranked = [*ranked[:_FIRST], *of_time, *ranked[_FIRST:]]
    elif wanted.kind is None and len(ranked) < many:
        ranked += await _beyond(reader, question, wanted, ranked, many - len(ranked))
    return ranked


async def _events(reader: ReadStore, question: Question, wanted: Wanted, many: int) -> list[Ranked]:
    """The best events, best first."""
    wide, pool = await _pool(reader, question, wanted, _POOL + _PER_HIT * many)
    rare = rarities(question, pool)
    weighed = weigh(wide, pool, rare, wanted.favoured, diverse=wanted.diverse)
    best = weighed[:many]
    read = await reader.candidates([item.spot.number for item in best])
    return [
        Ranked(read[item.spot.number], score, rare=rare, weighed=item)
        for item, score in zip(best, scores(weighed, rare, many), strict=True)
        if item.spot.number in read
    ]


async def _pool(reader: ReadStore, question: Question, wanted: Wanted, many: int) -> tuple[Question, Pool]:
    """The candidates, and the question with what was looked for beside its own words."""

    def offered(asked: Question, time: TimeRange | None, limit: int) -> Awaitable[Pool]:
        cited, within = wanted.kind == "grip", wanted.within(time)
        return reader.pool(asked.sought, within, cited=cited, limit=limit, speaker=question.speaker)

    pool = await offered(question, wanted.when, many)
    if wanted.favoured:
        pool = merged(await offered(question, wanted.favoured, many // 2), pool)
    wide = question.widened(pool.frequencies)
    if wide.alike:
        more = await offered(wide, wanted.when, _ALIKE)
        pool = merged(pool, replace(more, spots=more.spots[: more.matched], beside={}))
    return wide, pool


async def _nodes(
    reader: ReadStore, question: Question, wanted: Wanted, kinds: frozenset[str], many: int
) -> list[Ranked]:
    """Nodes by how much of the question they speak of; of equals first the one nearer to the words."""
    within = wanted.within(wanted.when)
    found = await reader.search(question.sought, within, kinds=kinds, limit=max(many, _NODES))
    nodes = sorted([node for each in found if (node := each.node)], key=lambda node: -node.level)
    return sorted([_node(question, node) for node in nodes], key=lambda item: -item.score)[:many]


def _node(question: Question, node: Node) -> Ranked:
    matched, missing = told(question, question.told(node_text(node)[:LONGEST]))
    share = len(matched) / len(question.terms)
    return Ranked(Candidate(node), round(_NODE * share, 3), (matched, missing))


async def _beyond(
    reader: ReadStore, question: Question, wanted: Wanted, events: Sequence[Ranked], many: int
) -> list[Ranked]:
    """Where few events speak of something, the nodes that do follow them: they show what it was part of."""
    last = events[-1].score if events else 1.0
    found = await _nodes(reader, question, wanted, frozenset(LEVELS), many + len(events))
    return [replace(item, score=min(item.score, last)) for item in _not_told(found, events)[:many]]


def _not_told(nodes: Sequence[Ranked], events: Sequence[Ranked]) -> list[Ranked]:
    """Those of the nodes that are not the segment of one of the events: that tells the same once more."""
    segments = {(item.candidate.project, item.candidate.segment_id) for item in events}
    return [item for item in nodes if (node := item.candidate.node) and (node.project, node.node_id) not in segments]


#: How often what the tree says of a time was right: a segment of a short one, a day of a long one.
_OF_TIME, _OF_LONG_TIME = 0.55, 0.2
_MOST = 60
#: The shortest day that a change of the clock makes.
_SHORTEST_DAY_MS = 23 * 3_600_000


async def found_in(reader: ReadStore, wanted: Wanted, when: TimeRange) -> Found:
    """What the tree says of a time, of the wanted kind if one is named: what tells most of it, in order of time."""
    question = question_of("")
    ranked = await _of_kind(reader, wanted, when, question)
    hits = await shown(reader, wanted, ranked, question)
    hits.sort(key=lambda hit: hit.start_ms, reverse=wanted.order == "last")
    more = wanted.end if len(ranked) > wanted.end else None
    return Found(wanted.query, when, hits, more, order=TOLD[wanted.order])


async def _of_kind(reader: ReadStore, wanted: Wanted, when: TimeRange, question: Question) -> list[Ranked]:
    if wanted.kind in LEVELS:
        level = next(level for level in Level if level.label == wanted.kind)
        nodes = await reader.nodes(NodeQuery.touching(wanted.scope.project, level, when.start_ms, when.end_ms, _MOST))
        return _by_time(nodes, question)
    if wanted.order and wanted.kind is None:
        scope, many = wanted.scope.project, wanted.end + 1
        return _by_time(await in_order(reader, scope, when.start_ms, when.end_ms, wanted.order, many), question)
    ranked = await periods(reader, question, wanted.scope.project, when, wanted.end + 1)
    return await _words_behind(reader, ranked, when) if wanted.kind else ranked


async def periods(
    reader: ReadStore, question: Question, project: str | None, when: TimeRange, limit: int
) -> list[Ranked]:
    """The segments of a time, those that say most first; of a long time, its days.

    A day whose segments are not known tells of all its hours, so it is no answer where only some are asked about.
    """
    nodes: list[Node] = []
    for level in _levels(when.end_ms - when.start_ms):
        nodes = nodes or await reader.nodes(NodeQuery.touching(project, level, when.start_ms, when.end_ms, _MOST))
    telling = sorted(nodes, key=lambda node: -len(node.bullets))
    return sorted(_by_time(telling, question), key=lambda item: -len(item.told[0]))[:limit]


def _levels(length_ms: int) -> tuple[Level, ...]:
    if length_ms > SHORT_MS:
        return (Level.DAY,)
    return (Level.SEGMENT, Level.DAY) if length_ms >= _SHORTEST_DAY_MS else (Level.SEGMENT,)


async def _words_behind(reader: ReadStore, ranked: Sequence[Ranked], when: TimeRange) -> list[Ranked]:
    """The words that nodes cite, in their order, as far as they were said in the time."""
    bullets = [(item, bullet) for item in ranked if item.candidate.node for bullet in item.candidate.node.bullets]
    scores = {grip: item.score for item, bullet in bullets for grip in bullet.grip_ids[:1]}
    cited = await reader.cited_by(list(scores)[:_MOST])
    return [
        Ranked(Candidate(event, grip), scores[grip])
        for grip, event in cited.items()
        if when.start_ms <= event.timestamp_ms < when.end_ms
    ]


async def segment_hits(
    reader: ReadStore, scope: Scope, nodes: Sequence[Node], question: Question, score: float
) -> list[Hit]:
    """Segments as hits that were found by their time, none of them surer than `score`."""
    ranked = [replace(item, score=min(score, item.score)) for item in _by_time(nodes, question)]
    return await hits_of(reader, scope, ranked, question)


def _by_time(nodes: Sequence[Node], question: Question) -> list[Ranked]:
    """Nodes that are found by their time, whatever they speak of."""
    held = question.held([node_text(node)[:LONGEST] for node in nodes])
    return [
        Ranked(Candidate(node), _OF_TIME if node.level is Level.SEGMENT else _OF_LONG_TIME, told(question, here))
        for node, here in zip(nodes, held, strict=True)
    ]


_DAY_MS = 86_400_000
#: A time of up to three days is told by its segments, a longer one by its days.
SHORT_MS = 3 * _DAY_MS
#: How many days away they may lie; a longer time is only looked at if the shorter holds nothing.
_REACH = (31, 400)
_MANY = 400


async def day_before(reader: ReadStore, project: str | None, time_ms: int) -> Node | None:
    """The last day that ends by then and has a node."""
    for days in _REACH:
        nodes = await reader.nodes(NodeQuery.touching(project, Level.DAY, time_ms - days * _DAY_MS, time_ms, _MANY))
        ended = [node for node in nodes if node.end_ms <= time_ms]
        if ended:
            return ended[-1]
    return None


async def day_after(reader: ReadStore, project: str | None, time_ms: int) -> Node | None:
    """The first day that begins from then on and has a node."""
    for days in _REACH:
        nodes = await reader.nodes(NodeQuery.touching(project, Level.DAY, time_ms, time_ms + days * _DAY_MS, 2))
        begun = [node for node in nodes if node.start_ms >= time_ms]
        if begun:
            return begun[0]
    return None


async def in_order(
    reader: ReadStore, project: str | None, start_ms: int, end_ms: int, order: Order, limit: int
) -> list[Node]:
    """The segments with which a time begins or ends: of a long one, those of its first or last day with any."""
    if end_ms - start_ms > SHORT_MS:
        day = await _end_day(reader, project, start_ms, end_ms, order)
        start_ms, end_ms = (max(start_ms, day.start_ms), min(end_ms, day.end_ms)) if day else (start_ms, end_ms)
    nodes = await reader.nodes(NodeQuery.touching(project, Level.SEGMENT, start_ms, end_ms, _MANY))
    return nodes[:limit] if order == "first" else nodes[::-1][:limit]


async def _end_day(reader: ReadStore, project: str | None, start_ms: int, end_ms: int, order: Order) -> Node | None:
    if order == "first":
        return next(iter(await reader.nodes(NodeQuery.touching(project, Level.DAY, start_ms, end_ms, 1))), None)
    near = await reader.nodes(NodeQuery.touching(project, Level.DAY, max(start_ms, end_ms - _DAY_MS), end_ms, _MANY))
    day = near[-1] if near else await day_before(reader, project, end_ms)
    return day if day and day.end_ms > start_ms else None


async def nearest_days(reader: ReadStore, project: str | None, start_ms: int, end_ms: int) -> list[Node]:
    """The days just before and just after a time on which something was said; of a few hours, their own day, too."""
    before, after = await day_before(reader, project, start_ms), await day_after(reader, project, end_ms)
    same = await reader.nodes(NodeQuery.touching(project, Level.DAY, start_ms, end_ms, 2))
    return list({(day.project, day.node_id): day for day in (before, *same, after) if day}.values())


#: Below this score the best hit is a guess, and a word that memory does not know may be the reason.
_WEAK = 0.3
#: Below this one it is about something else, which may be told in another project.
_POOR = 0.15
_UNKNOWN, _NEAR, _DAYS, _OFFERED = 3, 3, 2, 40


async def advised(reader: ReadStore, scope: Scope, found: Found) -> Found:
    """The answer with advice, if it needs any."""
    if not found.hits:
        return replace(found, advice=await _where_nothing_is(reader, scope, found))
    return found if found.hits[0].score >= _WEAK else await _where_little_is(reader, scope, found)


async def _where_little_is(reader: ReadStore, scope: Scope, found: Found) -> Found:
    if scope.alone:  # which words are known, and where, would tell of other projects
        return found
    near = await _near(reader, found.query)
    # Of a question in full sentences many words are nowhere; only one that may be a slip is worth a word.
    slipped = {word: others for word, others in near.items() if others}
    poor = scope.project is not None and found.hits[0].score < _POOR
    elsewhere = await _better(reader, scope, found) if poor else found.elsewhere
    return replace(found, advice=Advice(slipped), elsewhere=elsewhere) if slipped or elsewhere else found


async def _where_nothing_is(reader: ReadStore, scope: Scope, found: Found) -> Advice:
    when, near = found.when, {} if scope.alone else await _near(reader, found.query)
    outside = when is not None and _has_words(found.query)
    anytime = (await teleport(reader, Wanted(scope, found.query, limit=1))).hits if outside else []
    nearest = await nearest_days(reader, scope.project, when.start_ms, when.end_ms) if when else []
    days = nearest or await reader.nodes(NodeQuery.latest(scope.project, Level.DAY, _DAYS, bullets=False))
    names = tuple(scope.id_of(day.node_id, day.project) for day in days)
    return Advice(near, names, anytime[0].start_ms if anytime else None, bool(nearest))


def _has_words(query: str) -> bool:
    return bool(question_of(query).terms) and not asks_for_anything(query)


async def _near(reader: ReadStore, query: str) -> dict[str, tuple[str, ...]]:
    """The words of a question that memory does not know, each with known ones that are spelled almost so."""
    if asks_for_anything(query):
        return {}
    terms = question_of(query).terms
    words = list(dict.fromkeys(word for term in terms for word in (term.phrases[0] if term.compound else term.words)))
    known = await reader.known(words)
    unknown = [word for word in words if word not in known and slips(word)]
    return {word: await _spelled_almost(reader, word) for word in unknown[:_UNKNOWN]}


async def _spelled_almost(reader: ReadStore, word: str) -> tuple[str, ...]:
    """The known words that are one slip away, the commonest first."""
    found = await reader.known([other for other in slips(word) if other not in STOP_WORDS])
    # The index knows stems, and so calls every form of a known word known; the likeliest slip stands for them.
    forms: dict[str, str] = {}
    for other in found:
        forms.setdefault(porter(other), other)
    return tuple(sorted(forms.values(), key=lambda other: -found[other])[:_NEAR])


async def _better(reader: ReadStore, scope: Scope, found: Found) -> dict[str, int]:
    """How many documents of other projects hold more of the question than the best hit here."""
    question = question_of(found.query)
    here = max((len(hit.matched) for hit in found.hits), default=0)
    offered = await reader.search(question.sought, Within(), kinds=frozenset(["event"]), limit=_OFFERED)
    better = [
        candidate.project
        for candidate in offered
        if candidate.project != scope.project and candidate.event and sum(question.holds(candidate.event.text)) > here
    ]
    return dict(Counter(better))
