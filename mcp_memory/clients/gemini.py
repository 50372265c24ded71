"""What was really said in Gemini CLI, and its tool calls as text; hook and transcript give the same words.

The hook names no call, so one call is one memory only if both accounts of it read alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcp_memory.clients import claude_tools
from mcp_memory.clients.claude_tools import clip, compact, compact_summary, relative, without_injected
from mcp_memory.clients.lines import (
    HOOK,
    TRANSCRIPT,
    Account,
    Call,
    Reader,
    Unreadable,
    digest,
    files_below,
    growing,
    milliseconds,
    modified_ms,
    object_of,
    parse,
    peek,
    rewritten,
    session_end,
    session_start,
    settled,
    text_of,
    told_by,
    understood,
)
from mcp_memory.clients.port import BadLine, Folders, Hooked, Told, TranscriptState
from mcp_memory.domain.events import EventType, Role

SHELL = "run_shell_command"
_FILE_TOOLS = frozenset({"read_file", "write_file", "replace"})
#: What ends a subagent is told as its answer.
_BOOKKEEPING = frozenset({"complete_task"})
_OWN_TOOL = re.compile(r"mcp_(?:mcp[-_])?memory_|(?:mcp[-_])?memory__")
_OWN_SERVERS = frozenset({"memory", "mcp-memory", "mcp_memory"})
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
_SHORT = 200


def typed(text: str) -> str:
    """What the user typed, without the context and the files that the client adds."""
    text = text.strip()
    if text.startswith(_NOT_TYPED):
        return ""
    text = _REFERENCED.sub("", without_injected(text)).strip()
    return "" if _BARE_COMMAND.fullmatch(text) else settled(text)


def said(text: str) -> str:
    """What the model said; empty for the client's stand-in."""
    text = text.strip()
    return "" if text == _NO_ANSWER else text


def parts_text(content: object) -> str:
    """The text of a message, which is a string, a part or a list of parts; thoughts are not said aloud."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return "" if content.get("thought") is True else text_of(content, "text")
    if isinstance(content, list):
        return "\n".join(filter(None, map(parts_text, content)))
    return ""


def is_own(name: str, given: Mapping[str, Any], server: str = "") -> bool:
    """Whether the call read our own memory, or only ended a subagent."""
    if name in _BOOKKEEPING or _OWN_TOOL.match(name) or server in _OWN_SERVERS:
        return True
    return name == SHELL and claude_tools.is_own("Bash", given)


def call_text(name: str, given: Mapping[str, Any], result: str, error: str, cwd: str) -> str:
    """The event's text: the call, then what came back."""
    result = _FENCE.sub("", result).strip("\n").rstrip()
    if error:
        result = _FENCE.sub("", error).strip()
    elif name == SHELL:
        result = _shell(result)
    elif name == "write_file":
        result = text_of(given, "content") or result
    elif name == "replace":
        result = claude_tools.result_text("Edit", given, result)
    elif name == "write_todos" and isinstance(given.get("todos"), list):
        result = result.partition("now:\n")[2] or result
    head = _headline(name, given, cwd)
    return settled("\n".join(filter(None, (head, without_injected(result).strip("\n").rstrip()))))


def failed(name: str, result: str, error: str) -> bool:
    return bool(error) or (name == SHELL and _ended(_FENCE.sub("", result))[2] != 0)


def touched(name: str, given: Mapping[str, Any], cwd: str) -> list[str]:
    path = text_of(given, "file_path") or text_of(given, "absolute_path") if name in _FILE_TOOLS else ""
    return [relative(path, cwd)] if path else []


def recorded_text(result: object) -> tuple[str, str]:
    """Result and error of a call as the transcript tells them."""
    parts = result if isinstance(result, list) else [result]
    answers = [object_of(object_of(part, "functionResponse"), "response") for part in parts]
    texts = [text_of(answer, "output") or (compact(answer) if answer else "") for answer in answers]
    errors = [text_of(answer, "error") for answer in answers]
    if any(errors):
        return "", "\n".join(filter(None, errors))
    return "\n".join(filter(None, texts)) or parts_text(result), ""


def _headline(name: str, given: Mapping[str, Any], cwd: str) -> str:
    if name == SHELL:
        return claude_tools.headline("Bash", given, cwd).replace("Bash", SHELL, 1)
    if name in _FILE_TOOLS:
        short = "".join(touched(name, given, cwd))
    elif name == "write_todos":
        short = ""
    else:
        short = next(filter(None, (text_of(given, key) for key in ("pattern", "query", "url", "dir_path"))), "")
        short = relative(short, cwd) if short and len(given) == 1 else compact(given) if given else ""
    short = clip(" ".join(short.split()), _SHORT)
    return f"{name}: {short}" if short else name


def _ended(result: str) -> tuple[str, str, int]:
    """What a shell printed, what the client says of it at the end, and the exit code there."""
    tail = _SHELL_TAIL.search(result)
    code = _EXIT_CODE.search(tail[1]) if tail else None
    return (result[: tail.start()], tail[1], int(code[1]) if code else 0) if tail else (result, "", 0)


