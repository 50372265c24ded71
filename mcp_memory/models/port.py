"""The interfaces around models: who writes, what it costs, and which nodes wait for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Node, RollupSummary, SegmentSummary
from mcp_memory.domain.records import Body, Facets
from mcp_memory.domain.toc import Level


class Summarizer(Protocol):
    """Makes summaries. It never writes to the store, and is never called inside a transaction."""

    @property
    def name(self) -> str:
        """Who signs the summary: `extractive`, `anthropic:<model>`, …"""
        ...

    @property
    def revision(self) -> int:
        """Of its extractive summaries: a higher one than before has those of the tree written anew."""
        ...

    async def segment(self, events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
        """Summarize `events`. `context` came before them, may be understood with them, and is never cited.

        It holds what was said just before, led by what the user asked for last.

        Evidence offsets are characters of the cited event's `text`.
        """
        ...

    async def rollup(self, level: Level, children: Sequence[Node]) -> RollupSummary:
        """Summarize the children of a period, oldest first. Every bullet keeps grips and ids of its children.

        The children's titles do not say whether they are open.
        """
        ...


@dataclass(frozen=True, slots=True)
class Readiness:
    """How many nodes a model may be asked for at once, and why none, if that is 0."""

    width: int
    reason: str = ""


class Author(Summarizer, Protocol):
    """A summarizer that costs something and may fail: a model. What it cannot write stays as it is.

    Its summaries say who wrote them and what they were made of. `prior` is the text of an earlier version of the node.
    """

    async def readiness(self) -> Readiness: ...

    async def segment(
        self, events: Sequence[Event], context: Sequence[Event], *, prior: str = "", node_id: str = ""
    ) -> SegmentSummary: ...

    async def rollup(
        self, level: Level, children: Sequence[Node], *, prior: str = "", node_id: str = ""
    ) -> RollupSummary: ...


class RecordAuthor(Protocol):
    """A model that writes what a session's record says. It costs something and may fail."""

    async def condense(self, events: Sequence[Event], *, prior: str, node_id: str) -> tuple[Body, str]:
        """What a part of a session adds to its record so far, which is `prior`, and who wrote that."""
        ...

    async def narrate(self, summaries: Sequence[str], *, node_id: str) -> str:
        """One account of parts that were condensed one after the other."""
        ...


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call to a model that is about to be made; `input_tokens` are those of its prompt."""

    purpose: str
    node_id: str
    model: str
    input_tokens: int
    max_output_tokens: int


#: Dollars for a million tokens of input and of output, by model.
Prices = Mapping[str, tuple[float, float]]


class Ledger(Protocol):
    """Every call to a model, written down before it is made, and the answers that were paid for."""

    async def reserve(self, call: PlannedCall) -> int:
        """Note the call and return its number. Raises CapReached if it could bring the day over its cap."""
        ...

    async def settle(self, number: int, outcome: str, input_tokens: int, output_tokens: int, latency_ms: int) -> None:
        """What came of a call. One that is never settled counts as planned."""
        ...

    async def room(self) -> int:
        """The tokens that are left today."""
        ...

    async def answer(self, key: str) -> str | None:
        """The answer that was kept under this key."""
        ...

    async def keep(self, key: str, answer: str) -> None: ...

    async def state(self, name: str) -> dict[str, Any]: ...

    async def set_state(self, name: str, value: Mapping[str, Any]) -> None: ...

    async def spending(self) -> dict[str, Any]:
        """What models were asked and what that cost."""

    async def facts(self) -> dict[str, Any]:
        """Calls, tokens and costs of today and in all, and who wrote how many nodes, for `status`."""
        ...


class FacetFinder(Protocol):
    """Finds decisions, action items, unresolved questions, participants and entities, without a model."""

    def find(self, events: Sequence[Event]) -> Facets: ...

    def points(self, events: Sequence[Event]) -> tuple[str, ...]:
        """Statements whose numbers and names a summary of a few lines would lose, oldest first."""
        ...
