"""Topics of periods: the two or three weightiest themes of what lies beneath, each a few words long."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mcp_memory import lexicon
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.text import ELLIPSIS, has_unspaced_script, one_line, similar, terms
from mcp_memory.domain.toc import Level
from mcp_memory.summaries.keywords import COMMON_STEMS
from mcp_memory.summaries.phrases import phrases, readability, scored, trimmed, word_count, worth

#: Names that look like ordinary words with a capital.
_PRODUCTS = lexicon.word_lists("vocabulary")["products"]
_MAX_THEMES = 3
_SHORT, _LONE = 7, 10
#: A further theme tells so much of what the first one tells, at least.
_WORTH_NAMING = 0.12
_WELL = 1.2
#: So much of any theme's words a child is likely to speak of, and so much a common word counts.
_BY_CHANCE, _COMMON = 0.5, 0.3
_OWN_WORDS = 4.0
#: What is left of a theme that tells what was done to which file.
_TELLS_ACTION = 0.3
#: So much of a segment a theme tells that names another one of its session, since most sessions have one task.
_SAME_SESSION = 0.4
#: What a theme loses that names again what another one names.
_TOLD_TWICE = 0.8
#: How the tokens beneath a child become its size: as many for a question as for a short talk, then ever less for more.
_LEAST, _DAMPED = 200, 0.35
#: However little or much lies beneath a child, it counts for so much.
_SMALLEST, _LARGEST_PART = 0.5, 3.0
#: Where a session begins, its task is named.
_OPENS = 1.15
#: How much of a child the first of its themes tells, the second and the third.
_OF_CHILD = (0.65, 0.5, 0.4)
_WANTED = (0.0, 0.2, 0.5, 0.8, 0.95, 1.0, 1.0, 1.0)
_MAX_WORDS = 20
_MAX_CHARS = 130
_ALIKE = 0.35
_READABLE, _WELL_READABLE = 0.5, 0.85
_MORE, _FEWEST = 3, 3
_ACTION = re.compile(r"(?:edited|searched|read|ran|fetched|used)\b", re.I)
_BREAK = re.compile(r"[,;:]\s|\s[-–—→]+\s")
# Names that tell a segment apart from others.
_NAMES = re.compile(r": (?=\S*\w[._A-Z])[^\s,]+(?:, [^\s,]+)?$")
_CALENDAR = re.compile(r"(?:Week of |\w+day, |\w+ \d{4}|\d{4})[^:]*: ")
_PLAIN_WORD = re.compile(r"[\"'(“]*[^\W\d_]+(?:['’-][^\W\d_]+)*[\"').,:;!?”]*")


class _Theme(NamedTuple):
    """A few words that may stand for a period: how fit they are, and how much each child is about them."""

    text: str
    fit: float
    about: tuple[float, ...]


def topic_of(children: Sequence[Node], weights: Mapping[str, float]) -> str:
    """The themes that together tell what most of the period was about, joined by commas; no theme holds a comma.

    Each next theme is the one that tells most of what those before it leave untold.
    """
    if len(children) == 1 and children[0].level is not Level.SEGMENT:
        return topic_in(children[0])
    left = list(_themes(children, weights))
    chosen: list[_Theme] = []
    untold = shares_of(children, _LARGEST_PART)
    first = 0.0
    while left and len(chosen) < _MAX_THEMES:
        gains = [_theme_gain(one, chosen, untold, weights) for one in left]
        gain = max(gains)
        theme = left.pop(gains.index(gain))
        first = first or gain
        if gain < _WORTH_NAMING * first:
            break
        topic = ", ".join(one.text for one in (*chosen, theme))
        if not chosen or (word_count(topic) <= _MAX_WORDS and len(topic) <= _MAX_CHARS):
            chosen.append(theme)
            untold = [share * (1.0 - told) for share, told in zip(untold, theme.about, strict=True)]
            left = [other for other in left if similar(terms(other.text), terms(theme.text)) < _ALIKE]
    return one_line(", ".join(theme.text for theme in chosen), _MAX_CHARS).rstrip(ELLIPSIS)


def _theme_gain(
    theme: _Theme, chosen: Sequence[_Theme], untold: Sequence[float], weights: Mapping[str, float]
) -> float:
    """How much a theme would tell beside those that were chosen."""
    own = terms(theme.text)
    whole = math.fsum(weights.get(part, 0.1) for part in sorted(own))
    # How much of what it names another one names, too, from 0 to 1.
    shared = [math.fsum(weights.get(part, 0.1) for part in sorted(own & terms(other.text))) for other in chosen]
    again = max(shared, default=0.0) / whole if whole else 0.0
    told = math.fsum(share * told for share, told in zip(untold, theme.about, strict=True))
    return theme.fit * (1.0 - _TOLD_TWICE * again) * told


def shares_of(children: Sequence[Node], most: float) -> list[float]:
    """How much of the period each child makes up, where 1 is what they do on average, and `most` at most.

    More where more was said beneath it, though not in proportion: else three weeks of work would leave nothing to be
    told of the rest of a year.
    """
    sizes = [math.pow(_LEAST + child.weight, _DAMPED) for child in children]
    mean = math.fsum(sizes) / len(sizes) if sizes else 1.0
    return [min(max(size / mean, _SMALLEST), most) for size in sizes]


def plainness(text: str) -> float:
    """How much of a line is plain words: seen from afar, names of files and functions say little."""
    parts = text.split()
    if has_unspaced_script(text) or not parts:
        return 1.0
    return 0.6 + 0.4 * sum(1 for part in parts if part.isalpha() or _PLAIN_WORD.fullmatch(part)) / len(parts)


def _themes(children: Sequence[Node], weights: Mapping[str, float]) -> Iterator[_Theme]:
    # What recurs through the period counts for more than it does among the bullets of one child.
    squared = {part: value * value for part, value in weights.items()}
    spoken_of = [
        frozenset().union(*map(terms, [child.title, *child.keywords, *(bullet.shown for bullet in child.bullets)]))
        for child in children
    ]
    several = len({child.session_id for child in children}) > 1
    sessions: set[str | None] = set()
    for index, child in enumerate(children):
        parts = _of_child(child, len(children) == 1, squared)
        session = child.session_id
        opens = _OPENS if session and session not in sessions else 1.0
        sessions.add(session)
        for rank, text in enumerate(parts):
            whole = len(parts) == 1 and child.level is Level.SEGMENT
            most = 1.0 if whole else _OF_CHILD[min(rank, _MAX_THEMES - 1)]
            about = [told * most for told in _about(terms(text), spoken_of)]
            if several and session:
                # The other segments of its session are likely to be about it, too.
                same = [other.session_id == session for other in children]
                about = [
                    max(told, _SAME_SESSION * most) if own else told for told, own in zip(about, same, strict=True)
                ]
            about[index] = most
            yield _Theme(text, opens * _fit(text, squared), tuple(about))


def _fit(text: str, weights: Mapping[str, float]) -> float:
    """How well a theme may stand for a period: what it tells, how it reads and how long it is."""
    told = math.pow(worth(text, weights) / math.pow(2.0 + word_count(text), 0.4) + 0.05, 0.35)
    reads = min(readability(text), _WELL) * plainness(text) * (_TELLS_ACTION if _ACTION.match(text) else 1.0)
    return told * reads * _WANTED[min(word_count(text), _SHORT)]


def _about(theme: frozenset[str], spoken_of: Sequence[frozenset[str]]) -> list[float]:
    """How much of a theme's words each child speaks of, from 0 to 1; words of any talk hardly count."""
    # A theme of few words of its own is easily spoken of.
    whole = max(_count(theme), _OWN_WORDS)
    shares = [_count(theme & own) / whole for own in spoken_of]
    return [max(0.0, (share - _BY_CHANCE) / (1.0 - _BY_CHANCE)) for share in shares]


