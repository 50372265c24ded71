"""Text as it is read and compared: words, stems and terms, safe to show, on one line, without markup.

Stems follow Porter's rules of 1980, as the index's tokenizer does: ranking must see in a text what the index saw. What
no rule can tell are tables of the lexicon: irregular forms (buy, bought), spellings (colour), families (fail, failure).
"""

from __future__ import annotations

import math
import os.path
import re
import unicodedata
from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import chain
from typing import Any, Generic, TypeVar

from mcp_memory import lexicon
from mcp_memory.capture.characters import IGNORABLE, SHAPING, UNSPACED

T = TypeVar("T")


class Memo(dict[str, T], Generic[T]):
    """A function's answers by the words they are about: `memo[word]` calls it only the first time.

    `map(memo.__getitem__, words)` runs no line of Python for known words. A full one forgets what was not asked since.
    """

    __slots__ = ("_before", "_function", "_most")

    def __init__(self, function: Callable[[str], T], most: int) -> None:
        super().__init__()
        self._function = function
        self._most = most
        self._before: dict[str, T] = {}

    def __missing__(self, word: str) -> T:
        before = self._before  # another thread may replace it
        answer = before[word] if word in before else self._function(word)
        if len(self) >= self._most:
            self._before = dict(self)
            self.clear()
        self[word] = answer
        return answer


