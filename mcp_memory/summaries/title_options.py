"""The phrases of a conversation that could be its title, and how fit each of them is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from mcp_memory.domain.text import folded, terms
from mcp_memory.summaries import cues, patterns
from mcp_memory.summaries.candidate import Candidate
from mcp_memory.summaries.cues import Kind
from mcp_memory.summaries.finishing import word_count
from mcp_memory.summaries.fitness import rated, worth
from mcp_memory.summaries.readability import MOST_READABLE, readability

_POOL = 7
#: How much better what a user opens with names the matter, and what is answered to it.
_OPENING, _ANSWERING = 1.3, 1.15
#: How much better still the words do with which a session begins.
_BEGINNING = 1.25
#: How much better the subject of a commit does than other outcomes: it was written as a title.
_COMMITTED = 1.6
#: What is left of an item of a list.
_LISTED = 0.45
#: What is left of each further candidate of a kind that raises a matter, and of any other kind.
_FURTHER_RAISED, _FURTHER = 0.88, 0.95
#: A phrase that names something has so many words.
NAMING = 3
TELLS_ENOUGH = 1.0
#: How well a phrase reads that names something at all, and one that can stand for a task.
READABLE, TASK = 0.6, 0.7

#: How well a kind of sentence names the matter of a conversation.
FITNESS = {
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
    Kind.HEADING: 1.6,
}
#: The same for a question in the course of a session.
_ASKED_ON_THE_WAY = 1.2
_USER = "User: "
#: Kinds that raise a matter, so that two of them may share a title.
RAISES = frozenset({Kind.NOTE, Kind.REQUEST, Kind.REPORT})
#: Kinds of a user's words that may open a conversation without asking for anything.
_TOLD = frozenset({Kind.SAID, Kind.RULE, Kind.DECISION})
_PREFIXED = frozenset({Kind.NOTE, Kind.REQUEST, Kind.REPORT, Kind.ERROR, Kind.SAID})


class Option(NamedTuple):
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


def options_of(found: Sequence[Candidate], weights: Mapping[str, float], *, begins: bool) -> list[Option]:
    """The phrases of the candidates worth making a title of; `begins` tells that a session does."""
    return phrased(_pool(found, weights, begins=begins), weights, _opening(found) if begins else -1)


def phrased(pool: Iterable[tuple[float, Candidate]], weights: Mapping[str, float], beginning: int = -1) -> list[Option]:
    """The phrases of candidates, given with how fit each is; `beginning` is the turn with which a session begins."""
    options: list[Option] = []
    for value, pick in pool:
        said = rated(sentence_of(pick), weights, asked=pick.kind in (Kind.REQUEST, Kind.REPORT))
        if pick.turn == beginning and _begins(pick, said):
            value *= _BEGINNING
        options += [Option(value * rough, text, pick) for rough, text in said]
    return options


def fittest(options: Sequence[Option]) -> Option:
    """The fittest option. How well a phrase reads takes time to tell, so it is told only of those that may be it."""
    first, *rest = sorted(options, key=lambda option: -option.rough)
    for option in rest:
        if option.rough * MOST_READABLE < first.score:
            break
        first = min(first, option, key=lambda one: one.rank)
    return first


def raises_matter(options: Iterable[Option], weights: Mapping[str, float]) -> bool:
    """Whether any of them raises a matter and names it."""
    return any(_raises(one.pick) and names_matter(one, weights) for one in options)


def _raises(pick: Candidate) -> bool:
    """Whether it raises a matter: a request, a report, or other words with which a user opens."""
    return pick.kind in RAISES or (pick.turn == 1 and _is_told(pick))


def _is_told(pick: Candidate) -> bool:
    return pick.kind in _TOLD and pick.text.startswith(_USER)


def names_matter(option: Option, weights: Mapping[str, float]) -> bool:
    """Whether a phrase says of itself what it is about, unlike `fix all of them`."""
    return (
        word_count(option.text) >= NAMING
        and readability(option.text) >= READABLE
        and worth(option.text, weights) >= TELLS_ENOUGH * 0.8
    )


def sentence_of(pick: Candidate) -> str:
    """A bullet as a sentence to make a title of."""
    if pick.kind is Kind.DID:
        return ", ".join(pick.text.partition(" and ")[0].split(", ")[:3])
    prefix, _, body = pick.text.partition(": ")
    prefixed = pick.kind in _PREFIXED or prefix in ("Committed", "User")
    return (body if prefixed and body else pick.text).rstrip("…")


def _opening(found: Sequence[Candidate]) -> int:
    """The turn in which a user first says something."""
    return next((pick.turn for pick in found if pick.by_user), -1)


def _begins(pick: Candidate, said: Iterable[tuple[float, str]]) -> bool:
    """Whether it gives a session its task by itself; `check the comments` is only the way to it."""
    if not pick.by_user or patterns.INSPECTION.match(folded(sentence_of(pick))):
        return False
    return any(readability(text) >= TASK for _, text in said)


def _pool(found: Sequence[Candidate], weights: Mapping[str, float], *, begins: bool) -> list[tuple[float, Candidate]]:
    """The few candidates worth making a title of, with how fit each is; earlier ones of a kind come first."""
    seen: Counter[Kind] = Counter()
    turns = Counter(pick.turn for pick in found)
    opening = _opening(found)
    asked = any(pick.turn == opening and pick.kind is Kind.REQUEST for pick in found)
    ranked = []
    for pick in found:
        value = _fitness(pick, opening, asked, begins)
        value *= (_FURTHER_RAISED if pick.kind in RAISES else _FURTHER) ** seen[pick.kind]
        value *= _by_form(pick)
        value *= 0.8 + 0.5 * turns[pick.turn] / len(found)
        if pick.turn == opening:
            value *= _OPENING if pick.by_user else _ANSWERING
        told = math.fsum(map(weights.get, terms(pick.text), repeat(0.0)))
        ranked.append((value * told, value, pick))
        seen[pick.kind] += 1
    ranked.sort(key=lambda entry: (-entry[0], entry[2].order))
    return [(value, pick) for _, value, pick in ranked[:_POOL]]


def _fitness(pick: Candidate, opening: int, asked: bool, begins: bool) -> float:
    """How well a candidate's kind names the matter; with whatever words a user opens, they are about it.

    Unless the user goes on to ask for something: then they only lead up to that. A question in the course of a session
    is asked on the way.
    """
    if pick.kind is Kind.REQUEST and not (begins and pick.turn == opening) and cues.asks_only(sentence_of(pick)):
        return _ASKED_ON_THE_WAY
    if pick.turn == opening and not asked and _is_told(pick):
        return FITNESS[Kind.REPORT]
    return FITNESS[pick.kind]


def _by_form(pick: Candidate) -> float:
    value = (1.0 + max(pick.bonus, -0.5) * 0.4) * (_LISTED if pick.listed else 1.0)
    return value * _COMMITTED if pick.text.startswith("Committed: ") else value
