"""The `recall` command: what memory handed to agents by itself and on request, and what came of it."""

from __future__ import annotations

import argparse
from datetime import datetime

from mcp_memory.app import App
from mcp_memory.domain.handed import BRIEF, Handed, HandedQuery, HandedTotal
from mcp_memory.domain.text import safe
from mcp_memory.errors import UsageError
from mcp_memory.navigate.browse import session_name
from mcp_memory.navigate.overview import recalled, recalled_totals, row_shape, totals_shape
from mcp_memory.navigate.shapes import iso
from mcp_memory.surfaces import output
from mcp_memory.surfaces.output import Answer

_DAY_MS = 24 * 60 * 60 * 1000
_MOST_DAYS, _MOST_ROWS = 3_650, 500
#: Characters of a question, and of a session's name, in a line.
_ASKED, _NAME = 90, 12


async def recall(app: App, options: argparse.Namespace) -> Answer:
    if not 1 <= options.days <= _MOST_DAYS:
        raise UsageError(f"--days takes a number from 1 to {_MOST_DAYS:,}.")
    if not 1 <= options.limit <= _MOST_ROWS:
        raise UsageError(f"--limit takes a number from 1 to {_MOST_ROWS}.")
    project = (await app.answers.scope(options.project)).project
    if options.action == "list":
        return await _list(app, options, project)
    since = app.spending.now_ms() - options.days * _DAY_MS
    totals = await recalled_totals(app.store, app.inbox, since, project)
    if options.json:
        return {"project": project, "since": iso(since), "kinds": totals_shape(totals)}
    return _told(app, totals, options.days, project)


def _told(app: App, totals: list[HandedTotal], days: int, project: str | None) -> str:
    where = f"of {project}" if project else "of all projects"
    if not totals:
        return _nothing(app, f"in the last {days} days, {where}. `mcp-memory doctor` says whether they are connected")
    lines = [f"What memory handed to agents in the last {days} days, {where}:"]
    parts = ((True, "by itself, at the start of sessions"), (False, "when agents asked"))
    for unasked, title in parts:
        rows = [total for total in totals if (total.kind == BRIEF) is unasked]
        lines += ["", title] if rows else []
        lines += [
            f"  {safe(row.kind, 20):<16}{_times(row.times):>12}{row.tokens:>12,} tokens{_opened(row)}" for row in rows
        ]
    times, tokens = sum(row.times for row in totals), sum(row.tokens for row in totals)
    opened = sum(row.opened for row in totals)
    lines += ["", f"{_times(times)} in all, {tokens:,} tokens. Agents opened something that {opened:,} of these named."]
    return "\n".join([*lines, "`mcp-memory recall list` shows the latest."])


def _nothing(app: App, when: str) -> str:
    if not app.settings.recall.keep_days:
        return "Nothing is kept of what agents are handed: the setting [recall] keep_days is 0."
    return f"Memory handed nothing to agents {when}."


def _times(times: int) -> str:
    return f"{times:,} time" + "s" * (times != 1)


def _opened(total: HandedTotal) -> str:
    return f"   {total.opened:,} opened ({100 * total.opened // total.times}%)" if total.opened else ""


async def _list(app: App, options: argparse.Namespace, project: str | None) -> Answer:
    session = await session_name(app.store, options.session) if options.session else None
    query = HandedQuery(options.kind, session, before=options.before, limit=options.limit)
    page = await recalled(app.store, app.inbox, query, project)
    if options.json:
        return {"project": project, "rows": [row_shape(*row) for row in page.rows], "more": page.more}
    if not page.rows:
        return _nothing(app, "that fits. Leave a limit out, or see all projects with `--project '*'`")
    lines = [line for row, slug in page.rows for line in _line(app, row, slug if project is None else "")]
    more = f"`mcp-memory recall list --before {page.more}` shows earlier ones." if page.more else ""
    return "\n".join([*lines, *([more] if more else [])])


def _line(app: App, row: Handed, project: str) -> list[str]:
    """When, what and how much; below that what was asked, and what came of it."""
    at = datetime.fromtimestamp(row.at_ms / 1000, app.zone).strftime("%Y-%m-%d %H:%M")
    session = f"session {safe(row.session, _NAME)}" if row.session else ""
    facts = [safe(row.client, 30), safe(project, 40), session, f"{row.tokens:,} tokens", f"named {len(row.ids)}"]
    if row.opened_ms is not None:
        facts.append("opened")
    head = f"{at}  {output.bold(safe(row.kind, 20))}  {' · '.join(filter(None, facts))}"
    return [head, *([f"    {safe(row.asked, _ASKED)}"] if row.asked else [])]
