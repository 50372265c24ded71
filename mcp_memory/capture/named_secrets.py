"""Secrets told by the name before them: assignments in code, settings files, shells, JSON, headers and plain talk.

A name is looked for first, in the lower-cased text, and only where one stands is a regular expression tried: this
stays fast on megabytes, and linear on hostile text, since every match is bounded.
"""

from __future__ import annotations

import re

from mcp_memory.capture.bare_values import bare, is_set, is_shell
from mcp_memory.capture.foreign_names import IS, NAMES, UNSPACED_IS
from mcp_memory.capture.marks import replace_spans
from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.secret_entries import listed, name_of_list, paired, start_of_name
from mcp_memory.capture.secret_names import BASIC, Named, classify
from mcp_memory.capture.secret_tables import column
from mcp_memory.capture.secret_values import is_basic, is_literal, is_mixed, is_path, is_random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Span = tuple[int, int, str]
    Reader = Callable[[str, int], Sequence[Span]]

#: How a key is called that plain talk writes apart from what it is for: an `api key`.
_KEY = ("key", "Key", "KEY", "keys", "Keys", "KEYS")

#: Colours of a terminal, and the stars of bold text.
_DRESS = r"(?:\x1b\[[\d;]{0,20}m|\*\*){0,4}"
#: A sign that joins a name to its value, as it is or escaped for an address or a page. An annotated type may stand
#: between (`token: str = …`), or a default in brackets, an anchor or tag of YAML.
_SIGN = r""":=|=>|={1,3}|:[ \t]{0,4}[\w.\[\]<>|?&*]{1,40}[ \t]{1,4}=
            | (?:\[[^\]\r\n]{0,40}\])? [:：]
              (?: [ \t]{1,4} [|>] [+-]?\d? [ \t]{0,4} (?=\r?\n) | [ \t]{1,4} [&!] [\w!.:/-]{1,40} (?=[ \t]) )?
            | %3[ADad] | \\u003d | &\#61; | → | \|(?!\|)"""
#: A comma, a parenthesis or an operator joins only what is quoted; a bar, the cells of a table.
_OPERATORS = frozenset(("!=", "!==", "||", "??", "?:", "or"))
_BEFORE_QUOTE = r"(?: [ \t]{0,4} (?:[,(]|!={1,2}|\|\||\?[?:]) | [ \t]{1,4} or ) \s{0,40} (?=[\"'`])"


def _assignment(name: str, verb: str, bare: str, after: str = "") -> Callable[[], re.Pattern[str]]:
    """An expression for the rest of a name, its closing quote, what joins it to the value, and that: quoted, quoted
    inside a string or a page, or bare. `verb` is what joins them in talk, `bare` what an unquoted value is made of, and
    `after` what must follow where a mere space joins them."""
    return lazy(
        rf"""(?P<name>{name}) (?:(?:\\{{0,7}}["'`]|&quot;)\]?)? {_DRESS}
        (?P<join> [ \t]{{0,20}} (?: {_SIGN} ) \s{{0,40}}
                | {verb} | {_BEFORE_QUOTE} | [ \t]{{1,8}} {after} | > (?:<!\[CDATA\[)? | </key>\s{{0,40}}<string> )
        {_DRESS} [ \t]{{0,4}}
        (?: [bBrRuUfFL@$]{{0,2}} (?P<quote>\"{{3}}|'{{3}}|["'`]) (?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n]){{1,1024}})
          | (?:\\{{1,7}}["']|&quot;) (?P<escaped>(?:(?!\\{{1,7}}["']|&quot;)[^\r\n]){{1,1024}})
          | (?P<bare>{bare}{{1,256}}) )""",
        re.X | re.ASCII,
    )


_ASSIGNED = _assignment(
    r"[\w-]{2,60}(?![\w-])", r"[ \t]{1,4} (?:is|was|ist|est)(?:[ ]now)?:? [ \t]{1,4}", r"""[^\s"'`<>\\]"""
)
#: A name of another language, and what it is for: `senha do banco`. A value ends where letters of other scripts begin,
#: and after a mere space it must hold a letter and a digit.
_FOREIGN = _assignment(
    r"""[^\s:：="'`<>|,;(){}\[\]]{2,40} (?: [ ][^\s:：="'`<>|,;(){}\[\]]{1,20} ){0,3}?""",
    rf"(?: [ \t]{{1,4}} {IS}:? [ \t]{{1,4}} | {UNSPACED_IS}[:：]?[ ]? | [ ][—–-][ ] )",
    r"[!#-&(-;=?-\[\]^_a-~]",
    r"(?=[!-~]{0,40}[0-9])(?=[!-~]{0,40}[A-Za-z])",
)
#: Up to this length a text is looked through for names of other languages even if it holds no letter of theirs.
_SHORT = 400
#: What ends a name with no value behind it.
_NEVER_JOINS = frozenset(".)}]/+@#~^")
_ASCII = bytes(range(128))
_NAME = lazy(r"[\w-]{0,60}", re.ASCII)
#: What a plan of changes shows behind the old value.
_CHANGED = lazy(r"""["'] [ ] -> [ ] ["'] ([^"'\r\n]{1,1024})""", re.X)
#: What may go on behind the part of a value that an expression takes at most.
_REST = lazy(r"[\w+/=~-]*", re.ASCII)


