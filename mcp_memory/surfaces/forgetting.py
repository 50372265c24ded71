"""Forgetting, as a command and as an agent's tool: says what would go, asks, and then leaves no trace of it."""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyio import to_thread

from mcp_memory.adapters.sqlite.forgetting import Forgotten, Wish, forget, speaks_of
from mcp_memory.app import App
from mcp_memory.domain.ids import parse_ulid
from mcp_memory.domain.safe import safe
from mcp_memory.errors import NotFound, OutOfReach, UsageError
from mcp_memory.navigate.names import grip_key, session_name
from mcp_memory.surfaces import output
from mcp_memory.surfaces.writing import until_idle

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context
    from mcp_types import InputRequiredResult

#: From this version on a question to the user is the result of a call, before it a request of the server's own.
_ASKS_BY_RESULT = "2026-07-28"
_ERASE = "erase"
#: Nothing to fill in: to accept is to agree.
_YES_OR_NO: dict[str, Any] = {"type": "object", "properties": {}}
#: Characters of a text by which events are forgotten: fewer would take much that is not meant.
SHORTEST_MATCH = 3


async def run(app: App, options: argparse.Namespace) -> int:
    wish = await wish_of(app, options)
    with output.spinner("Looking for it", enabled=not options.json):
        found = await carry_out(app, wish, dry_run=True)
    if options.dry_run or not (found.events or found.inbox):
        return _tell(options, found, done=False)
    if not options.yes and not _agreed(found):
        raise UsageError(
            f"{found.events} events would be forgotten for good. Say so with --yes, or look with --dry-run."
        )
    with output.spinner("Forgetting", enabled=not options.json):
        found = await carry_out(app, wish, dry_run=False)
    return _tell(options, found, done=True)


async def wish_of(app: App, options: argparse.Namespace) -> Wish:
    if options.match is not None and len(options.match.strip()) < SHORTEST_MATCH:
        raise UsageError(f"--match takes at least {SHORTEST_MATCH} characters, since it forgets whatever holds them.")
    before = app.answers.when(options.before)
    return Wish(
        session_id=options.session,
        event_key=await key_of(app, options.event) if options.event else None,
        project=options.project,
        before_ms=before.start_ms if before else None,
        match=options.match,
    )


async def key_of(app: App, name: str) -> bytes:
    """The key of an event, by its own id or by the id of a grip on it or on a part of it."""
    if not name.strip().lower().startswith("grip:"):
        return parse_ulid(name.strip())[1]
    key = await grip_key(app.library, name)
    record = await app.library.grip(key, 0, 0)
    return record.cited.key if record and record.cited else key


async def carry_out(app: App, wish: Wish, *, dry_run: bool) -> Forgotten:
    """Forget in database and spool, then build what is left anew."""
    if wish.project is not None and not await app.library.has_project(wish.project):
        raise NotFound(f"There is no project {wish.project!r} in memory; `mcp-memory projects` lists them.")
    found = await forget(app.database, wish, dry_run=dry_run)
    await to_thread.run_sync(_spool, app.settings.spool, wish, dry_run)
    if not dry_run:
        await until_idle(app)
        await app.database.scrub()
    return found


def _spool(folder: Path, wish: Wish, dry_run: bool) -> None:
    for path in folder.glob("*") if folder.is_dir() else ():
        if not dry_run and speaks_of(path.read_text("utf-8", "replace"), wish):
            path.unlink(missing_ok=True)


def _agreed(found: Forgotten) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"Forget {found.events} events of {found.sessions} sessions for good? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _tell(options: argparse.Namespace, found: Forgotten, *, done: bool) -> int:
    if options.json:
        return output.document(
            {"forgotten": done, "events": found.events, "sessions": found.sessions, "inbox": found.inbox}
        )
    verb = "Forgot" if done else "Would forget" if found.events or found.inbox else "Nothing to forget:"
    return output.text(f"{verb} {found.events} events of {found.sessions} sessions.")


async def wish_of_agent(app: App, grip_id: str | None, session_id: str | None, match: str | None) -> tuple[Wish, str]:
    """What is to be forgotten, and what to call it when the user is asked."""
    given = [value for value in (grip_id, session_id, match) if value]
    if len(given) != 1 or (match and len(match.strip()) < SHORTEST_MATCH):
        raise UsageError(f"Give one of grip_id, session_id or match (at least {SHORTEST_MATCH} characters).")
    view = await app.answers.view()
    if not grip_id:
        if view.alone:
            raise OutOfReach(
                "The user's setting [privacy] isolate is on: over MCP only single events of this project are erased, "
                "by grip_id. The user can erase sessions and texts with `mcp-memory forget` on the command line."
            )
        if match:
            return Wish(match=match), f"all that holds {safe(match, 100)!r}"
        session = await session_name(app.chronicle, session_id or "")
        return Wish(session_id=session), f"the session {safe(session, 100)}"
    key = await key_of(app, grip_id)
    record = await app.library.grip(key, 0, 0)
    if record and record.cited:
        view.admit(record.cited.project)
    return Wish(event_key=key), f"“{safe(record.excerpt, 200)}”" if record else grip_id[:80]


async def agreement(
    ctx: Context[None, Any], question: str
) -> Literal["accept", "decline", "cancel", "unasked"] | InputRequiredResult:
    """What the user says to a question, in the way of the client's protocol; "unasked" if the client cannot ask.

    From 2026-07-28 on the question is the answer to the call, which the client repeats with what the user said. It
    counts only for the very question that was shown: what would be erased may have grown meanwhile.
    """
    # The command line does without the protocol.
    from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
    from mcp_types.version import is_version_at_least

    able = ctx.client_capabilities.elicitation if ctx.client_capabilities else None
    if able is None or (able.form is None and able.url is not None):
        return "unasked"
    if is_version_at_least(ctx.protocol_version or "", _ASKS_BY_RESULT):
        state = hashlib.sha256(question.encode()).hexdigest()
        answer = (ctx.input_responses or {}).get(_ERASE)
        if isinstance(answer, ElicitResult) and ctx.request_state == state:
            return answer.action
        params = ElicitRequestFormParams(message=question, requested_schema=_YES_OR_NO)
        return InputRequiredResult(input_requests={_ERASE: ElicitRequest(params=params)}, request_state=state)
    if not ctx.session.can_send_request:
        return "unasked"
    answered: ElicitResult = await ctx.session.elicit_form(question, _YES_OR_NO, ctx.request_id)
    return answered.action
