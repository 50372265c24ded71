"""What the search index sees of a text, and how a question is put to it.

The tokenizer splits at everything that is not a letter or digit, so snake_case, kebab-case and paths fall apart by
themselves. What it cannot see is added: the words inside camelCase, and pairs of characters of unspaced scripts.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain

from mcp_memory.domain.stems import forms, root
from mcp_memory.domain.text import STOP_WORDS, Memo, bigrams, has_unspaced_script, identifier_parts
from mcp_memory.lexicon import lines
from mcp_memory.lexicon import words as listed

#: Possessive, because most words are not of this kind and should be left at the first letter that tells.
_CAMEL = re.compile(r"(?<![A-Za-z0-9])(?:[A-Z]*+[a-z0-9]++[A-Z]|[A-Z]{2,}+[a-z])[A-Za-z0-9]*+")
#: Every character by its kind: a, A and 0 for letters and digits, a space for all else.
_KINDS = bytes(
    ord("a" if chr(code).islower() else "A" if chr(code).isupper() else "0")
    if chr(code).isascii() and chr(code).isalnum()
    else ord(" ")
    for code in range(256)
)
_CHANGES = (b"aA", b"0A", b"AAa")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f]+"
)
#: What a question is made of: quoted strings and what stands between two blanks.
#: Single quotes only begin before a word and end after one, unlike the apostrophes of don't and users'.
CHUNK = re.compile(
    r"\"[^\"\n]{2,200}\"|`[^`\n]{2,200}`|[“„][^“”\n]{2,200}[“”]|«[^»\n]{2,200}»"
    r"|(?<!\w)'[^'\n]{2,200}'(?!\w)|(?<!\w)‘[^‘’\n]{2,200}’(?!\w)|\S+"
)
_CLOSED_BY = {'"': '"', "`": "`", "'": "'", "‘": "’", "“": "”", "„": "“”", "«": "»"}
_TOKEN = re.compile(r"[^\W_]+")
#: Tried only where a word begins, and without going back: an endless word is read once.
_INNER = re.compile(r"(?<![^\W_])[^\W_]++[_./:\\-]++[^\W_]")
_ERROR = re.compile(r"error|fail|panic|exception|fatal|denied|undefined|cannot")

#: Figures and letters of a hexadecimal number, as commits are named; words have no figures, most numbers no letters.
_COMMIT = re.compile(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,40}")
SHORTEST_COMMIT = 7

TOOL_HEAD, TOOL_TAIL, TOOL_ERRORS = 3_000, 1_500, 1_500
MAX_TERMS = 24
#: They say less about what was said than their rarity promises.
_WEAK = frozenset(root(word) for word in listed("weak_words"))


#: How much a word counts by the field of a document that it stands in, in the order of the index's columns.
WEIGHTS = {"head": 3.0, "user": 2.0, "assistant": 1.2, "tool": 0.6, "parts": 0.8}


@dataclass(frozen=True, slots=True)
class Columns:
    """The text of one document by field, in the order of the index's columns."""

    head: str = ""
    user: str = ""
    assistant: str = ""
    tool: str = ""
    parts: str = ""

    @property
    def values(self) -> tuple[str, str, str, str, str]:
        return self.head, self.user, self.assistant, self.tool, self.parts


