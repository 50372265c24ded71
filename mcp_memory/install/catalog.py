"""What is registered: the commands that start our hook and server, and how to tell them again as ours."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import mcp_memory
from mcp_memory.capture.settings import home_dir
from mcp_memory.clients.port import Folders
from mcp_memory.errors import MemoryFault, UsageError

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


@dataclass(frozen=True, slots=True)
class Wanted:
    """Hooks by event, the server's entry, and `top`: settings at the top of the file, unless the user has set them.

    `grouped`: a hook stands in a group with a matcher, as Claude Code's.
    """

    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    server: Mapping[str, Any] | None = None
    grouped: bool = True
    version: int | None = None
    top: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """Our hook commands by event, our server's entries, where each hook stands (event, group, …), our top settings."""

    hooks: Mapping[str, list[str]] = field(default_factory=dict)
    servers: list[Mapping[str, Any]] = field(default_factory=list)
    places: list[tuple[str | int, ...]] = field(default_factory=list)
    top: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.hooks or self.servers or self.top)


USER = "user"
PROJECT = "project"


@dataclass(frozen=True, slots=True)
class Client:
    """How one client is registered with.

    `hooks` and `servers` name the files by scope, below the home or the project directory. `timeout` is in the
    client's own unit; `shorter` gives the events to which it allows less. `top` are settings beside the server's entry.
    `signs` and `programs` tell that the client is here.
    """

    name: str
    events: tuple[str, ...]
    hooks: Mapping[str, str]
    servers: Mapping[str, str]
    timeout: int
    shorter: Mapping[str, int] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    grouped: bool = True
    version: int | None = None
    server_extra: Mapping[str, Any] = field(default_factory=dict)
    top: Mapping[str, int] = field(default_factory=dict)
    signs: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    hint: str = ""

    def handlers(self, launch: Launch) -> dict[str, dict[str, Any]]:
        """The hook's entry for each event."""
        command = launch.hook(self.name)
        return {
            event: {**self.extra, "command": command, "timeout": self.shorter.get(event, self.timeout)}
            for event in self.events
        }

    def wanted(self, scope: str, root: Folders, launch: Launch) -> dict[Path, Wanted]:
        """What each settings file of the scope should hold of ours."""
        self.check(scope)
        hooks, servers = (root.path(self.name, names[scope]) for names in (self.hooks, self.servers))
        handlers, entry = self.handlers(launch), {**self.server_extra, **launch.entry()}
        if hooks == servers:
            return {hooks: Wanted(handlers, entry, self.grouped, self.version)}
        return {hooks: Wanted(handlers, None, self.grouped, self.version), servers: Wanted(server=entry, top=self.top)}

    def files(self, scope: str, root: Folders) -> list[Path]:
        """The settings files of the scope; none if the client has no such scope."""
        names = [places[scope] for places in (self.hooks, self.servers) if scope in places]
        return [root.path(self.name, name) for name in dict.fromkeys(names)]

    def check(self, scope: str) -> None:
        if scope not in self.hooks:
            raise UsageError(
                f"{self.name} reads its hooks from the home directory only. Run: "
                f"mcp-memory install {self.name} --scope user"
            )

    def is_here(self, home: Folders) -> bool:
        """Whether the client seems to be in use on this machine."""
        return any(home.exists(self.name, sign) for sign in self.signs) or any(map(shutil.which, self.programs))


_CLAUDE_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "StopFailure",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
)
_CODEX_EVENTS = tuple(event for event in _CLAUDE_EVENTS if event not in ("PostToolUseFailure", "StopFailure"))
_COMMAND = {"type": "command"}

_ALL = (
    Client(
        name="claude-code",
        events=_CLAUDE_EVENTS,
        hooks={USER: ".claude/settings.json", PROJECT: ".claude/settings.json"},
        servers={USER: ".claude.json", PROJECT: ".mcp.json"},
        timeout=10,
        shorter={"SessionEnd": 1},  # all SessionEnd hooks together have 1.5 s
        extra=_COMMAND,
        server_extra={"type": "stdio"},
        signs=(".claude", ".claude.json"),
        programs=("claude",),
        hint="Claude Code takes this up in its next session.",
    ),
    Client(
        name="codex",
        events=_CODEX_EVENTS,
        hooks={USER: ".codex/hooks.json"},
        servers={USER: ".codex/config.toml"},
        timeout=10,
        shorter={"SessionEnd": 3},  # what Codex allows at most
        extra=_COMMAND,
        # Codex asks the model without the tools of servers that are not up at once; so it waits for them a little.
        top={"mcp_optional_startup_grace_ms": 5_000},
        signs=(".codex",),
        programs=("codex",),
        hint="Codex runs hooks only once you trust them: start `codex`, type /hooks, and trust those of mcp-memory.",
    ),
    Client(
        name="gemini",
        # PreCompress is left out: it fires before every call of the model.
        events=("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd"),
        hooks={USER: ".gemini/settings.json", PROJECT: ".gemini/settings.json"},
        servers={USER: ".gemini/settings.json", PROJECT: ".gemini/settings.json"},
        timeout=10_000,  # milliseconds
        extra={"name": "mcp-memory", **_COMMAND},
        signs=(".gemini",),
        programs=("gemini",),
        hint="Gemini CLI takes this up in its next session.",
    ),
    Client(
        name="cursor",
        # postToolUse tells of every tool; afterShellExecution and its like would tell the same a second time.
        events=(
            "sessionStart",
            "beforeSubmitPrompt",
            "afterAgentResponse",
            "postToolUse",
            "postToolUseFailure",
            "subagentStart",
            "subagentStop",
            "stop",
            "preCompact",
            "sessionEnd",
        ),
        hooks={USER: ".cursor/hooks.json", PROJECT: ".cursor/hooks.json"},
        servers={USER: ".cursor/mcp.json", PROJECT: ".cursor/mcp.json"},
        timeout=10,
        grouped=False,
        version=1,
        signs=(".cursor",),
        programs=("cursor", "cursor-agent"),
        hint="Cursor takes the hooks up at once; switch the server `memory` on in its settings under MCP.",
    ),
)

CLIENTS: Mapping[str, Client] = MappingProxyType({client.name: client for client in _ALL})


def project_root(start: Path | None = None) -> Path:
    """The directory whose settings a client started here reads: the nearest one above with a `.git`, or this one."""
    try:
        start = (start or Path.cwd()).absolute()
    except FileNotFoundError:  # the current directory has been deleted
        return Path.home()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)
