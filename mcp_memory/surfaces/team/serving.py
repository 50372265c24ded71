"""A team's server: the same tools, documents and pages, each answered as the one who asks may see the memory."""

from __future__ import annotations

import argparse
import json
import ssl
import sys
import time
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_memory.config import Settings
from mcp_memory.domain.people import Viewer
from mcp_memory.errors import MemoryFault, SettingsError, StoreError, StoreRejected, UsageError
from mcp_memory.surfaces.http import (
    PATH,
    Welcome,
    ending,
    is_loopback,
    listen,
    run_until_signal,
    server_of,
)
from mcp_memory.surfaces.server import Memory, Opener, build_server, prepared
from mcp_memory.surfaces.team import laptop_routes
from mcp_memory.surfaces.team.audit import Audit
from mcp_memory.surfaces.team.connections import (
    MAX_STRANGERS,
    TeamConnection,
    connections_within,
    raise_file_limit,
)
from mcp_memory.surfaces.team.guard import FAILURES, TeamGuard, Verifier
from mcp_memory.surfaces.team.identity import asking, current
from mcp_memory.surfaces.team.incoming import Turns
from mcp_memory.surfaces.team.limits import OpenLimit, RateLimit
from mcp_memory.surfaces.team.pages import Door, TeamSite
from mcp_memory.surfaces.web.routes import viewer

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.store.team_port import TeamStore

#: Requests of one member: so many at once, and so many a second after that.
RATE = (240, 20)
#: Streams that a member may have open at the same time: of agents, laptops and pages.
MAX_STREAMS = 10
#: So many portions are taken in at once: one is prepared while another is written, and a third would only wait for it.
TAKEN_IN = 2


class TeamMemory(Memory):
    """The memory of a team. Who asks for it is given what that member may see; no one is given all of it unasked."""

    #: Each is read again after a write, for each member who watches it.
    most_watched = 20

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        # Whom memory told what is noted in the database, where an admin finds it, and not on this machine.
        self.audit = self.recorder = Audit(self)
        self._greets, self._told = True, ""
        #: What is pushed waits for its turn, so that answers have threads and connections however many push.
        self.taking_in = anyio.CapacityLimiter(TAKEN_IN)
        #: What a member watches for news.
        self.streams = OpenLimit(MAX_STREAMS)
        #: One push of a member after the other.
        self.turns = Turns()

    async def app(self) -> App:
        return (await self.whole()).seen_by(current())

    async def whole(self) -> App:
        """All of it, for the server's own work alone."""
        return await super().app()

    async def register(self) -> TeamStore:
        """Where people and their tokens are."""
        return cast("TeamStore", (await self.whole()).store)

    def asker(self) -> Viewer:
        return current()

    def asked_by(self, asker: Hashable) -> AbstractContextManager[None]:
        assert isinstance(asker, Viewer)
        return asking(asker)

    def stream_of(self, asker: Hashable) -> AbstractContextManager[bool]:
        assert isinstance(asker, Viewer)
        return self.streams.one(asker.name)

    def opener(self) -> Opener:
        open_app = prepared()

        @asynccontextmanager
        async def opened(settings: Settings) -> AsyncIterator[App]:
            async with AsyncExitStack() as stack:
                try:
                    app = await stack.enter_async_context(open_app(settings, served=True, for_team=True))
                    store = cast("TeamStore", app.store)
                    await store.become_team(app.zone.key)
                    await store.seen_by(Viewer("(server)")).slugs()  # makes the role that members read by
                except MemoryFault as error:
                    self.excuse(error)
                    raise
                self._told = ""
                if self._greets and not await store.users(self.now_ms()):
                    told = "No one can log in yet: `mcp-memory team user add NAME --role admin` makes the first token."
                    print(told, file=sys.stderr, flush=True)
                self._greets = False
                yield app

        return opened

    def excuse(self, error: MemoryFault) -> str:
        """What members are told of it. Why the memory cannot be used is told once, to who runs the server."""
        if isinstance(error, StoreRejected):
            return "The team's memory cannot store a value of this."
        if not isinstance(error, StoreError):
            return str(error)
        if str(error) != self._told:
            print(f"mcp-memory: {error}", file=sys.stderr, flush=True)
        self._told = str(error)
        return "The team's memory cannot be used just now. It is tried again; the server's own log says why."

    def now_ms(self) -> int:
        """Real time: tokens expire whatever the memory's clock is set to."""
        return time.time_ns() // 1_000_000


def team_app(memory: TeamMemory, allow: tuple[str, ...] = (), *, behind_proxy: bool = False) -> TeamGuard:
    """The whole surface, guarded: MCP under its path, what laptops ask under /team/, the viewer everywhere else."""
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    mcp = build_server(memory).streamable_http_app(streamable_http_path=PATH, transport_security=unchecked)
    door = Door()
    pages, laptops = (
        viewer(TeamSite(memory, door)),
        Starlette(routes=laptop_routes.table(memory), exception_handlers=laptop_routes.TROUBLE),
    )

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        app: ASGIApp = mcp
        if scope["type"] == "http" and scope["path"] != PATH:
            app = laptops if scope["path"].startswith("/team/") else pages
        await app(scope, receive, send)

    return TeamGuard(
        ending(serve, memory.leaving),
        Verifier(memory),
        door,
        memory.audit,
        Welcome(allow),
        RateLimit(*RATE),
        RateLimit(*FAILURES),
        memory.streams,
        behind_proxy,
    )


async def serve_team(settings: Settings, options: argparse.Namespace) -> None:
    """Listen until a signal comes. Says on stderr where."""
    if not settings.store.url:
        raise SettingsError("A team's memory lies in PostgreSQL: set [store] url, or MCP_MEMORY_STORE_URL.")
    host, allow, tls = options.host, tuple(options.allow_host), _tls(options)
    if not is_loopback(host) and not tls and not options.behind_proxy:
        raise UsageError(
            f"{host} can be reached from other machines, and tokens must not go there unencrypted. Give --tls-cert and "
            "--tls-key, or --behind-proxy if a reverse proxy before it speaks TLS."
        )
    connection = TeamConnection.bounded(
        connections_within(raise_file_limit()), tls, None if options.behind_proxy else MAX_STRANGERS
    )
    listener, memory = listen(host, options.port, allow), TeamMemory(settings)
    memory.greeted()  # no client is waited for: it is opened now, and what is wrong with it is told now
    app = team_app(memory, allow, behind_proxy=options.behind_proxy)
    base = _address(host, listener.getsockname()[1], allow, tls=bool(tls), behind_proxy=options.behind_proxy)
    if options.json:
        print(json.dumps({"url": f"{base}{PATH}", "join": base}), flush=True)
    lines = [
        f"MCP of the team on {base}{PATH}",
        f"Laptops join with `mcp-memory team join {base}`; browsers log in there",
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)
    await run_until_signal(server_of(app, connection, proxy_headers=False), listener, memory)


def _address(host: str, port: int, allow: Sequence[str], *, tls: bool, behind_proxy: bool) -> str:
    """By which members reach the server, as far as it knows."""
    if behind_proxy and allow:
        return f"https://{allow[0]}"
    name = allow[0] if allow and not is_loopback(host) else host
    return f"{'https' if tls else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    """The certificate and its key, which are looked at before anyone connects."""
    cert, key = options.tls_cert, options.tls_key
    if not cert and not key:
        return None
    if not (cert and key):
        raise UsageError("--tls-cert and --tls-key belong together: give both files.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(Path(cert), Path(key))
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{cert} and {key} are no certificate and key that can be used: {error}.") from None
    return context