def redact_named(text: str, low: str, words: frozenset[str]) -> str:
    """Take out what a name announces. `low` is the text in lower case, character for character, and `words` are those
    of `WORDS` that it holds."""
    spans = [span for word in words for span in _spans(text, low, word, _assigned)]
    if "bearer" in low or "cookie" in low or ("auth" in words and "authorization" in low):
        spans += _header_spans(text, low)
    if len(text) < _SHORT or not text.isascii():
        spans += _foreign_spans(text, low)
    return replace_spans(text, spans) if spans else text


def _header_spans(text: str, low: str) -> Iterator[Span]:
    from mcp_memory.capture.header_secrets import READERS

    for word, read in READERS:
        yield from _spans(text, low, word, _alone(read))


def _foreign_spans(text: str, low: str) -> Iterator[Span]:
    """What is announced by a name of another language. A long text that is all ASCII is taken to be English or code."""
    strange = _strange(text)
    if len(text) >= _SHORT and not any(map(str.isalpha, strange)):
        return
    if strange:
        low = text.lower() if len(text.lower()) == len(text) else text
    for word, sign, read in _FOREIGN_READERS:
        if sign in strange and word in low:
            yield from _spans(text, low, word, read)


def _strange(text: str) -> str:
    """What is not ASCII in the text: mostly little, which is faster to search."""
    if text.isascii():
        return ""
    return text.encode("utf-8", "replace").translate(None, _ASCII).decode("utf-8").lower()


def _spans(text: str, low: str, word: str, read: Reader) -> Iterator[Span]:
    position = low.find(word)
    while position >= 0:
        end = 0
        for start, known, kind in read(text, position):
            end = _REST().match(text, known).end()  # type: ignore[union-attr]  # it matches nothing at all, too
            yield start, end, kind
        position = low.find(word, max(position + 1, end))


def _alone(read: Callable[[str, int], Span | None]) -> Reader:
    """A reader of what can be only one secret."""

    def reading(text: str, position: int) -> Sequence[Span]:
        return _one(read(text, position))

    return reading


def _assigned(text: str, position: int) -> Sequence[Span]:
    end = _NAME().match(text, position).end()  # type: ignore[union-attr]  # it matches nothing at all, too
    if text[end : end + 1] in _NEVER_JOINS:
        return ()
    found = _ASSIGNED().match(text, position)
    start = start_of_name(text, position)
    if not found:
        return column(text, start, end) or _one(paired(text, position))
    return (
        _items(text, start, found)
        or _changed(text, _single(text, start, found))
        or column(text, start, end)
        or _one(paired(text, position))
    )


def _items(text: str, start: int, found: re.Match[str]) -> Sequence[Span]:
    """The secrets of the list that follows a name, if one does."""
    if found.lastgroup != "bare" or text[found.start("bare")] not in "[-" or not _opens_list(text, start, found):
        return ()
    return listed(text, found.start("bare"), _named(text, start, found, name_of_list)[1])


def _changed(text: str, span: Span | None) -> Sequence[Span]:
    """The secret, and the one that a plan of changes puts in its place."""
    changed = _CHANGED().match(text, span[1]) if span else None
    return (span, (*changed.span(1), span[2])) if span and changed else _one(span)


def _one(span: Span | None) -> Sequence[Span]:
    return (span,) if span else ()


def _opens_list(text: str, start: int, found: re.Match[str]) -> bool:
    """Whether items follow, and not a value that begins with such a sign: in a shell all that follows is the value."""
    join, name = found["join"], text[start : found.end("name")]
    if not join.strip().endswith((":", "=", "=>")) or (is_shell(name, join) and classify(name).kind):
        return False
    return text[found.start("bare")] == "[" or (found["bare"] == "-" and join[0] == ":" and "\n" in join)


