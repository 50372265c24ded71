"""Regular expressions that wait to be compiled until something is first tried against them.

Compiling takes longer than summarizing a short segment, and most runs need only some of the expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from sys import maxsize


class Expression:
    """A regular expression, compiled when it is first tried; its methods are those of `re.Pattern`.

    Those that are to fit in any case are given what `folded` makes of a text: that is twice as fast as ignoring case.
    """

    def __init__(self, *alternatives: str, flags: int = 0) -> None:
        self.pattern = "|".join(alternatives)
        self.flags = flags

    def match(self, text: str, start: int = 0, end: int = maxsize) -> re.Match[str] | None:
        return self._compiled().match(text, start, end)

    def search(self, text: str, start: int = 0, end: int = maxsize) -> re.Match[str] | None:
        return self._compiled().search(text, start, end)

    def fullmatch(self, text: str, start: int = 0, end: int = maxsize) -> re.Match[str] | None:
        return self._compiled().fullmatch(text, start, end)

    def finditer(self, text: str, start: int = 0, end: int = maxsize) -> Iterator[re.Match[str]]:
        return self._compiled().finditer(text, start, end)

    def split(self, text: str) -> list[str]:
        return self._compiled().split(text)

    def _compiled(self) -> re.Pattern[str]:
        """The compiled expression, whose own methods from now on stand before these."""
        compiled = re.compile(self.pattern, self.flags)
        vars(self).update({name: getattr(compiled, name) for name in _METHODS})
        return compiled


_METHODS = ("match", "search", "fullmatch", "finditer", "split")
