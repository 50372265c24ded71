"""Which words matter in a piece of conversation, and which of them one would search for."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from mcp_memory.adapters.summarizers.common_words import COMMON_STEMS, FOREIGN, GENERIC_STEMS, VERBS
from mcp_memory.domain.text import STOP_WORDS, bigrams, has_unspaced_script, identifier_parts, stem, without_tags

_NAME = r"[^\W\d_]\w*(?:[./@:+#-]\w+)*(?:\(\))?"
_TOKEN = re.compile(rf"(?<!\w){_NAME}|(?<![\w-])--?{_NAME}|(?<!\w)[.@]{_NAME}|[.,;:!?()\"\n]+")
_SCRIPT = re.compile("([\u4e00-\u9fff]+|[\u30a1-\u30ff]+|[\u3041-\u3096]+|[\uac00-\ud7af]+)")
_HIRAGANA = re.compile("[\u3041-\u3096]+")
_HAN = re.compile("[\u4e00-\u9fff]{2}")
_IDS = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|\b(?=[a-f]*\d)[0-9a-f]{7,40}\b", re.I)
_HEX = re.compile(r"[0-9a-fA-F]{7}")
_URL = re.compile(r"\w+://\S+|\bwww\.\S+")
_HOME = re.compile(r"(?:~|/(?:home|Users|root)/?[^/\s]*|[A-Za-z]:\\Users\\[^\\\s]*)(?=[/\\])[/\\]")
_PLACES = ("~", "/home", "/Users", "/root", "\\Users")
_ID = re.compile(r"[0-9a-f]{7,}|[0-9a-f]{8}-[0-9a-f-]{9,}|\w*\d\w*\d\w*\d\w*\d\w*|[\w/+-]{41,}", re.I)
_INNER = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]|[\w)][._/@:][\w(]|_|\(\)$|^[-.@]|[A-Za-z]\d|\w::\w")
_LINE_REF = re.compile(r":\d+(?:[-:,]\d+)*$")
_SEPARATORS = re.compile(r"[/\\]")

# An ordinary word that was said once, and not by the user, is no keyword.
_SAID_ENOUGH = 1.9
# One that comes back in other messages says more about them all than one that does not.
_ONCE = 0.45
#: An identifier is looked for by its name even if it was said once; saying it often adds little.
_BY_NAME = 2.2
_NAMED = 1.3
_OFTEN = 0.6
_EDITED = 1.5
_LONGEST = 40
_OFTEN_ENOUGH = 4
_COMMON = 0.9


class Passage(NamedTuple):
    """Text that counts toward the weights; `code` says that it is a list of names rather than tells something."""

    text: str
    weight: float
    code: bool = False


@lru_cache(maxsize=1 << 14)
def stems_of(token: str) -> tuple[str, ...]:
    """The topical stems inside a token."""
    if _is_word(token):
        low = token.lower()
        return (stem(low),) if len(low) > 1 and low not in STOP_WORDS else ()
    if has_unspaced_script(token):
        return tuple(bigrams(token))
    return tuple(stem(part) for part in identifier_parts(token) if len(part) > 1 and part not in STOP_WORDS)


@lru_cache(maxsize=1 << 14)
def _shape(token: str) -> tuple[str, float]:
    """A token as a keyword, and how telling its form is; weight 0 means it never is one."""
    if _is_word(token) and len(token) < _LONGEST and not _HEX.match(token):
        return _plain_shape(token.lower())
    token = _LINE_REF.sub("", token).rstrip(".:/@#+-")
    if "/" in token:
        token = _short_path(token)
    bare = token.strip("-.@()")
    if len(bare) < 2 or len(token) > _LONGEST or _ID.fullmatch(bare) or not stems_of(token):
        return "", 0.0
    if has_unspaced_script(token):
        return (token, 1.0) if len(token) <= 6 and not _HIRAGANA.fullmatch(token) else ("", 0.0)
    if _INNER.search(token) and not bare.isdigit():
        return token, 1.6
    if bare.isupper() and len(bare) > 1:
        return bare, 1.3
    return _plain_shape(bare.lower())


def _is_word(token: str) -> bool:
    """Whether it is an ordinary word in small letters, or with a capital: most tokens are."""
    return token.isascii() and token.isalpha() and token[1:].islower()


def _plain_shape(word: str) -> tuple[str, float]:
    if word in STOP_WORDS or word in FOREIGN or len(word) < 3:
        return "", 0.0
    return word, 0.35 if stem(word) in GENERIC_STEMS else _COMMON if stem(word) in COMMON_STEMS else 1.0


class _Known(NamedTuple):
    """What is known of a token: its form as a keyword, how telling that is, and what its stems weigh."""

    word: str
    telling: float
    #: Whether it may be a keyword: names may, ordinary words unless they are common or verbs.
    eligible: bool
    stems: tuple[str, ...]
    weights: tuple[float, ...]


_NOTHING = _Known("", 0.0, False, (), ())


@lru_cache(maxsize=1 << 14)
def _known(token: str) -> _Known:
    if _is_word(token) and len(token) < _LONGEST and not _HEX.match(token):
        return _known_word(token.lower())
    word, telling = _shape(token)
    eligible = telling > 1.0 or (telling == 1.0 and stem(word) not in VERBS)
    stems = stems_of(token)
    weights = tuple(0.35 if part in GENERIC_STEMS else max(telling, 0.5) for part in stems)
    return _Known(word, telling, eligible, stems, weights)


def _known_word(low: str) -> _Known:
    """The same for an ordinary word, as most are, without the rest of the rules."""
    if len(low) < 2 or low in STOP_WORDS:
        return _NOTHING
    word, telling = _plain_shape(low)
    base = stem(low)
    weights = (0.35 if base in GENERIC_STEMS else max(telling, 0.5),)
    return _Known(word, telling, telling == 1.0 and base not in VERBS, (base,), weights)


def _short_path(token: str) -> str:
    """The file's name of a long path; `owner/name` stays."""
    parts = [part for part in _SEPARATORS.split(token) if part]
    if len(parts) > 2 or (parts and "." in parts[-1][1:]):
        return parts[-1]
    return token.lstrip("/")


