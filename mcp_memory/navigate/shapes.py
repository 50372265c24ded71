"""The JSON shapes of nodes, events, hits and of the memory's health that users and tools rely on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from mcp_memory.domain.budget import cursor_of
from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.records import Compactions
from mcp_memory.domain.segments import busy
from mcp_memory.domain.toc import Scope
from mcp_memory.models.port import Ledger
from mcp_memory.search.hits import Hit, Results
from mcp_memory.store.inbox_port import Inbox
from mcp_memory.store.port import Clock, IndexKeeper, ReadStore
from mcp_memory.times.resolve import TimeRange

#: Characters of a passage in a shape.
_SNIPPET = 300


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
                "kind": bullet.kind.value,
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


def hit_shape(hit: Hit, title: str) -> dict[str, Any]:
    return {
        "id": hit.id,
        "kind": hit.kind,
        "title": title,
        "snippet": hit.passage.window(_SNIPPET),
        "score": hit.score,
        "band": hit.band,
        "matched": list(hit.matched),
        "missing": list(hit.missing),
        "project": hit.project,
        "session_id": hit.session_id,
        "start_time": iso(hit.start_ms),
        "event_ids": list(hit.event_ids),
        "source_ids": list(hit.source_ids),
        "grip_id": hit.grip_id,
        "node_id": hit.node_id,
        "reply": _reply(hit.reply) if hit.reply else None,
    }


def _reply(reply: Hit) -> dict[str, Any]:
    """The answer to a hit, in short."""
    return {
        "id": reply.id,
        "grip_id": reply.grip_id,
        "role": reply.role,
        "start_time": iso(reply.start_ms),
        "snippet": reply.passage.window(_SNIPPET),
    }


class Watched(Protocol):
    """As much of an open memory as a look at its health needs."""

    @property
    def store(self) -> ReadStore: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def index(self) -> IndexKeeper: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def settings(self) -> Places: ...


class Places(Protocol):
    @property
    def home(self) -> Path: ...
    @property
    def spool(self) -> Path: ...
    @property
    def database(self) -> Path: ...
    @property
    def inbox(self) -> Path: ...


_COUNTED = "schema timezone projects sessions events segments nodes grips".split()


async def status(memory: Watched) -> dict[str, Any]:
    counts = await memory.store.counts(busy(memory.clock.now_ms()))
    local = await memory.inbox.counts()
    index, places = await memory.index.state(), memory.settings
    files = [file.with_name(file.name + log) for file in (places.database, places.inbox) for log in ("", "-wal")]
    facts = {
        "home": str(places.home),
        **{name: getattr(counts, name) for name in _COUNTED},
        "inbox": local.waiting,
        "unknown": local.unknown,
        "spool": len(list(places.spool.glob("*.json"))) if places.spool.is_dir() else 0,
        "open_segments": counts.open_segments,
        "backlog": {
            "sessions": counts.dirty_sessions,
            "segments": counts.dirty_segments,
            "periods": counts.dirty_nodes,
        },
        "last_event": iso(counts.last_event_ms) if counts.last_event_ms else None,
        "last_rollup": iso(counts.last_rollup_ms) if counts.last_rollup_ms else None,
        "db_bytes": sum(file.stat().st_size for file in files if file.exists()),
        "index": {"kind": index.kind, "state": index.state, **({"bytes": index.own_bytes} if index.own_bytes else {})},
        **(await memory.ledger.facts()),
        "compactions": _compactions(await memory.store.compactions()),
        "lease": counts.lease,
        "set_aside": [{"path": bad.path, "line": bad.line, "reason": bad.reason} for bad in local.set_aside],
    }
    if local.unknown:
        payloads = f"{local.unknown} payloads are" if local.unknown > 1 else "1 payload is"
        facts["note"] = f"{payloads} of no known form: `mcp-memory doctor` says of which client, and what to do"
    return facts


def _compactions(found: Compactions) -> dict[str, Any]:
    """How many sessions were condensed, how the latest ones went, and what failed."""
    facts: dict[str, Any] = {"records": found.records, "sessions": found.sessions, "waiting": found.waiting}
    if found.latest:
        facts["latest"] = [
            {
                "session_id": session,
                "timestamp": iso(record.timestamp_ms),
                "reason": record.reason,
                "depth": record.depth,
                "tokens_before": record.tokens_before,
                "tokens_after": record.tokens_after,
                "ratio": record.ratio,
            }
            for record, session in found.latest
        ]
    return facts | ({"failed": found.failed} if found.failed else {})
