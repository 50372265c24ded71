"""Transcripts of Cursor's agent as events.

A line of a transcript has a role and a message, and no more: no name, no time, no result of a tool. The file's own time
stands in. A message is known by its words: the first time they are said in a conversation by these alone, later by how
many times they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from mcp_memory.capture.hook import CURSOR
from mcp_memory.clients.claude_tools import without_injected
from mcp_memory.clients.lines import (
    TRANSCRIPT,
    Origin,
    TranscriptReader,
    UnreadableLine,
    digest,
    growing,
    milliseconds,
    modified_ms,
    shortened,
    text_of,
)
from mcp_memory.clients.port import BadLine, TranscriptState
from mcp_memory.domain.events import Captured, EventType

_QUERY = re.compile(r"<user_query>(.*?)</user_query>", re.DOTALL)
_TIMESTAMP = re.compile(r"<timestamp>(.*?)</timestamp>", re.DOTALL)
_ZONE = re.compile(r"\s*\(UTC(?:([+-]\d{1,2})(?::?(\d\d))?)?\)$")
_TIME_FORMAT = "%A, %b %d, %Y, %I:%M %p"
#: Blocks that the client, or our own hook, puts beside what was typed.
_ADDED = re.compile(
    r"<(timestamp|attached_files|open_and_recently_viewed_files|system_reminder|external_links|image_files|rules"
    r"|manually_attached_skills|additional_data|memory)\b[^>]*>.*?</\1>",
    re.DOTALL,
)
_HIDDEN_THOUGHT = re.compile(r"(?:\s*\[REDACTED\])+\s*\Z")
_FOLDER = "agent-transcripts"
_AGENTS = "subagents"
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]+")
#: The times that the client writes are whole minutes: near by, the file's own is better.
_LIVE_MS = 120_000
_ABORTED = re.compile(r"abort|cancel|interrupt", re.IGNORECASE)


def typed(text: str) -> str:
    """What the user typed, from a hook's prompt or a transcript's message."""
    if asked := _QUERY.findall(text):
        text = "\n\n".join(map(str.strip, asked))
    return shortened(_ADDED.sub("", without_injected(text)).strip())


def said(text: str) -> str:
    """What the model said, without the marks of thoughts that are not shown."""
    return shortened(_HIDDEN_THOUGHT.sub("", text).strip())


def said_key(role: str, text: str, times: int = 1) -> str:
    """How a message is known within its conversation."""
    return f"{role}:{digest(text)}" if times == 1 else f"{role}:{digest(text)}:{times}"


def read_transcript(path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
    """The events of the lines after `state.offset`, and at the file's end a subagent's answer."""
    return _CursorTranscript(path, state).read(growing(path, state))


class _CursorTranscript(TranscriptReader):
    def __init__(self, path: Path, state: TranscriptState) -> None:
        super().__init__(path, state, lambda value: _texts(value.get("message")) and value)
        self._agent = path.stem if path.parent.name == _AGENTS else ""
        self._session = path.parent.parent.name if self._agent else path.stem
        self._now = modified_ms(path)
        #: A file that grows under our eyes is written now; one that is read for the first time may be old.
        self._first = "cwd" not in self.memory
        if self._first:
            self.memory["cwd"] = directory_of(path)
        else:
            self.memory.pop("stamped", None)

    def take(self, value: dict[str, Any]) -> list[Captured]:
        role, message = value.get("role"), value.get("message")
        if role == "user":
            return self._user("\n\n".join(_texts(message)))
        if role != "assistant":
            if not isinstance(value.get("type"), str):
                raise UnreadableLine("neither a role nor a type")
            return self._ended(value) if value["type"] == "turn_ended" else []
        replies = [text for text in map(said, _texts(message)) if text]
        if self._agent:
            self.memory["answer"] = self.keep(value) if replies else None
            return []
        return [self._event(self._key(role, text), EventType.ASSISTANT_MESSAGE, text) for text in replies]

    def settle(self) -> None:
        """Count what the line told."""
        counts: dict[str, int] = self.memory.setdefault("counts", {})
        for key in self.fresh:
            counts[key] = counts.get(key, 0) + 1

    def rest(self) -> list[Captured]:
        """A subagent has finished when its last line is a text: then this is its answer."""
        lines = self.kept(self.memory.pop("answer", None))
        replies = [text for line in lines for text in map(said, _texts(line["message"])) if text]
        key = f"agent-stop:{self._agent}"
        return [self._event(key, EventType.SUBAGENT_STOP, text) for text in replies[-1:]]

    def _user(self, text: str) -> list[Captured]:
        ms = _told_ms(text)
        if ms is not None and self._first and self._now - ms > _LIVE_MS:
            self.memory |= {"ms": max(ms, self.memory.get("ms", 0)), "stamped": True}
        text = typed(text)
        if not text:
            return []
        if self._agent:
            return [self._event(f"agent-start:{self._agent}", EventType.SUBAGENT_START, text)]
        return [self._event(self._key("user", text), EventType.USER_MESSAGE, text)]

    def _ended(self, value: Mapping[str, Any]) -> list[Captured]:
        error = text_of(value, "error")
        if value.get("status") in ("success", "completed", None) or self._agent:
            return []
        stopped = value.get("status") == "aborted" or bool(_ABORTED.search(error))
        text = "Interrupted by the user" if stopped else f"API error: {error or 'unknown'}"
        facts = {"failed": not stopped, "is_interrupt": stopped}
        return [self._event(self._key("ended", text), EventType.ASSISTANT_STOP, text, **facts)]

    def _event(self, key: str, event_type: EventType, text: str, **facts: object) -> Captured:
        """Each event a little later than the one before, so that they keep their order."""
        memory, agent = self.memory, self._agent
        memory["ms"] = ms = max(memory.get("ms", 0) + 1, 0 if memory.get("stamped") else self._now)
        told = {"agent_id": agent, "sidechain": bool(agent)}
        origin = Origin(CURSOR, self._session, ms, TRANSCRIPT, memory["cwd"], told)
        return origin.event(key, event_type, text, (agent,), **facts)

    def _key(self, role: str, text: str) -> str:
        key = said_key(role, text)
        times = self.memory.get("counts", {}).get(key, 0) + self.fresh.count(key) + 1
        self.fresh.append(key)
        return said_key(role, text, times)


def _texts(message: object) -> list[str]:
    content = message.get("content") if isinstance(message, Mapping) else message
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        raise UnreadableLine("message.content is neither text nor a list of blocks")
    return [text for block in content if text_of(block, "type") == "text" and (text := text_of(block, "text"))]


def _told_ms(text: str) -> int | None:
    """The time that the client wrote before a prompt, if it did."""
    found = _TIMESTAMP.search(text)
    if not found:
        return None
    stamp = found[1].strip()
    zone = _ZONE.search(stamp)
    hours, minutes = (int(zone[1] or 0), int(zone[2] or 0)) if zone else (0, 0)
    try:
        moment = datetime.strptime(_ZONE.sub("", stamp), _TIME_FORMAT)
        offset = timezone(timedelta(hours=hours, minutes=minutes if hours >= 0 else -minutes))
        return int(moment.replace(tzinfo=offset).timestamp() * 1000)
    except ValueError:
        return milliseconds(stamp)


def directory_of(path: Path) -> str:
    """The directory of a transcript's project, which the client's name for it only hints at."""
    parts = path.parts
    if _FOLDER not in parts or parts.index(_FOLDER) == 0:
        return ""
    name = parts[parts.index(_FOLDER) - 1]
    return str(matching_directory(Path(path.anchor or "/"), name) or "/" + name.replace("-", "/"))


def matching_directory(folder: Path, name: str) -> Path | None:
    """The directory whose path, with a hyphen for whatever is neither letter nor digit, reads as the name."""
    if not name:
        return folder
    try:
        inner = sorted((one for one in folder.iterdir() if one.is_dir()), key=lambda one: -len(one.name))
    except OSError:
        return None
    for one in inner:
        hint = _NOT_ALPHANUMERIC.sub("-", one.name).strip("-")
        if hint and (name == hint or name.startswith(hint + "-")):
            found = matching_directory(one, name[len(hint) + 1 :])
            if found:
                return found
    return None
