"""What is offered when little or nothing was found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_memory.app import App
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
    return (await app.answers.teleport(query, project, when, None, 5, 400, None))[1].text


async def test_an_unknown_word_is_answered_with_known_ones_spelled_almost_so(app: App) -> None:
    found, page = await app.answers.teleport("bukcet", "alpha", None, None, 5, 400, None)
    assert not found.hits
    assert found.advice is not None
    assert dict(found.advice.near) == {"bukcet": ("bucket",)}
    assert "bukcet (near: bucket)" in page.text


async def test_a_verb_with_its_particle_is_one_unknown_word(app: App) -> None:
    found, _ = await app.answers.teleport("rollback", "alpha", None, None, 5, 400, None)
    assert found.advice is not None
    assert dict(found.advice.near) == {"rollback": ()}


async def test_every_suggestion_is_a_word_that_finds_something(app: App) -> None:
    found, _ = await app.answers.teleport("tokne kisok bukkets", "alpha", None, None, 5, 400, None)
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


async def test_an_empty_memory_has_no_advice_to_give(tmp_path: Path) -> None:
    async with memory(tmp_path / "empty") as empty:
        assert "No hit" in (await empty.answers.teleport("anything", None, None, None, 5, 400, None))[1].text
