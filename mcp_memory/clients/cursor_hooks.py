"""Hook payloads of Cursor as events.

Cursor runs the hooks of its own settings and those of Claude's, so a payload may come twice: whatever is told here
has a key that is the same both times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp_memory.clients.account import HOOK, Account, object_of, text_of
from mcp_memory.clients.calls import Call, Reader, understood
from mcp_memory.clients.cursor_text import (
    call_text,
    is_own,
    result_of,
    said,
    said_key,
    touched,
    typed,
)
from mcp_memory.clients.lines import digest
from mcp_memory.clients.port import Hooked
from mcp_memory.domain.events import Captured, EventType, Role

CLIENT = "cursor"
#: Tells of a single kind of tool, what postToolUse tells of all: the words decide whether it is the same call.
_AFTER = "hook-after"
_SILENT = frozenset(
    (
        "pretooluse beforeshellexecution beforemcpexecution beforereadfile beforetabfileread aftertabfileedit "
        "afteragentthought notification workspaceopen"
    ).split()
)
_ALIASES = {"userpromptsubmit": "beforesubmitprompt"}


def hooked(payload: Mapping[str, Any], received_ms: int) -> Hooked:
    """What one payload means; never raises."""
    event = text_of(payload, "hook_event_name").lower()
    session = text_of(payload, "conversation_id") or text_of(payload, "session_id")
    if not event or not session:
        return Hooked(unknown=True)
    if event in _SILENT:
        return Hooked(session)

    def account(clear: Mapping[str, Any]) -> Account:
        facts = {"turn_id": text_of(clear, "generation_id"), "model": text_of(clear, "model")}
        return Account(CLIENT, session, received_ms, HOOK, _directory(clear), facts)

    return understood(payload, session, _READERS.get(_ALIASES.get(event, event)), account)


def _turn(call: Call) -> str:
    return call.text("generation_id")


def _key(call: Call, role: str, text: str) -> str:
    """Where there is no transcript that could tell it again, the turn tells equal messages apart."""
    return said_key(role, text) if call.text("transcript_path") else f"{role}:{_turn(call)}:{digest(text)}"


def _directory(payload: Mapping[str, Any]) -> str:
    roots = payload.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    return text_of(payload, "cwd") or first


def _session_start(call: Call) -> Hooked:
    source = call.text("source") or "startup"
    event = call.event(f"start:{_turn(call)}", EventType.SESSION_START, Role.SYSTEM, source, source=source)
    return call.hooked(event)


def _session_end(call: Call) -> Hooked:
    reason = call.text("reason")
    length = call.payload.get("duration_ms", "")
    key = f"end:{reason}:{_turn(call)}:{length}"
    return call.hooked(call.event(key, EventType.SESSION_END, Role.SYSTEM, reason, reason=reason))


def _prompt(call: Call) -> Hooked | None:
    if not isinstance(call.payload.get("prompt"), str):
        return None
    text = typed(call.text("prompt"))
    if not text:
        return call.hooked()
    return call.hooked(call.event(_key(call, "user", text), EventType.USER_MESSAGE, Role.USER, text))


def _reply(call: Call) -> Hooked | None:
    if not isinstance(call.payload.get("text"), str):
        return None
    text = said(call.text("text"))
    if not text:
        return call.hooked()
    key = _key(call, "assistant", text)
    return call.hooked(call.event(key, EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, text))


def _tool(call: Call) -> Hooked | None:
    name = call.text("tool_name")
    output = call.payload.get("tool_output", call.payload.get("tool_response"))
    result, failed = result_of(output)
    return _told(call, name, object_of(call.payload, "tool_input"), result, failed=failed) if name else None


def _tool_failure(call: Call) -> Hooked | None:
    name = call.text("tool_name")
    error = call.text("error_message") or call.text("error")
    stopped = call.payload.get("is_interrupt") is True
    given = object_of(call.payload, "tool_input")
    return _told(call, name, given, error, failed=True, is_interrupt=stopped) if name else None


def _shell(call: Call) -> Hooked | None:
    given = {"command": call.text("command")}
    return _after(call, "Shell", given, call.text("output")) if given["command"] else None


def _mcp(call: Call) -> Hooked | None:
    name = call.text("tool_name")
    given = call.payload.get("tool_input")
    value = result_of(given)[0] if isinstance(given, str) else ""
    given = given if isinstance(given, Mapping) else {"input": value} if value else {}
    name = name if name.startswith("MCP:") else f"MCP:{name}"
    return _after(call, name, given, result_of(call.payload.get("result_json"))[0]) if call.text("tool_name") else None


def _edit(call: Call) -> Hooked | None:
    path = call.text("file_path")
    return _after(call, "Edit", {"file_path": path, "edits": call.payload.get("edits")}, "") if path else None


def _after(call: Call, name: str, given: Mapping[str, Any], result: str) -> Hooked:
    return _told(replace(call, account=replace(call.account, via=_AFTER)), name, given, result)


def _told(call: Call, name: str, given: Mapping[str, Any], result: str, **facts: object) -> Hooked:
    if is_own(name, given):
        return call.hooked()
    cwd, tool_id = call.account.cwd, call.text("tool_use_id")
    text = call_text(name, given, result, cwd)
    event = call.event(
        f"tool:{tool_id}" if tool_id else f"tool:{_turn(call)}:{digest(text)}",
        EventType.TOOL_RESULT,
        Role.TOOL,
        text,
        (tool_id,) if tool_id else (),
        tool=name,
        files=touched(name, given, cwd),
        **facts,
    )
    return call.hooked(event)


def _stop(call: Call) -> Hooked:
    status = call.text("status")
    text = {"aborted": "Interrupted by the user", "error": "The turn ended with an error"}.get(status, "")
    key = f"turn:{_turn(call) or call.account.ms}"
    event = call.event(
        key, EventType.ASSISTANT_STOP, Role.SYSTEM, text, failed=status == "error", is_interrupt=status == "aborted"
    )
    return call.hooked(event)


def _subagent_start(call: Call) -> Hooked:
    return call.hooked(_agent(call, "start", EventType.SUBAGENT_START, call.text("task")))


def _subagent_stop(call: Call) -> Hooked:
    event = _agent(call, "stop", EventType.SUBAGENT_STOP, said(call.text("summary") or call.text("result")))
    return call.hooked(event, path=call.path("agent_transcript_path"))


def _agent(call: Call, what: str, event_type: EventType, text: str) -> Captured:
    path = call.path("agent_transcript_path")
    agent = call.text("subagent_id") or (path.stem if path else "") or digest(call.text("task"))
    kind = call.text("subagent_type")
    parent = call.text("parent_conversation_id") or call.account.session_id
    account = replace(call.account, session_id=parent)
    return account.event(
        f"agent-{what}:{agent}", event_type, Role.SYSTEM, text, (agent,), agent_id=agent, agent_type=kind
    )


def _compaction(call: Call) -> Hooked:
    """Cursor tells that it is about to compact, but not what it keeps."""
    tokens = call.payload.get("context_tokens")
    key, before = f"compact:{_turn(call)}:{tokens}", tokens if isinstance(tokens, int) else None
    event = call.event(key, EventType.COMPACTION, Role.SYSTEM, "", trigger=call.text("trigger"), pre_tokens=before)
    return replace(call.hooked(event), compacting=True)


_READERS: dict[str, Reader] = {
    "sessionstart": _session_start,
    "sessionend": _session_end,
    "beforesubmitprompt": _prompt,
    "afteragentresponse": _reply,
    "posttooluse": _tool,
    "posttoolusefailure": _tool_failure,
    "aftershellexecution": _shell,
    "aftermcpexecution": _mcp,
    "afterfileedit": _edit,
    "stop": _stop,
    "subagentstart": _subagent_start,
    "subagentstop": _subagent_stop,
    "precompact": _compaction,
}
