"""How a search answers a question that names a time, or asks for whatever there was: the first, the last, the latest.

And a question that asks for a date is told the best hit's in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.toc import Level, Scope
from mcp_memory.lexicon import expressions
from mcp_memory.search.hits import Hit, Results
from mcp_memory.search.question import Order, Query, asks_for_anything, question_of
from mcp_memory.search.retrieval import search, search_time
from mcp_memory.store.port import ReadStore
from mcp_memory.times.find import find
from mcp_memory.times.resolve import TimeRange

#: What is longer is pasted; a time in it says when something was, not when to look.
_QUESTION = 2_000
#: Beside more hits a time that was dropped is not told in figures, too.
_FEW = 10
_EVER_MS = 1 << 53
#: What is recent: the latest days on which anything was.
_RECENT_DAYS = 4
_GUESS = 0.1
_ORDERS: tuple[Order, ...] = ("last", "first")
_WORDINGS = expressions("time_questions")


async def find_hits(
    reader: ReadStore, query: Query, now: datetime, moment: Callable[[int], str]
) -> tuple[Results, str]:
    """The hits and a note: in the time that is given, else rather in the one that the question names."""
    if query.when:
        return await _in_time(reader, query, query.when), ""
    if len(query.text) > _QUESTION:
        return await search(reader, query), ""
    named = find(query.text, now, now.tzinfo or UTC)
    if named:
        return await _in_named_time(reader, query, *named, moment)
    # A question that names neither a topic nor a time: what were we doing, where did we leave off?
    if _WORDINGS["asks"].search(query.text) and _is_all("left_off", query.text):
        told = await _latest(reader, query.scope.project, query.text)
        if told:
            return await search_time(reader, replace(query, order=told[1]), told[0]), ""
    return await search(reader, query), ""


async def _in_time(reader: ReadStore, query: Query, when: TimeRange) -> Results:
    """What was said in a time; if nothing else is asked for, what the tree says of it, as soon as it does."""
    scope = await _asks_for_time(reader, query.scope, query.text)
    if scope:
        order = _order_of(query.text)
        told = await search_time(reader, replace(query, scope=scope, order=order), when)
        if told.hits:
            return told
    return await search(reader, replace(query, when=when))


async def _in_named_time(
    reader: ReadStore, query: Query, time: TimeRange, rest: str, moment: Callable[[int], str]
) -> tuple[Results, str]:
    """What was said in a time that the question names beside the `rest`, before all else; or else at any time."""
    without = replace(query, text=rest)
    if await _asks_for_time(reader, query.scope, rest):
        return await _in_time(reader, without, time), ""
    if not await reader.is_silent(query.within(time)):
        found = await search(reader, replace(without, favoured=time))
        within = [hit for hit in found.hits if time.start_ms <= hit.start_ms < time.end_ms]
        if within:
            # Where only a kind of outcome is named beside a time, the decisions of any other time are no answer.
            return replace(found, hits=within) if _is_all("outcomes", rest) else found, ""
    found = await search(reader, query)
    # Whether something that was said holds a word beyond the rest of the question: one that names the time. Where only
    # summaries were found they are those of times near by, whose dates have the same words.
    others = {term.shown for term in question_of(rest).terms}
    said = [hit for hit in found.hits if hit.role]
    if others and said and all(word in others for hit in said for word in hit.matched):
        # The phrase was no word of the matter, such as the date in a file's name, and does not lack now.
        found = await search(reader, without)
    asked = time.told(moment) if query.limit <= _FEW else repr(time.phrase)
    return found, f" Nothing was found in {asked}, so all times were searched."


def _is_all(wording: str, text: str) -> bool:
    """Whether beside such words nothing is named that could be looked for."""
    return asks_for_anything(" ".join(_WORDINGS[wording].split(text)))


def _order_of(asked: str) -> Order:
    """Whether the first or the last of what there was is asked for."""
    return next((order for order in _ORDERS if _WORDINGS[order].search(asked)), "")


async def _asks_for_time(reader: ReadStore, scope: Scope, asked: str) -> Scope | None:
    """Where to look for whatever there was, if a question names no topic; it may name a project."""
    if asks_for_anything(asked):
        return scope
    if scope.project not in (None, scope.home) or scope.alone:
        return None
    for match in _WORDINGS["in_project"].finditer(asked):
        if asks_for_anything(f"{asked[: match.start()]} {asked[match.end() :]}"):
            slugs = {slug.lower(): slug for slug in await reader.slugs()}
            if slug := slugs.get(match["slug"].lower()):
                return Scope(scope.home, slug)
    return None


async def _latest(reader: ReadStore, project: str | None, asked: str) -> tuple[TimeRange, Order] | None:
    """The day on which anything was last, or first if that is asked for; of recent things, the days up to it.

    And from which end it is told.
    """
    order: Order
    if _order_of(asked) == "first":
        days = await reader.nodes(NodeQuery.touching(project, Level.DAY, 0, _EVER_MS, 1))
        phrase, order = "the first day", "first"
    elif _WORDINGS["recent"].search(asked):
        days = await reader.nodes(NodeQuery.latest(project, Level.DAY, _RECENT_DAYS, bullets=False))
        phrase, order = "the latest days", ""
    else:
        days = await reader.nodes(NodeQuery.latest(project, Level.DAY, 1, bullets=False))
        phrase, order = "the latest day", "last"
    return (TimeRange(phrase, days[-1].start_ms, days[0].end_ms), order) if days else None


def date_of_best(query: str, best: Hit, now: datetime) -> str:
    """The date of the best hit, for a question that asks for one, unless it is hardly more than a guess."""
    if not _WORDINGS["when"].match(query) or best.score < _GUESS:
        return ""
    day = datetime.fromtimestamp(best.start_ms / 1000, now.tzinfo)
    days = (now.date() - day.date()).days
    ago = {0: "today", 1: "yesterday"}.get(days, f"{days} days ago" if days > 0 else "")
    return f" The first is of {day:%A, %Y-%m-%d}{', ' * bool(ago)}{ago}."
