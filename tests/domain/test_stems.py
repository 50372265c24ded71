"""Stems as the index makes them, and the forms no rule can tell."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.text import forms, porter, root

WORDS = (
    "caresses ponies ties cats agreed plastered motoring hopping falling filing happy relational conditional "
    "callousness formality sensibility electricity hopefulness replacement adoption controlling rolling possibly "
    "vietnamization assembly sky running notarization configured settings analyses retries indexes database"
)


@pytest.mark.parametrize("word", WORDS.split())
def test_a_stem_is_what_the_index_holds(word: str) -> None:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5 (x, tokenize = 'porter unicode61')")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab (t, 'row')")
        connection.execute("INSERT INTO t VALUES (?)", (word,))
        assert connection.execute("SELECT term FROM v").fetchone() == (porter(word),)
    connection.close()


def test_irregular_forms_have_one_root() -> None:
    assert root("bought") == root("buy") == root("buying")
    assert set(forms("wrote")) == {"write", "wrote", "written"}
    assert forms("session") == ("session",)
    assert set(forms("straße")) == {"straße", "strasse"}


@given(st.text())
def test_any_text_has_a_stem(text: str) -> None:
    assert len(porter(text)) <= len(text) + 1


@pytest.mark.parametrize(
    ("american", "british"),
    [("colors", "coloured"), ("organization", "organising"), ("analyze", "analysed"), ("neighbor", "neighbours")],
)
def test_american_and_british_spellings_share_their_root_and_are_sought_by_both(american: str, british: str) -> None:
    assert root(american) == root(british)
    assert {porter(form) for form in forms(american)} >= {porter(american), porter(british)}
    assert forms(american) == forms(british)


@pytest.mark.parametrize(
    ("asked", "told"),
    [("failures", "failed"), ("decision", "decided"), ("verify", "verifications"), ("analysis", "analysing"),
     ("choices", "chose"), ("permission", "permitted"), ("parse", "parsers")],
)  # fmt: skip
def test_words_of_one_family_share_their_root_and_are_sought_by_each_other(asked: str, told: str) -> None:
    assert root(asked) == root(told)
    assert porter(told) in {porter(form) for form in forms(asked)}
