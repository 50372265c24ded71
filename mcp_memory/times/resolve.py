"""Time phrases become ranges: "last week", "Jan 15–18", "since Monday", an ISO date or the id of a node.

Weeks are ISO weeks and days the user's local days.
A date without a year is the most recent one that is not after now. Ranges include both of the days that they name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo

from mcp_memory.domain.toc import local_day, parse_node_id, start_of_day_ms
from mcp_memory.errors import BadId, UnknownTimePhrase
from mcp_memory.times.frame import HOUR_MS, MINUTE_MS, ONE_DAY, Backwards, Frame, Span, normal
from mcp_memory.times.hours import moment
from mcp_memory.times.periods import period, reading
from mcp_memory.times.relative import WEEKDAY

_EXAMPLES = (
    "today, yesterday, last week, this month, 3 days ago, last 2 weeks, on Monday, in January, January 2024, "
    "Jan 15-18, week of January 19, since Monday, before March, between Jan 3 and Jan 10, 2024-01-15, 2024-W03, "
    "2024-01-15..2024-01-18"
)
_LONGEST = 160
_LEADING = re.compile(r"(?:in|on|during|over|at|around|throughout|within|from|for|of|about|roughly) ")
_OPEN = re.compile(
    r"(?P<how>since|starting|after|before|prior to|until|till|up to|through|by|as of|not later than) (?P<base>.+)"
)
_ENCLOSED = re.compile(r"(?P<how>between|from) (?P<rest>.+)")
_JOINTS = re.compile(
    r" ?\.\.+ ?| - | (?:to|until|till|through|and|or) |(?<=[a-z])-(?=[a-z])|(?<=\d)-(?=[a-z]{3})|(?<=[a-z]{3})-(?=\d)"
    r"|(?<=[\dz])/(?=\d{4}-)"
)
_YEAR = re.compile(r"\b\d{4}\b", re.ASCII)
#: The one day of a month that has no month of its own.
_BARE_DAY = re.compile(r"(?:\w+day )?\d\d?(?:st|nd|rd|th)", re.ASCII)
_WEEKDAY = re.compile(WEEKDAY)
_ALSO = (" and ", " or ")
_DOTTED = re.compile(r"(?P<since>[^.](?:.*[^.])?) ?\.\.+|\.\.+ ?(?P<through>[^.].*)", re.S)
_MONTH = r"(?:0?[1-9]|1[0-2])"
_EITHER_WAY = re.compile(
    rf"(?<![\d/-])(?P<first>{_MONTH})(?P<sign>[/-])(?P<second>{_MONTH})(?P<year>(?P=sign)(?:\d\d)?\d\d)?(?![\d/-])",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """What a phrase was taken to mean: milliseconds from `start_ms` up to, not including, `end_ms`."""

    phrase: str
    start_ms: int
    end_ms: int
    #: Which of its numbers was taken for the month, where either might be.
    reading: str = ""

    def told(self, moment: Callable[[int], str]) -> str:
        """The phrase and the time it was taken for, in words of the clock."""
        numbers = f" ({self.reading})" if self.reading else ""
        start = f"{moment(self.start_ms)} to" if self.start_ms else "everything up to"
        return f"{self.phrase!r}{numbers} = {start} {moment(self.end_ms - 1)}"


def resolve(phrase: str, now: datetime, zone: tzinfo) -> TimeRange:
    """The range of a time phrase said at `now`, which must know its zone, by a user who lives in `zone`."""
    said = " ".join(phrase.split())
    try:
        span = _node(said, zone) or _range(_closed(said), frame_of(now, zone))
        start = max(span.start_ms, 0)
        end = span.end_ms + (MINUTE_MS if span.end_ms == span.start_ms else 0)
        if start >= end:
            raise ValueError("it ends before there was anything")
    except Backwards:
        raise UnknownTimePhrase(f"{said[:80]!r} ends before it begins. Name the earlier time first.") from None
    except (ValueError, OverflowError):
        raise UnknownTimePhrase(f"{said[:80]!r} is not a time I can resolve. Try one of these: {_EXAMPLES}.") from None
    return TimeRange(said, start, end, _reading(said, start, frame_of(now, zone)))


def _reading(said: str, start_ms: int, frame: Frame) -> str:
    """How numbers were read that may be meant either way, and what they mean the other: 3/2 in March or February."""
    match = _EITHER_WAY.search(said)
    if not match or int(match["first"]) == int(match["second"]) or (match["sign"] == "-" and not match["year"]):
        return ""
    day = local_day(start_ms, frame.zone)
    if day.month != int(match["first"]):
        return "day first"
    swapped = reading(f"{match['second']}{match['sign']}{match['first']}{match['year'] or ''}", frame)
    other = local_day(swapped[1].start_ms, frame.zone) if swapped else day
    return f"month first; {other} if the day is" if other != day else "month first"


def _closed(said: str) -> str:
    """The phrase in normal form; one that begins or ends with dots is open at that side."""
    if match := _DOTTED.fullmatch(said):
        return f"since {normal(match['since'])}" if match["since"] else f"through {normal(match['through'])}"
    return normal(said)


def frame_of(now: datetime, zone: tzinfo) -> Frame:
    return Frame(now, zone, latest=now.astimezone(zone).date())


def _node(said: str, zone: tzinfo) -> Span | None:
    if not said.lower().startswith("toc:"):
        return None
    try:
        return Span(*parse_node_id(said)[0].bounds(zone))
    except BadId as error:
        raise ValueError(str(error)) from None


def _range(text: str, frame: Frame) -> Span:
    if len(text) > _LONGEST:
        raise ValueError("too long for a time phrase")
    enclosed = _ENCLOSED.fullmatch(text)
    rest = enclosed["rest"] if enclosed else text
    if enclosed and enclosed["how"] == "between" and not _JOINTS.search(rest):
        raise ValueError("a range needs two ends")
    backwards: Backwards | None = None
    for first, joint, last in ((rest, "", ""), *_split(rest)):
        try:
            # Days that are joined to one month are one phrase: the 3rd and 4th of October.
            return _joined(first, last, frame, also=joint in _ALSO and enclosed is None) if last else _one(rest, frame)
        except Backwards as error:
            backwards = error
        except ValueError:
            continue
    if backwards:
        raise backwards
    if half_open := _OPEN.fullmatch(text):
        how, base = half_open["how"], _plain(half_open["base"])
        if how in ("since", "after") and _WEEKDAY.fullmatch(base):
            frame = replace(frame, latest=frame.latest - ONE_DAY)  # said on a Monday, since Monday is since the last
        return _half_open(how, _end(base, frame), frame)
    raise ValueError("no such phrase")


def _one(text: str, frame: Frame) -> Span:
    """One period; a few mean more with their preposition than without: over Christmas, around the 5th."""
    found = reading(text, frame)
    return found[1] if found else period(_plain(text), frame)


def _plain(text: str) -> str:
    """The phrase without the preposition that leads to it."""
    return text[match.end() :] if (match := _LEADING.match(text)) else text


def _split(text: str) -> Iterator[tuple[str, str, str]]:
    for joint in _JOINTS.finditer(text):
        yield _plain(text[: joint.start()].strip()), joint[0], _plain(text[joint.end() :].strip())


def _end(text: str, frame: Frame) -> Span:
    """What a range begins or ends with: a period, or the very time of a day."""
    at = moment(text, frame, period)
    return period(text, frame) if at is None else Span(at, at)


def _joined(first: str, last: str, frame: Frame, *, also: bool) -> Span:
    """A year that is said once holds for both ends; without any, the range begins at its most recent first day.

    An end that would come before the beginning is the next one, or else the beginning the one before it: Monday to
    Wednesday last week. What is only named beside another time (`also`) may come before it: today and yesterday.
    """
    if _YEAR.search(last) and not _YEAR.search(first):
        end = _end(last, frame)
        start = _end(first, replace(frame, latest=frame.first_and_last(end)[1]))
    else:
        start = _end(first, frame)
        end = _end(last, frame)
        begun = frame.first_and_last(start)[0]
        if also and end.end_ms <= start.start_ms and _is_fixed(last, end, begun, frame):
            return Span(end.start_ms, start.end_ms)
        for earliest in (begun, begun + timedelta(days=1)):
            if end.end_ms <= start.start_ms or _YEAR.search(first) or _BARE_DAY.fullmatch(last):
                end = _end(last, replace(frame, earliest=earliest))
        if end.end_ms <= start.start_ms:
            start = _end(first, replace(frame, latest=frame.first_and_last(end)[1]))
    if end.end_ms < start.start_ms:
        raise Backwards
    return Span(start.start_ms, end.end_ms)


def _is_fixed(last: str, end: Span, begun: date, frame: Frame) -> bool:
    """Whether a period stays the same whatever comes before it, as yesterday does and Monday does not."""
    return _end(last, replace(frame, earliest=begun)) == end


def _half_open(how: str, base: Span, frame: Frame) -> Span:
    """Until a day includes it, until a month does not; whatever has no end ends today."""
    one_day = base.end_ms - base.start_ms <= 25 * HOUR_MS
    if how in ("before", "prior to") or (how in ("until", "till", "up to") and not one_day):
        return Span(0, base.start_ms)
    if how in ("since", "starting", "after"):
        start = base.end_ms if how == "after" else base.start_ms
        first, _ = frame.first_and_last(Span(start, start))
        return Span(start, start_of_day_ms(max(first, frame.today) + timedelta(days=1), frame.zone))
    return Span(0, base.end_ms)
