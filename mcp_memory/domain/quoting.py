"""Stored text as an answer may show it: on one line it cannot begin like a line of ours, nor name one of our ids.

Whatever poses is shown with other brackets, ‹Pinned:› or grip‹:›9A8B7C6D, and never left out. Every renderer takes
stored text through here; `domain/text.py` has made tags and turn marks harmless before.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from mcp_memory.domain.text import ALIKE, CLOSE, OPEN, clean, safe

#: The labels of bullets and notes.
KIND_LABELS = frozenset("note decided corrected rule fixed committed asked reported open error user refused".split())
#: Words in front of a colon by which our own lines are known: these labels, roles, parts of a page.
LABELS = KIND_LABELS | frozenset(
    [
        *"said pinned agent assistant tool system human developer keywords earlier removed unchanged up".split(),
        *"previous next in with after before remembered names unresolved forgotten warning doctor mcp-memory".split(),
        *("of the team", "to do", "key points", "latest messages", "last messages"),
    ]
)
#: Words with which a line of ours begins that goes on before its colon, such as `Memory of atlas:`.
HEADS = frozenset(
    [
        "pinned",
        "pinned by",
        "pinned notes of",
        "of the team",
        "memory of",
        "the team's memory",
        "from the team's memory",
    ]
    + ["continues session", "the client's own summary", "no hit", "nowhere in memory", "other projects have hits"]
    + ["the nearest days", "the latest days", "outside of that time", "the user's", "user's"]
)
#: How many characters of a line are looked at, and how many a head may have before its colon.
_LOOKED_AT, _HEAD_CHARS = 200, 60
_COLON = r"\s*[:：︓﹕꞉∶ː]"
_MARKS = r"[\s\W_]*?"


def _any_of(words: frozenset[str]) -> str:
    ordered = sorted(words, key=len, reverse=True)
    return "|".join(r"\s+".join(map(re.escape, word.split())) for word in ordered)


#: What one of our lines can begin with, in small plain letters. Only marks of lists and the like may stand before it.
_BEGINNING = re.compile(
    rf"{_MARKS}(?:"
    rf"(?:{_any_of(LABELS)})[*_`'\")\]]*{_COLON}[*_`]*"
    rf"|(?:{_any_of(HEADS)})\b[^:\n.!?;]{{0,{_HEAD_CHARS}}}?{_COLON}(?!//)"
    r"|\[\s*(?:user|assistant|tool|system)\b[^\]]{0,40}\]"
    r"|\((?:refused|failed|interrupted)\b[^)]{0,80}\)"
    r"|(?:session|record|memo|s)\s*[:：]\s*[\w-]+"
    r"|record\s+[0-9a-z]{20,}"
    rf"|session\s+\S+\s+(?:of|by)\s+[^:.]{{1,{_HEAD_CHARS}}}?{_COLON}"
    rf"|records\b[^:.]{{0,{_HEAD_CHARS}}}?{_COLON}"
    rf"|by\s+[\w.@-]+{_COLON}"
    r"|\[?\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d)?"
    r"|\d{1,2}:\d\d(?=\s)"
    r"|…\s*\d+\s+more\b"
    r"|\d{1,3}\.\s+[01]\.\d\d\b"
    r")"
)
#: Marks that only matter where nothing of ours stands before them on the line.
_LINE_MARKS = re.compile(r"(?:(?:[#>*+|=~\-]{1,6}|[•→✗]|\d{1,3}[.)]|`{3,})(?=\s|$)\s*)+|[-=~`]{3,}")
#: Our ids and our last line, which nothing else looks like, wherever they stand.
_OURS = re.compile(
    r"\b(?P<kind>grip|toc)\s?[:：](?=\s?(?:-?\d{1,15}[:：])?[0-9A-HJKMNP-TV-Z]{8}|\s?(?:year|month|week|day|segment)[:：])"
    r"|[\[［]\s*(?P<foot>~?\d[\d,.]*\s*tokens\b[^\]］\n]{0,400})[\]］]?",
    re.I,
)
_OWN_LABEL = re.compile(rf"(?:{'|'.join(map(str.capitalize, sorted(KIND_LABELS)))}): ")
_PLAIN_NAME = re.compile(r"[\w.@:/+~#=-]+…?")


def quoted(text: str, limit: int = 0, *, starts_line: bool = False) -> str:
    """Return the text on one line, cut at the limit, so that it cannot be taken for a line or an id of ours.

    `starts_line`: nothing of ours stands before it, so that marks of lists and headings are shown in brackets, too.
    """
    line = unposed_ids(safe(text, limit))
    end = _own_beginning(line)
    if starts_line and (marks := _LINE_MARKS.match(line)):
        end = max(end, marks.end())
    if not end:
        return line
    if line[:end].count(OPEN) > line[:end].count(CLOSE) and line.startswith(CLOSE, end):
        end += len(CLOSE)  # a turn mark that has its brackets already
    return f"{OPEN}{line[:end].strip().translate(_NO_BRACKETS)}{CLOSE} {line[end:].lstrip()}".rstrip()


def quoted_behind_label(text: str, limit: int = 0) -> str:
    """Return a text whose first label is our own, with the rest of it quoted."""
    label = _OWN_LABEL.match(text)
    if not label:
        return quoted(text, limit)
    return label[0] + quoted(text[label.end() :], max(limit - label.end(), 1) if limit else 0)


def quoted_name(name: str, limit: int = 0) -> str:
    """Return a stored name, such as a session's; in brackets unless it is one plain word that is no id of ours."""
    shown = safe(name, limit)
    if _PLAIN_NAME.fullmatch(shown) and not _OURS.search(shown):
        return shown
    return f"{OPEN}{unposed_ids(shown.translate(_NO_BRACKETS))}{CLOSE}"


