"""Secrets told by the name before them: assignments in code, settings files, shells, JSON, headers and plain talk.

A name is looked for first, in the lower-cased text, and only where one stands is a regular expression tried: this
stays fast on megabytes, and linear on hostile text, since every match is bounded.
"""

from __future__ import annotations

import re

from mcp_memory.capture.marks import OPENING, replace_spans
from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.secret_entries import listed, name_of_list, paired, start_of_name
from mcp_memory.capture.secret_names import BASIC, Named, classify
from mcp_memory.capture.secret_values import is_basic, is_code, is_literal, is_mixed, is_path, is_random, is_reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Span = tuple[int, int, str]
    Reader = Callable[[str, int], Sequence[Span]]

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
#: What may stand between a name and its value: another name, or the scheme of a header.
_LED = lazy(
    r"""(?: (?:[A-Za-z][\w-]{1,60}:|(?:bearer|basic|token|digest|negotiate|apikey|api-key|bot|key))
            [ \t]{1,4} ["']? ){1,3}
        (?P<value>[^\s"'`<>\\,;]{8,256})""",
    re.X | re.I,
)
_SCHEMES = frozenset("bearer basic token digest negotiate apikey api-key bot key".split())
#: How far before a name its command is looked for.
_COMMAND = 40
_LINE = 200
#: What comes before a name whose value follows it after a mere space.
_SETTERS = ("ENV", "env", "setx", "SETX", "setenv", "set", "SET")
_LOGIN = lazy(r"(?:(?P<sure>machine\s+\S+\s+|default\s+)(?:login\s+\S+\s+)?(?:account\s+\S+\s+)?|login\s+\S+\s+)\Z")
#: The further lines of a block: what a machine wrote is often wrapped.
_BLOCK = lazy(r"(?:\r?\n[ \t]{1,40}[A-Za-z0-9+/=_-]{16,512}(?=[ \t]{0,4}(?:\r?\n|\Z))){1,200}")
_AUTHORIZATION = lazy(
    r"""authorization \\{0,7}["'`]?\]? \s{0,4} [:=,] \s{0,4} \\{0,7}["'`]?
        (?: (?P<scheme>bearer|basic|token|digest|negotiate|apikey|bot|key|oauth|hawk|aws4-hmac-sha256) (?:[ ]|%20)+ )?
        (?P<value>[^\s"'`,;<>{}()\\]{4,256})""",
    re.X | re.I,
)
#: What such a scheme is followed by: every parameter of it may prove who asks.
_PARAMETERS = lazy(
    r"""(?: [\w-]{1,40} = (?: \\{0,7}"[^"\\\r\n]{0,512}\\{0,7}" | [^\s,"'`\\]{1,512} )
            (?: [ \t]{0,4} [,;] [ \t]{0,4} | (?![\w=]) ) ){1,40}""",
    re.X,
)
_WITH_PARAMETERS = frozenset("digest oauth hawk aws4-hmac-sha256".split())
_BEARER = lazy(r"bearer[ ]{1,4}([A-Za-z0-9._~+/=-]{16,256})", re.I)
_COOKIE = lazy(
    r"""cookie \\{0,7}["'`]?\]? \s{0,4} [:=] \s{0,4} \\{0,7}["'`]? ([\w.-]{1,80}=[^\r\n"'`\\]{3,256})""", re.X | re.I
)
#: What separates an unquoted value from what follows it on the line.
_ENDS = lazy(r"[&;,)\]}|]")
_REST = lazy(r"[\w+/=~-]*", re.ASCII)
#: The end of a line, a quote, a comment or the next option: nothing of the value can follow.
#: What a command, or a list of settings in a line, looks like up to a name within it.
_WITHIN = lazy(
    r"(?:[ \t]-{1,2}[A-Za-z][\w-]*(?:[ \t=](?!and[ ]|or[ ])\S+)?[ \t=]+[\"']?|[\w.-]=[^\s,()]+[ \t]+)(?:[\w-]+\.)*\Z"
)
_NEXT = lazy(r"[ \t]*(?:\r?\n|\Z|\\[nr]|-{1,2}\w|#|\\?[\"'`])")


def redact_named(text: str, low: str) -> str:
    """Take out what a name announces. `low` is the text in lower case, character for character."""
    spans = [span for word, read in _READERS if word in low for span in _spans(text, low, word, read)]
    return replace_spans(text, spans)


def _spans(text: str, low: str, word: str, read: Reader) -> Iterator[Span]:
    position = low.find(word)
    while position >= 0:
        end = 0
        for start, known, kind in read(text, position):
            # A secret longer than what a match may take goes on to its end.
            end = _REST().match(text, known).end()  # type: ignore[union-attr]  # it matches nothing at all, too
            yield start, end, kind
        position = low.find(word, max(position + 1, end))


