"""Titles of segments: the phrase, or the two, that name what a conversation was about, in its own words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from mcp_memory.adapters.summarizers import cues, patterns
from mcp_memory.adapters.summarizers.candidate import Candidate
from mcp_memory.adapters.summarizers.candidates import candidates
from mcp_memory.adapters.summarizers.cues import Kind
from mcp_memory.adapters.summarizers.fitness import rated, worth
from mcp_memory.adapters.summarizers.keywords import Passage, Vocabulary, stems_of
from mcp_memory.adapters.summarizers.messages import spoken
from mcp_memory.adapters.summarizers.phrases import MAX_CHARS, MAX_WORDS, word_count
from mcp_memory.adapters.summarizers.readability import MOST_READABLE, is_generic, names_something, readability
from mcp_memory.domain.events import Event, Role
from mcp_memory.domain.text import ELLIPSIS, folded, has_unspaced_script, one_line, similar, terms

_POOL = 7
_MATTERS = 10
#: So many names tell a segment apart from others of its task.
_FURTHER = 2
_SHORT = 6
_SECOND = 0.3
#: A matter is said shortly only if that says so much of what can be said of it.
_SHORTER = 0.2
_DISTINCT = 0.25
#: So many of its words a short form has in common with what it stands for.
_PART = 0.5
_TELLS_ENOUGH = 1.0
#: How much better what a user opens with names the matter, and what is answered to it.
_OPENING, _ANSWERING = 1.3, 1.15
#: How much better the subject of a commit does than other outcomes: it was written as a title.
_COMMITTED = 1.6
#: How much better still the words do with which a session begins.
_BEGINNING = 1.25
_ASKED_CHARS, _BEFORE = 2_000, 0.8
#: A title has so many words at least, where there is more to say; a phrase that names something has these.
_SHORTEST, _NAMING = 5, 3
#: How well a phrase reads that names something at all, and one that can stand for a whole task.
_READABLE, _TASK, _WHOLE = 0.6, 0.7, 0.85

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
    Kind.HEADING: 1.6,
}
#: The same for a question in the course of a session.
_ASKED_ON_THE_WAY = 1.2
_USER = "User: "
#: Kinds of a user's words that may open a conversation without asking for anything.
_TOLD = frozenset({Kind.SAID, Kind.RULE, Kind.DECISION})
_PREFIXED = frozenset({Kind.NOTE, Kind.REQUEST, Kind.REPORT, Kind.ERROR, Kind.SAID})
#: Kinds that raise a matter, so that two of them may share a title.
_RAISES = frozenset({Kind.NOTE, Kind.REQUEST, Kind.REPORT})

#: Kinds that say what came of a task, so that they may name it.
_RESULTS = frozenset({Kind.OUTCOME, Kind.CAUSE, Kind.DECISION, Kind.HEADING, Kind.ERROR})
#: Kinds that say what is about to be done, which alone is no title.
_STEPS = frozenset({Kind.PLANNED, Kind.STEP, Kind.DID, Kind.RESULT})
#: Kinds that are said on the way, of what is not named again.
_IN_PASSING = frozenset({Kind.OPEN, Kind.FINDING, Kind.STATED, Kind.PLANNED})
#: Kinds that tell of tools rather than of the matter.
_DULL = frozenset({Kind.DID, Kind.RESULT, Kind.NOISE})


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
    options = _options(_pool(found, weights, begins=not context), weights, -1 if context else _opening(found))
    if not options:
        return ""
    fresh = [one for one in options if not _was_said(one.pick, context)]
    if any(_names_matter(one, weights) for one in fresh if _raises(one.pick)):
        options = fresh
    if plan := _agreed_plan(found, weights):
        return plan
    best = _fittest(options)
    if not any(_names_matter(one, weights) for one in options if _raises(one.pick)):
        task = _task_before(context, weights)
        if task:
            return _carried(task, best, options, weights, _names(found, vocabulary))
    return _joined(best, options) or _completed(best, options) or _enriched(best, found, vocabulary)


def _agreed_plan(found: Sequence[Candidate], weights: Mapping[str, float]) -> str:
    """The heading of a plan that the user agreed to, if it names a matter: it was written to be the task's name."""
    headings = [(1.0, pick) for pick in found if pick.kind is Kind.HEADING and pick.event.role is Role.TOOL]
    options = [one for one in _options(headings[-1:], weights) if _names_matter(one, weights)]
    return _fittest(options).text if options else ""


