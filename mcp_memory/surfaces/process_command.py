"""`process` and `summarize`: the pipeline run now, what a model would be asked for, and the summary of any text."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from mcp_memory.app import App
from mcp_memory.capture.redaction import redact
from mcp_memory.config import system_timezone
from mcp_memory.domain.failures import RETRY, FailedWork, grouped_failures
from mcp_memory.domain.nodes import THRESHOLDS, Depth, depth_of, revised
from mcp_memory.domain.segments import busy, cut
from mcp_memory.domain.toc import Level, NodeRef, day_ref
from mcp_memory.errors import LeaseLost, NotFound, SummarizerError, UsageError
from mcp_memory.models.tokens import CHUNK_TOKENS, OVERLAP_TOKENS, summarize_text, write_extract
from mcp_memory.pipeline.compact import PART_TOKENS
from mcp_memory.pipeline.ingest import Done
from mcp_memory.pipeline.rollup import is_open_at
from mcp_memory.surfaces import output
from mcp_memory.surfaces.output import Answer

_RETRY_SECONDS = 0.25
#: What goes with each text: the rules, the form of the answer, the statements in it and the context before a segment.
_FRAME_TOKENS = 1_000
_SEGMENT_ANSWER, _PERIOD_ANSWER = 350, 550
#: About how long a node is for the one above it.
_NODE_TOKENS = 130
_EVERYTHING = 1_000_000
#: What a question for a session's record carries of the record so far, and about how long the answer is.
_RECORD_TOKENS, _RECORD_ANSWER = 800, 500
Watch = Callable[[], Awaitable[None]]
logger = logging.getLogger(__name__)


async def process(app: App, options: argparse.Namespace) -> Answer:
    started = time.monotonic()
    if options.dry_run:
        planned = await estimate(app)
        return planned if options.json else output.facts(planned)
    # Whoever runs this now wants what was said a moment ago as well, and what an earlier version could not read.
    app.pipeline.quiet_ms = 0
    upgraded: dict[str, Any] = {}
    with output.progress("Processing", enabled=not options.json) as meter:
        if options.rebuild:
            await app.store.rebuild(app.settings.calendar.timezone or system_timezone())
            await app.inbox.drop_all()
        await app.inbox.reopen()
        await app.store.retry_failures(all_versions=True)
        watch = watched(app, meter) if meter.shown else None
        done = await until_idle(app, revising=True, watch=watch)
        if app.upgrades:
            # A model writes what it can say better, and then what depends on that is rebuilt.
            total = 0
            while count := await app.upgrades.until_idle(watch):
                total += count
                done.add(await until_idle(app, revising=True, watch=watch))
            done.nodes += total
            upgraded = {"upgraded": total} | ({"model": app.upgrades.reason} if app.upgrades.reason else {})
    upgraded |= await app.pusher.try_push()
    made = {"inbox": done.inbox, "events": done.events, "segments": done.segments, "nodes": done.nodes}
    shape = {**made, "seconds": round(time.monotonic() - started, 3), "idle": True, **upgraded}
    if done.rejected:
        shape["rejected"] = done.rejected
    if failures := await app.store.failures():
        shape["failed"] = [
            {"stage": work.stage, "what": work.what, "project": work.project, "reason": work.reason}
            for work in failures
        ]
    output.result(shape if options.json else _told(shape, failures))
    return 1 if failures else 0


def _told(shape: Mapping[str, Any], failures: Sequence[FailedWork]) -> str:
    counted = [("events", "event"), ("segments", "part of a session"), ("nodes", "summary")]
    plural = {"event": "events", "part of a session": "parts of sessions", "summary": "summaries"}
    made = [f"{shape[key]:,} {name if shape[key] == 1 else plural[name]}" for key, name in counted if shape[key]]
    told = f"Sorted in {', '.join(made)} in {shape['seconds']:.1f} s. " if made else ""
    model = f" The model did not write all of it: {shape['model']}" if "model" in shape else ""
    sent = f" Sent to the team: {shape['pushed']:,}." if shape.get("pushed") else ""
    sent = f" What is shared waits: {shape['push']}" if "push" in shape else sent
    rejected = shape.get("rejected", 0)
    if rejected:
        told += f"{rejected:,} {'events' if rejected > 1 else 'event'} could not be stored; the log says why. "
    if not failures:
        return f"{told}Everything is up to date.{sent}{model}"
    failed = [f"✗ {what}\n  {why}" for what, why in grouped_failures(failures)]
    return "\n".join([f"{told}Everything else is up to date.{sent}{model}", *failed, f"  → {RETRY}"])


def watched(app: App, meter: output.Meter) -> Watch:
    """Tells a meter, whenever it is called, how much is left of the stage that the pipeline is at."""
    most: Counter[str] = Counter()

    async def look() -> None:
        now_ms = app.clock.now_ms()
        counts, waiting = await app.store.counts(busy(now_ms, app.pipeline.quiet_ms)), await app.inbox.counts()
        # How many segments a session that is not cut yet may have, by those that are.
        usual = max(1, counts.segments // max(1, counts.sessions - counts.dirty_sessions))
        done, of = revised(counts.revisions, app.pipeline.summarizer.revision) or (0, 0)
        stages = [
            ("Reading", "payloads", waiting.waiting),
            ("Summarizing", "segments", counts.dirty_segments + counts.dirty_sessions * usual),
            ("Rolling up", "periods", counts.dirty_nodes),
            ("Writing anew", "summaries", of - done),
        ]
        if app.upgrades and not any(left for _, _, left in stages):
            stages.append(("Asking the model", "summaries", len(await app.store.upgrade_backlog(now_ms))))
        for label, unit, left in stages:
            if left:
                most[label] = max(most[label], left)
                return meter(most[label] - left, most[label], label, unit)

    return look


async def until_idle(app: App, *, revising: bool = False, watch: Watch | None = None) -> Done:
    """Run the pipeline here, or wait for the server that holds the lease to finish the work.

    Commands that want something in the tree do not wait until all else is written anew as well.
    """
    total = Done()
    # A look comes before the first write, which the lease is: most damage shows itself here, and nothing is changed.
    await app.pipeline.waits(revising=revising)
    while True:
        if watch:
            await watch()
        try:
            total.add(await app.pipeline.until_idle(revising=revising, watch=watch))
            await app.pipeline.lease.release()
            return total
        except LeaseLost:
            if not await app.pipeline.waits(revising=revising):
                return total
            await anyio.sleep(_RETRY_SECONDS)
        except BaseException:
            # Whoever interrupts this may start it again, and should not have to wait until the lease expires.
            with anyio.move_on_after(2, shield=True):
                await app.pipeline.lease.release()
            raise


async def estimate(app: App) -> dict[str, Any]:
    """Calls, tokens and costs; of what is not in the tree yet, as it would be cut now; of records, those there are."""
    chosen = app.settings.summarizer
    planned = await _planned(app) if chosen.kind != "extractive" else []
    records = await app.upgrades.records(_EVERYTHING) if app.upgrades else []
    # How often a model is asked, and how long question and answer are each time.
    costs = [
        (_calls(size), size, _FRAME_TOKENS, _SEGMENT_ANSWER if level is Level.SEGMENT else _PERIOD_ANSWER)
        for level, size in planned
    ]
    for rewrite in records:
        parts = -(-rewrite.tokens // PART_TOKENS)  # and one more call for the account of several
        costs.append((parts + (parts > 1), rewrite.tokens, _FRAME_TOKENS + _RECORD_TOKENS, _RECORD_ANSWER))
    calls = sum(count for count, *_ in costs)
    asked = sum(size + count * frame for count, size, frame, _ in costs)
    answered = sum(count * min(answer, chosen.max_output_tokens) for count, _, _, answer in costs)
    # What the first of the models costs whose price is known.
    price = next((chosen.price_table[name] for name in chosen.preferred if name in chosen.price_table), None)
    cost = round((asked * price[0] + answered * price[1]) / 1_000_000, 4) if price else None
    return {
        "dry_run": True,
        "summarizer": chosen.kind,
        "model": chosen.preferred[0] if chosen.preferred else None,
        "nodes": len(planned),
        "records": len(records),
        "calls": calls,
        "input_tokens": asked,
        "output_tokens": answered,
        "cost": cost if calls else 0.0,
        "days": -(-(asked + answered) // chosen.daily_token_cap) if chosen.daily_token_cap else None,
        "inbox": (await app.inbox.counts()).waiting,
    }


async def _planned(app: App) -> list[tuple[Level, int]]:
    """Level and length of every text that would be sent."""
    store, rules, now_ms = app.store, app.settings.segmentation.rules, app.clock.now_ms()
    # Project, start and tokens of the finished segments that have no summary, and of those into which the sessions
    # that changed would be cut.
    fresh = await store.unwritten_segments()
    for cutting in await store.dirty(_EVERYTHING, rules.overlap_ms):
        for piece in cut(cutting.marks, rules, now_ms, cutting.start):
            own = cutting.marks[piece.first : piece.last]
            if piece.closed:
                fresh.append((cutting.project, own[0].timestamp_ms, sum(mark.tokens for mark in own)))
    planned = await store.upgrade_backlog(now_ms)
    planned += [(Level.SEGMENT, tokens) for _, _, tokens in fresh]
    # The closed periods above them, and about how long their children will be.
    layer = Counter((project, day_ref(start_ms, app.zone)) for project, start_ms, _ in fresh)
    while layer:
        above: Counter[tuple[int, NodeRef]] = Counter()
        for (project, ref), children in layer.items():
            if not is_open_at(ref, app.zone, now_ms):
                planned.append((ref.level, children * _NODE_TOKENS))
            if ref.parent:
                above[project, ref.parent] += 1
        layer = above
    return [(level, size) for level, size in planned if size >= THRESHOLDS[Depth.NONE]]


def _calls(size: int) -> int:
    """How many questions a text of so many tokens takes."""
    depth = depth_of(size)
    if depth in (Depth.NONE, Depth.BRIEF, Depth.STANDARD):
        return 1
    chunks = -(-size // (CHUNK_TOKENS - OVERLAP_TOKENS))
    return chunks + 1 + (-(-chunks // 5) if depth is Depth.HIERARCHICAL else 0)


async def summarize(app: App, options: argparse.Namespace) -> Answer:
    """The summary of a file, or of standard input for `-`.

    It is by the model that is set, or, if that cannot, in the text's own sentences, with the reason why.
    """
    # A file is no event: what goes to a model, or from here into another file, is cleared of secrets now.
    text = redact(_read(options.file))
    prior = redact(_read(options.prior)) if options.prior else ""
    result = note = None
    if app.caller:
        from mcp_memory.models.summarizer import prose_writer

        try:
            result = await summarize_text(prose_writer(app.caller), text, prior, options.type)
        except SummarizerError as error:
            note = str(error)
            logger.warning("%s The summary is extractive.", error)
    result = result or await summarize_text(write_extract, text, prior, options.type)
    metrics = result.metrics
    shape = {
        "level": metrics.depth.value,
        "summary": result.text,
        "hierarchical": result.layers,
        "input_tokens": metrics.input_tokens,
        "output_tokens": metrics.output_tokens,
        "compression_ratio": metrics.compression_ratio,
        "content_type": options.type,
        "written_by": result.written_by,
        "note": note,
    }
    if options.json:
        return shape
    if options.markdown:
        front = {"role": "summary", "summary_level": shape["level"]}
        front |= {key: shape[key] for key in ("content_type", "input_tokens", "output_tokens", "compression_ratio")}
        front |= {"written_by": shape["written_by"] or "nobody"}
        front |= {"created_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        return "\n".join([*output.front_matter(front), result.text or ""])
    return result.text or f"Too short to summarize ({metrics.input_tokens} tokens)."


def _read(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"{name} does not exist. Name a text file, or - for standard input.") from None
    except OSError as error:
        raise UsageError(f"{name or 'A file without a name'} cannot be read: {error.strerror}.") from None
    text = data.decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") * 20 > len(text):
        raise UsageError(f"{name} is not text in UTF-8. Name a text file, or - for standard input.")
    return text
