"""Titles of segments: the phrase, or the two, that name what a conversation was about, in its own words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from mcp_memory.domain.events import Event, Role
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.text import folded, has_unspaced_script, similar, terms
from mcp_memory.summaries import cues
from mcp_memory.summaries.keywords import Vocabulary, WeighedText, stems_of
from mcp_memory.summaries.messages import call_of, plain, spoken
from mcp_memory.summaries.phrases import (
    MAX_CHARS,
    MAX_WORDS,
    MOST_READABLE,
    is_generic,
    names_something,
    rated,
    readability,
    word_count,
    worth,
)
from mcp_memory.summaries.statements import Candidate

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
_NEXT_RAISED, _NEXT = 0.88, 0.95
#: A phrase that names something has so many words.
NAMING = 3
TELLS_ENOUGH = 1.0
#: How well a phrase reads that names something at all, and one that can stand for a task.
READABLE, TASK = 0.6, 0.7

#: The same for a question in the course of a session.
_ASKED_ON_THE_WAY = 1.2
#: Kinds that raise a matter, so that two of them may share a title.
RAISES = frozenset({Kind.NOTE, Kind.REQUEST, Kind.REPORT})
#: Kinds of a user's words that may open a conversation without asking for anything.
_TOLD = frozenset({Kind.SAID, Kind.RULE, Kind.DECISION})


Find = Callable[[Sequence[Event]], Sequence[Candidate]]


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
    """Whether any of them raises a matter, as a request, a report or what a user opens with does, and names it."""
    return any(
        (one.pick.kind in RAISES or (one.pick.turn == 1 and _is_told(one.pick))) and names_matter(one, weights)
        for one in options
    )


def _is_told(pick: Candidate) -> bool:
    return pick.kind in _TOLD and pick.label == Kind.REMARK.label


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
    return (pick.shown if pick.kind is Kind.RESULT else pick.text).rstrip("…")


def _begins(pick: Candidate, said: Iterable[tuple[float, str]]) -> bool:
    """Whether it gives a session its task by itself; `check the comments` is only the way to it."""
    if not pick.by_user or cues.INSPECTION.match(folded(sentence_of(pick))):
        return False
    return any(readability(text) >= TASK for _, text in said)


def _pool(
    found: Sequence[Candidate], weights: Mapping[str, float], opening: int, *, begins: bool
) -> list[tuple[float, Candidate]]:
    """The few candidates worth making a title of, with how fit each is; earlier ones of a kind come first.

    `opening` is the turn in which a user first says something; `begins` tells that a session does.
    """
    seen: Counter[Kind] = Counter()
    turns = Counter(pick.turn for pick in found)
    asked = any(pick.turn == opening and pick.kind is Kind.REQUEST for pick in found)
    ranked = []
    for pick in found:
        value = _fitness(pick, opening, asked, begins)
        value *= (_NEXT_RAISED if pick.kind in RAISES else _NEXT) ** seen[pick.kind]
        form = (1.0 + max(pick.bonus, -0.5) * 0.4) * (_LISTED if pick.listed else 1.0)
        value *= form * _COMMITTED if pick.label == Kind.COMMIT.label else form
        value *= 0.8 + 0.5 * turns[pick.turn] / len(found)
        if pick.turn == opening:
            value *= _OPENING if pick.by_user else _ANSWERING
        told = math.fsum(map(weights.get, terms(pick.shown), repeat(0.0)))
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
        return Kind.REPORT.naming
    return pick.kind.naming


_MATTERS = 10
#: So many names tell a segment apart from others of its task.
_FURTHER = 2
_SECOND = 0.3
#: A matter is said shortly only if that says so much of what can be said of it.
_SHORTER = 0.2
_DISTINCT = 0.25
#: So many of its words a short form has in common with what it stands for.
_PART = 0.5
_ASKED_CHARS, _BEFORE = 2_000, 0.8
#: A title has so many words at least, where there is more to say; one half of it has so many at most.
_SHORTEST, _SHORT = 5, 6
#: A title says enough by itself that has more words than these, and one that has fewer needs more to be said.
_LONG, _TERSE = 7, 3
#: How well a phrase reads that can stand for the whole.
_WHOLE = 0.85
#: What an outcome counts for the title of a segment that goes on with a task, a step towards it and anything else.
_RESULT, _STEP, _ELSE = 1.0, 0.0, 0.5

#: Kinds that say what came of a task, so that they may name it.
_RESULTS = frozenset({Kind.OUTCOME, Kind.CAUSE, Kind.DECISION, Kind.HEADING, Kind.ERROR})
#: Kinds that say what is about to be done, which alone is no title.
_STEPS = frozenset({Kind.PLANNED, Kind.STEP, Kind.DID, Kind.RESULT})
#: Kinds that are said on the way, of what is not named again.
_IN_PASSING = frozenset({Kind.OPEN, Kind.FINDING, Kind.STATED, Kind.PLANNED})
#: Kinds that tell of tools rather than of the matter.
_DULL = frozenset({Kind.DID, Kind.RESULT, Kind.NOISE})


def title_of(found: Sequence[Candidate], context: Sequence[Event], vocabulary: Vocabulary, find: Find) -> str:
    """The phrase that names the matter best, together with a second matter where both fit.

    `find` finds the candidates of the events before, if it comes to the task that is gone on with.
    """
    weights = vocabulary.weights
    opening = next((pick.turn for pick in found if pick.by_user), -1)
    pool = _pool(found, weights, opening, begins=not context)
    options = phrased(pool, weights, -1 if context else opening)
    if not options:
        return ""
    if plan := _agreed_plan(found, weights):
        return plan
    fresh = [one for one in options if not _was_said(one.pick, context)]
    raised = raises_matter(fresh, weights)
    if raised:
        options = fresh
    best = fittest(options)
    if not (raised or raises_matter(options, weights)) and (task := _task_before(context, weights, find)):
        return _carried(task, best, options, weights, _names(found, vocabulary))
    return _joined(best, options) or _completed(best, options) or _enriched(best, found, vocabulary)


def _agreed_plan(found: Sequence[Candidate], weights: Mapping[str, float]) -> str:
    """The heading of a plan that the user agreed to, if it names a matter: it was written to be the task's name."""
    headings = [(1.0, pick) for pick in found if pick.kind is Kind.HEADING and pick.event.role is Role.TOOL]
    options = [one for one in phrased(headings[-1:], weights) if names_matter(one, weights)]
    return fittest(options).text if options else ""


