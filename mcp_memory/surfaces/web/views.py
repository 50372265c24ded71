"""The pages of the tree and of the words: pure functions from the read side to what a template shows.

A view is given `here`, all of it as of one moment, and what was `asked`: the parts of the address. It writes nothing.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from markupsafe import Markup

from mcp_memory.domain.events import Event, EventType, parse_ulid
from mcp_memory.domain.nodes import SO_FAR, Bullet, Kind, Node, NodeQuery, event_grip_id, short_grip_id
from mcp_memory.domain.records import body_lines
from mcp_memory.domain.text import safe
from mcp_memory.domain.toc import Level, Scope, ancestors, parse_node_id
from mcp_memory.errors import BadId, NotFound
from mcp_memory.navigate import browse, overview
from mcp_memory.navigate.answers import Answers
from mcp_memory.search.hits import attributed
from mcp_memory.surfaces.web import markup

Data = dict[str, Any]
#: How many events a page of a conversation shows, and how many of them before a cited one.
_STRETCH, _BEFORE = 30, 8
_GIST, _TITLE = 140, 120
#: How far from a day that is not there others are looked for, and how many are named.
_NEAR_MS, _NEAREST = 90 * 86_400_000, 5
#: What people said, in contrast to what was done; it is not folded.
_SPOKEN = (EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE, EventType.NOTE)
_DECIDES = (Kind.DECISION, Kind.CORRECTION, Kind.RULE, Kind.OPEN)


def whole(text: str) -> int | None:
    """A number as addresses of ours have them; None for anything else, one too long to be stored included."""
    return int(text) if text.isdecimal() and len(text) < 19 else None


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts of an address: what its path names, and what follows the question mark."""

    path: Mapping[str, str]
    query: Mapping[str, str]

    def get(self, name: str) -> str:
        return self.query.get(name, "").strip()

    @property
    def project(self) -> str | None:
        return self.get("project") or None

    def number(self, name: str, most: int) -> int:
        return min(whole(self.get(name)) or 0, most)


async def scope_of(here: Answers, asked: Asked) -> Scope:
    """The project that is looked at, or all. Seen from nowhere, every id carries its project."""
    scope = await here.scope(asked.project or browse.ALL)
    return Scope(None, scope.project)


def title_of(node: Node) -> str:
    return safe(node.title.removesuffix(SO_FAR), 300)


def node_line(node: Node) -> Data:
    """A node as it stands in a list: a segment by its title, a period by its name and themes."""
    name, _, themes = title_of(node).partition(": ") if node.level is not Level.SEGMENT else (title_of(node), "", "")
    return {
        "id": node.ref.node_id(node.project),
        "short": node.ref.short_id(node.project),
        "level": node.level.label,
        "name": name,
        "themes": themes,
        "project": node.project,
        "author": node.author,
        "open": node.open,
        "weight": node.weight,
        "children": len(node.child_ids),
        "start_ms": node.start_ms,
        "end_ms": node.end_ms,
    }


def _bullets(bullets: Sequence[Bullet]) -> list[Data]:
    return [
        {
            "text": bullet.text,
            "label": bullet.kind.label,
            "kind": bullet.kind.value,
            "author": bullet.author,
            "grips": bullet.grip_ids,
        }
        for bullet in bullets
    ]


async def _attributed(here: Answers, asked: Asked, nodes: list[Node]) -> list[Node]:
    """Of a team each bullet with who said it; if a person is named, of periods those bullets alone."""
    nodes = await attributed(here.reader, nodes, team=here.reach is browse.Reach.TEAM)
    person = asked.get("person")

    def part(node: Node) -> Node:
        return replace(node, bullets=tuple(bullet for bullet in node.bullets if bullet.author == person))

    return [part(node) if person and node.level is not Level.SEGMENT else node for node in nodes]


async def contents(here: Answers, asked: Asked) -> Data:
    """The years, newest first, each with its months; the newest month with its days."""
    scope = await scope_of(here, asked)
    found, years = await here.reader.nodes(NodeQuery.latest(scope.project, Level.YEAR, 60)), []
    for year in await _attributed(here, asked, found):
        months = await here.reader.nodes(NodeQuery(year.project, parent=year.ref, bullets=False))
        years.append(
            node_line(year) | {"bullets": _bullets(year.bullets), "months": [node_line(month) for month in months]}
        )
    days = await here.reader.nodes(NodeQuery.latest(scope.project, Level.DAY, 12, bullets=False))
    return {"years": years, "days": [node_line(day) for day in days], "waiting": await here.waiting(scope)}


