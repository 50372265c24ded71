"""The capture hook: hands the event that a client tells on stdin to the inbox; prints the brief at a session's start.

It must never disturb the agent: whatever happens, nothing unexpected is printed and the exit code is 0. The server
reads by the same functions what an earlier hook stored as it came.
"""

from __future__ import annotations

import json
import os
import sys
import time

from mcp_memory.capture.clipping import bounded, clean, clip, looked_through, shorten
from mcp_memory.capture.inbox import Row, append, holds_another, note_brief, note_session, read_brief
from mcp_memory.capture.project import detect, places
from mcp_memory.capture.redaction import Clean, redact, redact_json
from mcp_memory.capture.settings import home_dir, lazy, read_settings
from mcp_memory.capture.team_news import with_news

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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
OWN_SERVERS = frozenset({"memory", "mcp-memory", "mcp_memory"})
#: Claude Code, Codex and Gemini CLI name our server with a tool; Cursor none, and VS Code and Copilot one of their own.
_READING = "toc_root|get_node|expand_grip|teleport|browse_time|build_context|session_context"
_OWN_TOOL = lazy(
    r"(mcp__(plugin_[^_]+(_[^_]+)*_)?)?(mcp[-_])?memory__"
    r"|(MCP:\s*(memory[:./ -])?|(mcp_)?(mcp[-_])?memory\d*[-_:./ ])"
    rf"({_READING}|remember|forget)\Z"
)
_READING_TOOL = lazy(rf"({_READING})\Z")
_MAX_INPUT = 64 * 1024 * 1024
#: What is larger is not parsed whole: it would take longer than an agent should wait.
_WHOLE = 4 * 1024 * 1024
#: Of a longer string in such a payload the middle is left out; after so many strings the rest of it is.
_LONG, _STRINGS = 1024 * 1024, 100_000
#: More entries of an object are not kept, so not read one by one either.
_ENTRIES = 5_000
_ENTRY = lazy(r'\s{0,99}[{,]\s{0,99}"([^"\\]{1,200})"\s{0,99}:\s{0,99}')

#: How a session starts of which a part is no longer, or may not be, in the model's context.
_GOING_ON = frozenset({"compact", "resume"})
_SOURCES = _GOING_ON | {"startup", "clear"}
#: No client's sessions have longer names.
_NAME = 200


def main(argv: Sequence[str] | None = None) -> int:
    """Capture the event on stdin. Always 0."""
    env = os.environ
    if env.get("MCP_MEMORY_DISABLE", "") not in ("", "0"):
        return 0
    try:
        words = sys.argv[1:] if argv is None else argv
        home, client = _option(words, "--home"), _option(words, "--client")
        client = client if client.replace("-", "").isalnum() and len(client) <= 40 else CLAUDE_CODE
        data = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read(_MAX_INPUT)
        while data and sys.stdin.buffer.read(1 << 20):  # a client must not fail to write the rest
            pass
        text = data.decode("utf-8-sig", "replace")
        output = _capture(client, text, dict(env, MCP_MEMORY_HOME=home) if home else env)
        if output:
            sys.stdout.buffer.write(output.encode("ascii") + b"\n")
            sys.stdout.buffer.flush()
    except Exception as error:  # the one broad catch: an agent must not notice that its memory failed
        # Of the error only its type: its text could quote what must not be written anywhere.
        sys.stderr.write("mcp-memory: the event was not captured (%s)\n" % type(error).__name__)
    return 0


def _option(argv: Sequence[str], option: str) -> str:
    """The value given to an option, as `--option VALUE` or `--option=VALUE`; the last one counts."""
    value = ""
    for index, word in enumerate(argv):
        if word == option and index + 1 < len(argv):
            value = argv[index + 1]
        elif word.startswith(option + "="):
            value = word.partition("=")[2]
    return value


def _capture(client: str, text: str, env: Mapping[str, str]) -> str:
    """Store the event; what to print, or nothing."""
    told = _parse(text)
    if told is None:
        return ""
    client, payload = client_of(told, client), plain(told)
    own = is_own(payload)
    asked = _READING_TOOL().search(str(payload.get("tool_name", ""))) if own else None
    if event_of(payload) in _SILENT or (own and not asked):
        return ""
    home = home_dir(env)
    settings = read_settings(os.path.join(home, "config.toml"), env)
    project = detect(_folder(payload), env)
    if not settings.enabled or not project.enabled:
        return ""
    where = clean(project.root), clean(project.label), clean(project.remote)
    now_ms = time.time_ns() // 1_000_000
    if asked:  # what our own tools answered is no event; but their server does not know in which session it was asked
        if settings.keeps_handed and event_of(payload) != "posttoolusefailure":
            note_session(home, now_ms, asked[1], _session(payload), *where[:2])
        return ""
    most = settings.max_event_bytes
    try:
        clear = _clip_json(redact_json(bounded(payload, most)), most)
    except RecursionError:
        clear = {"unparsed": clip(redact(looked_through(text, most)), most)[0]}
    stored = Clean(json.dumps(clear, ensure_ascii=False, separators=(",", ":")))
    row = Row(now_ms, client, *where[:2], stored, where[2])
    is_stored = append(home, row)
    if event_of(payload) != "sessionstart" or not settings.brief:
        return ""
    brief = _brief(home, row, payload)
    if not brief:
        return ""
    if is_stored and settings.keeps_handed:
        source = str(payload.get("source"))
        note_brief(home, row, _session(payload), source if source in _SOURCES else "", brief)
    # Escaped to ASCII, which every console can print.
    if client == CURSOR:
        return json.dumps({"additional_context": brief})
    event = payload.get("hook_event_name")
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": brief}})


