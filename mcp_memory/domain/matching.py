"""Finding a text in others: whole words in any spelling that reads the same.

Both texts are brought into one form, in which case, width, accents, kinds of dashes and quotes make no difference. A
word ends where its neighbor is neither a letter nor a digit; scripts without blanks have no such ends, and a text in
one of them is found anywhere. An identifier is also found with its separators changed or left out.

Tests run in Python for every engine and every file, so that all of them agree.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

from mcp_memory.capture.characters import IGNORABLE, UNSPACED
from mcp_memory.domain.text import ALIKE, COMBINING, HIDDEN, ODD_CASES, UNSPACED_RUN, one_line, safe, unescape

#: JSON within JSON: a spool file holds a payload as text.
_MAX_ESCAPES = 2
#: Characters that part words in some programs and are hidden or are emphasis in others. Both readings count.
_AMBIGUOUS = re.compile("[\x0b-\x0d\x1c-\x1f\x85*`\u200b\u2028\u2029]")
_IGNORED = re.compile(f"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufff9-\ufffb{IGNORABLE}]")
_HIDDEN = re.compile(f"{HIDDEN.pattern}|[*`]")
#: Accents of Latin, Greek and Cyrillic, points of Hebrew and Arabic, the stroke that stretches Arabic words. Not the
#: breve of й, which is a letter of its own, nor vowel signs of Indic scripts.
_ACCENTS = re.compile(
    "[\u0300-\u0305\u0307-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]|(?<!\u0438)\u0306"
)
#: Letters with a stroke, which Unicode does not decompose; dashes; quotes; the Persian forms of two Arabic letters.
_SAME = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201b\u02bc\u00b4\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb", '"'),
        **{"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "æ": "ae", "œ": "oe"},
        **{"\u06cc": "\u064a", "\u0649": "\u064a", "\u06a9": "\u0643"},
    }
)
_LOOKS_LATIN = re.compile(f"[{''.join(map(chr, ALIKE))}]")
_LETTERS = re.compile(r"[^\W\d_]+")
_LATIN = re.compile("[A-Za-z]")
_DIGIT_BEFORE, _DIGIT_AFTER = re.compile(r"\d[\s\-_./:#]?$"), re.compile(r"[\s\-_./:#]?\d")

#: Characters that stand for no Latin letter or digit in any form: punctuation, arrows, lines, CJK, Hangul, emoji.
INERT = (
    "\u00a7\u00ab\u00b0\u00b1\u00b6\u00b7\u00bb\u2010-\u2027\u2030-\u205e\u2190-\u23ff\u2500-\u27bf\u3000-\u3096"
    "\u309d-\u30fa\u30fc-\u30fe\u3400-\u9fff\uac00-\ud7a3\U0001f300-\U0001f6ff\U0001f900-\U0001faff"
)
_INERT = re.compile(f"[{INERT}]+")

_WORD = rf"(?:(?![{UNSPACED}])[^\W_]|[{COMBINING}])"
_NOT_AFTER_WORD = rf"(?<!(?![{UNSPACED}])[^\W_])(?<![{COMBINING}])"
_NOT_BEFORE_WORD = rf"(?!{_WORD})"
_RUN = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{COMBINING}])*|\d+|[\s\-_./:#()]+|.", re.DOTALL)
#: What may stand between the parts of an identifier: a connector, with blanks around the longer ones, or a blank.
_SEPARATOR, _CONNECTOR = r"(?: ?[-_#/] ?|[.:]| )", r"[-_#/.:]"
#: The same in a phone or card number.
_NUMBER_SEPARATOR = r"[-_#:./() ]{1,3}"
#: Digits from which on a number is one, however it is grouped.
_LONG_NUMBER = 7
#: The fewest and the most letters of a text that is also found with a blank or sign between all of them.
_SPACED_MIN, _SPACED_MAX = 3, 60
_DOTTED = re.compile(r"\w[.@/\\]\w")

_LOWER = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
_NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalnum())
#: How many texts are passed over together.
_TOGETHER = 250
_EXCERPT_CHARS, _EXCERPT_WORDS_BEFORE = 160, 8


class TextMatch:
    """A text that is looked for, as whole words or as any part of words."""

    def __init__(self, sought: str, *, part: bool = False) -> None:
        self._part = part
        plain = _HIDDEN.sub("", sought)
        self._forms = list(dict.fromkeys(_fold(form) for form in _scripts(plain)))
        self._patterns = [re.compile(_pattern(form, part=part)) for form in self._forms]
        letters = ["".join(filter(str.isalnum, form)) for form in self._forms]
        #: What an ASCII text must hold once it is reduced to letters and digits; none if it cannot hold the text.
        self._needles = [needle.encode() for needle in letters if needle.isascii()]

    @property
    def size(self) -> int:
        """How many characters are left to look for."""
        return len(self._forms[0])

    @cached_property
    def is_specific(self) -> bool:
        """Whether it is long enough to look for. In scripts without blanks two characters make a name."""
        return self.size >= 2 + (UNSPACED_RUN.search(self._forms[0]) is None)

    def is_in(self, text: str) -> bool:
        """Return whether a text holds this one, also where it is escaped as in JSON."""
        if not self.size:
            return False
        for escapes in range(_MAX_ESCAPES + 1):
            if self._is_in_plain(text):
                return True
            if "\\" not in text or escapes == _MAX_ESCAPES:
                return False
            text = unescape(text)
        return False

    def select(self, texts: Sequence[str]) -> list[int]:
        """Return the places of the texts that hold this one."""
        found = list[int]()
        for start in range(0, len(texts), _TOGETHER):
            found += [start + place for place in self._select(texts[start : start + _TOGETHER])]
        return found

    def may_be_in_any(self, together: str) -> bool:
        """Return whether one of several texts, given in a row, may hold this one."""
        return "\\" in together or self._may_be_in(together)

    def excerpt(self, text: str, limit: int = _EXCERPT_CHARS) -> str:
        """Return a line of a text from shortly before this one on, or from the beginning if it is near."""
        words = safe(text).split(" ")
        if not self.is_in(" ".join(words)):  # it stands there in escapes only
            return one_line(" ".join(words), limit)
        low, high = 0, len(words)
        while low < high:  # binary search for the fewest first words that hold it
            middle = (low + high) // 2
            low, high = (low, middle) if self.is_in(" ".join(words[:middle])) else (middle + 1, high)
        is_near = len(" ".join(words[:low])) <= limit
        first = 0 if is_near else max(0, low - _EXCERPT_WORDS_BEFORE - self._forms[0].count(" "))
        return one_line(("… " if first else "") + " ".join(words[first:]), limit)

    def words_around(self, text: str) -> Iterator[str]:
        """Yield the words of a text that hold this one as a part."""
        for word in safe(text).split(" "):
            if self.is_in(word):
                yield word.strip("\"'`.,;:?!()[]{}<>*_")

    def _select(self, texts: Sequence[str]) -> list[int]:
        """Pass over texts that cannot hold this one together."""
        together = self._skeleton("".join(texts))
        if not together.isascii() or "\\" in together:
            simple = [skeleton.isascii() and "\\" not in skeleton for skeleton in map(self._skeleton, texts)]
            if not self._may_be_in("".join(text for text, is_simple in zip(texts, simple, strict=True) if is_simple)):
                places = [place for place, is_simple in enumerate(simple) if not is_simple]
                return [place for place in places if self.is_in(texts[place])]
        elif not self._may_be_in(together):
            return []
        return [place for place, text in enumerate(texts) if self.is_in(text)]

    def _is_in_plain(self, text: str) -> bool:
        if not self._may_be_in(text):
            return False
        for reading in _readings(text):
            for form in _scripts(reading):
                folded = _fold(form)
                if any(pattern.search(folded) for pattern in self._patterns):
                    return True
        return False

    def _skeleton(self, text: str) -> str:
        """Return the text without characters that make no difference to a text in Latin letters and digits."""
        return text if text.isascii() or len(self._needles) < len(self._forms) else _INERT.sub("", text)

    def _may_be_in(self, text: str) -> bool:
        """Return whether a text without escapes may hold this one: its letters and digits, whatever parts them."""
        skeleton = self._skeleton(text)
        if not skeleton.isascii():
            return True
        squeezed = skeleton.encode("ascii").translate(_LOWER, _NO_LETTERS)
        return any(needle in squeezed for needle in self._needles)


@lru_cache(maxsize=64)
def match_of(sought: str, *, part: bool = False) -> TextMatch:
    """Return the match for a text; the same few are looked for in many texts."""
    return TextMatch(sought, part=part)


def comparable(text: str) -> str:
    """Return the form in which texts are compared, for keyed hashes of what may not be stored."""
    *_, form = _scripts(_HIDDEN.sub("", text))
    return _fold(form)


def _readings(text: str) -> Iterator[str]:
    """Yield the text without hidden characters and emphasis, then with blanks for those that may part words."""
    yield _HIDDEN.sub("", text)
    if _AMBIGUOUS.search(text):
        yield _IGNORED.sub("", _AMBIGUOUS.sub(" ", text))


def _scripts(text: str) -> Iterator[str]:
    """Yield the text as it is, then with Latin letters for those that look so and stand among Latin letters or digits.

    A word that is written in Cyrillic or Greek throughout is a word of that script.
    """
    if text.isascii():
        yield text
        return
    text = unicodedata.normalize("NFKC", text.translate(ODD_CASES))
    yield text
    if _LOOKS_LATIN.search(text):
        undisguised = _LETTERS.sub(_undisguised, text)
        if undisguised != text:
            yield undisguised


def _undisguised(word: re.Match[str]) -> str:
    if not _LOOKS_LATIN.search(word[0]):
        return word[0]
    latin = word[0].translate(ALIKE)
    if latin.isascii():
        text, start, end = word.string, word.start(), word.end()
        if (
            _LATIN.search(word[0])
            or _DIGIT_AFTER.match(text, end)
            or _DIGIT_BEFORE.search(text[max(0, start - 2) : start])
        ):
            return latin
    return word[0]


def _fold(text: str) -> str:
    """Return the form that all spellings of a text have in common, on one line."""
    if text.isascii():
        return " ".join(text.lower().split())
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    text = unicodedata.normalize("NFC", _ACCENTS.sub("", text).translate(_SAME))
    return " ".join(text.split())


def _pattern(sought: str, *, part: bool) -> str:
    if not _has_letter(sought) and sum(map(str.isdigit, sought)) >= _LONG_NUMBER:
        sought = sought.strip("+() ")
    runs = _RUN.findall(sought)
    body = "".join(_joined(runs))
    if spaced := _spaced(sought):
        body = f"(?:{body}|{spaced})"
    return body if part or not sought else f"{_start(sought)}{body}{_end(sought)}"


def _joined(runs: Sequence[str]) -> Iterator[str]:
    """Yield the parts of an expression for a text, in which separators next to digits may be others or missing."""
    digits = sum(len(run) for run in runs if run[0].isdigit())
    for place, run in enumerate(runs):
        before = runs[place - 1] if place else ""
        after = runs[place + 1] if place + 1 < len(runs) else ""
        if run[0].isalnum():
            if before and before[0].isalnum() and not _is_unspaced(before + run):
                yield _between(before, run) + "?"
            yield _written(run, place)
        elif _is_separator(run) and after and before and before[-1].isalnum() and after[0].isalnum():
            yield _separator(runs, place, digits)
        else:
            yield re.escape(run)


def _separator(runs: Sequence[str], place: int, digits: int) -> str:
    """Return the expression for a separator between two parts, of which it is known what they are."""
    run, before, after = runs[place], runs[place - 1], runs[place + 1]
    is_blank = run.isspace()
    if is_blank and _is_unspaced(before[-1]) and _is_unspaced(after[0]):
        return " ?"
    if before[0].isdigit() and after[0].isdigit():
        if digits >= _LONG_NUMBER:
            return f"(?:{_NUMBER_SEPARATOR})?"
        is_code = not is_blank and _has_letter(_token(runs, place))
        return f"(?:{_SEPARATOR}|{re.escape(run)})" if is_code else re.escape(run)
    if is_blank:
        has_digit = before[0].isdigit() or after[0].isdigit()
        return _between(before, after) + "?" if has_digit and _is_code(before, after) else re.escape(run)
    token = _token(runs, place)
    is_code = any(map(str.isdigit, token)) and _has_letter(token)
    return f"(?:{_SEPARATOR}|{re.escape(run)})?" if is_code else re.escape(run)


def _between(before: str, after: str) -> str:
    """Return what may part letters from digits: a blank only where the letters are no single one."""
    letters = after if before[0].isdigit() else before
    return _SEPARATOR if len(letters) > 1 else _CONNECTOR


def _is_code(before: str, after: str) -> bool:
    return len(before) > 1 or len(after) > 1


def _is_separator(run: str) -> bool:
    return all(sign in " -_./:#()" for sign in run)


def _token(runs: Sequence[str], place: int) -> str:
    """Return what stands between two blanks around a place."""
    first = last = place
    while first > 0 and not runs[first - 1].isspace():
        first -= 1
    while last + 1 < len(runs) and not runs[last + 1].isspace():
        last += 1
    return "".join(runs[first : last + 1])


def _has_letter(token: str) -> bool:
    return any(map(str.isalpha, token))


def _is_unspaced(text: str) -> bool:
    return UNSPACED_RUN.search(text) is not None


def _written(run: str, place: int) -> str:
    """Return the expression for a run of letters or digits.

    Long numbers come in groups, scripts without blanks break anywhere, and letters may all have the same gap between.
    """
    if run.isdigit():
        return "[-. ]?".join(run) if len(run) >= _LONG_NUMBER else run
    if _is_unspaced(run):
        return " ?".join(run)
    if not _SPACED_MIN <= len(run) <= _SPACED_MAX or not run.isalpha():
        return re.escape(run)
    gap = f"gap{place}"
    return f"(?:{run}|{run[0]}(?P<{gap}>[ ._-]){f'(?P={gap})'.join(run[1:])})"


def _spaced(sought: str) -> str:
    """Return the expression for a text with one sign or blank between all of its letters; nothing for a short one."""
    letters = [sign for sign in sought if sign.isalnum()]
    if not _SPACED_MIN <= len(letters) <= _SPACED_MAX or (not _has_letter(sought) and len(letters) < _LONG_NUMBER):
        return ""
    parts, is_first = list[str](), True
    for sign in sought:
        if sign.isalnum() or unicodedata.category(sign)[0] == "M":
            if parts and sign.isalnum():
                parts.append("(?P<gap>[ ._-])" if is_first else "(?P=gap)")
                is_first = False
            parts.append(re.escape(sign))
        elif not sign.isspace() and parts and not is_first:
            parts.append(f"(?:(?P=gap)?{re.escape(sign)})?")
        elif not sign.isspace():
            return ""
        elif not is_first:
            parts.append("(?:(?P=gap){0,2})")
    return "".join(parts)


def _start(sought: str) -> str:
    """Return the expression for what must not stand before whole words."""
    if not sought[0].isalnum() or _is_unspaced(sought[0]):
        return ""
    guards = _NOT_AFTER_WORD
    if "@" in sought:  # ada.byron@x.org is not byron@x.org
        guards += r"(?<![^\W_][.+_-])"
    return guards + (r"(?<!\d\.)" if sought[0].isdigit() else "")


def _end(sought: str) -> str:
    """Return the expression for what must not follow whole words."""
    if not (sought[-1].isalnum() or unicodedata.category(sought[-1])[0] == "M") or _is_unspaced(sought[-1]):
        return ""
    guards = _NOT_BEFORE_WORD
    if _DOTTED.search(sought):  # example.com.br is not example.com
        guards += rf"(?!\.{_WORD})"
    return guards + (r"(?!\.\d)" if sought[-1].isdigit() else "")