async def node(here: Answers, asked: Asked) -> Data:
    """A node with the way to it, its bullets, what lies beneath and beside it."""
    scope = Scope(None, None)
    view, _ = await browse.get_node(here.reader, scope, asked.path["node_id"], None, outline=True)
    [found] = await _attributed(here, asked, [view.node])
    trail = await here.reader.nodes(NodeQuery(found.project, tuple(reversed(ancestors(found.ref))), bullets=False))
    parent = found.ref.parent
    siblings = await here.reader.nodes(NodeQuery(found.project, parent=parent, bullets=False)) if parent else []
    around = {"previous": view.previous, "next": view.following}
    return {
        "title": title_of(found),
        "node": node_line(found) | {"version": found.version, "written_by": found.written_by, "tokens": found.tokens},
        "session_id": found.session_id,
        "bullets": _bullets(found.bullets),
        "keywords": found.keywords,
        "trail": [node_line(above) for above in trail],
        "siblings": [node_line(each) for each in siblings],
        "children": [node_line(child) for child in view.children],
        "around": {way: f"{name}@{found.project}" for way, name in around.items() if name},
        "project": found.project,
    }


async def near(here: Answers, asked: Asked) -> Data:
    """Days beside one that is not there, the nearest first."""
    try:
        day = parse_node_id(asked.path["node_id"])[0].day
    except BadId:
        return {"near": []}
    noon = round(datetime(day.year, day.month, day.day, 12, tzinfo=here.zone).timestamp() * 1000)
    around = NodeQuery.touching(None, Level.DAY, noon - _NEAR_MS, noon + _NEAR_MS, 100)
    found = sorted(await here.reader.nodes(around), key=lambda node: abs(node.start_ms - noon))
    return {"near": [node_line(node) for node in found[:_NEAREST]]}


async def history(here: Answers, asked: Asked) -> Data:
    """Every version of a node, the latest first, each with what it changed."""
    ref, project = await browse.ref_of(here.reader, Scope(None, None), asked.path["node_id"])
    versions = await here.reader.nodes(NodeQuery(project, (ref,), versions=True))
    if not versions:
        raise NotFound(f"There is no node {ref.node_id()} in project {project}.")
    shown = []
    for before, after in zip([None, *versions[:-1]], versions, strict=True):
        compared = difflib.ndiff(_lines(before) if before else [], _lines(after))
        changes = [line for line in compared if not line.startswith("?")]
        signs = {"+": "added", "-": "removed", " ": "same"}
        shown.append(
            {
                "version": after.version,
                "written_by": after.written_by,
                "at_ms": after.created_ms,
                "removed": after.removed,
                "lines": [(signs[line[0]], line[2:]) for line in changes],
            }
        )
    return {"title": f"Versions of {title_of(versions[-1])}", "node": node_line(versions[-1]), "versions": shown[::-1]}


def _lines(node: Node) -> list[str]:
    return [node.title, *(f"• {bullet.shown}" for bullet in node.bullets)]


async def day(here: Answers, asked: Asked) -> Data:
    """What was done on a day, in all projects or one."""
    scope = await scope_of(here, asked)
    when = here.when(asked.path["day"])
    if when is None:
        raise NotFound(f"{asked.path['day'][:40]!r} is no day.")
    nodes = await here.reader.nodes(NodeQuery.touching(scope.project, Level.DAY, when.start_ms, when.end_ms, 100))
    nodes = await _attributed(here, asked, nodes)
    days = [node_line(node) | {"bullets": _bullets(node.bullets)} for node in nodes]
    active = [found.day for found in await here.reader.active_days(scope.project)]
    first, after = (datetime.fromtimestamp(ms / 1000, here.zone).date() for ms in (when.start_ms, when.end_ms - 1))
    earlier, later = bisect_left(active, first), bisect_right(active, after)
    return {
        "title": asked.path["day"],
        "days": days,
        "when": when.told(here.renderer.moment),
        "previous": active[earlier - 1] if earlier else None,
        "next": active[later] if later < len(active) else None,
    }


