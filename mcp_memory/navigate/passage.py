"""The part of a text that matters: where the words that were asked for stand closest together."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from mcp_memory.domain.text import bigrams, has_unspaced_script, stem

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LONGEST = 40_000


@dataclass(frozen=True, slots=True)
class Passage:
    """A text and the place in it that is worth showing first."""

    text: str
    focus: int

    def window(self, size: int) -> str:
        """About `size` characters around the focus, on one line, cut at words."""
        text = self.text
        if len(text) <= size:
            return " ".join(text.split())
        start = max(0, min(self.focus - size // 4, len(text) - size))
        end = min(len(text), start + size)
        if start:
            space = text.find(" ", start, start + 30)
            start = space + 1 if space >= 0 else start
        if end < len(text):
            space = text.rfind(" ", end - 30, end)
            end = space if space > start else end
        inner = " ".join(text[start:end].split())
        return ("…" if start else "") + inner + ("…" if end < len(text) else "")


def find_words(text: str) -> frozenset[str]:
    """The stems of all words of a text, of identifiers' parts as well as whole, and pairs of unspaced characters."""
    text = text[:_LONGEST]
    found = {_fold(word) for word in _WORD.findall(text)}
    found |= {_fold(word) for word in _WORD.findall(_CAMEL.sub(" ", text))}
    if has_unspaced_script(text):
        found |= set(bigrams(text))
    return frozenset(found)


def passage_of(text: str, stems: frozenset[str], window: int = 240) -> Passage:
    """Put the focus where the most different words stand within a window."""
    places = [(match.start(), _fold(match[0])) for match in _WORD.finditer(text[:_LONGEST])]
    hits = [(start, word) for start, word in places if word in stems]
    if not hits:
        hits = [(start, part) for start, part in _parts(text) if part in stems]
    best, focus, first = 0, 0, 0
    for last in range(len(hits)):
        while hits[last][0] - hits[first][0] > window:
            first += 1
        distinct = len({word for _, word in hits[first : last + 1]})
        if distinct > best:
            best, focus = distinct, hits[first][0]
    return Passage(text, focus)


def _parts(text: str) -> list[tuple[int, str]]:
    """Parts of identifiers, and unspaced characters, where no whole word matched."""
    found = []
    for match in _WORD.finditer(text[:_LONGEST]):
        offset = match.start()
        for part in _CAMEL.split(match[0]):
            found.append((offset, _fold(part)))
            offset += len(part)
        if has_unspaced_script(match[0]):
            found += [(match.start() + index, pair) for index, pair in enumerate(bigrams(match[0]))]
    return found


@lru_cache(maxsize=50_000)
def _fold(word: str) -> str:
    if not word.isascii():
        decomposed = unicodedata.normalize("NFKD", word)
        word = "".join(char for char in decomposed if not unicodedata.combining(char))
    return stem(word.lower())
