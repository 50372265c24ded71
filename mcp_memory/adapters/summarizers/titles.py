"""Headlines: a few words that name the task, taken from a sentence of the conversation."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from mcp_memory.adapters.summarizers.cues import politeness_end
from mcp_memory.adapters.summarizers.keywords import stems_of
from mcp_memory.domain.text import has_unspaced_script

MAX_WORDS = 10
MIN_WORDS = 5
_MAX_CHARS = 90
_MAX_UNSPACED = 30
_CLAUSE = re.compile(
    r"\s+[-–—]+\s+|[,;:!?…。，、；：！？]+(?:\s+|$)|[。，、；：！？]|\.\s+|"
    r"\s+(?:i'?d like(?: us| you)? to|i want(?: you)? to|"
    r"(?:i think )?(?:can|could) (?:you|we)|(?:i think )?we (?:can|could|should)(?: just)?|please)\s+|(\s+)(?=(?:but|"
    r"so|because|since|which|that|when|while|if|then|and|or|instead|where|with|without|rather|using|via|before|after|"
    r"until|by|to|for|from|in|on|at|into|of)\s)",
    re.I,
)
_SYMBOLS = re.compile("[`<>\u2600-\u27bf\ufe0f\u200d\U0001f000-\U0001faff]")
_PARENTHESIS = re.compile(r"\s*[(（\[][^()（）\[\]]{0,200}[)）\]](?=[\s,.;:!?]|$)")
_LONG_PATH = re.compile(r"(?:[\w.~@-]*/){2,}([\w.@-]+)")
_LINE_REF = re.compile(r"(\.\w+)(?::\d+)+(?:-\d+)?")
_LABEL = re.compile(
    r"(?:plan|review|fix|task|feature|bug|issue|summary|title|low severity|medium severity|high severity|user|asked|"
    r"reported|note|(?:take|have) a look at|check|look at|line \d+)\s*[:：]\s*|"
    r"[\w./\\-]+\.\w{1,5}(?: \([^)]*\))?\s*(?::|\s[-–—])\s+",
    re.I,
)
_FILLER = re.compile(
    r"(?:(?:the|a|an|my|our|(?:this|that|these|it)(?! (?:is|was|are|were|has|have|will|should|can|could|does|"
    r"means)\b)|there(?:'s| is| are)|(?:we|i) (?:have|had|got)(?: some| a| an)?|i'm using|i am using|some|i think|"
    r"i guess|(?:i|we)(?:'ve|’ve| have)(?= \w+ed\b| made| written| set)|\d{1,2}[.)])\s+)+",
    re.I,
)
_DANGLING = frozenset(
    """
    a an the of to in on at by for with without from and or but so as is are was were be been that which this these
    those its it if when while into over under than then also not just only very our my your his her their we i you
    he she they has have had do does did will would can could should may might must because since where who via per
    using about any all some each every both either no more most such like e.g i.e until before after between
    through being there isn't i'd i'm i'll i've we'd we're we'll we've it's that's there's which's aren't doesn't
    don't didn't can't won't wasn't weren't haven't hasn't couldn't shouldn't wouldn't why how what
    """.split()
)


_SUBJECT = re.compile(
    r"(?:(?:hey|hi|hello|so|well|and|but)\W+)?(?:i|we)(?:'ve|’ve| have)?(?: just| also| recently| already|"
    r" finally)?\s+(?=(?:went|got|had|made|bought|took|met|saw|ran|read|built|wrote|found|lost|won|gave|set|"
    r"\w{3,}ed)\b)",
    re.I,
)
_SENTENCE_END = re.compile(r"[.!?…]+\s|[。！？]")
_JOINING = frozenset("and but or so because since which that then also plus now just maybe".split())
_OBLIQUE = re.compile(
    r"(?:when|if|until|since|although|while|once|after|before|with|in|you|he|she|they|it|for|"
    r"(?:i|we)(?=['’ ](?:m|am|d|ll|do|don|need|think|can|was|would|should|have|want)\b))\b",
    re.I,
)
_VAGUE = re.compile(r"\b(?:it|this|that|them|these|those|something|stuff|all \d+|again)\b", re.I)


def headline(sentence: str, weights: Mapping[str, float]) -> str:
    """The most telling five to ten words of a sentence, from whole clauses where possible."""
    text = _tidied(sentence)
    if has_unspaced_script(text) and text.count(" ") * 6 < len(text):
        return _unspaced(text)
    starts, ends = _clauses(text)
    best, best_score = "", -1.0
    for start, opens in starts:
        start += politeness_end(text[start:])
        if subject := _SUBJECT.match(text, start):
            start = subject.end()
        border = stop.start() if (stop := _SENTENCE_END.search(text, start + 1)) else len(text)
        after = [(end, stops) for end, stops in ends if start < end <= border] or [(border, True)]
        fitting = [(end, stops) for end, stops in after if text.count(" ", start, end) < MAX_WORDS]
        for end, stops in fitting or after[:1]:
            candidate = trimmed(text[start:end].split()[:MAX_WORDS])
            score = _score(candidate, weights, opens=opens) * (1.0 if not fitting else 1.3 if stops else 1.1)
            if score > best_score:
                best, best_score = candidate, score
    return _finished(best)


_ORDINARY = re.compile(r"[a-z]+(?:['’][a-z]+)?(?:[\s,]|$)")


def worth(title: str, weights: Mapping[str, float]) -> float:
    """How much a title tells: the weight of its distinct stems."""
    stems = {part for word in title.split() for part in stems_of(word.strip("`'\".,()"))}
    told = math.fsum(weights.get(part, 0.0) for part in stems)
    return told * (0.75 if _VAGUE.search(title) else 1.0) * (0.45 if _OBLIQUE.match(title) else 1.0)


def word_count(title: str) -> int:
    """The number of words; three characters of an unspaced script count as one."""
    return len(title) // 3 if has_unspaced_script(title) else title.count(" ") + 1 if title else 0


def _tidied(sentence: str) -> str:
    text = _SYMBOLS.sub("", sentence)
    text = _PARENTHESIS.sub("", text)
    text = _LONG_PATH.sub(r"\1", text)
    text = _LINE_REF.sub(r"\1", text)
    while (label := _LABEL.match(text)) and label.end() < len(text):
        text = text[label.end() :]
    return " ".join(text.split())


def _clauses(text: str) -> tuple[list[tuple[int, bool]], list[tuple[int, bool]]]:
    """Where a headline may start, best at the opening or after a `can you`, and where it may end, best at a stop."""
    starts, ends = [(0, True)], []
    for mark in _CLAUSE.finditer(text):
        stops = mark[1] is None
        if mark.start():
            ends.append((mark.start(), stops))
        if stops and mark.end() < len(text):
            starts.append((mark.end(), any(map(str.isalpha, mark[0]))))
    return starts, [*ends, (len(text), True)]


def _score(title: str, weights: Mapping[str, float], *, opens: bool) -> float:
    count = word_count(title)
    if not count:
        return -1.0
    length = 1.0 if MIN_WORDS <= count <= MAX_WORDS else count / MIN_WORDS
    return (worth(title, weights) + 0.3) * (1.4 if opens else 1.0) * length


def trimmed(words: list[str]) -> str:
    """The words without a dangling end or a joining word before them, and short enough."""
    while len(words) > 1 and words[0].lower() in _JOINING:
        words = words[1:]
    while len(words) > 1 and sum(map(len, words)) + len(words) > _MAX_CHARS:
        words = words[:-1]
    while words and (words[-1].strip(".,;:'\"()").lower() in _DANGLING or not any(map(str.isalnum, words[-1]))):
        words = words[:-1]
    if len(words) > 4 and words[-2].lower() in ("which", "that", "who"):
        words = words[:-2]
    return " ".join(words)


def _finished(title: str) -> str:
    title = title.strip(" .,;:!?…-–—/\\*#|=+&'\"“”‘’«»。，、；：！？")
    if word_count(title) > 3 and (filler := _FILLER.match(title)):
        title = title[filler.end() :]
    if len(title) > _MAX_CHARS:
        title = title[:_MAX_CHARS]
    for opening, closing in ("()", "[]", "{}", "“”"):
        if title.count(opening) != title.count(closing):
            title = title.replace(opening, "").replace(closing, "")
    if title.count('"') % 2:
        title = title.replace('"', "")
    return title[:1].upper() + title[1:] if _ORDINARY.match(title) else title


def _unspaced(text: str) -> str:
    """A headline of a text without spaces: its first clauses that fit."""
    _, ends = _clauses(text)
    end = max((end for end, _ in ends if end <= _MAX_UNSPACED), default=ends[0][0])
    return _finished(text[:end][:_MAX_UNSPACED])
