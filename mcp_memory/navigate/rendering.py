"""Answers as text made for a model: ids to go on with, dates, what was spent and what to call next.

A whole id costs as much as ten words. The first grip is written out and can be cited; other ids are short, which every
tool understands, and stand behind the titles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from mcp_memory import errors
from mcp_memory.domain.budget import ANY_COUNT, Piece, pack, with_count
from mcp_memory.domain.events import parse_ulid
from mcp_memory.domain.nodes import (
    Bullet,
    Node,
    event_grip_id,
    foremost,
    parse_grip_id,
    quoted_themes,
    quoted_title,
    short_grip_id,
)
from mcp_memory.domain.quoting import count_unposed, quoted, quoted_block, quoted_name, unposed_ids
from mcp_memory.domain.text import clean, count_defused, safe, terms
from mcp_memory.domain.toc import Level, Scope
from mcp_memory.errors import Step
from mcp_memory.navigate.browse import NodeView, OpenedGrip, Root, Timeline, Topic
from mcp_memory.navigate.hit_rendering import DEEP, GripLines, HitLines, quoted_passage
from mcp_memory.search.hits import Hit, Results

SMALLEST_BUDGET = 60
#: The rank from which on a piece may be left out of an answer that is whole all the same.
_OPTIONAL = 3
#: Tokens below which the beginning of an answer tells nothing.
_SOME_WORDS = 8
#: Tokens by which texts may cost more together than apart.
_JOINTS = 3
_TITLE, _BULLET = 190, 240
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
#: They say nothing and cost as much as a word.
_EMPTY_LINES = re.compile(r"[ \t]*\n(?:[ \t]*\n)+")
_SAME = 0.8


@dataclass(frozen=True, slots=True)
class Page:
    """A finished answer: its text, its exact tokens, how many of the items given are in it, and how many are left.

    `whole`: all that should be shown is, if not all that might be.
    """

    text: str
    tokens: int
    shown: int
    left: int = 0
    whole: bool = True


def item(*lines: str, rank: int = 0) -> Piece[str]:
    """Lines of a list that are shown together, or at least the first of them.

    One without lines has been told by another item: it counts as shown.
    """
    return Piece(("\n".join(lines), *lines[:1]), rank, listed=True)


def aside(line: str, rank: int = 0) -> Piece[str]:
    """A line that no list goes on from."""
    return Piece((line,), rank)


@dataclass(slots=True)
class NodeLines:
    """Writes the lines of one answer, and remembers what was written out already."""

    scope: Scope
    _told: set[str] = field(default_factory=set)

    def line(self, node: Node, width: int = _TITLE, *, whole: bool = False, facts: str = "") -> str:
        """A node's id, which already says which day or month it is, what is known of it, and its title."""
        is_period = node.level is not Level.SEGMENT
        title = (
            quoted_themes(node.title.split(": ", 1)[-1], width)
            if is_period
            else quoted_title(node.title, width, is_period=False)
        )
        short = self.scope.short_id_of(node.ref, node.project)
        shown = self.scope.id_of(node.node_id, node.project) if whole else short
        by = f" by {quoted_name(node.author, _NAME)}:" if node.author else ""
        return f"{shown}{facts}{by} {title}"

    def bullet(self, bullet: Bullet, *, gripped: bool = True) -> str:
        text = f"- {bullet.quoted(_BULLET)}"
        return f"{text} {self._grip(bullet.grip_ids[0])}" if gripped and bullet.grip_ids else text

    def _grip(self, grip_id: str) -> str:
        first = "grip" not in self._told
        self._told.add("grip")
        return grip_id if first else short_grip_id(parse_grip_id(grip_id)[1])

    def said(self, hit: Hit, when: str, width: int) -> tuple[str, ...]:
        """Something that was said, by its own grip: the whole message, opened where it matters; and a line beside it.

        What was told already, beside another, is not told again.
        """
        if hit.id in self._told:
            return ()
        name = self._grip(event_grip_id(*parse_ulid(hit.event_ids[0])))
        deep = f"+{hit.passage.place}" if hit.passage.place >= DEEP else ""
        line = f"* {when} {hit.who} {name}{deep} {quoted_passage(hit, width)}"
        self._told.add(hit.id)
        beside = next((each for each in hit.lines if each.id not in self._told), None)
        if beside is None:
            return (line,)
        self._told.add(beside.id)
        words = quoted(beside.passage.window(width))
        return line, f"* → {beside.role} {short_grip_id(parse_ulid(beside.id)[1])} {words}"


