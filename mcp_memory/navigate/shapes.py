"""The JSON shapes of nodes, events, hits and times that users and tools rely on, and that of hits between machines.

Hits that come from a team's server were written by others: each field is checked, hidden characters and tags go, and
texts are cut.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mcp_memory.domain.budget import cursor_of
from mcp_memory.domain.events import Event, Role, parse_ulid
from mcp_memory.domain.inventory import Counts, ProjectActivity
from mcp_memory.domain.nodes import Node, event_grip_id, parse_grip_id
from mcp_memory.domain.people import Viewer, valid_name
from mcp_memory.domain.records import Compactions
from mcp_memory.domain.text import clean, safe
from mcp_memory.domain.toc import TEAM, Level, Scope, parse_node_id
from mcp_memory.domain.tombstones import Tombstones
from mcp_memory.errors import BadId, UsageError
from mcp_memory.search.hits import Hit, Passage, Results, passage_of
from mcp_memory.search.question import KINDS, Question
from mcp_memory.times.resolve import TimeRange

#: Characters of a passage in a shape.
_SNIPPET = 300
#: Between machines: characters of a passage as it is sent, of one that is taken, of a title, of a word; lines beside a
#: hit; words.
_SENT, _TAKEN, _TITLE, _WORD, _BESIDE, _WORDS = 900, 4_000, 300, 80, 4, 40
_ROLES = frozenset(map(str, Role))


def iso(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def picked(thing: object, names: str) -> dict[str, Any]:
    """Some of its fields by their names, as JSON takes them."""
    values = ((name, getattr(thing, name)) for name in names.split())
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def node_shape(node: Node, scope: Scope) -> dict[str, Any]:
    bullets = [
        {
            "text": bullet.text,
            "kind": bullet.kind.value,
            "grip_ids": list(bullet.grip_ids),
            "child_ids": [scope.id_of(child, node.project) for child in bullet.child_ids],
        }
        for bullet in node.bullets
    ]
    return {
        "node_id": scope.id_of(node.node_id, node.project),
        "level": node.level.label,
        **({"session_id": node.session_id} if node.session_id else {}),
        "title": node.title,
        "start_time": iso(node.start_ms),
        "end_time": iso(node.end_ms),
        "bullets": bullets,
        "keywords": list(node.keywords),
        "child_node_ids": [scope.id_of(child, node.project) for child in node.child_ids],
        **picked(node, "version open written_by project tokens"),
        **({"author": node.author} if node.author else {}),
    }


def event_shape(event: Event) -> dict[str, Any]:
    return {
        **picked(event, "event_id source_id session_id project client"),
        "timestamp": iso(event.timestamp_ms),
        **picked(event, "event_type role text truncated"),
        **({"author": event.author} if event.author else {}),
    }


def compactions_shape(found: Compactions) -> dict[str, Any]:
    """What records were made of sessions, the latest of them, and what failed."""
    latest = [
        {
            "session_id": session,
            "timestamp": iso(record.timestamp_ms),
            **picked(record, "reason depth tokens_before tokens_after ratio"),
        }
        for record, session in found.latest
    ]
    shape = picked(found, "records sessions waiting") | ({"latest": latest} if latest else {})
    return shape | ({"failed": found.failed} if found.failed else {})


def counts_shape(counts: Counts) -> dict[str, Any]:
    """How much there is, for whoever may look at it."""
    latest = {"last_event": counts.last_event_ms, "last_rollup": counts.last_rollup_ms}
    return {
        **picked(counts, "schema timezone projects sessions events segments nodes grips open_segments"),
        **{name: iso(at_ms) if at_ms else None for name, at_ms in latest.items()},
    }


def viewer_shape(viewer: Viewer, timezone: str, projects: Sequence[ProjectActivity]) -> dict[str, Any]:
    """What there is for a member of a team, and nothing of the server."""
    latest = max((project.last_ms for project in projects if project.last_ms), default=None)
    return {
        "viewer": picked(viewer, "name role"),
        "timezone": timezone,
        "projects": len(projects),
        "sessions": sum(project.sessions for project in projects),
        "last_segment": iso(latest) if latest else None,
    }


def time_shape(when: TimeRange) -> dict[str, Any]:
    return {"phrase": when.phrase, "start": iso(when.start_ms), "end": iso(when.end_ms)}


def found_shape(found: Results, tokens: int, titles: Mapping[str, str]) -> dict[str, Any]:
    """What a search found. `titles` are those of segments, by their ids: events are called after theirs."""
    return {
        "query": found.query,
        "when": time_shape(found.when) if found.when else None,
        "hits": [hit_shape(hit, titles.get(hit.node_id, hit.title)) for hit in found.hits],
        "tokens": tokens,
        "more": cursor_of(found.more),
        "elsewhere": [{"project": project, "hits": hits} for project, hits in found.elsewhere.items()],
        "near": {word: list(others) for word, others in found.advice.near.items()} if found.advice else {},
    }


def _line_shape(line: Hit) -> dict[str, Any]:
    snippet = line.passage.window(_SNIPPET)
    return {**picked(line, "id grip_id role"), "start_time": iso(line.start_ms), "snippet": snippet}


def hit_shape(hit: Hit, title: str) -> dict[str, Any]:
    return {
        **picked(hit, "id kind"),
        "title": title,
        "snippet": hit.passage.window(_SNIPPET),
        **picked(hit, "score band matched missing project session_id"),
        "start_time": iso(hit.start_ms),
        **picked(hit, "event_ids source_ids grip_id node_id"),
        "lines": [_line_shape(line) for line in hit.lines],
        "contradicted": _line_shape(hit.contradicted) if hit.contradicted else None,
        "author": hit.author or None,
    }


def told_hit(hit: Hit) -> dict[str, Any]:
    """A hit as the team's server tells it, with the part of its text that matters."""
    text, begins = hit.passage.part(_SENT) if hit.role else (hit.passage.text[:_SENT], 0)
    return {
        **picked(hit, "id kind role title score matched missing session_id project event_ids source_ids"),
        **picked(hit, "grip_id node_id short_id author client"),
        "start_time": iso(hit.start_ms),
        "text": text,
        "begins": begins,
        "lines": [told_hit(line) for line in hit.lines],
        "contradicted": told_hit(hit.contradicted) if hit.contradicted else None,
    }


