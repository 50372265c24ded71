"""The pages that list things: the overview with its heat map, search, sessions, files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import groupby
from urllib.parse import urlencode

from markupsafe import Markup, escape

from mcp_memory.domain.handed import BRIEF, RESOURCE, Handed, HandedQuery
from mcp_memory.domain.inventory import DayActivity, SessionQuery
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.text import safe
from mcp_memory.domain.toc import Level
from mcp_memory.errors import UsageError
from mcp_memory.navigate import overview
from mcp_memory.navigate.answers import Answers, find_hits
from mcp_memory.navigate.work_questions import work_hits
from mcp_memory.search.hits import Hit, Passage
from mcp_memory.search.question import KINDS, Query
from mcp_memory.store.inbox_port import Inbox
from mcp_memory.surfaces.web import markup
from mcp_memory.surfaces.web.views import Asked, Data, node_line, scope_of, whole

#: The side of a day in the heat map with the gap beside it, and room for the names of months and weekdays.
_SIDE, _LEFT, _TOP = 13, 30, 18
_STEPS = 4
_PAGE, _SESSIONS, _FILES, _RECALLED = 20, 30, 60, 40
_DAY_MS, _COUNTED_DAYS = 24 * 60 * 60 * 1000, 30
#: Filters that the index does not know are applied to so many of the best hits.
_FILTERED = 100
_SHOWN = 320
_ROLES = ("user", "assistant", "tool")


async def front(here: Answers, asked: Asked) -> Data:
    """What there is: active days, projects, the latest sessions, what is open, the latest days of the tree."""
    scope = await scope_of(here, asked)
    days = await here.reader.active_days(scope.project)
    left = await overview.open_now(here.reader, scope, limit=6)
    latest = await here.reader.nodes(NodeQuery.latest(scope.project, Level.DAY, 5))
    projects = await here.reader.active_projects()
    shown = [project for project in projects if scope.project in (None, project.slug)]
    return {
        "years": heat_map(days, here.now.date(), {"project": scope.project, "person": asked.get("person")}),
        "active": len(days),
        "projects": [project for project in projects if project.slug != scope.project],
        "figures": {
            "sessions": sum(project.sessions for project in shown),
            "projects": sum(project.sessions > 0 for project in shown),
            "last_ms": max((project.last_ms for project in shown if project.last_ms is not None), default=None),
        },
        "clients": await here.reader.clients(),
        "sessions": await overview.session_cards(here.reader, scope.project, limit=6),
        "open": [_left(hit) for hit in left.hits],
        "days": [node_line(day) for day in latest],
        "waiting": await here.waiting(scope),
    }


def _left(hit: Hit) -> Data:
    """What a segment leaves open, without the label that all of it has."""
    lines = [safe(line.removeprefix("- ").removeprefix("Open: "), 240) for line in hit.passage.text.splitlines()]
    return {"lines": lines, "node_id": hit.node_id, "project": hit.project, "at_ms": hit.start_ms}


def heat_map(days: Sequence[DayActivity], today: date, asked: Data) -> list[Data]:
    """The days of each year as squares, one column a week; the newest year first. Links keep what is asked."""
    busiest = sorted(day.weight for day in days)
    floors = [busiest[len(busiest) * step // _STEPS] for step in range(_STEPS)] if busiest else []
    kept = {name: value for name, value in asked.items() if value}
    query = f"?{urlencode(kept)}" if kept else ""
    years = []
    for year, some in groupby(reversed(days), key=lambda found: found.day.year):
        found = {day.day: day for day in some}
        first = date(year, 1, 1)
        monday = first - timedelta(days=first.weekday())
        squares = list[str]()
        day = first
        while day.year == year:
            active = found.get(day)
            level = sum(active.weight >= floor for floor in floors) if active else 0
            x, y = _LEFT + (day - monday).days // 7 * _SIDE, _TOP + day.weekday() * _SIDE
            if active or day <= today:
                square = f'<rect class="l{level}" x="{x}" y="{y}" width="11" height="11" rx="2"/>'
                squares.append(_linked(active, square, query) if active else square)
            day += timedelta(days=1)
        months = [
            {"name": f"{date(year, month, 1):%b}", "x": _LEFT + (date(year, month, 1) - monday).days // 7 * _SIDE}
            for month in range(1, 13)
        ]
        total = sum(active.segments for active in found.values())
        drawn = Markup("\n".join(squares))
        years.append({"year": year, "drawn": drawn, "months": months, "days": len(found), "segments": total})
    return years


def _linked(active: DayActivity, square: str, query: str) -> str:
    """A square that leads to its day. Of thousands a template would take longer than all else on the page."""
    day, told = active.day, f"{active.segments} segment{'s' if active.segments != 1 else ''}"
    return (
        f'<a href="/day/{day}{escape(query)}" aria-label="{day:%A, %B} {day.day}, {day.year}: {told}">'
        f"<title>{day}: {told}, {active.weight:,} tokens</title>{square}</a>"
    )


def _words(passage: Passage, role: str, size: int, matched: Sequence[str]) -> Markup:
    """A part of what was said, with the words that were found; of Markdown without the marks of bold text."""
    words = passage.window(size)
    return markup.marked(words if role == "tool" else words.replace("**", ""), matched)


def _hit(here: Answers, hit: Hit) -> Data:
    return {
        "kind": hit.kind,
        "href": f"/grip/{hit.grip_id}" if hit.role else f"/node/{hit.node_id}",
        "grip": hit.grip_id,
        "node_id": hit.node_id,
        "title": safe(hit.title, 120),
        "html": _words(hit.passage, hit.role, _SHOWN, hit.matched),
        "role": hit.role,
        "author": hit.author,
        "score": hit.score,
        "band": hit.band,
        "matched": hit.matched,
        "missing": hit.missing,
        "project": hit.project,
        "session_id": hit.session_id or "",
        "at_ms": hit.start_ms,
        "lines": [
            {
                "role": line.role,
                "href": f"/grip/{line.grip_id}",
                "html": _words(line.passage, line.role, _SHOWN // 2, hit.matched),
            }
            for line in hit.lines
        ],
        "contradicted": safe(hit.contradicted.passage.text, 160) if hit.contradicted else "",
    }


async def search(here: Answers, asked: Asked) -> Data:
    """Hits for words, in a time, of a kind, project, client, role or file."""
    scope = await scope_of(here, asked)
    text, when, offset = asked.get("q"), asked.get("when"), asked.number("offset", 10_000)
    kind, role, client, file = (asked.get(name) for name in ("kind", "role", "client", "file"))
    data: Data = {
        "title": f"Search: {text}" if text else "Search",
        "q": text,
        "when": when,
        "kind": kind,
        "role": role,
        "client": client,
        "file": file,
        "kinds": KINDS,
        "roles": _ROLES,
        "clients": await here.reader.clients(),
        "hits": [],
    }
    if kind and kind not in KINDS:
        raise UsageError(f"{kind[:40]!r} is not a kind; known are {', '.join(KINDS)}.")
    try:
        time = here.when(when)
    except UsageError as error:
        return data | {"trouble": error.typed}
    if not (text or time or file):
        return data | {"unasked": "Add words, a time or a file to these filters." if kind or role or client else ""}
    of_file, note = not (text or time), ""
    narrowed = bool(role or client or (file and not of_file))
    limit, start = (_FILTERED, 0) if narrowed else (_PAGE, offset)
    query = Query(scope, file if of_file else text, time, None, kind or None, limit, start)
    if of_file:
        found = await work_hits(here.reader, query, "file", file)
    else:
        found, note = await find_hits(here.reader, query, here.now, here.renderer.moment)
    if narrowed:
        kept = [hit for hit in found.hits if await _fits(here, hit, role, client, "" if of_file else file)]
        if found.more is not None:
            note += f" Only the best {_FILTERED} hits were looked through; more words bring others among them."
        more = offset + _PAGE if len(kept) > offset + _PAGE else None
        found = replace(found, hits=kept[offset : offset + _PAGE], more=more)
    range_shown = found.when.told(here.renderer.moment) if found.when else ""
    return data | {
        "hits": [_hit(here, hit) for hit in found.hits],
        "asked": True,
        "more": found.more,
        "offset": offset,
        "note": f"{found.note}{note}".strip(),
        "range": range_shown,
    }


async def _fits(here: Answers, hit: Hit, role: str, client: str, file: str) -> bool:
    if role and hit.role != role:
        return False
    if file:
        name = file.replace("\\", "/").rpartition("/")[2].casefold()
        if not any(name in each.passage.text.casefold() for each in (hit, *hit.lines)):
            return False
    if client and not hit.client and hit.session_id:
        cards = await here.reader.session_list(SessionQuery(session_id=hit.session_id, limit=1))
        return any(card.client == client for card in cards)
    return not client or hit.client == client


async def sessions(here: Answers, asked: Asked) -> Data:
    """Sessions, those first that were active last."""
    scope, client = await scope_of(here, asked), asked.get("client")
    ms, _, number = asked.get("before").rpartition("-")
    at_ms, at = whole(ms.removeprefix("-")), whole(number)
    before = (-at_ms if ms.startswith("-") else at_ms, at) if at_ms is not None and at is not None else None
    cards = await overview.session_cards(here.reader, scope.project, client or None, before, _SESSIONS + 1)
    onward = cards[_SESSIONS - 1].place if len(cards) > _SESSIONS else None
    return {
        "title": "Sessions",
        "sessions": cards[:_SESSIONS],
        "client": client,
        "clients": await here.reader.clients(),
        "onward": f"{onward[0]}-{onward[1]}" if onward else "",
        "first_page": before is None,
    }


async def files(here: Answers, asked: Asked) -> Data:
    """The files that were changed last."""
    scope, offset = await scope_of(here, asked), asked.number("offset", 10_000)
    found = await overview.changed_files(here.reader, scope.project)
    more = offset + _FILES if len(found) > offset + _FILES else None
    return {"title": "Files", "files": found[offset : offset + _FILES], "more": more, "offset": offset}


async def file(here: Answers, asked: Asked) -> Data:
    """What was done to a file, when, and why."""
    scope, path, offset = await scope_of(here, asked), asked.get("path"), asked.number("offset", 10_000)
    if not path:
        raise UsageError("No file is named: give its path, as in /file?path=src/app.py.")
    query = Query(scope, path, None, limit=_PAGE, offset=offset)
    found = await work_hits(here.reader, query, "file", path)
    hits = [_hit(here, hit) for hit in found.hits]
    return {"title": safe(path, 100), "file": path, "hits": hits, "more": found.more, "offset": offset}


async def recalled(here: Answers, inbox: Inbox, now_ms: int, asked: Asked) -> Data:
    """What memory handed to agents, newest first, and how much that was lately."""
    scope, kind, session = await scope_of(here, asked), asked.get("kind"), asked.get("session")
    query = HandedQuery(kind or None, session or None, before=asked.number("before", 2**62) or None, limit=_RECALLED)
    page = await overview.recalled(here.reader, inbox, query, scope.project)
    since = now_ms - _COUNTED_DAYS * _DAY_MS
    return {
        "title": "Recalled",
        "rows": [_handed(row, slug) for row, slug in page.rows],
        "totals": await overview.recalled_totals(here.reader, inbox, since, scope.project),
        "days": _COUNTED_DAYS,
        "kind": kind,
        "session": session,
        "more": page.more,
        "first_page": query.before is None,
    }


def _handed(row: Handed, slug: str) -> Data:
    """One answer, with links to what it named."""
    links = []
    for name in row.ids:
        if name.startswith("session:"):
            links.append((f"/session/{name.removeprefix('session:')}", name.removeprefix("session:")))
        elif name.startswith("toc:"):
            links.append((f"/node/{name if '@' in name or not slug else f'{name}@{slug}'}", name))
        else:
            links.append((f"/grip/{name}", name))
    ways = {BRIEF: "at the start of the session", RESOURCE: "a document was read"}
    how = f" ({row.asked})" if row.asked else ""
    return {
        "at_ms": row.at_ms,
        "kind": row.kind,
        "way": ways.get(row.kind, "the agent asked"),
        "client": row.client,
        "session": row.session,
        "project": slug,
        "asked": f"{ways[BRIEF]}{how}" if row.kind == BRIEF else row.asked,
        "links": links,
        "tokens": row.tokens,
        "opened_ms": row.opened_ms,
    }
