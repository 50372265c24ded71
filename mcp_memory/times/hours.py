"""Phrases with a time of day: yesterday at 3pm, around noon on the 5th, Monday before 10:00, since noon."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time
from functools import partial

from mcp_memory.times.frame import HOUR_MS, MINUTE_MS, ONE_DAY, Frame, Row, Span, row
from mcp_memory.times.relative import PART, PARTS

Dated = Callable[[str, Frame], Span]

_NAMED = {"noon": 12, "midday": 12, "lunchtime": 12, "midnight": 0, "lunch": 13}
#: Lunch is a time only after such a word, and else a meal.
_NAMES = r"noon|midday|lunchtime|midnight|(?:(?<=at )|(?<=after )|(?<=before )|(?<=since )|(?<=around ))lunch"


def _clock(which: str = "", *, loose: bool = False) -> str:
    """A time of the clock; only a `loose` one may be a number and nothing else."""
    told = "" if loose else r"(?=:| ?[ap]m\b| ?h\b| o'clock)"
    return (
        rf"(?:(?P<named{which}>{_NAMES})"
        rf"|(?P<hour{which}>\d\d?){told}(?::(?P<minute{which}>\d\d)(?::\d\d)?)?"
        rf"(?: ?(?P<half{which}>am|pm)| ?h| o'clock)?)"
    )


_AT = r"(?:at|around|about|@)"
_TO = r"(?: ?- ?| (?:and|to|until|till|through) )"
_SIDE = r"(?P<side>before|until|till|after|from)"
_BOUNDS = "(?:(?:at|around|about|since|after|before|until|till|from|between) )*"
CLOCK_ALONE = re.compile(rf"{_BOUNDS}{_clock()}(?:{_TO}{_BOUNDS}{_clock('2')}.*)?", re.ASCII)
_MOMENTS = tuple(
    re.compile(pattern, re.ASCII).fullmatch
    for pattern in (
        rf"(?:{_AT} )?{_clock()}",
        rf"(?:{_AT} )?{_clock()} (?:on )?(?P<base>.+)",
        rf"(?P<base>.+?) (?:{_AT} )?{_clock()}",
        rf"(?P<base>.+) {_AT} {_clock(loose=True)}",
        rf"{_AT} {_clock(loose=True)} (?:on )?(?P<base>.+)",
    )
)


def moment(text: str, frame: Frame, dated: Dated) -> int | None:
    """The very time that a phrase names, for what begins or ends with it; None if it names none."""
    for fullmatch in _MOMENTS:
        if match := fullmatch(text):
            try:
                return _moment(match, frame, dated)
            except ValueError:
                continue
    return None


def rows(dated: Dated) -> tuple[Row, ...]:
    """The table's rows; `dated` reads the day that a time of day belongs to."""
    base = r"(?P<base>.+)"
    around, within, on_side = (partial(each, dated=dated) for each in (_around, _within, _on_side))
    return (
        row(rf"(?:{_AT} )?{_clock()}", around, "at around about"),
        row(rf"(?P<side>before|until|till|after) {_clock()}", on_side, ""),
        row(rf"{_SIDE} {_clock()} (?:on )?{base}", on_side),
        row(rf"{base} {_SIDE} {_clock(loose=True)}", on_side),
        row(rf"{_clock(loose=True)}{_TO}{_clock('2')} (?:on )?{base}", within),
        row(rf"(?P<base>.+?) (?:(?:from|between) )?{_clock(loose=True)}{_TO}{_clock('2')}", within),
        row(rf"{base} {_AT} {_clock(loose=True)}", around),
        row(rf"(?:{_AT} )?{_clock()} (?:on )?{base}", around),
        row(rf"{_AT} {_clock(loose=True)} (?:on )?{base}", around),
        row(rf"{base} {_clock()}", around, "on at around since from"),
        row(rf"(?P<base>.+?)(?: in)? {PART}", partial(_part_of_day, dated=dated)),
        row(rf"{PART} (?:of|on) {base}", partial(_part_of_day, dated=dated)),
    )


