"""What laptops ask of a team's server, beside MCP: JSON under /team/. The guard before it has told who asks.

Of what a laptop pushes, nothing it says of itself is believed: author and visibility follow from the token, and each
text goes through redaction and clipping once more, so that a secret that an older version let through ends here.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from mcp_memory import __version__
from mcp_memory.clients.jsonl import event_of_line
from mcp_memory.clients.lines import UnreadableLine
from mcp_memory.domain.events import TEAM, Captured, Event, Intake, parse_ulid
from mcp_memory.domain.text import one_line
from mcp_memory.errors import (
    UPDATE,
    BadId,
    MemoryFault,
    NotAllowed,
    NotFound,
    StoreError,
    TooLarge,
    UsageError,
)
from mcp_memory.pipeline.ingest import Intaker, by_session
from mcp_memory.surfaces.team.asking_routes import ask
from mcp_memory.surfaces.team.identity import current

if TYPE_CHECKING:
    from mcp_memory.surfaces.team.serving import TeamMemory

Handler = Callable[["TeamMemory", Request], Awaitable[Mapping[str, Any]]]
_STATUS: dict[type[MemoryFault], int] = {
    NotAllowed: 403,
    NotFound: 404,
    TooLarge: 413,
    UsageError: 400,
    StoreError: 503,
}

#: What a push is written in.
FORMAT = 1
#: Bytes of a body as it comes and as it is unpacked, and lines of it. A laptop sends far less at once.
MOST_SENT, MOST_BYTES, MOST_LINES = 16_000_000, 96_000_000, 5_000
#: No event is from before this time, and none from so long after now: each quarter of the calendar is a table.
_EARLIEST_MS, _AHEAD_MS = 0, 2 * 24 * 3_600_000
_NOTES = "notes:"
_ID_CHARS, _REASON_CHARS = 40, 200


async def me(memory: TeamMemory, request: Request) -> Mapping[str, Any]:
    """Who the token says one is, and which projects there are for that member."""
    viewer, store = current(), await memory.register()
    readable = set(await store.seen_by(viewer).slugs())
    projects = [project for project in await store.team_projects() if project.slug in readable]
    return {
        "name": viewer.name,
        "role": viewer.role,
        "server": (await store.identity())[0],
        "version": __version__,
        "projects": [
            {"slug": one.slug, "remote": one.remote, "root": one.root, "open": not one.members} for one in projects
        ],
    }


@dataclass(slots=True)
class _Portion:
    """Lines that were understood, and those that are refused with the reason, by the ids that they bear."""

    captured: list[Captured] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)


async def push(memory: TeamMemory, request: Request) -> Mapping[str, Any]:
    """Take events of a member's into the team's memory. Doing it again changes nothing."""
    viewer = current()
    viewer.must_write()
    body = await _body(request)
    app, store = await memory.whole(), await memory.register()
    async with memory.taking_in:
        portion = await to_thread.run_sync(_read, body, _now_ms())
        events = await to_thread.run_sync(_prepared, app.intaker, portion.captured)
        intakes = _intakes(events, portion.captured, viewer.name)
        received = await store.receive(intakes)
    ids = {event.key: event.event_id for event in events}
    refused = [*portion.refused, *({"event_id": ids[key], "reason": why} for key, why in received.refused.items())]
    if received.new:
        app.pipeline.wake.set()
    places = {(intake.root, intake.label, intake.remote) for intake in intakes}
    project = await store.project_of_root(*places.pop()) if len(places) == 1 else None
    _count(request, received.new, project or "")
    return {"new": received.new, "known": received.known, "refused": refused}


async def withdraw(memory: TeamMemory, request: Request) -> Mapping[str, Any]:
    """Take a member's own events out of the team's memory, for good if they are to be forgotten."""
    viewer = current()
    viewer.must_write()
    keys, forget = _wish(await _body(request))
    found = await (await memory.register()).forget_events(keys, viewer.name, returning=not forget)
    if found.events:
        (await memory.whole()).pipeline.wake.set()
    _count(request, found.events)
    return {"events": found.events}


def _count(request: Request, many: int, project: str = "") -> None:
    """Let the audit tell how many it were."""
    request.scope["team_audit"] = (project, many)


async def _body(request: Request) -> bytes:
    """The whole of it, unpacked; raises if it is longer than any that a laptop sends."""
    unpack = zlib.decompressobj(31) if request.headers.get("content-encoding") == "gzip" else None
    received, parts, size = 0, list[bytes](), 0
    async for part in request.stream():
        received += len(part)
        while part and received <= MOST_SENT and size <= MOST_BYTES:
            if unpack is None:
                told, part = part, b""
            else:
                told, part = await to_thread.run_sync(_unpacked, unpack, part)
            parts.append(told)
            size += len(told)
        if received > MOST_SENT or size > MOST_BYTES:
            raise TooLarge("This is too much at once: send it in smaller portions.")
    if unpack is not None:
        parts.append(unpack.flush())  # the rest of what was read, a few bytes
    if unpack is not None and not unpack.eof:
        raise UsageError("The body is no whole gzip stream; send it again.")
    return b"".join(parts)


def _unpacked(unpack: Any, part: bytes) -> tuple[bytes, bytes]:
    """The next megabyte at most, and what of the part is left for later."""
    try:
        told = unpack.decompress(part, 1_000_000)
    except zlib.error:
        raise UsageError("The body is no whole gzip stream; send it again.") from None
    return told, unpack.unconsumed_tail


def _read(body: bytes, now_ms: int) -> _Portion:
    head, *lines = body.rstrip(b"\n").split(b"\n")
    if _object(head).get("format") != FORMAT:
        raise UsageError(f"This server reads pushes of format {FORMAT}. Update the older of both: {UPDATE}.")
    if len(lines) > MOST_LINES:
        raise TooLarge(f"A push has at most {MOST_LINES:,} events: send it in smaller portions.")
    portion = _Portion()
    for line in lines:
        if not line.strip():
            continue
        value = _object(line)
        try:
            portion.captured.append(_captured(value, now_ms))
        except UnreadableLine as error:
            known = one_line(str(value.get("event_id", "")), _ID_CHARS)
            portion.refused.append({"event_id": known, "reason": one_line(str(error), _REASON_CHARS)})
    return portion


def _object(line: bytes) -> dict[str, Any]:
    """The object that a line is; an empty one if it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _captured(value: Mapping[str, Any], now_ms: int) -> Captured:
    """One line as an event; raises why the team does not take it."""
    found = event_of_line(value)
    if not found.key:
        raise UnreadableLine("its event_id, client and timestamp do not fit together")
    if found.was_note or found.session_id.startswith(_NOTES):
        raise UnreadableLine("notes are their author's own")
    if not _EARLIEST_MS <= found.timestamp_ms <= now_ms + _AHEAD_MS:
        raise UnreadableLine("its timestamp is from before 1970 or from the future: is the laptop's clock right?")
    if not (found.project or found.remote):
        raise UnreadableLine("it names no project")
    return found


