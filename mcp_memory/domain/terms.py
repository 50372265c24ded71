"""What the search index sees of a text, how a question is put to it, and what it offers before that is ranked.

The tokenizer splits at everything that is not a letter or digit, so snake_case, kebab-case and paths fall apart by
themselves. What it cannot see is added: the words inside camelCase, and pairs of characters of unspaced scripts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain
from typing import NamedTuple

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.text import (
    STOP_WORDS,
    UNSPACED_RUN,
    Memo,
    bigrams,
    forms,
    has_unspaced_script,
    identifier_parts,
    root,
    with_double_s,
)
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
_SHARP_S = re.compile(r"[^\W_]*[ßẞ][^\W_]*")
#: What a question is made of: quoted strings and what stands between two blanks.
#: Single quotes only begin before a word and end after one, unlike the apostrophes of don't and users'.
CHUNK = re.compile(
    r"\"[^\"\n]{2,200}\"|`[^`\n]{2,200}`|[“„][^“”\n]{2,200}[“”]|«[^»\n]{2,200}»"
    r"|(?<!\w)'[^'\n]{2,200}'(?!\w)|(?<!\w)‘[^‘’\n]{2,200}’(?!\w)|\S+"
)
_OPENING, _CLOSING = "([{<\"'`“”„‘«*_", ".,;:?!)]}>\"'`“”’»*_"
_CLOSED_BY = {'"': '"', "`": "`", "'": "'", "‘": "’", "“": "”", "„": "“”", "«": "»"}
TOKEN = re.compile(r"[^\W_]+")
#: Tried only where a word begins, and without going back: an endless word is read once.
_HYPHENS = re.compile(r"[^\W_]+(?:-[^\W_]+)+")
_INNER = re.compile(r"(?<![^\W_])[^\W_]++[_./:\\-]++[^\W_]")
_ERROR = re.compile(r"error|fail|panic|exception|fatal|denied|undefined|cannot")

#: Figures and letters of a hexadecimal number, as commits are named; words have no figures, most numbers no letters.
_COMMIT = re.compile(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,40}")
SHORTEST_COMMIT = 7

TOOL_HEAD, TOOL_TAIL, TOOL_ERRORS = 24_000, 4_000, 2_000
MAX_TERMS = 24
#: How much an identifier counts as a whole, and each of its words; a hyphenated word as a whole, and a quotation.
IDENTIFIER, _PART, _HYPHENATED, _QUOTED = 1.0, 0.5, 0.5, 1.5
#: They say less about what was said than their rarity promises.
_WEAK = frozenset(root(word) for word in listed("weak_words"))


#: How much a word counts by the field of a document that it stands in, in the order of the index's columns.
WEIGHTS = {"head": 3.0, "user": 2.0, "assistant": 1.2, "tool": 0.6, "parts": 0.8}
#: The fields that hold what users and agents said, by which it is told how rare a word is.
SPOKEN = ("user", "assistant")


class Columns(NamedTuple):
    """The text of one document by field, in the order of the index's columns."""

    head: str = ""
    user: str = ""
    assistant: str = ""
    tool: str = ""
    parts: str = ""


