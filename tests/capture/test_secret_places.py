"""Secrets whose place tells them: columns of tables, lines of .pgpass, Secrets of Kubernetes, addresses, split tokens.

The secrets are invented, and put together so that no scanner takes alarm.
"""

from __future__ import annotations

from base64 import b64encode

import pytest

from mcp_memory.capture.redaction import redact, redact_json

P = "Tr0ub4dor&3x"
WORD = "swordfish"
KEY = "q8Zr4Lm2Xv9Tb6NyWc3K"
UUID = "12345678-1234-1234-1234-123456789abc"


def in_base_64(text: str) -> str:
    return b64encode(text.encode()).decode()


PLACES = [
    # .pgpass
    ("localhost:5432:mydb:admin:{}", WORD, "password"),
    ("# hostname:port:database:username:password\ndb.example.com:5432:*:app:{}\n", WORD, "password"),
    ("$ cat ~/.pgpass\n*:*:*:postgres:{}\n", WORD, "password"),
    ("echo 'db:5432:app:me:{}' > ~/.pgpass", P, "password"),
    # columns
    ("name,email,password\nbob,bob@x.org,{}\n", WORD, "password"),
    ("user;password;role\nalice;{};admin\n", WORD, "password"),
    ("user\tpassword\trole\r\nalice\t{}\tadmin\r\n", P, "password"),
    ('"username","password","note"\n"alice","{}","a, b"\n', WORD, "password"),
    ("id,client_secret\n1,{}\n", KEY, "secret"),
    ("User name,Access key ID,Secret access key\nbob,none,{}\n", KEY, "api-key"),
    ("| user | password |\n|---|---|\n| bob | `{}` |\n", P, "password"),
    (" id | username | password\n----+----------+----------\n  1 | bob      | {}\n(1 row)\n", WORD, "password"),
    ("+----+-------+\n| id | token |\n+----+-------+\n|  1 | {} |\n+----+-------+", KEY, "token"),
    # Kubernetes
    ("kind: Secret\nmetadata:\n  name: x-1\ndata:\n  url: {}\ntype: Opaque\n", in_base_64("postgres://u@h"), "secret"),
    ("apiVersion: v1\ndata:\n  tls: {}\nkind: Secret\nmetadata:\n  uid: a1b2c3d4e5f6\n", in_base_64(P), "secret"),
    ("kind: Secret\nstringData:\n  config: {}\n", WORD, "secret"),
    ("kind: Secret\nstringData:\n  a.yaml: |\n    {}\n  b: $X\n", "user: me", "secret"),
    ('{{"kind": "Secret", "data": {{"url": "{}"}}, "type": "Opaque"}}', in_base_64("redis://u@h"), "secret"),
    # addresses
    ("postgres://u:{}@db.example.com/app", "pa/ss9w0rd", "password"),
    ("postgres://u:{}@h:5432/db", "p@ss/w0rd", "password"),
    ("postgres://u:{}@h/db", "a/b@c/d1", "password"),
    ("see https://b.s3.amazonaws.com/k?Expires=1&Signature={}", "abc%2Bdef0123456789ABC%3D", "signature"),
    ("https://x.example/k?X-Amz-Date=1&X-Amz-Signature={}", "0123456789abcdef" * 4, "signature"),
    ("https://f.azurewebsites.net/api/f?code={}", KEY * 2 + "==", "azure-key"),
    ("https://x.webhook.office.com/webhookb2/{}", f"{UUID}@{UUID}/IncomingWebhook/{KEY}/{UUID}", "teams-webhook"),
    ("https://hooks.zapier.com/hooks/catch/123456/{}/", "ab12cde", "webhook"),
    ("https://open.feishu.cn/open-apis/bot/v2/hook/{}", UUID, "webhook"),
    ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={}", UUID, "webhook"),
    # hashes of passwords, sessions, further keys
    ("root:${}:19000:0:99999:7:::", "6$abcdefgh$" + "Ab3xY7k." * 10, "password-hash"),
    ('"password_digest": "${}"', "2b$12$" + "Ab3xY7k." * 6 + "Ab3xY", "password-hash"),
    ("curl -H 'x' --data JSESSIONID={}", "0123456789ABCDEF" * 2, "cookie"),
    ("SAMLResponse={}&RelayState=x", in_base_64("<samlp:Response>" * 5).rstrip("="), "saml"),
    ("Private-Lines: 2\n{}Private-MAC: 12ab", "Ab3xY7k/" * 8 + "\n" + "Ab3xY7k=\n", "private-key"),
    ("auths: {}", in_base_64('{"auths": {"ghcr.io": {"auth": "bWU6cHc="}}}').rstrip("="), "credential"),
    ("{}", "xprv" + "9s21ZrQH143K" * 9, "bitcoin-key"),
    ("{}", "RWRTY0Iy" + "Ab3xY7k/" * 9, "minisign-key"),
]


