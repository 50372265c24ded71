"""Secrets in settings whose name stands apart from them: in an entry of its own, or once for a list of values.

Both are tried only where `named_secrets` has met the name, and every match is bounded.
"""

from __future__ import annotations

import re

from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.secret_names import NOT_SECRET, Named, classify
from mcp_memory.capture.secret_values import is_code, is_literal, is_mixed, is_path, is_random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Span = tuple[int, int, str]

_NAME_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_QUOTES = " \t\"'\\"
#: How far behind its name the word `value` may stand, and how far before it, with the value between them.
_BEHIND, _BEFORE = 80, 1_400
#: How many words `value` are looked at before a name: the value itself may hold one.
_TRIES = 3
_ITEMS = 200

#: A name and a value as two entries: containers' and pipelines' settings. Terraform writes them with `=`.
_VALUE = r"""\\{0,7}["']? [vV]alue \\{0,7}["']? [ \t]{0,20} [:=] \s{0,20}
        (?: (?P<quote>["']) (?P<quoted>(?:(?!(?P=quote))[^\\\r\n]){1,1024})
          | \\{1,7}["'] (?P<escaped>[^\\\r\n"']{1,1024}) | (?P<bare>[^\s"'`<>\\,}]{1,256}) )"""
#: An output of Terraform: the name of an object that says whether it is sensitive, and holds the value.
_OUTPUT = lazy(
    r"""[\w-]{2,60} \\{0,7}" :\s{0,4}\{\s{0,60} \\{0,7}"sensitive\\{0,7}" [^{}]{1,200}? \\{0,7}"value\\{0,7}" :\s{0,4}
        \\{0,7}" (?P<value>[^"\\\r\n]{1,4096})""",
    re.X | re.ASCII,
)
_NAME = lazy(r"[\w-]{0,120}", re.ASCII)
_PAIRED = lazy(r"""[\w-]{2,60} \\{0,7}["']? [ \t]{0,4} ,? \s{0,60}""" + _VALUE, re.X | re.ASCII)
_PAIRED_BEFORE = lazy(
    _VALUE
    + r"""\\{0,7}["']? [ \t]{0,4} ,? \s{0,60} \\{0,7}["']? [A-Za-z_]{3,40} \\{0,7}["']? [ \t]{0,20} [:=]
        \s{0,20} \\{0,7}["']? \Z""",
    re.X | re.ASCII,
)

_DEFAULT = lazy(r"""[\w-]{2,60}"\s{0,4}\{[^{}]{0,400}?\bdefault\s{0,20}=\s{0,4}"(?P<value>[^"\r\n]{1,1024})""")

#: An item of a list in brackets, and what ends it; the text may itself stand in a string, with escaped lines.
_ITEM = lazy(
    r"""(?:\s|\\{1,7}[nrt]){0,60}
        (?: (?P<quote>["'`]) (?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n]){1,1024})
          | \\{1,7}["'] (?P<escaped>(?:(?!\\{1,7}["'])[^\r\n]){1,1024})
          | (?P<bare>[^\s"'`<>\\,\[\]{}()]{1,256}) )""",
    re.X | re.ASCII,
)
_AND = lazy(r"""[\w+/=~-]* \\{0,7}["'`]? (?:\s|\\{1,7}[nrt]){0,60} ,""", re.X | re.ASCII)
#: A line of a list in YAML that holds nothing but one value.
_LINE = lazy(
    r"""(?:\r?\n[ \t]{0,40})? -[ \t]{1,8}
        (?: (?P<quote>["']) (?P<quoted>(?:(?!(?P=quote))[^\\\r\n]){1,1024}) (?P=quote)
          | (?P<bare>[^\s"'`<>\\,\[\]{}#][^\s"'`<>\\]{0,1023}(?<!:)) )
        (?= [ \t]{0,8} (?:[ ]\#[^\r\n]{0,200})? (?:\r?\n|\Z) )""",
    re.X | re.ASCII,
)


def start_of_name(text: str, position: int) -> int:
    """Where the name begins that goes on at this place."""
    window = text[max(0, position - 60) : position]
    start = position - (len(window) - len(window.rstrip(_NAME_CHARS)))
    # The first letter may be that of an escaped line end or tabulator.
    return start + 1 if start < position and text[start - 1 : start + 1] in ("\\n", "\\t", "\\r") else start


