"""Rolling nodes up: days, weeks, months and years told by what their children came to.

A period's bullets are chosen from its children's, in their last state; its title names up to three themes and, where
there is room, names that recur. What matters is told by the kinds of bullets, never by their wording.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from mcp_memory.domain.nodes import NAMES, Bullet, Kind, Node, RollupSummary
from mcp_memory.domain.text import similar, terms
from mcp_memory.domain.toc import BULLETS, Level
from mcp_memory.summaries.keywords import COMMON_STEMS, distinct

MAX_GRIPS = 6
MAX_CHILDREN = 12
KEYWORDS = 7
#: How many characters a bullet has at most.
_LONGEST = 220

#: Above a day one wants to know what came out: so much is left there of what was asked, or found and done on the way.
_PASSING = frozenset(
    {Kind.REQUEST, Kind.REPORT, Kind.FINDING, Kind.STATED, Kind.RESULT, Kind.ERROR, Kind.STEP, Kind.DID}
)
_ABOVE = 0.4
#: What ends what was open or broken, and what sets right what was claimed.
_DONE, _PENDING = frozenset({Kind.OUTCOME, Kind.FIXED, Kind.COMMIT, Kind.DECISION}), frozenset({Kind.OPEN, Kind.ERROR})
_SET_RIGHT = frozenset({Kind.CORRECTION, Kind.REFUSED})
_CLAIMS = _PENDING | {Kind.CAUSE, Kind.FINDING, Kind.OUTCOME, Kind.DECISION, Kind.STATED, Kind.SAID}
#: What is not the same as a like text of another kind.
_APART = _PENDING | _SET_RIGHT | {Kind.REQUEST}
#: What the user said is told in the user's words alone.
_BY_USER = _SET_RIGHT | {Kind.REQUEST, Kind.REPORT, Kind.RULE, Kind.REMARK, Kind.DECISION}
#: Texts that share so many of their terms say the same; a request and what came of it only if they hardly differ.
_DUPLICATE, _SAME_WORDS = 0.55, 0.95
#: So much of what was open a later text names that closes it, and so alike are a claim and the words that set it right.
_CLOSES, _CORRECTS = 0.5, 0.35
#: What is left of the next bullet of a child of which one is told, and of a bullet without a grip.
_SAME_CHILD, _UNPROVEN = 0.55, 0.5
#: A bullet of fewer topical words tells less, and what weighs less than this is not told beside others.
_ENOUGH_SAID, _WORTH_TELLING = 6, 0.4

#: What stands between the themes of a title; no theme holds it.
_BETWEEN = "; "
_MAX_THEMES = 3
#: How many names follow the themes of a day, and of what is longer.
_MAX_NAMES = (3, 7)
#: How long themes are together, and with the names beside them.
_MAX_CHARS, _WITH_NAMES = 180, 240
#: So much of a theme's words any child is likely to speak of.
_BY_CHANCE = 0.7
#: So much of a segment a theme tells that names another one of its session, since most sessions have one task.
_SAME_SESSION = 0.3
#: Themes that are so much alike are one.
_ALIKE = 0.5
#: How much of a child the first of its themes tells, the second and the third.
_OF_CHILD = (0.65, 0.5, 0.4)
#: What is left of a theme of which nothing came, as far as its bullets tell, and of what was closed or set right later.
_NOTHING_CAME, _SETTLED = 0.6, 0.2
#: A theme of fewer topical words tells less; a common word counts for so much of another. What tells less than so much
#: of that names no period beside others: titles that people gave to such work tell more.
_TELLING, _COMMON, _VAGUE = 4, 0.3, 0.4
#: How the tokens beneath a child become its size: as many for a question as for a short talk, then ever less for more.
_LEAST, _DAMPED = 200, 0.35
#: However little or much lies beneath a child, it counts for so much.
_SMALLEST, _LARGEST = 0.5, 2.0


class _Item(NamedTuple):
    """A child's bullet on its way up."""

    bullet: Bullet
    child: int
    position: int
    terms: frozenset[str]
    weight: float

    @property
    def kind(self) -> Kind:
        return self.bullet.kind


