"""The part of a text that matters: where the words that were asked for stand closest together."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_memory.navigate.question import Question

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


def passage_of(question: Question, text: str, window: int = 240) -> Passage:
    """Put the focus where the most different words of a question stand within a window."""
    hits = sorted((place, unit) for unit, places in enumerate(question.places(text[:_LONGEST])) for place in places)
    best, focus, first = 0, 0, 0
    for last in range(len(hits)):
        while hits[last][0] - hits[first][0] > window:
            first += 1
        distinct = len({unit for _, unit in hits[first : last + 1]})
        if distinct > best:
            best, focus = distinct, hits[first][0]
    return Passage(text, focus)
