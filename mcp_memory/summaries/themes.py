"""Themes of a period: what its children were about, as few short titles as tell most of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mcp_memory.domain.nodes import Node
from mcp_memory.domain.text import similar, terms
from mcp_memory.domain.toc import Level
from mcp_memory.summaries.keywords import COMMON_STEMS

#: What stands between the themes of a title, and before the names that follow them; no theme holds either.
_BETWEEN, _BESIDE = "; ", " · "
_MAX_THEMES, _MAX_NAMES = 3, 5
#: How long themes are together, and with the names beside them.
_MAX_CHARS, _WITH_NAMES = 180, 220
#: So much of a theme's words any child is likely to speak of.
_BY_CHANCE = 0.7
#: Themes that are so much alike are one.
_ALIKE = 0.5
#: How much of a child the first of its themes tells, the second and the third.
_OF_CHILD = (0.65, 0.5, 0.4)
#: What is left of a theme of which nothing came, as far as its bullets tell, and of what was closed or set right later.
_NOTHING_CAME, _SETTLED = 0.6, 0.2
#: A theme of fewer topical words tells little.
_TELLING = 4
_COMMON = 0.3
#: How the tokens beneath a child become its size: as many for a question as for a short talk, then ever less for more.
_LEAST, _DAMPED = 200, 0.35
#: However little or much lies beneath a child, it counts for so much.
_SMALLEST, _LARGEST = 0.5, 2.0
#: How much a theme counts by what came of it: what was decided, mended or landed, what was done or understood.
_DECIDED, _DONE = ("note", "decision", "correction", "rule", "fixed", "commit"), ("outcome", "cause", "open")
_CAME = dict.fromkeys(_DECIDED, 1.0) | dict.fromkeys(_DONE, 0.85)


class _Theme(NamedTuple):
    """A title that may stand for a period: how fit it is, and how much each child is about it."""

    text: str
    terms: frozenset[str]
    fit: float
    about: tuple[float, ...]


def topic_of(children: Sequence[Node], keywords: Sequence[str], settled: Sequence[frozenset[str]]) -> str:
    """The themes that tell what most of the period was about, and names that recur beside them.

    `settled` are the terms of what a later child closed or set right.
    """
    named = themes_in(children[0]) if len(children) == 1 else _chosen(children, _themes(children, settled))
    return _with_names(_BETWEEN.join(named), keywords)


def _chosen(children: Sequence[Node], themes: Sequence[_Theme]) -> list[str]:
    """Few themes, of which each next one tells most of what those before it leave untold."""
    left, chosen = list(themes), list[str]()
    untold = shares_of(children)
    while left and len(chosen) < _MAX_THEMES:
        theme = max(
            left, key=lambda theme: theme.fit * math.fsum(map(math.prod, zip(untold, theme.about, strict=True)))
        )
        left.remove(theme)
        if not chosen or len(_BETWEEN.join([*chosen, theme.text])) <= _MAX_CHARS:
            chosen.append(theme.text)
            untold = [share * (1.0 - told) for share, told in zip(untold, theme.about, strict=True)]
            left = [other for other in left if similar(other.terms, theme.terms) < _ALIKE]
    return chosen


def _with_names(topic: str, keywords: Sequence[str]) -> str:
    """A topic with the first names that it does not hold, where there is room for them."""
    told, names = terms(topic), ""
    for word in keywords:
        longer = f"{names}, {word}" if names else word
        if not terms(word) & told and len(topic) + len(_BESIDE) + len(longer) <= _WITH_NAMES:
            told, names = told | terms(word), longer
            if names.count(", ") + 1 == _MAX_NAMES:
                break
    return f"{topic}{_BESIDE}{names}" if topic and names else topic or names


def shares_of(children: Sequence[Node]) -> list[float]:
    """How much of the period each child makes up, where 1 is what they do on average.

    More where more was said beneath it, though not in proportion: else three weeks of work would leave nothing to be
    told of the rest of a year.
    """
    sizes = [math.pow(_LEAST + child.weight, _DAMPED) for child in children]
    mean = math.fsum(sizes) / len(sizes) if sizes else 1.0
    return [min(max(size / mean, _SMALLEST), _LARGEST) for size in sizes]


def themes_in(child: Node) -> list[str]:
    """What a child is about: a segment's title, or the themes that stand behind a period's date."""
    if child.level is Level.SEGMENT:
        themes = [_without_names(child).replace(_BETWEEN, ", ").replace(_BESIDE, ", ")]
    else:
        topic = child.title.removeprefix(child.ref.title).removeprefix(": ").partition(_BESIDE)[0]
        themes = topic.split(_BETWEEN)
    return [theme for theme in themes if theme]


def _without_names(segment: Node) -> str:
    """A segment's title without the keywords that stand behind it."""
    title, _, names = segment.title.rpartition(": ")
    return title if title and set(names.split(", ")) <= set(segment.keywords) else segment.title


def _themes(children: Sequence[Node], settled: Sequence[frozenset[str]]) -> list[_Theme]:
    spoken = [
        frozenset().union(*map(terms, [child.title, *child.keywords, *(bullet.text for bullet in child.bullets)]))
        for child in children
    ]
    counts = Counter(term for own in spoken for term in own)
    found = []
    for index, child in enumerate(children):
        parts = themes_in(child)
        for rank, text in enumerate(parts):
            own = terms(text)
            most = 1.0 if len(parts) == 1 else _OF_CHILD[min(rank, _MAX_THEMES - 1)]
            about = [most * _spoken_of(own, other, counts) for other in spoken]
            about[index] = most
            found.append(_Theme(text, own, _fit(own, child, settled), tuple(about)))
    return found


def _spoken_of(theme: frozenset[str], spoken: frozenset[str], counts: Mapping[str, int]) -> float:
    """How much a child speaks of a theme, from 0 to 1; words that most children use tell less."""
    whole, told = (math.fsum(counts[term] ** -0.5 for term in sorted(own)) for own in (theme, theme & spoken))
    return max(0.0, (told / whole - _BY_CHANCE) / (1.0 - _BY_CHANCE)) if whole else 0.0


def _fit(theme: frozenset[str], child: Node, settled: Sequence[frozenset[str]]) -> float:
    """How well a theme may stand for a period: does it tell enough, and did something come of it that stands?"""
    common = len(theme & COMMON_STEMS)
    telling = min(len(theme) - common + _COMMON * common, _TELLING) / _TELLING
    own = [bullet for bullet in child.bullets if child.level is Level.SEGMENT or theme & terms(bullet.text)]
    telling *= max((_CAME.get(bullet.kind, _NOTHING_CAME) for bullet in own), default=_NOTHING_CAME)
    return telling * (_SETTLED if any(similar(theme, old) >= _ALIKE for old in settled) else 1.0)