@dataclass(frozen=True, slots=True)
class Renderer:
    """Writes what was found, in the user's time zone, and packs it into the budget.

    `typed`: its reader types commands instead of calling tools.
    """

    count: Callable[[str], int]
    cut_to: Callable[[str, int], str]
    typed: bool
    zone: tzinfo

    def say(self, step: Step) -> str:
        """A next step in the reader's words."""
        return step.command if self.typed else step.call

    def moment(self, timestamp_ms: int) -> str:
        return datetime.fromtimestamp(timestamp_ms / 1000, self.zone).strftime("%Y-%m-%d %H:%M")

    def clock(self, timestamp_ms: int) -> str:
        return datetime.fromtimestamp(timestamp_ms / 1000, self.zone).strftime("%H:%M")

    def page(self, head: str, pieces: Sequence[Piece[str]], step: Step, budget: int, more: Step | None = None) -> Page:
        """As many pieces as fit between head and foot. `more` tells how many items were left out."""

        def cost(text: str) -> int:
            return self.count(text) + 1 if text else 0

        items = sum(piece.listed for piece in pieces)
        for told in (None, more):
            chosen = pack(pieces, self.room(head, step, budget, told), cost)
            left = items - sum(pieces[index].listed for index in chosen)
            if not (left and more):  # else something is left out, so room is needed to say so
                break
        lines = [chosen[index] for index in sorted(chosen) if chosen[index]]
        if left and more:
            lines.append(self.say(more).format(left))
        budget, onward = max(budget, SMALLEST_BUDGET), self.say(step)
        body = self.cut_to("\n".join([head, *lines]), budget - self.count(_foot(ANY_COUNT, onward)) - 1)
        text = with_count(self.count, lambda tokens: f"{body}\n{_foot(tokens, onward)}")
        text = text if self.count(text) <= budget else self.cut_to(text, budget)
        whole = all(index in chosen for index, piece in enumerate(pieces) if piece.rank < _OPTIONAL)
        return Page(text, self.count(text), items - left, left, whole)

    def room(self, head: str, step: Step, budget: int, more: Step | None = None) -> int:
        """The tokens that are left between head and foot."""
        told = self.count(self.say(more)) + _JOINTS if more else 0
        foot = self.count(_foot(ANY_COUNT, self.say(step)))
        return max(budget, SMALLEST_BUDGET) - self.count(head) - foot - _JOINTS - told

    def fit(self, text: str, budget: int, least: int = SMALLEST_BUDGET) -> str:
        """The text, or its beginning and the least budget for all of it: no answer exceeds its budget."""
        if self.count(text) <= budget:
            return text
        note = self.say(errors.too_small(least))
        room = budget - self.count(f"\n{note}") - 1
        short = f"{self.cut_to(text, room).rstrip()}\n{note}" if room >= _SOME_WORDS else note
        return self.cut_to(short, budget)

    def root(self, root: Root, scope: Scope, topic: Topic | None, note: str, budget: int, waiting: str = "") -> Page:
        """The top of the table. `waiting` tells of what stands in no summary yet."""
        if not root.years:
            about = f" about {safe(topic.text, 60)!r}" if topic else " yet"
            step = errors.listed(errors.ALL_TOPICS, errors.OTHER_WORDS) if topic else errors.NOTES
            head = f"Nothing is {'summarized' if waiting else 'remembered'}{about}.{waiting}{note}"
            return self.page(head, [], step, budget)
        name = scope.project or "all projects"
        if topic:
            return self._about(root, scope, topic, f"Memory of {name} about {safe(topic.text, 60)!r}:{note}", budget)
        write = NodeLines(scope)
        latest, *older = root.years
        pieces = [
            item(write.line(latest), *(write.bullet(bullet, gripped=False) for bullet in foremost(latest.bullets, 1)))
        ]
        if older:
            names = " · ".join(scope.id_of(year.node_id, year.project) for year in older)
            pieces.append(aside(f"earlier: {names}"))
        pieces += [item(write.line(month), rank=1 if at < _FEW - 1 else 3) for at, month in enumerate(root.months)]
        for day in root.days:
            pieces.append(item(write.line(day), *(write.bullet(bullet) for bullet in foremost(day.bullets, 1)), rank=2))
        step = errors.listed(errors.DOWN, errors.TERM, errors.TIME)
        more = errors.more_in(scope.id_of(latest.node_id, latest.project))
        return self.page(f"Memory of {name}: table of contents.{note}", pieces, step, budget, more)

    def _about(self, root: Root, scope: Scope, topic: Topic, head: str, budget: int) -> Page:
        """The days that speak of a topic most, each with the line that says most of it; then what is above them."""
        write = NodeLines(scope)
        pieces = []
        for at, day in enumerate(root.days):
            said = topic.said_in(day, 1)
            told = [bullet for bullet in topic.bullets(day.bullets, said) if not _repeats(bullet, said)]
            title = write.line(day)
            lines = [write.bullet(bullet) for bullet in told[: 0 if said and at else 1]]
            lines += [line for hit in said for line in write.said(hit, self.clock(hit.start_ms), _ROOT_SAID)]
            pieces.append(item(title, *lines))
        pieces += [item(write.line(node), rank=1) for node in (*root.months, *root.years)]
        return self.page(head, pieces, errors.listed(errors.DOWN_TOPIC, errors.TO_WORDS), budget, errors.MORE)

    def node(self, view: NodeView, scope: Scope, topic: Topic | None, budget: int, offset: int = 0) -> Page:
        """A node with its children. Passages of a topic and titles of children are as long as all of them fit."""
        # Many children will not fit with long titles, which need not be tried.
        widths = _WIDTHS if topic else _WIDTHS[-1:] if len(view.children) > _MANY else _WIDTHS[::3]
        for width in widths:
            page = self._node(view, scope, topic, budget, offset, width)
            if page.whole:
                break
        return page

    def _node(self, view: NodeView, scope: Scope, topic: Topic | None, budget: int, offset: int, width: int) -> Page:
        node, write, pieces = view.node, NodeLines(scope), []
        head = write.line(node, whole=True, facts=self._facts(node))
        if topic and view.missed:
            beneath = _many(view.missed, Level(node.level + 1).label)
            pieces.append(aside(f"Nothing of {beneath} beneath speaks of {safe(topic.text, 60)!r}."))
        # A page that goes on with a list need not repeat what stands above it.
        if not offset:
            # Passages of a topic are nearer to the words than a summary, and the bullets say more.
            said = topic.said_in(node, _SAID) if topic else []
            lines = [line for hit in said for line in write.said(hit, self._when(hit, node), width)]
            chosen = topic.bullets(node.bullets) if topic else node.bullets
            bullets = [write.bullet(bullet) for bullet in chosen if not _repeats(bullet, said)]
            pieces += [aside(line, min(at, 2)) for at, line in enumerate(lines)]
            pieces += [aside(line, _rank(at, 3, 3, 4)) for at, line in enumerate(bullets)]
        for at, child in enumerate(view.children[offset:]):
            # A few words that a child's title lacks, by which to choose among its siblings.
            telling = [word for word in child.keywords if word.lower() not in child.title.lower()][:_FEW]
            words = f" [{quoted(', '.join(telling), width // 8)}]" if telling and width // 8 >= _KEYWORDS else ""
            pieces.append(item(f"> {write.line(child, max(_CHILD, width // 5))}{words}", rank=_rank(at, 0, 1, 2)))
        ways = (("up", view.parent_id), ("previous", view.previous), ("next", view.following))
        around = " · ".join(f"{name} {scope.id_of(node_id, node.project)}" for name, node_id in ways if node_id)
        keywords = f"keywords: {quoted(', '.join(node.keywords), 200)}" if node.keywords else ""
        pieces += [aside(line, 5) for line in (around, keywords) if line]
        step = errors.TO_WORDS
        if view.missed:
            step = errors.listed(errors.WITHOUT_TOPIC, errors.TO_WORDS)
        elif node.level is not Level.SEGMENT:
            step = errors.listed(errors.DOWN_TOPIC if topic else errors.DOWN, errors.TO_WORDS)
        name = scope.id_of(node.node_id, node.project)
        more = Step(f'… {{}} more: get_node("{name}", cursor=…)', errors.MORE.command)
        return self.page(head, pieces, step, budget, more)

    def _facts(self, node: Node) -> str:
        """What the id does not tell: a segment's hours and session, the days of a week, and that a model wrote it."""
        facts = []
        if node.level is Level.SEGMENT:
            hours = f"{self.clock(node.start_ms)}–{self.clock(node.end_ms)}"
            facts = [hours, f"session {quoted_name(node.session_id or '', _NAME)}"]
        elif node.level is not Level.DAY:
            facts = [f"{self.moment(node.start_ms)[:10]} to {self.moment(node.end_ms - 1)[:10]}"]
        if node.written_by != _EXTRACTIVE:
            facts.append(f"by {node.written_by}")
        return f" ({', '.join(facts)})" if facts else ""

    def _when(self, hit: Hit, node: Node) -> str:
        """The time of something said, without the date if the node's id tells it."""
        close = node.level in (Level.SEGMENT, Level.DAY)
        return self.clock(hit.start_ms) if close else self.moment(hit.start_ms)[:10]

    def timeline(
        self,
        time: Timeline,
        scope: Scope,
        topic: Topic | None,
        budget: int,
        offset: int = 0,
        waiting: str = "",
        note: str = "",
    ) -> Page:
        """The nodes of a time; of an empty one, what stands in no summary yet (`waiting`), and a note."""
        head = f"{time.when.told(self.moment)}{f', about {safe(topic.text, 60)}' if topic else ''}:"
        if not time.nodes and time.missed:
            told = f"nothing of {_many(time.missed, time.level.label)} speaks of that."
            return self.page(f"{head} {told}", [], errors.listed(errors.WITHOUT_TOPIC, errors.OTHER_WORDS), budget)
        if not time.nodes:
            told = f"nothing is {'in its summaries' if waiting else 'remembered'}.{waiting}{note}"
            return self.page(f"{head} {told}", [], errors.listed(errors.ALL_TIMES, errors.FINDS_TERMS), budget)
        nodes, write, pieces = time.nodes[offset:], NodeLines(scope), []
        many = next((lines for most, lines in _LINES if len(nodes) <= most), 1)
        for node in nodes:
            title, said = write.line(node), topic.said_in(node, 1) if topic else []
            lines = [line for hit in said for line in write.said(hit, self._when(hit, node), _ROOT_SAID)]
            room = max(many - len(lines), 0)
            chosen = topic.bullets(node.bullets)[:room] if topic else foremost(node.bullets, room)
            bullets = [write.bullet(bullet) for bullet in chosen]
            pieces.append(item(title, *lines, *bullets))
        return self.page(head, pieces, errors.listed(errors.MORE_OF_ONE, errors.TO_WORDS), budget, errors.MORE_OF_TIME)

    def hits(self, found: Results, budget: int, note: str = "") -> Page:
        """The hits of a search; `note` tells how the question was understood."""
        when, hits, advice = found.when, found.hits, found.advice
        times = f" in {when.told(self.moment)}" if when else ""
        # The words that memory does not know, with those it knows that are spelled almost so.
        near = (
            [f"{word} (near: {', '.join(others)})" if others else word for word, others in advice.near.items()]
            if advice
            else []
        )
        told = [f"Nowhere in memory: {', '.join(near)}."] if near else []
        where = ", ".join(f"{slug} ({count})" for slug, count in found.elsewhere.items())
        projects = [f"Other projects have hits: {where}; {self.say(errors.PASS_PROJECT)}"] if where else []
        if not hits:
            if advice and advice.anytime_ms is not None:
                day = self.moment(advice.anytime_ms)[:10]
                otherwise = Step(f"leave out when, or when={day!r}", f"leave out --when, or `--when {day}`")
                told.append(f"Outside of that time there is a hit, on {day}: {self.say(otherwise)}.")
            told += projects
            if advice and advice.days:
                which = "nearest" if advice.nearest else "latest"
                told.append(f"The {which} days: {', '.join(advice.days)}; {self.say(errors.ANY_OTHER_DAY)}")
            head = f"No hit{times} for {safe(found.query, 80)!r}.{found.note}{note}"
            return self.page(head, [aside(line) for line in told], errors.ASK_OTHERWISE, budget)
        # Something was said outside of the time that was asked about; periods are only shown if they touch it.
        beyond = when and any(not when.start_ms <= hit.start_ms < when.end_ms for hit in hits if hit.role)
        order = f", {found.order}, preferring those{times}" if beyond else f"{times}, {found.order}"
        head = "".join([f"Records{order}:{note}", *(f" {line}" for line in [*told, *projects])])
        page = self._hits(hits, head, budget)
        if page.left and (self.typed or not page.shown):
            # An agent is told of what is left by a cursor; without a hit it would not know that there is any.
            counted = self._hits(hits, head, budget, errors.MORE)
            page = counted if counted.shown >= min(page.shown, 1) else page
        return page

    def _hits(self, hits: Sequence[Hit], head: str, budget: int, more: Step | None = None) -> Page:
        step = errors.TO_WORDS if any(hit.role for hit in hits) else errors.listed(errors.MORE_OF_ONE, errors.TO_WORDS)
        written = HitLines(hits, self.count, self.moment).within(self.room(head, step, budget, more))
        # A hit without lines has no form that fits: it is left out, and counted as such.
        pieces = [item(*lines) for lines in written]
        pieces += [Piece((), listed=True)] * (len(hits) - len(written))
        return self.page(head, pieces, step, budget, more)

    def grip(self, opened: OpenedGrip, scope: Scope, budget: int) -> Page:
        """The words, then what was said around them: what answers them first, what led to them next."""
        record, cited, lines = opened.record, opened.record.cited, GripLines(opened, self.clock)
        if cited is None or opened.state == "gone":
            head = f"{record.grip_id}: the excerpt is gone from its event. It was: {quoted(record.excerpt, 300)}"
        else:
            session = f"session {quoted_name(cited.session_id, _NAME)}"
            who = f"{cited.role} {quoted_name(cited.author, _NAME)}" if cited.author else str(cited.role)
            # From the place on that matters, if the excerpt is long and one is named.
            start = max(opened.start, min(opened.place, opened.end - 1)) if opened.place else opened.start
            stored = cited.text[start : opened.end]
            state = opened.state + altered(stored)
            said = f"{self.moment(cited.timestamp_ms)} {who}{lines.mark(cited)} · {session} · {state}"
            words = ("…" if start > opened.start else "") + _EMPTY_LINES.sub("\n", unposed_ids(clean(stored)))
            words = self.cut_to(words, max(40, budget * _WORDS_SHARE // 100))
            head = f"{said}\n{quoted_block(words)}"
        step = errors.ALL_TIMES
        if record.node_id:
            name = scope.id_of(record.node_id, cited.project if cited else "")
            step = Step(f'get_node("{name}") for its segment', f"`node {name}` for its segment")
        for width in _WIDTHS:
            page = self.page(head, lines.around(width), step, budget)
            if page.whole:
                break
        return page


def altered(stored: str) -> str:
    """What to add where words are called exact and some of their tags or ids are shown with other brackets."""
    counts = ((count_defused(stored), "tag"), (count_unposed(clean(stored)), "id"))
    changed = " and ".join(_many(count, name) for count, name in counts if count)
    return f", {changed} shown as ‹…›" if changed else ""


def _foot(tokens: int, next_call: str) -> str:
    return f"[{tokens} tokens · next: {next_call}]"


def _rank(at: int, first: int, next_few: int, more: int) -> int:
    """The ways onward come before the bullets in a small budget; the other bullets and long tails come last."""
    return first if at == 0 else next_few if at < 4 else more if at < 8 else 6


def _repeats(bullet: Bullet, said: Sequence[Hit]) -> bool:
    """Whether a bullet says no more than a passage that is shown."""
    words = terms(bullet.shown)
    return any(len(words & terms(hit.passage.text)) >= _SAME * len(words) for hit in said)


def _many(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"
