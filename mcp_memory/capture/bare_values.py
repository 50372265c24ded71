"""Unquoted values behind a secret's name: is it the secret, or code, talk, a type, the next word of the line?

What joins name and value decides which rule looks at it: `bare` picks the rule.
"""

from __future__ import annotations

import re

from mcp_memory.capture.marks import OPENING
from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.secret_names import BASIC, Named, classify
from mcp_memory.capture.secret_values import is_basic, is_code, is_literal, is_mixed, is_path, is_random, is_reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    Span = tuple[int, int, str]


class Bare:
    """A name that announces a secret, what joins it to the bare value, and where in the text they stand."""

    # No named tuple: making one takes longer than all else here, and the hook starts anew for every event.
    __slots__ = ("first", "join", "name", "named", "start", "text", "value")

    def __init__(self, text: str, start: int, name: str, named: Named, found: re.Match[str]) -> None:
        self.text, self.start, self.name, self.named = text, start, name, named
        self.join, self.first = found["join"], found.start("bare")
        self.value = found["bare"].partition(OPENING)[0]


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
_LOGIN = lazy(
    r"""(?: (?P<sure>machine\s+\S+\s+|default\s+(?=login)) (?:login\s+\S+\s+)? (?:account\s+\S+\s+)?
          | (?:login|username)\s+\S+\s+ )\Z""",
    re.X,
)
#: Names behind which talk may say the password at once.
_SPOKEN = frozenset("password passwd passwort kennwort passphrase passcode wachtwoord senha heslo".split())
#: The further lines of a block: what a machine wrote is often wrapped.
_BLOCK = lazy(r"(?:\r?\n[ \t]{1,40}[A-Za-z0-9+/=_-]{16,512}(?=[ \t]{0,4}(?:\r?\n|\Z))){1,200}")
#: What may stand between a password and where talk mentions it.
_TOLD = lazy(
    r"""(?: (?:[ ][\w.@'()/-]{0,40}[\w')]){1,6} (?::[ \t]{0,4}\s{1,8}|[ ]is[ ]{1,4})
          | [ ](?:set[ ]|changed[ ]|reset[ ])?(?:to|from|as)[ ]{1,4} ) ["'`]? ([^\s"'`<>\\]{8,256})""",
    re.X,
)
#: What separates an unquoted value from what follows it on the line.
_ENDS = lazy(r"[&;,)\]}|]")
#: What a command, or a list of settings in a line, looks like up to a name within it.
_WITHIN = lazy(
    r"(?:[ \t]-{1,2}[A-Za-z][\w-]*(?:[ \t=](?!and[ ]|or[ ])\S+)?[ \t=]+[\"']?|[\w.-]=[^\s,()]+[ \t]+)"
    r"(?:[\w.-]{1,40}=[^\s,()]{0,100},){0,20}(?:[\w-]+\.)*\Z"
)
#: The end of a line, a quote, a comment or the next option: nothing of the value can follow.
_NEXT = lazy(r"[ \t]*(?:\r?\n|\Z|\\[nr]|-{1,2}\w|#|\\?[\"'`])")


def bare(text: str, start: int, name: str, named: Named, found: re.Match[str]) -> Span | None:
    """The secret that stands without quotes behind the name that begins at `start`."""
    it = Bare(text, start, name, named, found)
    joined = it.join.strip()
    if named.kind == BASIC:
        return _span(it, it.value) if joined and is_basic(it.value) else None
    if joined == "|" and not _is_row(it):
        return None
    if it.value.endswith(":") or it.value.lower() in _SCHEMES:
        led = _led(it)
        if led or classify(it.value[:-1]).kind:
            return led
    if "\n" in it.join and not it.join.endswith(">"):
        return _below(it)
    if not joined and not name.startswith("--"):
        return _spaced(it)
    return _joined(it, joined)


def is_shell(name: str, join: str) -> bool:
    """`NAME=` is how shells and .env files set variables, whose values are text and never code."""
    return join == "=" and name.isupper()


def is_set(text: str, start: int, *further: str) -> bool:
    """Whether a command stands before the name by which a Dockerfile or a shell sets it to what follows."""
    before = text[max(0, start - _COMMAND) : start].split("\n")[-1].split(" ")
    if len(before) < 2 or before.pop():
        return False
    while before and before[-1].startswith("-"):  # options: `set -gx NAME value`
        before.pop()
    return bool(before) and before[-1] in (*_SETTERS, *further)


