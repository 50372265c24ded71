"""How well a phrase reads on its own, as a title: it names a thing or a task, without remnants of its sentence."""

from __future__ import annotations

import re
from functools import lru_cache

from mcp_memory import lexicon
from mcp_memory.domain.text import STOP_WORDS, folded, has_unspaced_script
from mcp_memory.summaries import cues
from mcp_memory.summaries.cues import PROBLEM, first_word, words_of

_WORDS = lexicon.word_lists("titles")
# What could be about anything.
_GENERIC = lexicon.word_lists("vocabulary")["generic"] | STOP_WORDS | cues.IMPERATIVES | _WORDS["anything"]
_TAIL, _FILLER = lexicon.expressions("phrases")["tail"], lexicon.expressions("phrases")["filler"]
_SAYS_NOTHING = 0.65

#: What a phrase gets at most.
MOST_READABLE = 1.6

_BY_WORD = ((_WORDS["personal"], 0.6), (_WORDS["modal"], 0.8), (_WORDS["verdict"], 0.7))
_BY_FIRST = (
    (_WORDS["oblique"], 0.4),
    (_WORDS["asking"], 0.6),
    (_WORDS["wondering"], 0.85),
    (_WORDS["sweeping"], 0.8),
    (_WORDS["forbidding"], 0.6),
)
_POINTS_AT_NOTHING = re.compile(
    # `files that did not change` points at the files.
    r"\b(?:this|that|these|those)\b(?!(?<=\w that) (?:did|do|does|is|are|was|were|has|have|had|can|will|never|no)\b)"
    r"(?! (?!(?:without|before|after|again|because|between|instead|properly|through|where|"
    r"while|which|would|should|could|works?|always|until|there|first|about)\b)(?:\w{5,}|test|file|code|repo|page|week))"
)
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
        value *= 0.65 if words[0] in _WORDS["routine"] and words[1] not in _WORDS["failed"] else 1.0
        value *= 0.7 if words[1] in _WORDS["never_object"] else 1.0
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
    if words[-1] in _WORDS["incomplete"]:
        return words[-2] not in _WORDS["before_state"]
    return words[-2] == "to" and words[-1] in cues.IMPERATIVES and words[-1] not in _WORDS["alone"]


def _by_shape(title: str) -> float:
    low = title.lower()
    words = words_of(low)
    first = first_word(low)
    value = (0.45 if _is_vague(low, words) else 1.0) * (_SAYS_NOTHING if _fits_anything(title, words) else 1.0)
    if first in _WORDS["showing"] and _POINTING.match(low):
        value *= 0.4
    elif first in cues.REACTIONS or low.startswith("thank you"):
        value *= 0.5
    breaks = len(_BROKEN.findall(title)) - (_LABELLED.match(low) is not None)
    value *= (0.6 if _CODE.search(title) else 1.0) * 0.75 ** min(breaks, 2)
    value *= 0.7 if _DASH.search(title) else 1.0
    value *= (0.6 if _HASH.search(title) else 1.0) * (1.2 if PROBLEM.fits(low, words) else 1.0)
    if first in cues.IMPERATIVES:
        value *= 0.8 if first in cues.INSPECTIONS else 1.15
    return value


def _is_vague(low: str, words: frozenset[str]) -> bool:
    """Whether it speaks of something that only what stood before could name."""
    if not words.isdisjoint(_WORDS["vague"]):
        return True
    if not words.isdisjoint(_WORDS["showing"]) and _POINTS_AT_NOTHING.search(low):
        return True
    return not words.isdisjoint(_WORDS["ones"]) and _SOME_ONE.search(low) is not None


def _by_names(words: list[str], title: str) -> float:
    """A name or two say what it is about; more of them than words cannot be read."""
    names = sum(1 for word in words if not (word.isalpha() and word[1:].islower()) and _NAME.search(word))
    value = 1.15 if 1 <= names <= 2 else 1.0 if not names else 0.75
    return value * (0.6 if names * 2 > len(words) else 1.0) * 0.9 ** len(_NUMBER.findall(title))


