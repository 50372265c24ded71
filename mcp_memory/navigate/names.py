"""From the ids that an agent gives back to what they name, however far they were shortened."""

from __future__ import annotations

import re

from mcp_memory.domain.nodes import parse_grip_id, parse_short_grip_id
from mcp_memory.errors import SEE_GRIPS, SEE_WHOLE_GRIP, NotFound
from mcp_memory.store.port import Chronicle, Library

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
