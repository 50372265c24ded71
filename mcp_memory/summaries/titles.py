"""Titles of segments: the phrase, or the two, that name what a conversation was about, in its own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mcp_memory.domain.events import Event, Role
from mcp_memory.domain.text import ELLIPSIS, folded, has_unspaced_script, one_line, similar, terms
from mcp_memory.summaries import patterns
from mcp_memory.summaries.candidate import Candidate
from mcp_memory.summaries.candidates import candidates
from mcp_memory.summaries.cues import Kind
from mcp_memory.summaries.finishing import MAX_CHARS, MAX_WORDS, word_count
from mcp_memory.summaries.fitness import worth
from mcp_memory.summaries.keywords import Passage, Vocabulary, stems_of
from mcp_memory.summaries.messages import spoken
from mcp_memory.summaries.readability import MOST_READABLE, is_generic, names_something, readability
from mcp_memory.summaries.title_options import (
    FITNESS,
    NAMING,
    RAISES,
    READABLE,
    TASK,
    TELLS_ENOUGH,
    Option,
    fittest,
    names_matter,
    options_of,
    phrased,
    raises_matter,
    sentence_of,
)

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


def title_of(found: Sequence[Candidate], context: Sequence[Event], vocabulary: Vocabulary) -> str:
    """The phrase that names the matter best, together with a second matter where both fit."""
    weights = vocabulary.weights
    options = options_of(found, weights, begins=not context)
    if not options:
        return ""
    if plan := _agreed_plan(found, weights):
        return plan
    fresh = [one for one in options if not _was_said(one.pick, context)]
    raised = raises_matter(fresh, weights)
    if raised:
        options = fresh
    best = fittest(options)
    if not (raised or raises_matter(options, weights)) and (task := _task_before(context, weights)):
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


def _task_before(context: Sequence[Event], weights: Mapping[str, float]) -> list[Option]:
    """The phrases of the task a segment carries on with: of the last request before it that names a matter."""
    asked = [event for event in context if event.role is Role.USER and event.says_something]
    # What the task is about may hardly be named again while it is worked on.
    own = Vocabulary(Passage(spoken(event.text)[:_ASKED_CHARS], 1.0) for event in asked).weights
    weights = {part: max(value * _BEFORE, weights.get(part, 0.0)) for part, value in own.items()}
    by_turn: dict[int, list[tuple[float, Candidate]]] = {}
    for pick in candidates(asked):
        if pick.kind in RAISES:
            by_turn.setdefault(pick.turn, []).append((FITNESS[pick.kind] + pick.bonus, pick))
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
    if _says_what_came_of_it(best, weights):
        return best.text
    own = _short_ones([one for one in options if one.pick.kind not in _DULL and not _only_looks(one)], TASK)
    return _pair(_short_ones(task, TASK), own) or _distinguished(fittest(task).text, names)


def _says_what_came_of_it(best: Option, weights: Mapping[str, float]) -> bool:
    kind = best.pick.kind
    counts = _RESULT if kind in _RESULTS else _STEP if kind in _STEPS else _ELSE
    reads = readability(best.text) >= (READABLE if kind is Kind.HEADING else _WHOLE)
    return word_count(best.text) >= _SHORTEST and reads and worth(best.text, weights) * counts >= TELLS_ENOUGH


def _only_looks(option: Option) -> bool:
    """Whether it announces a look at something: `check each one`."""
    return option.pick.kind is Kind.PLANNED and patterns.INSPECTION.match(folded(option.text)) is not None


def _joined(best: Option, options: Sequence[Option]) -> str:
    """Two matters of one conversation as one title, if the second is nearly as weighty and both can be said shortly."""
    if best.pick.kind not in RAISES or has_unspaced_script(best.text):
        return ""
    firsts = _short_forms(best, options)
    second = _second_matter(best, firsts, options) if firsts else None
    if second is None:
        return ""
    return _pair(firsts, _short_ones([option for option in options if option.pick is second]))


def _short_forms(best: Option, options: Sequence[Option]) -> list[Option]:
    """The short phrases of the same words that still say what they are about."""
    told = terms(best.text)
    short = _short_ones([one for one in options if one.pick is best.pick])
    enough = [one for one in short if one.score >= _SHORTER * best.score]
    return [
        one
        for one in enough
        if len(terms(one.text) & told) >= _PART * len(terms(one.text)) or _stands_before(one, best)
    ]


def _stands_before(option: Option, best: Option) -> bool:
    """Whether a phrase stands before another of the same words: what comes first says what all of it is about."""
    said = sentence_of(best.pick).lower()
    places = [said.find(one.text.partition(" ")[0].lower()) for one in (option, best)]
    return 0 <= places[0] < places[1]


def _second_matter(best: Option, firsts: Sequence[Option], options: Sequence[Option]) -> Candidate | None:
    """What else was raised in another turn, if it can be said shortly and is nearly as weighty."""
    # Long phrases score high; what is compared is how shortly each matter can be said.
    low = _SECOND * max(option.score for option in firsts)
    told = terms(best.text)
    others = [one for one in options if one.pick.kind in RAISES and one.pick.turn != best.pick.turn]
    short = _short_ones([one for one in others if one.rough * MOST_READABLE >= low])
    distinct = (one for one in short if one.score >= low and similar(terms(one.text), told) < _DISTINCT)
    return next((one.pick for one in distinct), None)


def _completed(best: Option, options: Sequence[Option]) -> str:
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
    if _was_said_after(first, other):
        first, other = other, first
    title = f"{first.text}; {_lowered(other.text, other.pick.text)}"
    return title if len(title) <= MAX_CHARS else ""


def _was_said_after(one: Option, other: Option) -> bool:
    if one.pick.event is other.pick.event:
        return one.pick.order > other.pick.order
    return one.pick.event.timestamp_ms > other.pick.event.timestamp_ms


def _short_ones(options: Sequence[Option], reads: float = _WHOLE) -> list[Option]:
    """Those that can stand as half of a title, fittest first: few words that read so well."""
    return sorted((option for option in options if _is_short(option.text, reads)), key=lambda option: option.rank)


def _is_short(text: str, reads: float) -> bool:
    least = NAMING + text.startswith(("The ", "A ", "An "))
    return _is_one(text) and least <= word_count(text) <= _SHORT and readability(text) >= reads


def _is_one(text: str) -> bool:
    """Whether it is no list and has no parts, which another half would be taken for one more of."""
    return not any(mark in text for mark in (": ", ", ", "; "))


def _lowered(text: str, source: str) -> str:
    """The second half of a title, with a small letter if it was said so, or if it only opened a sentence."""
    first, _, rest = text.partition(" ")
    opened = first[1:].islower() and first in (source.partition(" ")[0], source.partition(": ")[2].partition(" ")[0])
    ordinary = opened and rest[:1].islower()
    return text[:1].lower() + text[1:] if ordinary or first.lower() in source else text


def _enriched(best: Option, found: Sequence[Candidate], vocabulary: Vocabulary) -> str:
    """A title that tells little together with the files or terms of the segment, so that `Fix tests` says which."""
    title = best.text
    in_passing = best.pick.kind in _IN_PASSING or patterns.MERGING.match(folded(title))
    if in_passing and not names_something(title):
        return _distinguished(title, _names(found, vocabulary))
    words = word_count(title)
    enough = worth(title, vocabulary.weights) >= TELLS_ENOUGH and not is_generic(title)
    if words > _LONG or (words >= _TERSE and enough):
        return title
    if worked_on := _with_files(title, found) or _with_command(title, found):
        return worked_on
    return _distinguished(title, _names(found, vocabulary)) if words >= _TERSE else _with_terms(title, vocabulary)


def _with_files(title: str, found: Sequence[Candidate]) -> str:
    """A task with the files that were edited for it."""
    names = [name for name in _edited(found) if name not in title]
    if not names or not patterns.opens_with_task(folded(title)):
        return ""
    return f"{title} in {' and '.join(names[: 2 if word_count(title) + 4 <= MAX_WORDS else 1])}"


def _with_command(title: str, found: Sequence[Candidate]) -> str:
    """The edit of a file with the command that was run."""
    ran = next((pick.text for pick in found if pick.kind is Kind.DID and pick.text.startswith("Ran ")), "")
    if not ran or not title.startswith("Edited") or word_count(title) > _TERSE:
        return ""
    return f"{title} and ran {one_line(ran.split('`')[1], 40).rstrip(ELLIPSIS)}"


def _with_terms(title: str, vocabulary: Vocabulary) -> str:
    """A word or two with what else was talked about."""
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
    said = " ".join(pick.text for pick in found if pick.event.role is Role.USER)
    ordered = dict.fromkeys([*(name for name in known if name in said), *_edited(found), *known])
    return [name for name in ordered if " " not in name and names_something(name)]


def _edited(found: Sequence[Candidate]) -> list[str]:
    """The files that a bullet says were edited."""
    text = next((pick.text for pick in found if pick.kind is Kind.DID and pick.text.startswith("Edited ")), "")
    return text.removeprefix("Edited ").partition(" and ")[0].split(", ") if text else []
