"""The default summarizer: deterministic, offline and free. It chooses words of the conversation, it invents none.

Its rules are loaded when something is first summarized: reading needs none of them, and would wait for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import EXTRACTIVE, Node, RollupSummary, SegmentSummary
from mcp_memory.domain.records import Facets
from mcp_memory.domain.toc import Level


class ExtractiveSummarizer:
    """Implements the `Summarizer` port."""

    name = EXTRACTIVE
    #: Raise it when summaries have become better: trees that are there are then written anew, once.
    revision = 2

    async def segment(self, events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
        from mcp_memory.summaries.extractive import summarize_segment

        return summarize_segment(events, context)

    async def rollup(self, level: Level, children: Sequence[Node]) -> RollupSummary:
        from mcp_memory.summaries.rollups import roll_up

        return roll_up(level, children)


class ExtractiveFacets:
    """Implements the `FacetFinder` port."""

    def find(self, events: Sequence[Event]) -> Facets:
        from mcp_memory.summaries.facets import facets_of

        return facets_of(events)

    def points(self, events: Sequence[Event]) -> tuple[str, ...]:
        from mcp_memory.summaries.facets import points_of

        return points_of(events)
