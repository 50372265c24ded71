"""What is stored of what a client told."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from mcp_memory.domain.events import TIMES, Captured, EventType, Role
from mcp_memory.errors import StoreCorrupt
from mcp_memory.pipeline.prepare import Intaker
from mcp_memory.store.sqlite.database import explain
from tests.support import learn, memory, said

pytestmark = pytest.mark.anyio


async def test_numbers_that_json_cannot_hold_are_null_and_stop_nothing(tmp_path: Path) -> None:
    odd = {"model": "m", "n": math.inf, "list": [math.nan, 1.5], "deep": {"x": -math.inf}}
    async with memory(tmp_path) as app:
        await learn(app, [said("Some words.", "2026-03-01T10:11:00Z", role="assistant", metadata=odd)])
        stored = await app.database.value("SELECT metadata FROM event")
        assert json.loads(stored)["list"] == [None, 1.5]
        assert await app.database.value("SELECT json_valid(metadata) FROM event") == 1
        assert (await app.library.counts()).nodes == 5


def test_only_a_damaged_file_is_called_damaged(tmp_path: Path) -> None:
    import sqlite3

    assert isinstance(explain(sqlite3.DatabaseError("database disk image is malformed"), tmp_path), StoreCorrupt)
    assert not isinstance(explain(sqlite3.OperationalError("malformed JSON"), tmp_path), StoreCorrupt)


def test_a_time_that_no_calendar_holds_is_brought_into_one() -> None:
    given = Captured("cursor", "s1", "k1", 10**17, EventType.USER_MESSAGE, Role.USER, "Mend it.")
    [event] = Intaker(1_000, 1_000, lambda texts: [1 for _ in texts]).prepare([given])
    assert event.timestamp_ms == TIMES.stop - 1
