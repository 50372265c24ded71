"""Subscriptions as clients of both protocol eras hold them: what is promised is sent, and nothing else."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ResourceUpdatedNotification

from mcp_memory.app import App, open_app
from mcp_memory.config import Privacy, Settings
from mcp_memory.errors import LeaseLost
from mcp_memory.surfaces import protocol
from mcp_memory.surfaces.server import Memory, build_server
from tests.support import conversation, database_of, learn, said
from tests.surfaces.client import Era, ask, connected, read
from tests.surfaces.test_http import served

pytestmark = pytest.mark.anyio

ERAS: tuple[Era, ...] = ("auto", "legacy")
TOC, STATUS = "memory://toc", "memory://status"
DAY = "memory://node/toc:day:2026-10-30"
OTHER_DAY = "memory://node/toc:day:2026-10-26"
LATE = [
    said("Please paint the harbour lights green before the regatta.", "2026-10-30T20:00:00Z", project="tidepool-api"),
    said("The harbour lights are green now.", "2026-10-30T20:03:00Z", role="assistant", project="tidepool-api"),
]
Next = Callable[[], Awaitable[str]]


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "WATCH_SECONDS", 0.01)


async def subscribe(client: Client, uri: str, *, end: bool = False) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        await (client.unsubscribe_resource if end else client.subscribe_resource)(uri)


@asynccontextmanager
async def subscribed(settings: Settings, era: Era, *uris: str) -> AsyncIterator[tuple[Client, Next]]:
    """A client that has subscribed, and a function that waits for the next address it is told of."""
    send, receive = anyio.create_memory_object_stream[str](100)

    async def hears(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            send.send_nowait(message.params.uri)

    with send, receive:
        async with connected(settings, era, hears) as client:
            if era == "legacy":
                for uri in uris:
                    await subscribe(client, uri)
                yield client, receive.receive
                return
            async with client.listen(resource_subscriptions=uris) as events:

                async def following() -> str:
                    event = await anext(events)
                    assert isinstance(event, ResourceUpdated)
                    return event.uri

                yield client, following


async def heard(following: Next, *expected: str) -> list[str]:
    """What comes until each of these has come."""
    told: list[str] = []
    while not set(expected) <= set(told):
        told.append(await following())
    return told


async def write(app: App, lines: list[dict[str, Any]]) -> None:
    """Store lines and build the tree, unless the server that is watched builds it first."""
    with suppress(LeaseLost):
        await learn(app, lines)


async def forget(settings: Settings, session: str) -> None:
    """As the user does it: a process of its own."""
    command = [sys.executable, "-m", "mcp_memory", "forget", "--session", session, "--yes"]
    await anyio.run_process(command, env={**os.environ, "MCP_MEMORY_HOME": str(settings.home)})


@pytest.mark.parametrize("era", ERAS)
async def test_what_another_process_writes_is_told_for_the_toc_the_status_and_the_node(
    settings: Settings, era: Era
) -> None:
    async with subscribed(settings, era, TOC, STATUS, DAY, OTHER_DAY) as (_, following):
        async with open_app(settings) as other:
            await write(other, LATE)
        told = await heard(following, TOC, STATUS, DAY)
    assert OTHER_DAY not in told


@pytest.mark.parametrize("era", ERAS)
async def test_what_the_server_itself_stores_is_told(settings: Settings, era: Era) -> None:
    async with subscribed(settings, era, STATUS, "memory://session/s1") as (client, following):
        await ask(client, "remember", text="The kestrels are counted in May.")
        await heard(following, STATUS)


@pytest.mark.parametrize("era", ERAS)
async def test_a_node_that_is_gone_is_told_once(settings: Settings, era: Era) -> None:
    async with open_app(settings) as other:
        rows = await database_of(other).fetch("SELECT n.key FROM node n JOIN session s ON s.id = n.session "
                                          "WHERE s.session_id = 'tidepool-api-07' AND n.removed = 0")  # fmt: skip
        segment = f"memory://node/toc:segment:{rows[0][0]}"
        async with subscribed(settings, era, segment, DAY) as (client, following):
            await forget(settings, "tidepool-api-07")
            await heard(following, segment)
            with pytest.raises(MCPError):
                await client.read_resource(segment)
            await write(other, LATE)
            assert segment not in await heard(following, DAY)


@pytest.mark.parametrize("era", ERAS)
async def test_a_node_that_is_not_there_yet_is_told_when_it_comes(settings: Settings, era: Era) -> None:
    tomorrow = "memory://node/toc:day:2026-10-31"
    async with subscribed(settings, era, tomorrow) as (client, following):
        async with open_app(settings) as other:
            await write(other, conversation("2026-10-31", project="tidepool-api"))
        assert await heard(following, tomorrow) == [tomorrow]
        assert "login timeout" in (await client.read_resource(tomorrow)).contents[0].text  # type: ignore[union-attr]


async def test_a_document_that_was_given_up_is_no_longer_told(settings: Settings) -> None:
    async with subscribed(settings, "legacy", TOC, STATUS) as (client, following):
        await subscribe(client, TOC, end=True)
        async with open_app(settings) as other:
            await write(other, LATE)
        told = await heard(following, STATUS)
        await ask(client, "remember", text="The ospreys are counted in June.")
        told += await heard(following, STATUS)
    assert TOC not in told


@pytest.mark.parametrize("era", ERAS)
async def test_another_project_moves_no_document_of_this_one(settings: Settings, era: Era) -> None:
    async with subscribed(settings, era, TOC, DAY, STATUS) as (_, following):
        async with open_app(settings) as other:
            await write(other, conversation("2026-10-30", project="tidepool-web"))
        assert set(await heard(following, STATUS)) == {STATUS}


@pytest.mark.parametrize("era", ERAS)
async def test_an_isolated_server_tells_nothing_of_other_projects(settings: Settings, era: Era) -> None:
    alone = replace(settings, privacy=Privacy(isolate=True))
    foreign = "memory://node/toc:day:2026-10-30@tidepool-web"
    async with subscribed(alone, era, foreign, DAY) as (_, following):
        async with open_app(settings) as other:
            await write(other, conversation("2026-10-30", session="s9", project="tidepool-web"))
            await write(other, LATE)
        assert set(await heard(following, DAY)) == {DAY}


@pytest.mark.parametrize("era", ERAS)
async def test_where_no_project_is_known_one_can_be_watched_by_its_name(settings: Settings, era: Era) -> None:
    elsewhere, named = replace(settings, project="elsewhere"), f"{DAY}@tidepool-api"
    async with subscribed(elsewhere, era, TOC, named) as (_, following):
        async with open_app(settings) as other:
            await write(other, LATE)
        assert TOC not in await heard(following, named)
        async with open_app(settings) as other:
            await write(other, conversation("2026-10-30", session="s9", project="elsewhere"))
        await heard(following, TOC)


async def test_only_what_is_sent_is_acknowledged(settings: Settings) -> None:
    async with connected(settings) as client:
        async with client.listen(
            tools_list_changed=True,
            prompts_list_changed=True,
            resources_list_changed=True,
            resource_subscriptions=[TOC, "memory://nothing", "https://example.org/"],
        ) as events:
            assert events.honored.model_dump(exclude_none=True) == {"resource_subscriptions": [TOC]}


async def test_an_address_that_names_no_document_cannot_be_subscribed_to(settings: Settings) -> None:
    async with connected(settings, "legacy") as client:
        with pytest.raises(MCPError, match="no document memory://nothing") as caught:
            await subscribe(client, "memory://nothing")
        assert caught.value.error.code == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_there_is_a_limit_to_what_is_watched(
    settings: Settings, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Memory, "most_watched", 2)
    async with subscribed(settings, era, TOC, STATUS) as (client, following):
        with pytest.raises(MCPError, match="watches at most 2 documents"):
            if era == "legacy":
                await subscribe(client, DAY)
            else:
                async with client.listen(resource_subscriptions=[DAY]):
                    pass
        await ask(client, "remember", text="The kestrels are counted in May.")
        await heard(following, STATUS)


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_advertised_is_what_is_sent(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        offered = client.server_capabilities.model_dump(exclude_none=True, by_alias=True)
    assert offered == {
        "tools": {"listChanged": False},
        "prompts": {"listChanged": False},
        "resources": {"subscribe": True, "listChanged": False},
        "completions": {},
    }


@pytest.mark.parametrize("era", ERAS)
async def test_a_subscription_outlives_a_memory_that_cannot_be_read(blank: Settings, era: Era) -> None:
    blank.home.mkdir()
    blank.database.write_bytes(b"this is not a database " * 500)
    async with subscribed(blank, era, TOC) as (client, following):
        for path in blank.home.glob("memory.db*"):
            path.unlink()
        await ask(client, "toc_root")
        assert await heard(following, TOC) == [TOC]


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_client_watched_is_given_up_when_it_leaves(
    settings: Settings, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Memory, "most_watched", 1)
    server = build_server(Memory(settings))
    for uri in (TOC, STATUS):
        with anyio.fail_after(30):
            async with Client(server, mode=era) as client:
                if era == "legacy":
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(subscribe, client, uri)
                        tasks.start_soon(subscribe, client, uri)
                else:
                    async with client.listen(resource_subscriptions=[uri, uri]) as events:
                        assert events.honored.resource_subscriptions


async def test_a_document_that_is_subscribed_to_twice_is_given_up_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Memory, "most_watched", 1)
    async with subscribed(settings, "legacy", TOC, TOC) as (client, _):
        await subscribe(client, TOC, end=True)
        await subscribe(client, STATUS)


@pytest.mark.skipif(sys.platform == "win32", reason="there, an open file cannot be replaced")
@pytest.mark.parametrize("era", ERAS)
async def test_a_database_in_the_place_of_another_is_told(settings: Settings, blank: Settings, era: Era) -> None:
    async with open_app(blank) as other:
        await write(other, conversation("2026-10-31", project="tidepool-api"))
    async with subscribed(settings, era, TOC) as (client, following):
        for suffix in ("-wal", "-shm"):
            settings.database.with_name(f"memory.db{suffix}").unlink(missing_ok=True)
        blank.database.replace(settings.database)
        assert await heard(following, TOC) == [TOC]
        assert "login timeout" in (await read(client, TOC)).text


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are a matter of POSIX")
@pytest.mark.parametrize("era", ERAS)
async def test_a_subscriber_is_told_over_http_and_does_not_keep_the_server_from_ending(
    settings: Settings, era: Era
) -> None:
    told = anyio.Event()

    async def hears(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification) and message.params.uri == STATUS:
            told.set()

    async with served(settings) as (process, url), AsyncExitStack() as stack:
        headers = {"Authorization": f"Bearer {settings.token_file.read_text().strip()}"}
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=30))
        transport = streamable_http_client(url, http_client=http)
        client = await stack.enter_async_context(Client(transport, mode=era, message_handler=hears))
        if era == "legacy":
            await subscribe(client, STATUS)
        else:
            await stack.enter_async_context(client.listen(resource_subscriptions=[STATUS]))
        async with open_app(settings) as other:
            await write(other, LATE)
        await told.wait()
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert process.stderr is not None
        assert b"Traceback" not in b"".join([part async for part in process.stderr])
