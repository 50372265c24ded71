"""Regular expressions that wait to be compiled until something is first tried against them.

Compiling takes longer than summarizing a short segment, and most runs need only some of the expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Protocol


class _Tries(Protocol):
    """How a compiled expression is tried on a text, or on a part of it."""

    def __call__(self, text: str, start: int = ..., end: int = ..., /) -> re.Match[str] | None: ...


class _Finds(Protocol):
    def __call__(self, text: str, start: int = ..., end: int = ..., /) -> Iterator[re.Match[str]]: ...


class Expression:
    """A regular expression, compiled when it is first tried.

    Those that are to fit in any case are given what `folded` makes of a text: that is twice as fast as ignoring case.
    """

    __slots__ = ("finditer", "flags", "fullmatch", "match", "pattern", "search", "split")

    match: _Tries
    search: _Tries
    fullmatch: _Tries
    finditer: _Finds
    split: Callable[[str], list[str]]

    def __init__(self, *alternatives: str, flags: int = 0) -> None:
        self.pattern = "|".join(alternatives)
        self.flags = flags

    def __getattr__(self, name: str) -> object:
        # Reached only while the methods are missing.
        compiled = re.compile(self.pattern, self.flags)
        self.match, self.search = compiled.match, compiled.search
        self.fullmatch, self.finditer, self.split = compiled.fullmatch, compiled.finditer, compiled.split
        return getattr(compiled, name)
