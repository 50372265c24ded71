"""`process --set-aside-corrupt`: a damaged database is renamed, and what can be read from it goes into a new one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_memory.config import Settings
from mcp_memory.errors import UsageError
from mcp_memory.store.sqlite.aside import set_aside as move
from mcp_memory.store.sqlite.rebuild import system_timezone
from mcp_memory.store.sqlite.salvage import Salvaged
from mcp_memory.surfaces import output

_IMPORT = "`mcp-memory import` loads what the transcripts of your agents still hold of it."


def set_aside(settings: Settings, options: argparse.Namespace) -> None:
    """Do it, say what came of it, and keep that for the command's document."""
    if options.dry_run:
        raise UsageError("--dry-run does nothing, so it cannot be given together with --set-aside-corrupt.")
    with output.spinner("Reading the damaged database", enabled=not options.json):
        path, found = move(settings.database, settings.calendar.timezone or system_timezone())
    notes = list(sentences(path, found))
    options.salvaged = shape(path, found, notes)
    if not options.json:
        output.text("\n".join(notes))


def shape(path: Path, found: Salvaged, notes: list[str]) -> dict[str, Any]:
    return {
        "path": str(path),
        "events": found.events,
        "lost": found.lost,
        "complete": found.sure and not found.lost,
        "sessions": found.sessions,
        "projects": found.projects,
        "inbox": found.inbox,
        "forgotten": found.forgotten,
        "tree": found.tree,
        "damaged": list(found.damaged),
        "notes": notes,
    }


def sentences(path: Path, found: Salvaged) -> Iterator[str]:
    """What a person should know, the worst first."""
    if found.nothing:
        yield f"Nothing could be read from the damaged database: memory is empty. {_IMPORT}"
    else:
        yield _brought(found)
        yield from _missing(found)
    yield (
        f"The damaged one is {path}, as it was. It holds what was in memory, and `mcp-memory forget` "
        "does not reach it: delete it once all is well."
    )


def _brought(found: Salvaged) -> str:
    brought = f"Brought over {found.events:,} events of {found.sessions:,} sessions in {found.projects:,} projects"
    if found.lost:
        least = "" if found.sure else "at least "
        return f"{brought}; {least}{found.lost:,} events could not be read. {_IMPORT}"
    if not found.sure:
        return f"{brought}; how many could not be read cannot be told. {_IMPORT}"
    return f"{brought}: all there were."


def _missing(found: Salvaged) -> Iterator[str]:
    if "forgotten" in found.damaged:
        yield (
            "The list of what was forgotten could not be read in full. An import may bring some of it back: "
            "look for it afterwards, and forget it again."
        )
    if "inbox" in found.damaged:
        yield "Of what was captured last and not yet taken up, something may be missing."
    if not found.zone:
        yield "The time zone of its days could not be read; they are those of this machine, or of your settings, now."
    if "session" in found.damaged or "project" in found.damaged:
        yield "Sessions whose name or project could not be read are found under `recovered` in `mcp-memory projects`."
