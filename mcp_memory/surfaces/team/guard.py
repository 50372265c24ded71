"""The one guard before all routes of a team's server: token, rate, role; and the note of who asked.

A token is looked up for every request, and again while one lasts when someone's access has changed, of which the
database tells: a stream of who was revoked ends within a second.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.routes import build_resource_metadata_url
from mcp.shared.auth import ProtectedResourceMetadata
from pydantic import AnyHttpUrl
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_memory.domain.people import AuditRow, Viewer
from mcp_memory.errors import MemoryFault
from mcp_memory.surfaces.http import PATH, Welcome, headers_of, refuse
from mcp_memory.surfaces.team.connections import note_authenticated
from mcp_memory.surfaces.team.identity import asking
from mcp_memory.surfaces.team.limits import OpenLimit, RateLimit
from mcp_memory.surfaces.team.pages import LOGGED_IN, Door, door_page
from mcp_memory.surfaces.web.access import ENTRANCE, STATIC
from mcp_memory.surfaces.web.routes import once_more

if TYPE_CHECKING:
    from mcp_memory.store.team_port import TeamStore
    from mcp_memory.surfaces.team.audit import Audit
    from mcp_memory.surfaces.team.serving import TeamMemory

LookUp = Callable[["TeamStore", int], Awaitable[Viewer | None]]
#: Where the protocol's clients learn how this server wants to be asked; it needs no token.
METADATA = "/.well-known/oauth-protected-resource"
#: How often it is looked while a request lasts whether its token has expired or someone's access has changed.
LOOK_SECONDS = 0.5
#: How many checks without a notification pass before the database is asked anyway.
_SURE_LOOKS = 20
#: How long what was looked up is believed unless a change is heard of, and of how many tokens.
BELIEVED_SECONDS, _MAX_KNOWN = 1.0, 10_000
#: So many failed logins of an address at once, and so many a second after that.
FAILURES = (10, 1 / 6)
#: What is asked here is noted where it is answered, by the tool's name.
_NOTED_THERE = (PATH, "/team/ask")
#: What is answered by a stream that has no end, and when to try again where a member has too many of them.
_STREAMS, _STREAM_SECONDS = (PATH, "/live/stream"), 30
#: What of an address is told of a request.
_KIND = re.compile(r"/(team/)?\w{0,20}")
#: Before a browser's session, where a token stands.
_BROWSER = "browser "


class Verifier(TokenVerifier):
    """Implements the SDK's TokenVerifier. An answer is believed for a second, or until someone's access changes."""

    def __init__(self, memory: TeamMemory, clock: Callable[[], float] = time.monotonic) -> None:
        self._memory, self._clock = memory, clock
        #: By token or session: whose it is, and until when that is believed.
        self._known: dict[str, tuple[AccessToken, float]] = {}
        self._version = 0

    async def verify_token(self, token: str) -> AccessToken | None:
        if token.startswith(_BROWSER):  # so would a browser's session be named, which opens pages alone
            return None
        return await self._verify(token, lambda store, now_ms: store.viewer_of(token, now_ms))

    async def verify_session(self, session: str) -> AccessToken | None:
        if not session:
            return None
        return await self._verify(_BROWSER + session, lambda store, now_ms: store.viewer_of_session(session, now_ms))

    async def _verify(self, name: str, look_up: LookUp) -> AccessToken | None:
        store = await self._memory.register()
        version, now_ms = store.access_version(), self._memory.now_ms()
        if version != self._version or len(self._known) > _MAX_KNOWN:
            self._known.clear()
            self._version = version
        found, until = self._known.get(name, (None, 0.0))
        if found is not None and self._clock() < until and not self.has_expired(found):
            return found
        viewer = await look_up(store, now_ms)
        access = _access(name, viewer) if viewer else None
        if access is None:
            self._known.pop(name, None)
        elif store.access_version() == version:  # else it may be from before the change
            self._known[name] = access, self._clock() + BELIEVED_SECONDS
        return access

    def excuse(self, error: MemoryFault) -> str:
        return self._memory.excuse(error)

    def has_expired(self, access: AccessToken) -> bool:
        return access.expires_at is not None and access.expires_at * 1000 <= self._memory.now_ms()

    async def access_version(self) -> int:
        return (await self._memory.register()).access_version()

    async def lives(self, access: AccessToken) -> bool:
        """Whether the token or session is still that of the same member in the same role."""
        is_browser = access.token.startswith(_BROWSER)
        verify = self.verify_session if is_browser else self.verify_token
        return await verify(access.token.removeprefix(_BROWSER)) == access


def _access(token: str, viewer: Viewer) -> AccessToken:
    expires = math.ceil(viewer.expires_ms / 1000)
    return AccessToken(
        token=token, client_id=viewer.name, subject=viewer.name, scopes=[viewer.role], expires_at=expires
    )


@dataclass(slots=True)
class TeamGuard:
    """Lets a request pass that was meant for this server and whose token is a member's."""

    app: ASGIApp
    verifier: Verifier
    door: Door
    audit: Audit
    welcome: Welcome
    rate: RateLimit
    failures: RateLimit
    streams: OpenLimit
    behind_proxy: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.behind_proxy and Headers(scope=scope).get("x-forwarded-proto", "") == "https":
            scope["scheme"] = "https"
        try:
            answer = await self._admit(scope)
        except MemoryFault as error:
            answer = refuse(503, self.verifier.excuse(error), {"retry-after": "5"})
        if isinstance(answer, Response):
            await answer(scope, receive, send)
        elif answer is None:
            await self._open(scope, receive, send)
        else:
            scope["user"] = AuthenticatedUser(answer)
            note_authenticated(scope)
            status = await self._serve_member(scope, receive, send, answer)
            if scope["path"] not in _NOTED_THERE:
                self._note(scope, answer.client_id, status)

    async def _serve_member(self, scope: Scope, receive: Receive, send: Send, access: AccessToken) -> int:
        """Serve a member's request, unless it is one stream too many; the status that it was answered with."""
        if scope["method"] != "GET" or scope["path"] not in _STREAMS:
            return await self._watched(scope, receive, send, access)
        with self.streams.one(access.client_id) as is_free:
            if is_free:
                return await self._watched(scope, receive, send, access)
        refusal = _later(_STREAM_SECONDS, f"You have {self.streams.most} streams open.")
        await refusal(scope, receive, send)
        return refusal.status_code

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What needs no token: files that hold nothing of memory, and the form that asks for one."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and scope["method"] == "POST":
                if message["status"] == 401:
                    self._failed(scope, self._address(scope))
                elif LOGGED_IN in scope:
                    self._note(scope, scope[LOGGED_IN], message["status"])
            await send(message)

        await self.app(scope, receive, sent)

    async def _admit(self, scope: Scope) -> Response | AccessToken | None:
        """Whose request it is, or what it is answered that goes no further; None: it is no one's, and may be."""
        path, headers = scope["path"], Headers(scope=scope)
        if refusal := self.welcome.check(scope):
            return refusal
        if path.startswith(METADATA):
            return (
                self._metadata(scope) if path in (METADATA, METADATA + PATH) else refuse(404, "There is no such page.")
            )
        if path.startswith(STATIC):
            return None
        address = self._address(scope)
        # Many laptops may have one address, as behind a router: who has a token that lives is not kept out with others.
        access = await self._access_of(scope, headers) if path != ENTRANCE else None
        if access is None and (wait := self.failures.wait(address)):
            return _later(wait, "Too many tokens came from your address that are no one's.")
        if path == ENTRANCE:
            return None
        if access is None:
            if headers.get("authorization") or self.door.held(headers):
                self._failed(scope, address)
            if path != PATH and not path.startswith("/team/") and "text/html" in headers.get("accept", ""):
                return once_more(scope) if self.door.came_from_elsewhere(scope) else door_page()
            return self._stranger(scope)
        if wait := self.rate.take(access.client_id):
            return _later(wait, "You ask too often.")
        return access

    async def _access_of(self, scope: Scope, headers: Headers) -> AccessToken | None:
        """By the token that is sent; of a browser by its cookie, which is for pages alone."""
        if headers.get("authorization"):
            found = await BearerAuthBackend(self.verifier).authenticate(HTTPConnection(scope))
            return found[1].access_token if found else None
        if scope["path"] == PATH or scope["path"].startswith("/team/"):
            return None
        return await self.verifier.verify_session(self.door.session_of(scope))

    def _failed(self, scope: Scope, address: str) -> None:
        self.failures.take(address)
        self._note(scope, "", 401)

    def _note(self, scope: Scope, name: str, status: int) -> None:
        outcome = "ok" if status < 400 else "refused" if status < 500 else "failed"
        project, many = scope.get("team_audit", ("", 0))
        # Of a page its kind: what follows may be a session's name, or anything.
        kind = _KIND.match(scope["path"])
        told = f"{scope['method']} {kind[0] if kind else '?'}"
        self.audit.note(AuditRow(_now_ms(), name, told, project, many, outcome))

    def _address(self, scope: Scope) -> str:
        """Where a request comes from. Behind a proxy its own last word counts; what a client claims before does not."""
        told = headers_of(scope, b"x-forwarded-for") if self.behind_proxy else []
        return told[-1].rpartition(",")[2].strip() if told else (scope.get("client") or ("",))[0]

    def _base(self, scope: Scope) -> str:
        return f"{scope['scheme']}://{Headers(scope=scope)['host']}"

    def _metadata(self, scope: Scope) -> Response:
        """What RFC 9728 wants to be told. Tokens come from an admin of the team, so the server names itself."""
        base = self._base(scope)
        told = ProtectedResourceMetadata(
            resource=AnyHttpUrl(base + PATH),
            authorization_servers=[AnyHttpUrl(base)],
            resource_name="The memory of a team",
        )
        return JSONResponse(told.model_dump(mode="json", exclude_none=True), headers={"cache-control": "no-store"})

    def _stranger(self, scope: Scope) -> Response:
        where = build_resource_metadata_url(AnyHttpUrl(self._base(scope) + PATH))
        told = "Send `Authorization: Bearer TOKEN` with a token of yours that lives; an admin of the team makes one."
        challenge = f'Bearer error="invalid_token", error_description="no living token", resource_metadata="{where}"'
        return refuse(401, told, {"www-authenticate": challenge})

    async def _watched(self, scope: Scope, receive: Receive, send: Send, access: AccessToken) -> int:
        """Serve a request for as long as its token lives; the status that it was answered with."""
        status, begun, dead = 500, False, False

        async def sent(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
            await send(message)

        async def look() -> None:
            nonlocal dead
            seen, looks = None, 0
            while not dead:
                await anyio.sleep(LOOK_SECONDS)
                looks += 1
                try:
                    version = await self.verifier.access_version()
                    if version != seen or self.verifier.has_expired(access) or looks % _SURE_LOOKS == 0:
                        dead, seen = not await self.verifier.lives(access), version
                except MemoryFault:
                    continue  # no one can be looked up just now, and nothing be read either
            tasks.cancel_scope.cancel()

        with asking(viewer_of(access)):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(look, name="a token's life")
                await AuthContextMiddleware(self.app)(scope, receive, sent)
                tasks.cancel_scope.cancel()
        if dead:
            status = 401
            if begun:
                await send({"type": "http.response.body", "body": b""})
            else:
                await self._stranger(scope)(scope, receive, send)
        return status


def viewer_of(access: AccessToken) -> Viewer:
    return Viewer(access.client_id, access.scopes[0])


def _later(seconds: float, why: str) -> Response:
    wait = max(1, math.ceil(seconds))
    return refuse(429, f"{why} Come back in {wait} s.", {"retry-after": str(wait)})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
