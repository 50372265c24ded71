"""ULIDs from a time and 80 given bits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.events import KEY_BYTES, parse_ulid, ulid
from mcp_memory.errors import BadId

TIMES = st.integers(0, (1 << 48) - 1)
KEYS = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)


@given(TIMES, KEYS)
def test_a_ulid_gives_back_its_time_and_its_key(timestamp_ms: int, key: bytes) -> None:
    assert parse_ulid(ulid(timestamp_ms, key)) == (timestamp_ms, key)


@given(TIMES, TIMES, KEYS, KEYS)
def test_ulids_sort_by_time(earlier: int, later: int, one: bytes, other: bytes) -> None:
    if earlier != later:
        assert (ulid(earlier, one) < ulid(later, other)) is (earlier < later)


def test_a_known_time_gives_the_known_first_ten_characters() -> None:
    assert ulid(1_469_918_176_385, bytes(KEY_BYTES)) == "01ARYZ6S410000000000000000"


@pytest.mark.parametrize(("given_ms", "kept_ms"), [(-1, 0), (1 << 60, (1 << 48) - 1)])
def test_times_beyond_a_ulid_are_clamped(given_ms: int, kept_ms: int) -> None:
    assert parse_ulid(ulid(given_ms, bytes(KEY_BYTES)))[0] == kept_ms


@given(TIMES, KEYS)
def test_case_and_lookalike_letters_are_forgiven(timestamp_ms: int, key: bytes) -> None:
    text = ulid(timestamp_ms, key)
    assert parse_ulid(text.lower()) == (timestamp_ms, key)
    lookalike = text[0] + text[1:].replace("1", "l").replace("0", "O")
    assert parse_ulid(lookalike) == (timestamp_ms, key)


@pytest.mark.parametrize(
    "text",
    ["", "01HN4QXKN6", "01HN4QXKN6YWXVKZ3JMHP4BCDE0", "81HN4QXKN6YWXVKZ3JMHP4BCDE", "01HN4QXKN6YWXVKZ3JMHP4BCDU",
     "01HN4QXKN6 WXVKZ3JMHP4BCDE", "0ß00000000000000000000000Z", "0٣00000000000000000000000Z"],
)  # fmt: skip
def test_what_is_no_ulid_is_refused(text: str) -> None:
    with pytest.raises(BadId, match="is not a ULID"):
        parse_ulid(text)


@given(st.text(min_size=26, max_size=26))
def test_any_text_is_a_ulid_or_a_bad_id(text: str) -> None:
    try:
        timestamp_ms, key = parse_ulid(text)
    except BadId:
        return
    assert 0 <= timestamp_ms < 1 << 48
    assert len(key) == KEY_BYTES
