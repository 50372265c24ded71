"""Phrases that name a feast: Christmas Eve, Easter Monday, over Thanksgiving, the holidays."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

from mcp_memory.times.dates import IN_YEAR, full_year
from mcp_memory.times.frame import ONE_DAY, Frame, Span, row

InYear = Callable[[int], date]


def _fixed(month: int, day: int) -> InYear:
    return lambda year: date(year, month, day)


def _after_easter(days: int) -> InYear:
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


def _nth_weekday(month: int, weekday: int, number: int, more: int = 0) -> InYear:
    """The `number`th such weekday of a month, counted from 0, and so many days more."""

    def in_year(year: int) -> date:
        first = date(year, month, 1)
        return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * number + more)

    return in_year


_FEASTS: dict[str, InYear] = {
    r"epiphany": _fixed(1, 6),
    r"(?:mlk|martin luther king(?: jr)?)(?: day)": _nth_weekday(1, 0, 2),
    r"valentine'?s(?: day)?": _fixed(2, 14),
    r"president'?s'? day": _nth_weekday(2, 0, 2),
    r"(?:international )?women'?s day": _fixed(3, 8),
    r"pi day": _fixed(3, 14),
    r"(?:st\.? |saint )?patrick'?s day": _fixed(3, 17),
    r"april fools?'?(?: day)?": _fixed(4, 1),
    r"may day": _fixed(5, 1),
    r"mother'?s'? day": _nth_weekday(5, 6, 1),
    r"memorial day": _nth_weekday(6, 0, 0, -7),
    r"father'?s'? day": _nth_weekday(6, 6, 2),
    r"juneteenth": _fixed(6, 19),
    r"canada day": _fixed(7, 1),
    r"independence day": _fixed(7, 4),
    r"bastille day": _fixed(7, 14),
    r"labor day": _nth_weekday(9, 0, 0),
    r"(?:columbus|indigenous peoples'?) day": _nth_weekday(10, 0, 1),
    r"halloween": _fixed(10, 31),
    r"all saints'?(?: day)?": _fixed(11, 1),
    r"(?:guy fawkes|bonfire) night": _fixed(11, 5),
    r"(?:veterans'?|armistice|remembrance) day": _fixed(11, 11),
    r"thanksgiving(?: day)?": _nth_weekday(11, 3, 3),
    r"black friday": _nth_weekday(11, 3, 3, 1),
    r"cyber monday": _nth_weekday(11, 3, 3, 4),
    r"christmas eve": _fixed(12, 24),
    r"(?:christmas|xmas)(?: day)?": _fixed(12, 25),
    r"boxing day": _fixed(12, 26),
    r"new year'?s eve": _fixed(12, 31),
    r"new year(?:'?s)?(?: day)?": _fixed(1, 1),
    r"(?:shrove tuesday|mardi gras)": _after_easter(-47),
    r"ash wednesday": _after_easter(-46),
    r"palm sunday": _after_easter(-7),
    r"maundy thursday": _after_easter(-3),
    r"good friday": _after_easter(-2),
    r"easter(?: sunday)?": _after_easter(0),
    r"easter monday": _after_easter(1),
    r"ascension(?: day)?": _after_easter(39),
    r"(?:pentecost|whit ?sun(?:day)?)": _after_easter(49),
    r"whit monday": _after_easter(50),
}
_NAME = rf"(?P<feast>{'|'.join(_FEASTS)})"
#: What "over" such a feast means: the days of it, by how they lie to the named one.
_OVER = {"christmas": (-1, 1), "xmas": (-1, 1), "easter": (-2, 1), "thanksgiving": (0, 3), "new year": (-1, 0)}
OVER_FEAST = re.compile(rf"(?:over|around) (?:the )?(?:{'|'.join(_OVER)})\b(?!['’]s| day| eve)", re.I)


def _feast(match: re.Match[str], frame: Frame) -> Span:
    if match["which"]:
        frame = replace(frame, latest=frame.today - ONE_DAY)
    return frame.day(_day(match, frame))


def _over_feast(match: re.Match[str], frame: Frame) -> Span:
    day = _day(match, frame)
    before, after = _OVER[match["feast"]]
    return frame.days(day + timedelta(days=before), day + timedelta(days=after) + ONE_DAY)


def _week_of_feast(match: re.Match[str], frame: Frame) -> Span:
    return frame.week(_day(match, frame))


def _holidays(match: re.Match[str], frame: Frame) -> Span:
    """From shortly before Christmas to shortly after New Year."""
    first = _dated(_fixed(12, 22), match["year"], frame)
    return frame.days(first, first + timedelta(days=12))


def _day(match: re.Match[str], frame: Frame) -> date:
    in_year = next(in_year for name, in_year in _FEASTS.items() if re.fullmatch(name, match["feast"]))
    return _dated(in_year, match["year"], frame)


def _dated(in_year: InYear, year: str | None, frame: Frame) -> date:
    return in_year(full_year(year)) if year else frame.pick(in_year)


ROWS = (
    row(rf"(?:over|around) (?P<feast>{'|'.join(_OVER)}){IN_YEAR}", _over_feast),
    row(rf"(?:(?:christmas|winter) )?holidays{IN_YEAR}", _holidays, "over during"),
    row(rf"(?P<which>){_NAME}{IN_YEAR}", _feast, "on at over around from of during"),
    row(rf"(?P<which>last|past) {_NAME}{IN_YEAR}", _feast),
    row(rf"{_NAME} week{IN_YEAR}", _week_of_feast, "in during over"),
)
