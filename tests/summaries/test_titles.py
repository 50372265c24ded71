"""Titles of segments and topics of periods: phrases that name the matter."""

from __future__ import annotations

import re

import pytest

from mcp_memory import sample
from mcp_memory.domain.sentences import clipped
from mcp_memory.domain.toc import Level
from mcp_memory.summaries.extractive import summarize_segment
from mcp_memory.summaries.phrases import readability, worth
from mcp_memory.summaries.rollups import roll_up

from .conversations import bullets, conversation, node, segment_node, title


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("What would happen if the broker is restarted during a flush?", "Broker restarted during a flush"),
        ("Agreed, rename the Kafka topic to invoices.v2.", "Rename the Kafka topic to invoices.v2"),
        ("The invoice footer is missing on every second page.", "Invoice footer missing on every second page"),
        ("Let's do the PDF export for the yearly statement.", "PDF export for the yearly statement"),
        ("Yesterday's payroll run was wrong in all branches!", "Payroll run wrong in all branches"),
        ("Accountants want to export the ledger as CSV.", "Export the ledger as CSV"),
        ("We have to talk about the retention of audit logs again.", "Retention of audit logs"),
        ("I think the borrow checker rejects the parser loop.", "Borrow checker rejects the parser loop"),
        ("Phew. Can you please move the retry loop into the worker?", "Move the retry loop into the worker"),
        ("What's the source of the exchange rates?", "Source of the exchange rates"),
        ("I'm interested in exploring more city maps.", "Exploring more city maps"),
        ("One more thing: the German label for overdue is missing.", "German label for overdue missing"),
        ("Why does the invoice preview load twice?", "Why does the invoice preview load twice"),
        ("How do I list the stale branches of a remote?", "List the stale branches of a remote"),
        ("I was wondering whether it would make sense to cache the exchange rates", "Cache the exchange rates"),
        ("Start moving the mail templates to Liquid.", "Moving the mail templates to Liquid"),
        ("The linter wants to rename every private field, please.", "Linter wants to rename every private field"),
        ("In reports/ledger.py the totals are rounded twice.", "Totals rounded twice"),
    ],
)
def test_framing_questions_and_copulas_stay_out_of_the_title(said: str, named: str) -> None:
    assert title(("user", said)) == named


def test_two_matters_of_one_conversation_share_the_title() -> None:
    named = title(
        ("user", "The map view gets slower when many markers are shown. Can you find out why?"),
        ("assistant", "Every marker adds its own listener to the map view, which makes panning slow."),
        ("tool", "Edit: /src/MapView.tsx\nok"),
        ("assistant", "The map view now shares one listener for all markers."),
        ("user", "Another problem: invoices are sometimes mailed twice."),
        ("assistant", "The mail job retries without a lock, so invoices are mailed twice when the queue restarts."),
    )
    assert named == "Map view gets slower; invoices sometimes mailed twice"


def test_what_is_asked_names_the_matter_rather_than_what_led_up_to_it() -> None:
    asked = title(("user", "I deleted the old fixtures, but wondering now, can the seed script create the tenants?"))
    assert "fixtures" not in asked
    assert "seed script" in asked
    wanted = title(
        (
            "user",
            "The platform team moved our secrets to Vault. Can you change it so we can have a local fallback file for "
            "offline work?",
        ),
        ("assistant", "Secrets are read from Vault, then from the fallback file."),
    )
    assert wanted.startswith("Local fallback file")


def test_a_segment_that_goes_on_with_a_task_is_titled_by_both() -> None:
    context = conversation(("user", "Our invoices take 40 seconds to render, please speed that up."), ("user", "yes"))
    events = conversation(
        ("assistant", "Let me measure where the time goes."),
        ("tool", "Read: /src/render.py\nimport pdf"),
        ("assistant", "Fonts are embedded twice."),
        ("user", "ok go on"),
        ("tool", "Edit: /src/render.py\nok"),
        first=10,
    )
    assert summarize_segment(events, context).title == "Invoices take 40 seconds to render; fonts embedded twice"


def test_what_came_of_a_task_titles_a_segment_if_it_says_enough() -> None:
    context = conversation(("user", "Our invoices take 40 seconds to render, please speed that up."))
    events = conversation(
        ("tool", "Edit: /src/render.py\nok"),
        ("assistant", "The renderer now embeds each font of the invoice once."),
        first=10,
    )
    assert summarize_segment(events, context).title == "Renderer now embeds each font of the invoice once"