def _shell(result: str) -> str:
    head = _SHELL_HEAD.match(result)
    if not head:
        return result
    printed, tail, code = _ended(result[head.end() :])
    shown = [f"Exit code {code}"] if code else []
    shown += [] if printed.strip() in ("(empty)", "(none)") else [printed]
    return "\n".join([*shown, *_SHELL_ERROR.findall(tail)])


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
    response = object_of(call.payload, "tool_response")
    content, error = response.get("llmContent"), text_of(object_of(response, "error"), "message")
    result = parts_text(content) or (compact(content) if isinstance(content, Mapping) else "")
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


_WORKSPACE = re.compile(r"\*\*Workspace Directories:\*\*\n\s*- ([^\n]+)")
_SNAPSHOT = re.compile(r"<state_snapshot>.*</state_snapshot>", re.DOTALL)
_CANCELLED = "Request cancelled"
_DONE = frozenset({"success", "error", "cancelled"})
_RECENT = 200


class _Reader:
    """Reads one file in order. What later lines need of earlier ones lies in `memory`, which is saved."""

    def __init__(self, path: Path, memory: dict[str, Any]) -> None:
        self._path = path
        self._memory = memory
        self._new: list[str] = []

    def settle(self) -> None:
        """Remember what the line told: only now, so that a line that is read again reads the same."""
        recent: list[str] = self._memory.setdefault("told", [])
        recent += self._new
        del recent[:-_RECENT]
        self._new.clear()

    def take(self, value: object) -> list[Told]:
        if not isinstance(value, Mapping):
            raise Unreadable("not a JSON object")
        if "$rewindTo" in value:
            return []
        if isinstance(changed := value.get("$set"), Mapping):
            return self._changed(changed)
        if isinstance(value.get("sessionId"), str) and "type" not in value:
            return self._header(value)
        if isinstance(value.get("id"), str) and isinstance(value.get("type"), str):
            return self._message(value)
        raise Unreadable("neither a message nor what is known of the session")

    def _header(self, value: Mapping[str, Any]) -> list[Told]:
        """A resumed session begins anew in the same file; an old document has its messages in the header."""
        memory = self._memory
        memory["session"] = text_of(value, "sessionId")
        if value.get("kind") == "subagent":  # its file lies in a folder with the name of the session
            memory |= {"agent": memory["session"], "session": self._path.parent.name}
        folders = value.get("directories")
        if isinstance(folders, list) and folders and isinstance(folders[0], str):
            memory["cwd"] = folders[0]
        self._ms(value.get("startTime"))
        messages = value.get("messages")
        found = [one for one in messages if isinstance(one, Mapping)] if isinstance(messages, list) else []
        return [told for message in found for told in self._message(message)]

    def _changed(self, changed: Mapping[str, Any]) -> list[Told]:
        """The history written anew, as it is on a resume. What was said before has been told; a summary has not."""
        messages = changed.get("messages")
        for message in messages if isinstance(messages, list) else []:
            text = parts_text(message.get("content")) if isinstance(message, Mapping) else ""
            if found := _WORKSPACE.search(text):
                self._memory.setdefault("cwd", found[1].strip())
            if snapshot := _SNAPSHOT.search(text):
                return self._compaction(message, snapshot[0])
        return []

    def _compaction(self, message: Mapping[str, Any], snapshot: str) -> list[Told]:
        text = compact_summary(snapshot.replace("<state_snapshot>", "").replace("</state_snapshot>", ""))
        key = f"compact:{digest(text)}"
        if self._memory.get("agent") or self._seen(key):
            return []
        return [self._account(self._ms(message.get("timestamp"))).tell(key, EventType.COMPACTION, Role.SYSTEM, text)]

    def _message(self, message: Mapping[str, Any]) -> list[Told]:
        kind, text = message.get("type"), parts_text(message.get("content"))
        account = self._account(self._ms(message.get("timestamp")), text_of(message, "model"))
        if kind == "user":
            return self._user(message, text, account)
        if kind == "gemini":
            calls = message.get("toolCalls")
            found = enumerate(calls) if isinstance(calls, list) else ()
            results = [told for index, call in found for told in self._call(index, call, account)]
            return [*self._reply(message, said(text), account), *results]
        stopped = text.strip().startswith(_CANCELLED)
        if (kind != "error" and not stopped) or account.facts["agent_id"]:
            return []
        key, text = f"msg:{text_of(message, 'id')}", "Interrupted by the user" if stopped else f"API error: {text}"
        return [
            account.tell(key, EventType.ASSISTANT_STOP, Role.SYSTEM, text, is_interrupt=stopped, failed=not stopped)
        ]

    def _user(self, message: Mapping[str, Any], text: str, account: Account) -> list[Told]:
        if snapshot := _SNAPSHOT.search(text):
            return self._compaction(message, snapshot[0])
        text, name = typed(text), text_of(message, "id")
        if not text or self._seen(name):
            return []
        if agent := account.facts["agent_id"]:
            if self._seen("task"):
                return []
            return [account.tell(f"agent-start:{agent}", EventType.SUBAGENT_START, Role.SYSTEM, text, (name,))]
        return [account.tell(f"msg:{name}", EventType.USER_MESSAGE, Role.USER, text, (name,))]

    def _reply(self, message: Mapping[str, Any], text: str, account: Account) -> list[Told]:
        name = text_of(message, "id")
        if not text or account.facts["agent_id"] or self._seen(name):
            return []
        used = object_of(message, "tokens").get("total")
        usage = used if isinstance(used, int) and used > 0 else None
        return [account.tell(f"msg:{name}", EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, text, (name,), usage=usage)]

    def _call(self, index: int, call: object, account: Account) -> list[Told]:
        """A call stands in the message that made it, which is written again when the result is there."""
        name, call_id = text_of(call, "name"), text_of(call, "id")
        if not isinstance(call, Mapping) or text_of(call, "status") not in _DONE or self._seen(call_id):
            return []
        given = object_of(call, "args")
        # Calls made at once are written with the time at which the last of them ended.
        account = account.at((milliseconds(call.get("timestamp")) or account.ms) + index)
        result, error = recorded_text(call.get("result"))
        around = self._agents(call, given, result or error, account)
        if is_own(name, given):
            return around
        told = account.tell(
            f"tool:{call_id}",
            EventType.TOOL_RESULT,
            Role.TOOL,
            call_text(name, given, result, error, account.cwd),
            (call_id,),
            tool=name,
            files=touched(name, given, account.cwd),
            failed=failed(name, result, error),
            is_interrupt=call.get("status") == "cancelled",
        )
        return [*around, told]

    def _agents(self, call: Mapping[str, Any], given: Mapping[str, Any], result: str, account: Account) -> list[Told]:
        """What a call says of subagents: its session's file tells who was sent, a subagent's own how it ended."""
        if call.get("name") == "complete_task" and (agent := account.facts["agent_id"]):
            text = said(text_of(given, "result") or result)
            return [account.tell(f"agent-stop:{agent}", EventType.SUBAGENT_STOP, Role.SYSTEM, text)]
        if not (agent := text_of(call, "agentId")):
            return []
        task = next((text for text in given.values() if isinstance(text, str) and text.strip()), "")
        sent = account.at(account.ms, agent_id=agent, agent_type=text_of(call, "name"))
        answer = result.partition("Result:\n")[2] or result
        return [
            sent.tell(f"agent-start:{agent}", EventType.SUBAGENT_START, Role.SYSTEM, task, (agent,)),
            sent.tell(f"agent-stop:{agent}", EventType.SUBAGENT_STOP, Role.SYSTEM, said(answer), (agent,)),
        ]

    def _account(self, ms: int, model: str = "") -> Account:
        memory = self._memory
        session, agent = memory.get("session", ""), memory.get("agent", "")
        if not session:
            raise Unreadable("a message of no known session: the file does not begin with one")
        if "root" not in memory:
            memory["root"] = _project_root(self._path)
        facts = {"model": model, "agent_id": agent, "sidechain": bool(agent)}
        return Account(CLIENT, session, ms, TRANSCRIPT, str(memory["root"] or memory.get("cwd", "")), facts)

    def _ms(self, timestamp: object) -> int:
        ms = milliseconds(timestamp)
        self._memory["ms"] = ms = self._memory.get("ms", modified_ms(self._path)) if ms is None else ms
        return int(ms)

    def _seen(self, name: str) -> bool:
        """Whether it was told already: the client writes a message again whenever it learns more of it."""
        if name in self._memory.get("told", ()) or name in self._new:
            return True
        self._new.append(name)
        return False


