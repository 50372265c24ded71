"""Gemini CLI: its hook payloads and its transcripts as events.

The hook names no call, so one call is one memory only if both accounts of it read alike. Transcripts are lines today,
and were one JSON document in earlier versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_memory.clients import claude_tools
from mcp_memory.clients.claude_tools import (
    SHORT,
    clip,
    compact,
    compact_summary,
    relative,
    without_injected,
)
from mcp_memory.clients.lines import (
    TRANSCRIPT,
    HookCall,
    Origin,
    TranscriptReader,
    UnreadableLine,
    digest,
    growing,
    hook_readers,
    milliseconds,
    object_of,
    objects_of,
    one_line,
    parse,
    peek,
    read_hook,
    rewritten,
    shortened,
    stop_event,
    text_of,
)
from mcp_memory.clients.port import BadLine, Reading, TranscriptState
from mcp_memory.clients.replies import REFUSED
from mcp_memory.domain.events import Captured, EventType

_CLIENT = "gemini"
_HEADER = frozenset({"sessionId", "projectHash"})
_SHELL = "run_shell_command"
_FILE_TOOLS = frozenset({"read_file", "write_file", "replace"})
_TELLING_FIELDS = ("pattern", "query", "url", "dir_path")
#: What ends a subagent is told as its answer.
_BOOKKEEPING = frozenset({"complete_task"})
#: The client says these in the user's name.
_NOT_TYPED = ("<session_context>", "System: Potential loop detected.")
_BARE_COMMAND = re.compile(r"[/?][\w:-]*")
_REFERENCED = re.compile(r"\s*--- Content from referenced files ---.*(?:--- End of content ---|\Z)", re.DOTALL)
_NO_ANSWER = "[no response text]"
_FENCE = re.compile(r"</?untrusted_context>\n?")
_SHELL_HEAD = re.compile(r"(?:Command: .*?\n)?(?:Directory: [^\n]*\n)?(?:Output|Stdout): ?", re.DOTALL)
_SHELL_TAIL = re.compile(
    r"(?:\A|\n)((?:(?:Error|Stderr|Exit Code|Signal|Background PIDs|Process Group PGID): [^\n]*(?:\n|\Z))+)\s*\Z"
)
_EXIT_CODE = re.compile(r"^Exit Code: (-?\d+)", re.MULTILINE)
_SHELL_ERROR = re.compile(r"^(?:Error|Stderr): (?!\(none\))[^\n]+", re.MULTILINE)
_WORKSPACE = re.compile(r"\*\*Workspace Directories:\*\*\n\s*- ([^\n]+)")
_SNAPSHOT = re.compile(r"<state_snapshot>.*</state_snapshot>", re.DOTALL)
_CANCELLED = "Request cancelled"
_DENIED = re.compile(r"\[Operation Cancelled\] Reason: User (?:did not allow|denied)")
_DONE = frozenset({"success", "error", "cancelled"})
_RECENT = 200


def recognizes(path: Path) -> bool:
    if path.suffix != ".json":
        return any(value.keys() >= _HEADER for value in peek(path))
    try:
        data = path.read_bytes()
    except OSError:
        return False
    # A directory may hold any other JSON, however large.
    values = parse(data)[0] if all(name.encode() in data for name in _HEADER) else []
    return any(isinstance(value, Mapping) and value.keys() >= _HEADER for value in values)


def read(path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
    return _Chat(path, state).read(growing(path, state) if path.suffix == ".jsonl" else rewritten(path, state))


def hook(payload: Mapping[str, Any], received_ms: int) -> Reading:
    ms = milliseconds(payload.get("timestamp")) or received_ms
    return read_hook(_CLIENT, payload, ms, _READERS, ("model",))


def _prompt(call: HookCall) -> Reading | None:
    if not isinstance(call.payload.get("prompt"), str):
        return None
    return call.message(_typed(call.text("prompt")), EventType.USER_MESSAGE, f"prompt:{call.ms}")


def _tool(call: HookCall) -> Reading | None:
    name, given = call.text("tool_name"), object_of(call.payload, "tool_input")
    if not name:
        return None
    if _is_own(name, given, text_of(object_of(call.payload, "mcp_context"), "server_name")):
        return call.reading()
    response = object_of(call.payload, "tool_response")
    content, error = response.get("llmContent"), text_of(object_of(response, "error"), "message")
    result = _parts_text(content) or (compact(content) if isinstance(content, Mapping) else "")
    return call.reading(_tool_event(call, "", name, given, result, error))


def _turn_end(call: HookCall) -> Reading:
    """The hook joins all that was said in a turn; the transcript, where there is one, tells the replies apart."""
    path = call.path()
    text = "" if path and path.is_file() else _said(call.text("prompt_response"))
    return call.turn_end(text, "reply")


_READERS = hook_readers(
    # PreCompress comes before every call of the model; that a history was compressed the transcript tells.
    "BeforeTool BeforeModel AfterModel BeforeToolSelection PreCompress Notification",
    BeforeAgent=_prompt,
    AfterTool=_tool,
    AfterAgent=_turn_end,
)


def _typed(text: str) -> str:
    """What the user typed, without the context and the files that the client adds."""
    text = text.strip()
    if text.startswith(_NOT_TYPED):
        return ""
    text = _REFERENCED.sub("", without_injected(text)).strip()
    return "" if _BARE_COMMAND.fullmatch(text) else shortened(text)


def _said(text: str) -> str:
    """What the model said; empty for the client's stand-in."""
    text = text.strip()
    return "" if text == _NO_ANSWER else text


