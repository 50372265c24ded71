"""The commands about context that fits: context, snapshot, session, compact."""

from __future__ import annotations

import argparse
from typing import Any

from mcp_memory.app import App
from mcp_memory.domain.records import body_lines
from mcp_memory.navigate.context import Context, Request, levels_of
from mcp_memory.navigate.sessions import record_shape, session_shape
from mcp_memory.pipeline.compact import Compacted
from mcp_memory.surfaces import output

SESSION_BUDGET = 2_000


async def context(app: App, options: argparse.Namespace) -> int:
    request = Request(
        focus=options.focus,
        query=options.query,
        budget_tokens=options.budget,
        order=options.order,
        include_memo=not options.no_memo,
        levels=levels_of(options.levels.split(",") if options.levels is not None else None),
        detailed=options.detailed,
        top_k=options.top_k,
        since=options.since,
        at=options.at,
        project=options.project,
    )
    if not options.json:
        page = await app.contexts.page(request)
        if not page.whole:
            output.too_small(options.budget)
        return output.text(page.text)
    found = await app.contexts.build(request)
    if not (found.blocks or found.kept or found.removed or options.since):
        output.too_small(options.budget)
    return output.document(context_shape(found))


def context_shape(found: Context) -> dict[str, Any]:
    return {
        "snapshot": found.snapshot,
        "blocks": [
            {
                "kind": block.kind,
                "anchor": block.anchor,
                "version": block.version,
                "text": block.text,
                "tokens": block.tokens,
            }
            for block in found.blocks
        ],
        "tokens": found.tokens,
        "removed": list(found.removed),
        "kept": list(found.kept),
    }


async def snapshot(app: App, options: argparse.Namespace) -> int:
    name = await app.contexts.snapshot()
    return output.document({"snapshot": name}) if options.json else output.text(name)


async def session(app: App, options: argparse.Namespace) -> int:
    budget = SESSION_BUDGET if options.budget is None else options.budget
    view, page = await app.sessions.page(options.id, budget)
    if not options.json:
        return output.answer(app.answers.renderer, page, budget)
    fitting = app.sessions.fitting(view, budget)
    if not (fitting.records or fitting.tail):
        output.too_small(budget)
    return output.document(session_shape(fitting, page.tokens))


async def compact(app: App, options: argparse.Namespace) -> int:
    result = await app.pipeline.compactor.compact(options.id, force=options.force)
    if options.json:
        return output.document(await _compacted_shape(app, options.id, result))
    if result.record is None:
        usage = f"{result.usage.tokens:,} of {result.usage.window:,} tokens"
        return output.text(f"No record was made: {result.decision.reason} ({usage}). --force makes one all the same.")
    return output.text("\n".join([f"Record {result.record.id}:", *body_lines(result.record.body)]))


async def _compacted_shape(app: App, session_id: str, result: Compacted) -> dict[str, Any]:
    record = None
    if result.record is not None:
        # Read back, so that it names the events it was made from.
        made = (await app.sessions.view(session_id)).records
        record = next((record_shape(one) for one in made if one.id == result.record.id), None)
    return {
        "compacted": result.record is not None,
        "reason": result.decision.reason,
        "record": record,
        "usage": {
            "tokens": result.usage.tokens,
            "window": result.usage.window,
            "ratio": round(result.usage.ratio, 3),
        },
    }
