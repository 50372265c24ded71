"""Invented conversations for the summarizer's tests."""

from __future__ import annotations

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
START_MS = 1_767_690_000_000


def event(number: int, event_type: EventType, text: str) -> Event:
    key = event_key("test", "session", str(number))
    role = ROLES.get(event_type, Role.SYSTEM)
    return Event(
        key, "test", "session", "shop", START_MS + number * 20_000, event_type, role, Clean(text), len(text) // 4
    )


def conversation(*turns: tuple[str, str], first: int = 0) -> list[Event]:
    """Events from (who, text) pairs; who is user, assistant, tool, note or compaction."""
    types = {
        "user": EventType.USER_MESSAGE,
        "assistant": EventType.ASSISTANT_MESSAGE,
        "tool": EventType.TOOL_RESULT,
        "note": EventType.NOTE,
        "compaction": EventType.COMPACTION,
        "start": EventType.SESSION_START,
    }
    return [event(first + index, types[who], text) for index, (who, text) in enumerate(turns)]


def summary(*turns: tuple[str, str]) -> SegmentSummary:
    return summarize_segment(conversation(*turns), [])


def title(*turns: tuple[str, str]) -> str:
    return summary(*turns).title


def bullets(*turns: tuple[str, str]) -> list[str]:
    return [bullet.shown for bullet in summary(*turns).bullets]


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
