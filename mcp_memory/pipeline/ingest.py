"""First stage: spool and inbox into events. On a turn's end the transcript is read from where it was left."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from anyio import to_thread

from mcp_memory.capture.clipping import clean
from mcp_memory.capture.payload import client_of
from mcp_memory.domain.events import TIMES, Captured
from mcp_memory.pipeline.prepare import Intaker
from mcp_memory.ports.clients import BadLine, ClientAdapter, Hooked, Told, TranscriptState
from mcp_memory.ports.events import EventLog, InboxRow, Intake

logger = logging.getLogger(__name__)

BATCH = 500
SPOOL_BATCH = 500
#: A hook writes a file within milliseconds; one that is unfinished after this time stays so.
ABANDONED_SECONDS = 60
#: Where two registrations fire for one event, the same payload comes twice, each time by a process of its own.
TWICE_WITHIN_MS = 5_000
_SEEN = "inbox"
_FIELDS = ("received_ms", "client", "root", "label", "payload")


@dataclass(frozen=True, slots=True)
class Ingested:
    rows: int
    events: int


@dataclass(slots=True)
class _Batch:
    """What one round of the inbox comes to."""

    told: list[tuple[Captured, str, str]] = field(default_factory=list)
    fallback: list[tuple[Captured, str, str]] = field(default_factory=list)
    transcripts: dict[Path, tuple[ClientAdapter, str, str]] = field(default_factory=dict)
    consumed: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    compacting: list[tuple[str, str]] = field(default_factory=list)


async def ingest(log: EventLog, adapters: Mapping[str, ClientAdapter], intaker: Intaker, lease_token: int) -> Ingested:
    """Take one batch of inbox rows; the rows leave the inbox in the transaction that stores their events."""
    rows = await log.inbox(BATCH)
    if not rows:
        return Ingested(0, 0)
    batch = _Batch()
    seen = await log.checkpoint(_SEEN)
    for row in rows:
        _take(row, adapters, batch, seen)
    checkpoints: dict[str, dict[str, Any]] = {_SEEN: _recent(seen)}
    for path, (adapter, root, label) in batch.transcripts.items():
        read, checkpoints[checkpoint_name(path)] = await _read_on(log, adapter, path)
        batch.told += [(told.event, root, label) for told in read]
    intakes = await to_thread.run_sync(_prepare, [*batch.told, *batch.fallback], intaker)
    added = await log.add(
        intakes,
        consumed=batch.consumed,
        unknown=batch.unknown,
        checkpoints=checkpoints,
        compacting=batch.compacting,
        lease_token=lease_token,
    )
    return Ingested(len(rows), added)


def _take(row: InboxRow, adapters: Mapping[str, ClientAdapter], batch: _Batch, seen: dict[str, int]) -> None:
    client, hooked = _understand(row, adapters)
    if hooked.unknown:
        batch.unknown.append(row.id)
        return
    batch.consumed.append(row.id)
    if _came_twice(row, seen):
        return
    if hooked.compacting:
        batch.compacting.append((client, hooked.session_id))
    batch.told += [(event, row.root, row.label) for event in hooked.events]
    batch.fallback += [(event, row.root, row.label) for event in hooked.fallback]
    if hooked.transcript:
        batch.transcripts[hooked.transcript] = (adapters[client], row.root, row.label)


def _came_twice(row: InboxRow, seen: dict[str, int]) -> bool:
    """Whether the same payload came a moment ago; what else it may be the same as, its events' keys tell."""
    name = hashlib.blake2b(f"{row.client} {row.payload}".encode("utf-8", "replace"), digest_size=8).hexdigest()
    before, seen[name] = seen.get(name), row.received_ms
    return before is not None and abs(row.received_ms - before) <= TWICE_WITHIN_MS


def _recent(seen: Mapping[str, int]) -> dict[str, int]:
    newest = max(seen.values(), default=0)
    return {name: ms for name, ms in seen.items() if newest - ms <= 2 * TWICE_WITHIN_MS}


