"""How a browser gets in: with a token, once, in a form; then it has a cookie, which dies with the token."""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from mcp_memory.surfaces.web.access import ENTRANCE, Access
from mcp_memory.surfaces.web.routes import HEADERS, environment

if TYPE_CHECKING:
    from mcp_memory.surfaces.team.serving import TeamMemory

#: How long a browser stays logged in.
_SESSION_SECONDS = 12 * 3600


class Door(Access):
    """Knows the cookies of the team's browsers, and the signs of their forms."""

    def __init__(self, memory: TeamMemory) -> None:
        super().__init__(secrets.token_urlsafe(32))
        self.name = "mcp_memory_team"
        self._memory = memory

    def session_of(self, scope: Scope) -> str:
        """What a browser holds that shows a page of ours, or that was told the address; else nothing."""
        headers = Headers(scope=scope)
        return self.held(headers) if self.is_own(scope["method"], headers) else ""

    def form_sign(self, headers: Headers) -> str:
        return hmac.new(self.held(headers).encode(), b"form", "sha256").hexdigest()

    def signed(self, headers: Headers, sign: str) -> bool:
        return bool(self.held(headers)) and super().signed(headers, sign)

    async def enter(self, request: Request) -> Response:
        """The form, or what it is answered: a cookie for a token that is a member's."""
        if request.method != "POST":
            return door_page()
        if not self.is_own("POST", request.headers):
            return door_page("Log in on this page itself.")
        token = str((await request.form(max_files=0, max_fields=5)).get("token", "")).strip()
        store, now_ms = await self._memory.register(), self._memory.now_ms()
        if not token or await store.viewer_of(token, now_ms) is None:
            return door_page("This is no one's token: it may have expired, or been revoked.")
        session = await store.open_session(token, now_ms, now_ms + _SESSION_SECONDS * 1000)
        answer = RedirectResponse("/", 303, HEADERS)
        secure = request.url.scheme == "https"
        answer.set_cookie(self.name, session, _SESSION_SECONDS, httponly=True, samesite="strict", secure=secure)
        return answer

    async def leave(self, request: Request) -> Response:
        await (await self._memory.register()).close_session(self.held(request.headers))
        answer = door_page("This browser is logged out.")
        answer.delete_cookie(self.name)
        return answer


def door_page(told: str = "") -> Response:
    """The page that asks for a token."""
    page = environment().get_template("team_door.html").render(told=told, entrance=ENTRANCE)
    return HTMLResponse(page, 401, {**HEADERS, "www-authenticate": "Bearer"})