def _was_said(pick: Candidate, context: Sequence[Event]) -> bool:
    """Whether a user's words were said before the segment, as when a session is gone on with by the same words."""
    if pick.event.role is not Role.USER:
        return False
    said = pick.event.text[pick.start : pick.end]
    return any(said in event.text for event in context if event.role is Role.USER)


def _raises(pick: Candidate) -> bool:
    """Whether it raises a matter: a request, a report, or other words with which a user opens."""
    return pick.kind in _RAISES or (pick.kind in _TOLD and pick.turn == 1 and pick.text.startswith(_USER))


def _options(
    pool: Iterable[tuple[float, Candidate]], weights: Mapping[str, float], beginning: int = -1
) -> list[_Option]:
    """The phrases of the pool; `beginning` is the turn with which the session begins, if it does here."""
    options: list[_Option] = []
    for value, pick in pool:
        said = rated(_sentence(pick), weights, asked=pick.kind in (Kind.REQUEST, Kind.REPORT))
        if pick.turn == beginning and _begins(pick, said):
            value *= _BEGINNING
        options += [_Option(value * rough, text, pick) for rough, text in said]
    return options


def _opening(found: Sequence[Candidate]) -> int:
    """The turn in which a user first says something."""
    return next((pick.turn for pick in found if pick.event.role is Role.USER), -1)


def _begins(pick: Candidate, rated: Iterable[tuple[float, str]]) -> bool:
    """Whether it gives a session its task by itself; `check the comments` is only the way to it."""
    if pick.event.role is not Role.USER or patterns.INSPECTION.match(folded(_sentence(pick))):
        return False
    return any(readability(text) >= _TASK for _, text in rated)


def _names_matter(option: _Option, weights: Mapping[str, float]) -> bool:
    """Whether a phrase says of itself what it is about, unlike `fix all of them`."""
    return (
        word_count(option.text) >= _NAMING
        and readability(option.text) >= _READABLE
        and worth(option.text, weights) >= _TELLS_ENOUGH * 0.8
    )


def _carried(
    task: Sequence[_Option],
    best: _Option,
    options: Sequence[_Option],
    weights: Mapping[str, float],
    names: Iterable[str],
) -> str:
    """The title of a segment that goes on with a task: what came of it if that says enough, else the task with it.

    The segment in which the task was given bears its name already; this one is told apart by `names` at least.
    """
    told = worth(best.text, weights) * (1.0 if best.pick.kind in _RESULTS else 0.0 if best.pick.kind in _STEPS else 0.5)
    reads = readability(best.text) >= (_READABLE if best.pick.kind is Kind.HEADING else _WHOLE)
    if word_count(best.text) >= _SHORTEST and reads and told >= _TELLS_ENOUGH:
        return best.text
    own = _short_ones([one for one in options if one.pick.kind not in _DULL and not _only_looks(one)], _TASK)
    return _pair(_short_ones(task, _TASK), own) or _distinguished(_fittest(task).text, names)


def _distinguished(task: str, names: Iterable[str]) -> str:
    """A task with what was worked on, as far as there is room."""
    further: list[str] = []
    for name in names:
        title = f"{task}: {', '.join([*further, name])}"
        if len(further) < _FURTHER and word_count(title) <= MAX_WORDS and len(title) <= MAX_CHARS and name not in task:
            further.append(name)
    return f"{task}: {', '.join(further)}" if further else task


def _names(found: Sequence[Candidate], vocabulary: Vocabulary) -> Iterable[str]:
    """What was worked on: what the user named, files that were changed, then what one would look for."""
    known = vocabulary.keywords(_MATTERS)
    said = " ".join(pick.text for pick in found if pick.event.role is Role.USER)
    edited = next((pick for pick in found if pick.kind is Kind.DID and pick.text.startswith("Edited ")), None)
    files = edited.text[7:].partition(" and ")[0].split(", ") if edited else []
    return dict.fromkeys(name for name in [*(name for name in known if name in said), *files, *known] if _is_name(name))


def _is_name(word: str) -> bool:
    return names_something(word) and " " not in word


def _only_looks(option: _Option) -> bool:
    """Whether it announces a look at something: `check each one`."""
    return option.pick.kind is Kind.PLANNED and patterns.INSPECTION.match(folded(option.text)) is not None


def _fittest(options: Sequence[_Option]) -> _Option:
    """The fittest option. How well a phrase reads takes time to tell, so it is told only of those that may be it."""
    first, *rest = sorted(options, key=lambda option: -option.rough)
    for option in rest:
        if option.rough * MOST_READABLE < first.score:
            break
        first = min(first, option, key=lambda one: one.rank)
    return first


