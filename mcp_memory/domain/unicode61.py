"""The tokenizer of FTS5, `porter unicode61 remove_diacritics 2`, for indexes that have no such tokenizer.

Whoosh and PostgreSQL store and look up words as SQLite does, so that a question finds the same with each of them.
What they stored has to be indexed again when this changes: raise `FORMAT` in `store/whoosh/searcher.py`, and add a
migration like `store/postgres/schema/0008_stems.sql`.
"""

from __future__ import annotations

import re
from functools import cache

from mcp_memory.domain.text import index_stem
from mcp_memory.lexicon import sections

#: A longer run of letters is a key or a blob, which its beginning finds.
MAX_WORD_CHARS = 64
_WORD = re.compile("[a-z0-9\x80-\U0010ffff]+")


class _Folding(dict[int, int | str]):
    """A table for `str.translate`, in which most letters stand for themselves."""

    def __missing__(self, code: int) -> int:
        self[code] = code
        return code


def index_words(text: str) -> list[str]:
    """Return the words of a text in order, folded and stemmed as FTS5 stores them."""
    folded = text.lower() if text.isascii() else text.translate(_folding())
    return [
        index_stem(word) if len(word) <= MAX_WORD_CHARS else word[:MAX_WORD_CHARS] for word in _WORD.findall(folded)
    ]


@cache
def _folding() -> _Folding:
    table = _Folding({code: code + 32 for code in range(ord("A"), ord("Z") + 1)})
    found = sections("unicode61")
    for section, instead in (("separators", " "), ("dropped", "")):
        for span in " ".join(found[section]).split():
            first, _, last = span.partition("-")
            table.update(dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), instead))
    for group in " ".join(found["folded"]).split():
        table.update(dict.fromkeys(map(ord, group[1:]), group[0]))
    return table
