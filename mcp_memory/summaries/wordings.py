"""What a sentence says, by the words it turns on: data for `cues`.

A wording is tried only where one of its words stands in the sentence, since most sentences hold none of them and trying
every expression on every sentence is what takes the time. Sentences are given in small letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain

from mcp_memory.domain.text import Memo
from mcp_memory.summaries import languages
from mcp_memory.summaries.expressions import Expression

_WORD = re.compile(r"\b[a-z]+(?:'[a-z]+)?\b", re.A)
_ANY_WORD = re.compile(r"\b[^\W\d_]+(?:'[^\W\d_]+)?\b")


def words_of(low: str) -> frozenset[str]:
    """The words of a sentence in small letters, each once; `don't` is one."""
    return frozenset(chain.from_iterable(map(_WORDS.__getitem__, low.split())))


def _words_of_chunk(chunk: str) -> tuple[str, ...]:
    if not chunk.isascii():
        return tuple(_ANY_WORD.findall(chunk))
    if chunk.isalpha():
        return (chunk,)
    word, mark = chunk[:-1], chunk[-1:]
    return (word,) if word.isalpha() and not (mark.isalnum() or mark == "_") else tuple(_WORD.findall(chunk))


_WORDS = Memo(_words_of_chunk, 1 << 14)


def first_word(low: str) -> str:
    """The word with which a sentence in small letters begins, if it begins with one."""
    match = _ANY_WORD.match(low)
    return match[0] if match else ""


class Phrase:
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


Wording = Expression | Phrase
_AS_IT_IS = re.compile(r"\\b([a-z][a-z' -]*[a-z])\\b")


def _expression(wording: str) -> Wording:
    words = _AS_IT_IS.fullmatch(wording)
    return Phrase(words[1]) if words else Expression(wording)


class Cue:
    """Wordings of one kind: the words each turns on, and the expression that must fit, if the word is not enough."""

    __slots__ = ("_words", "by_word")

    def __init__(self, *wordings: Mapping[str, str]) -> None:
        #: The expressions of which one must fit where a word stands; none where the word is enough.
        self.by_word: dict[str, tuple[Wording, ...]] = {}
        for words, wording in chain.from_iterable(one.items() for one in wordings):
            found = (_expression(wording),) if wording else ()
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


CAUSE = Cue(
    {
        "because hence causing regressed": "",
        "root": r"\broot[- ]cause\b",
        "issue problem bug reason cause culprit": (
            r"\b(?:issue|problem|bug|reason|cause|culprit)(?: here)? (?:is|was|lies|comes)\b"
        ),
        "caused": r"\bcaused by\b|\b(?:what|which) caused\b",
        "due": r"\bdue to\b",
        "turn turns turned": r"\bturn(?:s|ed)? out\b",
        "regression": r"\ba regression\b",
        "come comes came coming stem stems stemmed result results resulted arise arises arose": (
            r"\b(?:comes?|came|coming|stems?|stemmed|results?|resulted|arises?|arose) from\b|\bresult(?:s|ed) in\b"
        ),
        "what": r"\bwhat (?:broke|triggered|blocked)\b",
        "blame": r"\bto blame\b",
        "led": r"\bled to\b",
        "slow flaky failing broken missing wrong duplicate duplicates duplicated empty": (
            r"\b(?:slow|flaky|failing|broken|missing|wrong|duplicate\w*|empty) (?:\w+ ){1,3}"
            r"(?:is|was|were|comes?|came)\b"
        ),
        "found": r"\bfound (?:another|a|an|the) (?:\w+ )?(?:bug|issue|problem|cause)\b",
        "confirmed": r"\bconfirmed bug\b",
        "which": r"\bwhich (?:causes|means|triggers)\b",
        "doesn't does isn't wasn't didn't never longer": (
            r"\b(?:doesn't|does not|isn't|wasn't|didn't|never|no longer) .{0,60}\b(?:so|which|causing)\b"
        ),
        "fail fails break breaks happen happens crashes hangs": (
            r"\b(?:fails?|breaks?|happens?|crashes|hangs)(?: exactly| only| just)? (?:when|if|whenever)\b"
        ),
        "why": r"\bthat(?:'s| is) why\b",
    },
    languages.CAUSE,
)
#: Wordings that leave no doubt that something was chosen.
DECIDED = Cue(
    {
        "decision": r"^decision\b",
        "we i we've i've": r"^(?:we|i)(?:'ve| have)? (?:decided|chose|went with|settled|opted|agreed)\b",
        "instead rather favor favour": (
            r"\b(?:instead of|rather than|in favou?r of)\b.{8,}\b(?:because|since|so that|as)\b"
        ),
        "i'd would": (
            r"^i(?:'d| would) (?:use|take|keep|leave|build|go|stream|put|make|store|prefer|suggest|recommend)\b"
        ),
    },
    languages.DECIDED,
)
DECISION = Cue(
    {
        "decision intentional intentionally rejected abandoned tradeoff": "",
        "i we i've we've": (
            r"\b(?:i|we)(?:'ve| have)? (?:switched|chose|decided|went with|opted|kept|settled|picked|prefer|recommend|"
            r"skipped|avoided|agreed)\b|\bwe (?:should|will|could just)\b"
        ),
        "ruled": r"\bruled out\b",
        "turned": r"\bturned down\b",
        "voted": r"\bvoted (?:for|against)\b",
        "discarded": r"\bdiscarded the\b",
        "going go went stick stay": r"\b(?:going|go|went|stick|stay) with\b",
        "settled agreed decided table worth": (
            r"\b(?:is|are|was|were) (?:settled|agreed|decided|off the table|not worth)\b|\bdecided to\b"
        ),
        "decides": r"\bdecides to\b",
        "instead": r"\binstead(?: of\b|\W*$)",
        "so": r"\bso (?:that|(?:i|we) (?:\w+ed|use|keep|kept|went|made|took|chose))\b",
        "rather": r"\brather than\b",
        "favor favour": r"\bin favou?r of\b",
        "avoid": r"\bto avoid\b",
        "approach way fix solution option": (
            r"\bthe fix is\b|\b(?:recommended|standard|cleaner) approach\b|"
            r"\bthe (?:correct|right|best|cleaner|simplest|recommended|safest) (?:approach|way|fix|solution|option)\b"
        ),
        "trade": r"\btrade-off\b",
        "since": r"\bsince\b.{10,}",
        "should": r"\bshould (?:just )?(?:use|keep|stay|be|default)\b",
    },
    languages.DECISION,
)
#: What gives the reason of a decision.
REASON = Cue(
    {
        "because since otherwise": "",
        "so": r"\bso that\b|, so (?!far\b|on\b|i\b)",
        "avoid": r"\bto avoid\b",
        "instead": r"\binstead of\b",
        "rather": r"\brather than\b",
    },
    languages.REASON,
)
_DONE = (
    "done fixed added removed updated created implemented renamed replaced changed moved pushed merged committed wrote "
    "deleted refactored extracted resolved introduced enabled disabled bumped upgraded migrated installed configured "
    "simplified converted dropped exposed documented cleaned reverted restored kept captured declared wrapped "
    "registered"
)
_ANY_DONE = rf"(?:{_DONE.replace(' ', '|')})\b"
OUTCOME = Cue(
    {
        _DONE: (
            rf"^(?:\W*(?:(?!(?:a|an|the|this|that|no|any|one|each|its) )\w+ )?)?{_ANY_DONE}|"
            rf"\s[-–—:]+ (?:now )?{_ANY_DONE}"
        ),
        "now": (
            r"\bnow (?!(?:is|was|this|its|as|us|users|always|perhaps)\b)(?:[a-z]+[^s\W]s|passes|fixes|passing|"
            r"correctly|use|return|show|set|work|have|check|run|read|handle|support|fail|write|accept|reject|include|fall|print|"
            r"call|take|get|load|keep|wait|when|it|they|we|there|all|every|each)\b|\bwill now\b"
        ),
        "fixed added removed updated created implemented renamed replaced changed moved pushed merged committed "
        "resolved complete completed addressed deployed released published": (
            r"\b(?:(?:have|has|had|was|were)(?: now| been)*|(?:is|are) now) (?:fixed|added|removed|updated|created|"
            r"implemented|renamed|replaced|changed|moved|pushed|merged|committed|resolved|completed?|addressed|deployed|"
            r"released|published)\b"
        ),
        "i i've": (
            r"\bi(?:'ve| have)?(?: also| just| now)? (?!(?:look|check|search|need|want|notic|expect|wonder|assum|guess|"
            r"explor|examin|review|inspect|open|scann|learn|mention|walk|trac|verif|confirm|suggest)\w*ed\b)(?:\w+ed|made|"
            r"written|wrote|set|put|cut|split|built|rewrote|undid|took out)\b"
        ),
        "replaces supersedes": "",
        "longer": r"\bno longer\b",
        "moved switched": r"\b(?:moved|switched) to\b",
        "gone deprecated obsolete back live place": (
            r"\b(?:is|are)(?: now| all)? (?:gone|deprecated|obsolete|back|live|in place)\b(?! to\b)"
        ),
        "pass passes passed passing succeeded succeeds green": (
            r"\b(?:all|the|both|\d+) .{0,60}\b(?:pass|passes|passed|passing|succeeded|succeeds|green)(?=\W*$|[,.;:)]|"
            r" (?:now|again|on|in|with|locally|cleanly|and|after)\b)"
        ),
        "fix": r"\bthe fix (?:adds|moves|makes|changes)\b",
        "pr": r"\bpr (?:#?\d+ )?(?:created|opened|merged)\b",
        "merge": r"\bmerge complete\b",
        "resolved": r"\ball .{0,40} resolved\b",
    },
    languages.OUTCOME,
)
OPEN = Cue(
    {
        "todo fixme followup remaining unresolved pending limitation limitations caveat blocked workaround unclear "
        "ambiguous missing stale outdated preexisting couldn't can't cannot": "",
        "fix": r"\bfix me\b",
        "follow": r"\bfollow[- ]up\b",
        "next": r"\bnext steps?\b",
        "question questions": r"\bopen questions?\b",
        "not": r"\bnot (?:yet|sure)\b|\bcould not\b",
        "pre": r"\bpre-existing\b",
        "left": r"\bleft (?:open|untouched|undecided|to do)\b",
        "still": r"\bstill (?:(?:need|fail|open|miss|broken|has|have|not)\w*|untouched|undecided|to do)\b",
        "nobody": r"\bnobody (?:knows|owns)\b",
        "tracked": r"\btracked (?:as|in|by|under)\b",
        "waits waiting": r"\bwait(?:s|ing) (?:for|on)\b",
        "be": r"\bto be (?:decided|done|confirmed)\b|\bneeds? to be\b",
        "separate": r"\bseparate (?:pr|issue|ticket)\b",
        "unable": r"\bunable to\b",
        "need": r"\b(?:would|you'll) need\b",
        "now": r"\bfor now\b",
        "once": (
            r"\bonce .{3,60} (?:merges|lands|ships|(?:is|are|has been|have been) (?:merged|released|gone|done|deployed|"
            r"live|closed))\b"
        ),
        "soon": r"\bas soon as\b",
    },
    languages.OPEN,
)
#: What holds from now on: a limit, a duty, a setting.
RULE = Cue(
    {
        "must mustn't never forbid forbids forbidden prohibit prohibits prohibited mandatory require required requires "
        "insist insists frozen expire expires": "",
        "always": r"(?<!\bi )(?<!\bwe )\balways\b",
        "allowed": r"\bnot allowed\b",
        "may": r"\bmay not\b",
        "has have had": r"\b(?:has|have|had) to\b",
        "now": r"\bfrom now on\b",
        "remember": r"\bremember (?:that|to)\b",
        "reserved": r"\breserved for\b",
        "read": r"\bread-only\b",
        "hand": r"\bby hand\b",
        "least most": r"\bat (?:least|most)\b",
        "than": r"\bno (?:more|less|fewer|later|earlier) than\b",
        "up": r"\bup to \d",
        "limited": r"\blimited to\b",
        "capped": r"\bcapped at\b",
        "default defaults": r"\bdefaults? to\b",
        "valid": r"\bvalid (?:until|for)\b",
        "not": r"\bnot (?:on|to|with|from|via) \w+\W*$",
        "only": (
            r"\bonly (?:with|when|if|to|on|in|from|by|after|for|until|while|as)\b|"
            r"\b(?:readable|writable|used|allowed|visible|known|available) (?:by|to|for|in|on)\b.{2,40}\bonly\b"
        ),
        "until": r"\buntil\b.{4,}",
        "without": r"\bwithout\b.{3,60}\b(?:fails?|starts|breaks|cannot|won't|will not)\b",
    },
    languages.RULE,
)
FAILURE = Cue(
    {
        "fail fails failed failing failure failures error errors broken crash crashes crashed crashing panic panics "
        "panicked exception flaky leak leaks leaked leaking wrong bug bugs conflict conflicts warning timeout regress "
        "regresses regressing regression regressions": "",
        "timed": r"\btimed out\b",
        "found tested learned measured discovered observed": (
            r"\b(?:we|i)(?:'ve| have)? (?:found|tested|learned|measured|discovered|observed)\b"
        ),
        "not": r"[,–—-] not (?:\w+ ){0,3}\w+\W*$",
    }
)
#: What follows from what: an explanation, where nothing else tells what sort of sentence it is.
CONSEQUENCE = Cue({"so": r"[\w`)\]], so (?!that\b|far\b|on\b|i\b|we\b|let\b|please\b|you\b)\S"})
#: What a user wants.
ASKING = Cue(
    {
        "please pls let's lets consider ensure": "",
        "can could would will": r"\b(?:can|could|would|will) (?:you|we|u|i)\b",
        "i i'd": r"\bi(?:'d| would)?(?: (?:really|also|just|still|only))* (?:like|want|need)\b",
        "we": r"\bwe (?:should|need|(?:have to|must) (?:talk|speak|think|discuss|decide|clarify|plan))\b",
        "should": r"\bshould (?!(?:have|work|already|probably|actually|happen|you|that|this|it)\b)\w",
        "help": r"\bhelp me\b",
        "how": r"\bhow about\b",
        "wondering": r"\bwondering (?:if|whether) (?:you|we|i|there|it)\b",
        # What one does not want, and then what one does.
        "no not": (
            r"\b(?:no|not) [^,.;?!]{2,40}, (?:but |rather |just )?(?:use|show|make|add|keep|do|put|let|take|go|write|"
            r"return|throw|raise|fail)\b"
        ),
        "make": r"\bmake sure\b",
        "need want": r"^(?:need|want) (?:to|a|an|the|some|you)\b",
        "don't dont": r"\bdon'?t\b.{0,20}\b(?:want|need)\b",
    },
    languages.ASKING,
)
#: What a user reports.
PROBLEM = Cue(
    {
        "fail fails failed failing failure error errors broken crash crashes crashed crashing bug wrong outdated "
        "missing lack lacks doesn't isn't can't cannot never incorrect incorrectly duplicate duplicates duplicated "
        "unused without leak leaks issue problem stuck hang hangs": "",
        "crashloop crashloops crashlooping crashloopbackoff unreachable overlap overlaps overlapping disappear "
        "disappears disappeared freezes lose loses losing stale flickering unresponsive": "",
        "gone": r"\b(?:is|are) gone\b",
        "drops": r"\bdrops (?:to|below|from)\b",
        "slow slower slowly": r"\bslow(?:er|ly)?\b(?! down)",
        "oom segfault segfaults deadlock deadlocks flicker flickers garbled": "",
        "takes take": r"\btakes? (?:\w+ ){0,2}(?:\d+ ?[a-z]*|ages|forever|minutes|hours|too long)\b",
        "used": r"\bused to work\b",
        "not": r"\b(?:does|is) not\b|\bnot work\w*\b",
    },
    languages.PROBLEM,
)
