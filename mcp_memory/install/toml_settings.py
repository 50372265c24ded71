"""Reading TOML as statements with their places in the text, so that single lines can be added and taken out.

`tomllib` tells what a document means and whether it is valid at all; this only tells where things stand.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_memory.install.catalog import (
    HOME_VARIABLE,
    SECOND_NAME,
    SERVER,
    Found,
    Wanted,
    is_our_server,
    server_name,
)

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


SERVERS = "mcp_servers"
_MARK = "  # set by mcp-memory"
_BLANK_LINE = re.compile(r"(?:^|(?<=\n))[ \t]*\r?\n\Z")


class TomlError(ValueError):
    """The text is not TOML, or not written in a way that single lines can be added to."""


def register(text: str, wanted: Wanted) -> str:
    """The text with the server's table in it."""
    original, before = text, load(text)
    if wanted.server is None:
        return text
    text = _register_top(text, wanted.top)
    name = server_name(before.get(SERVERS))
    known = _servers(before)
    for other in set(known) - {name}:
        text = _cut(text, other)
    if name not in known:
        text = _append(text, name, wanted.server)
    elif not _agrees(known[name], wanted.server):
        text = _update(text, name, known[name], wanted.server)
    entry = _servers(load(text)).get(name)
    if entry is None or not _agrees(entry, wanted.server):
        raise TomlError(f"[{SERVERS}.{name}] cannot be added beside what is there")
    _same_but_ours(original, text)
    return text


def withdraw(text: str, original: Any = None) -> str:
    """The text without our tables. `original` is of no use here: no table is made for others to stand in."""
    before = text
    for name in _servers(load(text)):
        text = _cut(text, name)
    if _servers(load(text)):
        raise TomlError(f"[{SERVERS}.{SERVER}] is written in a way that cannot be taken out line by line")
    for part in reversed(_marked(text)):
        text = text[: part.start] + text[part.end :]
    _same_but_ours(before, text)
    return text


def find(text: str) -> Found:
    servers = list(_servers(load(text)).values())
    return Found(servers=servers, top=[part.path[0] for part in _marked(text)])


def load(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlError(str(error)) from None


def _servers(document: Mapping[str, Any]) -> dict[str, Any]:
    servers = document.get(SERVERS)
    known = servers if isinstance(servers, dict) else {}
    return {name: known[name] for name in (SERVER, SECOND_NAME) if is_our_server(known.get(name))}


def _agrees(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether our part is as it should be; what the user added to it does not matter."""
    home = (known.get("env") or {}).get(HOME_VARIABLE)
    plain = all(known.get(key) == value for key, value in wanted.items() if key != "env")
    return plain and home == (wanted.get("env") or {}).get(HOME_VARIABLE)


def _register_top(text: str, wanted: Mapping[str, int]) -> str:
    """Add settings after the last of the file's own that stand before its first table; never change the user's."""
    for part in reversed(_marked(text)):
        if load(text[part.start : part.end]) != {part.path[0]: wanted.get(part.path[0])}:
            text = text[: part.start] + text[part.end :]
    for key in [key for key in wanted if key not in load(text)]:
        parts = statements(text)
        first = next((index for index, part in enumerate(parts) if part.header), len(parts))
        at = parts[first - 1].end if first else 0
        newline = _newline(text)
        gap = newline if at and not text[:at].endswith("\n") else ""
        text = text[:at] + f"{gap}{key} = {wanted[key]}{_MARK}{newline}" + text[at:]
    return text


def _marked(text: str) -> list[Statement]:
    """Our settings at the top of the file."""
    parts = [part for part in statements(text) if len(part.path) == 1 and not part.header]
    return [part for part in parts if text[part.start : part.end].rstrip().endswith(_MARK)]


def _append(text: str, name: str, entry: Mapping[str, Any]) -> str:
    newline = _newline(text)
    block = newline.join([f"[{SERVERS}.{name}]", *(f"{key} = {_render(value)}" for key, value in entry.items()), ""])
    if not text:
        return block
    return text + ("" if text.endswith("\n") else newline) + newline + block


def _update(text: str, name: str, known: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Rewrite the lines of ours, in the table's place; the user's own lines in it stay."""
    ours = _statements(text, name)
    env = {**(known.get("env") or {}), HOME_VARIABLE: (wanted.get("env") or {}).get(HOME_VARIABLE)}
    entry = {**wanted, "env": {key: value for key, value in env.items() if value is not None}}
    header = next((part for part in ours if part.header and part.path == (SERVERS, name)), None)
    if header is None:
        return _append(_cut(text, name), name, {**known, **entry})
    newline = _newline(text)
    lines = [f"{key} = {_render(value)}{newline}" for key, value in entry.items() if value != {}]
    for part in reversed(ours):
        if len(part.path) > 2 and part.path[2] in ("command", "args", "env"):
            text = text[: part.start] + text[part.end :]
    return text[: header.end] + "".join(lines) + text[header.end :]


def _cut(text: str, name: str) -> str:
    """Take out every line of the table, and the blank line that set it apart."""
    for part in reversed(_statements(text, name)):
        before, after = text[: part.start], text[part.end :]
        if part.header and (not after or after.startswith(("[", "\n", "\r\n"))):
            before = _BLANK_LINE.sub("", before)
        text = before + after
    return text


def _statements(text: str, name: str) -> list[Statement]:
    return [part for part in statements(text) if part.path[:2] == (SERVERS, name)]


def _render(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_render(item)}" for key, item in value.items()) + " }"
    # JSON's strings and lists of strings are TOML's too, as long as nothing is escaped to surrogate pairs.
    return json.dumps(value, ensure_ascii=False)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _same_but_ours(before: str, after: str) -> None:
    if _bare(before) != _bare(after):
        raise TomlError("the edit would change more than our own entry")


def _bare(text: str) -> dict[str, Any]:
    """A document without what is ours."""
    top = {part.path[0] for part in _marked(text)}
    document = {key: value for key, value in load(text).items() if key not in top}
    ours = _servers(document)
    servers = document.get(SERVERS)
    if not isinstance(servers, dict) or not ours:
        return document
    rest = {name: entry for name, entry in servers.items() if name not in ours}
    others = {key: value for key, value in document.items() if key != SERVERS}
    return {**others, SERVERS: rest} if rest else others
