"""Looking for time phrases inside questions: which runs of words could be one, and which of them surely are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mcp_memory.navigate.when_dates import OVER_FEAST
from mcp_memory.navigate.when_frame import normal
from mcp_memory.navigate.when_periods import find_row

_WORD = re.compile(r"[^\s,]+")
_MOST_WORDS = 400  # a question is short; a pasted file is not a question
_LONGEST = 12
_SENTENCE_END = re.compile(
    r"(?!(?:\d\d?|st|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|mon|tues?|wed|thurs?|fri|sat|sun)\.$).*[.?!;:]$",
    re.I,
)
_STARTER = re.compile(
    r"\(?(?:the|in|on|during|over|at|around|throughout|from|of|about|as|mentioned|since|after|before|prior|until|till"
    r"|up|by|between|toda|yest|toni|day|week|mont|quar|year|earl|late|mid|star|begi|end|last|this|curr|past|prev"
    r"|morn|afte|even|nigh|a|an|one|two|thre|four|five|six|seve|eigh|nine|ten|elev|twel|thir|fift|twen|coup|few|some|seco|firs"
    r"|am\b|im\b|vor\b|gest|heut|vorg|letz|vori|dies|kw\b"
    r"|half|fort|other|noon|chri|xmas|east|than|hall|vale|blac|new|midd|midn|lunc|spri|summ|autu|fall|wint|h[12]\b|roug|near|almo|appr"
    r"|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|q[1-4]\b|\d)",
    re.I,
)
#: No phrase is without one of these; looking for them first spares most runs of words a closer look.
_ANCHOR = re.compile(
    r"\d|(?<![a-z])(?:tod|yest|toni|minu|hour|day|week|mont|quar|year|morn|afte|even|nigh|jan|feb|mar|apr|may|jun|jul|aug"
    r"|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|vale|hall|holi|chri|xmas|boxi|new|fort|spri|summ|autu|fall|wint|east"
    r"|pent|than|patr|labo|inde|good|gest|heut|vorg|woch|tag|jahr|märz|mai|okto|deze|dien|mitt|donn|frei|sams|sonn)",
    re.I,
)
#: Nor does one end with any other word.
_ENDING = re.compile(
    r"ago|back|last|noon|midd|lunc|o'clock|[ap]m\b|h\b|eve|fool|half|firs|seco|thir|[a-z-]+th\b|[a-z-]+(?:first|second|third)",
    re.I,
)
_PREPOSITION = re.compile(
    r"(?P<word>(?:as )?mentioned on|in|on|during|over|at|around|throughout|from|of|about) (?P<core>.+)"
)
_BOUND = re.compile(r"(?P<word>since|after|before|prior to|until|till|up to|by|as of) (?P<core>.+)")
_ENCLOSED = re.compile(r"(?:between|from) (?P<rest>.+)")
_JOINT = re.compile(r" ?\.\.+ ?| - | (?:to|until|till|through|and|or) |(?<=\d)-(?=[a-z]{3})|(?<=[a-z]{3})-(?=\d)")
_SKIPPED = re.compile(
    r"(?:(?:(?:as\s+)?mentioned\s+on|in|on|during|over|at|around|throughout|from|of|about|am|im)\s+)?(?:the\s+(?!last\s))?",
    re.I,
)
_BARE_YEAR = re.compile(r"(?<![\d-])\d{4}(?![\d-])")
_ORDINAL_ALONE = re.compile(r"(?:.* )?(?:\d+(?:st|nd|rd|th)|\d\d?[./]\d\d?)")
_POSSESSIVE = re.compile(r"(?<!today)(?<!new year)['’]s$", re.I)  # today's date is code, New Year's a name
_MORE_OR_LESS = frozenset("than least most over under nearly almost".split())
_SCHEDULE = frozenset("start starts begin begins run runs every each scheduled falls due".split())
#: What is named after a time: "the last month column", "this week view".
_THINGS = frozenset(
    "view views button buttons column columns tab tabs label labels field fields header headers widget widgets format "
    "helper function variable page report reports setting settings banner theme component module picker option string "
    "feature sale job schedule edition date badge filter filters dropdown parser constant enum parameter".split()
)
_VERSIONS = frozenset("edition version copyright port rfc iso".split())
_YEAR_ALONE = re.compile(r"(?:in |of |from )?\d{4}")
_PLAN = re.compile(r",?\s+(?:we|i|you|they|it|he|she)(?:\s+(?:will|shall|should|can)\b|['’]ll\b)", re.I)
#: "What did we do Monday?": a weekday needs no preposition where a question of the past ends with it.
_WEEKDAY = re.compile(r"(?:mon|tues|wednes|thurs|fri|satur|sun)day(?: (?:morning|afternoon|evening|night))?")
_PAST = re.compile(r"\b(?:did|was|were|had|happened|(?:have|has) (?:we|i|you|he|she|they|it))\b", re.I)
_NOT_THE_DAY = frozenset("by until till to for next every each black good the a or and".split())
_CLOCK = re.compile(r"\d\d?:\d\d")
#: Nouns that make a number a count or a size, whatever stands before it.
_UNITS = frozenset(
    "ms s sec seconds minutes hours days weeks bytes kb mb gb px tokens rows requests chars characters lines files "
    "tests items times events entries records bits words users calls ports columns samples points steps".split()
)
#: After "on the 3rd" only these may follow, or nothing: "on the 3rd attempt" is no date.
_FUNCTION_WORDS = frozenset(
    "about did do does we i you he she they it and or with for in at to by when what which how why was were is the "
    "that regarding before after".split()
)
#: In lower case these are words, commands or formats as often as months and weekdays.
_AMBIGUOUS = re.compile(r"(may|march|mar|apr|jun|jul|sep|oct|nov|dec|mon|wed|fri|sat|sun)\b(?P<rest>.*)")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Characters `start` to `end` of a question hold a phrase, with the preposition that leads to it."""

    start: int
    end: int
    phrase: str


