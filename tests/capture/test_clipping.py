from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mcp_memory.capture.clipping import clean, clip

any_text = st.text(st.characters(exclude_categories=()), max_size=400)


@given(any_text, st.integers(0, 600))
@example("😀" * 100, 59)
@example("é\n" * 300, 301)
def test_clipped_text_is_never_over_the_limit(text: str, limit: int) -> None:
    clipped, cut = clip(text, limit)
    assert len(clipped.encode("utf-8")) <= limit
    assert cut == (clipped != clean(text))


@given(any_text, st.integers(0, 600))
def test_clipping_twice_changes_nothing(text: str, limit: int) -> None:
    once, _ = clip(text, limit)
    assert clip(once, limit) == (once, False)


@given(any_text)
def test_clean_text_is_valid_and_keeps_what_was(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert "\0" not in cleaned
    if "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text):
        assert cleaned == text


def test_halves_of_a_pair_are_joined_and_lone_ones_replaced() -> None:
    assert clean("\ud83d\ude00 \ud83d \ude00\x00") == "😀 \ufffd \ufffd\ufffd"


def test_middle_is_cut_out_and_counted() -> None:
    text = "a" * 1000 + "b" * 1000
    clipped, cut = clip(text, 300)
    head, mark, tail = clipped.partition("\n[… ")
    assert cut
    assert set(head) == {"a"}
    number, _, rest = (mark + tail).removeprefix("\n[… ").partition(" bytes cut …]\n")
    assert int(number) == 2000 - len(head) - len(rest)
    assert set(rest) == {"b"}


def test_cut_is_made_between_lines_if_one_ends_near() -> None:
    lines = [f"line {number:04d}" for number in range(500)]
    clipped, _ = clip("\n".join(lines), 1000)
    assert all(line in lines or line.startswith("[… ") for line in clipped.splitlines())


def test_text_that_fits_is_left_alone() -> None:
    assert clip("é" * 50, 100) == ("é" * 50, False)
