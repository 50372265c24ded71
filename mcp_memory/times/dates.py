"""Phrases that name a place in the calendar: January 15, the 15th, 2024-W03, Q3 2025, last summer."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, timedelta

from mcp_memory.times.frame import ONE_DAY, Backwards, Frame, Span, first_of_month, row
from mcp_memory.times.relative import WEEKDAY

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
MONTH = (
    r"(?P<month>january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)"
)
YEAR = r"(?P<year>19[7-9]\d|2[01]\d\d|'\d\d)"
IN_YEAR = rf"(?: (?:of |in )?{YEAR})?"
_SUFFIX = r"(?:st|nd|rd|th)"
_DAY = rf"(?P<day>\d\d?){_SUFFIX}?"
_TO_DAY = rf"(?: ?- ?| to | until | till | through | and )(?P<to>\d\d?){_SUFFIX}?"
_ON_WEEKDAY = rf"(?:{WEEKDAY} )?"
#: The months that seasons begin with, as the north has them; each lasts three.
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}


def _month(match: re.Match[str], frame: Frame) -> Span:
    """Last January is never the month we are in."""
    if match["which"] and match["which"] != "this":
        frame = replace(frame, latest=first_of_month(frame.today, 0) - ONE_DAY)
    return frame.months(_dated(match, frame, _month_number(match), 1), 1)


def _date(match: re.Match[str], frame: Frame) -> Span:
    return frame.day(_dated(match, frame, _month_number(match), int(match["day"])))


def _first_of(match: re.Match[str], frame: Frame) -> Span:
    return frame.day(_dated(match, frame, _month_number(match), 1))


def _dates(match: re.Match[str], frame: Frame) -> Span:
    first = _dated(match, frame, _month_number(match), int(match["day"]))
    last = first.replace(day=int(match["to"]))
    if last < first:
        raise Backwards
    return frame.days(first, last + ONE_DAY)


def _month_number(match: re.Match[str]) -> int:
    return _MONTHS.index(match["month"][:3]) + 1


def _dated(match: re.Match[str], frame: Frame, month: int, day: int) -> date:
    year = match["year"]
    return date(full_year(year), month, day) if year else frame.pick(lambda year: date(year, month, day))


def full_year(year: str) -> int:
    """A year of two digits is one of this century."""
    return int(year) if len(year) == 4 else 2000 + int(year[-2:])


def _numbers(match: re.Match[str], frame: Frame) -> Span:
    """Dots put the day first, slashes and hyphens the month, unless that is no date or one that is still to come."""
    first, second = int(match["first"]), int(match["second"])
    if match["sign"] == "." or first > 12:
        return frame.day(_dated(match, frame, second, first))
    if second <= 12 and match["year"]:
        month_first = date(full_year(match["year"]), first, second)
        if month_first > frame.today >= month_first.replace(month=second, day=first):
            return frame.day(month_first.replace(month=second, day=first))
    return frame.day(_dated(match, frame, first, second))


def _season(match: re.Match[str], frame: Frame) -> Span:
    """Last autumn is never the one we are in."""
    first = _dated(match, frame, _SEASONS[match["season"]], 1)
    span = frame.months(first, 3)
    if match["which"] in ("last", "past") and span.end_ms > frame.now_ms:
        return frame.months(first_of_month(first, 12), 3)
    return span


def _half_of_year(match: re.Match[str], frame: Frame) -> Span:
    return frame.months(_dated(match, frame, 6 * int(match["half"]) - 5, 1), 6)


def _day_of_month(match: re.Match[str], frame: Frame) -> Span:
    """In the nearest month that has this day; no two months in a row are too short for one."""
    base, step = (frame.earliest, -1) if frame.earliest else (frame.latest, 1)
    for back in (0, step, 2 * step):
        first = first_of_month(base, back)
        day = first + timedelta(days=int(match["day"]) - 1)
        in_time = day >= base if frame.earliest else day <= base
        if in_time and (day.year, day.month) == (first.year, first.month):
            return frame.day(day)
    raise ValueError("no month has this day")


def _iso_day(match: re.Match[str], frame: Frame) -> Span:
    return frame.day(date(full_year(match["year"]), int(match["month"]), int(match["day"])))


def _iso_month(match: re.Match[str], frame: Frame) -> Span:
    return frame.months(date(full_year(match["year"]), int(match["month"]), 1), 1)


def _year(match: re.Match[str], frame: Frame) -> Span:
    return frame.months(date(full_year(match["year"]), 1, 1), 12)


def _quarter(match: re.Match[str], frame: Frame) -> Span:
    named = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4}.get(match["quarter"])
    return frame.months(_dated(match, frame, (named or int(match["quarter"][0])) * 3 - 2, 1), 3)


def _iso_week(match: re.Match[str], frame: Frame) -> Span:
    week, year = int(match["week"]), match["year"]
    if year:
        return frame.week(date.fromisocalendar(full_year(year), week, 1))
    return frame.week(frame.pick(lambda year: date.fromisocalendar(year, week, 1)))


def _iso_weekday(match: re.Match[str], frame: Frame) -> Span:
    return frame.day(date.fromisocalendar(full_year(match["year"]), int(match["week"]), int(match["day"])))


def _iso_weeks(match: re.Match[str], frame: Frame) -> Span:
    first, weeks = _iso_week(match, frame), int(match["to"]) - int(match["week"])
    if weeks < 0:
        raise Backwards
    monday = frame.first_and_last(first)[0]
    return frame.days(monday, monday + timedelta(weeks=weeks + 1))


def _instant(match: re.Match[str], frame: Frame) -> Span:
    local = datetime.fromisoformat(match[0].upper())
    moment = round((local if local.tzinfo else local.replace(tzinfo=frame.zone)).timestamp() * 1000)
    return Span(moment, moment)


_IN = "in during throughout from of"

ROWS = (
    row(rf"(?:month of )?(?P<which>){MONTH}(?P<year>)", _month, _IN),
    row(rf"(?P<which>last|past|previous|this) {MONTH}(?P<year>)", _month),
    row(rf"(?:month of )?(?P<which>){MONTH} (?:of )?{YEAR}", _month),
    row(rf"{_ON_WEEKDAY}{MONTH} {_DAY}{IN_YEAR}", _date),
    row(rf"{_ON_WEEKDAY}{_DAY} (?:of )?{MONTH}{IN_YEAR}", _date),
    row(rf"(?P<day>first) (?:of )?{MONTH}{IN_YEAR}", _first_of),
    row(rf"{MONTH} {_DAY}{_TO_DAY}{IN_YEAR}", _dates),
    row(rf"{_DAY}{_TO_DAY} (?:of )?{MONTH}{IN_YEAR}", _dates),
    row(rf"{_ON_WEEKDAY}(?P<day>\d\d?){_SUFFIX}", _day_of_month, "on around"),
    row(rf"{_ON_WEEKDAY}{YEAR}(?P<sign>[-/])(?P<month>\d\d?)(?P=sign)(?P<day>\d\d?)", _iso_day),
    row(rf"{YEAR}\.(?P<month>\d\d?)\.(?P<day>\d\d?)", _iso_day, "on"),
    row(r"(?P<year>2\d{3})(?P<month>\d\d)(?P<day>\d\d)", _iso_day, "on"),
    row(rf"(?P<first>\d\d?)(?P<sign>[./-])(?P<second>\d\d?)(?P=sign){YEAR}", _numbers),
    row(r"(?P<first>\d\d?)(?P<sign>/)(?P<second>\d\d?)/(?P<year>\d\d)", _numbers),
    row(r"(?P<first>\d\d?)(?P<sign>\.)(?P<second>\d\d?)\.(?P<year>\d\d)", _numbers, "on"),
    row(r"(?P<first>\d\d)(?P<sign>[./])(?P<second>\d\d)\.?(?P<year>)", _numbers, "on"),
    row(r"(?P<first>\d\d?)(?P<sign>/)(?P<second>\d\d?)(?P<year>)", _numbers, "on"),
    row(rf"{_DAY}[-/ ]{MONTH}[-/ ]{YEAR}", _date),
    row(rf"(?P<month>\d\d?)/{YEAR}", _iso_month, _IN),
    row(rf"(?P<which>){MONTH}[-/]{YEAR}", _month),
    row(rf"(?P<which>)(?P<season>{'|'.join(_SEASONS)})(?P<year>)", _season, "in over during"),
    row(rf"(?P<which>)(?P<season>{'|'.join(_SEASONS)}) (?:of |in )?{YEAR}", _season),
    row(rf"(?P<which>this|last|past) (?P<season>{'|'.join(_SEASONS)})(?P<year>)", _season),
    row(rf"h(?P<half>[12])(?: of)? {YEAR}", _half_of_year),
    row(r"h(?P<half>[12])(?P<year>)", _half_of_year, "in during"),
    row(rf"{YEAR}-(?P<month>\d\d)", _iso_month, _IN),
    row(rf"(?:year (?:of )?)?{YEAR}", _year, _IN),
    row(rf"{YEAR}-?w(?P<week>\d\d)", _iso_week),
    row(rf"{YEAR}-?w(?P<week>\d\d)-?(?P<day>[1-7])", _iso_weekday),
    row(rf"(?:calendar )?(?:week|w) ?(?P<week>\d\d?)(?: of| in)? {YEAR}", _iso_week),
    row(r"(?:calendar )?week (?P<week>\d\d?)(?P<year>)", _iso_week, _IN),
    row(rf"(?:calendar )?weeks (?P<week>\d\d?)(?: ?- ?| to | and | or )(?P<to>\d\d?){IN_YEAR}", _iso_weeks, _IN),
    row(rf"q(?P<quarter>[1-4])(?: of | |/|-){YEAR}", _quarter),
    row(rf"{YEAR}[ /-]q(?P<quarter>[1-4])", _quarter),
    row(rf"(?P<quarter>first|second|third|fourth|last|[1-4](?:st|nd|rd|th)) quarter(?: of| in)? {YEAR}", _quarter),
    row(r"(?P<quarter>first|second|third|fourth|[1-4](?:st|nd|rd|th)) quarter(?P<year>)", _quarter, _IN),
    row(r"q(?P<quarter>[1-4])(?P<year>)", _quarter, _IN),
    row(r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:z|[+-]\d\d:?\d\d)?", _instant, "at around"),
)
