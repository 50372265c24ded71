"""What the index sees of a text, what a question asks of it, and words that may stand for others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain import terms
from mcp_memory.domain.terms import (
    MAX_TERMS,
    event_columns,
    hidden_parts,
    match_expression,
    scannable,
    shorten_tool,
    terms_of,
)


def shown(query: str) -> list[str]:
    return [term.shown for term in terms_of(query)]


def test_fillers_and_question_words_are_left_out() -> None:
    assert shown("Please tell me, what did we do about the login timeout?") == ["login", "timeout"]


def test_a_question_of_fillers_only_still_asks_for_them() -> None:
    assert shown("what is it") == ["what", "is", "it"]


def test_an_identifier_is_asked_for_whole_and_in_parts() -> None:
    assert shown("refreshToken") == shown("refreshToken?") == ["refreshToken", "refresh", "token"]
    assert shown("app/session.py") == ["app/session.py", "app", "session"]


@pytest.mark.parametrize("quotes", ['""', "``", "''", "‘’", "“”", "„“", "«»"])
def test_quoted_words_belong_together(quotes: str) -> None:
    quoted = f"{quotes[0]}connection reset{quotes[1]}"
    assert shown(f"why {quoted}?") == ["connection reset", "connection", "reset"]


def test_apostrophes_quote_nothing() -> None:
    assert shown("the users' lists don't fit Ann's lists'") == ["users", "lists", "fit", "ann"]


def test_irregular_forms_are_asked_for_together() -> None:
    assert '"bought"' in match_expression(terms_of("buy"))


def test_words_of_counting_and_dating_weigh_less() -> None:
    weights = {term.shown: term.weight for term in terms_of("total months at sea")}
    assert weights["total"] == weights["months"] < weights["sea"]


def test_of_a_very_long_question_the_telling_words_remain() -> None:
    terms = terms_of(" ".join(f"w{number}" for number in range(60)) + " authentication")
    assert len(terms) == MAX_TERMS
    assert "authentication" in [term.shown for term in terms]


def test_a_long_tool_result_counts_by_head_tail_and_errors() -> None:
    middle = "\n".join(["noise"] * 9000 + ["TypeError: broken pipe"] + ["noise"] * 9000)
    kept = shorten_tool("HEAD " + middle + " TAIL")
    assert kept.startswith("HEAD")
    assert kept.endswith("TAIL")
    assert "TypeError: broken pipe" in kept
    assert len(kept) < 31_000


def test_words_inside_camel_case_are_indexed() -> None:
    assert "refresh token" in event_columns("user", "user_message", "call refreshToken").parts


@given(st.text(max_size=300))
def test_any_text_is_a_question(text: str) -> None:
    for term in terms_of(text):
        assert term.words
        assert term.match


@pytest.mark.parametrize("piece", ["x", "A", "é", "1"])
def test_an_endless_word_is_read_once(piece: str) -> None:
    """Going back at every letter, a question with one would hold up its server; this test would not end."""
    assert terms._INNER.search(piece * 2_000_000) is None
    assert len(terms_of(piece * 20_000)) == 1


def test_a_verb_and_its_particle_are_known_in_one_word_and_in_two() -> None:
    for query, parts in {"login": ("log", "in"), "logged in": ("log", "in"), "timeouts": ("time", "out")}.items():
        assert parts in [term.words for term in terms_of(query) if term.compound]
    assert not any(term.compound for query in ("within", "print", "work in") for term in terms_of(query))


def test_of_a_very_large_memory_a_question_looks_at_no_more_than_of_a_large_one() -> None:
    asked = terms_of("walrus harbour")
    rare, common = (term.match for term in asked)
    counts = {rare: 100, common: 200_000}
    assert [len(scannable(asked, counts, documents)) for documents in (1_000_000, 2_000_000, 50_000_000)] == [1, 1, 1]
    counts[common] = 100_000
    assert [len(scannable(asked, counts, documents)) for documents in (200_000, 1_000_000, 50_000_000)] == [1, 2, 2]


@pytest.mark.parametrize("query", ["log in", "(log in)", "they [log in].", "the **logged in**, all"])
def test_a_verb_and_its_particle_are_one_term_within_brackets_and_quotes(query: str) -> None:
    assert ("log", "in") in [term.words for term in terms_of(query) if term.compound]


@pytest.mark.parametrize("query", ["see the log. In the morning", "log (in the box)", "log, in"])
def test_a_verb_and_a_particle_beyond_a_sign_are_two_words(query: str) -> None:
    assert not [term for term in terms_of(query) if term.compound]


def test_words_are_folded_in_what_is_indexed_and_asked_for_as_they_are_written() -> None:
    assert hidden_parts("Der Spaß, die STRAẞE, Spaß") == "Spass . STRASSE"
    assert [term.phrases for term in terms_of("class password")] == [(("class",),), (("password",),)]
    assert set(terms_of("straße")[0].phrases) == {("straße",), ("strasse",)}


@pytest.mark.parametrize("word", ["佐々木", "𠮷野家"])
def test_every_character_of_an_unspaced_script_is_part_of_its_run(word: str) -> None:
    assert hidden_parts(word) == f"{word[:2]} {word[1:]}"
    assert [term.phrases for term in terms_of(word)] == [((word[:2], word[1:]),)]
