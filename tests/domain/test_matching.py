"""Which texts hold another one: whole words in any spelling that reads the same, and nothing besides."""

from __future__ import annotations

import itertools
import re

import pytest

from mcp_memory.domain.matching import INERT, comparable, match_of

FOUND = [
    # whole words
    ("PIER-31", "See PIER-31."),
    ("PIER-31", "git switch feature/PIER-31_login-2"),
    ("Ann", "Ann's plan"),
    ("Ann", "ls *Ann*"),
    ("Ann", "50%\rAnn"),
    ("Ann", '{"text": "\\nAnn"}'),
    ("acme.io", "alice@acme.io"),
    ("PIER-31", "使用PIER-31进行"),
    # scripts without blanks
    ("張偉", "我叫張偉。"),
    ("张伟", "张\n伟"),
    ("田中太郎", "田中 太郎さん"),
    ("김민지", "김민지는"),
    ("สมชาย", "คุณสมชายครับ"),
    # case, width, spacing, marks
    ("PIER-31", "pier-31"),
    ("PIER-31", "ＰＩＥＲ－３１"),
    ("PIER-31", "P\u200bIER-3\u00ad1"),
    ("PIER-31", "PI**ER**-`31`"),
    ("PIER-31", "P\u0332I\u0332E\u0332R-31"),
    ("Project Nightjar", "project\n\t  **Nightjar**"),
    ("Project Nightjar", "Project\u00a0Nightjar"),
    ("O'Brien", "O’Brien"),
    ("left-pad", "left\u2011pad"),
    ("nightjar", "n i g h t j a r"),
    ("PIER-31", "P I E R - 3 1"),
    # letters of other scripts that look the same
    ("PIER-31", "РІЕR-31"),
    ("nightjar", "nіghtjаr"),
    ("COP-7", "СОР-7"),
    # separators of identifiers
    ("PIER-31", "PIER 31, pier31, PIER_31"),
    ("PIER-31", "PIER – 31"),
    ("pier31", "PIER-31"),
    ("api_key_v1", "API-KEY-V1"),
    ("4111 1111 1111 1111", "4111111111111111"),
    ("4111111111111111", "4111-1111-1111-1111"),
    ("+49 170 1234567", "+49-170-123-4567"),
    ("2026-03-01", "20260301"),
    ("RFC-2024-1234", "rfc_2024_1234"),
    ("+1 (555) 123-4567", "15551234567"),
    ("(555) 123-4567", "555.123.4567"),
    ("DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
    ("1A:2B:3C", "1a-2b-3c"),
    ("PIER - 31", "PIER-31"),
    ("PIER-31", "P I E R-31"),
    ("Project Osprey", "Project O s p r e y"),
    ("room (12)", "ROOM (12)"),
    # accents and forms of letters
    ("José García", "JOSE GARCIA"),
    ("Francois Muller", "François Müller"),
    ("Nguyen Van Hung", "Nguyễn Văn Hùng"),
    ("Søren", "Soren"),
    ("Großmann", "GROSSMANN"),
    ("Σίσυφος", "ΣΙΣΥΦΟΣ"),
    ("Фёдор", "ФЕДОР"),
    ("محمد علي", "محمّد علـي"),
    ("राज शर्मा", "राज शर्मा ने"),
]
NOT_FOUND = [
    ("PIER-31", "PIER-310"),
    ("PIER-31", "XPIER-31"),
    ("PIER-31", "PIER-31b"),
    ("PIER-31", "PIER-3"),
    ("PIER-31", "at the pier. 31 boats"),
    ("Ann", "cannot"),
    ("Ann", "Annual"),
    ("12345", "123456"),
    ("order_2024_001", "order_2024_0010"),
    ("bob@example.com", "bob@example.com.br"),
    ("alice@acme.io", "j.alice@acme.io"),
    ("1.2", "12"),
    ("1.2", "1.2.3"),
    ("1.2", "11.2"),
    ("1.2", "1-2"),
    ("123", "1 2 3"),
    ("PIER-31", "PIER-3 1 time"),
    ("555-123-4567", "555-123-45678"),
    ("left-pad", "left pad"),
    ("left-pad", "leftpad"),
    ("राज", "राजा"),
    ("мой", "мои"),
    # a word that is Cyrillic throughout is a word of that script
    ("cop", "сор"),
]


@pytest.mark.parametrize(("sought", "text"), FOUND)
def test_a_text_is_found_in_every_spelling_that_reads_the_same(sought: str, text: str) -> None:
    assert match_of(sought).is_in(text)


@pytest.mark.parametrize(("sought", "text"), NOT_FOUND)
def test_a_text_is_not_found_in_longer_or_other_words(sought: str, text: str) -> None:
    assert not match_of(sought).is_in(text)


@pytest.mark.parametrize(
    ("sought", "text"), [("PIER-31", "PIER-310"), ("ann", "caNNot Annual"), ("acme.io", "acme.io.br")]
)
def test_parts_of_words_are_found_if_they_are_asked_for(sought: str, text: str) -> None:
    assert match_of(sought, part=True).is_in(text)


@pytest.mark.parametrize("sought", ["", "****", "\u200b", "张", "Jo"])
def test_a_text_of_too_few_characters_is_not_specific(sought: str) -> None:
    assert not match_of(sought).is_specific


@pytest.mark.parametrize("sought", ["张伟", "Ann", "A-1"])
def test_two_characters_suffice_in_scripts_without_blanks(sought: str) -> None:
    assert match_of(sought).is_specific


def texts() -> list[str]:
    """Every row of four pieces: words, signs that are dropped, blanks, escapes, other scripts."""
    pieces = ["PIER", "-", "31", " ", "*", "\n", "\\n", "\\u0031", "0", "é", "\u200b", "\0", "Р"]
    return ["".join(row) for size in (1, 2, 3, 4) for row in itertools.product(pieces, repeat=size)]


@pytest.mark.slow
@pytest.mark.parametrize("part", [False, True])
def test_what_is_passed_over_unread_does_not_hold_the_text(part: bool) -> None:
    """An accent in each text turns off the short way, which is taken for many texts together."""
    match = match_of("PIER-31", part=part)
    read = [place for place, text in enumerate(texts()) if match.is_in(f"{text} \u00e9")]
    assert match.select(texts()) == read
    assert read


def test_a_character_that_is_passed_over_stands_for_no_latin_letter_or_digit() -> None:
    inert = re.findall(f"[{INERT}]", "".join(map(chr, range(0x20000))))
    assert len(inert) > 30_000
    assert not [
        sign for sign in inert if any(part.isascii() and part.isalnum() for part in comparable(f"x {sign}")[1:])
    ]


def test_an_excerpt_begins_shortly_before_the_text() -> None:
    text = f"{'filler ' * 90}then PIER-31 came. {'And more. ' * 90}"
    excerpt = match_of("PIER-31").excerpt(text, 100)
    assert excerpt.startswith("… filler")
    assert "then PIER-31 came." in excerpt
    assert len(excerpt) <= 100
