"""Hook payloads of Codex as events, under the same keys as its rollouts give.

Codex names its events as Claude Code does, but a subagent's events carry the parent's session and their own agent.
What a tool gave back is told by the rollout first where it can be: only there stands whether it failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_memory.clients.claude_tools import said
from mcp_memory.clients.codex_tools import (
    Calls,
    call_text,
    called,
    content_text,
    error_text,
    has_failed,
    is_own,
    is_typed,
    output_of,
    summary,
    touched,
    typed,
)
from mcp_memory.clients.lines import (
    HOOK,
    TRANSCRIPT,
    Account,
    Call,
    Earlier,
    Reader,
    Unreadable,
    digest,
    files_below,
    growing,
    milliseconds,
    modified_ms,
    object_of,
    peek,
    session_end,
    session_start,
    text_of,
    told_by,
    understood,
)
from mcp_memory.clients.port import BadLine, Folders, Hooked, Told, TranscriptState
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


_NAME = re.compile(r"rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
#: Threads that the client runs for itself.
_INTERNAL = frozenset({"compact", "memory_consolidation"})
#: Lines that say nothing and may stand between a summary and the line that marks it as one.
_BOOKKEEPING = frozenset({"token_usage_record", "token_count"})
_TWINS = 20
#: A fork begins with a copy of another session, all of it written at once.
_COPYING_MS = 1_000


def read(path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
    """The events of the lines after `state.offset`."""
    reader = _Reader(path, state)
    lines = growing(path, state)
    yield from told_by(reader, lines, path, state)
    yield from reader.rest()


class _Reader:
    """Reads one file's lines in order. What later lines need of earlier ones lies in `memory`, which is saved.

    So it holds names, numbers and the places of lines, but none of their words.
    """

    def __init__(self, path: Path, state: TranscriptState) -> None:
        self._path = path
        self._memory = state.memory
        self._earlier = Earlier(path, state, lambda value: _opened(value)[1])
        self._calls = Calls(state.memory, self._earlier)

    def take(self, value: object) -> Iterable[Told]:
        if not isinstance(value, Mapping):
            raise Unreadable("not a JSON object")
        kind, payload = _opened(value)
        ms = milliseconds(value.get("timestamp"))
        self._memory["ms"] = ms = self._memory.get("ms", modified_ms(self._path)) if ms is None else ms
        if kind == "session_meta":
            self._meta(payload, ms)
            return []
        if self._memory.get("ignored") or ms <= self._memory.get("copied", -1):
            return []
        return self._line(kind, payload, ms)

    def settle(self) -> None:
        self._calls.settle()

    def rest(self) -> Iterable[Told]:
        """A reply that waits to be told from a summary; where summaries are marked otherwise, it need not wait."""
        return [] if self._memory.get("items") else self._release()

    def _meta(self, meta: Mapping[str, Any], ms: int) -> None:
        memory = self._memory
        own, source = text_of(meta, "id"), object_of(meta, "source").get("subagent")
        if "session" in memory and own != memory["own"]:
            memory["copied"] = ms + _COPYING_MS
            return
        spawned = object_of(source, "thread_spawn")
        parent = text_of(meta, "parent_thread_id") or text_of(spawned, "parent_thread_id")
        session = text_of(meta, "session_id") or parent or own
        if not session:
            raise Unreadable("session_meta without an id")
        memory |= {"own": own, "session": session, "cwd": text_of(meta, "cwd")}
        if parent or source or own not in ("", session):
            memory["agent"] = own
        if isinstance(source, str) and source in _INTERNAL:
            memory["ignored"] = True

    def _account(self, ms: int, turn: str = "") -> Account:
        memory = self._memory
        agent = memory.get("agent", "")
        facts = {
            "turn_id": turn or memory.get("turn", ""),
            "model": memory.get("model", ""),
            "agent_id": agent,
            "sidechain": bool(agent),
        }
        return Account(CLIENT, self._session(), ms, TRANSCRIPT, memory.get("cwd", ""), facts)

    def _session(self) -> str:
        """The session's id; a rollout that lost its first line still has it in its name."""
        if "session" not in self._memory:
            name = _NAME.match(self._path.name)
            if not name:
                raise Unreadable("a line of no known session: the file does not begin with session_meta")
            self._memory |= {"session": name[1], "own": name[1]}
        return str(self._memory["session"])

    def _line(self, kind: str, payload: Mapping[str, Any], ms: int) -> list[Told]:
        inner = text_of(payload, "type")
        if kind in _BOOKKEEPING or inner in _BOOKKEEPING:
            self._count(payload)
            return []
        if kind == "compacted":
            self._memory.pop("held", None)
            return self._compaction(payload, ms)
        held = self._release()
        if kind == "turn_context":
            self._memory |= {
                name: text for key, name in _CONTEXT if (text := text_of(payload, key) or self._memory.get(name, ""))
            }
        elif kind == "response_item" and inner == "message":
            return held + self._message(payload, ms)
        elif kind == "response_item":
            return held + self._calls.item(payload, self._account(ms, _turn(payload)))
        elif kind == "event_msg":
            return held + self._event(inner, payload, ms)
        return held

    def _count(self, payload: Mapping[str, Any]) -> None:
        """Keep how many tokens the model's context holds, for the reply that follows."""
        used = object_of(object_of(payload, "info"), "last_token_usage").get("total_tokens")
        if isinstance(used, int) and used > 0:
            self._memory["usage"] = used

    def _message(self, item: Mapping[str, Any], ms: int) -> list[Told]:
        role, account = item.get("role"), self._account(ms, _turn(item))
        if role == "assistant":
            return self._reply(item, account)
        if role != "user" or not is_typed(item):
            return []
        text = typed(content_text(item))
        if not text:
            return []
        turn, ids = str(account.facts["turn_id"]), _ids(item)
        if agent := account.facts["agent_id"]:
            key = f"agent-start:{agent}:{turn}"
            return [account.tell(key, EventType.SUBAGENT_START, Role.SYSTEM, text, ids)]
        key = f"prompt:{turn or ms}:{digest(text)}"
        return [account.tell(key, EventType.USER_MESSAGE, Role.USER, text, ids)]

    def _reply(self, item: Mapping[str, Any], account: Account) -> list[Told]:
        text = said(content_text(item))
        if not text:
            return []
        reply = [text_of(item, "id"), account.ms, self._earlier.keep(item), account.facts["turn_id"]]
        if account.facts["agent_id"]:
            self._memory["answer"] = reply
            return []
        self._memory["held"] = reply
        # The summary of a compaction looks like a reply, but the client never reports it as one.
        return self._release() if reply[0] in self._memory.get("twins", []) else []

    def _release(self) -> list[Told]:
        if not (held := self._memory.pop("held", None)):
            return []
        name, ms, place, turn = held
        text = self._replied(place)
        if not text:
            return []
        key = f"reply:{name}" if name else f"line:{ms}:{digest(text)}"
        ids = (name,) if name else ()
        usage = self._memory.pop("usage", None)
        return [self._account(ms, turn).tell(key, EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, text, ids, usage=usage)]

    def _replied(self, place: object) -> str:
        """The text of a reply that was read before."""
        return next((text for item in self._earlier.at(place) if (text := said(content_text(item)))), "")

    def _compaction(self, payload: Mapping[str, Any], ms: int) -> list[Told]:
        if self._memory.get("agent"):
            return []
        text = summary(text_of(payload, "message"))
        return [self._account(ms).tell(f"compact:{ms}", EventType.COMPACTION, Role.SYSTEM, text)]

    def _event(self, kind: str, payload: Mapping[str, Any], ms: int) -> list[Told]:
        turn = text_of(payload, "turn_id")
        if kind == "item_completed":
            return self._item(object_of(payload, "item"), self._account(ms, turn))
        if kind == "exec_command_end":
            return self._calls.record({**payload, "type": "CommandExecution"}, self._account(ms, turn))
        if kind == "task_started" and turn:
            self._memory["turn"] = turn
        elif kind in ("task_complete", "turn_aborted", "error"):
            account = self._account(ms, turn)
            return self._calls.unfinished(account) + self._ended(kind, payload, account)
        return []

    def _item(self, item: Mapping[str, Any], account: Account) -> list[Told]:
        self._memory["items"] = True
        if item.get("type") == "AgentMessage":
            twins: list[str] = self._memory.setdefault("twins", [])
            twins.append(text_of(item, "id"))
            del twins[:-_TWINS]
            return []
        return self._calls.record(item, account)

    def _ended(self, kind: str, payload: Mapping[str, Any], account: Account) -> list[Told]:
        turn = account.facts["turn_id"] or account.ms
        if agent := account.facts["agent_id"]:
            answer = self._memory.pop("answer", ["", 0, None, ""])
            text = said(text_of(payload, "last_agent_message")) or self._replied(answer[2])
            key = f"agent-stop:{agent}:{account.facts['turn_id']}"
            return [account.tell(key, EventType.SUBAGENT_STOP, Role.SYSTEM, text, (str(agent),))] if text else []
        text, stopped = _ending(kind, payload)
        if not text:
            return []
        key = f"stopped:{turn}"
        return [
            account.tell(key, EventType.ASSISTANT_STOP, Role.SYSTEM, text, is_interrupt=stopped, failed=not stopped)
        ]


