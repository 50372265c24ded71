"""An invented year: three weeks of one large undertaking, and on many other days something small of another kind."""
# ruff: noqa: E501 - a step to a line

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from tests.support import said

#: What was asked for and what came of it, step by step; every step is about the move from Stripe to Adyen.
_STEPS = [
    (
        "Start moving the billing from Stripe to Adyen: list every place that calls Stripe.",
        "Stripe is called in 14 places; the move to Adyen touches checkout, refunds, invoices and the nightly export.",
    ),
    (
        "Write an Adyen client with the same interface as our Stripe client.",
        "The Adyen client has `authorize`, `capture` and `refund`, and keeps Stripe's interface so that callers stay as they are.",
    ),
    (
        "Move the checkout to Adyen behind a flag.",
        "The checkout now asks `billing.provider`, which is Stripe for everyone but us.",
    ),
    (
        "Adyen refuses our test cards, please find out why.",
        "Adyen refuses cards without a holder name, which Stripe never needed.",
    ),
    (
        "Port the refunds to Adyen.",
        "Refunds go through Adyen now; partial refunds need the original capture reference.",
    ),
    (
        "Handle the Adyen webhooks.",
        "Adyen's webhooks are verified by HMAC and stored before they are answered, because Adyen repeats them for a week.",
    ),
    (
        "Migrate the stored cards from Stripe to Adyen.",
        "Stripe exports the cards to Adyen directly; 41,200 of 41,950 cards were moved, the rest must be entered anew.",
    ),
    (
        "The invoices still show Stripe's fee.",
        "Fixed: invoices take the fee from the provider that captured the payment.",
    ),
    (
        "Compare a day of Stripe payments with Adyen's.",
        "Amounts match to the cent except for 12 payments in yen, where Adyen counts no decimals.",
    ),
    ("Mend the yen amounts.", "Amounts are now sent to Adyen in minor units of the currency, which are none for yen."),
    (
        "Move subscriptions to Adyen as well.",
        "Subscriptions are charged by our own scheduler, because Adyen has none like Stripe's.",
    ),
    ("What about disputes?", "Disputes arrive as webhooks; answering them from our side is still open."),
    (
        "Switch a tenth of the customers to Adyen.",
        "A tenth of the customers pay by Adyen since noon; authorization rose from 91.2 % to 93.8 %.",
    ),
    ("Switch everybody.", "All customers pay by Adyen now; Stripe stays for refunds of old payments until October."),
    (
        "Remove the Stripe code that nobody calls any more.",
        "Removed 3,400 lines of Stripe code and the flag; refunds of old payments keep a small Stripe client.",
    ),
]

#: Small things, each on a day of its own.
_SMALL = [
    ("The favicon is blurry on retina screens.", "Replaced the favicon by an SVG."),
    ("Upgrade numpy to 2.1.", "Upgraded numpy; two dtype aliases had to go."),
    ("How do I undo a rebase?", "`git reflog` shows the old head; `git reset --hard` brings it back."),
    ("Sort the members page by last name.", "The members page sorts by last name, then by first name."),
    ("The German translation of the footer is missing.", "Added the footer to `de.po`."),
    ("Rename the module `utils2` to `dates`.", "Renamed `utils2` to `dates` in nine imports."),
    ("The avatar upload rejects WebP files.", "Avatars may be WebP now; the check looked at the file's extension."),
    ("Add a health check to the worker container.", "The worker answers on port 8081 with the age of its last job."),
    ("Write a script that anonymizes the customer table.", "`anonymize.py` replaces names and mails by stable fakes."),
    ("The cookie banner covers the menu on phones.", "Moved the cookie banner to the bottom of the page."),
    ("Explain what our rate limiter does.", "The rate limiter is a token bucket per key, with 20 requests a minute."),
    ("Lint fails on main.", "Formatted three files that were pushed without hooks."),
    ("The map tiles load slowly in Safari.", "Tiles are cached by a service worker now."),
    ("Add dark mode to the status page.", "The status page follows the system's color scheme."),
    (
        "Backups of the wiki fail since Sunday.",
        "The wiki's backup disk was full; old snapshots expire after 30 days now.",
    ),
    ("Draw the class diagram of the parser.", "The diagram of the parser is in `docs/parser.svg`."),
    ("Make the newsletter template narrower.", "The newsletter is 600 px wide now."),
    ("The CSV import chokes on semicolons.", "The importer finds the delimiter by the first line."),
    ("Bump the terraform provider.", "Raised the provider to 5.40; nothing was planned to change."),
    ("Remove the unused feature flags.", "Removed seven flags that were on for everybody."),
    ("The clock on the kiosk is an hour late.", "The kiosk reads its time zone from the config now."),
    ("Add a printer-friendly view of recipes.", "Recipes have a print style without pictures."),
    ("Our sitemap lists deleted pages.", "The sitemap is made from published pages only."),
    ("Speed up the tests of the geocoder.", "The geocoder's tests use recorded answers and take 4 seconds."),
    ("Set up a linter for shell scripts.", "shellcheck runs in CI and found two unquoted variables."),
    ("The search field loses focus.", "The search field is no longer drawn anew with every key."),
    ("Change the tooltip of the export button.", "The tooltip names the format and the number of rows."),
    (
        "Find out why the cat pictures are upside down.",
        "The pictures carry an EXIF orientation that the resizer dropped.",
    ),
    ("Move the changelog to its own page.", "The changelog is at `/changes` and has a feed."),
    ("Archive the old forum.", "The forum is a set of static pages now."),
]
_TALK = "I read the code around it and went through the callers one by one, to see what else would be touched by it. "
_FIRST, _UNDERTAKING = date(2025, 1, 8), date(2025, 6, 2)


def year() -> list[dict[str, Any]]:
    """The lines of the year, oldest first."""
    lines = []
    for number, (asked, told) in enumerate(_SMALL):
        day = _FIRST + timedelta(days=11 * number)
        lines += [
            said(asked, f"{day}T10:00:00Z", session=f"small-{number}"),
            *_answer(day, 10, told, f"small-{number}"),
        ]
    for number, (asked, told) in enumerate(_STEPS):
        day = _UNDERTAKING + timedelta(days=number + 2 * (number // 5))
        lines += _work(day, asked, told, f"step-{number}")
    return lines


def _answer(day: date, hour: int, told: str, session: str) -> list[dict[str, Any]]:
    return [said(told, f"{day}T{hour}:01:00Z", role="assistant", session=session)]


def _work(day: date, asked: str, told: str, session: str) -> list[dict[str, Any]]:
    """A day of work on one step: hours of reading and trying, of which little is worth telling."""
    talk = [said(_TALK * 12, f"{day}T09:{minute:02}:00Z", role="assistant", session=session) for minute in range(1, 40)]
    return [said(asked, f"{day}T09:00:00Z", session=session), *talk, *_answer(day, 10, told, session)]
