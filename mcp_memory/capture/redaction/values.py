"""What a name announces, and whether what stands behind it is a secret, or code, a type, a placeholder, a word."""

from __future__ import annotations

import re
from collections import namedtuple
from functools import lru_cache

from mcp_memory.capture.patterns import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple, NewType

    #: Text without secrets: only `redact` makes it, or one who knows that it holds none.
    Clean = NewType("Clean", str)

    class Named(NamedTuple):
        """The kind of secret a name announces, or none. A `sure` name is one that is hardly used for anything else."""

        kind: str
        sure: bool
else:
    Clean = str
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
    return _password(last, before) or _secret(last, before) or _key(last, before) or _credential(last, before, name)


def _password(last: str, before: str) -> Named | None:
    if last.endswith(_PASSWORDS) or last == "pwd" or (last == "passe" and before == "de"):
        return Named("password", before not in _SHOWN)
    # Alone these may be what a test did, or the width of a page.
    return Named("password", bool(before) and last != "psk") if last in ("pass", "pw", "psk") else None


def _secret(last: str, before: str) -> Named | None:
    if last.endswith("secret"):
        return Named("secret", bool(before) or last != "secret")
    if last.endswith("token"):
        return NOT_SECRET if before in _TOKEN_OF else Named("token", bool(before) or last != "token")
    return None


def _key(last: str, before: str) -> Named | None:
    if not last.endswith("key"):
        return None
    if last == "key" and before in _KEY_OF:
        return Named("private-key" if before == "private" else "api-key", True)
    if last == "key" and before in _PERHAPS_KEY_OF:
        return Named("api-key", False)
    if last.endswith(("apikey", "accesskey", "secretkey", "privatekey")):
        return Named("api-key", True)
    if last.endswith(_NO_KEYS) or before in _NO_KEY_OF:
        return NOT_SECRET
    return Named(KEY, bool(before) or last != "key")


def _credential(last: str, before: str, name: str) -> Named:
    if last == "auth" and not name.startswith("_"):
        return Named(BASIC, False)
    if last in ("credential", "credentials", "creds", "auth"):
        return Named("credential", False)
    return Named(KEY, False) if last == "pat" and before else NOT_SECRET


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


