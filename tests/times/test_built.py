"""Time phrases that are built upon others: joined days, parts of periods, feasts and the days around them."""

from __future__ import annotations

from datetime import datetime

import pytest

from mcp_memory.times.resolve import resolve
from tests.times.test_resolve import BERLIN, HOUR, NOW, bounds, day_range, local


@pytest.mark.parametrize(
    ("phrase", "first", "last"),
    [
        ("Black Friday", "2025-11-28", "2025-11-28"),
        ("over Christmas", "2025-12-24", "2025-12-26"),
        ("around Easter", "2025-04-18", "2025-04-21"),
        ("over New Year", "2025-12-31", "2026-01-01"),
        ("over the holidays", "2025-12-22", "2026-01-02"),
        ("Christmas last year", "2025-12-25", "2025-12-25"),
        ("in October last year", "2025-10-01", "2025-10-31"),
        ("January this year", "2026-01-01", "2026-01-31"),
        ("October and November", "2025-10-01", "2025-11-30"),
        ("Monday or Tuesday", "2026-02-16", "2026-02-17"),
        ("January 1st and 2nd", "2026-01-01", "2026-01-02"),
        ("on the 3rd and 4th of January", "2026-01-03", "2026-01-04"),
        ("the twentieth of January", "2026-01-20", "2026-01-20"),
        ("January twenty-first", "2026-01-21", "2026-01-21"),
        ("the first two weeks of January", "2026-01-01", "2026-01-14"),
        ("the last three days of January", "2026-01-29", "2026-01-31"),
        ("a year and a half ago", "2024-07-01", "2024-09-30"),
        ("two and a half weeks ago", "2026-01-30", "2026-02-03"),
        ("a week ago today", "2026-02-11", "2026-02-11"),
        ("this time last year", "2025-02-11", "2025-02-25"),
        ("this day last month", "2026-01-18", "2026-01-18"),
        ("the past fortnight", "2026-02-04", "2026-02-18"),
        ("two weekends ago", "2026-02-07", "2026-02-08"),
        ("the last two weekends", "2026-02-07", "2026-02-15"),
        ("the weekend of January 10", "2026-01-10", "2026-01-11"),
        ("the weekend of January 12", "2026-01-10", "2026-01-11"),
        ("the weekend after January 10", "2026-01-17", "2026-01-18"),
        ("the weekend before January 10", "2026-01-03", "2026-01-04"),
        ("the Friday before last", "2026-02-06", "2026-02-06"),
        ("the third quarter of 2025", "2025-07-01", "2025-09-30"),
        ("first quarter of last year", "2025-01-01", "2025-03-31"),
        ("Q4/2025", "2025-10-01", "2025-12-31"),
        ("2025 Q4", "2025-10-01", "2025-12-31"),
        ("Q4 last year", "2025-10-01", "2025-12-31"),
        ("the first half of the month", "2026-02-01", "2026-02-14"),
        ("last winter", "2024-12-01", "2025-02-28"),
    ],
)
def test_periods_built_upon_others(phrase: str, first: str, last: str) -> None:
    assert bounds(phrase) == day_range(first, last)


def test_half_an_hour_ago_is_not_an_hour_ago() -> None:
    now = round(NOW.timestamp() * 1000)
    start, end = bounds("half an hour ago")
    assert start <= now - HOUR // 2 <= end
    assert now - HOUR < start
    start, end = bounds("two and a half hours ago")
    assert start <= now - HOUR * 5 // 2 <= end


def test_a_part_of_a_weekday_of_another_week() -> None:
    assert bounds("Monday afternoon last week") == (local("2026-02-09T12:00"), local("2026-02-09T18:00"))


@pytest.mark.parametrize(
    ("phrase", "told"),
    [
        ("on 3/2", "'on 3/2' (month first; 2026-02-03 if the day is) = 2025-03-02 to 2025-03-02"),
        ("02-03-2026", "'02-03-2026' (month first) = 2026-02-03 to 2026-02-03"),
        ("Jan 3-5", "'Jan 3-5' = 2026-01-03 to 2026-01-05"),
        ("12/2/2026", "'12/2/2026' (day first) = 2026-02-12 to 2026-02-12"),
        ("13/2", "'13/2' = 2026-02-13 to 2026-02-13"),
        ("2/2", "'2/2' = 2026-02-02 to 2026-02-02"),
        ("3.2.2026", "'3.2.2026' = 2026-02-03 to 2026-02-03"),
        ("2026-02-03", "'2026-02-03' = 2026-02-03 to 2026-02-03"),
        ("before March", "'before March' = everything up to 2025-02-28"),
    ],
)
def test_the_answer_says_how_a_phrase_was_taken_where_it_may_be_taken_otherwise(phrase: str, told: str) -> None:
    def day(moment_ms: int) -> str:
        return datetime.fromtimestamp(moment_ms / 1000, BERLIN).date().isoformat()

    assert resolve(phrase, NOW, BERLIN).told(day) == told
