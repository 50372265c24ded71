"""Our entries in a client's JSON settings, with comments and trailing commas: put in, found again, taken out.

Edits are insertions and deletions of text: what an edit does not name keeps every byte. New text takes the
indentation, the line ends and the trailing-comma habit of its surroundings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_memory.install.catalog import (
    HOME_VARIABLE,
    SECOND_NAME,
    SERVER,
    EditError,
    FoundEntries,
    WantedEntries,
    is_our_hook,
    is_our_server,
    server_name,
)

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_TRIVIA = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*.*?\*/)*+", re.S)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"')
_SCALAR = re.compile(r"(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.])")
_SAME_LINE = re.compile(r"(?:[ \t]*(?:/\*(?:(?!\*/)[^\n])*\*/|//[^\r\n]*))*")
_INDENTED = re.compile(r"\n([ \t]+)\S")
_HOOKS = "hooks"
_SERVERS = "mcpServers"
_Path = Sequence[str | int]


def register(text: str, wanted: WantedEntries) -> str:
    """The text with exactly the wanted entries of ours in it."""
    before = _document(text)
    if wanted.hooks:
        if wanted.version is not None and "version" not in before:
            text = put(text, ("version",), wanted.version)
        text = _register_hooks(text, wanted)
    if wanted.server:
        text = _register_server(text, wanted.server)
    return _same_but_ours(before, text)


def withdraw(text: str, original: Any = None) -> str:
    """The text without our entries, and without the objects that we made for them and are empty now.

    `original` is what the document held before; empty objects that it had are kept.
    """
    before = _document(text)
    for path, _ in reversed(list(_our_hooks(before))):
        text = _remove_ours(text, path, original)
    for name in (SERVER, SECOND_NAME):
        if is_our_server(_at(load(text), (_SERVERS, name))):
            text = _remove_ours(text, (_SERVERS, name), original)
    return _same_but_ours(before, text)


def find(text: str) -> FoundEntries:
    """Our entries, as they are."""
    document = _document(text)
    hooks: dict[str, list[str]] = {}
    places = []
    for path, handler in _our_hooks(document):
        hooks.setdefault(str(path[1]), []).append(str(handler["command"]))
        places.append(tuple(path[1:]))
    servers = [_at(document, (_SERVERS, name)) for name in (SERVER, SECOND_NAME)]
    return FoundEntries(hooks, [entry for entry in servers if is_our_server(entry)], places)


def _document(text: str) -> dict[str, Any]:
    value = load(text)
    if not isinstance(value, dict):
        raise EditError("an object in braces is expected")
    return value


def _register_hooks(text: str, wanted: WantedEntries) -> str:
    surplus: list[_Path] = []
    done: set[str] = set()
    for path, _ in _our_hooks(load(text)):
        event = str(path[1])
        if event in wanted.hooks and event not in done:
            text = _update(text, path, wanted.hooks[event])
            done.add(event)
        else:
            surplus.append(path)
    for path in reversed(surplus):
        text = _remove_ours(text, path, None)
    for event, handler in wanted.hooks.items():
        if event not in done:
            text = append(text, (_HOOKS, event), {"hooks": [handler]} if wanted.grouped else handler)
    return text


def _register_server(text: str, entry: Mapping[str, Any]) -> str:
    name = server_name(_at(load(text), (_SERVERS,)))
    known = _at(load(text), (_SERVERS, name))
    if not is_our_server(known):
        text = put(text, (_SERVERS, name), entry)
    else:
        text = _update(text, (_SERVERS, name), {key: value for key, value in entry.items() if key != "env"})
        if "env" in entry:
            text = _update(text, (_SERVERS, name, "env"), entry["env"])
        elif _at(known, ("env", HOME_VARIABLE)) is not None:
            text = _remove_ours(text, (_SERVERS, name, "env", HOME_VARIABLE), None)
    other = SECOND_NAME if name == SERVER else SERVER
    is_twice = is_our_server(_at(load(text), (_SERVERS, other)))
    return _remove_ours(text, (_SERVERS, other), None) if is_twice else text


def _update(text: str, path: _Path, wanted: Mapping[str, Any]) -> str:
    """Change what differs, and leave what the user added."""
    known = _at(load(text), path)
    for key, value in wanted.items():
        if _at(known, (key,)) != value:
            text = put(text, (*path, key), value)
    return text


def _remove_ours(text: str, path: _Path, original: Any) -> str:
    """Remove a value, and then whatever is left empty around it and was not there before."""
    text = remove(text, path)
    for length in range(len(path) - 1, 0, -1):
        around = path[:length]
        if length == 4:
            continue  # the list in a group goes with the group, whose matcher means nothing alone
        left = _at(load(text), around)
        empty_group = isinstance(left, dict) and left.get("hooks") == [] and length == 3
        if (left in ({}, []) or empty_group) and _at(original, around) is None:
            text = remove(text, around)
        elif left is not None:
            break
    return text


def _our_hooks(document: Any) -> Iterator[tuple[_Path, Mapping[str, Any]]]:
    """Every hook of ours with its path, in either shape: in a group of hooks, or directly under its event."""
    events = _at(document, (_HOOKS,))
    for event, groups in events.items() if isinstance(events, dict) else ():
        for index, group in enumerate(groups if isinstance(groups, list) else ()):
            if is_our_hook(group):
                yield (_HOOKS, event, index), group
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for place, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                if is_our_hook(handler):
                    yield (_HOOKS, event, index, "hooks", place), handler


def _at(value: Any, path: _Path) -> Any:
    for key in path:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int):
            value = value[key] if key < len(value) else None
        else:
            return None
    return value


def _same_but_ours(before: Any, text: str) -> str:
    """A last look before anything is written: an edit that touched more than ours is an error of this program."""
    if _bare(before) != _bare(load(text)):
        raise EditError("the edit would change more than our own entries")
    return text


def _bare(document: Any) -> Any:
    """A document without our entries and without empty containers."""
    if isinstance(document, dict):
        ours = {key for key in (SERVER, SECOND_NAME) if is_our_server(document.get(key))}
        ours |= {"version"} if document.get("version") == 1 else set()
        members = {key: _bare(value) for key, value in document.items() if key not in ours}
        return {key: value for key, value in members.items() if value not in ({}, [])}
    if isinstance(document, list):
        items = [_bare(item) for item in document if not is_our_hook(item) and not _is_our_group(item)]
        return [item for item in items if item not in ({}, [])]
    return document


def _is_our_group(group: Any) -> bool:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return isinstance(hooks, list) and bool(hooks) and all(map(is_our_hook, hooks))


@dataclass(frozen=True, slots=True)
class JsonSlot:
    """A member or an item: `start` is where its key or value begins, `comma` where the comma after it stands."""

    key: str | int
    start: int
    node: JsonNode
    comma: int | None

    @property
    def end(self) -> int:
        """Behind its value and its comma."""
        return self.node.end if self.comma is None else self.comma + 1


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value with its place in the text; `slots` is None for all but objects and arrays."""

    start: int
    end: int
    value: Any
    slots: tuple[JsonSlot, ...] | None = None

    def slot(self, key: str | int) -> JsonSlot | None:
        """The member or item of this key; of repeated keys the last, which is the one that counts."""
        return next((slot for slot in reversed(self.slots or ()) if slot.key == key), None)

    def inner(self, key: str | int) -> JsonNode | None:
        """The value of this key, if there is one; an error where there is no place for it."""
        if not isinstance(self.value, dict if isinstance(key, str) else list):
            shown = str(self.value)[:40]
            raise EditError(f"there is no place for {key!r}: an object is expected, but there is {shown!r}")
        slot = self.slot(key)
        return slot.node if slot else None


