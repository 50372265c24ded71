"""What all providers have in common: a request with the form of its answer, a reply, and errors told apart."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib import import_module
from math import isnan
from time import time
from types import ModuleType
from typing import Any, Protocol

from anyio import to_thread

from mcp_memory.errors import (
    AuthRefused,
    ContextTooLong,
    ModelMissing,
    ModelTimeout,
    ModelUnusable,
    RateLimited,
    RequestRefused,
    SummarizerError,
    TransportFailed,
    how_to_add,
)

_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum context|too long|too many (?:input )?tokens|"
    r"exceeds?[^.]{0,60}(?:context|tokens?)|request_too_large",
    re.I,
)
#: A server that names more than a day means: not now.
_LONGEST_WAIT = 86_400.0
_CORRECT_KEY = "Correct the key in the environment or in summarizer.api_key_file; until then summaries are extractive."


@dataclass(frozen=True, slots=True)
class Request:
    """One question: who the model is, what it shall read, and the JSON form in which it shall answer."""

    system: str
    prompt: str
    form: str
    schema: Mapping[str, Any]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the answer's JSON, or text that should hold it, and what the provider counted."""

    text: str
    input_tokens: int
    output_tokens: int
    cut_off: bool = False


class Provider(Protocol):
    """A service that runs models. It retries nothing by itself; its errors are ours, without the key in them."""

    @property
    def kind(self) -> str: ...

    async def ask(self, model: str, request: Request, structured: bool) -> Reply:
        """One call. `structured` asks for the answer's form by the provider's own means, else by words alone."""
        ...

    async def close(self) -> None: ...


async def sdk(name: str) -> ModuleType:
    """The provider's own library, imported when it is first used, in a thread since that takes a while."""
    try:
        return await to_thread.run_sync(import_module, name)
    except ImportError:
        raise ModelUnusable(
            f"The package {name} is not installed: {how_to_add(name)}, or set summarizer.kind to extractive."
        ) from None


def failure_of(error: Exception, model: str) -> SummarizerError:
    """Our error for one of the SDK's. Its own text is not repeated, since it may hold a part of the key."""
    status = getattr(error, "status_code", None)
    if status is None:
        if "Timeout" in type(error).__name__:
            return ModelTimeout(f"{model} did not answer in time.")
        return TransportFailed(f"The connection to {model} failed ({type(error).__name__}).")
    if status == 401:
        return AuthRefused(f"The provider refuses the key (HTTP 401). {_CORRECT_KEY}")
    if status == 403:
        return AuthRefused(f"The provider refuses the key for {model} (HTTP 403). {_CORRECT_KEY}", for_model=True)
    wait = _retry_after(error)
    if status == 404:
        return ModelMissing(f"The provider does not know the model {model} (HTTP 404). Correct summarizer.model.")
    if status == 429:
        return RateLimited(f"{model} is limited by its provider (HTTP 429).", wait)
    if status == 413 or (400 <= status < 500 and _TOO_LONG.search(_said(error))):
        return ContextTooLong(f"The text is too long for {model} (HTTP {status}).")
    if status in (408, 504):
        return ModelTimeout(f"{model} did not answer in time (HTTP {status}).", wait)
    if status >= 500 or status in (409, 425):
        return TransportFailed(f"The provider of {model} failed (HTTP {status}).", wait, answered=True)
    return RequestRefused(f"The provider of {model} refused the request (HTTP {status}).")


def sendable(api_key: str) -> str:
    """The key, or `none` where none is needed. What cannot stand in a request's head is no key."""
    if not api_key.isascii() or not api_key.isprintable():
        raise AuthRefused(f"The key holds characters that no key has. {_CORRECT_KEY}")
    return api_key or "none"


def misshapen(model: str) -> SummarizerError:
    """For a server that answers, and not as a model's provider does: a proxy's page, an empty document."""
    return TransportFailed(
        f"What answered for {model} does not speak the provider's language. See whether summarizer.base_url is right.",
        answered=True,
    )


def whole(value: Any) -> int:
    """A count as a provider gives it; 0 for anything that is none."""
    return value if isinstance(value, int) and value > 0 else 0


def _said(error: Exception) -> str:
    """The error's text with its codes, to be looked at only."""
    return f"{error} {getattr(error, 'code', '')} {getattr(error, 'type', '')}"


def _retry_after(error: Exception) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", {})
    given = headers.get("retry-after-ms")
    if given:
        return _number(given, 1000)
    given = headers.get("retry-after")
    if not given:
        return None
    seconds = _number(given, 1)
    if seconds is not None:
        return seconds
    try:
        return min(max(parsedate_to_datetime(given).timestamp() - time(), 0.0), _LONGEST_WAIT)
    except (ValueError, OverflowError):
        return None


