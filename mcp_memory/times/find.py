"""Time phrases inside questions: which runs of words could be one, and which of them surely are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import lru_cache

from mcp_memory import lexicon
from mcp_memory.errors import UnknownTimePhrase
from mcp_memory.times.calendar import Backwards, Frame
from mcp_memory.times.resolve import JOINT, RULES, YEAR, TimeRange, frame_of, languages, normal, read, resolve

_WORD = re.compile(r"[^\s,]+")
_MOST_WORDS = 150  # a question is short; a pasted file is not a question
_LONGEST = 12
#: What stands around a phrase and how a question is put, by what it tells.
_MENTIONS = {name: re.compile(pattern) for name, pattern in lexicon.table("times.en")["mentions"].items()}


@lru_cache
def _listed(name: str) -> frozenset[str]:
    return frozenset(lexicon.table("times.en")["question"][name].split())


@dataclass(frozen=True, slots=True)
class TimeMention:
    """A run of words of a question that may be a time: as it was said, in normal form, and between which words."""

    question: str
    start: int
    end: int
    said: str
    phrase: str
    before: str
    after: str
    #: Whether a part of the sentence ends with it, and whether it belongs to no word that follows.
    ended: bool
    alone: bool


def find(text: str, now: datetime, zone: tzinfo) -> tuple[TimeRange, str] | None:
    """The time phrase inside a question and the question without it; only what can hardly mean anything else.

    A phrase with a year wins over one without, otherwise the first one is taken. Times that lie in the future are left
    alone: memory holds nothing from there.
    """
    found: list[tuple[TimeRange, TimeMention]] = []
    taken = 0
    for mention in _mentions(text):
        meant = mention.start >= taken and _is_meant(mention, frame_of(now, zone))
        time_range = _resolved(mention.said, now, zone) if meant else None
        if time_range is None:
            continue
        taken = mention.end
        if time_range.start_ms <= now.timestamp() * 1000:
            found.append((time_range, mention))
    if not found:
        return None
    time_range, mention = next((each for each in found if YEAR.search(each[0].phrase)), found[0])
    rest = " ".join(f"{text[: mention.start]} {text[mention.end :]}".split())
    return time_range, re.sub(r"[\s,]+(?=[?!.,;:)])", "", rest).strip(" ,;:")


def _resolved(said: str, now: datetime, zone: tzinfo) -> TimeRange | None:
    """The time of a phrase without its preposition, unless that belongs to it: over Christmas, around March 5."""
    skipped = _MENTIONS["skipped"].match(said)
    ranges: list[TimeRange] = []
    for phrase in (said[skipped.end() if skipped else 0 :], said):
        with suppress(UnknownTimePhrase):
            ranges.append(resolve(phrase, now, zone))
    if not ranges:
        return None
    same = (ranges[0].start_ms, ranges[0].end_ms) == (ranges[-1].start_ms, ranges[-1].end_ms)
    return ranges[0] if same else ranges[-1]


@lru_cache
def _vocabulary() -> frozenset[str]:
    """All words that a time phrase may be made of; looking for these first spares most words a closer look."""
    sources = [JOINT.pattern, *(each.pattern.pattern for each in RULES)]
    sources += [pattern.pattern for _, rules in languages() for pattern, _ in rules]
    sources += [
        _MENTIONS[name].pattern.removeprefix("(?i)") for name in ("skipped", "preposition", "bound", "enclosed")
    ]
    plain = re.sub(r"\\.|\?P<\w+>", " ", " ".join(sources)).replace("'?", "").replace("'", "")
    return frozenset([*re.findall(r"[a-z]+", plain), *(word for words, _ in languages() for word in words), "the", ""])


def _is_of_time(word: str) -> bool:
    plain = re.sub("['’]", "", word.lower().strip("(.,;:?!)"))
    if any(letter.isdigit() for letter in plain):
        return True
    return all(part in _vocabulary() or part.removesuffix("s") in _vocabulary() for part in re.split("[-–—/]", plain))


def _mentions(text: str) -> Iterator[TimeMention]:
    """Runs of words that phrases are made of, from left to right, the longest first; none beyond a sentence's end."""
    words = [match for _, match in zip(range(_MOST_WORDS), _WORD.finditer(text), strict=False)]
    run_ends = [0] * len(words)
    for number in range(len(words) - 1, -1, -1):
        goes_on = number + 1 < len(words) and not _MENTIONS["sentence_end"].match(words[number][0])
        if _is_of_time(words[number][0]):
            run_ends[number] = max(number + 1, run_ends[number + 1] if goes_on else 0)
    for first, word in enumerate(words):
        for last in range(min(run_ends[first], first + _LONGEST) - 1, first - 1, -1):
            said = text[word.start() : words[last].end()].rstrip(".,;:?!)")
            start = word.start() + len(said) - len(said := said.removeprefix("("))
            if not said:
                continue
            before = words[first - 1][0].lower() if first else ""
            after = words[last + 1][0].lower().strip("?.,;:!)") if last + 1 < len(words) else ""
            end, said = start + len(said), _MENTIONS["possessive"].sub("", said)
            ended = text[end : end + 1] in (",", ".", "?", "!", ";", ":", ")", "")
            alone = ended or after in _listed("function")
            yield TimeMention(text, start, end, said, normal(said), before, after, ended, alone)


