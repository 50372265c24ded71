"""The viewer's few writes: notes and forgetting. Each is a form of our own, on a page that says what it will do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mcp_memory.domain.events import PIN_ASKED, Event, EventQuery, EventType
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.nodes import NOTE_KINDS, Kind, note_author
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.surfaces.forget_command import (
    WAYS,
    Outcome,
    carry_out,
    erase_at_once,
    key_of,
    own_part,
    preview_of,
    request_from,
)
from mcp_memory.surfaces.web import views
from mcp_memory.surfaces.web.access import Unsigned
from mcp_memory.surfaces.web.form_data import FORM_BYTES, read_form
from mcp_memory.surfaces.web.views import Asked, Data

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.surfaces.web.routes import Site

Write = Callable[["Site", Request], Awaitable[Response]]
_NOTES, _EVENTS = 30, 25
#: A form that is as long as this holds no note.
_MOST_CHARS = 200_000


async def fields(site: Site, request: Request) -> dict[str, str]:
    """What a form of our own says."""
    given = await read_form(request, FORM_BYTES)
    if any(len(value) > _MOST_CHARS for value in given.values()):
        raise HTTPException(400, f"A text may have at most {_MOST_CHARS:,} characters.")
    if not site.access.signed(request.headers, given.get("sign", "")):
        raise Unsigned("This form is too old, or was not made by this page. Load the page again, and repeat it there.")
    return given


async def notes(site: Site, request: Request) -> Response:
    """All notes, the latest first, and a form for another one."""
    if request.method != "POST":
        return await _notes_page(site, request)
    app, form = await site.app(request), await fields(site, request)
    text, kind = form.get("text", ""), form.get("kind") or Kind.NOTE
    try:
        await app.remember(text, "pin" in form, form.get("for") or None, kind)
    except (UsageError, NotFound) as error:
        return await _notes_page(site, request, error, text)
    app.pipeline.wake.set()
    return RedirectResponse("/notes", 303)


async def _notes_page(
    site: Site, request: Request, trouble: UsageError | NotFound | None = None, draft: str = ""
) -> Response:
    """The notes; after one that could not be kept, why, with its words still in the form."""
    app = await site.app(request)
    here, asked = await site.answers(request), Asked({}, request.query_params)
    scope = await views.scope_of(here, asked)
    offset, only_pinned = asked.number("offset", 100_000), bool(asked.get("pinned"))
    end = offset + _NOTES
    # People write few notes, so that those before a page are read with it.
    wanted = EventQuery(scope.project, types=(EventType.NOTE,), pinned=only_pinned, last=end + 1)
    found = (await app.store.events(wanted))[::-1]
    data = {
        "title": "Notes",
        "notes": [_note(event) for event in found[offset:end]],
        "offset": offset,
        "more": end if len(found) > end else None,
        "pinned": only_pinned,
        "kinds": NOTE_KINDS,
        "projects": await app.store.slugs(),
        "trouble": trouble.typed if trouble else "",
        "draft": draft,
    }
    status = 200 if trouble is None else 404 if isinstance(trouble, NotFound) else 400
    return await site.page(request, "notes.html", data, status)


def _note(event: Event) -> Data:
    kind = str(event.metadata.get("kind", Kind.NOTE))
    by = note_author(event).strip(" ()")
    asked = bool(event.metadata.get(PIN_ASKED))
    return views.said(event) | {
        "kind": kind,
        "text": event.text,
        "project": event.project,
        "by": by,
        "pin_asked": asked,
    }


async def note(site: Site, request: Request) -> Response:
    """One note: its words to be changed, pinned or not, or the way to forget it."""
    app = await site.app(request)
    form = await fields(site, request) if request.method == "POST" else {}
    text = form.get("text")
    try:
        event = await _note_of(app, request.path_params["grip_id"])
        if not form:
            data = {"title": "A note", "note": _note(event), "project": event.project}
            return await site.page(request, "note.html", data)
        pinned = form["do"] == "pin" if form.get("do") in ("pin", "unpin") else bool(event.metadata.get("pin"))
        if text is None or text.strip() == event.text:
            await app.pin(event, pinned)
        else:
            # The new one first: whoever is interrupted here has both, and loses nothing.
            await app.remember(text, pinned, event.project, str(event.metadata.get("kind", Kind.NOTE)))
            if app.viewer:
                await carry_out(app, ForgetRequest(event_key=event.key), dry_run=False)
            else:
                await erase_at_once(app, ForgetRequest(event_key=event.key))
    except (UsageError, NotFound) as error:
        if not (text and text.strip()):
            raise
        return await _notes_page(site, request, error, text)
    app.pipeline.wake.set()
    return RedirectResponse("/notes", 303)


async def _note_of(app: App, grip_id: str) -> Event:
    record = await app.store.grip(await key_of(app, grip_id), 0, 0)
    if record is None or record.cited is None or record.cited.event_type is not EventType.NOTE:
        raise NotFound(f"There is no note {grip_id[:80]}. It may have been changed or forgotten meanwhile.")
    return record.cited


async def forget(site: Site, request: Request) -> Response:
    """What would go, event by event; and its erasure, once that is confirmed."""
    app = await site.app(request)
    form = await fields(site, request) if request.method == "POST" else {}
    asked = Asked({}, form or request.query_params)
    given = {way: asked.get(way) for way in WAYS if asked.get(way)}
    if len(given) > 1:
        raise UsageError(f"Name one thing to forget at a time, not by {' and '.join(given)}.")
    data: Data = {
        "title": "Forget",
        "given": given,
        "part": False,
        "projects": await app.store.slugs(),
        "found": None,
        "done": "",
    }
    if not given:
        return await site.page(request, "forget.html", data)
    part = asked.get("part") == "1"
    wanted = await request_from(app, part=part and "match" in given, **given)
    found = await carry_out(app, wanted, dry_run=True)
    data["changed"] = bool(form) and form.get("seen") != _size(found)
    if form and not data["changed"]:
        gone = await carry_out(app, wanted, dry_run=False)
        app.pipeline.wake.set()
        data |= {"done": f"Forgot {gone}.", "remarks": gone.remarks(done=True)}
        return await site.page(request, "forget.html", data)
    offset = asked.number("offset", 100_000_000)
    events = await own_part(app).events_to_forget(wanted, _EVENTS + 1, offset)
    data |= {
        "found": str(found) if found.anything else "",
        "seen": _size(found),
        "part": wanted.part,
        "remarks": found.remarks(done=False),
        "hints": (await preview_of(app, wanted, found, "“also inside of longer words”")).hints,
        "events": [views.said(event) | {"session_id": event.session_id} for event in events[:_EVENTS]],
        "offset": offset,
        "more": offset + _EVENTS if len(events) > _EVENTS else None,
    }
    return await site.page(request, "forget.html", data)


def _size(outcome: Outcome) -> str:
    """By which it is noticed that more has come in since the preview."""
    found = outcome.found
    return f"{found.events}-{found.sessions}-{found.inbox}-{found.cleared}"


#: By their address.
WRITES: dict[str, Write] = {"/notes": notes, "/note/{grip_id}": note, "/forget": forget}
