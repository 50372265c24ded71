"""The viewer of this machine's user: its pages, and how a browser logs in and out.

A program's command line can be read by every user of the machine. So the browser is not started with the link that
logs it in, but with a file of the data directory that leads there.
"""

from __future__ import annotations

import html
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mcp_memory.capture.settings import private_dir
from mcp_memory.surfaces.server import Memory
from mcp_memory.surfaces.web.access import COOKIE_SECONDS, LINK_SECONDS, LocalAccess
from mcp_memory.surfaces.web.form_data import LOGIN_BYTES, read_form
from mcp_memory.surfaces.web.routes import Site, bare, closed_door
from mcp_memory.surfaces.web.writes import fields

_LOGIN_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={link}">
<title>mcp-memory</title>
</head>
<body><p><a href="{link}">Look at your memory</a></p></body>
</html>
"""


class LocalSite(Site):
    """The pages, for whoever has the link, the token or a session."""

    def __init__(self, memory: Memory, access: LocalAccess) -> None:
        super().__init__(memory, access)
        self._local = access

    async def enter(self, request: Request) -> Response:
        """Answer the printed link, or the form with the token: once, and the browser has a session."""
        given = request.query_params.get("code", "")
        if request.method == "POST":
            given = (await read_form(request, LOGIN_BYTES)).get("token", "").strip()
        if request.method == "HEAD":  # whoever only looks whether a link is alive does not use it up
            return closed_door()
        if not self._local.redeem(given):
            return closed_door("This link has been used, or is too old." if given else "")
        elsewhere = self.access.came_from_elsewhere(request.scope)
        response: Response = bare("", 200, onward="/") if elsewhere else RedirectResponse("/", 303)
        name, session, secure = self.access.name, self._local.open_session(), request.url.scheme == "https"
        response.set_cookie(name, session, COOKIE_SECONDS, httponly=True, samesite="strict", secure=secure)
        return response

    async def leave(self, request: Request) -> Response:
        await fields(self, request)
        self._local.close_session(request.headers)
        response = closed_door("This browser is logged out.")
        response.delete_cookie(self.access.name)
        return response

    def is_logged_out(self, request: Request) -> bool:
        return bool(self.access.held(request.headers)) and not self._local.has_session(request.headers)


def write_login_page(home: Path, link: str) -> Path:
    """Write a page that leads to the link, readable by its user alone. Its name tells nothing about the link."""
    private_dir(str(home))
    for old in home.glob("login-*.html"):  # of a server that was killed
        with suppress(OSError):
            if old.stat().st_mtime < time.time() - LINK_SECONDS:
                old.unlink()
    path = home / f"login-{secrets.token_hex(4)}.html"
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write(_LOGIN_PAGE.format(link=html.escape(link)))
    return path
