"""Streamable HTTP, for clients that do not start the server themselves.

One guard stands before all routes, and no connection takes more than its share: idle, slow and too many are closed.
uvicorn bounds the pause between two requests. It waits for ever for the first one, for the rest of a head or a body,
and for a reader that takes nothing; a few hundred such connections, which need no token, would keep everyone out.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import h11
import uvicorn
from anyio import to_thread
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mcp_memory import config
from mcp_memory.capture.settings import private_dir
from mcp_memory.config import Settings
from mcp_memory.errors import SettingsError, StoreFull, UsageError
from mcp_memory.surfaces.server import PATIENCE_SECONDS, SIGNALS, Greeting, Memory, build_server, exit_within
from mcp_memory.surfaces.web.access import ENTRANCE, LocalAccess, SessionFiles
from mcp_memory.surfaces.web.local import LocalSite, write_login_page
from mcp_memory.surfaces.web.routes import closed_door, once_more, url, viewer

Builder = Callable[[Memory], MCPServer[Any]]

PATH = "/mcp"
LOOPBACK = "127.0.0.1"
#: Set where the browser runs on another machine or system, which is led to 127.0.0.1 alone.
_FORWARDED = ("SSH_CONNECTION", "WSL_DISTRO_NAME", "CODESPACES", "REMOTE_CONTAINERS")
_GRACE_SECONDS = 1
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


class Welcome:
    """Whether a request was meant for this server and comes from no foreign page.

    The Host check keeps out a name that was made to point here, the Origin check keeps out other web pages.
    """

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._allow = frozenset(name.lower() for name in allow)

    def check(self, scope: Scope) -> Response | None:
        """What a request is answered that is not welcome."""
        hosts, origins = headers_of(scope, b"host"), headers_of(scope, b"origin")
        if len(hosts) != 1 or "@" in hosts[0] or not self._is_ours(f"//{hosts[0]}"):
            return refuse(421, "This server answers to loopback names only; start it with --allow-host NAME for more.")
        if not all(map(self._is_ours, origins)):
            return refuse(403, "Requests from other web pages are refused; leave the Origin header out.")
        return None

    def _is_ours(self, url: str) -> bool:
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            return False
        return is_loopback(host) or host in self._allow


class Guard:
    """Lets a request pass if it is welcome and knows the token."""

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        allow: Sequence[str] = (),
        access: LocalAccess | None = None,
        pages_at: str = "",
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._welcome = Welcome(allow)
        self._access = access
        #: The only host, with its port, at which browsers are logged in; empty for any.
        self._pages_at = pages_at

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "lifespan"):
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http" and (refusal := self.check(scope)):
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def check(self, scope: Scope) -> Response | None:
        """What a request is answered that goes no further; None if it does."""
        if refusal := self._welcome.check(scope):
            return refusal
        tokens = headers_of(scope, b"authorization")
        scheme, _, token = tokens[0].partition(" ") if len(tokens) == 1 else ("", "", "")
        if not hmac.compare_digest(token.strip().encode("latin-1"), self._token) or scheme.lower() != "bearer":
            if self._access and scope["path"] != PATH:
                # A browser has a cookie instead; the page that asks for it tells how to get one.
                is_page = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
                if self._pages_at and headers_of(scope, b"host") != [self._pages_at]:
                    if is_page and scope["method"] in ("GET", "HEAD"):
                        return self._to_pages(scope)
                elif self._access.admits(scope):
                    return None
                if is_page:
                    return once_more(scope) if self._access.came_from_elsewhere(scope) else closed_door()
            hint = "Send `Authorization: Bearer TOKEN`; the token is in the file `token` of the data home."
            return refuse(401, hint, {"www-authenticate": "Bearer"})
        return None

    def _to_pages(self, scope: Scope) -> Response:
        """Send a browser to the address at which the pages are: cookies that are set there go nowhere else."""
        query = scope["query_string"].decode("latin-1")
        path = url("/" + scope["path"].lstrip("/")) + (f"?{query}" if query else "")
        return RedirectResponse(f"http://{self._pages_at}{path}", 307, {"cache-control": "no-store"})


def headers_of(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def refuse(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": reason}, status, headers)


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def token_of(settings: Settings) -> str:
    """The token of this data directory, made at first use and readable by its user alone."""
    path = settings.token_file
    try:
        private_dir(str(path.parent))
        try:
            with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
        except FileExistsError:
            path.chmod(0o600)
        token = path.read_text("utf-8", "replace").strip()
    except OSError as error:
        raise StoreFull(
            f"The server's token {path} cannot be kept: {error.strerror or error}. Correct the permissions, free some "
            "space, or set MCP_MEMORY_HOME to another directory."
        ) from error
    if len(token) < 16 or not token.isascii():
        raise SettingsError(f"{path} holds no usable token. Delete the file; the next start makes a new one.")
    return token


def http_app(
    memory: Memory,
    token: str,
    allow: Sequence[str] = (),
    build: Builder = build_server,
    access: LocalAccess | None = None,
    pages_at: str = "",
) -> Guard:
    """The whole HTTP surface, guarded: MCP under its path, the viewer everywhere else."""
    # The guard does what the SDK's own check would do, for every route and with the allow-list.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    mcp = build(memory).streamable_http_app(streamable_http_path=PATH, transport_security=unchecked)
    access = access or LocalAccess(token, SessionFiles(memory.settings.browsers))
    pages = viewer(LocalSite(memory, access))

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and scope["path"] != PATH
        await (pages if is_page else mcp)(scope, receive, send)

    return Guard(ending(serve, memory.leaving), token, allow, access, pages_at)


def ending(app: ASGIApp, leaving: anyio.Event) -> ASGIApp:
    """The application, in which a client that leaves is not an error.

    Its GET streams end when the server is about to: nothing else would end them in time.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        whole = gone = begun = cut = False

        async def heard() -> Message:
            nonlocal whole, gone
            message = await receive()
            if message["type"] == "http.request":
                whole = not message.get("more_body", False)
            else:
                gone = True
            if gone and not whole:
                # Handed on, it would be taken for the end of the request, and told as a failure to read it.
                raise ConnectionResetError
            return message

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        async def cut_short() -> None:
            nonlocal cut
            await leaving.wait()
            cut = True
            tasks.cancel_scope.cancel()

        try:
            async with anyio.create_task_group() as tasks:
                if scope["method"] == "GET":
                    tasks.start_soon(cut_short, name="end of a stream")
                await app(scope, heard, noted)
                tasks.cancel_scope.cancel()
        except Exception:
            if not gone:
                raise
        if cut and begun and not gone:
            await send({"type": "http.response.body", "body": b""})

    return serve


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections are kept, and how many seconds each may take for what it owes."""

    connections: int = 100
    #: From the first moment, or from the last answer, until a request's head is complete.
    head: float = 10.0
    #: From there until its body is.
    body: float = 30.0
    #: How long a client may take nothing of an answer that waits for it.
    stalled: float = 30.0


class Connection(H11Protocol):
    """A connection under a clock that runs whenever the client owes something, and that no single byte sets back."""

    limits = ConnectionLimits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._owes = ""
        self._clock: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._since = self.loop.time()
        self._watch()
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def _make_room(self) -> None:
        """Close the one that has owed something for longest. If all are being answered, there is room for no more."""
        open_ones = (other for other in self.connections if isinstance(other, Connection))
        owing = [other for other in open_ones if other is not self and other._owes and not other.transport.is_closing()]
        if owing:
            min(owing, key=lambda other: other._since).transport.abort()
        else:
            self.transport.write(_FULL)
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start the clock for what the client owes now, if that is something else than before."""
        # The head or body of a request; nothing while it waits for its answer.
        owes = {h11.IDLE: "head", h11.SEND_BODY: "body"}.get(self.conn.their_state, "")
        if owes == self._owes:
            return
        self._stop(self._clock)
        self._owes, self._since = owes, self.loop.time()
        self._clock = self.loop.call_later(getattr(self.limits, owes), self.transport.abort) if owes else None

    def pause_writing(self) -> None:
        super().pause_writing()
        # What is still to be sent is not waited for: it may be what the client does not take.
        self._stalled = self.loop.call_later(self.limits.stalled, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop(self._stalled)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop(self._clock)
        self._stop(self._stalled)
        super().connection_lost(exc)

    @staticmethod
    def _stop(clock: asyncio.TimerHandle | None) -> None:
        if clock is not None:
            clock.cancel()


async def serve_http(
    settings: Settings,
    host: str | None,
    port: int,
    allow: Sequence[str],
    as_json: bool,
    greeting: Greeting | None = None,
) -> None:
    """Listen until a signal comes. Says on stderr where, and where the token is; also on stdout if asked to.

    Without a host it is this machine alone: MCP at the usual loopback address, the pages at one of their own.
    """
    token = token_of(settings)
    listener = listen(host, port, allow) if host else listen_on_loopback(port)
    own = None if host else listen_for_pages(token, listener.getsockname()[1])
    memory, access = Memory(settings), LocalAccess(token, SessionFiles(settings.browsers))
    base = f"http://{_netloc(listener, host)}"
    pages = f"http://{_netloc(own)}" if own else base
    app = http_app(memory, token, allow, access=access, pages_at=_netloc(own) if own else "")
    server = server_of(app)
    link = f"{pages}{ENTRANCE}?code={access.code()}"
    with ExitStack() as stack:
        page = _login_page(settings, pages, access, stack) if greeting and greeting.browse else None
        if as_json:
            places = {"url": f"{base}{PATH}", "token_file": str(settings.token_file), "link": link}
            print(json.dumps(places), flush=True)
        lines = [
            f"MCP on {base}{PATH}, bearer token in {settings.token_file}",
            f"Look at your memory: {link}",
            "(the link works once, within 15 minutes; then that browser stays logged in)",
        ]
        if page:
            lines.append(f"Your browser is opened with {page}. If it may not read that file, open the link.")
        # Whoever asked for the page sees its link first, all others the MCP address.
        print("\n".join([*lines[1:], lines[0]] if greeting else lines), file=sys.stderr, flush=True)
        if greeting and greeting.steps:
            print(f"\n{greeting.steps.strip()}", file=sys.stderr, flush=True)
        if page:
            await to_thread.run_sync(webbrowser.open, page.as_uri())
        await run_until_signal(server, listener, memory, [own] if own else [])


def _login_page(settings: Settings, pages: str, access: LocalAccess, stack: ExitStack) -> Path | None:
    """Write the file that logs the browser in. It is removed when it has done so, or when the server ends."""

    def remove() -> None:
        with suppress(OSError):
            path.unlink(missing_ok=True)

    code = access.code(on_use=remove)
    try:
        path = write_login_page(settings.home, f"{pages}{ENTRANCE}?code={code}")
    except OSError:
        return None  # the printed link is left
    stack.callback(remove)
    return path


async def run_until_signal(
    server: uvicorn.Server, listener: socket.socket, memory: Memory, further: Sequence[socket.socket] = ()
) -> None:
    async def stop_on_signal() -> None:
        if sys.platform == "win32":
            return
        with anyio.open_signal_receiver(*SIGNALS) as signals:
            async for _ in signals:
                exit_within(_GRACE_SECONDS + PATIENCE_SECONDS)
                memory.leaving.set()
                server.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop_on_signal, name="signals")
        await server.serve(sockets=[listener, *further])
        tasks.cancel_scope.cancel()


