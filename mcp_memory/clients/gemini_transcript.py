"""Transcripts of Gemini CLI as events: its lines of today, and the one JSON document of earlier versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp_memory.clients.account import TRANSCRIPT, Account, object_of, text_of
from mcp_memory.clients.claude_text import compact_summary
from mcp_memory.clients.gemini_hooks import CLIENT
from mcp_memory.clients.gemini_text import (
    call_text,
    failed,
    is_own,
    parts_text,
    recorded_text,
    said,
    touched,
    typed,
)
from mcp_memory.clients.lines import Unreadable, digest, growing, milliseconds, modified_ms, rewritten, told_by
from mcp_memory.clients.port import BadLine, Told, TranscriptState
from mcp_memory.domain.events import EventType, Role

_ROOT_FILE = ".project_root"
_WORKSPACE = re.compile(r"\*\*Workspace Directories:\*\*\n\s*- ([^\n]+)")
_SNAPSHOT = re.compile(r"<state_snapshot>.*</state_snapshot>", re.DOTALL)
_CANCELLED = "Request cancelled"
_DONE = frozenset({"success", "error", "cancelled"})
_RECENT = 200


def read(path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
    """The events of what is new in the file."""
    reader = _Reader(path, state.memory)
    lines = growing(path, state) if path.suffix == ".jsonl" else rewritten(path, state)
    yield from told_by(reader, lines, path, state)


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
        facts = {"model": model, "agent_id": agent, "sidechain": bool(agent)}
        return Account(CLIENT, session, ms, TRANSCRIPT, self._cwd(), facts)

    def _cwd(self) -> str:
        if "root" not in self._memory:
            self._memory["root"] = _project_root(self._path)
        return str(self._memory["root"] or self._memory.get("cwd", ""))

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
        try:
            return (folder / _ROOT_FILE).read_text("utf-8").strip()
        except (OSError, ValueError):
            continue
    return ""
