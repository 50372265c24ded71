"""Families of secrets by their surroundings, and ordinary text that was once taken for one.

The secrets are invented, and put together so that no scanner takes alarm.
"""

from __future__ import annotations

import pytest

from mcp_memory.capture.redaction import redact, redact_json

HEX = "0123456789abcdef"
P = "Tr0ub4dor&3x"
WORD = "correcthorse"
KEY = "q8Zr4Lm2Xv9Tb6NyWc3Kh5Pd"


def body(length: int, alphabet: str = "Ab3xY7k") -> str:
    return (alphabet * length)[:length]


SERVICES = [
    ("mcp-memory-token", "mcpm" + "_" + body(43, "aB3-xY_7k")),
    ("service-key", "na" + "pi_" + body(64, "k3v9xq2m7")),
    ("service-key", "rn" + "d_" + body(28)),
    ("service-key", "xaa" + "t-" + "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"),
    ("service-key", "sn" + "yk_" + "uat." + body(40)),
    ("service-key", "jin" + "a_" + body(60)),
    ("service-key", "py" + "lf_v1_eu_" + body(43)),
    ("service-key", "de" + "pot_org_" + body(60)),
    ("service-key", "sig" + "nkey-prod-" + body(64, HEX)),
    # Of services that no rule names: the prefix says that it is a key.
    ("service-key", "acme_live_" + KEY),
    ("service-key", "wobble_sk_" + KEY),
    ("service-key", "acme_pat_" + body(40, HEX)),
    ("service-key", "quux_api_" + KEY),
    ("service-key", "fooapi_" + KEY),
    ("service-key", "zork-secret-" + KEY),
    ("service-key", "acme_v1_key_" + KEY),
    ("service-key", "blip_prod_token_" + KEY),
]


@pytest.mark.parametrize("around", ["{}", 'say "{}".', r"a\n{}\nb", "x={}&y", "see `{}` there", "https://h.example/{}"])
@pytest.mark.parametrize(("kind", "key"), SERVICES)
def test_a_key_of_a_service_is_recognized_by_its_prefix(kind: str, key: str, around: str) -> None:
    assert redact(around.format(key)) == around.format(f"[redacted:{kind}]")


IDENTIFIERS = [
    "toolu_01Ab3xY7kQ8Zr4Lm2Xv9Tb6Ny",
    "msg_01Ab3xY7kQ8Zr4Lm2Xv9Tb6Ny",
    "chatcmpl-Ab3xY7kQ8Zr4Lm2Xv9Tb6NyWc3Kh",
    "user_2Ab3xY7kQ8Zr4Lm2Xv9Tb6NyWc3",
    "build_key_" + body(64, "9f86d081884c7d65"),
    "cache-key-" + body(40, "9f86d081884c7d65"),
    "test_api_key_is_rejected_when_it_expired_yesterday",
    "TestTokenRefresh_Rejects_ExpiredSecret_AndKeepsKey",
    "TestAPI_ListSecrets_ReturnsEmptyWhenNoTokenIsGiven",
    "com_example_api_UserServiceImplementationFactory",
    "use_live_query_subscription_with_fallback_handler",
]


@pytest.mark.parametrize("name", IDENTIFIERS)
@pytest.mark.parametrize("around", ["{}", "--- FAIL: {} (0.00s)", "id: {}", "/var/lib/{}/data.json"])
def test_an_identifier_with_a_prefix_is_no_key(name: str, around: str) -> None:
    assert redact(around.format(name)) == around.format(name)


