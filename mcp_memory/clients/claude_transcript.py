"""One telling line of a Claude Code transcript: the fields that all of them have, and the events they become."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_memory.capture.hook import CLAUDE_CODE
from mcp_memory.clients.claude_tools import (
    call_text,
    compact_summary,
    failure_text,
    interrupted,
    is_own,
    result_text,
    said,
    touched,
    typed,
)
from mcp_memory.clients.lines import (
    Earlier,
    Unreadable,
    digest,
    growing,
    keep_newest,
    milliseconds,
    modified_ms,
    object_of,
    text_of,
    told_by,
)
from mcp_memory.clients.port import BadLine, Told, TranscriptState
from mcp_memory.domain.events import Captured, EventType, Role


@dataclass(frozen=True, slots=True)
class Line:
    """The fields that every telling line has. `agent` is the subagent that it belongs to, if any."""

    value: Mapping[str, Any]
    session_id: str
    uuid: str
    ms: int
    cwd: str
    agent: str = ""

    def text(self, key: str) -> str:
        value = self.value.get(key)
        return value if isinstance(value, str) else ""

    def message(self) -> Mapping[str, Any]:
        message = self.value.get("message")
        if not isinstance(message, dict):
            raise Unreadable("message is not an object")
        return message

    def blocks(self) -> list[Mapping[str, Any]]:
        content = self.message().get("content")
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        if not isinstance(content, list):
            raise Unreadable("message.content is neither text nor a list of blocks")
        return [block for block in content if isinstance(block, dict)]

    def tell(
        self,
        key: str,
        event_type: EventType,
        role: Role,
        text: str,
        source_ids: tuple[str, ...] | None = None,
        **metadata: object,
    ) -> Told:
        known = {
            "via": "transcript",
            "prompt_id": self.text("promptId"),
            "cwd": self.cwd,
            "branch": self.text("gitBranch"),
            "agent_id": self.agent,
            "sidechain": bool(self.agent),
            **metadata,
        }
        event = Captured(
            client=CLAUDE_CODE,
            session_id=self.session_id,
            source_key=key or f"line:{self.uuid or digest(f'{self.ms} {text}')}",
            timestamp_ms=self.ms,
            event_type=event_type,
            role=role,
            text=text,
            source_ids=(self.uuid,) * bool(self.uuid) if source_ids is None else source_ids,
            metadata={name: value for name, value in known.items() if value not in ("", None, False, [])},
        )
        return Told(event, self.cwd)


#: Of a long line only the beginning is looked at: it is most often there, and else the line is parsed for nothing.
_DULL, _HEAD = re.compile(rb'"type":"(?:progress|file-history-snapshot|attachment|summary)"'), 600
_TELLING = (b'"user"', b'"assistant"', b'"queue-operation"', b'"compact_boundary"')
_PENDING_TOOLS = 64
_PENDING_PROMPTS = 20
_SAME_PROMPT_MS = 120_000
_COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def read(path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
    """The events of the lines after `state.offset`, and at the file's end those of subagents that have finished."""
    reader = _Reader(path, state)
    lines = (raw for raw in growing(path, state) if not _is_dull(raw))
    yield from told_by(reader, lines, path, state)
    yield from reader.finished_agents()


def _is_dull(raw: bytes) -> bool:
    """Whether a line surely holds no event, told without parsing it: quotes inside JSON strings are escaped."""
    if not _DULL.search(raw, 0, _HEAD):
        return False
    return not any(kind in raw for kind in _TELLING) and raw.rstrip().endswith(b"}")


