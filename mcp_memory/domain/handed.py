"""What memory handed to agents: by itself at a session's start, or as the answer to a call.

It is kept apart from memory, on this machine, for people who want to see it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from mcp_memory.domain.forget import KEY_BEGINNING, ForgetScope
from mcp_memory.domain.nodes import parse_grip_id, parse_short_grip_id
from mcp_memory.domain.projects import PlaceName
from mcp_memory.domain.toc import parse_node_id
from mcp_memory.errors import BadId

#: What the hook printed by itself, and a document that was read; other kinds are names of tools.
BRIEF, RESOURCE = "brief", "resource"
#: Characters that are kept of what was asked.
ASKED_CHARS = 300
#: The fewest characters of a session's name that stand for it.
_SHORTEST = 6


@dataclass(frozen=True, slots=True)
class Handed:
    """One text that an agent was given. `root`, `label` and `remote` are the place of the project it is about."""

    at_ms: int
    kind: str
    client: str = ""
    session: str = ""
    root: str = ""
    label: str = ""
    remote: str = ""
    #: Which run of the server answered; empty for the hook.
    server: str = ""
    asked: str = ""
    #: What the text named: grips, nodes and, as `session:NAME`, sessions.
    ids: tuple[str, ...] = ()
    tokens: int = 0
    #: When a later call asked for one of the ids.
    opened_ms: int | None = None
    id: int = 0

    @property
    def place(self) -> PlaceName:
        return self.root, self.label, self.remote

    def names(self, wanted: Iterable[str]) -> bool:
        """Whether it named one of these, whichever of them was written out or short."""
        own, sought = {same_name(one) for one in self.ids}, {same_name(one) for one in wanted}
        if own & sought:
            return True
        # A session is shortened to its beginning.
        pairs = (sorted((one, other), key=len) for one in own for other in sought)
        return any(len(short) >= _SHORTEST and ":" not in short and whole.startswith(short) for short, whole in pairs)

    def falls_under(self, scope: ForgetScope) -> bool:
        """Whether a request to forget takes it: by its time, place or session, by its words, or by what it named."""
        sessions = [one.removeprefix("session:") for one in self.ids]
        told = "\n".join(f'"{part}"' for part in (self.session, self.asked, *self.ids, *sessions))
        session = scope.request.session_id
        if scope.covers(self.at_ms, self.root, self.label, told, self.remote):
            return True
        # Thousands are asked, and most hold nothing like it.
        if session and session[:_SHORTEST] in told and self.names([session]):
            return True
        return any(key_of(one) in scope.beginnings for one in (*self.ids, self.asked))


@dataclass(frozen=True, slots=True)
class HandedQuery:
    """Which rows to list, newest first. `places`: of these projects; `before`: older than this row."""

    kind: str | None = None
    session: str | None = None
    places: tuple[PlaceName, ...] | None = None
    before: int | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class HandedTotal:
    """How often something of a kind was handed over, how long that was in all, and how much of it was opened."""

    kind: str
    times: int
    tokens: int
    opened: int


def key_of(name: str) -> bytes:
    """The beginning of the key that a grip's id names; nothing for another id."""
    if not name.lower().startswith("grip:"):
        return b""
    try:
        return (parse_short_grip_id(name) or parse_grip_id(name)[1])[:KEY_BEGINNING]
    except BadId:
        return b""


@lru_cache(maxsize=4096)
def same_name(name: str) -> str:
    """One spelling for all the ways in which an id can be written."""
    name = name.strip()
    if key := key_of(name):
        return f"grip:{key.hex()}"
    if name.startswith(("session:", "s:")):
        return name.removeprefix("session:").removeprefix("s:").rstrip("…")
    try:
        return parse_node_id(name)[0].short_id(None)
    except BadId:
        return name.rstrip("…")
