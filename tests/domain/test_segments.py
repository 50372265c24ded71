"""Cutting a session's events into segments."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.capture.redaction import Clean
from mcp_memory.domain.events import Event, EventType, Role, event_key, parse_ulid, ulid
from mcp_memory.domain.segments import (
    FOLLOWING,
    Cut,
    Mark,
    Rules,
    corrections_after,
    cut,
    mark_of,
    parted,
    segment_key,
)

RULES = Rules()
MINUTE = 60_000
LATER = 10**15


def mark(minute: float, tokens: int = 10, *, ends_session: bool = False, task: bool = False) -> Mark:
    at = round(minute * MINUTE)
    return Mark(at.to_bytes(10, "big", signed=True), at, tokens, ends_session, asks=task, opens_task=task)


def said(number: int, text: str, *, by_user: bool = True) -> Mark:
    return mark_of(bytes([number] * 10), number * MINUTE, 10, number, text, by_user)


def parts(cuts: list[Cut]) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in cuts]


def test_no_events_make_no_segment() -> None:
    assert cut([], RULES, now_ms=LATER) == []


def test_a_lone_event_makes_one_segment() -> None:
    assert cut([mark(0)], RULES, now_ms=LATER) == [Cut(0, 1, 0, closed=True)]


def test_a_pause_of_exactly_thirty_minutes_does_not_cut() -> None:
    assert parts(cut([mark(0), mark(30)], RULES, now_ms=LATER)) == [(0, 2)]


def test_a_pause_of_a_millisecond_more_cuts() -> None:
    marks = [mark(0), mark(30 + 1 / MINUTE)]
    assert marks[1].timestamp_ms == 1_800_001
    assert parts(cut(marks, RULES, now_ms=LATER)) == [(0, 1), (1, 2)]


def test_a_segment_holds_exactly_four_thousand_tokens_and_not_one_more() -> None:
    assert parts(cut([mark(0, 2_000), mark(1, 2_000)], RULES, now_ms=LATER)) == [(0, 2)]
    assert parts(cut([mark(0, 2_000), mark(1, 2_001)], RULES, now_ms=LATER)) == [(0, 1), (1, 2)]


def test_a_huge_event_is_a_segment_of_its_own() -> None:
    marks = [mark(0), mark(1, 10_000), mark(2)]
    assert parts(cut(marks, RULES, now_ms=LATER)) == [(0, 1), (1, 2), (2, 3)]


def test_a_task_that_the_user_begins_ends_a_segment_that_is_full_enough() -> None:
    marks = [mark(0, task=True), mark(1, 990), mark(2, task=True), mark(3)]
    assert parts(cut(marks, RULES, now_ms=LATER)) == [(0, 2), (2, 4)]


def test_a_short_segment_goes_on_with_the_next_task() -> None:
    marks = [mark(0, task=True), mark(1, 900), mark(2, task=True), mark(3)]
    assert parts(cut(marks, RULES, now_ms=LATER)) == [(0, 4)]


def test_what_is_said_in_two_messages_is_one_task() -> None:
    marks = [mark(0, 2_000), mark(1, task=True), mark(2, task=True), mark(3)]
    assert parts(cut(marks, RULES, now_ms=LATER)) == [(0, 1), (1, 4)]


def test_the_share_of_a_segment_that_is_full_enough_follows_its_limit() -> None:
    marks = [mark(0, task=True), mark(1, 240), mark(2, task=True)]
    assert len(cut(marks, Rules(max_tokens=1_000), now_ms=LATER)) == 2
    assert len(cut(marks, RULES, now_ms=LATER)) == 1


@pytest.mark.parametrize(
    ("text", "opens"),
    [
        ("Now add a dark theme to the settings page of the shop.", True),
        ("Baue bitte als Nächstes den Export der Rechnungen um.", True),
        ("yes", False),
        ("yes please, go ahead with both of them, sounds good", False),
        ("No, the export is fine, the import is what breaks here.", False),
        ("Rename it", False),
        ("", False),
    ],
)
def test_a_task_is_begun_by_more_than_a_nod_or_a_correction(text: str, opens: bool) -> None:
    assert said(1, text).opens_task is opens
    assert not said(1, text, by_user=False).opens_task


@pytest.mark.parametrize(
    ("text", "by_user", "corrects"),
    [
        ("no, the queue is fine", True, True),
        ("hm, that's not what I meant", True, True),
        ("Nein, die Tabelle heißt anders.", True, True),
        ("no problem", True, False),
        ("Add a retry to the queue.", True, False),
        ("You're right, the queue is fine.", False, True),
        ("You are right about the queue", True, False),
        ("No rows are left in the queue.", False, False),
    ],
)
def test_users_correct_by_contradicting_and_assistants_by_admitting(text: str, by_user: bool, corrects: bool) -> None:
    found = said(1, text, by_user=by_user)
    assert found.corrects is corrects
    assert found.asks is by_user


def test_only_corrections_in_the_users_next_messages_change_what_holds() -> None:
    nods = [said(number, "Go on with the next one of them, please.") for number in range(2, 8)]
    wrong = said(9, "no, that is wrong")
    first = said(1, "Sort the menu by season.")
    assert corrections_after([first, *nods[: FOLLOWING - 1], wrong], 1) == [wrong]
    assert corrections_after([first, *nods[:FOLLOWING], wrong], 1) == []
    assert corrections_after([wrong, first], 1) == []
    assert corrections_after([first], 1) == []


def test_context_is_parted_into_what_stands_before_and_what_follows() -> None:
    events = [
        Event(event_key("test", "s", str(number)), "test", "s", "p", number, EventType.NOTE, Role.USER, Clean("x"), 1)
        for number in range(6)
    ]
    own = events[2:4]
    assert parted(own, [*events[:2], *events[4:]]) == (events[:2], events[4:])
    assert parted(own, events) == (events[:2], events[4:])
    assert parted(own, []) == ([], [])
    assert parted([], events[:1]) == (events[:1], [])


def test_the_end_of_a_session_cuts_even_if_it_goes_on_at_once() -> None:
    marks = [mark(0), mark(1, ends_session=True), mark(2)]
    assert parts(cut(marks, RULES, now_ms=LATER)) == [(0, 2), (2, 3)]


@pytest.mark.parametrize(("minutes_since", "closed"), [(0, False), (30, False), (30 + 1 / MINUTE, True)])
def test_the_last_segment_stays_open_until_the_pause_is_long_enough(minutes_since: float, closed: bool) -> None:
    now_ms = 5 * MINUTE + round(minutes_since * MINUTE)
    assert cut([mark(0), mark(5)], RULES, now_ms)[-1].closed is closed


def test_the_end_of_a_session_closes_its_last_segment_at_once() -> None:
    assert cut([mark(0), mark(1, ends_session=True)], RULES, now_ms=MINUTE)[-1].closed


def test_all_but_the_last_segment_are_closed() -> None:
    cuts = cut([mark(0), mark(40), mark(80)], RULES, now_ms=80 * MINUTE)
    assert [each.closed for each in cuts] == [True, True, False]


def test_context_reaches_back_five_minutes() -> None:
    marks = [mark(0), mark(4.99), mark(5), mark(10, 4_000)]
    assert parts(cuts := cut(marks, RULES, now_ms=LATER)) == [(0, 3), (3, 4)]
    assert cuts[1].context == 2


def test_context_holds_at_most_five_hundred_tokens() -> None:
    marks = [mark(0, 250), mark(1, 250), mark(2, 250), mark(3, 4_000)]
    assert cut(marks, RULES, now_ms=LATER)[1].context == 1
    marks[1] = mark(1, 251)
    assert cut(marks, RULES, now_ms=LATER)[1].context == 2


def test_a_segment_after_a_pause_has_no_context() -> None:
    assert cut([mark(0), mark(31)], RULES, now_ms=LATER)[1].context == 1


def test_context_is_not_counted_into_the_segment() -> None:
    marks = [mark(0, 3_600), mark(1, 400), mark(2, 3_700), mark(3, 300)]
    cuts = cut(marks, RULES, now_ms=LATER)
    assert parts(cuts) == [(0, 2), (2, 4)]
    assert cuts[1].context == 1


def test_a_segment_is_named_by_its_session_and_first_event() -> None:
    first, other = mark(0).key, mark(40).key
    key = segment_key(b"session", first)
    assert len({key, segment_key(b"session", other), segment_key(b"other", first)}) == 3
    assert parse_ulid(ulid(1_705_330_800_000, key)) == (1_705_330_800_000, key)


@st.composite
def sessions(draw: st.DrawFn) -> list[Mark]:
    gaps = draw(st.lists(st.sampled_from([0, 1, MINUTE, 5 * MINUTE, 30 * MINUTE, 30 * MINUTE + 1]), max_size=25))
    tokens = st.sampled_from([0, 1, 100, 250, 500, 501, 1_500, 4_000, 4_001, 10_000])
    rarely = st.sampled_from([False] * 9 + [True])
    return [
        Mark(index.to_bytes(10, "big"), at, draw(tokens), draw(rarely), opens_task=draw(st.booleans()))
        for index, at in enumerate(accumulate(gaps))
    ]


@given(sessions(), st.integers(0, 10**8))
def test_every_event_is_in_exactly_one_segment_in_order(marks: list[Mark], now_ms: int) -> None:
    cuts = cut(marks, RULES, now_ms)
    assert [index for each in cuts for index in range(each.first, each.last)] == list(range(len(marks)))
    assert all(each.first < each.last for each in cuts)
    assert all(each.closed for each in cuts[:-1])


@given(sessions())
def test_no_segment_breaks_the_rules(marks: list[Mark]) -> None:
    for each in cut(marks, RULES, now_ms=LATER):
        inside, context = marks[each.first : each.last], marks[each.context : each.first]
        assert len(inside) == 1 or sum(one.tokens for one in inside) <= 4_000
        assert not any(one.ends_session for one in inside[:-1])
        pauses = [right.timestamp_ms - left.timestamp_ms for left, right in zip(inside, inside[1:], strict=False)]
        assert all(pause <= 30 * MINUTE for pause in pauses)
        assert sum(one.tokens for one in context) <= 500
        assert all(inside[0].timestamp_ms - one.timestamp_ms <= 5 * MINUTE for one in context)


@given(sessions())
def test_every_boundary_has_a_reason(marks: list[Mark]) -> None:
    cuts = cut(marks, RULES, now_ms=LATER)
    for left, right in zip(cuts, cuts[1:], strict=False):
        before, after = marks[left.last - 1], marks[right.first]
        tokens = sum(one.tokens for one in marks[left.first : left.last])
        paused = after.timestamp_ms - before.timestamp_ms > 30 * MINUTE
        other_task = after.opens_task and not before.opens_task and tokens >= 1_000
        assert before.ends_session or paused or other_task or tokens + after.tokens > 4_000


@given(sessions())
def test_cutting_on_from_any_earlier_boundary_gives_the_same_segments(marks: list[Mark]) -> None:
    cuts = cut(marks, RULES, now_ms=LATER)
    for index, each in enumerate(cuts):
        assert cut(marks, RULES, now_ms=LATER, start=each.first) == cuts[index:]


@given(sessions(), st.integers(0, 25))
def test_later_events_change_only_the_last_segment(marks: list[Mark], length: int) -> None:
    earlier, whole = cut(marks[:length], RULES, now_ms=LATER), cut(marks, RULES, now_ms=LATER)
    assert earlier[:-1] == whole[: max(len(earlier) - 1, 0)]