def _parts_text(content: object) -> str:
    """The text of a message, which is a string, a part or a list of parts; thoughts are not said aloud."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return "" if content.get("thought") is True else text_of(content, "text")
    return "\n".join(filter(None, map(_parts_text, content))) if isinstance(content, list) else ""


def _is_own(name: str, given: Mapping[str, Any], server: str = "") -> bool:
    """Whether the call read our own memory, or only ended a subagent."""
    return name in _BOOKKEEPING or claude_tools.is_own("Bash" if name == _SHELL else name, given, server)


def _tool_event(
    origin: Origin, tool_id: str, name: str, given: Mapping[str, Any], result: str, error: str, **facts: object
) -> Captured:
    """One call, then what came back. A call without an id is known by its words."""
    cwd, failed = origin.cwd, bool(error)
    path = text_of(given, "file_path") or text_of(given, "absolute_path") if name in _FILE_TOOLS else ""
    files = [relative(path, cwd)] if path else []
    short = "".join(files)
    result = _FENCE.sub("", result).strip("\n").rstrip()
    if name == _SHELL:
        result, code = _shell(result)
        failed = failed or code != 0
    elif name == "write_file":
        result = text_of(given, "content") or result
    elif name == "replace":
        result = claude_tools.result_text("Edit", given, result)
    elif name == "write_todos":
        result = claude_tools.checklist(objects_of(given, "todos"), "description") or result
    elif name not in _FILE_TOOLS and given:
        short = next(filter(None, (text_of(given, key) for key in _TELLING_FIELDS)), "")
        short = relative(short, cwd) if short and len(given) == 1 else compact(given)
    short = clip(one_line(short), SHORT)
    head = f"{name}: {short}" if short else name
    if name == _SHELL:
        head, lines = claude_tools.call_head("Bash", given, cwd, failed=failed)
        head, facts = head.replace("Bash", _SHELL, 1), {**facts, **lines}
    if error:
        result = _FENCE.sub("", error).strip()
    text = shortened("\n".join(filter(None, (head, without_injected(result).strip("\n").rstrip()))).rstrip())
    key = f"tool:{tool_id or f'{origin.ms}:{digest(text)}'}"
    facts = {"tool": name, "files": files, "failed": failed, **facts}
    return origin.event(key, EventType.TOOL_RESULT, text, (tool_id,), **facts)


def _shell(result: str) -> tuple[str, int]:
    """What a shell printed, and its exit code, both without the words that the client puts around them."""
    head = _SHELL_HEAD.match(result)
    printed = result[head.end() :] if head else result
    tail = _SHELL_TAIL.search(printed)
    told = tail[1] if tail else ""
    found = _EXIT_CODE.search(told)
    code = int(found[1]) if found else 0
    if not head:
        return result, code
    printed = printed[: tail.start()] if tail else printed
    shown = [f"Exit code {code}"] if code else []
    shown += [] if printed.strip() in ("(empty)", "(none)") else [printed]
    return "\n".join([*shown, *_SHELL_ERROR.findall(told)]), code


class _Chat(TranscriptReader):
    def settle(self) -> None:
        """Remember what the line told."""
        recent: list[str] = self.memory.setdefault("told", [])
        recent += self.fresh
        del recent[:-_RECENT]

    def take(self, value: dict[str, Any]) -> list[Captured]:
        if "$rewindTo" in value:
            return []
        if isinstance(changed := value.get("$set"), Mapping):
            return self._changed(changed)
        if isinstance(value.get("sessionId"), str) and "type" not in value:
            return self._header(value)
        if isinstance(value.get("id"), str) and isinstance(value.get("type"), str):
            return self._message(value)
        raise UnreadableLine("neither a message nor what is known of the session")

    def _header(self, value: Mapping[str, Any]) -> list[Captured]:
        """A resumed session begins anew in the same file; an old document has its messages in the header."""
        memory = self.memory
        memory["session"] = text_of(value, "sessionId")
        if value.get("kind") == "subagent":  # its file lies in a folder with the name of the session
            memory |= {"agent": memory["session"], "session": self.path.parent.name}
        folders = value.get("directories")
        if isinstance(folders, list) and folders and isinstance(folders[0], str):
            memory["cwd"] = folders[0]
        self.moment(value.get("startTime"))
        said = [event for message in objects_of(value, "messages") for event in self._message(message)]
        return said + self._titled(value)

    def _titled(self, value: Mapping[str, Any]) -> list[Captured]:
        """The title that the client gives to a session when the next one begins."""
        title = one_line(text_of(value, "summary"))
        if not title or self.memory.get("agent"):
            return []
        key = f"title:summary:{digest(title)}"
        return [self._origin({}).event(key, EventType.SESSION_TITLE, title, source="summary")]

    def _changed(self, changed: Mapping[str, Any]) -> list[Captured]:
        """The history written anew, as it is on a resume. What was said before has been told; a summary has not."""
        for message in objects_of(changed, "messages"):
            text = _parts_text(message.get("content"))
            if found := _WORKSPACE.search(text):
                self.memory.setdefault("cwd", found[1].strip())
            if snapshot := _SNAPSHOT.search(text):
                return self._compaction(message, snapshot[0])
        return self._titled(changed)

    def _compaction(self, message: Mapping[str, Any], snapshot: str) -> list[Captured]:
        text = compact_summary(re.sub(r"</?state_snapshot>", "", snapshot))
        key = f"compact:{digest(text)}"
        if self.memory.get("agent") or self._seen(key):
            return []
        return [self._origin(message).event(key, EventType.COMPACTION, text)]

    def _message(self, message: Mapping[str, Any]) -> list[Captured]:
        kind, name, text = message.get("type"), text_of(message, "id"), _parts_text(message.get("content"))
        origin = self._origin(message, text_of(message, "model"))
        agent = origin.facts["agent_id"]
        if kind == "user":
            if snapshot := _SNAPSHOT.search(text):
                return self._compaction(message, snapshot[0])
            text = _typed(text)
            if not text or self._seen(name) or (agent and self._seen("task")):
                return []
            if agent:
                return [origin.event(f"agent-start:{agent}", EventType.SUBAGENT_START, text, (name,))]
            return [origin.event(f"msg:{name}", EventType.USER_MESSAGE, text, (name,))]
        if kind == "gemini":
            return self._answer(message, name, _said(text), origin)
        stopped = text.strip().startswith(_CANCELLED)
        if (kind != "error" and not stopped) or agent:
            return []
        return [stop_event(origin, f"msg:{name}", text, stopped=stopped)]

    def _answer(self, message: Mapping[str, Any], name: str, text: str, origin: Origin) -> list[Captured]:
        """What the model said, and the calls it made in the same message."""
        calls = message.get("toolCalls")
        found = enumerate(calls) if isinstance(calls, list) else ()
        results = [event for index, call in found for event in self._call(index, call, origin)]
        if not text or origin.facts["agent_id"] or self._seen(name):
            return results
        used = object_of(message, "tokens").get("total")
        usage = used if isinstance(used, int) and used > 0 else None
        return [origin.event(f"msg:{name}", EventType.ASSISTANT_MESSAGE, text, (name,), usage=usage), *results]

    def _call(self, index: int, call: object, origin: Origin) -> list[Captured]:
        """A call stands in the message that made it, which is written again when the result is there."""
        name, call_id = text_of(call, "name"), text_of(call, "id")
        if not isinstance(call, Mapping) or text_of(call, "status") not in _DONE or self._seen(call_id):
            return []
        given = object_of(call, "args")
        # Calls made at once are written with the time at which the last of them ended.
        origin = replace(origin, ms=(milliseconds(call.get("timestamp")) or origin.ms) + index)
        told = call.get("result")
        parts = told if isinstance(told, list) else [told]
        answers = [object_of(object_of(part, "functionResponse"), "response") for part in parts]
        texts = [text_of(answer, "output") or (compact(answer) if answer else "") for answer in answers]
        error = "\n".join(filter(None, (text_of(answer, "error") for answer in answers)))
        result = "" if error else "\n".join(filter(None, texts)) or _parts_text(told)
        around = self._agents(call, given, result or error, origin)
        if _is_own(name, given):
            return around
        stopped = call.get("status") == "cancelled"
        refused = stopped and bool(_DENIED.match(error))
        facts = {"refused": refused, "is_interrupt": stopped and not refused}
        return [*around, _tool_event(origin, call_id, name, given, result, REFUSED if refused else error, **facts)]

    def _agents(self, call: Mapping[str, Any], given: Mapping[str, Any], result: str, origin: Origin) -> list[Captured]:
        """What a call says of subagents: its session's file tells who was sent, a subagent's own how it ended."""
        if call.get("name") == "complete_task" and (agent := origin.facts["agent_id"]):
            text = _said(text_of(given, "result") or result)
            return [origin.event(f"agent-stop:{agent}", EventType.SUBAGENT_STOP, text)]
        if not (agent := text_of(call, "agentId")):
            return []
        task = next((text for text in given.values() if isinstance(text, str) and text.strip()), "")
        sent = replace(origin, facts={**origin.facts, "agent_id": agent, "agent_type": text_of(call, "name")})
        answer = _said(result.partition("Result:\n")[2] or result)
        return [
            sent.event(f"agent-start:{agent}", EventType.SUBAGENT_START, task, (agent,)),
            sent.event(f"agent-stop:{agent}", EventType.SUBAGENT_STOP, answer, (agent,)),
        ]

    def _origin(self, message: Mapping[str, Any], model: str = "") -> Origin:
        memory, ms = self.memory, self.moment(message.get("timestamp"))
        session, agent = memory.get("session", ""), memory.get("agent", "")
        if not session:
            raise UnreadableLine("a message of no known session: the file does not begin with one")
        if "root" not in memory:  # the client notes the project's directory beside the folder of its chats
            memory["root"] = ""
            for folder in list(self.path.parents)[2:0:-1]:
                with suppress(OSError, ValueError):
                    memory["root"] = (folder / ".project_root").read_text("utf-8").strip()
        facts = {"model": model, "agent_id": agent, "sidechain": bool(agent)}
        return Origin(_CLIENT, session, ms, TRANSCRIPT, str(memory["root"] or memory.get("cwd", "")), facts)

    def _seen(self, name: str) -> bool:
        """Whether it was told already: the client writes a message again whenever it learns more of it."""
        if name in self.memory.get("told", ()) or name in self.fresh:
            return True
        self.fresh.append(name)
        return False
