"""What a question asks for, ready to be looked for in texts: its words, which of them belong together, whose words
are meant.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise

from mcp_memory.domain.stems import beginning, forms, root
from mcp_memory.domain.terms import CHUNK, SHORTEST_COMMIT, Term, compound_pattern, meaning, quoted_in, terms_of
from mcp_memory.domain.text import STOP_WORDS, Memo, has_unspaced_script, words
from mcp_memory.lexicon import words as listed

_TOLD = re.compile(
    r"\b(?:you (?:had |have |also |just )?(?:told|said|mentioned|suggested|recommended|gave|wrote|provided|listed"
    r"|described|explained|created|shared|advised|proposed)|(?:did|have|had) you|your (?:suggestion|recommendation|list"
    r"|advice|answer|reply)s?|remind me|our (?:previous|last|earlier|past) (?:chat|conversation|discussion))\b",
    re.I,
)
_ME = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.I)
_US = re.compile(r"\b(?:we|us|our|ours|ourselves)\b", re.I)
_GATHERS = re.compile(
    r"\b(?:how many|total|combined|altogether|in all|order|between|each|both|compared?|difference|most)\b"
    r"|\bfirst\b.*\bor\b|\bhow much\b.*\b(?:more|less|all)\b",
    re.I | re.S,
)
#: How a question is put, whatever it asks for.
_ASKING = re.compile(
    r"\b(?:(?:can|could|would|will) you (?:please |kindly |just )*)?(?:remind|tell|show) (?:me|us)\b"
    r"|\b(?:can|could|would|do) you (?:please |kindly |still |happen to )*(?:remember|recall|know|find|check|look up)\b"
    r"|\b(?:when|how long ago|(?:which|what) (?:day|date|week|month)) did (?:we|i|you) (?:(?:last|first|actually) )?"
    r"(?:touch|work(?:ed)? on|talk(?:ed)? about|discuss|mention|look(?:ed)? at|deal with)\b"
    r"|\b(?:which|what) (?:day|date|week|month) (?=(?:did|was|were) (?:we|i|you|it|the|this|that)\b)"
    r"|\bi(?: was|['’]m| am) (?:just |also )*wondering(?: if| whether)?\b"
    r"|\b(?:if )?i (?:forgot|remember(?: correctly)?|recall(?: correctly)?|(?:can(?:no|['’])|don['’])t remember)\b",
    re.I,
)
#: What holds by now, or was said last, is asked for.
_NEWEST = re.compile(
    r"\b(?:latest|newest|most recent(?:ly)?|current(?:ly)?|now|nowadays|these days|at the moment|at present|last time"
    r"|so far|by now|up[- ]to[- ]date|(?:did|have|had) (?:we|i|you|he|she|they) last)\b",
    re.I,
)
#: What was before is asked for as well, so that the newest alone is no answer.
_OLDER = re.compile(
    r"\b(?:before|previous(?:ly)?|earl(?:ier|iest)|order|compared?|original(?:ly)?|first|since|ago)\b", re.I
)
#: A thing, a name or a number is asked for: tools often print such answers, while reasons are given by people.
_WHAT = re.compile(r"\b(?:what|which|where|whose|how (?:many|much|long|often|old|far|big))\b", re.I)
#: What kind of answer is asked for, and what such an answer looks like in lower case, in which it is found much faster.
_CUES = (
    (
        re.compile(
            r"\bhow (?:many|much|long|often|old|far|big)\b"
            r"|\b(?:what (?:time|price)|number of|total|percentage|average|cost)\b",
            re.I,
        ),
        re.compile(
            r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|dozen|half|twice|once|first|second|third)\b"
        ),
    ),
    (
        re.compile(
            r"\bwhen (?:did|do|does|was|were|is|are|will|has|have|had)\b"
            r"|\b(?:what|which) (?:date|day|week|month|year)\b"
            r"|\bhow (?:long|many (?:days|weeks|months|years))\b|\b(?:first|order|earliest|ago)\b",
            re.I,
        ),
        re.compile(
            r"\b(?:today|yesterday|tomorrow|tonight|last|ago|weeks?|months?|recently|just"
            r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september"
            r"|october|november|december)\b"
        ),
    ),
    (
        re.compile(r"\bwhy (?:did|do|are|were|was) we\b|\b(?:decided?|decisions?|rationale|agreed)\b", re.I),
        re.compile(r"\b(?:because|so that|instead of|rather than|decisions?|decided?|chose|agreed|let['’]?s)\b"),
    ),
    (
        _ME,
        # It starts with the letter and looks back from there: a letter is found fast, the start of a word is not.
        re.compile(r"i(?<!\wi)(?:['’]ve| have| had| was| just| recently| also| already| bought| got| went| \w+ed)\b"),
    ),
)

#: What looks like code: a sign that no sentence has, signs inside words, camelCase, a flag, a name like .NET.
_CODE = re.compile(r"[^\w\s'’.,;:?!()\"“”…–—-]|_|\w[.:/\\]\w|[a-z0-9][A-Z]|^--?\w|^\.\w")
#: No question holds any of it without one of these; most hold none.
_SIGNS = re.compile(r"[^\w\s'’.,;:?!()…–—-]|_|\w[.:/\\]\w|[a-z0-9][A-Z]|-\w|\.\w|['‘]\w")
_CLOSING = ".,;:?!)]}>\"'“”`"
#: How many such pieces are looked for, and what is taken for a pasted line: so many blanks, no more characters.
_EXACT, _PASTED, _LINE = 6, 3, 300
#: A word that stands in no more documents is hardly known: it may have been told by another one.
_HARDLY = 3

#: Where each unit stands in a text, in order; those that do not are left out.
Places = dict[int, list[int]]


@dataclass(frozen=True, slots=True)
class Question:
    """`pairs` are numbers of units that stood side by side, which counts where they do so again.

    `roles` says how much a word counts by who said it: what I did is in my words, what you told me in yours. `cues` are
    what the answer should hold beside the words, in lower case: a number, a time, something done.
    """

    terms: tuple[Term, ...]
    units: tuple[Unit, ...]
    pairs: tuple[tuple[int, int], ...]
    roles: dict[str, float]
    cues: tuple[re.Pattern[str], ...]
    #: Which unit each term is sought by; terms that are forms of one word, or stand for each other, share it.
    unit_of: tuple[int, ...]
    #: Whose words are meant, if the question tells.
    speaker: str
    #: Whether the answer is put together from several places: a count, a sum, an order, a comparison.
    gathers: bool
    #: Whether what was said last is asked for, so that of what fits the newest comes first.
    newest: bool
    #: What in the question looks like code or is quoted, as it is written there, in lower case.
    exact: tuple[re.Pattern[str], ...] = ()
    #: Words that mean nearly the same as those that are hardly known.
    alike: tuple[Term, ...] = ()

    @property
    def sought(self) -> list[Term]:
        """The terms and all that may stand for them, each once."""
        sought = [*self.alike, *(each for term in self.terms for each in (term, *term.others))]
        return list({term.match: term for term in sought}.values())

    def widened(self, frequencies: Mapping[str, int]) -> Question:
        """The same, in which a word that is hardly known may also be matched by those that mean nearly the same."""
        roots = {each.root for unit in self.units for each in (unit, *unit.others)}
        units, found = list(self.units), list[Term]()
        for term, number in zip(self.terms, self.unit_of, strict=True):
            unit = self.units[number]
            if unit.match != term.match or _known(unit, frequencies) > _HARDLY:
                continue
            alike = [(each, one) for each in meaning(term) if (one := _unit(each)).root not in roots]
            units[number] = replace(unit, alike=tuple(one for _, one in alike))
            found += [each for each, _ in alike]
        return replace(self, units=tuple(units), alike=tuple(found)) if found else self

    def places(self, texts: Sequence[str]) -> list[Places]:
        """For each text, where each unit stands, in whatever form."""
        found = []
        for own, others, _ in self.places_by_form(texts):
            both = {unit: sorted({*own.get(unit, ()), *each}) for unit, each in others.items()}
            found.append({**own, **both})
        return found

    def places_by_form(self, texts: Sequence[str]) -> list[tuple[Places, Places, Places]]:
        """For each text, where each unit stands as it was asked for, where something else stands for it, and where
        a word that means nearly the same does.
        """
        row = Row(texts)
        own: list[Places] = [{} for _ in texts]
        others: list[Places] = [{} for _ in texts]
        alike: list[Places] = [{} for _ in texts]
        for number, unit in enumerate(self.units):
            row.gather(unit, number, own)
            for other in unit.others:
                row.gather(other, number, others)
            for other in unit.alike:
                row.gather(other, number, alike)
        return list(zip(own, others, alike, strict=True))

    def holds(self, text: str) -> list[bool]:
        """Which of the terms stand in a text: a word in any of its forms, an identifier however it is written."""
        row = Row([text])
        here = [row.holds(unit) for unit in self.units]
        return [here[number] for number in self.unit_of]

    def told(self, text: str, units: Collection[int] | None = None) -> list[bool]:
        """Which of the terms a text holds: as `holds` says or, if known, by its `units`; ends of names too."""
        here = self.holds(text) if units is None else [unit in units for unit in self.unit_of]
        return [found or ends_acronym(self.units[unit], text) for unit, found in zip(self.unit_of, here, strict=True)]

    def held(self, texts: Sequence[str]) -> list[list[bool]]:
        """The same of several texts, which are looked through together."""
        return [[number in here for number in self.unit_of] for here in self.places(texts)]


def _known(unit: Unit, frequencies: Mapping[str, int]) -> int:
    """In how many documents a unit stands, or what may stand for it."""
    return sum(frequencies.get(each.match, 0) for each in (unit, *unit.others))


@lru_cache(maxsize=16)
def question_of(asked: str) -> Question:
    """What a text asks for. Several parts of an answer ask this of the same few texts."""
    terms = terms_of(_ASKING.sub(" ", asked)) or terms_of(asked)
    units, unit_of = _units_of(terms)
    return Question(
        terms=tuple(terms),
        units=units,
        pairs=_pairs(terms, units, unit_of),
        roles=_roles(asked),
        cues=tuple(answer for wanted, answer in _CUES if wanted.search(asked)),
        unit_of=unit_of,
        speaker=_speaker(asked),
        gathers=bool(_GATHERS.search(asked)),
        newest=bool(_NEWEST.search(asked)) and not _OLDER.search(asked),
        exact=_exact(asked),
    )


def asks_for_anything(text: str) -> bool:
    """Whether a text names no topic, so that only a time or a place tells what is asked for."""
    return all(word in STOP_WORDS or word in listed("no_topic") for word in words(text))


def _units_of(terms: Sequence[Term]) -> tuple[tuple[Unit, ...], tuple[int, ...]]:
    """The units by which terms are sought, and the number of each term's."""
    units: list[Unit] = []
    numbers: dict[str, int] = {}
    unit_of: list[int] = []
    for term in terms:
        unit = _unit(term)
        if unit.root not in numbers:
            numbers[unit.root] = len(units)
            for other in unit.others:
                numbers.setdefault(other.root, len(units))
            units.append(unit)
        unit_of.append(numbers[unit.root])
    return tuple(units), tuple(unit_of)


