"""Answers as text made for a model: ids to go on with, dates, what was spent and what to call next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from itertools import zip_longest

from mcp_memory import errors
from mcp_memory.domain.events import Event, EventType, parse_ulid
from mcp_memory.domain.nodes import Bullet, Node, event_grip_id, parse_grip_id, short_grip_id
from mcp_memory.domain.text import clean, safe, squeezed, terms
from mcp_memory.domain.toc import Level, Scope
from mcp_memory.errors import Step
from mcp_memory.navigate.browse import Opened, Place, Root, Span, Topic
from mcp_memory.navigate.hit_rendering import HitLines
from mcp_memory.navigate.packing import Block, Packer, Page
from mcp_memory.search.hits import Advice, Found, Hit
from mcp_memory.search.passages import Mark, Passage
from mcp_memory.times.resolve import TimeRange

_TITLE, _BULLET = 140, 240
#: From here on the id of something said also tells where in its event the passage stands.
_DEEP = 400


@dataclass(slots=True)
class Ids:
    """Writes the lines of one answer, and remembers what was written out already."""

    scope: Scope
    _told: set[str] = field(default_factory=set)

    def line(self, node: Node, width: int = _TITLE) -> str:
        """A node's id and title; the id already says which day or month it is."""
        name = node.title
        if node.level is not Level.SEGMENT and ": " in name:
            name = name.split(": ", 1)[1]
        name = safe(name, width)
        whole = self.scope.id_of(node.node_id, node.project)
        shown = whole if self._first("segment", node.level) else self.scope.short_id_of(node.ref, node.project)
        return f"{shown} {name}"

    def _first(self, kind: str, level: Level = Level.SEGMENT) -> bool:
        if level is not Level.SEGMENT:
            return True
        first = kind not in self._told
        self._told.add(kind)
        return first

    def bullet(self, bullet: Bullet, *, gripped: bool = True) -> str:
        text = f"- {safe(bullet.text, _BULLET)}"
        return f"{text} {self.grip(bullet.grip_ids[0])}" if gripped and bullet.grip_ids else text

    def grip(self, grip_id: str) -> str:
        return grip_id if self._first("grip") else short_grip_id(parse_grip_id(grip_id)[1])

    def said(self, hit: Hit, when: str, width: int) -> tuple[str, ...]:
        """Something that was said, by its own grip: the whole message, opened where it matters; and the reply to it.

        What was told already, as the reply to another, is not told again.
        """
        if hit.id in self._told:
            return ()
        timestamp_ms, key = parse_ulid(hit.event_ids[0])
        name = self.grip(event_grip_id(timestamp_ms, key))
        place = hit.passage.place
        deep = f"+{place}" if place >= _DEEP else ""
        line = f"* {when} {hit.role} {name}{deep} {safe(hit.passage.window(width))}"
        self._told.add(hit.id)
        reply = hit.reply
        if reply is None or reply.event_id in self._told:
            return (line,)
        self._told.add(reply.event_id)
        words = safe(reply.passage.window(width))
        return line, f"* → {reply.event.role} {short_grip_id(reply.event.key)} {words}"


#: Percent of an opened grip's budget that its own words may take.
_WORDS_SHARE = 60
#: Passages of a topic: how many a node shows, and how many characters of each a table of contents.
_SAID, _ROOT_SAID = 4, 160
_FEW = 3
#: Characters below which a few keywords are not worth showing.
_KEYWORDS = 30
_CHILD = 60
#: How much of a session's name is shown; those of clients are shorter.
_NAME = 200
_EXTRACTIVE = "extractive"
#: Widths of passages that are tried until all of them fit.
_WIDTHS = (600, 420, 300, 220, 160, 110)
_MANY = 6
#: How many lines each node of a time gets, by how many nodes there are at most.
_LINES = ((3, 4), (6, 3), (12, 2))
_TOOL_WIDTH = 80
_SAME = 0.8


