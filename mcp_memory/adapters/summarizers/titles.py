"""Titles of segments: the phrase, or the two, that name what a conversation was about, in its own words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from mcp_memory.adapters.summarizers import patterns
from mcp_memory.adapters.summarizers.candidate import Candidate
from mcp_memory.adapters.summarizers.candidates import candidates
from mcp_memory.adapters.summarizers.cues import Kind
from mcp_memory.adapters.summarizers.keywords import Vocabulary, stems_of
from mcp_memory.adapters.summarizers.phrases import MAX_CHARS, MAX_WORDS, Phrase, phrases, word_count
from mcp_memory.adapters.summarizers.readability import MOST_READABLE, readability
from mcp_memory.domain.events import Event, Role
from mcp_memory.domain.text import ELLIPSIS, folded, has_unspaced_script, one_line, similar, terms

_POOL = 7
_MATTERS = 10
_SHORT = 6
_SECOND = 0.45
_DISTINCT = 0.25
_TELLS_ENOUGH = 1.0
_OPENING = 1.15

#: How well a kind of sentence names the matter of a conversation.
_FITNESS = {
    Kind.NOTE: 1.8,
    Kind.REQUEST: 2.2,
    Kind.REPORT: 2.2,
    Kind.ERROR: 1.1,
    Kind.SAID: 1.2,
    Kind.OUTCOME: 1.15,
    Kind.CAUSE: 1.1,
    Kind.FINDING: 1.0,
    Kind.DECISION: 1.1,
    Kind.OPEN: 0.9,
    Kind.RULE: 0.8,
    Kind.FIGURE: 0.7,
    Kind.STATED: 0.7,
    Kind.STEP: 0.9,
    Kind.PLANNED: 0.5,
    Kind.RESULT: 0.1,
    Kind.DID: 0.25,
    Kind.HEADING: 1.4,
}
_PREFIXED = frozenset({Kind.NOTE, Kind.REQUEST, Kind.REPORT, Kind.ERROR, Kind.SAID})
#: Kinds that raise a matter, so that two of them may share a title.
_RAISES = frozenset({Kind.NOTE, Kind.REQUEST, Kind.REPORT})

_LENGTH = (0.0, 0.3, 0.55, 0.8, 0.95, 1.0, 1.0, 1.0, 1.0, 0.95, 0.9)


def headline(sentence: str, weights: Mapping[str, float]) -> str:
    """The most telling five to ten words of a sentence, from whole clauses where possible."""
    rated = [(rough * readability(text), text) for rough, text in _rated(sentence, weights)]
    return max(rated, key=lambda entry: entry[0], default=(0.0, ""))[1]


def worth(title: str, weights: Mapping[str, float]) -> float:
    """How much a title tells: the weight of what it names, each thing once however many words its name has."""
    if has_unspaced_script(title):
        return _unspaced_worth(title, weights)
    told: dict[tuple[str, ...], float] = {}
    for word in title.split():
        parts = _named_by(word)
        if len(parts) == 1:
            if not parts[0].isdigit():
                told[parts] = weights.get(parts[0], 0.0)
        elif parts and not all(map(str.isdigit, parts)):
            ranked = sorted((weights.get(part, 0.0) for part in parts), reverse=True)
            told[parts] = ranked[0] + math.fsum(ranked[1:3]) * 0.3
    return math.fsum(told.values())


@lru_cache(maxsize=1 << 13)
def _named_by(word: str) -> tuple[str, ...]:
    return stems_of(word.strip("`'\".,;:()"))


def _unspaced_worth(title: str, weights: Mapping[str, float]) -> float:
    return math.fsum(weights.get(part, 0.0) for part in sorted(terms(title)))


def _rated(sentence: str, weights: Mapping[str, float]) -> list[tuple[float, str]]:
    """The phrases of a sentence, each once, with how fit they are but for how they read."""
    best: dict[str, Phrase] = {}
    for phrase in phrases(sentence):
        known = best.get(phrase.text)
        if known is None or (phrase.opens, phrase.stops) > (known.opens, known.stops):
            best[phrase.text] = phrase
    return [(_rough(phrase, weights), phrase.text) for phrase in best.values()]


def _rough(phrase: Phrase, weights: Mapping[str, float]) -> float:
    length = _LENGTH[min(word_count(phrase.text), MAX_WORDS)]
    told = math.pow(worth(phrase.text, weights) + 0.2, 1.25)
    return told * length * phrase.opens * (1.2 if phrase.stops else 1.0)


def scored(phrase: Phrase, weights: Mapping[str, float]) -> float:
    """How fit a phrase is as a title."""
    return _rough(phrase, weights) * readability(phrase.text)


class _Option(NamedTuple):
    """A phrase that could be the title, or half of it; `rough` is how fit it is but for how it reads."""

    rough: float
    text: str
    pick: Candidate

    @property
    def score(self) -> float:
        return self.rough * readability(self.text)

    @property
    def rank(self) -> tuple[float, int, str]:
        """What sorts the fittest first, and always the same one of equals."""
        return -self.score, self.pick.order, self.text


def title_of(found: Sequence[Candidate], context: Sequence[Event], vocabulary: Vocabulary) -> str:
    """The phrase that names the matter best, together with a second matter where both fit."""
    weights = vocabulary.weights
    options = [
        _Option(value * rough, text, pick)
        for value, pick in _pool(found, weights)
        for rough, text in _rated(_sentence(pick), weights)
    ]
    if not options:
        return ""
    best = _fittest(options)
    if best.pick.kind in (Kind.DID, Kind.NOISE, Kind.PLANNED) and (task := _task_before(context, weights)):
        return _enriched(task, found, vocabulary)
    return _joined(best, options) or _enriched(best.text, found, vocabulary)


def _fittest(options: Sequence[_Option]) -> _Option:
    """The fittest option. How well a phrase reads takes time to tell, so it is told only of those that may be it."""
    first, *rest = sorted(options, key=lambda option: -option.rough)
    for option in rest:
        if option.rough * MOST_READABLE < first.score:
            break
        first = min(first, option, key=lambda one: one.rank)
    return first


def _pool(found: Sequence[Candidate], weights: Mapping[str, float]) -> list[tuple[float, Candidate]]:
    """The few candidates worth making a title of, with how fit each is; earlier ones of a kind come first."""
    seen: dict[Kind, int] = {}
    turns = Counter(pick.turn for pick in found)
    opening = next((pick.turn for pick in found if pick.event.role is Role.USER), -1)
    rated = []
    for pick in found:
        rank = seen[pick.kind] = seen.get(pick.kind, 0) + 1
        value = _fitness(pick, opening) * (0.88 if pick.kind in _RAISES else 0.95) ** (rank - 1)
        value *= (1.0 + max(pick.bonus, -0.5) * 0.4) * (0.45 if pick.listed else 1.0)
        value *= (0.8 + 0.5 * turns[pick.turn] / len(found)) * (_OPENING if pick.turn == opening else 1.0)
        told = math.fsum([weights.get(term, 0.0) for term in terms(pick.text)])
        rated.append((value * told, value, pick))
    rated.sort(key=lambda entry: (-entry[0], entry[2].order))
    return [(value, pick) for _, value, pick in rated[:_POOL]]


def _fitness(pick: Candidate, opening: int) -> float:
    """How well a candidate's kind names the matter; with whatever words a user opens, they are about it."""
    told_first = pick.kind in (Kind.SAID, Kind.RULE) and pick.turn == opening and pick.text.startswith("User: ")
    return _FITNESS[Kind.REPORT] if told_first else _FITNESS.get(pick.kind, 0.5)


