"""Secrets in talk, in other languages, and where code or a command writes them in a way of its own.

The secrets are invented, and put together so that no scanner takes alarm.
"""

from __future__ import annotations

import pytest

from mcp_memory.capture.redaction import redact

P = "Tr0ub4dor&3x"
WORD = "swordfish"
KEY = "q8Zr4Lm2Xv9Tb6NyWc3K"
FILLING = "Lorem ipsum dolor sit amet. " * 80

FOREIGN = [
    ("mot de passe : {}", P),
    ("Le mot de passe est {}.", P),
    ("Mot de passe: {}", WORD),
    ("MOT_DE_PASSE={}", WORD),
    ("Das Passwort ist {}", P),
    ("Kennwort: {}", WORD),
    ("contraseña: {}", WORD),
    ('"contraseña": "{}"', WORD),
    ("La contraseña es {}", P),
    ("clave de API: {}", KEY),
    ("SENHA={}", WORD),
    ("Senha do banco: {}", P),
    ("a senha é {}", P),
    ("Het wachtwoord is {}", P),
    ("hasło: {}", P),
    ("şifre: {}", P),
    ("lösenord: {}", P),
    ("пароль: {}", WORD),
    ("мой пароль {}", P),
    ("Пароль — {}", P),
    ('"пароль": "{}"', WORD),
    ("密码：{}", P),
    ("密码是{}。", P),
    ("パスワードは{}です", P),
    ("비밀번호: {}", P),
    ("كلمة المرور: {}", P),
    ("סיסמה: {}", P),
    ("API-Schlüssel: {}", KEY),
    ("clé API : {}", KEY),
    ("токен: {}", KEY),
]


@pytest.mark.parametrize(("around", "secret"), FOREIGN)
def test_a_secret_is_told_by_its_name_in_another_language(around: str, secret: str) -> None:
    clear = redact(around.format(secret))
    assert clear.partition("[redacted:")[0] == around.partition("{}")[0]
    assert secret not in clear
    assert clear.endswith(around.partition("{}")[2])


def test_names_of_other_languages_count_in_a_long_text_that_holds_their_letters() -> None:
    assert P not in redact(f"{FILLING}Não sei. A senha: {P}")


HARMLESS_FOREIGN = """
Les mots de passe sont importants, mot de passe oublié ?
le mot de passe est obligatoire et doit contenir 8 caractères
Mot de passe : obligatoire
Passwort vergessen? Das Passwort ist falsch
Passwort: erforderlich
contraseña: obligatoria
contraseña: mínimo 8 caracteres
la clave es la paciencia
clave: valor
senha incorreta, senha: obrigatório
wachtwoord: verplicht
пароль: обязательное поле
Неверный пароль, введите пароль
密码错误 密码：必填 密码是必填项 密码：8-20位
パスワードを入力してください パスワードは必須です
"password": "Passwort", "Passwort": "Wachtwoord"
la parola: bella
clé : comprendre, Schlüssel: Wert, ключ: значение
haslocal = [op for op in opmap]
加密密碼：%2$s 使用 usermod -p 設定密碼，來解鎖這隻帳號的密碼
EnclaveCertificate: f7a4d45b52641c1e
""".strip().split("\n")


@pytest.mark.parametrize("text", HARMLESS_FOREIGN)
def test_words_of_other_languages_are_left_alone(text: str) -> None:
    assert redact(text) == text


SAID = [
    ("use the password {} to log in", P),
    ("password for bob: {}", P),
    ("password (prod): {}", P),
    ("the password for the db is {}", P),
    ("changed the password to {}.", P),
    ("Please use the following password to proceed to installation:\n\n{}\n", "3f9a1c7e5b2d48069af1c3e5d7b90246"),
    ("password：{}", P),
    ("wget --password={} https://x", WORD),
    ("helm install x --set auth.postgresPassword={},a=b", WORD),
    ("mount -o username=bob,password={} x", WORD),
    ("echo {} | sudo -S apt update", WORD),
    ("echo 'bob:{}' | sudo chpasswd", WORD),
    ("printf '%s' '{}' | docker login -u me --password-stdin", WORD),
    ("openssl passwd -6 {}", P),
    ("openssl enc -aes-256-cbc -k {} -in a", P),
    ("requirepass {}", P),
    ("bindpw {}", P),
    ("npm config set //registry.npmjs.org/:_authToken {}", KEY),
    ("SET PASSWORD FOR 'bob' = PASSWORD('{}');", WORD),
    ('server.login("me@x.org", "{}")', P),
    ('HTTPBasicAuth("me", "{}")', P),
    ('os.environ.get("DB_PASSWORD", "{}")', WORD),
    ("define('DB_PASSWORD', '{}');", WORD),
    ('setenv("TOKEN", "{}", 1)', KEY),
    ('#define API_KEY "{}"', KEY),
    ("${{DB_PASSWORD:-{}}}", WORD),
    ('process.env.SECRET || "{}"', P),
    ('if token != "{}":', KEY),
    ("<password><![CDATA[{}]]></password>", P),
    ("&quot;password&quot;:&quot;{}&quot;", P),
    ("password%3D{}%26x", "Tr0ub4dor"),
    ('{{"stdout":"password: {}\\nuser: x"}}', WORD),
    ("\\tpassword = {}\\n", WORD),
    ("src/x.env:3:password={}", WORD),
    ("Your recovery codes:\n  {}\n", "x9k2p-q7w4r\n  a1b2c-d3e4f"),
]


@pytest.mark.parametrize(("around", "secret"), SAID)
def test_a_secret_goes_however_it_is_written(around: str, secret: str) -> None:
    clear = redact(around.format(secret))
    assert secret not in clear
    assert "[redacted:" in clear
    assert redact(clear) == clear


HARMLESS = """
password: the user enters it
the password for the database comes from Vault
password set to expire in 30 days, changed the password to something safe
set `OPENAI_API_KEY` or `OPENAI_ADMIN_KEY`, `DB_PASSWORD`, `API_TOKEN`
the --password or `--prompt-for-password` flag
refresh_token or 'norefreshtoken'
if cache_token != current_token:
os.environ.get("DB_PASSWORD", "") or os.getenv("TOKEN", "none")
("DB_PASSWORD", "DB_USER")
#define CKO_PRIVATE_KEY 0x00000003UL
${DB_PASSWORD:?must be set} ${TOKEN:-$OTHER} ${DB_PASSWORD:-}
the default password callback, for machine function pass registration
echo done1 | sudo tee /x; echo "a:b1" | sort
openssl passwd -6; openssl rand -hex 32
enter the passphrase to%0Aprotect your new key, Passwort eingegeben!%0AEine leeres
master username and password (if it is enabled)
<string name="forgot_password">Vergessen</string>
fix in update-passwd manpage. Closes: Bug#53857,#75791
login(username, password); connect("localhost", 5432, "app1")
""".strip().split("\n")


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_words_and_code_are_left_alone(text: str) -> None:
    assert redact(text) == text
