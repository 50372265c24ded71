"""Titles of segments: one clause that names what a conversation was about, from what was written as a conclusion.

The clause comes from the best source, weighed by how much of the segment it covers: what the user, the closing messages
and the work itself all speak of is what the segment is about. Names that it does not tell yet follow after a colon.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mcp_memory.domain.events import Event, Role
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.text import folded
from mcp_memory.summaries.calls import Source
from mcp_memory.summaries.keywords import Vocabulary
from mcp_memory.summaries.messages import SAYS
from mcp_memory.summaries.phrases import FITTEST, LIVED, MAX_CHARS, MAX_WORDS, Clause, clauses, fitness, stems
from mcp_memory.summaries.statements import Mood, Statement, said_by_user

#: How well a statement names the matter, by where it comes from or else by its kind.
_BY_SOURCE = {Source.PLAN: 2.2, Source.PULL_REQUEST: 2.2, Source.TITLE: 2.0, Source.COMMIT: 1.8, Source.NOTE: 1.6}
_BY_SOURCE[Source.TODO] = 1.0
_BY_KIND = {Kind.REQUEST: 1.3, Kind.REPORT: 1.2, Kind.DECISION: 1.2, Kind.OUTCOME: 1.3, Kind.CAUSE: 1.0, Kind.SAID: 1.0}
_BY_KIND |= {Kind.CORRECTION: 0.9, Kind.STATED: 0.8, Kind.FINDING: 0.7, Kind.RULE: 0.6}
#: What is left of what was said in passing, before a closing message and without one.
_PASSING, _LAST = 0.5, 0.7
#: How much the user's first words count, and what is left of a question, each later sentence, a user's sentence that
#: asks for nothing, and others by their form.
_FIRST, _QUESTION, _PLACE, _TOLD = 1.15, 0.4, 0.88, 0.6
_BY_FORM = {"item": 0.65, "row": 0.5}
#: The same for a problem that was solved, which is named by what solved it, and for what was asked before the segment.
_SOLVED, _BEFORE = 0.3, 0.6
#: What people did counts for more in their talk than how they like it.
_LIVED = 6.0
#: How much a word counts by how many voices speak of it: the user, the closing messages, what was written, the
#: files that were edited.
_VOICES = (0.4, 0.5, 1.0, 1.3, 1.4)
#: Where the pull request that was spoken of or looked at is named, and how far into an event it is sought.
_PULL_REQUEST = re.compile(r"(?:\b(?:pr|pull request|gh pr \w+|pr-review)\s+#?|/pulls?/)(\d{1,6})\b")
_HEAD = 300
_DONE = re.compile(r"^(?:\w+ )?\w+ed\b|\bnow\b|\bno longer\b")


class Option(NamedTuple):
    """A clause that could be the title, and how fit it is."""

    score: float
    text: str
    statement: Statement


def title_of(
    standing: Sequence[Statement],
    vocabulary: Vocabulary,
    edited: Sequence[str],
    events: Sequence[Event] = (),
    context: Sequence[Event] = (),
) -> str:
    """The title of a segment of which these statements stand; empty if nothing in it makes one."""
    before = [] if any(one.kind is Kind.SAID for one in standing) else asked_before(context)
    weights = _shared([*before, *standing], vocabulary, edited)
    options = options_of(standing, before, weights)
    title = options[0].text if options else ""
    spoken = [event.text[:_HEAD].lower() for event in (*events, *context) if event.role is not Role.ASSISTANT]
    told = [text for text in spoken if "pr" in text or "pull" in text]
    numbers = Counter(match[1] for text in told for match in _PULL_REQUEST.finditer(text))
    number = max(numbers, key=lambda one: numbers[one], default="")
    if number and number not in title and len(title) + len(number) + 5 <= MAX_CHARS:
        title = f"PR {number}: {title}".rstrip(": ")
    return with_names(title, _names(vocabulary, weights)) if title else ""


def options_of(
    standing: Sequence[Statement], before: Sequence[Statement], weights: Mapping[str, float]
) -> list[Option]:
    """The clauses that could be the title, best first; what was asked before only if the segment goes on with it."""
    found = list(_options(standing, weights))
    if not any(one.by_user and not one.turn for one in standing):
        found += [one._replace(score=one.score * _BEFORE) for one in _options(before, weights)]
    return sorted(found, key=lambda one: (-one.score, one.text))


def asked_before(context: Sequence[Event]) -> list[Statement]:
    """What was asked last before the segment."""
    asked = [event for event in context if event.role is Role.USER and event.says_something]
    return list(said_by_user(asked[-1], 0, False)) if asked else []


def _options(standing: Sequence[Statement], weights: Mapping[str, float]) -> Iterator[Option]:
    closed = {one.turn for one in standing if one.source is Source.CLOSING}
    done = [one for one in standing if one.kind is Kind.COMMIT or (one.source is Source.CLOSING and _done(one))]
    steps = len({one.text for one in standing if one.source is Source.TODO})
    first = min((one.turn for one in standing if one.by_user), default=0)
    by_source = _BY_SOURCE | {Source.TODO: _BY_SOURCE[Source.TODO] / math.sqrt(steps or 1)}
    weighed = [(by_source.get(one.source) or _of_message(one, closed, first), one) for one in standing]
    top = 0.0
    for weight, one in sorted(weighed, key=lambda each: -each[0]):
        if not weight or weight * FITTEST < top:
            break  # neither this one nor any that follow can be better
        found = [(fitness(each, weights), each) for each in _clauses_of(one)]
        if found:
            fit, best = max(found, key=lambda each: each[0])
            told = one.by_user and not best.asked and one.kind is not Kind.REPORT and one.mood is not Mood.QUESTION
            score = weight * fit * (_TOLD if told else 1.0) * (_SOLVED if _solved(best, one, done) else 1.0)
            top = max(top, score)
            yield Option(score, best.text, one)


def _of_message(one: Statement, closed: set[int], first: int) -> float:
    """How well a sentence of a message names the matter."""
    weight = _BY_KIND.get(one.kind, 0.0)
    if one.source is Source.PASSING:
        weight = min(weight, _PASSING if one.turn in closed else _LAST)
    elif one.source is Source.CLOSING and one.kind in (Kind.OUTCOME, Kind.CAUSE):
        weight = _BY_KIND[Kind.OUTCOME if _done(one) else Kind.STATED]
    weight *= _FIRST if one.by_user and one.turn == first else 1.0
    weight *= _QUESTION if one.mood is Mood.QUESTION else 1.0
    weight *= _LIVED if one.kind is Kind.SAID and LIVED.search(folded(one.text)) else 1.0
    return weight * _PLACE**one.place * _BY_FORM.get(one.form, 1.0)


def _solved(clause: Clause, one: Statement, done: Sequence[Statement]) -> bool:
    """Whether a clause names a problem to which an answer was found in its turn, or later in words that it shares."""
    if one.source in (Source.CLOSING, *_BY_SOURCE):
        return False
    if one.kind is not Kind.REPORT and (clause.asked or not SAYS["problem"].search(folded(clause.text))):
        return False
    own = stems(clause.text)
    return any(other.turn == one.turn or (other.turn > one.turn and len(own & stems(other.text)) > 1) for other in done)


def _done(one: Statement) -> bool:
    """Whether it tells what was done or how things are now."""
    return _DONE.search(one.text) is not None


def _clauses_of(one: Statement) -> Sequence[Clause]:
    if one.source in _BY_SOURCE and one.text.count(" ") < MAX_WORDS + 2 and len(one.text) <= MAX_CHARS:
        return (Clause(one.text, True, 1.0),)
    found = clauses(one.text)
    lived = [clause for clause in found if LIVED.search(folded(clause.text))] if one.kind is Kind.SAID else []
    return lived or found


def _shared(standing: Sequence[Statement], vocabulary: Vocabulary, edited: Sequence[str]) -> dict[str, float]:
    """How much each word counts: more if several voices speak of it; the files that were edited are one."""
    voices: dict[str, set[str]] = {}
    for one in standing:
        if one.source is not Source.PASSING:
            voice = "user" if one.by_user else "closing" if one.source is Source.CLOSING else "record"
            voices.setdefault(voice, set()).update(stems(one.text))
    heard = Counter(stem for spoken in voices.values() for stem in spoken)
    heard.update({stem for name in edited for stem in stems(name)})
    return {stem: weight * _VOICES[heard[stem]] for stem, weight in vocabulary.weights.items()}


_SHAPED = re.compile(r"[a-z][A-Z]|[A-Z]{2,}|[\w)][._/@:][\w(]|\w-\w+-\w|_|^[-.@]|[A-Za-z]\d| ")
_EXTENSION = re.compile(r"(?<=\w)\.\w{1,4}$")
_RANK, _CANDIDATES, _MOST = 8.0, 10, 2


def _names(vocabulary: Vocabulary, weights: Mapping[str, float]) -> list[str]:
    """The keywords by which the work is known, those of which most voices speak first: names, and what all speak of."""

    def heard(word: str) -> float:
        return max((weights.get(stem, 0.0) / vocabulary.weights.get(stem, 1.0) for stem in stems(word)), default=0.0)

    found = vocabulary.keywords(_CANDIDATES)
    ranked = [word for word in found if _SHAPED.search(word) or heard(word) >= _VOICES[3]]
    return sorted(ranked, key=lambda word: -heard(word) / (_RANK + ranked.index(word)))


def with_names(title: str, names: Sequence[str]) -> str:
    """A title with up to two names that it does not tell yet, as far as there is room."""
    known = stems(title)
    further: list[str] = []
    for name in names:
        own = stems(_EXTENSION.sub("", name))
        room = len(title) + sum(map(len, [*further, name])) + 2 * len(further) + 3 <= MAX_CHARS
        if len(further) < _MOST and room and len(own - known) * 2 >= len(own) > 0:
            further.append(name)
            known |= own
    told = ", ".join(further)
    return title if not told else f"{title} ({told})" if ": " in title else f"{title}: {told}"
