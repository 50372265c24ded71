"""Every page of the viewer, asked for in process, beside a bare read of one row by its key in the same database."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlencode

import anyio
from starlette.types import Message

from bench.histories import database_of, invented, node_ids, opened
from bench.measure import Figure, in_turn, median, ms, p95
from bench.teleport import questions_of
from bench.years import CLIENTS, LONG_SESSION, PROJECTS, RARE_CLIENT, SMALL_PROJECT, add_years
from mcp_memory.app import App
from mcp_memory.config import Calendar, Settings
from mcp_memory.domain.events import ulid
from mcp_memory.domain.nodes import grip_id
from mcp_memory.domain.toc import Level
from mcp_memory.surfaces.http import Guard, http_app
from mcp_memory.surfaces.server import Memory

SIZE, LARGE = 100_000, 1_000_000
ROUNDS = 40
#: Each address counts by its fastest try, as in the benchmarks of search and navigation.
TRIES = 3
#: What takes long by nature is asked for less often.
_MOST_SECONDS = 20.0
AIM_MS = 200.0
_DAY_MS = 86_400_000
_TOKEN = "a-token-of-some-length"
_HEADERS = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {_TOKEN}".encode()), (b"accept", b"text/html")]
_BARE = "SELECT * FROM event WHERE id = ?"

#: The addresses of each view.
Views = Mapping[str, Sequence[str]]


def run(scratch: Path, *, large: bool) -> list[Figure]:
    return anyio.run(_run, scratch, LARGE if large else SIZE)


async def _run(scratch: Path, size: int) -> list[Figure]:
    print(f"   building {size:,} events", flush=True)
    home = await invented(scratch, size, add_years, "years")
    async with opened(home) as app:
        last_ms = await database_of(app).value("SELECT max(timestamp_ms) FROM event")
    settings = Settings(home=home, calendar=Calendar("UTC"), now_ms=last_ms + _DAY_MS)
    memory = Memory(settings)
    async with memory.running():
        app = await memory.app()
        views = await _views(app, home)
        taken, bare = await _timings(http_app(memory, _TOKEN), app, views)
    return [_figure(f"{name}, {size:,} events", seconds, bare) for name, seconds in taken.items()]


def _figure(name: str, seconds: Sequence[float], bare: Sequence[float]) -> Figure:
    key = median(bare)
    note = f"p95; p50 {ms(median(seconds))}; {median(seconds) / key:,.0f}× and {p95(seconds) / key:,.0f}× a read by key"
    return Figure(name, p95(seconds) * 1000, AIM_MS, " ms", f"{note} of {ms(key)}")


async def _timings(server: Guard, app: App, views: Views) -> tuple[dict[str, list[float]], list[float]]:
    """The seconds of the addresses of each view, and those of as many reads by key, taken in turn."""
    rng, database = random.Random(17), database_of(app)
    many = (await app.store.position()).events
    taken: dict[str, list[float]] = {}
    bare: list[float] = []
    print(f"   {'view':<46}{'p50':>10}{'p95':>10}")
    for name, addresses in views.items():
        await _get(server, addresses[0])
        pages, end = list[float](), time.perf_counter() + _MOST_SECONDS
        for address in addresses:
            row = (rng.randint(1, many),)
            pair = partial(_get, server, address), partial(database.fetch, _BARE, row)
            [page], [key] = await in_turn([pair], TRIES)
            pages.append(page)
            bare.append(key)
            if time.perf_counter() > end and len(pages) > 1:
                break
        taken[name] = pages
        print(f"   {name:<46}{ms(median(pages)):>10}{ms(p95(pages)):>10}", flush=True)
    return taken, bare


async def _get(server: Guard, address: str) -> None:
    """A page, asked for as a browser does that is logged in."""
    path, _, query = address.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": query.encode(),
        "headers": _HEADERS,
        "root_path": "",
        "scheme": "http",
    }
    statuses = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await server(scope, receive, send)
    if statuses != [200]:
        raise RuntimeError(f"{address} was answered with {statuses}.")


def _at(path: str, /, **query: object) -> str:
    return f"{path}?{urlencode(query)}" if query else path


async def _views(app: App, home: Path) -> dict[str, list[str]]:
    """Addresses spread over all of the memory, drawn with a fixed seed; what is rare is among the filters."""
    rng, database = random.Random(13), database_of(app)
    pages: dict[str, list[str]] = {
        "/": ["/"],
        "/ of a project": [_at("/", project=project) for project in (*PROJECTS, SMALL_PROJECT)],
        "/toc": ["/toc", _at("/toc", project=PROJECTS[0]), _at("/toc", project=SMALL_PROJECT)],
    }
    for level in Level:
        ids = rng.choices(await node_ids(app, level), k=ROUNDS)
        pages[f"/node of a {level.label}"] = [f"/node/{node_id}" for node_id in ids]
        pages[f"/node/…/history of a {level.label}"] = [f"/node/{node_id}/history" for node_id in ids]
    days = [name.split(":")[2].partition("@")[0] for name in rng.choices(await node_ids(app, Level.DAY), k=ROUNDS)]
    pages["/day"] = [f"/day/{day}" for day in days]
    grips = await database.fetch("SELECT timestamp_ms, key FROM grip WHERE live = 1 AND id % 97 = 0")
    pages["/grip"] = [f"/grip/{grip_id(*row)}" for row in rng.choices(grips, k=ROUNDS)]
    pages |= await _searches(app, home, rng)
    pages |= await _sessions(app, rng)
    pages |= {
        "/files": ["/files", _at("/files", offset=60), *(_at("/files", project=name) for name in PROJECTS)],
        "/files of a small project": [_at("/files", project=SMALL_PROJECT)],
        "/recalled": ["/recalled", *(_at("/recalled", project=name) for name in PROJECTS)],
        "/notes": ["/notes", _at("/notes", pinned=1), *(_at("/notes", project=name) for name in PROJECTS)],
        "/notes of a small project": [_at("/notes", project=SMALL_PROJECT)],
        "/live": ["/live"],
        "/health": ["/health"],
        "/forget, the form": ["/forget"],
    }
    names = await database.fetch("SELECT session_id FROM session WHERE id % 89 = 0")
    pages["/forget, preview of a session"] = [_at("/forget", session=name) for (name,) in names[:ROUNDS]]
    return {name: list(_enough(addresses)) for name, addresses in pages.items()}


def _enough(addresses: Sequence[str]) -> Iterator[str]:
    for nth in range(ROUNDS):
        yield addresses[nth % len(addresses)]


async def _searches(app: App, home: Path, rng: random.Random) -> dict[str, list[str]]:
    asked = questions_of(home / "memory.db")[:ROUNDS]
    paths = await _paths(app, rng)
    years = [name.split(":")[2][:4] for name in await node_ids(app, Level.YEAR)]
    months = [f"{rng.choice(years)}-{rng.randrange(1, 13):02}" for _ in asked]
    searched = {
        "/search": [_at("/search", q=text) for text in asked],
        "/search as one types": [
            _at("/search", q=text[:end], part=1) for text in asked for end in sorted(rng.sample(range(2, 20), 4))
        ],
        "/search, a later page": [_at("/search", q=text, offset=40) for text in asked],
        "/search in a project": [_at("/search", q=text, project=PROJECTS[nth % 3]) for nth, text in enumerate(asked)],
        "/search in a small project": [_at("/search", q=text, project=SMALL_PROJECT) for text in asked],
        "/search in a time": [_at("/search", q=text, when=month) for text, month in zip(asked, months, strict=True)],
        "/search for a time alone": [_at("/search", when=month) for month in months],
        "/search by kind": [_at("/search", q=text, kind="segment") for text in asked],
        "/search by role": [_at("/search", q=text, role="user") for text in asked],
        "/search by client": [_at("/search", q=text, client=CLIENTS[nth % 3]) for nth, text in enumerate(asked)],
        "/search by a rare client": [_at("/search", q=text, client=RARE_CLIENT) for text in asked],
        "/search by file": [_at("/search", q=text, file=path) for text, path in zip(asked, paths, strict=True)],
        "/search for a file alone": [_at("/search", file=path) for path in paths],
        "/file": [_at("/file", path=path) for path in paths],
    }
    searched["/search as one types"] = rng.sample(searched["/search as one types"], ROUNDS)
    return searched


async def _paths(app: App, rng: random.Random) -> list[str]:
    """Files that were changed, as often as that happened."""
    edited = (
        "SELECT json_extract(metadata, '$.files[0]') FROM event WHERE id BETWEEN ? AND ? + 40 AND text LIKE 'Edit:%'"
    )
    many, found = (await app.store.position()).events, list[str]()
    while len(found) < ROUNDS:
        first = rng.randint(1, many)
        found += [path for (path,) in (await database_of(app).fetch(edited, (first, first)))[:1]]
    return found


async def _sessions(app: App, rng: random.Random) -> dict[str, list[str]]:
    database = database_of(app)
    names = [f"s{rng.randrange(1, await database.value('SELECT count(*) FROM session') - 1)}" for _ in range(ROUNDS)]
    places = rng.choices(await database.fetch("SELECT start_ms, id FROM segment WHERE id % 31 = 0"), k=ROUNDS)
    long = await database.fetch(
        "SELECT timestamp_ms, key FROM event WHERE session = (SELECT id FROM session WHERE session_id = ?)",
        (LONG_SESSION,),
    )
    events = [ulid(*row) for row in rng.choices(long, k=ROUNDS)]
    return {
        "/sessions": ["/sessions"],
        "/sessions, a deep page": [_at("/sessions", before=f"{at_ms}-{number}") for at_ms, number in places],
        "/sessions of a project": [_at("/sessions", project=project) for project in PROJECTS],
        "/sessions of a small project": [_at("/sessions", project=SMALL_PROJECT)],
        "/sessions of a client": [_at("/sessions", client=client) for client in CLIENTS],
        "/sessions of a rare client": [_at("/sessions", client=RARE_CLIENT)],
        "/sessions of both": [_at("/sessions", project=PROJECTS[-1], client=CLIENTS[-1])],
        "/session": [f"/session/{name}" for name in names],
        "/session, its end": [_at(f"/session/{name}", end=1) for name in names],
        "/session, a long one": [f"/session/{LONG_SESSION}"],
        "/session, its middle": [_at(f"/session/{LONG_SESSION}", **{"from": event}) for event in events],
        "/stretch": [_at(f"/stretch/{LONG_SESSION}", until=event, part=1) for event in events],
    }
