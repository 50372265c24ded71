"""A second set of forty invented facts, in other words and among other talk than the first.

The summarizer is tuned by looking at the first set. This one is only counted, so that it shows what was learnt by heart.
"""
# ruff: noqa: E501 - a fact to a line

from __future__ import annotations

import random

from tests.summaries.needles import Fact, Haystack

_FACTS = [
    Fact("Lindqvist", "user", "Lindqvist from finance wants the VAT column gone before the audit on the 9th."),
    Fact("cedar-pool", "assistant", "The worker threads starve since cedar-pool is limited to three connections."),
    Fact("EMAPLE_419", "tool", "Bash: npm run e2e\nExit code 1\n  1) signup flow\nError: EMAPLE_419 captcha service rejected the site key"),
    Fact("2.9.0-rc3", "assistant", "Upgraded the bundler to 2.9.0-rc3, the stable one still drops source maps."),
    Fact("alder_batch", "assistant", "We went with `alder_batch` over row-by-row inserts as it halves the lock time."),
    Fact("port 7719", "assistant", "Metrics are served on port 7719 inside the cluster."),
    Fact("Ponderosa", "user", "we call the new tier Ponderosa, do not use the word enterprise anywhere"),
    Fact("baobab.ini", "assistant", "What broke the login was a stray tab in `baobab.ini`."),
    Fact("312 of 318", "tool", "Bash: go test ./...\nok  \tinternal/cart\t0.41s\nFAIL\tinternal/tax\n312 of 318 tests passed, 6 failed"),
    Fact("SumacWriter", "assistant", "SumacWriter closes its stream twice, that is the whole bug."),
    Fact("EU-West-Larch", "user", "customers in EU-West-Larch see yesterday's prices until noon"),
    Fact("0.82", "assistant", "With the new tokenizer the F1 score rises from 0.74 to 0.82 on the held-out set."),
    Fact("rowan-legacy", "assistant", "rowan-legacy has to be migrated by hand, the script only knows the v2 layout."),
    Fact("9 May", "user", "The freeze starts on 9 May, nothing but hotfixes after that."),
    Fact("hazel_index", "assistant", "Dropped `hazel_index`; the planner never used it and writes got 11 percent faster."),
    Fact("TeakScript", "assistant", "TeakScript was turned down: its licence forbids hosting."),
    Fact("juniper.key", "assistant", "The signing key lives in `/etc/shop/juniper.key` and is readable by root only."),
    Fact("Okonkwo", "user", "Okonkwo will review the migration on Monday, please have it ready by then."),
    Fact("45 seconds", "assistant", "A cold start takes 45 seconds, nearly all of it in loading the model."),
    Fact("b81e40c", "tool", "Bash: git commit -am 'Stop the double refund'\n[hotfix b81e40c] Stop the double refund\n 1 file changed, 4 insertions(+)"),
    Fact("mangrove", "assistant", "TODO: move the mangrove job off the shared runner."),
    Fact("ASPEN_RETRIES", "assistant", "ASPEN_RETRIES defaults to 5 and can be overridden per tenant."),
    Fact("sequoia/v4", "assistant", "The mobile app pins the API at sequoia/v4, so v3 may be switched off."),
    Fact("holm_oak()", "assistant", "`holm_oak()` swallows the exception and returns None, hence the empty invoices."),
    Fact("Birchgrove", "user", "Birchgrove is our biggest tenant, never run experiments on it."),
    Fact("1.6 GB", "assistant", "Memory peaked at 1.6 GB while the report of 2024 was rendered."),
    Fact("tamarind", "assistant", "Nobody knows who owns the tamarind topic; I left it untouched."),
    Fact("linden-ca", "tool", "Bash: curl https://api.internal/health\nExit code 60\ncurl: (60) SSL certificate problem: issuer linden-ca is not trusted"),
    Fact("WALNUT-2210", "assistant", "This is tracked as WALNUT-2210 and waits for the security review."),
    Fact("acacia_ttl", "assistant", "Setting `acacia_ttl` to zero disables the cache altogether, it does not mean forever."),
    Fact("poplar.sh", "tool", "Write: scripts/release/poplar.sh\nFile created successfully."),
    Fact("Magnolia", "user", "I'd rather have the Magnolia theme as the default for new workspaces."),
    Fact("ebony-gw", "assistant", "All 502s come from ebony-gw, whose idle timeout is shorter than ours."),
    Fact("three replicas", "assistant", "It is settled: three replicas in production, one everywhere else."),
    Fact("RedwoodQueue", "assistant", "RedwoodQueue keeps messages for 14 days, afterwards they are gone."),
    Fact("cypress_v1", "assistant", "I have deleted `cypress_v1` together with its nine fixtures."),
    Fact("Yewtree", "user", "There's a contract with Yewtree that forbids storing card numbers, even hashed."),
    Fact("SPRUCE_DSN", "assistant", "Without SPRUCE_DSN the service starts but silently logs to nowhere."),
    Fact("elm-cdn", "assistant", "Open question: does elm-cdn honour the Vary header?"),
    Fact("ginkgo", "assistant", "The ginkgo fork can go as soon as upstream releases the patch."),
]  # fmt: skip

