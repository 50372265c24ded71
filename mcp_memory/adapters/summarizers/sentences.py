"""Cutting a message into sentences that know their place in it: the first step of the extractive summarizer.

Code blocks are passed over. Offsets are characters of the original text, so an excerpt is verbatim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from mcp_memory.domain.text import ELLIPSIS, one_line

Form = Literal["prose", "item", "heading", "row"]


class Sentence(NamedTuple):
    """Characters `start` to `end` of a text; `block` tells which paragraph or list item it is of."""

    start: int
    end: int
    form: Form
    block: int


_LINE = re.compile(r"[^\n]+")
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})")
_ITEM = re.compile(r"\s*(?:[-*+•◦▪]|\d{1,2}[.)])\s+(?:\[[ xX]\]\s+)?")
_HEADING = re.compile(r"\s*#{1,6}\s+")
_RULE = re.compile(r"\s*(?:[-=_*─━]\s*){3,}$")
_ROW_RULE = re.compile(r"[\s|:+-]+$")
_CLOSERS = "\"'”’»)\\]*_`"
_END = re.compile(rf"[.!?…]+[{_CLOSERS}]*(?=\s|$)|[。！？｡]+[」』”）]*|\n")
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|eg|ie|etc|vs|cf|al|approx|incl|resp|mr|mrs|ms|dr|st|jr|no|fig)|^\W*\d{1,2})$", re.I
)
# Many people write without capitals; these words hardly ever follow an abbreviation.
_OPENER = re.compile(
    r"\s+(?:what|why|how|where|when|who|can|could|please|pls|also|then|it|this|that|these|i|i'm|i'd|we|you|they|is|are|"
    r"does|do|did|don't|let's|there|maybe|should|but|so|now)\s"
)
_SHORT_LINE = 60
_STOP = re.compile(
    r"[.!?;](?=\s)|,(?=\s)|\s[-–—]+(?=\s)|\s(?=(?:because|since|so|which|but|while|when|if|unless|until|then)\s)", re.I
)


def sentences(text: str, start: int = 0, end: int | None = None) -> list[Sentence]:
    """The sentences of `text[start:end]` in order, each within one paragraph, list item, heading or table row."""
    found: list[Sentence] = []
    for number, (first, last, form) in enumerate(_blocks(text, start, len(text) if end is None else end)):
        if form in ("heading", "row"):
            found.append(Sentence(first, last, form, number))
        else:
            found.extend(Sentence(left, right, form, number) for left, right in _split(text, first, last))
    return found


def clipped(text: str, limit: int) -> str:
    """The text on one line of at most `limit` characters, cut where a sentence ends or else a clause."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    ends = [stop for stop in _STOP.finditer(line, limit * 3 // 5, limit) if _whole(line[: stop.start()])]
    full = [stop.start() for stop in ends if stop[0][0] in ".!?"]
    if full:
        return line[: full[-1]]
    return line[: ends[-1].start()] + ELLIPSIS if ends else one_line(line, limit)


def _whole(part: str) -> bool:
    return part.count("`") % 2 == 0 and part.count("(") == part.count(")") and part.count('"') % 2 == 0


def _blocks(text: str, start: int, end: int) -> Iterator[tuple[int, int, Form]]:
    """Paragraphs, items, headings and table rows, trimmed of blanks and leading marks."""
    pending: list[tuple[int, int, Form]] = []
    fenced, previous_end = False, start
    for line in _LINE.finditer(text, start, end):
        body = line[0]
        if line.start() > previous_end + 1 or body.isspace():
            yield from _taken(pending)
        previous_end = line.end()
        if _FENCE.match(body):
            yield from _taken(pending)
            fenced = not fenced
        elif not fenced and not body.isspace():
            yield from _line(pending, body, line.start())
    yield from _taken(pending)


def _line(pending: list[tuple[int, int, Form]], body: str, at: int) -> Iterator[tuple[int, int, Form]]:
    """Add a line to the pending block, or give the pending one out and begin another."""
    first, last = at + len(body) - len(body.lstrip()), at + len(body.rstrip())
    lead = body.lstrip()[:1]
    if lead == "|":
        if _ROW_RULE.match(body):
            pending.clear()  # what stood above the rule was the table's header
        else:
            yield from _taken(pending)
            pending.append((first, last, "row"))
    elif lead in "-=_*─━" and _RULE.match(body):
        yield from _taken(pending)
    elif lead == "#" and (match := _HEADING.match(body)):
        yield from _taken(pending)
        yield at + match.end(), last, "heading"
    elif match := _ITEM.match(body):
        yield from _taken(pending)
        pending.append((at + match.end(), last, "item"))
    elif pending and pending[-1][2] != "row":
        begun, _, form = pending.pop()
        pending.append((begun, last, form))
    elif first - at < 4:  # deeper is code by indentation
        yield from _taken(pending)
        pending.append((first, last, "prose"))


def _taken(pending: list[tuple[int, int, Form]]) -> Iterator[tuple[int, int, Form]]:
    if pending:
        block = pending.pop()
        if block[0] < block[1]:
            yield block


def _split(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    begun = start
    for stop in _END.finditer(text, start, end):
        if _ends_sentence(text, begun, stop, end):
            if stop.end() > begun:
                yield from _trimmed(text, begun, stop.end())
            begun = stop.end()
    yield from _trimmed(text, begun, end)


def _ends_sentence(text: str, begun: int, stop: re.Match[str], end: int) -> bool:
    mark = stop[0][0]
    after = text[stop.end() : stop.end() + 16].lstrip()[:1]
    if mark == "\n":
        # A hard-wrapped line goes on; a short one followed by a capital was meant to end.
        last_line = text.rfind("\n", begun, stop.start()) + 1
        short = stop.start() - max(last_line, begun) < _SHORT_LINE
        return text[stop.start() - 1] in ":;" or (short and not after.islower())
    if text.count("`", begun, stop.start()) % 2 and "`" in text[stop.start() : end]:
        return False
    if mark == "." and stop.end() < end:
        goes_on = after.islower() and not _OPENER.match(text, stop.end())
        return not (goes_on or _ABBREVIATED.search(text[max(begun, stop.start() - 8) : stop.start()]))
    return True


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end
