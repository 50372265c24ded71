"""The audit: who asked what, when, in which project and how much came of it; never what was said.

Rows are put into a queue when an answer is made, and written a moment later: no answer waits for that.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.exceptions import MCPError

from mcp_memory.domain.people import AuditRow
from mcp_memory.domain.toc import TEAM
from mcp_memory.errors import MemoryFault
from mcp_memory.navigate.browse import ALL
from mcp_memory.surfaces.recorder import RESOURCE_READ, TOOL_CALL
from mcp_memory.surfaces.resources import PROMPTS, RESOURCES
from mcp_memory.surfaces.team.identity import current
from mcp_memory.surfaces.tools import TOOLS

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from mcp_memory.surfaces.team.serving import TeamMemory

logger = logging.getLogger(__name__)
#: How long rows are gathered before they are written together, and how many wait at most while they cannot be.
GATHER_SECONDS, _WAITING = 0.2, 20_000
#: How long the end of a server is held up for what is left to write.
_LAST_SECONDS = 1.0
#: How long rows are kept, and how many at most.
KEPT_MS, KEPT_ROWS = 400 * 24 * 3_600_000, 2_000_000
_PROMPT = "prompts/get"
_NOTED = (TOOL_CALL, RESOURCE_READ, _PROMPT, "resources/subscribe", "subscriptions/listen", "completion/complete")


class Audit:
    """Implements the AnswerLog for a team. Gathers rows and writes them, for as long as the server runs."""

    def __init__(self, memory: TeamMemory) -> None:
        self._memory = memory
        self._rows: list[AuditRow] = []
        self._wanted = anyio.Event()
        self._lost = 0
        self._writing = anyio.Lock()

    def note(self, row: AuditRow) -> None:
        if len(self._rows) >= _WAITING:
            self._lost += 1
            return
        self._rows.append(row)
        self._wanted.set()

    async def watch(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """The protocol's middleware: notes each call by the name of its tool, resource or prompt."""
        if ctx.method not in _NOTED:
            return await call_next(ctx)
        outcome, many, params = "failed", 0, dict(ctx.params or {})
        try:
            result = await call_next(ctx)
            outcome = "refused" if isinstance(result, dict) and result.get("isError") else "ok"
            many = _counted(ctx.method, result)
            return result
        except MCPError:
            outcome = "refused"
            raise
        finally:
            given = params.get("arguments")
            project = given.get("project") if ctx.method == TOOL_CALL and isinstance(given, dict) else None
            told = f"{ctx.method} {_named(ctx.method, params)}".strip()
            self.note(AuditRow(self._memory.now_ms(), current().name, told, str(project or "")[:200], many, outcome))

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            await anyio.sleep(GATHER_SECONDS)
            await self.write()

    async def finish(self) -> None:
        with anyio.move_on_after(_LAST_SECONDS, shield=True):
            await self.write()

    async def write(self) -> None:
        """Write what was gathered. What cannot be written now waits."""
        async with self._writing:
            self._wanted = anyio.Event()
            rows, self._rows = self._rows, []
            if rows:
                await self._write(rows)

    async def _write(self, rows: list[AuditRow]) -> None:
        try:
            store = await self._memory.register()
            # What is asked for as a project may be anything: it is kept if it is one.
            projects = {"", ALL, *await store.slugs()}
            rows = [
                replace(row, project=slug if (slug := row.project.removeprefix(TEAM)) in projects else "")
                for row in rows
            ]
            await store.note_audit(rows, self._memory.now_ms() - KEPT_MS, KEPT_ROWS)
            if self._lost:
                logger.warning("%d rows of the audit could not be kept while the database was away", self._lost)
                self._lost = 0
        except MemoryFault as error:
            logger.warning("The audit waits: %s", error)
            self._rows = [*rows, *self._rows]
            self._wanted.set()


def _named(method: str, params: Mapping[str, Any]) -> str:
    """What was called, by a name that the server gave it: of a document its kind. Whoever asks may write anything."""
    name = str(params.get("name") or params.get("uri") or "")
    if method in (TOOL_CALL, _PROMPT):
        return name if name in (TOOLS if method == TOOL_CALL else PROMPTS) else "?"
    kinds = {str(told["uri"]).partition("{")[0] for told, _ in RESOURCES.values()}
    return next((kind for kind in kinds if name.startswith(kind)), "?") if name else ""


def _counted(method: str, result: Any) -> int:
    """How many ids an answer names: of how many things it tells."""
    from mcp_memory.capture.inbox import named_ids

    if not isinstance(result, dict) or method not in (TOOL_CALL, RESOURCE_READ):
        return 0
    parts = result.get("contents" if method == RESOURCE_READ else "content") or ()
    return len(set(named_ids("\n".join(part["text"] for part in parts if "text" in part))))
