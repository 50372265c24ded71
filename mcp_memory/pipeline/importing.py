"""Old history into events: one thread reads and clears of secrets, one counts tokens, one stores the batch before."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.streams.memory import MemoryObjectSendStream

from mcp_memory.capture.project import detect
from mcp_memory.clients.port import BadLine, Client
from mcp_memory.domain.events import Captured, Intake
from mcp_memory.domain.projects import PlaceName
from mcp_memory.domain.toc import local_day
from mcp_memory.errors import alone
from mcp_memory.pipeline.ingest import (
    Cleared,
    Intaker,
    Sessions,
    add_each,
    by_session,
    checkpoint_name,
    is_enough,
    portions,
    prepare_each,
    reached,
    without_forgotten,
)
from mcp_memory.store.inbox_port import Inbox
from mcp_memory.store.port import Store, Trial

_TURN_SECONDS = 0.0002
Progress = Callable[[int, int], None]
Source = tuple[Client, Path]


@dataclass(slots=True)
class Imported:
    files: int = 0
    events_new: int = 0
    events_known: int = 0
    skipped: list[BadLine] = field(default_factory=list)
    #: Lines that call themselves notes, or pinned, and are ordinary events here.
    notes: int = 0
    seconds: float = 0.0
    projects: Counter[str] = field(default_factory=Counter)
    months: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Batch:
    """Events of one or several files, with the place that each file was read up to."""

    captured: list[Captured] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    #: From which file and line each comes, and the same by the event's key once it has one.
    origins: list[tuple[str, int]] = field(default_factory=list)
    origin_of: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    positions: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: Sessions = field(default_factory=dict)
    intakes: list[Intake] = field(default_factory=list)
    read: int = 0


async def import_files(
    log: Store,
    inbox: Inbox,
    sources: Sequence[Source],
    intaker: Intaker,
    *,
    project: str = "",
    project_root: str = "",
    dry_run: bool = False,
    passing: Collection[Path] = (),
    progress: Progress = lambda done, total: None,
) -> Imported:
    """Import every file; one that was read before and has not grown is only counted.

    `project` puts everything into one project; `project_root` is how the store knows that project, if it does.
    `passing` are files that are there for this one time: how far they were read is of no use.
    """
    started = time.monotonic()
    place = (project_root, "" if project_root else project, "") if project else None
    saved = {path: await inbox.checkpoint(checkpoint_name(path)) for _, path in sources if path not in passing}
    trial = log.trial() if dry_run else None
    importer = _Importer(sources, saved, intaker, place, passing)
    known = sum(int(position.get("events", 0)) for position in saved.values())
    result = Imported(files=len(sources), events_known=known)
    total = sum([await to_thread.run_sync(_size, path) for _, path in sources])
    usual = sys.getswitchinterval()
    # Let the threads take turns often: else each statement waits until the reading thread has a pause.
    sys.setswitchinterval(_TURN_SECONDS)
    try:
        with alone():
            async with anyio.create_task_group() as group:
                send, receive = anyio.create_memory_object_stream[_Batch](1)
                group.start_soon(importer.read_into, send, name="reading transcripts")
                async with receive:
                    async for batch in receive:
                        await _store(log, inbox, trial, batch, result)
                        progress(min(batch.read, total), total)
    finally:
        sys.setswitchinterval(usual)
    progress(total, total)
    result.seconds = round(time.monotonic() - started, 3)
    return result


async def _store(log: Store, inbox: Inbox, trial: Trial | None, batch: _Batch, result: Imported) -> None:
    """Store the batch, or count on trial what of it would be stored."""
    result.skipped += batch.bad
    result.notes += sum(event.was_note for event in batch.captured)
    refused: dict[bytes, str] = {}
    if trial is None:
        added, refused = await add_each(log, batch.intakes)
        result.skipped += [BadLine(*batch.origin_of[key], reason) for key, reason in refused.items()]
        if added < len(batch.captured):
            batch.positions = await without_forgotten(log, batch.positions, batch.sessions)
        await inbox.settle(checkpoints=batch.positions)
    else:
        fresh = await trial(batch.intakes)
        added = sum(len(intake.events) for intake in fresh)
        for intake in fresh:
            # A name that a directory claims may not count, so that the directory is told.
            result.projects[(intake.root or intake.label).removeprefix("label:")] += len(intake.events)
            result.months.update(local_day(event.timestamp_ms, UTC).isoformat()[:7] for event in intake.events)
    result.events_new += added
    result.events_known += sum(len(intake.events) for intake in batch.intakes) - added - len(refused)


@dataclass(slots=True)
class _Importer:
    """Reads the files one after the other, in batches that may hold several of them."""

    sources: Sequence[Source]
    saved: Mapping[Path, Mapping[str, Any]]
    intaker: Intaker
    #: Where the project is that everything goes into, if one is given.
    place: PlaceName | None
    passing: Collection[Path]
    _roots: dict[tuple[str, str], PlaceName | None] = field(default_factory=dict)

    async def read_into(self, send: MemoryObjectSendStream[_Batch]) -> None:
        with ThreadPoolExecutor(1) as counting:
            batches = self._counted(counting)
            # Where storing has failed there is no one to send to, and what failed there is what is told.
            with suppress(anyio.BrokenResourceError):
                async with send:
                    while (batch := await to_thread.run_sync(lambda: next(batches, None))) is not None:
                        await send.send(batch)

    def _counted(self, counting: Executor) -> Iterator[_Batch]:
        """The batches ready to be stored; while the tokens of one are counted, the next is read."""
        waiting: tuple[_Batch, list[Cleared], Future[list[int]]] | None = None
        for batch in chain(self._batches(), [None]):
            counted = None
            if batch:
                texts = self._clear(batch)
                counted = batch, texts, counting.submit(self.intaker.count, batch.captured, texts)
            if waiting:
                yield self._ready(*waiting)
            waiting = counted

    def _clear(self, batch: _Batch) -> list[Cleared]:
        try:
            return self.intaker.clear(batch.captured)
        except Exception:
            self._leave_out(batch)
            return self.intaker.clear(batch.captured)

    def _ready(self, batch: _Batch, texts: list[Cleared], counted: Future[list[int]]) -> _Batch:
        try:
            events = self.intaker.events(batch.captured, texts, counted.result())
        except Exception:
            self._leave_out(batch)
            events = self.intaker.prepare(batch.captured)
        batch.origin_of = {event.key: origin for event, origin in zip(events, batch.origins, strict=True)}
        batch.intakes = by_session(events, partial(self._place, batch.captured))
        return batch

    def _leave_out(self, batch: _Batch) -> None:
        """Report the events that cannot be prepared, and go on with the others."""
        kept, odd = prepare_each(self.intaker, batch.captured)
        batch.bad += [BadLine(*batch.origins[index], reason) for index, reason in odd.items()]
        batch.captured = [batch.captured[index] for index, _ in kept]
        batch.origins = [batch.origins[index] for index, _ in kept]

    def _batches(self) -> Iterator[_Batch]:
        batch, before = _Batch(), 0
        sessions: Sessions = {}
        for client, path in self.sources:
            for part in portions(client, path, self.saved.get(path, {})):
                batch.captured += part.events
                batch.origins += [(str(path), line) for line in part.lines]
                batch.bad += part.bad
                if path not in self.passing:
                    name = checkpoint_name(path)
                    batch.positions[name] = part.position
                    told = {(event.client, event.session_id) for event in part.events}
                    sessions.setdefault(name, set()).update(told)
                    batch.sessions[name] = sessions[name]
                batch.read = before + reached(part.position)
                if is_enough(batch.captured):
                    yield batch
                    batch = _Batch()
            if "failed" not in part.position and _is_unfinished(path, reached(part.position)):
                reason = "the last line is incomplete or not JSON"
                batch.bad.append(BadLine(str(path), part.position["line"] + 1, reason))
            before += _size(path)
        yield batch

    def _place(self, captured: Sequence[Captured], index: int) -> PlaceName | None:
        """The place of the project a session belongs to, worked out once per directory; None if it opted out."""
        project, cwd, remote = captured[index].project, captured[index].cwd, captured[index].remote
        if self.place or project:
            return self.place or ("", project, remote)
        if (cwd, remote) not in self._roots:
            found = detect(cwd, {})
            # The directory may be gone, and the client have recorded its remote.
            place = (found.root, found.label, found.remote or remote)
            self._roots[cwd, remote] = place if found.enabled else None
        return self._roots[cwd, remote]


def _is_unfinished(path: Path, offset: int) -> bool:
    """Whether something without an end was left at the end. More than a line is what has just been added.

    It stays unread, so that the rest of it can come; but here no one may ever ask again.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            rest = file.read()
    except OSError:
        return False
    return b"\n" not in rest and bool(rest.strip())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