def _was_said(pick: Candidate, context: Sequence[Event]) -> bool:
    """Whether a user's words were said before the segment, as when a session is gone on with by the same words."""
    if pick.event.role is not Role.USER:
        return False
    said = pick.event.text[pick.start : pick.end]
    return any(said in event.text for event in context if event.role is Role.USER)


def _task_before(context: Sequence[Event], weights: Mapping[str, float], find: Find) -> list[Option]:
    """The phrases of the task a segment carries on with: of the last request before it that names a matter."""
    asked = [event for event in context if event.role is Role.USER and event.says_something]
    # What the task is about may hardly be named again while it is worked on.
    own = Vocabulary(WeighedText(spoken(event.text)[:_ASKED_CHARS], 1.0) for event in asked).weights
    weights = {part: max(value * _BEFORE, weights.get(part, 0.0)) for part, value in own.items()}
    by_turn: dict[int, list[tuple[float, Candidate]]] = {}
    for pick in find(asked):
        if pick.kind in RAISES:
            by_turn.setdefault(pick.turn, []).append((pick.kind.naming + pick.bonus, pick))
    for pool in reversed(by_turn.values()):
        named = [one for one in phrased(pool, weights) if names_matter(one, weights)]
        if naming := [one for one in named if readability(one.text) >= TASK]:
            return naming
    return []


def _carried(
    task: Sequence[Option],
    best: Option,
    options: Sequence[Option],
    weights: Mapping[str, float],
    names: Iterable[str],
) -> str:
    """The title of a segment that goes on with a task: what came of it if that says enough, else the task with it.

    The segment in which the task was given bears its name already; this one is told apart by `names` at least.
    """
    kind = best.pick.kind
    counts = _RESULT if kind in _RESULTS else _STEP if kind in _STEPS else _ELSE
    reads = readability(best.text) >= (READABLE if kind is Kind.HEADING else _WHOLE)
    if word_count(best.text) >= _SHORTEST and reads and worth(best.text, weights) * counts >= TELLS_ENOUGH:
        return best.text
    # What only announces a look at something, such as `check each one`, tells nothing.
    telling = [
        one
        for one in options
        if one.pick.kind not in _DULL
        and not (one.pick.kind is Kind.PLANNED and cues.INSPECTION.match(folded(one.text)))
    ]
    return _pair(_short_ones(task, TASK), _short_ones(telling, TASK)) or _distinguished(fittest(task).text, names)


