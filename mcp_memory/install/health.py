"""Whether the registrations with the clients work: complete, pointing here, and allowed to run."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_memory.clients.port import Folders
from mcp_memory.errors import MemoryFault
from mcp_memory.install import apply
from mcp_memory.install.catalog import CLIENTS, HOME_VARIABLE, PROJECT, SECOND_NAME, USER, Client, Found, Launch
from mcp_memory.install.jsonc import JsonError, load
from mcp_memory.store.sqlite.diagnosis import Problem

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Registration:
    """What one scope's files hold of ours."""

    scope: str
    hooks: Path
    found: Found


def registrations(client: Client, home: Folders, project: Path) -> tuple[list[Registration], list[Problem]]:
    """Everything of ours in the client's files, and the files that cannot be read."""
    held: list[Registration] = []
    problems: list[Problem] = []
    for scope, root in ((USER, home), (PROJECT, Folders(project))):
        if scope == PROJECT and project == home.root:
            continue
        parts: list[Found] = []
        for path in client.files(scope, root):
            try:
                parts.append(apply.found(path, apply.read(path)))
            except MemoryFault as error:
                fix = f"Correct {path}, then: mcp-memory install {client.name}"
                problems.append(Problem(f"{client.name}: {path} cannot be read", str(error.__cause__ or error), fix))
        if found := _together(parts):
            held.append(Registration(scope, root.path(client.name, client.hooks[scope]), found))
    return held, problems


def _together(parts: list[Found]) -> Found:
    hooks = {event: commands for part in parts for event, commands in part.hooks.items()}
    servers = [entry for part in parts for entry in part.servers]
    return Found(hooks, servers, [place for part in parts for place in part.places])


def is_connected(client: str, held: list[Registration], home: Folders) -> bool:
    """Whether the client has our hook or server in any way."""
    return bool(held) or (client == "claude-code" and _has_plugin(home.path(client, CLIENTS[client].hooks[USER])))


def check(client: Client, held: list[Registration], launch: Launch, home: Folders) -> list[Problem]:
    """What is wrong with the registrations of a client that is in use here."""
    mend = f"mcp-memory install {client.name}"
    hooked = any(registration.found.hooks for registration in held)
    if client.name == "claude-code" and _has_plugin(home.path(client.name, client.hooks[USER])):
        why = "Every event is captured twice; the second is dropped, but both take time."
        fix = "mcp-memory uninstall claude-code"
        return [Problem("claude-code: both the plugin and the settings have the hook", why, fix)] if hooked else []
    if not hooked:
        why = "The client is on this machine, but nothing it says is remembered."
        return [Problem(f"{client.name}: the hook is not registered", why, mend)]
    problems: list[Problem] = []
    for registration in held:
        command = mend + (" --scope project" if registration.scope == PROJECT else "")
        problems += _incomplete(client, registration, command)
        problems += _elsewhere(client, registration.found, launch, command)
    if not any(registration.found.servers for registration in held):
        problems.append(
            Problem(f"{client.name}: the server is not registered", "Its agent cannot ask the memory.", mend)
        )
    return problems + list(_forbidden(client, held, home))


def _incomplete(client: Client, registration: Registration, mend: str) -> Iterator[Problem]:
    missing = [event for event in client.events if event not in registration.found.hooks]
    if missing and registration.found.hooks:
        why = f"No hook for {', '.join(missing)} in {registration.hooks}."
        yield Problem(f"{client.name}: the hook is registered for some events only", why, mend)


def _elsewhere(client: Client, found: Found, launch: Launch, mend: str) -> list[Problem]:
    """Registered commands that do not exist, or that start another installation or memory than this one."""
    problems: dict[str, Problem] = {}
    for command in {command for commands in found.hooks.values() for command in commands}:
        words = _words(command)
        _add(problems, _gone(client, "hook", words[:1] + [word for word in words if word.endswith("capture.py")], mend))
        if command != launch.hook(client.name):
            _add(problems, _other(client, "hook", words, _home_of(words), launch.capture, launch, mend))
    for entry in found.servers:
        words = [str(entry.get("command")), *map(str, entry.get("args") or [])]
        _add(problems, _gone(client, "server", words[:1], mend))
        env = entry.get("env")
        home = env.get(HOME_VARIABLE, "") if isinstance(env, Mapping) else ""
        if tuple(words) != launch.server or home != launch.home:
            _add(problems, _other(client, "server", words, home, launch.server[0], launch, mend))
    return list(problems.values())


