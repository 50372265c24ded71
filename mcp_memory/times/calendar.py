"""The calendar that time phrases are read with, and phrases that name a day in it or count from now.

A rule is a pattern and what it means. Its pattern is written with slots for what stands in tables: `{month} {day}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from mcp_memory import lexicon
from mcp_memory.domain.toc import Level, covering, local_day, start_of_day_ms

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
ONE_DAY = timedelta(days=1)

_ENGLISH = lexicon.table("times.en")
MONTHS: dict[str, int] = {name: number for number, names in enumerate(_ENGLISH["months"], 1) for name in names.split()}
WEEKDAYS: dict[str, int] = {name: number for number, names in enumerate(_ENGLISH["weekdays"]) for name in names.split()}
_UNITS: dict[str, str] = {name: unit for unit, names in _ENGLISH["units"].items() for name in names.split()}
UNIT_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_COUNTS: dict[str, list[int]] = _ENGLISH["counts"]
_FEASTS: dict[str, str] = _ENGLISH["feasts"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Milliseconds from `start_ms` up to, not including, `end_ms`; both are equal for an instant."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Frame:
    """When and where a phrase is said, and how a phrase inside another is read.

    A date without a year is the most recent one up to `latest` or, if `earliest` is given, the first one from there on.
    A time of day is `exact` where something begins or ends with it, and else some hours around it.
    """

    now: datetime
    zone: tzinfo
    read: Callable[[str, Frame], Interval]
    latest: date
    earliest: date | None = None
    exact: bool = False

    @property
    def today(self) -> date:
        return self.now.astimezone(self.zone).date()

    @property
    def now_ms(self) -> int:
        return round(self.now.timestamp() * 1000)

    def days(self, first: date, after: date) -> Interval:
        return Interval(start_of_day_ms(first, self.zone), start_of_day_ms(after, self.zone))

    def day(self, day: date) -> Interval:
        return self.days(day, day + ONE_DAY)

    def months(self, first: date, count: int) -> Interval:
        return self.days(first, first_of_month(first, -count))

    def at(self, day: date, hour: int, minute: int = 0) -> int:
        """A time of the local clock; hours beyond 24 lie in the next day."""
        local = datetime.combine(day + timedelta(days=hour // 24), time(hour % 24, minute), self.zone)
        return round(local.astimezone(UTC).timestamp() * 1000)

    def part(self, day: date, name: str) -> Interval:
        start, end = _ENGLISH["parts"][name]
        return Interval(self.at(day, start), self.at(day, end))

    def first_and_last(self, interval: Interval) -> tuple[date, date]:
        """The local days an interval begins and ends on."""
        last_ms = max(interval.start_ms, interval.end_ms - 1)
        return local_day(interval.start_ms, self.zone), local_day(last_ms, self.zone)

    def pick(self, in_year: Callable[[int], date]) -> date:
        """Give a date without a year its year. Eight years are tried because of the 29th of February."""
        start, step = (self.earliest.year, 1) if self.earliest else (self.latest.year, -1)
        for year in range(start, start + 9 * step, step):
            try:
                day = in_year(year)
            except ValueError:
                continue
            if day >= self.earliest if self.earliest else day <= self.latest:
                return day
        raise ValueError("no year has this date")

    def unit(self, unit: str, day: date, back: int) -> Interval:
        """The whole unit that lies `back` units before the one that holds `day`; the n-th such weekday before it."""
        if unit in WEEKDAYS:
            if back == 0:
                return self.day(monday(day) + timedelta(days=WEEKDAYS[unit]))
            nearest = (day.weekday() - WEEKDAYS[unit] - 1) % 7 + 1 if back > 0 else (day.weekday() - WEEKDAYS[unit]) % 7
            return self.day(day - timedelta(days=nearest + 7 * (back - (back > 0))))
        if unit == "day":
            return self.day(day - timedelta(days=back))
        if unit == "week":
            return Interval(*covering(Level.WEEK, day - timedelta(weeks=back)).bounds(self.zone))
        if unit == "weekend":
            saturday = monday(day) + timedelta(days=5) - timedelta(weeks=back)
            return self.days(saturday, saturday + timedelta(days=2))
        size = UNIT_MONTHS.get(unit)
        if not size:
            raise ValueError("the calendar is not divided by the clock")
        return self.months(first_of_month(day, (day.month - 1) % size + back * size), size)

    def back(self, unit: str, least: int, most: int = 0) -> Interval:
        """From the unit that lies at most so many before today's to the one that lies at least so many before it."""
        return Interval(self.unit(unit, self.today, most or least).start_ms, self.unit(unit, self.today, least).end_ms)


