"""Secrets told by the name before them: assignments in code, settings files, shells, JSON, calls and plain talk.

Only where a name stands is a pattern tried, and every match is bounded: this stays fast on megabytes, and linear on
hostile text. What joins name and value decides how the value is judged.
"""

from __future__ import annotations

import re

from mcp_memory.capture.redaction.names import (
    APART,
    ASSIGNED,
    BASIC,
    COMMAND,
    FOREIGN_ASSIGNED,
    KEY,
    OPENING,
    Named,
    apart,
    classify,
    is_set,
    is_shell,
    name_of_list,
    start_of_name,
    word_list,
)
from mcp_memory.capture.redaction.structures import column, continued, listed, paired
from mcp_memory.capture.redaction.values import (
    OTHER,
    handed_over,
    is_basic,
    is_default,
    is_key,
    is_likely,
    is_literal,
    is_made_up,
    is_mixed,
    is_path,
    is_quoted,
    is_random,
    is_reference,
    is_strong,
    is_text,
    near,
)
from mcp_memory.capture.settings import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Span = tuple[int, int, str]

#: Operators that join a name only to what is quoted.
_OPERATORS = frozenset(("!=", "!==", "||", "??", "?:", "or"))
#: What ends a name with no value behind it.
_NEVER_JOINS = frozenset(".)}]/+@#~^")
_LONG_NAME = 24
_NAME = lazy(r"[\w-]{0,60}", re.ASCII)


def assigned(text: str, position: int) -> Sequence[Span]:
    """The secrets that the name announces which holds one of the `WORDS` at this place."""
    end = _NAME().match(text, position).end()  # type: ignore[union-attr]  # it matches nothing at all, too
    if text[end : end + 1] in _NEVER_JOINS and text[end : end + 2] not in ("]'", ']"', "] "):
        if text[end] not in ".)" or text[end + 1 : end + 2].strip():
            return ()
        start = start_of_name(text, position)
        return handed_over(text, start, end, classify(text[start:end]))
    start = start_of_name(text, position)
    name = text[start:end]
    if not name_of_list(name).kind and name not in APART and name != "passe":
        return ()
    if len(name) >= _LONG_NAME and is_strong(name):  # letters of something in base 64
        return ()
    before = text[max(0, start - 80) : start] if text[start - 1 : start] == ":" else ""
    if "arn:" in before or before.endswith(OPENING):  # the name of a place, or our own mark
        return ()
    found = ASSIGNED().match(text, position)
    spans = _items(text, start, found) if found else ()
    single = _single(text, start, found) if found and not spans else None
    if single:
        return continued(text, single)
    spans = spans or column(text, start, end) or paired(text, position)
    return spans or near(text, start, end, apart(text, start, end)[1] if name in APART else classify(name))


def foreign(word: str, named: Named) -> Callable[[str, int], Sequence[Span]]:
    """A reader of what follows a name in another language."""

    def reading(text: str, position: int) -> Sequence[Span]:
        start = start_of_name(text, position)
        last = position + len(word)
        # Some letters of a longer word, as `clave` is of `Enclave`?
        inside = start < position and text[position - 1].isalpha() and text[position].islower()
        if inside or (text[last - 1].isascii() and "a" <= text[last : last + 1] <= "z"):
            return ()
        found = FOREIGN_ASSIGNED().match(text, position)
        if not found or found["typed"]:
            return ()
        bare = found.lastgroup == "bare"
        # Is it only the beginning of a word, or does a mere space join what is quoted?
        part = bare and text[found.end() : found.end() + 1].isalpha() and found["join"].isascii()
        span = None if part or not (bare or found["join"].strip()) else _secret(text, start, start, named, found)
        return (span,) if span else ()

    return reading


def _items(text: str, start: int, found: re.Match[str]) -> Sequence[Span]:
    """The secrets of the list that follows a name, if one does."""
    if found.lastgroup != "bare" or text[found.start("bare")] not in "[-":
        return ()
    join, name = found["join"] or "=", text[start : found.end("name")]
    # In a shell all that follows is the value.
    if not join.strip().endswith((":", "=", "=>")) or (is_shell(name, join) and classify(name).kind):
        return ()
    if is_reference(text[found.start("bare") : found.start("bare") + 80]):  # of characters, in a regular expression
        return ()
    if text[found.start("bare")] == "[" or (found["bare"] == "-" and join[0] == ":" and "\n" in join):
        return listed(text, found.start("bare"), _named(text, start, found, name_of_list)[1])
    return ()


