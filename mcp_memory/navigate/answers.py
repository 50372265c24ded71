"""The read side as one object: each method answers one question in text within a token budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from mcp_memory.domain.toc import Level, Scope, parse_node_id
from mcp_memory.errors import FOUND_NOW, Step, UsageError
from mcp_memory.navigate import browse
from mcp_memory.navigate.browse import topic_of
from mcp_memory.navigate.packing import Page
from mcp_memory.navigate.rendering import Renderer
from mcp_memory.navigate.scope import Reach, ref_of, scope_of
from mcp_memory.navigate.time_questions import (
    asks_for_latest,
    asks_for_outcomes,
    asks_for_time,
    latest,
    order_of,
    told_when,
)
from mcp_memory.search.hits import KINDS, Found, Search, Wanted, offset_of, with_replies
from mcp_memory.search.question import question_of
from mcp_memory.search.retrieval import advised, found_in, nearest_days, teleport
from mcp_memory.store.port import Clock, Library
from mcp_memory.times.find import find
from mcp_memory.times.resolve import TimeRange, resolve

MAX_BUDGET = 20_000
MAX_AROUND = 20
MAX_LIMIT = 50
_YEARS = 6
#: What is longer is pasted; a time in it says when something was, not when to look.
_QUESTION = 2_000
#: Tokens per hit below which each word counts, and the date of the first is left to its line.
_ROOMY = 48
#: Beside more hits a time that was dropped is not told in figures, too.
_FEW = 10


@dataclass(frozen=True, slots=True)
class Answers:
    """`root` and `label` name the current project, which need not be in memory yet."""

    library: Library
    renderer: Renderer
    clock: Clock
    zone: tzinfo
    root: str
    label: str = ""
    reach: Reach = Reach.EVERYTHING

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, self.zone)

    def when(self, phrase: str | None) -> TimeRange | None:
        return resolve(phrase, self.now, self.zone) if phrase and phrase.strip() else None

    async def scope(self, project: str | None) -> Scope:
        """What is asked about; raises if there is nothing to answer from, or if it may not be read."""
        here = f"in {self.root}" if self.root else f"that is called {self.label!r}"
        return await scope_of(self.library, (await self.view()).home, project, self.reach, here)

    async def view(self) -> Scope:
        """From where something is seen that is asked for by its id, and whether that may be of another project."""
        home = await self.library.project_of_root(self.root, self.label)
        return Scope(home, None, self.reach is Reach.HOME)

    async def toc_root(self, project: str | None, topic: str | None, budget: int, notice: str = "") -> Page:
        """The top of the tree; `notice` is something the reader should know about the memory itself."""
        scope = await self.scope(project)
        branches = await topic_of(self.library, topic, scope)
        root = await browse.toc_root(self.library, scope, branches)
        note = notice + await self._elsewhere(scope, root)
        waiting = "" if root.years else await self.waiting(scope)
        return self.renderer.root(root, scope, branches, note, checked(budget), waiting)

    async def waiting(self, scope: Scope) -> str:
        """What was said but stands in no summary yet: a session that goes on is summarized when it pauses."""
        sessions, events = await self.library.unsummarized(scope.project)
        if not sessions:
            return ""
        told = f"{events} event{'s' * (events != 1)} of {sessions} open session{'s' * (sessions != 1)}"
        return f" {told} will be summarized once there is a pause; {self.renderer.say(FOUND_NOW)}"

    async def _elsewhere(self, scope: Scope, root: browse.Root) -> str:
        if root.years or scope.project is None or scope.alone:
            return ""
        others = [slug for slug in await self.library.slugs() if slug != scope.project]
        return f" Other projects: {', '.join(others[:8])}." if others else ""

    async def get_node(
        self, node_id: str, project: str | None, topic: str | None, budget: int, cursor: str | None
    ) -> Page:
        named = not project and parse_node_id(node_id)[1]
        scope = await (self.view() if named else self.scope(project))
        place, branches = await browse.get_node(self.library, scope, node_id, topic, outline=True)
        return self.renderer.node(place, scope, branches, checked(budget), offset_of(cursor))

    async def versions(self, node_id: str | None) -> list[int]:
        """The versions behind what `get_node` shows, or `toc_root` without an id: they tell more than its words do.

        A year has a new version whenever anything beneath it has.
        """
        scope = await self.scope(parse_node_id(node_id)[1] if node_id else None)
        if node_id is None:
            nodes = await self.library.top(scope.project, Level.YEAR, _YEARS, bullets=False)
            return [node.version for node in nodes]
        ref, project = await ref_of(self.library, scope, node_id)
        node = await self.library.node(project, ref)
        return [node.version] if node else []

    async def browse_time(
        self, when: str, project: str | None, topic: str | None, budget: int, cursor: str | None
    ) -> Page:
        scope = await self.scope(project)
        span, branches = await browse.browse_time(self.library, scope, resolve(when, self.now, self.zone), topic)
        note = "" if span.nodes else await self.waiting(scope) + await self._nearest(scope, span.when)
        return self.renderer.span(span, scope, branches, checked(budget), offset_of(cursor), note)

    async def _nearest(self, scope: Scope, when: TimeRange) -> str:
        """Where there is something, for a time in which nothing was."""
        days = await nearest_days(self.library, scope.project, when.start_ms, when.end_ms)
        names = ", ".join(scope.id_of(day.node_id, day.project) for day in days)
        return f" The nearest days: {names}." if names else ""

    async def expand_grip(self, grip_id: str, before: int, after: int, budget: int) -> Page:
        opened = await browse.expand_grip(self.library, grip_id, few(before), few(after), spoken=True)
        scope = await self.view()
        scope.admit(opened.record.cited.project if opened.record.cited else "")
        return self.renderer.grip(opened, scope, checked(budget))

    async def search(self, asked: Search) -> tuple[Found, str]:
        """The hits, and a note on how the question was understood."""

        async def read(library: Library) -> tuple[Found, str]:
            here = replace(self, library=library)
            return await here._found(await here._wanted(asked))

        return await self.library.at_once(read)

    async def teleport(self, asked: Search, budget: int) -> tuple[Found, Page]:
        """The hits with what belongs beside them, advice where there are few, and all of it as text."""

        async def read(library: Library) -> tuple[Found, str]:
            here = replace(self, library=library)
            wanted = await here._wanted(asked)
            found, note = await here._found(wanted)
            found = await with_replies(library, found, question_of(found.query))
            return await advised(library, wanted.scope, found), note

        found, note = await self.library.at_once(read)
        if found.hits and budget >= _ROOMY * len(found.hits):
            note += told_when(asked.query, found.hits[0], self.now)
        return found, self.renderer.hits(found, checked(budget), note)

    async def _wanted(self, asked: Search) -> Wanted:
        scope = await self.scope(asked.project)
        limit, offset, when = many(asked.limit), offset_of(asked.cursor), self.when(asked.when)
        if asked.kind and asked.kind not in KINDS:
            raise UsageError(f"{asked.kind!r} is not a kind; known are {', '.join(KINDS)}.")
        return Wanted(scope, asked.query, when, None, asked.kind or None, limit, offset, asked.diverse)

    async def _found(self, wanted: Wanted) -> tuple[Found, str]:
        """The hits and a note: in the time that is given, else rather in the one that the question names."""
        if wanted.when:
            return await self._in_time(wanted, wanted.when), ""
        if len(wanted.query) > _QUESTION:
            return await teleport(self.library, wanted), ""
        named = find(wanted.query, self.now, self.zone)
        if named:
            return await self._in_named_time(wanted, *named)
        return await self._latest(wanted) or await teleport(self.library, wanted), ""

    async def _latest(self, wanted: Wanted) -> Found | None:
        """What there was last, or first, for a question that names neither a topic nor a time."""
        if not asks_for_latest(wanted.query):
            return None
        told = await latest(self.library, wanted.scope.project, wanted.query)
        return await found_in(self.library, replace(wanted, order=told[1]), told[0]) if told else None

    async def _in_time(self, wanted: Wanted, when: TimeRange) -> Found:
        """What was said in a time; if nothing else is asked for, what the tree says of it, as soon as it does."""
        scope = await asks_for_time(self.library, wanted.scope, wanted.query)
        if scope:
            told = await found_in(self.library, replace(wanted, scope=scope, order=order_of(wanted.query)), when)
            if told.hits:
                return told
        return await teleport(self.library, replace(wanted, when=when))

    async def _in_named_time(self, wanted: Wanted, time: TimeRange, rest: str) -> tuple[Found, str]:
        """What was said in a time that the question names beside the `rest`, before all else; or else at any time."""
        without = replace(wanted, query=rest)
        if await asks_for_time(self.library, wanted.scope, rest):
            return await self._in_time(without, time), ""
        if not await self.library.is_silent(wanted.within(time)):
            found = await teleport(self.library, replace(without, favoured=time))
            within = [hit for hit in found.hits if time.start_ms <= hit.start_ms < time.end_ms]
            if within:
                return replace(found, hits=within) if asks_for_outcomes(rest) else found, ""
        found = await teleport(self.library, wanted)
        if not _is_told(found, rest):
            # The phrase was no word of the matter, such as the date in a file's name, and does not lack now.
            found = await teleport(self.library, without)
        asked = self.renderer.range(time) if wanted.limit <= _FEW else repr(time.phrase)
        return found, f" Nothing was found in {asked}, so all times were searched."


def _is_told(found: Found, rest: str) -> bool:
    """Whether something that was said holds a word of the question beyond its `rest`: one that names the time.

    Where only summaries were found they are those of times near by, whose dates have the same words.
    """
    others = {term.shown for term in question_of(rest).terms}
    said = [hit for hit in found.hits if hit.role]
    return not others or not said or any(word not in others for hit in said for word in hit.matched)


def checked(budget: int) -> int:
    """How long an answer may be; a larger budget than the largest is cut down to it."""
    if budget < 1:
        usual = f"must be from 1 to {MAX_BUDGET:,}; 500 to 2,000 is usual."
        raise UsageError("", Step(f"budget_tokens {usual}", f"--budget {usual}"))
    return min(budget, MAX_BUDGET)


def many(limit: int) -> int:
    """How many hits to give at once; a cursor leads on to the rest."""
    if limit < 1:
        raise UsageError(f"limit must be from 1 to {MAX_LIMIT}, not {limit}; 5 to 10 is usual.")
    return min(limit, MAX_LIMIT)


def few(number: int, most: int = MAX_AROUND) -> int:
    """How many events to show before or after a grip, no more than `most`."""
    if number < 0:
        raise UsageError(f"before and after must be from 0 to {MAX_AROUND} events, not {number}.")
    return min(number, most)