def without_places(text: str) -> str:
    """The text without addresses and without home directories in its paths."""
    if "://" in text or "www." in text:
        text = _URL.sub(" ", text)
    if any(place in text for place in _PLACES):
        text = _HOME.sub("", text)
    return text


def _prepared(text: str) -> str:
    """What of a passage can hold keywords: no tags, addresses, home directories and ids."""
    text = without_places(without_tags(text))
    if _HEX.search(text):
        text = _IDS.sub(" ", text)
    return _spaced(text) if has_unspaced_script(text) else text


def _spaced(text: str) -> str:
    """Text of unspaced scripts with spaces where the script changes, and its recurring pairs as words of their own."""
    recurring = [pair for pair, count in Counter(bigrams(text)).items() if count > 1 and _HAN.fullmatch(pair)]
    return " ".join([_SCRIPT.sub(r" \1 ", text), *recurring, *recurring])


class Vocabulary:
    """Counts of what was said: weights of stems for ranking sentences, and the keywords."""

    def __init__(self, passages: Iterable[Passage], names: Collection[str] = (), edited: Collection[str] = ()) -> None:
        """`names` are the speakers' own, which tell nothing; files that were `edited` are what one looks for."""
        said: dict[float, Counter[str]] = {}
        spread: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for text, weight, code in passages:
            found = _tokens(_prepared(text))
            counts = Counter(found)
            spread.update(counts.keys())
            weighed = said.setdefault(weight, Counter())
            if code:
                weighed.update(found)
            else:
                weighed.update(_at_most(_OFTEN_ENOUGH, counts, found))
                pairs.update(zip(found, found[1:], strict=False))
        self._tokens = _weighed(said, names)
        self._pairs = pairs
        self._spread: dict[str, int] = {}
        for token, _, _ in self._tokens:
            low = token.lower()
            self._spread[low] = self._spread.get(low, 0) + spread[token]
        self._edited = edited
        #: How much each stem tells; `names` weighs those of identifiers up, to keep sentences that name something.
        self.weights, self.names = self._stem_weights()

    def _stem_weights(self) -> tuple[dict[str, float], dict[str, float]]:
        plain: dict[str, float] = {}
        for _, count, known in self._tokens:
            for part, weight in zip(known.stems, known.weights, strict=True):
                plain[part] = plain.get(part, 0.0) + count * weight
        named = dict(plain)
        for _, count, known in self._tokens:
            if known.telling > _NAMED:
                for part, weight in zip(known.stems, known.weights, strict=True):
                    if weight >= known.telling:
                        named[part] += count * weight * (_BY_NAME - 1.0)
        return _scaled(plain), _scaled(named)

    def keywords(self, limit: int, by_name: bool = True) -> tuple[str, ...]:
        """The terms one would search for, best first, each thing named once.

        `by_name` puts identifiers first, by which things are found; without it the terms tell what was talked about.
        """
        scored: dict[str, float] = {}
        for token, count, known in self._tokens:
            word, telling = known.word, known.telling
            if known.eligible and (telling > 1.0 or count >= _SAID_ENOUGH):
                once = telling == 1.0 and self._spread[token.lower()] == 1
                worth = _BY_NAME * count**_OFTEN if by_name and telling > _NAMED else count
                worth *= _EDITED if by_name and word in self._edited else 1.0
                scored[word] = scored.get(word, 0.0) + telling * worth * (_ONCE if once else 1.0)
        for (left, right), count in [entry for entry in self._pairs.items() if entry[1] > 1]:
            if pair := _pair(left, right):
                scored[pair] = scored.get(pair, 0.0) + 1.6 * count
        return distinct(sorted(scored, key=lambda word: (-scored[word], word)), limit)


