"""`summarize FILE`: the adaptive summarizer on any text. And what the backlog of a model would cost."""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp_memory.adapters import tokens
from mcp_memory.adapters.sqlite.upgrades import SqliteUpgrades
from mcp_memory.adapters.summarizers.models.adaptive import AdaptiveSummarizer, SummaryResult
from mcp_memory.adapters.summarizers.models.model_summarizer import ModelWriter
from mcp_memory.adapters.summarizers.models.plain import PlainWriter
from mcp_memory.app import App
from mcp_memory.domain.chunks import CHUNK_TOKENS, OVERLAP_TOKENS
from mcp_memory.domain.depth import Depth, depth_of
from mcp_memory.domain.toc import Level
from mcp_memory.errors import NotFound, SummarizerError, UsageError
from mcp_memory.surfaces import output

logger = logging.getLogger(__name__)

#: What goes with each text: the rules, the form of the answer, and the context before a segment.
_FRAME_TOKENS = 750
_ANSWER_TOKENS = {Level.SEGMENT: 350}
_PERIOD_ANSWER_TOKENS = 550


async def summarize(app: App, options: argparse.Namespace) -> int:
    """Print the summary of a file, or of standard input for `-`."""
    text = _read(options.file)
    prior = _read(options.prior) if options.prior else None
    result, written_by = await _summarized(app, text, prior, options.type)
    shape = _shape(result, written_by, options)
    if options.json:
        return output.document(shape)
    if options.markdown:
        return output.text(_markdown(shape))
    if result.summary is None:
        return output.text(f"Too short to summarize ({result.input_tokens} tokens).")
    return output.text(result.summary)


async def _summarized(app: App, text: str, prior: str | None, content_type: str) -> tuple[SummaryResult, str]:
    """By the model that is set, or, if it cannot, in the text's own sentences."""
    if app.caller:
        writer = ModelWriter(app.caller)
        try:
            result = await AdaptiveSummarizer(writer, tokens.count).summarize(text, prior, content_type)
        except SummarizerError as error:
            logger.warning("%s The summary is extractive.", error)
        else:
            return result, writer.written_by
    plain = PlainWriter()
    return await AdaptiveSummarizer(plain, tokens.count).summarize(text, prior, content_type), plain.written_by


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8", "replace")
    except FileNotFoundError:
        raise NotFound(f"{name} does not exist. Name a text file, or - for standard input.") from None
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}.") from None


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


async def estimate(app: App) -> dict[str, Any]:
    """What the model would be asked for the nodes that wait, without asking it. Segments not yet cut are not in it."""
    now_ms = app.clock.now_ms()
    waiting = await SqliteUpgrades(app.database).backlog(now_ms)
    chosen = app.settings.summarizer
    calls = input_tokens = output_tokens = 0
    if chosen.kind != "extractive":
        for level, size in waiting:
            asked = _calls(size)
            calls += asked
            input_tokens += size + asked * _FRAME_TOKENS
            output_tokens += asked * min(_ANSWER_TOKENS.get(level, _PERIOD_ANSWER_TOKENS), chosen.max_output_tokens)
    price = next((chosen.price_table[name] for name in chosen.preferred if name in chosen.price_table), None)
    cost = round((input_tokens * price[0] + output_tokens * price[1]) / 1_000_000, 4) if price else None
    counts = await app.library.counts()
    return {
        "dry_run": True,
        "summarizer": chosen.kind,
        "model": chosen.preferred[0] if chosen.preferred else None,
        "nodes": len(waiting) if calls else 0,
        "calls": calls,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cost": cost if calls else 0.0,
        "days": -(-(input_tokens + output_tokens) // chosen.daily_token_cap) if chosen.daily_token_cap and calls else 0,
        "inbox": counts.inbox,
        "unsummarized": counts.dirty_segments,
    }


def _calls(size: int) -> int:
    """How many questions a text of so many tokens takes."""
    depth = depth_of(size)
    if depth in (Depth.NONE, Depth.BRIEF, Depth.STANDARD):
        return 1
    chunks = -(-size // (CHUNK_TOKENS - OVERLAP_TOKENS))
    return chunks + 1 + (-(-chunks // 5) if depth is Depth.HIERARCHICAL else 0)
