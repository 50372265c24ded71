"""Taking secrets out of texts before they reach the disk: the one set of rules, for the hook and for every importer.

`vendor_keys` and `_SHAPES` tell secrets by their form; `key_blocks` takes private keys, `secret_commands` what is
handed to a command as a password, `named_secrets` whatever is said to be a password, key or token. A rule is looked at
only when the text holds its trigger; most texts hold none.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mcp_memory.capture.bot_tokens import redact_bot_tokens
from mcp_memory.capture.key_blocks import redact_key_blocks
from mcp_memory.capture.marks import mark, replace_spans
from mcp_memory.capture.named_secrets import redact_named
from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.secret_commands import redact_commands
from mcp_memory.capture.secret_entries import is_value, name_of_list, value_beside
from mcp_memory.capture.secret_names import BASIC, NOT_SECRET, Named, classify
from mcp_memory.capture.secret_values import is_basic, is_literal, is_mixed, is_random, is_reference
from mcp_memory.capture.vendor_keys import KEYS, OTHER_KEYS, SHORTEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_IN_ADDRESS = r"https?://([\w.~%+-]{20,256})(?=:?[^\s/@]{0,256}@)"
#: The password follows the letter without a space; after one, the name of a database would.
_MYSQL = r"(?:mysql|mariadb)[\w-]*[ \t](?:[^\r\n|;&]{0,200}?[ \t])?-p['\"]?([^\s'\"]{3,200})"
#: Kind, trigger, expression; what its first group holds is the secret, the rest stays.
_SHAPES = (
    ("slack-webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{16,})"),
    ("discord-webhook", "/api/webhooks/", r"/api/webhooks/\d{5,20}/([\w-]{30,})"),
    ("telegram-token", ":AA", r":(?<=\d{8}:)(AA[\w-]{32,})"),
    ("digitalocean-token", "_v1_", r"(do[opr]_v1_[a-f0-9]{40,}(?![A-Za-z0-9]))"),
    ("terraform-token", ".atlasv1.", r"(?:(?<=[A-Za-z0-9]{14})(?=\.atlasv1))(\.atlasv1\.[\w-]{60,})"),
    ("azure-secret", "Q~", r"Q~(?<=\dQ~)([\w~.-]{31,34})(?![A-Za-z0-9])"),
    ("azure-token", "AZDO", r"(?<![A-Za-z0-9])([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})(?![A-Za-z0-9])"),
    ("azure-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{20,}={0,2})"),
    ("azure-key", "SharedAccessKey=", r"SharedAccessKey=([A-Za-z0-9+/]{20,}={0,2})"),
    ("azure-signature", "sig=", r"[?&;]sig=([A-Za-z0-9%+/-]{30,}=?)"),
    ("password", " -p", _MYSQL),
)

#: What an address may hold before its @. The last one before the path ends the password, which may itself hold one; a
#: port is none. A token may stand in the place of the user, where a name is shorter or made of words.
_ADDRESSES = (
    ("password", lazy(r"://[^\s/:@?#\"'`<>()\[\]{}]{0,100}:(?!\d{1,5}[?#])([^\s/\"'`<>]{1,256})@", re.ASCII)),
    ("token", lazy(_IN_ADDRESS, re.ASCII)),
)

#: A short prefix must not be the end of a word, unless what stands before is an escape: \n, %3D or a colour.
_BEFORE = r"(?:(?<![{0}]{1})|(?<=\\[nrtbf]{1})|(?<=%[0-9A-Fa-f][0-9A-Fa-f]{1})|(?<=[\[;]\dm{1})|(?<=[\[;]\d\dm{1}))"
#: A mark can end a word that hid the next secret, so what was changed is looked through again; text that was made to
#: need it over and over is not worth the time.
_PASSES = 8
_SHORT = 120
#: From this length on a prefix is found inside words, too: no word holds it.
_DISTINCT = 6
#: What most of a text is made of. Without it a text is a quarter as long; if it holds a trigger, what is left of it
#: holds what is left of the trigger, which is faster to rule out.
_COMMON = b" \n\t\"'`(),/:;|+>*#[]{}0345678abcdeilmnoqrst"

#: What is as long as the shortest of these keys, and of their characters, is rare: only that is looked through.
_RUN = b"a" * SHORTEST
_FLAT = bytes(97 if code < 128 and (chr(code).isalnum() or chr(code) in "_.-") else 32 for code in range(256))

_PRIVATE = lazy(r"(?:<|&lt;|\\u003c)(/?)private\b[^<>\\&]{0,100}(?:>|&gt;|\\u003e)", re.I)


def _key(prefix: str, body: str) -> Callable[[], re.Pattern[str]]:
    # The prefix comes first, what must stand before it is looked back at: the search for a literal is fast.
    before = "" if len(prefix) >= _DISTINCT else _before(prefix, "A-Za-z0-9")
    return lazy("(" + re.escape(prefix) + before + body + ")", re.ASCII)


def _before(prefix: str, word: str) -> str:
    return _BEFORE.replace("{0}", word).replace("{1}", re.escape(prefix))


def _runs(narrow: str) -> str:
    """The long runs of what keys are made of."""
    flat = narrow.encode("latin-1").translate(_FLAT)
    found, start = [], flat.find(_RUN)
    while start >= 0:
        end = flat.find(b" ", start)
        found.append(narrow[start:end] if end >= 0 else narrow[start:])
        start = flat.find(_RUN, end) if end >= 0 else -1
    return " ".join(found)


def _rare(narrow: str) -> str:
    return narrow.encode("latin-1").translate(None, _COMMON).decode("latin-1")


#: Every character of a JWT counts as one of its word, so that a long run of such words is read once.
_JWT = lazy("(eyJ" + _before("eyJ", r"\w-") + r"[\w-]{8,}\.[\w-]{8,}\.[\w-]*)", re.ASCII)
_IN_RUNS = [*((kind, prefix, _key(prefix, body)) for kind, prefix, body in KEYS), ("jwt", "eyJ", _JWT)]
_RULES = [
    *((kind, prefix, _rare(prefix), _key(prefix, body)) for kind, prefix, body in OTHER_KEYS),
    *((kind, trigger, _rare(trigger), lazy(expression, re.ASCII)) for kind, trigger, expression in _SHAPES),
]


def redact(text: str) -> str:
    """The text with a typed mark such as `[redacted:github-token]` in place of each secret. Doing it twice is safe."""
    return _redact_short(text) if len(text) <= _SHORT else _redact(text)


@lru_cache(maxsize=1024)
def _redact_short(text: str) -> str:
    """Names, paths and versions come again with every event."""
    return _redact(text)


def _redact(text: str) -> str:
    for _ in range(_PASSES):
        clear = _redact_once(text)
        if clear == text:
            break
        text = clear
    return text


def _redact_once(text: str) -> str:
    narrow = _narrow(text)
    low = _lowered(narrow)
    clear = _redact_private(text) if "private" in low else text
    clear = redact_bot_tokens(redact_key_blocks(clear))
    clear = _redact_shaped(clear, narrow)
    clear = redact_commands(clear, low if clear is text else _lowered(_narrow(clear)))
    return redact_named(clear, low if clear is text else _lowered(_narrow(clear)))


def _redact_shaped(text: str, narrow: str) -> str:
    """Take out what is told by its form. `narrow` may still hold what was taken out of the text before."""
    for kind, pattern in _patterns(narrow):
        text = _replace(text, pattern(), kind)
    return text


def _patterns(narrow: str) -> Iterator[tuple[str, Callable[[], re.Pattern[str]]]]:
    """The kinds and expressions of those secrets that the text may hold, going by their triggers."""
    runs = _runs(narrow)
    for kind, prefix, pattern in _IN_RUNS if runs else ():
        if prefix in runs:
            yield kind, pattern
    rare = _rare(narrow)
    for kind, trigger, sign, pattern in _RULES:
        if sign in rare and trigger in narrow:
            yield kind, pattern
    if "@" in narrow and "://" in narrow:
        yield from _ADDRESSES


def _narrow(text: str) -> str:
    """The text with `?` for each character outside Latin-1: Python searches it twice as fast, at the same places."""
    return text if text.isascii() else text.encode("latin-1", "replace").decode("latin-1")


def _lowered(narrow: str) -> str:
    """The text with A to Z in lower case; of other letters, some would become two."""
    return narrow.lower() if narrow.isascii() else narrow.encode("latin-1").lower().decode("latin-1")


def _replace(text: str, pattern: re.Pattern[str], kind: str) -> str:
    spans = [(*found.span(1), kind) for found in pattern.finditer(text) if _is_shaped(found)]
    return replace_spans(text, spans)


def _is_shaped(found: re.Match[str]) -> bool:
    """Whether the form is enough, or what stands in it looks like a secret where the form alone does not tell."""
    value, form = found[1], found.re.pattern
    if is_reference(value):
        return False
    if form is _MYSQL:
        # Behind a user it is a password whatever it looks like, unless containers publish a port by it.
        return is_mixed(value) or (" -u" in found[0] and bool(value.strip("0123456789.:")))
    return form is not _IN_ADDRESS or is_random(value)


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
        beside = value_beside(value)
        return {redact(key): _redact_entry(key, item, beside) for key, item in value.items()}
    if isinstance(value, list):
        return [_redact_value(item, named) for item in value]
    if named.kind == "password" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return mark(named.kind)
    return value


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
