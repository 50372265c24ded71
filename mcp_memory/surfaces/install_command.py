"""`install` and `uninstall`: registering the hook and the server with agent clients, and taking all of it back."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from mcp_memory.clients import installable, user_folders
from mcp_memory.clients.port import PROJECT, USER, Client, Folders
from mcp_memory.config import Settings, environment
from mcp_memory.errors import UsageError
from mcp_memory.install import apply as making
from mcp_memory.install.apply import FileChange, InstallRecord
from mcp_memory.install.catalog import SECOND_NAME, project_root, this_installation
from mcp_memory.surfaces import output
from mcp_memory.surfaces.output import Answer

_VERBS = {"created": "create", "changed": "change", "removed": "remove", "restored": "restore"}


def install(settings: Settings, options: argparse.Namespace) -> Answer:
    """Register with the named client, or with every one found."""
    home = root = user_folders(environment())
    if options.scope != USER:
        root = Folders(project_root())
        if root.root == home.root:
            raise UsageError(
                "The home directory is not a project: use --scope user, or run this in the project's directory."
            )
    fitting = [client for client in installable().values() if options.scope in client.registered.hooks]
    present = [client for client in fitting if client.is_here(home)]
    chosen = _chosen(options, present, "install")
    launch, record, now_ms = this_installation(settings.home), InstallRecord(settings.home), time.time_ns() // 1_000_000
    plans = [(client, making.plan_install(client, options.scope, root, launch, record, now_ms)) for client in chosen]
    if not options.dry_run:
        for _, plan in plans:
            making.install(plan, record)
    return _told(plans, options, options.scope)


def uninstall(settings: Settings, options: argparse.Namespace) -> Answer:
    """Undo whatever was installed for the named client, or for every one, wherever it was installed."""
    record = InstallRecord(settings.home)
    roots = [(USER, user_folders(environment())), (PROJECT, Folders(project_root()))]
    named = [installable()[options.client]] if options.client else list(installable().values())
    planned = {client.name: making.plan_uninstall(client, roots, record) for client in named}
    chosen = _chosen(options, [installable()[name] for name, plan in planned.items() if plan], "uninstall")
    plans = [(client, planned[client.name]) for client in chosen]
    if not options.dry_run:
        for _, plan in plans:
            making.uninstall(plan, record)
    return _told(plans, options, None)


def _chosen(options: argparse.Namespace, present: Sequence[Client], verb: str) -> Sequence[Client]:
    """The client that was named; else all that are present, once the user has agreed."""
    if options.client:
        return [installable()[options.client]]
    names = ", ".join(client.name for client in present)
    if not present:
        raise UsageError(f"There is no client to {verb}. Name one: {', '.join(installable())}.")
    if options.yes or options.dry_run:
        return present
    answer = output.agreed(f"{verb.capitalize()} for {names}?")
    if answer is None:
        raise UsageError(f"Found: {names}. Name one, or pass --yes to {verb} all of them.")
    if not answer:
        raise UsageError("Nothing was changed.")
    return present


def _told(
    plans: Sequence[tuple[Client, Sequence[FileChange]]], options: argparse.Namespace, scope: str | None
) -> Answer:
    """What was done, or would be. Of an uninstall: in the one scope that was undone, or in both."""
    if options.json:
        shapes: list[dict[str, Any]] = []
        for client, plan in plans:
            undone = {change.entry.scope for change in plan if change.entry}
            files = [{"path": str(change.path), "change": change.kind} for change in plan]
            where = scope or "+".join(sorted(undone, reverse=True)) or None
            shapes.append({"client": client.name, "scope": where, "files": files, "dry_run": options.dry_run})
        return shapes[0] if options.client else {"clients": shapes}
    lines = []
    for client, plan in plans:
        changes = [change for change in plan if change.kind != "unchanged"]
        for change in changes:
            verb = f"Would {_VERBS[change.kind]}" if options.dry_run else change.kind.capitalize()
            lines.append(f"{verb} {change.path}")
            if options.dry_run:
                lines.append(change.diff())
            if change.after is not None and f'"{SECOND_NAME}": {{'.encode() in change.after:
                lines.append(f"Another server is called memory there; ours is called {SECOND_NAME}.")
        if not changes:
            lines.append(f"{client.name}: nothing to change.")
        elif scope and not options.dry_run:
            lines.append(client.registered.hint)
    return "\n".join(lines)
