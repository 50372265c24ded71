"""The viewer on a team's server: each page as the member who asks may see the memory, or what of it one person said.

A browser gets in with a token, once, in a form; then it has a cookie, which dies with the token.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import asdict
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from mcp_memory.app import App
from mcp_memory.errors import NotFound
from mcp_memory.navigate.browse import ALL
from mcp_memory.surfaces.team.identity import current
from mcp_memory.surfaces.web.access import ENTRANCE, Access
from mcp_memory.surfaces.web.forms import LOGIN_BYTES, read_form
from mcp_memory.surfaces.web.routes import HEADERS, Site, environment
from mcp_memory.surfaces.web.views import Data
from mcp_memory.surfaces.web.writes import fields

if TYPE_CHECKING:
    from mcp_memory.surfaces.team.serving import TeamMemory

#: In the scope of a request: the name of the member who has just logged in.
LOGGED_IN = "mcp_memory.logged_in"
#: How long a browser stays logged in, and how many rows of the audit are shown.
_SESSION_SECONDS, _ROWS = 12 * 3600, 200


class Door(Access):
    """Knows the cookies of the team's browsers, and the signs of their forms."""

    def __init__(self) -> None:
        super().__init__(secrets.token_urlsafe(32))
        self.name = "mcp_memory_team"

    def session_of(self, scope: Scope) -> str:
        """What a browser holds that shows a page of ours, or that was told the address; else nothing."""
        headers = Headers(scope=scope)
        return self.held(headers) if self.is_own(scope["method"], headers) else ""

    def form_sign(self, headers: Headers) -> str:
        return hmac.new(self.held(headers).encode(), b"form", "sha256").hexdigest()

    def signed(self, headers: Headers, sign: str) -> bool:
        return bool(self.held(headers)) and super().signed(headers, sign)


class TeamSite(Site):
    """The pages of a team's memory."""

    def __init__(self, memory: TeamMemory, door: Door) -> None:
        super().__init__(memory, door)
        self._team = memory

    async def app(self, request: Request) -> App:
        """As the member may see it; of a person that is named, what it said."""
        app, person = await self._team.app(), request.query_params.get("person", "")
        return app.seen_by(current(), person) if person else app

    async def around(self, app: App, request: Request) -> Data:
        asked = request.query_params.get("person", "")
        people = {*await (await self._team.app()).store.people(), asked} - {""}
        return {"viewer": app.viewer, "people": sorted(people), "asked_person": asked}

    async def pulse(self, app: App) -> Data:
        """Nothing: what a member may see would have to be counted anew, and how the server does is not told here."""
        return {"status": {}, "health": None}

    async def health(self, request: Request) -> Response:
        raise NotFound("How the server does is told on the server itself, by `mcp-memory doctor`.")

    async def recalled(self, request: Request) -> Response:
        """Who asked what of the team's memory: to a member its own questions, to an admin everyone's."""
        viewer, store = current(), await self._team.register()
        whose = request.query_params.get("person") or None if viewer.manages else viewer.name
        # What is asked for may be a project that the one who looks does not know to be there.
        readable = {"", ALL, *await store.seen_by(viewer).slugs()}
        rows = [
            asdict(row) | {"project": row.project if row.project in readable else ""}
            for row in await store.audit(whose, _ROWS)
        ]
        return await self.page(request, "asked.html", {"title": "Asked", "rows": rows, "most": _ROWS})

    async def enter(self, request: Request) -> Response:
        """The form, or what it is answered: a cookie for a token that is a member's."""
        if request.method != "POST":
            return door_page()
        if not self.access.is_own("POST", request.headers):
            return door_page("Log in on this page itself.")
        try:
            form = await read_form(request, LOGIN_BYTES)
        except HTTPException:
            return door_page("This is no token.")
        token = form.get("token", "").strip()
        store, now_ms = await self._team.register(), self._team.now_ms()
        viewer = await store.viewer_of(token, now_ms) if token else None
        if viewer is None:
            return door_page("This is no one's token: it may have expired, or been revoked.")
        request.scope[LOGGED_IN] = viewer.name
        session = await store.open_session(token, now_ms, now_ms + _SESSION_SECONDS * 1000)
        answer = RedirectResponse("/", 303, HEADERS)
        secure = request.url.scheme == "https"
        answer.set_cookie(self.access.name, session, _SESSION_SECONDS, httponly=True, samesite="strict", secure=secure)
        return answer

    async def leave(self, request: Request) -> Response:
        await fields(self, request)
        await (await self._team.register()).close_session(self.access.held(request.headers))
        answer = door_page("This browser is logged out.")
        answer.delete_cookie(self.access.name)
        return answer


def door_page(told: str = "") -> Response:
    """The page that asks for a token."""
    page = environment().get_template("team_door.html").render(told=told, entrance=ENTRANCE, onward="")
    return HTMLResponse(page, 401, {**HEADERS, "www-authenticate": "Bearer"})
