"""Keeping texts storable: valid Unicode, and no longer than the limit."""

from __future__ import annotations

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


def clip(text: str, max_bytes: int) -> tuple[str, bool]:
    """The clean text in at most `max_bytes` of UTF-8, its middle cut out and marked; and whether it was cut."""
    text = clean(text)
    if len(text) * 4 <= max_bytes:
        return text, False
    data = text.encode("utf-8")
    if len(data) <= max_bytes:
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
