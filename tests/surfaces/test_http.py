"""Streamable HTTP: who is let in, who is not, and that what works on stdio works here."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

import anyio
import httpx2
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent
from starlette.types import Message, Receive, Scope, Send

from mcp_memory.config import Settings
from mcp_memory.errors import SettingsError, StoreFull, UsageError
from mcp_memory.surfaces import cli, http
from mcp_memory.surfaces.http import (
    Guard,
    http_app,
    is_loopback,
    listen,
    listen_for_pages,
    listen_on_loopback,
    token_of,
)
from mcp_memory.surfaces.server import Memory
from mcp_memory.surfaces.web.local import write_login_page
from tests.support import touch_now

pytestmark = pytest.mark.anyio

TOKEN = "a-token-of-some-length"
GOOD = {"host": "127.0.0.1:8765", "authorization": f"Bearer {TOKEN}"}
LIMIT = 60


async def call(app: Any, headers: dict[str, str], path: str = "/mcp", method: str = "POST") -> tuple[int, Any]:
    """One request straight into an ASGI application: status and JSON body."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    await app({**scope, "headers": raw, "root_path": "", "scheme": "http"}, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(body) if body else None


async def open_door(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


REFUSED = [
    ({"authorization": ""}, 401, "Bearer"),
    ({"authorization": "Bearer wrong"}, 401, "Bearer"),
    ({"authorization": f"Basic {TOKEN}"}, 401, "Bearer"),
    ({"authorization": f"Bearer {TOKEN}x"}, 401, "Bearer"),
    ({"authorization": "Bearer \xe9"}, 401, "Bearer"),
    ({"host": "memory.example:8765"}, 421, "--allow-host"),
    ({"host": "127.0.0.1.example"}, 421, "--allow-host"),
    ({"host": "evil.example@127.0.0.1"}, 421, "--allow-host"),
    ({"host": ""}, 421, "--allow-host"),
    ({"host": "[::1"}, 421, "--allow-host"),
    ({"origin": "https://evil.example"}, 403, "Origin"),
    ({"origin": "http://localhost.evil.example"}, 403, "Origin"),
    ({"origin": "null"}, 403, "Origin"),
]


@pytest.mark.parametrize(("change", "status", "told"), REFUSED)
@pytest.mark.parametrize("path", ["/mcp", "/", "/anything/else"])
async def test_the_guard_refuses_on_every_route(
    blank: Settings, path: str, change: dict[str, str], status: int, told: str
) -> None:
    app = http_app(Memory(blank), TOKEN)
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        answered, body = await call(app, {**GOOD, **change}, path, method)
        assert answered == status
        assert told in body["error"]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"host": "localhost"},
        {"host": "[::1]:80"},
        {"host": "LOCALHOST:9"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://127.0.0.1"},
        {"authorization": f"bearer {TOKEN}"},
    ],
)
async def test_the_guard_lets_loopback_with_the_token_pass(change: dict[str, str]) -> None:
    assert await call(Guard(open_door, TOKEN), {**GOOD, **change}) == (200, None)


async def test_an_allow_list_adds_names_and_takes_no_check_away() -> None:
    guard = Guard(open_door, TOKEN, ["Memory.Example"])
    away = {**GOOD, "host": "memory.example:8765", "origin": "https://memory.example"}
    assert await call(guard, away) == (200, None)
    assert (await call(guard, {**away, "authorization": ""}))[0] == 401
    assert (await call(guard, {**away, "host": "other.example"}))[0] == 421
    assert (await call(guard, {**away, "origin": "https://other.example"}))[0] == 403


async def test_a_header_given_twice_is_refused() -> None:
    guard = Guard(open_door, TOKEN)
    good = [(name.encode(), value.encode()) for name, value in GOOD.items()]
    for extra, status in (((b"host", b"127.0.0.1"), 421), ((b"authorization", b"Bearer x"), 401)):
        refusal = guard.check({"type": "http", "method": "POST", "path": "/mcp", "headers": [*good, extra]})
        assert refusal is not None
        assert refusal.status_code == status


async def test_web_sockets_are_closed() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    await Guard(open_door, TOKEN)({"type": "websocket", "path": "/mcp", "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_the_token_is_made_once_for_its_user_alone(blank: Settings) -> None:
    token = token_of(blank)
    assert len(token) >= 32
    assert token_of(blank) == token
    if os.name == "posix":
        assert blank.token_file.stat().st_mode & 0o777 == 0o600
        assert blank.home.stat().st_mode & 0o777 == 0o700
        blank.token_file.chmod(0o644)
        token_of(blank)
        assert blank.token_file.stat().st_mode & 0o777 == 0o600


def test_a_token_that_cannot_be_kept_is_told_without_a_traceback(blank: Settings) -> None:
    blank.token_file.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "mcp_memory", "serve", "--http", "--port", "0"],
        env=os.environ | {"MCP_MEMORY_HOME": str(blank.home)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 1
    assert "cannot be kept" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_home_is_told(blank: Settings) -> None:
    blank.home.mkdir(mode=0o500)
    with pytest.raises(StoreFull, match="MCP_MEMORY_HOME"):
        token_of(blank)


def test_two_memories_have_two_tokens(blank: Settings, settings: Settings) -> None:
    assert token_of(blank) != token_of(settings)


def test_an_empty_token_file_opens_no_door(blank: Settings) -> None:
    blank.home.mkdir()
    blank.token_file.write_text("\n")
    with pytest.raises(SettingsError, match="Delete the file"):
        token_of(blank)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "memory.example"])
