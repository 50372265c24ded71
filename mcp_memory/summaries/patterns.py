"""The wordings by which sentences are told apart: data for `cues`.

English, with words of politeness in other languages. Each pattern takes a sentence without markup, `folded`
but where another case would say something else.
"""

from __future__ import annotations

import re

from mcp_memory.summaries import languages
from mcp_memory.summaries.expressions import Expression

#: Words with which one asks for something to be done.
IMPERATIVES = frozenset(
    """
    add address adjust align allow analyse analyze append apply archive attach audit backfill benchmark build bump
    calculate call center change check clean close combine commit compare compute configure connect continue convert
    copy correct cover create crop debug deduplicate define delete deploy describe design detach detect diagnose
    disable do dockerize document don't download draft drop edit embed enable encrypt enforce ensure escape estimate
    evaluate exclude expand explain export expose extend extract fetch figure find finish fix flatten focus format
    generate get give go handle harden hide highlight ignore implement import improve include increase inline insert
    inspect install integrate investigate join keep leave limit link list load look make measure mention merge migrate
    minimize mock move normalize open optimise optimize paginate parse pass persist pin plan polish prepare print
    profile proofread propose publish push put read rebase rebuild redo reduce refactor refine reformat register
    release reload remove rename render reorder rephrase replace reply report reproduce rerun research resize
    resolve respond restart restore retry return revert review revise reword rework rewrite rollback rotate run save
    scale schedule search send serialize set setup ship shorten show simplify skip sort split squash start stop
    store submit suggest summarise summarize support swap switch sync take tell test throttle tidy trace track train
    translate trim troubleshoot truncate try tune tweak undo unify unpin update upgrade upload use validate
    vectorize verify visualize walk wire wrap write
    """.split()
)
# Praise opens a sentence where it stands alone or before a new start: `good catch on the key` is whole.
_PRAISE = (
    r"(?:great|perfect|good|nice|excellent|interesting|wonderful|awesome|right|well|sure|good (?:catch|idea|point|"
    r"question|thinking)|great question)(?=\s*(?:[,.!:;—–-]|$)|\s+(?:now|next|then|so|and|but|also|please|pls|can|"
    r"could|would|i|i'm|i'd|we|you|let|let's|lets|thanks|what|how|why|where|that|this|it)\b)"
)
# So does a word of order: `next would be the index` is whole.
_ORDER = (
    r"(?:next|first)(?=\s*[,:;.—–-]|\s+(?:i|i'll|i'm|we|we'll|let|let's|you|please|can|could|then)\b|"
    rf"\s+(?:{'|'.join(sorted(IMPERATIVES))}) (?:the|a|an|all|it|this|that|these|my|our|every|each|to|up|out|in|on)\b)"
)
OPENERS = (
    rf"(?:(?:{_PRAISE}|{_ORDER}|now|firstly|then|ok|okay|agreed|"
    r"alright|also|so|and|but|actually|finally|yes|hmm+|wait|absolutely|certainly|of course|got it|"
    r"you're (?:absolutely )?(?:right|correct)|you are (?:absolutely )?(?:right|correct)|understood|"
    r"no problem|sounds good|my apologies|sorry|apologies)\b[\s,.!:;—–-]*)+"
)
OPENING = Expression(rf"(?!now (?:when|that|the|it|you|we|uses|users)\b)(?!so (?:that|it|the)\b){OPENERS}")
NARRATION = Expression(
    r"(?:let me|let's|let us|i'll|i’ll|i will|i'm going to|i am going to|i'm now|i need to|i also need|i should|"
    r"i want to|i can now|i have (?:a|the) (?:clear|full|complete|good)|time to|going to|looking at|checking|"
    r"(?:now )?(?:i|let me) (?:now )?(?:see|understand|can see|have)\b.{0,25}\b(?:issue|issues|problem|problems|"
    r"picture|pattern|situation|context|structure|everything)\b|we need to (?:check|look|see)|(?:add|fix|update|"
    r"remove|run|create|check|resolve|updating|adding|fixing|running) (?:the|a|an|it|this|these|tests?)\b)",
)
LET_ME = Expression(
    r"(?:let me|let's|let us|i'll|i’ll|i will|i'm going to|i am going to|i need to|i should|i want to)\s+(?:(?:also|"
    r"now|first|quickly|just|then|start by|begin by|try to|go ahead and)\s+)*",
)
#: Words with which one only looks.
INSPECTIONS = frozenset(
    """
    check look see read run verify examine investigate understand find trace search explore review get start confirm
    test ensure
    """.split()
)
INSPECTION = Expression(rf"(?:{'|'.join(sorted(INSPECTIONS))})\b")
ROUTINE = Expression(
    r"(?:all |the |both |every )?(?:\d+ )?(?:\w+ )?(?:tests?|lint(?:er|ing)?|build|compilation|formatting|checks?|"
    r"everything|all)(?:(?:,| and) (?:\w+ )?(?:tests?|lint|linting|formatting|build))*(?: (?:are|is|now|all|"
    r"still))* (?:pass|passes|passed|passing|succeeded|succeeds|clean|green|works?)(?: now| cleanly)?[.! ]*",
    languages.ROUTINE,
)
SEEN = Expression(r"i (?:can )?(?:now )?(?:see|notice|found) (?:that )?(?!the (?:issue|problem))")
EMPTY = Expression(
    r"(?:done|fixed|perfect|great|excellent|confirmed|pushed|committed|correct|yes|no|hmm+|found (?:it|the (?:bug|"
    r"issue|problem))|good (?:catch|question|point|thinking|idea)|great (?:question|catch|point)|(?:the )?(?:fix|"
    r"task|change|update|work|merge) is (?:now )?(?:complete|done)|all (?:done|good|set|changes (?:are|"
    r"have been) .{0,40})|no response requested|(?:and )?here(?:'s|’s| is| are)\b.{0,80}|"
    r"(?:in )?summary(?: of .{0,40})?|(?:the )?(?:issue|problem) is clear|"
    r"same issue here|that looks clean|everything passes|thank(?:s| you).{0,40}|you're welcome|"
    r"i (?:can )?(?:now )?(?:see|understand) (?:the|what).{0,40}|let me know.{0,80}|feel free.{0,80}|"
    r"(?:you can )?verify (?:it|this|by)?.{0,20}|(?:hey|hi|hello|bye)(?:[ ,]+\w+){0,2}|how are you.{0,20}|"
    r"good to (?:see|hear).{0,30})[\s.!?:…]*",
)
#: What only announces: `I looked at all of it, and here is what I found:`
ANNOUNCING = Expression(r".{0,120}\bhere(?:'s|’s| is) (?:what|the|a|my)\b.{0,30}[\s.!?:…]*")
LABEL = Expression(
    r"(?:(?:final |updated |quick |overall |a )?(?:summary|(?:the )?changes(?: made| required| needed)?|overview|"
    r"details|notes?|files?(?: \w+)?|results?|sources?|how it works.*|how to .*|what (?:was|changed|i did|happened|"
    r".{0,20}changed)|verification|next steps|steps|examples?(?: \w+){0,2}|usage|after|before|first run|"
    r"subsequent runs|tests?(?: plan| added)?|target behavior|setup.*|key (?:points|changes)|"
    r".{0,30}\bfollowing(?: \w+){0,2}|this (?:ensures|means)|two fixes.*|proposed change|the fix|.{0,60}(?:summary|"
    r"changes made|so|here|these steps).{0,20}|(?:final |quick |short )?summary of .{0,60}|looking back .{0,40}|it|and|"
    r"this))\W*",
)
DIGIT = Expression(r"\d")
_UNITS = (
    r"ns|µs|us|ms|secs?|seconds?|s|mins?|minutes?|hours?|hrs?|h|days?|weeks?|months?|years?|percent|[kKMGT]i?B|bytes?|"
    r"bits?|px|fps|rps|qps|req/s|Hz|kHz|MHz|GHz|[kMG]bit/s|rows?|requests?|users?|workers?|connections?|replicas?|retries|"
    r"attempts?|tokens?|times|x|€|USD|EUR"
)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
#: A number that one would look up: with its unit, a version, a date. It begins with the digit, which is found fast.
FIGURE = Expression(
    rf"\d(?:(?<![\w.:/#-]\d)\d*(?:[.,]\d+)*(?:\s?%|[ -]?(?:{_UNITS})\b(?![:=(]))|"
    r"(?<![\w./-]\d)\d*\.\d+\.\d|(?<![\w.]0)(?<=0)\.\d+\b|(?<!\w\d)\d{3}-\d\d-\d\d\b|"
    rf"(?<!\w\d)\d?(?:st|nd|rd|th)? (?:of )?(?:{_MONTHS})\b)"
)
#: The same after a word: a version, a port, a date, a change from one value to another.
NAMED_FIGURE = Expression(
    r"\b(?:v\d+(?:\.\d+)+|ports? \d|from `?[\d.,]+\w*`? to `?[\d.,]|"
    rf"(?:{_MONTHS}) \d)"
)
#: Asking in any language.
ASKING = Expression(
    r"[?？](?=\W*$|\s)",
)
_FIRST_WORD = Expression(r"([a-z]+)\b('t\b)?")


