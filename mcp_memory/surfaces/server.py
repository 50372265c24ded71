"""The MCP server's life: it answers the handshake first, opens the memory behind it, and leaves nothing when it ends.

Nothing here imports the SDK or the store before it has to: both take longer than the handshake may.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from mcp_memory import __version__, config, lexicon
from mcp_memory.config import Settings
from mcp_memory.errors import MemoryFault, StoreError, StoreReplaced, UsageError, alone
from mcp_memory.surfaces import output
from mcp_memory.surfaces.recorder import AnswerLog, Recorder

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from mcp_memory.app import App
    from mcp_memory.surfaces.protocol import MemoryServer

logger = logging.getLogger(__name__)

NAME = "memory"
#: Where the viewer is, unless another program is there.
WEB_PORT = 8765
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: How long closing may take. SQLite is safe at any instant, so leaving late is worse than leaving hard.
PATIENCE_SECONDS = 1.5
#: How often a server whose database was taken away looks for another one.
LOOK_SECONDS = 0.5
#: A server that no client talks to opens its memory after this time all the same: captured events wait for it.
GREETING_SECONDS = 1.0
#: The first answer is made, but not written yet: what is loaded in a thread at once would hold it up.
WRITING_SECONDS = 0.05

Opener = Callable[[Settings], AbstractAsyncContextManager["App"]]


def serve(options: argparse.Namespace) -> int:
    """The `serve` command: until the client leaves or a signal comes."""
    _check_options(options)
    settings = config.load()
    for number in SIGNALS:  # until the server is up nothing is open that would need closing
        signal.signal(number, lambda *_: os._exit(0))
    output.keep_log(settings.home)
    if options.http:
        if getattr(options, "team", False):
            from mcp_memory.surfaces.http import LOOPBACK
            from mcp_memory.surfaces.team.serving import serve_team

            options.host = options.host or LOOPBACK
            anyio.run(serve_team, settings, options)
        else:
            from mcp_memory.surfaces.http import serve_http

            greeting = getattr(options, "greeting", None)
            anyio.run(serve_http, settings, options.host, options.port, options.allow_host, options.json, greeting)
    else:
        anyio.run(_serve_stdio, settings)
    for number in SIGNALS:  # all is closed: a signal that comes late must not turn a good end into a failure
        signal.signal(number, signal.SIG_IGN)
    return 0


def _check_options(options: argparse.Namespace) -> None:
    """What would be ignored is refused: who gives a certificate must not be served in the clear."""
    of_team = [name for name in ("tls_cert", "tls_key", "behind_proxy") if getattr(options, name, None)]
    if of_team and not options.team:
        raise UsageError(f"--{of_team[0].replace('_', '-')} is for the server of a team: give --team as well.")
    if getattr(options, "team", False) and not options.http:
        raise UsageError("The server of a team is asked over HTTP: give --http as well.")


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a server for people does when it is up: open their browser, and tell how to go on."""

    browse: bool
    steps: str


def first_steps() -> str:
    """How to go on from here, with the program called as the user can call it from anywhere."""
    import shlex
    import shutil

    script = Path("mcp-memory" if shutil.which("mcp-memory") else Path(sys.argv[0]).absolute())
    words = [str(script)] if script.stem == "mcp-memory" else [sys.executable, "-m", "mcp_memory"]
    entry = json.dumps({"command": words[0], "args": [*words[1:], "serve"]})
    return lexicon.text("first_steps").rstrip("\n").format(program=shlex.join(words), entry=entry)


def web(options: argparse.Namespace) -> int:
    """The `web` command: the viewer, and MCP beside it, until a signal comes."""
    from mcp_memory.surfaces.http import free_port

    options.port = free_port(WEB_PORT) if options.port is None else options.port
    options.http, options.host, options.allow_host = True, None, []
    # Without a screen, Python would start a browser in this terminal.
    has_screen = sys.platform in ("win32", "darwin") or any(
        map(config.environment().get, ("DISPLAY", "WAYLAND_DISPLAY"))
    )
    options.greeting = Greeting(
        has_screen and not (options.no_open or options.json), first_steps() if options.steps else ""
    )
    return serve(options)


async def _serve_stdio(settings: Settings) -> None:
    """Serve on stdin and stdout until the client leaves. Ended by a signal, it does not return but exits."""
    memory = Memory(settings)
    server = build_server(memory)

    async def leave_on_signal() -> None:
        if sys.platform == "win32":
            return  # its event loop knows no signals; clients there close stdin or kill
        with anyio.open_signal_receiver(*SIGNALS) as signals:
            async for _ in signals:
                exit_within(PATIENCE_SECONDS)
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await memory.closed.wait()
                # The thread that reads stdin cannot be woken, and would keep the process until the client says more.
                os._exit(0)

    async def leave_in_time() -> None:
        await memory.closing.wait()
        exit_within(PATIENCE_SECONDS)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave_on_signal, name="signals")
        tasks.start_soon(leave_in_time, name="deadline")
        await server.run_stdio_async()
        tasks.cancel_scope.cancel()


