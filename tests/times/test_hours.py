"""Times of day, said on a Wednesday afternoon in Berlin."""

from __future__ import annotations

import pytest

from mcp_memory.errors import UnknownTimePhrase
from mcp_memory.times.resolve import resolve
from tests.times.test_resolve import BERLIN, NOW, bounds, local


@pytest.mark.parametrize(
    ("phrase", "start", "end"),
    [
        ("yesterday at 3pm", "2026-02-17T14:00", "2026-02-17T17:00"),
        ("around noon yesterday", "2026-02-17T11:00", "2026-02-17T14:00"),
        ("15:30 on February 3", "2026-02-03T14:00", "2026-02-03T17:00"),
        ("between 2pm and 4pm yesterday", "2026-02-17T14:00", "2026-02-17T16:00"),
        ("February 3rd in the evening", "2026-02-03T17:00", "2026-02-04T00:00"),
        ("12am on February 3", "2026-02-03T00:00", "2026-02-03T02:00"),
    ],
)
def test_a_time_of_day_is_taken_with_some_room(phrase: str, start: str, end: str) -> None:
    assert bounds(phrase) == (local(start), local(end))


@pytest.mark.parametrize(
    "phrase", ["25pm yesterday", "at 99:00 yesterday", "between 4pm and 2pm yesterday", "3pm last week"]
)
def test_hours_that_no_day_has_are_refused(phrase: str) -> None:
    with pytest.raises(UnknownTimePhrase):
        resolve(phrase, NOW, BERLIN)
