"""Browsing the table of contents: the root, a node with its surroundings, the nodes that cover a time, a grip.

With a topic one goes down by it: a branch is worth what was said in it, not only what its summary says, in which the
words of a question seldom stand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.events import Event, EventType
from mcp_memory.domain.matches import Within
from mcp_memory.domain.nodes import (
    Bullet,
    GripRecord,
    Node,
    State,
    locate,
    parse_grip_id,
    parse_short_grip_id,
    place_in,
)
from mcp_memory.domain.terms import terms_of
from mcp_memory.domain.toc import Level, NodeRef, Scope, ancestors, parse_node_id
from mcp_memory.errors import SEE_ALL, SEE_GRIPS, SEE_WHOLE_GRIP, NotFound, UsageError
from mcp_memory.navigate.scope import ref_of
from mcp_memory.search.hits import LEVELS, Found, Hit, Wanted, with_replies
from mcp_memory.search.passages import passage_of
from mcp_memory.search.question import Question, question_of
from mcp_memory.search.retrieval import teleport
from mcp_memory.store.port import Chronicle, Library
from mcp_memory.times.resolve import TimeRange

#: As much of a UUID as is shown of it.
_SHORT_SESSION = re.compile(r"[0-9a-f]{8}", re.I)


async def grip_key(library: Library, name: str) -> bytes:
    """The key that a grip id names, written out or shortened."""
    beginning = parse_short_grip_id(name)
    if beginning is None:
        return parse_grip_id(name)[1]
    keys = await library.keys(beginning)
    if len(keys) > 1:
        raise NotFound(f"{name.strip()[:40]} is the beginning of several grips.", SEE_WHOLE_GRIP)
    if not keys:
        raise no_grip(name)
    return keys[0]


async def session_name(chronicle: Chronicle, given: str) -> str:
    """The name of a session, written out or by its beginning; as it was given if there is none."""
    name = given.strip().removeprefix("session:").removeprefix("s:")
    if not _SHORT_SESSION.fullmatch(name):
        return name
    found = await chronicle.sessions_named(name)
    if len(found) > 1 and name not in found:
        raise NotFound(f"{name} is the beginning of several sessions: give more of the one you mean.")
    return found[0] if len(found) == 1 else name


def no_grip(name: str) -> NotFound:
    return NotFound(f"There is no grip {name.strip()[:80]} in memory.", SEE_GRIPS)


_HITS, _NODES, _ENOUGH = 16, 40, 12
#: What a place in the ranking is worth beside the score, and what it is worth to be spoken of in a summary.
_PLACE, _SUMMARY = 0.15, 0.05
_SPEAKS = 0.02
#: A time filter reads all that lies in the time; in a longer one, everything is searched and what is outside left out.
_NARROW_MS = 40 * 24 * 3_600_000

Branch = tuple[str, NodeRef]


@dataclass(frozen=True, slots=True)
class Topic:
    """`worth` says how much each branch speaks of it; `hits` are the passages that do, best first."""

    text: str
    question: Question
    weights: tuple[float, ...]
    worth: Mapping[Branch, float]
    hits: tuple[Hit, ...]

    def keeps(self, node: Node) -> bool:
        return (node.project, node.ref) in self.worth or self._named_by(node)

    def _named_by(self, node: Node) -> bool:
        """Whether keywords and bullets hold all of it: of a common word only the best passages are in `worth`."""
        told = "\n".join([*node.keywords, *(bullet.text for bullet in node.bullets)])
        return len(self.question.places([told])[0]) == len(self.question.units) > 0

    def ordered(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes that speak of it, those that do most first."""
        kept = [node for node in nodes if self.keeps(node)]
        return sorted(kept, key=lambda node: -self.worth.get((node.project, node.ref), 0.0))

    def best(self, level: Level, many: int) -> list[Branch]:
        """The branches of a level that speak of it most."""
        found = [branch for branch in self.worth if branch[1].level is level]
        return sorted(found, key=lambda branch: (-self.worth[branch], branch))[:many]

    def bullets(self, bullets: Sequence[Bullet], beside: Sequence[Hit] = ()) -> list[Bullet]:
        """The bullets that name it, those that say most of it first; all if none does, since the branch was kept.

        Beside a passage only those that say more than it.
        """
        told = [(passage_of(self.question, bullet.text, self.weights).worth, bullet) for bullet in bullets]
        least = max((hit.passage.worth for hit in beside), default=0.0)
        named = sorted((pair for pair in told if pair[0] > least), key=lambda pair: -pair[0])
        return [bullet for _, bullet in named] or ([] if beside else list(bullets))

    def said_in(self, node: Node, many: int) -> list[Hit]:
        """The best passages that were said within a node, without those that only stand beside one."""
        inside = [hit for hit in self.hits if (node.project, node.ref) in _branches(hit)]
        return [hit for at, hit in enumerate(inside) if at == 0 or hit.score >= _SPEAKS][:many]


