"""`install` and `uninstall`: registering the hook and the server with agent clients, and taking all of it back."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mcp_memory.clients import installable, user_folders
from mcp_memory.clients.port import PROJECT, USER, Client, Folders
from mcp_memory.config import Settings, environment
from mcp_memory.errors import UsageError
from mcp_memory.install import apply as making
from mcp_memory.install.apply import FileChange, InstallRecord
from mcp_memory.install.catalog import SECOND_NAME, SERVER, project_root, this_installation
from mcp_memory.surfaces import output
from mcp_memory.surfaces.output import Answer

#: How an event's hooks begin in a diff of a client's settings.
_EVENT = re.compile(r'(?P<margin>[+-] *)"(?P<event>\w+)": \[')


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
        if not changes:
            lines.append(f"{client.name}: nothing to change.")
            continue
        lines.append(_sentence(changes, installing=scope is not None, planned=options.dry_run))
        if any(_has_second_name(change) for change in changes):
            lines.append(f"Another server is called {SERVER} there; ours is called {SECOND_NAME}.")
        if options.dry_run:
            lines += [f"\n{folded(change.diff())}" for change in changes]
        elif scope:
            lines.append(client.registered.hint)
        elif all(change.restored for change in changes):
            lines.append("What was there before install is back, byte for byte.")
    return "\n".join(lines)


def _sentence(changes: Sequence[FileChange], *, installing: bool, planned: bool) -> str:
    """What is added to which files, brought up to date in them, or taken out of them."""
    old = [making.found(change.path, change.before) for change in changes]
    new = [making.found(change.path, change.after) for change in changes]
    has_any = any(old)
    held = new if installing else old
    hooks, servers = sum(len(one.hooks) for one in held), sum(len(one.servers) for one in held)
    name = SECOND_NAME if any(_has_second_name(change) for change in changes) else SERVER
    things = [f"{hooks} hook{'s' * (hooks != 1)}"] if hooks else []
    things += [f"the MCP server `{name}`"] if servers else []
    things += [f"the setting `{top}`" for one in held for top in one.top]
    what, where = _listed(things) or "what install left", _listed([_shown(change.path) for change in changes])
    if not installing:
        told = f"Would take {what} out of {where}" if planned else f"Took {what} out of {where}"
    elif has_any:
        told = f"{'Would bring' if planned else 'Brought'} {what} up to date in {where}"
    else:
        told = f"{'Would add' if planned else 'Added'} {what} to {where}"
    return f"{told}; nothing else {'changes' if planned else 'was changed'}."


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _shown(path: Path) -> str:
    """The file's name, short where it lies below the home directory."""
    home = user_folders(environment()).root
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)


def _has_second_name(change: FileChange) -> bool:
    entry = f'"{SECOND_NAME}": {{'.encode()
    return any(data is not None and entry in data for data in (change.before, change.after))


def folded(diff: str) -> str:
    """A diff in which hooks that differ by their event alone are shown once, with the names of the other events."""
    lines = diff.splitlines()
    shown: list[str] = []
    at = 0
    while at < len(lines):
        block = _hook_at(lines, at)
        if block is None:
            shown.append(lines[at])
            at += 1
            continue
        shown += lines[at : block.end]
        at, others = block.end, list[str]()
        while (twin := _hook_at(lines, at)) and twin.body == block.body:
            others.append(twin.event + (f" ({twin.timeout})" if twin.timeout != block.timeout else ""))
            at = twin.end
        if others:
            shown.append(f"{block.margin}… and the same for {', '.join(others)}")
    return "\n".join(shown)


class _HookBlock(NamedTuple):
    """The lines of one event's hook in a diff; the body is what all events have in common."""

    margin: str
    event: str
    body: tuple[str, ...]
    timeout: str
    end: int


def _hook_at(lines: Sequence[str], at: int) -> _HookBlock | None:
    """The hook that a diff adds or removes from this line on, if one begins there."""
    head = _EVENT.fullmatch(lines[at]) if at < len(lines) else None
    if head is None:
        return None
    body: list[str] = []
    for number in range(at + 1, len(lines)):
        line = lines[number]
        if line[1:].rstrip(",") == f"{head['margin'][1:]}]":
            # Where the text goes on alike, a diff may take the last line for one that was there before.
            is_own = line.startswith(head["margin"][0])
            timeout = next((line.strip(" +-,") for line in body if '"timeout"' in line), "")
            common = tuple(line for line in body if '"timeout"' not in line)
            return _HookBlock(head["margin"], head["event"], common, timeout.replace('"', ""), number + is_own)
        if not line.startswith(head["margin"]):
            return None
        body.append(line)
    return None
