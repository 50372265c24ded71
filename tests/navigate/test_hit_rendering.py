"""How hits are told: the best at length, the others in a line each, all of them within the room."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.models import tokens
from tests.support import learn, memory, said

pytestmark = pytest.mark.anyio
UUID = "0a76fbfe-d767-433e-b4b1-a39e044f21e8"
FILLER = "Some more words about nothing in particular. " * 40
LONG = f"{FILLER}The harbour gate opens at a tide of 3.4 metres. {FILLER}"


@pytest.fixture
async def harbour(tmp_path: Path) -> AsyncIterator[App]:
    """One clear message about the gate, deep in a long text, and others that only touch it."""
    lines = [
        said(LONG, "2026-03-02T09:00:00Z", role="assistant", session=UUID),
        said("The gate needs paint.", "2026-03-03T09:00:00Z", session=UUID),
        said("A tide table is printed for the harbour office.", "2026-03-03T09:05:00Z", session=UUID),
        said("Metres, not feet, everywhere.", "2026-03-09T09:00:00Z", session="notes"),
    ]
    async with memory(tmp_path) as app:
        await learn(app, lines)
        yield app


async def hits_of(app: App, budget: int, limit: int = 5) -> str:
    return (await app.answers.teleport("harbour gate tide metres", "*", limit=limit, budget=budget))[1].text


async def test_the_passage_is_the_one_that_matters_wherever_it_stands(harbour: App) -> None:
    for budget in (200, 400, 1_000):
        assert "opens at a tide of 3.4 metres" in await hits_of(harbour, budget)


async def test_a_hit_names_its_date_session_role_and_where_to_go_on(harbour: App) -> None:
    lines = (await hits_of(harbour, 600)).splitlines()
    assert re.fullmatch(r"1\. \d\.\d\d \w+ · 2026-03-02 09:00 assistant s:0a76fbfe · grip:\d+:\w{26}\+\d+", lines[1])
    others = [line for line in lines[2:] if re.match(r"\d\. ", line)]
    assert others
    assert all(re.match(r"\d\. \d\.\d\d .*(user|assistant).* (grip:\w{8}(\+\d+)?|toc:\S+) ", line) for line in others)


@pytest.mark.parametrize(("budget", "limit"), [(1_000, 5), (220, 10)])
async def test_every_hit_names_its_date_and_session_and_no_line_stands_twice(
    harbour: App, budget: int, limit: int
) -> None:
    lines = (await hits_of(harbour, budget, limit)).splitlines()[1:-1]
    found = [line for line in lines if re.match(r"\d+\. ", line)]
    assert found
    assert all(re.search(r"2026-03-\d\d .*s:(0a76fbfe|notes) ", line) for line in found)
    assert len(set(lines)) == len(lines)


async def test_every_id_shown_can_be_opened(harbour: App) -> None:
    for budget, limit in ((600, 5), (120, 10)):
        names = re.findall(r"grip:\S+", await hits_of(harbour, budget, limit))
        names = [name.rstrip("]") for name in names if "grip_id" not in name]
        assert names
        for name in names:
            assert "exact" in (await harbour.answers.expand_grip(name, 0, 0, 400)).text


async def test_a_long_message_is_opened_at_the_place_that_matters(harbour: App) -> None:
    name = re.findall(r"grip:\d+:\S+", await hits_of(harbour, 400))[0]
    whole, _, _ = name.partition("+")
    assert "3.4 metres" in (await harbour.answers.expand_grip(name, 0, 0, 300)).text
    assert "3.4 metres" not in (await harbour.answers.expand_grip(whole, 0, 0, 300)).text


async def test_more_room_means_longer_passages_and_is_never_overspent(harbour: App) -> None:
    spent = []
    for budget in (80, 150, 300, 600, 1_200):
        text = await hits_of(harbour, budget)
        assert tokens.count(text) <= budget
        spent.append(tokens.count(text))
    assert spent == sorted(spent)
    assert spent[-1] > 2 * spent[1]


@pytest.mark.parametrize("typed", [False, True])
async def test_hits_without_room_are_counted_and_take_no_line(harbour: App, typed: bool) -> None:
    answers = replace(harbour.answers, renderer=replace(harbour.answers.renderer, typed=typed))
    for budget in range(60, 400, 5):
        _, page = await answers.teleport("harbour gate tide metres", "*", limit=10, budget=budget)
        lines = page.text.splitlines()[1:-1]
        assert "…" not in lines, budget
        assert page.shown == sum(bool(re.match(r"\d+\. ", line)) for line in lines), budget


async def test_the_project_is_named_where_there_are_several(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(
            app,
            [
                said("The gate opens at noon.", "2026-03-02T09:00:00Z"),
                said("The gate closes at six.", "2026-03-02T10:00:00Z", session="s2", project="beta"),
            ],
        )
        _, page = await app.answers.teleport("gate", "*", limit=5, budget=400)
        assert "@alpha" in page.text
        assert "@beta" in page.text
