"""How well a phrase reads on its own, as a title: it names a thing or a task, without remnants of its sentence."""

from __future__ import annotations

import re
from functools import lru_cache

from mcp_memory.domain.text import STOP_WORDS
from mcp_memory.summaries import patterns
from mcp_memory.summaries.common_words import GENERIC
from mcp_memory.summaries.wordings import PROBLEM, first_word, words_of


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# First words that need what stood before them: prepositions, pronouns, verbs without their subject.
_OBLIQUE = _set(
    """
    when if until since although while once after before with without in on at by from of as like you he she they it
    its for their his her instead to not both same there here so no similarly only still even i we was were be been
    being has fails refers takes keeps uses shows returns makes gets contains needs adds means checks says wants calls
    sets looks seems breaks crashes happens appears causes produces requires expects supports allows loses gives goes
    comes hangs lacks becomes includes provides ensures especially particularly specifically including considering such
    """
)
_ASKING = _set("which where who is are does do did can could would should will have any")
# A question of what, how or why names its matter as it stands.
_WONDERING = _set("what what's how why")
# Tasks of every day, which name no matter.
_ROUTINE = _set("commit push open close ship deploy announce run continue go leave keep put start proceed let say")
_SWEEPING = _set("all every each one some many most two three four five")
# What must not be done is no task.
_FORBIDDING = _set("don't dont never avoid")
_PERSONAL = _set("i i'm i've i'd i'll my we we're we've we'll our you your you're you'll that'll it'll they'll")
_MODAL = _set("can could should will would may might today tomorrow")
_VERDICT = _set("valid invalid complete completed successfully correct pass passes pushed ship shipped deployed")
# Last words that want an object or a noun.
_INCOMPLETE = _set(
    """
    want wants need needs use uses add adds show shows contain contains make makes get gets set sets let lets keep
    keeps give gives say says find finds create creates prevent prevents hands expect expects return returns
    called named own same new old got loved had made took off up went only meet outputs prints sends reads writes calls
    """
)
# What can be done to nothing in particular.
_ALONE = _set(
    "start restart stop load reload open close continue run go build commit push sync deploy release ship merge render "
    "finish connect scale train download upload retry"
)
# Before these they are states: `when not set`.
_BEFORE_STATE = _set("not is are was were be been being already never")

# What could be about anything.
_GENERIC = (
    GENERIC
    | STOP_WORDS
    | patterns.IMPERATIVES
    | _set(
        """
        else functionality codebase stuff thing things relevant remaining again please quickly bug bugs failing broken
        more some any few other others following proposed suggested thorough comprehensive audit double everything
        nothing something
        """
    )
)
_SAYS_NOTHING = 0.65

#: What a phrase gets at most.
MOST_READABLE = 1.6

_BY_WORD = ((_PERSONAL, 0.6), (_MODAL, 0.8), (_VERDICT, 0.7))
_BY_FIRST = ((_OBLIQUE, 0.4), (_ASKING, 0.6), (_WONDERING, 0.85), (_SWEEPING, 0.8), (_FORBIDDING, 0.6))
_NEVER_OBJECT = _set("this it that them these those all")
_VAGUE = _set("it it's that's there's them something stuff thing things again")
_SHOWING = _set("this that these those")
_POINTS_AT_NOTHING = re.compile(
    # `files that did not change` points at the files.
    r"\b(?:this|that|these|those)\b(?!(?<=\w that) (?:did|do|does|is|are|was|were|has|have|had|can|will|never|no)\b)"
    r"(?! (?!(?:without|before|after|again|because|between|instead|properly|through|where|"
    r"while|which|would|should|could|works?|always|until|there|first|about)\b)(?:\w{5,}|test|file|code|repo|page|week))"
)
_ONES = _set("one ones last other remaining")
_SOME_ONE = re.compile(r"\bthe (?:\w+ ){0,2}ones?\b|\b(?:last|other|remaining) (?:two|three|four|few)\b")
_POINTING = re.compile(
    r"(?:this|that|these) (?:is|was|are|will|should|means?|still|also|fails|could|can|would|makes|does)\b"
)
_CODE = re.compile(r"==|!=|=>|->|[{}→$%|]|\s\+\s|\w=\w|\w\(")
_DASH = re.compile(r"\s[-–—]\s")
_BROKEN = re.compile(r"\s[-–—]\s|, |; |: |\b(?:so|because|which|whether|since|although)\b")
# What sort of work it was, before what it was about.
_LABELLED = re.compile(
    r"(?:code |design |security )?(?:review|audit|analysis|comparison|investigation|postmortem)\b[^:]{0,30}: "
)
_HASH = re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{7,40}\b|^\d|\b[A-Z]{4,} [A-Z]{4,}\b")
_NUMBER = re.compile(r"(?<![\w.])#?\d[\d.,:]*(?![\w.])")
_NAME = re.compile(r"[a-z][A-Z]|\w[._/]\w|\w::\w|^(?:--?|\.)\w")
_FAILED = _set("failed fails failing is was")


