"""What calls of tools tell: plans, answers, commits, pull requests, to-dos, how tests ended and which errors stayed."""

from __future__ import annotations

import pytest

from mcp_memory.domain.nodes import Kind
from mcp_memory.summaries.calls import (
    Source,
    Told,
    call_of,
    edited_files,
    error_span,
    lasting_errors,
    told_by_call,
    was_refused,
)

from .conversations import Turn, bullets, commit, conversation, edited, question, refused, summary, title, told


def telling(call: Turn) -> list[Told]:
    """What a call tells; its span holds the words."""
    [event] = conversation(call)
    found = list(told_by_call(event))
    assert all(0 <= one.start < one.end <= len(event.text) for one in found)
    return found


def errors(*calls: str) -> list[str]:
    events = conversation(*(("tool", text) for text in calls))
    return [event.text[start:end] for event, start, end in lasting_errors(events)]


@pytest.mark.parametrize(
    ("text", "verb", "target"),
    [
        ("Edit: /home/ada/shop/cart.py\nok", "Edited", "cart.py"),
        ("apply_patch: src/cart.rs\nok", "Edited", "cart.rs"),
        ("Read: C:\\work\\cart.cs\nx", "Read", "cart.cs"),
        ("Bash: make all\nok", "Ran", "make all"),
        ("run_shell_command: make all\nok", "Ran", "make all"),
        ("Grep: total\n3 files", "Searched", "total"),
        ("WebFetch: a page\nx", "Fetched", "a page"),
        ("Telescope: moon\nx", "Used", "moon"),
    ],
)
def test_a_call_is_told_by_its_first_line(text: str, verb: str, target: str) -> None:
    [event] = conversation(("tool", text))
    call = call_of(event)
    assert call is not None
    assert (call.verb, call.target, call.failed) == (verb, target, False)


@pytest.mark.parametrize("text", ["", "  odd", "42", 'TodoWrite: {"todos": []}\nok', "日本語の結果", "\ud800"])
def test_what_is_no_call_tells_nothing(text: str) -> None:
    [event] = conversation(("tool", text))
    assert call_of(event) is None
    assert list(told_by_call(event)) == []


@pytest.mark.parametrize("output", ["Exit code 1\nboom", "Error: no such file", "Traceback (most recent", "fatal: no"])
def test_a_failed_command_is_known_by_how_its_output_begins(output: str) -> None:
    [event] = conversation(("tool", f"Bash: make\n{output}"))
    call = call_of(event)
    assert call is not None
    assert call.failed


def test_a_refused_call_is_known_by_what_the_client_says_of_it() -> None:
    events = conversation(refused(), edited("cart.py"))
    assert [was_refused(event) for event in events] == [True, False]
    assert telling(refused('Bash: git commit -m "Drop the old cart"')) == []


def test_a_commit_is_told_with_its_subject_and_hash() -> None:
    [one] = telling(commit("Round invoice totals once", "0eedba2"))
    assert (one.kind, one.source, one.text, one.name) == (
        Kind.COMMIT,
        Source.COMMIT,
        "Round invoice totals once",
        "0eedba2",
    )
    assert "Committed: Round invoice totals once (0eedba2)" in bullets(commit("Round invoice totals once", "0eedba2"))


def test_a_quiet_commit_is_told_by_its_message() -> None:
    quiet = "Bash: git add -A && git commit -q -F - <<'EOF'\nCommit message: Stream the nightly export\nIn chunks.\n\n"
    assert [(one.text, one.name) for one in telling(("tool", quiet))] == [("Stream the nightly export", "")]
    plain = "Bash: git commit -qm 'Stream the nightly export'\n"
    assert [one.text for one in telling(("tool", plain))] == ["Stream the nightly export"]


@pytest.mark.parametrize(
    "output",
    [
        "Exit code 1\nhusky - pre-commit hook exited with code 1",
        "Exit code 128\nfatal: not a git repository",
        "On branch main\nnothing to commit, working tree clean",
        "On branch main\nChanges not staged for commit:\n  modified: cart.py\nno changes added to commit",
    ],
)
def test_a_commit_that_did_not_land_is_not_told(output: str) -> None:
    turn = commit("Round invoice totals once", output=output)
    assert [one for one in telling(turn) if one.kind is Kind.COMMIT] == []
    assert "Committed" not in told(("user", "Commit the rounding of invoices."), turn)


