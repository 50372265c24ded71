"""The rules of rules.txt, and the verdicts on what their patterns find.

The engine looks for the triggers, tries the pattern only where one stands, and asks the verdict about what the pattern
found.
"""

from __future__ import annotations

from mcp_memory.capture.redaction.names import sections
from mcp_memory.capture.redaction.values import (
    decoded,
    is_basic,
    is_dummy,
    is_likely,
    is_literal,
    is_mixed,
    is_random,
    is_reference,
    is_strong,
    is_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    #: Whether the secret that was found is one.
    Verdict = Callable[[str, re.Match[str]], bool]
    #: Kind, triggers with a bar between them, pattern and verdict.
    Rule = tuple[str, str, str, Verdict]

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
