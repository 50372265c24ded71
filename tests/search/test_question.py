"""What a question asks for, and where its words stand in a text: in any form, and as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.text import STOP_WORDS, root
from mcp_memory.search.question import _synonyms, folded, question_of, synonyms
from mcp_memory.search.scoring import role_weights
from tests.support import learn, memory, said

WRITTEN = ("refreshToken", "refresh_token", "refresh-token", "RefreshToken", "refresh token", "REFRESH_TOKEN")


@pytest.mark.parametrize("asked", WRITTEN)
@pytest.mark.parametrize("told", WRITTEN)
def test_an_identifier_is_found_however_it_is_written(asked: str, told: str) -> None:
    assert all(question_of(asked).held([f"we call {told} here"])[0])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("configure", "Configuring it"),
        ("buy", "I bought one"),
        ("retries", "one RETRY"),
        ("cafe", "the Café"),
        ("数据库", "修复数据库连接"),
    ],
)
def test_a_word_is_found_in_its_forms(asked: str, told: str) -> None:
    assert question_of(asked).held([told])[0] == [True]


SHORT_AND_LONG = [
    ("k8s", "Kubernetes"),
    ("auth", "authentication"),
    ("config", "configuration"),
    ("repos", "repositories"),
    ("PR", "pull request"),
    ("CI", "continuous integration"),
    ("deps", "dependencies"),
    ("i18n", "internationalization"),
]


@pytest.mark.parametrize(("short", "long"), SHORT_AND_LONG)
def test_where_a_short_form_is_unknown_its_long_form_is_looked_for_and_back(short: str, long: str) -> None:
    for asked, told in ((short, long), (long, short)):
        question = question_of(f"which {asked}").widened({}, 1_000)
        own, alike = question.places_by_form([f"It is the {told} that fails."])[0]
        assert (own, list(alike)) == ({}, list(range(len(asked.split()))))


@pytest.mark.parametrize(("asked", "told"), [("auth", "the author"), ("prod", "a product"), ("pull", "the PR")])
def test_what_only_looks_like_the_long_form_is_not_found(asked: str, told: str) -> None:
    assert question_of(asked).widened({}, 1_000).places_by_form([told]) == [({}, {})]


@pytest.mark.parametrize(("asked", "told"), [("art", "start"), ("use", "user"), ("log", "login"), ("数据", "据数")])
def test_a_part_of_another_word_is_not_the_word(asked: str, told: str) -> None:
    assert question_of(asked).held([told])[0] == [False]


def test_what_i_did_is_looked_for_in_my_words_and_what_you_told_me_in_yours() -> None:
    mine, ours, yours = (
        role_weights(question_of(text)) for text in ("where is my bike", "our bike", "which bike you suggested")
    )
    assert mine["user"] > ours["user"] > mine["assistant"]
    assert yours["assistant"] > yours["user"]


def test_words_side_by_side_are_a_pair() -> None:
    assert question_of("the login page of admins").pairs == ((0, 1), (1, 2))


def test_each_place_of_a_word_with_irregular_forms_counts_once() -> None:
    assert question_of("child").places(["a child, two children"]) == [{0: [2, 13]}]


@given(st.text(max_size=200))
def test_folding_keeps_every_character_in_its_place(text: str) -> None:
    assert len(folded(text)) == len(text)


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_question_can_be_asked_of_any_text(asked: str, text: str) -> None:
    question = question_of(asked)
    assert question.places([text])[0].keys() == {
        question.unit_of[at] for at, held in enumerate(question.held([text])[0]) if held
    }
    assert len(question.held([text])[0]) == len(question.terms)


_PIECES = st.lists(st.sampled_from(["refresh", "Token", "token", "children", "child", "É", " ", "_", "\n"]), max_size=8)


@given(st.lists(_PIECES.map("".join), max_size=5))
def test_texts_are_searched_together_as_each_by_itself(texts: list[str]) -> None:
    question = question_of("the refresh_token of a child é")
    assert question.places_by_form(texts) == [question.places_by_form([text])[0] for text in texts]


@pytest.mark.parametrize(
    ("asked", "told"),
    [("how do drivers log in", "The login of drivers uses badges"), ("rollback", "rolled back to 2.6"),
     ("was it rolled back", "the rollback went well"), ("timeouts", "it timed out"), ("sign-in", "signing in")],
)  # fmt: skip
def test_a_verb_with_its_particle_is_found_however_it_is_written(asked: str, told: str) -> None:
    question = question_of(asked)
    held = dict(zip([term.shown for term in question.terms], question.held([told])[0], strict=True))
    assert any(held[term.shown] for term in question.terms if term.compound)


@pytest.mark.parametrize(
    "asked",
    [
        "could you please remind me what we said about the audit trail",
        "I was wondering if you could tell me about the audit trail",
        "do you still remember the audit trail?",
    ],
)
def test_how_a_question_is_put_is_not_looked_for(asked: str) -> None:
    assert [term.shown for term in question_of(asked).terms] == ["audit", "trail"]
    assert [term.shown for term in question_of("remind me").terms] == ["remind"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "query", "parts"),
    [
        ("I ran rm -rf build/ by mistake", "rm -rf", "the rf module and rm are unrelated"),
        ("ptr a->b is null there", "a->b null", "a null b"),
        ("released as v1.2.3 last night", "v1.2.3", "released v1.2.30, then 1.2.3 of v1"),
        ("see issue #1234 for the reason", "#1234", "1234 reasons"),
        ("we rewrote it in C++ last year", "C++ rewrite", "a rewrite in C"),
        ("the agent targets .NET 8 now", ".NET 8", "8 nets"),
        ("the service is C# on linux", "C# service", "the C service"),
        ("10.0.3.17 refused it", "10.0.3.17", "10 0 3 17"),
        ("@angular/core 17 breaks", "@angular/core", "angular core breaks"),
        ("__init__.py is empty", "__init__.py", "init py"),
        ("we set strictNullChecks to false", "strictNullChecks", "strict null checks are good"),
        ("commit 9f8e7d6c5b4a3f2e1d0c broke it", "commit 9f8e7d6", "which commit"),
        ('it said "reset by peer while reading" twice', '"reset by peer while reading"', "reading reset while by peer"),
        ("TypeError: x.map is not a function", "TypeError: x.map is not a function", "a map function x: not TypeError"),
    ],
)
async def test_what_is_written_so_comes_before_what_has_its_parts(
    tmp_path: Path, text: str, query: str, parts: str
) -> None:
    lines = [said(text, "2026-03-02T09:00:00Z", role="assistant")]
    lines += [said(parts, f"2026-03-0{day}T09:00:00Z", session=f"s{day}") for day in (3, 4)]
    lines += [said(f"tulips of row {day}", f"2026-03-1{day}T09:00:00Z", session=f"t{day}") for day in range(9)]
    async with memory(tmp_path) as app:
        await learn(app, lines)
        found, _ = await app.answers.search(query, "*")
        assert found.hits[0].passage.text == text


@pytest.mark.parametrize(
    ("query", "exact"),
    [
        ("why was --no-verify used?", ["--no-verify"]),
        ("Error: x.map is not there", ["x.map", "error: x.map is not there"]),
        ("what is C++?", ["c++"]),
        ("Ann's well, isn't she? Yes.", []),
        ("what did we do (yesterday)?", []),
        ("where is `a b`, and (src/x.py)?", ["a b", "src/x.py"]),
        ("数据库，连接？", []),
        ("deploy 🚀", ["🚀"]),
    ],
)
def test_signs_that_no_sentence_has_tell_code(query: str, exact: list[str]) -> None:
    found = question_of(query).exact
    assert len(found) == len(exact)
    assert all(pattern.search(text) for pattern, text in zip(found, exact, strict=True))


@pytest.mark.parametrize(
    ("query", "text", "told"),
    [
        ("server", "HTTPServer stopped", True),
        ("servers", "the HTTPServer", True),
        ("serve", "the HTTPSERVER", False),
        ("notarize", "in MacOSNotarize it is", True),
        ("1.2.3", "version 11.2.3", False),
        ("1.2.3", "version 1.2.31", False),
        ("1.2.3", "version 1.2.3.", True),
        ("9f8e7d6c", "at 9f8e7d6", True),
        ("9f8e7d6c", "at 9f8e7d6d", False),
        ("9f8e7d6c", "at a9f8e7d6c", False),
        ("fussball", "Der Fußball", True),
        ("straße", "die Strasse", True),
        ("strassen", "auf den Straßen", True),
        ("grossstrasse", "die Großstraße", True),
        ("class", "the clasp and the claßic", False),
        ("İstanbul", "in Istanbul", True),
    ],
)
def test_a_word_is_matched_where_it_stands_and_nowhere_else(query: str, text: str, told: bool) -> None:
    assert question_of(query).told(text)[0] is told


@pytest.mark.parametrize("text", ["login", "the logins", "log in", "logged in", "log-in", "logging in."])
def test_each_way_to_write_a_verb_with_its_particle_is_found(text: str) -> None:
    assert question_of("login").held([text]) == [[True]]


@pytest.mark.parametrize("text", ["blog in", "log inside", "logistics in", "log the plugin", "logo, in"])
def test_other_words_are_not_taken_for_a_verb_with_its_particle(text: str) -> None:
    assert question_of("login").held([text]) == [[False]]


@pytest.mark.parametrize(("word", "other"), [("defect", "bug"), ("typo", "misspelling"), ("folder", "directory")])
def test_words_of_a_group_stand_for_each_other_in_any_form(word: str, other: str) -> None:
    assert other in synonyms(word)
    assert word in synonyms(f"{other}s".replace("ys", "ies"))


def test_a_word_of_several_meanings_is_told_by_others_but_does_not_tell_them() -> None:
    assert "list" in synonyms("array")
    assert "array" not in synonyms("list")


def test_a_word_that_shares_its_stem_is_asked_for_as_it_stands_and_never_looked_for() -> None:
    assert root("customer") == root("custom")
    assert synonyms("customers") == ("client",)
    assert synonyms("custom") == ()
    assert "customer" not in synonyms("client")


def test_no_word_stands_for_itself_and_none_that_says_nothing_is_looked_for() -> None:
    looked_for = {other for others in _synonyms().values() for other in others}
    assert not looked_for & STOP_WORDS
    assert all(root(other) != root(word) for word in looked_for for other in synonyms(word))