def roll_up(level: Level, children: Sequence[Node]) -> RollupSummary:
    """The summary of a period from its children, oldest first."""
    items = _items(level, children)
    final = [item for item in items if item.kind in _DONE | _SET_RIGHT]
    settled = [any(_settles(later, item) for later in final) for item in items]
    standing = _without_repeats(item for item, is_settled in zip(items, settled, strict=True) if not is_settled)
    shares = _shares(children)
    told = _placed(_choose(level, standing, shares), level, children)
    # Notes are listed under a period, but they do not title it.
    worked = [child for child in children if not child.holds_notes]
    keywords = _keywords(worked, _shares(worked))
    gone = [item.terms for item, is_settled in zip(items, settled, strict=True) if is_settled]
    topic = _topic(level, worked, keywords, gone) if worked else ""
    return RollupSummary(topic, tuple(item.bullet for item in told), keywords[:KEYWORDS])


def _items(level: Level, children: Sequence[Node]) -> list[_Item]:
    found = []
    for index, child in enumerate(children):
        for position, bullet in enumerate(child.bullets):
            passing = level is not Level.DAY and bullet.kind in _PASSING
            value = (bullet.kind.weight or 1.0) * (_ABOVE if passing else 1.0)
            value *= 1.0 if bullet.grip_ids else _UNPROVEN
            value *= min(len(terms(bullet.text)), _ENOUGH_SAID) / _ENOUGH_SAID
            risen = Bullet(bullet.text, bullet.grip_ids[:MAX_GRIPS], (child.node_id,), bullet.kind)
            found.append(_Item(risen, index, position, terms(bullet.text), value))
    return found


def refuted_in(children: Sequence[Node]) -> list[tuple[int, int]]:
    """Which bullets claim what a later child sets right: the child's place, and the bullet's in it."""
    items = _items(Level.DAY, children)
    return [(item.child, item.position) for item in items if any(_corrects(later, item) for later in items)]


def _settles(later: _Item, item: _Item) -> bool:
    """Whether a later child closes or mends what was open, or sets right what was claimed."""
    if later.child <= item.child:
        return False
    ends = item.kind in _PENDING and later.kind in _DONE
    return (ends and len(later.terms & item.terms) >= max(2, _CLOSES * len(item.terms))) or _corrects(later, item)


def _corrects(later: _Item, item: _Item) -> bool:
    claimed = later.child > item.child and item.kind in _CLAIMS and later.kind in _SET_RIGHT
    return claimed and len(later.terms & item.terms) > 2 and similar(later.terms, item.terms) >= _CORRECTS


def _without_repeats(items: Iterable[_Item]) -> list[_Item]:
    """Near-duplicates as one, told by the best of them at the earliest place, with the grips of all."""
    kept: list[_Item] = []
    for item in items:
        # An equal one first: another may resemble it as well.
        equal = next((index for index, other in enumerate(kept) if item.bullet.shown == other.bullet.shown), None)
        twin = equal if equal is not None else next((i for i, other in enumerate(kept) if _same(item, other)), None)
        if twin is None:
            kept.append(item)
        else:
            kept[twin] = _united(kept[twin], item)
    return kept


def _same(item: _Item, other: _Item) -> bool:
    """Whether two items say the same: what was asked, left open or set right is not what came of it."""
    ways = {item.kind, other.kind}
    apart = len(ways) > 1 and ways & _APART
    if apart and ways & _PENDING:
        return False
    return similar(item.terms, other.terms) >= (_SAME_WORDS if apart else _DUPLICATE)


def _united(first: _Item, second: _Item) -> _Item:
    best = second if second.weight >= first.weight else first
    told, one, two = best.bullet, first.bullet, second.bullet
    grips = tuple(dict.fromkeys(told.grip_ids + one.grip_ids + two.grip_ids))[:MAX_GRIPS]
    children = tuple(dict.fromkeys(one.child_ids + two.child_ids))[:MAX_CHILDREN]
    bullet = Bullet(told.text, grips, children, told.kind)
    return first._replace(bullet=bullet, terms=best.terms, weight=best.weight)


def _choose(level: Level, items: Sequence[_Item], shares: Sequence[float]) -> list[_Item]:
    """The items that together tell most of the period, spread over its children by what each makes up of it.

    Where there is more to tell than there are lines, what one child says in the same way shares a line.
    """
    fewest, most = BULLETS[level]
    worth = [item for item in items if item.weight >= _WORTH_TELLING]
    items = worth if len(shares) > 1 and len(worth) >= fewest else items
    shared = level is Level.DAY and len(items) > most
    lines: list[list[_Item]] = []
    covered: set[str] = set()
    rest = list(items)
    while rest:
        chosen = [item for line in lines for item in line]
        best = max(
            rest, key=lambda item: (_gain(item, chosen, covered, shares[item.child]), -item.child, -item.position)
        )
        line = next((line for line in lines if shared and _fits(line, best)), None)
        if line is None:
            lines.append([best])
        else:
            line.append(best)
        covered |= best.terms
        rest.remove(best)
        if len(lines) == most:
            rest = [item for item in rest if shared and any(_fits(line, item) for line in lines)]
    return sorted((_joined(line) for line in lines), key=lambda item: (item.child, item.position))


