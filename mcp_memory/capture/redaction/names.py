"""Which names announce a secret, `DB_PASSWORD` and `пароль` but not `token_count`, and what joins them to a value."""

from __future__ import annotations

import os
import re
from collections import namedtuple
from functools import lru_cache

from mcp_memory.capture.settings import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NamedTuple

    class Named(NamedTuple):
        """The kind of secret a name announces, or none. A `sure` name is one that is hardly used for anything else."""

        kind: str
        sure: bool
else:
    Named = namedtuple("Named", "kind sure")


def sections(name: str) -> dict[str, list[str]]:
    """The sections of a file beside this one, each with its lines; the file says itself what it holds."""
    found: dict[str, list[str]] = {}
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        for line in file:
            if line[0] == "[":
                rows = found[line.strip("[]\n")] = []
            elif line[0] not in "#\n":
                rows.append(line)
    return found


WORD_LISTS = sections("words.txt")


def word_list(name: str) -> frozenset[str]:
    """The words of one list."""
    return frozenset(" ".join(WORD_LISTS[name]).split())


def beyond_ascii(text: str) -> str:
    """The characters of a text that are not ASCII, in lower case: mostly few, and soon looked through."""
    return "" if text.isascii() else text.encode("utf-8", "replace").translate(None, ASCII).decode("utf-8").lower()


ASCII = bytes(range(128))
OPENING = "[redacted:"
NOT_SECRET = Named("", False)
#: One of these stands in every name that announces a secret, and in the names of many commands that take one. Each is
#: looked for once in a text, in lower case; of two that announce one value, the first tells its kind.
WORDS = ("pass", "pw", "psk", "token", "key", "cred", "auth", "_pat", "secret")
#: The kind of what is called `auth`, which may be anything: it is a secret if it is a user and a password in base 64.
BASIC = "authorization"
#: The kind of what is called some key: only a value that a machine made up counts.
KEY = "key"

