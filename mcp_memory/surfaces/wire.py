"""Lines of stdin that the protocol's own reader refuses: mended where that loses nothing, else answered with an error.

A question that gets no answer is waited for until the client gives up. JavaScript writes half a surrogate pair as an
escape, which is left where someone cuts a text; the reader takes that, and what is nested deeply, for no JSON.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from mcp_memory.capture.clipping import clean

if TYPE_CHECKING:
    from contextvars import Context
    from types import TracebackType

_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
_ID = re.compile(r'"id"\s*:\s*(-?\d{1,15}(?![\d.eE])|"[^"\\]{0,200}")')
#: A request may hold a whole text; its id stands near one of its ends.
_NEAR = 2_000


class Mended:
    """The messages that a client sends, as the protocol's own stream gives them."""

    def __init__(self, messages: Any, answers: Any) -> None:
        self._messages, self._answers = messages, answers
        self.last_context: Context | None = None

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
