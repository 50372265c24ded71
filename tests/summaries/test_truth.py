"""What was refuted, refused, guessed or not chosen is never told as a fact; the correction and the choice are."""

from __future__ import annotations

import pytest

from mcp_memory.domain.nodes import Kind
from mcp_memory.summaries.statements import collect, next_turns
from mcp_memory.summaries.truth import Settled, settle

from .conversations import (
    INTERRUPTED,
    Turn,
    bullets,
    commit,
    conversation,
    edited,
    refusal,
    refused,
    summary,
    told,
)


def settled(*turns: Turn, after: tuple[Turn, ...] = ()) -> Settled:
    events = conversation(*turns)
    return settle(collect(events), next_turns(conversation(*after, first=len(turns))))


#: A claim with the words that only it has, the user's correction, and what of that must be told.
REFUTED = [
    (
        "The voucher is applied twice because `CartService.total()` calls the discount hook on every render.",
        "discount hook",
        "no, the voucher is applied twice since the webhook retries, CartService.total() is fine",
        "the webhook retries",
    ),
    (
        "The frame drops come from the particle system: every emitter allocates a new vertex buffer.",
        "allocates",
        "That's not it, particle emitters are pooled. The frame drops start when the shadow map is resized",
        "shadow map is resized",
    ),
    (
        "The nightly load is slow because the `orders` partition has no index on `shipped_at`.",
        "has no index",
        "wrong, orders has an index on shipped_at. The load waits for the lock of the vacuum",
        "lock of the vacuum",
    ),
    (
        "The watchdog resets the board because the I2C driver blocks for 40 ms in `sensor_poll()`.",
        "blocks for 40 ms",
        "Actually the sensor_poll() call takes 2 ms, I measured it. The reset comes from a brown-out",
        "brown-out",
    ),
    (
        "The German pages are missing because the build of the docs skips the `de` folder.",
        "skips the",
        "nein, der Ordner `de` wird gebaut, nur die Sprachauswahl zeigt ihn nicht",
        "nur die Sprachauswahl zeigt ihn nicht",
    ),
]


@pytest.mark.parametrize(("claim", "only", "correction", "right"), REFUTED)
def test_a_guess_that_the_user_refutes_next_is_neither_title_nor_bullet(
    claim: str, only: str, correction: str, right: str
) -> None:
    turns = (("user", "Please find out what is going on here."), ("assistant", claim), ("user", correction))
    assert only not in told(*turns)
    assert [bullet.kind for bullet in summary(*turns).bullets if right in bullet.text] == [Kind.CORRECTION]


@pytest.mark.parametrize(("claim", "only", "correction", "right"), REFUTED)
def test_a_boundary_between_claim_and_correction_changes_nothing(
    claim: str, only: str, correction: str, right: str
) -> None:
    before = (("user", "Please find out what is going on here."), ("assistant", claim))
    assert only in told(*before)
    shown = told(*before, after=[("user", correction), ("assistant", "I'll look there.")])
    assert only not in shown
    assert right not in shown
    assert right in told(("user", correction), ("assistant", "I'll look there."))


@pytest.mark.parametrize(
    "words",
    [
        "no",
        "still flickers",
        "it still flickers",
        "nope, same as before",
        "that did not help",
        "doesn't work",
        "hmm that's not it",
        "Nein, das flackert immer noch",
        "non, ça clignote encore",
        "不对，还是闪",
        "いいえ、まだちらつきます",
    ],
)
def test_a_mere_no_takes_back_what_was_concluded(words: str) -> None:
    turns = (
        ("user", "The menu flickers when it opens on the handheld."),
        edited("menu.c"),
        ("assistant", "Fixed the flicker: the menu is now drawn into a second buffer before it is shown."),
    )
    assert "second buffer" in told(*turns)
    assert "drawn into" not in told(*turns, ("user", words))
    assert "drawn into" not in told(*turns, after=[("user", words)])


def test_a_no_to_a_question_takes_back_nothing() -> None:
    said = "The menu is now drawn into a second buffer. Shall I do the same for the map?"
    shown = told(("user", "The menu flickers."), edited("menu.c"), ("assistant", said), ("user", "no"))
    assert "drawn into a second buffer" in shown


def test_what_asserts_the_same_in_that_message_goes_with_it() -> None:
    shown = told(
        ("user", "The invoices of March are missing in the export."),
        (
            "assistant",
            "The export drops invoices without a VAT number. All missing March invoices are those without a VAT "
            "number, which the export drops.",
        ),
        ("user", "no, the missing March invoices have a VAT number, it is the date filter"),
    )
    assert "drops invoices" not in shown
    assert "without a VAT" not in shown
    assert "it is the date filter" in shown


