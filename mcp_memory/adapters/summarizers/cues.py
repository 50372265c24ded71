"""What kind of thing a sentence says, told by its wording: request, cause, decision, outcome, open problem, or nothing.

The cues are English, with a few words of politeness in other languages; a sentence without any cue is a plain
statement, so other languages lose only the ranking.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from mcp_memory.adapters.summarizers import patterns


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


@lru_cache(maxsize=1 << 12)
def assistant_kind(plain: str) -> Kind:
    """The kind of an assistant's sentence, given without markup."""
    if patterns.EMPTY.fullmatch(plain):
        return Kind.NOISE
    body = unopened(plain)
    if not body or patterns.EMPTY.fullmatch(body):
        return Kind.NOISE
    planned = patterns.NARRATION.match(body) is not None
    if patterns.ROUTINE.fullmatch(body):
        return Kind.PLANNED
    if planned:
        decides = len(body) > 60 and patterns.DECISION.search(body) and not patterns.INSPECTION.match(plan_of(body))
        return Kind.DECISION if decides else Kind.PLANNED
    if body.endswith(("?", "？")):
        return Kind.OPEN if len(body) > 40 else Kind.NOISE
    for pattern, kind in (
        (patterns.DECIDED, Kind.DECISION),
        (patterns.CAUSE, Kind.CAUSE),
        (patterns.OUTCOME, Kind.OUTCOME),
        (patterns.DECISION, Kind.DECISION),
        (patterns.OPEN, Kind.OPEN),
        (patterns.RULE, Kind.RULE),
        (patterns.FAILURE, Kind.FINDING),
        (patterns.FIGURE, Kind.FIGURE),
    ):
        if pattern.search(body):
            return kind
    return Kind.STATED


@lru_cache(maxsize=1 << 12)
def user_kind(plain: str) -> Kind:
    """The kind of a user's sentence, given without markup."""
    body = without_politeness(plain)
    if is_trivial(plain):
        return Kind.NOISE
    if body != plain and patterns.POLITE.match(plain) and patterns.ASKING.search(plain):
        return Kind.REQUEST
    if patterns.IMPERATIVE.match(body) or patterns.ASKING.search(plain) or patterns.THEN_ASKED.search(plain):
        return Kind.REQUEST
    if patterns.EMPTY.fullmatch(plain):
        return Kind.NOISE
    if patterns.PROBLEM.search(plain) and not patterns.SETTLED.match(plain):
        return Kind.REPORT
    return Kind.RULE if patterns.RULE.search(plain) else Kind.SAID


@lru_cache(maxsize=1 << 12)
def chat_value(plain: str) -> float:
    """How much a sentence of small talk tells: what people did and plan, rather than what they exclaim."""
    value = 0.5 if patterns.LIFE.search(plain) else 0.0
    if patterns.FIRST_PERSON.search(plain):
        value += 0.3
    if is_question(plain) or patterns.REACTION.match(plain):
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
    match = patterns.OPENING.match(plain)
    return plain[match.end() :] if match and match.end() < len(plain) else plain


def without_politeness(plain: str) -> str:
    """A request without greeting, `can you please` and the like; then it is no question any more."""
    end = politeness_end(plain)
    body = plain[end:]
    return body.rstrip("? ") if end and patterns.CAN_YOU.search(plain, 0, end) and not patterns.WH.match(body) else body


def without_interjection(plain: str) -> str:
    """A user's words without a `Wow!` or `Back.` before them."""
    match = patterns.INTERJECTION.match(plain)
    return plain[match.end() :] if match and match.end() < len(plain) else plain


def politeness_end(plain: str) -> int:
    """Where the substance of a request begins."""
    match = patterns.POLITE.match(plain)
    return match.end() if match and match.end() < len(plain) else 0


def plan_of(plain: str) -> str:
    """What a narration announces: `Let me also check the callers` is `check the callers`."""
    body = unopened(plain)
    match = patterns.LET_ME.match(body)
    return body[match.end() :] if match else body


def finding(plain: str) -> str:
    """What was seen: `I can see two failures` is `two failures`."""
    match = patterns.SEEN.match(plain)
    return plain[match.end() :] if match else plain


def is_label(plain: str) -> bool:
    """Whether a line, a heading or one that ends in a colon, only announces a list and says nothing itself."""
    return patterns.LABEL.fullmatch(unopened(plain)) is not None or patterns.EMPTY.fullmatch(plain) is not None


def is_question(plain: str) -> bool:
    return plain.rstrip().endswith(("?", "？"))


def asks_only(plain: str) -> bool:
    """Whether a user's words ask to be told or shown something, rather than for something to be done."""
    body = without_politeness(without_interjection(plain))
    return (patterns.WH.match(body) or patterns.SHOWING.match(body)) is not None


def gives_figures(plain: str) -> bool:
    """Whether a number with its unit, a version, a port or a date stands in it."""
    return patterns.DIGIT.search(plain) is not None and patterns.FIGURE.search(plain) is not None


def is_trivial(plain: str) -> bool:
    """`yes`, `ok push`, `go ahead`: answers that mean nothing outside their conversation."""
    spoken = re.findall(r"[a-z']+", plain.lower())
    return len(spoken) <= 5 and plain.isascii() and all(word in patterns.TRIVIAL for word in spoken)
