"""What laptops ask of a team's server, beside MCP: JSON under /team/. The guard before it has told who asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from mcp_memory import __version__
from mcp_memory.errors import MemoryFault, NotAllowed, NotFound, StoreError, TooLarge, UsageError
from mcp_memory.surfaces.team.asking_routes import ask
from mcp_memory.surfaces.team.identity import current
from mcp_memory.surfaces.team.incoming import push, withdraw

if TYPE_CHECKING:
    from mcp_memory.surfaces.team.serving import TeamMemory

Handler = Callable[["TeamMemory", Request], Awaitable[Mapping[str, Any]]]
_STATUS: dict[type[MemoryFault], int] = {
    NotAllowed: 403,
    NotFound: 404,
    TooLarge: 413,
    UsageError: 400,
    StoreError: 503,
}


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
            {"slug": one.slug, "remote": one.remote, "root": one.root, "open": not one.members} for one in projects
        ],
    }


#: By method and path; each answers with a JSON object.
HANDLERS: dict[tuple[str, str], Handler] = {
    ("GET", "/team/me"): me,
    ("POST", "/team/push"): push,
    ("POST", "/team/withdraw"): withdraw,
    ("POST", "/team/ask"): ask,
}


def table(memory: TeamMemory) -> list[BaseRoute]:
    async def answer(handler: Handler, request: Request) -> Response:
        return JSONResponse(await handler(memory, request))

    return [Route(path, partial(answer, handler), methods=[method]) for (method, path), handler in HANDLERS.items()]


async def _fault(request: Request, error: Exception) -> Response:
    status = next((number for kind, number in _STATUS.items() if isinstance(error, kind)), 500)
    return JSONResponse({"error": str(error)}, status, {"retry-after": "5"} if status == 503 else None)


async def _other(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


#: What is answered where a handler fails.
TROUBLE: dict[Any, Any] = {MemoryFault: _fault, HTTPException: _other}
