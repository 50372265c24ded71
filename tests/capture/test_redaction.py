"""Secrets go, everything else stays. The secrets here are invented, and put together so that no scanner takes alarm."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.capture.redaction import redact, redact_json

TRANSCRIPTS = Path(__file__).parents[3] / "shared" / "data" / "transcripts"


def body(length: int, alphabet: str = "Ab3xY7k") -> str:
    return (alphabet * length)[:length]


HEX = "0123456789abcdef"
JWT = ".".join(("eyJ" + body(20), "eyJ" + body(40), body(43)))
KEYS = [
    ("anthropic-key", "sk-ant-" + "api03-" + body(95)),
    ("openai-key", "sk-" + body(48)),
    ("openai-key", "sk-proj-" + body(60) + "_x-" + body(20)),
    ("aws-key-id", "AKIA" + body(16, "ABCDEFG2")),
    ("aws-key-id", "ASIA" + body(16, "ABCDEFG2")),
    ("google-key", "AIza" + body(35)),
    ("google-token", "ya29." + body(60)),
    *(("github-token", prefix + body(36)) for prefix in ("ghp_", "gho_", "ghs_", "ghu_", "ghr_")),
    ("github-token", "github_pat_" + body(22) + "_" + body(59)),
    ("gitlab-token", "glpat-" + body(20)),
    *(("slack-token", "xox" + letter + "-123456789012-" + body(24)) for letter in "abprs"),
    ("stripe-key", "sk_live_" + body(24)),
    ("stripe-key", "rk_live_" + body(24)),
    ("stripe-key", "sk_test_" + body(24)),
    ("npm-token", "npm_" + body(36)),
    ("pypi-token", "pypi-" + "AgEIcHlwaS5vcmc" + body(100)),
    ("huggingface-token", "hf_" + body(34)),
    ("sendgrid-key", "SG." + body(22) + "." + body(43)),
    ("twilio-key", "SK" + body(32, HEX)),
    ("digitalocean-token", "dop_v1_" + body(64, HEX)),
    ("netlify-token", "nfp_" + body(36)),
    ("discord-token", b64encode(b"198622483471925248").decode() + ".Cl2FMQ." + body(27)),
    ("age-key", "AGE-SECRET-KEY-1" + body(58, "QPZRY9X8")),
    ("jwt", JWT),
]
AROUND = ["{}", 'say "{}".', "a\n{}\nb", r"a\n{}\nb", "x={}&y", "%3D{}%26", "\x1b[32m{}\x1b[0m", "日本{}語"]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(("kind", "key"), KEYS)
def test_key_is_told_by_its_form_wherever_it_stands(kind: str, key: str, around: str) -> None:
    assert redact(around.format(key)) == around.format(f"[redacted:{kind}]")


#: What a machine might make up.
S = "q8Zr4Lm2Xv9Tb6NyWc3K"
KEPT_AROUND = [
    ("https://hooks.slack.com/services/{}", "T0AB1/B0CD2/" + body(24), "slack-webhook"),
    ("bot 123456789:{} starts", "AA" + body(33), "telegram-token"),
    ("Name=x;AccountKey={};Suffix=core", body(86) + "==", "azure-key"),
    ("postgres://admin:{}@db.example.com:5432/app", "hunter2", "password"),
    ("redis://:{}@localhost/0", "p@ss", "password"),
    ("curl -s -u admin:{} https://example.com", "hunter2", "password"),
    ("CREATE USER x IDENTIFIED BY '{}'", "hunter2", "password"),
    ("Authorization: Bearer {}", body(24), "authorization"),
    ("Authorization: Basic {}", "dXNlcjpwYXNz", "authorization"),
    ('-H "Authorization: token {}"', body(20), "authorization"),
    ("Proxy-Authorization: Basic {}", "dXNlcjpwYXNz", "authorization"),
    ("got Bearer {} back", body(24), "authorization"),
    ("Cookie: {}\nHost: x", "sid=31d4d96e; theme=dark", "cookie"),
    ("Set-Cookie: {}", "sid=31d4d96e; Path=/; HttpOnly", "cookie"),
    ("X-Api-Key: {}", "0123456789abcdef", "api-key"),
    ("PASSWORD={}", "hunter2", "password"),
    ("export TOKEN='{}'", "abcdef", "token"),
    ("docker run -e DB_PASSWORD={} x", "swordfish", "password"),
    ("AWS_SECRET_ACCESS_KEY={}", body(20) + "/" + body(19), "api-key"),
    ("aws_secret_access_key = {}", body(20) + "/" + body(19), "api-key"),
    ('{{"api_key": "{}"}}', "abcd1234", "api-key"),
    ('{{\\"password\\": \\"{}\\", \\"user\\": 1}}', "hunter2", "password"),
    ('{{\\\\\\"password\\\\\\": \\\\\\"{}\\\\\\"}}', "hunter2", "password"),
    ('{{"password":"{}"}}', 'a\\"b', "password"),
    ("client_secret: {}", "abcd1234efgh", "secret"),
    ("db:\n  password: {}\n", "swordfish", "password"),
    ("spring.datasource.password={}", "swordfish", "password"),
    ("mysql --password {} --host x", "hunter2", "password"),
    ("tool --api-key={}", "abcd1234", "api-key"),
    ('password := "{}"', "hunter2", "password"),
    ('const apiKey: string = "{}"', "abc123xyz", "api-key"),
    ("'password' => '{}'", "hunter2", "password"),
    ('os.environ["API_TOKEN"] = "{}"', "abc123", "token"),
    ("<password>{}</password>", "hunter2", "password"),
    ("Server=db;Password={};Encrypt=true", "Str0ng!Pass", "password"),
    ("https://x.example/cb?access_token={}&x=1", "abc123def", "token"),
    ("//registry.example/:_authToken={}", "abcdef123456", "token"),
    ("my password is {}, please log in", "hunter2", "password"),
    ("SECRET_KEY_BASE={}", body(128, HEX), "api-key"),
    ("password = '{}'", body(5000), "password"),
    ("api_key: X-Api-Key: {}", S, "api-key"),
    ("auth_token: Token {}", S, "token"),
    ("authtok: authorization: token {}", S, "authorization"),
    ("Proxy-Authorization: Basic {}", S, "authorization"),
    ("Authorization: Digest {}\nHost: x", f'username="u", realm="r", nonce="{S}", response="{S}"', "authorization"),
    ("-H 'Authorization: Digest {}' x", f'username="u", qop=auth, response="{S}"', "authorization"),
    ("https://{}@github.com/x.git", S, "token"),
    ("api_key:\n  {}\n", S, "api-key"),
    ("password: |\n  {}\nuser: x", S, "password"),
    ("password: >-\n  {}\nuser: x", f"{S}\n  {S}", "password"),
    ("- name: DB_PASSWORD\n  value: {}\n", S, "password"),
    ('- name: DB_PASSWORD\n  value: "{}"\n', "swordfish", "password"),
    ('{{"name":"DB_PASSWORD","value":"{}"}}', S, "password"),
    ('{{\\"name\\": \\"DB_PASSWORD\\", \\"value\\": \\"{}\\"}}', S, "password"),
    ('name  = "API_TOKEN"\n  value = "{}"', S, "token"),
    ('{{"value":"{}","name":"API_TOKEN"}},{{"value":"8080","name":"PORT"}}', S, "token"),
    ('{{"Value": "{}", "Key": "DB_PASSWORD"}}', "swordfish", "password"),
    ('{{\n  "value": "{}",\n  "name": "API_TOKEN"\n}}', "abc123", "token"),
    ('{{\\"value\\": \\"{}\\", \\"name\\": \\"API_TOKEN\\"}}', S, "token"),
    ("- value: {}\n  name: DB_PASSWORD\n- value: abcd1234efgh\n  name: IMAGE\n", S, "password"),
    ("- value: '{}'\n  name: DB_PASSWORD", "the-value", "password"),
    ('value = "{}"\n  name  = "API_TOKEN"\n', S, "token"),
    ("api_keys:\n  - {}\n  - prod\n", S, "api-key"),
    ("api_keys:\n- {}   # the first\nname: x\n", S, "api-key"),
    ('passwords:\r\n  - "{}"\r\nusers:\r\n  - a1b2c3d4\r\n', "swordfish", "password"),
    ("Here are the API keys:\n\n- {}\n\nBye", S, "api-key"),
    ('{{"passwords": ["{}"], "users": ["a1b2c3d4"]}}', "swordfish", "password"),
    ('{{\\"tokens\\": [\\"{}\\", \\"eos\\"]}}', S, "token"),
    ('access_tokens = [\n    "{}",\n]', S, "token"),
    ("secrets: [plain, {}]", S, "secret"),
    ('API_KEYS=["{}"]', S, "api-key"),
    ('apiKeys: ["{}"]', body(3000), "api-key"),
    ("FROM x\nENV DB_PASSWORD {}\n", "swordfish", "password"),
    ("setx API_KEY {}", S, "api-key"),
    ('setx API_KEY "{}" /M', S, "api-key"),
    ("here is the api key: {}", S, "api-key"),
    ("my API key is {}, use it", S, "api-key"),
    ("Ocp-Apim-Subscription-Key: {}", S, "api-key"),
    ("machine h login u password {}", "swordfish", "password"),
    ("machine h\n  login u\n  password {}\n", S, "password"),
    ("mysql -u root -p{} app", "swordfish", "password"),
    ("mysqldump -p{} app > x.sql", S, "password"),
    ("mariadb -h db -p'{}'", S, "password"),
]


@pytest.mark.parametrize(("around", "secret", "kind"), KEPT_AROUND)
def test_secret_goes_and_what_names_it_stays(around: str, secret: str, kind: str) -> None:
    assert redact(around.format(secret)) == around.format(f"[redacted:{kind}]")


HARMLESS = r"""
token_count = 5
max_tokens: 4000
"input_tokens":12,"cache_read_input_tokens":70525
password = os.environ["X"]
password = os.environ.get("DB_PASSWORD", "")
token: string;
password: string | null
password: Optional[str] = None
password: ${{ secrets.X }}
PASSWORD=${PASSWORD} TOKEN=$TOKEN SECRET=$(cat x)
tokens, secrets and passwords
token := refreshToken(ctx)
secretName: my-secret
secret_name = "prod/db"
client(api_key=settings.api_key, password=password)
token = self.tokens[0]
if token == "EOF":
headers = {"Authorization": f"Bearer {token}"}
curl -H "Authorization: Bearer $TOKEN" -u "$USER:$PASS"
Authorization: Bearer <token>
Authorization: Basic authentication is used
the token is expired and the password is required
  --token string   the access token
