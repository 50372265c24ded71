"""The viewer's addresses: each leads to a view and its template, or to one of the few writes.

Whatever is asked for by an id that is gone gets a page that says so and where to go on.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import anyio
from anyio import to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_memory import __version__
from mcp_memory.domain import toc
from mcp_memory.domain.events import Event, EventQuery, short_session
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.toc import Position
from mcp_memory.errors import BadId, MemoryFault, NotAllowed, NotFound, UsageError
from mcp_memory.navigate.answers import Answers
from mcp_memory.navigate.browse import Reach
from mcp_memory.surfaces.terminal import lasted
from mcp_memory.surfaces.web import lists, markup, views
from mcp_memory.surfaces.web.access import ENTRANCE, Access, Unsigned
from mcp_memory.surfaces.web.views import Asked, Data
from mcp_memory.surfaces.web.writes import WRITES

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.surfaces.doctor import Assessment
    from mcp_memory.surfaces.server import Memory

View = Callable[[Answers, Asked], Coroutine[Any, Any, Data]]

HERE = Path(__file__).parent
#: Pages by their address: the template, and the view that fills it.
PAGES: dict[str, tuple[str, View]] = {
    "/toc": ("toc.html", views.contents),
    "/node/{node_id}": ("node.html", views.node),
    "/node/{node_id}/history": ("history.html", views.history),
    "/day/{day}": ("day.html", views.day),
    "/grip/{grip_id}": ("grip.html", views.grip),
    "/search": ("search.html", lists.search),
    "/sessions": ("sessions.html", lists.sessions),
    "/session/{session_id:path}": ("session.html", views.session),
    "/stretch/{session_id:path}": ("stretch.html", views.stretch),
    "/files": ("files.html", lists.files),
    "/file": ("file.html", lists.file),
}
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
#: How often a page that is open looks for something new.
LOOK_SECONDS = 1.0
#: How many checks without news pass before the waiting work is sent anyway.
_IDLE_LOOKS = 15
#: How long the overview goes by what an examination found.
EXAMINED_SECONDS = 60.0
_LIVE = 30
#: After so long without an event a live page says that nothing came in lately.
_DAY_MS = 24 * 60 * 60 * 1000
#: Projects in a list to choose from; a team may have thousands.
MAX_LISTED = 200
ALL_PROJECTS = toc.Scope(None, None)


def viewer(site: Site) -> ASGIApp:
    """All pages. Who may see them is for the guard before it to decide."""
    routes: list[BaseRoute] = [Route("/", site.front), Route(ENTRANCE, site.enter, methods=["GET", "POST"])]
    routes += [Route(path, partial(site.show, *page)) for path, page in PAGES.items()]
    routes += [
        Route("/recalled", site.recalled),
        Route("/health", site.health),
        Route("/live", site.live),
        Route("/live/stream", site.stream),
        Route("/leave", site.leave, methods=["POST"]),
        Route("/static/{name}", static),
    ]
    routes += [Route(path, partial(write, site), methods=["GET", "POST"]) for path, write in WRITES.items()]
    routes.append(Route("/{rest:path}", site.nowhere))
    return with_headers(
        Starlette(
            routes=routes,
            exception_handlers={
                MemoryFault: site.trouble,
                HTTPException: site.refused,
                Exception: site.unforeseen,
            },
        )
    )


def with_headers(app: ASGIApp) -> ASGIApp:
    """Let every answer say what a page may do: load its own files, and nothing else."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, sent)

    return serve