def test_a_question_stands_as_it_was_asked_where_little_else_is_said() -> None:
    assert title(("user", "why do we pin urllib3 below 2?")) == "Why do we pin urllib3 below 2"
    assert title(("user", "what's the source for colour?")) == "What's the source for colour"


def test_a_heading_of_the_answer_titles_a_review() -> None:
    named = title(
        ("user", "post the two blocking ones as comments"),
        ("assistant", "## Review of the exchange rate cache\n\n- The exchange rate expires too late.\n"),
    )
    assert named == "Review of the exchange rate cache"


def test_a_failed_test_is_named_without_its_path_and_assertion() -> None:
    log = "FAILED tests/api/test_orders.py::test_total_with_discount - assert 90 == 100\n"
    said = f"test_total_with_discount fails on Windows only. Here is the output:\n\n{log}"
    summary = summarize_segment(conversation(("user", said), ("assistant", "The cause is the decimal comma.")), [])
    assert summary.title == "test_total_with_discount fails on Windows"
    assert summary.bullets[0].shown == "Reported: test_total_with_discount fails on Windows only"


def test_numbers_do_not_make_a_title() -> None:
    named = title(
        ("user", "POST /v2/orders is slow again. The p99 is 4.7 s with 1,200 rows and 35 items."),
        ("assistant", "The orders query has no index on customer, so it scans 1,200 rows for each of 35 items."),
    )
    assert named == "POST /v2/orders slow; orders query has no index"


def test_a_go_panic_a_rust_error_and_a_stack_trace_give_their_message() -> None:
    go = "panic: runtime error: invalid memory address\n\ngoroutine 1 [running]:\nmain.go:12:3: main.load\n"
    rust = "error[E0502]: cannot borrow `queue` as mutable\n  --> src/queue.rs:41:9\n   |\n"
    java = (
        "java.lang.IllegalStateException: connection pool exhausted\n"
        "    at com.acme.Pool.take(Pool.java:88)\n    at com.acme.Api.handle(Api.java:12)\n"
    )
    assert "invalid memory address" in title(("user", go))
    assert title(("user", rust)) == "Cannot borrow queue as mutable"
    assert "connection pool exhausted" in title(("user", java))


def test_the_step_in_progress_titles_work_without_words() -> None:
    todos = "TodoWrite\n[x] Read the grammar\n[~] Write the tokenizer for string literals\n[ ] Add tests"
    named = title(("tool", todos), ("tool", "Edit: /src/tokenizer.rs\nok"))
    assert named == "Write the tokenizer for string literals"


def test_routine_words_give_way_to_what_came_of_them() -> None:
    named = title(
        ("user", "ok, commit and push"),
        ("assistant", "Pushed. The thumbnail cache now evicts entries by age instead of size."),
    )
    assert named.startswith("Thumbnail cache now evicts entries by age")


def test_a_chat_is_titled_by_what_people_did() -> None:
    named = title(
        ("user", "Mia: Hey Jon, long time no see!"),
        ("assistant", "Jon: Wow, good to hear from you! What's new?"),
        ("user", "Mia: I've been looking into evening classes in pottery."),
        ("assistant", "Jon: That's awesome!"),
    )
    assert named == "Looking into evening classes in pottery"


@pytest.mark.parametrize(
    ("good", "torn"),
    [
        ("Rename the orders table", "I don't need the orders table"),
        ("Orders table too large", "Wondering if it would work"),
        ("Fix the flaky upload test", "When running the upload test"),
        ("Upload fails on Windows", "This fails on Windows"),
        ("Cache invalidation after a deploy", "Cache invalidation - see a1b2c3d4"),
        ("Export the ledger", "Export it and"),
    ],
)
def test_torn_pieces_read_worse_than_names_and_tasks(good: str, torn: str) -> None:
    assert readability(good) > readability(torn)


def test_long_names_do_not_outweigh_words() -> None:
    weights = dict.fromkeys(("test", "total", "with", "discount", "price", "round", "wrong"), 1.0)
    assert worth("TestTotalWithDiscountPrice", weights) < worth("Prices rounded wrong", weights)


