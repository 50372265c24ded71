"""Our entries in a client's JSON settings: put in, found again, taken out; all else stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcp_memory.install import jsonc as edit
from mcp_memory.install.catalog import (
    HOME_VARIABLE,
    SECOND_NAME,
    SERVER,
    Found,
    Wanted,
    is_our_hook,
    is_our_server,
    server_name,
)
from mcp_memory.install.jsonc import JsonError, load

HOOKS = "hooks"
SERVERS = "mcpServers"
_Path = tuple[str | int, ...]


def register(text: str, wanted: Wanted) -> str:
    """The text with exactly the wanted entries of ours in it."""
    before = _document(text)
    if wanted.hooks:
        if wanted.version is not None and "version" not in before:
            text = edit.put(text, ("version",), wanted.version)
        text = _register_hooks(text, wanted)
    if wanted.server:
        text = _register_server(text, wanted.server)
    _same_but_ours(before, load(text))
    return text


def withdraw(text: str, original: Any = None) -> str:
    """The text without our entries, and without the objects that we made for them and are empty now.

    `original` is what the document held before; empty objects that it had are kept.
    """
    before = _document(text)
    for path, _ in reversed(list(_our_hooks(before))):
        text = _remove(text, path, original)
    for name in (SERVER, SECOND_NAME):
        if is_our_server(_at(load(text), (SERVERS, name))):
            text = _remove(text, (SERVERS, name), original)
    _same_but_ours(before, load(text))
    return text


def find(text: str) -> Found:
    """Our entries, as they are."""
    document = _document(text)
    hooks: dict[str, list[str]] = {}
    places = []
    for path, handler in _our_hooks(document):
        hooks.setdefault(str(path[1]), []).append(str(handler["command"]))
        places.append(path[1:])
    servers = [_at(document, (SERVERS, name)) for name in (SERVER, SECOND_NAME)]
    return Found(hooks, [entry for entry in servers if is_our_server(entry)], places)


def _document(text: str) -> dict[str, Any]:
    value = load(text)
    if not isinstance(value, dict):
        raise JsonError("an object in braces is expected")
    return value


def _register_hooks(text: str, wanted: Wanted) -> str:
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
        text = _remove(text, path, None)
    for event, handler in wanted.hooks.items():
        if event not in done:
            text = edit.append(text, (HOOKS, event), {"hooks": [handler]} if wanted.grouped else handler)
    return text


def _register_server(text: str, entry: Mapping[str, Any]) -> str:
    name = server_name(_at(load(text), (SERVERS,)))
    known = _at(load(text), (SERVERS, name))
    if not is_our_server(known):
        text = edit.put(text, (SERVERS, name), entry)
    else:
        text = _update(text, (SERVERS, name), {key: value for key, value in entry.items() if key != "env"})
        if "env" in entry:
            text = _update(text, (SERVERS, name, "env"), entry["env"])
        elif _at(known, ("env", HOME_VARIABLE)) is not None:
            text = _remove(text, (SERVERS, name, "env", HOME_VARIABLE), None)
    other = SECOND_NAME if name == SERVER else SERVER
    return _remove(text, (SERVERS, other), None) if is_our_server(_at(load(text), (SERVERS, other))) else text


def _update(text: str, path: _Path, wanted: Mapping[str, Any]) -> str:
    """Change what differs, and leave what the user added."""
    known = _at(load(text), path)
    for key, value in wanted.items():
        if _at(known, (key,)) != value:
            text = edit.put(text, (*path, key), value)
    return text


def _remove(text: str, path: _Path, original: Any) -> str:
    """Remove a value, and then whatever is left empty around it and was not there before."""
    text = edit.remove(text, path)
    for length in range(len(path) - 1, 0, -1):
        around = path[:length]
        if length == 4:
            continue  # the list in a group goes with the group, whose matcher means nothing alone
        left = _at(load(text), around)
        empty_group = isinstance(left, dict) and left.get("hooks") == [] and length == 3
        if (left in ({}, []) or empty_group) and _at(original, around) is None:
            text = edit.remove(text, around)
        elif left is not None:
            break
    return text


def _our_hooks(document: Any) -> Iterator[tuple[_Path, Mapping[str, Any]]]:
    """Every hook of ours with its path, in either shape: in a group of hooks, or directly under its event."""
    events = _at(document, (HOOKS,))
    for event, groups in events.items() if isinstance(events, dict) else ():
        for index, group in enumerate(groups if isinstance(groups, list) else ()):
            if is_our_hook(group):
                yield (HOOKS, event, index), group
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for place, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                if is_our_hook(handler):
                    yield (HOOKS, event, index, "hooks", place), handler


def _at(value: Any, path: _Path) -> Any:
    for key in path:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int):
            value = value[key] if key < len(value) else None
        else:
            return None
    return value


def _same_but_ours(before: Any, after: Any) -> None:
    """A last look before anything is written: an edit that touched more than ours is an error of this program."""
    if _bare(before) != _bare(after):
        raise JsonError("the edit would change more than our own entries")


def _bare(document: Any) -> Any:
    """A document without our entries and without empty containers."""
    if isinstance(document, dict):
        members = {key: _bare(value) for key, value in document.items() if not _is_ours(key, value)}
        return {key: value for key, value in members.items() if value not in ({}, [])}
    if isinstance(document, list):
        items = [_bare(item) for item in document if not is_our_hook(item) and not _is_our_group(item)]
        return [item for item in items if item not in ({}, [])]
    return document


def _is_ours(key: str, value: Any) -> bool:
    return (key in (SERVER, SECOND_NAME) and is_our_server(value)) or (key == "version" and value == 1)


def _is_our_group(group: Any) -> bool:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return isinstance(hooks, list) and bool(hooks) and all(map(is_our_hook, hooks))
