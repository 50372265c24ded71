"""Notes what the server handed to agents, once the answer is made. People can look it up; agents never wait for it.

Where that fails the answer is given all the same, and the log says so once.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

import anyio

from mcp_memory.errors import MemoryFault

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from mcp_memory.app import App
    from mcp_memory.domain.handed import Handed
    from mcp_memory.navigate.answers import Answers
    from mcp_memory.surfaces.server import Memory

logger = logging.getLogger(__name__)

TOOL_CALL, RESOURCE_READ = "tools/call", "resources/read"
#: How many answers wait to be noted at most; further ones are not.
_WAITING = 200
#: How long the end of a server is held up for what is left to note.
DRAIN_SECONDS = 0.3
_STATUS = "memory://status"
#: Arguments that name one thing to open, and those that only say how much to show.
_OPENS = ("node_id", "grip_id", "session_id", "focus")
_SUBJECTS = frozenset({*_OPENS, "query", "when", "topic"})
_MEASURES = frozenset({"budget_tokens", "cursor", "limit", "before", "after", "top_k", "order", "include_memo"})
_FOOT = re.compile(r"\[(\d+) tokens\b[^\n]*\]\s*\Z")
_CLIENT_CHARS = 80


class AnswerLog(Protocol):
    """What a server keeps of its answers, as its middleware sees them."""

    async def watch(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Give the answer as it is, and take note of it."""

    async def run(self) -> None:
        """Write what was noted, for as long as the server runs."""

    async def finish(self) -> None:
        """Write what is left, since the memory is about to be closed."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A request that was answered."""

    at_ms: int
    method: str
    params: dict[str, Any]
    #: As it goes over the wire.
    result: Mapping[str, Any]
    client: str

    @property
    def kind(self) -> str:
        """The tool that reads memory, or that it is a document of it; empty if it is neither, or failed."""
        from mcp_memory.domain.handed import RESOURCE
        from mcp_memory.surfaces.tools import TOOLS

        if self.method == RESOURCE_READ:
            return "" if self.params.get("uri") == _STATUS else RESOURCE
        name = str(self.params.get("name"))
        reads = name in TOOLS and TOOLS[name][0]["annotations"].read_only_hint
        return name if reads and not self.result.get("isError") else ""

    @property
    def text(self) -> str:
        parts = self.result.get("contents" if self.method == RESOURCE_READ else "content") or ()
        return "\n".join(part["text"] for part in parts if "text" in part)

    @property
    def arguments(self) -> dict[str, Any]:
        return {name: value for name, value in (self.params.get("arguments") or {}).items() if value is not None}

    def with_ids(self, answers: Answers) -> Answered:
        """Return the same with arguments by their published names, and ids written out, by which they are compared."""
        from mcp_memory.navigate.naming import grip_id_of, node_id_of
        from mcp_memory.surfaces.protocol import EARLIER_NAMES

        given = {EARLIER_NAMES.get(name, name): value for name, value in self.arguments.items()}
        if "grip_id" in given:
            given["grip_id"] = grip_id_of(str(given["grip_id"]))
        if "node_id" in given:
            given["node_id"] = node_id_of(str(given["node_id"]), answers.now, answers.zone)
        return replace(self, params={**self.params, "arguments": given})

    @property
    def asked(self) -> str:
        """The arguments in a few words: what was asked for as it is, and what limits that by its name."""
        if self.method == RESOURCE_READ:
            return unquote(str(self.params.get("uri")))
        given = {name: value for name, value in self.arguments.items() if name not in _MEASURES}
        subject = next((name for name in given if name in _SUBJECTS), None)
        words = [str(given.pop(subject))] if subject else []
        return " · ".join([*words, *(f"{name}={value}" for name, value in given.items())])

    @property
    def opens(self) -> list[str]:
        """The ids of what was asked for."""
        if self.method == RESOURCE_READ:
            return [unquote(str(self.params.get("uri")).rpartition("/")[2])]
        return [str(self.arguments[name]) for name in _OPENS if name in self.arguments]


class Recorder:
    """Implements the AnswerLog for a memory of one's own: notes answers one after another while the server runs."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._server = os.urandom(6).hex()
        self._queue: MemoryObjectSendStream[Answered] | None = None
        self._done = anyio.Event()
        self._failing = False

    async def watch(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """The server's middleware: gives every answer as it is, and takes note of those that hold memory."""
        result = await call_next(ctx)
        if self._queue is not None and ctx.method in (TOOL_CALL, RESOURCE_READ) and isinstance(result, dict):
            told = ctx.session.client_params
            client = told.client_info.name if told else ""
            answered = Answered(time.time_ns() // 1_000_000, ctx.method, dict(ctx.params or {}), result, client)
            try:
                self._queue.send_nowait(answered)
            except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                logger.info("An answer was not noted: too many wait for that, or the server ends")
        return result

    async def run(self) -> None:
        """Note what was answered, until the server ends; nothing at all if nothing is to be kept."""
        if not self._memory.settings.recall.keep_days:
            self._done.set()
            return
        self._done = anyio.Event()
        self._queue, answers = anyio.create_memory_object_stream[Answered](_WAITING)
        with self._queue, answers:
            await self._note_all(answers)

    async def finish(self) -> None:
        """Wait a moment for what is left to note: the memory is about to be closed."""
        if self._queue is not None:
            self._queue.close()
            with anyio.move_on_after(DRAIN_SECONDS, shield=True):
                await self._done.wait()

    async def _note_all(self, answers: MemoryObjectReceiveStream[Answered]) -> None:
        async for answered in answers:
            try:
                if answered.kind and (app := self._memory.open):
                    noted = answered.with_ids(app.answers)
                    row = await self._row(app, noted)
                    await app.inbox.note_handed(row, noted.opens, (app.home_root, app.home_label))
                    await app.tidy()
                self._failing = False
            except Exception as error:  # it is a service to people; no agent may notice that it failed
                if not self._failing:
                    why = error if isinstance(error, MemoryFault) else type(error).__name__
                    logger.warning("What is handed to agents is not noted for now: %s", why)
                self._failing = True
        self._done.set()

    async def _row(self, app: App, answered: Answered) -> Handed:
        from mcp_memory.capture.inbox import named_ids
        from mcp_memory.capture.redaction import redact
        from mcp_memory.domain.handed import ASKED_CHARS, Handed
        from mcp_memory.domain.text import safe

        text = answered.text
        foot = _FOOT.search(text)
        place = await self._place(app, answered.arguments.get("project"))
        return Handed(
            at_ms=answered.at_ms,
            kind=answered.kind,
            client=safe(redact(answered.client), _CLIENT_CHARS),
            root=place[0],
            label=place[1],
            remote=place[2],
            server=self._server,
            asked=safe(redact(answered.asked), ASKED_CHARS),
            ids=tuple(await self._whole(app, named_ids(text)) if not any(place) else named_ids(text)),
            tokens=int(foot[1]) if foot else app.answers.renderer.count(text),
        )

    @staticmethod
    async def _whole(app: App, ids: list[str]) -> list[str]:
        """Ids of an answer about all projects, in which those of the project here come without its name."""
        home = await app.store.project_of_root(*app.home)
        return [f"{one}@{home}" if home and one.startswith("toc:") and "@" not in one else one for one in ids]

    async def _place(self, app: App, project: object) -> tuple[str, str, str]:
        """Of which project it is: of the one that was named, of none if all were meant, else of the one here."""
        if project == "*":
            return "", "", ""
        root = await app.store.root_of(project) if isinstance(project, str) and project else None
        return (root, "", "") if root is not None else app.home
