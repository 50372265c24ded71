"""What a request to forget would take, line by line; and what is near one that takes nothing.

Whatever is quoted here was written by anyone: it is cleaned, on one line and in quotes, so that it reads as data.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mcp_memory.app import App
from mcp_memory.domain.events import Event
from mcp_memory.domain.forget import ForgetCounts, ForgetRequest
from mcp_memory.domain.text import beginning, one_line, safe
from mcp_memory.navigate.shapes import iso
from mcp_memory.search.retrieval import near_spellings
from mcp_memory.store.port import Store

_EXCERPT_CHARS, _NAME_CHARS = 140, 60
#: How many names are offered instead of one that is unknown, and how many characters of it they share at least.
_NEAR_NAMES, _SHARED_CHARS = 3, 3
#: The shortest word that may stand as a hint.
_SHORTEST_WORD = 3
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class PreviewLine:
    """An event that would go: when and where it was said, by whom, and the part of it that holds the text."""

    event_id: str
    time: str
    moment: str
    session: str
    role: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The first lines that would go, how many more there are, and hints about what is near."""

    lines: tuple[PreviewLine, ...] = ()
    more: int = 0
    hints: tuple[str, ...] = ()

    def rendered(self) -> list[str]:
        shown = [f"  {line.moment}  {line.role} in {line.session}: “{line.excerpt}”" for line in self.lines]
        return [*shown, *([f"  and {self.more} more"] if self.more else []), *self.hints]

    def as_json(self) -> dict[str, object]:
        lines = [{name: value for name, value in asdict(line).items() if name != "moment"} for line in self.lines]
        return {"lines": lines, "more": self.more, "hints": list(self.hints)}


async def preview(
    app: App, store: Store, request: ForgetRequest, found: ForgetCounts, *, anything: bool, part_option: str
) -> Preview:
    """Return what a user should see before agreeing to a request. `part_option` takes a text inside of words."""
    events = [event for key in found.first for event in await store.events_to_forget(ForgetRequest(event_key=key), 1)]
    lines = tuple(_line(app, event, request) for event in events)
    if anything:
        hints = [_inside_words(found, "more ", part_option)] if found.in_words else []
        if request.before_ms is not None:
            hints.insert(0, f"Everything dated before {app.answers.renderer.moment(request.before_ms)}.")
    else:
        hints = await _near(app, store, request, found, part_option)
    return Preview(lines, found.events - len(lines) if lines else 0, tuple(hints))


def _line(app: App, event: Event, request: ForgetRequest) -> PreviewLine:
    match = request.text_match
    excerpt = match.excerpt(event.text, _EXCERPT_CHARS) if match else one_line(safe(event.text), _EXCERPT_CHARS)
    at_ms = event.timestamp_ms
    moment = app.answers.renderer.moment(at_ms)
    return PreviewLine(
        event.event_id, iso(at_ms), moment, safe(event.session_id, _NAME_CHARS), str(event.role), excerpt
    )


async def _near(app: App, store: Store, request: ForgetRequest, found: ForgetCounts, part_option: str) -> list[str]:
    """Return what comes close to a request that takes nothing."""
    if request.match is not None:
        return await _near_text(store, request, found, part_option)
    if request.session_id is not None:
        return await _near_session(store, request.session_id)
    if request.before_ms is not None:
        moment = app.answers.renderer.moment
        times = [project.first_ms for project in await store.projects() if project.first_ms is not None]
        oldest = f"The oldest line is dated {moment(min(times))}." if times else "Memory is empty."
        return [f"No line is dated before {moment(request.before_ms)}. {oldest}"]
    if request.event_key is not None:
        return [
            "No event has this id. It may be forgotten already; `mcp-memory search` shows the ids of what is there."
        ]
    return []


async def _near_text(store: Store, request: ForgetRequest, found: ForgetCounts, part_option: str) -> list[str]:
    text = request.match or ""
    hints = [f"No line holds {_quoted(text)}{'' if request.part else ' as a word'}."]
    if found.in_words:
        return [f"{hints[0]} {_inside_words(found, '', part_option)}"]
    spelled = await near_spellings(store, text)
    hints += [
        f"Spelled almost like {_quoted(word)}: {', '.join(map(_quoted, others))}."
        for word, others in spelled.items()
        if others
    ]
    words = [word for word in dict.fromkeys(_WORD.findall(text.lower())) if len(word) >= _SHORTEST_WORD]
    known = await store.known(words)
    if len(words) == 1 and known:
        hints.append(f"Other forms of it are there: {_quoted(beginning(words[0]))} with {part_option} takes them.")
    elif apart := [word for word in words if word in known]:
        hints.append(f"Lines hold {', '.join(map(_quoted, apart))} apart: match one of them.")
    return hints


async def _near_session(store: Store, name: str) -> list[str]:
    hint = f"There is no session {_quoted(name)}."
    for length in range(len(name), _SHARED_CHARS - 1, -1):
        if found := await store.sessions(name[:length], _NEAR_NAMES):
            return [f"{hint} Sessions whose names begin alike: {', '.join(map(_quoted, found))}."]
    return [f"{hint} `mcp-memory sessions` lists them."]


def near_projects(name: str, slugs: Sequence[str]) -> str:
    """Return a sentence that offers projects spelled like a name; nothing if there are none."""
    small = {slug.lower(): slug for slug in slugs}
    found = difflib.get_close_matches(name.lower(), list(small), _NEAR_NAMES)
    found += [slug for slug in small if slug not in found and (slug in name.lower() or name.lower() in slug)]
    return f" Did you mean {' or '.join(_quoted(small[slug]) for slug in found[:_NEAR_NAMES])}?" if found else ""


def _inside_words(found: ForgetCounts, more: str, part_option: str) -> str:
    words = f" ({', '.join(map(_quoted, found.words))})" if found.words else ""
    lines, them = ("line holds", "it") if found.in_words == 1 else ("lines hold", "them")
    return f"{found.in_words} {more}{lines} it as a part of other words{words}: {part_option} takes {them}."


def _quoted(text: str) -> str:
    return f"'{one_line(safe(text), _NAME_CHARS)}'"
