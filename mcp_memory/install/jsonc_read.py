"""Reading JSON with comments and trailing commas into values that know where they stand in the text."""

from __future__ import annotations

import json
import re
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
