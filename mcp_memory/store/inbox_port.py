"""What the rest asks of the inbox, which is local to a machine, whichever store has the memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from mcp_memory.clients.port import BadLine
from mcp_memory.domain.failures import Pause
from mcp_memory.domain.forget import ForgetScope
from mcp_memory.domain.handed import Handed, HandedQuery, HandedTotal
from mcp_memory.domain.projects import PlaceName
from mcp_memory.domain.tombstones import TombstoneKey, TombstoneRows

#: When a payload was received, its client, root and label of its project, itself, and the project's remote if any.
Payload = tuple[int, str, str, str, str] | tuple[int, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One hook payload as the hook left it."""

    id: int
    received_ms: int
    client: str
    root: str
    label: str
    payload: str
    remote: str


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """How many payloads wait and how many are of no known form, and the transcripts that could not be read."""

    waiting: int
    unknown: int
    set_aside: tuple[BadLine, ...]


class Local(NamedTuple):
    """How many rows of this machine a request takes: waiting payloads, and notes of answers to agents."""

    payloads: int
    handed: int


class CopyKind(StrEnum):
    """What this program wrote or read outside its data directory."""

    BACKUP = "backup"
    EXPORT = "export"
    #: A file that `move` filled.
    FILE = "file"
    #: A database server that `move` filled or left; the path is its address without a password.
    SERVER = "server"
    #: A transcript, or a directory of them, that a user imported.
    IMPORT = "import"


class CopyMade(NamedTuple):
    """A place outside the data directory that may hold what is in memory."""

    path: str
    kind: CopyKind


class Inbox(Protocol):
    """Payloads that hooks left, texts that hooks print, what agents were handed, how far each transcript was read.

    The memory is told first, and then this: what was told twice is one event.
    """

    async def begin(self) -> None:
        """A round of the pipeline begins; what it writes from now on is refused if something is forgotten meanwhile."""

    async def rows(self, limit: int) -> list[InboxRow]: ...

    async def post(self, rows: Iterable[Payload]) -> None:
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

    async def forget(self, scope: ForgetScope, *, dry_run: bool) -> Local:
        """Take out the rows that fall under a request, what readers keep of it, and all texts. How many rows it is."""

    async def tombstone_state(self) -> tuple[str, list[str]]:
        """Return the last erasure whose tombstones are kept here, and the ids of all runs of `forget` that are."""

    async def tombstone_rows(self) -> TombstoneRows:
        """Return all tombstones that are kept here."""

    async def keep_tombstones(self, rows: TombstoneRows, key: TombstoneKey | None, mark: str) -> None:
        """Keep tombstones of the memory, their key, and the last erasure they include."""

    async def lift(self, name: str) -> bool:
        """Drop the tombstones of a run of `forget` and let transcripts be read from their beginning."""

    async def note_handed(self, row: Handed, wanted: Sequence[str], home: tuple[str, str]) -> None:
        """An agent was given this. Earlier rows that named one of the `wanted` ids were opened by it: those of the
        same server, and briefs that were printed at its `home`, the root and label of the place where it runs."""

    async def expire_handed(self, before_ms: int) -> None:
        """Drop what was handed over before this time, a bounded number of rows at once."""

    async def handed(self, query: HandedQuery) -> list[Handed]:
        """What agents were given, newest first."""

    async def handed_totals(self, since_ms: int, places: Sequence[PlaceName] | None = None) -> list[HandedTotal]:
        """The same counted by kind, from a time on and, if given, of these places alone."""

    async def handed_places(self) -> list[PlaceName]:
        """All places of which something was handed over."""

    async def note_pause(self, pause: Pause | None) -> None:
        """Keep what the pipeline meets again and again, for `doctor` to report; None: it goes on."""

    async def note_copies(self, copies: Iterable[CopyMade], now_ms: int) -> None:
        """Remember places outside the data directory that hold a copy."""

    async def copies_made(self) -> list[CopyMade]:
        """Return the remembered places, oldest first, whether they still exist or not."""

    async def transcripts_rewritten(self, told_to: Mapping[str, int]) -> None:
        """Let transcripts, given by checkpoint name, be read again from their start.

        Events are told from the given offset on; a round of the pipeline that has begun is given up.
        """

    async def counts(self) -> InboxCounts: ...

    async def changes(self) -> int:
        """A number that is another one whenever someone else has written."""

    async def scrub(self, wait_ms: int = 0) -> str:
        """Take what was erased out of the files; what keeps it there for now, or nothing."""
