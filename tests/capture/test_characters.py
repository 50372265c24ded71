"""Classes of characters, compared with what Unicode says of each character."""

from __future__ import annotations

import re
import unicodedata

from mcp_memory.capture.characters import IGNORABLE, SHAPING, UNSPACED

EVERY = [chr(code) for code in range(0x110000)]
#: Characters that are shown although Unicode calls them formats: marks between lines, signs above numbers, and joiners
#: of hieroglyphs.
SHOWN = re.compile(
    "[\ufff9-\ufffb\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001345f]"
)
#: Those that are not shown although Unicode calls them letters or marks.
FILLERS = re.compile("(HALFWIDTH )?HANGUL .*FILLER|.*VARIATION SELECTOR|COMBINING GRAPHEME JOINER|KHMER VOWEL INHERENT")
#: How the names of letters and digits of scripts without blanks begin.
SCRIPTS = re.compile(
    "(HALFWIDTH )?(KATAKANA|HANGUL)|CJK (UNIFIED|COMPATIBILITY) IDEOGRAPH|HIRAGANA|HENTAIGANA|THAI|LAO|KHMER|MYANMAR"
    "|IDEOGRAPHIC (ITERATION|CLOSING|NUMBER ZERO)|VERTICAL (KANA|IDEOGRAPHIC)|MASU MARK"
)


def those_of(characters: str) -> set[str]:
    return set(re.findall(f"[{characters}]", "".join(EVERY)))


def named(pattern: re.Pattern[str]) -> set[str]:
    return {char for char in EVERY if pattern.match(unicodedata.name(char, ""))}


def of_category(*kinds: str) -> set[str]:
    return {char for char in EVERY if unicodedata.category(char).startswith(kinds)}


def test_ignorable_characters_are_the_formats_and_fillers_of_unicode() -> None:
    unshown = {char for char in of_category("Cf") if not SHOWN.match(char)} | named(FILLERS)
    assert unshown - those_of(IGNORABLE) == set()
    assert those_of(IGNORABLE) - unshown - of_category("Cn") == set()


def test_characters_that_shape_others_are_ignorable_joiners_and_variation_selectors() -> None:
    selectors = re.compile(".*VARIATION SELECTOR|ZERO WIDTH (NON-)?JOINER")
    assert those_of(SHAPING) == named(selectors)
    assert those_of(SHAPING) <= those_of(IGNORABLE)


def test_unspaced_scripts_are_told_by_the_names_of_their_letters() -> None:
    letters = of_category("L", "N")
    assert {*map(ascii, (named(SCRIPTS) & letters) - those_of(UNSPACED + IGNORABLE))} == set()
    assert {*map(ascii, (those_of(UNSPACED) & letters) - named(SCRIPTS))} == set()
