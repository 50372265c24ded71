"""Rolling nodes up: a period's bullets are chosen from its children's and merged, its topic names their main themes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mcp_memory import lexicon
from mcp_memory.domain.nodes import Bullet, Node, RollupSummary
from mcp_memory.domain.text import ELLIPSIS, folded, has_unspaced_script, one_line, similar, terms
from mcp_memory.domain.toc import BULLETS, Level
from mcp_memory.summaries import cues
from mcp_memory.summaries.cues import PRIORITY, Kind, bullet_kind, first_word, gives_reason
from mcp_memory.summaries.keywords import COMMON_STEMS, distinct, stems_of
from mcp_memory.summaries.matters import PLACE, is_placed, matters_of, topic_in
from mcp_memory.summaries.phrases import phrases, scored, worth
from mcp_memory.summaries.readability import readability, trimmed, word_count

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
        frozenset().union(*map(terms, [child.title, *child.keywords, *(bullet.text for bullet in child.bullets)]))
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
    said = "\n".join(bullet.text for bullet in child.bullets)
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
