"""The words of a text as FTS5's tokenizer sees them, so that both indexes find the same."""

from __future__ import annotations

import re
import unicodedata

from mcp_memory.domain.stems import porter

_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
#: What is longer is no word that anyone would ask for, but a key or a blob; its beginning finds it.
LONGEST = 64


class _Plain(dict[int, str]):
    """Latin letters without their accents, found out once for each; in other scripts a mark makes another letter."""

    def __missing__(self, code: int) -> str:
        apart = unicodedata.normalize("NFD", chr(code))
        plain = apart[0] if len(apart) > 1 and apart[0].isascii() else chr(code)
        self[code] = plain
        return plain


_PLAIN = _Plain()


def words(text: str) -> list[str]:
    """Lower case, without accents, stemmed, in the order of the text."""
    low = text.lower()
    if not low.isascii():
        low = _ACCENTS.sub("", low.translate(_PLAIN))
    return [porter(word[:LONGEST]) for word in _WORD.findall(low)]
