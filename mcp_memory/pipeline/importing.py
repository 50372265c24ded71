"""Old history into events: transcripts read in batches, each stored with the position it was read up to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from itertools import islice
from pathlib import Path
from typing import Any

from anyio import to_thread

from mcp_memory.capture.project import detect
from mcp_memory.domain.toc import local_day
from mcp_memory.pipeline.ingest import checkpoint_name, position_of, state_of
from mcp_memory.pipeline.prepare import Intaker
from mcp_memory.ports import BadLine, ClientAdapter, EventLog, Intake, Told, TranscriptState

BATCH = 2_000
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Imported:
    files: int = 0
    events_new: int = 0
    events_known: int = 0
    skipped: list[BadLine] = field(default_factory=list)
    seconds: float = 0.0
    projects: dict[str, int] = field(default_factory=dict)
    months: dict[str, int] = field(default_factory=dict)


async def import_files(
    log: EventLog,
    sources: Sequence[tuple[ClientAdapter, Path]],
    intaker: Intaker,
    *,
    project: str = "",
    project_root: str = "",
    dry_run: bool = False,
    progress: Progress = lambda done, total: None,
) -> Imported:
    """Import every file; a file that was read before and has not grown is only counted.

    `project` puts everything into one project; `project_root` is how the store knows that project, if it does.
    """
    place = (project_root, "" if project_root else project) if project else None
    started = time.monotonic()
    result = Imported()
    sizes = [await to_thread.run_sync(_size, path) for _, path in sources]
    done, total = 0, sum(sizes)
    for (adapter, path), size in zip(sources, sizes, strict=True):
        base = done
        reader = _File(log, adapter, path, intaker, place, dry_run, result)
        await reader.run(lambda offset, base=base: progress(base + offset, total))  # type: ignore[misc]
        done += size
        progress(done, total)
        result.files += 1
    result.seconds = round(time.monotonic() - started, 3)
    return result


class _File:
    """One transcript on its way into the log."""

    def __init__(
        self,
        log: EventLog,
        adapter: ClientAdapter,
        path: Path,
        intaker: Intaker,
        place: tuple[str, str] | None,
        dry_run: bool,
        result: Imported,
    ) -> None:
        self._log, self._adapter, self._path, self._intaker = log, adapter, path, intaker
        self._given, self._dry_run, self._result = place, dry_run, result
        self._roots: dict[str, tuple[str, str]] = {}

    async def run(self, progress: Callable[[int], None]) -> None:
        name = checkpoint_name(self._path)
        saved = {} if self._dry_run else await self._log.checkpoint(name)
        state, events = state_of(saved), int(saved.get("events", 0))
        self._result.events_known += events
        try:
            lines = self._adapter.read(self._path, state)
            while batch := await to_thread.run_sync(lambda: list(islice(lines, BATCH))):
                told = self._sort_out(batch)
                events += len(told)
                await self._store(told, name, state, events)
                progress(state.offset)
        except OSError as error:
            self._result.skipped.append(BadLine(str(self._path), 0, f"the file cannot be read: {error.strerror}"))

    def _sort_out(self, batch: Sequence[Told | BadLine]) -> list[Told]:
        self._result.skipped += [item for item in batch if isinstance(item, BadLine)]
        return [item for item in batch if isinstance(item, Told)]

    async def _store(self, told: list[Told], name: str, state: TranscriptState, events: int) -> None:
        if self._dry_run:
            self._count(told)
            return
        intakes = await to_thread.run_sync(self._intakes, told)
        position: dict[str, Any] = position_of(state, events)
        added = await self._log.add(intakes, checkpoints={name: position})
        self._result.events_new += added
        self._result.events_known += len(told) - added

    def _intakes(self, told: list[Told]) -> list[Intake]:
        events = self._intaker.prepare([item.event for item in told])
        groups: dict[tuple[str, str], list[int]] = {}
        for index, event in enumerate(events):
            groups.setdefault((event.client, event.session_id), []).append(index)
        return [
            Intake(tuple(events[index] for index in indexes), *self._place(told[indexes[0]]))
            for indexes in groups.values()
        ]

    def _place(self, told: Told) -> tuple[str, str]:
        """Root and label of the project a session belongs to, worked out once per directory."""
        if self._given or told.project:
            return self._given or ("", told.project)
        if told.cwd not in self._roots:
            found = detect(told.cwd or str(self._path.parent), {})
            self._roots[told.cwd] = (found.root, found.label)
        return self._roots[told.cwd]

    def _count(self, told: list[Told]) -> None:
        for item in told:
            root, label = self._place(item)
            name = label or root
            month = local_day(item.event.timestamp_ms, UTC).isoformat()[:7]
            self._result.projects[name] = self._result.projects.get(name, 0) + 1
            self._result.months[month] = self._result.months.get(month, 0) + 1
        self._result.events_new += len(told)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
