"""Whether the registrations with the clients work: complete, pointing here, and allowed to run."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_memory.clients.port import PROJECT, USER, Client, Folders
from mcp_memory.errors import MemoryFault, Problem
from mcp_memory.install import apply
from mcp_memory.install.catalog import HOME_VARIABLE, SECOND_NAME, EditError, FoundEntries, Launch
from mcp_memory.install.json_settings import load, value_at

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Registration:
    """What one scope's files hold of ours."""

    scope: str
    hooks: Path
    found: FoundEntries


def registrations(client: Client, home: Folders, project: Path) -> tuple[list[Registration], list[Problem]]:
    """Everything of ours in the client's files, and the files that cannot be read."""
    held: list[Registration] = []
    problems: list[Problem] = []
    for scope, root in ((USER, home), (PROJECT, Folders(project))):
        if scope == PROJECT and project == home.root:
            continue
        parts: list[FoundEntries] = []
        for path in client.settings_files(scope, root):
            try:
                parts.append(apply.found(path, apply.read(path)))
            except MemoryFault as error:
                fix = f"Correct {path}, then: mcp-memory install {client.name}"
                problems.append(Problem(f"{client.name}: {path} cannot be read", str(error.__cause__ or error), fix))
        hooks = {event: commands for part in parts for event, commands in part.hooks.items()}
        servers = [entry for part in parts for entry in part.servers]
        if hooks or servers:
            found = FoundEntries(hooks, servers, [place for part in parts for place in part.places])
            held.append(Registration(scope, client.path(root, client.registered.hooks[scope]), found))
    return held, problems


def is_connected(client: Client, held: list[Registration], home: Folders) -> bool:
    """Whether the client has our hook or server in any way."""
    return bool(held) or _has_plugin(client, home)


def check(client: Client, held: list[Registration], launch: Launch, home: Folders) -> list[Problem]:
    """What is wrong with the registrations of a client that is in use here."""
    name, mend = client.name, f"mcp-memory install {client.name}"
    hooked = any(registration.found.hooks for registration in held)
    if _has_plugin(client, home):
        why = "Every event is captured twice; the second is dropped, but both take time."
        fix = f"mcp-memory uninstall {name}"
        return [Problem(f"{name}: both the plugin and the settings have the hook", why, fix)] if hooked else []
    if not hooked:
        why = "The client is on this machine, but nothing it says is remembered."
        return [Problem(f"{name}: the hook is not registered", why, mend)]
    problems: list[Problem] = []
    for registration in held:
        command = mend + (" --scope project" if registration.scope == PROJECT else "")
        found = registration.found
        missing = [event for event in client.registered.events if event not in found.hooks]
        if missing and found.hooks:
            why = f"No hook for {', '.join(missing)} in {registration.hooks}."
            problems.append(Problem(f"{name}: the hook is registered for some events only", why, command))
        problems += _elsewhere(client, found, launch, command)
    if not any(registration.found.servers for registration in held):
        problems.append(Problem(f"{name}: the server is not registered", "Its agent cannot ask the memory.", mend))
    return problems + list(_forbidden(client, held, home))


