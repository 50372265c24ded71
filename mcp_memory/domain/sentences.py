"""Cutting a text into sentences that know their place in it.

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


_Block = tuple[int, int, Form]
_BULLETS = "-*+•◦▪✅❌☑"
_ITEM = re.compile(r"\s*(?:[-*+•◦▪✅❌☑]|\d{1,2}[.)])\s+(?:\[[ xX]\]\s+)?")
_HEADING = re.compile(r"\s*#{1,6}\s+")
_RULE = re.compile(r"\s*(?:[-=_*─━]\s*){3,}$")
_ROW_RULE = re.compile(r"[\s|:+-]+$")
_CLOSERS = "\"'”’»)\\]*_`"
# It begins with the mark and looks back at it, since any of some letters is found faster than any of some patterns.
_END = re.compile(
    rf"[.!?…。！？｡\n](?:(?<=\n)|(?<=[.!?…])[.!?…]*[{_CLOSERS}]*(?=\s|$)|(?<=[。！？｡])[。！？｡]*[」』”）]*)"
)
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|eg|ie|etc|vs|cf|al|approx|incl|resp|mr|mrs|ms|dr|st|jr|no|fig)|^\W*\d{1,2})$", re.I
)
# Many people write without capitals; these words hardly ever follow an abbreviation.
_OPENER = re.compile(
    r"\s+(?:what|why|how|where|when|who|can|could|please|pls|also|then|it|this|that|these|i|i'm|i'd|we|you|they|is|are|"
    r"does|do|did|don't|let's|there|maybe|should|but|so|now)\s"
)
_SHORT_LINE = 60
#: So much of a long text is looked at, from its beginning and from its end.
_HEAD, _TAIL = 5_000, 3_000
_JOINING_END = re.compile(
    r"(?:[\s,;:–—-]+(?:and|or|but|so|which|that|then|than|rather|to|the|a|an|of|with|for|by|from|at|in|on|as|into|via|"
    r"if|because|whose)?)+$",
    re.I,
)
_STOP = re.compile(
    r"[.!?;](?=\s)|,(?=\s)|\s[-–—]+(?=\s)|\s(?=(?:because|since|so|which|but|while|when|if|unless|until|then)\s)", re.I
)


def windows(length: int) -> list[tuple[int, int]]:
    """The parts of a text of that length that are looked at: all of it, or the head and the tail of a long one."""
    return [(0, length)] if length <= _HEAD + _TAIL else [(0, _HEAD), (length - _TAIL, length)]


def sentences(text: str) -> list[Sentence]:
    """The sentences in the windows of a text, each within one paragraph, list item, heading or table row."""
    return [sentence for low, high in windows(len(text)) for sentence in _between(text, low, high)]


def _between(text: str, start: int, end: int) -> list[Sentence]:
    found: list[Sentence] = []
    for number, (first, last, form) in enumerate(_blocks(text, start, end)):
        if form == "heading" or form == "row" or not _may_stop(text, first, last):
            found.append(Sentence(first, last, form, number))
        else:
            found += [Sentence(left, right, form, number) for left, right in _split(text, first, last)]
    return found


def sentence_starts(text: str) -> list[int]:
    """Where the sentences of one paragraph begin."""
    return [start for start, _ in _split(text, 0, len(text))]


def clipped(text: str, limit: int) -> str:
    """The text on one line of at most `limit` characters, cut where a sentence ends or else a clause."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    ends = [stop for stop in _STOP.finditer(line, limit * 3 // 5, limit) if _whole(line[: stop.start()])]
    full = [stop.start() for stop in ends if stop[0][0] in ".!?"]
    if full:
        return line[: full[-1]]
    part = line[: ends[-1].start()] if ends else one_line(line, limit).rstrip(ELLIPSIS)
    # Without a mark or a joining word at its end.
    return _JOINING_END.sub("", part) + ELLIPSIS


def _whole(part: str) -> bool:
    return part.count("`") % 2 == 0 and part.count("(") == part.count(")") and part.count('"') % 2 == 0


def _blocks(text: str, start: int, end: int) -> list[_Block]:
    """Paragraphs, items, headings and table rows, trimmed of blanks and leading marks."""
    blocks: list[_Block] = []
    pending: _Block | None = None
    fenced, at = False, start
    for line in text[start:end].split("\n"):
        lead = line.lstrip()
        fence = lead.startswith(("```", "~~~"))
        fenced = fenced is not fence
        if fence or not lead:
            _give_out(pending, blocks)
            pending = None
        elif not fenced:
            pending = _after_line(pending, blocks, line, lead, at)
        at += len(line) + 1
    _give_out(pending, blocks)
    return blocks


def _after_line(pending: _Block | None, blocks: list[_Block], line: str, lead: str, at: int) -> _Block | None:
    """The pending block with one more line; where that begins another, the pending one is given out."""
    mark = lead[0]
    first, last = at + len(line) - len(lead), at + len(line.rstrip())
    if mark == "|":
        if _ROW_RULE.match(line):
            return None  # what stood above the rule was the table's header
        begun: _Block | None = (first, last, "row")
    elif mark in "-=_*─━" and _RULE.match(line):
        begun = None
    elif mark == "#" and (match := _HEADING.match(line)):
        _give_out(pending, blocks)
        blocks.append((at + match.end(), last, "heading"))
        return None
    elif (mark in _BULLETS or mark.isdecimal()) and (match := _ITEM.match(line)):
        begun = (at + match.end(), last, "item")
    elif pending and pending[2] != "row":
        return pending[0], last, pending[2]
    elif first - at < 4:
        begun = (first, last, "prose")
    else:
        return pending  # so deep a line is code
    _give_out(pending, blocks)
    return begun


def _give_out(pending: _Block | None, blocks: list[_Block]) -> None:
    if pending and pending[0] < pending[1]:
        blocks.append(pending)


def _may_stop(text: str, start: int, end: int) -> bool:
    """Whether a sentence can end within a block: most items hold no mark that could end one."""
    if not text.isascii() or text.find(".", start, end) >= 0 or text.find("\n", start, end) >= 0:
        return True
    return text.find("?", start, end) >= 0 or text.find("!", start, end) >= 0


def _split(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    begun = start
    for stop in _END.finditer(text, start, end):
        if _ends_sentence(text, begun, stop, end):
            if stop.end() > begun:
                yield from _trimmed(text, begun, stop.end())
            begun = stop.end()
    yield from _trimmed(text, begun, end)


def _ends_sentence(text: str, begun: int, stop: re.Match[str], end: int) -> bool:
    mark = text[stop.start()]
    after = text[stop.end() : stop.end() + 16].lstrip()[:1]
    if mark == "\n":
        # A hard-wrapped line goes on; a short one followed by a capital was meant to end.
        last_line = text.rfind("\n", begun, stop.start()) + 1
        short = stop.start() - max(last_line, begun) < _SHORT_LINE
        return text[stop.start() - 1] in ":;" or (short and not after.islower())
    if text.count("`", begun, stop.start()) % 2 and text.find("`", stop.start(), end) >= 0:
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