class Site:
    """The memory that is looked at, and how its pages are written."""

    def __init__(self, memory: Memory, access: Access) -> None:
        self.memory = memory
        self.access = access
        self._health: Assessment | None = None
        self._examined = -math.inf

    async def app(self, request: Request) -> App:
        """The memory, as a page shows it."""
        return await self.memory.app()

    async def answers(self, request: Request) -> Answers:
        """What a person may ask: everything, whatever agents are kept from."""
        app = await self.app(request)
        renderer = replace(app.answers.renderer, typed=True)
        return replace(app.answers, reach=Reach.TEAM if app.viewer else Reach.EVERYTHING, renderer=renderer)

    async def read(self, view: View, request: Request) -> Data:
        asked = Asked(request.path_params, request.query_params)
        return await (await self.answers(request)).at_once(lambda here: view(here, asked))

    async def show(self, template: str, view: View, request: Request) -> Response:
        return await self.page(request, template, await self.read(view, request))

    async def page(self, request: Request, template: str, data: Mapping[str, Any], status: int = 200) -> Response:
        """A page, or for scripts only the part of it that changes."""
        app = await self.app(request)
        data = {"title": "", "project": None} | dict(data)
        slugs, asked = await app.store.slugs(), request.query_params.get("project", "")
        own = {
            "layout": "bare.html" if request.query_params.get("part") else "base.html",
            "path": request.url.path,
            # Links of a page keep to the project that is looked at, if there is one of that name.
            "asked_project": asked if asked in slugs else "",
            "slugs": slugs,
            "sign": self.access.form_sign(request.headers),
            "moment": partial(_moment, app.zone),
            "iso": _iso,
            "here": partial(_here, request),
            **await self.around(app, request),
        }
        # All links of a page keep to the person whose part is looked at.
        own["url"] = partial(url, person=own["asked_person"])
        assert own.keys().isdisjoint(data), "a view gives a name to something that every page has by it"
        return HTMLResponse(environment().get_template(template).render(own | data), status)

    async def around(self, app: App, request: Request) -> Data:
        """What else every page has: of a team whom it is shown to, and whose part is looked at."""
        return {"viewer": app.viewer, "people": (), "asked_person": ""}

    async def trouble(self, request: Request, error: Exception) -> Response:
        """What cannot be shown: why, and where to go on. An id that is gone gets the nearest that is there."""
        assert isinstance(error, MemoryFault)
        kinds: dict[type[MemoryFault], int] = {
            NotFound: 404,
            BadId: 404,
            NotAllowed: 403,
            Unsigned: 403,
            UsageError: 400,
        }
        status = next((number for kind, number in kinds.items() if isinstance(error, kind)), 503)
        near: Data = {"near": []}
        if status == 404 and self.memory.open and "node_id" in request.path_params:
            near = await self.read(views.near, request)
        data = {"title": "Not here" if status == 404 else "This did not work", "told": error.typed} | near
        if status == 503:
            return bare(error.typed, status)
        return await self.page(request, "trouble.html", data, status)

    async def refused(self, request: Request, error: Exception) -> Response:
        """What the server did not take: a form that is too long or broken, a way of asking that there is not."""
        assert isinstance(error, HTTPException)
        return bare(f"{error.detail.rstrip('.')}. Go back: what you wrote should still be there.", error.status_code)

    async def unforeseen(self, request: Request, error: Exception) -> Response:
        """What no one thought of: the log has it, and the page says so."""
        told = "Something went wrong here; the server's log has the details, and `mcp-memory doctor` looks further."
        return bare(told, 500)

    async def nowhere(self, request: Request) -> Response:
        return await self.trouble(request, NotFound(f"There is no page {request.url.path[:80]}."))

    async def front(self, request: Request) -> Response:
        app = await self.app(request)
        # Looked up first, so that nothing that comes in meanwhile is missed.
        position = _place(await app.store.position())
        data = await self.read(lists.front, request)
        pulse = await self.pulse(app)
        return await self.page(request, "overview.html", data | pulse | {"position": position})

    async def pulse(self, app: App) -> Data:
        """How it stands."""
        status = await app.status(brief=True)
        if self._health is None or time.monotonic() > self._examined + EXAMINED_SECONDS:
            self._health = await examine(app)
            self._examined = time.monotonic()
        model = app.settings.summarizer.kind != "extractive"
        return {"status": status, "health": self._health, "has_model": model}

    async def health(self, request: Request) -> Response:
        app, thorough = await self.memory.app(), bool(request.query_params.get("all"))
        told = {
            "health": await examine(app, thorough=thorough),
            "thorough": thorough,
            "facts": _facts(await app.status(brief=True)),
        }
        return await self.page(request, "health.html", {"title": "Health"} | told)

    async def recalled(self, request: Request) -> Response:
        app, here = await self.app(request), await self.answers(request)
        data = await lists.recalled(here, app.inbox, app.spending.now_ms(), Asked({}, request.query_params))
        return await self.page(request, "recalled.html", data)

    async def enter(self, request: Request) -> Response:
        """Log a browser in."""
        raise NotImplementedError

    async def leave(self, request: Request) -> Response:
        """Log a browser out."""
        raise NotImplementedError

    def is_logged_out(self, request: Request) -> bool:
        """Whether the browser that has a stream open has been logged out meanwhile."""
        return False

    async def live(self, request: Request) -> Response:
        app = await self.app(request)
        position = await app.store.position()
        here = await self.answers(request)
        scope = await views.scope_of(here, Asked({}, request.query_params))
        latest = await app.store.events(EventQuery(scope.project, last=_LIVE))
        data = {
            "title": "Live",
            "position": _place(position),
            "events": [_happened(event) for event in reversed(latest) if event.says_something],
            "quiet": not latest or latest[-1].timestamp_ms < app.clock.now_ms() - _DAY_MS,
            "waiting": await here.waiting(scope),
        }
        return await self.page(request, "live.html", data)

    async def stream(self, request: Request) -> Response:
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        news = self.news(since, request, request.query_params.get("project", ""))
        return StreamingResponse(news, media_type="text/event-stream")

    async def news(self, since: str, request: Request, project: str = "") -> AsyncGenerator[str]:
        """Tell what was captured and written since a place, or since now, as soon as it is.

        History that is imported is stored now and happened before, so it is no news.
        """
        app = await self.app(request)
        scope = toc.Scope(None, project if project in await app.store.slugs() else None)
        seen = _position(since) or await app.store.position()
        told: deque[int] = deque(maxlen=_LIVE)
        yield "retry: 2000\n\n"
        idle = 0
        version: tuple[object, int] | None = None
        while not self.is_logged_out(request):
            app = await self.app(request)
            idle += 1
            # A server tells of what is written, so that to have a page open asks it for nothing meanwhile.
            changes = app.whole.store, await app.store.changes(own=True)
            if changes == version and idle % _IDLE_LOOKS:
                await anyio.sleep(LOOK_SECONDS)
                continue
            version, now = changes, await app.store.position()
            if _place(now) == _place(seen) and idle % _IDLE_LOOKS:
                await anyio.sleep(LOOK_SECONDS)
                continue
            here = await self.answers(request)
            # Of a burst the latest are told.
            stored = await app.store.log(max(seen.events, now.events - _LIVE), scope.project, _LIVE)
            floor_ms = await _live_since(app, scope)
            events = [event for _, event in stored if _is_live(event, floor_ms)]
            told.extend(event.timestamp_ms for event in events)
            nodes = [
                node
                for node in await app.store.written_after(seen.versions, _LIVE)
                if scope.project in (None, node.project)
                and (node.end_ms >= floor_ms or any(node.start_ms <= at_ms <= node.end_ms for at_ms in told))
            ]
            row = environment().get_template("happened.html")
            news = {
                "events": [
                    row.render(event=_happened(event), moment=partial(_moment, app.zone), iso=_iso)
                    for event in events
                    if event.says_something
                ],
                "written": [
                    row.render(event=_written(node), moment=partial(_moment, app.zone), iso=_iso) for node in nodes
                ],
                "waiting": (await here.waiting(scope)).strip(),
            }
            seen = now
            yield f"id: {_place(now)}\nevent: news\ndata: {json.dumps(news)}\n\n"
            await anyio.sleep(LOOK_SECONDS)


