"""Two servers of one team's database: who may ask either, and whose requests have to stay with one."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.surfaces.team.serving import TeamMemory, team_app
from tests.surfaces.client import ask
from tests.surfaces.team_server import BASE, TeamDesk, running, team_server
from tests.surfaces.test_team_incoming import line, push

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def two_servers(home: Path) -> AsyncIterator[tuple[TeamDesk, TeamDesk]]:
    async with team_server(home / "first") as desk:
        memory = TeamMemory(replace(desk.memory.settings, home=home / "second"))
        guard = team_app(memory)
        async with running(guard):
            store = (await memory.whole()).store
            assert isinstance(store, PostgresStore)
            yield desk, TeamDesk(memory, guard, store, desk.tokens)


class InTurn(httpx2.AsyncBaseTransport):
    """Sends each request to the next server, as a proxy does that knows of no sessions."""

    def __init__(self, desks: Sequence[TeamDesk]) -> None:
        self._ways = [httpx2.ASGITransport(desk.guard, client=("10.0.0.9", 4711)) for desk in desks]
        self.asked = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked += 1
        return await self._ways[self.asked % len(self._ways)].handle_async_request(request)


def client(desks: Sequence[TeamDesk], name: str = "") -> httpx2.AsyncClient:
    bearer = {"authorization": f"Bearer {desks[0].tokens[name]}"} if name else {}
    return httpx2.AsyncClient(transport=InTurn(desks), base_url=BASE, headers=bearer, timeout=30)


async def test_laptops_browsers_and_agents_of_today_may_ask_either_server(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as desks:
        async with client(desks, "ada") as ada:
            for number in range(4):
                assert (await push(ada, line(str(number), f"Walrus {number}.")))["new"] == 1
            ids = [line(str(number), "")["event_id"] for number in range(2)]
            told = await ada.post("/team/withdraw", json={"event_ids": ids, "forget": True})
            assert told.json()["events"] == 2
        async with client(desks, "bob") as bob, Client(streamable_http_client(f"{BASE}/mcp", http_client=bob)) as agent:
            for _ in range(3):
                assert "Walrus 3." in await ask(agent, "teleport", query="walrus", project="shop")
            assert isinstance(bob._transport, InTurn)
            assert bob._transport.asked > 3
        async with client(desks) as browser:
            answer = await browser.post("/enter", data={"token": desks[0].tokens["ada"]}, headers={"origin": BASE})
            assert answer.status_code == 303
            for _ in range(4):
                shown = (await browser.get("/notes")).text
                assert "You are ada" in shown
            hidden = dict(re.findall(r'name="(sign)" value="([^"]+)"', shown))
            assert (await browser.post("/leave", data=hidden, headers={"origin": BASE})).status_code == 401
            for _ in range(2):
                assert (await browser.get("/notes")).status_code == 401


async def test_who_is_revoked_on_one_server_is_so_on_the_other(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (first, second), second.client("bob") as bob:
        assert (await bob.get("/team/me")).status_code == 200
        await first.store.revoke_user("bob", first.memory.now_ms())
        with anyio.fail_after(10):
            while (await bob.get("/team/me")).status_code != 401:
                pass


async def test_a_session_of_an_earlier_protocol_is_known_to_the_server_that_began_it_alone(tmp_path: Path) -> None:
    begin = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    accepted = {"accept": "application/json, text/event-stream"}
    async with two_servers(tmp_path) as desks, desks[0].client("ada") as first, desks[1].client("ada") as second:
        answer = await first.post("/mcp", json=begin, headers=accepted)
        assert answer.status_code == 200
        session = accepted | {"mcp-session-id": answer.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await first.post("/mcp", json=ping, headers=session)).status_code == 200
        # By which clients know that they have to begin again.
        assert (await second.post("/mcp", json=ping, headers=session)).status_code == 404