def _joined(best: Option, options: Sequence[Option]) -> str:
    """Two matters of one conversation as one title, if the second is nearly as weighty and both can be said shortly."""
    if best.pick.kind not in RAISES or has_unspaced_script(best.text):
        return ""
    told = terms(best.text)
    # The short phrases of the same words that still say what they are about.
    firsts = [
        one
        for one in _short_ones([one for one in options if one.pick is best.pick])
        if one.score >= _SHORTER * best.score
        and (len(terms(one.text) & told) >= _PART * len(terms(one.text)) or _stands_before(one, best))
    ]
    if not firsts:
        return ""
    # What else was raised in another turn. Long phrases score high; what is compared is how shortly each can be said.
    low = _SECOND * max(option.score for option in firsts)
    others = [one for one in options if one.pick.kind in RAISES and one.pick.turn != best.pick.turn]
    short = _short_ones([one for one in others if one.rough * MOST_READABLE >= low])
    distinct = (one for one in short if one.score >= low and similar(terms(one.text), told) < _DISTINCT)
    second = next((one.pick for one in distinct), None)
    if second is None:
        return ""
    return _pair(firsts, _short_ones([option for option in options if option.pick is second]))


def _stands_before(option: Option, best: Option) -> bool:
    """Whether a phrase stands before another of the same words: what comes first says what all of it is about."""
    said = sentence_of(best.pick).lower()
    places = [said.find(one.text.partition(" ")[0].lower()) for one in (option, best)]
    return 0 <= places[0] < places[1]


def _completed(best: Option, options: Sequence[Option]) -> str:
    """A title of few words together with what else was said of the matter."""
    if word_count(best.text) >= _SHORTEST or has_unspaced_script(best.text):
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


def _pair(firsts: Sequence[Option], seconds: Sequence[Option]) -> str:
    """Two phrases as one title, in the order in which they were said; nothing if no two of them fit."""
    fitting = [
        (first, other)
        for first in firsts
        for other in seconds
        if word_count(first.text) + word_count(other.text) <= MAX_WORDS
        and similar(terms(first.text), terms(other.text)) < _DISTINCT * 2
    ]
    if not fitting:
        return ""
    first, other = max(fitting, key=lambda pair: pair[0].score + pair[1].score)
    one, two = first.pick, other.pick
    after = one.order > two.order if one.event is two.event else one.event.timestamp_ms > two.event.timestamp_ms
    if after:
        first, other = other, first
    title = f"{first.text}; {_lowered(other.text, other.pick.shown)}"
    return title if len(title) <= MAX_CHARS else ""


def _short_ones(options: Sequence[Option], reads: float = _WHOLE) -> list[Option]:
    """Those that can stand as half of a title, fittest first: few words that read so well."""
    short = []
    for option in options:
        text = option.text
        least = NAMING + text.startswith(("The ", "A ", "An "))
        if least <= word_count(text) <= _SHORT and readability(text) >= reads:
            short.append(option)
    return sorted(short, key=lambda option: option.rank)


def _lowered(text: str, source: str) -> str:
    """The second half of a title, with a small letter if it was said so, or if it only opened a sentence."""
    first, _, rest = text.partition(" ")
    opened = first[1:].islower() and first in (source.partition(" ")[0], source.partition(": ")[2].partition(" ")[0])
    ordinary = opened and rest[:1].islower()
    return text[:1].lower() + text[1:] if ordinary or first.lower() in source else text


def _enriched(best: Option, found: Sequence[Candidate], vocabulary: Vocabulary) -> str:
    """A title that tells little together with the files or terms of the segment, so that `Fix tests` says which."""
    title = best.text
    in_passing = best.pick.kind in _IN_PASSING or cues.MERGING.match(folded(title))
    if in_passing and not names_something(title):
        return _distinguished(title, _names(found, vocabulary))
    words = word_count(title)
    enough = worth(title, vocabulary.weights) >= TELLS_ENOUGH and not is_generic(title)
    if words > _LONG or (words >= _TERSE and enough):
        return title
    edited = [name for name in _edited(found) if name not in title]
    if edited and cues.opens_with_task(folded(title)):
        return f"{title} in {' and '.join(edited[: 2 if words + 4 <= MAX_WORDS else 1])}"
    if words >= _TERSE:
        return _distinguished(title, _names(found, vocabulary))
    # A word or two with what else was talked about.
    known = {part for word in title.split() for part in stems_of(word)}
    further = [word for word in vocabulary.keywords(_MATTERS, by_name=False) if known.isdisjoint(stems_of(word))]
    return f"{title}: {', '.join(further[:_FURTHER])}" if further and title else title


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
    said = " ".join(pick.shown for pick in found if pick.event.role is Role.USER)
    ordered = dict.fromkeys([*(name for name in known if name in said), *_edited(found), *known])
    return [name for name in ordered if " " not in name and names_something(name)]


def _edited(found: Sequence[Candidate]) -> list[str]:
    """The files that were edited, as far as a bullet names them."""
    for pick in found:
        if pick.kind is Kind.DID and (call := call_of(pick.event)) and call.verb == "Edited":
            calls = [call, *(call_of(event) for event, _, _ in pick.more)]
            return [plain(call.target) for call in calls if call]
    return []
