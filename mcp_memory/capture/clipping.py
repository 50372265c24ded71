"""Keeping texts storable: valid Unicode, and no longer than the limit; and payloads small enough to be read at once.

An agent waits for the hook, so what is huge is cut before secrets are looked for. A word that touches such a cut goes
with it, since half of a secret would not be known as one.
"""

from __future__ import annotations

import re

from mcp_memory.capture.redaction.names import FOREIGN, TALK, WORDS, beyond_ascii
from mcp_memory.capture.settings import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MARK = "\n[… {} bytes cut …]\n"
#: How far from the cut a line end is looked for, so that whole lines stay.
_NEAR = 200


def clean(text: str) -> str:
    """The text without what UTF-8 or SQLite cannot hold: lone surrogates and NULs become U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Through UTF-16, so that the two halves of a pair that were decoded apart find each other again.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def looked_through(text: str, max_bytes: int) -> str:
    """As much of a text as is looked through for secrets before it is clipped to `max_bytes`."""
    if len(text) <= min(max_bytes * _SPARE, _NAMES // 2):
        return text  # each name begins at a place of its own, and lower case takes two places at most
    return Budget(max_bytes).text(text)


def clip(text: str, max_bytes: int) -> tuple[str, bool]:
    """The clean text in at most `max_bytes` of UTF-8, its middle cut out and marked; and whether it was cut."""
    text = clean(text)
    if len(text) * 4 <= max_bytes or len(data := text.encode("utf-8")) <= max_bytes:
        return text, False
    room = max_bytes - len(_MARK.format(len(data)).encode("utf-8"))
    if room <= 0:
        return _head(data, max(max_bytes, 0)).decode("utf-8"), True
    head, tail = _head(data, room - room // 2), _tail(data, room // 2)
    mark = _MARK.format(len(data) - len(head) - len(tail))
    return head.decode("utf-8") + mark + tail.decode("utf-8"), True


def _head(data: bytes, size: int) -> bytes:
    """The first `size` bytes, less what belongs to a half character or, if one ends near by, a half line."""
    while size > 0 and data[size] & 0xC0 == 0x80:
        size -= 1
    line = data.rfind(b"\n", max(0, size - _NEAR), size)
    return data[:line] if line > 0 else data[:size]


def _tail(data: bytes, size: int) -> bytes:
    start = len(data) - size
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    line = data.find(b"\n", start, start + _NEAR)
    return data[line + 1 :] if line >= 0 else data[start:]


#: How much more than what is kept of a text is looked through for secrets.
_SPARE = 8
#: How far from a cut the end of a line and that of a word are looked for. No secret is longer than the latter.
_LINE, _WORD = 2_000, 16_384
_TAG = lazy(r"(?:<|&lt;|\\u003c)(/?)private\b", re.I)
#: How many words that may announce a secret are looked at in a payload, how many values, and how deep.
_NAMES, _VALUES, _DEPTH = 4_000, 5_000, 100
#: Texts of the envelope, such as ids and paths, are no longer, and stay whatever else must go.
_SHORT, _FIELDS = 1_000, 100


def shorten(text: str, most: int) -> str:
    """The text in about `most` characters: its middle is cut out and marked, up to the next whole line or word."""
    if len(text) <= most:
        return text
    half = most // 2
    head, tail = text[:half], text[len(text) - half :]
    head, tail = head[: _last_end(head)], tail[_first_end(tail) :]
    depth = start = 0
    for tag in _TAG().finditer(tail):  # what was marked as private before the cut still is
        depth += -1 if tag[1] else 1
        if depth < 0:
            depth, start = 0, tail.find(">", tag.end()) + 1 or len(tail)
    tail = tail[start:]
    lost = len(text[len(head) : len(text) - len(tail)].encode("utf-8", "surrogatepass"))
    return head + _MARK.format(lost) + tail


def _last_end(head: str) -> int:
    """Where the last whole line of a text that goes on ends, or the last whole word."""
    for chars, near in ("\n", _LINE), (" \t\r\n", _WORD):
        end = max(head.rfind(char, max(0, len(head) - near)) for char in chars)
        if end >= 0:
            return end
    return max(0, len(head) - _WORD)


def _first_end(tail: str) -> int:
    for chars, near in ("\n", _LINE), (" \t\r\n", _WORD):
        ends = [tail.find(char, 0, near) for char in chars]
        if max(ends) >= 0:
            return min(end for end in ends if end >= 0)
    return min(len(tail), _WORD)


def bounded(payload: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """The payload, of no more than so many values and so much text that all of it can be redacted in an instant."""
    budget = Budget(max_bytes)
    envelope = [key for key, value in payload.items() if isinstance(value, str) and len(value) <= _SHORT][:_FIELDS]
    kept = set(envelope)
    return {key: payload[key] if key in kept else budget.value(payload[key], 0) for key in list(payload)[:_VALUES]}


class Budget:
    """What is left of the room for the texts of one payload."""

    __slots__ = ("chars", "names", "values")

    def __init__(self, max_bytes: int) -> None:
        self.chars, self.names, self.values = max_bytes * _SPARE, _NAMES, _VALUES

    def text(self, text: str) -> str:
        """As much of the text as there is room for."""
        text = shorten(text, self.chars)
        names = _names(text)
        while names > self.names and text:
            text = shorten(text, len(text) * self.names // (names + 1) if len(text) > _SHORT else 0)
            names = _names(text) if len(text) > _SHORT else 0
        self.chars, self.names = max(0, self.chars - len(text)), max(0, self.names - names)
        return text

    def value(self, value: Any, depth: int) -> Any:
        self.values -= 1
        if isinstance(value, str):
            return self.text(value)
        if depth > _DEPTH and isinstance(value, (dict, list)):
            return "[… nested too deep …]"
        if isinstance(value, dict):
            entries = list(value.items())[: max(0, self.values)]
            return {self.text(key): self.value(item, depth + 1) for key, item in entries if self.values > 0}
        if isinstance(value, list):
            items = value[: max(0, self.values)]
            return [self.value(item, depth + 1) for item in items if self.values > 0]
        return value


def _names(text: str) -> int:
    low = text.lower()
    names = sum(map(low.count, (*WORDS, "curl")))
    if len(text) >= TALK and not any(map(str.isalpha, beyond_ascii(text))):
        return names
    return names + sum(low.count(word) for word, _ in FOREIGN)
