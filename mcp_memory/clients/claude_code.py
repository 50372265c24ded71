"""Claude Code: its hook payloads and its transcripts as events, under the same keys and with the same texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcp_memory.capture.hook import CLAUDE_CODE
from mcp_memory.clients.claude_prompts import (
    HUMAN,
    LEAD,
    SplitMessage,
    client_events,
    is_task_record,
    message_of,
)
from mcp_memory.clients.claude_tools import (
    TASK_LIST,
    blocks_text,
    clip,
    compact_summary,
    failure_text,
    interrupted,
    is_own,
    own_tasks,
    result_text,
    said,
    task_of,
    tool_events,
)
from mcp_memory.clients.cursor_transcript import matching_directory
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
    one_line,
    parse,
    peek,
    read_hook,
    text_of,
)
from mcp_memory.clients.port import BadLine, Reading, TranscriptState
from mcp_memory.clients.replies import CARRY_OUT, PLAN, REJECTED, refusal
from mcp_memory.domain.events import Captured, EventType

_FACTS = ("prompt_id", "agent_id", "agent_type", "model")
_SILENT = (
    "PreToolUse PostToolBatch MessageDisplay InstructionsLoaded PermissionRequest PermissionDenied "
    "Notification Setup ConfigChange CwdChanged FileChanged UserPromptExpansion TeammateIdle TaskCreated "
    "TaskCompleted WorktreeCreate WorktreeRemove Elicitation ElicitationResult"
)
_TYPES = frozenset("user assistant system attachment progress queue-operation pr-link".split())
#: Lines without a session that a transcript may begin with, each with a field that only it has.
_OPENERS = {"summary": "leafUuid", "file-history-snapshot": "snapshot"}
#: Of a long line only the beginning is looked at: it is most often there, and else the line is parsed for nothing.
_DULL, _HEAD = re.compile(rb'"type":"(?:progress|file-history-snapshot|attachment)"'), 600
_TELLING = (b'"user"', b'"assistant"', b'"queue-operation"', b'"compact_boundary"', b'"queued_command"')
#: What holds a folder for each directory that sessions run in.
_FOLDERS = "projects"
#: The client's titles of a session, and the field of each that holds it.
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
_TITLE_CHARS = 300
_PENDING_TITLES = 64
#: How far back the line that a title names is looked for.
_LOOKED_BACK = 2 << 20
_PENDING_TOOLS = 64
_PENDING_PROMPTS = 20
_SAME_PROMPT_MS = 120_000
_COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def recognizes(path: Path) -> bool:
    for value in peek(path):
        kind = text_of(value, "type")
        opener = _OPENERS.get(kind)
        if opener in value if opener else kind in _TYPES and isinstance(value.get("sessionId"), str):
            return True
    return False


def hook(payload: Mapping[str, Any], received_ms: int, client: str = CLAUDE_CODE) -> Reading:
    """What one payload means. `client` is another one that tells its events in this form."""
    return read_hook(client, payload, received_ms, _READERS, _FACTS)


def _prompt(call: HookCall) -> Reading | None:
    if not isinstance(call.payload.get("prompt"), str):
        return None
    name, message = call.text("prompt_id"), message_of(call.text("prompt"))
    key = f"prompt:{name}" if name else f"hook:{call.ms}"
    asked = message.words or "\n\n".join(letter.text for letter in message.letters if letter.sender == LEAD)
    reading = call.message(asked, EventType.USER_MESSAGE, key, (name,))
    return replace(reading, fallback=tuple(client_events(call, message)))


def _tool(call: HookCall) -> Reading | None:
    name, tool_id, given = call.text("tool_name"), call.text("tool_use_id"), object_of(call.payload, "tool_input")
    if not name or not tool_id:
        return None
    if is_own(name, given, object_of(call.payload, "mcp_server").get("name")):
        return call.reading()
    if name == TASK_LIST and (call.text("agent_id") or _is_of_team(call.path())):
        return call.reading()  # the transcript leaves out what others have to do
    response = call.payload.get("tool_response")
    failed = call.text("hook_event_name") == "PostToolUseFailure"
    result = failure_text(call.payload.get("error")) if failed else result_text(name, given, response)
    stopped = call.payload.get("is_interrupt") or object_of(call.payload, "tool_response").get("interrupted")
    facts = {"is_interrupt": stopped is True, "task": task_of(name, given, response)}
    return call.reading(*tool_events(call, tool_id, name, given, result, (tool_id,), failed=failed, **facts))


def _is_of_team(transcript: Path | None) -> bool:
    return transcript is not None and any("teamName" in value for value in peek(transcript))


def _stop_failure(call: HookCall) -> Reading:
    told = (call.text("last_assistant_message"), call.text("error_details"), call.text("error"), "unknown")
    error = next(filter(None, told)).strip()
    if error.lower().startswith("api error:"):
        error = error[len("api error:") :].strip()
    return call.reading(call.event(f"turn:{call.ms}", EventType.ASSISTANT_STOP, f"API error: {error}", failed=True))


def _subagent(call: HookCall) -> Reading | None:
    agent, kind = call.text("agent_id"), call.text("agent_type")
    if not agent:
        return None
    if call.text("hook_event_name") == "SubagentStart":
        return call.reading(call.event(f"agent-start:{agent}", EventType.SUBAGENT_START, kind, (agent,)))
    if call.payload.get("agent_type") == "":  # a compaction ends like a subagent that never started
        return Reading(call.session_id)
    text = said(call.text("last_assistant_message"))
    event = call.event(f"agent-stop:{agent}", EventType.SUBAGENT_STOP, text, (agent,))
    return call.reading(event, path=call.path("agent_transcript_path"))


def _compacted(call: HookCall) -> Reading:
    text = compact_summary(call.text("compact_summary"))
    event = call.event(f"compact:{call.ms}", EventType.COMPACTION, text, trigger=call.text("trigger"))
    return call.reading(fallback=(event,) if text else ())


_READERS = hook_readers(
    _SILENT,
    UserPromptSubmit=_prompt,
    PostToolUse=_tool,
    PostToolUseFailure=_tool,
    Stop=lambda call: call.turn_end(said(call.text("last_assistant_message")), "stop", call.text("prompt_id")),
    StopFailure=_stop_failure,
    SubagentStart=_subagent,
    SubagentStop=_subagent,
    # The client is about to forget: what was said until now is read before it does.
    PreCompact=lambda call: replace(call.reading(), compacting=True),
    PostCompact=_compacted,
)


def read(path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
    """The events of the lines after `state.offset`, and at the file's end those of subagents that have finished."""
    return _ClaudeTranscript(path, state).read(raw for raw in growing(path, state) if not _is_dull(raw))


