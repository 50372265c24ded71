"""Questions of time, asked as a user asks them, and answered in text that an agent reads."""

from __future__ import annotations

import re

import pytest

from mcp_memory.config import Settings
from tests.surfaces.client import ask, connected

pytestmark = pytest.mark.anyio
DATE = re.compile(r"^\d\. .*?(2026-\d\d-\d\d)", re.M)


async def told(settings: Settings, query: str, project: str | None = "*") -> str:
    async with connected(settings) as client:
        return await ask(client, "teleport", query=query, project=project)


async def test_what_was_done_in_a_time_is_told_in_the_order_it_was_done(settings: Settings) -> None:
    answer = await told(settings, "what did we do last month?")
    assert answer.startswith("Records in 'last month' = 2026-09-01 00:00 to 2026-09-30 23:59, in order of time:")
    dates = DATE.findall(await told(settings, "what did we do in October?"))
    assert len(set(dates)) > 2
    assert dates == sorted(dates)
    assert "get_node(node_id)" in answer


@pytest.mark.parametrize(
    ("query", "day", "first"),
    [
        ("what was the first thing we did in October?", "2026-10-05", "FIRST"),
        ("what was the last thing we did in October?", "2026-10-30", "LAST"),
        ("what did we do first?", "2026-09-28", "FIRST"),
        ("where did we leave off?", "2026-10-30", "LAST"),
        ("what did we do in the last session?", "2026-10-30", "LAST"),
        ("what were we working on?", "2026-10-30", "LAST"),
    ],
)
async def test_the_first_or_last_of_a_time_is_what_is_told_first(
    settings: Settings, query: str, day: str, first: str
) -> None:
    answer = await told(settings, query)
    assert DATE.findall(answer)[0] == day
    if first == "LAST":
        assert ", latest first:" in answer


@pytest.mark.parametrize("query", ["what's new?", "what did we do recently?", "what have I been up to lately?"])
async def test_recent_things_are_those_of_the_latest_days(settings: Settings, query: str) -> None:
    answer = await told(settings, query)
    assert "Records in 'the latest days' = " in answer
    assert DATE.findall(answer)[0] == "2026-10-30"


async def test_a_project_that_is_named_beside_a_time_is_where_one_looks(settings: Settings) -> None:
    answer = await told(settings, "what happened in tidepool-web in October?")
    assert "@tidepool-web" in answer
    assert "@tidepool-api" not in answer
    assert "toc:day:2026" in answer


async def test_a_question_for_a_date_is_told_one(settings: Settings) -> None:
    answer = await told(settings, "when did the deploy fail?")
    assert "The first is of Thursday, 2026-10-15, 16 days ago." in answer
    assert "is of" not in await told(settings, "why did the deploy fail?")


async def test_what_to_touch_means_is_not_looked_for(settings: Settings) -> None:
    answer = await told(settings, "when did we last talk about the rate limit?")
    assert "talk" not in answer.split("\n")[1]


async def test_outcomes_of_a_time_are_not_those_of_another(settings: Settings) -> None:
    answer = await told(settings, "what was decided between October 6 and October 16?")
    assert all("2026-10-06" <= day <= "2026-10-16" for day in DATE.findall(answer))


async def test_a_time_without_anything_tells_the_nearest_days(settings: Settings) -> None:
    async with connected(settings) as client:
        answer = await ask(client, "browse_time", when="October 3")
    assert "nothing is remembered. The nearest days: toc:day:2026-09-30" in answer
    assert "toc:day:2026-10-05" in answer


async def test_hours_without_anything_are_not_told_by_their_day(settings: Settings) -> None:
    answer = await told(settings, "what did we do on October 15 between 4am and 6am?")
    assert answer.startswith("No hit in 'October 15 between 4am and 6am' = 2026-10-15 04:00 to 2026-10-15 05:59")
    assert "The nearest days: toc:day:2026-10-12" in answer
    assert "toc:day:2026-10-15" in answer


async def test_a_time_that_holds_nothing_of_it_is_dropped_and_told_with_its_range(settings: Settings) -> None:
    answer = await told(settings, "what did we decide about the token bucket on October 3?")
    assert "Nothing was found in 'October 3' = 2026-10-03 00:00 to 2026-10-03 23:59, so all times" in answer
    assert "bucket" in answer
