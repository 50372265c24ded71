"""Browsing the table of contents: the root, a node with its surroundings, and the nodes that cover a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mcp_memory.domain.events import Event, EventType
from mcp_memory.domain.nodes import GripRecord, Node, State, locate, place_in
from mcp_memory.domain.toc import Level
from mcp_memory.errors import SEE_ALL, NotFound
from mcp_memory.navigate.names import grip_key, no_grip
from mcp_memory.navigate.topic import Topic, topic_of
from mcp_memory.search.scope import Scope, ref_of
from mcp_memory.store.port import Library
from mcp_memory.times.resolve import TimeRange

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
