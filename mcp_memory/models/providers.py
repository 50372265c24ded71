"""Whoever runs models: a request with the form of its answer, a reply, and errors told apart.

A service is asked through its library. A program is started without a shell, in an empty directory of its own, and told
not to be remembered; when it has ended, or has taken too long, everything that it started ends with it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib import import_module
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import Any, ClassVar

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream, Process

from mcp_memory.capture.project import OWN_QUESTIONS
from mcp_memory.capture.redaction import redact
from mcp_memory.domain.text import one_line, printable
from mcp_memory.errors import (
    AuthRefused,
    ContextTooLong,
    InvalidOutput,
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

#: No answer is longer. What a program prints beyond that is not waited for.
MOST_BYTES = 1_000_000
#: How much is kept, and shown, of the end of what a program complains about.
_KEPT_BYTES, _SHOWN_CHARS = 4_000, 300
_BY_HAND = "See what it says by hand: echo hello | {}"


@dataclass(frozen=True, slots=True)
class Request:
    """One question: who the model is, what it shall read, and the JSON form in which it shall answer."""

    system: str
    prompt: str
    schema: dict[str, Any]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the answer's JSON, or text that should hold it, and what the provider counted."""

    text: str
    input_tokens: int
    output_tokens: int
    cut_off: bool = False


class Provider(ABC):
    """Whoever runs a model. It retries nothing by itself; its errors are ours, without the key in them."""

    #: Signs the summaries, together with the model.
    kind = ""

    @abstractmethod
    async def ask(self, model: str, request: Request, structured: bool) -> Reply:
        """One call. `structured` asks for the answer's form by the provider's own means, else by words alone."""

    @abstractmethod
    async def close(self) -> None:
        """Give back what it holds."""


class ServiceProvider(Provider):
    """A service on the network, asked through its library."""

    library = ""
    url = ""

    def __init__(self, api_key: str, base_url: str = "", timeout: float = 60.0) -> None:
        self._api_key, self._base_url, self._timeout = api_key, base_url or self.url, timeout
        self._client: Any = None

    async def ask(self, model: str, request: Request, structured: bool) -> Reply:
        try:
            # Imported when it is first used, in a thread since that takes a while.
            library = await to_thread.run_sync(import_module, self.library)
        except ImportError:
            raise ModelUnusable(
                f"The package {self.library} is not installed: {how_to_add(self.library)}, "
                "or set summarizer.kind to extractive."
            ) from None
        if not self._api_key.isascii() or not self._api_key.isprintable():
            # It cannot stand in a request's head.
            raise AuthRefused(f"The key holds characters that no key has. {_CORRECT_KEY}")
        key = self._api_key or "none"
        self._client = self._client or self._connect(
            library, api_key=key, base_url=self._base_url, timeout=self._timeout, max_retries=0
        )
        try:
            answer = await self._send(model, request, structured)
        except library.APIError as error:
            raise failure_of(error, model) from None
        # The SDK passes on whatever a server sends, so nothing in it is taken for granted.
        if reply := self._reply(answer):
            return reply
        # A server that answers, and not as a model's provider does: a proxy's page, an empty document.
        raise TransportFailed(
            f"What answered for {model} does not speak the provider's language. "
            "See whether summarizer.base_url is right.",
            answered=True,
        )

    async def close(self) -> None:
        if self._client:
            client, self._client = self._client, None
            await client.close()

    @abstractmethod
    def _connect(self, library: Any, **settings: Any) -> Any:
        """The client of the library."""

    @abstractmethod
    async def _send(self, model: str, request: Request, structured: bool) -> Any:
        """The answer as the library gives it."""

    @abstractmethod
    def _reply(self, answer: Any) -> Reply | None:
        """What the answer holds; nothing if it is none."""