@pytest.mark.parametrize(
    "command",
    [
        "cd /tmp/probe && git init -q && git commit -m 'first state of it'",
        "git -C /tmp/probe commit -m 'first state of it'",
        "cd $(mktemp -d) && git init && git commit --allow-empty -m 'first state of it'",
    ],
)
def test_a_commit_in_a_throwaway_repository_is_not_told(command: str) -> None:
    text = f"Bash: {command}\nCommit message: first state of it\n\n[main (root-commit) abcdef1] first state of it"
    assert [one for one in telling(("tool", text)) if one.kind is Kind.COMMIT] == []


def test_a_merge_commit_is_not_told() -> None:
    merged = "Bash: git merge feature\n[main abcdef1] Merge branch 'feature' into main"
    assert telling(("tool", merged)) == []


def test_a_pull_request_is_told_by_its_title() -> None:
    text = "Bash: gh pr create --title x\nPull request: Sign invoices with the key\nCloses #7\n\nhttps://example.org/9"
    assert [(one.kind, one.source, one.text) for one in telling(("tool", text))] == [
        (Kind.OUTCOME, Source.PULL_REQUEST, "Sign invoices with the key")
    ]


def test_an_accepted_plan_is_told_by_its_heading() -> None:
    below = "ExitPlanMode\nUser has approved your plan.\n\n## Approved Plan:\n# Plan: Offline forms of the app\n\n1. x"
    on_a_line = "ExitPlanMode: # Offline forms of the app ## Steps 1. Cache the forms\nok"
    for text in (below, on_a_line):
        assert [(one.source, one.text) for one in telling(("tool", text))] == [
            (Source.PLAN, "Offline forms of the app")
        ]


def test_a_plan_without_a_heading_tells_nothing() -> None:
    assert telling(("tool", "ExitPlanMode\nCache the forms, then queue the uploads.")) == []


def test_files_are_edited_by_calls_that_were_neither_refused_nor_failed() -> None:
    failed: Turn = ("tool", "Edit: /home/ada/shop/tax.py\nError: no such text", {"failed": True})
    events = conversation(edited("cart.py"), edited("cart.py"), edited("menu.py"), refused(), failed)
    assert list(edited_files(events)) == ["cart.py", "menu.py"]


def test_no_title_begins_with_the_arrow_of_an_answer() -> None:
    assert not title(question("Which database is it?", "Postgres 17 on our own machine", "MySQL")).startswith("→")


def test_each_question_is_told_with_its_answer_and_note_and_without_what_was_not_chosen() -> None:
    [one] = telling(question("Which bus does the sensor use?", "SPI — 10 MHz, four wires", "I2C", "CAN"))
    assert (one.kind, one.source) == (Kind.DECISION, Source.ANSWER)
    assert one.text == "Which bus does the sensor use? → SPI — 10 MHz, four wires"
    text = (
        "AskUserQuestion: Which bus?\nQuestion: Which bus does it use?\nChosen: SPI\nNot chosen: I2C\n"
        "Question: Which pin wakes it up?\nChosen: PA0; PA1\nNot chosen: PB3\nNote: PA1 only on board B"
    )
    assert [one.text for one in telling(("tool", text))] == [
        "Which bus does it use? → SPI",
        "Which pin wakes it up? → PA0; PA1",
        "Which pin wakes it up? → PA1 only on board B",
    ]


def test_to_dos_are_told_by_their_last_state() -> None:
    lists = [
        "TodoWrite: 2 to-dos\n[~] Write the CAN driver\n[ ] Test it on the bench",
        "TodoWrite: 2 to-dos\n[x] Write the CAN driver\n[~] Test it on the bench",
    ]
    assert [(one.kind, one.text) for one in telling(("tool", lists[1]))] == [
        (Kind.STEP, "Write the CAN driver"),
        (Kind.PLANNED, "Test it on the bench"),
    ]
    shown = bullets(*(("tool", text) for text in lists))
    assert [text for text in shown if "CAN driver" in text] == ["Write the CAN driver"]


def test_to_dos_are_open_where_the_session_ends_and_not_where_it_goes_on() -> None:
    turns: list[Turn] = [
        ("user", "Build the release."),
        ("tool", "TodoWrite: 2 to-dos\n[x] Write the changelog\n[ ] Publish the images to the registry"),
        ("assistant", "The changelog is written and the version is 2.4.0."),
    ]
    assert "Open: Publish the images to the registry" in bullets(*turns)
    helper: Turn = ("tool", "Task: Read the changelog once more\nIt is fine.")
    assert "Open: Publish the images to the registry" in bullets(*turns[:2], helper, *turns[2:])
    going_on: list[Turn] = [("user", "Sign the changelog too, with the key of the team.")]
    assert "Open: " not in "\n".join(bullets(*turns, after=going_on))


