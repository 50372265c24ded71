"""Time phrases, said on a Wednesday afternoon in Berlin unless a test says otherwise."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mcp_memory.domain.toc import parse_node_id, start_of_day_ms
from mcp_memory.errors import UnknownTimePhrase
from mcp_memory.times.find import find
from mcp_memory.times.resolve import TimeRange, resolve

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
NOW = datetime(2026, 2, 18, 15, 30, tzinfo=BERLIN)
HOUR = 3_600_000


def day_range(first: str, last: str, zone: ZoneInfo = BERLIN) -> tuple[int, int]:
    """From the start of the first day to the end of the last."""
    after = date.fromisoformat(last) + timedelta(days=1)
    return start_of_day_ms(date.fromisoformat(first), zone), start_of_day_ms(after, zone)


def bounds(phrase: str, now: datetime = NOW, zone: ZoneInfo = BERLIN) -> tuple[int, int]:
    found = resolve(phrase, now, zone)
    return found.start_ms, found.end_ms


def local(text: str, zone: ZoneInfo = BERLIN) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize(
    ("phrase", "first", "last"),
    [
        ("today", "2026-02-18", "2026-02-18"),
        ("3.2.2026", "2026-02-03", "2026-02-03"),
        ("02/03/2026", "2026-02-03", "2026-02-03"),
        ("25/01/2026", "2026-01-25", "2026-01-25"),
        ("5-Jan-2026", "2026-01-05", "2026-01-05"),
        ("3 Feb '26", "2026-02-03", "2026-02-03"),
        ("the day after Christmas", "2025-12-26", "2025-12-26"),
        ("the days before Jan 5", "2025-12-29", "2026-01-04"),
        ("the first of January", "2026-01-01", "2026-01-01"),
        ("the last day of January", "2026-01-31", "2026-01-31"),
        ("the first Monday of January", "2026-01-05", "2026-01-05"),
        ("the last Friday in January", "2026-01-30", "2026-01-30"),
        ("the first half of January", "2026-01-01", "2026-01-15"),
        ("the second half of January", "2026-01-16", "2026-01-31"),
        ("H2 2025", "2025-07-01", "2025-12-31"),
        ("last summer", "2025-06-01", "2025-08-31"),
        ("winter 2025", "2025-12-01", "2026-02-28"),
        ("since the beginning of the year", "2026-01-01", "2026-02-18"),
        ("Easter 2024", "2024-03-31", "2024-03-31"),
        ("Easter Monday", "2025-04-21", "2025-04-21"),
        ("Good Friday 2026", "2026-04-03", "2026-04-03"),
        ("Thanksgiving", "2025-11-27", "2025-11-27"),
        ("Labor Day 2025", "2025-09-01", "2025-09-01"),
        ("St. Patrick's Day 2025", "2025-03-17", "2025-03-17"),
        ("a fortnight ago", "2026-02-02", "2026-02-08"),
        ("two Fridays ago", "2026-02-06", "2026-02-06"),
        ("three days back", "2026-02-15", "2026-02-15"),
        ("roughly two weeks ago", "2026-02-02", "2026-02-08"),
        ("half a year ago", "2025-08-01", "2025-08-31"),
        ("the other day", "2026-02-08", "2026-02-17"),
        ("gestern", "2026-02-17", "2026-02-17"),
        ("am 3. Februar", "2026-02-03", "2026-02-03"),
        ("im Januar", "2026-01-01", "2026-01-31"),
        ("vor zwei Wochen", "2026-02-02", "2026-02-08"),
        ("letzten Montag", "2026-02-16", "2026-02-16"),
        ("letzte Woche", "2026-02-09", "2026-02-15"),
        ("earlier today", "2026-02-18", "2026-02-18"),
        ("yesterday", "2026-02-17", "2026-02-17"),
        ("the day before yesterday", "2026-02-16", "2026-02-16"),
        ("0 days ago", "2026-02-18", "2026-02-18"),
        ("3 days ago", "2026-02-15", "2026-02-15"),
        ("two days ago", "2026-02-16", "2026-02-16"),
        ("a day ago", "2026-02-17", "2026-02-17"),
        ("a couple of days ago", "2026-02-15", "2026-02-16"),
        ("couple days ago", "2026-02-15", "2026-02-16"),
        ("a few days ago", "2026-02-13", "2026-02-16"),
        ("a week ago", "2026-02-09", "2026-02-15"),
        ("two weeks ago", "2026-02-02", "2026-02-08"),
        ("a month ago", "2026-01-01", "2026-01-31"),
        ("3 months ago", "2025-11-01", "2025-11-30"),
        ("one year ago", "2025-01-01", "2025-12-31"),
        ("10 years ago", "2016-01-01", "2016-12-31"),
        ("two weeks before August 11, 2023", "2023-07-24", "2023-07-30"),
        ("3 days before yesterday", "2026-02-14", "2026-02-14"),
        ("last 3 days", "2026-02-15", "2026-02-18"),
        ("the past three days", "2026-02-15", "2026-02-18"),
        ("last 2 weeks", "2026-02-04", "2026-02-18"),
        ("previous two months", "2025-12-18", "2026-02-18"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("the last year", "2025-02-18", "2026-02-18"),
        ("past week", "2026-02-11", "2026-02-18"),
        ("past month", "2026-01-18", "2026-02-18"),
        ("past quarter", "2025-11-18", "2026-02-18"),
        ("past year", "2025-02-18", "2026-02-18"),
        ("this week", "2026-02-16", "2026-02-22"),
        ("earlier this week", "2026-02-16", "2026-02-22"),
        ("last week", "2026-02-09", "2026-02-15"),
        ("previous week", "2026-02-09", "2026-02-15"),
        ("the week before last", "2026-02-02", "2026-02-08"),
        ("this month", "2026-02-01", "2026-02-28"),
        ("last month", "2026-01-01", "2026-01-31"),
        ("this quarter", "2026-01-01", "2026-03-31"),
        ("last quarter", "2025-10-01", "2025-12-31"),
        ("this year", "2026-01-01", "2026-12-31"),
        ("weekend", "2026-02-14", "2026-02-15"),
        ("over the weekend", "2026-02-14", "2026-02-15"),
        ("last weekend", "2026-02-14", "2026-02-15"),
        ("this weekend", "2026-02-21", "2026-02-22"),
    ],
)
def test_phrases_that_count_from_now(phrase: str, first: str, last: str) -> None:
    assert bounds(phrase) == day_range(first, last)


@pytest.mark.parametrize(
    ("phrase", "day"),
    [
        ("Monday", "2026-02-16"),
        ("on Tuesday", "2026-02-17"),
        ("on Wednesday", "2026-02-18"),
        ("on Thursday", "2026-02-12"),
        ("Fri", "2026-02-13"),
        ("last Monday", "2026-02-16"),
        ("last Wednesday", "2026-02-11"),
        ("last thurs", "2026-02-12"),
        ("this Monday", "2026-02-16"),
        ("this Friday", "2026-02-20"),
        ("Tuesday last week", "2026-02-10"),
        ("last week on Friday", "2026-02-13"),
        ("Monday of this week", "2026-02-16"),
    ],
)
def test_weekdays_are_the_most_recent_ones_today_included(phrase: str, day: str) -> None:
    assert bounds(phrase) == day_range(day, day)


@pytest.mark.parametrize(
    ("phrase", "start", "end"),
    [
        ("this morning", "2026-02-18T04:00", "2026-02-18T12:00"),
        ("this afternoon", "2026-02-18T12:00", "2026-02-18T18:00"),
        ("this evening", "2026-02-18T17:00", "2026-02-19T00:00"),
        ("tonight", "2026-02-18T18:00", "2026-02-19T06:00"),
        ("last night", "2026-02-17T18:00", "2026-02-18T06:00"),
        ("yesterday evening", "2026-02-17T17:00", "2026-02-18T00:00"),
        ("Wednesday evening", "2026-02-11T17:00", "2026-02-12T00:00"),
        ("Monday morning", "2026-02-16T04:00", "2026-02-16T12:00"),
        ("the evening of January 5, 2026", "2026-01-05T17:00", "2026-01-06T00:00"),
        ("5 minutes ago", "2026-02-18T15:15", "2026-02-18T15:30"),
        ("an hour ago", "2026-02-18T13:30", "2026-02-18T15:30"),
        ("3 hours ago", "2026-02-18T11:30", "2026-02-18T13:30"),
        ("last 24 hours", "2026-02-17T15:30", "2026-02-18T15:30"),
        ("past hour", "2026-02-18T14:30", "2026-02-18T15:30"),
        ("2024-01-15 10:00", "2024-01-15T10:00", "2024-01-15T10:01"),
        ("2024-01-15T10:00 to 2024-01-15T12:30", "2024-01-15T10:00", "2024-01-15T12:30"),
        ("2024-01-15T10:00:00Z..2024-01-15T12:30:00+01:00", "2024-01-15T11:00", "2024-01-15T12:30"),
    ],
)
def test_phrases_finer_than_a_day(phrase: str, start: str, end: str) -> None:
    assert bounds(phrase) == (local(start), local(end))


@pytest.mark.parametrize(
    ("phrase", "first", "last"),
    [
        ("in January", "2026-01-01", "2026-01-31"),
        ("in February", "2026-02-01", "2026-02-28"),
        ("in March", "2025-03-01", "2025-03-31"),
        ("last February", "2025-02-01", "2025-02-28"),
        ("January 2024", "2024-01-01", "2024-01-31"),
        ("Jan 2024", "2024-01-01", "2024-01-31"),
        ("Jan. 2024", "2024-01-01", "2024-01-31"),
        ("the month of February 2024", "2024-02-01", "2024-02-29"),
        ("in 2024", "2024-01-01", "2024-12-31"),
        ("2024", "2024-01-01", "2024-12-31"),
        ("2024-01", "2024-01-01", "2024-01-31"),
        ("2024-01-15", "2024-01-15", "2024-01-15"),
        ("2024/01/15", "2024-01-15", "2024-01-15"),
        ("2024-W03", "2024-01-15", "2024-01-21"),
        ("2020-w53", "2020-12-28", "2021-01-03"),
        ("week 3 of 2024", "2024-01-15", "2024-01-21"),
        ("week 7", "2026-02-09", "2026-02-15"),
        ("week 52", "2025-12-22", "2025-12-28"),
        ("Q4 2025", "2025-10-01", "2025-12-31"),
        ("in Q1", "2026-01-01", "2026-03-31"),
        ("Q3", "2025-07-01", "2025-09-30"),
        ("January 15", "2026-01-15", "2026-01-15"),
        ("15 January", "2026-01-15", "2026-01-15"),
        ("3 February", "2026-02-03", "2026-02-03"),
        ("February 18", "2026-02-18", "2026-02-18"),
        ("February 19", "2025-02-19", "2025-02-19"),
        ("February 3rd, 2026", "2026-02-03", "2026-02-03"),
        ("on the 3rd of February 2026", "2026-02-03", "2026-02-03"),
        ("Sunday the 25th of January", "2026-01-25", "2026-01-25"),
        ("Saturday the 25th of January", "2025-01-25", "2025-01-25"),
        ("Friday, February 14", "2025-02-14", "2025-02-14"),
        ("Tuesday, January 25", "2022-01-25", "2022-01-25"),
        ("Sunday,  January 25th , 2026", "2026-01-25", "2026-01-25"),
        ("8th December,2023", "2023-12-08", "2023-12-08"),
        ("Feb 29", "2024-02-29", "2024-02-29"),
        ("on the 15th", "2026-02-15", "2026-02-15"),
        ("the 31st", "2026-01-31", "2026-01-31"),
        ("on Thursday the 15th", "2026-01-15", "2026-01-15"),
        ("on Friday the 29th", "2025-08-29", "2025-08-29"),
        ("on the 19th", "2026-01-19", "2026-01-19"),
        ("week of January 19", "2026-01-19", "2026-01-25"),
        ("the week of January 21, 2026", "2026-01-19", "2026-01-25"),
        ("week starting January 19", "2026-01-19", "2026-01-25"),
        ("week starting January 21", "2026-01-21", "2026-01-27"),
        ("the week before August 3, 2023", "2023-07-27", "2023-08-02"),
        ("the week after August 3, 2023", "2023-08-04", "2023-08-10"),
        ("week ending January 18", "2026-01-12", "2026-01-18"),
        ("first week of January", "2025-12-29", "2026-01-04"),
        ("the second week of November", "2025-11-10", "2025-11-16"),
        ("last week of January", "2026-01-26", "2026-02-01"),
        ("end of January", "2026-01-21", "2026-01-31"),
        ("late January", "2026-01-21", "2026-01-31"),
        ("early January", "2026-01-01", "2026-01-11"),
        ("beginning of January", "2026-01-01", "2026-01-11"),
        ("mid January", "2026-01-11", "2026-01-21"),
        ("mid-August 2023", "2023-08-11", "2023-08-21"),
        ("early last month", "2026-01-01", "2026-01-11"),
        ("late 2025", "2025-09-01", "2025-12-31"),
        ("Valentine's Day", "2026-02-14", "2026-02-14"),
        ("on Valentine’s", "2026-02-14", "2026-02-14"),
        ("Christmas", "2025-12-25", "2025-12-25"),
        ("Christmas Eve", "2025-12-24", "2025-12-24"),
        ("New Year's Eve", "2025-12-31", "2025-12-31"),
        ("New Year's Day", "2026-01-01", "2026-01-01"),
        ("Halloween", "2025-10-31", "2025-10-31"),
        ("Christmas 2023", "2023-12-25", "2023-12-25"),
        ("last Christmas", "2025-12-25", "2025-12-25"),
    ],
)
def test_phrases_of_the_calendar(phrase: str, first: str, last: str) -> None:
    assert bounds(phrase) == day_range(first, last)


@pytest.mark.parametrize(
    ("phrase", "first", "last"),
    [
        ("Jan 15-18", "2026-01-15", "2026-01-18"),
        ("Jan 15–18", "2026-01-15", "2026-01-18"),
        ("January 15 – 18, 2024", "2024-01-15", "2024-01-18"),
        ("15 to 18 January 2024", "2024-01-15", "2024-01-18"),
        ("Jan 3 to 10", "2026-01-03", "2026-01-10"),
        ("Jan 30 to Feb 2", "2026-01-30", "2026-02-02"),
        ("Jan 30 — Feb 2, 2024", "2024-01-30", "2024-02-02"),
        ("Dec 28 to Jan 3", "2025-12-28", "2026-01-03"),
        ("Dec 30-Jan 2", "2025-12-30", "2026-01-02"),
        ("Jan 30 - Feb 2", "2026-01-30", "2026-02-02"),
        ("30 Jan-2 Feb", "2026-01-30", "2026-02-02"),
        ("Dec 30, 2023-Jan 2, 2024", "2023-12-30", "2024-01-02"),
        ("Dec 30-Jan 2, 2024", "2023-12-30", "2024-01-02"),
        ("Dec 28 - Jan 3, 2024", "2023-12-28", "2024-01-03"),
        ("Feb 16 to Feb 20", "2026-02-16", "2026-02-20"),
        ("Feb 20 to Mar 3", "2025-02-20", "2025-03-03"),
        ("January to March 2024", "2024-01-01", "2024-03-31"),
        ("Nov 2025 to Feb", "2025-11-01", "2026-02-28"),
        ("jan-mar 2024", "2024-01-01", "2024-03-31"),
        ("2024-01-15..2024-01-18", "2024-01-15", "2024-01-18"),
        ("2024-01-15 .. 2024-01-18", "2024-01-15", "2024-01-18"),
        ("2024-01-15 to 2024-01-18", "2024-01-15", "2024-01-18"),
        ("2024-01 to 2024-03", "2024-01-01", "2024-03-31"),
        ("between Jan 3 and Jan 10", "2026-01-03", "2026-01-10"),
        ("between Jan 3 and 10", "2026-01-03", "2026-01-10"),
        ("between August 11 and August 15 2023", "2023-08-11", "2023-08-15"),
        ("from last Monday to yesterday", "2026-02-16", "2026-02-17"),
        ("from the 14th to the 16th", "2026-02-14", "2026-02-16"),
        ("Thursday to Monday", "2026-02-12", "2026-02-16"),
        ("Monday to Friday", "2026-02-16", "2026-02-20"),
        ("since Monday", "2026-02-16", "2026-02-18"),
        ("since January 15", "2026-01-15", "2026-02-18"),
        ("since last week", "2026-02-09", "2026-02-18"),
        ("after Feb 3", "2026-02-04", "2026-02-18"),
        ("after January", "2026-02-01", "2026-02-18"),
    ],
)
def test_ranges_include_both_of_their_days(phrase: str, first: str, last: str) -> None:
    assert bounds(phrase) == day_range(first, last)


@pytest.mark.parametrize(
    ("phrase", "end"),
    [
        ("before March", "2025-03-01"),
        ("until March", "2025-03-01"),
        ("before Feb 3", "2026-02-03"),
        ("until Feb 3", "2026-02-04"),
        ("up to the 3rd", "2026-02-04"),
        ("by February 3, 2026", "2026-02-04"),
        ("as of December 2023", "2024-01-01"),
    ],
)
def test_until_a_day_includes_it_until_a_month_does_not(phrase: str, end: str) -> None:
    assert bounds(phrase) == (0, start_of_day_ms(date.fromisoformat(end), BERLIN))


@pytest.mark.parametrize(
    "phrase",
    [
        "", "   ", "?", "Feb 30", "February 29, 2025", "2024-13-01", "2024-02-30", "2024-W53",
        "the 32nd", "next week", "banana", "99999999 years ago", "9999 years ago", "before 1970",
        "6th week of January",
        "fifth week of February 2026", "mid yesterday", "toc:day:2024-13-15", "toc:",
        "week 60 of 2024", "2024-01-15T99:00", "15", "may be", "last year morning", "3 minutes before January 5",
        "2.13.2", "since", "between Jan 3", "first week of last week", "\x00", "today " * 100,
    ],
)  # fmt: skip
def test_what_cannot_be_dated_is_refused_with_examples(phrase: str) -> None:
    with pytest.raises(UnknownTimePhrase, match=r"last week.*2024-01-15\.\.2024-01-18"):
        resolve(phrase, NOW, BERLIN)


@pytest.mark.parametrize(
    "phrase",
    ["2024-01-18..2024-01-15", "31 to 5 January", "Jan 18-15", "between 2024-03 and 2024-01", "2024-W05..2024-W03"],
)
def test_a_range_that_is_the_wrong_way_round_is_said_to_be(phrase: str) -> None:
    with pytest.raises(UnknownTimePhrase, match="ends before it begins"):
        resolve(phrase, NOW, BERLIN)


@pytest.mark.parametrize(
    "node_id",
    [
        "toc:year:2024",
        "toc:month:2024-01",
        "toc:month:2024:01",
        "toc:week:2024-W03",
        "toc:day:2024-01-15",
        "toc:segment:2024-01-15:01HN4QXKN6YWXVKZ3JMHP4BCDE",
        "toc:day:2024-01-15@tidepool-api",
    ],
)
def test_node_ids_are_time_phrases(node_id: str) -> None:
    assert bounds(node_id) == parse_node_id(node_id)[0].bounds(BERLIN)


@pytest.mark.parametrize(
    ("day", "zone", "hours"),
    [
        ("2024-03-31", BERLIN, 23),
        ("2024-10-27", BERLIN, 25),
        ("2024-03-10", NEW_YORK, 23),
        ("2024-11-03", NEW_YORK, 25),
        ("2024-11-04", NEW_YORK, 24),
    ],
)
def test_days_are_as_long_as_the_clocks_make_them(day: str, zone: ZoneInfo, hours: int) -> None:
    start, end = bounds(day, zone=zone)
    assert (end - start) == hours * HOUR
    noon_after = datetime.fromisoformat(day).replace(hour=12, tzinfo=zone) + timedelta(days=1)
    assert bounds("yesterday", noon_after, zone) == (start, end)


def test_the_morning_after_the_clocks_went_forward_is_one_hour_shorter_from_midnight() -> None:
    now = datetime(2024, 3, 31, 14, tzinfo=BERLIN)
    assert bounds("this morning", now) == (local("2024-03-31T04:00"), local("2024-03-31T12:00"))
    assert local("2024-03-31T04:00") - bounds("today", now)[0] == 3 * HOUR


def test_today_is_the_users_day_wherever_the_clock_was_read() -> None:
    late = datetime(2026, 2, 18, 23, 30, tzinfo=UTC)
    assert bounds("today", late) == day_range("2026-02-19", "2026-02-19")
    assert bounds("today", late, NEW_YORK) == day_range("2026-02-18", "2026-02-18", NEW_YORK)


@pytest.mark.parametrize(
    ("now", "phrase", "first", "last"),
    [
        ("2025-01-01T00:30", "yesterday", "2024-12-31", "2024-12-31"),
        ("2025-01-01T00:30", "last week", "2024-12-23", "2024-12-29"),
        ("2025-01-01T00:30", "this week", "2024-12-30", "2025-01-05"),
        ("2025-01-01T00:30", "last month", "2024-12-01", "2024-12-31"),
        ("2025-01-01T00:30", "last quarter", "2024-10-01", "2024-12-31"),
        ("2025-01-01T00:30", "December", "2024-12-01", "2024-12-31"),
        ("2025-01-01T00:30", "Dec 31", "2024-12-31", "2024-12-31"),
        ("2025-01-01T00:30", "New Year's Day", "2025-01-01", "2025-01-01"),
        ("2025-01-01T00:30", "last New Year's Day", "2024-01-01", "2024-01-01"),
        ("2024-03-31T12:00", "past month", "2024-02-29", "2024-03-31"),
        ("2024-02-29T12:00", "past year", "2023-02-28", "2024-02-29"),
        ("2026-02-15T12:00", "weekend", "2026-02-14", "2026-02-15"),
        ("2026-02-15T12:00", "last weekend", "2026-02-07", "2026-02-08"),
        ("2026-02-15T12:00", "a week ago", "2026-02-02", "2026-02-08"),
        ("2027-01-02T12:00", "week 53", "2026-12-28", "2027-01-03"),
    ],
)
def test_phrases_reach_over_the_ends_of_weeks_months_and_years(now: str, phrase: str, first: str, last: str) -> None:
    assert bounds(phrase, datetime.fromisoformat(now).replace(tzinfo=BERLIN)) == day_range(first, last)


def test_the_last_month_runs_up_to_now_and_last_month_is_one_of_the_calendar() -> None:
    found = find("deploys in the last month", NOW, BERLIN)
    assert found is not None
    assert (found[0].start_ms, found[0].end_ms) == bounds("past month") == day_range("2026-01-18", "2026-02-18")
    assert bounds("in last month") == day_range("2026-01-01", "2026-01-31")


def test_the_range_repeats_the_phrase_as_it_was_said() -> None:
    assert resolve("  Last \n Week ", NOW, BERLIN) == TimeRange("Last Week", *day_range("2026-02-09", "2026-02-15"))


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


@pytest.mark.parametrize(
    "phrase", ["25pm yesterday", "at 99:00 yesterday", "between 4pm and 2pm yesterday", "3pm last week"]
)
def test_hours_that_no_day_has_are_refused(phrase: str) -> None:
    with pytest.raises(UnknownTimePhrase):
        resolve(phrase, NOW, BERLIN)