def _span(it: Bare, value: str) -> Span:
    return it.first, it.first + len(value), it.named.kind


def _is_text(value: str) -> bool:
    """Whether the value is neither code nor a path nor a word that only names a secret."""
    return is_literal(value) and not is_code(value) and not is_path(value)


def _is_row(it: Bare) -> bool:
    """Whether the name stands in a table, whose lines begin with a bar."""
    line = it.text.rfind("\n", max(0, it.start - _LINE), it.start)
    return (line >= 0 or it.start <= _LINE) and it.text[line + 1 : it.start].lstrip().startswith("|")


def _led(it: Bare) -> Span | None:
    """The value behind another name or a scheme that stands in its place."""
    found = _LED().match(it.text, it.first)
    if not found or not is_random(found["value"]) or is_reference(found["value"]):
        return None
    # What looks like a name may be half of the secret.
    start = it.first if is_mixed(it.value.rstrip(":")) else found.start("value")
    return start, found.end("value"), it.named.kind


def _below(it: Bare) -> Span | None:
    """A value on the line below its name, alone there; in a block of YAML it is nothing but text."""
    last = it.first + len(it.value)
    if not _NEXT().match(it.text, last) or not _is_text(it.value):
        return None
    block = "|" in it.join or ">" in it.join
    if not is_random(it.value) and not (block and _is_mixed_secret(it.named, it.value)):
        return None
    more = _BLOCK().match(it.text, last) if block else None
    return it.first, more.end() if more else last, it.named.kind


def _is_mixed_secret(named: Named, value: str) -> bool:
    return named.sure and len(value) >= 6 and is_mixed(value)


def _spaced(it: Bare) -> Span | None:
    """A value after a mere space: one that a command sets, a password in .netrc or in talk."""
    value = it.value.rstrip(".,;:)]}")
    if len(value) < 3 or value.isdigit() or not _is_text(value):
        return _told(it)
    if is_set(it.text, it.start) and (it.name.isupper() or is_random(value)):
        # `ENV DB_PASSWORD swordfish`: nothing else follows a plain word.
        secret = is_mixed(value) or (it.name.isupper() and bool(_NEXT().match(it.text, it.first + len(value))))
    else:
        secret = _is_mentioned(it, value) or (it.named.kind == "password" and _is_login(it, value))
    return _span(it, value) if secret else _told(it)


def _told(it: Bare) -> Span | None:
    """A password that talk tells some words later: "the password for the database is …", "password set to …"."""
    if it.named.kind != "password" or not it.named.sure:
        return None
    found = _TOLD().match(it.text, it.first - len(it.join))
    value = found[1].rstrip(".,;)]}") if found else ""
    if not found or not is_random(value) or not _is_text(value):
        return None
    return found.start(1), found.start(1) + len(value), it.named.kind


def _is_mentioned(it: Bare, value: str) -> bool:
    """Whether talk names a password and then says it, "use the password …", or a command a key: `secret_key …`."""
    if not is_random(value):
        return False
    if it.named.kind == "password":
        plain = value[0] not in "(&#" and "%" not in value  # no part of a page, nor of a text with places to fill
        return plain and (it.name.lower() in _SPOKEN or not it.name.isascii())
    letters = value.replace("/", "").replace("+", "").rstrip("=")
    return it.named.sure and "_" in it.name and len(value) >= 20 and letters.isalnum()


def _is_login(it: Bare, value: str) -> bool:
    """Whether the user stands before the password, as in .netrc; talk of a login may, too."""
    login = _LOGIN().search(it.text, max(0, it.start - 120), it.start)
    if login is None or it.name == "pass":
        return False
    return bool(login["sure"]) or (is_mixed(value) and value[0] != "(")


def _default(it: Bare) -> Span | None:
    """What a shell takes if the variable is not set: `${DB_PASSWORD:-…}`."""
    value = it.value[1:].partition("}")[0]
    secret = len(value) >= 3 and _is_text(value) and (is_random(value) or it.named.kind == "password")
    return (it.first + 1, it.first + 1 + len(value), it.named.kind) if secret and it.named.sure else None


