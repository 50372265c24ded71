"""Phrases that count from now: today, two weeks ago, the last three days, last week, on Tuesday."""

from __future__ import annotations

from datetime import date, timedelta

from mcp_memory.times.calendar import (
    HOUR_MS,
    MINUTE_MS,
    ONE_DAY,
    UNIT_MONTHS,
    Interval,
    RuleMatch,
    first_of_month,
    rule,
)

_CLOCK = {"minute": MINUTE_MS, "hour": HOUR_MS}
#: Hours and minutes, which nobody counts exactly, get so much room on both sides.
_ROOM = {"minute": 10 * MINUTE_MS, "hour": HOUR_MS}
_ABOUT = "(?:(?:about|around|roughly|nearly|almost|approximately) )?"


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


RELATIVE = (
    rule("today", lambda said: said.frame.back("day", 0)),
    rule("yesterday", lambda said: said.frame.back("day", 1)),
    rule("other (?:day|night|week)", lambda said: said.frame.back("day", 1, 10)),
    rule("recently|lately", lambda said: said.frame.back("day", 0, 14), ""),
    rule(f"{_ABOUT}{{count}} ?{{unit}} (?:ago|back)", _ago),
    rule(
        "{count} {unit} ago (?:today|to day)",
        lambda said: said.frame.day(earlier(said.frame.today, said.unit, said.count[0])),
    ),
    rule("{count} weeks? ago (?:last )?{weekday}", lambda said: said.frame.back(said["weekday"], said.count[0] + 1)),
    rule("(?:last|previous) (?:workday|(?:working|business) day)", _last_workday),
    rule("(?:last|past|previous) {count} ?{unit}", _rolling),
    rule("past (?P<unit>hour|day|week|month|quarter|year)", _rolling),
    rule("last (?P<unit>hour)", _rolling),
    rule("last (?P<unit>day)", _rolling, "in over within during"),
    rule("(?P<which>this|current|last|past|previous) {unit}", _calendar_unit),
    rule("{unit} before last", lambda said: said.frame.back(said.unit, 2)),
    rule("weekend", _weekend, "over on during at from"),
    rule("{weekday}", _weekday, "on from in during"),
)