def test_what_the_contradiction_does_not_speak_of_stands() -> None:
    shown = told(
        ("user", "Why is the sitemap empty, and is the feed valid?"),
        (
            "assistant",
            "The sitemap is empty because the crawler finds no route manifest. The Atom feed validates against the "
            "schema of RFC 4287.",
        ),
        ("user", "no, the crawler finds the route manifest. the sitemap is empty since the base path is wrong"),
    )
    assert "finds no route" not in shown
    assert "RFC 4287" in shown


@pytest.mark.parametrize(
    "words",
    [
        "I'd rather use USB, BLE takes 20 minutes for an image",
        "let's rather ship over USB, BLE takes 20 minutes",
        "Lieber über USB, BLE dauert 20 Minuten",
    ],
)
def test_choosing_otherwise_takes_the_claim_out_and_is_a_decision(words: str) -> None:
    turns = (
        ("user", "How do we ship the firmware?"),
        ("assistant", "We ship the firmware over BLE, since every phone has it."),
        ("user", words),
    )
    assert "since every phone has it" not in told(*turns)
    assert [bullet.kind for bullet in summary(*turns).bullets if "USB" in bullet.text] == [Kind.DECISION]


def test_a_later_correction_does_not_take_away_what_is_said_after_it() -> None:
    shown = told(
        ("user", "Why does the tile cache grow?"),
        ("assistant", "The tile cache grows because `evict()` is never called."),
        ("user", "no, evict() is called on every frame"),
        ("assistant", "The tile cache grows because `evict()` skips tiles that are still pinned by the minimap."),
    )
    assert "is never called" not in shown
    assert "pinned by the minimap" in shown


@pytest.mark.parametrize("words", ["no problem, thanks!", "No worries", "no need to hurry, the release moved"])
def test_a_friendly_no_refutes_nothing(words: str) -> None:
    claim = "The importer skips rows without a date because `parse_date` returns None."
    assert claim.rstrip(".") in told(
        ("user", "Why are rows missing?"), ("assistant", claim), ("user", words), ("assistant", "Fine.")
    )


@pytest.mark.parametrize(
    "reply",
    [
        "You're right, the price list is read from the cache and not from the database.",
        "My mistake: the price list is read from the cache, not from the database.",
        "Du hast recht, the price list is read from the cache and not from the database.",
        "Tienes razón: the price list is read from the cache, not from the database.",
        "你说得对，the price list is read from the cache and not from the database.",
    ],
)
def test_an_assistant_that_admits_to_be_wrong_loses_the_claim(reply: str) -> None:
    shown = told(
        ("user", "Where do the prices of the shop come from?"),
        ("assistant", "The price list is read from the database on each request, which costs 30 ms."),
        ("user", "hm, the price list does not change when I update the database"),
        ("assistant", reply),
    )
    assert "on each request" not in shown
    assert "read from the cache" in shown


def test_an_assistant_that_takes_a_claim_back_loses_it() -> None:
    shown = told(
        ("user", "Find out why the boot loader hangs."),
        ("assistant", "The boot loader hangs because the flash bank is locked after reset."),
        ("tool", "Read: /home/ada/fw/boot.c\ncode"),
        (
            "assistant",
            "Wait, the flash bank is unlocked after reset. The boot loader hangs since `crc_check` loops for ever.",
        ),
    )
    assert "is locked" not in shown
    assert "loops for ever" in shown


def test_a_refused_call_takes_what_was_announced_with_it() -> None:
    turns = (
        ("user", "Speed up the product list."),
        ("assistant", "The product list needs a Redis cache in front of the catalogue, so I add one to `settings.py`."),
        refused(),
    )
    assert "Redis" not in told(*turns)
    assert "product list" in told(*turns)


def test_the_words_at_a_refusal_are_the_users_correction() -> None:
    turns = (
        ("user", "Speed up the product list."),
        ("assistant", "The product list needs a Redis cache in front of the catalogue, so I add one to `settings.py`."),
        refused(),
        refusal("a Redis cache hides the problem, add an index on category_id instead"),
        edited("schema.sql"),
        ("assistant", "Added an index on `category_id`; the product list loads in 80 ms."),
    )
    shown = told(*turns)
    assert "needs a Redis cache" not in shown
    assert "add an index on category_id instead" in shown.lower()
    found = summary(*turns)
    kinds = [bullet.kind for bullet in found.bullets if "hides the problem" in bullet.text]
    assert kinds == [Kind.CORRECTION]


def test_a_plan_that_was_refused_is_not_told() -> None:
    plan = "ExitPlanMode\n# Move the whole catalogue to MongoDB\n\n1. Add the driver"
    shown = told(
        ("user", "How do we make the catalogue faster?"),
        refused(plan),
        refusal("we stay on Postgres, only add the missing indexes", "ExitPlanMode"),
    )
    assert "MongoDB" not in shown
    assert "we stay on Postgres" in shown or "We stay on Postgres" in shown


