"""Forty invented facts, and long, ordinary conversations to hide them in."""
# ruff: noqa: E501 - a fact to a line

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support import said


@dataclass(frozen=True)
class Fact:
    """Something said once: by whom, in which words, and the name by which one would look for it."""

    needle: str
    who: str
    text: str


@dataclass(frozen=True)
class Haystack:
    """Facts, and the ordinary talk of a user, an assistant or a tool to hide them in."""

    name: str
    facts: list[Fact]
    filler: Callable[[random.Random, str], str]
    joint: str = " "


FACTS = [
    Fact("plover-queue", "assistant", "I decided to call the retry queue `plover-queue`, because `retries` was taken by the old worker."),
    Fact("48213", "assistant", "The staging tunnel listens on port 48213, not on 5432."),
    Fact("Quorvane", "user", "From now on please use the Quorvane client for all outgoing mail, never smtplib."),
    Fact("ERR_MARLIN_07", "tool", "Bash: make integration\nExit code 2\nERR_MARLIN_07: the ledger shard is locked by another writer"),
    Fact("zephyr_cap", "assistant", "The cause was `zephyr_cap`: it was 12 where the scheduler needs at least 40."),
    Fact("v3.17.4", "assistant", "I pinned libtarn to v3.17.4 since v3.18 drops the streaming parser."),
    Fact("Ostrava", "user", "Remember that the Ostrava office must never see the payroll endpoints."),
    Fact("tidal.lock", "assistant", "Fixed: the importer now takes `tidal.lock` before it writes, so two imports no longer collide."),
    Fact("0.0375", "assistant", "We agreed on a threshold of 0.0375 for the drift alarm instead of 0.05."),
    Fact("HeronParser", "assistant", "HeronParser replaces the regular expressions in `ingest/mail.py`; all 61 tests pass."),
    Fact("grackle-9", "user", "The customer on grackle-9 reports that invoices are printed twice since Tuesday."),
    Fact("MAX_SKUA", "assistant", "I raised MAX_SKUA from 64 to 512, because the nightly export has 480 partitions."),
    Fact("petrel.toml", "assistant", "Configuration moved to `petrel.toml`; the environment variables are still read, but warn."),
    Fact("Nadvornik", "user", "Ask Nadvornik before you touch the billing schema, he owns it."),
    Fact("1,482", "tool", "Bash: pytest -q\n1,482 passed, 3 skipped in 44.10s"),
    Fact("bittern_seq", "assistant", "The duplicate ids came from `bittern_seq`, which restarted at 1 after the restore."),
    Fact("avocet", "assistant", "Instead of Redis we use the in-process cache avocet, which needs no server."),
    Fact("17 minutes", "assistant", "The token of the partner API lives for 17 minutes, so the refresh must run every 15."),
    Fact("dunlin-eu-2", "user", "Deploy only to dunlin-eu-2 this week, the other region is frozen."),
    Fact("Sanderling", "assistant", "Decision: the public name of the feature is Sanderling, the flag stays `beta_share`."),
    Fact("whimbrel.proto", "assistant", "I added field 14 to `whimbrel.proto` and kept field 9 reserved for old clients."),
    Fact("turnstone", "assistant", "The flaky test was turnstone: it compared local time with UTC."),
    Fact("6f3ac1d", "tool", "Bash: git commit -m 'Guard the merge of carts'\n[main 6f3ac1d] Guard the merge of carts\n 2 files changed"),
    Fact("knot-db", "user", "knot-db has to stay on Postgres 13 until the end of the year, the vendor insists."),
    Fact("GODWIT_TOKEN", "assistant", "CI fails without GODWIT_TOKEN; I documented it in CONTRIBUTING.md."),
    Fact("ruff-stage", "assistant", "The slow build step is ruff-stage: it linted node_modules, which I excluded."),
    Fact("phalarope", "assistant", "We rejected phalarope as the workflow engine because it cannot resume after a crash."),
    Fact("240 ms", "assistant", "After the index the search takes 240 ms instead of 3.1 s on the large tenant."),
    Fact("Jaeger-Bree", "user", "The colour of the warning banner must be Jaeger-Bree orange, see the brand book."),
    Fact("lapwing()", "assistant", "The recursion in lapwing() had no base case for empty trees; now it returns early."),
    Fact("pratincole", "assistant", "Still open: pratincole has its own copy of the tax table."),
    Fact("S3-Ternary", "assistant", "Backups go to the bucket S3-Ternary with a retention of 35 days."),
    Fact("shearwater.sql", "tool", "Edit: db/migrations/shearwater.sql\nThe file has been updated."),
    Fact("fulmar", "user", "Rename the service account from deploy to fulmar everywhere."),
    Fact("X-Kestrel-Id", "assistant", "Every request now carries the header X-Kestrel-Id, so that logs of both services can be joined."),
    Fact("gannet 2", "assistant", "The deadlock appears only with gannet 2 and more than eight workers."),
    Fact("noddy_mode", "assistant", "I removed noddy_mode, since nothing has read it for two years."),
    Fact("Brolga", "user", "The demo on Friday is for Brolga, so hide the prices there."),
    Fact("4096-bit", "assistant", "The old certificates were 2048-bit; the new ones are 4096-bit and valid until March 2028."),
    Fact("tropicbird", "assistant", "The queue named tropicbird may be deleted once the last consumer is gone."),
]  # fmt: skip

