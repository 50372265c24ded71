"""What readers remember between two reads: places in their files, and none of the words that stand there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.clients.lines import TOLD
from mcp_memory.clients.port import TranscriptState
from mcp_memory.pipeline.ingest import position_of
from tests.clients.conftest import Transcript
from tests.clients.test_codex_rollout import Rollout

WORD = "quaggaword"


def claude(folder: Path) -> Transcript:
    """A title, a call, a queued prompt and a subagent's answer, each some lines before the line that tells it."""
    script = Transcript(folder / "s1.jsonl", "claude-code")
    queued = {"type": "queue-operation", "sessionId": "s1", "timestamp": "2026-03-01T10:00:30Z"}
    side = {"isSidechain": True, "agentId": "a7"}
    script.write(
        {"type": "summary", "summary": f"The login of {WORD}", "leafUuid": "u6"},
        script.say("user", "Begin."),
        script.use("Bash", {"command": f"login --user {WORD}"}),
        {**queued, "operation": "enqueue", "content": f"And tell {WORD}."},
        script.say("assistant", [{"type": "text", "text": f"I asked {WORD}."}], **side),
        script.use("Write", {"file_path": "/a", "content": f"for {WORD}"}, "t2", **side),
        script.result("written", tool_id="t2", **side),
        {**queued, "operation": "remove"},
        script.result("ok"),
        script.say("assistant", [{"type": "text", "text": f"All of {WORD} is done."}], **side),
    )
    return script


def codex(folder: Path) -> Transcript:
    """A call, what a running process printed, and a reply that waits to be told from a summary."""
    script = Rollout(folder)
    header = "Process running with session ID 7\nOutput:\n"
    script.write(
        script.done("AgentMessage", id="m0"),
        script.call(f"serve {WORD}"),
        script.output(f"{header}first {WORD}\n"),
        script.item("function_call", name="write_stdin", call_id="c2", arguments=json.dumps({"session_id": 7})),
        script.output(f"{header}second {WORD}\n", "c2"),
        *script.reply(f"It serves {WORD}.", twin=False),
        script.user("Good."),
        script.call(f"stop {WORD}", "c3"),
        script.ran("stopped\n", call_id="c3"),
        script.event("task_complete", last_agent_message="Done."),
    )
    return script


def cursor(folder: Path) -> Transcript:
    """A subagent whose last line is its answer."""
    path = folder / "home-dev-shop" / "agent-transcripts" / "s1" / "subagents" / "a7.jsonl"
    script = Transcript(path, "cursor")
    said = [{"type": "text", "text": f"{WORD} has 31."}]
    script.write({"role": "user", "message": {"content": [{"type": "text", "text": "Count them."}]}})
    script.write({"role": "assistant", "message": {"content": said}})
    return script


def vscode(folder: Path) -> Transcript:
    """A call some lines before its end."""
    script = Transcript(folder / "v1.jsonl", "vscode")
    start = {"toolCallId": "c1", "toolName": "run_in_terminal", "arguments": {"command": f"serve {WORD}"}}
    for number, (kind, data) in enumerate(
        [
            ("session.start", {"sessionId": "v1", "context": {"cwd": "/home/dev/shop"}}),
            ("tool.execution_start", start),
            ("user.message", {"content": "Go on."}),
            ("tool.execution_complete", {"toolCallId": "c1", "success": True, "result": {"content": "ok"}}),
        ]
    ):
        script.write({"type": kind, "id": f"e{number}", "timestamp": f"2026-03-01T10:00:0{number}.000Z", "data": data})
    return script


SCRIPTS = pytest.mark.parametrize("make", [claude, codex, cursor, vscode])
Make = Callable[[Path], Transcript]


def told_in_parts(make: Make, folder: Path, at: int, change: Callable[[Transcript], None]) -> list[tuple[str, str]]:
    """What is told if the file ends after a line, is read, and goes on."""
    script = make(folder)
    lines = script.path.read_bytes().splitlines(keepends=True)
    script.path.write_bytes(b"".join(lines[:at]))
    events = script.events()
    change(script)
    with script.path.open("ab") as file:
        file.write(b"".join(lines[at:]))
    events += script.events()
    return [(event.source_key, event.text) for event in events]


def saved(script: Transcript) -> str:
    return json.dumps(position_of(script.state, 0))


@SCRIPTS
def test_a_file_read_in_parts_tells_what_it_tells_at_once_and_no_word_is_saved_between(
    make: Make, tmp_path: Path
) -> None:
    whole = {(event.source_key, event.text) for event in make(tmp_path / "whole").events()}
    assert any(WORD in text for _, text in whole)

    def check(script: Transcript) -> None:
        assert WORD not in saved(script)

    for at in range(1, 12):
        told = told_in_parts(make, tmp_path / str(at), at, check)
        # A subagent that has not finished may seem so where its file ends: it is told then, and again at its end.
        assert whole <= set(told)
        assert {key for key, _ in told} == {key for key, _ in whole}


@SCRIPTS
def test_a_reader_that_lost_its_memory_reads_again_and_tells_only_what_is_new(make: Make, tmp_path: Path) -> None:
    def lose(script: Transcript) -> None:
        script.state = TranscriptState(memory={TOLD: script.state.offset, "unended": None})

    for at in range(1, 12):
        kept = told_in_parts(make, tmp_path / f"kept{at}", at, lambda script: None)
        lost = told_in_parts(make, tmp_path / f"lost{at}", at, lose)
        assert set(lost) == set(kept)


@SCRIPTS
def test_a_file_that_was_written_anew_meanwhile_breaks_no_reader(make: Make, tmp_path: Path) -> None:
    def spoil(script: Transcript) -> None:
        size = script.path.stat().st_size
        script.path.write_bytes(b'{"type": 1, "message": 2, "payload": 3}'.ljust(size - 1) + b"\n")

    for at in range(1, 9):
        told_in_parts(make, tmp_path / str(at), at, spoil)


def test_a_secret_in_a_directory_is_not_saved(tmp_path: Path) -> None:
    script = Transcript(tmp_path / "s1.jsonl", "claude-code")
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    script.write(script.say("user", "Go on.", cwd=f"/home/dev/{token}")).events()
    assert token not in saved(script)


@pytest.mark.parametrize("name", ["toolu_01XFDUDYJgAACzvnptvVoYEL", "call_AbC123xYz9Qw8ErT7yU6", "11111111-aaaa-bbbb"])
def test_names_by_which_results_find_their_calls_are_saved_as_they_are(name: str) -> None:
    memory: dict[str, Any] = {"tools": {name: 12}, "session": name, "own": name, "turn": name, "twins": [name]}
    assert position_of(TranscriptState(9, 1, memory), 0)["memory"] == memory