def _number(text: str, divisor: int) -> float | None:
    try:
        seconds = float(text) / divisor
    except ValueError:
        return None
    return None if isnan(seconds) else min(max(seconds, 0.0), _LONGEST_WAIT)


ANTHROPIC_URL = "https://api.anthropic.com"


class AnthropicProvider:
    """Implements the `Provider` interface."""

    kind = "anthropic"

    def __init__(self, api_key: str, base_url: str = "", timeout: float = 60.0) -> None:
        # The SDK adds the version to the path by itself; many write it into the address, as OpenAI's wants it.
        self._api_key, self._base_url, self._timeout = api_key, base_url.removesuffix("/v1") or ANTHROPIC_URL, timeout
        self._client: Any = None

    async def ask(self, model: str, request: Request, structured: bool) -> Reply:
        anthropic = await sdk("anthropic")
        client = self._client = self._client or anthropic.AsyncAnthropic(
            api_key=sendable(self._api_key),
            base_url=self._base_url,
            timeout=self._timeout,
            max_retries=0,
            open_telemetry=False,
        )
        try:
            message = await client.messages.create(
                model=model,
                max_tokens=request.max_tokens,
                system=request.system,
                messages=[{"role": "user", "content": request.prompt}],
                **(_tool(request) if structured else {}),
            )
        except anthropic.APIError as error:
            raise failure_of(error, model) from None
        return _anthropic_reply(message, model)

    async def close(self) -> None:
        if self._client:
            client, self._client = self._client, None
            await client.close()


def _tool(request: Request) -> dict[str, Any]:
    tool = {"name": request.form, "description": "Record the summary.", "input_schema": dict(request.schema)}
    return {"tools": [tool], "tool_choice": {"type": "tool", "name": request.form}}


def _anthropic_reply(message: Any, model: str) -> Reply:
    """The SDK passes on whatever a server sends, so nothing in it is taken for granted."""
    blocks = getattr(message, "content", None)
    if not isinstance(blocks, list):
        raise misshapen(model)
    called = next((block for block in blocks if getattr(block, "type", None) == "tool_use"), None)
    texts = [getattr(block, "text", None) for block in blocks if getattr(block, "type", None) == "text"]
    said = "".join(text for text in texts if isinstance(text, str))
    text = json.dumps(getattr(called, "input", None)) if called else said
    usage = getattr(message, "usage", None)
    return Reply(
        text,
        _total(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
        _total(usage, "output_tokens"),
        cut_off=getattr(message, "stop_reason", None) == "max_tokens",
    )


def _total(usage: Any, *names: str) -> int:
    return sum(whole(getattr(usage, name, 0)) for name in names)


OPENAI_URL = "https://api.openai.com/v1"


class OpenAIProvider:
    """Implements the `Provider` interface. Local servers need no key."""

    kind = "openai"

    def __init__(self, api_key: str, base_url: str = "", timeout: float = 60.0) -> None:
        self._api_key, self._base_url, self._timeout = api_key, base_url or OPENAI_URL, timeout
        # OpenAI's newer models know only the one name of the output cap, most other servers only the other.
        self._cap = "max_completion_tokens" if self._base_url == OPENAI_URL else "max_tokens"
        self._client: Any = None

    async def ask(self, model: str, request: Request, structured: bool) -> Reply:
        openai = await sdk("openai")
        client = self._client = self._client or openai.AsyncOpenAI(
            api_key=sendable(self._api_key), base_url=self._base_url, timeout=self._timeout, max_retries=0
        )
        try:
            completion = await client.chat.completions.create(
                model=model,
                messages=[
                    {"role": "system", "content": request.system},
                    {"role": "user", "content": request.prompt},
                ],
                **{self._cap: request.max_tokens},
                **(_response_format(request) if structured else {}),
            )
        except openai.APIError as error:
            raise failure_of(error, model) from None
        return _openai_reply(completion, model)

    async def close(self) -> None:
        if self._client:
            client, self._client = self._client, None
            await client.close()


def _response_format(request: Request) -> dict[str, Any]:
    form = {"name": request.form, "schema": dict(request.schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def _openai_reply(completion: Any, model: str) -> Reply:
    """The SDK passes on whatever a server sends, so nothing in it is taken for granted."""
    choices = getattr(completion, "choices", None)
    if not isinstance(choices, list):
        raise misshapen(model)
    choice = choices[0] if choices else None
    message = getattr(choice, "message", None)
    calls = getattr(message, "tool_calls", None)
    called = getattr(calls[0], "function", None) if isinstance(calls, list) and calls else None
    text = getattr(called, "arguments", None) or getattr(message, "content", None)
    usage = getattr(completion, "usage", None)
    return Reply(
        text if isinstance(text, str) else "",
        whole(getattr(usage, "prompt_tokens", 0)),
        whole(getattr(usage, "completion_tokens", 0)),
        cut_off=getattr(choice, "finish_reason", None) == "length",
    )