def _joined(it: Bare, joined: str) -> Span | None:
    """A value behind a sign or a verb that joins it to its name, or behind an option."""
    if it.join == ":" and it.value.startswith(("-", "=")) and it.text[max(0, it.start - 2) : it.start] == "${":
        return _default(it)
    shell = is_shell(it.name, it.join)
    value = _trimmed(it, shell)
    if len(value) < 3 or not _is_text(value):
        return None
    if value.isdigit():
        secret = _is_number(it.named, joined, value) or (shell and len(value) >= 4)
    elif it.join.endswith((">", "[CDATA[")):
        secret = _is_element(it, value)
    else:
        secret = shell or _is_secret(it, joined, value)
    return _span(it, value) if secret else None


def _trimmed(it: Bare, shell: bool) -> str:
    """The value without what ends the sentence, the list or the parameter in which it stands."""
    if shell:
        return it.value.rstrip(";,)")
    if it.join == "=":
        return _ENDS().split(it.value, maxsplit=1)[0]
    return it.value.rstrip(".,;)]}" if _is_verb(it.join.strip()) else ",;)]}")


def _is_verb(joined: str) -> bool:
    """Whether plain talk joins the value: "the password is …", "das Passwort ist …"."""
    return joined[:1].isalpha()


def _is_number(named: Named, joined: str, value: str) -> bool:
    """Whether digits alone are a password: not a port, a count or a year."""
    return named.kind == "password" and named.sure and len(value) >= 6 and joined in (":", "=")


def _is_element(it: Bare, value: str) -> bool:
    """Whether this is all that an element of XML holds."""
    if not it.text.startswith(("</", "]]></"), it.first + len(value)):
        return False
    # `<property name="…password">`; texts to be shown are named that way, too.
    return it.text[it.start - 1 : it.start] == "<" or it.join != ">" or is_random(value)


def _is_secret(it: Bare, joined: str, value: str) -> bool:
    """A bare value is often code or talk, so it must look like a secret, or stand where only a value can."""
    if _is_verb(joined):
        return _is_told(it.named, value)
    before, alone = _before(it), _is_alone(it, it.first + len(value))
    if before == "--" and _is_argument(it, value, alone):
        return True
    if joined == "=" and before in ("?", "&", ";"):
        return it.named.sure or len(value) >= 6
    if not joined or not it.named.sure:
        return bool(joined) and is_random(value)
    if it.named.kind != "password":
        return _is_mixed_secret(it.named, value)
    return is_mixed(value) or (alone and value.islower() and _opens_entry(it, joined, value))


def _is_argument(it: Bare, value: str, alone: bool) -> bool:
    """Whether the option before it is given this value, and not only spoken of."""
    if it.join == "=" and it.named.kind == "password" and value.islower():
        return True
    return (it.named.sure or len(value) >= 8) and (alone or is_mixed(value))


def _before(it: Bare) -> str:
    """The character before the name; `--` if the name is an option."""
    if it.name.startswith("--"):
        return "--"
    escape = it.text[max(0, it.start - 2) : it.start]
    return escape if escape in ("\\n", "\\t") else escape[-1:]


def _is_told(named: Named, value: str) -> bool:
    """Whether plain talk tells it: "the password is …"."""
    talked = named.kind == "password" and is_mixed(value) and len(value) >= 6
    return talked or (is_random(value) and len(value) >= 16)


def _opens_entry(it: Bare, joined: str, value: str) -> bool:
    """Whether the name opens a line, a setting or an argument, so that a plain word behind it is its value."""
    before = _before(it)
    if before in ("'", '"') and it.text.startswith(("\\n", "\\r"), it.first + len(value)):
        return True  # in a string that goes on with another line
    return before in ("", "\n", " ", "\t", ".", "\\n", "\\t") or (joined == "=" and before in ("=", "'", '"', ":", ","))


def _is_alone(it: Bare, last: int) -> bool:
    """Whether nothing follows the value, or only more of a command or of a connection's settings: so it is no code."""
    if _NEXT().match(it.text, last):
        return True
    if it.text[last : last + 1] not in (" ", "\t", ","):
        return False
    return bool(_WITHIN().search(it.text[max(0, it.start - _LINE) : it.start].rpartition("\n")[2]))
