"""Fourth stage: roll segments up to days, days to weeks, weeks to months, months to years.

A period is rolled up when the hash of what lies beneath it changes, so a late event reaches exactly its ancestors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import partial

from anyio.lowlevel import checkpoint

from mcp_memory.domain.failures import Failure, is_failure_of_one, period_failure
from mcp_memory.domain.halving import halve_rejected
from mcp_memory.domain.nodes import EXTRACTIVE, SO_FAR, Node, Revising, RollupSummary, Stale, Upgrade
from mcp_memory.domain.segments import Rules, SavedCut
from mcp_memory.domain.toc import BULLETS, GRACE, Level, NodeRef
from mcp_memory.errors import StoreRejected
from mcp_memory.models.port import Summarizer
from mcp_memory.pipeline.ingest import CountAll
from mcp_memory.pipeline.segment import Result, counted, cut_all, log_failure, write_segments
from mcp_memory.store.port import Share, Store

BATCH = 64
#: Nodes that are written anew at once, after which a round looks for what is new.
REVISED = 32
UPWARD = (Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR)
_NOTHING = RollupSummary("", (), ())


async def rollup(
    store: Store,
    summarizer: Summarizer,
    zone: tzinfo,
    count_all: CountAll,
    now_ms: int,
    share: Share,
) -> Result:
    """Roll up level by level, and stop after a batch; returns how many nodes were written."""
    await store.mark_closed_periods(now_ms)
    written = failed = 0
    for level in UPWARD:
        while stale := await store.stale(level, BATCH):
            versions, failures = await _next_versions(stale, summarizer, zone, now_ms)
            failures += await _save(store, _sized(versions, count_all), share)
            await store.set_aside(failures, now_ms, share.token)
            written += sum(node is not None for _, node in versions)
            failed += len(failures)
            if written + failed >= BATCH or (share.is_over() and written + failed):
                return Result(written, failed)
    return Result(written, failed)


async def revise(
    store: Store,
    summarizer: Summarizer,
    zone: tzinfo,
    count_all: CountAll,
    now_ms: int,
    share: Share,
    rules: Rules,
    seen: set[int],
) -> Result:
    """Write anew a batch of what an earlier revision of the summarizer wrote; returns how many nodes were written.

    Each node is written once: a period when nothing beneath it waits any more. What a model wrote is left alone. Where
    a session would be cut otherwise by now, that comes first; those that were `seen` are cut as they should be.
    """
    revision, periods = summarizer.revision, list[Stale]()
    if cuts := await _cut_anew(store, revision, rules, now_ms, share, seen):
        fresh = [segment.key for _, fresh, _ in cuts for segment in fresh]
        revising, jobs = Revising(revision, moved=True), await store.jobs_of(fresh[-BATCH:])
    else:
        revising, (jobs, periods) = Revising(revision), await store.outdated(revision, REVISED)
    save = partial(store.save_segments, revising=revising)
    written, failures = await write_segments(jobs, save, summarizer, zone, count_all, now_ms, share)
    outdated = [replace(item, current_hash="") for item in periods]
    versions, failed_periods = await _next_versions(outdated, summarizer, zone, now_ms)
    failures += await _save(store, _sized(versions, count_all), share, revising)
    # A node that failed keeps what the earlier revision wrote.
    failures += failed_periods
    await store.set_aside(failures, now_ms, share.token, revision)
    return Result(written + len(versions) + sum(len(removed) for _, _, removed in cuts), len(failures))


async def _cut_anew(
    store: Store, revision: int, rules: Rules, now_ms: int, share: Share, seen: set[int]
) -> list[SavedCut]:
    """Cut sessions of what is outdated until one comes out otherwise; what differs is stored."""
    while sessions := await store.outdated_sessions(revision, REVISED, rules.overlap_ms, seen):
        found, failures = cut_all(sessions, rules, now_ms)
        await store.set_aside(failures, now_ms, share.token)
        cuts = [cut for cut in found if cut[1] or cut[2]]
        if cuts:
            await store.save_cuts(cuts, share.token, Revising(revision, moved=True))
        seen.update(cutting.session for cutting in sessions)
        if cuts:
            return cuts
    return []


async def _next_versions(
    stale: Sequence[Stale], summarizer: Summarizer, zone: tzinfo, now_ms: int
) -> tuple[list[tuple[Stale, Node | None]], list[Failure]]:
    """Return periods with their next versions, and the periods that could not be summarized."""
    versions: list[tuple[Stale, Node | None]] = []
    failures: list[Failure] = []
    for item in stale:
        try:
            versions.append((item, await _next_version(item, summarizer, zone, now_ms)))
        except Exception as error:
            if not is_failure_of_one(error):
                raise
            failures.append(period_failure(item, error))
            log_failure(f"{item.ref.node_id()} of {item.slug} could not be summarized and is set aside", error)
    return versions, failures


async def _save(
    store: Store, versions: Sequence[tuple[Stale, Node | None]], share: Share, revising: Revising | None = None
) -> list[Failure]:
    """Store versions of periods; returns the ones that the database rejects."""

    async def take(part: Sequence[tuple[Stale, Node | None]]) -> None:
        await store.save_rollups(part, share.token, revising)

    return [period_failure(item, error) for (item, _), error in await halve_rejected(versions, take, StoreRejected)]


def _sized(versions: Sequence[tuple[Stale, Node | None]], count_all: CountAll) -> list[tuple[Stale, Node | None]]:
    """Periods and their next versions, with the tokens counted."""
    made = [(item, node) for item, node in versions if node and not node.removed]
    sizes = [sum(child.tokens for child in item.children) for item, _ in made]
    sized = iter(counted([node for _, node in made], sizes, count_all))
    return [(item, next(sized) if node and not node.removed else node) for item, node in versions]


async def _next_version(stale: Stale, summarizer: Summarizer, zone: tzinfo, now_ms: int) -> Node | None:
    """The period's next version, whose tokens are yet to be counted; None if nothing has changed."""
    # Summarizing without a model never waits by itself; a server must be able to answer in between.
    await checkpoint()
    children, is_open = stale.children, is_open_at(stale.ref, zone, now_ms)
    wanted = input_hash(children, is_open, summarizer.name)
    if children and wanted != stale.current_hash:
        summary = await summarizer.rollup(stale.ref.level, named(children))
        return rollup_node(stale, children, summary, is_open, wanted, summarizer, zone, now_ms)
    if not children and stale.current_hash is not None:
        node = rollup_node(stale, (), _NOTHING, False, "", summarizer, zone, now_ms)
        return replace(node, removed=True, written_by="removed", revision=None)
    return None


