"""Hook payloads of Gemini CLI as events, with the same words as its transcripts give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_memory.adapters.clients.account import HOOK, Account, object_of, path_of, text_of
from mcp_memory.adapters.clients.gemini_text import call_text, failed, is_own, response_text, said, touched, typed
from mcp_memory.adapters.clients.lines import digest, milliseconds, whole
from mcp_memory.domain.events import Captured, EventType, Role
from mcp_memory.ports import Hooked

CLIENT = "gemini"
#: Events that tell nothing, or nothing that another event does not tell better. PreCompress comes before every call
#: of the model; that a history was compressed the transcript tells.
_SILENT = frozenset("BeforeTool BeforeModel AfterModel BeforeToolSelection PreCompress Notification".split())


@dataclass(frozen=True, slots=True)
class _Call:
    payload: Mapping[str, Any]
    account: Account

    def text(self, key: str) -> str:
        return text_of(self.payload, key)

    def hooked(self, *events: Captured, fallback: tuple[Captured, ...] = ()) -> Hooked:
        return Hooked(self.account.session_id, events, fallback, path_of(self.payload, "transcript_path"))


def hooked(payload: Mapping[str, Any], received_ms: int) -> Hooked:
    """What one payload means; never raises."""
    event, session = text_of(payload, "hook_event_name"), text_of(payload, "session_id")
    if not event or not session or "cursor_version" in payload:
        return Hooked(unknown=True)
    if event in _SILENT:
        return Hooked(session)
    try:
        payload = whole(dict(payload))
        ms = milliseconds(payload.get("timestamp")) or received_ms
        account = Account(CLIENT, session, ms, HOOK, text_of(payload, "cwd"), {"model": text_of(payload, "model")})
        read = _READERS.get(event)
        result = read(_Call(payload, account)) if read else None
    except RecursionError:
        result = None
    return result or Hooked(session, unknown=True)


def _session_start(call: _Call) -> Hooked:
    source = call.text("source")
    key = f"start:{source}:{call.account.ms}"
    return call.hooked(call.account.event(key, EventType.SESSION_START, Role.SYSTEM, source, source=source))


def _session_end(call: _Call) -> Hooked:
    reason = call.text("reason")
    key = f"end:{reason}:{call.account.ms}"
    return call.hooked(call.account.event(key, EventType.SESSION_END, Role.SYSTEM, reason, reason=reason))


def _prompt(call: _Call) -> Hooked | None:
    if not isinstance(call.payload.get("prompt"), str):
        return None
    text = typed(call.text("prompt"))
    if not text:
        return call.hooked()
    key = f"prompt:{call.account.ms}:{digest(text)}"
    return call.hooked(call.account.event(key, EventType.USER_MESSAGE, Role.USER, text))


def _tool(call: _Call) -> Hooked | None:
    name, given = call.text("tool_name"), object_of(call.payload, "tool_input")
    if not name:
        return None
    if is_own(name, given, text_of(object_of(call.payload, "mcp_context"), "server_name")):
        return call.hooked()
    result, error = response_text(object_of(call.payload, "tool_response"))
    cwd = call.account.cwd
    text = call_text(name, given, result, error, cwd)
    event = call.account.event(
        f"tool:{call.account.ms}:{digest(text)}",
        EventType.TOOL_RESULT,
        Role.TOOL,
        text,
        tool=name,
        files=touched(name, given, cwd),
        failed=failed(name, result, error),
    )
    return call.hooked(event)


def _turn_end(call: _Call) -> Hooked:
    """The hook joins all that was said in a turn; the transcript, where there is one, tells the replies apart."""
    turn = call.account.event(f"turn:{call.account.ms}", EventType.ASSISTANT_STOP, Role.SYSTEM, "")
    text, path = said(call.text("prompt_response")), path_of(call.payload, "transcript_path")
    if not text or (path and path.is_file()):
        return call.hooked(turn)
    key = f"reply:{call.account.ms}:{digest(text)}"
    return call.hooked(turn, fallback=(call.account.event(key, EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, text),))


_READERS: dict[str, Callable[[_Call], Hooked | None]] = {
    "SessionStart": _session_start,
    "SessionEnd": _session_end,
    "BeforeAgent": _prompt,
    "AfterTool": _tool,
    "AfterAgent": _turn_end,
}