def opens_with_task(low: str, start: int = 0) -> bool:
    """Whether what begins at `start` asks for something to be done; a set tells that sooner than an expression."""
    first = _FIRST_WORD.match(low, start)
    return first is not None and (first[1] in IMPERATIVES or first[0] in IMPERATIVES)


#: A later sentence of a message that asks for something: `Not by header. Make it a parameter.`
THEN_ASKED = Expression(
    r"(?:[.!?]\s+(?:please |then |also )?|,\s+(?:please |then |and )?(?=(?:find|fix|tell|explain|investigate|"
    r"figure)\b))([a-z]+(?:'[a-z]+)?)\b"
)
#: A sentence that goes on from the one before it.
CONNECTED = Expression(
    r"(?:so|this|that|it|these|those|they|but|which|otherwise|then|both|instead|previously|also|since)\b", flags=re.I
)
#: One that speaks of what stood before it, so that it cannot be understood alone.
POINTS_BACK = Expression(
    r"(?:since |so |but )?(?:(?:this|that|it|these|those|they|both|their|its) (?!\w+ed\b)[a-z]|(?:that|it|they)['’])"
)
INTERJECTION = Expression(
    r"(?:(?:wow|phew|ok|okay|yes|yeah|yep|no|great|nice|cool|perfect|back|oh|ah|hm+|ugh|argh|ouch|oops|damn|thanks|agreed|"
    rf"{languages.INTERJECTIONS})[,.!…]+\s+|{languages.UNSPACED_INTERJECTIONS})+"
)
#: A user's word that something is settled, though it names the problem.
SETTLED = Expression(
    r"(?:deployed|merged|shipped|released|fixed|confirmed)\b|.*\b(?:(?:is|are) (?:gone|fixed|resolved|solved)|works? "
    r"(?:now|again|fine))\b",
)
POLITE = Expression(
    rf"(?:{OPENERS}|{languages.POLITE}|"
    rf"(?:hi|hey|hello|thanks|thank you|please|pls|kindly|cool|claude|yeah|yep|almost there|again|"
    rf"btw|fyi)\b[\s,.!:;—–-]*|"
    r"(?:can|could|would|will) (?:you|u|we)\b(?: (?:please|also|now|maybe|just|then|kindly|again|"
    r"help me(?: to)?))*[\s,:]+|i(?:'d|’d| would)? (?:like|love|want|need)(?: (?:for )?(?:you|"
    r"us))?(?: to)?(?: (?:please|also))?\s+|(?:need|want)(?: to| (?=(?:a|an|the|some)\s))\s*|"
    r"i was wondering if (?:you|we) could\s+|(?:i think |maybe )?(?:we|you) (?:should|need to|have to|must)\s+|"
    r"(?:let's|lets|let us|go ahead and|help me(?: to)?|make sure to|your task is to|"
    r"feel free to|is it possible to|how about we|do you mind|would it be possible to)\s+)+",
)
LIFE = Expression(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|this) (?:week|weekend|month|year|night|summer|winter|spring|"
    r"fall|\w+day)s?\b|\byesterday\b|\b(?:\w+ )?ago\b|\brecently\b|\blately\b|\bplan(?:ning|s)? to\b|\bgoing to\b|"
    r"\bsince\b|\bjust (?:got|had|\w+ed)\b|\b(?:i|we|my \w+|he|she|they) (?:\w+ )?(?:went|got|had|made|"
    r"bought|took|met|lost|won|found|built|wrote|saw|ran|read|gave|felt|\w+ed)\b|\b(?:i'm|we're|i am) \w+ing\b|"
    r"\bi(?:'ve| have) been\b"
)
FIRST_PERSON = Expression(r"\b(?:i|i'm|i've|i'd|my|we|we're|we've|our|me)\b")
#: Words with which one answers small talk.
REACTIONS = frozenset(
    "wow thanks that's sound sounds awesome amazing great cool congrats yeah aw aww love glad nice so you".split()
)
REACTION = Expression(rf"(?:thank you|{'|'.join(sorted(REACTIONS))})\b")
CAN_YOU = Expression(r"\b(?:can|could|would|will) (?:you|u|we)\b")
WH = Expression(rf"(?:what|why|how|when|where|who|which|is|are|does|do|did|if|{languages.WH})\b")
#: Asking to see something; the rest of such a sentence may still name the matter.
SHOWING = Expression(r"(?:show|see|explain|tell|list|look|read|open|walk)\b")
#: Bringing branches together, which is told apart by what it touched.
MERGING = Expression(r"(?:merge|rebase|pull|sync|resolve (?:the |all )?(?:merge )?conflicts?)\b")
#: Answers made of these words alone mean nothing outside their conversation.
TRIVIAL = frozenset(
    """
    y yes yep yeah no nope ok okay k go ahead continue proceed do it sure thanks thank you please next again and retry
    sounds good perfect great nice cool push commit now try that this one fine right correct lgtm done run resume stop
    wait
    """.split()
)
