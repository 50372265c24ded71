"""The days nearest to a time on which something was said, for those who ask about one on which nothing was."""

from __future__ import annotations

from mcp_memory.domain.summaries import Node
from mcp_memory.domain.toc import Level
from mcp_memory.ports.library import Library

_DAY_MS = 86_400_000
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
