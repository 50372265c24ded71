"""The clients we can register with: which files, which events, which unit of time. A table, not a hierarchy."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mcp_memory.clients.folders import Folders
from mcp_memory.errors import UsageError
from mcp_memory.install.launch import Launch
from mcp_memory.install.wanted import Wanted

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
