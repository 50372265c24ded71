"""The memory behind the server: opened in the background once a client was greeted, shared by tools and resources."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from mcp_memory.config import Settings
from mcp_memory.errors import MemoryFault, StoreError, StoreReplaced, alone

if TYPE_CHECKING:
    # Importing the app costs more than the handshake may; it is done in a worker thread afterwards.
    from mcp_memory.app import App

logger = logging.getLogger(__name__)

#: How often a server whose database was taken away looks for another one.
LOOK_SECONDS = 0.5
#: A server that no client talks to opens its memory after this time all the same: captured events wait for it.
GREETING_SECONDS = 1.0
#: The first answer is made, but not written yet: what is loaded in a thread at once would hold it up.
WRITING_SECONDS = 0.05

Opener = Callable[[Settings], AbstractAsyncContextManager["App"]]


@dataclass(slots=True)
class _Attempt:
    """One try to open the memory: `done` when it is open or has failed, `again` when someone asks after that."""

    done: anyio.Event = field(default_factory=anyio.Event)
    again: anyio.Event = field(default_factory=anyio.Event)
    app: App | None = None
    error: MemoryFault | None = None


class Memory:
    """Owns the open app for as long as the server runs.

    A failure to open is told to whoever asks and tried anew at the next question, so that a server outlives a full
    disk, a database set aside or a setting put right. A database that was replaced, as by a backup, is opened anew.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._attempt = _Attempt()
        self._greeted, self._asked = anyio.Event(), anyio.Event()
        #: The server was told to end: streams that would go on for ever end first.
        self.leaving = anyio.Event()
        self.closing = anyio.Event()
        self.closed = anyio.Event()

    def greeted(self) -> None:
        """The client is given its first answer: soon after that, work may cost time."""
        self._greeted.set()

    async def app(self) -> App:
        """The open app, as soon as it is; raises why it cannot be opened."""
        self.greeted()
        self._asked.set()
        attempt = self._attempt
        if attempt.error is not None or (attempt.app is not None and attempt.app.database.is_replaced()):
            self._attempt = _Attempt()
            attempt.again.set()
            attempt = self._attempt
        await attempt.done.wait()
        if attempt.app is None or attempt.error is not None:
            raise attempt.error or StoreError("The memory is closed. Try again.")
        return attempt.app

    @property
    def open(self) -> App | None:
        """The app, if it is open just now: who only watches does not have it opened."""
        attempt = self._attempt
        return attempt.app if attempt.error is None else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the memory open, or ready to be opened, while the server serves."""
        self._attempt = _Attempt()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._keep_open, name="memory")
                try:
                    yield
                finally:
                    self.closing.set()
                    tasks.cancel_scope.cancel()
        finally:
            self.closed.set()

    async def _keep_open(self) -> None:
        with anyio.move_on_after(GREETING_SECONDS):
            await self._greeted.wait()
        with anyio.move_on_after(WRITING_SECONDS):
            await self._asked.wait()
        while True:
            attempt = self._attempt
            try:
                with alone():
                    await self._hold(attempt)
            except MemoryFault as error:
                attempt.error = error
            except Exception:
                logger.exception("The memory cannot be opened or kept open")
                attempt.error = StoreError(
                    "The memory met an unexpected error; the server's log and `mcp-memory status` say more."
                )
            attempt.done.set()
            await self._until_wanted(attempt)

    async def _until_wanted(self, attempt: _Attempt) -> None:
        """Until someone asks. A database in the place of another is opened unasked: hooks write to it already.

        None in its place is left so, as it is while a backup is being brought.
        """
        replaced = isinstance(attempt.error, StoreReplaced)
        while not attempt.again.is_set() and not (replaced and self._settings.database.exists()):
            with anyio.move_on_after(LOOK_SECONDS if replaced else math.inf):
                await attempt.again.wait()
        if self._attempt is attempt:
            self._attempt = _Attempt()

    async def _hold(self, attempt: _Attempt) -> None:
        """Open the memory and run its pipeline until the server ends or the memory is to be opened anew."""
        opener = await to_thread.run_sync(_prepare)
        async with AsyncExitStack() as stack:
            with anyio.CancelScope(shield=True):
                # Interrupted half-way, opening would leave a connection's thread behind.
                app = await stack.enter_async_context(opener(self._settings))
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(app.pipeline.run, name="pipeline")
                    attempt.app = app
                    attempt.done.set()
                    await attempt.again.wait()
                    tasks.cancel_scope.cancel()
            finally:
                # It is about to be closed: no one is given it any more.
                attempt.app = None


def _prepare() -> Opener:
    """Import what is heavy and load the tokenizer's vocabulary, in a thread, so that no answer waits for the loop."""
    import mcp_memory.navigate.context
    import mcp_memory.navigate.sessions  # noqa: F401
    from mcp_memory.app import open_app
    from mcp_memory.models import tokens

    tokens.count("x")
    return partial(open_app, served=True)