@pytest.mark.parametrize(("around", "secret", "kind"), PLACES)
def test_a_secret_is_told_by_its_place(around: str, secret: str, kind: str) -> None:
    assert redact(around.format(secret)) == around.format(f"[redacted:{kind}]")


def test_every_row_of_a_table_is_read() -> None:
    rows = "".join(f"user{number},{WORD}{number},x\n" for number in range(300))
    clear = redact("user,password,role\n" + rows)
    assert WORD not in clear
    assert clear.count("[redacted:password]") == 300


GITHUB = "ghp" + "_" + KEY + KEY[:16]


@pytest.mark.parametrize(
    "char", ["\u200b", "\u200c", "\u200d", "\ufeff", "\u00ad", "\u2060", "\u180e", "\u2063", "\ufe0f", "\U000e0101"]
)
@pytest.mark.parametrize("secret", [GITHUB, f"password: {P}"])
def test_characters_that_no_one_sees_do_not_hide_a_secret(secret: str, char: str) -> None:
    split = secret[:2] + char + secret[2:7] + char + char + secret[7:]
    clear = redact(f"a {split} b")
    assert "[redacted:" in clear
    assert secret[-8:] not in clear
    assert redact(clear) == clear


def test_characters_that_other_scripts_need_stay_beside_a_split_secret() -> None:
    family = "👨\u200d👩\u200d👧 می\u200cخواهم"
    assert redact(f"{family} {GITHUB[:9]}\u200b{GITHUB[9:]}") == f"{family} [redacted:github-token]"


def test_a_secret_of_kubernetes_goes_from_json_whole() -> None:
    secret = {
        "kind": "Secret",
        "data": {"url": "cG9zdGdyZXM=", "n": "QQ=="},
        "stringData": {"a": "b c"},
        "type": "Opaque",
    }
    assert redact_json({"items": [secret, {"kind": "ConfigMap", "data": {"url": "cG9zdGdyZXM="}}]}) == {
        "items": [
            {
                "kind": "Secret",
                "data": {"url": "[redacted:secret]", "n": "[redacted:secret]"},
                "stringData": {"a": "[redacted:secret]"},
                "type": "Opaque",
            },
            {"kind": "ConfigMap", "data": {"url": "cG9zdGdyZXM="}},
        ]
    }


def test_what_terraform_calls_sensitive_goes() -> None:
    outputs = {"url": {"sensitive": True, "type": "string", "value": "x y"}, "id": {"sensitive": False, "value": "i-1"}}
    assert redact_json(outputs)["url"]["value"] == "[redacted:secret]"
    assert redact_json(outputs)["id"]["value"] == "i-1"
    text = '{{\n  "db_password": {{\n    "sensitive": true,\n    "type": "string",\n    "value": "{}"\n  }}\n}}'
    assert redact(text.format(WORD)) == text.format("[redacted:password]")
    assert (
        redact(f'  ~ password = "{P}" -> "{WORD}"') == '  ~ password = "[redacted:password]" -> "[redacted:password]"'
    )
    assert redact(f'variable "db_password" {{\n  default = "{P}"\n}}').endswith('default = "[redacted:password]"\n}')


HARMLESS = [
    "hostname:port:database:username:password",
    "src/a.py:1234:name:other:thing",
    "12:30:45:678:901 fe80:0:0:0:abc1:22ff:fe33:4455 localhost:5000:foo:bar:baz1234",
    "name,password,token\nDescription of the columns, in words, and more\n",
    "id,token\n1,the\n2,quick\n3,fox\n",
    "f(user,password)\ng(alice,swordfish)\n",
    "    username,\n    password,\n    email,\n",
    "| Feature | Password | OAuth |\n|---|---|---|\n| login | supported | planned |\n",
    "r'password|'\nr'dirname|'\n",
    "kind: ConfigMap\ndata:\n  url: aHR0cHM6Ly94\n",
    "kind: Secret\nmetadata:\n  name: db-secret-v1\n  namespace: prod-1\ntype: Opaque\n",
    "kind: SecretStore\nspec:\n  data:\n    url: aHR0cHM6Ly94\n",
    "https://example.com/a:b@c http://localhost:3000/@vite/client http://x.org:8080/a/b@c",
    "https://unpkg.com:443/react@18.2.0/umd/x.js docker pull localhost:5000/image@sha256:3f9a1c7e",
    "see https://a.org: then mail me1@b.org, file://C:/Users/me2@x",
    "https://user:${PASS}/x@host https://medium.com/@user/post:1",
    "emoji 👨\u200d👩\u200d👧, می\u200cخواهم, a soft\u00adly hyphen\u00adated word",
    "echo $1$2$3 and `$6$salt` alone",
    "?code=200&state=ok, Signature=abc, recovery codes: see below, the recovery code that works",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_of_that_form_is_left_alone(text: str) -> None:
    assert redact(text) == text