def paired(text: str, position: int) -> Span | None:
    """The value that stands in an entry behind or before the one that holds the name."""
    start = start_of_name(text, position)
    if text.find("{", position, position + 80) >= 0 and "sensitive" in text[position : position + 160]:
        return _with_name(_OUTPUT().match(text, position), text, start)
    # What is looked for here is rare: names stand everywhere, but seldom as the value of `name` or `key`.
    before = text[max(0, start - 24) : start].rstrip(_QUOTES)
    if before.endswith("variable"):
        return _with_name(_DEFAULT().match(text, position), text, start)
    if before[-1:] not in (":", "=") or not before[:-1].rstrip(_QUOTES).lower().endswith(("name", "key")):
        return None
    named = classify(_NAME().match(text, start)[0])  # type: ignore[index]  # it matches nothing at all, too
    if not named.kind:
        return None
    behind = text.find("alue", position, position + _BEHIND) >= 0
    found = (_PAIRED().match(text, position) if behind else None) or _value_before(text, start)
    if not found:
        return None
    group = found.lastgroup or ""
    return (*found.span(group), named.kind) if is_value(found[group], named) else None


def _with_name(found: re.Match[str] | None, text: str, start: int) -> Span | None:
    """The value of an object whose name begins here, if that announces a secret."""
    named = classify(_NAME().match(text, start)[0])  # type: ignore[index]  # it matches nothing at all, too
    return (*found.span("value"), named.kind) if found and named.kind and is_value(found["value"], named) else None


def _value_before(text: str, start: int) -> re.Match[str] | None:
    """The entry `value` that comes right before the entry whose value begins here."""
    edge, first = start, max(0, start - _BEFORE)
    for _ in range(_TRIES):
        edge = text.rfind("alue", first, edge)
        if edge < 1:
            return None
        found = _PAIRED_BEFORE().match(text, edge - 1, start)
        if found:
            return found
    return None


def name_of_list(name: str) -> Named:
    """What the items of a list are, by its name: that of one of them, or of several."""
    named = classify(name)
    return named if named.kind or name[-1:] not in ("s", "S") else classify(name[:-1])


def listed(text: str, first: int, named: Named) -> list[Span]:
    """The secrets among the items of the list that begins here, with a bracket or with the dash of its first line."""
    if not named.kind:
        return []
    items = _in_lines(text, first) if text[first] == "-" else _in_brackets(text, first + 1)
    return [(*item.span(item.lastgroup or ""), named.kind) for item in items if _is_item(item, named)]


def _in_brackets(text: str, position: int) -> Iterator[re.Match[str]]:
    for _ in range(_ITEMS):
        item = _ITEM().match(text, position)
        if not item:
            return
        yield item
        further = _AND().match(text, item.end())
        if not further:
            return
        position = further.end()


def _in_lines(text: str, position: int) -> Iterator[re.Match[str]]:
    for _ in range(_ITEMS):
        item = _LINE().match(text, position)
        if not item:
            return
        yield item
        comment = text.find("\n", item.end())
        position = comment - (text[comment - 1 : comment] == "\r") if comment >= 0 else len(text)


def _is_item(item: re.Match[str], named: Named) -> bool:
    value = item[item.lastgroup or ""]
    if item.lastgroup != "bare":
        return not any(map(str.isspace, value)) and is_value(value, named)
    # A bare word may be one of talk, or an expression.
    return (is_mixed(value) or is_random(value)) and not is_code(value) and is_value(value, named)


def value_beside(entry: dict[str, Any]) -> Named:
    """What the `value` of a JSON object is, by the `name` or `key` that stands beside it."""
    if entry.get("sensitive") is True:  # an output of Terraform
        return Named("secret", True)
    for value, names in (("value", ("name", "key")), ("Value", ("Name", "Key"))):
        if value in entry:
            name = next((entry[name] for name in names if name in entry), None)
            return classify(name) if isinstance(name, str) else NOT_SECRET
    return NOT_SECRET


def is_value(value: str, named: Named) -> bool:
    """Whether what stands apart from its name is a secret, and not a word that says something about one."""
    if len(value) < 3 or not is_literal(value) or is_path(value):
        return False
    return is_random(value) or (named.sure and (is_mixed(value) or named.kind == "password"))
