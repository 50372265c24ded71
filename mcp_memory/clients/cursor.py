"""Hook payloads of Cursor as events.

Cursor runs the hooks of its own settings and those of Claude's, so a payload may come twice: whatever is told here
has a key that is the same both times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_memory.clients import claude_tools, cursor_transcript
from mcp_memory.clients.claude_tools import blocks_text, clip, compact, relative, without_injected
from mcp_memory.clients.cursor_transcript import said, said_key, typed
from mcp_memory.clients.lines import (
    HOOK,
    Account,
    Call,
    Reader,
    digest,
    files_below,
    object_of,
    peek,
    settled,
    text_of,
    understood,
)
from mcp_memory.clients.port import BadLine, Folders, Hooked, Told, TranscriptState
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
_OWN_TOOL = re.compile(
    r"(?:MCP:\s*)?(?:memory[:./ -])?"
    r"(?:toc_root|get_node|expand_grip|teleport|browse_time|build_context|session_context|remember|forget)\Z"
)
_OWN_SERVERS = frozenset({"memory", "mcp-memory", "mcp_memory", "user-memory"})
_SHELLS = frozenset("shell bash run_terminal_cmd run_terminal_command".split())
_WRITERS = frozenset("write create_file".split())
_EDITORS = frozenset("edit strreplace search_replace multiedit edit_file afterfileedit".split())
_SHORT = 200
_FILE_FIELDS = ("file_path", "path", "target_file", "relative_workspace_path", "target_notebook")
_TELLING_FIELDS = ("pattern", "query", "search_term", "url", "description", "glob_pattern")


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


def is_own(name: str, given: Mapping[str, Any]) -> bool:
    """Whether the call read our own memory."""
    server = given.get("server") or given.get("serverName")
    if _OWN_TOOL.match(name) or (isinstance(server, str) and server.rpartition(":")[2] in _OWN_SERVERS):
        return True
    return name.lower() in _SHELLS and claude_tools.is_own("Bash", given)


def call_text(name: str, given: Mapping[str, Any], result: str, cwd: str) -> str:
    """The event's text: the call, then what came back; for an edit, what it changed."""
    kind = name.lower()
    if kind in _EDITORS:
        result = claude_tools.result_text("Edit", given, result)
    elif kind in _WRITERS:
        result = text_of(given, "contents") or text_of(given, "content") or result
    head = f"{name}: {_short(kind, given, cwd)}".rstrip(": ")
    return settled("\n".join(filter(None, (head, without_injected(result).strip("\n").rstrip()))))


def touched(name: str, given: Mapping[str, Any], cwd: str) -> list[str]:
    path = _file(given) if name.lower() not in ("grep", "glob", "ls") else ""
    return [relative(path, cwd)] if path else []


def result_of(output: object) -> tuple[str, bool]:
    """What a call gave back, which is mostly JSON in a string; and whether it says that it failed."""
    value = _parsed(output)
    if not isinstance(value, Mapping):
        return (value if isinstance(value, str) else blocks_text(value) or _json(value)), False
    code = value.get("exitCode", value.get("exit_code"))
    failed = (isinstance(code, int) and code != 0) or value.get("isError") is True
    parts = [text_of(value, "stdout").strip("\n"), text_of(value, "stderr").strip("\n")]
    fields = (value.get(key) for key in ("output", "content", "contents", "result", "text", "message"))
    text = "\n".join(filter(None, parts)) or next(filter(None, map(blocks_text, fields)), "")
    if not text and not {"stdout", "output"} & value.keys():
        text = _json(value)
    return (f"Exit code {code}\n{text}" if failed and code else text), failed


def _parsed(output: object) -> object:
    if not isinstance(output, str) or output[:1] not in ("{", "["):
        return output
    try:
        return json.loads(output)
    except (ValueError, RecursionError):
        return output


def _json(value: object) -> str:
    return "" if value is None else compact(value)


def _short(kind: str, given: Mapping[str, Any], cwd: str) -> str:
    if kind in _SHELLS:
        return claude_tools.headline("Bash", given, cwd).removeprefix("Bash").removeprefix(": ")
    if (path := _file(given)) and kind not in ("grep", "glob"):
        return relative(path, cwd)
    told = next(filter(None, (text_of(given, key) for key in _TELLING_FIELDS)), "")
    return clip(" ".join((told or (compact(given) if given else "")).split()), _SHORT)


def _file(given: Mapping[str, Any]) -> str:
    return next(filter(None, (text_of(given, key) for key in _FILE_FIELDS)), "")


_EXPORT = ".md"


class Cursor:
    """Understands Cursor."""

    name = CLIENT

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        return hooked(payload, received_ms)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        return (
            cursor_transcript.read_export(path, state)
            if path.suffix == _EXPORT
            else cursor_transcript.read(path, state)
        )

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """Each conversation before its subagents. A directory may hold any other files beside."""
        for place in places:
            found = files_below([place], ".jsonl", _EXPORT)
            yield from (path for path in found if path == place or self.recognizes(path))

    def recognizes(self, path: Path) -> bool:
        if path.suffix == _EXPORT:
            return cursor_transcript.looks_exported(path)
        return any(map(_is_ours, peek(path)))

    def default_places(self, home: Folders) -> list[Path]:
        """Exports lie in the projects themselves: those of the one that we are called in are found."""
        # A relative place is that of the directory we are called in, even if that is gone.
        return [home.path(self.name, ".cursor/projects"), Path(".specstory") / "history"]


def _is_ours(value: Mapping[str, Any]) -> bool:
    return (
        value.get("role") in ("user", "assistant") and isinstance(value.get("message"), Mapping) and "type" not in value
    )
