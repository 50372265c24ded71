"""Slips of the finger."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.terms import slips


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
