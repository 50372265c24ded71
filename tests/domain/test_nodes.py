"""Nodes: bullets that know their kind, grips whose ids follow from what they hold, and excerpts found again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.events import ulid
from mcp_memory.domain.nodes import (
    Bullet,
    Grip,
    Kind,
    event_grip_id,
    fitting,
    foremost,
    grip_id,
    grip_key,
    locate,
    parse_grip_id,
)
from mcp_memory.errors import BadId

TIMES = st.integers(-62_135_596_800_000, (1 << 48) - 1)
KEYS = st.binary(min_size=10, max_size=10)


@given(TIMES, KEYS, st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_grip_id_gives_back_its_time_and_key(timestamp_ms: int, event: bytes, start: int, length: int) -> None:
    key = grip_key(event, start, start + length)
    grip = Grip(key, timestamp_ms, event, start, start + length, "x" * length, event, event)
    assert grip.grip_id == f"grip:{timestamp_ms}:{ulid(timestamp_ms, key)}"
    assert parse_grip_id(grip.grip_id) == (timestamp_ms, key, None)


def test_the_same_place_always_gets_the_same_grip_and_another_place_another() -> None:
    event, other = b"e" * 10, b"f" * 10
    keys = {grip_key(event, 1, 20), grip_key(event, 12, 0), grip_key(event, 1, 21), grip_key(other, 1, 20)}
    assert len(keys) == 4
    assert grip_key(event, 1, 20) in keys


def test_a_whole_event_is_gripped_by_its_own_key() -> None:
    assert parse_grip_id(event_grip_id(1_705_330_800_000, b"0123456789")) == (1_705_330_800_000, b"0123456789", None)


def test_a_grip_id_may_name_another_project_and_be_typed_in_any_case() -> None:
    text = grip_id(1_705_330_800_000, b"0123456789")
    assert parse_grip_id(f" {text.upper()}@tidepool-api ") == (1_705_330_800_000, b"0123456789", "tidepool-api")


@pytest.mark.parametrize(
    "text",
    ["", "grip:", "grip:12:short", "toc:day:2024-01-15", "grip:x:01HN4QXKN6YWXVKZ3JMHP4BCDE",
     "grip:1705330800000:01HN4QXKN6YWXVKZ3JMHP4BCDE@", "grip:1705330800000:01HN4QXKN6YWXVKZ3JMHP4BCDE@a b",
     "grip:1234567890123456:01HN4QXKN6YWXVKZ3JMHP4BCDE"],
)  # fmt: skip
def test_what_is_no_grip_id_is_refused_with_help(text: str) -> None:
    with pytest.raises(BadId, match=r"is not a grip id.*grip:1705330800000:.*get_node"):
        parse_grip_id(text)


def test_a_grip_id_with_a_broken_ulid_is_refused() -> None:
    with pytest.raises(BadId, match="is not a ULID"):
        parse_grip_id("grip:1705330800000:01HN4QXKN6YWXVKZ3JMHP4BCDU")


def test_an_excerpt_that_stands_where_it_stood_is_exact() -> None:
    assert locate("we chose a lock over a queue", "a lock", 9, 15) == ("exact", 9, 15)


def test_an_excerpt_that_stands_elsewhere_has_moved() -> None:
    assert locate("after all, we chose a lock", "a lock", 9, 15) == ("moved", 20, 26)


def test_an_excerpt_that_stands_nowhere_is_gone() -> None:
    assert locate("we chose a queue", "a lock", 9, 15) == ("gone", 0, 0)


def test_offsets_count_characters_whatever_the_script() -> None:
    text = "潮汐表の時刻がずれる 🌊 — réservé à l’été"
    start = text.index("réservé")
    assert locate(text, "réservé", start, start + 7) == ("exact", start, start + 7)
    assert locate("🌊" + text, "réservé", start, start + 7) == ("moved", start + 1, start + 8)
    assert locate(text, "reserve", start, start + 7) == ("gone", 0, 0)


@given(before=st.text(max_size=30), excerpt=st.text(min_size=1, max_size=30), after=st.text(max_size=30))
def test_whatever_is_found_is_the_excerpt_itself(before: str, excerpt: str, after: str) -> None:
    text = before + excerpt + after
    start, end = len(before), len(before) + len(excerpt)
    assert locate(text, excerpt, start, end) == ("exact", start, end)
    state, found_start, found_end = locate("¶" + text, excerpt, start, end)
    assert state in ("exact", "moved")
    assert ("¶" + text)[found_start:found_end] == excerpt


def test_a_bullet_is_shown_with_the_label_of_its_kind() -> None:
    assert Bullet("Rename the job", kind=Kind.REQUEST).shown == "Asked: Rename the job"
    assert Bullet("The job is renamed", kind=Kind.OUTCOME).shown == "The job is renamed"


def test_a_kind_is_known_by_its_name_and_an_unknown_one_is_a_plain_statement() -> None:
    assert all(Kind(kind.value) is kind for kind in Kind)
    assert Kind("prophecy") is Kind.STATED


def test_a_title_that_is_too_long_loses_its_names_before_its_themes_and_stays_so_far() -> None:
    title = "Coupons expire in UTC; Labels of crates · coupons.py, labels.py (so far)"
    assert fitting(title, 80) == title
    assert fitting(title, 65) == "Coupons expire in UTC; Labels of crates · coupons.py (so far)"
    assert fitting(title, 60) == fitting(title, 9) == "Coupons expire in UTC; Labels of crates (so far)"
    assert fitting("Coupons expire in UTC", 10) == "Coupons expire in UTC"


def test_the_foremost_bullets_are_those_of_the_weightiest_kinds_in_their_order() -> None:
    asked, done, noted = Bullet("a", kind=Kind.REQUEST), Bullet("b", kind=Kind.OUTCOME), Bullet("c", kind=Kind.NOTE)
    assert foremost([asked, done, noted], 2) == [done, noted]
    assert foremost([asked, done], 5) == [asked, done]
    assert foremost([asked], 0) == []