@dataclass(frozen=True, slots=True)
class Term:
    """One thing asked for: how it was written, its words as the index knows them, and how much it weighs.

    It is found where any of its `phrases` stands: words in a row; with `prefix`, the first of them is how a word
    begins. `match` says the same as an expression of FTS5, and is the name by which the term is counted.
    """

    shown: str
    words: tuple[str, ...]
    weight: float
    phrases: tuple[tuple[str, ...], ...]
    prefix: bool = False
    #: Whether its words are a verb and its particle, which stands in any form of it.
    compound: bool = False
    #: Whether its words may be an identifier that was spelled out: written together or joined by signs, not by blanks.
    spelled: bool = False
    match: str = field(init=False, default="")

    def __post_init__(self) -> None:
        quoted = ['"' + " ".join(word.replace('"', "") for word in words) + '"' for words in self.phrases]
        quoted[0] += "*" * self.prefix
        object.__setattr__(self, "match", quoted[0] if len(quoted) == 1 else f"({' OR '.join(quoted)})")


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
    """The words inside camelCase identifiers, bigrams of unspaced scripts, and words with ss for ß, each once.

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
        parts += [" ".join(bigrams(run)) for run in UNSPACED_RUN.findall(text)]
    if "ß" in text or "ẞ" in text:
        parts += dict.fromkeys(map(with_double_s, _SHARP_S.findall(text)))
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
        low = chunk.lower()
        terms = _terms_of_chunk(chunk)
        # Brackets and quotes may stand around both words, but no sign between them.
        if parts := _ROOTS.get((root(before), low.rstrip(_CLOSING))):
            terms = [compound_term(f"{before} {low.rstrip(_CLOSING)}", parts), *terms]
        for term in terms:
            found.setdefault(term.match, term)
        before = low.lstrip(_OPENING)
        if len(found) >= MAX_TERMS * 4:
            break
    # Fillers and single letters are noise, unless there is nothing else.
    terms = [term for term in found.values() if len(term.words) > 1 or not _is_noise(term.words[0])]
    terms = terms or list(found.values())
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
    words = [word.lower() for word in TOKEN.findall(inner)]
    shown = inner.strip("\"'`.,;:?!()[]{}<>")
    if not words:
        return []
    if quoted and len(words) > 1:
        return [Term(inner, tuple(words), _QUOTED, (tuple(words),)), *map(_word, words)]
    if parts := compound_of("".join(words)):
        return [compound_term(shown, parts)]
    if not _INNER.search(inner) and not _CAMEL.search(inner):
        return [_word(word) for word in words]
    # An identifier or path is found as a whole or by its parts in a row, however it is written. Where figures follow
    # letters the index does not part them: utf8mb4 is one word.
    tokens = (identifier_parts(word) if _CAMEL.fullmatch(word) else [word.lower()] for word in TOKEN.findall(inner))
    words = list(chain.from_iterable(tokens))[:12]
    if len(words) < 2:
        return [_word(word) for word in words]
    hyphenated = _HYPHENS.fullmatch(shown) is not None and not _CAMEL.search(shown)
    whole, part = (_HYPHENATED, 1.0) if hyphenated else (IDENTIFIER, _PART)
    inside = [_word(word) for word in words if len(word) > 2 and word not in STOP_WORDS]
    # Its words would otherwise count twice where the whole stands.
    return [
        Term(shown, tuple(words), whole, (("".join(words),), tuple(words))),
        *(replace(term, weight=term.weight * part) for term in inside),
    ]


def _unspaced_terms(text: str) -> list[Term]:
    terms = []
    for run in UNSPACED_RUN.findall(text):
        pairs = bigrams(run)
        if len(run) == 1:
            terms.append(Term(run, (run,), 1.0, ((run,),), prefix=True))
        elif len(run) <= 4:
            terms.append(Term(run, (run,), 1.5, (tuple(pairs),)))
        else:
            terms += [Term(pair, (pair,), 0.5, ((pair,),)) for pair in dict.fromkeys(pairs)]
    rest = UNSPACED_RUN.sub(" ", text)
    return terms + [_word(word.lower()) for word in TOKEN.findall(rest)]


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


def compound_of(word: str) -> tuple[str, str] | None:
    """The verb and particle of a lower-case word, singular or plural, in which they are written together."""
    return _WHOLE.get(word) or _WHOLE.get(word.removesuffix("s"))


def compound_term(shown: str, parts: tuple[str, str]) -> Term:
    """A verb with its particle, found written together or apart."""
    return Term(shown, parts, 1.0, (("".join(parts),), parts), compound=True)


#: How many occurrences of terms one question may scan, beyond its rarest term: so many, or this share of all documents,
#: but of no more than those of a million, so that questions do not take longer and longer.
SCANNED, SHARE, LARGE = 40_000, 8, 1_000_000
#: Among so many of the best other words are looked for, where what was offered is said over and over.
DEEPEST = 5_000


@dataclass(frozen=True, slots=True)
class Within:
    """Where to look: in one project or all, in a time or at any. The end is not part of the time."""

    project: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def dated(self) -> bool:
        return self.start_ms is not None or self.end_ms is not None


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A document of the index: a node, or an event with the first grip that cites it and its segment."""

    document: Event | Node
    grip_id: str = ""
    segment_id: str = ""

    @property
    def event(self) -> Event | None:
        return self.document if isinstance(self.document, Event) else None

    @property
    def node(self) -> Node | None:
        return self.document if isinstance(self.document, Node) else None

    @property
    def project(self) -> str:
        return self.document.project

    @property
    def kind(self) -> str:
        return self.document.level.label if isinstance(self.document, Node) else "event"


