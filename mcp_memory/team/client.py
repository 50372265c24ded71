"""What a laptop asks of the team's server: JSON over HTTPS, with errors of our own that never hold the token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from anyio import Lock, to_thread

from mcp_memory import __version__
from mcp_memory.domain.text import one_line
from mcp_memory.errors import TeamDenied, TeamFailed, TeamFault, TeamRefused, TeamRejected, TeamUnreachable
from mcp_memory.team.account import TeamAccount, is_loopback

if TYPE_CHECKING:
    import httpx2

#: How long an answer is waited for that no one waits for.
PATIENCE_SECONDS = 30.0
#: No answer of a team's server is longer.
MOST_BYTES = 8_000_000
_SHOWN_CHARS, _MARK_CHARS = 300, 64
_OWN_AUTHORITY = (
    "If your team has an authority of its own, add it to those of this machine, or name its file in SSL_CERT_FILE."
)


class TeamClient:
    """Connections to the server of an account, kept open from one request to the next. Close it in the end."""

    def __init__(self, account: TeamAccount, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self.account = account
        self._transport = transport
        #: The server's mark of what was erased, as of the last answer; and who is told it, in a worker thread.
        self.erasure = ""
        self.heed_erasure: Callable[[str], None] = lambda mark: None
        self._http: httpx2.AsyncClient | None = None
        self._connecting = Lock()

    async def get(self, path: str, timeout: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """The JSON object that the server answers."""
        return await self._send("GET", path, None, {}, timeout)

    async def post(
        self, path: str, body: Mapping[str, Any] | bytes, timeout: float = PATIENCE_SECONDS, *, gzipped: bool = False
    ) -> dict[str, Any]:
        """The same, after sending a document or, as they are, bytes."""
        headers = {"Content-Encoding": "gzip"} if gzipped else {}
        headers["Content-Type"] = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self._send("POST", path, data, headers, timeout)

    async def close(self) -> None:
        if self._http:
            http, self._http = self._http, None
            await http.aclose()

    async def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> dict[str, Any]:
        """`timeout` bounds the whole of it, from looking up the name to the last byte."""
        library = await to_thread.run_sync(_library)
        async with self._connecting:  # two questions at once share one client, or one of two would stay open
            http = self._http
            if http is None:
                http = self._http = await to_thread.run_sync(self._connect)
        try:
            async with asyncio.timeout(timeout):
                async with http.stream(method, path, content=body, headers=headers) as response:
                    data = b""
                    async for part in response.aiter_bytes():
                        data += part
                        if len(data) > MOST_BYTES:
                            raise TeamFault(f"{self.account.url} sends more than any answer of a team's server.")
        except TimeoutError:
            raise TeamUnreachable(f"{self.account.url} did not answer within {timeout:g} s.") from None
        except (library.HTTPError, library.InvalidURL, OSError) as error:
            why = one_line(str(error), _SHOWN_CHARS) or type(error).__name__
            if "CERTIFICATE_VERIFY_FAILED" in why:
                why += f". {_OWN_AUTHORITY}"
            raise TeamUnreachable(f"{self.account.url} cannot be reached: {why}") from None
        try:
            answer = self._answer(response.status_code, response.headers, data)
        except TeamRefused:  # who may not read there any more keeps nothing that was read there
            await to_thread.run_sync(self.heed_erasure, "")
            raise
        self.erasure = str(answer.pop("erasure", ""))[:_MARK_CHARS]
        await to_thread.run_sync(self.heed_erasure, self.erasure)
        return answer

    def _connect(self) -> httpx2.AsyncClient:
        """A client that verifies TLS, by SSL_CERT_FILE or the system's authorities, and follows no redirect."""
        local = is_loopback(urlsplit(self.account.url).hostname or "")
        made: httpx2.AsyncClient = _library().AsyncClient(
            base_url=self.account.url,
            headers={
                "Authorization": f"Bearer {self.account.token}",
                "User-Agent": f"mcp-memory/{__version__}",
                "Accept": "application/json",
            },
            transport=self._transport,
            verify=_library().create_ssl_context(),
            trust_env=not local,  # no proxy leads to this machine
            follow_redirects=False,
            timeout=None,
        )
        return made

    def _answer(self, status: int, headers: Mapping[str, str], data: bytes) -> dict[str, Any]:
        try:
            told = json.loads(data)
        except (ValueError, RecursionError):
            told = None
        reason = one_line(str(told.get("error", "")), _SHOWN_CHARS) if isinstance(told, dict) else ""
        url = self.account.url
        if status == 401:
            raise TeamRefused(
                f"{url} does not accept the token: it is unknown, has expired or was revoked. "
                "An admin makes a new one; then `mcp-memory team join URL`."
            )
        if status == 403:
            raise TeamDenied(f"{url} does not allow it: {reason or 'your role may not do this'}")
        if status == 429 or status >= 500:
            wait = headers.get("retry-after", "")
            told_why = reason or f"it answers {status}"
            fault = TeamFailed if status == 500 else TeamUnreachable
            raise fault(f"{url} cannot do it now: {told_why}", float(wait) if wait.isdecimal() else None)
        if (
            status in (400, 422) and reason
        ) or status == 413:  # a proxy that finds it too large gives no reason of ours
            raise TeamRejected(f"{url} does not take it: {reason or 'it is too large'}")
        if status != 200 or not isinstance(told, dict):
            raise TeamFault(f"{url} answers {status}{f': {reason}' if reason else ', not as a team server does'}.")
        return told


def _library() -> Any:
    """Imported when it is first used, in a thread, since that takes a while."""
    import httpx2

    return httpx2
