"""The interfaces between the layers; their docstrings are contracts that every adapter must keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mcp_memory.domain.events import Captured, Event
from mcp_memory.domain.summaries import Node, RollupSummary, SegmentSummary
from mcp_memory.domain.toc import Level


class Clock(Protocol):
    """Tells the time. Tests stand it still."""

    def now_ms(self) -> int: ...


class Summarizer(Protocol):
    """Makes summaries. It never writes to the store, and is never called inside a transaction."""

    @property
    def name(self) -> str:
        """Who signs the summary: `extractive`, `anthropic:<model>`, …"""
        ...

    async def segment(self, events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
        """Summarize `events`. `context` came just before them, may be understood with them, and is never cited.

        Evidence offsets are characters of the cited event's `text`.
        """
        ...

    async def rollup(self, level: Level, children: Sequence[Node]) -> RollupSummary:
        """Summarize the children of a period, oldest first. Every bullet keeps grips and ids of its children."""
        ...


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of a transcript that could not be read."""

    path: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Hooked:
    """What one hook payload means.

    `transcript` names a file to read on from where it was left. `unknown` marks a payload of no known form, which is
    kept. `fallback` events are stored only if the transcript does not tell the same text.
    """

    session_id: str = ""
    events: tuple[Captured, ...] = ()
    fallback: tuple[Captured, ...] = ()
    transcript: Path | None = None
    unknown: bool = False


@dataclass(slots=True)
class TranscriptState:
    """What must be remembered between two reads of one growing transcript; JSON-serializable in `memory`."""

    offset: int = 0
    line: int = 0
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """One event of a transcript with the directory it was said in."""

    event: Captured
    cwd: str = ""
    project: str = ""


class ClientAdapter(Protocol):
    """Understands one agent client: its hook payloads and its transcripts."""

    @property
    def name(self) -> str: ...

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        """Turn a hook payload into events. Never raises: what it cannot read is `unknown`."""
        ...

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        """Read a transcript from `state.offset`, advancing `state` after each line taken.

        A last line without a newline is left for the next time, unless it is complete JSON.
        """
        ...

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """The transcript files among these files and directories."""
        ...

    def recognizes(self, path: Path) -> bool:
        """Whether the file looks like a transcript of this client."""
        ...
