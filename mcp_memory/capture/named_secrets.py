"""Secrets told by the name before them: assignments in code, settings files, shells, JSON, headers and plain talk.

A name is looked for first, in the lower-cased text, and only where one stands is a regular expression tried: this
stays fast on megabytes, and linear on hostile text, since every match is bounded.
"""

from __future__ import annotations

import re

from mcp_memory.capture.bare_values import bare, is_set, is_shell
from mcp_memory.capture.header_secrets import authorization, bearer, cookie
from mcp_memory.capture.marks import replace_spans
from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.secret_entries import listed, name_of_list, paired, start_of_name
from mcp_memory.capture.secret_names import BASIC, Named, classify
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
#: The rest of the name, its closing quote, what joins it to the value, and the value: quoted, quoted inside a string,
#: or bare. An annotated type may stand between (`token: str = …`), or a default in brackets, an anchor or tag of YAML.
#: A comma or a parenthesis joins only what is quoted; a bar, the cells of a table.
_ASSIGNED = lazy(
    r"""(?P<name>[\w-]{2,60}) (?:\\{0,7}["'`]\]?)? """
    + _DRESS
    + r"""
        (?P<join> [ \t]{0,20} (?: :=|=>|={1,3}|:[ \t]{0,4}[\w.\[\]<>|?&*]{1,40}[ \t]{1,4}=
                                 | (?:\[[^\]\r\n]{0,40}\])? :
                                   (?: [ \t]{1,4} [|>] [+-]?\d? [ \t]{0,4} (?=\r?\n)
                                     | [ \t]{1,4} [&!] [\w!.:/-]{1,40} (?=[ \t]) )?
                                 | →|\| ) \s{0,40}
                | [ \t]{1,4} (?:is|was)(?:[ ]now)?:? [ \t]{1,4} | [ \t]{1,8} | > | </key>\s{0,40}<string>
                | [ \t]{0,4} [,(] \s{0,40} (?=["'`]) ) """
    + _DRESS
    + r""" [ \t]{0,4}
        (?: [bBrRuUfFL@$]{0,2} (?P<quote>\"{3}|'{3}|["'`]) (?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n]){1,1024})
          | (?P<deep>\\{1,7}["']) (?P<escaped>(?:(?!\\{1,7}["'])[^\r\n]){1,1024})
          | (?P<bare>[^\s"'`<>\\]{1,256}) )""",
    re.X | re.ASCII,
)
#: What may go on behind the part of a value that an expression takes at most.
_REST = lazy(r"[\w+/=~-]*", re.ASCII)


def redact_named(text: str, low: str) -> str:
    """Take out what a name announces. `low` is the text in lower case, character for character."""
    spans = [span for word, read in _READERS if word in low for span in _spans(text, low, word, read)]
    return replace_spans(text, spans)


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
        span = read(text, position)
        return (span,) if span else ()

    return reading


def _assigned(text: str, position: int) -> Sequence[Span]:
    found = _ASSIGNED().match(text, position)
    if not found:
        span = paired(text, position)
        return (span,) if span else ()
    start = start_of_name(text, position)
    if found.lastgroup == "bare" and text[found.start("bare")] in "[-" and _opens_list(text, start, found):
        items = listed(text, found.start("bare"), _named(text, start, found, name_of_list)[1])
        if items:
            return items
    span = _single(text, start, found) or paired(text, position)
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
    join = found["join"].strip()
    if join in (",", "("):
        secret = _is_handed(text, start, found, named)
    elif join or named.kind == "password" or name.startswith("--") or is_set(text, start):
        secret = _is_quoted_secret(found[group], named.kind, named.sure or is_shell(name, found["join"]))
    else:
        secret = False
    return (*found.span(group), named.kind) if secret else None


def _is_handed(text: str, start: int, found: re.Match[str], named: Named) -> bool:
    """Whether a call is given the secret, by its own name or after it: `setPassword("…")`, `("X-Api-Key", "…")`."""
    value, end = found[found.lastgroup or ""], found.end()
    if found["join"].strip() == "," and not (
        text[start - 2 : start - 1] in ("(", "[") and text[end + 1 : end + 2] in (")", "]")
    ):
        return False  # one of a list of names
    return named.sure and is_random(value) and is_literal(value) and not is_path(value) and " " not in value


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


#: Where each word is found, one of these looks whether it belongs to the name of a secret.
_READERS = (
    *(
        (word, _assigned)
        for word in ("pass", "pw", "psk", "secret", "token", "key", "credential", "auth", "dockerconfigjson")
    ),
    ("authorization", _alone(authorization)),
    ("bearer ", _alone(bearer)),
    ("cookie", _alone(cookie)),
)
