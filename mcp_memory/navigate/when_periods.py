"""The whole table of periods: those that count from now, those of the calendar, and those built upon another period."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

from mcp_memory.domain.toc import first_day_of_month
from mcp_memory.navigate import when_dates, when_relative
from mcp_memory.navigate.when_frame import ONE_DAY, Frame, Row, Span, row
from mcp_memory.navigate.when_relative import COUNT, PART, PARTS, UNIT, WEEKDAY, WEEKDAYS, counted, units_before

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
    found = find_row(text)
    if found is None:
        raise ValueError("no such phrase")
    row, match = found
    return row.function(match, frame)


def find_row(text: str) -> tuple[Row, re.Match[str]] | None:
    for reading, fullmatch in _READERS:
        if match := fullmatch(text):
            return reading, match
    return None


def _part_of_day(match: re.Match[str], frame: Frame) -> Span:
    """On a Friday at noon, Friday evening is last week's."""
    first, last = frame.first_and_last(period(match["base"], frame))
    if first != last:
        raise ValueError("a part of a day needs one day")
    span = frame.hours(first, *PARTS[match["part"]])
    if span.start_ms > frame.now_ms and first == frame.latest:
        return _part_of_day(match, replace(frame, latest=frame.latest - ONE_DAY))
    return span


def _units_before(match: re.Match[str], frame: Frame) -> Span:
    if match["unit"] in ("minute", "hour"):
        raise ValueError("a date has no minutes to count from")
    return units_before(match, frame.first_and_last(period(match["base"], frame))[0], frame)


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
    """By the rule of the tree: a month's weeks are those whose Thursday lies in it."""
    first, last = frame.first_and_last(period(match["base"], frame))
    following = last + ONE_DAY
    if first.day != 1 or not 28 <= (following - first).days <= 31:
        raise ValueError("only months have numbered weeks")
    begin, end = (first_day_of_month(day.year, day.month) for day in (first, following))
    number = match["ordinal"]
    start = end - timedelta(days=7) if number == "last" else begin + timedelta(weeks=_ORDINALS[number] - 1)
    if start >= end:
        raise ValueError("the month has no such week")
    return frame.days(start, start + timedelta(days=7))


def _third(match: re.Match[str], frame: Frame) -> Span:
    """The early, middle or late third of a week or anything longer."""
    first, last = frame.first_and_last(period(match["base"], frame))
    days = (last - first).days + 1
    if days < 7:
        raise ValueError("too short to divide")
    size, how = -(-days // 3), match["how"]
    if how in ("end of", "late"):
        first = last - timedelta(days=size - 1)
    elif how in ("mid", "middle of"):
        first += timedelta(days=(days - size) // 2)
    return frame.days(first, first + timedelta(days=size))


def _third_of_this(match: re.Match[str], frame: Frame) -> Span:
    return period(f"{match['how']} this {match['unit']}", frame)


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
    """October last year, Christmas this year."""
    return period(f"{match['base']} {frame.today.year - (match['which'] != 'this')}", frame)


def _half_of_this(match: re.Match[str], frame: Frame) -> Span:
    return period(f"{match['which']} half of this {match['unit']}", frame)


def _half(match: re.Match[str], frame: Frame) -> Span:
    first, last = frame.first_and_last(period(match["base"], frame))
    middle = first + timedelta(days=((last - first).days + 1) // 2)
    return frame.days(first, middle) if match["which"] == "first" else frame.days(middle, last + ONE_DAY)


def _hour_of_day(match: re.Match[str], frame: Frame) -> Span:
    """An hour before and after a time of day, which nobody remembers exactly."""
    first, last = frame.first_and_last(period(match["base"], frame))
    if first != last:
        raise ValueError("a time of day needs one day")
    hour = _hour(match)
    return frame.hours(first, max(hour - 1, 0), hour + 2)


def _hours_of_day(match: re.Match[str], frame: Frame) -> Span:
    first, last = frame.first_and_last(period(match["base"], frame))
    start, end = _hour(match), _hour(match, "2")
    if first != last or end <= start:
        raise ValueError("hours need one day, the earlier one first")
    return frame.hours(first, start, end)


def _hour(match: re.Match[str], which: str = "") -> int:
    named, half = match[f"named{which}"], match[f"half{which}"]
    if named:
        return {"noon": 12, "midday": 12, "lunchtime": 12, "midnight": 0}[str(named)]
    hour = int(match[f"hour{which}"])
    if half and not 1 <= hour <= 12:
        raise ValueError("half a day has no such hour")
    hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
    if hour > 23:
        raise ValueError("a day has no such hour")
    return hour


_CLOCK = (
    r"(?:(?P<named>noon|midday|lunchtime|midnight)"
    r"|(?P<hour>\d\d?)(?:(?::\d\d)? ?(?P<half>am|pm)|:\d\d|(?: ?h| o'clock)))"
)
_CLOCK_AFTER = re.sub(r"\?P<(\w+)>", r"?P<\g<1>2>", _CLOCK)
_BASE = r"(?P<base>.+)"
_TABLE: tuple[Row, ...] = (
    *when_relative.ROWS,
    *when_dates.ROWS,
    row(rf"(?P<base>.+?)(?: in)? {PART}", _part_of_day),
    row(rf"{_CLOCK} (?:and|to|until|till|-) {_CLOCK_AFTER} (?:on )?{_BASE}", _hours_of_day),
    row(rf"{_BASE} (?:at|around|about) {_CLOCK}", _hour_of_day),
    row(rf"(?:at |around |about )?{_CLOCK} (?:on )?{_BASE}", _hour_of_day),
    row(rf"day(?P<days>s)? (?P<how>before|after) {_BASE}", _day_beside),
    row(rf"(?P<which>first|last) day (?:of|in) {_BASE}", _end_day),
    row(rf"(?P<ordinal>{'|'.join(_ORDINALS)}|last) {WEEKDAY} (?:of|in) {_BASE}", _weekday_in),
    row(rf"(?P<which>first|last) {COUNT} (?P<unit>day|week)s? (?:of|in) {_BASE}", _some_of),
    row(rf"weekend (?P<how>of|around|before|after) {_BASE}", _weekend_of),
    row(r"(?P<which>first|second) half of (?P<unit>year|quarter|month|week)", _half_of_this),
    row(rf"(?P<which>first|second) half of {_BASE}", _half),
    row(rf"{PART} (?:of|on) {_BASE}", _part_of_day),
    row(rf"{COUNT} {UNIT} (?:before|prior to) {_BASE}", _units_before),
    row(rf"week (?P<how>of|around|starting|beginning|ending|before|after)(?: on)? {_BASE}", _week_of),
    row(rf"(?P<ordinal>{'|'.join(_ORDINALS)}|last) week (?:of|in) {_BASE}", _week_of_month),
    row(rf"(?P<how>early|mid|late)(?: in)?[ -]{_BASE}", _third),
    row(r"(?P<how>start of|beginning of|middle of|end of) (?P<unit>year|quarter|month|week)", _third_of_this),
    row(rf"(?P<how>start of|beginning of|middle of|end of) {_BASE}", _third),
    row(r"(?P<base>.+?) (?:of |in )?(?P<which>last|this|previous) year", _in_that_year),
)
_READERS = tuple((each, each.pattern.fullmatch) for each in _TABLE)
