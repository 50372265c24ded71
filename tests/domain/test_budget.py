"""Blocks into a budget: nothing over it, nothing twice, no room wasted, whatever the order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.budget import (
    ORDERS,
    SEPARATOR,
    Block,
    Kind,
    Tokenizer,
    arranged,
    assemble,
    cut,
    difference,
    joined,
    total,
    u_curve,
)
from mcp_memory.models import tokens

TOKENIZER = Tokenizer(tokens.count, tokens.cut_to)
KINDS: tuple[Kind, ...] = ("memo", "summary", "summary", "focus", "linked", "item")


def block(name: str, words: int = 5, kind: Kind = "item", version: int = 1) -> Block:
    text = f"{name}:" + " word" * words
    return Block(kind, name, version, text, tokens.count(text))


def of(text: str, number: int) -> Block:
    return Block(KINDS[number % len(KINDS)], f"b{number}", 1, text, tokens.count(text))


@pytest.mark.parametrize(
    ("many", "expected"),
    list(enumerate(["", "A", "AB", "ACB", "ACDB", "ACEDB", "ACEFDB", "ACEGFDB", "ACEGHFDB", "ACEGIHFDB"])),
)
def test_the_u_curve_puts_the_best_at_both_ends(many: int, expected: str) -> None:
    letters = "ABCDEFGHI"[:many]
    assert "".join(u_curve(letters)) == expected
    named = [block(letter) for letter in letters]
    assert "".join(one.anchor for one in arranged(named, "u-curve")) == expected
    assert arranged(named, "top-down") == named


TEXTS = st.lists(st.text(alphabet="ab .:)]\n-#é漢\t`*", min_size=1, max_size=60).filter(str.strip), max_size=12)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(1, 160))
def test_packing_keeps_its_promises(texts: list[str], budget: int) -> None:
    blocks = [of(text.strip(), number) for number, text in enumerate(texts)]
    chosen = {order: assemble(blocks, budget, TOKENIZER, order) for order in ORDERS}
    shown = chosen["top-down"]
    for order in ORDERS:
        assert tokens.count(joined(chosen[order])) <= budget
        assert total(chosen[order], TOKENIZER) <= budget
    assert chosen["u-curve"] == u_curve(shown)
    anchors = [one.anchor for one in shown]
    assert len(anchors) == len(set(anchors))
    assert [one.anchor for one in blocks if one.anchor in anchors] == anchors
    left = budget - total(shown, TOKENIZER)
    skipped = [one for one in blocks if one.anchor not in anchors]
    # A block that was passed over would not fit now, but for the token that joining may take.
    slack = tokens.count(SEPARATOR) + 1
    assert all(one.tokens + slack > left for one in skipped) or not shown


def test_an_oversized_block_is_passed_over_and_later_ones_still_fit() -> None:
    blocks = [block("memo", 10, "memo"), block("huge", 500, "summary"), block("focus", 10, "focus"), block("item", 10)]
    assert [one.anchor for one in assemble(blocks, 60, TOKENIZER)] == ["memo", "focus", "item"]


def test_the_focus_has_room_before_all_others() -> None:
    blocks = [block("memo", 30, "memo"), block("focus", 30, "focus")]
    assert [one.anchor for one in assemble(blocks, 40, TOKENIZER)] == ["focus"]


def test_the_most_important_block_is_cut_rather_than_dropped() -> None:
    blocks = [block("memo", 300, "memo"), block("focus", 300, "focus")]
    (shown,) = assemble(blocks, 25, TOKENIZER)
    assert shown.anchor == "focus"
    assert shown.text.startswith("focus: word")
    assert shown.text.endswith("…")
    assert shown.tokens == tokens.count(shown.text) <= 25


def test_without_room_for_a_word_there_is_nothing() -> None:
    assert assemble([block("focus", 300, "focus")], 1, TOKENIZER) == []
    assert assemble([], 100, TOKENIZER) == []
    assert cut(block("focus", 300), 0, TOKENIZER) is None


def test_a_block_that_comes_twice_is_shown_once_where_it_came_first() -> None:
    blocks = [block("a", kind="summary"), block("b"), block("a", 3)]
    assert assemble(blocks, 500, TOKENIZER) == blocks[:2]


def test_a_difference_names_what_is_new_changed_gone_and_kept() -> None:
    before = [block("same"), block("changed", 5, version=1), block("gone")]
    now = [block("same"), block("changed", 6, version=2), block("new")]
    found = difference(before, now)
    assert [one.anchor for one in found.added] == ["changed", "new"]
    assert found.removed == ("gone",)
    assert found.kept == ("same",)


def test_the_same_version_shown_whole_after_it_was_cut_is_sent_again() -> None:
    whole = block("a", 100)
    short = cut(whole, 20, TOKENIZER)
    assert short is not None
    assert difference([short], [whole]).added == (whole,)