class _Reader:
    """Reads one file's lines in order. What later lines need of earlier ones lies in `memory`, which is saved.

    So it holds names, numbers and the places of lines, but none of their words.
    """

    def __init__(self, path: Path, state: TranscriptState) -> None:
        self._path = path
        self._memory = state.memory
        self._earlier = Earlier(path, state)
        self._answered: list[str] = []

    def take(self, value: object) -> list[Told]:
        if not isinstance(value, dict):
            raise Unreadable("not a JSON object")
        kind = value.get("type")
        if kind == "user":
            return self._user(self._line(value))
        if kind == "assistant":
            return self._assistant(self._line(value))
        if kind == "queue-operation":
            return self._queue(self._line(value))
        if kind == "system" and value.get("subtype") == "compact_boundary":
            self._memory["compaction"] = _compaction_facts(value)
        elif not isinstance(kind, str):
            raise Unreadable("type is missing")
        return []

    def settle(self) -> None:
        """Forget the calls that the line answered: only now, so that a line that is read again reads the same."""
        for tool_id in self._answered:
            self._memory["tools"].pop(tool_id, None)
        self._answered.clear()

    def finished_agents(self) -> Iterator[Told]:
        """A subagent has finished when its last line is a text: then this is its answer."""
        agents = self._memory.get("agents", {})
        for agent, (place, ms) in list(agents.items()):
            for line in self._again(place):
                cwd = line.text("cwd") or self._memory.get("cwd", "")
                told = Line({}, line.session_id, line.uuid, ms, cwd, agent)
                for _, text in _said(line)[-1:]:
                    yield told.tell(f"agent-stop:{agent}", EventType.SUBAGENT_STOP, Role.SYSTEM, text)
            agents.pop(agent, None)

    def _line(self, value: Mapping[str, Any]) -> Line:
        session_id, uuid = _names(value)
        memory = self._memory
        ms = milliseconds(value.get("timestamp"))
        memory["ms"] = ms = memory.get("ms", modified_ms(self._path)) if ms is None else ms
        cwd = value.get("cwd")
        memory["cwd"] = cwd = cwd if isinstance(cwd, str) and cwd else memory.get("cwd", "")
        return Line(value, session_id, uuid, ms, cwd, self._agent(value, uuid))

    def _agent(self, value: Mapping[str, Any], uuid: str) -> str:
        if value.get("isSidechain") is not True:
            return ""
        agent = value.get("agentId")
        if isinstance(agent, str) and agent:
            return agent
        if self._path.stem.startswith("agent-"):
            return self._path.stem.removeprefix("agent-")
        if value.get("parentUuid") is None:  # early versions wrote subagents into the session's file, without a name
            self._memory["side"] = uuid
        return str(self._memory.get("side") or uuid)

    def _user(self, line: Line) -> list[Told]:
        if line.value.get("isMeta") is True:
            return []
        blocks = line.blocks()
        if line.value.get("isCompactSummary") is True:
            return self._compaction(line, blocks)
        results = [block for block in blocks if block.get("type") == "tool_result"]
        events = [told for block in results if (told := self._tool_result(line, block, len(results) == 1))]
        texts = [text for block in blocks if block.get("type") == "text" and isinstance(text := block.get("text"), str)]
        if any(map(interrupted, texts)):
            return events if line.agent else [*events, _stopped(line)]
        text = _typed_in(texts, blocks)
        return [*events, *self._prompt(line, text)] if text else events

    def _prompt(self, line: Line, text: str) -> list[Told]:
        if line.agent:
            key = f"agent-start:{line.agent}"
            return [line.tell(key, EventType.SUBAGENT_START, Role.SYSTEM, text)]
        name = digest(text)
        if line.ms - self._memory.get("injected", {}).get(name, -_SAME_PROMPT_MS - 1) <= _SAME_PROMPT_MS:
            return []
        prompt_id = line.text("promptId")
        key = f"prompt:{prompt_id}:{name}" if prompt_id else ""
        return [line.tell(key, EventType.USER_MESSAGE, Role.USER, text)]

    def _queue(self, line: Line) -> list[Told]:
        """A prompt typed while the model works waits in a queue; removed from there, it went into the running turn.

        No other line tells it. One that begins a turn of its own is dequeued, and told by that turn's first line.
        """
        waiting: list[int] = self._memory.setdefault("queue", [])
        operation = line.text("operation")
        if operation == "enqueue":
            waiting.append(self._earlier.keep(line.value))
            del waiting[:-_PENDING_PROMPTS]
            return []
        if operation not in ("remove", "dequeue"):
            waiting.clear()
            return []
        queued = self._earlier.at(waiting.pop(0)) if waiting else []
        text = typed(text_of(queued[-1], "content")) if queued else ""
        if not text or operation == "dequeue":
            return []
        injected: dict[str, int] = self._memory.setdefault("injected", {})
        injected[digest(text)] = line.ms
        keep_newest(injected, _PENDING_PROMPTS)
        key = f"queued:{line.ms}:{digest(text)}"
        return [line.tell(key, EventType.USER_MESSAGE, Role.USER, text, queued=True)]

    def _compaction(self, line: Line, blocks: list[Mapping[str, Any]]) -> list[Told]:
        facts = self._memory.pop("compaction", {})
        text = compact_summary("\n\n".join(str(block.get("text") or "") for block in blocks))
        if not text or line.agent:
            return []
        return [line.tell("", EventType.COMPACTION, Role.SYSTEM, text, **facts)]

    def _tool_result(self, line: Line, block: Mapping[str, Any], alone: bool) -> Told | None:
        tool_id = block.get("tool_use_id")
        if not isinstance(tool_id, str) or not tool_id:
            raise Unreadable("tool_use_id is missing")
        self._memory.get("agents", {}).pop(line.agent, None)
        place = self._memory.setdefault("tools", {}).get(tool_id)
        name, given, use_uuid = self._use(place, tool_id) or ("", {}, line.text("sourceToolAssistantUUID"))
        self._answered.append(tool_id)
        if is_own(name, given):
            return None
        content, response = block.get("content"), line.value.get("toolUseResult")
        # The tool's own object tells more than what the model saw of it.
        own = response if alone and isinstance(response, dict) else None
        failed = block.get("is_error") is True
        if failed:
            result = failure_text(content) or failure_text(response)
        elif own is not None and not name.startswith("mcp__"):
            result = result_text(name, given, own)
        else:
            result = result_text(name, given, response if content is None else content)
        text = call_text(name, given, result, line.cwd)
        if not text:
            return None
        return line.tell(
            f"tool:{tool_id}",
            EventType.TOOL_RESULT,
            Role.TOOL,
            text,
            tuple(filter(None, (line.uuid, use_uuid))),
            tool=name,
            files=touched(name, given, line.cwd),
            failed=failed,
            is_interrupt=own is not None and own.get("interrupted") is True,
        )

    def _assistant(self, line: Line) -> list[Told]:
        model = line.message().get("model")
        if line.value.get("isApiErrorMessage") is True or model == "<synthetic>":
            return []
        texts = _said(line)
        if line.agent and texts:
            self._memory.setdefault("agents", {})[line.agent] = [self._earlier.keep(line.value), line.ms]
        for block in line.blocks():
            if block.get("type") == "tool_use":
                self._remember(line, block)
        if line.agent:
            return []
        model = model if isinstance(model, str) else ""
        return [
            line.tell(
                f"line:{line.uuid}:{index}" if len(texts) > 1 and line.uuid else "",
                EventType.ASSISTANT_MESSAGE,
                Role.ASSISTANT,
                text,
                model=model,
                usage=_usage(line.message().get("usage")),
            )
            for index, text in texts
        ]

    def _remember(self, line: Line, block: Mapping[str, Any]) -> None:
        """Keep a call until its result comes, some lines or some reads later."""
        self._memory.get("agents", {}).pop(line.agent, None)
        tool_id = block.get("id")
        if isinstance(tool_id, str) and isinstance(block.get("name"), str):
            tools: dict[str, int] = self._memory.setdefault("tools", {})
            tools[tool_id] = self._earlier.keep(line.value)
            keep_newest(tools, _PENDING_TOOLS)

    def _use(self, place: object, tool_id: str) -> tuple[str, Mapping[str, Any], str] | None:
        """Name and input of a call, and the name of the line that made it."""
        for line in self._again(place):
            for block in line.blocks():
                if block.get("type") == "tool_use" and block.get("id") == tool_id:
                    return text_of(block, "name"), object_of(block, "input"), line.uuid
        return None

    def _again(self, place: object) -> Iterator[Line]:
        """A line of an answer that was read before."""
        for value in self._earlier.at(place):
            with suppress(Unreadable):  # the file may have been written anew since
                line = Line(value, *_names(value), 0, "")
                line.blocks()
                yield line


