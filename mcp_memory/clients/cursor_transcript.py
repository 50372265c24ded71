"""Transcripts of Cursor's agent as events.

A line has a role and a message, and no more: no name, no time, no result of a tool. The file's own time stands in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp_memory.clients.account import TRANSCRIPT, Account, text_of
from mcp_memory.clients.cursor_hooks import CLIENT
from mcp_memory.clients.cursor_text import said, said_key, told_ms, typed
from mcp_memory.clients.lines import Earlier, Unreadable, growing, modified_ms, told_by
from mcp_memory.clients.port import BadLine, Told, TranscriptState
from mcp_memory.domain.events import EventType, Role

_FOLDER = "agent-transcripts"
_AGENTS = "subagents"
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]+")
#: The times that the client writes are whole minutes: near by, the file's own is better.
_LIVE_MS = 120_000
_ABORTED = re.compile(r"abort|cancel|interrupt", re.IGNORECASE)


def read(path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
    """The events of the lines after `state.offset`, and at the file's end a subagent's answer."""
    reader = _Reader(path, state)
    lines = growing(path, state)
    yield from told_by(reader, lines, path, state)
    yield from reader.answer()


class _Reader:
    """Reads one file's lines in order. What later lines need of earlier ones lies in `memory`, which is saved.

    So it holds names, numbers and the places of lines, but none of their words.
    """

    def __init__(self, path: Path, state: TranscriptState) -> None:
        self._memory = memory = state.memory
        self._earlier = Earlier(path, state, _readable)
        self._agent = path.stem if path.parent.name == _AGENTS else ""
        self._session = path.parent.parent.name if self._agent else path.stem
        self._now = modified_ms(path)
        self._new: list[str] = []
        #: A file that grows under our eyes is written now; one that is read for the first time may be old.
        self._first = "cwd" not in memory
        if self._first:
            memory["cwd"] = directory_of(path)
        else:
            memory.pop("stamped", None)

    def take(self, value: object) -> list[Told]:
        if not isinstance(value, Mapping):
            raise Unreadable("not a JSON object")
        role, message = value.get("role"), value.get("message")
        if role not in ("user", "assistant"):
            if not isinstance(value.get("type"), str):
                raise Unreadable("neither a role nor a type")
            return self._ended(value) if value["type"] == "turn_ended" else []
        if role == "user":
            return self._user("\n\n".join(_texts(message)))
        replies = _replies(message)
        if self._agent:
            self._memory["answer"] = self._earlier.keep(value) if replies else None
            return []
        return [
            self._account().tell(self._key(role, text), EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, text)
            for text in replies
        ]

    def settle(self) -> None:
        """Count what the line told: only now, so that a line that is read again reads the same."""
        counts: dict[str, int] = self._memory.setdefault("counts", {})
        for key in self._new:
            counts[key] = counts.get(key, 0) + 1
        self._new.clear()

    def answer(self) -> list[Told]:
        """A subagent has finished when its last line is a text."""
        key, place = f"agent-stop:{self._agent}", self._memory.pop("answer", None)
        lines = self._earlier.at(place)
        replies = [text for line in lines for text in _replies(line["message"])]
        return [
            self._account().tell(key, EventType.SUBAGENT_STOP, Role.SYSTEM, text, (self._agent,))
            for text in replies[-1:]
        ]

    def _user(self, text: str) -> list[Told]:
        ms = told_ms(text)
        if ms is not None and self._first and self._now - ms > _LIVE_MS:
            self._memory |= {"ms": max(ms, self._memory.get("ms", 0)), "stamped": True}
        text = typed(text)
        if not text:
            return []
        if self._agent:
            key = f"agent-start:{self._agent}"
            return [self._account().tell(key, EventType.SUBAGENT_START, Role.SYSTEM, text, (self._agent,))]
        return [self._account().tell(self._key("user", text), EventType.USER_MESSAGE, Role.USER, text)]

    def _ended(self, value: Mapping[str, Any]) -> list[Told]:
        error = text_of(value, "error")
        if value.get("status") in ("success", "completed", None) or self._agent:
            return []
        stopped = value.get("status") == "aborted" or bool(_ABORTED.search(error))
        text = "Interrupted by the user" if stopped else f"API error: {error or 'unknown'}"
        key = self._key("ended", text)
        return [
            self._account().tell(
                key, EventType.ASSISTANT_STOP, Role.SYSTEM, text, failed=not stopped, is_interrupt=stopped
            )
        ]

    def _account(self) -> Account:
        """Each event a little later than the one before, so that they keep their order."""
        memory = self._memory
        now = 0 if memory.get("stamped") else self._now
        memory["ms"] = ms = max(memory.get("ms", 0) + 1, now)
        facts = {"agent_id": self._agent, "sidechain": bool(self._agent)}
        return Account(CLIENT, self._session, ms, TRANSCRIPT, memory["cwd"], facts)

    def _key(self, role: str, text: str) -> str:
        key = said_key(role, text)
        times = self._memory.get("counts", {}).get(key, 0) + self._new.count(key) + 1
        self._new.append(key)
        return said_key(role, text, times)


def _readable(value: Mapping[str, Any]) -> Mapping[str, Any]:
    _texts(value.get("message"))
    return value


def _replies(message: object) -> list[str]:
    return [text for text in map(said, _texts(message)) if text]


def _texts(message: object) -> list[str]:
    content = message.get("content") if isinstance(message, Mapping) else message
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        raise Unreadable("message.content is neither text nor a list of blocks")
    return [text for block in content if text_of(block, "type") == "text" and (text := text_of(block, "text"))]


def directory_of(path: Path) -> str:
    """The directory of a transcript's project, which the client's name for it only hints at."""
    parts = path.parts
    if _FOLDER not in parts or parts.index(_FOLDER) == 0:
        return ""
    name = parts[parts.index(_FOLDER) - 1]
    return str(_matching(Path(path.anchor or "/"), name) or "/" + name.replace("-", "/"))


def _matching(folder: Path, name: str) -> Path | None:
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
            found = _matching(one, name[len(hint) + 1 :])
            if found:
                return found
    return None