def _named(text: str, start: int, found: re.Match[str], classified: Callable[[str], Named]) -> tuple[int, Named]:
    """Where the name begins, and what it announces by the rules of `classified`."""
    name = text[start : found.end("name")]
    named = classified(name)
    if name == "passe" and text[start - 7 : start].lower() == "mot de ":
        return start - 7, classified("mot_de_passe")
    if named.kind or name not in _KEY or text[start - 1 : start] != " " or not found["join"].strip():
        return start, named
    # Plain talk writes it apart: an api key, a secret key. So many things are keys that it is never sure.
    start = start_of_name(text, start - 1)
    return start, Named(classified(text[start : found.end("name")]).kind, False)


def _single(text: str, start: int, found: re.Match[str]) -> Span | None:
    """The one value behind a name, if it is a secret."""
    name = text[start : found.end("name")]
    start, named = _named(text, start, found, classify)
    if not named.kind:
        return None
    group = found.lastgroup or ""
    if group == "bare":
        return bare(text, start, name, named, found)
    secret = _is_quoted(text, start, name, named, found)
    return (*found.span(group), named.kind) if secret else None


def _is_quoted(text: str, start: int, name: str, named: Named, found: re.Match[str]) -> bool:
    """Whether what stands in quotes is the secret; what joins it to the name decides which rule looks."""
    join, value = found["join"].strip(), found[found.lastgroup or ""]
    if join in (",", "("):
        return _is_handed(text, start, name, named, found)
    if join in _OPERATORS:
        return _is_made_up(value)
    if join or named.kind == "password" or name.startswith("--") or is_set(text, start):
        return _is_quoted_secret(value, named.kind, named.sure or is_shell(name, found["join"]))
    return is_set(text, start, "#define") and _is_made_up(value)


def _is_made_up(value: str) -> bool:
    return is_random(value) and is_literal(value) and not is_path(value) and " " not in value


def _is_handed(text: str, start: int, name: str, named: Named, found: re.Match[str]) -> bool:
    """Whether a call is given the secret, by its own name or after it: `setPassword("…")`, `("X-Api-Key", "…")`."""
    value, end = found[found.lastgroup or ""], found.end()
    if not named.sure:
        return named.kind in ("token", "secret", "api-key") and len(value) >= 20 and _is_made_up(value)
    if found["join"].strip() == "(":
        return _is_made_up(value)
    opening, closing = text[max(0, start - 4) : start - 1].rstrip()[-1:], text[end + 1 : end + 4].lstrip()[:1]
    if opening not in ("(", "[") or closing not in (")", "]", ","):
        return False  # one of a list of names
    return _is_made_up(value) or (opening + closing == "()" and _is_default(name, named, value))


def _is_default(name: str, named: Named, value: str) -> bool:
    """Whether it is what a variable of the environment is without being set: `getenv("DB_PASSWORD", "…")`."""
    if named.kind != "password" or not name.isupper() or value.isupper():
        return False
    return is_literal(value) and not is_path(value) and " " not in value


def _is_quoted_secret(value: str, kind: str, sure: bool) -> bool:
    if kind == BASIC:
        return is_basic(value)
    # After `"password="` the quote closes a string of code, and its continuation follows.
    if value[0] in "+,)]};:|&. \t" or not is_literal(value) or is_path(value):
        return False
    if any(map(str.isspace, value)):
        return kind == "password" and is_mixed(value.replace(" ", "")) and any(map(str.isdigit, value))
    if sure:
        return len(value) >= 3
    return is_random(value) or (len(value) >= 8 and "secret" in value.lower())


def _foreign(word: str, named: Named) -> Reader:
    """A reader of what follows a name in another language."""

    def reading(text: str, position: int) -> Sequence[Span]:
        start = start_of_name(text, position)
        if _is_inside(text, start, position, position + len(word)):
            return ()
        found = _FOREIGN().match(text, position)
        if not found:
            return ()
        name, group = text[start : found.end("name")], found.lastgroup or ""
        if group == "bare":
            if text[found.end() : found.end() + 1].isalpha() and found["join"].isascii():
                return ()  # only the beginning of a word
            return _one(bare(text, start, name, named, found))
        secret = found["join"].strip() and _is_quoted(text, start, name, named, found)
        return ((*found.span(group), named.kind),) if secret else ()

    return reading


def _is_inside(text: str, start: int, first: int, last: int) -> bool:
    """Whether the word is only some letters of a longer one, as `clave` is of `Enclave`."""
    glued = start < first and text[first - 1].isalpha() and text[first].islower()
    return glued or (text[last - 1].isascii() and "a" <= text[last : last + 1] <= "z")


_FOREIGN_READERS = tuple((word, _strange(word), _foreign(word, named)) for word, named in NAMES)