def _understand(row: InboxRow, adapters: Mapping[str, ClientAdapter]) -> tuple[str, Hooked]:
    """Which client the payload is from, and what it means."""
    try:
        payload = json.loads(row.payload)
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        return row.client, Hooked(unknown=True)
    client = client_of(payload, row.client)
    if client not in adapters:
        return client, Hooked(unknown=True)
    try:
        return client, adapters[client].hook(payload, row.received_ms)
    except Exception:
        # One odd payload must not stop the capture of all that come after it; it is kept as it is.
        logger.exception("A payload of %s could not be read and was kept", client)
        return client, Hooked(unknown=True)


async def _read_on(log: EventLog, adapter: ClientAdapter, path: Path) -> tuple[list[Told], dict[str, Any]]:
    """Read a transcript from its checkpoint; a missing one is simply not there yet."""
    saved = await log.checkpoint(checkpoint_name(path))
    state = state_of(saved)
    found: list[Told] = []

    def read() -> None:
        for item in adapter.read(path, state):
            if isinstance(item, BadLine):
                logger.warning("%s, line %s: %s", item.path, item.line, item.reason)
            else:
                found.append(item)

    try:
        await to_thread.run_sync(read)
    except OSError as error:
        logger.info("The transcript %s cannot be read: %s", path, error)
    return found, position_of(state, saved.get("events", 0) + len(found))


def _prepare(told: Sequence[tuple[Captured, str, str]], intaker: Intaker) -> list[Intake]:
    """Events in the order they came, grouped by session."""
    events = intaker.prepare([item for item, _, _ in told])
    groups: dict[tuple[str, str], list[int]] = {}
    for index, (item, _, _) in enumerate(told):
        groups.setdefault((item.client, item.session_id), []).append(index)
    return [
        Intake(tuple(events[index] for index in indexes), told[indexes[0]][1], told[indexes[0]][2])
        for indexes in groups.values()
    ]


async def drain_spool(log: EventLog, folder: Path) -> int:
    """Move what the hook could not write to the database into the inbox. A file of no known form is set aside."""
    await to_thread.run_sync(_settle, folder)
    paths = await to_thread.run_sync(lambda: sorted(folder.glob("*.json"))[:SPOOL_BATCH] if folder.is_dir() else [])
    rows = await to_thread.run_sync(lambda: [(path, _spooled(path)) for path in paths])
    good = [(path, row) for path, row in rows if row]
    if good:
        await log.post([row for _, row in good])
    for path, row in rows:
        if row:
            path.unlink(missing_ok=True)
        elif path.exists():
            path.rename(path.with_suffix(".unreadable"))
            logger.warning("%s is no capture and was set aside.", path)
    return len(good)


def _settle(folder: Path) -> None:
    """Finish what a hook was killed at: a whole file gets its name, half of one is of no use to anyone."""
    before = time.time() - ABANDONED_SECONDS
    for path in folder.glob("*.json.tmp"):
        with suppress(OSError):  # another server may be at it
            if path.stat().st_mtime < before:
                path.rename(path.with_suffix("")) if _spooled(path) else path.unlink()


def _spooled(path: Path) -> tuple[int, str, str, str, str] | None:
    """What a file holds, if it can go into the inbox: one that cannot must not keep all others out."""
    if not path.is_file():  # a pipe would be waited for
        return None
    try:
        row = json.loads(path.read_text("utf-8"))
        received, client, root, label, payload = (row[name] for name in _FIELDS)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(received, int) or not all(isinstance(value, str) for value in (client, root, label, payload)):
        return None
    if received < 0 or received not in TIMES:
        return None
    return received, clean(client), clean(root), clean(label), clean(payload)


def checkpoint_name(path: Path) -> str:
    return f"transcript:{path}"


def state_of(saved: Mapping[str, Any]) -> TranscriptState:
    return TranscriptState(saved.get("offset", 0), saved.get("line", 0), dict(saved.get("memory", {})))


def position_of(state: TranscriptState, events: int) -> dict[str, Any]:
    return {**asdict(state), "events": events}
