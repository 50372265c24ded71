"""First stage: spool and inbox into events, which are redacted, clipped and counted on their way into the log.

On a turn's end the transcript is read from where it was left.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from anyio import to_thread

from mcp_memory.capture.clipping import clean, clip, looked_through
from mcp_memory.capture.hook import client_of
from mcp_memory.capture.redaction import Clean, redact, redact_json
from mcp_memory.clients.port import BadLine, Client, Reading, TranscriptState
from mcp_memory.domain.events import STATED_TIME, TIMES, Captured, Event, EventQuery, Intake, Role, event_key, opaque
from mcp_memory.domain.failures import failure_reason
from mcp_memory.domain.halving import halve_rejected
from mcp_memory.domain.projects import PlaceName
from mcp_memory.domain.storable import bounded_name
from mcp_memory.errors import StoreRejected
from mcp_memory.store.inbox_port import Inbox, InboxRow, Payload
from mcp_memory.store.port import Share, Store

logger = logging.getLogger(__name__)

BATCH = 500
SPOOL_BATCH = 500
#: Events that are stored at once, and how many characters they, or the payloads of a batch, may have together. Fewer
#: would cost more commits; with more, an import has nothing to overlap with storing the last ones.
PORTION = 150
PORTION_CHARS = 4_000_000
#: A hook writes a file within milliseconds; one that is unfinished after this time stays so.
ABANDONED_SECONDS = 60
#: Where two registrations fire for one event, the same payload comes twice, each time by a process of its own.
TWICE_WITHIN_MS = 5_000
#: Clocks differ by hours; whatever is dated further ahead of this machine's clock was not said then.
MAX_AHEAD_MS = 2 * 24 * 3_600_000
_SEEN = "inbox"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_FIELDS = ("received_ms", "client", "root", "label", "payload")

CountAll = Callable[[Sequence[str]], list[int]]
#: A text without secrets, and whether it was cut.
Cleared = tuple[Clean, bool]
#: Clients and ids of sessions, by the name of the checkpoint of the transcript that tells of them.
Sessions = dict[str, set[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Intaker:
    """How events are prepared: size limit, how much of a tool result counts, the tokenizer, and the time.

    `now_ms` is the time of the memory and `latest_ms` that of the machine: they differ where a setting stops the clock.
    """

    max_event_bytes: int
    tool_result_chars: int
    count_all: CountAll
    now_ms: Callable[[], int] | None = None
    latest_ms: Callable[[], int] | None = None

    def prepare(self, captured: Sequence[Captured]) -> list[Event]:
        """Events ready to be stored; their project is given by the store."""
        texts = self.clear(captured)
        return self.events(captured, texts, self.count(captured, texts))

    def clear(self, captured: Sequence[Captured]) -> list[Cleared]:
        """The texts without secrets and no longer than the limit, and whether they were cut."""
        most = self.max_event_bytes
        texts = [clip(redact(looked_through(item.text, most)), most) for item in captured]
        # White space alone says nothing: such an event is kept for its time, without a text.
        return [(Clean(text if text.strip() else ""), cut) for text, cut in texts]

    def count(self, captured: Sequence[Captured], texts: Sequence[Cleared]) -> list[int]:
        """One tokenizer pass for all of them."""
        pairs = zip(captured, texts, strict=True)
        most = self.tool_result_chars
        return self.count_all([text[:most] if item.role is Role.TOOL else text for item, (text, _) in pairs])

    def events(self, captured: Sequence[Captured], texts: Sequence[Cleared], counted: Sequence[int]) -> list[Event]:
        if self.now_ms:
            now_ms = self.now_ms()
            latest_ms = max(now_ms, self.latest_ms()) if self.latest_ms else now_ms
            captured = _without_future(captured, now_ms, latest_ms + MAX_AHEAD_MS)
        return [
            Event(
                key=item.key or event_key(item.client, item.session_id, item.source_key),
                client=item.client,
                session_id=_named(item.session_id),
                project="",
                timestamp_ms=min(max(item.timestamp_ms, TIMES.start), TIMES.stop - 1),
                event_type=item.event_type,
                role=item.role,
                text=text,
                tokens=tokens,
                truncated=cut,
                source_ids=tuple(map(_named, item.source_ids)),
                metadata=redact_json(dict(item.metadata)),
            )
            for item, (text, cut), tokens in zip(captured, texts, counted, strict=True)
        ]


def _without_future(captured: Sequence[Captured], now_ms: int, latest_ms: int) -> list[Captured]:
    """Return the events, with future dates replaced by the current time, in the order of the original dates.

    Such an event would be the latest of all for good. Its metadata keeps the time that its source gave, and its key
    does not change, so that it stays known.
    """
    brought = list(captured)
    ahead = [at for at, item in enumerate(brought) if item.timestamp_ms > latest_ms]
    for rank, at in enumerate(sorted(ahead, key=lambda at: brought[at].timestamp_ms)):
        item = brought[at]
        stated = datetime.fromtimestamp(min(item.timestamp_ms, TIMES.stop - 1) / 1000, UTC)
        metadata = {**item.metadata, STATED_TIME: stated.isoformat(timespec="seconds")}
        brought[at] = replace(item, timestamp_ms=now_ms + rank, metadata=metadata)
    return brought


def by_session(events: Sequence[Event], place_of: Callable[[int], PlaceName | None]) -> list[Intake]:
    """Events in the order they came, grouped by session, each with the place of the project of its first event.

    Sessions that have no place are left out.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for index, event in enumerate(events):
        groups.setdefault((event.client, event.session_id), []).append(index)
    placed = [(indexes, place_of(indexes[0])) for indexes in groups.values()]
    return [Intake(tuple(events[index] for index in indexes), *place) for indexes, place in placed if place]


