"""Conversations that SpecStory exported to Markdown, as events: of any client, and in that client's name.

Times are rough in an export, names of lines and calls are missing. A message is known by its words, a call by its
headline, and each by how many times it came before: so reading a file that has grown tells nothing twice. What tools
did, and that a turn was interrupted, the export words anew: the store takes it only for sessions of whose tools no
other source has told.

What a tool gave back may hold lines that read like those of an export, and fences that do not pair. A speaker's line
or a tool's end counts by what stands around it and by its time: one that is quoted is older than what quotes it.
"""

from __future__ import annotations

import html
import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

from mcp_memory.capture.hook import CLAUDE_CODE, CURSOR
from mcp_memory.clients import claude_tools, codex_tools, cursor_transcript
from mcp_memory.clients.claude_prompts import LEAD, SplitMessage, client_events, message_of
from mcp_memory.clients.cursor_transcript import said_key
from mcp_memory.clients.lines import EXPORT, Origin, digest, modified_ms, rewritten, stop_event
from mcp_memory.clients.port import BadLine, TranscriptState
from mcp_memory.clients.replies import CARRY_OUT, PLAN, refusal
from mcp_memory.clients.specstory_tools import APPROVED, FENCE, TODO_LIST, WRITTEN, ToolUse, is_bare
from mcp_memory.domain.events import Captured, EventType

_CODEX = "codex"
_CLIENTS = {"claude": CLAUDE_CODE, "codex": _CODEX, "gemini": "gemini"}
#: What was typed, as each client's own reader tells it.
_TYPED: dict[str, Callable[[str], str]] = {_CODEX: codex_tools.typed}
_LINE_END = re.compile(r"\r?\n")
_SESSION = re.compile(r"<!--\s*(.*?)\s*Session\s+([0-9A-Za-z-]{8,})\s*(?:\(([^)]*)\))?\s*-->")
_TITLE = re.compile(r"#{1,2} (.*?)[ \t]*(?:\(?(\d{4}-\d\d-\d\d[ T_]\d\d[:-]\d\d[^)]*)\)?|\(\d[^)]*\))?\s*$")
_NO_TITLES = frozenset({"", "SpecStory", "Untitled"})
_SPEAKER = re.compile(r"_\*\*(User|Agent|Assistant)( - sidechain)?((?:\s*\([^)]*\))*)\*\*_\s*$")
#: Stands in the oldest exports where the agent goes on.
_GOES_ON = "_****_"
_MESSAGE_ID = "<!-- message-id:"
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T_](\d\d[:-]\d\d(?:[:-]\d\d)?)(?:\.\d+)?\s*(Z|[+-]\d\d:?\d\d)?")
_MODEL = re.compile(r"(?:model )?([\w.:/<>-]*[A-Za-z][\w.:/<>-]*)")
_RULE = re.compile(r"---[ \t]*")
_RULES_AROUND = re.compile(r"\A(?:---[ \t]*(?:\n\s*|\Z))+|(?:\n\s*---[ \t]*)+\Z")
#: What an agent did or thought between two things it said: by its tags, and as the oldest exports tell it.
_BLOCK = re.compile(r"<(?:(think|tool-use)\b|(details)>\s*<summary>\s*(Tool use:|Thought Process))|(Tool use: \*\*)")
_READ_FILE = re.compile(r" `\./(.+)`")
_TAGS = ("think", "tool-use", "details")
#: A tag that a client writes for a slash command, which an export may have escaped.
_COMMAND_TAG = re.compile(r"(?:<|\\<|&lt;)(command-(?:name|message|args))\b")
#: The client says these in the user's name, and marks them where the export does not.
_NOT_TYPED = re.compile(r"Base directory for this skill:|(?:\[Image: [^\]]*\]\s*)+\Z|\[SUGGESTION MODE:")
_SUGGESTION = "[SUGGESTION MODE:"
_CONTINUED = "This session is being continued from a previous conversation"
#: How near after a plan that is carried out at once that is asked for.
_SOON_LINES = 12
#: So soon after a command that is a prompt, or a skill, comes what the client puts in its place.
_AT_ONCE_MS = 2_000
_MINUTE_MS = 60_000


def looks_exported(path: Path) -> bool:
    """Whether the file's beginning is that of an export."""
    try:
        with path.open("rb") as file:
            head = file.read(4096).decode("utf-8", "replace")
    except OSError:
        return False
    return "SpecStory" in head[:400] or any(_SPEAKER.match(line) for line in head.splitlines())