def _joined(best: _Option, options: Sequence[_Option]) -> str:
    """Two matters of one conversation as one title, if the second is nearly as weighty and both can be said shortly."""
    if best.pick.kind not in _RAISES or has_unspaced_script(best.text):
        return ""
    firsts = _short_ones([option for option in options if option.pick is best.pick])
    # Long phrases score high; what is compared is how shortly each matter can be said.
    low = _SECOND * max((option.score for option in firsts), default=math.inf)
    others = [one for one in options if one.pick.kind in _RAISES and one.pick.turn != best.pick.turn]
    told = terms(best.text)
    seconds = [
        option
        for option in _short_ones([one for one in others if one.rough * MOST_READABLE >= low])
        if option.score >= low and similar(terms(option.text), told) < _DISTINCT
    ]
    if not seconds:
        return ""
    seconds = _short_ones([option for option in options if option.pick is seconds[0].pick])
    fitting = [
        (first.score + other.score, first, other)
        for first in firsts
        for other in seconds
        if word_count(first.text) + word_count(other.text) <= MAX_WORDS
    ]
    if not fitting:
        return ""
    _, first, other = max(fitting, key=lambda entry: entry[0])
    pair = sorted((first, other), key=lambda option: option.pick.order)
    title = f"{pair[0].text}; {_lowered(pair[1].text, pair[1].pick.text)}"
    return title if len(title) <= MAX_CHARS else ""


