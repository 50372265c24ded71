"""What a member has open there: it hears of nothing that is another's, and ends within a second of its token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.subscriptions import ResourceUpdated

from mcp_memory.domain.events import PRIVATE
from mcp_memory.domain.people import Viewer
from mcp_memory.navigate.answers import Answers
from mcp_memory.surfaces import protocol
from tests.surfaces.client import Era, ask, refused
from tests.surfaces.team_server import YEAR_MS, TeamDesk, reachable, team_server
from tests.surfaces.team_talk import line, tell, three_people
from tests.surfaces.team_world import DAY, HIDDEN_SESSION, NOTES, team

pytestmark = pytest.mark.anyio
#: A second, and what a busy machine needs to close a stream.
SOON = 1.5
_LEGACY, _MODERN = "2025-06-18", "2026-07-28"
_ME = {"name": "test", "version": "1"}


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def modern(method: str, **params: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """A request of the protocol's later era, which brings all that it needs, and its headers."""
    own = "io.modelcontextprotocol/"
    meta = {f"{own}protocolVersion": _MODERN, f"{own}clientInfo": _ME, f"{own}clientCapabilities": {}}
    named = {"mcp-name": params["name"]} if "name" in params else {}
    return request(method, **params, _meta=meta), {"mcp-protocol-version": _MODERN, "mcp-method": method} | named


async def revoke(desk: TeamDesk) -> None:
    await desk.store.revoke_user("bob", desk.memory.now_ms())


async def expire(desk: TeamDesk) -> None:
    later = desk.memory.now_ms() + 2 * YEAR_MS
    desk.memory.now_ms = lambda: later  # type: ignore[method-assign]


@pytest.mark.slow
@pytest.mark.parametrize("kill", [revoke, expire])
async def test_all_that_a_member_has_open_over_mcp_ends_soon_after_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: Callable[[TeamDesk], Awaitable[None]]
) -> None:
    waiting, began = list[str](), anyio.Event()

    async def slow(*_: object, **__: object) -> None:
        waiting.append("call")
        if len(waiting) == 2:
            began.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(Answers, "teleport", slow)
    call = {"name": "teleport", "arguments": {"query": "payments"}}
    watch = {"notifications": {"resourceSubscriptions": ["memory://toc"]}}
    told = dict[str, tuple[int, str]]()
    async with team_server(tmp_path, three_people) as desk, reachable(desk) as url, member(desk, "bob", url) as http:
        session = await opened(http)
        asked = {
            "watch": ("POST", *modern("subscriptions/listen", **watch)),
            "call": ("POST", *modern("tools/call", **call)),
            "stream": ("GET", None, session),
            "call in a session": ("POST", request("tools/call", **call), session),
        }

        async def follow(name: str, method: str, wish: Any, headers: dict[str, str], *, task_status: Any) -> None:
            if name == "call":
                task_status.started()  # it is answered once it is done
            async with http.stream(method, "/mcp", json=wish, headers=headers) as answer:
                if name != "call":
                    assert answer.status_code == 200
                    task_status.started()
                text = (await answer.aread()).decode()
            told[name] = answer.status_code, text

        with anyio.fail_after(20) as limit:
            async with anyio.create_task_group() as tasks:
                for name, wish in asked.items():
                    await tasks.start(follow, name, *wish)
                await began.wait()
                await kill(desk)
                limit.deadline = anyio.current_time() + SOON
        assert told["call"][0] == 401
        assert {name: text.count("result") for name, (_, text) in told.items()} == dict.fromkeys(asked, 0)
        for body, headers in (modern("tools/call", **call), (request("tools/list"), session)):
            assert (await http.post("/mcp", json=body, headers=headers)).status_code == 401


async def test_who_watches_documents_hears_of_what_changes_for_him_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "WATCH_SECONDS", 0.01)
    documents = [f"memory://session/{quote(name, safe='')}" for name in (HIDDEN_SESSION, "ada-1", NOTES, "bob-1")]
    heard: dict[str, list[str]] = {"ada": [], "bob": []}
    told = anyio.Event()

    async def listen(name: str, url: str, *, task_status: Any) -> None:
        async with (
            member(desk, name, url) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as agent,
            agent.listen(resource_subscriptions=documents) as events,
        ):
            task_status.started()
            while documents[-1] not in heard[name]:
                event = await anext(events)
                assert isinstance(event, ResourceUpdated)
                heard[name].append(event.uri)
                if {*heard["ada"]} == {*documents[:-1]}:
                    told.set()

    with anyio.fail_after(20):
        async with team(tmp_path) as desk, reachable(desk) as url, anyio.create_task_group() as tasks:
            for name in heard:
                await tasks.start(listen, name, url)
            app = await desk.memory.whole()
            await app.seen_by(Viewer("ada")).remember("The second note of ada.", project="shop")
            for session in (HIDDEN_SESSION, "ada-1"):
                again = line("17:00:00", "user", "Between us again.", session, DAY)
                await tell(app, "ada", [again], visibility=PRIVATE)
            # Whatever bob could hear of that comes before what is his own.
            await told.wait()
            await tell(app, "bob", [line("17:00:00", "user", "And so on.", "bob-1", DAY)])
    assert set(heard["ada"]) == set(documents)
    assert set(heard["bob"]) == {documents[-1]}


@asynccontextmanager
async def member(desk: TeamDesk, name: str, url: str) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"authorization": f"Bearer {desk.tokens[name]}", "accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=20) as http:
        yield http


async def opened(http: httpx2.AsyncClient) -> dict[str, str]:
    """A session of the earlier era: the headers that name it."""
    hello = request("initialize", protocolVersion=_LEGACY, capabilities={}, clientInfo=_ME)
    answer = await http.post("/mcp", json=hello)
    return {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": _LEGACY}


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_role_that_is_taken_or_given_counts_from_the_next_call_on(tmp_path: Path, era: Era) -> None:
    async with team_server(tmp_path, three_people) as desk, desk.agent("bob", era) as agent, desk.client("bob") as http:
        note: dict[str, Any] = {"text": "I may write.", "project": "shop"}
        assert "Remembered" in await ask(agent, "remember", **note)
        await desk.store.set_role("bob", "reader")
        assert "a reader writes nothing" in await refused(agent, "remember", **note)
        assert (await http.post("/team/push", content=b"")).status_code == 403
        assert "payment" in await ask(agent, "toc_root", project="shop")
        await desk.store.set_role("bob", "member")
        assert "Remembered" in await ask(agent, "remember", **note)


async def test_a_project_that_is_closed_is_out_of_sight_from_the_next_call_on(tmp_path: Path) -> None:
    async with team_server(tmp_path, three_people) as desk, desk.agent("bob") as agent:
        assert "payment" in await ask(agent, "toc_root", project="shop")
        await desk.store.add_member("shop", "ada")
        assert "no project 'shop'" in await refused(agent, "toc_root", project="shop")
        assert "vat_rate" not in await ask(agent, "teleport", query="wrong tax for Austria", project="*")
        await desk.store.add_member("shop", "bob")
        assert "payment" in await ask(agent, "toc_root", project="shop")
