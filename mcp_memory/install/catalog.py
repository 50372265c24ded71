"""What is registered with a client: the commands that start our hook and server, and how to tell them again as ours."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_memory
from mcp_memory.capture.settings import home_dir
from mcp_memory.clients.port import Client, Folders
from mcp_memory.errors import MemoryFault, UsageError

SERVER = "memory"
#: The plugin's name, and the server's where another program's server is already called `memory`.
SECOND_NAME = "mcp-memory"
HOME_VARIABLE = "MCP_MEMORY_HOME"

_HOOK = re.compile(r"[\\/]hooks[\\/]capture\.py[\"']?\s+--client\b|mcp[-_]memory[\\/]hooks[\\/]capture\.py")
_PROGRAM = re.compile(r"(?:^|[\\/])mcp-memory(?:-toc)?(?:\.exe)?$")


class EditError(ValueError):
    """The text is not JSON or TOML, or not of the shape that an edit needs; the message says where."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start one installation. `home` is empty where the data is in its default place."""

    python: str
    capture: str
    server: tuple[str, ...]
    home: str = ""

    def hook(self, client: str) -> str:
        """The hook as one line for the client's shell.

        -I and -S keep the user's environment and site-packages out, which is also what makes it start fast.
        """
        words = [self.python, "-I", "-S", self.capture, "--client", client]
        words += ["--home", self.home] if self.home else []
        if sys.platform == "win32":
            return subprocess.list2cmdline([word.replace("\\", "/") for word in words])
        return shlex.join(words)

    def entry(self) -> dict[str, Any]:
        """The server as the clients' JSON and TOML files describe one."""
        entry: dict[str, Any] = {"command": self.server[0], "args": list(self.server[1:])}
        return entry | ({"env": {HOME_VARIABLE: self.home}} if self.home else {})


@dataclass(frozen=True, slots=True)
class WantedEntries:
    """What a settings file should hold of ours: hooks by event, the server's entry, and settings of the file itself.

    `grouped`: a hook stands in a group with a matcher, as Claude Code's. `top` is set unless the user has set it.
    """

    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    server: Mapping[str, Any] | None = None
    grouped: bool = True
    version: int | None = None
    top: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """Our hook commands by event, our server's entries, where each hook stands (event, group, …), our top settings."""

    hooks: Mapping[str, list[str]] = field(default_factory=dict)
    servers: list[Mapping[str, Any]] = field(default_factory=list)
    places: list[tuple[str | int, ...]] = field(default_factory=list)
    top: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.hooks or self.servers or self.top)


def wanted_entries(client: Client, scope: str, root: Folders, launch: Launch) -> dict[Path, WantedEntries]:
    """What each settings file of the scope should hold of ours."""
    setup, command = client.registered, launch.hook(client.name)
    if scope not in setup.hooks:
        raise UsageError(
            f"{client.name} reads its hooks from the home directory only. Run: "
            f"mcp-memory install {client.name} --scope user"
        )
    hooks = {
        event: {**setup.hook_extra, "command": command, "timeout": setup.shorter.get(event, setup.timeout)}
        for event in setup.events
    }
    server = {**setup.server_extra, **launch.entry()}
    files = [client.path(root, names[scope]) for names in (setup.hooks, setup.servers)]
    if files[0] == files[1]:
        return {files[0]: WantedEntries(hooks, server, setup.grouped, setup.version)}
    return {
        files[0]: WantedEntries(hooks, None, setup.grouped, setup.version),
        files[1]: WantedEntries(server=server, top=setup.top),
    }


def this_installation(home: Path) -> Launch:
    """The installation that is running now, with this data directory."""
    package = Path(mcp_memory.__file__).absolute().parent
    # In a wheel the hook is inside the package, in a checkout beside it.
    places = [folder / "hooks" / "capture.py" for folder in (package, package.parent)]
    capture = next((place for place in places if place.is_file()), None)
    if capture is None or not sys.executable:
        raise MemoryFault(f"{places[0]} is missing: this installation is not complete. Install mcp-memory again.")
    name = "mcp-memory.exe" if sys.platform == "win32" else "mcp-memory"
    python = Path(sys.executable).absolute()
    script = python.with_name(name)
    return Launch(
        python=str(python),
        capture=str(capture),
        server=(str(script), "serve") if script.is_file() else (str(python), "-m", "mcp_memory", "serve"),
        # Clients may start the server without the variables that led here, so only the bare default goes unsaid.
        home="" if home == Path(home_dir({})) else str(home),
    )


def is_our_hook(handler: Any) -> bool:
    command = handler.get("command") if isinstance(handler, Mapping) else None
    return isinstance(command, str) and bool(_HOOK.search(command))


def is_our_server(entry: Any) -> bool:
    """Whether a server entry starts mcp-memory, from wherever it was installed."""
    if not isinstance(entry, Mapping):
        return False
    args = entry.get("args")
    words = [entry.get("command"), *(args if isinstance(args, list) else [])]
    return any(isinstance(word, str) and (word == "mcp_memory" or bool(_PROGRAM.search(word))) for word in words)


def server_name(servers: Any) -> str:
    """The name to register under: `memory`, unless it is another program's."""
    taken = servers.get(SERVER) if isinstance(servers, Mapping) else None
    return SERVER if taken is None or is_our_server(taken) else SECOND_NAME


def project_root(start: Path | None = None) -> Path:
    """The directory whose settings a client started here reads: the nearest one above with a `.git`, or this one."""
    try:
        start = (start or Path.cwd()).absolute()
    except FileNotFoundError:  # the current directory has been deleted
        return Path.home()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)
