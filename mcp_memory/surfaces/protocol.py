"""What the SDK's server leaves to us: errors that say what to do instead, lines that it cannot read, and subscriptions.

A client that watches documents is told when one of them has changed, whoever wrote. Protocol 2026-07-28 has streams of
`subscriptions/listen`, the versions before it `resources/subscribe` and messages on the connection. Both are told the
same: after a write to the database, each watched document is read once and compared.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import anyio
import mcp_types as types
from anyio.abc import ObjectReceiveStream
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError, UnexpectedToolError
from mcp.server.mcpserver.resources.templates import ResourceSecurityError
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcp_memory import errors
from mcp_memory.errors import MemoryFault, NotFound
from mcp_memory.surfaces.server import Memory

if TYPE_CHECKING:
    from contextvars import Context as Variables

    from anyio.abc import TaskGroup
    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext

    from mcp_memory.app import App

    Request = ServerRequestContext[Any, Any]

logger = logging.getLogger(__name__)

_ID = re.compile(r'"id"\s*:\s*(-?\d{1,15}(?![\d.eE])|"[^"\\]{0,200}")')
#: A request may hold a whole text; its id stands near one of its ends.
_NEAR = 2_000
#: How often the database is asked whether someone wrote, while a client watches something. That costs one pragma.
WATCH_SECONDS = 0.5
#: Arguments that are still taken by another name than the published one.
EARLIER_NAMES = {"session": "session_id"}
TOC, STATUS, NODE = "memory://toc", "memory://status", "memory://node/"


#: What the server is told of each function that it publishes, and the function.
Declared = dict[str, tuple[dict[str, Any], Callable[..., Any]]]
Function = TypeVar("Function", bound=Callable[..., Any])


def declared(table: Declared, **told: Any) -> Callable[[Function], Function]:
    """Put the function below into a table of those that the server publishes."""

    def put(function: Function) -> Function:
        table[function.__name__] = told, function
        return function

    return put


class MemoryServer(MCPServer[None]):
    """A server whose tools and prompts refuse unknown arguments, and whose errors say what to do instead."""

    async def run_stdio_async(self) -> None:
        from mcp.server.stdio import stdio_server

        server = self._lowlevel_server
        async with stdio_server() as (messages, answers):
            await server.run(MendedMessages(messages, answers), answers, server.create_initialization_options())

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> types.CallToolResult | types.InputRequiredResult:
        tools = {tool.name: tool for tool in await self.list_tools()}
        if name not in tools:
            # A model is only ever given tools that exist, so this is for the client: the protocol's own error.
            raise MCPError(types.INVALID_PARAMS, harmless(f"Unknown tool: {name[:40]}. Known: {', '.join(tools)}."))
        # The SDK would drop unknown arguments, and the agent would take the answer for what it asked.
        known = tools[name].input_schema["properties"]
        arguments = _by_published_names(arguments, known)
        unknown = ", ".join(repr(argument[:40]) for argument in arguments if argument not in known)
        if unknown:
            raise ToolError(harmless(f"{name} has no argument {unknown}. Known: {', '.join(known)}."))
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError as error:
            if isinstance(error.__cause__, MemoryFault):
                raise ToolError(harmless(advice(error.__cause__))) from error.__cause__
            raise UnexpectedToolError(
                f"{name} failed unexpectedly; the server's log says why. Go on without memory for now."
            ) from error.__cause__
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                faults = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.__cause__.errors()]
                raise ToolError(harmless(f"{name} was called wrongly. {'; '.join(faults)}.")) from error.__cause__
            raise

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[None, Any] | None = None
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """Refuses what the SDK would meet with a stack trace in the log."""
        given, prompts = arguments or {}, {prompt.name: prompt for prompt in await self.list_prompts()}
        if name not in prompts:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt {name[:40]!r}. Known: {', '.join(prompts)}.")
        known = {argument.name: argument for argument in prompts[name].arguments or ()}
        for argument in given:
            if argument not in known:
                raise MCPError(
                    types.INVALID_PARAMS, f"{name} has no argument {argument[:40]!r}. Known: {', '.join(known)}."
                )
        for needed in known.values():
            if needed.required and not str(given.get(needed.name, "")).strip():
                raise MCPError(types.INVALID_PARAMS, f"{name} needs the argument {needed.name}: {needed.description}.")
        return await super().get_prompt(name, arguments, context)

    def serve_subscriptions(self, subscriptions: Subscriptions) -> None:
        """Answer the requests of both eras, and advertise what is sent and nothing else."""
        subscriptions.server, server = self, self._lowlevel_server

        async def discover(ctx: Request, _: types.RequestParams) -> types.DiscoverResult:
            capabilities = server.get_capabilities(protocol_version=ctx.protocol_version)
            # Whoever serves streams is taken to announce new lists on them; these lists are the same for ever.
            for part in (capabilities.tools, capabilities.prompts, capabilities.resources):
                if part:
                    part.list_changed = False
            versions = list(MODERN_PROTOCOL_VERSIONS)
            return types.DiscoverResult(
                supported_versions=versions, capabilities=capabilities, instructions=self.instructions
            )

        server.add_request_handler("server/discover", types.RequestParams, discover)
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscriptions.subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, subscriptions.unsubscribe)
        server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, subscriptions.listen)

    def has_document(self, uri: str) -> bool:
        """Whether the address is one of a resource, even if nothing is stored there yet."""
        resources = self._resource_manager
        try:
            return uri in {resource.uri for resource in resources.list_resources()} or any(
                template.matches(uri) is not None for template in resources.list_templates()
            )
        except ResourceSecurityError:
            return False


def _by_published_names(arguments: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the arguments with earlier names replaced, unless both names are given."""
    names = {
        earlier: published
        for earlier, published in EARLIER_NAMES.items()
        if earlier not in known and published in known and published not in arguments
    }
    return {names.get(name, name): value for name, value in arguments.items()}


