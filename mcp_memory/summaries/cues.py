"""What kind of thing a sentence says, told by its wording: request, cause, decision, outcome, open problem, or nothing.

A wording is tried only where one of its words stands in the sentence, since most sentences hold none of them and trying
every expression on every sentence is what takes the time. The words are data, in `lexicon/`: English, with short lists
for German, French, Spanish, Chinese and Japanese; a sentence without any cue is a plain statement, so other languages
lose only the ranking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from mcp_memory import lexicon
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.text import Memo, folded, has_unspaced_script
from mcp_memory.lexicon import Expression

_LISTS = lexicon.word_lists("vocabulary")
_SENTENCES = lexicon.expressions("sentences")

#: Words with which one asks for something to be done, only looks, or answers small talk.
IMPERATIVES, INSPECTIONS, REACTIONS = _LISTS["imperatives"], _LISTS["inspections"], _LISTS["reactions"]
_OTHER_IMPERATIVES, _TRIVIAL = _LISTS["other_imperatives"], _LISTS["trivial"]
INSPECTION, LET_ME, POLITE = _SENTENCES["inspection"], _SENTENCES["let_me"], _SENTENCES["polite"]
#: A sentence that goes on from the one before it, and one that cannot be understood without it.
CONNECTED, POINTS_BACK = _SENTENCES["connected"], _SENTENCES["points_back"]
#: What an assistant is about to do, and bringing branches together.
NARRATION, MERGING = _SENTENCES["narration"], _SENTENCES["merging"]
_FIRST_WORD = re.compile(r"([a-z]+)\b('t\b)?")
#: Asking in any language.
_QUESTION_MARK = re.compile(r"[?？](?=\W*$|\s)")
_DIGIT = re.compile(r"\d")


_ANY_WORD = re.compile(r"\b[^\W\d_]+(?:'[^\W\d_]+)?\b")


def words_of(low: str) -> frozenset[str]:
    """The words of a sentence in small letters, each once; `don't` is one."""
    return frozenset(chain.from_iterable(map(_WORDS.__getitem__, low.split())))


_WORDS = Memo(_ANY_WORD.findall, 1 << 14)


def first_word(low: str) -> str:
    """The word with which a sentence in small letters begins, if it begins with one."""
    match = _ANY_WORD.match(low)
    return match[0] if match else ""


class PlainWording:
    """Words that must stand in a sentence as they are: looked for without compiling anything."""

    __slots__ = ("_words",)

    def __init__(self, words: str) -> None:
        self._words = words

    def search(self, low: str) -> bool:
        """Whether the words stand there by themselves rather than within longer ones."""
        start = low.find(self._words)
        while start >= 0:
            end = start + len(self._words)
            before, after = low[start - 1 : start], low[end : end + 1]
            if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
                return True
            start = low.find(self._words, start + 1)
        return False


Wording = Expression | PlainWording
_AS_IT_IS = re.compile(r"\\b([a-z][a-z' -]*[a-z])\\b")


class Cue:
    """Wordings of one kind: the words each turns on, and the expression that must fit, if the word is not enough."""

    __slots__ = ("_words", "by_word")

    def __init__(self, lines: Iterable[str]) -> None:
        #: The expressions of which one must fit where a word stands; none where the word is enough.
        self.by_word: dict[str, tuple[Wording, ...]] = {}
        for line in lines:
            words, _, wording = line.partition(" :: ")
            plain = _AS_IT_IS.fullmatch(wording)
            found: tuple[Wording, ...] = (PlainWording(plain[1]) if plain else Expression(wording),) if wording else ()
            for word in words.split():
                known = self.by_word.get(word)
                self.by_word[word] = (*known, *found) if known and found else found if known is None else ()
        self._words = frozenset(self.by_word)

    def fits(self, low: str, words: frozenset[str]) -> bool:
        """Whether a sentence, given with its words, is worded so."""
        return any(fits_any(self.by_word[word], low) for word in self._words & words)


def fits_any(wordings: tuple[Wording, ...], low: str) -> bool:
    """Whether one of the wordings fits, or none is needed."""
    for wording in wordings:
        if wording.search(low):
            return True
    return not wordings


_CUES = lexicon.sections("cues")
CAUSE = Cue(_CUES["cause"])
DECIDED = Cue(_CUES["decided"])
DECISION = Cue(_CUES["decision"])
REASON = Cue(_CUES["reason"])
OUTCOME = Cue(_CUES["outcome"])
OPEN = Cue(_CUES["open"])
RULE = Cue(_CUES["rule"])
FAILURE = Cue(_CUES["failure"])
CONSEQUENCE = Cue(_CUES["consequence"])
ASKING = Cue(_CUES["asking"])
PROBLEM = Cue(_CUES["problem"])
#: The kinds that are told by script where words are not spaced, best known first.
_UNSPACED = (
    (Kind.DECISION, _SENTENCES["unspaced_decision"]),
    (Kind.CAUSE, _SENTENCES["unspaced_cause"]),
    (Kind.OPEN, _SENTENCES["unspaced_open"]),
    (Kind.OUTCOME, _SENTENCES["unspaced_outcome"]),
    (Kind.RULE, _SENTENCES["unspaced_rule"]),
    (Kind.FINDING, _SENTENCES["unspaced_problem"]),
)
#: A narration of more characters may tell a decision, a question of more may leave something open.
_FIRM, _ASKS_SOMETHING = 60, 40


@lru_cache(maxsize=1 << 12)
def assistant_kind(plain: str) -> Kind:
    """The kind of an assistant's sentence, given without markup."""
    low, start = _opened(plain)
    body, said = low[start:], plain[start:]
    if not body or _is_empty(low) or (start and _is_empty(body)):
        return Kind.NOISE
    if _SENTENCES["routine"].fullmatch(body):
        return Kind.PLANNED
    if NARRATION.match(body):
        return Kind.DECISION if _decides(body, said) else Kind.PLANNED
    if body.endswith(("?", "？")):
        return Kind.OPEN if len(body) > _ASKS_SOMETHING else Kind.NOISE
    told = _by_script(said) if has_unspaced_script(said) else None
    return told or _by_wording(said.lower()) or (Kind.FIGURE if gives_figures(said) else Kind.STATED)


