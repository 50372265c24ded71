"""Segments, periods and records of sessions written by a model: every bullet leads to the words or bullets it is from.

What a model quotes is looked up: a bullet cites the exact characters of one event, or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from mcp_memory.domain.budget import in_parts
from mcp_memory.domain.events import Event, EventType, Role, given_title
from mcp_memory.domain.nodes import (
    Bullet,
    Depth,
    DraftBullet,
    Evidence,
    Kind,
    Metrics,
    Node,
    RollupSummary,
    SegmentSummary,
    depth_of,
    measure,
)
from mcp_memory.domain.records import MAX_ITEM, MAX_NAME, MAX_SUMMARY, ActionItem, Body, Facets, fold
from mcp_memory.domain.segments import parted
from mcp_memory.domain.sentences import sentences
from mcp_memory.domain.text import one_line, similar, terms
from mcp_memory.domain.toc import BULLETS, Level
from mcp_memory.errors import ContextTooLong
from mcp_memory.models import forms
from mcp_memory.models.caller import Caller
from mcp_memory.models.forms import (
    MAX_BULLET,
    NOTHING,
    Claims,
    RecordAnswer,
    clean_line,
    clean_prose,
    keywords_of,
    title_of,
)
from mcp_memory.models.port import Readiness, Summarizer
from mcp_memory.models.tokens import (
    OVERLAP_TOKENS,
    Write,
    chunk_text,
    count,
    deepening,
    in_layers,
    in_sections,
    middle_truncate,
    truncate_to_tokens,
)

SEGMENT_KEYWORDS, PERIOD_KEYWORDS = 10, 7
_SECTION_BULLETS = (2, 8)
_CONTEXT_TOKENS = 500
_MAX_EVIDENCE = 4
_MAX_GRIPS, _MAX_CHILDREN = 6, 12
#: A bullet that names no source belongs to the point it is most alike, if it is that much alike.
_ALIKE = 0.35
MAX_EXCERPT = 400
#: A quote of fewer characters may stand anywhere.
_LEAST_QUOTE = 6
#: A sentence shows a bullet if it shares at least so many of the bullet's terms, and this part of them.
_SHARED, _COVERED = 3, 0.5
_TOOL_CHARS = 2_000
_LEAD = re.compile(r"^\s*(?:\[\d+\]\s*)?(?:(?:user|assistant|tool|system)\s*:\s*)?", re.I)
_AROUND = " \t\n\"'`“”‘’«»…."
#: How much of one answer a record takes, whatever it holds.
_POINTS, _DECISIONS, _ACTIONS, _OPEN, _NAMES = 10, 8, 6, 6, 15

M = TypeVar("M")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Point(Generic[M]):
    """A statement on its way up, with the marks of where it came from; `heading` names its part of the whole."""

    text: str
    marks: tuple[M, ...]
    kind: Kind = Kind.STATED
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Draft(Generic[M]):
    """A summary before it is a segment's or a period's."""

    title: str
    points: tuple[Point[M], ...]
    keywords: tuple[str, ...]
    written_by: str


@dataclass(frozen=True, slots=True)
class _Task:
    """What a summary is for: whose it is, what an earlier version said, and what is known without a model."""

    level: Level
    node_id: str
    prior: str
    claims: Claims = NOTHING

    @property
    def keywords(self) -> int:
        return SEGMENT_KEYWORDS if self.level is Level.SEGMENT else PERIOD_KEYWORDS


class ModelSummarizer:
    """Implements the `Author` port, and with it `Summarizer`. What is too short for a model stays extractive."""

    def __init__(self, caller: Caller, short: Summarizer) -> None:
        self._caller, self._short = caller, short

    @property
    def name(self) -> str:
        return self._caller.name

    @property
    def revision(self) -> int:
        return self._short.revision

    async def readiness(self) -> Readiness:
        return await self._caller.readiness()

    async def close(self) -> None:
        await self._caller.close()

    async def segment(
        self, events: Sequence[Event], context: Sequence[Event], *, prior: str = "", node_id: str = ""
    ) -> SegmentSummary:
        spare = await self._short.segment(events, context)
        # No bullet cites commentary, so that the model need not read it.
        events = [event for event in events if not event.is_commentary] or events
        text = transcript(events)
        tokens = count(text)
        if depth_of(tokens) is Depth.NONE:
            metrics = self._measured(tokens, Depth.NONE, spare.title, spare.bullets, spare.keywords)
            return replace(spare, written_by=self._short.name, metrics=metrics)
        task = _Task(Level.SEGMENT, node_id, prior, claims_in(events, context))
        # What stands is found in the chunk itself; what was refuted may have been so in another.
        part = replace(task, prior="", claims=replace(task.claims, shown=False))
        before = truncate_to_tokens(transcript(parted(events, context)[0]), _CONTEXT_TOKENS)

        async def leaf(chunk: str) -> Draft[Evidence]:
            return await self._section(chunk, events, "", part, "segment chunk", _SECTION_BULLETS)

        async def work(depth: Depth, size: int) -> tuple[Depth, Draft[Evidence]]:
            if depth in (Depth.BRIEF, Depth.STANDARD):
                return depth, await self._section(text, events, before, task, "segment", BULLETS[Level.SEGMENT])
            chunks = chunk_text(text, size, min(OVERLAP_TOKENS, size // 5))
            return depth, await self._layered(chunks, leaf, task, depth)

        depth, draft = await deepening(tokens, work)
        title, keywords = _named(draft, task, spare.keywords)
        # A title that was given to the session comes first, as it does where no model is asked.
        title = spare.title if given_title(events) else title or spare.title
        bullets = tuple(DraftBullet(point.text, point.marks[:_MAX_EVIDENCE], point.kind) for point in draft.points)
        metrics = self._measured(tokens, depth, title, bullets, keywords)
        return SegmentSummary(title, bullets, keywords, draft.written_by, metrics)

    async def rollup(
        self, level: Level, children: Sequence[Node], *, prior: str = "", node_id: str = ""
    ) -> RollupSummary:
        from mcp_memory.summaries.rollups import refuted_in

        # What a later child sets right is not told as one of the points, but as refuted.
        refuted = refuted_in(children)
        points = [
            Point(bullet.shown, ((at, index),), bullet.kind, child.title)
            for at, child in enumerate(children)
            for index, bullet in enumerate(child.bullets)
            if (at, index) not in refuted
        ]
        standing = tuple((point.kind, point.text) for point in points if point.kind is not Kind.REFUSED)
        places = [*refuted, *(point.marks[0] for point in points if point.kind is Kind.REFUSED)]
        claims = Claims(standing, tuple(children[at].bullets[index].text for at, index in places), shown=False)
        tokens = count(_listing(points))
        spare = await self._short.rollup(level, children)
        if depth_of(tokens) is Depth.NONE:
            # So little needs no summary: it is told as it is, if it fits.
            fits = len(points) <= BULLETS[level][1]
            places = [point.marks[0] for point in points]
            told = [replace(children[at].bullets[index], child_ids=(children[at].node_id,)) for at, index in places]
            bullets = tuple(told) if fits else spare.bullets
            metrics = self._measured(tokens, Depth.NONE, spare.topic, bullets, spare.keywords)
            return RollupSummary(spare.topic, bullets, spare.keywords, self._short.name, metrics)
        task = _Task(level, node_id, prior, claims)

        async def leaf(pack: Sequence[Point[tuple[int, int]]]) -> Draft[tuple[int, int]]:
            return await self._merged(pack, replace(task, prior=""), f"{level.label} chunk", _SECTION_BULLETS)

        async def work(depth: Depth, size: int) -> tuple[Depth, Draft[tuple[int, int]]]:
            if depth in (Depth.BRIEF, Depth.STANDARD):
                return depth, await self._merged(points, task, level.label, BULLETS[level])
            return depth, await self._layered(_packs(points, size), leaf, task, depth)

        depth, draft = await deepening(tokens, work)
        topic, keywords = _named(draft, task, spare.keywords)
        bullets = tuple(_parent_bullet(point, children) for point in draft.points)
        metrics = self._measured(tokens, depth, topic or spare.topic, bullets, keywords)
        return RollupSummary(topic or spare.topic, bullets, keywords, draft.written_by, metrics)

    def _measured(
        self, tokens: int, depth: Depth, title: str, bullets: Sequence[Bullet | DraftBullet], keywords: Sequence[str]
    ) -> Metrics:
        """How far so many tokens were compressed to what a summary says."""
        text = "\n".join([title, *(bullet.shown for bullet in bullets), *keywords])
        return measure(tokens, count(text), depth)

    async def _section(
        self, text: str, events: Sequence[Event], before: str, task: _Task, purpose: str, bullets: tuple[int, int]
    ) -> Draft[Evidence]:
        question = forms.section(purpose, text, before, task.prior, task.claims, bullets, task.keywords)
        answer, written_by = await self._caller.ask(question, task.node_id)
        told = [(clean_line(item.text, MAX_BULLET), item) for item in answer.bullets[: bullets[1]]]
        points = tuple(Point(line, cite(item.quote, line, events), item.kind) for line, item in told if line)
        return Draft(answer.title, points, tuple(answer.keywords), written_by)

    async def _layered(
        self, parts: Sequence[P], leaf: Callable[[P], Awaitable[Draft[M]]], task: _Task, depth: Depth
    ) -> Draft[M]:
        """The layers of a long segment or of a period with many children: the points of its parts, then of them all."""

        async def merge(drafts: Sequence[Draft[M]], final: bool) -> Draft[M]:
            points = [replace(point, heading=draft.title) for draft in drafts for point in draft.points]
            if final:
                return await self._merged(points, task, f"{task.level.label} merge", BULLETS[task.level])
            return await self._merged(points, replace(task, prior=""), f"{task.level.label} group", _SECTION_BULLETS)

        return (await in_layers(parts, leaf, merge, depth))[-1]

    async def _merged(
        self, points: Sequence[Point[M]], task: _Task, purpose: str, bullets: tuple[int, int]
    ) -> Draft[M]:
        """Points in fewer, each with the marks of those it names, or of the one it is most alike."""
        period = f"a {task.level.label} of a developer's work with a coding agent"
        what = "one conversation" if task.level is Level.SEGMENT else period
        question = forms.merge(purpose, _listing(points), what, task.prior, task.claims, bullets, task.keywords)
        answer, written_by = await self._caller.ask(question, task.node_id)
        found = []
        for item in answer.bullets[: bullets[1]]:
            line = clean_line(item.text, MAX_BULLET)
            sources = [points[number - 1] for number in dict.fromkeys(item.sources) if 0 < number <= len(points)]
            if not sources:
                own = terms(line)
                best = max(points, key=lambda point: similar(own, terms(point.text)), default=None)
                sources = [best] if best and similar(own, terms(best.text)) >= _ALIKE else []
            marks = dict.fromkeys(mark for point in sources for mark in point.marks)
            if line:
                found.append(Point(line, tuple(marks), item.kind))
        return Draft(answer.title, tuple(found), tuple(answer.keywords), written_by)


def claims_in(events: Sequence[Event], context: Sequence[Event] = ()) -> Claims:
    """What rules find in events: what stands, and what was refuted, refused, taken back or not chosen."""
    from mcp_memory.summaries.statements import Mood, collect, next_turns
    from mcp_memory.summaries.truth import settle

    before, after = parted(events, context)
    turns = collect(events, before)
    found = settle(turns, next_turns(after))
    standing = tuple((one.kind, one.text) for one in found.standing if one.kind is not Kind.HEADING)
    # An option that was chosen stands by the words of the user and by those that put it forward.
    chosen = [place for one in found.standing for place in one.evidence]
    options = [one for turn in turns for one in turn.statements if one.mood is Mood.OPTION and not one.by_user]
    left = [
        one
        for one in options
        if not any(at.event_key == one.event.key and at.start < one.end and one.start < at.end for at in chosen)
    ]
    return Claims(standing, tuple(dict.fromkeys(one.text for one in (*found.refuted, *left))))


def _named(draft: Draft[M], task: _Task, spare: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A draft's title, which is empty if it says nothing, and its keywords."""
    keywords = keywords_of(draft.keywords, task.keywords, spare)
    return title_of(draft.title, (*keywords, *spare), draft.points[0].text if draft.points else ""), keywords