@dataclass(frozen=True, slots=True)
class Renderer(Packer):
    """Writes what was found, in the user's time zone, and packs it into the budget."""

    zone: tzinfo

    def root(self, root: Root, scope: Scope, topic: Topic | None, note: str, budget: int, waiting: str = "") -> Page:
        if not root.years:
            return self._empty_root(topic, note, budget, waiting)
        name = scope.project or "all projects"
        if topic:
            return self._about(root, scope, topic, f"Memory of {name} about {safe(topic.text, 60)!r}:{note}", budget)
        ids = Ids(scope)
        latest, *older = root.years
        blocks = [Block((ids.line(latest), *(ids.bullet(bullet, gripped=False) for bullet in latest.bullets[:1])))]
        if older:
            names = " · ".join(scope.id_of(year.node_id, year.project) for year in older)
            blocks.append(Block((f"earlier: {names}",), item=False))
        blocks += [Block((ids.line(month),), rank=1 if at < _FEW - 1 else 3) for at, month in enumerate(root.months)]
        for day in root.days:
            blocks.append(Block((ids.line(day), *(ids.bullet(bullet) for bullet in day.bullets[:1])), rank=2))
        step = errors.listed(errors.DOWN, errors.TERM, errors.TIME)
        more = errors.more_in(scope.id_of(latest.node_id, latest.project))
        return self.page(f"Memory of {name}: table of contents.{note}", blocks, step, budget, more)

    def _empty_root(self, topic: Topic | None, note: str, budget: int, waiting: str) -> Page:
        about = f" about {safe(topic.text, 60)!r}" if topic else " yet"
        step = errors.listed(errors.ALL_TOPICS, errors.OTHER_WORDS) if topic else errors.NOTES
        head = f"Nothing is {'summarized' if waiting else 'remembered'}{about}.{waiting}{note}"
        return self.page(head, [], step, budget)

    def _about(self, root: Root, scope: Scope, topic: Topic, head: str, budget: int) -> Page:
        """The days that speak of a topic most, each with the line that says most of it; then what is above them."""
        ids = Ids(scope)
        blocks = []
        for at, day in enumerate(root.days):
            said = topic.said_in(day, 1)
            told = [bullet for bullet in topic.bullets(day.bullets, said) if not _repeats(bullet, said)]
            lines = [ids.bullet(bullet) for bullet in told[: 0 if said and at else 1]]
            lines += [line for hit in said for line in ids.said(hit, self.clock(hit.start_ms), _ROOT_SAID)]
            blocks.append(Block((ids.line(day), *lines)))
        blocks += [Block((ids.line(node),), rank=1) for node in (*root.months, *root.years)]
        return self.page(head, blocks, errors.listed(errors.DOWN_TOPIC, errors.TO_WORDS), budget, errors.MORE)

    def node(self, place: Place, scope: Scope, topic: Topic | None, budget: int, offset: int = 0) -> Page:
        """Passages of a topic and titles of children are as long as all of them fit."""
        # Many children will not fit with long titles, which need not be tried.
        widths = _WIDTHS if topic else _WIDTHS[-1:] if len(place.children) > _MANY else _WIDTHS[::3]
        page = self._node(place, scope, topic, budget, offset, widths[0])
        for width in widths[1:]:
            if page.whole:
                break
            page = self._node(place, scope, topic, budget, offset, width)
        return page

    def _node(self, place: Place, scope: Scope, topic: Topic | None, budget: int, offset: int, width: int) -> Page:
        node, ids = place.node, Ids(scope)
        head = f"{ids.line(node)}{self._span(node)}"
        # A page that goes on with a list need not repeat what stands above it.
        told = [] if offset else self._told(node, ids, topic, width)
        children = [
            Block((_child(ids, child, width),), rank=_rank(at, 0, 1, 2))
            for at, child in enumerate(place.children[offset:])
        ]
        extras = [Block((line,), item=False, rank=5) for line in self._around(place, scope)]
        name = scope.id_of(node.node_id, node.project)
        more = Step(f'… {{}} more: get_node("{name}", cursor=…)', errors.MORE.command)
        blocks = [*_missed(place, topic), *told, *children, *extras]
        return self.page(head, blocks, _onward(place, topic), budget, more)

    def _told(self, node: Node, ids: Ids, topic: Topic | None, width: int) -> list[Block]:
        """Passages of a topic, which are nearer to the words than a summary, and the bullets that say more."""
        said = topic.said_in(node, _SAID) if topic else []
        lines = [line for hit in said for line in ids.said(hit, self._when(hit, node), width)]
        bullets = [ids.bullet(bullet) for bullet in _chosen(node.bullets, topic) if not _repeats(bullet, said)]
        blocks = [Block((line,), item=False, rank=min(at, 2)) for at, line in enumerate(lines)]
        return blocks + [Block((line,), item=False, rank=_rank(at, 3, 3, 4)) for at, line in enumerate(bullets)]

    def _around(self, place: Place, scope: Scope) -> list[str]:
        """The ways up and aside, and the keywords."""
        node = place.node
        ways = (("up", place.parent_id), ("previous", place.previous), ("next", place.following))
        around = [f"{name} {scope.id_of(node_id, node.project)}" for name, node_id in ways if node_id]
        keywords = ["keywords: " + safe(", ".join(node.keywords), 200)] if node.keywords else []
        return [*([" · ".join(around)] if around else []), *keywords]

    def _when(self, hit: Hit, node: Node) -> str:
        """The time of something said, without the date if the node's id tells it."""
        close = node.level in (Level.SEGMENT, Level.DAY)
        return self.clock(hit.start_ms) if close else self.moment(hit.start_ms)[:10]

    def span(self, span: Span, scope: Scope, topic: Topic | None, budget: int, offset: int = 0, note: str = "") -> Page:
        """The nodes of a time; `note` tells of what stands in no summary yet."""
        about = f", about {safe(topic.text, 60)}" if topic else ""
        head = f"{self.range(span.when)}{about}:"
        if not span.nodes:
            return self._nothing_in(span, head, note, budget)
        nodes, ids = span.nodes[offset:], Ids(scope)
        lines = next((lines for most, lines in _LINES if len(nodes) <= most), 1)
        blocks = [Block(self._in_short(node, ids, topic, lines)) for node in nodes]
        return self.page(head, blocks, errors.listed(errors.MORE_OF_ONE, errors.TO_WORDS), budget, errors.MORE_OF_TIME)

    def _nothing_in(self, span: Span, head: str, note: str, budget: int) -> Page:
        step = errors.listed(errors.ALL_TIMES, errors.FINDS_TERMS)
        if span.missed:
            told = f"nothing of {_many(span.missed, span.level.label)} speaks of that."
            step = errors.listed(errors.WITHOUT_TOPIC, errors.OTHER_WORDS)
        else:
            told = f"nothing is {'in its summaries' if 'open' in note else 'remembered'}.{note}"
        return self.page(f"{head} {told}", [], step, budget)

    def _in_short(self, node: Node, ids: Ids, topic: Topic | None, many: int) -> tuple[str, ...]:
        """A node of a time, with so many lines of what was said and what its summary says."""
        title, said = ids.line(node), topic.said_in(node, 1) if topic else []
        lines = [line for hit in said for line in ids.said(hit, self._when(hit, node), _ROOT_SAID)]
        bullets = [ids.bullet(bullet) for bullet in _chosen(node.bullets, topic)[: many - len(lines)]]
        return title, *lines, *bullets

    def hits(self, found: Found, budget: int, note: str = "") -> Page:
        """The hits of a search; `note` tells how the question was understood."""
        times = f" in {self.range(found.when)}" if found.when else ""
        near = _near(found.advice)
        if not found.hits:
            told = [Block((line,), item=False) for line in [*near, *self._elsewhere(found)]]
            head = f"No hit{times} for {safe(found.query, 80)!r}.{found.note}{note}"
            return self.page(head, told, errors.ASK_OTHERWISE, budget)
        order = f", {found.order}, preferring those{times}" if _reach_beyond(found) else f"{times}, {found.order}"
        head = "".join([f"Records{order}:{note}", *(f" {line}" for line in [*near, *self._projects(found)])])
        page = self._hits(found.hits, head, budget)
        if page.left and (self.typed or not page.shown):
            # An agent is told of what is left by a cursor; without a hit it would not know that there is any.
            counted = self._hits(found.hits, head, budget, errors.MORE)
            page = counted if counted.shown >= min(page.shown, 1) else page
        return page

    def _hits(self, hits: Sequence[Hit], head: str, budget: int, more: Step | None = None) -> Page:
        step = errors.TO_WORDS if any(hit.role for hit in hits) else errors.listed(errors.MORE_OF_ONE, errors.TO_WORDS)
        room = self.room(head, step, budget, more)
        lines = HitLines(self.count, self.moment).lines(hits, room)
        return self.page(head, [Block(each) for each in lines], step, budget, more)

    def _elsewhere(self, found: Found) -> list[str]:
        """Where there is something: in another time, in other projects, on the latest days."""
        advice, lines = found.advice, []
        if advice and advice.anytime_ms is not None:
            day = self.moment(advice.anytime_ms)[:10]
            otherwise = Step(f"leave out when, or when={day!r}", f"leave out --when, or `--when {day}`")
            lines.append(f"Outside of that time there is a hit, on {day}: {self.say(otherwise)}.")
        lines += self._projects(found)
        if advice and advice.days:
            which = "nearest" if advice.nearest else "latest"
            lines.append(f"The {which} days: {', '.join(advice.days)}; {self.say(errors.ANY_OTHER_DAY)}")
        return lines

    def _projects(self, found: Found) -> list[str]:
        where = ", ".join(f"{slug} ({count})" for slug, count in found.elsewhere.items())
        return [f"Other projects have hits: {where}; {self.say(errors.PASS_PROJECT)}"] if where else []

    def grip(self, opened: Opened, scope: Scope, budget: int) -> Page:
        """The words, then what was said around them: what answers them first, what led to them next."""
        record, cited = opened.record, opened.record.cited
        if cited is None or opened.state == "gone":
            head = f"{record.grip_id}: the excerpt is gone from its event. It was: {safe(record.excerpt, 300)}"
        else:
            session = f"session {safe(cited.session_id, _NAME)}"
            said = f"{self.moment(cited.timestamp_ms)} {cited.role} · {session} · {opened.state}"
            words = self.cut_to(_words(cited, opened), max(40, budget * _WORDS_SHARE // 100))
            head = f"{said}\n> " + words.strip().replace("\n", "\n> ")
        project = cited.project if cited else ""
        step = _segment_step(scope.id_of(record.node_id, project)) if record.node_id else errors.ALL_TIMES
        page = self.page(head, [], step, budget)
        for width in _WIDTHS:
            page = self.page(head, self._surroundings(opened, width), step, budget)
            if page.whole:
                break
        return page

    def _surroundings(self, opened: Opened, width: int) -> list[Block]:
        """What was said with and after the words, and before them, by turns: either may be cut off by the budget."""
        record, cited = opened.record, opened.record.cited
        told = [("with", event) for event in record.events if cited is None or event.key != cited.key]
        told += [("after", event) for event in record.after]
        before = [("before", event) for event in reversed(record.before)]
        blocks = [self._within(cited, opened, width)] if cited else []
        for pair in zip_longest(told, before):
            blocks += [self._said(name, event, width) for name, event in filter(None, pair)]
        return [block for block in blocks if block.lines]

    def _within(self, cited: Event, opened: Opened, width: int) -> Block:
        """The event around an excerpt; nothing if the excerpt is all of it."""
        if opened.end - opened.start == len(cited.text):
            return Block((), item=False)
        place = Mark(opened.start, 0, 1.0)
        return Block((f"in: {safe(Passage(cited.text, opened.start, (place,)).window(width))}",), item=False)

    def _said(self, name: str, event: Event, width: int) -> Block:
        limit = min(width, _TOOL_WIDTH) if event.event_type is EventType.TOOL_RESULT else width
        line = f"{name}: [{event.role} {self.clock(event.timestamp_ms)}] {safe(event.text, limit)}"
        return Block((line,), item=False)

    def moment(self, timestamp_ms: int) -> str:
        return datetime.fromtimestamp(timestamp_ms / 1000, self.zone).strftime("%Y-%m-%d %H:%M")

    def clock(self, timestamp_ms: int) -> str:
        return datetime.fromtimestamp(timestamp_ms / 1000, self.zone).strftime("%H:%M")

    def range(self, when: TimeRange) -> str:
        return when.told(self.moment)

    def _span(self, node: Node) -> str:
        """What the id does not tell: a segment's hours and session, the days of a week, and that a model wrote it."""
        facts = []
        if node.level is Level.SEGMENT:
            facts = [
                f"{self.clock(node.start_ms)}–{self.clock(node.end_ms)}",
                f"session {safe(node.session_id or '', _NAME)}",
            ]
        elif node.level is not Level.DAY:
            facts = [f"{self.moment(node.start_ms)[:10]} to {self.moment(node.end_ms - 1)[:10]}"]
        if node.written_by != _EXTRACTIVE:
            facts.append(f"by {node.written_by}")
        return f" ({', '.join(facts)})" if facts else ""


def _segment_step(node_id: str) -> Step:
    return Step(f'get_node("{node_id}") for its segment', f"`node {node_id}` for its segment")


def _reach_beyond(found: Found) -> bool:
    """Whether something was said outside of the time that was asked about; periods are only shown if they touch it."""
    when = found.when
    return when is not None and any(not when.start_ms <= hit.start_ms < when.end_ms for hit in found.hits if hit.role)


def _near(advice: Advice | None) -> list[str]:
    """The words that memory does not know, with those it knows that are spelled almost so."""
    near = advice.near.items() if advice else ()
    told = [f"{word} (near: {', '.join(others)})" if others else word for word, others in near]
    return [f"Nowhere in memory: {', '.join(told)}."] if told else []


def _words(cited: Event, opened: Opened) -> str:
    """The excerpt, from the place on that matters if it is long and one is named."""
    start = max(opened.start, min(opened.place, opened.end - 1)) if opened.place else opened.start
    dots = "…" if start > opened.start else ""
    return dots + squeezed(clean(cited.text[start : opened.end]))


def _rank(at: int, first: int, next_few: int, more: int) -> int:
    """The ways onward come before the bullets in a small budget; the other bullets and long tails come last."""
    return first if at == 0 else next_few if at < 4 else more if at < 8 else 6


def _missed(place: Place, topic: Topic | None) -> list[Block]:
    """That no child speaks of a topic, if none does."""
    if not topic or not place.missed:
        return []
    beneath = _many(place.missed, Level(place.node.level + 1).label)
    return [Block((f"Nothing of {beneath} beneath speaks of {safe(topic.text, 60)!r}.",), item=False)]


def _onward(place: Place, topic: Topic | None) -> Step:
    """The next steps from a node."""
    if place.missed:
        return errors.listed(errors.WITHOUT_TOPIC, errors.TO_WORDS)
    if place.node.level is Level.SEGMENT:
        return errors.TO_WORDS
    return errors.listed(errors.DOWN_TOPIC if topic else errors.DOWN, errors.TO_WORDS)


def _child(ids: Ids, child: Node, width: int) -> str:
    return f"> {ids.line(child, max(_CHILD, width // 5))}{_keywords(child, width // 8)}"


def _keywords(child: Node, width: int) -> str:
    """A few words that a child's title lacks, by which to choose among its siblings."""
    title = child.title.lower()
    telling = [word for word in child.keywords if word.lower() not in title][:_FEW]
    return f" [{safe(', '.join(telling), width)}]" if telling and width >= _KEYWORDS else ""


def _repeats(bullet: Bullet, said: Sequence[Hit]) -> bool:
    """Whether a bullet says no more than a passage that is shown."""
    words = terms(bullet.text)
    return any(len(words & terms(hit.passage.text)) >= _SAME * len(words) for hit in said)


def _many(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"


def _chosen(bullets: Sequence[Bullet], topic: Topic | None) -> list[Bullet]:
    return topic.bullets(bullets) if topic else list(bullets)
