"""Answers as text made for a model: ids to go on with, dates, what was spent and what to call next.

Every answer keeps its token budget. Lines are given in order of worth; what does not fit is counted, not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import zip_longest

from mcp_memory.domain.events import Event, EventType
from mcp_memory.domain.safe import clean, safe, squeezed
from mcp_memory.domain.summaries import Bullet, Node
from mcp_memory.domain.toc import Level
from mcp_memory.navigate.browse import Opened, Place, Root, Span
from mcp_memory.navigate.passage import Passage
from mcp_memory.navigate.recall import Found
from mcp_memory.navigate.render_hits import HitLines
from mcp_memory.navigate.scope import Scope
from mcp_memory.navigate.topic import Topic
from mcp_memory.navigate.when import TimeRange

SMALLEST_BUDGET = 60
#: Percent of an opened grip's budget that its own words may take, and the least of what is shown of others.
_WORDS_SHARE, _AROUND_LEAST = 60, 90
_AFTER_HITS = "expand_grip(grip_id) for the exact words"


@dataclass(frozen=True, slots=True)
class Page:
    """A finished answer: its text, its exact tokens, how many of the items given are in it, and how many are left."""

    text: str
    tokens: int
    shown: int
    left: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that are shown together; of an item at least the first. A lower rank is given its room earlier.

    An item without lines has been told by another one: it counts as shown.
    """

    lines: tuple[str, ...]
    item: bool = True
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Renderer:
    """Knows the budget's tokenizer and the user's time zone."""

    count: Callable[[str], int]
    cut_to: Callable[[str, int], str]
    zone: tzinfo

    def page(self, head: str, blocks: Sequence[Block], next_call: str, budget: int, omitted: str = "") -> Page:
        """As many blocks as fit between head and foot. Items end with the first that does not fit, so that a cursor can
        go on from there; other blocks are passed over."""
        budget = max(budget, SMALLEST_BUDGET)
        foot_size = self.count(_foot(9999, next_call)) + (self.count(omitted) + 4 if omitted else 0)
        room = budget - self.count(head) - foot_size - 4
        chosen = self._choose(blocks, room)
        shown = sum(blocks[index].item for index in chosen)
        left = sum(block.item for block in blocks) - shown
        lines = [chosen[index] for index in sorted(chosen) if chosen[index]]
        if left and omitted:
            lines.append(omitted.format(left))
        return self._finish("\n".join([head, *lines]), next_call, budget, shown, left)

    def _choose(self, blocks: Sequence[Block], room: int) -> dict[int, str]:
        """The texts of the blocks that fit, by their place in the list."""
        chosen: dict[int, str] = {}
        full = False
        for index in sorted(range(len(blocks)), key=lambda index: blocks[index].rank):
            block = blocks[index]
            if block.item and full:
                continue
            if not block.lines:
                chosen[index] = ""
                continue
            for text in ("\n".join(block.lines), *(block.lines[:1] if block.item else ())):
                size = self.count(text) + 1
                if size <= room:
                    chosen[index] = text
                    room -= size
                    break
            full = full or (block.item and index not in chosen)
        return chosen

    def _finish(self, body: str, next_call: str, budget: int, shown: int, left: int) -> Page:
        body = self.cut_to(body, budget - self.count(_foot(9999, next_call)) - 1)
        text = f"{body}\n{_foot(9999, next_call)}"
        for _ in range(3):
            text = f"{body}\n{_foot(self.count(text), next_call)}"
        tokens = self.count(text)
        if tokens > budget:
            text = self.cut_to(text, budget)
            tokens = self.count(text)
        return Page(text, tokens, shown, left)

    def root(self, root: Root, scope: Scope, topic: Topic | None, note: str, budget: int) -> Page:
        if not root.years:
            about = f" about {topic.text!r}" if topic else ""
            return self.page(f"Nothing is remembered{about} yet.{note}", [], "remember(text) keeps a note", budget)
        name = scope.project or "all projects"
        head = f"Memory of {name}: table of contents.{note}"
        blocks = []
        for year in root.years:
            bullets = _chosen(year.bullets, topic)[:3]
            blocks.append(Block((_title(year, scope), *(_plain(bullet) for bullet in bullets))))
        blocks += [Block((_title(month, scope),)) for month in root.months]
        for day in sorted(root.days, key=lambda node: -node.start_ms):
            bullets = _chosen(day.bullets, topic)[:2]
            blocks.append(Block((_title(day, scope), *(_gripped(bullet) for bullet in bullets))))
        next_call = "get_node(node_id) to go down, teleport(query) for a term, browse_time(when) for a time"
        return self.page(head, blocks, next_call, budget, "… {} more entries: go down a year or raise budget_tokens")

    def node(self, place: Place, scope: Scope, topic: Topic | None, budget: int, offset: int = 0) -> Page:
        node = place.node
        head = _title(node, scope) + f"  ({self._span(node)})"
        around = [f"up {scope.id_of(place.parent_id, node.project)}"] if place.parent_id else []
        around += [f"previous {scope.id_of(place.previous, node.project)}"] if place.previous else []
        around += [f"next {scope.id_of(place.following, node.project)}"] if place.following else []
        # A page that goes on with a list need not repeat the bullets.
        shown = [] if offset else _chosen(node.bullets, topic)
        bullets = [Block((_gripped(bullet),), item=False, rank=_rank(at, 1, 3, 4)) for at, bullet in enumerate(shown)]
        children = [
            Block((_child(child, scope),), rank=_rank(at, 0, 2, 2)) for at, child in enumerate(place.children[offset:])
        ]
        extras = [" · ".join(around)] if around else []
        extras += ["keywords: " + ", ".join(node.keywords)] if node.keywords else []
        blocks = [*bullets, *children, *(Block((line,), item=False, rank=5) for line in extras)]
        next_call = (
            "expand_grip(grip_id) for the exact words"
            if node.level is Level.SEGMENT
            else "get_node(node_id) to go down, expand_grip(grip_id) for the exact words"
        )
        return self.page(head, blocks, next_call, budget, f'… {{}} more: get_node("{node.node_id}", cursor=…)')

    def span(self, span: Span, scope: Scope, topic: Topic | None, budget: int, offset: int = 0) -> Page:
        head = f"{self.range(span.when)}{f', about {topic.text}' if topic else ''}:"
        if not span.nodes:
            return self.page(
                f"{head} nothing is remembered.",
                [],
                "toc_root() shows which times are, teleport(query) finds terms",
                budget,
            )
        many = len(span.nodes) - offset
        per_node = 4 if many <= 3 else 3 if many <= 6 else 2 if many <= 12 else 1
        blocks = [
            Block((_title(node, scope), *(_gripped(bullet) for bullet in _chosen(node.bullets, topic)[:per_node])))
            for node in span.nodes[offset:]
        ]
        next_call = "get_node(node_id) for more of one, expand_grip(grip_id) for the exact words"
        return self.page(head, blocks, next_call, budget, "… {} more in this time: use cursor or a narrower time")

    def hits(self, found: Found, budget: int, note: str = "") -> Page:
        times = f" in {self.range(found.when)}" if found.when else ""
        if not found.hits:
            where = ", ".join(f"{slug} ({count})" for slug, count in found.elsewhere.items())
            other = f" Other projects have hits: {where}; pass project." if where else ""
            next_call = "browse_time(when) or toc_root() to look around, or teleport with other words"
            return self.page(f"No hit{times} for {safe(found.query, 80)!r}.{note}{other}", [], next_call, budget)
        head = f"Records{times}, best first:{note}"
        room = budget - self.count(head) - self.count(_foot(9999, _AFTER_HITS)) - 3
        lines = HitLines(self.count, self.moment).lines(found.hits, room)
        return self.page(head, [Block(each) for each in lines], _AFTER_HITS, budget)

    def grip(self, opened: Opened, scope: Scope, budget: int) -> Page:
        """The words, then what was said around them: what answers them first, what led to them next."""
        record, cited = opened.record, opened.record.cited
        if cited is None or opened.state == "gone":
            head = f"{record.grip_id}: the excerpt is gone from its event. It was: {safe(record.excerpt, 300)}"
        else:
            said = f"{self.moment(cited.timestamp_ms)} {cited.role} · session {cited.session_id} · {opened.state}"
            words = self.cut_to(_words(cited, opened), max(40, budget * _WORDS_SHARE // 100))
            head = f"{said}\n> " + words.strip().replace("\n", "\n> ")
        width = max(_AROUND_LEAST, budget // 3)
        with_it = [event for event in record.events if cited is None or event.key != cited.key]
        told = [("with", event) for event in with_it] + [("after", event) for event in record.after]
        before = [("before", event) for event in reversed(record.before)]
        blocks = [self._within(cited, opened, width)] if cited else []
        for pair in zip_longest(told, before):
            blocks += [self._said(name, event, width) for name, event in filter(None, pair)]
        project = cited.project if cited else ""
        where = f'get_node("{scope.id_of(record.node_id, project)}")' if record.node_id else "toc_root()"
        return self.page(head, [block for block in blocks if block.lines], f"{where} for its segment", budget)

    def _within(self, cited: Event, opened: Opened, width: int) -> Block:
        """The event around an excerpt; nothing if the excerpt is all of it."""
        if opened.end - opened.start == len(cited.text):
            return Block((), item=False)
        return Block((f"in: {safe(Passage(cited.text, opened.start).window(2 * width))}",), item=False)

    def _said(self, name: str, event: Event, width: int) -> Block:
        limit = width // 2 if event.event_type is EventType.TOOL_RESULT else width
        line = f"{name}: [{event.role} {self.clock(event.timestamp_ms)}] {safe(event.text, limit)}"
        return Block((line,), item=False)

    def moment(self, timestamp_ms: int) -> str:
        return datetime.fromtimestamp(timestamp_ms / 1000, self.zone).strftime("%Y-%m-%d %H:%M")

    def clock(self, timestamp_ms: int) -> str:
        return datetime.fromtimestamp(timestamp_ms / 1000, self.zone).strftime("%H:%M")

    def range(self, when: TimeRange) -> str:
        return f"{when.phrase!r} = {self.moment(when.start_ms)} to {self.moment(when.end_ms - 1)}"

    def _span(self, node: Node) -> str:
        if node.level is Level.SEGMENT:
            return f"{self.moment(node.start_ms)}–{self.clock(node.end_ms)}, session {node.session_id}"
        return f"{self.moment(node.start_ms)[:10]} to {self.moment(node.end_ms - 1)[:10]}, by {node.written_by}"


def _words(cited: Event, opened: Opened) -> str:
    """The excerpt, from the place on that matters if it is long and one is named."""
    start = max(opened.start, min(opened.place, opened.end - 1)) if opened.place else opened.start
    dots = "…" if start > opened.start else ""
    return dots + squeezed(clean(cited.text[start : opened.end]))


def _rank(at: int, first: int, next_few: int, more: int) -> int:
    """The first bullet and the ways onward share a small budget; the other bullets and long tails come last."""
    return first if at == 0 else next_few if at < 4 else more if at < 8 else 6


def _foot(tokens: int, next_call: str) -> str:
    return f"[{tokens} tokens · next: {next_call}]"


def _title(node: Node, scope: Scope) -> str:
    return f"{scope.id_of(node.node_id, node.project)} {safe(node.title, 160)}"


def _child(node: Node, scope: Scope) -> str:
    name = safe(node.title, 120)
    if node.level is not Level.SEGMENT and ": " in name:
        # The id already says which day or month it is.
        name = name.split(": ", 1)[1]
    return f"> {scope.id_of(node.node_id, node.project)} {name} ({len(node.bullets)})"


def _plain(bullet: Bullet) -> str:
    return f"- {safe(bullet.text, 240)}"


def _gripped(bullet: Bullet) -> str:
    return f"- {safe(bullet.text, 240)} {bullet.grip_ids[0]}" if bullet.grip_ids else _plain(bullet)


def _chosen(bullets: Sequence[Bullet], topic: Topic | None) -> list[Bullet]:
    return topic.bullets(bullets) if topic else list(bullets)
