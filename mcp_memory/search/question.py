"""What is asked, and where its words stand in texts: a word in any form, an identifier however it is written."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from typing import Literal

from mcp_memory.domain.terms import (
    CHUNK,
    IDENTIFIER,
    SHORTEST_COMMIT,
    TOKEN,
    Term,
    Within,
    compound_of,
    compound_term,
    quoted_in,
    terms_of,
)
from mcp_memory.domain.text import STOP_WORDS, Memo, beginning, forms, has_unspaced_script, root, words
from mcp_memory.domain.toc import Level, Scope
from mcp_memory.lexicon import lines, sections
from mcp_memory.lexicon import words as listed
from mcp_memory.times.resolve import TimeRange

#: Which end of a time is asked for, if either.
Order = Literal["", "first", "last"]
#: The kinds of nodes, from segments up, and of all that is found.
LEVELS = tuple(level.label for level in reversed(Level))
KINDS = ("event", "grip", *LEVELS)


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for, where, and which part of the list to give.

    What was said outside of `when` is left out; what was said within `favoured` comes before its equals. With
    `diverse`, hits are spread over sessions. `order` says which end of a time is asked for, if nothing else is.
    """

    scope: Scope
    text: str
    when: TimeRange | None = None
    favoured: TimeRange | None = None
    kind: str | None = None
    limit: int = 10
    offset: int = 0
    diverse: bool = False
    order: Order = ""

    @property
    def end(self) -> int:
        """Where the wanted part of the list ends."""
        return self.offset + self.limit

    def within(self, time: TimeRange | None) -> Within:
        """The project that is asked about, in this time."""
        project = self.scope.project
        return Within(project, time.start_ms, time.end_ms) if time else Within(project)


def _wording(name: str, flags: re.RegexFlag = re.I | re.S, more: str = "") -> re.Pattern[str]:
    return re.compile(rf"{more}\b(?:{'|'.join(sections('questions')[name])})\b", flags)


