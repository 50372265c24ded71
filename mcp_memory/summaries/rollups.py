"""Rolling nodes up: a period's bullets are chosen from its children's and merged, its topic names their main themes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.nodes import Bullet, Kind, Node, RollupSummary
from mcp_memory.domain.text import folded, similar, terms
from mcp_memory.domain.toc import BULLETS, Level
from mcp_memory.summaries import cues
from mcp_memory.summaries.cues import assistant_kind, first_word, gives_reason
from mcp_memory.summaries.keywords import distinct, stems_of
from mcp_memory.summaries.phrases import headline, readability, word_count
from mcp_memory.summaries.topics import plainness, shares_of, topic_in, topic_of

MAX_GRIPS = 6
MAX_CHILDREN = 12
KEYWORDS = 7
_DUPLICATE = 0.55
_SAME_WORDS = 0.95
_RELATED = 0.2
_MAX_MERGED = 220


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
#: So many times as much as others a child is told of, however much lies beneath it.
_LARGEST = 2.0


#: What stands between a matter and what is said of it.
_PLACE = " – "
_LONGEST_MATTER = 10
#: The labels of what raises a matter; a request names one that reads so well by itself.
_ASKED = frozenset({Kind.REQUEST.label, Kind.REPORT.label, Kind.REMARK.label})
_READS_WELL = 0.85
_RAISED = 0.7
_SAME_MATTER_MS = 12 * 3_600_000


@dataclass(frozen=True, slots=True)
class _Item:
    """A child's bullet on its way up; `kind` is what it counts as, `matter` what it is about, where that is known."""

    bullet: Bullet
    child: int
    position: int
    kind: Kind
    terms: frozenset[str]
    weight: float
    matter: str

    @property
    def text(self) -> str:
        return self.bullet.shown


def roll_up(level: Level, children: Sequence[Node]) -> RollupSummary:
    """The summary of a period from its children, oldest first."""
    shares = shares_of(children, _LARGEST)
    weights = _term_weights(children, shares)
    topic = topic_of(children, weights)
    items = _without_repeats(_items(level, children, weights, topic))
    chosen = _choose(level, items, shares)
    told = _placed(_paired(chosen, items, level), level)
    return RollupSummary(topic, tuple(item.bullet for item in told), _keywords(children, shares))


def _term_weights(children: Sequence[Node], shares: Sequence[float]) -> dict[str, float]:
    """How much each term stands for the period: what children call keywords, more so when several do."""
    raw: dict[str, float] = {}
    for child, share in zip(children, shares, strict=True):
        for rank, word in enumerate(child.keywords):
            for part in stems_of(word):
                raw[part] = raw.get(part, 0.0) + share / (1.0 + 0.2 * rank)
        for part in {part for bullet in child.bullets for part in terms(bullet.shown)}:
            raw[part] = raw.get(part, 0.0) + 0.2 * share
    top = max(raw.values(), default=1.0)
    return {part: (value / top) ** 0.5 for part, value in raw.items()}


def _items(level: Level, children: Sequence[Node], weights: Mapping[str, float], topic: str) -> list[_Item]:
    themes = [own for theme in topic.split(", ") if (own := terms(theme))]
    found = []
    for index, child in enumerate(children):
        for position, (bullet, matter) in enumerate(zip(child.bullets, _matters_of(child), strict=True)):
            text, own, kind = bullet.shown, terms(bullet.shown), _counts_as(bullet)
            value = _priority(text, kind, position, level) * _told(text, own, level, weights, themes)
            value *= (_LATER if position else 1.0) * (1.0 if bullet.grip_ids else _UNPROVEN)
            risen = Bullet(bullet.text, bullet.grip_ids[:MAX_GRIPS], (child.node_id,), bullet.kind)
            found.append(_Item(risen, index, position, kind, own, value, matter))
    return found


def _counts_as(bullet: Bullet) -> Kind:
    """The kind by which a bullet is weighed: sentences by their wording alone, since they left their message behind."""
    return _COUNTS.get(bullet.kind) or assistant_kind(bullet.text)


_COUNTS = {Kind.COMMIT: Kind.OUTCOME, Kind.RESULT: Kind.DID, Kind.DID: Kind.DID, Kind.ERROR: Kind.ERROR} | {
    kind: kind for kind in (Kind.NOTE, Kind.REQUEST, Kind.REPORT)
}


def _priority(text: str, kind: Kind, position: int, level: Level) -> float:
    """How much a bullet matters by its kind: of longer periods one wants to know what came out."""
    value = kind.weight
    if level < Level.DAY:
        value += kind.later
    if kind is Kind.REQUEST and position and "?" in text:
        value *= _QUESTION
    if kind is Kind.DECISION:
        value += _REASONED if gives_reason(text) else 0.0
        value -= _ANNOUNCED if first_word(folded(text)) in cues.IMPERATIVES else 0.0
    return value


