"""Context that fits: everything around a place in memory, packed into a hard token budget.

The place itself comes first; of what lies above it, only what has to do with it is told.
`Contexts.build` is what the MCP tool, the command line and Python callers all use. What it reads is bounded by what it
shows, however long the history is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from mcp_memory.domain.budget import (
    ANY_COUNT,
    ORDERS,
    SEPARATOR,
    Block,
    Kind,
    Order,
    Tokenizer,
    assemble,
    difference,
    joined,
    total,
    with_count,
)
from mcp_memory.domain.events import MESSAGES, EventQuery, parse_ulid
from mcp_memory.domain.nodes import (
    Bullet,
    Node,
    NodeQuery,
    event_grip_id,
    foremost,
    note_author,
    note_shown,
    parse_grip_id,
    quoted_title,
    short_grip_id,
    user_first,
)
from mcp_memory.domain.quoting import quoted, quoted_block, quoted_name
from mcp_memory.domain.records import quoted_record
from mcp_memory.domain.text import safe, terms
from mcp_memory.domain.toc import Level, NodeRef, Position, Scope, ancestors, decode, encode, is_of_team, parse_node_id
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
from mcp_memory.navigate.answers import Answers, valid_budget
from mcp_memory.navigate.browse import ALL, Reach, grip_key, kept_session, ref_of
from mcp_memory.navigate.rendering import Page
from mcp_memory.search.hits import attributed

DEFAULT_BUDGET = 4_000
MAX_TOP_K = 20
_LEAST_ROOM = 20
#: For the line's end, and a snapshot that has grown by a digit meanwhile.
_SLACK = 4
#: How long a title with its date may be.
_TITLE = 220
_CHANGED = Step("later since={snapshot!r} for what has changed", "later `--since {snapshot}` for what has changed")
_NEXT = listed(TO_WORDS, _CHANGED)
#: Characters of an event that is the focus, and of one that is told in short.
_WORDS, _GIST = 1_600, 240
#: How many messages of a session, bullets of a node in short, and children to choose from.
_TAIL, _FEW, _CHILDREN = 6, 3, 60
#: A further find of a query is left out if its score is below this part of the best one's.
_WEAK = 1 / 3
#: A bullet has to do with the focus if it shares so many terms with it, and such a part of the fewer terms of the two.
_SHARED, _SHARED_PART = 2, 1 / 3


@dataclass(frozen=True, slots=True)
class ContextRequest:
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

    def check(self) -> None:
        valid_budget(self.budget_tokens)
        if self.focus and self.query:
            raise UsageError("Give a focus or a query, not both: a query chooses its own focus.")
        if self.order not in ORDERS:
            raise UsageError(f"{self.order!r} is not an order; known are {', '.join(ORDERS)}.")
        if not 0 <= self.top_k <= MAX_TOP_K:
            raise UsageError(f"top_k must be from 0 to {MAX_TOP_K}.")
        if self.since and self.at:
            raise UsageError("Give since or at, not both.")


@dataclass(frozen=True, slots=True)
class Context:
    """The answer: the blocks to read, and with `since` the anchors of those that are gone or unchanged."""

    snapshot: str
    blocks: tuple[Block, ...]
    tokens: int
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Focus:
    """A node, an event (by its key or its grip's) or a session. `others` are further finds of a query."""

    scope: Scope
    project: str
    anchor: str
    ref: NodeRef | None = None
    event_key: bytes | None = None
    session_id: str | None = None
    others: tuple[Focus, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """The block of a focus and what it is about: its node, the grips it cites, and the terms of its words."""

    block: Block
    node_id: str
    grips: frozenset[str]
    terms: frozenset[str]

    def shares(self, bullet: Bullet) -> bool:
        """Whether a bullet from above comes from the focus, cites the same words, or speaks of the same things."""
        if self.node_id in bullet.child_ids or self.grips.intersection(bullet.grip_ids):
            return True
        own = terms(bullet.text)
        fewer = min(len(own), len(self.terms))
        return len(own & self.terms) >= max(1, min(_SHARED, fewer), _SHARED_PART * fewer)


@dataclass(frozen=True, slots=True)
class Contexts:
    """Finds the focus that is asked for, and packs the blocks around it, as they are or were `at` a position."""

    answers: Answers
    request: ContextRequest = ContextRequest()

    async def snapshot(self) -> str:
        return encode(await self.answers.reader.position())

    async def build(self, request: ContextRequest) -> Context:
        """The context of a focus, or of what a query finds, in at most `budget_tokens`."""
        request.check()
        return await self.answers.at_once(lambda here: Contexts(here, request)._build())

    async def page(self, request: ContextRequest) -> Page:
        """The context as text for a model: the blocks, and a last line with what they cost and the snapshot."""
        arguments = {name: getattr(request, name) for name in ("query", "focus", "order", "top_k")}
        budget, focus = request.budget_tokens, request.focus

        async def local(here: Answers, room: int) -> Page:
            return await Contexts(here, replace(request, budget_tokens=room))._page()

        if focus and is_of_team(focus):
            return await self.answers.or_of_team("build_context", arguments, focus, budget, partial(local, room=budget))
        if focus or request.since or request.at:
            return await self.answers.at_once(partial(local, room=budget))
        return await self.answers.with_team("build_context", arguments, request.project, budget, local)

    async def _build(self) -> Context:
        request, tokens = self.request, Tokenizer(self.answers.renderer.count, self.answers.renderer.cut_to)
        position = await self.answers.reader.position()
        since = _reached(request.since, position) if request.since else None
        at = _reached(request.at, position) if request.at else None
        focus = await self._find()
        focus.scope.admit(focus.project)
        now = await self._blocks(focus, at)
        before, gone = now, list[str]()
        if since and since != position:
            # A block of which something was forgotten is not what it was, whatever is left of it.
            noted, sessions = await self.answers.reader.erased(since)
            touched = {f"memo:{project}" for project in noted} | {f"session:{session}" for session in sessions}
            found = await self._blocks(focus, since)
            before = [replace(block, version=-1) if block.anchor in touched else block for block in found]
            gone = await self._forgotten(focus, since)
        if not (now or before or gone):
            raise NotFound(f"There is nothing at {focus.anchor} in this view.", SEE_ALL)
        snapshot = request.at or encode(position)
        shown = assemble(now, request.budget_tokens, tokens, request.order)
        if since is None:
            return Context(snapshot, tuple(shown), total(shown, tokens))
        told = assemble(before, request.budget_tokens, tokens, request.order)
        added, removed, kept = difference(told, shown)
        # What was forgotten left no text to compare, only its name.
        return Context(snapshot, added, total(added, tokens), tuple(dict.fromkeys([*removed, *gone])), kept)

    async def _page(self) -> Page:
        request, renderer = self.request, self.answers.renderer
        budget, count = valid_budget(request.budget_tokens), renderer.count

        def foot(tokens: int, snapshot: str) -> str:
            return f"[{tokens} tokens · next: {renderer.say(_NEXT).format(snapshot=snapshot)}]"

        room = budget - count(foot(ANY_COUNT, request.at or await self.snapshot())) - _SLACK
        if room < _LEAST_ROOM:
            # Too small for words and a last line: as much as fits, and the least that would do.
            least = budget + _LEAST_ROOM - room
            context = await self.build(replace(request, budget_tokens=least))
            text = renderer.fit(joined(context.blocks), request.budget_tokens, least)
            return Page(text, count(text), len(context.blocks), whole=False)
        context = await self.build(replace(request, budget_tokens=room))
        body = joined(context.blocks) or ("Nothing has changed." if request.since else "")
        for name, anchors in (("Removed", context.removed), ("Unchanged", context.kept)):
            longer = f"{body}{SEPARATOR}{name}: {', '.join(_anchor(anchor) for anchor in anchors)}"
            body = longer if anchors and count(longer) <= room else body
        text = with_count(count, lambda tokens: f"{body}\n{foot(tokens, context.snapshot)}")
        return Page(text, count(text), len(context.blocks))

    async def _nodes(self, project: str, refs: Sequence[NodeRef], at: Position | None) -> list[Node]:
        found = await self.answers.reader.nodes(NodeQuery(project, tuple(refs), at=at)) if refs else []
        return await self._named(found)

    async def _named(self, nodes: list[Node]) -> list[Node]:
        return await attributed(self.answers.reader, nodes, team=self.answers.reach is Reach.TEAM)

    async def _find(self) -> Focus:
        """What a query finds, or what the focus names; the latest day if nothing is named."""
        name, project = (self.request.focus or "").strip(), self.request.project
        kind = "" if self.request.query else name.lower()
        # A focus that names its own project, or is in only one, is looked at from here.
        own = kind and not project and ("@" in kind or not kind.startswith("toc:"))
        scope = await (self.answers.view() if own else self.answers.scope(project))
        if self.request.query:
            return await self._found(self.request.query, scope)
        if not name:
            days = await self.answers.reader.nodes(NodeQuery.latest(scope.project, Level.DAY, 1))
            if not days:
                raise NotFound("Nothing is remembered here yet.", KEEP_NOTE)
            return Focus(scope, days[0].project, scope.id_of(days[0].node_id, days[0].project), ref=days[0].ref)
        if kind.startswith("toc:"):
            ref, project = await ref_of(self.answers.reader, scope, name)
            return Focus(scope, project, scope.id_of(ref.node_id(), project), ref=ref)
        if kind.startswith("grip:"):
            return await self._words(await grip_key(self.answers.reader, name), name, scope)
        try:
            return await self._words(parse_ulid(name)[1], name, scope)
        except (BadId, NotFound):
            session_id = await kept_session(self.answers.reader, name)
        tail = await self.answers.reader.events(EventQuery(session_id=session_id, types=MESSAGES, last=1))
        segment = await self.answers.reader.last_segment(session_id)
        if not tail and segment is None:
            raise NotFound(f"{session_id[:80]!r} is no node, grip, event or session in memory.", FIND_TERMS)
        home, last = segment or (tail[0].project, None)
        return Focus(scope, home, f"session:{session_id}", ref=last, session_id=session_id)

    async def _words(self, key: bytes, name: str, scope: Scope) -> Focus:
        found = await self.answers.reader.words(key, None)
        if found is None:
            raise NotFound(f"There is no grip or event {name[:80]} in memory.", FIND_TERMS)
        anchor = event_grip_id(found.event.timestamp_ms, key)
        return Focus(scope, found.event.project, anchor, ref=found.segment, event_key=key)

    async def _found(self, query: str, scope: Scope) -> Focus:
        """The best find of a query, with those of the others beside it that are not far weaker."""
        found, _ = await self.answers.search(query, scope.project or ALL, limit=self.request.top_k + 1)
        places = []
        least = _WEAK * max((hit.score for hit in found.hits), default=0.0)
        for at, hit in enumerate(found.hits):
            if at and hit.score < least:
                continue
            if hit.role:
                ref = parse_node_id(hit.node_id)[0] if hit.node_id else None
                key = parse_grip_id(hit.grip_id)[1]
                places.append(Focus(scope, hit.project, hit.grip_id, ref=ref, event_key=key))
            else:
                places.append(Focus(scope, hit.project, hit.id, ref=parse_node_id(hit.id)[0]))
        if not places:
            raise NotFound(f"Nothing was found for {safe(query, 80)!r}.", FIND_OTHERWISE)
        return replace(places[0], others=tuple(places[1:]))

    async def _blocks(self, focus: Focus, at: Position | None) -> list[Block]:
        """Memo, summaries from the year down, the focus, and what is linked to it or lies beneath it.

        Summaries tell what has to do with the focus, and are left out if nothing in them does. Nothing if the focus is
        not in the view.
        """
        chain = [*reversed(ancestors(focus.ref)), focus.ref] if focus.ref else []
        own = await self._subject(focus, at)
        if own is None:
            return []
        blocks = []
        pinned = EventQuery(focus.project, pinned=True, last=20, at=at)
        notes = await self.answers.reader.events(pinned) if self.request.include_memo else []
        if notes:
            lines = [
                f"Pinned notes of {focus.project}:",
                *(f"-{note_author(note)} {note_shown(note, 400)}" for note in user_first(notes)),
            ]
            blocks.append(self._block("memo", f"memo:{focus.project}", len(notes), lines))
        itself = focus.ref if focus.event_key is None and focus.session_id is None else None
        above = [ref for ref in chain if ref.level in self.request.levels and ref != itself]
        for node in await self._nodes(focus.project, above, at):
            bullets = tuple(bullet for bullet in node.bullets if own.shares(bullet))
            if bullets:
                keywords = tuple(word for word in node.keywords if terms(word) & own.terms)
                told = replace(node, bullets=bullets, keywords=keywords)
                blocks.append(self._node("summary", told, focus, full=self.request.detailed))
        return [*blocks, own.block, *await self._linked(focus, at)]

    async def _forgotten(self, focus: Focus, since: Position) -> list[str]:
        """The nodes of this context that were there at a position and have been forgotten altogether since."""
        if focus.ref is None:
            return []
        refs = [*reversed(ancestors(focus.ref)), focus.ref]
        gone = await self.answers.reader.gone(focus.project, refs, focus.ref, since)
        anew = {node.ref for node in await self._nodes(focus.project, gone, None)}
        return [focus.scope.id_of(ref.node_id(), focus.project) for ref in gone if ref not in anew]

    async def _subject(self, focus: Focus, at: Position | None) -> Subject | None:
        """The focus itself: a session, the words of an event around what is cited of it, or a node."""
        node_id, asked = focus.ref.node_id() if focus.ref else "", self.request.query or ""

        def about(block: Block, words: Sequence[str], grips: Sequence[str] = ()) -> Subject:
            return Subject(block, node_id, frozenset(grips), terms("\n".join([asked, *words])))

        if focus.session_id is not None:
            session = await self._session("focus", focus.session_id, focus, at)
            return about(*session) if session else None
        if focus.event_key is None:
            nodes = await self._nodes(focus.project, [focus.ref] if focus.ref else [], at)
            if not nodes:
                return None
            (node,) = nodes
            told = [*(bullet.text for bullet in node.bullets), *node.keywords]
            grips = [grip for bullet in node.bullets for grip in bullet.grip_ids]
            return about(self._node("focus", node, focus, full=True), told, grips)
        found = await self.answers.reader.words(focus.event_key, at)
        if found is None:
            return None
        event, text, excerpt = found.event, found.event.text, found.excerpt
        if len(text) > _WORDS:
            start = max(0, text.find(excerpt) - _WORDS // 4) if excerpt else 0
            end = start + max(_WORDS, len(excerpt) + _WORDS // 2)
            part = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
        else:
            part = text
        moment = self.answers.renderer.moment(event.timestamp_ms)
        who = f"{event.role} {quoted_name(event.author, 80)}" if event.author else str(event.role)
        head = f"{short_grip_id(event.key)} {moment} {who} · session {quoted_name(event.session_id, 80)}"
        block = self._block("focus", focus.anchor, 1, [head, quoted_block(part)])
        return about(block, [part], [focus.anchor])

    async def _linked(self, focus: Focus, at: Position | None) -> list[Block]:
        """Other finds of a query; beneath a node the children that its own bullets come from, in that order, then the
        latest of the others; beside a segment its neighbours in the session, the session's record, and segments with
        the same names."""
        most, ref = self.request.top_k, focus.ref
        if focus.others:
            found = [await self._subject(other, at) for other in focus.others[:most]]
            return [replace(each.block, kind="item") for each in found if each]
        if ref is None or not most:
            return []
        nodes = await self._nodes(focus.project, [ref], at)
        if ref.level is not Level.SEGMENT:
            beneath = NodeQuery(focus.project, parent=ref, at=at, newest_first=True, limit=_CHILDREN)
            children = await self._named(await self.answers.reader.nodes(beneath))
            cited = [child for node in nodes for bullet in node.bullets for child in bullet.child_ids]
            rank = {node_id: place for place, node_id in reversed(list(enumerate(cited)))}
            children.sort(key=lambda node: (rank.get(node.node_id, len(cited)), -node.start_ms))
            return [self._node("item", node, focus, full=False) for node in children[:most]]
        if not nodes:
            return []
        beside = await self.answers.reader.segments_beside(focus.project, nodes[0], at)
        related = await self.answers.reader.related(focus.project, nodes[0], at, most)
        linked = [self._node("linked", node, focus, full=False) for node in [*beside, *related]]
        session = nodes[0].session_id
        if session and focus.session_id is None and await self.answers.reader.records(session, at):
            record = await self._session("linked", session, focus, at)
            linked[len(beside) : len(beside)] = [record[0]] if record else []
        return linked[:most]

    def _node(self, kind: Kind, node: Node, focus: Focus, *, full: bool) -> Block:
        node_id = focus.scope.id_of(node.node_id, node.project)
        by = f" by {quoted_name(node.author, _TITLE)}:" if node.author else ""
        lines = [f"{node_id}{by} {quoted_title(node.title, _TITLE, is_period=node.level is not Level.SEGMENT)}"]
        for bullet in node.bullets if full else foremost(node.bullets, _FEW):
            grip = f" {short_grip_id(parse_grip_id(bullet.grip_ids[0])[1])}" if full and bullet.grip_ids else ""
            lines.append(f"- {bullet.quoted(_GIST)}{grip}")
        if full and node.keywords:
            lines.append("keywords: " + quoted(", ".join(node.keywords), 200))
        return self._block(kind, node_id, node.version, lines)

    async def _session(
        self, kind: Kind, session_id: str, focus: Focus, at: Position | None
    ) -> tuple[Block, list[str]] | None:
        """A session's record and its latest messages, and what was said in them alone."""
        records = await self.answers.reader.records(session_id, at)
        tail = await self.answers.reader.events(EventQuery(session_id=session_id, types=MESSAGES, last=_TAIL, at=at))
        # Two clients may have called sessions of two projects the same.
        if (not records and not tail) or (tail and tail[-1].project != focus.project):
            return None
        by = f" of {quoted_name(tail[-1].author, 80)}" if tail and tail[-1].author else ""
        known = f"record {records[-1].id}" if records else "no record yet"
        lines = [f"session:{quoted_name(session_id, 80)}{by}, {known}"]
        words = quoted_record(records[-1].body, 300) if records else []
        lines += words
        lines += ["Latest messages:"] if tail else []
        for event in tail:
            moment = self.answers.renderer.moment(event.timestamp_ms)
            lines.append(f"{moment} [{event.role}] {quoted(event.text, _GIST)}")
        words += [event.text for event in tail]
        return self._block(kind, f"session:{session_id}", len(records), lines), words

    def _block(self, kind: Kind, anchor: str, version: int, lines: Sequence[str]) -> Block:
        text = "\n".join(lines)
        return Block(kind, anchor, version, text, self.answers.renderer.count(text))


def _anchor(anchor: str) -> str:
    """Return a block's id. A session's name in it was chosen by whoever wrote the session."""
    kind, colon, name = anchor.partition("session:")
    return f"{colon}{quoted_name(name, 120)}" if colon and not kind else safe(anchor, 120)


def _reached(snapshot: str, now: Position) -> Position:
    """The position that a snapshot names; it must not lie ahead of this memory."""
    place = decode(snapshot)
    if place.versions > now.versions or place.events > now.events or place.records > now.records:
        raise BadId(f"{snapshot[:60]!r} is not a snapshot of this memory: it lies ahead of all that is stored here.")
    return place


def levels_of(names: Sequence[str] | None) -> frozenset[Level]:
    """Levels by their names; all of them if none is given."""
    if names is None:
        return frozenset(Level)
    known = {level.label: level for level in Level}
    unknown = [name for name in names if name.strip().lower() not in known]
    if unknown:
        raise UsageError(f"{unknown[0][:40]!r} is not a level; known are {', '.join(known)}.")
    return frozenset(known[name.strip().lower()] for name in names)
