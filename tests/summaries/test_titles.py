"""Titles of segments: one clause in the words that were said, from the best source."""

from __future__ import annotations

import pytest

from mcp_memory.summaries.extractive import summarize_segment
from mcp_memory.summaries.titles import MAX_WORDS, clauses, readability, word_count, worth

from .conversations import conversation, title


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("Agreed, rename the Kafka topic to invoices.v2.", "Rename the Kafka topic to invoices.v2"),
        ("Phew. Can you please move the retry loop into the worker?", "Move the retry loop into the worker"),
        ("hey, could you add a retry to the mail job? thanks", "Add a retry to the mail job"),
        ("I noticed that the borrow checker rejects the loop.", "The borrow checker rejects the loop"),
        ("Why does the invoice preview load twice?", "Why does the invoice preview load twice"),
        (".npmrc is missing the registry line", ".npmrc is missing the registry line"),
        ("Kannst du bitte die Rechnungen nach Datum sortieren?", "Die Rechnungen nach Datum sortieren"),
        ("用户上传照片时超过一百张就失败,帮我看一下怎么处理", "用户上传照片时超过一百张就失败"),
    ],
)
def test_politeness_stays_out_and_the_words_stay_as_they_were_said(said: str, named: str) -> None:
    assert title(("user", said)).partition(": ")[0] == named


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Set EDITOR to nano and verify the commit template opens", "Set EDITOR to nano"),
        ("check if the nightly sync works when the disk is full", "Check if the nightly sync works"),
        ("Render the totals only if the invoice is final", "only if the invoice is final"),
        ("fix: totals are rounded twice", "fix: totals are rounded twice"),
        ("I think the cache is stale", "I think the cache is stale"),
        ("I'd recommend against secrets in the README", "I'd recommend against secrets in the README"),
    ],
)
def test_no_cut_changes_what_is_said(said: str, kept: str) -> None:
    assert kept.lower() in title(("user", said)).lower()


def test_a_title_has_at_most_ten_words_and_no_dangling_end() -> None:
    said = (
        "Please move the whole thumbnail cache of the gallery into the object store because the disk of the web "
        "server fills up every other night and then uploads fail"
    )
    named = title(("user", said))
    assert named.startswith("Move the whole thumbnail cache of the gallery")
    assert word_count(named) <= MAX_WORDS
    assert all(word_count(clause.text) <= MAX_WORDS for clause in clauses(said))


def test_a_solved_problem_is_titled_by_what_solved_it() -> None:
    named = title(
        ("user", "The invoice mailer crashes when the address is missing."),
        ("tool", "Edit: /home/ada/shop/mailer.py\nok"),
        ("assistant", "Fixed the invoice mailer: it skips invoices without an address."),
    )
    assert named.startswith("Fixed the invoice mailer")


def test_a_vague_request_is_titled_by_what_came_of_it() -> None:
    named = title(
        ("user", "address #2"),
        ("tool", "Edit: /home/ada/shop/cache.py\nok"),
        ("assistant", "Done. The thumbnail cache now evicts entries by age."),
    )
    assert named.startswith("The thumbnail cache now evicts entries by age")


def test_a_chore_gives_way_to_what_came_of_it() -> None:
    named = title(
        ("user", "ok, commit and push"),
        ("assistant", "Pushed. The thumbnail cache now evicts entries by age instead of size."),
    )
    assert named.startswith("The thumbnail cache now evicts entries by age")


def test_a_command_as_it_was_typed_gives_way_to_what_is_said_of_it() -> None:
    told = ("assistant", "The cart now keeps its items after login.")
    assert title(("user", "git push origin main"), told).startswith("The cart now keeps its items")
    assert readability("Git push fails with a timeout") > 2 * readability("Git push origin main")


def test_the_heading_of_an_accepted_plan_titles_the_segment() -> None:
    plan = "ExitPlanMode\n# Plan: Move sessions to Redis\n\n## Steps\n1. Add the client"
    named = title(("user", "how should we store sessions?"), ("tool", plan), ("assistant", "Starting now."))
    assert named.startswith("Move sessions to Redis")