def _fits(line: Sequence[_Item], item: _Item) -> bool:
    """Whether an item can stand on a line with others: of the same child, under the same label, and short enough."""
    length = sum(len(other.bullet.text) + 2 for other in line) + len(item.bullet.text)
    first = line[0].bullet
    return first.child_ids == item.bullet.child_ids and first.kind.label == item.kind.label and length <= _LONGEST


def _joined(line: Sequence[_Item]) -> _Item:
    """The items of a line as one, in their order, of the kind that matters most."""
    ordered = sorted(line, key=lambda item: item.position)
    first, best = ordered[0], max(ordered, key=lambda item: item.weight)
    text = "; ".join(item.bullet.text.rstrip(".") for item in ordered[:-1]) + "; " if len(ordered) > 1 else ""
    grips = tuple(dict.fromkeys(grip for item in ordered for grip in item.bullet.grip_ids))[:MAX_GRIPS]
    bullet = replace(first.bullet, text=text + ordered[-1].bullet.text, grip_ids=grips, kind=best.kind)
    return first._replace(bullet=bullet, terms=frozenset().union(*(item.terms for item in ordered)))


def _gain(item: _Item, chosen: Sequence[_Item], covered: set[str], share: float) -> float:
    fresh = len(item.terms - covered) / max(len(item.terms), 1)
    same_child = sum(1 for other in chosen if other.child == item.child)
    spread = math.pow(_SAME_CHILD, same_child / share) * math.sqrt(share)
    return item.weight * fresh * spread


def _placed(items: Sequence[_Item], level: Level, children: Sequence[Node]) -> list[_Item]:
    """The bullets of a day, each with its segment's title before it where it names nothing of that."""
    if level is not Level.DAY or len(children) < 2:
        return list(items)
    placed: list[_Item] = []
    named = -1
    for item in items:
        title = " ".join(_named(children[item.child])[0])
        text = f"{title} – {item.bullet.text}"
        clear = item.kind in _BY_USER or item.child == named or terms(title) & item.terms
        if title and not clear and len(text) <= _LONGEST:
            item = item._replace(bullet=replace(item.bullet, text=text))
        named = item.child
        placed.append(item)
    return placed


def _keywords(children: Sequence[Node], shares: Sequence[float]) -> tuple[str, ...]:
    scored: dict[str, float] = {}
    for child, share in zip(children, shares, strict=True):
        for rank, word in enumerate(child.keywords):
            scored[word] = scored.get(word, 0.0) + share / (1.0 + 0.2 * rank)
    return distinct(sorted(scored, key=lambda word: (-scored[word], word)), 2 * KEYWORDS)


class _Theme(NamedTuple):
    """A title that may stand for a period: how fit it is, how much each child is about it, and names that follow it."""

    text: str
    terms: frozenset[str]
    fit: float
    about: tuple[float, ...]
    names: tuple[str, ...]


def _topic(level: Level, children: Sequence[Node], keywords: Sequence[str], settled: Sequence[frozenset[str]]) -> str:
    """The themes that tell what most of the period was about, and names beside them: first their own.

    `settled` are the terms of what a later child closed or set right.
    """
    most = _MAX_NAMES[level is not Level.DAY]
    if len(children) == 1:
        themes, names = _named(children[0])
        return _with_names(_BETWEEN.join(themes), [*names, *keywords], most)
    chosen = _chosen(children, _themes(children, settled))
    own = [name for names in zip_longest(*(theme.names for theme in chosen)) for name in names if name]
    return _with_names(_BETWEEN.join(theme.text for theme in chosen), [*own, *keywords], most)


def _chosen(children: Sequence[Node], themes: Sequence[_Theme]) -> list[_Theme]:
    """Few themes, of which each next one tells most of what those before it leave untold."""
    left, chosen = list(themes), list[_Theme]()
    untold = _shares(children)
    while left and len(chosen) < _MAX_THEMES:
        theme = max(
            left, key=lambda theme: theme.fit * math.fsum(map(math.prod, zip(untold, theme.about, strict=True)))
        )
        alike = [other for other in left if similar(other.terms, theme.terms) >= _ALIKE]
        left.remove(theme)
        # What came of it is told by the last of those that are alike.
        named = [other for other in alike if other.fit >= theme.fit][-1:] or [theme]
        if not chosen or len(_BETWEEN.join(one.text for one in (*chosen, *named))) <= _MAX_CHARS:
            chosen += named
            untold = [share * (1.0 - told) for share, told in zip(untold, theme.about, strict=True)]
            left = [other for other in left if other not in alike]
    return chosen


