"""`share` and `unshare`: what of the memory the team may see. All is private that was not shared by name."""

from __future__ import annotations

import argparse
from datetime import datetime

from mcp_memory.app import App
from mcp_memory.domain.events import TIMES
from mcp_memory.domain.text import safe
from mcp_memory.errors import UsageError
from mcp_memory.navigate.browse import session_name
from mcp_memory.store.sharing_port import Amount, Chosen
from mcp_memory.surfaces import output
from mcp_memory.surfaces.output import Answer
from mcp_memory.surfaces.process_command import until_idle
from mcp_memory.surfaces.team.laptop_command import many, part_shape, shared_line
from mcp_memory.team.account import TeamAccount

#: How long the team's server is waited for while someone waits.
_BRIEFLY_SECONDS = 5.0


async def share(app: App, options: argparse.Namespace) -> Answer:
    """Share a project from now on, or a session as a whole; without either, list what is shared."""
    if not (options.slug or options.session):
        return await _listed(app, options)
    chosen = await _chosen(app, options)
    since_ms = _since(app, options)
    if not options.dry_run:
        await until_idle(app)  # what was captured until now is from before now
    amount = await app.store.share(chosen, since_ms, dry_run=True)
    question = _what_is_sent(app, chosen, since_ms, amount)
    shape = _shape(chosen, amount)
    if options.dry_run:
        return shape | {"dry_run": True} if options.json else question
    if not options.yes and not output.agreed(f"{question}\nShare it?"):
        raise UsageError(f"{question} Say so with --yes, or look with --dry-run.")
    amount = await app.store.share(chosen, since_ms, dry_run=False)
    if options.json:
        return _shape(chosen, amount) | {"dry_run": False}
    return f"{_name(chosen)} is shared. {_what_is_sent(app, chosen, since_ms, amount)}"


async def unshare(app: App, options: argparse.Namespace) -> Answer:
    """Make a project or session private again, and withdraw from the server what it has of it."""
    if not (options.slug or options.session):
        raise UsageError("Name a project, or a session with --session. `mcp-memory share` lists what is shared.")
    chosen = await _chosen(app, options)
    amount = await app.store.unshare(chosen, dry_run=True)
    told = f"{many(amount.events, 'event')} of {many(amount.sessions, 'session')} of {_name(chosen)}"
    if options.dry_run:
        return _shape(chosen, amount) | {"dry_run": True} if options.json else f"{told} would be private again."
    amount = await app.store.unshare(chosen, dry_run=False)
    with output.spinner("Telling the server", enabled=not options.json):
        await app.pusher.try_push(withdraw_only=True, patience=_BRIEFLY_SECONDS)
    waiting = await app.store.waiting()
    left = waiting.withdrawn + waiting.forgotten
    if options.json:
        return _shape(chosen, amount) | {"dry_run": False, "to_withdraw": left}
    if not amount.events:
        return f"{_name(chosen)} is private: the team has nothing of it, and gets nothing."
    there = "The team's server has given them back." if app.pusher.joined else "No server had to give anything back."
    if left:
        there = (
            f"The server is told to give {many(left, 'event')} back as soon as it can be reached; `mcp-memory team "
            "status` says what waits."
        )
    return f"{told} are private again, and so is what comes. {there}"


async def _listed(app: App, options: argparse.Namespace) -> Answer:
    if options.since or options.dry_run:
        raise UsageError("Name the project to share, or a session with --session.")
    parts = await app.store.shared()
    if options.json:
        return {"shared": [part_shape(part) for part in parts]}
    if not parts:
        return (
            "Nothing is shared: all of this memory is private. `mcp-memory share PROJECT` shares a project from now on."
        )
    return "\n".join(map(shared_line, parts))


async def _chosen(app: App, options: argparse.Namespace) -> Chosen:
    if options.slug and options.session:
        raise UsageError("Name a project or a session, not both.")
    if options.session:
        return Chosen(session_id=await session_name(app.store, options.session))
    return Chosen(project=options.slug)


def _since(app: App, options: argparse.Namespace) -> int:
    """A project is shared from now on, a session as a whole, unless a time is named."""
    time = app.answers.when(options.since)
    if time is not None:
        return time.start_ms
    return TIMES.start if options.session else app.clock.now_ms()


def _what_is_sent(app: App, chosen: Chosen, since_ms: int, amount: Amount) -> str:
    """In a sentence, what leaves this machine, and to where."""
    account = TeamAccount.load(app.settings)
    where = f"to the team's server {account.url}, where you are {account.name}" if account else "to a team's server"
    before = f"{many(amount.events, 'event')} of {many(amount.sessions, 'session')}"
    if chosen.project:
        at = datetime.fromtimestamp(since_ms / 1000, app.zone).strftime("%Y-%m-%d %H:%M")
        before = f"What is said in it from {at} on, {before} so far,"
    else:
        before = f"{before}, and what is said in it from now on,"
    later = "" if account else " once you have joined one (`mcp-memory team join URL`)"
    return f"{before} goes {where}{later}. Notes and what stands between <private> tags never do."


def _name(chosen: Chosen) -> str:
    return safe(chosen.project or f"session {chosen.session_id}", 100)


def _shape(chosen: Chosen, amount: Amount) -> dict[str, object]:
    return {
        "project": chosen.project or None,
        "session_id": chosen.session_id or None,
        "sessions": amount.sessions,
        "events": amount.events,
    }