def _elsewhere(client: Client, found: FoundEntries, launch: Launch, mend: str) -> list[Problem]:
    """Registered commands that do not exist, or that start another installation or memory than this one.

    One problem of a kind is enough, and the first is the gravest.
    """
    # What each is, its words, the programs among them, its memory, and what should be among its words if it differs.
    commands: list[tuple[str, list[str], list[str], str, str]] = []
    for command in {command for commands in found.hooks.values() for command in commands}:
        try:
            words = shlex.split(command, posix=sys.platform != "win32")
        except ValueError:
            words = command.split()
        programs = words[:1] + [word for word in words if word.endswith("capture.py")]
        home = words[words.index("--home") + 1] if "--home" in words[:-1] else ""
        commands.append(("hook", words, programs, home, launch.capture * (command != launch.hook(client.name))))
    for entry in found.servers:
        words = [str(entry.get("command")), *map(str, entry.get("args") or [])]
        home = value_at(entry, ("env", HOME_VARIABLE)) or ""
        differs = tuple(words) != launch.server or home != launch.home
        commands.append(("server", words, words[:1], home, launch.server[0] * differs))
    problems: dict[tuple[str, str], Problem] = {}
    for part, words, programs, home, ours in commands:
        lost = [word for word in programs if not (Path(word).is_file() if word.endswith(".py") else shutil.which(word))]
        if lost:
            why = f"{lost[0]} does not exist (any more), so the client cannot start it."
            missing = Problem(f"{client.name}: the {part}'s program is missing", why, mend)
            problems.setdefault((part, "missing"), missing)
        if ours and home != launch.home:
            where, here = home or "the default directory", launch.home or "the default directory"
            what, why = "uses another memory", f"It keeps its memory in {where}, this program in {here}."
        elif ours and ours not in words:
            what = "is of another installation"
            why = f"It starts {' '.join(words)[:200]}, this is {ours}: two versions would write one memory."
        else:
            continue
        problems.setdefault((part, "other"), Problem(f"{client.name}: the {part} {what}", why, mend))
    return list(problems.values())


def _forbidden(client: Client, held: list[Registration], home: Folders) -> Iterator[Problem]:
    """Hooks that the client will not run although they are registered."""
    if client.registered.asks_trust:
        yield from _untrusted(client, held, client.path(home, client.registered.servers[USER]))
    for registration in held:
        settings, file = _settings(registration.hooks), registration.hooks
        fixes = [f"Remove disableAllHooks from {file}."] if settings.get("disableAllHooks") is True else []
        if value_at(settings, ("hooksConfig", "enabled")) is False:
            fixes.append(f"Set hooksConfig.enabled to true in {file}.")
        for fix in fixes:
            yield Problem(f"{client.name}: all hooks are switched off", f"{file} says so.", fix)


def _untrusted(client: Client, held: list[Registration], config: Path) -> Iterator[Problem]:
    """Codex keeps a hash of each hook that the user has trusted, under its file, event and place in the list."""
    settings = _settings(config)
    if False in [value_at(settings, ("features", name)) for name in ("hooks", "codex_hooks")]:
        fix = f"Set hooks = true under [features] in {config}."
        yield Problem(f"{client.name}: hooks are switched off", f"{config} says so.", fix)
    for registration in held:
        untrusted = []
        for event, group, *rest in registration.found.places:
            name = _WORD.sub("_", str(event)).lower()
            key = f"{registration.hooks}:{name}:{group}:{rest[-1] if rest else 0}"
            trust = [value_at(settings, ("hooks", "state", key, name)) for name in ("trusted_hash", "enabled")]
            if not trust[0] or trust[1] is False:
                untrusted.append(str(event))
        if untrusted:
            why = f"{client.title} silently skips them until then: {', '.join(untrusted)}."
            fix = f"Start {client.name}, type /hooks, and trust the hooks of mcp-memory."
            yield Problem(f"{client.name}: the hooks are not trusted yet", why, fix)


def _has_plugin(client: Client, home: Folders) -> bool:
    """Whether the client runs our plugin, which brings the hook and the server with it."""
    setup = client.registered
    plugins = _settings(client.path(home, setup.hooks[USER])).get(setup.plugins) if setup.plugins else None
    known = plugins.items() if isinstance(plugins, dict) else ()
    return any(name.partition("@")[0] == SECOND_NAME and enabled is True for name, enabled in known)


def _settings(path: Path) -> dict[str, Any]:
    """What a settings file holds; nothing if it cannot be read."""
    try:
        text = apply.decode(apply.read(path) or b"")[0]
        return tomllib.loads(text) if path.suffix == ".toml" else load(text)
    except (MemoryFault, EditError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
