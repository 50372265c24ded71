"""Whether what stands behind a secret's name is the secret itself, or code, a type, a placeholder, a plain word."""

from __future__ import annotations

import re

from mcp_memory.capture.marks import OPENING
from mcp_memory.capture.patterns import lazy

_REFERENCE = lazy(
    r"\$[A-Za-z_{(<\[]|[{<`]|%(?:\d\$)?[A-Za-z({]|[*•.…_-]+\Z|(?:\w*[_-])?x{3,}\Z|\[?redacted|![A-Z][a-z]+|[&:@?*][A-Za-z_]+\Z|#\{"
    r"|(?:process|import\.meta)\.env|os\.(?:environ|getenv)|getenv|(?:secrets|vars?|env|local)\.\w"
    r"|your[ _-]|my[ _-](?:password|secret|token|api)\b|(?:insert|enter|paste|replace)[ _-]",
    re.I,
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
    "mind".split()
)
_CALL = lazy(r"[A-Za-z_$][\w$.:>-]*[(\[{]")
_CHAIN = lazy(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)+\Z")
_PATH = lazy(
    r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[\\/][\w.@ -]+){2,}\Z|[\w./\\~:-]+\.(?:pem|key|json|ya?ml|env|txt|py|go|ts|js|rs|md)\Z"
)
_IDENTIFIER = lazy(r"[\W_]*(?:(?:\d{1,3}|[A-Za-z]+\d{0,3})(?:[\W_]+|\Z))*\Z", re.ASCII)
_ALGORITHM = lazy(r"(?:sha|md|base|utf|argon|oauth|https?|[rhe]s|aes|pbkdf|bcrypt|scrypt)-?\d", re.I)


def is_reference(value: str) -> bool:
    """Whether the value only stands for a secret: a variable, a placeholder, our own mark."""
    return value.startswith(OPENING) or bool(_REFERENCE().match(value))


def is_literal(value: str) -> bool:
    """Whether the value could be a secret: neither a reference nor a type nor a word that names rather than is one."""
    return bool(value) and not is_reference(value) and value.strip("_-.:").lower() not in _PLAIN


def is_code(value: str) -> bool:
    """Whether an unquoted value is an expression: a call, an index, a chain of names."""
    return bool(_CALL().match(value) or _CHAIN().match(value))


def is_path(value: str) -> bool:
    """Whether the value names a place. A key in base 64 may hold slashes, too: one part of it then looks made up."""
    return bool(_PATH().match(value)) and not any(map(_is_scrambled, value.replace("\\", "/").split("/")))


def _is_scrambled(part: str) -> bool:
    cases = any(map(str.isupper, part)) and any(map(str.islower, part)) and any(map(str.isdigit, part))
    return cases and len(part) >= 8 and part.isalnum() and is_random(part)


def is_basic(value: str) -> bool:
    """Whether the value is `user:password` in base 64."""
    from binascii import Error, a2b_base64

    try:
        plain = a2b_base64(value + "=" * (-len(value) % 4))
    except (Error, ValueError):
        return False
    return b":" in plain


def is_mixed(value: str) -> bool:
    """Whether letters come with digits or signs, as in a password and unlike in a word or a name."""
    letters = any(map(str.isalpha, value))
    return letters and not value.replace("_", "").replace("-", "").isalpha() and not _ALGORITHM().match(value)


def is_random(value: str) -> bool:
    """Whether the value looks made by a machine: long, with letters and digits that form no words."""
    if len(value) < 8 or _IDENTIFIER().match(value[:200]):
        return (
            len(value) >= 20 and value.isalnum() and not value.islower() and not value.isupper() and _scattered(value)
        )
    return is_mixed(value) and any(map(str.isdigit, value))


def _scattered(value: str) -> bool:
    """Whether case changes more often than in a camelCase name, whose words are three letters or more."""
    changes = sum(value[i].islower() and value[i + 1].isupper() for i in range(len(value) - 1))
    return changes * 5 > len(value)
