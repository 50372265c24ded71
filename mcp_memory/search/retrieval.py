"""The whole of a search: from the words of a question, or only its time, to hits, best first, and advice."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import replace

from mcp_memory.domain.nodes import Node, NodeQuery
from mcp_memory.domain.segments import sets_right
from mcp_memory.domain.terms import IndexEntry, Pool, Within
from mcp_memory.domain.text import STOP_WORDS, porter
from mcp_memory.domain.toc import Level, Scope, ancestors, parse_node_id
from mcp_memory.errors import UsageError
from mcp_memory.search.hits import LONGEST, Advice, RankedEntry, Results, hits_of, node_text, terms_told
from mcp_memory.search.question import LEVELS, Query, Question, asks_for_anything, question_of
from mcp_memory.search.ranking import rank
from mcp_memory.search.scoring import Match, scores, telling_of
from mcp_memory.store.port import ReadStore
from mcp_memory.times.resolve import TimeRange

#: How many candidates are weighed, and how many more that only say the same in other words.
_POOL, _ALIKE = 200, 60
_NODES = 100
_ELSEWHERE = 60
#: Among so many of the best a contradiction is looked for, where what was settled is asked for.
_SETTLED = 10
#: What a node that holds all of a question is worth: it only sums up what was said.
_NODE = 0.75
#: Where a time is named, what the tree says of it: so many nodes, after so many events.
_PERIODS, _FIRST, _MORE_PERIODS = 2, 2, 5
#: How often what the tree says of a time was right: a segment of a short one, a day of a long one.
_OF_TIME, _OF_LONG_TIME = 0.55, 0.2
_MOST = 60
#: Fewer hits than that are followed by nodes, and no more nodes than that come in order of time.
_FEW = 10
_DAY_MS = 86_400_000
#: A time of up to three days is told by its segments, a longer one by its days.
_SHORT_MS = 3 * _DAY_MS
#: The shortest day that a change of the clock makes.
_SHORTEST_DAY_MS = 23 * 3_600_000
#: How many days away the nearest may lie; a longer time is only looked at if the shorter holds nothing.
_REACH = (31, 400)
_MANY = 400
#: Below this score the best hit is a guess, and a word that memory does not know may be the reason.
_WEAK = 0.3
#: Below this one it is about something else, which may be told in another project.
_POOR = 0.15
_UNKNOWN, _NEAR, _DAYS, _OFFERED = 3, 3, 2, 40


async def search(reader: ReadStore, query: Query) -> Results:
    """The best passages for a query. Any text is a valid query; without a word in it, only a time can answer."""
    question, time = question_of(query.text), query.when or query.favoured
    if not question.terms:
        if time:
            return await search_time(reader, query, time)
        if not query.text.strip():
            raise UsageError(
                "The query is empty: there is no word to look for. Name a term, or give a time with `when`."
            )
        return Results(query.text, None, [], note=" It holds no word to look for: name one, or give a time as when.")
    ranked, rare = list[RankedEntry](), tuple[float, ...]()
    if query.kind in LEVELS:
        ranked = await _nodes(reader, question, query, frozenset([query.kind]))
    else:
        ranked, rare = await _events(reader, question, query)
    if query.kind is None and query.favoured:
        # A question that names a time is half answered by what the tree says of it.
        periods = await _periods(reader, question, query.scope.project, query.favoured)
        # Where its words say next to nothing, the time is all that is known.
        known = bool(ranked) and ranked[0].score >= _POOR
        ahead, shown = (_FIRST, _PERIODS) if known else (0, _MORE_PERIODS)
        ranked = [*ranked[:ahead], *periods[:shown], *ranked[ahead:]]
    elif query.kind is None and len(ranked) < _FEW:
        ranked += await _beyond(reader, question, query, ranked)
    hits, elsewhere = await hits_of(reader, query, ranked, question, rare), dict[str, int]()
    if not hits and query.scope.project is not None and not query.scope.alone:
        within = replace(query.within(query.when), project=None)
        others = await reader.search(question.sought, within, kinds=None, limit=_ELSEWHERE)
        elsewhere = dict(Counter(entry.project for entry in others))
    more = query.end if len(ranked) > query.end else None
    return Results(query.text, time, hits, more, elsewhere, weights=rare if ranked and ranked[0].match else ())


async def _events(reader: ReadStore, question: Question, query: Query) -> tuple[list[RankedEntry], tuple[float, ...]]:
    """All events that are worth showing, best first, and how much each unit of the question tells.

    The list is the same whichever part of it is wanted.
    """

    def offered(asked: Question, time: TimeRange | None, limit: int) -> Awaitable[Pool]:
        cited, within = query.kind == "grip", query.within(time)
        return reader.pool(asked.sought, within, cited=cited, limit=limit)

    pool = await offered(question, query.when, _POOL)
    if query.favoured:
        pool = (await offered(question, query.favoured, _POOL // 2)).merged(pool)
    wide = question.widened(pool.frequencies, pool.documents)
    if wide.alike:
        more = await offered(wide, query.when, _ALIKE)
        pool = pool.merged(replace(more, messages=more.messages[: more.matched], beside={}))
    telling = telling_of(wide, pool)
    matches = rank(telling, pool, query.favoured, diverse=query.diverse)
    if question.settles:
        matches = await _settled(reader, matches)
    sure = scores(matches, telling.rare)
    return [RankedEntry(score, match=match) for match, score in zip(matches, sure, strict=True)], telling.rare


async def _settled(reader: ReadStore, matches: list[Match]) -> list[Match]:
    """The same, but a turn with which the user contradicts another comes right before that."""
    best = {match.message.turn or -match.message.number: match for match in matches[:_SETTLED]}
    order, following = list(best), await reader.following([turn for turn in best if turn > 0])
    for turn, (correction, event) in following.items():
        # It must speak of the matter itself.
        if (
            correction in best
            and best[correction].near
            and order.index(correction) > order.index(turn)
            and sets_right(event)
        ):
            order.remove(correction)
            order.insert(order.index(turn), correction)
            best[correction] = best[correction]._replace(value=max(best[correction].value, best[turn].value))
    return [*(best[turn] for turn in order), *matches[_SETTLED:]]


async def _nodes(reader: ReadStore, question: Question, query: Query, kinds: frozenset[str]) -> list[RankedEntry]:
    """Nodes by how much of the question they speak of; of equals first the one nearer to the words."""
    entries = await reader.search(question.sought, query.within(query.when), kinds=kinds, limit=_NODES)
    ranked = []
    for node in sorted([node for each in entries if (node := each.node)], key=lambda node: -node.level):
        told = terms_told(question, question.told(node_text(node)[:LONGEST]))
        score = round(_NODE * (len(told[0]) / len(question.terms)), 3)
        ranked.append(RankedEntry(score, IndexEntry(node), told))
    return sorted(ranked, key=lambda item: -item.score)


async def _beyond(
    reader: ReadStore, question: Question, query: Query, events: Sequence[RankedEntry]
) -> list[RankedEntry]:
    """Where few events speak of something, the nodes that do follow them: they show what it was part of.

    The segment of one of the events, and all above it, would tell the same once more.
    """
    last = events[-1].score if events else 1.0
    known = await reader.candidates([item.match.message.number for item in events if item.match])
    segments = [(entry.project, parse_node_id(entry.segment_id)[0]) for entry in known.values() if entry.segment_id]
    told = {(project, ref) for project, own in segments for ref in (own, *ancestors(own))}
    found = await _nodes(reader, question, query, frozenset(LEVELS))
    others = [
        item for item in found if item.entry and (node := item.entry.node) and (node.project, node.ref) not in told
    ]
    return [replace(item, score=min(item.score, last)) for item in others]


async def search_time(reader: ReadStore, query: Query, when: TimeRange) -> Results:
    """What the tree says of a time, of the wanted kind if one is named.

    A few nodes come in order of time; of many, those that tell most come first.
    """
    question, project = question_of(""), query.scope.project
    if query.kind in LEVELS:
        level = next(level for level in Level if level.label == query.kind)
        nodes = await reader.nodes(NodeQuery.touching(project, level, when.start_ms, when.end_ms, _MOST))
        ranked = _by_time(nodes, question)
    elif query.order and query.kind is None:
        ranked = _by_time(await _in_order(reader, query, when), question)
    else:
        ranked = await _periods(reader, question, project, when)
    nodes = [item.entry.node for item in ranked if item.entry and item.entry.node]
    in_order = bool(query.order) or len(ranked) <= _FEW
    if query.kind in ("event", "grip"):
        # The words that nodes cite, in their order, as far as they were said in the time.
        sure = {
            grip: item.score
            for item, node in zip(ranked, nodes, strict=True)
            for bullet in node.bullets
            for grip in bullet.grip_ids[:1]
        }
        cited = await reader.cited_by(list(sure)[:_MOST])
        said = [(event.timestamp_ms, grip, event) for grip, event in cited.items()]
        ranked = [
            RankedEntry(sure[grip], IndexEntry(event, grip))
            for moment, grip, event in (sorted(said, key=lambda each: each[0]) if in_order else said)
            if when.start_ms <= moment < when.end_ms
        ]
    elif in_order:
        moments = {id(item): node.start_ms for item, node in zip(ranked, nodes, strict=True)}
        ranked = sorted(ranked, key=lambda item: moments[id(item)], reverse=query.order == "last")
    hits = await hits_of(reader, query, ranked, question)
    order = "best first" if not in_order else "latest first" if query.order == "last" else "in order of time"
    return Results(query.text, when, hits, query.end if len(ranked) > query.end else None, order=order)


async def _periods(reader: ReadStore, question: Question, project: str | None, when: TimeRange) -> list[RankedEntry]:
    """The segments of a time, those that say most first; of a long time, its days.

    A day whose segments are not known tells of all its hours, so it is no answer where only some are asked about.
    """
    length_ms, nodes = when.end_ms - when.start_ms, list[Node]()
    if length_ms <= _SHORT_MS:
        nodes = await reader.nodes(NodeQuery.touching(project, Level.SEGMENT, when.start_ms, when.end_ms, _MOST))
    if not nodes and length_ms >= _SHORTEST_DAY_MS:
        nodes = await reader.nodes(NodeQuery.touching(project, Level.DAY, when.start_ms, when.end_ms, _MOST))
    telling = sorted(nodes, key=lambda node: -len(node.bullets))
    return sorted(_by_time(telling, question), key=lambda item: -len(item.terms[0]))


def _by_time(nodes: Sequence[Node], question: Question) -> list[RankedEntry]:
    """Nodes that are found by their time, whatever they speak of."""
    held = question.held([node_text(node)[:LONGEST] for node in nodes])
    return [
        RankedEntry(
            _OF_TIME if node.level is Level.SEGMENT else _OF_LONG_TIME, IndexEntry(node), terms_told(question, here)
        )
        for node, here in zip(nodes, held, strict=True)
    ]


async def _in_order(reader: ReadStore, query: Query, when: TimeRange) -> list[Node]:
    """The segments with which a time begins or ends, from that end; of a long one, of its first or last day."""
    project, start_ms, end_ms = query.scope.project, when.start_ms, when.end_ms
    if end_ms - start_ms > _SHORT_MS:
        if query.order == "first":
            day = next(iter(await reader.nodes(NodeQuery.touching(project, Level.DAY, start_ms, end_ms, 1))), None)
        else:
            late = max(start_ms, end_ms - _DAY_MS)
            near = await reader.nodes(NodeQuery.touching(project, Level.DAY, late, end_ms, _MANY))
            day = near[-1] if near else await _day_before(reader, project, end_ms)
            day = day if day and day.end_ms > start_ms else None
        start_ms, end_ms = (max(start_ms, day.start_ms), min(end_ms, day.end_ms)) if day else (start_ms, end_ms)
    nodes = await reader.nodes(NodeQuery.touching(project, Level.SEGMENT, start_ms, end_ms, _MANY))
    return nodes if query.order == "first" else nodes[::-1]


async def _day_before(reader: ReadStore, project: str | None, time_ms: int) -> Node | None:
    """The last day that ends by then and has a node."""
    for days in _REACH:
        nodes = await reader.nodes(NodeQuery.touching(project, Level.DAY, time_ms - days * _DAY_MS, time_ms, _MANY))
        if ended := [node for node in nodes if node.end_ms <= time_ms]:
            return ended[-1]
    return None


async def nearest_days(reader: ReadStore, project: str | None, start_ms: int, end_ms: int) -> list[Node]:
    """The days just before and just after a time on which something was said; of a few hours, their own day, too."""
    found = [await _day_before(reader, project, start_ms)]
    found += await reader.nodes(NodeQuery.touching(project, Level.DAY, start_ms, end_ms, 2))
    for days in _REACH:
        nodes = await reader.nodes(NodeQuery.touching(project, Level.DAY, end_ms, end_ms + days * _DAY_MS, 2))
        if begun := [node for node in nodes if node.start_ms >= end_ms]:
            found.append(begun[0])
            break
    return list({(day.project, day.node_id): day for day in found if day}.values())


async def advised(reader: ReadStore, scope: Scope, results: Results) -> Results:
    """The results with advice, if they need any: words as memory spells them, other times, other projects.

    Only what a look by key can tell is offered, so that a question without an answer costs no more than one with.
    """
    best, text, when = results.hits[0].score if results.hits else None, results.query, results.when
    if best is not None and (best >= _WEAK or scope.alone):
        # Which words are known, and where, would tell of other projects.
        return results
    near = {} if scope.alone else await near_spellings(reader, text)
    if best is None:
        outside = when is not None and question_of(text).terms and not asks_for_anything(text)
        anytime = (await search(reader, Query(scope, text, limit=1))).hits if outside else []
        nearest = await nearest_days(reader, scope.project, when.start_ms, when.end_ms) if when else []
        days = nearest or await reader.nodes(NodeQuery.latest(scope.project, Level.DAY, _DAYS, bullets=False))
        names = tuple(scope.id_of(day.node_id, day.project) for day in days)
        advice = Advice(near, names, anytime[0].start_ms if anytime else None, bool(nearest))
        return replace(results, advice=advice)
    # Of a question in full sentences many words are nowhere; only one that may be a slip is worth a word.
    slipped, elsewhere = {word: others for word, others in near.items() if others}, results.elsewhere
    if scope.project is not None and best < _POOR:
        elsewhere = await _better(reader, scope, results)
    return replace(results, advice=Advice(slipped), elsewhere=elsewhere) if slipped or elsewhere else results


#: Shorter and longer words cannot be told by the rest of their letters.
_SHORTEST, _LONGEST = 4, 24


def slips(word: str) -> list[str]:
    """All words that are one slip of the finger away, a few hundred."""
    if not (_SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalnum()):
        return []
    word = word.lower()
    halves = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    swapped = [left + right[1] + right[0] + right[2:] for left, right in halves if len(right) > 1]
    shorter = [left + right[1:] for left, right in halves if right]
    changed = [left + letter + right[1:] for left, right in halves if right for letter in string.ascii_lowercase]
    longer = [left + letter + right for left, right in halves for letter in string.ascii_lowercase]
    return [each for each in dict.fromkeys([*swapped, *shorter, *changed, *longer]) if each != word]


async def near_spellings(reader: ReadStore, text: str) -> dict[str, tuple[str, ...]]:
    """The words of a question that memory does not know, each with known ones that are spelled almost so.

    The index knows stems, and so calls every form of a known word known; the likeliest slip stands for them.
    """
    terms = () if asks_for_anything(text) else question_of(text).terms
    words = list(dict.fromkeys(word for term in terms for word in (term.phrases[0] if term.compound else term.words)))
    known = await reader.known(words)
    near: dict[str, tuple[str, ...]] = {}
    for word in [word for word in words if word not in known and slips(word)][:_UNKNOWN]:
        spelled = await reader.known([other for other in slips(word) if other not in STOP_WORDS])
        forms: dict[str, str] = {}
        for other in spelled:
            forms.setdefault(porter(other), other)
        near[word] = tuple(sorted(forms.values(), key=lambda other: -spelled[other])[:_NEAR])
    return near


async def _better(reader: ReadStore, scope: Scope, results: Results) -> dict[str, int]:
    """How many documents of other projects hold more of the question than the best hit here."""
    question = question_of(results.query)
    here = max((len(hit.matched) for hit in results.hits), default=0)
    offered = await reader.search(question.sought, Within(), kinds=frozenset(["event"]), limit=_OFFERED)
    others = [entry for entry in offered if entry.project != scope.project and entry.event]
    held = question.held([entry.event.text for entry in others if entry.event])
    return dict(Counter(entry.project for entry, each in zip(others, held, strict=True) if sum(each) > here))
