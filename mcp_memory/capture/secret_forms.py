"""Secrets that are told by their form alone: keys of services, addresses with a password, hashes of passwords.

A rule is looked at only when the text holds its trigger; most texts hold none.
"""

from __future__ import annotations

import re

from mcp_memory.capture.marks import replace_spans
from mcp_memory.capture.patterns import grouped, lazy
from mcp_memory.capture.secret_values import is_mixed, is_random, is_reference
from mcp_memory.capture.vendor_keys import KEYS, OTHER_KEYS, SHORTEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    _Rule = tuple[str, str, Callable[[], re.Pattern[str]]]

_IN_ADDRESS = r"https?://([\w.~%+-]{20,256})(?=:?[^\s/@]{0,256}@)"
#: The password follows the letter without a space; after one, the name of a database would.
_MYSQL = r"(?:mysql|mariadb)[\w-]*[ \t](?:[^\r\n|;&]{0,200}?[ \t])?-p['\"]?([^\s'\"]{3,200})"
_SAML = r"""SAMLRe(?:sponse|quest)(?:=|\\{0,7}["'](?:\s{1,4}value=|:\s?)\\{0,7}["'])([A-Za-z0-9+/%]{40,}={0,2})"""
#: Kind, trigger, expression; what its first group holds is the secret, the rest stays.
_SHAPES = (
    ("slack-webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{16,})"),
    ("discord-webhook", "/api/webhooks/", r"/api/webhooks/\d{5,20}/([\w-]{30,})"),
    ("telegram-token", ":AA", r":(?<=\d{8}:)(AA[\w-]{32,})"),
    ("digitalocean-token", "_v1_", r"(do[opr]_v1_[a-f0-9]{40,}(?![A-Za-z0-9]))"),
    ("terraform-token", ".atlasv1.", r"(?:(?<=[A-Za-z0-9]{14})(?=\.atlasv1))(\.atlasv1\.[\w-]{60,})"),
    ("azure-secret", "Q~", r"Q~(?<=\dQ~)([\w~.-]{31,34})(?![A-Za-z0-9])"),
    ("azure-token", "AZDO", r"(?<![A-Za-z0-9])([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})(?![A-Za-z0-9])"),
    ("azure-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{20,}={0,2})"),
    ("azure-key", "SharedAccessKey=", r"SharedAccessKey=([A-Za-z0-9+/]{20,}={0,2})"),
    ("azure-signature", "&sig=", r"&sig=([A-Za-z0-9%+/_-]{30,}=?)"),
    ("azure-signature", "?sig=", r"\?sig=([A-Za-z0-9%+/_-]{30,}=?)"),
    ("azure-signature", "&amp;sig=", r"&amp;sig=([A-Za-z0-9%+/_-]{30,}=?)"),
    ("azure-key", "?code=", r"[?]code=([A-Za-z0-9%/+_-]{40,}(?:={1,2}|%3D){0,2})"),
    ("signature", "Signature=", r"[?&;](?:X-Amz-|X-Goog-)?Signature=([A-Za-z0-9%+/_~-]{20,}={0,2})"),
    ("teams-webhook", ".office.com/webhook", r"\.office\.com/webhook(?:b2)?/([\w@/-]{36,})"),
    ("webhook", "hooks.zapier.com", r"hooks\.zapier\.com/hooks/catch/\d{4,}/(\w{5,})"),
    ("webhook", "/bot/v2/hook/", r"/open-apis/bot/v2/hook/([\w-]{20,})"),
    ("webhook", "/webhook/send?key=", r"/webhook/send\?key=([\w-]{20,})"),
    ("cookie", "SESSI", r"(?:JSESSIONID|PHPSESSID)=([A-Za-z0-9.!_-]{16,})"),
    ("saml", "SAMLRe", _SAML),
    ("password", " -p", _MYSQL),
)

