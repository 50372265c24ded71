"""The example configuration must work as it stands, but for the path."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.capture.conftest import Machine

REPO = Path(__file__).parents[2]
EXAMPLE = json.loads((REPO / "claude_config.example.json").read_text(encoding="utf-8"))


def test_example_starts_the_server() -> None:
    assert EXAMPLE["mcpServers"] == {"memory": {"command": "mcp-memory", "args": ["serve"]}}


def test_every_hook_of_the_example_captures_its_event(machine: Machine) -> None:
    for event, (group,) in EXAMPLE["hooks"].items():
        (hook,) = group["hooks"]
        words = shlex.split(hook["command"].replace("/path/to/mcp-memory", str(REPO)))
        assert words[0] == "python3"
        data = json.dumps(machine.payload(event)).encode()
        subprocess.run([sys.executable, *words[1:]], input=data, env=machine.environment(), check=True, timeout=60)
    assert [payload["hook_event_name"] for payload in machine.payloads()] == list(EXAMPLE["hooks"])
    assert {row["client"] for row in machine.spooled()} == {"claude-code"}


def test_hooks_end_before_the_client_would_end_them() -> None:
    timeouts = {event: group[0]["hooks"][0]["timeout"] for event, group in EXAMPLE["hooks"].items()}
    assert timeouts.pop("SessionEnd") == 1
    assert set(timeouts.values()) == {10}
