"""HTTP connections that owe something, as raw sockets to a real server on loopback."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.lowlevel import checkpoint
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_memory.config import Settings
from mcp_memory.surfaces.http import Connection, ConnectionLimits, ending, http_app, listen, server_of
from mcp_memory.surfaces.server import Memory
from tests.surfaces.test_http import TOKEN, open_door, served

pytestmark = pytest.mark.anyio
LIMIT = 60
SOON, LATE = 0.1, 600.0
HEAD = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
TYPES = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
WHOLE = f"{HEAD}Content-Length: 2\r\n\r\n{{}}".encode()


def bounded(connections: int = 100, head: float = LATE, body: float = LATE, stalled: float = LATE) -> type[Connection]:
    class Bounded(Connection):
        limits = ConnectionLimits(connections, head, body, stalled)

    return Bounded


@asynccontextmanager
async def running(app: ASGIApp, connection: type[Connection]) -> AsyncIterator[int]:
    """A server on a free port, and its port."""
    listener = listen("127.0.0.1", 0, [])
    server = server_of(app, connection)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: server.serve(sockets=[listener]))
            yield listener.getsockname()[1]
            server.should_exit = True


async def connected(port: int, stack: AsyncExitStack) -> SocketStream:
    return await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))


async def until_closed(stream: SocketStream) -> bytes:
    """What comes until the server closes the connection."""
    found = b""
    try:
        while True:
            found += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return found


async def trickled(stream: SocketStream, data: bytes) -> None:
    """One byte after the other, until the server has had enough."""
    try:
        for number in range(10**6):
            await stream.send(data[number % len(data) :][:1])
            with anyio.move_on_after(SOON / 5):
                await stream.receive()
                raise AssertionError("an answer to half a request")
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return


async def test_hundreds_of_idle_connections_keep_no_one_out(blank: Settings) -> None:
    """With the limits that users have."""
    async with running(http_app(Memory(blank), TOKEN), Connection) as port, AsyncExitStack() as stack:
        idle = [await connected(port, stack) for _ in range(300)]
        good = await connected(port, stack)
        await good.send(WHOLE)
        assert (await good.receive()).startswith(b"HTTP/1.1 4")  # `{}` is no message of the protocol
        assert await until_closed(idle[0]) == b""


async def test_a_connection_that_asks_nothing_is_closed() -> None:
    async with running(open_door, bounded(head=SOON)) as port, AsyncExitStack() as stack:
        assert await until_closed(await connected(port, stack)) == b""


async def test_half_a_head_is_closed_however_slowly_it_grows() -> None:
    async with running(open_door, bounded(head=SOON)) as port, AsyncExitStack() as stack:
        half = await connected(port, stack)
        await half.send(HEAD.encode())
        assert await until_closed(half) == b""
        await trickled(await connected(port, stack), b"GET /" + b"a" * 50_000)


@pytest.mark.parametrize(
    "sent", [b"no request\r\n\r\n", WHOLE.replace(b"Content", b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent")]
)
async def test_a_stranger_writes_nothing_to_the_log(caplog: pytest.LogCaptureFixture, sent: bytes) -> None:
    """Where no one reads stderr, a few hundred lines fill its pipe, and the server would wait for ever."""
    async with running(open_door, bounded(head=SOON)) as port, AsyncExitStack() as stack:
        stranger = await connected(port, stack)
        await stranger.send(sent)
        assert (await until_closed(stranger)).startswith(b"HTTP/1.1 ")
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_body_that_is_trickled_in_is_cut_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    left = anyio.Event()

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                await Request(scope, receive).body()
            finally:
                left.set()

    async with running(ending(reading, anyio.Event()), bounded(body=SOON)) as port, AsyncExitStack() as stack:
        slow = await connected(port, stack)
        await slow.send(f"{HEAD}Content-Length: 100000\r\n\r\n".encode())
        await trickled(slow, b" ")
        await left.wait()
    assert tracebacks(caplog) == []


async def test_an_answer_that_no_one_takes_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    left = anyio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(filling, send)
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()
            left.set()

    async def filling(send: Send) -> None:
        while True:
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
            await checkpoint()

    async with running(endless, bounded(stalled=SOON)) as port, AsyncExitStack() as stack:
        deaf = await connected(port, stack)
        await deaf.send(WHOLE)
        await left.wait()
    assert tracebacks(caplog) == []


@pytest.mark.slow
async def test_who_waits_for_an_answer_is_never_closed_or_pushed_out() -> None:
    go_on = anyio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await receive()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
            await send({"type": "http.response.body", "body": b"so", "more_body": True})
            await go_on.wait()
            await send({"type": "http.response.body", "body": b"on"})

    async with running(slow, bounded(connections=2, head=1, body=1)) as port, AsyncExitStack() as stack:
        first = await connected(port, stack)
        await first.send(WHOLE)
        assert (await first.receive()).startswith(b"HTTP/1.1 200")
        # Whoever owes something is closed after a while, or when another comes.
        assert await until_closed(await connected(port, stack)) == b""
        idle, second = await connected(port, stack), await connected(port, stack)
        assert await until_closed(idle) == b""
        await second.send(WHOLE)
        assert (await second.receive()).startswith(b"HTTP/1.1 200")
        # Both wait for their answers: there is no room for another, which is told so.
        assert (await until_closed(await connected(port, stack))).startswith(b"HTTP/1.1 503")
        go_on.set()
        for patient in (first, second):
            assert (await until_closed(patient)).endswith(b"on")  # and then it is idle, and closed


async def test_a_client_that_leaves_in_the_middle_leaves_no_traceback(settings: Settings) -> None:
    """The real server, of which a client leaves before, within and after its question and its answer."""
    async with served(settings) as (process, url):
        port = int(url.rpartition(":")[2].removesuffix("/mcp"))
        token = settings.token_file.read_text().strip()
        head = HEAD.replace(TOKEN, token) + TYPES
        asked = {"name": "teleport", "arguments": {"query": "refresh tokens", "project": "*"}}
        greeted = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        for method, params in (("tools/call", asked), ("initialize", greeted)):
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            whole = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
            for cut in (1, len(head) // 2, len(whole) - 5, len(whole)):
                async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                    await stream.send(whole[:cut])
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(whole)
                await stream.receive(1)
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(head.replace("POST", "GET").encode() + b"\r\n")
            await stream.receive(1)
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(whole.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nConnection: close\r\n"))
            assert (await until_closed(stream)).startswith(b"HTTP/1.1 200")
        if sys.platform != "win32":
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
        assert process.stderr is not None
        said = b"".join([part async for part in process.stderr])
    log = settings.home / "logs" / "mcp-memory.log"
    assert b"Traceback" not in said + (log.read_bytes() if log.exists() else b"")


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.exc_info or "Traceback" in record.getMessage()]
