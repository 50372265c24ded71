"""Time phrases in German, said in English so that the same table reads them: gestern, am 3. Februar, vor zwei Tagen."""

from __future__ import annotations

import re

_WORDS = {
    "heute": "today",
    "gestern": "yesterday",
    "vorgestern": "day before yesterday",
    "januar": "january",
    "februar": "february",
    "märz": "march",
    "mai": "may",
    "juni": "june",
    "juli": "july",
    "oktober": "october",
    "dezember": "december",
    "montag": "monday",
    "dienstag": "tuesday",
    "mittwoch": "wednesday",
    "donnerstag": "thursday",
    "freitag": "friday",
    "samstag": "saturday",
    "sonntag": "sunday",
    "woche": "week",
    "wochenende": "weekend",
    "vormittag": "morning",
    "nachmittag": "afternoon",
    "abend": "evening",
    "nacht": "night",
    "stunde": "hour",
    "seit": "since",
    "bis": "until",
    "vom": "from",
    "anfang": "early",
    "mitte": "mid",
    "ende": "late",
    "monat": "month",
    "jahr": "year",
    "ein": "one",
    "einem": "one",
    "einer": "one",
    "zwei": "two",
    "drei": "three",
    "vier": "four",
    "fünf": "five",
    "sechs": "six",
}
_UNITS = {"stund": "hours", "tag": "days", "woch": "weeks", "monat": "months", "jahr": "years"}
_TELLING = re.compile(
    r"gestern|heute|woche|monat|jahr|tag\b|tagen\b|januar|februar|märz|\bmai\b|juni|juli|oktober|dezember|mittwoch"
    r"|\bkw |^(?:am|im|seit|bis|vom|vor|anfang|mitte) |wochenende|stunde"
)
_AGO = re.compile(r"vor (\w+) (stund|tag|woch|monat|jahr)(?:e|en|n)?\b")
_LAST = re.compile(r"\b(?:letzte[nrs]?|vorige[nrs]?) (?=woche|monat|jahr|\w+tag|mittwoch|nacht)")
_THIS = re.compile(r"\bdiese[nrs]? (?=woche|monat|jahr)")
_WORD = re.compile(r"[a-zäöüß]+")


def in_english(text: str) -> str:
    """A phrase in small letters with its German words, if it has any, said in English."""
    if not _TELLING.search(text):
        return text
    text = re.sub(r"\b(heute|gestern|vorgestern|\w+tag|mittwoch) (?:morgen|früh)\b", r"\1 morning", text)
    text = re.sub(r"^am (?=wochenende)", "over ", text)
    text = re.sub(r"^am (\d\d?)\.(\d\d?)\.?$", _with_zeros, text)
    text = re.sub(r"^am (?=\d|\w+tag\b|mittwoch)", "on ", re.sub(r"^im ", "in ", text))
    text = re.sub(r"(?<=\d)\.(?= [a-zä])", "", re.sub(r"\bkw (?=\d)", "week ", text))
    text = _AGO.sub(lambda match: f"{match[1]} {_UNITS[match[2]]} ago", text)
    text = _THIS.sub("this ", _LAST.sub("last ", text))
    return _WORD.sub(lambda match: _WORDS.get(match[0], match[0]), text)


def _with_zeros(match: re.Match[str]) -> str:
    """A day and its month, which with two digits each are not a version."""
    return f"on {match[1]:0>2}.{match[2]:0>2}"
