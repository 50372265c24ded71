"""Words as data: every list is a file here, and its first lines say what it is for.

A `.txt` file holds a text, words or lines, some of them in sections under a `[name]`; a `.toml` file holds tables, a
`.json` file one that is needed before a server's first answer, since it is read soonest. A line that begins with `#` is
a comment. Each file is read when first asked for, and an expression is compiled when first tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from sys import maxsize
from types import MappingProxyType
from typing import Any

_HERE = Path(__file__).parent
_SECTION = re.compile(r"\[([a-z_]+)\]")
_PART = re.compile(r"\{\{([a-z_]+)\}\}")


@cache
def text(name: str) -> str:
    """A whole text, without comments."""
    kept = (_HERE / f"{name}.txt").read_text("utf-8").splitlines(keepends=True)
    return "".join(line for line in kept if not line.startswith("#"))


@cache
def lines(name: str) -> tuple[str, ...]:
    """The lines of a list, without comments and empty ones."""
    text = (_HERE / f"{name}.txt").read_text("utf-8")
    return tuple(line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#"))


@cache
def words(name: str) -> frozenset[str]:
    """All words of a list, however they are laid out in lines."""
    return frozenset(word for line in lines(name) for word in line.split())


@cache
def sections(name: str) -> Mapping[str, tuple[str, ...]]:
    """The lines of each section of a list."""
    found: dict[str, list[str]] = {}
    section: list[str] = []
    for line in lines(name):
        if head := _SECTION.fullmatch(line):
            section = found[head[1]] = []
        else:
            section.append(line)
    return MappingProxyType({key: tuple(held) for key, held in found.items()})


@cache
def word_lists(name: str) -> Mapping[str, frozenset[str]]:
    """The words of each section of a list."""
    return MappingProxyType({key: frozenset(" ".join(held).split()) for key, held in sections(name).items()})


@cache
def table(name: str) -> Mapping[str, Any]:
    """A file of tables, by their keys."""
    import tomllib

    return MappingProxyType(tomllib.loads((_HERE / f"{name}.toml").read_text("utf-8")))


def document(name: str) -> Any:
    """A file of JSON, whose `about` says what it is for."""
    import json

    return json.loads((_HERE / f"{name}.json").read_text("utf-8"))


@cache
def editions(name: str) -> tuple[str, ...]:
    """The tables of one name that there are in several languages: times.de, times.en."""
    return tuple(sorted(path.stem for path in _HERE.glob(f"{name}.*.toml")))


class Expression:
    """A regular expression, compiled when it is first tried; its methods are those of `re.Pattern`.

    Compiling takes longer than summarizing a short conversation, and most runs need only some of the expressions.
    Those that are to fit in any case are given text in small letters: that is twice as fast as ignoring case.
    """

    def __init__(self, pattern: str, parts: Mapping[str, str] | None = None) -> None:
        """A `{{name}}` in the pattern stands for one of the parts, or for any word of a section of the vocabulary."""
        self._pattern, self._parts = pattern, parts or {}

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

    def sub(self, instead: str, text: str) -> str:
        return self._compiled().sub(instead, text)

    def _compiled(self) -> re.Pattern[str]:
        """The compiled expression, whose own methods from now on stand before these."""
        pattern = self._pattern
        while _PART.search(pattern):
            pattern = _PART.sub(lambda part: self._parts.get(part[1]) or _any_of(part[1]), pattern)
        compiled = re.compile(pattern)
        vars(self).update({name: getattr(compiled, name) for name in _METHODS})
        return compiled


_METHODS = ("match", "search", "fullmatch", "finditer", "split", "sub")


def _any_of(section: str) -> str:
    return "|".join(sorted(word_lists("vocabulary")[section]))


@cache
def expressions(name: str) -> Mapping[str, Expression]:
    """The sections of a list as expressions."""
    parts = {key: "".join(held) for key, held in sections(name).items()}
    return MappingProxyType({key: Expression(pattern, parts) for key, pattern in parts.items()})