_NOUNS = """
    ledger parcel tenant voucher shipment roster ticket tariff branch depot route vehicle driver customer supplier order
    quote refund payment balance period budget forecast survey answer lesson course student teacher chapter quiz grade
    recipe kitchen menu table guest booking room floor lamp sensor meter reading alarm gateway signal station line
    platform train seat fare zone stop patient visit doctor ward bed test sample result chart dose
""".split()
_VERBS = "loads parses formats validates collects groups renders copies wraps checks passes builds walks".split()
_PARTS = [
    "Right. `{a}_{v}.ts` {v} the {b}, and `{b}Service` calls it once for each {c}.",
    "So the {a} page asks for the {b}, and the {b} asks for the {c}.",
    "Here's how I read it:\n\n- the {a} {v} a {b}\n- the {b} {v} a {c}\n- the {c} ends up in `{c}List`",
    "In `src/{a}/{b}.ts` there are {n} exports, mostly small helpers around the {c}.",
    "### {A}\n\nA {a} here is a plain object with a {b} and maybe a {c}.",
    "Nothing special there, it {v} the {a} and hands back the {b}.",
    "The type `{A}{B}` has {n} members, among them the {c}.",
    "I'd have expected a {a} at this place, but a {b} serves as well.",
    "You can see the same pattern for the {a}: first the {b}, then the {c}.",
    "`get{A}()` and `get{B}()` look alike; the second one also {v} the {c}.",
    "The naming follows the {a}, which makes sense given the {b}.",
    "| name | type |\n|---|---|\n| {a} | string |\n| {b} | number |\n| {c} | `{C}` |",
]
_ASIDES = [
    "makes sense",
    "and what does the {a} do with the {b}?",
    "show me the {a} part as well",
    "hmm, I always mix up the {a} and the {b}",
    "ok. is the {a} used on other pages too?",
    "let's see the {b} then",
]


def _talk(chance: random.Random, who: str) -> str:
    """A walk through unfamiliar code: explained at length, with lists and tables, without anything coming of it."""
    a, b, c = chance.sample(_NOUNS, 3)
    names = {"a": a, "b": b, "c": c, "A": a.title(), "B": b.title(), "C": c.title()}
    if who == "user":
        return chance.choice(_ASIDES).format(**names)
    if who == "assistant":
        forms = chance.sample(_PARTS, chance.randint(2, 5))
        return "\n\n".join(form.format(**names, v=chance.choice(_VERBS), n=chance.randint(2, 30)) for form in forms)
    body = "\n".join(
        f"src/{a}/{chance.choice(_NOUNS)}.ts:{n}: export const {b}{n}" for n in range(chance.randint(8, 30))
    )
    return f"Grep: {b}\n{body}"


FURTHER = Haystack("further", _FACTS, _talk, joint="\n\n")