def _names(value: Mapping[str, Any]) -> tuple[str, str]:
    """The names of a line's session and of the line itself."""
    session_id, uuid = value.get("sessionId"), value.get("uuid")
    origin = value.get("forkedFrom")
    if isinstance(origin, dict):  # a fork begins with a copy of what was said in another session
        session_id, uuid = origin.get("sessionId", session_id), origin.get("messageUuid", uuid)
    if not isinstance(session_id, str) or not session_id:
        raise Unreadable("sessionId is missing")
    return session_id, uuid if isinstance(uuid, str) else ""


def _said(line: Line) -> list[tuple[int, str]]:
    """The texts of an answer, with their places among its blocks."""
    found = [
        (index, text_of(block, "text")) for index, block in enumerate(line.blocks()) if block.get("type") == "text"
    ]
    return [(index, clear) for index, text in found if (clear := said(text))]


def _typed_in(texts: list[str], blocks: list[Mapping[str, Any]]) -> str:
    """What the user typed; a picture alone is told by its name."""
    if not texts and any(block.get("type") == "image" for block in blocks):
        return "[image]"
    return "\n\n".join(filter(None, map(typed, texts)))


def _usage(told: object) -> int | None:
    """How many tokens the model's context held after this answer, as the client tells it."""
    if not isinstance(told, dict):
        return None
    counts = [told.get(name) for name in _COUNTED]
    return sum(count for count in counts if isinstance(count, int) and count > 0) or None


def _stopped(line: Line) -> Told:
    return line.tell("", EventType.ASSISTANT_STOP, Role.SYSTEM, "Interrupted by the user", is_interrupt=True)


def _compaction_facts(value: Mapping[str, Any]) -> dict[str, Any]:
    facts = value.get("compactMetadata")
    facts = facts if isinstance(facts, dict) else {}
    trigger, tokens = facts.get("trigger"), facts.get("preTokens")
    return {
        **({"trigger": trigger} if isinstance(trigger, str) else {}),
        **({"pre_tokens": tokens} if isinstance(tokens, int) else {}),
    }