def _add(problems: dict[str, Problem], problem: Problem | None) -> None:
    """One problem of a kind is enough, and the first is the gravest."""
    if problem:
        problems.setdefault(problem.what.partition(":")[2][:10], problem)


def _gone(client: Client, part: str, words: list[str], mend: str) -> Problem | None:
    lost = [word for word in words if not _runs(word)]
    if not lost:
        return None
    why = f"{lost[0]} does not exist (any more), so the client cannot start it."
    return Problem(f"{client.name}: the {part}'s program is missing", why, mend)


def _runs(word: str) -> bool:
    if word.endswith(".py"):
        return Path(word).is_file()
    return bool(shutil.which(word))


def _other(
    client: Client, part: str, words: list[str], home: str, ours: str, launch: Launch, mend: str
) -> Problem | None:
    if home != launch.home:
        where, here = home or "the default directory", launch.home or "the default directory"
        why = f"It keeps its memory in {where}, this program in {here}."
        return Problem(f"{client.name}: the {part} uses another memory", why, mend)
    if ours in words:
        return None
    why = f"It starts {' '.join(words)[:200]}, this is {ours}: two versions would write one memory."
    return Problem(f"{client.name}: the {part} is of another installation", why, mend)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command, posix=sys.platform != "win32")
    except ValueError:
        return command.split()


def _home_of(words: list[str]) -> str:
    return words[words.index("--home") + 1] if "--home" in words[:-1] else ""


def _forbidden(client: Client, held: list[Registration], home: Folders) -> Iterator[Problem]:
    """Hooks that the client will not run although they are registered."""
    if client.name == "codex":
        yield from _codex(held, home.path(client.name, client.servers[USER]))
    for registration in held:
        settings = _json(registration.hooks)
        if settings.get("disableAllHooks") is True:
            fix = f"Remove disableAllHooks from {registration.hooks}."
            yield Problem(f"{client.name}: all hooks are switched off", f"{registration.hooks} says so.", fix)
        if isinstance(switch := settings.get("hooksConfig"), dict) and switch.get("enabled") is False:
            fix = f"Set hooksConfig.enabled to true in {registration.hooks}."
            yield Problem(f"{client.name}: all hooks are switched off", f"{registration.hooks} says so.", fix)


def _has_plugin(settings: Path) -> bool:
    """Whether Claude Code runs our plugin, which brings the hook and the server with it."""
    plugins = _json(settings).get("enabledPlugins")
    known = plugins.items() if isinstance(plugins, dict) else ()
    return any(name.partition("@")[0] == SECOND_NAME and enabled is True for name, enabled in known)


def _codex(held: list[Registration], config: Path) -> Iterator[Problem]:
    """Codex keeps a hash of each hook that the user has trusted, under its file, event and place in the list."""
    settings = _toml(config)
    features = settings.get("features")
    if isinstance(features, dict) and False in (features.get("hooks"), features.get("codex_hooks")):
        fix = f"Set hooks = true under [features] in {config}."
        yield Problem("codex: hooks are switched off", f"{config} says so.", fix)
    hooks = settings.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    known = state if isinstance(state, dict) else {}
    for registration in held:
        keys = {place: _trust_key(registration.hooks, place) for place in registration.found.places}
        untrusted = [str(place[0]) for place, key in keys.items() if not _trusted(known.get(key))]
        if untrusted:
            why = f"Codex silently skips them until then: {', '.join(untrusted)}."
            fix = "Start codex, type /hooks, and trust the hooks of mcp-memory."
            yield Problem("codex: the hooks are not trusted yet", why, fix)


def _trust_key(path: Path, place: tuple[str | int, ...]) -> str:
    event, group, *rest = place
    return f"{path}:{_WORD.sub('_', str(event)).lower()}:{group}:{rest[-1] if rest else 0}"


def _trusted(entry: Any) -> bool:
    return isinstance(entry, dict) and bool(entry.get("trusted_hash")) and entry.get("enabled") is not False


def _json(path: Path) -> dict[str, Any]:
    try:
        value = load(apply.decode(apply.read(path) or b"")[0])
    except (MemoryFault, JsonError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(apply.decode(apply.read(path) or b"")[0])
    except (MemoryFault, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
