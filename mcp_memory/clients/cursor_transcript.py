"""What was really said in Cursor, and its tool calls as text.

Its transcripts give a message neither a name nor a time. So a message is known by its words: the first time they are
said in a conversation by these alone, later by how many times they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from mcp_memory.capture.hook import CURSOR
from mcp_memory.clients.claude_tools import without_injected
from mcp_memory.clients.lines import (
    TRANSCRIPT,
    Account,
    Earlier,
    Unreadable,
    digest,
    growing,
    milliseconds,
    modified_ms,
    rewritten,
    settled,
    text_of,
    told_by,
)
from mcp_memory.clients.port import BadLine, Told, TranscriptState
from mcp_memory.domain.events import EventType, Role

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


def typed(text: str) -> str:
    """What the user typed, from a hook's prompt or a transcript's message."""
    if asked := _QUERY.findall(text):
        text = "\n\n".join(map(str.strip, asked))
    return settled(_ADDED.sub("", without_injected(text)).strip())


def said(text: str) -> str:
    """What the model said, without the marks of thoughts that are not shown."""
    return settled(_HIDDEN_THOUGHT.sub("", text).strip())


def said_key(role: str, text: str, times: int = 1) -> str:
    """How a message is known within its conversation."""
    return f"{role}:{digest(text)}" if times == 1 else f"{role}:{digest(text)}:{times}"


def told_ms(text: str) -> int | None:
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
        return Account(CURSOR, self._session, ms, TRANSCRIPT, memory["cwd"], facts)

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


_VIA = "export"
_CLIENTS = {"claude": "claude-code", "codex": "codex", "gemini": "gemini"}
_SESSION = re.compile(r"<!--\s*(.*?)\s*Session\s+([0-9A-Za-z-]{8,})\s*(?:\(([^)]*)\))?\s*-->")
_TITLE = re.compile(r"#{1,2} .*?\(?(\d{4}-\d\d-\d\d[ T_]\d\d[:-]\d\d[^)]*)\)?\s*$")
_SPEAKER = re.compile(r"_\*\*(User|Agent|Assistant)( - sidechain)?(?:\s*\(([^)]*)\))?\*\*_\s*$")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T_]\d\d[:-]\d\d(?:[:-]\d\d)?\s*(?:Z|[+-]\d\d:?\d\d)?")
_MODEL = re.compile(r"(?:model )?([\w.:/-]*[A-Za-z][\w.:/-]*)")
_FENCE = re.compile(r"\s*(```+|~~~+)")
#: What an agent did or thought between two things it said.
_BETWEEN = re.compile(
    r"<think>.*?</think>|<tool-use\b.*?</tool-use>|<details>\s*<summary>\s*(?:Tool use:|Thought Process).*?</details>",
    re.DOTALL,
)
_CUT = "\0"


@dataclass(slots=True)
class _Message:
    line: int
    speaker: str
    facts: str
    body: list[str]


def read_export(path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
    """The events of the whole file, if it has changed since it was read."""
    for data in rewritten(path, state):
        reader = _Export(path)
        empty = True
        for told in reader.read(data.decode("utf-8", "replace")):
            empty = False
            yield told
        if empty:
            yield BadLine(str(path), 1, "no message of a conversation found")


def looks_exported(path: Path) -> bool:
    """Whether the file's beginning is that of an export."""
    try:
        with path.open("rb") as file:
            head = file.read(4096).decode("utf-8", "replace")
    except OSError:
        return False
    return "SpecStory" in head[:400] or any(_SPEAKER.match(line) for line in head.splitlines())


