"""The clients we know, one row each. To add one, write its row here and the module that reads it beside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mcp_memory.clients.port import PROJECT, USER, Client, Folders, Setup

_CLAUDE_EVENTS = tuple(
    "SessionStart UserPromptSubmit PostToolUse PostToolUseFailure SubagentStart SubagentStop Stop StopFailure "
    "PreCompact PostCompact SessionEnd".split()
)
_COMMAND = {"type": "command"}

_CLAUDE_CODE = Client(
    name="claude-code",
    title="Claude Code",
    reader="claude_code",
    folder=".claude/",
    variable="CLAUDE_CONFIG_DIR",
    places=(".claude/projects",),
    prompt_logs=(".claude/history.jsonl",),
    setup=Setup(
        events=_CLAUDE_EVENTS,
        hooks={USER: ".claude/settings.json", PROJECT: ".claude/settings.json"},
        servers={USER: ".claude.json", PROJECT: ".mcp.json"},
        timeout=10,
        shorter={"SessionEnd": 1},  # all SessionEnd hooks together have 1.5 s
        hook_extra=_COMMAND,
        server_extra={"type": "stdio"},
        signs=(".claude", ".claude.json"),
        programs=("claude",),
        plugins="enabledPlugins",
        hint="Next: restart Claude Code, which takes this up with its next session.",
    ),
)
_CODEX = Client(
    name="codex",
    title="Codex",
    reader="codex",
    folder=".codex/",
    variable="CODEX_HOME",
    places=(".codex/sessions", ".codex/archived_sessions"),
    prompt_logs=(".codex/history.jsonl",),
    opens_with_header=True,
    setup=Setup(
        events=tuple(event for event in _CLAUDE_EVENTS if event not in ("PostToolUseFailure", "StopFailure")),
        hooks={USER: ".codex/hooks.json"},
        servers={USER: ".codex/config.toml"},
        timeout=10,
        shorter={"SessionEnd": 3},  # what Codex allows at most
        hook_extra=_COMMAND,
        # Codex asks the model without the tools of servers that are not up at once; so it waits for them a little.
        top={"mcp_optional_startup_grace_ms": 5_000},
        signs=(".codex",),
        programs=("codex",),
        asks_trust=True,
        hint="Next: restart `codex`, type /hooks, and trust those of mcp-memory: it runs no others.",
    ),
)
_GEMINI = Client(
    name="gemini",
    title="Gemini CLI",
    reader="gemini",
    variable="GEMINI_CLI_HOME",  # moves the home itself
    suffixes=(".jsonl", ".json"),
    places=(".gemini/tmp",),
    mixed=True,
    chats="chats",
    opens_with_header=True,
    setup=Setup(
        # PreCompress is left out: it fires before every call of the model.
        events=("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd"),
        hooks={USER: ".gemini/settings.json", PROJECT: ".gemini/settings.json"},
        servers={USER: ".gemini/settings.json", PROJECT: ".gemini/settings.json"},
        timeout=10_000,  # milliseconds
        hook_extra={"name": "mcp-memory", **_COMMAND},
        signs=(".gemini",),
        programs=("gemini",),
        hint="Next: restart Gemini CLI, which takes this up with its next session.",
    ),
)
_CURSOR = Client(
    name="cursor",
    title="Cursor",
    reader="cursor",
    suffixes=(".jsonl", ".md"),
    places=(".cursor/projects",),
    local_places=(".specstory/history",),  # exports lie in the projects themselves
    mixed=True,
    setup=Setup(
        # postToolUse tells of every tool; afterShellExecution and its like would tell the same a second time.
        events=tuple(
            "sessionStart beforeSubmitPrompt afterAgentResponse postToolUse postToolUseFailure subagentStart "
            "subagentStop stop preCompact sessionEnd".split()
        ),
        hooks={USER: ".cursor/hooks.json", PROJECT: ".cursor/hooks.json"},
        servers={USER: ".cursor/mcp.json", PROJECT: ".cursor/mcp.json"},
        timeout=10,
        grouped=False,
        version=1,
        signs=(".cursor",),
        programs=("cursor", "cursor-agent"),
        hint="Next: switch the server `memory` on in Cursor's settings under MCP; the hooks it takes up at once.",
    ),
)
#: VS Code runs the hooks of Claude Code's settings. Its storage lies elsewhere on Linux, macOS and Windows.
_VSCODE = Client(
    name="vscode",
    title="VS Code",
    reader="vscode",
    places=tuple(
        f"{place}/Code/User/workspaceStorage/*/GitHub.copilot-chat/transcripts"
        for place in (".config", "Library/Application Support", "AppData/Roaming")
    ),
    opens_with_header=True,
)
_JSONL = Client(name="jsonl", title="any program", reader="jsonl")

#: Every client we understand, by the name that the hook gives it.
CLIENTS: dict[str, Client] = {
    client.name: client for client in (_CLAUDE_CODE, _CODEX, _GEMINI, _CURSOR, _VSCODE, _JSONL)
}


def installable() -> dict[str, Client]:
    """The clients that hook and server can be registered with."""
    return {name: client for name, client in CLIENTS.items() if client.setup}


def detect(path: Path) -> Client | None:
    """The client whose transcript the file looks like; None if no client's."""
    return next((client for client in CLIENTS.values() if client.recognizes(path)), None)


def default_places(home: Folders) -> dict[str, list[Path]]:
    """Where the known clients keep their transcripts, by the client's name."""
    return {name: places for name, client in CLIENTS.items() if (places := client.default_places(home))}


def user_folders(env: Mapping[str, str]) -> Folders:
    """The user's home, with the clients' folders that variables of theirs have moved elsewhere."""
    moved = {client.name: env.get(client.variable, "") for client in CLIENTS.values() if client.variable}
    return Folders(
        Path.home(), {name: Path(folder).expanduser().absolute() for name, folder in moved.items() if folder}
    )
