"""What kind of thing a sentence says, told by its wording: request, cause, decision, outcome, open problem, or nothing.

The cues are English, with short lists for German, French, Spanish, Chinese and Japanese; a sentence without any cue is
a plain statement, so other languages lose only the ranking.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from mcp_memory.domain.text import folded, has_unspaced_script
from mcp_memory.summaries import languages, patterns, wordings
from mcp_memory.summaries.wordings import Wording


class Kind(StrEnum):
    NOTE = "note"
    REQUEST = "request"
    REPORT = "report"
    SAID = "said"
    CAUSE = "cause"
    DECISION = "decision"
    OUTCOME = "outcome"
    OPEN = "open"
    RULE = "rule"
    FIGURE = "figure"
    FINDING = "finding"
    ERROR = "error"
    STATED = "stated"
    PLANNED = "planned"
    STEP = "step"
    RESULT = "result"
    DID = "did"
    HEADING = "heading"
    NOISE = "noise"


#: How much a kind of sentence matters beside others.
PRIORITY = {
    Kind.NOTE: 3.0,
    Kind.REQUEST: 2.2,
    Kind.CAUSE: 2.0,
    Kind.DECISION: 2.0,
    Kind.OUTCOME: 1.9,
    Kind.REPORT: 1.8,
    Kind.OPEN: 1.5,
    Kind.RULE: 1.5,
    Kind.FIGURE: 1.3,
    Kind.FINDING: 1.3,
    Kind.SAID: 1.2,
    Kind.ERROR: 1.0,
    Kind.RESULT: 0.9,
    Kind.STATED: 0.8,
    Kind.STEP: 0.6,
    Kind.PLANNED: 0.35,
    Kind.DID: 0.3,
    Kind.HEADING: 0.0,
    Kind.NOISE: 0.0,
}
#: A narration of more characters may tell a decision, a question of more may leave something open.
_FIRM, _ASKS_SOMETHING = 60, 40


@lru_cache(maxsize=1 << 12)
def assistant_kind(plain: str) -> Kind:
    """The kind of an assistant's sentence, given without markup."""
    low, start = _opened(plain)
    body, said = low[start:], plain[start:]
    if not body or _is_empty(low) or (start and _is_empty(body)):
        return Kind.NOISE
    if patterns.ROUTINE.fullmatch(body):
        return Kind.PLANNED
    if patterns.NARRATION.match(body):
        return Kind.DECISION if _decides(body, said) else Kind.PLANNED
    if body.endswith(("?", "？")):
        return Kind.OPEN if len(body) > _ASKS_SOMETHING else Kind.NOISE
    told = _by_script(said) if has_unspaced_script(said) else None
    return told or _by_wording(said.lower()) or (Kind.FIGURE if gives_figures(said) else Kind.STATED)


def _decides(body: str, said: str) -> bool:
    """Whether a narration tells a decision with its reasons, rather than the next step."""
    if len(body) <= _FIRM or patterns.INSPECTION.match(plan_of(body)):
        return False
    return _says(wordings.DECISION, said) or gives_reason(said)


def _by_script(said: str) -> Kind | None:
    """The first kind of which something stands in a sentence whose words are not spaced."""
    return next((Kind(kind) for kind, wording in languages.UNSPACED if wording.search(said)), None)


def _by_wording(low: str) -> Kind | None:
    """The first kind whose wording fits; most words are of none, so they are looked up only once."""
    best = len(_ASSISTANT)
    for word in wordings.words_of(low) & _TURNING.keys():
        for place, expressions in _TURNING[word]:
            if place < best and wordings.fits_any(expressions, low):
                best = place
    return _ASSISTANT[best][1] if best < len(_ASSISTANT) else None


_ASSISTANT = (
    (wordings.DECIDED, Kind.DECISION),
    (wordings.CAUSE, Kind.CAUSE),
    (wordings.OUTCOME, Kind.OUTCOME),
    (wordings.DECISION, Kind.DECISION),
    (wordings.OPEN, Kind.OPEN),
    (wordings.RULE, Kind.RULE),
    (wordings.FAILURE, Kind.FINDING),
    (wordings.CONSEQUENCE, Kind.FINDING),
)


def _turning() -> dict[str, list[tuple[int, tuple[Wording, ...]]]]:
    """The wordings of all kinds by word: the kind's place, and the expressions of which one must fit."""
    by_word: dict[str, list[tuple[int, tuple[Wording, ...]]]] = {}
    for place, (cue, _) in enumerate(_ASSISTANT):
        for word, expressions in cue.by_word.items():
            by_word.setdefault(word, []).append((place, expressions))
    return by_word


_TURNING = _turning()


def _says(cue: wordings.Cue, plain: str) -> bool:
    low = plain.lower()
    return cue.fits(low, wordings.words_of(low))


def gives_reason(plain: str) -> bool:
    """Whether it says why, or what was avoided."""
    return _says(wordings.REASON, plain)


@lru_cache(maxsize=1 << 12)
def user_kind(plain: str) -> Kind:
    """The kind of a user's sentence, given without markup."""
    body = without_politeness(plain)
    if is_trivial(plain):
        return Kind.NOISE
    low = plain.lower()
    words = wordings.words_of(low)
    first = wordings.first_word(body.lower())
    if first in patterns.IMPERATIVES or first in languages.IMPERATIVES or _asks(plain, low, words):
        return Kind.REQUEST
    if is_empty(plain):
        return Kind.NOISE
    if has_unspaced_script(plain):
        return _user_kind_by_script(plain)
    if wordings.DECIDED.fits(low, words):
        return Kind.DECISION
    if wordings.PROBLEM.fits(low, words) and not patterns.SETTLED.match(folded(plain)):
        return Kind.REPORT
    return Kind.RULE if wordings.RULE.fits(low, words) else Kind.SAID


