"""Words as data: every list is a file here, and its first lines say what it is for.

A `.txt` file holds words or lines, a `.toml` file tables; `#` begins a comment. Each is read when first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

_HERE = Path(__file__).parent


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
def table(name: str) -> Mapping[str, Any]:
    """A file of tables, by their keys."""
    import tomllib

    return MappingProxyType(tomllib.loads((_HERE / f"{name}.toml").read_text("utf-8")))
