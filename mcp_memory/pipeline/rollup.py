"""Fourth stage: roll segments up to days, days to weeks, weeks to months, months to years.

A period is rolled up when the hash of what lies beneath it changes, so a late event reaches exactly its ancestors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo

from anyio.lowlevel import checkpoint

from mcp_memory.domain.nodes import Node, RollupSummary, Stale
from mcp_memory.domain.toc import BULLETS, GRACE, Level, NodeRef
from mcp_memory.models.port import Summarizer
from mcp_memory.pipeline.ingest import CountAll
from mcp_memory.pipeline.summarize import SO_FAR, counted
from mcp_memory.store.port import Share, TreeStore

BATCH = 64
UPWARD = (Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR)


async def rollup(
    tree: TreeStore,
    summarizer: Summarizer,
    zone: tzinfo,
    count_all: CountAll,
    now_ms: int,
    share: Share,
) -> int:
    """Roll up level by level, and stop after a batch; returns how many nodes were written."""
    await tree.mark_closed_periods(now_ms)
    written = 0
    for level in UPWARD:
        while stale := await tree.stale(level, BATCH):
            rollups = [(item, await _one(item, summarizer, zone, now_ms)) for item in stale]
            await tree.save_rollups(_counted(rollups, count_all), share.token)
            written += sum(node is not None for _, node in rollups)
            if written >= BATCH or (share.is_over() and written):
                return written
    return written


def _counted(rollups: Sequence[tuple[Stale, Node | None]], count_all: CountAll) -> list[tuple[Stale, Node | None]]:
    """The same with the tokens of what is to be written."""
    made = [(stale, node) for stale, node in rollups if node and not node.removed]
    nodes = counted([node for _, node in made], [size_of(stale.children) for stale, _ in made], count_all)
    sized = iter(nodes)
    return [(stale, next(sized) if node and not node.removed else node) for stale, node in rollups]


async def _one(stale: Stale, summarizer: Summarizer, zone: tzinfo, now_ms: int) -> Node | None:
    """The period's next version; None if nothing has changed."""
    # Summarizing without a model never waits by itself; a server must be able to answer in between.
    await checkpoint()
    is_open = is_open_at(stale.ref, zone, now_ms)
    wanted = input_hash(stale.children, is_open, summarizer.name)
    if stale.children and wanted != stale.current_hash:
        return await _summarized(stale, is_open, wanted, summarizer, zone, now_ms)
    if not stale.children and stale.current_hash is not None:
        return _removed(stale, zone, now_ms)
    return None


async def _summarized(
    stale: Stale,
    is_open: bool,
    wanted: str,
    summarizer: Summarizer,
    zone: tzinfo,
    now_ms: int,
) -> Node:
    children = stale.children
    summary = await summarizer.rollup(stale.ref.level, named(children))
    return rollup_node(stale.ref, stale.slug, children, summary, is_open, wanted, summarizer.name, zone, now_ms)


def named(children: Sequence[Node]) -> list[Node]:
    """The children by their titles alone, whether or not they were open."""
    return [replace(child, title=child.title.removesuffix(SO_FAR)) for child in children]


def rollup_node(
    ref: NodeRef,
    slug: str,
    children: Sequence[Node],
    summary: RollupSummary,
    is_open: bool,
    wanted: str,
    written_by: str,
    zone: tzinfo,
    now_ms: int,
) -> Node:
    """The version of a period that its summary makes; its tokens are yet to be counted."""
    title = ref.title + (f": {summary.topic}" if summary.topic else "") + (SO_FAR if is_open else "")
    bullets = summary.bullets[: BULLETS[ref.level][1]]
    start_ms, end_ms = ref.bounds(zone)
    return Node(
        ref=ref,
        project=slug,
        version=0,
        title=title,
        start_ms=start_ms,
        end_ms=end_ms,
        bullets=bullets,
        keywords=summary.keywords,
        child_ids=tuple(child.node_id for child in children),
        open=is_open,
        written_by=summary.written_by or written_by,
        input_hash=wanted,
        created_ms=now_ms,
        metrics=summary.metrics,
        weight=sum(child.weight for child in children),
    )


def size_of(children: Sequence[Node]) -> int:
    return sum(child.tokens for child in children)


def _removed(stale: Stale, zone: tzinfo, now_ms: int) -> Node:
    start_ms, end_ms = stale.ref.bounds(zone)
    return Node(
        ref=stale.ref,
        project=stale.slug,
        version=0,
        title=stale.ref.title,
        start_ms=start_ms,
        end_ms=end_ms,
        bullets=(),
        keywords=(),
        child_ids=(),
        open=False,
        written_by="removed",
        input_hash="",
        removed=True,
        created_ms=now_ms,
    )


def is_open_at(ref: NodeRef, zone: tzinfo, now_ms: int) -> bool:
    """A period is open until a while after its end."""
    return now_ms < ref.bounds(zone)[1] + round(GRACE[ref.level].total_seconds() * 1000)


def input_hash(children: Sequence[Node], is_open: bool, written_by: str) -> str:
    named = [f"{child.node_id}#{child.version}" for child in children]
    text = "\n".join([*named, str(is_open), written_by])
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