async def _live_since(app: App, scope: toc.Scope) -> float:
    """Return the time of the oldest of the latest events: what happened before is history."""
    latest = await app.store.events(EventQuery(scope.project, last=_LIVE))
    return latest[0].timestamp_ms if len(latest) == _LIVE else -math.inf


def _is_live(event: Event, floor_ms: float) -> bool:
    return event.timestamp_ms >= floor_ms or event.metadata.get("via") == "hook"


async def examine(app: App, *, thorough: bool = False) -> Assessment:
    """Assess the memory's health."""
    from mcp_memory.surfaces import doctor

    return await to_thread.run_sync(partial(doctor.examine, thorough=thorough), app.settings)


def _facts(status: Mapping[str, Any]) -> Data:
    """What `status` knows, in words."""
    counted = {name: f"{status[name]:,}" for name in ("events", "sessions", "segments", "projects", "grips")}
    moments = {name: (status[name] or "never")[:16].replace("T", " ") for name in ("last_event", "last_rollup")}
    return {
        "data directory": status["home"],
        "storage": _size(status["db_bytes"]),
        **counted,
        "summaries": f"{status['nodes']:,}",
        "waiting": f"{status['inbox'] + status['spool']:,} payloads",
        "last event (UTC)": moments["last_event"],
        "last summary (UTC)": moments["last_rollup"],
        "time zone of the days": status["timezone"],
        "schema": status["schema"],
    }


