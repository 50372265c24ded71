"""The capture hook: hands the event that a client tells on stdin to the inbox; prints the brief at a session's start.

It must never disturb the agent: whatever happens, nothing unexpected is printed and the exit code is 0.
"""

from __future__ import annotations

import json
import os
import sys
import time

from mcp_memory.capture.clipping import clean, clip
from mcp_memory.capture.home import home_dir
from mcp_memory.capture.inbox import Row, append, read_brief
from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.project import detect
from mcp_memory.capture.redaction import redact, redact_json
from mcp_memory.capture.settings import read_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mcp_memory.capture.project import Project

_MAX_INPUT = 64 * 1024 * 1024
_DEFAULT_CLIENT = "claude-code"

#: Events, in lower case, that say nothing which another event does not say as well or better.
_SILENT = frozenset(
    "pretooluse posttoolbatch messagedisplay instructionsloaded permissionrequest notification "
    "beforetool beforetoolselection beforemodel aftermodel precompress "
    "beforeshellexecution beforemcpexecution beforereadfile".split()
)
#: How a session starts of which a part is no longer, or may not be, in the model's context.
_GOING_ON = frozenset({"compact", "resume"})
_TOOL_DONE = frozenset("posttooluse posttoolusefailure aftertool aftermcpexecution".split())
_OWN_TOOL = lazy(r"mcp__(plugin_[^_]+(_[^_]+)*_)?(mcp[-_])?memory__")
_OWN_SERVERS = frozenset({"memory", "mcp-memory"})
#: Cursor names a tool without its server.
_CURSOR_TOOL = lazy(
    r"MCP:\s*(toc_root|get_node|expand_grip|teleport|browse_time|build_context|session_context|remember|forget)\Z"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Capture the event on stdin. Always 0."""
    env = os.environ
    if env.get("MCP_MEMORY_DISABLE", "") not in ("", "0"):
        return 0
    try:
        words = sys.argv[1:] if argv is None else argv
        home = _option(words, "--home")
        output = _capture(_client(words), _read_input(), dict(env, MCP_MEMORY_HOME=home) if home else env)
        if output:
            sys.stdout.buffer.write(output.encode("ascii") + b"\n")
            sys.stdout.buffer.flush()
    except Exception as error:  # the one broad catch: an agent must not notice that its memory failed
        # Of the error only its type: its text could quote what must not be written anywhere.
        sys.stderr.write("mcp-memory: the event was not captured (%s)\n" % type(error).__name__)
    return 0


def _client(argv: Sequence[str]) -> str:
    name = _option(argv, "--client")
    return name if name.replace("-", "").isalnum() and len(name) <= 40 else _DEFAULT_CLIENT


def _option(argv: Sequence[str], option: str) -> str:
    """The value given to an option, as `--option VALUE` or `--option=VALUE`; the last one counts."""
    value = ""
    for index, word in enumerate(argv):
        if word == option and index + 1 < len(argv):
            value = argv[index + 1]
        elif word.startswith(option + "="):
            value = word.partition("=")[2]
    return value


def _read_input() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    data = sys.stdin.buffer.read(_MAX_INPUT)
    while sys.stdin.buffer.read(1 << 20):  # a client must not fail to write the rest
        pass
    return data.decode("utf-8-sig", "replace")


def _capture(client: str, text: str, env: Mapping[str, str]) -> str:
    """Store the event; what to print, or nothing."""
    payload = _parse(text)
    if payload is None or _is_silent(payload) or _is_own(payload):
        return ""
    home = home_dir(env)
    settings = read_settings(os.path.join(home, "config.toml"), env)
    project = detect(_directory(payload), env)
    if not settings.enabled or not project.enabled:
        return ""
    client = "cursor" if "cursor_version" in payload else client
    stored = _storable(payload, text, settings.max_event_bytes)
    append(home, Row(_now_ms(), client, clean(project.root), clean(redact(project.label)), stored))
    if _event(payload) != "sessionstart" or not settings.brief:
        return ""
    return _greeting(payload, client, _own_text(home, payload, client) or read_brief(home, _place(project)))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _place(project: Project) -> str:
    """Under what the server keeps the project's brief: it knows one that was given a name by that name."""
    return "label:" + project.label if project.label else clean(project.root)


def _own_text(home: str, payload: Mapping[str, Any], client: str) -> str:
    """What the server keeps for a session that goes on without its earlier words, if it has a record of it."""
    session = payload.get("session_id")
    if str(payload.get("source")) not in _GOING_ON or not isinstance(session, str) or not session:
        return ""
    return read_brief(home, "session:%s:%s" % (client, session))


def _parse(text: str) -> dict[str, Any] | None:
    """The payload, whatever came; None if nothing did."""
    if not text.strip():
        return None
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        payload = None
    return payload if isinstance(payload, dict) else {"unparsed": text}


def _event(payload: Mapping[str, Any]) -> str:
    return str(payload.get("hook_event_name", "")).lower()


def _is_silent(payload: Mapping[str, Any]) -> bool:
    return _event(payload) in _SILENT


def _is_own(payload: Mapping[str, Any]) -> bool:
    """Whether this is what our own tools answered: remembering it would make memory echo itself."""
    if _event(payload) not in _TOOL_DONE:
        return False
    name = str(payload.get("tool_name", ""))
    if _OWN_TOOL().match(name) or ("cursor_version" in payload and _CURSOR_TOOL().match(name)):
        return True
    told = ((payload.get("mcp_server"), "name"), (payload.get("mcp_context"), "server_name"))
    servers = [str(server.get(key)) for server, key in told if isinstance(server, dict)]
    return any(server.rpartition(":")[2] in _OWN_SERVERS for server in servers)


def _directory(payload: Mapping[str, Any]) -> str:
    roots = payload.get("workspace_roots")
    for place in (payload.get("cwd"), roots[0] if isinstance(roots, list) and roots else None):
        if isinstance(place, str) and place:
            return place
    try:
        return os.getcwd()
    except OSError:
        return ""


def _storable(payload: Mapping[str, Any], text: str, max_bytes: int) -> str:
    """The payload as JSON text, without secrets and with no string longer than allowed."""
    try:
        clear = _clip_json(redact_json(payload), max_bytes)
        return json.dumps(clear, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return json.dumps({"unparsed": clip(redact(text), max_bytes)[0]}, ensure_ascii=False)


def _clip_json(value: Any, max_bytes: int) -> Any:
    if isinstance(value, str):
        return clip(value, max_bytes)[0]
    if isinstance(value, dict):
        return {clip(key, max_bytes)[0]: _clip_json(item, max_bytes) for key, item in value.items()}
    if isinstance(value, list):
        return [_clip_json(item, max_bytes) for item in value]
    return value


def _greeting(payload: Mapping[str, Any], client: str, brief: str) -> str:
    """The brief in the form the client takes as context; escaped to ASCII, which every console can print."""
    if not brief:
        return ""
    if client == "cursor":
        return json.dumps({"additional_context": brief})
    event = payload.get("hook_event_name")
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": brief}})
