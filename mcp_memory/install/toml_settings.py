"""Our server's entry in a client's TOML settings: put in, found again, taken out; all else stays as it is.

A setting of ours at the top of the file carries a comment by which it is known again. Our own settings are edited by
the same means.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, MutableMapping
from typing import Any

import tomlkit
from tomlkit.items import Table

from mcp_memory.install.catalog import (
    HOME_VARIABLE,
    SECOND_NAME,
    SERVER,
    EditError,
    FoundEntries,
    WantedEntries,
    is_our_server,
    server_name,
)

_SERVERS = "mcp_servers"
_MARK = "# set by mcp-memory"
#: Marks the lines that are to be cut; no file holds it, as a name in TOML has no such signs.
_CUT = "# \ufdd0"
_LEADING_COMMENTS = re.compile(r"(?:[ \t]*#[^\n]*\n)*")
_BARE_NEWLINE = re.compile(r"(?<!\r)\n")
_BLANK_LINE = re.compile(r"(?:^|(?<=\n))[ \t]*\r?\n\Z")


def register(text: str, wanted: WantedEntries) -> str:
    """The text with exactly the wanted server and settings of ours in it."""
    before, loaded = text, _load(text)
    if wanted.server is None:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    name, known = server_name(loaded.get(_SERVERS)), _ours(loaded)
    document = _parse(text)
    for key, value in _marked(document).items():
        if wanted.top.get(key) != value:
            document.remove(key)
    if name in known:
        _update(document[_SERVERS][name], wanted.server)
    text = _without(document, set(known) - {name})
    if newline == "\r\n" and not _BARE_NEWLINE.search(before):  # new lines of ours end as all others do
        text = _BARE_NEWLINE.sub(newline, text)
    at = _LEADING_COMMENTS.match(text)
    top = "".join(f"{key} = {value}  {_MARK}{newline}" for key, value in wanted.top.items() if key not in _load(text))
    text = text[: at.end()] + top + text[at.end() :] if at else top + text
    if name not in known:
        block = tomlkit.dumps({_SERVERS: {name: _entry(wanted.server)}}).replace("\n", newline)
        gap = newline if text.endswith("\n") else newline * 2
        text = text + gap + block if text else block
    entry = _ours(_load(text)).get(name)
    if entry is None or any(entry.get(key) != value for key, value in wanted.server.items() if key != "env"):
        raise EditError(f"[{_SERVERS}.{name}] cannot be added beside what is there")
    return _same_but_ours(before, text)


def withdraw(text: str, original: Any = None) -> str:
    """The text without our entries. `original` is of no use here: no table is made for others to stand in."""
    names, document = set(_ours(_load(text))), _parse(text)
    for key in _marked(document):
        document.remove(key)
    return _same_but_ours(text, _without(document, names))


def with_values(text: str, section: str, values: Mapping[str, Any]) -> str:
    """The text with these values in a section, and without those that are None; comments and all else stay.

    New ones stand right below the header: comments behind a table's last key mostly belong to what follows.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    before, document = _load(text[len(mark) :]), _parse(text[len(mark) :])
    table = document.get(section, {})
    if not isinstance(table, MutableMapping):
        raise EditError(f"{section} is no section")
    for key in [key for key in values if key in table]:
        if values[key] is None:
            del table[key]
        elif table[key] != values[key]:
            table[key] = values[key]
    new = {key: value for key, value in values.items() if value is not None and key not in table}
    changed = tomlkit.dumps(document)
    header = re.search(rf"^[ \t]*\[[ \t]*{section}[ \t]*\][^\n]*(?:\n|\Z)", changed, re.M)
    if new and header:
        head = changed[: header.end()]
        changed = head + ("" if head.endswith("\n") else "\n") + tomlkit.dumps(new) + changed[header.end() :]
    elif new and not table:
        gap = "" if not changed else "\n" if changed.endswith("\n") else "\n\n"
        changed += gap + tomlkit.dumps({section: new})
    elif new:
        table.update(new)
        changed = tomlkit.dumps(document)
    if "\r\n" in text and not _BARE_NEWLINE.search(text):
        changed = _BARE_NEWLINE.sub("\r\n", changed)
    own = {**before.get(section, {}), **values}
    if _load(changed) != {**before, section: {key: value for key, value in own.items() if value is not None}}:
        raise EditError(f"the edit would change more than [{section}]")
    return mark + changed


def find(text: str) -> FoundEntries:
    """Our entries, as they are."""
    return FoundEntries(servers=list(_ours(_load(text)).values()), top=list(_marked(_parse(text))))


def _load(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise EditError(str(error)) from None


def _parse(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except tomlkit.exceptions.TOMLKitError as error:
        raise EditError(str(error)) from None


def _ours(document: Mapping[str, Any]) -> dict[str, Any]:
    servers = document.get(_SERVERS)
    known = servers if isinstance(servers, dict) else {}
    return {name: known[name] for name in (SERVER, SECOND_NAME) if is_our_server(known.get(name))}


def _marked(document: tomlkit.TOMLDocument) -> dict[str, Any]:
    """Our settings at the top of the file."""
    items = {key: item for key, item in document.items() if not isinstance(item, Mapping)}
    return {key: item for key, item in items.items() if item.trivia.comment == _MARK}


def _entry(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The server's entry with its environment on one line."""
    env = tomlkit.inline_table()
    env.update(wanted.get("env") or {})
    return {**wanted, "env": env} if env else dict(wanted)


def _update(table: Any, wanted: Mapping[str, Any]) -> None:
    """Change what differs, in the table's place, and leave what the user added."""
    for key, value in wanted.items():
        if key != "env" and table.get(key) != value:
            table[key] = value
    home = (wanted.get("env") or {}).get(HOME_VARIABLE)
    if home is not None and "env" not in table:
        table["env"] = _entry(wanted)["env"]
    elif home is not None:
        table["env"][HOME_VARIABLE] = home
    elif "env" in table and HOME_VARIABLE in table["env"]:
        del table["env"][HOME_VARIABLE]
        if not table["env"]:
            del table["env"]


def _without(document: tomlkit.TOMLDocument, names: set[str]) -> str:
    """The document's text without these servers, and without the blank line that set a table of theirs apart.

    Comments and blank lines behind a table's last key are not the table's: they mostly belong to what follows.
    """
    for name in names:
        entry = document[_SERVERS][name]
        if isinstance(entry, Table):
            _empty(entry)
        else:
            del document[_SERVERS][name]
    before, *rest = tomlkit.dumps(document).split(_CUT)
    for part in rest:
        before = before[: before.rfind("\n") + 1]
        after = part.partition("\n")[2]
        if not after or after.startswith(("[", "\n", "\r\n")):
            before = _BLANK_LINE.sub("", before)
        before += after
    return before


def _empty(table: Table) -> None:
    """Take all keys out of a table and of those inside, and mark their headers."""
    for key in list(table):
        if isinstance(inner := table[key], Table):
            _empty(inner)
        else:
            del table[key]
    table.trivia.comment_ws, table.trivia.comment = " ", _CUT


def _same_but_ours(before: str, after: str) -> str:
    """A last look before anything is written: an edit that touched more than ours is an error of this program."""
    bare = []
    for text in (before, after):
        document, marked = _load(text), _marked(_parse(text))
        others = {name: entry for name, entry in document.get(_SERVERS, {}).items() if name not in _ours(document)}
        bare.append({key: value for key, value in document.items() if key not in marked and key != _SERVERS} | others)
    if bare[0] != bare[1]:
        raise EditError("the edit would change more than our own entries")
    return after
