"""Taking secrets out of texts before they reach the disk: the one set of rules, for the hook and for every importer.

`secret_forms` takes what is told by its form, `key_blocks` private keys, `secret_manifests` and `secret_tables` what
stands in files of a known form, `secret_commands` what is handed to a command as a password, `named_secrets` whatever
is said to be a password, key or token. A rule is looked at only when the text holds its trigger; most texts hold none.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mcp_memory.capture.marks import mark, replace_spans
from mcp_memory.capture.named_secrets import redact_named
from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.secret_commands import redact_commands
from mcp_memory.capture.secret_entries import is_value, name_of_list, value_beside
from mcp_memory.capture.secret_forms import redact_forms
from mcp_memory.capture.secret_names import BASIC, NOT_SECRET, WORDS, Named, classify
from mcp_memory.capture.secret_tables import redact_pgpass
from mcp_memory.capture.secret_values import is_basic, is_literal, is_mixed, is_random, is_reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A mark can end a word that hid the next secret, so what was changed is looked through again; text that was made to
#: need it over and over is not worth the time.
_PASSES = 8
_SHORT = 120

#: The soft hyphen, joiners and spaces without width, and marks of direction.
_INVISIBLE = "\u00ad\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202c\u2060\ufeff"
_SPLIT = lazy("(?<=[!-~])[" + _INVISIBLE + "]+(?=[!-~])")
_IN_MANIFEST = Named("secret", True)
_PRIVATE = lazy(r"(?:<|&lt;|\\u003c)(/?)private\b[^<>\\&]{0,100}(?:>|&gt;|\\u003e)", re.I)


def redact(text: str) -> str:
    """The text with a typed mark such as `[redacted:github-token]` in place of each secret. Doing it twice is safe."""
    return _redact_short(text) if len(text) <= _SHORT else _redact(text)


@lru_cache(maxsize=1024)
def _redact_short(text: str) -> str:
    """Names, paths and versions come again with every event."""
    return _redact(text)


def _redact(text: str) -> str:
    clear = _redact_fully(text)
    if text.isascii() or not any(char in text for char in _INVISIBLE):
        return clear
    # What no one sees may split a secret. Between letters of other scripts it has a meaning, and stays.
    visible = _SPLIT().sub("", clear)
    joined = _redact_fully(visible)
    return clear if joined == visible else joined


def _redact_fully(text: str) -> str:
    for _ in range(_PASSES):
        clear = _redact_once(text)
        if clear == text:
            break
        text = clear
    return text


def _redact_once(text: str) -> str:
    narrow = _narrow(text)
    low = _lowered(narrow)
    words = frozenset([word for word in WORDS if word in low])
    clear = _redact_passages(text) if "private" in low else text
    clear = redact_forms(clear, narrow)
    clear = _redact_files(clear, low, words)
    clear = redact_commands(clear, low if clear is text else _lowered(_narrow(clear)), words)
    return redact_named(clear, low if clear is text else _lowered(_narrow(clear)), words)


# What most events do not need is loaded only where it is: the hook starts anew for every one of them.


def _redact_passages(text: str) -> str:
    from mcp_memory.capture.key_blocks import redact_key_blocks

    return redact_key_blocks(_redact_private(text))


def _redact_files(text: str, low: str, words: frozenset[str]) -> str:
    """Take out secrets of which the kind of file tells: lines of .pgpass, manifests of Kubernetes."""
    if ":5432:" in low or ("pass" in words and "pgpass" in low):
        text = redact_pgpass(text)
    if "secret" in words and "kind" in low and "Secret" in text:
        from mcp_memory.capture.secret_manifests import redact_manifests

        text = redact_manifests(text)
    return text


def _narrow(text: str) -> str:
    """The text with `?` for each character outside Latin-1: Python searches it twice as fast, at the same places."""
    return text if text.isascii() else text.encode("latin-1", "replace").decode("latin-1")


def _lowered(narrow: str) -> str:
    """The text with A to Z in lower case; of other letters, some would become two."""
    return narrow.lower() if narrow.isascii() else narrow.encode("latin-1").lower().decode("latin-1")


def _redact_private(text: str) -> str:
    """Take out `<private>…</private>`, nested ones as one, and what an unclosed one opens up to the end."""
    spans = []
    depth = start = 0
    for tag in _PRIVATE().finditer(text):
        if not tag[1]:
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                spans.append((start, tag.end(), "private"))
    if depth:
        spans.append((start, len(text), "private"))
    return replace_spans(text, spans)


def redact_json(value: Any) -> Any:
    """A JSON value with every string redacted; one that stands under a secret's name is taken out whole."""
    return _redact_value(value, NOT_SECRET)


def _redact_value(value: Any, named: Named) -> Any:
    if isinstance(value, str):
        text = redact(value)
        return mark(named.kind) if named.kind and _is_secret(text, named) else text
    if isinstance(value, dict):
        return _redact_object(value)
    if isinstance(value, list):
        return [_redact_value(item, named) for item in value]
    if named.kind == "password" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return mark(named.kind)
    return value


def _redact_object(entries: dict[str, Any]) -> dict[str, Any]:
    beside = value_beside(entries)
    clear = {redact(key): _redact_entry(key, item, beside) for key, item in entries.items()}
    if entries.get("kind") == "Secret":  # of Kubernetes: all that it holds is one
        for part in ("data", "stringData"):
            if isinstance(clear.get(part), dict):
                clear[part] = {key: _redact_value(item, _IN_MANIFEST) for key, item in clear[part].items()}
    return clear


def _redact_entry(key: str, value: Any, beside: Named) -> Any:
    """The value of a JSON object's entry; `beside` is what the entry `value` holds, by the name in another one."""
    named = beside if beside.kind and key in ("value", "Value") else classify(key)
    if not isinstance(value, list) or named.kind:
        return _redact_value(value, named)
    several = name_of_list(key)
    return [_redact_item(item, several) if several.kind else _redact_value(item, named) for item in value]


def _redact_item(item: Any, named: Named) -> Any:
    """An item of a list with the name of several secrets: such a list may hold what is only about them."""
    clear = _redact_value(item, NOT_SECRET)
    if isinstance(clear, str) and not any(map(str.isspace, clear)) and is_value(clear, named):
        return mark(named.kind)
    return clear


def _is_secret(value: str, named: Named) -> bool:
    if named.kind == BASIC:
        return is_basic(value)
    if named.sure:
        return bool(value) and not is_reference(value)
    if named.kind == "api-key":
        return is_random(value)
    if named.kind == "password" and not is_mixed(value):  # `pass` may be what a test does
        return False
    return is_literal(value) and not any(map(str.isspace, value))