def _decides(body: str, said: str) -> bool:
    """Whether a narration tells a decision with its reasons, rather than the next step."""
    if len(body) <= _FIRM or INSPECTION.match(plan_of(body)):
        return False
    return _says(DECISION, said) or gives_reason(said)


def _by_script(said: str) -> Kind | None:
    """The first kind of which something stands in a sentence whose words are not spaced."""
    return next((kind for kind, wording in _UNSPACED if wording.search(said)), None)


def _by_wording(low: str) -> Kind | None:
    """The first kind whose wording fits; most words are of none, so they are looked up only once."""
    best = len(_ASSISTANT)
    for word in words_of(low) & _TURNING.keys():
        for place, expressions in _TURNING[word]:
            if place < best and fits_any(expressions, low):
                best = place
    return _ASSISTANT[best][1] if best < len(_ASSISTANT) else None


_ASSISTANT = (
    (DECIDED, Kind.DECISION),
    (CAUSE, Kind.CAUSE),
    (OUTCOME, Kind.OUTCOME),
    (DECISION, Kind.DECISION),
    (OPEN, Kind.OPEN),
    (RULE, Kind.RULE),
    (FAILURE, Kind.FINDING),
    (CONSEQUENCE, Kind.FINDING),
)


def _turning() -> dict[str, list[tuple[int, tuple[Wording, ...]]]]:
    """The wordings of all kinds by word: the kind's place, and the expressions of which one must fit."""
    by_word: dict[str, list[tuple[int, tuple[Wording, ...]]]] = {}
    for place, (cue, _) in enumerate(_ASSISTANT):
        for word, expressions in cue.by_word.items():
            by_word.setdefault(word, []).append((place, expressions))
    return by_word


_TURNING = _turning()


def _says(cue: Cue, plain: str) -> bool:
    low = plain.lower()
    return cue.fits(low, words_of(low))


def gives_reason(plain: str) -> bool:
    """Whether it says why, or what was avoided."""
    return _says(REASON, plain)


@lru_cache(maxsize=1 << 12)
def user_kind(plain: str) -> Kind:
    """The kind of a user's sentence, given without markup."""
    body = without_politeness(plain)
    if is_trivial(plain):
        return Kind.NOISE
    low = plain.lower()
    words = words_of(low)
    first = first_word(body.lower())
    if first in IMPERATIVES or first in _OTHER_IMPERATIVES or _asks(plain, low, words):
        return Kind.REQUEST
    if is_empty(plain):
        return Kind.NOISE
    if has_unspaced_script(plain):
        return _user_kind_by_script(plain)
    if DECIDED.fits(low, words):
        return Kind.DECISION
    if PROBLEM.fits(low, words) and not _SENTENCES["settled"].match(folded(plain)):
        return Kind.REPORT
    return Kind.RULE if RULE.fits(low, words) else Kind.SAID


def _user_kind_by_script(plain: str) -> Kind:
    if _SENTENCES["unspaced_decided"].search(plain):
        return Kind.DECISION
    return Kind.REPORT if _SENTENCES["unspaced_problem"].search(plain) else Kind.SAID


