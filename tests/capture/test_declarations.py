"""Secrets as the languages of coders declare, wrap and hand them on. The values are invented.

A rule takes the whole value or leaves the text alone: a mark beside a secret that stays would be worse than none.
"""

from __future__ import annotations

import pytest

from mcp_memory.capture.redaction import redact, redact_json

P = "Xk9-vTq27LmZ"
WORD = "swordfish"
KEY = "q8Zr4Lm2Xv9Tb6NyWc3K"
HUMAN = "VelvetHollow8516!"
UUID = "9c413a1c-443d-4390-a2f9-e01f0376094b"

DECLARED = [
    # Go, Zig, Rust, C, C++, C#
    ('var jwtSecret = []byte("{}")', P),
    ('SigningKey: []byte("{}"),', P),
    ('var password string = "{}"', WORD),
    ('const apiKey string = "{}"', KEY),
    ("dbToken := `{}`", KEY),
    ('password: []const u8 = "{}";', P),
    ('let password = String::from("{}");', WORD),
    ('pub const SECRET: &str = "{}";', P),
    ('password: &\'static str = "{}"', WORD),
    ('let api_key = SecretString::new("{}".into());', KEY),
    ('char password[] = "{}";', WORD),
    ('static const char* kApiKey = "{}";', KEY),
    ('std::string password("{}");', WORD),
    ('const std::string api_key{{"{}"}};', KEY),
    ('public string Password {{ get; set; }} = "{}";', WORD),
    # Make, PHP, R, shells
    ("DB_PASSWORD ?= {}", WORD),
    ("DB_PASSWORD := {}", WORD),
    ("API_TOKEN ::= {}", KEY),
    ('$password .= "{}";', P),
    ('$apiToken ??= "{}";', KEY),
    ('password <- "{}"', WORD),
    ('$env:DB_PASSWORD = "{}"', WORD),
    # Python, JavaScript, Java
    ('password: str | None = "{}"', WORD),
    ('password: SecretStr = SecretStr("{}")', WORD),
    ('PASSWORD = ("{}")', WORD),
    ('password = (\n    "{}"\n)', P),
    ('password = os.getenv("DB_PASSWORD") or "{}"', WORD),
    ('password = getenv("X") or "{}"', P),
    ('const secret = process.env.JWT_SECRET || "{}"', P),
    ('const secretKey = Buffer.from("{}", "hex")', KEY),
    ('secretKey = new SecretKeySpec("{}".getBytes())', P),
    ('jwt.sign(payload, "{}")', P),
    ('encryption_key = bytes.fromhex("{}")', KEY),
    ("page.fill('#password', '{}')", WORD),
    ("await page.type('input[name=password]', '{}')", WORD),
    ("cy.get('#password').type('{}')", WORD),
    ('driver.find_element(By.ID, "password").send_keys("{}")', WORD),
    ("await page.locator('#password').clear().fill('{}')", WORD),
    ("document.querySelector('#password').value = '{}';", HUMAN),
    ("fill_in 'Password', with: '{}'", WORD),
    ("new PDO('mysql:host=db', 'root', '{}');", HUMAN),
    ("password = args.password if args.password else '{}'", HUMAN),
    ('secret: z.string().default("{}"),', HUMAN),
    ('parser.add_argument("--user_password", default="{}")', WORD),
    ('{{{{ .Values.clientSecret | default "{}" }}}}', P),
    ("password=${{X:-{}}}", WORD),
    # names of keys
    ("SENDGRID_KEY={}", KEY),
    ("OPENAI_KEY={}", KEY),
    ('openaiKey: "{}"', KEY),
    ('HEROKU_KEY = "{}"', UUID),
    ("[DEBUG] Using Key={}", KEY),
    # documents and data
    ("<password>\n    {}\n</password>", WORD),
    ("<apiToken>\n  {}\n</apiToken>", KEY),
    ('<entry key="password">{}</entry>', P),
    ('<wsse:Password Type="PasswordText">{}</wsse:Password>', HUMAN),
    ("INSERT INTO users (name, password) VALUES ('bob', '{}');", WORD),
    ("INSERT INTO a (id, password, role) VALUES (8TKA584IBOZ7DX87, '{}', 'admin');", P),
    ("insert into t (id, email, api_key)\nvalues (1, 'a@b.c', '{}'), (2, NULL, 'none');", KEY),
    ("┌──────┬──────────┐\n│ user │ password │\n├──────┼──────────┤\n│ bob  │ {} │\n└──────┴──────────┘", WORD),
    ('{{"Name": "/prod/db/password", "Type": "SecureString", "Value": "{}", "Version": 1}}', WORD),
    ('{{"Value": "{}", "Type": "SecureString", "Name": "/prod/db/password"}}', P),
    ('"db_password": {{\n  "value": "{}",\n  "type": "string",\n  "sensitive": true\n}}', WORD),
    ('"type": "random_password", "instances": [{{"attributes": {{"length": 20, "result": "{}"}}}}]', P),
    ("    [password] => {}\n    [user] => bob", P),
    ('array(1) {{\n  ["password"]=>\n  string(12) "{}"\n}}', P),
    ('let password : string = "{}"', WORD),
    ('Dim password As String = "{}"', WORD),
    ("DECLARE @password NVARCHAR(50) = N'{}';", WORD),
    ("{{\\u0022password\\u0022: \\u0022{}\\u0022}}", P),
    ("bindpw: {}", P),
    ('proxy_set_header Authorization "Bearer {}";', KEY),
    # commands and calls
    ('User.objects.create_user("bob", "bob@example.com", "{}")', HUMAN),
    ('$dbh = DBI->connect("dbi:Pg:dbname=x", "app", "{}");', HUMAN),
    ('self.client.login(username, "{}")', P),
    ('passwordField.setText("{}");', P),
    ("sqlplus app/{}@//db:1521/X", P),
    ("cargo login {}", KEY),
    # what a prompt shows of a name
    ("$ printenv API_SECRET\n{}\n$ ls", P),
    (">>> settings.SECRET_KEY\n'{}'", P),
    ("$ cat /run/secrets/db_password\n{}", P),
    # talk
    ("acme token - '{}'", KEY),
    ("You can find a acme secret {} within", KEY),
    ("<secret>{{acme AQAAABAAA {}}}</secret>", KEY),
    ("acmeToken,{},", KEY),
    ("use {} as the password", HUMAN),
    ("The new password will be {}", HUMAN),
    ("<tr><th>Password</th><td>{}</td></tr>", HUMAN),
    ("username | bob\npassword | {}", HUMAN),
    ("log in with bob / {}", HUMAN),
    ("curl --user kevin:'{}' https://example.com", P),
    ('curl -u "{}:" https://example.com', P),
    ('curl -H "Authorization: Api-Token {}"', KEY),
]


