"""Who may look: a browser that came once by the printed link, and has had a cookie since.

The link holds a code that counts once and for a few minutes, never the token. The cookie is signed with the token, so
it outlives the server and dies with the token. Forms carry a sign of their own, made from the cookie, and are taken
from our own pages alone.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from mcp_memory.errors import UsageError

#: Where the printed link leads, and what anyone may load who reaches the server: it holds nothing of the memory.
ENTRANCE, STATIC = "/enter", "/static/"
_LINK_SECONDS = 15 * 60
COOKIE_SECONDS = 30 * 24 * 3600
_SAFE = ("GET", "HEAD")
#: A number of seconds that is longer was not written by us, and may be too long to be read.
_DIGITS = 13


class Unsigned(UsageError):
    """A form that no page of ours has shown to this browser."""


class Access:
    """Makes and knows codes, cookies and the signs of forms."""

    def __init__(self, token: str, clock: Callable[[], float] = time.time) -> None:
        self._token = token.encode()
        self._clock = clock
        self._codes: dict[str, float] = {}
        #: Of the cookie. A browser sends it to every port of this machine, so that each memory has a name of its own.
        self.name = f"mcp_memory_{self._sign('name', '')[:8]}"

    def code(self) -> str:
        """A new code for a link."""
        now = self._clock()
        self._codes = {code: until for code, until in self._codes.items() if until > now}
        code = secrets.token_urlsafe(24)
        self._codes[code] = now + _LINK_SECONDS
        return code

    def redeem(self, code: str) -> bool:
        """Whether a code or the token itself lets someone in. A code does so once."""
        until = self._codes.pop(code, 0.0)
        return until > self._clock() or hmac.compare_digest(code.encode(), self._token)

    def cookie(self) -> str:
        until = str(int(self._clock()) + COOKIE_SECONDS)
        return f"{until}.{self._sign('cookie', until)}"

    def admits(self, scope: Scope) -> bool:
        """Whether a request comes from a page of ours, or was typed, and has our cookie; or needs none."""
        headers = Headers(scope=scope)
        if scope["path"] == ENTRANCE or scope["path"].startswith(STATIC):
            return True
        if not self.is_own(scope["method"], headers):
            return False
        until, _, sign = self.held(headers).partition(".")
        known = until.isdecimal() and len(until) < _DIGITS and int(until) > self._clock()
        return known and hmac.compare_digest(sign.encode(), self._sign("cookie", until).encode())

    @staticmethod
    def is_own(method: str, headers: Headers) -> bool:
        """Cookies are sent to every port of a host, so a page of another port is no page of ours."""
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            # A link on another page may lead here, as long as it only looks.
            return method in _SAFE and headers.get("sec-fetch-mode") == "navigate"
        origin = headers.get("origin")
        return method in _SAFE if origin is None else urlsplit(origin).netloc == headers.get("host")

    @staticmethod
    def came_from_elsewhere(scope: Scope) -> bool:
        """Whether someone followed a link on a page that is not ours: no cookie comes along, whoever has one."""
        headers = Headers(scope=scope)
        is_link = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        return is_link and headers.get("sec-fetch-site") in ("cross-site", "same-site")

    def held(self, headers: Headers) -> str:
        return cookie_parser(headers.get("cookie", "")).get(self.name, "")

    def form_sign(self, headers: Headers) -> str:
        """What every form of a page holds, and no other page can know."""
        return self._sign("form", self.held(headers))

    def signed(self, headers: Headers, sign: str) -> bool:
        return hmac.compare_digest(sign.encode(), self.form_sign(headers).encode())

    def _sign(self, what: str, text: str) -> str:
        return hmac.new(self._token, f"{what}:{text}".encode(), "sha256").hexdigest()