def quoted_block(text: str) -> str:
    """Return a text of several lines, each behind a mark that says that it is quoted."""
    return "> " + unposed_ids(clean(text)).strip().replace("\n", "\n> ")


def unquoted_name(name: str) -> str:
    """Return a name as it was stored, which `quoted_name` may have put in brackets."""
    return name.removeprefix(OPEN).removesuffix(CLOSE)


def unposed_ids(text: str) -> str:
    """Return the text with ids of ours, and what looks like our last line, in other brackets."""
    return _OURS.sub(_unposed, text) if _may_hold_ours(text) else text


def count_unposed(text: str) -> int:
    """Return how many ids and last lines of ours the text holds, which are shown in other brackets."""
    return len(_OURS.findall(text)) if _may_hold_ours(text) else 0


#: Marks whose full-width forms count as they do.
_ASCII_FORMS = frozenset(":[]()#>-.")
_NO_BRACKETS = str.maketrans("", "", OPEN + CLOSE)


def _may_hold_ours(text: str) -> bool:
    low = text.lower()
    return "grip" in low or "toc" in low or "tokens" in low


def _unposed(found: re.Match[str]) -> str:
    return f"{OPEN}{found['foot']}{CLOSE}" if found["foot"] else f"{found['kind']}{OPEN}:{CLOSE}"


def _own_beginning(line: str) -> int:
    """Return how many of the first characters look like the beginning of one of our lines; several may follow."""
    places, plain = _plain_letters(line[:_LOOKED_AT])
    end = 0
    while (found := _BEGINNING.match(plain, end)) and found.end() > end:
        end = found.end()
    return places[end - 1] + 1 if end else 0


def _plain_letters(text: str) -> tuple[Sequence[int], str]:
    """Return the text in small Latin letters without accents, and where each of its characters stands in the text."""
    if text.isascii():
        return range(len(text)), text.lower()
    letters = [(place, _plain_letter(char)) for place, char in enumerate(text) if not unicodedata.combining(char)]
    return [place for place, _ in letters], "".join(letter for _, letter in letters)


def _plain_letter(char: str) -> str:
    base = unicodedata.normalize("NFKD", char)[0].translate(ALIKE).lower()
    return base if len(base) == 1 and (base.isalnum() or (base in _ASCII_FORMS and char != "…")) else char
