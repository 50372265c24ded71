"""Secrets in tables: a column that is headed `password`, in CSV, Markdown or what a database prints; lines of .pgpass.

A column is looked for only where `named_secrets` has met its name.
"""

from __future__ import annotations

import re

from mcp_memory.capture.marks import replace_spans
from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.secret_entries import is_value
from mcp_memory.capture.secret_names import Named, classify
from mcp_memory.capture.secret_values import is_literal, is_path, is_random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Span = tuple[int, int, str]

#: What may separate the cells of a line.
_SEPARATORS = ",;\t|"
_LONGEST_HEADER = 400
_LONGEST_LINE = 4_000
_ROWS = 1_000
#: After so many rows without a secret the rest is not read: every line of a long text might head a table.
_MISSES = 5
_SHORTEST_KEY = 12
#: Lines of a table that only draw it.
_RULE = lazy(r"[-+|:= \t]+\Z")
_HEADING = lazy(r"[A-Za-z_][\w .@/-]{0,40}\Z", re.ASCII)
_HEADING_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_- \"'`*"
#: The heading of a column beside which a plain word in the other one is a password.
_BESIDE = lazy(r"(?:user|login|e-?mail|account|host|url|server|service|name|id)(?:[ _-]?(?:name|id|address))?\Z", re.I)
#: A cell in quotes holds separators, too.
_QUOTED_CELL = lazy(r'[ ]*"((?:[^"\r\n]|"")*)"[ ]*(?=[,;\t]|\Z)')


def column(text: str, start: int, end: int) -> list[Span]:
    """The secrets below the name that stands from `start` to `end`, if it heads a column."""
    separator = _beside(text, start, end)
    if not separator:
        return []
    first = text.rfind("\n", max(0, start - _LONGEST_HEADER), start) + 1
    last = text.find("\n", end, end + _LONGEST_HEADER)
    heads = _heads(text[first:last], separator) if last >= 0 and start - first <= _LONGEST_HEADER else []
    if not heads:
        return []
    index = text.count(separator, first, start)
    named = classify("_".join(heads[index].split()))
    if not named.kind:
        return []
    plain = any(map(_BESIDE().match, heads))
    spans: list[Span] = []
    for row, (at, cell) in enumerate(_cells(text, last + 1, separator, len(heads), index)):
        if _is_secret(cell, named, plain):
            spans.append((at, at + len(cell), named.kind))
        elif row > _MISSES and not spans:
            break  # a table of something else
    return spans


def _heads(line: str, separator: str) -> list[str]:
    """The headings of a table's columns; none if the line is not made of such."""
    heads = [head.strip(" \"'`*\r") for head in line.split(separator)]
    titles = [head for head in heads if head] if separator == "|" else heads
    return heads if len(titles) >= 2 and all(map(_HEADING().match, titles)) else []


def _beside(text: str, start: int, end: int) -> str:
    """What separates the name from its neighbour in the line; nothing if it does not stand as in a table."""
    behind = text[end : end + 40].lstrip(" \"'`*")[:1]
    if behind and behind in _SEPARATORS:
        return behind
    # Before it may stand more of the heading: `Secret access key`.
    before = text[max(0, start - 40) : start].rstrip(_HEADING_CHARS)[-1:]
    return before if before and before in _SEPARATORS and behind in ("", "\r", "\n") else ""


def _cells(text: str, position: int, separator: str, count: int, index: int) -> Iterator[tuple[int, str]]:
    """Where the cell of this index begins in each line of the table, and what it holds."""
    for _ in range(_ROWS):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        line = text[position : min(end, position + _LONGEST_LINE)].rstrip("\r")
        if not _RULE().match(line):
            cells = _split(line, separator)
            if len(cells) != count:
                return
            at, cell = cells[index]
            yield position + at, cell
        if end >= len(text):
            return
        position = end + 1


def _split(line: str, separator: str) -> list[tuple[int, str]]:
    """The cells of a line, without quotes and the space around them, each with its place."""
    cells = []
    position = 0
    while position <= len(line):
        quoted = _QUOTED_CELL().match(line, position) if separator != "|" else None
        end = quoted.end() if quoted else line.find(separator, position)
        end = len(line) if end < 0 else end
        if quoted:
            cells.append((quoted.start(1), quoted[1]))
        else:
            cell = line[position:end]
            cells.append((position + len(cell) - len(cell.lstrip(" `")), cell.strip(" `")))
        position = end + 1
    return cells


def _is_secret(cell: str, named: Named, plain: bool) -> bool:
    if not is_value(cell, named) or any(map(str.isspace, cell)):
        return False
    if named.kind == "password":
        return plain or is_random(cell)
    return len(cell) >= _SHORTEST_KEY and is_random(cell)


#: A line of .pgpass: host, port, database, user, password. It is looked for from the first colon on.
_PGPASS = lazy(
    r""":(?P<port>\*|\d{4,5}) :(?:\*|[A-Za-z_][\w-]{0,62}) :(?:\*|[A-Za-z_][\w.@-]{0,62})
        :(?P<password>(?:\\[:\\]|[^\s:\\"'`]){3,256}) (?=[\s"'`]|\\[nr]|\Z)""",
    re.X | re.ASCII,
)
#: The host begins a line, or stands behind a space, a quote or a line's number.
_HOST = lazy(
    r"""(?:\A|[\s"'`→]|\\n) (?:\*|/[\w./-]{1,80}|[A-Za-z][A-Za-z0-9.-]{0,80}|\d{1,3}(?:\.\d{1,3}){3}) \Z""",
    re.X | re.ASCII,
)
_LONGEST_HOST = 84


def redact_pgpass(text: str) -> str:
    """Take out the passwords in lines of .pgpass."""
    sure = "pgpass" in text
    spans = [(*line.span("password"), "password") for line in _PGPASS().finditer(text) if _is_pgpass(line, sure)]
    return replace_spans(text, spans)


def _is_pgpass(line: re.Match[str], sure: bool) -> bool:
    value, before = line["password"], line.string[max(0, line.start() - _LONGEST_HOST) : line.start()]
    if not is_literal(value) or is_path(value) or not _HOST().search(before):
        return False
    return sure or line["port"] in ("5432", "*") or is_random(value)
