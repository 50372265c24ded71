"""Secrets that no name announces, but the command or call they are handed to: `sshpass -p …`, `Credential("u", "…")`.

A command is looked for first, in the lower-cased text, and only where one stands is its expression tried.
"""

from __future__ import annotations

import re

from mcp_memory.capture.marks import replace_spans
from mcp_memory.capture.patterns import grouped, lazy
from mcp_memory.capture.secret_names import WORDS
from mcp_memory.capture.secret_values import is_code, is_literal, is_mixed, is_path, is_random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    _Rule = tuple[tuple[str, ...], str, bool | None]
    _Sought = tuple[str, Callable[[], re.Pattern[str]], bool | None]

#: What may stand between a command and its option: the rest of the line, and lines that go on after a backslash.
_ON = r"\b(?:[^\r\n|;&\\]|\\[^\r\n]|\\\r?\n){0,300}?[ \t]"
_WORD = r"""["']?((?<=["'])[^"'\r\n]{3,256}|[^\s"'|;&<>]{3,256})"""
_TEXT = r"""(["'])((?:(?!\1)[^\r\n]){3,256})"""
#: A recovery code, and perhaps the number it has in a list.
_CODE = r"(?:[-*][ ]|\d{1,2}[.)][ ])?(?=[a-z-]{0,12}[0-9])[a-z0-9]{4,8}(?:-[a-z0-9]{4,8}){1,3}"


def _option(letters: str) -> str:
    """What follows one of these options, with a space or without."""
    return _ON + r"(?-i:" + letters + r")[ \t=]{0,4}" + _WORD


def _login(option: str) -> str:
    """The password of a user, where both are given as one word."""
    return _ON + r"(?:" + option + r")[ \t=]{0,4}[\"']?[^\s:'\"$]{1,100}:([^\s'\"$\[][^\s'\"]{0,200})"


#: How the command begins, in lower case; what follows it; whether the secret must look like one, if that matters.
#: First those whose option begins with a p.
_WITH_P: tuple[_Rule, ...] = (
    (("sshpass",), _option("-p"), False),
    (
        tuple(
            f"{tool} login" for tool in ("docker", "podman", "nerdctl", "buildah", "skopeo", "oras", "registry", "az")
        ),
        _option("-p"),
        False,
    ),
    (("mongo",), r"(?:sh|dump|restore|export|import|stat|top)?" + _option("-p"), True),
    (("sqlcmd", "bcp"), _option("-P"), False),
    (("zip",), _option("-P"), True),
    (("7z",), r"a?" + _option(r"-p(?=\S)"), True),
    (("twine upload", "psexec"), _option("-p"), False),
    ((" -pass", " -passin", " -passout"), r"[ \t]+[\"']?pass:([^\s'\"]{3,256})", False),
)
_COMMANDS: tuple[_Rule, ...] = (
    (("redis-cli",), _option("-a"), False),
    (("ldap",), r"(?:search|modify|add|delete|passwd|whoami)" + _option("-w"), False),
    (("htpasswd",), r"[ \t]+-\w*b\w*[ \t]+\S{1,200}[ \t]+\S{1,100}[ \t]+" + _WORD, False),
    (("smbclient", "rpcclient"), _ON + r"-U[ \t=]?[\"']?[^\s%'\"]{1,100}%([^\s'\"]{3,200})", False),
    ((" -storepass", " -keypass", " -srcstorepass", " -deststorepass"), r"[ \t]+" + _WORD, False),
    (("curl",), _login(r"-[A-Za-z]{0,6}u|--user|--proxy-user"), False),
    (("curl",), _ON + r"(?:-b|--cookie)[ \t=]{0,4}[\"']?([\w.-]{1,80}=[^\s'\"]{8,512})", True),
    (("http",), r"s?(?=[ \t])" + _login(r"-a|--auth"), False),
    (("secret set", "secret put"), _ON + r"(?:-b|--body|--value)[ \t=]{0,4}" + _WORD, False),
    (("openssl enc", "openssl aes"), _option("-k"), True),
    (("openssl passwd",), r"(?:[ \t]+-(?:salt[ \t]+\S{1,40}|\w{1,8}))*[ \t]+" + _WORD, True),
    (("--with-token",), r"[ \t]*<<<[ \t]*" + _WORD, False),
)
_CALLS: tuple[_Rule, ...] = (
    (("requirepass ", "bindpw ", "rootpw ", "masterauth "), r"[ \t]*(?=\S{0,40}\d)" + _WORD, True),
    (("_authtoken ",), r"[ \t]*" + _WORD, True),
    (("wpa_passphrase",), r"[ \t]+\S{1,60}[ \t]+" + _WORD, True),
    (("set password for",), r"[^\r\n]{1,100}=[ \t]*(?:password\()?['\"]([^'\"\r\n]{1,200})", False),
    (("poetry config http-basic.",), r"\S{1,80}[ \t]+\S{1,100}[ \t]+" + _WORD, False),
    (("jdbc:oracle:",), r"\w{2,6}:[\w$#]{1,60}/([^\s@/\"']{3,128})@", False),
    (("convertto-securestring",), r"[ \t]+(?:-String[ \t]+)?" + _TEXT, False),
    (
        ("credential(", "credentials("),
        r"[ \t]{0,4}(?:\"[^\"\r\n]{0,100}\",\s{0,20}){1,3}\"([^\"\r\n]{3,256})\"",
        True,
    ),
    (("auth=(", "auth = ("), r"[ \t]{0,4}[\"'][^\"'\r\n]{1,100}[\"'],\s{0,20}[\"']([^\"'\r\n]{3,256})[\"']", True),
    (("identified by",), r"[ \t]+(?:password[ \t]+)?['\"]([^'\"\r\n]{1,200})", False),
    (("identified with",), r"[ \t]+\S{1,60}[ \t]+by[ \t]+['\"]([^'\"\r\n]{1,200})", False),
    (
        ("mnemonic", "seed phrase", "seed_phrase"),
        r"(?:[ ](?:is|was))?\W{1,12}((?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})(?![a-z])",
        None,
    ),
)


