"""What a model can hold, by its name."""

from __future__ import annotations

import pytest

from mcp_memory.domain.compaction import DEFAULT, at_least, context_length, parse_table


@pytest.mark.parametrize(
    ("model", "length"),
    [
        ("claude-opus-4-5-20251101", 200_000),
        ("claude-sonnet-4-5[1m]", 1_000_000),
        ("gpt-4", 8_192),
        ("gpt-4o-mini", 128_000),
        ("gpt-4-32k-0613", 32_768),
        ("o1-preview", 200_000),
        ("TheBloke/TinyLlama-1.1B", 2_048),
        ("microsoft/phi-2", 2_048),
        ("meta-llama/Llama-3.1-8B", 131_072),
        ("meta-llama/Llama-3-8B", 8_192),
        ("demo1", DEFAULT),
        ("", DEFAULT),
    ],
)
def test_the_longest_known_name_decides(model: str, length: int) -> None:
    assert context_length(model) == length


def test_the_users_table_wins() -> None:
    assert context_length("claude-opus", {"opus": 1_000}) == 1_000


@pytest.mark.parametrize(("used", "window"), [(10, 100), (100, 100), (250_000, 400_000), (99_000_000, 99_000_000)])
def test_a_window_holds_what_was_sent(used: int, window: int) -> None:
    assert at_least(100, used) == window


def test_a_table_is_read_from_text() -> None:
    assert parse_table("a=2048, b/c:7b = 4096") == {"a": 2_048, "b/c:7b": 4_096}
    assert parse_table("") == {}


@pytest.mark.parametrize("text", ["a", "a=", "=2048", "a=many", "a=12"])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_table(text)