def harmless(message: str) -> str:
    """What is said of a call repeats parts of it, and of names from outside."""
    from mcp_memory.domain import text

    return text.clean(message)


def advice(error: MemoryFault) -> str:
    """What went wrong and what to call instead."""
    message = str(error)
    if isinstance(error, errors.StoreError | errors.SettingsError):
        return f"{message} Tell the user, and go on without memory for now."
    lost = isinstance(error, NotFound | errors.BadId | errors.UnknownTimePhrase)
    lost = lost and not isinstance(error, errors.NoProject | errors.OutOfReach)
    if lost and not error.names_step:
        return f"{message} toc_root() shows what there is, teleport(query) finds terms."
    return message


class MendedMessages(ObjectReceiveStream[Any]):
    """The messages that a client sends on stdin, with those that the SDK's reader refuses.

    They are mended where that loses nothing, else answered with an error: a question that gets no answer is waited for
    until the client gives up. JavaScript writes half a surrogate pair as an escape, which is left where someone cuts a
    text; the reader takes that, and what is nested deeply, for no JSON.
    """

    def __init__(self, messages: Any, answers: Any) -> None:
        self._messages, self._answers = messages, answers
        self.last_context: Variables | None = None

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item: SessionMessage | Exception = await self._messages.receive()
            self.last_context = self._messages.last_context
            problems = item.errors(include_url=False) if isinstance(item, ValidationError) else []
            if not problems:
                return item
            if problems[0]["type"] == "json_invalid" and (message := _mended(str(problems[0]["input"]))):
                return message
            answer = _answer(problems)
            if not answer:
                return item
            await self._answers.send(answer)

    async def aclose(self) -> None:
        await self._messages.aclose()