def _prepared(intaker: Intaker, captured: Sequence[Captured]) -> list[Event]:
    return [replace(event, visibility=TEAM) for event in intaker.prepare(captured)]


def _intakes(events: Sequence[Event], captured: Sequence[Captured], author: str) -> list[Intake]:
    """By session; a repository is known by its remote whatever it is called on a laptop, and else by that name."""
    placed = by_session(events, lambda index: ("", captured[index].project, captured[index].remote))
    return [replace(intake, author=author) for intake in placed]


def _wish(body: bytes) -> tuple[list[bytes], bool]:
    value = _object(body)
    names, forget = value.get("event_ids"), value.get("forget")
    if not isinstance(names, list) or not isinstance(forget, bool):
        raise UsageError('What is to be withdrawn is told as {"event_ids": [ID…], "forget": true or false}.')
    if len(names) > MOST_LINES:
        raise TooLarge(f"At most {MOST_LINES:,} events are withdrawn at once: send them in smaller portions.")
    try:
        return [parse_ulid(str(name))[1] for name in names], forget
    except BadId as error:
        raise UsageError(f"event_ids: {error}") from None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


#: By method and path; each answers with a JSON object.
HANDLERS: dict[tuple[str, str], Handler] = {
    ("GET", "/team/me"): me,
    ("POST", "/team/push"): push,
    ("POST", "/team/withdraw"): withdraw,
    ("POST", "/team/ask"): ask,
}


def table(memory: TeamMemory) -> list[BaseRoute]:
    async def answer(handler: Handler, request: Request) -> Response:
        try:
            return JSONResponse(await handler(memory, request))
        except MemoryFault as error:
            status = next((number for kind, number in _STATUS.items() if isinstance(error, kind)), 500)
            wait = {"retry-after": "5"} if status == 503 else None
            return JSONResponse({"error": memory.excuse(error)}, status, wait)

    return [Route(path, partial(answer, handler), methods=[method]) for (method, path), handler in HANDLERS.items()]


async def _other(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


#: What is answered where there is no handler.
TROUBLE: dict[Any, Any] = {HTTPException: _other}