def _asks(plain: str, low: str, words: frozenset[str]) -> bool:
    if ASKING.fits(low, words) or (("?" in plain or "？" in plain) and _QUESTION_MARK.search(plain)):
        return True
    if has_unspaced_script(plain) and _SENTENCES["unspaced_asking"].search(plain):
        return True
    return any(match[1] in IMPERATIVES for match in _SENTENCES["then_asked"].finditer(low))


def is_empty(plain: str) -> bool:
    """Whether it says nothing by itself: `Done!`, `Here is what I found:`."""
    return _is_empty(folded(plain))


def _is_empty(low: str) -> bool:
    return bool(_SENTENCES["empty"].fullmatch(low) or ("here" in low and _SENTENCES["announcing"].fullmatch(low)))


@lru_cache(maxsize=1 << 12)
def chat_value(plain: str) -> float:
    """How much a sentence of small talk tells: what people did and plan, rather than what they exclaim."""
    low = folded(plain)
    value = 0.5 if _SENTENCES["life"].search(low) else 0.0
    if _SENTENCES["first_person"].search(low):
        value += 0.3
    if is_question(plain) or _SENTENCES["reaction"].match(low):
        value -= 0.7
    return value


def unopened(plain: str) -> str:
    """A sentence without an opening like `Perfect!` or `Good catch —`."""
    _, start = _opened(plain)
    return plain[start:]


@lru_cache(maxsize=1 << 10)
def _opened(plain: str) -> tuple[str, int]:
    """A sentence folded, and where it goes on after its opening."""
    low = folded(plain)
    match = _SENTENCES["opening"].match(low)
    return low, match.end() if match and match.end() < len(plain) else 0


def without_politeness(plain: str) -> str:
    """A request without greeting, `can you please` and the like; then it is no question any more."""
    end = politeness_end(plain)
    body = plain[end:]
    asked = end and _SENTENCES["can_you"].search(folded(plain), 0, end) and not _SENTENCES["wh"].match(folded(body))
    return body.rstrip("? ") if asked else body


def without_interjection(plain: str) -> str:
    """A user's words without a `Wow!` or `Back.` before them."""
    match = _SENTENCES["interjection"].match(folded(plain))
    return plain[match.end() :] if match and match.end() < len(plain) else plain


@lru_cache(maxsize=1 << 10)
def politeness_end(plain: str) -> int:
    """Where the substance of a request begins."""
    match = POLITE.match(folded(plain))
    return match.end() if match and match.end() < len(plain) else 0


def plan_of(plain: str) -> str:
    """What a narration announces: `Let me also check the callers` is `check the callers`."""
    low, start = _opened(plain)
    match = LET_ME.match(low, start)
    return plain[match.end() if match else start :]


def finding(plain: str) -> str:
    """What was seen: `I can see two failures` is `two failures`."""
    match = _SENTENCES["seen"].match(folded(plain)) if plain[:1] in "Iiİı" else None
    return plain[match.end() :] if match else plain


def is_label(plain: str) -> bool:
    """Whether a line, a heading or one that ends in a colon, only announces a list and says nothing itself."""
    low, start = _opened(plain)
    return _SENTENCES["label"].fullmatch(low, start) is not None or _is_empty(low)


def is_question(plain: str) -> bool:
    return plain.rstrip().endswith(("?", "？"))


def asks_only(plain: str) -> bool:
    """Whether a user's words ask to be told or shown something, rather than for something to be done."""
    body = folded(without_politeness(without_interjection(plain)))
    return (_SENTENCES["wh"].match(body) or _SENTENCES["showing"].match(body)) is not None


# As far before its first digit as a figure may begin: `September 3`, `from 5 to 6`.
_BEFORE_DIGIT = 12


def gives_figures(plain: str) -> bool:
    """Whether a number with its unit, a version, a port or a date stands in it."""
    digit = _DIGIT.search(plain)
    if digit is None:
        return False
    if _SENTENCES["figure"].search(plain, digit.start()):
        return True
    return _SENTENCES["named_figure"].search(plain, max(0, digit.start() - _BEFORE_DIGIT)) is not None


_SPOKEN = re.compile(r"[a-z']+")


def is_trivial(plain: str) -> bool:
    """`yes`, `ok push`, `go ahead`: answers that mean nothing outside their conversation."""
    if not plain.isascii():
        return False
    spoken = _SPOKEN.findall(plain.lower())
    return len(spoken) <= 5 and all(word in _TRIVIAL for word in spoken)


def opens_with_task(low: str, start: int = 0) -> bool:
    """Whether what begins at `start` asks for something to be done; a set tells that sooner than an expression."""
    first = _FIRST_WORD.match(low, start)
    return first is not None and (first[1] in IMPERATIVES or first[0] in IMPERATIVES)