def _named(name: str) -> str:
    """A client's own name for something. A secret in it is taken out, and what is left still tells it from others."""
    if _UUID.fullmatch(name):
        return name  # as most are: no secret is told by so few letters alone
    clear = redact(clean(name))
    return bounded_name(clear if clear == name else f"{clear} {opaque(name)[:8]}")


@dataclass(slots=True)
class Done:
    """What a run has done."""

    inbox: int = 0
    events: int = 0
    segments: int = 0
    nodes: int = 0
    sessions: int = 0
    indexed: int = 0
    #: Events that the database rejects, or that cannot be prepared for it.
    rejected: int = 0
    #: Work on a session or period that failed and was set aside.
    failed: int = 0
    #: The inbox holds more.
    more: bool = False

    @property
    def anything(self) -> bool:
        return any(astuple(self))

    def add(self, other: Done) -> None:
        for name in ("inbox", "events", "segments", "nodes", "sessions", "indexed", "rejected", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class _Round:
    """What one round of the inbox comes to; an event comes with the place of the project it was captured in."""

    events: list[tuple[Captured, PlaceName]] = field(default_factory=list)
    fallback: list[tuple[Captured, PlaceName]] = field(default_factory=list)
    transcripts: dict[Path, tuple[Client, PlaceName]] = field(default_factory=dict)
    consumed: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    compacting: list[tuple[str, str]] = field(default_factory=list)
    checkpoints: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: The sessions that each transcript has told of in this round, by its checkpoint's name.
    sessions: Sessions = field(default_factory=dict)


async def ingest(log: Store, inbox: Inbox, clients: Mapping[str, Client], intaker: Intaker, share: Share) -> Done:
    """Take one batch of inbox rows, which leave the inbox after the last of their events is stored.

    Transcripts are read in portions, each stored with the place it reaches. If time runs out among them, the rows that
    name them stay, and the next round goes on from there.
    """
    waiting = await inbox.rows(BATCH)
    # As many of the first rows as have so many characters, and one in any case.
    sizes = accumulate(len(row.payload) for row in waiting)
    rows = waiting[: max(1, sum(size <= PORTION_CHARS for size in sizes))]
    if not rows:
        return Done()
    batch, added, rejected = _Round(), 0, [0]
    seen = await inbox.checkpoint(_SEEN)
    for row in rows:
        _take(row, clients, batch, seen)

    async def store(*, rows_too: bool = False) -> int:
        """Store what has come together so far, and in the end let go of the rows it came from."""
        taken, checkpoints = batch.events, batch.checkpoints
        batch.events, batch.checkpoints = [], {}
        kept, odd = await to_thread.run_sync(prepare_each, intaker, [event for event, _ in taken])
        compacting = batch.compacting if rows_too else ()
        intakes = by_session([event for _, event in kept], lambda index: taken[kept[index][0]][1])
        count, refused = await add_each(log, intakes, compacting=compacting, lease_token=share.token)
        for reason in [*odd.values(), *refused.values()]:
            logger.error("An event could not be stored and is left out: %s", reason)
        rejected[0] += len(odd) + len(refused)
        if count < len(taken):
            checkpoints = await without_forgotten(log, checkpoints, batch.sessions)
        rows = {"consumed": batch.consumed, "unknown": batch.unknown} if rows_too else {}
        await inbox.settle(**rows, checkpoints=checkpoints)
        return count

    for path, (client, place) in batch.transcripts.items():
        name = checkpoint_name(path)
        saved = await inbox.checkpoint(name)
        # A file that could not be read and has not changed since is set aside.
        failed = _mark(path) and _mark(path) == saved.get("failed", {}).get("file")
        parts = iter(()) if failed else portions(client, path, saved)
        while (part := await to_thread.run_sync(next, parts, None)) is not None:
            for line in part.bad:
                logger.warning("%s, line %s: %s", line.path, line.line, line.reason)
            batch.events += [(event, place) for event in part.events]
            batch.sessions.setdefault(name, set()).update((event.client, event.session_id) for event in part.events)
            batch.checkpoints[name] = part.position
            if is_enough([event for event, _ in batch.events]):
                added += await store()
                # A file whose place has not moved would be read from its start again.
                if share.is_over() and part.position["offset"] > saved.get("offset", 0):
                    return Done(events=added, rejected=rejected[0], more=True)
    batch.events += batch.fallback
    # Together with the rows, or the next round would take them for repeats of themselves.
    newest = max(seen.values(), default=0)
    batch.checkpoints[_SEEN] = {name: ms for name, ms in seen.items() if newest - ms <= 2 * TWICE_WITHIN_MS}
    added += await store(rows_too=True)
    more = len(rows) < len(waiting) or len(waiting) == BATCH
    return Done(len(rows), added, rejected=rejected[0], more=more)


async def without_forgotten(
    log: Store, checkpoints: Mapping[str, dict[str, Any]], sessions: Sessions
) -> dict[str, dict[str, Any]]:
    """Return checkpoints that keep nothing but the offset if every event of the transcript was refused.

    That is so after its session or project was forgotten: neither its id nor its directory is to be kept then.
    """
    kept = dict(checkpoints)
    for name, position in checkpoints.items():
        told = sorted(sessions.get(name, ()))
        if told and "failed" not in position and not await _is_any_stored(log, told):
            kept[name] = _unread(position["offset"], position["events"])
    return kept


async def _is_any_stored(log: Store, sessions: Sequence[tuple[str, str]]) -> bool:
    for client, session_id in sessions:
        if await log.events(EventQuery(session_id=_named(session_id), client=client, last=1)):
            return True
    return False


def _unread(told_to: int, events: int) -> dict[str, Any]:
    """Return the position of a reader that reads from the start, and tells what comes after an offset."""
    return {"offset": 0, "line": 0, "memory": {"told_to": told_to}, "events": events}


def reached(position: Mapping[str, Any]) -> int:
    """Return the offset up to which everything in a transcript was told."""
    return max(int(position.get("offset", 0)), int(position.get("memory", {}).get("told_to", 0)))


def prepare_each(intaker: Intaker, captured: Sequence[Captured]) -> tuple[list[tuple[int, Event]], dict[int, str]]:
    """Return the prepared events with their places in the list, and why others could not be prepared, by place."""
    try:
        return list(enumerate(intaker.prepare(captured))), {}
    except Exception:
        kept: list[tuple[int, Event]] = []
        odd: dict[int, str] = {}
        for index, item in enumerate(captured):
            try:
                kept.append((index, intaker.prepare([item])[0]))
            except Exception as error:
                odd[index] = failure_reason(error)
        return kept, odd


async def add_each(
    log: Store,
    intakes: Sequence[Intake],
    *,
    compacting: Sequence[tuple[str, str]] = (),
    lease_token: int | None = None,
) -> tuple[int, dict[bytes, str]]:
    """Store events except the rejected ones; returns how many were new, and why others were rejected, by key."""
    added = 0

    async def take(part: Sequence[tuple[int, Event]]) -> None:
        nonlocal added
        groups = groupby(part, key=itemgetter(0))
        taken = [replace(intakes[index], events=tuple(event for _, event in group)) for index, group in groups]
        added += await log.add(taken, compacting=compacting, lease_token=lease_token)

    events = [(index, event) for index, intake in enumerate(intakes) for event in intake.events]
    if not events:
        return await log.add(intakes, compacting=compacting, lease_token=lease_token), {}
    refused = await halve_rejected(events, take, StoreRejected)
    return added, {event.key: str(error) for (_, event), error in refused}


def is_enough(events: Sequence[Captured]) -> bool:
    """Whether these should be stored before more are read."""
    return len(events) >= PORTION or sum(len(event.text) for event in events) >= PORTION_CHARS


def _take(row: InboxRow, clients: Mapping[str, Client], batch: _Round, seen: dict[str, int]) -> None:
    """Add what a payload means to the round. One of no known form is kept as it is."""
    try:
        payload = json.loads(row.payload)
    except (ValueError, RecursionError):
        payload = None
    client, reading = row.client, Reading(unknown=True)
    if isinstance(payload, dict):
        client = client_of(payload, row.client)
        try:
            reading = clients[client].hook(payload, row.received_ms) if client in clients else reading
        except Exception:
            # One odd payload must not stop the capture of all that come after it.
            logger.exception("A payload of %s could not be read and was kept", client)
    if reading.unknown:
        batch.unknown.append(row.id)
        return
    batch.consumed.append(row.id)
    # Whether the same payload came a moment ago; what else it may be the same as, its events' keys tell.
    name = hashlib.blake2b(f"{row.client} {row.payload}".encode("utf-8", "replace"), digest_size=8).hexdigest()
    before, seen[name] = seen.get(name), row.received_ms
    if before is not None and abs(row.received_ms - before) <= TWICE_WITHIN_MS:
        return
    place = row.root, row.label, row.remote
    if reading.compacting:
        batch.compacting.append((client, _named(reading.session_id)))
    batch.events += [(event, place) for event in reading.events]
    batch.fallback += [(event, place) for event in reading.fallback]
    if reading.transcript:
        batch.transcripts[reading.transcript] = (clients[client], place)


@dataclass(frozen=True, slots=True)
class TranscriptPart:
    """A part of a transcript: its events, the lines that could not be read, and the checkpoint after it."""

    events: list[Captured]
    bad: list[BadLine]
    position: dict[str, Any]
    #: From which line each event comes.
    lines: list[int]


def portions(client: Client, path: Path, saved: Mapping[str, Any]) -> Iterator[TranscriptPart]:
    """A transcript from its checkpoint on, in parts that are fit to be stored at once.

    Whatever its reader meets, the last part says so: the file is set aside, and others are not kept waiting. The file
    may be one of any kind, and its reader err.
    """
    state = TranscriptState(saved.get("offset", 0), saved.get("line", 0), dict(saved.get("memory", {})))
    total = int(saved.get("events", 0))
    # What such a reader knew was forgotten. Until it has something to tell, it keeps nothing of it.
    is_silent = not state.offset and "told_to" in state.memory
    items = iter(client.read(path, state))
    while True:
        events: list[Captured] = []
        bad: list[BadLine] = []
        lines: list[int] = []
        chars, failure = 0, None
        try:
            for item in items:
                if isinstance(item, BadLine):
                    bad.append(item)
                else:
                    events.append(item)
                    lines.append(state.line + 1)
                    chars += len(item.text)
                if len(events) + len(bad) >= PORTION or chars >= PORTION_CHARS:
                    break
        except Exception as error:
            failure = error
        found = bool(events or bad)
        total += len(events)
        is_silent = is_silent and not events
        position = _unread(state.offset, total) if is_silent else position_of(state, total)
        if failure:
            reason = reason_of(failure)
            line = 0 if isinstance(failure, OSError) else state.line + 1
            bad.append(BadLine(str(path), line, reason))
            position["failed"] = {"path": redact(str(path)), "line": line, "reason": reason, "file": _mark(path)}
        # Even with nothing found: the place after the last line is known only now.
        yield TranscriptPart(events, bad, position, lines)
        if failure or not found:
            return


def reason_of(error: Exception) -> str:
    """Why a file cannot be read, without the words of the error, which may quote the file's own."""
    if isinstance(error, OSError):
        return f"the file cannot be read: {error.strerror or type(error).__name__}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"its reader failed ({type(error).__name__} in {Path(last.filename).name}:{last.lineno})"


def _mark(path: Path) -> str:
    """What changes with a file: its content, or who may read it."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def checkpoint_name(path: Path) -> str:
    """Under what the place in a transcript is kept, by where it lies: another directory may hold one of the same name.

    The name says nothing of the path, which is the client's.
    """
    with suppress(FileNotFoundError):  # the current directory has been deleted
        path = path.absolute()
    return f"transcript:{opaque(str(path))}"


def position_of(state: TranscriptState, events: int) -> dict[str, Any]:
    """What is saved of a reader's state: readers keep no words, and a secret in a name or path is taken out."""
    return {**asdict(state), "memory": redact_json(asdict(state)["memory"]), "events": events}


async def drain_spool(inbox: Inbox, folder: Path) -> int:
    """Move what the hook could not write to the inbox there. A file of no known form is set aside.

    What was read before an erasure took its file away must not come back: the inbox then refuses it.
    """
    files = await to_thread.run_sync(_read_spool, folder)
    rows = [row for _, row in files if row]
    if rows:
        await inbox.post(rows)
    for path, row in files:
        if row:
            path.unlink(missing_ok=True)
        elif path.exists():
            path.rename(path.with_suffix(".unreadable"))
            logger.warning("%s is no capture and was set aside.", path)
    return len(rows)


def _read_spool(folder: Path) -> list[tuple[Path, Payload | None]]:
    """What the first of the files hold, until it is enough for one round."""
    before = time.time() - ABANDONED_SECONDS
    for path in folder.glob("*.json.tmp"):
        # Finish what a hook was killed at: a whole file gets its name, half of one is of no use to anyone.
        with suppress(OSError):  # another server may be at it
            if path.stat().st_mtime < before:
                path.rename(path.with_suffix("")) if _spooled(path) else path.unlink()
    files, chars = [], 0
    for path in sorted(folder.glob("*.json"))[:SPOOL_BATCH] if folder.is_dir() else ():
        files.append((path, row := _spooled(path)))
        chars += len(row[4]) if row else 0
        if chars > PORTION_CHARS:
            break
    return files


def _spooled(path: Path) -> Payload | None:
    """What a file holds, if it can go into the inbox: one that cannot must not keep all others out."""
    if not path.is_file():  # a pipe would be waited for
        return None
    try:
        row = json.loads(path.read_text("utf-8"))
        received, client, root, label, payload = (row[name] for name in _FIELDS)
        remote = row.get("remote", "")  # an earlier hook tells none
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    texts = (client, root, label, payload, remote)
    if not isinstance(received, int) or not all(isinstance(value, str) for value in texts):
        return None
    if received < 0 or received not in TIMES:
        return None
    return received, clean(client), clean(root), clean(label), clean(payload), clean(remote)