def load(text: str) -> Any:
    """The Python value of a document; an empty object for an empty one."""
    try:  # most files are plain JSON, which the standard library reads a hundred times faster; int refuses NaN
        return json.loads(text, parse_constant=int)
    except (ValueError, RecursionError):
        root = _parse(text)
    return {} if root is None else root.value


def _parse(text: str) -> JsonNode | None:
    """The document's value; None if there is nothing but white space and comments."""
    start = _skip(text, 0)
    if start == len(text):
        return None
    try:
        root = _value(text, start)
    except RecursionError:
        raise EditError("it is nested too deeply") from None
    end = _skip(text, root.end)
    if end != len(text):
        raise _error(text, end, "more text than one value")
    return root


def _value(text: str, at: int) -> JsonNode:
    first = text[at : at + 1]
    if first in ("{", "["):
        return _container(text, at, is_object=first == "{")
    match = _STRING.match(text, at) if first == '"' else _SCALAR.match(text, at)
    if not match:
        raise _error(text, at, "a value is missing or not well formed")
    return JsonNode(at, match.end(), _decode(text, at, match[0]))


def _container(text: str, start: int, *, is_object: bool) -> JsonNode:
    slots: list[JsonSlot] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != ("}" if is_object else "]"):
        if slots and slots[-1].comma is None:
            raise _error(text, at, "a comma is missing")
        key: str | int = len(slots)
        begin = at
        if is_object:
            name = _STRING.match(text, at)
            if not name:
                raise _error(text, at, "a name in double quotes is missing")
            key, colon = _decode(text, at, name[0]), _skip(text, name.end())
            if text[colon : colon + 1] != ":":
                raise _error(text, colon, "a colon is missing")
            at = _skip(text, colon + 1)
        node = _value(text, at)
        at = _skip(text, node.end)
        comma = at if text[at : at + 1] == "," else None
        at = at if comma is None else _skip(text, at + 1)
        slots.append(JsonSlot(key, begin, node, comma))
    values = [slot.node.value for slot in slots]
    value = dict(zip((slot.key for slot in slots), values, strict=True)) if is_object else values
    return JsonNode(start, at + 1, value, tuple(slots))


