"""Candidates from what an assistant says: its sentences, each by its kind and by where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from mcp_memory.domain.text import folded, has_unspaced_script
from mcp_memory.summaries import cues, patterns
from mcp_memory.summaries.candidate import MAX_BULLET, Said, said
from mcp_memory.summaries.cues import Kind
from mcp_memory.summaries.finishing import with_capital
from mcp_memory.summaries.messages import plain
from mcp_memory.summaries.sentences import Form, Sentence, sentences

# A line before code that is left out.
_SHOWS = re.compile(
    r"\b(?:shows?|see|prints?|outputs?|is|are|be|like|with|has|have|includes?|returns?|gives?|run|use)$"
)
_FOUND_OUT = re.compile(
    r"(?:(?:i )?(?:found|see) (?:it|the (?:bug|issue|problem|cause|culprit))|got it|(?:here's |that's )?the "
    r"(?:issue|problem|cause) is clear)(?: now)?\W*",
    re.I,
)
_KEY_SECTION = re.compile(r"\b(?:cause|fix|fixes|solution|decision|resolution|conclusion|recommendation)\b")
_SHORT_CODE = re.compile(r"\s*```\w*\n([^\n`]{1,120}(?:\n[^\n`]{1,60})?)\n\s*```")
_LINK_ONLY = re.compile(r"\[[^\]]*\]\([^)]*\)\W*$")
_SHORTEST = 6

#: The last message of a turn tells what came of it.
_ENDS_TURN = 0.35
#: A heading that stands above all others of its message says what that is about.
_TOPMOST = 1.0
_UNDER_KEY_HEADING = 0.4
_GIVES_REASON = 0.3
#: A figure cannot be guessed from the rest.
_EXACT = 0.2
#: What a plain statement loses in a list that reports what was done: it is one of many.
_REPORTED = 0.4
#: What a sentence loses that leans on the one before it, one that merely goes on from it, and one that announces more.
_LEANS, _CONNECTS, _ANNOUNCES = 0.4, 0.3, 0.5
#: The later an item stands in a list, the less it matters, down to a limit.
_LISTED = {"prose": 0.0, "item": 0.1, "row": 0.2}
_LISTED_MOST = 0.6


class _Statement(NamedTuple):
    """A sentence, or a lead with its items, as it is told; `announces` says that what it leads to is left out."""

    start: int
    end: int
    body: str
    form: Form
    announces: bool = False


class _Section(NamedTuple):
    """What the heading above a sentence says of it: that it is about a cause, or the key to the whole message."""

    cause: bool = False
    key: bool = False


def said_by_assistant(text: str, last: bool, worked: bool) -> Iterator[Said]:
    """What an assistant says: in the `last` message of a turn or before, after tools `worked` in it or not."""
    section = _Section()
    listed = 0
    found_out = False
    for told in _statements(text):
        start, end, body, form, _ = told
        if form == "heading":
            section = _section(body)
            if not cues.is_label(body) and body.count(" ") > 1:
                yield said(text, start, end, body, Kind.HEADING, _heading_bonus(text, start, last))
            continue
        kind = cues.assistant_kind(body)
        reported = kind is Kind.STATED and form != "prose" and last and worked
        if kind is Kind.STATED:
            kind = Kind.CAUSE if found_out else _by_place(body, section, reported)
        found_out = _FOUND_OUT.fullmatch(body) is not None
        if kind is Kind.NOISE or _says_nothing(text, told):
            continue
        listed = 0 if form == "prose" else listed + 1
        bonus = _bonus(body, kind, section, last) - (
            (_REPORTED if reported else 0.0)
            + _leaning(body, kind)
            + (_ANNOUNCES if told.announces else 0.0)
            + min(_LISTED[form] * listed, _LISTED_MOST)
        )
        yield said(text, start, end, _shown(body, kind), kind, bonus, listed=bool(listed))


def _statements(text: str) -> Iterator[_Statement]:
    """Headings and sentences in order, each with what only makes sense after it; labels of what is left out are not."""
    found = sentences(text)
    taken = 0
    for index, sentence in enumerate(found):
        start, end, form, _ = sentence
        if start < taken:
            continue
        body = plain(text[start:end])
        if form == "heading":
            yield _Statement(start, end, body, form)
            continue
        announces = False
        if body.endswith((":", "：")):
            body = body.rstrip(":： ")
            if cues.is_label(body):
                continue
            body, taken = _with_items(text, body, end, found[index + 1 :])
            announces = taken == end
            if announces and _SHOWS.search(body):
                continue
        elif form == "prose" and index + 1 < len(found):
            body, taken = _with_next(text, body, sentence, found[index + 1])
        else:
            taken = end
        yield _Statement(start, taken, body, form, announces)


def _section(heading: str) -> _Section:
    low = heading.lower()
    return _Section("cause" in low, _KEY_SECTION.search(low) is not None)


def _heading_bonus(text: str, start: int, last: bool) -> float:
    topmost = text[:start] == "# " or text[max(0, start - 3) : start] == "\n# "
    return (_ENDS_TURN if last else 0.0) + (_TOPMOST if topmost else 0.0)


def _by_place(body: str, section: _Section, reported: bool) -> Kind:
    """The kind of a plain statement: by its heading, or `reported` in a list after something was done."""
    if section.cause:
        return Kind.CAUSE
    return Kind.OUTCOME if reported and body.count(" ") > 4 else Kind.STATED


def _says_nothing(text: str, told: _Statement) -> bool:
    """Whether it is no more than the name of a file, as in `File: config.go`, or a link."""
    start, end, body, _, _ = told
    if len(body) < _SHORTEST or (body.count(" ") < 2 and not has_unspaced_script(body)):
        return True
    return text[start] == "[" and _LINK_ONLY.match(text, start, end) is not None


def _bonus(body: str, kind: Kind, section: _Section, last: bool) -> float:
    """What a sentence gains by what it says and by where it stands."""
    value = (_ENDS_TURN if last else 0.0) + (_UNDER_KEY_HEADING if section.key else 0.0)
    value += _GIVES_REASON if kind is Kind.DECISION and cues.gives_reason(body) else 0.0
    return value + (_EXACT if kind not in (Kind.FIGURE, Kind.PLANNED) and cues.gives_figures(body) else 0.0)


def _leaning(body: str, kind: Kind) -> float:
    """What a sentence loses that needs what stood before it, or that only announces what is about to be decided."""
    low = folded(body)
    announced = _LEANS if kind is Kind.DECISION and patterns.LET_ME.match(folded(cues.unopened(body))) else 0.0
    if patterns.POINTS_BACK.match(low):
        return announced + _LEANS
    return announced + (_CONNECTS if patterns.CONNECTED.match(low) else 0.0)


def _shown(body: str, kind: Kind) -> str:
    body = cues.plan_of(body) if kind in (Kind.PLANNED, Kind.DECISION) else cues.finding(cues.unopened(body))
    return with_capital(body)


def _with_items(text: str, lead: str, end: int, following: Sequence[Sentence]) -> tuple[str, int]:
    """A lead that stood before a colon together with what it announces, list items or a line of code, if they fit."""
    items: list[str] = []
    room = MAX_BULLET - len(f"{lead}:")
    for _, parts in groupby(following, key=lambda part: part.block):
        first, *rest = parts
        stop = rest[-1].end if rest else first.end
        if first.form != "item" or stop - first.start > room:
            break
        items.append(plain(text[first.start : stop]).rstrip(".;:"))
        room -= len(items[-1])
        end = stop
    if not items and (code := _SHORT_CODE.match(text, end)):
        items, end = [f"`{plain(code[1]).replace('`', '')}`"], code.end(1)
    return (f"{lead}: {'; '.join(items)}" if items else lead), end


def _with_next(text: str, body: str, this: Sentence, following: Sentence) -> tuple[str, int]:
    """A sentence together with the next one when that one only makes sense after it."""
    raw = text[following.start : following.end]
    fits = following.block == this.block and following.end - this.start <= MAX_BULLET and not raw.rstrip().endswith(":")
    if fits and patterns.CONNECTED.match(raw) and cues.assistant_kind(body) not in (Kind.NOISE, Kind.PLANNED):
        return f"{body} {plain(raw)}", following.end
    return body, this.end
