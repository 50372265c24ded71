"""Time phrases become ranges: "last week", "Jan 15–18", "since Monday", an ISO date or the id of a node.

Weeks are ISO weeks and days the user's local days. A date without a year is the most recent one that is not after now.
Ranges include both of the days that they name. A phrase is put into normal form, and the first rule that reads it says
what it means; phrases may hold others, and ranges are made of two.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache

from mcp_memory import lexicon
from mcp_memory.domain.toc import first_day_of_month, local_day, parse_node_id
from mcp_memory.errors import BadId, UnknownTimePhrase
from mcp_memory.times import calendar
from mcp_memory.times.calendar import (
    HOUR_MS,
    MINUTE_MS,
    ONE_DAY,
    SLOTS,
    WEEKDAYS,
    Backwards,
    Frame,
    Interval,
    PhraseRule,
    RuleMatch,
    first_of_month,
)

_EXAMPLES = (
    "today, yesterday, last week, this month, 3 days ago, last 2 weeks, on Monday, in January, January 2024, "
    "Jan 15-18, week of January 19, since Monday, before March, between Jan 3 and Jan 10, 2024-01-15, 2024-W03, "
    "2024-01-15..2024-01-18"
)
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class TimeRange:
    """What a phrase was taken to mean: milliseconds from `start_ms` up to, not including, `end_ms`."""

    phrase: str
    start_ms: int
    end_ms: int
    #: Which of its numbers was taken for the month, where either might be.
    reading: str = ""

    def told(self, moment: Callable[[int], str]) -> str:
        """The phrase and the time it was taken for, in words of the clock."""
        numbers = f" ({self.reading})" if self.reading else ""
        start = f"{moment(self.start_ms)} to" if self.start_ms else "everything up to"
        return f"{self.phrase!r}{numbers} = {start} {moment(self.end_ms - 1)}"


def resolve(phrase: str, now: datetime, zone: tzinfo) -> TimeRange:
    """The range of a time phrase said at `now`, which must know its zone, by a user who lives in `zone`."""
    said, frame = " ".join(phrase.split()), frame_of(now, zone)
    try:
        if said.lower().startswith("toc:"):
            interval = Interval(*parse_node_id(said)[0].bounds(zone))
        elif dotted := _DOTTED.fullmatch(said):
            bound = f"since {normal(dotted[1])}" if dotted[1] else f"through {normal(dotted[2])}"
            interval = _range(bound, frame)
        else:
            interval = _range(normal(said), frame)
        start = max(interval.start_ms, 0)
        end = interval.end_ms + (MINUTE_MS if interval.end_ms == interval.start_ms else 0)
        if start >= end:
            raise ValueError("it ends before there was anything")
    except Backwards:
        raise UnknownTimePhrase(f"{said[:80]!r} ends before it begins. Name the earlier time first.") from None
    except (ValueError, OverflowError, BadId):
        raise UnknownTimePhrase(f"{said[:80]!r} is not a time I can resolve. Try one of these: {_EXAMPLES}.") from None
    return TimeRange(said, start, end, _month_or_day_first(said, start, frame))


def frame_of(now: datetime, zone: tzinfo) -> Frame:
    return Frame(now, zone, _period, latest=now.astimezone(zone).date())


_MONTH = r"(?:0?[1-9]|1[0-2])"
_EITHER_WAY = re.compile(
    rf"(?<![\d/-])(?P<first>{_MONTH})(?P<sign>[/-])(?P<second>{_MONTH})(?P<year>(?P=sign)(?:\d\d)?\d\d)?(?![\d/-])",
    re.ASCII,
)


def _month_or_day_first(said: str, start_ms: int, frame: Frame) -> str:
    """How numbers were read that may be meant either way, and what they mean the other: 3/2 in March or February."""
    match = _EITHER_WAY.search(said)
    if not match or int(match["first"]) == int(match["second"]) or (match["sign"] == "-" and not match["year"]):
        return ""
    day = local_day(start_ms, frame.zone)
    if day.month != int(match["first"]):
        return "day first"
    swapped = read(f"{match['second']}{match['sign']}{match['first']}{match['year'] or ''}", frame)
    other = local_day(swapped[1].start_ms, frame.zone) if swapped else day
    return f"month first; {other} if the day is" if other != day else "month first"


_DASHES = str.maketrans(dict.fromkeys("–—―−→", " - ") | {"‐": "-", "‑": "-", "’": "'", ",": " "})
#: The last week is the seven days up to now, last week a week of the calendar.
_THE_LAST = re.compile(r"\bthe last (?=(?:week|month|quarter|year)\b(?! (?:of|in) ))")
_DROPPED = re.compile(r"(?<=[a-z])\.(?=\s|$)|\bthe\b")


Language = tuple[dict[str, str], list[tuple[re.Pattern[str], str]]]


@lru_cache
def languages() -> list[Language]:
    """For each language its words in English, and what it says otherwise than the rules do; English comes last."""
    found: list[Language] = []
    for name in sorted(lexicon.editions("times"), key=lambda name: name == "times.en"):
        table = lexicon.table(name)
        words = dict(table.get("words", {}))
        words |= {word: str(number) for number, word in enumerate(table.get("numbers", "").split(), 1)}
        words |= {word: f"{number}th" for number, word in enumerate(table.get("ordinals", "").split(), 1)}
        found.append((words, [(re.compile(said, re.ASCII), plain) for said, plain in table["rewrite"]["rules"]]))
    return found


@lru_cache(maxsize=512)
def normal(text: str) -> str:
    """Lower case, English, numbers in figures, no commas, no "the", no dots after abbreviations, plain hyphens."""
    text = " ".join(re.sub(r"--+", " - ", text.translate(_DASHES).lower()).split())
    text = " ".join(_DROPPED.sub(" ", _THE_LAST.sub("past ", text)).split()).strip(" .;:?!")
    for number, (words, rules) in enumerate(languages(), 1):
        # A language of which the phrase has no word says nothing about it; at last everything is English.
        if number == len(languages()) or not words.keys().isdisjoint(text.split(" ")):
            text = " ".join(words.get(word, word) for word in text.split(" "))
            for pattern, plain in rules:
                text = pattern.sub(plain, text)
    return text


def _time_of_day(said: RuleMatch) -> Interval:
    """A time of the clock with some room, two of them, or one side of it: on the day that is named, else on the latest.

    A number alone is an hour only after "at", or after a day and a preposition.
    """
    frame, how, two = said.frame, said["how"] or said["then"], said["hour2"] or said["named2"]
    loose = said["base"] and not two and (said["then"] or how in ("at", "around", "about"))
    if not loose and not any(said[slot] for slot in "named named2 minute minute2 half half2 oclock oclock2".split()):
        raise ValueError("a number is not an hour")
    if said["base"]:
        within = said.base
    else:
        today = frame.earliest or frame.today
        at = frame.at(today, _hours(said, "")[0], int(said["minute"] or 0))
        within = frame.day(today if at <= frame.now_ms or frame.earliest else today - ONE_DAY)
    if two:
        end = _moment(said, within, "2")
        # The half of the day that is said of the second time holds for both: 3 to 5pm, but 11 to 2pm.
        for half in (said["half2"], ""):
            if (start := _moment(said, within, "", half)) < end:
                return Interval(start, end)
        raise ValueError("the earlier hour comes first")
    at = _moment(said, within)
    if how in ("after", "from"):
        return Interval(at, within.end_ms)
    if how in ("before", "until", "till"):
        return Interval(within.start_ms, within.end_ms if said["named"] == "midnight" else at)
    if frame.exact:
        return Interval(at, at)
    # Nobody remembers it exactly: from an hour before the full hour to an hour after it.
    full = at - int(said["minute"] or 0) * MINUTE_MS
    midnight = frame.day(local_day(at, frame.zone)).start_ms
    return Interval(max(full - HOUR_MS, midnight), full + 2 * HOUR_MS)


def _moment(said: RuleMatch, within: Interval, which: str = "", half: str = "") -> int:
    """The first of the hours that may be meant which lies in a day or in a part of one."""
    first, last = said.frame.first_and_last(within)
    if last - first > ONE_DAY:
        raise ValueError("a time of day needs one day")
    for hour in _hours(said, which, half):
        for day in (first, last):
            at = said.frame.at(day, hour, int(said[f"minute{which}"] or 0))
            if within.start_ms <= at < within.end_ms:
                return at
    raise ValueError("the day has no such hour")


def _hours(said: RuleMatch, which: str, half: str = "") -> list[int]:
    """What hours may be meant, the likelier first: 3 is rather in the afternoon, 9 in the morning."""
    if named := said[f"named{which}"]:
        return [lexicon.table("times.en")["clock"][named]]
    hour, half = int(said[f"hour{which}"]), said[f"half{which}"] or half
    if hour > 23 or (half and not 1 <= hour <= 12):
        raise ValueError("a day has no such hour")
    if half:
        return [hour % 12 + (12 if half == "pm" else 0)]
    if said[f"minute{which}"] or not 1 <= hour <= 12:
        return [hour]
    return [hour + 12, hour] if hour <= 6 else [hour, (hour + 12) % 24]


def _beside(said: RuleMatch) -> Interval:
    """What comes before or after a period: so many units, a weekday, a weekend, or a week's worth of days."""
    frame, unit, before = said.frame, said.unit, said["how"] in ("before", "prior to")
    first, last = said.base_days
    if said["count"]:
        (low, high), day, sign = said.count, first if before else last, 1 if before else -1
        ends = [frame.unit(unit, day, sign * low), frame.unit(unit, day, sign * high)]
        return Interval(min(end.start_ms for end in ends), max(end.end_ms for end in ends))
    if unit in ("day", "week"):
        many = timedelta(days=7 if said["unit"] != "day" else 1)
        return frame.days(first - many, first) if before else frame.days(last + ONE_DAY, last + ONE_DAY + many)
    if unit == "weekend" and not before and last.weekday() < 5:
        return frame.unit(unit, last, 0)
    return frame.unit(unit, first if before else last, 1 if before else -1)


