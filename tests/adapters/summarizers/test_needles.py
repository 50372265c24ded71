"""How much survives: forty facts hidden in long conversations, counted at every level of the tree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.toc import Level
from tests.adapters.summarizers.models.scripted import Asked, scripted
from tests.adapters.summarizers.needles import FACTS, sessions
from tests.pipeline.test_upgrade import opened, settle
from tests.support import StoppedClock, learn, memory

pytestmark = pytest.mark.anyio
NEEDLES = [fact.needle for fact in FACTS]
#: After the year has closed, so that every level is.
AFTERWARDS = "2027-06-01T00:00:00Z"


async def surviving(app: App) -> dict[str, int]:
    """How many needles stand in the bullets and keywords of each level."""
    found = {}
    for level in reversed(Level):
        nodes = await app.library.top(None, level, 10_000)
        told = "\n".join(
            text for node in nodes for text in [*(bullet.text for bullet in node.bullets), " ".join(node.keywords)]
        )
        found[level.label] = sum(needle in told for needle in NEEDLES)
    return found


async def test_the_extractive_summarizer_keeps_most_facts_at_segment_level(
    tmp_path: Path, record_property: Any
) -> None:
    async with memory(tmp_path, StoppedClock(AFTERWARDS)) as app:
        await learn(app, [line for session in sessions() for line in session])
        found = await surviving(app)
        segments = len(await app.library.top(None, Level.SEGMENT, 10_000))
    print(f"of {len(NEEDLES)} facts in {segments} segments: {found}")
    assert found["segment"] >= 0.6 * len(NEEDLES)
