"""What a client tells a hook: its envelope in one spelling, which client it is, and what of it is worth storing.

The hook reads payloads by this as they come; the server reads by it what an earlier hook stored as it came.
"""

from __future__ import annotations

import os

from mcp_memory.capture.patterns import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CLAUDE_CODE = "claude-code"
CURSOR = "cursor"
VSCODE = "vscode"

#: The fields around what was said. VS Code and Copilot spell them in camelCase, too.
_ENVELOPE = (
    "hook_event_name session_id transcript_path permission_mode prompt_id agent_id agent_type agent_name "
    "agent_transcript_path tool_name tool_input tool_response tool_result tool_use_id tool_call_id is_interrupt "
    "error_details stop_hook_active stop_reason last_assistant_message custom_instructions compact_summary "
    "initial_prompt mcp_server"
).split()
#: Other names for the same field.
_ALIASES = {"tool_args": "tool_input", "tool_result": "tool_response", "tool_call_id": "tool_use_id"}

#: Events, in lower case, that say nothing which another event does not say as well or better.
_SILENT = frozenset(
    "pretooluse posttoolbatch messagedisplay instructionsloaded permissionrequest notification "
    "beforetool beforetoolselection beforemodel aftermodel precompress "
    "beforeshellexecution beforemcpexecution beforereadfile".split()
)
_TOOL_DONE = frozenset("posttooluse posttoolusefailure aftertool aftermcpexecution".split())
_OWN_TOOL = lazy(r"mcp__(plugin_[^_]+(_[^_]+)*_)?(mcp[-_])?memory__")
_OWN_SERVERS = frozenset({"memory", "mcp-memory"})
#: Cursor names a tool without its server; VS Code and Copilot put the server's name before it.
_OWN_PLAIN_TOOL = lazy(
    r"(MCP:\s*|(mcp_)?(mcp[-_])?memory\d*[-_])"
    r"(toc_root|get_node|expand_grip|teleport|browse_time|build_context|session_context|remember|forget)\Z"
)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_PLAIN = {spelled: _ALIASES.get(name, name) for name in (*_ENVELOPE, *_ALIASES) for spelled in (name, _camel(name))}


def client_of(payload: Mapping[str, Any], told: str) -> str:
    """Which client a payload is from, given the one that the hook was registered with.

    Cursor and VS Code run the hooks of Claude Code's settings. Cursor gives its version. VS Code spells its envelope
    in camelCase or, in later versions, as Claude Code does; then it gives the time, which Claude Code never does.
    """
    if "cursor_version" in payload:
        return CURSOR
    if told != CLAUDE_CODE:
        return told
    camel = "hookEventName" in payload or ("sessionId" in payload and "hook_event_name" in payload)
    timed = isinstance(payload.get("timestamp"), str) and not payload.keys() & {"permission_mode", "prompt_id"}
    return VSCODE if camel or timed else told


def plain(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with its envelope in snake_case. What stands inside of a field is left alone."""
    found: dict[str, Any] = {}
    for key, value in payload.items():
        name = _PLAIN.get(key, key)
        found[key if name != key and name in payload else name] = value
    return found


def event_of(payload: Mapping[str, Any]) -> str:
    """The event's name in lower case."""
    return str(payload.get("hook_event_name", "")).lower()


def is_silent(payload: Mapping[str, Any]) -> bool:
    return event_of(payload) in _SILENT


def is_own(payload: Mapping[str, Any], client: str) -> bool:
    """Whether this is what our own tools answered: remembering it would make memory echo itself."""
    if event_of(payload) not in _TOOL_DONE:
        return False
    if is_own_tool(str(payload.get("tool_name", "")), client):
        return True
    told = ((payload.get("mcp_server"), "name"), (payload.get("mcp_context"), "server_name"))
    servers = [str(server.get(key)) for server, key in told if isinstance(server, dict)]
    return any(server.rpartition(":")[2] in _OWN_SERVERS for server in servers)


def is_own_tool(name: str, client: str) -> bool:
    return bool(_OWN_TOOL().match(name) or (client in (CURSOR, VSCODE) and _OWN_PLAIN_TOOL().match(name)))


def directory_of(payload: Mapping[str, Any]) -> str:
    """Where the session takes place."""
    roots = payload.get("workspace_roots")
    for place in (payload.get("cwd"), roots[0] if isinstance(roots, list) and roots else None):
        if isinstance(place, str) and place:
            return place
    try:
        return os.getcwd()
    except OSError:
        return ""
