"""Remembering what a function gave."""

from __future__ import annotations

from mcp_memory.domain.memo import Memo


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