#: What an address may hold before its @. The last one before the path ends the password, which may itself hold one; a
#: port is none. If that leaves a host that is none, the password holds a slash as well, and ends before one that is. A
#: token may stand in the place of the user, where a name is shorter or made of words.
_USER = r"://[^\s/:@?#\"'`<>()\[\]{}]{0,100}:"
_HOST = (
    r"(?:[\w-]{1,60}(?:\.[\w-]{1,60})+|localhost|\[[\da-f:]+\])(?::\d{1,5})?"
    r"|[\w-]{1,60}(?::\d{1,5}(?!\d)|(?=[/?\"'\s]|\Z))"
)
_SLASHED = (
    _USER
    + r"(?!/|\d{1,5}[/?#])([^\s\"'`<>,|(){}\[\]]{1,200}/[^\s\"'`<>,|(){}\[\]/]{0,100})@(?:"
    + _HOST
    + r")(?![\w.@-])"
)
_ADDRESSES = (
    ("password", lazy(_SLASHED, re.ASCII)),
    ("password", lazy(_USER + r"(?!\d{1,5}[?#])([^\s/\"'`<>]{1,256})@", re.ASCII)),
    ("token", lazy(_IN_ADDRESS, re.ASCII)),
)
#: Hashes of passwords, as in /etc/shadow or a table of users: they can be tried out at leisure.
_HASH = lazy(
    r"""\$ ( (?: 2[abxy] \$\d\d \$[./A-Za-z0-9]{53}
             | (?:[1567]|g?y|apr1) (?:\$rounds=\d{1,9})? (?:\$[./A-Za-z0-9]{1,64}){1,2} \$[./A-Za-z0-9]{22,}
             | argon2(?:id|i|d) \$v=\d+ \$[\w=,]{1,60} \$[A-Za-z0-9+/]{8,} \$[A-Za-z0-9+/]{16,} ) )""",
    re.X | re.ASCII,
)

#: A short prefix must not be the end of a word, unless what stands before is an escape: \n, %3D or a colour.
_BEFORE = r"(?:(?<![{0}]{1})|(?<=\\[nrtbf]{1})|(?<=%[0-9A-Fa-f][0-9A-Fa-f]{1})|(?<=[\[;]\dm{1})|(?<=[\[;]\d\dm{1}))"
#: From this length on a prefix is found inside words, too: no word holds it.
_DISTINCT = 6
#: What most of a text is made of. Without it a text is an eighth as long; if it holds a trigger, what is left of it
#: holds what is left of the trigger, which is faster to rule out.
_COMMON = b" \n\t\"'`(),/:;|+>*#%[]{}345678abcdefghilmnopqrstuvw"

#: How a private key in base 64 begins.
_ENCODED = "LS0tLS1CRUdJTi"
#: No token of a Discord bot is shorter.
_BOT_TOKEN = 22 + 1 + 6 + 1 + 27
#: What is as long as the shortest of these keys, and of their characters, is rare: only that is looked through.
_RUN = b"a" * SHORTEST
_FLAT = bytes(97 if code < 128 and (chr(code).isalnum() or chr(code) in "_.-") else 32 for code in range(256))


def _key(prefix: str, body: str) -> Callable[[], re.Pattern[str]]:
    # The prefix comes first, what must stand before it is looked back at: the search for a literal is fast.
    before = "" if len(prefix) >= _DISTINCT else _before(prefix, "A-Za-z0-9")
    return lazy("(" + re.escape(prefix) + before + body + ")", re.ASCII)


def _before(prefix: str, word: str) -> str:
    return _BEFORE.replace("{0}", word).replace("{1}", re.escape(prefix))


def _runs(narrow: str) -> str:
    """The long runs of what keys are made of."""
    flat = narrow.encode("latin-1").translate(_FLAT)
    found, start = [], flat.find(_RUN)
    while start >= 0:
        end = flat.find(b" ", start)
        found.append(narrow[start:end] if end >= 0 else narrow[start:])
        start = flat.find(_RUN, end) if end >= 0 else -1
    return " ".join(found)


