"""Reading JSON with comments and trailing commas into values that know where they stand in the text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_TRIVIA = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*.*?\*/)*+", re.S)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"')
_SCALAR = re.compile(r"(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.])")


class JsonError(ValueError):
    """The text is not JSON, or not of the shape an edit needs; the message says where."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A member or an item: `start` is where its key or value begins, `comma` where the comma after it stands."""

    key: str | int
    start: int
    node: Node
    comma: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place in the text; `slots` is None for all but objects and arrays."""

    start: int
    end: int
    value: Any
    slots: tuple[Slot, ...] | None = None

    def slot(self, key: str | int) -> Slot | None:
        """The member or item of this key; of repeated keys the last, which is the one that counts."""
        return next((slot for slot in reversed(self.slots or ()) if slot.key == key), None)


def parse(text: str) -> Node | None:
    """The document's value; None if there is nothing but white space and comments."""
    start = _skip(text, 0)
    if start == len(text):
        return None
    try:
        root = _value(text, start)
    except RecursionError:
        raise JsonError("it is nested too deeply") from None
    end = _skip(text, root.end)
    if end != len(text):
        raise _error(text, end, "more text than one value")
    return root


def load(text: str) -> Any:
    """The Python value of a document; an empty object for an empty one."""
    try:  # most files are plain JSON, which the standard library reads a hundred times faster
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        root = parse(text)
    return {} if root is None else root.value


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _value(text: str, at: int) -> Node:
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at)
    if first == "[":
        return _array(text, at)
    match = _STRING.match(text, at) if first == '"' else _SCALAR.match(text, at)
    if not match:
        raise _error(text, at, "a value is missing or not well formed")
    return Node(at, match.end(), _decode(text, at, match[0]))


def _object(text: str, start: int) -> Node:
    slots: list[Slot] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "}":
        if slots and slots[-1].comma is None:
            raise _error(text, at, "a comma is missing")
        key = _STRING.match(text, at)
        if not key:
            raise _error(text, at, "a name in double quotes is missing")
        colon = _skip(text, key.end())
        if text[colon : colon + 1] != ":":
            raise _error(text, colon, "a colon is missing")
        node = _value(text, _skip(text, colon + 1))
        comma, after = _comma(text, node.end)
        slots.append(Slot(_decode(text, at, key[0]), at, node, comma))
        at = after
    return Node(start, at + 1, {slot.key: slot.node.value for slot in slots}, tuple(slots))


def _array(text: str, start: int) -> Node:
    slots: list[Slot] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "]":
        if slots and slots[-1].comma is None:
            raise _error(text, at, "a comma is missing")
        node = _value(text, at)
        comma, after = _comma(text, node.end)
        slots.append(Slot(len(slots), at, node, comma))
        at = after
    return Node(start, at + 1, [slot.node.value for slot in slots], tuple(slots))


def _comma(text: str, at: int) -> tuple[int | None, int]:
    """Where the comma after a value stands, if there is one, and where the next token begins."""
    at = _skip(text, at)
    return (at, _skip(text, at + 1)) if text[at : at + 1] == "," else (None, at)


def _skip(text: str, at: int) -> int:
    match = _TRIVIA.match(text, at)
    return match.end() if match else at


def _decode(text: str, at: int, token: str) -> Any:
    try:
        return json.loads(token)
    except ValueError:
        raise _error(text, at, "a value is not well formed") from None


def _error(text: str, at: int, reason: str) -> JsonError:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return JsonError(f"line {line}, column {column}: {reason}")


Path = Sequence[str | int]
_SAME_LINE = re.compile(r"(?:[ \t]*(?:/\*(?:(?!\*/)[^\n])*\*/|//[^\r\n]*))*")
_INDENTED = re.compile(r"\n([ \t]+)\S")


def put(text: str, path: Path, value: Any) -> str:
    """Give the member at this path a value, making the objects on the way that do not exist."""
    root = parse(text)
    if root is None:
        return _first(text, _nest(path, value))
    node = root
    for depth, key in enumerate(path):
        slot = _slot(node, key)
        if slot is None:
            return _insert(text, root, node, key, _nest(path[depth + 1 :], value))
        node = slot.node
    return _replace(text, node, value)


def append(text: str, path: Path, value: Any) -> str:
    """Add an item to the end of the array at this path, making the array if it does not exist."""
    root = parse(text)
    node = root and _find(root, path)
    if root is None or node is None:
        return put(text, path, [value])
    if not isinstance(node.value, list):
        raise JsonError(f"{_name(path)} is not a list")
    return _insert(text, root, node, None, value)


