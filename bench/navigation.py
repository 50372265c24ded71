"""Whether reading one place of the tree stays as fast when the history around it is a hundred times longer."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import anyio

from bench.histories import PROJECTS, database_of, invented, node_ids, opened
from bench.measure import Ask, Figure, against, in_turn
from mcp_memory.app import App
from mcp_memory.domain.nodes import grip_id
from mcp_memory.domain.toc import Level

SMALL, LARGE = 1_000, 100_000
ROUNDS = 60
#: Each question counts by its fastest try, taken in turn: flat is a claim about the work, not about cold pages.
TRIES = 5
#: A ratio that counts as flat: the large memory's pages are fuller, and the machine is never quite still.
FLAT = 1.5


def run(scratch: Path, *, large: bool) -> list[Figure]:
    return anyio.run(_run, scratch)


async def _run(scratch: Path) -> list[Figure]:
    async with AsyncExitStack() as stack:
        asked = {}
        for size in (SMALL, LARGE):
            print(f"   building {size:,} events", flush=True)
            app = await stack.enter_async_context(opened(await invented(scratch, size), project=PROJECTS[0]))
            asked[size] = await _questions(app)
        return [await _flatness(name, asked[SMALL][name], asked[LARGE][name]) for name in asked[SMALL]]


async def _questions(app: App) -> Mapping[str, list[Ask]]:
    """What is asked of each memory: places spread over all of it, drawn with a fixed seed."""
    rng = random.Random(3)
    answers = app.answers
    asked: dict[str, list[Ask]] = {}
    for level in reversed(Level):
        ids = rng.choices(await node_ids(app, level), k=ROUNDS)
        asked[f"get_node of a {level.label}"] = [
            partial(answers.get_node, node_id, None, None, 600, None) for node_id in ids
        ]
    grips = await database_of(app).fetch("SELECT timestamp_ms, key FROM grip WHERE live = 1")
    asked["expand_grip"] = [
        partial(answers.expand_grip, grip_id(*row), 2, 2, 500) for row in rng.choices(grips, k=ROUNDS)
    ]
    asked["toc_root"] = [partial(answers.toc_root, None, None, 600)] * ROUNDS
    return asked


async def _flatness(name: str, small: list[Ask], large: list[Ask]) -> Figure:
    few, many = await in_turn(zip(small, large, strict=True), TRIES)
    return against(f"{name}, {LARGE:,} to {SMALL:,} events", many, few, FLAT)
