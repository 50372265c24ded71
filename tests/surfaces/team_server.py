"""A team's server in the process of the test, asked over its ASGI interface, as laptops, agents and browsers ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client

from mcp_memory.app import App, open_app
from mcp_memory.config import load
from mcp_memory.domain.events import Event, Intake
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.surfaces.http import listen, server_of
from mcp_memory.surfaces.team.connections import TeamConnection
from mcp_memory.surfaces.team.guard import TeamGuard
from mcp_memory.surfaces.team.serving import TeamMemory, team_app
from tests.postgres import new_database
from tests.surfaces.client import Era

YEAR_MS = 365 * 24 * 3_600_000
BASE = "http://127.0.0.1:8765"
#: Where the clock of a server's memory stands, unless a test sets it; its tokens live in real time.
NOW = datetime(2026, 10, 14, 12, tzinfo=UTC)


@dataclass
class TeamDesk:
    """A running server, its store, and the tokens of its members."""

    memory: TeamMemory
    guard: TeamGuard
    store: PostgresStore
    tokens: dict[str, str]

    def client(self, name: str = "", **headers: str) -> httpx2.AsyncClient:
        """Asks as a member, or as no one."""
        bearer = {"authorization": f"Bearer {self.tokens[name]}"} if name else {}
        transport = httpx2.ASGITransport(self.guard, client=("10.0.0.9", 4711))
        return httpx2.AsyncClient(transport=transport, base_url=BASE, headers=bearer | headers, timeout=30)

    @asynccontextmanager
    async def agent(
        self, name: str, era: Era = "auto", asks: ElicitationFnT | None = None, **headers: str
    ) -> AsyncIterator[Client]:
        """A member's agent, over MCP. What it is answered comes whole, so that it hears of nothing unasked."""
        async with self.client(name, **headers) as http:
            stream = streamable_http_client(f"{BASE}/mcp", http_client=http)
            async with Client(stream, mode=era, elicitation_callback=asks) as client:
                yield client

    async def add_user(self, name: str, role: str = "member", *, lasts_ms: int = YEAR_MS) -> str:
        now = self.memory.now_ms()
        self.tokens[name] = await self.store.add_user(name, role, now, now + lasts_ms)
        return self.tokens[name]

    async def tell(self, author: str, *events: Event, visibility: str = "team", root: str = "/w/alpha") -> None:
        told = [replace(event, visibility=visibility) for event in events]
        await self.store.add([Intake((event,), root, "", author=author) for event in told])


@asynccontextmanager
async def team_server(
    home: Path,
    fill: Callable[[App], Awaitable[None]] | None = None,
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[TeamDesk]:
    """A server with ada (member), bob (member), rita (reader) and root (admin). `fill` puts something in before."""
    place = {"MCP_MEMORY_HOME": str(home), "MCP_MEMORY_STORE_URL": new_database()}
    times = {"MCP_MEMORY_NOW": NOW.isoformat(), "MCP_MEMORY_CALENDAR_TIMEZONE": "UTC"}
    settings = load(place | times | dict(environment or {}))
    if fill:
        async with open_app(settings, cwd=home, for_team=True) as app:
            await fill(app)
    memory = TeamMemory(settings)
    guard = team_app(memory, **options)
    async with running(guard):
        store = (await memory.whole()).store
        assert isinstance(store, PostgresStore)
        desk = TeamDesk(memory, guard, store, {})
        for name, role in (("ada", "member"), ("bob", "member"), ("rita", "reader"), ("root", "admin")):
            await desk.add_user(name, role)
        yield desk


@asynccontextmanager
async def running(guard: TeamGuard) -> AsyncIterator[None]:
    """The application's life, as its server begins and ends it."""
    import anyio

    begin, begun, end, ended = anyio.Event(), anyio.Event(), anyio.Event(), anyio.Event()

    async def receive() -> dict[str, Any]:
        if not begin.is_set():
            begin.set()
            return {"type": "lifespan.startup"}
        await end.wait()
        return {"type": "lifespan.shutdown"}

    async def send(message: Any) -> None:
        (begun if message["type"].startswith("lifespan.startup") else ended).set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(guard, {"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
        await begun.wait()
        try:
            yield
        finally:
            end.set()
            with anyio.move_on_after(10, shield=True):
                await ended.wait()


@asynccontextmanager
async def reachable(desk: TeamDesk) -> AsyncIterator[str]:
    """The server on a free port; its address."""
    server = server_of(desk.guard, TeamConnection, lifespan="off")
    with listen("127.0.0.1", 0, ()) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: server.serve(sockets=[listener]))
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True