def _is_dull(raw: bytes) -> bool:
    """Whether a line surely holds no event, told without parsing it: quotes inside JSON strings are escaped."""
    if not _DULL.search(raw, 0, _HEAD):
        return False
    return not any(kind in raw for kind in _TELLING) and raw.rstrip().endswith(b"}")


@dataclass(frozen=True, slots=True)
class _Line(Origin):
    """One telling line: its fields, and the events it becomes. `agent` is the subagent that it belongs to, if any."""

    value: Mapping[str, Any] = field(default_factory=dict)
    uuid: str = ""
    agent: str = ""

    def text(self, key: str) -> str:
        return text_of(self.value, key)

    def message(self) -> Mapping[str, Any]:
        message = self.value.get("message")
        if not isinstance(message, dict):
            raise UnreadableLine("message is not an object")
        return message

    def blocks(self) -> list[Mapping[str, Any]]:
        content = self.message().get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            raise UnreadableLine("message.content is neither text nor a list of blocks")
        return [block for block in content if isinstance(block, dict)]

    def said(self) -> list[tuple[int, str]]:
        """The texts of an answer, with their places among its blocks."""
        texts = [text_of(block, "text") if block.get("type") == "text" else "" for block in self.blocks()]
        return [(index, clear) for index, text in enumerate(texts) if (clear := said(text))]

    def tell(self, key: str, event_type: EventType, text: str, **metadata: object) -> Captured:
        """An event of this line; one without a key of its own is known by the line."""
        return self.event(self.key(key, text), event_type, text, (self.uuid,), **self.metadata(), **metadata)

    def key(self, key: str, text: str) -> str:
        return key or f"line:{self.uuid or digest(f'{self.ms} {text}')}"

    def metadata(self) -> dict[str, object]:
        """What every event of the line has in its metadata."""
        prompt, branch = self.text("promptId"), self.text("gitBranch")
        return {"prompt_id": prompt, "branch": branch, "agent_id": self.agent, "sidechain": bool(self.agent)}


