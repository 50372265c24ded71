"""Who may look: a browser that came once by a link, and has had a session since.

The link holds a code that counts once and for a few minutes, never the token. The session is kept by the server, which
ends it when its browser logs out or stays away. Forms carry a signature of their own, made from the session, and are
taken from our own pages alone.
"""

from __future__ import annotations

import hmac
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from mcp_memory.capture.settings import private_dir
from mcp_memory.errors import StoreFull, UsageError

#: Where the printed link leads, and what anyone may load who reaches the server: it holds nothing of the memory.
ENTRANCE, STATIC = "/enter", "/static/"
LINK_SECONDS = 15 * 60
#: A session ends when its browser has not come for so long,
IDLE_SECONDS = 3 * 24 * 3600
#: and in any case after this time, which is also how long the browser keeps its cookie.
COOKIE_SECONDS = 30 * 24 * 3600
#: A session is renewed at most once in this time, so that most requests write nothing.
_RENEWAL_SECONDS = 3600
_SAFE = ("GET", "HEAD")


class Unsigned(UsageError):
    """A form that no page of ours has shown to this browser."""


class Access:
    """Reads the cookies of browsers and signs their forms."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        #: Of the cookie. Each memory has a name of its own, so that one browser may look at several.
        self.name = f"mcp_memory_{self._sign('name', '')[:8]}"

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


class LocalAccess(Access):
    """Lets the browsers of this machine's user in, by codes for links and by sessions."""

    def __init__(self, token: str, sessions: SessionFiles, clock: Callable[[], float] = time.time) -> None:
        super().__init__(token)
        self._sessions = sessions
        self._clock = clock
        self._codes: dict[str, tuple[float, Callable[[], None]]] = {}

    def code(self, on_use: Callable[[], None] = lambda: None) -> str:
        """Make a new code for a link."""
        now = self._clock()
        self._codes = {code: row for code, row in self._codes.items() if row[0] > now}
        code = secrets.token_urlsafe(24)
        self._codes[code] = now + LINK_SECONDS, on_use
        return code

    def redeem(self, code: str) -> bool:
        """Whether a code or the token itself lets someone in. A code does so once."""
        until, on_use = self._codes.pop(code, (0.0, None))
        if on_use:
            on_use()
        return until > self._clock() or hmac.compare_digest(code.encode(), self._token)

    def open_session(self) -> str:
        """Log a browser in; return what its cookie holds."""
        now = self._clock()
        self._sessions.drop_before(now)
        session = f"{int(now)}.{secrets.token_urlsafe(32)}"
        self._sessions.open(self._key(session), now + IDLE_SECONDS)
        return session

    def has_session(self, headers: Headers) -> bool:
        """Whether the browser is logged in; if so, it stays so for longer."""
        session, now = self.held(headers), self._clock()
        key = self._key(session)
        until = self._sessions.until(key) if session else 0.0
        # Only what we wrote into a cookie has such a key, so that it begins with a number.
        if until <= now or now > int(session.partition(".")[0]) + COOKIE_SECONDS:
            return False
        if until < now + IDLE_SECONDS - _RENEWAL_SECONDS:
            self._sessions.extend(key, now + IDLE_SECONDS)
        return True

    def close_session(self, headers: Headers) -> None:
        self._sessions.close(self._key(self.held(headers)))

    def admits(self, scope: Scope) -> bool:
        """Whether a request comes from a page of ours, or was typed, and has a session; or needs none."""
        headers = Headers(scope=scope)
        if scope["path"] == ENTRANCE or scope["path"].startswith(STATIC):
            return True
        return self.is_own(scope["method"], headers) and self.has_session(headers)

    def _key(self, session: str) -> str:
        """What is kept of a session: the server's files let nobody in, and with another token all sessions end."""
        return self._sign("session", session)


class SessionFiles:
    """Until when each session lasts: an empty file for each, named by its key, whose modification time tells.

    All servers of a memory share them, a restart keeps them, and each change is a single step.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, key: str, until: float) -> None:
        path = self._folder / key
        try:
            private_dir(str(self._folder))
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            os.utime(path, (until, until))
        except OSError as error:
            raise StoreFull(f"No browser can be logged in: {path} cannot be written ({error.strerror}).") from error

    def until(self, key: str) -> float:
        try:
            return (self._folder / key).stat().st_mtime
        except OSError:
            return 0.0

    def extend(self, key: str, until: float) -> None:
        with suppress(OSError):  # of a session that was closed meanwhile, or in a directory that is read-only
            os.utime(self._folder / key, (until, until))

    def close(self, key: str) -> None:
        (self._folder / key).unlink(missing_ok=True)

    def drop_before(self, now: float) -> None:
        """Remove the sessions that have ended."""
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            if self.until(path.name) <= now:
                self.close(path.name)
