"""The days nearest to a time on which something was said, and what came first or last in it."""

from __future__ import annotations

from typing import Literal

from mcp_memory.domain.nodes import Node
from mcp_memory.domain.toc import Level
from mcp_memory.store.port import Library

#: Which end of a time is asked for, if either.
Order = Literal["", "first", "last"]

#: How that is said; without it, what there was is told as it happened.
TOLD: dict[Order, str] = {"": "in order of time", "first": "in order of time", "last": "latest first"}

_DAY_MS = 86_400_000
#: A time of up to three days is told by its segments, a longer one by its days.
SHORT_MS = 3 * _DAY_MS
#: How many days away they may lie; a longer time is only looked at if the shorter holds nothing.
_REACH = (31, 400)
_MANY = 400


async def day_before(library: Library, project: str | None, time_ms: int) -> Node | None:
    """The last day that ends by then and has a node."""
    for days in _REACH:
        nodes = await library.between(project, Level.DAY, time_ms - days * _DAY_MS, time_ms, _MANY)
        ended = [node for node in nodes if node.end_ms <= time_ms]
        if ended:
            return ended[-1]
    return None


async def day_after(library: Library, project: str | None, time_ms: int) -> Node | None:
    """The first day that begins from then on and has a node."""
    for days in _REACH:
        nodes = await library.between(project, Level.DAY, time_ms, time_ms + days * _DAY_MS, 2)
        begun = [node for node in nodes if node.start_ms >= time_ms]
        if begun:
            return begun[0]
    return None


async def in_order(
    library: Library, project: str | None, start_ms: int, end_ms: int, order: Order, limit: int
) -> list[Node]:
    """The segments with which a time begins or ends: of a long one, those of its first or last day with any."""
    if end_ms - start_ms > SHORT_MS:
        day = await _end_day(library, project, start_ms, end_ms, order)
        start_ms, end_ms = (max(start_ms, day.start_ms), min(end_ms, day.end_ms)) if day else (start_ms, end_ms)
    nodes = await library.between(project, Level.SEGMENT, start_ms, end_ms, _MANY)
    return nodes[:limit] if order == "first" else nodes[::-1][:limit]


async def _end_day(library: Library, project: str | None, start_ms: int, end_ms: int, order: Order) -> Node | None:
    if order == "first":
        return next(iter(await library.between(project, Level.DAY, start_ms, end_ms, 1)), None)
    near = await library.between(project, Level.DAY, max(start_ms, end_ms - _DAY_MS), end_ms, _MANY)
    day = near[-1] if near else await day_before(library, project, end_ms)
    return day if day and day.end_ms > start_ms else None


def in_lines(node: Node) -> str:
    """A node's title, without the date that its id tells, and its bullets."""
    title = node.title if node.level is Level.SEGMENT else node.title.split(": ", 1)[-1]
    return "\n".join([title, *(f"- {bullet.text}" for bullet in node.bullets)])


async def nearest_days(library: Library, project: str | None, start_ms: int, end_ms: int) -> list[Node]:
    """The days just before and just after a time on which something was said; of a few hours, their own day, too."""
    before, after = await day_before(library, project, start_ms), await day_after(library, project, end_ms)
    same = await library.between(project, Level.DAY, start_ms, end_ms, 2)
    return list({(day.project, day.node_id): day for day in (before, *same, after) if day}.values())