def said(event: Event, html: Markup | None = None) -> Data:
    """One event of a conversation; tool calls come folded, unless they were refused."""
    is_spoken = event.event_type in _SPOKEN
    html = html or (markup.prose(event.text) if is_spoken else markup.output(event.text))
    first, _, rest = event.text.strip().partition("\n")
    return {
        "id": event.event_id,
        "grip": event_grip_id(event.timestamp_ms, event.key),
        "short": short_grip_id(event.key),
        "role": str(event.role),
        "author": event.author,
        "type": str(event.event_type),
        "at_ms": event.timestamp_ms,
        "outcome": event.outcome,
        "folded": not is_spoken,
        "more": bool(rest),
        "head": safe(first, _GIST),
        "html": html,
        "pinned": bool(event.metadata.get("pin")),
        "subagent": bool(event.metadata.get("agent_id")),
        "truncated": event.truncated,
    }


def _shown(events: Sequence[Event]) -> list[Data]:
    return [said(event) for event in events if event.says_something or event.outcome]


async def grip(here: Answers, asked: Asked) -> Data:
    """The very words, marked where they stand in the conversation."""
    opened = await browse.expand_grip(here.reader, asked.path["grip_id"], 0, 0)
    record, cited = opened.record, opened.record.cited
    if cited is None:
        raise NotFound("The words behind this grip were forgotten. What was made of them goes with the next summary.")
    found = await here.reader.stretch(cited.session_id, cited.key, _BEFORE, _STRETCH - _BEFORE)
    events = []
    for event in found.events:
        if event.key == cited.key:
            text = markup.excerpt(event.text, opened.start, opened.end) if opened.state != "gone" else None
            events.append(said(event, text) | {"cited": True, "folded": False})
        elif event.says_something or event.outcome:
            events.append(said(event))
    when = here.renderer.moment(cited.timestamp_ms)
    return {
        "title": safe(record.excerpt, _TITLE),
        "grip_id": record.grip_id,
        "short": short_grip_id(parse_ulid(record.grip_id.rpartition(":")[2])[1]),
        "state": opened.state,
        "events": events,
        "stretch": _ends(found.events, found.earlier, found.later),
        "session_id": cited.session_id,
        "client": cited.client,
        "project": cited.project,
        "node_id": f"{record.node_id}@{cited.project}" if record.node_id else "",
        "citation": f"“{safe(record.excerpt, 400)}” — {cited.role}, {when}, {cited.project}, {record.grip_id}",
        "event_id": cited.event_id,
    }


def _ends(events: Sequence[Event], earlier: bool, later: bool) -> Data:
    """Where a conversation goes on in both directions."""
    first, last = (events[0].event_id, events[-1].event_id) if events else ("", "")
    return {"earlier": first if earlier else "", "later": last if later else ""}


async def session(here: Answers, asked: Asked) -> Data:
    """A session as a conversation, from its beginning or from a place on, with its parts, decisions and records."""
    name = await browse.kept_session(here.reader, asked.path["session_id"])
    cards = await overview.session_cards(here.reader, None, session_id=name, limit=1)
    part = await stretch(here, replace(asked, path={"session_id": name}))
    if not part["events"] and not cards:
        raise NotFound(f"There is no session {name[:80]!r} in memory.")
    segments = await overview.segments_of(here.reader, name)
    records = await here.reader.records(name, None)
    told = [bullet for node in segments for bullet in node.bullets if bullet.kind in _DECIDES]
    return {
        "title": cards[0].title if cards else name,
        "card": cards[0] if cards else None,
        "session_id": name,
        "continues": await here.reader.continues(name),
        "segments": [node_line(node) for node in segments],
        "decisions": _bullets(told),
        "records": [
            {"id": record.id, "at_ms": record.timestamp_ms, "by": record.written_by, "lines": body_lines(record.body)}
            for record in records
        ],
        "project": cards[0].project if cards else None,
        **part,
    }


async def stretch(here: Answers, asked: Asked) -> Data:
    """A part of a session: before the event `until`, after the event `from`, or from its beginning or its end."""
    name, until, since = asked.path["session_id"], asked.get("until"), asked.get("from")
    if asked.get("end"):
        found = await here.reader.stretch(name, None, _STRETCH, 0)
    elif until:
        found = await here.reader.stretch(name, _key(until), _STRETCH, 0)
        found = replace(found, later=True)
    elif since:
        found = await here.reader.stretch(name, _key(since), 0, _STRETCH + 1)
        found = replace(found, events=found.events[1:], earlier=True)
    else:
        found = await here.reader.stretch(name, None, 0, _STRETCH)
    ends = _ends(found.events, found.earlier, found.later)
    return {"events": _shown(found.events), "stretch": ends, "session_id": name}


def _key(event_id: str) -> bytes:
    try:
        return parse_ulid(event_id)[1]
    except BadId:
        raise NotFound(f"There is no event {event_id[:40]!r}.") from None
