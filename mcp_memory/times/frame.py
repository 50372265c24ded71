"""What the time phrases are made of: spans, the frame a phrase is said in, and the calendar's arithmetic.

`when_relative.py` and `when_dates.py` hold the phrases, `when_periods.py` the whole table, `when.py` what others call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from mcp_memory.domain.toc import Level, covering, local_day, start_of_day_ms
from mcp_memory.times.german import in_english
from mcp_memory.times.said import in_plain_words

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
ONE_DAY = timedelta(days=1)


_DASHES = str.maketrans(dict.fromkeys("–—―−→", " - ") | {"‐": "-", "‑": "-", "’": "'"})


_ORDINALS = [
    *"first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth".split(),
    *"fifteenth sixteenth seventeenth eighteenth nineteenth twentieth".split(),
    *(f"twenty-{each}" for each in "first second third fourth fifth sixth seventh eighth ninth".split()),
    *("thirtieth", "thirty-first"),
]
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b"
_NUMBERED = "|".join(sorted(_ORDINALS, key=len, reverse=True))
_SPELLED = re.compile(r"first|second|third|[a-z]th\b")
#: A day of a month in words: the twentieth of October, October twentieth; not October first week.
_ORDINAL = re.compile(
    rf"\b(?P<of>{_NUMBERED}) of (?={_MONTH})"
    rf"|\b(?P<month>{_MONTH}) (?:the )?(?P<after>{_NUMBERED})\b"
    r"(?! (?:week|half|quarter|day|mon|tue|wed|thu|fri|sat|sun))"
)


_LISTED = r"(?:\w{3,6}day|(?:the )?\d\d?(?:st|nd|rd|th)|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*)"
#: Monday, Tuesday and Wednesday are the days from the first to the last.
_LIST = re.compile(rf"\b({_LISTED})(?:, {_LISTED})+,? (?:and|or) ({_LISTED})\b")


@dataclass(frozen=True, slots=True)
class Span:
    """Milliseconds from `start_ms` up to, not including, `end_ms`; both are equal for an instant."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Frame:
    """When and where a phrase is said.

    A date without a year is the most recent one up to `latest` or, if `earliest` is given, the first one from there on.
    """

    now: datetime
    zone: tzinfo
    latest: date
    earliest: date | None = None

    @property
    def today(self) -> date:
        return self.now.astimezone(self.zone).date()

    @property
    def now_ms(self) -> int:
        return round(self.now.timestamp() * 1000)

    def days(self, first: date, after: date) -> Span:
        return Span(start_of_day_ms(first, self.zone), start_of_day_ms(after, self.zone))

    def day(self, day: date) -> Span:
        return self.days(day, day + ONE_DAY)

    def week(self, day: date) -> Span:
        return Span(*covering(Level.WEEK, day).bounds(self.zone))

    def months(self, first: date, count: int) -> Span:
        return self.days(first, first_of_month(first, -count))

    def hours(self, day: date, start: int, end: int) -> Span:
        """From one local hour to another; hours beyond 24 lie in the next day."""
        return Span(self._hour_ms(day, start), self._hour_ms(day, end))

    def _hour_ms(self, day: date, hour: int) -> int:
        local = datetime.combine(day + timedelta(days=hour // 24), time(hour % 24), self.zone)
        return round(local.astimezone(UTC).timestamp() * 1000)

    def first_and_last(self, span: Span) -> tuple[date, date]:
        """The local days a span begins and ends on."""
        return local_day(span.start_ms, self.zone), local_day(max(span.start_ms, span.end_ms - 1), self.zone)

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


class Backwards(ValueError):
    """A range whose end lies before its beginning."""


@dataclass(frozen=True, slots=True)
class Row:
    """A pattern, the function that dates what it matched, and the words after which a question means this time.

    `after` is None for phrases that can mean nothing else.
    """

    pattern: re.Pattern[str]
    function: Callable[[re.Match[str], Frame], Span]
    after: str | None


def row(pattern: str, function: Callable[[re.Match[str], Frame], Span], after: str | None = None) -> Row:
    return Row(re.compile(pattern, re.ASCII), function, after)


def normal(text: str) -> str:
    """Lower case, no commas, no "the", no dots after abbreviations, plain hyphens, one space between words.

    "The last week" is the seven days up to now, "last week" a week of the calendar, so the former becomes "past week".
    """
    text = text.translate(_DASHES).lower()
    if "," in text:
        text = _LIST.sub(r"\1 to \2", text).replace(",", " ")
    text = " ".join(re.sub(r"--+", " - ", text).split())
    text = in_english(text)
    if _SPELLED.search(text):
        text = _ORDINAL.sub(_in_figures, text)
    text = re.sub(r"\bthe last (?=(?:week|month|quarter|year)\b(?! (?:of|in) ))", "past ", text)
    text = re.sub(r"(?<=[a-z])\.(?=\s|$)|\bthe\b", " ", text)
    return in_plain_words(" ".join(text.split()).strip(" .;:?!"))


def _in_figures(match: re.Match[str]) -> str:
    number = _ORDINALS.index(match["of"] or match["after"]) + 1
    return f"{number}th of " if match["of"] else f"{match['month']} {number}th"


def first_of_month(day: date, back: int) -> date:
    """The first of the month that lies so many months before the one of `day`."""
    index = day.year * 12 + day.month - 1 - back
    return date(index // 12, index % 12 + 1, 1)


def months_earlier(day: date, count: int) -> date:
    """The same day of an earlier month, or that month's last day."""
    first = first_of_month(day, count)
    return min(first + timedelta(days=day.day - 1), first_of_month(first, -1) - ONE_DAY)


def monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def unit_back(unit: str, day: date, back: int, frame: Frame) -> Span:
    """The whole calendar unit that lies `back` units before the one that holds `day`."""
    if unit == "day":
        return frame.day(day - timedelta(days=back))
    if unit == "week":
        return frame.week(day - timedelta(weeks=back))
    if unit == "weekend":
        saturday = monday(day) + timedelta(days=5) - timedelta(weeks=back)
        return frame.days(saturday, saturday + timedelta(days=2))
    size = {"month": 1, "quarter": 3, "year": 12}[unit]
    return frame.months(first_of_month(day, (day.month - 1) % size + back * size), size)
