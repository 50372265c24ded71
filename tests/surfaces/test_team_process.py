"""A team's server as a process: TLS, how it starts and ends, and a database that goes and comes back."""

from __future__ import annotations

import datetime
import json
import os
import resource
import secrets
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_memory.config import load
from mcp_memory.errors import TeamUnreachable, UsageError
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.surfaces import cli
from mcp_memory.surfaces.team.connections import WANTED_FILES
from mcp_memory.surfaces.team.serving import serve_team
from mcp_memory.team.account import TeamAccount
from mcp_memory.team.client import TeamClient
from tests.postgres import new_database, new_server, shared_server
from tests.surfaces.certificates import certificate
from tests.surfaces.client import ask
from tests.surfaces.shell import Shell
from tests.surfaces.team_server import YEAR_MS

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are a matter of POSIX"),
]
LIMIT = 90
NOW_MS = round(datetime.datetime.now(datetime.UTC).timestamp() * 1000)


class TeamProcess:
    """A server process: where it listens, and what it said."""

    def __init__(self, process: anyio.abc.Process, place: dict[str, str], told: str) -> None:
        self.process, self.place, self.told = process, place, told


@asynccontextmanager
async def serving(home: Path, url: str, *options: str, lines: int = 2) -> AsyncIterator[TeamProcess]:
    environment = os.environ | {"MCP_MEMORY_HOME": str(home), "MCP_MEMORY_STORE_URL": url}
    command = [sys.executable, "-m", "mcp_memory", "serve", "--http", "--team", "--port", "0", "--json", *options]
    with anyio.fail_after(LIMIT):
        async with await anyio.open_process(command, env=environment, stdin=subprocess.DEVNULL) as process:
            try:
                assert process.stdout
                assert process.stderr
                place = json.loads(await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 10_000))
                errors = BufferedByteReceiveStream(process.stderr)
                told = [(await errors.receive_until(b"\n", 10_000)).decode() for _ in range(lines)]
                yield TeamProcess(process, place, "\n".join(told))
            finally:
                if process.returncode is None:
                    process.kill()


async def member(url: str, name: str = "ada") -> str:
    async with PostgresStore.open(url) as store:
        return await store.add_user(name, "member", NOW_MS, NOW_MS + YEAR_MS)


@pytest.mark.slow
async def test_it_speaks_tls_to_who_verifies_it_in_both_eras_and_ends_on_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, (cert, key) = new_database(), certificate(tmp_path)
    token = await member(url)
    options = ("--tls-cert", str(cert), "--tls-key", str(key))
    async with serving(tmp_path / "home", url, *options) as server:
        assert server.place["url"].startswith("https://127.0.0.1:")
        assert server.place["join"] in server.told
        trusted, headers = ssl.create_default_context(cafile=str(cert)), {"Authorization": f"Bearer {token}"}
        for era in ("auto", "legacy"):
            async with httpx2.AsyncClient(headers=headers, timeout=30, verify=trusted) as http:
                stream = streamable_http_client(server.place["url"], http_client=http)
                async with Client(stream, mode=era) as client:
                    assert "Nothing" in await ask(client, "toc_root")
        careful = TeamClient(TeamAccount(server.place["join"], "ada", token))
        with pytest.raises(TeamUnreachable, match="(?i)certificate.* name its file in SSL_CERT_FILE"):
            await careful.get("/team/me")
        await careful.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert (await careful.get("/team/me"))["name"] == "ada"
        await careful.close()
        async with httpx2.AsyncClient(timeout=30) as plain:
            with pytest.raises(httpx2.HTTPError):
                await plain.get(server.place["join"].replace("https", "http"))
        server.process.send_signal(signal.SIGTERM)
        assert await server.process.wait() == 0


