"""What is asked of a store by who shares with a team: rules, and what waits to be sent to the team's server.

Private by default: an event is the team's only if a rule says so, for its session or else for its project. Notes and
their sessions are never shared. A rule works in the transaction that stores an event, whichever way it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.events import Event


@dataclass(frozen=True, slots=True)
class Chosen:
    """What to share or to take back: a project by its slug, or a session by its name."""

    project: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much it is."""

    sessions: int
    events: int


@dataclass(frozen=True, slots=True)
class SharedPart:
    """A project, or one session of it, of which something is shared or kept private by a rule of its own.

    `since_ms`: what is said from then on is shared; None: nothing more is. `waiting` events are still to be sent.
    """

    project: str
    session_id: str
    since_ms: int | None
    sessions: int
    events: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the team's server is still to be told: events to take, to give back, and to forget."""

    events: int
    withdrawn: int
    forgotten: int

    @property
    def anything(self) -> bool:
        return bool(self.events or self.withdrawn or self.forgotten)


class SharedLog(Protocol):
    """That part of a Store."""

    async def share(self, chosen: Chosen, since_ms: int, *, dry_run: bool) -> Amount:
        """Share what is said there from this time on, and what was; how much is stored already that was private.

        A session that was taken back by itself stays private when its project is shared. An earlier time adds to what
        is shared, a later one takes nothing away.
        """

    async def unshare(self, chosen: Chosen, *, dry_run: bool) -> Amount:
        """Make it private again, what was sent included, and let what comes be private; how much it was.

        Of a shared project a session can be taken back alone.
        """

    async def shared(self) -> list[SharedPart]:
        """Projects of which anything is shared, and sessions that have a rule of their own."""

    async def waiting(self) -> Waiting: ...

    async def join_team(self, server: str) -> None:
        """The server that what is shared goes to. Another one than before is offered all of it."""

    async def push_again(self) -> int:
        """Offer all that is shared once more, and let what is forgotten be forgotten there again; how many events."""

    async def to_push(self, limit: int, chars: int) -> list[tuple[int, Event]]:
        """The next events to send, in the order of the log, each with its number: so many, with so many characters.

        One longer than that comes alone.
        """

    async def pushed(self, numbers: Sequence[int]) -> None:
        """The server has answered for these events: they wait no more."""

    async def to_withdraw(self, limit: int) -> tuple[list[bytes], bool]:
        """Keys of events that the server is to give back, and whether it is to forget them; such ones come first."""

    async def withdrawn(self, keys: Sequence[bytes], *, forget: bool) -> None:
        """The server has given these back; one that is to be forgotten since then waits on."""