def _place(position: Position) -> str:
    """A place in the news, as pages name it."""
    return f"{position.versions}-{position.events}"


def _position(place: str) -> Position | None:
    versions, events = map(views.whole, place.partition("-")[::2])
    return Position(versions, events, 0) if versions is not None and events is not None else None


def _happened(event: Event) -> Data:
    shown = views.said(event)
    return shown | {"href": f"/grip/{shown['grip']}", "project": event.project, "what": shown["role"]}


def _written(node: Node) -> Data:
    line = views.node_line(node)
    what = f"{line['level']} written, version {node.version}"
    told = {"href": f"/node/{line['id']}", "head": node.title, "at_ms": node.created_ms, "outcome": None}
    return line | told | {"what": what, "role": "pipeline"}


def bare(told: str, status: int, onward: str = "") -> Response:
    """A page that needs nothing of the memory; to a browser without a cookie it tells how to get in."""
    page = environment().get_template("closed.html").render(told=told, is_door=status == 401, onward=onward)
    return HTMLResponse(page, status, HEADERS)


def once_more(scope: Scope) -> Response:
    """A page that asks for the same address: then it is one of ours that does, and the cookie comes along."""
    address = url("/" + scope["path"].lstrip("/"))
    query = scope["query_string"].decode("latin-1")
    return bare("", 401, f"{address}?{query}" if query else address)


def closed_door(told: str = "") -> Response:
    response = bare(told, 401)
    response.headers["www-authenticate"] = "Bearer"
    return response


async def static(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "code.css":
        return Response(markup.code_styles(), media_type="text/css", headers=_CACHED)
    content = _static(name)
    if content is None:
        return Response("There is no such file.", 404)
    return Response(content, media_type=_KINDS[Path(name).suffix], headers=_CACHED)


_CACHED = {"cache-control": "private, max-age=86400"}


@lru_cache(maxsize=32)
def _static(name: str) -> bytes | None:
    path = HERE / "static" / Path(name).name
    return path.read_bytes() if path.suffix in _KINDS and path.is_file() else None


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates. Whatever is put into one is escaped, and cleared of what no screen shows."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: markup.visible(value) if type(value) is str else value,
    )
    made.globals |= {"version": __version__, "url": url, "length": lambda card: lasted(card.start_ms, card.end_ms)}
    made.filters |= {"size": _size, "short_session": short_session, "inline": markup.inline}
    made.filters["few"] = _few
    made.filters["capitalized"] = lambda text: text[:1].upper() + text[1:]
    return made


def url(path: str, /, **query: object) -> str:
    """An address of ours; what is empty is left out of the query."""
    given = {name: str(value) for name, value in query.items() if value not in ("", None)}
    return quote(path, safe="/:@+") + (f"?{urlencode(given)}" if given else "")


def _here(request: Request, **changes: object) -> str:
    """The address of this page with parts of its query changed."""
    query = {name: value for name, value in request.query_params.items() if name != "part"}
    return url(request.url.path, **{**query, **changes})


def _few(items: Sequence[Any], chosen: object = None) -> list[Any]:
    """As many as a list of a page has, and among them the one that was chosen."""
    few = list(items[:MAX_LISTED])
    return few if chosen in (None, "", *few) or chosen not in items else [chosen, *few[:-1]]


def _moment(zone: Any, at_ms: int, form: str = "%Y-%m-%d %H:%M") -> str:
    return datetime.fromtimestamp(at_ms / 1000, zone).strftime(form)


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _size(number: float) -> str:
    """1023 bytes, 740 KB, 12 MB, 1.4 GB."""
    for unit in ("bytes", "KB", "MB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GB"
