"""The whole table of periods: those that count from now, those of the calendar, and those built upon another period."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache

from mcp_memory.domain.toc import first_day_of_month
from mcp_memory.times import dates, feasts, hours, relative
from mcp_memory.times.frame import HOUR_MS, ONE_DAY, Backwards, Frame, Row, Span, row, unit_back
from mcp_memory.times.relative import COUNT, UNIT, WEEKDAY, WEEKDAYS, counted, units_before

_ORDINALS = {
    "first": 1,
    "1st": 1,
    "second": 2,
    "2nd": 2,
    "third": 3,
    "3rd": 3,
    "fourth": 4,
    "4th": 4,
    "fifth": 5,
    "5th": 5,
}


def period(text: str, frame: Frame) -> Span:
    """Date one period in normal form. Raises ValueError if no row reads it or the calendar has no such date."""
    found = reading(text, frame)
    if found is None:
        raise ValueError("no such phrase")
    return found[1]


def reading(text: str, frame: Frame) -> tuple[Row, Span] | None:
    """The first row that dates a period, and the date; one built upon another may fail where a later one does not."""
    found = _read(text, frame)
    if isinstance(found, Backwards):
        raise found
    return found


@lru_cache(maxsize=512)  # in a question many phrases are tried that have parts in common
def _read(text: str, frame: Frame) -> tuple[Row, Span] | Backwards | None:
    backwards: Backwards | None = None
    for each, fullmatch in _READERS:
        if match := fullmatch(text):
            try:
                return each, each.function(match, frame)
            except Backwards as error:
                backwards = error
            except (ValueError, OverflowError):
                continue
    return backwards


def _units_before(match: re.Match[str], frame: Frame) -> Span:
    if match["unit"] in ("minute", "hour"):
        raise ValueError("a date has no minutes to count from")
    return units_before(match, frame.first_and_last(period(match["base"], frame))[0], frame)


def _units_after(match: re.Match[str], frame: Frame) -> Span:
    if match["unit"] in ("minute", "hour"):
        raise ValueError("a date has no minutes to count from")
    last, (low, high) = frame.first_and_last(period(match["base"], frame))[1], counted(match)
    unit = match["unit"]
    return Span(unit_back(unit, last, -low, frame).start_ms, unit_back(unit, last, -high, frame).end_ms)


def _weekday_beside(match: re.Match[str], frame: Frame) -> Span:
    """The nearest one before or after a period."""
    first, last = frame.first_and_last(period(match["base"], frame))
    number = WEEKDAYS.index(match["weekday"][:3])
    if match["how"] in ("before", "preceding"):
        return frame.day(first - timedelta(days=(first.weekday() - number - 1) % 7 + 1))
    return frame.day(last + timedelta(days=(number - last.weekday() - 1) % 7 + 1))


def _weekday_of_week(match: re.Match[str], frame: Frame) -> Span:
    first, last = frame.first_and_last(period(match["base"], frame))
    if last - first != timedelta(days=6):
        raise ValueError("only a week has one of each weekday")
    return frame.day(first + timedelta(days=(WEEKDAYS.index(match["weekday"][:3]) - first.weekday()) % 7))


def _day_of(match: re.Match[str], frame: Frame) -> Span:
    """The fifth of a month that is not named: of last month."""
    first, last = _month(match["base"], frame)
    day = first + timedelta(days=(1 if match["day"] == "first" else int(match["day"][:-2])) - 1)
    if day > last:
        raise ValueError("the month has no such day")
    return frame.day(day)


def _month(text: str, frame: Frame) -> tuple[date, date]:
    """The first and the last day of a month."""
    first, last = frame.first_and_last(period(text, frame))
    if first.day != 1 or not 28 <= (last - first).days + 1 <= 31:
        raise ValueError("not a month")
    return first, last


def _week_of(match: re.Match[str], frame: Frame) -> Span:
    """The ISO week of a date, or the seven days that a date begins, ends, follows or precedes."""
    first, last = frame.first_and_last(period(match["base"], frame))
    how = match["how"]
    if how in ("of", "around"):
        return frame.week(first)
    start = {
        "before": first - timedelta(days=7),
        "after": last + ONE_DAY,
        "ending": last - timedelta(days=6),
    }.get(how, first)
    return frame.days(start, start + timedelta(days=7))


def _week_of_month(match: re.Match[str], frame: Frame) -> Span:
    """By the rule of the tree: the weeks of a month or year are those whose Thursday lies in it."""
    first, last = frame.first_and_last(period(match["base"], frame))
    following = last + ONE_DAY
    if first.day != 1 or following.day != 1:
        raise ValueError("only months and years have numbered weeks")
    begin, end = (first_day_of_month(day.year, day.month) for day in (first, following))
    number = match["ordinal"]
    start = end - timedelta(days=7) if number == "last" else begin + timedelta(weeks=_ORDINALS[number] - 1)
    if start >= end:
        raise ValueError("the month has no such week")
    return frame.days(start, start + timedelta(days=7))


def _third(match: re.Match[str], frame: Frame) -> Span:
    """The early, middle or late third of a week or anything longer; of a day its morning or evening."""
    base = period(match["base"], frame)
    first, last = frame.first_and_last(base)
    days, how = (last - first).days + 1, match["how"]
    if base.end_ms - base.start_ms < 20 * HOUR_MS:
        middle = (base.start_ms + base.end_ms) // 2
        return Span(middle, base.end_ms) if how in ("end of", "late") else Span(base.start_ms, middle)
    if days == 1 and how in ("early", "late"):
        return frame.hours(first, 4, 11) if how == "early" else frame.hours(first, 17, 24)
    if days < 7:
        raise ValueError("too short to divide")
    size = -(-days // 3)
    if how in ("end of", "late"):
        first = last - timedelta(days=size - 1)
    elif how in ("mid", "middle of"):
        first += timedelta(days=(days - size) // 2)
    return frame.days(first, first + timedelta(days=size))


def _day_beside(match: re.Match[str], frame: Frame) -> Span:
    """The day before or after a period, or the week's worth of days there."""
    first, last = frame.first_and_last(period(match["base"], frame))
    many = 7 if match["days"] else 1
    if match["how"] == "before":
        return frame.days(first - timedelta(days=many), first)
    return frame.days(last + ONE_DAY, last + timedelta(days=1 + many))


