"""Part of compaction: from the words of a session to what its record says, in parts of bounded size.

Without a model the words are chosen; with one they are told, and what the rules find is kept beside what it says.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from anyio.lowlevel import checkpoint

from mcp_memory.capture.redaction import Clean
from mcp_memory.domain.budget import Tokenizer
from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.nodes import Depth, depth_of
from mcp_memory.domain.records import Account, Body, Record, body_text, combined, fold, follow
from mcp_memory.errors import MemoryFault, SummarizerError
from mcp_memory.models.port import FacetFinder, RecordAuthor, Summarizer

logger = logging.getLogger(__name__)

#: What a summarizer is given at once; more is condensed part by part.
PART_TOKENS = 8_000
#: A tool's output says little to a reader who cannot see the screen; an error is worth a little more.
TOOL_CHARS, FAILED_CHARS = 400, 800
_NOTHING = Body("Nothing was said in words.")


@dataclass(slots=True)
class Condenser:
    """Condenses a session's events to one record's share of it."""

    quick: Summarizer
    facets: FacetFinder
    tokens: Tokenizer

    async def share(
        self, account: Account, before: Record | None, events: Sequence[Event], author: RecordAuthor | None
    ) -> tuple[Body, str]:
        """What these events add to the record `before` them, and who wrote it: the model, if one is given."""
        try:
            if author is None:
                return await self._chosen(account, before, events), self.quick.name
            return await self._told(account, before, events, author)
        except MemoryFault:
            raise
        except Exception as error:
            # One odd session must not keep the pipeline from all others; it is tried again later.
            logger.exception("A session could not be condensed")
            raise SummarizerError(f"The summarizer met an unexpected error ({type(error).__name__}).") from error

    async def _chosen(self, account: Account, before: Record | None, events: Sequence[Event]) -> Body:
        context = [_told_before(account, before)] if before else []
        bodies = []
        for part in self.parts(events):
            # Choosing never waits by itself; a server must be able to answer in between.
            await checkpoint()
            bodies.append(await self._chosen_part(part, context))
            context = []
        return fold(bodies or [_NOTHING])

    async def _chosen_part(self, part: Sequence[Event], context: Sequence[Event] = ()) -> Body:
        summary = await self.quick.segment(part, context)
        points = _by_turns([bullet.text for bullet in summary.bullets], self.facets.points(part))
        return Body(f"{summary.title.rstrip('.')}.", points, self.facets.find(part))

    async def _told(
        self, account: Account, before: Record | None, events: Sequence[Event], author: RecordAuthor
    ) -> tuple[Body, str]:
        """Part by part: each is told with the record as it stands by then, so that the model knows what it adds to."""
        node_id = f"session:{account.session_id}"
        bodies: list[Body] = []
        wrote = ""
        for part in self.parts(events):
            if depth_of(sum(self.tokens.count(event.text) for event in part)) is Depth.NONE:
                bodies.append(await self._chosen_part(part))
                continue
            told, wrote = await author.condense(part, prior=_so_far(before, bodies), node_id=node_id)
            points = _by_turns(told.key_points, self.facets.points(part))
            bodies.append(Body(told.summary, points, combined(told.context, self.facets.find(part))))
        own = fold(bodies or [_NOTHING])
        if wrote and len(bodies) > 1:
            own = replace(own, summary=await author.narrate([body.summary for body in bodies], node_id=node_id))
        return own, wrote or self.quick.name

    def parts(self, events: Sequence[Event]) -> list[list[Event]]:
        """The events in order, without noise, in parts that a summarizer can take."""
        parts: list[list[Event]] = []
        size = PART_TOKENS + 1
        for event in events:
            quiet = self._quiet(event)
            if quiet is None:
                continue
            # What was counted whole when it was stored need not be counted again.
            whole = quiet is event and event.role is not Role.TOOL
            cost = event.tokens if whole else self.tokens.count(quiet.text)
            if size + cost > PART_TOKENS:
                parts.append([])
                size = 0
            parts[-1].append(quiet)
            size += cost
        return parts

    def _quiet(self, event: Event) -> Event | None:
        """The event as a summarizer should see it: no empty ones, tools cut short, nothing larger than a part."""
        if not event.says_something:
            return None
        text: str = event.text
        if event.role is Role.TOOL:
            text = text[: FAILED_CHARS if event.metadata.get("failed") else TOOL_CHARS]
        elif event.event_type is EventType.COMPACTION:
            text = text[:TOOL_CHARS]
        if len(text) > PART_TOKENS and self.tokens.count(text) > PART_TOKENS:
            head = self.tokens.cut_to(text, PART_TOKENS * 3 // 4)
            # The end of a long message is often what it comes to.
            text = self.tokens.cut_to(f"{head}\n…\n{text[-PART_TOKENS // 2 :]}", PART_TOKENS)
        return event if text == event.text else replace(event, text=Clean(text))


def _so_far(before: Record | None, bodies: Sequence[Body]) -> str:
    """The record as it stands when the next part is read."""
    held = before.body if before else None
    if bodies:
        held = follow(held, fold(bodies))
    return body_text(held) if held else ""


def _by_turns(told: Sequence[str], points: Sequence[str]) -> tuple[str, ...]:
    """What a summary says and what it would lose, in turn: only the first of a long session's points have room."""
    return tuple(text for pair in zip_longest(told, points) for text in pair if text)


def _told_before(account: Account, last: Record) -> Event:
    """The record before, in the form in which a summarizer takes what came before."""
    return Event(
        key=last.key,
        client=account.client,
        session_id=account.session_id,
        project=account.project,
        timestamp_ms=last.timestamp_ms,
        event_type=EventType.COMPACTION,
        role=Role.SYSTEM,
        text=Clean(body_text(last.body)),  # made of events, which are clean
        tokens=last.tokens,
    )
