"""What the user chose or agreed to is a decision, told with the words of both; what was not chosen is never told."""

from __future__ import annotations

import pytest

from mcp_memory.domain.nodes import Kind
from mcp_memory.summaries.extractive import summarize_segment

from .conversations import bullets, conversation, excerpts, question, summary, told

OPTIONS = (
    "There are three ways to store the thumbnails:\n\n"
    "1. Keep them on the web server's disk and clean up nightly\n"
    "2. Write them to the object store with a public bucket\n"
    "3. Render them on request and cache them at the edge\n\n"
    "Which one do you prefer?"
)


@pytest.mark.parametrize(
    ("answer", "chosen", "others"),
    [
        ("the third, but keep originals on disk", "Render them on request", ["public bucket", "clean up nightly"]),
        ("option 2, with a private bucket please", "Write them to the object store", ["at the edge", "nightly"]),
        ("1", "Keep them on the web server's disk", ["public bucket", "at the edge"]),
        ("let's go with #3 and set a TTL of a day", "Render them on request", ["public bucket", "nightly"]),
        ("the last one sounds good", "Render them on request", ["public bucket", "nightly"]),
    ],
)
def test_a_chosen_option_is_told_with_the_users_words_and_a_grip_to_each(
    answer: str, chosen: str, others: list[str]
) -> None:
    events = conversation(("user", "Where should thumbnails live?"), ("assistant", OPTIONS), ("user", answer))
    found = summarize_segment(events, [])
    decision, cited = next(
        (bullet, words)
        for bullet, words in zip(found.bullets, excerpts(found, events), strict=True)
        if bullet.kind is Kind.DECISION
    )
    assert chosen in decision.text
    assert answer in decision.text
    assert any(words.startswith(chosen) for words in cited)
    assert answer in cited
    shown = "\n".join([found.title, *(bullet.shown for bullet in found.bullets)])
    assert not [other for other in others if other in shown]


@pytest.mark.parametrize("answer", ["what would the second cost?", "no, neither the first nor the third", "1 or 3?"])
def test_an_answer_that_chooses_nothing_is_no_decision(answer: str) -> None:
    found = summary(("user", "Where should thumbnails live?"), ("assistant", OPTIONS), ("user", answer))
    assert Kind.DECISION not in [bullet.kind for bullet in found.bullets]
    assert "clean up nightly" not in "\n".join(bullet.text for bullet in found.bullets)


def test_options_in_letters_are_chosen_by_letter() -> None:
    offered = (
        "Two approaches:\n\n**Option A:** poll the sensor every 10 ms\n**Option B:** let the sensor raise an interrupt"
    )
    shown = told(("user", "How do we read the gyro?"), ("assistant", offered), ("user", "B, the CPU has to sleep"))
    assert "Decided: B, the CPU has to sleep — let the sensor raise an interrupt" in shown
    assert "poll the sensor" not in shown


def test_agreement_is_told_with_the_question() -> None:
    events = conversation(
        ("user", "The importer overwrites edited contacts."),
        ("assistant", "It matches by mail address. Should contacts that were edited by hand be left alone?"),
        ("user", "yes please"),
    )
    found = summarize_segment(events, [])
    decision = next(bullet for bullet in found.bullets if bullet.kind is Kind.DECISION)
    assert decision.text == "Should contacts that were edited by hand be left alone? → yes please"
    cited = excerpts(found, events)[found.bullets.index(decision)]
    assert cited == ["Should contacts that were edited by hand be left alone?", "yes please"]


def test_agreement_to_nothing_is_no_decision() -> None:
    found = summary(("user", "Sort the menu."), ("assistant", "The menu is sorted by name now."), ("user", "ok great"))
    assert Kind.DECISION not in [bullet.kind for bullet in found.bullets]


def test_the_answer_to_a_tools_question_is_a_decision_and_what_was_not_chosen_is_never_told() -> None:
    turns = (
        ("user", "Set up the deployment of the docs."),
        question(
            "Where should the docs be hosted?",
            "Static bucket — plain files behind the CDN",
            "Own server",
            "Read the Docs",
            note="only if previews per branch work",
        ),
        ("assistant", "The docs are deployed to the bucket."),
    )
    shown = told(*turns)
    assert "Decided: Where should the docs be hosted? → Static bucket — plain files behind the CDN" in shown
    assert "only if previews per branch work" in shown
    assert "Own server" not in shown
    assert "Read the Docs" not in shown


def test_options_that_were_added_are_told_and_options_to_choose_from_are_not() -> None:
    items = "\n\n- `--since` limits the report to a time\n- `--json` prints it for scripts"
    asked = ("user", "Extend the report command.")
    assert "--since" in told(asked, ("assistant", f"Added two options to the report command:{items}"))
    assert "--since" not in told(asked, ("assistant", f"We have two options for the report command:{items}"))
    assert "--since" in told(("user", f"Please add these options to the report command:{items}"))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Should I store it in Postgres or in Parquet files?", "use Parquet"),
        ("Shall I keep the raw samples of each sensor for a year?", "keep 30 days"),
    ],
)
def test_a_short_answer_is_told_after_the_question_that_it_answers(asked: str, answer: str) -> None:
    events = conversation(
        ("user", "Set up storage for the sensor data."), ("assistant", f"It is 3 GB a day. {asked}"), ("user", answer)
    )
    found = summarize_segment(events, [])
    [(decision, cited)] = [
        (bullet, words)
        for bullet, words in zip(found.bullets, excerpts(found, events), strict=True)
        if bullet.kind is Kind.DECISION
    ]
    assert decision.text == f"{asked} → {answer}"
    assert {asked, answer} == set(cited)


def test_what_users_say_they_decided_is_a_decision() -> None:
    shown = told(("user", "we decided to drop support for Python 3.9"), ("assistant", "It is gone from the matrix."))
    assert "Decided: We decided to drop support for Python 3.9" in shown


def test_a_nod_to_a_bare_question_is_told_with_what_was_proposed_before_it() -> None:
    said = "The list sorts by date. I'd suggest an index on `created_at`. Shall I?"
    shown = told(("user", "The list is slow."), ("assistant", said), ("user", "ok"))
    assert "Decided: I'd suggest an index on `created_at`" in shown


def test_a_number_names_an_item_of_the_last_list() -> None:
    lists = "Bugs:\n1. totals are rounded twice\n2. the cart leaks sessions\n\nStyle:\n1. short names\n2. odd comments"
    shown = bullets(("user", "Review the cart."), ("assistant", lists), ("user", "fix 2"))
    assert [text for text in shown if "fix 2" in text] == ["Asked: fix 2 — odd comments"]
