"""The adaptive summarizer: how deep it goes follows from how long the text is.

Short texts are left alone, longer ones take one question, long ones are cut into chunks whose summaries are summarized
again, in groups where there are many. The same layers serve prose, segments and periods.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import anyio

from mcp_memory.capture.redaction import Clean
from mcp_memory.domain.events import Event, EventType, Role, event_key
from mcp_memory.domain.nodes import Depth, depth_of, measure
from mcp_memory.domain.text import one_line
from mcp_memory.errors import ContextTooLong, SummarizerError
from mcp_memory.models.tokens import CHUNK_TOKENS, OVERLAP_TOKENS, Count, chunk_text, groups_of, middle_truncate
from mcp_memory.summaries import ExtractiveSummarizer

GROUP = 5
#: Smaller chunks than this are not worth asking about, whatever a model can take.
_LEAST_CHUNK = 300

P = TypeVar("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChunkSummary:
    """The summary of one chunk; `parent_group` is the group it was summarized again with."""

    chunk_index: int
    content: str
    token_count: int
    source_tokens: int
    parent_group: int | None


@dataclass(frozen=True, slots=True)
class HierarchicalSummary:
    """All layers of a long text's summary."""

    l1_summaries: tuple[ChunkSummary, ...]
    l2_summaries: tuple[str, ...]
    l3_summary: str
    chunk_size: int = CHUNK_TOKENS
    chunk_overlap: int = OVERLAP_TOKENS


@dataclass(frozen=True, slots=True)
class SummaryResult:
    """A summary with what it was made of; `compression_ratio` is output by input, from 0 to 1."""

    level: Depth
    summary: str | None
    hierarchical: HierarchicalSummary | None
    input_tokens: int
    output_tokens: int
    compression_ratio: float


