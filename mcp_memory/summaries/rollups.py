"""Rolling nodes up: a period's bullets are chosen from its children's and merged, its topic names their main themes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.nodes import Bullet, Node, RollupSummary
from mcp_memory.domain.text import folded, similar, terms
from mcp_memory.domain.toc import BULLETS, Level
from mcp_memory.summaries import patterns
from mcp_memory.summaries.cues import PRIORITY, Kind, bullet_kind, gives_reason
from mcp_memory.summaries.keywords import distinct, stems_of
from mcp_memory.summaries.matters import PLACE, is_placed, matters_of
from mcp_memory.summaries.topics import plainness, shares_of, topic_of
from mcp_memory.summaries.wordings import first_word

MAX_GRIPS = 6
MAX_CHILDREN = 12
KEYWORDS = 7
_DUPLICATE = 0.55
_SAME_WORDS = 0.95
_RELATED = 0.2
_MAX_MERGED = 220


#: What kinds gain in longer periods, of which one wants to know what came out rather than what was asked.
_RESULTS = {
    Kind.OUTCOME: 0.4,
    Kind.DECISION: 0.5,
    Kind.SAID: 0.2,
    Kind.CAUSE: -0.1,
    Kind.FINDING: -0.3,
    Kind.REPORT: -0.5,
    Kind.REQUEST: -0.8,
}
_REASONED = 0.4
_QUESTION = 0.7
#: What is left of a bullet that is not its child's first, and of one without a grip.
_LATER, _UNPROVEN = 0.9, 0.5
_ON_TOPIC = 0.15
#: What an announced step loses that gives its reason, and what is left of a sentence that leans on another.
_ANNOUNCED, _LEANING = 0.7, 0.7
#: What tells by itself what it is about, or who said it.
_SELF_TOLD = frozenset({Kind.REQUEST, Kind.REPORT, Kind.NOTE, Kind.DID})
_NAMED = 0.5
_USER = "User: "
#: So many times as much as others a child is told of, however much lies beneath it.
_LARGEST = 2.0


@dataclass(frozen=True, slots=True)
class _Item:
    """A child's bullet on its way up."""

    text: str
    child: int
    position: int
    kind: Kind
    terms: frozenset[str]
    grip_ids: tuple[str, ...]
    child_ids: tuple[str, ...]
    weight: float = 0.0
    #: What it is about, where that is known.
    matter: str = ""


def roll_up(level: Level, children: Sequence[Node]) -> RollupSummary:
    """The summary of a period from its children, oldest first."""
    shares = shares_of(children, _LARGEST)
    weights = _term_weights(children, shares)
    topic = topic_of(children, weights)
    items = _without_repeats(_items(level, children, weights, topic))
    chosen = _choose(level, items, shares)
    told = _placed(_paired(chosen, items, level), level)
    bullets = tuple(Bullet(item.text, item.grip_ids, item.child_ids) for item in told)
    return RollupSummary(topic, bullets, _keywords(children, shares))


def _term_weights(children: Sequence[Node], shares: Sequence[float]) -> dict[str, float]:
    """How much each term stands for the period: what children call keywords, more so when several do."""
    raw: dict[str, float] = {}
    for child, share in zip(children, shares, strict=True):
        for rank, word in enumerate(child.keywords):
            for part in stems_of(word):
                raw[part] = raw.get(part, 0.0) + share / (1.0 + 0.2 * rank)
        for part in {part for bullet in child.bullets for part in terms(bullet.text)}:
            raw[part] = raw.get(part, 0.0) + 0.2 * share
    top = max(raw.values(), default=1.0)
    return {part: (value / top) ** 0.5 for part, value in raw.items()}


def _items(level: Level, children: Sequence[Node], weights: Mapping[str, float], topic: str) -> list[_Item]:
    themes = [own for theme in topic.split(", ") if (own := terms(theme))]
    found = []
    for index, child in enumerate(children):
        for position, (bullet, matter) in enumerate(zip(child.bullets, matters_of(child), strict=True)):
            text, own, kind = bullet.text, terms(bullet.text), bullet_kind(bullet.text)
            value = _priority(text, kind, position, level) * _told(text, own, level, weights, themes)
            value *= (_LATER if position else 1.0) * (1.0 if bullet.grip_ids else _UNPROVEN)
            grips = bullet.grip_ids[:MAX_GRIPS]
            found.append(_Item(text, index, position, kind, own, grips, (child.node_id,), value, matter))
    return found


def _priority(text: str, kind: Kind, position: int, level: Level) -> float:
    """How much a bullet matters by its kind: of longer periods one wants to know what came out."""
    value = PRIORITY[kind]
    if level < Level.DAY:
        value += _RESULTS.get(kind, 0.0)
    if kind is Kind.REQUEST and position and "?" in text:
        value *= _QUESTION
    if kind is Kind.DECISION:
        value += _REASONED if gives_reason(text) else 0.0
        value -= _ANNOUNCED if first_word(folded(text)) in patterns.IMPERATIVES else 0.0
    return value


def _told(
    text: str, own: frozenset[str], level: Level, weights: Mapping[str, float], themes: Sequence[frozenset[str]]
) -> float:
    """How much of the period a bullet tells; one that leans on another tells less."""
    told = math.fsum(weights.get(term, 0.1) for term in own) / (3.0 + 0.6 * len(own))
    if level < Level.DAY:
        told *= plainness(text)
    told *= 1.0 + _ON_TOPIC * max((len(theme & own) / len(theme) for theme in themes), default=0.0)
    return told * _LEANING if patterns.POINTS_BACK.match(folded(text)) else told