class Backwards(ValueError):
    """A range whose end lies before its beginning."""


class RuleMatch:
    """A phrase that a rule matches, by the names of its slots, in the frame it is said in."""

    def __init__(self, match: re.Match[str], frame: Frame) -> None:
        self._groups = match.groupdict()
        self.text = match[0]
        self.frame = frame

    def __getitem__(self, slot: str) -> str:
        return self._groups.get(slot) or ""

    @property
    def base(self) -> Interval:
        """The phrase inside this one."""
        return self.frame.read(self["base"], self.frame)

    @property
    def base_days(self) -> tuple[date, date]:
        """The first and the last day of the phrase inside this one."""
        return self.frame.first_and_last(self.base)

    @property
    def unit(self) -> str:
        return _UNITS.get(self["unit"], self["unit"].removesuffix("s"))

    @property
    def count(self) -> tuple[int, int]:
        """How many, at least and at most: two, a few, two or three."""
        said = (self["count"], self["most"] or self["count"])
        least, most = (_COUNTS.get(each) or [int(each), int(each)] for each in said)
        return min(least[0], most[0]), max(least[1], most[1])

    def in_year(self, dated: Callable[[int], date]) -> date:
        """A date in the year that is named, where two digits are this century's, else in the one that is meant."""
        year = self["year"] or self["year_alone"]
        return dated(int(year) if len(year) == 4 else 2000 + int(year[-2:])) if year else self.frame.pick(dated)

    def is_weekday(self, day: date) -> bool:
        """Whether a day is the weekday that is named, if any is."""
        return not self["weekday"] or day.weekday() == WEEKDAYS[self["weekday"]]

    def date(self, month: int | None = None, day: int | None = None) -> date:
        """Return the date of these numbers or names; without a year, the nearest one on the named weekday."""
        if month is None:
            month = int(self["number"]) if self["number"] else MONTHS[self["month"]]

        def in_year(year: int) -> date:
            return date(year, month, int(self["day"]) if day is None else day)

        def on_weekday(year: int) -> date:
            found = in_year(year)
            if not self.is_weekday(found):
                raise ValueError("another weekday")
            return found

        if self["weekday"] and not self["year"]:
            with suppress(ValueError):  # a weekday that fits no year nearby is a slip
                return self.frame.pick(on_weekday)
        return self.in_year(in_year)


@dataclass(frozen=True, slots=True)
class PhraseRule:
    """A pattern, the function that dates what it matches, and the words after which a question means this time.

    `after` is None where nothing else can be meant. It counts only if the phrase has no year and no "last" or "this".
    """

    pattern: re.Pattern[str]
    dated: Callable[[RuleMatch], Interval]
    after: str | None


def any_of(names: Iterable[str]) -> str:
    return "|".join(sorted(names, key=len, reverse=True))


_COUNT = rf"\d{{1,4}}|{any_of(_COUNTS)}"
_YEAR = r"19[7-9]\d|2[01]\d\d|'\d\d"


def _clock(which: str = "") -> str:
    return (
        rf"(?:(?P<named{which}>{any_of(_ENGLISH['clock'])})|(?P<hour{which}>\d\d?)(?::(?P<minute{which}>\d\d)(?::\d\d)?)?"
        rf"(?: ?(?P<half{which}>am|pm)| (?P<oclock{which}>o'clock))?)"
    )


SLOTS = {
    "month": rf"(?P<month>{any_of(MONTHS)})",
    "weekday": rf"(?P<weekday>{any_of(WEEKDAYS)})",
    "season": rf"(?P<season>{any_of(_ENGLISH['seasons'])})",
    "feast": rf"(?P<feast>{'|'.join(_FEASTS)})",
    "part": rf"(?P<part>{any_of(_ENGLISH['parts'])})",
    "year": rf"(?P<year>{_YEAR})",
    "year_alone": rf"(?P<year_alone>{_YEAR})",
    "in_year": rf"(?: (?:of |in )?(?P<year>{_YEAR}))?",
    "day": r"(?P<day>\d\d?)(?:st|nd|rd|th)?",
    "nth": r"(?P<nth>\d\d?)(?:st|nd|rd|th)",
    "to_day": r"(?: ?- ?| (?:to|until|till|through|and) )(?P<to>\d\d?)(?:st|nd|rd|th)?",
    "count": rf"(?:a (?=couple|few))?(?P<count>{_COUNT})(?:(?:(?<=\d)-(?=\d)| - | (?:to|or|and) )(?P<most>{_COUNT}))?",
    "unit": rf"(?P<unit>{any_of(_UNITS)}|(?:{any_of(WEEKDAYS)})s?)",
    "base": r"(?P<base>.+)",
    "time": rf"{_clock()}(?:(?: ?- ?| (?:and|to|until|till|through) ){_clock('2')})?",
    "how": "at|around|about|before|until|till|after|from|between",
    "about": "(?:(?:about|around|roughly|nearly|almost|approximately) )?",
    "over": rf"(?P<over>{any_of(_ENGLISH['over'])})",
}
SLOTS["that_year"] = f"(?:(?P<ago>last|this|previous) year|{SLOTS['count']} years? ago)"


