"""Verbs with a particle, which are written as one word, with a hyphen or as two: login, sign-in, roll back, timed out.

A question asks with one of them and the answer was said with another.
"""

from __future__ import annotations

import re

from mcp_memory.domain.stems import root

_KNOWN = """
add-on back-up black-out break-down build-up call-back check-in check-out clean-up cut-off fall-back follow-up
go-live hand-off hand-over hold-up kick-off lay-off lay-out lock-down lock-out log-in log-off log-on log-out look-up
mark-up mock-up opt-in opt-out pay-back pay-off pick-up play-back plug-in pop-up print-out ramp-up roll-back
roll-out round-up run-down scale-up set-up shut-down sign-in sign-off sign-on sign-out sign-up slow-down speed-up
spin-up stand-in stand-up start-up step-down take-over tear-down time-out trade-off turn-over walk-through warm-up
work-around wrap-up write-up
"""
_PARTS = [tuple(word.split("-")) for word in _KNOWN.split()]
_WHOLE = {"".join(parts): (parts[0], parts[1]) for parts in _PARTS}
_ROOTS = {(root(parts[0]), parts[1]): (parts[0], parts[1]) for parts in _PARTS}

Compound = tuple[str, str]


def compound_of(word: str) -> Compound | None:
    """The verb and particle of a lower-case word, singular or plural, in which they are written together."""
    return _WHOLE.get(word) or _WHOLE.get(word.removesuffix("s"))


def compound_in(first: str, second: str) -> Compound | None:
    """The verb and particle of two lower-case words, the first of them in any form."""
    return _ROOTS.get((root(first), second))


def written(verb: str, particle: str) -> re.Pattern[str]:
    """How they stand in a folded text: login, logins, log in, logged in, log-in."""
    start = verb.removesuffix("e")
    return re.compile(rf"(?<![^\W_]){start}(?:[a-z]?(?:ed|ing)|e?s|e)?[\s_-]{{0,2}}{particle}s?(?![^\W_])")
