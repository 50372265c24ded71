"""How much survives: forty facts hidden in long conversations, counted at every level of the tree."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.toc import Level
from tests.models.scripted import Asked, scripted
from tests.pipeline.test_upgrade import opened, settle
from tests.summaries.further_needles import FURTHER
from tests.summaries.needles import BIRDS, FACTS, Haystack, sessions
from tests.support import StoppedClock, learn, memory

pytestmark = pytest.mark.anyio
NEEDLES = [fact.needle for fact in FACTS]
#: After the year has closed, so that every level is.
AFTERWARDS = "2027-06-01T00:00:00Z"
#: Of the facts, each said once among a hundred times as many words, so many must be found in segments and in days.
FLOOR, DAY_FLOOR = 0.6, 0.5


def report(line: str) -> None:
    """Shown by pytest -rP."""
    sys.stdout.write(line + "\n")


async def surviving(app: App, haystack: Haystack) -> dict[str, int]:
    """How many needles stand in the bullets and keywords of each level."""
    found = {}
    for level in reversed(Level):
        nodes = await app.store.nodes(NodeQuery.latest(None, level, 10_000))
        told = "\n".join(
            text for node in nodes for text in [*(bullet.shown for bullet in node.bullets), " ".join(node.keywords)]
        )
        found[level.label] = sum(fact.needle in told for fact in haystack.facts)
    return found


@pytest.mark.parametrize("haystack", [BIRDS, FURTHER], ids=lambda haystack: haystack.name)
async def test_the_extractive_summarizer_keeps_facts_at_segment_level(tmp_path: Path, haystack: Haystack) -> None:
    async with memory(tmp_path, StoppedClock(AFTERWARDS)) as app:
        await learn(app, [line for session in sessions(haystack) for line in session])
        found = await surviving(app, haystack)
        segments = len(await app.store.nodes(NodeQuery.latest(None, Level.SEGMENT, 10_000)))
    report(f"extractive, {haystack.name}: {len(haystack.facts)} facts in {segments} segments: {found}")
    assert found["segment"] >= FLOOR * len(haystack.facts)
    assert found["day"] >= DAY_FLOOR * len(haystack.facts)
    assert found["segment"] >= found["day"] >= found["month"] >= found["year"]


def perfect(asked: Asked) -> dict[str, Any]:
    """A model that finds every fact and cites it."""
    keywords = ["facts", "needles", "haystack"]
    bullets: list[Any]
    spare: Any
    if asked.form == "section":
        told = [fact for fact in FACTS if fact.needle in asked.material]
        bullets = [{"text": fact.text.replace("\n", " "), "quote": fact.text.split("\n")[-1]} for fact in told]
        spare = {"text": "The code of many modules was read, one after the other, without anything unusual. " * 3}
        return {"title": "Reading the code of many modules", "bullets": bullets or [spare], "keywords": keywords}
    points = re.findall(r"^\[(\d+)\] (.*)$", asked.material, re.M)
    found = {needle: [int(number) for number, text in points if needle in text] for needle in NEEDLES}
    there = [needle for needle in NEEDLES if found[needle]]
    size = -(-len(there) // 5)
    bullets = [
        {"text": "Facts: " + ", ".join(part), "sources": [number for needle in part for number in found[needle]]}
        for part in (there[at : at + size] for at in range(0, len(there), max(size, 1)))
    ]
    spare = {"text": "Code was read.", "sources": [1]}
    return {"title": "Many facts about many modules", "bullets": bullets or [spare], "keywords": keywords}


@pytest.mark.slow
async def test_a_perfect_model_loses_nothing_on_the_way_up(tmp_path: Path) -> None:
    with scripted(perfect) as model:
        async with opened(tmp_path, model, StoppedClock(AFTERWARDS)) as app:
            await learn(app, [line for session in sessions() for line in session])
            assert await settle(app) > 20
            found = await surviving(app, BIRDS)
            year = (await app.store.nodes(NodeQuery.latest(None, Level.YEAR, 1)))[0]
            cited = await app.store.cited_by([grip for bullet in year.bullets for grip in bullet.grip_ids])
    report(f"perfect model, {len(NEEDLES)} facts: {found}")
    assert found == dict.fromkeys(("segment", "day", "week", "month", "year"), len(NEEDLES))
    assert year.written_by == "openai:test-model"
    assert cited
    assert all(any(needle in event.text for needle in NEEDLES) for event in cited.values())