def test_a_commit_titles_the_segment_with_its_prefix() -> None:
    named = title(
        ("user", "ok do it"),
        ("tool", 'Bash: git commit -m "fix: round invoice totals once"\n[main 1a2b3c4] fix: round invoice totals once'),
        ("assistant", "Done."),
    )
    assert named.startswith("fix: round invoice totals once")


def test_files_that_were_edited_are_named_after_the_clause() -> None:
    named = title(
        ("user", "Sort the invoices by date, newest first."),
        ("tool", "Edit: /home/ada/shop/ledger.py\nok"),
        ("assistant", "The invoices are sorted by date now."),
    )
    assert named == "Sort the invoices by date: ledger.py"


def test_the_file_in_which_an_agent_keeps_its_plan_is_not_named() -> None:
    named = title(
        ("user", "Sort the invoices by date, newest first."),
        ("tool", "Write: /home/ada/.claude/plans/merry-dancing-otter.md\nok"),
        ("assistant", "The plan is to sort the invoices by date."),
    )
    assert named == "Sort the invoices by date"


def test_two_clauses_are_never_joined() -> None:
    named = title(
        ("user", "Add a retry to the mail job."),
        ("assistant", "Added a retry to the mail job."),
        ("user", "Rename the orders table to purchases."),
        ("assistant", "Renamed the orders table to purchases."),
    )
    assert ";" not in named


def test_numbers_do_not_make_a_title() -> None:
    named = title(
        ("user", "POST /v2/orders is slow again. The p99 is 4.7 s with 1,200 rows and 35 items."),
        ("assistant", "The orders query has no index on customer, so it scans 1,200 rows for each of 35 items."),
    )
    assert named.startswith("POST /v2/orders is slow")


def test_a_chat_is_titled_by_what_people_did() -> None:
    named = title(
        ("user", "Mia: Hey Jon, long time no see!"),
        ("assistant", "Jon: Wow, good to hear from you! What's new?"),
        ("user", "Mia: I've been looking into evening classes in pottery."),
        ("assistant", "Jon: That's awesome!"),
    )
    assert "evening classes in pottery" in named


def test_nothing_said_is_titled_by_what_was_there() -> None:
    assert summarize_segment(conversation(("start", "")), []).title == "Session start"
    assert summarize_segment(conversation(("start", "resumed from disk")), []).title == "resumed from disk"


def test_quotes_and_parentheses_of_a_title_are_balanced() -> None:
    named = title(("user", 'Show "Order saved" and remove "(draft)" from "New order'))
    assert '"' not in named
    assert named.count("(") == named.count(")")


@pytest.mark.parametrize(
    ("good", "torn"),
    [
        ("Rename the orders table", "I don't need the orders table"),
        ("Orders table too large", "Wondering if it would work"),
        ("Fix the flaky upload test", "When running the upload test"),
        ("Upload fails on Windows", "This fails on Windows"),
        ("Cache invalidation after a deploy", "Cache invalidation - see a1b2c3d4"),
        ("Export the ledger", "Verifies the ledger"),
        ("Export the ledger", "Run the tests"),
    ],
)
def test_torn_pieces_and_chores_read_worse_than_names_and_tasks(good: str, torn: str) -> None:
    assert readability(good) > readability(torn)


def test_long_names_do_not_outweigh_words() -> None:
    weights = dict.fromkeys(("test", "total", "with", "discount", "price", "round", "wrong"), 1.0)
    assert worth("TestTotalWithDiscountPrice", weights) < worth("Prices rounded wrong", weights)


def test_a_title_is_not_cut_within_code() -> None:
    said = "Two broke: `assert { type: 'json' }` is now `with { type: 'json' }`, and MD4 hashes in `sums.ts` are gone"
    assert not [one.text for one in clauses(said) if one.text.count("{") != one.text.count("}")]


