"""Words, identifiers and plain text."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.text import (
    STOP_WORDS,
    bigrams,
    folded,
    has_unspaced_script,
    identifier_parts,
    inflected,
    one_line,
    printable,
    similar,
    strip_markup,
    terms,
    words,
)


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("refreshToken", ["refresh", "token"]),
        ("HTTPServer", ["http", "server"]),
        ("XMLHttpRequest", ["xml", "http", "request"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("kebab-case", ["kebab", "case"]),
        ("cmd/cli/setup.go", ["cmd", "cli", "setup", "go"]),
        ("sha256", ["sha256"]),
        ("MAX_CHUNK", ["max", "chunk"]),
        ("nick-fields/retry@v3", ["nick", "fields", "retry", "v3"]),
        ("ÜberName", ["über", "name"]),
        ("__", []),
    ],
)
def test_an_identifier_is_taken_apart_however_it_is_written(identifier: str, parts: list[str]) -> None:
    assert identifier_parts(identifier) == parts


def test_words_are_lower_case_and_of_any_script() -> None:
    assert words("Don't PANIC: café_naïve Größe हिन्दी") == ["don", "t", "panic", "café", "naïve", "größe", "हिन्दी"]


def test_folding_is_what_ignoring_case_is_for_expressions() -> None:
    small = "abcdefghijklmnopqrstuvwxyz"
    everything = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x20000))))
    found = [match.start() for match in re.finditer(f"[{small}]", everything, re.I)]
    assert [place for place, letter in enumerate(folded(everything)) if letter in small] == found
    assert all(re.match(folded(everything[place]), everything[place], re.I) for place in found)


def test_folding_leaves_every_letter_in_its_place() -> None:
    assert folded("Iİıſ Straße K") == "iiis straße k"


def test_question_words_and_pieces_of_contractions_are_stop_words() -> None:
    assert {"what", "which", "how", "please", "don", "ve", "ll"} <= STOP_WORDS
    assert not {"error", "retry", "release", "token"} & STOP_WORDS


@pytest.mark.parametrize(
    "family",
    [
        ("query", "queries"),
        ("fix", "fixes", "fixed", "fixing"),
        ("run", "runs", "running"),
        ("cache", "caches", "cached", "caching"),
        ("retry", "retries", "retried", "retrying"),
        ("pass", "passes", "passed", "passing"),
        ("use", "uses", "used", "using"),
    ],
)
def test_common_forms_of_a_word_have_one_stem(family: tuple[str, ...]) -> None:
    assert len({inflected(word) for word in family}) == 1


@pytest.mark.parametrize("word", ["string", "need", "sha256", "größen", "bus", "thing"])
def test_words_that_only_look_inflected_keep_their_form(word: str) -> None:
    assert inflected(word) == word


def test_unspaced_scripts_are_found_and_paired() -> None:
    assert has_unspaced_script("retry を追加")
    assert not has_unspaced_script("naïve café, привет")
    assert bigrams("導出機能 and 東") == ["導出", "出機", "機能", "東"]
    assert bigrams("plain ascii") == []


def test_similar_ranges_from_nothing_shared_to_equal() -> None:
    assert similar({"a", "b"}, {"a", "b"}) == 1.0
    assert similar({"a"}, {"b"}) == 0.0
    assert similar(set(), {"b"}) == 0.0
    assert 0.0 < similar({"a", "b"}, {"b", "c"}) < 1.0


def test_terms_compare_sentences_by_their_topics() -> None:
    assert terms("The tests are failing") == terms("failed test")
    assert terms("what is it?") == frozenset()


def test_one_line_cuts_between_words_and_says_so() -> None:
    assert one_line("one  two\nthree", 80) == "one two three"
    assert one_line("alpha beta gamma delta", 17) == "alpha beta gamma…"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_one_line_leaves_no_open_code_mark() -> None:
    assert one_line("the call `open_database(path, mode)` fails", 28).count("`") % 2 == 0


def test_markup_is_stripped_and_code_stays() -> None:
    marked = "## **Root cause**\n- [x] the `retry` field, see [docs](https://e.org/a_(b)) and *this* ~~that~~"
    assert strip_markup(marked) == "Root cause\nthe `retry` field, see docs and this that"


def test_tags_go_but_type_arguments_and_comparisons_stay() -> None:
    text = 'a <b class="x">bold</b> Map<String> value, 1 < 2 and <your name> here<br/>'
    assert strip_markup(text) == "a bold Map<String> value, 1 < 2 and <your name> here"


def test_names_with_underscores_survive_stripping() -> None:
    assert strip_markup("call __init__ and snake_case_name") == "call __init__ and snake_case_name"


def test_escapes_control_and_bidi_characters_are_removed() -> None:
    assert printable("\x1b[31mred\x1b[0m\u202e evil\u200b\x00\x9f") == "red evil"
    assert printable("family 👩\u200d💻 ok ❤\ufe0f") == "family 👩\u200d💻 ok ❤\ufe0f"
    assert printable("hid\u3164den \u034fwords\U000e0080") == "hidden words"


@given(st.text(), st.integers(min_value=1, max_value=60))
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


@given(st.text())
def test_stripped_text_holds_no_control_characters(text: str) -> None:
    kept = [char for char in strip_markup(text) if unicodedata.category(char) == "Cc"]
    assert set(kept) <= set("\t\n\r")


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_parts_and_stems_are_total(text: str) -> None:
    for word in words(text):
        assert inflected(word)
    assert all(part == part.lower() for part in identifier_parts(text))
