"""What was really said in Cursor, and its tool calls as text.

Its transcripts give a message neither a name nor a time. So a message is known by its words: the first time they are
said in a conversation by these alone, later by how many times they were.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from mcp_memory.clients import claude_tools
from mcp_memory.clients.account import text_of
from mcp_memory.clients.claude_text import without_injected
from mcp_memory.clients.claude_tools import blocks_text, clip, compact, relative
from mcp_memory.clients.lines import digest, milliseconds, settled

_QUERY = re.compile(r"<user_query>(.*?)</user_query>", re.DOTALL)
_TIMESTAMP = re.compile(r"<timestamp>(.*?)</timestamp>", re.DOTALL)
_ZONE = re.compile(r"\s*\(UTC(?:([+-]\d{1,2})(?::?(\d\d))?)?\)$")
_TIME_FORMAT = "%A, %b %d, %Y, %I:%M %p"
#: Blocks that the client, or our own hook, puts beside what was typed.
_ADDED = re.compile(
    r"<(timestamp|attached_files|open_and_recently_viewed_files|system_reminder|external_links|image_files|rules"
    r"|manually_attached_skills|additional_data|memory)\b[^>]*>.*?</\1>",
    re.DOTALL,
)
_HIDDEN_THOUGHT = re.compile(r"(?:\s*\[REDACTED\])+\s*\Z")
_OWN_TOOL = re.compile(
    r"(?:MCP:\s*)?(?:memory[:./ -])?"
    r"(?:toc_root|get_node|expand_grip|teleport|browse_time|build_context|session_context|remember|forget)\Z"
)
_OWN_SERVERS = frozenset({"memory", "mcp-memory", "mcp_memory", "user-memory"})
_SHELLS = frozenset("shell bash run_terminal_cmd run_terminal_command".split())
_WRITERS = frozenset("write create_file".split())
_EDITORS = frozenset("edit strreplace search_replace multiedit edit_file afterfileedit".split())
_SHORT = 200
_FILE_FIELDS = ("file_path", "path", "target_file", "relative_workspace_path", "target_notebook")
_TELLING_FIELDS = ("pattern", "query", "search_term", "url", "description", "glob_pattern")


def typed(text: str) -> str:
    """What the user typed, from a hook's prompt or a transcript's message."""
    if asked := _QUERY.findall(text):
        text = "\n\n".join(map(str.strip, asked))
    return settled(_ADDED.sub("", without_injected(text)).strip())


def said(text: str) -> str:
    """What the model said, without the marks of thoughts that are not shown."""
    return settled(_HIDDEN_THOUGHT.sub("", text).strip())


def said_key(role: str, text: str, times: int = 1) -> str:
    """How a message is known within its conversation."""
    return f"{role}:{digest(text)}" if times == 1 else f"{role}:{digest(text)}:{times}"


def told_ms(text: str) -> int | None:
    """The time that the client wrote before a prompt, if it did."""
    found = _TIMESTAMP.search(text)
    if not found:
        return None
    stamp = found[1].strip()
    zone = _ZONE.search(stamp)
    hours, minutes = (int(zone[1] or 0), int(zone[2] or 0)) if zone else (0, 0)
    try:
        moment = datetime.strptime(_ZONE.sub("", stamp), _TIME_FORMAT)
        offset = timezone(timedelta(hours=hours, minutes=minutes if hours >= 0 else -minutes))
        return int(moment.replace(tzinfo=offset).timestamp() * 1000)
    except ValueError:
        return milliseconds(stamp)


def is_own(name: str, given: Mapping[str, Any]) -> bool:
    """Whether the call read our own memory."""
    server = given.get("server") or given.get("serverName")
    if _OWN_TOOL.match(name) or (isinstance(server, str) and server.rpartition(":")[2] in _OWN_SERVERS):
        return True
    return name.lower() in _SHELLS and claude_tools.is_own("Bash", given)


def call_text(name: str, given: Mapping[str, Any], result: str, cwd: str) -> str:
    """The event's text: the call, then what came back; for an edit, what it changed."""
    kind = name.lower()
    if kind in _EDITORS:
        result = claude_tools.result_text("Edit", given, result)
    elif kind in _WRITERS:
        result = text_of(given, "contents") or text_of(given, "content") or result
    head = f"{name}: {_short(kind, given, cwd)}".rstrip(": ")
    return settled("\n".join(filter(None, (head, without_injected(result).strip("\n").rstrip()))))


def touched(name: str, given: Mapping[str, Any], cwd: str) -> list[str]:
    path = _file(given) if name.lower() not in ("grep", "glob", "ls") else ""
    return [relative(path, cwd)] if path else []


def result_of(output: object) -> tuple[str, bool]:
    """What a call gave back, which is mostly JSON in a string; and whether it says that it failed."""
    value = _parsed(output)
    if not isinstance(value, Mapping):
        return (value if isinstance(value, str) else blocks_text(value) or _json(value)), False
    code = value.get("exitCode", value.get("exit_code"))
    failed = (isinstance(code, int) and code != 0) or value.get("isError") is True
    parts = [text_of(value, "stdout").strip("\n"), text_of(value, "stderr").strip("\n")]
    fields = (value.get(key) for key in ("output", "content", "contents", "result", "text", "message"))
    text = "\n".join(filter(None, parts)) or next(filter(None, map(blocks_text, fields)), "")
    if not text and not {"stdout", "output"} & value.keys():
        text = _json(value)
    return (f"Exit code {code}\n{text}" if failed and code else text), failed


def _parsed(output: object) -> object:
    if not isinstance(output, str) or output[:1] not in ("{", "["):
        return output
    try:
        return json.loads(output)
    except (ValueError, RecursionError):
        return output


def _json(value: object) -> str:
    return "" if value is None else compact(value)


def _short(kind: str, given: Mapping[str, Any], cwd: str) -> str:
    if kind in _SHELLS:
        return claude_tools.headline("Bash", given, cwd).removeprefix("Bash").removeprefix(": ")
    if (path := _file(given)) and kind not in ("grep", "glob"):
        return relative(path, cwd)
    told = next(filter(None, (text_of(given, key) for key in _TELLING_FIELDS)), "")
    return clip(" ".join((told or (compact(given) if given else "")).split()), _SHORT)


def _file(given: Mapping[str, Any]) -> str:
    return next(filter(None, (text_of(given, key) for key in _FILE_FIELDS)), "")