class _Export:
    """Reads one export. Times are rough in it: what has none follows what came before."""

    def __init__(self, path: Path) -> None:
        self._cwd = _project(path)
        self._client, self._session = "cursor", f"specstory:{path.stem}"
        self._ms = modified_ms(path)
        self._timed = False
        self._counts: dict[str, int] = {}

    def read(self, text: str) -> Iterator[Told]:
        message: _Message | None = None
        fence = ""
        for number, line in enumerate(text.splitlines(), 1):
            if not fence and (speaker := _SPEAKER.match(line)):
                yield from self._tell(message)
                side = "sidechain" if speaker[2] else speaker[1]
                message = _Message(number, side, speaker[3] or "", [])
            elif not fence and (session := _SESSION.match(line)):
                yield from self._tell(message)
                message = None
                self._begin(session)
            elif message is None:
                self._set_time(_TITLE.match(line))
            else:
                message.body.append(line)
                fence = _fence_after(fence, line)
        yield from self._tell(message)

    def _begin(self, session: re.Match[str]) -> None:
        words = session[1].lower()
        self._client = next((name for word, name in _CLIENTS.items() if word in words), "cursor")
        self._session = session[2]
        self._counts.clear()
        self._set_time(_TIME.search(session[3] or ""))

    def _set_time(self, found: re.Match[str] | None) -> None:
        moment = _moment(found[found.lastindex or 0]) if found else None
        if moment is not None:
            self._ms = moment if not self._timed else max(self._ms, moment)
            self._timed = True

    def _tell(self, message: _Message | None) -> Iterator[Told]:
        if message is None or message.speaker == "sidechain":
            return
        self._set_time(_TIME.search(message.facts))
        if message.speaker == "User":
            text = typed(_without_rule("\n".join(message.body)))
            if text:
                yield self._account("").tell(self._key("user", text), EventType.USER_MESSAGE, Role.USER, text)
            return
        model = _MODEL.match(_TIME.sub("", message.facts).strip())
        for text in map(said, _exported_replies("\n".join(message.body))):
            if text:
                account = self._account(model[1] if model else "")
                yield account.tell(self._key("assistant", text), EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, text)

    def _account(self, model: str) -> Account:
        self._ms += 1
        return Account(self._client, self._session, self._ms, _VIA, self._cwd, {"model": model})

    def _key(self, role: str, text: str) -> str:
        key = said_key(role, text)
        self._counts[key] = self._counts.get(key, 0) + 1
        return said_key(role, text, self._counts[key])


def _fence_after(fence: str, line: str) -> str:
    """The fence that is open after the line: what looks like a speaker inside one is a quotation."""
    found = _FENCE.match(line)
    if not found:
        return fence
    if not fence:
        return found[1]
    return "" if found[1].startswith(fence) and not line.strip().strip("`~") else fence


def _exported_replies(body: str) -> list[str]:
    """What was said between what was done: a rule inside a reply belongs to it, one around a tool does not."""
    parts: list[str] = []
    goes_on = False
    for part in re.split(r"\n---[ \t]*(?=\n|\Z)", "\n" + _BETWEEN.sub(_CUT, body)):
        for index, piece in enumerate(part.split(_CUT)):
            text = piece.strip()
            goes_on = goes_on and index == 0
            if not text or text.startswith("Tool use: **"):
                goes_on = False
            elif goes_on:
                parts[-1] += f"\n\n---\n\n{text}"
            else:
                parts.append(text)
                goes_on = True
    return parts


def _without_rule(body: str) -> str:
    return re.sub(r"\n---\s*\Z", "", body.strip())


def _moment(text: str) -> int | None:
    found = _TIME.search(text)
    if not found:
        return None
    stamp = found[0].strip().replace("_", " ")
    day, clock = stamp[:10], stamp[11:].replace("Z", "+00:00").replace(" ", "")
    clock = re.sub(r"^(\d\d)-(\d\d)(?:-(\d\d))?", lambda m: ":".join(filter(None, m.groups())), clock)
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}")
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _project(path: Path) -> str:
    """The directory that the export was made in: it lies in `.specstory/history` there."""
    for folder in path.parents:
        if folder.name == ".specstory":
            return str(folder.parent)
    return str(path.parent)
