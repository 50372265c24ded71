"""Remembering what a function gave."""

from __future__ import annotations

from mcp_memory.domain.text import Memo


def test_a_function_is_called_once_for_each_word() -> None:
    asked: list[str] = []

    def length(word: str) -> int:
        asked.append(word)
        return len(word)

    memo = Memo(length, 10)
    assert [memo[word] for word in ("one", "three", "one")] == [3, 5, 3]
    assert list(map(memo.__getitem__, ["three", "one"])) == [5, 3]
    assert asked == ["one", "three"]


def test_a_full_memo_forgets_and_still_answers() -> None:
    memo = Memo(str.upper, 3)
    assert [memo[word] for word in "abcdefg"] == list("ABCDEFG")
    assert len(memo) <= 3


def test_a_word_that_keeps_coming_back_is_worked_out_once_whatever_else_is_asked() -> None:
    asked: list[str] = []

    def noted(word: str) -> str:
        asked.append(word)
        return word.upper()

    memo = Memo(noted, 8)
    for number in range(100):
        assert memo["often"] == "OFTEN"
        assert memo[f"once {number}"] == f"ONCE {number}"
        assert len(memo) <= 8
    assert asked.count("often") == 1


def test_what_was_not_asked_for_in_a_long_time_is_forgotten() -> None:
    asked: list[str] = []
    memo = Memo(asked.append, 8)
    for word in ("early", *map(str, range(16)), "early"):
        memo[word]
    assert asked.count("early") == 2