class AnthropicProvider(ServiceProvider):
    """Anthropic's Messages API, through its own SDK. The answer's form is a tool that the model must call."""

    kind = library = "anthropic"
    url = "https://api.anthropic.com"

    def __init__(self, api_key: str, base_url: str = "", timeout: float = 60.0) -> None:
        # The SDK adds the version to the path by itself; many write it into the address, as OpenAI's wants it.
        super().__init__(api_key, base_url.removesuffix("/v1"), timeout)

    def _connect(self, library: Any, **settings: Any) -> Any:
        return library.AsyncAnthropic(**settings, open_telemetry=False)

    async def _send(self, model: str, request: Request, structured: bool) -> Any:
        tool = {"name": "summary", "description": "Record the summary.", "input_schema": request.schema}
        form = {"tools": [tool], "tool_choice": {"type": "tool", "name": "summary"}}
        return await self._client.messages.create(
            model=model,
            max_tokens=request.max_tokens,
            system=request.system,
            messages=[{"role": "user", "content": request.prompt}],
            **(form if structured else {}),
        )

    def _reply(self, answer: Any) -> Reply | None:
        blocks = getattr(answer, "content", None)
        if not isinstance(blocks, list):
            return None
        called = next((block for block in blocks if getattr(block, "type", None) == "tool_use"), None)
        texts = [getattr(block, "text", None) for block in blocks if getattr(block, "type", None) == "text"]
        said = "".join(text for text in texts if isinstance(text, str))
        usage = getattr(answer, "usage", None)
        return Reply(
            json.dumps(getattr(called, "input", None)) if called else said,
            _total(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            _total(usage, "output_tokens"),
            cut_off=getattr(answer, "stop_reason", None) == "max_tokens",
        )


class OpenAIProvider(ServiceProvider):
    """OpenAI's chat completions, through its own SDK: OpenAI itself, or any server that speaks the same.

    Local servers need no key.
    """

    kind = library = "openai"
    url = "https://api.openai.com/v1"
    #: What is said besides to whoever understands forms.
    _further: ClassVar[dict[str, Any]] = {}

    def _connect(self, library: Any, **settings: Any) -> Any:
        return library.AsyncOpenAI(**settings)

    async def _send(self, model: str, request: Request, structured: bool) -> Any:
        form = {"name": "summary", "schema": request.schema, "strict": True}
        # OpenAI's newer models know only the one name of the output cap, most other servers only the other.
        cap = "max_completion_tokens" if self._base_url == OpenAIProvider.url else "max_tokens"
        return await self._client.chat.completions.create(
            model=model,
            messages=[{"role": "system", "content": request.system}, {"role": "user", "content": request.prompt}],
            **{cap: request.max_tokens},
            **(
                {"response_format": {"type": "json_schema", "json_schema": form}, **self._further} if structured else {}
            ),
        )

    def _reply(self, answer: Any) -> Reply | None:
        choices = getattr(answer, "choices", None)
        if not isinstance(choices, list):
            return None
        choice = choices[0] if choices else None
        message = getattr(choice, "message", None)
        calls = getattr(message, "tool_calls", None)
        called = getattr(calls[0], "function", None) if isinstance(calls, list) and calls else None
        text = getattr(called, "arguments", None) or getattr(message, "content", None)
        usage = getattr(answer, "usage", None)
        return Reply(
            text if isinstance(text, str) else "",
            _total(usage, "prompt_tokens"),
            _total(usage, "completion_tokens"),
            cut_off=getattr(choice, "finish_reason", None) == "length",
        )


class OllamaProvider(OpenAIProvider):
    """Ollama, which speaks as OpenAI does, on this machine unless an address is set."""

    kind = "ollama"
    url = "http://localhost:11434/v1"
    #: Many small models think at length unless they are told not to, and have no words left for the answer.
    _further: ClassVar[dict[str, Any]] = {"reasoning_effort": "none"}


#: The services by the kind of summarizer that they are.
SERVICES: dict[str, type[ServiceProvider]] = {
    provider.kind: provider for provider in (AnthropicProvider, OpenAIProvider, OllamaProvider)
}


def _total(usage: Any, *names: str) -> int:
    """What a provider counted; what is no count is none."""
    counts = [getattr(usage, name, 0) for name in names]
    return sum(count for count in counts if isinstance(count, int) and count > 0)


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
    # Only looked at.
    said = f"{error} {getattr(error, 'code', '')} {getattr(error, 'type', '')}"
    if status == 404:
        return ModelMissing(f"The provider does not know the model {model} (HTTP 404). Correct summarizer.model.")
    if status == 429:
        return RateLimited(f"{model} is limited by its provider (HTTP 429).", wait)
    if status == 413 or (400 <= status < 500 and _TOO_LONG.search(said)):
        return ContextTooLong(f"The text is too long for {model} (HTTP {status}).")
    if status in (408, 504):
        return ModelTimeout(f"{model} did not answer in time (HTTP {status}).", wait)
    if status >= 500 or status in (409, 425):
        return TransportFailed(f"The provider of {model} failed (HTTP {status}).", wait, answered=True)
    return RequestRefused(f"The provider of {model} refused the request (HTTP {status}).")


def _retry_after(error: Exception) -> float | None:
    """The seconds that a provider asks to be left alone, as a number or as a date."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    milliseconds, given = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        seconds = float(milliseconds) / 1000 if milliseconds else float(given) if given else None
    except ValueError:
        if milliseconds:
            return None
        try:
            seconds = parsedate_to_datetime(str(given)).timestamp() - time()
        except (ValueError, OverflowError):
            return None
    return None if seconds is None or isnan(seconds) else min(max(seconds, 0.0), _LONGEST_WAIT)


class CommandProvider(Provider):
    """Any program that reads a prompt and prints an answer: an agent in its one-shot mode, or a tool for models."""

    kind = "command"

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._name = tuple(command), Path(command[0]).name
        # Our hook leaves alone what runs with the one; an agent that finds the other may refuse to run inside another.
        self._environment = {**environment, "MCP_MEMORY_DISABLE": "1"}
        self._environment.pop("CLAUDECODE", None)

    async def ask(self, model: str, request: Request, structured: bool) -> Reply:
        program = find_program(self._command[0], self._environment)
        if not program:
            raise ModelUnusable(no_program(self._command[0]))
        with TemporaryDirectory(prefix=OWN_QUESTIONS, ignore_cleanup_errors=True) as folder:
            words, env = [program, *self._command[1:]], {**self._environment, "PWD": folder}
            try:
                process = await anyio.open_process(words, cwd=folder, env=env, start_new_session=True)
            except OSError as error:
                why = f"{program} cannot be started: {error.strerror or type(error).__name__}."
                raise ModelUnusable(f"{why} Correct summarizer.command.") from None
            try:
                prompt = f"{request.system}\n\n{request.prompt}\n"
                answer, complaint = await self._converse(process, prompt)
                code = await process.wait()
            finally:
                end(process)
                with anyio.CancelScope(shield=True):
                    await process.aclose()
        text, said = (printable(part.decode("utf-8", "replace")) for part in (answer, complaint))
        text = text.replace(printable(prompt).strip(), "")  # an echo of the question is no answer
        said = one_line(redact(said)[-_SHOWN_CHARS:], _SHOWN_CHARS)
        told = f" It said: {said}" if said else ""
        if code:
            how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
            raise TransportFailed(f"{self._name} {how}.{told} {_BY_HAND.format(self._name)}")
        if not text.strip():
            raise TransportFailed(f"{self._name} answered nothing.{told} {_BY_HAND.format(self._name)}")
        return Reply(text, 0, 0)  # what it really used, only its service knows: tokens are counted here

    async def close(self) -> None:
        """Nothing is held: no program outlives its question."""

    async def _converse(self, process: Process, prompt: str) -> tuple[bytes, bytes]:
        """What the program prints, and the end of what it complains about, while it reads the prompt."""
        answer, complaint = bytearray(), bytearray()

        async def write() -> None:
            # Who has read enough closes its end, or is gone.
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                if process.stdin:
                    async with process.stdin as stdin:
                        await stdin.send(prompt.encode("utf-8", "replace"))

        async def complain(stream: ByteReceiveStream) -> None:
            async for piece in stream:
                complaint.extend(piece)
                del complaint[:-_KEPT_BYTES]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, name="prompt of a command")
            if process.stderr:
                tasks.start_soon(complain, process.stderr, name="complaints of a command")
            if process.stdout:
                async for piece in process.stdout:
                    answer.extend(piece)
                    if len(answer) > MOST_BYTES:
                        end(process)
                        break
        if len(answer) > MOST_BYTES:
            raise InvalidOutput(f"{self._name} printed more than {MOST_BYTES:,} bytes. Write far less.")
        return bytes(answer), bytes(complaint)


def end(process: Process) -> None:
    """End the program, if it still runs, and all that it started and did not take with it."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            process.kill()


def find_program(name: str, environment: Mapping[str, str]) -> str | None:
    """The program's place on PATH, or of a full path itself.

    What lies in the directory at hand is never meant, though some systems would take it: a project's files must not be
    able to say what is run.
    """
    name = os.path.expanduser(name)
    if os.path.isabs(name):
        return shutil.which(name)
    if os.path.basename(name) != name:
        return None
    places = environment.get("PATH", os.defpath).split(os.pathsep)
    found = (shutil.which(os.path.join(place, name)) for place in places if os.path.isabs(place))
    return next(filter(None, found), None)


def no_program(name: str) -> str:
    """Why a program was not found, and what to do."""
    how = "Give its full path" if os.path.basename(name) != name else "Install it, or give its full path"
    return f"There is no program {name!r} on PATH. {how} in summarizer.command."
