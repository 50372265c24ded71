"""Invented conversations for the summarizer's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_memory.capture.redaction import Clean
from mcp_memory.domain.events import Event, EventType, Role, event_key
from mcp_memory.domain.nodes import Bullet, Kind, Node, SegmentSummary
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.summaries.extractive import summarize_segment

ROLES = {
    EventType.USER_MESSAGE: Role.USER,
    EventType.NOTE: Role.USER,
    EventType.ASSISTANT_MESSAGE: Role.ASSISTANT,
    EventType.TOOL_RESULT: Role.TOOL,
}
TYPES = {
    "user": EventType.USER_MESSAGE,
    "assistant": EventType.ASSISTANT_MESSAGE,
    "tool": EventType.TOOL_RESULT,
    "note": EventType.NOTE,
    "compaction": EventType.COMPACTION,
    "start": EventType.SESSION_START,
    "stop": EventType.ASSISTANT_STOP,
    "title": EventType.SESSION_TITLE,
}
START_MS = 1_767_690_000_000
#: Who says what; what a client tells besides may stand third.
Turn = tuple[str, str] | tuple[str, str, Mapping[str, Any]]


def event(number: int, event_type: EventType, text: str, metadata: Mapping[str, Any] | None = None) -> Event:
    key = event_key("test", "session", str(number))
    role, at = ROLES.get(event_type, Role.SYSTEM), START_MS + number * 20_000
    tokens = len(text) // 4
    return Event(
        key, "test", "session", "shop", at, event_type, role, Clean(text), tokens, metadata=dict(metadata or {})
    )


def conversation(*turns: Turn, first: int = 0) -> list[Event]:
    """Events from what was said by whom: user, assistant, tool, note, compaction, start, stop or title."""
    return [event(first + index, TYPES[who], text, *more) for index, (who, text, *more) in enumerate(turns)]


def refused(call: str = "Edit: /home/ada/shop/settings.py") -> Turn:
    """A call that the user turned down."""
    return "tool", f"{call}\nRefused by the user.", {"refused": True, "failed": True}


def refusal(words: str, tool: str = "Edit") -> Turn:
    """What the user typed while turning a call down."""
    return "user", words, {"refuses": tool}


def question(asked: str, chosen: str, *others: str, note: str = "") -> Turn:
    """A question that a tool put to the user, with the answer."""
    lines = [f"AskUserQuestion: {asked}", f"Question: {asked}", f"Chosen: {chosen}"]
    lines += [f"Not chosen: {'; '.join(others)}"] if others else []
    lines += [f"Note: {note}"] if note else []
    return "tool", "\n".join(lines), {"tool": "AskUserQuestion"}


def commit(subject: str, short_hash: str = "1a2b3c4", output: str = "") -> Turn:
    """A commit; clients tell the message of one that landed."""
    came_back = output or f"[main {short_hash}] {subject}\n 2 files changed"
    message = "" if output.startswith("Exit code") else f"Commit message: {subject}\n\n"
    return "tool", f'Bash: git commit -m "{subject}"\n{message}{came_back}'


def edited(name: str) -> Turn:
    return "tool", f"Edit: /home/ada/shop/{name}\nThe file has been updated."


INTERRUPTED: Turn = ("stop", "", {"is_interrupt": True})


def summary(*turns: Turn, after: Sequence[Turn] = ()) -> SegmentSummary:
    """The summary of a segment; `after` is what was said next in the session."""
    return summarize_segment(conversation(*turns), conversation(*after, first=len(turns)))


def title(*turns: Turn) -> str:
    return summary(*turns).title


def bullets(*turns: Turn, after: Sequence[Turn] = ()) -> list[str]:
    return [bullet.shown for bullet in summary(*turns, after=after).bullets]


def told(*turns: Turn, after: Sequence[Turn] = ()) -> str:
    """All that a reader sees of a segment: its title and its bullets, a line each."""
    found = summary(*turns, after=after)
    return "\n".join([found.title, *(bullet.shown for bullet in found.bullets)])


def excerpts(found: SegmentSummary, events: Sequence[Event]) -> list[list[str]]:
    """The words that the grips of each bullet lead to."""
    texts = {one.key: one.text for one in events}
    return [[texts[one.event_key][one.start : one.end] for one in bullet.evidence] for bullet in found.bullets]


PORT = conversation(
    ("user", "hey, can you please fix the checkout test? it fails since the move to Postgres"),
    ("assistant", "Let me look at the test first."),
    ("tool", "Read: /home/anna/shop/tests/test_checkout.py\nimport pytest"),
    ("tool", "Bash: pytest tests/test_checkout.py\nExit code 1\nE   OperationalError: connection refused on port 5433"),
    (
        "assistant",
        "The cause is the port: `docker-compose.yml` maps Postgres to 5432, but `settings.py` uses 5433 because the "
        "old staging tunnel listened there.",
    ),
    ("tool", "Edit: /home/anna/shop/settings.py\nThe file has been updated."),
    ("tool", "Bash: pytest tests/test_checkout.py\n1 passed"),
    (
        "assistant",
        "Done. `settings.py` now reads DATABASE_PORT from the environment.\n\n"
        "I kept the tunnel port in `.env.staging` instead of deleting it, so that staging still works.\n\n"
        "Still open: the CI workflow has its own copy of the port.",
    ),
)


def bullet(shown: str, *grips: str) -> Bullet:
    """A bullet by what is read of it: `Asked: Rename the job` is a request."""
    for kind in Kind:
        if kind.label and shown.startswith(f"{kind.label}: "):
            return Bullet(shown.removeprefix(f"{kind.label}: "), grips, kind=kind)
    did = shown.startswith(("Edited ", "Ran ", "Read "))
    return Bullet(shown, grips, kind=Kind.DID if did else Kind.STATED)


def node(level: Level, key: str, title: str, bullets: list[str], keywords: tuple[str, ...] = ()) -> Node:
    """A child for a rollup, with one grip for every bullet."""
    ref = NodeRef(level, key)
    made = tuple(bullet(text, f"grip:1:{key}-{index}") for index, text in enumerate(bullets))
    return Node(ref, "shop", 1, title, START_MS, START_MS + 1, made, keywords, (), False, "extractive", "hash")


def segment_node(number: int, title: str, bullets: list[str], keywords: tuple[str, ...] = ()) -> Node:
    return node(Level.SEGMENT, f"2026-01-06:{number:026d}", title, bullets, keywords)
