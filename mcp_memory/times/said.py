"""Everyday ways to say a time, put into the words that the table of periods reads: 3d ago, sometime last week."""

from __future__ import annotations

import re

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks", "y": "years"}
_SHORT = r"(?P<unit>mins?|hrs?|wks?|yrs?|[mhdwy])"
_ONE = r"(?:a |an |one )?(?P<unit>minute|hour|day|week|month|quarter|year)s?"
#: Nothing is rewritten in a phrase without any of these.
_TELLING = re.compile(
    r"\b(?:mins?|hrs?|wks?|yrs?|\d+ ?[mhdwy]|\d\.5|[ap]\.m|some ?time|somewhere|some point|exactly|precisely|just"
    r"|back|circa|all|whole|entire|so far|first thing|thru|w/c|[ck]w ?\d+|\d\d?\. [a-z]+|day|week|commencing|beginning"
    r"|towards?|near|close to|no|not|up|earlier|later|onwards?|on|forward|course|these|those|past|gone|date|ytd|now"
    r"|present|or|month|quarter|quarters|hours|year|mid-?week|eve of|night|morning|afternoon|evening)\b"
)


def _said(pattern: str, plain: str) -> tuple[re.Pattern[str], str]:
    return re.compile(pattern, re.ASCII), plain


#: In this order, each upon what the one before has left.
_RULES = (
    _said(r"\b([ap])\.m\b\.?", r"\1m"),
    # Hedges say nothing of when it was.
    _said(
        r"^(?:(?:in|on|at|for|during|over|throughout) )?(?:all|whole|entire)(?: of)? (?!of\b|(?:day|week|month|year)$)",
        "",
    ),
    _said(r"^all day$", "today"),
    _said(r"^(?:(?:in|for|during) )?(?:all|whole|entire) (week|month|quarter|year)$", r"this \1"),
    _said(r"^day (?=today|yesterday|\w+day\b)", ""),
    _said(r"^so far (?=(?:today|this|in|on)\b)", ""),
    _said(r"^ytd$", "this year"),
    _said(r" so far$", ""),
    _said(r"^(?:some ?time|somewhere|at some point|exactly|precisely|just|(?:way )?back(?= (?:in|on|at|during))) ", ""),
    _said(r"^circa ", "around "),
    _said(r"^first thing (?:in |on )?", "early "),
    _said(r"^(?:in )?(?:early|small|wee) hours of (.+)$", r"\1 before 6:00"),
    _said(r"\b(last|past|previous) (?:full|complete|calendar|whole) (week|month|quarter|year)\b", r"last \2"),
    _said(r"\b(last|this|previous) (week|month|year)'s ", r"\1 \2 "),
    _said(r"\bthree quarters of an hour\b", "45 minutes"),
    _said(r"\b(?:a )?quarter of an hour\b", "15 minutes"),
    _said(r"\b(\d+)\.5 (minute|hour|day|week|month|year)s?\b", r"\1 and a half \2s"),
    _said(r"^(?:in|over|during|throughout) course of ", ""),
    _said(r"^(?:towards?|near|close to) (?=(?:start|beginning|middle|end) of )", ""),
    # Bounds.
    _said(r"^on or (?:around|about) ", "around "),
    _said(r"^on or before |^up to and including ", "through "),
    _said(r"^(?:on or after|no earlier than|not before) ", "since "),
    _said(r"^no later than ", "through "),
    _said(r"^(?:right )?up (?:until|till) ", "until "),
    _said(r"^earlier than ", "before "),
    _said(r"^later than ", "after "),
    _said(r"^(?:from|starting|beginning) (.+) (?:on|onwards?|forward)$", r"since \1"),
    _said(r"^beginning (?=(?!of )\w)", "starting "),
    _said(r"^(since|starting|after|before|until|till) (?:in|on|at) ", r"\1 "),
    _said(r"(?<=\w) (?:until|till|to|up to|through) (?:now|present|date)$", " to today"),
    _said(r"\bthru\b", "through"),
    # Units.
    _said(r"^(week|month|quarter|year) to (?:date|today)$", r"this \1"),
    _said(r"\b(?:[ck]w ?|calendar week )(?=\d)", "week "),
    _said(r"\bw/c ", "week starting "),
    _said(r"\b(?:week|wk) commencing\b", "week starting"),
    _said(r"\b(?:work|working|business) week\b", "week"),
    _said(r"\b(week|weekend|month) just (?:gone|past|ended)\b", r"last \1"),
    _said(r"^mid-?week$", "middle of this week"),
    _said(r"(?<=\w) (of|in) (week|month|quarter|year)$", r" \1 this \2"),
    _said(r"^(.+) (?:and|or) day before$", r"\1 and day before \1"),
    _said(r"\b(\d\d?)\. (?=(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b)", r"\1 "),
    _said(r"\bth(?:is|ese|ose) (?:past|last)\b", "past"),
    _said(r"\bpast weekend\b", "last weekend"),
    _said(rf"\b{_ONE} or (?:so|two)(?= (?:ago|back)|$)", r"one to two \g<unit>s"),
    _said(rf"\b{_ONE} or three(?= (?:ago|back)|$)", r"one to three \g<unit>s"),
    _said(r"\beve of (?=\w)", "day before "),
    _said(r"\bnight before last\b", "day before yesterday night"),
    _said(r"((?:^|at |around |about )\d\d?(?::\d\d)?) in morning\b", r"\1 am"),
    _said(r"((?:^|at |around |about )\d\d?(?::\d\d)?) (?:in (?:afternoon|evening)|at night)\b", r"\1 pm"),
)  # fmt: skip
_SHORT_AGO = re.compile(rf"(?P<count>\b\d{{1,4}} ?|\b(?:a|an|one|two|three|few|of) ){_SHORT} (?=ago|back)", re.ASCII)
_SHORT_LAST = re.compile(rf"(?<=(?:last|past) )(?P<count>\d{{1,4}} ?|(?:few|two|three|of) ){_SHORT}$", re.ASCII)


def in_plain_words(text: str) -> str:
    """A phrase in small letters, without commas and articles, as the table says it."""
    if not _TELLING.search(text):
        return text
    for pattern, plain in _RULES:
        text = pattern.sub(plain, text)
    text = _SHORT_AGO.sub(lambda match: f"{_whole_unit(match)} ", text)
    return _SHORT_LAST.sub(_whole_unit, text)


def _whole_unit(match: re.Match[str]) -> str:
    return f"{match['count'].strip()} {_UNITS[match['unit'][0]]}"
