"""What the rest asks of the inbox, which is local to a machine, whichever store has the memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcp_memory.clients.port import BadLine
from mcp_memory.domain.projects import Coverage


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One hook payload as the hook left it."""

    id: int
    received_ms: int
    client: str
    root: str
    label: str
    payload: str


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """How many payloads wait and how many are of no known form, and the transcripts that could not be read."""

    waiting: int
    unknown: int
    set_aside: tuple[BadLine, ...]


class Inbox(Protocol):
    """Payloads that hooks left, texts that hooks print, and how far each transcript was read.

    The memory is told first, and then this: what was told twice is one event.
    """

    async def begin(self) -> None:
        """A round of the pipeline begins; what it writes from now on is refused if something is forgotten meanwhile."""

    async def rows(self, limit: int) -> list[InboxRow]: ...

    async def post(self, rows: Iterable[tuple[int, str, str, str, str]]) -> None:
        """Append what the hook could only spool."""

    async def reopen(self, version: str = "") -> None:
        """Let those payloads be read once more of which no form was known; given a version, unless it has done so."""

    async def checkpoint(self, name: str) -> dict[str, Any]: ...

    async def settle(
        self,
        *,
        consumed: Sequence[int] = (),
        unknown: Sequence[int] = (),
        checkpoints: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """The memory has stored what came of these rows and of the transcripts up to these places."""

    async def keep(self, texts: Mapping[str, str], now_ms: int) -> None:
        """What the hook prints, by the place or the session where it does."""

    async def drop(self, roots: Iterable[str]) -> None: ...

    async def drop_all(self) -> None: ...

    async def forget(self, coverage: Coverage, *, dry_run: bool) -> int:
        """Take out the rows that fall under a wish, what readers keep of it, and all texts. How many rows it is."""

    async def counts(self) -> InboxCounts: ...

    async def changes(self) -> int:
        """A number that is another one whenever someone else has written."""

    async def scrub(self, wait_ms: int = 0) -> str:
        """Take what was erased out of the files; what keeps it there for now, or nothing."""