def listed_in(told: Mapping[str, Any], name: str) -> list[Any]:
    found = told.get(name)
    return found if isinstance(found, list) else []


def hit_of(told: object, question: Question, own_name: str) -> Hit | None:
    """A hit as it can be shown; None if it is none."""
    if not isinstance(told, dict):
        return None
    try:
        hit = _said(told, question)
        role, kind = hit.role, str(told["kind"])
        node_id = str(told.get("node_id") or "")
        if node_id:
            _node(node_id)
        if kind not in KINDS or (role == "") != (kind not in ("event", "grip")):
            return None
        score = float(told["score"])
        author = str(told.get("author") or "")
        name = str(told["id"]) if not role else hit.id
        short = str(told.get("short_id") or "")
        if not role:
            _node(name)
            _node(short or name)
        later = told.get("contradicted")
        return replace(
            hit,
            id=name if kind != "grip" else hit.grip_id,
            kind=kind,
            title=safe(str(told.get("title") or ""), _TITLE),
            score=min(max(score, 0.0), 1.0) if math.isfinite(score) else 0.0,
            matched=_words(told.get("matched")),
            missing=_words(told.get("missing")),
            node_id=node_id,
            short_id=short,
            author="" if author in ("", own_name) else valid_name(author),
            lines=tuple(_said(line, question) for line in listed_in(told, "lines")[:_BESIDE]),
            contradicted=_said(later, question) if isinstance(later, dict) else None,
        )
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, BadId, UsageError):
        return None


def _said(told: Mapping[str, Any], question: Question) -> Hit:
    """What was said, when, in which session, with its words marked anew; raises if it cannot be shown."""
    role, text = str(told["role"]), told["text"]
    if not isinstance(text, str):
        raise ValueError("no words")
    text = clean(text[:_TAKEN])
    events = tuple(str(name) for name in listed_in(told, "event_ids")[:_WORDS])
    for name in events:
        parse_ulid(name)
    if role and (role not in _ROLES or not events):
        raise ValueError("no role, or nothing that was said in it")
    grip = str(told.get("grip_id") or "")
    if grip:
        parse_grip_id(grip)
    start = round(datetime.fromisoformat(str(told["start_time"])).timestamp() * 1000)
    begins = told.get("begins", 0)
    if not isinstance(begins, int) or not 0 <= begins < 1 << 30:
        raise ValueError("a place that is none")
    session = safe(str(told.get("session_id") or ""), 200)
    return Hit(
        id=events[0] if events else "",
        kind="event",
        passage=replace(passage_of(question, text), begins=begins) if role else Passage(text),
        project=safe(str(told["project"]), _WORD),
        session_id=session or None,
        start_ms=start,
        grip_id=grip or (event_grip_id(*parse_ulid(events[0])) if events else ""),
        node_id="",
        event_ids=events,
        source_ids=tuple(safe(str(name), 200) for name in listed_in(told, "source_ids")[:_WORDS]),
        role=role,
        client=safe(str(told.get("client") or ""), _WORD),
    )


def _node(name: str) -> None:
    """Only nodes of the team's own tree: another would name something here."""
    ref, project = parse_node_id(name)
    if not (project or "").startswith(TEAM) or ref.level not in Level:
        raise ValueError("a node of no team")


def _words(told: object) -> tuple[str, ...]:
    words = told if isinstance(told, list) else []
    return tuple(word for each in words[:_WORDS] if isinstance(each, str) and (word := safe(each, _WORD)))


def tombstones_shape(found: Tombstones) -> dict[str, Any]:
    """Return for JSON how much was forgotten, and when last."""
    last = max((each.at_ms for each in found.forgettings), default=None)
    return {
        "times": len(found.forgettings),
        "events": found.events,
        "last": iso(last) if last is not None else None,
        "key_lost": found.key_lost,
    }