class Message(NamedTuple):
    """An event as ranking sees it: no more than what is needed to weigh it. `number` is the store's own.

    `turn` is the number of the user's message that it follows or is; 0 if there is none.
    """

    number: int
    session: int
    timestamp_ms: int
    role: str
    text: str
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """What the index offers for a question.

    `messages` come best first; after the first `matched` of them come those that only stand beside one. `beside`
    names, for the best messages, those just before and after each. `frequencies` tells in how many of all `documents`
    users or agents say each term, by its expression, exact where it is rare; or else in how many it stands at all.
    """

    messages: tuple[Message, ...]
    matched: int
    beside: Mapping[int, tuple[int, ...]]
    frequencies: Mapping[str, int]
    documents: int

    def merged(self, other: Pool) -> Pool:
        """Both pools as one, each message once, with the other's frequencies."""
        matched = {each.number: each for pool in (self, other) for each in pool.messages[: pool.matched]}
        rest = {each.number: each for pool in (self, other) for each in pool.messages if each.number not in matched}
        messages = (*matched.values(), *rest.values())
        return Pool(messages, len(matched), {**self.beside, **other.beside}, other.frequencies, other.documents)


@dataclass(frozen=True, slots=True)
class Ranked:
    """What an index with files of its own found: the numbers of its documents, best first.

    Of all `documents` there are `counts` in which each term occurs, by its expression.
    """

    numbers: Sequence[int]
    counts: dict[str, int]
    documents: int


class Standing(Enum):
    """How an index with files of its own stands to the store."""

    CURRENT = "current"
    #: Something was added to the store since.
    BEHIND = "behind"
    #: Something was erased from the store since, and is still in the index.
    ERASED = "holds what was erased"
    #: There is none that could be used: none at all, a damaged one, or one of another store or version.
    UNUSABLE = "to be built"


@dataclass(frozen=True, slots=True)
class IndexDocument:
    """An event or a node to be found by its words, which are taken apart only where they are needed."""

    number: int
    at: int
    is_event: bool
    columns: Callable[[], Columns]


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """What is to be done to an index that stands so to the store, and the position that it then has reached.

    Of one that holds what was erased only the `kept` may stay. Of others the replaced documents are taken out, and the
    new ones put in; one that cannot be used is emptied before.
    """

    standing: Standing
    position: str
    documents: Sequence[IndexDocument] = ()
    replaced: Sequence[int] = ()
    kept: frozenset[int] = frozenset()


def scannable(terms: Sequence[Term], counts: Mapping[str, int], documents: int) -> list[Term]:
    """The rarer terms, as many as may be scanned among so many documents; always the rarest that occurs."""
    chosen: list[Term] = []
    scanned, most = 0, max(SCANNED, min(documents, LARGE) // SHARE)
    for term in sorted(terms, key=lambda term: counts[term.match]):
        count = counts[term.match]
        if count and (not chosen or scanned + count <= most):
            chosen.append(term)
            scanned += count
    return chosen
