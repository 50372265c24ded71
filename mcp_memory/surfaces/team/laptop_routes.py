"""What laptops ask of a team's server, beside MCP: JSON under /team/. The guard before it has told who asks.

Of what a laptop pushes, nothing it says of itself is believed: author and visibility follow from the token, and each
text goes through redaction and clipping once more, so that a secret that an older version let through ends here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from mcp_memory import __version__
from mcp_memory.domain.events import TEAM, Captured, Event, Intake, parse_ulid, ulid
from mcp_memory.domain.projects import PlaceName
from mcp_memory.errors import (
    BadId,
    MemoryFault,
    NotAllowed,
    NotFound,
    StoreError,
    StoreRejected,
    TooLarge,
    TooMany,
    UsageError,
)
from mcp_memory.pipeline.ingest import Intaker, by_session
from mcp_memory.surfaces.team.asking_routes import ask
from mcp_memory.surfaces.team.identity import current
from mcp_memory.surfaces.team.incoming import MAX_LINES, Portion, is_packed, object_of, portion_of, received, unpacked

if TYPE_CHECKING:
    from mcp_memory.store.team_port import TeamStore
    from mcp_memory.surfaces.team.serving import TeamMemory

logger = logging.getLogger(__name__)
Handler = Callable[["TeamMemory", Request], Awaitable[Mapping[str, Any]]]
_STATUS: dict[type[MemoryFault], int] = {
    TooMany: 429,
    NotAllowed: 403,
    NotFound: 404,
    TooLarge: 413,
    UsageError: 400,
    StoreRejected: 400,
    StoreError: 503,
}

#: Ids to withdraw take thirty bytes each.
MAX_WISH_BYTES = 1_000_000
#: Halving 500 events down to eight bad ones takes about 100 writes.
_MAX_TRIES = 100
#: The maximum number of projects sent to a laptop, which looks for its own among them.
_MAX_NAMED = 5_000


async def me(memory: TeamMemory, request: Request) -> Mapping[str, Any]:
    """Who the token says one is, and which projects there are for that member."""
    viewer, store = current(), await memory.register()
    readable = set(await store.seen_by(viewer).slugs())
    projects = [project for project in await store.team_projects() if project.slug in readable]
    return {
        "name": viewer.name,
        "role": viewer.role,
        "server": (await store.identity())[0],
        "version": __version__,
        "projects": [
            {"slug": one.slug, "remote": one.remote, "root": one.root, "open": not one.members}
            for one in projects[:_MAX_NAMED]
        ],
    }


async def push(memory: TeamMemory, request: Request) -> Mapping[str, Any]:
    """Take events of a member's into the team's memory. Doing it again changes nothing."""
    viewer = current()
    viewer.must_write()
    async with memory.turns.of(viewer.name):
        body = await received(request)
        app, store = await memory.whole(), await memory.register()
        async with memory.taking_in:
            if is_packed(request):
                body = await to_thread.run_sync(unpacked, body)
            portion = await to_thread.run_sync(portion_of, body, _now_ms())
            del body
            taken = await _take(store, app.intaker, portion, viewer.name)
    if taken.new:
        app.pipeline.wake.set()
    project = await store.project_of_root(*taken.places.pop()) if len(taken.places) == 1 else None
    _count(request, taken.new, project or "")
    return {"new": taken.new, "known": taken.known, "refused": portion.refused}


@dataclass(slots=True)
class _Taken:
    """What was stored of a push: new events, known ones, and the places of their projects."""

    new: int = 0
    known: int = 0
    places: set[PlaceName] = field(default_factory=set)


async def _take(store: TeamStore, intaker: Intaker, portion: Portion, author: str) -> _Taken:
    """Store the events of a portion. Those at which the store fails are found by halving, and refused.

    If it fails at every event in a way that no one foresaw, the fault is the server's own and is raised.
    """
    taken, faults, tries = _Taken(), list[tuple[Captured, Exception]](), 0
    parts = [portion.captured] if portion.captured else []
    while parts:
        part, tries = parts.pop(), tries + 1
        try:
            events = await to_thread.run_sync(_prepared, intaker, part)
            intakes = _intakes(events, part, author)
            result = await store.receive(intakes)
        except Exception as error:
            if not _is_about_events(error):
                raise
            if tries > _MAX_TRIES:
                raise TooLarge("Many events of this push cannot be stored: send it in smaller portions.") from error
            middle = len(part) // 2
            if middle:
                parts += [part[middle:], part[:middle]]
            else:
                faults.append((part[0], error))
            continue
        taken.new, taken.known = taken.new + result.new, taken.known + result.known
        taken.places |= {(intake.root, intake.label, intake.remote) for intake in intakes}
        ids = {event.key: event.event_id for event in events}
        for key, reason in result.refused.items():
            portion.refuse(ids[key], reason)
    unforeseen = [fault for _, fault in faults if not isinstance(fault, MemoryFault)]
    if unforeseen and len(faults) == len(portion.captured):
        raise unforeseen[0]
    for item, fault in faults:
        logger.warning("An event that %s pushed cannot be stored (%s)", author, type(fault).__name__)
        reason = str(fault) if isinstance(fault, UsageError) else "the server cannot store it; its log says why"
        portion.refuse(ulid(item.timestamp_ms, item.key), reason)
    return taken


def _is_about_events(error: Exception) -> bool:
    """Whether the rest may be stored without the event at which the store failed."""
    if isinstance(error, MemoryFault):
        return isinstance(error, UsageError | StoreRejected) and not isinstance(error, TooLarge)
    return True


async def withdraw(memory: TeamMemory, request: Request) -> Mapping[str, Any]:
    """Take a member's own events out of the team's memory, for good if they are to be forgotten."""
    viewer = current()
    viewer.must_write()
    async with memory.turns.of(viewer.name):
        keys, forget = _wish(await received(request, MAX_WISH_BYTES))
        found = await (await memory.register()).forget_events(keys, viewer.name, returning=not forget)
    if found.events:
        (await memory.whole()).pipeline.wake.set()
    _count(request, found.events)
    return {"events": found.events}


def _count(request: Request, many: int, project: str = "") -> None:
    """Let the audit tell how many it were."""
    request.scope["team_audit"] = (project, many)


def _prepared(intaker: Intaker, captured: Sequence[Captured]) -> list[Event]:
    return [replace(event, visibility=TEAM) for event in intaker.prepare(captured)]


def _intakes(events: Sequence[Event], captured: Sequence[Captured], author: str) -> list[Intake]:
    """By session; a repository is known by its remote whatever it is called on a laptop, and else by that name."""
    placed = by_session(events, lambda index: ("", captured[index].project, captured[index].remote))
    return [replace(intake, author=author) for intake in placed]


def _wish(body: bytes) -> tuple[list[bytes], bool]:
    value = object_of(body)
    names, forget = value.get("event_ids"), value.get("forget")
    if not isinstance(names, list) or not isinstance(forget, bool):
        raise UsageError('What is to be withdrawn is told as {"event_ids": [ID…], "forget": true or false}.')
    if len(names) > MAX_LINES:
        raise TooLarge(f"At most {MAX_LINES:,} events are withdrawn at once: send them in smaller portions.")
    try:
        return [parse_ulid(str(name))[1] for name in names], forget
    except BadId as error:
        raise UsageError(f"event_ids: {error}") from None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


#: By method and path; each answers with a JSON object.
HANDLERS: dict[tuple[str, str], Handler] = {
    ("GET", "/team/me"): me,
    ("POST", "/team/push"): push,
    ("POST", "/team/withdraw"): withdraw,
    ("POST", "/team/ask"): ask,
}


def table(memory: TeamMemory) -> list[BaseRoute]:
    async def answer(handler: Handler, request: Request) -> Response:
        try:
            # Read first: what is erased while the question is answered changes the mark of the next answer.
            mark = await (await memory.register()).erasure_mark(current().name)
            return JSONResponse({**await handler(memory, request), "erasure": mark})
        except MemoryFault as error:
            status = next((number for kind, number in _STATUS.items() if isinstance(error, kind)), 500)
            wait = {"retry-after": "5"} if status in (429, 503) else None
            return JSONResponse({"error": memory.excuse(error)}, status, wait)
        except Exception:
            logger.exception("%s failed", request.url.path)
            return JSONResponse({"error": "The server failed to answer this; its log says why."}, 500)

    return [Route(path, partial(answer, handler), methods=[method]) for (method, path), handler in HANDLERS.items()]


async def _other(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


#: What is answered where there is no handler.
TROUBLE: dict[Any, Any] = {HTTPException: _other}
