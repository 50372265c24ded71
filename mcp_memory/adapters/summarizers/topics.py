"""Topics of periods: the two or three weightiest themes of what lies beneath, each a few words long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mcp_memory.adapters.summarizers.phrases import phrases, trimmed, word_count
from mcp_memory.adapters.summarizers.readability import readability
from mcp_memory.adapters.summarizers.titles import scored, worth
from mcp_memory.domain.summaries import Node
from mcp_memory.domain.text import ELLIPSIS, has_unspaced_script, one_line, similar, terms
from mcp_memory.domain.toc import Level

_MAX_THEMES = 3
_SHORT, _LONE = 6, 10
_WANTED = (0.0, 0.2, 0.5, 0.85, 1.0, 1.0, 1.0)
_MAX_WORDS = 16
_MAX_CHARS = 110
_ALIKE = 0.35
_READABLE = 0.5
_SO_FAR = " (so far)"
_CALENDAR = re.compile(r"(?:Week of |\w+day, |\w+ \d{4}|\d{4})[^:]*: ")
_ACTION = re.compile(r"(?:edited|searched|read|ran|fetched|used)\b", re.I)
_BREAK = re.compile(r"[,;:]\s|\s[-–—→]+\s")
_PLAIN_WORD = re.compile(r"[\"'(“]*[^\W\d_]+(?:['’-][^\W\d_]+)*[\"').,:;!?”]*")


class _Theme(NamedTuple):
    text: str
    child: int
    weight: float


def topic_of(children: Sequence[Node], weights: Mapping[str, float]) -> str:
    """Themes of different children first, near-duplicates once, joined by commas; no theme holds a comma or a colon."""
    # What recurs through the period counts for more than it does among the bullets of one child.
    left = list(_themes(children, {part: value * value for part, value in weights.items()}))
    chosen: list[_Theme] = []
    while left and len(chosen) < _MAX_THEMES:
        told = [theme.weight * (0.35 if any(one.child == theme.child for one in chosen) else 1.0) for theme in left]
        theme = left.pop(max(range(len(left)), key=lambda index: (told[index], -index)))
        joined = ", ".join(one.text for one in (*chosen, theme))
        if not chosen or (word_count(joined) <= _MAX_WORDS and len(joined) <= _MAX_CHARS):
            chosen.append(theme)
            left = [other for other in left if not _alike(other.text, theme.text)]
    return one_line(", ".join(theme.text for theme in chosen), _MAX_CHARS).rstrip(ELLIPSIS)


def plainness(text: str) -> float:
    """How much of a line is plain words: seen from afar, names of files and functions say little."""
    parts = text.split()
    if has_unspaced_script(text) or not parts:
        return 1.0
    return 0.6 + 0.4 * sum(1 for part in parts if _PLAIN_WORD.fullmatch(part)) / len(parts)


def _themes(children: Sequence[Node], weights: Mapping[str, float]) -> Iterator[_Theme]:
    for index, child in enumerate(children):
        size = (1.0 + len(child.bullets)) ** 0.5 * (1.0 + len(child.child_ids)) ** 0.25
        for rank, text in enumerate(_of_child(child, len(children) == 1, weights)):
            told = worth(text, weights) / (2.0 + word_count(text)) ** 0.4 + 0.05
            fit = readability(text) * plainness(text) * (0.3 if _ACTION.match(text) else 1.0)
            yield _Theme(text, index, size * told * fit * 0.75**rank)


def _of_child(child: Node, alone: bool, weights: Mapping[str, float]) -> list[str]:
    """What a child is about: the short forms of its topic's themes, or of what a segment's title names."""
    title = child.title.removesuffix(_SO_FAR)
    said = " ".join(bullet.text for bullet in child.bullets)
    if child.level is Level.SEGMENT:
        parts = title.split("; ")
    else:
        calendar = _CALENDAR.match(title)
        parts = title[calendar.end() :].split(", ") if calendar else list(child.keywords[:2])
    limit = _LONE if alone and len(parts) == 1 else _SHORT
    themes = [_lowered(short, said) for part in parts if (short := _shortened(part, limit, weights))]
    return [theme for theme in themes if word_count(theme) > 1] or themes


def _shortened(title: str, limit: int, weights: Mapping[str, float]) -> str:
    """A title in few words, cut at a natural break, without commas and colons."""
    if word_count(title) <= limit and not _BREAK.search(title):
        return title
    short = [
        (scored(phrase, weights) * _WANTED[min(word_count(phrase.text), _SHORT)], phrase.text)
        for phrase in phrases(title)
        if 2 <= word_count(phrase.text) <= limit
        and not _BREAK.search(phrase.text)
        and readability(phrase.text) >= _READABLE
    ]
    return max(short, key=lambda entry: entry[0])[1] if short else trimmed(_BREAK.sub(" ", title).split())


def _alike(one: str, other: str) -> bool:
    return similar(terms(one), terms(other)) >= _ALIKE


def _lowered(theme: str, said: str) -> str:
    """An ordinary first word in lower case, since a theme stands inside a line; a name that was said so stays."""
    first, gap, rest = theme.partition(" ")
    ordinary = first.replace("'", "").isalpha() and first[1:].islower()
    at = said.find(f" {first}")
    inside = at > 0 and (said[at - 1].islower() or said[at - 1] == ",")
    if not ordinary or (inside and f" {first.lower()}" not in said):
        return theme
    return f"{first.lower()}{gap}{rest}"
