"""What is shown of a hit, and the reply to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.search.hits import Passage, Results, passage_of
from mcp_memory.search.question import question_of
from tests.support import learn, memory, said

LONG = "filler words here. " * 60 + "the login timeout is raised " + "more filler follows. " * 60


def test_the_window_holds_what_was_asked_for() -> None:
    assert "login timeout" in passage_of(question_of("login timeout"), LONG).window(120)


def test_the_words_closest_together_win() -> None:
    text = "login " + "x " * 400 + "timeout " + "y " * 400 + "login timeout"
    assert passage_of(question_of("login timeout"), text).window(100).endswith("login timeout")


def test_a_short_text_is_shown_whole_on_one_line() -> None:
    assert Passage("one\ntwo").window(100) == "one two"


@given(st.text(max_size=400), st.text(max_size=40), st.integers(20, 200))
def test_any_text_has_a_passage(text: str, asked: str, size: int) -> None:
    assert len(passage_of(question_of(asked), text).window(size)) <= max(size + 2, len(text))


async def asked(app_home: Path, lines: list[dict[str, object]], query: str) -> tuple[Results, str]:
    async with memory(app_home) as app:
        await learn(app, lines)
        found, page = await app.answers.teleport(query, "*", limit=5, budget=600)
        return found, page.text


@pytest.mark.anyio
async def test_a_question_is_shown_with_its_reply(tmp_path: Path) -> None:
    lines = [
        said("How long should a refresh token live?", "2026-03-02T09:00:00Z"),
        said("Fourteen days, sliding with every use.", "2026-03-02T09:00:30Z", role="assistant"),
        said("Good. Now the docs.", "2026-03-02T09:02:00Z"),
        said("The docs are done.", "2026-03-02T09:03:00Z", role="assistant"),
    ]
    found, text = await asked(tmp_path, lines, "how long does a refresh token live")
    assert [line.passage.text for line in found.hits[0].lines] == ["Fourteen days, sliding with every use."]
    assert "→ " in text
    assert "Fourteen days, sliding" in text
    assert text.count("Fourteen days, sliding") == 1


@pytest.mark.anyio
async def test_a_reply_of_the_next_turn_is_not_taken_for_the_answer(tmp_path: Path) -> None:
    lines = [
        said("Why does the refresh token expire so early?", "2026-03-02T09:00:00Z"),
        said("Never mind, it was my clock.", "2026-03-02T09:01:00Z"),
        said("The token lives for an hour.", "2026-03-02T09:02:00Z", role="assistant"),
    ]
    found, _ = await asked(tmp_path, lines, "why does the refresh token expire early")
    assert found.hits[0].passage.text.startswith("Why does")
    assert not found.hits[0].lines