def _pool(found: Sequence[Candidate], weights: Mapping[str, float], *, begins: bool) -> list[tuple[float, Candidate]]:
    """The few candidates worth making a title of, with how fit each is; earlier ones of a kind come first."""
    seen: dict[Kind, int] = {}
    turns = Counter(pick.turn for pick in found)
    opening = _opening(found)
    asked = any(pick.turn == opening and pick.kind is Kind.REQUEST for pick in found)
    rated = []
    for pick in found:
        rank = seen[pick.kind] = seen.get(pick.kind, 0) + 1
        value = _fitness(pick, opening, asked, begins) * (0.88 if pick.kind in _RAISES else 0.95) ** (rank - 1)
        value *= (1.0 + max(pick.bonus, -0.5) * 0.4) * (0.45 if pick.listed else 1.0)
        value *= _COMMITTED if pick.text.startswith("Committed: ") else 1.0
        value *= 0.8 + 0.5 * turns[pick.turn] / len(found)
        if pick.turn == opening:
            value *= _OPENING if pick.event.role is Role.USER else _ANSWERING
        told = math.fsum(map(weights.get, terms(pick.text), repeat(0.0)))
        rated.append((value * told, value, pick))
    rated.sort(key=lambda entry: (-entry[0], entry[2].order))
    return [(value, pick) for _, value, pick in rated[:_POOL]]


def _fitness(pick: Candidate, opening: int, asked: bool, begins: bool) -> float:
    """How well a candidate's kind names the matter; with whatever words a user opens, they are about it.

    Unless the user goes on to ask for something: then they only lead up to that. A question in the course of a session
    is asked on the way.
    """
    if pick.kind is Kind.REQUEST and not (begins and pick.turn == opening) and cues.asks_only(_sentence(pick)):
        return _ASKED_ON_THE_WAY
    told_first = pick.kind in _TOLD and pick.turn == opening and pick.text.startswith(_USER)
    return _FITNESS[Kind.REPORT] if told_first and not asked else _FITNESS.get(pick.kind, 0.5)


def _joined(best: _Option, options: Sequence[_Option]) -> str:
    """Two matters of one conversation as one title, if the second is nearly as weighty and both can be said shortly."""
    if best.pick.kind not in _RAISES or has_unspaced_script(best.text):
        return ""
    least = _SHORTER * best.score
    told = terms(best.text)
    firsts = [
        one
        for one in _short_ones([one for one in options if one.pick is best.pick])
        if one.score >= least and (len(terms(one.text) & told) >= _PART * len(terms(one.text)) or _opens(one, best))
    ]
    # Long phrases score high; what is compared is how shortly each matter can be said.
    low = _SECOND * max((option.score for option in firsts), default=math.inf)
    others = [one for one in options if one.pick.kind in _RAISES and one.pick.turn != best.pick.turn]
    seconds = [
        option
        for option in _short_ones([one for one in others if one.rough * MOST_READABLE >= low])
        if option.score >= low and similar(terms(option.text), told) < _DISTINCT
    ]
    if not seconds:
        return ""
    return _pair(firsts, _short_ones([option for option in options if option.pick is seconds[0].pick]))


def _opens(option: _Option, best: _Option) -> bool:
    """Whether a phrase stands before another of the same words: what comes first says what all of it is about."""
    said = _sentence(best.pick).lower()
    places = [said.find(one.text.partition(" ")[0].lower()) for one in (option, best)]
    return 0 <= places[0] < places[1]


def _completed(best: _Option, options: Sequence[_Option]) -> str:
    """A title of few words together with what else was said of the matter."""
    if word_count(best.text) >= _SHORTEST or has_unspaced_script(best.text) or not _is_one(best.text):
        return ""
    told = terms(best.text)
    others = [
        one
        for one in options
        if one.pick.event is not best.pick.event
        and one.pick.bonus >= 0.0
        and one.pick.kind not in _DULL
        and similar(terms(one.text), told) < _DISTINCT * 2
    ]
    return _pair([best], _short_ones(others))


def _pair(firsts: Sequence[_Option], seconds: Sequence[_Option]) -> str:
    """Two phrases as one title, in the order in which they were said; nothing if no two of them fit."""
    fitting = [
        (first.score + other.score, first, other)
        for first in firsts
        for other in seconds
        if word_count(first.text) + word_count(other.text) <= MAX_WORDS
        and similar(terms(first.text), terms(other.text)) < _DISTINCT * 2
    ]
    if not fitting:
        return ""
    _, first, other = max(fitting, key=lambda entry: entry[0])
    pair = (first, other)
    if first.pick.event.timestamp_ms > other.pick.event.timestamp_ms or (
        first.pick.event is other.pick.event and first.pick.order > other.pick.order
    ):
        pair = (other, first)
    title = f"{pair[0].text}; {_lowered(pair[1].text, pair[1].pick.text)}"
    return title if len(title) <= MAX_CHARS else ""


