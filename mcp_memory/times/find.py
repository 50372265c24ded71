"""Looking for time phrases inside questions: which runs of words could be one, and which of them surely are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo

from mcp_memory.errors import UnknownTimePhrase
from mcp_memory.times.feasts import OVER_FEAST
from mcp_memory.times.frame import Backwards, Frame, Row, normal
from mcp_memory.times.hours import CLOCK_ALONE
from mcp_memory.times.periods import reading
from mcp_memory.times.resolve import TimeRange, frame_of, resolve

_WORD = re.compile(r"[^\s,]+")
_MOST_WORDS = 150  # a question is short; a pasted file is not a question
_LONGEST = 12
_SENTENCE_END = re.compile(
    r"(?!(?:\d\d?|st|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|mon|tues?|wed|thurs?|fri|sat|sun)\.$).*[.?!;:]$",
    re.I,
)
_STARTER = re.compile(
    r"\(?(?:the|in|on|during|over|at|around|throughout|from|of|about|as|mentioned|since|after|before|prior|until|till"
    r"|up|by|between|toda|yest|toni|day|week|mont|quar|year|earl|late|mid|star|begi|end|last|this|curr|past|prev"
    r"|morn|afte|even|nigh|a|an|one|two|thre|four|five|six|seve|eigh|nine|ten|elev|twel|thir|fift|twen|coup|few|some|seco|firs"
    r"|am\b|im\b|vor\b|vom\b|seit|bis\b|anfa|mitt|ende|gest|heut|vorg|letz|vori|dies|kw\b"
    r"|all|thro|for\b|with|whol|enti|exac|just|back|towa|circ|thes|w/c|no\b|star"
    r"|half|fort|other|noon|chri|xmas|east|than|hall|vale|blac|new|midd|midn|lunc|spri|summ|autu|fall|wint|h[12]\b|roug|near|almo|appr"
    r"|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|q[1-4]\b|\d)",
    re.I,
)
#: No phrase is without one of these; looking for them first spares most runs of words a closer look.
_ANCHOR = re.compile(
    r"\d|(?<![a-z])(?:tod|yest|toni|minu|hour|day|week|mont|quar|year|morn|afte|even|nigh|jan|feb|mar|apr|may|jun|jul|aug"
    r"|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|vale|hall|holi|chri|xmas|boxi|new|fort|spri|summ|autu|fall|wint|east"
    r"|pent|than|work|noon|midn|lunc|whit|ash|palm|maun|asce|shro|mard|epip|mlk|mart|pres|moth|fath|memo|colu|vete|armi|rece|patr|labo|inde|good|gest|heut|vorg|woch|tag|jahr|märz|mai|okto|deze|dien|mitt|donn|stund|frei|sams|sonn)",
    re.I,
)
#: Nor does one end with any other word.
_ENDING = re.compile(
    r"ago|aben|morg|stund|back|befo|last|onward|on\b|now|so\b|two|gone|past|wk|hr|forward|noon|midd|lunc|o'clock|[ap]m\b|h\b|eve|fool|half|firs|seco|thir|[a-z-]+th\b|[a-z-]+(?:first|second|third)",
    re.I,
)
_PREPOSITION = re.compile(
    r"(?P<word>(?:as )?mentioned on|in|on|during|over|at|around|throughout|within|for|from|of|about) (?P<core>.+)"
)
_BOUND = re.compile(r"(?P<word>since|starting|after|before|prior to|until|till|up to|through|by|as of) (?P<core>.+)")
#: Nobody plans to be ready by then.
_GONE = re.compile(r"\b(?:last|past|previous|yesterday|ago)\b")
_ENCLOSED = re.compile(r"(?:between|from) (?P<rest>.+)")
_JOINT = re.compile(r" ?\.\.+ ?| - | (?:to|until|till|through|and|or) |(?<=\d)-(?=[a-z]{3})|(?<=[a-z]{3})-(?=\d)")
_SKIPPED = re.compile(
    r"(?:(?:(?:as\s+)?mentioned\s+on|in|on|during|over|at|throughout|within|for|from|of|about|am|im)\s+)?(?:the\s+(?!last\s))?",
    re.I,
)
#: A preposition that belongs to the time: around a day lie others, and over Christmas is more than one.
_MEANS_MORE = re.compile(rf"around |{OVER_FEAST.pattern}", re.I)
_BARE_YEAR = re.compile(r"(?<![\d-])\d{4}(?![\d-])")
_YEAR = re.compile(r"\b\d{4}\b", re.ASCII)
_ORDINAL_ALONE = re.compile(r"(?:.* )?(?:\d+(?:st|nd|rd|th)|\d\d?[./]\d\d?)")
_POSSESSIVE = re.compile(r"(?<!today)(?<!new year)['’]s$", re.I)  # today's date is code, New Year's a name
_SUMMING_UP = frozenset("summarize summarise recap review".split())
_MORE_OR_LESS = frozenset("than least most over under nearly almost".split())
_SCHEDULE = frozenset("start starts begin begins run runs every each scheduled falls due weekly daily".split())
#: What is named after a time: "the last month column", "this week view".
_THINGS = frozenset(
    "view views button buttons column columns tab tabs label labels field fields header headers widget widgets format "
    "helper function variable page report reports setting settings banner theme component module picker option string "
    "feature sale job schedule edition date badge filter filters dropdown parser constant enum parameter "
    "chart charts key keys cron phrase phrases tag tags table tables query bucket section heading title".split()
)
#: Words before a time that is itself spoken of: "parse last week", "phrases such as yesterday".
_NAMING = frozenset("phrase phrases parse parses parsing parsed string word words expression literal".split())
_SUCH_AS = re.compile(r"\b(?:such as|e\.g\.|called|named)\s*$", re.I)
#: The current one's is rather a thing of the program: this week's cache key.
_CURRENT = re.compile(r"(?:.* )?(?:this|current) \w+")
#: These name other things as well: Spring, fall through, the element h1.
_OTHER_THINGS = re.compile(r"(?:(?:in|over|during) )?(?:spring|fall|h[12])")
#: How long something lasts, or when it will be, unless somebody looks back: snacking all day, in weeks 5-8 of the plan.
_MAY_BE_A_PLAN = re.compile(r"(?:for )?(?:all|the whole|the entire) (?:day|week|month|year)$|(?:in )?weeks \d", re.I)
_SECONDS = re.compile(r"\d:\d\d:\d\d$")
#: Before a time of day that has no day: "what did we do at 3pm?", but not "the job at 3:00".
_DOING = frozenset(
    "do did done doing happen happened ask asked say said talk talked break broke fail failed it this that".split()
)
_VERSIONS = frozenset("edition version copyright port rfc iso".split())
_YEAR_ALONE = re.compile(r"(?:in |of |from )?\d{4}")
_PLAN = re.compile(r",?\s+(?:we|i|you|they|it|he|she)(?:\s+(?:will|shall|should|can)\b|['’]ll\b)", re.I)
#: "What did we do Monday?": a weekday needs no preposition where a question of the past ends with it.
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day(?: (?:morning|afternoon|evening|night))?"
_NTH = r"\d\d?(?:st|nd|rd|th)"
_WEEKDAY = re.compile(
    rf"{_DAY}(?: (?:to|until|through|and|or|-) {_DAY}| at [\d:]+(?: ?[ap]m)?)?|{_NTH} (?:to|until|through|-) {_NTH}"
)
_LOOSE_HOUR = re.compile(r".* (?:at|around|about|before|after|until|till) \d\d?")
_PAST = re.compile(r"\b(?:did|was|were|had|happened|(?:have|has) (?:we|i|you|he|she|they|it))\b", re.I)
_NOT_THE_DAY = frozenset("by until till to for next every each black good the a or and since after before".split())
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
    """Characters `start` to `end` of a question hold a phrase, which may have a meaning only as a `whole`."""

    start: int
    end: int
    phrase: str
    whole: str = ""


def find(text: str, now: datetime, zone: tzinfo) -> tuple[TimeRange, str] | None:
    """The time phrase inside a question and the question without it; only what can hardly mean anything else.

    A phrase with a year wins over one without, otherwise the first one is taken. Times that lie in the future are left
    alone: memory holds nothing from there.
    """
    found: list[tuple[TimeRange, Candidate]] = []
    taken = 0
    for candidate in candidates(text, frame_of(now, zone)):
        if candidate.start < taken:
            continue
        time_range = _first_resolved((candidate.phrase, candidate.whole), now, zone)
        if time_range is None:
            continue
        taken = candidate.end
        if time_range.start_ms <= now.timestamp() * 1000:
            found.append((time_range, candidate))
    if not found:
        return None
    time_range, candidate = next((each for each in found if _YEAR.search(each[0].phrase)), found[0])
    return time_range, without(text, candidate)


def _first_resolved(phrases: Iterable[str], now: datetime, zone: tzinfo) -> TimeRange | None:
    for phrase in phrases:
        with suppress(UnknownTimePhrase):
            return resolve(phrase, now, zone)
    return None


def candidates(text: str, frame: Frame) -> Iterator[Candidate]:
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
            if candidate and _sure(candidate, text, frame, before, after):
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
    if _MEANS_MORE.match(candidate.phrase):
        return candidate
    skipped = _SKIPPED.match(candidate.phrase)
    phrase = candidate.phrase[skipped.end() if skipped else 0 :]
    return Candidate(candidate.start, candidate.end, phrase, candidate.phrase)


def _row(text: str, frame: Frame) -> Row | None:
    """The row that reads a phrase, if it is one."""
    try:
        found = reading(text, frame)
    except Backwards:
        return None
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class _Place:
    """A candidate between the words around it, in normal form and as it was said."""

    phrase: str
    said: str
    text: str
    start: int
    end: int
    before: str
    after: str

    @property
    def ended(self) -> bool:
        """Whether a part of the sentence ends with it."""
        return self.text[self.end : self.end + 1] in (",", ".", "?", "!", ";", ":", ")", "")

    @property
    def alone(self) -> bool:
        """Whether it belongs to no word that follows."""
        return self.ended or self.after in _FUNCTION_WORDS

    @property
    def looks_back(self) -> bool:
        return _PAST.search(self.text) is not None


def _sure(candidate: Candidate, text: str, frame: Frame, before: str, after: str) -> bool:
    phrase, said = normal(candidate.phrase), candidate.phrase
    place = _Place(phrase, said, text, candidate.start, candidate.end, before, after.lower().strip("?.,;:!)"))
    if not (_means_time(phrase, said, frame) or _is_past_day(place) or _is_summed_up(place, frame)):
        return False
    if _is_of_a_thing(place) or _is_a_number(place) or _is_spoken_of(place) or _is_a_plan(place):
        return False
    this_year = frame.today.year
    return all(this_year - 15 <= int(year) <= this_year + 1 for year in _BARE_YEAR.findall(phrase))


def _is_summed_up(place: _Place, frame: Frame) -> bool:
    """After such a word a month needs no preposition: summarize January."""
    return place.before in _SUMMING_UP and place.said[0].isupper() and _row(place.phrase, frame) is not None


def _is_of_a_thing(place: _Place) -> bool:
    """Whether a time only says which thing is meant: the last month column, this week's cache key, Spring."""
    if _OTHER_THINGS.fullmatch(place.phrase):
        # Spring and fall need their article, and somebody who looks back; the halves of a year do not.
        named = " the " in f" {place.said.lower()}" and place.looks_back
        return not (place.alone and (named or place.phrase[-1].isdigit()))
    following = [place.after]
    if "'s " in place.text[place.end - 2 : place.end + 1] and _CURRENT.fullmatch(place.said.lower()):
        following = [word.lower().strip("?.,;:!)") for word in place.text[place.end :].split()[:3]]
    return not place.ended and any(word in _THINGS for word in following)


