"""VS Code's own agents: hooks in Claude Code's form, and transcripts of their own.

VS Code runs the hooks of Claude Code's settings, and each registration with the same time: by that, what two of them
tell is one event. Copilot CLI sends the same envelope where it runs a project's `.claude/settings.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp_memory.capture.hook import VSCODE, is_own_tool, plain
from mcp_memory.clients import claude_code
from mcp_memory.clients.claude_prompts import message_of
from mcp_memory.clients.claude_tools import compact, said, tool_events
from mcp_memory.clients.lines import (
    TRANSCRIPT,
    Origin,
    TranscriptReader,
    UnreadableLine,
    digest,
    growing,
    json_of,
    milliseconds,
    object_of,
    peek,
    text_of,
)
from mcp_memory.clients.port import BadLine, Reading, TranscriptState
from mcp_memory.domain.events import TIMES, Captured, EventType

#: What VS Code adds to the id of a call; its transcript has the id without it.
_OWN_SUFFIX = "__vscode-"
_OPEN_CALLS = 50
#: Copilot's names of events that VS Code calls as Claude Code does.
_EVENTS = {"userPromptSubmitted": "UserPromptSubmit", "agentStop": "Stop"}


def recognizes(path: Path) -> bool:
    opened = (object_of(value, "data") for value in peek(path) if value.get("type") == "session.start")
    return any("vscodeVersion" in data and isinstance(data.get("sessionId"), str) for data in opened)


def read(path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
    return _VSCodeTranscript(path, state, lambda value: object_of(value, "data")).read(growing(path, state))


def hook(payload: Mapping[str, Any], received_ms: int) -> Reading:
    """The payload as Claude Code would tell it: a call by its shape, and a name for what came without one."""
    payload = plain(payload)
    when, event, name = payload.get("timestamp"), text_of(payload, "hook_event_name"), text_of(payload, "tool_name")
    ms = (when if isinstance(when, int) and when in TIMES else milliseconds(when)) or received_ms
    if is_own_tool(name):
        return Reading(text_of(payload, "session_id"))
    changed = {**payload, "hook_event_name": _EVENTS.get(event, event[:1].upper() + event[1:])}
    if name:
        given, response = payload.get("tool_input"), payload.get("tool_response")
        if isinstance(given, str):  # Copilot also writes it as JSON in a string
            value = json_of(given)
            given = value if isinstance(value, Mapping) else {"input": given}
        given = given if isinstance(given, Mapping) else {}
        tool_id = text_of(payload, "tool_use_id") or f"{ms}:{digest(f'{name} {compact(given)}')}"
        text = text_of(response, "text_result_for_llm") or text_of(response, "textResultForLlm")
        changed |= {"tool_use_id": tool_id.partition(_OWN_SUFFIX)[0], "tool_response": text or response}
        changed["tool_name"], changed["tool_input"] = _call(name, given)
    if changed["hook_event_name"].startswith("Subagent") and not text_of(payload, "agent_id"):
        agent = text_of(payload, "agent_name") or text_of(payload, "agent_type") or "agent"
        changed |= {"agent_id": f"{agent}:{ms}", "agent_type": agent}
    return claude_code.hook(changed, ms, VSCODE)


def _call(name: str, given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A call of a built-in tool in Claude Code's words. What it is shows in its input; names change with versions."""
    file = text_of(given, "filePath") or text_of(given, "path")
    if "command" in given:
        return "Bash", given
    if file and isinstance(given.get("newString"), str):
        return "Edit", {"file_path": file, "old_string": given.get("oldString"), "new_string": given["newString"]}
    if file and isinstance(given.get("content"), str):
        return "Write", {"file_path": file, "content": given["content"]}
    if "filePath" in given:
        return "Read", {"file_path": file}
    return name, given


class _VSCodeTranscript(TranscriptReader):
    def take(self, value: dict[str, Any]) -> list[Captured]:
        kind, data = text_of(value, "type"), object_of(value, "data")
        if not kind or not data:
            raise UnreadableLine("neither a type nor data")
        ms = self.moment(text_of(value, "timestamp"))
        if kind == "session.start":
            self.memory |= {"session": text_of(data, "sessionId"), "cwd": text_of(object_of(data, "context"), "cwd")}
        session = self.memory.get("session") or self.path.stem
        origin = Origin(VSCODE, session, ms, TRANSCRIPT, self.memory.get("cwd", ""))
        if kind == "tool.execution_start":  # how the call reads its end does not tell
            self.remember("calls", text_of(data, "toolCallId"), self.keep(data), _OPEN_CALLS)
        elif kind == "tool.execution_complete":
            return self._completed(data, origin)
        elif kind in ("user.message", "assistant.message"):
            if not isinstance(data.get("content"), str):
                raise UnreadableLine("content is not text")
            is_user, name = kind == "user.message", text_of(value, "id")
            event_type = EventType.USER_MESSAGE if is_user else EventType.ASSISTANT_MESSAGE
            text = message_of(data["content"]).words if is_user else said(data["content"])
            key = f"line:{name or digest(f'{ms} {text}')}"
            return [origin.event(key, event_type, text, (name,))] if text else []
        return []

    def _completed(self, data: Mapping[str, Any], origin: Origin) -> list[Captured]:
        call, result = text_of(data, "toolCallId"), text_of(object_of(data, "result"), "content")
        kept = self.kept(self.memory.get("calls", {}).get(call))
        made = [one for one in kept if text_of(one, "toolCallId") == call]
        name, given = _call(text_of(made[0], "toolName"), object_of(made[0], "arguments")) if made else ("", {})
        if is_own_tool(name) or not call or not (name or result):
            return []
        return tool_events(origin, call, name, given, result, (call,), failed=data.get("success") is False)