def _end_day(match: re.Match[str], frame: Frame) -> Span:
    first, last = frame.first_and_last(period(match["base"], frame))
    return frame.day(last if match["which"] == "last" else first)


def _weekday_in(match: re.Match[str], frame: Frame) -> Span:
    """The first, second or last Monday of a month."""
    first, last = frame.first_and_last(period(match["base"], frame))
    number = WEEKDAYS.index(match["weekday"][:3])
    if match["ordinal"] == "last":
        return frame.day(last - timedelta(days=(last.weekday() - number) % 7))
    day = first + timedelta(days=(number - first.weekday()) % 7 + 7 * (_ORDINALS[match["ordinal"]] - 1))
    if day > last:
        raise ValueError("the month has no such weekday")
    return frame.day(day)


def _some_of(match: re.Match[str], frame: Frame) -> Span:
    """The first or last so many days or weeks of a period."""
    first, last = frame.first_and_last(period(match["base"], frame))
    days = timedelta(days=counted(match)[1] * (7 if match["unit"] == "week" else 1))
    if match["which"] == "first":
        return frame.days(first, min(first + days, last + ONE_DAY))
    return frame.days(max(last + ONE_DAY - days, first), last + ONE_DAY)


def _weekend_of(match: re.Match[str], frame: Frame) -> Span:
    """The weekend nearest to a day, or the one before or after it."""
    first, last = frame.first_and_last(period(match["base"], frame))
    if (last - first).days > 1:
        raise ValueError("a weekend is told by a day")
    saturday = first - timedelta(days=(first.weekday() - 5) % 7)
    if match["how"] == "after" or (match["how"] in ("of", "around") and (first - saturday).days > 3):
        saturday += timedelta(days=7)
    if match["how"] == "before" and first - saturday < timedelta(days=2):
        saturday -= timedelta(days=7)
    return frame.days(saturday, saturday + timedelta(days=2))