async def topic_of(
    library: Library, text: str | None, scope: Scope, within: tuple[int, int] | None = None
) -> Topic | None:
    """The topic as it is spoken of, in a time if one is given; None if there is none."""
    if text is None or not text.strip():
        return None
    if not terms_of(text):
        raise UsageError(f"The topic {text[:60]!r} holds no word to look for; leave it out or name one.")
    narrow = within is not None and within[1] - within[0] <= _NARROW_MS
    when = TimeRange("", *within) if within and narrow else None
    question = question_of(text)
    found = await teleport(library, Wanted(scope, text, when, kind="event", limit=_HITS))
    found = await with_replies(library, found, question)
    spoken = await _spoken_of(library, question, scope) if len(found.hits) < _ENOUGH else set()
    return Topic(text, question, found.weights, _worth(found, spoken), tuple(found.hits))


async def _spoken_of(library: Library, question: Question, scope: Scope) -> set[Branch]:
    """The branches whose summaries speak of it; where many events do, these tell enough."""
    nodes = await library.search(question.sought, Within(scope.project), kinds=frozenset(LEVELS), limit=_NODES)
    return {(node.project, ref) for node in (each.node for each in nodes) if node for ref in _up(node.ref)}


def _worth(found: Found, spoken: set[Branch]) -> dict[Branch, float]:
    worth = dict.fromkeys(spoken, _SUMMARY)
    for place, hit in enumerate(found.hits):
        for branch in _branches(hit):
            worth[branch] = worth.get(branch, 0.0) + hit.score + _PLACE / (1 + place)
    return worth


def _branches(hit: Hit) -> list[Branch]:
    """The segment that a hit lies in, and all above it."""
    return [(hit.project, ref) for ref in _up(parse_node_id(hit.node_id)[0])] if hit.node_id else []


def _up(ref: NodeRef) -> list[NodeRef]:
    return [ref, *ancestors(ref)]


_DAY_MS = 86_400_000
_LIMIT = 400
#: So many times more events are read as are asked for, to find the messages among them.
_WIDER = 4
_YEARS, _MONTHS, _DAYS, _ABOUT = 6, 4, 3, 5


@dataclass(frozen=True, slots=True)
class Root:
    """The top of the table: the latest years, months and days, newest first; of a topic those that speak of it most.

    Only the latest year, the days, and the branches of a topic come with their bullets.
    """

    years: list[Node]
    months: list[Node]
    days: list[Node]


@dataclass(frozen=True, slots=True)
class Place:
    """A node and where one can go from it; `missed`: how many children do not speak of the topic, if none does."""

    node: Node
    children: list[Node]
    previous: str | None
    following: str | None
    missed: int = 0

    @property
    def parent_id(self) -> str | None:
        parent = self.node.ref.parent
        return parent.node_id() if parent else None


@dataclass(frozen=True, slots=True)
class Span:
    """The nodes that cover a time, of the finest level that is not too many; `missed`: how many do not speak of the
    topic, if none does."""

    when: TimeRange
    level: Level
    nodes: list[Node]
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """A grip with its surroundings; `start` and `end` are where the excerpt stands now, `place` what to show of it."""

    record: GripRecord
    state: State
    start: int
    end: int
    place: int = 0


async def toc_root(library: Library, scope: Scope, topic: Topic | None) -> Root:
    if topic:
        return await _about(library, topic)
    years = await library.top(scope.project, Level.YEAR, 1)
    older = await library.top(scope.project, Level.YEAR, _YEARS, bullets=False)
    months = await library.top(scope.project, Level.MONTH, _MONTHS, bullets=False)
    days = await library.top(scope.project, Level.DAY, _DAYS)
    return Root([*years, *older[1:]], months, days)


async def _about(library: Library, topic: Topic) -> Root:
    """The branches that speak of a topic most, each read by its name."""
    levels = []
    for level, many in ((Level.YEAR, 2), (Level.MONTH, 4), (Level.DAY, _ABOUT)):
        found = [await library.node(project, ref) for project, ref in topic.best(level, many)]
        levels.append([node for node in found if node])
    return Root(*levels)


