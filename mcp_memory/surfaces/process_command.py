"""`process` and `summarize`: the pipeline run now, what a model would be asked for, and the summary of any text."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import defaultdict
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from mcp_memory.app import App, rules_of
from mcp_memory.capture.redaction import redact
from mcp_memory.config import SummarizerSettings
from mcp_memory.domain.nodes import THRESHOLDS, Depth, depth_of
from mcp_memory.domain.segments import cut
from mcp_memory.domain.toc import Level, NodeRef, day_ref
from mcp_memory.errors import LeaseLost, NotFound, SummarizerError, UsageError
from mcp_memory.models import tokens
from mcp_memory.models.adaptive import AdaptiveSummarizer, PlainWriter, SummaryResult
from mcp_memory.models.summarizer import ModelWriter
from mcp_memory.models.tokens import CHUNK_TOKENS, OVERLAP_TOKENS
from mcp_memory.pipeline.compact import PART_TOKENS
from mcp_memory.pipeline.loop import Done
from mcp_memory.pipeline.rollup import is_open_at
from mcp_memory.store.sqlite.ledger import SqliteUpgrades
from mcp_memory.store.sqlite.rebuild import rebuild, system_timezone
from mcp_memory.surfaces import output

_RETRY_SECONDS = 0.25
#: What goes with each text: the rules, the form of the answer, and the context before a segment.
_FRAME_TOKENS = 750
_SEGMENT_ANSWER, _PERIOD_ANSWER = 350, 550
#: About how long a node is for the one above it.
_NODE_TOKENS = 130
_EVERYTHING = 1_000_000
#: What a question for a session's record carries of the record so far, and about how long the answer is.
_RECORD_TOKENS, _RECORD_ANSWER = 800, 500
Planned = list[tuple[Level, int]]
logger = logging.getLogger(__name__)


async def process(app: App, options: argparse.Namespace) -> int:
    started = time.monotonic()
    if options.dry_run:
        planned = await estimate(app)
        return output.document(planned) if options.json else output.facts(planned)
    if options.rebuild:
        await rebuild(app.database, app.settings.calendar.timezone or system_timezone())
    # Whoever runs this now wants what was said a moment ago as well, and what an earlier version could not read.
    app.pipeline.quiet_ms = 0
    await app.log.reopen()
    with output.spinner("Processing", enabled=not options.json):
        done = await until_idle(app)
        upgraded = await _upgraded(app, done)
    shape: dict[str, Any] = {
        "inbox": done.inbox,
        "events": done.events,
        "segments": done.segments,
        "nodes": done.nodes,
        "seconds": round(time.monotonic() - started, 3),
        "idle": True,
        **upgraded,
    }
    return output.document(shape) if options.json else output.facts(shape)


async def _upgraded(app: App, done: Done) -> dict[str, Any]:
    """Let the model write what it can say better, if one is set, and then what follows from that."""
    if app.upgrades is None:
        return {}
    total = 0
    while count := await app.upgrades.until_idle():
        total += count
        done.add(await until_idle(app))
    reason = app.upgrades.reason
    done.nodes += total
    return {"upgraded": total, **({"model": reason} if reason else {})}


async def until_idle(app: App) -> Done:
    """Run the pipeline here, or wait for the server that holds the lease to finish the work."""
    total = Done()
    # A look comes before the first write, which the lease is: most damage shows itself here, and nothing is changed.
    await app.pipeline.waits()
    while True:
        try:
            total.add(await app.pipeline.until_idle())
            await app.pipeline.lease.release()
            return total
        except LeaseLost:
            if not await app.pipeline.waits():
                return total
            await anyio.sleep(_RETRY_SECONDS)
        except BaseException:
            # Whoever interrupts this may start it again, and should not have to wait until the lease expires.
            with anyio.move_on_after(2, shield=True):
                await app.pipeline.lease.release()
            raise


class Cost(NamedTuple):
    """What is asked of a model: how often, and in how many tokens."""

    calls: int
    input_tokens: int
    output_tokens: int


async def estimate(app: App) -> dict[str, Any]:
    """Calls, tokens and costs; of what is not in the tree yet, as it would be cut now; of records, those there are."""
    chosen = app.settings.summarizer
    planned = await _planned(app) if chosen.kind != "extractive" else []
    records = await app.upgrades.records.waiting(_EVERYTHING) if app.upgrades else []
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


async def summarize(app: App, options: argparse.Namespace) -> int:
    """Print the summary of a file, or of standard input for `-`."""
    # A file is no event: what goes to a model, or from here into another file, is cleared of secrets now.
    text = redact(_read(options.file))
    prior = redact(_read(options.prior)) if options.prior else None
    result, written_by, note = await _summarized(app, text, prior, options.type)
    shape = _shape(result, written_by, options) | {"note": note}
    if options.json:
        return output.document(shape)
    if options.markdown:
        return output.text(_markdown(shape))
    if result.summary is None:
        return output.text(f"Too short to summarize ({result.input_tokens} tokens).")
    return output.text(result.summary)


async def _summarized(
    app: App, text: str, prior: str | None, content_type: str
) -> tuple[SummaryResult, str, str | None]:
    """By the model that is set, or, if it cannot, in the text's own sentences, with the reason why."""
    note = None
    if app.caller:
        writer = ModelWriter(app.caller)
        try:
            result = await AdaptiveSummarizer(writer, tokens.count).summarize(text, prior, content_type)
        except SummarizerError as error:
            note = str(error)
            logger.warning("%s The summary is extractive.", error)
        else:
            return result, writer.written_by, None
    plain = PlainWriter()
    return await AdaptiveSummarizer(plain, tokens.count).summarize(text, prior, content_type), plain.written_by, note


def _read(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"{name} does not exist. Name a text file, or - for standard input.") from None
    except OSError as error:
        raise UsageError(f"{name or 'A file without a name'} cannot be read: {error.strerror}.") from None
    text = data.decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") * 20 > len(text):
        raise UsageError(f"{name} is no text in UTF-8. Name a text file, or - for standard input.")
    return text


def _shape(result: SummaryResult, written_by: str, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "level": result.level.value,
        "summary": result.summary,
        "hierarchical": asdict(result.hierarchical) if result.hierarchical else None,
        "input_tokens": result.input_tokens,
        "output_tokens": result.output_tokens,
        "compression_ratio": result.compression_ratio,
        "content_type": options.type,
        "written_by": written_by if result.summary is not None else None,
    }


def _markdown(shape: dict[str, Any]) -> str:
    """The summary as Markdown, with what is known about it in front."""
    front = {
        "role": "summary",
        "summary_level": shape["level"],
        "content_type": shape["content_type"],
        "input_tokens": shape["input_tokens"],
        "output_tokens": shape["output_tokens"],
        "compression_ratio": shape["compression_ratio"],
        "written_by": shape["written_by"] or "nobody",
        "created_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    lines = [f"{key}: {_yaml(value)}" for key, value in front.items()]
    return "\n".join(["---", *lines, "---", "", shape["summary"] or ""])


def _yaml(value: Any) -> str:
    return str(value) if isinstance(value, int | float) else '"' + str(value).replace('"', "'") + '"'
