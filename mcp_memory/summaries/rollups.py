"""Rolling nodes up: a period's bullets are chosen from its children's, in their last state, and its themes named."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from mcp_memory.domain.nodes import Bullet, Kind, Node, RollupSummary
from mcp_memory.domain.text import similar, terms
from mcp_memory.domain.toc import BULLETS, Level
from mcp_memory.summaries.keywords import distinct
from mcp_memory.summaries.themes import shares_of, themes_in, topic_of

MAX_GRIPS = 6
MAX_CHILDREN = 12
KEYWORDS = 7
_NAMES = 9
_LONGEST = 220
#: Texts that share so many of their terms say the same; a request and what came of it only if they hardly differ.
_DUPLICATE, _SAME_WORDS = 0.55, 0.95
#: So much of what was open a later text names that closes it, and so alike are a claim and the words that set it right.
_CLOSES, _CORRECTS = 0.5, 0.35
#: What is left of the next bullet of a child of which one is told.
_SAME_CHILD = 0.55
#: What is left of a bullet without a grip.
_UNPROVEN = 0.5
#: A bullet of fewer topical words tells less, and what weighs less than this is not told beside others.
_TELLING, _WORTH_TELLING = 6, 0.4

#: How much a bullet matters in a day, and above it, where one wants to know what came out rather than what was asked.
_MATTERS = {
    "note": (3.0, 3.0),
    "decision": (2.5, 2.5),
    "correction": (2.5, 2.0),
    "rule": (2.0, 2.0),
    "outcome": (2.0, 2.5),
    "fixed": (2.0, 2.5),
    "commit": (2.0, 2.5),
    "cause": (2.0, 2.0),
    "request": (1.3, 0.5),
    "open": (1.5, 1.5),
    "finding": (1.5, 1.0),
    "refused": (1.5, 1.0),
    "error": (1.0, 1.0),
    "remark": (1.0, 1.0),
    "said": (1.0, 1.0),
    "result": (1.0, 0.5),
    "stated": (1.0, 0.5),
    "report": (1.0, 0.5),
    "choice": (2.0, 2.5),
    "demand": (1.5, 1.5),
}
_ELSE = (0.5, 0.3)
#: What a later one of these ends: what was open or broken, and what was claimed.
_DONE, _PENDING = frozenset({"outcome", "fixed", "commit", "decision"}), frozenset({"open", "error"})
_SET_RIGHT = frozenset({"correction", "refused"})
#: What the user said is told in the user's words alone.
_BY_USER = frozenset({"request", "report", "correction", "rule", "remark", "decision", "refused"})
_APART = _PENDING | _SET_RIGHT | {"request"}
_CLAIMS = frozenset({"cause", "finding", "outcome", "decision", "stated", "said", "open", "error"})


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
    settled = [item for item in items if any(_settles(later, item) for later in items)]
    standing = _without_repeats(item for item in items if item not in settled)
    shares = shares_of(children)
    told = _placed(_choose(level, standing, shares), level, children)
    keywords = _keywords(children, shares)
    topic = topic_of(children, keywords, [item.terms for item in settled])
    return RollupSummary(topic, tuple(item.bullet for item in told), keywords[:KEYWORDS])


def _items(level: Level, children: Sequence[Node]) -> list[_Item]:
    found = []
    for index, child in enumerate(children):
        for position, bullet in enumerate(child.bullets):
            value = _MATTERS.get(bullet.kind, _ELSE)[level is not Level.DAY]
            value *= 1.0 if bullet.grip_ids else _UNPROVEN
            value *= min(len(terms(bullet.text)), _TELLING) / _TELLING
            risen = Bullet(bullet.text, bullet.grip_ids[:MAX_GRIPS], (child.node_id,), bullet.kind)
            found.append(_Item(risen, index, position, terms(bullet.text), value))
    return found


def refuted_in(children: Sequence[Node]) -> list[tuple[int, int]]:
    """Which bullets claim what a later child sets right: the child's place, and the bullet's in it."""
    items = _items(Level.DAY, children)
    return [(item.child, item.position) for item in items if any(_corrects(later, item) for later in items)]


def _settles(later: _Item, item: _Item) -> bool:
    """Whether a later child closes or mends what was open, or sets right what was claimed."""
    shared = len(later.terms & item.terms)
    closes = item.kind in _PENDING and later.kind in _DONE and shared >= max(2, _CLOSES * len(item.terms))
    return (later.child > item.child and closes) or _corrects(later, item)


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
    return similar(item.terms, other.terms) >= (_SAME_WORDS if apart else _DUPLICATE) and not (
        apart and ways & _PENDING
    )


def _united(first: _Item, second: _Item) -> _Item:
    best = second if second.weight >= first.weight else first
    told, one, two = best.bullet, first.bullet, second.bullet
    grips = tuple(dict.fromkeys(told.grip_ids + one.grip_ids + two.grip_ids))[:MAX_GRIPS]
    children = tuple(dict.fromkeys(one.child_ids + two.child_ids))[:MAX_CHILDREN]
    bullet = Bullet(told.text, grips, children, told.kind)
    return first._replace(bullet=bullet, terms=best.terms, weight=best.weight * 1.1)


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
        title = " ".join(themes_in(children[item.child]))
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
    return distinct(sorted(scored, key=lambda word: (-scored[word], word)), _NAMES)
