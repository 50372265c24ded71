"""The JSON shapes of nodes, events, hits and times that users and tools rely on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from mcp_memory.domain.budget import cursor_of
from mcp_memory.domain.events import Event
from mcp_memory.domain.inventory import Counts
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.records import Compactions
from mcp_memory.domain.toc import Scope
from mcp_memory.search.hits import Hit, Results
from mcp_memory.times.resolve import TimeRange

#: Characters of a passage in a shape.
_SNIPPET = 300


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
