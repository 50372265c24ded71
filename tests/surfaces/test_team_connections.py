"""Connections to a team's server: who shows no token keeps no member out, however many connections it opens."""

from __future__ import annotations

import resource
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream

from mcp_memory.surfaces.http import listen, server_of
from mcp_memory.surfaces.team import connections
from mcp_memory.surfaces.team.connections import TeamConnection, connections_within, raise_file_limit
from tests.surfaces.certificates import certificate
from tests.surfaces.team_server import TeamDesk, team_server
from tests.surfaces.test_http_connections import connected, until_closed

pytestmark = pytest.mark.anyio
LIMIT = 60


@asynccontextmanager
async def listening(desk: TeamDesk, connection: type[TeamConnection]) -> AsyncIterator[int]:
    server = server_of(desk.guard, connection, lifespan="off", proxy_headers=False)
    with listen("127.0.0.1", 0, ()) as listener, anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: server.serve(sockets=[listener]))
            try:
                yield listener.getsockname()[1]
            finally:
                server.should_exit = True


async def answered(stream: SocketStream, desk: TeamDesk, name: str) -> bytes:
    head = f"GET /team/me HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {desk.tokens[name]}\r\n\r\n"
    await stream.send(head.encode())
    return await stream.receive()


async def test_strangers_of_one_address_keep_no_member_out(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, AsyncExitStack() as stack:
        async with listening(desk, TeamConnection.bounded(8, max_strangers=3)) as port:
            member = await connected(port, stack)
            assert (await answered(member, desk, "ada")).startswith(b"HTTP/1.1 200")
            idle = [await connected(port, stack) for _ in range(5)]
            # The oldest go as soon as there are more than three; who is a member stays, though it asks nothing.
            assert await until_closed(idle[0]) == await until_closed(idle[1]) == b""
            other = await connected(port, stack)
            assert (await answered(other, desk, "bob")).startswith(b"HTTP/1.1 200")
            assert (await answered(member, desk, "ada")).startswith(b"HTTP/1.1 200")


async def test_where_all_places_are_taken_strangers_go_before_members(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, AsyncExitStack() as stack:
        async with listening(desk, TeamConnection.bounded(3, max_strangers=None)) as port:
            members = [await connected(port, stack) for _ in range(2)]
            for member in members:
                assert (await answered(member, desk, "ada")).startswith(b"HTTP/1.1 200")
            strangers = [await connected(port, stack) for _ in range(4)]
            assert await until_closed(strangers[0]) == b""
            for member in members:
                assert (await answered(member, desk, "ada")).startswith(b"HTTP/1.1 200")


async def test_who_does_not_begin_tls_is_counted_and_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    trusted = ssl.create_default_context(cafile=str(cert))
    async with team_server(tmp_path / "home") as desk, AsyncExitStack() as stack:
        bearer = {"Authorization": f"Bearer {desk.tokens['ada']}"}
        async with listening(desk, TeamConnection.bounded(50, context, max_strangers=3)) as port:
            silent = [await connected(port, stack) for _ in range(6)]
            assert await until_closed(silent[0]) == await until_closed(silent[2]) == b""
            async with httpx2.AsyncClient(verify=trusted, base_url=f"https://127.0.0.1:{port}") as client:
                for _ in range(3):
                    assert (await client.get("/team/me", headers=bearer)).status_code == 200
            garbage = await connected(port, stack)
            await garbage.send(b"GET / HTTP/1.1\r\n\r\n")
            assert b"HTTP/1.1" not in await until_closed(garbage)
        monkeypatch.setattr(TeamConnection, "handshake_seconds", 0.1)
        async with listening(desk, TeamConnection.bounded(50, context)) as port:
            assert await until_closed(await connected(port, stack)) == b""


def test_the_server_asks_for_files_and_allows_no_more_connections_than_it_has() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 600), hard))
        most = 10**9 if hard == resource.RLIM_INFINITY else hard
        assert raise_file_limit(900) == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(900, most)
        assert raise_file_limit(500) >= min(900, most)  # never fewer than there are
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert connections_within(connections.WANTED_FILES) == connections.MAX_CONNECTIONS
    assert connections_within(1_024) < 1_024 - 100
    assert connections_within(100) == connections.MIN_CONNECTIONS
