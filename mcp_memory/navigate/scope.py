"""Which project an answer is about, and how ids are written so that they can be followed from the current one."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_memory.domain.steps import SEE_ALL, SEE_PROJECTS
from mcp_memory.domain.toc import Level, NodeRef, parse_node_id
from mcp_memory.errors import NotFound
from mcp_memory.ports.library import Library

ALL = "*"


@dataclass(frozen=True, slots=True)
class Scope:
    """`home` is the current project, if known; `project` the one that is asked about, None for all of them."""

    home: str | None
    project: str | None

    def id_of(self, node_id: str, project: str) -> str:
        """A node id as seen from home: those of other projects carry their slug."""
        return node_id if project == self.home else f"{node_id}@{project}"

    def short_id_of(self, ref: NodeRef, project: str) -> str:
        return ref.short_id(None if project == self.home else project)


async def scope_of(library: Library, home: str | None, asked: str | None) -> Scope:
    """The scope of a request: the project asked for, else home, else everything."""
    if home and not await library.has_project(home):
        home = None
    if asked == ALL:
        return Scope(home, None)
    if asked and not await library.has_project(asked):
        known = ", ".join((await library.slugs())[:12]) or "none yet"
        raise NotFound(f"There is no project {asked!r} in memory. Known projects: {known}; use '*' for all.")
    return Scope(home, asked or home)


async def ref_of(library: Library, scope: Scope, node_id: str) -> tuple[NodeRef, str]:
    """The node that an id means, and its project: named in the id, or the scope's, or the only one that has it."""
    ref, named = parse_node_id(node_id)
    if ref.shortened:
        return await _whole(library, ref, named or scope.project)
    if named:
        if not await library.has_project(named):
            raise NotFound(f"There is no project {named!r} in memory.", SEE_PROJECTS)
        return ref, named
    if scope.project:
        return ref, scope.project
    holders = [slug for slug in await library.slugs() if await library.node(slug, ref)]
    if len(holders) == 1:
        return ref, holders[0]
    if holders:
        choices = ", ".join(f"{ref.node_id()}@{slug}" for slug in holders[:8])
        raise NotFound(f"{len(holders)} projects have a node {ref.node_id()}: say which one, {choices}.")
    raise NotFound(f"There is no node {ref.node_id()} in memory.", SEE_ALL)


async def _whole(library: Library, ref: NodeRef, project: str | None) -> tuple[NodeRef, str]:
    """The segment that a shortened id means."""
    found = [
        (whole, slug)
        for slug in ([project] if project else await library.slugs())
        for whole in await library.nodes_named(slug, Level.SEGMENT, ref.key, 2)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        choices = ", ".join(whole.node_id(slug) for whole, slug in found[:8])
        raise NotFound(f"{ref.node_id()} is the beginning of several segments: say which one, {choices}.")
    raise NotFound(f"There is no segment {ref.node_id()} in memory.", SEE_ALL)
