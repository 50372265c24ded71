"""The JSON shapes of nodes, events and hits that users and tools rely on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mcp_memory.domain.events import Event
from mcp_memory.domain.summaries import Node
from mcp_memory.navigate.scope import Scope


def iso(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def node_shape(node: Node, scope: Scope) -> dict[str, Any]:
    return {
        "node_id": scope.id_of(node.node_id, node.project),
        "level": node.level.label,
        "title": node.title,
        "start_time": iso(node.start_ms),
        "end_time": iso(node.end_ms),
        "bullets": [
            {
                "text": bullet.text,
                "grip_ids": list(bullet.grip_ids),
                "child_ids": [scope.id_of(child, node.project) for child in bullet.child_ids],
            }
            for bullet in node.bullets
        ],
        "keywords": list(node.keywords),
        "child_node_ids": [scope.id_of(child, node.project) for child in node.child_ids],
        "version": node.version,
        "open": node.open,
        "written_by": node.written_by,
        "project": node.project,
        "tokens": node.tokens,
    }


def event_shape(event: Event) -> dict[str, Any]:
    return {
        "event_id": event.event_id,
        "source_id": event.source_id,
        "session_id": event.session_id,
        "project": event.project,
        "client": event.client,
        "timestamp": iso(event.timestamp_ms),
        "event_type": str(event.event_type),
        "role": str(event.role),
        "text": event.text,
        "truncated": event.truncated,
    }
