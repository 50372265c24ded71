"""What is asked of a search: first as a user says it, then as it is understood."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_memory.domain.matches import Within
from mcp_memory.domain.toc import Level
from mcp_memory.errors import UsageError
from mcp_memory.search.nearest import Order
from mcp_memory.search.scope import Scope
from mcp_memory.times.resolve import TimeRange

#: The kinds of nodes, from segments up.
LEVELS = tuple(level.label for level in reversed(Level))
KINDS = ("event", "grip", *LEVELS)


@dataclass(frozen=True, slots=True)
class Search:
    """A search as a user asks for it: the time in words, the place in the list as an earlier answer's cursor."""

    query: str
    project: str | None = None
    when: str | None = None
    kind: str | None = None
    limit: int = 10
    cursor: str | None = None
    diverse: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """A search as it is understood: what to look for, where, and which part of the list to give.

    What was said outside of `when` is left out; what was said within `favoured` comes before its equals. With
    `diverse`, hits are spread over sessions. `order` says which end of a time is asked for, if nothing else is.
    """

    scope: Scope
    query: str
    when: TimeRange | None = None
    favoured: TimeRange | None = None
    kind: str | None = None
    limit: int = 10
    offset: int = 0
    diverse: bool = False
    order: Order = ""

    @property
    def end(self) -> int:
        """Where the wanted part of the list ends."""
        return self.offset + self.limit

    @property
    def time(self) -> TimeRange | None:
        """The time that is asked about, whether it is a must or a preference."""
        return self.when or self.favoured

    def within(self, time: TimeRange | None) -> Within:
        """The project that is asked about, in this time."""
        project = self.scope.project
        return Within(project, time.start_ms, time.end_ms) if time else Within(project)


def offset_of(cursor: str | None) -> int:
    """The position in a list that a cursor stands for; callers need not know what it looks like."""
    if not cursor:
        return 0
    if cursor.startswith("at:") and cursor[3:].isdigit() and len(cursor) < 12:
        return int(cursor[3:])
    raise UsageError(f"{cursor[:40]!r} is not a cursor of this answer; leave it out to start at the beginning.")


def cursor_of(offset: int | None) -> str | None:
    return f"at:{offset}" if offset is not None else None
