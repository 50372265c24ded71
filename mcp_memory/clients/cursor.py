"""Cursor: its hook payloads as events, with its tool calls as text.

Cursor runs the hooks of its own settings and those of Claude's, so a payload may come twice: whatever is told here
has a key that is the same both times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_memory.capture.hook import CURSOR
from mcp_memory.clients import claude_tools
from mcp_memory.clients.claude_tools import (
    SHORT,
    blocks_text,
    clip,
    compact,
    relative,
    without_injected,
)
from mcp_memory.clients.cursor_transcript import read_transcript, said, said_key, typed
from mcp_memory.clients.lines import (
    HookCall,
    digest,
    hook_readers,
    json_of,
    object_of,
    one_line,
    peek,
    read_hook,
    shortened,
    text_of,
)
from mcp_memory.clients.port import BadLine, Reading, TranscriptState
from mcp_memory.clients.specstory import looks_exported, read_export
from mcp_memory.domain.events import Captured, EventType

_AFTER = "hook-after"
_SILENT = (
    "pretooluse beforeshellexecution beforemcpexecution beforereadfile beforetabfileread aftertabfileedit "
    "afteragentthought notification workspaceopen"
)
_SHELLS = frozenset("shell bash run_terminal_cmd run_terminal_command".split())
_WRITERS = frozenset("write create_file".split())
_EDITORS = frozenset("edit strreplace search_replace multiedit edit_file afterfileedit".split())
_FILE_FIELDS = ("file_path", "path", "target_file", "relative_workspace_path", "target_notebook")
_TELLING_FIELDS = ("pattern", "query", "search_term", "url", "description", "glob_pattern")
_RESULT_FIELDS = ("output", "content", "contents", "result", "text", "message")
_ENDINGS = {"aborted": "Interrupted by the user", "error": "The turn ended with an error"}


def recognizes(path: Path) -> bool:
    if path.suffix == ".md":
        return looks_exported(path)
    return any(
        value.get("role") in ("user", "assistant") and isinstance(value.get("message"), Mapping) and "type" not in value
        for value in peek(path)
    )


def read(path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
    return (read_export if path.suffix == ".md" else read_transcript)(path, state)


def hook(payload: Mapping[str, Any], received_ms: int) -> Reading:
    roots = payload.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    names = {
        "hook_event_name": text_of(payload, "hook_event_name").lower(),
        "session_id": text_of(payload, "conversation_id") or text_of(payload, "session_id"),
        "cwd": text_of(payload, "cwd") or first,
        "turn_id": text_of(payload, "generation_id"),
    }
    return read_hook(CURSOR, {**payload, **names}, received_ms, _READERS, ("turn_id", "model"))


def _session_start(call: HookCall) -> Reading:
    source = call.text("source") or "startup"
    return call.reading(call.event(f"start:{call.text('turn_id')}", EventType.SESSION_START, source, source=source))


def _session_end(call: HookCall) -> Reading:
    reason = call.text("reason")
    key = f"end:{reason}:{call.text('turn_id')}:{call.payload.get('duration_ms', '')}"
    return call.reading(call.event(key, EventType.SESSION_END, reason, reason=reason))


def _message(call: HookCall) -> Reading | None:
    """Where there is no transcript that could tell it again, the turn tells equal messages apart."""
    is_reply = call.text("hook_event_name") == "afteragentresponse"
    told = call.payload.get("text" if is_reply else "prompt")
    if not isinstance(told, str):
        return None
    role, text = ("assistant", said(told)) if is_reply else ("user", typed(told))
    key = said_key(role, text) if call.text("transcript_path") else f"{role}:{call.text('turn_id')}:{digest(text)}"
    event_type = EventType.ASSISTANT_MESSAGE if is_reply else EventType.USER_MESSAGE
    return call.reading(*([call.event(key, event_type, text)] if text else []))


def _tool(call: HookCall) -> Reading | None:
    name, given = call.text("tool_name"), object_of(call.payload, "tool_input")
    if call.text("hook_event_name") == "posttoolusefailure":
        error, stopped = call.text("error_message") or call.text("error"), call.payload.get("is_interrupt") is True
        return _tool_call(call, name, given, error, failed=True, is_interrupt=stopped)
    result, failed = _result(call.payload.get("tool_output", call.payload.get("tool_response")))
    return _tool_call(call, name, given, result, failed=failed)


def _after(call: HookCall) -> Reading | None:
    """A shell, an MCP tool or an edit: what postToolUse tells of all, the words decide whether it is the same call."""
    command, path, name = call.text("command"), call.text("file_path"), call.text("tool_name")
    call = replace(call, via=_AFTER)
    if name:
        told = call.payload.get("tool_input")
        value = _result(told)[0] if isinstance(told, str) else ""
        given = told if isinstance(told, Mapping) else {"input": value} if value else {}
        return _tool_call(call, f"MCP:{name.removeprefix('MCP:')}", given, _result(call.payload.get("result_json"))[0])
    if path:
        return _tool_call(call, "Edit", {"file_path": path, "edits": call.payload.get("edits")}, "")
    return _tool_call(call, "Shell", {"command": command}, call.text("output")) if command else None


def _tool_call(call: HookCall, name: str, given: Mapping[str, Any], result: str, **facts: object) -> Reading | None:
    """One call, then what came back; for an edit, what it changed. None if no tool is named."""
    if not name:
        return None
    kind, is_shell = name.lower(), name.lower() in _SHELLS
    if claude_tools.is_own("Bash" if is_shell else name, given, given.get("server") or given.get("serverName")):
        return call.reading()
    path = next(filter(None, (text_of(given, key) for key in _FILE_FIELDS)), "")
    if is_shell:
        line, lines = claude_tools.call_head("Bash", given, call.cwd, failed=facts.get("failed") is True)
        short, facts = line.removeprefix("Bash").removeprefix(": "), {**facts, **lines}
    elif path and kind not in ("grep", "glob"):
        short = relative(path, call.cwd)
    else:
        told = next(filter(None, (text_of(given, key) for key in _TELLING_FIELDS)), "")
        short = clip(one_line(told or (compact(given) if given else "")), SHORT)
    if kind in _EDITORS:
        result = claude_tools.result_text("Edit", given, result)
    elif kind in _WRITERS:
        result = text_of(given, "contents") or text_of(given, "content") or result
    head = f"{name}: {short}".rstrip(": ")
    text = shortened("\n".join(filter(None, (head, without_injected(result).strip("\n").rstrip()))).rstrip())
    tool_id = call.text("tool_use_id")
    key = f"tool:{tool_id}" if tool_id else f"tool:{call.text('turn_id')}:{digest(text)}"
    files = [relative(path, call.cwd)] if path and kind not in ("grep", "glob", "ls") else []
    return call.reading(call.event(key, EventType.TOOL_RESULT, text, (tool_id,), tool=name, files=files, **facts))


def _result(output: object) -> tuple[str, bool]:
    """What a call gave back, which is mostly JSON in a string; and whether it says that it failed."""
    value = (json_of(output) if isinstance(output, str) and output[:1] in ("{", "[") else None) or output
    if not isinstance(value, Mapping):
        text = value if isinstance(value, str) else blocks_text(value)
        return text or (compact(value) if value not in (None, "") else ""), False
    code = value.get("exitCode", value.get("exit_code"))
    failed = (isinstance(code, int) and code != 0) or value.get("isError") is True
    parts = [text_of(value, "stdout").strip("\n"), text_of(value, "stderr").strip("\n")]
    fields = (value.get(key) for key in _RESULT_FIELDS)
    text = "\n".join(filter(None, parts)) or next(filter(None, map(blocks_text, fields)), "")
    if not text and not {"stdout", "output"} & value.keys():
        text = compact(value)
    return (f"Exit code {code}\n{text}" if failed and code else text), failed


def _stop(call: HookCall) -> Reading:
    status, key = call.text("status"), f"turn:{call.text('turn_id') or call.ms}"
    facts = {"failed": status == "error", "is_interrupt": status == "aborted"}
    return call.reading(call.event(key, EventType.ASSISTANT_STOP, _ENDINGS.get(status, ""), (), **facts))


def _subagent(call: HookCall) -> Reading:
    path, ended = call.path("agent_transcript_path"), call.text("hook_event_name") == "subagentstop"
    agent = call.text("subagent_id") or (path.stem if path else "") or digest(call.text("task"))
    parent = replace(call, session_id=call.text("parent_conversation_id") or call.session_id)
    facts = {"agent_id": agent, "agent_type": call.text("subagent_type")}
    if not ended:
        key, task = f"agent-start:{agent}", call.text("task")
        return call.reading(parent.event(key, EventType.SUBAGENT_START, task, (agent,), **facts))
    key, text = f"agent-stop:{agent}", said(call.text("summary") or call.text("result"))
    return call.reading(parent.event(key, EventType.SUBAGENT_STOP, text, (agent,), **facts), path=path)


def _compaction(call: HookCall) -> Reading:
    """Cursor tells that it is about to compact, but not what it keeps."""
    tokens = call.payload.get("context_tokens")
    facts = {"trigger": call.text("trigger"), "pre_tokens": tokens if isinstance(tokens, int) else None}
    event = call.event(f"compact:{call.text('turn_id')}:{tokens}", EventType.COMPACTION, "", (), **facts)
    return replace(call.reading(event), compacting=True)


_READERS = hook_readers(
    _SILENT,
    sessionstart=_session_start,
    sessionend=_session_end,
    beforesubmitprompt=_message,
    userpromptsubmit=_message,
    afteragentresponse=_message,
    posttooluse=_tool,
    posttoolusefailure=_tool,
    aftershellexecution=_after,
    aftermcpexecution=_after,
    afterfileedit=_after,
    stop=_stop,
    subagentstart=_subagent,
    subagentstop=_subagent,
    precompact=_compaction,
)