def remove(text: str, path: Path) -> str:
    """Take the member or item at this path out, with its comma and, where it has lines of its own, its lines."""
    root = parse(text)
    box = root and _find(root, path[:-1])
    slot = box.slot(path[-1]) if box else None
    if box is None or slot is None or box.slots is None:
        return text
    index = box.slots.index(slot)
    before = box.slots[index - 1] if index else None
    if len(box.slots) == 1 and not COMMENT.search(_around(text, box, slot)):
        return text[: box.start + 1] + text[box.end - 1 :]
    end = slot.node.end if slot.comma is None else slot.comma + 1
    start = _start(text, box.start + 1 if before is None else _after(before), slot.start, end)
    if start == slot.start and before is None:
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    if slot.comma is None and before is not None and before.comma is not None:
        return text[: before.comma] + text[before.comma + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _find(root: Node, path: Path) -> Node | None:
    node = root
    for key in path:
        slot = _slot(node, key)
        if slot is None:
            return None
        node = slot.node
    return node


def _slot(node: Node, key: str | int) -> Slot | None:
    if not isinstance(node.value, dict if isinstance(key, str) else list):
        raise JsonError(f"there is no place for {key!r}: an object is expected, but there is {str(node.value)[:40]!r}")
    return node.slot(key)


def _nest(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _name(path: Path) -> str:
    return ".".join(map(str, path))


def _first(text: str, value: Any) -> str:
    """A document of nothing but comments gets its value after them."""
    newline = _newline(text)
    before = text if not text or text.endswith("\n") else text + newline
    return before + json.dumps(value, indent="  ").replace("\n", newline) + newline


def _insert(text: str, root: Node, box: Node, key: str | int | None, value: Any) -> str:
    if not box.slots:
        return _insert_only(text, root, box, key, value)
    last = box.slots[-1]
    after = _after(last)
    indent = _own_line(text, last.start)
    if indent is None:
        gap, point = " ", after
    else:
        same = _SAME_LINE.match(text, after)
        gap, point = _newline(text) + indent, same.end() if same else after
    added = gap + _member(text, key, value, indent) + ("," if last.comma is not None else "")
    comma = "," if last.comma is None else ""
    return text[: last.node.end] + comma + text[last.node.end : point] + added + text[point:]


def _insert_only(text: str, root: Node, box: Node, key: str | int | None, value: Any) -> str:
    """Into an empty object or array."""
    inside = text[box.start + 1 : box.end - 1]
    if box is not root and "\n" not in text[root.start : root.end]:
        point = box.start + 1 + len(inside.rstrip())
        return text[:point] + _member(text, key, value, None) + text[point:]
    outer = _indent(text, box.start)
    inner = outer + _unit(text)
    newline = _newline(text)
    kept = inside.rstrip()
    rest = inside[len(kept) :] if kept and "\n" in inside[len(kept) :] else newline + outer
    added = kept + newline + inner + _member(text, key, value, inner) + rest
    return text[: box.start + 1] + added + text[box.end - 1 :]


def _replace(text: str, node: Node, value: Any) -> str:
    several = "\n" in text[node.start : node.end]
    return text[: node.start] + _render(text, value, _indent(text, node.start) if several else None) + text[node.end :]


def _member(text: str, key: str | int | None, value: Any, indent: str | None) -> str:
    rendered = _render(text, value, indent)
    return rendered if key is None else f"{json.dumps(key)}: {rendered}"


def _render(text: str, value: Any, indent: str | None) -> str:
    """The value on one line, or on several that are indented under `indent`."""
    if indent is None:
        return json.dumps(value)
    return json.dumps(value, indent=_unit(text)).replace("\n", _newline(text) + indent)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    """One step of indentation, as the document uses it."""
    found = _INDENTED.search(text)
    return found[1] if found else "  "


def _indent(text: str, at: int) -> str:
    """The white space at the start of the line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _own_line(text: str, at: int) -> str | None:
    """The indentation of a value that begins its line; None for one that stands after something else."""
    start = text.rfind("\n", 0, at) + 1
    return text[start:at] if start and not text[start:at].strip(" \t") else None


def _after(slot: Slot) -> int:
    return slot.node.end if slot.comma is None else slot.comma + 1


def _around(text: str, box: Node, slot: Slot) -> str:
    return text[box.start + 1 : slot.start] + text[slot.node.end : box.end - 1]


def _start(text: str, least: int, at: int, end: int) -> int:
    """Where a deletion begins: with the white space before it, unless a comment there needs its line's end."""
    start = at
    while start > least and text[start - 1] in " \t":
        start -= 1
    if start <= least or text[start - 1] != "\n":
        return start
    start -= 2 if text[start - 2 : start] == "\r\n" else 1
    comments = list(COMMENT.finditer(text, least, start))
    open_ended = bool(comments) and comments[-1][0].startswith("//") and comments[-1].end() >= start
    follows = text[end:].lstrip(" \t")[:1]
    return at if open_ended and follows not in ("\r", "\n", "") else start
