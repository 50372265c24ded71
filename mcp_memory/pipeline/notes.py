"""Notes that the user or the agent wants kept: events like any other, in a session of their own per project."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from mcp_memory.domain.events import Captured, Event, EventType, Role
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.pipeline.prepare import Intaker
from mcp_memory.store.port import Clock, EventLog, Intake, Library

CLIENT = "mcp-memory"


class Desk(Protocol):
    """As much of an open memory as writing a note needs."""

    @property
    def log(self) -> EventLog: ...
    @property
    def library(self) -> Library: ...
    @property
    def intaker(self) -> Intaker: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def home_root(self) -> str: ...
    @property
    def home_label(self) -> str: ...


async def remember(desk: Desk, text: str, pin: bool = False, project: str | None = None) -> Event:
    """Store a note; it can be found at once. The same words at the same moment are one note."""
    if not text.strip():
        raise UsageError("There is nothing to remember: the text is empty.")
    root, label = desk.home_root, desk.home_label
    # A session stays in the project it began in, so its name is the project's own place, not a name that leads there.
    known = project or await desk.library.project_of_root(root, label)
    place = await desk.library.root_of(known) if known else None
    if project and place is None:
        raise NotFound(f"There is no project {project!r} in memory. Leave `project` out to use the current one.")
    if place is not None:
        root, label = place, ""
    now = desk.clock.now_ms()
    captured = Captured(
        client=CLIENT,
        session_id=f"notes:{root or label}",
        source_key=f"note:{now}:{text}",
        timestamp_ms=now,
        event_type=EventType.NOTE,
        role=Role.USER,
        text=text.strip(),
        metadata={"pin": True} if pin else {},
    )
    event = desk.intaker.prepare([captured])[0]
    await desk.log.add([Intake((event,), root, label)])
    return replace(event, project=await desk.library.project_of_root(root, label) or "")