def candidates(text: str, this_year: int) -> Iterator[Candidate]:
    """Runs of words that are phrases beyond doubt, from left to right, the longest first."""
    if not _ANCHOR.search(text):
        return
    words = [match for _, match in zip(range(_MOST_WORDS), _WORD.finditer(text), strict=False)]
    anchors = [number for number, word in enumerate(words) if _ANCHOR.search(word[0])]
    ends = {*anchors, *(number for number, word in enumerate(words) if _ENDING.match(word[0]))}
    for first, word in enumerate(words):
        anchor = next((number for number in anchors if number >= first), len(words))
        if anchor - first >= _LONGEST or not _STARTER.match(word[0]):
            continue
        before = words[first - 1][0].lower() if first else ""
        for last in reversed(_ends(words, first)[anchor - first :]):
            if last not in ends:
                continue
            after = words[last + 1][0] if last + 1 < len(words) else ""
            candidate = _trimmed(text, word.start(), words[last].end())
            if candidate and _sure(candidate, text, this_year, before, after):
                yield _without_preposition(candidate)


def without(text: str, candidate: Candidate) -> str:
    """The question without its time phrase."""
    rest = f"{text[: candidate.start]} {text[candidate.end :]}"
    return re.sub(r"[\s,]+(?=[?!.,;:)])", "", " ".join(rest.split())).strip(" ,;:")


def _ends(words: list[re.Match[str]], first: int) -> range:
    """The words a phrase may end with: no phrase runs over the end of a sentence."""
    last = first
    while last + 1 < min(first + _LONGEST, len(words)) and not _SENTENCE_END.match(words[last][0]):
        last += 1
    return range(first, last + 1)


def _trimmed(text: str, start: int, end: int) -> Candidate | None:
    phrase = text[start:end].rstrip(".,;:?!)")
    start += len(phrase) - len(phrase := phrase.removeprefix("("))
    end = start + len(phrase)
    return Candidate(start, end, _POSSESSIVE.sub("", phrase)) if phrase else None


