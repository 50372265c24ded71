"""Which words matter in a piece of conversation, and which of them one would search for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from mcp_memory.adapters.summarizers.common_words import COMMON_STEMS, FOREIGN, GENERIC_STEMS, VERBS
from mcp_memory.domain.text import STOP_WORDS, bigrams, has_unspaced_script, identifier_parts, stem, without_tags

_TOKEN = re.compile(r"(?:(?<![\w-])--?|(?<!\w)[.@])?(?<!\w)[^\W\d_](?:[\w]|[./@:+#-](?=\w))*(?:\(\))?|[.,;:!?()\"\n]+")
_SCRIPT = re.compile("([\u4e00-\u9fff]+|[\u30a1-\u30ff]+|[\u3041-\u3096]+|[\uac00-\ud7af]+)")
_HIRAGANA = re.compile("[\u3041-\u3096]+")
_HAN = re.compile("[\u4e00-\u9fff]{2}")
_IDS = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|\b(?=[a-f]*\d)[0-9a-f]{7,40}\b", re.I)
_URL = re.compile(r"\w+://\S+|\bwww\.\S+")
_HOME = re.compile(r"(?:~|/(?:home|Users|root)/?[^/\s]*|[A-Za-z]:\\Users\\[^\\\s]*)(?=[/\\])[/\\]")
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
_COMMON = 0.9


class Passage(NamedTuple):
    """Text that counts toward the weights; `code` says that it names things rather than tells."""

    text: str
    weight: float
    code: bool = False


@lru_cache(maxsize=1 << 14)
def stems_of(token: str) -> tuple[str, ...]:
    """The topical stems inside a token."""
    if has_unspaced_script(token):
        return tuple(bigrams(token))
    return tuple(stem(part) for part in identifier_parts(token) if len(part) > 1 and part not in STOP_WORDS)


@lru_cache(maxsize=1 << 14)
def _shape(token: str) -> tuple[str, float]:
    """A token as a keyword, and how telling its form is; weight 0 means it never is one."""
    token = _LINE_REF.sub("", token).rstrip(".:/@#+-")
    if "/" in token:
        token = _short_path(token)
    bare = token.strip("-.@()")
    if len(bare) < 2 or len(token) > 40 or _ID.fullmatch(bare) or not stems_of(token):
        return "", 0.0
    if has_unspaced_script(token):
        return (token, 1.0) if len(token) <= 6 and not _HIRAGANA.fullmatch(token) else ("", 0.0)
    if _INNER.search(token) and not bare.isdigit():
        return token, 1.6
    if bare.isupper() and len(bare) > 1:
        return bare, 1.3
    word = bare.lower()
    if word in STOP_WORDS or word in FOREIGN or len(word) < 3:
        return "", 0.0
    return word, 0.35 if stem(word) in GENERIC_STEMS else _COMMON if stem(word) in COMMON_STEMS else 1.0


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
    if "/" in text or "\\" in text:
        text = _HOME.sub("", text)
    return text


def _prepared(text: str) -> str:
    """What of a passage can hold keywords: no tags, addresses, home directories and ids."""
    text = _IDS.sub(" ", without_places(without_tags(text)))
    return _spaced(text) if has_unspaced_script(text) else text


def _spaced(text: str) -> str:
    """Text of unspaced scripts with spaces where the script changes, and its recurring pairs as words of their own."""
    recurring = [pair for pair, count in Counter(bigrams(text)).items() if count > 1 and _HAN.fullmatch(pair)]
    return " ".join([_SCRIPT.sub(r" \1 ", text), *recurring, *recurring])


class Vocabulary:
    """Counts of what was said: weights of stems for ranking sentences, and the keywords."""

    def __init__(self, passages: Iterable[Passage], names: Collection[str] = (), edited: Collection[str] = ()) -> None:
        """`names` are the speakers' own, which tell nothing; files that were `edited` are what one looks for."""
        tokens: Counter[str] = Counter()
        spread: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for text, weight, code in passages:
            found = _TOKEN.findall(_prepared(text))
            for token, count in Counter(found).items():
                tokens[token] += weight * min(count, 4)  # type: ignore[assignment]  # weights are fractions
                spread[token.lower()] += 1
            if not code:
                pairs.update(zip(found, found[1:], strict=False))
        for name in names:
            tokens.pop(name, None)
        self._tokens = tokens
        self._pairs = pairs
        self._spread = spread
        self._edited = edited
        self.weights = self._stem_weights(1.0)
        self.names = self._stem_weights(_BY_NAME)

    def _stem_weights(self, by_name: float) -> dict[str, float]:
        """How much each stem tells; `names` weighs those of identifiers up, to keep sentences that name something."""
        raw: dict[str, float] = {}
        for token, count in self._tokens.items():
            shape = _shape(token)[1]
            shape *= by_name if shape > _NAMED else 1.0
            for part in stems_of(token):
                raw[part] = raw.get(part, 0.0) + count * (0.35 if part in GENERIC_STEMS else max(shape, 0.5))
        top = max(raw.values(), default=1.0)
        return {part: (value / top) ** 0.5 for part, value in raw.items()}

    def keywords(self, limit: int, by_name: bool = True) -> tuple[str, ...]:
        """The terms one would search for, best first, each thing named once.

        `by_name` puts identifiers first, by which things are found; without it the terms tell what was talked about.
        """
        scored: dict[str, float] = {}
        for token, count in self._tokens.items():
            word, telling = _shape(token)
            if telling > 1.0 or (telling == 1.0 and count >= _SAID_ENOUGH and stem(word) not in VERBS):
                once = telling == 1.0 and self._spread[token.lower()] == 1
                worth = _BY_NAME * count**_OFTEN if by_name and telling > _NAMED else count
                worth *= _EDITED if by_name and word in self._edited else 1.0
                scored[word] = scored.get(word, 0.0) + telling * worth * (_ONCE if once else 1.0)
        for (left, right), count in self._pairs.items():
            if count >= 2 and (pair := _pair(left, right)):
                scored[pair] = scored.get(pair, 0.0) + 1.6 * count
        return distinct(sorted(scored, key=lambda word: (-scored[word], word)), limit)


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