#: What no screen shows, and besides it control characters but newline and tab, other line ends, and marks of notes
#: between lines.
HIDDEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb{IGNORABLE}]")
_DASHES = r"\-_:.\u2010-\u2015\u2212\ufe58\ufe63\uff0d\uff1a"
#: The beginning of a tag in any spelling: spaced, escaped, full-width; its name, and the next word, which may be part
#: of the name.
_POSING_TAG = re.compile(
    r"(?P<open>[<\uff1c\ufe64]|&(?:lt|\#0*60|\#x0*3c);?|\\u003c|\\x3c|%3c)(?P<space>\s*+)(?P<slash>(?:\\?[/\uff0f]|%2f)\s*+)?"
    rf"(?P<name>[^\W\d_][\w{_DASHES}]{{0,60}})(?P<next>\s+[^\W\d_]\w{{0,30}})?",
    re.I,
)
_END = re.compile(r"(?:\s[^<>\uff1c\uff1e]{0,200}?|\s*[/\uff0f]?)(?:[>\uff1e\ufe65]|&(?:gt|#0*62|#x0*3e)\b)", re.I)
#: The bracket that closes a tag, in any spelling, behind its name.
_CLOSING = re.compile(
    r"(?:\s*[/\uff0f]?|[^<>\uff1c\uff1e\n]{0,200}?)(?P<close>[>\uff1e\ufe65]|&(?:gt|\#0*62|\#x0*3e);?|\\u003e|\\x3e|%3e)",
    re.I,
)
_BOUNDARY = re.compile(r"\s|$|[/>\uff0f\uff1e\ufe65&\\%]")
_TAG_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: Cyrillic and Greek letters that look like Latin ones.
ALIKE = str.maketrans(
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
#: A tag whose name ends so holds a datum, like the `<tool-use-id>` of a notification; no client speaks in it.
_DATA_ENDINGS = frozenset("id ids uuid uses count".split())
#: Words by which open models mark whose turn it is, such as `<|im_start|>`; some programs read them anywhere.
_TURNS = re.compile(
    r"(?:[<\uff1c]|&lt;|\\u003c|\\x3c)(?P<turn>\s*[|\uff5c][\w\u2581 ./:-]{2,40}[|\uff5c]\s*)"
    r"(?:[>\uff1e]|&gt;|\\u003e|\\x3e)?",
    re.I,
)
#: The marks of other chat templates. Square brackets mark a turn by `[/NAME]`, which closes one, by a name of several
#: words, such as `[TOOL_CALLS]`, or by a speaker's; an index such as `list[INST]` is code.
_SQUARE = re.compile(
    r"(?<![\w)}])[\[\uff3b]\s*(?:(?P<end>[/\uff0f]\s*[A-Z][A-Z_]{1,30})|(?P<words>[A-Z]+(?:_[A-Z]+)+)"
    r"|(?P<inst>(?i:[/\uff0f]?\s*inst))|(?P<word>[A-Z]{2,30}))\s*[\]\uff3d](?!\()"
)
_SQUARE_SPEAKERS = frozenset("sys system user assistant human tool".split())
_DOUBLE_TURNS = re.compile(r"(?<![\w<])<<(?P<turn>/?[A-Z][A-Z_]{1,30})>>(?!>)")
_SENTENCE_TURNS = re.compile(r"<(?P<turn>/?(?:s|bos|eos|pad|unk))>")
#: A line that names who speaks next: a heading that ends in a colon, or a speaker's name alone before one.
_SPEAKER_LINE = re.compile(
    r"^(?P<turn>[ \t]*(?:\#{1,6}[ \t]*(?:new[ \t]+)?(?:instructions?|response|system|user|human|assistant|input|prompt)"
    r"(?:[ \t]+(?:prompt|message|instructions?|response))?[ \t]*:"
    r"|(?-i:Human|Assistant|System|User|HUMAN|ASSISTANT|SYSTEM|USER)[ \t]*:(?=\s)))",
    re.M | re.I,
)
#: What poses is shown between these.
OPEN, CLOSE = "‹", "›"
_SPACE = re.compile(r"\s+")
#: What such a mark cannot be without, and the mark.
_TURN_MARKS = (
    ("|\uff5c", _TURNS),
    ("<", _DOUBLE_TURNS),
    ("<", _SENTENCE_TURNS),
    (":", _SPEAKER_LINE),
)


def clean(text: str) -> str:
    """The text without hidden characters, and with ‹…› for tags that pose as the client's own."""
    return _defuse(text)[0]


def count_defused(text: str) -> int:
    """How many tags of the text are shown with ‹…›: with any, what is shown is not what was stored."""
    return _defuse(text)[1]


def _defuse(text: str) -> tuple[str, int]:
    """The cleaned text, and how many of its tags have other brackets there."""
    text = HIDDEN.sub("", text)
    parts, last, tags = [], 0, 0
    for tag in _POSING_TAG.finditer(text):
        if not _poses(tag):
            continue
        closing = _CLOSING.match(text, tag.end("name"))
        end = closing.start("close") if closing else tag.end("name")
        parts += [text[last : tag.start()], OPEN, text[tag.end("open") : end], CLOSE if closing else ""]
        last = closing.end() if closing else end
        tags += 1
    text = "".join(parts) + text[last:]
    for needed, form in _TURN_MARKS:
        if any(char in text for char in needed):
            text, found = form.subn(_defused_turn, text)
            tags += found
    if "[" in text or "\uff3b" in text:
        text, found = _defuse_square(text)
        tags += found
    return text, tags


def _defused_turn(mark: re.Match[str]) -> str:
    return f"{OPEN}{mark['turn']}{CLOSE}"


def _defuse_square(text: str) -> tuple[str, int]:
    """Defuse turn marks in square brackets. A name that is closed by `[/NAME]` is one wherever it opens."""
    closed = frozenset(mark["end"].lstrip("/\uff0f").strip() for mark in _SQUARE.finditer(text) if mark["end"])
    count, end = 0, 0

    def defused(mark: re.Match[str]) -> str:
        nonlocal count, end
        if mark["word"] and mark["word"] not in closed and mark["word"].lower() not in _SQUARE_SPEAKERS:
            return mark[0]
        if mark.start() != end and text[mark.start() - 1 : mark.start()] in ("]", "\uff3d"):
            return mark[0]  # an index behind an index
        count, end = count + 1, mark.end()
        return f"{OPEN}{mark['end'] or mark['words'] or mark['inst'] or mark['word']}{CLOSE}"

    return _SQUARE.sub(defused, text), count


def clean_json(value: Any) -> Any:
    """The same of every text in a JSON value."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): clean_json(item) for key, item in value.items()}
    return [clean_json(item) for item in value] if isinstance(value, list | tuple) else value


def _poses(tag: re.Match[str]) -> bool:
    if tag["space"] and not tag["slash"] and not _END.match(tag.string, tag.end("name")):
        return False  # a comparison
    before = tag.string[tag.start() - 1 : tag.start()]
    if (before.isalnum() or before == "_") and not tag["slash"] and _TYPE.fullmatch(tag["name"]):
        return False  # the argument of a generic type
    words = _words(tag["name"])
    if not words:
        return False
    if len(words) > 1 and words[-1] in _DATA_ENDINGS:
        return False
    joined = "".join(words + (_words(tag["next"]) if tag["next"] and len(words) == 1 else []))
    if _COMPOUND.match(joined) or (len(words) > 1 and words[-1] in _ENDINGS):
        return True
    if "." in tag["name"] or not _BOUNDARY.match(tag.string, tag.end("name")):
        return False
    return words[0] in _SPEAKERS or (len(words) == 1 and words[0] in _ALONE)


def _words(name: str) -> list[str]:
    """The words of a name in small plain letters, whatever they are written in."""
    plain = name if name.isascii() else unicodedata.normalize("NFKC", name).translate(ALIKE)
    return [word.lower() for word in _TAG_WORD.findall(plain)]


def safe(text: str, limit: int = 0) -> str:
    """The cleaned text on one line, cut at a word if it is longer than the limit."""
    line = _SPACE.sub(" ", clean(text)).strip()
    if not limit or len(line) <= limit:
        return line
    cut = line[: limit - 1]
    head, _, _ = cut.rpartition(" ")
    return (head if len(head) > limit // 2 else cut).rstrip(" ,;:") + "…"


ELLIPSIS = "…"

#: English words that carry no topic: function words, question words, fillers, and the pieces of contractions.
STOP_WORDS = lexicon.words("stop_words")

# Combining marks belong to the letter before them, so that words of Indic and pointed scripts stay whole.
COMBINING = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0981-\u0983"
COMBINING += "\u09bc-\u09cd\u0a01-\u0a4d\u0b82-\u0bcd\u0c00-\u0c4d\u0d00-\u0d4d\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
_WORD = re.compile(rf"[^\W_](?:[^\W_]|[{COMBINING}])*")

# The same for plain English, which is most of what is read, and several times faster.
_ASCII_WORD = re.compile(r"[a-z0-9]+")

UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")

# Letters that expressions take for i and s when they ignore case, but that are not so in small letters.
ODD_CASES = str.maketrans({"İ": "i", "ı": "i", "ſ": "s"})

_PARTS = re.compile(
    r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])"  # several APIs, or the acronym of HTTPServer
    r"|[A-Z]?[^\W\dA-Z_]+\d*"  # a word with its digits: sha256, utf8
    r"|[A-Z]+\d*"
    r"|\d+"
    r"|[^\W_]+"
)

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_UNSAFE = re.compile(f"(?![{SHAPING}])[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufff9-\ufffb\ud800-\udfff{IGNORABLE}]")
_TAG = re.compile(
    r"(?:</|(?<!\w)<)[A-Za-z][\w:.-]*(?:\s+[\w:.-]+\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s<>\"']+))*\s*/?>|<[A-Za-z][\w:.-]*\s*/>"
)
_COMMENT = re.compile(r"<!--.*?(?:-->|$)", re.S)
#: What redaction puts in place of a secret.
REDACTED = re.compile(r"\[redacted:[\w-]+\]")
_IMAGE = re.compile(r"!\[([^\]\n]*)\]\([^)\n]*\)")
_LINK = re.compile(r"\[([^\]\n]+)\]\((?:[^()\n]|\([^()\n]*\))*\)")
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n`]*$", re.M)
# Each begins with its mark and looks back from there, since a mark is found fast and a place before one is not.
_EMPHASIS = re.compile(
    r"\*(?<![\w*]\*)(?=[^\s*])([^*\n]+?)(?<=\S)\*(?![\w*])|_(?<!\w_)(?=[^\s_])([^_\n]+?)(?<=\S)_(?!\w)"
)
_LINE_MARK = re.compile(
    r"^[ \t]*(?:>[ \t]?)*(?:#{1,6}[ \t]+|(?:[-*+•◦▪–]|\d{1,2}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?", re.M
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
#: The two halves by which JSON writes a character beyond the first 65,536.
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
#: JSON within JSON: a spool file holds a payload as text.
_ESCAPED_DEEP = 2
#: What stands in a text but not in what is shown of it: hidden characters, and marks of emphasis.
_UNSEEN = re.compile(f"{HIDDEN.pattern}|[*`]")


def words(text: str) -> list[str]:
    """The words of a text, lower-cased. `don't` and `snake_case` give two words each, as in the search index."""
    low = text.lower()
    return _ASCII_WORD.findall(low) if low.isascii() else _WORD.findall(low)


def folded(text: str) -> str:
    """The text in small letters, each in its place, as an expression that ignores case would see it."""
    if not text.isascii() and ("İ" in text or "ı" in text or "ſ" in text):
        text = text.translate(ODD_CASES)
    return text.lower()


def same_letters(text: str) -> str:
    """The text in the form in which it equals all its spellings: in any case and width, with accents joined on or
    apart, without what answers do not show, and with one space where lines were broken."""
    text = _UNSEEN.sub("", text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text.translate(ODD_CASES)).casefold())
    return " ".join(text.lower().split())


def holds(text: str, sought: str) -> bool:
    """Whether the text holds what is sought, which is given by `same_letters`; also where it is escaped as in JSON."""
    if sought in same_letters(text):
        return True
    for _ in range(_ESCAPED_DEEP):
        if "\\" not in text:
            return False
        text = unescape(text)
        if sought in same_letters(text):
            return True
    return False


def unescape(text: str) -> str:
    """Return the text with one level of JSON's escapes written out."""
    return _PAIR.sub(_paired, _ESCAPE.sub(_unescaped, text))


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _ESCAPED.get(escape[2], escape[2])


def _paired(halves: re.Match[str]) -> str:
    return halves[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def identifier_parts(word: str) -> list[str]:
    """The words inside an identifier or path, lower-cased: `HTTPServer` is http server, `sha256` stays whole."""
    return [part.lower() for part in _PARTS.findall(word)]


def has_unspaced_script(text: str) -> bool:
    """Whether the text holds a script whose words cannot be told by spaces."""
    return not text.isascii() and UNSPACED_RUN.search(text) is not None


def bigrams(text: str) -> list[str]:
    """Pairs of neighbouring characters within runs of unspaced script; a lone character stands for itself."""
    if not has_unspaced_script(text):
        return []
    pairs: list[str] = []
    for run in UNSPACED_RUN.findall(text):
        pairs.extend([run] if len(run) == 1 else (run[i : i + 2] for i in range(len(run) - 1)))
    return pairs


@lru_cache(maxsize=1 << 12)
def terms(text: str) -> frozenset[str]:
    """What a text is about, for comparing: stems of its topical words, and pairs of unspaced characters."""
    return frozenset(chain.from_iterable(map(_TERMS.__getitem__, text.lower().split())))


def _terms_of_chunk(chunk: str) -> tuple[str, ...]:
    """The terms of what stands between two blanks. The same few thousand words come back all the time."""
    if not chunk.isascii():
        found = [inflected(word) for word in words(chunk) if word not in STOP_WORDS and not UNSPACED_RUN.match(word)]
        return (*found, *bigrams(chunk))
    word = chunk if chunk.isalnum() else chunk[:-1]
    if word.isalnum():
        return () if word in STOP_WORDS else (inflected(word),)
    return tuple([inflected(word) for word in _ASCII_WORD.findall(chunk) if word not in STOP_WORDS])


_TERMS = Memo(_terms_of_chunk, 1 << 14)


def similar(a_terms: Collection[str], b_terms: Collection[str]) -> float:
    """How much two sets of terms overlap: 0 when they share none, 1 when equal."""
    a, b = frozenset(a_terms), frozenset(b_terms)
    shared = len(a & b)
    return shared / math.sqrt(len(a) * len(b)) if shared else 0.0


def printable(text: str) -> str:
    """The text without terminal escapes, control characters and invisible characters that reorder or hide text."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text if text.isascii() and text.replace("\n", " ").isprintable() else _UNSAFE.sub("", text)


def without_tags(text: str) -> str:
    """The text without tags, link targets and control characters."""
    text = printable(text)
    if "<" in text:
        text = _TAG.sub("", _COMMENT.sub("", text))
    if "](" in text:
        text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    return text


def strip_markup(text: str) -> str:
    """Plain words: no markdown marks (inline code keeps its backticks), no tags, no control characters."""
    text = without_tags(text)
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("", text).replace("```", "")
    if "\n" in text or not text[:1].isalpha():
        text = _LINE_MARK.sub("", text)
    if "*" in text or "_" in text:
        text = _EMPHASIS.sub(lambda match: match[1] or match[2], text.replace("**", ""))
    return text.replace("~~", "")


def one_line(text: str, limit: int) -> str:
    """The text on one line of at most `limit` characters, cut between words and marked with an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    cut = line[: max(limit - 1, 0)]
    # Unspaced scripts and endless words have no space near the end; there any place is as good.
    if not line[len(cut)].isspace() and (space := cut.rfind(" ")) > len(cut) * 2 // 3:
        cut = cut[:space]
    cut = cut.rstrip(" ,;:.-–—([{\"'")
    if cut.count("`") % 2:
        cut = "".join(cut.rsplit("`", 1))
    return cut.rstrip() + ELLIPSIS


_VOWELS = frozenset("aeiou")
_SECOND = {
    **{"ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble"},
    **{"alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate"},
    **{"alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive"},
    **{"biliti": "ble", "logi": "log"},
}
_THIRD = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_FOURTH = dict.fromkeys("ement ance ence able ible ment ant ent ism ate iti ous ive ize ion al er ic ou".split(), "")
#: FTS5 stems no longer words, in bytes.
LONGEST_STEMMED = 64


@lru_cache(maxsize=1 << 16)
def porter(word: str) -> str:
    """Return the stem of a lower-case word; one with digits or letters other than a to z is left as it is."""
    return _stem(word) if _has_stem(word) else word


@lru_cache(maxsize=1 << 16)
def index_stem(word: str) -> str:
    """Return the stem that FTS5 stores for a folded word.

    FTS5 applies Porter's rules to the bytes of UTF-8, so that a letter such as ß counts as two consonants.
    """
    if word.isascii():
        return _stem(word) if 2 < len(word) <= LONGEST_STEMMED else word
    coded = word.encode()
    if not 2 < len(coded) <= LONGEST_STEMMED:
        return word
    # A doubled last byte is cut in half as a doubled letter is, which leaves no valid character.
    return _stem(coded.decode("latin-1")).encode("latin-1").decode("utf-8", "replace")


def _stem(word: str) -> str:
    word = _without_inflection(word)
    for endings, least in ((_SECOND, 0), (_THIRD, 0), (_FOURTH, 1)):
        # Only the longest ending that fits counts, whether or not enough stands before it.
        ending = max((each for each in endings if word.endswith(each)), key=len, default="")
        base = word[: len(word) - len(ending)]
        if ending and _measure(base) > least and not (ending == "ion" and base[-1:] not in ("s", "t")):
            word = base + endings[ending]
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _closed(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


@lru_cache(maxsize=1 << 15)
def inflected(word: str) -> str:
    """What the forms of a lower-case word have in common, by the first of Porter's steps alone.

    It keeps apart what the whole stem joins, such as `import` and `importer`: two topics, not two forms.
    """
    if not _has_stem(word):
        return word
    base = _without_inflection(word)
    if len(base) < 3:
        # `used` comes of `use`, and `bus` is no plural.
        return f"{base}e" if len(word) > 3 else word
    return base[:-1] if base.endswith("e") and len(base) > 3 else base


def _has_stem(word: str) -> bool:
    return 2 < len(word) <= LONGEST_STEMMED and word.isascii() and word.isalpha()


def _without_inflection(word: str) -> str:
    """Without plural, -ed and -ing. As in FTS5, an ending is only one if something stands before it."""
    if (word.endswith("sses") and len(word) > 4) or (word.endswith("ies") and len(word) > 3):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    word = _past_and_progress(word)
    return word[:-1] + "i" if word.endswith("y") and "v" in _shape(word[:-1]) else word


def _past_and_progress(word: str) -> str:
    if word.endswith("eed") and len(word) > 3:
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = 2 if word.endswith("ed") else 3 if word.endswith("ing") else 0
    if not ending or "v" not in _shape(word[:-ending]):
        return word
    word = word[:-ending]
    if word.endswith(("at", "bl", "iz")) and len(word) > 2:
        return word + "e"
    if len(word) > 1 and word[-1] == word[-2] and word[-1] not in "aeioulsz":
        return word[:-1]
    return word + "e" if _measure(word) == 1 and _closed(word) else word


def _shape(word: str) -> str:
    """v for each vowel, c for each consonant; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        shape += "v" if letter in _VOWELS or (letter == "y" and shape[-1:] == "c") else "c"
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _closed(word: str) -> bool:
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


_IRREGULAR = [tuple(line.split()) for line in lexicon.lines("irregular_forms")]
_BASE = {form: group[0] for group in _IRREGULAR for form in group[1:]}
_FORMS = {group[0]: group for group in _IRREGULAR}
_KIN = [tuple(line.split()) for line in (*lexicon.lines("spellings"), *lexicon.lines("word_families"))]
_SPELLED = {porter(form): kin for kin in _KIN for form in kin}


@lru_cache(maxsize=1 << 16)
def root(word: str) -> str:
    """What all forms of a lower-case word have in common: the stem of its regular form, in its first spelling."""
    word = with_double_s(word)
    stem = porter(_BASE.get(word, word))
    spelled = _SPELLED.get(stem)
    return porter(spelled[0]) if spelled else stem


def forms(word: str) -> tuple[str, ...]:
    """The word with its irregular forms and other spellings, which the index keeps apart."""
    known = _FORMS.get(_BASE.get(word, word)) or _SPELLED.get(porter(word)) or (word,)
    return (*known, with_double_s(word)) if "ß" in word else known


def with_double_s(text: str) -> str:
    """The text with ss for ß, which not everyone can or may write. The index holds such words in both spellings."""
    return text.replace("ß", "ss").replace("ẞ", "SS")


def beginning(word: str) -> str:
    """What every regular form of a word begins with: `hope` and `hoping` share only `hop`."""
    start = os.path.commonprefix([word, porter(word)])
    return start[:-1] if len(start) > 2 and start[-1] in "eiy" else start