HANDED = [
    ("aws ssm put-parameter --name /db/main --type SecureString --value {}", WORD),
    ("aws ssm put-parameter --value '{}' --type SecureString --name /db/main", P),
    ("aws ssm put-parameter --name=/db/main --type=SecureString --value={} --overwrite", P),
    ("aws secretsmanager put-secret-value --secret-id main --secret-string {}", P),
    ("kubectl create secret generic db --from-literal=pw={}", WORD),
    ("kubectl create secret generic db --from-literal=user=me --from-literal=password='{}'", P),
    ("kubectl create secret generic db --from-literal dsn={}", P),
    ("vault kv put secret/db user=me pass={}", WORD),
    ("vault kv put -mount=secret db user=me pass='{}'", P),
    ("vault kv patch secret/db dsn={}", P),
    ("doppler secrets set STRIPE={} --project web", KEY),
    ("fly secrets set DSN={}", P),
    ("nmcli device wifi connect Home password {}", WORD),
    ('nmcli dev wifi connect "My Home" password "{}"', P),
    ("nmcli connection modify Home wifi-sec.psk {}", WORD),
    ("rabbitmqctl add_user me {}", WORD),
    ("rabbitmqctl change_password me '{}'", P),
    ("security add-generic-password -a me -s web -w {}", WORD),
    ("security unlock-keychain -p {} login.keychain", WORD),
    ("ipmitool -I lanplus -H host -U me -P {} power status", WORD),
    ("cqlsh -u me -p {} host", WORD),
    ("oc login -u me -p {} https://host", WORD),
    ("mc alias set main https://host AKEXAMPLE {}", KEY),
    ("pulumi config set --secret dbPass {}", WORD),
    ("ansible-vault encrypt_string '{}' --name db", P),
    ("xfreerdp /u:me /p:{} /v:host", WORD),
    ("cmdkey /add:host /user:me /pass:{}", WORD),
    ("net user me {} /add", P),
    ("lftp -u me,{} host", P),
    ('expect "assword:"\nsend "{}\\r"', WORD),
    ('expect {{\n  "Password for me:" {{ send -- "{}\\r" }}\n}}', P),
    ("child.expect('password: ')\nchild.sendline('{}')", WORD),
    ('<input type="password" value="{}">', WORD),
    ("<input name='p' value='{}' type='password' />", P),
    ('<Input type="password" defaultValue="{}" />', P),
    ("<input type=password value={}>", P),
    ("use {} as the root password", P),
    ("use {} as the root password.", "hunter2"),
    ("Use `{}` as the root password", "tulip42"),
    ("(set {} as the admin password)", P),
    ("Use {} as the MySQL root password.\nThen restart it.", "hunter2hunter2"),
    ("enter {} when asked for the password", P),
    ("type {} at the password prompt", P),
    ("tn.read_until(b'Password: ')\ntn.write(b'{}\\n')", P),
    ("ssh-keygen -t ed25519 -N '{}' -f k", WORD),
    ("snmpwalk -v3 -u me -A {} host", P),
    ("Use `{}` as the new root password for now.", P),
    ("set {} as my database admin password, please", P),
    ("SECRET_KEY = b'{}'", r"\x38\xf1\x0c\x9e\x11\xd2\x7a\x44"),
    ("SECRET_KEY = '{}'", r"\070\361\014\236\021\322\172\104"),
    ('secretKey := []byte("{}")', r"\xf1\x0c\x9e\x11\xd2\x7a\x44\x38"),
]


@pytest.mark.parametrize(("line", "secret"), HANDED, ids=[line[:50] for line, _ in HANDED])
def test_what_a_command_or_page_is_handed_as_a_secret_is_replaced(line: str, secret: str) -> None:
    before, after = line.format("\0").split("\0")
    shown = redact(f"{before}{secret}{after}")
    assert secret not in shown
    assert shown.startswith(before)
    assert shown.endswith(after)