@dataclass(frozen=True, slots=True)
class Term:
    """One thing asked for: how it was written, its words as the index knows them, and how much it weighs.

    It is found where any of its `phrases` stands: words in a row; with `prefix`, the first of them is how a word
    begins. `match` says the same as an expression of FTS5, and is the name by which the term is counted. `others` may
    stand for it: the short form of a long word, or the other way round.
    """

    shown: str
    words: tuple[str, ...]
    weight: float
    phrases: tuple[tuple[str, ...], ...]
    prefix: bool = False
    others: tuple[Term, ...] = ()
    #: Whether its words are a verb and its particle, which stands in any form of it.
    compound: bool = False
    match: str = field(init=False, default="")

    def __post_init__(self) -> None:
        quoted = ['"' + " ".join(word.replace('"', "") for word in words) + '"' for words in self.phrases]
        quoted[0] += "*" * self.prefix
        object.__setattr__(self, "match", quoted[0] if len(quoted) == 1 else f"({' OR '.join(quoted)})")

    def or_else(self, others: Sequence[tuple[str, ...]]) -> Term:
        """The term, or one of these rows of words in its place."""
        if not others:
            return self
        terms = (Term(" ".join(words), words, self.weight, (words,)) for words in others)
        return replace(self, others=(*self.others, *terms))


def event_columns(role: str, event_type: str, text: str) -> Columns:
    """The fields of an event; a long tool result counts by its head, its tail and its error lines."""
    if role == "user" or event_type == "note":
        return Columns(user=text, parts=hidden_parts(text))
    if role == "assistant":
        return Columns(assistant=text, parts=hidden_parts(text))
    shown = shorten_tool(text)
    return Columns(tool=shown, parts=hidden_parts(shown))


def node_columns(title: str, bullets: list[str], keywords: list[str]) -> Columns:
    head = " ".join([title, *keywords])
    body = "\n".join(bullets)
    return Columns(head=head, assistant=body, parts=hidden_parts(f"{head}\n{body}"))


def shorten_tool(text: str, head: int = TOOL_HEAD, tail: int = TOOL_TAIL, most: int = TOOL_ERRORS) -> str:
    """The head, the error lines and the tail of what a tool said, each at most so long."""
    if len(text) <= head + tail + most:
        return text
    middle, errors, size = text[head:-tail], list[str](), 0
    lower = middle.lower()
    # A few letters grow when lowered; then the places would not agree.
    lower = lower if len(lower) == len(middle) else middle
    # The word is looked for first, which most lines lack; of the line its beginning is kept.
    match = _ERROR.search(lower)
    while match:
        start, end = middle.rfind("\n", 0, match.start()) + 1, middle.find("\n", match.end())
        end = end if end >= 0 else len(middle)
        line = middle[start : min(end, start + 300)]
        size += len(line)
        if size > most:
            break
        errors.append(line)
        match = _ERROR.search(lower, end)
    return "\n".join([text[:head], *errors, text[-tail:]])


def hidden_parts(text: str) -> str:
    """The words inside camelCase identifiers, each identifier once, then the bigrams of unspaced scripts.

    What `_CAMEL` tells is told here by where the kind of letter changes: the text is looked at as a row of kinds, in
    which such a change is found three times as fast as by the expression.
    """
    kinds = text.encode("latin-1", "replace").translate(_KINDS)
    found: dict[str, None] = {}
    for change in _CHANGES:
        at = kinds.find(change)
        while at >= 0:
            end = kinds.find(b" ", at)
            end = end if end >= 0 else len(kinds)
            found[text[kinds.rfind(b" ", 0, at) + 1 : end]] = None
            at = kinds.find(change, end)
    parts = [_SPREAD[word] if len(word) < _LONG else _spread(word) for word in found]
    if has_unspaced_script(text):
        parts += [" ".join(bigrams(run)) for run in _UNSPACED.findall(text)]
    return " . ".join(parts)


def _spread(identifier: str) -> str:
    return " ".join(identifier_parts(identifier))


#: A project's identifiers come back all the time; what is longer than any of them is not kept.
_SPREAD, _LONG = Memo(_spread, 1 << 13), 80


