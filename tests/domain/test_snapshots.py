"""A snapshot names a place and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.toc import Position, decode, encode
from mcp_memory.errors import BadId

NUMBER = st.integers(0, (1 << 48) - 1)


@given(NUMBER, NUMBER, NUMBER)
def test_a_snapshot_is_read_back_as_it_was_written(versions: int, events: int, records: int) -> None:
    position = Position(versions, events, records)
    assert decode(encode(position)) == position
    assert decode(f" {encode(position).upper()} ") == position


@pytest.mark.parametrize(
    "text", ["", "snap:", "snap:abc", "yesterday", "snap:1.2.3.0000", encode(Position(1, 2, 3))[:-1]]
)
def test_what_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(BadId, match="snapshot"):
        decode(text)