def _count(found: frozenset[str]) -> float:
    common = len(found & COMMON_STEMS)
    return len(found) - common + _COMMON * common


def _of_child(child: Node, alone: bool, weights: Mapping[str, float]) -> list[str]:
    """What a child is about: the short forms of its topic's themes, or of what a segment's title names."""
    said = "\n".join(bullet.shown for bullet in child.bullets)
    parts = child.title.split("; ") if child.level is Level.SEGMENT else topic_in(child).split(", ")
    limit = _LONE if alone and len(parts) == 1 else _SHORT
    themes = [_lowered(short, said) for part in parts if (short := _shortened(part, limit, weights))]
    return [theme for theme in themes if word_count(theme) > 1] or themes


def _shortened(title: str, limit: int, weights: Mapping[str, float]) -> str:
    """A title in few words, cut at a natural break, without commas and colons."""
    title = _NAMES.sub("", title)
    if word_count(title) <= limit and not _BREAK.search(title):
        return title
    short = [
        (scored(phrase, weights) * _WANTED[min(word_count(phrase.text), _SHORT)], phrase.text)
        for phrase in phrases(title)
        if 2 <= word_count(phrase.text) <= limit
        and not _BREAK.search(phrase.text)
        and readability(phrase.text) >= _READABLE
    ]
    best = max(short, key=lambda entry: entry[0], default=(0.0, ""))[1]
    # What cannot be said in so few words is rather said in some more.
    torn = readability(best) < _WELL_READABLE or word_count(best) < _FEWEST
    if not best or (torn and word_count(title) <= limit + _MORE):
        return trimmed(_BREAK.sub(" ", title).split())
    return best


def _inside(name: str, said: str) -> bool:
    """Whether a word with a capital stands within a sentence rather than at its start."""
    at = said.find(f" {name}")
    while at > 0:
        if said[at - 1].islower() or said[at - 1].isdigit() or said[at - 1] == ",":
            return True
        at = said.find(f" {name}", at + 1)
    return False


def _lowered(theme: str, said: str) -> str:
    """An ordinary first word in lower case, since a theme stands inside a line; a name that was said so stays."""
    first, gap, rest = theme.partition(" ")
    ordinary = first.replace("'", "").isalpha() and first[1:].islower()
    if not ordinary or first.lower() in _PRODUCTS or (_inside(first, said) and f" {first.lower()}" not in said):
        return theme
    return f"{first.lower()}{gap}{rest}"


def topic_in(child: Node) -> str:
    """What stands behind a period's date in its title, or what it is looked for by."""
    calendar = _CALENDAR.match(child.title)
    return child.title[calendar.end() :] if calendar else ", ".join(child.keywords[:2])