def _mended(line: str) -> SessionMessage | None:
    """The message of a line in which only halves of characters, or its depth, are wrong."""
    from mcp_memory.capture.clipping import clean

    def whole(value: Any) -> Any:
        if isinstance(value, str):
            return clean(value) if not value.isascii() else value
        if isinstance(value, dict):
            return {whole(key): whole(item) for key, item in value.items()}
        return [whole(item) for item in value] if isinstance(value, list) else value

    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_python(whole(json.loads(line)), by_name=False))
    except (ValueError, RecursionError):
        return None


def _answer(problems: Sequence[Any]) -> SessionMessage | None:
    """The error for a line that no one can read, or that is not a request of the protocol; None if it names no one."""
    if problems[0]["type"] == "json_invalid":
        code, wrong = types.PARSE_ERROR, "The request is not readable JSON. Send it again, less deeply nested."
        line = str(problems[0]["input"])
        found = _ID.search(line[:_NEAR]) or _ID.search(line[-_NEAR:])
        number = json.loads(found[1]) if found else None
    else:
        # Taken for an answer it lacks a result, and of that error it is the whole input.
        asked: dict[str, Any] = next((item["input"] for item in problems if item["type"] == "missing"), {})
        number = asked.get("id") if "method" in asked else None
        code = types.INVALID_REQUEST
        wrong = 'The request is not of the protocol\'s form: it needs "jsonrpc": "2.0", and params that are an object.'
    if isinstance(number, bool) or not isinstance(number, int | str):
        return None
    error = types.ErrorData(code=code, message=wrong)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=error))


@dataclass(slots=True)
class WatchedDocument:
    """A document that someone watches. `state` tells whether it has changed; None: it could not be read."""

    state: str | None
    watchers: int = 0