def test_a_pull_request_that_was_looked_at_stands_before_the_clause() -> None:
    named = title(
        ("user", "check the review comments on the invoice mailer"),
        ("tool", "Bash: gh pr view 41 --comments\nThe mailer retries forever"),
        ("assistant", "One comment is valid: the invoice mailer retries forever."),
    )
    assert named.startswith("PR 41: ")


def test_a_segment_that_goes_on_with_a_task_may_be_titled_by_it() -> None:
    context = conversation(("user", "Please speed up the rendering of the yearly invoices."))
    events = conversation(
        ("assistant", "Let me measure where the time goes."),
        ("tool", "Read: /home/ada/shop/render.py\nimport pdf"),
        first=10,
    )
    assert summarize_segment(events, context).title.startswith("Speed up the rendering of the yearly invoices")
    done = conversation(
        ("tool", "Edit: /home/ada/shop/render.py\nok"),
        ("assistant", "The renderer now embeds each font of the invoices once."),
        first=10,
    )
    assert summarize_segment(done, context).title.startswith("The renderer now embeds each font of the invoices once")


def test_code_is_never_cut_apart() -> None:
    texts = [one.text for one in clauses("Removed the `retries: 1, 2` line since the runner ignores it")]
    assert "Removed the retries: 1, 2 line" in texts
    assert not {"Removed the retries", "2 line"} & set(texts)


def test_steps_of_a_list_say_less_than_the_task_that_they_belong_to() -> None:
    todos = "TodoWrite\n" + "\n".join(f"[x] Port the {name} page of the shop" for name in ("cart", "login", "help"))
    named = title(("user", "Port all pages of the shop to the new router."), ("tool", todos))
    assert named.startswith("Port all pages of the shop to the new router")


def test_the_step_in_progress_titles_work_without_words() -> None:
    todos = "TodoWrite\n[x] Read the grammar\n[~] Write the tokenizer for string literals\n[ ] Add tests"
    named = title(("tool", todos), ("tool", "Edit: /home/ada/lexer/tokenizer.rs\nok"))
    assert named.startswith("Write the tokenizer for string literals")


def test_what_people_did_titles_their_talk_rather_than_how_they_liked_it() -> None:
    named = title(
        ("user", "Mia: Pottery is such a wonderful way to relax and to find balance."),
        ("assistant", "Jon: I adopted a rescue dog from the shelter last Sunday."),
        ("user", "Mia: That's so lovely, dogs make every home a happier place."),
        ("assistant", "Jon: Balance and pottery sound wonderful, too."),
    )
    assert "I adopted a rescue dog" in named


def test_code_in_parentheses_leaves_no_hole() -> None:
    texts = [one.text for one in clauses("An index on `(tenant, day)` finds those rows (see the plan)")]
    assert "An index on (tenant, day) finds those rows" in texts


SAID = (("user", "Rename the orders table to purchases."), ("assistant", "The orders table is called purchases now."))


@pytest.mark.parametrize(
    ("titles", "named"),
    [
        ([("Database work", "ai-title")], "Database work"),
        ([("Database work", "custom-title"), ("Orders renamed", "ai-title")], "Database work"),
        ([("Database work", "summary"), ("Shop", "custom-title"), ("Shop cleanup", "custom-title")], "Shop cleanup"),
        ([("***", "custom-title"), ("Orders", "summary")], "purchases"),
    ],
)
def test_a_title_that_was_given_comes_before_any_sentence_and_the_users_before_the_clients(
    titles: list[tuple[str, str]], named: str
) -> None:
    given = [("title", text, {"source": source}) for text, source in titles]
    found = title(*SAID, *given)
    assert (found.partition(": ")[0] == named) if named != "purchases" else (named in found)


def test_a_long_given_title_is_cut_to_the_length_of_a_title() -> None:
    assert len(title(*SAID, ("title", "a long name of this work " * 9, {"source": "custom-title"}))) <= 90