def _project_root(path: Path) -> str:
    """The project's directory, which the client notes beside the folder of its chats."""
    for folder in list(path.parents)[1:3]:
        with suppress(OSError, ValueError):
            return (folder / ".project_root").read_text("utf-8").strip()
    return ""


_HEADER = frozenset({"sessionId", "projectHash"})


class Gemini:
    """Understands Gemini CLI."""

    name = CLIENT

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        return hooked(payload, received_ms)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        lines = growing(path, state) if path.suffix == ".jsonl" else rewritten(path, state)
        return told_by(_Reader(path, state.memory), lines, path, state)

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """Beside its chats the client keeps other files, such as its settings."""
        for place in places:
            found = files_below([place], ".jsonl", ".json")
            for path in found:
                is_chat = path == place or "chats" in (path.parent.name, path.parent.parent.name)
                if is_chat or self.recognizes(path):
                    yield path

    def recognizes(self, path: Path) -> bool:
        if path.suffix != ".json":
            return any(value.keys() >= _HEADER for value in peek(path))
        try:
            data = path.read_bytes()
        except OSError:
            return False
        # A directory may hold any other JSON, however large.
        values = parse(data)[0] if all(name.encode() in data for name in _HEADER) else []
        return any(isinstance(value, Mapping) and value.keys() >= _HEADER for value in values)

    def default_places(self, home: Folders) -> list[Path]:
        return [home.path(self.name, ".gemini/tmp")]