def _named(text: str, start: int, found: re.Match[str], classified: Callable[[str], Named]) -> tuple[int, Named]:
    """Where the name begins, and what it announces by the rules of `classified`."""
    name = text[start : found.end("name")]
    named = classified(name)
    if name == "passe" and text[start - 7 : start].lower() == "mot de ":
        return start - 7, classified("mot_de_passe")
    if name not in APART or text[start - 1 : start] != " " or not (found["join"] or "=").strip():
        return start, named
    first, whole = apart(text, start, found.end("name") - (name[-1] in "sS"))
    return (start, named) if whole.kind in ("", KEY) else (first, whole)


def _single(text: str, start: int, found: re.Match[str]) -> Span | None:
    """The one value behind a name, if it is a secret."""
    first, named = _named(text, start, found, classify)
    span = _secret(text, first, start, named, found) if named.kind else None
    if span and named.kind == KEY:
        before = "" if named.sure else text[max(0, first - COMMAND) : first]
        return span if is_key(text[span[0] : span[1]].strip(), named, before, found["join"] or "=") else None
    return span


def _secret(text: str, first: int, start: int, named: Named, found: re.Match[str]) -> Span | None:
    """The value if it is one. The last word of its name begins at `start`, and all that names it at `first`."""
    name, group = text[start : found.end("name")], found.lastgroup or ""
    if group == "bare":
        return None if found["typed"] else Bare(text, first, name, named, found).span()
    return (*found.span(group), named.kind) if _is_quoted(text, first, name, named, found) else None


#: Calls that only change the form of the text they are given.
_FORM = lazy(
    r"(?:\A|[\s.:&*!\]])(?:bytes?|bytearray|[qQ]?[sS]tring\w{0,9}|str|from\w{0,9}|new|[sS]ec(?:ret|ure)\w{0,12}|Some|Ok|Just|of|"
    r"to_?bytes|valueOf|b64decode|atob|unhexlify|T|_T|TEXT|strdup|[lL]it\w{0,5}|[pP]assword|default|Field|)!?[ ]?\Z"
)


def _is_quoted(text: str, start: int, name: str, named: Named, found: re.Match[str]) -> bool:
    """Whether what stands in quotes is the secret; what joins it to the name decides which rule looks."""
    join, value = (found["join"] or "=").strip(), found[found.lastgroup or ""]
    if join in (",", "(", "{"):
        return _is_argument(text, start, name, named, found)
    if found["fallback"] or join in _OPERATORS:
        return is_made_up(value) or (bool(found["fallback"]) and (is_likely(value) or is_default(named, value)))
    if found["wrap"] and not _FORM().search(found["wrap"].rstrip().rstrip("(").rpartition("(")[2]):
        return is_strong(value) and is_literal(value)
    if join in _BARS and not _is_row(text, start):
        return is_made_up(value)
    if join or (named.kind == "password" and named.sure) or name.startswith("--") or is_set(text, start):
        return is_quoted(value, named, named.sure or is_shell(name, found["join"] or ""))
    sure = named.sure or named.kind == "password" or is_set(text, start, "#define")
    return sure and is_made_up(value)


def _is_row(text: str, position: int) -> bool:
    """Whether the line up to here is one of a table: it begins with a bar."""
    line = text.rfind("\n", max(0, position - _LINE), position)
    far = line < 0 and position > _LINE
    return not far and text[line + 1 : position].lstrip()[:1] in _BARS


def _is_argument(text: str, start: int, name: str, named: Named, found: re.Match[str]) -> bool:
    """Whether a call is given the secret, by its own name or after it: `setPassword("…")`, `("X-Api-Key", "…")`."""
    value, end, join = found[found.lastgroup or ""], found.end(), found["join"].strip()
    if not named.sure:
        return named.kind in ("token", "secret", "api-key", KEY) and len(value) >= 20 and is_made_up(value)
    if join in ("(", "{"):
        before = text[max(0, start - COMMAND) : start]
        declared = bool(before) and before[-1] in " &*" and bool(_DECLARES().search(before))
        setter = name.lower().startswith(("set", "with"))
        return is_made_up(value) or (setter and is_likely(value)) or (declared and is_quoted(value, named, True))
    before = text[max(0, start - 60) : start]
    before = before.rpartition("[")[0] if before.endswith("=") else before  # the selector of an attribute
    opening, closing = before.rstrip(_NAMED_BY)[-1:], text[end + 1 : end + 4].lstrip()[:1]
    if opening not in ("(", "[") or closing not in (")", "]", ","):
        return False  # one of a list of names
    typed = opening == "(" and text[start - 1 : start] in ("#", ".", "=", "_")
    return is_made_up(value) or (opening + closing == "()" and (name.isupper() or typed) and is_default(named, value))