def _short_ones(options: Sequence[_Option]) -> list[_Option]:
    """Those that can stand as half of a title, fittest first."""
    return sorted((option for option in options if _is_short(option)), key=lambda option: option.rank)


def _is_short(option: _Option) -> bool:
    """Whether it can stand as one half of a title."""
    whole = not any(mark in option.text for mark in (": ", ", ", "; "))
    return whole and 3 <= word_count(option.text) <= _SHORT and readability(option.text) >= 0.85


def _lowered(text: str, source: str) -> str:
    """The second half of a title, with a small letter if that is how it was said."""
    first = text.split(" ", 1)[0]
    return text[:1].lower() + text[1:] if first.lower() in source else text


def _task_before(context: Sequence[Event], weights: Mapping[str, float]) -> str:
    """The task a segment carries on with, when in itself nothing but work was done."""
    before = [pick for pick in candidates(context) if pick.kind not in (Kind.DID, Kind.PLANNED, Kind.HEADING)]
    titles = (headline(_sentence(pick), weights) for pick in sorted(before, key=lambda pick: -_FITNESS[pick.kind]))
    return next((title for title in titles if word_count(title) >= 3 and readability(title) >= 0.6), "")


def _sentence(pick: Candidate) -> str:
    """A bullet as a sentence to make a title of."""
    if pick.kind is Kind.DID:
        return ", ".join(pick.text.partition(" and ")[0].split(", ")[:3])
    prefix, _, body = pick.text.partition(": ")
    prefixed = pick.kind in _PREFIXED or prefix in ("Committed", "User")
    return (body if prefixed and body else pick.text).rstrip("…")


def _enriched(title: str, found: Sequence[Candidate], vocabulary: Vocabulary) -> str:
    """A title that tells little together with the files or terms of the segment, so that `Fix tests` says which."""
    if word_count(title) > 7 or (word_count(title) > 2 and worth(title, vocabulary.weights) >= _TELLS_ENOUGH):
        return title
    edited = next((pick for pick in found if pick.kind is Kind.DID and pick.text.startswith("Edited ")), None)
    if edited and patterns.IMPERATIVE.match(folded(title)):
        names = [name for name in edited.text[7:].split(" and ")[0].split(", ") if name not in title]
        if names:
            return f"{title} in {' and '.join(names[:2])}"
    ran = next((pick for pick in found if pick.kind is Kind.DID and pick.text.startswith("Ran ")), None)
    if ran and title.startswith("Edited") and word_count(title) < 4:
        return f"{title} and ran {one_line(ran.text[4:].split('`')[1], 40).rstrip(ELLIPSIS)}"
    if word_count(title) > 2:
        return title
    known = {part for word in title.split() for part in stems_of(word)}
    further = [word for word in vocabulary.keywords(_MATTERS, by_name=False) if not known & set(stems_of(word))][:2]
    return f"{title}: {', '.join(further)}" if further and title else title