def _alone(read: Callable[[str, int], Span | None]) -> Reader:
    """A reader of what can be only one secret."""

    def reading(text: str, position: int) -> Sequence[Span]:
        span = read(text, position)
        return (span,) if span else ()

    return reading


def _authorization(text: str, position: int) -> Span | None:
    found = _AUTHORIZATION().match(text, position)
    if not found or is_reference(found["value"]):
        return None
    value, scheme = found["value"].partition(OPENING)[0], (found["scheme"] or "").lower()
    if scheme in _WITH_PARAMETERS:
        parameters = _PARAMETERS().match(text, found.start("value"))
        if parameters:
            return (parameters.start(), parameters.start() + len(parameters[0].rstrip(" \t,;")), "authorization")
    if scheme == "basic":
        secret = is_basic(value) or is_random(value)
    else:
        secret = is_mixed(value) and len(value) >= 8 if scheme else is_random(value) and len(value) >= 16
    start = found.start("value")
    return (start, start + len(value), "authorization") if secret else None


def _bearer(text: str, position: int) -> Span | None:
    found = _BEARER().match(text, position)
    return (*found.span(1), "authorization") if found and is_random(found[1]) else None


def _cookie(text: str, position: int) -> Span | None:
    found = _COOKIE().match(text, position)
    if not found or is_reference(found[1].partition("=")[2]):
        return None
    return (*found.span(1), "cookie")


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
    if not join.strip().endswith((":", "=", "=>")) or (_is_shell(name, join) and classify(name).kind):
        return False
    return text[found.start("bare")] == "[" or (found["bare"] == "-" and join[0] == ":" and "\n" in join)


def _named(text: str, start: int, found: re.Match[str], classified: Callable[[str], Named]) -> tuple[int, Named]:
    """Where the name begins, and what it announces."""
    name = text[start : found.end("name")]
    named = classified(name)
    if named.kind or name not in _KEY or text[start - 1 : start] != " " or not found["join"].strip():
        return start, named
    # Plain talk writes it apart: an api key, a secret key. So many things are keys that it is never sure.
    start = start_of_name(text, start - 1)
    return start, Named(classified(text[start : found.end("name")]).kind, False)


def _single(text: str, start: int, found: re.Match[str]) -> Span | None:
    name = text[start : found.end("name")]
    start, named = _named(text, start, found, classify)
    if not named.kind:
        return None
    group = found.lastgroup or ""
    if group == "bare":
        return _bare(text, start, name, named, found)
    join = found["join"].strip()
    value = found[group]
    if not join and not (named.kind == "password" or name.startswith("--") or _is_set(text, start)):
        return None
    if join in (",", "("):
        return (*found.span(group), named.kind) if _is_handed(text, start, found, named) else None
    sure = named.sure or _is_shell(name, found["join"])
    return (*found.span(group), named.kind) if _is_quoted_secret(value, named.kind, sure) else None


def _is_handed(text: str, start: int, found: re.Match[str], named: Named) -> bool:
    """Whether a call is given the secret, by its own name or after it: `setPassword("…")`, `("X-Api-Key", "…")`."""
    value, end = found[found.lastgroup or ""], found.end()
    if found["join"].strip() == "," and not (
        text[start - 2 : start - 1] in ("(", "[") and text[end + 1 : end + 2] in (")", "]")
    ):
        return False  # one of a list of names
    return named.sure and is_random(value) and is_literal(value) and not is_path(value) and " " not in value


def _is_set(text: str, start: int) -> bool:
    """Whether a command stands before the name by which a Dockerfile or a shell sets it to what follows."""
    before = text[max(0, start - _COMMAND) : start].split("\n")[-1].split(" ")
    if len(before) < 2 or before.pop():
        return False
    while before and before[-1].startswith("-"):  # options: `set -gx NAME value`
        before.pop()
    return bool(before) and before[-1] in _SETTERS


def _is_shell(name: str, join: str) -> bool:
    """`NAME=` is how shells and .env files set variables, whose values are text and never code."""
    return join == "=" and name.isupper()


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


