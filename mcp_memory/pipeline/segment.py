"""Second and third stage: cut the sessions that changed, then summarize their segments and give every bullet its grip.

Of what was cut only what differs from the stored segments is written.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from typing import NamedTuple, TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from mcp_memory.domain.events import Event, ulid
from mcp_memory.domain.failures import Failure, cut_failure, failure_reason, is_failure_of_one, segment_failure
from mcp_memory.domain.halving import halve_rejected
from mcp_memory.domain.nodes import (
    EXTRACTIVE,
    SO_FAR,
    Bullet,
    DraftBullet,
    Grip,
    Node,
    SegmentSummary,
    grip_key,
    measure,
)
from mcp_memory.domain.segments import (
    QUIET_MS,
    Cut,
    Cutting,
    Rules,
    SavedCut,
    SegmentJob,
    SegmentWrite,
    StoredSegment,
    busy,
    corrections_after,
    cut,
    segment_key,
)
from mcp_memory.domain.toc import BULLETS, Level, segment_ref
from mcp_memory.errors import StoreRejected, alone
from mcp_memory.models.port import Summarizer
from mcp_memory.pipeline.ingest import CountAll
from mcp_memory.store.port import Share, Store

logger = logging.getLogger(__name__)

BATCH = 64
#: Segments that are saved at once.
PORTION = 16
T = TypeVar("T")


class Result(NamedTuple):
    """How much a stage has done, and how much of its work failed and was set aside."""

    done: int
    failed: int


async def segment(store: Store, rules: Rules, now_ms: int, lease_token: int) -> Result:
    """Cut up to a batch of sessions; returns how many segments were new or changed."""
    await store.expire(now_ms - rules.gap_ms)
    cuts, failures = cut_all(await store.dirty(BATCH, rules.overlap_ms), rules, now_ms)
    if cuts:
        await store.save_cuts(cuts, lease_token)
    await store.set_aside(failures, now_ms, lease_token)
    return Result(sum(len(fresh) + len(removed) for _, fresh, removed in cuts), len(failures))


def cut_all(cuttings: Sequence[Cutting], rules: Rules, now_ms: int) -> tuple[list[SavedCut], list[Failure]]:
    """What differs from the stored segments when these sessions are cut now, and the sessions that cannot be cut."""
    cuts: list[SavedCut] = []
    failures: list[Failure] = []
    for cutting in cuttings:
        try:
            cuts.append(_cut_one(cutting, rules, now_ms))
        except Exception as error:
            failures.append(cut_failure(cutting, error))
            log_failure("A session could not be cut into segments and is set aside", error)
    return cuts, failures


def log_failure(what: str, error: Exception) -> None:
    """Log that work failed, with the traceback where details are logged: people at a terminal need the reason alone."""
    logger.warning(
        "%s: %s", what, failure_reason(error), exc_info=error if logger.isEnabledFor(logging.DEBUG) else None
    )


def _cut_one(cutting: Cutting, rules: Rules, now_ms: int) -> SavedCut:
    wanted = [_described(cutting, found) for found in cut(cutting.marks, rules, now_ms, cutting.start)]
    stored = {segment.key: segment for segment in cutting.stored}
    fresh = [segment for segment in wanted if stored.get(segment.key) != segment]
    kept = {segment.key for segment in wanted}
    return cutting, fresh, [segment for segment in cutting.stored if segment.key not in kept]


def _described(cutting: Cutting, found: Cut) -> StoredSegment:
    own, context = cutting.marks[found.first : found.last], cutting.marks[found.context]
    told = [*own, *corrections_after(cutting.marks, found.last)]
    hashed = hashlib.blake2b(b"".join(mark.key for mark in told) + bytes([found.closed]), digest_size=12)
    return StoredSegment(
        key=segment_key(cutting.session_key, own[0].key),
        start_ms=own[0].timestamp_ms,
        end_ms=own[-1].timestamp_ms,
        first_event=own[0].number,
        last_event=own[-1].number,
        context_ms=context.timestamp_ms,
        context_event=context.number,
        events=len(own),
        tokens=sum(mark.tokens for mark in own),
        closed=found.closed,
        input_hash=hashed.hexdigest(),
    )


async def summarize(
    store: Store,
    summarizer: Summarizer,
    zone: tzinfo,
    count_all: CountAll,
    now_ms: int,
    share: Share,
    quiet_ms: int = QUIET_MS,
) -> Result:
    """Summarize up to a batch of segments, as time allows; returns how many nodes were written."""
    jobs = await store.jobs(BATCH, busy(now_ms, quiet_ms))
    written, failures = await write_segments(jobs, store.save_segments, summarizer, zone, count_all, now_ms, share)
    await store.set_aside(failures, now_ms, share.token)
    return Result(written, len(failures))


async def write_segments(
    jobs: Sequence[SegmentJob],
    store: Callable[[Sequence[SegmentWrite], int], Awaitable[None]],
    summarizer: Summarizer,
    zone: tzinfo,
    count_all: CountAll,
    now_ms: int,
    share: Share,
) -> tuple[int, list[Failure]]:
    """Summarize and store segments, as time allows; returns how many, and which could not be summarized.

    While some are summarized, those before them are counted and saved, which leaves Python to others for the most part.
    """
    written, failures, rejected = 0, list[Failure](), list[Failure]()

    def sized(writes: Sequence[SegmentWrite]) -> list[SegmentWrite]:
        nodes = counted([write.node for write in writes], [write.job.segment.tokens for write in writes], count_all)
        return [replace(write, node=node) for write, node in zip(writes, nodes, strict=True)]

    send, receive = anyio.create_memory_object_stream[list[SegmentWrite]](1)

    async def save() -> None:
        async with receive:
            async for writes in receive:
                ready = await to_thread.run_sync(sized, writes)
                for write, error in await halve_rejected(ready, partial(_store_with, store, share), StoreRejected):
                    rejected.append(segment_failure(write.job, error))

    with alone():
        async with anyio.create_task_group() as group, send:
            group.start_soon(save, name="saving")
            for start in range(0, len(jobs), PORTION):
                writes = []
                for job in jobs[start : start + PORTION]:
                    # Summarizing without a model never waits by itself; a server must be able to answer in between.
                    await checkpoint()
                    try:
                        summary = await summarizer.segment(job.events, job.context)
                        writes.append(segment_write(job, summary, summarizer, zone, now_ms))
                    except Exception as error:
                        if not is_failure_of_one(error):
                            raise
                        failures.append(segment_failure(job, error))
                        log_failure(
                            f"A segment of session {job.session_id} could not be summarized and is set aside", error
                        )
                if writes:
                    # If saving has just failed, its error ends the group; a second one here would hide it.
                    with suppress(anyio.BrokenResourceError):
                        await send.send(writes)
                written += len(writes)
                if share.is_over() and written:
                    break
    return written - len(rejected), failures + rejected


async def _store_with(
    store: Callable[[Sequence[SegmentWrite], int], Awaitable[None]], share: Share, writes: Sequence[SegmentWrite]
) -> None:
    await store(writes, share.token)


def segment_write(
    job: SegmentJob,
    summary: SegmentSummary,
    summarizer: Summarizer,
    zone: tzinfo,
    now_ms: int,
) -> SegmentWrite:
    """What a summary makes of a segment; the node's tokens are yet to be counted."""
    segment, written_by = job.segment, summary.written_by or summarizer.name
    ref = segment_ref(segment.start_ms, zone, ulid(segment.start_ms, segment.key))
    drafts = summary.bullets[: BULLETS[Level.SEGMENT][1]]
    gripped = [(draft, _grips(draft, job.events)) for draft in drafts]
    bullets = tuple(
        Bullet(draft.text, tuple(grip.grip_id for grip in grips), kind=draft.kind) for draft, grips in gripped
    )
    node = Node(
        ref=ref,
        project=job.slug,
        version=0,
        title=summary.title + ("" if segment.closed else SO_FAR),
        start_ms=segment.start_ms,
        end_ms=segment.end_ms,
        bullets=bullets,
        keywords=summary.keywords,
        child_ids=(),
        open=not segment.closed,
        written_by=written_by,
        input_hash=segment.input_hash,
        created_ms=now_ms,
        session_id=job.session_id,
        metrics=summary.metrics,
        weight=segment.tokens,
        revision=summarizer.revision if written_by == EXTRACTIVE else None,
    )
    return SegmentWrite(job, node, tuple(grip for _, grips in gripped for grip in grips))


