"""From a sentence to the phrases that may name a matter: whole clauses without framing, in the words that were said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from mcp_memory.domain.text import folded, has_unspaced_script
from mcp_memory.summaries import languages, patterns
from mcp_memory.summaries.common_words import FOREIGN
from mcp_memory.summaries.expressions import Expression
from mcp_memory.summaries.finishing import MAX_WORDS, finished, trimmed
from mcp_memory.summaries.languages import is_other
from mcp_memory.summaries.points import contracted, contrast, statement
from mcp_memory.summaries.wordings import words_of

_MAX_UNSPACED, _SHORTEST_UNSPACED = 30, 5
_MAX_STARTS = 4
#: How well a phrase begins a thought that is asked for, opens a sentence or stands in the next one.
_ASKED_FOR, _OPENS, _NEXT = 1.5, 1.3, 1.08
#: The same for what a user names as the topic: `let's talk about the rota`.
_TALKED_ABOUT = 2.0
#: How much better the point of a sentence names its matter than what leads to it.
_POINT = 1.3
#: What a sentence loses after which something is asked for.
_LEADS_UP = 0.8
#: So many words a preposition may govern.
_GOVERNED = 5


class Phrase(NamedTuple):
    """Words of a sentence; `opens` tells how well it begins a thought, `stops` whether it ends with its clause.

    `told` says that it is what the speaker did or does, without the `I`.
    """

    text: str
    opens: float
    stops: bool
    told: bool = False


# It begins with the blank or mark and looks back at it: any of some letters is found faster than any of some patterns.
_CLAUSE = Expression(
    r"[\s.,;:!?…。，、；：！？](?:(?<=\s)\s*(?:[-–—→]+\s+|"
    r"(?:i'?d like(?: us| you)? to|i want(?: you)? to|"
    r"(?:i think )?(?:can|could) (?:you|we)|(?:i think )?we (?:can|could|should)(?: just)?|please)\s+|()(?=(?:but|"
    r"so|because|since|which|that|when|while|if|then|and|or|instead|where|with|without|rather|using|via|before|after|"
    r"until|although|though|whereas|unless|despite|by|to|for|from|in|on|at|into|like|as|about|during)\s))|"
    r"(?<=[,;:!?…。，、；：！？])[,;:!?…。，、；：！？]*(?:\s+|$)|(?<=[。，、；：！？])|(?<=\.)\s+)",
)
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
_LABEL = Expression(
    r"(?:plan|review|fix|fixed|task|feature|bug|issue|summary|title|low severity|medium severity|high severity|user|"
    r"asked|reported|note|decision|done|open item|left open|still open|"
    r"unresolved|root cause|solution|problem|result|answer|option \d|removed|"
    r"(?:take|have) a look at|check|look at|line \d+|(?:one|two|three|last|a)(?: \w+)? (?:things?|ways?)(?: \w+){0,3}|"
    r"(?:another|one more|next) (?:thing|problem|issue|question|point|bug)|"
    r"while (?:we're|we are|you're) at it|for the future|next|also|now|then|btw)\s*[:：]\s*|"
    r"[\w./\\-]+\.\w{1,5}(?: \([^)]*\))?\s*(?::|\s[-–—])\s+",
)
_STATE = (
    r"(?:not|never|too|half|sometimes|often|no longer|always|only|[a-z]{3,}ed|missing|broken|wrong|slow|slower|full|"
    r"empty|stale|flaky|failing|hidden|held|lost|gone|stuck|down|unable|redundant|incomplete|invalid|incorrect|"
    r"inconsistent|written|sent|thrown|shown|found|kept|left|made|given|taken|built|set|split|seen|drawn)\b"
)
# Headlines do without the copula: `the label is missing` is `label missing`.
_COPULA = Expression(
    rf"\s(?<=[\w)\"']\s)(?<!\bwhat\s)(?<!\bthat\s)(?<!\bwhich\s)(?:is|are|was|were|has been|have been|had been)"
    rf"(?:\s(?:also|now|already|just|currently))*\s(?={_STATE})",
)
_STOPS = (". ", ", ", "; ", ": ", "? ", "! ")
_DEPENDING = Expression(
    r"\b(?:when|whenever|if|unless|while|until|once|after|before|because|since|although|whether|as)\s"
)
# What introduces a matter without being part of it.
_FRAME = Expression(
    r"(?:exactly|back|phew|oops|wow|yup|oh|ah|haha|thankfully|luckily|unfortunately|honestly|similarly|specifically|"
    r"basically|generally|overall|recently|lately|currently|right now|yesterday(?!'s)|today|until recently)\b"
    r"[\s,.!:;—–-]+|yesterday's\s+|"
    r"(?:i|we)(?:'ve|’ve| have| had)?(?: also| now| just)? (?:noticed?|see|saw|believe|wonder(?:ed)?|think|guess|"
    r"hear|heard|know|hope|wish|mean|suspect)(?: that| if| whether)?\s+|"
    r"(?:(?:i|we) )?(?:tested and )?(?:found|learned|discovered)(?: out)? that\s+|"
    r"(?:(?:i was|i'm|i am|just|we were) )*(?:wondering|curious)(?: now)?(?: if| whether)?\s+|"
    r"(?:last|this|next) (?:week|weekend|month|year|night|\w+day)s?,?\s+(?=(?:i|we)\b)|(?:\w+, )?long time no \w+\W+|"
    r"(?:talk|think|decide|speak) about\s+|discuss\s+|when (?:i|we|you)\s+|when (?=\w{3,}ing\b)|"
    r"what(?:'?s|’s| is| are| was| were) (?=the\s)|"
    r"how (?:do|can|could|would|should|might) (?:i|we|you|one|people|users)\s+|"
    r"(?:i|we)(?:'d|’d| would)(?: (?:also|rather|really|probably|personally|strongly|just|simply))*(?: (?:suggest|"
    r"recommend|propose|prefer|advise))(?: (?:to|that|using|that we|that you|we|you))?\s+|"
    r"(?:i|we)(?:'d|’d| would)(?: (?:also|rather|really|probably|personally|just|simply))+\s+|"
    r"(?:give|show|write)(?: me| us)? (?:a|an|the)(?: \w+)? (?:overview|summary|explanation|description|idea)"
    r"(?: of| about| on| for)\s+|walk (?:me|us) through\s+|"
    r"(?:i (?:really )?(?:like|love) )?(?:the|your) (?:idea|suggestion) of\s+|"
    r"(?:start|begin)(?: by| with)? (?=\w{3,}ing\b)|"
    r"(?:in|on|for|with) [\w./`'-]+,? (?=(?:the|our|my|we|i)\s)|it (?:would|might|could) (?:make sense|be (?:good|nice|"
    r"better|great|useful|helpful|possible)) to\s+|it makes sense to\s+|"
    r"what (?:would|will|could) happen (?:if|when)\s+|what happens (?:if|when)\s+|what about\s+|how about\s+|"
    r"is there (?:a|any) way (?:to|we can)\s+|(?:do you have )?any ideas? (?:why|how|what)\s+|"
    r"do you know (?:why|how|if|whether)\s+|"
    r"(?:the |one )?(?:problem|issue|thing|question|cause|reason|culprit) is(?: that)?\s+|"
    r"it (?:looks|seems)(?: like)?(?: that)?\s+|it turns out(?: that)?\s+|turns out(?: that)?\s+|"
    r"explain(?: to)?(?: me)?(?: again)? (?:what.s the case when|what the case is when)\s+|"
    r"(?:we|they) (?:(?:will|also|really) )?(?:need|want)(?: (?:a|an|some))?\s+(?!to\b)|"
    r"(?:\w+ ){1,4}(?:keeps? (?:complaining|saying)|complain(?:s|ed)?|says?|said|wrote|reports?|reported|"
    r"told (?:me|us)|"
    r"mentioned|suggests?) that\s+|(?:make|making) sure(?: that)?\s+(?!to\b)|"
    r"(?:figure|find) out (?:if|whether)\s+|(?:double[- ]?)?check (?:that|if|whether)\s+|there should be\s+|"
    r"i(?:'m|’m| am) (?:using|trying to|seeing|getting|interested in|(?:currently )?working (?:in|on))\s+|"
    r"(?:this|that|it) means(?: that)?\s+|"
    r"(?:(?:know|learn|hear|see|find out) more about|tell (?:me|us)(?: more)? about)\s+|"
    r"(?:take|have) (?:a|another|one) (?:\w+ )?look(?: (?:at|into|and|if|whether))*\s+|"
    r"(?:make|change|do|set) (?:it|this|that|things) (?:up )?so(?: that)?(?: (?:i|we|you|people|users) can)?"
    r"(?: have)?\s+|"
    r"(?:(?:a|one|another|just a|quick|short|small|simple) )*question[\s,:–—-]+|help (?:you|me|us)(?: to)?\s+|"
    r"do (?:(?:the|a|an)\s+|(?=[\"“'`]))|ignore this error\W+|have (?=(?:a|an|some)\s)|"
    r"this is (?:now |just |still )?(?:the|a|an)\s+|"
    r"(?:the )?(?:key |real |right |only )?fix (?:is|was)(?: to)?\s+|"
    r"(?:the |our |my )?(?:customers?|users?|clients?|boss|manager|team|designers?|marketing|sales|support|people|"
    r"product owner|he|she|[a-z]+s(?= want\b)) wants?(?: me| us| you)? to\s+|"
    r"see\s+(?!if|whether|how|what|why|also)|(?:yes|no)\b[\s,.!:;—–-]+|"
    r"(?:they|people|users|customers) (?:want|need)(?: to)?\s+",
)
_SUBJECT = Expression(
    r"(?:i|we)(?:'ve|’ve| have)?(?: just| also| recently| already| finally)?\s+(?=(?:went|got|had|made|bought|took|met|"
    r"saw|ran|read|built|wrote|found|lost|won|gave|set|\w{3,}ed)\b)|(?:i|we)(?:'ve|’ve| have) been\s+(?=\w+ing\b)|"
    r"(?:i'm|i’m|i am|we're|we’re|we are)\s+(?=\w{3,}ing\b)|i(?:'d|’d| would) (?=\w{3,}\b(?!ed\b))"
)
_ASKS = Expression(
    r"\b(?:(?:can|could|would) (?:you|we)|i(?:'d|’d| would)? (?:like|want|need)|please|(?:we|you) should)\b"
)
_TOPIC = Expression(r"\b(?:talk|think|decide|speak) about\b|\bdiscuss\b")
# What is asked for is a look at what was said before.
_ABOUT_IT = Expression(
    rf"(?: (?:please|also|maybe|quickly|to))* (?:{'|'.join(sorted(patterns.INSPECTIONS))}|fix|help|debug|take|have)\b"
)
_WHAT_IS = Expression(r"what(?:'?s|’s| is| are| was| were) the\s")
_TOLD = Expression(r"(?:\w+\W+)?(?:i|we)(?:'ve|’ve| have| had)?\b(?!['’ ](?:d|ll|want|need|would|should|think|like)\b)")
_DID = Expression(r"(?:checked|tested|tried|deployed|merged|pushed|verified|confirmed|looked|reviewed)\b")
_SENTENCE_END = re.compile(r"[.!?…。！？](?:(?<=[。！？])|[.!?…]*\s)")
# Of texts without spaces commas, too, often stand without one.
_UNSPACED_COMMA = re.compile(r"(?<=[^\x00-\x7f]),(?=[^\x00-\x7f])")


# The same sentences make titles of segments, of records and of what goes on with a task.
@lru_cache(maxsize=1 << 9)
def phrases(sentence: str) -> Sequence[Phrase]:
    """Every phrase of a sentence that is worth rating, its point before the rest."""
    return tuple(_phrases(_tidied(sentence)))


def _phrases(text: str) -> Iterator[Phrase]:
    if has_unspaced_script(text) and text.count(" ") * 6 < len(text):
        yield Phrase(_unspaced(text), _OPENS, stops=True)
        return
    low = folded(text)
    if not FOREIGN.isdisjoint(low.split()) and is_other(words_of(low), FOREIGN):
        yield from _of_other_language(text)
        return
    whole = statement(text)
    for phrase in chain(_of_contrast(text), _of_contraction(whole)):
        yield phrase._replace(opens=phrase.opens * _POINT)
    yield from _of_clauses(_without_copulas(whole))


def _of_contrast(text: str) -> Iterator[Phrase]:
    """What a `but` leads to."""
    if point := contrast(text):
        yield from _of_clauses(_without_copulas(point))


def _of_contraction(text: str) -> Iterator[Phrase]:
    """What is wrong by a sentence that is too long for a title."""
    short, wrong = contracted(text) if text.count(" ") >= MAX_WORDS else ("", "")
    if short:
        yield from (phrase for phrase in _of_clauses(short) if f" {wrong}" in folded(phrase.text))


def _of_other_language(text: str) -> Iterator[Phrase]:
    """The clauses of a sentence that is not English, each as it stands but for its politeness and article."""
    start = 0
    for stop in languages.CLAUSE.finditer(f"{folded(text)}."):
        begun, start = start, stop.end()
        clause = text[begun : stop.start()]
        words = clause[_own_start(folded(clause)) :].split()
        cut, whole = _cut_off(words) if len(words) > MAX_WORDS else (words, True)
        while len(cut) > 1 and cut[-1].lower() in FOREIGN:
            cut = cut[:-1]
        if cut and (named := finished(" ".join(cut))):
            yield Phrase(named[:1].upper() + named[1:], _NEXT if begun else _OPENS, whole)


def _own_start(low: str) -> int:
    """Where a clause of another language begins to name its matter."""
    start = 0
    for opening in (patterns.POLITE, languages.WHY, languages.ARTICLES):
        if found := opening.match(low, start):
            start = found.end()
    return start


def _cut_off(words: list[str]) -> tuple[list[str], bool]:
    """The first words, as many as a title has, and whether they are whole: not if a name was cut in two."""
    cut = words[:MAX_WORDS]
    return (_before_preposition(cut), True) if cut[-1].lower() in languages.OF else (cut, False)


def _before_preposition(words: list[str]) -> list[str]:
    """The words up to the last preposition among their last, where they were cut within what it governs."""
    at = max((index for index, word in enumerate(words) if word.lower() in languages.PREPOSITIONS), default=0)
    return words[:at] if at >= len(words) - _GOVERNED else words


def _of_clauses(text: str) -> Iterator[Phrase]:
    """The phrases of a sentence that is put as a statement."""
    low = folded(text)
    starts, ends = _clauses(low)
    asked = found.start() if (found := _ASKS.search(low)) and not _ABOUT_IT.match(low, found.end()) else 0
    for begun, start, opens in _framed(low, starts[:_MAX_STARTS]):
        told = (_TOLD.match(low, begun, start) or _DID.match(low, start)) is not None
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
        if start > begun and _TOPIC.search(low, begun, start):
            opens = _TALKED_ABOUT
        asks = start > begun and _ASKS.search(low, begun, start) is not None
        yield begun, start, max(opens, _ASKED_FOR) if asks else opens
        if start > begun and _WHAT_IS.match(low, begun):
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
    while (label := _LABEL.match(low, start)) and label.end() < len(text):
        start = label.end()
    return text[start:]


def _without_copulas(text: str) -> str:
    low = folded(text)
    if not (" is " in low or " are " in low or " was " in low or " were " in low or " been " in low):
        return text
    cuts = [match.span() for match in _COPULA.finditer(low) if not _depends(low, match.start())]
    for start, end in reversed(cuts):
        text = f"{text[:start]} {text[end:]}"
    return text


def _depends(low: str, end: int) -> bool:
    """Whether what stands before `end` is a clause that depends on another: `when the file is empty` needs its verb."""
    start = max((low.rfind(mark, 0, end) + len(mark) for mark in _STOPS if low.rfind(mark, 0, end) >= 0), default=0)
    return _DEPENDING.search(low, _unframed(low, start), end) is not None


def _unframed(low: str, start: int) -> int:
    """Where the matter begins after greetings, `can you`, `what would happen if` and the like."""
    length = len(low)
    while start < length:
        found = patterns.POLITE.match(low, start)
        if not found or found.end() == length:
            found = _FRAME.match(low, start) or _SUBJECT.match(low, start)
        if not found or found.end() == length:
            break
        start = found.end()
    return start


def _clauses(text: str) -> tuple[list[tuple[int, float]], list[tuple[int, bool]]]:
    """Where a phrase of a folded text may start, best at the opening or after a `can you`, and end, best at a stop."""
    starts, ends = [(0, _OPENS)], []
    for mark in _CLAUSE.finditer(text):
        stops = mark[1] is None
        if mark.start():
            ends.append((mark.start(), stops))
        if stops and mark.end() < len(text):
            starts.append((mark.end(), _begins(mark[0])))
        elif (task := _AND.match(text, mark.start())) and patterns.opens_with_task(text, task.end()):
            starts.append((task.end(), 1.0))
    return starts, [*ends, (len(text), True)]


def _begins(mark: str) -> float:
    if any(map(str.isalpha, mark)):
        return _ASKED_FOR
    return _NEXT if mark[0] in ".!?" else 1.0


def _unspaced(text: str) -> str:
    """A phrase of a text without spaces: its first clauses that fit, without the words with which one asks."""
    if head := languages.REQUEST_HEAD.match(text):
        text = text[head.end() :]
    text = _UNSPACED_COMMA.sub("，", text)
    if (asks := languages.HELP_TAIL.search(text)) and asks.start() > _SHORTEST_UNSPACED:
        text = text[: asks.start()]
    _, ends = _clauses(folded(text))
    end = max((end for end, _ in ends if end <= _MAX_UNSPACED), default=ends[0][0])
    named = text[:end][:_MAX_UNSPACED]
    tail = languages.REQUEST_TAIL.search(named)
    return finished(named[: tail.start()] if tail and tail.start() > _SHORTEST_UNSPACED else named)