@lru_cache(maxsize=1 << 12)
def readability(title: str) -> float:
    """About 1 for a phrase that can stand alone, less for each thing that makes it read like a torn-out piece."""
    words = title.lower().split()
    if not words:
        return 0.0
    value = 1.0
    for known, factor in _BY_FIRST:
        value *= factor if words[0] in known else 1.0
    for known, factor in _BY_WORD:
        value *= 1.0 if known.isdisjoint(words) else factor
    if len(words) > 1:
        value *= 0.6 if _is_incomplete(words) else 1.0
        value *= 0.65 if words[0] in _ROUTINE and words[1] not in _FAILED else 1.0
        value *= 0.7 if words[1] in _NEVER_OBJECT else 1.0
        value *= 0.6 if words[:2] == ["focus", "on"] else 1.0
    return value * _by_shape(title) * _by_names(title.split(), title)


def is_generic(title: str) -> bool:
    """Whether it could be about anything: `fix the test`, `add some tests for the new functionality`."""
    return _fits_anything(title, words_of(title.lower()))


def _fits_anything(title: str, words: frozenset[str]) -> bool:
    return _GENERIC.issuperset(words) and title.isascii() and not names_something(title)


def names_something(title: str) -> bool:
    """Whether the name of a file, a function or the like stands in it."""
    return any(_NAME.search(word) for word in title.split())


def _is_incomplete(words: list[str]) -> bool:
    """Whether it ends before what it is about: `the plan wants to destroy`."""
    if words[-1] in _INCOMPLETE:
        return words[-2] not in _BEFORE_STATE
    return words[-2] == "to" and words[-1] in patterns.IMPERATIVES and words[-1] not in _ALONE


def _by_shape(title: str) -> float:
    low = title.lower()
    words = words_of(low)
    first = first_word(low)
    value = (0.45 if _is_vague(low, words) else 1.0) * (_SAYS_NOTHING if _fits_anything(title, words) else 1.0)
    if first in _SHOWING and _POINTING.match(low):
        value *= 0.4
    elif first in patterns.REACTIONS or low.startswith("thank you"):
        value *= 0.5
    breaks = len(_BROKEN.findall(title)) - (_LABELLED.match(low) is not None)
    value *= (0.6 if _CODE.search(title) else 1.0) * 0.75 ** min(breaks, 2)
    value *= 0.7 if _DASH.search(title) else 1.0
    value *= (0.6 if _HASH.search(title) else 1.0) * (1.2 if PROBLEM.fits(low, words) else 1.0)
    if first in patterns.IMPERATIVES:
        value *= 0.8 if first in patterns.INSPECTIONS else 1.15
    return value


def _is_vague(low: str, words: frozenset[str]) -> bool:
    """Whether it speaks of something that only what stood before could name."""
    if not words.isdisjoint(_VAGUE):
        return True
    if not words.isdisjoint(_SHOWING) and _POINTS_AT_NOTHING.search(low):
        return True
    return not words.isdisjoint(_ONES) and _SOME_ONE.search(low) is not None


def _by_names(words: list[str], title: str) -> float:
    """A name or two say what it is about; more of them than words cannot be read."""
    names = sum(1 for word in words if not (word.isalpha() and word[1:].islower()) and _NAME.search(word))
    value = 1.15 if 1 <= names <= 2 else 1.0 if not names else 0.75
    return value * (0.6 if names * 2 > len(words) else 1.0) * 0.9 ** len(_NUMBER.findall(title))
