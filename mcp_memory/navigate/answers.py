"""The read side as one object: each method answers one question in text within a token budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from mcp_memory.domain.steps import FOUND_NOW
from mcp_memory.errors import Step, UsageError
from mcp_memory.navigate import browse
from mcp_memory.navigate.advice import advised
from mcp_memory.navigate.around import asks_for_anything, found_around
from mcp_memory.navigate.asked import KINDS, Search, Wanted
from mcp_memory.navigate.beside import with_surroundings
from mcp_memory.navigate.found import Found
from mcp_memory.navigate.of_time import found_in
from mcp_memory.navigate.question import question_of
from mcp_memory.navigate.recall import teleport
from mcp_memory.navigate.render import Page, Renderer
from mcp_memory.navigate.scope import ALL, Scope, scope_of
from mcp_memory.navigate.topic import topic_of
from mcp_memory.navigate.when import TimeRange, find, resolve
from mcp_memory.ports.library import Library
from mcp_memory.ports.work import Clock

MAX_BUDGET = 20_000
MAX_AROUND = 20
MAX_LIMIT = 50
#: What is longer is pasted; a time in it says when something was, not when to look.
_QUESTION = 2_000


@dataclass(frozen=True, slots=True)
class Answers:
    """`root` and `label` say which project one stands in; it may get its first memory at any time."""

    library: Library
    renderer: Renderer
    clock: Clock
    zone: tzinfo
    root: str
    label: str = ""

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, self.zone)

    def when(self, phrase: str | None) -> TimeRange | None:
        return resolve(phrase, self.now, self.zone) if phrase and phrase.strip() else None

    async def scope(self, project: str | None) -> Scope:
        return await scope_of(self.library, await self.library.project_of_root(self.root, self.label), project)

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
        if root.years or scope.project is None:
            return ""
        others = [slug for slug in await self.library.slugs() if slug != scope.project]
        return f" Other projects: {', '.join(others[:8])}." if others else ""

    async def get_node(
        self, node_id: str, project: str | None, topic: str | None, budget: int, cursor: str | None
    ) -> Page:
        scope = await self.scope(project)
        place, branches = await browse.get_node(self.library, scope, node_id, topic, outline=True)
        return self.renderer.node(place, scope, branches, checked(budget), offset_of(cursor))

    async def browse_time(
        self, when: str, project: str | None, topic: str | None, budget: int, cursor: str | None
    ) -> Page:
        scope = await self.scope(project)
        span, branches = await browse.browse_time(self.library, scope, resolve(when, self.now, self.zone), topic)
        note = await self.waiting(scope) if not span.nodes else ""
        return self.renderer.span(span, scope, branches, checked(budget), offset_of(cursor), note)

    async def expand_grip(self, grip_id: str, before: int, after: int, budget: int) -> Page:
        opened = await browse.expand_grip(self.library, grip_id, few(before), few(after), spoken=True)
        return self.renderer.grip(opened, await self.scope(ALL), checked(budget))

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
            found = await with_surroundings(library, found)
            return await advised(library, wanted.scope, found), note

        found, note = await self.library.at_once(read)
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
        around = await found_around(self.library, wanted) if wanted.kind is None else None
        return around or await teleport(self.library, wanted), ""

    async def _in_time(self, wanted: Wanted, when: TimeRange) -> Found:
        """What was said in a time; if nothing else is asked for, what the tree says of it, as soon as it does."""
        told = await found_in(self.library, wanted, when) if asks_for_anything(wanted.query) else None
        return told if told and told.hits else await teleport(self.library, replace(wanted, when=when))

    async def _in_named_time(self, wanted: Wanted, time: TimeRange, rest: str) -> tuple[Found, str]:
        """What was said in a time that the question names beside the `rest`, before all else; or else at any time."""
        without = replace(wanted, query=rest)
        if asks_for_anything(rest):
            return await self._in_time(without, time), ""
        if not await self.library.is_silent(wanted.within(time)):
            found = await teleport(self.library, replace(without, favoured=time))
            if any(time.start_ms <= hit.start_ms < time.end_ms for hit in found.hits):
                return found, ""
        found = await teleport(self.library, wanted)
        if not _is_told(found, rest):
            # The phrase was no word of the matter, such as the date in a file's name, and does not lack now.
            found = await teleport(self.library, without)
        return found, f" Nothing was found in {time.phrase!r}, so all times were searched."


def _is_told(found: Found, rest: str) -> bool:
    """Whether something that was said holds a word of the question beyond its `rest`: one that names the time.

    Where only summaries were found they are those of times near by, whose dates have the same words.
    """
    others = {term.shown for term in question_of(rest).terms}
    said = [hit for hit in found.hits if hit.role]
    return not others or not said or any(word not in others for hit in said for word in hit.matched)


def checked(budget: int) -> int:
    """How long an answer may be. Whoever allows for more than the most is content with less."""
    if budget < 1:
        usual = f"must be from 1 to {MAX_BUDGET:,}; 500 to 2,000 is usual."
        raise UsageError("", Step(f"budget_tokens {usual}", f"--budget {usual}"))
    return min(budget, MAX_BUDGET)


def many(limit: int) -> int:
    """How many hits to give. Asked for more than the most, the cursor leads on to the rest."""
    if limit < 1:
        raise UsageError(f"limit must be from 1 to {MAX_LIMIT}, not {limit}; 5 to 10 is usual.")
    return min(limit, MAX_LIMIT)


def offset_of(cursor: str | None) -> int:
    """A cursor is a position in a list; what it looks like is nobody's business."""
    if not cursor:
        return 0
    if cursor.startswith("at:") and cursor[3:].isdigit() and len(cursor) < 12:
        return int(cursor[3:])
    raise UsageError(f"{cursor[:40]!r} is not a cursor of this answer; leave it out to start at the beginning.")


def cursor_of(offset: int | None) -> str | None:
    return f"at:{offset}" if offset is not None else None


def few(number: int, most: int = MAX_AROUND) -> int:
    """How many events to show on one side of another; there may be fewer than are asked for."""
    if number < 0:
        raise UsageError(f"before and after must be from 0 to {MAX_AROUND} events, not {number}.")
    return min(number, most)