def _around(match: re.Match[str], frame: Frame, dated: Dated) -> Span:
    """From an hour before the full hour to an hour after it, since nobody remembers it exactly."""
    at = _moment(match, frame, dated)
    full = at - _minute(match) * MINUTE_MS
    first = frame.first_and_last(Span(at, at))[0]
    return Span(max(full - HOUR_MS, frame.day(first).start_ms), full + 2 * HOUR_MS)


def _within(match: re.Match[str], frame: Frame, dated: Dated) -> Span:
    """Hours of one day; the half of the day that is said of the second holds for both."""
    base = dated(match["base"], frame)
    end = _in(base, _hours(match, "2"), _minute(match, "2"), frame)
    for half in (match["half2"], None):  # 3 to 5pm, but 11 to 2pm
        start = _in(base, _hours(match, "", match["half"] or half), _minute(match), frame)
        if start < end:
            return Span(start, end)
    raise ValueError("the earlier hour comes first")


def _on_side(match: re.Match[str], frame: Frame, dated: Dated) -> Span:
    """The part of a day before or after a time of it; of the latest one, if none is named."""
    if "base" in match.groupdict():
        base = dated(match["base"], frame)
    else:
        at = _moment(match, frame, dated)
        base = frame.day(frame.first_and_last(Span(at, at))[0])
    at = _in(base, _hours(match), _minute(match), frame)
    if match["named"] == "midnight" and match["side"] not in ("after", "from"):
        at = base.end_ms
    return Span(at, base.end_ms) if match["side"] in ("after", "from") else Span(base.start_ms, at)


def _part_of_day(match: re.Match[str], frame: Frame, dated: Dated) -> Span:
    """On a Friday at noon, Friday evening is last week's."""
    base = dated(match["base"], frame)
    first = frame.first_and_last(base)[0]
    if base != frame.day(first):
        raise ValueError("a part of a day needs one whole day")
    span = frame.hours(first, *PARTS[match["part"]])
    if span.start_ms > frame.now_ms and first == frame.latest:
        return _part_of_day(match, replace(frame, latest=frame.latest - ONE_DAY), dated)
    return span


def _moment(match: re.Match[str], frame: Frame, dated: Dated) -> int:
    """Without a day the most recent one on which it has been so late or, after something, the first one."""
    hours, minute = _hours(match), _minute(match)
    if "base" in match.groupdict():
        return _in(dated(match["base"], frame), hours, minute, frame)
    if frame.earliest:
        return _at(frame.earliest, hours[0], minute, frame)
    at = _at(frame.today, hours[0], minute, frame)
    return at if at <= frame.now_ms else _at(frame.today - ONE_DAY, hours[0], minute, frame)


def _in(span: Span, hours: list[int], minute: int, frame: Frame) -> int:
    """The first of the hours that lies in a day or in a part of one."""
    first, last = frame.first_and_last(span)
    if last - first > ONE_DAY:
        raise ValueError("a time of day needs one day")
    for hour in hours:
        for day in (first, last):
            at = _at(day, hour, minute, frame)
            if span.start_ms <= at < span.end_ms:
                return at
    raise ValueError("the day has no such hour")


def _at(day: date, hour: int, minute: int, frame: Frame) -> int:
    return round(datetime.combine(day, time(hour, minute), frame.zone).timestamp() * 1000)


def _hours(match: re.Match[str], which: str = "", half: str | None = None) -> list[int]:
    """What hours may be meant, the likelier first: 3 is rather in the afternoon, 9 in the morning."""
    if named := match[f"named{which}"]:
        return [_NAMED[str(named)]]
    hour, half = int(match[f"hour{which}"]), half or match[f"half{which}"]
    if hour > 23 or (half and not 1 <= hour <= 12):
        raise ValueError("a day has no such hour")
    if half:
        return [hour % 12 + (12 if half == "pm" else 0)]
    if match[f"minute{which}"] or not 1 <= hour <= 12:
        return [hour]
    other = (hour + 12) % 24
    return [other, hour] if hour <= 6 else [hour, other]


def _minute(match: re.Match[str], which: str = "") -> int:
    minute = int(match[f"minute{which}"] or 0)
    if minute > 59:
        raise ValueError("an hour has no such minute")
    return minute
