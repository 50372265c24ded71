"""What all providers have in common: a request with the form of its answer, a reply, and errors told apart."""

from __future__ import annotations

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
