"""Recalled text is data: what is shown to a model is stripped of what could pose as something else."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

#: Every default-ignorable code point of Unicode (DerivedCoreProperties): a model reads what no screen shows.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Besides them control characters but newline and tab, other line ends, and marks of notes between lines.
HIDDEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb{_IGNORABLE}]")
_DASHES = r"\-_:.\u2010-\u2015\u2212\ufe58\ufe63\uff0d\uff1a"
#: The beginning of a tag in any spelling: spaced, escaped, full-width; its name, and the next word, which may be part
#: of the name.
_TAG = re.compile(
    r"(?P<open>[<\uff1c\ufe64]|&(?:lt|\#0*60|\#x0*3c);?|\\u003c|\\x3c|%3c)(?P<space>\s*+)(?P<slash>(?:\\?[/\uff0f]|%2f)\s*+)?"
    rf"(?P<name>[^\W\d_][\w{_DASHES}]{{0,60}})(?P<next>\s+[^\W\d_]\w{{0,30}})?",
    re.I,
)
_END = re.compile(r"(?:\s[^<>\uff1c\uff1e]{0,200}?|\s*[/\uff0f]?)(?:[>\uff1e\ufe65]|&(?:gt|#0*62|#x0*3e)\b)", re.I)
_BOUNDARY = re.compile(r"\s|$|[/>\uff0f\uff1e\ufe65&\\%]")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: Cyrillic and Greek letters that look like Latin ones.
_ALIKE = str.maketrans(
    "\u0430\u0432\u0441\u0501\u0435\u04bb\u0456\u0458\u043a\u04cf\u043c\u043e\u0440\u051b\u0455\u0442\u0443\u0445"
    "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a\u041c\u041e\u0420\u0405\u0422\u0423\u0425"
    "\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u0391\u0392\u0395\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7",
    "abcdehijklmopqstyxABCEHIJKMOPSTYXaeikvoptuABEHIKMNOPTYX",
)
_TYPE = re.compile(r"[A-Z][A-Za-z0-9]*")
#: A tag whose name begins with one of these is taken for a client's own, or for the fence around what is recalled;
#: `<user-id>`, which only begins like one, is a place to fill in.
_SPEAKERS = frozenset("system sys assistant human developer antml memory recalled invoke".split())
_ALONE = frozenset({"user", "parameter"})
#: So is one made of two of these words, however they are joined, and one that ends like a client's message.
_COMPOUND = re.compile(
    r"(?:system|user|assistant|human|agent|model|tool|function|command|local|hook|environment|task|session|prompt|ide)"
    r"(?:reminder|prompt|call|result|response|use|output|input|context|instruction|notification|hook|message|content|"
    r"stdout|stderr|command|caveat|submit|turn|query|info|detail|selection)|command(?:name|args)|(?:start|end)ofturn"
)
_ENDINGS = frozenset("reminder reminders hook instruction instructions notification caveat".split())
#: Words by which open models mark whose turn it is, such as `<|im_start|>`; some programs read them anywhere.
_TURNS = re.compile(r"[<\uff1c]\s*[|\uff5c](?=[\w\u2581 ]{2,40}[|\uff5c])")
_DEFUSED = "‹"
_EMPTY_LINES = re.compile(r"[ \t]*\n(?:[ \t]*\n)+")
_SPACE = re.compile(r"\s+")


def clean(text: str) -> str:
    """The text without hidden characters; tags that pose as the client's own are made harmless."""
    return _TURNS.sub(f"{_DEFUSED}|", _TAG.sub(_defused, HIDDEN.sub("", text)))


def clean_json(value: Any) -> Any:
    """The same of every text in a JSON value."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): clean_json(item) for key, item in value.items()}
    return [clean_json(item) for item in value] if isinstance(value, list | tuple) else value


def _defused(tag: re.Match[str]) -> str:
    return _DEFUSED + tag[0][len(tag["open"]) :] if _poses(tag) else tag[0]


def _poses(tag: re.Match[str]) -> bool:
    if tag["space"] and not tag["slash"] and not _END.match(tag.string, tag.end("name")):
        return False  # a comparison
    before = tag.string[tag.start() - 1 : tag.start()]
    if (before.isalnum() or before == "_") and not tag["slash"] and _TYPE.fullmatch(tag["name"]):
        return False  # the argument of a generic type
    words = _words(tag["name"])
    if not words:
        return False
    joined = "".join(words + (_words(tag["next"]) if tag["next"] and len(words) == 1 else []))
    if _COMPOUND.match(joined) or (len(words) > 1 and words[-1] in _ENDINGS):
        return True
    if "." in tag["name"] or not _BOUNDARY.match(tag.string, tag.end("name")):
        return False
    return words[0] in _SPEAKERS or (len(words) == 1 and words[0] in _ALONE)


def _words(name: str) -> list[str]:
    """The words of a name in small plain letters, whatever they are written in."""
    plain = name if name.isascii() else unicodedata.normalize("NFKC", name).translate(_ALIKE)
    return [word.lower() for word in _WORD.findall(plain)]


def squeezed(text: str) -> str:
    """The text without empty lines, which say nothing and cost as much as a word."""
    return _EMPTY_LINES.sub("\n", text)


def safe(text: str, limit: int = 0) -> str:
    """The cleaned text on one line, cut at a word if it is longer than the limit."""
    line = _SPACE.sub(" ", clean(text)).strip()
    if not limit or len(line) <= limit:
        return line
    cut = line[: limit - 1]
    head, _, _ = cut.rpartition(" ")
    return (head if len(head) > limit // 2 else cut).rstrip(" ,;:") + "…"