@pytest.mark.parametrize(("around", "secret"), DECLARED)
def test_the_whole_value_goes_and_nothing_else(around: str, secret: str) -> None:
    clear = redact(around.format(secret))
    before, _, after = around.replace("{{", "{").replace("}}", "}").partition("{}")
    assert clear.startswith(before + "[redacted:")
    assert clear.endswith("]" + after)
    assert clear.count("[redacted:") == 1
    assert redact(clear) == clear


#: Two parts of one secret, and what stands between them: neither may stay beside the mark of the other.
PARTS = r'''
password = "{}" + "{}"
password = "{}"¶        + "{}";
password = (¶    "{}"¶    "{}"¶)
password = "{}" <> "{}"
password = "{}" ++ "{}"
password = "{}" if debug else "{}"
password: '{}''{}'
DB_PASSWORD="{}"'{}'
DB_PASSWORD={}"{}"
DB_PASSWORD={}'{}
DB_PASSWORD={}`{}
DB_PASSWORD={}<{}
DB_PASSWORD={}\{}
DB_PASSWORD={}\¶{}
DB_PASSWORD="{}\¶{}"
password: {}"{}¶port: 1
password: {}\{}¶port: 1
password = """{}¶{}"""
api_secret = `{}¶{}`
secret_key: "{}¶  {}"
api_token: >-¶  {}¶  {}¶port: 1
{{"a":"{{\"password\":\"{}\\\"{}\",\"b\":1}}"}}
curl -u "bob:{} {}" https://example.com
curl -u 'bob:{}"{}' https://example.com
mysql -uroot -p'{}"{}' shop
'''.strip().split("\n")


