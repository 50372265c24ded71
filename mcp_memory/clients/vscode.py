"""The adapter of VS Code's own agents: hooks in Claude Code's form, and transcripts of their own.

VS Code runs the hooks of Claude Code's settings, and each registration with the same time: by that, what two of them
tell is one event. Copilot CLI sends the same envelope where it runs a project's `.claude/settings.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_memory.capture.hook import VSCODE, is_own_tool, plain
from mcp_memory.clients import claude_code
from mcp_memory.clients.claude_tools import compact, headline, said, touched, typed
from mcp_memory.clients.lines import (
    TRANSCRIPT,
    Account,
    Earlier,
    Unreadable,
    digest,
    files_below,
    growing,
    keep_newest,
    milliseconds,
    modified_ms,
    object_of,
    parse,
    peek,
    text_of,
    told_by,
)
from mcp_memory.clients.port import BadLine, Folders, Hooked, Told, TranscriptState
from mcp_memory.domain.events import TIMES, EventType, Role

#: What VS Code adds to the id of a call; its transcript has the id without it.
_OWN_SUFFIX = "__vscode-"
_OPEN_CALLS = 50
#: Copilot's names of events that VS Code calls as Claude Code does.
_EVENTS = {"userPromptSubmitted": "UserPromptSubmit", "agentStop": "Stop"}
#: Below the home directory on Linux, macOS and Windows; each workspace has a folder there.
_STORAGES = tuple(
    f"{place}/Code/User/workspaceStorage" for place in (".config", "Library/Application Support", "AppData/Roaming")
)
_TRANSCRIPTS = "*/GitHub.copilot-chat/transcripts"


class VSCode:
    """Understands VS Code."""

    name = VSCODE

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        payload = plain(payload)
        when = payload.get("timestamp")
        ms = (when if isinstance(when, int) and when in TIMES else milliseconds(when)) or received_ms
        if is_own_tool(text_of(payload, "tool_name"), VSCODE):
            return Hooked(text_of(payload, "session_id"))
        return claude_code.hooked(_as_claude(payload, ms), ms, VSCODE)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        return told_by(_Reader(path, state), growing(path, state), path, state)

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        return files_below(places)

    def recognizes(self, path: Path) -> bool:
        opened = (object_of(value, "data") for value in peek(path) if value.get("type") == "session.start")
        return any("vscodeVersion" in data and isinstance(data.get("sessionId"), str) for data in opened)

    def default_places(self, home: Folders) -> list[Path]:
        return [place for name in _STORAGES for place in sorted(home.path(self.name, name).glob(_TRANSCRIPTS))]


def _as_claude(payload: Mapping[str, Any], ms: int) -> dict[str, Any]:
    """The payload as Claude Code would tell it: a call by its shape, and a name for what came without one."""
    event, name = text_of(payload, "hook_event_name"), text_of(payload, "tool_name")
    changed = {**payload, "hook_event_name": _EVENTS.get(event, event[:1].upper() + event[1:])}
    if name:
        given = _given(payload.get("tool_input"))
        tool_id = text_of(payload, "tool_use_id") or f"{ms}:{digest(f'{name} {compact(given)}')}"
        changed |= {"tool_use_id": tool_id.partition(_OWN_SUFFIX)[0], "tool_response": _result(payload)}
        changed["tool_name"], changed["tool_input"] = _call(name, given)
    if changed["hook_event_name"].startswith("Subagent") and not text_of(payload, "agent_id"):
        agent = text_of(payload, "agent_name") or text_of(payload, "agent_type") or "agent"
        changed |= {"agent_id": f"{agent}:{ms}", "agent_type": agent}
    return changed


def _given(value: object) -> Mapping[str, Any]:
    """A tool's input, which Copilot also writes as JSON in a string."""
    if isinstance(value, str):
        values, _ = parse(value.encode("utf-8", "replace"))
        value = values[0] if len(values) == 1 and isinstance(values[0], Mapping) else {"input": value}
    return value if isinstance(value, Mapping) else {}


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


def _result(payload: Mapping[str, Any]) -> object:
    response = payload.get("tool_response")
    text = text_of(response, "text_result_for_llm") or text_of(response, "textResultForLlm")
    return text or response


class _Reader:
    """Reads one transcript's lines in order. What later lines need of earlier ones lies in `memory`, which is saved.

    So it holds names, numbers and the places of lines, but none of their words.
    """

    def __init__(self, path: Path, state: TranscriptState) -> None:
        self._path = path
        self._memory = state.memory
        self._earlier = Earlier(path, state, lambda value: object_of(value, "data"))

    def settle(self) -> None:
        """A line changes nothing that would make it read differently when it is read again."""

    def take(self, value: object) -> list[Told]:
        kind, data = text_of(value, "type"), object_of(value, "data")
        if not kind or not data:
            raise Unreadable("neither a type nor data")
        ms = milliseconds(text_of(value, "timestamp"))
        self._memory["ms"] = ms = self._memory.get("ms", modified_ms(self._path)) if ms is None else ms
        if kind == "session.start":
            self._memory |= {"session": text_of(data, "sessionId"), "cwd": text_of(object_of(data, "context"), "cwd")}
        elif kind == "tool.execution_start":
            self._started(data)
        elif kind == "tool.execution_complete":
            return self._completed(data, ms)
        elif kind in ("user.message", "assistant.message"):
            return self._message(kind, data, text_of(value, "id"), ms)
        return []

    def _message(self, kind: str, data: Mapping[str, Any], name: str, ms: int) -> list[Told]:
        if not isinstance(data.get("content"), str):
            raise Unreadable("content is not text")
        if kind == "user.message":
            event_type, role, text = EventType.USER_MESSAGE, Role.USER, typed(data["content"])
        else:
            event_type, role, text = EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, said(data["content"])
        key = f"line:{name or digest(f'{ms} {text}')}"
        return [self._account(ms).tell(key, event_type, role, text, (name,) if name else ())] if text else []

    def _started(self, data: Mapping[str, Any]) -> None:
        """Keep where the call stands: how it reads its end does not tell."""
        calls: dict[str, int] = self._memory.setdefault("calls", {})
        calls[text_of(data, "toolCallId")] = self._earlier.keep(data)
        keep_newest(calls, _OPEN_CALLS)

    def _completed(self, data: Mapping[str, Any], ms: int) -> list[Told]:
        call, account = text_of(data, "toolCallId"), self._account(ms)
        made = [
            one
            for one in self._earlier.at(self._memory.get("calls", {}).get(call))
            if text_of(one, "toolCallId") == call
        ]
        name, given = _call(text_of(made[0], "toolName"), object_of(made[0], "arguments")) if made else ("", {})
        head = headline(name, given, account.cwd) if name else ""
        text = "\n".join(filter(None, (head, text_of(object_of(data, "result"), "content"))))
        if is_own_tool(name, VSCODE) or not call or not text:
            return []
        return [
            account.tell(
                f"tool:{call}",
                EventType.TOOL_RESULT,
                Role.TOOL,
                text,
                (call,),
                tool=name,
                files=touched(name, given, account.cwd),
                failed=data.get("success") is False,
            )
        ]

    def _account(self, ms: int) -> Account:
        session = self._memory.get("session") or self._path.stem
        return Account(VSCODE, session, ms, TRANSCRIPT, self._memory.get("cwd", ""))
