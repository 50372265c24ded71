"""Words that are one slip of the finger away from another: a letter too many, too few, wrong, or two in wrong order."""

from __future__ import annotations

import string

_LETTERS = string.ascii_lowercase
_SHORTEST, _LONGEST = 4, 24


def slips(word: str) -> list[str]:
    """All words at that distance, a few hundred; none for a word too short to be told by the rest of its letters."""
    if not (_SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalnum()):
        return []
    word = word.lower()
    halves = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    swapped = [left + right[1] + right[0] + right[2:] for left, right in halves if len(right) > 1]
    shorter = [left + right[1:] for left, right in halves if right]
    changed = [left + letter + right[1:] for left, right in halves if right for letter in _LETTERS]
    longer = [left + letter + right for left, right in halves for letter in _LETTERS]
    return [each for each in dict.fromkeys([*swapped, *shorter, *changed, *longer]) if each != word]
