"""Stems of English words by Porter's rules of 1980, which the index's tokenizer applies as well.

Ranking must see in a text what the index saw, so both stem alike. What no rule can tell, the irregular forms (buy,
bought), British spellings (colour) and words of one family (fail, failure), are tables: a question asks with one form
and the answer was said with another.
"""

from __future__ import annotations

import os.path
import re
from functools import lru_cache

_VOWELS = frozenset("aeiou")
_SECOND = {
    **{"ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble"},
    **{"alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate"},
    **{"alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive"},
    **{"biliti": "ble", "logi": "log"},
}
_THIRD = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_FOURTH = dict.fromkeys(
    "ement ance ence able ible ment ant ent ism ate iti ous ive ize ion al er ic ou".split(),
    "",
)
_IRREGULAR = """
begin began begun, bite bit bitten, blow blew blown, break broke broken, bring brought, build built, burn burnt,
buy bought, catch caught, choose chose chosen choice choices, come came, deal dealt, dig dug, draw drew drawn,
drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, feed fed, feel felt, fight fought, find found,
fly flew flown flight flights, forget forgot forgotten, freeze froze frozen, get got gotten, give gave given,
go went gone, grow grew grown growth, hang hung, hear heard, hide hid hidden, hold held, keep kept, know knew known,
lead led, learn learnt, leave left, lend lent, lose lost loss losses, make made, mean meant, meet met, pay paid,
ride rode ridden, ring rang rung, rise rose risen, run ran, see saw seen, seek sought, sell sold, send sent,
shake shook shaken, shoot shot, show shown, sing sang sung, sit sat, sleep slept, speak spoke spoken, spend spent,
spin spun, stand stood, steal stole stolen, stick stuck, strike struck, swear swore sworn, swim swam swum,
take took taken, teach taught, tear tore torn, tell told, think thought, throw threw thrown, understand understood,
wake woke woken, wear wore worn, win won, write wrote written, rebuild rebuilt, overwrite overwrote overwritten,
rewrite rewrote rewritten, child children, person people, man men, woman women, foot feet, tooth teeth, mouse mice,
wife wives, life lives, half halves, index indices
"""
#: American and British, by one form of each; the others follow from their stems.
_SPELLINGS = """
airplane aeroplane, analyze analyse analysis, artifact artefact, authorize authorise, behavior behaviour,
catalog catalogue, center centre, color colour, customize customise, defense defence, dialog dialogue,
favor favour, favorite favourite, fiber fibre, finalize finalise, flavor flavour, gray grey, harbor harbour,
honor honour, humor humour, initialize initialise, jewelry jewellery, judgment judgement, labor labour,
license licence, liter litre, maximize maximise, meter metre, minimize minimise, mom mum, neighbor neighbour,
neighborhood neighbourhood, normalize normalise, optimize optimise, organize organise, pajamas pyjamas,
practice practise, prioritize prioritise, program programme, realize realise, recognize recognise,
rumor rumour, serialize serialise, standardize standardise, summarize summarise, synchronize synchronise,
theater theatre, utilize utilise, visualize visualise
"""
#: Words of one family whose stems differ: what was done, what came of it, and who or what does it. Left out are those
#: whose stem is also that of another word: conversion and conversation, response and responsible.
_FAMILIES = """
accurate accuracy, acquire acquisition, admit admission, advise advice, allergic allergy, assume assumption,
believe belief, bundle bundler, clarify clarification, classify classification, collide collision, compare comparison,
compete competition, conclude conclusion, consume consumption, cover coverage, crawl crawler, debug debugger,
decide decision, describe description, destroy destruction, die death, divide division, expand expansion,
expire expiry, explain explanation, explode explosion, expose exposure, fail failure, flake flaky, format formatter,
handle handler, identify identification, introduce introduction, invert inversion, justify justification, lint linter,
load loader, maintain maintenance, marry marriage, modify modification, notify notification, occur occurrence,
omit omission, parse parser, perceive perception, permit permission, photo photograph, private privacy, prove proof,
reduce reduction, repeat repetition, reproduce reproduction, resolve resolution, retain retention, safe safety,
scan scanner, simplify simplification, solve solution, store storage, strong strength, submit submission,
subscribe subscription, succeed success, suspend suspension, transmit transmission, verify verification, wed wedding
"""
#: Where German has a letter of its own for ss, which not everyone can or may write: after a long vowel.
_LONG_S = re.compile(r"([aou]|ei|ie)ss")
_GROUPS = [group.split() for group in _IRREGULAR.split(",")]
_BASE = {form: group[0] for group in _GROUPS for form in group[1:]}
_FORMS = {group[0]: tuple(group) for group in _GROUPS}


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


@lru_cache(maxsize=1 << 16)
def porter(word: str) -> str:
    """Words with digits or letters other than a to z are left alone."""
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    word = _past_and_progress(_plural(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(_replace(word, _SECOND, 0), _THIRD, 0)
    return _final(_replace(word, _FOURTH, 1))


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


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


def _replace(word: str, endings: dict[str, str], least: int) -> str:
    """Only the longest ending that fits counts, whether or not enough stands before it."""
    ending = max((each for each in endings if word.endswith(each)), key=len, default="")
    base = word[: len(word) - len(ending)]
    if not ending or _measure(base) <= least or (ending == "ion" and base[-1:] not in ("s", "t")):
        return word
    return base + endings[ending]


def _final(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _closed(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


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


_KIN = [tuple(each.split()) for each in f"{_SPELLINGS},{_FAMILIES}".split(",")]
_SPELLED = {porter(form): kin for kin in _KIN for form in kin}