def _listing(points: Sequence[Point[M]]) -> str:
    """Points with their numbers, under the names of the parts they belong to."""
    lines, heading = [], ""
    for number, point in enumerate(points, 1):
        if point.heading != heading:
            heading = point.heading
            lines.append(f"\n{heading}")
        lines.append(f"[{number}] {point.text}")
    return "\n".join(lines).strip("\n")


def _packs(points: Sequence[Point[M]], size: int) -> list[list[Point[M]]]:
    """Neighbouring points in packs of at most so many tokens."""
    return in_parts(((point, count(point.text) + 8) for point in points), size) or [[]]


def _parent_bullet(point: Point[tuple[int, int]], children: Sequence[Node]) -> Bullet:
    grips = dict.fromkeys(grip for at, index in point.marks for grip in children[at].bullets[index].grip_ids)
    # Without a source there is nothing to hold on to, but the bullet still came from one of the children.
    sources = [children[at] for at, _ in point.marks] or children
    ids = dict.fromkeys(child.node_id for child in sources)
    return Bullet(point.text, tuple(grips)[:_MAX_GRIPS], tuple(ids)[:_MAX_CHILDREN], point.kind)


def transcript(events: Sequence[Event]) -> str:
    """What was said, numbered, as a model reads it. Long results of tools lose their middle."""
    lines = []
    for number, event in enumerate((event for event in events if event.says_something), 1):
        text: str = event.text
        if event.event_type is EventType.TOOL_RESULT or event.role is Role.TOOL:
            text = middle_truncate(text, _TOOL_CHARS)
        lines.append(f"[{number}] {event.role}: {text}")
    return "\n\n".join(lines)


