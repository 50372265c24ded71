"""Which names announce a secret: `DB_PASSWORD` and `пароль` do, `token_count` and `secretName` do not."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache

from mcp_memory.capture.settings import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class Named(NamedTuple):
        """The kind of secret a name announces, or none. A `sure` name is one that is hardly used for anything else."""

        kind: str
        sure: bool
else:
    Named = namedtuple("Named", "kind sure")

OPENING = "[redacted:"
NOT_SECRET = Named("", False)
#: One of these stands in every name that announces a secret, and in the names of many commands that take one. Each is
#: looked for once in a text, in lower case.
WORDS = frozenset(("pass", "pw", "psk", "secret", "token", "key", "cred", "auth", "_pat"))
#: The kind of what is called `auth`, which may be anything: it is a secret if it is a user and a password in base 64.
BASIC = "authorization"
#: The kind of what is called some key: only a value that a machine made up counts.
KEY = "key"

_WORDS = lazy(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
#: Words that may end a secret's name and say nothing about it.
_NEUTRAL = frozenset(
    "value val base plain raw text string str b64 base64 prod production dev development staging test testing live "
    "old new current default main primary secondary".split()
)
_PASSWORDS = ("password", "passwd", "passphrase", "passcode", "passwort", "passord", "motdepasse")
#: Behind one of these stands a text to be shown, more often than a password.
_SHOWN = frozenset(
    "forgot forgotten wrong confirm reset show hide toggle invalid incorrect repeat weak missing".split()
)
#: `…_key` is a secret after one of these.
_KEY_OF = frozenset(
    "api access private secret account signing encryption master auth shared license deploy app subscription".split()
)
#: After one of these it may be one, or a name like any other: what it looks like decides.
_PERHAPS_KEY_OF = frozenset(
    "fernet hmac jwt cipher crypto aes preshared session cookie storage service function webhook consumer admin "
    "bot".split()
)
#: After one of these it is the name of an entry, a row or a place.
_NO_KEY_OF = frozenset(
    "primary public pub foreign cache sort partition row dict map unique composite translation i18n event query index "
    "object lookup dedup deduplication idempotency locale message label field column group order routing shard hash "
    "range redis registry json state item node job entity attribute property context option param parameter header "
    "trace span error log metric feature flag menu nav tab react list set host known hot short arrow any no by the a "
    "this each every per first last next prev previous parent child file path data image build commit content".split()
)
_NO_KEYS = ("monkey", "turkey", "donkey", "hockey", "whiskey", "jockey", "hotkey", "publickey", "pubkey", "primarykey")
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
    if last.endswith(_PASSWORDS) or last == "pwd" or (last == "passe" and before == "de"):
        return Named("password", before not in _SHOWN)
    if last in ("pass", "pw", "psk"):  # alone these may be what a test did, or the width of a page
        return Named("password", bool(before) and last != "psk")
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


_SURE, _PERHAPS = Named("password", True), Named("password", False)
_KEY, _TOKEN = Named("api-key", False), Named("token", False)
#: What passwords, keys and tokens are called in other languages, in lower case. Where a name means other things as
#: well, it is not sure, and only a value that looks made up counts. `passwort`, `passord` and `mot de passe` hold
#: `pass`, and are looked for with it.
FOREIGN = tuple(
    (word.replace("_", " "), named)
    for named, words in (
        (_SURE, "kennwort wachtwoord senha contraseña contrasena heslo haslo sifre kata_sandi lösenord jelszó"),
        (_SURE, "adgangskode salasana hasło şifre mật_khẩu пароль 密码 密碼 口令 パスワード 비밀번호 รหัสผ่าน पासवर्ड"),
        (_SURE, "كلمة_المرور كلمة_السر סיסמה סיסמא"),
        (_PERHAPS, "clave chave parola κωδικός"),
        (_KEY, "clé schlüssel ключ 密钥 密鑰 キー 키"),
        (_TOKEN, "jeton токен 令牌 トークン 토큰"),
    )
    for word in words.split()
)
#: Up to this length a text is looked through for these even if it holds no letter of theirs.
TALK = 400
#: What a name is followed by: a verb like `is`. Those of the second are written without spaces.
IS = "(?:is|was|ist|war|est|es|é|era|è|jest|je|är|là)"
UNSPACED_IS = "(?:是|为|為|は|는|은)"

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
