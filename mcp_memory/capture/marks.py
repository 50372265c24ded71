"""What stands in a text where a secret was."""

from __future__ import annotations

OPENING = "[redacted:"


def mark(kind: str) -> str:
    """The mark of a secret of this kind, such as `[redacted:password]`."""
    return OPENING + kind + "]"


def replace_spans(text: str, spans: list[tuple[int, int, str]]) -> str:
    """The text with the mark of its kind in place of each (start, end, kind); of two that overlap, the first counts."""
    parts = []
    last = 0
    for start, end, kind in sorted(spans):
        if start >= last:
            parts += [text[last:start], mark(kind)]
            last = end
    return "".join(parts) + text[last:] if parts else text