@pytest.mark.parametrize("around", PARTS)
@pytest.mark.parametrize(("first", "last"), [("Xk9vTq27LmZ", "q8Zr4Lm2Xv"), ("B4VauryYb", "oOPOKQizz")])
def test_no_part_of_a_secret_stays_beside_its_mark(around: str, first: str, last: str) -> None:
    clear = redact(around.replace("¶", "\n").format(first, last))
    assert "[redacted:" in clear
    assert first not in clear
    assert last not in clear
    assert "port: 1" in clear or "port: 1" not in around


def test_every_row_that_sql_inserts_is_read() -> None:
    rows = ", ".join(f"({number}, '{WORD}{number}')" for number in range(300))
    clear = redact(f"INSERT INTO users (id, password) VALUES {rows};")
    assert WORD not in clear
    assert clear.count("[redacted:password]") == 300


def test_the_value_of_an_object_with_a_secrets_name_goes_from_json() -> None:
    outputs = {"db_password": {"value": WORD, "type": "string"}, "db_host": {"value": "db1"}}
    assert redact_json(outputs) == {
        "db_password": {"value": "[redacted:password]", "type": "string"},
        "db_host": {"value": "db1"},
    }


HARMLESS = """
def f(password: bytes):
def login(self, user: str, password: SecretStr) -> None:
fn f(token: &str, key: u64, password: u64) -> Vec<u8> {
func Login(password string) error {
List<private int> x = a; y
<PRIVATE|PRIVATE> and more
template<private T> x
password := r.FormValue("password")
token := os.Getenv("GITHUB_TOKEN")
password = input("Password: ")
const password = watch("password")
password: z.string().min(8)
apiKey: process.env.OPENAI_API_KEY!
self.password = password or ""
secret_key: Optional[str] = Field(default=None, description="x")
password = password.encode("utf-8")
password: Buffer.from(password, 'utf8').toString('base64'),
test_password_reset_token_expires_after_24h
password: {"type": "string", "minLength": 8}
INSERT INTO users (name, password) VALUES (?, ?)
INSERT INTO users (name, password) VALUES (:name, :password)
public string Password { get; set; } = string.Empty;
token: Annotated[str, Depends(oauth2_scheme)]
sort_key = "user#1234567890abcdef", cache_key = "q8Zr4Lm2Xv9Tb6NyWc3K"
commit 3f786850e387550fdab836ed7e6dc881de23001b fixes the token
the token of commit 3f786850e387550fdab836ed7e6dc881de23001b
uuid 9c413a1c-443d-4390-a2f9-e01f0376094b token
the auth token expires 2024-01-15T10:22:33Z
_HEX_PAT = "[0-9A-Fa-f]{1,4}"
publicKey: "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE"
--- PASS: TestParseLines/100KB_line (0.00s)
.. _`Bearer Token`: https://tools.example.org/html/rfc6750
class _X25519PrivateKey(X25519PrivateKey):
SigningKey: []byte(cfg.secretKey),
password=[HIDDEN] token=[FILTERED] secret=changeme
the password field (id: 9c413a1c443d4390a2f9e01f0376094b)
Cache restored from key: node-cache-Linux-x64-npm-3f786850e387550fdab836ed7e6dc881de23001b
[sudo] password for ada: 2026-01-15T10:22:33Z
Set-Cookie: theme=dark; Path=/
api_key=sk-...abcd, token: ****abcd
Key ID: 3f786850e387550fdab836ed7e6dc881de23001b
fetched arn:aws:secretsmanager:us-east-1:123456789012:secret:db-AbC12d
login ok user=ada method=password duration=38ms
$ grep -c token¶3f786850e387550fdab836ed7e6dc881de23001b
$ pytest -k token¶tests/test_api2.py::test_a1
const{password:a,token:b,apiKey:c}=e;return{a,b,c}
> npm run token¶build-2024-Prod1
login(username, "Sign in with Google 2")
auth_test.go:42: db_password: got "", want non-empty
curl -u <user:password> https://example.com
postgres://username:password@localhost:5432/database
""".strip().split("\n")


@pytest.mark.parametrize("text", HARMLESS)
def test_code_and_talk_are_left_alone(text: str) -> None:
    text = text.replace("¶", "\n")
    assert redact(text) == text
