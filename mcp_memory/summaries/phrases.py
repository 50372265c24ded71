"""From a sentence to the phrases that may name a matter: whole clauses without framing, in the words that were said."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from mcp_memory import lexicon
from mcp_memory.domain.text import folded, has_unspaced_script, terms
from mcp_memory.lexicon import Expression
from mcp_memory.summaries import cues
from mcp_memory.summaries.keywords import stems_of
from mcp_memory.summaries.readability import MAX_WORDS, finished, readability, trimmed, word_count

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
_TEST_ID = re.compile(r"\b(?:FAILED|ERROR|FAIL:?|--- FAIL:)\s+|[\w./\\-]+\.\w{1,4}::(?:\w+::)*(?=\w)")
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
    if "::" in text or "FAIL" in text or "ERROR" in text:
        text = _TEST_ID.sub("", text)
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
        return _unspaced_worth(title, weights)
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


def _unspaced_worth(title: str, weights: Mapping[str, float]) -> float:
    return math.fsum(weights.get(part, 0.0) for part in sorted(terms(title)))


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
