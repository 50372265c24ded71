"""Hook payloads of Gemini CLI as events, with the same words as its transcripts give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_memory.clients.account import HOOK, Account, object_of, text_of
from mcp_memory.clients.calls import Call, Reader, session_end, session_start, understood
from mcp_memory.clients.gemini_text import call_text, failed, is_own, response_text, said, touched, typed
from mcp_memory.clients.lines import digest, milliseconds
from mcp_memory.clients.port import Hooked
from mcp_memory.domain.events import EventType, Role

CLIENT = "gemini"
#: Events that tell nothing, or nothing that another event does not tell better. PreCompress comes before every call
#: of the model; that a history was compressed the transcript tells.
_SILENT = frozenset("BeforeTool BeforeModel AfterModel BeforeToolSelection PreCompress Notification".split())


def hooked(payload: Mapping[str, Any], received_ms: int) -> Hooked:
    """What one payload means; never raises."""
    event, session = text_of(payload, "hook_event_name"), text_of(payload, "session_id")
    if not event or not session or "cursor_version" in payload:
        return Hooked(unknown=True)
    if event in _SILENT:
        return Hooked(session)

    def account(clear: Mapping[str, Any]) -> Account:
        ms = milliseconds(clear.get("timestamp")) or received_ms
        return Account(CLIENT, session, ms, HOOK, text_of(clear, "cwd"), {"model": text_of(clear, "model")})

    return understood(payload, session, _READERS.get(event), account)


def _prompt(call: Call) -> Hooked | None:
    if not isinstance(call.payload.get("prompt"), str):
        return None
    text = typed(call.text("prompt"))
    if not text:
        return call.hooked()
    key = f"prompt:{call.account.ms}:{digest(text)}"
    return call.hooked(call.event(key, EventType.USER_MESSAGE, Role.USER, text))


def _tool(call: Call) -> Hooked | None:
    name, given = call.text("tool_name"), object_of(call.payload, "tool_input")
    if not name:
        return None
    if is_own(name, given, text_of(object_of(call.payload, "mcp_context"), "server_name")):
        return call.hooked()
    result, error = response_text(object_of(call.payload, "tool_response"))
    cwd = call.account.cwd
    text = call_text(name, given, result, error, cwd)
    event = call.event(
        f"tool:{call.account.ms}:{digest(text)}",
        EventType.TOOL_RESULT,
        Role.TOOL,
        text,
        tool=name,
        files=touched(name, given, cwd),
        failed=failed(name, result, error),
    )
    return call.hooked(event)


def _turn_end(call: Call) -> Hooked:
    """The hook joins all that was said in a turn; the transcript, where there is one, tells the replies apart."""
    turn = call.event(f"turn:{call.account.ms}", EventType.ASSISTANT_STOP, Role.SYSTEM, "")
    text, path = said(call.text("prompt_response")), call.path()
    if not text or (path and path.is_file()):
        return call.hooked(turn)
    key = f"reply:{call.account.ms}:{digest(text)}"
    return call.hooked(turn, fallback=(call.event(key, EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, text),))


_READERS: dict[str, Reader] = {
    "SessionStart": session_start,
    "SessionEnd": session_end,
    "BeforeAgent": _prompt,
    "AfterTool": _tool,
    "AfterAgent": _turn_end,
}
