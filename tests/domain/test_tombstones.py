"""Forgotten texts are recognized by keyed hashes of all passages of their length."""

from __future__ import annotations

import pytest

from mcp_memory.domain.tombstones import TombstoneKey, digests_in, forgotten_text

KEY = TombstoneKey(b"k" * 32)


def is_recognized(forgotten: str, text: str, *, part: bool = False, key: TombstoneKey = KEY) -> bool:
    tombstone = forgotten_text(KEY, forgotten, part=part)
    return tombstone.digest in set(digests_in(key, text, [(tombstone.unit, tombstone.size)]))


@pytest.mark.parametrize(
    ("forgotten", "text"),
    [
        ("José García", "call JOSE GARCIA today"),
        ("Project Nightjar", "the\nproject **Nightjar** starts"),
        ("Project Nightjar", "Ｐｒｏｊｅｃｔ Nightjar"),
        ("PIER-31", "see PIER 31, please"),
        ("佐藤", "昨日佐藤さんに会った"),
    ],
)
def test_a_text_is_recognized_in_any_spelling(forgotten: str, text: str) -> None:
    assert is_recognized(forgotten, text)


@pytest.mark.parametrize(
    ("forgotten", "text"),
    [("PIER-31", "PIER-310"), ("Ann", "cannot"), ("north gate", "the gate is north")],
)
def test_other_words_are_not_taken_for_it(forgotten: str, text: str) -> None:
    assert not is_recognized(forgotten, text)


def test_a_part_of_a_word_is_recognized_only_if_that_was_asked_for() -> None:
    assert is_recognized("night", "nightjar", part=True)
    assert not is_recognized("night", "nightjar")


def test_another_key_recognizes_nothing_and_cannot_unseal() -> None:
    other, value = TombstoneKey(b"o" * 32), b"0123456789"
    assert not is_recognized("Nightjar", "Nightjar", key=other)
    assert KEY.unseal(KEY.digest(value), KEY.seal(value)) == value
    assert other.unseal(KEY.digest(value), KEY.seal(value)) != value
    assert KEY.fingerprint != other.fingerprint
