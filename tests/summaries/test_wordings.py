"""The wordings by which sentences are told apart, each tried only where its word stands."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.text import strip_markup
from mcp_memory.summaries.cues import (
    IMPERATIVES,
    Cue,
    PlainWording,
    assistant_kind,
    gives_figures,
    opens_with_task,
    user_kind,
    words_of,
)
from mcp_memory.summaries.messages import is_clean, without_places


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("The empty invoices came from a stale price list.", Kind.CAUSE),
        ("What broke the upload was a renamed header.", Kind.CAUSE),
        ("We ruled out MongoDB for the ledger.", Kind.DECISION),
        ("Both hooks ran, so we kept only the second.", Kind.DECISION),
        ("I bumped the minimum version of the client.", Kind.OUTCOME),
        ("The exporter now rejects rows without a date.", Kind.OUTCOME),
        ("The import of refunds is tracked as SHOP-812.", Kind.OPEN),
        ("The old column may go as soon as the report is switched.", Kind.OPEN),
        ("Prices must be stored in cents.", Kind.RULE),
        ("A voucher can be used only once, and only in the shop that sold it, by hand.", Kind.RULE),
        ("The login page is flaky on Safari.", Kind.FINDING),
        ("The nightly job takes 14 minutes.", Kind.FIGURE),
        ("The sandbox listens on port 8643.", Kind.FIGURE),
        ("The parser hands its tree to the printer.", Kind.STATED),
        ("I read the parser and the printer.", Kind.STATED),
        ("Let me look at the printer first.", Kind.PLANNED),
    ],
)
def test_an_assistants_sentence_is_told_by_its_wording(sentence: str, kind: Kind) -> None:
    assert assistant_kind(sentence) is kind


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("The Porto office must not see salaries.", Kind.RULE),
        ("I always mix up the two.", Kind.SAID),
        ("It crashes on every second start.", Kind.REPORT),
        ("Rename it. then update the docs", Kind.REQUEST),
        ("ok, go ahead", Kind.NOISE),
    ],
)
def test_a_users_sentence_is_told_by_its_wording(sentence: str, kind: Kind) -> None:
    assert user_kind(sentence) is kind


def test_a_word_alone_is_enough_only_where_no_expression_is_given() -> None:
    cue = Cue(["because", r"led come :: \b(?:led to|come from)\b"])
    said = {
        "it stopped because of that": True,
        "this led to that": True,
        "he led the way": False,
        "they come from": True,
        "becauses": False,
        "because_of": False,
    }
    assert {text: cue.fits(text, words_of(text)) for text in said} == said


@given(st.text(alphabet="ab A.,`\"'(_*<~|/:w]\\-#1\n\t ", max_size=40))
def test_a_clean_line_is_one_that_cleaning_leaves_alone(raw: str) -> None:
    if is_clean(raw):
        assert " ".join(without_places(strip_markup(raw)).split()) == raw


@given(st.text(alphabet="led to_-1,é", max_size=30))
def test_a_phrase_stands_where_an_expression_would_find_it(low: str) -> None:
    assert PlainWording("led to").search(low) is (re.search(r"\bled to\b", low) is not None)


@given(st.text(alphabet="addo n'tx-_1é", max_size=8))
def test_a_task_is_told_by_its_first_word(low: str) -> None:
    plainly = re.compile(rf"(?:{'|'.join(sorted(IMPERATIVES))})\b")
    assert opens_with_task(low) is (plainly.match(low) is not None)


@pytest.mark.parametrize(
    "sentence",
    [
        "It takes 14 ms",
        "It costs $5 percent",
        "Up to ~ 3.5 GB of memory",
        "about 30%",
        "since v1.2",
        "with 3.11.7 only",
        "on port 80",
        "a rate of 0.5",
        "from `5s` to `6s`",
        "on 2026-11-02",
        "on November 2",
        "the 3rd of May",
    ],
)
def test_a_number_that_one_would_look_up_is_a_figure(sentence: str) -> None:
    assert gives_figures(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "no number at all, in ms",
        "line 14 of it",
        "config.go:12 ms",
        "build-5 days",
        "x10.5",
        "issue #3 hours",
        "may 10.5.",
        "10 ms(x)",
        "A2026-11-02",
    ],
)
def test_any_other_number_is_none(sentence: str) -> None:
    assert not gives_figures(sentence)
