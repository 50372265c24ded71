"""Second stage: cut the sessions that changed. Only what differs from the stored segments is written."""

from __future__ import annotations

import hashlib

from mcp_memory.domain.segments import Cut, Cutting, Rules, SavedCut, StoredSegment, cut
from mcp_memory.store.port import SegmentStore

BATCH = 64


async def segment(store: SegmentStore, rules: Rules, now_ms: int, lease_token: int) -> int:
    """Cut up to a batch of sessions; returns how many segments were new or changed."""
    await store.expire(now_ms - rules.gap_ms)
    cuts: list[SavedCut] = []
    for cutting in await store.dirty(BATCH, rules.overlap_ms):
        wanted = [_described(cutting, found) for found in cut(cutting.marks, rules, now_ms, cutting.start)]
        stored = {segment.key: segment for segment in cutting.stored}
        fresh = [segment for segment in wanted if stored.get(segment.key) != segment]
        kept = {segment.key for segment in wanted}
        cuts.append((cutting, fresh, [segment for segment in cutting.stored if segment.key not in kept]))
    if cuts:
        await store.save_cuts(cuts, lease_token)
    return sum(len(fresh) + len(removed) for _, fresh, removed in cuts)


def _described(cutting: Cutting, found: Cut) -> StoredSegment:
    marks, numbers = cutting.marks, cutting.numbers
    own = marks[found.first : found.last]
    hashed = hashlib.blake2b(b"".join(mark.key for mark in own) + bytes([found.closed]), digest_size=12)
    return StoredSegment(
        key=found.key(cutting.session_key, marks),
        start_ms=own[0].timestamp_ms,
        end_ms=own[-1].timestamp_ms,
        first_event=numbers[found.first],
        last_event=numbers[found.last - 1],
        context_ms=marks[found.context].timestamp_ms,
        context_event=numbers[found.context],
        events=len(own),
        tokens=sum(mark.tokens for mark in own),
        closed=found.closed,
        input_hash=hashed.hexdigest(),
    )
