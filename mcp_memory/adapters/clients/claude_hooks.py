"""Hook payloads of Claude Code as events, under the same keys and with the same texts as its transcripts give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcp_memory.adapters.clients.claude_text import compact_summary, said, typed
from mcp_memory.adapters.clients.claude_tools import call_text, failure_text, is_own, result_text, touched
from mcp_memory.adapters.clients.lines import digest, whole
from mcp_memory.domain.events import Captured, EventType, Role
from mcp_memory.ports import Hooked

CLIENT = "claude-code"
#: Events that tell nothing, or nothing that another event does not tell better.
_SILENT = frozenset(
    (
        "PreToolUse PostToolBatch MessageDisplay InstructionsLoaded PermissionRequest PermissionDenied "
        "Notification Setup ConfigChange CwdChanged FileChanged UserPromptExpansion TeammateIdle TaskCreated "
        "TaskCompleted WorktreeCreate WorktreeRemove Elicitation ElicitationResult"
    ).split()
)


@dataclass(frozen=True, slots=True)
class _Call:
    """One payload with the fields that every event has."""

    payload: Mapping[str, Any]
    session_id: str
    received_ms: int

    def text(self, key: str) -> str:
        value = self.payload.get(key)
        return value if isinstance(value, str) else ""

    def path(self, key: str = "transcript_path") -> Path | None:
        name = self.text(key)
        return Path(name) if name and "\0" not in name else None

    def event(
        self,
        key: str,
        event_type: EventType,
        role: Role,
        text: str,
        source_ids: tuple[str, ...] = (),
        **metadata: object,
    ) -> Captured:
        told = ("prompt_id", "cwd", "agent_id", "agent_type", "model")
        known = {"via": "hook", **{name: self.text(name) for name in told}, **metadata}
        return Captured(
            client=CLIENT,
            session_id=self.session_id,
            source_key=key,
            timestamp_ms=self.received_ms,
            event_type=event_type,
            role=role,
            text=text,
            source_ids=source_ids,
            metadata={name: value for name, value in known.items() if value not in ("", None, False, [])},
        )

    def hooked(self, *events: Captured, fallback: tuple[Captured, ...] = (), path: Path | None = None) -> Hooked:
        return Hooked(self.session_id, events, fallback, path or self.path())


def hooked(payload: Mapping[str, Any], received_ms: int) -> Hooked:
    """What one payload means; never raises."""
    event, session = payload.get("hook_event_name"), payload.get("session_id")
    if not isinstance(event, str) or not isinstance(session, str) or not session or "cursor_version" in payload:
        return Hooked(unknown=True)
    if event in _SILENT:
        return Hooked(session)
    try:
        read = _READERS.get(event)
        result = read(_Call(whole(dict(payload)), session, received_ms)) if read else None
    except RecursionError:
        result = None
    return result or Hooked(session, unknown=True)


def _session_start(call: _Call) -> Hooked:
    source = call.text("source")
    key = f"start:{source}:{call.received_ms}"
    return call.hooked(call.event(key, EventType.SESSION_START, Role.SYSTEM, source, source=source))


def _session_end(call: _Call) -> Hooked:
    reason = call.text("reason")
    key = f"end:{reason}:{call.received_ms}"
    return call.hooked(call.event(key, EventType.SESSION_END, Role.SYSTEM, reason, reason=reason))


def _prompt(call: _Call) -> Hooked | None:
    if not isinstance(call.payload.get("prompt"), str):
        return None
    text, prompt_id = typed(call.text("prompt")), call.text("prompt_id")
    if not text:
        return call.hooked()
    key = f"prompt:{prompt_id}:{digest(text)}" if prompt_id else f"hook:{call.received_ms}:{digest(text)}"
    ids = (prompt_id,) if prompt_id else ()
    return call.hooked(call.event(key, EventType.USER_MESSAGE, Role.USER, text, ids))


def _tool(call: _Call) -> Hooked | None:
    return _tool_event(call, failed=False)


def _tool_failure(call: _Call) -> Hooked | None:
    return _tool_event(call, failed=True)


def _tool_event(call: _Call, *, failed: bool) -> Hooked | None:
    name, tool_id = call.text("tool_name"), call.text("tool_use_id")
    if not name or not tool_id:
        return None
    given = call.payload.get("tool_input")
    given = given if isinstance(given, Mapping) else {}
    server = call.payload.get("mcp_server")
    if is_own(name, given, server.get("name") if isinstance(server, Mapping) else ""):
        return call.hooked()
    response = call.payload.get("tool_response")
    result = failure_text(call.payload.get("error")) if failed else result_text(name, given, response)
    cwd = call.text("cwd")
    stopped = call.payload.get("is_interrupt") or (isinstance(response, Mapping) and response.get("interrupted"))
    event = call.event(
        f"tool:{tool_id}",
        EventType.TOOL_RESULT,
        Role.TOOL,
        call_text(name, given, result, cwd),
        (tool_id,),
        tool=name,
        files=touched(name, given, cwd),
        failed=failed,
        is_interrupt=stopped is True,
    )
    return call.hooked(event)


def _stop(call: _Call) -> Hooked:
    turn = call.event(f"turn:{call.received_ms}", EventType.ASSISTANT_STOP, Role.SYSTEM, "")
    text = said(call.text("last_assistant_message"))
    if not text:
        return call.hooked(turn)
    key = f"stop:{call.text('prompt_id') or call.received_ms}:{digest(text)}"
    return call.hooked(turn, fallback=(call.event(key, EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, text),))


def _stop_failure(call: _Call) -> Hooked:
    told = (call.text("last_assistant_message"), call.text("error_details"), call.text("error"), "unknown")
    error = next(filter(None, told)).strip()
    if error.lower().startswith("api error:"):
        error = error[len("api error:") :].strip()
    key = f"turn:{call.received_ms}"
    return call.hooked(call.event(key, EventType.ASSISTANT_STOP, Role.SYSTEM, f"API error: {error}", failed=True))


def _subagent_start(call: _Call) -> Hooked | None:
    agent = call.text("agent_id")
    if not agent:
        return None
    kind = call.text("agent_type")
    return call.hooked(call.event(f"agent-start:{agent}", EventType.SUBAGENT_START, Role.SYSTEM, kind, (agent,)))


def _subagent_stop(call: _Call) -> Hooked | None:
    agent = call.text("agent_id")
    if not agent:
        return None
    if call.payload.get("agent_type") == "":  # a compaction ends like a subagent that never started
        return Hooked(call.session_id)
    text = said(call.text("last_assistant_message"))
    event = call.event(f"agent-stop:{agent}", EventType.SUBAGENT_STOP, Role.SYSTEM, text, (agent,))
    return call.hooked(event, path=call.path("agent_transcript_path"))


def _compacting(call: _Call) -> Hooked:
    """The client is about to forget: what was said until now is read before it does."""
    return replace(call.hooked(), compacting=True)


def _compacted(call: _Call) -> Hooked:
    text = compact_summary(call.text("compact_summary"))
    key, trigger = f"compact:{call.received_ms}", call.text("trigger")
    event = call.event(key, EventType.COMPACTION, Role.SYSTEM, text, trigger=trigger)
    return call.hooked(fallback=(event,) if text else ())


_READERS: dict[str, Callable[[_Call], Hooked | None]] = {
    "SessionStart": _session_start,
    "SessionEnd": _session_end,
    "UserPromptSubmit": _prompt,
    "PostToolUse": _tool,
    "PostToolUseFailure": _tool_failure,
    "Stop": _stop,
    "StopFailure": _stop_failure,
    "SubagentStart": _subagent_start,
    "SubagentStop": _subagent_stop,
    "PreCompact": _compacting,
    "PostCompact": _compacted,
}
