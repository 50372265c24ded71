"""Keys of further services, commands and calls that take a password, and ordinary lines that look like them.

The secrets are invented, and put together so that no scanner takes alarm.
"""

from __future__ import annotations

from base64 import b64encode

import pytest

from mcp_memory.capture.redaction import redact, redact_json

HEX = "0123456789abcdef"
P = "Tr0ub4dor&3x"
WORD = "correcthorse"
KEY = "q8Zr4Lm2Xv9Tb6NyWc3K"


def body(length: int, alphabet: str = "Ab3xY7k") -> str:
    return (alphabet * length)[:length]


def in_base_64(text: str) -> str:
    return b64encode(text.encode()).decode()


SERVICES = [
    ("gitlab-token", "gl" + "rt-" + body(20)),
    ("gitlab-token", "gl" + "ptt-" + body(40, HEX)),
    ("shopify-token", "shp" + "at_" + body(32, HEX)),
    ("linear-key", "lin_" + "api_" + body(40)),
    ("notion-token", "ntn" + "_" + body(46)),
    ("doppler-token", "dp." + "pt." + body(43)),
    ("databricks-token", "da" + "pi" + body(32, HEX)),
    ("figma-token", "fig" + "d_" + body(40)),
    ("postman-key", "PM" + "AK-" + body(24, HEX) + "-" + body(34, HEX)),
    ("atlassian-token", "AT" + "ATT3" + body(170) + "=0123ABCD"),
    ("grafana-token", "gl" + "sa_" + body(32) + "_" + body(8, HEX)),
    ("sentry-token", "sn" + "tryu_" + body(64, HEX)),
    ("docker-token", "dckr_" + "pat_" + body(27)),
    ("replicate-token", "r8" + "_" + body(37)),
    ("perplexity-key", "ppl" + "x-" + body(48)),
    ("pinecone-key", "pc" + "sk_" + body(5) + "_" + body(63)),
    ("supabase-token", "sb" + "p_" + body(40, HEX)),
    ("resend-key", "re" + "_" + body(8) + "_" + body(24)),
    ("rubygems-key", "rubygems" + "_" + body(48, HEX)),
    ("tailscale-key", "ts" + "key-auth-" + body(12) + "-" + body(32)),
    ("hubspot-token", "pat-" + "na1-" + "12345678-1234-1234-1234-123456789abc"),
    ("mailgun-key", "key" + "-" + body(32, HEX)),
    ("square-token", "sq0" + "atp-" + body(22)),
    ("google-token", "1/" + "/0" + body(60)),
]


@pytest.mark.parametrize("around", ["{}", 'say "{}".', r"a\n{}\nb", "x={}&y", "\x1b[32m{}\x1b[0m"])
@pytest.mark.parametrize(("kind", "key"), SERVICES)
def test_key_of_a_service_is_told_by_its_form(kind: str, key: str, around: str) -> None:
    assert redact(around.format(key)) == around.format(f"[redacted:{kind}]")


HANDED = [
    ("sshpass -p '{}' ssh me@host", P),
    ("sshpass -p{} ssh me@host", "Tr0ub4dor3x"),
    ("docker login -u me -p {} registry.example.com", P),
    ("docker login -u me --password {} registry.example.com", WORD),
    ("echo {} | docker login -u me --password-stdin", WORD),
    ("gh auth login --with-token <<< {}", KEY),
    ('gh secret set TOKEN --body "{}"', KEY),
    ("redis-cli -h cache -a {} ping", P),
    ("mongosh -u me -p {}", P),
    ("az login --service-principal -u me -p {} --tenant t", P),
    ("sqlcmd -S host -U sa -P {}", P),
    ("unzip -P {} a.zip", P),
    ("ldapsearch -D cn=me -w {} -x", P),
    ("htpasswd -b file me {}", P),
    ("openssl rsa -in k -passin pass:{}", P),
    ("keytool -list -storepass {} -keystore k", WORD),
    ("curl \\\n  -X POST \\\n  -u admin:{} \\\n  https://example.com", P),
    ("curl -sSu admin:{} https://example.com", P),
    ("curl -b 'session={}' https://example.com", KEY),
    ("http -a me:{} https://example.com", P),
    ("smbclient //host/share -U me%{}", P),
    ("rpcclient -U me%{} host", P),
    ("svn checkout --username me --password {} https://example.com", WORD),
    ("kubectl create secret generic x --from-literal=password={}", WORD),
    ('terraform apply -var="db_password={}"', WORD),
    ("host=db user=me password={} dbname=app", WORD),
    ("aws configure set aws_secret_access_key {}", KEY),
    ("set -gx API_TOKEN {}", KEY),
    ('requests.get(url, auth=("me", "{}"))', P),
    ('new NetworkCredential("me", "{}")', P),
    ('ConvertTo-SecureString "{}" -AsPlainText', P),
    ("define('DB_PASSWORD', '{}');", P),
    ('headers.set("X-Api-Key", "{}")', KEY),
    ('connection.setPassword("{}")', P),
    ("create user me identified by '{}'", WORD),
    ("create user me identified with caching_sha2_password by '{}'", WORD),
    ("jdbc:oracle:thin:scott/{}@//host:1521/x", P),
    ('MNEMONIC="{}"', "abandon ability able about above absent absorb abstract absurd abuse access accident"),
]


