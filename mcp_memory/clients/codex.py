"""Codex: its hook payloads and its rollouts as events, under the same keys.

Codex names its events as Claude Code does, but a subagent's events carry the parent's session and their own agent.
What a tool gave back is told by the rollout first where it can be: only there stands whether it failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp_memory.capture.remote import normalized
from mcp_memory.clients.claude_tools import compact_summary, said
from mcp_memory.clients.codex_tools import PendingCalls, called, content_text, output_of, tool_event, typed
from mcp_memory.clients.lines import (
    TRANSCRIPT,
    HookCall,
    Origin,
    TranscriptReader,
    UnreadableLine,
    digest,
    growing,
    hook_readers,
    json_of,
    object_of,
    one_line,
    peek,
    read_hook,
    stop_event,
    text_of,
)
from mcp_memory.clients.port import BadLine, Reading, TranscriptState
from mcp_memory.domain.events import Captured, EventType

_CLIENT = "codex"
_FACTS = ("turn_id", "agent_id", "agent_type", "model")
_TYPES = frozenset("session_meta turn_context response_item event_msg compacted".split())
_NAME = re.compile(r"rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
_PREAMBLE = re.compile(r"\AAnother language model started to solve this problem.*?own analysis:\s*", re.DOTALL)
#: Threads that the client runs for itself.
_INTERNAL = frozenset({"compact", "memory_consolidation"})
#: Lines that say nothing and may stand between a summary and the line that marks it as one.
_BOOKKEEPING = frozenset({"token_usage_record", "token_count"})
#: What a turn's context changes, and under which names it is kept.
_CONTEXT = (("cwd", "cwd"), ("model", "model"), ("turn_id", "turn"))
_TWINS = 20
#: A fork begins with a copy of another session, all of it written at once.
_COPYING_MS = 1_000


def recognizes(path: Path) -> bool:
    for value in peek(path):
        if text_of(value, "type") in _TYPES and isinstance(value.get("payload"), Mapping):
            return True
        # Early versions began with the session's fields alone.
        if text_of(value, "type") not in _TYPES and {"id", "timestamp", "instructions"} <= value.keys():
            return True
    return False


def hook(payload: Mapping[str, Any], received_ms: int) -> Reading:
    return read_hook(_CLIENT, payload, received_ms, _READERS, _FACTS)


def _prompt(call: HookCall) -> Reading | None:
    if not isinstance(call.payload.get("prompt"), str):
        return None
    if call.text("agent_id"):  # the task of a subagent, which no user typed
        return _subagent(call)
    key = f"prompt:{call.text('turn_id') or call.ms}"
    return call.message(typed(call.text("prompt")), EventType.USER_MESSAGE, key)


def _tool(call: HookCall) -> Reading | None:
    name, tool_id = call.text("tool_name"), call.text("tool_use_id")
    if not name or not tool_id:
        return None
    made = called(name, "", object_of(call.payload, "tool_input"))
    event = tool_event(call, tool_id, made, output_of(call.payload.get("tool_response")))
    return call.reading(fallback=(event,) if event else ())


def _stop(call: HookCall) -> Reading:
    if call.text("agent_id"):
        return call.reading()
    return call.turn_end(said(call.text("last_assistant_message")), "stop", call.text("turn_id"))


def _subagent(call: HookCall) -> Reading | None:
    agent, turn, ended = call.text("agent_id"), call.text("turn_id"), call.text("hook_event_name") == "SubagentStop"
    if not agent:
        return None
    if not ended:
        text = typed(call.text("prompt")) or call.text("agent_type")
        return call.reading(call.event(f"agent-start:{agent}:{turn}", EventType.SUBAGENT_START, text, (agent,)))
    text = said(call.text("last_assistant_message"))
    event = call.event(f"agent-stop:{agent}:{turn}", EventType.SUBAGENT_STOP, text, (agent,))
    return call.reading(event, path=call.path("agent_transcript_path"))


def _compacted(call: HookCall) -> Reading:
    """The rollout has the summary, this has none: it counts only where there is no rollout."""
    if call.text("agent_id") or call.text("transcript_path"):
        return call.reading()
    return call.reading(call.event(f"compact:{call.ms}", EventType.COMPACTION, "", trigger=call.text("trigger")))


_READERS = hook_readers(
    "PreToolUse PermissionRequest Notification",
    UserPromptSubmit=_prompt,
    PostToolUse=_tool,
    PostToolUseFailure=_tool,
    Stop=_stop,
    SubagentStart=_subagent,
    SubagentStop=_subagent,
    PreCompact=lambda call: Reading(call.session_id, compacting=True),
    PostCompact=_compacted,
)


def read(path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
    return _Rollout(path, state).read(growing(path, state))


def _opened(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """What a line is of, and what it holds; early versions wrote its fields without an envelope."""
    kind, payload = value.get("type"), value.get("payload")
    if payload is None:
        begins = "timestamp" in value and isinstance(value.get("id"), str)
        return "session_meta" if begins else "response_item", value
    if not isinstance(kind, str) or not isinstance(payload, Mapping):
        raise UnreadableLine("neither a type nor a payload")
    return kind, payload


class _Rollout(TranscriptReader):
    def __init__(self, path: Path, state: TranscriptState) -> None:
        super().__init__(path, state, lambda value: _opened(value)[1])
        self._calls = PendingCalls(self)

    def take(self, value: dict[str, Any]) -> Iterable[Captured]:
        kind, payload = _opened(value)
        ms = self.moment(value.get("timestamp"))
        if kind == "session_meta":
            self._meta(payload, ms)
            return []
        if self.memory.get("ignored") or ms <= self.memory.get("copied", -1):
            return []
        inner = text_of(payload, "type")
        if kind in _BOOKKEEPING or inner in _BOOKKEEPING:
            # How many tokens the model's context holds is kept for the reply that follows.
            used = object_of(object_of(payload, "info"), "last_token_usage").get("total_tokens")
            if isinstance(used, int) and used > 0:
                self.memory["usage"] = used
            return []
        if kind == "compacted":
            self.memory.pop("held", None)
            text = compact_summary(_PREAMBLE.sub("", text_of(payload, "message")))
            event = self._origin(ms).event(f"compact:{ms}", EventType.COMPACTION, text)
            return [] if self.memory.get("agent") else [event]
        held = self._release()
        if kind == "turn_context":
            memory = self.memory
            memory |= {name: text for key, name in _CONTEXT if (text := text_of(payload, key) or memory.get(name, ""))}
        elif kind == "response_item":
            turn = text_of(payload.get("internal_chat_message_metadata_passthrough"), "turn_id")
            origin = self._origin(ms, turn)
            held += self._message(payload, origin) if inner == "message" else self._calls.item(payload, origin)
        elif kind == "event_msg":
            held += self._event(inner, payload, ms)
        return held

    def settle(self) -> None:
        self._calls.settle()

    def rest(self) -> Iterable[Captured]:
        """A reply that waits to be told from a summary; where summaries are marked otherwise, it need not wait."""
        return [] if self.memory.get("items") else self._release()

    def _meta(self, meta: Mapping[str, Any], ms: int) -> None:
        memory = self.memory
        own, source = text_of(meta, "id"), object_of(meta, "source").get("subagent")
        if "session" in memory and own != memory["own"]:
            memory["copied"] = ms + _COPYING_MS
            return
        spawned = object_of(source, "thread_spawn")
        parent = text_of(meta, "parent_thread_id") or text_of(spawned, "parent_thread_id")
        session = text_of(meta, "session_id") or parent or own
        if not session:
            raise UnreadableLine("session_meta without an id")
        memory |= {"own": own, "session": session, "cwd": text_of(meta, "cwd")}
        memory["remote"] = normalized(text_of(meta.get("git"), "repository_url"))
        memory["forked_from"] = text_of(meta, "forked_from_id")
        if parent or source or own not in ("", session):
            memory["agent"] = own
        if isinstance(source, str) and source in _INTERNAL:
            memory["ignored"] = True

    def _origin(self, ms: int, turn: str = "") -> Origin:
        memory = self.memory
        if "session" not in memory:  # a rollout that lost its first line still has the id in its name
            name = _NAME.match(self.path.name)
            if not name:
                raise UnreadableLine("a line of no known session: the file does not begin with session_meta")
            memory |= {"session": name[1], "own": name[1]}
        turn, agent = turn or memory.get("turn", ""), memory.get("agent", "")
        facts = {"turn_id": turn, "model": memory.get("model", ""), "agent_id": agent, "sidechain": bool(agent)}
        facts["forked_from"] = memory.get("forked_from", "")
        cwd, remote = memory.get("cwd", ""), memory.get("remote", "")
        return Origin(_CLIENT, str(memory["session"]), ms, TRANSCRIPT, cwd, facts, remote=remote)

    def _message(self, item: Mapping[str, Any], origin: Origin) -> list[Captured]:
        turn, agent, name = str(origin.facts["turn_id"]), origin.facts["agent_id"], text_of(item, "id")
        if item.get("role") == "assistant":
            if not said(content_text(item)):
                return []
            reply = [name, origin.ms, self.keep(item), turn]
            self.memory["answer" if agent else "held"] = reply
            # The summary of a compaction looks like a reply, but the client never reports it as one.
            return self._release() if not agent and name in self.memory.get("twins", []) else []
        kinds = object_of(item, "internal_chat_message_metadata_passthrough").get("content_item_kinds")
        if isinstance(kinds, list) and kinds and not any(str(kind).startswith("user.") for kind in kinds):
            return []  # the client says so itself where what is in the user's name is not the user's
        text = typed(content_text(item)) if item.get("role") == "user" else ""
        if not text:
            return []
        if agent:
            return [origin.event(f"agent-start:{agent}:{turn}", EventType.SUBAGENT_START, text, (name,))]
        key = f"prompt:{turn or origin.ms}:{digest(text)}"
        return [origin.event(key, EventType.USER_MESSAGE, text, (name,))]

    def _release(self) -> list[Captured]:
        """The reply that was held back, now that it is known to be one."""
        if not (held := self.memory.pop("held", None)):
            return []
        name, ms, place, turn = held
        text = self._replied(place)
        if not text:
            return []
        key = f"reply:{name}" if name else f"line:{ms}:{digest(text)}"
        facts = {"usage": self.memory.pop("usage", None), "phase": self._phase(place)}
        return [self._origin(ms, turn).event(key, EventType.ASSISTANT_MESSAGE, text, (name,), **facts)]

    def _phase(self, place: object) -> str:
        """Whether a reply is `commentary` on work in progress or a `final_answer`, where the client says so."""
        return next((phase for item in self.kept(place) if (phase := text_of(item, "phase"))), "")

    def _replied(self, place: object) -> str:
        """The text of a reply that was read before."""
        return next((text for item in self.kept(place) if (text := said(content_text(item)))), "")

    def _event(self, kind: str, payload: Mapping[str, Any], ms: int) -> list[Captured]:
        turn = text_of(payload, "turn_id")
        if kind == "item_completed":
            self.memory["items"] = True
            item = object_of(payload, "item")
            if item.get("type") != "AgentMessage":
                return self._calls.record(item, self._origin(ms, turn))
            twins: list[str] = self.memory.setdefault("twins", [])
            twins.append(text_of(item, "id"))
            del twins[:-_TWINS]
        elif kind == "thread_name_updated" and not self.memory.get("agent"):
            title = one_line(text_of(payload, "thread_name"))
            key = f"title:thread:{digest(title)}"
            return [self._origin(ms).event(key, EventType.SESSION_TITLE, title, source="thread")] if title else []
        elif kind == "exec_command_end":
            return self._calls.record({**payload, "type": "CommandExecution"}, self._origin(ms, turn))
        elif kind == "task_started" and turn:
            self.memory["turn"] = turn
        elif kind in ("task_complete", "turn_aborted", "error"):
            origin = self._origin(ms, turn)
            return self._calls.unfinished(origin) + self._ended(kind, payload, origin)
        return []

    def _ended(self, kind: str, payload: Mapping[str, Any], origin: Origin) -> list[Captured]:
        """A subagent's answer, or how a turn ended that did not end well."""
        turn = origin.facts["turn_id"]
        if agent := str(origin.facts["agent_id"]):
            answer = self.memory.pop("answer", ["", 0, None, ""])
            text = said(text_of(payload, "last_agent_message")) or self._replied(answer[2])
            event = origin.event(f"agent-stop:{agent}:{turn}", EventType.SUBAGENT_STOP, text, (agent,))
            return [event] if text else []
        stopped = kind == "turn_aborted"
        # What a provider's error says, out of the JSON that it may be wrapped in.
        message = text_of(payload if kind == "error" else object_of(payload, "error"), "message")
        value = json_of(message)
        while inner := object_of(value, "error"):
            value = inner
        error = text_of(value, "message").strip() or message.strip()
        if not (payload.get("reason") == "interrupted" if stopped else error):
            return []
        return [stop_event(origin, f"stopped:{turn or origin.ms}", error, stopped=stopped)]
