"""Hook payloads of Claude Code as events, under the same keys and with the same texts as its transcripts give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_memory.clients import claude_transcript
from mcp_memory.clients.claude_tools import (
    call_text,
    compact_summary,
    failure_text,
    is_own,
    result_text,
    said,
    touched,
    typed,
)
from mcp_memory.clients.lines import (
    HOOK,
    Account,
    Call,
    Reader,
    digest,
    files_below,
    object_of,
    peek,
    session_end,
    session_start,
    text_of,
    understood,
)
from mcp_memory.clients.port import BadLine, Folders, Hooked, Told, TranscriptState
from mcp_memory.domain.events import EventType, Role

CLIENT = "claude-code"
_FACTS = ("prompt_id", "agent_id", "agent_type", "model")
#: Events that tell nothing, or nothing that another event does not tell better.
_SILENT = frozenset(
    (
        "PreToolUse PostToolBatch MessageDisplay InstructionsLoaded PermissionRequest PermissionDenied "
        "Notification Setup ConfigChange CwdChanged FileChanged UserPromptExpansion TeammateIdle TaskCreated "
        "TaskCompleted WorktreeCreate WorktreeRemove Elicitation ElicitationResult"
    ).split()
)


def hooked(payload: Mapping[str, Any], received_ms: int, client: str = CLIENT) -> Hooked:
    """What one payload means; never raises. `client` is another one that tells its events in this form."""
    event, session = text_of(payload, "hook_event_name"), text_of(payload, "session_id")
    if not event or not session or "cursor_version" in payload:
        return Hooked(unknown=True)
    if event in _SILENT:
        return Hooked(session)

    def account(clear: Mapping[str, Any]) -> Account:
        facts = {name: text_of(clear, name) for name in _FACTS}
        return Account(client, session, received_ms, HOOK, text_of(clear, "cwd"), facts)

    return understood(payload, session, _READERS.get(event), account)


def _prompt(call: Call) -> Hooked | None:
    if not isinstance(call.payload.get("prompt"), str):
        return None
    text, prompt_id = typed(call.text("prompt")), call.text("prompt_id")
    if not text:
        return call.hooked()
    key = f"prompt:{prompt_id}:{digest(text)}" if prompt_id else f"hook:{call.account.ms}:{digest(text)}"
    ids = (prompt_id,) if prompt_id else ()
    return call.hooked(call.event(key, EventType.USER_MESSAGE, Role.USER, text, ids))


def _tool(call: Call) -> Hooked | None:
    return _tool_event(call, failed=False)


def _tool_failure(call: Call) -> Hooked | None:
    return _tool_event(call, failed=True)


def _tool_event(call: Call, *, failed: bool) -> Hooked | None:
    name, tool_id = call.text("tool_name"), call.text("tool_use_id")
    if not name or not tool_id:
        return None
    given = object_of(call.payload, "tool_input")
    if is_own(name, given, object_of(call.payload, "mcp_server").get("name")):
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


def _stop(call: Call) -> Hooked:
    turn = call.event(f"turn:{call.account.ms}", EventType.ASSISTANT_STOP, Role.SYSTEM, "")
    text = said(call.text("last_assistant_message"))
    if not text:
        return call.hooked(turn)
    key = f"stop:{call.text('prompt_id') or call.account.ms}:{digest(text)}"
    return call.hooked(turn, fallback=(call.event(key, EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, text),))


def _stop_failure(call: Call) -> Hooked:
    told = (call.text("last_assistant_message"), call.text("error_details"), call.text("error"), "unknown")
    error = next(filter(None, told)).strip()
    if error.lower().startswith("api error:"):
        error = error[len("api error:") :].strip()
    key = f"turn:{call.account.ms}"
    return call.hooked(call.event(key, EventType.ASSISTANT_STOP, Role.SYSTEM, f"API error: {error}", failed=True))


def _subagent_start(call: Call) -> Hooked | None:
    agent = call.text("agent_id")
    if not agent:
        return None
    kind = call.text("agent_type")
    return call.hooked(call.event(f"agent-start:{agent}", EventType.SUBAGENT_START, Role.SYSTEM, kind, (agent,)))


def _subagent_stop(call: Call) -> Hooked | None:
    agent = call.text("agent_id")
    if not agent:
        return None
    if call.payload.get("agent_type") == "":  # a compaction ends like a subagent that never started
        return Hooked(call.account.session_id)
    text = said(call.text("last_assistant_message"))
    event = call.event(f"agent-stop:{agent}", EventType.SUBAGENT_STOP, Role.SYSTEM, text, (agent,))
    return call.hooked(event, path=call.path("agent_transcript_path"))


def _compacting(call: Call) -> Hooked:
    """The client is about to forget: what was said until now is read before it does."""
    return replace(call.hooked(), compacting=True)


def _compacted(call: Call) -> Hooked:
    text = compact_summary(call.text("compact_summary"))
    key, trigger = f"compact:{call.account.ms}", call.text("trigger")
    event = call.event(key, EventType.COMPACTION, Role.SYSTEM, text, trigger=trigger)
    return call.hooked(fallback=(event,) if text else ())


_READERS: dict[str, Reader] = {
    "SessionStart": session_start,
    "SessionEnd": session_end,
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


_TYPES = frozenset("user assistant system attachment progress queue-operation pr-link".split())
#: Lines without a session that a transcript may begin with, each with a field that only it has.
_OPENERS = {"summary": "leafUuid", "file-history-snapshot": "snapshot"}


class ClaudeCode:
    """Understands Claude Code."""

    name = CLIENT

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        return hooked(payload, received_ms)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        return claude_transcript.read(path, state)

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """Each session comes before its subagents: `s.jsonl` sorts before `s/subagents/`."""
        return files_below(places)

    def recognizes(self, path: Path) -> bool:
        return any(map(_is_ours, peek(path)))

    def default_places(self, home: Folders) -> list[Path]:
        return [home.path(self.name, ".claude/projects")]


def _is_ours(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    if not isinstance(kind, str):
        return False
    opener = _OPENERS.get(kind)
    return opener in value if opener else kind in _TYPES and isinstance(value.get("sessionId"), str)
