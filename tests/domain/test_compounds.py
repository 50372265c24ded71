"""Verbs with a particle, written together and apart."""

from __future__ import annotations

import pytest

from mcp_memory.domain.terms import compound_in, compound_of, compound_pattern


def test_a_verb_and_its_particle_are_known_in_one_word_and_in_two() -> None:
    assert compound_of("login") == compound_in("logged", "in") == ("log", "in")
    assert compound_of("timeouts") == compound_in("timed", "out") == ("time", "out")
    assert compound_of("within") is compound_of("print") is compound_in("work", "in") is None


@pytest.mark.parametrize("text", ["login", "the logins", "log in", "logged in", "log-in", "logging in."])
def test_each_way_to_write_it_is_found(text: str) -> None:
    assert compound_pattern("log", "in").search(text)


@pytest.mark.parametrize("text", ["blog in", "log inside", "logistics in", "log the plugin", "logo, in"])
def test_other_words_are_not_taken_for_it(text: str) -> None:
    assert not compound_pattern("log", "in").search(text)