ORDINARY = [
    "aws ssm put-parameter --name /feature/flag --type String --value enabled",
    "aws ssm put-parameter --type SecureString --name /db --value file://secret.txt",
    "aws ssm put-parameter --type SecureString --name /db --value $DB",
    "kubectl create secret generic db --from-literal=username=admin --from-file=ca.crt=./ca.crt",
    "kubectl create configmap c --from-literal=level=debug",
    "vault kv put secret/db pass=@secret.txt",
    "vault kv put secret/db user=admin ttl=30m",
    "vault kv get secret/db",
    "nmcli connection show",
    "nmcli device wifi list",
    "rabbitmqctl list_users",
    "net user me /delete",
    "pulumi config set region eu-west-1",
    'expect the server to send "done\\r\\n" at the end',
    'send "GET / HTTP/1.1\\r\\n"',
    '<input type="password" value={form.password} />',
    '<input type="password" value="" placeholder="Password">',
    '<input type="password" value="{{ password }}">',
    '<input type="text" value="hello"> <input type="password">',
    "use bcrypt as the password hasher",
    "use sha256 as the root password hash",
    "use Argon2 for the password.",
    "use sha256 as the password.",
    "Python3 asks for the password.",
    "commit 5cf09a5f is for the password.",
    "use file2.txt as the password.",
    "put step2 in the password form",
    "pass `defaultOpen={keys.size === 0}` to the list",
    "cd src && pwd",
    "pwd: osc7",
    '"pwd": "osc99",',
    "pwd = actual",
    "    pwd := dir",
    "flags.PWD = *envFlags.PWD",
    'Join-Path $PWD "gomodcache"',
    'tool print primary --pwd "D:/code/tree1" --shell pwsh',
    "PWD=/home/me/project2 OLDPWD=/home/me",
    'oldPwd = "project2/src"',
    "current_pwd: build1",
    'auth: null, // or "oauth" | "cli" | "apikey" | "url1"',
    "type Auth = 'none' | 'token' | 'basic2'",
    "sed 's/api_key=[^[:space:]]*/api_key=X/g'",
    "grep -oE 'token=[A-Za-z0-9]+'",
    "a \\x41\\x42 in a string, and C:\\temp\\x1\\y2",
    'path = "\\\\server\\share"',
    "class Engine < Base; private; end",
    "session token file: /tmp/entire-e2e-3849201/TestE2E_Token2",
    "api key TestConfig2Loader/sub_case_3",
    "password TestUserPassw0rdHash2",
    'token := "TestStrategy_Handles2Sessions4Now"',
    '"secret": "TestVault_Read2Secrets3",',
    'session_token="TestCheckpoint3WithTranscript"',
    "--- FAIL: TestGetAPIKey_Returns401WhenExpired2 (0.00s)",
    "token: github.com/acme/Tokens2/store",
    "void SetPrivate(Local<Private> name, Local<Data> value);",
    "AU.addRequired<X>(); MachineFunctionPass::getAnalysisUsage(AU);",
    "of a string to be lexed as an AsmToken::Identifier.",
    ".codicon-pass:before,.codicon-issue-closed:before{content: 1}",
    "util._assertion_pass = saved_assert_hooks",
    "        username, password = split",
    "userdata.password = password_ptr",
    'def sign(private_key: "_RSAPrivateKey") -> bytes:',
    "Union[Ed25519PrivateKey, Ed25519PublicKey, Ed448PublicKey]",
    "SECStatus PK11_CheckUserPassword(PK11SlotInfo *slot, const char *pw);",
    "var mapToken = mapToken2;",
    'token = r"[-!#$%&*+.^_|~0-9a-zA-Z]+"',
    "jsonnet_token = r'[^\\W\\d]\\w*'",
    "U_UNEXPECTED_TOKEN=0x10100",
    "'Parser::TextToken'=> '3.13',",
    "<code>{ psk: &#x3C;Buffer|TypedArray> }</code>",
    "api_key == client.WORKLOAD_API_KEY_PLACEHOLDER:",
    'START = b"-----BEGIN OPENSSH PRIVATE KEY-----"\nEND = b"-----END OPENSSH PRIVATE KEY-----"',
    "if a < private_count > b:",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("name", ["pwd", "Pwd", "PWD"])
def test_a_password_called_pwd_is_recognized_by_what_it_looks_like(name: str) -> None:
    assert P not in redact(f'{name} = "{P}"')
    assert P not in redact(f"Server=db;Uid=me;{name}={P};Database=x")
    assert WORD not in redact(f'db_{name.lower()} = "{WORD}"')
    assert redact_json({name: "D:/code/tree"}) == {name: "D:/code/tree"}
    assert redact_json({name: P}) == {name: "[redacted:password]"}


def test_a_type_argument_that_is_closed_like_a_tag_is_one() -> None:
    assert redact("my plan:<Private>swordfish</private> end") == "my plan:[redacted:private] end"
    assert redact("note<private>swordfish") == "note[redacted:private]"


@pytest.mark.parametrize("name", ["db_pass", "userPass", "SMTP_PASS", "ansible_become_pass", "ACME_PASS"])
def test_a_pass_that_is_a_password_is_taken(name: str) -> None:
    assert WORD not in redact(f"{name}={WORD}")
    assert P not in redact(f'{name} = "{P}"')
    assert WORD not in redact(f'{name} = "{WORD}"')


@pytest.mark.parametrize("weak", ["ExamplePassword", "MySecretToken"])
def test_a_weak_secret_that_is_called_one_is_taken(weak: str) -> None:
    assert weak not in redact(f'char db_password[] = "{weak}";')
    assert weak not in redact(f"headers: {{ 'X-TOKEN-SECRET': '{weak}' }}")


def test_base_64_that_happens_to_hold_a_prefix_or_a_name_is_no_key() -> None:
    blob = "qt1f6n/VLygZjl07woZoG1hIOUVVd7pVP+QJbwvvGY2KgNcExoOfyVnbiMEdbuB1oNUPK+"
    text = f"{blob}AKCR5FiIJipyZ4MyAoEE6iSr2872Uxc26ejItvgzwqT7BuzfwKNlrvAJAIaEK4I5TuA/PM7LcpYQ2zypwIeD7jbIYg2nP6pFP"
    assert redact(text) == text
    joined = "Wxg45DbPh0PwhgjnuAqDAkcde7x96OvxRx5wk7B26Tl4a4tZcCzk51qpfKDKQBSD2rypPw=oPm1XOwRs+22wTjg88TOLxcRiCC7W"
    assert redact(joined) == joined


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("< private >", "< /private >"),
        ("<private >", "</ private>"),
        ("< PRIVATE>", "</private >"),
        ("＜private＞", "＜/private＞"),
        ("&#60;private&#62;", "&#60;/private&#62;"),
        ("&#x3C;private&#x3E;", "&#x3C;/private&#x3E;"),
        (r"\x3cprivate\x3e", r"\x3c/private\x3e"),
        ("%3Cprivate%3E", "%3C%2Fprivate%3E"),
    ],
)
def test_a_private_tag_counts_in_every_spelling(opening: str, closing: str) -> None:
    assert redact(f"before {opening}our plan{closing} after") == "before [redacted:private] after"
