"""What kind of thing a sentence says, told by its wording: request, cause, decision, outcome, open problem, or nothing.

The cues are English, with a few words of politeness in other languages; a sentence without any cue is a plain
statement, so other languages lose only the ranking.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache


class Kind(StrEnum):
    NOTE = "note"
    REQUEST = "request"
    REPORT = "report"
    SAID = "said"
    CAUSE = "cause"
    DECISION = "decision"
    OUTCOME = "outcome"
    OPEN = "open"
    ERROR = "error"
    STATED = "stated"
    PLANNED = "planned"
    DID = "did"
    HEADING = "heading"
    NOISE = "noise"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


_OPENERS = (
    r"(?:(?:now|next|first|firstly|then|ok|okay|great|perfect|good|nice|alright|also|so|and|but|excellent|actually|finally|"
    r"sure|right|yes|hmm+|well|wait|interesting|wonderful|awesome|absolutely|certainly|of course|got it|good catch|"
    r"good idea|good point|good question|good thinking|great question|you're (?:absolutely )?(?:right|correct)|"
    r"you are (?:absolutely )?(?:right|correct)|understood|no problem|sounds good|my apologies|sorry|apologies)\b"
    r"[\s,.!:;—–-]*)+"
)
_OPENING = re.compile(rf"(?!now (?:when|that|the|it|you|we|uses|users)\b)(?!so (?:that|it|the)\b){_OPENERS}", re.I)
_NARRATION = re.compile(
    r"(?:let me|let's|let us|i'll|i’ll|i will|i'm going to|i am going to|i'm now|i need to|i also need|i should|i want to|"
    r"i can now|i have (?:a|the) (?:clear|full|complete|good)|time to|going to|looking at|checking|"
    r"(?:now )?(?:i|let me) (?:now )?(?:see|understand|can see|have)\b.{0,25}\b(?:issue|issues|problem|problems|picture|pattern|"
    r"situation|context|structure|everything)\b|we need to (?:check|look|see)|"
    r"(?:add|fix|update|remove|run|create|check|resolve|updating|adding|fixing|running) (?:the|a|an|it|this|these|tests?)\b)",
    re.I,
)
_LET_ME = re.compile(
    r"(?:let me|let's|let us|i'll|i’ll|i will|i'm going to|i am going to|i need to|i should|i want to)\s+"
    r"(?:(?:also|now|first|quickly|just|then|start by|begin by|try to|go ahead and)\s+)*",
    re.I,
)
_INSPECTION = re.compile(
    r"(?:check|look|see|read|run|verify|examine|investigate|understand|find|trace|search|explore|review|get|start|confirm|test|ensure)\b", re.I
)
_ROUTINE = re.compile(
    r"(?:all |the |both |every )?(?:\d+ )?(?:\w+ )?(?:tests?|lint(?:er|ing)?|build|compilation|formatting|checks?|everything|all)"
    r"(?:(?:,| and) (?:\w+ )?(?:tests?|lint|linting|formatting|build))*(?: (?:are|is|now|all|still))*"
    r" (?:pass|passes|passed|passing|succeeded|succeeds|clean|green|works?)(?: now| cleanly)?[.! ]*",
    re.I,
)
_SEEN = re.compile(r"i (?:can )?(?:now )?(?:see|notice|found) (?:that )?(?!the (?:issue|problem))", re.I)
_EMPTY = re.compile(
    r"(?:done|fixed|perfect|great|excellent|confirmed|pushed|committed|correct|yes|no|hmm+|found (?:it|the (?:bug|issue|problem))|"
    r"good (?:catch|question|point|thinking|idea)|great (?:question|catch|point)|"
    r"(?:the )?(?:fix|task|change|update|work|merge) is (?:now )?(?:complete|done)|"
    r"all (?:done|good|set|changes (?:are|have been) .{0,40})|no response requested|"
    r"(?:and )?here(?:'s|’s| is| are)\b.{0,80}|.{0,120}\bhere(?:'s|’s| is) (?:what|the|a|my)\b.{0,30}|(?:in )?summary(?: of .{0,40})?|"
    r"(?:the )?(?:issue|problem) is clear|same issue here|that looks clean|everything passes|thank(?:s| you).{0,40}|you're welcome|"
    r"i (?:can )?(?:now )?(?:see|understand) (?:the|what).{0,40}|let me know.{0,80}|feel free.{0,80}|"
    r"(?:you can )?verify (?:it|this|by)?.{0,20}|(?:hey|hi|hello|bye)\b.{0,40}|how are you.{0,20}|good to (?:see|hear).{0,30})[\s.!?:…]*",
    re.I,
)
_LABEL = re.compile(
    r"(?:(?:final |updated |quick |overall |a )?(?:summary|changes(?: made| required)?|overview|details|notes?|files?(?: \w+)?|"
    r"results?|sources?|how it works.*|how to .*|what (?:was|changed|i did|happened|.{0,20}changed)|verification|next steps|steps|"
    r"examples?(?: \w+){0,2}|usage|after|before|first run|subsequent runs|tests?(?: plan| added)?|target behavior|setup.*|"
    r"key (?:points|changes)|.{0,30}\bfollowing(?: \w+){0,2}|this (?:ensures|means)|two fixes.*|proposed change|the fix|"
    r".{0,60}(?:summary|changes made|so|here|these steps).{0,20}|it|and|this))\W*",
    re.I,
)
_CAUSE = _any(
    r"\broot[- ]cause\b",
    r"\b(?:real |actual |underlying |main |core )?(?:issue|problem|bug|reason|cause|culprit)\b(?: here)? (?:is|was|lies|comes)\b",
    r"\bbecause\b|\bcaused by\b|\bdue to\b|\bturns? out\b|\ba regression\b|\bregressed\b|\bcomes? from\b|\bstems from\b",
    r"\bfound (?:another|a|an|the) (?:\w+ )?(?:bug|issue|problem|cause)\b|\bconfirmed bug\b|\bwhich (?:causes|caused|means|triggers)\b",
    r"\b(?:doesn't|does not|isn't|wasn't|didn't|never|no longer) .{0,60}\b(?:so|which|causing)\b|\bcausing\b",
)
_DECISION = _any(
    r"\b(?:i|we)(?:'ve| have)? (?:switched|chose|decided|went with|opted|kept|settled|picked|prefer|recommend|skipped|avoided)\b",
    r"\binstead of\b|\brather than\b|\bin favou?r of\b|\bso that\b|\bto avoid\b|\bthe fix is\b|\bthe (?:correct|right|best|cleaner|"
    r"simplest|recommended|safest) (?:approach|way|fix|solution|option)\b|\b(?:recommended|standard|cleaner) approach\b",
    r"\bdecid(?:ed|es) to\b|\bdecision\b|\btrade-?off\b|\bintentional(?:ly)?\b|\bsince\b.{10,}",
    r"\bwe (?:should|will|could just)\b|\bshould (?:just )?(?:use|keep|stay|be|default)\b",
)
_OUTCOME = _any(
    r"^(?:\W*(?:\w+ )?)?(?:done|fixed|added|removed|updated|created|implemented|renamed|replaced|changed|moved|pushed|merged|committed|"
    r"wrote|deleted|refactored|extracted|resolved|introduced|enabled|disabled|bumped|upgraded|migrated|installed|configured|"
    r"simplified|converted|dropped|exposed|documented|cleaned|reverted|restored|kept|captured|declared|wrapped|registered)\b",
    r"\bnow (?:uses?|returns?|shows?|passes|passing|sets?|works?|has|have|checks?|runs?|reads?|compares?|handles?|supports?|fails?|"
    r"writes?|accepts?|rejects?|includes?|falls?|correctly|prints?|calls?|takes?|gets?|loads?|keeps?|waits?)\b|\bnow when\b|\bwill now\b",
    r"\b(?:(?:have|has|had|was|were)(?: now| been)*|(?:is|are) now) (?:fixed|added|removed|updated|created|implemented|renamed|replaced|"
    r"changed|moved|pushed|merged|committed|resolved|completed?|addressed|deployed|released|published)\b",
    r"\bi(?:'ve| have)? (?:added|fixed|removed|updated|created|implemented|renamed|replaced|changed|moved|made|written|wrote|set)\b",
    r"\b(?:all|the|both|\d+) .{0,60}\b(?:pass|passes|passed|passing|succeeded|succeeds|green)\b|\bthe fix (?:adds|moves|makes|changes)\b",
    r"\b(?:draft )?pr (?:#?\d+ )?(?:created|opened|merged)\b|\bmerge complete\b|\ball .{0,40} resolved\b",
)
_OPEN = _any(
    r"\btodo\b|\bfix ?me\b|\bfollow[- ]?up\b|\bremaining\b|\bnext steps?\b|\bunresolved\b|\bopen questions?\b|\bnot yet\b|\bpre-?existing\b",
    r"\bstill (?:need|fail|open|miss|broken|has|have|not)\w*\b|\bseparate (?:pr|issue|ticket)\b|\blimitations?\b|\bcaveat\b|\bblocked\b",
    r"\b(?:couldn't|could not|can't|cannot|unable to)\b|\bneeds? to be\b|\bwould need\b|\byou'll need\b|\bfor now\b|\bworkaround\b",
    r"\bunclear\b|\bambiguous\b|\bnot sure\b|\bmissing\b|\bstale\b|\boutdated\b|\bonce .{3,60} (?:merges|lands|is merged|is released)\b",
)
_FAILURE = _any(
    r"\b(?:fail|fails|failed|failing|failure|failures|error|errors|broken|crash\w*|panic\w*|exception|flaky|leak\w*|wrong|bug|bugs|"
    r"conflicts?|warning|timeout|timed out|regress\w*)\b"
)
_ASKING = _any(
    r"\b(?:can|could|would|will) (?:you|we|u|i)\b|\bplease\b|\bpls\b|\bi(?:'d| would)? (?:like|want|need)\b|\blet'?s\b|\bwe (?:should|need)\b|"
    r"\bconsider\b|\bshould (?:be|not|we|i|also|either|only)\b|\bhelp me\b|\bhow about\b|\bmake sure\b|\bensure\b|\bdon'?t\b.{0,20}\b(?:want|need)\b",
    r"[?？]\W*$|请|吗|ください|ほしい|お願い|できますか|주세요|пожалуйста|\bbitte\b|\bpor favor\b|\bs'il (?:te|vous) pla[iî]t\b|\bper favore\b",
)
_IMPERATIVE = re.compile(
    r"(?:add|address|adjust|allow|analy[sz]e|apply|audit|build|bump|call|change|check|clean|close|combine|commit|compare|configure|"
    r"continue|convert|create|debug|delete|deploy|describe|design|disable|do|document|don't|draft|drop|enable|ensure|exclude|explain|"
    r"export|extend|extract|figure|find|fix|focus|format|generate|get|give|go|handle|hide|ignore|implement|import|improve|include|"
    r"increase|insert|inspect|install|integrate|investigate|join|keep|leave|limit|link|list|load|look|make|merge|migrate|move|"
    r"optimi[sz]e|open|parse|pass|plan|prepare|print|profile|propose|push|put|read|rebase|reduce|refactor|release|reload|remove|rename|"
    r"replace|report|reproduce|research|resolve|restart|restore|return|revert|review|rewrite|run|save|search|send|set|setup|ship|"
    r"show|simplify|skip|sort|split|start|stop|store|suggest|summari[sz]e|support|switch|sync|take|tell|test|trace|track|translate|"
    r"trim|try|tune|undo|update|upgrade|use|validate|verify|walk|wire|wrap|write)\b",
    re.I,
)
_PROBLEM = _any(
    r"\b(?:fails?|failed|failing|failure|error|errors|broken|crash\w*|bug|wrong|outdated|missing|lacks?|doesn't|does not|isn't|is not|"
    r"can't|cannot|never|incorrect\w*|duplicate\w*|unused|without|slow|leaks?|issue|problem|stuck|hangs?|not work\w*)\b"
)
_POLITE = re.compile(
    rf"(?:{_OPENERS}|(?:hi|hey|hello|thanks|thank you|please|pls|kindly|cool|claude|yeah|yep|almost there|again|btw|fyi)\b[\s,.!:;—–-]*|"
    r"(?:can|could|would|will) (?:you|u|we)\b(?: (?:please|also|now|maybe|just|then|kindly|again|help me(?: to)?))*[\s,:]+|"
    r"i(?:'d|’d| would)? (?:like|love|want|need)(?: (?:for )?(?:you|us))?(?: to)?(?: (?:please|also))?\s+|i was wondering if (?:you|we) could\s+|"
    r"(?:i think |maybe )?(?:we|you) (?:should|need to|have to|must)\s+|(?:let's|lets|let us|go ahead and|help me(?: to)?|make sure to|"
    r"your task is to|feel free to|is it possible to|how about we|do you mind|would it be possible to)\s+)+",
    re.I,
)
_LIFE = _any(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|this) (?:week|weekend|month|year|night|summer|winter|spring|fall|\w+day)s?\b|\byesterday\b|"
    r"\b(?:\w+ )?ago\b|\brecently\b|\blately\b|\bplan(?:ning|s)? to\b|\bgoing to\b|\bsigned up\b|\bsince\b|\bjust (?:got|had|\w+ed)\b|"
    r"\b(?:i|we|my \w+|he|she|they) (?:\w+ )?(?:went|got|had|made|bought|took|met|moved|joined|started|visited|adopted|lost|won|found|built|wrote|"
    r"applied|decided|finished|tried|learned|saw|ran|read|gave|felt|\w+ed)\b|\b(?:i'm|we're|i am) \w+ing\b|\bi(?:'ve| have) been\b"
)
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|i'd|my|we|we're|we've|our|me)\b", re.I)
_REACTION = re.compile(r"(?:wow|thanks|thank you|that's|sounds?|awesome|amazing|great|cool|congrats|yeah|aww?|love|glad|nice|so|you)\b", re.I)
_CAN_YOU = re.compile(r"\b(?:can|could|would|will) (?:you|u|we)\b", re.I)
_WH = re.compile(r"(?:what|why|how|when|where|who|which|is|are|does|do|did|if)\b", re.I)
_TRIVIAL = frozenset(
    "y yes yep yeah no nope ok okay k go ahead continue proceed do it sure thanks thank you please next again and retry sounds good "
    "perfect great nice cool push commit now try that this one fine right correct lgtm done run resume stop wait".split()
)

#: How much a kind of sentence matters beside others.
PRIORITY = {
    Kind.NOTE: 3.0,
    Kind.REQUEST: 2.2,
    Kind.CAUSE: 2.0,
    Kind.DECISION: 1.9,
    Kind.OUTCOME: 1.8,
    Kind.REPORT: 1.8,
    Kind.OPEN: 1.4,
    Kind.SAID: 1.2,
    Kind.ERROR: 1.0,
    Kind.STATED: 0.9,
    Kind.PLANNED: 0.35,
    Kind.DID: 0.3,
    Kind.HEADING: 0.0,
    Kind.NOISE: 0.0,
}


@lru_cache(maxsize=1 << 12)
def assistant_kind(plain: str) -> Kind:
    """The kind of an assistant's sentence, given without markup."""
    if _EMPTY.fullmatch(plain):
        return Kind.NOISE
    body = unopened(plain)
    if not body or _EMPTY.fullmatch(body):
        return Kind.NOISE
    planned = _NARRATION.match(body) is not None
    if _ROUTINE.fullmatch(body):
        return Kind.PLANNED
    if planned:
        decides = len(body) > 60 and _DECISION.search(body) and not _INSPECTION.match(plan_of(body))
        return Kind.DECISION if decides else Kind.PLANNED
    if body.endswith(("?", "？")):
        return Kind.OPEN if len(body) > 40 else Kind.NOISE
    for pattern, kind in (
        (_CAUSE, Kind.CAUSE),
        (_OUTCOME, Kind.OUTCOME),
        (_DECISION, Kind.DECISION),
        (_OPEN, Kind.OPEN),
    ):
        if pattern.search(body):
            return kind
    return Kind.CAUSE if _FAILURE.search(body) else Kind.STATED