def _user_kind_by_script(plain: str) -> Kind:
    if languages.UNSPACED_DECIDED.search(plain):
        return Kind.DECISION
    return Kind.REPORT if languages.UNSPACED_PROBLEM.search(plain) else Kind.SAID


def _asks(plain: str, low: str, words: frozenset[str]) -> bool:
    if wordings.ASKING.fits(low, words) or (("?" in plain or "？" in plain) and patterns.ASKING.search(plain)):
        return True
    if has_unspaced_script(plain) and languages.UNSPACED_ASKING.search(plain):
        return True
    return any(match[1] in patterns.IMPERATIVES for match in patterns.THEN_ASKED.finditer(low))


def is_empty(plain: str) -> bool:
    """Whether it says nothing by itself: `Done!`, `Here is what I found:`."""
    return _is_empty(folded(plain))


def _is_empty(low: str) -> bool:
    return bool(patterns.EMPTY.fullmatch(low) or ("here" in low and patterns.ANNOUNCING.fullmatch(low)))


@lru_cache(maxsize=1 << 12)
def chat_value(plain: str) -> float:
    """How much a sentence of small talk tells: what people did and plan, rather than what they exclaim."""
    low = folded(plain)
    value = 0.5 if patterns.LIFE.search(low) else 0.0
    if patterns.FIRST_PERSON.search(low):
        value += 0.3
    if is_question(plain) or patterns.REACTION.match(low):
        value -= 0.7
    return value


def bullet_kind(text: str) -> Kind:
    """The kind of a finished bullet, read back from its prefix and wording."""
    prefix, _, rest = text.partition(": ")
    named = _PREFIXES.get(prefix)
    if named:
        return named
    first = text.split(" ", 1)[0]
    return _ACTIONS.get(first) or assistant_kind(rest if prefix == "User" else text)


_PREFIXES = {
    "Asked": Kind.REQUEST,
    "Reported": Kind.REPORT,
    "Error": Kind.ERROR,
    "Note": Kind.NOTE,
    "Committed": Kind.OUTCOME,
}
_ACTIONS = {"Edited": Kind.DID, "Read": Kind.DID, "Ran": Kind.DID, "Searched": Kind.DID, "Fetched": Kind.DID}


def unopened(plain: str) -> str:
    """A sentence without an opening like `Perfect!` or `Good catch —`."""
    _, start = _opened(plain)
    return plain[start:]


@lru_cache(maxsize=1 << 10)
def _opened(plain: str) -> tuple[str, int]:
    """A sentence folded, and where it goes on after its opening."""
    low = folded(plain)
    match = patterns.OPENING.match(low)
    return low, match.end() if match and match.end() < len(plain) else 0


def without_politeness(plain: str) -> str:
    """A request without greeting, `can you please` and the like; then it is no question any more."""
    end = politeness_end(plain)
    body = plain[end:]
    asked = end and patterns.CAN_YOU.search(folded(plain), 0, end) and not patterns.WH.match(folded(body))
    return body.rstrip("? ") if asked else body


def without_interjection(plain: str) -> str:
    """A user's words without a `Wow!` or `Back.` before them."""
    match = patterns.INTERJECTION.match(folded(plain))
    return plain[match.end() :] if match and match.end() < len(plain) else plain


@lru_cache(maxsize=1 << 10)
def politeness_end(plain: str) -> int:
    """Where the substance of a request begins."""
    match = patterns.POLITE.match(folded(plain))
    return match.end() if match and match.end() < len(plain) else 0


def plan_of(plain: str) -> str:
    """What a narration announces: `Let me also check the callers` is `check the callers`."""
    low, start = _opened(plain)
    match = patterns.LET_ME.match(low, start)
    return plain[match.end() if match else start :]


def finding(plain: str) -> str:
    """What was seen: `I can see two failures` is `two failures`."""
    match = patterns.SEEN.match(folded(plain)) if plain[:1] in "Iiİı" else None
    return plain[match.end() :] if match else plain


def is_label(plain: str) -> bool:
    """Whether a line, a heading or one that ends in a colon, only announces a list and says nothing itself."""
    low, start = _opened(plain)
    return patterns.LABEL.fullmatch(low, start) is not None or _is_empty(low)


def is_question(plain: str) -> bool:
    return plain.rstrip().endswith(("?", "？"))


def asks_only(plain: str) -> bool:
    """Whether a user's words ask to be told or shown something, rather than for something to be done."""
    body = folded(without_politeness(without_interjection(plain)))
    return (patterns.WH.match(body) or patterns.SHOWING.match(body)) is not None


# As far before its first digit as a figure may begin: `September 3`, `from 5 to 6`.
_BEFORE_DIGIT = 12


def gives_figures(plain: str) -> bool:
    """Whether a number with its unit, a version, a port or a date stands in it."""
    digit = patterns.DIGIT.search(plain)
    if digit is None:
        return False
    if patterns.FIGURE.search(plain, digit.start()):
        return True
    return patterns.NAMED_FIGURE.search(plain, max(0, digit.start() - _BEFORE_DIGIT)) is not None


_SPOKEN = re.compile(r"[a-z']+")


def is_trivial(plain: str) -> bool:
    """`yes`, `ok push`, `go ahead`: answers that mean nothing outside their conversation."""
    if not plain.isascii():
        return False
    spoken = _SPOKEN.findall(plain.lower())
    return len(spoken) <= 5 and all(word in patterns.TRIVIAL for word in spoken)