def test_a_run_of_tests_is_told_by_the_line_that_sums_it_up() -> None:
    text = "Bash: pytest tests/test_cart.py\ntests/test_cart.py ..F\n== 1 failed, 311 passed in 8.20s ==\n"
    assert [(one.kind, one.text) for one in telling(("tool", text))] == [(Kind.RESULT, "1 failed, 311 passed in 8.20s")]


def test_of_several_runs_of_tests_the_last_is_told() -> None:
    shown = told(
        ("user", "Make the cart tests pass."),
        ("tool", "Bash: pytest tests | tail -1\n4 failed, 8 passed in 2.10s"),
        edited("cart.py"),
        ("tool", "Bash: pytest tests | tail -1\n12 passed in 2.00s"),
    )
    assert "4 failed" not in shown
    assert "12 passed in 2.00s" in shown


def test_tests_that_fail_in_the_end_are_not_told_as_passing() -> None:
    shown = told(
        ("user", "Speed up the cart."),
        ("tool", "Bash: pytest tests\n12 passed in 2.00s"),
        edited("cart.py"),
        ("tool", "Bash: pytest tests\nExit code 1\nE  KeyError: 'vat'\n1 failed, 11 passed in 1.10s"),
    )
    assert "12 passed" not in shown
    assert "1 failed, 11 passed in 1.10s" in shown


FAILED = "Bash: cd /srv && make check SUITE=cart\nExit code 2\nerror: undefined symbol `total` in cart.c"


def test_an_error_that_stayed_is_told_and_one_that_was_mended_is_not() -> None:
    assert errors(FAILED) == ["error: undefined symbol `total` in cart.c"]
    assert errors(FAILED, "Bash: make check SUITE=cart\nok") == []
    assert errors("Bash: make check\nok", FAILED) == ["error: undefined symbol `total` in cart.c"]
    asked = ("user", "Build the cart suite.")
    assert "Error: " in told(asked, ("tool", FAILED))
    assert "Error: " not in told(asked, ("tool", FAILED), ("tool", "Bash: make check\nok"))


def test_the_same_command_fails_once() -> None:
    again = FAILED.replace("`total`", "`sum`")
    assert errors(FAILED, again) == ["error: undefined symbol `sum` in cart.c"]


def test_an_error_of_a_refused_command_is_none() -> None:
    events = conversation(("tool", FAILED, {"refused": True}))
    assert lasting_errors(events) == []


@pytest.mark.parametrize(
    ("output", "named"),
    [
        (
            "Exit code 2\nERR_MODULE_GONE: the ledger shard is locked\nmore",
            "ERR_MODULE_GONE: the ledger shard is locked",
        ),
        ("Exit code 1\nlisten EADDRINUSE: address in use :::3000", "listen EADDRINUSE: address in use :::3000"),
        ("It runs EVERY day and EVERYWHERE.", None),
        ("Exit code 1\nError: process exited with exit code 1", None),
        (
            "error=\n    │ line 31: field retry not found in type Notarize",
            "line 31: field retry not found in type Notarize",
        ),
        (
            'Traceback (most recent call last):\n  File "/db.py", line 4\npsycopg.OperationalError: port 5433 refused',
            "psycopg.OperationalError: port 5433 refused",
        ),
        ("2026-01-06T10:00:00Z panic: index out of range in mixer", "panic: index out of range in mixer"),
    ],
)
def test_the_line_that_names_the_error_is_found(output: str, named: str | None) -> None:
    text = f"Bash: make\n{output}"
    span = error_span(text, 10)
    assert (text[span[0] : span[1]] if span else None) == named


def test_an_error_is_not_read_from_the_torn_beginning_of_a_line() -> None:
    filler = "all is well here\n" * 400
    torn = "x" * 1_950 + " error: only the end of this line is looked at, which would mislead"
    assert error_span(f"Bash: make\n{filler}{torn}\nError: undefined name `total`\n", 10) is not None
    assert error_span(f"Bash: make\n{filler}{torn}\n{'y' * 60}", 10) is None
    assert error_span("Bash: make", 10) is None


def test_a_huge_output_is_cited_briefly_and_exactly() -> None:
    lines = "\n".join(f"line {number} of a very long tool output ✓" for number in range(2_000))
    text = f"Bash: make all\nExit code 2\n{lines}\nerror: undefined symbol `frobnicate` in core.c\n"
    assert len(text) > 64_000
    found = summary(("user", "Build everything."), ("tool", text))
    [error] = [bullet for bullet in found.bullets if bullet.kind is Kind.ERROR]
    assert error.shown == "Error: undefined symbol `frobnicate` in core.c"
    assert text[error.evidence[0].start : error.evidence[0].end].endswith(error.text)
