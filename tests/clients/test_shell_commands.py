"""Shell commands of several lines: all clients keep them whole, and what came of them stays apart."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_memory.capture.redaction import Clean
from mcp_memory.clients import CLIENTS
from mcp_memory.clients.claude_tools import headline
from mcp_memory.clients.codex_tools import ToolOutput, tool_event
from mcp_memory.clients.lines import Origin
from mcp_memory.domain.events import Captured, Event
from mcp_memory.summaries.calls import Source, call_of, lasting_errors, told_by_call

SCRIPT = "set -e\ncd shop\n\nfor one in *; do\n  build $one\ndone"


def ran(client: str, command: str, output: str = "31 built") -> Captured:
    """A command as the hook of a client tells it."""
    payload: dict[str, Any] = {"session_id": "s1", "cwd": "/home/dev", "hook_event_name": "PostToolUse"}
    payload |= {"tool_use_id": "t1", "tool_name": "Bash", "tool_input": {"command": command}}
    payload["tool_response"] = {"stdout": output}
    if client == "cursor":
        payload |= {"conversation_id": "s1", "hook_event_name": "postToolUse", "tool_name": "Shell"}
        payload |= {"cursor_version": "3", "tool_output": output}
    if client == "gemini":
        payload |= {"hook_event_name": "AfterTool", "tool_name": "run_shell_command"}
        payload["tool_response"] = {"llmContent": f"Command: x\nOutput: {output}"}
    if client == "codex":
        payload["tool_response"] = output
    reading = CLIENTS[client].hook(payload, 1)
    (event,) = reading.events or reading.fallback
    return event


def stored(told: Captured) -> Event:
    clean = Clean(told.text)
    facts = {"source_ids": told.source_ids, "metadata": told.metadata}
    return Event(b"k" * 10, "c", "s1", "p", 1, told.event_type, told.role, clean, 1, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini", "cursor"])
def test_every_client_keeps_all_lines_of_a_command(client: str) -> None:
    told = ran(client, SCRIPT)
    name, _, rest = told.text.partition(": ")
    assert name in ("Bash", "Shell", "run_shell_command")
    assert rest == f"{SCRIPT}\n31 built"
    event = stored(told)
    assert (event.text[event.call_end :], told.metadata["call_lines"]) == ("\n31 built", 6)


def test_no_more_than_four_thousand_characters_of_a_command_are_kept() -> None:
    command = "cat <<EOF\n" + "line\n" * 2_000
    event = stored(ran("claude-code", command))
    kept = event.text[len("Bash: ") : event.call_end]
    assert (len(kept), kept[-1]) == (4_000, "…")
    assert command.startswith(kept[:-1])


def test_a_long_command_is_kept_whole_behind_its_headline() -> None:
    command = "build " + "--flag " * 80 + "shop"
    event = stored(ran("claude-code", command))
    first, second, output = event.text.split("\n")
    assert (len(first) < 320, second, output) == (True, command, "31 built")
    assert event.text[event.call_end :] == "\n31 built"


def test_a_command_of_one_line_has_no_number_of_lines() -> None:
    told = ran("claude-code", "make test")
    assert (told.text, "call_lines" in told.metadata) == ("Bash: make test\n31 built", False)


def test_the_headline_by_which_an_export_knows_a_call_stays_one_line() -> None:
    assert headline("Bash", {"command": SCRIPT}, "") == "Bash: set -e"


def test_an_error_is_found_behind_the_script_that_failed() -> None:
    script = "set -e\necho 'Error: not this one, it is only printed'\nmake"
    origin = Origin("codex", "s1", 1, "hook")
    told = tool_event(
        origin, "t1", ("Bash", {"command": script}), ToolOutput("make: error: no rule to build `shop.o`", 2)
    )
    assert told is not None
    event = stored(told)
    call = call_of(event)
    assert call is not None
    assert (call.target, call.failed) == ("set -e", True)
    ((_, start, end),) = lasting_errors([event])
    assert told.text[start:end] == "make: error: no rule to build `shop.o`"


def test_the_message_of_a_commit_is_found_behind_a_long_script() -> None:
    script = "cat > a.txt <<'EOF'\n" + "words of the file\n" * 150 + "EOF\ngit commit -am 'Mend the fence by the gate'"
    (told,) = told_by_call(stored(ran("claude-code", script)))
    assert (told.source, told.text) == (Source.COMMIT, "Mend the fence by the gate")