class TextWriter(Protocol):
    """Writes one summary in prose. `length` is brief, standard, section (of a longer text) or merge (of sections)."""

    async def write(self, content: str, length: str, content_type: str, prior: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Layers(Generic[T]):
    """Summaries of the parts, of groups of them where there are many, and of the whole."""

    parts: tuple[T, ...]
    groups: tuple[T, ...]
    whole: T


class AdaptiveSummarizer:
    """Summarizes any text. What has not changed since the last time is not paid for again, chunk by chunk."""

    def __init__(self, writer: TextWriter, count: Count) -> None:
        self._writer, self._count = writer, count

    async def summarize(
        self, content: str, prior_summary: str | None = None, content_type: str = "general"
    ) -> SummaryResult:
        """The summary of a text, together with what an earlier summary says."""
        tokens = self._count(content) if content.strip() else 0
        if depth_of(tokens) is Depth.NONE:
            return SummaryResult(Depth.NONE, None, None, tokens, 0, 1.0)
        prior = prior_summary or ""

        async def work(depth: Depth, size: int) -> SummaryResult:
            if depth in (Depth.BRIEF, Depth.STANDARD):
                text = await self._writer.write(content, depth.value, content_type, prior)
                return self._result(depth, text, None, tokens)
            tree = await self._tree(content, depth, size, content_type, prior)
            return self._result(depth, tree.l3_summary, tree, tokens)

        return await deepening(tokens, work)

    async def _tree(self, content: str, depth: Depth, size: int, content_type: str, prior: str) -> HierarchicalSummary:
        overlap = min(OVERLAP_TOKENS, size // 5)
        chunks = chunk_text(content, self._count, size, overlap)

        async def leaf(chunk: str) -> str:
            return await self._writer.write(chunk, "section", content_type, "")

        async def merge(texts: Sequence[str], final: bool) -> str:
            sections = "\n\n".join(f"Section {number}:\n{text}" for number, text in enumerate(texts, 1))
            return await self._writer.write(sections, "merge", content_type, prior if final else "")

        layers = await in_layers(chunks, leaf, merge, grouped=depth is Depth.HIERARCHICAL)
        group_of = [at for at, group in enumerate(groups_of(chunks, GROUP)) for _ in group]
        parts = tuple(
            ChunkSummary(at, text, self._count(text), self._count(chunk), group_of[at] if layers.groups else None)
            for at, (text, chunk) in enumerate(zip(layers.parts, chunks, strict=True))
        )
        return HierarchicalSummary(parts, layers.groups, layers.whole, size, overlap)

    def _result(self, depth: Depth, text: str, tree: HierarchicalSummary | None, tokens: int) -> SummaryResult:
        found = measure(tokens, self._count(text), depth)
        return SummaryResult(depth, text, tree, tokens, found.output_tokens, found.compression_ratio)


async def in_layers(
    parts: Sequence[P],
    leaf: Callable[[P], Awaitable[T]],
    merge: Callable[[Sequence[T], bool], Awaitable[T]],
    *,
    grouped: bool,
) -> Layers[T]:
    """Summarize parts side by side, then, if `grouped`, groups of five side by side, then all of it."""
    first = await together([lambda part=part: leaf(part) for part in parts])  # type: ignore[misc]
    groups: list[T] = []
    layer = first
    while grouped and len(layer) > (1 if not groups else 2 * GROUP):
        layer = await together(
            [lambda group=group: merge(group, False) for group in groups_of(layer, GROUP)]  # type: ignore[misc]
        )
        groups = groups or layer
    return Layers(tuple(first), tuple(groups), await merge(layer, True))


async def together(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """The results of all calls, made side by side. If some fail the others end first: they are paid for and kept."""
    results: dict[int, T] = {}
    failures: list[SummarizerError] = []

    async def one(at: int, call: Callable[[], Awaitable[T]]) -> None:
        try:
            results[at] = await call()
        except SummarizerError as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        for at, call in enumerate(calls):
            tasks.start_soon(one, at, call)
    if failures:
        raise failures[0]
    return [results[at] for at in range(len(calls))]


async def deepening(tokens: int, work: Callable[[Depth, int], Awaitable[T]]) -> T:
    """Work at the depth that the length asks for; if a model finds that too long, at the next, in smaller chunks."""
    depth, size = depth_of(tokens), CHUNK_TOKENS
    while True:
        try:
            return await work(depth, size)
        except ContextTooLong:
            if depth in (Depth.BRIEF, Depth.STANDARD):
                depth, size = Depth.DETAILED, min(size, tokens) // 2
            else:
                depth, size = Depth.HIERARCHICAL, size // 2
            if size < _LEAST_CHUNK:
                raise


#: How much of an earlier summary is carried over.
_PRIOR_CHARS = 2_400
_SPEAKER = re.compile(r"^(?:\[[^\]]*\]\s*)?(user|human|me|assistant|agent|ai|tool|system)\s*:\s*", re.I)
_LABEL = re.compile(r"(?:\A|\n\n)Section \d+:\n")
_ROLES = {"assistant": Role.ASSISTANT, "agent": Role.ASSISTANT, "ai": Role.ASSISTANT, "tool": Role.TOOL}
_TYPES = {
    Role.USER: EventType.USER_MESSAGE,
    Role.ASSISTANT: EventType.ASSISTANT_MESSAGE,
    Role.TOOL: EventType.TOOL_RESULT,
}


class PlainWriter:
    """Implements the `TextWriter` interface by choosing sentences."""

    written_by = ExtractiveSummarizer.name

    async def write(self, content: str, length: str, content_type: str, prior: str) -> str:
        if length == "merge":
            # The numbers are for a model; here they would be taken for words of the text.
            content = _LABEL.sub("\n\n", content)
        summary = await ExtractiveSummarizer().segment(_events(content, content_type), [])
        told = [bullet.shown for bullet in summary.bullets]
        chosen = [text if text[-1:] in ".!?…。" else f"{text}." for text in told]
        text = one_line(chosen[0], 300) if length == "brief" and chosen else " ".join(chosen) or summary.title
        earlier, _ = middle_truncate(prior.strip(), _PRIOR_CHARS)
        return f"{earlier}\n\n{text}" if earlier else text


def _events(content: str, content_type: str) -> list[Event]:
    """The paragraphs as messages: of a conversation by who speaks, of any other text by its author."""
    events = []
    role = Role.ASSISTANT
    for number, paragraph in enumerate(re.split(r"\n[ \t]*\n", content)):
        body = paragraph
        if content_type == "conversation" and (speaker := _SPEAKER.match(paragraph)):
            role = _ROLES.get(speaker[1].lower(), Role.USER)
            body = paragraph[speaker.end() :]
        if body.strip():
            key = event_key("text", "", str(number))
            events.append(Event(key, "text", "", "", number * 1_000, _TYPES[role], role, Clean(body.strip()), 0))
    return events
