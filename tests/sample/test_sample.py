"""The bundled history is complete, plausible and safe to show to anybody."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.events import EventType, Role
from mcp_memory.sample import lines
from tests.support import fewer_examples

WEEK = timedelta(weeks=1)
REQUIRED = {"session_id", "timestamp", "role", "text", "project", "source_id"}
SECRETS = (
    r"-----BEGIN", r"\bAKIA[0-9A-Z]{16}\b", r"\bgh[pousr]_\w{20}", r"\bsk-[\w-]{16}", r"\bxox[abp]-", r"\beyJ[\w-]{10}",
    r"://[^/\s:@]+:[^/\s@]+@", r"(?i)\b(password|passwd|secret|api_?key)\b\s*[:=]\s*\S", r"(?i)\bbearer\s+\w{8}",
    r"\b[0-9a-fA-F]{32,}\b", r"\w@[\w-]+\.[a-z]{2,}",
)  # fmt: skip


def at(line: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(line["timestamp"])


def sessions(told: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in told:
        grouped[line["session_id"]].append(line)
    return grouped


def test_there_is_enough_history_for_a_first_look() -> None:
    told = lines()
    assert len(told) >= 180
    assert len(sessions(told)) >= 8
    assert {line["project"] for line in told} == {"tidepool-api", "tidepool-web"}


def test_every_line_is_a_valid_line_of_the_generic_import() -> None:
    for line in lines():
        assert line.keys() >= REQUIRED
        assert line.keys() <= REQUIRED | {"event_type", "metadata"}
        assert Role(line["role"])
        assert "event_type" not in line or EventType(line["event_type"])
        assert line["timestamp"].endswith("Z")
        assert line["text"].strip() == line["text"] != ""


def test_source_ids_name_one_line_each() -> None:
    told = lines()
    assert len({line["source_id"] for line in told}) == len(told)


def test_a_session_stays_in_its_project_and_in_order() -> None:
    for session in sessions(lines()).values():
        assert len({line["project"] for line in session}) == 1
        assert all(at(left) < at(right) for left, right in zip(session, session[1:], strict=False))
        assert session[0]["event_type"] == "session_start"
        assert session[-1]["event_type"] == "session_end"
        assert {line["role"] for line in session} == {"user", "assistant", "tool", "system"}


def test_the_history_spans_five_weeks_on_workdays_over_the_end_of_a_month() -> None:
    moments = [at(line) for line in lines()]
    assert timedelta(weeks=4) < max(moments) - min(moments) < timedelta(weeks=5)
    assert {moment.month for moment in moments} == {9, 10}
    assert all(moment.weekday() < 5 and 6 <= moment.hour < 18 for moment in moments)


def test_some_sessions_pause_for_more_than_half_an_hour() -> None:
    pauses = [
        at(right) - at(left)
        for session in sessions(lines()).values()
        for left, right in zip(session, session[1:], strict=False)
    ]
    assert sum(pause > timedelta(minutes=30) for pause in pauses) >= 2


def test_two_sessions_run_in_parallel() -> None:
    spans = sorted((at(session[0]), at(session[-1])) for session in sessions(lines()).values())
    overlaps = [left for left, right in zip(spans, spans[1:], strict=False) if right[0] < left[1]]
    assert len(overlaps) == 1


def test_tool_results_begin_with_the_tool_and_what_it_was_given() -> None:
    results = [line for line in lines() if line["role"] == "tool"]
    assert results
    for line in results:
        assert re.match(r"(Bash|Edit|Read): \S", line["text"])
        assert line["text"].startswith(line["metadata"]["tool"] + ":")


@pytest.mark.parametrize("needle", ["横浜港", "Île-de-Bréhat", "refreshInFlight", "pg_advisory_xact_lock"])
def test_scripts_and_identifiers_worth_searching_are_there(needle: str) -> None:
    assert any(needle in line["text"] for line in lines())


@pytest.mark.parametrize("pattern", SECRETS)
def test_nothing_looks_like_a_secret_or_an_address(pattern: str) -> None:
    assert [line["source_id"] for line in lines() if re.search(pattern, line["text"])] == []


def test_no_path_leads_into_a_home_directory() -> None:
    home = re.compile(r"(?:^|[\s\"'(=])(?:/(?:home|Users|root|tmp)/|~/|[A-Z]:\\)")
    assert [line["source_id"] for line in lines() if home.search(line["text"])] == []


def test_without_now_the_history_never_changes() -> None:
    assert lines() == lines()
    assert lines()[0]["timestamp"].startswith("2026-09-28")


@given(
    st.datetimes(
        datetime(2020, 1, 1), datetime(2090, 1, 1), timezones=st.sampled_from([UTC, timezone(timedelta(hours=12))])
    )
)
@fewer_examples(1 / 4)
def test_the_history_moves_by_whole_weeks_into_the_last_seven_days(now: datetime) -> None:
    original, moved = lines(), lines(now)
    shifts = {at(after) - at(before) for before, after in zip(original, moved, strict=True)}
    assert len(shifts) == 1
    assert shifts.pop() % WEEK == timedelta()
    assert now - WEEK < max(map(at, moved)) <= now
    stripped = [[{**line, "timestamp": ""} for line in told] for told in (original, moved)]
    assert stripped[0] == stripped[1]
    assert all(line["timestamp"].endswith("Z") for line in moved)
