"""The read side as one object: each method answers one question in text within a token budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from mcp_memory.domain.offers import Within
from mcp_memory.domain.steps import FOUND_NOW
from mcp_memory.errors import Step, UsageError
from mcp_memory.navigate import browse, recall
from mcp_memory.navigate.advice import advised
from mcp_memory.navigate.around import asks_for_anything, found_around
from mcp_memory.navigate.beside import with_surroundings
from mcp_memory.navigate.question import question_of
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

    async def search(
        self,
        query: str,
        project: str | None,
        when: str | None = None,
        kind: str | None = None,
        limit: int = 10,
        cursor: str | None = None,
        diverse: bool = False,
    ) -> tuple[recall.Found, str]:
        """The hits, and a note on how the question was understood. A time named in the question is favoured."""

        async def read(library: Library) -> tuple[recall.Found, str]:
            return await replace(self, library=library)._search(query, project, when, kind, limit, cursor, diverse)

        return await self.library.at_once(read)

    async def _search(
        self,
        query: str,
        project: str | None,
        when: str | None,
        kind: str | None,
        limit: int,
        cursor: str | None,
        diverse: bool,
    ) -> tuple[recall.Found, str]:
        scope = await self.scope(project)
        kind, limit, offset = kind or None, many(limit), offset_of(cursor)
        given = self.when(when)
        inside = find(query, self.now, self.zone) if given is None and len(query) <= _QUESTION else None
        if given is None and inside is None and kind is None and len(query) <= _QUESTION:
            found = await found_around(self.library, scope, query, limit, offset, diverse=diverse)
            if found:
                return found, ""
        said, asked = inside or (given, query)
        if said and asks_for_anything(asked):
            return await self._of_time(scope, asked, said, kind, limit, offset, diverse), ""
        if said is None or inside is None:
            return await self._teleport(scope, query, given, None, kind, limit, offset, diverse), ""
        if not await self.library.is_silent(Within(scope.project, said.start_ms, said.end_ms)):
            found = await self._teleport(scope, asked, None, said, kind, limit, offset, diverse)
            if any(said.start_ms <= hit.start_ms < said.end_ms for hit in found.hits):
                return found, ""
        note = f" Nothing was found in {said.phrase!r}, so all times were searched."
        found = await self._teleport(scope, query, None, None, kind, limit, offset, diverse)
        if not _is_told(found, asked):
            # The phrase was no word of the matter, such as the date in a file's name, and does not lack now.
            found = await self._teleport(scope, asked, None, None, kind, limit, offset, diverse)
        return found, note

    async def _of_time(
        self, scope: Scope, asked: str, said: TimeRange, kind: str | None, limit: int, offset: int, diverse: bool
    ) -> recall.Found:
        """Whatever there was in a time: as the tree tells it or, where it does not yet, as it was said."""
        found = await recall.of_time(self.library, scope, asked, said, limit, offset, kind)
        return found if found.hits else await self._teleport(scope, asked, said, None, kind, limit, offset, diverse)

    async def _teleport(
        self,
        scope: Scope,
        query: str,
        when: TimeRange | None,
        favoured: TimeRange | None,
        kind: str | None,
        limit: int,
        offset: int,
        diverse: bool,
    ) -> recall.Found:
        return await recall.teleport(
            self.library,
            scope,
            query,
            when=when,
            favoured=favoured,
            kind=kind,
            limit=limit,
            offset=offset,
            diverse=diverse,
        )

    async def teleport(
        self,
        query: str,
        project: str | None,
        when: str | None,
        kind: str | None,
        limit: int,
        budget: int,
        cursor: str | None,
        diverse: bool = False,
    ) -> tuple[recall.Found, Page]:
        async def read(library: Library) -> tuple[recall.Found, str]:
            here = replace(self, library=library)
            found, note = await here._search(query, project, when, kind, limit, cursor, diverse)
            found = await with_surroundings(library, found)
            return await advised(library, await here.scope(project), found, found.when), note

        found, note = await self.library.at_once(read)
        return found, self.renderer.hits(found, checked(budget), note)


def _is_told(found: recall.Found, asked: str) -> bool:
    """Whether something that was said holds a word of the question beyond what is `asked` without its time.

    Where only summaries were found they are those of times near by, whose dates have the same words.
    """
    rest = {term.shown for term in question_of(asked).terms}
    said = [hit for hit in found.hits if hit.role]
    return not rest or not said or any(word not in rest for hit in said for word in hit.matched)


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