def _unit_of(said: RuleMatch) -> Interval:
    """A numbered day, week, weekday, month or quarter of a period, or the first or last so many days or weeks of it."""
    frame, unit = said.frame, said.unit or said["weekday"] or "day"
    first, last = said.base_days
    if said["weekday"] and last - first != timedelta(days=6):
        raise ValueError("only a week has one of each weekday")
    number = -1 if said["end"] == "last" else int(said["nth"] or 1)
    if said["count"]:
        if unit not in ("day", "week"):
            raise ValueError("only days and weeks are counted")
        many, after = timedelta(days=said.count[1] * (7 if unit == "week" else 1)), last + ONE_DAY
        return (
            frame.days(max(after - many, first), after) if number < 0 else frame.days(first, min(first + many, after))
        )
    if unit == "week":
        # By the rule of the tree: the weeks of a month or year are those whose Thursday lies in it.
        if first.day != 1 or (last + ONE_DAY).day != 1:
            raise ValueError("only months and years have numbered weeks")
        begin, end = (first_day_of_month(day.year, day.month) for day in (first, last + ONE_DAY))
        day = end - timedelta(days=7) if number < 0 else begin + timedelta(weeks=number - 1)
        found, fits = frame.days(day, day + timedelta(days=7)), day < end
    else:
        if unit in WEEKDAYS:
            found = frame.unit(unit, last + ONE_DAY, 1) if number < 0 else frame.unit(unit, first - ONE_DAY, -number)
        else:
            found = frame.unit(unit, last, 0) if number < 0 else frame.unit(unit, first, 1 - number)
        begin, end = frame.first_and_last(found)
        fits = first <= begin and end <= last
    if not fits:
        raise ValueError("the period has no such unit")
    return found