def _directory_in(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        for raw in file:
            found = parse(raw)[0] if b'"cwd"' in raw else []
            if cwd := next(filter(None, (text_of(value, "cwd") for value in found)), ""):
                return cwd
    return ""


def _directory_by_folder(path: Path) -> str:
    """The directory that a transcript's folder is named after, with a hyphen for all but letters and digits."""
    # People call their own folders so, too: the client's names begin with a hyphen.
    pairs = zip(path.parts, path.parts[1:-1], strict=False)
    folders = [folder for parent, folder in pairs if parent == _FOLDERS and folder.startswith("-")]
    name = re.sub("-+", "-", folders[-1]).strip("-") if folders else ""
    if not name:
        return ""
    return str(matching_directory(Path(path.anchor or "/"), name) or "/" + name.replace("-", "/"))


def _prompt_key(line: _Line, text: str) -> str:
    """The key of a prompt that a hook tells too; empty in early versions, which named no prompts."""
    prompt_id = line.text("promptId")
    return f"prompt:{prompt_id}:{digest(text)}" if prompt_id else ""


def _names(value: Mapping[str, Any]) -> tuple[str, str]:
    """The names of a line's session and of the line itself."""
    session_id, uuid = value.get("sessionId"), value.get("uuid")
    origin = value.get("forkedFrom")
    if isinstance(origin, dict):  # a fork begins with a copy of what was said in another session
        session_id, uuid = origin.get("sessionId", session_id), origin.get("messageUuid", uuid)
    if not isinstance(session_id, str) or not session_id:
        raise UnreadableLine("sessionId is missing")
    return session_id, uuid if isinstance(uuid, str) else ""


class _ClaudeTranscript(TranscriptReader):
    def __init__(self, path: Path, state: TranscriptState) -> None:
        super().__init__(path, state)
        #: What the line that is being read changes in the memory, once it is done.
        self._pending: dict[str, Any] = {}
        self._ahead: str | None = None

    def take(self, value: dict[str, Any]) -> list[Captured]:
        events, waiting = self._take(value), self.memory.get("titles", {})
        for name in (text_of(value, "uuid"), text_of(value, "sessionId")) if waiting and "timestamp" in value else ():
            for title in self.kept(waiting.get(name)):
                self.fresh.append(name)
                events += self._titled(self._line(value), title)
        return events

    def _take(self, value: dict[str, Any]) -> list[Captured]:
        kind = value.get("type")
        if kind == "user":
            return self._user(self._line(value))
        if kind == "assistant":
            line = self._line(value)
            return self._planned() + self._assistant(line)
        if text_of(value, "type") in _TITLES:
            return self._title(value)
        if kind == "queue-operation":
            return self._queue(self._line(value))
        if kind == "attachment" and object_of(value, "attachment").get("type") == "queued_command":
            return self._queued(self._line(value))
        if kind == "system" and value.get("subtype") == "compact_boundary":
            facts = object_of(value, "compactMetadata")
            trigger, tokens = facts.get("trigger"), facts.get("preTokens")
            self.memory["compaction"] = {
                **({"trigger": trigger} if isinstance(trigger, str) else {}),
                **({"pre_tokens": tokens} if isinstance(tokens, int) else {}),
            }
        elif not isinstance(kind, str):
            raise UnreadableLine("type is missing")
        return []

    def settle(self) -> None:
        """Forget the calls that the line answered, and the titles that waited for it."""
        for name in self.fresh:
            self.memory.get("tools", {}).pop(name, None)
            self.memory.get("titles", {}).pop(name, None)
            if name == PLAN:
                self.memory.pop(PLAN, None)
        self.memory |= self._pending
        self._pending.clear()

    def rest(self) -> Iterator[Captured]:
        """A subagent has finished when its last line is a text: then this is its answer."""
        yield from self._planned(None)
        self.memory.pop(PLAN, None)
        agents = self.memory.get("agents", {})
        for agent, (place, ms) in list(agents.items()):
            for line in self._lines(self.kept(place)):
                ended = _Line(CLAUDE_CODE, line.session_id, ms, TRANSCRIPT, line.cwd, uuid=line.uuid, agent=agent)
                for _, text in line.said()[-1:]:
                    yield ended.tell(f"agent-stop:{agent}", EventType.SUBAGENT_STOP, text)
            agents.pop(agent, None)

    def _line(self, value: Mapping[str, Any]) -> _Line:
        names = _names(value)
        ms = self.moment(value.get("timestamp"))
        self.memory["cwd"] = cwd = text_of(value, "cwd") or self.memory.get("cwd") or self._directory()
        agent = ""
        if value.get("isSidechain") is True:
            agent = text_of(value, "agentId")
            if not agent and self.path.stem.startswith("agent-"):
                agent = self.path.stem.removeprefix("agent-")
            elif not agent:  # early versions wrote subagents into the session's file, without a name
                if value.get("parentUuid") is None:
                    self.memory["side"] = names[1]
                agent = str(self.memory.get("side") or names[1])
        if "forkedFrom" in value:
            self.memory["forked_from"] = names[0]
        origin = self.memory.get("forked_from", "")
        facts = {"forked_from": origin} if origin not in ("", names[0]) else {}
        return _Line(CLAUDE_CODE, names[0], ms, TRANSCRIPT, cwd, facts, value, names[1], agent)

    def _directory(self) -> str:
        """The directory of the first line that has one, for the lines before it; else what the file's folder names."""
        if self._ahead is None:
            self._ahead = _directory_in(self.path) or _directory_by_folder(self.path)
        return self._ahead

    def _title(self, value: Mapping[str, Any]) -> list[Captured]:
        """A title. One of them is of what ends with a line that it names, and mostly stands before it.

        Or of another session, whose file holds that line. One that comes before any time is known waits as well.
        """
        leaf, session = text_of(value, "leafUuid"), text_of(value, "sessionId")
        line = self._earlier(leaf) if leaf else self._line(value) if session and "ms" in self.memory else None
        if line is None and (leaf or session):
            self.remember("titles", leaf or session, self.keep(value), _PENDING_TITLES)
        return self._titled(line, value) if line else []

    def _titled(self, line: _Line, told: Mapping[str, Any]) -> list[Captured]:
        source = text_of(told, "type")
        title = clip(one_line(text_of(told, _TITLES.get(source, ""))), _TITLE_CHARS)
        if not title or line.agent:
            return []
        key = f"title:{source}:{digest(text_of(told, 'leafUuid') + title)}"
        return [line.event(key, EventType.SESSION_TITLE, title, source=source)]

    def _earlier(self, uuid: str) -> _Line | None:
        """The line of this name, if it is among those read before."""
        start = max(0, self.state.offset - _LOOKED_BACK)
        with suppress(OSError), self.path.open("rb") as file:
            file.seek(start)
            data = file.read(self.state.offset - start)
            if found := re.search(rb'"uuid":\s?"%b"' % re.escape(uuid.encode("utf-8", "replace")), data):
                begin, end = data.rfind(b"\n", 0, found.start()) + 1, data.find(b"\n", found.end())
                return next(self._lines(parse(data[begin:end])[0]), None)
        return None

    def _planned(self, prompt: str | None = "") -> list[Captured]:
        """A plan that was turned down without a word, by what the user did then; None: nothing that is known here.

        To go on with it in a fresh context is told as a refusal too, and the plan as the next prompt, often of another
        session. So at the end of a file it is told as neither.
        """
        if PLAN not in self.memory:
            return []
        place, tool_id = self.memory[PLAN]
        self.fresh += [PLAN, tool_id]
        _, given, uuid = self._use(tool_id) or ("", {}, "")
        accepted = bool(prompt) and str(prompt).startswith(CARRY_OUT)
        result = text_of(given, "plan") if accepted or prompt is None else REJECTED
        origins = [replace(line, facts=line.metadata()) for line in self._lines(self.kept(place))]
        told = [(one, tool_id, PLAN, given, result, (one.uuid, uuid)) for one in origins]
        return [event for plan in told for event in tool_events(*plan, failed=not accepted)]

    def _user(self, line: _Line) -> list[Captured]:
        if line.value.get("isMeta") is True:
            content = blocks_text(object_of(line.value, "message").get("content"))
            return self._said(line, [SplitMessage(letters=message_of(content).letters)])
        if line.value.get("isCompactSummary") is True:
            facts = self.memory.pop("compaction", {})
            text = compact_summary("\n\n".join(str(block.get("text") or "") for block in line.blocks()))
            return [line.tell("", EventType.COMPACTION, text, **facts)] if text and not line.agent else []
        blocks = line.blocks()
        results = [block for block in blocks if block.get("type") == "tool_result"]
        events = [told for block in results for told in self._tool_result(line, block, len(results) == 1)]
        said_there = [block.get("text") for block in blocks if block.get("type") == "text"]
        texts = [text for text in said_there if isinstance(text, str)]
        if any(map(interrupted, texts)):
            stopped = line.tell("", EventType.ASSISTANT_STOP, "Interrupted by the user", is_interrupt=True)
            return events if line.agent else [*events, stopped]
        # Whatever encloses the task of a subagent, it is what the subagent is asked.
        origin = HUMAN if line.agent else text_of(object_of(line.value, "origin"), "kind")
        messages = [message_of(text, origin) for text in texts]
        if not texts and any(block.get("type") == "image" for block in blocks):  # a picture alone is told by its name
            messages = [SplitMessage("[image]")]
        return events + self._said(line, messages)

    def _said(self, line: _Line, messages: Sequence[SplitMessage]) -> list[Captured]:
        """What one line says in the user's name.

        The leader of a team asks, and a mate does where nobody has asked the session anything before. What else mates
        report to each other is asked of nobody.
        """
        events: list[Captured] = []
        asked = [message.words for message in messages if message.words]
        senders: list[str] = []
        for message in messages:
            for letter in message.letters:
                if line.agent or letter.sender == LEAD or not (asked or self.memory.get("asked")):
                    asked.append(letter.text)
                    senders.append(letter.sender)
                else:
                    events += self._from_client(line, SplitMessage(notices=(f"{letter.sender}: {letter.text}",)))
            events += self._from_client(line, message) + self._ran(line, message.command)
        return (
            events + self._asked(line, "\n\n".join(asked), sender=", ".join(dict.fromkeys(senders)))
            if asked
            else events
        )

    def _asked(self, line: _Line, text: str, **facts: object) -> list[Captured]:
        """A request: of the user, or of who leads a team or sends a subagent."""
        events = self._planned(text)
        if line.agent:
            return [*events, line.tell(f"agent-start:{line.agent}", EventType.SUBAGENT_START, text)]
        name = digest(text)
        self._pending |= {"asked": True, "queue": [one for one in self._waiting() if one[1] != name]}
        if line.ms - self.memory.get("injected", {}).get(name, -_SAME_PROMPT_MS - 1) <= _SAME_PROMPT_MS:
            return events
        return [*events, line.tell(_prompt_key(line, text), EventType.USER_MESSAGE, text, **facts)]

    def _ran(self, line: _Line, command: str) -> list[Captured]:
        """A command that the user ran in the client's shell, which asks nothing of the model."""
        if not command or line.agent or is_own("Bash", {"command": command}):
            return []
        origin, given = replace(line, facts=line.metadata()), {"command": command}
        (ran,) = tool_events(origin, "", "Bash", given, "", (line.uuid,), failed=False, by_user=True)
        words = f"! {command}"
        return [replace(ran, source_key=line.key(_prompt_key(line, words), words))]

    def _from_client(self, line: _Line, message: SplitMessage) -> list[Captured]:
        """What background tasks and the client say. A task may report several times, each time something else."""
        if line.agent:
            return []
        events = list(client_events(replace(line, facts=line.metadata()), message, (line.uuid,)))
        for place, event in enumerate(events):
            if event.event_type is EventType.SUBAGENT_STOP:
                name = digest(event.text)
                if self.memory.get("reports", {}).get(event.source_key, name) != name:
                    events[place] = replace(event, source_key=f"{event.source_key}:{name}")
                else:
                    self.remember("reports", event.source_key, name, _PENDING_TOOLS)
        return events

    def _queue(self, line: _Line) -> list[Captured]:
        """A prompt typed while the model works waits in a queue; removed from there, it went into the running turn.

        Mostly no other line tells it. One that begins a turn of its own is dequeued, and told by that turn's first
        line. What the client puts there is stored at once and never waits for typed prompts.
        """
        content, operation, waiting = line.text("content"), line.text("operation"), self._waiting()
        message = SplitMessage() if is_task_record(content) else message_of(content)
        told, name = self._from_client(line, message), digest(message.words) if message.words else ""
        if operation == "enqueue":
            waiting += [[self.keep(line.value), name]] if name else []
            self._pending["queue"] = waiting[-_PENDING_PROMPTS:]
            return told
        if operation not in ("remove", "dequeue"):
            self._pending["queue"] = []
            return told
        # Newer versions say which one; of others it is the first.
        leaving = [one for one in waiting if one[1] == name or not content][:1]
        self._pending["queue"] = [one for one in waiting if one not in leaving]
        texts = [message_of(text_of(value, "content")).words for place, _ in leaving for value in self.kept(place)]
        text = message.words or next(filter(None, texts), "")
        if not text or operation == "dequeue":
            return told
        return [*told, *self._into_turn(line, text, f"queued:{line.ms}:{digest(text)}", "removed", "attached")]

    def _queued(self, line: _Line) -> list[Captured]:
        """A prompt or a notification from the queue, as the running turn was given it."""
        queued = object_of(line.value, "attachment")
        origin, mode = text_of(object_of(queued, "origin"), "kind"), text_of(queued, "commandMode")
        content = blocks_text(queued.get("prompt")).strip()
        message = SplitMessage() if is_task_record(content) else message_of(content, origin)
        events = self._from_client(line, message)
        if line.agent or mode not in ("", "prompt") or queued.get("isMeta") is True:
            return events
        events += self._ran(line, message.command)
        key = f"queued:{text_of(queued, 'source_uuid') or line.uuid}"
        return [*events, *self._into_turn(line, message.words, key, "attached", "removed")] if message.words else events

    def _into_turn(self, line: _Line, text: str, key: str, way: str, other: str) -> list[Captured]:
        """Words that went into a running turn. Two lines may hold them: the queue's and the turn's."""
        name = digest(text)
        self._pending["asked"] = True
        twins = dict(self.memory.get(other, {}))
        if twins.pop(name, None) is not None:
            self._pending[other] = twins
            return []
        self.remember("injected", name, line.ms, _PENDING_PROMPTS)
        self.remember(way, name, line.ms, _PENDING_PROMPTS)
        return [line.tell(key, EventType.USER_MESSAGE, text, queued=True)]

    def _waiting(self) -> list[list[Any]]:
        """The prompts in the queue, each with its place and its digest; an earlier version kept no such pairs."""
        return [one for one in self.memory.get("queue", []) if isinstance(one, list)]

    def _tool_result(self, line: _Line, block: Mapping[str, Any], alone: bool) -> list[Captured]:
        tool_id = text_of(block, "tool_use_id")
        if not tool_id:
            raise UnreadableLine("tool_use_id is missing")
        self.memory.get("agents", {}).pop(line.agent, None)
        name, given, use_uuid = self._use(tool_id) or ("", {}, line.text("sourceToolAssistantUUID"))
        failed = block.get("is_error") is True
        if failed and name == PLAN and not line.agent and refusal(failure_text(block.get("content"))) == "":
            self.memory[PLAN] = [self.keep(line.value), tool_id]
            return []
        self.fresh.append(tool_id)
        if is_own(name, given):
            return []
        content, response = block.get("content"), line.value.get("toolUseResult")
        # The tool's own object tells more than what the model saw of it.
        own = response if alone and isinstance(response, dict) else None
        if failed:
            result = failure_text(content) or failure_text(response)
        elif own is not None and not name.startswith("mcp__"):
            result = result_text(name, given, own)
        else:
            result = result_text(name, given, response if content is None else content)
        if not name and not result:
            return []
        stopped = own is not None and own.get("interrupted") is True
        origin, ids = replace(line, facts=line.metadata()), (line.uuid, use_uuid)
        task = task_of(name, given, own or content)
        if line.text("teamName"):
            if task:
                self._pending["tasks"] = {**self._tasks, task: True}
            elif name == TASK_LIST:
                result = own_tasks(own or content, self._tasks)
                if not result:
                    return []
        facts = {"is_interrupt": stopped, "task": task}
        return tool_events(origin, tool_id, name, given, result, ids, failed=failed, **facts)

    @property
    def _tasks(self) -> dict[str, bool]:
        """Return the team's tasks that this session made or changed."""
        tasks: dict[str, bool] = self.memory.get("tasks", {})
        return tasks

    def _use(self, tool_id: str) -> tuple[str, Mapping[str, Any], str] | None:
        """Name and input of a call, and the name of the line that made it."""
        for line in self._lines(self.kept(self.memory.setdefault("tools", {}).get(tool_id))):
            for block in line.blocks():
                if block.get("type") == "tool_use" and block.get("id") == tool_id:
                    return text_of(block, "name"), object_of(block, "input"), line.uuid
        return None

    def _assistant(self, line: _Line) -> list[Captured]:
        model = line.message().get("model")
        if line.value.get("isApiErrorMessage") is True or model == "<synthetic>":
            return []
        texts = line.said()
        if line.agent and texts:
            self.memory.setdefault("agents", {})[line.agent] = [self.keep(line.value), line.ms]
        for block in line.blocks():
            if block.get("type") != "tool_use":
                continue
            self.memory.get("agents", {}).pop(line.agent, None)
            # A call is kept until its result comes, some lines or some reads later.
            if isinstance(block.get("id"), str) and isinstance(block.get("name"), str):
                self.remember("tools", block["id"], self.keep(line.value), _PENDING_TOOLS)
        if line.agent or not texts:
            return []
        told = object_of(line.message(), "usage")
        counts = [told.get(name) for name in _COUNTED]
        # How many tokens the model's context held after this answer, as the client tells it.
        usage = sum(count for count in counts if isinstance(count, int) and count > 0) or None
        facts = {"model": model if isinstance(model, str) else "", "usage": usage}
        several = len(texts) > 1 and line.uuid
        return [
            line.tell(f"line:{line.uuid}:{index}" if several else "", EventType.ASSISTANT_MESSAGE, text, **facts)
            for index, text in texts
        ]

    def _lines(self, values: list[Any]) -> Iterator[_Line]:
        """Lines that were read before, without what they changed then."""
        for value in values:
            with suppress(UnreadableLine):  # the file may have been written anew since
                session_id, uuid = _names(value)
                ms = milliseconds(value.get("timestamp")) or self.memory.get("ms", 0)
                cwd = text_of(value, "cwd") or self.memory.get("cwd", "")
                line = _Line(CLAUDE_CODE, session_id, ms, TRANSCRIPT, cwd, value=value, uuid=uuid)
                line.blocks()
                yield line
