"""Health at a glance: what is stored, what waits, when something last happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from mcp_memory.domain.segments import busy
from mcp_memory.models.port import Ledger
from mcp_memory.navigate.shapes import iso
from mcp_memory.store.port import Clock, CompactionStore, IndexKeeper, Library


class Watched(Protocol):
    """As much of an open memory as a look at its health needs."""

    @property
    def library(self) -> Library: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def compactions(self) -> CompactionStore: ...
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


async def status(memory: Watched) -> dict[str, Any]:
    counts = await memory.library.counts(busy(memory.clock.now_ms()))
    index = await memory.index.state()
    places = memory.settings
    return {
        "home": str(places.home),
        "schema": counts.schema,
        "timezone": counts.timezone,
        "projects": counts.projects,
        "sessions": counts.sessions,
        "events": counts.events,
        "segments": counts.segments,
        "nodes": counts.nodes,
        "grips": counts.grips,
        "inbox": counts.inbox,
        "unknown": counts.unknown,
        "spool": len(list(places.spool.glob("*.json"))) if places.spool.is_dir() else 0,
        "open_segments": counts.open_segments,
        "backlog": {
            "sessions": counts.dirty_sessions,
            "segments": counts.dirty_segments,
            "periods": counts.dirty_nodes,
        },
        "last_event": iso(counts.last_event_ms) if counts.last_event_ms else None,
        "last_rollup": iso(counts.last_rollup_ms) if counts.last_rollup_ms else None,
        "db_bytes": _bytes(places.database),
        "index": {"kind": index.kind, "state": index.state, **({"bytes": index.own_bytes} if index.own_bytes else {})},
        **(await memory.ledger.facts()),
        "compactions": await _compactions(memory.compactions),
        "lease": counts.lease,
        "set_aside": [{"path": bad.path, "line": bad.line, "reason": bad.reason} for bad in counts.set_aside],
        **({"note": _unread(counts.unknown)} if counts.unknown else {}),
    }


def _unread(count: int) -> str:
    payloads = f"{count} payloads are" if count > 1 else "1 payload is"
    return f"{payloads} of no known form: `mcp-memory doctor` says of which client, and what to do"


async def _compactions(store: CompactionStore) -> dict[str, Any]:
    """How many sessions were condensed, how the latest ones went, and what failed."""
    found = await store.summary()
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


def _bytes(path: Path) -> int:
    """The database with its write-ahead log."""
    files = [path, path.with_name(path.name + "-wal")]
    return sum(file.stat().st_size for file in files if file.exists())
