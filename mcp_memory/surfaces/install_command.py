"""`install` and `uninstall`: registering the hook and the server with agent clients, and taking all of it back."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from mcp_memory.clients.port import Folders, of_user
from mcp_memory.config import Settings
from mcp_memory.errors import UsageError
from mcp_memory.install import apply as making
from mcp_memory.install.apply import Change, Record
from mcp_memory.install.catalog import CLIENTS, PROJECT, SECOND_NAME, USER, Client, project_root, this_installation
from mcp_memory.surfaces import output

_WORDS = {
    False: {"created": "Created", "changed": "Changed", "removed": "Removed", "restored": "Restored"},
    True: {
        "created": "Would create",
        "changed": "Would change",
        "removed": "Would remove",
        "restored": "Would restore",
    },
}


def install(settings: Settings, options: argparse.Namespace) -> int:
    """Register with the named client, or with every one found."""
    home = of_user(settings.client_folders)
    root = _root(options.scope, home)
    present = [client for client in CLIENTS.values() if options.scope in client.hooks and client.is_here(home)]
    chosen = _chosen(options, present, "install")
    launch, record, now_ms = this_installation(settings.home), Record(settings.home), time.time_ns() // 1_000_000
    plans = [(client, making.plan_install(client, options.scope, root, launch, record, now_ms)) for client in chosen]
    if not options.dry_run:
        for _, plan in plans:
            making.install(plan, record)
    return _tell(plans, options, options.scope)


def uninstall(settings: Settings, options: argparse.Namespace) -> int:
    """Undo whatever was installed for the named client, or for every one, wherever it was installed."""
    record = Record(settings.home)
    roots = [(USER, of_user(settings.client_folders)), (PROJECT, Folders(project_root()))]
    planned = {client.name: making.plan_uninstall(client, roots, record) for client in _named(options)}
    chosen = _chosen(options, [CLIENTS[name] for name, plan in planned.items() if plan], "uninstall")
    plans = [(client, planned[client.name]) for client in chosen]
    if not options.dry_run:
        for _, plan in plans:
            making.uninstall(plan, record)
    return _tell(plans, options, None)


def _root(scope: str, home: Folders) -> Folders:
    if scope == USER:
        return home
    root = project_root()
    if root == home.root:
        raise UsageError("The home directory is no project: use --scope user, or run this in the project's directory.")
    return Folders(root)


def _named(options: argparse.Namespace) -> Sequence[Client]:
    return [CLIENTS[options.client]] if options.client else list(CLIENTS.values())


def _chosen(options: argparse.Namespace, present: Sequence[Client], verb: str) -> Sequence[Client]:
    """The client that was named; else all that are present, once the user has agreed."""
    if options.client:
        return _named(options)
    names = ", ".join(client.name for client in present)
    if not present:
        raise UsageError(f"There is no client to {verb}. Name one: {', '.join(CLIENTS)}.")
    if options.yes or options.dry_run:
        return present
    answer = output.agreed(f"{verb.capitalize()} for {names}?")
    if answer is None:
        raise UsageError(f"Found: {names}. Name one, or pass --yes to {verb} all of them.")
    if not answer:
        raise UsageError("Nothing was changed.")
    return present


def _tell(plans: Sequence[tuple[Client, Sequence[Change]]], options: argparse.Namespace, scope: str | None) -> int:
    if options.json:
        shapes = [_shape(client, plan, scope, options.dry_run) for client, plan in plans]
        return output.document(shapes[0] if options.client else {"clients": shapes})
    for client, plan in plans:
        for change in plan:
            _tell_change(change, options.dry_run)
        if all(change.kind == "unchanged" for change in plan):
            output.text(f"{client.name}: nothing to change.")
        elif scope and not options.dry_run:
            output.text(client.hint)
    return 0


def _tell_change(change: Change, dry_run: bool) -> None:
    if change.kind == "unchanged":
        return
    output.text(f"{_WORDS[dry_run][change.kind]} {change.path}")
    if dry_run:
        output.text(change.diff())
    if change.after is not None and f'"{SECOND_NAME}": {{'.encode() in change.after:
        output.text(f"Another server is called memory there; ours is called {SECOND_NAME}.")


def _shape(client: Client, plan: Sequence[Change], scope: str | None, dry_run: bool) -> dict[str, Any]:
    """Scope of an uninstall: the one scope that was undone, or both."""
    undone = {change.entry.scope for change in plan if change.entry}
    return {
        "client": client.name,
        "scope": scope or "+".join(sorted(undone, reverse=True)) or None,
        "files": [{"path": str(change.path), "change": change.kind} for change in plan],
        "dry_run": dry_run,
    }