async def outline(library: Library, project: str | None, deepest: Level, most: int) -> list[Node]:
    """The tree down to a level, at most so many nodes of each: parents before their children, in time order."""
    nodes = [node for level in Level if level <= deepest for node in await library.top(project, level, most)]
    return sorted(nodes, key=lambda node: (node.project, node.ref.day.toordinal(), node.level, node.start_ms))


async def get_node(
    library: Library, scope: Scope, node_id: str, about: str | None, *, outline: bool = False
) -> tuple[Place, Topic | None]:
    """A node and, if a topic is given, what is spoken of it there. With `outline` the children come without bullets."""
    ref, project = await ref_of(library, scope, node_id)
    node = await library.node(project, ref)
    if node is None:
        raise NotFound(await _nearest(library, project, ref.node_id(), ref.level), SEE_ALL)
    topic = await topic_of(library, about, Scope(scope.home, project), (node.start_ms, node.end_ms + 1))
    bullets = not outline or topic is not None
    children = [] if ref.level is Level.SEGMENT else await library.children(project, ref, bullets=bullets)
    kept = topic.ordered(children) if topic else children
    missed = 0 if kept else len(children)
    return Place(node, kept, *await library.neighbours(project, ref), missed=missed), topic


async def _nearest(library: Library, project: str, node_id: str, level: Level) -> str:
    latest = await library.top(project, level, 1)
    hint = f" The latest {level.label} is {latest[0].node_id}." if latest else ""
    return f"There is no node {node_id} in project {project}.{hint}"


async def browse_time(library: Library, scope: Scope, when: TimeRange, about: str | None) -> tuple[Span, Topic | None]:
    """Days for a few weeks, weeks for some months, months beyond; segments for a single day.

    With a topic only those that speak of it, those that do most first.
    """
    topic = await topic_of(library, about, scope, (when.start_ms, when.end_ms))
    for level in _levels(when):
        found = await library.between(scope.project, level, when.start_ms, when.end_ms, _LIMIT)
        nodes = [node for node in found if await _tells_of(library, node, when)]
        if nodes:
            kept = topic.ordered(nodes) if topic else nodes
            return Span(when, level, kept, missed=0 if kept else len(nodes)), topic
    return Span(when, Level.DAY, []), topic


async def _tells_of(library: Library, node: Node, when: TimeRange) -> bool:
    """Whether anything was said in the part of a period that lies in a time: 2026 begins in the last week of 2025."""
    start, end = max(node.start_ms, when.start_ms), min(node.end_ms, when.end_ms)
    if node.level is Level.SEGMENT or (start, end) == (node.start_ms, node.end_ms):
        return True
    return bool(await library.between(node.project, Level.SEGMENT, start, end, 1))


def _spoken(events: tuple[Event, ...], many: int) -> tuple[Event, ...]:
    """The nearest messages; tool results only where there are too few of them."""
    said = [event for event in events if event.event_type is not EventType.TOOL_RESULT][:many]
    rest = [event for event in events if event.event_type is EventType.TOOL_RESULT][: many - len(said)]
    return tuple(event for event in events if event in said or event in rest)


def _levels(when: TimeRange) -> list[Level]:
    days = (when.end_ms - when.start_ms) / _DAY_MS
    if days <= 1.1:
        return [Level.SEGMENT, Level.DAY]
    if days <= 16:
        return [Level.DAY, Level.WEEK]
    return [Level.WEEK, Level.MONTH] if days <= 100 else [Level.MONTH, Level.YEAR]


async def expand_grip(library: Library, grip_id: str, before: int, after: int, *, spoken: bool = False) -> Opened:
    """A grip with the events before and after it; with `spoken`, messages are preferred to tool results."""
    wider = _WIDER if spoken else 1
    record = await library.grip(await grip_key(library, grip_id), before * wider, after * wider)
    if record is None:
        raise no_grip(grip_id)
    if spoken:
        nearest = tuple(reversed(_spoken(tuple(reversed(record.before)), before)))
        record = replace(record, before=nearest, after=_spoken(record.after, after))
    if record.cited is None:
        return Opened(record, "gone", 0, 0)
    place = min(place_in(grip_id), max(len(record.cited.text) - 1, 0))
    return Opened(record, *locate(record.cited.text, record.excerpt, record.start, record.end), place)