def _with_names(topic: str, keywords: Sequence[str], most: int) -> str:
    """A topic with the first names that it does not hold, where there is room for them."""
    told, names = terms(topic), ""
    for word in keywords:
        longer = f"{names}, {word}" if names else word
        if not terms(word) & told and len(topic) + len(NAMES) + len(longer) <= _WITH_NAMES:
            told, names = told | terms(word), longer
            if names.count(", ") + 1 == most:
                break
    return f"{topic}{NAMES}{names}" if topic and names else topic or names


def _shares(children: Sequence[Node]) -> list[float]:
    """How much of the period each child makes up, where 1 is what they do on average.

    More where more was said beneath it, though not in proportion: else three weeks of work would leave nothing to be
    told of the rest of a year.
    """
    sizes = [math.pow(_LEAST + child.weight, _DAMPED) for child in children]
    mean = math.fsum(sizes) / len(sizes) if sizes else 1.0
    return [min(max(size / mean, _SMALLEST), _LARGEST) for size in sizes]


def _named(child: Node) -> tuple[list[str], tuple[str, ...]]:
    """What a child is about, and the names that follow: of a segment's title, or of what stands behind a date."""
    if child.level is not Level.SEGMENT:
        topic = child.title.removeprefix(child.ref.title).removeprefix(": ").partition(NAMES)[0]
        return [theme for theme in topic.split(_BETWEEN) if theme], ()
    title, own = child.title, tuple[str, ...]()
    for before, after in ((": ", ""), (" (", ")")):
        head, _, last = title.removesuffix(after).rpartition(before)
        if head and title.endswith(after) and set(last.split(", ")) <= set(child.keywords):
            title, own = head, tuple(last.split(", "))
            break
    return [title.replace(_BETWEEN, ", ").replace(NAMES, ", ")] if title else [], own


def _themes(children: Sequence[Node], settled: Sequence[frozenset[str]]) -> list[_Theme]:
    spoken = [
        frozenset().union(*map(terms, [child.title, *child.keywords, *(bullet.text for bullet in child.bullets)]))
        for child in children
    ]
    counts = Counter(term for own in spoken for term in own)
    found = []
    for index, child in enumerate(children):
        parts, names = _named(child)
        for rank, text in enumerate(parts):
            own = terms(text)
            most = 1.0 if len(parts) == 1 else _OF_CHILD[min(rank, _MAX_THEMES - 1)]
            about = [most * _spoken_of(own, other, counts) for other in spoken]
            if child.session_id:
                same = (_SAME_SESSION * most if other.session_id == child.session_id else 0.0 for other in children)
                about = list(map(max, about, same))
            about[index] = most
            found.append(_Theme(text, own, _fit(own, child, settled), tuple(about), names))
    return [theme for theme in found if _telling(theme.terms) >= _VAGUE] or found


def _spoken_of(theme: frozenset[str], spoken: frozenset[str], counts: Mapping[str, int]) -> float:
    """How much a child speaks of a theme, from 0 to 1; words that most children use tell less."""
    whole, told = (math.fsum(counts[term] ** -0.5 for term in sorted(own)) for own in (theme, theme & spoken))
    return max(0.0, (told / whole - _BY_CHANCE) / (1.0 - _BY_CHANCE)) if whole else 0.0


def _telling(theme: frozenset[str]) -> float:
    common = len(theme & COMMON_STEMS)
    return min(len(theme) - common + _COMMON * common, _TELLING) / _TELLING


def _fit(theme: frozenset[str], child: Node, settled: Sequence[frozenset[str]]) -> float:
    """How well a theme may stand for a period: does it tell enough, and did something come of it that stands?"""
    own = [bullet for bullet in child.bullets if child.level is Level.SEGMENT or theme & terms(bullet.text)]
    came = max((bullet.kind.weight for bullet in own if bullet.kind not in _PASSING), default=0.0)
    fit = _telling(theme) * min(max(came / 2, _NOTHING_CAME), 1.0)
    return fit * (_SETTLED if any(similar(theme, old) >= _ALIKE for old in settled) else 1.0)
