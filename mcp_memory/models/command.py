"""A program as the model: the prompt goes to its standard input, and what it prints is the answer.

It is started without a shell, in an empty directory of its own, and told not to be remembered. When it has ended, or
has taken too long, everything that it started ends with it.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from anyio.abc import ByteReceiveStream, Process

from mcp_memory.capture.project import OWN_QUESTIONS
from mcp_memory.capture.redaction import redact
from mcp_memory.domain.text import one_line, printable
from mcp_memory.errors import InvalidOutput, ModelUnusable, TransportFailed
from mcp_memory.models.providers import Provider, Reply, Request

#: No answer is longer. What a program prints beyond that is not waited for.
MOST_BYTES = 1_000_000
#: How much is kept, and shown, of the end of what a program complains about.
_KEPT_BYTES, _SHOWN_CHARS = 4_000, 300
_BY_HAND = "See what it says by hand: echo hello | {}"


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
                answer, complaint = await self._converse(process, f"{request.system}\n\n{request.prompt}\n")
                code = await process.wait()
            finally:
                end(process)
                with anyio.CancelScope(shield=True):
                    await process.aclose()
        text, said = (printable(part.decode("utf-8", "replace")) for part in (answer, complaint))
        said = one_line(redact(said)[-_SHOWN_CHARS:], _SHOWN_CHARS)
        told = f" It said: {said}" if said else ""
        if code:
            how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
            raise TransportFailed(f"{self._name} {how}.{told} {_BY_HAND.format(self._name)}")
        if not text.strip():
            raise TransportFailed(f"{self._name} printed nothing.{told} {_BY_HAND.format(self._name)}")
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