_TOLD, _ME, _US = (_wording(name) for name in ("told", "me", "us"))
_SETTLES = _wording("settles")
_GATHERS, _ASKING, _NEWEST, _OLDER = (_wording(name) for name in ("gathers", "asking", "newest", "older"))
#: What kind of answer is asked for, and what such an answer looks like in lower case, in which it is found much faster.
_CUES = (
    (_wording("asks_number"), _wording("number", re.NOFLAG, r"\d|")),
    (_wording("asks_time"), _wording("time", re.NOFLAG)),
    (_wording("asks_reason"), _wording("reason", re.NOFLAG)),
    # It starts with the letter and looks back from there: a letter is found fast, the start of a word is not.
    (
        _ME,
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
#: How many words in a row may spell out an identifier, and what ends such a row.
_IN_A_ROW, _PAUSE = (3, 4, 5), re.compile(r"[.,;:?!()]+(?:\s|$)")
#: A word that stands in no more documents, or in no more than one of so many, may also have been told by another one.
_HARDLY, _SELDOM = 3, 25

#: Where each unit stands in a text, in order; those that do not are left out.
Places = dict[int, list[int]]


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing to look for: a word, by what its forms begin with, or a `pattern` that is sought as it stands.

    `alike` are words that mean nearly the same, and tell less.
    """

    root: str
    starts: tuple[str, ...]
    pattern: re.Pattern[str] | None
    weight: float
    match: str
    alike: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """`pairs` are numbers of units that stood side by side, which counts where they do so again.

    `cues` are what the answer should hold beside the words, in lower case: a number, a time, something done.
    """

    terms: tuple[Term, ...]
    units: tuple[Unit, ...]
    pairs: tuple[tuple[int, int], ...]
    cues: tuple[re.Pattern[str], ...]
    #: Which unit each term is sought by; terms that are forms of one word share it.
    unit_of: tuple[int, ...]
    #: Whose words are meant, if the question tells: what I did is in my words, what you told me in yours.
    speaker: str
    #: Whether it asks about us.
    about_us: bool
    #: Whether the answer is put together from several places: a count, a sum, an order, a comparison.
    gathers: bool
    #: Whether what was said last is asked for, so that of what fits the newest comes first.
    newest: bool
    #: Whether it asks what was decided, why, or what holds now: then a contradiction comes before what it contradicts.
    settles: bool = False
    #: What in the question looks like code or is quoted, as it is written there, in lower case.
    exact: tuple[re.Pattern[str], ...] = ()
    #: Words that mean nearly the same as those that are not common.
    alike: tuple[Term, ...] = ()
    #: Identifiers that its words may spell out.
    spelled: tuple[Term, ...] = ()

    @property
    def sought(self) -> list[Term]:
        """The terms and all that may stand for them, each once."""
        return list({term.match: term for term in (*self.alike, *self.spelled, *self.terms)}.values())

    def widened(self, frequencies: Mapping[str, int], documents: int) -> Question:
        """The same, as memory knows its words.

        A word that is not common may also be matched by those that mean nearly the same. What spells out an identifier
        that there is asks for that, too.
        """
        roots, pairs = {unit.root for unit in self.units}, list(pairwise(term.words[0] for term in self.terms))
        units, found = list(self.units), list[Term]()
        for term, number in zip(self.terms, self.unit_of, strict=True):
            unit = self.units[number]
            if unit.match != term.match or frequencies.get(unit.match, 0) > max(_HARDLY, documents // _SELDOM):
                continue
            names = ["".join(term.words)] if len(term.words) == 1 or term.compound else []
            # Two words may have a short form together, as a pull request has.
            names += ["-".join(pair) for pair in pairs if len(term.words) == 1 and term.words[0] in pair]
            alike = [(each, one) for each in _meaning(term, names) if (one := _unit(each)).root not in roots]
            units[number] = replace(unit, alike=tuple(one for _, one in alike))
            found += [each for each, _ in alike]
        spelled = [term for term in self.spelled if frequencies.get(term.match)]
        units += [unit for term in spelled if (unit := _unit(term)).root not in roots]
        return replace(self, units=tuple(units), alike=tuple(found), spelled=tuple(spelled))

    def places(self, texts: Sequence[str]) -> list[Places]:
        """For each text, where each unit stands, in whatever form."""
        return [own for own, _ in self.places_by_form(texts)]

    def places_by_form(self, texts: Sequence[str]) -> list[tuple[Places, Places]]:
        """For each text, where each unit stands as it was asked for, and where a word that means nearly the same does.

        The texts are laid end to end: what is sought in all of them is found in one go, which is several times as fast.
        """
        text, low = _BETWEEN.join(("", *texts)), _BETWEEN.join(("", *map(folded, texts)))
        begins = list(accumulate((len(text) + len(_BETWEEN) for text in texts[:-1]), initial=len(_BETWEEN)))
        found: list[tuple[Places, Places]] = [({}, {}) for _ in texts]
        for number, unit in enumerate(self.units):
            for form, sought in enumerate(((unit,), unit.alike)):
                for place in [place for each in sought for place in _places(each, text, low)]:
                    at = bisect_right(begins, place) - 1
                    here = found[at][form]
                    if number in here:
                        here[number].append(place - begins[at])
                    else:
                        here[number] = [place - begins[at]]
        return found

    def held(self, texts: Sequence[str]) -> list[list[bool]]:
        """Which of the terms stand in each text: a word in any of its forms, an identifier however it is written."""
        return [[number in here for number in self.unit_of] for here in self.places(texts)]

    def told(self, text: str, units: Collection[int] | None = None) -> list[bool]:
        """Which of the terms a text holds: as `held` says or, if known, by its `units`; ends of names too."""
        here = self.held([text])[0] if units is None else [unit in units for unit in self.unit_of]
        return [found or _ends_acronym(self.units[unit], text) for unit, found in zip(self.unit_of, here, strict=True)]


@lru_cache(maxsize=16)
def question_of(asked: str) -> Question:
    """What a text asks for. Several parts of an answer ask this of the same few texts."""
    terms = terms_of(_ASKING.sub(" ", asked)) or terms_of(asked)
    units, numbers, unit_of = list[Unit](), dict[str, int](), list[int]()
    for term in terms:
        unit = _unit(term)
        if unit.root not in numbers:
            numbers[unit.root] = len(units)
            units.append(unit)
        unit_of.append(numbers[unit.root])
    # An identifier is not a word beside others.
    each = zip(terms, unit_of, strict=True)
    side_by_side = pairwise([number for term, number in each if term.compound or units[number].pattern is None])
    told, me = _TOLD.search(asked), _ME.search(asked)
    return Question(
        terms=tuple(terms),
        units=tuple(units),
        pairs=tuple(sorted({(first, second) for first, second in side_by_side if first != second})),
        cues=tuple(answer for wanted, answer in _CUES if wanted.search(asked)),
        unit_of=tuple(unit_of),
        speaker="assistant" if told else "user" if me else "",
        about_us=bool(_US.search(asked)),
        gathers=bool(_GATHERS.search(asked)),
        newest=bool(_NEWEST.search(asked)) and not _OLDER.search(asked),
        settles=bool(_SETTLES.search(asked) or _NEWEST.search(asked)),
        exact=_exact(asked),
        spelled=_spelled(asked),
    )


def asks_for_anything(text: str) -> bool:
    """Whether a text names no topic, so that only a time or a place tells what is asked for."""
    return all(word in STOP_WORDS or word in listed("no_topic") for word in words(text))


def _unit(term: Term) -> Unit:
    words = [folded(word) for word in term.words]
    if term.compound:
        # A verb with its particle, together or apart: login, logins, log in, logged in, log-in.
        verb, particle = words[0].removesuffix("e"), words[1]
        pattern = rf"(?<![^\W_]){verb}(?:[a-z]?(?:ed|ing)|e?s|e)?[\s_-]{{0,2}}{particle}s?(?![^\W_])"
        return Unit(" ".join(words), (verb,), re.compile(pattern), term.weight, term.match)
    if term.spelled:
        pattern = r"[_./:-]?".join(re.escape(word) for word in words)
        return Unit("".join(words), (words[0],), re.compile(pattern), term.weight, term.match)
    if len(words) > 1 or has_unspaced_script(words[0]):
        # However it is written: refreshToken, refresh_token, "refresh token". But v1.2.3 is not in v1.2.30.
        first, last = "(?<![0-9])" * words[0][0].isdigit(), "(?![0-9])" * words[-1][-1].isdigit()
        inner = rf"[\W_]{{0,{_APART}}}".join(re.escape(word) for word in words)
        return Unit(" ".join(words), (words[0],), re.compile(first + inner + last), term.weight, term.match)
    if term.prefix:
        # The name of a commit, or as much of it as someone wrote, or a longer one that begins so.
        begin, rest = words[0][:SHORTEST_COMMIT], words[0][SHORTEST_COMMIT:]
        inner = "".join(f"(?:{letter}" for letter in rest) + "[0-9a-f]*" + ")?" * len(rest)
        return Unit(words[0], (begin,), re.compile(rf"(?<![^\W_]){begin}{inner}(?![^\W_])"), term.weight, term.match)
    starts = dict.fromkeys(beginning(form) for form in forms(words[0]))
    # Where ss is written ß, a word begins with what stands before it.
    starts |= {f"{start[: found.start()]}ß": None for start in starts for found in re.finditer("ss", start)}
    return Unit(root(words[0]), tuple(starts), None, term.weight, term.match)


def _exact(asked: str) -> tuple[re.Pattern[str], ...]:
    """What is kept as it is written; of a line that holds such a thing, as one that is pasted, the whole line, too.

    It counts where it stands by itself: v1.2.3 does not stand in v1.2.30, but C++ does in C++20.
    """
    found: list[str] = []
    for chunk in CHUNK.findall(asked) if _SIGNS.search(asked) else ():
        bare = chunk.strip("\"'“”`").lstrip("([{<").rstrip(_CLOSING)
        if quoted := quoted_in(chunk):
            found.append(quoted)
        elif _CODE.search(bare) and not has_unspaced_script(bare):
            found.append(bare)
    if found and len(asked) <= _LINE and asked.count(" ") >= _PASTED and not asked.rstrip().endswith("?"):
        found.append(asked.strip().rstrip(_CLOSING))
    written = [folded(each) for each in dict.fromkeys(found[:_EXACT])]
    return tuple(
        re.compile(r"(?<!\w)" * each[0].isalnum() + re.escape(each) + r"(?!\w)" * each[-1].isalnum())
        for each in written
    )


def _spelled(asked: str) -> tuple[Term, ...]:
    """The identifiers that words in a row of a question may spell out: get main repo root is GetMainRepoRoot."""
    found: dict[str, Term] = {}
    for part in _PAUSE.split(asked[:_LINE]):
        words = [word.lower() for word in TOKEN.findall(part) if word.isascii()]
        for size in _IN_A_ROW:
            for row in (tuple(words[start : start + size]) for start in range(len(words) - size + 1)):
                found.setdefault("".join(row), Term(" ".join(row), row, IDENTIFIER, (("".join(row),),), spelled=True))
    return tuple(found.values())


_SHARED = listed("shared_stems")


def _meaning(term: Term, names: Sequence[str]) -> list[Term]:
    """The words that mean nearly the same as a term, which goes by these names."""
    found = []
    for other in dict.fromkeys(other for name in names for other in synonyms(name)):
        if parts := compound_of(other):
            found.append(compound_term(other, parts))
        else:
            # The long form of an abbreviation may be several words.
            row = tuple(other.split("-"))
            phrases = (row,) if len(row) > 1 else tuple((form,) for form in forms(other))
            found.append(Term(" ".join(row), row, term.weight, phrases))
    return found


def synonyms(word: str) -> tuple[str, ...]:
    """The words that may stand for a lower-case word, which may be in any of its forms."""
    single = word if word in _SHARED else word.removesuffix("s")
    found = _synonyms().get(_key(single) if single in _SHARED else root(word), ())
    return tuple(other for other in found if root(other) != root(word))


def _key(word: str) -> str:
    """By what a word of the table is asked for: its stem, or all of it if others have the same."""
    return f"={word}" if word in _SHARED else root(word)


@cache
def _synonyms() -> dict[str, tuple[str, ...]]:
    table: dict[str, dict[str, None]] = {}
    for line in lines("synonyms"):
        word, _, others = line.partition(":")
        for each in [word] if others else line.split():
            known = (other for other in (others or line).split() if other != each and other not in _SHARED)
            table.setdefault(_key(each), {}).update(dict.fromkeys(known))
    return {word: tuple(others) for word, others in table.items()}


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
_APART = 3
#: More than that, so that nothing is found that begins in one text and ends in the next.
_BETWEEN = "\n" * (_APART + 1)


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


def _places(unit: Unit, text: str, low: str) -> list[int]:
    """Where a unit stands in a text, which is also given in lower case."""
    if unit.pattern is None:
        found = [_words(unit.root, start, text, low) for start in unit.starts]
        return found[0] if len(found) == 1 else sorted({place for each in found for place in each})
    # How a pattern begins is found much faster than the pattern.
    places, start = list[int](), unit.starts[0]
    place = low.find(start)
    while place >= 0:
        match = unit.pattern.match(low, place)
        if match:
            places.append(place)
        place = low.find(start, match.end() if match else place + 1)
    return places


def _words(wanted: str, start: str, text: str, low: str) -> list[int]:
    """Where a form of a word begins: at the start of a word, or inside camelCase."""
    found: list[int] = []
    find, word_at = low.find, _WORD.match
    place = find(start)
    while place >= 0:
        if not low[place - 1].isalnum() or (text[place].isupper() and not text[place - 1].isupper()):
            word = word_at(low, place)[0]  # type: ignore[index]  # it matches anywhere
            whole = text[place : place + len(word)]
            # Of a word in camelCase the first part counts as well.
            if root(word) == wanted or (
                whole[1:] != word[1:] and (_FIRST[whole] if len(whole) < _LONG else _first(whole)) == wanted
            ):
                found.append(place)
        place = find(start, place + 1)
    return found


def _first(word: str) -> str:
    """The root of the first part of a word in camelCase; nothing if it is all one."""
    part = _CAMEL.split(word, maxsplit=1)[0]
    return root(folded(part)) if len(part) < len(word) else ""


#: A project's identifiers come back all the time; what is longer than any of them is not kept.
_FIRST, _LONG = Memo(_first, 1 << 13), 80


def _ends_acronym(unit: Unit, text: str) -> bool:
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
