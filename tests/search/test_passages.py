"""The part of a text that is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.search.passages import Passage, passage_of
from mcp_memory.search.question import question_of

LONG = "filler words here. " * 60 + "the login timeout is raised " + "more filler follows. " * 60


def test_the_window_holds_what_was_asked_for() -> None:
    assert "login timeout" in passage_of(question_of("login timeout"), LONG).window(120)


def test_the_words_closest_together_win() -> None:
    text = "login " + "x " * 400 + "timeout " + "y " * 400 + "login timeout"
    assert passage_of(question_of("login timeout"), text).focus == text.rindex("login")


def test_a_short_text_is_shown_whole_on_one_line() -> None:
    assert Passage("one\ntwo", 0).window(100) == "one two"


@given(st.text(max_size=400), st.text(max_size=40), st.integers(20, 200))
def test_any_text_has_a_passage(text: str, asked: str, size: int) -> None:
    assert len(passage_of(question_of(asked), text).window(size)) <= max(size + 2, len(text))