def _pairs(terms: Sequence[Term], units: Sequence[Unit], unit_of: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The units of words that stand side by side; an identifier is not a word beside others."""
    each = zip(terms, unit_of, strict=True)
    words = [number for term, number in each if term.compound or units[number].pattern is None]
    return tuple(sorted({(first, second) for first, second in pairwise(words) if first != second}))


def _unit(term: Term) -> Unit:
    words = [folded(word) for word in term.words]
    if term.compound:
        pattern = compound_pattern(words[0], words[1])
        return Unit(" ".join(words), (words[0].removesuffix("e"),), pattern, term.weight, term.match)
    if len(words) > 1 or has_unspaced_script(words[0]):
        # However it is written: refreshToken, refresh_token, "refresh token". But v1.2.3 is not in v1.2.30.
        first, last = "(?<![0-9])" * words[0][0].isdigit(), "(?![0-9])" * words[-1][-1].isdigit()
        inner = rf"[\W_]{{0,{APART}}}".join(re.escape(word) for word in words)
        pattern = re.compile(first + inner + last)
        return Unit(" ".join(words), (words[0],), pattern, term.weight, term.match)
    if term.prefix:
        return Unit(words[0], (words[0][:SHORTEST_COMMIT],), _beginnings(words[0]), term.weight, term.match)
    starts = tuple(dict.fromkeys(beginning(form) for form in forms(words[0])))
    others = tuple(_unit(other) for other in term.others)
    return Unit(root(words[0]), starts, None, term.weight, term.match, others)


def _beginnings(name: str) -> re.Pattern[str]:
    """The name of a commit, or as much of it as someone wrote, or a longer one that begins so."""
    rest = "".join(f"(?:{letter}" for letter in name[SHORTEST_COMMIT:])
    ends = ")?" * len(name[SHORTEST_COMMIT:])
    return re.compile(rf"(?<![^\W_]){name[:SHORTEST_COMMIT]}{rest}[0-9a-f]*{ends}(?![^\W_])")


def _roles(asked: str) -> dict[str, float]:
    others = {"tool": 0.6 if _WHAT.search(asked) else 0.45, "system": 0.5}
    if _TOLD.search(asked):
        return {"user": 1.0, "assistant": 1.3, **others}
    user = 2.6 if _ME.search(asked) else 1.3 if _US.search(asked) else 1.1
    return {"user": user, "assistant": 1.0, **others}


def _exact(asked: str) -> tuple[re.Pattern[str], ...]:
    """What is kept as it is written; of a line that holds such a thing, as one that is pasted, the whole line, too."""
    if not _SIGNS.search(asked):
        return ()
    found = [written for chunk in CHUNK.findall(asked) if (written := _as_written(chunk))]
    if found and len(asked) <= _LINE and asked.count(" ") >= _PASTED and not asked.rstrip().endswith("?"):
        found.append(asked.strip().rstrip(_CLOSING))
    return tuple(_alone(folded(written)) for written in dict.fromkeys(found[:_EXACT]))


def _as_written(chunk: str) -> str:
    """A piece of a question that looks like code or is quoted, without the marks of the sentence around it."""
    if quoted := quoted_in(chunk):
        return quoted
    chunk = chunk.strip("\"'“”`").lstrip("([{<").rstrip(_CLOSING)
    return chunk if _CODE.search(chunk) and not has_unspaced_script(chunk) else ""


def _alone(written: str) -> re.Pattern[str]:
    """Where it stands by itself: v1.2.3 does not stand in v1.2.30, but C++ does in C++20."""
    before, after = r"(?<!\w)" * written[0].isalnum(), r"(?!\w)" * written[-1].isalnum()
    return re.compile(before + re.escape(written) + after)


def _speaker(asked: str) -> str:
    return "assistant" if _TOLD.search(asked) else "user" if _ME.search(asked) else ""


_WORD = re.compile(r"[^\W_]*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_AFTER_CAPITALS = re.compile(r"(?<=[A-Z])[A-Z][a-z]+")
_ASCII = re.compile("[\x00-\x7f]+")
_ACCENT = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_LATIN = {
    chr(code): base
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    if len(base := unicodedata.normalize("NFKD", chr(code))[0].lower()) == 1
}
#: So many characters, none of them a letter, may stand between the words of an identifier.
APART = 3
#: More than that, so that nothing is found that begins in one text and ends in the next.
_BETWEEN = "\n" * (APART + 1)


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing to look for: a word, by what its forms begin with, or a `pattern` that is sought as it stands.

    `others` are what may stand for it: the short form of a long word, or the other way round. `alike` are words that
    mean nearly the same, and tell less.
    """

    root: str
    starts: tuple[str, ...]
    pattern: re.Pattern[str] | None
    weight: float
    match: str
    others: tuple[Unit, ...] = ()
    alike: tuple[Unit, ...] = ()


class Row:
    """Texts laid end to end: what is sought in all of them is found in one go, which is several times as fast."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._text = _BETWEEN.join(("", *texts))
        self._low = _BETWEEN.join(("", *map(folded, texts)))
        self._begins = list(accumulate((len(text) + len(_BETWEEN) for text in texts[:-1]), initial=len(_BETWEEN)))

    def gather(self, unit: Unit, number: int, found: Sequence[dict[int, list[int]]]) -> None:
        """Add the places where a unit stands, in order, to what was `found` in each text, under this number."""
        begins = self._begins
        for place in _places(unit, self._text, self._low):
            text = bisect_right(begins, place) - 1
            here = found[text]
            if number in here:
                here[number].append(place - begins[text])
            else:
                here[number] = [place - begins[text]]

    def holds(self, unit: Unit) -> bool:
        """Whether a unit, or what may stand for it, is in any of the texts."""
        return any(_places(each, self._text, self._low, most=1) for each in (unit, *unit.others))


def folded(text: str) -> str:
    """Lower case without accents, each character in its place."""
    if text.isascii():
        return text.lower()
    rest = _ASCII.sub("", text)
    if rest.lower() == rest and not _ACCENT.search(rest):
        # Marks and signs only, as in most texts; the letters are then lowered several times as fast.
        return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    low = lowered(text)
    return low if low.isascii() else _ACCENT.sub(lambda match: _LATIN.get(match[0], match[0]), low)


def lowered(text: str) -> str:
    """Lower case, each character in its place: a few grow when lowered, and are left as they are."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def _places(unit: Unit, text: str, low: str, most: int = sys.maxsize) -> list[int]:
    if unit.pattern:
        return _as_it_stands(unit.pattern, unit.starts[0], low, most)
    found = [_words(unit.root, start, text, low, most) for start in unit.starts]
    return found[0] if len(found) == 1 else sorted({place for each in found for place in each})


def _as_it_stands(pattern: re.Pattern[str], start: str, low: str, most: int) -> list[int]:
    """Where a pattern that begins so matches: its beginning is found much faster than the pattern."""
    found: list[int] = []
    place = low.find(start)
    while place >= 0 and len(found) < most:
        match = pattern.match(low, place)
        if match:
            found.append(place)
        place = low.find(start, match.end() if match else place + 1)
    return found


def _words(wanted: str, start: str, text: str, low: str, most: int) -> list[int]:
    """Where a form of a word begins: at the start of a word, or inside camelCase."""
    found: list[int] = []
    find, word_at = low.find, _WORD.match
    place = find(start)
    while place >= 0:
        if not low[place - 1].isalnum() or (text[place].isupper() and not text[place - 1].isupper()):
            word = word_at(low, place)[0]  # type: ignore[index]  # it matches anywhere
            if root(word) == wanted or _is_part(wanted, text[place : place + len(word)], word):
                found.append(place)
                if len(found) == most:
                    break
        place = find(start, place + 1)
    return found


def ends_acronym(unit: Unit, text: str) -> bool:
    """Whether a word stands in a text right after capitals, as Server does in HTTPServer.

    Where texts are weighed it does not count there: such names stand in much that says little of the matter.
    """
    for start in unit.starts if unit.pattern is None else ():
        place = text.find(start.capitalize())
        while place >= 0:
            word = _AFTER_CAPITALS.match(text, place)
            if word and root(word[0].lower()) == unit.root:
                return True
            place = text.find(start.capitalize(), place + 1)
    return False


def _is_part(wanted: str, word: str, low: str) -> bool:
    """Whether the first part of a word in camelCase is a form of the wanted one."""
    if word[1:] == low[1:]:
        return False
    return (_FIRST[word] if len(word) < _LONG else _first(word)) == wanted


def _first(word: str) -> str:
    """The root of the first part of a word in camelCase; nothing if it is all one."""
    part = _CAMEL.split(word, maxsplit=1)[0]
    return root(folded(part)) if len(part) < len(word) else ""


#: A project's identifiers come back all the time; what is longer than any of them is not kept.
_FIRST, _LONG = Memo(_first, 1 << 13), 80