def _in_that_year(match: re.Match[str], frame: Frame) -> Span:
    """October last year, Christmas this year, March two years ago."""
    back = counted(match)[0] if match["count"] else int(match["which"] != "this")
    return period(f"{match['base']} {frame.today.year - back}", frame)


def _half(match: re.Match[str], frame: Frame) -> Span:
    """Of a year the first six months, of anything else by days."""
    first, last = frame.first_and_last(period(match["base"], frame))
    days = (last - first).days + 1
    middle = first.replace(month=7) if days >= 365 and first.day == 1 else first + timedelta(days=days // 2)
    return frame.days(first, middle) if match["which"] == "first" else frame.days(middle, last + ONE_DAY)


def _around(match: re.Match[str], frame: Frame) -> Span:
    """Some days beside a day and an hour beside an instant; what is longer is vague enough."""
    base = period(match["base"], frame)
    first, last = frame.first_and_last(base)
    if base.start_ms == base.end_ms:
        return Span(base.start_ms - HOUR_MS, base.end_ms + HOUR_MS)
    return frame.days(first - timedelta(days=2), last + timedelta(days=3)) if first == last else base


_BASE = r"(?P<base>.+)"
_TABLE: tuple[Row, ...] = (
    *relative.ROWS,
    *dates.ROWS,
    *feasts.ROWS,
    row(rf"{WEEKDAY}(?: of| in)? {_BASE}", _weekday_of_week),
    row(rf"(?P<base>.+?)(?: on)? {WEEKDAY}", _weekday_of_week),
    *hours.rows(period),
    row(rf"around {_BASE}", _around),
    row(rf"day(?P<days>s)? (?P<how>before|after) {_BASE}", _day_beside),
    row(rf"(?P<which>first|last) day (?:of|in) {_BASE}", _end_day),
    row(rf"(?P<ordinal>{'|'.join(_ORDINALS)}|last) {WEEKDAY} (?:of|in) {_BASE}", _weekday_in),
    row(rf"(?P<which>first|last) {COUNT} (?P<unit>day|week)s? (?:of|in) {_BASE}", _some_of),
    row(rf"weekend (?P<how>of|around|before|after) {_BASE}", _weekend_of),
    row(rf"(?P<which>first|second) half of {_BASE}", _half),
    row(rf"(?P<day>first|\d\d?(?:st|nd|rd|th)) of {_BASE}", _day_of),
    row(rf"{_BASE} on (?P<day>\d\d?(?:st|nd|rd|th))", _day_of),
    row(rf"{COUNT} {UNIT} (?:before|prior to) {_BASE}", _units_before),
    row(rf"{COUNT} {UNIT} after {_BASE}", _units_after),
    row(rf"(?:first |next )?{WEEKDAY} (?P<how>before|preceding|after|following) {_BASE}", _weekday_beside),
    row(rf"week (?P<how>of|around|starting|beginning|ending|before|after)(?: on)? {_BASE}", _week_of),
    row(rf"(?P<ordinal>{'|'.join(_ORDINALS)}|last) week (?:of|in) {_BASE}", _week_of_month),
    row(rf"(?P<how>early|mid|late)(?: in| on)?[ -]{_BASE}", _third),
    row(rf"(?P<how>start of|beginning of|middle of|end of) {_BASE}", _third),
    row(rf"(?P<base>.+?) (?:(?:of |in )?(?P<which>last|this|previous) year|{COUNT} years? ago)", _in_that_year),
    row(rf"(?:(?P<which>last|this|previous) year|{COUNT} years? ago) (?:(?:in|on|at) )?{_BASE}", _in_that_year),
)
_READERS = tuple((each, each.pattern.fullmatch) for each in _TABLE)
