"""Titles of work that goes on, of commands and of words that fit anything: each tells what is its own."""

from __future__ import annotations

from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.toc import Level
from mcp_memory.summaries.cues import user_kind
from mcp_memory.summaries.extractive import summarize_segment
from mcp_memory.summaries.rollups import roll_up

from .conversations import bullets, conversation, segment_node, summary, title

LONG_TASK = "Rewrite the date picker"


def test_a_command_is_told_by_what_was_said_to_it() -> None:
    turns = (("user", "/debug the invoice worker hangs on startup"), ("tool", "Read: /src/worker.py\ncode"))
    assert title(*turns) == "Debug the invoice worker hangs on startup"
    assert "Asked: debug the invoice worker hangs on startup" in bullets(*turns)
    assert bullets(("user", "/tmp is full on the build machine again, please clean it"))[0].startswith(
        "Asked: /tmp is full"
    )


def test_a_continued_session_is_told_by_what_it_goes_on_with() -> None:
    told = bullets(
        (
            "user",
            "This session is being continued from a previous conversation that ran out of context.\n"
            "The user asked to add a CSV import for contacts.",
        ),
        ("assistant", "The import now skips contacts without an address."),
    )
    assert not any("being continued" in text for text in told)
    assert any("CSV import for contacts" in text for text in told)


def test_what_takes_too_long_is_reported() -> None:
    assert user_kind("the nightly report takes 40 minutes on the new server") is Kind.REPORT
    assert user_kind("it takes the first row as the header") is Kind.SAID


def test_a_bullet_is_placed_under_no_matter_that_was_raised_later() -> None:
    both = segment_node(
        1,
        "Parser lacks tests for dates",
        [
            "I created `validators.py` with one function for each rule",
            "Reported: The parser reads numbers, but it lacks tests for dates",
            "Wrote eleven cases with leap years",
        ],
    )
    other = segment_node(2, "Footer overlaps the menu", ["Asked: fix the footer", "The footer now has its own layer"])
    told = [bullet.shown for bullet in roll_up(Level.DAY, [both, other]).bullets]
    assert "I created `validators.py` with one function for each rule" in told


def test_a_wish_with_a_limit_is_named_by_the_wish() -> None:
    assert title(("user", "Rename the billing module but leave its tables alone.")).startswith("Rename")


def test_words_that_fit_anything_are_completed_by_what_was_worked_on() -> None:
    asked = ("user", "can you add some tests for the new functionality?")
    assert title(asked, ("tool", "Edit: /src/test_ledger.py\nok")) == (
        "Add some tests for the new functionality in test_ledger.py"
    )
    assert title(asked, ("assistant", "`LedgerExport` has no tests for empty ledgers.")) != (
        "Add some tests for the new functionality"
    )


def test_how_something_is_to_be_done_does_not_name_the_task() -> None:
    named = title(
        ("user", "Review PR #31 please: it adds a cache to the price list. Focus on races, I don't mind style.")
    )
    assert named == "Review PR #31: adds a cache to the price list"


def test_segments_of_one_task_bear_different_titles() -> None:
    context = conversation(("user", LONG_TASK))
    first = summarize_segment(context, []).title
    later = [
        summarize_segment(conversation(("tool", f"Edit: /src/{name}.tsx\nok"), first=10), context).title
        for name in ("Calendar", "Booking")
    ]
    assert first == LONG_TASK
    assert later == [f"{LONG_TASK}: Calendar.tsx", f"{LONG_TASK}: Booking.tsx"]


def test_a_request_that_was_made_before_gives_way_to_a_new_one() -> None:
    context = conversation(("user", LONG_TASK))
    again = conversation(("user", LONG_TASK), ("user", "Print the time zone below the calendar"), first=10)
    assert summarize_segment(again, context).title == "Print the time zone below the calendar"
    assert summarize_segment(again[:1], context).title == LONG_TASK


def test_going_on_is_no_task() -> None:
    context = conversation(("user", LONG_TASK), ("user", "continue with the booking page"))
    events = conversation(("user", "the calendar opens a month late since then"), first=10)
    assert summarize_segment(events, context).title == "Calendar opens a month late"


def test_what_one_wants_instead_is_asked_for() -> None:
    assert user_kind("The outbox is right, but no silent overwrite, show both versions") is Kind.REQUEST
    assert user_kind("There is no index on that column, so it scans") is Kind.SAID


HANDED_OVER = (
    "compaction",
    "1. Primary Request and Intent:\n   - The user asked to import contacts from vCard files\n   - Keep the old ids\n"
    "2. Key Technical Concepts:\n   - vCard 4.0\n3. Current Work:\n   Photos were about to be read.",
)
GOES_ON = (
    ("assistant", "I'll go on with the photos."),
    ("tool", "Edit: /src/vcard.py\nok"),
    ("assistant", "Photos of contacts are now read from `PHOTO` lines and scaled to 256 pixels."),
    ("user", "also log how many files were skipped"),
    ("assistant", "`import` now prints how many files it skipped."),
)


def test_a_session_that_begins_with_a_summary_is_named_by_the_task_it_goes_on_with() -> None:
    told = summary(HANDED_OVER, *GOES_ON)
    assert told.title == "Import contacts from vCard files"
    first = told.bullets[0]
    assert first.shown == "Asked: import contacts from vCard files"
    cited = HANDED_OVER[1][first.evidence[0].start : first.evidence[0].end]
    assert cited == "The user asked to import contacts from vCard files"


def test_a_summary_in_the_course_of_a_session_does_not_name_what_follows() -> None:
    before = conversation(("user", "Draw the ledger as a chart"))
    events = conversation(HANDED_OVER, *GOES_ON, first=10)
    assert "vCard files" not in summarize_segment(events, before).title
    asked = ("user", "Draw the ledger as a chart")
    assert title(asked, HANDED_OVER, *GOES_ON[:3]).startswith("Draw the ledger as a chart")


def test_a_summary_that_names_no_request_hands_nothing_over() -> None:
    free = ("compaction", "Photos were about to be read from vCard files. The old ids are kept.")
    assert title(free, *GOES_ON) == title(*GOES_ON)