def cite(quote: str, statement: str, events: Sequence[Event]) -> tuple[Evidence, ...]:
    """Where the quote stands; if it stands nowhere, the sentence that shares most of the statement's terms."""
    words = _LEAD.sub("", quote).strip(_AROUND)
    if len(words) >= _LEAST_QUOTE:
        # Models break lines elsewhere and change capitals; the words must be the same, in the same order.
        loose = re.compile(r"\s+".join(map(re.escape, words.split())), re.I)
        for expression in (re.compile(re.escape(words)), loose):
            for event in events:
                if found := expression.search(event.text):
                    return (_evidence(event, *found.span()),)
    wanted = terms(statement)
    best = 0.0
    place: tuple[Evidence, ...] = ()
    for event in events:
        for start, end, _, _ in sentences(event.text) if event.says_something else ():
            shared = len(wanted & terms(event.text[start:end]))
            score = shared / len(wanted) if wanted else 0.0
            if shared >= _SHARED and score >= _COVERED and score > best:
                best, place = score, (_evidence(event, start, end),)
    return place


def _evidence(event: Event, start: int, end: int) -> Evidence:
    """The place, without the space around it, and not longer than an excerpt should be."""
    text = event.text
    while start < end and text[start].isspace():
        start += 1
    if end - start > MAX_EXCERPT:
        space = text.rfind(" ", start, start + MAX_EXCERPT)
        end = space if space > start + MAX_EXCERPT // 2 else start + MAX_EXCERPT
    return Evidence(event.key, start, start + len(text[start:end].rstrip()))


