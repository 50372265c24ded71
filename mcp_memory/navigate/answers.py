"""What can be asked of a memory: one method for each question, all of whose answer is read from one moment.

A search whose question names a time, or asks for whatever there was (the first, the last, the latest), is answered from
the tree as well, one about the work itself by what is known of it; one that asks for a date is told the best hit's in
words.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypedDict, TypeVar, Unpack

from mcp_memory.domain.budget import offset_of
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.toc import Level, Scope, parse_node_id
from mcp_memory.errors import FOUND_NOW, NoProject, NotFound, Step, UsageError
from mcp_memory.lexicon import expressions
from mcp_memory.navigate import browse
from mcp_memory.navigate.browse import Reach, node_of, ref_of, scope_of
from mcp_memory.navigate.hit_rendering import ROOMY
from mcp_memory.navigate.naming import grip_id_of, node_id_of
from mcp_memory.navigate.rendering import Page, Renderer
from mcp_memory.navigate.work_questions import answer_by_structure, is_all
from mcp_memory.search.hits import Hit, Results
from mcp_memory.search.question import KINDS, Order, Query, asks_for_anything, question_of
from mcp_memory.search.retrieval import advised, nearest_days, search, search_time
from mcp_memory.store.port import Clock, ReadStore
from mcp_memory.times.find import find
from mcp_memory.times.resolve import TimeRange, resolve

if TYPE_CHECKING:
    from mcp_memory.navigate.colleagues import Colleagues

#: What is longer is pasted; a time in it says when something was, not when to look.
_QUESTION = 2_000
#: Beside more hits a time that was dropped is not told in figures, too.
_FEW = 10
_EVER_MS = 1 << 53
#: What is recent: the latest days on which anything was.
_RECENT_DAYS = 4
#: The longest day that a change of the clock makes.
_LONGEST_DAY_MS = 25 * 3_600_000
_GUESS = 0.1
_ORDERS: tuple[Order, ...] = ("last", "first")
_WORDINGS = expressions("time_questions")


async def find_hits(
    reader: ReadStore, query: Query, now: datetime, moment: Callable[[int], str]
) -> tuple[Results, str]:
    """The hits and a note: in the time that is given, else rather in the one that the question names."""
    if len(query.text) > _QUESTION:
        return (await _in_time(reader, query, query.when) if query.when else await search(reader, query)), ""
    named = None if query.when else find(query.text, now, now.tzinfo or UTC)
    # What asks about the work itself is answered by what is known of it, in the time that is named beside it, if any.
    for asked in [query, *([replace(query, text=named[1], when=named[0])] if named else [])]:
        if told := await answer_by_structure(reader, asked):
            return told, ""
    if query.when:
        return await _in_time(reader, query, query.when), ""
    if named:
        return await _in_named_time(reader, query, *named, moment)
    # A question that names neither a topic nor a time: what is new, what did we do first?
    if _WORDINGS["asks"].search(query.text) and is_all(_WORDINGS["left_off"], query.text):
        latest = await _latest(reader, query.scope.project, query.text)
        if latest:
            # Several days are told by themselves, a single one by its segments.
            kind = query.kind or (None if latest[0].end_ms - latest[0].start_ms <= _LONGEST_DAY_MS else "day")
            return await search_time(reader, replace(query, kind=kind, order=latest[1]), latest[0]), ""
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
            return replace(found, hits=within) if is_all(_WORDINGS["outcomes"], rest) else found, ""
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
                return replace(scope, project=slug)
    return None


async def _latest(reader: ReadStore, project: str | None, asked: str) -> tuple[TimeRange, Order] | None:
    """The day on which anything was last, or first if that is asked for; of recent things, the days up to it.

    And from which end it is told.
    """
    order: Order
    if _order_of(asked) == "first":
        query, phrase, order = NodeQuery.touching(project, Level.DAY, 0, _EVER_MS, 1), "the first day", "first"
    else:
        recent = _WORDINGS["recent"].search(asked)
        query = NodeQuery.latest(project, Level.DAY, _RECENT_DAYS if recent else 1, bullets=False)
        phrase, order = ("the latest days" if recent else "the latest day"), "last"
    days = await reader.nodes(query)
    return (TimeRange(phrase, days[-1].start_ms, days[0].end_ms), order) if days else None


def of_ourselves(text: str) -> str:
    """A question to a team's memory, as one would ask one's own: what did we decide, instead of the team."""
    return _WORDINGS["the_team"].sub("we", text)


def date_of_best(query: str, best: Hit, now: datetime) -> str:
    """The date of the best hit, for a question that asks for one, unless it is hardly more than a guess."""
    if not _WORDINGS["when"].match(query) or best.score < _GUESS:
        return ""
    day = datetime.fromtimestamp(best.start_ms / 1000, now.tzinfo)
    days = (now.date() - day.date()).days
    ago = {0: "today", 1: "yesterday"}.get(days, f"{days} days ago" if days > 0 else "")
    return f" The first is of {day:%A, %Y-%m-%d}{', ' * bool(ago)}{ago}."


T = TypeVar("T")
P = ParamSpec("P")
MAX_BUDGET = 20_000
MAX_AROUND = 20
MAX_LIMIT = 50


class SearchOptions(TypedDict, total=False):
    """A kind of hits, how many of them, from which place in the list on, and whether they are spread over sessions."""

    kind: str | None
    limit: int
    cursor: str | None
    diverse: bool


def at_one_moment(
    method: Callable[Concatenate[Answers, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Answers, P], Coroutine[Any, Any, T]]:
    """Let a method read all that its answer needs as of one moment, in one trip to the store."""

    @wraps(method)
    async def answer(answers: Answers, /, *args: P.args, **named: P.kwargs) -> T:
        return await answers.at_once(lambda here: method(here, *args, **named))

    return answer


@dataclass(frozen=True, slots=True)
class Answers:
    """`root`, `label` and `remote` name the current project, which need not be in memory yet.

    `team`: the memory of a team, if this one is part of it. What is read as of one moment asks no one else.
    """

    reader: ReadStore
    renderer: Renderer
    clock: Clock
    zone: tzinfo
    root: str
    label: str = ""
    remote: str = ""
    reach: Reach = Reach.EVERYTHING
    team: Colleagues | None = None

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, self.zone)

    def when(self, phrase: str | None) -> TimeRange | None:
        return resolve(phrase, self.now, self.zone) if phrase and phrase.strip() else None

    async def at_once(self, work: Callable[[Answers], Coroutine[Any, Any, T]]) -> T:
        """What `work` makes of these answers as they are at one moment."""
        return await self.reader.at_once(lambda reader: work(replace(self, reader=reader, team=None)))

    async def scope(self, project: str | None) -> Scope:
        """What is asked about; raises if there is nothing to answer from, or if it may not be read."""
        here = f"in {self.root}" if self.root else f"that is called {self.label!r}"
        return await scope_of(self.reader, (await self.view()).home, project, self.reach, here)

    async def view(self) -> Scope:
        """From where something is seen that is asked for by its id, and whether that may be of another project."""
        home = await self.reader.project_of_root(self.root, self.label, self.remote)
        # Notes alone do not narrow what is read by default. An agent that may read nothing else still reads its own.
        if home and self.reach is Reach.EVERYTHING and not await self.reader.has_sessions(home):
            home = None
        return Scope(home, None, self.reach is Reach.HOME, self.reach is Reach.TEAM)

    async def waiting(self, scope: Scope) -> str:
        """What was said but stands in no summary yet: a session that goes on is summarized when it pauses."""
        sessions, events = await self.reader.unsummarized(scope.project)
        if not events:
            return ""
        told = f"{events} event{'s' * (events != 1)}"
        if sessions:
            told += f" of {sessions} open session{'s' * (sessions != 1)}"
        return f" {told} will be summarized once there is a pause; {self.renderer.say(FOUND_NOW)}"

    async def with_team(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        project: str | None,
        budget: int,
        local: Callable[[Answers, int], Coroutine[Any, Any, Page]],
    ) -> Page:
        """An answer within the budget, of this memory and of the team's, if there is one."""
        if self.team is None:
            return await self.at_once(lambda here: local(here, budget))
        from mcp_memory.navigate import colleagues

        return await colleagues.beside(self, tool, arguments, project, valid_budget(budget), local)

    async def or_of_team(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        name: str,
        budget: int,
        local: Callable[[Answers], Coroutine[Any, Any, Page]],
        project: str | None = None,
    ) -> Page:
        """What an id names, here or else in the team's memory, if there is one."""
        if self.team is None:
            return await self.at_once(local)
        from mcp_memory.navigate import colleagues

        return await colleagues.relayed(self, tool, arguments, name, valid_budget(budget), local, project)

    async def toc_root(self, project: str | None, topic: str | None, budget: int, notice: str = "") -> Page:
        """The top of the tree; `notice` is something the reader should know about the memory itself."""
        return await self.with_team(
            "toc_root", {"topic": topic}, project, budget, lambda here, room: here._root(project, topic, room, notice)
        )

    async def _root(self, project: str | None, topic: str | None, budget: int, notice: str) -> Page:
        scope = await self.scope(project)
        branches = await browse.topic_of(self.reader, topic, scope)
        root, waiting = await browse.toc_root(self.reader, scope, branches), ""
        if not root.years:
            waiting = await self.waiting(scope)
            alone = scope.project is None or scope.alone
            others = [] if alone else [slug for slug in await self.reader.slugs() if slug != scope.project]
            notice += f" Other projects: {', '.join(others[:8])}." if others else ""
        return self.renderer.root(root, scope, branches, notice, valid_budget(budget), waiting)

    async def get_node(
        self, node_id: str, project: str | None, topic: str | None, budget: int, cursor: str | None
    ) -> Page:
        node_id = node_id_of(node_id, self.now, self.zone)
        arguments = {"node_id": node_id, "topic": topic, "cursor": cursor}

        async def local(here: Answers) -> Page:
            return await here._node(node_id, project, topic, budget, cursor)

        return await self.or_of_team("get_node", arguments, node_id, budget, local, project)

    async def _node(
        self, node_id: str, project: str | None, topic: str | None, budget: int, cursor: str | None
    ) -> Page:
        named = not project and parse_node_id(node_id)[1]
        scope = await (self.view() if named else self.scope(project))
        view, branches = await browse.get_node(self.reader, scope, node_id, topic, outline=True)
        return self.renderer.node(view, scope, branches, valid_budget(budget), offset_of(cursor))

    @at_one_moment
    async def versions(self, node_id: str | None) -> list[int]:
        """The versions behind what `get_node` shows, or `toc_root` without an id: they tell more than its words do.

        A year has a new version whenever anything beneath it has.
        """
        node_id = node_id_of(node_id, self.now, self.zone) if node_id else None
        scope = await self.scope(parse_node_id(node_id)[1] if node_id else None)
        if node_id is None:
            nodes = await self.reader.nodes(NodeQuery.latest(scope.project, Level.YEAR, browse.YEARS, bullets=False))
            return [node.version for node in nodes]
        ref, project = await ref_of(self.reader, scope, node_id)
        node = await node_of(self.reader, project, ref)
        return [node.version] if node else []

    async def browse_time(
        self, when: str, project: str | None, topic: str | None, budget: int, cursor: str | None
    ) -> Page:
        async def local(here: Answers, room: int) -> Page:
            return await here._time(when, project, topic, room, cursor)

        if cursor:  # the list goes on, which is one's own
            return await self.at_once(lambda here: local(here, budget))
        return await self.with_team("browse_time", {"when": when, "topic": topic}, project, budget, local)

    async def _time(self, when: str, project: str | None, topic: str | None, budget: int, cursor: str | None) -> Page:
        scope = await self.scope(project)
        waiting = note = ""
        time, branches = await browse.browse_time(self.reader, scope, resolve(when, self.now, self.zone), topic)
        if not time.nodes:
            days = await nearest_days(self.reader, scope.project, time.when.start_ms, time.when.end_ms)
            names = ", ".join(scope.id_of(day.node_id, day.project) for day in days)
            waiting = await self.waiting(scope)
            note = f" The nearest days: {names}." if names else ""
        return self.renderer.timeline(time, scope, branches, valid_budget(budget), offset_of(cursor), waiting, note)

    async def expand_grip(self, grip_id: str, before: int, after: int, budget: int) -> Page:
        grip_id = grip_id_of(grip_id)
        arguments = {"grip_id": grip_id, "before": before, "after": after}
        return await self.or_of_team(
            "expand_grip", arguments, grip_id, budget, lambda here: here._grip(grip_id, before, after, budget)
        )

    async def _grip(self, grip_id: str, before: int, after: int, budget: int) -> Page:
        opened = await browse.expand_grip(self.reader, grip_id, valid_around(before), valid_around(after), spoken=True)
        scope = await self.view()
        scope.admit(opened.record.cited.project if opened.record.cited else "")
        return self.renderer.grip(opened, scope, valid_budget(budget))

    @at_one_moment
    async def search(
        self, text: str, project: str | None = None, when: str | None = None, **options: Unpack[SearchOptions]
    ) -> tuple[Results, str]:
        """The hits, and a note on how the question was understood."""
        query = await self._query(text, project, when, **options)
        return await find_hits(self.reader, query, self.now, self.renderer.moment)

    @at_one_moment
    async def first_hits(
        self, text: str, project: str | None, when: str | None, many: int, **options: Unpack[SearchOptions]
    ) -> tuple[Results, str]:
        """The beginning of the list, however far a cursor is on in it; and the note."""
        query = await self._query(text, project, when, **options)
        return await find_hits(self.reader, replace(query, offset=0, limit=many), self.now, self.renderer.moment)

    async def teleport(
        self,
        text: str,
        project: str | None = None,
        when: str | None = None,
        *,
        budget: int,
        **options: Unpack[SearchOptions],
    ) -> tuple[Results, Page]:
        """The hits, advice where there are few, and all of it as text."""
        if self.team is None:
            return await self.at_once(lambda here: here._teleport(text, project, when, budget, **options))
        from mcp_memory.navigate import colleagues

        found, note = await colleagues.found_in_both(self, text, project, when, options)
        return await self.at_once(lambda here: here._told(found, note, text, project, budget))

    async def _teleport(
        self, text: str, project: str | None, when: str | None, budget: int, **options: Unpack[SearchOptions]
    ) -> tuple[Results, Page]:
        query = await self._query(text, project, when, **options)
        found, note = await find_hits(self.reader, query, self.now, self.renderer.moment)
        if query.offset and not found.hits:
            found = replace(found, elsewhere={}, note=" The list ends before this cursor.")
        return await self._told(found, note, text, project, budget)

    async def _told(
        self, found: Results, note: str, text: str, project: str | None, budget: int
    ) -> tuple[Results, Page]:
        with suppress(NoProject, NotFound):  # where only the team knows the project there is no advice from here
            found = await advised(self.reader, await self.scope(project), found)
        if found.hits and budget >= ROOMY * len(found.hits):
            note += date_of_best(text, found.hits[0], self.now)
        return found, self.renderer.hits(found, valid_budget(budget), note)

    async def _query(self, text: str, project: str | None, when: str | None, **options: Unpack[SearchOptions]) -> Query:
        """What is asked, its project, time and place in the list understood."""
        text = of_ourselves(text) if self.reach is Reach.TEAM else text
        scope, kind, limit = await self.scope(project), options.get("kind"), options.get("limit", 10)
        if limit < 1:
            raise UsageError(f"limit must be from 1 to {MAX_LIMIT}, not {limit}; 5 to 10 is usual.")
        offset, time = offset_of(options.get("cursor")), self.when(when)
        if kind and kind not in KINDS:
            raise UsageError(f"{kind!r} is not a kind; known are {', '.join(KINDS)}.")
        diverse = options.get("diverse", False)
        return Query(scope, text, time, None, kind or None, min(limit, MAX_LIMIT), offset, diverse)


def valid_budget(budget: int) -> int:
    """How long an answer may be; a larger budget than the largest is cut down to it."""
    if budget < 1:
        usual = f"must be from 1 to {MAX_BUDGET:,}; 500 to 2,000 is usual."
        raise UsageError("", Step(f"budget_tokens {usual}", f"--budget {usual}"))
    return min(budget, MAX_BUDGET)


def valid_around(number: int, most: int = MAX_AROUND) -> int:
    """How many events to show before or after a grip, no more than `most`."""
    if number < 0:
        raise UsageError(f"before and after must be from 0 to {most:,} events, not {number}.")
    return min(number, most)
