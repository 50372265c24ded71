"""Conversations that SpecStory exported to Markdown as events.

The same conversation may be known from its client: then the same words are one event. What tools gave back is left out,
because the export words it anew, and a call that a hook captured would become a second memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mcp_memory.clients.account import Account
from mcp_memory.clients.cursor_text import said, said_key, typed
from mcp_memory.clients.lines import modified_ms, rewritten
from mcp_memory.clients.port import BadLine, Told, TranscriptState
from mcp_memory.domain.events import EventType, Role

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


def read(path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
    """The events of the whole file, if it has changed since it was read."""
    for data in rewritten(path, state):
        reader = _Reader(path)
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


class _Reader:
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
        for text in map(said, _replies("\n".join(message.body))):
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


def _replies(body: str) -> list[str]:
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
