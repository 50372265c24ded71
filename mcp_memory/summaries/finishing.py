"""Making a title of the words of a phrase: without loose ends and filler, short enough, and with a capital."""

from __future__ import annotations

import re

from mcp_memory.domain.text import folded, has_unspaced_script
from mcp_memory.summaries.expressions import Expression

MAX_WORDS = 10
MAX_CHARS = 90

_JOINING = frozenset("and but or so because since which that then also plus now just maybe though yet".split())
_DANGLING = frozenset(
    """
    a an the of to in on at by for with without from and or but so as is are was were be been that which this these
    those its if when while into over under than then also not just only very our my your his her their we i you
    he she they has have had do does did will would can could should may might must because since where who via per
    using about any all some each every both either no more most such like e.g i.e until before after between
    through being there isn't i'd i'm i'll i've we'd we're we'll we've it's that's there's which's aren't doesn't
    don't didn't can't won't wasn't weren't haven't hasn't couldn't shouldn't wouldn't why how what
    again too please quickly now already currently though anyway first still even vs versus against directly next
    wondering hoping
    """.split()
)
_RELATIVE = frozenset({"which", "that", "who"})
# `explain what the limiter does` is whole.
_ENDS_QUESTION, _ASKED = frozenset({"does", "is", "are", "do"}), frozenset({"what", "how", "where", "why"})
_TAIL = Expression(
    r"\s(?:as well|at all|any ?more|if (?:necessary|possible|needed)|all the time|for (?:that|this|it|now))$"
)
_TAIL_ENDS = frozenset("well all more anymore necessary possible needed time that this it now".split())
_FILLER = Expression(
    r"(?:(?:the|a|an|my|our|their|its|his|her|(?:this|that|these)(?! (?:is|was|are|were|has|have|will|should|can|"
    r"could|does|means|still|also|\w+s)\b)|there(?:'s| is| are)|(?:we|i) (?:have|had|got)(?: some| a| an)?|some|"
    r"i think|i guess|(?:i|we)(?:'ve|’ve| have)(?= \w+ed\b| made| written| set)|\d{1,2}[.)])\s+)+",
)
_QUOTES = re.compile(r"(?<!\w)['‘]|['’](?!\w)|[\"“”«»]")
_OURS = re.compile(r" our (?!own\b)")
_MARKS = " .,;:!?…-–—/\\*#|=+&'’。，、；：！？"
_LEADING_MARKS = _MARKS.replace(".", "").replace("-", "")
_BRACKETS = "()[]{}"
_DOTTED = re.compile(r"(?:\.|--?)\w")
_ORDINARY = re.compile(r"[a-z]+(?:['’][a-z]+)?(?:[\s,]|$)")


def trimmed(words: list[str]) -> str:
    """The words without a joining word before them or a dangling end, and short enough."""
    while len(words) > 1 and words[0].lower() in _JOINING:
        words = words[1:]
    words = _without_dangling(_fitting(words))
    text = " ".join(words)
    tail = _TAIL.search(folded(text)) if words and words[-1].lower() in _TAIL_ENDS else None
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
    return words[:-2] if len(words) > 4 and words[-2].lower() in _RELATIVE else words


def _dangles(word: str) -> bool:
    if word.isalnum():
        return word.lower() in _DANGLING
    return word.strip(".,;:'\"()").lower() in _DANGLING or not any(map(str.isalnum, word))


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