def _folder(payload: Mapping[str, Any]) -> str:
    """Where the session takes place."""
    roots = payload.get("workspace_roots")
    folders = [payload.get("cwd"), *(roots[:1] if isinstance(roots, list) else ())]
    folder = next((place for place in folders if isinstance(place, str) and place), "")
    try:
        return folder or os.getcwd()
    except OSError:
        return ""


def _session(payload: Mapping[str, Any]) -> str:
    """The session's name as it may be kept. Cursor calls it a conversation."""
    told = payload.get("session_id") or payload.get("conversation_id")
    return clean(redact(told[:_NAME])) if isinstance(told, str) else ""


def _brief(home: str, row: Row, payload: Mapping[str, Any]) -> str:
    """What is ready for the start of this session, or nothing.

    A session that goes on without its earlier words has a text of its own, if the server keeps a record of it. Of a
    project, a name that is claimed has a brief only if the claim counts.
    """
    roots = places(row.root, row.label, row.remote)
    session = payload.get("session_id")
    if str(payload.get("source")) in _GOING_ON and isinstance(session, str) and session:
        roots.insert(0, "session:%s:%s" % (row.client, session))
    found, text = next(((root, text) for root in roots for text in [read_brief(home, root)] if text), ("", ""))
    if row.remote and found == row.root and holds_another(home, row.root, row.remote):
        return ""
    return text if found.startswith("session:") else with_news(home, text, row.received_ms)


def _parse(text: str) -> dict[str, Any] | None:
    """The payload, whatever came; None if nothing did."""
    if not text or text.isspace():
        return None
    if len(text) > _WHOLE:
        text = _without_long_strings(text)
    try:
        payload = json.loads(text) if len(text) <= _WHOLE else None
    except (ValueError, RecursionError):
        payload = None
    if payload is None:
        payload = _entries(text[:_WHOLE])
    return payload if isinstance(payload, dict) else {"unparsed": text}


def _without_long_strings(text: str) -> str:
    parts = []
    last, position, decoder = 0, text.find('"'), json.JSONDecoder(strict=False)
    try:
        for _ in range(_STRINGS):
            if position < 0:
                break
            value, end = decoder.raw_decode(text, position)
            if end - position > _LONG:
                parts += [text[last:position], json.dumps(shorten(value, _LONG))]
                last = end
            position = text.find('"', end)
    except ValueError:  # cut off within a string
        pass
    return "".join(parts) + text[last:]


def _entries(text: str) -> dict[str, Any] | None:
    """The entries of an object that is cut off, broken or too large: the last one as the text that is left of it."""
    found: dict[str, Any] = {}
    entry = _ENTRY().match(text)
    for _ in range(_ENTRIES):
        if not entry:
            break
        try:
            found[entry[1]], position = json.JSONDecoder().raw_decode(text, entry.end())
        except (ValueError, RecursionError):
            return {**found, entry[1]: text[entry.end() :]} if found else None
        entry = _ENTRY().match(text, position)
    return found or None


def _clip_json(value: Any, max_bytes: int) -> Any:
    """The value with no string longer than allowed."""
    if isinstance(value, str):
        return clip(value, max_bytes)[0]
    if isinstance(value, dict):
        return {clip(key, max_bytes)[0]: _clip_json(item, max_bytes) for key, item in value.items()}
    if isinstance(value, list):
        return [_clip_json(item, max_bytes) for item in value]
    return value


#: Both spellings of each name, and what it is called here.
_PLAIN = {
    spelled: _ALIASES.get(name, name)
    for name in (*_ENVELOPE, *_ALIASES)
    for spelled in (name, name[0] + name.title().replace("_", "")[1:])
}


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


def is_own(payload: Mapping[str, Any]) -> bool:
    """Whether this is what our own tools answered: remembering it would make memory echo itself."""
    if event_of(payload) not in _TOOL_DONE:
        return False
    told = ((payload.get("mcp_server"), "name"), (payload.get("mcp_context"), "server_name"))
    servers = [server.get(key) for server, key in told if isinstance(server, dict)]
    return is_own_tool(str(payload.get("tool_name", "")), *servers)


def is_own_tool(name: str, *servers: object) -> bool:
    """Whether a tool is one of ours, by its name or by that of its server, as clients write them."""
    named = [server.rpartition(":")[2] for server in servers if isinstance(server, str)]
    # Cursor says whose setting a server is of.
    return bool(_OWN_TOOL().match(name)) or any(one.removeprefix("user-") in OWN_SERVERS for one in named)