def _rare(narrow: str) -> str:
    return narrow.encode("latin-1").translate(None, _COMMON).decode("latin-1")


#: Every character of a JWT counts as one of its word, so that a long run of such words is read once.
_JWT = lazy("(eyJ" + _before("eyJ", r"\w-") + r"[\w-]{8,}\.[\w-]{8,}\.[\w-]*)", re.ASCII)
_IN_RUNS = grouped(
    [*((prefix, kind, _key(prefix, body)) for kind, prefix, body in KEYS), ("eyJ", "jwt", _JWT)],
    ("sk", "gl", "AK", "sq", "hv", "pat", "sb", "dp", "re_"),
)
_RULES = [
    (_rare(shared), rules)
    for shared, rules in grouped(
        [
            *((prefix, kind, _key(prefix, body)) for kind, prefix, body in OTHER_KEYS),
            *((trigger, kind, lazy(expression, re.ASCII)) for kind, trigger, expression in _SHAPES),
        ],
        ("Key=",),
    )
]


def redact_forms(text: str, narrow: str) -> str:
    """Take out what is told by its form. `narrow` is the text in Latin-1, and may hold what was taken out before."""
    runs = _runs(narrow)
    if _ENCODED in runs:
        from mcp_memory.capture.key_blocks import redact_encoded_keys

        text = redact_encoded_keys(text)
    if "." in runs and len(runs) >= _BOT_TOKEN:
        from mcp_memory.capture.bot_tokens import redact_bot_tokens

        text = redact_bot_tokens(text, runs)
    for kind, pattern in _patterns(narrow, runs):
        text = _replace(text, pattern(), kind)
    return text


def _patterns(narrow: str, runs: str) -> Iterator[tuple[str, Callable[[], re.Pattern[str]]]]:
    """The kinds and expressions of those secrets that the text may hold, going by their triggers."""
    if runs:
        yield from _triggered(_IN_RUNS, runs, runs)
    yield from _triggered(_RULES, _rare(narrow), narrow)
    if "@" in narrow and "://" in narrow:
        yield from _ADDRESSES
    if "$" in narrow:
        yield "password-hash", _HASH


def _triggered(
    groups: list[tuple[str, list[_Rule]]], reduced: str, narrow: str
) -> Iterator[tuple[str, Callable[[], re.Pattern[str]]]]:
    """Those rules of which the sign of their group and their own trigger are found."""
    for sign, rules in groups:
        if sign in reduced:
            for trigger, kind, pattern in rules:
                if trigger in narrow:
                    yield kind, pattern


def _replace(text: str, pattern: re.Pattern[str], kind: str) -> str:
    spans = [(*found.span(1), kind) for found in pattern.finditer(text) if _is_shaped(found)]
    return replace_spans(text, spans)


def _is_shaped(found: re.Match[str]) -> bool:
    """Whether the form is enough, or what stands in it looks like a secret where the form alone does not tell."""
    value, form = found[1], found.re.pattern
    if is_reference(value):
        return False
    if form is _SLASHED:
        return _is_slashed(found)
    if form is _MYSQL:
        # Behind a user it is a password whatever it looks like, unless containers publish a port by it.
        return is_mixed(value) or (" -u" in found[0] and bool(value.strip("0123456789.:")))
    return form is not _IN_ADDRESS or is_random(value)


def _is_slashed(found: re.Match[str]) -> bool:
    """Whether an address has a password with a slash, and not a path with an @."""
    value = found[1]
    first, _, rest = value.partition("/")
    if "@" in first:
        # What follows the first @ may be the host after all, with another @ in the path.
        host = first.rpartition("@")[2]
        return "." not in host and ":" not in host and host != "localhost"
    return any(map(str.isdigit, value)) and not first.isupper() and "://" not in value and bool(rest or first)
