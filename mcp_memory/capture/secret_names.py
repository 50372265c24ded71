"""Which names announce a secret: `DB_PASSWORD` and `clientSecret` do, `token_count` and `secretName` do not."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache

from mcp_memory.capture.marks import OPENING
from mcp_memory.capture.patterns import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class Named(NamedTuple):
        """The kind of secret a name announces, or none. A `sure` name is one that is hardly used for anything else."""

        kind: str
        sure: bool
else:
    Named = namedtuple("Named", "kind sure")

NOT_SECRET = Named("", False)
#: One of these stands in every name that announces a secret, and in the names of many commands that take one. Each is
#: looked for once in a text, in lower case.
WORDS = frozenset(("pass", "pw", "psk", "secret", "token", "key", "credential", "auth"))
#: The kind of what is called `auth`, which may be anything: it is a secret if it is a user and a password in base 64.
BASIC = "authorization"

_WORDS = lazy(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
#: Words that may end a secret's name and say nothing about it.
_NEUTRAL = frozenset(
    "value val base plain raw text string str b64 base64 prod production dev development staging test testing live "
    "old new current default main primary secondary".split()
)
_PASSWORDS = ("password", "passwd", "passphrase", "passcode", "passwort", "passord", "motdepasse")
#: `…_key` is a secret after one of these; a primary, public or cache key is none.
_KEY_OF = frozenset(
    "api access private secret account signing encryption master auth shared license deploy app subscription".split()
)
#: After one of these it may be one, or a name like any other: what it looks like decides.
_PERHAPS_KEY_OF = frozenset(
    "fernet hmac jwt cipher crypto aes preshared session cookie storage service function webhook consumer admin "
    "bot".split()
)
#: `…_token` is no secret after one of these: paging, parsing and language models have tokens too.
_TOKEN_OF = frozenset(
    "next page continuation cancel cancellation eos bos pad unk sep mask cls special stop start end first last per "
    "prompt completion input output cached lex lexer parser current prev previous peek each every sync resume".split()
)


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
    return _password(last, before) or _secret(last, before) or _key(last, before) or _credential(last, name)


def _password(last: str, before: str) -> Named | None:
    if last.endswith(_PASSWORDS) or last == "pwd" or (last == "passe" and before == "de"):
        return Named("password", True)
    # Alone these may be what a test did, or the width of a page.
    return Named("password", bool(before) and last != "psk") if last in ("pass", "pw", "psk") else None


def _secret(last: str, before: str) -> Named | None:
    if last.endswith("secret"):
        return Named("secret", bool(before) or last != "secret")
    if last.endswith("token"):
        return NOT_SECRET if before in _TOKEN_OF else Named("token", bool(before) or last != "token")
    return None


def _key(last: str, before: str) -> Named | None:
    if last == "key" and before in _KEY_OF:
        return Named("private-key" if before == "private" else "api-key", True)
    if last == "key" and before in _PERHAPS_KEY_OF:
        return Named("api-key", False)
    if last.endswith(("apikey", "accesskey", "secretkey", "privatekey")):
        return Named("api-key", True)
    return None


def _credential(last: str, name: str) -> Named:
    if last == "auth" and not name.startswith("_"):
        return Named(BASIC, False)
    if last in ("credential", "credentials", "auth"):
        return Named("credential", False)
    return NOT_SECRET
