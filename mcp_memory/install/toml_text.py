"""Reading TOML as statements with their places in the text, so that single lines can be added and taken out.

`tomllib` tells what a document means and whether it is valid at all; this only tells where things stand.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[{]|[\]}]|\n|[^"\'#\[\]{}\n]+',
    re.S,
)
_ASSIGNED = re.compile(r"(?:\"(?:\\.|[^\"\\])*\"|'[^']*'|[^=\"'])*=")


@dataclass(frozen=True, slots=True)
class Statement:
    """A header or an assignment with its full path; the span takes whole lines, the line's comment included."""

    start: int
    end: int
    path: tuple[str, ...]
    header: bool


def statements(text: str) -> list[Statement]:
    """All headers and assignments of a valid document, in order."""
    found: list[Statement] = []
    table: tuple[str, ...] = ()
    at = 0
    while at < len(text):
        line_end = text.find("\n", at) + 1 or len(text)
        line = text[at:line_end].strip()
        if line.startswith("["):
            table = _path(line)
            found.append(Statement(at, line_end, table, True))
            at = line_end
        elif line and not line.startswith("#"):
            end = _value_end(text, at)
            name = _ASSIGNED.match(text, at)
            key = name[0].rstrip("=") if name else ""
            found.append(Statement(at, end, table + _path(f"{key} = 0"), False))
            at = end
        else:
            at = line_end
    return found


def _value_end(text: str, at: int) -> int:
    """The end of the line on which the assignment ends, which may span several."""
    depth = 0
    for token in _TOKEN.finditer(text, at):
        if token[0] in ("[", "{"):
            depth += 1
        elif token[0] in ("]", "}"):
            depth -= 1
        elif token[0] == "\n" and depth == 0:
            return token.end()
    return len(text)


def _path(statement: str) -> tuple[str, ...]:
    """The dotted name of a header or key, unquoted by the parser that knows how."""
    value: Any = tomllib.loads(statement)
    names: list[str] = []
    while True:
        if isinstance(value, list):
            value = value[0]
        if not isinstance(value, dict) or not value:
            return tuple(names)
        name, value = next(iter(value.items()))
        names.append(name)
