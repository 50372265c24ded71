"""What holds for every time phrase, whatever is said and whenever."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.errors import UnknownTimePhrase
from mcp_memory.times.resolve import RULES, resolve
from tests.times.test_resolve import BERLIN, NEW_YORK, bounds, day_range, local

WORDS = (
    "last this past previous week month year quarter weekend day days ago two 3 15th 31 2024 2024-01-15 2024-W03 jan "
    "february may monday sun the of in on since until before after between and to .. - – first end early mid late "
    "morning night yesterday today christmas eve new year's a couple few q3 9999 0 , . ? @ toc:day:2024-01-15 10:00"
).split()
#: Phrases of each rule that there is.
RULED = st.sampled_from(RULES).flatmap(lambda rule: st.from_regex(rule.pattern, fullmatch=True))
TEXTS = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), RULED)
MOMENTS = st.datetimes(datetime(1975, 1, 1), datetime(2150, 1, 1), timezones=st.sampled_from([UTC, BERLIN, NEW_YORK]))


@given(phrase=TEXTS, now=MOMENTS)
def test_any_text_gives_a_range_in_order_or_the_one_error(phrase: str, now: datetime) -> None:
    try:
        found = resolve(phrase, now, NEW_YORK)
    except UnknownTimePhrase:
        return
    assert 0 <= found.start_ms < found.end_ms


@given(day=st.dates(date(1971, 1, 4), date(2149, 12, 31)))
def test_every_written_form_of_a_date_means_that_day(day: date) -> None:
    expected = day_range(day.isoformat(), day.isoformat())
    month = day.strftime("%B")
    forms = (f"{month} {day.day}, {day.year}", f"{day.day} {month[:3]} {day.year}", day.isoformat())
    assert {bounds(form) for form in forms} == {expected}
    same_day = datetime(day.year, day.month, day.day, 12, tzinfo=BERLIN)
    assert bounds(f"{month} {day.day}", same_day) == expected


@given(
    day=st.dates(date(1975, 1, 1), date(2149, 12, 31)),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Auckland", "UTC"]).map(
        ZoneInfo
    ),
)
def test_a_day_runs_from_midnight_to_midnight_in_every_zone(day: date, zone: ZoneInfo) -> None:
    start, end = bounds(day.isoformat(), zone=zone)
    after = day + timedelta(days=1)
    assert (start, end) == (local(day.isoformat(), zone), local(after.isoformat(), zone))
    hours = sum(
        bounds(f"{day} {part}", zone=zone)[1] - bounds(f"{day} {part}", zone=zone)[0]
        for part in ("before noon", "after noon")
    )
    assert hours == end - start