def test_other_machines_are_served_only_with_an_allow_list(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(UsageError, match="--allow-host"):
        listen(host, 0, [])


def test_a_taken_port_is_named() -> None:
    with listen("127.0.0.1", 0, []) as first:
        port = first.getsockname()[1]
        with pytest.raises(UsageError, match=f"{port} cannot be used.*--port"):
            listen("127.0.0.1", port, [])


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[tuple[anyio.abc.Process, str]]:
    """A server process on a free port, and its address."""
    environment = {**os.environ, "MCP_MEMORY_HOME": str(settings.home), "MCP_MEMORY_NOW": "2026-10-31T12:00:00Z"}
    command = [sys.executable, "-m", "mcp_memory", "serve", "--http", "--port", "0"]
    with anyio.fail_after(LIMIT):
        async with await anyio.open_process(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=settings.home.parent
        ) as process:
            try:
                assert process.stderr is not None
                said = (await BufferedByteReceiveStream(process.stderr).receive_until(b"\n", 10_000)).decode()
                found = re.search(r"http://\S+/mcp", said)
                assert found, said
                assert str(settings.token_file) in said
                yield process, found[0]
            finally:
                if process.returncode is None:
                    process.kill()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are a matter of POSIX")
async def test_a_client_with_the_token_asks_in_both_eras_and_a_signal_ends_the_server(settings: Settings) -> None:
    async with served(settings) as (process, url):
        assert url.startswith("http://127.0.0.1:")
        headers = {"Authorization": f"Bearer {settings.token_file.read_text().strip()}"}
        for era in ("auto", "legacy"):
            async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
                async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
                    result = await client.call_tool("teleport", {"query": "refresh tokens", "project": "*"})
                    (answer,) = result.content
                    assert isinstance(answer, TextContent)
                    assert "refresh" in answer.text
        async with httpx2.AsyncClient(timeout=30) as stranger:
            assert (await stranger.post(url, json={})).status_code == 401
            assert (await stranger.get(url.removesuffix("/mcp"))).status_code == 401
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.parametrize("port", ["99999", "65536", "-1", "http"])
def test_a_port_that_does_not_exist_is_wrong_usage(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.parser().parse_args(["serve", "--http", f"--port={port}"])
    assert left.value.code == 2
    assert "0 to 65535" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals are a matter of POSIX")
async def test_the_address_comes_as_json_if_asked_for(blank: Settings) -> None:
    command = [sys.executable, "-m", "mcp_memory", "serve", "--http", "--port", "0", "--json"]
    with anyio.fail_after(LIMIT):
        async with await anyio.open_process(
            command, env=os.environ | {"MCP_MEMORY_HOME": str(blank.home)}, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            said = json.loads(await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 10_000))
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", said["url"])
    assert said["token_file"] == str(blank.token_file)


@asynccontextmanager
async def shown(settings: Settings, tmp_path: Path) -> AsyncIterator[tuple[anyio.abc.Process, list[str], str]]:
    """`web` with a browser that only notes how it was started: the process, the browser's arguments, and stderr."""
    noted = tmp_path / "arguments"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$0" "$@" > {noted}.part && mv {noted}.part {noted}\n')
    browser.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in FORWARDED}
    environment |= {"MCP_MEMORY_HOME": str(settings.home), "BROWSER": f"{browser} %s", "DISPLAY": ":99"}
    command = [sys.executable, "-m", "mcp_memory", "web", "--port", "0"]
    with anyio.fail_after(LIMIT):
        async with await anyio.open_process(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=tmp_path
        ) as process:
            try:
                assert process.stderr is not None
                lines = BufferedByteReceiveStream(process.stderr)
                said = [(await lines.receive_until(b"\n", 10_000)).decode() for _ in range(4)]
                found = re.search(r"http://\S+/enter\?code=\S+", "\n".join(said))
                assert found, said
                # The browser is started before the server answers anyone.
                async with httpx2.AsyncClient(timeout=30) as http:
                    assert (
                        await http.get(found[0].partition("?")[0], headers={"accept": "text/html"})
                    ).status_code == 401
                yield process, noted.read_text().splitlines(), "\n".join(said)
            finally:
                if process.returncode is None:
                    process.kill()


FORWARDED = ("SSH_CONNECTION", "WSL_DISTRO_NAME", "CODESPACES", "REMOTE_CONTAINERS")


@pytest.mark.skipif(sys.platform != "linux", reason="the browser is set by an environment variable")
async def test_the_browser_is_started_with_a_private_file_and_no_code(blank: Settings, tmp_path: Path) -> None:
    async with shown(blank, tmp_path) as (process, arguments, said):
        [page] = [Path(url2pathname(urlsplit(word).path)) for word in arguments if word.startswith("file://")]
        assert "code" not in " ".join(arguments)
        assert str(page) in said
        assert page.parent == blank.home
        assert page.stat().st_mode & 0o777 == 0o600
        found = re.search(r'content="0;url=(http://\S+/enter\?code=[\w-]+)"', page.read_text())
        assert found
        assert found[1] not in said  # the printed link stays good
        followed = {"accept": "text/html", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        async with httpx2.AsyncClient(timeout=30) as http:
            answer = await http.get(found[1], headers=followed)
            assert answer.status_code == 200
            assert 'content="0;url=/"' in answer.text
            assert not page.exists()
            assert (await http.get(urljoin(found[1], "/"), headers={"accept": "text/html"})).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the browser is set by an environment variable")
async def test_a_page_that_was_not_used_goes_with_the_server(blank: Settings, tmp_path: Path) -> None:
    async with shown(blank, tmp_path) as (process, _, _):
        assert list(blank.home.glob("login-*.html"))
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert list(blank.home.glob("login-*.html")) == []


def test_a_page_of_a_killed_server_is_removed_by_the_next_one(blank: Settings) -> None:
    old = write_login_page(blank.home, "http://127.0.0.1/enter?code=x&y")
    assert "code=x&amp;y" in old.read_text()
    touch_now(old)
    young = write_login_page(blank.home, "http://127.0.0.1/enter")
    touch_now(young)
    os.utime(old, (1, 1))
    new = write_login_page(blank.home, "http://127.0.0.1/enter")
    assert set(blank.home.glob("login-*.html")) == {young, new}


@pytest.mark.skipif(sys.platform != "linux", reason="of the other systems, not each has further addresses")
async def test_pages_have_an_address_of_their_own_to_which_no_other_server_gets_the_cookie(
    blank: Settings, tmp_path: Path
) -> None:
    async with shown(blank, tmp_path) as (_, _, said):
        link = re.search(r"http://(\S+):(\d+)/enter\?code=\S+", said)
        mcp = re.search(r"http://(\S+):(\d+)/mcp", said)
        assert link
        assert mcp
        assert mcp[1] == "127.0.0.1"
        assert link[1] != "127.0.0.1"
        assert is_loopback(link[1])
        assert link[2] == mcp[2]
        usual = f"http://127.0.0.1:{mcp[2]}"
        async with httpx2.AsyncClient(timeout=30, headers={"accept": "text/html"}) as http:
            # A bookmark of the usual address leads there; the cookie is set nowhere else.
            moved = await http.get(f"{usual}/toc?project=a%20b")
            assert moved.status_code == 307
            assert moved.headers["location"] == f"http://{link[1]}:{link[2]}/toc?project=a%20b"
            token = blank.token_file.read_text().strip()
            refused = await http.post(f"{usual}/enter", data={"token": token}, headers={"origin": usual})
            assert refused.status_code == 401
            assert "set-cookie" not in refused.headers
            entered = await http.get(link[0])
            assert entered.status_code == 303
            assert "domain" not in entered.headers["set-cookie"].lower()
            assert (await http.get(f"http://{link[1]}:{link[2]}/toc")).status_code == 200
            bearer = {"authorization": f"Bearer {token}"}
            assert (await http.get(f"{usual}/toc", headers=bearer)).status_code == 200


def test_the_address_of_the_pages_stays_the_same_and_differs_between_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("of the other systems, not each has further addresses")
    for name in FORWARDED:
        monkeypatch.delenv(name, raising=False)
    found = []
    for token in ("one", "one", "another"):
        listener = listen_for_pages(token, 0)
        assert listener
        with listener:
            found.append(listener.getsockname()[0])
    assert found[0] == found[1] != found[2]
    assert all(map(is_loopback, found))
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 5 192.0.2.2 22")
    assert listen_for_pages("one", 0) is None


def test_without_further_addresses_the_usual_one_serves_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    def listen_as_on_macos(host: str, port: int, allow: object) -> socket.socket:
        if host not in ("127.0.0.1", "::1"):
            raise UsageError(f"{host} cannot be used")
        return listen(host, port, [])

    monkeypatch.setattr(http, "listen", listen_as_on_macos)
    assert listen_for_pages("one", 0) is None
    with listen_on_loopback(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
