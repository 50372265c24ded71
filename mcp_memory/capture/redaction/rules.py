"""The table of rules. A rule is its kind, its triggers, its pattern and its verdict.

The engine looks for the triggers, tries the pattern only where one stands, and asks the verdict about what the pattern
found. What the pattern's last group holds is the secret; without a group it is all that was found. Every pattern is
bounded, so that no text can take long.
"""

from __future__ import annotations

import os

from mcp_memory.capture.redaction.values import (
    decoded,
    is_cookie,
    is_handed,
    is_likely,
    is_literal,
    is_mixed,
    is_random,
    is_slashed,
    is_strong,
    proves,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import Union

    Verdict = Callable[[re.Match[str]], bool]
    #: Kind, triggers with a bar between them, pattern, and the verdict if the pattern alone does not tell.
    Rule = Union[tuple[str, str, str], tuple[str, str, str, Verdict]]


def secret_of(found: re.Match[str]) -> str:
    return found[found.re.groups] or ""


def _looks_random(found: re.Match[str]) -> bool:
    return is_random(secret_of(found))


def _looks_likely(found: re.Match[str]) -> bool:
    return is_likely(secret_of(found))


def _looks_strong(found: re.Match[str]) -> bool:
    return is_strong(secret_of(found).rpartition(".")[2])


def _is_wrapped_token(found: re.Match[str]) -> bool:
    """Whether it is a JWT in base 64."""
    head, _, rest = decoded(found[0].rstrip("="))[:4096].partition(b".")
    return head.startswith(b"eyJ") and b"." in rest


def _is_encoded_key(found: re.Match[str]) -> bool:
    return b"PRIVATE KEY" in decoded("".join(found[0].split())[:72])


def _is_bot_token(found: re.Match[str]) -> bool:
    """Whether the first part is the number of a bot in base 64, or all of it looks made up."""
    head, _, tail = found[0].partition(".")
    return decoded(head).isdigit() or (is_strong(head) and is_strong(tail.partition(".")[2]))


#: The end of what has one length only: longer runs are something else.
_END = r"(?![A-Za-z0-9])"
_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"

#: No key of the first table is shorter.
SHORTEST = 20
_VERDICTS = {"strong": _looks_strong, "random": _looks_random, "wrapped": _is_wrapped_token, "encoded": _is_encoded_key}


def _read(name: str) -> tuple[Rule, ...]:
    """The rules of a file, one a line; it says itself what its columns are."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        rows = [line.split() for line in file if line.strip() and not line.startswith("#")]
    rules: list[Rule] = []
    for kind, triggers, pattern, *verdict in rows:
        pattern = pattern.replace("<end>", _END).replace("<uuid>", _UUID)
        rules.append((kind, triggers, pattern, _VERDICTS[verdict[0]]) if verdict else (kind, triggers, pattern))
    return tuple(rules)


#: Keys that services mark with a prefix of their own, of letters, digits and `_.-` only, and those of other signs.
KEYS, OTHER_KEYS = _read("keys.txt"), _read("other_keys.txt")


#: What is handed over as one word, in quotes or without.
_WORD = r"""["']?((?<=")[^"\r\n]{3,256}|(?<=')[^'\r\n]{3,256}|[^\s"'|;&<>]{3,256})"""


def _is_mysql_password(found: re.Match[str]) -> bool:
    # Behind a user it is a password whatever it looks like, unless containers publish a port by it.
    value = secret_of(found)
    return is_mixed(value) or (" -u" in found[0] and bool(value.strip("0123456789.:")))


#: What an address may hold before its @. The last one before the path ends the password, which may itself hold one; a
#: port is none. If that leaves a host that is none, the password holds a slash as well, and ends before one that is. A
#: token may stand in the place of the user, where a name is shorter or made of words.
_USER = r"://[^\s/:@?#\"'`<>()\[\]{}]{0,100}:"
_HOST = (
    r"(?:[\w-]{1,60}(?:\.[\w-]{1,60}){1,20}|localhost|\[[\da-f:]{1,60}\])(?::\d{1,5})?"
    r"|[\w-]{1,60}(?::\d{1,5}(?!\d)|(?=[/?\"'\s]|\Z))"
)
_SAML = r"""SAMLRe(?:sponse|quest)(?:=|\\{0,7}["'](?:\s{1,4}value=|:\s?)\\{0,7}["'])([A-Za-z0-9+/%]{40,}={0,2})"""
_SIGNED = r"sig=([A-Za-z0-9%+/_-]{30,}=?)"
_AUTHRESS = r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.([\w+/=-]{30,120})"
_MYSQL = r"(?:mysql|mariadb)[\w-]{0,20}[ \t](?:[^\r\n|;&]{0,200}?[ \t])?-p" + _WORD
_CRYPT = r"\$((?:[1567]|g?y|apr1)(?:\$rounds=\d{1,9})?(?:\$[./A-Za-z0-9]{1,64}){1,2}\$[./A-Za-z0-9]{22,})"
#: Secrets that are told by their form; the pattern is searched, from before the trigger on.
FORMS: tuple[Rule, ...] = (
    ("slack-webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{16,})"),
    ("discord-webhook", "/api/webhooks/", r"/api/webhooks/\d{5,20}/([\w-]{30,})"),
    ("telegram-token", ":AA", r":(?<=\d{8}:)(AA[\w-]{32,})"),
    ("telegram-token", ":A", r":(?<=\d{8}:)(A[\w-]{34})(?![\w-])", _looks_strong),
    ("digitalocean-token", "_v1_", r"(do[opr]_v1_[a-f0-9]{40,}(?![A-Za-z0-9]))"),
    ("azure-secret", "Q~", r"([\w~.-]{3}\dQ~[\w~.-]{31,34}(?![A-Za-z0-9]))"),
    ("azure-key", "AccountKey=|AccessKey=", r"A[a-z]{4,6}Key=([A-Za-z0-9+/]{20,}={0,2})"),
    ("azure-signature", "sig=", r"[?&;]" + _SIGNED),
    ("azure-key", "?code=", r"[?]code=([A-Za-z0-9%/+_-]{40,}(?:={1,2}|%3D){0,2})"),
    ("signature", "Signature=", r"[?&;](?:X-Amz-|X-Goog-)?Signature=([A-Za-z0-9%+/_~-]{20,}={0,2})"),
    ("teams-webhook", ".office.com/webhook", r"\.office\.com/webhook(?:b2)?/([\w@/-]{36,})"),
    ("webhook", "hooks.zapier.com", r"hooks\.zapier\.com/hooks/catch/\d{4,}/(\w{5,})"),
    ("webhook", "/bot/v2/hook/", r"/open-apis/bot/v2/hook/([\w-]{20,})"),
    ("webhook", "/webhook/send?key=", r"/webhook/send\?key=([\w-]{20,})"),
    ("cookie", "SESSI|_session=", r"(?:JSESSIONID|PHPSESSID|_gitlab_session)=([A-Za-z0-9.!_-]{16,})"),
    ("saml", "SAMLRe", _SAML),
    ("authress-key", ".acc", _AUTHRESS),
    ("password", " -p", _MYSQL, _is_mysql_password),
    (
        "password",
        "://",
        _USER
        + r"(?!/|\d{1,5}[/?#])([^\s\"'`<>,|(){}\[\]]{1,200}/[^\s\"'`<>,|(){}\[\]/]{0,100})@(?:"
        + _HOST
        + r")(?![\w.@-])",
        lambda found: is_slashed(found[1]),
    ),
    ("password", "://", _USER + r"(?!\d{1,5}[?#])([^\s/\"'`<>]{1,256})@", lambda found: is_literal(found[1])),
    ("token", "://", r"://([\w.~%+-]{20,256})(?=:?[^\s/@]{0,256}@)", _looks_random),
    # Hashes of passwords, as in /etc/shadow or a table of users: they can be tried out at leisure.
    ("password-hash", "$2", r"\$(2[abxy]\$\d\d\$[./A-Za-z0-9]{53})"),
    ("password-hash", "$argon2", r"\$(argon2(?:id|i|d)\$v=\d+\$[\w=,]{1,60}\$[A-Za-z0-9+/]{8,}\$[A-Za-z0-9+/]{16,})"),
    ("password-hash", "$1$|$5$|$6$|$7$|$y$|$gy$|$apr1$", _CRYPT),
)
#: Keys without a prefix, of letters, digits and `_.-` only; the pattern is searched.
WORDS_OF_KEYS: tuple[Rule, ...] = (
    ("discord-token", ".", r"([MNO][\w-]{21,27}\.[\w-]{6,7}\.[\w-]{27,200})", _is_bot_token),
    ("terraform-token", ".atlasv1.", r"([A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,})"),
    ("azure-token", "AZDO", r"(?<![A-Za-z0-9])([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})(?![A-Za-z0-9])"),
    ("azure-key", "JQQJ99", r"(?<![A-Za-z0-9])([A-Za-z0-9]{32,52}JQQJ99[A-Za-z0-9]{20,32})(?![A-Za-z0-9])"),
    ("mailchimp-key", "-us", r"(?<![A-Za-z0-9])([0-9a-f]{32}-us\d{1,2})" + _END),
    ("maxmind-key", "_mmk", r"(?<![A-Za-z0-9])([A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)" + _END),
)


def _handed(strict: bool) -> Verdict:
    return lambda found: is_handed(secret_of(found), strict)


def _is_login(found: re.Match[str]) -> bool:
    # `test:test` is no secret to anyone.
    value = secret_of(found)
    return is_handed(value, False) and not found[0].rstrip("\"'").endswith((f" {value}:{value}", f"'{value}:{value}"))


def _is_typed(found: re.Match[str]) -> bool:
    """Whether a test types it into a field for passwords, of which the line before tells."""
    line = found.string[max(0, found.start() - 100) : found.start()].rpartition("\n")[2].lower()
    value = secret_of(found)
    named = "pass" in line or "pwd" in line or "secret" in line or "token" in line
    return named and " " not in value and is_handed(value, "pass" not in line)


_ANY, _STRICT = _handed(False), _handed(True)
#: What may stand between a command and its option: the rest of the line, and lines that go on after a backslash.
_ON = r"\b(?:[^\r\n|;&\\]|\\[^\r\n]|\\\r?\n){0,300}?[ \t]"
_TEXT = r"""(["'])((?:(?!\1)[^\r\n]){3,256})"""
#: A recovery code, and perhaps the number it has in a list.
_CODE = r"(?:[-*][ ]|\d{1,2}[.)][ ])?(?=[a-z-]{0,12}[0-9])[a-z0-9]{4,8}(?:-[a-z0-9]{4,8}){1,3}"
_QUOTED = r"[\"'][^\"'\r\n]{1,100}[\"'],\s{0,20}"
_LOGINS = "docker login|podman login|nerdctl login|buildah login|skopeo login|oras login|registry login|az login"


def _option(letters: str) -> str:
    """What follows one of these options, with a space or without."""
    return _ON + r"(?-i:" + letters + r")[ \t=]{0,4}" + _WORD


def _login(option: str) -> str:
    """The password of a user, where both are given as one word."""
    quoted = r"[ \t=]{0,4}([\"'])?[^\s:'\"$<\[]{0,100}[\"']?:[\"']?"
    return _ON + r"(?:" + option + r")" + quoted + r"([^\s'\"$\[:](?:(?(1)(?!\1)[^\r\n]|[^\s'\"])){0,200})"


#: Secrets that no name announces, but the command or call they are handed to. A trigger is how it begins, in lower
#: case; the pattern follows it, in any case. These take an option.
COMMANDS: tuple[Rule, ...] = (
    ("password", "sshpass|twine upload|psexec|" + _LOGINS, _option("-p"), _ANY),
    ("password", "mongo", r"(?:sh|dump|restore|export|import|stat|top)?" + _option("-p"), _STRICT),
    ("password", "sqlcmd|bcp", _option("-P"), _ANY),
    ("password", "zip", _option("-P"), _STRICT),
    ("password", "7z", r"a?" + _option(r"-p(?=\S)"), _STRICT),
    ("password", " -pass| -passin| -passout", r"[ \t]+[\"']?pass:([^\s'\"]{3,256})", _ANY),
    ("password", "redis-cli", _option("-a"), _ANY),
    ("password", "ldap", r"(?:search|modify|add|delete|passwd|whoami)" + _option("-w"), _ANY),
    ("password", "htpasswd", r"[ \t]+-\w{0,9}b\w{0,9}[ \t]+\S{1,200}[ \t]+\S{1,100}[ \t]+" + _WORD, _ANY),
    ("password", "smbclient|rpcclient", _ON + r"-U[ \t=]?[\"']?[^\s%'\"]{1,100}%([^\s'\"]{3,200})", _ANY),
    ("password", " -storepass| -keypass| -srcstorepass| -deststorepass", r"[ \t]+" + _WORD, _ANY),
    ("password", "curl", _login(r"-[A-Za-z]{0,6}u|--user|--proxy-user"), _is_login),
    ("password", "curl", _ON + r"(?:-u|--user)[ \t=]{0,4}[\"']?([^\s:'\"$<]{8,200}):(?=[\s'\"]|\Z)", _STRICT),
    ("password", "curl", _ON + r"(?:-b|--cookie)[ \t=]{0,4}[\"']?([\w.-]{1,80}=[^\s'\"]{8,512})", _STRICT),
    ("password", "http", r"s?(?=[ \t])" + _login(r"-a|--auth"), _ANY),
    ("password", "secret set|secret put", _ON + r"(?:-b|--body|--value)[ \t=]{0,4}" + _WORD, _ANY),
    ("password", "openssl enc|openssl aes", _option("-k"), _STRICT),
    ("password", "openssl passwd", r"(?:[ \t]+-(?:salt[ \t]+\S{1,40}|\w{1,8})){0,9}[ \t]+" + _WORD, _STRICT),
    ("password", "--with-token", r"[ \t]{0,9}<<<[ \t]{0,9}" + _WORD, _ANY),
)
_CREDENTIAL = r"[ \t]{0,4}(?:" + _QUOTED + r"){1,3}[\"']([^\"'\r\n]{3,256})[\"']"
_PHRASE = r"(?:[ ](?:is|was))?\W{1,12}((?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})(?![a-z])"
_THIRD = r"(?:" + _QUOTED + r"){2}" + _TEXT
CALLS: tuple[Rule, ...] = (
    ("password", "requirepass |bindpw |rootpw |masterauth ", r"[ \t]{0,40}(?=\S{0,40}\d)" + _WORD, _STRICT),
    ("password", "_authtoken |cargo login ", r"[ \t]{0,40}" + _WORD, _STRICT),
    ("password", "wpa_passphrase", r"[ \t]{1,9}\S{1,60}[ \t]{1,9}" + _WORD, _STRICT),
    ("password", "set password for", r"[^\r\n]{1,100}=[ \t]{0,9}(?:password\()?['\"]([^'\"\r\n]{1,200})", _ANY),
    ("password", "poetry config http-basic.", r"\S{1,80}[ \t]{1,9}\S{1,100}[ \t]{1,9}" + _WORD, _ANY),
    ("password", "jdbc:oracle:|sqlplus ", r"(?:\w{2,6}:|-\w{1,9}[ ]){0,3}[\w$#]{1,60}/([^\s@/\"']{3,128})@", _ANY),
    ("password", "convertto-securestring", r"[ \t]{1,9}(?:-String[ \t]{1,9})?" + _TEXT, _ANY),
    ("password", "credential(|credentials(", _CREDENTIAL, _STRICT),
    ("password", "auth=(|auth = (", r"[ \t]{0,4}" + _QUOTED + r"[\"']([^\"'\r\n]{3,256})[\"']", _STRICT),
    ("password", "identified by", r"[ \t]{1,9}(?:password[ \t]{1,9})?['\"]([^'\"\r\n]{1,200})", _ANY),
    ("password", "identified with", r"[ \t]{1,9}\S{1,60}[ \t]{1,9}by[ \t]{1,9}['\"]([^'\"\r\n]{1,200})", _ANY),
    ("password", "mnemonic|seed phrase|seed_phrase", _PHRASE),
    (
        "password",
        "login(|basicauth(|basic_auth(|db.auth(",
        r"[ \t]{0,4}(?:[\w.]{1,60},\s{0,4}(?<=(?:me|er|il),[ ])|(?:[\w.]{1,60},\s{0,4})?(?:"
        + _QUOTED
        + r"){1,2})[\"']([^\"'\s]{3,256})[\"']",
        _STRICT,
    ),
    (
        "password",
        ".sendkeys(|.send_keys(|.fill(|.type(|.setvalue(|.press_sequentially(|.settext(|.val(",
        r"\s{0,9}" + _TEXT,
        _is_typed,
    ),
    ("password", "new pdo(|new mysqli(|connect(|create_user(|create_superuser(", _THIRD, _looks_likely),
    ("password", "password_hash(|password_verify(|hash::make(|bcrypt.hash(|hashpw(", r"b?" + _TEXT, _looks_likely),
    ("password", "curlopt_userpwd", r"[\s,'\"=>]{1,9}[^\s:'\"]{1,60}:([^'\"\r\n]{3,200})", _ANY),
    ("password", "creds |creds: |credentials: ", r"[^\s:/]{1,60}[ ]?[/:][ ]?(\S{6,128})", _looks_likely),
    ("password", "getconnection(|set_password(", r"(?:" + _QUOTED + r"){2}" + _TEXT, _STRICT),
    ("password", "net use ", r"[^\r\n]{0,120}?/user:\S{1,60}[ ]{1,4}(\S{3,128})", _ANY),
    (
        "password",
        "login with |log in with |logged in with |sign in with |log in as |logged in as |login as ",
        r"\S{1,60}[ ]?[/:][ ]?(\S{6,128})",
        _looks_random,
    ),
    ("secret", "jwt.sign(|jwt.verify(|jwt.encode(|jwt.decode(", r"[^\r\n\"'`]{1,80},\s{0,20}" + _TEXT, _STRICT),
    ("secret", "createhmac(|hmac.new(", r"(?:" + _QUOTED + r")?b?" + _TEXT, _STRICT),
    ("password", "random_password", r"[^`]{0,1500}?\bresult\\{0,7}\":\s{0,4}\\{0,7}\"([^\"\\\r\n]{3,256})", _STRICT),
    ("password", "recovery code", r"s?:\s{1,8}(" + _CODE + r"(?:[\s,]{1,8}" + _CODE + r"){0,30})(?![\w-])"),
)
#: What takes a password from its input, and how one is piped into it: looked for backwards from the taker's name.
TAKERS = ("--password-stdin", "chpasswd", "--with-token", "secret put", "secret set", "secret create", "sudo -s ")
PIPED = (
    r"(?:echo|printf)[ \t]{1,9}(?:-\w{1,9}[ \t]{1,9}|[\"']?%s(?:\\n)?[\"']?[ \t]{1,9})?"
    + _WORD
    + r"[\"']?[ \t]{0,9}\|[^\r\n|]{0,120}\Z"
)


#: One of the parameters that follow some schemes: each of them may prove who asks.
_PARAMETER = r"""[\w-]{1,40}=(?:\\{0,7}"[^"\\\r\n]{0,512}\\{0,7}"|[^\s,"'`\\]{1,512})"""
_COOKIE = r"""\\{0,7}["'`]?\]?\s{0,4}[:=]\s{0,4}\\{0,7}["'`]?([\w.-]{1,80}=[^\r\n"'`\\]{3,256})"""
HEADERS: tuple[Rule, ...] = (
    (
        "authorization",
        "authorization",
        r"""\\{0,7}["'`]?\]?\s{0,4}[:=,]\s{0,4}\\{0,7}["'`]?"""
        r"(?:(?P<scheme>[A-Za-z][\w-]{1,20})(?:[ ]|%20){1,9})?"
        r"(" + _PARAMETER + r"(?:[ \t]{0,4}[,;][ \t]{0,4}" + _PARAMETER + r"){0,40}|[^\s\"'`,;<>{}()\\\[]{4,256})",
        lambda found: proves(secret_of(found), (found["scheme"] or "").lower()),
    ),
    ("authorization", "bearer", r"[:=]?[ ]{1,4}([A-Za-z0-9._~+/=-]{16,256})", _looks_random),
    ("cookie", "cookie", _COOKIE, lambda found: any(map(is_cookie, secret_of(found).split(";")))),
)