def _told(
    text: str, own: frozenset[str], level: Level, weights: Mapping[str, float], themes: Sequence[frozenset[str]]
) -> float:
    """How much of the period a bullet tells; one that leans on another tells less."""
    told = math.fsum(weights.get(term, 0.1) for term in own) / (3.0 + 0.6 * len(own))
    if level < Level.DAY:
        told *= plainness(text)
    told *= 1.0 + _ON_TOPIC * max((len(theme & own) / len(theme) for theme in themes), default=0.0)
    return told * _LEANING if cues.POINTS_BACK.match(folded(text)) else told


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
    told, one, two = best.bullet, first.bullet, second.bullet
    grips = tuple(dict.fromkeys(told.grip_ids + one.grip_ids + two.grip_ids))[:MAX_GRIPS]
    children = tuple(dict.fromkeys(one.child_ids + two.child_ids))[:MAX_CHILDREN]
    bullet = Bullet(told.text, grips, children, told.kind)
    return replace(first, bullet=bullet, kind=best.kind, terms=best.terms | first.terms, weight=best.weight * 1.1)


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
            asked = before.bullet
            grips = tuple(dict.fromkeys(asked.grip_ids + item.bullet.grip_ids))[:MAX_GRIPS]
            bullet = replace(asked, text=f"{asked.text.rstrip('.')}; {item.text}", grip_ids=grips)
            paired[-1] = replace(before, bullet=bullet, kind=item.kind)
        else:
            paired.append(item)
    low, _ = BULLETS[level]
    return paired if len(paired) >= min(low, len(items)) else list(chosen)


def _answers(item: _Item, request: _Item) -> bool:
    return (
        item.child == request.child
        and item.bullet.child_ids == request.bullet.child_ids
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
        by_user = item.bullet.kind.label == Kind.REMARK.label
        if item.kind in _SELF_TOLD or _placed_in(item.bullet) or (by_user and _tells(item)):
            named = item.matter
        elif item.matter and (level is Level.MONTH or item.matter != named) and not _tells(item):
            text = f"{item.matter}{_PLACE}{item.text}"
            if len(text) <= _MAX_MERGED:
                # The label now stands within the text.
                kind = next(kind for kind in (item.bullet.kind, item.kind, Kind.STATED) if not kind.label)
                named, item = item.matter, replace(item, bullet=replace(item.bullet, text=text, kind=kind))
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


def _matters_of(child: Node) -> list[str]:
    """The matter of each of a child's bullets; empty where it is not known.

    A segment is about one matter, and a period if its topic names only one. Else a bullet goes on with the matter that
    one before it names, if both come from the same place and were said within half a day.
    """
    if child.level is Level.SEGMENT:
        matter = child.title.partition("; ")[0]
    else:
        matter = topic_in(child)
        matter = "" if ", " in matter else f"{matter[:1].upper()}{matter[1:]}"
    whole = matter if word_count(matter) <= _LONGEST_MATTER and ": " not in matter else ""
    if whole or child.level is Level.SEGMENT:
        # What was told before the matter was raised is about another one.
        raised = _raised(whole, child.bullets) if child.level is Level.SEGMENT else 0
        return [_placed_in(one) or (whole if at >= raised else "") for at, one in enumerate(child.bullets)]
    matters: list[str] = []
    current = ""
    source: tuple[str, ...] = ()
    since = 0
    for bullet in child.bullets:
        # When its words were said, which its grips tell.
        parts = bullet.grip_ids[0].split(":") if bullet.grip_ids else []
        said = int(parts[1]) if len(parts) > 1 and parts[1].lstrip("-").isdecimal() else 0
        if bullet.child_ids != source or said - since > _SAME_MATTER_MS:
            current, source = "", bullet.child_ids
        since = said
        current = _placed_in(bullet) or current or _asked_for(bullet)
        matters.append(current)
    return matters


def _raised(matter: str, bullets: Sequence[Bullet]) -> int:
    """Where a matter is asked for or reported among the bullets of a segment; 0 if it is not."""
    theme = terms(matter)
    asked = (at for at, one in enumerate(bullets) if one.kind.label in _ASKED)
    return next((at for at in asked if theme and len(theme & terms(bullets[at].shown)) >= _RAISED * len(theme)), 0)


def _placed_in(bullet: Bullet) -> str:
    """The matter that stands before a bullet."""
    before, mark, _ = bullet.shown.partition(_PLACE)
    named = mark and 1 < word_count(before) <= _LONGEST_MATTER and ": " not in before and "`" not in before
    return before if named else ""


def _asked_for(bullet: Bullet) -> str:
    """The matter that a request names, if it reads well by itself."""
    asked = bullet.text if bullet.kind.label in _ASKED else ""
    named = headline(asked.partition("; ")[0], dict.fromkeys(terms(asked), 0.5)) if asked else ""
    return named if named and readability(named) >= _READS_WELL else ""
