"""From what was ranked to the hits that are shown: the passage that matters, what it matched, where to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.events import Event
from mcp_memory.domain.matches import Candidate
from mcp_memory.domain.nodes import Node, event_grip_id
from mcp_memory.search.asked import Wanted
from mcp_memory.search.found import Hit
from mcp_memory.search.nearest import in_lines
from mcp_memory.search.order import Weighed
from mcp_memory.search.passage import Passage, passages_of
from mcp_memory.search.question import Places, Question
from mcp_memory.search.scope import Scope
from mcp_memory.store.port import Library

_SHOWN_SOURCES = 3
#: How much of a text is looked through for what it matched.
LONGEST = 40_000

#: The terms of a question that were found, and those that were not.
Told = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate at its place in the answer. What a node matched is known here; of an event it is told when shown.

    `rare` says how much each unit of the question tells, and `weighed` where they stand; only events have them.
    """

    candidate: Candidate
    score: float
    told: Told = ((), ())
    rare: tuple[float, ...] = ()
    weighed: Weighed | None = None

    @property
    def text(self) -> str:
        found = self.candidate.document
        return node_text(found) if isinstance(found, Node) else found.text

    @property
    def lines(self) -> str:
        """The text to show where no word is looked for: of a node only what its id does not tell, line by line."""
        found = self.candidate.document
        return in_lines(found) if isinstance(found, Node) else found.text

    @property
    def places(self) -> Places | None:
        """Where the units stand in its text, if all of it was looked through when it was weighed."""
        whole = self.weighed is not None and len(self.weighed.spot.text) == len(self.text)
        return self.weighed.places if self.weighed and whole else None

    @property
    def alike(self) -> frozenset[int]:
        """Which of these units only words of nearly the same meaning tell."""
        return self.weighed.alike if self.weighed and self.places is not None else frozenset()


def node_text(node: Node) -> str:
    return "\n".join([node.title, *(bullet.text for bullet in node.bullets), ", ".join(node.keywords)])


def told(question: Question, here: Sequence[bool]) -> Told:
    """The terms that are here, and those that are not."""
    terms = list(zip(question.terms, here, strict=True))
    return tuple(term.shown for term, found in terms if found), tuple(term.shown for term, found in terms if not found)


async def shown(library: Library, wanted: Wanted, ranked: Sequence[Ranked], question: Question) -> list[Hit]:
    """The wanted part of the list as hits; those of kind `grip` are named by the grip instead of the event."""
    hits = await hits_of(library, wanted.scope, ranked[wanted.offset : wanted.end], question)
    return [replace(hit, id=hit.grip_id, kind="grip") for hit in hits] if wanted.kind == "grip" else hits


async def hits_of(library: Library, scope: Scope, ranked: Sequence[Ranked], question: Question) -> list[Hit]:
    known = {number: places for number, item in enumerate(ranked) if (places := item.places) is not None}
    passages = passages_of(
        question, [(item.text if question.terms else item.lines, item.rare) for item in ranked], known
    )
    hits = []
    for item, passage in zip(ranked, passages, strict=True):
        found = item.candidate.document
        if isinstance(found, Node):
            hits.append(_node_hit(scope, item, found, passage, await _cited(library, found, question)))
        else:
            hits.append(_event_hit(scope, item, found, passage, question))
    return hits


def _event_hit(scope: Scope, item: Ranked, event: Event, passage: Passage, question: Question) -> Hit:
    # What only a word of nearly the same meaning tells does not stand there itself.
    matched, missing = told(question, question.told(event.text[:LONGEST], passage.units - item.alike))
    name, segment = event.event_id, item.candidate.segment_id
    return Hit(
        id=name,
        kind="event",
        title="",
        passage=passage,
        score=item.score,
        matched=matched,
        missing=missing,
        project=event.project,
        session_id=event.session_id,
        start_ms=event.timestamp_ms,
        role=str(event.role),
        grip_id=item.candidate.grip_id or event_grip_id(event.timestamp_ms, event.key),
        node_id=scope.id_of(segment, event.project) if segment else "",
        event_ids=(name,),
        source_ids=event.source_ids,
    )


def _node_hit(scope: Scope, item: Ranked, node: Node, passage: Passage, cited: dict[str, Event]) -> Hit:
    matched, missing = item.told
    name = scope.id_of(node.node_id, node.project)
    return Hit(
        id=name,
        kind=node.level.label,
        title=node.title,
        passage=passage,
        score=item.score,
        matched=matched,
        missing=missing,
        project=node.project,
        session_id=node.session_id,
        start_ms=node.start_ms,
        role="",
        grip_id=next(iter(cited), ""),
        node_id=name,
        event_ids=tuple(event.event_id for event in cited.values()),
        source_ids=tuple(event.source_id for event in cited.values() if event.source_id),
    )


async def _cited(library: Library, node: Node, question: Question) -> dict[str, Event]:
    """The events behind the bullets that speak of what was asked, by the grips that cite them."""
    held = question.held([bullet.text for bullet in node.bullets])
    bullets = sorted(zip(node.bullets, held, strict=True), key=lambda each: -sum(each[1]))
    grips = [grip for bullet, _ in bullets for grip in bullet.grip_ids[:1]]
    return await library.cited_by(grips[:_SHOWN_SOURCES])
