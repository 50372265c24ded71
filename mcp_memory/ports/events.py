"""The canonical record of events, and the inbox that hooks fill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcp_memory.domain.events import Event


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
class Intake:
    """Events of one session, and the project it belongs to if the session is new."""

    events: tuple[Event, ...]
    root: str
    label: str = ""


class Trial(Protocol):
    """Adds events for the sake of counting them. Nothing is stored."""

    async def add(self, intakes: Sequence[Intake]) -> list[Intake]:
        """What of these would be new, had all that was added to this trial before been stored."""
        ...


class EventLog(Protocol):
    """The canonical record. Adding is idempotent: an event known by its key changes nothing."""

    async def inbox(self, limit: int) -> list[InboxRow]: ...

    async def post(self, rows: Iterable[tuple[int, str, str, str, str]], lease_token: int | None = None) -> None:
        """Append to the inbox what the hook could only spool."""
        ...

    async def reopen(self, version: str = "") -> None:
        """Let those payloads be read once more of which no form was known; given a version, unless it has done so."""
        ...

    async def checkpoint(self, name: str) -> dict[str, Any]: ...

    async def add(
        self,
        intakes: Sequence[Intake],
        *,
        consumed: Sequence[int] = (),
        unknown: Sequence[int] = (),
        checkpoints: Mapping[str, Mapping[str, Any]] | None = None,
        compacting: Sequence[tuple[str, str]] = (),
        lease_token: int | None = None,
    ) -> int:
        """Store what is new, index it, mark its sessions for cutting, take inbox rows away: all in one transaction.

        `compacting` are sessions, by client and name, of which a record is wanted now. Returns how many events were
        new.
        """
        ...

    def trial(self) -> Trial: ...
