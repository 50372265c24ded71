"""The server as a process: how it starts, shares its memory, and ends."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent

from mcp_memory import sample
from mcp_memory.app import open_app
from mcp_memory.clients import CLIENTS
from mcp_memory.config import Settings
from mcp_memory.pipeline.importing import import_files
from tests.support import conversation, tell

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are a matter of POSIX"),
]

SERVE = [sys.executable, "-m", "mcp_memory", "serve"]
#: Generous: it bounds a hang, it does not measure.
LIMIT = 60
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ASK = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "toc_root", "arguments": {}}}


def environment(settings: Settings) -> dict[str, str]:
    given = {"MCP_MEMORY_HOME": str(settings.home), "MCP_MEMORY_NOW": "2026-10-31T12:00:00Z"}
    return {**os.environ, **given, "MCP_MEMORY_CALENDAR_TIMEZONE": "UTC", "MCP_MEMORY_PROJECT": settings.project}


class Served:
    """A server process and the wire to it."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self.process = process
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(line)

    async def tell(self, message: dict[str, Any]) -> None:
        await self.send(json.dumps(message).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self._lines.receive_until(b"\n", 1_000_000))
        return answer

    async def greet(self) -> None:
        await self.tell(INITIALIZE)
        assert (await self.hear())["result"]["serverInfo"]["name"] == "memory"
        await self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def hang_up(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[Served]:
    with anyio.fail_after(LIMIT):
        async with await anyio.open_process(
            SERVE, env=environment(settings), stderr=subprocess.DEVNULL, cwd=settings.home.parent
        ) as process:
            try:
                yield Served(process)
            finally:
                if process.returncode is None:
                    process.kill()


def sound(settings: Settings) -> bool:
    connection = sqlite3.connect(settings.database)
    try:
        return bool(connection.execute("PRAGMA integrity_check").fetchone() == ("ok",))
    finally:
        connection.close()


async def test_it_ends_when_its_input_ends(settings: Settings) -> None:
    async with served(settings) as server:
        await server.greet()
        await server.tell(ASK)
        assert "toc:year:2026" in (await server.hear())["result"]["content"][0]["text"]
        await server.hang_up()
        assert await server.process.wait() == 0
    assert sound(settings)


async def test_it_ends_when_no_client_ever_speaks(settings: Settings) -> None:
    async with served(settings) as server:
        await server.hang_up()
        assert await server.process.wait() == 0


@pytest.mark.parametrize(
    "signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]], ids=["int", "term", "int-term"]
)
@pytest.mark.parametrize("when", ["greeted", "open"])
async def test_a_signal_ends_it_while_its_input_stays_open(
    settings: Settings, signals: list[signal.Signals], when: str
) -> None:
    async with served(settings) as server:
        await server.greet()
        if when == "open":
            await server.tell(ASK)
            await server.hear()
        for number in signals:
            server.process.send_signal(number)
        assert await server.process.wait() == 0
    assert sound(settings)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["eof", "term"])
async def test_ending_amid_work_leaves_a_memory_that_goes_on(blank: Settings, tmp_path: Path, ending: str) -> None:
    history = tmp_path / "long.jsonl"
    lines = [
        json.dumps(line | {"session_id": f"{line['session_id']}-{copy}", "source_id": f"{line['source_id']}-{copy}"})
        for copy in range(8)
        for line in sample.lines()
    ]
    history.write_text("\n".join(lines), encoding="utf-8")
    async with open_app(blank) as app:
        await import_files(app.store, app.inbox, [(CLIENTS["jsonl"], history)], app.intaker)
    async with served(blank) as server:
        await server.greet()
        await server.tell(ASK)
        await server.hear()
        if ending == "eof":
            await server.hang_up()
        else:
            server.process.send_signal(signal.SIGTERM)
        assert await server.process.wait() == 0
    assert sound(blank)
    with anyio.fail_after(LIMIT):
        async with open_app(blank) as app:
            await app.pipeline.until_idle()
            counts = await app.store.counts()
            assert counts.events == len(lines)
            assert counts.dirty_sessions == counts.dirty_segments == counts.dirty_nodes == 0
            assert counts.nodes > 0


