"""What the index should hold, read from the database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from anyio import to_thread

from mcp_memory.domain.events import LIFECYCLE
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.terms import event_columns, node_columns
from mcp_memory.store.sqlite.database import Database, Row
from mcp_memory.store.sqlite.log import EVENT
from mcp_memory.store.sqlite.nodes import NODE
from mcp_memory.store.whoosh.position import Position, Reached, names
from mcp_memory.store.whoosh.writing import Document

#: How many events and how many node versions one commit takes in.
BATCH = 2_000
_EVENTS = "SELECT id, timestamp_ms, role, type, text FROM event WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
#: A node counts by its current version; those before it would only be replaced again.
_VERSIONS = (
    "SELECT v.id, v.node FROM node_version v JOIN node n ON n.id = v.node AND n.current = v.id "
    "WHERE v.id > ? AND v.id <= ? ORDER BY v.id LIMIT ?"
)
_NODES = (
    "SELECT n.id, v.start_ms, v.id, v.title, v.keywords FROM node n JOIN node_version v ON v.id = n.current "
    "WHERE n.removed = 0 AND n.id IN ({marks})"
)
_BULLETS = "SELECT node_version, kind, text FROM bullet WHERE node_version IN ({marks}) ORDER BY node_version, position"
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Portion:
    """What lies between two positions: documents to put in, and numbers of those that they replace."""

    documents: list[Document]
    replaced: list[int]
    position: Position


async def portion(database: Database, held: Position, now: Reached) -> Portion:
    """As much of what is new as one commit takes."""
    events = await database.fetch(_EVENTS, (held.event, now.event, BATCH))
    versions = await database.fetch(_VERSIONS, (held.version, now.version, BATCH))
    event = events[-1][0] if len(events) == BATCH else now.event
    version = versions[-1][0] if len(versions) == BATCH else now.version
    nodes = [node for _, node in versions]
    # Taking texts apart would keep a server from answering meanwhile.
    documents = await to_thread.run_sync(_events, events) + await _nodes(database, nodes)
    name, version_name = await names(database, event, version)
    position = Position(event, name, version, version_name, held.erasure)
    # A node that the index has not seen need not be looked for in it.
    return Portion(documents, [node * 4 + NODE for node in nodes] if held.version else [], position)


def _events(rows: Sequence[Row]) -> list[Document]:
    return [
        Document(number * 4 + EVENT, at, event_columns(role, kind, text))
        for number, at, role, kind, text in rows
        if kind not in LIFECYCLE and text.strip()
    ]


async def _nodes(database: Database, nodes: Sequence[int]) -> list[Document]:
    """The nodes as they are now; one that is no more is left out."""
    documents = []
    for start in range(0, len(nodes), _CHUNK):
        part = nodes[start : start + _CHUNK]
        rows = await database.fetch(_NODES.format(marks=",".join("?" * len(part))), part)
        current = [row[2] for row in rows]
        bullets: dict[int, list[str]] = {}
        for version, kind, text in await database.fetch(_BULLETS.format(marks=",".join("?" * len(current))), current):
            bullets.setdefault(version, []).append(Kind(kind).shown(text))
        documents += [
            Document(number * 4 + NODE, at, node_columns(title, bullets.get(version, []), json.loads(keywords)))
            for number, at, version, title, keywords in rows
        ]
    return documents


async def everything(database: Database) -> frozenset[int]:
    """The numbers of all documents that may be in the index."""
    events = await database.fetch("SELECT id FROM event")
    nodes = await database.fetch("SELECT id FROM node WHERE removed = 0")
    return frozenset([*(row[0] * 4 + EVENT for row in events), *(row[0] * 4 + NODE for row in nodes)])
