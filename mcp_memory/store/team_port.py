"""What a team's server asks of its store besides memory: people, their tokens, members of projects, who did what.

A `TeamStore` is a store that can also be seen as a member sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mcp_memory.domain.events import Intake
from mcp_memory.domain.forget import ForgetCounts
from mcp_memory.domain.people import AuditRow, TeamProject, TeamUser, Viewer
from mcp_memory.store.port import Store


@dataclass(frozen=True, slots=True)
class Received:
    """What became of pushed events: how many are new, how many were known or forgotten, and why others are refused."""

    new: int
    known: int
    refused: dict[bytes, str] = field(default_factory=dict)


class TeamRegister(Protocol):
    """People, tokens, members and the audit. Times are given, so that tests can stand them still."""

    async def become_team(self, timezone: str) -> None:
        """From now on this is a memory of many: of what is private no summary is made, and none is left of it.

        Where there was none of it before, nothing is to be done.
        """

    async def add_user(self, name: str, role: str, now_ms: int, expires_ms: int) -> str:
        """A new member, or one who comes back, with this role and a first token, which is told here alone."""

    async def add_token(self, name: str, now_ms: int, expires_ms: int) -> str:
        """A further token of a member."""

    async def set_role(self, name: str, role: str) -> None: ...

    async def revoke_user(self, name: str, now_ms: int) -> int:
        """Let all tokens of a member die; how many. What was shared stays with the project."""

    async def users(self, now_ms: int) -> list[TeamUser]: ...

    def access_version(self) -> int:
        """A number that is another one whenever someone's access may have changed, here or on another server."""

    async def viewer_of(self, token: str, now_ms: int) -> Viewer | None:
        """Whose token it is, as of now; None if it is no one's, has expired or was revoked."""

    async def open_session(self, token: str, now_ms: int, expires_ms: int) -> str:
        """The secret of a browser's session, which ends then, or with the token if that ends before."""

    async def close_session(self, session: str) -> None: ...

    async def viewer_of_session(self, session: str, now_ms: int) -> Viewer | None: ...

    async def team_projects(self) -> list[TeamProject]: ...

    async def erasure_mark(self, name: str) -> str:
        """Return a mark that changes when something that a member could read is erased, and never for anything else
        that was forgotten."""

    async def add_member(self, project: str, name: str) -> None:
        """Let a member read a project. With its first member it is no longer open to all."""

    async def remove_member(self, project: str, name: str, *, opens: bool = False) -> None:
        """No longer let a member read it. The last one leaves it open to all, which must be asked for."""

    async def forget_events(
        self, keys: Sequence[bytes], author: str | None, *, returning: bool = False
    ) -> ForgetCounts:
        """Forget these events as `Store.forget` does, all in one transaction: those of an author's, or of anyone's.

        With `returning` no mark is left, so that they are taken if they are told again.
        """

    async def receive(self, intakes: Sequence[Intake]) -> Received:
        """Store what members push, each intake for its author, in one transaction.

        Refused are events of a session, or of a key, that is someone else's, and those of a project whose members the
        author is not one of; the rest is stored.
        """

    async def note_audit(self, rows: Sequence[AuditRow], oldest_ms: int, most: int) -> None:
        """Keep these rows, and of all no older ones and not many more than so many."""

    async def audit(self, user: str | None, limit: int) -> list[AuditRow]:
        """The latest first."""


class TeamStore(Store, TeamRegister, Protocol):
    """A memory of a team."""

    def seen_by(self, viewer: Viewer, by: str = "") -> Store:
        """The memory as a member sees it, to read from, or what of that one person said: it writes nothing."""