def test_a_quoted_password_goes_to_its_last_character() -> None:
    assert redact(f"sshpass -p '{P}' ssh me@host") == "sshpass -p '[redacted:password]' ssh me@host"


@pytest.mark.parametrize(("around", "secret"), HANDED)
def test_what_a_command_or_call_takes_as_a_password_goes(around: str, secret: str) -> None:
    clear = redact(around.format(secret))
    assert secret.split()[-1] not in clear
    assert "[redacted:" in clear
    assert redact(clear) == clear


DRESSED = [
    ("\x1b[32mAPI_KEY\x1b[0m=\x1b[33m{}\x1b[0m", KEY),
    ('"token": \x1b[32m"{}"\x1b[39m', KEY),
    ("**Password:** {}", P),
    ("**Password**: `{}`", P),
    ("| user | me |\n| password | `{}` |", P),
    ("AWS Secret Access Key [None]: {}", KEY),
    ("password: &shared {}", P),
    ("password → {}", P),
    ('{{"password":{}}}', "12345678"),
    ("pass: {}", P),
    ("db_pw={}", P),
    ('FERNET_KEY = "{}="', body(43)),
    ('<add key="ApiKey" value="{}" />', KEY),
    ("<key>ApiToken</key>\n  <string>{}</string>", KEY),
    ('{{"auths": {{"ghcr.io": {{"auth": "{}"}}}}}}', in_base_64("me:" + P)),
    ("  .dockerconfigjson: {}", in_base_64('{"auths": {"ghcr.io": {"auth": "bWU6cHc="}}}')),
]


@pytest.mark.parametrize(("around", "secret"), DRESSED)
def test_name_and_value_are_told_through_their_dress(around: str, secret: str) -> None:
    assert secret not in redact(around.format(secret))


@pytest.mark.parametrize("around", ["AWS_SECRET_ACCESS_KEY={}", "secret_key = {}\n", '"SecretAccessKey": "{}"'])
def test_a_key_with_slashes_is_no_path(around: str) -> None:
    key = "/Lx3cK6PMJkm/RDVoOLNVF0JE37GArqbkGwUHyZ7"
    assert key not in redact(around.format(key))


def test_a_private_key_in_base_64_goes_and_a_certificate_stays() -> None:
    block = "-----BEGIN {0}-----\n" + body(200, "MIIEpA3b") + "\n-----END {0}-----\n"
    key, certificate = in_base_64(block.format("RSA PRIVATE KEY")), in_base_64(block.format("CERTIFICATE"))
    text = f"client-certificate-data: {certificate}\nclient-key-data: {{}}\n"
    assert redact(text.format(key)) == text.format("[redacted:private-key]")


def test_json_entries_with_short_names_go_if_they_look_like_secrets() -> None:
    assert redact_json({"pass": P, "auth": in_base_64("me:" + P)}) == {
        "pass": "[redacted:password]",
        "auth": "[redacted:authorization]",
    }
    harmless = {"pass": "ok", "auth": "oauth2", "session_key": "user:1", "pw": "abc"}
    assert redact_json(harmless) == harmless


HARMLESS = [
    "password = getpass()",
    "docker run -p 8080:80 nginx",
    "docker run --name mongo1 -p 27017:27017 mongo:5",
    "mkdir -p a1/b2 && ssh -p 2222 host1",
    "unzip -p a1.zip b2",
    "zip -r out1.zip dir2",
    "redis-cli -h redis1 -p 6379 ping",
    "curl -b cookies.txt -c cookies2.txt https://example.com",
    "http POST example.org X-API-Token:123",
    "echo hello1 | base64",
    'auth = ("user", password)',
    'new Credentials("a", "b")',
    'hash_password("abc")',
    'get_secret("projects/p1/secrets/db")',
    '("password", "username")',
    "['ssh2_auth_password', 'ssh2_auth_pubkey_file']",
    "| password | string | required |",
    "type A = Token | Null1",
    '"auth": "oauth2"',
    "tests pass: 120, fail: 3",
    "pw = page.width",
    'storageKey: "user-prefs-v2"',
    "The --username and --password options can't be used here",
    "set token limit to 4096",
    '"passwd:dir",',
    "users are identified by name",
    "private_key_path: /Home/Me/Keys/Id1/Key2",
    "password: *default",
    "toolu_01A09q90qw90lq917835lq9 msg_013Zva2CMHLNnjNjJKqJ2EF1",
    '"integrity": "sha512-' + body(86) + '=="',
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_line_is_left_alone(text: str) -> None:
    assert redact(text) == text
