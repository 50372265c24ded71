"""Phrases that name a place in the calendar: January 15, the 15th, 2024-W03, Q3 2025, Christmas Eve."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta

from mcp_memory.navigate.when_frame import ONE_DAY, Backwards, Frame, Span, first_of_month, row
from mcp_memory.navigate.when_relative import WEEKDAY

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
MONTH = (
    r"(?P<month>january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)"
)
YEAR = r"(?P<year>19[7-9]\d|2[01]\d\d|'\d\d)"
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
    r"(?:st\.? |saint )?patrick'?s day": (3, 17),
    r"april fools?'?(?: day)?": (4, 1),
    r"independence day": (7, 4),
}
#: Feasts whose day changes: so many days after Easter, or which weekday of a month, counted from 0.
_AFTER_EASTER = {"good friday": -2, "easter sunday": 0, "easter monday": 1, "easter": 0, "pentecost": 49}
_NTH_WEEKDAY = {"thanksgiving": (11, 3, 3), "labor day": (9, 0, 0)}
_AFTER_THANKSGIVING = {"black friday": 1, "cyber monday": 4}
_FEASTS = "|".join([*_AFTER_EASTER, *_NTH_WEEKDAY, *_AFTER_THANKSGIVING])
#: What "over" such a feast means: the days of it, by how they lie to the named one.
_OVER = {"christmas": (-1, 1), "xmas": (-1, 1), "easter": (-2, 1), "thanksgiving": (0, 3), "new year": (-1, 0)}
OVER_FEAST = re.compile(rf"(?:over|around) (?:the )?(?:{'|'.join(_OVER)})\b(?!['’]s| day| eve)", re.I)
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
    return date(_full(year), month, day) if year else frame.pick(lambda year: date(year, month, day))


def _full(year: str) -> int:
    """A year of two digits is one of this century."""
    return int(year) if len(year) == 4 else 2000 + int(year[-2:])


def _numbers(match: re.Match[str], frame: Frame) -> Span:
    """Dots put the day first, slashes the month unless there is no such month."""
    first, second = int(match["first"]), int(match["second"])
    month, day = (second, first) if match["sign"] == "." or first > 12 else (first, second)
    return frame.day(_dated(match, frame, month, day))


def _season(match: re.Match[str], frame: Frame) -> Span:
    """Last autumn is never the one we are in."""
    first = _dated(match, frame, _SEASONS[match["season"]], 1)
    span = frame.months(first, 3)
    if match["which"] in ("last", "past") and span.end_ms > frame.now_ms:
        return frame.months(first_of_month(first, 12), 3)
    return span


def _half_of_year(match: re.Match[str], frame: Frame) -> Span:
    return frame.months(_dated(match, frame, 6 * int(match["half"]) - 5, 1), 6)


def _feast(match: re.Match[str], frame: Frame) -> Span:
    name, year = match["feast"], match["year"]
    if match["which"]:
        frame = replace(frame, latest=frame.today - ONE_DAY)
    in_year = _feast_in(name)
    return frame.day(in_year(_full(year)) if year else frame.pick(in_year))


def _feast_in(name: str) -> Callable[[int], date]:
    if name in _AFTER_EASTER:
        return _after_easter(_AFTER_EASTER[name])
    if name in _NTH_WEEKDAY:
        return _nth_weekday(*_NTH_WEEKDAY[name])
    thanksgiving = _nth_weekday(*_NTH_WEEKDAY["thanksgiving"])
    return lambda year: thanksgiving(year) + timedelta(days=_AFTER_THANKSGIVING[name])


def _after_easter(days: int) -> Callable[[int], date]:
    """By the rule of Gauss as Lichtenberg completed it, which holds for every year of the Gregorian calendar."""

    def in_year(year: int) -> date:
        century = year // 100
        moon = 15 + (3 * century + 3) // 4 - (8 * century + 13) // 25
        sun = 2 - (3 * century + 3) // 4
        seed = (19 * (year % 19) + moon) % 30
        full = 21 + seed - (seed + year % 19 // 11) // 29
        sunday = 7 - (year + year // 4 + sun) % 7
        return date(year, 3, 1) + timedelta(days=full + 7 - (full - sunday) % 7 - 1 + days)

    return in_year


def _nth_weekday(month: int, weekday: int, number: int) -> Callable[[int], date]:
    def in_year(year: int) -> date:
        first = date(year, month, 1)
        return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * number)

    return in_year


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
    return frame.day(date(_full(match["year"]), int(match["month"]), int(match["day"])))


def _iso_month(match: re.Match[str], frame: Frame) -> Span:
    return frame.months(date(_full(match["year"]), int(match["month"]), 1), 1)


def _year(match: re.Match[str], frame: Frame) -> Span:
    return frame.months(date(_full(match["year"]), 1, 1), 12)


def _quarter(match: re.Match[str], frame: Frame) -> Span:
    named = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4}.get(match["quarter"])
    return frame.months(_dated(match, frame, (named or int(match["quarter"][0])) * 3 - 2, 1), 3)


def _iso_week(match: re.Match[str], frame: Frame) -> Span:
    week, year = int(match["week"]), match["year"]
    if year:
        return frame.week(date.fromisocalendar(_full(year), week, 1))
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


def _over_feast(match: re.Match[str], frame: Frame) -> Span:
    name, year = match["feast"], match["year"]
    fixed = {"christmas": (12, 25), "xmas": (12, 25), "new year": (1, 1)}.get(name)
    in_year = (lambda year: date(year, *fixed)) if fixed else _feast_in(name)
    day = in_year(_full(year)) if year else frame.pick(in_year)
    before, after = _OVER[name]
    return frame.days(day + timedelta(days=before), day + timedelta(days=after) + ONE_DAY)


def _holidays(match: re.Match[str], frame: Frame) -> Span:
    """From shortly before Christmas to shortly after New Year."""
    first = _dated(match, frame, 12, 22)
    return frame.days(first, first + timedelta(days=12))


_IN = "in during throughout from of"

ROWS = (
    row(rf"(?:month of )?(?P<which>){MONTH}(?P<year>)", _month, _IN),
    row(rf"(?P<which>last|past|previous|this) {MONTH}(?P<year>)", _month),
    row(rf"(?:month of )?(?P<which>){MONTH} (?:of )?{YEAR}", _month),
    row(rf"{_ON_WEEKDAY}{MONTH} {_DAY}{_IN_YEAR}", _date),
    row(rf"{_ON_WEEKDAY}{_DAY} (?:of )?{MONTH}{_IN_YEAR}", _date),
    row(rf"(?P<day>first) (?:of )?{MONTH}{_IN_YEAR}", _first_of),
    row(rf"{MONTH} {_DAY}{_TO_DAY}{_IN_YEAR}", _dates),
    row(rf"{_DAY}{_TO_DAY} (?:of )?{MONTH}{_IN_YEAR}", _dates),
    row(rf"{_ON_WEEKDAY}(?P<day>\d\d?){_SUFFIX}", _day_of_month, "on"),
    row(rf"{_ON_WEEKDAY}{YEAR}([-/])(?P<month>\d\d)\3(?P<day>\d\d)", _iso_day),
    row(rf"(?P<first>\d\d?)(?P<sign>[./])(?P<second>\d\d?)(?P=sign){YEAR}", _numbers),
    row(r"(?P<first>\d\d)(?P<sign>[./])(?P<second>\d\d)\.?(?P<year>)", _numbers, "on"),
    row(r"(?P<first>\d\d?)(?P<sign>/)(?P<second>\d\d?)(?P<year>)", _numbers, "on"),
    row(rf"{_DAY}-{MONTH}-{YEAR}", _date),
    row(r"(?P<which>)(?P<season>summer|autumn|winter)(?P<year>)", _season, "in over during"),
    row(rf"(?P<which>)(?P<season>{'|'.join(_SEASONS)}) (?:of |in )?{YEAR}", _season),
    row(rf"(?P<which>this|last|past) (?P<season>{'|'.join(_SEASONS)})(?P<year>)", _season),
    row(rf"h(?P<half>[12])(?: of)? {YEAR}", _half_of_year),
    row(r"h(?P<half>[12])(?P<year>)", _half_of_year, "in during"),
    row(rf"(?:over|around) (?P<feast>{'|'.join(_OVER)}){_IN_YEAR}", _over_feast),
    row(rf"(?:(?:christmas|winter) )?holidays{_IN_YEAR}", _holidays, "over during"),
    row(rf"(?P<which>)(?P<feast>{_FEASTS}){_IN_YEAR}", _feast, "on at over around from of during"),
    row(rf"(?P<which>last|past) (?P<feast>{_FEASTS}){_IN_YEAR}", _feast),
    row(rf"{YEAR}-(?P<month>\d\d)", _iso_month, _IN),
    row(rf"(?:year (?:of )?)?{YEAR}", _year, _IN),
    row(rf"{YEAR}-w(?P<week>\d\d)", _iso_week),
    row(rf"(?:calendar )?(?:week|w) ?(?P<week>\d\d?)(?: of| in)? {YEAR}", _iso_week),
    row(r"(?:calendar )?week (?P<week>\d\d?)(?P<year>)", _iso_week, _IN),
    row(rf"q(?P<quarter>[1-4])(?: of | |/|-){YEAR}", _quarter),
    row(rf"{YEAR}[ /-]q(?P<quarter>[1-4])", _quarter),
    row(rf"(?P<quarter>first|second|third|fourth|last|[1-4](?:st|nd|rd|th)) quarter(?: of| in)? {YEAR}", _quarter),
    row(r"(?P<quarter>first|second|third|fourth|[1-4](?:st|nd|rd|th)) quarter(?P<year>)", _quarter, _IN),
    row(r"q(?P<quarter>[1-4])(?P<year>)", _quarter, _IN),
    row(r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:z|[+-]\d\d:?\d\d)?", _instant, "at around"),
    row(rf"(?P<which>)(?P<holiday>{'|'.join(_HOLIDAYS)}){_IN_YEAR}", _holiday, "on at over around from of during"),
    row(rf"(?P<which>last|past) (?P<holiday>{'|'.join(_HOLIDAYS)}){_IN_YEAR}", _holiday),
)
