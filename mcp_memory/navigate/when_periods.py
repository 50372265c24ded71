"""The whole table of periods: those that count from now, those of the calendar, and those built upon another period."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

from mcp_memory.domain.toc import first_day_of_month
from mcp_memory.navigate import when_dates, when_relative
from mcp_memory.navigate.when_frame import ONE_DAY, Frame, Row, Span, row
from mcp_memory.navigate.when_relative import COUNT, PART, PARTS, UNIT, units_before

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


_BASE = r"(?P<base>.+)"
_TABLE: tuple[Row, ...] = (
    *when_relative.ROWS,
    *when_dates.ROWS,
    row(rf"{_BASE} {PART}", _part_of_day),
    row(rf"{PART} (?:of|on) {_BASE}", _part_of_day),
    row(rf"{COUNT} {UNIT} (?:before|prior to) {_BASE}", _units_before),
    row(rf"week (?P<how>of|around|starting|beginning|ending|before|after)(?: on)? {_BASE}", _week_of),
    row(rf"(?P<ordinal>{'|'.join(_ORDINALS)}|last) week (?:of|in) {_BASE}", _week_of_month),
    row(rf"(?P<how>early|mid|late)(?: in)?[ -]{_BASE}", _third),
    row(rf"(?P<how>start of|beginning of|middle of|end of) {_BASE}", _third),
)
_READERS = tuple((each, each.pattern.fullmatch) for each in _TABLE)
