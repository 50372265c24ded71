"""A team under load: 50 laptops push while 50 agents ask, then the same while servers are killed every few seconds.

The server is the real one, in a process of its own, on a PostgreSQL server with its usual settings. Laptops and agents
are simulated by their requests alone, so that two cores measure the server and not fifty interpreters.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx2 as httpx
import psycopg

from bench.measure import REPO, Figure, p95
from mcp_memory.domain.events import event_key, ulid
from mcp_memory.store.postgres.store import PostgresStore
from tests.postgres import Server, free_port, new_server, programs

LAPTOPS, AGENTS = 50, 50
#: Portions and events of each that a laptop pushes.
_PORTIONS, _EVENTS = 8, 60
#: Seconds between two kills, and how often each of the servers is killed.
_EVERY, _KILLS = 4.0, 4
_START_MS = 1_790_000_000_000
_PATIENCE = 60.0
_WORDS = "parser cache deploy migration token index queue retry schema login worker build latency proxy bucket".split()
#: What a developer adds in a year, as measured of heavy and of usual use.
_A_YEAR = (92_000, 152_000)
_PEOPLE, _YEARS = 50, 10


@dataclass
class Told:
    """What came of the requests."""

    answers: list[float] = field(default_factory=list)
    pushes: list[float] = field(default_factory=list)
    failed: int = 0


@dataclass
class TeamServer:
    """The server of the team, as often as it has to be started."""

    home: Path
    url: str
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def env(self) -> dict[str, str]:
        return {**os.environ, "MCP_MEMORY_HOME": str(self.home), "MCP_MEMORY_STORE_URL": self.url}

    async def members(self) -> list[str]:
        """The tokens of as many members as there are laptops."""
        now = time.time_ns() // 1_000_000
        async with PostgresStore.open(self.url) as store:
            return [
                await store.add_user(f"dev{number:02}", "member", now, now + 86_400_000)
                for number in range(max(LAPTOPS, AGENTS))
            ]

    def start(self) -> None:
        words = ["serve", "--http", "--team", "--port", str(self.port)]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mcp_memory", *words],
            env=self.env(),
            cwd=REPO,
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
        )

    def kill(self) -> None:
        if self.process:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


def lines_of(laptop: int, portion: int) -> bytes:
    """A portion as a laptop sends it: a session of its own each day, in one of eight projects."""
    chance = random.Random(laptop * 1_000 + portion)
    session, client = f"session-{laptop}-{portion}", "claude-code"
    lines: list[dict[str, Any]] = [{"format": 1}]
    for number in range(_EVENTS):
        at_ms = _START_MS + portion * 86_400_000 + laptop * 60_000 + number * 20_000
        words = " ".join(chance.choice(_WORDS) for _ in range(40))
        role = ("user", "assistant", "tool", "assistant")[number % 4]
        lines.append(
            {
                "event_id": ulid(at_ms, event_key(client, session, f"id:{number}")),
                "client": client,
                "session_id": session,
                "project": f"project-{laptop % 8}",
                "remote": f"git.example.org/team/project-{laptop % 8}",
                "timestamp": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z"),
                "role": role,
                "event_type": {"user": "user_message", "assistant": "assistant_message", "tool": "tool_result"}[role],
                "text": f"Laptop {laptop} on day {portion}, step {number}: {words}.",
                "source_ids": [f"{session}:{number}"],
                "metadata": {},
            }
        )
    return gzip.compress("\n".join(map(json.dumps, lines)).encode(), 5)


async def push(base: str, token: str, laptop: int, told: Told) -> None:
    """All portions of a laptop, each again and again until the server has taken it."""
    headers = {"Authorization": f"Bearer {token}", "Content-Encoding": "gzip", "Content-Type": "application/x-ndjson"}
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=30) as client:
        for portion in range(_PORTIONS):
            body, started = lines_of(laptop, portion), time.perf_counter()
            while True:
                try:
                    answer = await client.post("/team/push", content=body)
                    if answer.status_code == 200 and not answer.json()["refused"]:
                        break
                    told.failed += 1
                except httpx.HTTPError:
                    told.failed += 1
                await asyncio.sleep(random.uniform(0.1, 0.5))
            told.pushes.append(time.perf_counter() - started)


async def ask(base: str, token: str, agent: int, told: Told, done: anyio.Event) -> None:
    """An agent that searches, waits a while, and searches again. Failures are counted, and slow answers are answers."""
    chance = random.Random(agent)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=30) as client:
        while not done.is_set():
            words = " ".join(chance.sample(_WORDS, 3))
            asked = {"tool": "teleport", "arguments": {"query": words, "project": "*", "limit": 5}}
            started = time.perf_counter()
            try:
                answer = await client.post("/team/ask", json=asked)
                if answer.status_code == 200:
                    told.answers.append(time.perf_counter() - started)
                else:
                    told.failed += 1
            except httpx.HTTPError:
                told.failed += 1
            with anyio.move_on_after(chance.uniform(1.0, 3.0)):
                await done.wait()


async def load(
    server: TeamServer, tokens: list[str], disturb: Callable[[anyio.Event], Any] | None = None
) -> tuple[Told, float]:
    """What came of it, and how many seconds all pushes took."""
    told, done = Told(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        for agent in range(AGENTS):
            tasks.start_soon(ask, server.base, tokens[agent], agent, told, done)
        if disturb:
            tasks.start_soon(disturb, done)
        started = time.perf_counter()
        async with anyio.create_task_group() as laptops:
            for laptop in range(LAPTOPS):
                laptops.start_soon(push, server.base, tokens[laptop], laptop, told)
        seconds = time.perf_counter() - started
        done.set()
    return told, seconds


async def up(server: TeamServer, token: str) -> None:
    """Until the server answers."""
    async with httpx.AsyncClient(base_url=server.base, timeout=5) as client:
        with anyio.fail_after(_PATIENCE):
            while True:
                with suppress(httpx.HTTPError):
                    if (await client.get("/team/me", headers={"Authorization": f"Bearer {token}"})).status_code == 200:
                        return
                await asyncio.sleep(0.1)


@asynccontextmanager
async def team(scratch: Path, name: str) -> AsyncIterator[tuple[Server, TeamServer, list[str]]]:
    """A running team of as many members as there are laptops, with their tokens."""
    database = new_server("max_connections=100", "shared_buffers=256MB")
    home = scratch / name
    home.mkdir(parents=True, exist_ok=True)
    server = TeamServer(home, database.new_database(), free_port())
    try:
        tokens = await server.members()
        server.start()
        await up(server, tokens[0])
        yield database, server, tokens
    finally:
        server.kill()
        database.stop()


def stored(server: TeamServer) -> tuple[int, int, int, int]:
    """How many events there are, how many different ones, sessions with the wrong author, and bytes on disk."""
    with psycopg.connect(server.url) as connection:
        connection.execute("SET search_path = mcp_memory")
        row = connection.execute(
            "SELECT count(*), count(DISTINCT key), "
            "(SELECT count(*) FROM session WHERE author <> 'dev' || lpad(split_part(session_id, '-', 2), 2, '0')), "
            "(SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            " WHERE n.nspname = 'mcp_memory' AND c.relkind IN ('r', 'p')) FROM event"
        ).fetchone()
    assert row
    return int(row[0]), int(row[1]), int(row[2]), int(row[3])


def run(scratch: Path, *, large: bool) -> list[Figure]:
    if programs() is None:
        return [Figure("skipped: needs PostgreSQL (Debian: apt install postgresql)", 0, unit="")]
    return anyio.run(_figures, scratch)


async def _figures(scratch: Path) -> list[Figure]:
    wanted = LAPTOPS * _PORTIONS * _EVENTS
    async with team(scratch, "calm") as (_, server, tokens):
        calm, seconds = await load(server, tokens)
        events, different, foreign, size = stored(server)
    async with team(scratch, "killed") as (database, server, tokens):

        async def kill(done: anyio.Event) -> None:
            for number in range(2 * _KILLS):
                with anyio.move_on_after(_EVERY):
                    await done.wait()
                if number % 2:
                    await anyio.to_thread.run_sync(_kill_database, database)
                else:
                    await anyio.to_thread.run_sync(server.kill)
                    server.start()

        killed, _ = await load(server, tokens, kill)
        await up(server, tokens[0])
        left = stored(server)
    return [
        Figure(f"{LAPTOPS} laptops push while {AGENTS} agents ask: events a second", events / seconds, unit=""),
        Figure("answers meanwhile, p95", p95(calm.answers) * 1000, unit=" ms", note=f"{len(calm.answers)} answers"),
        Figure("a portion of 60 events until it is taken, p95", p95(calm.pushes) * 1000, unit=" ms"),
        Figure("events lost", wanted - different, 0, unit=""),
        Figure("events doubled", events - different, 0, unit=""),
        Figure("sessions with a wrong author", foreign + left[2], 0, unit=""),
        Figure("bytes on disk for each event", size / events, unit=" B"),
        *_growth(size / events),
        Figure("killed every few seconds: events lost", wanted - left[1], 0, unit=""),
        Figure("killed every few seconds: events doubled", left[0] - left[1], 0, unit=""),
        Figure("killed every few seconds: requests that had to be repeated", killed.failed, unit=""),
        Figure("killed every few seconds: answers, p95", p95(killed.answers) * 1000, unit=" ms"),
    ]


def _growth(size: float) -> list[Figure]:
    """What fifty developers come to in ten years, from the measured slope."""
    figures = []
    for name, a_year in zip(("usual", "heavy"), _A_YEAR, strict=True):
        events = a_year * _PEOPLE * _YEARS
        figures.append(Figure(f"{_PEOPLE} developers in {_YEARS} years, {name}: events", events / 1e6, unit=" M"))
        figures.append(
            Figure(f"{_PEOPLE} developers in {_YEARS} years, {name}: on disk", events * size / 1e9, unit=" GB")
        )
    return figures


def _kill_database(database: Server) -> None:
    """Kill the server with all its processes, and start it again."""
    pid = int((database.data / "postmaster.pid").read_text().split()[0])
    subprocess.run(["pkill", "-KILL", "-P", str(pid)], check=False)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for _ in range(50):
        try:
            database.start()
            return
        except subprocess.CalledProcessError:
            time.sleep(0.2)