def exit_within(seconds: float) -> None:
    """End the process after this time, whatever it is waiting for; one that ends before takes the thread along."""

    def wait() -> None:
        time.sleep(seconds)
        os._exit(0)

    threading.Thread(target=wait, name="deadline", daemon=True).start()


def build_server(memory: Memory) -> MemoryServer:
    """The server with all it offers. It runs the memory for as long as it is served, by one transport at a time."""
    from mcp_memory.surfaces import resources
    from mcp_memory.surfaces.protocol import MemoryServer, Subscriptions
    from mcp_memory.surfaces.tools import tools_of

    subscriptions = Subscriptions(memory)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with memory.running(), subscriptions.running():
            yield

    async def greet(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            return await call_next(ctx)
        finally:
            memory.greeted()

    server = MemoryServer(
        NAME,
        title="Memory",
        instructions=instructions(memory.settings),
        version=__version__,
        tools=tools_of(memory),
        lifespan=lifespan,
        middleware=[greet, memory.recorder.watch],
        log_level="WARNING",
    )
    resources.publish(server, memory)
    server.serve_subscriptions(subscriptions)
    return server


def instructions(settings: Settings) -> str:
    """What every agent that connects is told: how to ask memory and, unless the user minds, what to tell it."""
    asking = f"\n{lexicon.text('asking')}" if settings.notes.ask else ""
    return lexicon.text("instructions") + asking


@dataclass(slots=True)
class _Attempt:
    """One try to open the memory: `done` when it is open or has failed, `again` when someone asks after that."""

    done: anyio.Event = field(default_factory=anyio.Event)
    again: anyio.Event = field(default_factory=anyio.Event)
    app: App | None = None
    error: MemoryFault | None = None


class Memory:
    """Owns the open app for as long as the server runs.

    A failure to open is told to whoever asks and tried again at the next question, so that a server outlives a full
    disk, a database set aside or a setting put right. A database that was replaced, as by a backup, is opened again.
    """

    #: How many documents one may watch at once: each is read again after a write, which takes about a millisecond.
    most_watched = 100

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._attempt = _Attempt()
        self._greeted, self._asked = anyio.Event(), anyio.Event()
        #: The server was told to end: streams that would go on for ever end first.
        self.leaving = anyio.Event()
        self.closing = anyio.Event()
        self.closed = anyio.Event()
        #: Notes what agents are handed.
        self.recorder: AnswerLog = Recorder(self)

    def greeted(self) -> None:
        """The client is given its first answer: soon after that, work may cost time."""
        self._greeted.set()

    async def app(self) -> App:
        """The open app, as soon as it is; raises why it cannot be opened."""
        self.greeted()
        self._asked.set()
        attempt = self._attempt
        if attempt.error is not None or (attempt.app is not None and attempt.app.store.is_replaced()):
            self._attempt = _Attempt()
            attempt.again.set()
            attempt = self._attempt
        await attempt.done.wait()
        if attempt.app is None or attempt.error is not None:
            raise attempt.error or StoreError("The memory is closed. Try again.")
        return attempt.app

    def asker(self) -> Hashable:
        """Who asks in this task; one's own memory knows no one else."""
        return None

    def asked_by(self, asker: Hashable) -> AbstractContextManager[None]:
        """All that is done within is done for whoever this was."""
        return nullcontext()

    def stream_of(self, asker: Hashable) -> AbstractContextManager[bool]:
        """Count a stream of whoever this is in for as long as it is open; False if there may be no more."""
        return nullcontext(True)

    def opener(self) -> Opener:
        """How the memory is opened; called in a thread, since it imports what is heavy."""
        return partial(prepared(), served=True)

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
                tasks.start_soon(self.recorder.run, name="recorder")
                try:
                    yield
                finally:
                    self.closing.set()
                    await self.recorder.finish()
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
        while not attempt.again.is_set() and not (replaced and self.settings.database.exists()):
            with anyio.move_on_after(LOOK_SECONDS if replaced else math.inf):
                await attempt.again.wait()
        if self._attempt is attempt:
            self._attempt = _Attempt()

    async def _hold(self, attempt: _Attempt) -> None:
        """Open the memory and run its pipeline until the server ends or the memory has to be opened again."""
        opener = await to_thread.run_sync(self.opener)
        async with AsyncExitStack() as stack:
            with anyio.CancelScope(shield=True):
                # Interrupted half-way, opening would leave a connection's thread behind.
                app = await stack.enter_async_context(opener(self.settings))
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(app.pipeline.run, name="pipeline")
                    if team := app.team:
                        tasks.start_soon(team.run, app.store, app.clock, name="team")
                    attempt.app = app
                    attempt.done.set()
                    await attempt.again.wait()
                    tasks.cancel_scope.cancel()
            finally:
                # It is about to be closed: no one is given it any more.
                attempt.app = None


def prepared() -> Callable[..., AbstractAsyncContextManager[App]]:
    """What opens a memory. Imports what is heavy and loads the tokenizer's vocabulary; no answer waits for that."""
    import mcp_memory.navigate.context
    import mcp_memory.navigate.sessions  # noqa: F401
    from mcp_memory.app import open_app
    from mcp_memory.models import tokens

    tokens.count("x")
    return open_app
