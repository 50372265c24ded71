"""Hits of a team's memory: as its server tells them, as a laptop takes them, and in one list with one's own.

They were written by others: each field is checked, hidden characters and tags go, and texts are cut.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mcp_memory.domain.events import Role, parse_ulid
from mcp_memory.domain.nodes import event_grip_id, parse_grip_id
from mcp_memory.domain.people import valid_name
from mcp_memory.domain.text import clean, safe
from mcp_memory.domain.toc import TEAM, Level, parse_node_id
from mcp_memory.errors import BadId, UsageError
from mcp_memory.navigate.shapes import iso, picked
from mcp_memory.search.hits import Hit, Passage, Results, passage_of
from mcp_memory.search.question import KINDS, Question
from mcp_memory.store.port import ReadStore

#: No list is merged further than this.
MOST_HITS = 200
#: Characters of a passage as it is sent, of one that is taken, of a title, of a word; lines beside a hit; words.
_SENT, _TAKEN, _TITLE, _WORD, _BESIDE, _WORDS = 900, 4_000, 300, 80, 4, 40
_BY_TIME = {"in order of time": 1, "latest first": -1}
_ROLES = frozenset(map(str, Role))


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


def merged(found: Results, theirs: Sequence[Hit], order: str) -> list[Hit]:
    """Two lists as one: each keeps its own order, and the better of the two next ones comes first.

    Of equals the one that holds more of what was asked, else one's own.
    """
    sign = _BY_TIME.get(found.order) if found.order == order or not (theirs and found.hits) else None

    def worth(hit: Hit) -> tuple[float, int]:
        return (-sign * hit.start_ms, 0) if sign else (hit.score, len(hit.matched))

    mine, others, both = list(found.hits), list(theirs), list[Hit]()
    while mine and others:
        both.append((mine if worth(mine[0]) >= worth(others[0]) else others).pop(0))
    return [*both, *mine, *others]


async def new_to(reader: ReadStore, hits: Sequence[Hit]) -> list[Hit]:
    """The hits that one's own memory does not have: what one shared oneself is there as well."""
    sessions = {hit.session_id for hit in hits if hit.session_id}
    known = {name for name in sessions if name in await reader.sessions(name, 2)}
    kept = []
    for hit in hits:
        if hit.session_id in known:
            continue
        keys = [parse_ulid(name)[1] for name in hit.event_ids[:_BESIDE]]
        if not (keys and all([await reader.words(key, None) for key in keys])):
            kept.append(hit)
    return kept


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
