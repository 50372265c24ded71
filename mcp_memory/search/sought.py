"""Where the words of a question stand in texts: a word in any of its forms, an identifier however it is written."""

from __future__ import annotations

import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from mcp_memory.domain.stems import root
from mcp_memory.domain.text import Memo

_WORD = re.compile(r"[^\W_]*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_AFTER_CAPITALS = re.compile(r"(?<=[A-Z])[A-Z][a-z]+")
_ASCII = re.compile("[\x00-\x7f]+")
_ACCENT = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_LATIN = {
    chr(code): base
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    if len(base := unicodedata.normalize("NFKD", chr(code))[0].lower()) == 1
}
#: So many characters, none of them a letter, may stand between the words of an identifier.
APART = 3
#: More than that, so that nothing is found that begins in one text and ends in the next.
_BETWEEN = "\n" * (APART + 1)


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing to look for: a word, by what its forms begin with, or a `pattern` that is sought as it stands.

    `others` are what may stand for it: the short form of a long word, or the other way round. `alike` are words that
    mean nearly the same, and tell less.
    """

    root: str
    starts: tuple[str, ...]
    pattern: re.Pattern[str] | None
    weight: float
    match: str
    others: tuple[Unit, ...] = ()
    alike: tuple[Unit, ...] = ()


class Row:
    """Texts laid end to end: what is sought in all of them is found in one go, which is several times as fast."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._text = _BETWEEN.join(("", *texts))
        self._low = _BETWEEN.join(("", *map(folded, texts)))
        self._begins = list(accumulate((len(text) + len(_BETWEEN) for text in texts[:-1]), initial=len(_BETWEEN)))

    def gather(self, unit: Unit, number: int, found: Sequence[dict[int, list[int]]]) -> None:
        """Add the places where a unit stands, in order, to what was `found` in each text, under this number."""
        begins = self._begins
        for place in _places(unit, self._text, self._low):
            text = bisect_right(begins, place) - 1
            here = found[text]
            if number in here:
                here[number].append(place - begins[text])
            else:
                here[number] = [place - begins[text]]

    def holds(self, unit: Unit) -> bool:
        """Whether a unit, or what may stand for it, is in any of the texts."""
        return any(_places(each, self._text, self._low, most=1) for each in (unit, *unit.others))


def folded(text: str) -> str:
    """Lower case without accents, each character in its place."""
    if text.isascii():
        return text.lower()
    rest = _ASCII.sub("", text)
    if rest.lower() == rest and not _ACCENT.search(rest):
        # Marks and signs only, as in most texts; the letters are then lowered several times as fast.
        return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    low = lowered(text)
    return low if low.isascii() else _ACCENT.sub(lambda match: _LATIN.get(match[0], match[0]), low)


def lowered(text: str) -> str:
    """Lower case, each character in its place: a few grow when lowered, and are left as they are."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def _places(unit: Unit, text: str, low: str, most: int = sys.maxsize) -> list[int]:
    if unit.pattern:
        return _as_it_stands(unit.pattern, unit.starts[0], low, most)
    found = [_words(unit.root, start, text, low, most) for start in unit.starts]
    return found[0] if len(found) == 1 else sorted({place for each in found for place in each})


def _as_it_stands(pattern: re.Pattern[str], start: str, low: str, most: int) -> list[int]:
    """Where a pattern that begins so matches: its beginning is found much faster than the pattern."""
    found: list[int] = []
    place = low.find(start)
    while place >= 0 and len(found) < most:
        match = pattern.match(low, place)
        if match:
            found.append(place)
        place = low.find(start, match.end() if match else place + 1)
    return found


def _words(wanted: str, start: str, text: str, low: str, most: int) -> list[int]:
    """Where a form of a word begins: at the start of a word, or inside camelCase."""
    found: list[int] = []
    find, word_at = low.find, _WORD.match
    place = find(start)
    while place >= 0:
        if not low[place - 1].isalnum() or (text[place].isupper() and not text[place - 1].isupper()):
            word = word_at(low, place)[0]  # type: ignore[index]  # it matches anywhere
            if root(word) == wanted or _is_part(wanted, text[place : place + len(word)], word):
                found.append(place)
                if len(found) == most:
                    break
        place = find(start, place + 1)
    return found


def ends_acronym(unit: Unit, text: str) -> bool:
    """Whether a word stands in a text right after capitals, as Server does in HTTPServer.

    Where texts are weighed it does not count there: such names stand in much that says little of the matter.
    """
    for start in unit.starts if unit.pattern is None else ():
        place = text.find(start.capitalize())
        while place >= 0:
            word = _AFTER_CAPITALS.match(text, place)
            if word and root(word[0].lower()) == unit.root:
                return True
            place = text.find(start.capitalize(), place + 1)
    return False


def _is_part(wanted: str, word: str, low: str) -> bool:
    """Whether the first part of a word in camelCase is a form of the wanted one."""
    if word[1:] == low[1:]:
        return False
    return (_FIRST[word] if len(word) < _LONG else _first(word)) == wanted


def _first(word: str) -> str:
    """The root of the first part of a word in camelCase; nothing if it is all one."""
    part = _CAMEL.split(word, maxsplit=1)[0]
    return root(folded(part)) if len(part) < len(word) else ""


#: A project's identifiers come back all the time; what is longer than any of them is not kept.
_FIRST, _LONG = Memo(_first, 1 << 13), 80
