"""Phrases that count from now: today, last night, two weeks ago, the last three days, last week, on Tuesday."""

from __future__ import annotations

import re
from datetime import date, timedelta

from mcp_memory.times.frame import (
    HOUR_MS,
    MINUTE_MS,
    ONE_DAY,
    Frame,
    Span,
    first_of_month,
    monday,
    months_earlier,
    row,
    unit_back,
)

_ONES = "one two three four five six seven eight nine".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_NUMBERS = [
    *_ONES,
    *"ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split(),
    *(each for ten in _TENS for each in (ten, *(f"{ten}-{one}" for one in _ONES))),
]
#: How many units a word may mean, at least and at most.
_COUNTS = {word: (number, number) for number, word in enumerate(_NUMBERS, 1)} | {
    "a": (1, 1),
    "an": (1, 1),
    "couple of": (2, 3),
    "couple": (2, 3),
    "few": (2, 5),
    "some": (2, 8),
    "several": (3, 8),
}
_COUNT = rf"\d{{1,4}}|{'|'.join(sorted(_COUNTS, key=len, reverse=True))}"
COUNT = rf"(?:a (?=couple|few))?(?P<count>{_COUNT})(?:(?:(?<=\d)-(?=\d)| - | to | or | and )(?P<most>{_COUNT}))?"
_ABOUT = "(?:(?:about|around|roughly|nearly|almost|approximately) )?"
UNIT = r"(?P<unit>minute|hour|day|week|month|quarter|year)s?"
PART = r"(?P<part>morning|afternoon|evening|night)"
#: Local hours from and until; a night runs into the next day.
PARTS = {"morning": (4, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}

WEEKDAYS = "mon tue wed thu fri sat sun".split()
WEEKDAY = (
    r"(?P<weekday>monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|mon|tues|tue|wed|thurs|thur|thu|fri|sat|sun)"
)
_CLOCK = {"minute": MINUTE_MS, "hour": HOUR_MS}
_ROOM = {"minute": 10 * MINUTE_MS, "hour": HOUR_MS}


def counted(match: re.Match[str]) -> tuple[int, int]:
    """How many, at least and at most: two, a few, two or three."""
    least, most = (
        _COUNTS.get(each) or (int(each), int(each)) for each in (match["count"], match["most"] or match["count"])
    )
    return min(least[0], most[0]), max(least[1], most[1])


def units_before(match: re.Match[str], day: date, frame: Frame) -> Span:
    """The calendar unit so many units before a day; several of them where the count is vague."""
    low, high = counted(match)
    return Span(
        unit_back(match["unit"], day, high, frame).start_ms,
        unit_back(match["unit"], day, low, frame).end_ms,
    )


def _near_day(match: re.Match[str], frame: Frame) -> Span:
    back = {"today": 0, "yesterday": 1, "day before yesterday": 2}[match["day"]]
    return frame.day(frame.today - timedelta(days=back))


def _part_of_today(match: re.Match[str], frame: Frame) -> Span:
    return frame.hours(frame.today, *PARTS[match["part"]])


def _tonight(match: re.Match[str], frame: Frame) -> Span:
    return frame.hours(frame.today - (ONE_DAY if match["which"] else timedelta()), *PARTS["night"])


def _ago(match: re.Match[str], frame: Frame) -> Span:
    """Hours and minutes, which nobody counts exactly, get some room on both sides."""
    unit = match["unit"]
    if unit not in _CLOCK:
        return units_before(match, frame.today, frame)
    low, high = counted(match)
    start = frame.now_ms - high * _CLOCK[unit] - _ROOM[unit]
    return Span(start, min(frame.now_ms - low * _CLOCK[unit] + _ROOM[unit], frame.now_ms))


def _weekdays_ago(match: re.Match[str], frame: Frame) -> Span:
    """Counted from the most recent one before today."""
    weeks = counted(match)[0] - 1
    yesterday = frame.today - ONE_DAY
    last = yesterday - timedelta(days=(yesterday.weekday() - _number(match)) % 7)
    return frame.day(last - timedelta(weeks=weeks))


def _weekday_weeks_ago(match: re.Match[str], frame: Frame) -> Span:
    """A week ago Friday: so many weeks before the most recent one."""
    last = frame.first_and_last(_last_weekday(match, frame))[0]
    return frame.day(last - timedelta(weeks=counted(match)[0]))


def _last_weekdays(match: re.Match[str], frame: Frame) -> Span:
    """So many up to the most recent one, and the days between them."""
    last = frame.first_and_last(_last_weekday(match, frame))[0]
    return frame.days(last - timedelta(weeks=counted(match)[1] - 1), last + ONE_DAY)


def _workday(match: re.Match[str], frame: Frame) -> Span:
    day = frame.today - ONE_DAY
    return frame.day(day - timedelta(days=max(day.weekday() - 4, 0)))


def _fortnight_ago(match: re.Match[str], frame: Frame) -> Span:
    return unit_back("week", frame.today, 2, frame)


def _and_a_half_ago(match: re.Match[str], frame: Frame) -> Span:
    """So many and a half, which nobody counts exactly: some room on both sides, more where more is counted."""
    count, unit = counted(match)[1], match["unit"]
    if unit == "year":
        return frame.months(first_of_month(frame.today, 12 * count + 7), 3)
    if unit in _CLOCK:
        middle = frame.now_ms - count * _CLOCK[unit] - _CLOCK[unit] // 2
        return Span(middle - _CLOCK[unit] // 2, min(middle + _CLOCK[unit] // 2, frame.now_ms))
    days = {"day": 1, "week": 7, "month": 30, "quarter": 91}[unit]
    middle_day, room = frame.today - timedelta(days=count * days + days // 2), timedelta(days=days // 3)
    return frame.days(middle_day - room, middle_day + room + ONE_DAY)


def _half_an_hour_ago(match: re.Match[str], frame: Frame) -> Span:
    return Span(frame.now_ms - 50 * MINUTE_MS, frame.now_ms - 10 * MINUTE_MS)


def _half_an_hour(match: re.Match[str], frame: Frame) -> Span:
    return Span(frame.now_ms - 30 * MINUTE_MS, frame.now_ms)


def _recent(match: re.Match[str], frame: Frame) -> Span:
    """A handful of them, up to now."""
    many = {"day": timedelta(days=5), "week": timedelta(weeks=4), "month": timedelta(days=120)}[match["unit"]]
    return frame.days(frame.today - many, frame.today + ONE_DAY)


def _recent_days(match: re.Match[str], frame: Frame) -> Span:
    return frame.days(frame.today - timedelta(weeks=2), frame.today + ONE_DAY)


def _weekends_ago(match: re.Match[str], frame: Frame) -> Span:
    low, high = counted(match)
    return Span(
        unit_back("weekend", frame.today, high, frame).start_ms, unit_back("weekend", frame.today, low, frame).end_ms
    )


def _last_weekends(match: re.Match[str], frame: Frame) -> Span:
    """So many up to the last one that has begun, and the days between them."""
    latest = 0 if frame.today.weekday() >= 5 else 1
    first = unit_back("weekend", frame.today, latest + counted(match)[1] - 1, frame)
    return Span(first.start_ms, unit_back("weekend", frame.today, latest, frame).end_ms)


def _days_ago_today(match: re.Match[str], frame: Frame) -> Span:
    """To the day."""
    return frame.day(_back(frame.today, match["unit"], counted(match)[0]))


def _same_day(match: re.Match[str], frame: Frame) -> Span:
    """This day of the last month or year, or some days around it if only about this time is meant."""
    day, room = _back(frame.today, match["unit"], 1), timedelta(days=0 if match["exact"] == "day" else 7)
    return frame.days(day - room, day + room + ONE_DAY)


def _back(day: date, unit: str, count: int) -> date:
    if unit == "week":
        return day - timedelta(weeks=count)
    return months_earlier(day, count * (12 if unit == "year" else 1))


def _last_fortnight(match: re.Match[str], frame: Frame) -> Span:
    return frame.days(frame.today - timedelta(weeks=2), frame.today + ONE_DAY)


def _half_a_year_ago(match: re.Match[str], frame: Frame) -> Span:
    """About six months, which nobody counts exactly."""
    return frame.months(first_of_month(frame.today, 7), 3)


def _other_day(match: re.Match[str], frame: Frame) -> Span:
    return frame.days(frame.today - timedelta(days=10), frame.today)


def _rolling(match: re.Match[str], frame: Frame) -> Span:
    """The last so many units up to now; days are taken whole, today included."""
    unit, count = match["unit"], counted(match)[1] if "count" in match.groupdict() else 1
    if unit in _CLOCK:
        return Span(frame.now_ms - max(count, 1) * _CLOCK[unit], frame.now_ms)
    if unit in ("day", "week"):
        first = frame.today - timedelta(days=count * (7 if unit == "week" else 1))
    else:
        first = months_earlier(frame.today, count * {"month": 1, "quarter": 3, "year": 12}[unit])
    return frame.days(first, frame.today + ONE_DAY)


def _calendar_unit(match: re.Match[str], frame: Frame) -> Span:
    return unit_back(match["unit"], frame.today, 0 if match["which"] in ("this", "current") else 1, frame)


def _before_last(match: re.Match[str], frame: Frame) -> Span:
    return unit_back(match["unit"], frame.today, 2, frame)


def _weekend(match: re.Match[str], frame: Frame) -> Span:
    """The weekend we are in, else the one before."""
    return unit_back("weekend", frame.latest, 0 if frame.latest.weekday() >= 5 else 1, frame)


def _weekday(match: re.Match[str], frame: Frame) -> Span:
    """The most recent one, today included."""
    number = _number(match)
    if frame.earliest:
        return frame.day(frame.earliest + timedelta(days=(number - frame.earliest.weekday()) % 7))
    return frame.day(frame.latest - timedelta(days=(frame.latest.weekday() - number) % 7))


def _last_weekday(match: re.Match[str], frame: Frame) -> Span:
    """The most recent one before today."""
    yesterday = frame.today - ONE_DAY
    return frame.day(yesterday - timedelta(days=(yesterday.weekday() - _number(match)) % 7))


def _weekday_before_last(match: re.Match[str], frame: Frame) -> Span:
    last = frame.first_and_last(_last_weekday(match, frame))[0]
    return frame.day(last - timedelta(weeks=1))


def _weekday_of_week(match: re.Match[str], frame: Frame) -> Span:
    start = monday(frame.today) - timedelta(weeks=0 if match["which"] == "this" else 1)
    return frame.day(start + timedelta(days=_number(match)))


def _part_of_weekday(match: re.Match[str], frame: Frame) -> Span:
    return frame.hours(frame.first_and_last(_weekday_of_week(match, frame))[0], *PARTS[match["part"]])


def _number(match: re.Match[str]) -> int:
    return WEEKDAYS.index(match["weekday"][:3])


ROWS = (
    row(r"(?:earlier |later )?(?P<day>today|yesterday|day before yesterday)", _near_day),
    row(rf"(?:earlier |later )?this {PART}", _part_of_today),
    row(r"(?:earlier )?tonight|(?P<which>last) night", _tonight),
    row(rf"{_ABOUT}{COUNT} {UNIT} (?:ago|back)", _ago),
    row(rf"{_ABOUT}{COUNT} {UNIT} and a half (?:ago|back)", _and_a_half_ago),
    row(rf"{_ABOUT}{COUNT} and a half {UNIT} (?:ago|back)", _and_a_half_ago),
    row(r"half an hour ago", _half_an_hour_ago),
    row(rf"{COUNT} (?P<unit>week|month|year)s? ago (?:today|to day)", _days_ago_today),
    row(r"this (?P<exact>day|time) last (?P<unit>week|month|year)", _same_day),
    row(rf"{COUNT} {WEEKDAY}s ago", _weekdays_ago),
    row(rf"{COUNT} weeks? ago (?:last )?{WEEKDAY}", _weekday_weeks_ago),
    row(rf"(?:last|past|previous) {COUNT} {WEEKDAY}s", _last_weekdays),
    row(r"(?:last|previous) (?:workday|(?:working|business) day)", _workday),
    row(rf"{COUNT} weekends? (?:ago|back)", _weekends_ago),
    row(rf"(?:last|past|previous) {COUNT} weekends", _last_weekends),
    row(r"(?:last|past) fortnight", _last_fortnight),
    row(rf"{WEEKDAY} before last", _weekday_before_last),
    row(r"(?:a )?fortnight ago", _fortnight_ago),
    row(r"half a year ago", _half_a_year_ago),
    row(r"other (?:day|night|week)", _other_day),
    row(rf"(?:last|past|previous) {COUNT} {UNIT}", _rolling),
    row(r"past (?P<unit>hour|day|week|month|quarter|year)", _rolling),
    row(r"last (?P<unit>hour)", _rolling),
    row(r"last (?P<unit>day)", _rolling, "in over within during"),
    row(r"(?:last|past) half (?:an )?hour", _half_an_hour),
    row(r"recent (?P<unit>day|week|month)s", _recent, "in over during"),
    row(r"recently|lately", _recent_days, ""),
    row(
        r"(?:earlier |later )?(?P<which>this|current|last|previous) (?P<unit>week|month|quarter|year|weekend)",
        _calendar_unit,
    ),
    row(r"(?P<unit>week|month|quarter|year|weekend) before last", _before_last),
    row(r"weekend", _weekend, "over on during at from"),
    row(WEEKDAY, _weekday, "on from in during"),
    row(rf"(?:last|past|previous) {WEEKDAY}", _last_weekday),
    row(rf"(?P<which>this) {WEEKDAY}", _weekday_of_week),
    row(rf"{WEEKDAY} {PART}(?: of)? (?P<which>this|last|previous) week", _part_of_weekday),
    row(rf"{WEEKDAY} last", _last_weekday),
)
