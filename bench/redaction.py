"""What redaction takes out and what it leaves: invented secrets in many surroundings, and clean lines beside them.

The corpus is written as templates (`bench/data/redaction`) and filled by a seeded generator, so that no token is stored
anywhere. Half of the templates, chosen by hash, are held: rules are written with the others in view.
"""

from __future__ import annotations

import base64
import hashlib
import random
import re
import string
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.measure import Figure
from mcp_memory.capture.redaction import redact

DATA = Path(__file__).parent / "data" / "redaction"
#: How many texts are made of one template.
FILLS = {"surroundings": 3, "vendors": 3, "clean": 5}
_KINDS = {"surroundings": "secrets left", "vendors": "vendors' bare tokens left", "clean": "clean texts changed"}
#: The shares in per cent that we want to stay under: secrets left, vendors' tokens left, clean texts changed.
AIMS = {"surroundings": 3.0, "vendors": 8.0, "clean": 0.5}

_WORDS = (
    "harbor lantern maple otter quartz saddle tunnel velvet walnut anchor bridge candle desert engine falcon garden "
    "hollow island jungle kettle ladder meadow needle orchid pepper rocket silver timber umbrella violet window yellow"
).split()
_NAMES = (
    "password db_password smtp_passwd api_token client_secret auth_token access_token secret_key admin_pwd "
    "refresh_token user_password jwt_secret webhook_secret redis_password api_secret"
).split()
_LETTERS = string.ascii_letters + string.digits
_ALPHABETS = {
    "A": _LETTERS,
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "L": string.ascii_letters,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "d": string.digits,
    "w": _LETTERS + "-_",
    "b": _LETTERS + "+/",
}
_SECRET_SLOTS = frozenset({"password", "key", "hex", "uuid", "base64"})
_SLOT = re.compile(r"«(\w+)»")
_RECIPE = re.compile(r"<(?:(uuid|jwt)|([AaULhHdwb])(\d+))>")
_BARE = (
    "I put {} into the vault, please check",
    "2026-07-01T10:00:00Z DEBUG request sent with {}",
    'client = connect("{}")',
    "{}",
    "> {}",
    "- `{}` is what the page showed",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A text, with the secret that must go, or with none when it must stay as it is."""

    part: str
    group: str
    text: str
    secret: str
    held: bool

    def passes(self, redacted: str) -> bool:
        """Not even half of the secret is left; a clean text is as it was."""
        if not self.secret:
            return redacted == self.text
        half = max(6, len(self.secret) // 2)
        return not any(self.secret[at : at + half] in redacted for at in range(len(self.secret) - half + 1))

    def is_cut(self, redacted: str) -> bool:
        """More than the secret was taken out."""
        before, after = self.text.split(self.secret, 1)
        return not (redacted.startswith(before) and redacted.endswith(after))


def run(scratch: Path, *, large: bool, verbose: bool = False) -> list[Figure]:
    results = judged()
    _print_table(results)
    if verbose:
        _print_misses(results)
    figures = [
        Figure(
            f"{_KINDS[part]}, {half}",
            100 * failed(results, part, held=held),
            AIMS[part],
            unit="%",
            note=f"of {sum(case.part == part and case.held == held for case, _ in results):,}",
        )
        for part in _KINDS
        for half, held in (("templates in view", False), ("held templates", True))
    ]
    gone = [(case, redacted) for case, redacted in results if case.secret and case.passes(redacted)]
    cut = [case.is_cut(redacted) for case, redacted in gone if "PRIVATE KEY" not in case.text]
    return [*figures, Figure("texts that lost more than the secret", 100 * sum(cut) / len(cut), unit="%")]


def judged() -> list[tuple[Case, str]]:
    """Every case with what redaction made of its text."""
    return [(case, redact(case.text)) for case in corpus()]


def failed(results: Iterable[tuple[Case, str]], part: str, *, held: bool) -> float:
    """The share of a part's cases that did not come out as they should."""
    verdicts = [case.passes(redacted) for case, redacted in results if case.part == part and case.held == held]
    return verdicts.count(False) / len(verdicts)


def _print_table(results: Iterable[tuple[Case, str]]) -> None:
    """Per group how many of the cases came out right, of templates in view and of held ones."""
    right: dict[tuple[str, str], list[list[bool]]] = defaultdict(lambda: [[], []])
    for case, redacted in results:
        right[case.part, case.group][case.held].append(case.passes(redacted))
    print(f"{'right':<44} {'in view':>16} {'held':>16}")
    for (part, group), halves in right.items():
        shown = (f"{sum(half)}/{len(half)} {sum(half) / len(half):>6.1%}" if half else "" for half in halves)
        print(f"{part + ': ' + group:<44}" + "".join(f" {share:>16}" for share in shown))


def _print_misses(results: Iterable[tuple[Case, str]]) -> None:
    """What came out wrong of the templates in view; whoever mends it should not see the held ones."""
    for case, redacted in results:
        if not case.held and not case.passes(redacted):
            print(
                f"{case.part}: {case.group}\n    {case.text!r}"
                + (f"\n -> {redacted!r}" if redacted != case.text else "")
            )


def corpus() -> list[Case]:
    """Every case once, the same in every run."""
    cases = [*_surroundings(), *_vendors(), *_clean()]
    return list({(case.text, case.secret): case for case in cases}.values())


def _surroundings() -> Iterator[Case]:
    for group, template in _templates("surroundings.txt"):
        for number in range(FILLS["surroundings"]):
            text, secrets = _fill(template, _random(template, number), _SECRET_SLOTS)
            for secret in secrets:
                yield Case("surroundings", group, text, secret, _is_held(template))


def _vendors() -> Iterator[Case]:
    for group, recipe in _templates("vendors.txt"):
        for number in range(FILLS["vendors"]):
            rng = _random(recipe, number)
            token = _RECIPE.sub(partial(_part, rng=rng), recipe)
            secret = token.rpartition("/")[2] if token.startswith("https:") else token
            yield Case("vendors", group, rng.choice(_BARE).format(token), secret, _is_held(recipe))


def _clean() -> Iterator[Case]:
    for group, template in _templates("clean.txt"):
        for number in range(FILLS["clean"]):
            yield Case("clean", group, _fill(template, _random(template, number))[0], "", _is_held(template))


def _templates(name: str) -> Iterator[tuple[str, str]]:
    """The templates of a file with the group they stand under."""
    group = ""
    for line in (DATA / name).read_text("utf-8").splitlines():
        heading = re.fullmatch(r"\[([\w ,#+]+)\]", line)
        if heading:
            group = heading[1]
        elif line and not line.startswith("%%"):
            yield group, line.replace("¶", "\n")


def _is_held(template: str) -> bool:
    return hashlib.sha256(template.encode()).digest()[0] % 2 == 1


def _random(template: str, number: int) -> random.Random:
    """A generator for one fill: a change of one template leaves all other texts as they were."""
    return random.Random(f"{number} {template}")


def _fill(template: str, rng: random.Random, secret_slots: Collection[str] = ()) -> tuple[str, list[str]]:
    """The text, and the secrets that stand in it."""
    name = rng.choice(_NAMES)
    camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
    named = {"name": name, "Name": camel, "NAME": name.upper()}
    secrets: list[str] = []

    def value(match: re.Match[str]) -> str:
        if match[1] in secret_slots:
            secrets.append(_secret(match[1], rng))
            return secrets[-1]
        return named.get(match[1]) or _harmless(match[1], rng)

    return _SLOT.sub(value, template), secrets


def _secret(slot: str, rng: random.Random) -> str:
    match slot:
        case "key":
            return _characters("A", 40, rng)
        case "hex":
            return _characters("h", 40, rng)
        case "uuid":
            return str(uuid.UUID(int=rng.getrandbits(128), version=4))
        case "base64":
            return base64.b64encode(f"{rng.choice(_WORDS)}:{_characters('A', 21, rng)}".encode()).decode().rstrip("=")
        case _:
            return _password(rng)


def _password(rng: random.Random) -> str:
    """As generators make them, as people make them, and as people make them who were told to be careful."""
    first, second = (word.capitalize() for word in rng.sample(_WORDS, 2))
    return rng.choice(
        [
            f"{_characters('A', 3, rng)}{rng.randint(2, 9)}-{_characters('A', 8, rng)}",
            f"{first}{second}{rng.randint(10, 9999)}!",
            f"{first[:4].lower()}_{rng.randint(10, 99)}{_characters('w', 8, rng)}x",
        ]
    )


def _harmless(slot: str, rng: random.Random) -> str:
    word = rng.choice(_WORDS)
    return {
        "word": word,
        "Word": word.capitalize(),
        "user": rng.choice(["ada", "grace", "linus", "margaret", "dennis"]),
        "host": f"{word}.{rng.choice(['example.com', 'example.org', 'internal.example.net'])}",
        "path": f"src/{word}/{rng.choice(_WORDS)}",
        "id": _characters("U", 16, rng),
        "number": str(rng.randint(2, 64)),
        "sha1": _characters("h", 40, rng),
        "sha256": _characters("h", 64, rng),
        "uuid": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        "base64": _characters("b", 43, rng),
        "integrity": f"sha512-{_characters('b', 86, rng)}==",
    }[slot]


def _part(match: re.Match[str], rng: random.Random) -> str:
    kind, alphabet, length = match.groups()
    if kind == "uuid":
        return _secret("uuid", rng)
    if kind == "jwt":
        parts = ('{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{rng.getrandbits(40)}","iat":1700000000}}')
        head, body = (base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
        return f"{head}.{body}.{_characters('w', 43, rng)}"
    return _characters(alphabet, int(length), rng)


def _characters(alphabet: str, length: int, rng: random.Random) -> str:
    """Ends in a letter or digit, so that a following mark is not taken for a part of it."""
    body = "".join(rng.choice(_ALPHABETS[alphabet]) for _ in range(length - 1))
    return body + rng.choice([c for c in _ALPHABETS[alphabet] if c.isalnum()])