def first_of_month(day: date, back: int) -> date:
    """The first of the month that lies so many months before the one of `day`."""
    index = day.year * 12 + day.month - 1 - back
    return date(index // 12, index % 12 + 1, 1)


def monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _month(said: RuleMatch) -> Interval:
    """Last January is never the month we are in."""
    if said["which"] not in ("", "this"):
        said.frame = replace(said.frame, latest=first_of_month(said.frame.today, 0) - ONE_DAY)
    return said.frame.months(said.date(day=1), 1)


def _day(said: RuleMatch) -> Interval:
    return said.frame.day(said.date())


def _days(said: RuleMatch) -> Interval:
    first = said.date()
    last = first.replace(day=int(said["to"]))
    if last < first:
        raise Backwards
    return said.frame.days(first, last + ONE_DAY)


def _day_of_month(said: RuleMatch) -> Interval:
    """In the nearest month that has this day, within a year on the weekday that is named, if there is such a month."""
    frame = said.frame
    base, step = (frame.earliest, -1) if frame.earliest else (frame.latest, 1)
    firsts = [first_of_month(base, back * step) for back in range(12)]
    days = [(first, first + timedelta(days=int(said["nth"]) - 1)) for first in firsts]
    found = [
        day for first, day in days if (day >= base if frame.earliest else day <= base) and day.month == first.month
    ]
    if not found:
        raise ValueError("no month has this day")
    return frame.day(next((day for day in found if said.is_weekday(day)), found[0]))


def _numbers(said: RuleMatch) -> Interval:
    """Dots put the day first, slashes and hyphens the month, unless that is no date or one that is still to come."""
    first, second, today = int(said["first"]), int(said["second"]), said.frame.today
    if said["sign"] == "." or first > 12:
        return said.frame.day(said.date(second, first))
    day = said.date(first, second)
    if second <= 12 and said["year"] and day > today >= day.replace(month=second, day=first):
        day = day.replace(month=second, day=first)
    return said.frame.day(day)


def _season(said: RuleMatch) -> Interval:
    """Last autumn is never the one we are in."""
    first = said.date(_ENGLISH["seasons"][said["season"]], 1)
    season = said.frame.months(first, 3)
    if said["which"] in ("last", "past") and season.end_ms > said.frame.now_ms:
        return said.frame.months(first_of_month(first, 12), 3)
    return season


def _part_of_year(said: RuleMatch, months: str) -> Interval:
    """The n-th so many months of a year."""
    many = int(months)
    return said.frame.months(said.date(many * int(said["nth"] or 1) - many + 1, 1), many)


def _week(said: RuleMatch) -> Interval:
    """A numbered week, or a numbered day of it."""
    first = said.in_year(lambda year: date.fromisocalendar(year, int(said["week"]), 1))
    day = timedelta(days=int(said["day"] or 1) - 1)
    return said.frame.unit("day" if said["day"] else "week", first + day, 0)


def _instant(said: RuleMatch) -> Interval:
    local = datetime.fromisoformat(said.text.upper())
    at = round((local if local.tzinfo else local.replace(tzinfo=said.frame.zone)).timestamp() * 1000)
    return Interval(at, at)


def _easter(year: int) -> date:
    """By the rule of Gauss as Lichtenberg completed it, which holds for every year of the Gregorian calendar."""
    century = year // 100
    moon = 15 + (3 * century + 3) // 4 - (8 * century + 13) // 25
    sun = 2 - (3 * century + 3) // 4
    seed = (19 * (year % 19) + moon) % 30
    full = 21 + seed - (seed + year % 19 // 11) // 29
    sunday = 7 - (year + year // 4 + sun) % 7
    return date(year, 3, 1) + timedelta(days=full + 7 - (full - sunday) % 7 - 1)


def _feast(said: RuleMatch) -> Interval:
    """The day of a feast, or the days of it that "over" the feast means."""
    frame = said.frame
    if said["which"]:
        said.frame = replace(frame, latest=frame.today - ONE_DAY)
    name = said["feast"] or said["over"]
    where, _, more = next(where for names, where in _FEASTS.items() if re.fullmatch(names, name)).partition(" ")

    def in_year(year: int) -> date:
        if where == "easter":
            return _easter(year) + timedelta(days=int(more or 0))
        month, *weekday, number = where.split("-")
        if not weekday:
            return date(year, int(month), int(number))
        first = date(year, int(month), 1)
        days = (WEEKDAYS[weekday[0]] - first.weekday()) % 7 + int(more or 0)
        return first + timedelta(weeks=int(number) - 1, days=days)

    before, after = _ENGLISH["over"][name] if said["over"] else (0, 0)
    day = said.in_year(in_year)
    return frame.days(day + timedelta(days=before), day + timedelta(days=after + 1))


_CLOCK = {"minute": MINUTE_MS, "hour": HOUR_MS}
#: Hours and minutes, which nobody counts exactly, get so much room on both sides.
_ROOM = {"minute": 10 * MINUTE_MS, "hour": HOUR_MS}


def earlier(day: date, unit: str, count: int) -> date:
    """The day so many units before another: the same day of a month, or that month's last."""
    if unit not in UNIT_MONTHS:
        return day - timedelta(days=count * (7 if unit == "week" else 1))
    first = first_of_month(day, count * UNIT_MONTHS[unit])
    return min(first + timedelta(days=day.day - 1), first_of_month(first, -1) - ONE_DAY)


def _ago(said: RuleMatch) -> Interval:
    """The whole unit so many units before the one we are in; several of them where the count is vague."""
    frame, unit, (low, high) = said.frame, said.unit, said.count
    if unit in _CLOCK:
        start, end = (frame.now_ms - count * _CLOCK[unit] for count in (high, low))
        return Interval(start - _ROOM[unit], min(end + _ROOM[unit], frame.now_ms))
    return frame.back(unit, low, high)


def _rolling(said: RuleMatch) -> Interval:
    """The last so many units up to now; days are taken whole, today included."""
    frame, unit, count = said.frame, said.unit, said.count[1] if said["count"] else 1
    if unit in _CLOCK:
        return Interval(frame.now_ms - max(count, 1) * _CLOCK[unit], frame.now_ms)
    if unit in ("day", "week", *UNIT_MONTHS):
        return frame.days(earlier(frame.today, unit, count), frame.today + ONE_DAY)
    return frame.back(unit, 1, count)


def _calendar_unit(said: RuleMatch) -> Interval:
    if said.unit == "day":
        raise ValueError("only from a week on")
    return said.frame.back(said.unit, 0 if said["which"] in ("this", "current") else 1)


def _weekend(said: RuleMatch) -> Interval:
    """The one we are in, else the one before."""
    return said.frame.unit("weekend", said.frame.latest, 0 if said.frame.latest.weekday() >= 5 else 1)


def _weekday(said: RuleMatch) -> Interval:
    """The most recent one, today included."""
    frame = said.frame
    if frame.earliest:
        return frame.unit(said["weekday"], frame.earliest - ONE_DAY, -1)
    return frame.unit(said["weekday"], frame.latest + ONE_DAY, 1)


def _last_workday(said: RuleMatch) -> Interval:
    return said.frame.back("day", {0: 3, 6: 2}.get(said.frame.today.weekday(), 1))


def _back(said: RuleMatch, unit: str, least: str, most: str = "0") -> Interval:
    return said.frame.back(unit, int(least), int(most))


def _day_ago(said: RuleMatch) -> Interval:
    return said.frame.day(earlier(said.frame.today, said.unit, said.count[0]))


def _weekday_ago(said: RuleMatch) -> Interval:
    return said.frame.back(said["weekday"], said.count[0] + 1)


def _before_last(said: RuleMatch) -> Interval:
    return said.frame.back(said.unit, 2)


def _part_of_day(said: RuleMatch) -> Interval:
    """On a Friday at noon, Friday evening is last week's."""
    base, frame = said.base, said.frame
    first = frame.first_and_last(base)[0]
    if base != frame.day(first):
        raise ValueError("a part of a day needs one whole day")
    part = frame.part(first, said["part"])
    if part.start_ms > frame.now_ms and first == frame.latest and said["base"] in WEEKDAYS:
        return frame.part(first - timedelta(weeks=1), said["part"])
    return part