use --password to log in
<input type="password" name="password" placeholder="Password">
{"password": "string", "token": "..."}
print("Password: ", end="")
url = "password="+pw+"&x"
http://localhost:3000/@vite/client and https://example.com:8080/path@foo
git@github.com:foo/bar.git ssh://git@github.com:22/foo http://user:${PASS}@host
task-abcdefghijklmnopqrstuvwxyz and disk-0123456789012345678901
primary_key = "abc123def", cache_key: "user:1234:profile", public_key = "abc123"
PWD=/home/dev/project
next_token = "abc123def456"
--- PASS: TestBar2 (0.00s)
author: bob1234567
secrets.token_hex(16)
password_hash = hash_password(pw)
Token: 123456
private_key: /etc/ssl/key.pem
the prefix of AKIA keys, eyJhbGciOiJIUzI1NiJ9 and sk- are public
if text.startswith("-----BEGIN RSA PRIVATE KEY-----"):
monkey: banana123 turkey=abc123def456 compass: north12345
password = getpass.getpass("Password: ")
credentials: "same-origin"
secret: db-creds-v1
password: "Enter your password"
api_key = "your-api-key-here" # or <YOUR KEY>, or xxxx
private methods and </private> alone
password: str
token = get_token()
key: value pairs, the key: an id1234567, the primary key: user_id_12345678
api key: see docs/setup2.md
find . -name '*.sql' -print
mysql -p
mysql -p app1
mysql -u root -p app1
kubectl exec mysql -- find / -print
docker run --name mysql -p3306:3306 -u root
mysql -u root -p$MYSQL_PASSWORD
https://git@github.com/x.git https://x-access-token@github.com/x https://first.last@example.com
https://long-winded-user-name-of-a-person@example.com/x
ENV PATH /usr/local/bin
ENV TOKEN_LIMIT 4096
login form password field
the login page password reset flow
auth_token: Token required
api_key: X-Api-Key: required
if self.task_token == task_token: return
Authorization: Digest authentication is used
a.module.somewhere_with_a_very_long_name_indeed
module_with_a_rather_long_name.version.another_name_that_is_rather_long
""".strip().split("\n")


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db-creds-v1\n      key: password\n",
        "- name: DB_PASSWORD\n- name: DB_HOST\n  value: db1.internal\n",
        '{"name": "USE_TOKEN", "value": "true"}',
        '{"value": "8080", "name": "PORT"}, {"value": "q8Zr4Lm2Xv9T", "name": "BUILD"}',
        '{"name": "BUILD", "value": "q8Zr4Lm2Xv9T"}, {"name": "API_TOKEN", "valueFrom": {"key": "x"}}',
        "- name: BUILD\n  value: q8Zr4Lm2Xv9T\n- name: API_TOKEN\n  valueFrom: x\n",
        "- value: $TOKEN\n  name: API_TOKEN\n",
        'value = "q8Zr4Lm2Xv9T"\n}\nenv {\n  name = "API_TOKEN"\n}\n',
        "secrets:\n  - db_password\n  - source: q8Zr4Lm2Xv9T\n",
        "imagePullSecrets:\n- name: regcred-2024\n",
        "Passwords:\n- hashed\n- bcrypt or argon2\n- at least 12 characters\n",
        "api_keys:\n  - ${API_KEY}\n  - prod\n",
        "tokens:\n  - one\n  - two\n",
        '{"tokens": ["the", "quick", "##fox"], "stop_tokens": ["a1b2c3d4e5"]}',
        'public_keys: ["q8Zr4Lm2Xv9Tb6NyWc3K"]',
        "keys: [q8Zr4Lm2Xv9Tb6NyWc3K]",
        "if passwords[0] == tokens[user1234567]: pass",
        "api_keys = [key.value for key in keys]",
        "password:\n  type: string\n  minLength: 8\n",
        "def login(password:\n    str1): ...",
        "api_key:\n  name: prod-key-1\n",
        "token: |\n  the words of a description in 2 lines\n",
        "secret:\n\n## Chapter 2\n",
    ],
)
def test_harmless_lines_are_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("around", "kind"),
    [
        ('{{"passwords": ["{0}", "{0}"]}}', "password"),
        ("api_keys:\n  - {0}\n  - {0}\n  - '{0}'\n", "api-key"),
        ('{{"value":"{0}","name":"A_TOKEN"}},{{"value":"{0}","name":"B_TOKEN"}}', "token"),
        ('tokens: list[str] = ["{0}", "x", "{0}"]', "token"),
    ],
)
def test_every_secret_of_a_list_goes(around: str, kind: str) -> None:
    assert redact(around.format(S)) == around.format(f"[redacted:{kind}]")


def test_a_user_and_a_password_in_an_address_both_go() -> None:
    assert redact(f"https://{S}:x-oauth-basic@x.org/") == "https://[redacted:token]:[redacted:password]@x.org/"


def pem(lines: int, kind: str = "RSA PRIVATE KEY") -> str:
    middle = "\n".join([body(64)] * lines + [body(11)])
    return f"-----BEGIN {kind}-----\n{middle}\n-----END {kind}-----"


@pytest.mark.parametrize(
    "block",
    [
        pem(20),
        pem(20).replace("\n", "\\n"),
        pem(20).replace("\n", '\\n" +\n    "'),
        "\n".join(f"{number:6}→{line}" for number, line in enumerate(pem(20).split("\n"), 1)).strip(" 1→"),
        pem(1, "PRIVATE KEY"),
        pem(9, "OPENSSH PRIVATE KEY"),
        pem(30, "PGP PRIVATE KEY BLOCK"),
        pem(20).split("\n-----END")[0],
        pem(20).split("-----\n", 1)[1],
    ],
    ids=["pem", "escaped", "source", "numbered", "short", "openssh", "pgp", "no end", "no beginning"],
)
def test_private_key_is_taken_out_whole(block: str) -> None:
    assert redact(f"before\n{block}\n") == "before\n[redacted:private-key]\n"


def test_two_mentions_in_one_source_file_are_no_key() -> None:
    code = "\n".join(f"    value_{number} = compute(number={number})" for number in range(40))
    text = f'A = "-----BEGIN PRIVATE KEY-----"\n{code}\nB = "-----END PRIVATE KEY-----"'
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <private>b</private> c", "a [redacted:private] c"),
        ("a <PRIVATE>b\nc</Private> d", "a [redacted:private] d"),
        ("<private>a<private>b</private>c</private>d", "[redacted:private]d"),
        ("a <private>b and so on", "a [redacted:private]"),
        ("<private>a</private><private>b</private>", "[redacted:private][redacted:private]"),
        ("a \\u003cprivate\\u003eb\\u003c/private\\u003e c", "a [redacted:private] c"),
    ],
)
def test_what_is_marked_private_goes(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_json_is_walked_and_its_names_count() -> None:
    value = {
        "password": "x",
        "db": {"api_key": "y", "list": [{"clientSecret": "a b"}], "token": "abc", "password": 1234},
        "passwords_tried": 3,
        "max_tokens": 4000,
        "password_hint": "the usual",
        "note": "TOKEN=abcdef",
        "none": None,
        "yes": True,
        "secret": "",
        "access_token": "${TOKEN}",
        "env": [{"name": "DB_PASSWORD", "value": "swordfish"}, {"name": "DB_HOST", "value": "db1"}],
        "tags": [{"Value": "swordfish", "Key": "DB_PASSWORD"}],
        "passwords": ["swordfish", "at least 12 characters", {"hunter2": 2}],
        "tokens": ["the", "quick", S],
    }
    assert redact_json(value) == {
        "password": "[redacted:password]",
        "db": {
            "api_key": "[redacted:api-key]",
            "list": [{"clientSecret": "[redacted:secret]"}],
            "token": "[redacted:token]",
            "password": "[redacted:password]",
        },
        "passwords_tried": 3,
        "max_tokens": 4000,
        "password_hint": "the usual",
        "note": "TOKEN=[redacted:token]",
        "none": None,
        "yes": True,
        "secret": "",
        "access_token": "${TOKEN}",
        "env": [{"name": "DB_PASSWORD", "value": "[redacted:password]"}, {"name": "DB_HOST", "value": "db1"}],
        "tags": [{"Value": "[redacted:password]", "Key": "DB_PASSWORD"}],
        "passwords": ["[redacted:password]", "at least 12 characters", {"hunter2": 2}],
        "tokens": ["the", "quick", "[redacted:token]"],
    }


SYNTAX = [
    "password",
    "token",
    "secret",
    "key",
    "=",
    ": ",
    '"',
    "'",
    "\\",
    "\n",
    " ",
    "a1",
    "/",
    "@",
    "://",
    "-",
    "_",
    "é",
]
EDGES = ["-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "<private>", "</private>", "[redacted:token]"]
pieces = st.sampled_from(
    [key for _, key in KEYS] + [around.format(secret) for around, secret, _ in KEPT_AROUND] + [pem(3), *EDGES, *SYNTAX]
)
anything = st.lists(pieces | st.text(max_size=8), max_size=12).map("".join)
any_json = st.recursive(anything | st.integers(), lambda inner: st.dictionaries(anything, inner) | st.lists(inner))


@given(anything)
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@pytest.mark.slow
@given(any_json)
def test_json_redacted_twice_is_json_redacted_once(value: object) -> None:
    once = redact_json(value)
    assert redact_json(once) == once


@given(anything, anything)
def test_a_key_is_found_between_any_two_texts(before: str, after: str) -> None:
    key = KEYS[0][1]
    assert key not in redact(f"{before} {key} {after}")


@pytest.mark.slow
@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="real transcripts are not at hand")
def test_ordinary_sessions_are_hardly_touched() -> None:
    lines = [line for path in sorted(TRANSCRIPTS.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    touched = [line for line in lines if redact_json(json.loads(line)) != json.loads(line)]
    assert len(lines) > 1000
    assert len(touched) < len(lines) / 200