MAX_WORDS = 10
MAX_CHARS = 90

# `explain what the limiter does` is whole.
_ENDS_QUESTION, _ASKED = frozenset({"does", "is", "are", "do"}), frozenset({"what", "how", "where", "why"})
_QUOTES = re.compile(r"(?<!\w)['‘]|['’](?!\w)|[\"“”«»]")
_OURS = re.compile(r" our (?!own\b)")
_MARKS = " .,;:!?…-–—/\\*#|=+&'’。，、；：！？"
_LEADING_MARKS = _MARKS.replace(".", "").replace("-", "")
_BRACKETS = "()[]{}"
_DOTTED = re.compile(r"(?:\.|--?)\w")
_ORDINARY = re.compile(r"[a-z]+(?:['’][a-z]+)?(?:[\s,]|$)")


def trimmed(words: list[str]) -> str:
    """The words without a joining word before them or a dangling end, and short enough."""
    while len(words) > 1 and words[0].lower() in _WORDS["joining"]:
        words = words[1:]
    words = _without_dangling(_fitting(words))
    text = " ".join(words)
    tail = _TAIL.search(folded(text)) if words and words[-1].lower() in _WORDS["tail_ends"] else None
    shorter = text[: tail.start()] if tail else text
    return trimmed(shorter.split()) if shorter != text and " " in shorter else text


def _fitting(words: list[str]) -> list[str]:
    size = sum(map(len, words)) + len(words)
    while len(words) > 1 and size > MAX_CHARS:
        size -= len(words[-1]) + 1
        words = words[:-1]
    return words


def _without_dangling(words: list[str]) -> list[str]:
    while words and _dangles(words[-1]) and not (words[-1] in _ENDS_QUESTION and _ASKED.intersection(words)):
        words = words[:-1]
    return words[:-2] if len(words) > 4 and words[-2].lower() in _WORDS["relative"] else words


def _dangles(word: str) -> bool:
    if word.isalnum():
        return word.lower() in _WORDS["dangling"]
    return word.strip(".,;:'\"()").lower() in _WORDS["dangling"] or not any(map(str.isalnum, word))


def finished(title: str) -> str:
    """A phrase as a title: no filler before it, no stray marks, quotes and parentheses in pairs, a capital first."""
    title = _without_marks(title)
    if word_count(title) > 3 and (filler := _FILLER.match(folded(title))):
        title = title[filler.end() :]
    if " our " in title:
        title = _OURS.sub(" the ", title)
    if len(title) > MAX_CHARS:
        title = title[:MAX_CHARS]
    if any(map(title.__contains__, _BRACKETS)):
        title = _balanced(title)
    return with_capital(title)


def with_capital(text: str) -> str:
    """The text with a capital if it begins with an ordinary word; a name stays as it is written."""
    return text[:1].upper() + text[1:] if text[:1].islower() and _ORDINARY.match(text) else text


def _without_marks(title: str) -> str:
    """The phrase without quotation marks, and without marks around it; `.env` and `--flag` keep theirs."""
    if not title.isascii() or "'" in title or '"' in title:
        title = _QUOTES.sub("", title)
    title = title.rstrip(_MARKS).lstrip(_LEADING_MARKS)
    return title.lstrip(".- ") if title[:1] in ".-" and not _DOTTED.match(title) else title


def _balanced(title: str) -> str:
    if title.count("{") != title.count("}"):
        return ""  # it was cut within code
    for opening, closing in ("()", "[]"):
        if title.count(opening) != title.count(closing):
            title = title.replace(opening, "").replace(closing, "")
    return title


def word_count(title: str) -> int:
    """The number of words; three characters of an unspaced script count as one."""
    return len(title) // 3 if has_unspaced_script(title) else title.count(" ") + 1 if title else 0