def _week_of(said: RuleMatch) -> Interval:
    """The ISO week of a date, the weekend nearest to it, or the seven days that it begins or ends."""
    first, last = said.base_days
    if said.unit == "weekend":
        if last - first > ONE_DAY:
            raise ValueError("a weekend is told by a day")
        return said.frame.unit("weekend", first - timedelta(days=2), 0)
    if said["how"] in ("of", "around"):
        return said.frame.unit("week", first, 0)
    start = last - timedelta(days=6) if said["how"] == "ending" else first
    return said.frame.days(start, start + timedelta(days=7))


def _third(said: RuleMatch) -> Interval:
    """The early, middle or late third of a week or anything longer; of a day its morning or evening."""
    frame, base, how = said.frame, said.base, said["how"]
    first, last = frame.first_and_last(base)
    days = (last - first).days + 1
    if base.end_ms - base.start_ms < 20 * HOUR_MS:
        middle = (base.start_ms + base.end_ms) // 2
        return Interval(middle, base.end_ms) if how in ("end", "late") else Interval(base.start_ms, middle)
    if days == 1 and how in ("early", "late"):
        return Interval(*(frame.at(first, hour) for hour in ((4, 11) if how == "early" else (17, 24))))
    if days < 7:
        raise ValueError("too short to divide")
    size = -(-days // 3)
    if how in ("end", "late"):
        first = last - timedelta(days=size - 1)
    elif how in ("mid", "middle"):
        first += timedelta(days=(days - size) // 2)
    return frame.days(first, first + timedelta(days=size))


def _half(said: RuleMatch) -> Interval:
    """Of a year the first six months, of anything else by days."""
    first, last = said.base_days
    days = (last - first).days + 1
    middle = first_of_month(first, -6) if days >= 365 and first.day == 1 else first + timedelta(days=days // 2)
    return said.frame.days(first, middle) if said["nth"] == "1" else said.frame.days(middle, last + ONE_DAY)


def _in_that_year(said: RuleMatch) -> Interval:
    """October last year, Christmas this year, March two years ago."""
    back = said.count[0] if said["count"] else int(said["ago"] != "this")
    return said.frame.read(f"{said['name']} {said.frame.today.year - back}", said.frame)


def _around(said: RuleMatch) -> Interval:
    """Some days beside a day and an hour beside an instant; what is longer is vague enough."""
    base = said.base
    first, last = said.frame.first_and_last(base)
    if base.start_ms == base.end_ms:
        return Interval(base.start_ms - HOUR_MS, base.end_ms + HOUR_MS)
    return said.frame.days(first - timedelta(days=2), last + timedelta(days=3)) if first == last else base


#: What dates a phrase, by the name that the table of phrases gives it: the functions of the calendar, and those above.
_DATED: dict[str, Callable[..., Interval]] = {**vars(calendar), **globals()}


def _rule(pattern: str, dated: str, after: str | None = None) -> PhraseRule:
    name, *given = dated.split()
    function = _DATED[f"_{name}"]
    return PhraseRule(re.compile(pattern.format_map(SLOTS), re.ASCII), lambda said: function(said, *given), after)


RULES = tuple(_rule(*row) for row in lexicon.table("times.en")["phrases"])


@lru_cache(maxsize=512)  # in a question many phrases are tried that have parts in common
def read(text: str, frame: Frame) -> tuple[str | None, Interval] | None:
    """What a period in normal form means, and the words after which a question means it; None if no rule reads it.

    The first rule that dates it is taken; one built upon another period may fail where a later one does not.
    """
    backwards: Backwards | None = None
    for each in RULES:
        if match := each.pattern.fullmatch(text):
            said = RuleMatch(match, frame)
            try:
                return None if said["year"] or said["which"] else each.after, each.dated(said)
            except Backwards as error:
                backwards = error
            except (ValueError, OverflowError):
                continue
    if backwards:
        raise backwards
    return None


def _period(text: str, frame: Frame) -> Interval:
    found = read(text, frame)
    if found is None:
        raise ValueError("no such phrase")
    return found[1]


_LEADING = re.compile(r"(?:in|on|during|over|at|around|throughout|within|from|for|of|about|roughly) ")
_OPEN = re.compile(r"(?P<how>since|starting|after|before|prior to|until|till|up to|through|by|as of) (?P<base>.+)")
_ENCLOSED = re.compile(r"(?P<how>between|from) (?P<rest>.+)")
JOINT = re.compile(
    r" ?\.\.+ ?| - | (?:to|until|till|through|and|or) |(?<=[a-z])-(?=[a-z])|(?<=\d)-(?=[a-z]{3})|(?<=[a-z]{3})-(?=\d)"
    r"|(?<=[\dz])/(?=\d{4}-)"
)
YEAR = re.compile(r"\b\d{4}\b", re.ASCII)
#: The one day of a month that has no month of its own.
_BARE_DAY = re.compile(r"(?:\w+day )?\d\d?(?:st|nd|rd|th)", re.ASCII)
_DOTTED = re.compile(r"([^.](?:.*[^.])?) ?\.\.+|\.\.+ ?([^.].*)", re.S)


def _range(text: str, frame: Frame) -> Interval:
    """One period, two that are joined, or one that is open at a side."""
    if len(text) > _LONGEST:
        raise ValueError("too long for a time phrase")
    enclosed = _ENCLOSED.fullmatch(text)
    rest = enclosed["rest"] if enclosed else text
    if enclosed and enclosed["how"] == "between" and not JOINT.search(rest):
        raise ValueError("a range needs two ends")
    backwards: Backwards | None = None
    for joint in (None, *JOINT.finditer(rest)):
        try:
            if joint:
                first, last = (_plain(end.strip()) for end in (rest[: joint.start()], rest[joint.end() :]))
                return _joined(first, last, frame, also=joint[0] in (" and ", " or ") and enclosed is None)
            # A few mean more with their preposition than without: over Christmas, around the 5th.
            found = read(rest, frame)
            return found[1] if found else _period(_plain(rest), frame)
        except Backwards as error:
            backwards = error
        except ValueError:
            continue
    if backwards:
        raise backwards
    if half_open := _OPEN.fullmatch(text):
        return _half_open(half_open["how"], _plain(half_open["base"]), frame)
    raise ValueError("no such phrase")


def _plain(text: str) -> str:
    """The phrase without the preposition that leads to it."""
    return text[match.end() :] if (match := _LEADING.match(text)) else text


def _joined(first: str, last: str, frame: Frame, *, also: bool) -> Interval:
    """A year that is said once holds for both ends; without any, the range begins at its most recent first day.

    An end that would come before the beginning is the next one, or else the beginning the one before it: Monday to
    Wednesday last week. What is only named beside another time (`also`) may come before it: today and yesterday.
    """
    frame = replace(frame, exact=True)

    def from_day(earliest: date) -> Interval:
        return _period(last, replace(frame, earliest=earliest))

    def up_to(end: Interval) -> Interval:
        return _period(first, replace(frame, latest=frame.first_and_last(end)[1]))

    if YEAR.search(last) and not YEAR.search(first):
        end = _period(last, frame)
        start = up_to(end)
    else:
        start, end = _period(first, frame), _period(last, frame)
        begun = frame.first_and_last(start)[0]
        # A period that stays the same whatever comes before it, as yesterday does and Monday does not.
        if also and end.end_ms <= start.start_ms and from_day(begun) == end:
            return Interval(end.start_ms, start.end_ms)
        for earliest in (begun, begun + ONE_DAY):
            if end.end_ms <= start.start_ms or YEAR.search(first) or _BARE_DAY.fullmatch(last):
                end = from_day(earliest)
        if end.end_ms <= start.start_ms:
            start = up_to(end)
    if end.end_ms < start.start_ms:
        raise Backwards
    return Interval(start.start_ms, end.end_ms)


def _half_open(how: str, text: str, frame: Frame) -> Interval:
    """Until a day includes it, until a month does not; whatever has no end ends today."""
    frame = replace(frame, exact=True)
    if how in ("since", "after") and text in WEEKDAYS:
        frame = replace(frame, latest=frame.latest - ONE_DAY)  # said on a Monday, since Monday is since the last
    base = _period(text, frame)
    one_day = base.end_ms - base.start_ms <= 25 * HOUR_MS
    if how in ("before", "prior to") or (how in ("until", "till", "up to") and not one_day):
        return Interval(0, base.start_ms)
    if how in ("since", "starting", "after"):
        start = base.end_ms if how == "after" else base.start_ms
        return Interval(start, frame.day(max(local_day(start, frame.zone), frame.today)).end_ms)
    return Interval(0, base.end_ms)
