"""Which project an answer is about, and what the ids mean that an agent gives back, however far they were shortened."""

from __future__ import annotations

import re
from enum import Enum

from mcp_memory.domain.nodes import Node, NodeQuery, parse_grip_id, parse_short_grip_id
from mcp_memory.domain.toc import Level, NodeRef, Scope, out_of_reach, parse_node_id
from mcp_memory.errors import SEE_ALL, SEE_GRIPS, SEE_PROJECTS, SEE_WHOLE_GRIP, NoProject, NotFound
from mcp_memory.store.port import ReadStore

ALL = "*"
#: As much of a UUID as is shown of it.
_SHORT_SESSION = re.compile(r"[0-9a-f]{8}", re.I)
#: How many projects are named to choose from.
_NAMED = 8


class Reach(Enum):
    """What may be read: where no project is known, everything (the command line) or nothing; or ever only home."""

    EVERYTHING = "everything"
    NAMED = "named"
    HOME = "home"


async def scope_of(reader: ReadStore, home: str | None, asked: str | None, reach: Reach, here: str) -> Scope:
    """The scope of a request: the project asked for, else home. `here` is how the place is called if it has none."""
    if reach is Reach.HOME and asked and asked != home:
        raise out_of_reach(home)
    if asked == ALL:
        return Scope(home, None)
    if asked and await reader.root_of(asked) is None:
        known = ", ".join((await reader.slugs())[:12]) or "none yet"
        raise NotFound(f"There is no project {asked!r} in memory. Known projects: {known}; use '*' for all.")
    slugs = await reader.slugs() if not (asked or home or reach is Reach.EVERYTHING) else []
    if slugs:  # an empty memory has nothing to refuse
        ways = ""
        if reach is Reach.NAMED:
            some = ", ".join(slugs[:_NAMED]) + (", …" if len(slugs) > _NAMED else "")
            ways = f' Pass project with a slug ({some}), or project="*" for all of them.'
        raise NoProject(
            f"Memory knows no project {here}, so nothing was looked up.{ways} A server that is started in a project's "
            "directory, or with MCP_MEMORY_PROJECT set to its slug, answers from that project. This place becomes one "
            "as soon as something is captured or remembered here."
        )
    return Scope(home, asked or home, reach is Reach.HOME)


async def node_of(reader: ReadStore, project: str, ref: NodeRef) -> Node | None:
    found = await reader.nodes(NodeQuery(project, (ref,)))
    return found[0] if found else None


async def ref_of(reader: ReadStore, scope: Scope, node_id: str) -> tuple[NodeRef, str]:
    """The node that an id means, and its project: named in the id, or the scope's, or the only one that has it."""
    ref, named = parse_node_id(node_id)
    scope.admit(named or scope.project or "")
    if ref.shortened:
        return await _whole(reader, ref, named or scope.project)
    if named:
        if await reader.root_of(named) is None:
            raise NotFound(f"There is no project {named!r} in memory.", SEE_PROJECTS)
        return ref, named
    if scope.project:
        return ref, scope.project
    holders = [slug for slug in await reader.slugs() if await node_of(reader, slug, ref)]
    if len(holders) == 1:
        return ref, holders[0]
    if holders:
        choices = ", ".join(f"{ref.node_id()}@{slug}" for slug in holders[:8])
        raise NotFound(f"{len(holders)} projects have a node {ref.node_id()}: say which one, {choices}.")
    raise NotFound(f"There is no node {ref.node_id()} in memory.", SEE_ALL)


async def _whole(reader: ReadStore, ref: NodeRef, project: str | None) -> tuple[NodeRef, str]:
    """The segment that a shortened id means."""
    found = [
        (whole.ref, slug)
        for slug in ([project] if project else await reader.slugs())
        for whole in await reader.nodes(NodeQuery(slug, level=Level.SEGMENT, beginning=ref.key, limit=2, bullets=False))
    ]
    if len(found) == 1:
        return found[0]
    if found:
        choices = ", ".join(whole.node_id(slug) for whole, slug in found[:8])
        raise NotFound(f"{ref.node_id()} is the beginning of several segments: say which one, {choices}.")
    raise NotFound(f"There is no segment {ref.node_id()} in memory.", SEE_ALL)


async def grip_key(reader: ReadStore, name: str) -> bytes:
    """The key that a grip id names, written out or shortened."""
    beginning = parse_short_grip_id(name)
    if beginning is None:
        return parse_grip_id(name)[1]
    keys = await reader.keys(beginning)
    if len(keys) > 1:
        raise NotFound(f"{name.strip()[:40]} is the beginning of several grips.", SEE_WHOLE_GRIP)
    if not keys:
        raise no_grip(name)
    return keys[0]


async def session_name(reader: ReadStore, given: str) -> str:
    """The name of a session, written out or by its beginning; as it was given if there is none."""
    name = given.strip().removeprefix("session:").removeprefix("s:")
    if not _SHORT_SESSION.fullmatch(name):
        return name
    found = await reader.sessions(name, 2)
    if len(found) > 1 and name not in found:
        raise NotFound(f"{name} is the beginning of several sessions: give more of the one you mean.")
    return found[0] if len(found) == 1 else name


def no_grip(name: str) -> NotFound:
    return NotFound(f"There is no grip {name.strip()[:80]} in memory.", SEE_GRIPS)
