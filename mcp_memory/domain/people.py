"""Who asks: the members of a team, what each may do, and what is noted of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_memory.errors import NotAllowed, UsageError

READER, MEMBER, ADMIN = "reader", "member", "admin"
#: What each may do: reads; reads and writes its own; all that, and sees what everyone asked.
ROLES = (READER, MEMBER, ADMIN)
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


def as_role(role: str) -> str:
    return f"an {role}" if role == ADMIN else f"a {role}"


def valid_name(name: str) -> str:
    """The name, if it is one by which a member can be known."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:60]!r} is no name for a member: up to 40 small letters, digits and . _ -, beginning with a letter "
            "or digit."
        )
    return name


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who asks, as a token told; nothing else says who someone is."""

    name: str
    role: str = MEMBER
    #: When the token or session expires that told it.
    expires_ms: int = field(default=0, compare=False)

    @property
    def writes(self) -> bool:
        return self.role in (MEMBER, ADMIN)

    @property
    def manages(self) -> bool:
        return self.role == ADMIN

    def must_write(self) -> None:
        if not self.writes:
            told = f"{self.name} is a reader here: a reader writes nothing."
            raise NotAllowed(f"{told} Whoever runs the server can change that.")


@dataclass(frozen=True, slots=True)
class TeamUser:
    """A member, with the tokens that live and what was shared."""

    name: str
    role: str
    created_ms: int
    revoked_ms: int | None
    tokens: int
    expires_ms: int | None
    sessions: int


@dataclass(frozen=True, slots=True)
class TeamProject:
    """A project as members know it: open to all of the team, or to these alone."""

    slug: str
    root: str
    #: The git remote by which it is the same on every machine; empty if it has none.
    remote: str = ""
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Who did what, when and in which project, of how many things; never their content."""

    at_ms: int
    name: str
    action: str
    project: str = ""
    many: int = 0
    #: ok, refused or failed.
    outcome: str = "ok"


@dataclass(frozen=True, slots=True)
class ProjectName:
    """A project as machines know it from one another: by its remote, else by its name."""

    remote: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class TeamReply:
    """What a team's memory answered, as it came: it was written by others, and is checked by whoever shows it.

    `trouble`: why there is no answer.
    """

    told: Mapping[str, Any] = field(default_factory=dict)
    trouble: str = ""