#: How a value begins that only stands for another one, or is a place to fill.
_REFERENCE = lazy(
    r"\$[A-Za-z_{(<\[]|[{<`]|%(?:\d\$)?[A-Za-z({]|[*•.…_-]+\Z|![A-Z][a-z]+|[&:@?*][A-Za-z_]+\Z|#\{"
    r"|\[[A-Za-z][A-Za-z _-]{0,30}\]?\Z|\[redacted"
)
_STANDS_FOR = tuple(
    "process.env import.meta.env os.environ os.getenv getenv secrets. var. vars. env. local. redacted your_ your- "
    "my_password my_secret my_token my_api my-password my-secret my-token my-api insert_ insert- enter_ enter- paste_ "
    "paste- replace_ replace- put_ put- add_ add-".split()
) + (
    "your ",
    "my password",
    "my secret",
    "my token",
    "my api",
    "insert ",
    "enter ",
    "paste ",
    "replace ",
    "put ",
    "add ",
)
_SIGNS = frozenset("$[{<`%*•.…_-!&:@?#")
_FILLED = lazy(
    r"(?:\w*[_-])?x{3,}\Z|(?:change[_-]?(?:me|it|this)|example|placeholder|dummy|todo|tbd|fixme|demo|sample|n/a"
    r"|[\w-]{0,40}[_-]here)\Z"
)
_PLAIN = frozenset(
    "string str bytes any number int integer bool boolean text varchar char object none null nil undefined true false "
    "required optional unknown never void password passwd pass secret token key apikey api_key bearer basic hidden "
    "value type field input email username user name empty missing invalid expired incorrect wrong yes no on off "
    "prompt file stdin env inherit default error redacted masked plain hash hashed encrypted flag option argument "
    "parameter and or not is are was were the a an to for of in with that this from data const let var self func uuid "
    "jwt oauth vault write read all private public static final async await new return if else when must should can "
    "will has have list array map dict set interface struct class enum function auto manual "
    "passwort kennwort wachtwoord senha contraseña heslo parola lösenord adgangskode пароль 密码 密碼 パスワード "
    "비밀번호 erforderlich pflichtfeld falsch vergessen obligatoire requis incorrect invalide obligatoria obligatorio "
    "requerida incorrecta obrigatória obrigatório incorreta verplicht vereist onjuist vergeten povinné wymagane "
    "mind at least more than use please options flags arguments parameters settings fields values "
    "utf8 utf-8 utf-16 latin1 latin-1 ascii base64 hex binary hs256 rs256 sha1 sha256 sha512 md5 bcrypt".split()
)
_CALL = lazy(r"[A-Za-z_$][\w$.:>-]*[(\[{]")
_CHAIN = lazy(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)+\Z")
_PATH = lazy(
    r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[\\/][\w.@ -]+){2,}\Z|[\w./\\~:-]+\.(?:pem|key|json|ya?ml|env|txt|py|go|ts|js|rs|md)\Z"
)
_IDENTIFIER = lazy(r"[\W_]*(?:(?:\d{1,3}|[A-Za-z]+\d{0,3})(?:[\W_]+|\Z))*\Z", re.ASCII)
#: An algorithm, a type of a fixed width, a date, a number.
_ALGORITHM = lazy(
    r"(?:sha|md|base|utf|argon|oauth|https?|[rhe]s|aes|pbkdf|bcrypt|scrypt)-?\d"
    r"|(?:[uif]|u?int|float|bytes|char|byte|string|varchar|uuid)_?\d{1,3}(?:_t|Array)?\Z"
    r"|\d{4}-\d\d-\d\d|0x[0-9a-f]{1,16}\Z",
    re.I,
)
_STRONG = lazy(r"[\w+/=.~-]{16,4096}\Z", re.ASCII)
_UUID = lazy(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.I)
_TURN = lazy(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")
_PAIR = lazy(r"[A-Za-z](?=[A-Za-z])")
#: Pairs of letters that words are made of: most pairs in a word are among these, and few in what a machine made up.
_IN_WORDS = frozenset(
    "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro ic "
    "ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho pe ec pr no ct us ac ot il tr ly nc et ut ss so rs un "
    "lo wa ge ie wh ee wi em ad ol rt po we na ul ni ts mo ow pa im mi ai sh ir su id os iv ia am fi ci vi pl ig tu ev "
    "ld ry mp fe bl ab gh ty op wo sa ay ex ke ag do ap bu da ck".split()
)


def is_reference(value: str) -> bool:
    """Whether the value only stands for a secret: a variable, a placeholder, our own mark."""
    if value[:1] in _SIGNS:
        return value.startswith(OPENING) or bool(_REFERENCE().match(value))
    low = value[:60].lower()
    return low.startswith(_STANDS_FOR) or (len(value) <= 50 and bool(_FILLED().match(low)))


def is_literal(value: str) -> bool:
    """Whether the value could be a secret: neither a reference nor a type nor a word that names rather than is one."""
    if not value or is_reference(value) or value.strip("_-.:!?*…()").lower() in _PLAIN:
        return False
    return not (_NAMES().match(value) and classify(value).kind)


#: A name of several words.
_NAMES = lazy(r"[A-Za-z]{1,40}(?:[_-][A-Za-z]{1,40}){1,6}\Z|[a-z]{1,40}(?:[A-Z][a-z]{1,40}){1,6}\Z")


def is_code(value: str) -> bool:
    """Whether an unquoted value is an expression: a call, an index, a chain of names."""
    return bool(_CALL().match(value) or (_CHAIN().match(value) and not is_strong(value)))


def is_path(value: str) -> bool:
    """Whether the value names a place. A key in base 64 may hold slashes, too: one part of it then looks made up."""
    return bool(_PATH().match(value)) and not any(map(_is_scrambled, value.replace("\\", "/").split("/")))


def is_text(value: str) -> bool:
    """Whether a bare value is neither code nor a path nor a word that only names a secret."""
    return is_literal(value) and not is_code(value) and not is_path(value)


def _is_scrambled(part: str) -> bool:
    cases = any(map(str.isupper, part)) and any(map(str.islower, part)) and any(map(str.isdigit, part))
    return cases and len(part) >= 8 and part.isalnum() and is_random(part)


def is_basic(value: str) -> bool:
    """Whether the value is `user:password` in base 64."""
    return b":" in decoded(value)


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
    if len(value) < 8 or _IDENTIFIER().match(value[:200]):
        return (
            len(value) >= 20
            and value.replace("-", "").replace("_", "").isalnum()
            and not value.islower()
            and not value.isupper()
            and _scattered(value)
        )
    return is_mixed(value) and any(map(str.isdigit, value))


def _scattered(value: str) -> bool:
    """Whether case changes more often than in a camelCase name, whose words are three letters or more."""
    changes = sum(value[i].islower() and value[i + 1].isupper() for i in range(len(value) - 1))
    return changes * 5 > len(value)


def is_strong(value: str) -> bool:
    """Whether a machine made it for sure: a long word in which letters and digits take turns and form no words."""
    if not _STRONG().match(value) or _UUID().match(value) or _ALGORITHM().match(value) or is_path(value):
        return False
    head = value[:200]
    if sum(map(_is_word, head.replace("_", "-").replace(".", "-").replace("/", "-").split("-"))) > 1:
        return False
    if len(_TURN().findall(head)) < 2 or sum(map(str.isalpha, head)) < 4:
        return False
    return is_hex(value) or not _has_words(head)


def _has_words(value: str) -> bool:
    pairs = [value[found.start() : found.start() + 2].lower() for found in _PAIR().finditer(value)]
    return sum(pair in _IN_WORDS for pair in pairs) * 2 >= max(len(pairs), 6)


def is_hex(value: str) -> bool:
    """Whether the value is made of hexadecimal digits, as the hash of a commit or a file is."""
    return not value.strip("0123456789abcdef-")


def is_dummy(value: str) -> bool:
    """Whether what has the form of a key is made of words, or of one letter over and over."""
    return "xxxxxx" in value.lower() or (not any(map(str.isdigit, value)) and _has_words(value[:200]))


def _is_word(part: str) -> bool:
    return len(part) > 2 and part.isalpha() and (part[1:].islower() or part.isupper())


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
    if named.kind == "password" and not is_mixed(value):  # `pass` may be what a test does
        return False
    return is_literal(value) and not any(map(str.isspace, value))


def is_handed(value: str, strict: bool) -> bool:
    """Whether what a command is handed is a secret; a `strict` rule asks that it looks like one."""
    if value.startswith(("-", "\\")) or not is_text(value):
        return False
    return (is_mixed(value) or is_random(value)) if strict else bool(value.strip("0123456789.:"))


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
        if named.kind != "password" or any(word in _PLAIN for word in value.lower().split()):
            return False
        return is_mixed(value.replace(" ", "")) and any(map(str.isdigit, value))
    if sure:
        return len(value) >= 3
    return is_random(value) or (len(value) >= 8 and "secret" in value.lower())


def is_default(named: Named, value: str) -> bool:
    """Whether it is a password that is used where nothing else is given: `getenv("DB_PASSWORD", "…")`."""
    if named.kind != "password" or value.isupper():
        return False
    return is_literal(value) and not is_path(value) and " " not in value


#: Calls that only change the form of the text they are given.
_FORM = lazy(
    r"(?:\A|[\s.:&*!\]])(?:bytes?|bytearray|[qQ]?[sS]tring\w{0,9}|str|from\w{0,9}|new|[sS]ec(?:ret|ure)\w{0,12}|Some|Ok|Just|of|"
    r"to_?bytes|valueOf|b64decode|atob|unhexlify|T|_T|TEXT|strdup|[lL]it\w{0,5}|[pP]assword|default|Field|)!?[ ]?\Z"
)


def keeps_text(call: str) -> bool:
    """Whether the call that is opened here gives what it is given, in another form: `[]byte(`, `SecretStr(`."""
    return bool(_FORM().search(call.rstrip().rstrip("(").rpartition("(")[2]))


#: What may stand between a password and where talk mentions it.
_TOLD = lazy(
    r"""(?: (?:[ ][\w.@'()/-]{0,40}[\w')]){1,6} (?::[ \t]{0,4}\s{1,8}|[ ]is[ ]{1,4})
          | [ ](?:set[ ]|changed[ ]|reset[ ])?(?:to|from|as)[ ]{1,4} ) ["'`]? ([^\s"'`<>\\]{8,256})""",
    re.X,
)
#: Names behind which talk may say the password at once.
_SPOKEN = frozenset("password passwd passwort kennwort passphrase passcode wachtwoord senha heslo".split())
_LOGIN = lazy(
    r"""(?: (?P<sure>machine\s{1,9}\S{1,90}\s{1,9}|default\s{1,9}(?=login)) (?:login\s{1,9}\S{1,90}\s{1,9})?
            (?:account\s{1,9}\S{1,90}\s{1,9})?
          | (?:login|username)\s{1,9}\S{1,90}\s{1,9} )\Z""",
    re.X,
)


def told(text: str, position: int) -> tuple[int, int]:
    """Where talk tells a password that it names here: "the password for the database is …", "password set to …"."""
    found = _TOLD().match(text, position)
    value = found[1].rstrip(".,;)]}") if found else ""
    return (found.start(1), found.start(1) + len(value)) if found and is_random(value) and is_text(value) else (0, 0)


def is_spoken(name: str, named: Named, value: str) -> bool:
    """Whether talk names a password and then says it, "use the password …", or a command a key: `secret_key …`."""
    if not is_random(value):
        return False
    if named.kind == "password":
        plain = value[0] not in "(&#" and "%" not in value  # no part of a page, nor of a text with places to fill
        return plain and (name.lower() in _SPOKEN or not name.isascii())
    letters = value.replace("/", "").replace("+", "").rstrip("=")
    return named.sure and "_" in name and len(value) >= 20 and letters.isalnum()


def is_login(text: str, start: int, named: Named, value: str) -> bool:
    """Whether the user stands before a password that begins here, as in .netrc; talk of a login may, too."""
    login = _LOGIN().search(text, max(0, start - 120), start) if named.kind == "password" else None
    if login is None or text.startswith("pass ", start):
        return False
    return bool(login["sure"]) or (is_mixed(value) and value[0] != "(")


def is_slashed(value: str) -> bool:
    """Whether an address has a password with a slash, and not a path with an @."""
    first, _, rest = value.partition("/")
    if "@" in first:
        # What follows the first @ may be the host after all, with another @ in the path.
        host = first.rpartition("@")[2]
        return "." not in host and ":" not in host and host != "localhost"
    return any(map(str.isdigit, value)) and not first.isupper() and "://" not in value and bool(rest or first)