#: A text longer than this is looked through for the following only if it holds one of the `WORDS`, too.
_SHORT = 400
_BESIDE_WORDS: tuple[_Rule, ...] = (
    (
        (".login(", "basicauth(", "basic_auth(", "db.auth("),
        r"[ \t]{0,4}(?:[\w.]{1,60},\s{0,4})?(?:[\"'][^\"'\r\n]{0,100}[\"'],\s{0,20}){1,2}[\"']([^\"'\r\n]{3,256})[\"']",
        True,
    ),
    (("recovery code",), r"s?:\s{1,8}(" + _CODE + r"(?:[\s,]{1,8}" + _CODE + r"){0,30})(?![\w-])", None),
)
#: What several commands have in common: where that is missing, none of them is there.
_SHARED = ("pass", "login", "secret", "token", "credential", "auth", "pw", "identified", "phrase", "client", "openssl")


def _sought(rules: Sequence[_Rule]) -> list[tuple[str, list[_Sought]]]:
    patterns = [(words, lazy(expression, re.I), strict) for words, expression, strict in rules]
    return grouped([(word, pattern, strict) for words, pattern, strict in patterns for word in words], _SHARED)


#: What takes a password from its input, and how one is piped into it: looked for backwards from the taker's name.
_TAKERS = (
    ("pass", "--password-stdin"),
    ("pass", "chpasswd"),
    ("token", "--with-token"),
    ("secret", "secret put"),
    ("secret", "secret set"),
    ("secret", "secret create"),
    ("", "sudo -s "),
)
_PIPED = lazy(
    r"(?:echo|printf)[ \t]+(?:-\w+[ \t]+|[\"']?%s(?:\\n)?[\"']?[ \t]+)?" + _WORD + r"[\"']?[ \t]*\|[^\r\n|]{0,120}\Z",
    re.I,
)
_LONGEST_PIPE = 400

_OF_P, _OF_OTHERS, _WITHOUT, _BESIDE = map(_sought, (_WITH_P, _COMMANDS, _CALLS, _BESIDE_WORDS))


def redact_commands(text: str, low: str, words: frozenset[str]) -> str:
    """Take out what is handed to commands as a password. `low` is the text in lower case, character for character, and
    `words` are those of `WORDS` that it holds."""
    spans = [*_spans(text, low, words, _WITHOUT), *_piped(text, low, words)]
    if words or len(text) < _SHORT:
        spans += _spans(text, low, words, _BESIDE)
    if " -" in low or "\t-" in low:
        spans += _spans(text, low, words, _OF_OTHERS)
        spans += _spans(text, low, words, _OF_P) if " -p" in low or "\t-p" in low else ()
    return replace_spans(text, spans) if spans else text


def _spans(
    text: str, low: str, words: frozenset[str], groups: Sequence[tuple[str, Sequence[_Sought]]]
) -> Iterator[tuple[int, int, str]]:
    for sign, rules in groups:
        if sign in words or (sign not in WORDS and sign in low):
            for word, pattern, strict in rules:
                if word in low:
                    yield from _handed(text, low, word, pattern(), strict)


def _piped(text: str, low: str, words: frozenset[str]) -> Iterator[tuple[int, int, str]]:
    """What is written into a command that reads a password: `echo … | docker login --password-stdin`."""
    for sign, taker in _TAKERS if "|" in low else ():
        position = low.find(taker) if not sign or sign in words else -1
        while position >= 0:
            first = max(0, position - _LONGEST_PIPE)
            first = max(first, low.rfind("\n", first, position) + 1)
            found = _PIPED().search(text[first:position])
            if found and _is_secret(found[1], False):
                yield first + found.start(1), first + found.end(1), "password"
            position = low.find(taker, position + 1)


def _handed(
    text: str, low: str, word: str, pattern: re.Pattern[str], strict: bool | None
) -> Iterator[tuple[int, int, str]]:
    position = low.find(word)
    while position >= 0:
        behind = position + len(word)
        found = pattern.match(text, behind)
        if found and _is_secret(found[pattern.groups], strict):
            yield (*found.span(pattern.groups), "password")
            behind = found.end()
        position = low.find(word, behind)


def _is_secret(value: str, strict: bool | None) -> bool:
    if strict is None:
        return True
    if value.startswith(("-", "\\")) or not is_literal(value) or is_path(value) or is_code(value):
        return False
    return (is_mixed(value) or is_random(value)) if strict else bool(value.strip("0123456789.:"))
