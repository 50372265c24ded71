"""A laptop of a member: a memory of its own that pushes to the team's server of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from mcp_memory.app import App
from mcp_memory.team.account import PushState, TeamAccount
from mcp_memory.team.client import TeamClient
from mcp_memory.team.push import Pusher
from tests.support import StoppedClock, memory, tell
from tests.surfaces.team_server import BASE, TeamDesk

Way = Callable[[httpx2.Request], None]


class Line(httpx2.AsyncBaseTransport):
    """The way to the server, on which a test may stand: before a request arrives, or before its answer does."""

    def __init__(self, desk: TeamDesk) -> None:
        self._asgi = httpx2.ASGITransport(desk.guard, client=("10.0.0.9", 4711))
        self.before: Way | None = None
        self.after: Way | None = None
        self.requests: list[tuple[str, int]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.before:
            self.before(request)
        answer = await self._asgi.handle_async_request(request)
        self.requests.append((request.url.path, answer.status_code))
        if self.after:
            self.after(request)
        return answer


def cut(request: httpx2.Request) -> None:
    raise httpx2.ConnectError("no network", request=request)


@dataclass
class Laptop:
    """Its memory, and what sends from it."""

    app: App
    line: Line
    pusher: Pusher = field(init=False)

    def __post_init__(self) -> None:
        self.pusher = self.another()

    def another(self) -> Pusher:
        """What another process would have to send with."""
        return Pusher(self.app.settings, self.app.store, lambda account: TeamClient(account, self.line))

    async def join(self, desk: TeamDesk, name: str) -> None:
        await self.app.store.join_team((await desk.store.identity())[0])
        TeamAccount(BASE, name, desk.tokens[name], "s").save(self.app.settings)
        PushState().save(self.app.settings)

    async def say(self, *lines: dict[str, Any]) -> None:
        await tell(self.app, lines)

    @property
    def state(self) -> PushState:
        return PushState.load(self.app.settings)


@asynccontextmanager
async def laptop(home: Path, desk: TeamDesk, name: str = "ada") -> AsyncIterator[Laptop]:
    """A laptop that has joined as a member."""
    async with memory(home, StoppedClock()) as app:
        made = Laptop(app, Line(desk))
        await made.join(desk, name)
        yield made