class Subscriptions:
    """Who watches which document. It looks for changes only while someone does."""

    server: MemoryServer

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        #: For each who asks, where changes are told and the streams that tell them.
        self._told: dict[Hashable, tuple[InMemorySubscriptionBus, ListenHandler]] = {}
        self._watched: dict[tuple[Hashable, str], WatchedDocument] = {}
        self._wanted = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._seen: tuple[App, int] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def end_streams() -> None:
            await self._memory.leaving.wait()
            for _, streams in self._told.values():
                streams.close()

        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._look_for_changes, name="subscriptions")
            tasks.start_soon(end_streams, name="end of subscriptions")
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    async def listen(
        self, ctx: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """A stream of protocol 2026-07-28. The client is told which of its wishes can be met."""
        uris = [uri for uri in params.notifications.resource_subscriptions or () if self.server.has_document(uri)]
        honored, asker = types.SubscriptionFilter(resource_subscriptions=uris), self._memory.asker()
        with self._memory.stream_of(asker) as is_free:
            if not is_free:
                raise MCPError(types.INVALID_PARAMS, "You have too many streams open. Close one of them first.")
            await self._watch(asker, uris)
            try:
                return await self._told_to(asker)[1](ctx, params.model_copy(update={"notifications": honored}))
            finally:
                self._leave(asker, uris)

    async def subscribe(self, ctx: Request, params: types.SubscribeRequestParams) -> types.EmptyResult:
        if not self.server.has_document(params.uri):
            raise MCPError(types.INVALID_PARAMS, f"There is no document {params.uri[:200]}; resources/list names them.")
        peer = self._peer_of(ctx)
        await self._watch(peer.asker, [params.uri])
        if params.uri in peer.uris:
            self._leave(peer.asker, [params.uri])
        peer.uris.add(params.uri)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Request, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        peer = self._peer_of(ctx)
        if params.uri in peer.uris:
            peer.uris.remove(params.uri)
            self._leave(peer.asker, [params.uri])
        return types.EmptyResult()

    def _peer_of(self, ctx: Request) -> Subscriber:
        """The subscriber behind a request. It lives as long as its connection, of which the SDK has no public name."""
        connection = ctx.session._connection
        peer: Subscriber | None = connection.state.get("subscriber")
        if peer is None:
            if self._tasks is None:
                raise MCPError(types.INVALID_PARAMS, "The server is about to end.")
            peer = connection.state["subscriber"] = Subscriber(connection, self._memory.asker())
            self._tasks.start_soon(peer.send, name="subscriber")
            forgets = self._told_to(peer.asker)[0].subscribe(peer.hear)
            connection.exit_stack.callback(lambda: self._leave(peer.asker, peer.uris))
            connection.exit_stack.callback(peer.scope.cancel)
            connection.exit_stack.callback(forgets)
        return peer

    def _told_to(self, asker: Hashable) -> tuple[InMemorySubscriptionBus, ListenHandler]:
        if asker not in self._told:
            bus = InMemorySubscriptionBus()
            self._told[asker] = bus, ListenHandler(bus)
        return self._told[asker]

    async def _watch(self, asker: Hashable, uris: Iterable[str]) -> None:
        """Count a watcher in, and know what it could have read before it is told that it watches."""
        wanted, fresh = set(uris), dict[str, str | None]()
        try:
            app = await self._memory.app()
            fresh = {uri: await self._state_of(app, uri) for uri in wanted if (asker, uri) not in self._watched}
        except MemoryFault:
            pass  # whoever reads is told why; a subscriber is told once there is something to read
        # Nothing is awaited from here on, so that who is counted in can be counted out.
        most = self._memory.most_watched
        if len(wanted | {uri for who, uri in self._watched if who == asker}) > most:
            told = f"This server watches at most {most} documents at once. Unsubscribe from others first."
            raise MCPError(types.INVALID_PARAMS, told)
        for uri in wanted:
            self._watched.setdefault((asker, uri), WatchedDocument(fresh.get(uri))).watchers += 1
        if wanted:
            self._wanted.set()

    def _leave(self, asker: Hashable, uris: Iterable[str]) -> None:
        for uri in set(uris):
            watched = self._watched[asker, uri]
            watched.watchers -= 1
            if not watched.watchers:
                del self._watched[asker, uri]
        if not self._watched:
            self._wanted = anyio.Event()

    async def _look_for_changes(self) -> None:
        while True:
            await self._wanted.wait()
            await anyio.sleep(WATCH_SECONDS)
            app = self._memory.open
            try:
                if app and self._seen != (seen := (app, await app.store.changes(own=True))):
                    self._seen = seen
                    for asker, uri in list(self._watched):
                        with self._memory.asked_by(asker):
                            state = await self._state_of(await self._memory.app(), uri)
                        watched = self._watched.get((asker, uri))
                        if watched and state is not None and state != watched.state:
                            watched.state = state
                            await self._told_to(asker)[0].publish(ResourceUpdated(uri))
            except MemoryFault:
                # Whoever asks the memory next is told, and the pipeline writes it to the log.
                continue
            except Exception:
                logger.exception("Watched documents could not be compared; the next write is looked at again")

    async def _state_of(self, app: App, uri: str) -> str | None:
        """What changes when the document does; None if it cannot be read, "" if it is not there."""
        if uri == STATUS:
            # It counts everything, so that reading it takes longer the more there is; any write changes it.
            return f"{id(app.whole)} {await app.store.changes(own=True)}"
        # Of the nodes that it is about, a document may show too little to tell their versions apart.
        versions: list[int] = []
        try:
            content = await self.server.read_resource(uri)
            if uri == TOC or uri.startswith(NODE):
                versions = await app.answers.versions(None if uri == TOC else unquote(uri.removeprefix(NODE)))
        except ResourceNotFoundError:
            return ""
        except NotFound:
            pass  # the document could be read all the same: it says that memory knows no project here
        except (ResourceError, MemoryFault):
            return None
        told = [] if isinstance(content, types.InputRequiredResult) else [part.content for part in content]
        return f"{versions} {told}"


@dataclass(slots=True)
class Subscriber:
    """A subscriber of a version before 2026-07-28. One that reads slowly keeps no other waiting."""

    connection: Connection
    asker: Hashable
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
