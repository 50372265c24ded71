"""What assembling a context costs beside reading a single node of the same memory, and whether it grows with it."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import anyio

from bench.histories import PROJECTS, database_of, invented, node_ids, opened
from bench.measure import Ask, Figure, against, in_turn
from mcp_memory.app import App
from mcp_memory.domain.nodes import grip_id
from mcp_memory.domain.toc import Level, Position, encode
from mcp_memory.navigate.context import ContextRequest

SIZE, LARGE = 100_000, 1_000_000
ROUNDS = 60
AIM = 3.0
#: Each counts by its fastest try, as in the benchmarks of search and navigation: by then its pages have been read.
TRIES = 3


def run(scratch: Path, *, large: bool) -> list[Figure]:
    return anyio.run(_run, scratch, LARGE if large else SIZE)


async def _run(scratch: Path, size: int) -> list[Figure]:
    print(f"   building {size:,} events", flush=True)
    async with opened(await invented(scratch, size), project=PROJECTS[0]) as app:
        base, asked = await _questions(app)
        return [await _ratio(f"{name} to get_node, {size:,} events", base, asks) for name, asks in asked.items()]


async def _questions(app: App) -> tuple[list[Ask], dict[str, list[Ask]]]:
    """One node to read, and contexts around places spread over all of the memory, drawn with a fixed seed."""
    rng = random.Random(5)
    places = {level: rng.choices(await node_ids(app, level), k=ROUNDS) for level in (Level.DAY, Level.SEGMENT)}
    rows = await database_of(app).fetch("SELECT timestamp_ms, key FROM grip WHERE live = 1 LIMIT 20000")
    grips = [grip_id(*row) for row in rng.choices(rows, k=ROUNDS)]
    base = [partial(app.answers.get_node, node_id, None, None, 600, None) for node_id in places[Level.DAY]]
    focuses = {"day": places[Level.DAY], "segment": places[Level.SEGMENT], "grip": grips}
    now = await app.store.position()
    # Of the last tenth: what lies before is read as it was then, as if it might have changed.
    snapshot = encode(Position(now.versions * 9 // 10, now.events * 9 // 10, now.records * 9 // 10))
    asked: dict[str, list[Ask]] = {
        f"context of a {name}": [partial(app.contexts.build, ContextRequest(focus=focus)) for focus in chosen]
        for name, chosen in focuses.items()
    }
    asked["changes of a day"] = [
        partial(app.contexts.build, ContextRequest(focus=focus, since=snapshot)) for focus in places[Level.DAY]
    ]
    return list(base), asked


async def _ratio(name: str, base: list[Ask], asks: list[Ask]) -> Figure:
    bare, ours = await in_turn(zip(base, asks, strict=True), TRIES)
    return against(name, ours, bare, AIM)
