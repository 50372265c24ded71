"""Blocks into a budget: nothing over it, nothing twice, no room wasted, whatever the order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.budget import (
    ORDERS,
    SEPARATOR,
    Block,
    Kind,
    Piece,
    Tokenizer,
    arranged,
    assemble,
    cut,
    difference,
    first_lines,
    in_parts,
    joined,
    pack,
    total,
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
    assert "".join(arranged(letters, "u-curve")) == expected
    named = [block(letter) for letter in letters]
    assert "".join(one.anchor for one in arranged(named, "u-curve")) == expected
    assert arranged(named, "top-down") == named


TEXTS = st.lists(st.text(alphabet="ab .:)]\n-#é漢\t`*", min_size=1, max_size=60).filter(str.strip), max_size=12)


@given(TEXTS, st.integers(1, 160))
def test_packing_keeps_its_promises(texts: list[str], budget: int) -> None:
    blocks = [of(text.strip(), number) for number, text in enumerate(texts)]
    chosen = {order: assemble(blocks, budget, TOKENIZER, order) for order in ORDERS}
    shown = chosen["top-down"]
    for order in ORDERS:
        assert tokens.count(joined(chosen[order])) <= budget
        assert total(chosen[order], TOKENIZER) <= budget
    assert chosen["u-curve"] == arranged(shown, "u-curve")
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


def test_room_goes_to_the_focus_then_notes_then_links_then_the_nearest_summaries() -> None:
    above = [block("year", 10, "summary"), block("month", 10, "summary"), block("week", 10, "summary")]
    blocks = [
        block("memo", 10, "memo"),
        *above,
        block("focus", 10, "focus"),
        block("linked", 10, "linked"),
        block("item", 10),
    ]
    room = {}
    for many in range(1, 8):
        shown = assemble(blocks, many * 14 - 1, TOKENIZER)
        assert [one for one in blocks if one in shown] == shown, "what is shown stays in the order of the table"
        room[many] = {one.anchor for one in shown}
    gained = [*(room[many] - room.get(many - 1, set()) for many in range(1, 8))]
    assert gained == [{"focus"}, {"memo"}, {"linked"}, {"item"}, {"week"}, {"month"}, {"year"}]


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
    added, removed, kept = difference(before, now)
    assert [one.anchor for one in added] == ["changed", "new"]
    assert removed == ("gone",)
    assert kept == ("same",)


def test_the_same_version_shown_whole_after_it_was_cut_is_sent_again() -> None:
    whole = block("a", 100)
    short = cut(whole, 20, TOKENIZER)
    assert short is not None
    assert difference([short], [whole])[0] == (whole,)


def test_a_piece_is_shown_in_the_first_of_its_forms_that_fits() -> None:
    pieces = [Piece(("a long form of it", "short")), Piece(("b",))]
    assert pack(pieces, 7, len) == {0: "short", 1: "b"}
    assert pack(pieces, 3, len) == {1: "b"}


def test_a_list_ends_with_the_first_of_it_that_does_not_fit_and_others_are_passed_over() -> None:
    pieces = [
        Piece(("one",), listed=True), Piece(("too long",), listed=True), Piece(("so",), listed=True), Piece(("by",)),
    ]  # fmt: skip
    assert pack(pieces, 7, len) == {0: "one", 3: "by"}


def test_a_lower_rank_is_given_its_room_earlier() -> None:
    assert list(pack([Piece(("last",), rank=2), Piece(("first",), rank=1)], 20, len)) == [1, 0]
    assert pack([Piece(("last",), rank=2), Piece(("first",), rank=1)], 5, len) == {1: "first"}


def test_lines_are_kept_within_tokens_and_characters_alike() -> None:
    lines = ["word " * 20] * 10
    kept = first_lines(lines, "around", 100, 10_000, tokens.count)
    assert 0 < len(kept) < 10
    assert tokens.count("around" + "".join(kept)) <= 100
    assert len(first_lines(lines, "around", 10_000, 250, tokens.count)) == 2
    assert first_lines(lines, "around", 1, 10_000, tokens.count) == []


def test_neighbours_are_parted_by_size_and_a_larger_one_stands_alone() -> None:
    assert in_parts([("a", 3), ("b", 3), ("c", 4), ("d", 99), ("e", 1)], 6) == [["a", "b"], ["c"], ["d"], ["e"]]
    assert in_parts([], 6) == []
