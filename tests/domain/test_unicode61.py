"""Words of the index as FTS5 makes them, compared with FTS5 itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.unicode61 import index_words

#: As the schema configures it.
TOKENIZER = "porter unicode61 remove_diacritics 2"
#: Letters that fold to ASCII, or stay of one to four bytes; in the last two of them the last two bytes are equal.
LETTERS = "aesyßéčłøŁȴſ\u0301жكअ中💾丸\U00013000"
STEMS = ("", "a", "xy", "stra", "hop", "0u", "relat", "übe", "aß", "mañan", "oscill")
ENDINGS = (
    *("", "e", "ll", "y", "s", "es", "sses", "ies", "ss", "ed", "eed", "ing", "ated", "bling", "izing", "tted", "yyed"),
    *(
        "ational",
        "tional",
        "enci",
        "izer",
        "bli",
        "alli",
        "eli",
        "ization",
        "ator",
        "alism",
        "iveness",
        "aliti",
        "logi",
    ),
    *("icate", "ative", "alize", "ical", "ful", "ness", "al", "ance", "er", "ic", "able", "ement", "ment", "ent"),
    *("sion", "tion", "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


def fts5_words(texts: Sequence[str]) -> list[list[str]]:
    """Return the tokens of each text as an FTS5 table stores them."""
    connection = sqlite3.connect(":memory:")
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.execute(f"CREATE VIRTUAL TABLE t USING fts5 (x, tokenize = '{TOKENIZER}')")
    connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab (t, instance)")
    connection.executemany("INSERT INTO t (rowid, x) VALUES (?, ?)", enumerate(texts))
    found: list[list[str]] = [[] for _ in texts]
    for term, number in connection.execute("SELECT term, doc FROM v ORDER BY doc, offset"):
        found[number].append(term)
    connection.close()
    return found


def differing(words: Iterable[str]) -> list[tuple[str, list[str], list[str]]]:
    """Return the words of which FTS5 makes something else, with what each of both makes."""
    given = list(dict.fromkeys(words))
    return [
        (word, ours, theirs)
        for word, ours, theirs in zip(given, map(index_words, given), fts5_words(given), strict=True)
        if ours != theirs
    ]


def test_every_character_of_the_first_two_planes_is_taken_as_fts5_takes_it() -> None:
    codes = [code for code in range(1, 0x20000) if not 0xD800 <= code < 0xE000]
    texts = [" | ".join(f"x{chr(code)}y" for code in codes[start : start + 256]) for start in range(0, len(codes), 256)]
    assert [text for text, theirs in zip(texts, fts5_words(texts), strict=True) if index_words(text) != theirs] == []


def test_letters_of_any_length_are_stemmed_as_in_fts5_wherever_they_stand() -> None:
    parts = list(product(LETTERS, STEMS, ENDINGS))
    assert differing(letter + stem + ending for letter, stem, ending in parts) == []
    assert differing(stem + letter + ending for letter, stem, ending in parts) == []


def test_words_of_few_letters_are_stemmed_as_in_fts5() -> None:
    assert (
        differing("".join(letters) for length in range(1, 6) for letters in product("aeiydsglz", repeat=length)) == []
    )


def test_every_latin_letter_before_an_ending_is_stemmed_as_in_fts5() -> None:
    parts = product(("0u", "stra"), map(chr, range(0x80, 0x250)), ("e", "ing", "ies", "ll"))
    assert differing("".join(each) for each in parts) == []


@pytest.mark.parametrize("length", [62, 63, 64, 65, 70])
def test_long_words_are_stemmed_up_to_the_length_at_which_fts5_stops(length: int) -> None:
    for word in ("ab" * 40)[: length - 3] + "ing", ("ßb" * 40)[: length // 2 - 3] + "ing":
        ours, theirs = index_words(word), fts5_words([word])[0]
        assert ours == [theirs[0][:64]]


@given(st.lists(st.text(st.characters(min_codepoint=1, max_codepoint=0x24F), max_size=60), min_size=1, max_size=20))
def test_any_latin_text_is_split_and_stemmed_as_in_fts5(texts: list[str]) -> None:
    assert [index_words(text) for text in texts] == fts5_words(texts)


@given(st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=60))
def test_any_text_is_split_and_stemmed_as_in_fts5(text: str) -> None:
    assert index_words(text) == fts5_words([text])[0]


def test_words_with_digits_are_stemmed() -> None:
    assert index_words("429s") == index_words("429")