def _is_a_number(place: _Place) -> bool:
    """Whether it may be a count, a size, a version, or the head of a pasted log line."""
    if not place.alone and (_ORDINAL_ALONE.fullmatch(place.phrase) or _LOOSE_HOUR.fullmatch(place.phrase)):
        return True
    if place.before in _VERSIONS and _YEAR_ALONE.fullmatch(place.phrase):
        return True
    if place.ended or not place.phrase[-1].isdigit():
        return False
    return bool(place.after in _UNITS or _CLOCK.match(place.after) or _SECONDS.search(place.phrase))


def _is_spoken_of(place: _Place) -> bool:
    """Whether a phrase is itself the matter, or a length of time: parse last week, more than a week ago."""
    if place.before in _NAMING or _SUCH_AS.search(place.text, 0, place.start):
        return True
    return place.before in _MORE_OR_LESS and place.phrase.endswith(" ago")


def _is_a_plan(place: _Place) -> bool:
    """Whether it tells when things are done, not when they were: runs every Monday, in weeks 5-8, the job at 3:00."""
    if CLOCK_ALONE.fullmatch(place.phrase):
        return not (place.ended and "midnight" not in place.phrase and place.before in _DOING)
    if _MAY_BE_A_PLAN.match(place.said) and not (place.alone and place.looks_back):
        return True
    if place.before in _SCHEDULE and place.phrase.endswith("day"):
        return True
    return _PLAN.match(place.text, place.end) is not None or place.said.lower().endswith(" the")