def counted(nodes: Sequence[Node], sizes: Sequence[int], count_all: CountAll) -> list[Node]:
    """The nodes with their tokens, and how far each compresses what it was made from, which had so many.

    One pass for all of them takes a third of the time that one for each would.
    """
    counts = count_all([node_text(node) for node in nodes])
    return [
        replace(node, tokens=tokens, metrics=node.metrics or measure(size, tokens))
        for node, size, tokens in zip(nodes, sizes, counts, strict=True)
    ]


def node_text(node: Node) -> str:
    return "\n".join([node.title, *(bullet.shown for bullet in node.bullets), " ".join(node.keywords)])


def _grips(draft: DraftBullet, events: Sequence[Event]) -> list[Grip]:
    """One grip per piece of evidence. Evidence that is not in the segment, or empty, gives none."""
    by_key = {event.key: event for event in events}
    cited = [(by_key[evidence.event_key], evidence) for evidence in draft.evidence if evidence.event_key in by_key]
    order = sorted((event.timestamp_ms, event.key) for event, _ in cited)
    grips = []
    for event, evidence in cited:
        start, end = evidence.start, evidence.end
        excerpt = event.text[start:end]
        if excerpt.strip():
            key = grip_key(event.key, start, end)
            grips.append(Grip(key, event.timestamp_ms, event.key, start, end, excerpt, order[0][1], order[-1][1]))
    return grips
