"""Our entries in a client's JSON settings, with comments and trailing commas: put in, found again, taken out.

Edits are insertions and deletions of text: what an edit does not name keeps every byte. New text takes the
indentation, the line ends and the trailing-comma habit of its surroundings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

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
_STRING = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|({COMMENT.pattern})", re.S)
#: A comma that follows nothing is left where it is, and refused.
_STRING_OR_LAST_COMMA = re.compile(rf"{_STRING}|[\[{{]\s*,|(,)(?=\s*[\]}}])")
_SIGN = re.compile(r"[^\n]")
_SAME_LINE = re.compile(r"(?:[ \t]*(?:/\*(?:(?!\*/)[^\n])*\*/|//[^\r\n]*))*")
_INDENTED = re.compile(r"\n([ \t]+)\S")
_HOOKS = "hooks"
_SERVERS = "mcpServers"
_Path = Sequence[str | int]
#: In a path, the place behind a list's last item.
_END = -1
_decode = json.JSONDecoder().raw_decode


def register(text: str, wanted: WantedEntries) -> str:
    """The text with exactly the wanted entries of ours in it."""
    before = load(text)
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
    before = load(text)
    for path, _ in reversed(list(_our_hooks(before))):
        text = _remove_ours(text, path, original)
    for name in (SERVER, SECOND_NAME):
        if is_our_server(value_at(load(text), (_SERVERS, name))):
            text = _remove_ours(text, (_SERVERS, name), original)
    return _same_but_ours(before, text)


def find(text: str) -> FoundEntries:
    """Our entries, as they are."""
    document = load(text)
    hooks: dict[str, list[str]] = {}
    places = []
    for path, handler in _our_hooks(document):
        hooks.setdefault(str(path[1]), []).append(str(handler["command"]))
        places.append(tuple(path[1:]))
    servers = [value_at(document, (_SERVERS, name)) for name in (SERVER, SECOND_NAME)]
    return FoundEntries(hooks, [entry for entry in servers if is_our_server(entry)], places)


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
            text = put(text, (_HOOKS, event, _END), {"hooks": [handler]} if wanted.grouped else handler)
    return text


def _register_server(text: str, entry: Mapping[str, Any]) -> str:
    name = server_name(value_at(load(text), (_SERVERS,)))
    known = value_at(load(text), (_SERVERS, name))
    if not is_our_server(known):
        text = put(text, (_SERVERS, name), entry)
    else:
        text = _update(text, (_SERVERS, name), {key: value for key, value in entry.items() if key != "env"})
        if "env" in entry:
            text = _update(text, (_SERVERS, name, "env"), entry["env"])
        elif value_at(known, ("env", HOME_VARIABLE)) is not None:
            text = _remove_ours(text, (_SERVERS, name, "env", HOME_VARIABLE), None)
    other = SECOND_NAME if name == SERVER else SERVER
    is_twice = is_our_server(value_at(load(text), (_SERVERS, other)))
    return _remove_ours(text, (_SERVERS, other), None) if is_twice else text


def _update(text: str, path: _Path, wanted: Mapping[str, Any]) -> str:
    """Change what differs, and leave what the user added."""
    known = value_at(load(text), path)
    for key, value in wanted.items():
        if value_at(known, (key,)) != value:
            text = put(text, (*path, key), value)
    return text


def _remove_ours(text: str, path: _Path, original: Any) -> str:
    """Remove a value, and then whatever is left empty around it and was not there before."""
    text = remove(text, path)
    for length in range(len(path) - 1, 0, -1):
        around = path[:length]
        if length == 4:
            continue  # the list in a group goes with the group, whose matcher means nothing alone
        left = value_at(load(text), around)
        empty_group = isinstance(left, dict) and left.get("hooks") == [] and length == 3
        if (left in ({}, []) or empty_group) and value_at(original, around) is None:
            text = remove(text, around)
        elif left is not None:
            break
    return text


def _our_hooks(document: Any) -> Iterator[tuple[_Path, Mapping[str, Any]]]:
    """Every hook of ours with its path, in either shape: in a group of hooks, or directly under its event."""
    events = value_at(document, (_HOOKS,))
    for event, groups in events.items() if isinstance(events, dict) else ():
        for index, group in enumerate(groups if isinstance(groups, list) else ()):
            if is_our_hook(group):
                yield (_HOOKS, event, index), group
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for place, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                if is_our_hook(handler):
                    yield (_HOOKS, event, index, "hooks", place), handler


def value_at(value: Any, path: _Path) -> Any:
    """What is at a path; None if there is nothing, or something without parts on the way."""
    for key in path:
        if isinstance(value, list) and isinstance(key, int):
            value = value[key] if key < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
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


class _Member(NamedTuple):
    """A member or an item: where it begins, where its value begins and ends, and where its comma stands, or -1."""

    key: str | int
    start: int
    value: int
    end: int
    comma: int

    @property
    def behind(self) -> int:
        return max(self.end, self.comma + 1)


def load(text: str) -> dict[str, Any]:
    """What the document holds; nothing if there is nothing in it but white space and comments."""
    try:
        try:  # most files are plain JSON as they are; int refuses NaN
            value = json.loads(text, parse_constant=int)
        except ValueError:
            plain = _plain(text)[1]
            value = json.loads(plain, parse_constant=int) if plain.strip() else {}
    except RecursionError:
        raise EditError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise EditError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError:
        raise EditError("a number is not well formed") from None
    if not isinstance(value, dict):
        raise EditError("an object in braces is expected")
    return value


@lru_cache(maxsize=1)
def _plain(text: str) -> tuple[str, str]:
    """The text with blanks for its comments, and with blanks for trailing commas, too: JSON with all in its place."""
    bare = _STRING_OR_COMMENT.sub(lambda found: _SIGN.sub(" ", found[0]) if found[1] else found[0], text)
    return bare, _STRING_OR_LAST_COMMA.sub(lambda found: " " if found[1] else found[0], bare)


def _members(text: str, start: int) -> list[_Member]:
    """What is in the object or array that begins here."""
    bare, plain = _plain(text)
    members: list[_Member] = []
    at = _skip(plain, start + 1)
    while plain[at] not in "}]":
        key, begin = len(members), at
        if plain[start] == "{":
            key, at = _decode(plain, at)
            at = _skip(plain, _skip(plain, at) + 1)
        end = _decode(plain, at)[1]
        after = _skip(bare, end)
        comma = after if bare[after] == "," else -1
        members.append(_Member(key, begin, at, end, comma))
        at = _skip(plain, max(after, comma + 1))
    return members


def _walk(text: str, path: _Path) -> list[_Member]:
    """The values along a path, from the whole document on and as far as there are any.

    Of repeated names the last is the one that counts.
    """
    plain = _plain(text)[1]
    if not plain.strip():
        return []
    start = _skip(plain, 0)
    found = [_Member("", start, start, len(plain.rstrip()), -1)]
    for key in path:
        box = found[-1]
        if plain[box.value] != ("{" if isinstance(key, str) else "["):
            shown = text[box.value : box.end][:40]
            raise EditError(f"there is no place for {key!r}: an object or a list is expected, but there is {shown}")
        inner = {member.key: member for member in _members(text, box.value)}.get(key)
        if inner is None:
            break
        found.append(inner)
    return found


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def put(text: str, path: _Path, value: Any) -> str:
    """Give the value at this path, making the objects and lists on the way that do not exist."""
    found = _walk(text, path)
    if len(found) > len(path):
        start, end = found[-1].value, found[-1].end
        indent = _indent(text, start) if "\n" in text[start:end] else None
        return text[:start] + _render(text, value, indent) + text[end:]
    missing = path[max(len(found) - 1, 0) :]
    for outer in reversed(missing[1:]):
        value = {outer: value} if isinstance(outer, str) else [value]
    if found:
        return _insert(text, found[0], found[-1], missing[0], value)
    newline = _newline(text)  # a document of nothing but comments gets its value after them
    before = text if not text or text.endswith("\n") else text + newline
    return before + json.dumps({missing[0]: value}, indent="  ").replace("\n", newline) + newline


def remove(text: str, path: _Path) -> str:
    """Take the member or item at this path out, with its comma and, where it has lines of its own, its lines."""
    found = _walk(text, path)
    if len(found) <= len(path):
        return text
    box, gone = found[-2:]
    members = _members(text, box.value)
    around = text[box.value + 1 : gone.start] + text[gone.end : box.end - 1]
    if len(members) == 1 and not COMMENT.search(around):
        return text[: box.value + 1] + text[box.end - 1 :]
    index = members.index(gone)
    before = members[index - 1] if index else None
    least, end = before.behind if before else box.value + 1, gone.behind
    # It goes with the white space before it, unless a comment there needs its line's end.
    start = least + len(text[least : gone.start].rstrip(" \t"))
    if start > least and text[start - 1] == "\n":
        start -= 2 if text[start - 2 : start] == "\r\n" else 1
        comments = [found[0] for found in COMMENT.finditer(text, least, start) if found.end() == start]
        if comments and comments[-1].startswith("//") and text[end:].lstrip(" \t")[:1] not in ("\r", "\n", ""):
            start = gone.start
    if start == gone.start and before is None:
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    if gone.comma < 0 and before is not None and before.comma >= 0:
        return text[: before.comma] + text[before.comma + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _insert(text: str, root: _Member, box: _Member, key: str | int, value: Any) -> str:
    """Put a member or an item behind the last one, or into an empty object or array."""
    newline, name = _newline(text), f"{json.dumps(key)}: " if isinstance(key, str) else ""
    if members := _members(text, box.value):
        last = members[-1]
        line = text.rfind("\n", 0, last.start) + 1
        # The indentation of a value that begins its line; None for one that stands after something else.
        indent = text[line : last.start] if line and not text[line : last.start].strip(" \t") else None
        same = _SAME_LINE.match(text, last.behind) if indent is not None else None
        gap, point = " " if indent is None else newline + indent, same.end() if same else last.behind
        added = gap + name + _render(text, value, indent) + ("," if last.comma >= 0 else "")
        comma = "," if last.comma < 0 else ""
        return text[: last.end] + comma + text[last.end : point] + added + text[point:]
    inside = text[box.value + 1 : box.end - 1]
    kept = inside.rstrip()
    if box is not root and "\n" not in text[root.value : root.end]:
        point = box.value + 1 + len(kept)
        return text[:point] + name + _render(text, value, None) + text[point:]
    outer = _indent(text, box.value)
    inner = outer + _unit(text)
    rest = inside[len(kept) :] if kept and "\n" in inside[len(kept) :] else newline + outer
    added = kept + newline + inner + name + _render(text, value, inner) + rest
    return text[: box.value + 1] + added + text[box.end - 1 :]


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
