"""Context that fits: everything around a place in memory, packed into a hard token budget.

`Contexts.build` is what the MCP tool, the command line and Python callers all use. What it reads is bounded by what it
shows, however long the history is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mcp_memory.domain.budget import (
    ORDERS,
    SEPARATOR,
    Block,
    Kind,
    Order,
    Tokenizer,
    difference,
    joined,
    pack,
    total,
)
from mcp_memory.domain.events import Event, parse_ulid
from mcp_memory.domain.nodes import Node, Words, event_grip_id, parse_grip_id
from mcp_memory.domain.records import body_lines
from mcp_memory.domain.text import clean, safe
from mcp_memory.domain.toc import Level, NodeRef, Position, Scope, ancestors, decode, encode, parse_node_id
from mcp_memory.errors import (
    FIND_OTHERWISE,
    FIND_TERMS,
    KEEP_NOTE,
    SEE_ALL,
    TO_WORDS,
    BadId,
    NotFound,
    Step,
    UsageError,
    listed,
)
from mcp_memory.navigate.answers import Answers, checked
from mcp_memory.navigate.browse import grip_key, session_name
from mcp_memory.navigate.packing import Page, with_count
from mcp_memory.navigate.rendering import Renderer
from mcp_memory.navigate.scope import ALL, ref_of
from mcp_memory.search.hits import Search
from mcp_memory.store.port import Chronicle

_WORDS = 1_600
_GIST = 240
_TAIL = 6
_FEW = 3
_CHILDREN = 60


@dataclass(frozen=True, slots=True)
class View:
    """How blocks are made: as of when, from which levels, how fully, and how many items."""

    at: Position | None
    levels: frozenset[Level]
    detailed: bool
    top_k: int
    renderer: Renderer


@dataclass(frozen=True, slots=True)
class Place:
    """A focus: a node, an event (by its key or its grip's) or a session. `others` are further finds of a query."""

    scope: Scope
    project: str
    anchor: str
    ref: NodeRef | None = None
    event_key: bytes | None = None
    session_id: str | None = None
    others: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Places:
    """Finds the place that is asked for, and makes its blocks. Tokens are counted by whoever packs them."""

    answers: Answers
    chronicle: Chronicle
    query: str | None
    top_k: int
    #: What was read for this request: the same nodes and words are wanted for several blocks.
    _read: dict[tuple[str, NodeRef, Position | None], Node | None] = field(default_factory=dict)
    _heard: dict[tuple[bytes, Position | None], Words | None] = field(default_factory=dict)

    async def _nodes(self, project: str, refs: Sequence[NodeRef], at: Position | None) -> list[Node]:
        missing = [ref for ref in refs if (project, ref, at) not in self._read]
        found = {node.ref: node for node in await self.chronicle.nodes(project, missing, at)} if missing else {}
        self._read.update({(project, ref, at): found.get(ref) for ref in missing})
        return [node for ref in refs if (node := self._read[project, ref, at])]

    async def _event(self, key: bytes, at: Position | None) -> Words | None:
        if (key, at) not in self._heard:
            self._heard[key, at] = await self.chronicle.event(key, at)
        return self._heard[key, at]

    async def find(self, focus: str | None, scope: Scope) -> Place:
        if self.query:
            return await self._asked(self.query, scope)
        if focus is None or not focus.strip():
            return await self._latest(scope)
        name = focus.strip()
        if name.lower().startswith("toc:"):
            ref, project = await ref_of(self.answers.library, scope, name)
            return Place(scope, project, scope.id_of(ref.node_id(), project), ref=ref)
        if name.lower().startswith("grip:"):
            return await self._words(await grip_key(self.answers.library, name), name, scope)
        try:
            return await self._words(parse_ulid(name)[1], name, scope)
        except (BadId, NotFound):
            return await self._session(await session_name(self.chronicle, name), scope)

    async def _latest(self, scope: Scope) -> Place:
        """Nothing was named: the latest day."""
        days = await self.answers.library.top(scope.project, Level.DAY, 1)
        if not days:
            raise NotFound("Nothing is remembered here yet.", KEEP_NOTE)
        return Place(scope, days[0].project, scope.id_of(days[0].node_id, days[0].project), ref=days[0].ref)

    async def _words(self, key: bytes, name: str, scope: Scope) -> Place:
        found = await self._event(key, None)
        if found is None:
            raise NotFound(f"There is no grip or event {name[:80]} in memory.", FIND_TERMS)
        anchor = event_grip_id(found.event.timestamp_ms, key)
        return Place(scope, found.event.project, anchor, ref=found.segment, event_key=key)

    async def _session(self, session_id: str, scope: Scope) -> Place:
        tail = await self.chronicle.tail(session_id, 1, None)
        segment = await self.chronicle.last_segment(session_id, None)
        if not tail and segment is None:
            raise NotFound(f"{session_id[:80]!r} is no node, grip, event or session in memory.", FIND_TERMS)
        project = segment[0] if segment else tail[0].project
        return Place(
            scope, project, f"session:{session_id}", ref=segment[1] if segment else None, session_id=session_id
        )

    async def _asked(self, query: str, scope: Scope) -> Place:
        """The best find of a query, with the others beside it."""
        found, _ = await self.answers.search(Search(query, scope.project or ALL, limit=self.top_k + 1))
        places = []
        for hit in found.hits:
            if hit.role:
                key = parse_grip_id(hit.grip_id)[1]
                ref = parse_node_id(hit.node_id)[0] if hit.node_id else None
                places.append(Place(scope, hit.project, hit.grip_id, ref=ref, event_key=key))
            else:
                ref = parse_node_id(hit.id)[0]
                places.append(Place(scope, hit.project, hit.id, ref=ref))
        if not places:
            raise NotFound(f"Nothing was found for {safe(query, 80)!r}.", FIND_OTHERWISE)
        first, *others = places
        return Place(scope, first.project, first.anchor, first.ref, first.event_key, None, tuple(others))

    async def memo(self, place: Place, view: View) -> list[Block]:
        """The pinned notes of the project, oldest first."""
        notes = await self.chronicle.pinned(place.project, view.at)
        if not notes:
            return []
        lines = [f"Pinned notes of {place.project}:", *(f"- {safe(note.text, 400)}" for note in reversed(notes))]
        return [Block("memo", f"memo:{place.project}", len(notes), "\n".join(lines), 0)]

    async def blocks(self, place: Place, view: View) -> list[Block]:
        """Summaries from the year down, the focus, and what belongs to it; nothing if the place is not in the view."""
        chain = [*reversed(ancestors(place.ref)), place.ref] if place.ref else []
        await self._nodes(place.project, chain, view.at)
        focus = await self._focus(place, view)
        if focus is None:
            return []
        refs = [ref for ref in chain if ref.level in view.levels]
        own = place.ref if place.event_key is None and place.session_id is None else None
        above = await self._nodes(place.project, [ref for ref in refs if ref != own], view.at)
        summaries = [self._node("summary", node, place, view, full=view.detailed) for node in above]
        return [*summaries, focus, *await self._around(place, view)]

    async def forgotten(self, place: Place, since: Position) -> list[str]:
        """The nodes of this context that were there at a position and have been forgotten altogether since."""
        if place.ref is None:
            return []
        refs = [*reversed(ancestors(place.ref)), place.ref]
        gone = await self.chronicle.gone(place.project, refs, place.ref, since)
        anew = {node.ref for node in await self._nodes(place.project, gone, None)}
        return [place.scope.id_of(ref.node_id(), place.project) for ref in gone if ref not in anew]

    async def _focus(self, place: Place, view: View) -> Block | None:
        if place.session_id is not None:
            return await self._session_block("focus", place.session_id, place, view)
        if place.event_key is not None:
            found = await self._event(place.event_key, view.at)
            return _words_block(found, place.anchor, view) if found else None
        nodes = await self._nodes(place.project, [place.ref] if place.ref else [], view.at)
        return self._node("focus", nodes[0], place, view, full=True) if nodes else None

    async def _around(self, place: Place, view: View) -> list[Block]:
        if place.others:
            found = [await self._focus(other, view) for other in place.others[: view.top_k]]
            return [Block("item", block.anchor, block.version, block.text, 0) for block in found if block]
        if place.ref is None:
            return []
        if place.ref.level is not Level.SEGMENT:
            return [self._node("item", node, place, view, full=False) for node in await self._beneath(place, view)]
        return await self._linked(place, place.ref, view)

    async def _beneath(self, place: Place, view: View) -> list[Node]:
        """The children that the node's own bullets come from, in that order, then the latest of the others."""
        ref = place.ref
        if ref is None or not view.top_k:
            return []
        children = await self.chronicle.children(place.project, ref, view.at, _CHILDREN)
        parent = await self._nodes(place.project, [ref], view.at)
        cited = [child for node in parent for bullet in node.bullets for child in bullet.child_ids]
        rank = {node_id: at for at, node_id in reversed(list(enumerate(cited)))}
        ordered = sorted(children, key=lambda node: (rank.get(node.node_id, len(cited)), -node.start_ms))
        return ordered[: view.top_k]

    async def _linked(self, place: Place, ref: NodeRef, view: View) -> list[Block]:
        """Beside a segment: its neighbours in the session, the session's record, segments with the same names."""
        nodes = await self._nodes(place.project, [ref], view.at)
        if not nodes or not view.top_k:
            return []
        beside = await self.chronicle.segments_beside(place.project, nodes[0], view.at)
        related = await self.chronicle.related(place.project, nodes[0], view.at, view.top_k)
        linked = [self._node("linked", node, place, view, full=False) for node in [*beside, *related]]
        session = nodes[0].session_id
        if session and place.session_id is None and await self.chronicle.records(session, view.at):
            block = await self._session_block("linked", session, place, view)
            linked[len(beside) : len(beside)] = [block] if block else []
        return linked[: view.top_k]

    def _node(self, kind: Kind, node: Node, place: Place, view: View, *, full: bool) -> Block:
        node_id = place.scope.id_of(node.node_id, node.project)
        lines = [f"{node_id} {safe(node.title, 160)}"]
        for bullet in node.bullets if full else node.bullets[:_FEW]:
            grip = f" {bullet.grip_ids[0]}" if full and bullet.grip_ids else ""
            lines.append(f"- {safe(bullet.text, _GIST)}{grip}")
        if full and node.keywords:
            lines.append("keywords: " + safe(", ".join(node.keywords), 200))
        return Block(kind, node_id, node.version, "\n".join(lines), 0)

    async def _session_block(self, kind: Kind, session_id: str, place: Place, view: View) -> Block | None:
        records = await self.chronicle.records(session_id, view.at)
        tail = await self.chronicle.tail(session_id, _TAIL, view.at)
        # Two clients may have called sessions of two projects the same.
        if (not records and not tail) or (tail and tail[-1].project != place.project):
            return None
        lines = [f"session:{safe(session_id, 80)}" + (f", record {records[-1].id}" if records else ", no record yet")]
        lines += [safe(line, 300) for line in body_lines(records[-1].body)] if records else []
        lines += ["Latest messages:", *_gists(tail, view.renderer)] if tail else []
        return Block(kind, f"session:{session_id}", len(records), "\n".join(lines), 0)


def _gists(events: Sequence[Event], renderer: Renderer) -> list[str]:
    return [f"{renderer.moment(event.timestamp_ms)} [{event.role}] {safe(event.text, _GIST)}" for event in events]


def _words_block(found: Words, anchor: str, view: View) -> Block:
    event = found.event
    words = clean(_window(event.text, found.excerpt)).strip()
    head = f"{anchor} {view.renderer.moment(event.timestamp_ms)} {event.role} · session {safe(event.session_id, 80)}"
    return Block("focus", anchor, 1, f"{head}\n> " + words.replace("\n", "\n> "), 0)


def _window(text: str, excerpt: str) -> str:
    """As much of an event as is worth showing, around what is cited of it."""
    if len(text) <= _WORDS:
        return text
    start = max(0, text.find(excerpt) - _WORDS // 4) if excerpt else 0
    end = start + max(_WORDS, len(excerpt) + _WORDS // 2)
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


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