_WORDS = """
    account adapter address alias archive argument array asset attribute backend badge banner basket batch binding block
    border bracket branch bridge browser bucket bundle button bytes calendar callback canvas carrier category channel
    chart checkbox clause cleanup clipboard cluster column comment compiler component constraint container contract
    converter cookie corner counter coupon cursor dashboard dataset decoder default delimiter dependency descriptor
    dialog digest directory discount dispatcher document domain draft driver dropdown duration element embed encoder
    endpoint entity entry enum envelope evaluator exception exporter factory feature feed field filter fixture folder
    font footer format fragment frame gallery generator getter glossary grammar graph grid group guard handler hash
    header helper hook host icon identifier image importer index inheritance input instance interface interval inventory
    invoice iterator journal keyboard label layer layout leaf lexer library licence link listener literal loader locale
    logger lookup machine macro mailbox manifest mapper margin matcher matrix measure member menu merge message metric
    mixin mock modal monitor namespace navigator notice number object observer offset operator option order origin
    outline overlay owner package padding page palette panel parameter parser partner password patch path payload
""".split()
_REMARKS = [
    "Let me look at {a}/{b}.py first.",
    "I read {a}/{b}.py, which has {n} functions.",
    "The {a} hands its {b} to the {c} and does not keep it.",
    "As far as I can see the {a} only wraps a {b}.",
    "There is a {a} with {n} entries, and the {b} walks over it.",
    "That looks like the usual {a}: a {b} in front, a {c} behind it.",
    "I will go through the {a} next, then through the {b}.",
    "The name {a}_{b} is a bit unlucky, but it does what it says.",
    "Each {a} has a {b}, and most have a {c} too.",
    "Here the {a} is built from the {b} when the page is opened.",
    "The tests of the {a} use a {b} from the {c} folder.",
    "Nothing surprising in the {a} so far.",
    "The {a} of the {b} is printed with {n} digits.",
    "One could read the {a} as a kind of {b}.",
    "It opens the {a}, takes the {b} out and closes it again.",
    "The comment above the {a} talks about a {b} that I do not see.",
]
_QUESTIONS = [
    "ok, and what about the {a}?",
    "go on",
    "and the {a} of the {b}?",
    "hm, where does the {a} come from?",
    "fine, next one please",
    "what is in {a}/{b}.py?",
]


def _filler(chance: random.Random, who: str) -> str:
    """Ordinary talk while code is read: nothing in it is asked for, decided, found or done."""

    def line(forms: list[str]) -> str:
        a, b, c = chance.sample(_WORDS, 3)
        return chance.choice(forms).format(a=a, b=b, c=c, n=chance.randint(2, 40))

    if who == "user":
        return line(_QUESTIONS)
    if who == "assistant":
        return " ".join(line(_REMARKS) for _ in range(chance.randint(3, 7)))
    a, b = chance.sample(_WORDS, 2)
    body = "\n".join(f"    {chance.choice(_WORDS)}_{n} = load({n})" for n in range(chance.randint(10, 40)))
    return f"Read: src/{a}/{b}.py\ndef main():\n{body}"


BIRDS = Haystack("birds", FACTS, _filler)


def sessions(haystack: Haystack = BIRDS, each: int = 4, turns: int = 90) -> list[list[dict[str, Any]]]:
    """Long sessions on successive days, each with some of the facts at places of their own among ordinary talk."""
    chance = random.Random(40)
    facts, filler = haystack.facts, haystack.filler
    made = []
    for number in range(0, len(facts), each):
        hidden = facts[number : number + each]
        places = dict(zip(sorted(chance.sample(range(turns), len(hidden))), hidden, strict=True))
        day, name = 2 + number // each, f"session-{number // each}"
        lines = []
        for turn in range(turns):
            fact = places.get(turn)
            who = fact.who if fact else ("user", "assistant", "tool", "assistant")[turn % 4]
            text = filler(chance, who)
            if fact:
                text = fact.text if who == "tool" else haystack.joint.join((text, fact.text, filler(chance, who)))
            at = f"2026-03-{day:02d}T{9 + turn // 60:02d}:{turn % 60:02d}:00Z"
            lines.append(said(text, at, role=who, session=name))
        made.append(lines)
    return made