_WORDS = lazy(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NEUTRAL, _SHOWN, _TOKEN_OF = word_list("neutral"), word_list("shown"), word_list("token of")
_DIRECTORY_OF, _PROGRAM_PASS = word_list("directory of") | _SHOWN, word_list("program pass")
_KEY_OF, _PERHAPS_KEY_OF, _NO_KEY_OF = word_list("key of"), word_list("perhaps key of"), word_list("no key of")
_PASSWORDS, _NO_KEYS = tuple(word_list("passwords")), tuple(word_list("no keys"))


@lru_cache(maxsize=4096)
def classify(name: str) -> Named:
    """What the name of a variable, field, option or header announces."""
    if OPENING in name:
        return NOT_SECRET
    words = [word.lower() for word in _WORDS().findall(name[-80:])]
    while words and (words[-1] in _NEUTRAL or words[-1].isdigit()):
        words.pop()
    if not words:
        return NOT_SECRET
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last.endswith(_PASSWORDS) or (last == "passe" and before == "de"):
        return Named("password", before not in _SHOWN)
    if last in ("pass", "pw", "psk", "pwd"):
        # Alone these may be what a test did, the width of a page, or the directory at hand; a pass, one over a program.
        others = {"pass": _PROGRAM_PASS, "pwd": _DIRECTORY_OF}.get(last, ())
        return Named("password", bool(before) and last != "psk" and before not in others)
    if last.endswith("pw"):
        return Named("password", True)
    if last.endswith("secret"):
        return Named("secret", bool(before) or last != "secret")
    if last.endswith("token"):
        return NOT_SECRET if before in _TOKEN_OF else Named("token", bool(before) or last != "token")
    if last.endswith("key"):
        return _key(last, before)
    if last == "auth" and not name.startswith("_"):
        return Named(BASIC, False)
    if last in ("credential", "credentials", "creds", "auth"):
        return Named("credential", False)
    return Named(KEY, False) if last == "pat" and before else NOT_SECRET


def _key(last: str, before: str) -> Named:
    if last == "key" and before in _KEY_OF:
        return Named("private-key" if before == "private" else "api-key", True)
    if last == "key" and before in _PERHAPS_KEY_OF:
        return Named("api-key", False)
    if last.endswith(("apikey", "accesskey", "secretkey", "privatekey")):
        return Named("api-key", True)
    if last.endswith(_NO_KEYS) or before in _NO_KEY_OF:
        return NOT_SECRET
    return Named(KEY, bool(before) or last != "key")


def is_shell(name: str, join: str) -> bool:
    """`NAME=` is how shells and .env files set variables, whose values are text and never code."""
    return join == "=" and name.isupper()


@lru_cache(maxsize=4096)
def name_of_list(name: str) -> Named:
    """What the items of a list are, by its name: that of one of them, or of several."""
    named = classify(name)
    if not named.kind and name[-1:] in ("s", "S"):
        named = classify(name[:-1])
    return NOT_SECRET if named == Named(KEY, False) else named


#: What passwords, keys and tokens are called in other languages.
FOREIGN = tuple(
    (word.replace("_", " "), Named(kind, sure == "sure"))
    for kind, sure, *words in map(str.split, WORD_LISTS["foreign"])
    for word in words
)
#: Up to this length a text is looked through for these even if it holds no letter of theirs.
TALK = 400
NAME_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"


def start_of_name(text: str, position: int) -> int:
    """Where the name begins that goes on at this place."""
    window = text[max(0, position - 60) : position]
    start = position - (len(window) - len(window.rstrip(NAME_CHARS)))
    # The first letter may be that of an escaped line end or tabulator.
    return start + 1 if start < position and text[start - 1 : start + 1] in ("\\n", "\\t", "\\r") else start


#: How a key is called that plain talk writes apart from what it is for: an `api key`.
APART = ("key", "Key", "KEY", "keys", "Keys", "KEYS")


def apart(text: str, start: int, end: int) -> tuple[int, Named]:
    """What a key is that talk writes apart: an api key, a secret key. So many things are keys that none is sure."""
    first = start_of_name(text, start - 1) if text[start - 1 : start] == " " else start
    return first, Named(classify(text[first:end]).kind, False)


#: How far before a name its command is looked for.
COMMAND = 40
#: What comes before a name whose value follows it after a mere space.
_SETTERS = ("ENV", "env", "setx", "SETX", "setenv", "set", "SET", "%define", "define")


def is_set(text: str, start: int, *further: str) -> bool:
    """Whether a command stands before the name by which a Dockerfile or a shell sets it to what follows."""
    before = text[max(0, start - COMMAND) : start].split("\n")[-1].split(" ")
    if len(before) < 2 or before.pop():
        return False
    while before and before[-1].startswith("-"):  # options: `set -gx NAME value`
        before.pop()
    return bool(before) and before[-1] in (*_SETTERS, *further)


#: What a name is followed by: a verb like `is`. Those of the second are written without spaces.
_IS = "(?:is|was|ist|war|est|es|é|era|è|jest|je|är|là)"
_UNSPACED_IS = "(?:是|为|為|は|는|은)"
#: Colours of a terminal, and the stars of bold text.
_DRESS = r"(?:\x1b\[[\d;]{0,20}m|\*\*){0,4}"
#: A type between a name and the sign that assigns: `token: str | None =`, `key string =`, `Key { get; set; } =`.
_TYPE = r"""(?: [ ]?:[ \t]{0,4} T (?:[ \t]{0,2}\|[ \t]{0,2}T | [ ]T){0,3}
            | [ \t]{1,20}(?:As[ ])?(?:\*|\[\d{0,4}\]){0,2}[A-Za-z][\w.]{0,30}(?:\(\d{1,4}\))?(?=[ \t]{1,4}=[ ])
            | \[\w{0,8}\] | [ ]{0,4}\{[ ]?get;[\w ;]{0,40}\} ) [ \t]{0,4} = (?!=)""".replace(
    "T", r"[\w.\[\]<>?&*:',;]{1,40}"
)
#: A sign that joins a name to its value, as it is or escaped for an address or a page. Behind it may stand a default in
#: brackets, an anchor or tag of YAML.
_SIGN = r"""\|[ ]default(?=[ ]["']) | :{1,3}= | (?:\?{1,2}|\|\||[+.])=(?!=) | => | <-(?=[ ]?["']) | ={1,3}
            | (?:\[[^\]\r\n]{0,40}\])? [:：]
              (?: [ \t]{1,4} [|>] [+-]?\d? [ \t]{0,4} (?=\r?\n) | [ \t]{1,4} [&!] [\w!.:/-]{1,40} (?=[ \t]) )?
            | %3[ADad] | \\u003d | &\#61; | → | [|│┃║](?!\|) | -(?=[ ]["'])"""
#: A comma, a parenthesis or an operator joins only what is quoted; a bar, the cells of a table.
_BEFORE_QUOTE = r"(?: [ \t]{0,4} (?:[,({]|!={1,2}|\|\||\?[?:]) | [ \t]{1,4} or) \s{0,40} (?=[\"'`])"
#: What a quoted value may be handed to before it is assigned: `[]byte("…")`, `new Secret("…")`, mere parentheses.
_WRAP = r"(?: (?:new[ ])? [&*]? (?:\[\d{0,4}\])? (?:[A-Za-z_][\w.:<>$]{0,50})? !? [ ]?\( \s{0,40} ){1,3}"
#: What is taken first, where the value is only what stands in for it: `os.getenv("X") or "…"`.
_FALLBACK = r"""(?: [\w.$()\[\]]{1,60}[ ]if[ ][^\r\n"'`]{1,60}[ ]else
              | [\w.$:>?()-]{0,80}\.(?:default|or_?[eE]lse|orDefault|unwrap_or|value_or|getOrElse)\(
              | [A-Za-z_$][\w.$:>?-]{0,60} (?:[(\[] ["'`]? [\w.-]{0,60} ["'`]? [\])])? \s{0,20} (?:or|\|\||\?\?|\?:)
              | [\w.$:>?-]{0,60}(?i:env|get|fetch|config|var)\w{0,12}\( ["'] [\w.-]{0,60} ["']
                (?:,[^"'\r\n]{0,40}(?=,))? (?:, (?:[ ]?default[ ]?=)? | \)\.unwrap_or\() ) \s{0,20}"""


def _assignment(name: str, verb: str, bare: str, after: str = "") -> Callable[[], re.Pattern[str]]:
    """A pattern for the rest of a name, its closing quote, what joins it to the value, and that: quoted, quoted inside
    a string or a page, or bare. `verb` is what joins them in talk, `bare` what an unquoted value is made of, and
    `after` what must follow where a mere space joins them."""
    return lazy(
        rf"""(?P<name>{name}) (?:\]?(?:\\{{0,7}}(?:["'`]|u0022)|&quot;)[\])]{{0,2}}){{0,2}} (?:\](?=[ ]=>))? {_DRESS}
        (?: (?P<typed>{_TYPE}) \s{{0,40}} (?=["'`A-Za-z_@$&*(\[])
          | (?P<join> [ \t]{{0,20}} (?: {_SIGN} ) \s{{0,40}} | {verb} | {_BEFORE_QUOTE}
                    | ,\s{{0,40}}(?:(?:default|value)[ ]?=|with:)[ ]?(?=["']) | [ \t]{{1,8}} {after}
                    | > \s{{0,80}} (?:<value>|<!\[CDATA\[)? \s{{0,80}} | </key>\s{{0,40}}<string> ) )
        {_DRESS} [ \t]{{0,4}} (?:string\(\d{{1,5}}\)[ ])?
        (?: (?: (?P<fallback>{_FALLBACK}) | (?P<wrap>{_WRAP}) )? [*bBrRuUfFLN@$]{{0,2}}
            (?P<quote>\"{{3}}|'{{3}}|["'`]) (?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n]){{1,1024}})
          | (?:(?P<escape>\\{{1,7}})["']|&quot;|\\{{1,7}}u0022)
            (?P<escaped>(?:(?P=escape){{2}}\\["'] | (?!\\{{1,7}}(?:["']|u0022)|&quot;)[^\r\n]){{1,1024}})
          | (?P<bare>{bare}{{1,256}}) )""",
        re.X | re.ASCII,
    )


ASSIGNED = _assignment(
    r"[\w-]{2,60}(?![\w-])",
    r"[ \t]{1,4} (?:is|was|ist|est|lautet|reads|equals)(?:[ ]now)?:? [ \t]{1,4}",
    r"""[^\s"'`<>\\]""",
)
#: A name of another language, and what it is for: `senha do banco`. A value ends where letters of other scripts begin,
#: and after a mere space it must hold a letter and a digit.
FOREIGN_ASSIGNED = _assignment(
    r"""[^\s:：="'`<>|,;(){}\[\]]{2,40} (?: [ ][^\s:：="'`<>|,;(){}\[\]]{1,20} ){0,3}?""",
    rf"(?: [ \t]{{1,4}} {_IS}:? [ \t]{{1,4}} | {_UNSPACED_IS}[:：]?[ ]? | [ ][—–-][ ] )",
    r"[!#-&(-;=?-\[\]^_a-~]",
    r"(?=[!-~]{0,40}[0-9])(?=[!-~]{0,40}[A-Za-z])",
)