def read_export(path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
    """The events of the whole file, if it has changed since it was read."""
    for data in rewritten(path, state):
        empty = True
        for event in _Export(path, data.decode("utf-8", "replace")).read():
            empty = False
            yield event
        if empty:
            yield BadLine(str(path), 1, "no message of a conversation found")


def _moment(words: str) -> int | None:
    """The time that is told there, in milliseconds since 1970."""
    found = _TIME.search(words)
    if not found:
        return None
    try:
        zone = (found[3] or "Z").replace("Z", "+00:00")
        moment = datetime.fromisoformat(f"{found[1]}T{found[2].replace('-', ':')}{zone}")
        return int(moment.astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _recorded_root(lines: list[str]) -> str:
    """The directory that a session ran in, maybe on another machine: what is read is told from there, edits are not."""
    told = {found[1] for line in lines if (found := _READ_FILE.fullmatch(line))}
    votes = Counter[str]()
    for path in {found[1] for line in lines if (found := WRITTEN.match(line)) and found[1]}:
        names = path.split("/")
        for depth in range(1, len(names)):
            if "/".join(names[depth:]) in told:
                votes["/".join(names[:depth])] += len(names) - depth
    return max(votes, key=lambda root: (votes[root], root), default="")


class _Export:
    """Reads one export, turn by turn. What has no time follows what came before."""

    def __init__(self, path: Path, text: str) -> None:
        # An export lies in `.specstory/history` of the directory that it was made in.
        made = (str(folder.parent) for folder in path.parents if folder.name == ".specstory")
        self._cwd = next(made, str(path.parent))
        self._lines = lines = _LINE_END.split(text.rstrip())
        self._fences = [place for place, line in enumerate(lines) if FENCE.match(line)]
        #: The last line that may end a block, by its tag: so what has no end is not looked through for one.
        self._last_end = {tag: place for place, line in enumerate(lines) for tag in _TAGS if f"</{tag}>" in line}
        self._root = _recorded_root(lines)
        self._client, self._session = CURSOR, f"specstory:{path.stem}"
        self._ms, self._timed = _moment(path.stem) or modified_ms(path), False
        self._counts: dict[str, int] = {}
        self._tasks = Counter[str]()
        self._title = ""
        #: When the first turn, the one that is being read and the last of the user's began, as far as told.
        self._first_ms = self._turn_ms = self._user_ms = 0
        self._at = self._expands_until = 0
        self._suggesting = False

    def read(self) -> Iterator[Captured]:
        speaker: re.Match[str] | None = None
        parts: list[str | ToolUse] = []
        body: list[str] = []
        fence, index = "", 0
        while index < len(self._lines):
            line = self._lines[index]
            session = None if fence else _SESSION.match(line)
            heading = self._speaker(index, fence)
            if heading and heading[1] == "User" and self._goes_on(speaker, body, index):
                pass
            elif session or heading:
                self._at = index
                yield from self._titled(self._turn(speaker, [*parts, "\n".join(body)]))
                speaker, parts, body, fence = heading, [], [], ""
                if session:
                    self._begin_session(session)
                elif heading:
                    self._begin_turn(heading)
            elif speaker is None:
                self._begin_conversation(_TITLE.match(line))
            elif not fence and speaker[1] != "User" and (end := self._block_end(index, body)) is not None:
                block = self._lines[index : end + 1]
                parts += ["\n".join(body), *([] if line.startswith("<think") else [ToolUse.of(block)])]
                body, index = [], end
            elif line != _GOES_ON and not (body == [] and line.startswith(_MESSAGE_ID)):
                body.append(line)
                fence = _fence_after(fence, line)
            index += 1
        if parts and isinstance(parts[-1], ToolUse) and not any(map(str.strip, body)) and not parts[-1].is_done:
            parts.pop()  # it still runs: when it is done, the file will be written again
        yield from self._titled(self._turn(speaker, [*parts, "\n".join(body)]))

    def _titled(self, events: Iterator[Captured]) -> Iterator[Captured]:
        """The events, and before the first of a session the name that its client gave it."""
        for event in events:
            if self._title:
                named = Origin(self._client, self._session, event.timestamp_ms, EXPORT, self._cwd, {"source": "thread"})
                yield named.event(f"title:thread:{digest(self._title)}", EventType.SESSION_TITLE, self._title)
                self._title = ""
            yield event

    def _speaker(self, index: int, fence: str) -> re.Match[str] | None:
        """The speaker's line that this is, unless it is quoted."""
        found = _SPEAKER.match(self._lines[index])
        if not found or not fence:
            ms = _moment(found[3]) if found else None
            return None if ms is not None and ms < self._first_ms - _MINUTE_MS else found
        if not self._is_blank(index - 1) or not (self._is_blank(index + 1) or _MESSAGE_ID in self._lines[index + 1]):
            return None
        ms = _moment(found[3])
        if ms is not None:
            return found if ms >= self._turn_ms else None
        # Without a time, a fence that is opened anew tells that the open one was never closed.
        following = bisect(self._fences, index)
        return None if following < len(self._fences) and is_bare(self._lines[self._fences[following]]) else found

    def _is_blank(self, index: int) -> bool:
        return not 0 <= index < len(self._lines) or not self._lines[index].strip()

    def _goes_on(self, speaker: re.Match[str] | None, body: list[str], index: int) -> bool:
        """Whether the turn that begins here only has the next tag of a slash command."""
        told = "\n".join(body).strip()
        following = next((line for line in self._lines[index + 1 : index + 4] if line.strip()), "")
        tag = _COMMAND_TAG.match(following.lstrip())
        here = speaker is not None and speaker[1] == "User" and _COMMAND_TAG.match(told)
        return bool(here and tag and tag[1] not in told)

    def _block_end(self, index: int, body: list[str]) -> int | None:
        """The last line of the block that begins here; None if none does, or it never ends."""
        lines = self._lines
        found = _BLOCK.match("\n".join(lines[index : index + 2]).lstrip(" \t"))
        if not found:
            return None
        if found[4]:
            return self._section_end(index, body)
        tag = found[1] or found[2]
        fence, ends = "", list[int]()
        for place in range(index, self._last_end.get(tag, -1) + 1):
            line = lines[place].rstrip()
            if line.endswith(f"</{tag}>") and (place == index or line.startswith("</") or tag != "tool-use"):
                if tag != "tool-use" or self._closes(place, fence):
                    return place
                ends.append(place)
            fence = _fence_after(fence, line)
        return ends[0] if ends else None

    def _section_end(self, index: int, body: list[str]) -> int | None:
        """The last line of a call without tags: in the oldest exports, it is all that stands between two rules."""
        if not _RULE.fullmatch(next((line for line in reversed(body) if line.strip()), "---")):
            return None
        fence = ""
        for place in range(index, len(self._lines)):
            if not fence and _RULE.fullmatch(self._lines[place]) or self._speaker(place, fence):
                return place - 1
            fence = _fence_after(fence, self._lines[place])
        return len(self._lines) - 1

    def _closes(self, place: int, fence: str) -> bool:
        """Whether a tool really ends there, by what follows; fences that are no longer than usual need not pair."""
        rest = map(self._lines.__getitem__, range(place + 1, len(self._lines)))
        following = next((line for line in rest if line.strip() and not _RULE.fullmatch(line)), None)
        if following is None:
            return True
        speaker = _SPEAKER.match(following)
        ms = _moment(speaker[3]) if speaker else None
        if ms is not None:
            return ms >= (self._turn_ms if len(fence) > 3 else self._user_ms)
        return not fence and not FENCE.match(following)

    def _begin_session(self, found: re.Match[str]) -> None:
        self._client = next((name for word, name in _CLIENTS.items() if word in found[1].lower()), CURSOR)
        self._session, self._title = found[2], "" if self._counts else self._title
        self._counts.clear()
        self._tasks.clear()
        self._first_ms = self._turn_ms = self._user_ms = 0
        self._set_time(_moment(found[3] or ""))

    def _begin_conversation(self, found: re.Match[str] | None) -> None:
        if found:
            self._set_time(_moment(found[2] or ""))
            self._title = self._title if found[1] in _NO_TITLES else found[1]

    def _begin_turn(self, speaker: re.Match[str]) -> None:
        ms = _moment(speaker[3])
        self._set_time(ms)
        if ms is not None:
            self._turn_ms, self._first_ms = ms, self._first_ms or ms
            self._user_ms = ms if speaker[1] == "User" else self._user_ms

    def _set_time(self, ms: int | None) -> None:
        if ms is not None:
            self._ms, self._timed = max(self._ms, ms) if self._timed else ms, True

    def _turn(self, speaker: re.Match[str] | None, parts: list[str | ToolUse]) -> Iterator[Captured]:
        if speaker is None or speaker[2] or "(sidechain)" in speaker[3]:  # that is what a subagent said
            return
        if speaker[1] == "User":
            yield from self._user("\n".join(part for part in parts if isinstance(part, str)))
            return
        model = _MODEL.match(_TIME.sub("", speaker[3]).strip(" ()"))
        if self._suggesting or (model and model[1] == "<synthetic>"):
            return
        facts = {"model": model[1] if model else ""}
        said = claude_tools.said if self._client == CLAUDE_CODE else cursor_transcript.said
        for part in parts:
            if isinstance(part, str) and TODO_LIST.match(part.strip()):
                part = ToolUse("TodoWrite", "task", "", part, "", None)
            if isinstance(part, ToolUse):
                yield from self._tool(part)
            elif text := said(_RULES_AROUND.sub("", part.strip()).strip()):
                yield self._message("assistant", EventType.ASSISTANT_MESSAGE, text, facts)

    def _user(self, text: str) -> Iterator[Captured]:
        expanded, self._expands_until = 0 < self._turn_ms <= self._expands_until, 0
        text = re.sub(r"\n---\s*\Z", "", text.strip()).strip()
        if escaped := _COMMAND_TAG.match(text):
            text = html.unescape(text).replace("\\<", "<").replace("\\>", ">")
        self._suggesting = text.startswith(_SUGGESTION)
        if claude_tools.interrupted(text):
            yield stop_event(self._next(), self._key("interrupted", ""), "", stopped=True)
        elif text.startswith(_CONTINUED):
            key = self._key("compaction", digest(text))
            yield self._next().event(key, EventType.COMPACTION, claude_tools.compact_summary(text))
        elif not _NOT_TYPED.match(text) and not expanded:
            message = message_of(text) if self._client == CLAUDE_CODE else SplitMessage(self._typed(text))
            yield from self._not_asked(message)
            is_first = not any(name.startswith("user:") for name in self._counts)
            asked = [letter.text for letter in message.letters if letter.sender == LEAD or is_first]
            text = "\n\n".join(filter(None, (message.words, *asked)))
            if text and escaped:
                self._expands_until = self._turn_ms + _AT_ONCE_MS
            if text:
                yield self._message("user", EventType.USER_MESSAGE, text, {})

    def _not_asked(self, message: SplitMessage) -> Iterator[Captured]:
        """What the client says in a user message, and a command that the user ran."""
        if message.reports or message.notices:
            yield from client_events(self._next(), message)
        given = {"command": message.command}
        if message.command and not claude_tools.is_own("Bash", given):
            name = self._key("", digest(f"! {message.command}")).removeprefix(":")
            yield from claude_tools.tool_events(self._next(), name, "Bash", given, "", (), failed=False, by_user=True)

    def _typed(self, text: str) -> str:
        return _TYPED.get(self._client, cursor_transcript.typed)(text)

    def _tool(self, use: ToolUse) -> Iterator[Captured]:
        if use.name == "Skill":
            self._expands_until = self._turn_ms + _AT_ONCE_MS
        # By what it says alone: what stands after it may still be missing when it is read first.
        name = self._key("", digest(use.headline(self._cwd))).removeprefix(":")
        following = self._lines[self._at : self._at + _SOON_LINES]
        if use.name == PLAN and CARRY_OUT in following and refusal(use.output or "") == "":
            rest = self._lines[self._at + following.index(CARRY_OUT) + 1 :]
            plan = "\n".join(takewhile(lambda line: not _SPEAKER.match(line), rest)).strip()
            use = replace(use, output=f"{APPROVED}{_RULES_AROUND.sub('', plan)}")
        yield from use.as_listed(self._tasks).below(self._root).events(self._next(), name)

    def _message(self, role: str, event_type: EventType, text: str, facts: dict[str, str]) -> Captured:
        key = said_key(role, text)
        self._counts[key] = times = self._counts.get(key, 0) + 1
        return self._next(facts).event(said_key(role, text, times), event_type, text)

    def _key(self, kind: str, words: str) -> str:
        """A name for what has none: the same words again have their number."""
        name = f"{kind}:{words}"
        self._counts[name] = times = self._counts.get(name, 0) + 1
        return name if times == 1 else f"{name}:{times}"

    def _next(self, facts: dict[str, str] | None = None) -> Origin:
        """Each event a little later than the one before, so that they keep their order."""
        self._ms += 1
        return Origin(self._client, self._session, self._ms, EXPORT, self._cwd, facts or {})


def _fence_after(fence: str, line: str) -> str:
    """The fence that is open after the line: what looks like a speaker inside one is a quotation."""
    found = FENCE.match(line)
    if not found:
        return fence
    if not fence:
        return found[1]
    return "" if found[1].startswith(fence) and is_bare(line) else fence
