"""Remembering what a function gave, for what is asked of the same few thousand words over and over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(dict[str, T], Generic[T]):
    """A function's answers by the words they are about: `memo[word]` calls it only the first time.

    `map(memo.__getitem__, words)` runs without a line of Python for words that are known. When it is full it forgets
    what was not asked for since it was last full, which takes less than keeping an order.
    """

    __slots__ = ("_before", "_function", "_most")

    def __init__(self, function: Callable[[str], T], most: int) -> None:
        super().__init__()
        self._function = function
        self._most = most
        self._before: dict[str, T] = {}

    def __missing__(self, word: str) -> T:
        answer = self._before[word] if word in self._before else self._function(word)
        if len(self) >= self._most:
            self._before = dict(self)
            self.clear()
        self[word] = answer
        return answer