def _opened(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """What a line is of, and what it holds; early versions wrote its fields without an envelope."""
    kind, payload = value.get("type"), value.get("payload")
    if payload is None:
        begins = "timestamp" in value and isinstance(value.get("id"), str)
        return "session_meta" if begins else "response_item", value
    if not isinstance(kind, str) or not isinstance(payload, Mapping):
        raise Unreadable("neither a type nor a payload")
    return kind, payload


def _ending(kind: str, payload: Mapping[str, Any]) -> tuple[str, bool]:
    """How a turn ended that did not end well, and whether it was the user who stopped it."""
    if kind == "turn_aborted":
        return ("Interrupted by the user", True) if payload.get("reason") == "interrupted" else ("", False)
    message = error_text(text_of(payload if kind == "error" else object_of(payload, "error"), "message"))
    return (f"API error: {message}" if message else ""), False


_CONTEXT = (("cwd", "cwd"), ("model", "model"), ("turn_id", "turn"))


def _turn(item: Mapping[str, Any]) -> str:
    return text_of(item.get("internal_chat_message_metadata_passthrough"), "turn_id")


def _ids(item: Mapping[str, Any]) -> tuple[str, ...]:
    name = text_of(item, "id")
    return (name,) if name else ()


_TYPES = frozenset("session_meta turn_context response_item event_msg compacted".split())


class Codex:
    """Understands Codex."""

    name = CLIENT

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        return hooked(payload, received_ms)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        return read(path, state)

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """A session's rollout comes before those of its subagents: names begin with the time."""
        return files_below(places)

    def recognizes(self, path: Path) -> bool:
        return any(map(_is_ours, peek(path)))

    def default_places(self, home: Folders) -> list[Path]:
        return [home.path(self.name, f".codex/{name}") for name in ("sessions", "archived_sessions")]


def _is_ours(value: Mapping[str, Any]) -> bool:
    if isinstance(value.get("type"), str) and value["type"] in _TYPES:
        return isinstance(value.get("payload"), Mapping)
    # Early versions began with the session's fields alone.
    return {"id", "timestamp", "instructions"} <= value.keys()