def _skip(text: str, at: int) -> int:
    match = _TRIVIA.match(text, at)
    return match.end() if match else at


def _decode(text: str, at: int, token: str) -> Any:
    try:
        return json.loads(token)
    except ValueError:
        raise _error(text, at, "a value is not well formed") from None


def _error(text: str, at: int, reason: str) -> EditError:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return EditError(f"line {line}, column {column}: {reason}")


def put(text: str, path: _Path, value: Any) -> str:
    """Give the member at this path a value, making the objects on the way that do not exist."""
    node = root = _parse(text)
    for depth, key in enumerate(path):
        inner = node.inner(key) if node else None
        if inner is None:
            for outer in reversed(path[depth + 1 :]):
                value = {outer: value}
            if root is None or node is None:  # a document of nothing but comments gets its value after them
                newline = _newline(text)
                before = text if not text or text.endswith("\n") else text + newline
                return before + json.dumps({key: value}, indent="  ").replace("\n", newline) + newline
            return _insert(text, root, node, key, value)
        node = inner
    assert node is not None
    indent = _indent(text, node.start) if "\n" in text[node.start : node.end] else None
    return text[: node.start] + _render(text, value, indent) + text[node.end :]


def append(text: str, path: _Path, value: Any) -> str:
    """Add an item to the end of the array at this path, making the array if it does not exist."""
    root = _parse(text)
    node = root and _find(root, path)
    if root is None or node is None:
        return put(text, path, [value])
    if not isinstance(node.value, list):
        raise EditError(f"{'.'.join(map(str, path))} is not a list")
    return _insert(text, root, node, None, value)


def remove(text: str, path: _Path) -> str:
    """Take the member or item at this path out, with its comma and, where it has lines of its own, its lines."""
    root = _parse(text)
    box = root and _find(root, path[:-1])
    slot = box.slot(path[-1]) if box else None
    if box is None or slot is None or box.slots is None:
        return text
    index = box.slots.index(slot)
    before = box.slots[index - 1] if index else None
    around = text[box.start + 1 : slot.start] + text[slot.node.end : box.end - 1]
    if len(box.slots) == 1 and not COMMENT.search(around):
        return text[: box.start + 1] + text[box.end - 1 :]
    end = slot.end
    start = _start(text, box.start + 1 if before is None else before.end, slot.start, end)
    if start == slot.start and before is None:
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    if slot.comma is None and before is not None and before.comma is not None:
        return text[: before.comma] + text[before.comma + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _find(root: JsonNode, path: _Path) -> JsonNode | None:
    node: JsonNode | None = root
    for key in path:
        node = node.inner(key) if node else None
    return node


def _insert(text: str, root: JsonNode, box: JsonNode, key: str | int | None, value: Any) -> str:
    """Put a member or an item behind the last one, or into an empty object or array."""
    newline, name = _newline(text), "" if key is None else f"{json.dumps(key)}: "
    if box.slots:
        last = box.slots[-1]
        line = text.rfind("\n", 0, last.start) + 1
        # The indentation of a value that begins its line; None for one that stands after something else.
        indent = text[line : last.start] if line and not text[line : last.start].strip(" \t") else None
        same = _SAME_LINE.match(text, last.end) if indent is not None else None
        gap, point = " " if indent is None else newline + indent, same.end() if same else last.end
        added = gap + name + _render(text, value, indent) + ("," if last.comma is not None else "")
        comma = "," if last.comma is None else ""
        return text[: last.node.end] + comma + text[last.node.end : point] + added + text[point:]
    inside = text[box.start + 1 : box.end - 1]
    kept = inside.rstrip()
    if box is not root and "\n" not in text[root.start : root.end]:
        point = box.start + 1 + len(kept)
        return text[:point] + name + _render(text, value, None) + text[point:]
    outer = _indent(text, box.start)
    inner = outer + _unit(text)
    rest = inside[len(kept) :] if kept and "\n" in inside[len(kept) :] else newline + outer
    added = kept + newline + inner + name + _render(text, value, inner) + rest
    return text[: box.start + 1] + added + text[box.end - 1 :]


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