def test_nothing_said_is_titled_by_what_was_there() -> None:
    assert summarize_segment(conversation(("start", "")), []).title == "Session start"
    assert summarize_segment(conversation(("start", "resumed from disk")), []).title == "resumed from disk"


def test_quotes_and_parentheses_of_a_title_are_balanced() -> None:
    named = title(("user", 'Show "Order saved" and remove "(draft)" from "New order'))
    assert '"' not in named
    assert named.count("(") == named.count(")")


def test_a_file_that_begins_with_a_dot_keeps_it() -> None:
    assert title(("user", ".npmrc is missing the registry line")) == ".npmrc missing the registry line"


def test_questions_and_later_requests_are_asked_and_settled_problems_are_not_reported() -> None:
    found = bullets(
        ("user", "Migrate the billing jobs to the new scheduler."),
        ("user", "Not by cron, that drifts on restarts. Make it an interval in the billing config."),
        ("user", "What about leap days? Billing counts thirty days for every month."),
        ("user", "Deployed to staging, the scheduler error is gone."),
    )
    assert [text.split(":")[0] for text in found] == ["Asked", "Asked", "Asked", "User"]


def test_what_was_just_found_is_told_and_what_leans_on_it_is_not() -> None:
    found = bullets(
        ("user", "The nightly import crashes for customers in Norway. Can you find out why?"),
        ("tool", "Read: /src/feed.py\nimport csv"),
        (
            "assistant",
            "Found it. The Norwegian feed renamed its postal column. The importer will now show:\n\n```\nok\n```",
        ),
        ("user", "fix all of them"),
        ("tool", "Edit: /src/feed.py\nok"),
        ("assistant", "The importer accepts both names of the postal column now."),
    )
    assert "The Norwegian feed renamed its postal column" in found
    assert not any("will now show" in text or "all of them" in text for text in found)


def test_a_decision_keeps_its_reason_and_an_open_problem_at_the_end_is_kept() -> None:
    found = bullets(
        ("user", "Which queue should the thumbnails use?"),
        ("assistant", "I see three queue libraries in the lock file."),
        ("assistant", "Two of the queue tests are failing on my side."),
        ("assistant", "Decision: a Postgres queue instead of RabbitMQ, because one more server is not worth it."),
        ("assistant", "The worker now takes thumbnails in batches of ten."),
        ("assistant", "Left open: thumbnails of animated images are still missing."),
    )
    assert "Decision: a Postgres queue instead of RabbitMQ, because one more server is not worth it" in found
    assert found[-1] == "Left open: thumbnails of animated images are still missing"


def test_a_pasted_prompt_is_no_statement_of_the_user() -> None:
    found = bullets(("user", "when running:\n❯ ledger sync\n\n✓ Synced\n\nPlease show how many entries were synced."))
    assert found == ["Asked: show how many entries were synced"]


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("One two three four five. Six seven eight nine ten eleven", "One two three four five"),
        ("One two three four five, six seven eight nine ten eleven", "One two three four five…"),
        ("One two `three four, five six` seven eight nine ten", "One two three four, five six…"),
        ("short enough", "short enough"),
    ],
)
def test_a_long_bullet_ends_at_a_clause(text: str, cut: str) -> None:
    assert clipped(text, 32).replace("`", "") == cut
    assert len(clipped(text, 32)) <= 32


PDF = segment_node(
    1,
    "PDF export for yearly statements; invoices sometimes mailed twice",
    ["Asked: do the PDF export for the yearly statement", "Left open: invoices are sometimes mailed twice"],
    ("PDF", "statement", "invoices"),
)
FLAKY = segment_node(
    2,
    "test_total_with_discount fails on Windows: locale, decimal comma",
    ["Reported: test_total_with_discount fails on Windows", "The cause is the decimal comma of the locale"],
    ("test_total_with_discount", "locale"),
)


def test_a_day_names_the_matters_of_its_segments_in_few_words() -> None:
    themes = roll_up(Level.DAY, [PDF, FLAKY]).topic.split(", ")
    assert set(themes) == {
        "PDF export for yearly statements",
        "invoices sometimes mailed twice",
        "test_total_with_discount fails on Windows",
    }