def prose_writer(caller: Caller) -> Write:
    """Writes prose by a model."""

    async def write(content: str, length: str, content_type: str, prior: str) -> tuple[str, str]:
        question = forms.prose(f"text {length}", content, length, content_type=content_type, prior=prior)
        answer, written_by = await caller.ask(question)
        return clean_prose(answer.summary), written_by

    return write


class ModelRecords:
    """Implements the `RecordAuthor` port: an account, and what must not be lost of it, each in a list of its own."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def condense(self, events: Sequence[Event], *, prior: str, node_id: str) -> tuple[Body, str]:
        try:
            question = forms.record("session", transcript(events), prior, claims_in(events))
            answer, written_by = await self._caller.ask(question, node_id)
        except ContextTooLong:
            if len(events) < 2:
                raise
            middle = len(events) // 2
            first, _ = await self.condense(events[:middle], prior=prior, node_id=node_id)
            second, wrote = await self.condense(events[middle:], prior=prior, node_id=node_id)
            return fold([first, second]), wrote
        return body_of(answer), written_by

    async def narrate(self, summaries: Sequence[str], *, node_id: str) -> str:
        sections = in_sections(summaries)
        question = forms.prose("session merge", sections, "record", content_type="conversation", prior="")
        answer, _ = await self._caller.ask(question, node_id)
        return _account(answer.summary)


def body_of(answer: RecordAnswer) -> Body:
    """The answer's texts as plain lines within their limits."""
    items = [
        ActionItem(clean_line(item.task, MAX_ITEM), clean_line(item.owner, MAX_NAME), clean_line(item.due, MAX_NAME))
        for item in answer.action_items[:_ACTIONS]
    ]
    return Body(
        _account(answer.summary),
        _lines(answer.key_points, _POINTS),
        Facets(
            decisions=_lines(answer.decisions, _DECISIONS),
            action_items=tuple(item for item in items if item.task),
            unresolved=_lines(answer.unresolved, _OPEN),
            domain_entities=_lines(answer.entities, _NAMES, MAX_NAME),
        ),
    )


def _account(text: str) -> str:
    return one_line(clean_prose(text), MAX_SUMMARY // 2)


def _lines(given: Iterable[str], most: int, length: int = MAX_ITEM) -> tuple[str, ...]:
    lines = [clean_line(text, length) for text in given]
    return tuple(dict.fromkeys(line for line in lines if line))[:most]