@pytest.mark.slow
async def test_a_database_that_is_away_at_the_start_or_goes_later_is_waited_for(tmp_path: Path) -> None:
    database = new_server()
    url = database.new_database()
    await anyio.to_thread.run_sync(database.stop)
    async with serving(tmp_path / "home", url) as server:
        async with httpx2.AsyncClient(base_url=server.place["join"], timeout=60) as someone:
            for _ in range(2):
                for path in ("/team/me", "/"):
                    away = await someone.get(path, headers={"authorization": "Bearer mcpm_any"})
                    assert away.status_code == 503
                    assert int(away.headers["retry-after"]) > 0
                    assert "Traceback" not in away.text
                    assert "postgresql://" not in away.text
                    assert "cannot be used just now" in away.text
                await anyio.to_thread.run_sync(database.start)
                while (again := await someone.get("/team/me")).status_code == 503:
                    pass
                assert again.status_code == 401
                token = await member(url, f"ada-{secrets.token_hex(2)}")
                known = await someone.get("/team/me", headers={"authorization": f"Bearer {token}"})
                assert known.json()["role"] == "member"
                await anyio.to_thread.run_sync(database.stop)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--host", "0.0.0.0", "--allow-host", "memory.example"), "must not go there unencrypted"),
        (("--host", "0.0.0.0", "--behind-proxy"), "--allow-host"),
        (("--tls-cert", "nowhere.pem"), "belong together"),
        (("--tls-cert", "nowhere.pem", "--tls-key", "nowhere.key"), "no certificate and key"),
    ],
)
async def test_it_does_not_start_where_tokens_would_be_in_the_clear(
    tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    settings = load({"MCP_MEMORY_HOME": str(tmp_path), "MCP_MEMORY_STORE_URL": "postgresql://nobody@127.0.0.1:9/x"})
    given = cli.parser().parse_args(["serve", "--http", "--team", "--port", "0", *options])
    with pytest.raises(UsageError, match=told):
        await serve_team(settings, given)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ("--http", "--tls-cert", "a.pem", "--tls-key", "a.key"),
            "--tls-cert is for the server of a team: give --team",
        ),
        (("--http", "--behind-proxy"), "--behind-proxy is for the server of a team: give --team"),
        (("--team",), "give --http as well"),
    ],
)
def test_what_it_would_ignore_is_refused(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    assert cli.main(["serve", *options]) == 2
    assert told in capsys.readouterr().err


async def test_without_a_database_it_says_what_to_set(tmp_path: Path) -> None:
    given = cli.parser().parse_args(["serve", "--http", "--team"])
    with pytest.raises(UsageError, match=r"\[store\] url"):
        await serve_team(load({"MCP_MEMORY_HOME": str(tmp_path)}), given)


@pytest.mark.slow
async def test_who_starts_it_is_told_once_why_the_memory_cannot_be_opened(tmp_path: Path) -> None:
    async with serving(tmp_path / "home", "postgresql://nobody:geheim@127.0.0.1:9/x", lines=3) as server:
        assert "postgresql://nobody:…@127.0.0.1:9/x cannot be reached" in server.told
        async with httpx2.AsyncClient(base_url=server.place["join"], timeout=60) as someone:
            assert (await someone.get("/team/me", headers={"authorization": "Bearer mcpm_any"})).status_code == 503
        server.process.send_signal(signal.SIGTERM)
        assert server.process.stderr
        assert "cannot be reached" not in "".join([part.decode() async for part in server.process.stderr])


async def test_a_user_who_may_make_no_role_for_members_is_told_at_the_start_and_by_doctor(tmp_path: Path) -> None:
    server, shell = shared_server(), Shell(tmp_path)
    name = f"plain_{secrets.token_hex(4)}"
    server.sql(f"CREATE ROLE {name} LOGIN")
    url = server.new_database().replace("memory@", f"{name}@")
    server.sql(f"ALTER DATABASE {url.rpartition('/')[2]} OWNER TO {name}")
    shell.environment["MCP_MEMORY_STORE_URL"] = url
    await anyio.to_thread.run_sync(lambda: shell.json("team", "user", "add", "ada"))
    async with serving(tmp_path / "home", url, lines=3) as process:
        assert f'CREATE ROLE "mcp_memory_viewer_{name}" NOLOGIN' in process.told
    found = await anyio.to_thread.run_sync(lambda: shell.run("doctor"))
    assert "members cannot read\n" in found.stdout
    assert f'ALTER ROLE "{name}" CREATEROLE' in found.stdout


async def test_a_first_start_tells_how_to_add_someone(tmp_path: Path) -> None:
    async with serving(tmp_path / "home", new_database(), lines=3) as server:
        assert "mcp-memory team user add NAME" in server.told


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="only Linux tells the limits of a process")
async def test_the_server_has_files_for_its_connections_though_it_is_started_with_few(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 700), hard))
    try:
        async with serving(tmp_path / "home", new_database()) as server:
            limits = Path(f"/proc/{server.process.pid}/limits").read_text()
            [files] = [line.split()[3] for line in limits.splitlines() if line.startswith("Max open files")]
            most = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
            assert int(files) == most
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
