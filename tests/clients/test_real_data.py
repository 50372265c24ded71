"""Real transcripts and recorded hook payloads, where they are at hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from mcp_memory.clients import CLIENTS, detect
from mcp_memory.clients.port import TranscriptState
from mcp_memory.domain.events import Captured

SHARED = Path(__file__).parents[3] / "shared"
TRANSCRIPTS = SHARED / "data" / "transcripts"
REPLAY = SHARED / "real-client" / "replay"
needs_transcripts = pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the real transcripts are not at hand")
needs_replay = pytest.mark.skipif(not REPLAY.is_dir(), reason="the recorded hook payloads are not at hand")


@pytest.fixture(scope="module")
def events() -> list[Captured]:
    reader = CLIENTS["claude-code"]
    found = [item for path in reader.transcripts([TRANSCRIPTS]) for item in reader.read(path, TranscriptState())]
    events = [item for item in found if isinstance(item, Captured)]
    assert len(events) == len(found), "a line could not be read"
    return events


@needs_transcripts
def test_real_transcripts_give_every_prompt_text_and_tool_result(events: list[Captured]) -> None:
    assert Counter(event.event_type.value for event in events) == {
        "tool_result": 910,  # as many as there are
        "assistant_message": 379,  # of 393 text blocks, 11 are blank and 3 the client's own
        # 79 of 102 user texts, the others are commands and the client's; 3 from the queue, 5 typed on a refusal
        "user_message": 87,
        "assistant_stop": 5,
        "compaction": 2,
        "session_title": 5,  # of 41 titles these name a line of the same file
    }


@needs_transcripts
def test_real_events_say_something_once_and_nothing_injected(events: list[Captured]) -> None:
    assert all(event.text.strip() for event in events)
    assert not [event.source_key for event in events if "<system-reminder>" in event.text]
    assert max(Counter((event.session_id, event.source_key) for event in events).values()) == 1


@needs_transcripts
def test_real_transcripts_are_recognized() -> None:
    assert {path.name: getattr(detect(path), "name", None) for path in TRANSCRIPTS.glob("*.jsonl")} == {
        path.name: "claude-code" for path in TRANSCRIPTS.glob("*.jsonl")
    }


@needs_transcripts
def test_tool_results_read_alike_with_and_without_the_tools_own_object(tmp_path: Path) -> None:
    """A subagent's transcript lacks the object: most calls must read the same all the same."""
    reader, alike, other = CLIENTS["claude-code"], 0, Counter[str]()
    for path in TRANSCRIPTS.glob("*.jsonl"):
        bare = tmp_path / path.name
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        bare.write_text("".join(json.dumps({**line, "toolUseResult": None}) + "\n" for line in lines), "utf-8")
        with_object, without = (
            {item.source_key: item for item in reader.read(file, TranscriptState()) if isinstance(item, Captured)}
            for file in (path, bare)
        )
        assert with_object.keys() == without.keys()
        for key, event in with_object.items():
            if event.text.split() == without[key].text.split():
                alike += 1
            else:
                other[event.metadata["tool"]] += 1
    assert alike > 1300
    assert other.keys() <= {"WebSearch", "Grep"}, "only what the client words anew or cuts may differ"


@needs_replay
@pytest.mark.parametrize("folder", ["claude-code", "claude-code-tui", "claude-code-plugin"])
def test_every_recorded_payload_is_known(folder: str) -> None:
    reader = CLIENTS["claude-code"]
    telling = (
        "SessionStart",
        "SessionEnd",
        "UserPromptSubmit",
        "PostToolUse-",
        "PostToolUseFailure",
        "Stop",
        "Subagent",
    )
    dull = ("PostToolUse-ToolSearch", "SubagentStop-compaction-agent")
    for path in sorted((REPLAY / folder).glob("*.json")):
        hooked = reader.hook(json.loads(path.read_text("utf-8")), 1)
        assert not hooked.unknown, path.name
        assert bool(hooked.events) == (path.name.startswith(telling) and not path.name.startswith(dull)), path.name
        assert bool(hooked.fallback) == (path.name in ("Stop.json",) or path.name.startswith("PostCompact")), path.name