def _without_preposition(candidate: Candidate) -> Candidate:
    if OVER_FEAST.match(candidate.phrase):
        return candidate  # more than the one day
    skipped = _SKIPPED.match(candidate.phrase)
    return Candidate(candidate.start, candidate.end, candidate.phrase[skipped.end() if skipped else 0 :])


def _sure(candidate: Candidate, text: str, this_year: int, before: str, after: str) -> bool:
    phrase = normal(candidate.phrase)
    ended = text[candidate.end : candidate.end + 1] in (",", ".", "?", "!", ";", ":", ")", "")
    if not _means_time(phrase, candidate.phrase) and not (
        ended and _is_past_day(phrase, text[: candidate.start], before)
    ):
        return False
    if before in _MORE_OR_LESS and phrase.endswith(" ago"):
        return False
    if _ORDINAL_ALONE.fullmatch(phrase) and not (ended or after.lower().strip("?.") in _FUNCTION_WORDS):
        return False
    if phrase[-1].isdigit() and not ended and (after.lower().strip("?.") in _UNITS or _CLOCK.match(after)):
        return False  # a count or a size, or the head of a pasted log line
    if before in _SCHEDULE and phrase.endswith("day"):
        return False
    if not ended and after.lower().strip("?.,;:!)") in _THINGS:
        return False
    if before in _VERSIONS and _YEAR_ALONE.fullmatch(phrase):
        return False
    if _PLAN.match(text, candidate.end) or candidate.phrase.lower().endswith(" the"):
        return False
    return all(this_year - 15 <= int(year) <= this_year + 1 for year in _BARE_YEAR.findall(phrase))


def _is_past_day(phrase: str, asked: str, before: str) -> bool:
    return bool(_WEEKDAY.fullmatch(phrase) and before not in _NOT_THE_DAY and _PAST.search(asked))


def _means_time(phrase: str, said: str) -> bool:
    enclosed, leading = _ENCLOSED.fullmatch(phrase), _PREPOSITION.fullmatch(phrase)
    if _joins(enclosed["rest"] if enclosed else phrase, enclosed is not None):
        return True
    if leading and _joins(leading["core"], False, leading["word"]) and not _doubtful(leading["core"], said, "in"):
        return True
    if bound := _BOUND.fullmatch(phrase):
        if bound["word"] == "by" and not _BARE_YEAR.search(phrase):
            return False  # "by Friday" is a plan
        return find_row(bound["core"]) is not None and not _doubtful(bound["core"], said, bound["word"])
    if leading:
        found = find_row(leading["core"])
        if found is None or _doubtful(leading["core"], said, leading["word"]):
            return False
        if leading["word"] == "over" and phrase.endswith(" ago"):
            return False
        return found[0].after is None or leading["word"] in found[0].after.split()
    found = find_row(phrase)
    return found is not None and found[0].after is None and not _doubtful(phrase, said, "")


def _joins(phrase: str, enclosed: bool, word: str = "") -> bool:
    """Whether two periods are joined to a range; without "between" or "from" one of them must be beyond doubt.

    "And" joins much else: there both must be so, if need be by the `word` before them, as in "in May and June".
    """
    for joint in _JOINT.finditer(phrase):
        rows = find_row(phrase[: joint.start()]), find_row(phrase[joint.end() :])
        if rows[0] and rows[1]:
            sure = [row.after is None or (word != "" and word in row.after.split()) for row, _ in (rows[0], rows[1])]
            if enclosed or all(sure) or (any(sure) and joint[0] not in (" and ", " or ")):
                return True
    return enclosed and _JOINT.search(phrase) is not None and find_row(phrase) is not None


def _doubtful(core: str, said: str, word: str) -> bool:
    """Whether a month or weekday may be another word: "may 3 workers", "in dec", "until may"."""
    match = _AMBIGUOUS.match(core)
    if not match or re.search(rf"\b{match[1].capitalize()}", said):
        return False
    if match["rest"]:
        return not word
    return match[1] not in ("may", "march") or word not in ("in", "during", "throughout", "since", "of")
