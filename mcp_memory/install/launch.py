"""What is registered: the commands that start our hook and server, and how to tell them again as ours."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_memory
from mcp_memory.capture.home import home_dir
from mcp_memory.errors import MemoryFault

SERVER = "memory"
#: The plugin's name, and the server's where another program's server is already called `memory`.
SECOND_NAME = "mcp-memory"
HOME_VARIABLE = "MCP_MEMORY_HOME"

_HOOK = re.compile(r"[\\/]hooks[\\/]capture\.py[\"']?\s+--client\b|mcp[-_]memory[\\/]hooks[\\/]capture\.py")
_PROGRAM = re.compile(r"(?:^|[\\/])mcp-memory(?:-toc)?(?:\.exe)?$")


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


def this_installation(home: Path) -> Launch:
    """The installation that is running now, with this data directory."""
    package = Path(mcp_memory.__file__).absolute().parent
    # In a wheel the hook is inside the package, in a checkout beside it.
    places = [folder / "hooks" / "capture.py" for folder in (package, package.parent)]
    capture = next((place for place in places if place.is_file()), None)
    if capture is None or not sys.executable:
        raise MemoryFault(f"{places[0]} is missing: this installation is not complete. Install mcp-memory again.")
    name = "mcp-memory.exe" if sys.platform == "win32" else "mcp-memory"
    script = Path(sys.executable).absolute().with_name(name)
    module = (str(Path(sys.executable).absolute()), "-m", "mcp_memory", "serve")
    return Launch(
        python=module[0],
        capture=str(capture),
        server=(str(script), "serve") if script.is_file() else module,
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