def _without_repeats(items: Iterable[_Item]) -> list[_Item]:
    """Near-duplicates as one, told by the best of them at the earliest place, with the grips of all."""
    kept: list[_Item] = []
    for item in items:
        # An equal one first: a merged bullet has the terms of several, and may resemble another bullet's twin.
        equal = next((index for index, other in enumerate(kept) if item.text == other.text), None)
        twin = equal if equal is not None else next((i for i, other in enumerate(kept) if _same(item, other)), None)
        if twin is None:
            kept.append(item)
        else:
            kept[twin] = _united(kept[twin], item)
    return kept


def _same(item: _Item, other: _Item) -> bool:
    limit = _DUPLICATE if (item.kind is Kind.REQUEST) is (other.kind is Kind.REQUEST) else _SAME_WORDS
    return similar(item.terms, other.terms) >= limit


def _united(first: _Item, second: _Item) -> _Item:
    best = second if second.weight > first.weight * 1.2 else first
    grips = tuple(dict.fromkeys(best.grip_ids + first.grip_ids + second.grip_ids))[:MAX_GRIPS]
    children = tuple(dict.fromkeys(first.child_ids + second.child_ids))[:MAX_CHILDREN]
    return replace(
        first,
        text=best.text,
        kind=best.kind,
        terms=best.terms | first.terms,
        grip_ids=grips,
        child_ids=children,
        weight=best.weight * 1.1,
    )


def _choose(level: Level, items: Sequence[_Item], shares: Sequence[float]) -> list[_Item]:
    """The items that together tell most of the period, spread over its children by what each makes up of it."""
    children = len(shares)
    low, high = BULLETS[level]
    # With a single child there is nothing to choose between, and what is left out here is missed above, too.
    count = min(high, max(low, round(len(items) * (0.6 if children > 1 else 1)), min(children, high)))
    chosen: list[_Item] = []
    covered: set[str] = set()
    rest = list(items)
    while rest and len(chosen) < count:
        best = max(
            rest, key=lambda item: (_gain(item, chosen, covered, shares[item.child]), -item.child, -item.position)
        )
        rest.remove(best)
        chosen.append(best)
        covered |= best.terms
    return sorted(chosen, key=lambda item: (item.child, item.position))


def _gain(item: _Item, chosen: Sequence[_Item], covered: set[str], share: float) -> float:
    fresh = len(item.terms - covered) / max(len(item.terms), 1)
    same_child = sum(1 for other in chosen if other.child == item.child)
    same_kind = sum(1 for other in chosen if other.kind is item.kind and other.child == item.child)
    spread = math.pow(0.55, same_child / share) * math.sqrt(share)
    return item.weight * (0.3 + 0.7 * fresh) * spread * 0.7**same_kind


def _paired(chosen: Sequence[_Item], items: Sequence[_Item], level: Level) -> list[_Item]:
    """Requests together with what came of them, where both fit on a line; of a day, that is what one wants to know."""
    paired: list[_Item] = []
    for item in chosen:
        before = paired[-1] if paired else None
        if level is Level.DAY and before and before.kind is Kind.REQUEST and _answers(item, before):
            grips = tuple(dict.fromkeys(before.grip_ids + item.grip_ids))[:MAX_GRIPS]
            paired[-1] = replace(before, text=f"{before.text.rstrip('.')}; {item.text}", grip_ids=grips, kind=item.kind)
        else:
            paired.append(item)
    low, _ = BULLETS[level]
    return paired if len(paired) >= min(low, len(items)) else list(chosen)


def _answers(item: _Item, request: _Item) -> bool:
    return (
        item.child == request.child
        and item.child_ids == request.child_ids
        and item.kind in (Kind.OUTCOME, Kind.CAUSE, Kind.DECISION)
        and similar(item.terms, request.terms) >= _RELATED
        and len(item.text) + len(request.text) + 2 <= _MAX_MERGED
    )


def _placed(items: Sequence[_Item], level: Level) -> list[_Item]:
    """The items, each with its matter before it where neither it nor the one above it names that.

    Beneath its own title a sentence needs no more; among those of other matters it cannot be understood alone. What
    rises from a month has lost its neighbours, so there each names its own.
    """
    if len({item.matter for item in items}) < 2:
        return list(items)
    placed: list[_Item] = []
    named = ""
    for item in items:
        if item.kind in _SELF_TOLD or is_placed(item.text) or (item.text.startswith(_USER) and _tells(item)):
            named = item.matter
        elif item.matter and (level is Level.MONTH or item.matter != named) and not _tells(item):
            text = f"{item.matter}{PLACE}{item.text}"
            if len(text) <= _MAX_MERGED:
                named, item = item.matter, replace(item, text=text)
        placed.append(item)
    return placed


def _tells(item: _Item) -> bool:
    """Whether it says by itself what it is about."""
    theme = terms(item.matter)
    return len(theme & terms(item.text)) >= _NAMED * len(theme)


def _keywords(children: Sequence[Node], shares: Sequence[float]) -> tuple[str, ...]:
    scored: dict[str, float] = {}
    for child, share in zip(children, shares, strict=True):
        for rank, word in enumerate(child.keywords):
            scored[word] = scored.get(word, 0.0) + share / (1.0 + 0.2 * rank)
    return distinct(sorted(scored, key=lambda word: (-scored[word], word)), KEYWORDS)