def _is_past_day(place: _Place) -> bool:
    joined = place.phrase[0].isdigit()
    before = place.text[: place.start]
    return bool(
        place.ended
        and _WEEKDAY.fullmatch(place.phrase)
        and (joined or place.before not in _NOT_THE_DAY)
        and _PAST.search(before)
    )


def _means_time(phrase: str, said: str, frame: Frame) -> bool:
    enclosed, leading = _ENCLOSED.fullmatch(phrase), _PREPOSITION.fullmatch(phrase)
    if _joins(enclosed["rest"] if enclosed else phrase, frame, enclosed is not None):
        return True
    if (
        leading
        and _joins(leading["core"], frame, False, leading["word"])
        and not _doubtful(leading["core"], said, "in")
    ):
        return True
    if bound := _BOUND.fullmatch(phrase):
        if bound["word"] == "by" and not (_BARE_YEAR.search(phrase) or _GONE.search(phrase)):
            return False  # "by Friday" is a plan
        if said.lower().startswith("through "):
            return False  # January through March
        dated = _row(bound["core"], frame) or _row(phrase, frame)
        return dated is not None and not _doubtful(bound["core"], said, bound["word"])
    if leading:
        found = _row(leading["core"], frame)
        if found is None or _doubtful(leading["core"], said, leading["word"]):
            return False
        if leading["word"] == "over" and phrase.endswith(" ago"):
            return False
        return found.after is None or leading["word"] in found.after.split()
    found = _row(phrase, frame)
    return found is not None and found.after is None and not _doubtful(phrase, said, "")


def _joins(phrase: str, frame: Frame, enclosed: bool, word: str = "") -> bool:
    """Whether two periods are joined to a range; without "between" or "from" one of them must be beyond doubt.

    "And" joins much else: there both must be so, if need be by the `word` before them, as in "in May and June".
    """
    for joint in _JOINT.finditer(phrase):
        rows = _row(phrase[: joint.start()], frame), _row(phrase[joint.end() :], frame)
        if rows[0] and rows[1]:
            sure = [row.after is None or (word != "" and word in row.after.split()) for row in (rows[0], rows[1])]
            if enclosed or all(sure) or (any(sure) and joint[0] not in (" and ", " or ")):
                return True
    return enclosed and _JOINT.search(phrase) is not None and _row(phrase, frame) is not None


def _doubtful(core: str, said: str, word: str) -> bool:
    """Whether a month or weekday may be another word: "may 3 workers", "in dec", "until may"."""
    match = _AMBIGUOUS.match(core)
    if not match or re.search(rf"\b{match[1].capitalize()}", said):
        return False
    if match["rest"]:
        return not word
    return match[1] not in ("may", "march") or word not in ("in", "during", "throughout", "since", "of")