def _is_meant(mention: TimeMention, frame: Frame) -> bool:
    """Whether a run of words is a time beyond doubt, and one at which something was."""
    if not (_means_time(mention, frame) or _is_past_day(mention)) or _is_something_else(mention):
        return False
    this_year = frame.today.year
    return all(this_year - 15 <= int(year) <= this_year + 1 for year in _MENTIONS["bare_year"].findall(mention.phrase))


def _is_something_else(mention: TimeMention) -> bool:
    """Whether it names a thing, counts something, is itself the matter, or tells when things are to be done."""
    question, phrase, said = mention.question, mention.phrase, mention.said.lower()
    following = [mention.after]
    if "'s " in question[mention.end - 2 : mention.end + 1] and re.fullmatch(r"(?:.* )?(?:this|current) \w+", said):
        # The current one's is rather a thing of the program: this week's cache key.
        following = [word.lower().strip("?.,;:!)") for word in question[mention.end :].split()[:3]]
    # The head of a pasted log line, or a size.
    numbered = not mention.ended and phrase[-1].isdigit()
    logged = re.match(r"\d\d?:\d\d", mention.after) or re.search(r"\d:\d\d:\d\d$", phrase)
    return bool(
        (not mention.ended and any(word in _listed("things") for word in following))
        or (not mention.alone and _MENTIONS["loose_number"].fullmatch(phrase))
        or (numbered and (logged or mention.after in _listed("counted")))
        or (mention.before in _listed("versions") and re.fullmatch(r"(?:in |of |from )?\d{4}", phrase))
        or (mention.before in _listed("naming") or _MENTIONS["such_as"].search(question, 0, mention.start))
        or (mention.before in _listed("comparing") and phrase.endswith(" ago"))
        or (mention.before in _listed("schedule") and phrase.endswith("day"))
        or (_MENTIONS["plan"].match(question, mention.end) or said.endswith(" the"))
    )


def _is_past_day(mention: TimeMention) -> bool:
    """What did we do Monday?: a weekday needs no preposition where a question of the past ends with it."""
    return bool(
        mention.ended
        and _MENTIONS["weekday"].fullmatch(mention.phrase)
        and (mention.phrase[0].isdigit() or mention.before not in _listed("not_the_day"))
        and _MENTIONS["past"].search(mention.question[: mention.start])
    )


_ALWAYS = "*"


def _after(text: str, frame: Frame) -> str | None:
    """The words after which a period is meant, which are none for some; None if it is no period."""
    with suppress(Backwards):
        if found := read(text, frame):
            return _ALWAYS if found[0] is None else found[0]
    return None


def _is_sure(after: str, word: str) -> bool:
    return after == _ALWAYS or word in after.split()


def _means_time(mention: TimeMention, frame: Frame) -> bool:
    """Whether it is a period, a range or an open one, by itself or after its preposition."""
    phrase, said = mention.phrase, mention.said
    enclosed, leading = _MENTIONS["enclosed"].fullmatch(phrase), _MENTIONS["preposition"].fullmatch(phrase)
    if _joins(enclosed["rest"] if enclosed else phrase, frame, enclosed is not None):
        return True
    word, core = (leading["word"], leading["core"]) if leading else ("", phrase)
    if leading and _joins(core, frame, False, word) and not _is_doubtful(core, said, "in"):
        return True
    if bound := _MENTIONS["bound"].fullmatch(phrase):
        if bound["word"] == "by" and not (_MENTIONS["bare_year"].search(phrase) or _MENTIONS["gone"].search(phrase)):
            return False  # "by Friday" is a plan
        if said.lower().startswith("through "):
            return False  # January through March
        return bool(_after(bound["core"], frame) or _after(phrase, frame)) and not _is_doubtful(
            bound["core"], said, bound["word"]
        )
    after = _after(core, frame)
    if after is None or _is_doubtful(core, said, word) or (word == "over" and phrase.endswith(" ago")):
        return False
    if not word and mention.before in _listed("summary"):
        return said[0].isupper()
    return _is_sure(after, word)


def _joins(phrase: str, frame: Frame, enclosed: bool, word: str = "") -> bool:
    """Whether two periods are joined to a range; without "between" or "from" one of them must be beyond doubt.

    "And" joins much else: there both must be so, if need be by the `word` before them, as in "in May and June".
    """
    for joint in JOINT.finditer(phrase):
        ends = _after(phrase[: joint.start()], frame), _after(phrase[joint.end() :], frame)
        if ends[0] and ends[1]:
            sure = [_is_sure(each, word) for each in (ends[0], ends[1])]
            if enclosed or all(sure) or (any(sure) and joint[0] not in (" and ", " or ")):
                return True
    return enclosed and JOINT.search(phrase) is not None and bool(_after(phrase, frame))


def _is_doubtful(core: str, said: str, word: str) -> bool:
    """Whether a month or weekday may be another word: "may 3 workers", "in dec", "until may"."""
    name, _, rest = core.partition(" ")
    if name not in _listed("ambiguous") or re.search(rf"\b{name.capitalize()}", said):
        return False
    if rest:
        return not word
    return name not in ("may", "march") or word not in ("in", "during", "throughout", "since", "of")