def named(children: Sequence[Node]) -> list[Node]:
    """The children by their titles alone, whether or not they were open."""
    return [replace(child, title=child.title.removesuffix(SO_FAR)) for child in children]


def rollup_node(
    period: Stale | Upgrade,
    children: Sequence[Node],
    summary: RollupSummary,
    is_open: bool,
    wanted: str,
    summarizer: Summarizer,
    zone: tzinfo,
    now_ms: int,
) -> Node:
    """The version of a period that its summary makes; its tokens are yet to be counted."""
    ref, written_by = period.ref, summary.written_by or summarizer.name
    start_ms, end_ms = ref.bounds(zone)
    return Node(
        ref=ref,
        project=period.slug,
        version=0,
        title=ref.title + (f": {summary.topic}" if summary.topic else "") + (SO_FAR if is_open else ""),
        start_ms=start_ms,
        end_ms=end_ms,
        bullets=summary.bullets[: BULLETS[ref.level][1]],
        keywords=summary.keywords,
        child_ids=tuple(child.node_id for child in children),
        open=is_open,
        written_by=written_by,
        input_hash=wanted,
        created_ms=now_ms,
        metrics=summary.metrics,
        weight=sum(child.weight for child in children),
        revision=summarizer.revision if written_by == EXTRACTIVE else None,
    )


def is_open_at(ref: NodeRef, zone: tzinfo, now_ms: int) -> bool:
    """A period is open until a while after its end."""
    return now_ms < ref.bounds(zone)[1] + round(GRACE[ref.level].total_seconds() * 1000)


def input_hash(children: Sequence[Node], is_open: bool, written_by: str) -> str:
    named = [f"{child.node_id}#{child.version}" for child in children]
    text = "\n".join([*named, str(is_open), written_by])
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
