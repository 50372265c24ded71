"""The forget command: says what would go, asks, and then leaves no trace of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from anyio import to_thread

from mcp_memory.adapters.sqlite.forgetting import Forgotten, Wish, forget, speaks_of
from mcp_memory.app import App
from mcp_memory.domain.ids import parse_ulid
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.navigate.names import grip_key
from mcp_memory.surfaces import output
from mcp_memory.surfaces.writing import until_idle

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
