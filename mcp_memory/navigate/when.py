"""Time phrases become ranges: "last week", "Jan 15–18", "since Monday", an ISO date or the id of a node.

`resolve` reads one phrase; `find` looks for one inside a question. Weeks are ISO weeks and days the user's local days.
A date without a year is the most recent one that is not after now. Ranges include both of the days that they name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo

from mcp_memory.domain.toc import parse_node_id, start_of_day_ms
from mcp_memory.errors import BadId, UnknownTimePhrase
from mcp_memory.navigate import when_find
from mcp_memory.navigate.when_dates import OVER_FEAST
from mcp_memory.navigate.when_frame import HOUR_MS, MINUTE_MS, Backwards, Frame, Span, normal
from mcp_memory.navigate.when_periods import period

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
)
_YEAR = re.compile(r"\b\d{4}\b", re.ASCII)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """What a phrase was taken to mean: milliseconds from `start_ms` up to, not including, `end_ms`."""

    phrase: str
    start_ms: int
    end_ms: int


def resolve(phrase: str, now: datetime, zone: tzinfo) -> TimeRange:
    """The range of a time phrase said at `now`, which must know its zone, by a user who lives in `zone`."""
    said = " ".join(phrase.split())
    try:
        span = _node(said, zone) or _range(normal(said), _frame(now, zone))
        start = max(span.start_ms, 0)
        end = span.end_ms + (MINUTE_MS if span.end_ms == span.start_ms else 0)
        if start >= end:
            raise ValueError("it ends before there was anything")
    except Backwards:
        raise UnknownTimePhrase(f"{said[:80]!r} ends before it begins. Name the earlier time first.") from None
    except (ValueError, OverflowError):
        raise UnknownTimePhrase(f"{said[:80]!r} is not a time I can resolve. Try one of these: {_EXAMPLES}.") from None
    return TimeRange(said, start, end)


def find(text: str, now: datetime, zone: tzinfo) -> tuple[TimeRange, str] | None:
    """The time phrase inside a question and the question without it; only what can hardly mean anything else.

    A phrase with a year wins over one without, otherwise the first one is taken. Times that lie in the future are left
    alone: memory holds nothing from there.
    """
    found: list[tuple[TimeRange, when_find.Candidate]] = []
    taken = 0
    for candidate in when_find.candidates(text, now.astimezone(zone).year):
        if candidate.start < taken:
            continue
        try:
            time_range = resolve(candidate.phrase, now, zone)
        except UnknownTimePhrase:
            continue
        taken = candidate.end
        if time_range.start_ms <= now.timestamp() * 1000:
            found.append((time_range, candidate))
    if not found:
        return None
    time_range, candidate = next((each for each in found if _YEAR.search(each[0].phrase)), found[0])
    return time_range, when_find.without(text, candidate)


def _frame(now: datetime, zone: tzinfo) -> Frame:
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
    for first, last in ((rest, ""), *_split(rest)):
        try:
            # Days that are joined to one month are one phrase: the 3rd and 4th of October.
            return _joined(first, last, frame) if last else _one(rest, frame)
        except Backwards as error:
            backwards = error
        except ValueError:
            continue
    if backwards:
        raise backwards
    if half_open := _OPEN.fullmatch(text):
        return _half_open(half_open["how"], period(_plain(half_open["base"]), frame), frame)
    raise ValueError("no such phrase")


def _one(text: str, frame: Frame) -> Span:
    """One period; a few mean more with their preposition than without: over Christmas."""
    return period(text if OVER_FEAST.match(text) else _plain(text), frame)


def _plain(text: str) -> str:
    """The phrase without the preposition that leads to it."""
    return text[match.end() :] if (match := _LEADING.match(text)) else text


def _split(text: str) -> Iterator[tuple[str, str]]:
    for joint in _JOINTS.finditer(text):
        yield _plain(text[: joint.start()].strip()), _plain(text[joint.end() :].strip())


def _joined(first: str, last: str, frame: Frame) -> Span:
    """A year that is said once holds for both ends; without any, the range begins at its most recent first day."""
    if _YEAR.search(last) and not _YEAR.search(first):
        end = period(last, frame)
        start = period(first, replace(frame, latest=frame.first_and_last(end)[1]))
    else:
        start = period(first, frame)
        end = period(last, frame)
        if end.end_ms <= start.start_ms or _YEAR.search(first):
            end = period(last, replace(frame, earliest=frame.first_and_last(start)[0]))
    if end.end_ms < start.start_ms:
        raise Backwards
    return Span(start.start_ms, end.end_ms)


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