def _short_ones(options: Sequence[_Option], reads: float = _WHOLE) -> list[_Option]:
    """Those that can stand as half of a title, fittest first."""
    return sorted((option for option in options if _is_short(option, reads)), key=lambda option: option.rank)


def _is_short(option: _Option, reads: float = _WHOLE) -> bool:
    """Whether it can stand as one half of a title: few words that read so well."""
    least = _NAMING + option.text.startswith(("The ", "A ", "An "))
    return _is_one(option.text) and least <= word_count(option.text) <= _SHORT and readability(option.text) >= reads


def _is_one(text: str) -> bool:
    """Whether it is no list and has no parts, which another half would be taken for one more of."""
    return not any(mark in text for mark in (": ", ", ", "; "))


def _lowered(text: str, source: str) -> str:
    """The second half of a title, with a small letter if it was said so, or if it only opened a sentence."""
    first, _, rest = text.partition(" ")
    opened = first[1:].islower() and first in (source.partition(" ")[0], source.partition(": ")[2].partition(" ")[0])
    ordinary = opened and rest[:1].islower()
    return text[:1].lower() + text[1:] if ordinary or first.lower() in source else text


def _task_before(context: Sequence[Event], weights: Mapping[str, float]) -> list[_Option]:
    """The phrases of the task a segment carries on with: of the last request before it that names a matter."""
    asked = [event for event in context if event.role is Role.USER and event.says_something]
    # What the task is about may hardly be named again while it is worked on.
    own = Vocabulary(Passage(spoken(event.text)[:_ASKED_CHARS], 1.0) for event in asked).weights
    weights = {part: max(value * _BEFORE, weights.get(part, 0.0)) for part, value in own.items()}
    by_turn: dict[int, list[Candidate]] = {}
    for pick in candidates(asked):
        if pick.kind in _RAISES:
            by_turn.setdefault(pick.turn, []).append(pick)
    for picks in reversed(by_turn.values()):
        options = _options([(_FITNESS[pick.kind] + pick.bonus, pick) for pick in picks], weights)
        naming = [one for one in options if _names_matter(one, weights) and readability(one.text) >= _TASK]
        if naming:
            return naming
    return []


def _sentence(pick: Candidate) -> str:
    """A bullet as a sentence to make a title of."""
    if pick.kind is Kind.DID:
        return ", ".join(pick.text.partition(" and ")[0].split(", ")[:3])
    prefix, _, body = pick.text.partition(": ")
    prefixed = pick.kind in _PREFIXED or prefix in ("Committed", "User")
    return (body if prefixed and body else pick.text).rstrip("…")


def _enriched(best: _Option, found: Sequence[Candidate], vocabulary: Vocabulary) -> str:
    """A title that tells little together with the files or terms of the segment, so that `Fix tests` says which."""
    title = best.text
    if (best.pick.kind in _IN_PASSING or patterns.MERGING.match(folded(title))) and not names_something(title):
        return _distinguished(title, _names(found, vocabulary))
    enough = worth(title, vocabulary.weights) >= _TELLS_ENOUGH and not is_generic(title)
    if word_count(title) > 7 or (word_count(title) > 2 and enough):
        return title
    edited = next((pick for pick in found if pick.kind is Kind.DID and pick.text.startswith("Edited ")), None)
    if edited and patterns.opens_with_task(folded(title)):
        names = [name for name in edited.text[7:].split(" and ")[0].split(", ") if name not in title]
        if names:
            return f"{title} in {' and '.join(names[: 2 if word_count(title) + 4 <= MAX_WORDS else 1])}"
    ran = next((pick for pick in found if pick.kind is Kind.DID and pick.text.startswith("Ran ")), None)
    if ran and title.startswith("Edited") and word_count(title) < 4:
        return f"{title} and ran {one_line(ran.text[4:].split('`')[1], 40).rstrip(ELLIPSIS)}"
    if word_count(title) > 2:
        return title if enough else _distinguished(title, _names(found, vocabulary))
    known = {part for word in title.split() for part in stems_of(word)}
    further = [word for word in vocabulary.keywords(_MATTERS, by_name=False) if not known & set(stems_of(word))][:2]
    return f"{title}: {', '.join(further)}" if further and title else title
