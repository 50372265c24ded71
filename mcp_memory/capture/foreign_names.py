"""What passwords, keys and tokens are called in other languages than English. Each is written in lower case.

A name with accents may be written without them. Where a name means other things as well, it is not sure, and only a
value that looks made up counts.
"""

from __future__ import annotations

from mcp_memory.capture.secret_names import Named

_SURE, _PERHAPS = Named("password", True), Named("password", False)
_KEY, _TOKEN = Named("api-key", False), Named("token", False)

#: `passwort`, `passord` and `mot de passe` hold `pass`, and are looked for with it.
NAMES = (
    ("kennwort", _SURE),
    ("wachtwoord", _SURE),
    ("senha", _SURE),
    ("contraseña", _SURE),
    ("contrasena", _SURE),
    ("clave", _PERHAPS),
    ("chave", _PERHAPS),
    ("heslo", _SURE),
    ("haslo", _SURE),
    ("sifre", _SURE),
    ("parola", _PERHAPS),
    ("kata sandi", _SURE),
    ("lösenord", _SURE),
    ("jelszó", _SURE),
    ("adgangskode", _SURE),
    ("salasana", _SURE),
    ("hasło", _SURE),
    ("şifre", _SURE),
    ("mật khẩu", _SURE),
    ("пароль", _SURE),
    ("κωδικός", _PERHAPS),
    ("密码", _SURE),
    ("密碼", _SURE),
    ("口令", _SURE),
    ("パスワード", _SURE),
    ("비밀번호", _SURE),
    ("รหัสผ่าน", _SURE),
    ("पासवर्ड", _SURE),
    ("كلمة المرور", _SURE),
    ("كلمة السر", _SURE),
    ("סיסמה", _SURE),
    ("סיסמא", _SURE),
    ("clé", _KEY),
    ("schlüssel", _KEY),
    ("ключ", _KEY),
    ("密钥", _KEY),
    ("密鑰", _KEY),
    ("キー", _KEY),
    ("키", _KEY),
    ("jeton", _TOKEN),
    ("токен", _TOKEN),
    ("令牌", _TOKEN),
    ("トークン", _TOKEN),
    ("토큰", _TOKEN),
)
#: What a name is followed by: a verb like `is`. Those of the last line are written without spaces.
COPULAS = ("is", "was", "ist", "war", "est", "es", "é", "era", "è", "jest", "je", "är", "là")
_UNSPACED = ("是", "为", "為", "は", "는", "은")
IS = "(?:" + "|".join(COPULAS) + ")"
UNSPACED_IS = "(?:" + "|".join(_UNSPACED) + ")"