def _bare(text: str, start: int, name: str, named: Named, found: re.Match[str]) -> Span | None:
    join, value = found["join"], found["bare"].partition(OPENING)[0]
    if named.kind == BASIC:
        first = found.start("bare")
        return (first, first + len(value), BASIC) if join.strip() and is_basic(value) else None
    if join.strip() == "|" and not _is_row(text, start):
        return None
    if value.endswith(":") or value.lower() in _SCHEMES:
        led = _led(text, found.start("bare"), value, named)
        if led or classify(value[:-1]).kind:
            return led
    if "\n" in join and not join.endswith(">"):
        return _below(text, join, value, named, found)
    if not join.strip() and not name.startswith("--"):
        return _spaced(text, start, name, value, named, found)
    shell = _is_shell(name, join)
    if shell:
        value = value.rstrip(";,)")
    elif join == "=":
        value = _ENDS().split(value, maxsplit=1)[0]
    else:
        value = value.rstrip(".,;)]}" if "s" in join else ",;)]}")
    if len(value) < 3 or not is_literal(value) or is_code(value) or is_path(value):
        return None
    first = found.start("bare")
    if value.isdigit():
        number = named.kind == "password" and named.sure and len(value) >= 6 and join.strip() in (":", "=")
        return (first, first + len(value), named.kind) if number or (shell and len(value) >= 4) else None
    last = first + len(value)
    before = text[start - 1 : start] if not name.startswith("--") else "--"
    alone = bool(_NEXT().match(text, last))
    if join.endswith(">"):
        secret = (before == "<" or join != ">") and text.startswith("</", last)
    else:
        secret = shell or _is_bare_secret(named, join.strip(), value, before, alone or _within(text, start, last))
    return (first, last, named.kind) if secret else None


def _is_row(text: str, start: int) -> bool:
    """Whether the name stands in a table, whose lines begin with a bar."""
    line = text.rfind("\n", max(0, start - _LINE), start)
    return (line >= 0 or start <= _LINE) and text[line + 1 : start].lstrip().startswith("|")


def _within(text: str, start: int, last: int) -> bool:
    """Whether name and value stand among others of a command or of a connection's settings: there it is no code."""
    if text[last : last + 1] not in (" ", "\t"):
        return False
    line = max(text.rfind("\n", 0, start) + 1, start - _LINE)
    return bool(_WITHIN().search(text[line:start]))


def _led(text: str, first: int, value: str, named: Named) -> Span | None:
    """The value behind another name or a scheme that stands in its place."""
    found = _LED().match(text, first)
    if not found or not is_random(found["value"]) or is_reference(found["value"]):
        return None
    # What looks like a name may be half of the secret.
    start = first if is_mixed(value.rstrip(":")) else found.start("value")
    return start, found.end("value"), named.kind


def _below(text: str, join: str, value: str, named: Named, found: re.Match[str]) -> Span | None:
    """A value on the line below its name, alone there; in a block of YAML it is nothing but text."""
    first = found.start("bare")
    last = first + len(value)
    if not _NEXT().match(text, last) or not is_literal(value) or is_code(value) or is_path(value):
        return None
    block = "|" in join or ">" in join
    if not (is_random(value) or (block and named.sure and len(value) >= 6 and is_mixed(value))):
        return None
    more = _BLOCK().match(text, last) if block else None
    return first, more.end() if more else last, named.kind


def _spaced(text: str, start: int, name: str, value: str, named: Named, found: re.Match[str]) -> Span | None:
    """A value after a mere space: one that a command sets, or a password in .netrc."""
    value = value.rstrip(",;)]}")
    if not (named.kind == "password" or name.isupper() or is_mixed(value)):
        return None
    first = found.start("bare")
    last = first + len(value)
    if len(value) < 3 or not is_literal(value) or is_code(value) or is_path(value) or value.isdigit():
        return None
    if _is_set(text, start) and (name.isupper() or is_random(value)):
        secret = is_mixed(value) or (name.isupper() and bool(_NEXT().match(text, last)))
    else:
        login = _LOGIN().search(text, max(0, start - 120), start) if named.kind == "password" else None
        secret = login is not None and (bool(login["sure"]) or is_mixed(value))
    return (first, last, named.kind) if secret else None


def _is_bare_secret(named: Named, join: str, value: str, before: str, alone: bool) -> bool:
    """A bare value is often code or talk, so it must look like a secret, or stand where only a value can."""
    if join.startswith(("is", "was")):
        talked = named.kind == "password" and is_mixed(value) and len(value) >= 6
        return talked or (is_random(value) and len(value) >= 16)
    if before == "--" and (named.sure or len(value) >= 8) and (alone or is_mixed(value)):
        return True
    if not join:
        return False
    if join == "=" and before in ("?", "&", ";"):
        return len(value) >= 6 or named.sure
    if not named.sure:
        return is_random(value)
    if is_mixed(value):
        return len(value) >= 6 or named.kind == "password"
    return (
        named.kind == "password"
        and alone
        and (before in ("", "\n", " ", "\t", ".") or (join == "=" and before in ("=", "'", '"')))
        and value.islower()
    )


#: Where each word is found, one of these looks whether it belongs to the name of a secret.
_READERS = (
    *(
        (word, _assigned)
        for word in ("pass", "pw", "psk", "secret", "token", "key", "credential", "auth", "dockerconfigjson")
    ),
    ("authorization", _alone(_authorization)),
    ("bearer ", _alone(_bearer)),
    ("cookie", _alone(_cookie)),
)
