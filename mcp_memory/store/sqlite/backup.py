"""Backups of the database: the loop makes them while everyone goes on working, and checks each before it counts."""

from __future__ import annotations

import logging
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from anyio import to_thread

from mcp_memory.capture.settings import private_dir
from mcp_memory.store.port import Clock, Lease
from mcp_memory.store.sql.database import ERASURES
from mcp_memory.store.sqlite.database import DUE, Database, told
from mcp_memory.store.sqlite.migrations import backup, remove_partial, upgrade_copies, uri

logger = logging.getLogger(__name__)

FOLDER = "backups"
#: When it was made, in milliseconds, and how much had been written until then.
_NAME = re.compile(r"memory-(\d{13})-(\d+)\.db")
_PATTERN = "memory-*.db"
_DAY_MS = 24 * 60 * 60 * 1000
#: So much more than the last backup holds is worth a new one before the day is over.
_MORE, _FACTOR = 1_000, 1.5
#: What is left free on the disk.
_SPARE = 100 * 1024 * 1024
#: Grows with every event, version of a node, record and payload, and never shrinks.
_WRITTEN = "SELECT coalesce(sum(seq), 0) FROM sqlite_sequence"


def backups_of(path: Path) -> list[Path]:
    """The finished backups of a database, the oldest first."""
    return sorted(file for file in (path.parent / FOLDER).glob(_PATTERN) if _NAME.fullmatch(file.name))


def copies_of(path: Path) -> list[Path]:
    """All copies that this program made of the database, finished or not: what is forgotten must go from them too."""
    return [*upgrade_copies(path), *sorted((path.parent / FOLDER).glob(f"{_PATTERN}*"))]


class Backups:
    """Keeps the newest `keep` backups. Of several servers one makes them, under a lease of their own."""

    def __init__(self, database: Database, keep: int, lease: Lease, clock: Clock) -> None:
        self._database = database
        self._keep = keep
        self._lease = lease
        self._clock = clock

    async def refresh(self) -> Path | None:
        """Make a backup if one is due: once a day if anything was written, and sooner after much was."""
        if not await self._is_due() or not await self._lease.acquire():
            return None
        stop = threading.Event()
        try:
            async with self._lease.kept():
                # Another server may have made one just before it gave the lease back.
                if not await self._is_due():
                    return None
                written = await self._database.value(_WRITTEN)
                target = self._folder / f"memory-{self._clock.now_ms():013d}-{written}.db"
                # A server that ends does not wait for it: the thread hears of that, and leaves nothing behind.
                return await to_thread.run_sync(self._make, target, stop.is_set, abandon_on_cancel=True)
        finally:
            stop.set()
            await self._lease.release()

    @property
    def _folder(self) -> Path:
        return self._database.path.parent / FOLDER

    async def _is_due(self) -> bool:
        written = int(await self._database.value(_WRITTEN))
        # Until what was erased is scrubbed from the file, its pages still hold it.
        if not self._keep or not written or await self._database.fetch(DUE):
            return False
        made = [_NAME.fullmatch(file.name) for file in backups_of(self._database.path)]
        if not made or made[-1] is None:
            return True
        then_ms, then = map(int, made[-1].groups())
        late = self._clock.now_ms() - then_ms >= _DAY_MS
        return (late and written != then) or written > then * _FACTOR + _MORE

    def _make(self, target: Path, is_over: Callable[[], bool]) -> Path | None:
        path = self._database.path
        if shutil.disk_usage(path.parent).free < path.stat().st_size + _SPARE:
            logger.warning("There is no room for a backup of %s.", path)
            return None
        private_dir(str(target.parent))
        for left in target.parent.glob(f"{_PATTERN}.tmp"):  # of a process that was killed: we have the lease
            remove_partial(left)
        with told(path):
            with closing(sqlite3.connect(uri(path), uri=True, isolation_level=None)) as source:
                # One state, whoever writes meanwhile; else each write would make the copy begin anew.
                source.execute("BEGIN")
                before = source.execute(ERASURES).fetchone()
                try:
                    backup(source, target, is_over=is_over)
                except InterruptedError:
                    return None
                source.execute("COMMIT")
                after = source.execute(ERASURES).fetchone()
        if after != before:
            # Something was forgotten meanwhile, by someone who looked for copies before this one had its name.
            target.unlink(missing_ok=True)
            return None
        for old in backups_of(path)[: -self._keep]:
            old.unlink(missing_ok=True)
        return target
