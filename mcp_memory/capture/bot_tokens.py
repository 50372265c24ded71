"""Tokens of Discord's bots: no prefix tells them, but their first part is the bot's number in base 64."""

from __future__ import annotations

import re

from mcp_memory.capture.marks import replace_spans
from mcp_memory.capture.patterns import lazy

#: Looked for from the first dot on: the search for one letter is much faster than that for a class of them.
_TAIL = lazy(r"\.(?<=[\w-]{22}\.)[\w-]{6,7}\.[\w-]{27,200}", re.ASCII)
_HEAD = lazy(r"[MNO][\w-]{21,27}\Z", re.ASCII)
_HEAD_CHARS = 28


def redact_bot_tokens(text: str, runs: str) -> str:
    """Take out such tokens. `runs` are the long words of the text, which are faster to search than all of it."""
    if not _TAIL().search(runs):
        return text
    spans = []
    for tail in _TAIL().finditer(text):
        end = tail.start()
        head = _HEAD().search(text[max(0, end - _HEAD_CHARS) : end])
        if head and _is_number(head[0]):
            spans.append((end - len(head[0]), tail.end(), "discord-token"))
    return replace_spans(text, spans)


def _is_number(head: str) -> bool:
    from binascii import Error, a2b_base64

    try:
        return a2b_base64(head + "=" * (-len(head) % 4)).isdigit()
    except (Error, ValueError):
        return False