def test_a_day_names_what_most_of_it_was_about_before_what_came_up_once() -> None:
    titles = [
        "Rename the colour column",
        "Paths wrong outside the root; audit of file lookups",
        "Paths wrong outside the root; lookup in the loader",
        "Paths wrong outside the root; lookup in the watcher",
    ]
    told = [f"Fixed {title.rpartition('; ')[2]}" for title in titles]
    children = [segment_node(number, title, [told[number]], ("root",)) for number, title in enumerate(titles)]
    assert roll_up(Level.DAY, children).topic.startswith("paths wrong outside the root, ")


def test_a_wish_keeps_its_verb() -> None:
    assert bullets(("user", "I want the map to remember its zoom level."))[0].startswith("Asked: I want the map to")
    assert bullets(("user", "I want to rename the orders table."))[0] == "Asked: rename the orders table"


def test_a_period_with_one_child_keeps_its_topic() -> None:
    week = node(Level.WEEK, "2026-W02", "Week of January 5–11, 2026: shop search by colour, slow checkout page", ["x"])
    assert roll_up(Level.MONTH, [week]).topic == "shop search by colour, slow checkout page"


def test_themes_hold_no_colon() -> None:
    for children in ([FLAKY], [PDF, FLAKY]):
        assert ": " not in roll_up(Level.DAY, children).topic


def test_a_year_names_themes_of_different_months() -> None:
    months = [
        node(Level.MONTH, f"2026-0{number}", f"{name} 2026: {topic}", [f"Added {word}"], (word, "shop"))
        for number, name, topic, word in [
            (1, "January", "shop search by colour, shop filters for price", "search"),
            (2, "February", "slow checkout page", "checkout"),
            (3, "March", "coupon codes for the shop", "coupon"),
        ]
    ]
    themes = roll_up(Level.YEAR, months).topic.split(", ")
    assert len(themes) == 3
    assert {"slow checkout page", "coupon codes for the shop"} < set(themes)


def test_near_equal_themes_appear_once() -> None:
    children = [
        segment_node(number, title, ["Changed the default of telemetry"], ("telemetry",))
        for number, title in enumerate(["Change telemetry default to off", "Change the telemetry default to off"])
    ]
    assert roll_up(Level.DAY, children).topic.count("telemetry") == 1


def test_a_name_keeps_its_capital_inside_a_topic() -> None:
    german = segment_node(1, "German label for overdue missing", ["Reported: the German label is missing"], ("label",))
    assert roll_up(Level.DAY, [german]).topic == "German label for overdue missing"


def test_a_month_prefers_decisions_with_reasons_to_questions() -> None:
    asked = [f"Asked: which {word} queue should we take?" for word in ("red", "blue", "green", "small")]
    decided = "Decision: a Postgres queue instead of RabbitMQ, because one more server is not worth it"
    week = node(Level.WEEK, "2026-W02", "Week of January 5–11, 2026: queue", [*asked, decided], ("queue", "Postgres"))
    other = node(Level.WEEK, "2026-W03", "Week of January 12–18, 2026: logs", ["Added log rotation"], ("log",))
    shown = [bullet.shown for bullet in roll_up(Level.YEAR, [week, other]).bullets]
    assert decided in shown
    assert sum(text.startswith("Asked") for text in shown) < len(asked)


def test_titles_are_phrases_of_the_conversation() -> None:
    said = "We noticed that the nightly backup of the ledger is too large, please split it by year."
    words = set(re.findall(r"\w+", said.lower()))
    assert set(re.findall(r"\w+", title(("user", said)).lower())) <= words


def test_a_matter_of_two_words_is_told_with_what_was_found_of_it() -> None:
    named = title(
        ("user", "We have to talk about the price list again. Two branches print it wrong every Friday."),
        ("assistant", "The nightly export rounds before it converts the currency."),
        ("user", "Then turn the order round."),
        ("assistant", "Done: conversion comes first, and both branches print the same prices."),
    )
    assert named.startswith("The price list; ")


def test_a_request_that_opens_with_its_matter_is_joined_by_that_with_a_second_one() -> None:
    told = [line for line in sample.lines() if line["session_id"] == "tidepool-api-04" and line["role"] != "system"]
    assert title(*((line["role"], line["text"]) for line in told)) == "GET /v1/tides slow; public API has no rate limit"
