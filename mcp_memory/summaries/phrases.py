"""From a sentence to the phrases that may name a matter, and how fit each is as a title.

A phrase is a whole clause without framing, in the words that were said. It is fit if it tells something, is neither too
short nor too long, and reads well on its own, without remnants of its sentence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from mcp_memory import lexicon
from mcp_memory.domain.text import STOP_WORDS, folded, has_unspaced_script, terms
from mcp_memory.lexicon import Expression
from mcp_memory.summaries import cues
from mcp_memory.summaries.cues import PROBLEM, first_word, words_of
from mcp_memory.summaries.keywords import stems_of

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
        # It ends before what it is about: `the plan wants to destroy`.
        wants = words[-2] == "to" and words[-1] in cues.IMPERATIVES and words[-1] not in _WORDS["alone"]
        torn = words[-2] not in _WORDS["before_state"] if words[-1] in _WORDS["incomplete"] else wants
        value *= 0.6 if torn else 1.0
        value *= 0.65 if words[0] in _WORDS["routine"] and words[1] not in _WORDS["failed"] else 1.0
        value *= 0.7 if words[1] in _WORDS["never_object"] else 1.0
        value *= 0.6 if words[:2] == ["focus", "on"] else 1.0
    # A name or two say what it is about; more of them than words cannot be read.
    parts = title.split()
    names = sum(1 for word in parts if not (word.isalpha() and word[1:].islower()) and _NAME.search(word))
    by_names = 1.15 if 1 <= names <= 2 else 1.0 if not names else 0.75
    by_names = by_names * (0.6 if names * 2 > len(parts) else 1.0) * 0.9 ** len(_NUMBER.findall(title))
    return value * _by_shape(title) * by_names


def is_generic(title: str) -> bool:
    """Whether it could be about anything: `fix the test`, `add some tests for the new functionality`."""
    return _fits_anything(title, words_of(title.lower()))


def _fits_anything(title: str, words: frozenset[str]) -> bool:
    return _GENERIC.issuperset(words) and title.isascii() and not names_something(title)


def names_something(title: str) -> bool:
    """Whether the name of a file, a function or the like stands in it."""
    return any(_NAME.search(word) for word in title.split())


def _by_shape(title: str) -> float:
    low = title.lower()
    words = words_of(low)
    first = first_word(low)
    value = (0.45 if _is_vague(low, words) else 1.0) * (_SAYS_NOTHING if _fits_anything(title, words) else 1.0)
    if first in cues.REACTIONS:
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


MAX_WORDS = 10
MAX_CHARS = 90

# `explain what the limiter does` is whole.
_ENDS_QUESTION, _ASKED = frozenset({"does", "is", "are", "do"}), frozenset({"what", "how", "where", "why"})
_QUOTES = re.compile(r"(?<!\w)['‘]|['’](?!\w)|[\"“”«»]")
_MARKS = " .,;:!?…-–—/\\*#|=+&'’。，、；：！？"
_LEADING_MARKS = _MARKS.replace(".", "").replace("-", "")
_DOTTED = re.compile(r"(?:\.|--?)\w")
_ORDINARY = re.compile(r"[a-z]+(?:['’][a-z]+)?(?:[\s,]|$)")


def trimmed(words: list[str]) -> str:
    """The words without a joining word before them or a dangling end, and short enough."""
    while len(words) > 1 and words[0].lower() in _WORDS["joining"]:
        words = words[1:]
    size = sum(map(len, words)) + len(words)
    while len(words) > 1 and size > MAX_CHARS:
        size -= len(words[-1]) + 1
        words = words[:-1]
    while words and _dangles(words[-1]) and not (words[-1] in _ENDS_QUESTION and _ASKED.intersection(words)):
        words = words[:-1]
    words = words[:-2] if len(words) > 4 and words[-2].lower() in _WORDS["relative"] else words
    text = " ".join(words)
    tail = _TAIL.search(folded(text)) if words and words[-1].lower() in _WORDS["tail_ends"] else None
    shorter = text[: tail.start()] if tail else text
    return trimmed(shorter.split()) if shorter != text and " " in shorter else text


def _dangles(word: str) -> bool:
    if word.isalnum():
        return word.lower() in _WORDS["dangling"]
    return word.strip(".,;:'\"()").lower() in _WORDS["dangling"] or not any(map(str.isalnum, word))


def finished(title: str) -> str:
    """A phrase as a title: no filler before it, no stray marks, quotes and parentheses in pairs, a capital first."""
    if not title.isascii() or "'" in title or '"' in title:
        title = _QUOTES.sub("", title)
    title = title.rstrip(_MARKS).lstrip(_LEADING_MARKS)
    # `.env` and `--flag` keep their marks.
    title = title.lstrip(".- ") if title[:1] in ".-" and not _DOTTED.match(title) else title
    if word_count(title) > 3 and (filler := _FILLER.match(folded(title))):
        title = title[filler.end() :]
    if len(title) > MAX_CHARS:
        title = title[:MAX_CHARS]
    if title.count("{") != title.count("}"):
        return ""  # it was cut within code
    for opening, closing in ("()", "[]"):
        if title.count(opening) != title.count(closing):
            title = title.replace(opening, "").replace(closing, "")
    return with_capital(title)


def with_capital(text: str) -> str:
    """The text with a capital if it begins with an ordinary word; a name stays as it is written."""
    return text[:1].upper() + text[1:] if text[:1].islower() and _ORDINARY.match(text) else text


def word_count(title: str) -> int:
    """The number of words; three characters of an unspaced script count as one."""
    return len(title) // 3 if has_unspaced_script(title) else title.count(" ") + 1 if title else 0


_PATTERNS = lexicon.expressions("phrases")
_MAX_UNSPACED, _SHORTEST_UNSPACED = 30, 5
_MAX_STARTS = 4
#: How well a phrase begins a thought that is asked for, opens a sentence or stands in the next one.
_ASKED_FOR, _OPENS, _NEXT = 1.5, 1.3, 1.08
#: The same for what a user names as the topic: `let's talk about the rota`.
_TALKED_ABOUT = 2.0
#: What a sentence loses after which something is asked for.
_LEADS_UP = 0.8


class Phrase(NamedTuple):
    """Words of a sentence; `opens` tells how well it begins a thought, `stops` whether it ends with its clause.

    `told` says that it is what the speaker did or does, without the `I`.
    """

    text: str
    opens: float
    stops: bool
    told: bool = False


_AND = Expression(r"\s+(?:and|then|but)\s+(?:then\s+)?")
_SYMBOLS = re.compile("[\u2600-\u27bf\ufe0f\u200d\U0001f000-\U0001faff]")
_PARENTHESIS = re.compile(r"\s*[(（\[][^()（）\[\]]{0,200}[)）\]](?=[\s,.;:!?]|$)")
_ARTICLES = ("the ", "a ", "an ")
_LONG_PATH = re.compile(r"(?:[\w.~@-]*/){2,}([\w.@-]+\.\w+)|(?:[\w.~@-]+/){2,}([\w.@-]+)")
_COMPLAINTS, _COMPLAINT = ("error", "warning"), re.compile(r"(?:error|warning)(?:\[\w+\])?: (?=\S)")
_LINE_REF = re.compile(r"(\.\w+)(?::\d+)+(?:-\d+)?")
_COLON_IT = re.compile(r":\s(?:it|this)(?=\s[a-z]+s\s)")
_PLEASE = re.compile(r",?\s(?:please|pls)(?=[:;,.!?]|$)")
_STOPS = (". ", ", ", "; ", ": ", "? ", "! ")
_SENTENCE_END = re.compile(r"[.!?…。！？](?:(?<=[。！？])|[.!?…]*\s)")
# Of texts without spaces commas, too, often stand without one.
_UNSPACED_COMMA = re.compile(r"(?<=[^\x00-\x7f]),(?=[^\x00-\x7f])")


# The same sentences make titles of segments, of records and of what goes on with a task.
@lru_cache(maxsize=1 << 9)
def phrases(sentence: str) -> Sequence[Phrase]:
    """Every phrase of a sentence that is worth rating."""
    return tuple(_phrases(_tidied(sentence)))


def _phrases(text: str) -> Iterator[Phrase]:
    if has_unspaced_script(text) and text.count(" ") * 6 < len(text):
        yield Phrase(_unspaced(text), _OPENS, stops=True)
        return
    yield from _of_clauses(_without_copulas(text))


def _of_clauses(text: str) -> Iterator[Phrase]:
    """The phrases of a sentence that is put as a statement."""
    low = folded(text)
    starts, ends = _clauses(low)
    found = _PATTERNS["asks"].search(low)
    asked = found.start() if found and not _PATTERNS["about_it"].match(low, found.end()) else 0
    for begun, start, opens in _framed(low, starts[:_MAX_STARTS]):
        told = (_PATTERNS["told"].match(low, begun, start) or _PATTERNS["did"].match(low, start)) is not None
        border = stop.start() if (stop := _SENTENCE_END.search(text, start + 1)) else len(text)
        opens *= _LEADS_UP if border < asked else 1.0
        # An article before it is left out of the title.
        longest = MAX_WORDS + low.startswith(_ARTICLES, start)
        for end, stops in _ends_of(low, start, border, ends, longest):
            if cut := finished(trimmed(text[start:end].split()[:longest])):
                yield Phrase(cut, opens, stops, told)


def _ends_of(low: str, start: int, border: int, ends: list[tuple[int, bool]], longest: int) -> list[tuple[int, bool]]:
    """Where a phrase may end, and whether its clause does: wherever one does before it is too long, or else cut off."""
    after = [(end, stops) for end, stops in ends if start < end <= border] or [(border, True)]
    fitting = [
        (end, stops)
        for end, stops in after
        if low.count(" ", start, end) < longest and not (low.startswith(" to ", end) and " from " in low[start:end])
    ]
    return fitting or [(after[0][0], False)]


def _framed(low: str, starts: list[tuple[int, float]]) -> Iterator[tuple[int, int, float]]:
    """Where clauses of a folded text and their matters begin; a question may also stand as it was asked."""
    for begun, opens in starts:
        start = _unframed(low, begun)
        if start > begun and _PATTERNS["topic"].search(low, begun, start):
            opens = _TALKED_ABOUT
        asks = start > begun and _PATTERNS["asks"].search(low, begun, start) is not None
        yield begun, start, max(opens, _ASKED_FOR) if asks else opens
        if start > begun and _PATTERNS["what_is"].match(low, begun):
            yield begun, begun, opens


def _tidied(sentence: str) -> str:
    """A sentence without symbols, parentheses, directories and labels."""
    text = sentence.replace("`", "").replace("<", "").replace(">", "")
    if text.startswith(_COMPLAINTS):
        text = _COMPLAINT.sub("", text)
    if not text.isascii():
        text = _SYMBOLS.sub("", text)
    if "(" in text or "[" in text or "（" in text:
        text = _PARENTHESIS.sub("", text)
    if text.count("/") > 1:
        text = _LONG_PATH.sub(lambda match: match[1] or match[2], text)
    if ":" in text:
        text = _COLON_IT.sub(":", _LINE_REF.sub(r"\1", text))
    if "please" in text:
        text = _PLEASE.sub("", text)
    return " ".join(_without_labels(text).split())


def _without_labels(text: str) -> str:
    low = folded(text)
    start = 0
    while (label := _PATTERNS["label"].match(low, start)) and label.end() < len(text):
        start = label.end()
    return text[start:]


def _without_copulas(text: str) -> str:
    low = folded(text)
    if not (" is " in low or " are " in low or " was " in low or " were " in low or " been " in low):
        return text
    cuts = [match.span() for match in _PATTERNS["copula"].finditer(low) if not _depends(low, match.start())]
    for start, end in reversed(cuts):
        text = f"{text[:start]} {text[end:]}"
    return text


def _depends(low: str, end: int) -> bool:
    """Whether what stands before `end` is a clause that depends on another: `when the file is empty` needs its verb."""
    start = max((low.rfind(mark, 0, end) + len(mark) for mark in _STOPS if low.rfind(mark, 0, end) >= 0), default=0)
    return _PATTERNS["depending"].search(low, _unframed(low, start), end) is not None


def _unframed(low: str, start: int) -> int:
    """Where the matter begins after greetings, `can you`, `what would happen if` and the like."""
    length = len(low)
    while start < length:
        found = cues.POLITE.match(low, start)
        if not found or found.end() == length:
            found = _PATTERNS["frame"].match(low, start) or _PATTERNS["subject"].match(low, start)
        if not found or found.end() == length:
            break
        start = found.end()
    return start


def _clauses(text: str) -> tuple[list[tuple[int, float]], list[tuple[int, bool]]]:
    """Where a phrase of a folded text may start, best at the opening or after a `can you`, and end, best at a stop."""
    starts, ends = [(0, _OPENS)], []
    for mark in _PATTERNS["clause"].finditer(text):
        stops = mark[1] is None
        if mark.start():
            ends.append((mark.start(), stops))
        if stops and mark.end() < len(text):
            starts.append((mark.end(), _begins(mark[0])))
        elif (task := _AND.match(text, mark.start())) and cues.opens_with_task(text, task.end()):
            starts.append((task.end(), 1.0))
    return starts, [*ends, (len(text), True)]


def _begins(mark: str) -> float:
    if any(map(str.isalpha, mark)):
        return _ASKED_FOR
    return _NEXT if mark[0] in ".!?" else 1.0


def _unspaced(text: str) -> str:
    """A phrase of a text without spaces: its first clauses that fit, without the words with which one asks."""
    if head := _PATTERNS["request_head"].match(text):
        text = text[head.end() :]
    text = _UNSPACED_COMMA.sub("，", text)
    if (asks := _PATTERNS["help_tail"].search(text)) and asks.start() > _SHORTEST_UNSPACED:
        text = text[: asks.start()]
    _, ends = _clauses(folded(text))
    end = max((end for end, _ in ends if end <= _MAX_UNSPACED), default=ends[0][0])
    named = text[:end][:_MAX_UNSPACED]
    tail = _PATTERNS["request_tail"].search(named)
    return finished(named[: tail.start()] if tail and tail.start() > _SHORTEST_UNSPACED else named)


#: What a phrase loses that only leads up to what is asked for.
_LED_UP = 0.5
#: What is asked for names the matter by itself if it is so fit beside what led up to it.
_NAMES_IT = 0.6
_LENGTH = (0.0, 0.3, 0.55, 0.8, 0.95, 1.0, 1.0, 1.0, 1.0, 0.95, 0.9)


def headline(sentence: str, weights: Mapping[str, float]) -> str:
    """The most telling five to ten words of a sentence, from whole clauses where possible."""
    found = [(rough * readability(text), text) for rough, text in rated(sentence, weights)]
    return max(found, key=lambda entry: entry[0], default=(0.0, ""))[1]


def worth(title: str, weights: Mapping[str, float]) -> float:
    """How much a title tells: the weight of what it names, each thing once however many words its name has."""
    if has_unspaced_script(title):
        return math.fsum(weights.get(part, 0.0) for part in sorted(terms(title)))
    told: dict[tuple[str, ...], float] = {}
    for word in title.split():
        parts = _named_by(word)
        if len(parts) == 1:
            if not parts[0].isdigit():
                told[parts] = weights.get(parts[0], 0.0)
        elif parts and not all(map(str.isdigit, parts)):
            ranked = sorted((weights.get(part, 0.0) for part in parts), reverse=True)
            told[parts] = ranked[0] + math.fsum(ranked[1:3]) * 0.3
    return math.fsum(told.values())


@lru_cache(maxsize=1 << 13)
def _named_by(word: str) -> tuple[str, ...]:
    return stems_of(word.strip("`'\".,;:()"))


def rated(sentence: str, weights: Mapping[str, float], *, asked: bool = False) -> list[tuple[float, str]]:
    """The phrases of a sentence, each once, with how fit they are but for how they read.

    Where something is `asked`, what the user did before only leads up to it, unless what is asked for names nothing.
    """
    best: dict[str, Phrase] = {}
    for phrase in phrases(sentence):
        known = best.get(phrase.text)
        if known is None or (phrase.opens, phrase.stops) > (known.opens, known.stops):
            best[phrase.text] = phrase
    found = [(_rough(phrase, weights), phrase) for phrase in best.values()]
    if asked:
        most = max((rough for rough, phrase in found if not phrase.told), default=0.0)
        found = [
            (rough * (_LED_UP if phrase.told and most >= _NAMES_IT * rough else 1.0), phrase) for rough, phrase in found
        ]
    return [(rough, phrase.text) for rough, phrase in found]


def _rough(phrase: Phrase, weights: Mapping[str, float]) -> float:
    length = _LENGTH[min(word_count(phrase.text), MAX_WORDS)]
    told = math.pow(worth(phrase.text, weights) + 0.2, 1.25)
    return told * length * phrase.opens * (1.2 if phrase.stops else 1.0)


def scored(phrase: Phrase, weights: Mapping[str, float]) -> float:
    """How fit a phrase is as a title."""
    return _rough(phrase, weights) * readability(phrase.text)
