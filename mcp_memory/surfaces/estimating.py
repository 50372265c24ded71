"""`process --dry-run`: what a model would be asked for all that waits. Nothing is asked and nothing is written."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from mcp_memory.app import App, rules_of
from mcp_memory.config import SummarizerSettings
from mcp_memory.domain.nodes import THRESHOLDS, Depth, depth_of
from mcp_memory.domain.segments import cut
from mcp_memory.domain.toc import Level, NodeRef, day_ref
from mcp_memory.models.tokens import CHUNK_TOKENS, OVERLAP_TOKENS
from mcp_memory.pipeline.compact import PART_TOKENS
from mcp_memory.pipeline.rollup import is_open_at
from mcp_memory.store.sqlite.ledger import SqliteUpgrades

#: What goes with each text: the rules, the form of the answer, and the context before a segment.
_FRAME_TOKENS = 750
_SEGMENT_ANSWER, _PERIOD_ANSWER = 350, 550
#: About how long a node is for the one above it.
_NODE_TOKENS = 130
_EVERYTHING = 1_000_000
#: What a question for a session's record carries of the record so far, and about how long the answer is.
_RECORD_TOKENS, _RECORD_ANSWER = 800, 500

Planned = list[tuple[Level, int]]


class Cost(NamedTuple):
    """What is asked of a model: how often, and in how many tokens."""

    calls: int
    input_tokens: int
    output_tokens: int


async def estimate(app: App) -> dict[str, Any]:
    """Calls, tokens and costs; of what is not in the tree yet, as it would be cut now; of records, those there are."""
    chosen = app.settings.summarizer
    planned = await _planned(app) if chosen.kind != "extractive" else []
    records = await app.upgrades.records.waiting(_EVERYTHING) if app.upgrades and app.upgrades.records else []
    most = chosen.max_output_tokens
    costs = [_of_node(level, size, most) for level, size in planned]
    costs += [_of_record(rewrite.tokens, most) for rewrite in records]
    calls, input_tokens, output_tokens = (sum(cost[part] for cost in costs) for part in range(3))
    tokens = input_tokens + output_tokens
    counts = await app.library.counts()
    return {
        "dry_run": True,
        "summarizer": chosen.kind,
        "model": chosen.preferred[0] if chosen.preferred else None,
        "nodes": len(planned),
        "records": len(records),
        "calls": calls,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cost": _dollars(chosen, input_tokens, output_tokens) if calls else 0.0,
        "days": -(-tokens // chosen.daily_token_cap) if chosen.daily_token_cap else None,
        "inbox": counts.inbox,
    }


def _of_node(level: Level, size: int, most: int) -> Cost:
    calls = _calls(size)
    answer = _SEGMENT_ANSWER if level is Level.SEGMENT else _PERIOD_ANSWER
    return Cost(calls, size + calls * _FRAME_TOKENS, calls * min(answer, most))


def _of_record(size: int, most: int) -> Cost:
    calls = _record_calls(size)
    return Cost(calls, size + calls * (_FRAME_TOKENS + _RECORD_TOKENS), calls * min(_RECORD_ANSWER, most))


def _dollars(chosen: SummarizerSettings, input_tokens: int, output_tokens: int) -> float | None:
    """What the first of the models costs whose price is known."""
    price = next((chosen.price_table[name] for name in chosen.preferred if name in chosen.price_table), None)
    return round((input_tokens * price[0] + output_tokens * price[1]) / 1_000_000, 4) if price else None


async def _planned(app: App) -> Planned:
    """Level and length of every text that would be sent."""
    store = SqliteUpgrades(app.database)
    fresh = await _uncut(app, store) + await store.unsummarized()
    planned = await store.backlog(app.clock.now_ms())
    planned += [(Level.SEGMENT, tokens) for _, _, tokens in fresh]
    planned += _periods(app, [(project, start_ms) for project, start_ms, _ in fresh])
    return [(level, size) for level, size in planned if size >= THRESHOLDS[Depth.NONE]]


async def _uncut(app: App, store: SqliteUpgrades) -> list[tuple[int, int, int]]:
    """Project, start and tokens of the finished segments into which the sessions that changed would be cut."""
    rules, now_ms = rules_of(app.settings), app.clock.now_ms()
    project_of = await store.project_of_sessions()
    found = []
    for cutting in await app.pipeline.segments.dirty(_EVERYTHING, rules.overlap_ms):
        for piece in cut(cutting.marks, rules, now_ms, cutting.start):
            own = cutting.marks[piece.first : piece.last]
            if piece.closed:
                found.append((project_of[cutting.session], own[0].timestamp_ms, sum(mark.tokens for mark in own)))
    return found


def _periods(app: App, segments: list[tuple[int, int]]) -> Planned:
    """The closed periods above new segments, and about how long their children will be."""
    layer: dict[tuple[int, NodeRef], int] = defaultdict(int)
    for project, start_ms in segments:
        layer[project, day_ref(start_ms, app.zone)] += 1
    planned: Planned = []
    while layer:
        above: dict[tuple[int, NodeRef], int] = defaultdict(int)
        for (project, ref), children in layer.items():
            if not is_open_at(ref, app.zone, app.clock.now_ms()):
                planned.append((ref.level, children * _NODE_TOKENS))
            if ref.parent:
                above[project, ref.parent] += 1
        layer = above
    return planned


def _calls(size: int) -> int:
    """How many questions a text of so many tokens takes."""
    depth = depth_of(size)
    if depth in (Depth.NONE, Depth.BRIEF, Depth.STANDARD):
        return 1
    chunks = -(-size // (CHUNK_TOKENS - OVERLAP_TOKENS))
    return chunks + 1 + (-(-chunks // 5) if depth is Depth.HIERARCHICAL else 0)


def _record_calls(size: int) -> int:
    """One for each part, and one for the account of several."""
    parts = -(-size // PART_TOKENS)
    return parts + (parts > 1)