@lru_cache(maxsize=1 << 12)
def user_kind(plain: str) -> Kind:
    """The kind of a user's sentence, given without markup."""
    body = without_politeness(plain)
    if is_trivial(plain):
        return Kind.NOISE
    if body != plain and _POLITE.match(plain) and _ASKING.search(plain):
        return Kind.REQUEST
    if _IMPERATIVE.match(body) or _ASKING.search(plain):
        return Kind.REQUEST
    if _EMPTY.fullmatch(plain):
        return Kind.NOISE
    return Kind.REPORT if _PROBLEM.search(plain) else Kind.SAID


@lru_cache(maxsize=1 << 12)
def chat_value(plain: str) -> float:
    """How much a sentence of small talk tells about the people: what they did and plan, rather than what they exclaim."""
    value = 0.5 if _LIFE.search(plain) else 0.0
    if _FIRST_PERSON.search(plain):
        value += 0.3
    if is_question(plain) or _REACTION.match(plain):
        value -= 0.7
    return value


def bullet_kind(text: str) -> Kind:
    """The kind of a finished bullet, read back from its prefix and wording."""
    prefix, _, rest = text.partition(": ")
    named = _PREFIXES.get(prefix)
    if named:
        return named
    first = text.split(" ", 1)[0]
    return _ACTIONS.get(first) or assistant_kind(rest if prefix == "User" else text)


