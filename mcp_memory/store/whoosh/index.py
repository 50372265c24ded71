"""The Whoosh index: answers from its files whenever they are in step with the store, and keeps them so.

Whatever is asked while they are not is answered by the store's own index, which always is. So nothing that was said is
ever missing from an answer, and nothing is lost with these files: they can be thrown away at any time.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio

from mcp_memory.domain.inventory import IndexState
from mcp_memory.domain.terms import DEEPEST, SCANNED, IndexEntry, Pool, Ranked, Standing, Term, Within
from mcp_memory.errors import Problem, StoreError, StoreFull, how_to_add
from mcp_memory.store.port import IndexSource, SearchIndex
from mcp_memory.store.whoosh.searcher import Searcher, generation, read_position

logger = logging.getLogger(__name__)

#: How many events and how many nodes one commit takes in.
BATCH = 2_000
_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
#: A running server brings the index into step within seconds.
_LATE_SECONDS = 600


def mark_damaged(folder: Path) -> None:
    """So that whoever may write builds it anew."""
    (folder / "damaged").touch(0o600)


class WhooshIndex:
    """Implements the FiledIndex port, and the SearchIndex port over one moment of a store."""

    def __init__(self, store: IndexSource, folder: Path, otherwise: SearchIndex) -> None:
        from mcp_memory.store.whoosh import writer  # which needs the package

        self._store, self._folder, self._otherwise = store, folder, otherwise
        self._searcher, self._writer = Searcher(folder), writer
        self._lock, self._writing = threading.Lock(), anyio.Lock()
        self._failed, self.close = False, self._searcher.close

    def over(self, source: IndexSource, otherwise: SearchIndex) -> SearchIndex:
        view = copy(self)
        view._store, view._otherwise = source, otherwise
        return view

    async def search(
        self, terms: Sequence[Term], within: Within, *, kinds: frozenset[str] | None, limit: int
    ) -> list[IndexEntry]:
        events, nodes = not kinds or "event" in kinds, not kinds or kinds != {"event"}
        found = await self._find(terms, Within(), SCANNED, events, nodes)
        if found is None:
            return await self._otherwise.search(terms, within, kinds=kinds, limit=limit)
        return await self._store.matches(found, within, kinds, limit)

    async def pool(self, terms: Sequence[Term], within: Within, *, cited: bool, limit: int) -> Pool:
        # Where a filter leaves too little of the best, what fits lies deeper; that is seldom, and takes sorting all.
        for depth in (DEEPEST, SCANNED):
            found = await self._find(terms, within, depth, True, False)
            if found is None:
                return await self._otherwise.pool(terms, within, cited=cited, limit=limit)
            pool = await self._store.pool_of(terms, found, within, cited=cited, limit=limit)
            if pool.matched == limit or len(found.numbers) < depth:
                break
        return pool

    async def _find(self, *asked: Any) -> Ranked | None:
        """What the files say; nothing if they are not in step with the store, or cannot be read."""
        with self._lock:
            number = generation(self._folder)
            try:
                self._searcher.refresh()
                if await self._store.index_standing(self._searcher.position) is Standing.CURRENT:
                    return self._searcher.find(*asked)
            except Exception as error:  # Whoosh meets broken files with errors of every kind.
                self._searcher.close()
                if generation(self._folder) == number:
                    logger.warning("The Whoosh index cannot be read: %s: %s.", type(error).__name__, error)
                    with suppress(OSError):
                        mark_damaged(self._folder)
            return None

    async def state(self) -> IndexState:
        files = list(self._folder.glob("*")) if self._folder.is_dir() else []
        standing = await self._store.index_standing(read_position(self._folder, generation(self._folder)))
        return IndexState("whoosh", standing.value, sum(file.stat().st_size for file in files))

    async def behind(self) -> bool:
        return (await self.state()).state != Standing.CURRENT.value

    async def catch_up(self) -> int:
        async with self._writing:
            try:
                # Another process may be at it, which had the lease before; then this one has nothing to do.
                with self._writer.right_to_write(self._folder) as mine:
                    return await self._bring_on() if mine else 0
            except StoreError:
                raise
            except Exception as error:  # Whoosh meets broken files with errors of every kind.
                if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
                    raise StoreFull(
                        f"{self._folder} cannot be written: {error.strerror}. Free some space or correct the "
                        "permissions; until then questions are answered by the FTS5 index."
                    ) from error
                if self._failed:
                    raise StoreError(
                        f"The Whoosh index in {self._folder} cannot be built ({type(error).__name__}: {error}). "
                        'Questions are answered by the FTS5 index; set [index] kind = "fts5" to do without Whoosh.'
                    ) from error
                # A damaged index is built anew; if that fails as well, something else is wrong.
                logger.warning("The Whoosh index cannot be used (%s: %s): built anew.", type(error).__name__, error)
                self._failed = True
                await anyio.to_thread.run_sync(self._writer.clear, self._folder)
                return 1

    async def _bring_on(self) -> int:
        held = read_position(self._folder, generation(self._folder))
        changes = await self._store.index_changes(held, BATCH)
        if changes.standing is Standing.CURRENT:
            self._failed = False
            return 0
        await anyio.to_thread.run_sync(self._writer.write, self._folder, held, changes)
        return max(len(changes.documents), 1)


def index_problems(folder: Path, standing_of: Callable[[str | None], Standing | None]) -> list[Problem]:
    """What is wrong with the index, why, and what mends it; it is not opened, and the package is not needed."""
    if find_spec("whoosh") is None:
        why = 'The setting [index] kind = "whoosh" needs it, and nothing can be opened without.'
        fix = f'{how_to_add("whoosh")}; or set [index] kind = "fts5"'
        return [Problem("the package for the Whoosh index is missing", why, fix)]
    number = generation(folder)
    standing = standing_of(read_position(folder, number))
    late = time.time() - _LATE_SECONDS
    soon = standing is Standing.BEHIND and (folder / f"position_{number}.json").stat().st_mtime >= late
    if soon or standing is None or standing is Standing.CURRENT:
        return []
    what = f"the Whoosh index {'' if standing is Standing.ERASED else 'is '}{standing.value}"
    why = "No process has brought it into step with the database. Questions are answered by the FTS5 index meanwhile."
    return [Problem(what, why, "mcp-memory process")]
