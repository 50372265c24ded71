"""The calendar of the table of contents: ids, parents, bounds and titles always agree."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.toc import (
    BULLETS,
    GRACE,
    Level,
    NodeRef,
    ancestors,
    covering,
    day_ref,
    first_day_of_month,
    first_day_of_year,
    local_day,
    parse_node_id,
    segment_ref,
    start_of_day_ms,
)
from mcp_memory.errors import BadId

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
ULID = "01HN4QXKN6YWXVKZ3JMHP4BCDE"
DAYS = st.dates(date(1971, 1, 1), date(2200, 12, 31))
ZONES = st.sampled_from(
    [ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Asia/Kathmandu")]
)
HOUR = 3_600_000


def ids(day: str) -> list[str]:
    return [node.node_id() for node in ancestors(NodeRef(Level.DAY, day))]


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2024-12-30", ["toc:week:2025-W01", "toc:month:2025-01", "toc:year:2025"]),
        ("2024-12-29", ["toc:week:2024-W52", "toc:month:2024-12", "toc:year:2024"]),
        ("2027-01-01", ["toc:week:2026-W53", "toc:month:2026-12", "toc:year:2026"]),
        ("2026-02-28", ["toc:week:2026-W09", "toc:month:2026-02", "toc:year:2026"]),
        ("2026-03-01", ["toc:week:2026-W09", "toc:month:2026-02", "toc:year:2026"]),
    ],
)
def test_a_day_belongs_to_the_month_and_year_of_its_weeks_thursday(day: str, expected: list[str]) -> None:
    assert ids(day) == expected


@pytest.mark.parametrize(
    ("node_id", "title", "first", "last"),
    [
        ("toc:day:2024-12-30", "Monday, December 30, 2024", "2024-12-30", "2024-12-30"),
        ("toc:week:2025-W01", "Week of December 30, 2024 – January 5, 2025", "2024-12-30", "2025-01-05"),
        ("toc:month:2025-01", "January 2025", "2024-12-30", "2025-02-02"),
        ("toc:year:2025", "2025", "2024-12-30", "2025-12-28"),
        ("toc:week:2026-W53", "Week of December 28, 2026 – January 3, 2027", "2026-12-28", "2027-01-03"),
        ("toc:month:2026-12", "December 2026", "2026-11-30", "2027-01-03"),
        ("toc:year:2026", "2026", "2025-12-29", "2027-01-03"),
        ("toc:week:2024-W03", "Week of January 15–21, 2024", "2024-01-15", "2024-01-21"),
        ("toc:week:2024-W05", "Week of January 29–February 4, 2024", "2024-01-29", "2024-02-04"),
    ],
)
def test_title_and_bounds_of_a_period_agree(node_id: str, title: str, first: str, last: str) -> None:
    ref, _ = parse_node_id(node_id)
    after = date.fromisoformat(last) + timedelta(days=1)
    assert (ref.title, ref.day, ref.end_day) == (title, date.fromisoformat(first), after)
    assert ref.bounds(BERLIN) == (start_of_day_ms(ref.day, BERLIN), start_of_day_ms(after, BERLIN))


@given(DAYS, ZONES)
def test_every_period_lies_inside_its_parent(day: date, zone: ZoneInfo) -> None:
    chain = [NodeRef(Level.DAY, day.isoformat()), *ancestors(NodeRef(Level.DAY, day.isoformat()))]
    assert [node.level for node in chain] == [Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR]
    for child, parent in zip(chain, chain[1:], strict=False):
        assert parent.bounds(zone)[0] <= child.bounds(zone)[0] < child.bounds(zone)[1] <= parent.bounds(zone)[1]
        assert covering(parent.level, child.day) == parent == covering(parent.level, child.end_day - timedelta(days=1))


@given(st.integers(1971, 2200))
def test_the_months_of_a_year_fill_it_with_whole_weeks(year: int) -> None:
    months = [NodeRef(Level.MONTH, f"{year}-{month:02d}") for month in range(1, 13)]
    assert (months[0].day, months[-1].end_day) == (first_day_of_year(year), first_day_of_year(year + 1))
    assert all(left.end_day == right.day for left, right in zip(months, months[1:], strict=False))
    assert all(month.day.weekday() == 0 for month in months)
    assert {(month.end_day - month.day).days for month in months} <= {28, 35}
    assert all(month.parent == NodeRef(Level.YEAR, str(year)) for month in months)


@given(DAYS)
def test_a_month_begins_with_the_week_of_its_first_thursday(day: date) -> None:
    first = first_day_of_month(day.year, day.month)
    thursday = first + timedelta(days=3)
    assert (thursday.year, thursday.month) == (day.year, day.month)
    assert thursday.day <= 7


@given(DAYS, st.sampled_from(list(Level)))
def test_every_id_is_read_back_as_the_node_that_wrote_it(day: date, level: Level) -> None:
    ref = NodeRef(level, f"{day.isoformat()}:{ULID}") if level is Level.SEGMENT else covering(level, day)
    assert parse_node_id(ref.node_id()) == (ref, None)
    assert parse_node_id(ref.node_id("tidepool-api")) == (ref, "tidepool-api")


@pytest.mark.parametrize(
    ("accepted", "emitted"),
    [
        ("toc:year:2024", "toc:year:2024"),
        ("toc:month:2024:01", "toc:month:2024-01"),
        ("toc:month:2024-01", "toc:month:2024-01"),
        ("toc:week:2024:W03", "toc:week:2024-W03"),
        ("toc:week:2024-w03", "toc:week:2024-W03"),
        ("toc:day:2024:01:15", "toc:day:2024-01-15"),
        (" TOC:Day:2024-01-15 ", "toc:day:2024-01-15"),
        (f"toc:segment:2024-01-15:{ULID.lower()}", f"toc:segment:2024-01-15:{ULID}"),
        (f"toc:segment:2024:01:15:{ULID}", f"toc:segment:2024-01-15:{ULID}"),
    ],
)
def test_both_forms_of_an_id_are_accepted_and_the_first_is_emitted(accepted: str, emitted: str) -> None:
    assert parse_node_id(accepted)[0].node_id() == emitted


@pytest.mark.parametrize(
    "text",
    ["", "toc", "toc:", "toc:day", "toc:day:", "toc:hour:2024", "node:day:2024-01-15", "toc:day:2024-01",
     "toc:day:2024-1-15",
     "toc:day:2024-02-30", "toc:month:2024-13", "toc:month:2024-00", "toc:week:2024-W53", "toc:week:2024-W00",
     "toc:year:0000", "toc:year:9999", "toc:day:9999-12-31", "toc:day:9999-12-28", "toc:year:24", "toc:year:２０２４",
     "toc:day:2024-01-15@a b", f"toc:segment:2024-02-30:{ULID}", "toc:segment:2024-01-15:short"],
)  # fmt: skip
def test_what_is_no_id_is_refused_with_help(text: str) -> None:
    with pytest.raises(BadId, match=r"Ids look like toc:year:2024.*toc_root"):
        parse_node_id(text)


def test_a_segment_id_with_a_broken_ulid_is_refused() -> None:
    with pytest.raises(BadId, match="is not a ULID"):
        parse_node_id(f"toc:segment:2024-01-15:{ULID[:-1]}U")


@given(st.text(max_size=40) | st.text(max_size=20).map("toc:day:".__add__))
def test_any_text_is_an_id_or_a_bad_id(text: str) -> None:
    try:
        ref, _ = parse_node_id(text)
    except BadId:
        return
    assert ref.node_id().isascii()


@pytest.mark.parametrize(
    ("day", "zone", "hours"),
    [
        ("2024-03-31", BERLIN, 23),
        ("2024-10-27", BERLIN, 25),
        ("2024-03-10", NEW_YORK, 23),
        ("2024-11-03", NEW_YORK, 25),
        ("2024-06-01", BERLIN, 24),
    ],
)
def test_a_day_is_as_long_as_the_local_clocks_make_it(day: str, zone: ZoneInfo, hours: int) -> None:
    start, end = NodeRef(Level.DAY, day).bounds(zone)
    assert end - start == hours * HOUR
    week = covering(Level.WEEK, date.fromisoformat(day)).bounds(zone)
    assert week[1] - week[0] == (6 * 24 + hours) * HOUR


@pytest.mark.parametrize(
    ("day", "zone", "first_instant"),
    [
        # Midnight does not exist: the clock jumps from 23:59 to 01:00.
        ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00:00+00:00"),
        # Midnight comes twice: the day begins with the first.
        ("2024-11-03", "America/Havana", "2024-11-03T04:00:00+00:00"),
    ],
)
def test_a_day_begins_at_its_first_instant(day: str, zone: str, first_instant: str) -> None:
    start = start_of_day_ms(date.fromisoformat(day), ZoneInfo(zone))
    assert start == round(datetime.fromisoformat(first_instant).timestamp() * 1000)
    assert local_day(start, ZoneInfo(zone)) == date.fromisoformat(day)
    assert local_day(start - 1, ZoneInfo(zone)) == date.fromisoformat(day) - timedelta(days=1)


@given(st.integers(31_536_000_000, 7_289_654_400_000), ZONES)
def test_every_instant_lies_in_the_day_that_holds_it(timestamp_ms: int, zone: ZoneInfo) -> None:
    ref = day_ref(timestamp_ms, zone)
    assert ref.bounds(zone)[0] <= timestamp_ms < ref.bounds(zone)[1]
    segment = segment_ref(timestamp_ms, zone, ULID)
    assert segment.parent == ref
    assert (segment.day, segment.end_day) == (ref.day, ref.end_day)


def test_a_node_id_of_another_project_carries_its_slug() -> None:
    assert NodeRef(Level.DAY, "2024-01-15").node_id("tidepool-api") == "toc:day:2024-01-15@tidepool-api"


def test_levels_are_ordered_from_the_root_down_and_know_their_sizes() -> None:
    assert sorted(Level) == [Level.YEAR, Level.MONTH, Level.WEEK, Level.DAY, Level.SEGMENT]
    assert set(BULLETS) == set(Level)
    assert all(0 < low <= high for low, high in BULLETS.values())
    assert set(GRACE) == set(Level) - {Level.SEGMENT}
