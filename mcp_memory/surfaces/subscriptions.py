"""Subscriptions: a client that watches documents is told when one of them has changed, whoever wrote.

Protocol 2026-07-28 has streams of `subscriptions/listen`, the versions before it `resources/subscribe` and messages on
the connection. Both are told the same: after a write to the database, each watched document is read once and compared.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import anyio
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources.templates import ResourceSecurityError
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    DiscoverResult,
    EmptyResult,
    InputRequiredResult,
    RequestParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from mcp_memory.errors import MemoryFault, NotFound
from mcp_memory.surfaces.server import Memory

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from mcp.server import MCPServer
    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext

    from mcp_memory.app import App

    Request = ServerRequestContext[Any, Any]

logger = logging.getLogger(__name__)

#: How often the database is asked whether someone wrote, while a client watches something. That costs one pragma.
LOOK_SECONDS = 0.5
#: How many documents are watched at once: each is read anew after a write, which takes about a millisecond.
MOST = 100
TOC, STATUS, NODE = "memory://toc", "memory://status", "memory://node/"


@dataclass(slots=True)
class _Watched:
    """A document that someone watches. `state` tells whether it has changed; None: it could not be read."""

    state: str | None
    watchers: int = 0


class Subscriptions:
    """Who watches which document. It looks for changes only while someone does."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._watched: dict[str, _Watched] = {}
        self._wanted = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._seen: tuple[App, int] | None = None

    def serve(self, server: MCPServer[Any]) -> None:
        """Answer the requests of both eras, and advertise what is sent and nothing else."""
        self._server = server
        lowlevel = server._lowlevel_server
        lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)
        lowlevel.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)
        discover = lowlevel._handle_discover

        async def offered(ctx: Request, params: RequestParams) -> DiscoverResult:
            found = await discover(ctx, params)
            # Whoever serves streams is taken to announce new lists on them; these lists are the same for ever.
            for part in (found.capabilities.tools, found.capabilities.prompts, found.capabilities.resources):
                if part:
                    part.list_changed = False
            return found

        lowlevel.add_request_handler("server/discover", RequestParams, offered)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._look_for_changes, name="subscriptions")
            tasks.start_soon(self._end_streams, name="end of subscriptions")
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    async def _end_streams(self) -> None:
        await self._memory.leaving.wait()
        self._streams.close()

    async def _listen(self, ctx: Request, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """A stream of protocol 2026-07-28. The client is told which of its wishes can be met."""
        uris = [uri for uri in params.notifications.resource_subscriptions or () if self._is_document(uri)]
        honored = SubscriptionFilter(resource_subscriptions=uris)
        await self._watch(uris)
        try:
            return await self._streams(ctx, params.model_copy(update={"notifications": honored}))
        finally:
            self._leave(uris)

    async def _subscribe(self, ctx: Request, params: SubscribeRequestParams) -> EmptyResult:
        if not self._is_document(params.uri):
            raise MCPError(INVALID_PARAMS, f"There is no document {params.uri[:200]}; resources/list names them.")
        peer = self._peer_of(ctx)
        await self._watch([params.uri])
        if params.uri in peer.uris:
            self._leave([params.uri])
        peer.uris.add(params.uri)
        return EmptyResult()

    async def _unsubscribe(self, ctx: Request, params: UnsubscribeRequestParams) -> EmptyResult:
        peer = self._peer_of(ctx)
        if params.uri in peer.uris:
            peer.uris.remove(params.uri)
            self._leave([params.uri])
        return EmptyResult()

    def _peer_of(self, ctx: Request) -> _Peer:
        """The subscriber behind a request. It lives as long as its connection, of which the SDK has no public name."""
        connection = ctx.session._connection
        peer: _Peer | None = connection.state.get("subscriber")
        if peer is None:
            peer = connection.state["subscriber"] = _Peer(connection)
            if self._tasks is None:
                raise MCPError(INVALID_PARAMS, "The server is about to end.")
            self._tasks.start_soon(peer.send, name="subscriber")
            forgets = self._bus.subscribe(peer.hear)
            connection.exit_stack.callback(lambda: self._leave(peer.uris))
            connection.exit_stack.callback(peer.scope.cancel)
            connection.exit_stack.callback(forgets)
        return peer

    def _is_document(self, uri: str) -> bool:
        resources = self._server._resource_manager
        try:
            return uri in {resource.uri for resource in resources.list_resources()} or any(
                template.matches(uri) is not None for template in resources.list_templates()
            )
        except ResourceSecurityError:
            return False

    async def _watch(self, uris: Iterable[str]) -> None:
        """Count a watcher in, and know what it could have read before it is told that it watches."""
        wanted = set(uris)
        app = await self._opened()
        fresh = {uri: await self._state_of(app, uri) for uri in wanted if app and uri not in self._watched}
        # Nothing is awaited from here on, so that who is counted in can be counted out.
        if len(wanted | self._watched.keys()) > MOST:
            raise MCPError(
                INVALID_PARAMS, f"This server watches at most {MOST} documents at once. Unsubscribe from others first."
            )
        for uri in wanted:
            self._watched.setdefault(uri, _Watched(fresh.get(uri))).watchers += 1
        if wanted:
            self._wanted.set()

    def _leave(self, uris: Iterable[str]) -> None:
        for uri in set(uris):
            watched = self._watched[uri]
            watched.watchers -= 1
            if not watched.watchers:
                del self._watched[uri]
        if not self._watched:
            self._wanted = anyio.Event()

    async def _opened(self) -> App | None:
        try:
            return await self._memory.app()
        except MemoryFault:
            # Whoever reads is told why; a subscriber is told once there is something to read.
            return None

    async def _look_for_changes(self) -> None:
        while True:
            await self._wanted.wait()
            await anyio.sleep(LOOK_SECONDS)
            app = self._memory.open
            try:
                if app and self._seen != (seen := (app, await app.database.data_version())):
                    self._seen = seen
                    await self._compare(app)
            except MemoryFault:
                # Told to whoever asks the memory next, and to the log by the pipeline.
                continue
            except Exception:
                logger.exception("Watched documents could not be compared; the next write is looked at again")

    async def _compare(self, app: App) -> None:
        for uri in list(self._watched):
            state = await self._state_of(app, uri)
            watched = self._watched.get(uri)
            if watched and state is not None and state != watched.state:
                watched.state = state
                await self._bus.publish(ResourceUpdated(uri))

    async def _state_of(self, app: App, uri: str) -> str | None:
        """What changes when the document does; None if it cannot be read, "" if it is not there."""
        if uri == STATUS:
            # It counts everything, so that reading it takes longer the more there is; any write changes it.
            return f"{id(app)} {await app.database.data_version()}"
        try:
            content = await self._server.read_resource(uri)
            versions = await _versions(app, uri)
        except ResourceNotFoundError:
            return ""
        except (ResourceError, MemoryFault):
            return None
        told = [] if isinstance(content, InputRequiredResult) else [part.content for part in content]
        return f"{versions} {told}"


async def _versions(app: App, uri: str) -> list[int]:
    """The versions of the nodes that a document is about, of which it may show too little to tell them apart."""
    if uri != TOC and not uri.startswith(NODE):
        return []
    try:
        return await app.answers.versions(None if uri == TOC else unquote(uri.removeprefix(NODE)))
    except NotFound:
        # The document could be read all the same: it says that memory knows no project here.
        return []


@dataclass(slots=True)
class _Peer:
    """A subscriber of a version before 2026-07-28. One that reads slowly keeps no other waiting."""

    connection: Connection
    uris: set[str] = field(default_factory=set)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _changed: dict[str, None] = field(default_factory=dict)
    _news: anyio.Event = field(default_factory=anyio.Event)

    def hear(self, event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated) and event.uri in self.uris:
            self._changed[event.uri] = None
            self._news.set()

    async def send(self) -> None:
        with self.scope:
            while True:
                await self._news.wait()
                self._news = anyio.Event()
                while self._changed:
                    uri = next(iter(self._changed))
                    del self._changed[uri]
                    await self.connection.send_resource_updated(uri)
