"""Phrases that name a place in the calendar: January 15, the 15th, 2024-W03, Q3 2025, Christmas Eve."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, timedelta

from mcp_memory.navigate.when_frame import ONE_DAY, Backwards, Frame, Span, first_of_month, row
from mcp_memory.navigate.when_relative import WEEKDAY

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
MONTH = (
    r"(?P<month>january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)"
)
YEAR = r"(?P<year>19[7-9]\d|2[01]\d\d)"
_IN_YEAR = rf"(?: (?:of |in )?{YEAR})?"
_SUFFIX = r"(?:st|nd|rd|th)"
_DAY = rf"(?P<day>\d\d?){_SUFFIX}?"
_TO_DAY = rf"(?: ?- ?| to | until | till | through | and )(?P<to>\d\d?){_SUFFIX}?"
_ON_WEEKDAY = rf"(?:{WEEKDAY} )?"
_HOLIDAYS = {
    r"valentine'?s(?: day)?": (2, 14),
    r"halloween": (10, 31),
    r"christmas eve": (12, 24),
    r"(?:christmas|xmas)(?: day)?": (12, 25),
    r"boxing day": (12, 26),
    r"new year'?s eve": (12, 31),
    r"new year(?:'?s)?(?: day)?": (1, 1),
}


def _month(match: re.Match[str], frame: Frame) -> Span:
    """Last January is never the month we are in."""
    if match["which"] and match["which"] != "this":
        frame = replace(frame, latest=first_of_month(frame.today, 0) - ONE_DAY)
    return frame.months(_dated(match, frame, _month_number(match), 1), 1)


def _date(match: re.Match[str], frame: Frame) -> Span:
    return frame.day(_dated(match, frame, _month_number(match), int(match["day"])))


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
    return date(int(year), month, day) if year else frame.pick(lambda year: date(year, month, day))


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
    return frame.day(date(int(match["year"]), int(match["month"]), int(match["day"])))


def _iso_month(match: re.Match[str], frame: Frame) -> Span:
    return frame.months(date(int(match["year"]), int(match["month"]), 1), 1)


def _year(match: re.Match[str], frame: Frame) -> Span:
    return frame.months(date(int(match["year"]), 1, 1), 12)


def _quarter(match: re.Match[str], frame: Frame) -> Span:
    return frame.months(_dated(match, frame, int(match["quarter"]) * 3 - 2, 1), 3)


def _iso_week(match: re.Match[str], frame: Frame) -> Span:
    week, year = int(match["week"]), match["year"]
    if year:
        return frame.week(date.fromisocalendar(int(year), week, 1))
    return frame.week(frame.pick(lambda year: date.fromisocalendar(year, week, 1)))


def _instant(match: re.Match[str], frame: Frame) -> Span:
    local = datetime.fromisoformat(match[0].upper())
    moment = round((local if local.tzinfo else local.replace(tzinfo=frame.zone)).timestamp() * 1000)
    return Span(moment, moment)


def _holiday(match: re.Match[str], frame: Frame) -> Span:
    month, day = next(when for name, when in _HOLIDAYS.items() if re.fullmatch(name, match["holiday"]))
    if match["which"]:
        frame = replace(frame, latest=frame.today - ONE_DAY)
    return frame.day(_dated(match, frame, month, day))


_IN = "in during throughout from of"

ROWS = (
    row(rf"(?:month of )?(?P<which>){MONTH}(?P<year>)", _month, _IN),
    row(rf"(?P<which>last|past|previous|this) {MONTH}(?P<year>)", _month),
    row(rf"(?:month of )?(?P<which>){MONTH} (?:of )?{YEAR}", _month),
    row(rf"{_ON_WEEKDAY}{MONTH} {_DAY}{_IN_YEAR}", _date),
    row(rf"{_ON_WEEKDAY}{_DAY} (?:of )?{MONTH}{_IN_YEAR}", _date),
    row(rf"{MONTH} {_DAY}{_TO_DAY}{_IN_YEAR}", _dates),
    row(rf"{_DAY}{_TO_DAY} (?:of )?{MONTH}{_IN_YEAR}", _dates),
    row(rf"{_ON_WEEKDAY}(?P<day>\d\d?){_SUFFIX}", _day_of_month, "on"),
    row(rf"{_ON_WEEKDAY}{YEAR}([-/])(?P<month>\d\d)\3(?P<day>\d\d)", _iso_day),
    row(rf"{YEAR}-(?P<month>\d\d)", _iso_month, _IN),
    row(rf"(?:year (?:of )?)?{YEAR}", _year, _IN),
    row(rf"{YEAR}-w(?P<week>\d\d)", _iso_week),
    row(rf"(?:calendar )?(?:week|w) ?(?P<week>\d\d?)(?: of| in)? {YEAR}", _iso_week),
    row(r"(?:calendar )?week (?P<week>\d\d?)(?P<year>)", _iso_week, _IN),
    row(rf"q(?P<quarter>[1-4])(?: of)? {YEAR}", _quarter),
    row(r"q(?P<quarter>[1-4])(?P<year>)", _quarter, _IN),
    row(r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:z|[+-]\d\d:?\d\d)?", _instant, "at around"),
    row(
        rf"(?:(?P<which>last|past) )?(?P<holiday>{'|'.join(_HOLIDAYS)}){_IN_YEAR}",
        _holiday,
        "on at over around from of during",
    ),
)
