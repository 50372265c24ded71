"""What a search finds: hits, what belongs beside them, and advice where there are few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_memory.domain.events import Event
from mcp_memory.search.order import Weighed
from mcp_memory.search.passage import Passage
from mcp_memory.times.resolve import TimeRange

#: What to do with a hit, by the least score that calls for it.
BANDS = ((0.8, "jump"), (0.5, "verify"), (0.3, "compare"), (0.0, "browse"))


@dataclass(frozen=True, slots=True)
class Beside:
    """Another event that belongs beside a hit, and the part of it that matters."""

    event: Event
    passage: Passage
    event_id: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "event_id", self.event.event_id)


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage, with what it matched and where to go on; the reply to it, and what was later said otherwise."""

    id: str
    kind: str
    title: str
    passage: Passage
    score: float
    matched: tuple[str, ...]
    missing: tuple[str, ...]
    project: str
    session_id: str | None
    start_ms: int
    role: str
    grip_id: str
    node_id: str
    event_ids: tuple[str, ...]
    source_ids: tuple[str, ...]
    reply: Beside | None = None
    later: Beside | None = None

    @property
    def band(self) -> str:
        return next(name for floor, name in BANDS if self.score >= floor)


@dataclass(frozen=True, slots=True)
class Advice:
    """What to try instead: known words for unknown ones, days to browse, when there is a hit outside of the time.

    The days are the latest or, if `nearest`, those nearest to the time that was asked for.
    """

    near: Mapping[str, tuple[str, ...]]
    days: tuple[str, ...] = ()
    anytime_ms: int | None = None
    nearest: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """The hits of a question; `candidates` are the events they were chosen from, as far as they came near.

    `more` is where the list goes on, if it does; `elsewhere` counts the hits in other projects. `weights` says how
    much each unit of the question tells; `note` is why there can be no hit.
    """

    query: str
    when: TimeRange | None
    hits: list[Hit]
    more: int | None = None
    elsewhere: dict[str, int] = field(default_factory=dict)
    note: str = ""
    candidates: tuple[Weighed, ...] = ()
    weights: tuple[float, ...] = ()
    advice: Advice | None = None
    order: str = "best first"
