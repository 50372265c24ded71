"""General properties of the extractive summaries of real sessions, where the shared data is at hand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.capture.redaction import Clean
from mcp_memory.domain.events import Event, EventType, Role, event_key
from mcp_memory.domain.segments import Rules, cut, mark_of
from mcp_memory.summaries.extractive import summarize_segment

TRANSCRIPTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "transcripts"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-", re.I)
#: The request that may stand before what a title says, and files or identifiers after it.
NAMES = re.compile(r"^PR \d+: | \([^()]*\)$")
GREETING = re.compile(r"(?:hi|hello|hey|ok so|can you|could you|please|thanks)\b", re.I)

pytestmark = pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="shared/data/transcripts is not beside the repository")


def told(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content or () if block.get("type") == "text")


def read(path: Path) -> list[Event]:
    """The sessions of a transcript in the simplest way that keeps who said what."""
    calls: dict[str, str] = {}
    events = []
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record.get("type") in ("user", "assistant") and not record.get("isMeta"):
            for part, (event_type, role, text) in enumerate(parts(record, calls)):
                moment = datetime.fromisoformat(record["timestamp"]).timestamp()
                key = event_key("test", record["sessionId"], f"{number}/{part}")
                tokens = min(len(text), 1_000 if role is Role.TOOL else len(text)) // 4 + 1
                events.append(
                    Event(
                        key,
                        "test",
                        record["sessionId"],
                        "p",
                        round(moment * 1000),
                        event_type,
                        role,
                        Clean(text),
                        tokens,
                    )
                )
    return sorted(events, key=lambda event: event.timestamp_ms)


def parts(record: dict[str, Any], calls: dict[str, str]) -> Iterator[tuple[EventType, Role, str]]:
    content = record["message"]["content"]
    for block in content if isinstance(content, list) else ():
        if block.get("type") == "tool_use":
            shown = next((value for value in block["input"].values() if isinstance(value, str)), "")
            calls[block["id"]] = f"{block['name']}: {shown.splitlines()[0][:200] if shown else ''}"
        elif block.get("type") == "tool_result":
            head = calls.get(block["tool_use_id"], "Tool")
            yield EventType.TOOL_RESULT, Role.TOOL, f"{head}\n{told(block.get('content'))}"
    if text := told(content):
        if record.get("isCompactSummary"):
            yield EventType.COMPACTION, Role.USER, text
        elif record["type"] == "user":
            yield EventType.USER_MESSAGE, Role.USER, text
        else:
            yield EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, text


def segments() -> Iterator[tuple[str, list[Event], list[Event]]]:
    for path in sorted(TRANSCRIPTS.glob("*.jsonl")):
        events = read(path)
        marks = [
            mark_of(event.key, event.timestamp_ms, event.tokens, 0, event.text[:300], event.role is Role.USER)
            for event in events
        ]
        for piece in cut(marks, Rules(), 1 << 60):
            around = [*events[piece.context : piece.first], *events[piece.last : piece.last + 30]]
            yield path.stem[:15], events[piece.first : piece.last], around


def test_real_segments_read_well() -> None:
    count = 0
    for name, events, context in segments():
        count += 1
        summary = summarize_segment(events, context)
        where = f"{name}: {summary.title}"
        if summary.bullets[0].text.startswith("Ran the command"):
            continue  # nothing else was said
        assert 2 <= len(NAMES.sub("", summary.title).split()) <= 12, where
        assert "<" not in summary.title, where
        assert not summary.title.startswith("/"), where
        assert not summary.title.endswith((".", ",", ":", ";", "…", "-")), where
        assert not GREETING.match(summary.title), where
        assert 1 <= len(summary.bullets) <= 5, where
        texts = {event.key: event.text for event in events}
        for bullet in summary.bullets:
            assert len(bullet.text) <= 220, where
            assert "**" not in bullet.text, where
            assert not bullet.text.endswith(":"), where
            assert bullet.text.count("`") % 2 == 0, where
            assert bullet.evidence, where
            assert all(texts[one.event_key][one.start : one.end].strip() for one in bullet.evidence), where
        assert 1 <= len(summary.keywords) <= 10, where
        assert not any(UUID.search(word) or "/Users/" in word or "/home/" in word for word in summary.keywords), where
    assert count > 20
