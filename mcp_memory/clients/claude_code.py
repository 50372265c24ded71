"""Hook payloads of Claude Code as events, under the same keys and with the same texts as its transcripts give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_memory.capture.hook import CLAUDE_CODE
from mcp_memory.clients.claude_tools import (
    compact_summary,
    failure_text,
    is_own,
    result_text,
    said,
    tool_event,
    typed,
)
from mcp_memory.clients.claude_transcript import read as read
from mcp_memory.clients.lines import HookCall, hook_readers, object_of, peek, read_hook, text_of
from mcp_memory.clients.port import Reading
from mcp_memory.domain.events import EventType

_FACTS = ("prompt_id", "agent_id", "agent_type", "model")
_SILENT = (
    "PreToolUse PostToolBatch MessageDisplay InstructionsLoaded PermissionRequest PermissionDenied "
    "Notification Setup ConfigChange CwdChanged FileChanged UserPromptExpansion TeammateIdle TaskCreated "
    "TaskCompleted WorktreeCreate WorktreeRemove Elicitation ElicitationResult"
)
_TYPES = frozenset("user assistant system attachment progress queue-operation pr-link".split())
#: Lines without a session that a transcript may begin with, each with a field that only it has.
_OPENERS = {"summary": "leafUuid", "file-history-snapshot": "snapshot"}


def recognizes(path: Path) -> bool:
    for value in peek(path):
        kind = text_of(value, "type")
        opener = _OPENERS.get(kind)
        if opener in value if opener else kind in _TYPES and isinstance(value.get("sessionId"), str):
            return True
    return False


def hook(payload: Mapping[str, Any], received_ms: int, client: str = CLAUDE_CODE) -> Reading:
    """What one payload means. `client` is another one that tells its events in this form."""
    return read_hook(client, payload, received_ms, _READERS, _FACTS)


def _prompt(call: HookCall) -> Reading | None:
    if not isinstance(call.payload.get("prompt"), str):
        return None
    name = call.text("prompt_id")
    key = f"prompt:{name}" if name else f"hook:{call.ms}"
    return call.message(typed(call.text("prompt")), EventType.USER_MESSAGE, key, (name,))


def _tool(call: HookCall) -> Reading | None:
    name, tool_id, given = call.text("tool_name"), call.text("tool_use_id"), object_of(call.payload, "tool_input")
    if not name or not tool_id:
        return None
    if is_own(name, given, object_of(call.payload, "mcp_server").get("name")):
        return call.reading()
    response = call.payload.get("tool_response")
    failed = call.text("hook_event_name") == "PostToolUseFailure"
    result = failure_text(call.payload.get("error")) if failed else result_text(name, given, response)
    stopped = call.payload.get("is_interrupt") or object_of(call.payload, "tool_response").get("interrupted")
    return call.reading(
        tool_event(call, tool_id, name, given, result, (tool_id,), failed=failed, is_interrupt=stopped is True)
    )


def _stop_failure(call: HookCall) -> Reading:
    told = (call.text("last_assistant_message"), call.text("error_details"), call.text("error"), "unknown")
    error = next(filter(None, told)).strip()
    if error.lower().startswith("api error:"):
        error = error[len("api error:") :].strip()
    return call.reading(call.event(f"turn:{call.ms}", EventType.ASSISTANT_STOP, f"API error: {error}", failed=True))


def _subagent(call: HookCall) -> Reading | None:
    agent, kind = call.text("agent_id"), call.text("agent_type")
    if not agent:
        return None
    if call.text("hook_event_name") == "SubagentStart":
        return call.reading(call.event(f"agent-start:{agent}", EventType.SUBAGENT_START, kind, (agent,)))
    if call.payload.get("agent_type") == "":  # a compaction ends like a subagent that never started
        return Reading(call.session_id)
    text = said(call.text("last_assistant_message"))
    event = call.event(f"agent-stop:{agent}", EventType.SUBAGENT_STOP, text, (agent,))
    return call.reading(event, path=call.path("agent_transcript_path"))


def _compacted(call: HookCall) -> Reading:
    text = compact_summary(call.text("compact_summary"))
    event = call.event(f"compact:{call.ms}", EventType.COMPACTION, text, trigger=call.text("trigger"))
    return call.reading(fallback=(event,) if text else ())


_READERS = hook_readers(
    _SILENT,
    UserPromptSubmit=_prompt,
    PostToolUse=_tool,
    PostToolUseFailure=_tool,
    Stop=lambda call: call.turn_end(said(call.text("last_assistant_message")), "stop", call.text("prompt_id")),
    StopFailure=_stop_failure,
    SubagentStart=_subagent,
    SubagentStop=_subagent,
    # The client is about to forget: what was said until now is read before it does.
    PreCompact=lambda call: replace(call.reading(), compacting=True),
    PostCompact=_compacted,
)
