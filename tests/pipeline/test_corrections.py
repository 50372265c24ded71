"""What a user sets right after a segment has been summarized: the segment and its periods are told anew without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.nodes import Node, NodeQuery, parse_grip_id
from mcp_memory.domain.toc import Level
from tests.support import learn, memory, said

pytestmark = pytest.mark.anyio
DAY = "2026-03-02"
CLAIM = "The export drops invoices because `filter_dates()` compares local dates with UTC."
WRONG = "local dates with UTC"
CORRECTION = "no, filter_dates() is right, the invoices are dropped by the retention job at night"


def line(at: str, role: str, text: str, **more: Any) -> dict[str, Any]:
    return said(text, f"{DAY}T{at}Z", role=role, **more)


TALK = [
    line("09:00:00", "user", "Find out why the export of the shop drops invoices."),
    line("09:01:00", "tool", "Read: shop/export.py\ndef filter_dates(rows): ..."),
    line("09:02:00", "assistant", CLAIM),
]


async def nodes(app: App, level: Level) -> list[Node]:
    return await app.store.nodes(NodeQuery(None, level=level))


async def segments(app: App) -> list[Node]:
    return await nodes(app, Level.SEGMENT)


def shown(found: Node) -> str:
    return "\n".join([found.title, *(bullet.text for bullet in found.bullets)])


@pytest.mark.parametrize("at", ["10:00:00", "23:00:00"])
async def test_a_correction_after_a_pause_takes_the_claim_out_of_what_was_told_before(tmp_path: Path, at: str) -> None:
    async with memory(tmp_path) as app:
        await learn(app, TALK)
        [before] = await segments(app)
        assert WRONG in shown(before)
        await learn(app, [line(at, "user", CORRECTION)])
        first, second = await segments(app)
        assert first.node_id == before.node_id
        assert first.version == before.version + 1
        assert WRONG not in shown(first)
        assert "retention job" not in shown(first)
        assert "retention job" in shown(second)
        for level in (Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR):
            [period] = await nodes(app, level)
            assert WRONG not in shown(period)


async def test_what_an_assistant_admits_later_takes_its_claim_out(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, TALK)
        await learn(
            app,
            [
                line("10:00:00", "user", "the invoices are gone from the table itself, filter_dates() never sees them"),
                line("10:01:00", "assistant", "You're right, filter_dates() compares no local dates with UTC at all."),
            ],
        )
        first, _ = await segments(app)
        assert WRONG not in shown(first)


async def test_words_that_correct_nothing_leave_what_was_told_as_it_is(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, TALK)
        [before] = await segments(app)
        await learn(app, [line("10:00:00", "user", "Now add the name of the customer to each line of the export.")])
        first, _ = await segments(app)
        assert first == before


async def test_a_contradiction_long_after_speaks_of_something_else(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, TALK)
        [before] = await segments(app)
        further = [
            line(f"1{number}:00:00", "user", f"Add column {number} of the customer to each line of the export.")
            for number in range(3)
        ]
        await learn(app, further)
        await learn(app, [line("14:00:00", "user", CORRECTION)])
        first, *_ = await segments(app)
        assert first == before


async def test_a_correction_of_another_session_changes_nothing(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, TALK)
        [before] = await segments(app)
        await learn(app, [line("10:00:00", "user", CORRECTION, session="s2")])
        assert before in await segments(app)


@pytest.mark.usefixtures("engine")
async def test_told_at_once_or_bit_by_bit_the_tree_is_the_same(tmp_path: Path) -> None:
    whole = [*TALK, line("10:00:00", "user", CORRECTION), line("10:01:00", "assistant", "The job runs at two o'clock.")]
    told = []
    for name, portions in {"at once": [whole], "bit by bit": [[one] for one in whole]}.items():
        async with memory(tmp_path / name) as app:
            for portion in portions:
                await learn(app, portion)
            told.append([shown(one) for level in Level for one in await nodes(app, level)])
    assert told[0] == told[1]


async def test_a_correction_that_arrives_first_is_heeded_when_the_rest_comes(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [line("10:00:00", "user", CORRECTION)])
        await learn(app, TALK)
        first, _ = await segments(app)
        assert WRONG not in shown(first)


async def test_grips_of_a_segment_lead_only_into_it(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*TALK, line("10:00:00", "user", CORRECTION)])
        first, _ = await segments(app)
        for bullet in first.bullets:
            for grip in bullet.grip_ids:
                record = await app.store.grip(parse_grip_id(grip)[1], 0, 0)
                assert record is not None
                assert {one.timestamp_ms for one in record.events} <= set(range(first.start_ms, first.end_ms + 1))