def terms_of(query: str) -> list[Term]:
    """What a question asks for: any text gives terms, unless it holds no letter or digit at all."""
    found: dict[str, Term] = {}
    before = ""
    # Letters in one piece with their accents; one Turkish letter would come in two pieces when lowered.
    query = unicodedata.normalize("NFC", query[:20_000]).replace("İ", "I")
    for chunk in CHUNK.findall(query):
        low = chunk.lower().rstrip(".,;:?!)")
        terms = _terms_of_chunk(chunk)
        if parts := compound_in(before, low):
            terms = [_compound(f"{before} {low}", parts), *terms]
        for term in terms:
            found.setdefault(term.match, term)
        before = low
        if len(found) >= MAX_TERMS * 4:
            break
    # Fillers and single letters are noise, unless there is nothing else.
    terms = [term for term in found.values() if len(term.words) > 1 or not _is_noise(term.words[0])]
    terms = _abbreviated(terms or list(found.values()))
    if len(terms) <= MAX_TERMS:
        return terms
    telling = sorted(terms, key=lambda term: -term.weight * len(term.shown))[:MAX_TERMS]
    return [term for term in terms if term in telling]


def _is_noise(word: str) -> bool:
    return word in STOP_WORDS or (len(word) == 1 and word.isalpha())


def match_expression(terms: Sequence[Term]) -> str:
    return " OR ".join(term.match for term in terms)


def quoted_in(chunk: str) -> str:
    """What stands between the quotes of a piece of a question; nothing if it is not quoted."""
    return chunk[1:-1] if len(chunk) > 2 and chunk[-1] in _CLOSED_BY.get(chunk[0], ()) else ""


def _terms_of_chunk(chunk: str) -> list[Term]:
    quoted = quoted_in(chunk)
    inner = quoted or chunk
    if has_unspaced_script(inner):
        return _unspaced_terms(inner)
    words = [word.lower() for word in _TOKEN.findall(inner)]
    shown = inner.strip("\"'`.,;:?!()[]{}<>")
    if not words:
        return []
    if quoted and len(words) > 1:
        return [Term(inner, tuple(words), 1.5, (tuple(words),)), *map(_word, words)]
    if parts := compound_of("".join(words)):
        return [_compound(shown, parts)]
    if not _INNER.search(inner) and not _CAMEL.search(inner):
        return [term.or_else(_written(term.words[0])) for term in map(_word, words)]
    # An identifier or path is found as a whole or by its parts in a row, however it is written. Where figures follow
    # letters the index does not part them: utf8mb4 is one word.
    tokens = (identifier_parts(word) if _CAMEL.fullmatch(word) else [word.lower()] for word in _TOKEN.findall(inner))
    words = list(chain.from_iterable(tokens))[:12]
    if len(words) < 2:
        return [_word(word) for word in words]
    strong = Term(shown, tuple(words), 1.5, (("".join(words),), tuple(words)))
    return [strong, *(_word(word) for word in words if len(word) > 2 and word not in STOP_WORDS)]


def _unspaced_terms(text: str) -> list[Term]:
    terms = []
    for run in _UNSPACED.findall(text):
        pairs = bigrams(run)
        if len(run) == 1:
            terms.append(Term(run, (run,), 1.0, ((run,),), prefix=True))
        elif len(run) <= 4:
            terms.append(Term(run, (run,), 1.5, (tuple(pairs),)))
        else:
            terms += [Term(pair, (pair,), 0.5, ((pair,),)) for pair in dict.fromkeys(pairs)]
    rest = _UNSPACED.sub(" ", text)
    return terms + [_word(word.lower()) for word in _TOKEN.findall(rest)]


def _word(word: str) -> Term:
    """A word in all its forms; of the name of a commit any beginning of some length is as good as the whole."""
    weight = 0.5 if root(word) in _WEAK else 1.0
    if _COMMIT.fullmatch(word):
        shorter = tuple((word[:length],) for length in range(SHORTEST_COMMIT, len(word)))
        return Term(word, (word,), weight, ((word,), *shorter), prefix=True)
    return Term(word, (word,), weight, tuple((form,) for form in forms(word)))


