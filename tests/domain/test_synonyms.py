"""Words that mean nearly the same."""

from __future__ import annotations

import pytest

from mcp_memory.domain.stems import root
from mcp_memory.domain.synonyms import _TABLE, synonyms
from mcp_memory.domain.text import STOP_WORDS


@pytest.mark.parametrize(("word", "other"), [("defect", "bug"), ("physician", "doctor"), ("folder", "directory")])
def test_words_of_a_group_stand_for_each_other_in_any_form(word: str, other: str) -> None:
    assert other in synonyms(word)
    assert word in synonyms(f"{other}s".replace("ys", "ies"))


def test_a_word_of_several_meanings_is_told_by_others_but_does_not_tell_them() -> None:
    assert "store" in synonyms("shop")
    assert "shop" not in synonyms("store")


def test_a_word_that_shares_its_stem_is_asked_for_as_it_stands_and_never_looked_for() -> None:
    assert root("customer") == root("custom")
    assert synonyms("customers") == ("client",)
    assert synonyms("custom") == ()
    assert "customer" not in synonyms("client")


def test_no_word_stands_for_itself_and_none_that_says_nothing_is_looked_for() -> None:
    looked_for = {other for others in _TABLE.values() for other in others}
    assert not looked_for & STOP_WORDS
    assert all(root(other) != root(word) for word in looked_for for other in synonyms(word))
