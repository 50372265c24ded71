"""Whether what stands behind a secret's name is the secret, or code, a type, a placeholder, a plain word.

And the rules of rules.txt with the verdicts on what they find: the engine looks for a rule's triggers, tries its
pattern only where one stands, and asks the verdict about what was found.
"""

from __future__ import annotations

import re

from mcp_memory.capture.redaction.names import BASIC, KEY, OPENING, Named, classify, sections, word_list
from mcp_memory.capture.settings import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NewType

    #: Whether the secret that was found is one.
    Verdict = Callable[[str, re.Match[str]], bool]
    #: Kind, triggers with a bar between them, pattern and verdict.
    Rule = tuple[str, str, str, Verdict]
    #: Text without secrets: only `redact` makes it, or one who knows that it holds none.
    Clean = NewType("Clean", str)
else:
    Clean = str

#: How a value begins that only stands for another one, or is a place to fill.
_REFERENCE = lazy(
    r"\$[A-Za-z_{(<\[]|[{<`]|%(?:\d\$)?[A-Za-z({]|[*•.…_-]+\Z|![A-Z][a-z]+|[&:@?*][A-Za-z_]+\Z|#\{"
    r"|\[[A-Za-z][A-Za-z _-]{0,30}\]?\Z|\[redacted|\[\^|&(?:lt|#x?0{0,5}[36][0cC]);"
)
#: A set of characters in a regular expression.
_CHARACTERS = lazy(r"\[[^\]\s]{0,60}?(?:a-z|A-Z|0-9|\\[wdsWDS])")
_STANDS_FOR = tuple({word.replace("_", sign) for word in word_list("stands for") for sign in "_- "})
_SIGNS = frozenset("$[{<`%*•.…_-!&:@?#")
_FILLED = lazy(
    r"(?:\w*[_-])?x{3,}\Z|(?:change[_-]?(?:me|it|this)|example|placeholder|dummy|todo|tbd|fixme|demo|sample|n/a"
    r"|[\w-]{0,40}[_-]here)\Z|[^a-z0-9]{0,8}(?:a-[zf]|0-9){2}"
    r"|0x[0-9a-f]{1,16}u?l{0,2}\Z|v?\d{1,4}(?:\.\d{1,6}){1,3}\Z|[\w.]{0,70}_placeholder\W?\Z"
)
_PLAIN, _PAIRS = word_list("plain"), word_list("pairs")
_CALL = lazy(r"(?:\[\d{0,4}\]|[&*])?[A-Za-z_$][\w$.:>-]*[(\[{]")
_CHAIN = lazy(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)+\Z")
_PATH = lazy(
    r"(?:~|\.{1,2}|[A-Za-z]:|(?:[A-Za-z0-9-]{1,60}\.){1,5}[a-z]{2,10})?(?:[\\/][\w.@ -]+){2,}\Z"
    r"|[\w./\\~:-]+\.(?:pem|key|json|ya?ml|env|txt|py|go|ts|js|rs|md)\Z"
    r"|[a-z]{2,10}://[^\s?@=]{1,400}\Z"
)
#: Bytes as code writes them: `\\x38\\xf1\\x0c\\x9e`.
_BYTES = lazy(r"(?:\\(?:x[0-9A-Fa-f]{2}|[0-3][0-7]{2}|u[0-9A-Fa-f]{4})){4}")
_IDENTIFIER = lazy(r"[\W_]*(?:(?:\d{1,3}|[A-Za-z]+\d{0,3})(?:[\W_]+|\Z))*\Z", re.ASCII)
#: An algorithm, a type of a fixed width, a date, a number.
_ALGORITHM = lazy(
    r"(?:sha|md|base|utf|argon|oauth|https?|[rhe]s|aes|pbkdf|bcrypt|scrypt)-?\d"
    r"|(?:[uif]|u?int|float|bytes|char|byte|string|varchar|uuid)_?\d{1,3}(?:_t|Array)?\Z"
    r"|\d{4}-\d\d-\d\d|0x[0-9a-f]{1,16}u?l{0,2}\Z",
    re.I,
)
_STRONG = lazy(r"[\w+/=.~-]{16,4096}\Z", re.ASCII)
_UUID = lazy(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.I)
_TURN = lazy(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")
_PAIR = lazy(r"[A-Za-z](?=[A-Za-z])")


def is_reference(value: str) -> bool:
    """Whether the value only stands for a secret: a variable, a placeholder, our own mark."""
    if "***" in value or "..." in value or "…" in value:  # masked
        return True
    if "[" in value and _CHARACTERS().search(value[:256]):
        return True
    if value[:1] in _SIGNS:
        return value.startswith(OPENING) or bool(_REFERENCE().match(value))
    low = value[:80].lower()
    return low.startswith(_STANDS_FOR) or (len(value) <= 80 and bool(_FILLED().match(low)))


def is_literal(value: str) -> bool:
    """Whether the value could be a secret: neither a reference nor a type nor a word that names rather than is one."""
    if not value or is_reference(value) or _is_test(value) or value.strip("_-.:!?*…()").lower() in _PLAIN:
        return False
    return not (_NAMES().match(value) and classify(value).kind)


#: A name of several words.
_NAMES = lazy(
    r"[A-Za-z]{1,40}(?:[_-][A-Za-z]{1,40}){1,6}\Z|(?:_[A-Z]{0,5}|[A-Z]{2,5}|[a-z]{1,40})(?:[A-Z][a-z]{1,40}){1,6}\d{0,3}\Z"
)


#: A name that holds that of a secret, like `password_ptr`.
_OF_SECRET = lazy(r"(?:[a-z]{1,40}_){0,5}(?:password|passwd|pwd|pass|secret|token|key)(?:_[a-z]{1,40}){1,5}\Z")


def is_code(value: str) -> bool:
    """Whether an unquoted value is an expression: a call, an index, a chain of names."""
    if _OF_SECRET().match(value):
        return True
    return bool(_CALL().match(value) or (_CHAIN().match(value) and not is_strong(value)))


def is_path(value: str) -> bool:
    """Whether the value names a place. A key in base 64 may hold slashes, too: one part of it then looks made up."""
    if not _PATH().match(value) or _BYTES().search(value):
        return False
    for part in value.replace("\\", "/").split("/"):
        cases = any(map(str.isupper, part)) and any(map(str.islower, part)) and any(map(str.isdigit, part))
        if cases and len(part) >= 8 and part.isalnum() and is_random(part):
            return False
    return True


def is_text(value: str) -> bool:
    """Whether a bare value is neither code nor a path nor a word that only names a secret."""
    return is_literal(value) and not is_code(value) and not is_path(value)


def is_basic(value: str) -> bool:
    """Whether the value is `user:password` in base 64."""
    try:
        plain = decoded(value).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return ":" in plain and plain.isprintable()


def decoded(value: str) -> bytes:
    """What the value says in base 64; nothing if it is none."""
    from binascii import Error, a2b_base64

    try:
        return a2b_base64(value + "=" * (-len(value) % 4))
    except (Error, ValueError):
        return b""


def is_mixed(value: str) -> bool:
    """Whether letters come with digits or signs, as in a password and unlike in a word or a name."""
    letters = any(map(str.isalpha, value))
    return letters and not value.replace("_", "").replace("-", "").isalpha() and not _ALGORITHM().match(value)


def is_random(value: str) -> bool:
    """Whether the value looks made by a machine: long, with letters and digits that form no words."""
    if len(value) < 8:
        return False
    if not _IDENTIFIER().match(value[:200]):
        return is_mixed(value) and any(map(str.isdigit, value))
    if value.islower() or value.isupper() or not value.replace("-", "").replace("_", "").isalnum():
        return False
    if _NUMBERED_TYPE().match(value) or is_wordy(value):
        return False
    digits = any(map(str.isdigit, value)) and len(value) >= 10
    if digits and not _has_words(value[:200]) and not _ALGORITHM().match(value):
        return _scattered(value, 16)
    return len(value) >= 20 and _scattered(value, 5)


_WORDS = lazy(r"[A-Z]?[a-z]{3,}")
_TEST = lazy(r"(?:Test|Benchmark|Example|Fuzz)(?=[A-Z_])[\w/-]{8,200}\Z", re.ASCII)


def is_wordy(value: str) -> bool:
    """Whether three words or more make up most of the value, as of the name of a function or test with a number."""
    words = _WORDS().findall(value[:200])
    letters = sum(map(len, words))
    return len(words) >= 3 and letters * 3 >= min(len(value), 200) * 2 and _has_words("".join(words))


def _is_test(value: str) -> bool:
    """Whether it is what a test is called in Go: `TestRotate_KeepsOldToken2`."""
    return bool(_TEST().match(value)) and is_wordy(value) and len(_WORDS().findall(value)) >= 4


#: A type that is called by a standard or library with a number, like `PKCS7Encoder` or `Ed25519PublicKey`.
_NUMBERED_TYPE = lazy(r"_?[A-Z][A-Za-z]{0,4}\d{1,5}(?:[A-Z][a-z]{2,}){1,6}\Z")


def _scattered(value: str, every: int) -> bool:
    """Whether a capital follows a small letter more often than once in so many letters, unlike in a camelCase name."""
    return sum(value[i].islower() and value[i + 1].isupper() for i in range(len(value) - 1)) * every > len(value)


def is_part(value: str) -> bool:
    """Whether it may be the rest of a secret: no word, as the name of an element of a page is."""
    return is_mixed(value) and any(map(str.isdigit, value)) or (value.isalnum() and _scattered(value, 16))


def is_strong(value: str) -> bool:
    """Whether a machine made it for sure: a long word in which letters and digits take turns and form no words."""
    if not _STRONG().match(value) or _UUID().match(value) or _ALGORITHM().match(value) or is_path(value):
        return False
    head = value[:200]
    parts = head.replace("_", "-").replace(".", "-").replace("/", "-").split("-")
    if sum(len(part) > 2 and part.isalpha() and (part[1:].islower() or part.isupper()) for part in parts) > 1:
        return False  # words
    if len(_TURN().findall(head)) < 2 or sum(map(str.isalpha, head)) < 4:
        return False
    return is_hex(value) or not _has_words(head)


def _has_words(value: str) -> bool:
    pairs = [value[found.start() : found.start() + 2].lower() for found in _PAIR().finditer(value)]
    common = sum(pair in _PAIRS for pair in pairs)
    return common * 2 >= max(len(pairs), 6) if len(pairs) > 8 else common * 3 >= max(len(pairs), 6) * 2


def is_hex(value: str) -> bool:
    """Whether the value is made of hexadecimal digits, as the hash of a commit or a file is."""
    return not value.strip("0123456789abcdef-")


def is_dummy(value: str) -> bool:
    """Whether what has the form of a key is made of words, or of one letter over and over."""
    return "xxxxxx" in value.lower() or (not any(map(str.isdigit, value)) and _has_words(value[:200]))


#: What says of a key that it is the name of an entry.
_OF_ENTRY = lazy(r"cache|lookup|redis|bucket|object|partition|sort|hit|miss|entry|row|public|finger", re.I)


def is_key(value: str, named: Named, before: str = "", join: str = "=") -> bool:
    """Whether what is called some key is a secret. A UUID and a hash name other things as well, and what stands
    `before` a mere key may tell that it is the name of an entry."""
    if named.sure:
        return is_strong(value) or bool(_UUID().match(value))
    return is_strong(value) and not _OF_ENTRY().search(before) and not (":" in join and is_hex(value))


def is_made_up(value: str) -> bool:
    """Whether it looks random and is no place; what is only spoken of or compared with must."""
    return is_random(value) and is_literal(value) and not is_path(value) and " " not in value


def is_likely(value: str) -> bool:
    """Whether it looks like a password that someone made up, of letters in both cases and digits."""
    if len(value) < 8 or value.islower() or value.isupper() or not is_literal(value):
        return False
    if is_path(value) or "://" in value or _NUMBERED_TYPE().match(value) or is_wordy(value):
        return False
    return is_mixed(value) and any(map(str.isdigit, value)) and not any(map(str.isspace, value))


def is_value(value: str, named: Named) -> bool:
    """Whether what stands apart from its name is a secret, and not a word that says something about one."""
    if len(value) < 3 or not is_literal(value) or is_path(value):
        return False
    if named.kind == KEY:
        return is_key(value, named)
    return is_random(value) or (named.sure and (is_mixed(value) or named.kind == "password"))


def is_field(value: str, named: Named) -> bool:
    """Whether the value of a JSON object's entry with this name is a secret."""
    if named.kind == BASIC:
        return is_basic(value)
    if named.kind == KEY:
        return is_literal(value) and is_key(value, named)
    if named.sure:
        return bool(value) and not is_reference(value)
    if named.kind == "api-key":
        return is_random(value)
    if named.kind == "password" and (not is_mixed(value) or is_path(value)):  # `pass` may be what a test does
        return False
    return is_literal(value) and not any(map(str.isspace, value))


def is_quoted(value: str, named: Named, sure: bool) -> bool:
    """Whether what stands in quotes behind a sign that joins it to its name is the secret."""
    if named.kind == BASIC:
        return is_basic(value)
    if value[0] == " " and is_made_up(value.strip()):
        return True
    # After `"password="` the quote closes a string of code, and its continuation follows.
    if value[0] in "+,)]};:|&. \t" or not is_literal(value) or is_path(value):
        return False
    if any(map(str.isspace, value)):
        if named.kind != "password" or not sure or any(word in _PLAIN for word in value.lower().split()):
            return False
        return is_mixed(value.replace(" ", "")) and any(map(str.isdigit, value))
    if sure:
        return len(value) >= 3
    return is_random(value) or (len(value) >= 8 and "secret" in value.lower())


def is_default(named: Named, value: str) -> bool:
    """Whether it is a password that is used where nothing else is given: `getenv("DB_PASSWORD", "…")`."""
    if named.kind != "password" or not named.sure or value.isupper():
        return False
    return is_literal(value) and not is_path(value) and " " not in value


#: How far from a name a value may stand that no sign joins to it, and words that say the value is something else.
_NEAR = 48
_TOKEN = lazy(r"[\w!#-&*+./?@^~-]{8,512}={0,2}", re.ASCII)
OTHER = lazy(
    r"\b(?:commit|sha\d{0,3}|hash|digest|md5|checksum|rev|uuid|guid|integrity|fingerprint|signature|id|file|path|url|values)\b"
    r"|[\"'][:,]",
    re.I,
)
#: "use … as the root password", "enter … into the password field".
_AHEAD = lazy(
    r"[\"'`]?[ ](?:as|is|into|for|at|when[ ](?:asked|prompted)[ ]for)[ ](?:(?:the|my|your|our|a|its|his|her|their)[ ])?"
    r"(?:[A-Za-z][\w-]{0,20}[ ]){0,2}\Z"
)
_AHEAD_CHARS = 80
#: Talk that hands over a password, and the end of such a sentence behind its name.
_TO_USE = lazy(r"\b(?:use|using|set|enter|type|try|put|take|choose|pick)[ ][\"'`]?\Z", re.I)
_NAMED_LAST = lazy(r"[.,;:!?)\r\n]|\Z|[ ](?:prompt|field|box|form|for|on|in|to|now|and|please|then|of)\b")
_LAST = lazy(r"[\w!#-&*+./?@^~-]{6,128}\Z", re.ASCII)

#: The line of a prompt that ends with a name, and what is shown in the next one.
_PROMPT = lazy(r"(?:[\w@.:~/()-]{0,80}[$%❯➜][ ]|>>>[ ]|\(Pdb\)[ ]|In[ ]\[)")
_SHOWN = lazy(r"[\"')}\]]{0,3}[ ]?\r?\n[\"']?([\w!#-&*+./?@^~-]{8,512}={0,2})[\"']?(?=\r?\n|\Z)", re.ASCII)


def near(text: str, start: int, end: int, named: Named) -> list[tuple[int, int, str]]:
    """What someone made up some words behind a name, or right before it: "the secret … is", a cell, a line of a log."""
    if not named.kind or named.kind in (KEY, BASIC) or (named.kind == "password" and not named.sure):
        return []
    shown = _SHOWN().match(text, end)
    prompt = shown and _PROMPT().match(text[max(0, start - 200) : start].rpartition("\n")[2])
    if shown and prompt and _is_told(text, *shown.span(1)):
        return [(*shown.span(1), named.kind)] if named.sure or not is_hex(shown[1]) else []
    last = text.find("\n", end, end + _NEAR)
    for found in _TOKEN().finditer(text, end, min(len(text), end + _NEAR + 512) if last < 0 else last):
        if found.start() > end + _NEAR:
            break
        if _is_told(text, *found.span()):
            between = text[end : found.start()]
            # More likely the hash of a commit.
            hashed = is_hex(found[0]) and any(map(str.isalnum, between))
            return [] if hashed or OTHER().search(between) else [(*found.span(), named.kind)]
    span = _word_before(text, start)
    if not span or not ((span[1] - span[0] > 7 and _is_told(text, *span)) or _is_handed_over(text, *span, end)):
        return []
    return [(*span, named.kind)]


def handed_over(text: str, start: int, end: int, named: Named) -> list[tuple[int, int, str]]:
    """The password that talk hands over in a sentence which ends with its name: "use hunter2 as the root password."."""
    if named.kind != "password" or not named.sure:
        return []
    span = _word_before(text, start)
    return [(*span, named.kind)] if span and _is_handed_over(text, *span, end) else []


def _word_before(text: str, start: int) -> tuple[int, int] | None:
    """The word that stands before a name with "as the", "for my" and the like between them."""
    ahead = _AHEAD().search(text, max(0, start - _AHEAD_CHARS), start) if text[start - 1 : start] == " " else None
    last = ahead.start() if ahead else 0
    first = max(0, last - 128) + max(text[max(0, last - 128) : last].rfind(char) for char in " \t\n\"'`") + 1
    told = _LAST().match(text, first, last) if ahead else None
    return told.span() if told else None


def _is_handed_over(text: str, start: int, end: int, after_name: int) -> bool:
    """Whether talk says to use a word as a password: "use hunter2! as the root password"."""
    value = text[start:end]
    if len(value) < 8 and not text[end : end + 5].lstrip("\"'`").startswith(" as "):  # else a version or a field
        return False
    if not any(map(str.isdigit, value)) or not is_mixed(value) or not is_text(value):
        return False
    return bool(_TO_USE().search(text, max(0, start - 12), start) and _NAMED_LAST().match(text, after_name))


def _is_told(text: str, start: int, end: int) -> bool:
    """Whether the word looks made up, and is no part of an expression, a path or an address."""
    value = text[start:end]
    if text[start - 1 : start] in ("\\", "=", ":") or text[end : end + 1] in ("(", "[", "=", ":"):
        return False
    if not (text[start - 1 : start] + text[end : end + 1]).isascii():
        return False
    made = is_strong(value) or (is_likely(value) and sum(map(str.isdigit, value)) > 1 and "." not in value[1:-1])
    return made and "#" not in value and not (is_reference(value) or is_code(value) or classify(value).kind)


#: No key of the first table is shorter.
SHORTEST = 20
#: The tables of keys, whose pattern follows the trigger.
PREFIXED = ("keys", "other keys")


def _is_handed(value: str, found: re.Match[str], strict: bool = False) -> bool:
    """Whether what a command is handed is a secret; a `strict` rule asks that it looks like one."""
    if value.startswith(("-", "\\")) or not is_text(value):
        return False
    return (is_mixed(value) or is_random(value)) if strict else bool(value.strip("0123456789.:"))


def _is_bot_token(value: str, found: re.Match[str]) -> bool:
    """Whether the first part is the number of a bot in base 64, or all of it looks made up."""
    head, _, tail = value.partition(".")
    return decoded(head).isdigit() or (is_strong(head) and is_strong(tail.partition(".")[2]))


def _is_wrapped_token(value: str, found: re.Match[str]) -> bool:
    """Whether it is a JWT in base 64."""
    head, _, rest = decoded(value.rstrip("="))[:4096].partition(b".")
    return head.startswith(b"eyJ") and b"." in rest


def _is_login(value: str, found: re.Match[str]) -> bool:
    # `test:test` is no secret to anyone.
    same = (f" {value}:{value}", f"'{value}:{value}")
    return _is_handed(value, found) and not found[0].rstrip("\"'").endswith(same)


def _is_typed(value: str, found: re.Match[str]) -> bool:
    """Whether a test types it into a field for passwords, of which the line before tells."""
    line = found.string[max(0, found.start() - 100) : found.start()].rpartition("\n")[2].lower()
    named = any(word in line for word in ("pass", "pwd", "secret", "token"))
    return named and " " not in value and _is_handed(value, found, "pass" not in line)


def _is_prompted(value: str, found: re.Match[str]) -> bool:
    """Whether a script types it behind the prompt for a password, as `expect` does."""
    before = found.string[max(0, found.start() - _PROMPT_CHARS) : found.start()].rstrip("\"'")
    return bool(_PROMPTS().search(before)) and _is_handed(value, found)


#: A string that asks for a secret, and what may stand between it and the call that answers.
_PROMPTS = lazy(r"(?:pass|pin|secret|token|assword|phrase)\w{0,10}\b[^\r\n\"']{0,60}[\"'][^\"']{0,60}\Z", re.I)
_PROMPT_CHARS = 160


def _is_setting(value: str, found: re.Match[str]) -> bool:
    """Whether one of the settings that a command for secrets is handed is one, by its name or its looks."""
    if value.startswith("@") or not _is_handed(value, found):  # `@` names a file
        return False
    return bool(classify(found[1]).kind) or is_random(value) or is_likely(value)


def _is_prefixed(value: str, found: re.Match[str]) -> bool:
    """Whether a machine made what stands behind the prefix. The hash of a commit or a file may have one, too."""
    head = _KEY_PREFIX().match(value)
    tail = value[head.end() :] if head else ""
    if not head or not is_strong(tail.partition("_")[0].partition("-")[0]):
        return False
    return not is_hex(tail) or head[0].endswith(("_sk_", "_pat_", "token_", "secret_", "api_", "live_"))


_KEY_PREFIX = lazy(
    r"(?:[a-z][a-z0-9]{0,15}[_-]){0,3}[a-z0-9]{0,12}(?:api|key|token|secret|sk|rk|pat|live|prod)[_-](?=[A-Za-z0-9]{20})"
)


def _is_slashed(value: str, found: re.Match[str]) -> bool:
    """Whether an address has a password with a slash, and not a path with an @."""
    first, _, rest = value.partition("/")
    if "@" in first:
        # What follows the first @ may be the host after all, with another @ in the path.
        host = first.rpartition("@")[2]
        return "." not in host and ":" not in host and host != "localhost"
    return any(map(str.isdigit, value)) and not first.isupper() and "://" not in value and bool(rest or first)


def _is_cookie(value: str, found: re.Match[str]) -> bool:
    """Whether a cookie may prove who asks, and is more than a choice such as `theme=dark`."""
    for pair in value.split(";"):
        name, _, said = pair.strip().partition("=")
        name = name.lower()
        if name in ("path", "expires", "max-age", "domain", "samesite") or len(said) < 6 or is_reference(said):
            continue
        if is_mixed(said) or any(word in name for word in ("sess", "sid", "auth", "tok", "csrf", "jwt")):
            return True
    return False


def _proves(value: str, found: re.Match[str]) -> bool:
    """Whether a header's value is a secret rather than a word of talk about such headers."""
    scheme = (found["scheme"] or "").lower()
    if is_reference(value):
        return False
    if scheme == "basic":
        return is_basic(value) or is_random(value)
    if scheme in ("digest", "oauth", "hawk", "aws4-hmac-sha256"):
        return "=" in value
    if scheme in ("bearer", "token", "negotiate", "apikey", "bot", "key"):
        return is_mixed(value) and len(value) >= 8
    return is_random(value) and len(value) >= 16


VERDICTS: dict[str, Verdict] = {
    "found": lambda value, found: True,
    # What has the form of a key and is made of words is none.
    "key": lambda value, found: not is_dummy(value),
    "any": _is_handed,
    "strict": lambda value, found: _is_handed(value, found, True),
    "strong": lambda value, found: is_strong(value.rpartition(".")[2]),
    "random": lambda value, found: is_random(value),
    "likely": lambda value, found: is_likely(value),
    "literal": lambda value, found: is_literal(value),
    "encoded": lambda value, found: b"PRIVATE KEY" in decoded("".join(value.split())[:72]),
    # Behind a user it is a password whatever it looks like, unless containers publish a port by it.
    "mysql": lambda value, found: is_mixed(value) or (" -u" in found[0] and bool(value.strip("0123456789.:"))),
    "bot": _is_bot_token,
    "wrapped": _is_wrapped_token,
    "login": _is_login,
    "typed": _is_typed,
    "prompted": _is_prompted,
    "setting": _is_setting,
    "prefixed": _is_prefixed,
    "slashed": _is_slashed,
    "cookie": _is_cookie,
    "header": _proves,
}


def _read() -> dict[str, list[Rule]]:
    """The rules of each section."""
    rules: dict[str, list[Rule]] = {}
    tables = sections("rules.txt")
    parts = [row.split() for row in tables.pop("parts")]
    for section, rows in tables.items():
        rules[section] = []
        for row in rows:
            for part, meaning in parts if "<" in row else ():
                row = row.replace(part, meaning)
            kind, triggers, pattern, *verdict = row.split()
            judge = VERDICTS[verdict[0] if verdict else "key" if section in PREFIXED else "found"]
            rules[section].append((kind, triggers.replace("·", " "), pattern.replace("·", " "), judge))
    return rules


RULES = _read()
