"""Context that fits: everything around a place in memory, packed into a hard token budget.

`Contexts.build` is what the MCP tool, the command line and Python callers all use. What it reads is bounded by what it
shows, however long the history is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.budget import (
    ORDERS,
    SEPARATOR,
    Block,
    Order,
    Tokenizer,
    difference,
    joined,
    pack,
    total,
)
from mcp_memory.domain.text import safe
from mcp_memory.domain.toc import Level, Position, decode, encode
from mcp_memory.errors import SEE_ALL, TO_WORDS, BadId, NotFound, Step, UsageError, listed
from mcp_memory.navigate.answers import Answers, checked
from mcp_memory.navigate.packing import Page, with_count
from mcp_memory.navigate.places import Place, Places, View
from mcp_memory.search.scope import Scope
from mcp_memory.store.port import Chronicle

DEFAULT_BUDGET = 4_000
MAX_TOP_K = 20
_LEAST_ROOM = 20
#: For the line's end, and a snapshot that has grown by a digit meanwhile.
_SLACK = 4
_CHANGED = Step("later since={snapshot!r} for what has changed", "later `--since {snapshot}` for what has changed")
_NEXT = listed(TO_WORDS, _CHANGED)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for. `at` shows memory as it was at a snapshot; `since` only what is not as it was then."""

    focus: str | None = None
    query: str | None = None
    budget_tokens: int = DEFAULT_BUDGET
    order: Order = "top-down"
    include_memo: bool = True
    levels: frozenset[Level] = frozenset(Level)
    detailed: bool = False
    top_k: int = 5
    since: str | None = None
    at: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The answer: the blocks to read, and with `since` the anchors of those that are gone or unchanged."""

    snapshot: str
    blocks: tuple[Block, ...]
    tokens: int
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contexts:
    """Assembles context from the tree, the events and the records."""

    answers: Answers
    chronicle: Chronicle

    @property
    def tokens(self) -> Tokenizer:
        return Tokenizer(self.answers.renderer.count, self.answers.renderer.cut_to)

    async def snapshot(self) -> str:
        return encode(await self.chronicle.position())

    async def build(self, request: Request) -> Context:
        """The context of a focus, or of what a query finds, in at most `budget_tokens`."""
        _check(request)
        position = await self.chronicle.position()
        places = Places(self.answers, self.chronicle, request.query, request.top_k)
        since = _reached(request.since, position) if request.since else None
        at = _reached(request.at, position) if request.at else None
        scope = await self._scope(request)
        place = await places.find(request.focus, scope)
        scope.admit(place.project)
        now = await self._blocks(places, place, request, at)
        # Where nothing was written since, and nothing forgotten, all is as it was.
        before, gone = (now, []) if since == position else await self._before(places, place, request, since)
        if not (now or before or gone):
            raise NotFound(f"There is nothing at {place.anchor} in this view.", SEE_ALL)
        snapshot, shown = request.at or encode(position), self._packed(now, request)
        if since is None:
            return Context(snapshot, tuple(shown), total(shown, self.tokens))
        changes = difference(self._packed(before, request), shown)
        # What was forgotten left no text to compare, only its name.
        removed = dict.fromkeys([*changes.removed, *gone])
        return Context(snapshot, changes.added, total(changes.added, self.tokens), tuple(removed), changes.kept)

    async def _scope(self, request: Request) -> Scope:
        """What is asked about; a focus that names its own project, or is in only one, is looked at from here."""
        focus = "" if request.query else (request.focus or "").strip().lower()
        if focus and not request.project and ("@" in focus or not focus.startswith("toc:")):
            return await self.answers.view()
        return await self.answers.scope(request.project)

    async def _before(
        self, places: Places, place: Place, request: Request, since: Position | None
    ) -> tuple[list[Block], list[str]]:
        """The blocks as they were, and the names of nodes that were forgotten since.

        A block of which something was forgotten is not what it was, whatever is left of it.
        """
        if since is None:
            return [], []
        noted, sessions = await self.chronicle.erased(since)
        touched = {f"memo:{project}" for project in noted} | {f"session:{session}" for session in sessions}
        found = await self._blocks(places, place, request, since)
        blocks = [replace(block, version=-1) if block.anchor in touched else block for block in found]
        return blocks, await places.forgotten(place, since)

    def _packed(self, blocks: Sequence[Block], request: Request) -> list[Block]:
        return pack(blocks, request.budget_tokens, self.tokens, request.order)

    async def _blocks(self, places: Places, place: Place, request: Request, at: Position | None) -> list[Block]:
        """Memo, summaries from the year down, the focus, and what is linked to it or lies beneath it."""
        view = View(at, request.levels, request.detailed, request.top_k, self.answers.renderer)
        found = await places.blocks(place, view)
        if not found:
            return []
        memo = await places.memo(place, view) if request.include_memo else []
        count = self.answers.renderer.count
        return [replace(block, tokens=count(block.text)) for block in [*memo, *found]]

    async def page(self, request: Request) -> Page:
        """The context as text for a model: the blocks, and a last line with what they cost and the snapshot."""
        budget, count = checked(request.budget_tokens), self.answers.renderer.count
        room = budget - count(self._foot(9_999, request.at or await self.snapshot())) - _SLACK
        if room < _LEAST_ROOM:
            return await self._beginning(request, budget + _LEAST_ROOM - room)
        context = await self.build(replace(request, budget_tokens=room))
        body = joined(context.blocks) or ("Nothing has changed." if request.since else "")
        for line in self._told(context):
            longer = f"{body}{SEPARATOR}{line}"
            body = longer if count(longer) <= room else body
        text = with_count(count, lambda tokens: f"{body}\n{self._foot(tokens, context.snapshot)}")
        return Page(text, count(text), len(context.blocks))

    async def _beginning(self, request: Request, least: int) -> Page:
        """For a budget too small for words and a last line: as much as fits, and the least that would do."""
        renderer = self.answers.renderer
        context = await self.build(replace(request, budget_tokens=least))
        text = renderer.fit(joined(context.blocks), request.budget_tokens, least)
        return Page(text, renderer.count(text), len(context.blocks), whole=False)

    def _foot(self, tokens: int, snapshot: str) -> str:
        return f"[{tokens} tokens · next: {self.answers.renderer.say(_NEXT).format(snapshot=snapshot)}]"

    def _told(self, context: Context) -> list[str]:
        named = (("Removed", context.removed), ("Unchanged", context.kept))
        return [f"{name}: {', '.join(safe(anchor, 120) for anchor in anchors)}" for name, anchors in named if anchors]


def _reached(snapshot: str, now: Position) -> Position:
    """The position that a snapshot names; it must not lie ahead of this memory."""
    place = decode(snapshot)
    if place.versions > now.versions or place.events > now.events or place.records > now.records:
        raise BadId(f"{snapshot[:60]!r} is not a snapshot of this memory: it lies ahead of all that is stored here.")
    return place


def _check(request: Request) -> None:
    checked(request.budget_tokens)
    if request.focus and request.query:
        raise UsageError("Give a focus or a query, not both: a query chooses its own focus.")
    if request.order not in ORDERS:
        raise UsageError(f"{request.order!r} is not an order; known are {', '.join(ORDERS)}.")
    if not 0 <= request.top_k <= MAX_TOP_K:
        raise UsageError(f"top_k must be from 0 to {MAX_TOP_K}.")
    if request.since and request.at:
        raise UsageError("Give since or at, not both.")


def levels_of(names: Sequence[str] | None) -> frozenset[Level]:
    """Levels by their names; all of them if none is given."""
    if names is None:
        return frozenset(Level)
    known = {level.label: level for level in Level}
    unknown = [name for name in names if name.strip().lower() not in known]
    if unknown:
        raise UsageError(f"{unknown[0][:40]!r} is not a level; known are {', '.join(known)}.")
    return frozenset(known[name.strip().lower()] for name in names)
