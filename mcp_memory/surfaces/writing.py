"""The commands that write: import, process, demo."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio

from mcp_memory import sample
from mcp_memory.app import App
from mcp_memory.capture.project import detect
from mcp_memory.clients.jsonl import told_of
from mcp_memory.clients.port import of_user
from mcp_memory.domain.events import Captured
from mcp_memory.domain.toc import Level
from mcp_memory.errors import LeaseLost, UsageError
from mcp_memory.install.catalog import project_root
from mcp_memory.pipeline.importing import Imported, import_files
from mcp_memory.pipeline.loop import Done
from mcp_memory.store.port import Intake
from mcp_memory.store.sqlite.projects import merge, rename, slugify, trust
from mcp_memory.store.sqlite.rebuild import rebuild, system_timezone
from mcp_memory.surfaces import output
from mcp_memory.surfaces.estimating import estimate
from mcp_memory.surfaces.sources import find_sources, laid_out, looked_for

_RETRY_SECONDS = 0.25
_SHOWN_NODES = 200
_CONNECT = """
Try: {program} search "refresh token" --project '*'
     {program} timeline "last week" --project '*'

Connect Claude Code, with hooks:  {program} install claude-code
Connect Cursor, with hooks:       {program} install cursor
The server alone, by hand:        claude mcp add memory -- {program} serve
                                  ~/.cursor/mcp.json:
{{"mcpServers": {{"memory": {entry}}}}}"""


async def load(app: App, options: argparse.Namespace) -> int:
    home = of_user(app.settings.client_folders)
    shown = not options.json
    with ExitStack() as stack:
        with output.spinner("Looking for history", enabled=shown):
            # Whoever interrupts it does not wait for a pipe that says nothing.
            paths, files = await anyio.to_thread.run_sync(
                stack.enter_context, laid_out(options.paths), abandon_on_cancel=True
            )
            sources, unknown = await anyio.to_thread.run_sync(find_sources, home, paths, options.client, files)
        root = await app.library.root_of(options.project) if options.project else None
        with output.progress("Importing", enabled=shown) as progress:
            result = await import_files(
                app.log,
                sources,
                app.intaker,
                project=options.project or "",
                project_root=root or "",
                dry_run=options.dry_run,
                passing=files.names,
                progress=progress,
            )
    result.skipped = [files.called(bad) for bad in (*unknown, *result.skipped)]
    shape = import_shape(result, dry_run=options.dry_run)
    if not (result.events_new or result.events_known or any(bad.line for bad in result.skipped)):
        shape["hint"] = looked_for(home, options.paths, options.client)
    return output.document(shape) if options.json else output.imported(shape)


def import_shape(result: Imported, *, dry_run: bool) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "files": result.files,
        "events_new": result.events_new,
        "events_known": result.events_known,
        "skipped": [{"path": bad.path, "line": bad.line, "reason": bad.reason} for bad in result.skipped],
        "notes_as_events": result.notes,
        "seconds": result.seconds,
    }
    if dry_run:
        shape |= {"dry_run": True, "projects": result.projects, "months": dict(sorted(result.months.items()))}
    return shape


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
    if options.json and options.set_aside_corrupt:
        shape["salvaged"] = options.salvaged
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


async def change_projects(app: App, options: argparse.Namespace) -> int:
    if options.action == "trust":
        return await _trust(app, options)
    if len(options.names) != 2:
        raise UsageError(f"`projects {options.action}` takes two slugs, the old one and the new one.")
    old, new = options.names
    if options.action == "rename":
        new = await rename(app.database, old, new)
    else:
        await merge(app.database, old, new)
        await until_idle(app)
    shape = {"action": options.action, "from": old, "to": new}
    return output.document(shape) if options.json else output.text(f"{old} is {new} now.")


async def _trust(app: App, options: argparse.Namespace) -> int:
    """The user's consent that what is captured in this directory belongs to the project whose name it claims."""
    if len(options.names) != 1:
        raise UsageError("`projects trust` takes one name, the one that .mcp-memory.toml in this directory claims.")
    place, (name,) = detect(str(project_root()), {}), options.names
    if not place.label or slugify(place.label) != slugify(name):
        claimed = f"claims {place.label!r}" if place.label else "claims no name"
        file = Path(place.root) / ".mcp-memory.toml"
        raise UsageError(f'{file} {claimed}. Write project = "{name}" there first, or run this where it is written.')
    # What waits was captured before the user agreed.
    await until_idle(app)
    claim = await trust(app.database, place.root, place.label)
    if claim.owner:
        await until_idle(app)
    if options.json:
        project = claim.owner or slugify(name)
        shape = {"action": "trust", "project": project, "root": place.root, "changed": bool(claim.owner)}
        return output.document(shape)
    if not claim.owner:
        return output.text(f"No other project has the name {name}, or it counts here already: nothing to do.")
    told = f"From the next session on, what is captured in {place.root} belongs to {claim.owner}, {claim.whose}, "
    told += "and agents there read it."
    if claim.own:
        told += f" Until now it was {claim.own}: `mcp-memory projects merge {claim.own} {claim.owner}` joins that too."
    return output.text(told)


async def demo(app: App, options: argparse.Namespace) -> int:
    """A first look: the sample history if memory is empty, the tree, and how to connect a client."""
    counts = await app.library.counts()
    if not counts.events:
        await load_sample(app)
    await until_idle(app)
    facts = {"loaded": not counts.events, **(await _overview(app))}
    if options.json:
        return output.document(facts)
    from mcp_memory.navigate import browse

    output.text("Loaded the sample history." if not counts.events else "This memory already holds history.")
    scope = await app.answers.scope("*")
    output.tree(await browse.outline(app.library, None, Level.DAY, _SHOWN_NODES), scope)
    words = _program()
    entry = {"command": words[0], "args": [*words[1:], "serve"]}
    return output.text(_CONNECT.format(program=shlex.join(words), entry=json.dumps(entry)))


def _program() -> list[str]:
    """How the user can call this program from anywhere."""
    if shutil.which("mcp-memory"):
        return ["mcp-memory"]
    script = Path(sys.argv[0]).absolute()
    return [str(script)] if script.stem == "mcp-memory" else [sys.executable, "-m", "mcp_memory"]


async def load_sample(app: App) -> int:
    """Put the sample history into memory, moved so that it ends in the last days."""
    sessions: dict[tuple[str, str], list[Captured]] = {}
    for line in sample.lines(app.answers.now):
        told = told_of(line)
        sessions.setdefault((told.event.session_id, told.project), []).append(told.event)
    intakes = [Intake(tuple(app.intaker.prepare(events)), "", project) for (_, project), events in sessions.items()]
    return await app.log.add(intakes)


async def _overview(app: App) -> dict[str, Any]:
    counts = await app.library.counts()
    return {"projects": counts.projects, "sessions": counts.sessions, "events": counts.events, "nodes": counts.nodes}
