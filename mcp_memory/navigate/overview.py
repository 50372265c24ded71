"""What people look through, in words of their own: sessions with their titles and how each ended, what is open, what
memory handed to agents.

What was handed over is kept with its place, so that a project that is renamed or merged keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from mcp_memory.domain.events import MESSAGES, NOTES_CLIENT, Event, EventQuery
from mcp_memory.domain.handed import BRIEF, Handed, HandedQuery, HandedTotal
from mcp_memory.domain.inventory import FileActivity, SessionInfo, SessionQuery
from mcp_memory.domain.nodes import Bullet, Kind, Node, NodeQuery, foremost
from mcp_memory.domain.projects import PlaceName
from mcp_memory.domain.quoting import quoted
from mcp_memory.domain.toc import Scope
from mcp_memory.lexicon import word_lists
from mcp_memory.navigate.shapes import iso, picked
from mcp_memory.navigate.work_questions import work_hits
from mcp_memory.search.hits import Results
from mcp_memory.search.question import Query
from mcp_memory.store.inbox_port import Inbox
from mcp_memory.store.port import ReadStore

#: What a session came to is told by bullets of these kinds, else by its last words.
_ENDS = (Kind.OUTCOME, Kind.FIXED, Kind.COMMIT, Kind.DECISION, Kind.OPEN)
_GIST = 160
#: How many of the latest messages are searched for one that is not commentary.
_LOOKED_BACK = 20
#: How many segments of one session are listed.
_SEGMENTS = 200
_FILES = 200


async def session_cards(
    reader: ReadStore,
    project: str | None,
    client: str | None = None,
    before: tuple[int, int] | None = None,
    limit: int = 30,
    session_id: str | None = None,
) -> list[SessionInfo]:
    """Sessions, those first that were active last; or the one of that name."""
    found = await reader.session_list(SessionQuery(project, client, session_id, before, limit))
    return [await _card(reader, info) for info in found]


async def _card(reader: ReadStore, info: SessionInfo) -> SessionInfo:
    refs = tuple(dict.fromkeys(ref for ref in (info.first, info.last) if ref))
    nodes = {node.ref: node for node in await reader.nodes(NodeQuery(info.project, refs))} if refs else {}
    first, last = (nodes.get(ref) if ref else None for ref in (info.first, info.last))
    said: list[Event] = []
    if not (info.title or first) or not _end(last):
        query = EventQuery(session_id=info.session_id, client=info.client, types=MESSAGES, last=_LOOKED_BACK)
        said = await reader.events(query)
        said = [event for event in said if not event.is_commentary] or said
    words = quoted(said[-1].text, _GIST) if said else ""
    title = quoted(info.title or (first.title if first else ""), _GIST) or words or "Nothing was said"
    title = f"Notes of {info.project}" if info.client == NOTES_CLIENT else title
    return replace(info, title=title, outcome=_end(last) or words)


def _end(last: Node | None) -> str:
    ends = [bullet for bullet in last.bullets if bullet.kind in _ENDS] if last else []
    told: list[Bullet] = foremost(ends, 1)
    return told[0].quoted(_GIST) if told else ""


async def open_now(reader: ReadStore, scope: Scope, limit: int = 20, offset: int = 0) -> Results:
    """What is left open, the latest first: one hit for each segment that leaves something."""
    return await work_hits(reader, Query(scope, "", None, limit=limit, offset=offset), "open")


async def segments_of(reader: ReadStore, session_id: str) -> list[Node]:
    """The parts of a session that stand in the tree, in order."""
    return await reader.nodes(NodeQuery(session_id=session_id, limit=_SEGMENTS))


async def changed_files(reader: ReadStore, project: str | None) -> list[FileActivity]:
    """The files that were changed last."""
    return await reader.changed_files(project, word_lists("tools")["edited"], _FILES)


@dataclass(frozen=True, slots=True)
class RecalledPage:
    """Rows with their projects' slugs, newest first; `more` is the row before which the next page begins, if any."""

    rows: list[tuple[Handed, str]]
    more: int | None


async def recalled(reader: ReadStore, inbox: Inbox, query: HandedQuery, project: str | None = None) -> RecalledPage:
    """One page of what was handed over, of all projects or of one."""
    if project is not None:
        query = replace(query, places=await places_of(reader, inbox, project))
    found = await inbox.handed(replace(query, limit=query.limit + 1))
    shown = found[: query.limit]
    slugs = await _slugs(reader, {row.place for row in shown})
    more = shown[-1].id if len(found) > len(shown) > 0 else None
    return RecalledPage([(row, slugs[row.place]) for row in shown], more)


async def recalled_totals(
    reader: ReadStore, inbox: Inbox, since_ms: int, project: str | None = None
) -> list[HandedTotal]:
    """How often, how much and how much of it was opened, by kind: first what memory handed over by itself."""
    places = None if project is None else await places_of(reader, inbox, project)
    found = await inbox.handed_totals(since_ms, places)
    return sorted(found, key=lambda total: total.kind != BRIEF)


async def places_of(reader: ReadStore, inbox: Inbox, project: str) -> tuple[PlaceName, ...]:
    """The places of which something was handed over and that are this project's."""
    slugs = await _slugs(reader, await inbox.handed_places())
    return tuple(place for place, slug in slugs.items() if slug == project)


async def _slugs(reader: ReadStore, places: Iterable[PlaceName]) -> dict[PlaceName, str]:
    return {place: (await reader.project_of_root(*place) if any(place) else None) or "" for place in places}


def row_shape(row: Handed, project: str) -> dict[str, Any]:
    return {
        "id": row.id,
        "timestamp": iso(row.at_ms),
        **picked(row, "kind client"),
        "session_id": row.session,
        "project": project,
        **picked(row, "asked ids tokens"),
        "opened": None if row.opened_ms is None else iso(row.opened_ms),
    }


def totals_shape(totals: Iterable[HandedTotal]) -> list[dict[str, Any]]:
    return [{**picked(total, "kind times tokens opened"), "unasked": total.kind == BRIEF} for total in totals]