#: What comes before a name that a declaration sets.
_DECLARES = lazy(r"(?:[sS]tring\w{0,10}|auto|char|[A-Z]\w{0,30}|str)[ ]?[&*]?[ ]?\Z")
#: What may stand before a name in a selector, between the opening of a call and the name.
_NAMED_BY = " \t\"'`#.=_-abcdefghijklmnopqrstuvwxyz"
#: What may stand between a name and its value: another name, or the scheme of a header.
_LED = lazy(
    r"""(?: (?:[A-Za-z][\w-]{1,60}:|(?:bearer|basic|token|digest|negotiate|apikey|api-key|bot|key))
            [ \t]{1,4} ["']? ){1,3}
        (?P<value>[^\s"'`<>\\,;]{8,256})""",
    re.X | re.I,
)
_SCHEMES = frozenset("bearer basic token digest negotiate apikey api-key bot key".split())
_BARS = ("|", "│", "┃", "║")
_LINE = 200
#: A further line of a block: what a machine wrote is often wrapped.
_BLOCK = lazy(r"\r?\n([ \t]{1,40})[^\s:]{1,512}(?=[ \t]{0,4}(?:\r?\n|\Z))")
_ENTRY = lazy(r",(?=[\w$]{1,60}[:}])|\}(?=[=;,)])")
#: What separates an unquoted value from what follows it on the line.
_ENDS = lazy(r"[&;,)\]}|]")
_SHELL_DEFAULT = lazy(r"(?:\$\{[\w.]{1,60}:?)?[-=]([^\s\"'`<>}$]{3,200})")
#: The end of a list of parameters, of a line of code, or of talk.
_TAIL = lazy(r"[)\]}]+[:,;{]*\Z|[,;)\]}]+\Z")
#: What a command, or a list of settings in a line, looks like up to a name within it.
_WITHIN = lazy(
    r"(?:[ \t]-{1,2}[A-Za-z][\w-]{0,40}(?:[ \t=](?!and[ ]|or[ ])\S{1,100})?[ \t=]{1,4}[\"']?"
    r"|[\w.-]=[^\s,()]{1,100}[ \t]{1,4})"
    r"(?:[\w.-]{1,40}=[^\s,()]{0,100},){0,20}(?:[\w-]{1,40}\.){0,9}\Z"
)
#: The end of a line, a quote, a comment or the next option: nothing of the value can follow.
_NEXT = lazy(r"[ \t]{0,200}(?:\r?\n|\Z|\\[nr]|-{1,2}\w|#)|\\?[\"'`]")


#: What may stand between a password and where talk mentions it.
_TOLD = lazy(
    r"""(?: (?:[ ][\w.@'()/-]{0,40}[\w')]){1,6} (?::[ \t]{0,4}\s{1,8}|[ ]is[ ]{1,4})
          | [ ](?:set[ ]|changed[ ]|reset[ ])?(?:to|from|as)[ ]{1,4} ) ["'`]? ([^\s"'`<>\\]{8,256})""",
    re.X,
)
_SPOKEN = word_list("spoken")
_LOGIN = lazy(
    r"""(?: (?P<sure>machine\s{1,9}\S{1,90}\s{1,9}|default\s{1,9}(?=login)) (?:login\s{1,9}\S{1,90}\s{1,9})?
            (?:account\s{1,9}\S{1,90}\s{1,9})?
          | (?:login|username)\s{1,9}\S{1,90}\s{1,9} )\Z""",
    re.X,
)


