"""`summarize FILE`: the adaptive summarizer on any text."""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp_memory.app import App
from mcp_memory.capture.redaction import redact
from mcp_memory.errors import NotFound, SummarizerError, UsageError
from mcp_memory.models import tokens
from mcp_memory.models.adaptive import AdaptiveSummarizer, PlainWriter, SummaryResult
from mcp_memory.models.summarizer import ModelWriter
from mcp_memory.surfaces import output

logger = logging.getLogger(__name__)


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
