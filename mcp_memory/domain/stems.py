"""Stems of English words by Porter's rules of 1980, which the index's tokenizer applies as well.

Ranking must see in a text what the index saw, so both stem alike. What no rule can tell are tables of the lexicon:
irregular forms (buy, bought), British spellings (colour) and words of one family (fail, failure). A question asks with
one form and the answer was said with another.
"""

from __future__ import annotations

import os.path
import re
import unicodedata
from functools import lru_cache

from mcp_memory.lexicon import lines

_VOWELS = frozenset("aeiou")
_SECOND = {
    **{"ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble"},
    **{"alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate"},
    **{"alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive"},
    **{"biliti": "ble", "logi": "log"},
}
_THIRD = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_FOURTH = dict.fromkeys("ement ance ence able ible ment ant ent ism ate iti ous ive ize ion al er ic ou".split(), "")
#: Where German has a letter of its own for ss, which not everyone can or may write: after a long vowel.
_LONG_S = re.compile(r"([aou]|ei|ie)ss")


@lru_cache(maxsize=1 << 16)
def porter(word: str) -> str:
    """The stem of a lower-case word. Words with digits or letters other than a to z are left alone."""
    if not _has_stem(word):
        return word
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
    return len(word) > 2 and word.isascii() and word.isalpha()


def _without_inflection(word: str) -> str:
    """Without plural, -ed and -ing."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    word = _past_and_progress(word)
    return word[:-1] + "i" if word.endswith("y") and "v" in _shape(word[:-1]) else word


def _past_and_progress(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = 2 if word.endswith("ed") else 3 if word.endswith("ing") else 0
    if not ending or "v" not in _shape(word[:-ending]):
        return word
    word = word[:-ending]
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c" and word[-1] not in "lsz":
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


_IRREGULAR = [tuple(line.split()) for line in lines("irregular_forms")]
_BASE = {form: group[0] for group in _IRREGULAR for form in group[1:]}
_FORMS = {group[0]: group for group in _IRREGULAR}
_KIN = [tuple(line.split()) for line in (*lines("spellings"), *lines("word_families"))]
_SPELLED = {porter(form): kin for kin in _KIN for form in kin}


@lru_cache(maxsize=1 << 16)
def root(word: str) -> str:
    """What all forms of a lower-case word have in common: the stem of its regular form, in its first spelling."""
    word = word.replace("ß", "ss")
    stem = porter(_BASE.get(word, word))
    spelled = _SPELLED.get(stem)
    return porter(spelled[0]) if spelled else stem


def forms(word: str) -> tuple[str, ...]:
    """The word with its irregular forms and other spellings, which the index keeps apart."""
    known = _FORMS.get(_BASE.get(word, word)) or _SPELLED.get(porter(word)) or (word,)
    other = word.replace("ß", "ss") if "ß" in word else _LONG_S.sub(r"\1ß", word, count=1)
    return known if other == word else (*known, other)


def beginning(word: str) -> str:
    """What every regular form of a word begins with: `hope` and `hoping` share only `hop`."""
    start = os.path.commonprefix([word, porter(word)])
    return start[:-1] if len(start) > 2 and start[-1] in "eiy" else start


#: What is longer is no word that anyone would ask for, but a key or a blob; its beginning finds it.
_LONGEST = 64
_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")


class _Plain(dict[int, str]):
    """Latin letters without their accents, found out once for each; in other scripts a mark makes another letter."""

    def __missing__(self, code: int) -> str:
        apart = unicodedata.normalize("NFD", chr(code))
        self[code] = plain = apart[0] if len(apart) > 1 and apart[0].isascii() else chr(code)
        return plain


_PLAIN = _Plain()


def index_words(text: str) -> list[str]:
    """The words of a text as the index's tokenizer sees them: lower case, without accents, stemmed, in their order."""
    low = text.lower()
    if not low.isascii():
        low = _ACCENTS.sub("", low.translate(_PLAIN))
    return [porter(word[:_LONGEST]) for word in _WORD.findall(low)]