class Bare:
    """A name that announces a secret, what joins it to the bare value, and where in the text they stand."""

    # No named tuple: making one takes longer than all else here, and the hook starts anew for every event.
    __slots__ = ("first", "join", "name", "named", "start", "text", "value")

    def __init__(self, text: str, start: int, name: str, named: Named, found: re.Match[str]) -> None:
        self.text, self.start, self.name, self.named = text, start, name, named
        self.join, self.first = found["join"], found.start("bare")
        self.value = found["bare"].partition(OPENING)[0]

    def span(self) -> Span | None:
        """The secret, if the value is one: or is it code, talk, a type, the next word of the line?"""
        joined = self.join.strip()
        if self.named.kind == BASIC:
            return self._taken(self.value) if joined and is_basic(self.value) else None
        if joined in _BARS and not _is_row(self.text, self.start):
            return None
        if joined == ":" and self.value.startswith(":"):  # `Class::member`
            return None
        if self.value.endswith(":") or self.value.lower() in _SCHEMES:
            led = self._led()
            if led or classify(self.value[:-1]).kind:
                return led
        if "\n" in self.join and not (self.join[:1] == ">" or self.join.endswith(">")):
            return self._below()
        if not joined and not self.name.startswith("--"):
            return self._spaced() if self._before() != "=" else None  # `method=password duration=38ms`
        return self._joined(joined)

    def _taken(self, value: str) -> Span:
        return self.first, self.first + len(value), self.named.kind

    def _led(self) -> Span | None:
        """The value behind another name or a scheme that stands in its place."""
        found = _LED().match(self.text, self.first)
        if not found or self.named.kind == KEY:
            return None
        if not is_random(found["value"]) or is_reference(found["value"]) or is_path(found["value"]):
            return None
        # What looks like a name may be half of the secret.
        start = self.first if is_mixed(self.value.rstrip(":")) else found.start("value")
        return start, found.end("value"), self.named.kind

    def _below(self) -> Span | None:
        """A value on the line below its name, alone there; in a block of YAML it is nothing but text."""
        last = self.first + len(self.value)
        if not _NEXT().match(self.text, last) or not is_text(self.value):
            return None
        block = "|" in self.join or ">" in self.join
        mixed = self.named.sure and len(self.value) >= 6 and is_mixed(self.value)
        if not is_random(self.value) and not (block and mixed):
            return None
        indent = self.join.rpartition("\n")[2]
        for _ in range(_LINE if block else 0):
            more = _BLOCK().match(self.text, last)
            if not more or more[1] != indent:
                break
            last = more.end()
        return self.first, last, self.named.kind

    def _spaced(self) -> Span | None:
        """A value after a mere space: one that a command sets, a password in .netrc or in talk."""
        value = self.value.rstrip(".,;:)]}")
        if len(value) < 3 or value.isdigit() or not is_text(value):
            return self._told()
        if is_set(self.text, self.start) and (self.name.isupper() or is_random(value) or is_likely(value)):
            # `ENV DB_PASSWORD swordfish`: nothing else follows a plain word.
            secret = is_mixed(value) or (
                self.name.isupper() and bool(_NEXT().match(self.text, self.first + len(value)))
            )
        else:
            secret = (is_random(value) and self._is_spoken(value)) or self._is_login(value)
        return self._taken(value) if secret else self._told()

    def _is_spoken(self, value: str) -> bool:
        """Whether talk names a password and then says it, "use the password …", or a command a key: `secret_key …`."""
        if self.named.kind == "password":
            plain = value[0] not in "(&#" and "%" not in value  # no part of a page, nor of a text with places to fill
            return plain and (self.name.lower() in _SPOKEN or not self.name.isascii())
        letters = value.replace("/", "").replace("+", "").rstrip("=")
        return self.named.sure and "_" in self.name and len(value) >= 20 and letters.isalnum()

    def _is_login(self, value: str) -> bool:
        """Whether the user stands before a password that begins here, as in .netrc; talk of a login may, too."""
        before = max(0, self.start - 120)
        login = _LOGIN().search(self.text, before, self.start) if self.named.kind == "password" else None
        if login is None or self.text.startswith("pass ", self.start):
            return False
        return bool(login["sure"]) or (is_mixed(value) and value[0] != "(")

    def _told(self) -> Span | None:
        """A password that talk tells some words later: "the password for the database is …", "password set to …"."""
        position = self.first - len(self.join)
        found = _TOLD().match(self.text, position) if self.named.kind == "password" and self.named.sure else None
        value = found[1].rstrip(".,;)]}") if found else ""
        if not found or not is_random(value) or not is_text(value):
            return None
        start = found.start(1)
        return None if OTHER().search(self.text, position, start) else (start, start + len(value), "password")

    def _joined(self, joined: str) -> Span | None:
        """A value behind a sign or a verb that joins it to its name, or behind an option."""
        opened = self.text[max(0, self.start - 2) : self.start] == "${" and self.join == ":"
        if self.value.startswith("${") or (opened and self.value[:1] in ("-", "=")):
            # What a shell takes if the variable is not set: `${DB_PASSWORD:-…}`, `password=${X:-…}`.
            found = _SHELL_DEFAULT().match(self.text, self.first)
            value = found[1] if found else ""
            secret = len(value) >= 3 and is_text(value) and (is_random(value) or self.named.kind == "password")
            return (*found.span(1), self.named.kind) if found and secret and self.named.sure else None
        if self.name == "PASS" and joined == ":":  # what a test did
            return None
        shell = is_shell(self.name, self.join)
        value = self._trimmed(shell)
        if len(value) < 3 or not is_text(value) or (value[0] == "(" and not shell):
            return None
        if value.isdigit():
            # Not a port, a count or a year.
            number = self.named.kind == "password" and self.named.sure and len(value) >= 6 and joined in (":", "=")
            secret = number or (shell and len(value) >= 4)
        elif self.join[:1] == ">" or self.join.endswith(">"):
            secret = self._is_element(value)
        else:
            secret = shell or self._is_secret(joined, value)
        return self._taken(value) if secret else None

    def _trimmed(self, shell: bool) -> str:
        """The value without what ends the sentence, the list or the parameter in which it stands."""
        if shell:
            return self.value.rstrip(";,)")
        if self.join == "=":
            return _ENDS().split(self.value, maxsplit=1)[0]
        value = _TAIL().sub("", self.value)
        if self._before() in ("{", ","):  # the next entry of an object that is written without spaces
            value = _ENTRY().split(value, maxsplit=1)[0]
        return value.rstrip(".") if self.join.strip()[:1].isalpha() else value

    def _is_element(self, value: str) -> bool:
        """Whether this is all that an element of XML holds."""
        rest = self.text[self.first + len(value) : self.first + len(value) + 80].lstrip()
        if not rest.startswith(("</", "]]></")):
            return False
        # `<property name="…password">`; texts to be shown are named that way, too.
        opening = self.text[max(0, self.start - 60) : self.start].rpartition("<")
        return (bool(opening[1]) and not opening[2].strip()[:1]) or self.join != ">" or is_random(value)

    def _is_secret(self, joined: str, value: str) -> bool:
        """A bare value is often code or talk, so it must look like a secret, or stand where only a value can."""
        if joined[:1].isalpha():  # plain talk: "the password is …", "das Passwort ist …"
            talked = self.named.kind == "password" and is_mixed(value) and len(value) >= 6
            return talked or (is_random(value) and len(value) >= 16)
        before, alone = self._before(), self._is_alone(self.first + len(value))
        if before == "--":  # is the option given this value, or only spoken of?
            if self.join == "=" and self.named.kind == "password" and value.islower():
                return True
            if (self.named.sure or len(value) >= 8) and (alone or is_mixed(value)):
                return True
        if joined == "=" and before in ("?", "&", ";"):
            return self.named.sure or len(value) >= 6
        if not joined or not self.named.sure:
            return bool(joined) and is_random(value)
        if self.named.kind != "password":
            return (len(value) >= 6 and is_mixed(value)) or is_random(value)
        if is_mixed(value) or not (alone and value.islower()):
            return is_mixed(value)
        if self.join != "=" and joined == "=" and self.text[max(0, self.start - 2) : self.start].startswith(","):
            return False  # `user, password = pair`
        # A plain word is the value if the name opens a line, a setting or an argument.
        if before in ("'", '"') and self.text.startswith(("\\n", "\\r"), self.first + len(value)):
            return True  # in a string that goes on with another line
        opens = before in ("", "\n", " ", "\t", ".", "\\n", "\\t")
        return opens or (joined == "=" and before in ("=", "'", '"', ":", ","))

    def _before(self) -> str:
        """The character before the name; `--` if the name is an option."""
        if self.name.startswith("--"):
            return "--"
        escape = self.text[max(0, self.start - 2) : self.start]
        return escape if escape in ("\\n", "\\t") else escape[-1:]

    def _is_alone(self, last: int) -> bool:
        """Whether nothing follows the value, or only more of a command or of a connection's settings: no code."""
        if _NEXT().match(self.text, last):
            return True
        if self.text[last : last + 1] not in (" ", "\t", ","):
            return False
        return bool(_WITHIN().search(self.text[max(0, self.start - _LINE) : self.start].rpartition("\n")[2]))
