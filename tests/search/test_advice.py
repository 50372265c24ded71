"""What is offered when little or nothing was found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.app import App
from mcp_memory.search.retrieval import slips
from tests.support import learn, memory, said

pytestmark = pytest.mark.anyio


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    lines = [
        said("The limiter is a token bucket of 300 per kiosk.", "2026-03-02T09:00:00Z"),
        said("Agreed, a bucket per kiosk.", "2026-03-02T09:01:00Z", role="assistant"),
        said("The heap grows on the gauge page.", "2026-03-09T09:00:00Z", session="s2", project="beta"),
    ]
    async with memory(tmp_path) as app:
        await learn(app, lines)
        yield app


async def told(app: App, query: str, project: str = "alpha", when: str | None = None) -> str:
    return (await app.answers.teleport(query, project, when, limit=5, budget=400))[1].text


async def test_an_unknown_word_is_answered_with_known_ones_spelled_almost_so(app: App) -> None:
    found, page = await app.answers.teleport("bukcet", "alpha", limit=5, budget=400)
    assert not found.hits
    assert found.advice is not None
    assert dict(found.advice.near) == {"bukcet": ("bucket",)}
    assert "bukcet (near: bucket)" in page.text


async def test_a_verb_with_its_particle_is_one_unknown_word(app: App) -> None:
    found, _ = await app.answers.teleport("rollback", "alpha", limit=5, budget=400)
    assert found.advice is not None
    assert dict(found.advice.near) == {"rollback": ()}


async def test_every_suggestion_is_a_word_that_finds_something(app: App) -> None:
    found, _ = await app.answers.teleport("tokne kisok bukkets", "alpha", limit=5, budget=400)
    assert found.advice is not None
    assert set(found.advice.near) == {"tokne", "kisok", "bukkets"}
    for others in found.advice.near.values():
        assert others
        for word in others:
            assert (await app.answers.search(word, "*"))[0].hits


async def test_a_weak_answer_names_the_word_that_may_be_a_slip(app: App) -> None:
    text = await told(app, "limiter bukcet xylophone quicksand harbour ferries timetable")
    assert "Nowhere in memory: bukcet (near: bucket)." in text
    assert "1. " in text


async def test_a_good_answer_is_left_alone(app: App) -> None:
    text = await told(app, "token bucket per kiosk")
    assert "Nowhere" not in text
    assert "Other projects" not in text


async def test_other_projects_and_the_latest_days_are_offered(app: App) -> None:
    text = await told(app, "gauge heap")
    assert "Other projects have hits: beta (" in text
    nothing = await told(app, "zeppelin")
    assert "toc:day:2026-03-02@alpha" in nothing


async def test_a_hit_outside_of_the_time_is_named_by_its_day(app: App) -> None:
    text = await told(app, "token bucket", when="2026-05-01")
    assert "No hit in '2026-05-01'" in text
    assert "2026-03-02" in text


async def test_a_time_in_which_nothing_was_said_is_answered_with_the_days_nearest_to_it(tmp_path: Path) -> None:
    days = ("2026-01-05", "2026-02-02", "2026-04-06", "2026-05-04")
    async with memory(tmp_path / "days") as app:
        await learn(app, [said("The limiter is a bucket.", f"{day}T09:00:00Z", session=day) for day in days])
        text = await told(app, "what did we do in March?")
        assert "The nearest days: toc:day:2026-02-02@alpha, toc:day:2026-04-06@alpha" in text
        late = await told(app, "what did we do in the last week of May?")
        assert "The nearest days: toc:day:2026-05-04@alpha;" in late


async def test_a_time_that_was_dropped_is_not_among_the_missing_words(app: App) -> None:
    found, page = await app.answers.teleport("token bucket per kiosk on 2026-01-07", "alpha", limit=5, budget=400)
    assert "Nothing was found in '2026-01-07' = 2026-01-07 00:00 to 2026-01-07 23:59, so all times" in page.text
    assert not found.hits[0].missing


async def test_a_date_that_is_a_word_of_the_matter_is_still_looked_for(tmp_path: Path) -> None:
    async with memory(tmp_path / "dates") as app:
        lines = [
            said("The fixture 2025-01-07 is wrong.", "2026-03-02T09:00:00Z"),
            said("Mend it.", "2026-03-02T09:01:00Z"),
        ]
        await learn(app, lines)
        found, _ = await app.answers.teleport("which fixture of 2025-01-07 is wrong?", "alpha", limit=5, budget=400)
        assert "2025-01-07" in found.hits[0].matched


async def test_a_hit_outside_of_a_time_that_is_only_preferred_does_not_pass_for_one_within(tmp_path: Path) -> None:
    async with memory(tmp_path / "times") as app:
        lines = [
            said("The limiter is a bucket.", "2026-03-02T09:00:00Z"),
            said("A bucket of paint.", "2026-05-04T09:00:00Z"),
        ]
        await learn(app, lines)
        both = await told(app, "limiter bucket in May")
        assert "best first, preferring those in 'May' = 2026-05-01" in both


async def test_past_the_end_of_the_list_it_says_so_and_names_no_other_project(app: App) -> None:
    found, page = await app.answers.teleport("token bucket", "alpha", limit=5, budget=400, cursor="at:40")
    assert page.text.startswith("No hit for 'token bucket'. The list ends before this cursor.")
    assert found.elsewhere == {}
    assert "Other projects" not in page.text


async def test_an_empty_memory_has_no_advice_to_give(tmp_path: Path) -> None:
    async with memory(tmp_path / "empty") as empty:
        assert "No hit" in (await empty.answers.teleport("anything", limit=5, budget=400))[1].text


@pytest.mark.parametrize("slip", ["tokne", "toke", "tokken", "tomen", "otken", "tokens"])
def test_a_word_is_among_the_slips_of_its_own_slips(slip: str) -> None:
    assert "token" in slips(slip)


@pytest.mark.parametrize("word", ["id", "abc", "naïve", "a-b-c", "x" * 40])
def test_words_that_cannot_be_told_by_their_other_letters_have_none(word: str) -> None:
    assert slips(word) == []


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=4, max_size=24))
def test_the_work_is_bounded_by_the_length_of_the_word(word: str) -> None:
    found = slips(word)
    assert word not in found
    assert len(found) == len(set(found)) <= 54 * len(word) + 26
