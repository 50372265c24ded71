"""From the ids that an agent gives back to what they name, however far they were shortened."""

from __future__ import annotations

from mcp_memory.domain.grips import parse_grip_id, parse_short_grip_id
from mcp_memory.errors import NotFound
from mcp_memory.ports import Library


async def grip_key(library: Library, name: str) -> bytes:
    """The key that a grip id names, written out or shortened."""
    beginning = parse_short_grip_id(name)
    if beginning is None:
        return parse_grip_id(name)[1]
    keys = await library.keys(beginning)
    if len(keys) > 1:
        raise NotFound(f"{name.strip()[:40]} is the beginning of several grips; teleport shows the whole id of one.")
    if not keys:
        raise no_grip(name)
    return keys[0]


def no_grip(name: str) -> NotFound:
    return NotFound(
        f"There is no grip {name.strip()[:80]} in memory. Grip ids stand behind the bullets of get_node and the "
        "hits of teleport."
    )