@pytest.mark.parametrize(
    "unsure",
    [
        "The crash might come from the audio thread that frees the buffer too early.",
        "Perhaps the audio thread frees the buffer too early.",
        "I suspect that the audio thread frees the buffer too early.",
        "The audio thread probably frees the buffer too early.",
        "If the audio thread frees the buffer too early, the mixer reads garbage.",
        "Could it be that the audio thread frees the buffer too early?",
        "We could let the audio thread free the buffer too early on purpose.",
        "I'd suggest to let the audio thread free the buffer, not too early though.",
        "Option A: the audio thread frees the buffer, but not too early.",
        "Vermutlich gibt der Audio-Thread den Puffer zu früh frei (too early).",
        "Peut-être que le thread audio libère le tampon too early.",
        "可能是音频线程过早释放了缓冲区 too early。",
    ],
)
def test_a_guess_a_condition_a_question_or_an_option_is_never_told_as_a_fact(unsure: str) -> None:
    sure = "The mixer runs at 48 kHz in `mixer.cpp` and reads from a ring buffer."
    turns = (("user", "Why does the game crash on exit?"), ("assistant", f"{sure} {unsure}"))
    shown = told(*turns)
    assert "48 kHz" in shown
    assert "too early" not in shown


@pytest.mark.parametrize(
    "said",
    [
        "The cache is not shared between workers.",
        "Uploads are kept only if the virus scan has passed.",
        "Sessions are deleted unless they are pinned by an admin.",
        "The export never contains deleted customers.",
        "Only the owner may rename a channel.",
    ],
)
def test_what_turns_a_sentence_round_stays_in(said: str) -> None:
    assert said.rstrip(".") in told(("user", "How does it behave?"), ("assistant", said)).partition("\n")[2]


def test_what_someone_may_not_do_is_no_guess() -> None:
    said = "The role of the runner may not write to the bucket."
    assert said.rstrip(".") in told(("user", "Why did the upload stop?"), ("assistant", said))


def test_what_was_interrupted_before_anything_changed_is_open() -> None:
    shown = bullets(
        ("user", "Rename the `orders` table to `purchases` in all queries."),
        ("assistant", "I'll look for every query that names the orders table."),
        ("tool", "Grep: orders\n14 files"),
        INTERRUPTED,
    )
    assert [text for text in shown if text.startswith("Open: Rename the `orders` table")]
    assert not [text for text in shown if "look for every query" in text]


def test_what_was_interrupted_after_a_change_or_taken_up_again_is_not_open() -> None:
    asked = ("user", "Rename the `orders` table to `purchases` in all queries.")
    changed = bullets(asked, edited("queries.sql"), INTERRUPTED)
    assert not [text for text in changed if text.startswith("Open: ")]
    taken_up = bullets(
        asked, INTERRUPTED, ("user", "go on"), edited("queries.sql"), ("assistant", "All 14 queries are renamed.")
    )
    assert not [text for text in taken_up if text.startswith("Open: ")]


def test_a_reverted_commit_is_told_as_reverted_only() -> None:
    revert = '[main bbbbbb2] Revert "Cache search results for a minute"\n 1 file changed'
    turns = (
        ("user", "Make the search faster."),
        commit("Cache search results for a minute", "aaaaaa1"),
        ("tool", f"Bash: git revert --no-edit aaaaaa1\n{revert}"),
        ("assistant", "The search stays as it was."),
    )
    assert 'Committed: Revert "Cache search results for a minute" (bbbbbb2)' in bullets(*turns)
    assert [one.text for one in settled(*turns).standing if one.kind is Kind.COMMIT] == [
        'Revert "Cache search results for a minute"'
    ]


def test_refuted_statements_are_listed_with_all_that_asserts_the_same() -> None:
    claim = "The label printer stops because its queue table is locked."
    found = settled(
        ("user", "The label printer stops."),
        ("assistant", claim),
        ("user", "no, the queue table is not locked, the printer is out of labels"),
    )
    assert [one.text for one in found.refuted] == [claim.rstrip(".")]
    assert claim.rstrip(".") not in [one.text for one in found.standing]
    assert [one.kind for one in found.standing if one.by_user][-1] is Kind.CORRECTION


def test_turns_after_a_segment_tell_nothing_themselves() -> None:
    found = settled(
        ("user", "Sort the menu by name."),
        ("assistant", "The menu is sorted by name."),
        after=(("user", "Now add a dark theme to the settings page."), ("assistant", "Added a dark theme.")),
    )
    assert {one.event.timestamp_ms for one in found.standing} <= {
        one.timestamp_ms for one in conversation(("user", ""), ("assistant", ""))
    }