def listen(host: str, port: int, allow: Sequence[str]) -> socket.socket:
    """Take the address, or say why not."""
    if not is_loopback(host) and not allow:
        raise UsageError(
            f"{host} can be reached from other machines. Name the hosts that clients will use with --allow-host, or "
            "leave --host out to serve this machine only."
        )
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as stack:
            listener = stack.enter_context(socket.socket(family, kind))
            if os.name == "posix":
                # A server that was just stopped must not keep its successor from the port.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
            stack.pop_all()  # it stays open
            return listener
    except (OSError, OverflowError) as error:
        raise UsageError(f"{host}:{port} cannot be used: {error}. Choose another with --port.") from error


def listen_on_loopback(port: int) -> socket.socket:
    """Take the usual address of this machine; where there is no IPv4, that of IPv6."""
    try:
        return listen(LOOPBACK, port, ())
    except UsageError:
        with suppress(UsageError):
            if not _has_ipv4():
                return listen("::1", port, ())
        raise


def _has_ipv4() -> bool:
    try:
        with listen(LOOPBACK, 0, ()):
            return True
    except UsageError:
        return False


def listen_for_pages(token: str, port: int) -> socket.socket | None:
    """Take a loopback address that no other server uses, if the system has more than one.

    A browser sends the cookies of a host to all its ports, so that every server at 127.0.0.1 would get ours. The
    address is made from the token: it stays the same, and each memory has its own.
    """
    if any(map(config.environment().get, _FORWARDED)):
        return None
    first, second, third = hmac.new(token.encode(), b"address", "sha256").digest()[:3]
    try:
        return listen(f"127.{64 + first % 64}.{second}.{1 + third % 254}", port, ())
    except UsageError:
        return None


def _netloc(listener: socket.socket, host: str | None = None) -> str:
    address, port = listener.getsockname()[:2]
    name = host or address
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def free_port(preferred: int) -> int:
    """A port of this machine: the preferred one, or any if that is taken."""
    try:
        with listen_on_loopback(preferred):
            return preferred
    except UsageError:
        return 0


def server_of(app: ASGIApp, connection: type[Connection] = Connection, **more: Any) -> uvicorn.Server:
    """What runs the application, over connections that are bounded in number and time."""
    config = uvicorn.Config(
        app,
        http=connection,
        ws="none",
        log_config=None,
        log_level="error",  # its warnings tell of requests that anyone can send
        access_log=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        **more,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would raise them again at the end, and the exit code would not be 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
