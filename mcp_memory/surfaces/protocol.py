"""The protocol where the SDK's server falls short: unknown arguments are refused, errors say what to do instead, and
lines of stdin that the SDK's reader refuses are mended where that loses nothing, else answered with an error.

A question that gets no answer is waited for until the client gives up. JavaScript writes half a surrogate pair as an
escape, which is left where someone cuts a text; the reader takes that, and what is nested deeply, for no JSON.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ErrorData,
    GetPromptResult,
    InputRequiredResult,
    JSONRPCError,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from mcp_memory.capture.clipping import clean
from mcp_memory.errors import (
    BadId,
    MemoryFault,
    NoProject,
    NotFound,
    OutOfReach,
    SettingsError,
    StoreError,
    UnknownTimePhrase,
)

if TYPE_CHECKING:
    from contextvars import Context as Variables
    from types import TracebackType

_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
_ID = re.compile(r'"id"\s*:\s*(-?\d{1,15}(?![\d.eE])|"[^"\\]{0,200}")')
#: A request may hold a whole text; its id stands near one of its ends.
_NEAR = 2_000


class MemoryServer(MCPServer[None]):
    """A server whose tools refuse unknown arguments, and whose errors say what to do instead."""

    async def run_stdio_async(self) -> None:
        from mcp.server.stdio import stdio_server

        server = self._lowlevel_server
        async with stdio_server() as (messages, answers):
            await server.run(Mended(messages, answers), answers, server.create_initialization_options())

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        await self._refuse_unknown(name, arguments)
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
                raise ToolError(harmless(_wrong(name, error.__cause__))) from error.__cause__
            raise

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[None, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        from mcp_memory.surfaces.resources import check_prompt

        check_prompt(await self.list_prompts(), name, arguments or {})
        return await super().get_prompt(name, arguments, context)

    async def _refuse_unknown(self, name: str, arguments: dict[str, Any]) -> None:
        """The SDK would drop them, and the agent would take the answer for what it asked."""
        tools = {tool.name: tool for tool in await self.list_tools()}
        if name not in tools:
            # A model is only ever given tools that exist, so this is for the client: the protocol's own error.
            raise MCPError(INVALID_PARAMS, harmless(f"Unknown tool: {name[:40]}. Known: {', '.join(tools)}."))
        known = tools[name].input_schema["properties"]
        unknown = ", ".join(repr(argument[:40]) for argument in arguments if argument not in known)
        if unknown:
            raise ToolError(harmless(f"{name} has no argument {unknown}. Known: {', '.join(known)}."))


def harmless(message: str) -> str:
    """What is said of a call repeats parts of it, and of names from outside."""
    from mcp_memory.domain.text import clean

    return clean(message)


def _wrong(tool: str, error: ValidationError) -> str:
    faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
    return f"{tool} was called wrongly. {'; '.join(faults)}."


def advice(error: MemoryFault) -> str:
    """What went wrong and what to call instead."""
    message = str(error)
    if isinstance(error, StoreError | SettingsError):
        return f"{message} Tell the user, and go on without memory for now."
    lost = isinstance(error, NotFound | BadId | UnknownTimePhrase) and not isinstance(error, NoProject | OutOfReach)
    if lost and "toc_root" not in message and "teleport" not in message:
        return f"{message} toc_root() shows what there is, teleport(query) finds terms."
    return message


class Mended:
    """The messages that a client sends, as the protocol's own stream gives them."""

    def __init__(self, messages: Any, answers: Any) -> None:
        self._messages, self._answers = messages, answers
        self.last_context: Variables | None = None

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item: SessionMessage | Exception = await self._messages.receive()
            self.last_context = self._messages.last_context
            if isinstance(item, SessionMessage):
                return item
            line = refused(item)
            message = mended(line)
            if message:
                return message
            answer = answer_to(line) if line else answer_to_malformed(item)
            if not answer:
                return item
            await self._answers.send(answer)

    async def aclose(self) -> None:
        await self._messages.aclose()

    def __aiter__(self) -> Mended:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Mended:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def refused(error: Exception) -> str:
    """The line that is no JSON; empty if it is."""
    if not isinstance(error, ValidationError):
        return ""
    problem = error.errors(include_url=False)[0]
    return str(problem["input"]) if problem["type"] == "json_invalid" else ""


def mended(line: str) -> SessionMessage | None:
    """The message of a line in which only halves of characters, or its depth, are wrong."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_python(_whole(json.loads(line)), by_name=False))
    except (ValueError, RecursionError):
        return None


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value) if not value.isascii() else value
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def answer_to(line: str) -> SessionMessage | None:
    """The error for a line that no one can read, if it tells whom to answer."""
    found = _ID.search(line[:_NEAR]) or _ID.search(line[-_NEAR:])
    if not found:
        return None
    wrong = "The request is no JSON that can be read. Send it anew, less deeply nested."
    return _error(json.loads(found[1]), _PARSE_ERROR, wrong)


def answer_to_malformed(error: Exception) -> SessionMessage | None:
    """The error for a request that is JSON, but not of the protocol's form. What is no request is not answered."""
    problems = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    # Taken for an answer it lacks a result, and of that error it is the whole input.
    asked: dict[str, Any] = next((item["input"] for item in problems if item["type"] == "missing"), {})
    number = asked.get("id")
    if "method" not in asked or isinstance(number, bool) or not isinstance(number, int | str):
        return None
    wrong = 'The request is not of the protocol\'s form: it needs "jsonrpc": "2.0", and params that are an object.'
    return _error(number, _INVALID_REQUEST, wrong)


def _error(number: int | str, code: int, wrong: str) -> SessionMessage:
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=wrong)))
