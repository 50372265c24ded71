"""The part of a text that matters: where the telling words of a question stand closest together.

How much of it is shown is decided later, when the room is known; the best part of 100 characters may lie elsewhere
than the best part of 600.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from mcp_memory.search.question import Places, Question, lowered

#: How much of a text is looked at.
LONGEST = 12_000
_MARKS = 200
_USUAL, _FOCUS = 400, 240
#: Sizes of windows for which the best place is looked for; others make do with that of the next.
_SIZES = (80, 100, 125, 155, 195, 240, 300, 375, 470, 590, 740, 920)
#: A sentence or line ends here; what follows can be shown by itself.
_END = re.compile(r"[.!?](?=\s)|\n|[。！？]")
#: A window that also looks like an answer is worth this much more.
_CUE = 1.3
#: The same word again tells a little more, as where a list comes to the point.
_AGAIN = 0.05
#: How far back the start of a sentence is looked for, as a share of the window.
_BACK = 2


class TermMark(NamedTuple):
    """A place in a text where a word of the question stands, and how much that word tells."""

    place: int
    unit: int
    weight: float


@dataclass(frozen=True)
class Passage:
    """A text and what makes a part of it worth showing; `units` are all that were found in it, marked or not."""

    text: str
    focus: int
    marks: tuple[TermMark, ...] = ()
    cues: tuple[re.Pattern[str], ...] = ()
    units: frozenset[int] = frozenset()
    _known: dict[int, tuple[float, int]] = field(default_factory=dict, compare=False, repr=False)

    def window(self, size: int) -> str:
        """About `size` characters on one line, cut at words, where they hold most of what was asked."""
        text = self.text
        if len(text) <= size:
            return " ".join(text.split())
        start = self._start(size)
        end = min(len(text), start + size)
        start = max(0, min(start, len(text) - size))
        if start and not text[start - 1].isspace():
            space = text.find(" ", start, start + 30)
            start = space + 1 if space >= 0 else start
        if end < len(text):
            space = text.rfind(" ", end - 30, end)
            end = space if space > start else end
        inner = " ".join(text[start:end].split())
        return ("…" if start else "") + inner + ("…" if end < len(text) else "")

    @property
    def worth(self) -> float:
        """How much of what was asked stands together in the text."""
        return self._best(_USUAL)[0]

    @property
    def place(self) -> int:
        """Where the part that matters begins."""
        return self._start(_USUAL) if len(self.text) > _USUAL else 0

    def _start(self, size: int) -> int:
        return self._best(size)[1] if self.marks else max(0, self.focus - size // 4)

    def _best(self, size: int) -> tuple[float, int]:
        """What the best window of about this size is worth, and where it begins: with a sentence, if one is near.

        Answers try many sizes, so it is looked for in few of them and remembered.
        """
        size = next((each for each in _SIZES if each >= size), size)
        if size in self._known:
            return self._known[size]
        best, chosen, before = 0.0, self.focus, -1
        for first, place in enumerate(self._places):
            start = self._sentence(place, size // _BACK)
            if start == before:
                continue
            before, end = start, start + size
            told: dict[int, float] = {}
            for mark in self.marks[first : bisect_left(self._places, end)]:
                told[mark.unit] = told[mark.unit] + mark.weight * _AGAIN if mark.unit in told else mark.weight
            worth = sum(told.values())
            for cue in self.cues:
                worth *= _CUE if cue.search(self._low, start, end) else 1.0
            if worth > best:
                best, chosen = worth, start
        self._known[size] = best, chosen
        return best, chosen

    def _sentence(self, place: int, back: int) -> int:
        """The start of the sentence around a place, or a little before it if that is too far away."""
        found = bisect_right(self._ends, place)
        begin = self._ends[found - 1] if found else 0
        if place - begin > back:
            begin = place - back // 2
        while begin < place and self.text[begin].isspace():
            begin += 1
        return begin

    @cached_property
    def _places(self) -> list[int]:
        return [mark.place for mark in self.marks]

    @cached_property
    def _ends(self) -> list[int]:
        """Where sentences end, up to the last mark."""
        return [end.end() for end in _END.finditer(self.text, 0, self._places[-1] if self.marks else 0)]

    @cached_property
    def _low(self) -> str:
        return lowered(self.text)


def passage_of(question: Question, text: str, weights: Sequence[float] = ()) -> Passage:
    """A text with its focus where the most different words of a question stand together.

    `weights` says how much each unit of the question tells; without it, their own weights do.
    """
    return passages_of(question, [(text, weights)])[0]


def passages_of(
    question: Question, texts: Sequence[tuple[str, Sequence[float]]], known: Mapping[int, Places] = MappingProxyType({})
) -> list[Passage]:
    """The passages of several texts, each with its weights, which are looked through together.

    `known` holds, by their number here, the places in those texts that were looked through before.
    """
    others = [number for number in range(len(texts)) if number not in known]
    found = zip(others, question.places([texts[number][0][:LONGEST] for number in others]), strict=True)
    places = {**known, **dict(found)}
    units = len(question.units)
    partly = [number for number in others if len(texts[number][0]) > LONGEST and len(places[number]) < units]
    if partly:
        # What is missed in the beginning of an endless text may stand further on, as at the end of what a tool said.
        places |= zip(partly, question.places([texts[number][0] for number in partly]), strict=True)
    passages = []
    for number, (text, weights) in enumerate(texts):
        here, telling = places[number], weights or [unit.weight for unit in question.units]
        marks = sorted([TermMark(place, unit, telling[unit]) for unit, each in here.items() for place in each[:_MARKS]])
        passages.append(Passage(text, _focus(marks), tuple(marks[:_MARKS]), question.cues, frozenset(here)))
    return passages


def _focus(marks: Sequence[TermMark]) -> int:
    """Where the first window begins that holds the most different units."""
    best, focus, first = 0, 0, 0
    inside: Counter[int] = Counter()
    for place, unit, _ in marks:
        inside[unit] += 1
        while place - marks[first].place > _FOCUS:
            left = marks[first].unit
            inside[left] -= 1
            if not inside[left]:
                del inside[left]
            first += 1
        if len(inside) > best:
            best, focus = len(inside), marks[first].place
    return focus