_PARTS = [tuple(word.split("-")) for word in sorted(listed("compounds"))]
_WHOLE = {"".join(parts): (parts[0], parts[1]) for parts in _PARTS}
_ROOTS = {(root(parts[0]), parts[1]): (parts[0], parts[1]) for parts in _PARTS}

Compound = tuple[str, str]


def compound_of(word: str) -> Compound | None:
    """The verb and particle of a lower-case word, singular or plural, in which they are written together."""
    return _WHOLE.get(word) or _WHOLE.get(word.removesuffix("s"))


def compound_in(first: str, second: str) -> Compound | None:
    """The verb and particle of two lower-case words, the first of them in any form."""
    return _ROOTS.get((root(first), second))


def compound_pattern(verb: str, particle: str) -> re.Pattern[str]:
    """How they stand in a folded text: login, logins, log in, logged in, log-in."""
    start = verb.removesuffix("e")
    return re.compile(rf"(?<![^\W_]){start}(?:[a-z]?(?:ed|ing)|e?s|e)?[\s_-]{{0,2}}{particle}s?(?![^\W_])")


def _compound(shown: str, parts: Compound) -> Term:
    """A verb with its particle, found written together or apart."""
    return Term(shown, parts, 1.0, (("".join(parts),), parts), compound=True)


_BOTH_WAYS = [[tuple(form.split()) for form in line.split(" = ")] for line in lines("abbreviations") if ":" not in line]
_WRITTEN = {form[0]: group for group in _BOTH_WAYS for form in group if len(form) == 1}
_ONE_WAY = (line.split(": ") for line in lines("abbreviations") if ":" in line)
_WRITTEN |= {word: [(form,) for form in short.split(" = ")] for word, short in _ONE_WAY}


def _singular(word: str) -> str:
    if word in _WRITTEN or not word.endswith("s"):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") else word[:-1]


_SHORT = {tuple(map(_singular, form)): group[0] for group in _BOTH_WAYS for form in group if len(form) > 1}


def _written(word: str) -> list[tuple[str, ...]]:
    """The other ways to write a lower-case word, each as a row of words; none if it is neither short nor shortened."""
    plain = _singular(word)
    return [form for form in _WRITTEN.get(plain, ()) if form != (plain,)]


def _abbreviated(terms: list[Term]) -> list[Term]:
    """Where words of the question are a long form (pull request), its short form tells each of them."""
    plain = [_singular(" ".join(term.words)) for term in terms]
    short: dict[int, tuple[str, ...]] = {}
    for size in sorted({len(form) for form in _SHORT}):
        for start in range(len(plain) - size + 1):
            if form := _SHORT.get(tuple(plain[start : start + size])):
                short |= dict.fromkeys(range(start, start + size), form)
    return [term.or_else([short[place]]) if place in short else term for place, term in enumerate(terms)]


_SHARED = listed("shared_stems")


def meaning(term: Term) -> list[Term]:
    """The words that mean nearly the same as a term."""
    if len(term.words) > 1 and not term.compound:
        return []
    return [
        _compound(other, parts)
        if (parts := compound_of(other))
        else Term(other, (other,), term.weight, tuple((form,) for form in forms(other)))
        for other in synonyms("".join(term.words))
    ]


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


#: Shorter and longer words cannot be told by the rest of their letters.
_SHORTEST, _LONGEST = 4, 24


def slips(word: str) -> list[str]:
    """All words that are one slip of the finger away, a few hundred."""
    if not (_SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalnum()):
        return []
    word = word.lower()
    halves = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    swapped = [left + right[1] + right[0] + right[2:] for left, right in halves if len(right) > 1]
    shorter = [left + right[1:] for left, right in halves if right]
    changed = [left + letter + right[1:] for left, right in halves if right for letter in string.ascii_lowercase]
    longer = [left + letter + right for left, right in halves for letter in string.ascii_lowercase]
    return [each for each in dict.fromkeys([*swapped, *shorter, *changed, *longer]) if each != word]
