"""Hook payloads of Codex as events, under the same keys as its rollouts give.

Codex names its events as Claude Code does, but a subagent's events carry the parent's session and their own agent.
What a tool gave back is told by the rollout first where it can be: only there stands whether it failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_memory.clients.account import HOOK, Account, object_of, text_of
from mcp_memory.clients.calls import Call, Reader, session_end, session_start, understood
from mcp_memory.clients.claude_text import said
from mcp_memory.clients.codex_text import typed
from mcp_memory.clients.codex_tools import call_text, called, has_failed, is_own, output_of, touched
from mcp_memory.clients.lines import digest
from mcp_memory.clients.port import Hooked
from mcp_memory.domain.events import EventType, Role

CLIENT = "codex"
#: Events that tell nothing, or nothing that another event does not tell better.
_SILENT = frozenset("PreToolUse PreCompact PermissionRequest Notification".split())
_FACTS = ("turn_id", "agent_id", "agent_type", "model")


def hooked(payload: Mapping[str, Any], received_ms: int) -> Hooked:
    """What one payload means; never raises."""
    event, session = text_of(payload, "hook_event_name"), text_of(payload, "session_id")
    if not event or not session or "cursor_version" in payload:
        return Hooked(unknown=True)
    if event in _SILENT:
        return Hooked(session, compacting=event == "PreCompact")

    def account(clear: Mapping[str, Any]) -> Account:
        facts = {name: text_of(clear, name) for name in _FACTS}
        return Account(CLIENT, session, received_ms, HOOK, text_of(clear, "cwd"), facts)

    return understood(payload, session, _READERS.get(event), account)


def _prompt(call: Call) -> Hooked | None:
    if not isinstance(call.payload.get("prompt"), str):
        return None
    if call.text("agent_id"):  # the task of a subagent, which no user typed
        return _subagent_start(call)
    text, turn = typed(call.text("prompt")), call.text("turn_id")
    if not text:
        return call.hooked()
    key = f"prompt:{turn or call.account.ms}:{digest(text)}"
    return call.hooked(call.event(key, EventType.USER_MESSAGE, Role.USER, text))


def _tool(call: Call) -> Hooked | None:
    tool_id = call.text("tool_use_id")
    if not call.text("tool_name") or not tool_id:
        return None
    name, given = called(call.text("tool_name"), "", object_of(call.payload, "tool_input"))
    if is_own(name, given):
        return call.hooked()
    output = output_of(call.payload.get("tool_response"))
    cwd = call.account.cwd
    event = call.event(
        f"tool:{tool_id}",
        EventType.TOOL_RESULT,
        Role.TOOL,
        call_text(name, given, output, cwd),
        (tool_id,),
        tool=name,
        files=touched(name, given, cwd),
        failed=has_failed(name, output),
    )
    return call.hooked(fallback=(event,))


def _stop(call: Call) -> Hooked:
    if call.text("agent_id"):
        return call.hooked()
    turn = call.event(f"turn:{call.account.ms}", EventType.ASSISTANT_STOP, Role.SYSTEM, "")
    text = said(call.text("last_assistant_message"))
    if not text:
        return call.hooked(turn)
    key = f"stop:{call.text('turn_id') or call.account.ms}:{digest(text)}"
    return call.hooked(turn, fallback=(call.event(key, EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, text),))


def _subagent_start(call: Call) -> Hooked | None:
    agent = call.text("agent_id")
    if not agent:
        return None
    text = typed(call.text("prompt")) or call.text("agent_type")
    key = f"agent-start:{agent}:{call.text('turn_id')}"
    return call.hooked(call.event(key, EventType.SUBAGENT_START, Role.SYSTEM, text, (agent,)))


def _subagent_stop(call: Call) -> Hooked | None:
    agent = call.text("agent_id")
    if not agent:
        return None
    text = said(call.text("last_assistant_message"))
    key = f"agent-stop:{agent}:{call.text('turn_id')}"
    event = call.event(key, EventType.SUBAGENT_STOP, Role.SYSTEM, text, (agent,))
    return call.hooked(event, path=call.path("agent_transcript_path"))


def _compacted(call: Call) -> Hooked:
    """The rollout has the summary, this has none: it counts only where there is no rollout."""
    if call.text("agent_id") or call.text("transcript_path"):
        return call.hooked()
    trigger = call.text("trigger")
    key = f"compact:{call.account.ms}"
    return call.hooked(call.event(key, EventType.COMPACTION, Role.SYSTEM, "", trigger=trigger))


_READERS: dict[str, Reader] = {
    "SessionStart": session_start,
    "SessionEnd": session_end,
    "UserPromptSubmit": _prompt,
    "PostToolUse": _tool,
    "PostToolUseFailure": _tool,
    "Stop": _stop,
    "SubagentStart": _subagent_start,
    "SubagentStop": _subagent_stop,
    "PostCompact": _compacted,
}
