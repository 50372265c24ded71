"""The wordings by which sentences are told apart: data for `cues`.

English, with a few words of politeness in other languages. Each pattern takes a sentence without markup.
"""

from __future__ import annotations

import re


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


OPENERS = (
    r"(?:(?:now|next|first|firstly|then|ok|okay|agreed|great|perfect|good|nice|alright|also|so|and|but|excellent|actually|"
    r"finally|sure|right|yes|hmm+|well|wait|interesting|wonderful|awesome|absolutely|certainly|of course|got it|"
    r"good catch|good idea|good point|good question|good thinking|great question|you're (?:absolutely )?(?:right|"
    r"correct)|you are (?:absolutely )?(?:right|correct)|understood|no problem|sounds good|my apologies|sorry|"
    r"apologies)\b[\s,.!:;—–-]*)+"
)
OPENING = re.compile(rf"(?!now (?:when|that|the|it|you|we|uses|users)\b)(?!so (?:that|it|the)\b){OPENERS}", re.I)
NARRATION = re.compile(
    r"(?:let me|let's|let us|i'll|i’ll|i will|i'm going to|i am going to|i'm now|i need to|i also need|i should|"
    r"i want to|i can now|i have (?:a|the) (?:clear|full|complete|good)|time to|going to|looking at|checking|"
    r"(?:now )?(?:i|let me) (?:now )?(?:see|understand|can see|have)\b.{0,25}\b(?:issue|issues|problem|problems|"
    r"picture|pattern|situation|context|structure|everything)\b|we need to (?:check|look|see)|(?:add|fix|update|"
    r"remove|run|create|check|resolve|updating|adding|fixing|running) (?:the|a|an|it|this|these|tests?)\b)",
    re.I,
)
LET_ME = re.compile(
    r"(?:let me|let's|let us|i'll|i’ll|i will|i'm going to|i am going to|i need to|i should|i want to)\s+(?:(?:also|"
    r"now|first|quickly|just|then|start by|begin by|try to|go ahead and)\s+)*",
    re.I,
)
INSPECTION = re.compile(
    r"(?:check|look|see|read|run|verify|examine|investigate|understand|find|trace|search|explore|review|get|start|"
    r"confirm|test|ensure)\b",
    re.I,
)
ROUTINE = re.compile(
    r"(?:all |the |both |every )?(?:\d+ )?(?:\w+ )?(?:tests?|lint(?:er|ing)?|build|compilation|formatting|checks?|"
    r"everything|all)(?:(?:,| and) (?:\w+ )?(?:tests?|lint|linting|formatting|build))*(?: (?:are|is|now|all|"
    r"still))* (?:pass|passes|passed|passing|succeeded|succeeds|clean|green|works?)(?: now| cleanly)?[.! ]*",
    re.I,
)
SEEN = re.compile(r"i (?:can )?(?:now )?(?:see|notice|found) (?:that )?(?!the (?:issue|problem))", re.I)
EMPTY = re.compile(
    r"(?:done|fixed|perfect|great|excellent|confirmed|pushed|committed|correct|yes|no|hmm+|found (?:it|the (?:bug|"
    r"issue|problem))|good (?:catch|question|point|thinking|idea)|great (?:question|catch|point)|(?:the )?(?:fix|"
    r"task|change|update|work|merge) is (?:now )?(?:complete|done)|all (?:done|good|set|changes (?:are|"
    r"have been) .{0,40})|no response requested|(?:and )?here(?:'s|’s| is| are)\b.{0,80}|.{0,120}\bhere(?:'s|’s|"
    r" is) (?:what|the|a|my)\b.{0,30}|(?:in )?summary(?: of .{0,40})?|(?:the )?(?:issue|problem) is clear|"
    r"same issue here|that looks clean|everything passes|thank(?:s| you).{0,40}|you're welcome|"
    r"i (?:can )?(?:now )?(?:see|understand) (?:the|what).{0,40}|let me know.{0,80}|feel free.{0,80}|"
    r"(?:you can )?verify (?:it|this|by)?.{0,20}|(?:hey|hi|hello|bye)(?:[ ,]+\w+){0,2}|how are you.{0,20}|"
    r"good to (?:see|hear).{0,30})[\s.!?:…]*",
    re.I,
)
LABEL = re.compile(
    r"(?:(?:final |updated |quick |overall |a )?(?:summary|(?:the )?changes(?: made| required| needed)?|overview|"
    r"details|notes?|files?(?: \w+)?|results?|sources?|how it works.*|how to .*|what (?:was|changed|i did|happened|"
    r".{0,20}changed)|verification|next steps|steps|examples?(?: \w+){0,2}|usage|after|before|first run|"
    r"subsequent runs|tests?(?: plan| added)?|target behavior|setup.*|key (?:points|changes)|"
    r".{0,30}\bfollowing(?: \w+){0,2}|this (?:ensures|means)|two fixes.*|proposed change|the fix|.{0,60}(?:summary|"
    r"changes made|so|here|these steps).{0,20}|it|and|this))\W*",
    re.I,
)
CAUSE = _any(
    r"\broot[- ]cause\b",
    r"\b(?:real |actual |underlying |main |core )?(?:issue|problem|bug|reason|cause|culprit)\b(?: here)? (?:is|was|"
    r"lies|comes)\b",
    r"\bbecause\b|\bcaused by\b|\bdue to\b|\bturn(?:s|ed)? out\b|\ba regression\b|\bregressed\b|"
    r"\b(?:comes?|came|coming|stems?|stemmed|results?|resulted|arises?|arose) from\b",
    r"\bwhat (?:broke|caused|triggered|blocked)\b|\bto blame\b|\bhence\b|\bresult(?:s|ed) in\b|\bled to\b",
    r"\b(?:slow|flaky|failing|broken|missing|wrong|duplicate\w*|empty) (?:\w+ ){1,3}(?:is|was|were|comes?|came)\b",
    r"\bfound (?:another|a|an|the) (?:\w+ )?(?:bug|issue|problem|cause)\b|\bconfirmed bug\b|\bwhich (?:causes|caused|"
    r"means|triggers)\b",
    r"\b(?:doesn't|does not|isn't|wasn't|didn't|never|no longer) .{0,60}\b(?:so|which|causing)\b|\bcausing\b",
    r"\b(?:fails?|breaks?|happens?|crashes|hangs)(?: exactly| only| just)? (?:when|if|whenever)\b|"
    r"\bthat(?:'s| is) why\b",
)
_DONE = (
    r"(?:done|fixed|added|removed|updated|created|implemented|renamed|replaced|changed|moved|"
    r"pushed|merged|committed|wrote|deleted|refactored|extracted|resolved|introduced|enabled|disabled|bumped|"
    r"upgraded|migrated|installed|configured|simplified|converted|dropped|exposed|documented|cleaned|reverted|"
    r"restored|kept|captured|declared|wrapped|registered)\b"
)
DECIDED = _any(
    r"^decision\b|^(?:we|i)(?:'ve| have)? (?:decided|chose|went with|settled|opted|agreed)\b",
    r"\b(?:instead of|rather than|in favou?r of)\b.{8,}\b(?:because|since|so that|as)\b",
    r"^i(?:'d| would) (?:use|take|keep|leave|build|go|stream|put|make|store|prefer|suggest|recommend)\b",
)
#: What gives the reason of a decision.
REASON = re.compile(r"\b(?:because|since|so that|to avoid|instead of|rather than|otherwise)\b", re.I)
DECISION = _any(
    r"\b(?:i|we)(?:'ve| have)? (?:switched|chose|decided|went with|opted|kept|settled|picked|prefer|recommend|"
    r"skipped|avoided|agreed)\b",
    r"\b(?:rejected|ruled out|turned down|voted (?:for|against)|discarded the|abandoned|"
    r"(?:going|go|went|stick|stay) with|(?:is|are|was|were) (?:settled|agreed|decided|off the table|not worth))\b|"
    r"\binstead\W*$|\bso (?:i|we) (?:\w+ed|use|keep|kept|went|made|took|chose)\b",
    r"\binstead of\b|\brather than\b|\bin favou?r of\b|\bso that\b|\bto avoid\b|\bthe fix is\b|\bthe (?:correct|"
    r"right|best|cleaner|simplest|recommended|safest) (?:approach|way|fix|solution|option)\b|\b(?:recommended|"
    r"standard|cleaner) approach\b",
    r"\bdecid(?:ed|es) to\b|\bdecision\b|\btrade-?off\b|\bintentional(?:ly)?\b|\bsince\b.{10,}",
    r"\bwe (?:should|will|could just)\b|\bshould (?:just )?(?:use|keep|stay|be|default)\b",
)
OUTCOME = _any(
    r"^(?:\W*(?:(?!(?:a|an|the|this|that|no|any|one|each|its) )\w+ )?)?"
    rf"{_DONE}|\s[-–—:]+ (?:now )?{_DONE}",
    r"\bnow (?!(?:is|was|this|its|as|us|users|always|perhaps)\b)(?:[a-z]+[^s\W]s|passes|fixes|passing|correctly)\b|"
    r"\bnow (?:use|return|show|set|work|have|check|run|read|handle|support|fail|write|accept|reject|include|fall|"
    r"print|call|take|get|load|keep|wait)\b|\bnow when\b|\bwill now\b",
    r"\b(?:(?:have|has|had|was|were)(?: now| been)*|(?:is|are) now) (?:fixed|added|removed|updated|created|"
    r"implemented|renamed|replaced|changed|moved|pushed|merged|committed|resolved|completed?|addressed|deployed|"
    r"released|published)\b",
    r"\bi(?:'ve| have)?(?: also| just| now)? (?!(?:look|check|search|need|want|notic|expect|wonder|assum|guess|explor|"
    r"examin|review|inspect|open|scann|learn|mention|walk|trac|verif|confirm|suggest)\w*ed\b)(?:\w+ed|made|written|"
    r"wrote|set|put|cut|split|built|rewrote|undid|took out)\b",
    r"\b(?:replaces|supersedes|no longer|moved to|switched to)\b|\b(?:is|are) (?:gone|deprecated|obsolete)\b|"
    r"\bnow (?:it|they|we|there|all|every|each)\b",
    r"\b(?:all|the|both|\d+) .{0,60}\b(?:pass|passes|passed|passing|succeeded|succeeds|green)(?=\W*$|[,.;:)]|"
    r" (?:now|again|on|in|with|locally|cleanly|and|after)\b)|\bthe fix (?:adds|moves|makes|changes)\b",
    r"\b(?:draft )?pr (?:#?\d+ )?(?:created|opened|merged)\b|\bmerge complete\b|\ball .{0,40} resolved\b",
)
OPEN = _any(
    r"\btodo\b|\bfix ?me\b|\bfollow[- ]?up\b|\bremaining\b|\bnext steps?\b|\bunresolved\b|\bopen questions?\b|"
    r"\bnot yet\b|\bpre-?existing\b|\b(?:left|still) (?:open|untouched|undecided|to do)\b|\bnobody (?:knows|owns)\b|"
    r"\bpending\b|\btracked (?:as|in|by|under)\b|\bwait(?:s|ing) (?:for|on)\b|\bto be (?:decided|done|confirmed)\b",
    r"\bstill (?:need|fail|open|miss|broken|has|have|not)\w*\b|\bseparate (?:pr|issue|ticket)\b|\blimitations?\b|"
    r"\bcaveat\b|\bblocked\b",
    r"\b(?:couldn't|could not|can't|cannot|unable to)\b|\bneeds? to be\b|\bwould need\b|\byou'll need\b|\bfor now\b|"
    r"\bworkaround\b",
    r"\bunclear\b|\bambiguous\b|\bnot sure\b|\bmissing\b|\bstale\b|\boutdated\b|\bonce .{3,60} (?:merges|lands|"
    r"ships|(?:is|are|has been|have been) (?:merged|released|gone|done|deployed|live|closed))\b|\bas soon as\b",
)
#: What holds from now on: a limit, a duty, a setting.
RULE = _any(
    r"\b(?:must(?:n't)?|never|(?<!\bi )(?<!\bwe )always|forbids?|forbidden|prohibit\w*|not allowed|may not|"
    r"mandatory|required?|requires|"
    r"(?:has|have|had) to|from now on|remember (?:that|to)|insists?|reserved for|read-only|frozen|by hand)\b",
    r"\b(?:at (?:least|most)|no (?:more|less|fewer|later|earlier) than|up to \d|limited to|capped at|defaults? to|"
    r"valid (?:until|for)|expires?|not (?:on|to|with|from|via) \w+\W*$)\b",
    r"\bonly (?:with|when|if|to|on|in|from|by|after|for|until|while|as)\b|\b(?:readable|writable|used|allowed|visible|"
    r"known|available) (?:by|to|for|in|on)\b.{2,40}\bonly\b|\buntil\b.{4,}|"
    r"\bwithout\b.{3,60}\b(?:fails?|starts|breaks|cannot|won't|will not)\b",
)
DIGIT = re.compile(r"\d")
_UNITS = (
    r"ns|µs|us|ms|secs?|seconds?|s|mins?|minutes?|hours?|hrs?|h|days?|weeks?|months?|years?|percent|[kKMGT]i?B|bytes?|"
    r"bits?|px|fps|rps|qps|req/s|Hz|kHz|MHz|GHz|[kMG]bit/s|rows?|requests?|users?|workers?|connections?|replicas?|retries|"
    r"attempts?|tokens?|times|x|€|USD|EUR"
)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
#: A number that one would look up: with its unit, a version, a port, a date, a change from one value to another.
FIGURE = re.compile(
    rf"(?<![\w.:/#-])(?:[$€£~≈<>≤≥]\s?)?\d+(?:[.,]\d+)*(?:\s?%|[ -]?(?:{_UNITS})\b(?![:=(]))|"
    r"\bv\d+(?:\.\d+)+[\w.-]*|(?<![\w./-])\d+\.\d+\.\d+[\w.-]*|\bports? \d+|(?<![\w.])0\.\d+\b|"
    r"\bfrom `?[\d.,]+\w*`? to `?[\d.,]+|\b\d{4}-\d\d-\d\d\b|"
    rf"\b(?:{_MONTHS}) \d|\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTHS})\b"
)
FAILURE = _any(
    r"\b(?:fail|fails|failed|failing|failure|failures|error|errors|broken|crash\w*|panic\w*|exception|flaky|leak\w*|"
    r"wrong|bug|bugs|conflicts?|warning|timeout|timed out|regress\w*)\b",
    r"\b(?:we|i)(?:'ve| have)? (?:found|tested|learned|measured|discovered|observed)\b|"
    r"[,–—-] not (?:\w+ ){0,3}\w+\W*$",
)
ASKING = _any(
    r"\b(?:can|could|would|will) (?:you|we|u|i)\b|\bplease\b|\bpls\b|\bi(?:'d| would)? (?:like|want|need)\b|"
    r"\blet'?s\b|\bwe (?:should|need)\b|\bconsider\b|\bshould (?:be|not|we|i|also|either|only)\b|\bhelp me\b|"
    r"\bhow about\b|\bmake sure\b|\bensure\b|\bdon'?t\b.{0,20}\b(?:want|need)\b",
    r"[?？](?=\W*$|\s)|请|吗|ください|ほしい|お願い|できますか|주세요|пожалуйста",
    r"\bbitte\b|\bpor favor\b|\bs'il (?:te|vous) pla[iî]t\b|\bper favore\b",
)
IMPERATIVE = re.compile(
    r"(?:add|address|adjust|allow|analy[sz]e|apply|audit|build|bump|call|change|check|clean|close|combine|commit|"
    r"compare|configure|continue|convert|create|debug|delete|deploy|describe|design|disable|do|document|don't|draft|"
    r"drop|enable|ensure|exclude|explain|export|extend|extract|figure|find|fix|focus|format|generate|get|give|go|"
    r"handle|hide|ignore|implement|import|improve|include|increase|insert|inspect|install|integrate|investigate|join|"
    r"keep|leave|limit|link|list|load|look|make|merge|migrate|move|optimi[sz]e|open|parse|pass|plan|prepare|print|"
    r"profile|propose|push|put|read|rebase|reduce|refactor|release|reload|remove|rename|replace|report|reproduce|"
    r"research|resolve|restart|restore|return|revert|review|rewrite|run|save|search|send|set|setup|ship|show|"
    r"simplify|skip|sort|split|start|stop|store|suggest|summari[sz]e|support|switch|sync|take|tell|test|trace|track|"
    r"translate|trim|try|tune|undo|update|upgrade|use|validate|verify|walk|wire|wrap|write)\b",
    re.I,
)
#: A later sentence of a message that asks for something: `Not by header. Make it a parameter.`
THEN_ASKED = re.compile(rf"[.!?]\s+(?:please |then |also )?(?:{IMPERATIVE.pattern})", re.I)
INTERJECTION = re.compile(
    r"(?:(?:wow|phew|ok|okay|yes|yeah|yep|no|great|nice|cool|perfect|back|oh|ah|hmm+|thanks|agreed)[,.!…]+\s+)+", re.I
)
PROBLEM = _any(
    r"\b(?:fails?|failed|failing|failure|error|errors|broken|crash\w*|bug|wrong|outdated|missing|lacks?|doesn't|"
    r"does not|isn't|is not|can't|cannot|never|incorrect\w*|duplicate\w*|unused|without|slow(?:er|ly)?(?! down)|"
    r"leaks?|issue|problem|"
    r"stuck|hangs?|not work\w*)\b"
)
#: A user's word that something is settled, though it names the problem.
SETTLED = re.compile(
    r"(?:deployed|merged|shipped|released|fixed|confirmed)\b|.*\b(?:(?:is|are) (?:gone|fixed|resolved|solved)|works? "
    r"(?:now|again|fine))\b",
    re.I,
)
POLITE = re.compile(
    rf"(?:{OPENERS}|(?:hi|hey|hello|thanks|thank you|please|pls|kindly|cool|claude|yeah|yep|almost there|again|"
    rf"btw|fyi)\b[\s,.!:;—–-]*|"
    r"(?:can|could|would|will) (?:you|u|we)\b(?: (?:please|also|now|maybe|just|then|kindly|again|"
    r"help me(?: to)?))*[\s,:]+|i(?:'d|’d| would)? (?:like|love|want|need)(?: (?:for )?(?:you|"
    r"us))?(?: to)?(?: (?:please|also))?\s+|i was wondering if (?:you|we) could\s+|(?:i think |maybe )?(?:we|"
    r"you) (?:should|need to|have to|must)\s+|(?:let's|lets|let us|go ahead and|help me(?: to)?|make sure to|"
    r"your task is to|feel free to|is it possible to|how about we|do you mind|would it be possible to)\s+)+",
    re.I,
)
LIFE = _any(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|this) (?:week|weekend|month|year|night|summer|winter|spring|"
    r"fall|\w+day)s?\b|\byesterday\b|\b(?:\w+ )?ago\b|\brecently\b|\blately\b|\bplan(?:ning|s)? to\b|\bgoing to\b|"
    r"\bsigned up\b|\bsince\b|\bjust (?:got|had|\w+ed)\b|\b(?:i|we|my \w+|he|she|they) (?:\w+ )?(?:went|got|had|made|"
    r"bought|took|met|moved|joined|started|visited|adopted|lost|won|found|built|wrote|applied|decided|finished|tried|"
    r"learned|saw|ran|read|gave|felt|\w+ed)\b|\b(?:i'm|we're|i am) \w+ing\b|\bi(?:'ve| have) been\b"
)
FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|i'd|my|we|we're|we've|our|me)\b", re.I)
REACTION = re.compile(
    r"(?:wow|thanks|thank you|that's|sounds?|awesome|amazing|great|cool|congrats|yeah|aww?|love|glad|nice|so|you)\b",
    re.I,
)
CAN_YOU = re.compile(r"\b(?:can|could|would|will) (?:you|u|we)\b", re.I)
WH = re.compile(r"(?:what|why|how|when|where|who|which|is|are|does|do|did|if)\b", re.I)
#: Asking to see something; the rest of such a sentence may still name the matter.
SHOWING = re.compile(r"(?:show|see|explain|tell|list|look|read|open|walk)\b", re.I)
#: Answers made of these words alone mean nothing outside their conversation.
TRIVIAL = frozenset(
    """
    y yes yep yeah no nope ok okay k go ahead continue proceed do it sure thanks thank you please next again and retry
    sounds good perfect great nice cool push commit now try that this one fine right correct lgtm done run resume stop
    wait
    """.split()
)
