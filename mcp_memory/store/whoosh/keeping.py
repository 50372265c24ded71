"""Keeping the index in step with the database, one bounded commit at a time.

The pipeline does this under its lease, when nothing else is left to do. A process that is killed leaves the last
generation as it was, and the next one goes on from there.
"""

from __future__ import annotations

import errno
import logging
from dataclasses import replace
from pathlib import Path

import anyio
from anyio import to_thread

from mcp_memory.errors import StoreError, StoreFull
from mcp_memory.store.port import IndexState
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.whoosh.position import Position, Verdict, belongs, generation, judge, reached, read_position
from mcp_memory.store.whoosh.source import everything, portion
from mcp_memory.store.whoosh.storage import clear, right_to_write
from mcp_memory.store.whoosh.writing import put, start_anew, take_out

logger = logging.getLogger(__name__)

KIND = "whoosh"
_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}


class WhooshKeeper:
    """Implements the IndexKeeper port."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._lock = anyio.Lock()
        self._failed = False

    async def state(self) -> IndexState:
        verdict = await self._verdict(self._held())
        files = list(self._folder.glob("*")) if self._folder.is_dir() else []
        return IndexState(KIND, verdict.value, sum(file.stat().st_size for file in files))

    async def behind(self) -> bool:
        return await self._verdict(self._held()) is not Verdict.CURRENT

    async def catch_up(self) -> int:
        async with self._lock:
            try:
                # Another process may be at it, which had the lease before; then this one has nothing to do.
                with right_to_write(self._folder) as mine:
                    return await self._bring_on() if mine else 0
            except StoreError:
                raise
            except OSError as error:
                if error.errno not in _CANNOT_WRITE:
                    return await self._throw_away(error)
                raise StoreFull(
                    f"{self._folder} cannot be written: {error.strerror}. Free some space or correct the permissions; "
                    "until then questions are answered by the FTS5 index."
                ) from error
            except Exception as error:  # Whoosh meets broken files with errors of every kind.
                return await self._throw_away(error)

    def _held(self) -> Position | None:
        return read_position(self._folder, generation(self._folder))

    async def _verdict(self, held: Position | None) -> Verdict:
        now = await reached(self._database)
        verdict = judge(held, now)
        if held and verdict is not Verdict.UNUSABLE and not await belongs(self._database, held, now):
            return Verdict.UNUSABLE
        return verdict

    async def _bring_on(self) -> int:
        held = self._held()
        verdict = await self._verdict(held)
        if verdict is Verdict.CURRENT:
            self._failed = False
            return 0
        # Read after the verdict: what is erased from now on leaves a mark that is not in the position.
        now = await reached(self._database)
        if held is None or verdict is Verdict.UNUSABLE:
            held = Position(erasure=now.erasure)
            await to_thread.run_sync(start_anew, self._folder, held)
        elif verdict is Verdict.ERASED:
            kept = await everything(self._database)
            await to_thread.run_sync(take_out, self._folder, kept, held, replace(held, erasure=now.erasure))
            return 1
        found = await portion(self._database, held, now)
        await to_thread.run_sync(put, self._folder, found.documents, found.replaced, found.position)
        return max(len(found.documents), 1)

    async def _throw_away(self, error: Exception) -> int:
        """Build a damaged index anew; if that fails as well, something else is wrong."""
        if self._failed:
            raise StoreError(
                f"The Whoosh index in {self._folder} cannot be built ({type(error).__name__}: {error}). Questions are "
                'answered by the FTS5 index; set [index] kind = "fts5" to do without Whoosh.'
            ) from error
        logger.warning("The Whoosh index cannot be used (%s: %s) and is built anew.", type(error).__name__, error)
        self._failed = True
        await to_thread.run_sync(clear, self._folder)
        return 1