def _tokens(text: str) -> list[str]:
    """The words, names and stops of a text. Words come back, so each is taken apart only once."""
    return [token for chunk in text.replace("\n", " \n ").split(" ") for token in _in_chunk(chunk)]


@lru_cache(maxsize=1 << 14)
def _in_chunk(chunk: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(chunk))


def _at_most(limit: int, counts: Counter[str], found: list[str]) -> list[str]:
    """The tokens of one passage, each so many times at most: a word is not weightier for filling one message."""
    if not counts or max(counts.values()) <= limit:
        return found
    return [token for token, count in counts.items() for _ in range(min(count, limit))]


def _weighed(said: Mapping[float, Counter[str]], names: Collection[str]) -> list[tuple[str, float, _Known]]:
    """What was said, by what it weighs with whoever said it, leaving out what tells nothing."""
    tokens: dict[str, float] = {}
    for weight, counts in said.items():
        for token, count in counts.items():
            tokens[token] = tokens.get(token, 0.0) + weight * count
    return [
        (token, count, known)
        for token, count in tokens.items()
        if (known := _known(token)).stems and token not in names
    ]


def _scaled(raw: Mapping[str, float]) -> dict[str, float]:
    top = max(raw.values(), default=1.0)
    return {part: math.sqrt(value / top) for part, value in raw.items()}


def _pair(left: str, right: str) -> str:
    """Two ordinary neighbouring words as one term, if both carry meaning."""
    if not (left.isalpha() and right.isalpha()) or left.lower() == right.lower():
        return ""
    (first, a), (second, b) = _shape(left), _shape(right)
    if stem(first) in VERBS or stem(second) in VERBS:
        return ""
    return f"{first} {second}" if a and b and max(a, b) >= 1.0 and len(first) + len(second) <= 30 else ""


def distinct(words: Sequence[str], limit: int) -> tuple[str, ...]:
    """The first words of a ranking that do not repeat one another in another spelling or as a part."""
    chosen: list[str] = []
    taken: list[frozenset[str]] = []
    spelled: set[str] = set()
    for word in words:
        parts = frozenset(stems_of(word)) or frozenset((word.lower(),))
        joined = "".join(char for char in word.lower() if char.isalnum())
        if joined in spelled or any(parts <= other or (other <= parts and len(other) > 1) for other in taken):
            continue
        chosen.append(word)
        taken.append(parts)
        spelled.add(joined)
        if len(chosen) == limit:
            break
    return tuple(chosen)