@pytest.mark.slow
async def test_two_servers_share_one_memory(settings: Settings, tmp_path: Path) -> None:
    parameters = StdioServerParameters(
        command=SERVE[0], args=SERVE[1:], env=environment(settings), cwd=settings.home.parent
    )
    with (tmp_path / "log").open("w") as log, anyio.fail_after(LIMIT):
        async with (
            Client(stdio_client(parameters, errlog=log)) as one,
            Client(stdio_client(parameters, errlog=log), mode="legacy") as other,
        ):
            for speaker, word in ((one, "ocelot"), (other, "axolotl")):
                result = await speaker.call_tool("remember", {"text": f"The {word} job runs at night."})
                assert not result.is_error
            for listener in (one, other):
                for word in ("ocelot", "axolotl"):
                    (answer,) = (await listener.call_tool("teleport", {"query": word})).content
                    assert isinstance(answer, TextContent)
                    assert f"The {word} job runs at night." in answer.text
    assert (tmp_path / "log").read_text() == ""


async def test_only_messages_go_to_stdout(blank: Settings) -> None:
    """Even a memory that cannot be opened tells so on the wire and on stderr, never in between messages."""
    blank.home.mkdir()
    blank.database.write_bytes(b"junk" * 2_000)
    async with served(blank) as server:
        await server.greet()
        await server.tell(ASK)
        answer = await server.hear()
        assert answer["result"]["isError"] is True
        assert "is damaged" in answer["result"]["content"][0]["text"]


def _call(line_id: object, argument: str) -> bytes:
    """A call as JavaScript writes it; Python would not write half a character."""
    return (
        b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"teleport","arguments":{"query":%s}}}\n'
        % (
            json.dumps(line_id).encode(),
            argument.encode(),
        )
    )


async def test_a_question_with_half_a_character_is_answered(settings: Settings) -> None:
    async with served(settings) as server:
        await server.greet()
        await server.send(_call("a", r'"gateway \ud83d"'))
        answer = await server.hear()
        assert answer["id"] == "a"
        assert "isError" not in answer["result"] or answer["result"]["isError"] is False


async def test_a_question_that_cannot_be_read_is_answered_with_an_error(settings: Settings) -> None:
    async with served(settings) as server:
        await server.greet()
        await server.send(_call(7, "[" * 400 + "]" * 400))
        nested = await server.hear()
        assert (nested["id"], nested["result"]["isError"]) == (7, True)
        await server.send(_call(8, "[" * 100_000))
        unreadable = await server.hear()
        assert (unreadable["id"], unreadable["error"]["code"]) == (8, -32700)
        await server.send(b'{"jsonrpc":"2.0","id":"list","method":"tools/call","params":[1]}\n')
        malformed = await server.hear()
        assert (malformed["id"], malformed["error"]["code"]) == ("list", -32600)
        for no_request in (b"no JSON at all", b"[]", b"null", b'{"jsonrpc":"2.0","id":2}', b'{"id":true,"method":"x"}'):
            await server.send(no_request + b"\n")
        await server.tell(ASK)
        assert (await server.hear())["id"] == 2


MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
WATCHED = ["memory://toc", "memory://node/toc:day:2026-10-31"]


def request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@pytest.mark.slow
@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_a_subscriber_is_told_on_the_wire_what_another_process_wrote(settings: Settings, era: str) -> None:
    async with served(settings) as server:
        if era == "2026-07-28":
            listening = {"notifications": {"resourceSubscriptions": WATCHED, "toolsListChanged": True}, "_meta": MODERN}
            await server.tell(request(7, "subscriptions/listen", listening))
            said = await server.hear()
            assert said["method"] == "notifications/subscriptions/acknowledged"
            assert said["params"]["notifications"] == {"resourceSubscriptions": WATCHED}
        else:
            await server.greet()
            for number, uri in enumerate(WATCHED, 2):
                await server.tell(request(number, "resources/subscribe", {"uri": uri}))
                assert (await server.hear())["result"] == {}
        async with open_app(settings) as other:
            await tell(other, conversation("2026-10-31", project="tidepool-api"))
        told: set[str] = set()
        while told != set(WATCHED):
            said = await server.hear()
            assert said["method"] == "notifications/resources/updated"
            meta = {"io.modelcontextprotocol/subscriptionId": 7} if era == "2026-07-28" else None
            assert said["params"].get("_meta") == meta
            told.add(said["params"]["uri"])
        await server.hang_up()
        assert await server.process.wait() == 0