_PREFIXES = {
    "Asked": Kind.REQUEST,
    "Reported": Kind.REPORT,
    "Error": Kind.ERROR,
    "Note": Kind.NOTE,
    "Committed": Kind.OUTCOME,
}
_ACTIONS = {"Edited": Kind.DID, "Read": Kind.DID, "Ran": Kind.DID, "Searched": Kind.DID, "Fetched": Kind.DID}


def unopened(plain: str) -> str:
    """A sentence without an opening like `Perfect!` or `Good catch —`."""
    match = _OPENING.match(plain)
    return plain[match.end() :] if match and match.end() < len(plain) else plain


def without_politeness(plain: str) -> str:
    """A request without greeting, `can you please` and the like; then it is no question any more."""
    end = politeness_end(plain)
    body = plain[end:]
    return body.rstrip("? ") if end and _CAN_YOU.search(plain, 0, end) and not _WH.match(body) else body


def politeness_end(plain: str) -> int:
    """Where the substance of a request begins."""
    match = _POLITE.match(plain)
    return match.end() if match and match.end() < len(plain) else 0


def plan_of(plain: str) -> str:
    """What a narration announces: `Let me also check the callers` is `check the callers`."""
    body = unopened(plain)
    match = _LET_ME.match(body)
    return body[match.end() :] if match else body


def finding(plain: str) -> str:
    """What was seen: `I can see two failures` is `two failures`."""
    match = _SEEN.match(plain)
    return plain[match.end() :] if match else plain


def is_label(plain: str) -> bool:
    """Whether a line, a heading or one that ends in a colon, only announces a list and says nothing itself."""
    return _LABEL.fullmatch(unopened(plain)) is not None or _EMPTY.fullmatch(plain) is not None


def is_question(plain: str) -> bool:
    return plain.rstrip().endswith(("?", "？"))


def is_trivial(plain: str) -> bool:
    """`yes`, `ok push`, `go ahead`: answers that mean nothing outside their conversation."""
    spoken = re.findall(r"[a-z']+", plain.lower())
    return len(spoken) <= 5 and plain.isascii() and all(word in _TRIVIAL for word in spoken)
