"""Cutting long texts: into overlapping chunks at natural boundaries, or down to their head and tail.

Where a chunk ends is decided by the text around that place and not by what came long before, so that after a change
somewhere the chunks further on are the same as before, and their summaries can be kept.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

CHUNK_TOKENS = 3_000
OVERLAP_TOKENS = 200

Count = Callable[[str], int]
T = TypeVar("T")

_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE = re.compile(r"(?<=[.!?…。！？])[\"')\]]*\s+|(?<=[。！？])|\n+")
#: The part of a chunk, from its end, in which its end is sought.
_SLACK = 0.15
#: However tokens are counted, no text has more of them than bytes; and seldom fewer than one for so many characters.
_CHARS_PER_TOKEN = 4
GAP = "\n[… {removed} characters left out …]\n"


def chunk_text(text: str, count: Count, size: int = CHUNK_TOKENS, overlap: int = OVERLAP_TOKENS) -> list[str]:
    """Split a text into chunks of at most `size` tokens; each begins with the end of the one before.

    Boundaries are paragraphs; of a paragraph that is too long, sentences; of a sentence that is too long, characters.
    """
    if not text.strip():
        return []
    if count(text) <= size:
        return [text]
    room = max(size - overlap, 1)
    cores = ["".join(pieces) for pieces in _packed([*_pieces(text, count, room)], room)]
    return [(_tail(cores[at - 1], count, overlap) if at else "") + core for at, core in enumerate(cores)]


def middle_truncate(text: str, budget_chars: int, head_frac: float = 0.3, tail_frac: float = 0.3) -> tuple[str, int]:
    """Keep head and tail in the proportion of the fractions, within the budget; tells how many characters are gone."""
    if len(text) <= budget_chars:
        return text, 0
    gap = GAP.format(removed=len(text))
    room = max(budget_chars - len(gap), 0)
    share = head_frac / (head_frac + tail_frac) if head_frac + tail_frac > 0 else 0.5
    head = _to_word(text[: round(room * share)])
    tail = _from_word(text[len(text) - (room - round(room * share)) :] if room else "")
    removed = len(text) - len(head) - len(tail)
    return (head + GAP.format(removed=removed) + tail)[: max(budget_chars, 0)], removed


def truncate_to_tokens(text: str, count: Count, limit: int) -> str:
    """The text without its middle, if it has more tokens than the limit."""
    tokens = count(text)
    chars = len(text)
    while tokens > limit and chars > 1:
        chars = max(min(chars * limit // tokens, chars * 9 // 10), 1)
        cut, _ = middle_truncate(text, chars)
        tokens = count(cut)
    return text if chars == len(text) else cut


def groups_of(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Neighbours in groups of at most `size`, as even as they come."""
    groups = -(-len(items) // size)
    bounds = [round(len(items) * at / groups) for at in range(groups + 1)] if groups else []
    return [items[low:high] for low, high in zip(bounds, bounds[1:], strict=False)]


def _pieces(text: str, count: Count, limit: int) -> Iterator[tuple[str, int]]:
    """The text in pieces of at most `limit` tokens that together are the text."""
    for paragraph in _split(text, _PARAGRAPH):
        tokens = count(paragraph)
        if tokens <= limit:
            yield paragraph, tokens
            continue
        for sentence in _split(paragraph, _SENTENCE):
            tokens = count(sentence)
            if tokens <= limit:
                yield sentence, tokens
            else:
                yield from _by_characters(sentence, count, limit)


def _split(text: str, boundary: re.Pattern[str]) -> Iterator[str]:
    last = 0
    for match in boundary.finditer(text):
        if match.end() > last:
            yield text[last : match.end()]
            last = match.end()
    if last < len(text):
        yield text[last:]


def _by_characters(text: str, count: Count, limit: int) -> Iterator[tuple[str, int]]:
    start = 0
    while start < len(text):
        length = min(limit * _CHARS_PER_TOKEN, len(text) - start)
        while (tokens := count(text[start : start + length])) > limit and length > 1:
            length = max(min(length * limit // tokens, length * 9 // 10), 1)
        yield text[start : start + length], tokens
        start += length


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


def _tail(text: str, count: Count, tokens: int) -> str:
    """The end of a text, from the beginning of a word on."""
    if tokens <= 0:
        return ""
    length = min(tokens * _CHARS_PER_TOKEN, len(text))
    while (found := count(text[len(text) - length :])) > tokens and length > 1:
        length = max(min(length * tokens // found, length * 9 // 10), 1)
    return _from_word(text[len(text) - length :]) if length < len(text) else text


def _to_word(text: str) -> str:
    space = max(text.rfind(" "), text.rfind("\n"))
    return text[: space + 1] if space > len(text) * 2 // 3 else text


def _from_word(text: str) -> str:
    match = re.search(r"\s", text)
    return text[match.end() :] if match and match.start() < len(text) // 3 else text
