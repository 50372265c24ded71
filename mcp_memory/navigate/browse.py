"""Browsing the table of contents: the root, a node with its surroundings, and the nodes that cover a time."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_memory.domain.grips import State, locate, place_in
from mcp_memory.domain.summaries import Node
from mcp_memory.domain.toc import Level
from mcp_memory.errors import NotFound
from mcp_memory.navigate.names import grip_key, no_grip
from mcp_memory.navigate.scope import Scope, ref_of
from mcp_memory.navigate.topic import Topic
from mcp_memory.navigate.when import TimeRange
from mcp_memory.ports import GripRecord, Library

_DAY_MS = 86_400_000
_LIMIT = 400


@dataclass(frozen=True, slots=True)
class Root:
    """The top of the table: years, the months of the latest, and the latest days, newest first."""

    years: list[Node]
    months: list[Node]
    days: list[Node]


@dataclass(frozen=True, slots=True)
class Place:
    """A node and where one can go from it."""

    node: Node
    children: list[Node]
    previous: str | None
    following: str | None

    @property
    def parent_id(self) -> str | None:
        parent = self.node.ref.parent
        return parent.node_id() if parent else None


@dataclass(frozen=True, slots=True)
class Span:
    """The nodes that cover a time, of the finest level that is not too many."""

    when: TimeRange
    level: Level
    nodes: list[Node]


@dataclass(frozen=True, slots=True)
class Opened:
    """A grip with its surroundings; `start` and `end` are where the excerpt stands now, `place` what to show of it."""

    record: GripRecord
    state: State
    start: int
    end: int
    place: int = 0


async def toc_root(library: Library, scope: Scope, topic: Topic | None) -> Root:
    years = await library.top(scope.project, Level.YEAR, _LIMIT)
    months = await library.top(scope.project, Level.MONTH, 12 if topic is None else _LIMIT)
    days = await library.top(scope.project, Level.DAY, 3 if topic is None else _LIMIT)
    if topic:
        years, months, days = ([node for node in nodes if topic.keeps(node)] for nodes in (years, months, days))
    return Root(years, months, days)


async def get_node(library: Library, scope: Scope, node_id: str, topic: Topic | None) -> Place:
    ref, project = await ref_of(library, scope, node_id)
    node = await library.node(project, ref)
    if node is None:
        raise NotFound(await _nearest(library, project, ref.node_id(), ref.level))
    children = [] if ref.level is Level.SEGMENT else await library.children(project, ref)
    if topic:
        children = [child for child in children if topic.keeps(child)]
    return Place(node, children, *await library.neighbours(project, ref))


async def _nearest(library: Library, project: str, node_id: str, level: Level) -> str:
    latest = await library.top(project, level, 1)
    hint = f"The latest {level.label} is {latest[0].node_id}; " if latest else ""
    return f"There is no node {node_id} in project {project}. {hint}call toc_root to see what there is."


async def browse_time(library: Library, scope: Scope, when: TimeRange, topic: Topic | None) -> Span:
    """Days for a few weeks, weeks for some months, months beyond; segments for a single day."""
    for level in _levels(when):
        nodes = await library.between(scope.project, level, when.start_ms, when.end_ms, _LIMIT)
        if topic:
            nodes = [node for node in nodes if topic.keeps(node)]
        if nodes:
            return Span(when, level, nodes)
    return Span(when, Level.DAY, [])


def _levels(when: TimeRange) -> list[Level]:
    days = (when.end_ms - when.start_ms) / _DAY_MS
    if days <= 1.1:
        return [Level.SEGMENT, Level.DAY]
    if days <= 16:
        return [Level.DAY, Level.WEEK]
    return [Level.WEEK, Level.MONTH] if days <= 100 else [Level.MONTH, Level.YEAR]


async def expand_grip(library: Library, grip_id: str, before: int, after: int) -> Opened:
    record = await library.grip(await grip_key(library, grip_id), before, after)
    if record is None:
        raise no_grip(grip_id)
    if record.cited is None:
        return Opened(record, "gone", 0, 0)
    place = min(place_in(grip_id), max(len(record.cited.text) - 1, 0))
    return Opened(record, *locate(record.cited.text, record.excerpt, record.start, record.end), place)
